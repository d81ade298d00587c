//! Queries as jobs, from scenario to summary.

use crate::common::{results, run, run_with, scenario};
use byteway_results::summary::{QueryRow, Summary};
use std::path::Path;

const DRIVE: &str = "[drive]\nprofile = \"cosmos-plus\"\npersonality = \"tables\"\ncapacity = \"1 GiB\"\n\
                     [[drive.table]]\nname = \"particles\"\ngenerate = \"vpic\"\nrows = 3000\n\
                     [[drive.table]]\nname = \"region\"\ngenerate = \"tpch-region\"\nrows = 5\n\
                     [host]\nprofile = \"cosmos\"\n";

fn only(summary: &Summary) -> &QueryRow {
    let [row] = &summary.queries[..] else { panic!("{:#?}", summary.queries) };
    row
}

fn payload_bytes(summary: &Summary) -> u64 {
    summary.link.iter().map(|row| row.payload_bytes).sum()
}

// Figures by hand, or a comparison of drives would compare miscounts: three of the five regions begin with A; each query is a task, as long
// as its text, and one fetch.
#[test]
fn a_query_is_counted_as_what_it_is() {
    let sql = "SELECT r_name FROM region WHERE r_name LIKE 'A%'";
    let summary = run(&format!("{DRIVE}[[query]]\nsql = \"{sql}\"\ncount = 20\nnumjobs = 2\n"));
    let row = only(&summary);
    assert_eq!((row.job.as_str(), row.executed_by.as_str()), ("query0", "drive"));
    assert_eq!((summary.ios, row.figures.ios, row.rows, row.commands), (20, 20, 60, 40));
    assert_eq!((row.task_bytes, row.host_cycles, row.refused), (20 * sql.len() as u64, 0, 0));
    assert_eq!((summary.verification.on, summary.verification.mismatches), (true, 0));
    // Where the time goes sums to the latency: of two commands, one right after the other.
    let spans: f64 = summary.spans.iter().map(|span| span.mean_ns).sum();
    assert!((spans / row.figures.latency.mean_ns - 1.0).abs() < 1e-3, "{spans} {row:?}");
}

// Push-down that gave other rows, or that moved as much, would be worth nothing: drive and host find the same, the host reads the whole
// columns, and the decision is the one that moves less.
#[test]
fn whoever_executes_it_the_rows_are_the_same() {
    let of = |execute: &str, predicate: &str| {
        run(&format!(
            "{DRIVE}[[query]]\nsql = \"SELECT id, energy FROM particles WHERE {predicate}\"\nexecute = \"{execute}\"\ncount = 3\n"
        ))
    };
    let (drive, host) = (of("drive", "x < 0.01"), of("host", "x < 0.01"));
    let (drive, host) = (only(&drive), only(&host));
    assert_eq!(drive.rows, host.rows);
    assert!((30..300).contains(&drive.rows), "{drive:?}");
    assert!(drive.read_bytes * 4 < host.read_bytes, "{drive:?} {host:?}");
    // Three queries read id, energy and x of 3,000 rows: 8, 4 and 4 bytes, if no encoding makes less of the ids.
    assert!(host.read_bytes <= 3 * (3000 * 16 + 1000) && host.read_bytes > 3 * 3000 * 8, "{host:?}");
    assert_eq!((drive.host_cycles, host.task_bytes), (0, 0));
    assert!(host.host_cycles > 0);
    // By the estimate; which of the two is the faster, is another test's.
    let few = of("adaptive", "x < 0.01");
    let who = only(&few).executed_by.as_str();
    let wanted = format!("the {who} executes `SELECT id");
    assert!(few.notes.iter().any(|note| note.contains(&wanted)), "{:?}", few.notes);
}

// A host that reads a table one command after the other takes as many times longer as it could have commands outstanding: what push-down
// is compared with would be a straw man. Sixteen commands of 128 KiB keep all channels busy, as a driver's would.
#[test]
fn a_host_that_reads_a_table_keeps_the_drive_busy() {
    let host = all_rows("cosmos-plus", "host");
    let channels = host.utilisation.iter().find(|row| row.resource == "channels").unwrap();
    assert!(channels.mean > 0.85, "{channels:?}");
}

