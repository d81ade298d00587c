//! Transfer by CXL.mem: the host stores payload to device memory, and the command names its location
//! (BandSlim, fine-grained transfer by CXL; formats in [`byteway_wire::nvme::vendor::cxl`]).
//!
//! Payloads of any command take areas of the memory ([`crate::area::Areas`]), as with a buffer in the BAR.
//! Values of a KV namespace go directly to their final place, the page that is being filled. [`PageBuffer`]
//! is the host's model of that page. There is one for each drive, and every store to that namespace goes
//! through it:
//!
//! - A value takes the next position by the same rules as the device ([`Placing`]), is stored there, and its
//!   key-only command follows. Any number may be in flight, in any queues, and reach the device in any order.
//! - Values transferred by other methods are placed by the device. Such stores and those by CXL.mem therefore
//!   exclude one another; when the last of the former has completed, their completions determine the pointer
//!   and the large values.
//! - A value that needs the next page waits until all of the previous page have completed, because the device
//!   refuses a value of a page after one of the next page. It also waits until the device has reported the
//!   page as free.
//! - After a refusal or a lost command the host's model is invalid: once nothing is in flight, the host asks
//!   the device for the pointer, which the device moves behind all large values.

use byteway_wire::nvme::vendor::cxl::{
    DeviceMemoryLog, InDeviceMemory, Large, PagePointer, Placing, is_from,
};
use byteway_wire::nvme::{Sqe, Status};
use std::collections::VecDeque;

/// Maximum large values remembered: more than the multiples of 4 KiB in the pages.
const LARGE_MAX: usize = 1024;

/// Reason why a store must wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreWait {
    /// Wait for the completion of another value in flight.
    Completions,
    /// Request the device's pointer ([`PageBuffer::learn`]), while no store is in flight.
    Pointer(PagePointer),
}

/// Outcome of the command of a value that was placed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Success, with the reported limit for further stores.
    Limit(u32),
    /// Failure without effect, for a reason unrelated to the position.
    Refused,
    /// The device had no space at the value's position, or the outcome is unknown.
    Lost,
}

/// The host's end: the page buffer, as known to its only owner in the host.
#[derive(Clone, Debug)]
pub struct PageBuffer {
    placing: Placing,
    /// Lowest possible position of the next value.
    pointer: u32,
    /// The device has reported the buffer as free up to here.
    limit: u32,
    /// Large values behind the pointer, in order.
    table: VecDeque<Large>,
    /// Values placed here whose commands are in flight, all in one page.
    placed: u32,
    page: u32,
    /// Stores in flight that the device places.
    others: u32,
    /// The largest pointer reported by a completion of those.
    said: Option<u32>,
    is_stale: bool,
}

impl PageBuffer {
    /// The page buffer of a device with this log page; `None` if it has none. The pointer must be requested
    /// first.
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

    /// The placement rules.
    pub fn placing(&self) -> &Placing {
        &self.placing
    }

    /// Lowest possible position of the next value.
    pub fn pointer(&self) -> u32 {
        self.pointer
    }

