//! Fetching: reads of submission queue entries.
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | the reads in flight, each a record that calls carry on |
//! | [`batch`] | a read of entries: from which queue, and what each entry turns out to be |
//! | [`train`] | payload behind its command, and reads of what a doorbell exposes of it later |
//! | [`chunks`] | payload in chunks |
//! | [`pairing`] | fused operations |
//! | [`entry`] | the resources of an entry, and the start of its command |
//!
//! The call that takes a doorbell picks what may be fetched and sends the request at once; two more calls sample memory and hand the
//! entries out. Only a read that is more than one batch of requests is a task's.

use crate::controller::command_set::CommandSets;
use crate::controller::core::Core;
use crate::controller::fetch::batch::{BURST_MAX, Batch, take_batch};
use crate::controller::fetch::entry::EntryResources;
use crate::controller::fetch::train::Rest;
use byteway_clock::{CreditPlace, Handler, SpanId, TaskId, Time};
use byteway_link::{Epoch, Fault, Part, Purpose};
use byteway_wire::nvme::{Segment, Sqe};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

pub mod batch;
pub mod chunks;
pub mod entry;
pub mod pairing;
pub mod train;

/// Commands that are fetched before others run, where modelled waits take no time: commands may then execute as they
/// are fetched, and the host's doorbell writes must not starve.
const TURN_COMMANDS: usize = 64;

/// Index of the call that looks for work; the others are those of the reads.
const LOOK: u32 = u32::MAX;

/// The reads of entries of a controller, as many as may be in flight.
pub struct Fetches {
    sets: Rc<CommandSets>,
    calls: OnceCell<Handler>,
    all: Vec<RefCell<Fetch>>,
    /// Those without work.
    idle: RefCell<Vec<u32>>,
}

/// A read of entries.
struct Fetch {
    work: Work,
    step: Step,
    /// The instant at which the step is due, if it waits for one.
    due: Time,
    /// Resources of the entries of a batch. Reused, as are the bytes.
    places: Vec<EntryResources>,
    bytes: Box<[u8]>,
    /// The last task that has read for it.
    reader: Option<TaskId>,
}

/// What is read.
enum Work {
    /// Nothing.
    None,
    /// Entries.
    Batch(Batch),
    /// The rest of a train that has waited for the doorbell. Boxed, since this is rare and large.
    Rest(Box<Rest>),
}

/// The next step of a read.
enum Step {
    /// None, or a task's.
    None,
    /// There are tags for its requests.
    Ask(Part, CreditPlace),
    /// The requests have reached memory.
    Sample(Part),
    /// The last byte has arrived.
    Receive(Part),
}

impl Fetches {
    /// Has calls fetch the entries of a controller.
    pub fn start(sets: &Rc<CommandSets>) -> (Rc<Fetches>, Handler) {
        let core = &sets.core;
        let idle = || {
            RefCell::new(Fetch {
                work: Work::None,
                step: Step::None,
                due: Time::ZERO,
                places: Vec::with_capacity(BURST_MAX),
                bytes: vec![0; BURST_MAX * Sqe::SIZE].into(),
                reader: None,
            })
        };
        let count = core.config.controller.fetch_outstanding;
        let fetches = Rc::new(Fetches {
            sets: sets.clone(),
            calls: OnceCell::new(),
            all: (0..count).map(|_| idle()).collect(),
            idle: RefCell::new((0..count).rev().collect()),
        });
        let called = fetches.clone();
        let calls = core.clock.handle(move |index| match index {
            LOOK => {
                called.sets.core.queues.fetch_begins();
                called.look();
            }
            _ => called.go_on(index),
        });
        fetches.calls.set(calls).ok();
        core.queues.fetch_by(calls.with(LOOK));
        (fetches, calls)
    }

    /// A doorbell has exposed entries.
    pub fn exposed(self: &Rc<Self>) {
        let core = &self.sets.core;
        // In immediate mode nothing is gained by a read now, and the host may be in the middle of its doorbell write.
        if core.clock.is_immediate() { core.queues.wake_fetch() } else { self.look() }
    }

    /// Has a read that is idle look for work.
    fn look(self: &Rc<Self>) {
        let Some(index) = self.idle.borrow_mut().pop() else { return };
        self.go_ahead(index, &mut self.all[index as usize].borrow_mut());
    }

