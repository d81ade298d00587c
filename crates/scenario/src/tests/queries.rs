//! `[[query]]` and `[[drive.table]]`.

use super::*;
use byteway_query::Form;
use byteway_workload::query::{Amount, Generator, QueryPlace, RowSource};

const DRIVE: &str = "[drive]\nprofile = \"modern-gen5\"\npersonality = \"tables\"\n\
                     [[drive.table]]\nname = \"particles\"\ngenerate = \"vpic\"\nrows = 100\n";

fn with(lines: &str) -> Result<Scenario, InputError> {
    parse(&format!("{DRIVE}[[query]]\n{lines}"), &[])
}

fn sent(scenario: &Scenario) -> Vec<(Form, String)> {
    let Source::Queries(plan) = &scenario.jobs[0].source else { unreachable!() };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    plan.tasks.iter().map(|task| (task.form(), text(task.payload()))).collect()
}

// A silent change of a default changes the queries and rows of every scenario that relies on it.
#[test]
fn the_least_job_gets_its_defaults() {
    let scenario = with("sql = \"SELECT id FROM particles\"\ncount = 7\n").unwrap();
    let job = &scenario.jobs[0];
    assert_eq!((job.name.as_str(), job.iodepth, job.workers, job.nsid), ("query0", 1, 1, 1));
    let Source::Queries(plan) = &job.source else { unreachable!() };
    assert_eq!((plan.place, plan.host_hertz), (QueryPlace::Drive, 3_000_000_000));
    assert_eq!(sent(&scenario), [(Form::Sql, "SELECT id FROM particles".to_owned())]);
    assert_eq!(scenario.command_count(), Some(7));
    let table = &scenario.drives[0].plan.tables[0];
    assert_eq!((table.nsid, &table.source), (1, &RowSource::Drawn(Generator::Vpic, Amount::Rows(100))));
    assert!(scenario.notes(0).contains(&"table particles: 100 rows of the generator vpic".to_owned()));
}

// If one notation meant something else, it would measure another query.
#[test]
fn a_query_is_said_in_any_form() {
    let scenario =
        with("segment = [\"particles energy > 1.3\", \"particles\"]\nform = \"sql\"\ncount = 1\n").unwrap();
    let texts = ["SELECT * FROM particles WHERE energy > 1.3", "SELECT * FROM particles"];
    assert_eq!(sent(&scenario), texts.map(|text| (Form::Sql, text.to_owned())));
    let scenario =
        with("sql = \"SELECT * FROM particles WHERE energy > 1.3\"\nform = \"segment\"\ncount = 1\n")
            .unwrap();
    assert_eq!(sent(&scenario), [(Form::Segment, "particles (energy > 1.3)".to_owned())]);
    let scenario = with("segment = \"particles energy > 1.3\"\nform = \"compact\"\ncount = 1\n").unwrap();
    assert_eq!(sent(&scenario)[0].0, Form::Compact);
}

// An invalid query would otherwise be found after building and loading, or count as a failed query.
#[test]
fn wrong_queries_have_their_line_and_their_cure() {
    for (lines, line, what, help) in [
        ("sql = \"SELEC id FROM particles\"\ncount = 1\n", "s.toml:9:7", "invalid SQL", "write one SELECT"),
        (
            "sql = \"SELECT mass FROM particles\"\ncount = 1\n",
            "s.toml:9:7",
            "no column \"mass\"",
            "one of these",
        ),
        ("sql = \"SELECT id FROM atoms\"\ncount = 1\n", "s.toml:9:7", "no table `atoms`", "`particles`"),
        (
            "sql = \"SELECT a.id FROM particles a LEFT JOIN particles b ON a.id = b.id\"\ncount = 1\n",
            "s.toml:9:7",
            "OUTER, SEMI, ANTI or ASOF JOIN",
            "check",
        ),
        ("segment = \"particles energy >\"\ncount = 1\n", "s.toml:9:11", "invalid SQL", "predicate"),
        (
            "sql = [\"SELECT id FROM particles\", \"x\"]\ncount = 1\n",
            "s.toml:9:36",
            "`query.0.sql.1`",
            "SELECT",
        ),
        ("sql = []\ncount = 1\n", "s.toml:9:7", "no query", "write one"),
        ("count = 1\n", "s.toml:8:1", "one of `sql` and `segment`", "give `sql"),
        ("sql = \"SELECT id FROM particles\"\n", "s.toml:8:1", "never ends", "count"),
        (
            "sql = \"SELECT id FROM particles\"\ncount = 1\niodepth = 9\nnumjobs = 2\n",
            "s.toml:11:11",
            "18 queries at once",
            "csd.cursors = 18",
        ),
        (
            "sql = \"SELECT id FROM particles\"\nform = \"segment\"\ncount = 1\n",
            "s.toml:9:7",
            "all of their columns",
            "leave `form` out",
        ),
        (
            "sql = \"SELECT id FROM particles\"\ncount = 1\nexecute = \"both\"\n",
            "s.toml:11:11",
            "both",
            "drive",
        ),
    ] {
        assert_error(with(lines), line, what, help);
    }
}