// Where all rows are wanted push-down saves nothing; a drive that reads, evaluates and sends one after the other would be far slower than
// the host. Its query may take a tenth more.
#[test]
fn a_drive_that_gives_all_rows_is_not_much_slower_than_the_host() {
    let of = |execute| only(&all_rows("modern-gen5", execute)).figures.latency.mean_ns;
    let (drive, host) = (of("drive"), of("host"));
    assert!(drive < 1.1 * host, "{drive} ns by the drive, {host} ns by the host");
}

fn all_rows(profile: &str, execute: &str) -> Summary {
    let drive = DRIVE.replace("rows = 3000", "rows = 100000").replace("cosmos-plus", profile);
    let sql = "SELECT * FROM particles WHERE x < 1";
    let summary = run(&format!("{drive}[[query]]\nsql = \"{sql}\"\nexecute = \"{execute}\"\ncount = 3\n"));
    assert_eq!((only(&summary).rows, only(&summary).executed_by.as_str()), (300_000, execute));
    summary
}

// More groups than a drive holds are made by the host, also in a job whose answers are verified; it was an error before anything ran.
#[test]
fn a_job_may_ask_for_more_groups_than_the_drive_holds() {
    for (execute, verify) in [("drive", true), ("host", true), ("drive", false)] {
        let drive = DRIVE.replace("rows = 3000", "rows = 66000");
        let summary = run(&format!(
            "{drive}verify = {verify}\n[[query]]\nsql = \"SELECT id, COUNT(*) AS n FROM particles GROUP BY id\"\n\
             execute = \"{execute}\"\ncount = 2\n"
        ));
        assert_eq!(
            (only(&summary).rows, summary.errors.len()),
            (132_000, 0),
            "{execute}: {:?}",
            summary.errors
        );
        assert_eq!(summary.verification.mismatches, 0);
    }
}

// A task's way by hand: on this board PRP fetches a page, and inline a chunk of 64 B for each that the task has; nothing else differs.
#[test]
fn a_check_is_the_way_of_the_task_alone() {
    let of = |sql: &str, method: &str| {
        run(&format!(
            "{DRIVE}[transfer]\nmethod = \"{method}\"\n[[query]]\nsql = \"{sql}\"\nexecute = \"check\"\ncount = 50\n"
        ))
    };
    let short = "SELECT id FROM particles WHERE energy > 1.3";
    let longer = "SELECT id, x, y, z, ux, uy, uz FROM particles WHERE energy > 1.3 AND x < 0.5";
    assert!(short.len() <= 64 && (65..=128).contains(&longer.len()));
    for (sql, chunks) in [(short, 1), (longer, 2)] {
        let (prp, inline) = (of(sql, "prp"), of(sql, "inline"));
        let saved = payload_bytes(&prp) - payload_bytes(&inline);
        assert_eq!(saved, 50 * (4096 - 64 * chunks), "{sql}");
        assert_eq!((only(&prp).rows, only(&prp).commands, only(&prp).refused), (0, 50, 0));
        assert!(only(&inline).figures.latency.mean_ns < only(&prp).figures.latency.mean_ns, "{sql}");
    }
    let join = of("SELECT a.id FROM particles a JOIN region b ON a.id = b.r_regionkey", "piggyback");
    assert_eq!((only(&join).refused, only(&join).figures.ios, join.errors.len()), (50, 50, 0));
}

// Several queries in turn, in three forms, deep and from several workers; and other jobs' keys.
#[test]
fn jobs_of_queries_are_jobs() {
    let summary = run(&format!(
        "{DRIVE}[[query]]\nname = \"mix\"\nsql = [\"SELECT COUNT(*), SUM(r_regionkey) FROM region\", \
         \"SELECT MAX(energy) FROM particles WHERE z > 0.5\"]\nform = \"compact\"\niodepth = 3\nnumjobs = 2\ncount = 24\n\
         [[query]]\nname = \"later\"\nsegment = \"particles energy > 0.5\"\nstonewall = true\nruntime = \"3 ms\"\nramp_time = \"1 ms\"\n"
    ));
    let [mix, later] = &summary.queries[..] else { panic!("{:#?}", summary.queries) };
    assert_eq!((mix.job.as_str(), mix.figures.ios, mix.rows), ("mix", 24, 24));
    assert!(later.figures.ios > 0 && later.rows > later.figures.ios, "{later:?}");
    let tables = summary.to_tables();
    for part in ["Queries", "Latency of queries", "query results verified", "mix", "later"] {
        assert!(tables.contains(part), "{part}\n{tables}");
    }
}

