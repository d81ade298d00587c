//! The memory of a tree's nodes: each has a list of keys, and an inner one as many children.

/// Nodes whose memory is taken at once: a tree that grows copies nothing.
const CHUNK: u32 = 256;

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// The nodes of one kind: leaves, or inner ones. Numbers of freed ones are given out again.
pub(super) struct Nodes {
    /// Keys of a node at most.
    most: usize,
    /// Words of a node: its keys, and of an inner one its children behind them.
    stride: usize,
    chunks: Vec<Box<[u32]>>,
    counts: Vec<u16>,
    /// Of leaves: the one with the next larger keys.
    next: Vec<u32>,
    free: Vec<u32>,
}

impl Nodes {
    /// Of so many keys each at most, up to 65,535.
    pub(super) fn new(most: usize, has_children: bool) -> Self {
        let stride = if has_children { 2 * most } else { most };
        Nodes { most, stride, chunks: Vec::new(), counts: Vec::new(), next: Vec::new(), free: Vec::new() }
    }

    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        (self.counts.len() - self.free.len()) as u64
    }

    /// A node without keys.
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

    /// The keys of a node, rising.
    #[inline]
    pub(super) fn keys(&self, node: u32) -> &[u32] {
        &self.words(node)[..self.count(node)]
    }

    pub(super) fn set_key(&mut self, node: u32, at: usize, key: u32) {
        self.words_mut(node)[at] = key;
    }

    /// A child of an inner node.
    #[inline]
    pub(super) fn child(&self, node: u32, at: usize) -> u32 {
        self.words(node)[self.most + at]
    }

    /// The leaf behind a leaf.
    pub(super) fn next(&self, node: u32) -> u32 {
        self.next[node as usize]
    }

    pub(super) fn set_next(&mut self, node: u32, next: u32) {
        self.next[node as usize] = next;
    }

    /// Puts a key, and of an inner node its child, at a place of one that is not full.
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

    /// Takes keys out, and of an inner node their children.
    pub(super) fn remove(&mut self, node: u32, at: usize, keys: usize) {
        let (count, most) = (self.count(node), self.most);
        let words = self.words_mut(node);
        words.copy_within(at + keys..count, at);
        if let Some(children) = words.get_mut(most..).filter(|children| !children.is_empty()) {
            children.copy_within(at + keys..count, at);
        }
        self.counts[node as usize] -= keys as u16;
    }

    /// Moves keys between two neighbours until the left one has `left_count`; the other one has the rest.
    pub(super) fn share(&mut self, left: u32, right: u32, left_count: usize) {
        let (had, had_right) = (self.count(left), self.count(right));
        let parts = if self.stride > self.most { 2 } else { 1 };
        for part in [0, self.most].into_iter().take(parts) {
            // By way of a copy: both are in one table.
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
