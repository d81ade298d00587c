//! Fetch tasks with nothing to do. Whoever takes a doorbell begins the next read for one of them, so that it is polled first when
//! the request has got there: nearly every read of entries begins so.

use crate::controller::core::Core;
use crate::controller::fetch::place::Place;
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

/// What a fetch task is to do, and how far it has been begun.
pub struct Begun {
    /// The work.
    pub task: Task,
    /// The read of the entries, if its request is on its way.
    pub reading: Option<Reading>,
}

/// A fetch task, as others see it.
pub struct Fetcher {
    task: TaskId,
    /// What was begun for it.
    begun: RefCell<Option<Begun>>,
    /// Memory for the places of a batch.
    pub places: RefCell<Vec<Place>>,
}

impl Fetcher {
    /// The task that is being polled.
    pub fn new(clock: &Clock) -> Rc<Self> {
        let places = RefCell::new(Vec::with_capacity(BURST_MAX));
        Rc::new(Fetcher { task: clock.current(), begun: RefCell::default(), places })
    }
}

/// The fetch tasks with nothing to do.
#[derive(Default)]
pub struct Idle(RefCell<VecDeque<Rc<Fetcher>>>);

impl Idle {
    /// Waits, for a fetch task, until work was begun for it; or until it should look for some: None.
    pub async fn wait(&self, core: &Core, fetcher: &Rc<Fetcher>) -> Option<Begun> {
        self.0.borrow_mut().push_back(fetcher.clone());
        let mut told = core.queues.fetchable();
        poll_fn(|context| {
            // First: it is no longer idle then, and what it was told is passed on to one that is.
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

    /// A doorbell has exposed entries: takes what may be fetched, and sends the request for a task that is idle.
    pub fn begin(&self, core: &Core) {
        let next_of = |fetcher: &Rc<Fetcher>| next(core, &mut fetcher.places.borrow_mut());
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