    fn call(&self, index: u32) -> TaskId {
        self.calls.get().expect("a read begins once its calls are there").with(index)
    }

    /// Takes the next work and begins its read; without any, is idle.
    fn go_ahead(self: &Rc<Self>, index: u32, fetch: &mut Fetch) {
        let core = &self.sets.core;
        let mut fetched = 0;
        loop {
            fetch.work = next(core, &mut fetch.places);
            if matches!(fetch.work, Work::None) {
                break;
            }
            if !core.clock.is_immediate() {
                return self.begin(index, fetch);
            }
            fetched += fetch.places.len();
            self.read_at_once(fetch);
            core.end();
            if fetched >= TURN_COMMANDS {
                core.queues.wake_fetch();
                break;
            }
        }
        self.idle.borrow_mut().push(index);
    }

    /// Begins a read. Its call is made when the requests have reached memory.
    fn begin(self: &Rc<Self>, index: u32, fetch: &mut Fetch) {
        let (clock, port) = (&self.sets.core.clock, &self.sets.core.port);
        let (segment, purpose) = self.wanted(fetch);
        let Some(part) = port.part(segment) else { return self.read_apart(index, fetch, segment, purpose) };
        // Its I/Os are not those of the call that takes a doorbell.
        fetch.note_ios(&self.sets.core);
        match port.try_ask_for_part(&part, purpose) {
            Some(reached) => {
                (fetch.step, fetch.due) = (Step::Sample(part), reached);
                clock.wake_at(reached, self.call(index));
            }
            None => {
                fetch.step = Step::Ask(part, CreditPlace::default());
                clock.wake(self.call(index));
            }
        }
        clock.works_for([]);
    }

    /// The memory that a read wants, and what for.
    #[inline]
    fn wanted(&self, fetch: &Fetch) -> (Segment, Purpose) {
        let (address, count, purpose) = match &fetch.work {
            Work::Batch(batch) => (batch.address(), fetch.places.len() as u32, Purpose::SqeFetch),
            Work::Rest(rest) => (rest.address(), rest.wanted(&self.sets.core), Purpose::InlineChunk),
            Work::None => (0, 0, Purpose::SqeFetch),
        };
        (Segment { address, bytes: count * Sqe::SIZE as u32 }, purpose)
    }

    /// Carries a read on, as far as it goes without a wait.
    fn go_on(self: &Rc<Self>, index: u32) {
        let core = &self.sets.core;
        let fetch = &mut *self.all[index as usize].borrow_mut();
        debug_assert!(
            fetch.due <= core.clock.now() || core.clock.is_immediate(),
            "each step has one call, once it is due"
        );
        if fetch.due > Time::ZERO {
            core.clock.note_call(std::mem::take(&mut fetch.due));
        }
        fetch.note_ios(core);
        loop {
            let (segment, purpose) = self.wanted(fetch);
            let at = match &mut fetch.step {
                Step::None => return,
                Step::Ask(part, place) => {
                    let part = *part;
                    let Some(reached) = core.port.ask_for_part(&part, purpose, place) else { return };
                    fetch.step = Step::Sample(part);
                    reached
                }
                Step::Sample(part) => {
                    let part = *part;
                    let into = &mut fetch.bytes[..segment.bytes as usize];
                    match core.port.sample_bytes(&part, purpose, into) {
                        Ok(arrival) => {
                            fetch.step = Step::Receive(part);
                            arrival
                        }
                        Err(fault) => return self.ended(index, fetch, Err(fault)),
                    }
                }
                Step::Receive(part) => {
                    core.port.release_part(part);
                    return self.ended(index, fetch, Ok(()));
                }
            };
            if !core.clock.has_passed(at) {
                fetch.due = at;
                return;
            }
        }
    }

    /// The read of what is wanted has ended.
    fn ended(self: &Rc<Self>, index: u32, fetch: &mut Fetch, read: Result<(), Fault>) {
        fetch.step = Step::None;
        if self.take(fetch, read) {
            return self.begin(index, fetch);
        }
        self.sets.core.end();
        self.go_ahead(index, fetch);
    }

