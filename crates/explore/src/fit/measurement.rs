//! Measurements of a drive: points, each a load with the figures that were measured under it.

use byteway_workload::{Kind, Rw};
use serde::Serialize;

/// What the accessed blocks held before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Data that was written in sequence.
    Filled,
    /// Nothing: never written, or trimmed. A read of them needs no flash.
    Unwritten,
    /// The steady state of random overwrites.
    Steady,
}

impl State {
    /// All states.
    pub const ALL: [State; 3] = [State::Filled, State::Unwritten, State::Steady];

    /// Its name in tables of measurements.
    pub fn name(self) -> &'static str {
        match self {
            State::Filled => "filled",
            State::Unwritten => "unwritten",
            State::Steady => "steady",
        }
    }

    /// The drive's initial contents in a scenario.
    pub(super) fn precondition(self) -> &'static str {
        match self {
            State::Filled => "filled",
            State::Unwritten => "empty",
            State::Steady => "steady",
        }
    }

    /// The state that the name of a job says: `unwritten-...`, `steady-...`; others are filled.
    pub fn of_name(name: &str) -> State {
        let starts =
            |state: &State| name.strip_prefix(state.name()).is_some_and(|rest| rest.starts_with('-'));
        State::ALL.into_iter().find(starts).unwrap_or(State::Filled)
    }
}

/// A load: a job of one block size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Load {
    /// Direction and order.
    pub rw: Rw,
    /// Bytes of an I/O.
    pub bs: u64,
    /// Outstanding I/Os of a worker.
    pub iodepth: u32,
    /// Number of workers.
    pub numjobs: u32,
    /// Share of reads in a mix: 0 to 100.
    pub rwmixread: u8,
    /// Limit of the rate in bytes per second, over all workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// I/Os a second that arrive independently of each other and of what is outstanding: an open loop with Poisson arrivals, in which
    /// `iodepth` is without meaning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<u64>,
    /// What the accessed blocks held before.
    pub state: State,
}

impl Load {
    /// Outstanding I/Os of all workers; in an open loop, where their number varies, as of a drive at work.
    pub fn outstanding(&self) -> u64 {
        const OF_OPEN_LOOP: u64 = 32;
        self.arrivals.map_or(u64::from(self.iodepth) * u64::from(self.numjobs), |_| OF_OPEN_LOOP)
    }

    /// Whether any of its I/Os is a write.
    pub fn has_writes(&self) -> bool {
        self.rw.kinds().contains(&Kind::Write)
    }

    /// The load in a few words: `randread 4k x 32`.
    pub fn words(&self) -> String {
        let rw = serde_json::to_value(self.rw).ok().and_then(|rw| rw.as_str().map(str::to_owned));
        let rw = rw.unwrap_or_default();
        let size = match self.bs {
            bs if bs.is_multiple_of(1 << 20) => format!("{}m", bs >> 20),
            bs if bs.is_multiple_of(1 << 10) => format!("{}k", bs >> 10),
            bs => format!("{bs}b"),
        };
        let state = if self.state == State::Filled { "" } else { self.state.name() };
        let mix = if self.rw.is_mixed() { format!(" {} %", self.rwmixread) } else { String::new() };
        let load =
            self.arrivals.map_or_else(|| format!("x {}", self.outstanding()), |rate| format!("at {rate}/s"));
        format!("{state} {rw}{mix} {size} {load}").trim_start().to_owned()
    }
}

/// A measurable figure of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// Mean latency in nanoseconds.
    Mean(Kind),
    /// Percentile of the latency in nanoseconds; the share is in percent.
    Percentile(Kind, f64),
    /// I/Os per second.
    Iops(Kind),
}

impl Figure {
    /// The kind of I/O.
    pub fn kind(self) -> Kind {
        match self {
            Figure::Mean(kind) | Figure::Percentile(kind, _) | Figure::Iops(kind) => kind,
        }
    }

    /// Its name: `read mean`, `read p75`, `write IOPS`.
    pub fn name(self) -> String {
        let kind = kind_name(self.kind());
        match self {
            Figure::Mean(_) => format!("{kind} mean"),
            Figure::Percentile(_, share) => format!("{kind} p{share}"),
            Figure::Iops(_) => format!("{kind} IOPS"),
        }
    }

    /// Whether it is a time, in nanoseconds; otherwise it is a number per second.
    pub fn is_time(self) -> bool {
        !matches!(self, Figure::Iops(_))
    }

    /// Relative error that a measurement is taken to have: fio counts percentiles in bins that are 1.6 %
    /// wide, and runs of seconds repeat means and rates to about a percent.
    fn tolerance(self) -> f64 {
        match self {
            Figure::Mean(_) | Figure::Iops(_) => 0.01,
            Figure::Percentile(..) => 0.02,
        }
    }
}

/// The name of a kind of I/O.
pub(super) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Trim => "trim",
    }
}

/// A point: a load, and what was measured under it.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Its name, unique among the points.
    pub name: String,
    /// The load.
    pub load: Load,
    /// The figures, with their values.
    pub figures: Vec<(Figure, f64)>,
    /// Where the values come from, if the table says.
    pub source: Option<String>,
    /// What the figures were measured from, as far as that is known.
    pub sample: Sample,
    /// What it is for, if the table says.
    pub role: Option<Role>,
}

/// What a point is for, chosen before any fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Constants may be fitted to it.
    Fit,
    /// It judges what was fitted to others.
    Judge,
    /// Neither: something else than the drive was its limit, such as the processor of the host that measured.
    Aside,
}

impl Role {
    /// All roles.
    pub const ALL: [Role; 3] = [Role::Fit, Role::Judge, Role::Aside];

    /// Its name in tables of measurements.
    pub fn name(self) -> &'static str {
        match self {
            Role::Fit => "fit",
            Role::Judge => "judge",
            Role::Aside => "aside",
        }
    }
}

/// What figures were measured from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Number of I/Os.
    pub ios: Option<u64>,
    /// Standard error of mean latencies, as a share: what other I/Os of the same load would have given.
    pub mean_error: f64,
}

impl Point {
    /// Relative error that a figure of it is taken to have.
    pub(super) fn tolerance(&self, figure: Figure) -> f64 {
        match figure {
            Figure::Mean(_) => libm::hypot(figure.tolerance(), self.sample.mean_error),
            Figure::Percentile(..) | Figure::Iops(_) => figure.tolerance(),
        }
    }
}

/// All points of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measurements {
    /// The points, in the order of the file.
    pub points: Vec<Point>,
    /// What was left out or assumed, and why.
    pub notes: Vec<String>,
}

impl Measurements {
    /// Makes the names of the points unique.
    pub(super) fn name_apart(&mut self) {
        let mut seen = std::collections::BTreeSet::new();
        for point in &mut self.points {
            let own = point.name.clone();
            let mut copy = 2;
            while !seen.insert(point.name.clone()) {
                point.name = format!("{own}-{copy}");
                copy += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A job that reads trimmed blocks, taken for one that reads flash, would make the flash look as fast as DRAM.
    #[test]
    fn the_name_of_a_job_says_what_it_reads() {
        assert_eq!(State::of_name("unwritten-randread-4k-qd1"), State::Unwritten);
        assert_eq!(State::of_name("steady-randwrite"), State::Steady);
        assert_eq!(State::of_name("unwrittenx"), State::Filled);
        assert_eq!(State::of_name("randread"), State::Filled);
    }
}
