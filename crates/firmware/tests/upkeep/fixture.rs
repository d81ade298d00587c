//! A small drive, hosts that know what they wrote, and a check of every unit.

use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Clock, Delay, Executor, Rate, SpanId, Spans};
use byteway_content::{BlockSize, Content, Stamp, UNIT_BYTES};
use byteway_firmware::{
    Base, Cycles, Ftl, FtlConfig, FtlCounters, Health, Maintenance, MediaError, Placement, Region, Site,
    WorkKind,
};
use byteway_flash::{FaultPlan, FlashConfig, Geometry, SlcTiming, Timing};
use std::cell::RefCell;
use std::rc::Rc;

pub const SPAN: SpanId = SpanId::NONE;
const TAG: u16 = 7;

/// Two dies of 12 superblocks, each of 6 stripes of 4 units.
pub const TINY: Geometry =
    Geometry { channels: 2, ways: 1, planes: 2, blocks: 12, pages: 6, page_bytes: 8192 };

/// One stripe a wordline.
pub fn timing() -> Timing {
    Timing {
        read: vec![Delay::from_us(40)],
        program: vec![Delay::from_us(300)],
        erase: Delay::from_ms(3),
        channel: Rate::per_second(800_000_000),
        command: Delay::from_ns(200),
        slc: Some(SlcTiming {
            read: Delay::from_us(20),
            program: Delay::from_us(100),
            erase: Delay::from_ms(1),
        }),
        ..Timing::default()
    }
}

/// Three stripes a wordline.
pub fn three_bits() -> Timing {
    let us = Delay::from_us;
    Timing { read: vec![us(40), us(60), us(80)], program: vec![us(300), us(500), us(700)], ..timing() }
}

pub fn with_faults(timing: Timing, faults: FaultPlan, seed: u64) -> FlashConfig {
    FlashConfig { faults, rng: Rng::new(seed), ..FlashConfig::from(timing) }
}

pub fn config(user_units: u64, base: Base, upkeep: Maintenance) -> FtlConfig {
    FtlConfig {
        user_units,
        write_buffer_units: 24,
        base,
        regions: vec![Region { first_unit: 0, tag: TAG, block: BlockSize::B4096 }],
        upkeep,
        ..Default::default()
    }
}

pub fn placement(clock: &Clock) -> Placement {
    let site = Site::new(clock, 2, 1_000_000_000, Delay::from_ns(80), Rate::per_second(10_000_000_000));
    let cycles = WorkKind::ALL.into_iter().fold(Cycles::FREE, |cycles, work| cycles.with(work, 300));
    Placement::all_at(&site, cycles)
}

pub fn ftl(clock: &Clock, geometry: Geometry, flash: impl Into<FlashConfig>, config: FtlConfig) -> Ftl {
    Ftl::new(clock, placement(clock), geometry, flash, config).unwrap()
}

pub fn stamp(lpa: u64, version: u32) -> Content {
    if version == u32::MAX {
        return Content::Zero;
    }
    Content::Stamp(Stamp { lba: lpa, version, tag: TAG, block: BlockSize::B4096 })
}

pub async fn write(ftl: &Ftl, first: u64, count: u64, version: u32) -> Result<(), MediaError> {
    let mut contents = (first..first + count).map(|lpa| stamp(lpa, version)).collect();
    ftl.write(SPAN, &Spans::default(), first, &mut contents, false).await
}

pub async fn flush(ftl: &Ftl) -> Result<(), MediaError> {
    ftl.flush(SPAN, &Spans::default()).await
}

/// Reads one unit: its version; None if unreadable. Panics if it is another's or empty.
pub async fn version(ftl: &Ftl, lpa: u64) -> Option<u32> {
    let mut out = Vec::new();
    match ftl.read(SPAN, &Spans::default(), lpa, 1, &mut out).await {
        Ok(()) => match &out[..] {
            [Content::Stamp(stamp)] => {
                assert_eq!((stamp.lba, stamp.tag), (lpa, TAG), "another's");
                Some(stamp.version)
            }
            [Content::Zero] => Some(u32::MAX),
            [content] if content.marred() == u8::MAX => None,
            other => panic!("unit {lpa} holds {other:?}"),
        },
        Err(MediaError::Unreadable) => None,
        Err(error) => panic!("unit {lpa}: {error}"),
    }
}

/// Expected contents: for each unit, its possible versions, the last one written first.
pub type Model = Rc<RefCell<Vec<Vec<u32>>>>;

