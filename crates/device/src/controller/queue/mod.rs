//! Submission and completion queues (NVMe Base 2.1, 3.3), and their arbitration.
//!
//! | file | what |
//! |---|---|
//! | [`ring`] | the rings, and permits to complete a command |
//! | [`arbiter`] | which queue is fetched from next |
//! | [`shadow`] | addresses of the shadow doorbells |
//! | [`parked`], [`waiting`] | fetched commands that have no command slot yet |
//! | [`train`], [`half`], [`partial`] | what they wait for: further entries, the other half, chunks |
//!
//! Nothing here fetches or executes: [`fetch`](super::fetch) does.

use crate::controller::queue::arbiter::{Arbiter, Weights};
use crate::controller::queue::ring::{CompletionQueue, QueueFate, SubmissionQueue};
use crate::controller::queue::shadow::Shadow;
use byteway_clock::{Clock, TaskId};
use byteway_wire::nvme::Doorbell;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

pub mod arbiter;
pub mod half;
pub mod parked;
pub mod partial;
pub mod ring;
pub mod shadow;
pub mod train;
pub mod waiting;

/// The queues by identifier; 0 is the admin queue.
#[derive(Default)]
struct Lists {
    submission: Vec<Option<Rc<SubmissionQueue>>>,
    completion: Vec<Option<Rc<CompletionQueue>>>,
}

/// A hook that is called with the doorbell of a new queue.
type QueueCreated = Rc<dyn Fn(Doorbell)>;

/// All queues of a controller.
pub struct Queues {
    lists: RefCell<Lists>,
    /// Maximum number of I/O queue pairs.
    io_queues_max: u16,
    /// Chooses the queue to fetch from.
    pub arbiter: Arbiter,
    /// Shadow doorbells of the queues.
    pub shadow: Shadow,
    /// Numbers of I/O submission and completion queues granted to the host.
    pub granted: Cell<Option<(u16, u16)>>,
    clock: Clock,
    /// The call that looks for entries to fetch, and whether it is ready.
    fetch: Cell<Option<TaskId>>,
    is_fetch_ready: Cell<bool>,
    /// The last look left entries unfetched because no command slot or completion slot was free.
    starved: Cell<bool>,
    /// Changes whenever a queue is created or deleted.
    epoch: Cell<u64>,
    /// Called with each new queue.
    created: RefCell<Option<QueueCreated>>,
}

impl Queues {
    /// No queues yet; at most `io_queues_max` I/O queue pairs.
    pub fn new(clock: &Clock, io_queues_max: u16, weights: Weights) -> Self {
        let queues = Queues {
            lists: RefCell::default(),
            io_queues_max,
            arbiter: Arbiter::new(weights),
            shadow: Shadow::default(),
            granted: Cell::default(),
            clock: clock.clone(),
            fetch: Cell::default(),
            is_fetch_ready: Cell::default(),
            starved: Cell::default(),
            epoch: Cell::default(),
            created: RefCell::default(),
        };
        queues.clear();
        queues
    }

    /// Removes all queues, as a reset does.
    pub fn clear(&self) {
        let count = self.io_queues_max as usize + 1;
        self.lists.replace(Lists { submission: vec![None; count], completion: vec![None; count] });
        self.changed();
    }

    /// Notes that a queue was created or deleted.
    fn changed(&self) {
        self.epoch.set(self.epoch.get() + 1);
    }

    /// Changes whenever a queue is created or deleted.
    pub fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// The submission queue `id`.
    pub fn submission(&self, id: u16) -> Option<Rc<SubmissionQueue>> {
        self.lists.borrow().submission.get(id as usize)?.clone()
    }

    /// The completion queue `id`.
    pub fn completion(&self, id: u16) -> Option<Rc<CompletionQueue>> {
        self.lists.borrow().completion.get(id as usize)?.clone()
    }

    /// Adds a completion queue.
    pub fn add_completion(&self, queue: Rc<CompletionQueue>) {
        let id = queue.id as usize;
        self.lists.borrow_mut().completion[id] = Some(queue);
        self.changed();
    }

    /// Adds a submission queue. The caller adds it to the arbiter, too.
    pub fn add_submission(&self, queue: Rc<SubmissionQueue>) {
        let id = queue.id as usize;
        self.lists.borrow_mut().submission[id] = Some(queue);
        self.changed();
    }

    /// Removes completion queue `id`.
    pub fn remove_completion(&self, id: u16) {
        self.lists.borrow_mut().completion[id as usize] = None;
        self.changed();
    }

    /// Removes submission queue `id`.
    pub fn remove_submission(&self, id: u16) {
        self.lists.borrow_mut().submission[id as usize] = None;
        self.changed();
    }

    /// Calls `each` with all submission queues, in ascending order.
    pub fn each_submission(&self, each: impl FnMut(&Rc<SubmissionQueue>)) {
        self.lists.borrow().submission.iter().flatten().for_each(each);
    }

    /// Calls `each` with all completion queues, in ascending order.
    pub fn each_completion(&self, each: impl FnMut(&Rc<CompletionQueue>)) {
        self.lists.borrow().completion.iter().flatten().for_each(each);
    }

    /// Whether any I/O queue exists.
    pub fn has_io_queues(&self) -> bool {
        let lists = self.lists.borrow();
        lists.submission[1..].iter().any(Option::is_some) || lists.completion[1..].iter().any(Option::is_some)
    }

    /// Sets the fate of all submission queues.
    pub fn set_fates(&self, fate: QueueFate) {
        self.each_submission(|queue| queue.fate.set(fate));
    }

    /// Whether no command holds a completion slot.
    pub fn permits_are_free(&self) -> bool {
        let lists = self.lists.borrow();
        lists.submission.iter().flatten().all(|queue| queue.outstanding() == 0)
            && lists.completion.iter().flatten().all(|queue| queue.reserved() == 0)
    }

    /// Sets the hook for new queues.
    pub fn on_created(&self, created: Rc<dyn Fn(Doorbell)>) {
        self.created.replace(Some(created));
    }

    /// Calls the hook for a new queue.
    pub fn announce(&self, doorbell: Doorbell) {
        let created = self.created.borrow().clone();
        if let Some(created) = created {
            created(doorbell);
        }
    }

    /// Sets the call that looks for entries to fetch.
    pub fn fetch_by(&self, call: TaskId) {
        self.fetch.set(Some(call));
    }

    /// Entries may have become fetchable: they are looked for once what is ready has run.
    pub fn wake_fetch(&self) {
        // At most once in the ready queue: where reads take no time, each of these calls fetches many commands before others run.
        if let Some(call) = self.fetch.get()
            && !self.is_fetch_ready.replace(true)
        {
            self.clock.wake(call);
        }
    }

    /// The call that looks for entries begins.
    pub fn fetch_begins(&self) {
        self.is_fetch_ready.set(false);
    }

    /// Records whether entries were left unfetched for lack of a command slot or completion slot.
    pub fn set_starved(&self, starved: bool) {
        self.starved.set(starved);
    }

    /// A command slot or completion slot is free again: looks for entries if some were left for it.
    pub fn freed(&self) {
        if self.starved.take() {
            self.wake_fetch();
        }
    }
}
