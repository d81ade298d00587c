//! Ctrl-C and SIGTERM: the first asks what runs to stop and to keep what it has, the second ends the program at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that a run looks at between I/Os.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

/// What a shell reports for a program that Ctrl-C ended: 128 + SIGINT.
pub const EXIT_INTERRUPTED: u8 = 130;

/// Calls `stop`, from another thread, at the first Ctrl-C or SIGTERM; the second ends the program at once. A process has
/// one such handler; a second one is ignored.
pub fn on_signal(stop: impl Fn() + Send + 'static) {
    let said = AtomicBool::new(false);
    // Only a process that has a handler already can fail here, and that one stays.
    let _ = ctrlc::set_handler(move || {
        if said.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(EXIT_INTERRUPTED));
        }
        stop();
    });
}

impl Interrupt {
    /// A flag that Ctrl-C or SIGTERM raises from now on.
    pub fn on_signal() -> Self {
        let interrupt = Interrupt::default();
        let flag = interrupt.clone();
        on_signal(move || flag.raise());
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
