//! PRP and SGL walkers over a fake memory, against straightforward readings of the rules.
//!
//! Verified: a device walks to the same bytes that a host planned; on any list, however broken, the walker and the
//! reference agree on the yielded segments and the error; a walk ends within a bound and never yields more than
//! requested. Not verified here: time, and the data.

use std::collections::BTreeMap;

use byteway_wire::nvme::prp::{self, PrpError, PrpStep, PrpWalker};
use byteway_wire::nvme::sgl::{
    self, SglDescriptor, SglError, SglRules, SglStep, SglSubType, SglType, SglWalker,
};
use proptest::prelude::*;

const PAGE: u64 = 4096;

/// Memory with holes: pages of 4 KiB by their number.
#[derive(Default)]
struct Memory {
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Memory {
    fn write(&mut self, address: u64, bytes: &[u8]) {
        for (at, byte) in (address..).zip(bytes) {
            self.pages.entry(at / PAGE).or_insert_with(|| vec![0; PAGE as usize])[(at % PAGE) as usize] =
                *byte;
        }
    }

    /// The bytes; `None` if one of them is in a hole or past the address space.
    fn read(&self, address: u64, bytes: u64) -> Option<Vec<u8>> {
        let end = address.checked_add(bytes)?;
        (address..end).map(|at| Some(self.pages.get(&(at / PAGE))?[(at % PAGE) as usize])).collect()
    }
}

/// Why a walk over memory ended early. Holes and the end of the address space are equivalent: which one is met first
/// depends on the fetch size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Memory,
    Prp(PrpError),
    Sgl(SglError),
    Endless,
}

/// Runs of bytes: an address, or `None` for discarded ones.
type Runs = Vec<(Option<u64>, u64)>;

/// A small generator for filling memory, from a seed that proptest prints.
struct Seeded(u64);

impl Seeded {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

// ---- PRP

fn walk_prp(walker: &mut PrpWalker, memory: &Memory, steps_max: u64) -> (Runs, Result<(), Failure>) {
    let mut runs = Runs::new();
    for _ in 0..steps_max {
        match walker.next() {
            Err(PrpError::Wraps) => return (runs, Err(Failure::Memory)),
            Err(error) => return (runs, Err(Failure::Prp(error))),
            Ok(PrpStep::Done) => return (runs, Ok(())),
            Ok(PrpStep::Data(segment)) => {
                assert!(segment.bytes > 0 && segment.end() > segment.address);
                runs.push((Some(segment.address), u64::from(segment.bytes)));
            }
            Ok(PrpStep::FetchList { address, bytes }) => {
                assert!(
                    bytes > 0
                        && bytes.is_multiple_of(8)
                        && bytes <= prp::FETCH_BYTES_MAX
                        && address.is_multiple_of(8)
                );
                let Some(list) = memory.read(address, u64::from(bytes)) else {
                    return (runs, Err(Failure::Memory));
                };
                walker.feed(&list);
            }
        }
    }
    (runs, Err(Failure::Endless))
}

/// The rules of NVMe Base 2.1, 4.3.1, read one entry at a time.
fn read_prp(memory: &Memory, prp1: u64, prp2: u64, bytes: u64, page: u64) -> (Runs, Result<(), Failure>) {
    let mut runs = Runs::new();
    let outcome = (|| {
        let mut left = bytes;
        let mut take = |address: u64, left: &mut u64| {
            let run = (page - address % page).min(*left);
            if u128::from(address) + u128::from(run) > u128::from(u64::MAX) {
                return Err(Failure::Memory);
            }
            runs.push((Some(address), run));
            *left -= run;
            Ok(())
        };
        if left == 0 {
            return Ok(());
        }
        if !prp1.is_multiple_of(4) {
            return Err(Failure::Prp(PrpError::Offset));
        }
        take(prp1, &mut left)?;
        if left == 0 {
            return Ok(());
        }
        if left <= page {
            if !prp2.is_multiple_of(page) {
                return Err(Failure::Prp(PrpError::Offset));
            }
            return take(prp2, &mut left);
        }
        if !prp2.is_multiple_of(8) {
            return Err(Failure::Prp(PrpError::ListOffset));
        }
        let mut at = prp2;
        while left > 0 {
            let entry = memory.read(at, 8).ok_or(Failure::Memory)?;
            let entry = u64::from_le_bytes(entry.try_into().expect("8 bytes"));
            if !entry.is_multiple_of(page) {
                return Err(Failure::Prp(PrpError::Offset));
            }
            if at % page == page - 8 && left > page {
                at = entry;
            } else {
                take(entry, &mut left)?;
                at = at.wrapping_add(8);
            }
        }
        Ok(())
    })();
    (runs, outcome)
}

/// Maximum number of steps of a PRP walk: each page of data, each fetched piece of a list, and the end.
fn prp_steps_max(bytes: u64) -> u64 {
    let pages = bytes.div_ceil(PAGE) + 1;
    pages + pages.div_ceil(500) + 4
}

fn prp_bytes() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..20_000_u64,
        0..3_000_000_u64,
        (0..1200_u64).prop_map(|pages| pages * PAGE),
        // Around one full list page and two.
        (511..516_u64).prop_map(|pages| pages * PAGE),
        (1022..1027_u64).prop_map(|pages| pages * PAGE),
    ]
}

