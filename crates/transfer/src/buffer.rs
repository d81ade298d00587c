//! The memory of a payload, page by page, and the data pointer that describes it.

use byteway_link::Memory;
use byteway_link::memory::PAGE_BYTES;
use byteway_wire::nvme::{Segment, SglDescriptor, Sqe, prp};

const PAGE: u32 = PAGE_BYTES as u32;

/// Pages of host memory that hold a payload: from an offset in the first page on, then whole pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    pages: Vec<u64>,
    offset: u32,
    bytes: u32,
    /// The pages are adjacent.
    contiguous: bool,
}

impl Buffer {
    /// `bytes` at `offset` (modulo the page size) of adjacent pages. None if no memory is left.
    pub fn contiguous(memory: &Memory, offset: u32, bytes: u32) -> Option<Buffer> {
        let offset = offset % PAGE;
        let count = prp::pages_needed(u64::from(bytes), offset, PAGE).max(1);
        let first = memory.allocate(count as usize)?;
        let pages = (0..count).map(|page| first + page * PAGE_BYTES).collect();
        Some(Buffer { pages, offset, bytes, contiguous: true })
    }

    /// Like [`contiguous`](Buffer::contiguous), with no two pages adjacent: the worst case of fragmentation.
    pub fn scattered(memory: &Memory, offset: u32, bytes: u32) -> Option<Buffer> {
        let offset = offset % PAGE;
        let count = prp::pages_needed(u64::from(bytes), offset, PAGE).max(1);
        let mut pages = (0..count).map(|_| memory.allocate(1)).collect::<Option<Vec<u64>>>()?;
        pages.sort_unstable();
        pages.reverse();
        Some(Buffer { pages, offset, bytes, contiguous: false })
    }

    /// A buffer over the caller's pages: addresses of whole pages, sufficient for `bytes` from `offset` on.
    pub fn over(pages: Vec<u64>, offset: u32, bytes: u32) -> Option<Buffer> {
        let fits = offset < PAGE && prp::pages_needed(u64::from(bytes), offset, PAGE) <= pages.len() as u64;
        fits.then_some(Buffer { pages, offset, bytes, contiguous: false })
    }

    /// Returns the pages to `memory`. No command may use them any more.
    pub fn free(self, memory: &Memory) {
        match self.pages.first() {
            Some(first) if self.contiguous => memory.free(*first, self.pages.len()),
            _ => self.pages.iter().for_each(|page| memory.free(*page, 1)),
        }
    }

    /// Length of the payload in bytes.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Offset of the payload in the first page.
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// The pages' addresses.
    pub fn pages(&self) -> &[u64] {
        &self.pages
    }

    /// Pages that the first `bytes` of the payload touch.
    pub fn pages_touched(&self, bytes: u32) -> u32 {
        prp::pages_needed(u64::from(bytes), self.offset, PAGE) as u32
    }

    /// The first `bytes` of the payload as extents; adjacent pages form one extent.
    pub fn extents(&self, bytes: u32) -> Extents<'_> {
        Extents { pages: &self.pages, offset: self.offset, left: bytes.min(self.bytes) }
    }
}

/// Iterator of [`Buffer::extents`].
pub struct Extents<'a> {
    pages: &'a [u64],
    offset: u32,
    left: u32,
}

impl Iterator for Extents<'_> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        if self.left == 0 {
            return None;
        }
        let (first, mut rest) = self.pages.split_first()?;
        let address = first + u64::from(self.offset);
        let mut bytes = self.left.min(PAGE - self.offset);
        while bytes < self.left
            && let Some((next, further)) = rest.split_first()
            && *next == address + u64::from(bytes)
        {
            bytes = self.left.min(bytes + PAGE);
            rest = further;
        }
        self.pages = rest;
        self.offset = 0;
        self.left -= bytes;
        Some(Segment { address, bytes })
    }
}

/// The data pointer fields of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataPointer {
    /// PSDT 00b.
    Prp {
        /// PRP entry 1.
        prp1: u64,
        /// PRP entry 2: 0, the second page, or a list.
        prp2: u64,
    },
    /// PSDT 01b.
    Sgl(SglDescriptor),
}

impl DataPointer {
    /// The command with this data pointer.
    pub fn placed_in(self, sqe: Sqe) -> Sqe {
        match self {
            DataPointer::Prp { prp1, prp2 } => sqe.with_prp(prp1, prp2),
            DataPointer::Sgl(descriptor) => sqe.with_sgl(descriptor),
        }
    }
}
