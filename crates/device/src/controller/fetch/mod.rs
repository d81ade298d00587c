//! Fetching: reads submission queue entries and hands each to a command slot. The number of these tasks is the number
//! of outstanding reads that the profile allows.
//!
//! A queue that may carry payload in its entries is read in order, by one task at a time. The task takes the entries of
//! a train from its batch and reads the rest, if the doorbell has exposed them; otherwise the train waits ([`train`]).
//!
//! | file | what |
//! |---|---|
//! | [`idle`] | idle tasks, for which the next read is started when a doorbell is taken |
//! | [`place`] | the resources that an entry gets before it is read |
//! | [`pairing`] | pairing the two commands of a fused operation |
//! | [`train`] | payload in the entries after its command |
//! | [`chunks`] | payload in chunks |

use crate::controller::command_set::CommandSets;
use crate::controller::core::Core;
use crate::controller::fetch::idle::{Begun, Fetcher, Idle};
use crate::controller::fetch::pairing::Pairing;
use crate::controller::fetch::place::{EntryResources, reserve_parse};
use crate::controller::queue::ring::{Fetching, QueueFate, SubmissionQueue};
use crate::controller::queue::train::Train;
use crate::controller::state::counters::add;
use crate::controller::state::slot::{Command, Payload};
use byteway_clock::{SpanId, Stage};
use byteway_link::{Direction, Entry, Fault, Purpose};
use byteway_wire::nvme::vendor::{Chunk, Framing, Methods};
use byteway_wire::nvme::{Sqe, Status};
use std::rc::Rc;

pub mod chunks;
pub mod idle;
pub mod pairing;
pub mod place;
pub mod train;

/// Maximum number of entries in one read.
const BURST_MAX: usize = 64;

/// Commands that a task fetches before it yields, where modelled waits take no time: commands may then execute as they
/// are fetched, and the host's doorbell writes must not starve.
const TURN_COMMANDS: usize = 64;

/// The buffer of a read.
type Bytes = [u8; BURST_MAX * Sqe::SIZE];

/// The next work of a fetch task.
pub enum Task {
    /// Fetches entries.
    Batch(Batch),
    /// Reads the rest of a train that has waited for the doorbell.
    Rest(Box<Rest>),
}

/// A train whose missing entries are exposed.
pub struct Rest {
    train: Train,
    /// The slot of its command.
    slot: u32,
}

/// A batch of entries in flight.
pub struct Batch {
    queue: Rc<SubmissionQueue>,
    /// Index of the first entry; the others follow it.
    first: u32,
    places: Vec<EntryResources>,
    /// The methods that were enabled for the queue when the batch was taken.
    methods: Methods,
}

/// Runs a fetch task.
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

/// Takes the next batch that may be fetched. `None` if there is none; the fetch task is woken when a resource
/// that it lacks becomes available.
fn next(core: &Core, places: &mut Vec<EntryResources>) -> Option<Task> {
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
    // Wake another fetch task. Where a read takes no time, this one continues instead.
    if !core.clock.is_immediate() && core.queues.arbiter.has_waiting() {
        core.queues.wake_fetch();
    }
    Some(task)
}

/// Takes `count` entries from `queue`, with the resources that each needs.
fn take_batch(
    core: &Core,
    queue: Rc<SubmissionQueue>,
    count: u32,
    places: &mut Vec<EntryResources>,
) -> Batch {
    debug_assert!(places.is_empty() && (1..=BURST_MAX as u32).contains(&count));
    let methods = queue.methods.get();
    if methods.is_in_order() {
        queue.fetching.set(Fetching::Held);
    }
    // In-order queues are held until all of this batch is handed out, or a second task could take payload for commands.
    let first = queue.head();
    if queue.lent.get() > 0 {
        core.parked.halves.take_back(&queue);
    }
    for _ in 0..count {
        let slot = core.slots.take(queue.id == 0).expect("the arbiter was told how many slots are free");
        let (entry, permit) = queue.take();
        let mut span = core.port.followed(queue.id, entry as u16);
        if span == SpanId::NONE && core.port.ios().is_some() {
            span = core.open_span(&queue, entry, &permit);
        }
        core.port.spans().charge(span, core.clock.now(), Stage::Doorbell);
        places.push(EntryResources { permit, slot, span });
    }
    debug_assert_eq!(places.len(), count as usize, "each entry of a batch has its resources");
    // From here to `end_read` completions report this entry as still in use (SQHD).
    queue.begin_read(first, count);
    Batch { queue, first, places: std::mem::take(places), methods }
}

