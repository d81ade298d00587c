//! The timer wheel: what fires next, by (time, sequence).
//!
//! One turn of 4096 slots of 65.5 ns covers 268 us; later timers wait in a heap and join the slot that is being
//! drained when their turn comes. Order is exactly that of a heap over (time, sequence): `tests/wheel.rs` holds it
//! against one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

const SLOT_BITS: u32 = 16;
const SLOTS: u64 = 4096;
const MASK: u64 = SLOTS - 1;
const WORDS: usize = (SLOTS / 64) as usize;

/// A timer: when, which in the order of arming, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timer<T> {
    /// When it fires, in picoseconds.
    pub at: u64,
    /// Armed as the how-many-th; breaks ties.
    pub sequence: u64,
    /// For whom.
    pub target: T,
}

impl<T> Timer<T> {
    fn key(&self) -> (u64, u64) {
        (self.at, self.sequence)
    }
}

const NONE: u32 = u32::MAX;

struct Node<T> {
    timer: Timer<T>,
    next: u32,
}

/// Timers in order of (time, sequence).
pub struct Wheel<T> {
    /// The first node of each slot's list, or NONE.
    slots: Vec<u32>,
    /// The timers in slots, and free places. One slab for all slots: it grows with the timers that are armed at
    /// once, and stays in the cache.
    nodes: Vec<Node<T>>,
    free: u32,
    occupied: [u64; WORDS],
    /// The slot number (time >> SLOT_BITS) that `current` holds; everything earlier has fired.
    base: u64,
    /// Latest first, so that the next one is popped from the end.
    current: Vec<Timer<T>>,
    later: BinaryHeap<Reverse<Timer<T>>>,
    in_slots: usize,
    sequence: u64,
}

impl<T: Copy + Ord> Default for Wheel<T> {
    fn default() -> Self {
        Wheel {
            slots: vec![NONE; SLOTS as usize],
            nodes: Vec::new(),
            free: NONE,
            occupied: [0; WORDS],
            base: 0,
            current: Vec::new(),
            later: BinaryHeap::new(),
            in_slots: 0,
            sequence: 0,
        }
    }
}

impl<T: Copy + Ord> Wheel<T> {
    /// Arms a timer for `target` at `at` picoseconds.
    pub fn insert(&mut self, at: u64, target: T) {
        let timer = Timer { at, sequence: self.sequence, target };
        self.sequence += 1;
        let slot = at >> SLOT_BITS;
        if slot <= self.base {
            let position = self.current.partition_point(|t| t.key() > timer.key());
            self.current.insert(position, timer);
        } else if slot - self.base < SLOTS {
            let index = (slot & MASK) as usize;
            let node = Node { timer, next: self.slots[index] };
            self.slots[index] = match self.free {
                NONE => {
                    self.nodes.push(node);
                    (self.nodes.len() - 1) as u32
                }
                place => {
                    self.free = self.nodes[place as usize].next;
                    self.nodes[place as usize] = node;
                    place
                }
            };
            self.occupied[index / 64] |= 1 << (index % 64);
            self.in_slots += 1;
        } else {
            self.later.push(Reverse(timer));
        }
    }

    /// When the next timer fires.
    pub fn next_at(&self) -> Option<u64> {
        if let Some(timer) = self.current.last() {
            return Some(timer.at);
        }
        // Only looked at, not loaded: what is armed before it from now on still belongs in its own slot.
        let in_wheel = (self.in_slots > 0)
            .then(|| self.slots[(self.next_occupied() & MASK) as usize])
            .and_then(|first| self.list(first).map(|node| node.timer.at).min());
        let in_heap = self.later.peek().map(|t| t.0.at);
        in_wheel.into_iter().chain(in_heap).min()
    }

    /// Takes the next timer.
    pub fn pop(&mut self) -> Option<Timer<T>> {
        self.load();
        self.current.pop()
    }

    /// Timers that have not fired.
    pub fn len(&self) -> usize {
        self.current.len() + self.in_slots + self.later.len()
    }

    /// Whether no timer is armed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets every timer.
    pub fn clear(&mut self) {
        self.current.clear();
        self.slots.fill(NONE);
        self.nodes.clear();
        self.free = NONE;
        self.occupied = [0; WORDS];
        self.later.clear();
        self.in_slots = 0;
    }

    /// Makes `current` hold the earliest slot that has a timer.
    fn load(&mut self) {
        if !self.current.is_empty() {
            return;
        }
        let in_wheel = if self.in_slots > 0 { Some(self.next_occupied()) } else { None };
        let in_heap = self.later.peek().map(|t| t.0.at >> SLOT_BITS);
        let slot = match (in_wheel, in_heap) {
            (Some(a), Some(b)) => a.min(b),
            (Some(a), None) => a,
            (None, Some(b)) => b,
            (None, None) => return,
        };
        self.base = slot;
        if in_wheel == Some(slot) {
            let index = (slot & MASK) as usize;
            let mut place = std::mem::replace(&mut self.slots[index], NONE);
            while place != NONE {
                let node = &mut self.nodes[place as usize];
                self.current.push(node.timer);
                let next = std::mem::replace(&mut node.next, self.free);
                self.free = place;
                place = next;
            }
            self.occupied[index / 64] &= !(1 << (index % 64));
            self.in_slots -= self.current.len();
        }
        while let Some(Reverse(timer)) = self.later.peek() {
            if timer.at >> SLOT_BITS > slot {
                break;
            }
            self.current.push(*timer);
            self.later.pop();
        }
        if self.current.len() > 1 {
            self.current.sort_unstable_by_key(|t| Reverse(t.key()));
        }
    }

    fn list(&self, first: u32) -> impl Iterator<Item = &Node<T>> {
        let node = |place: u32| (place != NONE).then(|| &self.nodes[place as usize]);
        std::iter::successors(node(first), move |last| node(last.next))
    }

    /// The slot number of the first occupied slot after `base`; one exists.
    fn next_occupied(&self) -> u64 {
        let start = ((self.base + 1) & MASK) as usize;
        let (mut word, bit) = (start / 64, start % 64);
        let mut bits = self.occupied[word] & (!0u64 << bit);
        while bits == 0 {
            word = (word + 1) % WORDS;
            bits = self.occupied[word];
        }
        let index = (word * 64) as u64 + u64::from(bits.trailing_zeros());
        self.base + 1 + (index.wrapping_sub(self.base + 1) & MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A place in the slab that isn't given back costs memory for every timer that ever fired.
    #[test]
    fn memory_follows_the_timers_that_are_armed() {
        let mut wheel = Wheel::default();
        (0..10).for_each(|i| wheel.insert(i << SLOT_BITS, 0));
        for i in 0..100_000u64 {
            let at = wheel.pop().expect("ten are armed").at;
            wheel.insert(at + ((i % 5000) << SLOT_BITS), 0);
        }
        assert!(wheel.nodes.len() <= 10, "{} places", wheel.nodes.len());
        assert_eq!(wheel.len(), 10);
    }
}
