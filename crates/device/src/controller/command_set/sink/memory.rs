//! The memory of the payload sink.

use std::cell::RefCell;

/// Granularity of allocation, in bytes: small, because random writes are short.
const PAGE: usize = 512;
/// Pages in a table: 2 MiB.
const TABLE: usize = 4096;

type Table = Box<[Option<Box<[u8; PAGE]>>; TABLE]>;

/// Sparse memory: bytes that were never written are zeroes and take no memory. A reset keeps it.
pub struct SinkMemory {
    bytes: u64,
    tables: RefCell<Vec<Option<Table>>>,
}

impl SinkMemory {
    /// Memory of `bytes` zeroes.
    pub fn new(bytes: u64) -> Self {
        SinkMemory { bytes, tables: RefCell::default() }
    }

    /// Zeroes everything.
    pub fn clear(&self) {
        self.tables.borrow_mut().clear();
    }

    /// Whether an extent lies within the sink.
    pub fn holds(&self, offset: u64, bytes: u64) -> bool {
        offset.checked_add(bytes).is_some_and(|end| end <= self.bytes)
    }

    /// Stores `bytes` at `offset`. The extent must lie within the sink.
    pub fn write(&self, offset: u64, mut bytes: &[u8]) {
        debug_assert!(self.holds(offset, bytes.len() as u64), "commands are checked before");
        let mut tables = self.tables.borrow_mut();
        let mut at = offset as usize;
        while !bytes.is_empty() {
            let (page, start) = (at / PAGE, at % PAGE);
            let (now, later) = bytes.split_at(bytes.len().min(PAGE - start));
            if page / TABLE >= tables.len() {
                tables.resize_with(page / TABLE + 1, || None);
            }
            let table = tables[page / TABLE].get_or_insert_with(|| Box::new([const { None }; TABLE]));
            let held = table[page % TABLE].get_or_insert_with(|| Box::new([0; PAGE]));
            held[start..start + now.len()].copy_from_slice(now);
            (at, bytes) = (at + now.len(), later);
        }
    }

    /// Appends `bytes` bytes at `offset` to `into`. The extent must lie within the sink.
    pub fn read(&self, offset: u64, bytes: u32, into: &mut Vec<u8>) {
        debug_assert!(self.holds(offset, u64::from(bytes)), "commands are checked before");
        let tables = self.tables.borrow();
        let (mut at, end) = (offset as usize, offset as usize + bytes as usize);
        while at < end {
            let (page, start) = (at / PAGE, at % PAGE);
            let count = (end - at).min(PAGE - start);
            let table = tables.get(page / TABLE).and_then(Option::as_ref);
            match table.and_then(|table| table[page % TABLE].as_ref()) {
                Some(held) => into.extend_from_slice(&held[start..start + count]),
                None => into.resize(into.len() + count, 0),
            }
            at += count;
        }
    }
}
