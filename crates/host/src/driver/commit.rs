//! The host's end of the ring of commit records ([`byteway_wire::nvme::vendor::commit`]), of which a controller has one
//! for all queues.
//!
//! A task that stores a pair takes a slot of the ring, stores the record and waits. One task loads the answers for all
//! of them, in order, a line with four answers at a time. The device does not signal an answer, and each load crosses
//! the link, so the task does not load continuously. The drive starts with a record when it is stored and the previous
//! one is answered. From then on the task waits three quarters of the shortest recent answer time, and then between
//! loads a sixteenth of the time that has passed: an answer is found at most that much late, and one that never arrives
//! costs ever fewer loads.
//!
//! A record whose store was cancelled halfway would leave a gap at which the drive stops; a void record fills it.

use crate::driver::port::Port;
use crate::error::Lost;
use byteway_clock::{Clock, Delay, Notify, Permit, Semaphore, TaskId, Time};
use byteway_link::cxl::LINE_BYTES;
use byteway_wire::nvme::vendor::commit::{ANSWER_BYTES, CommitAnswer, CommitRecord, CommitRing};
use byteway_wire::{FromBytes, IntoBytes};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

/// A numbered record without an answer.
#[derive(Clone, Copy)]
struct Outstanding {
    number: u32,
    /// Index in `waiters`.
    waiter: usize,
    /// Instant of the store; `None` before it.
    stored: Option<Time>,
}

/// The state of a record for the task that waits for it.
#[derive(Clone, Copy)]
enum Progress {
    Waiting(Option<TaskId>),
    /// No task waits for it.
    Abandoned,
    Ended(Result<CommitAnswer, Lost>),
}

/// The host's end of the ring.
pub(crate) struct Commits {
    clock: Clock,
    port: Port,
    ring: CommitRing,
    /// Generation of the ring; 0: it is off.
    generation: Cell<u32>,
    next: Cell<u32>,
    /// In the order of their consecutive numbers.
    outstanding: RefCell<VecDeque<Outstanding>>,
    /// Reused.
    waiters: RefCell<Vec<Progress>>,
    free: RefCell<Vec<usize>>,
    /// Free slots of the ring.
    places: Semaphore,
    /// The oldest record may have been stored, or the ring is closed.
    changed: Notify,
    is_closed: Cell<bool>,
    /// Instant at which the last reply was taken.
    taken: Cell<Time>,
    /// The shortest recent time from that, or from the record, to the next answer.
    soonest: Cell<Delay>,
}

impl Commits {
    /// A ring that is off. Its task ends when it is closed.
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

    /// Location of the ring.
    pub(crate) fn ring(&self) -> CommitRing {
        self.ring
    }

    /// Whether it is on.
    pub(crate) fn is_on(&self) -> bool {
        self.generation.get() > 0
    }

    /// Switches the ring on, empty, with this generation, unless it is on.
    pub(crate) fn switch_on(&self, generation: u32) {
        if self.generation.get() != generation {
            self.lose(Lost::Reset);
            self.next.set(1);
            self.generation.set(generation);
        }
    }

    /// Switches the ring off: outstanding records get no answer.
    pub(crate) fn lose(&self, lost: Lost) {
        self.generation.set(0);
        loop {
            let oldest = self.outstanding.borrow_mut().pop_front();
            let Some(oldest) = oldest else { break };
            self.end(oldest.waiter, Err(lost));
        }
        self.changed.notify_one();
    }

    /// Switches the ring off permanently.
    pub(crate) fn close(&self) {
        self.is_closed.set(true);
        self.lose(Lost::Reset);
    }

    /// Whether a record has been unanswered for longer than `timeout`.
    pub(crate) fn is_overdue(&self, timeout: Delay) -> bool {
        let stored = self.outstanding.borrow().front().and_then(|oldest| oldest.stored);
        stored.is_some_and(|stored| self.clock.now().since(stored) > timeout)
    }

    /// Waits for a slot of the ring.
    pub(crate) async fn place(&self) -> Permit {
        self.places.acquire(1).await
    }

    /// Gives `record` its number, in a slot obtained before.
    ///
    /// # Errors
    /// [`Lost`] if the ring is off.
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

    /// Ends a record and frees its slot.
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

    /// Loads answers while the ring is in use.
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

    /// Takes the answers in a line, from the oldest record on. `false`: there was none.
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

/// A numbered record, until it is answered.
pub(crate) struct Committing<'a> {
    commits: &'a Commits,
    record: CommitRecord,
    waiter: usize,
    is_stored: bool,
    is_ended: bool,
}

impl Committing<'_> {
    /// The record to store.
    pub(crate) fn record(&self) -> &CommitRecord {
        &self.record
    }

    /// Index in the ring.
    pub(crate) fn index(&self) -> u32 {
        self.commits.ring.index(self.record.number)
    }

    /// Device address of the record.
    pub(crate) fn address(&self) -> u64 {
        self.commits.ring.record(self.index())
    }

    fn is_live(&self) -> bool {
        self.record.generation == self.commits.generation.get()
    }

    /// Waits for the answer, once the record is stored.
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
