//! The transfer part of the summary: payloads by transfer method, fallbacks, and processor time.

use byteway_text::table::{grouped, time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use byteway_text::number::ratio;

/// Payload transfers of the measured part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TransferSummary {
    /// The configured method.
    pub method: String,
    /// Whether payloads go to a payload sink, which compares checksums, instead of blocks.
    pub is_sink: bool,
    /// Payloads to the device and results to the host, by actual method.
    pub ways: Vec<MethodRow>,
    /// Payloads that the method could not carry.
    pub fallbacks: u64,
    /// Results that could not follow their completion.
    pub result_fallbacks: u64,
    /// Mean processor time of the host per I/O, without polling for completions. `None` if another process
    /// serves the drive, or if workers of other drives share the processors.
    pub host_ns_per_io: Option<f64>,
    /// Mean processor time of the drive per I/O; `None` in the same cases.
    pub device_ns_per_io: Option<f64>,
}

/// A transfer method, and its payloads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MethodRow {
    /// Name of the method.
    pub way: String,
    /// Number of payloads.
    pub payloads: u64,
}

impl TransferSummary {
    /// Summarizes the counters of the host's clients, and the processor time of host and drive in
    /// picoseconds, if known, over `ios` I/Os.
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
            ways: ways.map(|(name, count)| MethodRow { way: (*name).to_owned(), payloads: *count }).collect(),
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
        if ways.is_empty() {
            return format!("Payloads by {}: none{}", self.method, self.busy());
        }
        let fell = match self.fallbacks + self.result_fallbacks {
            0 => "none by the fallback".to_owned(),
            count => format!("{} of them by the fallback", grouped(count)),
        };
        format!("Payloads by {}: {ways}; {fell}{}", self.method, self.busy())
    }

    /// The end of the sentence: processor time, where it is known.
    fn busy(&self) -> String {
        match (self.host_ns_per_io, self.device_ns_per_io) {
            (Some(host), Some(device)) => {
                format!(". An I/O takes {} of host and {} of drive processor time.", time(host), time(device))
            }
            _ => ".".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A fallback that is counted as the method hides that another method was used.
    #[test]
    fn fallbacks_are_no_way_of_their_own() {
        let counts = [("prp", 3), ("sgl", 0), ("inline", 997), ("fallbacks", 3), ("result fallbacks", 0)];
        let found =
            TransferSummary::new("inline", true, &counts, (Some(90_000_000), Some(1_929_000_000)), 1000);
        assert_eq!((found.ways.len(), found.fallbacks, found.result_fallbacks), (2, 3, 0));
        assert_eq!((found.host_ns_per_io, found.device_ns_per_io), (Some(90.0), Some(1929.0)));
        assert_eq!(
            found.sentence(),
            "Payloads by inline: 3 prp, 997 inline; 3 of them by the fallback. An I/O takes 90.0 ns of host and 1.93 us of \
             drive processor time."
        );
    }
}
