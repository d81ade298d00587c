//! The wheel against a plain heap over (time, sequence).
//!
//! A timer that fires out of order would reorder events, and two runs that differ only in the shape of the wheel
//! would differ in their results. Verified: order, ties, `next_at`, `len`, `clear`, with timers in the slot being
//! drained, before it, across slots, on both sides of the horizon and far beyond it. Not verified: speed.

use byteway_clock::wheel::Wheel;
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const SLOT: u64 = 1 << 16;
const HORIZON: u64 = 4096 * SLOT;

#[derive(Clone, Debug)]
enum Step {
    /// Arms a timer this long after the last one that fired.
    After(u64),
    /// Arms one this long before it.
    Before(u64),
    /// Arms one at this instant, whenever that is.
    At(u64),
    /// Arms one at the same instant as the next one that fires.
    WithNext,
    Pop,
    NextAt,
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4u64).prop_map(Step::After),
        8 => (0..2 * SLOT).prop_map(Step::After),
        8 => (0..HORIZON).prop_map(Step::After),
        // The multiples of a slot and of the horizon, and their neighbours.
        6 => (0..4u64, 0..3u64).prop_map(|(slots, edge)| Step::After((slots * SLOT + edge).saturating_sub(1))),
        6 => (4090..4100u64, 0..3u64).prop_map(|(slots, edge)| Step::After(slots * SLOT + edge - 1)),
        6 => (HORIZON..100 * HORIZON).prop_map(Step::After),
        1 => (0..1u64 << 50).prop_map(Step::After),
        3 => (0..3 * SLOT).prop_map(Step::Before),
        1 => (0..2 * HORIZON).prop_map(Step::Before),
        1 => (0..SLOT).prop_map(Step::At),
        1 => (0..3u64).prop_map(|back| Step::At(u64::MAX - back)),
        4 => Just(Step::WithNext),
        32 => Just(Step::Pop),
        8 => Just(Step::NextAt),
    ]
}

#[derive(Default)]
struct Pair {
    wheel: Wheel<u32>,
    heap: BinaryHeap<Reverse<(u64, u64)>>,
    armed: u64,
    last: u64,
}

impl Pair {
    fn insert(&mut self, at: u64) {
        self.wheel.insert(at, self.armed as u32);
        self.heap.push(Reverse((at, self.armed)));
        self.armed += 1;
    }

    fn pop(&mut self) -> bool {
        let fired = self.wheel.pop();
        assert_eq!(fired.map(|t| (t.at, t.sequence)), self.heap.pop().map(|t| t.0));
        if let Some(timer) = fired {
            assert_eq!(u64::from(timer.target), timer.sequence, "the timer lost its target");
            self.last = timer.at;
        }
        fired.is_some()
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::After(delay) => self.insert(self.last.saturating_add(delay)),
            Step::Before(delay) => self.insert(self.last.saturating_sub(delay)),
            Step::At(at) => self.insert(at),
            Step::WithNext => self.insert(self.heap.peek().map_or(self.last, |t| t.0.0)),
            Step::Pop => drop(self.pop()),
            Step::NextAt => assert_eq!(self.wheel.next_at(), self.heap.peek().map(|t| t.0.0)),
            Step::Clear => {
                self.wheel.clear();
                self.heap.clear();
            }
        }
        assert_eq!(self.wheel.len(), self.heap.len());
        assert_eq!(self.wheel.is_empty(), self.heap.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    // Without it a timer that is armed while others are drained could fire late, early or never.
    #[test]
    fn fires_like_a_heap(steps in prop::collection::vec(step(), 1..400)) {
        let mut pair = Pair::default();
        steps.into_iter().for_each(|step| pair.take(step));
        while pair.pop() {}
        prop_assert!(pair.wheel.is_empty());
    }

    // A wheel that was cleared must not remember a bit of its slots.
    #[test]
    fn starts_again_after_clear(
        before in prop::collection::vec(step(), 1..100),
        after in prop::collection::vec(step(), 1..100),
    ) {
        let mut pair = Pair::default();
        before.into_iter().for_each(|step| pair.take(step));
        pair.take(Step::Clear);
        prop_assert!(pair.wheel.pop().is_none());
        after.into_iter().for_each(|step| pair.take(step));
        while pair.pop() {}
    }
}

// The load of a simulation: each timer that fires arms another. Slots are passed and reused thousands of times,
// which the short random runs do not reach.
#[test]
fn fires_like_a_heap_through_many_turns() {
    let mut pair = Pair::default();
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    (0..200).for_each(|i| pair.insert(i * 1000));
    for _ in 0..200_000 {
        assert!(pair.pop());
        let delay = match random() % 8 {
            0 => 0,
            1 | 2 => random() % SLOT,
            3..=5 => random() % (100 * SLOT),
            6 => random() % HORIZON,
            _ => random() % (4 * HORIZON),
        };
        pair.insert(pair.last + delay);
    }
    assert!(pair.last > 50 * HORIZON, "only {} turns", pair.last / HORIZON);
    while pair.pop() {}
}

// The real runner asks when the next timer fires before every pause, and what is armed during the pause may be due
// before it.
#[test]
fn asking_for_the_next_changes_nothing() {
    let mut pair = Pair::default();
    pair.insert(1000 * HORIZON);
    pair.take(Step::NextAt);
    for i in (0..1000u64).rev() {
        pair.insert(i * 3 * SLOT);
        pair.take(Step::NextAt);
    }
    while pair.pop() {}
}
