//! Memory shared with another process, through two mappings of one memfd; and memory of another process whose
//! regions are mapped and unmapped.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use byteway_clock::{Delay, Executor, Timing};
use byteway_content::{Content, Keep};
use byteway_link::memory::{Access, Backing, MapError, Mapped, PAGE_BYTES, Remote};
use byteway_link::{DeviceEnd, Direction, Epoch, Fault, HostEnd, Link, Memory, Purpose};
use byteway_testkit::link_config;
use byteway_wire::nvme::Segment;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

fn memfd(bytes: u64) -> File {
    let fd = rustix::fs::memfd_create("byteway-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let file = File::from(fd);
    file.set_len(bytes).unwrap();
    file
}

// Data written on one side must be readable on the other, at any alignment; accesses outside must be refused
// on both.
#[test]
fn two_mappings_see_one_memory() {
    let file = memfd(64 << 10);
    let left = Memory::mapped(Mapped::new(&file, 0x10_0000, 64 << 10).unwrap());
    let right = Memory::mapped(Mapped::new(&file, 0x10_0000, 64 << 10).unwrap());
    for (offset, length) in [(0u64, 4096usize), (1, 17), (8, 8), (4095, 2), (65535, 1), (12, 100)] {
        let bytes: Vec<u8> = (0..length).map(|i| (i as u64 * 7 + offset) as u8).collect();
        left.write(0x10_0000 + offset, &bytes).unwrap();
        let mut back = vec![0; length];
        right.read(0x10_0000 + offset, &mut back).unwrap();
        assert_eq!(bytes, back, "{length} bytes at {offset}");
        right.with(0x10_0000 + offset, length, |seen| assert_eq!(seen, bytes)).unwrap();
    }
    left.store32(0x10_0010, 0xdead_beef).unwrap();
    assert_eq!(right.load32(0x10_0010).unwrap(), 0xdead_beef);
    let entry: [u8; 16] = std::array::from_fn(|index| index as u8 + 1);
    left.dma_post(0x10_0020, &entry).unwrap();
    assert_eq!(right.load_entry(0x10_0020), Ok(entry));
    assert!(right.load_entry(0x10_0028).is_err() && right.load_entry(0x11_0000).is_err());
    for (address, length) in [(0, 1), (0x10_0000 - 1, 2), (0x11_0000, 1), (0x10_ffff, 2), (u64::MAX, 8)] {
        assert!(left.read(address, &mut vec![0; length]).is_err(), "{length} bytes at {address:#x}");
        assert!(left.write(address, &vec![0; length]).is_err());
    }
    assert!(left.check(0x10_0000, u64::MAX).is_err());
    assert!(left.with(0x10_0000, usize::MAX, |_| ()).is_err(), "no copy of a size that the other side chose");
    assert!(left.load32(0x10_0002).is_err(), "words are aligned");
    assert!(Mapped::new(&file, 0, 128 << 10).is_err(), "not beyond the file");
}

const BASE: u64 = 0x10_0000;

fn map(memory: &Memory, base: u64, pages: u64, file: &File, page: u64, access: Access) {
    let backing = Backing::File { file, offset: page * PAGE_BYTES };
    memory.map(base, pages * PAGE_BYTES, backing, access).unwrap();
}

fn byte_of(file: &File, at: u64) -> u8 {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    byte[0]
}

/// Every way to write one byte or more at `address`, a multiple of 16, must fault.
fn assert_no_write(memory: &Memory, address: u64) {
    assert!(memory.write(address, &[1]).is_err());
    assert!(memory.store32(address, 1).is_err());
    assert!(memory.dma_post(address, &[1; 16]).is_err());
    assert!(memory.with_mut(address, 8, |_| panic!("nothing is to be filled")).is_err());
    assert!(memory.dma_write(address, &[1; 600], Epoch::LAST).is_err());
    assert!(memory.dma_write_content(address, &Content::Zero, 0, 512, Epoch::LAST).is_err());
    assert!(memory.check_dma(address, 1, Direction::Up, Epoch::LAST).is_err());
}

/// Every way to read there must fault.
fn assert_no_read(memory: &Memory, address: u64) {
    assert!(memory.read(address, &mut [0]).is_err());
    assert!(memory.load32(address).is_err());
    assert!(memory.with(address, 8, |_| panic!("nothing is to be seen")).is_err());
    assert!(memory.dma_read(address, 600, Epoch::LAST, |_| panic!("nothing is to be seen")).is_err());
    assert!(memory.dma_read_into(address, &mut [0; 64], Epoch::LAST).is_err());
    assert!(memory.check(address, 1).is_err());
    assert!(memory.check_dma(address, 1, Direction::Down, Epoch::LAST).is_err());
}

// A guest's memory is several regions of one file, not in the file's order: an extent over two must reach
// both, and one over a gap none.
#[test]
fn an_extent_may_span_regions_but_no_gap() {
    let file = memfd(16 * PAGE_BYTES);
    let memory = Memory::guest();
    map(&memory, BASE, 2, &file, 8, Access::ReadWrite);
    map(&memory, BASE + 2 * PAGE_BYTES, 1, &file, 0, Access::ReadWrite);
    map(&memory, BASE + 4 * PAGE_BYTES, 1, &file, 4, Access::ReadWrite);
    for length in [16usize, 200, 4096] {
        let start = BASE + 2 * PAGE_BYTES - 8;
        let bytes: Vec<u8> = (0..length).map(|i| i as u8 | 1).collect();
        memory.write(start, &bytes).unwrap();
        assert_eq!(byte_of(&file, 10 * PAGE_BYTES - 8), bytes[0]);
        assert_eq!(byte_of(&file, 0), bytes[8], "the second region begins the file");
        memory.with(start, length, |seen| assert_eq!(seen, bytes)).unwrap();
        let mut back = vec![0; length];
        memory.dma_read_into(start, &mut back, memory.epoch()).unwrap();
        assert_eq!(back, bytes);
    }
    let gap = BASE + 3 * PAGE_BYTES - 8;
    assert_eq!(memory.write(gap, &[0xee; 16]), Err(Fault { address: gap, bytes: 16 }));
    assert_eq!(byte_of(&file, PAGE_BYTES - 1), 0, "nothing before the gap was touched");
    assert!(memory.read(gap, &mut [0; 16]).is_err());
    assert!(memory.check(BASE, 3 * PAGE_BYTES).is_ok());
    assert!(memory.check(BASE, 3 * PAGE_BYTES + 1).is_err());
    assert!(memory.check(BASE, 5 * PAGE_BYTES).is_err(), "not over the gap");
}

// Memory given for reading only must not be written, whatever a command says; a store to it would end the
// process.
#[test]
fn access_is_what_the_host_said() {
    let file = memfd(4 * PAGE_BYTES);
    file.write_all_at(&[7; 64], 0).unwrap();
    let memory = Memory::guest();
    map(&memory, BASE, 1, &file, 0, Access::Read);
    map(&memory, BASE + PAGE_BYTES, 1, &file, 1, Access::ReadWrite);
    map(&memory, BASE + 2 * PAGE_BYTES, 1, &file, 2, Access::None);
    assert_eq!(memory.load32(BASE).unwrap(), 0x0707_0707);
    assert_no_write(&memory, BASE);
    let across = BASE + PAGE_BYTES - 4;
    assert!(memory.write(across, &[1; 8]).is_err(), "from a region for reading into another");
    assert!(memory.read(across, &mut [0; 8]).is_ok());
    assert_no_write(&memory, BASE + 2 * PAGE_BYTES);
    assert_no_read(&memory, BASE + 2 * PAGE_BYTES);
    assert_eq!(byte_of(&file, 0), 7);
    assert_eq!(byte_of(&file, PAGE_BYTES), 0);
    let taken = memory.map(
        BASE + 2 * PAGE_BYTES,
        PAGE_BYTES,
        Backing::Remote(Rc::new(Elsewhere::new(0))),
        Access::Read,
    );
    assert!(matches!(taken, Err(MapError::Overlap)), "the addresses are taken");
}

// A mapping request in a message is any three numbers and any descriptor.
#[test]
fn what_can_not_be_mapped_is_an_error() {
    let file = memfd(4 * PAGE_BYTES);
    let memory = Memory::guest();
    let page = PAGE_BYTES;
    let last_page = u64::MAX - page + 1;
    for (base, bytes, offset) in [
        (0, 0, 0),
        (1, page, 0),
        (0, page - 1, 0),
        (0, page, 1),
        (0, 5 * page, 0),
        (0, page, 4 * page),
        (0, page, last_page),
        (0, last_page, 0),
        (0, last_page, page),
        (last_page, page, 0),
        (last_page, 2 * page, 0),
        (u64::MAX, u64::MAX, u64::MAX),
    ] {
        let mapped = memory.map(base, bytes, Backing::File { file: &file, offset }, Access::ReadWrite);
        assert!(
            matches!(mapped, Err(MapError::Extent)),
            "{bytes:#x} at {base:#x} from {offset:#x}: {mapped:?}"
        );
    }
    let remote = || Backing::Remote(Rc::new(Elsewhere::new(0)));
    assert!(matches!(memory.map(last_page, page, remote(), Access::Read), Err(MapError::Extent)));
    let (pipe, _writer) = rustix::pipe::pipe().unwrap();
    let directory = File::open("/").unwrap();
    for other in [File::from(pipe), File::open("/dev/zero").unwrap(), directory] {
        let mapped = memory.map(0, page, Backing::File { file: &other, offset: 0 }, Access::ReadWrite);
        assert!(matches!(mapped, Err(MapError::System(_))), "{other:?}: {mapped:?}");
    }
    // A file without bytes can claim any length.
    let sparse = memfd(1 << 62);
    let mapped = memory.map(0, 1 << 62, Backing::File { file: &sparse, offset: 0 }, Access::ReadWrite);
    assert!(matches!(mapped, Err(MapError::System(_))), "{mapped:?}");
    assert!(memory.check(0, 1).is_err(), "nothing came of all this");
    map(&memory, 4 * page, 2, &file, 0, Access::ReadWrite);
    for (base, bytes) in [(4, 1), (5, 1), (4, 2), (3, 2), (5, 2), (0, 16)] {
        let mapped = memory.map(base * page, bytes * page, remote(), Access::ReadWrite);
        assert!(matches!(mapped, Err(MapError::Overlap)), "{bytes} pages at page {base}");
    }
    assert!(memory.map(3 * page, page, remote(), Access::Read).is_ok());
    assert!(memory.map(6 * page, page, remote(), Access::Read).is_ok());
    let simulated = Memory::simulated();
    assert!(matches!(simulated.map(0, page, remote(), Access::Read), Err(MapError::System(_))));
    assert!(matches!(simulated.unmap(0, page), Err(MapError::Unknown)));
}

// Regions cost memory of this process, so a host must not choose how much.
#[test]
fn the_number_of_regions_is_bounded() {
    let file = memfd(PAGE_BYTES);
    let memory = Memory::guest();
    for index in 0..1024 {
        map(&memory, BASE + 2 * index * PAGE_BYTES, 1, &file, 0, Access::ReadWrite);
    }
    let one_more = memory.map(0, PAGE_BYTES, Backing::File { file: &file, offset: 0 }, Access::ReadWrite);
    assert!(matches!(one_more, Err(MapError::TooMany)));
    memory.unmap_all();
    map(&memory, 0, 1, &file, 0, Access::ReadWrite);
}

// vfio's rule: whole regions are unmapped, or none; half a region left behind would be memory that the host
// believes is free.
#[test]
fn unmapping_takes_whole_regions_or_nothing() {
    let file = memfd(8 * PAGE_BYTES);
    let memory = Memory::guest();
    let at = |page: u64| BASE + page * PAGE_BYTES;
    for (page, count) in [(0, 2), (2, 1), (5, 2)] {
        map(&memory, at(page), count, &file, 0, Access::ReadWrite);
    }
    let first = memory.epoch();
    for (page, count) in [(0, 1), (1, 1), (1, 2), (0, 6), (3, 2), (6, 1), (7, 100), (3, 3)] {
        let unmapped = memory.unmap(at(page), count * PAGE_BYTES);
        assert!(matches!(unmapped, Err(MapError::Unknown)), "{count} pages at page {page}: {unmapped:?}");
    }
    for (base, bytes) in
        [(at(0), 0), (at(0) + 1, PAGE_BYTES), (at(0), 1), (at(1), u64::MAX), (u64::MAX, u64::MAX)]
    {
        let unmapped = memory.unmap(base, bytes);
        assert!(matches!(unmapped, Err(MapError::Extent)), "{bytes:#x} at {base:#x}: {unmapped:?}");
    }
    assert_eq!(memory.epoch(), first);
    assert!(memory.check(at(0), 3 * PAGE_BYTES).is_ok() && memory.check(at(5), 2 * PAGE_BYTES).is_ok());
    memory.unmap(at(0), 4 * PAGE_BYTES).unwrap(); // two regions and a gap behind them
    assert!(memory.epoch() > first);
    assert_no_read(&memory, at(0));
    assert_no_read(&memory, at(2));
    assert!(memory.check(at(5), 1).is_ok());
    memory.unmap(0, u64::MAX - PAGE_BYTES + 1).unwrap();
    assert_no_read(&memory, at(5));
    let empty = memory.epoch();
    memory.unmap_all();
    assert_eq!(memory.epoch(), empty, "nothing has gone");
    map(&memory, at(0), 1, &file, 0, Access::ReadWrite);
    memory.unmap_all();
    assert!(memory.epoch() > empty);
    assert_no_write(&memory, at(0));
}

// A table that fails after some thousand changes would give one guest page for another. Checked against a map
// of pages.
#[test]
fn regions_agree_with_a_map_of_pages() {
    const PAGES: u64 = 24;
    let file = memfd(PAGES * PAGE_BYTES);
    for page in 0..PAGES {
        file.write_all_at(&[page as u8 + 1; PAGE_BYTES as usize], page * PAGE_BYTES).unwrap();
    }
    let memory = Memory::guest();
    let mut pages: BTreeMap<u64, u64> = BTreeMap::new();
    let mut regions: Vec<(u64, u64)> = Vec::new();
    let mut state = 0x5eed_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for step in 0..4000 {
        let (base, count, page) = (random(PAGES), random(4) + 1, random(PAGES - 4));
        let end = base + count;
        if random(2) == 0 {
            let backing = Backing::File { file: &file, offset: page * PAGE_BYTES };
            let mapped = memory.map(base * PAGE_BYTES, count * PAGE_BYTES, backing, Access::ReadWrite);
            let is_free = (base..end).all(|at| !pages.contains_key(&at));
            assert_eq!(mapped.is_ok(), is_free, "step {step}");
            if is_free {
                pages.extend((0..count).map(|at| (base + at, page + at)));
                regions.push((base, end));
            }
        } else {
            let unmapped = memory.unmap(base * PAGE_BYTES, count * PAGE_BYTES);
            let touched = |region: &&(u64, u64)| region.0 < end && region.1 > base;
            let whole = |region: &(u64, u64)| region.0 >= base && region.1 <= end;
            let mut inside = regions.iter().filter(touched).peekable();
            let is_whole = inside.peek().is_some() && inside.all(whole);
            assert_eq!(unmapped.is_ok(), is_whole, "step {step}");
            if is_whole {
                regions.retain(|region| !whole(region));
                pages.retain(|at, _| !(base..end).contains(at));
            }
        }
        let (first, count) = (random(PAGES + 2), random(4) + 1);
        let mut seen = vec![0; (count * PAGE_BYTES) as usize];
        let read = memory.read(first * PAGE_BYTES, &mut seen);
        let expected: Option<Vec<u64>> = (first..first + count).map(|at| pages.get(&at).copied()).collect();
        assert_eq!(read.is_ok(), expected.is_some(), "step {step}");
        for (page, part) in expected.into_iter().flatten().zip(seen.chunks(PAGE_BYTES as usize)) {
            assert!(part.iter().all(|byte| u64::from(*byte) == page + 1), "step {step}");
        }
    }
}

// The purpose of unmapping: data of an earlier command must not land in what the host has mapped there since.
#[test]
fn what_was_checked_before_an_unmapping_never_lands_behind_it() {
    let file = memfd(4 * PAGE_BYTES);
    let memory = Memory::guest();
    map(&memory, BASE, 1, &file, 0, Access::ReadWrite);
    let before = memory.epoch();
    map(&memory, BASE + PAGE_BYTES, 1, &file, 1, Access::ReadWrite);
    assert!(memory.check_dma(BASE, 2 * PAGE_BYTES, Direction::Up, before).is_ok(), "nothing has gone yet");
    memory.unmap(BASE, PAGE_BYTES).unwrap();
    map(&memory, BASE, 1, &file, 2, Access::ReadWrite);
    assert!(memory.dma_write(BASE, &[1; 8], before).is_err());
    assert!(memory.dma_write(BASE + PAGE_BYTES - 8, &[1; 16], before).is_err(), "begins there");
    assert!(memory.dma_write_content(BASE, &Content::Zero, 0, 4096, before).is_err());
    assert!(memory.dma_read(BASE, 8, before, |_| panic!("not what the host meant")).is_err());
    assert!(memory.dma_read_into(BASE, &mut [0; 8], before).is_err());
    assert!(memory.check_dma(BASE, 8, Direction::Up, before).is_err());
    assert_eq!(byte_of(&file, 2 * PAGE_BYTES), 0);
    assert_eq!(byte_of(&file, 3 * PAGE_BYTES - 1), 0);
    assert!(memory.dma_write(BASE + PAGE_BYTES, &[1; 8], before).is_ok(), "this one has stayed");
    assert!(memory.dma_write(BASE, &[1; 8], memory.epoch()).is_ok());
    assert!(memory.dma_post(BASE, &[1; 16]).is_ok(), "a queue is not a transfer");
    assert_eq!(
        (memory.dma_read_bytes(), memory.dma_written_bytes()),
        (0, 8 + 8 + 16),
        "what failed is not counted"
    );
}

// The same across the link: payload in flight when the region goes, and a read that is half done.
#[test]
fn payload_in_flight_when_its_region_goes_is_lost() {
    let file = memfd(32 * PAGE_BYTES);
    let executor = Executor::new();
    let memory = Memory::guest();
    map(&memory, BASE, 16, &file, 0, Access::ReadWrite);
    let (host, device) = Link::connect(executor.clock(), link_config(), memory.clone());
    let test_file = file.try_clone().unwrap();
    let replace = move |memory: &Memory| {
        memory.unmap(BASE, 16 * PAGE_BYTES).unwrap();
        map(memory, BASE, 16, &test_file, 16, Access::ReadWrite);
    };
    let test = async move {
        let clock = device.clock().clone();
        let epoch = device.epoch();
        let content = Content::of(&[9; 4096], Keep::Bytes);
        let sent = device.write_content(BASE, content.clone(), 0, 4096, epoch, Purpose::Data).unwrap();
        device.write_bytes(BASE + 4096, [9; 64].into(), epoch, Purpose::Data).unwrap();
        replace(&memory);
        clock.sleep_until(sent.arrival + Delay::from_us(1)).await;
        assert_eq!((host.memory().dma_written_bytes(), device.faults()), (0, 2));
        let again = device.write_content(BASE, content, 0, 4096, epoch, Purpose::Data);
        assert!(again.is_err(), "and what is still to be sent fails");

        let epoch = device.epoch();
        let segment = Segment { address: BASE, bytes: 16 * 4096 };
        let waiting = clock.clone();
        clock.spawn("the host", async move {
            waiting.sleep(Delay::from_us(3)).await;
            replace(&memory);
        });
        let mut seen = 0;
        let read = device
            .gather([segment], epoch, 1, Purpose::Data, |_: usize, part: &[u8]| seen += part.len())
            .await;
        assert!(read.is_err());
        assert!(seen > 0 && seen < 16 * 4096, "{seen} bytes were taken before the region went");
        assert!(device.tags_free());
        let mut entry = [0; 64];
        device.read(BASE, &mut entry, Purpose::SqeFetch).await.unwrap();
    };
    executor.run(test).unwrap();
    assert!((0..32).all(|page| byte_of(&file, page * PAGE_BYTES) == 0));
}

// A command whose data have left completes successfully: before the memory is unmapped they must arrive, and
// the completion behind them no sooner.
#[test]
fn payload_that_is_hastened_arrives_before_its_region_goes() {
    let file = memfd(16 * PAGE_BYTES);
    let executor = Executor::new();
    let memory = Memory::guest();
    map(&memory, BASE, 16, &file, 0, Access::ReadWrite);
    let (host, device) = Link::connect(executor.clock(), link_config(), memory.clone());
    let messages = Rc::new(Cell::new(0));
    let counted = messages.clone();
    host.on_interrupt(Rc::new(move |_| counted.set(counted.get() + 1)));
    let test = async move {
        let content = Content::of(&[9; 4096], Keep::Bytes);
        let epoch = device.epoch();
        device.write_content(BASE, content, 0, 4096, epoch, Purpose::Data).unwrap();
        device.post(BASE + 4096, [7; 16]).unwrap();
        device.interrupt(3);
        assert!(!device.has_arrived());
        host.land_posted_writes();
        memory.unmap(BASE, 16 * PAGE_BYTES).unwrap();
        assert!(device.has_arrived());
        device.clock().sleep(Delay::from_us(5)).await; // no wake is left
        assert_eq!((device.faults(), messages.get()), (0, 1));
    };
    executor.run(test).unwrap();
    assert_eq!((byte_of(&file, 4095), byte_of(&file, 4096), byte_of(&file, 4112)), (9, 7, 0));
}

/// Memory reached by messages: 64 KiB at an address.
struct Elsewhere {
    base: u64,
    bytes: RefCell<Vec<u8>>,
    writes: RefCell<Vec<(u64, usize)>>,
    has_gone: Cell<bool>,
}

impl Elsewhere {
    fn new(base: u64) -> Self {
        let (bytes, writes) = (RefCell::new(vec![0; 64 << 10]), RefCell::default());
        Elsewhere { base, bytes, writes, has_gone: Cell::default() }
    }

    fn range(&self, address: u64, bytes: usize) -> Result<std::ops::Range<usize>, Fault> {
        if self.has_gone.get() {
            return Err(Fault { address, bytes: bytes as u64 });
        }
        let start = (address - self.base) as usize;
        Ok(start..start + bytes)
    }
}

impl Remote for Elsewhere {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        into.copy_from_slice(&self.bytes.borrow()[self.range(address, into.len())?]);
        Ok(())
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        self.bytes.borrow_mut()[self.range(address, from.len())?].copy_from_slice(from);
        self.writes.borrow_mut().push((address, from.len()));
        Ok(())
    }
}

