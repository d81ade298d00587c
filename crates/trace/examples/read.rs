//! Reads a block trace of any format, record by record.
//!
//! ```sh
//! cargo run --release -p byteway-trace --example read -- scenarios/traces/small.trace
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what it finds")]

use byteway_text::error::InputError;
use byteway_trace::{Kind, ReadOptions, Reader};
use std::path::PathBuf;

fn main() -> Result<(), InputError> {
    let path = std::env::args_os().nth(1).map(PathBuf::from);
    let path = path.unwrap_or_else(|| PathBuf::from("scenarios/traces/small.trace"));
    let mut reader = Reader::open(&path, &ReadOptions::default())?;
    let (mut reads, mut writes, mut bytes) = (0_u64, 0_u64, 0_u64);
    while let Some(record) = reader.next_record()? {
        match record.kind {
            Kind::Read => reads += 1,
            Kind::Write => writes += 1,
            _ => {}
        }
        bytes += record.bytes;
    }
    println!("{:?}: {reads} reads, {writes} writes, {bytes} bytes", reader.format());
    Ok(())
}
