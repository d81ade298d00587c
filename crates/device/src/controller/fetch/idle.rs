//! Fetch tasks with nothing to do. Whoever takes a doorbell begins the next read for one of them, so that it is polled first when
//! the request has got there: nearly every read of entries begins so.

use crate::controller::core::Core;
use crate::controller::fetch::place::Place;
use crate::controller::fetch::{BURST_MAX, Task, next};
use byteway_link::{Purpose, Reading};
use byteway_wire::nvme::Sqe;
use std::cell::RefCell;
use std::future::poll_fn;
use std::task::Poll;

/// What a fetch task is to do, and how far it has been begun.
pub struct Begun {
    /// The work.
    pub task: Task,
    /// The read of the entries, if its request is on its way.
    pub reading: Option<Reading>,
}

/// What belongs to a fetch task, and lies where others can begin its work.
struct Desk {
    /// What was begun for it.
    begun: Option<Begun>,
    /// Memory for the places of a batch.
    places: Vec<Place>,
}

/// The desks of the fetch tasks, by their numbers ([`Fetchers`](crate::controller::queue::fetchers::Fetchers)).
#[derive(Default)]
pub struct Idle(RefCell<Vec<Desk>>);

impl Idle {
    /// The task that is being polled is a fetch task: gives its number.
    pub fn join(&self, core: &Core) -> u32 {
        let places = Vec::with_capacity(BURST_MAX);
        self.0.borrow_mut().push(Desk { begun: None, places });
        core.queues.fetchers.join()
    }

    /// What may be fetched next, for fetch task `number`.
    pub fn next(&self, core: &Core, number: u32) -> Option<Task> {
        next(core, &mut self.0.borrow_mut()[number as usize].places)
    }

    /// Takes the memory for its places back.
    pub fn give_back(&self, number: u32, places: Vec<Place>) {
        self.0.borrow_mut()[number as usize].places = places;
    }

    /// Waits, for fetch task `number`, until work was begun for it, or until it should look for some.
    pub async fn wait(&self, core: &Core, number: u32) {
        let fetchers = &core.queues.fetchers;
        if !fetchers.rest(number) {
            return;
        }
        let is_begun = || self.0.borrow()[number as usize].begun.is_some();
        poll_fn(|_| match is_begun() || fetchers.is_told(number) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// What was begun for fetch task `number`, if anything was.
    pub fn begun(&self, number: u32) -> Option<Begun> {
        self.0.borrow_mut()[number as usize].begun.take()
    }

    /// A doorbell has exposed entries: takes what may be fetched, and sends the request for a task that is idle.
    pub fn begin(&self, core: &Core) {
        let fetchers = &core.queues.fetchers;
        let idle = if core.clock.is_immediate() { None } else { fetchers.take() };
        let Some(number) = idle else { return fetchers.tell() };
        let Some(task) = self.next(core, number) else { return fetchers.put_back(number) };
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
        fetchers.wake_at(reading.as_ref().map_or(clock.now(), Reading::reached), number);
        self.0.borrow_mut()[number as usize].begun = Some(Begun { task, reading });
    }
}