// A host may share none of its memory: everything, queues too, then goes by messages, and a completion in one
// of them.
#[test]
fn memory_behind_messages_does_all_that_shared_memory_does() {
    let file = memfd(PAGE_BYTES);
    let memory = Memory::guest();
    let remote = Rc::new(Elsewhere::new(BASE));
    memory.map(BASE, 16 * PAGE_BYTES, Backing::Remote(remote.clone()), Access::ReadWrite).unwrap();
    map(&memory, BASE + 16 * PAGE_BYTES, 1, &file, 0, Access::ReadWrite);
    let across = BASE + 16 * PAGE_BYTES - 100;
    let bytes: Vec<u8> = (0..200).collect();
    memory.write(across, &bytes).unwrap();
    memory.with(across, 200, |seen| assert_eq!(seen, bytes)).unwrap();
    assert_eq!(byte_of(&file, 0), 100);
    memory.with_mut(BASE + 3, 5, |part| part.fill(5)).unwrap();
    memory.store32(BASE + 8, 0x0102_0304).unwrap();
    assert_eq!(memory.load32(BASE + 8).unwrap(), 0x0102_0304);
    assert!(memory.load32(BASE + 9).is_err());
    remote.writes.take();
    memory.dma_post(BASE + 32, &[6; 16]).unwrap();
    assert_eq!(remote.writes.take(), [(BASE + 32, 16)], "one write: messages arrive whole");
    assert!(memory.dma_post(BASE + 33, &[6; 16]).is_err());
    assert_eq!(memory.load_entry(BASE + 32), Ok([6; 16]));
    assert!(memory.load_entry(BASE + 33).is_err());
    memory
        .dma_write_content(BASE + 4096, &Content::of(&[8; 4096], Keep::Bytes), 0, 4096, Epoch::LAST)
        .unwrap();
    assert_eq!(remote.bytes.borrow()[4096..8192], [8; 4096]);
    remote.has_gone.set(true);
    // Its loss shows at the next access.
    assert!(memory.read(BASE, &mut [0]).is_err());
    assert!(memory.load32(BASE).is_err());
    assert!(memory.load_entry(BASE).is_err());
    assert!(memory.with(BASE, 8, |_| panic!("nothing is to be seen")).is_err());
    assert!(memory.write(BASE, &[1]).is_err());
    assert!(memory.store32(BASE, 1).is_err());
    assert!(memory.dma_post(BASE, &[1; 16]).is_err());
    assert!(memory.with_mut(BASE, 8, |_| ()).is_err());
    assert!(memory.read(BASE + 16 * PAGE_BYTES, &mut [0]).is_ok(), "what is shared stays");
}

