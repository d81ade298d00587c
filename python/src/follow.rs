//! Long work: it runs in a thread of its own while this one, without the interpreter lock, looks for Ctrl-C and reports progress.

use crate::error;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::{Bar, Bars, Goal, Points};
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Interval of looks for signals and of progress reports.
const LOOK: Duration = Duration::from_millis(50);

/// Stack of the thread: as much as the main thread of a program has.
const STACK_BYTES: usize = 8 << 20;

/// Progress of the work, shared with its thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    position: AtomicU64,
    counted: AtomicU64,
    length: AtomicU64,
    is_known: AtomicBool,
}

impl Meter {
    /// A meter of a known number of points.
    pub(crate) fn of_points(count: u64) -> Meter {
        let meter = Meter::default();
        meter.expect(Some(count));
        meter
    }

    /// Sets the total, if it is known.
    pub(crate) fn expect(&self, length: Option<u64>) {
        self.0.is_known.store(length.is_some(), Ordering::Relaxed);
        self.0.length.store(length.unwrap_or(0), Ordering::Relaxed);
    }

    /// Position, total if it is known, and number of I/Os, records or points.
    fn read(&self) -> (u64, Option<u64>, u64) {
        let counts = &self.0;
        let length = counts.length.load(Ordering::Relaxed);
        let length = counts.is_known.load(Ordering::Relaxed).then_some(length);
        (counts.position.load(Ordering::Relaxed), length, counts.counted.load(Ordering::Relaxed))
    }
}

impl Bars for Meter {
    fn bar(&self, _what: &'static str, _goal: Goal, length: Option<u64>) -> Option<Box<dyn Bar>> {
        self.expect(length);
        Some(Box::new(self.clone()))
    }
}

impl Bar for Meter {
    fn show(&self, position: u64, counted: u64) {
        self.0.position.store(position, Ordering::Relaxed);
        self.0.counted.store(counted, Ordering::Relaxed);
    }

    fn finish(&self) {}
}

impl Points for Meter {
    fn one(&self) {
        self.0.position.fetch_add(1, Ordering::Relaxed);
        self.0.counted.fetch_add(1, Ordering::Relaxed);
    }

    fn begin_at(&self, done: u64) {
        self.0.position.store(done, Ordering::Relaxed);
        self.0.counted.store(done, Ordering::Relaxed);
    }
}

/// The user's side of long work.
pub(crate) struct Follower {
    /// Called with position, total and count.
    pub(crate) progress: Option<Py<PyAny>>,
    pub(crate) meter: Meter,
    pub(crate) interrupt: Interrupt,
}

/// What work gave, and the exception that asked it to stop: Ctrl-C, or what the progress function raised.
pub(crate) struct Followed<T> {
    pub(crate) value: T,
    pub(crate) stopped_by: Option<PyErr>,
}

impl<T, E: Into<anyhow::Error>> Followed<Result<T, E>> {
    /// The value, which is partial if there is an exception that stopped the work.
    ///
    /// # Errors
    /// There is no value.
    pub(crate) fn partial(self, py: Python<'_>) -> PyResult<(T, Option<PyErr>)> {
        match (self.value, self.stopped_by) {
            (Ok(value), stopped_by) => Ok((value, stopped_by)),
            (Err(_), Some(by)) => Err(error::stopped(py, by)),
            (Err(error), None) => Err(error::raised(py, error)),
        }
    }

    /// The value, if the work was not stopped.
    ///
    /// # Errors
    /// It was stopped, or there is no value.
    pub(crate) fn whole(self, py: Python<'_>) -> PyResult<T> {
        match self.partial(py)? {
            (value, None) => Ok(value),
            (_, Some(by)) => Err(error::stopped(py, by)),
        }
    }
}

impl Follower {
    pub(crate) fn new(progress: Option<Py<PyAny>>) -> Follower {
        Follower { progress, meter: Meter::default(), interrupt: Interrupt::default() }
    }

    /// Signals that came, and the progress function.
    fn look(&self) -> PyResult<()> {
        Python::attach(|py| {
            py.check_signals()?;
            if let Some(progress) = &self.progress {
                progress.call1(py, self.meter.read())?;
            }
            Ok(())
        })
    }

    /// Runs `work` to its end, which comes soon once the interrupt is raised.
    ///
    /// # Errors
    /// The work panicked, or no thread can be started.
    pub(crate) fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce() -> T + Send,
    ) -> PyResult<Followed<T>> {
        let this = std::panic::AssertUnwindSafe(self);
        py.detach(move || {
            std::thread::scope(|scope| {
                let (end, ended) = mpsc::channel::<()>();
                let thread = std::thread::Builder::new().name("byteway".to_owned()).stack_size(STACK_BYTES);
                let work = move || {
                    // Dropped when the work ends, also by a panic.
                    let _end = end;
                    work()
                };
                let thread = thread.spawn_scoped(scope, work)?;
                let mut stopped_by = None;
                while ended.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Timeout) {
                    if stopped_by.is_none()
                        && let Err(error) = this.look()
                    {
                        this.interrupt.raise();
                        stopped_by = Some(error);
                    }
                }
                let value = thread.join().map_err(|panic| error::panicked(&*panic))?;
                if stopped_by.is_none() {
                    // The last state, for displays that would else stop short of it.
                    stopped_by = this.look().err();
                }
                Ok(Followed { value, stopped_by })
            })
        })
    }
}