/// The first entry of a list in its page: anywhere, at the start, or so near the end that few entries fit.
fn list_start() -> impl Strategy<Value = u64> {
    prop_oneof![0..PAGE / 8, Just(0), PAGE / 8 - 8..PAGE / 8]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Without this a host and a device would disagree about where the data lies.
    #[test]
    fn planned_prps_walk_to_the_planned_pages(
        bytes in prp_bytes(), offset in 0..PAGE / 4, list_offset in list_start(), large in any::<bool>(), seed: u64
    ) {
        let page = if large { 4 * PAGE } else { PAGE };
        let mut random = Seeded(seed);
        let offset = (offset * 4) as u32;
        let count = prp::pages_needed(bytes, offset, page as u32);
        let pages: Vec<u64> = (0..count).map(|_| random.below(1 << 40) * page).collect();
        let mut lists: Vec<u64> =
            (0..prp::list_pages_needed(bytes, offset, page as u32) + 1).map(|index| (1 << 60) + index * page).collect();
        // One more page than for an aligned list compensates for the entries that an offset takes.
        lists[0] += list_offset * 8;
        let plan = prp::plan(&pages, offset, bytes, page as u32, &lists);
        let mut memory = Memory::default();
        for (address, entries) in &plan.lists {
            let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
            memory.write(*address, &bytes);
        }
        let mut walker = PrpWalker::new(plan.prp1, plan.prp2, bytes, page as u32);
        let (runs, outcome) = walk_prp(&mut walker, &memory, prp_steps_max(bytes));
        prop_assert_eq!(outcome, Ok(()));
        prop_assert_eq!(walker.remaining(), 0);

        let mut expected = Runs::new();
        let mut left = bytes;
        for (index, address) in pages.iter().enumerate() {
            let skip = if index == 0 { u64::from(offset) } else { 0 };
            let run = (page - skip).min(left);
            expected.push((Some(address + skip), run));
            left -= run;
        }
        prop_assert_eq!(left, 0);
        prop_assert_eq!(runs, expected);
    }

    /// Without this an aligned list would need more pages than the host reserved for it.
    #[test]
    fn an_aligned_plan_uses_exactly_the_list_pages_needed(bytes in prp_bytes(), offset in 0..PAGE / 4) {
        let offset = (offset * 4) as u32;
        let pages = vec![0; prp::pages_needed(bytes, offset, PAGE as u32) as usize];
        let lists: Vec<u64> = (1..=prp::list_pages_needed(bytes, offset, PAGE as u32)).map(|page| page * PAGE).collect();
        let plan = prp::plan(&pages, offset, bytes, PAGE as u32, &lists);
        let used: std::collections::BTreeSet<u64> = plan.lists.iter().map(|(address, _)| address / PAGE).collect();
        prop_assert_eq!(used.len(), lists.len());
    }

    /// Without this a hostile list (cycles, holes, offsets, random bytes) would hang or crash the device, or move other
    /// bytes than specified.
    #[test]
    fn hostile_prps_end_as_the_rules_say(
        seed: u64, bytes in prp_bytes(), poison in prop::sample::select(vec![0_u64, 1, 30, 400]),
        offset in 0..PAGE, list_page in 1..5_u64, list in list_start()
    ) {
        // Four pages of entries at 1000h that point at those pages, at a hole, or anywhere.
        let mut random = Seeded(seed);
        let mut memory = Memory::default();
        for at in (PAGE..5 * PAGE).step_by(8) {
            let entry = if random.below(1000) < poison {
                match random.below(5) {
                    0 => random.next(),
                    1 => random.below(5 * PAGE),
                    2 => 77 * PAGE,
                    3 => u64::MAX - PAGE + 1,
                    _ => random.below(5 * PAGE) & !7,
                }
            } else {
                (1 + random.below(4)) * PAGE
            };
            memory.write(at, &entry.to_le_bytes());
        }
        let prp1 = if random.below(1000) < poison { random.next() } else { 9 * PAGE + offset / 4 * 4 };
        let prp2 = if random.below(1000) < poison {
            random.next()
        } else if bytes <= PAGE {
            6 * PAGE
        } else {
            list_page * PAGE + list * 8
        };
        let mut walker = PrpWalker::new(prp1, prp2, bytes, PAGE as u32);
        let (runs, outcome) = walk_prp(&mut walker, &memory, prp_steps_max(bytes));
        prop_assert!(runs.iter().map(|(_, run)| run).sum::<u64>() <= bytes);
        prop_assert_ne!(outcome, Err(Failure::Endless));
        prop_assert_eq!((runs, outcome), read_prp(&memory, prp1, prp2, bytes, PAGE));
    }

    /// Without this one walk's list would leak into the next one that uses its memory.
    #[test]
    fn a_reset_forgets_the_last_walk(seed: u64, steps in 0..5_usize) {
        let mut random = Seeded(seed);
        let mut memory = Memory::default();
        for at in (PAGE..3 * PAGE).step_by(8) {
            memory.write(at, &(random.below(4) * PAGE).to_le_bytes());
        }
        let mut walker = PrpWalker::new(0, PAGE + random.below(512) * 8, random.below(1 << 22), PAGE as u32);
        for _ in 0..steps {
            if let Ok(PrpStep::FetchList { address, bytes }) = walker.next() {
                let Some(list) = memory.read(address, u64::from(bytes)) else { break };
                walker.feed(&list);
            }
        }
        let (prp2, bytes) = (PAGE + random.below(512) * 8, random.below(1 << 22));
        walker.reset(4, prp2, bytes, PAGE as u32);
        let mut fresh = PrpWalker::new(4, prp2, bytes, PAGE as u32);
        let steps_max = prp_steps_max(bytes);
        prop_assert_eq!(walk_prp(&mut walker, &memory, steps_max), walk_prp(&mut fresh, &memory, steps_max));
    }
}

