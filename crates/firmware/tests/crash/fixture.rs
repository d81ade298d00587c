//! The host's model of a drive, the drives, and their power.

use crate::extents::SMALL_NODES;
use crate::far;
use byteway_clock::random::Rng;
use byteway_clock::{Clock, Delay, Executor, Rate, SpanId, Spans};
use byteway_content::{BlockSize, Content, Keep, Stamp, UNIT_BYTES};
use byteway_device::{Drive, DriveConfig};
use byteway_firmware::policy::{Policies, Stream as StreamChoice, StreamCounts, StreamPolicy, StreamView};
use byteway_firmware::{
    Base, Cycles, Defect, Ftl, FtlConfig, FtlError, Maintenance, MediaError, Placement, Region, Site,
    WorkKind,
};
use byteway_flash::{FaultPlan, FlashConfig, Geometry, Medium, SlcTiming, Timing};
use byteway_world::PoweredDrive;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

const TAG: u16 = 7;

/// Content of a unit: the version of each of its blocks.
pub type Blocks = [u32; 8];

/// The version of a block that holds zeroes.
const ZEROES: u32 = u32::MAX;

/// A unit that holds zeroes.
pub const NOTHING: Blocks = [ZEROES; 8];

/// Bytes of a block.
const BLOCK: usize = 512;

fn bytes_of(lpa: u64, blocks: Range<usize>, version: u32) -> Vec<u8> {
    let mut bytes = vec![0; blocks.len() * BLOCK];
    if version != ZEROES {
        let lba = lpa * 8 + blocks.start as u64;
        Stamp { lba, version, tag: TAG, block: BlockSize::B512 }.fill(&mut bytes);
    }
    bytes
}

pub fn content(lpa: u64, blocks: Blocks) -> Content {
    if blocks == NOTHING {
        return Content::Zero;
    }
    if blocks == [blocks[0]; 8] {
        let version = blocks[0];
        return Content::Stamp(Stamp { lba: lpa * 8, version, tag: TAG, block: BlockSize::B512 });
    }
    let each = (0..8).zip(blocks).flat_map(|(block, version)| bytes_of(lpa, block..block + 1, version));
    Content::of(&each.collect::<Vec<u8>>(), Keep::Stamps)
}

/// Content of a unit, in short.
fn told(content: &Content) -> String {
    let mut bytes = [0; UNIT_BYTES];
    content.write_to(&mut bytes);
    let versions = bytes.chunks_exact(BLOCK).map(Stamp::read_header);
    let versions: Vec<Option<u32>> = versions.map(|stamp| stamp.map(|stamp| stamp.version)).collect();
    format!("{versions:?}, of which {:#010b} can't be read", content.marred())
}

/// Whether a partly unreadable unit matches this where it is readable.
fn is_rest_of(lpa: u64, blocks: Blocks, found: &Content) -> bool {
    let (mut held, mut expected) = ([0; UNIT_BYTES], [0; UNIT_BYTES]);
    found.write_to(&mut held);
    content(lpa, blocks).write_to(&mut expected);
    let each = held.chunks_exact(BLOCK).zip(expected.chunks_exact(BLOCK)).enumerate();
    each.filter(|(block, _)| found.marred() >> block & 1 == 0).all(|(_, (held, expected))| held == expected)
}

/// The host's model of the drive: for each unit the last durable version, and everything written to it since.
#[derive(Clone)]
pub struct Model {
    pub units: Vec<Vec<Blocks>>,
    next_version: u32,
    pub plp: bool,
    /// Reads fail, so that flash loses units.
    loses: bool,
    /// For each unit, whether it was found unreadable, so that its version is unknown. Only whole units are
    /// written over that, not parts.
    is_lost: Vec<bool>,
    /// Hosts write parts of units, too.
    pub has_parts: bool,
}

