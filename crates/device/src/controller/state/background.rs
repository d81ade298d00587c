//! State of the background work, which outlives resets.

use crate::controller::state::operations::Operations;
use crate::controller::state::persistence::Persistence;
use crate::controller::state::sanitizer::Sanitizer;
use crate::controller::state::self_test::SelfTest;
use byteway_clock::Clock;

/// Background work of a drive.
pub struct Background {
    /// Namespace changes.
    pub operations: Operations,
    /// Sanitize operations.
    pub sanitize: Sanitizer,
    /// Device self-tests.
    pub self_test: SelfTest,
    /// The record on the media.
    pub persistence: Persistence,
}

impl Background {
    /// State without an operation in progress.
    pub fn new(clock: &Clock) -> Self {
        Background {
            operations: Operations::new(clock),
            sanitize: Sanitizer::new(clock),
            self_test: SelfTest::new(clock),
            persistence: Persistence::new(clock),
        }
    }

    /// A command has ended: it holds no namespace any more, and may have changed counters.
    #[inline]
    pub fn command_ended(&self) {
        self.operations.command_ended();
        self.persistence.counted();
    }
}