/// Without this a transfer longer than any memory would overflow in its first step.
#[test]
fn the_longest_prp_walk_begins_and_fails_cleanly() {
    let mut memory = Memory::default();
    for at in (PAGE..2 * PAGE).step_by(8) {
        memory.write(at, &PAGE.to_le_bytes());
    }
    let mut walker = PrpWalker::new(0, PAGE, u64::MAX, PAGE as u32);
    let (runs, outcome) = walk_prp(&mut walker, &memory, 10_000);
    assert_eq!(outcome, Err(Failure::Endless), "the walk goes on, page after page");
    assert!(runs.len() > 9_000);
}

// ---- SGL

fn walk_sgl(walker: &mut SglWalker, memory: &Memory, steps_max: u64) -> (Runs, Result<(), Failure>) {
    let mut runs = Runs::new();
    for _ in 0..steps_max {
        match walker.next() {
            Err(SglError::Wraps) => return (runs, Err(Failure::Memory)),
            Err(error) => return (runs, Err(Failure::Sgl(error))),
            Ok(SglStep::Done) => return (runs, Ok(())),
            Ok(SglStep::Data(segment)) => {
                assert!(segment.bytes > 0 && segment.end() > segment.address);
                runs.push((Some(segment.address), u64::from(segment.bytes)));
            }
            Ok(SglStep::Discard { bytes }) => {
                assert!(bytes > 0);
                runs.push((None, u64::from(bytes)));
            }
            Ok(SglStep::FetchSegment { address, bytes }) => {
                assert!(
                    bytes > 0
                        && bytes.is_multiple_of(16)
                        && bytes <= sgl::FETCH_BYTES_MAX
                        && address.is_multiple_of(8)
                );
                let Some(segment) = memory.read(address, u64::from(bytes)) else {
                    return (runs, Err(Failure::Memory));
                };
                walker.feed(&segment);
            }
        }
    }
    (runs, Err(Failure::Endless))
}

