//! The upkeep part of the summary: background work of a drive for its map and its flash, and the state of its
//! cells. Each part exists only if the drive has the mechanism.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use byteway_content::UNIT_BYTES;
use byteway_text::number::ratio;
use byteway_text::table::{Column, Printout, Quantity, TextTable, number};
use byteway_text::table::{grouped, percent, time};

/// Background work of a drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UpkeepSummary {
    /// Units programmed by cause: the parts of write amplification. Empty if there are only the host's
    /// writes, garbage collection and padding.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programmed: Vec<ProgramRow>,
    /// The map cache in DRAM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_cache: Option<MapCacheSummary>,
    /// The read cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_cache: Option<ReadCacheSummary>,
    /// Blocks with one bit per cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slc: Option<SlcSummary>,
    /// Suspensions of programs and erases for reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspends: Option<u64>,
    /// Read retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetrySummary>,
    /// Bad blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bad_blocks: Option<BadBlockSummary>,
    /// Distribution of wear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wear: Option<WearSummary>,
    /// The last recovery from a power loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoverySummary>,
}

/// Units of 4 KiB programmed for one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramRow {
    /// The cause: host, collector, levelling, refresh, folding, retirement, map, padding.
    pub cause: String,
    /// Units of 4 KiB.
    pub units: u64,
    /// Per unit that the host wrote; all rows sum to the write amplification. 0 if the host wrote nothing.
    pub per_unit_written: f64,
}

/// Map cache statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MapCacheSummary {
    /// Translation pages of 4 KiB in the cache.
    pub pages: u64,
    /// Lookups of a translation page that hit the cache.
    pub hits: u64,
    /// Lookups that loaded it, or waited for another lookup to load it.
    pub misses: u64,
    /// Misses divided by all lookups.
    pub miss_ratio: f64,
    /// Changed pages written back on eviction.
    pub dirty_evictions: u64,
    /// Misses served from a copy in the host memory buffer, if the drive requests one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_host: Option<u64>,
}

/// Read cache statistics. Data in the write buffer, and unmapped data, is not looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReadCacheSummary {
    /// Units of 4 KiB found in the cache.
    pub hits: u64,
    /// Units read from flash.
    pub misses: u64,
    /// Hits divided by the sum of both.
    pub hit_ratio: f64,
    /// Units read ahead of the host, if the drive reads ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead: Option<u64>,
    /// Of these, units that the host has read from the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead_used: Option<u64>,
}

/// Use of blocks with one bit per cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlcSummary {
    /// Units programmed to these blocks.
    pub units_programmed: u64,
    /// Units that the host read from these blocks.
    pub units_read: u64,
    /// Units moved from these blocks to others.
    pub units_folded: u64,
}

/// Flash reads retried at shifted thresholds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RetrySummary {
    /// Successful flash reads, of the host and others.
    pub reads: u64,
    /// Flash reads, successful or not, that were retried.
    pub reads_retried: u64,
    /// Total number of retries.
    pub retries: u64,
    /// Retries per read.
    pub retries_per_read: f64,
    /// Reads with one retry, two retries and so on; the last entry includes all reads with more.
    pub by_retries: Vec<u64>,
    /// Uncorrectable units of 4 KiB.
    pub uncorrectable: u64,
}

/// Bad superblocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BadBlockSummary {
    /// Programs that failed.
    pub failed_programs: u64,
    /// Erases that failed.
    pub failed_erases: u64,
    /// Superblocks retired since the drive was made.
    pub retired: u64,
    /// Spare superblocks left.
    pub spare_left: u64,
}

/// Wear of superblocks. Erases before the run count if the drive's initial wear is configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WearSummary {
    /// Number of superblocks.
    pub blocks: u64,
    /// Lowest erase count.
    pub min: u64,
    /// Mean erase count.
    pub mean: f64,
    /// Highest erase count.
    pub max: u64,
    /// (Highest - lowest) / mean; 0 without erases.
    pub spread: f64,
}

/// Recovery statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecoverySummary {
    /// Time from power-on until ready.
    pub time_ns: f64,
    /// Units recovered from the spare areas of flash, in addition to the checkpoint.
    pub units: u64,
}

impl ProgramRow {
    /// The nonzero parts of write amplification, and their total, for `written` bytes from the host.
    pub fn all(causes: &[(&str, u64)], written: u64) -> Vec<ProgramRow> {
        let row = |&(cause, units): &(&str, u64)| ProgramRow {
            cause: cause.to_owned(),
            units,
            per_unit_written: ratio(u128::from(units) * UNIT_BYTES as u128, written.into()),
        };
        causes.iter().filter(|(_, units)| *units > 0).map(row).collect()
    }
}

