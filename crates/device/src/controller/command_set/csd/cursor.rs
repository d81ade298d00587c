//! Cursors of running queries. Each holds result bytes in DRAM, so their number is limited and unused ones
//! time out.

use crate::config::CsdPolicy;
use byteway_clock::{Clock, Delay, Notify, Stage, TaskId, Time};
use byteway_wire::nvme::Status;
use byteway_wire::nvme::vendor::csd::{END, Problem};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Output of a running query that the host has not fetched yet.
pub(crate) struct PendingOutput {
    /// Unfetched bytes; fetches remove them from the front.
    bytes: RefCell<Vec<u8>>,
    state: RefCell<State>,
    /// Bytes that the waiting fetch needs; 0 if none waits.
    wanted: Cell<usize>,
    /// Current activity of the query, to which a waiting fetch charges its time.
    doing: Cell<Stage>,
    /// Notified when bytes are added or removed, or the state, the activity or `wanted` changes.
    pub(crate) changed: Notify,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Going,
    Ended,
    Failed(Problem),
    /// The cursor was closed, by a reset or with its namespace.
    Gone,
}

impl PendingOutput {
    pub(crate) fn new(clock: &Clock) -> PendingOutput {
        PendingOutput {
            bytes: RefCell::default(),
            state: RefCell::new(State::Going),
            wanted: Cell::default(),
            doing: Cell::new(Stage::Firmware),
            changed: Notify::new(clock),
        }
    }

    /// Whether the query has to pause: more than `most` bytes are unfetched, and no fetch waits for more.
    pub(crate) fn is_full(&self, most: usize) -> bool {
        self.bytes() > most.max(self.wanted.get())
    }

    fn bytes(&self) -> usize {
        self.bytes.borrow().len()
    }

    /// Appends result bytes.
    pub(crate) fn add(&self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.bytes.borrow_mut().extend_from_slice(bytes);
        self.changed.notify_all();
    }

    /// Marks the result as complete.
    pub(crate) fn end(&self) {
        self.state.replace(State::Ended);
        self.changed.notify_all();
    }

    /// Ends the result with a failure. The error text replaces bytes that were not fetched.
    pub(crate) fn fail(&self, problem: Problem, words: &str) {
        self.bytes.replace(words.as_bytes().to_vec());
        self.state.replace(State::Failed(problem));
        self.changed.notify_all();
    }

    /// Closes the result: no more bytes will come. A waiting fetch ends.
    fn close(&self) {
        self.state.replace(State::Gone);
        self.changed.notify_all();
    }

    pub(crate) fn is_gone(&self) -> bool {
        *self.state.borrow() == State::Gone
    }

    /// Sets the current activity. Wakes a waiting fetch, which charges its time so far to the previous one.
    pub(crate) fn set_doing(&self, stage: Stage) {
        if self.doing.replace(stage) != stage {
            self.changed.notify_all();
        }
    }

    pub(crate) fn doing(&self) -> Stage {
        self.doing.get()
    }

    /// Whether a fetch of `bytes` bytes can complete now. If not, records the need, so that the query does
    /// not pause before it has produced that much.
    pub(crate) fn has(&self, bytes: usize) -> bool {
        let has = *self.state.borrow() != State::Going || self.bytes() >= bytes;
        let wanted = if has { 0 } else { bytes };
        if self.wanted.replace(wanted) != wanted {
            self.changed.notify_all();
        }
        has
    }

    /// Moves up to `bytes` bytes into `into`, replacing its contents. Returns DW1 of the completion.
    pub(crate) fn take(&self, bytes: usize, into: &mut Vec<u8>) -> u32 {
        let mut found = self.bytes.borrow_mut();
        let count = bytes.min(found.len());
        into.clear();
        into.extend(found.drain(..count));
        let dw1 = match *self.state.borrow() {
            State::Ended if found.is_empty() => END,
            State::Failed(problem) if found.is_empty() => problem.dw1(),
            State::Failed(problem) => problem.dw1() & !END,
            State::Going | State::Ended | State::Gone => 0,
        };
        self.changed.notify_all();
        dw1
    }
}

struct Entry {
    /// Namespace that the cursor belongs to.
    uid: u64,
    /// Expiry; the maximum while a command uses the cursor.
    until: Time,
    /// A command uses the cursor.
    is_used: bool,
    found: Rc<PendingOutput>,
    tasks: Vec<TaskId>,
}

