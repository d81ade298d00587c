//! `byteway csd` as a user asks for it: rows filtered by a program (`--program`), and rows of generators.

use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

/// The program of docs/tasks/programs.md: 1 where the first column, of 8 bytes, is 3 modulo 10 and not null.
const FILTER: [[u8; 8]; 8] = [
    [0x71, 0x12, 8, 0, 0, 0, 0, 0],  // r2 = *(u8 *)(r1 + 8), whether it is null
    [0x55, 0x02, 4, 0, 0, 0, 0, 0],  // if r2 != 0 goto 0
    [0x79, 0x12, 0, 0, 0, 0, 0, 0],  // r2 = *(u64 *)(r1 + 0)
    [0x97, 0x02, 0, 0, 10, 0, 0, 0], // r2 %= 10
    [0xb7, 0x00, 0, 0, 1, 0, 0, 0],  // r0 = 1
    [0x15, 0x02, 1, 0, 3, 0, 0, 0],  // if r2 == 3 goto the end
    [0xb7, 0x00, 0, 0, 0, 0, 0, 0],  // r0 = 0
    [0x95, 0, 0, 0, 0, 0, 0, 0],     // exit
];

/// 1,000 rows: a number, of which each 50th is null, and a text.
fn write_parquet(path: &Path) {
    let numbers: Int64Array = (0..1000).map(|n| (n % 50 != 0).then_some(n)).collect();
    let texts: StringArray = (0..1000).map(|n| Some(format!("row {n}"))).collect();
    let schema = Arc::new(Schema::new(vec![
        Field::new("n", DataType::Int64, true),
        Field::new("s", DataType::Utf8, false),
    ]));
    let rows = RecordBatch::try_new(schema.clone(), vec![Arc::new(numbers), Arc::new(texts)]).unwrap();
    let mut writer = ArrowWriter::try_new(std::fs::File::create(path).unwrap(), schema, None).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
}

/// An ELF object with these instructions in its only section.
fn object(code: &[u8]) -> Vec<u8> {
    let mut file = vec![0; 64];
    file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    file[18..20].copy_from_slice(&247_u16.to_le_bytes());
    file[40..48].copy_from_slice(&(64 + code.len() as u64).to_le_bytes());
    (file[58], file[60]) = (64, 1);
    file.extend_from_slice(code);
    let mut section = [0; 64];
    (section[4], section[8], section[24]) = (1, 6, 64);
    section[32..40].copy_from_slice(&(code.len() as u64).to_le_bytes());
    file.extend_from_slice(&section);
    file
}

fn byteway(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_byteway")).current_dir(folder).args(words).output().unwrap()
}

#[track_caller]
fn printed(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{output:?}");
    (text(&output.stdout), text(&output.stderr))
}

// The command of the chapter must do what the chapter says: the drive and this host run the same program, and SQL says the same.
#[test]
fn a_program_filters_the_rows_of_a_query() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write_parquet(&path.join("t.parquet"));
    let code = FILTER.concat();
    std::fs::write(path.join("filter.bpf"), &code).unwrap();
    std::fs::write(path.join("filter.o"), object(&code)).unwrap();
    let ask = |more: &[&str]| {
        let mut words = vec!["csd", "query", "--load", "t=t.parquet", "--format", "csv", "--quiet"];
        words.extend_from_slice(more);
        byteway(path, &words)
    };
    let (by_sql, _) = printed(&ask(&["SELECT s, n FROM t WHERE n % 10 = 3"]));
    assert_eq!(by_sql.lines().count(), 101);
    for file in ["filter.bpf", "filter.o"] {
        let words = ["SELECT s, n FROM t", "--program", file, "--columns", "n", "--on", "both"];
        let (rows, compared) = printed(&ask(&words));
        assert_eq!(rows, by_sql, "{file}");
        assert!(compared.contains("drive") && compared.contains("host"), "{compared}");
    }
    let (count, _) =
        printed(&ask(&["SELECT COUNT(*) FROM t WHERE n < 500", "--program", "filter.o", "--columns", "n"]));
    assert_eq!(count.lines().nth(1), Some("50"));
    // A drive in a directory that says nothing of programs has none, and one that does has.
    let drive = "[drive]\nprofile = \"cosmos-plus\"\npersonality = \"tables\"\ncapacity = \"1 GiB\"\n";
    std::fs::write(path.join("without.toml"), drive).unwrap();
    std::fs::write(path.join("with.toml"), format!("{drive}[drive.override.programs]\nmemory = \"4 MiB\"\n"))
        .unwrap();
    for (name, has_programs) in [("without", false), ("with", true)] {
        let file = format!("{name}.toml");
        let place = ["--drive", &file, "--data", name, "--quiet"];
        printed(&byteway(path, &[&["csd", "load", "t", "t.parquet"][..], &place].concat()));
        let words = [
            "csd",
            "query",
            "SELECT s, n FROM t",
            "--program",
            "filter.o",
            "--columns",
            "n",
            "--format",
            "csv",
        ];
        let asked = byteway(path, &[&words[..], &place].concat());
        match has_programs {
            true => assert_eq!(printed(&asked).0, by_sql),
            false => {
                let words = String::from_utf8_lossy(&asked.stderr).into_owned();
                assert!(!asked.status.success() && words.contains("no programs namespace"), "{words}");
                assert!(words.contains("[drive.override.programs]"), "{words}");
            }
        }
    }
}