// The same seed must give the same rows, times and bytes; another seed other rows.
#[test]
fn the_same_seed_gives_the_same_figures() {
    let text = format!(
        "{DRIVE}[[query]]\nsql = \"SELECT id FROM particles WHERE ux > 0.7\"\niodepth = 4\ncount = 12\n"
    );
    let json = || results(&text).summary.to_json();
    assert_eq!(json(), json());
    let rows = |seed: &str| only(&run_with(&text, &[seed])).rows;
    assert_ne!(rows("seed=1"), rows("seed=2"));
    assert_eq!(scenario(&text).command_count(), Some(12));
}

/// A push-down and the same by the host, over the particles of the scenario that shows it: all columns of the rows whose `x` is less.
fn pushed_and_read(rows: u64, less_than: f64) -> [QueryRow; 2] {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/pushdown.toml");
    let text = std::fs::read_to_string(file).unwrap();
    ["drive", "host"].map(|execute| {
        let summary = run_with(
            &text,
            &[
                &format!("drive.table.0.rows={rows}"),
                &format!("query.0.sql=\"SELECT * FROM particles WHERE x < {less_than}\""),
                &format!("query.0.execute={execute}"),
                "query.0.count=3",
            ],
        );
        only(&summary).clone()
    })
}

// Push-down must pay in the documented scenario: for one row in a hundred at most 3 % of the table's bytes
// move; for all rows it is hardly slower than reading them; and in between the two curves cross at most once.
#[test]
fn push_down_pays_where_few_rows_pass_and_costs_little_where_all_do() {
    let rows = 20_000;
    // Three queries by the host read all columns.
    let table_bytes = pushed_and_read(rows, 2.0)[1].read_bytes;
    let mut ratios = Vec::new();
    for share in [0.0001, 0.001, 0.01, 0.1, 0.5, 1.0] {
        let [drive, host] = pushed_and_read(rows, share);
        assert_eq!(drive.rows, host.rows, "{share}");
        let passed = drive.rows as f64 / (3 * rows) as f64;
        assert!((passed - share).abs() < 0.01, "{share}: {passed}");
        let ratio = drive.figures.latency.mean_ns / host.figures.latency.mean_ns;
        let moved = drive.read_bytes as f64 / table_bytes as f64;
        eprintln!(
            "{:.2} % of the rows: {:.2} % of the bytes, {ratio:.3} of the time",
            share * 100.0,
            moved * 100.0
        );
        if share <= 0.01 {
            assert!(moved <= 0.03, "{share}: {moved} of the bytes moved");
        }
        assert!(ratio <= 1.1, "{share}: {ratio} of the host's time");
        ratios.push(ratio);
    }
    // More rows never make push-down look better, but for what a row group more or less takes.
    assert!(ratios.windows(2).all(|pair| pair[0] <= pair[1] * 1.02), "{ratios:?}");
}

