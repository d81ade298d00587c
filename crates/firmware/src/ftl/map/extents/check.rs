//! Verification of a tree of extents by a full traversal, for tests.
//!
//! It verifies that the extents follow from the map and the stripe numbers, unit by unit; that nodes are
//! filled within their bounds, hold their keys in order, and are all reachable; and that all leaves are at
//! one depth. It does not verify where nodes were split.

use super::nodes::NONE;
use super::tree::Tree;
use super::{Extents, Log};
use byteway_flash::Ppa;
use std::collections::BTreeMap;

impl Extents {
    /// Compares the tree with a freshly built one.
    ///
    /// # Panics
    /// If they differ, or the tree is invalid.
    pub(in crate::ftl) fn check(&self, log: Log, place: impl Fn(u64) -> Option<Ppa>) {
        assert!(self.changed.is_empty(), "unsettled changes");
        self.tree.check();
        let mut extents: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for (unit, address) in
            (0..self.user).filter_map(|unit| place(unit).map(|ppa| (unit, log.address(ppa))))
        {
            match extents.last_entry() {
                Some(mut last)
                    if last.key() + last.get().1 == unit && last.get().0 + last.get().1 == address =>
                {
                    last.get_mut().1 += 1;
                }
                _ => _ = extents.insert(unit, (address, 1)),
            }
        }
        let starts: Vec<u64> = self.tree.all().into_iter().map(u64::from).collect();
        assert!(starts.iter().eq(extents.keys()), "the tree has {starts:?}, and there are {extents:?}");
    }
}

impl Log<'_> {
    /// Log address of a flash address. A stripe without a known number gets one that is adjacent to no
    /// other's.
    fn address(&self, ppa: Ppa) -> u64 {
        let units = u64::from(self.geometry.units_per_stripe());
        let (block, stripe) = (self.geometry.block_of(ppa), self.geometry.stripe_of(ppa));
        let unit = u64::from(self.geometry.unit_of_stripe(ppa));
        match self.flash.stripe_number(block, stripe) {
            Some(number) => number * units + unit,
            None => (1 << 62) + 2 * (ppa.0 - unit) + unit,
        }
    }
}

impl Tree {
    /// All keys, in order.
    pub(super) fn all(&self) -> Vec<u32> {
        let mut all = Vec::new();
        let mut leaf = self.leaf(0);
        while leaf != NONE {
            all.extend_from_slice(self.leaves.keys(leaf));
            leaf = self.leaves.next(leaf);
        }
        all
    }

    /// Verifies all invariants of the tree.
    ///
    /// # Panics
    /// If one is violated.
    pub(super) fn check(&self) {
        let mut seen = [0, 0];
        let keys = self.check_below(self.root, self.height, 0, u64::from(u32::MAX) + 1, &mut seen);
        assert_eq!((keys, seen), (self.keys, [self.leaves.len(), self.inner.len()]));
        let all = self.all();
        assert!(all.is_sorted_by(|a, b| a < b) && all.len() as u64 == keys, "leaves are in order");
    }

    /// Verifies the keys below a node at this height, from `low` to before `end`. Returns their number.
    fn check_below(&self, node: u32, height: u32, low: u32, end: u64, seen: &mut [u64; 2]) -> u64 {
        let (nodes, kind) = if height == 1 { (&self.leaves, 0) } else { (&self.inner, 1) };
        seen[kind] += 1;
        let keys = nodes.keys(node);
        let least = match node == self.root && height == self.height {
            true => 2 * kind, // an inner root has at least two children
            false => self.fill[kind].least,
        };
        assert!((least..=self.fill[kind].most).contains(&keys.len()), "{} keys at {height}", keys.len());
        assert!(keys.is_sorted_by(|a, b| a < b));
        assert!(keys.iter().all(|key| *key >= low && u64::from(*key) < end));
        if height == 1 {
            return keys.len() as u64;
        }
        assert_eq!(keys[0], low);
        let ends = keys[1..].iter().map(|key| u64::from(*key)).chain([end]);
        let each = keys.iter().zip(ends).enumerate();
        each.map(|(way, (low, end))| self.check_below(nodes.child(node, way), height - 1, *low, end, seen))
            .sum()
    }
}
