//! Host memory, as host software and the device's DMA see it.
//!
//! | file | contents |
//! |---|---|
//! | `simulated` | pages allocated to a simulated host |
//! | `regions` | another process's memory: a table of regions that are mapped and unmapped |
//! | `backing` | backing, access rights and errors of a region |
//! | `mapped` | a region in a file that both processes map |
//! | `guard` | survives truncation of such a file |
//!
//! An access outside is a [`Fault`] and touches nothing. The device copies what it reads once and parses the
//! copy, because the other side can change shared memory at any time.
//!
//! # Unmapping during transfers
//! A host may unmap a region while commands that refer to it are in flight, and map another one at the same
//! addresses, where late device writes must not land. Each unmapping therefore begins a new [`Epoch`], and
//! each region carries the epoch of its mapping. Payload is accessed as of the epoch in which its data
//! pointer was resolved: for it, a region mapped later does not exist.
//!
//! Queues have no epoch: entries are read and completions posted to the memory mapped at that moment. A queue
//! is not a transfer, and a host may exchange the pages under one, as it may behind an IOMMU.

mod backing;
mod guard;
mod mapped;
mod regions;
mod simulated;

pub use backing::{Access, Backing, Epoch, Fault, MapError, PAGE_BYTES, Remote};
pub use mapped::Mapped;
pub use simulated::Simulated;

use crate::ledger::Direction;
use byteway_content::{Content, Pattern, UNIT_BYTES};
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

/// Bytes that one device has moved by DMA.
#[derive(Default)]
struct Moved {
    read_bytes: Cell<u64>,
    written_bytes: Cell<u64>,
}

/// Host memory. Cheap to clone.
#[derive(Clone)]
pub struct Memory(Rc<Inner>, Rc<Moved>);

impl Memory {
    /// Simulated memory, with nothing allocated.
    pub fn simulated() -> Self {
        Self::new(Kind::Simulated(Simulated::default()))
    }

    /// One region shared with another process, in which this side can allocate.
    pub fn mapped(mapped: Mapped) -> Self {
        Self::new(Kind::Regions(Regions::of(mapped)))
    }

    /// Memory of another process, with nothing mapped.
    pub fn guest() -> Self {
        Self::new(Kind::Regions(Regions::default()))
    }

    fn new(kind: Kind) -> Self {
        Memory(Rc::new(Inner { kind }), Rc::default())
    }

    /// The same memory as seen by a device at another link, with byte counters of its own.
    pub fn at_another_link(&self) -> Memory {
        Memory(self.0.clone(), Rc::default())
    }

    /// Maps a region of the other process at `base` of the device's address space: whole pages, which overlap
    /// no other region; at most 1024 regions in all.
    ///
    /// # Errors
    /// [`MapError`], with nothing changed. Simulated memory has no regions: [`MapError::System`].
    pub fn map(&self, base: u64, bytes: u64, backing: Backing<'_>, access: Access) -> Result<(), MapError> {
        match &self.0.kind {
            Kind::Simulated(_) => Err(MapError::System(std::io::ErrorKind::Unsupported.into())),
            Kind::Regions(regions) => regions.map(base, bytes, backing, access),
        }
    }

    /// Unmaps all regions within the `bytes` at `base`, at least one. Transfers in flight to them fail from
    /// now on.
    ///
    /// [`MapError`], with nothing changed, if there is no region, a region is only partly within the extent,
    /// or the extent is not whole pages of the address space.
    pub fn unmap(&self, base: u64, bytes: u64) -> Result<(), MapError> {
        match &self.0.kind {
            Kind::Simulated(_) => Err(MapError::Unknown),
            Kind::Regions(regions) => regions.unmap(base, bytes),
        }
    }

    /// Unmaps every region.
    pub fn unmap_all(&self) {
        if let Kind::Regions(regions) = &self.0.kind {
            regions.unmap_all();
        }
    }

    /// The current epoch. Simulated memory stays in its first.
    pub fn epoch(&self) -> Epoch {
        match &self.0.kind {
            Kind::Simulated(_) => Epoch::default(),
            Kind::Regions(regions) => regions.epoch(),
        }
    }

    /// Allocates `pages` contiguous zeroed pages and returns their address. None if no memory is left.
    pub fn allocate(&self, pages: usize) -> Option<u64> {
        match &self.0.kind {
            Kind::Simulated(memory) => Some(memory.allocate(pages)),
            Kind::Regions(memory) => memory.allocate(pages),
        }
    }

