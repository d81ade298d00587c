//! The JBOF part of the summary: lending between the drives of a JBOF, cost and energy.

use crate::cost::{Activity, Bill, Parts, Power, Prices};
use byteway_text::number::ratio;
use byteway_text::table::{Column, Quantity, TextTable, grouped, number};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A JBOF over the measured part of the run, until the end of all jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JbofSummary {
    /// Platform: `conv`, `oc`, `shrunk`, `vh`, `vh-ideal`, `proch` or `espresso`.
    pub platform: String,
    /// Mean price of a drive, in dollars.
    pub dollars: f64,
    /// Part of this for controller and DRAM.
    pub compute_dollars: f64,
    /// I/Os per second per dollar of all drives.
    pub iops_per_dollar: f64,
    /// Energy of the drives, by consumer.
    pub energy: EnergySummary,
    /// Drive by drive.
    pub drives: Vec<JbofRow>,
    /// Bytes that crossed the fabric between drives, and between them and the host.
    pub fabric_bytes: u64,
}

/// Energy in joules, without the host's. For `oc`, where the host executes the drives' firmware, this
/// excludes that execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EnergySummary {
    /// Active cells, dies that wait for the channel, and dies in standby.
    pub flash: f64,
    /// Processors.
    pub processor: f64,
    /// Links and the fabric.
    pub links: f64,
    /// DRAM.
    pub dram: f64,
}

impl EnergySummary {
    /// The energy of a drive's work.
    pub fn of(power: &Power, activity: &Activity) -> EnergySummary {
        let only =
            |part: Activity| power.joules(&Activity { cores_of_whole: activity.cores_of_whole, ..part });
        let Activity {
            seconds, dies, held_seconds, array_seconds, core_seconds, link_bytes, dram_bytes, ..
        } = *activity;
        EnergySummary {
            flash: only(Activity { seconds, dies, held_seconds, array_seconds, ..Activity::default() }),
            processor: only(Activity { core_seconds, ..Activity::default() }),
            links: only(Activity { link_bytes, ..Activity::default() }),
            dram: only(Activity { dram_bytes, ..Activity::default() }),
        }
    }

    /// Total, in joules.
    pub fn joules(&self) -> f64 {
        self.flash + self.processor + self.links + self.dram
    }

    /// The sum of two energies.
    pub fn with(self, other: EnergySummary) -> EnergySummary {
        EnergySummary {
            flash: self.flash + other.flash,
            processor: self.processor + other.processor,
            links: self.links + other.links,
            dram: self.dram + other.dram,
        }
    }
}

/// A drive of a JBOF.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JbofRow {
    /// Name of the drive.
    pub drive: String,
    /// Utilisation of its cores, a share.
    pub cores_busy: f64,
    /// Share of its core time spent on work for its peers.
    pub cores_lent: f64,
    /// Number of times it borrowed a processor.
    pub borrowed: u64,
    /// Number of times it lent its own.
    pub lent: u64,
    /// Commands on queues that may be redirected.
    pub commands: u64,
    /// Commands among these that peers executed.
    pub redirected: u64,
    /// Share of map lookups that missed in DRAM; `None` where DRAM holds the whole map, or there was no
    /// lookup.
    #[serde(default)]
    pub map_miss_ratio: Option<f64>,
    /// Lookups of map pages, where DRAM does not hold the whole map.
    #[serde(default)]
    pub map_lookups: u64,
    /// Records committed to the logs of borrowed DRAM.
    #[serde(default)]
    pub log_commits: u64,
    /// Flushes of a segment of borrowed DRAM because its log was full.
    #[serde(default)]
    pub log_flushes: u64,
    /// Segments of DRAM that it has borrowed at the end.
    #[serde(default)]
    pub segments_borrowed: u64,
    /// Segments of DRAM that it has lent at the end.
    #[serde(default)]
    pub segments_lent: u64,
    /// Bytes of its writes that a hypervisor redirected to peers.
    #[serde(default)]
    pub redirected_bytes: u64,
    /// Bytes that were copied back to it.
    #[serde(default)]
    pub copied_bytes: u64,
    /// Time of the last copy, after the start of measuring, in nanoseconds; `None` without copies.
    #[serde(default)]
    pub copied_by_ns: Option<f64>,
}

/// The priced parts of a drive.
#[derive(Clone, Copy, Debug)]
pub struct DriveParts {
    /// Capacity in TB.
    pub terabytes: f64,
    /// GB of DRAM per TB.
    pub dram: f64,
    /// Cores of the drive, and of a whole controller.
    pub cores: (u16, u16),
    /// Whether it has a CXL interface.
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
    /// The summary of a JBOF whose drives have these parts, and completed `iops` I/Os per second.
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

    /// The table of drives.
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

    /// Cost and energy in a sentence.
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
        // OC moves work from the drives to the host, whose price and energy are not included.
        let host = match self.platform.as_str() {
            "oc" => {
                "; dollars and joules exclude the host's processors and DRAM, which run the drives' firmware"
            }
            _ => "",
        };
        format!(
            "Platform {}: {} % of the commands executed by peers{harvested}; a drive costs {:.2} dollars, {:.2} of them for controller and DRAM; {} IOPS per dollar; \
             {} J without the host: flash {}, processors {}, links {}, DRAM {}{host}",
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

/// Rounded to six decimals; further digits are not significant.
fn rounded(value: f64) -> f64 {
    libm::round(value * 1e6) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    // If the parts of the energy do not sum to the model's total, one is counted twice or omitted.
    #[test]
    fn the_parts_of_energy_sum_to_the_whole() {
        let power = Power::default();
        let activity = Activity {
            seconds: 2.0,
            dies: 64,
            held_seconds: 20.0,
            array_seconds: 15.0,
            core_seconds: 3.0,
            cores_of_whole: 6,
            link_bytes: 1 << 30,
            dram_bytes: 1 << 31,
        };
        let parts = EnergySummary::of(&power, &activity);
        assert!((parts.joules() / power.joules(&activity) - 1.0).abs() < 1e-9, "{parts:?}");
        assert!(parts.flash > 0.0 && parts.processor > 0.0 && parts.links > 0.0 && parts.dram > 0.0);
    }

    // A price that ignored the parts of the drives would rate every platform as equally expensive.
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
        // Without this note, firmware executed by the host would seem to take no energy and to cost nothing.
        let oc = JbofSummary { platform: "oc".to_owned(), ..half };
        assert!(oc.sentence().contains("exclude the host's processors and DRAM"), "{}", oc.sentence());
        assert!(!whole.sentence().contains("exclude"), "{}", whole.sentence());
    }
}
