//! What crossed the network to a target, and what the target's processors did.

use super::{LinkRow, Utilisation};
use byteway_console::number::ratio;
use byteway_link::{NetworkLedger, Parcel};
use serde::{Deserialize, Serialize};

/// A network and the target at its other end, over the measured part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkSummary {
    /// Name of the network's profile.
    pub profile: String,
    /// Name of the target's host profile.
    pub target_profile: String,
    /// How commands got from the network to the drives: `block` or `bypass`.
    pub path: String,
    /// What crossed, `to target` and `to host`: crossings are packets.
    pub crossings: Vec<LinkRow>,
    /// How busy the wire was, each way.
    pub wire: Vec<Utilisation>,
    /// How busy the target's processors were.
    pub processors: Utilisation,
    /// Processor time of the target for an I/O, in nanoseconds, in the mean.
    pub target_ns_per_io: f64,
}

impl NetworkSummary {
    /// Rows of both directions, without those that are empty.
    pub fn rows(to_target: &NetworkLedger, to_host: &NetworkLedger) -> Vec<LinkRow> {
        let row = |parcel: Parcel, direction: &str, ledger: &NetworkLedger| {
            let carried = ledger.of(parcel);
            (carried.messages > 0).then(|| LinkRow {
                purpose: parcel.name().to_owned(),
                direction: direction.to_owned(),
                crossings: carried.packets,
                payload_bytes: carried.payload_bytes,
                wire_bytes: carried.wire_bytes,
            })
        };
        let each = Parcel::ALL.into_iter();
        each.flat_map(|parcel| [row(parcel, "to target", to_target), row(parcel, "to host", to_host)])
            .flatten()
            .collect()
    }

    /// In a sentence, for a terminal.
    pub fn sentence(&self, ios: u64) -> String {
        let busy = self.processors.mean * self.processors.count as f64;
        format!(
            "Over {} to a target ({}, path {}): {} of its processor time an I/O, {:.2} of {} processors busy",
            self.profile,
            self.target_profile,
            self.path,
            byteway_console::table::time(if ios == 0 { 0.0 } else { self.target_ns_per_io }),
            busy,
            self.processors.count
        )
    }
}

/// Nanoseconds for each I/O.
pub fn ns_per_io(busy_ps: u64, ios: u64) -> f64 {
    ratio(busy_ps.into(), u128::from(ios) * 1000)
}
