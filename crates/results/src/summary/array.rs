//! The array part of the summary: work of an array on the host.

use byteway_array::{Array, Cause, SlotState};
use byteway_clock::Time;
use byteway_text::number::{ns, ratio};
use byteway_text::table::{Cell, Column, Quantity, TextTable, grouped, number, time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An array over the whole run, including the time before the measured part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArraySummary {
    /// RAID level.
    pub level: u8,
    /// Final state of its drives: `active`, `failed` or `rebuilding`.
    pub members: Vec<String>,
    /// Whether too many drives have failed: lost data cannot be read, and nothing is written.
    pub is_broken: bool,
    /// Units of 4 KiB whose contents are lost.
    pub lost_units: u64,
    /// Bytes sent to the drives per byte that the host wrote: the array's own write amplification, without
    /// that of the drives. `None` if the host wrote nothing.
    #[serde(default)]
    pub write_amplification: Option<f64>,
    /// Traffic to the drives, by cause.
    pub traffic: Vec<ArrayRow>,
    /// Full-stripe writes.
    pub full_stripes: u64,
    /// Parity updates that read the old data and the old parity.
    pub read_modify_writes: u64,
    /// Parity updates that read the rest of the stripe.
    pub reconstruct_writes: u64,
    /// Units reconstructed because their drive failed or could not read them.
    pub units_reconstructed: u64,
    /// The last rebuild, complete or not; omitted if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<RebuildSummary>,
}

/// Progress of a rebuild. Times are relative to the start of the jobs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RebuildSummary {
    /// Index of the drive, from 0.
    pub member: u64,
    /// Share of its stripes that are rebuilt.
    pub done: f64,
    /// Start, in nanoseconds.
    pub began_ns: f64,
    /// End, in nanoseconds; `None` if it is incomplete.
    pub ended_ns: Option<f64>,
    /// Expected end at the mean rate so far, in nanoseconds; `None` if it is complete, has failed, or has
    /// made no progress.
    pub expected_end_ns: Option<f64>,
}

/// Traffic to the drives of an array, by cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArrayRow {
    /// The cause: data, parity, repair, rebuild, log.
    pub cause: String,
    /// Units of 4 KiB that were read.
    pub units_read: u64,
    /// Units written; a part of a unit counts as one.
    pub units_written: u64,
    /// Bytes that were written.
    #[serde(default)]
    pub bytes_written: u64,
}

impl ArraySummary {
    /// The summary of an array at `now`, whose jobs began at `start`, and to which hosts wrote `host_bytes`.
    pub fn of(array: &Array, host_bytes: u64, start: Time, now: Time) -> ArraySummary {
        let (state, counters) = (array.state(), array.counters());
        let member = |state: &SlotState| match state {
            SlotState::Active => "active".to_owned(),
            SlotState::Rebuilding { .. } => "rebuilding".to_owned(),
            SlotState::Failed => "failed".to_owned(),
        };
        let traffic = Cause::ALL.into_iter().map(|cause| {
            let sent = counters.traffic[cause as usize];
            ArrayRow {
                cause: cause.name().to_owned(),
                units_read: sent.units_read,
                units_written: sent.units_written,
                bytes_written: sent.bytes_written,
            }
        });
        ArraySummary {
            level: array.config().level as u8,
            members: state.slots.iter().map(|(state, _)| member(state)).collect(),
            is_broken: state.is_broken,
            lost_units: state.lost_units,
            write_amplification: (host_bytes > 0)
                .then(|| ratio(counters.bytes_written().into(), host_bytes.into())),
            traffic: traffic.filter(|row| row.units_read + row.units_written > 0).collect(),
            full_stripes: counters.full_stripes,
            read_modify_writes: counters.read_modify_writes,
            reconstruct_writes: counters.reconstruct_writes,
            units_reconstructed: counters.units_reconstructed,
            rebuild: state.rebuild.map(|rebuild| {
                let since = |at: Time| ns(at.since(start).0);
                let is_going_on = matches!(state.slots[rebuild.slot].0, SlotState::Rebuilding { .. });
                RebuildSummary {
                    member: rebuild.slot as u64,
                    done: ratio(rebuild.done.into(), rebuild.stripes.into()),
                    began_ns: since(rebuild.began),
                    ended_ns: rebuild.ended.map(since),
                    expected_end_ns: rebuild.expected_end(now).filter(|_| is_going_on).map(since),
                }
            }),
        }
    }

    /// The table of traffic.
    pub fn table(&self) -> TextTable {
        let mut table = TextTable::new([
            Column::text("sent to drives"),
            Column::count("units read"),
            Column::count("units written"),
            Column::of("written", Quantity::Bytes),
        ]);
        for row in &self.traffic {
            let cells: [Cell; 4] = [
                row.cause.as_str().into(),
                row.units_read.into(),
                row.units_written.into(),
                (row.bytes_written as f64).into(),
            ];
            table.row(cells);
        }
        table
    }

