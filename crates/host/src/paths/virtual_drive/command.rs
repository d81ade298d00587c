//! Handling of a tenant's commands.

use super::map::{Part, Run};
use super::{Counted, Inner};
use crate::driver::queue::{Carried, QueuePair, Request, Routed, Routes};
use crate::error::Lost;
use byteway_clock::{Notify, RangeLock, RangeUse, Stage};
use byteway_wire::nvme::command::FUSE_NONE;
use byteway_wire::nvme::{
    Cqe, DatasetManagement, Flush, NvmOpcode, Range as Ranged, ReadWrite, Sqe, Status, WriteZeroes,
};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

/// The broadcast NSID.
const BROADCAST: u32 = u32::MAX;

/// A tenant's queue pair: everything executed on it goes through the virtual drive.
struct TenantQueue {
    drive: Rc<Inner>,
    own: QueuePair,
}

/// See [`VirtualDrive::queue`](super::VirtualDrive::queue).
pub(super) fn tenant_queue(drive: Rc<Inner>, own: QueuePair) -> QueuePair {
    let routes = Rc::new(TenantQueue { drive, own: own.clone() });
    QueuePair { routes: Some(routes), ..own }
}

impl Routes for TenantQueue {
    fn execute<'a>(&'a self, request: &'a Request<'a>) -> Routed<'a> {
        Box::pin(self.drive.go(&self.own, request))
    }

    /// Batches would bypass the handling of each command.
    fn takes_batches(&self) -> bool {
        false
    }
}

/// The blocks of a command.
#[derive(Clone, Debug)]
struct Extent {
    blocks: Range<u64>,
    /// The units that contain them.
    units: Range<u64>,
    /// Whether the extents are whole units.
    is_whole: bool,
}

impl Inner {
    async fn go(self: &Rc<Self>, own: &QueuePair, request: &Request<'_>) -> Result<Cqe, Lost> {
        let _outstanding = Counted::new(&self.own, &self.clock);
        self.count(|figures| figures.commands += 1);
        self.hypervisor.manage(request.span).await;
        let (sqe, tenant) = (&request.sqe, self.own_drive().tenant.nsid);
        let opcode = NvmOpcode(sqe.opcode());
        if opcode == NvmOpcode::FLUSH && [tenant, BROADCAST].contains(&sqe.nsid) {
            return self.flush(own, request).await;
        }
        if sqe.nsid == self.own_drive().spare.nsid || sqe.nsid == BROADCAST {
            // The spare namespace holds others' data.
            return Ok(refused(Status::INVALID_NAMESPACE.with_dnr()));
        }
        if sqe.nsid != tenant {
            return self.at(self.home, own, request).await;
        }
        let is_plain = matches!(request.carried, Carried::Nothing)
            && request.needs.is_empty()
            && request.result_bytes == 0
            && sqe.fuse() == FUSE_NONE;
        if is_plain && opcode == NvmOpcode::DATASET_MANAGEMENT {
            return self.deallocate(own, request).await;
        }
        let is_known = [
            NvmOpcode::READ,
            NvmOpcode::COMPARE,
            NvmOpcode::VERIFY,
            NvmOpcode::WRITE,
            NvmOpcode::WRITE_ZEROES,
        ];
        if !is_plain || !is_known.contains(&opcode) {
            return self.bring_home_and(own, request).await;
        }
        let rw = ReadWrite::parse(sqe); // Write Zeroes has the same fields
        let Some(extent) = self.extent(rw.slba, rw.blocks().into()) else {
            return self.at(self.home, own, request).await; // the drive refuses it
        };
        match opcode {
            NvmOpcode::WRITE => self.write(own, request, extent).await,
            NvmOpcode::WRITE_ZEROES => {
                let lock = self.lock(request, &extent.units, RangeUse::Change).await;
                let done = self.at(self.home, own, request).await?;
                let ended = if done.status().is_success() { self.zeroed(extent).await? } else { None };
                drop(lock);
                Ok(ended.map_or(done, refused))
            }
            _ => {
                let lock = self.lock(request, &extent.units, RangeUse::Read).await;
                self.follow(own, request, extent, lock).await
            }
        }
    }

    /// The blocks of a command, if they lie within the tenant's namespace.
    fn extent(&self, slba: u64, count: u64) -> Option<Extent> {
        let end = slba.checked_add(count).filter(|end| *end <= self.own_drive().tenant.blocks)?;
        let per = self.blocks_per_unit;
        let is_whole = slba.is_multiple_of(per) && end.is_multiple_of(per);
        Some(Extent { blocks: slba..end, units: slba / per..end.div_ceil(per), is_whole })
    }

