//! Arbitration: which queue is fetched from next (NVMe Base 2.1, 3.4.4), by round robin or weighted round robin with
//! urgent.

use crate::controller::queue::ring::SubmissionQueue;
use byteway_wire::nvme::QueuePriority;
use std::cell::RefCell;
use std::rc::Rc;

/// The arbitration mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Every queue in turn.
    RoundRobin,
    /// Urgent first; then high, medium and low by weight. Round robin within a class.
    WeightedRoundRobin,
}

/// Weights of the classes per round, and the burst of a queue, all in commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// High priority, at least 1.
    pub high: u32,
    /// Medium priority, at least 1.
    pub medium: u32,
    /// Low priority, at least 1.
    pub low: u32,
    /// Arbitration burst: commands of one queue per turn.
    pub burst: u32,
}

/// The queues of one class, served round robin.
#[derive(Default)]
struct Ring {
    queues: Vec<Rc<SubmissionQueue>>,
    turn: usize,
    burst_used: u32,
    /// Commands of this turn: at most those that waited when it began. Without this limit a queue with an unlimited
    /// burst that the host keeps full would hold the turn indefinitely.
    burst_max: u32,
}

impl Ring {
    /// The queue whose turn it is, and how many commands it may start; skips queues without any.
    fn pick(&mut self, burst: u32) -> Option<(Rc<SubmissionQueue>, u32)> {
        if self.queues.iter().all(|queue| queue.fetchable() == 0) {
            // Every queue passes its turn on, and the first one passes it twice.
            self.turn = match self.queues.len() {
                0 => 0,
                queues if self.turn >= queues => 1,
                _ => self.turn + 1,
            };
            self.burst_used = 0;
            return None;
        }
        loop {
            let mut has_paid = false;
            for _ in 0..=self.queues.len() {
                if self.turn >= self.queues.len() {
                    self.turn = 0;
                }
                let queue = self.queues.get(self.turn)?;
                let ready = ready(queue);
                if self.burst_used == 0 {
                    self.burst_max = burst.min(queue.waiting());
                    if ready > 0 && queue.owed.get() > 0 {
                        self.burst_used = pay(queue, self.burst_max);
                        has_paid = true;
                    }
                }
                let left = self.burst_max.saturating_sub(self.burst_used);
                if left > 0 && ready > 0 {
                    return Some((queue.clone(), left.min(ready)));
                }
                self.turn += 1;
                self.burst_used = 0;
            }
            if !has_paid {
                return None;
            }
        }
    }

    fn used(&mut self, commands: u32) {
        debug_assert!(self.burst_used + commands <= self.burst_max, "a queue exceeds its turn");
        self.burst_used += commands;
    }
}

/// Entries of `queue` that can be fetched now: each needs a free completion slot, and so does each command that has
/// lent its own. Entries that complete a train need none.
fn ready(queue: &SubmissionQueue) -> u32 {
    match queue.missing.get() {
        0 => queue.fetchable().min(queue.completion_queue.free().saturating_sub(queue.lent.get())),
        _ => queue.fetchable(),
    }
}

/// Deducts from a turn of at most `most` entries the entries that a train took in excess of an earlier turn.
/// Returns the number deducted.
fn pay(queue: &SubmissionQueue, most: u32) -> u32 {
    let owed = queue.owed.get();
    let paid = owed.min(most);
    queue.owed.set(owed - paid);
    paid
}

const URGENT: usize = 0;
const CLASSES: usize = 4;

struct State {
    mechanism: Mechanism,
    weights: Weights,
    admin: Ring,
    classes: [Ring; CLASSES],
    /// The queues of all classes.
    all: Vec<Rc<SubmissionQueue>>,
    /// The weighted class whose turn it is (1 to 3), and its remaining credit.
    turn: usize,
    credit: u32,
}

impl State {
    fn weight(&self, class: usize) -> u32 {
        [0, self.weights.high, self.weights.medium, self.weights.low][class]
    }
}

/// The arbiter of a controller.
pub struct Arbiter(RefCell<State>);

