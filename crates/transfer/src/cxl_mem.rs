//! Payload stored to memory of the device over CXL.mem; the command then says where it lies (BandSlim, fine-grained
//! transfer by CXL; formats in [`byteway_wire::nvme::vendor::cxl`]).
//!
//! Payloads of any command take areas of the memory ([`crate::mmio::Areas`]), as with a buffer behind the registers. Values
//! of a key-value namespace go straight to where they stay: into the page that is being filled. [`PageBuffer`] is the host's
//! idea of that page; there is one a drive, and whoever stores to that namespace asks it first:
//!
//! - A value takes the next place by the rules that the device has, too ([`Placing`]), is stored there, and its key-only
//!   command follows. Any number may be under way, in any queues, and reach the device in any order.
//! - The device places what comes otherwise. So such stores and those by CXL.mem exclude one another; when the last of the
//!   former has completed, what completions have said is where the pointer and large values are.
//! - A value that needs the next page waits until all of the page before it have completed: what comes later than a value
//!   of the next page is refused. And it waits until the device has said that the page is free.
//! - Whoever is refused, or loses a command, knows nothing any more: when nothing is under way, the device is asked for the
//!   pointer, which it moves behind all large values.

use byteway_wire::nvme::vendor::cxl::{
    DeviceMemoryLog, InDeviceMemory, Large, PagePointer, Placing, is_from,
};
use byteway_wire::nvme::{Sqe, Status};
use std::collections::VecDeque;

/// Large values that are kept in mind: more than pages have multiples of 4 KiB.
const LARGE_MAX: usize = 1024;

/// Why a store cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Others that are under way must complete.
    Completions,
    /// Nothing is under way, and the device is to be asked for its pointer ([`PageBuffer::learn`]).
    Pointer(PagePointer),
}

/// What became of the command of a value that was placed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded, and said how far the host may store.
    Limit(u32),
    /// It failed and changed nothing, for a reason that has nothing to do with the place.
    Refused,
    /// Its value was not where the device has room, or what became of it is not known.
    Lost,
}

/// The host's end: the page buffer, as its one owner in the host knows it.
#[derive(Clone, Debug)]
pub struct PageBuffer {
    placing: Placing,
    /// The next value goes here or behind.
    pointer: u32,
    /// The device has said that the buffer is free up to here.
    limit: u32,
    /// Large values behind the pointer, in order.
    table: VecDeque<Large>,
    /// Values placed here whose commands are under way, all of them in one page.
    placed: u32,
    page: u32,
    /// Stores under way that the device places.
    others: u32,
    /// The farthest pointer that one of the others' completions has said.
    said: Option<u32>,
    is_stale: bool,
}

impl PageBuffer {
    /// Of a device that says `log`: none, if it has no page buffer. Where its pointer is has to be asked.
    pub fn new(log: &DeviceMemoryLog) -> Option<PageBuffer> {
        Some(PageBuffer {
            placing: log.placing()?,
            pointer: 0,
            limit: 0,
            table: VecDeque::new(),
            placed: 0,
            page: 0,
            others: 0,
            said: None,
            is_stale: true,
        })
    }

    /// How values are placed.
    pub fn placing(&self) -> &Placing {
        &self.placing
    }

    /// Where the next value goes, or behind.
    pub fn pointer(&self) -> u32 {
        self.pointer
    }