// A developer without a file of rows has nothing to try push-down on: rows of a generator go where those of a file do, and a wrong amount is
// an error that says how to write it.
#[test]
fn rows_of_a_generator_are_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let drive = "[drive]\nprofile = \"cosmos-plus\"\npersonality = \"tables\"\ncapacity = \"1 GiB\"\n";
    std::fs::write(path.join("drive.toml"), drive).unwrap();
    let place = ["--drive", "drive.toml", "--data", "data", "--quiet"];
    let with = |words: &[&str]| byteway(path, &[&["csd"][..], words, &place].concat());
    printed(&with(&["load", "nation", "--generate", "tpch-nation", "--scale", "0.01"]));
    printed(&with(&["load", "particles", "--generate", "vpic", "--rows", "500", "--seed", "3"]));
    printed(&with(&["load", "particles", "--generate", "vpic", "--rows", "20", "--seed", "3"]));
    let sql = "SELECT COUNT(*), MAX(id) FROM particles";
    let (rows, _) = printed(&with(&["query", sql, "--format", "csv"]));
    assert_eq!(rows.lines().nth(1), Some("520,499"));
    let alone = |sql: &str, load: &str, more: &[&str]| {
        byteway(
            path,
            &[&["csd", "query", sql, "--load", load, "--format", "csv", "--quiet"][..], more].concat(),
        )
    };
    let of_nation = "SELECT n_name FROM nation WHERE n_regionkey = 2";
    let (kept, _) = printed(&with(&["query", of_nation, "--format", "csv"]));
    assert_eq!(kept.lines().count(), 6, "{kept}");
    assert_eq!(printed(&alone(of_nation, "nation=tpch-nation,scale=1", &[])).0, kept);
    let (one, two) = (
        printed(&alone("SELECT x FROM p", "p=vpic,rows=9", &["--seed", "1"])).0,
        printed(&alone("SELECT x FROM p", "p=vpic,rows=9", &["--seed", "2"])).0,
    );
    assert_eq!(one.lines().count(), 10);
    assert_ne!(one, two);
    // A result without rows has its columns nevertheless.
    assert_eq!(printed(&alone("SELECT id, x FROM p WHERE x > 2", "p=vpic,rows=9", &[])).0, "id,x\n");
    for (load, words) in [
        ("p=vpic", "write `vpic,rows=100000`"),
        ("p=vpic,rows=", "write `vpic,rows=100000`"),
        ("p=vpic,rows=0", "choose 1 to"),
        ("p=vpic,rows=-1", "write `vpic,rows=100000`"),
        ("p=vpic,scale=1", "give the number of rows"),
        ("p=tpch-region,scale=1e9", "choose 0.001 to 100"),
        ("p=tpch-region,scale=nan", "choose 0.001 to 100"),
        ("p=vpicc,rows=9", "check the path"),
    ] {
        let asked = alone("SELECT 1 FROM p", load, &[]);
        let said = String::from_utf8_lossy(&asked.stderr).into_owned();
        assert!(!asked.status.success() && said.contains(words), "{load}: {said}");
    }
    let both = with(&["load", "t", "t.parquet", "--generate", "vpic", "--rows", "1"]);
    assert!(String::from_utf8_lossy(&both.stderr).contains("cannot be used with"), "{both:?}");
}

