//! Ctrl-C, SIGTERM and SIGHUP. The first Ctrl-C or SIGTERM asks the command to stop and keep its results; the
//! second one ends the program immediately. A command without results to keep does not listen, and ends at
//! the first. `timeout` signals the process and then its group, so a signal within 150 ms belongs to the same
//! request. SIGHUP is treated like SIGTERM, unless a command reloads files on it.
#![allow(clippy::disallowed_methods, reason = "the thread that ends a stuck process needs its own timeout")]

use std::io::Write;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use byteway_results::output::remove_unfinished;
use byteway_text::interrupt::{Interrupt, Interrupted};
use nix::sys::signal::{SigSet, Signal};

/// Exit code that a shell reports for a program ended by Ctrl-C: 128 + SIGINT. SIGTERM has the same one here.
pub const EXIT_INTERRUPTED: u8 = 130;

type Listener = Box<dyn Fn() + Send>;

struct Signals {
    /// Time of the first signal.
    came: Option<Instant>,
    listeners: Vec<Listener>,
}

static SIGNALS: Mutex<Signals> = Mutex::new(Signals { came: None, listeners: Vec::new() });

/// Signals within this time belong together: no user presses Ctrl-C twice that fast.
const ECHO: Duration = Duration::from_millis(150);

/// Handles Ctrl-C and SIGTERM from now on. Without a listener ([`on_signal`]) the first one ends the program.
pub fn take_signals() {
    // This fails only if the process already has a handler, which stays.
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

/// Blocks SIGHUP in this thread and in those started from now on, so that it does not end the program: [`on_hangup`] receives it. Must be
/// called before [`take_signals`], which starts a thread.
///
/// # Errors
/// The system refuses.
pub fn hold_hangups() -> std::io::Result<()> {
    Ok(hangup().thread_block()?)
}

/// Calls `reload` from another thread at each SIGHUP.
///
/// # Errors
/// The thread cannot be started.
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

/// Calls `stop` from another thread at the first Ctrl-C or SIGTERM; the second one ends the program immediately.
pub fn on_signal(stop: impl Fn() + Send + 'static) {
    take_signals();
    let mut signals = SIGNALS.lock().unwrap_or_else(PoisonError::into_inner);
    if signals.came.is_some() {
        stop();
    }
    signals.listeners.push(Box::new(stop));
}

/// Time limit from a signal to the end of the program. It leaves a margin for a loaded machine within the documented 2 s.
const END_LIMIT: Duration = Duration::from_millis(1500);

/// Ends the program if it is still running a second and a half from now, whatever its threads are doing, and even if no reader drains its
/// standard error. `how` then gives the exit code and the message; with None the program goes on.
pub fn end_soon(how: impl FnOnce() -> Option<(u8, String)> + Send + 'static) {
    let end = move || {
        thread::sleep(END_LIMIT);
        let Some((code, message)) = how() else { return };
        let (say, said) = mpsc::channel();
        thread::spawn(move || {
            let _ = writeln!(std::io::stderr(), "{message}");
            let _ = say.send(());
        });
        // A full pipe blocks the message; the program then ends without it.
        let _ = said.recv_timeout(MESSAGE_LIMIT);
        remove_unfinished();
        std::process::exit(i32::from(code));
    };
    // Without a thread there is no way to wait, so it ends immediately.
    if thread::Builder::new().name("end".into()).spawn(end).is_err() {
        std::process::exit(i32::from(EXIT_INTERRUPTED));
    }
}

/// Time limit for the last message.
const MESSAGE_LIMIT: Duration = Duration::from_millis(100);

/// A flag that Ctrl-C or SIGTERM raises from now on. Work that does not poll it in time, such as the construction of a very large drive,
/// has no result to keep, and is ended.
pub fn raised_by_signal() -> Interrupt {
    let interrupt = Interrupt::default();
    let flag = interrupt.clone();
    on_signal(move || {
        flag.raise();
        let flag = flag.clone();
        end_soon(move || (!flag.is_noticed()).then(|| (EXIT_INTERRUPTED, Interrupted.to_string())));
    });
    interrupt
}
