//! Text in columns named by the user, or by the header line of the file.
//!
//! | name | what |
//! |---|---|
//! | `time_s` `time_ms` `time_us` `time_100ns` `time_ns` | time in this unit, decimals to the nanosecond |
//! | `op` | operation: read, write, trim, their first letters, or blktrace's RWBS; 0 and 1 if `reads_are` says which is a read |
//! | `offset` | first byte |
//! | `offset_kib` | the same in KiB |
//! | `lba` (`lba512`, `sector`) | first block of 512 B |
//! | `lba4k` | first block of 4 KiB |
//! | `bytes` (`size`) | length in bytes |
//! | `kib` | length in KiB |
//! | `sectors` (`blocks`) | length in blocks of 512 B |
//! | `blocks4k` | length in blocks of 4 KiB |
//! | `device` | number of the device |
//! | `-` | a column to be ignored |
//!
//! One offset and one length are required. Without a time all records are due at once; without an operation
//! all are reads. Columns after the last named one are ignored. The separator is detected in the first line:
//! a comma, semicolon, tab or bar, if that yields as many columns as are named; else white space. The first
//! line is a header if none of its numeric columns begins with a digit; a comment before it may be the header, too. Fields
//! may be in double quotes.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::blkparse::kind_of_rwbs;
use super::field::{FieldError, decimal, number, number32, put, scaled, shown};
use super::spec::{Line, Spec};
use crate::record::{Kind, Record};
use byteway_text::error::suggest;
use byteway_text::units::excerpt;

/// Columns used for writing, and as the header of a file: names from this list.
pub(super) const SPEC: Spec = Spec {
    name: "columns",
    shape: "time_ns,op,offset,bytes,device",
    assumption: "columns time_ns,op,offset,bytes,device",
    tick_ps: 1_000,
    trims: true,
    header: b"time_ns,op,offset,bytes,device\n",
    ..Spec::TEXT
};

/// Contents of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Ignored,
    /// A decimal number; this many decimals make it nanoseconds.
    Time(u32),
    Op,
    /// Offset in units of this many bytes.
    Offset(u64),
    /// Length in units of this many bytes.
    Length(u64),
    Device,
}

const NAMES: [(&str, Column); 20] = [
    ("time_s", Column::Time(9)),
    ("time_ms", Column::Time(6)),
    ("time_us", Column::Time(3)),
    ("time_100ns", Column::Time(2)),
    ("time_ns", Column::Time(0)),
    ("op", Column::Op),
    ("offset", Column::Offset(1)),
    ("offset_kib", Column::Offset(1024)),
    ("lba", Column::Offset(512)),
    ("lba512", Column::Offset(512)),
    ("sector", Column::Offset(512)),
    ("lba4k", Column::Offset(4096)),
    ("bytes", Column::Length(1)),
    ("size", Column::Length(1)),
    ("kib", Column::Length(1024)),
    ("sectors", Column::Length(512)),
    ("blocks", Column::Length(512)),
    ("blocks4k", Column::Length(4096)),
    ("device", Column::Device),
    ("-", Column::Ignored),
];

/// Columns, at most.
const COLUMNS_MAX: usize = 64;

/// The columns of a trace, by name. Displays as the user writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Columns(Vec<(&'static str, Column)>);

impl Columns {
    fn has(&self, wanted: impl Fn(Column) -> bool) -> bool {
        self.0.iter().any(|(_, column)| wanted(*column))
    }

    /// Whether records have times.
    pub fn has_time(&self) -> bool {
        self.has(|column| matches!(column, Column::Time(_)))
    }

    /// Whether records have an operation.
    pub fn has_op(&self) -> bool {
        self.has(|column| column == Column::Op)
    }

