//! Speed of trace parsing: lines per CPU second over ten million generated records, and the memory it takes.
//!
//! `cargo bench -p byteway --bench traces [-- FORMAT...]`: default mqsim, and the others with a tenth of the records. One thread. The peak
//! of resident memory is that of the whole program so far.

use std::io::BufWriter;

use byteway_trace::archive::Packing;
use byteway_trace::{Format, ReadOptions, Reader, Record, Writer};
use byteway_workload::Kind;
use rustix::time::{ClockId, clock_gettime};

const RECORDS: u64 = 10_000_000;

fn main() -> anyhow::Result<()> {
    let names: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let folder = tempfile::tempdir()?;
    for format in Format::ALL {
        if !names.is_empty() && !names.iter().any(|name| name == format.name()) {
            continue;
        }
        let records = if format == Format::Mqsim || !names.is_empty() { RECORDS } else { RECORDS / 10 };
        let path = folder.path().join(format.name());
        let file = BufWriter::new(std::fs::File::create(&path)?);
        let mut writer = Writer::new(file, format, Packing::Plain, true)?;
        let begun = cpu_seconds();
        for index in 0..records {
            writer.write(&record(index))?;
        }
        writer.finish()?;
        let written = cpu_seconds() - begun;
        let begun = cpu_seconds();
        let mut reader = Reader::open(&path, &ReadOptions::default())?;
        let mut bytes = 0u64;
        while let Some(record) = reader.next_record()? {
            bytes = bytes.wrapping_add(record.bytes);
        }
        let read = cpu_seconds() - begun;
        assert_eq!((reader.format(), reader.tally().records), (format, records));
        let size = std::fs::metadata(&path)?.len();
        println!(
            "{:>13}: {:5.2} million records a CPU-second read, {:5.2} written; {:4} MB; peak memory {} MiB",
            format.name(),
            records as f64 / read / 1e6,
            records as f64 / written / 1e6,
            size / 1_000_000,
            peak_mib()
        );
        std::fs::remove_file(&path)?;
    }
    Ok(())
}

/// Typical of public traces: nanoseconds since a start, sixteen devices, random addresses in a terabyte.
fn record(index: u64) -> Record {
    let random = index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Record {
        time_ps: index * 131_000,
        device: (random >> 60) as u32,
        offset_bytes: (random >> 24) % (1 << 28) * 4096,
        bytes: 4096 << (random >> 20 & 3),
        kind: if random >> 30 & 3 == 0 { Kind::Write } else { Kind::Read },
    }
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}
