//! Pages that simulated memory keeps as pattern names, against a twin memory that was given the bytes: no
//! access may tell them apart except the one that asks for the name.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use byteway_clock::{Delay, Executor};
use byteway_content::UnitBytes;
use byteway_content::{BlockSize, Content, Keep, Pattern, Stamp, UNIT_BYTES};
use byteway_link::memory::{Access, Backing, Epoch, PAGE_BYTES};
use byteway_link::{Fault, Generation, Link, Memory, PartConsumer, PcieConfig, Purpose};
use byteway_wire::nvme::Segment;

const PAGES: usize = 4;
const ALL: usize = PAGES * UNIT_BYTES;

fn stamp(lba: u64, block: BlockSize) -> Pattern {
    Pattern::Stamp(Stamp { lba, version: 3, tag: 9, block })
}

/// Content of the pages: two stamps, zeroes, and bytes at the end.
const HELD: [Option<BlockSize>; PAGES] = [Some(BlockSize::B4096), Some(BlockSize::B512), None, None];

fn pattern(page: usize) -> Option<Pattern> {
    match (page, HELD[page]) {
        (_, Some(block)) => Some(stamp(8 * (1 + page as u64), block)),
        (2, None) => Some(Pattern::Zero),
        (_, None) => None,
    }
}

/// A memory that keeps names, and one that keeps the same as bytes, both from the same address on.
fn twins() -> ([Memory; 2], u64) {
    let memories = [Memory::simulated(), Memory::simulated()];
    let [named, bytes] = &memories;
    let at = named.allocate(PAGES).unwrap();
    assert_eq!(bytes.allocate(PAGES), Some(at));
    for page in 0..PAGES {
        let address = at + page as u64 * PAGE_BYTES;
        for memory in &memories {
            memory.write(address, &[0xa5 ^ page as u8; UNIT_BYTES]).unwrap();
        }
        let Some(pattern) = pattern(page) else { continue };
        let mut unit = [0; UNIT_BYTES];
        pattern.fill(&mut unit);
        bytes.write(address, &unit).unwrap();
        match page {
            0 => named.put_pattern(address, pattern).unwrap(),
            _ => named.dma_write_content(address, &pattern.into(), 0, UNIT_BYTES, Epoch::LAST).unwrap(),
        }
        assert_eq!(named.pattern(address), Some(pattern));
        assert_eq!(bytes.pattern(address), None);
    }
    (memories, at)
}

/// An access: its result, and the memory afterwards.
type Act = Box<dyn Fn(&Memory, u64) -> Result<Vec<u8>, Fault>>;

/// Every way to read and write `bytes` bytes at an address.
fn acts(bytes: usize) -> Vec<(&'static str, Act)> {
    let from = vec![0x3c; bytes];
    let unit = Content::Stamp(Stamp { lba: 80, version: 1, tag: 2, block: BlockSize::B512 });
    let part = bytes.min(UNIT_BYTES);
    let head = Content::of_bytes(&UnitBytes::from(std::array::from_fn(|at| u8::from(at < 100))));
    let written = |_: ()| Vec::new();
    let mut acts: Vec<(&'static str, Act)> = vec![
        (
            "read",
            Box::new(move |memory, at| {
                let mut into = vec![0; bytes];
                memory.read(at, &mut into).map(|()| into)
            }),
        ),
        ("with", Box::new(move |memory, at| memory.with(at, bytes, <[u8]>::to_vec))),
        (
            "with_mut",
            Box::new(move |memory, at| {
                memory.with_mut(at, bytes, |bytes| {
                    let before = bytes.to_vec();
                    bytes[bytes.len() / 2] ^= 0xff;
                    before
                })
            }),
        ),
        ("dma_read", Box::new(move |memory, at| memory.dma_read(at, bytes, Epoch::LAST, <[u8]>::to_vec))),
        (
            "dma_read_into",
            Box::new(move |memory, at| {
                let mut into = vec![0; bytes];
                memory.dma_read_into(at, &mut into, Epoch::LAST).map(|()| into)
            }),
        ),
        ("check", Box::new(move |memory, at| memory.check(at, bytes as u64).map(written))),
    ];
    let same = from.clone();
    acts.push(("write", Box::new(move |memory, at| memory.write(at, &same).map(written))));
    acts.push((
        "dma_write",
        Box::new(move |memory, at| memory.dma_write(at, &from, Epoch::LAST).map(written)),
    ));
    for (name, content) in [("stamp", unit), ("zero", Content::Zero), ("head", head)] {
        let write = move |memory: &Memory, at| {
            memory.dma_write_content(at, &content, UNIT_BYTES - part, part, Epoch::LAST).map(written)
        };
        acts.push((name, Box::new(write)));
    }
    acts
}

