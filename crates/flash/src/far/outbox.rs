//! Operations that wait at the near end, and which of them may be sent.

use crate::geometry::{BlockId, Geometry, Ppa};
use crate::priority::Priority;
use crate::store::Batch;
use crate::timing::Mode;
use byteway_clock::Time;
use std::collections::VecDeque;

pub(super) enum Verb {
    /// Units of a stripe, by mask.
    Read(u64),
    /// Spare areas of a stripe.
    Learn,
    Program(Batch),
    /// A program with the addresses of the units to copy, one for each of the batch.
    Move(Vec<Ppa>, Batch),
    Erase,
    MarkBad,
    SetMode(Mode),
    Sync,
}

impl Verb {
    pub(super) fn units_delivered(&self) -> usize {
        match self {
            Verb::Read(mask) => mask.count_ones() as usize,
            _ => 0,
        }
    }

    /// Whether it changes the contents or the mode of a superblock.
    fn is_write(&self) -> bool {
        matches!(self, Verb::Program(_) | Verb::Move(..) | Verb::Erase | Verb::SetMode(_))
    }

    fn is_read(&self) -> bool {
        matches!(self, Verb::Read(_) | Verb::Learn)
    }
}

pub(super) struct Operation {
    pub(super) verb: Verb,
    pub(super) block: BlockId,
    pub(super) stripe: u32,
    pub(super) priority: Priority,
    pub(super) ticket: Option<u32>,
    /// Index of a read's first unit in the ticket's contents.
    pub(super) at: u32,
    pub(super) submitted: Time,
}

/// Operations of a superblock that restrict others.
#[derive(Clone, Copy, Default)]
struct Traffic {
    /// Reads and copies from it that were submitted and have not completed.
    reads: u32,
    /// A program, a copy to it, an erase or a mode change is in flight.
    is_written: bool,
    /// The one in flight is an erase.
    is_erased: bool,
}

/// Waiting operations by priority, in order of submission.
pub(super) struct Outbox {
    waiting: [VecDeque<Operation>; Priority::COUNT],
    traffic: Vec<Traffic>,
    geometry: Geometry,
}

impl Outbox {
    pub(super) fn new(geometry: &Geometry) -> Self {
        let traffic = vec![Traffic::default(); geometry.total_blocks() as usize];
        Outbox { waiting: Default::default(), traffic, geometry: *geometry }
    }

    pub(super) fn push(&mut self, operation: Operation) {
        self.count_reads(&operation, |reads| *reads += 1);
        self.waiting[operation.priority as usize].push_back(operation);
    }

    /// Takes the most urgent operation that may be sent, and counts it as in flight.
    pub(super) fn take(&mut self) -> Option<Operation> {
        let Outbox { waiting, traffic, .. } = self;
        for line in waiting {
            let may_go = |operation: &Operation| {
                // An erase would destroy data that earlier reads, and copies from this superblock, still
                // need; a program would be refused if it passed another.
                let Traffic { reads, is_written, is_erased } = traffic[operation.block.0 as usize];
                match operation.verb {
                    Verb::Erase => !is_written && reads == 0,
                    Verb::Read(_) | Verb::Learn => !is_erased,
                    _ => !operation.verb.is_write() || !is_written,
                }
            };
            if let Some(index) = line.iter().position(may_go) {
                let operation = line.remove(index)?;
                let traffic = &mut traffic[operation.block.0 as usize];
                traffic.is_written |= operation.verb.is_write();
                traffic.is_erased |= matches!(operation.verb, Verb::Erase);
                return Some(operation);
            }
        }
        None
    }

    /// Completes an operation that was taken. Returns whether others wait.
    pub(super) fn done(&mut self, operation: &Operation) -> bool {
        self.count_reads(operation, |reads| {
            *reads = reads.checked_sub(1).expect("a completed read was counted")
        });
        if operation.verb.is_write() {
            let traffic = &mut self.traffic[operation.block.0 as usize];
            (traffic.is_written, traffic.is_erased) = (false, false);
        }
        self.waiting.iter().any(|line| !line.is_empty())
    }

    fn count_reads(&mut self, operation: &Operation, mut count: impl FnMut(&mut u32)) {
        if operation.verb.is_read() {
            count(&mut self.traffic[operation.block.0 as usize].reads);
        }
        if let Verb::Move(sources, _) = &operation.verb {
            for source in sources {
                count(&mut self.traffic[self.geometry.block_of(*source).0 as usize].reads);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::Executor;

    const GEOMETRY: Geometry =
        Geometry { channels: 1, ways: 1, planes: 1, blocks: 4, pages: 8, page_bytes: 4096 };

    fn order(outbox: &mut Outbox) -> Vec<u32> {
        std::iter::from_fn(|| outbox.take()).map(|operation| operation.stripe).collect()
    }

    // A link keeps no order: the flash refuses a program that passes another, and an erase that passes a read
    // destroys its data.
    #[test]
    fn what_must_not_pass_waits_for_what_is_before_it() {
        let executor = Executor::new();
        let clock = executor.clock();
        let operation = |verb, block, stripe, priority| Operation {
            verb,
            block: BlockId(block),
            stripe,
            priority,
            ticket: None,
            at: 0,
            submitted: clock.now(),
        };
        let mut outbox = Outbox::new(&GEOMETRY);
        let program = || Verb::Program(Batch::default());
        outbox.push(operation(program(), 0, 1, Priority::HostProgram));
        outbox.push(operation(program(), 0, 2, Priority::HostProgram));
        outbox.push(operation(program(), 1, 3, Priority::HostProgram));
        outbox.push(operation(Verb::Read(1), 0, 4, Priority::HostRead));
        outbox.push(operation(Verb::Erase, 2, 6, Priority::Collector));
        outbox.push(operation(Verb::Read(1), 2, 5, Priority::Background));
        let read = outbox.take().unwrap();
        assert_eq!(read.stripe, 4, "reads are most urgent, and wait for no program");
        let first = outbox.take().unwrap();
        assert_eq!(
            (first.stripe, outbox.take().unwrap().stripe),
            (1, 3),
            "one program of a superblock at a time"
        );
        let last = outbox.take().unwrap();
        assert_eq!(last.stripe, 5, "the erase waits for the read of its superblock");
        assert!(outbox.take().is_none());
        assert!(outbox.done(&last));
        let erase = outbox.take().unwrap();
        assert_eq!(erase.stripe, 6);
        assert!(outbox.done(&first));
        assert_eq!(order(&mut outbox), [2]);
        assert!(!outbox.done(&read));
        outbox.push(operation(Verb::Read(1), 2, 9, Priority::HostRead));
        assert!(
            outbox.take().is_none(),
            "what is being erased is not read, or the answer might be of before"
        );
        assert!(outbox.done(&erase));
        assert_eq!(order(&mut outbox), [9]);
        let sources = vec![Ppa(3 * 8), Ppa(3 * 8 + 1)];
        outbox.push(operation(Verb::Move(sources, Batch::default()), 1, 7, Priority::Collector));
        outbox.push(operation(Verb::Erase, 3, 8, Priority::HostRead));
        assert!(
            outbox.take().is_none(),
            "neither a move to what is programmed, nor the erase of what is moved"
        );
    }
}
