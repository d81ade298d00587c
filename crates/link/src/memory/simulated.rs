//! Memory of a simulated host: pages come into being when they are given.

use super::{Fault, PAGE_BYTES};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Where simulated memory begins: above 4 GiB, so that headers are those of 64-bit addresses.
const BASE: u64 = 0x1_0000_0000;

#[derive(Default)]
struct Pages {
    bytes: Vec<u8>,
    given: Vec<bool>,
    /// Extents taken back, by length in pages.
    free: BTreeMap<usize, Vec<u64>>,
}

/// Simulated host memory.
#[derive(Default)]
pub struct Simulated(RefCell<Pages>);

impl Simulated {
    pub(super) fn allocate(&self, pages: usize) -> u64 {
        let mut memory = self.0.borrow_mut();
        let again = memory.free.get_mut(&pages).and_then(Vec::pop);
        let address = again.unwrap_or_else(|| {
            let address = BASE + memory.bytes.len() as u64;
            let bytes = memory.bytes.len() + pages * PAGE_BYTES as usize;
            memory.bytes.resize(bytes, 0);
            let count = memory.given.len() + pages;
            memory.given.resize(count, false);
            address
        });
        let first = ((address - BASE) / PAGE_BYTES) as usize;
        memory.given[first..first + pages].fill(true);
        let start = (address - BASE) as usize;
        memory.bytes[start..start + pages * PAGE_BYTES as usize].fill(0);
        address
    }

    pub(super) fn free(&self, address: u64, pages: usize) {
        let mut memory = self.0.borrow_mut();
        let first = ((address - BASE) / PAGE_BYTES) as usize;
        assert!(memory.given[first..first + pages].iter().all(|given| *given), "only given pages are freed");
        memory.given[first..first + pages].fill(false);
        memory.free.entry(pages).or_default().push(address);
    }

    pub(super) fn check(&self, address: u64, bytes: u64) -> Result<(), Fault> {
        self.0.borrow().range(address, bytes).map(|_| ())
    }

    pub(super) fn with<R>(
        &self,
        address: u64,
        bytes: usize,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Fault> {
        let memory = self.0.borrow();
        let range = memory.range(address, bytes as u64)?;
        Ok(look(&memory.bytes[range]))
    }

    pub(super) fn with_mut<R>(
        &self,
        address: u64,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, Fault> {
        let mut memory = self.0.borrow_mut();
        let range = memory.range(address, bytes as u64)?;
        Ok(fill(&mut memory.bytes[range]))
    }
}

impl Pages {
    /// The extent's place in `bytes`, if every page of it was given.
    fn range(&self, address: u64, bytes: u64) -> Result<std::ops::Range<usize>, Fault> {
        let fault = Fault { address, bytes };
        let start = address.checked_sub(BASE).ok_or(fault)?;
        let end = start.checked_add(bytes).ok_or(fault)?;
        if end > self.bytes.len() as u64 {
            return Err(fault);
        }
        let pages = (start / PAGE_BYTES) as usize..end.div_ceil(PAGE_BYTES) as usize;
        if !self.given[pages].iter().all(|given| *given) {
            return Err(fault);
        }
        Ok(start as usize..end as usize)
    }
}
