//! A drive's registers in a page shared with another process.
//!
//! The driver's stores to it wake nobody, so the drive's side looks at each register in turn ([`SharedBar::poll`])
//! and takes what changed as a register write; what the driver may read (CAP, VS, CSTS) is kept up to date.

use crate::memory::Memory;
use std::cell::RefCell;

/// The two sides' view of a shared register page.
pub struct SharedBar {
    memory: Memory,
    base: u64,
    seen: RefCell<Vec<u32>>,
}

impl SharedBar {
    /// Registers are the `words` 32-bit words at `base` of `memory`.
    pub fn new(memory: Memory, base: u64, words: usize) -> Self {
        SharedBar { memory, base, seen: RefCell::new(vec![0; words]) }
    }

    /// The driver's side: reads the register at `offset` bytes. A register beyond the page reads as all ones.
    pub fn load(&self, offset: u64) -> u32 {
        self.memory.load32(self.base + offset).unwrap_or(u32::MAX)
    }

    /// Either side: writes the register at `offset` bytes; one beyond the page goes nowhere.
    pub fn store(&self, offset: u64, value: u32) {
        let _ = self.memory.store32(self.base + offset, value);
    }

    /// The drive's side: writes a register that the driver only reads, so that `poll` doesn't take it for news.
    pub fn publish(&self, offset: u64, value: u32) {
        if let Some(seen) = self.seen.borrow_mut().get_mut(offset as usize / 4) {
            *seen = value;
            self.store(offset, value);
        }
    }

    /// The drive's side: as [`SharedBar::publish`], if another value than `value` stands there. Says whether one did.
    pub fn renew(&self, offset: u64, value: u32) -> bool {
        let changed = self.load(offset) != value;
        if changed {
            self.publish(offset, value);
        }
        changed
    }

    /// The drive's side: what the driver has stored at `offset`, if that is another value than the last that was taken
    /// or published there.
    pub fn take(&self, offset: u64) -> Option<u32> {
        let mut seen = self.seen.borrow_mut();
        let last = seen.get_mut(offset as usize / 4)?;
        let value = self.load(offset);
        (value != *last).then(|| {
            *last = value;
            value
        })
    }

    /// The drive's side: the last value that was taken or published at `offset`; zero if there was none.
    pub fn taken(&self, offset: u64) -> u32 {
        self.seen.borrow().get(offset as usize / 4).copied().unwrap_or(0)
    }

    /// The drive's side: calls `changed(offset, value)` for each of the words `range` that the driver has changed.
    pub fn poll(&self, range: std::ops::Range<usize>, mut changed: impl FnMut(u64, u32)) -> bool {
        let mut seen = self.seen.borrow_mut();
        let mut any = false;
        for index in range {
            let Some(last) = seen.get_mut(index) else { break };
            let value = self.load(index as u64 * 4);
            if value != *last {
                *last = value;
                any = true;
                changed(index as u64 * 4, value);
            }
        }
        any
    }
}
