//! Traces of key-value caches in CacheLib's format: comma-separated, with a header line.
//!
//! | column | use |
//! |---|---|
//! | `key` | the key, if it has at most 16 B; of a longer one, a hash of 16 B |
//! | `op` | `GET`, `GET_LEASE`: Retrieve; `SET`, `SET_LEASE`, `ADD`, `REPLACE`: Store; `DELETE`: Delete |
//! | `op_count` | number of repetitions; 1 if missing |
//! | `size` | length of the value in bytes |
//!
//! Other columns (times in seconds, time to live, use case) are ignored: the replay is a closed loop.

use std::path::{Path, PathBuf};

use super::key::{KEY_BYTES_MAX, KeyBytes};
use super::op::{KvOp, Verb};
use super::value::VALUE_BYTES_MAX;
use byteway_text::error::{InputError, SourceLocation};
use byteway_text::units::excerpt;
use byteway_trace::archive::{open_regular, unpack};
use byteway_trace::buffer::{Buffer, LINE_BYTES_MAX};

/// Repetitions of one record, at most.
const REPEATS_MAX: u64 = 1 << 20;

/// A trace, with the counts of a first pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvTrace {
    /// Path of the file.
    pub path: PathBuf,
    /// Number of operations, including repetitions.
    pub operations: u64,
    /// Longest value, in bytes.
    pub value_bytes_max: u32,
    /// Keys longer than 16 B, which are replaced by a hash.
    pub long_keys: u64,
}

impl KvTrace {
    /// Reads the whole trace.
    ///
    /// # Errors
    /// It cannot be read, or a line is not a record.
    pub fn scan(path: &Path) -> Result<Self, InputError> {
        let mut reader = KvReader::open(path)?;
        let mut trace = KvTrace { path: path.to_owned(), operations: 0, value_bytes_max: 0, long_keys: 0 };
        while let Some(record) = reader.record()? {
            trace.operations = trace.operations.saturating_add(record.repeats);
            trace.value_bytes_max = trace.value_bytes_max.max(record.op.bytes);
            trace.long_keys += u64::from(record.is_long);
        }
        if trace.operations == 0 {
            let what = format!("the trace `{}` has no record", path.display());
            return Err(InputError::new(what, "name a CacheLib trace"));
        }
        Ok(trace)
    }
}

/// Indices of the columns, from 0.
#[derive(Clone, Copy)]
struct Columns {
    key: usize,
    op: usize,
    op_count: Option<usize>,
    size: usize,
}

struct Record {
    op: KvOp,
    repeats: u64,
    is_long: bool,
}

/// Yields a trace's operations in order.
pub(super) struct KvReader {
    shown: String,
    buffer: Buffer,
    columns: Columns,
    line: u64,
    repeat: Option<(KvOp, u64)>,
}

impl KvReader {
    pub(super) fn open(path: &Path) -> Result<Self, InputError> {
        let shown = path.display().to_string();
        let broken = |error: std::io::Error| {
            let what = format!("cannot read the trace `{shown}`: {error}");
            InputError::new(what, "check the path (relative to the scenario file) and its permissions")
        };
        let Some((file, _)) = open_regular(path).map_err(broken)? else {
            let what = format!("the trace `{shown}` is not a regular file");
            return Err(InputError::new(what, "name a file; it is read twice"));
        };
        let mut buffer = Buffer::new(unpack(file).map_err(broken)?.input);
        let columns = match buffer.line().map_err(broken)? {
            Some(line) => columns(line),
            None => None,
        };
        let Some(columns) = columns else {
            let what = format!("`{shown}` does not begin with the columns of a CacheLib trace");
            return Err(InputError::new(what, "its first line names at least `key`, `op` and `size`"));
        };
        Ok(KvReader { shown, buffer, columns, line: 1, repeat: None })
    }

    fn record(&mut self) -> Result<Option<Record>, InputError> {
        loop {
            self.line += 1;
            let line = match self.buffer.line() {
                Ok(Some(line)) => line,
                Ok(None) => return Ok(None),
                Err(error) => {
                    let what = format!("cannot read the trace `{}`: {error}", self.shown);
                    return Err(InputError::new(what, "check the file"));
                }
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            return parse(line, self.columns).map(Some).map_err(|what| {
                let place = SourceLocation {
                    source: self.shown.clone(),
                    position: Some((self.line as usize, 1)),
                    excerpt: None,
                };
                InputError::new(what, "mend the line, or leave it out").at(place)
            });
        }
    }

    /// The next operation; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<KvOp>, InputError> {
        loop {
            if let Some((op, left)) = &mut self.repeat {
                *left -= 1;
                let op = *op;
                if *left == 0 {
                    self.repeat = None;
                }
                return Ok(Some(op));
            }
            let Some(record) = self.record()? else { return Ok(None) };
            self.repeat = (record.repeats > 0).then_some((record.op, record.repeats));
        }
    }
}