/// All cursors of a controller.
pub struct Cursors {
    clock: Clock,
    table: RefCell<BTreeMap<u32, Entry>>,
    most: usize,
    timeout: Delay,
    next: Cell<u32>,
    begun: Notify,
}

impl Cursors {
    pub(crate) fn new(clock: &Clock, policy: Option<&CsdPolicy>) -> Cursors {
        Cursors {
            clock: clock.clone(),
            table: RefCell::default(),
            most: policy.map_or(0, |policy| policy.cursors_max as usize),
            timeout: policy.map_or(Delay::ZERO, |policy| policy.timeout),
            next: Cell::new(1),
            begun: Notify::new(clock),
        }
    }

    /// Checks that a further cursor may be opened.
    ///
    /// # Errors
    /// [`Status::COMMAND_SEQUENCE_ERROR`] if the maximum number is open.
    pub(crate) fn check_room(&self) -> Result<(), Status> {
        self.end_late();
        if self.table.borrow().len() >= self.most { Err(Status::COMMAND_SEQUENCE_ERROR) } else { Ok(()) }
    }

    /// Opens a cursor for `found` and returns its identifier. `tasks` are killed when the cursor closes.
    pub(crate) fn open(&self, uid: u64, found: Rc<PendingOutput>, tasks: Vec<TaskId>) -> u32 {
        let mut table = self.table.borrow_mut();
        let mut id = self.next.get().max(1);
        while table.contains_key(&id) {
            id = id.wrapping_add(1).max(1);
        }
        self.next.set(id.wrapping_add(1));
        table.insert(id, Entry { uid, until: self.clock.now() + self.timeout, is_used: false, found, tasks });
        self.begun.notify_one();
        id
    }

    /// Borrows a cursor of namespace `uid` for a command.
    ///
    /// # Errors
    /// [`Status::INVALID_FIELD`] for an unknown cursor, [`Status::COMMAND_SEQUENCE_ERROR`] if another command
    /// uses it.
    pub(crate) fn take(&self, id: u32, uid: u64) -> Result<Rc<PendingOutput>, Status> {
        let mut table = self.table.borrow_mut();
        let entry = table.get_mut(&id).filter(|entry| entry.uid == uid);
        let entry = entry.ok_or(Status::INVALID_FIELD.with_dnr())?;
        if std::mem::replace(&mut entry.is_used, true) {
            return Err(Status::COMMAND_SEQUENCE_ERROR.with_dnr());
        }
        entry.until = Time(u64::MAX);
        Ok(entry.found.clone())
    }

    /// Returns a borrowed cursor and restarts its timeout. No effect if it was closed in the meantime.
    pub(crate) fn give_back(&self, id: u32) {
        if let Some(entry) = self.table.borrow_mut().get_mut(&id) {
            entry.is_used = false;
            entry.until = self.clock.now() + self.timeout;
            self.begun.notify_one();
        }
    }

    /// Closes a cursor, even if a query is running for it.
    pub(crate) fn close(&self, id: u32) {
        let entry = self.table.borrow_mut().remove(&id);
        entry.into_iter().for_each(|entry| self.end(entry));
    }

    /// Closes all cursors.
    pub(crate) fn clear(&self) {
        let all = self.table.take();
        all.into_values().for_each(|entry| self.end(entry));
    }

    /// Closes the cursors of a namespace.
    pub(crate) fn end_of(&self, uid: u64) {
        self.end_those(|entry| entry.uid == uid);
    }

    fn end_late(&self) {
        let now = self.clock.now();
        self.end_those(|entry| entry.until <= now);
    }

    fn end_those(&self, which: impl Fn(&Entry) -> bool) {
        self.table.borrow_mut().retain(|_, entry| {
            let ends = which(entry);
            if ends {
                entry.tasks.drain(..).for_each(|task| self.clock.kill(task));
                entry.found.close();
            }
            !ends
        });
    }

    fn end(&self, entry: Entry) {
        entry.tasks.into_iter().for_each(|task| self.clock.kill(task));
        entry.found.close();
    }

    fn until(&self) -> Option<Time> {
        self.table.borrow().values().map(|entry| entry.until).min()
    }

    /// Closes cursors whose timeout has expired.
    pub(crate) async fn run(&self, clock: &Clock) {
        loop {
            self.end_late();
            match self.until() {
                Some(until) if until < Time(u64::MAX) => clock.timer(until.since(clock.now())).await,
                _ => self.begun.notified().await,
            }
        }
    }
}
