//! Copyback: copying data home from reclaimed lenders.
//!
//! A copy locks its units like a command that changes them. Concurrent writes of the tenant wait; units that the tenant
//! overwrote before are not copied, because they are already at home or at another lender.

use super::{CopybackConfig, Inner, UNIT};
use crate::driver::queue::Request;
use byteway_clock::{RangeUse, SpanId};
use byteway_transfer::host::Buffer;
use byteway_wire::nvme::{NvmOpcode, ReadWrite, Sqe};
use std::ops::Range;
use std::rc::Rc;

/// A copier: copies while there is something to copy, and waits for more.
pub(super) async fn run(inner: Rc<Inner>, buffer: Buffer, config: CopybackConfig) {
    let units = u64::from(buffer.bytes()) / UNIT;
    loop {
        let next = if inner.is_stopped.get() { None } else { inner.next_copy(units) };
        let Some((range, lender)) = next else {
            inner.to_copy.notified().await;
            continue;
        };
        inner.copying.set(inner.copying.get() + 1);
        inner.hypervisor.manage(SpanId::NONE).await;
        let lock = inner.locks.lock(range.clone(), RangeUse::Change).await;
        let copied = inner.copy(&buffer, range, |lender| inner.is_reclaimed(lender)).await;
        drop(lock);
        if copied {
            inner.hypervisor.restore(lender).await;
        }
        inner.copying.set(inner.copying.get() - 1);
        inner.copied.notify_all();
        if !copied {
            inner.clock.sleep(config.retry).await;
        }
    }
}

impl Inner {
    /// Whether the data of a lender must be copied back.
    pub(super) fn is_reclaimed(&self, lender: usize) -> bool {
        self.copyback.is_some() && !self.lenders.borrow().contains(&lender)
    }

    /// The next units to copy, and the lender of the first of them.
    fn next_copy(&self, units: u64) -> Option<(Range<u64>, usize)> {
        let map = self.map.borrow();
        let wanted = |lender| self.is_reclaimed(lender);
        let (first, run) = map.next(self.cursor.get(), wanted).or_else(|| map.next(0, wanted))?;
        // A run whose beginning another copier is copying is still in the map as a whole.
        let first =
            if (first..first + run.count).contains(&self.cursor.get()) { self.cursor.get() } else { first };
        let end = (first + units).min(self.own_drive().tenant.blocks / self.blocks_per_unit);
        self.cursor.set(end);
        Some((first..end, run.lender))
    }

    /// Copies those of `units` that are at `wanted` lenders. The units are locked. `false`: some are still there.
    async fn copy(&self, buffer: &Buffer, units: Range<u64>, wanted: impl Fn(usize) -> bool) -> bool {
        let mut parts = self.parts.borrow_mut().pop().unwrap_or_default();
        self.map.borrow().parts(units, &mut parts);
        let mut all = true;
        for part in &parts {
            let Some(run) = part.run.filter(|run| wanted(run.lender)) else { continue };
            let most = u64::from(buffer.bytes()) / UNIT;
            let mut done = 0;
            while done < run.count && all {
                let count = most.min(run.count - done);
                let first = part.units.start + done;
                all = self.copy_run(buffer, run.lender, run.at + done, first, count).await;
                if all {
                    self.is_at_home(first..first + count);
                    let now = self.clock.now();
                    self.count(|figures| {
                        figures.units_copied += count;
                        figures.last_copy = now;
                    });
                }
                done += count;
            }
        }
        if !all {
            self.count(|figures| figures.copies_failed += 1);
        }
        parts.clear();
        self.parts.borrow_mut().push(parts);
        all
    }

    /// Reads `count` units at a lender and writes them home.
    async fn copy_run(&self, buffer: &Buffer, lender: usize, at: u64, first: u64, count: u64) -> bool {
        let (from, home) = (&self.hypervisor.drives[lender].config, self.own_drive());
        let per = self.blocks_per_unit;
        let bytes = (count * UNIT) as u32;
        let Some(piece) = Buffer::over(buffer.pages().to_vec(), buffer.offset(), bytes) else { return false };
        let Some((pointer, lists)) = self.pointers.plan(&piece) else { return false };
        let rw = |unit: u64, fua| {
            let nlb_z = (count * per - 1) as u16;
            ReadWrite { slba: unit * per, nlb_z, fua, ..ReadWrite::default() }
        };
        let steps = [
            (lender, from, rw(at, false).sqe(NvmOpcode::READ, 0, from.spare.nsid)),
            // With FUA: the copy must be durable before the lender's one is given up, which may have been flushed.
            (self.home, home, rw(first, true).sqe(NvmOpcode::WRITE, 0, home.tenant.nsid)),
        ];
        let mut is_done = true;
        for (drive, config, sqe) in steps {
            let sqe: Sqe = pointer.placed_in(sqe);
            let request = Request { pages: piece.pages_touched(bytes), ..Request::from(sqe) };
            let done = self.at(drive, &config.queue, &request).await;
            is_done = done.is_ok_and(|cqe| cqe.status().is_success());
            if !is_done {
                break;
            }
        }
        self.pointers.give(lists);
        is_done
    }

    /// Copies everything home. All units are locked. `false`: something could not be copied.
    pub(super) async fn bring_home(&self) -> bool {
        let memory = self.own_drive().queue.port().memory().clone();
        let bytes = (self.transfer_units().min(64) * UNIT) as u32;
        let Some(buffer) = Buffer::contiguous(&memory, 0, bytes) else { return false };
        let copied =
            self.copy(&buffer, 0..self.own_drive().tenant.blocks / self.blocks_per_unit, |_| true).await;
        buffer.free(&memory);
        copied
    }
}
