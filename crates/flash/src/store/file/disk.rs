//! Background work on the files of a drive: syncing, appending to the journal, writing a checkpoint, freeing
//! space. It is done in jobs, one after the other: in virtual time at once, in real time in a thread that
//! reports through the executor's inbox.
//!
//! A job keeps the order on which consistency rests: first programmed data become durable, then the journal
//! or checkpoint, then erased data are cleared. Nothing durable ever depends on something that is not.

use super::files::{File, Files, write_aside};
use super::image::Image;
use super::mark::Mark;
use crate::geometry::Geometry;
use byteway_clock::{Inbox, TaskId};
use byteway_content::UNIT_BYTES;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread::JoinHandle;

/// File names.
pub(super) const DATA: &str = "data";
pub(super) const SPARE: &str = "spare";
pub(super) const CHECKPOINT: &str = "checkpoint";
pub(super) const FORMAT: &str = "format";

/// Bytes of each part of `data`, if it has several: half of ext4's limit.
pub(super) const DATA_PART_BYTES: u64 = 8 << 40;

/// Number of parts of `data`. Up to 15 TiB it is one file, for compatibility.
pub(super) fn data_parts(geometry: &Geometry) -> u64 {
    match geometry.is_wide() {
        true => (geometry.total_units() * UNIT_BYTES as u64).div_ceil(DATA_PART_BYTES),
        false => 1,
    }
}

/// File name of a journal.
pub(super) fn journal_name(number: u64) -> String {
    format!("journal-{number}")
}

/// A unit of work on the files.
#[derive(Default)]
pub(super) struct Job {
    /// Units were programmed since the previous job.
    pub(super) is_dirty: bool,
    /// Offset and bytes to append to the journal.
    pub(super) journal: (u64, Vec<u8>),
    /// A checkpoint, which covers everything recorded so far and starts a new journal.
    pub(super) image: Option<Image>,
    /// What is durable after it.
    pub(super) mark: Mark,
    /// Byte ranges to clear in `data` and in `spare`.
    pub(super) clear: Vec<[(u64, u64); 2]>,
}

/// The open files.
pub(super) struct Disk {
    pub(super) files: Arc<dyn Files>,
    pub(super) data: Arc<dyn File>,
    pub(super) spare: Arc<dyn File>,
    pub(super) journal: Arc<dyn File>,
    pub(super) mark: Arc<dyn File>,
    pub(super) number: u64,
}

impl Disk {
    fn run(&mut self, job: &Job) -> io::Result<()> {
        // Data before the journal and checkpoint that refer to them: after a cut in between, the records are
        // found by their own checksums.
        if job.is_dirty {
            self.data.sync()?;
            self.spare.sync()?;
        }
        if let Some(image) = &job.image {
            let before = journal_name(self.number);
            self.number = image.number;
            self.journal = self.files.create(&journal_name(self.number))?;
            self.files.sync()?; // a checkpoint without its journal would count as damaged
            write_aside(&*self.files, CHECKPOINT, &image.to_bytes())?;
            self.files.sync()?;
            self.files.remove(&before)?;
        } else if !job.journal.1.is_empty() {
            self.journal.write_at(&job.journal.1, job.journal.0)?;
            self.journal.sync()?;
        }
        // Not synced: it may be behind, and never ahead.
        self.mark.write_at(&job.mark.to_bytes(), 0)?;
        // Last: until the erase is durable, a cut must find the old contents intact.
        for [data, spare] in &job.clear {
            self.data.clear(data.0, data.1)?;
            self.spare.clear(spare.0, spare.1)?;
        }
        Ok(())
    }
}

/// Executor of jobs.
pub(super) enum Runner {
    /// Within the call, in virtual time.
    Here(Disk),
    /// A thread, in real time.
    Thread(Worker),
    /// None, because a job has failed.
    Failed,
}

impl Runner {
    /// Runs a job, now or later. The text of an error is human-readable.
    pub(super) fn run(&mut self, job: Job) -> io::Result<Ran> {
        match self {
            Runner::Here(disk) => match disk.run(&job) {
                Ok(()) => Ok(Ran::Done),
                Err(error) => {
                    *self = Runner::Failed;
                    Err(error)
                }
            },
            Runner::Thread(worker) => {
                // The thread ends early only after it has reported an error.
                let _ = worker.jobs.send(job);
                Ok(Ran::Soon)
            }
            Runner::Failed => Ok(Ran::Soon),
        }
    }

    /// Starts a thread for the jobs, which wakes a task through this inbox.
    pub(super) fn begin_thread(&mut self, inbox: &Inbox) -> io::Result<()> {
        if let Runner::Here(_) = self
            && let Runner::Here(disk) = std::mem::replace(self, Runner::Failed)
        {
            *self = Runner::Thread(Worker::start(disk, inbox.clone())?);
        }
        Ok(())
    }

    /// Waits for the thread's jobs; from now on they run within the call.
    pub(super) fn end_thread(&mut self) -> io::Result<()> {
        if let Runner::Thread(_) = self
            && let Runner::Thread(worker) = std::mem::replace(self, Runner::Failed)
        {
            *self = Runner::Here(worker.end()?);
        }
        Ok(())
    }
}

/// When a job completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ran {
    Done,
    /// Later; [`Worker::done`] counts it.
    Soon,
}

struct Shared {
    done: AtomicU64,
    error: Mutex<Option<io::Error>>,
    task: Mutex<Option<TaskId>>,
    inbox: Inbox,
}

impl Shared {
    fn wake(&self) {
        if let Some(task) = *locked(&self.task) {
            self.inbox.wake(task);
        }
    }
}

/// A thread that runs jobs.
pub(super) struct Worker {
    jobs: mpsc::Sender<Job>,
    shared: Arc<Shared>,
    thread: JoinHandle<Disk>,
}

impl Worker {
    #[allow(
        clippy::disallowed_methods,
        reason = "a sync takes the wall's time, during which the drive goes on"
    )]
    fn start(mut disk: Disk, inbox: Inbox) -> io::Result<Worker> {
        let (done, error, task) = Default::default();
        let shared = Arc::new(Shared { done, error, task, inbox });
        let (jobs, given) = mpsc::channel::<Job>();
        let own = shared.clone();
        let thread = std::thread::Builder::new().name("files".to_owned()).spawn(move || {
            for job in given {
                if let Err(error) = disk.run(&job) {
                    locked(&own.error).replace(error);
                    own.wake();
                    break;
                }
                own.done.fetch_add(1, Ordering::Release);
                own.wake();
            }
            disk
        })?;
        Ok(Worker { jobs, shared, thread })
    }

    /// Sets the task to wake when a job has completed or failed.
    pub(super) fn report_to(&self, task: TaskId) {
        locked(&self.shared.task).replace(task);
        self.shared.wake(); // a job may have completed already
    }

    /// Number of completed jobs.
    pub(super) fn done(&self) -> u64 {
        self.shared.done.load(Ordering::Acquire)
    }

    /// The error that ended it, if any.
    pub(super) fn error(&self) -> Option<io::Error> {
        locked(&self.shared.error).take()
    }

    fn end(self) -> io::Result<Disk> {
        drop(self.jobs);
        let disk = self.thread.join().map_err(|_| io::Error::other("the thread for files has panicked"))?;
        match locked(&self.shared.error).take() {
            Some(error) => Err(error),
            None => Ok(disk),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
