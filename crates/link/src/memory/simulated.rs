//! Memory of a simulated host, allocated in pages.
//!
//! A page that was written whole with a [`Pattern`] keeps only the pattern's name. Its bytes are generated
//! when they are read, or when a part of the page is written. Most payload is never read.

use super::backing::{Fault, PAGE_BYTES};
use byteway_content::{Pattern, UNIT_BYTES};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

/// First address of simulated memory: above 4 GiB, so that TLP headers have 64-bit addresses.
const BASE: u64 = 0x1_0000_0000;

const _: () = assert!(PAGE_BYTES == UNIT_BYTES as u64);

/// State of a page.
#[derive(Clone, Copy)]
enum Page {
    /// Not allocated.
    Absent,
    /// The content is in [`Pages::bytes`].
    Bytes,
    /// The page holds this pattern; [`Pages::bytes`] is stale.
    Pattern(Pattern),
}

const _: () = assert!(size_of::<Page>() == 16);

#[derive(Default)]
struct Pages {
    bytes: Vec<u8>,
    pages: Vec<Page>,
    /// Freed extents, by length in pages.
    free: BTreeMap<usize, Vec<u64>>,
}

/// Simulated host memory.
#[derive(Default)]
pub struct Simulated(RefCell<Pages>);

impl Simulated {
    pub(super) fn allocated_bytes(&self) -> u64 {
        let memory = self.0.borrow();
        let free: usize = memory.free.iter().map(|(pages, extents)| pages * extents.len()).sum();
        (memory.pages.len() - free) as u64 * PAGE_BYTES
    }

    pub(super) fn allocate(&self, pages: usize) -> u64 {
        let mut memory = self.0.borrow_mut();
        let again = memory.free.get_mut(&pages).and_then(Vec::pop);
        let address = again.unwrap_or_else(|| {
            let address = BASE + memory.bytes.len() as u64;
            let bytes = memory.bytes.len() + pages * PAGE_BYTES as usize;
            memory.bytes.resize(bytes, 0);
            let count = memory.pages.len() + pages;
            memory.pages.resize(count, Page::Absent);
            address
        });
        let first = index_of(address - BASE);
        memory.pages[first..first + pages].fill(Page::Bytes);
        let start = (address - BASE) as usize;
        memory.bytes[start..start + pages * PAGE_BYTES as usize].fill(0);
        address
    }

    pub(super) fn free(&self, address: u64, pages: usize) {
        let mut memory = self.0.borrow_mut();
        let first = index_of(address - BASE);
        let freed = &mut memory.pages[first..first + pages];
        assert!(freed.iter().all(|page| !matches!(page, Page::Absent)), "only given pages are freed");
        freed.fill(Page::Absent);
        memory.free.entry(pages).or_default().push(address);
    }

    #[inline]
    pub(super) fn check(&self, address: u64, bytes: u64) -> Result<(), Fault> {
        let memory = self.0.borrow();
        match memory.page_of(address, bytes) {
            Some(Page::Bytes | Page::Pattern(_)) => Ok(()),
            Some(Page::Absent) | None => memory.extent(address, bytes).map(|_| ()),
        }
    }

    /// The pattern of the page at `address`. None if the page holds bytes, is not allocated, or does not
    /// begin there.
    #[inline]
    pub(super) fn pattern(&self, address: u64) -> Option<Pattern> {
        let start = address.checked_sub(BASE).filter(|start| start.is_multiple_of(PAGE_BYTES))?;
        match self.0.borrow().pages.get(index_of(start)) {
            Some(Page::Pattern(pattern)) => Some(*pattern),
            Some(Page::Absent | Page::Bytes) | None => None,
        }
    }

    /// Overwrites the page at `address`, a multiple of [`PAGE_BYTES`], with `pattern`.
    #[inline]
    pub(super) fn put_pattern(&self, address: u64, pattern: Pattern) -> Result<(), Fault> {
        debug_assert!(address.is_multiple_of(PAGE_BYTES));
        let fault = Fault { address, bytes: PAGE_BYTES };
        let start = address.checked_sub(BASE).ok_or(fault)?;
        match self.0.borrow_mut().pages.get_mut(index_of(start)) {
            None | Some(Page::Absent) => Err(fault),
            Some(page) => {
                *page = Page::Pattern(pattern);
                Ok(())
            }
        }
    }

