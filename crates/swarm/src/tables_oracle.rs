//! Expected state of a table namespace: the number of rows of each table; after a change with unknown outcome, one of two states.

use byteway_host::{AnyClientError, AnyIoError, ClientErrorKind, IoError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Number of rows by table number.
pub(super) type State = BTreeMap<u32, u64>;

/// Expected state.
#[derive(Default)]
pub(super) struct TablesOracle {
    pub(super) known: RefCell<State>,
    /// The alternative state, if the outcome of a change is unknown.
    pub(super) other: RefCell<Option<State>>,
    /// Number of verified results.
    pub(super) verified: Cell<u64>,
}

impl TablesOracle {
    /// Starts a drop of all tables.
    pub(super) fn begin_emptying(&self) {
        self.other.replace(Some(State::new()));
    }

    /// Ends it, or its outcome is unknown.
    pub(super) fn end_emptying(&self, is_certain: bool) {
        if is_certain {
            self.other.take();
            self.known.borrow_mut().clear();
        }
    }

    /// Verifies the tables found, with their numbers of rows.
    pub(super) fn settle(&self, found: &State) -> Result<(), AnyIoError> {
        self.verified.set(self.verified.get() + 1);
        if let Some(other) = self.other.take()
            && other == *found
        {
            self.known.replace(other);
        }
        match *self.known.borrow() == *found {
            true => Ok(()),
            false => Err(wrong(format!("tables {found:?} where {:?} were expected", self.known.borrow()))),
        }
    }
}

/// An error: actual and expected state differ.
pub(super) fn wrong(text: String) -> AnyIoError {
    IoError::Client(AnyClientError { kind: ClientErrorKind::WrongData, text })
}
