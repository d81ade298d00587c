//! A store on a small drive in virtual time, and row groups whose bytes identify them.

use byteway_clock::{Clock, Delay, Executor, Rate, SpanId, Spans};
use byteway_firmware::{Cycles, Ftl, FtlConfig, Placement, Site, WorkKind};
use byteway_flash::{FaultPlan, FlashConfig, Geometry, Medium, Timing};
use byteway_tables::{NewGroup, Table, Tables, TablesConfig, UnitExtent};
use std::future::Future;

/// A drive and its store.
#[derive(Clone)]
pub struct Case {
    pub geometry: Geometry,
    pub ftl: FtlConfig,
    pub tables: TablesConfig,
    /// Injected faults.
    pub faults: FaultPlan,
}

impl Case {
    /// A few hundred free units in two extents, the second one first.
    pub fn tiny(plp: bool) -> Case {
        let geometry = Geometry { channels: 2, ways: 1, planes: 2, blocks: 40, pages: 8, page_bytes: 8192 };
        let ftl = FtlConfig {
            user_units: 900,
            write_buffer_units: 32,
            plp,
            checkpoint_units: 200,
            ..FtlConfig::default()
        };
        let extents = vec![UnitExtent { first: 300, count: 500 }, UnitExtent { first: 7, count: 13 }];
        Case { geometry, ftl, tables: TablesConfig::new(extents, 77), faults: FaultPlan::default() }
    }

    pub fn medium(&self) -> Medium {
        Ftl::medium(self.geometry, &self.ftl).unwrap()
    }

    pub fn power_on(&self, clock: &Clock, medium: Medium) -> (Ftl, Tables) {
        let site = Site::new(clock, 2, 1_000_000_000, Delay::from_ns(80), Rate::per_second(10_000_000_000));
        let cycles = WorkKind::ALL.into_iter().fold(Cycles::FREE, |cycles, work| cycles.with(work, 300));
        let placement = Placement::all_at(&site, cycles);
        let ftl = Ftl::power_on(
            clock,
            placement,
            self.geometry,
            FlashConfig { faults: self.faults.clone(), ..FlashConfig::from(timing()) },
            self.ftl.clone(),
            medium,
        )
        .unwrap();
        let tables = Tables::power_on(clock, ftl.clone(), self.tables.clone()).unwrap();
        (ftl, tables)
    }

    /// Runs `work` with a store on a new drive.
    pub fn run<F: Future<Output = ()> + 'static>(&self, work: impl FnOnce(Tables) -> F) {
        let executor = Executor::new();
        let (_ftl, tables) = self.power_on(executor.clock(), self.medium());
        executor.run(work(tables)).unwrap();
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

pub const NO_SPAN: SpanId = SpanId::NONE;

pub fn spans() -> Spans {
    Spans::default()
}

/// Bytes that differ for each number.
pub fn bytes(number: u64, count: usize) -> Vec<u8> {
    let mut word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(count + 8);
    while out.len() < count {
        word = (word ^ (word >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(1);
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.truncate(count);
    out
}

/// A row group of `number` rows.
pub fn group(number: u64, data: usize) -> NewGroup {
    NewGroup { rows: number, meta: bytes(number << 1, 50), data: bytes(number << 1 | 1, data) }
}

/// Checks byte by byte that a table consists of the row groups of these numbers.
pub async fn holds(tables: &Tables, table: &Table, groups: &[NewGroup]) -> Result<(), String> {
    let rows: Vec<u64> = table.groups.iter().map(|group| group.rows).collect();
    let expected: Vec<u64> = groups.iter().map(|group| group.rows).collect();
    if rows != expected {
        return Err(format!("{} has row groups {rows:?} instead of {expected:?}", table.name));
    }
    for (there, group) in table.groups.iter().zip(groups) {
        let meta = tables.meta(NO_SPAN, &spans(), there).await;
        let meta = meta.map_err(|error| format!("{}: row group {}: {error}", table.name, group.rows))?;
        let mut data = Vec::new();
        let read = tables.read(NO_SPAN, &spans(), there, 0, there.data_bytes, &mut data).await;
        read.map_err(|error| format!("{}: row group {}: {error}", table.name, group.rows))?;
        if *meta != *group.meta || data != group.data {
            return Err(format!("{}: row group {} has other bytes", table.name, group.rows));
        }
    }
    Ok(())
}