// Stale bytes under a name, or a name over bytes written later, would be corruption that only the simulator
// has.
#[test]
fn no_access_tells_a_name_from_bytes() {
    let extents: &[(usize, usize)] = &[
        (0, 1),
        (0, 16),
        (100, 512),
        (512, 512),
        (4095, 1),
        (4095, 2),
        (3000, 4096),
        (0, 4096),
        (4096, 4096),
        (0, 8192),
        (8192, 4096),
        (8200, 4000),
        (1, 12287),
        (10, 8190),
        (0, ALL),
        (12000, 4000),
        (ALL - 10, 11),
        (ALL, 1),
    ];
    for (offset, bytes) in extents {
        for (name, act) in acts(*bytes) {
            let ([named, twin], at) = twins();
            let what = format!("{name} of {bytes} from {offset}");
            let address = at + *offset as u64;
            assert_eq!(act(&named, address), act(&twin, address), "{what}");
            assert_eq!(act(&named, address), act(&twin, address), "{what}, again");
            let all = |memory: &Memory| memory.with(at, ALL, <[u8]>::to_vec).unwrap();
            assert_eq!(all(&named), all(&twin), "after {what}");
            assert_eq!(
                (named.dma_read_bytes(), named.dma_written_bytes()),
                (twin.dma_read_bytes(), twin.dma_written_bytes() + 2 * PAGE_BYTES),
                "but for how two of the pages were filled, {what}"
            );
        }
    }
}

// Rings may lie where payload lay before: words and entries are parts of pages like any other.
#[test]
fn words_and_entries_are_parts_of_a_page() {
    let ([named, twin], at) = twins();
    for offset in [0, 8, 4092, 4096, 8188, 8192] {
        let read = |memory: &Memory| memory.load32(at + offset);
        assert_eq!(read(&named), read(&twin), "at {offset}");
    }
    for address in [at, at + 4080, at + 4096] {
        let ([named, twin], _) = twins();
        for memory in [&named, &twin] {
            memory.dma_post(address, &[7; 16]).unwrap();
        }
        for memory in [&named, &twin] {
            memory.store32(address + 4, 0x1234_5678).unwrap();
        }
        let all = |memory: &Memory| memory.with(at, ALL, <[u8]>::to_vec).unwrap();
        assert_eq!(all(&named), all(&twin), "at {address:#x}");
    }
    drop(twin);
}

// Only a whole allocated page has a name; a freed page must neither keep nor take one, and comes back as
// zeroes.
#[test]
fn names_are_of_given_pages_only() {
    let memory = Memory::simulated();
    let at = memory.allocate(2).unwrap();
    let pattern = stamp(8, BlockSize::B4096);
    memory.put_pattern(at + PAGE_BYTES, pattern).unwrap();
    for address in [0, at - PAGE_BYTES, at, at + 8, at + PAGE_BYTES + 512, at + 2 * PAGE_BYTES, u64::MAX] {
        assert_eq!(memory.pattern(address), None, "{address:#x}");
    }
    for address in [0, at - PAGE_BYTES, at + 2 * PAGE_BYTES, !4095] {
        let fault = Fault { address, bytes: PAGE_BYTES };
        assert_eq!(memory.put_pattern(address, pattern), Err(fault));
        let written = memory.dma_write_content(address, &pattern.into(), 0, UNIT_BYTES, Epoch::LAST);
        assert_eq!(written, Err(fault));
    }
    assert_eq!(memory.dma_written_bytes(), 0);
    memory.free(at, 2);
    assert_eq!(memory.pattern(at + PAGE_BYTES), None);
    assert!(memory.put_pattern(at, pattern).is_err());
    assert_eq!(memory.allocate(2), Some(at));
    assert_eq!(memory.pattern(at + PAGE_BYTES), None);
    assert!(memory.with(at, 2 * UNIT_BYTES, |bytes| bytes.iter().all(|byte| *byte == 0)).unwrap());
}

