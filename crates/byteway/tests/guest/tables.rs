//! Tables in a drive of a guest: Linux creates a generic character device for their namespace, through which nvme-cli sends tasks and
//! fetches results.
//!
//! `byteway csd` loads the rows; it attaches before and after the guest: hosts of the same drive, one after another.

use crate::guest::{Drives, Guest};
use crate::server::Server;
use arrow_array::RecordBatch;
use byteway_query::rows::{numbered, numbered_text};
use byteway_query::{Form, Task, ipc};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// Rows of the table `t`.
const ROWS: i64 = 20_000;

/// `$T` is the generic device of the first drive's tables. Linux probes drives in parallel and numbers them as it finds them.
const FIND: &str = r#"
set -eu
fail() { echo "$*"; exit 1; }
T=
for try in $(seq 100); do
  [ $(ls /sys/class/nvme | wc -l) = 2 ] || { sleep 0.1; continue; }
  first=$(cat /sys/class/nvme/*/address | sort | head -n 1)
  for device in /sys/class/nvme-generic/ng*n*; do
    [ "$(cat $device/device/address 2>&1)" = "$first" ] || continue
    T=/dev/${device##*/}
  done
  [ -n "$T" ] && break
  sleep 0.1
done
[ -n "$T" ] || fail "$(ls -l /sys/class/nvme*)"
"#;

/// Precedes each script, after that.
const COMMANDS: &str = r#"
# csd OPCODE OPTION...: a command whose result (DW0) is left in $DW0, and what it reads in /tmp/data
csd() {
  opcode=$1
  shift
  nvme io-passthru $T --opcode=$opcode --namespace-id=1 "$@" >/tmp/data 2>/tmp/said || return 1
  DW0=$((0x$(cat /tmp/said /tmp/data | tr -d '\0' | sed -n 's/.*result: *\(0x\)\?\([0-9a-fA-F]*\) *$/\2/p' | head -n 1)))
}
# task FORM FILE: opens the cursor $C
task() {
  length=$(wc -c <$2)
  csd 0xb5 --cdw10=$length --cdw14=$1 --data-len=$length --input-file=$2 --write || fail "$(cat /tmp/said)"
  C=$DW0
}
# fetch BYTES: a part of the cursor's result, in /tmp/part
fetch() {
  csd 0xb6 --cdw10=$1 --cdw12=$C --data-len=$1 --read --raw-binary || return 1
  head -c $DW0 /tmp/data >/tmp/part
}
# whole BYTES: the rest of the result by parts of so many bytes, in /tmp/result, until its cursor is closed; $N parts
whole() {
  : >/tmp/result
  N=0
  while fetch $1; do
    cat /tmp/part >>/tmp/result
    N=$((N + 1))
  done
  # Invalid Field in Command: there is no such cursor any more.
  grep -qi 'invalid field' /tmp/said || fail "$(cat /tmp/said)"
}
show() { od -A n -v -t x1 /tmp/result; }
"#;