    /// Validates the combination: an error for a duplicate kind, or for a missing one.
    fn check(self) -> Result<Self, String> {
        let kind = |column: Column| match column {
            Column::Ignored => None,
            Column::Time(_) => Some("time"),
            Column::Op => Some("operation"),
            Column::Offset(_) => Some("offset"),
            Column::Length(_) => Some("length"),
            Column::Device => Some("device"),
        };
        let mut kinds: Vec<&str> = self.0.iter().filter_map(|(_, column)| kind(*column)).collect();
        for (wanted, names) in
            [("offset", "offset, lba, sector, lba4k"), ("length", "bytes, sectors, blocks, blocks4k")]
        {
            if !kinds.contains(&wanted) {
                return Err(format!("no column is the {wanted}\nname one of them {names}"));
            }
        }
        kinds.sort_unstable();
        match kinds.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("two columns are the {}\nname one of them `-`", pair[0])),
            None if self.0.len() > COLUMNS_MAX => {
                Err(format!("more than {COLUMNS_MAX} columns\nleave those after the last one needed out"))
            }
            None => Ok(self),
        }
    }

    /// The columns named by a header line, if it is one: it has a time with its unit, an offset and a length. Between
    /// commas, semicolons, tabs or bars the unit may stand in brackets: `Timestamp (ms)`. Columns with other names are
    /// ignored.
    pub(crate) fn of_header(line: &[u8]) -> Option<Columns> {
        let separator = Separator::of(line, 3);
        let named = |field: &[u8]| {
            let known = NAMES.iter().find(|(name, _)| field.eq_ignore_ascii_case(name.as_bytes())).copied();
            // Between blanks each word is a field; biosnoop's header would name columns of which the operation is none.
            let spelled = || spelled(field).filter(|_| separator != Separator::WhiteSpace);
            known.or_else(spelled).unwrap_or(("-", Column::Ignored))
        };
        let columns: Vec<_> = separator.fields(line).take(COLUMNS_MAX + 1).map(named).collect();
        Columns(columns).check().ok().filter(Columns::has_time)
    }
}

/// The column that a header spells out, with its unit in brackets.
fn spelled(field: &[u8]) -> Option<(&'static str, Column)> {
    let text = std::str::from_utf8(field).ok()?.to_lowercase();
    let (noun, unit) = match text.split_once(['(', '[']) {
        Some((noun, unit)) => (noun.trim(), unit.strip_suffix([')', ']'])?.trim()),
        None => (text.as_str(), ""),
    };
    let name = match (noun, unit) {
        ("time" | "timestamp" | "ts" | "arrival" | "arrival time" | "arrival_time", unit) => match unit {
            "s" | "sec" | "seconds" => "time_s",
            "ms" | "msec" | "milliseconds" => "time_ms",
            "us" | "\u{b5}s" | "\u{3bc}s" | "usec" | "microseconds" => "time_us",
            "100 ns" | "100ns" => "time_100ns",
            "ns" | "nsec" | "nanoseconds" => "time_ns",
            _ => return None,
        },
        (
            "op" | "op type" | "op_type" | "optype" | "operation" | "type" | "io type" | "io_type" | "iotype"
            | "rw" | "r/w",
            _,
        ) => "op",
        ("offset", "" | "b" | "byte" | "bytes") => "offset",
        ("offset", "kib") => "offset_kib",
        ("offset", "sector" | "sectors" | "512 b") | ("lba" | "sector", "512 b") => "lba",
        ("offset" | "lba", "4 kib" | "4k") => "lba4k",
        ("size" | "length", "" | "b" | "byte" | "bytes") => "bytes",
        ("size" | "length", "kib") => "kib",
        ("size" | "length", "sector" | "sectors" | "512 b") => "sectors",
        ("size" | "length", "4 kib" | "4k") => "blocks4k",
        ("device id" | "device_id" | "disk", "") => "device",
        _ => return None,
    };
    NAMES.iter().find(|(known, _)| *known == name).copied()
}

