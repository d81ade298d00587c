//! The 14 production workloads of the paper's Table 3, synthesized: only the share of reads and the mean
//! sizes are known. The traces are not available.
//!
//! Sizes are the two multiples of 4 KiB around the mean, with shares that yield the mean; addresses are
//! random. **Locality**: 75 % of the I/Os go to 17 % of the drive, derived from the only such figure in the
//! paper: with DRAM for 0.17 GB of map per TB, 25 % of the look-ups of its Workload 0 miss (3.1, Fig. 4(c)).
//! **Burstiness**: only a burst is simulated. Six tenants issue as much I/O as they can at their queue depth,
//! all the time, and six issue none. Between bursts the platforms do not differ.

use crate::tenants::Tenants;
use std::ops::Range;

/// A row of Table 3. Sizes in the paper's KB are taken as KiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Production {
    pub(super) name: &'static str,
    reads_percent: f64,
    read_kib: f64,
    write_kib: f64,
}

const fn row(name: &'static str, reads_percent: f64, read_kib: f64, write_kib: f64) -> Production {
    Production { name, reads_percent, read_kib, write_kib }
}

/// Table 3.
pub(super) const ALL: [Production; 14] = [
    row("src", 11.3, 8.1, 7.1),
    row("DAP", 56.2, 62.1, 97.2),
    row("MSNFS", 67.2, 9.6, 11.1),
    row("mds", 92.8, 60.1, 13.8),
    row("DB", 98.0, 9.5, 743.3),
    row("Fuji-0", 82.7, 35.7, 10.7),
    row("Fuji-1", 86.3, 32.7, 13.3),
    row("Fuji-2", 87.6, 39.3, 6.7),
    row("Tencent-0", 84.3, 31.2, 8.8),
    row("Tencent-1", 2.0, 12.5, 289.5),
    row("Tencent-2", 98.2, 47.0, 7.0),
    row("Ali-0", 98.1, 37.0, 16.8),
    row("Ali-1", 81.3, 370.4, 394.5),
    row("Ali-2", 11.0, 26.0, 30.0),
];

/// The row with this name.
pub(super) fn named(name: &str) -> Production {
    let found = ALL.into_iter().find(|row| row.name == name);
    found.expect("a recipe names a row of the table")
}

/// Two sizes around a mean, in fio's `bssplit` notation.
fn split(mean_kib: f64) -> String {
    let below = (libm::floor(mean_kib / 4.0) as u64).max(1) * 4;
    let percent = (libm::round((mean_kib - below as f64) / 4.0 * 100.0)).clamp(0.0, 100.0) as u64;
    match percent {
        0 => format!("{below}k/100"),
        100 => format!("{}k/100", below + 4),
        _ => format!("{below}k/{}:{}k/{percent}", 100 - percent, below + 4),
    }
}

impl Production {
    /// Tenants of these drives with this workload, at this queue depth.
    pub(super) fn tenants(&self, job: &str, drives: Range<u16>, depth: u32) -> Tenants {
        let sizes = format!("\"{},{}\"", split(self.read_kib), split(self.write_kib));
        Tenants::new(job, drives, "randrw", 4096, depth)
            .without("bs")
            .key("rwmixread", libm::round(self.reads_percent) as u64)
            .key("bssplit", sizes)
            .key("random_distribution", "\"zoned:75/17:25/83\"")
            .key("blockalign", "\"4 KiB\"")
            .key("norandommap", true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A workload with another mean is another workload.
    #[test]
    fn sizes_have_the_mean_of_the_table() {
        assert_eq!(split(8.1), "8k/98:12k/2");
        assert_eq!(split(60.1), "60k/97:64k/3");
        assert_eq!(split(30.0), "28k/50:32k/50");
        assert_eq!(split(743.3), "740k/18:744k/82");
        assert_eq!(split(3.99), "4k/100");
        assert_eq!(split(47.99), "48k/100");
    }
}