/// Unmaps itself while it is accessed.
struct Fickle(RefCell<Option<Memory>>);

impl Remote for Fickle {
    fn read(&self, _: u64, _: &mut [u8]) -> Result<(), Fault> {
        if let Some(memory) = self.0.take() {
            memory.unmap_all();
        }
        Ok(())
    }

    fn write(&self, address: u64, _: &[u8]) -> Result<(), Fault> {
        self.read(address, &mut [])
    }
}

// While the answer to a message is awaited, the other side may send an unmapping first: that must find the
// table unborrowed.
#[test]
fn a_region_may_go_while_it_is_asked() {
    let memory = Memory::guest();
    for _ in 0..2 {
        let remote = Rc::new(Fickle(RefCell::new(Some(memory.clone()))));
        memory.map(BASE, PAGE_BYTES, Backing::Remote(remote), Access::ReadWrite).unwrap();
        let other = Backing::Remote(Rc::new(Elsewhere::new(BASE + PAGE_BYTES)));
        memory.map(BASE + PAGE_BYTES, PAGE_BYTES, other, Access::ReadWrite).unwrap();
        assert!(memory.read(BASE + PAGE_BYTES - 4, &mut [0; 8]).is_err(), "the second part has gone");
        assert_no_read(&memory, BASE);
    }
}