// A script that reads JSON would compute with texts, or miss a column whose name comes twice; and one that reads CSV could not tell a null from an
// empty text.
#[test]
fn rows_are_printed_as_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let ask = |sql: &str, format: &str| {
        let load = "n=tpch-nation,scale=1";
        printed(&byteway(path, &["csd", "query", sql, "--load", load, "--format", format, "--quiet"])).0
    };
    let sql = "SELECT n_name, n_regionkey AS x, n_nationkey AS x, n_regionkey > 1, n_regionkey * 0.5, \
               CASE WHEN n_nationkey > 9 THEN 'y' END FROM n WHERE n_nationkey = 8 OR n_nationkey = 12 ORDER BY n_nationkey";
    let rows: serde_json::Value = serde_json::from_str(&ask(sql, "json")).unwrap();
    let row = |index: usize| rows[index].as_object().unwrap().values().cloned().collect::<Vec<_>>();
    assert_eq!(serde_json::json!(row(1)).to_string().matches("\"").count(), 4, "{rows}");
    assert_eq!((&rows[0]["n_name"], &rows[0]["x"], &rows[0]["x_1"]), (&"INDIA".into(), &2.into(), &8.into()));
    assert!(row(0).contains(&serde_json::Value::Null) && row(0).contains(&true.into()), "{rows}");
    assert!(ask("SELECT n_name FROM n WHERE n_nationkey > 99", "json").starts_with("[]"));
    let csv = ask(
        "SELECT CASE WHEN n_nationkey = 1 THEN '' WHEN n_nationkey = 2 THEN 'a,b' END FROM n LIMIT 4",
        "csv",
    );
    assert_eq!(csv.lines().skip(1).collect::<Vec<_>>(), ["", "\"\"", "\"a,b\"", ""]);
}

// Mistakes in a program are reported before a drive is created, or by the drive with the row at which it
// stopped the program.
#[test]
fn mistakes_of_programs_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write_parquet(&path.join("t.parquet"));
    let write = |name: &str, bytes: &[u8]| std::fs::write(path.join(name), bytes).unwrap();
    write("good", &FILTER.concat());
    write("short", &[0x95; 5]);
    write("loop", &[0x05, 0, 0xff, 0xff, 0, 0, 0, 0]);
    write("elf", b"\x7fELF\x02\x01\x01");
    let wrong = |more: &[&str]| {
        let words = ["csd", "query", "SELECT n FROM t", "--load", "t=t.parquet", "--quiet"];
        let output = byteway(path, &[&words[..], more].concat());
        assert!(!output.status.success(), "{more:?}: {output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (more, words) in [
        (&["--program", "good"][..], "--columns"),
        (&["--program", "nothing", "--columns", "n"], "nothing: "),
        (&["--program", "short", "--columns", "n"], "multiple of 8"),
        (&["--program", "elf", "--columns", "n"], "ELF"),
        (&["--program", "good", "--columns", "s"], "VARCHAR"),
        (&["--program", "good", "--columns", "m"], "\"m\""),
        (&["--program", "good", "--columns", "n", "--parameters", "0"], "hexadecimal"),
        (&["--program", "good", "--columns", "n", "--on", "adaptive"], "cannot be estimated"),
        (&["--program", "loop", "--columns", "n"], "row 0: "),
        (&["--program", "loop", "--columns", "n", "--on", "host"], "row 0: "),
    ] {
        let said = wrong(more);
        assert!(said.contains(words), "{more:?}: {said}");
    }
}

