//! Physical Region Pages (NVMe Base 2.1, 4.3.1): the walker of a device, and the planner of a host.
//!
//! The walker reads no memory. It says which part of a list it needs, is fed those bytes, and yields the data's
//! segments; so the same walk works whatever a fetch costs, and wherever the list lies.

use super::{Segment, Status, segment::fits};

/// Bytes of a PRP entry.
pub const ENTRY_BYTES: u32 = 8;

/// Maximum number of bytes of a list that a step requests.
pub const FETCH_BYTES_MAX: u32 = 4096;

const ENTRIES_MAX: usize = (FETCH_BYTES_MAX / ENTRY_BYTES) as usize;

/// The next step of a PRP walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrpStep {
    /// The next segment of the data: at most one page.
    Data(Segment),
    /// Read these bytes of a list and hand them to [`PrpWalker::feed`].
    FetchList {
        /// Address of the bytes, a multiple of 8.
        address: u64,
        /// Number of bytes: a multiple of 8, at most [`FETCH_BYTES_MAX`], never beyond the page's end or what is
        /// needed.
        bytes: u32,
    },
    /// All bytes were yielded.
    Done,
}

/// Why a PRP walk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrpError {
    /// PRP1 is not dword aligned, or another data entry or a chained list is not page aligned.
    #[error("a PRP entry has an offset that is not allowed at its position")]
    Offset,
    /// PRP2 points to a list that is not qword aligned.
    #[error("a PRP list is not aligned to 8 bytes")]
    ListOffset,
    /// An entry describes memory that exceeds the 64-bit address space.
    #[error("a PRP entry exceeds the 64-bit address space")]
    Wraps,
}

impl PrpError {
    /// The status of the failed command.
    pub const fn status(self) -> Status {
        match self {
            PrpError::Offset | PrpError::ListOffset => Status::PRP_OFFSET_INVALID,
            PrpError::Wraps => Status::DATA_TRANSFER_ERROR,
        }
    }
}

impl From<PrpError> for Status {
    fn from(error: PrpError) -> Status {
        error.status()
    }
}

/// Walks PRP1 and PRP2 for a given number of bytes.
///
/// The segments add up to exactly that number. Every list page but the first begins at a page boundary and so holds
/// hundreds of entries: a list that points to itself ends when all bytes are yielded. After an error every further step
/// returns the same error.
pub struct PrpWalker {
    page_bytes: u32,
    remaining: u64,
    place: NextEntry,
    /// Address of the entries that were not fetched yet.
    list_address: u64,
    /// Needed entries of the current list page that were not fetched yet.
    list_left: u64,
    /// Whether the last entry of the current list page points to the next page.
    chained: bool,
    fetched: Box<[u8; FETCH_BYTES_MAX as usize]>,
    at: usize,
    end: usize,
}

/// The kind of the next entry.
#[derive(Clone, Copy)]
enum NextEntry {
    First { prp1: u64, prp2: u64 },
    Second { prp2: u64 },
    List,
    Failed(PrpError),
}

impl PrpWalker {
    /// A walk over `bytes` bytes; `page_bytes` is the page size of CC.MPS.
    ///
    /// # Panics
    /// If `page_bytes` is not a power of two of at least 4096.
    pub fn new(prp1: u64, prp2: u64, bytes: u64, page_bytes: u32) -> PrpWalker {
        let mut walker = PrpWalker {
            page_bytes,
            remaining: 0,
            place: NextEntry::List,
            list_address: 0,
            list_left: 0,
            chained: false,
            fetched: Box::new([0; FETCH_BYTES_MAX as usize]),
            at: 0,
            end: 0,
        };
        walker.reset(prp1, prp2, bytes, page_bytes);
        walker
    }