// The other process may truncate its file at any time: that must cost it its commands, and no other process
// its memory.
#[test]
fn a_file_cut_short_is_a_fault_and_no_more() {
    let (file, other) = (memfd(64 * PAGE_BYTES), memfd(PAGE_BYTES));
    let memory = Memory::guest();
    map(&memory, 0, 8, &file, 0, Access::ReadWrite);
    map(&memory, 8 * PAGE_BYTES, 8, &file, 8, Access::Read);
    map(&memory, 16 * PAGE_BYTES, 1, &other, 0, Access::ReadWrite);
    memory.write(0, &[1; 8192]).unwrap();
    file.set_len(0).unwrap();
    // Each access is the one that finds out, in turn, in freshly mapped memory.
    type Touch = fn(&Memory) -> bool;
    let touches: [Touch; 10] = [
        |memory| memory.read(4096 * 3 + 1, &mut [0; 700]).is_ok(),
        |memory| memory.read(0, &mut [0; 3]).is_ok(),
        |memory| memory.write(4095, &[0; 5000]).is_ok(),
        |memory| memory.write(8, &[0; 8]).is_ok(),
        |memory| memory.load32(0).is_ok(),
        |memory| memory.load_entry(0).is_ok(),
        |memory| memory.store32(64, 1).is_ok(),
        |memory| memory.dma_post(0, &[1; 16]).is_ok(),
        |memory| memory.with(0, 8 * 4096, |_| panic!("nothing is to be seen")).is_ok(),
        |memory| memory.dma_write_content(0, &Content::Zero, 0, 4096, Epoch::LAST).is_ok(),
    ];
    for touch in touches {
        assert!(!touch(&memory));
        assert_no_read(&memory, 0);
        assert_no_write(&memory, 0);
        memory.write(16 * PAGE_BYTES, &[3; 4096]).unwrap();
        assert!(
            memory.read(15 * PAGE_BYTES, &mut [0; 8192]).is_err(),
            "into a region that has gone, or from it"
        );
        memory.unmap(0, 16 * PAGE_BYTES).unwrap();
        file.set_len(64 * PAGE_BYTES).unwrap();
        map(&memory, 0, 8, &file, 0, Access::ReadWrite);
        map(&memory, 8 * PAGE_BYTES, 8, &file, 8, Access::Read);
        let mut bytes = [1; 8192];
        memory.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 8192], "mapped again, it is the file again");
        file.set_len(0).unwrap();
    }
    assert!(memory.read(8 * PAGE_BYTES, &mut [0; 64]).is_err());
    file.set_len(64 * PAGE_BYTES).unwrap();
    assert_no_read(&memory, 8 * PAGE_BYTES);
    assert_eq!(byte_of(&other, 4095), 3);
}

