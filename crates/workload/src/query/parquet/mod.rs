//! Parquet files as tables. Metadata of a file is checked before it is used, and a panic of the Parquet
//! reader over a malformed file becomes an error.
//!
//! What it does not do: it does not bound the decompressed size of a page. A batch of a text column takes at
//! most 2 GiB, the limit of Arrow's offsets.

mod headers;

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use byteway_query::Schema;
use byteway_text::error::InputError;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::ParquetMetaData;

/// Iterator over the rows of a Parquet file, in batches.
pub struct ParquetRows {
    path: PathBuf,
    schema: Schema,
    /// `None` after the end or an error.
    reader: Option<ParquetRecordBatchReader>,
}

fn wrong(path: &Path, error: impl std::fmt::Display) -> InputError {
    let error = error.to_string();
    let help = match ["feature", "codec", "compress"].iter().any(|word| error.contains(word)) {
        true => "write it uncompressed, or compressed by Snappy or Zstandard",
        false => "name a Parquet file",
    };
    InputError::new(format!("`{}`: {error}", path.display()), help)
}

/// Supported column types, for messages.
const TYPES: &str = "write BOOLEAN, integers of 8 to 64 bits, FLOAT, DOUBLE, DECIMAL, DATE, TIMESTAMP in microseconds without time zone, \
                     and UTF-8 text";

/// Runs a call of the Parquet reader. The reader trusts much of a file and panics on contradictions, so
/// panics are caught.
fn read<T, E: std::fmt::Display>(path: &Path, reads: impl FnOnce() -> Result<T, E>) -> Result<T, InputError> {
    match catch_unwind(AssertUnwindSafe(reads)) {
        Ok(read) => read.map_err(|error| wrong(path, error)),
        Err(_) => Err(wrong(path, "its contents are inconsistent")),
    }
}

/// Checks that columns lie within the file, and that row counts match.
fn check(metadata: &ParquetMetaData, file_bytes: u64) -> Result<(), &'static str> {
    let file_bytes = i64::try_from(file_bytes).unwrap_or(i64::MAX);
    let mut rows = 0i64;
    let mut column_bytes = 0i64;
    for group in metadata.row_groups() {
        let more = group.num_rows();
        rows = rows
            .checked_add(more)
            .filter(|_| more >= 0)
            .ok_or("a row group has an invalid number of rows")?;
        for column in group.columns() {
            let begin = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
            let bytes = column.compressed_size();
            let is_there = begin >= 0
                && column.data_page_offset() >= begin
                && bytes >= 0
                && begin.checked_add(bytes).is_some_and(|end| end <= file_bytes)
                && column.uncompressed_size() >= 0;
            if !is_there {
                return Err("a column lies beyond its end");
            }
            column_bytes = column_bytes.saturating_add(bytes);
            if column_bytes > file_bytes {
                return Err("its columns overlap");
            }
            if column.column_descr().max_rep_level() == 0 && column.num_values() != more {
                return Err("a column has another number of values than its row group has rows");
            }
        }
    }
    match rows == metadata.file_metadata().num_rows() {
        true => Ok(()),
        false => Err("the sum of its row groups' rows is not its number of rows"),
    }
}

impl ParquetRows {
    /// Opens a file; batches have at most `batch_rows` rows.
    ///
    /// # Errors
    /// [`InputError`] if the file cannot be opened, is not a valid Parquet file, or has unsupported columns.
    pub fn open(path: &Path, batch_rows: usize) -> Result<ParquetRows, InputError> {
        let file = File::open(path).map_err(|error| {
            let what = format!("`{}`: {error}", path.display());
            InputError::new(what, "check the path")
        })?;
        let bytes = file.metadata().map_err(|error| wrong(path, error))?.len();
        headers::check_footer(&file, bytes).map_err(|error| wrong(path, error))?;
        let metadata = read(path, || ArrowReaderMetadata::load(&file, ArrowReaderOptions::default()))?;
        check(metadata.metadata(), bytes).map_err(|error| wrong(path, error))?;
        headers::check_pages(&file, metadata.metadata()).map_err(|error| wrong(path, error))?;
        let schema = Schema::from_arrow(metadata.schema())
            .map_err(|error| InputError::new(format!("`{}`: {error}", path.display()), TYPES))?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
        let reader = read(path, || builder.with_batch_size(batch_rows).build())?;
        Ok(ParquetRows { path: path.to_owned(), schema, reader: Some(reader) })
    }

