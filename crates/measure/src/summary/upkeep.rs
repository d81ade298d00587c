//! What a drive did for its map and its flash beside the host's I/O, and what became of its cells. Each part is there only
//! if the drive has such a thing.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use byteway_console::number::ratio;
use byteway_console::table::{Column, Printout, Quantity, TextTable, number};
use byteway_console::table::{grouped, percent, time};
use byteway_wire::content::UNIT_BYTES;

/// What a drive did beside the host's I/O.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UpkeepSummary {
    /// What was programmed, by why: the parts of write amplification. Empty if all of it was the host's, the collector's
    /// and padding.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programmed: Vec<ProgramRow>,
    /// The part of the map that is in DRAM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_cache: Option<MapCacheSummary>,
    /// Data kept to be read again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_cache: Option<ReadCacheSummary>,
    /// Blocks with one bit a cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slc: Option<SlcSummary>,
    /// Programs and erases that were suspended for reads, each time counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspends: Option<u64>,
    /// Reads that were tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetrySummary>,
    /// Blocks that went bad.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bad_blocks: Option<BadBlockSummary>,
    /// How evenly blocks wear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wear: Option<WearSummary>,
    /// The last recovery from a loss of power.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoverySummary>,
}

/// Units of 4 KiB programmed for one reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramRow {
    /// Why: host, collector, levelling, refresh, folding, retirement, map, padding.
    pub cause: String,
    /// Units of 4 KiB.
    pub units: u64,
    /// For each unit that the host wrote; all rows sum to the write amplification. 0 if the host wrote none.
    pub per_unit_written: f64,
}

/// How often the map was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MapCacheSummary {
    /// Translation pages of 4 KiB that the cache holds.
    pub pages: u64,
    /// Lookups of a translation page that found it in the cache.
    pub hits: u64,
    /// Those that had to load it, or to wait until somebody else had.
    pub misses: u64,
    /// Misses among all.
    pub miss_ratio: f64,
    /// Pages that had been changed and were written back to make room.
    pub dirty_evictions: u64,
    /// Misses that a copy in the host's memory served, where the drive asks for such memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_host: Option<u64>,
}

/// How often data that was read was there from an earlier read. Data in the write buffer, or nowhere, was not looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadCacheSummary {
    /// Units of 4 KiB that were there.
    pub hits: u64,
    /// Units that were read from flash.
    pub misses: u64,
    /// Hits among both.
    pub hit_ratio: f64,
}

/// What blocks with one bit a cell took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlcSummary {
    /// Units programmed there.
    pub units_programmed: u64,
    /// Units that the host read from there.
    pub units_read: u64,
    /// Units that were moved from there to the other blocks.
    pub units_folded: u64,
}

/// Reads of flash that were tried again at shifted thresholds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RetrySummary {
    /// Reads of flash that succeeded, for whatever reason, host's or not.
    pub reads: u64,
    /// Those of them, and of those that failed, that were tried again.
    pub reads_retried: u64,
    /// How often in all.
    pub retries: u64,
    /// How often for each read.
    pub retries_per_read: f64,
    /// Reads that were tried again once, twice and so on; the last number counts all beyond, too.
    pub by_retries: Vec<u64>,
    /// Units of 4 KiB that could not be read.
    pub uncorrectable: u64,
}

/// Superblocks that went bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadBlockSummary {
    /// Programs that failed.
    pub failed_programs: u64,
    /// Erases that failed.
    pub failed_erases: u64,
    /// Superblocks that are no longer used, since the drive was made.
    pub retired: u64,
    /// Superblocks that are left to take the place of bad ones.
    pub spare_left: u64,
}

/// How evenly superblocks wear. Erases before the run count if it says how worn the drive was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WearSummary {
    /// Superblocks.
    pub blocks: u64,
    /// Erases of the least worn.
    pub min: u64,
    /// Erases of the mean.
    pub mean: f64,
    /// Erases of the most worn.
    pub max: u64,
    /// From the least to the most worn, for each erase of the mean; 0 if there was no erase.
    pub spread: f64,
}

/// How a drive found its data again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecoverySummary {
    /// From power-on until it was ready.
    pub time_ns: f64,
    /// Units that it found in the spare areas of flash, beyond its checkpoint.
    pub units: u64,
}

