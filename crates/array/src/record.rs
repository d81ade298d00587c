//! The controller's record: bytes that the array keeps for it, with a number, in two places in turn.

use crate::area::RECORD_UNITS;
use byteway_content::{Content, Keep, UNIT_BYTES};
use std::rc::Rc;

/// Bytes of a record's head: number, length, checksum.
const HEAD_BYTES: usize = 24;

/// The newest record.
#[derive(Default)]
pub(crate) struct Record {
    bytes: Option<Rc<[u8]>>,
    number: u64,
}

impl Record {
    pub(crate) fn bytes(&self) -> Option<Rc<[u8]>> {
        self.bytes.clone()
    }

    /// Takes over the record of a member, if it is newer.
    pub(crate) fn merge(&mut self, contents: &[Content]) {
        if let Some((number, bytes)) = decode(contents)
            && number > self.number
        {
            (self.number, self.bytes) = (number, Some(bytes));
        }
    }

    /// Replaces the record. Returns its number, and the units to write.
    pub(crate) fn replace(&mut self, bytes: Rc<[u8]>) -> (u64, Vec<Content>) {
        debug_assert!(self.number < u64::MAX, "numbers of records rise by one");
        self.number += 1;
        let mut all = Vec::with_capacity(HEAD_BYTES + bytes.len());
        all.extend_from_slice(&self.number.to_le_bytes());
        all.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        all.extend_from_slice(&u64::from(sum(self.number, &bytes)).to_le_bytes());
        all.extend_from_slice(&bytes);
        all.resize(all.len().next_multiple_of(UNIT_BYTES), 0);
        assert!(all.len() <= RECORD_UNITS as usize * UNIT_BYTES, "a record is at most 128 KiB");
        self.bytes = Some(bytes);
        let units = all.chunks_exact(UNIT_BYTES).map(|unit| Content::of(unit, Keep::Bytes)).collect();
        (self.number, units)
    }
}

/// Decodes a record; None if there is none.
fn decode(contents: &[Content]) -> Option<(u64, Rc<[u8]>)> {
    let mut bytes = vec![0; contents.len() * UNIT_BYTES];
    for (content, into) in contents.iter().zip(bytes.chunks_exact_mut(UNIT_BYTES)) {
        content.write_to(into);
    }
    let (head, data) = bytes.split_at_checked(HEAD_BYTES)?;
    let long = |at: usize| head[at..at + 8].try_into().map(u64::from_le_bytes).ok();
    let (number, length, expected) = (long(0)?, long(8)?, long(16)?);
    let data = data.get(..usize::try_from(length).ok()?)?;
    let is_whole = number > 0 && expected == u64::from(sum(number, data));
    is_whole.then(|| (number, data.into()))
}

fn sum(number: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&number.to_le_bytes()), bytes)
}
