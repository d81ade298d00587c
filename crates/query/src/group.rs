//! Encoding of a row group: the chunks of its columns, and metadata with the location of each.
//!
//! With the metadata a reader fetches only the chunks of the columns that it needs. Chunks are not aligned: storage adds its own alignment.

use arrow_array::{ArrayRef, RecordBatch};

use crate::bytes::{FormatError, Reader};
use crate::chunk;
use crate::error::QueryError;
use crate::schema::{COLUMNS_MAX, Schema};
use crate::work::{Encoding, Work};
use crate::zone::ZoneMap;

/// Upper limit of a row group's rows.
pub const ROWS_MAX: usize = 1 << 20;
/// Upper limit of a row group's metadata in bytes.
pub const META_BYTES_MAX: usize = 16 + COLUMNS_MAX * 128;

const VERSION: u8 = 1;

/// Location and properties of a column's chunk.
#[derive(Debug, Clone, PartialEq)]
pub struct ChunkMeta {
    /// Byte offset in the row group.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u32,
    /// CRC-32C of the chunk.
    pub crc: u32,
    /// Encoding of the values.
    pub encoding: Encoding,
    /// Bounds of the values.
    pub zone: ZoneMap,
}

/// Metadata of a row group, known without its columns.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupMeta {
    /// Number of rows, equal for all columns.
    pub rows: u32,
    /// Total length of all chunks in bytes.
    pub bytes: u64,
    /// A chunk for each column of the schema.
    pub chunks: Vec<ChunkMeta>,
}

/// Encodes rows as metadata and bytes.
///
/// # Errors
/// A batch that does not match the schema, has no rows or more than [`ROWS_MAX`], or more than [`chunk::TEXT_BYTES_MAX`] bytes of strings
/// in a column.
pub fn encode(schema: &Schema, batch: &RecordBatch) -> Result<(GroupMeta, Vec<u8>), QueryError> {
    if batch.num_columns() != schema.columns().len() {
        let (have, need) = (batch.num_columns(), schema.columns().len());
        return Err(QueryError::Batch(format!("{have} columns, not {need}")));
    }
    if batch.num_rows() == 0 || batch.num_rows() > ROWS_MAX {
        let (found, max) = (batch.num_rows() as u64, ROWS_MAX as u64);
        return Err(QueryError::Limit { what: "rows of a group, 1 at least", found, max });
    }
    let mut bytes = Vec::new();
    let mut chunks = Vec::with_capacity(batch.num_columns());
    for (column, array) in schema.columns().iter().zip(batch.columns()) {
        if *array.data_type() != column.column_type.to_arrow() {
            let (name, want, have) = (&column.name, column.column_type, array.data_type());
            return Err(QueryError::Batch(format!("column {name:?} is {have}, not {want}")));
        }
        if !column.nullable && array.null_count() > 0 {
            return Err(QueryError::Batch(format!("column {:?} has nulls but is not nullable", column.name)));
        }
        let offset = bytes.len();
        let encoding = chunk::encode(array, column.column_type, &mut bytes)?;
        let chunk = &bytes[offset..];
        let length = u32::try_from(chunk.len()).map_err(|_| {
            let (found, max) = (chunk.len() as u64, u64::from(u32::MAX));
            QueryError::Limit { what: "bytes of a chunk", found, max }
        })?;
        chunks.push(ChunkMeta {
            offset: offset as u64,
            bytes: length,
            crc: crc32c::crc32c(chunk),
            encoding,
            zone: ZoneMap::of(array, column.column_type),
        });
    }
    Ok((GroupMeta { rows: batch.num_rows() as u32, bytes: bytes.len() as u64, chunks }, bytes))
}