// A missing table must be reported before the run.
#[test]
fn wrong_tables_are_named() {
    let drive = |personality: &str, table: &str| {
        parse(
            &format!(
                "[drive]\nprofile = \"modern-gen5\"\n{personality}[[drive.table]]\nname = \"t\"\n{table}\
                 [[query]]\nsql = \"SELECT COUNT(*) FROM t\"\ncount = 1\n"
            ),
            &[],
        )
    };
    let tables = "personality = \"tables\"\n";
    for (personality, table, line, what, help) in [
        ("", "generate = \"vpic\"\nrows = 5\n", "s.toml:3", "holds no tables", "personality"),
        (tables, "", "s.toml:4", "come from a file or a generator", "file ="),
        (tables, "generate = \"vpic\"\n", "s.toml:6", "`drive.table.0.rows`", "rows ="),
        (tables, "generate = \"vpic\"\nscale = 1.0\n", "s.toml:7", "have a scale", "rows ="),
        (tables, "file = \"none.parquet\"\n", "s.toml:6", "none.parquet", "check the path"),
        (tables, "file = \"none.parquet\"\nrows = 5\n", "s.toml:7", "a file determines", "leave it out"),
    ] {
        assert_error(drive(personality, table), line, what, help);
    }
    let scale = drive(tables, "generate = \"tpch-lineitem\"\nscale = 0.01\n").unwrap();
    assert_eq!(
        scale.drives[0].plan.tables[0].source,
        RowSource::Drawn(Generator::TpchLineitem, Amount::Scale(0.01))
    );
    // Such a drive accepts only queries.
    let job = parse(&format!("{DRIVE}[[job]]\nrw = \"read\"\ncount = 1\n"), &[]);
    assert_error(job, "s.toml:8", "personality = \"tables\"", "[[query]]");
    assert_error(parse(DRIVE, &[]), "", "no job", "[[query]]");
}

// A query that the drive executes in part is sent as written; a segment cannot be split.
#[test]
fn a_query_may_be_split() {
    let join =
        "sql = \"SELECT a.id FROM particles a JOIN particles b ON a.id = b.id ORDER BY 1\"\ncount = 1\n";
    assert_eq!(sent(&with(join).unwrap())[0].0, Form::Sql);
    assert_eq!(sent(&with(&format!("{join}form = \"compact\"\n")).unwrap())[0].0, Form::Compact);
    let segment = with(&format!("{join}form = \"segment\"\n"));
    assert_error(segment, "s.toml:9:7", "a segment only selects rows", "give `sql`");
}

// A check asks whether the drive would refuse; invalid SQL is an error nevertheless.
#[test]
fn a_check_may_be_refused() {
    let join = "sql = \"SELECT a.id FROM particles a JOIN particles b ON a.id = b.id\"\n";
    let scenario = with(&format!("{join}execute = \"check\"\ncount = 1\n")).unwrap();
    assert_eq!(sent(&scenario)[0].0, Form::Sql);
    assert!(with("sql = \"SELEC\"\nexecute = \"check\"\ncount = 1\n").is_err());
}
