//! Fetching: reads submission queue entries and hands each to a slot. As many of these tasks run as the profile allows
//! reads outstanding.
//!
//! A queue with payload among its entries is taken in order, by one task at a time. What a batch holds of a train is taken
//! from it, and the rest is read on, if the doorbell has exposed that; else the train waits ([`train`]).
//!
//! | file | what |
//! |---|---|
//! | [`idle`] | tasks with nothing to do, for which whoever takes a doorbell begins the next read |
//! | [`place`] | what an entry is given before it is read |
//! | [`pairing`] | the two commands of a fused operation find each other |
//! | [`train`] | payload in the entries behind its command |
//! | [`chunks`] | payload in chunks |

use crate::controller::command_set::CommandSets;
use crate::controller::core::Core;
use crate::controller::fetch::idle::{Begun, Fetcher, Idle};
use crate::controller::fetch::pairing::Pairing;
use crate::controller::fetch::place::{Place, reserve_parse};
use crate::controller::queue::ring::{Fate, Fetching, SubmissionQueue};
use crate::controller::queue::train::Train;
use crate::controller::state::counters::add;
use crate::controller::state::slot::{Command, Payload};
use byteway_clock::Stage;
use byteway_link::{Direction, Entry, Fault, Purpose};
use byteway_wire::nvme::vendor::{Chunk, Framing, Methods};
use byteway_wire::nvme::{Sqe, Status};
use std::rc::Rc;

pub mod chunks;
pub mod idle;
pub mod pairing;
pub mod place;
pub mod train;

/// Entries in one read, at most.
const BURST_MAX: usize = 64;

/// Commands that a task fetches before others have their turn, where modelled waits take no time: they may be executed as they
/// are fetched, and the host's doorbells must not starve.
const TURN_COMMANDS: usize = 64;

/// What is read into.
type Bytes = [u8; BURST_MAX * Sqe::SIZE];

/// What a fetch task does next.
pub enum Task {
    /// Fetches entries.
    Batch(Batch),
    /// Reads what a train lacks, which has waited for the doorbell.
    Rest(Box<Rest>),
}

/// A train, the rest of which was exposed.
pub struct Rest {
    train: Train,
    /// The slot for its command.
    slot: u32,
}

/// A batch of entries being fetched.
pub struct Batch {
    queue: Rc<SubmissionQueue>,
    /// The first entry's slot in the ring; they follow one another.
    first: u32,
    places: Vec<Place>,
    /// What was enabled for the queue when the batch was taken.
    methods: Methods,
}

/// A fetch task's life.
pub async fn run(sets: Rc<CommandSets>, idle: Rc<Idle>) {
    let core = &sets.core;
    let fetcher = Fetcher::new(&core.clock);
    let mut bytes: Box<Bytes> = Box::new([0; BURST_MAX * Sqe::SIZE]);
    let mut fetched = 0;
    loop {
        let task = next(core, &mut fetcher.places.borrow_mut());
        let begun = match task {
            Some(task) => Begun { task, reading: None },
            None => {
                fetched = 0;
                let Some(begun) = idle.wait(core, &fetcher).await else { continue };
                begun
            }
        };
        match begun.task {
            Task::Batch(mut batch) => {
                fetched += batch.places.len();
                core.clock.works_for(batch.places.iter().map(|place| place.span));
                let into = &mut bytes[..batch.places.len() * Sqe::SIZE];
                let read = match begun.reading {
                    Some(reading) => reading.end(into).await,
                    None => core.port.read(batch.queue.address(batch.first), into, Purpose::SqeFetch).await,
                };
                if hand_out(&sets, &mut batch, &bytes, read) {
                    take_in_order(&sets, &mut batch, &mut bytes).await;
                    release(&batch.queue);
                }
                fetcher.places.replace(batch.places);
            }
            Task::Rest(rest) => {
                let Rest { train, slot } = *rest;
                let queue = train.queue().clone();
                read_rest(&sets, train, slot, &mut bytes).await;
                release(&queue);
            }
        }
        core.end();
        if fetched >= TURN_COMMANDS && core.clock.is_immediate() {
            core.clock.yield_now().await;
            fetched = 0;
        }
    }
}

/// Takes the next batch that may be fetched. None: there is none, and whatever gives what is lacking wakes a fetch task.
fn next(core: &Core, places: &mut Vec<Place>) -> Option<Task> {
    let is_waiting = core.queues.arbiter.has_waiting();
    let csts = core.registers.csts.get();
    let mut picked = None;
    if is_waiting && csts.rdy() && !csts.cfs() {
        core.port.settle_writes();
        let (admin, io) = core.slots.free();
        let most = core.config.controller.fetch_burst.min(io);
        picked = core.queues.arbiter.pick(admin, io > 0, most);
    }
    let Some((queue, count)) = picked else {
        // With a free slot it is a place in a completion queue that is lacking: the host's doorbell gives it.
        core.port.heed_quiet_writes(is_waiting && core.slots.free().1 > 0);
        core.queues.set_starved(is_waiting);
        return None;
    };
    core.begin();
    let task = match queue.missing.get() {
        0 => Task::Batch(take_batch(core, queue, count, places)),
        missing => {
            queue.owed.set(queue.owed.get() + missing.saturating_sub(count));
            take_rest(core, &queue)
        }
    };
    // For another fetch task; where a read takes no time, this one goes on.
    if !core.clock.is_immediate() && core.queues.arbiter.has_waiting() {
        core.queues.wake_fetch();
    }
    Some(task)
}