impl FromStr for Columns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        let named = |name: &str| {
            let known = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).copied();
            known.ok_or_else(|| {
                let hint = match name {
                    "time" | "timestamp" => {
                        "say its unit: time_s, time_ms, time_us, time_100ns, time_ns".to_owned()
                    }
                    _ => suggest(name, &names),
                };
                format!("`{}` is not the name of a column\n{hint}", excerpt(name))
            })
        };
        let columns = text.split(',').map(|name| named(name.trim())).collect::<Result<Vec<_>, String>>()?;
        Columns(columns).check()
    }
}

impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|(name, _)| *name).collect();
        f.write_str(&names.join(","))
    }
}

impl TryFrom<String> for Columns {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Columns> for String {
    fn from(columns: Columns) -> String {
        columns.to_string()
    }
}

impl JsonSchema for Columns {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Columns".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["time_us,op,offset,bytes"] })
    }
}

/// Separator of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Separator {
    Byte(u8),
    WhiteSpace,
}

impl Separator {
    /// The separator that yields at least `columns` columns.
    fn of(line: &[u8], columns: usize) -> Separator {
        let count = |separator: &u8| line.iter().filter(|byte| *byte == separator).count() + 1;
        let byte = b",;\t|".iter().find(|separator| count(separator) >= columns.max(2));
        byte.map_or(Separator::WhiteSpace, |byte| Separator::Byte(*byte))
    }

    fn fields(self, line: &[u8]) -> impl Iterator<Item = &[u8]> {
        let between = move |byte: &u8| match self {
            Separator::Byte(separator) => *byte == separator,
            Separator::WhiteSpace => byte.is_ascii_whitespace(),
        };
        let fields = line.split(between).map(unquoted);
        fields.filter(move |field| self != Separator::WhiteSpace || !field.is_empty())
    }
}

fn unquoted(field: &[u8]) -> &[u8] {
    let field = field.trim_ascii();
    field.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(field)
}

/// Parser of a file in columns.
pub(super) struct Table {
    /// `None` if neither the user nor a header names them.
    columns: Option<Columns>,
    /// `None` before the first line.
    separator: Option<Separator>,
    reads_are: Option<u8>,
}

impl Table {
    pub fn new(columns: Option<Columns>, reads_are: Option<u8>) -> Self {
        Table { columns, separator: None, reads_are }
    }

    /// Reads one line; `None` for the line of column names.
    pub fn parse(&mut self, line: &[u8]) -> Result<Option<Line>, FieldError> {
        let Some(columns) = &self.columns else {
            let need = "a time with its unit, an offset and a length, as in time_us,op,offset,bytes";
            return Err(FieldError::new(format!(
                "the first line does not name the columns ({need}), nor does --columns"
            )));
        };
        let separator = match self.separator {
            Some(separator) => separator,
            None => {
                let separator = Separator::of(line, columns.0.len());
                self.separator = Some(separator);
                if is_header(columns, separator, line) {
                    return Ok(None);
                }
                separator
            }
        };
        let mut fields = separator.fields(line);
        let mut found = Line { ticks: 0, device: 0, offset_bytes: 0, bytes: 0, kind: Kind::Read };
        for (name, column) in &columns.0 {
            let field = fields.next();
            match column {
                Column::Ignored => {}
                Column::Time(places) => found.ticks = decimal(field, *places, name)?,
                Column::Op => found.kind = kind(field, self.reads_are)?,
                Column::Offset(unit) => found.offset_bytes = scaled(number(field, name)?, *unit)?,
                Column::Length(unit) => found.bytes = scaled(number(field, name)?, *unit)?,
                Column::Device => found.device = number32(field, name)?,
            }
        }
        Ok(Some(found))
    }
}