    /// Starts another walk in the same memory, as a reused command slot does.
    ///
    /// # Panics
    /// If `page_bytes` is not a power of two of at least 4096.
    pub fn reset(&mut self, prp1: u64, prp2: u64, bytes: u64, page_bytes: u32) {
        assert!(
            page_bytes.is_power_of_two() && page_bytes >= 4096,
            "CC.MPS gives powers of two from 4096 on"
        );
        self.page_bytes = page_bytes;
        self.remaining = bytes;
        self.place = NextEntry::First { prp1, prp2 };
        self.list_left = 0;
        self.chained = false;
        self.at = 0;
        self.end = 0;
    }

    /// Bytes of data not yet yielded.
    pub const fn remaining(&self) -> u64 {
        self.remaining
    }

    /// The next step. Until a requested part of a list is fed, the step stays the same.
    ///
    /// # Errors
    /// [`PrpError`] if an entry is invalid at its position.
    #[expect(
        clippy::should_implement_trait,
        reason = "a walk needs feeding between steps, so it is no iterator"
    )]
    pub fn next(&mut self) -> Result<PrpStep, PrpError> {
        let step = self.step();
        if let Err(error) = step {
            self.place = NextEntry::Failed(error);
        }
        step
    }

    /// Feeds the bytes that the last step requested.
    ///
    /// # Panics
    /// If the number of bytes differs from the request.
    pub fn feed(&mut self, entries: &[u8]) {
        let bytes = if self.at == self.end { self.fetch_bytes() as usize } else { 0 };
        assert!(bytes > 0 && entries.len() == bytes, "a walker is fed what it asked for");
        self.fetched[..bytes].copy_from_slice(entries);
        self.at = 0;
        self.end = bytes;
        self.list_address += bytes as u64;
        self.list_left -= (bytes / ENTRY_BYTES as usize) as u64;
    }

    fn step(&mut self) -> Result<PrpStep, PrpError> {
        if let NextEntry::Failed(error) = self.place {
            return Err(error);
        }
        if self.remaining == 0 {
            return Ok(PrpStep::Done);
        }
        match self.place {
            NextEntry::First { prp1, prp2 } => {
                if !prp1.is_multiple_of(4) {
                    return Err(PrpError::Offset);
                }
                self.place = NextEntry::Second { prp2 };
                return self.data(prp1);
            }
            NextEntry::Second { prp2 } => {
                self.place = NextEntry::List;
                if self.remaining <= u64::from(self.page_bytes) {
                    return self.page(prp2);
                }
                if !prp2.is_multiple_of(u64::from(ENTRY_BYTES)) {
                    return Err(PrpError::ListOffset);
                }
                self.begin_list(prp2)?;
            }
            NextEntry::List | NextEntry::Failed(_) => {}
        }
        loop {
            if self.at == self.end {
                return Ok(PrpStep::FetchList { address: self.list_address, bytes: self.fetch_bytes() });
            }
            let entry = self.take_entry();
            let last_of_page = self.at == self.end && self.list_left == 0;
            if !(last_of_page && self.chained) {
                return self.page(entry);
            }
            if self.offset(entry) != 0 {
                return Err(PrpError::Offset);
            }
            self.begin_list(entry)?;
        }
    }

    /// Starts the list at `pointer`: as many entries as needed, and as its page holds.
    fn begin_list(&mut self, pointer: u64) -> Result<(), PrpError> {
        let needed = self.remaining.div_ceil(u64::from(self.page_bytes));
        let entries_max = u64::from((self.page_bytes - self.offset(pointer)) / ENTRY_BYTES);
        self.chained = needed > entries_max;
        self.list_left = needed.min(entries_max);
        self.list_address = pointer;
        if fits(pointer, self.list_left * u64::from(ENTRY_BYTES)) { Ok(()) } else { Err(PrpError::Wraps) }
    }

    fn fetch_bytes(&self) -> u32 {
        self.list_left.min(ENTRIES_MAX as u64) as u32 * ENTRY_BYTES
    }

    fn take_entry(&mut self) -> u64 {
        let behind = self.at + ENTRY_BYTES as usize;
        let entry = self.fetched[self.at..behind].try_into().expect("an entry is 8 bytes");
        self.at = behind;
        u64::from_le_bytes(entry)
    }

    /// The data at `entry`, which must be page aligned.
    fn page(&mut self, entry: u64) -> Result<PrpStep, PrpError> {
        if self.offset(entry) == 0 { self.data(entry) } else { Err(PrpError::Offset) }
    }

    /// The data from `address` to the page's end.
    fn data(&mut self, address: u64) -> Result<PrpStep, PrpError> {
        let bytes = u64::from(self.page_bytes - self.offset(address)).min(self.remaining);
        if !fits(address, bytes) {
            return Err(PrpError::Wraps);
        }
        self.remaining -= bytes;
        Ok(PrpStep::Data(Segment { address, bytes: bytes as u32 }))
    }

    fn offset(&self, address: u64) -> u32 {
        (address & u64::from(self.page_bytes - 1)) as u32
    }
}