fn columns(line: &[u8]) -> Option<Columns> {
    let names: Vec<&[u8]> = line.trim_ascii().split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
    let at = |name: &str| names.iter().position(|found| *found == name.as_bytes());
    Some(Columns { key: at("key")?, op: at("op")?, op_count: at("op_count"), size: at("size")? })
}

fn parse(line: &[u8], columns: Columns) -> Result<Record, String> {
    if line.len() > LINE_BYTES_MAX {
        return Err("the line is too long for a record".to_owned());
    }
    let text = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8 text".to_owned())?;
    let field = |index: usize| text.trim().split(',').nth(index).map(str::trim);
    let named = |index: usize, name: &str| field(index).ok_or_else(|| format!("it has no {name}"));
    let number = |index: usize, name: &str| {
        let text = named(index, name)?;
        text.parse::<u64>().map_err(|_| format!("its {name} is `{}`, and no number", excerpt(text)))
    };
    let key = named(columns.key, "key")?.as_bytes();
    let verb = match named(columns.op, "op")? {
        "GET" | "GET_LEASE" => Verb::Retrieve,
        "SET" | "SET_LEASE" | "ADD" | "REPLACE" => Verb::Store,
        "DELETE" => Verb::Delete,
        other => return Err(format!("`{}` is no operation of a CacheLib trace", excerpt(other))),
    };
    let repeats = columns.op_count.map_or(Ok(1), |index| number(index, "op_count"))?;
    let bytes = number(columns.size, "size")?;
    if repeats > REPEATS_MAX || bytes > u64::from(VALUE_BYTES_MAX) {
        return Err(format!("{repeats} times {bytes} B are more than a record can be"));
    }
    let short = KeyBytes::new(key);
    if key.is_empty() {
        return Err("its key is empty".to_owned());
    }
    let op =
        KvOp { verb, key: short.unwrap_or_else(|| digest(key)), bytes: bytes as u32, count: 0, number: 0 };
    Ok(Record { op, repeats, is_long: short.is_none() })
}

/// FNV-1a, forwards and backwards.
fn digest(key: &[u8]) -> KeyBytes {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let ahead = key.iter().fold(0xcbf2_9ce4_8422_2325, step);
    let back = key.iter().rev().fold(0xcbf2_9ce4_8422_2325, step);
    let mut bytes = [0; KEY_BYTES_MAX];
    bytes[..8].copy_from_slice(&ahead.to_be_bytes());
    bytes[8..].copy_from_slice(&back.to_be_bytes());
    KeyBytes::new(&bytes).expect("16 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    // The column order differs between traces of two years, and repetitions are counted.
    #[test]
    fn columns_count_by_name() {
        let text = "op_time,key,key_size,op,op_count,size,cache_hits,ttl\n1,82131353f9ddc8c6,48,GET,2,87,1,0\n\n\
                    2,a-key-of-more-than-16-bytes,27,SET_LEASE,1,0,0,0\n3,x,1,DELETE,1,0,0,0\n";
        let one = file(text);
        let scan = KvTrace::scan(one.path()).unwrap();
        assert_eq!((scan.operations, scan.value_bytes_max, scan.long_keys), (4, 87, 1));
        let mut reader = KvReader::open(one.path()).unwrap();
        let mut all = Vec::new();
        while let Some(op) = reader.next().unwrap() {
            all.push((op.verb, op.key.as_slice().len(), op.bytes));
        }
        use Verb::{Delete, Retrieve, Store};
        assert_eq!(all, [(Retrieve, 16, 87), (Retrieve, 16, 87), (Store, 16, 0), (Delete, 1, 0)]);
        let other = file("size,op,key\n5,SET,k\n");
        let op = KvReader::open(other.path()).unwrap().next().unwrap().unwrap();
        assert_eq!((op.verb, op.bytes, op.key.as_slice()), (Store, 5, &b"k"[..]));
    }

    // An invalid file must be reported with the line, without a panic, and not be taken for a shorter trace.
    #[test]
    fn a_broken_line_is_named() {
        for (text, named) in [
            ("", "columns"),
            ("key,op\n", "columns"),
            ("key,op,size\n", "no record"),
            ("key,op,size\nk,GET,1\nk,EAT,1\n", "EAT"),
            ("key,op,size\nk,GET\n", "size"),
            ("key,op,size\nk,GET,-1\n", "-1"),
            ("key,op,size\n,GET,1\n", "empty"),
            ("key,op,size\nk,GET,99999999999\n", "more than"),
            ("key,op,size,op_count\nk,GET,1,9999999999\n", "more than"),
        ] {
            let error = KvTrace::scan(file(text).path()).unwrap_err().to_string();
            assert!(error.contains(named), "{text:?}: {error}");
        }
        let error = KvTrace::scan(file("key,op,size\nk,GET,1\nk,EAT,1\n").path()).unwrap_err().to_string();
        assert!(error.contains(":3:1"), "{error}");
    }
}