/// The rules of NVMe Base 2.1, 4.3.2, applied segment by segment.
fn read_sgl(
    memory: &Memory,
    first: SglDescriptor,
    bytes: u64,
    is_read: bool,
    rules: SglRules,
) -> (Runs, Result<(), Failure>) {
    let mut runs = Runs::new();
    let outcome = (|| {
        if bytes == 0 {
            return Ok(());
        }
        let fail = |error| Err(Failure::Sgl(error));
        let mut left = bytes;
        let mut seen = 1;
        // The current segment: address (`None` for the command's own descriptor), descriptors, announced as last.
        let (mut address, mut count, mut is_last) = (None, 1, false);
        loop {
            let mut next = None;
            for index in 0..count {
                if left == 0 && rules.allow_excess {
                    return Ok(());
                }
                let descriptor = match address {
                    None => first,
                    Some(address) => {
                        // A piece of 256 descriptors is readable as a whole or not at all.
                        let piece = index - index % 256;
                        let bytes = (count - piece).min(256) * 16;
                        let piece = memory.read(address + piece * 16, bytes).ok_or(Failure::Memory)?;
                        let at = (index % 256 * 16) as usize;
                        SglDescriptor::from_bytes(piece[at..at + 16].try_into().expect("16 bytes"))
                    }
                };
                let length = u64::from(descriptor.length);
                if descriptor.id & 0xF != 0 {
                    return fail(SglError::Type);
                }
                let is_data = match descriptor.id >> 4 {
                    0 => {
                        if rules.dword_aligned
                            && (!descriptor.address.is_multiple_of(4) || !length.is_multiple_of(4))
                        {
                            return fail(SglError::Granularity);
                        }
                        if length > 0
                            && u128::from(descriptor.address) + u128::from(length) > u128::from(u64::MAX)
                        {
                            return Err(Failure::Memory);
                        }
                        true
                    }
                    1 if rules.bit_bucket => is_read,
                    2 | 3 => {
                        if is_last {
                            return fail(SglError::SegmentInLast);
                        }
                        if index + 1 != count {
                            return fail(SglError::SegmentNotLast);
                        }
                        next = Some(descriptor);
                        false
                    }
                    _ => return fail(SglError::Type),
                };
                if is_data && length > 0 {
                    if length > left && !rules.allow_excess {
                        return fail(SglError::TooLong);
                    }
                    let run = length.min(left);
                    left -= run;
                    runs.push((if descriptor.id >> 4 == 0 { Some(descriptor.address) } else { None }, run));
                }
            }
            let Some(pointer) = next else {
                return if left == 0 { Ok(()) } else { fail(SglError::TooShort) };
            };
            if pointer.length == 0 || !pointer.length.is_multiple_of(16) {
                return fail(SglError::SegmentLength);
            }
            if !pointer.address.is_multiple_of(8) {
                return fail(SglError::SegmentAddress);
            }
            if pointer.address.checked_add(u64::from(pointer.length)).is_none() {
                return Err(Failure::Memory);
            }
            (address, count, is_last) =
                (Some(pointer.address), u64::from(pointer.length / 16), pointer.id >> 4 == 3);
            seen += count;
            if seen > u64::from(rules.max_descriptors) {
                return fail(SglError::TooMany);
            }
        }
    })();
    (runs, outcome)
}

