//! Cursors: few at once, and none that is not used for a while, because each holds what it has found.

use crate::config::CsdPolicy;
use byteway_clock::{Clock, Delay, Notify, Stage, TaskId, Time};
use byteway_wire::nvme::Status;
use byteway_wire::nvme::vendor::csd::{END, Problem};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a query that is executed has found and nobody has fetched yet.
pub(crate) struct Found {
    /// Bytes from the first on that were fetched are no more in it.
    bytes: RefCell<Vec<u8>>,
    state: RefCell<State>,
    /// Bytes that a fetch waits for.
    wanted: Cell<usize>,
    /// What is done at the moment: what a fetch waits for.
    doing: Cell<Stage>,
    /// There is more, or less, or nothing will come any more.
    pub(crate) changed: Notify,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Going,
    Ended,
    Failed(Problem),
    /// Its cursor was closed: by a reset, or with its namespace.
    Gone,
}

impl Found {
    pub(crate) fn new(clock: &Clock) -> Found {
        Found {
            bytes: RefCell::default(),
            state: RefCell::new(State::Going),
            wanted: Cell::default(),
            doing: Cell::new(Stage::Firmware),
            changed: Notify::new(clock),
        }
    }

    /// Whether more than `most` bytes wait to be fetched, and nobody waits for more than there are.
    pub(crate) fn is_full(&self, most: usize) -> bool {
        self.bytes() > most.max(self.wanted.get())
    }

    fn bytes(&self) -> usize {
        self.bytes.borrow().len()
    }

    /// More has been found.
    pub(crate) fn add(&self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.bytes.borrow_mut().extend_from_slice(bytes);
        self.changed.notify_all();
    }

    /// That was all.
    pub(crate) fn end(&self) {
        self.state.replace(State::Ended);
        self.changed.notify_all();
    }

    /// There is no result, or no more of it: the words say why.
    pub(crate) fn fail(&self, problem: Problem, words: &str) {
        self.bytes.replace(words.as_bytes().to_vec());
        self.state.replace(State::Failed(problem));
        self.changed.notify_all();
    }

    /// Its cursor is closed, and nothing will come any more: whoever waits looks why.
    fn close(&self) {
        self.state.replace(State::Gone);
        self.changed.notify_all();
    }

    pub(crate) fn is_gone(&self) -> bool {
        *self.state.borrow() == State::Gone
    }

    /// From now on something else is done: who waits charges what was done up to now.
    pub(crate) fn set_doing(&self, stage: Stage) {
        if self.doing.replace(stage) != stage {
            self.changed.notify_all();
        }
    }

    pub(crate) fn doing(&self) -> Stage {
        self.doing.get()
    }

    /// Whether a fetch of so many bytes need not wait. If it must, so many are found though nobody fetches meanwhile.
    pub(crate) fn has(&self, bytes: usize) -> bool {
        let has = *self.state.borrow() != State::Going || self.bytes() >= bytes;
        let wanted = if has { 0 } else { bytes };
        if self.wanted.replace(wanted) != wanted {
            self.changed.notify_all();
        }
        has
    }

    /// Moves up to so many bytes into `into`, which holds these alone then; gives DW1 of the completion.
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
    /// Whose namespace it is about.
    uid: u64,
    /// When it is ended.
    until: Time,
    /// A command uses it.
    is_used: bool,
    found: Rc<Found>,
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
    /// None yet.
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

    /// Whether there may be one more.
    pub(crate) fn check_room(&self) -> Result<(), Status> {
        self.end_late();
        if self.table.borrow().len() >= self.most { Err(Status::COMMAND_SEQUENCE_ERROR) } else { Ok(()) }
    }

    /// Opens one, which `tasks` look after: they end with it.
    pub(crate) fn open(&self, uid: u64, found: Rc<Found>, tasks: Vec<TaskId>) -> u32 {
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

    /// Takes one of a namespace for a command.
    pub(crate) fn take(&self, id: u32, uid: u64) -> Result<Rc<Found>, Status> {
        let mut table = self.table.borrow_mut();
        let entry = table.get_mut(&id).filter(|entry| entry.uid == uid);
        let entry = entry.ok_or(Status::INVALID_FIELD.with_dnr())?;
        if std::mem::replace(&mut entry.is_used, true) {
            return Err(Status::COMMAND_SEQUENCE_ERROR.with_dnr());
        }
        entry.until = Time(u64::MAX);
        Ok(entry.found.clone())
    }

    /// Gives it back, unless it was ended meanwhile.
    pub(crate) fn give_back(&self, id: u32) {
        if let Some(entry) = self.table.borrow_mut().get_mut(&id) {
            entry.is_used = false;
            entry.until = self.clock.now() + self.timeout;
            self.begun.notify_one();
        }
    }

    /// Closes one, whatever is done for it.
    pub(crate) fn close(&self, id: u32) {
        let entry = self.table.borrow_mut().remove(&id);
        entry.into_iter().for_each(|entry| self.end(entry));
    }

    /// Closes all.
    pub(crate) fn clear(&self) {
        let all = self.table.take();
        all.into_values().for_each(|entry| self.end(entry));
    }

    /// Closes those of a namespace.
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

    /// Closes those that are not used for too long.
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
