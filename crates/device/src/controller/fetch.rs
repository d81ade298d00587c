//! Fetching: reads submission queue entries and hands each to a slot. As many of these tasks run as the profile allows
//! reads outstanding.

use crate::controller::Core;
use crate::controller::log::add;
use crate::controller::queue::{Fate, Permit, SubmissionQueue};
use crate::controller::slot::Command;
use byteway_clock::{SpanId, Stage};
use byteway_link::Purpose;
use byteway_wire::nvme::Sqe;
use std::rc::Rc;

/// Entries in one read, at most.
const BURST_MAX: usize = 64;

/// A batch of entries being fetched.
struct Batch {
    queue: Rc<SubmissionQueue>,
    /// The first entry's slot in the ring; they follow one another.
    first: u32,
    places: Vec<Place>,
}

/// For an entry: its permit, the command slot that will execute it, and who follows it.
struct Place {
    permit: Permit,
    slot: u32,
    span: SpanId,
}

/// A fetch task's life.
pub async fn run(core: Rc<Core>) {
    let mut bytes = [0u8; BURST_MAX * Sqe::SIZE];
    let mut places = Vec::with_capacity(BURST_MAX);
    loop {
        let waiting = core.arbiter.has_waiting();
        let Some(mut batch) = waiting.then(|| next(&core, &mut places)).flatten() else {
            core.starved.set(waiting);
            core.fetchable.notified().await;
            continue;
        };
        fetch(&core, &mut batch, &mut bytes).await;
        places = batch.places;
        core.end();
    }
}

/// Takes the next batch that may be fetched.
fn next(core: &Core, places: &mut Vec<Place>) -> Option<Batch> {
    if !core.registers.csts.get().rdy() || core.registers.csts.get().cfs() {
        return None;
    }
    let (admin, io) = (!core.free_admin_slots.borrow().is_empty(), core.free_slots.borrow().len() as u32);
    let most = core.config.controller.fetch_burst.min(io);
    let (queue, count) = core.arbiter.pick(admin, io > 0, most)?;
    core.begin();
    let mut first = None;
    for _ in 0..count {
        let slot = core.take_slot(queue.id == 0).expect("the arbiter was told how many slots are free");
        let (entry, permit) = queue.take();
        first.get_or_insert(entry);
        let span = core.port.followed(queue.id, entry as u16);
        core.port.spans().charge(span, core.clock.now(), Stage::Doorbell);
        places.push(Place { permit, slot, span });
    }
    if core.arbiter.has_waiting() {
        core.fetchable.notify_one(); // for another fetch task
    }
    Some(Batch { queue, first: first.unwrap_or_default(), places: std::mem::take(places) })
}

async fn fetch(core: &Rc<Core>, batch: &mut Batch, bytes: &mut [u8; BURST_MAX * Sqe::SIZE]) {
    let queue = &batch.queue;
    let count = batch.places.len();
    let into = &mut bytes[..count * Sqe::SIZE];
    let spans = core.port.spans();
    core.clock.works_for(batch.places.iter().map(|place| place.span));
    let read = core.port.read(queue.address(batch.first), into, Purpose::SqeFetch).await;
    match read {
        Ok(()) => add(&core.counters.fetched, count as u64),
        Err(_) => core.fail(),
    }
    for (Place { permit, slot, span }, entry) in batch.places.drain(..).zip(into.chunks_exact(Sqe::SIZE)) {
        spans.charge(span, core.clock.now(), Stage::Fetch);
        if read.is_err() || queue.fate.get() == Fate::Reset {
            drop(permit);
            core.free_slot(slot);
            continue;
        }
        let sqe = Sqe::from_bytes(entry.try_into().expect("an entry is 64 bytes"));
        core.begin();
        core.slots[slot as usize].dispatch(Command { sqe, permit, span });
    }
}
