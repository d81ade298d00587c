//! Region table of another process's memory: each region is in a mapped file, or is reached by messages.
//!
//! An extent may span adjacent regions. It is checked as a whole before any of it is touched.

use super::backing::{Access, Backing, Epoch, Fault, MapError, PAGE_BYTES, Remote};
use super::mapped::{Lost, Mapped};
use crate::ledger::Direction;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Maximum number of mapped regions.
const REGIONS_MAX: usize = 1024;

/// Backing of a region.
enum Store {
    Mapped(Mapped),
    Remote(Rc<dyn Remote>),
    /// Reserved addresses without access.
    Nothing,
}

struct Region {
    base: u64,
    /// First address after the region.
    end: u64,
    store: Store,
    access: Access,
    /// Epoch in which it was mapped.
    epoch: Epoch,
}

impl Region {
    fn contains(&self, address: u64) -> bool {
        (self.base..self.end).contains(&address)
    }

    /// Whether an access that was checked at `epoch` is allowed in `direction`.
    fn allows(&self, direction: Direction, epoch: Epoch) -> bool {
        let is_allowed = match direction {
            Direction::Down => self.access != Access::None,
            Direction::Up => self.access == Access::ReadWrite,
        };
        let is_there = match &self.store {
            Store::Mapped(mapped) => !mapped.is_lost(),
            Store::Remote(_) => true,
            Store::Nothing => false,
        };
        is_allowed && is_there && self.epoch <= epoch
    }
}

