//! A file mapped shared with another process.
//!
//! The other process may write the file at any time, so no `&[u8]` to it exists: bytes are copied first and
//! parsed from the copy.
//!
//! Words are loaded and stored by atomic accesses: with acquire and release where they publish what was
//! written before them. All else is copied in lines of 64 bytes by vector registers, in inline assembly, and
//! the rest by relaxed atomic accesses. To the compiler the assembly is an opaque function that reads or
//! writes the memory in some order, which is what a copy by relaxed atomic bytes would be if Rust had one.
//! The processor has no data races, only old and new bytes: a copy that overlaps a write of the other side is
//! a mixture, which is data like any other, and no code relies on its consistency. (Atomic words alone take
//! twice the time of `memcpy`, and data copied by `rep movsb` is slow to read back.)
//!
//! The other process may also truncate the file at any time; [`Guard`] turns that into an error.
#![allow(
    unsafe_code,
    reason = "shared memory is reached through raw pointers; every block says why it is sound"
)]

use super::backing::{MapError, PAGE_BYTES};
use super::guard::Guard;
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{FileType, fstat, fstatfs};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Bytes copied at a time by vector registers.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;

/// A huge page file system (`linux/magic.h`), whose files are mapped only in pages of its own size.
const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;

/// File systems backed by another process or machine (`linux/magic.h`): FUSE, NFS, SMB, SMB 2, CIFS, 9P,
/// Ceph, AFS.
const REMOTE_FILE_SYSTEMS: [u64; 8] =
    [0x6573_5546, 0x6969, 0x517b, 0xfe53_4d42, 0xff53_4d42, 0x0102_1997, 0x00c3_6400, 0x5346_414f];

/// Part of a file (memfd), mapped shared, at an address of the device's.
pub struct Mapped {
    guard: Guard, // declared first, so dropped before the mapping
    map: MmapRaw,
    /// Offset of the part in the mapping: huge pages are mapped whole.
    skip: usize,
    bytes: usize,
    base: u64,
    is_writable: bool,
}

/// The file was truncated below the mapped length.
pub(super) struct Lost;

impl Mapped {
    /// Maps the first `bytes` of `file`, a multiple of 4 KiB that the file must hold.
    pub fn new(file: &File, base: u64, bytes: u64) -> io::Result<Self> {
        Self::part(file, 0, base, bytes, true).map_err(|error| match error {
            MapError::System(error) => error,
            other => io::Error::new(io::ErrorKind::InvalidInput, other),
        })
    }

