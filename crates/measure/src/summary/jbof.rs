//! What the drives of a box did for each other, what they cost, and what energy they took.

use byteway_console::number::ratio;
use byteway_console::table::{Column, Quantity, TextTable, grouped, number};
use byteway_jbof::cost::{Bill, Parts, Power, Prices, Work};
use serde::{Deserialize, Serialize};

/// A box over the measured part of the run, until all jobs had ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JbofSummary {
    /// How it is built: `conv`, `oc`, `shrunk`, `vh`, `vh-ideal`, `proch` or `espresso`.
    pub platform: String,
    /// What a drive costs in the mean, in dollars.
    pub dollars: f64,
    /// Of that, controller and DRAM.
    pub compute_dollars: f64,
    /// I/Os a second for each dollar that all drives cost.
    pub iops_per_dollar: f64,
    /// What the drives took, by what took it.
    pub energy: EnergySummary,
    /// Drive by drive.
    pub drives: Vec<JbofRow>,
    /// Bytes that crossed the fabric between drives, and between them and the host.
    pub fabric_bytes: u64,
}

/// Energy in joules, without the host's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EnergySummary {
    /// Flash operations, and dies in standby.
    pub flash: f64,
    /// Processors.
    pub processor: f64,
    /// Links and the fabric.
    pub links: f64,
    /// DRAM.
    pub dram: f64,
}

impl EnergySummary {
    /// Of what a drive did.
    pub fn of(power: &Power, work: &Work) -> EnergySummary {
        let only = |part: Work| power.joules(&Work { cores_of_whole: work.cores_of_whole, ..part });
        let Work { seconds, dies, flash_seconds, core_seconds, link_bytes, dram_bytes, .. } = *work;
        EnergySummary {
            flash: only(Work { seconds, dies, flash_seconds, ..Work::default() }),
            processor: only(Work { core_seconds, ..Work::default() }),
            links: only(Work { link_bytes, ..Work::default() }),
            dram: only(Work { dram_bytes, ..Work::default() }),
        }
    }

    /// All of it.
    pub fn joules(&self) -> f64 {
        self.flash + self.processor + self.links + self.dram
    }

    /// This and another one's.
    pub fn with(self, other: EnergySummary) -> EnergySummary {
        EnergySummary {
            flash: self.flash + other.flash,
            processor: self.processor + other.processor,
            links: self.links + other.links,
            dram: self.dram + other.dram,
        }
    }
}

/// A drive of a box.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JbofRow {
    /// Its name.
    pub drive: String,
    /// How busy its cores were, a share.
    pub cores_busy: f64,
    /// Of the time of its cores, the share that was work for its peers.
    pub cores_lent: f64,
    /// How often it borrowed a processor.
    pub borrowed: u64,
    /// How often it lent its own.
    pub lent: u64,
    /// Commands of queues that may be redirected.
    pub commands: u64,
    /// Those that its peers executed.
    pub redirected: u64,
    /// Lookups that did not find their page of the map in DRAM, a share; `None` where DRAM holds the whole map, or nothing was looked up.
    #[serde(default)]
    pub map_miss_ratio: Option<f64>,
    /// Lookups of pages of the map, where DRAM does not hold all of it.
    #[serde(default)]
    pub map_lookups: u64,
    /// Records committed to the logs of borrowed DRAM.
    #[serde(default)]
    pub log_commits: u64,
    /// Times that a segment of borrowed DRAM was flushed because its log was full.
    #[serde(default)]
    pub log_flushes: u64,
    /// Segments of DRAM that it has borrowed in the end, and that it has lent.
    #[serde(default)]
    pub segments_borrowed: u64,
    /// Segments that it has lent in the end.
    #[serde(default)]
    pub segments_lent: u64,
    /// Bytes that its writes were redirected to peers for, by a hypervisor.
    #[serde(default)]
    pub redirected_bytes: u64,
    /// Bytes that were copied back to it.
    #[serde(default)]
    pub copied_bytes: u64,
    /// When the last of them were, after measuring began, in nanoseconds; `None` if none were.
    #[serde(default)]
    pub copied_by_ns: Option<f64>,
}

/// What of a drive has a price.
#[derive(Clone, Copy, Debug)]
pub struct DriveParts {
    /// Capacity in TB.
    pub terabytes: f64,
    /// GB of DRAM for each TB.
    pub dram: f64,
    /// Cores, of those of a whole controller.
    pub cores: (u16, u16),
    /// Whether it has CXL.
    pub has_cxl: bool,
}

impl DriveParts {
    fn bill(&self, prices: &Prices) -> Bill {
        let (own, whole) = self.cores;
        let parts = Parts {
            terabytes: self.terabytes,
            dram_gb_per_terabyte: self.dram,
            processor: f64::from(own) / f64::from(whole.max(1)),
            has_cxl: self.has_cxl,
        };
        Bill::of(&parts, prices)
    }
}