impl Model {
    pub fn new(case: &Case) -> Self {
        let first = if case.config.base == Base::Empty { NOTHING } else { [0; 8] };
        let units = vec![vec![first]; case.config.user_units as usize];
        let is_lost = vec![false; units.len()];
        Model {
            units,
            is_lost,
            next_version: 1,
            plp: case.config.plp,
            loses: case.faults.read > 0.0,
            has_parts: case.config.absorbs_parts.is_some(),
        }
    }

    /// A write of units is in flight: their new contents are added to `contents`.
    pub fn begin_write(&mut self, lpas: Range<u64>, contents: &mut Vec<Content>) {
        for lpa in lpas {
            self.is_lost[lpa as usize] = false;
            self.units[lpa as usize].push([self.next_version; 8]);
            contents.push(content(lpa, [self.next_version; 8]));
            self.next_version += 1;
        }
    }

    /// A write of blocks of a unit is in flight, with their new contents.
    pub fn begin_part(&mut self, lpa: u64, blocks: Range<usize>) -> Vec<u8> {
        let version = self.next_version;
        self.next_version += 1;
        let possible = &mut self.units[lpa as usize];
        let mut unit = *possible.last().expect("a unit holds something");
        unit[blocks.clone()].fill(version);
        possible.push(unit);
        bytes_of(lpa, blocks, version)
    }

    /// A deallocation is in flight.
    pub fn begin_trim(&mut self, lpas: Range<u64>) {
        for lpa in lpas {
            self.is_lost[lpa as usize] = false;
            self.units[lpa as usize].push(NOTHING);
        }
    }

    /// All units.
    pub fn all(&self) -> Range<u64> {
        0..self.units.len() as u64
    }

    /// Number of versions of each of a host's units: what a flush that begins now makes durable.
    pub fn mark(&self, own: &Range<u64>) -> Vec<usize> {
        self.units[own.start as usize..own.end as usize].iter().map(Vec::len).collect()
    }

    /// Everything up to a mark is durable.
    pub fn settle(&mut self, own: &Range<u64>, mark: &[usize]) {
        let own = own.start as usize..own.end as usize;
        let units = self.units[own.clone()].iter_mut().zip(&self.is_lost[own]);
        // Any version of a lost unit may return, until there is a new one.
        for ((possible, _), count) in units.zip(mark).filter(|((_, is_lost), _)| !**is_lost) {
            possible.drain(..count - 1);
        }
    }

    /// Checks the contents found of every unit: each is possible, and from now on the only one.
    pub fn look(&mut self, found: Vec<Content>, what: &str) {
        let units = (0..).zip(&mut self.units).zip(&mut self.is_lost);
        for (((lpa, possible), is_lost), found) in units.zip(found) {
            let blocks = possible.iter().rev().find(|blocks| content(lpa, **blocks) == found);
            match blocks.copied() {
                Some(blocks) => (*possible, *is_lost) = (vec![blocks], false),
                // Earlier data may return: a unit that could not be read when it was moved still lies at its
                // old address.
                None if self.loses
                    && found.marred() != 0
                    && possible.iter().any(|blocks| is_rest_of(lpa, *blocks, &found)) =>
                {
                    possible.retain(|blocks| is_rest_of(lpa, *blocks, &found));
                    *is_lost = true;
                }
                None => panic!("{what}: unit {lpa} holds {}, and may hold {possible:?}", told(&found)),
            }
        }
    }
}

/// Contents of all units: over own flash at this instant and without cost, otherwise by reads.
pub async fn found(ftl: &Ftl) -> Vec<Content> {
    if ftl.data_end().own().is_some() {
        return (0..ftl.user_units()).map(|lpa| ftl.peek(lpa)).collect();
    }
    let (spans, mut all, mut out) = (Spans::default(), Vec::new(), Vec::new());
    for lpa in 0..ftl.user_units() {
        let read = ftl.read(SpanId::NONE, &spans, lpa, 1, &mut out).await;
        all.push(if read.is_ok() { out.remove(0) } else { Content::unreadable() });
    }
    all
}