impl MapCacheSummary {
    /// Summarizes the counters.
    pub fn new(pages: u64, hits: u64, misses: u64, dirty_evictions: u64, from_host: Option<u64>) -> Self {
        let miss_ratio = ratio(misses.into(), u128::from(hits) + u128::from(misses));
        MapCacheSummary { pages, hits, misses, miss_ratio, dirty_evictions, from_host }
    }
}

impl RetrySummary {
    /// Summarizes the counters. `by_retries[n]` is the number of reads with n + 1 retries.
    pub fn new(reads: u64, by_retries: &[u64], retries: u64, uncorrectable: u64) -> Self {
        let most = by_retries.iter().rposition(|reads| *reads > 0).map_or(0, |last| last + 1);
        RetrySummary {
            reads,
            reads_retried: by_retries.iter().sum(),
            retries,
            retries_per_read: ratio(retries.into(), reads.into()),
            by_retries: by_retries[..most].to_vec(),
            uncorrectable,
        }
    }
}

impl WearSummary {
    /// Summarizes the lowest, mean and highest erase count of `blocks` superblocks.
    pub fn new(blocks: u64, min: u64, mean: f64, max: u64) -> Self {
        // `mean` has six decimals, so this is an integer.
        let millionths = (mean * 1e6).round() as u128;
        let spread = ratio(u128::from(max - min.min(max)) * 1_000_000, millionths);
        WearSummary { blocks, min, mean, max, spread }
    }

    /// A sentence for the terminal and the report.
    pub fn sentence(&self) -> String {
        format!(
            "{} superblocks with {} to {} erases each, mean {}: a spread of {} of the mean",
            grouped(self.blocks),
            grouped(self.min),
            grouped(self.max),
            number(self.mean),
            percent(self.spread)
        )
    }
}

impl UpkeepSummary {
    /// `Some` if any part is present.
    pub fn filled(self) -> Option<Self> {
        (self != UpkeepSummary::default()).then_some(self)
    }

    /// Writes the tables for the terminal.
    pub(super) fn write_tables(&self, out: &mut Printout) {
        let map = self.map_cache.iter().map(|cache| (None, cache));
        self.write_with(out, &map_lookups(&map.collect::<Vec<_>>()));
    }

    /// Like `write_tables`, for one of several drives, whose map caches share a table.
    pub(super) fn write_own_tables(&self, out: &mut Printout) {
        self.write_with(out, &TextTable::new([]));
    }

    /// Whether [`UpkeepSummary::write_own_tables`] writes anything.
    pub(super) fn has_own_tables(&self) -> bool {
        !self.programmed.is_empty() || !self.figures().is_empty() || self.recovery.is_some()
    }

    fn write_with(&self, out: &mut Printout, map: &TextTable) {
        out.section("Programs by cause (units of 4 KiB; the parts of write amplification)", &self.causes());
        out.section("Map cache", map);
        out.section("Background work on flash", &self.cells_and_wear());
        if let Some(recovery) = &self.recovery {
            let _ = writeln!(
                out,
                "\nRecovered in {}: {} units found that are newer than the checkpoint",
                time(recovery.time_ns),
                grouped(recovery.units)
            );
        }
    }

    fn causes(&self) -> TextTable {
        let per_unit = Column::of("per unit written", Quantity::Number);
        let mut table = TextTable::new([Column::text("why"), Column::count("units"), per_unit]);
        for row in &self.programmed {
            table.row([row.cause.as_str().into(), row.units.into(), row.per_unit_written.into()]);
        }
        table
    }

    fn cells_and_wear(&self) -> TextTable {
        let mut table = TextTable::new([Column::text(""), Column::count("count")]);
        for (what, count) in self.figures() {
            table.row([what.into(), count.into()]);
        }
        table
    }

    /// Individual figures with their descriptions, for tables.
    pub fn figures(&self) -> Vec<(String, String)> {
        let mut rows: Vec<(String, String)> = Vec::new();
        let mut count = |what: &str, count: u64| rows.push((what.to_owned(), grouped(count)));
        if let Some(cache) = &self.read_cache {
            count("read cache hits, units", cache.hits);
            count("read cache misses, units", cache.misses);
            if let (Some(ahead), Some(used)) = (cache.read_ahead, cache.read_ahead_used) {
                count("units read ahead", ahead);
                count("units read ahead that the host read", used);
            }
        }
        if let Some(slc) = &self.slc {
            count("units programmed in SLC mode", slc.units_programmed);
            count("units read from SLC blocks", slc.units_read);
            count("units folded from SLC blocks", slc.units_folded);
        }
        if let Some(suspends) = self.suspends {
            count("programs and erases suspended", suspends);
        }
        if let Some(retry) = &self.retry {
            count("reads retried", retry.reads_retried);
            count("retries", retry.retries);
            count("uncorrectable units", retry.uncorrectable);
        }
        if let Some(bad) = &self.bad_blocks {
            count("programs failed", bad.failed_programs);
            count("erases failed", bad.failed_erases);
            count("blocks retired", bad.retired);
            count("spare blocks left", bad.spare_left);
        }
        if let Some(wear) = &self.wear {
            count("erases, least worn block", wear.min);
            rows.push(("erases, mean of all blocks".to_owned(), number(wear.mean)));
            rows.push(("erases, most worn block".to_owned(), grouped(wear.max)));
            rows.push(("spread of erases over the mean".to_owned(), percent(wear.spread)));
        }
        rows
    }
}