impl Arbiter {
    /// An arbiter without queues.
    pub fn new(weights: Weights) -> Self {
        let state = State {
            mechanism: Mechanism::RoundRobin,
            weights,
            admin: Ring::default(),
            classes: Default::default(),
            all: Vec::new(),
            turn: 1,
            credit: weights.high,
        };
        Arbiter(RefCell::new(state))
    }

    /// Removes all queues and sets the mechanism.
    pub fn reset(&self, mechanism: Mechanism, weights: Weights) {
        *self.0.borrow_mut() = Arbiter::new(weights).0.into_inner();
        self.0.borrow_mut().mechanism = mechanism;
    }

    /// Sets the weights, from the next round on.
    pub fn set_weights(&self, weights: Weights) {
        let mut state = self.0.borrow_mut();
        state.weights = weights;
        state.credit = state.weight(state.turn);
    }

    /// Adds a queue. Identifier 0 is the admin queue.
    pub fn add(&self, queue: Rc<SubmissionQueue>) {
        let mut state = self.0.borrow_mut();
        let weighted = state.mechanism == Mechanism::WeightedRoundRobin;
        let ring = match (queue.id, weighted) {
            (0, _) => &mut state.admin,
            (_, false) => &mut state.classes[URGENT],
            (_, true) => &mut state.classes[class_of(queue.class)],
        };
        ring.queues.push(queue.clone());
        state.all.push(queue);
    }

    /// Removes a queue.
    pub fn remove(&self, id: u16) {
        let mut state = self.0.borrow_mut();
        let state = &mut *state;
        state.all.retain(|queue| queue.id != id);
        for ring in std::iter::once(&mut state.admin).chain(&mut state.classes) {
            ring.queues.retain(|queue| queue.id != id);
        }
    }

    /// The next queue to fetch from, and how many commands: 1 to `most`. Admin commands have priority and are offered
    /// only with `admin`; I/O commands only with `io`.
    pub fn pick(&self, admin: bool, io: bool, most: u32) -> Option<(Rc<SubmissionQueue>, u32)> {
        let mut state = self.0.borrow_mut();
        let state = &mut *state;
        let burst = state.weights.burst;
        if admin && let Some((queue, _)) = state.admin.pick(burst) {
            state.admin.burst_used = 0;
            return Some((queue, 1));
        }
        if !io {
            return None;
        }
        if let Some((queue, count)) = state.classes[URGENT].pick(burst) {
            let count = count.min(most);
            state.classes[URGENT].used(count);
            return Some((queue, count));
        }
        if state.mechanism == Mechanism::RoundRobin {
            return None;
        }
        // At most one round: to the class whose turn it is, and back to it with fresh credit.
        for _ in 0..CLASSES {
            if state.credit > 0
                && let Some((queue, count)) = state.classes[state.turn].pick(burst)
            {
                let count = count.min(most).min(state.credit);
                state.classes[state.turn].used(count);
                state.credit -= count;
                return Some((queue, count));
            }
            state.turn = if state.turn == CLASSES - 1 { 1 } else { state.turn + 1 };
            state.credit = state.weight(state.turn);
        }
        None
    }

    /// Whether any queue has entries that could be fetched, regardless of free slots.
    pub fn has_waiting(&self) -> bool {
        self.0.borrow().all.iter().any(|queue| queue.fetchable() > 0)
    }
}