// Another process sees only bytes, so they must be there.
#[test]
fn shared_memory_keeps_bytes() {
    let memory = Memory::guest();
    let file = std::fs::File::from(
        rustix::fs::memfd_create("byteway-patterns", rustix::fs::MemfdFlags::CLOEXEC).unwrap(),
    );
    file.set_len(PAGE_BYTES).unwrap();
    memory.map(0, PAGE_BYTES, Backing::File { file: &file, offset: 0 }, Access::ReadWrite).unwrap();
    let Pattern::Stamp(stamp) = stamp(8, BlockSize::B512) else { unreachable!() };
    for by_dma in [false, true] {
        memory.write(0, &[1; UNIT_BYTES]).unwrap();
        let content = Content::Stamp(stamp);
        match by_dma {
            false => memory.put_pattern(0, Pattern::Stamp(stamp)).unwrap(),
            true => memory.dma_write_content(0, &content, 0, UNIT_BYTES, Epoch::LAST).unwrap(),
        }
        assert_eq!(memory.pattern(0), None);
        assert!(!memory.dma_read_pattern(0, |_| unreachable!("it has no name")));
        let mut unit = [0; UNIT_BYTES];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut unit, 0).unwrap();
        assert!(stamp.matches(&unit));
    }
}

/// Takes names of pages, if enabled, and bytes.
struct Payload {
    takes_names: bool,
    names: usize,
    bytes: Vec<u8>,
}

impl PartConsumer for &mut Payload {
    fn bytes(&mut self, offset: usize, part: &[u8]) {
        assert_eq!(offset, self.bytes.len());
        self.bytes.extend_from_slice(part);
    }

    fn page(&mut self, offset: usize, pattern: Pattern) -> bool {
        assert_eq!(offset, self.bytes.len());
        if self.takes_names {
            let mut unit = [0; UNIT_BYTES];
            pattern.fill(&mut unit);
            self.bytes.extend_from_slice(&unit);
            self.names += 1;
        }
        self.takes_names
    }
}

// Whatever a command asks for, however far DMA rounds it, and however requests split it: the same bytes at
// the same time, and as many read.
#[test]
fn a_gather_brings_the_same_by_name_and_by_bytes() {
    let segments: &[(&[(u64, u32)], usize)] = &[
        (&[(0, 4096)], 1),
        (&[(4096, 4096)], 1),
        (&[(0, 16384)], 3),
        (&[(4096, 4096), (0, 4096)], 2),
        (&[(2048, 2048), (4096, 4096), (8192, 10)], 1),
        (&[(0, 512)], 0),
        (&[(100, 4096)], 0),
        (&[(3584, 1024)], 0),
        (&[(12288, 4096)], 0),
    ];
    let gather = |memory: &Memory, at: u64, parts: &[(u64, u32)], granularity, mrrs, takes_names| {
        let executor = Executor::new();
        let config = PcieConfig {
            generation: Generation::Gen3,
            lanes: 4,
            mps: 256,
            mrrs,
            rcb: 64,
            read_tags: 32,
            propagation: Delay::from_ns(100),
            memory_latency: Delay::from_ns(150),
            slowdown: 1,
        };
        let (_host, device) = Link::connect(executor.clock(), config, memory.clone());
        let segments: Vec<_> =
            parts.iter().map(|(offset, bytes)| Segment { address: at + offset, bytes: *bytes }).collect();
        let run = async move {
            let mut payload = Payload { takes_names, names: 0, bytes: Vec::new() };
            let epoch = device.epoch();
            device.gather(segments, epoch, granularity, Purpose::Data, &mut payload).await.unwrap();
            (device.clock().now(), payload.bytes, payload.names)
        };
        let (end, bytes, names) = executor.run(run).unwrap();
        (end, bytes, memory.dma_read_bytes(), names)
    };
    for (parts, named_pages) in segments {
        for (granularity, mrrs) in [(1, 512), (4, 512), (4096, 512), (1, 128), (1, 4096)] {
            let what = format!("{parts:?} rounded to {granularity}, requests of {mrrs}");
            let mut found = Vec::new();
            for (which, takes_names) in [(0, true), (0, false), (1, true)] {
                let (memories, at) = twins();
                let (end, bytes, read, names) =
                    gather(&memories[which], at, parts, granularity, mrrs, takes_names);
                let expected = if (which, takes_names, mrrs) == (0, true, 512) { *named_pages } else { 0 };
                if mrrs == 512 || !(which == 0 && takes_names) {
                    assert_eq!(names, expected, "{what}");
                }
                found.push((end, bytes, read));
            }
            assert!(found.iter().all(|one| *one == found[0]), "{what}");
        }
    }
}

// A named page must equal the content found in its bytes: otherwise one write would be two kinds of content.
#[test]
fn a_name_is_the_content_of_its_bytes() {
    for block in [BlockSize::B512, BlockSize::B4096] {
        for pattern in [stamp(0, block), stamp(8, block), stamp(u64::MAX - 8, block), Pattern::Zero] {
            let mut unit = [1; UNIT_BYTES];
            pattern.fill(&mut unit);
            let content = Content::of(&unit, Keep::Stamps);
            assert_eq!((content.pattern(), Content::from(pattern)), (Some(pattern), content));
        }
    }
}
