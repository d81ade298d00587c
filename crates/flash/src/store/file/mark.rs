//! The file `mark`: how far the other files were durable after the last job, so that a damaged file can be
//! told from one whose last writes a power cut has lost.
//!
//! It is overwritten in place and not synced: whatever version of it survives, what it says was durable
//! before it was written. It fits a sector, so it is never torn. Without it nothing is verified by it.

use super::bytes::{COUNT_MAX, Reader, Writer};
use super::files::{Files, read_all};
use std::io;

/// Name of the file.
pub(super) const MARK: &str = "mark";

const MAGIC: &[u8; 8] = b"BWMARK01";

/// What is durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// Number of the checkpoint.
    pub(super) number: u64,
    /// Bytes of its journal.
    pub(super) journal_bytes: u64,
    /// Stripes programmed in this start.
    pub(super) order: u64,
    /// Those of them that neither the checkpoint nor the journal counts, so that they must be found.
    pub(super) stripes: u64,
    /// Lengths of `data` and `spare`.
    pub(super) data_bytes: u64,
    pub(super) spare_bytes: u64,
}

impl Mark {
    /// Bytes of the file.
    pub(super) const BYTES: u64 = 60;

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let Mark { number, journal_bytes, order, stripes, data_bytes, spare_bytes } = self;
        let mut out = MAGIC.to_vec();
        for word in [number, journal_bytes, order, stripes, data_bytes, spare_bytes] {
            out.u64(word);
        }
        let crc = crc32c::crc32c(&out);
        out.u32(crc);
        out
    }

    /// Decodes a mark; None unless it is intact.
    fn of(bytes: &[u8]) -> Option<Mark> {
        let (body, crc) = bytes.split_at_checked(Self::BYTES as usize - 4)?;
        let mut reader = Reader(body);
        if crc32c::crc32c(body).to_le_bytes() != crc || reader.take(8)? != MAGIC {
            return None;
        }
        let mut word = || reader.u64().filter(|word| *word <= COUNT_MAX);
        Some(Mark {
            number: word()?,
            journal_bytes: word()?,
            order: word()?,
            stripes: word()?,
            data_bytes: word()?,
            spare_bytes: word()?,
        })
    }

    /// The mark of a directory; None if it has none that is intact.
    pub(super) fn read(files: &dyn Files) -> io::Result<Option<Mark>> {
        let Some(file) = files.open(MARK)? else { return Ok(None) };
        if file.bytes()? != Self::BYTES {
            return Ok(None);
        }
        Ok(Mark::of(&read_all(&*file, Self::BYTES)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A mark with a wrong bit would refuse a good directory, or accept a damaged one.
    #[test]
    fn a_mark_comes_back_whole_or_not_at_all() {
        let mark = Mark {
            number: 3,
            journal_bytes: 1 << 40,
            order: 7,
            stripes: 5,
            data_bytes: 1 << 50,
            spare_bytes: 9,
        };
        let bytes = mark.to_bytes();
        assert_eq!((Mark::of(&bytes), bytes.len() as u64), (Some(mark), Mark::BYTES));
        for bit in 0..bytes.len() * 8 {
            let mut wrong = bytes.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Mark::of(&wrong), None, "bit {bit}");
        }
        (0..bytes.len()).for_each(|end| assert_eq!(Mark::of(&bytes[..end]), None, "cut at {end}"));
        let far = Mark { number: u64::MAX, ..mark };
        assert_eq!(Mark::of(&far.to_bytes()), None, "intact, and impossible");
    }
}