    /// Takes what was read. `true`: there is more to be read.
    fn take(&self, fetch: &mut Fetch, read: Result<(), Fault>) -> bool {
        let sets = &*self.sets;
        let Fetch { work, places, bytes, .. } = fetch;
        let rest = match std::mem::replace(work, Work::None) {
            Work::Batch(batch) => batch.hand_out(sets, places, bytes, read).map(Box::new),
            Work::Rest(mut rest) => {
                rest.take(&sets.core, bytes, read);
                Some(rest)
            }
            Work::None => None,
        };
        match rest {
            Some(rest) if rest.goes_on() => {
                *work = Work::Rest(rest);
                true
            }
            Some(rest) => {
                rest.end(sets);
                false
            }
            None => false,
        }
    }

    /// Reads where modelled waits take no time.
    fn read_at_once(&self, fetch: &mut Fetch) {
        let core = &self.sets.core;
        loop {
            fetch.note_ios(core);
            let (segment, purpose) = self.wanted(fetch);
            let bytes = &mut fetch.bytes;
            let into = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
            let read = core.port.gather_at_once([segment], Epoch::LAST, 1, purpose, into);
            if !self.take(fetch, read) {
                return;
            }
        }
    }

    /// Has a task read what takes more than one batch of requests.
    #[cold]
    fn read_apart(self: &Rc<Self>, index: u32, fetch: &mut Fetch, segment: Segment, purpose: Purpose) {
        let (fetches, core) = (self.clone(), &self.sets.core);
        let (mut bytes, ios) = (std::mem::take(&mut fetch.bytes), fetch.ios().collect::<Vec<_>>());
        let reader = core.clock.spawn("fetch", async move {
            let core = &fetches.sets.core;
            core.clock.works_for(ios);
            let into = &mut bytes[..segment.bytes as usize];
            let read = core.port.read(segment.address, into, purpose).await;
            let fetch = &mut *fetches.all[index as usize].borrow_mut();
            fetch.bytes = bytes;
            fetches.ended(index, fetch, read);
        });
        // It ends with the controller's power, as the others do. The one before it has ended.
        let mut tasks = core.tasks.borrow_mut();
        let before = fetch.reader.replace(reader);
        match tasks.iter_mut().find(|task| Some(**task) == before) {
            Some(task) => *task = reader,
            None => tasks.push(reader),
        }
    }
}

impl Drop for Fetches {
    fn drop(&mut self) {
        let port = &self.sets.core.port; // it outlives the drive
        for fetch in &mut self.all {
            match &mut fetch.get_mut().step {
                Step::None => {}
                Step::Ask(_, place) => port.give_up_tags(place),
                Step::Sample(part) | Step::Receive(part) => port.release_part(part),
            }
        }
    }
}

impl Fetch {
    /// The I/Os that are fetched.
    fn ios(&self) -> impl Iterator<Item = SpanId> {
        let rest = match &self.work {
            Work::Rest(rest) => Some(rest.span()),
            Work::Batch(_) | Work::None => None,
        };
        self.places.iter().map(|place| place.span).chain(rest)
    }

    #[inline]
    fn note_ios(&self, core: &Core) {
        if core.clock.is_traced() {
            core.clock.works_for(self.ios());
        }
    }
}

/// Takes the next work that may be fetched. If there is none, a call looks again when a resource that it lacks becomes available.
fn next(core: &Core, places: &mut Vec<EntryResources>) -> Work {
    let is_waiting = core.queues.arbiter.has_waiting();
    let csts = core.registers.csts.get();
    let mut picked = None;
    if is_waiting && csts.rdy() && !csts.cfs() {
        // Head doorbells are taken lazily: before completion slots are counted, take what has arrived.
        core.port.settle_writes();
        let (admin, io) = core.slots.free();
        let most = core.config.controller.fetch_burst.min(io);
        picked = core.queues.arbiter.pick(admin, io > 0, most);
    }
    let Some((queue, count)) = picked else {
        // A command slot is free, so a completion slot is missing: the host's head doorbell will free one.
        core.port.heed_quiet_writes(is_waiting && core.slots.free().1 > 0);
        core.queues.set_starved(is_waiting);
        return Work::None;
    };
    core.begin();
    let work = match queue.missing.get() {
        0 => Work::Batch(take_batch(core, queue, count, places)),
        missing => {
            queue.owed.set(queue.owed.get() + missing.saturating_sub(count));
            Work::Rest(Box::new(Rest::take_parked(core, &queue)))
        }
    };
    // Another read takes what is left. Where a read takes no time, this one does.
    if !core.clock.is_immediate() && core.queues.arbiter.has_waiting() {
        core.queues.wake_fetch();
    }
    work
}
