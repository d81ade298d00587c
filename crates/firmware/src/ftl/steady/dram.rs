//! The DRAM of a drive that is found in the midst of being overwritten, and what its collectors are at.

use crate::ftl::buffer::NOBODY;
use crate::ftl::inner::Inner;
use crate::ftl::inner::State;
use crate::ftl::map::table::Entry;
use crate::placement::Route;
use byteway_clock::Notify;
use byteway_clock::permutation::Permutation;
use byteway_clock::random::{Rng, Stream};

impl Inner {
    /// A drive that was made in the steady state is written to for the first time: it is in the middle of being
    /// overwritten. The write buffer is full of units that have just been written, with what they hold already, and of
    /// translation pages that had to leave the map's cache; and all collectors are at work.
    ///
    /// Units that are not where the base state has them, as they were deallocated, are left out.
    #[cold]
    pub(in crate::ftl) fn go_on_overwriting(&self) {
        let free = self.credits.available();
        if !self.credits.try_take(free) {
            return;
        }
        let mut stream = Rng::new(self.config.seed).stream("steady-buffer");
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        let mut taken = 0;
        let buffered = f64::from(self.config.rhythm.map_pages_ppm) * 1e-6;
        let share = if self.cache.is_some() { buffered / (1.0 + buffered) } else { 0.0 };
        let count = u64::from(state.map.pages.count());
        let mut pages = Vec::new();
        if share > 0.0 {
            let order = Permutation::new(stream.next_u64(), count).expect("pages are fewer than units");
            pages.extend((0..count.min(free as u64)).rev().map(|rank| order.forward(rank) as u32));
        }
        // Twice as many draws as units: on a small drive some are drawn more than once.
        for _ in 0..2 * free {
            if taken == free {
                break;
            }
            if share > 0.0
                && stream.unit() < share
                && let Some(page) = pages.pop()
            {
                taken += usize::from(state.buffer_page(page, self.config.keep));
                continue;
            }
            let lpa = stream.below(self.config.user_units);
            if state.map.table.get(lpa) == Entry::BASE {
                let content = self.base.content(lpa);
                taken += usize::from(state.buffer_unit(lpa, content, NOBODY, Route::OWN).is_some());
            }
        }
        self.fill_map_cache(state, &mut stream);
        for die in 0..self.geometry.dies() {
            let first = self.geometry.block(die, 0);
            self.base.upkeep(die).into_iter().for_each(|found| state.go_on_upkeep(die, first, found));
        }
        drop(guard);
        self.give_back((free - taken) as u32);
        self.signals.collectors.iter().for_each(Notify::notify_one);
        self.dispatch();
    }

    /// The map's cache holds as many pages as it can. The longer ago one was used, the likelier it has changed since. As
    /// many as are put up with have changed while they were away.
    fn fill_map_cache(&self, state: &mut State, stream: &mut Stream) {
        let Some(frames) = self.config.map_cache_pages.filter(|_| self.cache.is_some()) else { return };
        let count = state.map.pages.count();
        let held = frames.min(count);
        let order =
            Permutation::new(stream.next_u64(), u64::from(count)).expect("pages are fewer than units");
        let page = |rank: u32| order.forward(u64::from(rank)) as u32;
        let missing = (1.0 - f64::from(held) / f64::from(count)).max(1.0 / f64::from(count));
        let changes = self.base.write_amplification() / (missing * f64::from(count));
        for rank in 0..held {
            let page = page(rank);
            if state.map.frames.find(page).is_some() {
                continue;
            }
            let Some(frame) = state.map.frames.begin_own(page) else { break };
            state.map.frames.loaded(frame);
            state.map.pages.hold(page, true);
            let unchanged = libm::exp(-changes * f64::from(held - rank));
            if stream.unit() >= unchanged {
                state.map.pages.changed(state.map.pages.units(page).start);
            }
        }
        for rank in held..count.min(held.saturating_add(frames)) {
            state.map.pages.changed(state.map.pages.units(page(rank)).start);
        }
    }
}