/// Takes `count` entries from `queue`.
fn take_batch(core: &Core, queue: Rc<SubmissionQueue>, count: u32, places: &mut Vec<Place>) -> Batch {
    let methods = queue.methods.get();
    if methods.is_in_order() {
        queue.fetching.set(Fetching::Held);
    }
    let first = queue.head();
    if queue.lent.get() > 0 {
        core.parked.halves.take_back(&queue);
    }
    for _ in 0..count {
        let slot = core.slots.take(queue.id == 0).expect("the arbiter was told how many slots are free");
        let (entry, permit) = queue.take();
        let span = core.port.followed(queue.id, entry as u16);
        core.port.spans().charge(span, core.clock.now(), Stage::Doorbell);
        places.push(Place { permit, slot, span });
    }
    queue.begin_read(first);
    Batch { queue, first, places: std::mem::take(places), methods }
}

/// Takes the train that waits in `queue`, all of which is there now.
fn take_rest(core: &Core, queue: &SubmissionQueue) -> Task {
    let (train, carried) = core.parked.trains.take(queue.id).expect("what lacks entries is a train");
    let slot = core.slots.take(false).expect("the arbiter was told how many slots are free");
    core.slots.at(slot).carried.replace(carried);
    queue.fetching.set(Fetching::Held);
    core.port.spans().charge(train.span, core.clock.now(), Stage::Doorbell);
    Task::Rest(Box::new(Rest { train, slot }))
}

/// Another task may fetch from the queue, unless it is broken.
fn release(queue: &SubmissionQueue) {
    if queue.fetching.get() == Fetching::Held {
        queue.fetching.set(Fetching::Free);
    }
}

/// Hands out a batch whose `read` has ended, unless there may be payload among its entries: then it is true, and they are to be
/// taken in order.
fn hand_out(sets: &CommandSets, batch: &mut Batch, bytes: &Bytes, read: Result<(), Fault>) -> bool {
    let core = &sets.core;
    let Batch { queue, first, places, methods } = batch;
    queue.end_read(*first);
    let count = places.len() as u32;
    match read {
        Ok(()) => add(&core.counters.fetched, u64::from(count)),
        Err(_) => core.fail(),
    }
    let is_lost = read.is_err() || queue.fate.get() == Fate::Reset;
    if methods.is_in_order() && !is_lost {
        return true;
    }
    let (now, spans) = (core.clock.now(), core.clock.spans());
    let mut pairing = Pairing::new(sets, queue, *first);
    for ((place, entry), index) in places.drain(..).zip(bytes.chunks_exact(Sqe::SIZE)).zip(0..) {
        spans.charge(place.span, now, Stage::Fetch);
        match is_lost {
            true => place.give_back(core),
            false => pairing.command(index, entry_of(entry), place),
        }
    }
    if !is_lost {
        pairing.end(count);
    }
    if methods.is_in_order() {
        release(queue);
    }
    false
}

fn entry_of(bytes: &[u8]) -> Sqe {
    Sqe::from_bytes(bytes.try_into().expect("an entry is 64 bytes"))
}

