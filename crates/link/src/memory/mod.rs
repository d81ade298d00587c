//! The host's memory, as the host's software and the device's DMA see it.
//!
//! Two kinds behind one interface: [`Simulated`] pages that the host gave, and [`Mapped`] memory that is shared with
//! another process. Whatever is outside is a [`Fault`], never touched. What the device reads is copied once and
//! parsed from the copy, because the other side of shared memory can change it at any time.

mod mapped;
mod simulated;

pub use mapped::Mapped;
pub use simulated::Simulated;

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

/// Bytes of a host memory page.
pub const PAGE_BYTES: u64 = 4096;

/// An access outside what the host gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where it began.
    pub address: u64,
    /// How many bytes it wanted.
    pub bytes: u64,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#x} are not memory that the host gave", self.bytes, self.address)
    }
}

impl std::error::Error for Fault {}

enum Kind {
    Simulated(Simulated),
    Mapped(Mapped),
}

struct Inner {
    kind: Kind,
    dma_read_bytes: Cell<u64>,
    dma_written_bytes: Cell<u64>,
}

/// Host memory. Cheap to clone.
#[derive(Clone)]
pub struct Memory(Rc<Inner>);

impl Memory {
    /// Simulated memory, of which nothing is given yet.
    pub fn simulated() -> Self {
        Self::new(Kind::Simulated(Simulated::default()))
    }

    /// Memory shared with another process.
    pub fn mapped(mapped: Mapped) -> Self {
        Self::new(Kind::Mapped(mapped))
    }

    fn new(kind: Kind) -> Self {
        Memory(Rc::new(Inner { kind, dma_read_bytes: Cell::default(), dma_written_bytes: Cell::default() }))
    }

    /// Gives `pages` contiguous pages of zeroes and their address. None when there is no room.
    pub fn allocate(&self, pages: usize) -> Option<u64> {
        match &self.0.kind {
            Kind::Simulated(memory) => Some(memory.allocate(pages)),
            Kind::Mapped(memory) => memory.allocate(pages),
        }
    }

    /// Takes pages back that [`Memory::allocate`] gave: from then on an access to them is a fault.
    pub fn free(&self, address: u64, pages: usize) {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.free(address, pages),
            Kind::Mapped(memory) => memory.free(address, pages),
        }
    }

    /// Whether the whole extent was given.
    pub fn check(&self, address: u64, bytes: u64) -> Result<(), Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.check(address, bytes),
            Kind::Mapped(memory) => memory.check(address, bytes),
        }
    }

    /// Copies out.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.with(address, into.len(), |bytes| into.copy_from_slice(bytes)),
            Kind::Mapped(memory) => memory.read(address, into),
        }
    }

    /// Copies in.
    pub fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => {
                memory.with_mut(address, from.len(), |bytes| bytes.copy_from_slice(from))
            }
            Kind::Mapped(memory) => memory.write(address, from),
        }
    }

    /// Shows an extent; shared memory is copied first.
    pub fn with<R>(&self, address: u64, bytes: usize, look: impl FnOnce(&[u8]) -> R) -> Result<R, Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => memory.with(address, bytes, look),
            Kind::Mapped(memory) => memory.with_copy(address, bytes, look),
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
            Kind::Mapped(memory) => memory.fill_copy(address, bytes, fill),
        }
    }

    /// Reads a 32-bit word with acquire: what was written before it by the other side is then visible.
    pub fn load32(&self, address: u64) -> Result<u32, Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => {
                memory.with(address, 4, |bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes")))
            }
            Kind::Mapped(memory) => memory.load32(address),
        }
    }

    /// Writes a 32-bit word with release: what was written before it is visible to who sees it.
    pub fn store32(&self, address: u64, value: u32) -> Result<(), Fault> {
        match &self.0.kind {
            Kind::Simulated(memory) => {
                memory.with_mut(address, 4, |bytes| bytes.copy_from_slice(&value.to_le_bytes()))
            }
            Kind::Mapped(memory) => memory.store32(address, value),
        }
    }

    /// The device reads: as [`Memory::with`], counted.
    pub fn dma_read<R>(&self, address: u64, bytes: usize, look: impl FnOnce(&[u8]) -> R) -> Result<R, Fault> {
        let result = self.with(address, bytes, look)?;
        self.0.dma_read_bytes.set(self.0.dma_read_bytes.get() + bytes as u64);
        Ok(result)
    }

    /// The device writes: as [`Memory::with_mut`], counted.
    pub fn dma_write<R>(
        &self,
        address: u64,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, Fault> {
        let result = self.with_mut(address, bytes, fill)?;
        self.0.dma_written_bytes.set(self.0.dma_written_bytes.get() + bytes as u64);
        Ok(result)
    }

    /// The device posts a completion queue entry: its last word, which holds the phase bit, is written last.
    pub fn dma_post(&self, address: u64, entry: &[u8; 16]) -> Result<(), Fault> {
        self.check(address, 16)?;
        self.write(address, &entry[..12])?;
        self.store32(address + 12, u32::from_le_bytes(entry[12..].try_into().expect("four bytes")))?;
        self.0.dma_written_bytes.set(self.0.dma_written_bytes.get() + 16);
        Ok(())
    }

    /// Bytes that the device has read, counted here and not by the link.
    pub fn dma_read_bytes(&self) -> u64 {
        self.0.dma_read_bytes.get()
    }

    /// Bytes that the device has written.
    pub fn dma_written_bytes(&self) -> u64 {
        self.0.dma_written_bytes.get()
    }
}
