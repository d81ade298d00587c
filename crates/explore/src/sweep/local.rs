//! Running a sweep in threads of this process.

use super::cache::PointCache;
use super::plan::{Answer, Sweep};
use super::task::{Ran, Task};
use crate::replicate::locked;
use byteway_text::error::InputError;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Points;
use std::collections::VecDeque;
use std::sync::{Mutex, mpsc};

/// Options of running a sweep.
pub struct LocalOptions<'a> {
    /// Number of threads, at least 1.
    pub threads: usize,
    /// Where results are kept.
    pub cache: Option<&'a PointCache>,
    /// Interrupt flag.
    pub interrupt: &'a Interrupt,
    /// Progress counter of runs.
    pub bar: &'a dyn Points,
}

/// Runs all points. An interrupted sweep has rows that are not run.
///
/// # Errors
/// A point's scenario is invalid.
pub fn run_local(sweep: &mut Sweep, options: &LocalOptions<'_>) -> Result<(), InputError> {
    loop {
        let before = sweep.counts().1;
        let tasks = sweep.next(options.cache)?;
        (before..sweep.counts().1).for_each(|_| options.bar.one());
        if tasks.is_empty() || options.interrupt.is_raised() {
            return Ok(());
        }
        run_all(sweep, tasks, options);
        if options.interrupt.is_raised() {
            return Ok(());
        }
    }
}

/// What waits, and how many threads take from it. Under one lock, so that none ends while another task arrives.
struct Queue {
    tasks: VecDeque<Task>,
    running: usize,
}

/// Runs these points, and tells their rows.
fn run_all(sweep: &mut Sweep, tasks: Vec<Task>, options: &LocalOptions<'_>) {
    let threads = options.threads.clamp(1, tasks.len());
    let mut left = tasks.len();
    let queue = Mutex::new(Queue { tasks: tasks.into(), running: threads });
    let (rows, told) = mpsc::channel::<(Task, Ran)>();
    let take = || {
        let mut queue = locked(&queue);
        let task = queue.tasks.pop_front().filter(|_| !options.interrupt.is_raised());
        queue.running -= usize::from(task.is_none());
        task
    };
    let work = |rows: mpsc::Sender<(Task, Ran)>| {
        while let Some(task) = take() {
            let ran = task.run(options.cache, options.interrupt);
            if rows.send((task, ran)).is_err() {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        let start = || {
            let rows = rows.clone();
            scope.spawn(|| work(rows));
        };
        (0..threads).for_each(|_| start());
        while left > 0 {
            // Every row that is missing is on its way, unless threads ended by the interrupt.
            match told.recv_timeout(std::time::Duration::from_millis(100)) {
                Ok((task, ran)) => match sweep.tell(ran) {
                    Answer::Taken => {
                        left -= 1;
                        options.bar.one();
                    }
                    Answer::Again => {
                        let mut queue = locked(&queue);
                        queue.tasks.push_back(task);
                        if queue.running < threads {
                            queue.running += 1;
                            start();
                        }
                    }
                },
                Err(_) if options.interrupt.is_raised() => break,
                Err(_) => {}
            }
        }
    });
    // What ended between the interrupt and the last look.
    while let Ok((_, ran)) = told.try_recv() {
        sweep.tell(ran);
    }
}