// A load that stops half-way leaves a user with unknown rows: the error says what the table keeps, and a table that was made for nothing is
// gone again.
#[test]
fn a_load_that_fails_says_what_the_table_keeps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let drive = "[drive]\nprofile = \"cosmos-plus\"\npersonality = \"tables\"\ncapacity = \"1 GiB\"\n";
    std::fs::write(path.join("drive.toml"), drive).unwrap();
    write_parquet(&path.join("good.parquet"));
    let whole = std::fs::read(path.join("good.parquet")).unwrap();
    std::fs::write(path.join("bad.parquet"), &whole[..whole.len() / 2]).unwrap();
    let place = ["--drive", "drive.toml", "--data", "data", "--quiet"];
    let with = |words: &[&str]| byteway(path, &[&["csd"][..], words, &place].concat());
    let failed = |words: &[&str]| {
        let output = with(words);
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let words = failed(&["load", "t", "bad.parquet"]);
    assert!(!words.contains("keeps"), "{words}");
    assert_eq!(printed(&with(&["tables"])).0, "no tables\n");
    let words = failed(&["load", "t", "good.parquet", "bad.parquet"]);
    assert!(!words.contains("keeps"), "{words}");
    assert_eq!(printed(&with(&["tables"])).0, "no tables\n");
    let words = failed(&["load", "t", "good.parquet", "bad.parquet", "--keep-part"]);
    for part in ["keeps the first 1000 rows", "has 1000 in all", "byteway csd drop t", "bad.parquet"] {
        assert!(words.contains(part), "{part}: {words}");
    }
    let words = failed(&["load", "t", "good.parquet", "bad.parquet"]);
    assert!(words.contains("the first 1000 rows") && words.contains("2000 in all"), "{words}");
    let rows = || printed(&with(&["query", "SELECT COUNT(*) FROM t", "--format", "csv"])).0;
    let words = failed(&["load", "t", "good.parquet", "bad.parquet", "--atomic"]);
    assert!(!words.contains("keeps"), "{words}");
    assert!(rows().contains("2000"), "{}", rows());
    let words = failed(&["load", "t", "--generate", "vpic", "--rows", "1000000", "--atomic"]);
    assert!(words.contains("its columns are") || words.contains("one append"), "{words}");
    printed(&with(&["load", "t", "good.parquet", "good.parquet", "--atomic"]));
    assert!(rows().contains("4000"), "{}", rows());
    printed(&with(&["load", "p", "--generate", "vpic", "--rows", "10"]));
    let words = failed(&["load", "p", "--generate", "vpic", "--rows", "1000000", "--atomic"]);
    assert!(words.contains("the rows for `p` take more than the 16 MiB of one append"), "{words}");
    let words = failed(&["load", "", "good.parquet"]);
    assert!(words.contains("1 to 255 bytes"), "{words}");
}

/// Bytes of all files below a folder.
fn bytes_in(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.metadata().map_or(0, |found| found.blocks() * 512)).sum()
}

// Ctrl-C in the middle of a load: of a new table nothing is left, and of one that was there the user knows what.
#[test]
#[allow(clippy::disallowed_methods, reason = "the user's patience passes in wall time")]
fn an_interrupted_load_leaves_nothing_or_says_what() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let drive = "[drive]\nprofile = \"cosmos-plus\"\npersonality = \"tables\"\ncapacity = \"8 GiB\"\n";
    std::fs::write(path.join("drive.toml"), drive).unwrap();
    let place = ["--drive", "drive.toml", "--data", "data", "--quiet"];
    let with = |words: &[&str]| byteway(path, &[&["csd"][..], words, &place].concat());
    let interrupted = || {
        let rows = ["csd", "load", "t", "--generate", "vpic", "--rows", "30000000"];
        let before = bytes_in(&path.join("data"));
        let mut child = Command::new(env!("CARGO_BIN_EXE_byteway"))
            .current_dir(path)
            .args(rows.iter().chain(&place))
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // Until two appends are on the drive.
        for _ in 0..3000 {
            if bytes_in(&path.join("data")) > before + (32 << 20) || child.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(130), "{said}");
        said
    };
    let said = interrupted();
    assert!(said.contains("nothing of this load is kept"), "{said}");
    assert_eq!(printed(&with(&["tables"])).0, "no tables\n");
    printed(&with(&["load", "t", "--generate", "vpic", "--rows", "10"]));
    let said = interrupted();
    assert!(said.contains("keeps the first") && said.contains("byteway csd drop t"), "{said}");
    let count = printed(&with(&["query", "SELECT COUNT(*) FROM t", "--format", "csv"])).0;
    let count: u64 = count.lines().last().unwrap().trim().parse().unwrap();
    let in_all = format!("has {count} in all");
    assert!(count > 10 && said.contains(&in_all), "{count}: {said}");
}