/// A powered translation layer, with the drive that has its flash if that is another one.
pub struct Powered {
    pub ftl: Ftl,
    raw: Option<PoweredDrive>,
}

impl Powered {
    /// Cuts the power everywhere.
    pub fn off(&self) -> Medium {
        match &self.raw {
            Some(drive) => {
                self.ftl.stop();
                drive.power_off()
            }
            None => self.ftl.power_off(),
        }
    }
}

/// A drive.
pub struct Case {
    pub name: &'static str,
    pub faults: FaultPlan,
    pub geometry: Geometry,
    /// Page types: stripes of a wordline.
    pub wordline: usize,
    pub config: FtlConfig,
    /// A task reads, rewrites, purges and shuts down in parallel to the hosts.
    pub meddles: bool,
    /// Its flash is across a link from the translation layer.
    pub is_far: bool,
}

impl Case {
    /// The same over flash across a link, with empty base state, and without power-loss protection. Reads do
    /// not fail: an unreadable translation page would prevent the start, whereas own flash provides it
    /// anyway.
    pub fn across(self) -> Case {
        let config = FtlConfig { base: Base::Empty, plp: false, ..self.config };
        let faults = FaultPlan { read: 0.0, ..self.faults };
        Case { config, faults, is_far: true, ..self }
    }

    /// The same drive with frames for a few pages of the map, which are added and given up one by one.
    pub fn lending(self) -> Case {
        let config = FtlConfig { map_cache_pages: Some(4), map_segment_pages: 1, ..self.config };
        Case { config, ..self }
    }

    /// The same with a map of extents, all of it in DRAM, on a drive with empty base state.
    pub fn in_extents(self) -> Case {
        let config =
            FtlConfig { extents: Some(SMALL_NODES), base: Base::Empty, map_cache_pages: None, ..self.config };
        Case { config, ..self }
    }

    /// The same with a stream policy, on a die with as many more superblocks as its streams take, and filled
    /// as far as possible. The one-bit cache is left out.
    pub fn in_streams(self, streams: StreamPolicy) -> Case {
        let counts = streams.make().counts();
        let blocks = self.geometry.blocks + counts.further_blocks();
        let geometry = Geometry { blocks, ..self.geometry };
        let upkeep =
            Maintenance { slc_blocks: 0, slc_dynamic: Default::default(), ..self.config.upkeep.clone() };
        let user_units = geometry.total_units();
        let config = FtlConfig { streams, upkeep, user_units, ..self.config };
        let mut case = Case { config, geometry, ..self };
        for _ in 0..8 {
            let executor = Executor::new();
            let medium = Ftl::medium(case.geometry, &case.config);
            match medium.and_then(|medium| case.try_power_on(executor.clock(), medium, 0)) {
                Err(FtlError::ManyStreams { most, .. } | FtlError::TooLarge { most, .. }) => {
                    case.config.user_units = most
                }
                powered => return powered.map(|_| case).unwrap(),
            }
        }
        panic!("{}: no capacity fits", case.name)
    }

    /// The same with absorption of partial writes, a few units at a time.
    pub fn absorbing(self) -> Case {
        let config = FtlConfig { absorbs_parts: Some(6), ..self.config };
        Case { config, ..self }
    }

    /// If the drive is [`Case::lending`]: adds frames for pages of the map, and gives them up, until the
    /// power cut.
    pub fn lend(&self, clock: &Clock, ftl: &Ftl, seed: u64) {
        if self.config.map_segment_pages == FtlConfig::MAP_SEGMENT_PAGES {
            return;
        }
        let (after, ftl) = (clock.clone(), ftl.clone());
        let mut stream = Rng::new(seed).stream("lender");
        clock.spawn("lender", async move {
            ftl.ready().await;
            loop {
                after.sleep(Delay::from_us(stream.below(500))).await;
                match ftl.map_frames().is_some_and(|frames| frames < 6) && stream.chance(0.5) {
                    true => ftl.take_map_segments(1 + stream.below(2) as u32),
                    false => _ = ftl.give_up_map_segments(1 + stream.below(3) as u32).await,
                }
            }
        });
    }