// A drive refuses a query that it supports only in part. The parts that it supports are pushed down, the host
// does the rest, and the rows are the same wherever the parts are executed. The host's work is charged to the
// host.
#[test]
fn a_query_is_split_between_drive_and_host() {
    let of = |execute: &str, sql: &str| {
        run(&format!("{DRIVE}[[query]]\nsql = \"{sql}\"\nexecute = \"{execute}\"\ncount = 2\n"))
    };
    for (sql, rows) in [
        ("SELECT id, energy FROM particles WHERE x < 0.5 ORDER BY energy DESC LIMIT 7 OFFSET 3", 7),
        ("SELECT COUNT(DISTINCT id), SUM(id) / COUNT(*) FROM particles", 1),
        (
            "SELECT r_name, COUNT(*) AS n FROM particles JOIN region ON id = r_regionkey GROUP BY r_name ORDER BY n DESC, 1",
            5,
        ),
        ("SELECT DISTINCT id // 1000 FROM particles ORDER BY 1", 3),
    ] {
        let [drive, host, adaptive] = ["drive", "host", "adaptive"].map(|execute| of(execute, sql));
        for summary in [&drive, &host, &adaptive] {
            assert_eq!((only(summary).rows, summary.verification.mismatches), (2 * rows, 0), "{sql}");
            assert_eq!((only(summary).figures.ios, summary.errors.len()), (2, 0), "{sql}");
        }
        assert_eq!((only(&drive).executed_by.as_str(), only(&host).executed_by.as_str()), ("drive", "host"));
        assert!(only(&drive).host_cycles > 0 && only(&drive).task_bytes > 0, "{sql}: {:?}", only(&drive));
        assert!(only(&host).host_cycles > only(&drive).host_cycles, "{sql}");
        assert!(adaptive.notes.iter().any(|note| note.contains("is split: ")), "{:?}", adaptive.notes);
    }
}

// A host whose work costs other cycles than the drive's makes every comparison of the two one of constants: both are the profile's.
#[test]
fn the_host_works_by_the_profile_too() {
    let cycles = |overrides: &str| {
        let sql = "SELECT id FROM particles WHERE energy > 1";
        let text = DRIVE.replacen("[[drive.table]]", &format!("{overrides}[[drive.table]]"), 1);
        only(&run(&format!("{text}[[query]]\nsql = \"{sql}\"\nexecute = \"host\"\ncount = 1\n"))).host_cycles
    };
    let none = "[drive.override]\ncsd.decode_cycles = 0\ncsd.evaluate_cycles = 0\ncsd.output_cycles = 0\n";
    assert_eq!(cycles(none), 0);
    let (once, twice) = (cycles(""), cycles("[drive.override]\ncsd.evaluate_cycles = 128\n"));
    assert!(once > 0 && twice > once, "{once} {twice}");
}

// A check has no answer, so none was verified.
#[test]
fn checks_verify_nothing() {
    let summary = run(&format!(
        "{DRIVE}[[query]]\nsql = \"SELECT id FROM particles\"\nexecute = \"check\"\ncount = 3\n"
    ));
    let tables = summary.to_tables();
    assert!(
        tables.contains("no results were verified") && !tables.contains("results verified against"),
        "{tables}"
    );
}

// A result that is short is fetched without a list of pages: the list would be most of what crosses.
#[test]
fn a_short_result_is_fetched_without_a_list() {
    let of = |sql: &str| run(&format!("{DRIVE}[[query]]\nsql = \"{sql}\"\ncount = 4\n"));
    let lists = |summary: &Summary| -> u64 {
        summary.link.iter().filter(|row| row.purpose.contains("list")).map(|row| row.payload_bytes).sum()
    };
    assert_eq!(lists(&of("SELECT COUNT(*) FROM particles")), 0);
    assert!(lists(&of("SELECT * FROM particles")) > 0);
}

// One of many queries of a scenario overflows: the error must name it.
#[test]
fn a_query_that_fails_before_the_run_names_its_job() {
    let text = format!(
        "{DRIVE}[[query]]\nname = \"fine\"\nsql = \"SELECT id FROM particles\"\ncount = 1\n\
         [[query]]\nname = \"large\"\nsql = \"SELECT id * 9223372036854775807 FROM particles\"\ncount = 1\n"
    );
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("s.toml"), text).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_byteway"))
        .current_dir(folder.path())
        .args(["run", "s.toml", "--quiet"])
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && words.contains("job `large`: overflow"), "{words}");
}

// Bytes that a query moves are its cost: a comparison that called them throughput would favor the query that
// moves most.
#[test]
fn a_comparison_of_queries_has_no_throughput_in_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "{DRIVE}[[query]]\nsql = \"SELECT id FROM particles WHERE x < 0.01\"\nexecute = \"drive\"\ncount = 2\n"
    );
    std::fs::write(folder.path().join("s.toml"), text).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_byteway"))
        .current_dir(folder.path())
        .args(["compare", "s.toml", "--vary", "execute=drive,host", "--quiet"])
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(shown.contains("IOPS") && !shown.contains("B/s"), "{shown}");
}
