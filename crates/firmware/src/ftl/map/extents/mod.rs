//! The map of firmware on a host: a B+-tree of extents, whose memory depends on what was written and how
//! scattered it is, not on the capacity.
//!
//! An *extent* is a run of consecutive host units at consecutive *log addresses*. The log address of a unit
//! in flash is the number of its stripe, times the units of a stripe, plus its index in the stripe. Stripes
//! are numbered in the order of allocation, on any die, so a sequential write across all dies is one extent
//! as long as nothing else is programmed in between. Units moved by garbage collection, and translation
//! pages, break it.
//!
//! A unit in the write buffer is in the tree with its previous version in flash, if there is one: the buffer
//! has its own index, and the tree changes when a program has ended.
//!
//! The [table](super::table) has the location of every unit, exactly and in little memory, so only the shape
//! of the tree is kept: the units that begin an extent, in as many and as full nodes as those of a tree with
//! whole entries. A change is a run of units whose locations have changed; the table then tells which of
//! them, and whether the unit after the run, begin an extent.
//!
//! | file | contents |
//! |---|---|
//! | [`tree`] | the B+-tree |
//! | [`nodes`] | the memory of its nodes |
//! | [`check`] | verification, for tests |
//!
//! What it does not do: the tree is not persistent. After power-on the numbers of all programmed stripes are
//! read from their spare areas, and the tree is built from these and the map.

mod check;
mod nodes;
mod tree;

use crate::ftl::config::ExtentConfig;
use byteway_flash::{DataEnd, Geometry, Ppa};
use tree::{Fill, Tree};

/// The tree, and the units that changed since it was last settled.
pub(in crate::ftl) struct Extents {
    tree: Tree,
    /// Number of host units.
    user: u64,
    node_bytes: u64,
    /// Runs of units whose locations have changed: first, and end.
    changed: Vec<(u32, u32)>,
    /// Nodes visited by changes.
    visits: u64,
}

/// Size of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ftl) struct Size {
    pub(in crate::ftl) bytes: u64,
    pub(in crate::ftl) nodes: u64,
    pub(in crate::ftl) extents: u64,
    pub(in crate::ftl) height: u32,
}

/// Log addresses of units in flash.
#[derive(Clone, Copy)]
pub(in crate::ftl) struct Log<'a> {
    pub(in crate::ftl) flash: &'a DataEnd,
    pub(in crate::ftl) geometry: &'a Geometry,
}

impl Log<'_> {
    /// Whether the log address of `second` follows that of `first`.
    #[inline]
    fn follows(&self, first: Ppa, second: Ppa) -> bool {
        let units = self.geometry.units_per_stripe();
        match self.geometry.unit_of_stripe(first) + 1 {
            next if next < units => second.0 == first.0 + 1,
            // Usually the index in the stripe shows that it does not follow, without looking at the stripes.
            _ if self.geometry.unit_of_stripe(second) != 0 => false,
            _ => {
                let number = |ppa| {
                    let (block, stripe) = (self.geometry.block_of(ppa), self.geometry.stripe_of(ppa));
                    self.flash.stripe_number(block, stripe)
                };
                number(first).is_some_and(|before| number(second) == Some(before + 1))
            }
        }
    }
}

impl Extents {
    /// An empty tree for `user` host units, at most 2^32.
    pub(in crate::ftl) fn new(config: &ExtentConfig, user: u64) -> Self {
        let least = |most: u32| most * config.fill_percent_min / 100;
        let (leaf, inner) = (config.leaf_entries(), config.inner_entries());
        let fill = |least: u32, most: u32| Fill { least: least as usize, most: most as usize };
        Extents {
            tree: Tree::new(fill(least(leaf).max(1), leaf), fill(least(inner).max(2), inner)),
            user,
            node_bytes: config.node_bytes.into(),
            changed: Vec::new(),
            visits: 0,
        }
    }

    /// Notes that a unit's location in flash has changed.
    #[inline]
    pub(in crate::ftl) fn note(&mut self, lpa: u64) {
        if lpa >= self.user {
            return;
        }
        let unit = lpa as u32;
        match self.changed.last_mut() {
            Some((_, end)) if *end == unit => *end += 1,
            _ => self.changed.push((unit, unit.saturating_add(1))),
        }
    }