    /// Takes the place of a value of `bytes`, at most a page; gives its position. [`PageBuffer::complete`] ends that.
    ///
    /// # Errors
    /// It has to wait.
    pub fn place(&mut self, bytes: u32) -> Result<u32, Wait> {
        let wait = match self.placed == 0 && self.others == 0 {
            true => Wait::Pointer(PagePointer { gives_up: self.is_stale }),
            false => Wait::Completions,
        };
        if self.others > 0 || self.is_stale {
            return Err(wait);
        }
        let place = self.placing.place(self.pointer, self.table.iter().copied(), bytes);
        let (position, passed) = place.ok_or(Wait::Completions)?;
        // The page that was filled up to its end is not the pointer's.
        if self.placed > 0 && self.placing.page(position) != self.page {
            return Err(Wait::Completions);
        }
        let end = position.wrapping_add(bytes);
        if !is_from(self.granted(), end) {
            return Err(wait);
        }
        self.table.drain(..passed);
        self.pointer = end;
        self.page = self.placing.page(position);
        self.placed += 1;
        Ok(position)
    }

    /// How far the host may store. If what was said last lies before the pointer, so much: a page that was begun has room
    /// to its end, or else the value is refused.
    fn granted(&self) -> u32 {
        match self.placing.page(self.pointer) {
            _ if is_from(self.limit, self.pointer) => self.limit,
            page if page == self.pointer => page,
            page => page.wrapping_add(self.placing.page_bytes),
        }
    }

    /// The command of a value that was placed has ended.
    pub fn complete(&mut self, outcome: Outcome) {
        self.placed = self.placed.saturating_sub(1);
        match outcome {
            Outcome::Limit(limit) => self.limit = limit,
            Outcome::Refused => {}
            Outcome::Lost => self.is_stale = true,
        }
    }

    /// A store begins that the device places. [`PageBuffer::complete_other`] ends that.
    ///
    /// # Errors
    /// It has to wait.
    pub fn begin_other(&mut self) -> Result<(), Wait> {
        if self.placed > 0 {
            return Err(Wait::Completions);
        }
        self.others += 1;
        Ok(())
    }

    /// A store has ended that the device has placed: the completion says the pointer and where the value lies. None: it
    /// failed, and changed nothing.
    pub fn complete_other(&mut self, said: Option<(u32, Large)>) {
        self.others = self.others.saturating_sub(1);
        if let Some((pointer, value)) = said {
            self.said = Some(self.said.filter(|said| is_from(*said, pointer)).unwrap_or(pointer));
            if self.table.len() < LARGE_MAX {
                let at = self.table.partition_point(|large| is_from(value.position, large.position));
                self.table.insert(at, value);
            }
        }
        if self.others == 0
            && let Some(pointer) = self.said.take()
        {
            self.turn_to(pointer);
        }
    }

    /// What became of a store that the device was to place is not known.
    pub fn lose_other(&mut self) {
        self.is_stale = true;
        self.complete_other(None);
    }

    /// The controller was reset, or the drive had no power: whatever was known is old.
    pub fn forget(&mut self) {
        self.is_stale = true;
    }

    /// The device has answered what [`Wait::Pointer`] asks for: its pointer, and how far the host may store.
    pub fn learn(&mut self, pointer: u32, limit: u32) {
        if self.placed > 0 || self.others > 0 {
            return;
        }
        self.limit = limit;
        self.turn_to(pointer);
        if self.is_stale {
            self.is_stale = false;
            self.table.clear();
        }
    }

    fn turn_to(&mut self, pointer: u32) {
        self.table.retain(|large| is_from(large.end(), pointer.wrapping_add(1)));
        self.pointer = pointer;
    }
}

/// The device's end: where in its memory a payload lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the area for payloads of any command, from this byte on.
    Area(u64),
    /// In the page buffer, from this byte on.
    Buffer(u32),
}

/// Where the payload of `bytes` that a command or a commit record names in device memory lies.
///
/// # Errors
/// It names another length, or a place that is in neither part.
pub fn find(log: &DeviceMemoryLog, named: InDeviceMemory, bytes: u64) -> Result<Place, Status> {
    if u64::from(named.bytes) != bytes {
        return Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr());
    }
    let within = |offset: u32, length: u32| {
        let at = named.address.checked_sub(offset.into())?;
        at.checked_add(bytes).filter(|end| *end <= u64::from(length) && at < u64::from(length)).map(|_| at)
    };
    let area = within(log.area_offset, log.area_bytes).map(Place::Area);
    let buffer = within(log.buffer_offset, log.buffer_bytes).map(|at| Place::Buffer(at as u32));
    area.or(buffer).ok_or(Status::SGL_OFFSET_INVALID.with_dnr())
}

