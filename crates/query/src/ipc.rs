//! Encoding of results as an Arrow IPC stream, which any Arrow library reads.

use std::io::Cursor;

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{Schema, SchemaRef};

use crate::bytes::FormatError;
use crate::error::QueryError;
use crate::schema::{COLUMNS_MAX, PRECISION_MAX};

/// Encodes batches of this schema as a stream; without batches the stream has only the schema.
///
/// # Errors
/// A batch has another schema.
pub fn encode(schema: &Schema, batches: &[RecordBatch]) -> Result<Vec<u8>, QueryError> {
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::try_new(&mut bytes, schema)?;
    for batch in batches {
        writer.write(batch)?;
    }
    writer.finish()?;
    drop(writer);
    Ok(bytes)
}

/// Upper limit of the rows of a stream's batch.
const BATCH_ROWS_MAX: i64 = 1 << 24;

/// Precedes each message. Streams from before Arrow 0.15 lack it.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Validates what Arrow's reader assumes: it panics on unknown types and on missing buffers. Accepted streams consist of a schema of
/// supported types and batches of it, without dictionaries or compression.
fn check(bytes: &[u8]) -> Result<(), FormatError> {
    let mut left = bytes;
    let wrong = |problem: &str| FormatError {
        what: "an Arrow stream".to_owned(),
        problem: problem.to_owned(),
        at: 0,
    };
    let mut kinds: Option<Vec<usize>> = None;
    while !left.is_empty() {
        let at = bytes.len() - left.len();
        let wrong = |problem: &str| FormatError { at, ..wrong(problem) };
        let (head, rest) = left.split_first_chunk::<8>().ok_or_else(|| wrong("is truncated"))?;
        if head[..4] != CONTINUATION {
            return Err(wrong("has no message at this offset"));
        }
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        if length == 0 {
            break; // end of the stream
        }
        let (meta, rest) = rest.split_at_checked(length).ok_or_else(|| wrong("is truncated"))?;
        let message = arrow_ipc::root_as_message(meta).map_err(|error| wrong(&error.to_string()))?;
        let body = usize::try_from(message.bodyLength())
            .map_err(|_| wrong("has a message body of negative length"))?;
        let (_, rest) = rest.split_at_checked(body).ok_or_else(|| wrong("is truncated"))?;
        left = rest;
        match (&kinds, message.header_as_schema(), message.header_as_record_batch()) {
            (None, Some(schema), _) => kinds = Some(buffers(&schema).map_err(wrong)?),
            (Some(kinds), _, Some(batch)) => check_batch(&batch, kinds, body).map_err(wrong)?,
            _ => return Err(wrong("has a message other than schema and record batches")),
        }
    }
    kinds.map(drop).ok_or_else(|| wrong("has no schema"))
}

/// Number of buffers of each field's column.
fn buffers(schema: &arrow_ipc::Schema<'_>) -> Result<Vec<usize>, &'static str> {
    if schema.endianness() != arrow_ipc::Endianness::Little {
        return Err("is big-endian");
    }
    let fields = schema.fields().ok_or("has no columns")?;
    if fields.len() > COLUMNS_MAX {
        return Err("has too many columns");
    }
    let of = |field: arrow_ipc::Field<'_>| {
        let is_plain = field.name().is_some()
            && field.dictionary().is_none()
            && field.children().is_none_or(|children| children.is_empty());
        let known = match field.type_type() {
            arrow_ipc::Type::Bool => Some(2),
            arrow_ipc::Type::Utf8 => Some(3),
            arrow_ipc::Type::Int => {
                field.type_as_int().filter(|it| [8, 16, 32, 64].contains(&it.bitWidth())).map(|_| 2)
            }
            arrow_ipc::Type::FloatingPoint => field
                .type_as_floating_point()
                .filter(|it| {
                    [arrow_ipc::Precision::SINGLE, arrow_ipc::Precision::DOUBLE].contains(&it.precision())
                })
                .map(|_| 2),
            arrow_ipc::Type::Decimal => field
                .type_as_decimal()
                .filter(|it| {
                    let digits = 1..=i32::from(PRECISION_MAX);
                    it.bitWidth() == 128
                        && digits.contains(&it.precision())
                        && (0..=it.precision()).contains(&it.scale())
                })
                .map(|_| 2),
            arrow_ipc::Type::Date => {
                field.type_as_date().filter(|it| it.unit() == arrow_ipc::DateUnit::DAY).map(|_| 2)
            }
            arrow_ipc::Type::Timestamp => field
                .type_as_timestamp()
                .filter(|it| it.unit() == arrow_ipc::TimeUnit::MICROSECOND && it.timezone().is_none())
                .map(|_| 2),
            _ => None,
        };
        known.filter(|_| is_plain).ok_or("has a column of an unsupported type")
    };
    fields.iter().map(of).collect()
}

fn check_batch(batch: &arrow_ipc::RecordBatch<'_>, kinds: &[usize], body: usize) -> Result<(), &'static str> {
    let rows = batch.length();
    if !(0..=BATCH_ROWS_MAX).contains(&rows) {
        return Err("has a batch with too many rows");
    }
    if batch.compression().is_some() || batch.variadicBufferCounts().is_some_and(|counts| !counts.is_empty())
    {
        return Err("is compressed");
    }
    let (nodes, buffers) = (batch.nodes(), batch.buffers());
    let (nodes, buffers) =
        (nodes.ok_or("has a batch without columns")?, buffers.ok_or("has a batch without columns")?);
    if nodes.len() != kinds.len() || buffers.len() != kinds.iter().sum::<usize>() {
        return Err("has a batch that does not match its schema");
    }
    let is_there = |buffer: &arrow_ipc::Buffer| {
        let (offset, length) = (usize::try_from(buffer.offset()), usize::try_from(buffer.length()));
        matches!((offset, length), (Ok(offset), Ok(length)) if offset.checked_add(length).is_some_and(|end| end <= body))
    };
    if !buffers.iter().all(is_there) {
        return Err("has a buffer outside the message");
    }
    let mut first = 0;
    for (node, count) in nodes.iter().zip(kinds) {
        let validity = buffers.get(first).length();
        if node.length() != rows || !(0..=rows).contains(&node.null_count()) {
            return Err("has columns of different lengths");
        }
        if node.null_count() > 0 && validity < (rows + 7) / 8 {
            return Err("has a null bitmap that is too short");
        }
        // Offsets of texts, which the reader takes for whole numbers before it looks at how many there are.
        if *count == 3 && buffers.get(first + 1).length() % 4 != 0 {
            return Err("has offsets that are no 32-bit numbers");
        }
        first += count;
    }
    Ok(())
}

/// Decodes an untrusted stream.
///
/// # Errors
/// Malformed or truncated bytes.
pub fn decode(bytes: &[u8]) -> Result<Vec<RecordBatch>, QueryError> {
    Ok(decode_with_schema(bytes)?.1)
}

/// The same with the schema, which a stream has also if it has no batch.
///
/// # Errors
/// Same as [`decode`].
pub fn decode_with_schema(bytes: &[u8]) -> Result<(SchemaRef, Vec<RecordBatch>), QueryError> {
    check(bytes)?;
    let reader = StreamReader::try_new(Cursor::new(bytes), None)?;
    let schema = reader.schema();
    Ok((schema, reader.collect::<Result<Vec<_>, _>>()?))
}
