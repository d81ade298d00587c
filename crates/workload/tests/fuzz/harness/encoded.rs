//! Fuzzed encodings of rows: the first byte selects the decoder of the others.
//!
//! Verified: no panic; an accepted Arrow stream becomes a row group, and the same rows again; a chunk with a
//! valid checksum decodes to the requested number of rows, or to an error; an accepted description of a row
//! group is encoded identically.

use byteway_query::group::ChunkMeta;
use byteway_query::zone::ZoneMap;
use byteway_query::{Column, ColumnType, Encoding, GroupMeta, RecordBatch, Schema, Work, group, ipc};

/// Rows of a stream that are encoded, at most.
const ROWS: usize = 1000;

pub fn run(bytes: &[u8]) {
    let Some((&kind, rest)) = bytes.split_first() else { return };
    match kind % 4 {
        0 => stream(rest),
        1 => chunk(rest),
        2 => description(rest),
        _ => drop(Schema::from_bytes(rest).map(|schema| {
            let again = Schema::from_bytes(&schema.to_bytes()).expect("it was made here");
            assert_eq!(schema, again);
        })),
    }
}

fn stream(bytes: &[u8]) {
    let Ok(batches) = ipc::decode(bytes) else { return };
    for batch in &batches {
        let Ok(schema) = Schema::from_arrow(&batch.schema()) else { continue };
        let batch = batch.slice(0, batch.num_rows().min(ROWS));
        let Ok((meta, encoded)) = group::encode(&schema, &batch) else { continue };
        let column = |column: usize| {
            let (offset, length) = meta.ranges(&[column])[0];
            let chunk = &encoded[offset as usize..][..length as usize];
            group::decode(&schema, column, &meta, chunk, &mut Work::default()).expect("it was encoded here")
        };
        let columns = (0..schema.columns().len()).map(column).collect();
        let again = RecordBatch::try_new(schema.to_arrow(), columns).expect("columns are as the schema says");
        // Not ==: NaN differs from itself.
        assert_eq!(format!("{:?}", again.columns()), format!("{:?}", batch.columns()));
    }
}

const TYPES: [ColumnType; 16] = [
    ColumnType::Bool,
    ColumnType::Int8,
    ColumnType::Int16,
    ColumnType::Int32,
    ColumnType::Int64,
    ColumnType::UInt8,
    ColumnType::UInt16,
    ColumnType::UInt32,
    ColumnType::UInt64,
    ColumnType::Float32,
    ColumnType::Float64,
    ColumnType::Decimal { precision: 6, scale: 2 },
    ColumnType::Decimal { precision: 38, scale: 2 },
    ColumnType::Date,
    ColumnType::Timestamp,
    ColumnType::Utf8,
];

/// Type, encoding, rows (24 bits), nulls (16 bits), then the chunk.
fn chunk(bytes: &[u8]) {
    let Some(([column_type, encoding, rows @ .., low, high], chunk)) = bytes.split_first_chunk::<7>() else {
        return;
    };
    let column_type = TYPES[usize::from(*column_type) % TYPES.len()];
    let encoding = Encoding::ALL[usize::from(*encoding) % Encoding::ALL.len()];
    let rows = u32::from_le_bytes([rows[0], rows[1], rows[2], 0]).clamp(1, group::ROWS_MAX as u32);
    let nulls = u32::from(u16::from_le_bytes([*low, *high])).min(rows);
    let column = Column { name: "c".to_owned(), column_type, nullable: true };
    let schema = Schema::new(vec![column]).expect("a column makes a schema");
    let zone = ZoneMap { min: None, max: None, nulls, nan: false, rows };
    let length = chunk.len() as u32;
    let meta = ChunkMeta { offset: 0, bytes: length, crc: crc32c::crc32c(chunk), encoding, zone };
    let meta = GroupMeta { rows, bytes: length.into(), chunks: vec![meta] };
    if let Ok(array) = group::decode(&schema, 0, &meta, chunk, &mut Work::default()) {
        assert_eq!((array.len(), array.null_count()), (rows as usize, nulls as usize));
    }
}

/// A description of a row group with a column of each type, with a valid checksum.
fn description(bytes: &[u8]) {
    let column = |(index, column_type): (usize, &ColumnType)| Column {
        name: format!("c{index}"),
        column_type: *column_type,
        nullable: true,
    };
    let schema = Schema::new(TYPES.iter().enumerate().map(column).collect()).expect("names differ");
    let mut bytes = bytes.to_vec();
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    if let Ok(meta) = GroupMeta::from_bytes(&schema, &bytes) {
        assert_eq!(meta.to_bytes(), bytes);
    }
}
