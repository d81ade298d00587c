//! What a namespace must hold, as the host knows it: blocks or pairs.

use byteway_host::kv::{KvClear, KvOutcome, oracle::KvFlush};
use byteway_host::oracle::{FlushToken, Outcome, WriteToken};
use byteway_host::{KvOracle, Oracle};
use std::cell::RefCell;
use std::rc::Rc;

/// A namespace.
pub(super) struct Space {
    pub(super) nsid: u32,
    pub(super) holds: Holds,
}

/// What is in it.
#[derive(Clone)]
pub(super) enum Holds {
    Blocks(Rc<RefCell<Oracle>>),
    Pairs(Rc<RefCell<KvOracle>>),
}

/// All of it is being deleted.
#[must_use]
pub(super) enum Emptying {
    Blocks(Rc<RefCell<Oracle>>, WriteToken),
    Pairs(Rc<RefCell<KvOracle>>, KvClear),
}

/// All of it is being made durable.
pub(super) enum Flushing {
    Blocks(Rc<RefCell<Oracle>>, FlushToken),
    Pairs(Rc<RefCell<KvOracle>>, KvFlush),
}

impl Holds {
    /// The power is cut.
    pub(super) fn cut_power(&self) {
        match self {
            Holds::Blocks(oracle) => oracle.borrow_mut().cut_power(),
            Holds::Pairs(oracle) => oracle.borrow_mut().cut_power(),
        }
    }

    /// A format, a deletion of the namespace or the like begins: afterwards blocks read as zeroes, and there is no pair.
    pub(super) fn begin_emptying(&self) -> Emptying {
        match self {
            Holds::Blocks(oracle) => {
                let blocks = oracle.borrow().blocks();
                Emptying::Blocks(oracle.clone(), oracle.borrow_mut().begin_zeroes(0, blocks))
            }
            Holds::Pairs(oracle) => Emptying::Pairs(oracle.clone(), oracle.borrow_mut().begin_clear()),
        }
    }

    /// A flush, or a shutdown, begins.
    pub(super) fn begin_flush(&self) -> Flushing {
        match self {
            Holds::Blocks(oracle) => Flushing::Blocks(oracle.clone(), oracle.borrow_mut().begin_flush()),
            Holds::Pairs(oracle) => Flushing::Pairs(oracle.clone(), oracle.borrow_mut().begin_flush()),
        }
    }
}

impl Emptying {
    /// It has ended: durably, or it is not known how far it went.
    pub(super) fn end(self, is_certain: bool) {
        match self {
            Emptying::Blocks(oracle, token) => {
                let outcome = if is_certain { Outcome::Durable } else { Outcome::Uncertain };
                oracle.borrow_mut().end_write(token, outcome);
            }
            Emptying::Pairs(oracle, clear) => {
                let outcome = if is_certain { KvOutcome::Done } else { KvOutcome::Uncertain };
                oracle.borrow_mut().end_clear(clear, outcome);
                if !is_certain {
                    // Where flash took no format, the store was made anew from what was durable.
                    oracle.borrow_mut().reopen();
                }
            }
        }
    }
}

impl Flushing {
    /// It has ended; uncertain, if the drive may have had no room, or a store of pairs (`of_pairs`) no index.
    pub(super) fn end(self, outcome: Outcome, of_pairs: Outcome) {
        match self {
            Flushing::Blocks(oracle, token) => oracle.borrow_mut().end_flush(token, outcome),
            Flushing::Pairs(oracle, token) if of_pairs == Outcome::Done => {
                oracle.borrow_mut().end_flush(token)
            }
            Flushing::Pairs(..) => {}
        }
    }
}