/// Takes the parked train of `queue`, all of which is exposed now.
fn take_rest(core: &Core, queue: &SubmissionQueue) -> Task {
    let (train, carried) = core.parked.trains.take(queue.id).expect("what lacks entries is a train");
    let slot = core.slots.take(false).expect("the arbiter was told how many slots are free");
    core.slots.at(slot).carried.replace(carried);
    queue.fetching.set(Fetching::Held);
    core.port.spans().charge(train.span, core.clock.now(), Stage::Doorbell);
    Task::Rest(Box::new(Rest { train, slot }))
}

/// Lets other tasks fetch from the queue, unless it is broken.
fn release(queue: &SubmissionQueue) {
    if queue.fetching.get() == Fetching::Held {
        queue.fetching.set(Fetching::Free);
    }
}

/// Hands out a batch whose `read` has ended. Returns `true`, and hands out nothing, if there may be payload among the
/// entries: the caller then takes them in order.
fn hand_out(sets: &CommandSets, batch: &mut Batch, bytes: &Bytes, read: Result<(), Fault>) -> bool {
    let core = &sets.core;
    let Batch { queue, first, places, methods } = batch;
    queue.end_read(*first);
    let count = places.len() as u32;
    match read {
        Ok(()) => add(&core.counters.fetched, u64::from(count)),
        Err(_) => core.fail(),
    }
    let is_lost = read.is_err() || queue.fate.get() == QueueFate::Reset;
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

/// Hands out the entries of a batch that may contain payload, in order.
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
                let EntryResources { permit, slot, span } = place;
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
                let EntryResources { permit, slot, span } = place;
                let payload = Payload::Refused(Status::DATA_SGL_LENGTH_INVALID.with_dnr());
                core.start(
                    slot,
                    Command { sqe, permit, span, payload, second: None, parse: None, may_be_plain: false },
                );
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
        // Wait for the doorbell without the slot: only this queue waits then, and the slot executes other commands.
        queue.missing.set(missing);
        read_rest(sets, train, slot, bytes).await;
    } else {
        let carried = core.slots.at(slot).carried.take();
        core.park_train(train, carried, missing);
        core.free_slot(slot);
    }
}

/// Accounts for `carried` of the `count` submission queue entries read at `address` as payload. A read that
/// contains only payload is accounted as payload as a whole; otherwise its packets count as commands.
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

/// Moves the entries of a train that a batch holds into its slot's buffer. Returns their number.
fn load<'a>(core: &Core, slot: u32, entries: impl Iterator<Item = (EntryResources, &'a [u8])>) -> u32 {
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

/// Starts the command of a complete train in its slot.
fn depart(sets: &CommandSets, train: Train, slot: u32) {
    let core = &sets.core;
    let Train { sqe, permit, span, slots } = train;
    let parse = reserve_parse(sets, &sqe, permit.queue().id, span);
    core.slots.at(slot).carried.borrow_mut().truncate(slots.bytes as usize);
    core.start(
        slot,
        Command {
            sqe,
            permit,
            span,
            payload: Payload::Train(slots),
            second: None,
            parse,
            may_be_plain: false,
        },
    );
}

/// Reads the missing entries of a train, which the doorbell has exposed, and starts its command.
async fn read_rest(sets: &CommandSets, train: Train, slot: u32, bytes: &mut Bytes) {
    let core = &sets.core;
    let queue = train.queue().clone();
    core.clock.works_for([train.span]);
    let mut read = Ok(());
    // If the queue is being deleted, the command only has to end.
    while queue.missing.get() > 0 && queue.fate.get() == QueueFate::Live && read.is_ok() {
        read = read_some(core, &queue, slot, bytes).await;
    }
    queue.missing.set(0);
    core.port.spans().charge(train.span, core.clock.now(), Stage::Fetch);
    if read.is_err() {
        core.fail();
    }
    if read.is_err() || queue.fate.get() == QueueFate::Reset {
        core.free_slot(slot);
    } else {
        depart(sets, train, slot);
    }
}

/// Reads as many missing entries of a train as one read can.
async fn read_some(core: &Core, queue: &SubmissionQueue, slot: u32, bytes: &mut Bytes) -> Result<(), Fault> {
    let count = queue.missing.get().min(queue.contiguous()).min(core.config.controller.fetch_burst);
    debug_assert!(count > 0, "the missing entries are exposed");
    let into = &mut bytes[..count as usize * Sqe::SIZE];
    core.port.read(queue.address(queue.head()), into, Purpose::InlineChunk).await?;
    add(&core.counters.fetched, u64::from(count));
    add(&core.counters.carried_entries, u64::from(count));
    core.slots.at(slot).carried.borrow_mut().extend_from_slice(into);
    queue.consume(count);
    queue.missing.set(queue.missing.get() - count);
    Ok(())
}