    pub fn broken(self, defect: Defect) -> Case {
        let config = FtlConfig { defect: defect.into(), ..self.config };
        Case { config, ..self }
    }

    pub fn medium(&self) -> Medium {
        match self.is_far {
            true => Drive::medium(&self.raw_drive()).unwrap(),
            false => Ftl::medium(self.geometry, &self.config).unwrap(),
        }
    }

    /// The drive of a case that is [across](Case::across) a link, new.
    pub fn raw(&self, clock: &Clock, seed: u64) -> PoweredDrive {
        far::power_on(clock, self.raw_drive(), self.faults.clone(), seed, None)
    }

    /// A translation layer of the host's over it.
    pub fn attach(&self, executor: &Executor, drive: &PoweredDrive) -> Ftl {
        let far = executor.run(far::attach(drive.host.clone())).unwrap();
        let clock = executor.clock();
        Ftl::over(clock, placement(clock), far, self.config.clone()).unwrap()
    }

    fn raw_drive(&self) -> DriveConfig {
        far::raw_drive(self.geometry, timing(self.wordline), &self.config)
    }

    /// Powered on, after as many polls of `executor` as that takes.
    pub fn powered(&self, executor: &Executor, medium: Medium, seed: u64) -> Powered {
        let clock = executor.clock();
        if !self.is_far {
            return Powered { ftl: self.power_on(clock, medium, seed), raw: None };
        }
        let drive = far::power_on(clock, self.raw_drive(), self.faults.clone(), seed, Some(medium));
        Powered { ftl: self.attach(executor, &drive), raw: Some(drive) }
    }

    pub fn power_on(&self, clock: &Clock, medium: Medium, seed: u64) -> Ftl {
        self.try_power_on(clock, medium, seed).unwrap()
    }

    pub fn try_power_on(&self, clock: &Clock, medium: Medium, seed: u64) -> Result<Ftl, FtlError> {
        let faults = self.faults.clone();
        let flash = FlashConfig { faults, rng: Rng::new(seed), ..FlashConfig::from(timing(self.wordline)) };
        Ftl::power_on(clock, placement(clock), self.geometry, flash, self.config.clone(), medium)
    }
}

fn placement(clock: &Clock) -> Placement {
    let site = Site::new(clock, 2, 1_000_000_000, Delay::from_ns(80), Rate::per_second(10_000_000_000));
    let cycles = WorkKind::ALL.into_iter().fold(Cycles::FREE, |cycles, work| cycles.with(work, 300));
    Placement::all_at(&site, cycles)
}

