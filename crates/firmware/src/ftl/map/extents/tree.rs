//! A B+-tree of the first units of extents: nodes of a fixed size, all leaves at one depth, each node except
//! the root filled to a minimum. The other fields of an extent, its address and length, follow from the
//! table, so a node of the simulator holds 4 bytes for each entry that it stands for.
//!
//! - An inner node has a key for each child: the smallest possible key below it, which is 0 on the left edge.
//! - A full node is split at the median before a key is inserted.
//! - A node below the minimum is balanced with its left neighbour (its right one if it is the first child);
//!   if the two together hold less than twice the minimum, they merge.

use super::nodes::{NONE, Nodes};

/// Bounds of the keys of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fill {
    pub(super) least: usize,
    pub(super) most: usize,
}

/// The tree.
pub(super) struct Tree {
    /// Bounds for leaves, and for inner nodes.
    pub(super) fill: [Fill; 2],
    pub(super) leaves: Nodes,
    pub(super) inner: Nodes,
    pub(super) root: u32,
    pub(super) height: u32,
    pub(super) keys: u64,
    /// Path to the leaf sought last: inner nodes, and the index of the child taken.
    path: Vec<(u32, usize)>,
    /// Nodes touched by splits, merges and balancing.
    restructured: u64,
}

impl Tree {
    /// An empty tree: a leaf without keys.
    pub(super) fn new(leaf: Fill, inner: Fill) -> Self {
        let mut leaves = Nodes::new(leaf.most, false);
        let root = leaves.add();
        let inner_nodes = Nodes::new(inner.most, true);
        Tree {
            fill: [leaf, inner],
            leaves,
            inner: inner_nodes,
            root,
            height: 1,
            keys: 0,
            path: Vec::with_capacity(16),
            restructured: 0,
        }
    }

    /// Removes all keys, and frees all nodes except a root.
    pub(super) fn clear(&mut self) {
        *self = Tree::new(self.fill[0], self.fill[1]);
    }

    /// Number of keys.
    pub(super) fn len(&self) -> u64 {
        self.keys
    }

    /// Number of nodes.
    pub(super) fn nodes(&self) -> u64 {
        self.leaves.len() + self.inner.len()
    }

    /// Levels from the root to a leaf.
    pub(super) fn height(&self) -> u32 {
        self.height
    }

    /// Nodes touched by splits, merges and balancing since the last call, apart from the search paths.
    pub(super) fn take_restructured(&mut self) -> u64 {
        std::mem::take(&mut self.restructured)
    }

    #[inline]
    fn way(keys: &[u32], key: u32) -> usize {
        keys.partition_point(|low| *low <= key).saturating_sub(1)
    }

    /// The leaf for a key.
    pub(super) fn leaf(&self, key: u32) -> u32 {
        (1..self.height)
            .fold(self.root, |node, _| self.inner.child(node, Self::way(self.inner.keys(node), key)))
    }

    /// Like `leaf`, and records the path.
    fn seek(&mut self, key: u32) -> u32 {
        self.path.clear();
        let mut node = self.root;
        for _ in 1..self.height {
            let way = Self::way(self.inner.keys(node), key);
            self.path.push((node, way));
            node = self.inner.child(node, way);
        }
        node
    }

    /// Leaves visited by a search from `first` that ends with the last key not above `last`.
    pub(super) fn leaves_visited(&self, first: u32, last: u32) -> u64 {
        let mut visited = 1;
        let mut leaf = self.leaves.next(self.leaf(first));
        while leaf != NONE && self.leaves.keys(leaf).first().is_some_and(|key| *key <= last) {
            visited += 1;
            leaf = self.leaves.next(leaf);
        }
        visited
    }

    /// Whether nodes have been restructured since [`Tree::take_restructured`], so that a remembered leaf may
    /// be invalid.
    #[inline]
    pub(super) fn is_restructured(&self) -> bool {
        self.restructured > 0
    }

