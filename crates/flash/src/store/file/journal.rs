//! The journal: changes since the last checkpoint other than programs, which are found by their own spare
//! records. It grows until the next checkpoint starts a new one.
//!
//! Each record is its length, its bytes, and a CRC-32C over both, seeded with the journal's number and the
//! record's offset. The end of the journal, whether empty, torn, or left over from another journal, is
//! therefore never taken for a record.

use super::bytes::{Reader, Writer};
use super::image::{Entry, System};

/// A recorded change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// New state of a superblock.
    Block(u32, Entry),
    /// Torn stripes of a superblock: from the first to before the second.
    Torn(u32, u32, u32),
    /// A change of the system area.
    System(SystemChange),
    /// Stripes programmed in this start, all durable; some may have been erased since.
    Order(u64),
}

/// A change of the system area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SystemChange {
    /// Replaces a root: slot, and content.
    Root(u8, Option<Vec<u8>>),
    /// Replaces the record.
    Record(Vec<u8>),
    /// Appends a page to firmware's journal.
    Page(Vec<u8>),
    /// Drops the oldest pages.
    Cut(u32),
}

impl SystemChange {
    pub(super) fn apply(self, system: &mut System) {
        match self {
            SystemChange::Root(slot, root) => system.roots[usize::from(slot & 1)] = root,
            SystemChange::Record(record) => system.record = Some(record),
            SystemChange::Page(page) => system.journal.push_back(page),
            SystemChange::Cut(pages) => {
                system.journal.drain(..(pages as usize).min(system.journal.len()));
            }
        }
    }
}

const BLOCK: u8 = 1;
const TORN: u8 = 2;
const NO_ROOT: u8 = 3;
const ROOT: u8 = 4;
const RECORD: u8 = 5;
const PAGE: u8 = 6;
const CUT: u8 = 7;
const ORDER: u8 = 8;

/// Upper bound of a journal's bytes, against a file that is no journal: many times the size at which a
/// checkpoint is written.
pub(super) const BYTES_MAX: u64 = 4 << 30;

/// Appends a record to `out`, which will lie at `offset` of journal `number`.
pub(super) fn write(out: &mut Vec<u8>, number: u64, offset: u64, change: &Change) {
    let start = out.len();
    out.u32(0);
    match change {
        Change::Block(block, entry) => {
            out.u8(BLOCK);
            out.u32(*block);
            entry.write(out);
        }
        Change::Torn(block, first, end) => {
            out.u8(TORN);
            [*block, *first, *end].into_iter().for_each(|number| out.u32(number));
        }
        Change::Order(order) => {
            out.u8(ORDER);
            out.u64(*order);
        }
        Change::System(SystemChange::Root(slot, None)) => {
            out.u8(NO_ROOT);
            out.u8(*slot);
        }
        Change::System(SystemChange::Root(slot, Some(root))) => {
            out.u8(ROOT);
            out.u8(*slot);
            out.counted(root);
        }
        Change::System(SystemChange::Record(record)) => {
            out.u8(RECORD);
            out.counted(record);
        }
        Change::System(SystemChange::Page(page)) => {
            out.u8(PAGE);
            out.counted(page);
        }
        Change::System(SystemChange::Cut(pages)) => {
            out.u8(CUT);
            out.u32(*pages);
        }
    }
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    let crc = sum(number, offset + start as u64, &out[start..]);
    out.u32(crc);
}

fn sum(number: u64, offset: u64, bytes: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&number.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(crc, &offset.to_le_bytes()), bytes)
}

/// Calls `take` with the records of journal `number`, in order, up to the first that is not intact. Returns
/// the bytes of the intact ones.
pub(super) fn read(journal: &[u8], number: u64, mut take: impl FnMut(Change)) -> u64 {
    let mut offset = 0;
    while let Some((change, bytes)) = read_one(&journal[offset..], number, offset as u64) {
        take(change);
        offset += bytes;
    }
    offset as u64
}

fn read_one(bytes: &[u8], number: u64, offset: u64) -> Option<(Change, usize)> {
    let mut reader = Reader(bytes);
    let length = reader.u32()? as usize;
    let mut body = Reader(reader.take(length)?);
    let crc = reader.u32()?;
    if length == 0 || sum(number, offset, &bytes[..4 + length]) != crc {
        return None;
    }
    let change = match body.u8()? {
        BLOCK => Change::Block(body.u32()?, Entry::read(&mut body)?),
        TORN => Change::Torn(body.u32()?, body.u32()?, body.u32()?),
        NO_ROOT => Change::System(SystemChange::Root(body.u8()?, None)),
        ROOT => Change::System(SystemChange::Root(body.u8()?, Some(body.counted()?.to_vec()))),
        RECORD => Change::System(SystemChange::Record(body.counted()?.to_vec())),
        PAGE => Change::System(SystemChange::Page(body.counted()?.to_vec())),
        ORDER => Change::Order(body.u64()?),
        CUT => Change::System(SystemChange::Cut(body.u32()?)),
        _ => return None,
    };
    Some((change, 8 + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Reading beyond a torn record would apply changes that never took effect.
    #[test]
    fn a_journal_ends_at_its_first_bit_that_is_wrong() {
        let entry = Entry { programmed: 3, erases: 9, generation: 4, is_erasing: true, ..Entry::default() };
        let changes = [
            Change::Block(7, entry),
            Change::Torn(1, 2, 3),
            Change::System(SystemChange::Root(1, Some(vec![5; 100]))),
            Change::System(SystemChange::Root(0, None)),
            Change::System(SystemChange::Record(vec![1])),
            Change::System(SystemChange::Page(vec![3; 9])),
            Change::System(SystemChange::Cut(4)),
            Change::Order(6),
        ];
        let mut journal = Vec::new();
        let mut ends = Vec::new();
        for change in &changes {
            write(&mut journal, 5, 0, change);
            ends.push(journal.len());
        }
        let read_all = |journal: &[u8], number| {
            let mut found = Vec::new();
            let bytes = read(journal, number, |change| found.push(change));
            (found, bytes as usize)
        };
        assert_eq!(read_all(&journal, 5), (changes.to_vec(), journal.len()));
        assert_eq!(read_all(&journal, 6), (vec![], 0));
        for byte in 0..journal.len() {
            let mut wrong = journal.clone();
            wrong[byte] ^= 4;
            let whole = ends.iter().filter(|end| **end <= byte).count();
            assert_eq!(read_all(&wrong, 5).0, changes[..whole], "byte {byte}");
            assert_eq!(read_all(&journal[..byte], 5).0, changes[..whole], "cut at {byte}");
        }
    }
}