/// All steps, with this kernel.
pub fn play(kernel: &str) {
    let folder = tempfile::tempdir().unwrap();
    let parquet = folder.path().join("t.parquet");
    write_parquet(&parquet);
    let data = folder.path().join("data");
    // Not in the guest's folder, which is removed with it: the server continues for another host.
    let mut guest = Guest::boot(kernel, 2, |_| {
        let sets = ["--set=drive.personality=\"tables\""];
        let server = Server::start_with(folder.path(), ["mapped", "trapped"], Some(&data), &sets);
        let socket = server.sockets()[0].parent().unwrap();
        byteway(socket, &["drop", "t", "--if-exists"]);
        byteway(socket, &["load", "t", parquet.to_str().unwrap()]);
        Drives::Served(server)
    });
    guest.prelude = format!("{FIND}{COMMANDS}");
    guest.run(
        "the tables namespace is a generic device, and not a block device",
        30,
        r#"
        [ -c $T ] || fail "$(ls /dev/ng* /dev/nvme*)"
        ! ls /dev/nvme?n* || fail "a block device for the tables namespace"
        "#,
    );

    let few = "SELECT n, t FROM t WHERE n > 100 AND n <= 140 AND t IS NOT NULL";
    let compact = Task::compact(Task::parse(Form::Sql, few.as_bytes()).unwrap().statement(), None).unwrap();
    let segment = "t n > 100 AND n <= 140 AND t IS NOT NULL";
    let payloads = [
        (Form::Sql, few.as_bytes()),
        (Form::Segment, segment.as_bytes()),
        (Form::Compact, compact.to_bytes()),
    ];
    for (form, payload) in payloads {
        let script = format!("{}\ntask {} /tmp/task\nwhole 4096\nshow", written(payload), form.code());
        let rows = answer(&guest.run(&format!("a task as {form:?}"), 30, &script));
        assert_rows(&rows, (101..=140).filter(|row| row % 10 != 0));
    }

    let all = "SELECT n FROM t WHERE n >= 18000";
    let script = format!(
        "{}\ntask 0 /tmp/task\nwhole 4096\n[ $N -ge 4 ] || fail \"in $N parts\"\nshow",
        written(all.as_bytes())
    );
    let rows = answer(&guest.run("a result in several commands", 60, &script));
    let numbers = rows.iter().flat_map(column_of_numbers);
    assert!(numbers.eq(18_000..ROWS), "all of the rows, in order");

    guest.run(
        "what is wrong is said",
        60,
        r#"
        ask() { printf '%s' "$1" >/tmp/task; task 0 /tmp/task; }
        ask 'SELEKT n FROM t'
        fetch 4096
        grep -qi 'selekt' /tmp/part || fail "$(cat /tmp/part)"
        ask 'SELECT n FROM u'
        fetch 4096
        grep -q 'u' /tmp/part || fail "$(cat /tmp/part)"
        ask 'SELECT n FROM t ORDER BY n'
        fetch 4096
        grep -q 'ORDER BY' /tmp/part || fail "$(cat /tmp/part)"
        # A form that there is not.
        ! csd 0xb5 --cdw10=4 --cdw14=9 --data-len=4 --input-file=/tmp/task --write
        grep -qi 'invalid field' /tmp/said || fail "$(cat /tmp/said)"
        "#,
    );
    guest.run(
        "cursors are cancelled, and are gone after a reset",
        60,
        r#"
        printf 'SELECT n FROM t' >/tmp/task
        task 0 /tmp/task
        fetch 4096
        csd 0xb8 --cdw12=$C
        ! fetch 4096
        # More than the drive has cursors, each cancelled: none is left over.
        for i in $(seq 40); do task 0 /tmp/task; csd 0xb8 --cdw12=$C; done
        task 0 /tmp/task
        fetch 4096
        controller=/dev/$(basename $T | sed 's,ng\([0-9]*\)n.*,nvme\1,')
        nvme reset $controller
        sleep 1
        ! fetch 4096
        task 0 /tmp/task
        fetch 4096
        [ $DW0 -gt 1000 ] || fail "$DW0 B"
        "#,
    );
    let Drives::Served(mut server) = guest.power_off() else { unreachable!("they are served") };
    let socket = server.sockets()[0].parent().unwrap();
    let counted = byteway(socket, &["query", "SELECT COUNT(*) AS c FROM t", "--format", "csv"]);
    assert_eq!(counted.lines().last(), Some("20000"), "{counted}");
    server.end();
}

/// Runs `byteway csd` with these arguments on the drive whose socket is in that folder.
fn byteway(socket: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_byteway"));
    command.arg("csd").args(arguments).arg("--vfio-user").arg(socket).arg("--quiet");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "byteway csd {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn write_parquet(path: &Path) {
    let rows = numbered(0, ROWS);
    let file = std::fs::File::create(path).unwrap();
    let mut writer = parquet::arrow::ArrowWriter::try_new(file, rows.schema(), None).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
}

/// A line of shell that writes these bytes to the file /tmp/task.
fn written(bytes: &[u8]) -> String {
    let mut octal = String::new();
    bytes.iter().for_each(|byte| write!(octal, "\\0{byte:03o}").unwrap());
    format!("printf '%b' '{octal}' >/tmp/task")
}

/// The rows of a result that a guest has printed as bytes.
fn answer(shown: &str) -> Vec<RecordBatch> {
    let bytes: Vec<u8> =
        shown.split_whitespace().map_while(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    ipc::decode(&bytes).unwrap_or_else(|error| panic!("{error}: {shown}"))
}

fn column_of_numbers(batch: &RecordBatch) -> impl Iterator<Item = i64> {
    let column = batch.column_by_name("n").unwrap().as_any().downcast_ref::<arrow_array::Int64Array>();
    column.unwrap().values().iter().copied()
}

/// Asserts that the rows are those of these numbers, with their strings.
fn assert_rows(batches: &[RecordBatch], numbers: impl Iterator<Item = i64>) {
    let mut found = Vec::new();
    for batch in batches {
        let texts = batch.column_by_name("t").unwrap();
        let text = |row| byteway_query::display::text(texts, row);
        found.extend(column_of_numbers(batch).enumerate().map(|(row, number)| (number, text(row))));
    }
    let expected: Vec<_> = numbers.map(|number| (number, numbered_text(number))).collect();
    assert_eq!(found, expected);
}