/// Hands out the entries of a batch, among which there may be payload.
async fn take_in_order(sets: &CommandSets, batch: &mut Batch, bytes: &mut Bytes) {
    let core = &sets.core;
    let Batch { queue, first, places, methods, .. } = batch;
    let count = places.len() as u32;
    let now = core.clock.now();
    let mut entries = places.drain(..).zip(bytes.chunks_exact(Sqe::SIZE)).zip(0..);
    let mut carried = 0;
    let mut rest = None;
    let mut pairing = Pairing::new(sets, queue, *first);
    while let Some(((place, entry), index)) = entries.next() {
        core.port.spans().charge(place.span, now, Stage::Fetch);
        let sqe = entry_of(entry);
        let framing = sets.framing(&sqe, *methods);
        let is_chunked = methods.reassembly() && Chunk::named_by(&sqe).is_some();
        if framing == Framing::Command && !is_chunked {
            pairing.command(index, sqe, place);
            continue;
        }
        pairing.part(index);
        match framing {
            Framing::Command => core.take_chunked(sqe, place),
            Framing::Chunk => {
                carried += 1;
                core.take_chunk(&sqe, place);
            }
            Framing::Train(slots) if core.takes_train(queue, slots) => {
                let Place { permit, slot, span } = place;
                let count = slots.count();
                let behind = entries.by_ref().map(|(entry, _)| entry).take(count as usize);
                let found = load(core, slot, behind);
                carried += found;
                let train = Train { sqe, permit, span, slots };
                if found == count {
                    depart(sets, train, slot);
                } else {
                    rest = Some((train, slot, count - found));
                }
            }
            Framing::Train(_) => {
                core.break_queue(queue);
                let Place { permit, slot, span } = place;
                let payload = Payload::Refused(Status::DATA_SGL_LENGTH_INVALID.with_dnr());
                core.start(slot, Command { sqe, permit, span, payload, second: None, parse: None });
                entries.by_ref().for_each(|((place, _), _)| place.give_back(core));
            }
        }
    }
    drop(entries);
    pairing.end(count);
    if carried > 0 {
        add(&core.counters.carried_entries, u64::from(carried));
        book_payload(core, queue.address(*first), carried, count);
    }
    let Some((train, slot, missing)) = rest else { return };
    if queue.waiting() >= missing {
        queue.owed.set(queue.owed.get() + missing);
        queue.missing.set(missing);
        read_rest(sets, train, slot, bytes).await;
    } else {
        let carried = core.slots.at(slot).carried.take();
        core.park_train(train, carried, missing);
        core.free_slot(slot);
    }
}

/// Of the `count` entries that were read from `address` on, `carried` were payload. A read of nothing else is the
/// payload's with all that it took; otherwise its packets are the commands'.
fn book_payload(core: &Core, address: u64, carried: u32, count: u32) {
    let (ledger, link) = (core.port.ledger(), core.port.config());
    let bytes = u64::from(carried) * Sqe::SIZE as u64;
    let mut part = Entry { tlps: 0, payload: bytes, wire: bytes };
    if carried == count {
        let requests = link.read_requests(address, bytes).carrying(0);
        ledger.reassign(Purpose::SqeFetch, Purpose::InlineChunk, Direction::Up, requests);
        part = link.read_completions(address, bytes).carrying(bytes);
    }
    ledger.reassign(Purpose::SqeFetch, Purpose::InlineChunk, Direction::Down, part);
}

/// Puts what a batch holds of a train into the buffer of its slot; gives how many entries that was.
fn load<'a>(core: &Core, slot: u32, entries: impl Iterator<Item = (Place, &'a [u8])>) -> u32 {
    let mut carried = core.slots.at(slot).carried.borrow_mut();
    carried.clear();
    let mut found = 0;
    for (place, entry) in entries {
        place.give_back(core);
        carried.extend_from_slice(entry);
        found += 1;
    }
    found
}

/// A train is complete: its command goes to its slot.
fn depart(sets: &CommandSets, train: Train, slot: u32) {
    let core = &sets.core;
    let Train { sqe, permit, span, slots } = train;
    let parse = reserve_parse(sets, &sqe, permit.queue().id, span);
    core.slots.at(slot).carried.borrow_mut().truncate(slots.bytes as usize);
    core.start(slot, Command { sqe, permit, span, payload: Payload::Train(slots), second: None, parse });
}

/// Reads the entries that a train lacks, which the doorbell has exposed, and lets it depart.
async fn read_rest(sets: &CommandSets, train: Train, slot: u32, bytes: &mut Bytes) {
    let core = &sets.core;
    let queue = train.queue().clone();
    core.clock.works_for([train.span]);
    let mut read = Ok(());
    // Of a queue that is being deleted the command only has to end.
    while queue.missing.get() > 0 && queue.fate.get() == Fate::Live && read.is_ok() {
        read = read_some(core, &queue, slot, bytes).await;
    }
    queue.missing.set(0);
    core.port.spans().charge(train.span, core.clock.now(), Stage::Fetch);
    if read.is_err() {
        core.fail();
    }
    if read.is_err() || queue.fate.get() == Fate::Reset {
        core.free_slot(slot);
    } else {
        depart(sets, train, slot);
    }
}

/// Reads as many of the entries that a train lacks as one read can.
async fn read_some(core: &Core, queue: &SubmissionQueue, slot: u32, bytes: &mut Bytes) -> Result<(), Fault> {
    let count = queue.missing.get().min(queue.contiguous()).min(core.config.controller.fetch_burst);
    let into = &mut bytes[..count as usize * Sqe::SIZE];
    core.port.read(queue.address(queue.head()), into, Purpose::InlineChunk).await?;
    add(&core.counters.fetched, u64::from(count));
    add(&core.counters.carried_entries, u64::from(count));
    core.slots.at(slot).carried.borrow_mut().extend_from_slice(into);
    queue.consume(count);
    queue.missing.set(queue.missing.get() - count);
    Ok(())
}