    /// Applies the noted changes to the tree. `place` returns a unit's location in flash.
    pub(in crate::ftl) fn settle(&mut self, log: Log, place: impl Fn(u64) -> Option<Ppa>) {
        let mut changed = std::mem::take(&mut self.changed);
        for (first, end) in changed.drain(..) {
            self.visits += u64::from(self.tree.height());
            let mut before = first.checked_sub(1).and_then(|unit| place(unit.into()));
            let mut leaf = None;
            // Including the unit after the run, whose predecessor has changed.
            let last = u64::from(end).min(self.user - 1) as u32;
            for unit in first..=last {
                let at = place(unit.into());
                let begins = match (before, at) {
                    (_, None) => false,
                    (None, Some(_)) => true,
                    (Some(before), Some(at)) => !log.follows(before, at),
                };
                before = at;
                // Usually the leaf of the previous unit covers this one, too, and is already right.
                if !self.tree.is_restructured()
                    && leaf.is_some_and(|leaf| self.tree.is_in_leaf(leaf, unit) == Some(begins))
                {
                    continue;
                }
                let visited = self.tree.set(unit, begins);
                self.visits += u64::from(leaf.replace(visited).is_some_and(|leaf| leaf != visited));
            }
            self.visits += self.tree.take_restructured();
        }
        self.changed = changed;
    }

    /// Removes units that are no longer in flash. The unit after them is [noted](Extents::note).
    pub(in crate::ftl) fn remove(&mut self, first: u64, end: u64) {
        let looks = self.tree.remove_range(first as u32, end.min(u64::from(u32::MAX)) as u32);
        if end > u64::from(u32::MAX) {
            self.tree.set(u32::MAX, false);
        }
        self.visits += looks * u64::from(self.tree.height()) + self.tree.take_restructured();
        if end < self.user {
            self.note(end);
        }
    }

    /// Removes all host units.
    pub(in crate::ftl) fn clear(&mut self) {
        self.changed.clear();
        self.tree.clear();
        self.visits += 1;
    }

    /// Nodes that a look-up of these units visits: the path to the first extent, and each further leaf.
    #[inline]
    pub(in crate::ftl) fn look_ups(&self, first: u64, count: u64) -> u64 {
        let way = u64::from(self.tree.height());
        match count {
            0 => 0,
            1 => way,
            _ => way - 1 + self.tree.leaves_visited(first as u32, (first + count - 1) as u32),
        }
    }

    /// Nodes visited by changes since the last call.
    pub(in crate::ftl) fn take_visits(&mut self) -> u64 {
        std::mem::take(&mut self.visits)
    }

    /// Size of the tree.
    pub(in crate::ftl) fn size(&self) -> Size {
        let (nodes, extents, height) = (self.tree.nodes(), self.tree.len(), self.tree.height());
        Size { bytes: nodes * self.node_bytes, nodes, extents, height }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::map::table::{Entry, EntryKind, Table};
    use crate::ftl::space::Space;
    use crate::ftl::{Ftl, FtlConfig};
    use byteway_clock::Executor;
    use byteway_clock::permutation::Permutation;
    use byteway_clock::random::Rng;
    use byteway_flash::{Flash, Timing};
    use rustix::time::{ClockId, clock_gettime};

    /// Resident memory of this process in bytes.
    fn resident() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Processor time of this process in nanoseconds.
    fn processor_time() -> i64 {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    }

    // Prints the claimed memory, the memory used and the speed for a drive of 430 GB whose units were all
    // written at random, twice. To be run by hand, in release mode.
    #[test]
    #[ignore = "takes minutes, and measures"]
    fn a_drive_of_430_gb_written_at_random() {
        const UNITS: u64 = 105_000_000;
        let geometry =
            Geometry { channels: 8, ways: 4, planes: 2, blocks: 1800, pages: 512, page_bytes: 8192 };
        let config =
            FtlConfig { user_units: UNITS, extents: Some(ExtentConfig::default()), ..FtlConfig::default() };
        let executor = Executor::new();
        let medium = Ftl::medium(geometry, &config).unwrap();
        let flash = DataEnd::from(Flash::new(executor.clock(), geometry, Timing::default(), medium));
        let log = Log { flash: &flash, geometry: &geometry };
        let before = resident();
        let mut table = Table::new(Space::new(UNITS, false));
        let mut extents = Extents::new(&ExtentConfig::default(), UNITS);
        let mut stream = Rng::new(1).stream("host");
        let order = Permutation::new(1, UNITS).unwrap();
        for round in 0..2 {
            let begun = processor_time();
            for index in 0..UNITS {
                // Each unit once, then any unit.
                let unit = if round == 0 { order.forward(index) } else { stream.below(UNITS) };
                table.set(unit, Entry::flash(Ppa(index)));
                extents.note(unit);
                extents.settle(log, |lpa| match table.get(lpa).kind() {
                    EntryKind::Flash(ppa) => Some(ppa),
                    _ => None,
                });
            }
            let (size, spent) = (extents.size(), processor_time() - begun);
            println!(
                "round {round}: {size:?}, {} MiB claimed, {} MiB resident (table included), {:.0} ns a change, {} nodes visited",
                size.bytes >> 20,
                (resident() - before) >> 20,
                spent as f64 / UNITS as f64,
                extents.take_visits(),
            );
        }
    }
}
