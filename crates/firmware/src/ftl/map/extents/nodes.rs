//! Memory of the tree's nodes: a list of keys each, and for inner nodes as many children.

/// Nodes allocated at once, so that a growing tree copies nothing.
const CHUNK: u32 = 256;

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// The nodes of one kind, leaves or inner ones. Freed numbers are reused.
pub(super) struct Nodes {
    /// Maximum keys of a node.
    most: usize,
    /// Words of a node: its keys, followed by the children of an inner node.
    stride: usize,
    chunks: Vec<Box<[u32]>>,
    counts: Vec<u16>,
    /// The next leaf in key order; unused for inner nodes.
    next: Vec<u32>,
    free: Vec<u32>,
}

impl Nodes {
    /// Nodes of at most `most` keys, up to 65,535.
    pub(super) fn new(most: usize, has_children: bool) -> Self {
        let stride = if has_children { 2 * most } else { most };
        Nodes { most, stride, chunks: Vec::new(), counts: Vec::new(), next: Vec::new(), free: Vec::new() }
    }

    /// Nodes in use.
    pub(super) fn len(&self) -> u64 {
        (self.counts.len() - self.free.len()) as u64
    }

    /// Allocates a node without keys.
    pub(super) fn add(&mut self) -> u32 {
        if let Some(node) = self.free.pop() {
            (self.counts[node as usize], self.next[node as usize]) = (0, NONE);
            return node;
        }
        let node = self.counts.len() as u32;
        if node.is_multiple_of(CHUNK) {
            self.chunks.push(vec![0; self.stride * CHUNK as usize].into());
        }
        self.counts.push(0);
        self.next.push(NONE);
        node
    }

    pub(super) fn free(&mut self, node: u32) {
        self.free.push(node);
    }

    #[inline]
    pub(super) fn count(&self, node: u32) -> usize {
        self.counts[node as usize].into()
    }

    pub(super) fn is_full(&self, node: u32) -> bool {
        self.count(node) == self.most
    }

    #[inline]
    fn words(&self, node: u32) -> &[u32] {
        let first = (node % CHUNK) as usize * self.stride;
        &self.chunks[(node / CHUNK) as usize][first..first + self.stride]
    }

    fn words_mut(&mut self, node: u32) -> &mut [u32] {
        let first = (node % CHUNK) as usize * self.stride;
        &mut self.chunks[(node / CHUNK) as usize][first..first + self.stride]
    }

    /// The keys of a node, ascending.
    #[inline]
    pub(super) fn keys(&self, node: u32) -> &[u32] {
        &self.words(node)[..self.count(node)]
    }

    pub(super) fn set_key(&mut self, node: u32, at: usize, key: u32) {
        self.words_mut(node)[at] = key;
    }

    /// Child `at` of an inner node.
    #[inline]
    pub(super) fn child(&self, node: u32, at: usize) -> u32 {
        self.words(node)[self.most + at]
    }

    /// The next leaf.
    pub(super) fn next(&self, node: u32) -> u32 {
        self.next[node as usize]
    }

    pub(super) fn set_next(&mut self, node: u32, next: u32) {
        self.next[node as usize] = next;
    }

    /// Inserts a key, and for an inner node its child, at index `at` of a node that is not full.
    pub(super) fn insert(&mut self, node: u32, at: usize, key: u32, child: u32) {
        let (count, most) = (self.count(node), self.most);
        let words = self.words_mut(node);
        words.copy_within(at..count, at + 1);
        words[at] = key;
        if let Some(children) = words.get_mut(most..).filter(|children| !children.is_empty()) {
            children.copy_within(at..count, at + 1);
            children[at] = child;
        }
        self.counts[node as usize] += 1;
    }

    /// Removes keys, and for an inner node their children.
    pub(super) fn remove(&mut self, node: u32, at: usize, keys: usize) {
        let (count, most) = (self.count(node), self.most);
        let words = self.words_mut(node);
        words.copy_within(at + keys..count, at);
        if let Some(children) = words.get_mut(most..).filter(|children| !children.is_empty()) {
            children.copy_within(at + keys..count, at);
        }
        self.counts[node as usize] -= keys as u16;
    }

    /// Redistributes the keys of two neighbours: `left_count` to the left one, the rest to the right one.
    pub(super) fn share(&mut self, left: u32, right: u32, left_count: usize) {
        let (had, had_right) = (self.count(left), self.count(right));
        let parts = if self.stride > self.most { 2 } else { 1 };
        for part in [0, self.most].into_iter().take(parts) {
            // Through a copy, since both lie in one table.
            let mut all = self.words(left)[part..part + had].to_vec();
            all.extend_from_slice(&self.words(right)[part..part + had_right]);
            let (for_left, for_right) = all.split_at(left_count);
            self.words_mut(left)[part..part + for_left.len()].copy_from_slice(for_left);
            self.words_mut(right)[part..part + for_right.len()].copy_from_slice(for_right);
        }
        self.counts[left as usize] = left_count as u16;
        self.counts[right as usize] = (had + had_right - left_count) as u16;
    }
}
