//! Due times of I/Os: arrivals of an open loop, and rate limits of a closed one.

use byteway_clock::random::{Exponential, InvalidParameter, Stream};

use super::direction::ByKind;
use super::issue::{Arrival, Cap, Issue};
use super::settings::JobSettings;
use byteway_trace::Kind;

/// Determines when a worker's next I/O is due, in picoseconds since its job began.
pub(super) enum Pace {
    Free,
    Poisson { gap_ps: Exponential, stream: Stream, at_ps: u64 },
    Fixed { index: u64, step: u64, rate_iops: u64 },
    Capped { cap: Cap, spent: ByKind<u64>, worker: u64, workers: u64 },
}

const SECOND_PS: u128 = 1_000_000_000_000;

impl Pace {
    pub(super) fn new(
        job: &JobSettings,
        worker: u64,
        stream: impl FnOnce() -> Stream,
    ) -> Result<Self, InvalidParameter> {
        let workers = u64::from(job.workers.max(1));
        Ok(match (job.issue, job.cap) {
            (Issue::Closed | Issue::Trace, None) => Pace::Free,
            (Issue::Closed | Issue::Trace, Some(cap)) => {
                Pace::Capped { cap, spent: ByKind::default(), worker, workers }
            }
            (Issue::Open { rate_iops, arrival: Arrival::Fixed }, _) => {
                Pace::Fixed { index: worker, step: workers, rate_iops: rate_iops.max(1) }
            }
            (Issue::Open { rate_iops, arrival: Arrival::Poisson }, _) => {
                let mean_ps = 1e12 * workers as f64 / rate_iops.max(1) as f64;
                Pace::Poisson { gap_ps: Exponential::new(mean_ps)?, stream: stream(), at_ps: 0 }
            }
        })
    }

    #[inline]
    pub(super) fn next(&mut self, kind: Kind, bytes: u64) -> Option<u64> {
        if let Pace::Free = self { None } else { self.next_due(kind, bytes) }
    }

    #[inline(never)]
    fn next_due(&mut self, kind: Kind, bytes: u64) -> Option<u64> {
        let at = match self {
            Pace::Free => return None,
            Pace::Poisson { gap_ps, stream, at_ps } => {
                *at_ps = at_ps.saturating_add(libm::round(gap_ps.sample(stream)) as u64);
                return Some(*at_ps);
            }
            Pace::Fixed { index, step, rate_iops } => {
                let at = u128::from(*index) * SECOND_PS / u128::from(*rate_iops);
                *index = index.saturating_add(*step);
                at
            }
            Pace::Capped { cap, spent, worker, workers } => {
                let (rate, cost) = match cap {
                    Cap::Iops(rates) => (*rates.get(kind), 1),
                    Cap::Bytes(rates) => (*rates.get(kind), bytes),
                };
                let rate = u128::from(rate?.max(1));
                let spent = spent.get_mut(kind);
                // The workers alternate: each has its share of the rate, at distinct times.
                let before = u128::from(*spent) * u128::from(*workers) + u128::from(*worker * cost);
                *spent = spent.saturating_add(cost);
                before * SECOND_PS / rate
            }
        };
        Some(u64::try_from(at).unwrap_or(u64::MAX))
    }
}
