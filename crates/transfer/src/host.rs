//! The host's end: from a buffer to a command's data pointer.
//!
//! A [`Buffer`] is the memory of a payload, page by page. A [`Planner`] describes it by PRPs or an SGL; the
//! lists that larger payloads need lie in pages of its own, some for each command slot, so that planning
//! allocates nothing.

pub use crate::buffer::{Buffer, DataPointer, Extents};

use crate::sgl::DESCRIPTORS_PER_PAGE;
use byteway_link::Memory;
use byteway_link::memory::{Fault, PAGE_BYTES};
use byteway_wire::nvme::{SglDescriptor, prp, sgl};
use std::cell::RefCell;
use std::fmt;

const PAGE: u32 = PAGE_BYTES as u32;

/// Format of a data pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PointerKind {
    /// PRP1, PRP2 and PRP lists.
    #[default]
    Prp,
    /// Scatter gather lists; adjacent pages become one data block.
    Sgl,
}

/// Error of planning a data pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// More bytes than the buffer has, or than the planner's lists can describe.
    TooLong {
        /// The requested length.
        bytes: u64,
        /// The maximum.
        bytes_max: u64,
    },
    /// The slot was never added to the planner.
    NoSuchSlot(usize),
    /// A list page is no longer valid memory.
    Fault(Fault),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::TooLong { bytes, bytes_max } => {
                write!(f, "the payload has {bytes} bytes, the planner can describe at most {bytes_max}")
            }
            PlanError::NoSuchSlot(slot) => write!(f, "command slot {slot} was not added to the planner"),
            PlanError::Fault(fault) => write!(f, "a list cannot be written: {fault}"),
        }
    }
}

impl std::error::Error for PlanError {}

/// Makes data pointers, with list pages of its own for each command slot.
pub struct Planner {
    memory: Memory,
    method: PointerKind,
    bytes_max: u32,
    pages_per_slot: usize,
    /// List pages, slot after slot.
    pages: RefCell<Vec<u64>>,
    slots: RefCell<usize>,
    descriptors: RefCell<Vec<SglDescriptor>>,
}

impl Planner {
    /// A planner for payloads of up to `bytes_max` bytes. Add slots by [`Planner::add_slot`].
    pub fn new(memory: &Memory, method: PointerKind, bytes_max: u32) -> Planner {
        let offset_max = PAGE - 1;
        let pages_max = prp::pages_needed(u64::from(bytes_max), offset_max, PAGE) as usize;
        let pages_per_slot = match method {
            PointerKind::Prp => prp::list_pages_needed(u64::from(bytes_max), offset_max, PAGE) as usize,
            PointerKind::Sgl => sgl::segments_needed(pages_max, DESCRIPTORS_PER_PAGE),
        };
        Planner {
            memory: memory.clone(),
            method,
            bytes_max,
            pages_per_slot,
            pages: RefCell::default(),
            slots: RefCell::default(),
            descriptors: RefCell::new(Vec::with_capacity(pages_max)),
        }
    }

    /// Kind of data pointer that it makes.
    pub fn method(&self) -> PointerKind {
        self.method
    }

    /// Maximum payload in bytes.
    pub fn bytes_max(&self) -> u32 {
        self.bytes_max
    }

    /// Adds a command slot with its list pages. None if no memory is left.
    pub fn add_slot(&self) -> Option<usize> {
        let mut pages = self.pages.borrow_mut();
        for _ in 0..self.pages_per_slot {
            pages.push(self.memory.allocate(1)?);
        }
        let mut slots = self.slots.borrow_mut();
        *slots += 1;
        Some(*slots - 1)
    }

