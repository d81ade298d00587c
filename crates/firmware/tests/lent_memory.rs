//! Memory that is lent for the map: copies of pages are loaded instead of flash, and nothing is lost whatever
//! becomes of them.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Clock, Delay, Executor, Rate, SpanId, Spans, Time};
use byteway_content::{BlockSize, Content, Stamp, UNIT_BYTES};
use byteway_firmware::{Base, Cycles, Ftl, FtlConfig, FtlCounters, LentMemory, Placement, Site, WorkKind};
use byteway_flash::{Geometry, Timing};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;

const GEOMETRY: Geometry =
    Geometry { channels: 2, ways: 1, planes: 2, blocks: 64, pages: 16, page_bytes: 8192 };
/// Units of a translation page.
const PAGE: u64 = 1024;
const PAGES: u64 = 8;
/// Cost of a look-up: one cycle at 1 GHz, and 80 ns of DRAM.
const TRANSLATION: Delay = Delay::from_ns(81);
/// 200 ns of command, 40 us of sensing, 4 KiB at 800 MB/s.
const FLASH_READ: Delay = Delay::from_ns(200 + 40_000 + 5_120);
/// Load of a page from lent memory.
const LOAD: Delay = Delay::from_us(2);
/// The drive's own part of that, in cycles at 1 GHz.
const DMA: u64 = 100;

/// Defect of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    None,
    /// A flipped bit in a loaded word.
    Bit,
    /// All copies are of the page that was stored first.
    Mixed,
    /// The memory is gone, as found at a load or at a store.
    Gone,
}

struct Lender {
    clock: Clock,
    places: RefCell<BTreeMap<u32, [u8; UNIT_BYTES]>>,
    places_max: u32,
    damage: Cell<Damage>,
    in_flight: Cell<u32>,
    is_lent: Cell<bool>,
}

impl Lender {
    fn new(clock: &Clock, places_max: u32) -> Rc<Self> {
        Rc::new(Lender {
            clock: clock.clone(),
            places: RefCell::default(),
            places_max,
            damage: Cell::new(Damage::None),
            in_flight: Cell::default(),
            is_lent: Cell::new(true),
        })
    }
}

impl LentMemory for Lender {
    fn store(&self, place: u32, page: &[u8; UNIT_BYTES]) -> bool {
        assert!(place < self.places_max && self.is_lent.get(), "stored to what is not lent");
        self.places.borrow_mut().insert(place, *page);
        self.damage.get() != Damage::Gone
    }

    fn load<'a>(
        &'a self,
        place: u32,
        into: &'a mut [u8; UNIT_BYTES],
    ) -> Pin<Box<dyn Future<Output = bool> + 'a>> {
        Box::pin(async move {
            self.in_flight.set(self.in_flight.get() + 1);
            self.clock.sleep(LOAD).await;
            self.in_flight.set(self.in_flight.get() - 1);
            assert!(place < self.places_max, "loaded from what is not lent");
            let places = self.places.borrow();
            let found = match self.damage.get() {
                Damage::Mixed => places.values().next(),
                _ => places.get(&place),
            };
            *into = *found.expect("it was stored");
            into[100] ^= u8::from(self.damage.get() == Damage::Bit);
            self.damage.get() != Damage::Gone
        })
    }
}

fn config(cache_pages: u32, base: Base) -> FtlConfig {
    FtlConfig {
        user_units: PAGES * PAGE - 758,
        write_buffer_units: 16,
        base,
        map_cache_pages: Some(cache_pages),
        ..Default::default()
    }
}

fn ftl(clock: &Clock, config: FtlConfig) -> Ftl {
    let site = Site::new(clock, 1, 1_000_000_000, Delay::from_ns(80), Rate::per_second(10_000_000_000));
    let placement =
        Placement::all_at(&site, Cycles::FREE.with(WorkKind::Translate, 1).with(WorkKind::Dma, DMA));
    let timing = Timing {
        read: vec![Delay::from_us(40)],
        program: vec![Delay::from_us(300)],
        erase: Delay::from_ms(3),
        channel: Rate::per_second(800_000_000),
        command: Delay::from_ns(200),
        ..Timing::default()
    };
    Ftl::new(clock, placement, GEOMETRY, timing, config).unwrap()
}

