//! A drive that stays attached. The simulator's tasks belong to one thread, so a session has one of its own; requests go to it by a
//! channel. While no request is there the thread sleeps in the channel, and virtual time stands still.
#![allow(
    clippy::disallowed_methods,
    reason = "the interpreter's threads are not the simulator's: each session has an executor of its own"
)]

use crate::error::{self, raised};
use byteway_serving::error::AttachedError;
use byteway_text::error::InputError;
use pyo3::prelude::*;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval of looks for Ctrl-C while a request is in flight.
const LOOK: Duration = Duration::from_millis(50);

/// How long a drive that is dropped without being closed may take to shut down: a served one may have stopped to answer.
const DROP_LIMIT: Duration = Duration::from_secs(60);

/// Stack of the thread: as much as the main thread of a program has.
const STACK_BYTES: usize = 8 << 20;

/// Requests that arrive at a session's thread, each with where its answer goes. There is no further one once the session is closed.
pub(crate) struct Requests<Q, A>(Receiver<(Q, Sender<Result<A, AttachedError>>)>);

impl<Q, A> Requests<Q, A> {
    /// The next request, for which this waits.
    pub(crate) fn next(&self) -> Option<(Q, Sender<Result<A, AttachedError>>)> {
        self.0.recv().ok()
    }
}

/// The Python side of a session.
pub(crate) struct Session<Q, A> {
    open: Mutex<Option<Open<Q, A>>>,
    /// The process that has the session's thread: one that is forked has not.
    process: u32,
}

struct Open<Q, A> {
    requests: Sender<(Q, Sender<Result<A, AttachedError>>)>,
    thread: JoinHandle<Result<(), AttachedError>>,
}

fn closed(py: Python<'_>) -> PyErr {
    error::invalid(py, &InputError::new("the drive is closed", "open it again"))
}

impl<Q: Send + 'static, A: Send + 'static> Session<Q, A> {
    /// Starts the thread, and waits until `first` is answered, which shows that the drive is attached.
    pub(crate) fn open(
        py: Python<'_>,
        first: Q,
        serve: impl FnOnce(Requests<Q, A>) -> Result<(), AttachedError> + Send + 'static,
    ) -> PyResult<Session<Q, A>> {
        let (requests, queue) = channel();
        let thread = std::thread::Builder::new().name("byteway drive".to_owned()).stack_size(STACK_BYTES);
        let thread = thread.spawn(move || serve(Requests(queue)))?;
        let session =
            Session { open: Mutex::new(Some(Open { requests, thread })), process: std::process::id() };
        session.ask(py, first)?;
        Ok(session)
    }

    /// Sends a request, and waits for its answer. After Ctrl-C the request is finished, and its answer dropped.
    pub(crate) fn ask(&self, py: Python<'_>, request: Q) -> PyResult<A> {
        let (answer, mut answers) = channel();
        if self.is_of_another_process() {
            let what = "the drive was opened by the process that this one was forked from";
            return Err(error::invalid(py, &InputError::new(what, "open a drive in each process")));
        }
        let sent = {
            let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(open) = open.as_ref() else { return Err(closed(py)) };
            open.requests.send((request, answer)).is_ok()
        };
        if !sent {
            return Err(self.ended(py));
        }
        loop {
            let waited = py.detach(move || {
                let came = answers.recv_timeout(LOOK);
                (answers, came)
            });
            answers = waited.0;
            match waited.1 {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(AttachedError::Gone)) => return Err(self.ended(py)),
                Ok(Err(error)) => return Err(raised(py, error)),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                // The session ended under the request.
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended(py)),
            }
        }
    }

    fn is_of_another_process(&self) -> bool {
        self.process != std::process::id()
    }

    /// Closes the session: the drive is shut down, and a directory's files are complete. After Ctrl-C it goes on by itself.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_of_another_process() {
            return Ok(());
        }
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Open { requests, thread }) = open else { return Ok(()) };
        drop(requests);
        while !py.detach(|| ends_within(&thread, LOOK)) {
            py.check_signals()?;
        }
        match thread.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(raised(py, error)),
            Err(panic) => Err(error::panicked(&*panic)),
        }
    }

    /// The exception for a session that ended by itself.
    fn ended(&self, py: Python<'_>) -> PyErr {
        match self.close(py) {
            Err(error) => error,
            Ok(()) => closed(py),
        }
    }
}

/// Whether the thread ends within this time, which this waits.
fn ends_within(thread: &JoinHandle<Result<(), AttachedError>>, limit: Duration) -> bool {
    const STEP: Duration = Duration::from_millis(1);
    let mut left = limit;
    while !thread.is_finished() && !left.is_zero() {
        std::thread::sleep(STEP);
        left = left.saturating_sub(STEP);
    }
    thread.is_finished()
}

impl<Q, A> Drop for Session<Q, A> {
    /// A session that is dropped without being closed shuts its drive down all the same. Its errors have no reader.
    fn drop(&mut self) {
        let is_of_another_process = self.process != std::process::id();
        let open = self.open.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        match open {
            // Its thread is not in this process: neither can it be told, nor waited for.
            Some(open) if is_of_another_process => std::mem::forget(open),
            Some(Open { requests, thread }) => {
                drop(requests);
                Python::attach(|py| py.detach(|| ends_within(&thread, DROP_LIMIT)));
            }
            None => {}
        }
    }
}