    /// The state in a sentence.
    pub fn sentence(&self) -> String {
        let count = |what: &str| self.members.iter().filter(|member| *member == what).count();
        let state = match (self.is_broken, count("failed"), count("rebuilding")) {
            (true, ..) => "broken: too many drives have failed".to_owned(),
            (_, 0, 0) => "whole".to_owned(),
            (_, 0, rebuilding) => format!("{rebuilding} being rebuilt"),
            (_, failed, 0) => format!("{failed} failed"),
            (_, failed, rebuilding) => format!("{failed} failed, {rebuilding} being rebuilt"),
        };
        let parts = [
            format!("{} written in full", number_of(self.full_stripes, "stripe", "stripes")),
            format!("{} by read-modify-write", number_of(self.read_modify_writes, "parity", "parities")),
            format!(
                "{} from the rest of the stripe",
                number_of(self.reconstruct_writes, "parity", "parities")
            ),
        ];
        let computed = number_of(self.units_reconstructed, "unit", "units");
        let drives = number_of(self.members.len() as u64, "drive", "drives");
        format!(
            "RAID {} over {drives}, finally {state}; {}; {computed} of 4 KiB computed from others{}{}",
            self.level,
            parts.join(", "),
            self.write_amplification
                .map(|it| format!("; {} B written to the drives per byte written by the host", number(it)))
                .unwrap_or_default(),
            self.rebuild.map(|rebuild| rebuild.clause()).unwrap_or_default()
        )
    }
}

impl RebuildSummary {
    /// The progress, as the end of a sentence. An incomplete rebuild is never shown as 100 %.
    fn clause(&self) -> String {
        let (member, began) = (self.member, time(self.began_ns));
        let percent = libm::floor(self.done * 1000.0) / 10.0;
        match (self.ended_ns, self.expected_end_ns) {
            (Some(ended), _) => {
                format!(
                    "; drive {member} rebuilt, from {began} to {} after the start of the jobs",
                    time(ended)
                )
            }
            (None, Some(end)) => format!(
                "; drive {member} {percent:.1} % rebuilt, since {began} after the start of the jobs: at this rate until {}",
                time(end)
            ),
            (None, None) => {
                format!("; drive {member} {percent:.1} % rebuilt, since {began} after the start of the jobs")
            }
        }
    }
}

/// A count with its noun in singular or plural.
fn number_of(count: u64, one: &str, several: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { several })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> ArraySummary {
        ArraySummary {
            level: 5,
            members: ["active", "active", "rebuilding"].map(str::to_owned).to_vec(),
            is_broken: false,
            lost_units: 0,
            write_amplification: None,
            traffic: Vec::new(),
            full_stripes: 1,
            read_modify_writes: 1,
            reconstruct_writes: 2,
            units_reconstructed: 1,
            rebuild: None,
        }
    }

    // "1 drives" and "1 parities" make a reader doubt the figures next to them.
    #[test]
    fn a_sentence_counts_as_it_reads() {
        let one = ArraySummary { level: 0, members: vec!["active".to_owned()], ..summary() };
        assert_eq!(
            one.sentence(),
            "RAID 0 over 1 drive, finally whole; 1 stripe written in full, 1 parity by read-modify-write, 2 parities from the \
             rest of the stripe; 1 unit of 4 KiB computed from others"
        );
        let three = summary().sentence();
        assert!(three.starts_with("RAID 5 over 3 drives, finally 1 being rebuilt; 1 stripe"), "{three}");
    }

    // A rebuild without progress does not tell how long a second failure would lose data.
    #[test]
    fn a_rebuild_says_how_far_it_is() {
        let rebuild = RebuildSummary {
            member: 2,
            done: 0.99999,
            began_ns: 1e6,
            ended_ns: None,
            expected_end_ns: Some(3e9),
        };
        let sentence = |rebuild| ArraySummary { rebuild: Some(rebuild), ..summary() }.sentence();
        let going_on = sentence(rebuild);
        assert!(going_on.contains("; drive 2 99.9 % rebuilt, since 1.00 ms after"), "{going_on}");
        assert!(going_on.ends_with("at this rate until 3.00 s"), "{going_on}");
        let ended = sentence(RebuildSummary { ended_ns: Some(2e9), expected_end_ns: None, ..rebuild });
        assert!(
            ended.ends_with("; drive 2 rebuilt, from 1.00 ms to 2.00 s after the start of the jobs"),
            "{ended}"
        );
    }
}