/// Pages that `bytes` bytes touch, starting at `offset` in the first.
pub const fn pages_needed(bytes: u64, offset: u32, page_bytes: u32) -> u64 {
    // Not (offset + bytes) / page: the sum may exceed 64 bits.
    let in_first = (page_bytes - offset) as u64;
    if bytes == 0 {
        0
    } else if bytes <= in_first {
        1
    } else {
        1 + (bytes - in_first).div_ceil(page_bytes as u64)
    }
}

/// List pages that PRPs for `bytes` bytes need, if each is page aligned: 0 for up to two data pages.
pub const fn list_pages_needed(bytes: u64, offset: u32, page_bytes: u32) -> u64 {
    let entries_max = (page_bytes / ENTRY_BYTES) as u64;
    match pages_needed(bytes, offset, page_bytes) {
        0..=2 => 0,
        pages if pages - 1 <= entries_max => 1,
        pages => 1 + (pages - 1 - entries_max).div_ceil(entries_max - 1),
    }
}

/// PRPs as a host lays them out: the entries in the command, and those in list memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrpPlan {
    /// PRP entry 1.
    pub prp1: u64,
    /// PRP entry 2, 0 if the data is in one page.
    pub prp2: u64,
    /// Entries to write before, each run with its address.
    pub lists: Vec<(u64, Vec<u64>)>,
}

/// Lays out PRPs as [`plan_with`], but returns the lists.
///
/// # Panics
/// Same as [`plan_with`].
pub fn plan(pages: &[u64], offset: u32, bytes: u64, page_bytes: u32, list_pages: &[u64]) -> PrpPlan {
    let mut lists = Vec::new();
    let (prp1, prp2) = plan_with(pages, offset, bytes, page_bytes, list_pages, |address, entries| {
        lists.push((address, entries.to_vec()));
    });
    PrpPlan { prp1, prp2, lists }
}