async fn read(ftl: &Ftl, unit: u64) -> Content {
    let mut out = Vec::new();
    ftl.read(SpanId::NONE, &Spans::default(), unit, 1, &mut out).await.unwrap();
    out.remove(0)
}

async fn write(ftl: &Ftl, unit: u64, version: u32) {
    ftl.write(SpanId::NONE, &Spans::default(), unit, &mut vec![stamp(unit, version)], false).await.unwrap();
}

fn stamp(lba: u64, version: u32) -> Content {
    Content::Stamp(Stamp { lba, version, tag: 7, block: BlockSize::B4096 })
}

/// Copies stored, loaded, damaged.
fn copies(counters: &FtlCounters) -> [u64; 3] {
    [counters.map_copies_stored, counters.map_copies_loaded, counters.map_copies_damaged]
}

// The purpose of lent memory: the second look-up of a page takes a load over the link instead of a flash
// read.
#[test]
fn a_page_that_has_left_comes_back_from_its_copy() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let ftl = ftl(&clock, config(1, Base::Filled));
    let then = ftl.clone();
    executor
        .run(async move {
            let lender = Lender::new(&clock, 4);
            assert!(ftl.borrow_memory(lender.clone(), 4));
            assert!(!ftl.borrow_memory(lender.clone(), 4), "one lends");
            let took = async |unit| {
                let began = clock.now();
                read(&ftl, unit).await;
                clock.now().since(began)
            };
            let from_flash = TRANSLATION + FLASH_READ * 2;
            assert_eq!(took(0).await, from_flash, "there is no copy yet");
            assert_eq!(took(PAGE).await, from_flash);
            let from_copy = TRANSLATION + FLASH_READ + Delay::from_ns(DMA) + LOAD;
            assert_eq!(took(5).await, from_copy + Delay::from_ns(DMA), "the other page leaves a copy");
            // Copies stay as long as they equal flash.
            assert_eq!(took(PAGE + 5).await, from_copy);
            assert_eq!((copies(&ftl.counters()), ftl.map_copies()), ([2, 2, 0], 2));
            ftl.return_memory().await;
            assert_eq!((took(7).await, ftl.map_copies()), (from_flash, 0));
            assert!(ftl.borrow_memory(lender, 4), "another may lend then");
        })
        .unwrap();
    then.stop();
}

// A copy of a page from before it was written would lead to old data.
#[test]
fn a_page_that_was_written_has_another_copy() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let ftl = ftl(&clock, config(1, Base::Filled));
    executor
        .run(async move {
            let lender = Lender::new(&clock, 4);
            assert!(ftl.borrow_memory(lender, 4));
            read(&ftl, 0).await;
            read(&ftl, PAGE).await;
            assert_eq!(ftl.map_copies(), 1);
            write(&ftl, 3, 1).await;
            ftl.flush(SpanId::NONE, &Spans::default()).await.unwrap();
            clock.sleep(Delay::from_ms(1)).await; // its entry is in the page
            assert_eq!(copies(&ftl.counters())[0], 2);
            // Evicts the page, which is written first, and leaves another copy.
            read(&ftl, PAGE).await;
            assert_eq!((copies(&ftl.counters())[0], ftl.map_copies()), (3, 2));
            assert_eq!(read(&ftl, 3).await, stamp(3, 1));
        })
        .unwrap();
}

// The host may do anything to its memory: damage is detected on load, and flash read instead.
#[test]
fn damaged_copies_are_not_believed() {
    for damage in [Damage::Bit, Damage::Mixed, Damage::Gone] {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let ftl = ftl(&clock, config(1, Base::Filled));
        executor
            .run(async move {
                let lender = Lender::new(&clock, 4);
                assert!(ftl.borrow_memory(lender.clone(), 4));
                for page in 0..4 {
                    write(&ftl, page * PAGE, page as u32).await;
                }
                ftl.flush(SpanId::NONE, &Spans::default()).await.unwrap();
                for page in 0..4 {
                    read(&ftl, page * PAGE).await;
                }
                // An evicted dirty page is in flash, not in the buffer.
                ftl.flush(SpanId::NONE, &Spans::default()).await.unwrap();
                lender.damage.set(damage);
                let before = copies(&ftl.counters());
                for page in 0..4 {
                    assert_eq!(read(&ftl, page * PAGE).await, stamp(page * PAGE, page as u32));
                }
                let [_, loaded, damaged] = copies(&ftl.counters());
                assert!(damaged > before[2], "{damage:?}");
                assert!(loaded <= before[1] + 1, "{damage:?}: one copy may be where it belongs");
            })
            .unwrap();
    }
}

