//! The log page of a borrowed DRAM segment: changes since its pages were last written to flash ("Espresso",
//! 4.5).
//!
//! A 4 KiB page in the borrower's own DRAM, which its capacitors protect, takes a record for each change of a
//! map entry in the segment, whether borrower or lender makes it. After the loss of the lender the borrower
//! replays it over the pages in flash; when it is full, the segment is flushed and the log page cleared.
//!
//! A log of changes, not copies of the changed pages: a change costs 24 bytes of own memory rather than 4 KiB, and pages in
//! flash plus the log are all that is left when a lender is lost. The price is that a full page flushes a whole segment.
//!
//! A record has 24 bytes, little-endian: sequence number (8), unit (5), map entry (7), CRC-32C of the
//! preceding bytes (4). Sequence numbers ascend by one from the first record on, so that records of an
//! earlier use of the page end the replay, as does a record that was not completely stored. Bit 55 of the map
//! entry marks a record of deallocated units, from the given one on; the other bits are their number.

/// Bytes of a log page.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of a record.
pub const RECORD_BYTES: usize = 24;
/// Records of a log page.
pub const RECORDS: usize = PAGE_BYTES / RECORD_BYTES;

/// Marks a record of deallocated units.
const DEALLOCATED: u64 = 1 << 55;

/// A change of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A unit has moved in flash.
    Moved {
        /// The unit; less than 2^40.
        unit: u64,
        /// New map entry, in the encoding of a translation page; less than 2^55.
        entry: u64,
    },
    /// Units were deallocated.
    Deallocated {
        /// First unit; less than 2^40.
        first: u64,
        /// Number of units; less than 2^55.
        count: u64,
    },
}

impl Record {
    /// The units of the record: first, and number.
    pub fn units(&self) -> (u64, u64) {
        match *self {
            Record::Moved { unit, .. } => (unit, 1),
            Record::Deallocated { first, count } => (first, count),
        }
    }

    fn encode(&self, sequence: u64) -> [u8; RECORD_BYTES] {
        let (unit, word) = match *self {
            Record::Moved { unit, entry } => (unit, entry & (DEALLOCATED - 1)),
            Record::Deallocated { first, count } => (first, count & (DEALLOCATED - 1) | DEALLOCATED),
        };
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(&sequence.to_le_bytes());
        bytes[8..13].copy_from_slice(&unit.to_le_bytes()[..5]);
        bytes[13..20].copy_from_slice(&word.to_le_bytes()[..7]);
        let sum = crc32c::crc32c(&bytes[..20]);
        bytes[20..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Decodes a record and its sequence number; None unless it is intact.
    fn decode(bytes: &[u8]) -> Option<(u64, Record)> {
        let sum = u32::from_le_bytes(bytes.get(20..24)?.try_into().ok()?);
        if sum != crc32c::crc32c(bytes.get(..20)?) {
            return None;
        }
        let number = |range: std::ops::Range<usize>| {
            let (mut number, bytes) = ([0; 8], bytes.get(range)?);
            number[..bytes.len()].copy_from_slice(bytes);
            Some(u64::from_le_bytes(number))
        };
        let (sequence, unit, word) = (number(0..8)?, number(8..13)?, number(13..20)?);
        let record = match word & DEALLOCATED {
            0 => Record::Moved { unit, entry: word },
            _ => Record::Deallocated { first: unit, count: word & !DEALLOCATED },
        };
        Some((sequence, record))
    }
}

/// A log page.
#[derive(Clone, Debug)]
pub struct LogPage {
    bytes: Box<[u8; PAGE_BYTES]>,
    /// Sequence number of the next record.
    next: u64,
    records: usize,
}

/// The log page is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the log page is full: flush the segment and clear the page")]
pub struct Full;

impl Default for LogPage {
    fn default() -> Self {
        LogPage { bytes: Box::new([0; PAGE_BYTES]), next: 1, records: 0 }
    }
}

impl LogPage {
    /// Appends a record.
    ///
    /// # Errors
    /// [`Full`], with nothing changed.
    pub fn commit(&mut self, record: Record) -> Result<(), Full> {
        if self.is_full() {
            return Err(Full);
        }
        debug_assert!(self.next > self.records as u64, "records are numbered by one from the first on");
        let at = self.records * RECORD_BYTES;
        debug_assert!(at + RECORD_BYTES <= PAGE_BYTES, "a record is within its page");
        self.bytes[at..at + RECORD_BYTES].copy_from_slice(&record.encode(self.next));
        self.next += 1;
        self.records += 1;
        Ok(())
    }

    /// Empties the page, once everything in it is in flash or on its way there. Sequence numbers continue.
    pub fn clear(&mut self) {
        self.records = 0;
        // The first record determines where the page begins; the records behind it are then of an earlier
        // use.
        self.bytes[..RECORD_BYTES].fill(0);
    }

    /// Sequence number of the next record.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.records
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Whether no further record fits.
    pub fn is_full(&self) -> bool {
        self.records == RECORDS
    }

    /// The bytes of the page.
    pub fn bytes(&self) -> &[u8; PAGE_BYTES] {
        &self.bytes
    }
}

/// Decodes the records of a page with their sequence numbers, oldest first.
pub fn replay(bytes: &[u8]) -> impl Iterator<Item = (u64, Record)> {
    let records = bytes.chunks_exact(RECORD_BYTES).map_while(Record::decode);
    records
        .scan(None, |expected: &mut Option<u64>, (sequence, record)| {
            let is_next = expected.is_none_or(|expected| expected == sequence);
            *expected = sequence.checked_add(1);
            is_next.then_some((sequence, record))
        })
        .fuse()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64) -> Record {
        match number % 3 {
            0 => Record::Deallocated { first: number << 20, count: number },
            _ => Record::Moved { unit: number << 30, entry: number ^ 0x7f_ffff_ffff_0000 },
        }
    }

    fn said(page: &LogPage) -> Vec<Record> {
        replay(page.bytes()).map(|(_, record)| record).collect()
    }

    // Replay must begin at the last flush of the segment: an earlier record would undo later changes.
    #[test]
    fn what_was_committed_is_replayed() {
        let mut page = LogPage::default();
        assert_eq!(said(&page), []);
        for number in 0..RECORDS as u64 {
            assert_eq!(page.next(), number + 1);
            page.commit(record(number)).unwrap();
        }
        assert_eq!((page.commit(record(999)), page.is_full()), (Err(Full), true));
        let numbered = (0..RECORDS as u64).map(|number| (number + 1, record(number)));
        assert!(replay(page.bytes()).eq(numbered));
        page.clear();
        assert_eq!((said(&page), page.is_empty()), (Vec::new(), true));
        for number in 500..503 {
            page.commit(record(number)).unwrap();
        }
        assert_eq!(said(&page), [500, 501, 502].map(record), "and nothing of the earlier use");
        assert_eq!((page.len(), page.next()), (3, RECORDS as u64 + 4), "numbers go on");
    }

    // A torn store or a damaged byte must end the replay: half a map entry would refer to another unit of
    // flash.
    #[test]
    fn what_is_not_whole_ends_the_replay() {
        let mut page = LogPage::default();
        (0..5).for_each(|number| page.commit(record(number)).unwrap());
        for at in 0..5 * RECORD_BYTES {
            let mut bytes = *page.bytes();
            bytes[at] ^= 0x40;
            assert_eq!(replay(&bytes).count(), at / RECORD_BYTES, "byte {at}");
        }
        for length in 0..5 * RECORD_BYTES {
            assert_eq!(replay(&page.bytes()[..length]).count(), length / RECORD_BYTES, "{length} bytes");
        }
    }
}