/// A row for each map cache, with the name of its drive where there are several.
pub(super) fn map_lookups(each: &[(Option<&str>, &MapCacheSummary)]) -> TextTable {
    let is_named = each.iter().any(|(drive, _)| drive.is_some());
    let has_host = each.iter().any(|(_, cache)| cache.from_host.is_some());
    let columns = [
        Column::count("pages"),
        Column::count("hits"),
        Column::count("misses"),
        Column::of("miss ratio", Quantity::Share),
        Column::count("dirty evictions"),
    ];
    let name = is_named.then(|| Column::text("drive"));
    let more = has_host.then(|| Column::count("from host"));
    let mut table = TextTable::new(name.into_iter().chain(columns).chain(more));
    for (drive, cache) in each {
        let name = is_named.then(|| drive.unwrap_or_default().into());
        let counts = [cache.pages.into(), cache.hits.into(), cache.misses.into()];
        let others = [cache.miss_ratio.into(), cache.dirty_evictions.into()];
        let more = has_host.then(|| cache.from_host.into());
        table.row(name.into_iter().chain(counts).chain(others).chain(more));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_text::table::Width;

    // A ratio of the wrong counts looks as plausible as the right one.
    #[test]
    fn ratios_are_of_what_they_say() {
        let cache = MapCacheSummary::new(512, 750, 250, 3, None);
        assert_eq!(cache.miss_ratio, 0.25);
        let wear = WearSummary::new(10, 90, 100.0, 120);
        assert_eq!(wear.spread, 0.3);
        assert_eq!(WearSummary::new(10, 0, 0.0, 0).spread, 0.0);
        let retry = RetrySummary::new(1000, &[50, 9, 3, 0, 0], 77, 1);
        assert_eq!((retry.reads_retried, retry.retries_per_read), (62, 0.077));
        assert_eq!(retry.by_retries, [50, 9, 3]);
        let rows = ProgramRow::all(&[("host", 100), ("levelling", 0), ("map", 5)], 50 * 4096);
        assert_eq!(rows.iter().map(|row| row.per_unit_written).collect::<Vec<_>>(), [2.0, 0.1]);
        assert_eq!(ProgramRow::all(&[("host", 1)], 0)[0].per_unit_written, 0.0);
    }

    // A disabled mechanism must not appear: tables of zeroes would be read as measurements.
    #[test]
    fn only_what_there_is_is_shown() {
        assert_eq!(UpkeepSummary::default().filled(), None);
        let tables = |upkeep: &UpkeepSummary| {
            let mut out = Printout::new(Width::Narrow);
            upkeep.write_tables(&mut out);
            out.finish()
        };
        assert_eq!(tables(&UpkeepSummary::default()), "");
        assert_eq!(serde_json::to_string(&UpkeepSummary::default()).unwrap(), "{}");
        let all = UpkeepSummary {
            programmed: ProgramRow::all(&[("host", 1000), ("levelling", 50)], 1000 * 4096),
            map_cache: Some(MapCacheSummary::new(512, 10, 30, 4, Some(17))),
            read_cache: Some(ReadCacheSummary {
                hits: 4321,
                misses: 1,
                hit_ratio: 0.99,
                read_ahead: Some(5678),
                read_ahead_used: Some(4312),
            }),
            slc: Some(SlcSummary { units_programmed: 7, units_read: 8, units_folded: 9 }),
            suspends: Some(1234),
            retry: Some(RetrySummary::new(1000, &[50, 9, 3], 77, 0)),
            bad_blocks: Some(BadBlockSummary { retired: 3, ..BadBlockSummary::default() }),
            wear: Some(WearSummary::new(64, 190, 200.0, 210)),
            recovery: Some(RecoverySummary { time_ns: 2.5e6, units: 12 }),
        };
        let out = tables(&all);
        for part in [
            "0.050",
            "75.0",
            "from host",
            " 17",
            "4,321",
            "5,678",
            "4,312",
            "folded",
            "1,234",
            "10.0 %",
            "Recovered in 2.50 ms: 12 units",
        ] {
            assert!(out.contains(part), "{part:?} is missing in\n{out}");
        }
        let json = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<UpkeepSummary>(&json).unwrap(), all);
    }
}
