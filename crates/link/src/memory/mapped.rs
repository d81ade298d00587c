//! Memory shared with another process.
//!
//! The other side may write it at any time, so no `&[u8]` of it exists: it is copied by atomic words, and words that
//! publish others are stored with release. The one file of this crate with `unsafe`.
#![allow(
    unsafe_code,
    reason = "shared memory is reached through raw pointers; every block says why it is sound"
)]

use super::{Fault, PAGE_BYTES};
use memmap2::{MmapOptions, MmapRaw};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// A file (memfd) mapped shared, that stands at `base` in the device's address space.
pub struct Mapped {
    map: MmapRaw,
    base: u64,
    bytes: u64,
    /// Pages handed out by `allocate`, from the beginning.
    allocated: Cell<u64>,
    scratch: RefCell<Vec<u8>>,
}

impl Mapped {
    /// Maps the first `bytes` of `file`, a multiple of 4 KiB that the file must hold.
    pub fn new(file: &File, base: u64, bytes: u64) -> io::Result<Self> {
        let room = file.metadata()?.len();
        let whole = bytes > 0 && bytes.is_multiple_of(PAGE_BYTES) && base.is_multiple_of(PAGE_BYTES);
        if !whole || bytes > room || base.checked_add(bytes).is_none() {
            let why = format!(
                "{bytes} bytes at {base:#x} of a file of {room} bytes: whole pages within the file are needed, below the \
                 address space's last"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let map = MmapOptions::new().len(length).map_raw(file)?;
        Ok(Mapped { map, base, bytes, allocated: Cell::new(0), scratch: RefCell::default() })
    }

    pub(super) fn allocate(&self, pages: usize) -> Option<u64> {
        let first = self.allocated.get();
        let end = first.checked_add(pages as u64)?;
        if end.checked_mul(PAGE_BYTES)? > self.bytes {
            return None;
        }
        self.allocated.set(end);
        let address = self.base + first * PAGE_BYTES;
        let zeroes = [0u8; PAGE_BYTES as usize];
        for page in 0..pages as u64 {
            self.write(address + page * PAGE_BYTES, &zeroes).ok()?;
        }
        Some(address)
    }

    pub(super) fn free(&self, address: u64, pages: usize) {
        // Only the last extent can be given again: users allocate once, at the start.
        let end = self.base + self.allocated.get() * PAGE_BYTES;
        if address + pages as u64 * PAGE_BYTES == end {
            self.allocated.set(self.allocated.get() - pages as u64);
        }
    }

    pub(super) fn check(&self, address: u64, bytes: u64) -> Result<(), Fault> {
        self.at(address, bytes).map(|_| ())
    }

    /// The extent's first byte, if all of it is mapped.
    fn at(&self, address: u64, bytes: u64) -> Result<*mut u8, Fault> {
        let fault = Fault { address, bytes };
        let start = address.checked_sub(self.base).ok_or(fault)?;
        let end = start.checked_add(bytes).ok_or(fault)?;
        if end > self.bytes {
            return Err(fault);
        }
        // SAFETY: start <= end <= the mapping's length, so the pointer stays within the mapping.
        Ok(unsafe { self.map.as_mut_ptr().add(start as usize) })
    }

    pub(super) fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let mut from = self.at(address, into.len() as u64)?;
        if !(from as usize).is_multiple_of(8) {
            for byte in into {
                // SAFETY: `at` checked that into.len() bytes from `from` are mapped; AtomicU8 has no alignment.
                unsafe {
                    *byte = AtomicU8::from_ptr(from).load(Ordering::Relaxed);
                    from = from.add(1);
                }
            }
            return Ok(());
        }
        let mut words = into.chunks_exact_mut(8);
        for word in &mut words {
            // SAFETY: within the checked extent, and 8-byte aligned: the start is, and steps are of 8.
            unsafe {
                let value = AtomicU64::from_ptr(from.cast()).load(Ordering::Relaxed);
                word.copy_from_slice(&value.to_ne_bytes());
                from = from.add(8);
            }
        }
        for byte in words.into_remainder() {
            // SAFETY: within the checked extent.
            unsafe {
                *byte = AtomicU8::from_ptr(from).load(Ordering::Relaxed);
                from = from.add(1);
            }
        }
        Ok(())
    }

    pub(super) fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        let mut to = self.at(address, from.len() as u64)?;
        if !(to as usize).is_multiple_of(8) {
            for byte in from {
                // SAFETY: `at` checked that from.len() bytes from `to` are mapped.
                unsafe {
                    AtomicU8::from_ptr(to).store(*byte, Ordering::Relaxed);
                    to = to.add(1);
                }
            }
            return Ok(());
        }
        let words = from.chunks_exact(8);
        let rest = words.remainder();
        for word in words {
            let value = u64::from_ne_bytes(word.try_into().expect("eight bytes"));
            // SAFETY: within the checked extent, and 8-byte aligned: the start is, and steps are of 8.
            unsafe {
                AtomicU64::from_ptr(to.cast()).store(value, Ordering::Relaxed);
                to = to.add(8);
            }
        }
        for byte in rest {
            // SAFETY: within the checked extent.
            unsafe {
                AtomicU8::from_ptr(to).store(*byte, Ordering::Relaxed);
                to = to.add(1);
            }
        }
        Ok(())
    }

    pub(super) fn with_copy<R>(
        &self,
        address: u64,
        bytes: usize,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, Fault> {
        self.check(address, bytes as u64)?; // before the copy's size is believed
        let mut copy = self.scratch.take();
        copy.resize(bytes, 0);
        let read = self.read(address, &mut copy);
        let result = read.map(|()| look(&copy));
        self.scratch.replace(copy);
        result
    }

    pub(super) fn fill_copy<R>(
        &self,
        address: u64,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, Fault> {
        self.check(address, bytes as u64)?;
        let mut copy = self.scratch.take();
        copy.resize(bytes, 0);
        let result = fill(&mut copy);
        let written = self.write(address, &copy);
        self.scratch.replace(copy);
        written.map(|()| result)
    }

    pub(super) fn load32(&self, address: u64) -> Result<u32, Fault> {
        let from = self.word(address)?;
        // SAFETY: `word` checked the extent and the alignment.
        Ok(u32::from_le(unsafe { AtomicU32::from_ptr(from.cast()) }.load(Ordering::Acquire)))
    }

    pub(super) fn store32(&self, address: u64, value: u32) -> Result<(), Fault> {
        let to = self.word(address)?;
        // SAFETY: `word` checked the extent and the alignment.
        unsafe { AtomicU32::from_ptr(to.cast()) }.store(value.to_le(), Ordering::Release);
        Ok(())
    }

    fn word(&self, address: u64) -> Result<*mut u8, Fault> {
        if !address.is_multiple_of(4) {
            return Err(Fault { address, bytes: 4 });
        }
        self.at(address, 4)
    }
}
