//! An entry: what the store knows of a key-value pair, as record tables and index tables encode it.

use super::key::{KEY_BYTES_MAX, Key};
use super::varint::{self, Reader};
use std::rc::Rc;

/// The extent of a segment that holds a value, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ValueExtent {
    pub(super) segment: u32,
    /// In bytes from the segment's beginning.
    pub(super) offset: u32,
    pub(super) bytes: u32,
    /// CRC-32C of the bytes.
    pub(super) crc: u32,
}

impl ValueExtent {
    pub(super) fn end(&self) -> u32 {
        self.offset + self.bytes
    }
}

/// The location of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// The key was deleted.
    Tombstone,
    One(ValueExtent),
    /// A value longer than a segment: its parts, in order.
    Many(Rc<[ValueExtent]>),
}

/// The newest change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Rises with each change. A value that garbage collection moves keeps its own.
    pub(super) sequence: u64,
    /// Cost of the replaced entry, in bytes, if it was subtracted from the sums already (see `Tally`); otherwise 0.
    pub(super) settles: u32,
    pub(super) value: Value,
}

const TOMBSTONE: u8 = 1;
const MANY: u8 = 2;
const SETTLES: u8 = 4;

impl Entry {
    pub(super) fn extents(&self) -> &[ValueExtent] {
        match &self.value {
            Value::Tombstone => &[],
            Value::One(place) => std::slice::from_ref(place),
            Value::Many(places) => places,
        }
    }

    pub(super) fn is_tombstone(&self) -> bool {
        matches!(self.value, Value::Tombstone)
    }

    /// The value's length in bytes.
    pub(super) fn bytes(&self) -> u32 {
        self.extents().iter().map(|place| place.bytes).sum()
    }

    fn flags(&self) -> u8 {
        let kind = match &self.value {
            Value::Tombstone => TOMBSTONE,
            Value::One(_) => 0,
            Value::Many(_) => MANY,
        };
        kind | if self.settles > 0 { SETTLES } else { 0 }
    }

    fn encode_value(&self, out: &mut Vec<u8>) {
        varint::put(out, self.sequence);
        if self.settles > 0 {
            varint::put(out, u64::from(self.settles));
        }
        if let Value::Many(places) = &self.value {
            varint::put(out, places.len() as u64);
        }
        for place in self.extents() {
            for number in [place.segment, place.offset, place.bytes] {
                varint::put(out, u64::from(number));
            }
            out.extend_from_slice(&place.crc.to_le_bytes());
        }
    }

