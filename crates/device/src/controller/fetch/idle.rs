//! Idle fetch tasks. The code that takes a doorbell starts the next read on behalf of an idle task, which is first
//! polled when the request has arrived: nearly every read of entries starts like this.

use crate::controller::core::Core;
use crate::controller::fetch::place::EntryResources;
use crate::controller::fetch::{BURST_MAX, Task, next};
use byteway_clock::{Clock, TaskId};
use byteway_link::{Purpose, Reading};
use byteway_wire::nvme::Sqe;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

/// Work for a fetch task, and how far it was started.
pub struct Begun {
    /// The work.
    pub task: Task,
    /// The read of the entries, if its request was sent.
    pub reading: Option<Reading>,
}

/// A fetch task, as others see it.
pub struct Fetcher {
    task: TaskId,
    /// The work started for it.
    begun: RefCell<Option<Begun>>,
    /// Memory for the resources of a batch, reused.
    pub places: RefCell<Vec<EntryResources>>,
}

impl Fetcher {
    /// The task that is being polled.
    pub fn new(clock: &Clock) -> Rc<Self> {
        let places = RefCell::new(Vec::with_capacity(BURST_MAX));
        Rc::new(Fetcher { task: clock.current(), begun: RefCell::default(), places })
    }
}

/// Idle fetch tasks.
#[derive(Default)]
pub struct Idle(RefCell<VecDeque<Rc<Fetcher>>>);

impl Idle {
    /// Waits for work. Returns a fetch that was started for the task, or `None` if the task must look for work itself.
    pub async fn wait(&self, core: &Core, fetcher: &Rc<Fetcher>) -> Option<Begun> {
        self.0.borrow_mut().push_back(fetcher.clone());
        let mut told = core.queues.fetchable();
        poll_fn(|context| {
            // Check this first: the task is then no longer idle, and a notification that it got passes on to one that
            // is.
            if let Some(begun) = fetcher.begun.take() {
                return Poll::Ready(Some(begun));
            }
            Pin::new(&mut told).poll(context).map(|()| {
                self.0.borrow_mut().retain(|idle| !Rc::ptr_eq(idle, fetcher));
                None
            })
        })
        .await
    }

    /// Called when a doorbell has exposed entries: picks what may be fetched, and sends the request for an idle task.
    pub fn begin(&self, core: &Core) {
        let next_of = |fetcher: &Rc<Fetcher>| next(core, &mut fetcher.places.borrow_mut());
        // In immediate mode reads take no time, so nothing is gained by starting one early.
        let fetcher = match core.clock.is_immediate() {
            true => None,
            false => self.0.borrow_mut().pop_front(),
        };
        let Some(fetcher) = fetcher else { return core.queues.wake_fetch() };
        let Some(task) = next_of(&fetcher) else { return self.0.borrow_mut().push_front(fetcher) };
        let clock = &core.clock;
        let reading = match &task {
            Task::Batch(batch) => {
                clock.works_for(batch.places.iter().map(|place| place.span));
                let bytes = batch.places.len() * Sqe::SIZE;
                core.port.begin_read(batch.queue.address(batch.first), bytes, Purpose::SqeFetch)
            }
            Task::Rest(_) => None,
        };
        clock.works_for([]);
        clock.wake_at(reading.as_ref().map_or(clock.now(), Reading::reached), fetcher.task);
        fetcher.begun.replace(Some(Begun { task, reading }));
    }
}
