//! Real-time sessions with a served drive or with targets; they end if the peer disappears or the user
//! interrupts.

use crate::error::AttachedError;
use byteway_clock::{Clock, Delay, Executor, Notify, Timing};
use byteway_host::Port;
use byteway_serve::attach::Attachment;
use byteway_text::interrupt::Interrupt;
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

/// Interval of checks whether the drive's process still exists.
const WATCH: Delay = Delay::from_ms(50);
/// Time limit for outstanding work after an interrupt: the program ends within 2 s.
const PATIENCE: Delay = Delay::from_ms(1500);

/// Runs `work` with targets in real time. It is cancelled if it does not end soon after `interrupt` is raised.
pub(crate) fn in_real_time<T: 'static>(
    interrupt: &Interrupt,
    work: impl AsyncFnOnce(Clock) -> Result<T, AttachedError> + 'static,
) -> Result<T, AttachedError> {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let outcome = Rc::new(Outcome { ended: Notify::new(&clock), result: RefCell::default() });
    let (worked, working) = (outcome.clone(), clock.clone());
    clock.spawn("benchmark", async move { worked.set(work(working).await) });
    let (watched, watching, interrupt) = (outcome.clone(), clock.clone(), interrupt.clone());
    clock.spawn("watch", async move {
        let mut patience = PATIENCE;
        while patience > Delay::ZERO {
            watching.timer(WATCH).await;
            if interrupt.is_raised() {
                patience = patience.saturating_sub(WATCH);
            }
        }
        watched.set(Err(AttachedError::Interrupted { source: None }));
    });
    let result = executor.run_real(Timing::None, None, async move { outcome.get().await });
    result.map_err(AttachedError::Stalled)?
}

/// Attaches to the drive served in `folder`, with `memory_bytes` of host memory, and runs `work` in real
/// time. The work checks `interrupt` itself, and is cancelled if it does not end soon after the interrupt.
///
/// # Errors
/// The error of the work; the drive's process no longer exists; or no reply came after an interrupt.
pub(crate) fn attached<T: 'static, W: Future<Output = Result<T, AttachedError>> + 'static>(
    folder: &Path,
    memory_bytes: u64,
    interrupt: Option<&Interrupt>,
    work: impl FnOnce(&Clock, Port) -> W,
) -> Result<T, AttachedError> {
    let interrupt = interrupt.cloned().unwrap_or_default();
    let interrupted = interrupt.clone();
    // Ctrl-C may reach the server as well, whose end is then not a failure.
    let failed = |error: AttachedError| match interrupted.is_raised()
        && error.wrong_input().is_none()
        && !error.is_interrupted()
    {
        true => AttachedError::Interrupted { source: Some(Box::new(error)) },
        false => error,
    };
    let attachment = Attachment::connect(folder, memory_bytes).map_err(|error| failed(error.into()))?;
    let attachment = Rc::new(attachment);
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let work = work(&clock, attachment.port(&clock));
    let outcome = Rc::new(Outcome { ended: Notify::new(&clock), result: RefCell::default() });
    let (played, attached) = (outcome.clone(), attachment.clone());
    clock.spawn("benchmark", async move {
        let result = work.await;
        // If the peer is gone, commands fail in many ways; this error names the cause.
        let has_left = result.is_err() && attached.client().channel().has_left();
        played.set(if has_left { Err(AttachedError::Gone) } else { result });
    });
    let watched = outcome.clone();
    clock.clone().spawn("watch", async move {
        // Shared memory does not show that the peer is gone, so its process is polled.
        let mut patience = PATIENCE;
        while !attachment.client().channel().has_left() {
            clock.timer(WATCH).await;
            if interrupt.is_raised() {
                patience = patience.saturating_sub(WATCH);
                if patience == Delay::ZERO {
                    return watched.set(Err(AttachedError::Interrupted { source: None }));
                }
            }
        }
        watched.set(Err(AttachedError::Gone));
    });
    let result = executor.run_real(Timing::None, None, async move { outcome.get().await });
    result.map_err(AttachedError::Stalled)?.map_err(failed)
}

/// Result of a benchmark, set by its work or by the end of the drive's process.
struct Outcome<T> {
    ended: Notify,
    result: RefCell<Option<Result<T, AttachedError>>>,
}

impl<T> Outcome<T> {
    /// The first result counts.
    fn set(&self, result: Result<T, AttachedError>) {
        self.result.borrow_mut().get_or_insert(result);
        self.ended.notify_one();
    }

    async fn get(&self) -> Result<T, AttachedError> {
        loop {
            if let Some(result) = self.result.take() {
                return result;
            }
            self.ended.notified().await;
        }
    }
}