    #[inline]
    fn decode_value(flags: u8, reader: &mut Reader<'_>) -> Option<Entry> {
        let sequence = reader.varint()?;
        let settles = if flags & SETTLES != 0 { reader.varint32()? } else { 0 };
        let place = |reader: &mut Reader<'_>| {
            let (segment, offset) = (reader.varint32()?, reader.varint32()?);
            Some(ValueExtent { segment, offset, bytes: reader.varint32()?, crc: reader.u32()? })
        };
        let value = match flags & (TOMBSTONE | MANY) {
            0 => Value::One(place(reader)?),
            MANY => {
                let count = reader.varint()?;
                if count > reader.0.len() as u64 {
                    return None; // each part takes at least one byte
                }
                Value::Many((0..count).map(|_| place(reader)).collect::<Option<_>>()?)
            }
            TOMBSTONE => Value::Tombstone,
            _ => return None,
        };
        Some(Entry { sequence, settles, value })
    }

    /// Appends the record of a key and its entry.
    pub(super) fn encode_record(&self, key: &Key, out: &mut Vec<u8>) {
        out.push(self.flags() | (key.len() as u8 - 1) << 4);
        out.extend_from_slice(key.as_bytes());
        self.encode_value(out);
    }

    /// The next record.
    pub(super) fn decode_record(reader: &mut Reader<'_>) -> Option<(Key, Entry)> {
        let head = reader.byte()?;
        let key = Key::new(reader.bytes(usize::from(head >> 4) + 1)?)?;
        Some((key, Entry::decode_value(head & 0x0f, reader)?))
    }

    /// Appends an entry of an index unit. The prefix that the key shares with the previous one is left out.
    pub(super) fn encode_indexed(&self, key: &Key, before: Option<&Key>, out: &mut Vec<u8>) {
        let common = |before: &Key| {
            let pairs = key.as_bytes().iter().zip(before.as_bytes());
            pairs.take_while(|(one, other)| one == other).count()
        };
        let shared = before.map_or(0, common);
        out.push(self.flags() | (shared as u8) << 3);
        out.push((key.len() - shared) as u8);
        out.extend_from_slice(&key.as_bytes()[shared..]);
        self.encode_value(out);
    }

    /// Decodes the next entry of an index unit.
    #[inline]
    pub(super) fn decode_indexed(reader: &mut Reader<'_>, before: Option<&Key>) -> Option<(Key, Entry)> {
        let head = reader.byte()?;
        let shared = usize::from(head >> 3);
        let suffix = usize::from(reader.byte()?);
        let suffix = reader.bytes(suffix)?;
        let mut bytes = [0; KEY_BYTES_MAX];
        let len = shared + suffix.len();
        if len > KEY_BYTES_MAX || shared > before.map_or(0, Key::len) {
            return None;
        }
        if let Some(before) = before {
            bytes[..shared].copy_from_slice(&before.as_bytes()[..shared]);
        }
        bytes[shared..len].copy_from_slice(suffix);
        let key = Key::new(&bytes[..len])?;
        Some((key, Entry::decode_value(head & 0x07, reader)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<(Key, Entry)> {
        let place = |n: u32| ValueExtent {
            segment: n,
            offset: n * 1000,
            bytes: n * n,
            crc: n.wrapping_mul(0x9e37_79b9),
        };
        let values = [
            Value::Tombstone,
            Value::One(place(0)),
            Value::One(place(700)),
            Value::Many((0..5).map(place).collect()),
        ];
        let keys: [&[u8]; 4] = [b"a", b"abc", b"abcdefghijklmnop", b"abcdefghijklmnoq"];
        (0..16u32)
            .map(|n| {
                let value = values[n as usize % 4].clone();
                let entry = Entry { sequence: u64::from(n) << n, settles: n / 4 * 50, value };
                (Key::new(keys[n as usize / 4]).unwrap(), entry)
            })
            .collect()
    }

    // An entry that is decoded as another would point into another's value.
    #[test]
    fn entries_come_back_from_both_forms() {
        let (mut records, mut index) = (Vec::new(), Vec::new());
        let mut before = None;
        for (key, entry) in &entries() {
            entry.encode_record(key, &mut records);
            entry.encode_indexed(key, before, &mut index);
            before = Some(key);
        }
        let (mut records, mut index) = (Reader(&records), Reader(&index));
        let mut before = None;
        for pair in entries() {
            assert_eq!(Entry::decode_record(&mut records).as_ref(), Some(&pair));
            assert_eq!(Entry::decode_indexed(&mut index, before.as_ref()).as_ref(), Some(&pair));
            before = Some(pair.0);
        }
        assert!(records.0.is_empty() && index.0.is_empty());
    }

    // Bytes that are no entry must be refused, without allocating what they claim.
    #[test]
    fn hostile_bytes_are_refused() {
        for head in 0..=255u8 {
            for fill in [0u8, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = vec![fill; 40];
                bytes[0] = head;
                _ = Entry::decode_record(&mut Reader(&bytes));
                _ = Entry::decode_indexed(&mut Reader(&bytes), Some(&Key::FIRST));
            }
        }
        assert_eq!(Entry::decode_indexed(&mut Reader(&[5 << 3, 0, 1, 1]), Some(&Key::FIRST)), None);
    }
}