    async fn lock(&self, request: &Request<'_>, units: &Range<u64>, usage: RangeUse) -> RangeLock {
        let lock = self.locks.lock(units.clone(), usage).await;
        self.clock.spans().charge(request.span, self.clock.now(), Stage::Queueing);
        lock
    }

    /// Executes a command at a drive.
    pub(super) async fn at(
        &self,
        drive: usize,
        queue: &QueuePair,
        request: &Request<'_>,
    ) -> Result<Cqe, Lost> {
        let _counted = Counted::new(&self.hypervisor.drives[drive].load, &self.clock);
        queue.execute_placed(*request).await
    }

    /// The run for a redirected write of `count` units: at the lender with the fewest outstanding commands, if those
    /// are fewer than at home, and it has free space. `None`: write at home.
    fn choose(&self, count: u64) -> Option<Run> {
        let drives = &self.hypervisor.drives;
        let load = |drive: usize| drives[drive].load.now.get();
        let lenders = self.lenders.borrow();
        let has_space = |lender: &usize| drives[*lender].space.borrow().free() >= count;
        let lender = lenders.iter().copied().filter(has_space).min_by_key(|lender| load(*lender))?;
        if load(lender) >= load(self.home) {
            return None;
        }
        let at = drives[lender].space.borrow_mut().take(count)?;
        drives[lender].is_used.set(true);
        Some(Run { lender, at, count })
    }

    async fn write(
        self: &Rc<Self>,
        own: &QueuePair,
        request: &Request<'_>,
        extent: Extent,
    ) -> Result<Cqe, Lost> {
        self.count(|figures| figures.writes += 1);
        let lock = self.lock(request, &extent.units, RangeUse::Change).await;
        if !extent.is_whole {
            return self.follow(own, request, extent, lock).await;
        }
        let count = extent.units.end - extent.units.start;
        if let Some(run) = self.choose(count) {
            let drive = &self.hypervisor.drives[run.lender];
            let sqe = self.at_lender(
                &request.sqe,
                run.at * self.blocks_per_unit,
                count * self.blocks_per_unit,
                run.lender,
            );
            let attempt = Request { sqe, ..*request };
            match self.at(run.lender, &drive.config.queue, &attempt).await {
                Ok(done) if done.status().is_success() => {
                    self.is_at_home(extent.units.clone());
                    self.map.borrow_mut().insert(extent.units.start, run);
                    if self.is_reclaimed(run.lender) {
                        self.to_copy.notify_all(); // units may have been waiting for this write
                    }
                    self.count(|figures| {
                        figures.redirected += 1;
                        figures.units_redirected += count;
                    });
                    return Ok(done);
                }
                // A lost write may still take effect there: never reuse this space.
                Err(_) => {
                    drive.is_lost.set(true);
                    self.lenders.borrow_mut().retain(|lender| *lender != run.lender);
                }
                Ok(_) => drive.space.borrow_mut().give(run.at, count),
            }
            self.count(|figures| figures.returned += 1);
        }
        let done = self.at(self.home, own, request).await?;
        if done.status().is_success() {
            self.is_at_home(extent.units);
        }
        drop(lock);
        Ok(done)
    }

    /// The command for blocks in a lender's spare namespace.
    fn at_lender(&self, sqe: &Sqe, slba: u64, blocks: u64, lender: usize) -> Sqe {
        let nsid = self.hypervisor.drives[lender].config.spare.nsid;
        Sqe { nsid, ..with_blocks(sqe, slba, blocks) }
    }

    /// Executes a command wherever its blocks are, all parts at the same time.
    async fn follow(
        self: &Rc<Self>,
        own: &QueuePair,
        request: &Request<'_>,
        extent: Extent,
        lock: RangeLock,
    ) -> Result<Cqe, Lost> {
        let mut parts = self.parts.borrow_mut().pop().unwrap_or_default();
        self.map.borrow().parts(extent.units.clone(), &mut parts);
        if request.sqe.opcode() != NvmOpcode::WRITE.0 && parts.iter().any(|part| part.run.is_some()) {
            self.count(|figures| figures.reads_at_lenders += 1);
        }
        let only = match &parts[..] {
            [Part { run, .. }] => Some(*run),
            _ => None,
        };
        let done = match only {
            Some(None) => self.at(self.home, own, request).await,
            Some(Some(run)) => {
                let slba = self.block_at(&run, extent.units.start, extent.blocks.start);
                let blocks = extent.blocks.end - extent.blocks.start;
                let sqe = self.at_lender(&request.sqe, slba, blocks, run.lender);
                let queue = &self.hypervisor.drives[run.lender].config.queue;
                self.at(run.lender, queue, &Request { sqe, ..*request }).await
            }
            None => Box::pin(self.split(own, request, extent, lock, &parts)).await,
        };
        parts.clear();
        self.parts.borrow_mut().push(parts);
        done
    }