/// Maximum number of steps of an SGL walk: each descriptor yields at most once and is fetched at most once.
fn sgl_steps_max(rules: SglRules) -> u64 {
    2 * u64::from(rules.max_descriptors) + 2
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// Without this a host and a device would disagree about where the data lies.
    #[test]
    fn planned_sgls_walk_to_the_planned_blocks(
        lengths in prop::collection::vec((0..10_000_u32, any::<bool>()), 0..900), per_segment in 2..400_usize, seed: u64
    ) {
        let mut random = Seeded(seed);
        let descriptors: Vec<SglDescriptor> = lengths
            .iter()
            .map(|(length, bucket)| {
                if *bucket { SglDescriptor::bit_bucket(*length) } else { SglDescriptor::data_block(random.next() >> 8, *length) }
            })
            .collect();
        let segments: Vec<u64> = (0..sgl::segments_needed(descriptors.len(), per_segment))
            .map(|index| 0x10_0000 + index as u64 * 0x4000 + 8)
            .collect();
        let plan = sgl::plan(&descriptors, &segments, per_segment);
        let mut memory = Memory::default();
        for (address, run) in &plan.segments {
            let bytes: Vec<u8> = run.iter().flat_map(|descriptor| descriptor.to_bytes()).collect();
            memory.write(*address, &bytes);
        }
        let expected: Runs = descriptors
            .iter()
            .filter(|descriptor| descriptor.length > 0)
            .map(|descriptor| {
                let address = (descriptor.sgl_type() == SglType::DATA_BLOCK).then_some(descriptor.address);
                (address, u64::from(descriptor.length))
            })
            .collect();
        let bytes = expected.iter().map(|(_, run)| run).sum();
        let rules = SglRules { max_descriptors: 2000, ..SglRules::default() };
        let mut walker = SglWalker::new(plan.first, bytes, true).with_rules(rules);
        prop_assert_eq!(walk_sgl(&mut walker, &memory, sgl_steps_max(rules)), (expected.clone(), Ok(())));

        // In a write bit buckets are skipped.
        let written: Runs = expected.into_iter().filter(|(address, _)| address.is_some()).collect();
        walker.reset(plan.first, written.iter().map(|(_, run)| run).sum(), false);
        prop_assert_eq!(walk_sgl(&mut walker, &memory, sgl_steps_max(rules)), (written, Ok(())));
    }

    /// Without this a hostile list (cycles, holes, misplaced pointers, random bytes) would hang or crash the device, or
    /// move other bytes than specified.
    #[test]
    fn hostile_sgls_end_as_the_rules_say(
        seed: u64, bytes in prop_oneof![0..300_u64, 0..100_000_u64], is_read: bool,
        poison in prop::sample::select(vec![0_u64, 2, 30, 300]), zeros: bool,
        allow_excess: bool, dword_aligned in prop::bool::weighted(0.1), bit_bucket in prop::bool::weighted(0.9),
        max_descriptors in prop::sample::select(vec![1_u32, 8, 100, 1024])
    ) {
        let rules = SglRules { allow_excess, dword_aligned, bit_bucket, max_descriptors };
        let mut random = Seeded(seed);
        // Eight segments, each a page and a half from the last, that point at each other.
        let counts: Vec<u64> = (0..8).map(|_| 1 + if random.below(4) == 0 { random.below(300) } else { random.below(6) }).collect();
        let pointer = |random: &mut Seeded| {
            let target = random.below(8);
            let poisoned = random.below(1000) < poison;
            let (address, length) = (PAGE + target * PAGE * 3 / 2, counts[target as usize] * 16);
            let sgl_type = if random.below(2) == 0 { SglType::SEGMENT } else { SglType::LAST_SEGMENT };
            match if poisoned { random.below(5) } else { 9 } {
                0 => SglDescriptor::new(sgl_type, SglSubType::ADDRESS, address, 0),
                1 => SglDescriptor::new(sgl_type, SglSubType::ADDRESS, address + random.below(16), length as u32),
                2 => SglDescriptor::new(sgl_type, SglSubType::ADDRESS, address, random.next() as u32),
                3 => SglDescriptor::new(sgl_type, SglSubType::ADDRESS, random.next() & !7, length as u32),
                4 => SglDescriptor::new(sgl_type, SglSubType::OFFSET, address, length as u32),
                _ => SglDescriptor::new(sgl_type, SglSubType::ADDRESS, address, length as u32),
            }
        };
        let data = |random: &mut Seeded| {
            if random.below(1000) < poison {
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&random.next().to_le_bytes());
                bytes[8..].copy_from_slice(&random.next().to_le_bytes());
                return SglDescriptor::from_bytes(&bytes);
            }
            let length = if zeros { 0 } else { random.below(200) as u32 };
            let address = random.next() >> 8;
            if random.below(8) == 0 { SglDescriptor::bit_bucket(length) } else { SglDescriptor::data_block(address, length) }
        };
        let mut memory = Memory::default();
        for (segment, count) in counts.iter().enumerate() {
            let at = PAGE + segment as u64 * PAGE * 3 / 2;
            for index in 0..*count {
                let is_pointer = if index + 1 == *count { random.below(5) > 0 } else { random.below(1000) < poison };
                let descriptor = if is_pointer { pointer(&mut random) } else { data(&mut random) };
                memory.write(at + index * 16, &descriptor.to_bytes());
            }
        }
        let first = if random.below(5) == 0 { data(&mut random) } else { pointer(&mut random) };
        let mut walker = SglWalker::new(first, bytes, is_read).with_rules(rules);
        let (runs, outcome) = walk_sgl(&mut walker, &memory, sgl_steps_max(rules));
        prop_assert!(runs.iter().map(|(_, run)| run).sum::<u64>() <= bytes);
        prop_assert_ne!(outcome, Err(Failure::Endless));
        prop_assert_eq!((runs, outcome), read_sgl(&memory, first, bytes, is_read, rules));
    }

    /// Without this any random descriptor in a command could crash the device.
    #[test]
    fn any_descriptor_over_any_bytes_ends(first: [u8; 16], bytes: u64, is_read: bool, seed: u64) {
        let mut random = Seeded(seed);
        let mut first = SglDescriptor::from_bytes(&first);
        if seed.is_multiple_of(2) {
            first = SglDescriptor::segment(random.below(4) * 8, 16 * random.below(2000) as u32);
        }
        let rules = SglRules::default();
        let mut walker = SglWalker::new(first, bytes, is_read);
        let mut yielded = 0_u64;
        for step in 0.. {
            prop_assert!(step < sgl_steps_max(rules));
            match walker.next() {
                Ok(SglStep::FetchSegment { bytes, .. }) => {
                    let segment: Vec<u8> = (0..bytes)
                        .map(|at| if at % 16 == 15 { (random.below(4) as u8) << 4 } else { random.next() as u8 })
                        .collect();
                    walker.feed(&segment);
                }
                Ok(SglStep::Data(segment)) => yielded += u64::from(segment.bytes),
                Ok(SglStep::Discard { bytes }) => yielded += u64::from(bytes),
                Ok(SglStep::Done) | Err(_) => break,
            }
            prop_assert!(yielded <= bytes);
        }
    }
}
