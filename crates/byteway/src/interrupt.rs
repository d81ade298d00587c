//! Ctrl-C and SIGTERM: the first asks the command to stop and to keep what it has, the second ends the program at once.
//! A command that does not listen, because it has nothing to keep, ends at the first. `timeout` sends its signal to the
//! process and then to its group: what follows within 150 ms is the same request. SIGHUP is as SIGTERM, unless a command
//! reads files again at that.
#![allow(
    clippy::disallowed_methods,
    reason = "what ends a process that doesn't end has a thread and a limit of its own"
)]

use std::io::Write;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use byteway_console::interrupt::{Interrupt, Interrupted};
use byteway_measure::output::remove_unfinished;
use nix::sys::signal::{SigSet, Signal};

/// What a shell reports for a program that Ctrl-C ended: 128 + SIGINT. SIGTERM has the same exit code here.
pub const EXIT_INTERRUPTED: u8 = 130;

type Listener = Box<dyn Fn() + Send>;

struct Signals {
    /// When the first one came.
    came: Option<Instant>,
    listeners: Vec<Listener>,
}

static SIGNALS: Mutex<Signals> = Mutex::new(Signals { came: None, listeners: Vec::new() });

/// No one presses Ctrl-C twice so fast.
const ECHO: Duration = Duration::from_millis(150);

/// Takes Ctrl-C and SIGTERM from now on. Without a listener ([`on_signal`]) the first ends the program.
pub fn take_signals() {
    // Only a process that has a handler already can fail here, and that one stays.
    let _ = ctrlc::set_handler(|| {
        let mut signals = SIGNALS.lock().unwrap_or_else(PoisonError::into_inner);
        if signals.came.is_some_and(|came| came.elapsed() < ECHO) {
            return;
        }
        if signals.came.is_some() || signals.listeners.is_empty() {
            remove_unfinished();
            let _ = writeln!(std::io::stderr(), "{Interrupted}");
            std::process::exit(i32::from(EXIT_INTERRUPTED));
        }
        signals.came = Some(Instant::now());
        signals.listeners.iter().for_each(|stop| stop());
    });
}

/// Keeps SIGHUP from ending the program, in this thread and those that it begins from now on: [`on_hangup`] takes it. To be
/// called before [`take_signals`], which begins one.
///
/// # Errors
/// The system does not let it.
pub fn hold_hangups() -> std::io::Result<()> {
    Ok(hangup().thread_block()?)
}

/// Calls `reload`, from another thread, at each SIGHUP.
///
/// # Errors
/// There is no thread for it.
pub fn on_hangup(reload: impl Fn() + Send + 'static) -> std::io::Result<()> {
    let wait = move || {
        while hangup().wait().is_ok() {
            reload();
        }
    };
    thread::Builder::new().name("hangup".into()).spawn(wait).map(drop)
}

fn hangup() -> SigSet {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGHUP);
    signals
}

/// Calls `stop`, from another thread, at the first Ctrl-C or SIGTERM; the second ends the program at once.
pub fn on_signal(stop: impl Fn() + Send + 'static) {
    take_signals();
    let mut signals = SIGNALS.lock().unwrap_or_else(PoisonError::into_inner);
    if signals.came.is_some() {
        stop();
    }
    signals.listeners.push(Box::new(stop));
}

/// Ends the program with `message` and `code` if it has not ended by itself after `limit`: whatever its threads are doing
/// then, and even if no one reads its error stream.
pub fn end_within(limit: Duration, code: u8, message: &'static str) {
    let end = move || {
        thread::sleep(limit);
        let (say, said) = mpsc::channel();
        thread::spawn(move || {
            let _ = writeln!(std::io::stderr(), "error: {message}");
            let _ = say.send(());
        });
        // A pipe that is full takes nothing: then it ends without a word.
        let _ = said.recv_timeout(MESSAGE_LIMIT);
        std::process::exit(i32::from(code));
    };
    // Without a thread for it nothing can be waited for.
    if thread::Builder::new().name("end".into()).spawn(end).is_err() {
        std::process::exit(i32::from(code));
    }
}

/// How long the last message may take.
const MESSAGE_LIMIT: Duration = Duration::from_millis(100);

/// A flag that Ctrl-C or SIGTERM raises from now on.
pub fn raised_by_signal() -> Interrupt {
    let interrupt = Interrupt::default();
    let flag = interrupt.clone();
    on_signal(move || flag.raise());
    interrupt
}
