//! The location of a command's payload, and data pointers for parts of it.
//!
//! A real block layer has a request's pages when it splits the request. Here they are read from the command,
//! by the device's walk over PRPs and SGLs, in the host's own memory.

use byteway_link::Memory;
use byteway_link::memory::PAGE_BYTES;
use byteway_transfer::host::{Buffer, DataPointer, Planner, PointerKind};
use byteway_wire::nvme::command::{PSDT_PRP, PSDT_SGL};
use byteway_wire::nvme::sgl::SglStep;
use byteway_wire::nvme::{PrpStep, PrpWalker, Segment, SglDescriptor, SglWalker, Sqe};
use std::cell::RefCell;

/// The pages of a payload.
#[derive(Debug)]
pub(super) struct Pages {
    pages: Vec<u64>,
    /// Offset in the first page.
    offset: u32,
}

impl Pages {
    /// Appends a segment. `false`: it does not continue the last one as PRPs require.
    fn push(&mut self, segment: Segment, end: &mut u64) -> bool {
        let (mut address, mut left) = (segment.address, u64::from(segment.bytes));
        while left > 0 {
            let within = address % PAGE_BYTES;
            if self.pages.is_empty() {
                self.offset = within as u32;
                self.pages.push(address - within);
            } else if within == 0 && end.is_multiple_of(PAGE_BYTES) {
                self.pages.push(address);
            } else if *end != address {
                return false;
            }
            let part = left.min(PAGE_BYTES - within);
            (address, left) = (address + part, left - part);
            *end = address;
        }
        true
    }

    /// The `bytes` bytes of it from `at` on, as a payload.
    pub(super) fn piece(&self, at: u32, bytes: u32) -> Option<Buffer> {
        let begin = u64::from(self.offset) + u64::from(at);
        let (first, offset) = ((begin / PAGE_BYTES) as usize, (begin % PAGE_BYTES) as u32);
        let count = (u64::from(offset) + u64::from(bytes)).div_ceil(PAGE_BYTES) as usize;
        Buffer::over(self.pages.get(first..first + count)?.to_vec(), offset, bytes)
    }
}

/// Walks data pointers, and plans new ones in reused list pages.
pub(super) struct Pointers {
    memory: Memory,
    planner: Planner,
    free: RefCell<Vec<usize>>,
    prp: RefCell<PrpWalker>,
    sgl: RefCell<SglWalker>,
}

impl Pointers {
    /// Pointers for parts of up to `bytes_max` bytes.
    pub(super) fn new(memory: &Memory, bytes_max: u32) -> Self {
        Pointers {
            memory: memory.clone(),
            planner: Planner::new(memory, PointerKind::Prp, bytes_max),
            free: RefCell::default(),
            prp: RefCell::new(PrpWalker::new(0, 0, 0, PAGE_BYTES as u32)),
            sgl: RefCell::new(SglWalker::new(SglDescriptor::default(), 0, true)),
        }
    }

    /// The pages of a command's payload of `bytes` bytes. `None`: it has no data pointer, or one that can't be split at
    /// any byte.
    pub(super) fn pages(&self, sqe: &Sqe, bytes: u64, to_host: bool) -> Option<Pages> {
        let mut found = Pages { pages: Vec::new(), offset: 0 };
        let (mut end, mut list) = (0, [0; PAGE_BYTES as usize]);
        match sqe.psdt() {
            PSDT_PRP => {
                let walker = &mut *self.prp.borrow_mut();
                walker.reset(sqe.prp1, sqe.prp2, bytes, PAGE_BYTES as u32);
                loop {
                    match walker.next().ok()? {
                        PrpStep::Data(segment) => found.push(segment, &mut end).then_some(())?,
                        PrpStep::FetchList { address, bytes } => {
                            let part = list.get_mut(..bytes as usize)?;
                            self.memory.read(address, part).ok()?;
                            walker.feed(part);
                        }
                        PrpStep::Done => return Some(found),
                    }
                }
            }
            PSDT_SGL => {
                let walker = &mut *self.sgl.borrow_mut();
                walker.reset(sqe.sgl(), bytes, to_host);
                loop {
                    match walker.next().ok()? {
                        SglStep::Data(segment) => found.push(segment, &mut end).then_some(())?,
                        SglStep::FetchSegment { address, bytes } => {
                            let part = list.get_mut(..bytes as usize)?;
                            self.memory.read(address, part).ok()?;
                            walker.feed(part);
                        }
                        SglStep::Discard { .. } => return None,
                        SglStep::Done => return Some(found),
                    }
                }
            }
            _ => None,
        }
    }

    /// Plans a data pointer for a part; returns it with its list slot, to be [returned](Pointers::give). `None`: the
    /// part is too long.
    pub(super) fn plan(&self, piece: &Buffer) -> Option<(DataPointer, usize)> {
        let slot = self.free.borrow_mut().pop().or_else(|| self.planner.add_slot())?;
        match self.planner.plan(slot, piece, piece.bytes()) {
            Ok(pointer) => Some((pointer, slot)),
            Err(_) => {
                self.give(slot);
                None
            }
        }
    }

    /// Returns lists that no command uses any more.
    pub(super) fn give(&self, slot: usize) {
        self.free.borrow_mut().push(slot);
    }

    /// Reads a payload in host memory.
    pub(super) fn read(&self, pages: &Pages, into: &mut [u8]) -> Option<()> {
        let piece = pages.piece(0, into.len() as u32)?;
        let mut done = 0;
        for part in piece.extents(into.len() as u32) {
            let end = done + part.bytes as usize;
            self.memory.read(part.address, into.get_mut(done..end)?).ok()?;
            done = end;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A part whose pointer is off by a page or byte moves other memory than the command named.
    #[test]
    fn pieces_lie_where_the_command_says() {
        let memory = Memory::simulated();
        let pointers = Pointers::new(&memory, 64 << 10);
        for kind in [PointerKind::Prp, PointerKind::Sgl] {
            for offset in [0, 512] {
                let buffer = Buffer::scattered(&memory, offset, 48 << 10).unwrap();
                let planner = Planner::new(&memory, kind, 64 << 10);
                let slot = planner.add_slot().unwrap();
                let pointer = planner.plan(slot, &buffer, 48 << 10).unwrap();
                let sqe = pointer.placed_in(Sqe::default());
                let whole: Vec<Segment> = buffer.extents(48 << 10).collect();
                let byte = |segments: &[Segment], mut at: u64| {
                    let found = segments.iter().find_map(|segment| {
                        let bytes = u64::from(segment.bytes);
                        if at < bytes {
                            return Some(segment.address + at);
                        }
                        at -= bytes;
                        None
                    });
                    found.unwrap()
                };
                let pages = pointers.pages(&sqe, 48 << 10, true).unwrap();
                for (at, bytes) in [(0, 4096), (4096, 8192), (512, 512), (3584, 40960), (45056, 4096)] {
                    let piece = pages.piece(at, bytes).unwrap();
                    let (pointer, slot) = pointers.plan(&piece).unwrap();
                    let again =
                        pointers.pages(&pointer.placed_in(Sqe::default()), bytes.into(), true).unwrap();
                    let found: Vec<Segment> = again.piece(0, bytes).unwrap().extents(bytes).collect();
                    for step in (0..bytes).step_by(512) {
                        assert_eq!(
                            byte(&found, step.into()),
                            byte(&whole, u64::from(at + step)),
                            "{kind:?} {offset}"
                        );
                    }
                    pointers.give(slot);
                }
            }
        }
    }
}