/// Part of an extent that lies in one region.
enum RegionPart<'a> {
    Mapped { mapped: &'a Mapped, offset: usize },
    Remote { remote: &'a dyn Remote, address: u64 },
}

/// Bump allocator of the side that owns the memory.
struct Allocator {
    base: u64,
    bytes: u64,
    pages: Cell<u64>,
}

/// The region table.
#[derive(Default)]
pub(super) struct Regions {
    /// Sorted by address.
    table: RefCell<Vec<Region>>,
    /// Index of the region that the last look-up found.
    last: Cell<usize>,
    unmaps: Cell<u64>,
    allocator: Option<Allocator>,
    scratch: RefCell<Vec<u8>>,
}

impl Regions {
    /// A table of one region, in which memory can be allocated.
    pub(super) fn of(mapped: Mapped) -> Self {
        let (base, bytes) = (mapped.base(), mapped.bytes());
        let region = Region {
            base,
            end: base + bytes,
            store: Store::Mapped(mapped),
            access: Access::ReadWrite,
            epoch: Epoch::default(),
        };
        let allocator = Some(Allocator { base, bytes, pages: Cell::default() });
        Regions { table: RefCell::new(vec![region]), allocator, ..Regions::default() }
    }

    pub(super) fn epoch(&self) -> Epoch {
        Epoch(self.unmaps.get())
    }

    pub(super) fn map(
        &self,
        base: u64,
        bytes: u64,
        backing: Backing<'_>,
        access: Access,
    ) -> Result<(), MapError> {
        let whole = base.is_multiple_of(PAGE_BYTES) && bytes.is_multiple_of(PAGE_BYTES) && bytes > 0;
        let end = base.checked_add(bytes).filter(|_| whole).ok_or(MapError::Extent)?;
        let mut table = self.table.borrow_mut();
        let index = table.partition_point(|region| region.end <= base);
        if table.get(index).is_some_and(|region| region.base < end) {
            return Err(MapError::Overlap);
        }
        if table.len() >= REGIONS_MAX {
            return Err(MapError::TooMany);
        }
        let store = match backing {
            Backing::File { file, offset } if access != Access::None => {
                Store::Mapped(Mapped::part(file, offset, base, bytes, access == Access::ReadWrite)?)
            }
            Backing::Remote(remote) if access != Access::None => Store::Remote(remote),
            Backing::File { .. } | Backing::Remote(_) => Store::Nothing,
        };
        table.insert(index, Region { base, end, store, access, epoch: self.epoch() });
        Ok(())
    }

    pub(super) fn unmap(&self, base: u64, bytes: u64) -> Result<(), MapError> {
        let whole = base.is_multiple_of(PAGE_BYTES) && bytes.is_multiple_of(PAGE_BYTES) && bytes > 0;
        // Inclusive, so that the extent may reach the last address.
        let last = base.checked_add(bytes.wrapping_sub(1)).filter(|_| whole).ok_or(MapError::Extent)?;
        let mut table = self.table.borrow_mut();
        let from = table.partition_point(|region| region.end <= base);
        let to = table.partition_point(|region| region.base <= last);
        let inside = table.get(from..to).unwrap_or_default();
        if inside.is_empty() || inside.iter().any(|region| region.base < base || region.end - 1 > last) {
            return Err(MapError::Unknown);
        }
        let removed: Vec<_> = table.drain(from..to).collect();
        self.unmaps.set(self.unmaps.get() + 1);
        drop(table);
        drop(removed); // outside the borrow: the drop of a remote may look at this table
        Ok(())
    }

    pub(super) fn unmap_all(&self) {
        let removed = self.table.take();
        if !removed.is_empty() {
            self.unmaps.set(self.unmaps.get() + 1);
        }
    }

    /// The region that holds `address`, if the access is allowed.
    #[inline]
    fn region<'a>(
        &self,
        table: &'a [Region],
        address: u64,
        direction: Direction,
        epoch: Epoch,
    ) -> Option<&'a Region> {
        let region = match table.get(self.last.get()) {
            Some(region) if region.contains(address) => region,
            _ => {
                let index = table.partition_point(|region| region.end <= address);
                let region = table.get(index).filter(|region| region.contains(address))?;
                self.last.set(index);
                region
            }
        };
        region.allows(direction, epoch).then_some(region)
    }

    /// Checks that the whole extent may be accessed. An empty extent is valid everywhere, since it touches
    /// nothing.
    pub(super) fn check(
        &self,
        address: u64,
        bytes: u64,
        direction: Direction,
        epoch: Epoch,
    ) -> Result<(), Fault> {
        self.check_in(&self.table.borrow(), address, bytes, direction, epoch)
    }

    fn check_in(
        &self,
        table: &[Region],
        address: u64,
        bytes: u64,
        direction: Direction,
        epoch: Epoch,
    ) -> Result<(), Fault> {
        let fault = Fault { address, bytes };
        let end = address.checked_add(bytes).ok_or(fault)?;
        let mut at = address;
        while at < end {
            at = self.region(table, at, direction, epoch).ok_or(fault)?.end;
        }
        Ok(())
    }

    /// Calls `touch` for each part of an extent, with its start and end in the extent. `touch` returns
    /// whether it succeeded.
    #[inline]
    fn each(
        &self,
        address: u64,
        bytes: usize,
        direction: Direction,
        epoch: Epoch,
        mut touch: impl FnMut(RegionPart<'_>, std::ops::Range<usize>) -> bool,
    ) -> Result<(), Fault> {
        let fault = Fault { address, bytes: bytes as u64 };
        let mut done = 0;
        while done < bytes {
            let table = self.table.borrow();
            let at = address.checked_add(done as u64).ok_or(fault)?;
            let region = self.region(&table, at, direction, epoch).ok_or(fault)?;
            let left = bytes - done;
            let space = region.end - at;
            let count = usize::try_from(space).map_or(left, |space| space.min(left));
            if done == 0 && count < bytes {
                self.check_in(&table, address, bytes as u64, direction, epoch)?;
            }
            let range = done..done + count;
            let is_done = match &region.store {
                Store::Mapped(mapped) => {
                    let offset = (at - region.base) as usize;
                    touch(RegionPart::Mapped { mapped, offset }, range)
                }
                Store::Remote(remote) => {
                    // No borrow across the call: while the answer is awaited, messages of the other side may
                    // map and unmap.
                    let remote = remote.clone();
                    drop(table);
                    touch(RegionPart::Remote { remote: &*remote, address: at }, range)
                }
                Store::Nothing => false,
            };
            if !is_done {
                return Err(fault);
            }
            done += count;
        }
        Ok(())
    }

    /// Fast path for an extent within one region of a file, as nearly all are. None if it is not; the caller
    /// then goes part by part.
    #[inline]
    fn within<R>(
        &self,
        address: u64,
        bytes: usize,
        direction: Direction,
        epoch: Epoch,
        touch: impl FnOnce(&Mapped, usize) -> Result<R, Lost>,
    ) -> Option<Result<R, Fault>> {
        let table = self.table.borrow();
        let region = self.region(&table, address, direction, epoch)?;
        let Store::Mapped(mapped) = &region.store else { return None };
        if region.end - address < bytes as u64 {
            return None;
        }
        let touched = touch(mapped, (address - region.base) as usize);
        Some(touched.map_err(|_: Lost| Fault { address, bytes: bytes as u64 }))
    }

    pub(super) fn read(&self, address: u64, into: &mut [u8], epoch: Epoch) -> Result<(), Fault> {
        let bytes = into.len();
        if let Some(done) =
            self.within(address, bytes, Direction::Down, epoch, |mapped, offset| mapped.read(offset, into))
        {
            return done;
        }
        self.each(address, into.len(), Direction::Down, epoch, |place, range| match place {
            RegionPart::Mapped { mapped, offset } => mapped.read(offset, &mut into[range]).is_ok(),
            RegionPart::Remote { remote, address } => remote.read(address, &mut into[range]).is_ok(),
        })
    }

    pub(super) fn write(&self, address: u64, from: &[u8], epoch: Epoch) -> Result<(), Fault> {
        if let Some(done) = self
            .within(address, from.len(), Direction::Up, epoch, |mapped, offset| mapped.write(offset, from))
        {
            return done;
        }
        self.each(address, from.len(), Direction::Up, epoch, |place, range| match place {
            RegionPart::Mapped { mapped, offset } => mapped.write(offset, &from[range]).is_ok(),
            RegionPart::Remote { remote, address } => remote.write(address, &from[range]).is_ok(),
        })
    }

    /// Calls `look` with a copy of an extent.
    pub(super) fn with_copy<R>(
        &self,
        address: u64,
        bytes: usize,
        epoch: Epoch,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Fault> {
        self.check(address, bytes as u64, Direction::Down, epoch)?; // before allocating by an untrusted size
        self.with_scratch(bytes, |copy| self.read(address, copy, epoch).map(|()| look(copy)))
    }

    /// Lets `fill` write a buffer, which is then copied over the extent.
    pub(super) fn fill_copy<R>(
        &self,
        address: u64,
        bytes: usize,
        epoch: Epoch,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, Fault> {
        self.check(address, bytes as u64, Direction::Up, epoch)?;
        self.with_scratch(bytes, |copy| {
            let result = fill(copy);
            self.write(address, copy, epoch).map(|()| result)
        })
    }

    /// Scratch buffer of `bytes`. Moved out during the call, so that `run` may access this memory again.
    fn with_scratch<R>(&self, bytes: usize, run: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut scratch = self.scratch.take();
        if scratch.len() < bytes {
            scratch.resize(bytes, 0);
        }
        let result = run(&mut scratch[..bytes]);
        self.scratch.replace(scratch);
        result
    }

    pub(super) fn load32(&self, address: u64) -> Result<u32, Fault> {
        self.aligned(address, 4)?;
        let load = |mapped: &Mapped, offset| mapped.load32(offset);
        if let Some(loaded) = self.within(address, 4, Direction::Down, Epoch::LAST, load) {
            return loaded;
        }
        let mut value = 0;
        self.each(address, 4, Direction::Down, Epoch::LAST, |place, _| {
            let loaded = match place {
                RegionPart::Mapped { mapped, offset } => mapped.load32(offset).ok(),
                RegionPart::Remote { remote, address } => {
                    let mut bytes = [0; 4];
                    remote.read(address, &mut bytes).ok().map(|()| u32::from_le_bytes(bytes))
                }
            };
            loaded.inspect(|word| value = *word).is_some()
        })?;
        Ok(value)
    }

    pub(super) fn store32(&self, address: u64, value: u32) -> Result<(), Fault> {
        self.aligned(address, 4)?;
        let store = |mapped: &Mapped, offset| mapped.store32(offset, value);
        if let Some(stored) = self.within(address, 4, Direction::Up, Epoch::LAST, store) {
            return stored;
        }
        self.each(address, 4, Direction::Up, Epoch::LAST, |place, _| match place {
            RegionPart::Mapped { mapped, offset } => mapped.store32(offset, value).is_ok(),
            RegionPart::Remote { remote, address } => remote.write(address, &value.to_le_bytes()).is_ok(),
        })
    }

    /// Reads a queue entry, its last word first. By messages it is one read, whose answer is consistent.
    pub(super) fn load_entry(&self, address: u64) -> Result<[u8; 16], Fault> {
        self.aligned(address, 16)?;
        let mut entry = [0; 16];
        self.each(address, 16, Direction::Down, Epoch::LAST, |place, _| match place {
            RegionPart::Mapped { mapped, offset } => mapped.load_entry(offset).is_ok_and(|loaded| {
                entry = loaded;
                true
            }),
            RegionPart::Remote { remote, address } => remote.read(address, &mut entry).is_ok(),
        })?;
        Ok(entry)
    }

    /// Writes a completion queue entry, its last word last. By messages it is one write, since messages are
    /// whole and ordered.
    pub(super) fn post(&self, address: u64, entry: &[u8; 16]) -> Result<(), Fault> {
        self.aligned(address, 16)?;
        let post = |mapped: &Mapped, offset| mapped.post(offset, entry);
        if let Some(posted) = self.within(address, 16, Direction::Up, Epoch::LAST, post) {
            return posted;
        }
        self.each(address, 16, Direction::Up, Epoch::LAST, |place, _| match place {
            RegionPart::Mapped { mapped, offset } => mapped.post(offset, entry).is_ok(),
            RegionPart::Remote { remote, address } => remote.write(address, entry).is_ok(),
        })
    }

    /// Checks an access that is aligned to its own length. It lies within a page, hence in one region.
    fn aligned(&self, address: u64, bytes: u64) -> Result<(), Fault> {
        if address.is_multiple_of(bytes) { Ok(()) } else { Err(Fault { address, bytes }) }
    }

    pub(super) fn allocate(&self, pages: usize) -> Option<u64> {
        let allocator = self.allocator.as_ref()?;
        let first = allocator.pages.get();
        let end = first.checked_add(pages as u64)?;
        if end.checked_mul(PAGE_BYTES)? > allocator.bytes {
            return None;
        }
        allocator.pages.set(end);
        let address = allocator.base + first * PAGE_BYTES;
        let zeroes = [0u8; PAGE_BYTES as usize];
        for page in 0..pages as u64 {
            self.write(address + page * PAGE_BYTES, &zeroes, Epoch::LAST).ok()?;
        }
        Some(address)
    }

    pub(super) fn free(&self, address: u64, pages: usize) {
        // Only the last extent can be reused: users allocate once, at the start.
        let Some(allocator) = &self.allocator else { return };
        let end = allocator.base + allocator.pages.get() * PAGE_BYTES;
        if address + pages as u64 * PAGE_BYTES == end {
            allocator.pages.set(allocator.pages.get() - pages as u64);
        }
    }
}