/// Writes units of its own and reads what it last wrote.
async fn host(ftl: Ftl, mut stream: Stream, first: u64, units: u64, steps: u32) {
    let mut model = vec![None; units as usize];
    for step in 0..steps {
        let unit = stream.below(units);
        match stream.below(10) {
            0..4 => {
                write(&ftl, first + unit, step).await;
                model[unit as usize] = Some(stamp(first + unit, step));
            }
            4 => {
                let count = 1 + stream.below(units - unit);
                ftl.trim(SpanId::NONE, &Spans::default(), first + unit, count).await.unwrap();
                model[unit as usize..(unit + count) as usize].fill(Some(Content::Zero));
            }
            _ => {
                let found = read(&ftl, first + unit).await;
                let expected = model[unit as usize].clone();
                assert!(expected.is_none_or(|expected| expected == found), "unit {unit} at step {step}");
            }
        }
    }
}

/// Lends, damages and withdraws memory, at any moment.
async fn lend(clock: Clock, ftl: Ftl, mut stream: Stream) {
    loop {
        let places = 1 + stream.below(PAGES) as u32;
        let lender = Lender::new(&clock, places);
        assert!(ftl.borrow_memory(lender.clone(), places));
        for _ in 0..stream.below(4) {
            clock.sleep(Delay::from_us(stream.below(4000))).await;
            lender.damage.set([Damage::None, Damage::Bit, Damage::Mixed][stream.below(3) as usize]);
        }
        lender.damage.set(Damage::None);
        clock.sleep(Delay::from_us(stream.below(20_000))).await;
        ftl.return_memory().await;
        lender.is_lent.set(false);
        assert_eq!(lender.in_flight.get(), 0, "nothing is loaded from what was given back");
        clock.sleep(Delay::from_us(stream.below(500))).await;
    }
}

// Pages are evicted, written, changed while away and moved, while the memory comes and goes: the last write
// is read, and no task waits for memory that is gone.
#[test]
fn whatever_becomes_of_lent_memory_what_was_written_last_is_read() {
    let mut total = [0; 3];
    for seed in 0..10 {
        for (base, pages) in [(Base::Empty, 1), (Base::Filled, 2), (Base::Steady, 4)] {
            let executor = Executor::new();
            let clock = executor.clock().clone();
            let ftl = ftl(&clock, FtlConfig { seed, ..config(pages, base) });
            let rng = Rng::new(seed);
            let done = Rc::new(Cell::new(0));
            let own = ftl.user_units() / 3;
            for number in 0..3 {
                let (ftl, done, stream) = (ftl.clone(), done.clone(), rng.stream(&format!("host-{number}")));
                clock.spawn("host", async move {
                    host(ftl, stream, number * own, own, 700).await;
                    done.set(done.get() + 1);
                });
            }
            clock.spawn("lender", lend(clock.clone(), ftl.clone(), rng.stream("lender")));
            let then = clock.clone();
            let ended = executor.run(async move {
                while done.get() < 3 {
                    clock.sleep(Delay::from_ms(1)).await;
                    assert!(clock.now() < Time(200_000_000_000_000), "seed {seed}: hosts never finish");
                }
            });
            ended.unwrap_or_else(|stalled| panic!("seed {seed}: {stalled} at {:?}", then.now()));
            let counted = copies(&ftl.counters());
            (0..3).for_each(|index| total[index] += counted[index]);
            ftl.stop();
        }
    }
    assert!(total.iter().all(|count| *count > 100), "{total:?}");
}