    #[inline]
    pub(super) fn with<R>(
        &self,
        address: u64,
        bytes: usize,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Fault> {
        let mut memory = self.0.borrow();
        if let Some(Page::Bytes) = memory.page_of(address, bytes as u64) {
            return Ok(look(&memory.bytes[within(address, bytes)]));
        }
        let extent = memory.extent(address, bytes as u64)?;
        if extent.has_patterns {
            drop(memory);
            self.0.borrow_mut().materialise(&extent.range, false);
            memory = self.0.borrow();
        }
        Ok(look(&memory.bytes[extent.range]))
    }

    /// Lets `fill` change an extent.
    #[inline]
    pub(super) fn with_mut<R>(
        &self,
        address: u64,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, Fault> {
        let mut memory = self.0.borrow_mut();
        if let Some(Page::Bytes) = memory.page_of(address, bytes as u64) {
            return Ok(fill(&mut memory.bytes[within(address, bytes)]));
        }
        let extent = memory.extent(address, bytes as u64)?;
        if extent.has_patterns {
            memory.materialise(&extent.range, false);
        }
        Ok(fill(&mut memory.bytes[extent.range]))
    }

    /// Writes `from`. Pages that it covers whole need no generated bytes first.
    pub(super) fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        let mut memory = self.0.borrow_mut();
        if let Some(Page::Bytes) = memory.page_of(address, from.len() as u64) {
            memory.bytes[within(address, from.len())].copy_from_slice(from);
            return Ok(());
        }
        let extent = memory.extent(address, from.len() as u64)?;
        if extent.has_patterns {
            memory.materialise(&extent.range, true);
        }
        memory.bytes[extent.range].copy_from_slice(from);
        Ok(())
    }
}

/// An extent of allocated pages.
struct Extent {
    /// Byte range in [`Pages::bytes`].
    range: Range<usize>,
    /// Some of its pages hold patterns.
    has_patterns: bool,
}

/// Byte range in [`Pages::bytes`] of an extent that lies in memory.
fn within(address: u64, bytes: usize) -> Range<usize> {
    let start = (address - BASE) as usize;
    start..start + bytes
}

/// Index of the page that holds byte `start` of the whole memory.
fn index_of(start: u64) -> usize {
    (start / PAGE_BYTES) as usize
}

impl Pages {
    /// The page in which an extent lies; `None` if it lies in several, or in none.
    #[inline]
    fn page_of(&self, address: u64, bytes: u64) -> Option<&Page> {
        let page = self.pages.get(index_of(address.wrapping_sub(BASE)))?;
        (bytes <= PAGE_BYTES - address % PAGE_BYTES).then_some(page)
    }

    /// Looks up an extent; a fault unless every page of it is allocated.
    fn extent(&self, address: u64, bytes: u64) -> Result<Extent, Fault> {
        let fault = Fault { address, bytes };
        let start = address.checked_sub(BASE).ok_or(fault)?;
        let end = start.checked_add(bytes).ok_or(fault)?;
        if end > self.bytes.len() as u64 {
            return Err(fault);
        }
        let mut has_patterns = false;
        for page in &self.pages[index_of(start)..end.div_ceil(PAGE_BYTES) as usize] {
            match page {
                Page::Absent => return Err(fault),
                Page::Bytes => {}
                Page::Pattern(_) => has_patterns = true,
            }
        }
        Ok(Extent { range: start as usize..end as usize, has_patterns })
    }

    /// Generates the bytes of the pages that `range` touches. With `is_lost`, all of `range` is about to be
    /// overwritten, so pages within it need none.
    #[cold]
    fn materialise(&mut self, range: &Range<usize>, is_lost: bool) {
        for index in range.start / UNIT_BYTES..range.end.div_ceil(UNIT_BYTES) {
            let place = index * UNIT_BYTES..(index + 1) * UNIT_BYTES;
            let is_within = range.start <= place.start && place.end <= range.end;
            match std::mem::replace(&mut self.pages[index], Page::Bytes) {
                Page::Pattern(pattern) if !(is_lost && is_within) => pattern.fill(&mut self.bytes[place]),
                Page::Pattern(_) | Page::Bytes => {}
                Page::Absent => unreachable!("extents lie in given pages"),
            }
        }
    }
}
