//! The host's memory, as the host's software and the device's DMA see it.
//!
//! | file | what |
//! |---|---|
//! | `simulated` | pages that a simulated host was given |
//! | `regions` | the other process's memory: a table of regions that come and go |
//! | `backing` | where the bytes of a region are, what may be done with them, what can go wrong |
//! | `mapped` | a region that lies in a file which both processes map |
//! | `guard` | what happens when the other process cuts such a file short |
//!
//! Whatever is outside is a [`Fault`], never touched. What the device reads is copied once and parsed from the copy,
//! because the other side of shared memory can change it at any time.
//!
//! # When regions go
//! A host may unmap a region while commands that name it are executed, and map another one at the same addresses.
//! What the device still has to write must not land there. So each unmapping begins an [`Epoch`], each region carries
//! the one in which it was mapped, and payload is accessed as of the epoch in which its data pointer was resolved: a
//! region that was mapped later is as good as none.
//!
//! Queues have no epoch: entries are read and completions posted wherever memory is at that moment. A queue is not a
//! transfer, and a host may put other pages under one, as it may behind an IOMMU.

mod backing;
mod guard;
mod mapped;
mod regions;
mod simulated;

pub use backing::{Access, Backing, Epoch, Fault, MapError, PAGE_BYTES, Remote};
pub use mapped::Mapped;
pub use simulated::Simulated;

use crate::ledger::Direction;
use byteway_wire::content::{Content, Pattern, UNIT_BYTES};
use regions::Regions;
use std::cell::Cell;
use std::rc::Rc;

static ZEROES: [u8; UNIT_BYTES] = [0; UNIT_BYTES];

enum Kind {
    Simulated(Simulated),
    Regions(Regions),
}

struct Inner {
    kind: Kind,
}

/// What one device has moved.
#[derive(Default)]
struct Moved {
    read_bytes: Cell<u64>,
    written_bytes: Cell<u64>,
}

/// Host memory. Cheap to clone.
#[derive(Clone)]
pub struct Memory(Rc<Inner>, Rc<Moved>);

impl Memory {
    /// Simulated memory, of which nothing is given yet.
    pub fn simulated() -> Self {
        Self::new(Kind::Simulated(Simulated::default()))
    }

    /// Memory shared with another process: one region, of which this side can allocate.
    pub fn mapped(mapped: Mapped) -> Self {
        Self::new(Kind::Regions(Regions::of(mapped)))
    }

    /// Memory of another process, of which nothing is mapped yet.
    pub fn guest() -> Self {
        Self::new(Kind::Regions(Regions::default()))
    }

    fn new(kind: Kind) -> Self {
        Memory(Rc::new(Inner { kind }), Rc::default())
    }

    /// The same memory as a device at another link reaches it, which counts what that one moves.
    pub fn at_another_link(&self) -> Memory {
        Memory(self.0.clone(), Rc::default())
    }

    /// Maps a region of the other process at `base` of the device's address space: whole pages, that overlap no other
    /// region, at most 1024 regions in all.
    ///
    /// # Errors
    /// What [`MapError`] names; nothing has changed then. Simulated memory has no regions: [`MapError::System`].
    pub fn map(&self, base: u64, bytes: u64, backing: Backing<'_>, access: Access) -> Result<(), MapError> {
        match &self.0.kind {
            Kind::Simulated(_) => Err(MapError::System(std::io::ErrorKind::Unsupported.into())),
            Kind::Regions(regions) => regions.map(base, bytes, backing, access),
        }
    }

    /// Unmaps all regions that lie within `bytes` from `base` on, at least one; transfers that are under way there fail
    /// from now on.
    ///
    /// # Errors
    /// No region lies there, or one lies there only in part, or `base` and `bytes` are not whole pages of the address
    /// space. Nothing has changed then.
    pub fn unmap(&self, base: u64, bytes: u64) -> Result<(), MapError> {
        match &self.0.kind {
            Kind::Simulated(_) => Err(MapError::Unknown),
            Kind::Regions(regions) => regions.unmap(base, bytes),
        }
    }

    /// Unmaps everything.
    pub fn unmap_all(&self) {
        if let Kind::Regions(regions) = &self.0.kind {
            regions.unmap_all();
        }
    }

    /// The present epoch. Simulated memory stays in its first.
    pub fn epoch(&self) -> Epoch {
        match &self.0.kind {
            Kind::Simulated(_) => Epoch::default(),
            Kind::Regions(regions) => regions.epoch(),
        }
    }