// Huge pages are mapped whole, and at their own boundaries: a region within one must not be shifted.
#[test]
fn a_part_of_a_huge_page_is_where_it_is() {
    const HUGE: u64 = 2 << 20;
    let flags =
        rustix::fs::MemfdFlags::CLOEXEC | rustix::fs::MemfdFlags::HUGETLB | rustix::fs::MemfdFlags::HUGE_2MB;
    let Ok(file) = rustix::fs::memfd_create("byteway-test", flags).map(File::from) else {
        return eprintln!("skipped: no huge pages of 2 MiB here");
    };
    file.set_len(2 * HUGE).unwrap();
    let (all, part) = (Memory::guest(), Memory::guest());
    if let Err(error) = all.map(0, 2 * HUGE, Backing::File { file: &file, offset: 0 }, Access::ReadWrite) {
        return eprintln!("skipped: no huge pages are free: {error}");
    }
    let offset = HUGE - PAGE_BYTES;
    part.map(BASE, 3 * PAGE_BYTES, Backing::File { file: &file, offset }, Access::ReadWrite).unwrap();
    part.write(BASE + 8, &[5; 8192]).unwrap();
    let mut seen = vec![0; 8210];
    all.read(offset, &mut seen).unwrap();
    assert_eq!(seen[8..8200], [5; 8192]);
    assert_eq!((&seen[..8], &seen[8200..]), (&[0; 8][..], &[0; 10][..]));
    assert!(part.check(BASE, 3 * PAGE_BYTES + 1).is_err(), "not the rest of the page");
    file.set_len(0).unwrap();
    assert!(part.read(BASE, &mut [0; 64]).is_err());
    assert!(all.write(HUGE, &[0; 4096]).is_err());
    assert_no_read(&all, 0);
}

