//! The common part of the Parquet files: columns with descriptions, and a writer whose output depends on its
//! rows only.

use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

/// A column: name, type, description.
pub struct Column {
    name: String,
    data: DataType,
    nullable: bool,
    description: String,
}

impl Column {
    /// A column without null values.
    pub fn new(name: &str, data: DataType, description: &str) -> Self {
        Column { name: name.to_owned(), data, nullable: false, description: description.to_owned() }
    }

    /// Makes the column nullable, for unknown values.
    pub fn nullable(self) -> Self {
        Column { nullable: true, ..self }
    }
}

/// The schema of these columns; each field's metadata has its `description`.
pub fn schema(columns: impl IntoIterator<Item = Column>) -> SchemaRef {
    let field = |column: Column| {
        let metadata = [("description".to_owned(), column.description)].into_iter().collect();
        Field::new(column.name, column.data, column.nullable).with_metadata(metadata)
    };
    Arc::new(Schema::new(columns.into_iter().map(field).collect::<Vec<_>>()))
}

/// A writer of rows of `schema`; `about` becomes the file's metadata.
///
/// # Errors
/// The schema has a type that Parquet has not: a defect.
pub fn writer<W: Write + Send>(
    out: W,
    schema: &SchemaRef,
    about: &[(&str, String)],
) -> Result<ArrowWriter<W>> {
    let about = about.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone())).collect();
    let properties = WriterProperties::builder()
        .set_created_by(concat!("byteway version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_key_value_metadata(Some(about))
        .build();
    ArrowWriter::try_new(out, schema.clone(), Some(properties))
}

/// A batch of rows from its columns, in schema order.
///
/// # Errors
/// The columns do not match the schema: a defect.
pub fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}
