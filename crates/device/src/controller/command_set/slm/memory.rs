//! The bytes of a memory namespace.

use std::cell::RefCell;

/// Allocation granularity, in bytes.
const PAGE: usize = 4096;

/// A sparse byte array: pages that were never written read as zeroes and occupy no host memory.
pub(crate) struct LocalMemory {
    bytes: u64,
    /// Pages up to the last one written.
    pages: RefCell<Vec<Option<Box<[u8; PAGE]>>>>,
}

impl LocalMemory {
    /// `bytes` zero bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        LocalMemory { bytes, pages: RefCell::default() }
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the extent lies within the memory.
    pub(crate) fn holds(&self, start: u64, bytes: u64) -> bool {
        start.checked_add(bytes).is_some_and(|end| end <= self.bytes)
    }

    /// Stores `bytes` at `start`. The extent must lie within the memory.
    pub(crate) fn write(&self, start: u64, mut bytes: &[u8]) {
        debug_assert!(self.holds(start, bytes.len() as u64), "extents are checked before");
        let mut pages = self.pages.borrow_mut();
        let mut at = start as usize;
        while !bytes.is_empty() {
            let (page, offset) = (at / PAGE, at % PAGE);
            let (now, later) = bytes.split_at(bytes.len().min(PAGE - offset));
            if page >= pages.len() {
                pages.resize_with(page + 1, || None);
            }
            let held = pages[page].get_or_insert_with(|| Box::new([0; PAGE]));
            held[offset..offset + now.len()].copy_from_slice(now);
            (at, bytes) = (at + now.len(), later);
        }
    }

    /// Reads from `start` into `into`. The extent must lie within the memory.
    pub(crate) fn read(&self, start: u64, into: &mut [u8]) {
        debug_assert!(self.holds(start, into.len() as u64), "extents are checked before");
        let pages = self.pages.borrow();
        let mut done = 0;
        while done < into.len() {
            let at = start as usize + done;
            let (page, offset) = (at / PAGE, at % PAGE);
            let count = (into.len() - done).min(PAGE - offset);
            let part = &mut into[done..done + count];
            match pages.get(page).and_then(Option::as_ref) {
                Some(held) => part.copy_from_slice(&held[offset..offset + count]),
                None => part.fill(0),
            }
            done += count;
        }
    }

    /// Zeroes `bytes` bytes at `start`, within the memory. Whole pages are freed.
    pub(crate) fn clear(&self, start: u64, bytes: u64) {
        debug_assert!(self.holds(start, bytes), "extents are checked before");
        let mut pages = self.pages.borrow_mut();
        let (mut at, end) = (start as usize, (start + bytes) as usize);
        while at < end {
            let (page, offset) = (at / PAGE, at % PAGE);
            let count = (end - at).min(PAGE - offset);
            let Some(held) = pages.get_mut(page) else { return };
            match held {
                Some(_) if count == PAGE => *held = None,
                Some(bytes) => bytes[offset..offset + count].fill(0),
                None => {}
            }
            at += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A byte that lands a page away is another tenant's; one that a clearing leaves is what was there before.
    #[test]
    fn bytes_are_where_they_were_put() {
        let memory = LocalMemory::new(64 << 10);
        let mut model = vec![0; 64 << 10];
        let bytes: Vec<u8> = (0..20_000_u32).map(|at| (at % 251) as u8 + 1).collect();
        for (start, count) in [(0, 1), (4095, 2), (8192, 4096), (9000, 20_000), (65_535, 1)] {
            memory.write(start as u64, &bytes[..count]);
            model[start..start + count].copy_from_slice(&bytes[..count]);
        }
        for (start, count) in [(4095, 1), (8192, 4096), (12_000, 9_000), (40_000, 10)] {
            memory.clear(start as u64, count as u64);
            model[start..start + count].fill(0);
        }
        let mut all = vec![9; 64 << 10];
        memory.read(0, &mut all);
        assert!(all == model);
        assert!(memory.holds(65_536, 0) && !memory.holds(65_536, 1) && !memory.holds(u64::MAX, 2));
    }
}
