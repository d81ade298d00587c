//! The fixture: a store over a small drive, in virtual time, and values that identify their key.

use byteway_clock::random::Stream;
use byteway_clock::{Clock, Delay, Rate, SpanId, Spans};
use byteway_firmware::{Cycles, Ftl, FtlConfig, Placement, Site, WorkKind};
use byteway_flash::{FaultPlan, FlashConfig, Geometry, Medium, Timing};
use byteway_kv::{Key, Kv, KvConfig, UnitExtent};

/// A drive and its store.
#[derive(Clone)]
pub struct Case {
    pub name: &'static str,
    pub geometry: Geometry,
    pub ftl: FtlConfig,
    pub kv: KvConfig,
    /// Cycles of each kind of work.
    pub cycles: u64,
    /// Cycles of an index look-up.
    pub index_cycles: u64,
    /// Injected faults.
    pub faults: FaultPlan,
}

impl Case {
    /// Segments of 32 KiB and small memtables: everything happens often.
    pub fn tiny(name: &'static str, plp: bool) -> Case {
        let geometry = Geometry { channels: 2, ways: 1, planes: 2, blocks: 60, pages: 8, page_bytes: 8192 };
        let units = 1400;
        let ftl = FtlConfig {
            user_units: units,
            write_buffer_units: 32,
            plp,
            checkpoint_units: 200,
            ..FtlConfig::default()
        };
        let kv = KvConfig {
            // Two extents, in reverse order, with segments across their border.
            extents: vec![UnitExtent { first: 700, count: 690 }, UnitExtent { first: 5, count: 613 }],
            uid: 77,
            page_units: 2,
            segment_units: 8,
            log_table_entries: 4,
            buffer_pages: 3,
            memtable_bytes: 3000,
            filter_bytes: 4000,
            cache_units: 8,
            l0_runs: 2,
            level_ratio: 3,
            value_bytes_max: 100_000,
            plp,
            ..KvConfig::default()
        };
        Case { name, geometry, ftl, kv, cycles: 300, index_cycles: 300, faults: FaultPlan::default() }
    }

    /// Nearly the smallest possible range: garbage collection starts at once.
    pub fn small(name: &'static str, plp: bool) -> Case {
        let mut case = Case::tiny(name, plp);
        case.kv.extents = vec![UnitExtent { first: 3, count: 330 }];
        case
    }

    pub fn medium(&self) -> Medium {
        Ftl::medium(self.geometry, &self.ftl).unwrap()
    }

    pub fn power_on(&self, clock: &Clock, medium: Medium) -> (Ftl, Kv) {
        let (placement, ftl) = self.power_ftl(clock, medium);
        let kv = Kv::power_on(clock, placement, ftl.clone(), self.kv.clone()).unwrap();
        (ftl, kv)
    }

    /// The translation layer alone.
    pub fn power_ftl(&self, clock: &Clock, medium: Medium) -> (Placement, Ftl) {
        let site = Site::new(clock, 2, 1_000_000_000, Delay::from_ns(80), Rate::per_second(10_000_000_000));
        let cycles =
            WorkKind::ALL.into_iter().fold(Cycles::FREE, |cycles, work| cycles.with(work, self.cycles));
        let placement = Placement::all_at(&site, cycles.with(WorkKind::Index, self.index_cycles));
        let flash = FlashConfig { faults: self.faults.clone(), ..FlashConfig::from(timing()) };
        let ftl =
            Ftl::power_on(clock, placement.clone(), self.geometry, flash, self.ftl.clone(), medium).unwrap();
        (placement, ftl)
    }

    /// Addresses of the range's units on the drive.
    pub fn units(&self) -> Vec<u64> {
        self.kv.extents.iter().flat_map(|extent| extent.first..extent.first + extent.count).collect()
    }
}

pub fn timing() -> Timing {
    Timing {
        read: vec![Delay::from_us(40)],
        program: vec![Delay::from_us(300)],
        erase: Delay::from_ms(3),
        channel: Rate::per_second(800_000_000),
        command: Delay::from_ns(200),
        ..Timing::default()
    }
}

/// The value of a version of a key, unique if it is long enough.
pub fn value(key: &Key, version: u32, bytes: usize) -> Vec<u8> {
    let mut word = u64::from(version).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    key.as_bytes()
        .iter()
        .for_each(|byte| word = (word ^ u64::from(*byte)).wrapping_mul(0xff51_afd7_ed55_8ccd));
    let mut out = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        word = (word ^ (word >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(1);
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.truncate(bytes);
    out
}

/// A length, mostly small.
pub fn length(stream: &mut Stream) -> usize {
    let most = match stream.below(40) {
        0 => 1,
        1..30 => 100,
        30..37 => 5000,
        37..39 => 20_000,
        _ => 90_000,
    };
    stream.below(most) as usize
}

/// Key number `number`; keys have all lengths.
pub fn key(number: u64) -> Key {
    let text = number.wrapping_mul(0x9e37_79b9).to_be_bytes();
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes[8..].copy_from_slice(&text);
    match number % 4 {
        0 => Key::new(&bytes[6..8]).unwrap(),
        1 => Key::new(&bytes[4..8]).unwrap(),
        2 => Key::new(&bytes[1..13]).unwrap(),
        _ => Key::new(&bytes).unwrap(),
    }
}

pub const NOBODY: SpanId = SpanId::NONE;

pub fn spans() -> Spans {
    Spans::default()
}