    /// Computes the data pointer for the first `bytes` of `buffer`. Overwrites the lists of `slot`, whose
    /// previous command must have completed.
    ///
    /// # Errors
    /// [`PlanError`] if the payload is too long, the slot is unknown, or a list page is no longer valid
    /// memory.
    pub fn plan(&self, slot: usize, buffer: &Buffer, bytes: u32) -> Result<DataPointer, PlanError> {
        let bytes_max = self.bytes_max.min(buffer.bytes());
        if bytes > bytes_max {
            return Err(PlanError::TooLong { bytes: u64::from(bytes), bytes_max: u64::from(bytes_max) });
        }
        let pages = self.pages.borrow();
        if slot >= *self.slots.borrow() {
            return Err(PlanError::NoSuchSlot(slot));
        }
        let lists = &pages[slot * self.pages_per_slot..][..self.pages_per_slot];
        let mut written = Ok(());
        let mut write = |address: u64, bytes: &[u8]| {
            if written.is_ok() {
                written = self.memory.write(address, bytes);
            }
        };
        let pointer = match self.method {
            PointerKind::Prp => crate::prp::plan(buffer, bytes, lists, &mut write),
            PointerKind::Sgl => {
                let mut descriptors = self.descriptors.borrow_mut();
                crate::sgl::plan(buffer, bytes, lists, &mut descriptors, &mut write)
            }
        };
        written.map(|()| pointer).map_err(PlanError::Fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_wire::nvme::Segment;
    use byteway_wire::nvme::{PrpStep, PrpWalker, SglStep, SglWalker};

    /// A driver's report must show the length that was asked for and the one that is possible.
    #[test]
    fn errors_name_the_value_and_the_bound() {
        assert_eq!(
            PlanError::TooLong { bytes: 9000, bytes_max: 8192 }.to_string(),
            "the payload has 9000 bytes, the planner can describe at most 8192"
        );
        assert_eq!(PlanError::NoSuchSlot(3).to_string(), "command slot 3 was not added to the planner");
    }

    /// Follows a data pointer as a device would.
    fn walk(memory: &Memory, pointer: DataPointer, bytes: u32) -> Vec<Segment> {
        let mut found = Vec::new();
        let fetch = |address, bytes: u32| memory.with(address, bytes as usize, <[u8]>::to_vec).unwrap();
        match pointer {
            DataPointer::Prp { prp1, prp2 } => {
                let mut walker = PrpWalker::new(prp1, prp2, u64::from(bytes), PAGE);
                loop {
                    match walker.next().unwrap() {
                        PrpStep::Data(segment) => found.push(segment),
                        PrpStep::FetchList { address, bytes } => walker.feed(&fetch(address, bytes)),
                        PrpStep::Done => return found,
                    }
                }
            }
            DataPointer::Sgl(first) => {
                let mut walker = SglWalker::new(first, u64::from(bytes), true);
                loop {
                    match walker.next().unwrap() {
                        SglStep::Data(segment) => found.push(segment),
                        SglStep::FetchSegment { address, bytes } => walker.feed(&fetch(address, bytes)),
                        SglStep::Discard { .. } => panic!("nothing is discarded"),
                        SglStep::Done => return found,
                    }
                }
            }
        }
    }

    fn merged(segments: impl IntoIterator<Item = Segment>) -> Vec<Segment> {
        let mut all: Vec<Segment> = Vec::new();
        for segment in segments {
            match all.last_mut() {
                Some(last) if last.end() == segment.address => last.bytes += segment.bytes,
                _ => all.push(segment),
            }
        }
        all
    }

    // A device that follows the pointer must reach exactly the buffer's bytes, in order.
    #[test]
    fn what_is_planned_walks_back_to_the_buffer() {
        for method in [PointerKind::Prp, PointerKind::Sgl] {
            let memory = Memory::simulated();
            let planner = Planner::new(&memory, method, 3 << 20);
            for (offset, bytes) in [
                (0, 0),
                (0, 512),
                (8, 4096),
                (0, 8192),
                (512, 8192),
                (0, 12288),
                (4, 1 << 20),
                (4092, 3 << 20),
            ] {
                for scattered in [false, true] {
                    let make = if scattered { Buffer::scattered } else { Buffer::contiguous };
                    let buffer = make(&memory, offset, bytes).unwrap();
                    let slot = planner.add_slot().unwrap();
                    let pointer = planner.plan(slot, &buffer, bytes).unwrap();
                    let found = merged(walk(&memory, pointer, bytes));
                    let wanted: Vec<Segment> = buffer.extents(bytes).collect();
                    assert_eq!(
                        found,
                        merged(wanted),
                        "{method:?} {bytes} from {offset}, scattered {scattered}"
                    );
                    assert_eq!(found.iter().map(|part| part.bytes).sum::<u32>(), bytes);
                    buffer.free(&memory);
                }
            }
        }
    }

    // An SGL of a contiguous buffer must need no segment: this is why hosts choose SGLs for it.
    #[test]
    fn a_buffer_in_one_piece_is_one_descriptor() {
        let memory = Memory::simulated();
        let planner = Planner::new(&memory, PointerKind::Sgl, 1 << 20);
        let slot = planner.add_slot().unwrap();
        let buffer = Buffer::contiguous(&memory, 0, 1 << 20).unwrap();
        let expected = SglDescriptor::data_block(buffer.pages()[0], 1 << 20);
        assert_eq!(planner.plan(slot, &buffer, 1 << 20), Ok(DataPointer::Sgl(expected)));
    }

    // Lengths come from scenarios: one too many must be an error, not a panic.
    #[test]
    fn what_does_not_fit_is_an_error() {
        let memory = Memory::simulated();
        let planner = Planner::new(&memory, PointerKind::Prp, 8192);
        let buffer = Buffer::contiguous(&memory, 0, 16384).unwrap();
        assert_eq!(planner.plan(0, &buffer, 4096), Err(PlanError::NoSuchSlot(0)));
        let slot = planner.add_slot().unwrap();
        assert_eq!(
            planner.plan(slot, &buffer, 8193),
            Err(PlanError::TooLong { bytes: 8193, bytes_max: 8192 })
        );
        assert_eq!(Buffer::over(vec![0x1000], 8, 4096), None);
    }
}
