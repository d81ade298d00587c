//! The host's memory: ranges of the device's address space, at which files, or memory without a file, are
//! mapped and unmapped.
//!
//! Each file has a canary page before and after its mapped part. Unmapped memory is kept with its contents at
//! that time, and checked at the end. A range that is mapped again gets new memory with the same contents, so
//! that a command that was submitted before and is fetched later has the intended effect.

use byteway_link::Fault;
use byteway_link::memory::{Access, Backing, Memory, PAGE_BYTES, Remote};
use rustix::fs::{MemfdFlags, memfd_create};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::{Rc, Weak};

const PAGE: usize = PAGE_BYTES as usize;

/// A range of the address space.
#[derive(Clone, Copy, Debug)]
pub struct AddressRange {
    pub base: u64,
    pub pages: u64,
    pub access: Access,
    pub has_file: bool,
}

impl AddressRange {
    fn end(&self) -> u64 {
        self.base + self.pages * PAGE_BYTES
    }

    fn bytes(&self) -> u64 {
        self.pages * PAGE_BYTES
    }

    /// Its contents, if it is read-only.
    fn pattern(&self) -> Vec<u8> {
        vec![0xA5; self.bytes() as usize]
    }
}

/// For queues and lists.
pub const QUEUES: usize = 0;
/// For data; the next range follows without a gap.
pub const DATA: usize = 1;
/// For more data.
pub const MORE_DATA: usize = 2;
/// Read-only.
pub const READ_ONLY: usize = 3;
/// Reached by messages.
pub const REMOTE: usize = 4;
/// Number of ranges.
pub const PLACES: usize = 8;

const PLACE: AddressRange = AddressRange { base: 0, pages: 12, access: Access::ReadWrite, has_file: true };

/// The ranges, by number.
const LAYOUT: [AddressRange; PLACES] = [
    AddressRange { base: 0x10_0000, pages: 20, ..PLACE },
    AddressRange { base: 0x20_0000, ..PLACE },
    AddressRange { base: 0x20_C000, ..PLACE },
    AddressRange { base: 0x30_0000, pages: 4, access: Access::Read, ..PLACE },
    AddressRange { base: 0x40_0000, has_file: false, ..PLACE },
    AddressRange { base: 0x50_0000, pages: 2, access: Access::None, ..PLACE },
    // Up to the last page but one of the address space.
    AddressRange { base: 0xFFFF_FFFF_FFFF_C000, pages: 3, ..PLACE },
    AddressRange { base: 0x60_0000, pages: 2, access: Access::Read, has_file: false },
];

/// The memory of a range at some time.
enum Store {
    File(File),
    Remote(Rc<Fake>),
}

/// The other process's memory, which answers messages.
struct Fake {
    arena: Weak<Arena>,
    place: AddressRange,
    bytes: RefCell<Vec<u8>>,
    is_mapped: Cell<bool>,
    /// Refuses all accesses after this many.
    patience: Cell<u32>,
    /// Unmaps this range before the next access.
    unmaps: Cell<Option<usize>>,
}

impl Fake {
    fn range(&self, address: u64, bytes: usize) -> Result<std::ops::Range<usize>, Fault> {
        assert!(self.is_mapped.get(), "memory that is not mapped is asked for");
        let end = address.checked_add(bytes as u64).expect("an extent that does not wrap is asked for");
        assert!(address >= self.place.base && end <= self.place.end(), "within the region is asked for");
        if let (Some(place), Some(arena)) = (self.unmaps.take(), self.arena.upgrade()) {
            arena.unmap(place);
        }
        match self.patience.get() {
            0 => Err(Fault { address, bytes: bytes as u64 }),
            _ if !self.is_mapped.get() => Err(Fault { address, bytes: bytes as u64 }),
            left => {
                self.patience.set(left - 1);
                let from = (address - self.place.base) as usize;
                Ok(from..from + bytes)
            }
        }
    }
}

impl Remote for Fake {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let range = self.range(address, into.len())?;
        into.copy_from_slice(&self.bytes.borrow()[range]);
        Ok(())
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        let range = self.range(address, from.len())?;
        assert_eq!(self.place.access, Access::ReadWrite, "what may only be read is written");
        self.bytes.borrow_mut()[range].copy_from_slice(from);
        Ok(())
    }
}

/// Memory that a range had, as it was when it was unmapped.
struct Retired {
    store: Store,
    held: Vec<u8>,
    /// Which of the range's memories it was.
    number: u32,
}

struct Slot {
    place: AddressRange,
    store: Store,
    number: u32,
    is_mapped: bool,
    /// The pages that the file still has.
    pages: u64,
    retired: Vec<Retired>,
}

/// All ranges.
pub struct Arena {
    memory: Memory,
    slots: Vec<RefCell<Slot>>,
    /// Remaining number of unmappings: each leaves memory to check.
    unmaps_left: Cell<u32>,
}