/// Whether a first line is a header: no numeric column begins with a digit.
fn is_header(columns: &Columns, separator: Separator, line: &[u8]) -> bool {
    let fields = columns.0.iter().zip(separator.fields(line));
    let mut numbers = fields.filter(|((_, column), _)| !matches!(column, Column::Ignored | Column::Op));
    numbers.all(|(_, field)| field.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_'))
}

fn kind(field: Option<&[u8]>, reads_are: Option<u8>) -> Result<Kind, FieldError> {
    let field = field.ok_or_else(|| FieldError::new("the op is missing"))?;
    let is = |words: &[&str]| words.iter().any(|word| field.eq_ignore_ascii_case(word.as_bytes()));
    if is(&["r", "read", "rd"]) {
        return Ok(Kind::Read);
    }
    if is(&["w", "write", "wr"]) {
        return Ok(Kind::Write);
    }
    if is(&["t", "trim", "d", "discard", "unmap"]) {
        return Ok(Kind::Trim);
    }
    if let (b"0" | b"1", Some(read)) = (field, reads_are) {
        return Ok(if field[0] - b'0' == read { Kind::Read } else { Kind::Write });
    }
    if matches!(field, b"0" | b"1") {
        let what = format!(
            "the op is the number {}: --reads-are (`reads_are`) says which one means read",
            shown(field)
        );
        return Err(FieldError::new(what));
    }
    if field.len() <= 8
        && field.iter().all(u8::is_ascii_uppercase)
        && let Some(kind) = kind_of_rwbs(field)
    {
        return Ok(kind);
    }
    Err(FieldError::field("op", field, "is none of read, write, trim or their first letters"))
}

/// Writes one line.
pub(super) fn write(out: &mut Vec<u8>, record: &Record, ticks: u64) {
    put(
        out,
        ticks,
        match record.kind {
            Kind::Read => b",read,",
            Kind::Write => b",write,",
            Kind::Trim => b",trim,",
        },
    );
    put(out, record.offset_bytes, b",");
    put(out, record.bytes, b",");
    put(out, u64::from(record.device), b"\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(names: &str) -> Table {
        Table::new(Some(names.parse().unwrap()), None)
    }

    // Every mix of units, separators and orders must yield the same record.
    #[test]
    fn the_same_record_in_many_ways() {
        let wanted = Line { ticks: 1_500_000, device: 3, offset_bytes: 8192, bytes: 4096, kind: Kind::Write };
        for (names, line) in [
            ("time_s,op,offset,bytes,device", "0.0015,W,8192,4096,3"),
            ("time_ms, op, offset_kib, kib, device", "1.5;write;8;4;3;more"),
            ("device,lba,sectors,op,time_us", "3 16 8   w\t1500.0"),
            ("device,sector,blocks,op,time_100ns", "3\t16\t8\tWS\t15000"),
            ("-,time_ns,-,device,lba4k,blocks4k,op", "x|1500000||3|2|1|Wr"),
            ("time_ns,device,lba512,size,op", "\"1500000\", \"3\", 16, \"4096\", \"WRITE\""),
        ] {
            assert_eq!(table(names).parse(line.as_bytes()), Ok(Some(wanted)), "{names}: {line}");
        }
        assert_eq!(table("offset,bytes").parse(b"0 512").unwrap().unwrap().kind, Kind::Read);
        let trim = table("offset,op,bytes").parse(b"0,D,512").unwrap().unwrap();
        assert_eq!((trim.ticks, trim.kind), (0, Kind::Trim));
    }

    // A header is no invalid record, and an invalid record no header.
    #[test]
    fn only_a_first_line_of_names_is_passed_over() {
        let mut names = table("time_us,op,offset,bytes");
        assert_eq!(names.parse(b"ts,kind,start,len"), Ok(None));
        assert!(names.parse(b"ts,kind,start,len").is_err());
        assert!(table("time_us,op,offset,bytes").parse(b"x,R,0,512").is_err());
        let header = b"id;Time_us;OP;Offset;Bytes";
        let mut own = Table::new(Columns::of_header(header), None);
        assert_eq!(own.parse(header), Ok(None));
        assert_eq!(own.parse(b"a;7;r;512;1024").unwrap().unwrap().offset_bytes, 512);
        assert!(Table::new(None, None).parse(b"time,op,offset,bytes").is_err(), "a time without its unit");
    }

    // A unit in brackets says what the numbers are; without it, or with one that may mean two things, they are not known.
    #[test]
    fn a_header_may_spell_its_units_in_brackets() {
        let named = |line: &str| Columns::of_header(line.as_bytes()).map(|columns| columns.to_string());
        for (line, columns) in [
            ("timestamp (ms), op type, offset, size", "time_ms,op,offset,size"),
            ("Time [us];LBA (512 B);Size (sectors);R/W", "time_us,lba,sectors,op"),
            (
                "\"Arrival time (s)\"\tdisk\tOffset (KiB)\tLength (KiB)\tIOType",
                "time_s,device,offset_kib,kib,op",
            ),
            ("ts(\u{b5}s)|offset (4 KiB)|size (4 KiB)|latency (us)", "time_us,lba4k,blocks4k,-"),
            ("Timestamp (100 ns),Host,Type,Offset (bytes),Size (bytes)", "time_100ns,-,op,offset,bytes"),
        ] {
            assert_eq!(named(line).as_deref(), Some(columns), "{line}");
        }
        for (unit, column) in [
            ("s", "time_s"),
            ("sec", "time_s"),
            ("seconds", "time_s"),
            ("ms", "time_ms"),
            ("msec", "time_ms"),
            ("milliseconds", "time_ms"),
            ("us", "time_us"),
            ("usec", "time_us"),
            ("microseconds", "time_us"),
            ("100ns", "time_100ns"),
            ("ns", "time_ns"),
            ("nsec", "time_ns"),
            ("nanoseconds", "time_ns"),
        ] {
            let found = named(&format!("Timestamp ({unit}),offset,size"));
            assert_eq!(found, Some(format!("{column},offset,size")), "{unit}");
        }
        for line in [
            "timestamp, op type, offset, size",
            "timestamp (min), op, offset, size",
            "timestamp (ms), op, offset (kB), size",
            "timestamp (ms, op, offset, size",
            "timestamp (ms), time (us), offset, size",
            "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  QUE(ms) LAT(ms)",
            "version,time,op,size,lbn",
            "Timestamp,Response,IOType,LUN,Offset,Size",
        ] {
            assert_eq!(named(line), None, "{line}");
        }
    }

    // Whether 0 or 1 is a read differs between formats: a guess would be wrong half of the time.
    #[test]
    fn a_number_as_operation_needs_its_meaning() {
        let line = b"0,1,512";
        assert!(table("offset,op,bytes").parse(line).unwrap_err().to_string().contains("--reads-are"));
        for (read, kind) in [(1, Kind::Read), (0, Kind::Write)] {
            let mut table = Table::new(Some("offset,op,bytes".parse().unwrap()), Some(read));
            assert_eq!(table.parse(line).unwrap().unwrap().kind, kind);
        }
        assert!(table("offset,op,bytes").parse(b"0,2a,512").is_err());
    }

    #[test]
    fn wrong_names_are_refused_with_a_cure() {
        for (names, what) in [
            ("time,op,offset,bytes", "time_us"),
            ("time_us,op,ofset,bytes", "did you mean `offset`"),
            ("time_us,op,bytes", "no column is the offset"),
            ("time_us,op,lba", "no column is the length"),
            ("offset,lba,bytes", "two columns are the offset"),
            ("", "not the name"),
        ] {
            let error = names.parse::<Columns>().unwrap_err();
            assert!(error.contains(what) && error.contains('\n'), "{names}: {error}");
        }
        let many = format!("offset,bytes{}", ",-".repeat(COLUMNS_MAX));
        assert!(many.parse::<Columns>().unwrap_err().contains("more than"));
    }
}
