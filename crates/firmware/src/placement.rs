//! Which site runs which kind of work.

use crate::site::Site;
use crate::work::{Cycles, Work};
use byteway_clock::Service;

/// Which [`Site`] runs each kind of [`Work`], and what it costs there. The cost in cycles is the firmware's; how long
/// a cycle takes is the site's.
#[derive(Clone)]
pub struct Placement {
    sites: [Site; Work::ALL.len()],
    cycles: Cycles,
}

impl Placement {
    /// All work at one site: a drive of the usual kind.
    pub fn all_at(site: &Site, cycles: Cycles) -> Self {
        Placement { sites: std::array::from_fn(|_| site.clone()), cycles }
    }

    /// The same, but with `work` at `site`.
    pub fn with(mut self, work: Work, site: &Site) -> Self {
        self.sites[work as usize] = site.clone();
        self
    }

    /// Where `work` runs.
    pub fn site(&self, work: Work) -> &Site {
        &self.sites[work as usize]
    }

    /// What each kind costs.
    pub fn cycles(&self) -> &Cycles {
        &self.cycles
    }

    /// Reserves cores for `count` times `work`; the caller waits for the end.
    pub fn reserve(&self, work: Work, count: u64) -> Service {
        self.site(work).reserve(work, self.cycles.of(work).saturating_mul(count))
    }

    /// Does `first` and then `second`, which follow one another without a pause where they run at the same site; gives
    /// the reservation of the last, whose end the caller still waits for.
    pub async fn chain(&self, first: Work, second: Work) -> Service {
        if self.site(first).is(self.site(second)) {
            let with_cycles = |work| (work, self.cycles.of(work));
            return self.site(first).reserve_both(with_cycles(first), with_cycles(second));
        }
        let before = self.run(first, 1).await;
        let after = self.reserve(second, 1);
        Service { queued: before.queued + after.queued, end: after.end }
    }

    /// Does `count` times `work`: one after another, on one core.
    pub async fn run(&self, work: Work, count: u64) -> Service {
        self.site(work).work(work, self.cycles.of(work).saturating_mul(count)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::{Delay, Executor, Rate, Time};

    // Work that is placed elsewhere must cost time there and none here; else "placement" would be a word.
    #[test]
    fn work_keeps_the_cores_of_its_own_site_busy() {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let rate = Rate::per_second(1_000_000_000);
        let here = Site::new(&clock, 2, 1_000_000_000, Delay::from_ns(100), rate);
        let there = Site::new(&clock, 1, 500_000_000, Delay::from_ns(100), rate);
        let cycles = Cycles::FREE.with(Work::Parse, 300).with(Work::Translate, 100);
        let placement = Placement::all_at(&here, cycles).with(Work::Translate, &there);
        let now = executor.run(async move {
            placement.run(Work::Parse, 1).await;
            placement.run(Work::Complete, 5).await;
            placement.run(Work::Translate, 3).await;
            clock.now()
        });
        assert_eq!(now, Ok(Time(300_000 + 600_000)));
        assert_eq!((here.busy(), here.served()), (Delay::from_ns(300), 1));
        assert_eq!((there.busy(), there.served()), (Delay::from_ns(600), 1));
    }
}