fn timing(wordline: usize) -> Timing {
    Timing {
        read: [40, 60, 80].into_iter().take(wordline).map(Delay::from_us).collect(),
        program: [300, 500, 700].into_iter().take(wordline).map(Delay::from_us).collect(),
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

/// A host that waits for each of its commands, so that it knows what is durable of its own units. Its actions
/// return false at the end of the drive's life.
pub struct Host {
    pub ftl: Ftl,
    pub model: Rc<RefCell<Model>>,
    /// Its units.
    pub own: Range<u64>,
    spans: Spans,
    contents: Vec<Content>,
}

impl Host {
    pub fn new(ftl: Ftl, model: Rc<RefCell<Model>>, own: Range<u64>) -> Self {
        Host { ftl, model, own, spans: Spans::default(), contents: Vec::new() }
    }

    fn mark(&self) -> Vec<usize> {
        self.model.borrow().mark(&self.own)
    }

    /// A command has ended; if `durable`, everything up to the mark is durable.
    fn end(&self, result: Result<(), MediaError>, durable: bool, mark: &[usize]) -> bool {
        let goes_on = !is_over(result);
        if goes_on && durable {
            self.model.borrow_mut().settle(&self.own, mark);
        }
        goes_on
    }

    pub async fn write(&mut self, lpas: Range<u64>, durable: bool) -> bool {
        let first = lpas.start;
        self.model.borrow_mut().begin_write(lpas, &mut self.contents);
        let (mark, plp) = (self.mark(), self.model.borrow().plp);
        let written = self.ftl.write(SpanId::NONE, &self.spans, first, &mut self.contents, durable).await;
        self.end(written, durable || plp, &mark)
    }

    /// Writes blocks of a unit.
    pub async fn write_part(&mut self, lpa: u64, blocks: Range<usize>, durable: bool) -> bool {
        if self.model.borrow().is_lost[lpa as usize] {
            return self.write(lpa..lpa + 1, durable).await;
        }
        let offset = blocks.start * BLOCK;
        let bytes = self.model.borrow_mut().begin_part(lpa, blocks);
        let (mark, plp) = (self.mark(), self.model.borrow().plp);
        let written = self.ftl.write_part(SpanId::NONE, &self.spans, lpa, offset, &bytes, durable).await;
        self.end(written, durable || plp, &mark)
    }

    pub async fn trim(&mut self, lpas: Range<u64>) -> bool {
        let (first, count) = (lpas.start, lpas.end - lpas.start);
        self.model.borrow_mut().begin_trim(lpas);
        let (mark, plp) = (self.mark(), self.model.borrow().plp);
        let trimmed = self.ftl.trim(SpanId::NONE, &self.spans, first, count).await;
        self.end(trimmed, plp, &mark)
    }

    pub async fn flush(&mut self) -> bool {
        let mark = self.mark();
        let flushed = self.ftl.flush(SpanId::NONE, &self.spans).await;
        self.end(flushed, true, &mark)
    }

    /// A clean shutdown of the host.
    pub async fn shut_down(&mut self) -> bool {
        let mark = self.mark();
        let ended = self.ftl.shutdown(SpanId::NONE, &self.spans).await;
        self.end(ended, true, &mark)
    }
}

/// One life: from this medium, until the power cut after `polls` polls.
pub type Life = fn(&Case, Medium, &Rc<RefCell<Model>>, u64, u64, &str) -> Medium;

/// A history of cuts, after given numbers of polls, and finally none.
pub fn lives(life: Life, case: &Case, seed: u64, cuts: &[u64]) {
    let mut medium = case.medium();
    let model = Rc::new(RefCell::new(Model::new(case)));
    for (turn, polls) in cuts.iter().chain([&u64::MAX]).enumerate() {
        let what = format!("{}, seed {seed}, cuts {cuts:?}, turn {turn}", case.name);
        medium = life(case, medium, &model, *polls, seed + turn as u64, &what);
    }
}

/// Whether the drive is at the end of its life.
pub fn is_over(result: Result<(), MediaError>) -> bool {
    result.inspect_err(|error| assert_eq!(*error, MediaError::WriteProtected)).is_err()
}

pub fn tiny(pages: u32) -> Geometry {
    Geometry { channels: 2, ways: 1, planes: 2, blocks: 8, pages, page_bytes: 8192 }
}

/// Units that hold patterns, if the base state has any.
pub fn regions() -> Vec<Region> {
    vec![Region { first_unit: 0, tag: TAG, block: BlockSize::B512 }]
}

/// Drives on which everything happens at once.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, base, wordline, plp, checkpoint_units, map_cache_pages) in [
        ("one stripe", Base::Empty, 1, false, 64, None),
        ("one stripe, no checkpoints", Base::Empty, 1, false, 0, None),
        ("filled", Base::Filled, 1, false, 40, None),
        ("steady", Base::Steady, 1, false, 100, None),
        ("two stripes", Base::Empty, 2, false, 64, None),
        ("three stripes", Base::Filled, 3, false, 50, None),
        ("three stripes, steady", Base::Steady, 3, false, 0, None),
        ("protected", Base::Filled, 1, true, 64, None),
        ("protected, three stripes", Base::Empty, 3, true, 64, None),
        ("cached", Base::Empty, 1, false, 64, Some(1)),
        ("cached, three stripes", Base::Filled, 3, false, 64, Some(1)),
    ] {
        let config = FtlConfig {
            user_units: if wordline == 3 { 110 } else { 150 },
            write_buffer_units: 24,
            base,
            plp,
            checkpoint_units,
            map_cache_pages,
            wide_map: cases.len() % 2 == 1,
            regions: regions(),
            ..Default::default()
        };
        cases.push(Case {
            name,
            faults: FaultPlan::default(),
            geometry: tiny(6),
            wordline,
            config,
            meddles: false,
            is_far: false,
        });
    }
    cases
}