/// The payload that a command names in device memory, if it does.
pub fn named_by(sqe: &Sqe) -> Option<InDeviceMemory> {
    InDeviceMemory::named_by(sqe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: u32 = 4096;

    fn log() -> DeviceMemoryLog {
        DeviceMemoryLog {
            bytes: 64 << 10,
            area_offset: 0,
            area_bytes: 4 * PAGE,
            buffer_offset: 4 * PAGE,
            buffer_bytes: 4 * PAGE,
            page_bytes: PAGE,
            align: 1,
            ..DeviceMemoryLog::default()
        }
    }

    const ASK: Wait = Wait::Pointer(PagePointer { gives_up: false });
    const ASK_ALL: Wait = Wait::Pointer(PagePointer { gives_up: true });

    /// A buffer whose device has said that it is empty.
    fn fresh() -> PageBuffer {
        let mut buffer = PageBuffer::new(&log()).unwrap();
        assert_eq!(buffer.place(1), Err(ASK_ALL), "nothing is known yet");
        buffer.learn(0, 2 * PAGE);
        buffer
    }

    /// Without this a value of the next page could reach the device first, which then refuses those of the page before.
    #[test]
    fn the_next_page_waits_for_all_of_this_one() {
        let mut buffer = fresh();
        assert_eq!((buffer.place(4000), buffer.place(96)), (Ok(0), Ok(4000)));
        assert_eq!(buffer.place(100), Err(Wait::Completions), "also if there is nothing left of it");
        buffer.complete(Outcome::Limit(2 * PAGE));
        assert_eq!(buffer.place(100), Err(Wait::Completions));
        buffer.complete(Outcome::Refused);
        assert_eq!(buffer.place(100), Ok(PAGE));
    }

    /// Without this a host would store over a page that is still being programmed.
    #[test]
    fn the_limit_is_kept() {
        let mut buffer = fresh();
        for position in [0, PAGE] {
            assert_eq!(buffer.place(PAGE), Ok(position));
            buffer.complete(Outcome::Limit(2 * PAGE));
        }
        assert_eq!(buffer.place(1), Err(ASK));
        buffer.learn(2 * PAGE, 2 * PAGE);
        assert_eq!(buffer.place(1), Err(ASK), "still none");
        buffer.learn(2 * PAGE, 3 * PAGE);
        assert_eq!(buffer.place(1), Ok(2 * PAGE));
        assert_eq!(buffer.place(PAGE), Err(Wait::Completions));
    }

    /// Without this the device would put a value where the host has just stored one.
    #[test]
    fn the_two_kinds_of_stores_exclude_each_other() {
        let mut buffer = fresh();
        assert_eq!(buffer.place(100), Ok(0));
        assert_eq!(buffer.begin_other(), Err(Wait::Completions));
        buffer.complete(Outcome::Limit(2 * PAGE));
        assert_eq!((buffer.begin_other(), buffer.begin_other()), (Ok(()), Ok(())));
        assert_eq!(buffer.place(100), Err(Wait::Completions));
        // Completions come in another order than the device's work: the farthest pointer counts.
        buffer.complete_other(Some((340, Large { position: 300, bytes: 40 })));
        assert_eq!(buffer.place(100), Err(Wait::Completions));
        buffer.complete_other(Some((300, Large { position: 100, bytes: 200 })));
        assert_eq!(buffer.place(100), Ok(340));
    }

    /// Without this the host would store over a large value that the DMA engine has put behind the pointer (BandSlim, DMA
    /// log table), or forget the gap before it.
    #[test]
    fn large_values_are_passed() {
        let mut buffer = fresh();
        for (position, bytes) in [(2048, 1000), (1024, 500)] {
            buffer.begin_other().unwrap();
            buffer.complete_other(Some((10, Large { position, bytes })));
        }
        assert_eq!(buffer.place(1014), Ok(10));
        assert_eq!(buffer.place(1), Ok(1524));
        assert_eq!(buffer.place(524), Ok(3048));
        assert_eq!(buffer.place(525), Err(Wait::Completions), "the next page");
        (0..3).for_each(|_| buffer.complete(Outcome::Refused));
        assert_eq!(buffer.place(525), Ok(PAGE), "where nothing lies");
        assert_eq!(buffer.place(2000), Ok(PAGE + 525));
    }

    /// Without this a host that has lost its place would store over values that it does not know of, or never again.
    #[test]
    fn after_a_loss_the_pointer_is_asked_for() {
        let mut buffer = fresh();
        assert_eq!((buffer.place(100), buffer.place(100)), (Ok(0), Ok(100)));
        buffer.complete(Outcome::Lost);
        assert_eq!(buffer.place(1), Err(Wait::Completions));
        buffer.complete(Outcome::Limit(2 * PAGE));
        assert_eq!(buffer.place(1), Err(ASK_ALL));
        buffer.learn(100, 2 * PAGE);
        assert_eq!(buffer.place(1), Ok(100));
        buffer.complete(Outcome::Limit(3 * PAGE));
        buffer.begin_other().unwrap();
        buffer.complete_other(Some((101, Large { position: 2000, bytes: 10 })));
        buffer.forget();
        assert_eq!(buffer.place(1), Err(ASK_ALL));
        buffer.learn(3000, 3 * PAGE);
        assert_eq!(buffer.place(1), Ok(3000));
        buffer.complete(Outcome::Limit(4 * PAGE));
        buffer.begin_other().unwrap();
        buffer.lose_other();
        assert_eq!(buffer.place(1), Err(ASK_ALL));
    }

    /// Without this commands that fail for their keys' sake would use up places that nobody can fill any more.
    #[test]
    fn places_of_refused_values_come_back() {
        let mut buffer = fresh();
        for _ in 0..2 {
            assert!(buffer.place(PAGE).is_ok());
            buffer.complete(Outcome::Refused);
        }
        assert_eq!(buffer.place(1), Err(ASK));
        buffer.learn(0, 2 * PAGE);
        assert_eq!(buffer.place(1), Ok(0));
    }

    /// Without this a command would be given bytes of another part, or of none.
    #[test]
    fn places_are_found_by_address() {
        let at = |address, bytes| InDeviceMemory { address, bytes, checksum: None };
        let (page, log) = (u64::from(PAGE), log());
        assert_eq!(find(&log, at(5, 10), 10), Ok(Place::Area(5)));
        assert_eq!(find(&log, at(5 * page, 4096), 4096), Ok(Place::Buffer(PAGE)));
        let invalid = Err(Status::SGL_OFFSET_INVALID.with_dnr());
        for address in [4 * page - 5, 8 * page - 9, 8 * page, u64::MAX] {
            assert_eq!(find(&log, at(address, 10), 10), invalid, "{address}");
        }
        assert_eq!(find(&DeviceMemoryLog::default(), at(0, 0), 0), invalid);
        assert_eq!(find(&log, at(5, 10), 11), Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr()));
    }

    /// A device that takes everything in any order, and looks whether values overlap.
    struct Device {
        placing: Placing,
        pointer: u32,
        /// The page that values go to.
        open: u32,
        table: Vec<Large>,
        values: Vec<Large>,
    }

    impl Device {
        fn keep(&mut self, position: u32, bytes: u32) {
            for value in &self.values {
                let apart = is_from(value.position, position + bytes) || is_from(position, value.end());
                assert!(apart || bytes == 0, "{bytes} at {position} over {value:?}");
            }
            self.values.push(Large { position, bytes });
        }

        /// Before it a value as long as a page has a place.
        fn limit(&self) -> u32 {
            let page_bytes = self.placing.page_bytes;
            let (at, _) = self.placing.place(self.pointer, self.table.iter().copied(), page_bytes).unwrap();
            at + page_bytes
        }

        /// A value that was placed by the host.
        fn take(&mut self, position: u32, bytes: u32) -> Outcome {
            // A page is closed by the first value that goes to a later one, not by its last byte, nor by large values.
            if self.placing.page(position) < self.open {
                return Outcome::Lost;
            }
            self.open = self.placing.page(position);
            self.keep(position, bytes);
            self.pointer = self.pointer.max(position + bytes);
            self.table.retain(|large| large.end() > self.pointer);
            Outcome::Limit(self.limit())
        }

        /// A value that the device places: a large one behind all others, on a multiple of 512.
        fn place(&mut self, bytes: u32, is_large: bool) -> (u32, Large) {
            let position = if is_large {
                let behind = self.table.last().map_or(self.pointer, |large| large.end());
                let at = behind.next_multiple_of(512);
                let page_end = self.placing.next_page(at);
                let at = if at + bytes > page_end { page_end } else { at };
                self.table.push(Large { position: at, bytes });
                at
            } else {
                let (at, passed) =
                    self.placing.place(self.pointer, self.table.iter().copied(), bytes).unwrap();
                self.table.drain(..passed);
                self.open = self.placing.page(at);
                self.pointer = at + bytes;
                at
            };
            self.keep(position, bytes);
            (self.pointer, Large { position, bytes })
        }
    }

    proptest! {
        /// Without this, in some mixture and order of stores, the two sides would put values over one another, or no store
        /// would ever go on.
        #[test]
        fn no_two_values_overlap(
            steps in prop::collection::vec((0u8..8, 0u32..700, any::<prop::sample::Index>()), 1..300)
        ) {
            let mut buffer = fresh();
            let mut device =
                Device { placing: *buffer.placing(), pointer: 0, open: 0, table: Vec::new(), values: Vec::new() };
            let mut placed: Vec<(u32, u32)> = Vec::new();
            let mut others: Vec<(u32, bool)> = Vec::new();
            for (what, bytes, pick) in steps {
                // One that is under way completes, or a new one begins, which first lets others complete if it has to.
                let finish = |buffer: &mut PageBuffer, device: &mut Device, placed: &mut Vec<(u32, u32)>, others: &mut Vec<(u32, bool)>| {
                    if !placed.is_empty() {
                        let (position, bytes) = placed.swap_remove(pick.index(placed.len()));
                        let outcome = device.take(position, bytes);
                        prop_assert!(outcome != Outcome::Lost);
                        buffer.complete(outcome);
                    } else if !others.is_empty() {
                        let (bytes, is_large) = others.swap_remove(pick.index(others.len()));
                        let said = device.place(bytes, is_large);
                        buffer.complete_other(Some(said));
                    }
                    Ok(())
                };
                match what {
                    0..4 => loop {
                        match buffer.place(bytes) {
                            Ok(position) => { placed.push((position, bytes)); break }
                            Err(Wait::Completions) => {
                                prop_assert!(!placed.is_empty() || !others.is_empty());
                                finish(&mut buffer, &mut device, &mut placed, &mut others)?;
                            }
                            Err(Wait::Pointer(_)) => buffer.learn(device.pointer, device.limit()),
                        }
                    },
                    4 | 5 => {
                        while buffer.begin_other().is_err() {
                            finish(&mut buffer, &mut device, &mut placed, &mut others)?;
                        }
                        others.push((bytes, what == 5));
                    }
                    _ => finish(&mut buffer, &mut device, &mut placed, &mut others)?,
                }
            }
        }
    }
}
