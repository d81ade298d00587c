//! The timer wheel: timers in order of (time, sequence).
//!
//! One turn of 4096 slots of 65.5 ns covers 268 us. Later timers wait in a heap and join the slot being
//! drained when it is their turn. The order is exactly that of a heap over (time, sequence); `tests/wheel.rs`
//! compares the two.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

const SLOT_BITS: u32 = 16;
const SLOTS: u64 = 4096;
const MASK: u64 = SLOTS - 1;
const WORDS: usize = (SLOTS / 64) as usize;

/// An armed timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timer<T> {
    /// When it fires, in picoseconds.
    pub at: u64,
    /// Order of arming; breaks ties.
    pub sequence: u64,
    /// What fires: the executor's task.
    pub target: T,
}

impl<T> Timer<T> {
    fn key(&self) -> (u64, u64) {
        (self.at, self.sequence)
    }
}

const NONE: u32 = u32::MAX;
/// No slot. Larger than any timer's slot number, since a time has 64 - [`SLOT_BITS`] slot bits.
const NO_SLOT: u64 = u64::MAX;

struct Node<T> {
    timer: Timer<T>,
    next: u32,
}

/// Timers in order of (time, sequence).
pub struct Wheel<T> {
    /// The first node of each slot's list, or NONE.
    slots: Box<[u32; SLOTS as usize]>,
    /// Timers in slots, and a free list. All slots share one slab, so it grows only with the number of armed
    /// timers and stays in the cache.
    nodes: Vec<Node<T>>,
    free: u32,
    /// One bit for each non-empty slot.
    occupied: [u64; WORDS],
    /// One bit for each non-zero word of `occupied`.
    words: u64,
    /// The slot number (time >> SLOT_BITS) that `current` holds. Every earlier timer has fired.
    base: u64,
    /// Timers of slot `base`, latest first, so that the next one is popped from the end.
    current: Vec<Timer<T>>,
    later: BinaryHeap<Reverse<Timer<T>>>,
    /// Slot number of the first timer in `later`, or [`NO_SLOT`].
    later_slot: u64,
    in_slots: usize,
    sequence: u64,
}

impl<T: Copy + Ord> Default for Wheel<T> {
    fn default() -> Self {
        Wheel {
            slots: Box::new([NONE; SLOTS as usize]),
            nodes: Vec::new(),
            free: NONE,
            occupied: [0; WORDS],
            words: 0,
            base: 0,
            current: Vec::new(),
            later: BinaryHeap::new(),
            later_slot: NO_SLOT,
            in_slots: 0,
            sequence: 0,
        }
    }
}

