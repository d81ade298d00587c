//! What is read ahead: what a drive's policy of it is asked, and what is on its way.
//!
//! A drive with the built-in policy `none` has none of this.

use crate::ftl::config::FtlConfig;
use crate::policy::prefetch::{Ahead, Prefetch, PrefetchView};
use byteway_clock::Time;
use byteway_clock::random::{Rng, Stream as Random};
use byteway_policy::Asked;
use rustc_hash::FxHashSet;
use std::collections::VecDeque;

/// The policy of a drive, and the units that are on their way into the read cache.
pub(in crate::ftl) struct ReadingAhead {
    asked: Asked<dyn Prefetch, Random>,
    /// Units that no reader has begun with.
    due: VecDeque<Ahead>,
    /// Units that are due or being read.
    on_their_way: FxHashSet<u64>,
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
                on_their_way: FxHashSet::default(),
                units: config.user_units,
                room: config.read_cache_units,
                dies,
            })
        })
    }

    /// Asks the policy at a read of the host, of which `hits` units are in the cache because they were read ahead. True if more units are due now.
    pub(in crate::ftl) fn ask(
        &mut self,
        (first, count): (u64, u32),
        hits: u32,
        idle_dies: &dyn Fn() -> u32,
        now: Time,
    ) -> bool {
        let coming = (first..first + u64::from(count)).filter(|unit| self.is_coming(*unit)).count() as u32;
        let ReadingAhead { asked, due, on_their_way, units, room, dies } = self;
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
        // One run of units that are not on their way: whoever reads the others waits for them all the same.
        let is_free = |unit: &u64| !on_their_way.contains(unit);
        let Some(first) = (first..end).find(is_free) else { return false };
        let run = (first..end).take(space as usize).take_while(|unit| on_their_way.insert(*unit));
        let count = run.count() as u32;
        if count == 0 {
            return false;
        }
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

    /// Whether a unit is on its way.
    pub(in crate::ftl) fn is_coming(&self, unit: u64) -> bool {
        self.on_their_way.contains(&unit)
    }

    /// What the policy did wrong, if it did.
    pub(in crate::ftl) fn fault(&self) -> Option<&str> {
        self.asked.fault()
    }
}
