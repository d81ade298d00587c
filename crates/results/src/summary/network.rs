//! The network part of the summary: traffic to a target, and its processors.

use super::row::{LinkRow, Utilisation};
use byteway_link::{MessageKind, NetworkLedger};
use byteway_text::number::ratio;
use byteway_text::table::{Cell, Column, TextTable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A network and the target at its other end, over the measured part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkSummary {
    /// Name of the network's profile.
    pub profile: String,
    /// Name of the target's host profile.
    pub target_profile: String,
    /// Path from the network to the drives: `block` or `bypass`.
    pub path: String,
    /// Traffic `to target` and `to host`; a crossing is a packet.
    pub crossings: Vec<LinkRow>,
    /// Utilisation of the wire, by direction.
    pub wire: Vec<Utilisation>,
    /// Utilisation of the target's processors.
    pub processors: Utilisation,
    /// Mean processor time of the target per I/O, in nanoseconds.
    pub target_ns_per_io: f64,
}

/// A path to a drive behind a target, over the whole run, including the time before the measured part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PathRow {
    /// Address of the target.
    pub path: String,
    /// Final state of the path: an ANA state, or `lost`, `given up` or `refused`.
    pub state: String,
    /// I/O commands sent on it.
    pub commands: u64,
    /// Commands among these that were sent again because another path had not completed them.
    pub failovers: u64,
    /// Reconnections and resets of its controller.
    pub reconnects: u64,
}

impl PathRow {
    /// A table of paths.
    pub fn table(rows: &[PathRow]) -> TextTable {
        let mut table = TextTable::new([
            Column::text("path"),
            Column::text("state"),
            Column::count("commands"),
            Column::count("failovers"),
            Column::count("reconnects"),
        ]);
        for row in rows {
            let counts = [row.commands, row.failovers, row.reconnects];
            let words: [Cell; 2] = [row.path.as_str().into(), row.state.as_str().into()];
            table.row(words.into_iter().chain(counts.map(Cell::from)));
        }
        table
    }
}

impl NetworkSummary {
    /// Rows for both directions, without empty ones.
    pub fn rows(to_target: &NetworkLedger, to_host: &NetworkLedger) -> Vec<LinkRow> {
        let row = |kind: MessageKind, direction: &str, ledger: &NetworkLedger| {
            let carried = ledger.of(kind);
            (carried.messages > 0).then(|| LinkRow {
                purpose: kind.name().to_owned(),
                direction: direction.to_owned(),
                crossings: carried.packets,
                payload_bytes: carried.payload_bytes,
                wire_bytes: carried.wire_bytes,
            })
        };
        let each = MessageKind::ALL.into_iter();
        each.flat_map(|kind| [row(kind, "to target", to_target), row(kind, "to host", to_host)])
            .flatten()
            .collect()
    }

    /// Mean number of busy processors of the target.
    pub fn processors_busy(&self) -> f64 {
        self.processors.mean * self.processors.count as f64
    }

    /// The statistics in a sentence for the terminal.
    pub fn sentence(&self, ios: u64) -> String {
        let busy = self.processors_busy();
        format!(
            "Over {} to a target ({}, path {}): {} of its processor time per I/O, {:.2} of {} processors busy",
            self.profile,
            self.target_profile,
            self.path,
            byteway_text::table::time(if ios == 0 { 0.0 } else { self.target_ns_per_io }),
            busy,
            self.processors.count
        )
    }
}

/// Nanoseconds per I/O.
pub fn ns_per_io(busy_ps: u64, ios: u64) -> f64 {
    ratio(busy_ps.into(), u128::from(ios) * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> NetworkSummary {
        let row = |purpose: &str, direction: &str| LinkRow {
            purpose: purpose.to_owned(),
            direction: direction.to_owned(),
            crossings: 10,
            payload_bytes: 640,
            wire_bytes: 1_460,
        };
        NetworkSummary {
            profile: "roce-100g".to_owned(),
            target_profile: "xeon-e5-v4".to_owned(),
            path: "bypass".to_owned(),
            crossings: vec![row("command", "to target"), row("response", "to host")],
            wire: vec![
                Utilisation::of("wire to target", [(1, 100)]),
                Utilisation::of("wire to host", [(2, 100)]),
            ],
            processors: Utilisation::of("target's processors", [(80, 100), (20, 100), (0, 100), (0, 100)]),
            target_ns_per_io: ns_per_io(133_420_000, 10),
        }
    }

    // With four processors a mean of 25 % is one busy processor; a sentence with the share would read as a
    // quarter of one.
    #[test]
    fn processors_are_counted_and_times_are_for_an_io() {
        let summary = summary();
        assert_eq!(summary.target_ns_per_io, 13_342.0);
        assert!((summary.processors_busy() - 1.0).abs() < 1e-12);
        assert_eq!(
            summary.sentence(10),
            "Over roce-100g to a target (xeon-e5-v4, path bypass): 13.34 us of its processor time per I/O, 1.00 of 4 \
             processors busy"
        );
    }

    // Programs read summaries back.
    #[test]
    fn what_is_written_is_read_again() {
        let written = serde_json::to_string(&summary()).unwrap();
        assert_eq!(serde_json::from_str::<NetworkSummary>(&written).unwrap(), summary());
    }

    // A purpose without traffic has no row of zeros.
    #[test]
    fn what_did_not_cross_has_no_row() {
        let nothing = NetworkLedger::default();
        assert!(NetworkSummary::rows(&nothing, &nothing).is_empty());
        assert_eq!(ns_per_io(1, 0), 0.0, "no I/O, no time of one");
    }
}