    /// Allocates a position for a value of `bytes`, at most a page. End it with [`PageBuffer::complete`].
    ///
    /// # Errors
    /// [`StoreWait`] if the store must wait.
    pub fn place(&mut self, bytes: u32) -> Result<u32, StoreWait> {
        let wait = match self.placed == 0 && self.others == 0 {
            true => StoreWait::Pointer(PagePointer { gives_up: self.is_stale }),
            false => StoreWait::Completions,
        };
        if self.others > 0 || self.is_stale {
            return Err(wait);
        }
        let place = self.placing.place(self.pointer, self.table.iter().copied(), bytes);
        let (position, passed) = place.ok_or(StoreWait::Completions)?;
        // A page filled exactly to its end is not the page of the pointer.
        if self.placed > 0 && self.placing.page(position) != self.page {
            return Err(StoreWait::Completions);
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

    /// The limit for stores. If the last reported limit lies before the pointer, it is the end of the
    /// pointer's page: either that page is free to its end, or the value is refused.
    fn granted(&self) -> u32 {
        match self.placing.page(self.pointer) {
            _ if is_from(self.limit, self.pointer) => self.limit,
            page if page == self.pointer => page,
            page => page.wrapping_add(self.placing.page_bytes),
        }
    }

    /// Completes the command of a value that was placed here.
    pub fn complete(&mut self, outcome: Outcome) {
        self.placed = self.placed.saturating_sub(1);
        match outcome {
            Outcome::Limit(limit) => self.limit = limit,
            Outcome::Refused => {}
            Outcome::Lost => self.is_stale = true,
        }
    }

    /// Begins a store that the device places. End it with [`PageBuffer::complete_other`].
    ///
    /// # Errors
    /// [`StoreWait`] if the store must wait.
    pub fn begin_other(&mut self) -> Result<(), StoreWait> {
        if self.placed > 0 {
            return Err(StoreWait::Completions);
        }
        self.others += 1;
        Ok(())
    }

    /// Completes a store that the device has placed; the completion reports the pointer and the location of
    /// the value. None if it failed without effect.
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

    /// Ends a store that the device should place, with unknown outcome.
    pub fn lose_other(&mut self) {
        self.is_stale = true;
        self.complete_other(None);
    }

    /// Invalidates the model after a controller reset or a power cycle.
    pub fn forget(&mut self) {
        self.is_stale = true;
    }

    /// Takes the device's answer to [`StoreWait::Pointer`]: its pointer, and the limit for stores.
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

/// The device's end: location of a payload in its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadLocation {
    /// In the area for payloads of any command, at this byte.
    Area(u64),
    /// In the page buffer, at this byte.
    Buffer(u32),
}

/// Location of the payload of `bytes` that a command or a commit record names in device memory.
///
/// # Errors
/// The NVMe status if the length differs, or the location is in neither part.
pub fn find(log: &DeviceMemoryLog, named: InDeviceMemory, bytes: u64) -> Result<PayloadLocation, Status> {
    if u64::from(named.bytes) != bytes {
        return Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr());
    }
    let within = |offset: u32, length: u32| {
        let at = named.address.checked_sub(offset.into())?;
        at.checked_add(bytes).filter(|end| *end <= u64::from(length) && at < u64::from(length)).map(|_| at)
    };
    let area = within(log.area_offset, log.area_bytes).map(PayloadLocation::Area);
    let buffer = within(log.buffer_offset, log.buffer_bytes).map(|at| PayloadLocation::Buffer(at as u32));
    area.or(buffer).ok_or(Status::SGL_OFFSET_INVALID.with_dnr())
}

/// The payload location that a command names in device memory, if it does.
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

    const ASK: StoreWait = StoreWait::Pointer(PagePointer { gives_up: false });
    const ASK_ALL: StoreWait = StoreWait::Pointer(PagePointer { gives_up: true });

    /// A buffer whose device has reported that it is empty.
    fn fresh() -> PageBuffer {
        let mut buffer = PageBuffer::new(&log()).unwrap();
        assert_eq!(buffer.place(1), Err(ASK_ALL), "nothing is known yet");
        buffer.learn(0, 2 * PAGE);
        buffer
    }

    /// Without this a value of the next page could reach the device first, which then refuses those of the
    /// page before.
    #[test]
    fn the_next_page_waits_for_all_of_this_one() {
        let mut buffer = fresh();
        assert_eq!((buffer.place(4000), buffer.place(96)), (Ok(0), Ok(4000)));
        assert_eq!(buffer.place(100), Err(StoreWait::Completions), "also if there is nothing left of it");
        buffer.complete(Outcome::Limit(2 * PAGE));
        assert_eq!(buffer.place(100), Err(StoreWait::Completions));
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
        assert_eq!(buffer.place(PAGE), Err(StoreWait::Completions));
    }

