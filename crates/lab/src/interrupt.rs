//! Ctrl-C: the first asks a run to stop and to keep what it has, the second ends the program at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that a run looks at between I/Os.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

/// What a shell reports for a program that Ctrl-C ended: 128 + SIGINT.
pub const EXIT_INTERRUPTED: u8 = 130;

impl Interrupt {
    /// A flag that Ctrl-C raises from now on. A process has one such handler; a second one is ignored.
    pub fn on_ctrl_c() -> Self {
        let interrupt = Interrupt::default();
        let flag = interrupt.clone();
        // Only a process that has a handler already can fail here, and that one stays.
        let _ = ctrlc::set_handler(move || {
            if flag.is_raised() {
                std::process::exit(i32::from(EXIT_INTERRUPTED));
            }
            flag.raise();
        });
        interrupt
    }

    /// Asks the run to stop.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the run is to stop.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