impl ProgramRow {
    /// The parts of write amplification that are not nothing, and the whole, for `written` bytes of the host's.
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
    /// From what was counted.
    pub fn new(pages: u64, hits: u64, misses: u64, dirty_evictions: u64, from_host: Option<u64>) -> Self {
        let miss_ratio = ratio(misses.into(), u128::from(hits) + u128::from(misses));
        MapCacheSummary { pages, hits, misses, miss_ratio, dirty_evictions, from_host }
    }
}

impl RetrySummary {
    /// From what was counted; `by_retries` are reads that were tried again once, twice and so on.
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
    /// From the erases of the least worn, the mean and the most worn of some superblocks.
    pub fn new(blocks: u64, min: u64, mean: f64, max: u64) -> Self {
        // `mean` has six decimals, so this is an integer again.
        let millionths = (mean * 1e6).round() as u128;
        let spread = ratio(u128::from(max - min.min(max)) * 1_000_000, millionths);
        WearSummary { blocks, min, mean, max, spread }
    }

    /// A sentence for the terminal and the report.
    pub fn sentence(&self) -> String {
        format!(
            "each of {} superblocks was erased {} to {} times, {} in the mean: a spread of {} of the mean",
            grouped(self.blocks),
            grouped(self.min),
            grouped(self.max),
            number(self.mean),
            percent(self.spread)
        )
    }
}

impl UpkeepSummary {
    /// Itself, if there is anything in it.
    pub fn filled(self) -> Option<Self> {
        (self != UpkeepSummary::default()).then_some(self)
    }

    /// Writes the tables of the terminal.
    pub(super) fn write_tables(&self, out: &mut Printout) {
        out.section("Programmed, by why (units of 4 KiB; the parts of write amplification)", &self.causes());
        out.section("Map cache", &self.map_lookups());
        out.section("Upkeep of the flash", &self.cells_and_wear());
        if let Some(recovery) = &self.recovery {
            let _ = writeln!(
                out,
                "\nRecovered in {}: {} units found beyond the checkpoint",
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

    fn map_lookups(&self) -> TextTable {
        let from_host = self.map_cache.and_then(|cache| cache.from_host);
        let columns = [
            Column::count("pages"),
            Column::count("hits"),
            Column::count("misses"),
            Column::of("miss ratio", Quantity::Share),
            Column::count("dirty evictions"),
        ];
        let more = from_host.map(|_| Column::count("from host"));
        let mut table = TextTable::new(columns.into_iter().chain(more));
        if let Some(cache) = self.map_cache {
            let counts = [cache.pages.into(), cache.hits.into(), cache.misses.into()];
            let others = [cache.miss_ratio.into(), cache.dirty_evictions.into()];
            table.row(counts.into_iter().chain(others).chain(from_host.map(Into::into)));
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

    /// Its single figures with what they are, for tables.
    pub fn figures(&self) -> Vec<(String, String)> {
        let mut rows: Vec<(String, String)> = Vec::new();
        let mut count = |what: &str, count: u64| rows.push((what.to_owned(), grouped(count)));
        if let Some(cache) = &self.read_cache {
            count("units read from the read cache", cache.hits);
            count("units that it had not", cache.misses);
        }
        if let Some(slc) = &self.slc {
            count("units programmed with one bit a cell", slc.units_programmed);
            count("units read from there", slc.units_read);
            count("units folded from there", slc.units_folded);
        }
        if let Some(suspends) = self.suspends {
            count("programs and erases suspended", suspends);
        }
        if let Some(retry) = &self.retry {
            count("reads tried again", retry.reads_retried);
            count("tries beyond the first", retry.retries);
            count("units not correctable", retry.uncorrectable);
        }
        if let Some(bad) = &self.bad_blocks {
            count("programs failed", bad.failed_programs);
            count("erases failed", bad.failed_erases);
            count("blocks gone bad", bad.retired);
            count("blocks left to replace them", bad.spare_left);
        }
        if let Some(wear) = &self.wear {
            count("erases of the least worn block", wear.min);
            rows.push(("erases of a block in the mean".to_owned(), number(wear.mean)));
            rows.push(("erases of the most worn block".to_owned(), grouped(wear.max)));
            rows.push(("spread of erases over the mean".to_owned(), percent(wear.spread)));
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_console::table::Width;

    // What a reader compares two drives by: a ratio of the wrong two counts looks as plausible as the right one.
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

    // A mechanism that is off must leave no trace: tables of zeroes would be read as measurements.
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
            read_cache: Some(ReadCacheSummary { hits: 4321, misses: 1, hit_ratio: 0.99 }),
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