    /// Schema of the rows.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    fn batch(&mut self) -> Option<Result<RecordBatch, InputError>> {
        let reader = self.reader.as_mut()?;
        let arrow = self.schema.to_arrow();
        read(&self.path, || {
            let batch = reader.next().transpose()?;
            // Metadata of a column, such as a comment, is not part of its type.
            batch.map(|batch| RecordBatch::try_new(arrow, batch.columns().to_vec())).transpose()
        })
        .transpose()
    }
}

impl Iterator for ParquetRows {
    type Item = Result<RecordBatch, InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batch();
        if !matches!(batch, Some(Ok(_))) {
            // After a panic the reader's state is unknown.
            self.reader = None;
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int32Array, StringArray};
    use parquet::arrow::ArrowWriter;
    use std::sync::Arc;

    fn written(folder: &Path) -> Vec<u8> {
        let columns: [(&str, ArrayRef); 2] = [
            ("n", Arc::new(Int32Array::from_iter((0..300).map(|n| (n % 7 != 0).then_some(n))))),
            ("t", Arc::new(StringArray::from_iter_values((0..300).map(|n| format!("text {}", n % 9))))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let path = folder.join("whole.parquet");
        let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        std::fs::read(path).unwrap()
    }

    // A file whose bytes lie takes down the process of who loads it, or is read as far as it goes and no one knows.
    #[test]
    fn files_that_lie_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let whole = written(folder.path());
        let path = folder.path().join("damaged.parquet");
        let load = |bytes: &[u8]| -> Result<usize, InputError> {
            std::fs::write(&path, bytes).unwrap();
            ParquetRows::open(&path, 64)?.map(|batch| batch.map(|batch| batch.num_rows())).sum()
        };
        assert_eq!(load(&whole).ok(), Some(300));
        for cut in (0..whole.len()).step_by(17) {
            assert!(load(&whole[..cut]).is_err(), "cut at {cut}");
        }
        let mut refused = 0;
        for (index, bit) in (0..whole.len()).map(|index| (index, index % 8)) {
            let mut damaged = whole.clone();
            damaged[index] ^= 1 << bit;
            match load(&damaged) {
                // Another value, a statistic or a name: the rows are still as many.
                Ok(rows) => assert_eq!(rows, 300, "byte {index}"),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > whole.len() / 10, "{refused} of {} were refused", whole.len());
    }

    // A few bytes keep a process busy for minutes: the reader goes over 2^31 elements of a list that it does not know, in the
    // footer or in a page's header, or over the same pages once for each of many columns.
    #[test]
    fn headers_are_as_long_as_they_say() {
        let folder = tempfile::tempdir().unwrap();
        let whole = written(folder.path());
        let path = folder.path().join("long.parquet");
        // Field 15 (a number that no structure has yet): a list of 2^31 - 1 elements, of booleans or of integers.
        for elements in [1, 5u8] {
            let list = [0xf9, 0xf0 | elements, 0xff, 0xff, 0xff, 0xff, 0x07];
            let mut footer = whole.clone();
            let length = whole.len() - 8;
            let bytes = u32::from_le_bytes(whole[length..][..4].try_into().unwrap()) as usize;
            footer.splice(length - bytes..length - bytes, list);
            let end = footer.len() - 8;
            footer[end..][..4].copy_from_slice(&(bytes as u32 + 7).to_le_bytes());
            std::fs::write(&path, &footer).unwrap();
            let error = ParquetRows::open(&path, 64).err().unwrap().to_string();
            assert!(error.contains("list"), "{error}");
            // The first page begins behind the file's magic number; what it overwrites of the header does not matter.
            let mut page = whole.clone();
            page[4..11].copy_from_slice(&list);
            std::fs::write(&path, &page).unwrap();
            let error = ParquetRows::open(&path, 64).err().unwrap().to_string();
            assert!(error.contains("list"), "{error}");
        }
    }
}