/// Drives of five translation pages, one or two of them in DRAM: they are written and moved all the time.
pub fn cached_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, base, wordline, plp, checkpoint_units, pages) in [
        ("cached", Base::Empty, 1, false, 64, 1),
        ("cached, filled", Base::Filled, 1, false, 0, 2),
        ("cached, steady", Base::Steady, 1, false, 100, 1),
        ("cached, steady, two stripes", Base::Steady, 2, false, 200, 2),
        ("cached, steady, three stripes", Base::Steady, 3, false, 0, 1),
        ("cached, protected", Base::Steady, 3, true, 150, 1),
    ] {
        let geometry = Geometry { blocks: 40, ..tiny(18) };
        let config = FtlConfig {
            user_units: 4450,
            write_buffer_units: 24,
            base,
            plp,
            checkpoint_units,
            map_cache_pages: Some(pages),
            wide_map: cases.len() % 2 == 1,
            regions: regions(),
            ..Default::default()
        };
        let faults = FaultPlan::default();
        cases.push(Case { name, faults, geometry, wordline, config, meddles: false, is_far: false });
    }
    cases
}

/// As many streams as there can be, and units in any of them.
struct Anywhere;

impl StreamChoice for Anywhere {
    fn counts(&self) -> StreamCounts {
        StreamCounts { host: 4, collector: 4 }
    }

    fn place(&mut self, view: &mut StreamView<'_>) -> u32 {
        (view.random() % 4) as u32
    }
}

/// Stream policies: `anywhere`, or a built-in one.
pub fn streams(name: &str) -> StreamPolicy {
    match name {
        "anywhere" => StreamPolicy::new(name, Some("1".into()), || Box::new(Anywhere)),
        _ => Policies::default().find(name).unwrap(),
    }
}

/// Random histories of a case, each a seed and the poll of each power cut.
pub fn histories(case: &Case, seeds: Range<u64>, history: fn(&Case, u64, &[u64])) {
    for seed in seeds {
        let mut stream = Rng::new(seed).stream("cuts");
        let count = 1 + stream.below(6);
        let cuts: Vec<u64> = (0..count)
            .map(|_| match stream.below(3) {
                0 => stream.below(60),
                1 => stream.below(600),
                _ => stream.below(6000),
            })
            .collect();
        history(case, seed * 1000, &cuts);
    }
}

/// Each defect on purpose of recovery is found by histories of drives that `alter` derives from the others.
pub fn find_defects(history: fn(&Case, u64, &[u64]), alter: fn(Case) -> Case) {
    let defects =
        [Defect::IgnoreTrims, Defect::OlderCopy, Defect::TrustTorn, Defect::ForgetDump, Defect::EraseEarly];
    for defect in defects {
        let found = (0..400).find(|seed| {
            cases().into_iter().any(|case| {
                let broken = alter(case).broken(defect);
                let run = || histories(&broken, *seed..*seed + 1, history);
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err()
            })
        });
        assert!(found.is_some(), "{defect:?} is not found");
    }
}

/// Factor of the amount of work, for a long run by hand.
pub fn share() -> u64 {
    std::env::var("BYTEWAY_CRASH_SHARE").ok().and_then(|share| share.parse().ok()).unwrap_or(1)
}
