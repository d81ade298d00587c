//! Fuzzed Parquet files, loaded as a table: opened, read batch by batch, converted to a stream and to row
//! groups.
//!
//! Verified: no panic leaves the reader; the data read matches the file's schema, and becomes row groups. Not
//! verified: that the rows are the file's, which needs another reader.

use std::io::Write;
use std::panic::PanicHookInfo;
use std::sync::{LazyLock, Once};

use byteway_query::{group, ipc};
use byteway_workload::query::parquet::ParquetRows;

/// Rows of a batch, and batches of a file, at most: a file of a few bytes can decode to millions of rows.
const BATCH_ROWS: usize = 1024;
const BATCHES: usize = 64;

/// A directory in memory, if available.
static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let memory = std::path::Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    folder.expect("a folder can be made")
});

/// Keeps panics of the reader from ending the process: they become errors, but the fuzzer's hook would abort
/// first. So the hook only prints.
fn only_speak() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|panic: &PanicHookInfo<'_>| eprintln!("{panic}")));
    });
}

pub fn run(bytes: &[u8]) {
    only_speak();
    let path = FOLDER.path().join("rows.parquet");
    let mut file = std::fs::File::create(&path).expect("a file can be made");
    file.write_all(bytes).expect("a file can be written");
    drop(file);
    let Ok(rows) = ParquetRows::open(&path, BATCH_ROWS) else { return };
    let schema = rows.schema().clone();
    for batch in rows.take(BATCHES) {
        let Ok(batch) = batch else { return };
        assert_eq!(batch.schema(), schema.to_arrow());
        let Ok(stream) = ipc::encode(&schema.to_arrow(), &[batch]) else { continue };
        for batch in ipc::decode(&stream).expect("it was encoded here") {
            // Decimals may have more digits than their type, and strings may be too long: the encoder refuses
            // them, as a drive does.
            drop(group::encode(&schema, &batch));
        }
    }
}
