//! How payloads crossed: by which ways, how many of them by a fallback, and what it took of both processors.

use byteway_console::table::{grouped, time};
use serde::{Deserialize, Serialize};

use byteway_console::number::ratio;

/// How the payloads of the measured part crossed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferSummary {
    /// The method that was asked for.
    pub method: String,
    /// Whether they went to and came from a payload sink, where each is compared by checksum; else blocks.
    pub is_sink: bool,
    /// Payloads to the device and results to the host, by the way that they went.
    pub ways: Vec<WayRow>,
    /// Of the payloads, those that the method could not carry.
    pub fallbacks: u64,
    /// Of the results, those that could not come behind their completion.
    pub result_fallbacks: u64,
    /// Processor time of the host for an I/O, in the mean: its work, not its watching for completions. `None` if another
    /// process serves the drive, or if other drives' workers run on the same processors.
    pub host_ns_per_io: Option<f64>,
    /// Processor time of the drive for an I/O, in the mean; likewise.
    pub device_ns_per_io: Option<f64>,
}

/// A way, and what went by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayRow {
    /// The way.
    pub way: String,
    /// How many.
    pub payloads: u64,
}

impl TransferSummary {
    /// From what the host's clients have counted, and the processor time of host and drive, picoseconds, where it is known,
    /// for `ios` I/Os.
    pub fn new(
        method: &str,
        is_sink: bool,
        counts: &[(&str, u64)],
        (host_ps, device_ps): (Option<u64>, Option<u64>),
        ios: u64,
    ) -> TransferSummary {
        let count =
            |wanted: &str| counts.iter().find(|(name, _)| *name == wanted).map_or(0, |(_, count)| *count);
        let ways = counts.iter().filter(|(name, count)| *count > 0 && !name.ends_with("fallbacks"));
        let per_io = |ps: u64| ratio(u128::from(ps), u128::from(ios) * 1000);
        TransferSummary {
            method: method.to_owned(),
            is_sink,
            ways: ways.map(|(name, count)| WayRow { way: (*name).to_owned(), payloads: *count }).collect(),
            fallbacks: count("fallbacks"),
            result_fallbacks: count("result fallbacks"),
            host_ns_per_io: host_ps.map(per_io),
            device_ns_per_io: device_ps.map(per_io),
        }
    }

    /// A sentence for the terminal and the report.
    pub fn sentence(&self) -> String {
        let ways = self.ways.iter().map(|row| format!("{} {}", grouped(row.payloads), row.way));
        let ways = ways.collect::<Vec<_>>().join(", ");
        let fell = match self.fallbacks + self.result_fallbacks {
            0 => "none by the fallback".to_owned(),
            count => format!("{} of them by the fallback", grouped(count)),
        };
        let busy = match (self.host_ns_per_io, self.device_ns_per_io) {
            (Some(host), Some(device)) => format!(
                ". An I/O takes {} of the host's processor and {} of the drive's.",
                time(host),
                time(device)
            ),
            _ => ".".to_owned(),
        };
        format!("Payloads by {}: {ways}; {fell}{busy}", self.method)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A fallback that is not told apart makes a method look like the one that it fell back to.
    #[test]
    fn fallbacks_are_no_way_of_their_own() {
        let counts = [("prp", 3), ("sgl", 0), ("inline", 997), ("fallbacks", 3), ("result fallbacks", 0)];
        let found =
            TransferSummary::new("inline", true, &counts, (Some(90_000_000), Some(1_929_000_000)), 1000);
        assert_eq!((found.ways.len(), found.fallbacks, found.result_fallbacks), (2, 3, 0));
        assert_eq!((found.host_ns_per_io, found.device_ns_per_io), (Some(90.0), Some(1929.0)));
        assert_eq!(
            found.sentence(),
            "Payloads by inline: 3 prp, 997 inline; 3 of them by the fallback. An I/O takes 90.0 ns of the host's processor \
             and 1.93 us of the drive's."
        );
    }
}