    /// Bytes allocated and not freed; zero for another process's memory.
    pub fn allocated_bytes(&self) -> u64 {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.allocated_bytes(),
            Kind::Regions(_) => 0,
        }
    }

    /// Frees pages from [`Memory::allocate`]. An access to them is a fault from then on.
    pub fn free(&self, address: u64, pages: usize) {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.free(address, pages),
            Kind::Regions(memory) => memory.free(address, pages),
        }
    }

    /// Checks that the whole extent is allocated or mapped, and readable.
    pub fn check(&self, address: u64, bytes: u64) -> Result<(), Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.check(address, bytes),
            Kind::Regions(memory) => memory.check(address, bytes, Direction::Down, Epoch::LAST),
        }
    }

    /// Copies `into.len()` bytes out of memory.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.with(address, into.len(), |bytes| into.copy_from_slice(bytes)),
            Kind::Regions(memory) => memory.read(address, into, Epoch::LAST),
        }
    }

    /// Copies `from` into memory.
    #[inline]
    pub fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.write(address, from),
            Kind::Regions(memory) => memory.write(address, from, Epoch::LAST),
        }
    }

    /// Calls `look` with an extent; shared memory is copied first.
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

    /// Lets `fill` write an extent. Bytes that it does not write are unspecified.
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

    /// The pattern of the page at `address`, if simulated memory keeps its name instead of its bytes; reading
    /// the page gives the same bytes. `None` says nothing about the content.
    #[inline]
    pub fn pattern(&self, address: u64) -> Option<Pattern> {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.pattern(address),
            Kind::Regions(_) => None,
        }
    }

    /// Overwrites the page at `address`, a multiple of [`PAGE_BYTES`], with `pattern`. Simulated memory keeps
    /// only its name.
    pub fn put_pattern(&self, address: u64, pattern: Pattern) -> Result<(), Fault> {
        self.put_pattern_at(address, pattern, Epoch::LAST)
    }

    #[inline]
    fn put_pattern_at(&self, address: u64, pattern: Pattern, epoch: Epoch) -> Result<(), Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.put_pattern(address, pattern),
            Kind::Regions(memory) => memory.fill_copy(address, UNIT_BYTES, epoch, |unit| pattern.fill(unit)),
        }
    }

    /// Reads a 32-bit word with acquire: earlier writes of the other side are then visible.
    pub fn load32(&self, address: u64) -> Result<u32, Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => {
                memory.with(address, 4, |bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes")))
            }
            Kind::Regions(memory) => memory.load32(address),
        }
    }

    /// Reads a queue entry at a multiple of 16 bytes: its last 8 bytes first, with acquire. If those are what
    /// the other side wrote last, all 16 bytes are what it wrote ([`Memory::dma_post`]).
    ///
    /// # Errors
    /// [`Fault`] if the memory is not the host's to give, or if the address of another process's memory is
    /// not aligned.
    #[inline]
    pub fn load_entry(&self, address: u64) -> Result<[u8; 16], Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => {
                memory.with(address, 16, |bytes| bytes.try_into().expect("sixteen bytes"))
            }
            Kind::Regions(memory) => memory.load_entry(address),
        }
    }

    /// Writes a 32-bit word with release: earlier writes are visible to a reader that sees it.
    pub fn store32(&self, address: u64, value: u32) -> Result<(), Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => {
                memory.with_mut(address, 4, |bytes| bytes.copy_from_slice(&value.to_le_bytes()))
            }
            Kind::Regions(memory) => memory.store32(address, value),
        }
    }

    /// Checks the whole extent, as of `epoch`, for a transfer in `direction`.
    #[inline]
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

    /// DMA read: as [`Memory::with`], counted. A region mapped after `epoch` is a fault.
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

    /// DMA read of the page at `address` by pattern name, if memory keeps only the name and `take` accepts
    /// it. Otherwise returns false, with nothing read.
    #[inline]
    pub fn dma_read_pattern(&self, address: u64, take: impl FnOnce(Pattern) -> bool) -> bool {
        let is_taken = self.pattern(address).is_some_and(take);
        if is_taken {
            self.count_read(UNIT_BYTES);
        }
        is_taken
    }

    /// DMA read into the device's own memory.
    #[inline]
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

    /// DMA write of bytes.
    pub fn dma_write(&self, address: u64, from: &[u8], epoch: Epoch) -> Result<(), Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.write(address, from)?,
            Kind::Regions(memory) => memory.write(address, from, epoch)?,
        }
        self.count_written(from.len());
        Ok(())
    }

    /// DMA write of a unit's content from `offset` on.
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

    /// DMA write of the bytes that `fill` produces.
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

    /// DMA write of a completion queue entry, at a multiple of 16 bytes. The last word, which holds the phase
    /// bit, is written last.
    #[inline]
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

    /// Bytes read by the device, counted here independently of the link's ledger.
    pub fn dma_read_bytes(&self) -> u64 {
        self.1.read_bytes.get()
    }

    /// Bytes written by the device.
    pub fn dma_written_bytes(&self) -> u64 {
        self.1.written_bytes.get()
    }
}