    /// Maps the `bytes` at `offset` of `file`, to appear at `base`.
    pub(super) fn part(
        file: &File,
        offset: u64,
        base: u64,
        bytes: u64,
        is_writable: bool,
    ) -> Result<Self, MapError> {
        let stat = fstat(file).map_err(io::Error::from)?;
        // A mapping of a device has arbitrary semantics, and pipes and sockets have none.
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::from_raw_os_error(libc::ENODEV).into());
        }
        // There a page fault waits for another process, perhaps for the peer itself, which may never answer.
        let kind = fstatfs(file).map_err(io::Error::from)?.f_type as u64 & 0xffff_ffff;
        if REMOTE_FILE_SYSTEMS.contains(&kind) {
            return Err(io::Error::from_raw_os_error(libc::ENODEV).into());
        }
        let whole = |number: u64| number.is_multiple_of(PAGE_BYTES);
        let end = offset.checked_add(bytes).ok_or(MapError::Extent)?;
        base.checked_add(bytes).ok_or(MapError::Extent)?;
        let space = u64::try_from(stat.st_size).unwrap_or(0);
        if bytes == 0 || !whole(bytes) || !whole(base) || !whole(offset) || end > space {
            return Err(MapError::Extent);
        }
        let page_bytes = page_bytes(file)?;
        let start = offset & !(page_bytes - 1);
        let end = end.checked_next_multiple_of(page_bytes).ok_or(MapError::Extent)?;
        let number = |bytes: u64| usize::try_from(bytes).map_err(|_| MapError::Extent);
        let length = number(end - start)?;
        let mut options = MmapOptions::new();
        options.offset(start).len(length);
        let map = if is_writable { options.map_raw(file)? } else { options.map_raw_read_only(file)? };
        let guard = Guard::new(map.as_ptr(), length, number(page_bytes)?)?.ok_or(MapError::TooMany)?;
        Ok(Mapped { guard, map, skip: number(offset - start)?, bytes: number(bytes)?, base, is_writable })
    }

    pub(super) fn base(&self) -> u64 {
        self.base
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Whether an access has found the file truncated.
    #[inline]
    pub(super) fn is_lost(&self) -> bool {
        self.guard.is_lost()
    }

    fn unless_lost<T>(&self, value: T) -> Result<T, Lost> {
        if self.is_lost() { Err(Lost) } else { Ok(value) }
    }

    /// Pointer to the first byte of an extent. The region table passes only extents that lie within.
    #[inline]
    fn at(&self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(offset <= self.bytes && bytes <= self.bytes - offset, "the extent lies within the mapping");
        // SAFETY: skip + offset <= skip + self.bytes <= the mapping's length, so the pointer stays within it.
        unsafe { self.map.as_mut_ptr().add(self.skip + offset) }
    }

    /// Like `at`, for writing.
    #[inline]
    fn at_mut(&self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(self.is_writable, "only what is mapped writable is written");
        self.at(offset, bytes)
    }

    /// Copies out of the mapping.
    pub(super) fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), Lost> {
        let from = self.at(offset, into.len());
        // SAFETY: `at` checked that into.len() bytes from `from` are mapped.
        unsafe { copy_out(from, into) };
        self.unless_lost(())
    }

    /// Copies into the mapping.
    pub(super) fn write(&self, offset: usize, from: &[u8]) -> Result<(), Lost> {
        let to = self.at_mut(offset, from.len());
        // SAFETY: `at_mut` checked that from.len() bytes from `to` are mapped, writable.
        unsafe { copy_in(to, from) };
        self.unless_lost(())
    }

    /// Reads a 32-bit word with acquire. `offset` is a multiple of four.
    pub(super) fn load32(&self, offset: usize) -> Result<u32, Lost> {
        let from = self.at(offset, 4);
        assert!(from.addr().is_multiple_of(4), "words are aligned");
        // SAFETY: `at` checked the extent, and it is aligned.
        let value = unsafe { AtomicU32::from_ptr(from.cast()) }.load(Ordering::Acquire);
        self.unless_lost(u32::from_le(value))
    }

    /// Writes a 32-bit word with release. `offset` is a multiple of four.
    pub(super) fn store32(&self, offset: usize, value: u32) -> Result<(), Lost> {
        let to = self.at_mut(offset, 4);
        assert!(to.addr().is_multiple_of(4), "words are aligned");
        // SAFETY: `at_mut` checked the extent, which is writable, and it is aligned.
        unsafe { AtomicU32::from_ptr(to.cast()) }.store(value.to_le(), Ordering::Release);
        self.unless_lost(())
    }

    /// Reads a queue entry in two halves, the second first and with acquire: the counterpart of
    /// [`Mapped::post`], and of any writer that stores the last word after the others. `offset` is a multiple
    /// of eight.
    pub(super) fn load_entry(&self, offset: usize) -> Result<[u8; 16], Lost> {
        let from = self.at(offset, 16);
        assert!(from.addr().is_multiple_of(8), "entries are aligned");
        let mut entry = [0; 16];
        let (first, last) = entry.split_at_mut(8);
        // SAFETY: `at` checked 16 bytes, and they are aligned.
        unsafe {
            let acquired = AtomicU64::from_ptr(from.add(8).cast()).load(Ordering::Acquire);
            last.copy_from_slice(&acquired.to_ne_bytes());
            let rest = AtomicU64::from_ptr(from.cast()).load(Ordering::Relaxed);
            first.copy_from_slice(&rest.to_ne_bytes());
        }
        self.unless_lost(entry)
    }

    /// Writes a completion queue entry in two halves, the second with release: its last word, which holds the
    /// phase bit, becomes visible after the first half and never before the rest of its own half. `offset` is
    /// a multiple of eight.
    pub(super) fn post(&self, offset: usize, entry: &[u8; 16]) -> Result<(), Lost> {
        let to = self.at_mut(offset, entry.len());
        assert!(to.addr().is_multiple_of(8), "entries are aligned");
        let [first, last] = entry.as_chunks::<8>().0 else { unreachable!("16 bytes are two times 8") };
        // SAFETY: `at_mut` checked 16 bytes, which are writable, and they are aligned.
        unsafe {
            AtomicU64::from_ptr(to.cast()).store(u64::from_ne_bytes(*first), Ordering::Relaxed);
            AtomicU64::from_ptr(to.add(8).cast()).store(u64::from_ne_bytes(*last), Ordering::Release);
        }
        self.unless_lost(())
    }
}