    /// Without this the device would put a value where the host has just stored one.
    #[test]
    fn the_two_kinds_of_stores_exclude_each_other() {
        let mut buffer = fresh();
        assert_eq!(buffer.place(100), Ok(0));
        assert_eq!(buffer.begin_other(), Err(StoreWait::Completions));
        buffer.complete(Outcome::Limit(2 * PAGE));
        assert_eq!((buffer.begin_other(), buffer.begin_other()), (Ok(()), Ok(())));
        assert_eq!(buffer.place(100), Err(StoreWait::Completions));
        // Completions come in a different order from the device's work, so the largest pointer counts.
        buffer.complete_other(Some((340, Large { position: 300, bytes: 40 })));
        assert_eq!(buffer.place(100), Err(StoreWait::Completions));
        buffer.complete_other(Some((300, Large { position: 100, bytes: 200 })));
        assert_eq!(buffer.place(100), Ok(340));
    }

    /// Without this the host would overwrite a large value that the DMA engine has put behind the pointer
    /// (BandSlim, DMA log table), or lose the gap before it.
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
        assert_eq!(buffer.place(525), Err(StoreWait::Completions), "the next page");
        (0..3).for_each(|_| buffer.complete(Outcome::Refused));
        assert_eq!(buffer.place(525), Ok(PAGE), "where nothing lies");
        assert_eq!(buffer.place(2000), Ok(PAGE + 525));
    }

    /// Without this a host that has lost its position would overwrite unknown values, or never store again.
    #[test]
    fn after_a_loss_the_pointer_is_asked_for() {
        let mut buffer = fresh();
        assert_eq!((buffer.place(100), buffer.place(100)), (Ok(0), Ok(100)));
        buffer.complete(Outcome::Lost);
        assert_eq!(buffer.place(1), Err(StoreWait::Completions));
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

    /// Without this commands that fail because of their keys would use up positions for good.
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

    /// Without this a command would get bytes of another part, or none.
    #[test]
    fn places_are_found_by_address() {
        let at = |address, bytes| InDeviceMemory { address, bytes, checksum: None };
        let (page, log) = (u64::from(PAGE), log());
        assert_eq!(find(&log, at(5, 10), 10), Ok(PayloadLocation::Area(5)));
        assert_eq!(find(&log, at(5 * page, 4096), 4096), Ok(PayloadLocation::Buffer(PAGE)));
        let invalid = Err(Status::SGL_OFFSET_INVALID.with_dnr());
        for address in [4 * page - 5, 8 * page - 9, 8 * page, u64::MAX] {
            assert_eq!(find(&log, at(address, 10), 10), invalid, "{address}");
        }
        assert_eq!(find(&DeviceMemoryLog::default(), at(0, 0), 0), invalid);
        assert_eq!(find(&log, at(5, 10), 11), Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr()));
    }

    /// A device that accepts everything in any order, and checks that values do not overlap.
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

        /// Limit before which a value of a whole page still fits.
        fn limit(&self) -> u32 {
            let page_bytes = self.placing.page_bytes;
            let (at, _) = self.placing.place(self.pointer, self.table.iter().copied(), page_bytes).unwrap();
            at + page_bytes
        }

        /// A value placed by the host.
        fn take(&mut self, position: u32, bytes: u32) -> Outcome {
            // A page is closed by the first value that goes to a later one, not by its last byte, nor by
            // large values.
            if self.placing.page(position) < self.open {
                return Outcome::Lost;
            }
            self.open = self.placing.page(position);
            self.keep(position, bytes);
            self.pointer = self.pointer.max(position + bytes);
            self.table.retain(|large| large.end() > self.pointer);
            Outcome::Limit(self.limit())
        }

        /// A value placed by the device: a large one behind all others, on a multiple of 512.
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
        /// Without this, in some mixture and order of stores, the two sides would overwrite each other's
        /// values, or deadlock.
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
                // Complete one in flight, or begin a new one, after completing others if it has to wait.
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
                            Err(StoreWait::Completions) => {
                                prop_assert!(!placed.is_empty() || !others.is_empty());
                                finish(&mut buffer, &mut device, &mut placed, &mut others)?;
                            }
                            Err(StoreWait::Pointer(_)) => buffer.learn(device.pointer, device.limit()),
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