    /// The block in a lender's spare namespace for `block`, in a run whose first unit is `first`.
    fn block_at(&self, run: &Run, first: u64, block: u64) -> u64 {
        run.at * self.blocks_per_unit + (block - first * self.blocks_per_unit)
    }

    /// Executes the parts of a command as commands of their own, each in a task: a part that waited for a slot at one
    /// drive, with parts at another already placed, could wait for a command that waits for it.
    async fn split(
        self: &Rc<Self>,
        own: &QueuePair,
        request: &Request<'_>,
        extent: Extent,
        lock: RangeLock,
        parts: &[Part],
    ) -> Result<Cqe, Lost> {
        let sqe = &request.sqe;
        let block_bytes = u64::from(self.own_drive().tenant.block_bytes);
        let opcode = NvmOpcode(sqe.opcode());
        let pages = match opcode {
            NvmOpcode::VERIFY => None,
            _ => {
                let bytes = (extent.blocks.end - extent.blocks.start) * block_bytes;
                match self.pointers.pages(sqe, bytes, opcode == NvmOpcode::READ) {
                    Some(pages) => Some(pages),
                    None => {
                        drop(lock); // the rest concerns units away from home, which are locked separately
                        return self.bring_home_and(own, request).await;
                    }
                }
            }
        };
        self.count(|figures| figures.split += 1);
        let gather = Rc::new(Gather {
            left: Cell::new(parts.len()),
            ended: Cell::new(Ok(Cqe::new(0, Status::SUCCESS, 0, 0))),
            last: Notify::new(&self.clock),
            _lock: RefCell::new(Some(lock)),
        });
        for part in parts {
            let per = self.blocks_per_unit;
            let blocks = (part.units.start * per).max(extent.blocks.start)
                ..(part.units.end * per).min(extent.blocks.end);
            let count = blocks.end - blocks.start;
            let (drive, queue, mut sqe) = match part.run {
                None => (self.home, own.clone(), with_blocks(sqe, blocks.start, count)),
                Some(run) => {
                    let slba = self.block_at(&run, part.units.start, blocks.start);
                    let queue = self.hypervisor.drives[run.lender].config.queue.clone();
                    (run.lender, queue, self.at_lender(sqe, slba, count, run.lender))
                }
            };
            let mut slot = None;
            let mut touched = 0;
            if let Some(pages) = &pages {
                let (at, bytes) = ((blocks.start - extent.blocks.start) * block_bytes, count * block_bytes);
                let piece = pages.piece(at as u32, bytes as u32);
                let planned = piece.as_ref().and_then(|piece| self.pointers.plan(piece));
                let Some(((pointer, lists), piece)) = planned.zip(piece) else {
                    gather.end(Ok(refused(Status::INTERNAL_ERROR)));
                    continue;
                };
                sqe = pointer.placed_in(Sqe { cdw0: sqe.cdw0 & !(0b11 << 14), ..sqe });
                (slot, touched) = (Some(lists), piece.pages_touched(piece.bytes()));
            }
            let part = Request { sqe, span: request.span, pages: touched, ..Request::from(sqe) };
            let (inner, gather) = (self.clone(), gather.clone());
            self.clock.spawn("split command", async move {
                let done = inner.at(drive, &queue, &part).await;
                slot.into_iter().for_each(|slot| inner.pointers.give(slot));
                gather.end(done);
            });
        }
        while gather.left.get() > 0 {
            gather.last.notified().await;
        }
        gather.ended.get()
    }

    /// Handles blocks zeroed at home: whole units are at home from now on; parts of units at lenders are zeroed there.
    /// Returns an error, if any.
    async fn zeroed(&self, extent: Extent) -> Result<Option<Status>, Lost> {
        let Extent { blocks, units, .. } = extent;
        let per = self.blocks_per_unit;
        let whole = blocks.start.div_ceil(per)..blocks.end / per;
        if whole.start < whole.end {
            self.is_at_home(whole.clone());
        }
        let mut parts = Vec::new();
        let edges = [units.start, units.end - 1].into_iter().filter(|unit| !whole.contains(unit));
        let mut last = None;
        for unit in edges.filter(|unit| last.replace(*unit) != Some(*unit)) {
            self.map.borrow().parts(unit..unit + 1, &mut parts);
            let Some(run) = parts.first().and_then(|part| part.run) else { continue };
            let (begin, end) = ((unit * per).max(blocks.start), ((unit + 1) * per).min(blocks.end));
            let zeroes = WriteZeroes {
                slba: self.block_at(&run, unit, begin),
                nlb_z: (end - begin - 1) as u16,
                ..WriteZeroes::default()
            };
            let lender = &self.hypervisor.drives[run.lender].config;
            let request = Request::from(zeroes.sqe(0, lender.spare.nsid));
            let status = self.at(run.lender, &lender.queue, &request).await?.status();
            if !status.is_success() {
                return Ok(Some(status));
            }
        }
        Ok(None)
    }

