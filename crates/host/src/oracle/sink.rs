//! The sink oracle: the expected contents of a payload sink.
//!
//! Bytes of settled writes are known. Bytes of writes that overlapped, failed or were lost are unknown until they are
//! written again. A read that overlapped a write is not compared.

use rustc_hash::FxHashMap;
use std::fmt;
use std::ops::Range;

/// Granularity of allocation, in bytes: small, because random writes are short.
const PAGE: u64 = 512;

/// Contents of the sink before the first write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SinkBase {
    /// Zeroes, as in a new drive.
    #[default]
    Zeroes,
    /// Unknown: others have used it.
    Unknown,
}

/// A byte that differs from its expected value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset} of the sink is {found:#04x}, expected {expected:#04x}")]
pub struct WrongByte {
    /// Offset in the sink.
    pub offset: u64,
    /// Expected value.
    pub expected: u8,
    /// Value found.
    pub found: u8,
}

/// An operation in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkToken(u64);

struct Operation {
    token: u64,
    begin: u64,
    end: u64,
    is_write: bool,
    /// Whether it overlapped a write in flight.
    is_contested: bool,
}

struct Page {
    bytes: [u8; PAGE as usize],
    /// Bit mask of the bytes with certain contents.
    known: [u64; PAGE as usize / 64],
}

impl Page {
    fn set_known(&mut self, range: Range<usize>, known: bool) {
        for (word, mask) in masks(range) {
            match known {
                true => self.known[word] |= mask,
                false => self.known[word] &= !mask,
            }
        }
    }

    fn is_known(&self, range: Range<usize>) -> bool {
        masks(range).all(|(word, mask)| self.known[word] & mask == mask)
    }
}

/// The words of a bitmap that `range` touches, each with a mask of its bits.
fn masks(range: Range<usize>) -> impl Iterator<Item = (usize, u64)> {
    (range.start / 64..range.end.div_ceil(64)).map(move |word| {
        let first = range.start.max(word * 64) % 64;
        let count = range.end.min(word * 64 + 64) - range.start.max(word * 64);
        (word, (u64::MAX >> (64 - count)) << first)
    })
}

/// The expected contents of a sink, shared by its clients.
pub struct SinkOracle {
    base: SinkBase,
    pages: FxHashMap<u64, Box<Page>>,
    operations: Vec<Operation>,
    token: u64,
    verified: u64,
    skipped: u64,
}

impl fmt::Debug for SinkOracle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkOracle").field("verified", &self.verified).finish_non_exhaustive()
    }
}

impl SinkOracle {
    /// An oracle for a sink that holds `base`.
    pub fn new(base: SinkBase) -> SinkOracle {
        SinkOracle {
            base,
            pages: FxHashMap::default(),
            operations: Vec::new(),
            token: 0,
            verified: 0,
            skipped: 0,
        }
    }

    /// Number of bytes that reads compared.
    pub fn verified_bytes(&self) -> u64 {
        self.verified
    }

    /// Number of bytes read that were not compared, because their contents were uncertain.
    pub fn skipped_bytes(&self) -> u64 {
        self.skipped
    }

    /// Number of operations in flight.
    pub fn under_way(&self) -> usize {
        self.operations.len()
    }

    /// Notes that a write of `bytes` at `offset` begins.
    pub fn begin_write(&mut self, offset: u64, bytes: u32) -> SinkToken {
        self.begin(offset, bytes, true)
    }

    /// Notes that a read begins.
    pub fn begin_read(&mut self, offset: u64, bytes: u32) -> SinkToken {
        self.begin(offset, bytes, false)
    }

    fn begin(&mut self, offset: u64, bytes: u32, is_write: bool) -> SinkToken {
        self.token += 1;
        let (token, begin, end) = (self.token, offset, offset.saturating_add(u64::from(bytes)));
        let mut is_contested = false;
        for other in &mut self.operations {
            if (is_write || other.is_write) && begin < other.end && other.begin < end {
                (is_contested, other.is_contested) = (true, true);
            }
        }
        self.operations.push(Operation { token, begin, end, is_write, is_contested });
        SinkToken(token)
    }

    fn end(&mut self, token: SinkToken) -> Option<Operation> {
        let index = self.operations.iter().position(|operation| operation.token == token.0)?;
        Some(self.operations.swap_remove(index))
    }

