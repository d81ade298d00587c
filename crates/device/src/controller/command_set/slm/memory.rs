//! The bytes of a memory namespace, and what all commands on them check and charge.

use crate::controller::command::context::Context;
use crate::controller::namespace::Namespace;
use byteway_clock::Stage;
use byteway_firmware::WorkKind;
use byteway_wire::nvme::Status;
use byteway_wire::nvme::slm::GRANULARITY;
use std::cell::RefCell;
use std::rc::Rc;

pub(crate) const INVALID_FIELD: Status = Status::INVALID_FIELD.with_dnr();
/// Bytes of DRAM transfer between two checks for an abort.
const STEP_BYTES: u64 = 1 << 20;

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

/// Memory of a namespace; `None` if it is not open, or belongs to another command set.
pub(crate) fn memory_of(namespace: &Namespace) -> Option<Rc<LocalMemory>> {
    namespace.contents()
}

/// Checks an extent of a memory namespace.
///
/// # Errors
/// [`Status::INVALID_FIELD`] if it is not a multiple of the granularity, [`Status::LBA_OUT_OF_RANGE`] if it
/// exceeds the memory.
pub(crate) fn check_extent(memory: &LocalMemory, start: u64, bytes: u64) -> Result<(), Status> {
    let granularity = u64::from(GRANULARITY);
    if !start.is_multiple_of(granularity) || !bytes.is_multiple_of(granularity) {
        return Err(INVALID_FIELD);
    }
    if memory.holds(start, bytes) { Ok(()) } else { Err(Status::LBA_OUT_OF_RANGE.with_dnr()) }
}

/// Charges a DRAM transfer of `bytes`, step by step.
pub(crate) async fn take_dram(context: &Context<'_>, bytes: u64) -> Result<(), Status> {
    let core = context.core;
    let mut left = bytes;
    while left > 0 {
        let now = left.min(STEP_BYTES);
        let passage = core.placement.site(WorkKind::Buffer).dram("local memory", now);
        core.clock.sleep_until(passage.arrival).await;
        context.charge(Stage::Dram);
        context.check()?;
        left -= now;
    }
    Ok(())
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
