//! Work that goes on behind commands, through resets.

use crate::controller::state::operations::Operations;
use crate::controller::state::persistence::Persistence;
use crate::controller::state::sanitizer::Sanitizer;
use crate::controller::state::self_test::SelfTest;
use byteway_clock::Clock;

/// Work that goes on behind commands.
pub struct Background {
    /// Changes of namespaces.
    pub operations: Operations,
    /// Sanitize operations.
    pub sanitize: Sanitizer,
    /// Device self-tests.
    pub self_test: SelfTest,
    /// The record on the medium.
    pub persistence: Persistence,
}

impl Background {
    /// Nothing goes on.
    pub fn new(clock: &Clock) -> Self {
        Background {
            operations: Operations::new(clock),
            sanitize: Sanitizer::new(clock),
            self_test: SelfTest::new(clock),
            persistence: Persistence::new(clock),
        }
    }

    /// A command has ended: it holds no namespace any more, and has counted something.
    #[inline]
    pub fn command_ended(&self) {
        self.operations.command_ended();
        self.persistence.counted();
    }
}