/// Ends of a link, a drive's writes over it, and the resulting ledger.
fn traffic(timing: Option<Timing>) -> (Vec<(u64, u64)>, Vec<u8>, Vec<u16>) {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let file = memfd(64 * PAGE_BYTES);
    let memory = Memory::guest();
    map(&memory, BASE, 64, &file, 0, Access::ReadWrite);
    let (host, device) = Link::connect(&clock, link_config(), memory);
    let vectors = Rc::new(RefCell::new(Vec::new()));
    let taken = vectors.clone();
    host.on_interrupt(Rc::new(move |vector| taken.borrow_mut().push(vector)));
    let is_immediate = timing == Some(Timing::None);
    let ends = (host.clone(), device);
    let test = async move {
        let (host, device): (HostEnd, DeviceEnd) = ends;
        let watch = host.watch(BASE, 4096);
        let interrupt = host.interrupt(3);
        let epoch = device.epoch();
        let content = Content::of(&[4; 4096], Keep::Bytes);
        device.write_content(BASE + 4096, content, 512, 3000, epoch, Purpose::Data).unwrap();
        device.write_content(BASE + 8192, Content::Zero, 0, 4096, epoch, Purpose::Data).unwrap();
        device.write_bytes(BASE + 12289, [5; 77].into(), epoch, Purpose::Data).unwrap();
        device.post(BASE + 16, [7; 16]).unwrap();
        device.interrupt(3);
        if is_immediate {
            assert!(device.has_arrived());
            assert_eq!(
                host.memory().load32(BASE + 28).unwrap(),
                0x0707_0707,
                "there before anybody has had a turn"
            );
        }
        watch.notified().await;
        interrupt.notified().await;
        device.interrupt(70);
        let mut entries = [0; 640];
        device.read(BASE, &mut entries, Purpose::SqeFetch).await.unwrap();
        let segments = [(4096, 8192), (1, 100), (12288, 40_000)]
            .map(|(offset, bytes)| Segment { address: BASE + offset, bytes });
        let mut seen = Vec::new();
        let take = |_, part: &[u8]| seen.extend_from_slice(part);
        device.gather(segments, epoch, 4, Purpose::Data, take).await.unwrap();
        let beyond = Segment { address: BASE + 64 * 4096 - 8, bytes: 16 };
        assert!(device.gather([beyond], epoch, 1, Purpose::Data, |_: usize, _: &[u8]| ()).await.is_err());
        assert!(
            device
                .gather([segments[0], beyond], epoch, 1, Purpose::Data, |_: usize, _: &[u8]| ())
                .await
                .is_err()
        );
        assert!(device.write_bytes(beyond.address, [0; 16].into(), epoch, Purpose::Data).is_err());
        assert!(device.post(0, [0; 16]).is_err());
        assert!(device.tags_free());
        seen.extend_from_slice(&entries);
        device.clock().sleep(Delay::from_us(10)).await;
        device.clock().yield_now().await;
        seen
    };
    let seen = match timing {
        None => executor.run(test).unwrap(),
        Some(timing) => executor.run_real(timing, None, test).unwrap(),
    };
    let ledger = host.ledger();
    let entry = |purpose, direction| {
        (ledger.entry(purpose, direction).payload, ledger.entry(purpose, direction).wire)
    };
    let purposes = [Purpose::Data, Purpose::Cqe, Purpose::MsiX, Purpose::SqeFetch];
    let mut entries: Vec<_> = purposes
        .into_iter()
        .flat_map(|purpose| Direction::ALL.map(|direction| entry(purpose, direction)))
        .collect();
    let memory = host.memory();
    entries.push((memory.dma_read_bytes(), memory.dma_written_bytes()));
    (entries, seen, vectors.take())
}

// Without modelled time a write bypasses the mailbox and its task. It must still arrive, in the same order,
// and be entered in the ledgers the same.
#[test]
fn what_crosses_is_the_same_without_modelled_time() {
    let modelled = traffic(None);
    assert_eq!(modelled.2, [3, 70], "a forwarder gets every message, also those that no task waits for");
    let immediate = traffic(Some(Timing::None));
    // A read that fails half-way has more requests in flight if they take time.
    assert_eq!(modelled.1, immediate.1);
    assert_eq!(modelled.2, immediate.2);
    assert_eq!(modelled.0[0].0, immediate.0[0].0, "payload to the device");
    assert_eq!(modelled.0[2..], immediate.0[2..]);
}
