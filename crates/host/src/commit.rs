//! Commit records ([`byteway_wire::nvme::vendor::commit`]): the host's end of the ring, of which a controller has one for all
//! queues.
//!
//! Who stores a pair takes a place in the ring, stores the record and waits. One task loads answers for all, a line with four of
//! them at a time, and in their order: nothing tells when one is there. Each load crosses the link, so the task doesn't load
//! always. The drive begins with a record when it is there and the one before it is answered. From then on the task waits three
//! quarters of the shortest time that an answer has lately taken, and then from load to load a sixteenth of the time that has
//! passed: an answer is found at most so much late, and one that never comes costs ever fewer loads.
//!
//! A record whose store was given up half-way would leave a hole, behind which the drive finds none; a void one fills it.

use crate::error::Lost;
use crate::port::Port;
use byteway_clock::{Clock, Delay, Notify, Permit, Semaphore, TaskId, Time};
use byteway_link::cxl::LINE_BYTES;
use byteway_wire::nvme::vendor::commit::{ANSWER_BYTES, CommitAnswer, CommitRecord, CommitRing};
use byteway_wire::{FromBytes, IntoBytes};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

/// A record that was given a number and has no answer.
#[derive(Clone, Copy)]
struct Outstanding {
    number: u32,
    /// Who waits: an entry of `waiters`.
    waiter: usize,
    /// When it was stored, once it was.
    stored: Option<Time>,
}

/// What is known of a record by who waits for it.
#[derive(Clone, Copy)]
enum Progress {
    Waiting(Option<TaskId>),
    /// Nobody waits any more.
    Abandoned,
    Ended(Result<CommitAnswer, Lost>),
}

/// The host's end of the ring.
pub(crate) struct Commits {
    clock: Clock,
    port: Port,
    ring: CommitRing,
    /// The ring's life; 0: it is off.
    generation: Cell<u32>,
    next: Cell<u32>,
    /// In the order of their numbers, which follow one another.
    outstanding: RefCell<VecDeque<Outstanding>>,
    /// Used again.
    waiters: RefCell<Vec<Progress>>,
    free: RefCell<Vec<usize>>,
    /// Places in the ring.
    places: Semaphore,
    /// The oldest may have been stored, or all is over.
    changed: Notify,
    is_closed: Cell<bool>,
    /// When the last answer was taken.
    taken: Cell<Time>,
    /// The shortest time from then, or from the record, to the next, lately.
    soonest: Cell<Delay>,
}

impl Commits {
    /// Of a ring that is off. Its task ends when it is closed.
    pub(crate) fn new(port: &Port, ring: CommitRing) -> Rc<Commits> {
        let clock = port.clock().clone();
        let commits = Rc::new(Commits {
            port: port.clone(),
            ring,
            generation: Cell::default(),
            next: Cell::new(1),
            outstanding: RefCell::default(),
            waiters: RefCell::default(),
            free: RefCell::default(),
            places: Semaphore::new(&clock, ring.records as usize),
            changed: Notify::new(&clock),
            is_closed: Cell::default(),
            taken: Cell::new(Time::ZERO),
            soonest: Cell::default(),
            clock: clock.clone(),
        });
        let task = commits.clone();
        clock.spawn("answers to commit records", async move { task.run().await });
        commits
    }

    /// Where it lies.
    pub(crate) fn ring(&self) -> CommitRing {
        self.ring
    }

    /// Whether it is on.
    pub(crate) fn is_on(&self) -> bool {
        self.generation.get() > 0
    }

    /// It is on, empty, in this life; unless it has been.
    pub(crate) fn switch_on(&self, generation: u32) {
        if self.generation.get() != generation {
            self.lose(Lost::Reset);
            self.next.set(1);
            self.generation.set(generation);
        }
    }

    /// It is off: what has no answer gets none.
    pub(crate) fn lose(&self, lost: Lost) {
        self.generation.set(0);
        loop {
            let oldest = self.outstanding.borrow_mut().pop_front();
            let Some(oldest) = oldest else { break };
            self.end(oldest.waiter, Err(lost));
        }
        self.changed.notify_one();
    }

    /// It is off for ever.
    pub(crate) fn close(&self) {
        self.is_closed.set(true);
        self.lose(Lost::Reset);
    }

    /// Whether a record has had no answer for longer than `timeout`.
    pub(crate) fn is_overdue(&self, timeout: Delay) -> bool {
        let stored = self.outstanding.borrow().front().and_then(|oldest| oldest.stored);
        stored.is_some_and(|stored| self.clock.now().since(stored) > timeout)
    }

    /// Waits for a place in the ring, which is the caller's to use.
    pub(crate) async fn place(&self) -> Permit {
        self.places.acquire(1).await
    }