/// One of several hosts, which keeps to its own units, so that it knows what it last wrote. Ends early when
/// the drive is read-only.
async fn host(ftl: Ftl, model: Model, mut stream: Stream, number: u64, hosts: u64, steps: u32) {
    let spans = Spans::default();
    let own = ftl.user_units() / hosts;
    let mut contents = Vec::new();
    for step in 0..steps {
        let count = if stream.chance(0.7) { 1 } else { 1 + stream.below(20.min(own)) };
        let first = number * own + stream.below(own - count + 1);
        let units = first..first + count;
        let version_now = 1 + step * hosts as u32 + number as u32;
        let result = match stream.below(100) {
            0..60 => {
                contents.extend(units.clone().map(|lpa| stamp(lpa, version_now)));
                let result = ftl.write(SPAN, &spans, first, &mut contents, stream.chance(0.05)).await;
                contents.clear();
                result.map(|()| version_now).map_err(|error| (error, version_now))
            }
            60..90 => {
                for lpa in units {
                    let found = version(&ftl, lpa).await;
                    let may = &model.borrow()[lpa as usize];
                    assert!(
                        found.is_none_or(|it| it == may[0]),
                        "unit {lpa}, step {step}: {found:?} of {may:?}"
                    );
                }
                continue;
            }
            90..96 => {
                let result = ftl.trim(SPAN, &spans, first, count).await;
                result.map(|()| u32::MAX).map_err(|error| (error, u32::MAX))
            }
            96..98 => {
                if let Err(error) = ftl.flush(SPAN, &spans).await {
                    assert_eq!(error, MediaError::WriteProtected);
                }
                continue;
            }
            _ => {
                let write = |bytes: &mut [u8; UNIT_BYTES], bad: &mut u8| {
                    stamp(first, version_now).write_to(bytes);
                    *bad = 0;
                };
                match ftl.edit(SPAN, &spans, first, write, stream.chance(0.5)).await {
                    Ok(()) => model.borrow_mut()[first as usize] = vec![version_now],
                    Err(MediaError::Unreadable) => {}
                    Err(MediaError::WriteProtected) => model.borrow_mut()[first as usize].push(version_now),
                    Err(error) => panic!("{error}"),
                }
                continue;
            }
        };
        let mut model = model.borrow_mut();
        match result {
            Ok(new) => units.for_each(|lpa| model[lpa as usize] = vec![new]),
            Err((MediaError::WriteProtected, new)) => {
                // Part of it may have been buffered.
                units.for_each(|lpa| model[lpa as usize].push(new));
                return;
            }
            Err((error, _)) => panic!("{error}"),
        }
    }
}

/// Result of a random run.
pub struct Ran {
    pub counters: FtlCounters,
    pub health: Health,
    /// Units that are permanently unreadable at the end.
    pub lost: usize,
}

/// Random hosts over a drive; then every unit is checked.
pub fn check(
    seed: u64,
    geometry: Geometry,
    flash: impl Into<FlashConfig>,
    config: FtlConfig,
    steps: u32,
) -> Ran {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let (base, plp) = (config.base, config.plp);
    let ftl = ftl(&clock, geometry, flash, config);
    let initial = if base == Base::Empty { u32::MAX } else { 0 };
    let model: Model = Rc::new(RefCell::new(vec![vec![initial]; ftl.user_units() as usize]));
    let hosts = 1 + seed % 3;
    let rng = Rng::new(seed);
    let done = Rc::new(RefCell::new(0));
    for number in 0..hosts {
        let (ftl, model, done) = (ftl.clone(), model.clone(), done.clone());
        let stream = rng.stream(&format!("host-{number}"));
        clock.spawn("host", async move {
            host(ftl, model, stream, number, hosts, steps).await;
            *done.borrow_mut() += 1;
        });
    }
    let inner = ftl.clone();
    let ended = executor.run(async move {
        while *done.borrow() < hosts {
            clock.sleep(Delay::from_ms(1)).await;
            assert!(
                clock.now().0 < 1_000_000_000 * u64::from(300 * steps),
                "seed {seed}: {:?}",
                inner.counters()
            );
        }
        let flushed = flush(&inner).await;
        assert!(flushed.is_ok() || inner.health().is_read_only, "seed {seed}");
        // A checkpoint may have begun behind the flush.
        let own = inner.space().map.1;
        assert!(plp || flushed.is_err() || u64::from(inner.units_buffered()) <= own, "seed {seed}");
        clock.sleep(Delay::from_s(2)).await; // the collectors come to rest
        inner.flash().inject(FaultPlan::default());
        let mut lost = 0;
        for lpa in 0..inner.user_units() {
            let found = version(&inner, lpa).await;
            let may = &model.borrow()[lpa as usize];
            assert!(
                found.is_none_or(|it| may.contains(&it)),
                "seed {seed}, unit {lpa}: {found:?} of {may:?}"
            );
            lost += usize::from(found.is_none());
        }
        lost
    });
    let lost = ended.unwrap_or_else(|stalled| panic!("seed {seed}: {stalled}; {:?}", ftl.counters()));
    let ran = Ran { counters: ftl.counters(), health: ftl.health(), lost };
    assert_eq!(
        (ftl.slots_free() + ftl.units_buffered(), ftl.units_locked()),
        (ftl.slots(), 0),
        "seed {seed}: a slot is lost"
    );
    ftl.stop();
    ran
}