    /// Gives `pages` contiguous pages of zeroes and their address. None when there is no room.
    pub fn allocate(&self, pages: usize) -> Option<u64> {
        match &self.0.kind {
            Kind::Simulated(memory) => Some(memory.allocate(pages)),
            Kind::Regions(memory) => memory.allocate(pages),
        }
    }

    /// Bytes that were given and not taken back; of memory that another process shares, none.
    pub fn allocated_bytes(&self) -> u64 {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.allocated_bytes(),
            Kind::Regions(_) => 0,
        }
    }

    /// Takes pages back that [`Memory::allocate`] gave: from then on an access to them is a fault.
    pub fn free(&self, address: u64, pages: usize) {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.free(address, pages),
            Kind::Regions(memory) => memory.free(address, pages),
        }
    }

    /// Whether the whole extent was given, and can be read.
    pub fn check(&self, address: u64, bytes: u64) -> Result<(), Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.check(address, bytes),
            Kind::Regions(memory) => memory.check(address, bytes, Direction::Down, Epoch::LAST),
        }
    }

    /// Copies out.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.with(address, into.len(), |bytes| into.copy_from_slice(bytes)),
            Kind::Regions(memory) => memory.read(address, into, Epoch::LAST),
        }
    }

    /// Copies in.
    pub fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.write(address, from),
            Kind::Regions(memory) => memory.write(address, from, Epoch::LAST),
        }
    }

    /// Shows an extent; shared memory is copied first.
    pub fn with<R>(&self, address: u64, bytes: usize, look: impl FnOnce(&[u8]) -> R) -> Result<R, Fault> {
        self.with_at(address, bytes, Epoch::LAST, look)
    }

    fn with_at<R>(
        &self,
        address: u64,
        bytes: usize,
        epoch: Epoch,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.with(address, bytes, look),
            Kind::Regions(memory) => memory.with_copy(address, bytes, epoch, look),
        }
    }

    /// Lets `fill` write an extent; what it doesn't write is unspecified.
    pub fn with_mut<R>(
        &self,
        address: u64,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.with_mut(address, bytes, fill),
            Kind::Regions(memory) => memory.fill_copy(address, bytes, Epoch::LAST, fill),
        }
    }

    /// The pattern that the page at `address` holds, if simulated memory keeps its name instead of its bytes; reading it
    /// gives the same bytes. None says nothing of what the page holds, or that it is one.
    pub fn pattern(&self, address: u64) -> Option<Pattern> {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.pattern(address),
            Kind::Regions(_) => None,
        }
    }

    /// Writes `pattern` over the page at `address`, a multiple of [`PAGE_BYTES`]. Simulated memory keeps its name only.
    pub fn put_pattern(&self, address: u64, pattern: Pattern) -> Result<(), Fault> {
        self.put_pattern_at(address, pattern, Epoch::LAST)
    }

    fn put_pattern_at(&self, address: u64, pattern: Pattern, epoch: Epoch) -> Result<(), Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.put_pattern(address, pattern),
            Kind::Regions(memory) => memory.fill_copy(address, UNIT_BYTES, epoch, |unit| pattern.fill(unit)),
        }
    }

    /// Reads a 32-bit word with acquire: what was written before it by the other side is then visible.
    pub fn load32(&self, address: u64) -> Result<u32, Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => {
                memory.with(address, 4, |bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes")))
            }
            Kind::Regions(memory) => memory.load32(address),
        }
    }

    /// Reads a queue entry at a multiple of its 16 bytes: its last 8 bytes first, with acquire. If they hold what the
    /// other side wrote last, all 16 bytes are what it wrote ([`Memory::dma_post`]).
    ///
    /// # Errors
    /// There is no memory that the host gave, or it is another process's and the address is no such multiple.
    #[inline]
    pub fn load_entry(&self, address: u64) -> Result<[u8; 16], Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => {
                memory.with(address, 16, |bytes| bytes.try_into().expect("sixteen bytes"))
            }
            Kind::Regions(memory) => memory.load_entry(address),
        }
    }

    /// Writes a 32-bit word with release: what was written before it is visible to who sees it.
    pub fn store32(&self, address: u64, value: u32) -> Result<(), Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => {
                memory.with_mut(address, 4, |bytes| bytes.copy_from_slice(&value.to_le_bytes()))
            }
            Kind::Regions(memory) => memory.store32(address, value),
        }
    }

    /// Whether the whole extent, which is checked as of `epoch`, may cross in `direction`.
    pub fn check_dma(
        &self,
        address: u64,
        bytes: u64,
        direction: Direction,
        epoch: Epoch,
    ) -> Result<(), Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.check(address, bytes),
            Kind::Regions(memory) => memory.check(address, bytes, direction, epoch),
        }
    }

    /// The device reads: as [`Memory::with`], counted. A region that was mapped after `epoch` is a fault.
    pub fn dma_read<R>(
        &self,
        address: u64,
        bytes: usize,
        epoch: Epoch,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Fault> {
        let result = self.with_at(address, bytes, epoch, look)?;
        self.count_read(bytes);
        Ok(result)
    }

    /// The device reads the page at `address`, if memory keeps only the name of its pattern and `take` takes that. Else
    /// nothing was read.
    pub fn dma_read_pattern(&self, address: u64, take: impl FnOnce(Pattern) -> bool) -> bool {
        let is_taken = self.pattern(address).is_some_and(take);
        if is_taken {
            self.count_read(UNIT_BYTES);
        }
        is_taken
    }

    /// The device reads into memory of its own.
    pub fn dma_read_into(&self, address: u64, into: &mut [u8], epoch: Epoch) -> Result<(), Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => {
                memory.with(address, into.len(), |bytes| into.copy_from_slice(bytes))?
            }
            Kind::Regions(memory) => memory.read(address, into, epoch)?,
        }
        self.count_read(into.len());
        Ok(())
    }

    /// The device writes bytes that it has.
    pub fn dma_write(&self, address: u64, from: &[u8], epoch: Epoch) -> Result<(), Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.write(address, from)?,
            Kind::Regions(memory) => memory.write(address, from, epoch)?,
        }
        self.count_written(from.len());
        Ok(())
    }

    /// The device writes what a unit holds from `offset` on.
    pub fn dma_write_content(
        &self,
        address: u64,
        content: &Content,
        offset: usize,
        bytes: usize,
        epoch: Epoch,
    ) -> Result<(), Fault> {
        let is_page = bytes == UNIT_BYTES && address.is_multiple_of(PAGE_BYTES);
        if let (true, Some(pattern)) = (is_page, content.pattern()) {
            debug_assert_eq!(offset, 0, "what is written lies within the unit");
            self.put_pattern_at(address, pattern, epoch)?;
            self.count_written(bytes);
            return Ok(());
        }
        let held: &[u8; UNIT_BYTES] = match content {
            Content::Bytes(unit) => unit,
            Content::Zero => &ZEROES,
            Content::Marred(unit) => &unit.bytes,
            Content::Stamp(_) | Content::Blocks(_) | Content::Head(_) => {
                return self.dma_fill(address, bytes, epoch, |part| content.write_part(offset, part));
            }
        };
        self.dma_write(address, &held[offset..offset + bytes], epoch)
    }

    /// The device writes what `fill` makes.
    fn dma_fill(
        &self,
        address: u64,
        bytes: usize,
        epoch: Epoch,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.with_mut(address, bytes, fill)?,
            Kind::Regions(memory) => memory.fill_copy(address, bytes, epoch, fill)?,
        }
        self.count_written(bytes);
        Ok(())
    }

    /// The device posts a completion queue entry, at a multiple of its 16 bytes: its last word, which holds the phase
    /// bit, is written last.
    pub fn dma_post(&self, address: u64, entry: &[u8; 16]) -> Result<(), Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.with_mut(address, 16, |bytes| bytes.copy_from_slice(entry))?,
            Kind::Regions(memory) => memory.post(address, entry)?,
        }
        self.count_written(entry.len());
        Ok(())
    }

    fn count_read(&self, bytes: usize) {
        self.1.read_bytes.set(self.1.read_bytes.get() + bytes as u64);
    }

    fn count_written(&self, bytes: usize) {
        self.1.written_bytes.set(self.1.written_bytes.get() + bytes as u64);
    }

    /// Bytes that the device has read, counted here and not by the link.
    pub fn dma_read_bytes(&self) -> u64 {
        self.1.read_bytes.get()
    }

    /// Bytes that the device has written.
    pub fn dma_written_bytes(&self) -> u64 {
        self.1.written_bytes.get()
    }
}