impl JbofSummary {
    /// Of a box whose drives have these parts, and that did so many I/Os a second.
    pub fn new(
        platform: &str,
        parts: &[DriveParts],
        prices: &Prices,
        iops: f64,
        drives: Vec<JbofRow>,
        energy: EnergySummary,
        fabric_bytes: u64,
    ) -> JbofSummary {
        let bills: Vec<Bill> = parts.iter().map(|parts| parts.bill(prices)).collect();
        let sum = |of: fn(&Bill) -> f64| bills.iter().map(of).sum::<f64>();
        let count = bills.len().max(1) as f64;
        let all = sum(Bill::total);
        JbofSummary {
            platform: platform.to_owned(),
            dollars: rounded(all / count),
            compute_dollars: rounded(sum(|bill| bill.compute) / count),
            iops_per_dollar: if all > 0.0 { rounded(iops / all) } else { 0.0 },
            energy: EnergySummary {
                flash: rounded(energy.flash),
                processor: rounded(energy.processor),
                links: rounded(energy.links),
                dram: rounded(energy.dram),
            },
            drives,
            fabric_bytes,
        }
    }

    /// Drive by drive.
    pub fn table(&self) -> TextTable {
        let mut table = TextTable::new([
            Column::text("drive"),
            Column::of("cores busy", Quantity::Share),
            Column::of("for peers", Quantity::Share),
            Column::count("commands"),
            Column::count("by peers"),
            Column::of("map misses", Quantity::Share).rank(1),
            Column::count("segments borrowed").rank(2),
            Column::count("lent").rank(2),
        ]);
        for row in &self.drives {
            table.row([
                row.drive.as_str().into(),
                row.cores_busy.into(),
                row.cores_lent.into(),
                row.commands.into(),
                row.redirected.into(),
                row.map_miss_ratio.map_or("".into(), Into::into),
                row.segments_borrowed.into(),
                row.segments_lent.into(),
            ]);
        }
        table
    }

    /// What it costs and takes, in a sentence.
    pub fn sentence(&self) -> String {
        let EnergySummary { flash, processor, links, dram } = self.energy;
        let (commands, redirected) = self
            .drives
            .iter()
            .fold((0, 0), |(all, by_peers), row| (all + row.commands, by_peers + row.redirected));
        let virtual_bytes = |of: fn(&JbofRow) -> u64| self.drives.iter().map(of).sum::<u64>();
        let harvested = match virtual_bytes(|row| row.redirected_bytes) {
            0 => String::new(),
            bytes => format!(
                "; {} B written to peers instead, {} B copied back",
                grouped(bytes),
                grouped(virtual_bytes(|row| row.copied_bytes))
            ),
        };
        format!(
            "Platform {}: {} % of the commands executed by peers{harvested}; a drive costs {:.2} dollars, {:.2} of them controller and DRAM; {} IOPS a dollar; \
             {} J: flash {}, processors {}, links {}, DRAM {}",
            self.platform,
            number(100.0 * ratio(redirected.into(), commands.into())),
            self.dollars,
            self.compute_dollars,
            number(self.iops_per_dollar),
            number(self.energy.joules()),
            number(flash),
            number(processor),
            number(links),
            number(dram),
        )
    }
}

/// To six decimals: what is beyond says nothing.
fn rounded(value: f64) -> f64 {
    libm::round(value * 1e6) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    // Energy whose parts don't sum to the model's whole is counted twice, or left out.
    #[test]
    fn the_parts_of_energy_sum_to_the_whole() {
        let power = Power::default();
        let work = Work {
            seconds: 2.0,
            dies: 64,
            flash_seconds: 20.0,
            core_seconds: 3.0,
            cores_of_whole: 6,
            link_bytes: 1 << 30,
            dram_bytes: 1 << 31,
        };
        let parts = EnergySummary::of(&power, &work);
        assert!((parts.joules() / power.joules(&work) - 1.0).abs() < 1e-9, "{parts:?}");
        assert!(parts.flash > 0.0 && parts.processor > 0.0 && parts.links > 0.0 && parts.dram > 0.0);
    }

    // A bill that ignored what the drives have would call every platform as dear.
    #[test]
    fn a_box_costs_what_its_drives_have() {
        let whole = DriveParts { terabytes: 2.0, dram: 1.0, cores: (6, 6), has_cxl: false };
        let half = DriveParts { dram: 0.5, cores: (3, 6), has_cxl: true, ..whole };
        let of = |parts| {
            let rows = vec![JbofRow { commands: 4, redirected: 1, ..JbofRow::default() }];
            JbofSummary::new(
                "espresso",
                &[parts; 12],
                &Prices::default(),
                1e6,
                rows,
                EnergySummary::default(),
                0,
            )
        };
        let (whole, half) = (of(whole), of(half));
        assert!((1.0 - half.dollars / whole.dollars - 0.1902).abs() < 1e-4, "ES02: {half:?}");
        assert!(half.iops_per_dollar > whole.iops_per_dollar);
        assert!(half.sentence().contains("25.00 % of the commands"), "{}", half.sentence());
    }
}