/// Decodes a column's chunk, the bytes at [`offset`](ChunkMeta::offset). Checks the length, the CRC and the content.
///
/// # Errors
/// The bytes do not match metadata and schema.
pub fn decode(
    schema: &Schema,
    column: usize,
    meta: &GroupMeta,
    bytes: &[u8],
    work: &mut Work,
) -> Result<ArrayRef, FormatError> {
    let damaged = |problem: String| {
        let what = match schema.columns().get(column) {
            Some(known) => format!("chunk of column {:?}", known.name),
            None => format!("chunk of column {column}"),
        };
        FormatError { what, problem, at: 0 }
    };
    let (Some(known), Some(chunk)) = (schema.columns().get(column), meta.chunks.get(column)) else {
        return Err(damaged(format!("the row group has {} columns", meta.chunks.len())));
    };
    if bytes.len() != chunk.bytes as usize {
        return Err(damaged(format!("{} bytes, not {}", bytes.len(), chunk.bytes)));
    }
    let crc = crc32c::crc32c(bytes);
    if crc != chunk.crc {
        return Err(damaged(format!("the CRC-32C is {crc:08x}, not {:08x}", chunk.crc)));
    }
    let (rows, nulls) = (meta.rows as usize, chunk.zone.nulls as usize);
    let array = chunk::decode(known.column_type, chunk.encoding, rows, nulls, bytes)
        .map_err(|error| FormatError { what: format!("chunk of column {:?}", known.name), ..error })?;
    if !known.nullable && nulls > 0 {
        return Err(damaged(format!("{nulls} nulls in a column that is not nullable")));
    }
    work.add_decoded(chunk.encoding, bytes.len());
    Ok(array)
}

impl GroupMeta {
    /// Encodes the metadata: version (8 bits), rows (32), columns (16); for each column bytes (32), CRC (32), encoding (8), zone map; then
    /// a CRC-32C of all this (32). Chunks are contiguous.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend(self.rows.to_le_bytes());
        bytes.extend((self.chunks.len() as u16).to_le_bytes());
        for chunk in &self.chunks {
            bytes.extend(chunk.bytes.to_le_bytes());
            bytes.extend(chunk.crc.to_le_bytes());
            bytes.push(chunk.encoding as u8);
            chunk.zone.write(&mut bytes);
        }
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// Decodes metadata that [`to_bytes`](Self::to_bytes) wrote, for a table of this schema.
    ///
    /// # Errors
    /// Damaged bytes, or metadata that contradict the schema.
    pub fn from_bytes(schema: &Schema, bytes: &[u8]) -> Result<Self, FormatError> {
        let (body, crc) = bytes.split_at(bytes.len().saturating_sub(4));
        let mut reader = Reader::new("metadata of a group", body);
        if crc != crc32c::crc32c(body).to_le_bytes() {
            return Err(reader.error("the CRC-32C does not match"));
        }
        let version = reader.u8()?;
        if version != VERSION {
            return Err(reader.error(format!("version is {version}, expected {VERSION}")));
        }
        let rows = reader.u32()?;
        if rows == 0 || rows as usize > ROWS_MAX {
            return Err(reader.error(format!("{rows} rows; a row group has 1 to {ROWS_MAX}")));
        }
        let columns = usize::from(reader.u16()?);
        if columns != schema.columns().len() {
            return Err(reader.error(format!("{columns} columns, not {}", schema.columns().len())));
        }
        let mut meta = Self { rows, bytes: 0, chunks: Vec::with_capacity(columns) };
        for column in schema.columns() {
            let (length, crc, code) = (reader.u32()?, reader.u32()?, reader.u8()?);
            let encoding = Encoding::ALL.get(usize::from(code)).copied();
            let encoding = encoding.ok_or_else(|| reader.error(format!("unknown encoding {code}")))?;
            let zone = ZoneMap::read(&mut reader, column.column_type)?;
            if zone.rows != rows {
                return Err(
                    reader.error(format!("column {:?} has {} rows, not {rows}", column.name, zone.rows))
                );
            }
            meta.chunks.push(ChunkMeta { offset: meta.bytes, bytes: length, crc, encoding, zone });
            meta.bytes += u64::from(length);
        }
        reader.end()?;
        Ok(meta)
    }

    /// Offset and length in bytes of the chunks of these columns.
    pub fn ranges(&self, columns: &[usize]) -> Vec<(u64, u32)> {
        columns.iter().map(|&column| (self.chunks[column].offset, self.chunks[column].bytes)).collect()
    }
}