fn class_of(priority: QueuePriority) -> usize {
    match priority {
        QueuePriority::Urgent => URGENT,
        QueuePriority::High => 1,
        QueuePriority::Medium => 2,
        QueuePriority::Low => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::queue::CompletionQueue;
    use byteway_clock::Executor;

    fn queue(executor: &Executor, id: u16, class: QueuePriority) -> Rc<SubmissionQueue> {
        let cq = CompletionQueue::new(id, 0, 60_000, None);
        let sq = SubmissionQueue::new(executor.clock(), id, 0, 60_000, cq, class);
        sq.set_tail(50_000).unwrap();
        sq
    }

    fn shares(arbiter: &Arbiter, picks: u32) -> Vec<u32> {
        let mut shares = vec![0; 8];
        let mut started = 0;
        while started < picks {
            let (queue, count) = arbiter.pick(true, true, 64).expect("queues are full");
            for _ in 0..count {
                std::mem::forget(queue.take());
            }
            shares[queue.id as usize] += count;
            started += count;
        }
        shares
    }

    const WEIGHTS: Weights = Weights { high: 4, medium: 2, low: 1, burst: 1 };

    // If weights were ignored, a tenant that paid for more would get the same share.
    #[test]
    fn weights_give_shares_and_urgent_goes_first() {
        let executor = Executor::new();
        let arbiter = Arbiter::new(WEIGHTS);
        arbiter.reset(Mechanism::WeightedRoundRobin, WEIGHTS);
        for (id, class) in [(1, QueuePriority::Low), (2, QueuePriority::Medium), (3, QueuePriority::High)] {
            arbiter.add(queue(&executor, id, class));
        }
        let got = shares(&arbiter, 7_000);
        assert_eq!(got[1..4], [1000, 2000, 4000]);
        arbiter.add(queue(&executor, 4, QueuePriority::Urgent));
        assert_eq!(shares(&arbiter, 100)[4], 100);
    }

    // A turn without a limit on its burst must end, or a queue that is kept full starves all others.
    #[test]
    fn a_turn_without_limit_ends_with_what_waited_when_it_began() {
        let executor = Executor::new();
        let arbiter = Arbiter::new(Weights { burst: u32::MAX, ..WEIGHTS });
        let queues = [1, 2].map(|id| {
            let cq = CompletionQueue::new(id, 0, 60_000, None);
            SubmissionQueue::new(executor.clock(), id, 0, 1000, cq, QueuePriority::Medium)
        });
        let mut tail = 10;
        for queue in &queues {
            queue.set_tail(10).unwrap();
            arbiter.add(queue.clone());
        }
        let mut order = Vec::new();
        for _ in 0..30 {
            let (queue, count) = arbiter.pick(true, true, 1).expect("both have commands");
            (0..count).for_each(|_| std::mem::forget(queue.take()));
            order.push(queue.id);
            tail += 1;
            queues[0].set_tail(tail).unwrap(); // the host submits to the first all the time
        }
        assert_eq!(order[..20], [[1; 10], [2; 10]].concat());
        assert_eq!(order[20..], [1; 10]);
    }

    // What a train took beyond its queue's turn is deducted from later turns. A queue that is alone waits for none.
    #[test]
    fn a_queue_that_took_more_gives_up_turns() {
        let executor = Executor::new();
        let arbiter = Arbiter::new(Weights { burst: 4, ..WEIGHTS });
        let queues = [1, 2].map(|id| queue(&executor, id, QueuePriority::Medium));
        arbiter.add(queues[0].clone());
        queues[0].owed.set(1000);
        assert_eq!(arbiter.pick(true, true, 64).map(|(queue, count)| (queue.id, count)), Some((1, 4)));
        assert_eq!(queues[0].owed.get(), 0);
        arbiter.add(queues[1].clone());
        queues[0].owed.set(10);
        let order: Vec<_> = (0..6)
            .map(|_| {
                arbiter.pick(true, true, 64).map(|(queue, count)| {
                    (0..count).for_each(|_| std::mem::forget(queue.take()));
                    (queue.id, count)
                })
            })
            .collect();
        // It has had its turn, and skips two and a half.
        let expected = [(2, 4), (2, 4), (2, 4), (1, 2), (2, 4), (1, 4)].map(Some);
        assert_eq!(order, expected);
    }

    // With a burst, each queue gets its burst before the next; a queue that runs dry passes its turn on.
    #[test]
    fn round_robin_takes_bursts_in_turn() {
        let executor = Executor::new();
        let arbiter = Arbiter::new(Weights { burst: 4, ..WEIGHTS });
        (1..4).for_each(|id| arbiter.add(queue(&executor, id, QueuePriority::Medium)));
        let order: Vec<_> = (0..4)
            .map(|_| {
                arbiter.pick(true, true, 64).map(|(q, n)| {
                    (0..n).for_each(|_| std::mem::forget(q.take()));
                    (q.id, n)
                })
            })
            .collect();
        assert_eq!(order, [Some((1, 4)), Some((2, 4)), Some((3, 4)), Some((1, 4))]);
    }
}