    /// Dataset Management: deallocates at home, in one command, and removes the units from lenders.
    async fn deallocate(&self, own: &QueuePair, request: &Request<'_>) -> Result<Cqe, Lost> {
        let command = DatasetManagement::parse(&request.sqe);
        if !command.ad {
            return self.at(self.home, own, request).await;
        }
        let mut list = [0; 4096];
        let list = &mut list[..command.bytes() as usize];
        let pages = self.pointers.pages(&request.sqe, command.bytes().into(), false);
        let read = pages.and_then(|pages| self.pointers.read(&pages, list));
        let extents = |list: &[u8]| -> Vec<Extent> {
            let ranges = Ranged::parse_list(list).filter(|range| range.length > 0);
            ranges.filter_map(|range| self.extent(range.slba, range.length.into())).collect()
        };
        let extents = if read.is_some() { extents(list) } else { Vec::new() };
        let first = extents.iter().map(|extent| extent.units.start).min();
        let end = extents.iter().map(|extent| extent.units.end).max();
        let (Some(first), Some(end)) = (first, end) else { return self.at(self.home, own, request).await };
        let lock = self.lock(request, &(first..end), RangeUse::Change).await;
        let done = self.at(self.home, own, request).await?;
        if !done.status().is_success() {
            return Ok(done);
        }
        for extent in extents {
            if let Some(status) = self.zeroed(extent).await? {
                return Ok(refused(status));
            }
        }
        drop(lock);
        Ok(done)
    }

    /// Flush: makes everything completed durable, wherever it is stored. Lenders are flushed first: data
    /// copied home meanwhile is durable there before the map says that it is at home, so it is in one of the
    /// flushed places.
    async fn flush(&self, own: &QueuePair, request: &Request<'_>) -> Result<Cqe, Lost> {
        for (number, drive) in self.hypervisor.drives.iter().enumerate() {
            if self.map.borrow().held(number) == 0 {
                continue;
            }
            let sqe = Flush.sqe(0, drive.config.spare.nsid);
            let flush = Request { span: request.span, ..Request::from(sqe) };
            let done = self.at(number, &drive.config.queue, &flush).await?;
            if !done.status().is_success() {
                return Ok(done);
            }
        }
        self.at(self.home, own, request).await
    }

    /// Copies everything home, and then executes a command with no other in flight.
    async fn bring_home_and(&self, own: &QueuePair, request: &Request<'_>) -> Result<Cqe, Lost> {
        let lock = self.lock(request, &(0..u64::MAX), RangeUse::Change).await;
        if !self.map.borrow().is_empty() && !self.bring_home().await {
            return Ok(refused(Status::INTERNAL_ERROR));
        }
        let done = self.at(self.home, own, request).await;
        drop(lock);
        done
    }
}

/// Joins the parts of a command. It keeps the units locked until the last part has ended.
struct Gather {
    left: Cell<usize>,
    /// The first error, otherwise the last result.
    ended: Cell<Result<Cqe, Lost>>,
    last: Notify,
    _lock: RefCell<Option<RangeLock>>,
}

impl Gather {
    fn end(&self, done: Result<Cqe, Lost>) {
        let is_wrong =
            |done: &Result<Cqe, Lost>| done.is_err() || done.is_ok_and(|cqe| !cqe.status().is_success());
        if !is_wrong(&self.ended.get()) {
            self.ended.set(done);
        }
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            self._lock.take();
            self.last.notify_one();
        }
    }
}

/// The command with other blocks.
fn with_blocks(sqe: &Sqe, slba: u64, blocks: u64) -> Sqe {
    let nlb_z = (blocks - 1) as u32 & 0xFFFF;
    Sqe { cdw10: slba as u32, cdw11: (slba >> 32) as u32, cdw12: sqe.cdw12 & !0xFFFF | nlb_z, ..*sqe }
}

fn refused(status: Status) -> Cqe {
    Cqe::new(0, status, 0, 0)
}
