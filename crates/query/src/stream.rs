//! Incremental encoding of results as an Arrow IPC stream.

use crate::error::QueryError;
use crate::schema::Schema;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::SchemaRef;
use std::sync::Arc;

/// An encoder of a stream.
pub struct Encoder(StreamWriter<Vec<u8>>);

impl Encoder {
    /// A stream of batches of this schema. Its first bytes are the schema message.
    ///
    /// # Errors
    /// Arrow cannot encode the schema.
    pub fn new(schema: &SchemaRef) -> Result<Encoder, QueryError> {
        Ok(Encoder(StreamWriter::try_new(Vec::new(), schema)?))
    }

    /// Writes rows.
    ///
    /// # Errors
    /// The batch has another schema.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), QueryError> {
        Ok(self.0.write(batch)?)
    }

    /// Takes the bytes written since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(self.0.get_mut())
    }

    /// Ends the stream and returns its last bytes.
    ///
    /// # Errors
    /// The stream has already ended.
    pub fn finish(&mut self) -> Result<Vec<u8>, QueryError> {
        self.0.finish()?;
        Ok(self.take())
    }
}

/// A batch of some columns of a table, as [`Execution::push`](crate::Execution::push) takes it. Without columns it still has `rows` rows.
///
/// # Errors
/// The arrays do not match the schema, or do not all have `rows` rows.
pub fn batch(
    schema: &Schema,
    columns: &[usize],
    arrays: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch, QueryError> {
    let whole = schema.to_arrow();
    let part = Arc::new(whole.project(columns)?);
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(part, arrays, &options)?)
}