    /// Whether a leaf has a key, if the key lies between its first and last keys and so in no other leaf;
    /// otherwise None.
    #[inline]
    pub(super) fn is_in_leaf(&self, leaf: u32, key: u32) -> Option<bool> {
        let keys = self.leaves.keys(leaf);
        let is_within = keys.first().is_some_and(|first| *first <= key) && keys.last() >= Some(&key);
        is_within.then(|| keys.binary_search(&key).is_ok())
    }

    /// Inserts or removes a key. Returns its leaf.
    pub(super) fn set(&mut self, key: u32, is_in: bool) -> u32 {
        let leaf = self.seek(key);
        match (self.leaves.keys(leaf).binary_search(&key), is_in) {
            (Err(at), true) => self.insert(leaf, at, key),
            (Ok(at), false) => self.remove_keys(leaf, at, 1),
            _ => {}
        }
        leaf
    }

    fn insert(&mut self, leaf: u32, at: usize, key: u32) {
        self.keys += 1;
        if !self.leaves.is_full(leaf) {
            return self.leaves.insert(leaf, at, key, NONE);
        }
        let right = self.leaves.add();
        let left_count = self.leaves.count(leaf) / 2;
        self.leaves.share(leaf, right, left_count);
        self.leaves.set_next(right, self.leaves.next(leaf));
        self.leaves.set_next(leaf, right);
        match at.checked_sub(left_count) {
            Some(at @ 1..) => self.leaves.insert(right, at, key, NONE),
            _ => self.leaves.insert(leaf, at, key, NONE),
        }
        self.restructured += 1;
        let low = self.leaves.keys(right)[0];
        self.insert_child(leaf, low, right);
    }

    /// Inserts a new right neighbour, with keys from `low` on, of a node on the path.
    fn insert_child(&mut self, mut left: u32, mut low: u32, mut right: u32) {
        while let Some((parent, way)) = self.path.pop() {
            let at = way + 1;
            if !self.inner.is_full(parent) {
                return self.inner.insert(parent, at, low, right);
            }
            let other = self.inner.add();
            let left_count = self.inner.count(parent) / 2;
            self.inner.share(parent, other, left_count);
            match at.checked_sub(left_count) {
                Some(at @ 1..) => self.inner.insert(other, at, low, right),
                _ => self.inner.insert(parent, at, low, right),
            }
            self.restructured += 1;
            (left, low, right) = (parent, self.inner.keys(other)[0], other);
        }
        let root = self.inner.add();
        self.inner.insert(root, 0, 0, left);
        self.inner.insert(root, 1, low, right);
        self.restructured += 1;
        (self.root, self.height) = (root, self.height + 1);
    }

    /// Removes all keys from `first` to before `end`. Returns the number of leaves visited.
    pub(super) fn remove_range(&mut self, mut first: u32, end: u32) -> u64 {
        let mut looks = 0;
        while first < end {
            looks += 1;
            let leaf = self.seek(first);
            let keys = self.leaves.keys(leaf);
            let (from, to) =
                (keys.partition_point(|key| *key < first), keys.partition_point(|key| *key < end));
            if from < to {
                self.remove_keys(leaf, from, to - from);
                continue;
            }
            match self.leaves.next(leaf) {
                next if from == self.leaves.count(leaf) && next != NONE => {
                    first = self.leaves.keys(next)[0];
                }
                _ => return looks,
            }
        }
        looks
    }