    /// Gives `record` its number, for which there is a `place`.
    ///
    /// # Errors
    /// The ring is off.
    pub(crate) fn begin(&self, place: Permit, record: CommitRecord) -> Result<Committing<'_>, Lost> {
        let (generation, number) = (self.generation.get(), self.next.get());
        if generation == 0 {
            return Err(Lost::NotPlaced);
        }
        place.forget();
        self.next.set(number.wrapping_add(1));
        let mut waiters = self.waiters.borrow_mut();
        let waiter = self.free.borrow_mut().pop().unwrap_or_else(|| {
            waiters.push(Progress::Abandoned);
            waiters.len() - 1
        });
        waiters[waiter] = Progress::Waiting(None);
        self.outstanding.borrow_mut().push_back(Outstanding { number, waiter, stored: None });
        let record = record.sealed(number, generation);
        Ok(Committing { commits: self, record, waiter, is_stored: false, is_ended: false })
    }

    /// A record has ended, and has no place any more.
    fn end(&self, waiter: usize, ended: Result<CommitAnswer, Lost>) {
        let before = std::mem::replace(&mut self.waiters.borrow_mut()[waiter], Progress::Ended(ended));
        match before {
            Progress::Waiting(Some(task)) => self.clock.wake(task),
            Progress::Waiting(None) | Progress::Ended(_) => {}
            Progress::Abandoned => self.free.borrow_mut().push(waiter),
        }
        self.places.release(1);
    }

    fn stored(&self, number: u32) {
        let mut outstanding = self.outstanding.borrow_mut();
        let Some(first) = outstanding.front().map(|oldest| oldest.number) else { return };
        let index = number.wrapping_sub(first) as usize;
        if let Some(entry) = outstanding.get_mut(index) {
            entry.stored = Some(self.clock.now());
        }
        drop(outstanding);
        if index == 0 {
            self.changed.notify_one();
        }
    }

    /// Loads answers for as long as the ring is used.
    async fn run(&self) {
        let mut line = [0; LINE_BYTES as usize];
        while !self.is_closed.get() {
            let oldest = self.outstanding.borrow().front().copied();
            let Some((oldest, stored)) = oldest.and_then(|oldest| Some((oldest, oldest.stored?))) else {
                self.changed.notified().await;
                continue;
            };
            let generation = self.generation.get();
            let soonest = self.soonest.get();
            let begun = stored.max(self.taken.get());
            self.clock.sleep_until(begun + soonest.saturating_sub(soonest / 4)).await;
            let address = self.ring.answer(self.ring.index(oldest.number));
            self.port.load_lines(address - address % u64::from(LINE_BYTES), &mut line).await;
            if self.generation.get() != generation {
                continue;
            }
            let took = self.clock.now().since(begun);
            if self.take(&line) {
                let grown = soonest + soonest / 16;
                self.soonest.set(if soonest == Delay::ZERO { took } else { took.min(grown) });
                self.taken.set(self.clock.now());
            } else {
                self.clock.sleep(took / 16).await;
            }
        }
    }

    /// Takes the answers of a line, as far as it has those of the oldest. False: there was none.
    fn take(&self, line: &[u8; LINE_BYTES as usize]) -> bool {
        let mut is_new = false;
        loop {
            let oldest = self.outstanding.borrow().front().copied();
            let Some(oldest) = oldest else { break };
            let at = self.ring.answer(self.ring.index(oldest.number)) % u64::from(LINE_BYTES);
            let bytes = &line[at as usize..][..ANSWER_BYTES as usize];
            let Ok(answer) = CommitAnswer::read_from_bytes(bytes) else { break };
            if oldest.stored.is_none() || answer.number != oldest.number {
                break;
            }
            self.outstanding.borrow_mut().pop_front();
            self.end(oldest.waiter, Ok(answer));
            is_new = true;
        }
        is_new
    }
}

/// A record with a number, until it has an answer.
pub(crate) struct Committing<'a> {
    commits: &'a Commits,
    record: CommitRecord,
    waiter: usize,
    is_stored: bool,
    is_ended: bool,
}

impl Committing<'_> {
    /// What is to be stored.
    pub(crate) fn record(&self) -> &CommitRecord {
        &self.record
    }

    /// Where: its index.
    pub(crate) fn index(&self) -> u32 {
        self.commits.ring.index(self.record.number)
    }

    /// Where: its device address.
    pub(crate) fn address(&self) -> u64 {
        self.commits.ring.record(self.index())
    }

    fn is_live(&self) -> bool {
        self.record.generation == self.commits.generation.get()
    }

    /// It has been stored: waits for its answer.
    pub(crate) async fn answer(mut self) -> Result<CommitAnswer, Lost> {
        self.is_stored = true;
        if self.is_live() {
            self.commits.stored(self.record.number);
        }
        let ended = poll_fn(|_| {
            let mut waiters = self.commits.waiters.borrow_mut();
            match &mut waiters[self.waiter] {
                Progress::Ended(ended) => Poll::Ready(*ended),
                progress => {
                    *progress = Progress::Waiting(Some(self.commits.clock.current()));
                    Poll::Pending
                }
            }
        })
        .await;
        self.is_ended = true;
        self.commits.free.borrow_mut().push(self.waiter);
        ended
    }
}

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        if self.is_ended {
            return;
        }
        let commits = self.commits;
        let before = std::mem::replace(&mut commits.waiters.borrow_mut()[self.waiter], Progress::Abandoned);
        if matches!(before, Progress::Ended(_)) {
            commits.free.borrow_mut().push(self.waiter);
        }
        if !self.is_stored && self.is_live() {
            let void = CommitRecord::void().sealed(self.record.number, self.record.generation);
            commits.port.store_lines_unordered(self.address(), void.as_bytes());
            commits.stored(self.record.number);
        }
    }
}