impl Arena {
    /// For the device's `memory`; initially nothing is mapped.
    pub fn new(memory: &Memory) -> Rc<Self> {
        Rc::new_cyclic(|arena| {
            let slot = |place: &AddressRange| {
                let held = match place.access {
                    Access::Read => place.pattern(),
                    _ => vec![0; place.bytes() as usize],
                };
                RefCell::new(Slot {
                    place: *place,
                    store: Store::new(place, &held, arena),
                    number: 0,
                    is_mapped: false,
                    pages: place.pages,
                    retired: Vec::new(),
                })
            };
            let slots = LAYOUT.iter().map(slot).collect();
            Arena { memory: memory.clone(), slots, unmaps_left: Cell::new(24) }
        })
    }

    /// Maps a range, unless it is mapped.
    pub fn map(&self, place: usize) {
        let mut slot = self.slots[place].borrow_mut();
        if slot.is_mapped {
            return;
        }
        let AddressRange { base, access, .. } = slot.place;
        let bytes = slot.place.bytes();
        let mapped = match &slot.store {
            Store::File(file) => {
                self.memory.map(base, bytes, Backing::File { file, offset: PAGE_BYTES }, access)
            }
            Store::Remote(fake) => self.memory.map(base, bytes, Backing::Remote(fake.clone()), access),
        };
        mapped.expect("whole pages that overlap nothing can be mapped");
        slot.is_mapped = true;
        if let Store::Remote(fake) = &slot.store {
            fake.is_mapped.set(true);
        }
    }

    /// Unmaps a range. Returns false if it is not mapped.
    pub fn unmap(self: &Rc<Self>, place: usize) -> bool {
        let mut slot = self.slots[place].borrow_mut();
        if !slot.is_mapped || self.unmaps_left.get() == 0 {
            return false;
        }
        self.unmaps_left.set(self.unmaps_left.get() - 1);
        self.memory.unmap(slot.place.base, slot.place.bytes()).expect("what is mapped can be unmapped");
        slot.retire(&Rc::downgrade(self));
        true
    }

    /// Notes that the device has unmapped everything by itself.
    pub fn was_detached(self: &Rc<Self>) {
        for slot in &self.slots {
            let mut slot = slot.borrow_mut();
            if slot.is_mapped {
                slot.retire(&Rc::downgrade(self));
            }
        }
    }

    /// Truncates the file of a mapped range. Returns false if it has none, or is that short already.
    pub fn truncate(&self, place: usize, pages: u64) -> bool {
        let mut slot = self.slots[place].borrow_mut();
        let pages = pages.min(slot.pages);
        match &slot.store {
            Store::File(file) if slot.is_mapped && pages < slot.pages => {
                file.set_len((1 + pages) * PAGE_BYTES).expect("a file can be made shorter");
                slot.pages = pages;
                true
            }
            _ => false,
        }
    }

    /// Whether a range has lost pages.
    pub fn is_cut(&self, place: usize) -> bool {
        let slot = self.slots[place].borrow();
        slot.pages < slot.place.pages
    }

    /// Whether a range is mapped.
    pub fn is_mapped(&self, place: usize) -> bool {
        self.slots[place].borrow().is_mapped
    }

    /// The process refuses accesses after `accesses`; before the next one it unmaps `place`.
    pub fn misbehave(&self, accesses: u32, place: Option<usize>) {
        if let Store::Remote(fake) = &self.slots[REMOTE].borrow().store {
            fake.patience.set(accesses);
            fake.unmaps.set(place);
        }
    }

    /// Start address of a range.
    pub fn base(place: usize) -> u64 {
        LAYOUT[place].base
    }

    /// Number of pages of a range.
    pub fn pages(place: usize) -> u64 {
        LAYOUT[place].pages
    }

    /// The ranges that an extent touches.
    pub fn places(address: u64, bytes: u64) -> impl Iterator<Item = usize> {
        let end = address.saturating_add(bytes);
        (0..PLACES).filter(move |place| address < LAYOUT[*place].end() && LAYOUT[*place].base < end)
    }

    /// The number of a range's current memory.
    pub fn number(&self, place: usize) -> u32 {
        self.slots[place].borrow().number
    }

    /// Stores of the host. Bytes in no range, or in a lost page, are dropped; memory that is read-only for
    /// the device does not change.
    pub fn poke(&self, address: u64, bytes: &[u8]) {
        self.each(address, bytes.len(), |slot, at, range| {
            if slot.place.access == Access::Read {
                return;
            }
            match &slot.store {
                Store::File(file) => {
                    let room = (slot.pages as usize * PAGE).saturating_sub(at).min(range.len());
                    let part = &bytes[range.start..range.start + room];
                    file.write_all_at(part, (PAGE + at) as u64).expect("memory can be written");
                }
                Store::Remote(fake) => {
                    fake.bytes.borrow_mut()[at..at + range.len()].copy_from_slice(&bytes[range]);
                }
            }
        });
    }

    /// Loads of the host; missing memory reads as zeroes.
    pub fn peek(&self, address: u64, into: &mut [u8]) {
        into.fill(0);
        self.each(address, into.len(), |slot, at, range| slot.store.read(at, &mut into[range]));
    }

