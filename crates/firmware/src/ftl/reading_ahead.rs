//! What is read ahead: what a drive's policy of it is asked, and what is on its way.
//!
//! A drive with the built-in policy `none` has none of this.

use crate::ftl::config::FtlConfig;
use crate::policy::prefetch::{Ahead, Prefetch, PrefetchView};
use byteway_clock::Time;
use byteway_clock::random::{Rng, Stream as Random};
use byteway_policy::Asked;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The policy of a drive, and the units that are on their way into the read cache.
pub(in crate::ftl) struct ReadingAhead {
    asked: Asked<dyn Prefetch, Random>,
    /// Units that no reader has begun with.
    due: VecDeque<Ahead>,
    /// Units that are due or being read, and the number of the run in which they are.
    on_their_way: FxHashMap<u64, u64>,
    /// Runs so far.
    runs: u64,
    /// Units of the drive, and of the read cache.
    units: u64,
    room: u32,
    dies: u32,
}

impl ReadingAhead {
    /// What a drive of so many dies reads ahead, if it does.
    pub(in crate::ftl) fn new(config: &FtlConfig, dies: u32) -> Option<Box<Self>> {
        let policy = &config.prefetch;
        (!policy.is_default()).then(|| {
            Box::new(ReadingAhead {
                asked: Asked::new("prefetch policy", policy, Rng::new(config.seed).stream("prefetch")),
                due: VecDeque::new(),
                on_their_way: FxHashMap::default(),
                runs: 0,
                units: config.user_units,
                room: config.read_cache_units,
                dies,
            })
        })
    }

    /// Asks the policy at a read of the host, of which `hits` units are in the cache because they were read ahead. `is_cached` tells which units the
    /// cache has anyway. True if more units are due now.
    pub(in crate::ftl) fn ask(
        &mut self,
        (first, count): (u64, u32),
        hits: u32,
        (is_cached, idle_dies): (&dyn Fn(u64) -> bool, &dyn Fn() -> u32),
        now: Time,
    ) -> bool {
        let is_coming = |unit: &u64| self.on_their_way.contains_key(unit);
        let coming = (first..first + u64::from(count)).filter(is_coming).count() as u32;
        let ReadingAhead { asked, due, on_their_way, runs, units, room, dies } = self;
        let ahead = asked.ask(|policy, random| {
            let ahead = policy.ahead(&mut PrefetchView {
                first,
                count,
                hits: hits + coming,
                on_their_way: on_their_way.len() as u32,
                room: *room,
                units: *units,
                idle_dies,
                dies: *dies,
                now,
                random,
            });
            policy.fault().map_or(Ok(ahead), Err)
        });
        let Some(Ahead { first, count }) = ahead.flatten() else { return false };
        let space = u64::from(room.div_ceil(2)).saturating_sub(on_their_way.len() as u64);
        let end = first.saturating_add(u64::from(count)).min(*units);
        // One run of units that are neither there nor on their way: whoever reads the others finds them all the same.
        let is_free = |unit: &u64| !on_their_way.contains_key(unit) && !is_cached(*unit);
        let Some(first) = (first..end).find(is_free) else { return false };
        let count = (first..end).take(space as usize).take_while(is_free).count() as u32;
        if count == 0 {
            return false;
        }
        *runs += 1;
        on_their_way.extend((first..first + u64::from(count)).map(|unit| (unit, *runs)));
        due.push_back(Ahead { first, count });
        true
    }

    /// The next units to read.
    pub(in crate::ftl) fn next(&mut self) -> Option<Ahead> {
        self.due.pop_front()
    }

    /// Units have been read, or could not be.
    pub(in crate::ftl) fn end(&mut self, Ahead { first, count }: Ahead) {
        (first..first + u64::from(count)).for_each(|unit| {
            self.on_their_way.remove(&unit);
        });
    }

    /// Number of the runs that have set out until now.
    pub(in crate::ftl) fn runs(&self) -> u64 {
        self.runs
    }

    /// Whether a unit is on its way in one of the first `runs` runs.
    pub(in crate::ftl) fn is_coming(&self, unit: u64, runs: u64) -> bool {
        self.on_their_way.get(&unit).is_some_and(|run| *run <= runs)
    }

    /// What the policy did wrong, if it did.
    pub(in crate::ftl) fn fault(&self) -> Option<&str> {
        self.asked.fault()
    }
}