/// Page size with which `file` is mapped: a power of two of at least 4 KiB.
fn page_bytes(file: &File) -> io::Result<u64> {
    let system = fstatfs(file)?;
    let is_huge = system.f_type as u64 == HUGETLBFS_MAGIC;
    let bytes = if is_huge { u64::try_from(system.f_bsize).unwrap_or(0) } else { PAGE_BYTES };
    if bytes.is_power_of_two() && bytes >= PAGE_BYTES {
        Ok(bytes)
    } else {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Copies `into.len()` bytes that another process may be writing.
///
/// # Safety
/// The source is mapped, and no reference to it exists.
#[inline]
unsafe fn copy_out(mut from: *mut u8, into: &mut [u8]) {
    let mut rest = into;
    #[cfg(target_arch = "x86_64")]
    {
        let (lines, tail) = rest.as_chunks_mut::<LINE_BYTES>();
        // SAFETY: the lines of `from` are mapped, as the caller says; those of `rest` are writable, and lie
        // elsewhere.
        unsafe {
            copy_lines(lines.as_mut_ptr().cast(), from, lines.len());
            from = from.add(lines.len() * LINE_BYTES);
        }
        rest = tail;
    }
    // SAFETY: within the extent that the caller vouches for; words are read where they are aligned: if the
    // start is, steps of eight are.
    unsafe {
        if from.addr().is_multiple_of(8) {
            let mut words = rest.chunks_exact_mut(8);
            for word in &mut words {
                let value = AtomicU64::from_ptr(from.cast()).load(Ordering::Relaxed);
                word.copy_from_slice(&value.to_ne_bytes());
                from = from.add(8);
            }
            rest = words.into_remainder();
        }
        for byte in rest {
            *byte = AtomicU8::from_ptr(from).load(Ordering::Relaxed);
            from = from.add(1);
        }
    }
}

/// Copies `from.len()` bytes to memory that another process may be reading or writing.
///
/// # Safety
/// The target is mapped and writable, and no reference to it exists.
#[inline]
unsafe fn copy_in(mut to: *mut u8, from: &[u8]) {
    let mut rest = from;
    #[cfg(target_arch = "x86_64")]
    {
        let (lines, tail) = rest.as_chunks::<LINE_BYTES>();
        // SAFETY: the lines of `to` are mapped, writable, as the caller says; those of `rest` lie elsewhere.
        unsafe {
            copy_lines(to, lines.as_ptr().cast(), lines.len());
            to = to.add(lines.len() * LINE_BYTES);
        }
        rest = tail;
    }
    // SAFETY: within the extent that the caller vouches for; words are written where they are aligned: if the
    // start is, steps of eight are.
    unsafe {
        if to.addr().is_multiple_of(8) {
            let (words, bytes) = rest.as_chunks::<8>();
            for word in words {
                AtomicU64::from_ptr(to.cast()).store(u64::from_ne_bytes(*word), Ordering::Relaxed);
                to = to.add(8);
            }
            rest = bytes;
        }
        for byte in rest {
            AtomicU8::from_ptr(to).store(*byte, Ordering::Relaxed);
            to = to.add(1);
        }
    }
}

/// Copies whole lines by vector registers; see the module documentation.
///
/// # Safety
/// `lines` times [`LINE_BYTES`] are readable at `from` and writable at `to`, and the two do not overlap.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn copy_lines(to: *mut u8, from: *const u8, lines: usize) {
    if lines == 0 {
        return;
    }
    if std::is_x86_feature_detected!("avx") {
        // SAFETY: as the caller says, and the processor has the registers.
        return unsafe { copy_lines_avx(to, from, lines) };
    }
    // SAFETY: the loop reads and writes what the caller vouches for, line by line, and the registers named.
    unsafe {
        std::arch::asm!(
            "2:",
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups {c}, [{from} + 32]",
            "movups {d}, [{from} + 48]",
            "movups [{to}], {a}",
            "movups [{to} + 16], {b}",
            "movups [{to} + 32], {c}",
            "movups [{to} + 48], {d}",
            "add {from}, 64",
            "add {to}, 64",
            "dec {lines}",
            "jnz 2b",
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            lines = inout(reg) lines => _,
            options(nostack),
        );
    }
}

/// The same with registers of 32 bytes.
///
/// # Safety
/// Same as [`copy_lines`]; `lines` is not zero.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn copy_lines_avx(to: *mut u8, from: *const u8, lines: usize) {
    // SAFETY: the loop reads and writes what the caller vouches for, line by line, and the registers named.
    unsafe {
        std::arch::asm!(
            "2:",
            "vmovups ymm0, [{from}]",
            "vmovups ymm1, [{from} + 32]",
            "vmovups [{to}], ymm0",
            "vmovups [{to} + 32], ymm1",
            "add {from}, 64",
            "add {to}, 64",
            "dec {lines}",
            "jnz 2b",
            "vzeroupper", // the code that follows may use 16-byte registers, slow with dirty upper halves
            // It clears the upper half of every register, so a function that inlines this one may have none
            // in use.
            out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _,
            out("ymm4") _, out("ymm5") _, out("ymm6") _, out("ymm7") _,
            out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
            out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            lines = inout(reg) lines => _,
            options(nostack),
        );
    }
}