    /// The same from earlier memories of a range, from `number` on.
    pub fn peek_before(&self, place: usize, number: u32, address: u64, bytes: usize) -> Vec<Vec<u8>> {
        let slot = self.slots[place].borrow();
        let at = (address - slot.place.base) as usize;
        let retired = slot.retired.iter().filter(|retired| retired.number >= number);
        retired.map(|retired| retired.held[at..at + bytes].to_vec()).collect()
    }

    fn each(&self, address: u64, bytes: usize, mut act: impl FnMut(&Slot, usize, std::ops::Range<usize>)) {
        let end = address.saturating_add(bytes as u64);
        for slot in &self.slots {
            let slot = slot.borrow();
            let (from, to) = (address.max(slot.place.base), end.min(slot.place.end()));
            if from < to {
                let range = (from - address) as usize..(to - address) as usize;
                act(&slot, (from - slot.place.base) as usize, range);
            }
        }
    }

    /// Asserts that nothing was written that must not be: canary pages, read-only memory, and memory that had
    /// been unmapped.
    pub fn check(&self) {
        for (place, slot) in self.slots.iter().enumerate() {
            let slot = slot.borrow();
            slot.store.check_canaries(&slot.place, slot.pages);
            if slot.place.access == Access::Read && slot.pages == slot.place.pages {
                let mut held = vec![0; slot.place.bytes() as usize];
                slot.store.read(0, &mut held);
                assert!(held == slot.place.pattern(), "read-only memory was written, at place {place}");
            }
            for Retired { store, held, number } in &slot.retired {
                let mut now = vec![0; held.len()];
                store.read(0, &mut now);
                if now != *held {
                    let at = now.iter().zip(held).position(|(is, was)| is != was);
                    panic!("unmapped memory was written: place {place}, its memory {number}, at {at:?}");
                }
                // Truncated or not, the page before it exists.
                store.check_canaries(&slot.place, 0);
            }
        }
    }
}

impl Slot {
    /// After unmapping: keeps the memory as it is; the next time the range gets new memory with the same
    /// contents.
    fn retire(&mut self, arena: &Weak<Arena>) {
        let mut held = vec![0; self.place.bytes() as usize];
        self.store.read(0, &mut held);
        let next = match self.place.access {
            Access::Read => Store::new(&self.place, &self.place.pattern(), arena), // also if it was truncated
            _ => Store::new(&self.place, &held, arena),
        };
        let store = std::mem::replace(&mut self.store, next);
        if let Store::Remote(fake) = &store {
            fake.is_mapped.set(false);
        }
        self.retired.push(Retired { store, held, number: self.number });
        self.number += 1;
        self.pages = self.place.pages;
        self.is_mapped = false;
    }
}

/// The canary pages around a mapping.
const CANARY: [u8; PAGE] = [0xC7; PAGE];

impl Store {
    fn new(place: &AddressRange, held: &[u8], arena: &Weak<Arena>) -> Store {
        if !place.has_file {
            return Store::Remote(Rc::new(Fake {
                arena: arena.clone(),
                place: *place,
                bytes: RefCell::new(held.to_vec()),
                is_mapped: Cell::new(false),
                patience: Cell::new(u32::MAX),
                unmaps: Cell::new(None),
            }));
        }
        let file = File::from(memfd_create("fuzz", MemfdFlags::CLOEXEC).expect("the system has memory"));
        file.set_len((place.pages + 2) * PAGE_BYTES).expect("a file can grow");
        let write = |page: u64, bytes: &[u8]| {
            file.write_all_at(bytes, page * PAGE_BYTES).expect("memory can be written");
        };
        write(0, &CANARY);
        write(1 + place.pages, &CANARY);
        for (page, bytes) in held.chunks(PAGE).enumerate() {
            if *bytes != [0; PAGE] {
                write(1 + page as u64, bytes);
            }
        }
        Store::File(file)
    }

    /// Missing memory reads as zeroes.
    fn read(&self, at: usize, mut into: &mut [u8]) {
        match self {
            Store::Remote(fake) => into.copy_from_slice(&fake.bytes.borrow()[at..at + into.len()]),
            Store::File(file) => {
                let mut from = (PAGE + at) as u64;
                into.fill(0);
                while !into.is_empty() {
                    let count = file.read_at(into, from).expect("memory can be read");
                    if count == 0 {
                        return;
                    }
                    into = &mut into[count..];
                    from += count as u64;
                }
            }
        }
    }

    fn check_canaries(&self, place: &AddressRange, pages: u64) {
        let Store::File(file) = self else { return };
        let mut page = [0; PAGE];
        file.read_exact_at(&mut page, 0).expect("memory can be read");
        assert!(page == CANARY, "the page in front of a region was written");
        if pages == place.pages {
            file.read_exact_at(&mut page, (1 + pages) * PAGE_BYTES).expect("memory can be read");
            assert!(page == CANARY, "the page behind a region was written");
        }
    }
}