/// Lays out PRPs for `bytes` bytes that start at `offset` in the first of `pages` (addresses of whole pages) and
/// continue at the start of each further one; returns PRP1 and PRP2.
///
/// Lists lie in `list_pages`, of which the first may have an offset (a multiple of 8). `write` receives each run of
/// entries with its address; nothing is allocated.
///
/// # Panics
/// If `offset` is not inside a page, or there are fewer pages than [`pages_needed`], or fewer list pages than the
/// layout needs.
pub fn plan_with(
    pages: &[u64],
    offset: u32,
    bytes: u64,
    page_bytes: u32,
    list_pages: &[u64],
    mut write: impl FnMut(u64, &[u64]),
) -> (u64, u64) {
    assert!(offset < page_bytes, "the offset is inside the first page");
    let needed = pages_needed(bytes, offset, page_bytes);
    assert!(needed <= pages.len() as u64, "there is a page for all data");
    let (prp1, mut entries) = match &pages[..needed as usize] {
        [] => return (0, 0),
        [first] => return (first + u64::from(offset), 0),
        [first, second] => return (first + u64::from(offset), *second),
        [first, rest @ ..] => (first + u64::from(offset), rest),
    };
    let mut lists = list_pages.iter().copied();
    let mut next_list = || lists.next().expect("there is a list page for all entries");
    let prp2 = next_list();
    let mut list = prp2;
    loop {
        let entries_max =
            ((u64::from(page_bytes) - list % u64::from(page_bytes)) / u64::from(ENTRY_BYTES)) as usize;
        if entries.len() <= entries_max {
            write(list, entries);
            return (prp1, prp2);
        }
        let (here, further) = entries.split_at(entries_max - 1);
        let chain = next_list();
        if !here.is_empty() {
            write(list, here);
        }
        write(list + here.len() as u64 * u64::from(ENTRY_BYTES), &[chain]);
        entries = further;
        list = chain;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u32 = 4096;

    fn data(address: u64, bytes: u32) -> Result<PrpStep, PrpError> {
        Ok(PrpStep::Data(Segment { address, bytes }))
    }

    fn entries(list: &[u64]) -> Vec<u8> {
        list.iter().flat_map(|entry| entry.to_le_bytes()).collect()
    }

    /// Without this a transfer that crosses a page would continue in the wrong one.
    #[test]
    fn one_and_two_pages_need_no_list() {
        let mut walker = PrpWalker::new(0x1F04, 0, 252, PAGE);
        assert_eq!(walker.next(), data(0x1F04, 252));
        assert_eq!(walker.next(), Ok(PrpStep::Done));
        walker.reset(0x1F04, 0x5000, 4096, PAGE);
        assert_eq!(walker.next(), data(0x1F04, 252));
        assert_eq!(walker.next(), data(0x5000, 3844));
        assert_eq!(walker.next(), Ok(PrpStep::Done));
        walker.reset(1, 1, 0, PAGE);
        assert_eq!(walker.next(), Ok(PrpStep::Done));
    }

    /// Without this a list at a page's end would be read past it, or its last entry taken for data.
    #[test]
    fn an_offset_list_chains_at_its_pages_end() {
        let mut walker = PrpWalker::new(0x1000, 0x8FF0, 4 * 4096 + 1, PAGE);
        assert_eq!(walker.next(), data(0x1000, 4096));
        assert_eq!(walker.next(), Ok(PrpStep::FetchList { address: 0x8FF0, bytes: 16 }));
        walker.feed(&entries(&[0x2000, 0x9000]));
        assert_eq!(walker.next(), data(0x2000, 4096));
        let fetch = Ok(PrpStep::FetchList { address: 0x9000, bytes: 24 });
        assert_eq!((walker.next(), walker.next()), (fetch, fetch));
        walker.feed(&entries(&[0x3000, 0x4000, 0]));
        assert_eq!(walker.next(), data(0x3000, 4096));
        assert_eq!(walker.next(), data(0x4000, 4096));
        assert_eq!(walker.next(), data(0, 1));
        assert_eq!(walker.next(), Ok(PrpStep::Done));
    }

    /// Without this a list pointer in a page's last entry would be taken for data.
    #[test]
    fn a_list_of_one_entry_can_be_all_chain() {
        let mut walker = PrpWalker::new(0x1000, 0x8FF8, 3 * 4096, PAGE);
        assert_eq!(walker.next(), data(0x1000, 4096));
        assert_eq!(walker.next(), Ok(PrpStep::FetchList { address: 0x8FF8, bytes: 8 }));
        walker.feed(&entries(&[0x9000]));
        assert_eq!(walker.next(), Ok(PrpStep::FetchList { address: 0x9000, bytes: 16 }));
    }

    /// Without this the last entry of a list that exactly fits its page would be taken for a pointer.
    #[test]
    fn a_list_that_just_fits_has_no_chain() {
        let mut walker = PrpWalker::new(0x1000, 0x8FF0, 3 * 4096, PAGE);
        assert_eq!(walker.next(), data(0x1000, 4096));
        assert_eq!(walker.next(), Ok(PrpStep::FetchList { address: 0x8FF0, bytes: 16 }));
        walker.feed(&entries(&[0x2000, 0x3000]));
        assert_eq!(walker.next(), data(0x2000, 4096));
        assert_eq!(walker.next(), data(0x3000, 4096));
        assert_eq!(walker.next(), Ok(PrpStep::Done));
    }

    /// Without this a list page larger than the walker's memory would overrun it, or each piece would end in a chain.
    #[test]
    fn a_large_list_page_is_fetched_in_pieces() {
        let page = 8192;
        let mut walker = PrpWalker::new(0, 0x10_0000, (1 + 1030) * u64::from(page), page);
        assert_eq!(walker.next(), data(0, page));
        assert_eq!(walker.next(), Ok(PrpStep::FetchList { address: 0x10_0000, bytes: 4096 }));
        walker.feed(&[0; 4096]);
        for _ in 0..512 {
            assert_eq!(walker.next(), data(0, page));
        }
        assert_eq!(walker.next(), Ok(PrpStep::FetchList { address: 0x10_1000, bytes: 4096 }));
        walker.feed(&[0; 4096]);
        for _ in 0..511 {
            assert_eq!(walker.next(), data(0, page));
        }
        assert_eq!(walker.next(), Ok(PrpStep::FetchList { address: 0, bytes: 7 * 8 }));
    }

    /// Without this a misplaced offset would move data to a wrong address.
    #[test]
    fn offsets_are_refused_where_they_may_not_be() {
        for (prp1, prp2, bytes, error) in [
            (0x1002, 0, 512, PrpError::Offset),
            (0x1000, 0x2004, 8192, PrpError::Offset),
            (0x1000, 0x2004, 8193, PrpError::ListOffset),
            (0x1000, 0xFFFF_FFFF_FFFF_FFF8, 12288, PrpError::Wraps),
            (0x1000, 0xFFFF_FFFF_FFFF_F000, 8192, PrpError::Wraps),
        ] {
            let mut walker = PrpWalker::new(prp1, prp2, bytes, PAGE);
            let outcome = std::iter::repeat_with(|| walker.next()).take(3).find(Result::is_err);
            assert_eq!(outcome, Some(Err(error)), "{prp1:x} {prp2:x} {bytes}");
            assert_eq!(walker.next(), Err(error));
        }
        for (list, error) in [([0x3000, 0x4008], PrpError::Offset), ([0x3004, 0x4000], PrpError::Offset)] {
            let mut walker = PrpWalker::new(0, 0x8FF0, 4 * 4096, PAGE);
            assert_eq!(walker.next(), data(0, 4096));
            assert!(walker.next().is_ok());
            walker.feed(&entries(&list));
            let outcome = std::iter::repeat_with(|| walker.next()).take(2).find(Result::is_err);
            assert_eq!(outcome, Some(Err(error)));
        }
        assert_eq!(PrpError::Offset.status(), Status::PRP_OFFSET_INVALID);
    }

    /// Without this a host would run out of list memory, or reserve a page for each I/O in vain.
    #[test]
    fn list_pages_are_counted() {
        assert_eq!(list_pages_needed(8192, 0, PAGE), 0);
        assert_eq!(list_pages_needed(8192, 4, PAGE), 1);
        assert_eq!(list_pages_needed(513 * 4096, 0, PAGE), 1);
        assert_eq!(list_pages_needed(513 * 4096 + 1, 0, PAGE), 2);
        assert_eq!(list_pages_needed((1 + 511 + 512) * 4096, 0, PAGE), 2);
        assert_eq!(list_pages_needed((1 + 511 + 512) * 4096, 4, PAGE), 3);
        assert_eq!(list_pages_needed(0, 0, PAGE), 0);
        assert!(list_pages_needed(u64::MAX, 4095, PAGE) > 0);
    }
}