impl<T: Copy + Ord> Wheel<T> {
    /// Arms a timer for `target` at `at` picoseconds. One in the past fires next.
    #[inline]
    pub fn insert(&mut self, at: u64, target: T) {
        let timer = Timer { at, sequence: self.sequence, target };
        self.sequence += 1;
        let slot = at >> SLOT_BITS;
        // One comparison for both exceptions: wrapping turns a slot at or before `base` into a huge distance.
        if slot.wrapping_sub(self.base + 1) >= SLOTS - 1 {
            return self.insert_aside(slot, timer);
        }
        let (index, bit) = ((slot & MASK) as usize, slot % 64);
        let node = Node { timer, next: self.slots[index] };
        let place = self.free;
        self.slots[index] = match self.nodes.get_mut(place as usize) {
            Some(free) => {
                self.free = free.next;
                *free = node;
                place
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        self.occupied[index / 64 % WORDS] |= 1 << bit;
        self.words |= 1 << (index / 64);
        self.in_slots += 1;
    }

    /// Arms a timer outside the slots: in `current` if its slot is being drained, in the heap if it lies
    /// beyond this turn.
    #[cold]
    fn insert_aside(&mut self, slot: u64, timer: Timer<T>) {
        if slot <= self.base {
            let position = self.current.partition_point(|t| t.key() > timer.key());
            self.current.insert(position, timer);
        } else {
            self.later_slot = self.later_slot.min(slot);
            self.later.push(Reverse(timer));
        }
    }

    /// When the next timer fires, in picoseconds.
    pub fn next_at(&self) -> Option<u64> {
        if let Some(timer) = self.current.last() {
            return Some(timer.at);
        }
        // Peek without loading: a timer armed later for an earlier slot must still go to its own slot.
        let in_wheel = (self.words != 0)
            .then(|| self.slots[(self.next_occupied() & MASK) as usize])
            .and_then(|first| self.list(first).map(|node| node.timer.at).min());
        let in_heap = self.later.peek().map(|t| t.0.at);
        in_wheel.into_iter().chain(in_heap).min()
    }

    /// Takes the next timer.
    #[inline]
    pub fn pop(&mut self) -> Option<Timer<T>> {
        if self.current.is_empty() {
            // `current` is empty, so the next timer is in the first occupied slot or at the top of the heap.
            if self.words != 0 {
                let slot = self.next_occupied();
                let index = (slot & MASK) as usize;
                let place = self.slots[index];
                if slot < self.later_slot
                    && let Some(node) = self.nodes.get_mut(place as usize)
                    && node.next == NONE
                {
                    // Usual case: the only timer of its slot needs no sort and no move to `current`.
                    self.base = slot;
                    self.slots[index] = NONE;
                    node.next = std::mem::replace(&mut self.free, place);
                    let timer = node.timer;
                    self.in_slots -= 1;
                    self.vacate(index);
                    return Some(timer);
                }
            }
            self.load();
        }
        self.current.pop()
    }

    /// Loads into `current` the next slot that has timers.
    #[cold]
    fn load(&mut self) {
        let in_wheel = if self.words != 0 { self.next_occupied() } else { NO_SLOT };
        let slot = in_wheel.min(self.later_slot);
        if slot == NO_SLOT {
            return;
        }
        debug_assert!(slot > self.base, "slots are drained in order of time");
        self.base = slot;
        if in_wheel == slot {
            self.empty(slot);
        }
        if self.later_slot == slot {
            self.take_later(slot);
        }
        self.current.sort_unstable_by_key(|t| Reverse(t.key()));
    }

    /// Moves the timers of `slot` from the heap to `current`.
    fn take_later(&mut self, slot: u64) {
        while let Some(Reverse(timer)) = self.later.peek() {
            let next = timer.at >> SLOT_BITS;
            if next > slot {
                self.later_slot = next;
                return;
            }
            self.current.push(*timer);
            self.later.pop();
        }
        self.later_slot = NO_SLOT;
    }

    /// Timers that have not fired.
    pub fn len(&self) -> usize {
        self.current.len() + self.in_slots + self.later.len()
    }

    /// Whether no timer is armed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops every timer. Time and sequence numbers continue.
    pub fn clear(&mut self) {
        self.current.clear();
        *self.slots = [NONE; SLOTS as usize];
        self.nodes.clear();
        self.free = NONE;
        self.occupied = [0; WORDS];
        self.words = 0;
        self.later.clear();
        self.later_slot = NO_SLOT;
        self.in_slots = 0;
    }

    /// Clears the bits of the slot at `index`, which has no timer left.
    #[inline]
    fn vacate(&mut self, index: usize) {
        debug_assert_ne!(
            self.occupied[index / 64 % WORDS] & (1 << (index % 64)),
            0,
            "a slot is vacated once"
        );
        let word = &mut self.occupied[index / 64 % WORDS];
        *word &= !(1 << (index % 64));
        if *word == 0 {
            self.words &= !(1 << (index / 64));
        }
    }

    /// Moves all timers of an occupied slot to `current`.
    fn empty(&mut self, slot: u64) {
        let index = (slot & MASK) as usize;
        self.vacate(index);
        let mut place = std::mem::replace(&mut self.slots[index], NONE);
        while let Some(node) = self.nodes.get_mut(place as usize) {
            self.current.push(node.timer);
            let next = std::mem::replace(&mut node.next, self.free);
            self.free = std::mem::replace(&mut place, next);
            self.in_slots -= 1;
        }
    }

    fn list(&self, first: u32) -> impl Iterator<Item = &Node<T>> {
        let node = |place: u32| (place != NONE).then(|| &self.nodes[place as usize]);
        std::iter::successors(node(first), move |last| node(last.next))
    }

    /// Slot number of the first occupied slot after `base`. The caller ensures that one exists.
    #[inline]
    fn next_occupied(&self) -> u64 {
        debug_assert_ne!(self.words, 0, "an occupied slot exists");
        let start = (self.base + 1) & MASK;
        let (word, bit) = (start / 64, start % 64);
        let here = self.occupied[word as usize % WORDS] >> bit;
        if here != 0 {
            return self.base + 1 + u64::from(here.trailing_zeros());
        }
        // The words after this one, wrapping round to the low bits of this one.
        let turned = self.words.rotate_right(word as u32 + 1);
        let word = (word + 1 + u64::from(turned.trailing_zeros())) % WORDS as u64;
        let bits = self.occupied[word as usize];
        let index = word * 64 + u64::from(bits.trailing_zeros());
        self.base + 1 + (index.wrapping_sub(start) & MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A slab node that is not freed costs memory for every timer that ever fired.
    #[test]
    fn memory_follows_the_timers_that_are_armed() {
        let mut wheel = Wheel::default();
        (0..10).for_each(|i| wheel.insert(i << SLOT_BITS, 0));
        for i in 0..100_000u64 {
            let at = wheel.pop().expect("ten are armed").at;
            wheel.insert(at + ((i % 5000) << SLOT_BITS), 0);
        }
        assert!(wheel.nodes.len() <= 10, "{} nodes", wheel.nodes.len());
        assert_eq!(wheel.len(), 10);
    }
}