    /// Removes keys from the leaf sought last.
    fn remove_keys(&mut self, leaf: u32, at: usize, count: usize) {
        self.leaves.remove(leaf, at, count);
        self.keys -= count as u64;
        let mut is_short = self.leaves.count(leaf) < self.fill[0].least;
        let mut is_leaf = true;
        while is_short && let Some((parent, way)) = self.path.pop() {
            let right_way = way.max(1);
            let (left, right) =
                (self.inner.child(parent, right_way - 1), self.inner.child(parent, right_way));
            let Self { leaves, inner, .. } = self;
            let (nodes, least) =
                if is_leaf { (leaves, self.fill[0].least) } else { (inner, self.fill[1].least) };
            let both = nodes.count(left) + nodes.count(right);
            self.restructured += 1;
            if both >= 2 * least {
                nodes.share(left, right, both / 2);
                let low = nodes.keys(right)[0];
                return self.inner.set_key(parent, right_way, low);
            }
            nodes.share(left, right, both);
            if is_leaf {
                nodes.set_next(left, nodes.next(right));
            }
            nodes.free(right);
            self.inner.remove(parent, right_way, 1);
            is_leaf = false;
            is_short = self.inner.count(parent) < self.fill[1].least;
        }
        if self.height > 1 && self.inner.count(self.root) == 1 {
            let root = self.root;
            self.root = self.inner.child(root, 0);
            self.inner.free(root);
            self.height -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::random::Rng;
    use std::collections::BTreeSet;

    fn tree(least: [usize; 2], most: [usize; 2]) -> Tree {
        let fill = |kind: usize| Fill { least: least[kind], most: most[kind] };
        Tree::new(fill(0), fill(1))
    }

    // A key lost in a split or merge is an extent that no look-up finds; a miscounted node is memory claimed
    // wrongly.
    #[test]
    fn the_tree_holds_what_a_set_holds() {
        let shapes =
            [([2, 2], [4, 4]), ([1, 2], [4, 5]), ([3, 2], [7, 4]), ([2, 3], [5, 9]), ([10, 10], [21, 32])];
        for (seed, (least, most)) in (0..).zip(shapes) {
            let mut tree = tree(least, most);
            let mut model = BTreeSet::new();
            let mut stream = Rng::new(seed).stream("keys");
            let mut highest = 0;
            for step in 0..30_000u32 {
                // The set grows, shrinks, and grows again.
                let grows = if step % 10_000 < 6000 { 0.7 } else { 0.3 };
                let key = stream.below(3000) as u32;
                match stream.below(200) {
                    0 => {
                        let end = key + stream.below(400) as u32;
                        tree.remove_range(key, end);
                        model.retain(|other| !(key..end).contains(other));
                    }
                    1..20 => {
                        // A run of neighbours, rising or falling.
                        for near in 0..stream.below(12) as u32 {
                            let key = if step % 2 == 0 { key + near } else { key.saturating_sub(near) };
                            tree.set(key, true);
                            model.insert(key);
                        }
                    }
                    _ => {
                        let is_in = stream.chance(grows);
                        tree.set(key, is_in);
                        if is_in {
                            model.insert(key)
                        } else {
                            model.remove(&key)
                        };
                    }
                }
                highest = highest.max(tree.height());
                if step % 50 == 0 {
                    tree.check();
                    assert!(tree.all().iter().eq(model.iter()), "seed {seed}, step {step}");
                }
            }
            assert!(highest > 2, "it was no tree: {highest}");
            tree.remove_range(0, u32::MAX);
            tree.check();
            assert_eq!((tree.len(), tree.nodes(), tree.height()), (0, 1, 1), "nothing is left but the root");
        }
    }

    // A read across several leaves must pay for each of them, and one of a single unit only for the path
    // down.
    #[test]
    fn leaves_are_visited_as_far_as_the_search_goes() {
        let mut tree = tree([2, 2], [4, 4]);
        (0..8).for_each(|key| _ = tree.set(key * 10, true));
        // Rising keys leave leaves half full: 0 10 | 20 30 | 40 50 60 70.
        assert_eq!((tree.height(), tree.nodes()), (2, 4));
        let visited = |first, last| tree.leaves_visited(first, last);
        assert_eq!(
            [visited(5, 5), visited(5, 19), visited(5, 20), visited(0, 70), visited(45, 900)],
            [1, 1, 2, 3, 1]
        );
    }
}