    /// Generates the payload of write `token` at `offset`, unique to that write.
    pub fn fill(token: SinkToken, offset: u64, into: &mut [u8]) {
        let mut word = (token.0 ^ offset << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        for part in into.chunks_mut(8) {
            word = (word ^ word >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9).wrapping_add(token.0);
            part.copy_from_slice(&word.to_le_bytes()[..part.len()]);
        }
    }

    /// Ends a write: `payload` if it succeeded; `None` if its outcome is unknown.
    pub fn end_write(&mut self, token: SinkToken, payload: Option<&[u8]>) {
        let Some(Operation { begin, end, is_contested, .. }) = self.end(token) else { return };
        match payload.filter(|payload| !is_contested && payload.len() as u64 == end - begin) {
            Some(payload) => self.each(begin, end, |page, range, done| {
                page.bytes[range.clone()].copy_from_slice(&payload[done..done + range.len()]);
                page.set_known(range, true);
            }),
            None => self.each(begin, end, |page, range, _| page.set_known(range, false)),
        }
    }

    /// Ends a read that returned nothing.
    pub fn abandon_read(&mut self, token: SinkToken) {
        self.end(token);
    }

    /// Ends a read that returned `found`.
    ///
    /// # Errors
    /// [`WrongByte`] of the first wrong byte.
    pub fn end_read(&mut self, token: SinkToken, found: &[u8]) -> Result<(), WrongByte> {
        let Some(Operation { begin, end, is_contested, .. }) = self.end(token) else { return Ok(()) };
        if is_contested || found.len() as u64 != end - begin {
            self.skipped += found.len() as u64;
            return Ok(());
        }
        let base = self.base;
        let mut at = begin;
        while at < end {
            let (number, first) = (at / PAGE, (at % PAGE) as usize);
            let count = (PAGE - at % PAGE).min(end - at) as usize;
            let part = &found[(at - begin) as usize..][..count];
            let page = self.pages.get(&number);
            let range = first..first + count;
            if page.is_some_and(|page| page.is_known(range.clone()) && page.bytes[range.clone()] == *part) {
                self.verified += count as u64;
                at += count as u64;
                continue;
            }
            let mut known = 0;
            for (index, found) in part.iter().enumerate() {
                let within = first + index;
                let expected = match page {
                    Some(page) if page.known[within / 64] >> (within % 64) & 1 == 1 => page.bytes[within],
                    None if base == SinkBase::Zeroes => 0,
                    _ => continue,
                };
                if expected != *found {
                    let offset = at + index as u64;
                    return Err(WrongByte { offset, expected, found: *found });
                }
                known += 1;
            }
            self.verified += known;
            self.skipped += count as u64 - known;
            at += count as u64;
        }
        Ok(())
    }

    /// Calls `act` with each page of `begin..end`, the range within it, and the number of preceding bytes.
    fn each(&mut self, begin: u64, end: u64, mut act: impl FnMut(&mut Page, Range<usize>, usize)) {
        let known = if self.base == SinkBase::Zeroes { u64::MAX } else { 0 };
        let mut at = begin;
        while at < end {
            let first = (at % PAGE) as usize;
            let count = (PAGE - at % PAGE).min(end - at) as usize;
            let fresh = || Box::new(Page { bytes: [0; PAGE as usize], known: [known; PAGE as usize / 64] });
            let page = self.pages.entry(at / PAGE).or_insert_with(fresh);
            act(page, first..first + count, (at - begin) as usize);
            at += count as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(oracle: &mut SinkOracle, offset: u64, payload: &[u8]) {
        let token = oracle.begin_write(offset, payload.len() as u32);
        oracle.end_write(token, Some(payload));
    }

    fn read(oracle: &mut SinkOracle, offset: u64, found: &[u8]) -> Result<(), WrongByte> {
        let token = oracle.begin_read(offset, found.len() as u32);
        oracle.end_read(token, found)
    }

    // An oracle that lets one wrong byte pass, wherever it lies, verifies nothing.
    #[test]
    fn every_byte_is_compared() {
        let mut oracle = SinkOracle::new(SinkBase::Zeroes);
        let payload: Vec<u8> = (0..9000_u32).map(|at| (at * 7 + at / 256) as u8).collect();
        let before = payload.clone();
        written(&mut oracle, 4000, &payload);
        for (from, to) in [(0, 9000), (0, 1), (95, 97), (96, 4193), (63, 129), (8999, 9000)] {
            assert_eq!(read(&mut oracle, 4000 + from as u64, &payload[from..to]), Ok(()));
            for at in [from, (from + to) / 2, to - 1] {
                let mut other = before[from..to].to_vec();
                other[at - from] ^= 0x40;
                let wrong = read(&mut oracle, 4000 + from as u64, &other).unwrap_err();
                let expected =
                    WrongByte { offset: 4000 + at as u64, expected: before[at], found: other[at - from] };
                assert_eq!(wrong, expected);
            }
        }
        assert_eq!(read(&mut oracle, 3990, &[0; 10]), Ok(()));
        assert_eq!(read(&mut oracle, 3990, &[1; 10]).unwrap_err().offset, 3990);
        assert_eq!(read(&mut oracle, 1 << 40, &[1]).unwrap_err().expected, 0);
        assert_eq!((oracle.skipped_bytes(), oracle.under_way()), (0, 0));
    }

    // The contents after overlapping, failed or missing writes are unknown: an oracle that insists would accuse a
    // correct drive.
    #[test]
    fn what_is_not_certain_is_not_compared() {
        let mut oracle = SinkOracle::new(SinkBase::Unknown);
        assert_eq!(read(&mut oracle, 0, &[9; 100]), Ok(()));
        written(&mut oracle, 10, &[1; 10]);
        assert_eq!(read(&mut oracle, 0, &[9; 10]), Ok(()), "before it");
        assert_eq!(read(&mut oracle, 19, &[1, 7]), Ok(()), "behind it");
        assert_eq!(read(&mut oracle, 19, &[7, 7]).unwrap_err().offset, 19);
        // A failed write.
        let token = oracle.begin_write(12, 2);
        oracle.end_write(token, None);
        assert_eq!(read(&mut oracle, 10, &[1, 1, 5, 6, 1]), Ok(()));
        assert_eq!(read(&mut oracle, 10, &[1, 2, 5, 6, 1]).unwrap_err().offset, 11);
        // Two overlapping writes: all bytes of both are unknown until written again.
        let (first, second) = (oracle.begin_write(100, 10), oracle.begin_write(105, 10));
        oracle.end_write(first, Some(&[1; 10]));
        oracle.end_write(second, Some(&[2; 10]));
        assert_eq!(read(&mut oracle, 100, &[3; 15]), Ok(()));
        written(&mut oracle, 100, &[4; 15]);
        assert_eq!(read(&mut oracle, 100, &[3; 15]).unwrap_err().offset, 100);
        // A read during a write, in either order.
        let (reading, writing) = (oracle.begin_read(100, 4), oracle.begin_write(103, 1));
        assert_eq!(oracle.end_read(reading, &[9; 4]), Ok(()));
        let reading = oracle.begin_read(103, 1);
        oracle.end_write(writing, Some(&[5]));
        assert_eq!(oracle.end_read(reading, &[9]), Ok(()));
        assert_eq!(read(&mut oracle, 103, &[5]), Ok(()));
        // Two reads do not affect each other, nor do neighbors.
        let (first, second) = (oracle.begin_read(100, 4), oracle.begin_read(100, 4));
        let neighbour = oracle.begin_write(104, 1);
        assert!(oracle.end_read(first, &[9; 4]).is_err());
        oracle.abandon_read(second);
        oracle.end_write(neighbour, Some(&[4]));
        assert_eq!((read(&mut oracle, 100, &[4, 4, 4, 5, 4]), oracle.under_way()), (Ok(()), 0));
    }

    // Identical payloads would hide that one is in the place of another.
    #[test]
    fn patterns_differ_from_write_to_write_and_place_to_place() {
        let mut oracle = SinkOracle::new(SinkBase::Zeroes);
        let mut seen = std::collections::BTreeSet::new();
        for write in 0..200 {
            let token = oracle.begin_write(write % 7, 16);
            let mut payload = [0; 16];
            SinkOracle::fill(token, write % 7, &mut payload);
            assert!(seen.insert(payload[..8].to_vec()) && seen.insert(payload[8..].to_vec()));
            oracle.end_write(token, Some(&payload));
        }
    }
}
