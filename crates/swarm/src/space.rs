//! Expected content of a namespace, as the host knows it: blocks, key-value pairs or tables.

use super::tables_oracle::TablesOracle;
use byteway_host::{FlushToken, Outcome, WriteToken};
use byteway_host::{KvClear, KvFlush, KvOutcome};
use byteway_host::{KvOracle, Oracle};
use std::cell::RefCell;
use std::rc::Rc;

/// A namespace.
pub(super) struct Space {
    pub(super) nsid: u32,
    pub(super) holds: Holds,
}

/// Expected content.
#[derive(Clone)]
pub(super) enum Holds {
    Blocks(Rc<RefCell<Oracle>>),
    Pairs(Rc<RefCell<KvOracle>>),
    Tables(Rc<TablesOracle>),
}

/// A deletion of all content in progress.
#[must_use]
pub(super) enum Emptying {
    Blocks(Rc<RefCell<Oracle>>, WriteToken),
    Pairs(Rc<RefCell<KvOracle>>, KvClear),
    Tables(Rc<TablesOracle>),
}

/// A flush of all content in progress.
pub(super) enum Flushing {
    Blocks(Rc<RefCell<Oracle>>, FlushToken),
    Pairs(Rc<RefCell<KvOracle>>, KvFlush),
    /// Tables are always durable.
    Tables,
}

impl Holds {
    /// Power cut.
    pub(super) fn cut_power(&self) {
        match self {
            Holds::Blocks(oracle) => oracle.borrow_mut().cut_power(),
            Holds::Pairs(oracle) => oracle.borrow_mut().cut_power(),
            Holds::Tables(_) => {} // acknowledged changes are durable
        }
    }

    /// Starts a format, a deletion of the namespace or the like: afterwards blocks read as zeroes, and there
    /// are no key-value pairs.
    pub(super) fn begin_emptying(&self) -> Emptying {
        match self {
            Holds::Blocks(oracle) => {
                let blocks = oracle.borrow().blocks();
                Emptying::Blocks(oracle.clone(), oracle.borrow_mut().begin_zeroes(0, blocks))
            }
            Holds::Pairs(oracle) => Emptying::Pairs(oracle.clone(), oracle.borrow_mut().begin_clear()),
            Holds::Tables(oracle) => {
                oracle.begin_emptying();
                Emptying::Tables(oracle.clone())
            }
        }
    }

    /// Starts a flush or a shutdown.
    pub(super) fn begin_flush(&self) -> Flushing {
        match self {
            Holds::Blocks(oracle) => Flushing::Blocks(oracle.clone(), oracle.borrow_mut().begin_flush()),
            Holds::Pairs(oracle) => Flushing::Pairs(oracle.clone(), oracle.borrow_mut().begin_flush()),
            Holds::Tables(_) => Flushing::Tables,
        }
    }
}

impl Emptying {
    /// Ends it: durably, or with an unknown extent.
    pub(super) fn end(self, is_certain: bool) {
        match self {
            Emptying::Blocks(oracle, token) => {
                let outcome = if is_certain { Outcome::Durable } else { Outcome::Uncertain };
                oracle.borrow_mut().end_write(token, outcome);
            }
            Emptying::Tables(oracle) => oracle.end_emptying(is_certain),
            Emptying::Pairs(oracle, clear) => {
                let outcome = if is_certain { KvOutcome::Done } else { KvOutcome::Uncertain };
                oracle.borrow_mut().end_clear(clear, outcome);
                if !is_certain {
                    // Where flash refused the format, the store was reopened from its durable state.
                    oracle.borrow_mut().reopen();
                }
            }
        }
    }
}

impl Flushing {
    /// Ends it. Uncertain if the drive may lack space, or, in `of_pairs`, if a KV store may lack its index.
    pub(super) fn end(self, outcome: Outcome, of_pairs: Outcome) {
        match self {
            Flushing::Blocks(oracle, token) => oracle.borrow_mut().end_flush(token, outcome),
            Flushing::Pairs(oracle, token) if of_pairs == Outcome::Done => {
                oracle.borrow_mut().end_flush(token)
            }
            Flushing::Pairs(..) | Flushing::Tables => {}
        }
    }
}
