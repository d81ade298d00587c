//! Encoded row groups: choice of encoding, zone maps, columns read.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use byteway_query::{Encoding, Schema, Value, Work, group};

fn one(array: ArrayRef) -> (Schema, group::GroupMeta, Vec<u8>) {
    let batch = RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap();
    let schema = Schema::from_arrow(&batch.schema()).unwrap();
    let (meta, bytes) = group::encode(&schema, &batch).unwrap();
    let array = group::decode(&schema, 0, &meta, &bytes, &mut Work::default()).unwrap();
    assert_eq!(array.to_data(), batch.column(0).to_data());
    (schema, meta, bytes)
}

// An encoding that costs more than it saves wastes flash and cycles on every read.
#[test]
fn the_smallest_encoding_is_chosen() {
    let numbers =
        |value: fn(i64) -> i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values((0..1000).map(value))) };
    for (array, encoding, bytes) in [
        (numbers(|n| n), Encoding::Plain, 8 * 1000),
        (numbers(|n| n / 100), Encoding::RunLength, 4 + 10 * 12),
        (numbers(|n| n % 10), Encoding::Dictionary, 4 + 1000 + 10 * 8),
        (numbers(|n| n % 300), Encoding::Dictionary, 4 + 2000 + 300 * 8),
        (numbers(|_| 7), Encoding::RunLength, 4 + 12),
    ] {
        let (_, meta, all) = one(array);
        assert_eq!((meta.chunks[0].encoding, meta.chunks[0].bytes), (encoding, bytes));
        assert_eq!(all.len(), bytes as usize);
    }
    let texts: ArrayRef = Arc::new(StringArray::from_iter((0..64).map(|n| (n % 2 == 0).then_some("text"))));
    let (_, meta, _) = one(texts);
    // A bitmap, ends and bytes of two values, an index per row.
    assert_eq!(
        (meta.chunks[0].encoding, meta.chunks[0].bytes),
        (Encoding::Dictionary, 8 + 4 + 64 + 2 * 4 + 4)
    );
}

// A zone map that is too tight skips row groups with result rows.
#[test]
fn zone_maps_are_never_too_tight() {
    let (_, meta, _) = one(Arc::new(Float64Array::from(vec![Some(2.0), None, Some(f64::NAN), Some(-1.0)])));
    let zone = &meta.chunks[0].zone;
    assert_eq!((&zone.min, &zone.max), (&Some(Value::Float(-1.0)), &Some(Value::Float(2.0))));
    assert_eq!((zone.nulls, zone.nan, zone.rows), (1, true, 4));
    let text = |text: String| one(Arc::new(StringArray::from(vec![text]))).1.chunks[0].zone.clone();
    let long = text("x".repeat(40));
    assert_eq!(long.min, Some(Value::Text("x".repeat(32))));
    assert_eq!(long.max, Some(Value::Text("x".repeat(31) + "y")));
    // The greatest character has no successor, and the one below the surrogates skips them.
    assert_eq!(text("\u{10ffff}".repeat(20)).max, None);
    let jumped = text("a".to_owned() + &"\u{d7ff}".repeat(20)).max;
    assert_eq!(jumped, Some(Value::Text("a".to_owned() + &"\u{d7ff}".repeat(9) + "\u{e000}")));
    // A string that fits is its own bound, whatever its last character.
    assert_eq!(text("ü".repeat(16)).max, Some(Value::Text("ü".repeat(16))));
}

// Nulls, empty strings and slices of another batch must be stored correctly.
#[test]
fn slices_and_nulls_come_back() {
    let array = StringArray::from(vec![None, Some(""), Some("a"), None, Some("bb"), Some("")]);
    for (start, length) in [(0, 6), (1, 3), (3, 1), (2, 4)] {
        let slice: ArrayRef = Arc::new(array.slice(start, length));
        let batch = RecordBatch::try_from_iter_with_nullable([("c", slice, true)]).unwrap();
        let schema = Schema::from_arrow(&batch.schema()).unwrap();
        let (meta, bytes) = group::encode(&schema, &batch).unwrap();
        let read = group::decode(&schema, 0, &meta, &bytes, &mut Work::default()).unwrap();
        assert_eq!(&read, batch.column(0));
    }
    let batch = RecordBatch::try_from_iter_with_nullable([("c", Arc::new(array) as ArrayRef, true)]).unwrap();
    let schema = Schema::from_arrow(&batch.schema()).unwrap();
    assert!(group::encode(&schema, &batch.slice(0, 0)).is_err(), "a group has a row");
}
