//! Submission and completion queues (NVMe Base 2.1, 3.3): which there are, and whose turn it is.
//!
//! | file | what |
//! |---|---|
//! | [`ring`] | the rings, and permits to complete a command |
//! | [`arbiter`] | whose turn it is |
//! | [`shadow`] | where shadow doorbells are |
//! | [`parked`], [`waiting`] | commands that were fetched and have no command slot yet |
//! | [`train`], [`half`], [`partial`] | what they wait for: entries, the other half, chunks |
//!
//! Nothing here fetches or executes: [`fetch`](super::fetch) does.

use crate::controller::queue::arbiter::{Arbiter, Weights};
use crate::controller::queue::ring::{CompletionQueue, Fate, SubmissionQueue};
use crate::controller::queue::shadow::Shadow;
use byteway_clock::notify::Notified;
use byteway_clock::{Clock, Notify};
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

/// Called with a queue's doorbell.
type QueueCreated = Rc<dyn Fn(Doorbell)>;

/// All queues of a controller.
pub struct Queues {
    lists: RefCell<Lists>,
    /// I/O queue pairs at most.
    io_queues_max: u16,
    /// Whose turn it is.
    pub arbiter: Arbiter,
    /// Their shadow doorbells.
    pub shadow: Shadow,
    /// I/O submission and completion queues that the host was granted.
    pub granted: Cell<Option<(u16, u16)>>,
    /// Something may have become fetchable.
    fetchable: Notify,
    /// A fetch task left entries unfetched, for want of a slot or of a free entry for a completion.
    starved: Cell<bool>,
    /// Changes whenever a queue is created or deleted.
    epoch: Cell<u64>,
    /// Told of each queue that is about to exist.
    created: RefCell<Option<QueueCreated>>,
}

impl Queues {
    /// None, of at most `io_queues_max` I/O queue pairs.
    pub fn new(clock: &Clock, io_queues_max: u16, weights: Weights) -> Self {
        let queues = Queues {
            lists: RefCell::default(),
            io_queues_max,
            arbiter: Arbiter::new(weights),
            shadow: Shadow::default(),
            granted: Cell::default(),
            fetchable: Notify::new(clock),
            starved: Cell::default(),
            epoch: Cell::default(),
            created: RefCell::default(),
        };
        queues.clear();
        queues
    }

    /// Forgets the queues, as a reset does.
    pub fn clear(&self) {
        let count = self.io_queues_max as usize + 1;
        self.lists.replace(Lists { submission: vec![None; count], completion: vec![None; count] });
        self.changed();
    }

    /// A queue was created or deleted.
    fn changed(&self) {
        self.epoch.set(self.epoch.get() + 1);
    }

    /// Another value than before: queues were created or deleted.
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

    /// Makes a completion queue known.
    pub fn add_completion(&self, queue: Rc<CompletionQueue>) {
        let id = queue.id as usize;
        self.lists.borrow_mut().completion[id] = Some(queue);
        self.changed();
    }

    /// Makes a submission queue known; the arbiter has to be told, too.
    pub fn add_submission(&self, queue: Rc<SubmissionQueue>) {
        let id = queue.id as usize;
        self.lists.borrow_mut().submission[id] = Some(queue);
        self.changed();
    }

    /// Forgets completion queue `id`.
    pub fn remove_completion(&self, id: u16) {
        self.lists.borrow_mut().completion[id as usize] = None;
        self.changed();
    }

    /// Forgets submission queue `id`.
    pub fn remove_submission(&self, id: u16) {
        self.lists.borrow_mut().submission[id as usize] = None;
        self.changed();
    }

    /// Calls `each` with all submission queues, ascending.
    pub fn each_submission(&self, each: impl FnMut(&Rc<SubmissionQueue>)) {
        self.lists.borrow().submission.iter().flatten().for_each(each);
    }

    /// Calls `each` with all completion queues, ascending.
    pub fn each_completion(&self, each: impl FnMut(&Rc<CompletionQueue>)) {
        self.lists.borrow().completion.iter().flatten().for_each(each);
    }

    /// Whether there is any I/O queue.
    pub fn has_io_queues(&self) -> bool {
        let lists = self.lists.borrow();
        lists.submission[1..].iter().any(Option::is_some) || lists.completion[1..].iter().any(Option::is_some)
    }

    /// What becomes of the commands of all submission queues.
    pub fn set_fates(&self, fate: Fate) {
        self.each_submission(|queue| queue.fate.set(fate));
    }

    /// Whether no command has a place in a queue.
    pub fn permits_are_free(&self) -> bool {
        let lists = self.lists.borrow();
        lists.submission.iter().flatten().all(|queue| queue.outstanding() == 0)
            && lists.completion.iter().flatten().all(|queue| queue.reserved() == 0)
    }

    /// From now on `created` is called with the doorbell of each queue that is about to exist.
    pub fn on_created(&self, created: Rc<dyn Fn(Doorbell)>) {
        self.created.replace(Some(created));
    }

    /// A queue is about to exist.
    pub fn announce(&self, doorbell: Doorbell) {
        let created = self.created.borrow().clone();
        if let Some(created) = created {
            created(doorbell);
        }
    }

    /// Something may have become fetchable: wakes a fetch task.
    pub fn wake_fetch(&self) {
        self.fetchable.notify_one();
    }

    /// Waits until something may have become fetchable.
    pub fn fetchable(&self) -> Notified<'_> {
        self.fetchable.notified()
    }

    /// Whether entries were left unfetched, for want of a slot or of a place for a completion.
    pub fn set_starved(&self, starved: bool) {
        self.starved.set(starved);
    }

    /// A slot or an entry for a completion is free again: what waited for it may be fetched.
    pub fn freed(&self) {
        if self.starved.take() {
            self.fetchable.notify_one();
        }
    }
}
