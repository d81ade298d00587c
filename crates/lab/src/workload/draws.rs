//! Synthetic I/O: what is done, where, how long it is and when, drawn from named streams.

use std::fmt;

use byteway_clock::permutation::Permutation;
use byteway_clock::random::{Exponential, Rng, Stream, Zipf};

use super::{Arrival, Distribution, Io, Issue, JobPlan, Kind, Rw, Synthetic};
use crate::error::InputError;

pub(super) struct Draws {
    addresses: Addresses,
    address_stream: Stream,
    mix_stream: Stream,
    arrivals: Arrivals,
    kind: Option<Kind>,
    read_percent: u64,
    io_blocks: u32,
    range_lba: u64,
    left: u64,
}

/// Which unit of the range comes next; a unit is as long as an I/O.
enum Addresses {
    Sequential { first: u64, count: u64, next: u64 },
    Uniform { count: u64 },
    Zipf { ranks: Zipf, scatter: Permutation },
}

enum Arrivals {
    Closed,
    Poisson { gap_ps: Exponential, stream: Stream, at_ps: u64 },
    Fixed { index: u64, step: u64, rate_iops: u64 },
}

impl Draws {
    pub(super) fn new(
        plan: &JobPlan,
        synthetic: &Synthetic,
        worker: u32,
        rng: &Rng,
    ) -> Result<Self, InputError> {
        let name = &plan.name;
        let stream = |purpose: &str| rng.stream(&format!("job/{name}/{worker}/{purpose}"));
        let (worker, workers) = (u64::from(worker), u64::from(plan.workers.max(1)));
        let units = plan.range_blocks / u64::from(synthetic.io_blocks.max(1));
        let refused = |error: &dyn fmt::Display| {
            InputError::new(format!("job `{name}`: {error}"), "change the range or the distribution")
        };
        let addresses = match synthetic.distribution {
            Distribution::Sequential => {
                let first = (u128::from(units) * u128::from(worker) / u128::from(workers)) as u64;
                let end = (u128::from(units) * u128::from(worker + 1) / u128::from(workers)) as u64;
                Addresses::Sequential { first, count: end - first, next: 0 }
            }
            Distribution::Uniform => Addresses::Uniform { count: units },
            Distribution::Zipf { theta } => {
                // All workers of a job have the same favourites.
                let key = rng.stream(&format!("job/{name}/scatter")).next_u64();
                Addresses::Zipf {
                    ranks: Zipf::new(units, theta).map_err(|error| refused(&error))?,
                    scatter: Permutation::new(key, units).map_err(|error| refused(&error))?,
                }
            }
        };
        let empty = match &addresses {
            Addresses::Sequential { count, .. } | Addresses::Uniform { count } => *count == 0,
            Addresses::Zipf { .. } => false,
        };
        if empty {
            return Err(refused(&"its range has no room for one I/O of each worker"));
        }
        let arrivals = match plan.issue {
            Issue::Closed | Issue::Trace => Arrivals::Closed,
            Issue::Open { rate_iops, arrival: Arrival::Fixed } => {
                Arrivals::Fixed { index: worker, step: workers, rate_iops: rate_iops.max(1) }
            }
            Issue::Open { rate_iops, arrival: Arrival::Poisson } => {
                let mean_ps = 1e12 * workers as f64 / rate_iops.max(1) as f64;
                let gap_ps = Exponential::new(mean_ps).map_err(|error| refused(&error))?;
                Arrivals::Poisson { gap_ps, stream: stream("arrival"), at_ps: 0 }
            }
        };
        let kind = match synthetic.rw {
            Rw::Read | Rw::RandRead => Some(Kind::Read),
            Rw::Write | Rw::RandWrite => Some(Kind::Write),
            Rw::Trim | Rw::RandTrim => Some(Kind::Trim),
            Rw::Rw | Rw::RandRw => None,
        };
        let share = |count: u64| count / workers + u64::from(worker < count % workers);
        Ok(Draws {
            addresses,
            address_stream: stream("address"),
            mix_stream: stream("mix"),
            arrivals,
            kind,
            read_percent: u64::from(synthetic.read_percent),
            io_blocks: synthetic.io_blocks,
            range_lba: plan.range_lba,
            left: plan.count.map_or(u64::MAX, share),
        })
    }

    pub(super) fn next(&mut self) -> Option<Io> {
        self.left = self.left.checked_sub(1)?;
        let at = match &mut self.arrivals {
            Arrivals::Closed => None,
            Arrivals::Poisson { gap_ps, stream, at_ps } => {
                *at_ps = at_ps.saturating_add(libm::round(gap_ps.sample(stream)) as u64);
                Some(*at_ps)
            }
            Arrivals::Fixed { index, step, rate_iops } => {
                let at = u128::from(*index) * 1_000_000_000_000 / u128::from(*rate_iops);
                *index = index.saturating_add(*step);
                Some(u64::try_from(at).unwrap_or(u64::MAX))
            }
        };
        let unit = match &mut self.addresses {
            Addresses::Sequential { first, count, next } => {
                let unit = *first + *next;
                *next = if *next + 1 == *count { 0 } else { *next + 1 };
                unit
            }
            Addresses::Uniform { count } => self.address_stream.below(*count),
            Addresses::Zipf { ranks, scatter } => scatter.forward(ranks.sample(&mut self.address_stream)),
        };
        let kind = self.kind.unwrap_or_else(|| {
            if self.mix_stream.below(100) < self.read_percent { Kind::Read } else { Kind::Write }
        });
        let lba = self.range_lba + unit * u64::from(self.io_blocks);
        Some(Io { kind, lba, blocks: self.io_blocks, at })
    }
}
