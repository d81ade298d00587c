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
    /// A bit for each slot that has a timer, and a bit for each word of those that isn't zero.
    occupied: [u64; WORDS],
    words: u64,
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
            words: 0,
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
            self.words |= 1 << (index / 64);
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
        if let Some(timer) = self.current.pop() {
            return Some(timer);
        }
        let in_wheel = if self.in_slots > 0 { self.next_occupied() } else { u64::MAX };
        let in_heap = self.later.peek().map_or(u64::MAX, |timer| timer.0.at >> SLOT_BITS);
        let slot = in_wheel.min(in_heap);
        if slot == u64::MAX {
            return None;
        }
        self.base = slot;
        let mut only = None;
        if in_wheel == slot {
            only = self.empty(slot);
        }
        if in_heap == slot {
            self.current.extend(only.take());
            while let Some(Reverse(timer)) = self.later.peek() {
                if timer.at >> SLOT_BITS > slot {
                    break;
                }
                self.current.push(*timer);
                self.later.pop();
            }
        }
        if only.is_some() {
            return only; // the usual case: alone in its slot
        }
        if self.current.len() > 1 {
            self.current.sort_unstable_by_key(|t| Reverse(t.key()));
        }
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
        self.words = 0;
        self.later.clear();
        self.in_slots = 0;
    }

    /// Empties an occupied slot: into `current`, unless it holds only one timer.
    fn empty(&mut self, slot: u64) -> Option<Timer<T>> {
        let index = (slot & MASK) as usize;
        let word = &mut self.occupied[index / 64];
        *word &= !(1 << (index % 64));
        if *word == 0 {
            self.words &= !(1 << (index / 64));
        }
        let mut place = std::mem::replace(&mut self.slots[index], NONE);
        let first = self.release(&mut place);
        self.in_slots -= 1;
        if place == NONE {
            return Some(first);
        }
        self.current.push(first);
        while place != NONE {
            let timer = self.release(&mut place);
            self.current.push(timer);
            self.in_slots -= 1;
        }
        None
    }

    /// Takes a timer out of its place, and goes on to the next of the slot's list.
    fn release(&mut self, place: &mut u32) -> Timer<T> {
        let node = &mut self.nodes[*place as usize];
        let timer = node.timer;
        let next = std::mem::replace(&mut node.next, self.free);
        self.free = std::mem::replace(place, next);
        timer
    }

    fn list(&self, first: u32) -> impl Iterator<Item = &Node<T>> {
        let node = |place: u32| (place != NONE).then(|| &self.nodes[place as usize]);
        std::iter::successors(node(first), move |last| node(last.next))
    }

    /// The slot number of the first occupied slot after `base`; one exists.
    fn next_occupied(&self) -> u64 {
        let start = ((self.base + 1) & MASK) as usize;
        let (word, bit) = (start / 64, start % 64);
        let here = self.occupied[word] & (!0u64 << bit);
        let (word, bits) = if here != 0 {
            (word, here)
        } else {
            // The words behind this one, round to this one's first bits.
            let turned = self.words.rotate_right(word as u32 + 1);
            let word = (word + 1 + turned.trailing_zeros() as usize) % WORDS;
            (word, self.occupied[word])
        };
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
