//! A read of entries: the resources that each gets before, and what each turns out to be.

use crate::controller::command_set::CommandSets;
use crate::controller::core::Core;
use crate::controller::fetch::entry::EntryResources;
use crate::controller::fetch::pairing::Pairing;
use crate::controller::fetch::train::Rest;
use crate::controller::queue::ring::{Fetching, QueueFate, SubmissionQueue};
use crate::controller::queue::train::Train;
use crate::controller::state::counters::add;
use crate::controller::state::slot::{Command, Payload};
use byteway_clock::{SpanId, Stage};
use byteway_link::{Direction, Entry, Fault, Purpose};
use byteway_wire::nvme::vendor::{Chunk, Framing, Methods};
use byteway_wire::nvme::{Sqe, Status};
use std::rc::Rc;

/// Maximum number of entries in one read.
pub const BURST_MAX: usize = 64;

/// A batch of entries in flight.
pub struct Batch {
    queue: Rc<SubmissionQueue>,
    /// Index of the first entry; the others follow it.
    first: u32,
    /// The methods that were enabled for the queue when the batch was taken.
    methods: Methods,
}

/// Takes `count` entries from `queue`, with the resources that each needs in `places`.
pub fn take_batch(
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
    // In-order queues are held until all of this batch is handed out, or a second read could take payload for commands.
    let first = queue.head();
    if queue.lent.get() > 0 {
        core.parked.halves.take_back(&queue);
    }
    let now = core.clock.now();
    for _ in 0..count {
        let slot = core.slots.take(queue.id == 0).expect("the arbiter was told how many slots are free");
        let (entry, permit) = queue.take();
        let mut span = core.port.followed(queue.id, entry as u16);
        if span == SpanId::NONE && core.port.ios().is_some() {
            span = core.open_span(&queue, entry, &permit);
        }
        core.clock.spans().charge(span, now, Stage::Doorbell);
        places.push(EntryResources { permit, slot, span });
    }
    debug_assert_eq!(places.len(), count as usize, "each entry of a batch has its resources");
    // From here to `end_read` completions report this entry as still in use (SQHD).
    queue.begin_read(first, count);
    Batch { queue, first, methods }
}

impl Batch {
    /// Address of the first entry.
    pub fn address(&self) -> u64 {
        self.queue.address(self.first)
    }

    /// Hands out the entries, whose `read` has ended. Returns a train whose other entries are exposed and are to be read.
    pub fn hand_out(
        self,
        sets: &CommandSets,
        places: &mut Vec<EntryResources>,
        bytes: &[u8],
        read: Result<(), Fault>,
    ) -> Option<Rest> {
        let core = &sets.core;
        let Batch { queue, first, methods } = self;
        queue.end_read(first);
        let count = places.len() as u32;
        match read {
            Ok(()) => add(&core.counters.fetched, u64::from(count)),
            Err(_) => core.fail(),
        }
        let is_lost = read.is_err() || queue.fate.get() == QueueFate::Reset;
        if methods.is_in_order() && !is_lost {
            return hand_out_in_order(sets, &queue, (first, methods), places, bytes);
        }
        let (now, spans) = (core.clock.now(), core.clock.spans());
        let mut pairing = Pairing::new(sets, &queue, first);
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
            queue.release();
        }
        None
    }
}

fn entry_of(bytes: &[u8]) -> Sqe {
    Sqe::from_bytes(bytes.try_into().expect("an entry is 64 bytes"))
}

/// Hands out the entries of a batch that may contain payload, in order.
fn hand_out_in_order(
    sets: &CommandSets,
    queue: &Rc<SubmissionQueue>,
    (first, methods): (u32, Methods),
    places: &mut Vec<EntryResources>,
    bytes: &[u8],
) -> Option<Rest> {
    let core = &sets.core;
    let count = places.len() as u32;
    let now = core.clock.now();
    let mut entries = places.drain(..).zip(bytes.chunks_exact(Sqe::SIZE)).zip(0..);
    let mut carried = 0;
    let mut rest = None;
    let mut pairing = Pairing::new(sets, queue, first);
    while let Some(((place, entry), index)) = entries.next() {
        core.port.spans().charge(place.span, now, Stage::Fetch);
        let sqe = entry_of(entry);
        let framing = sets.framing(&sqe, methods);
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
                    train.depart(sets, slot);
                } else {
                    rest = Some((train, slot, count - found));
                }
            }
            Framing::Train(_) => {
                core.break_queue(queue);
                let EntryResources { permit, slot, span } = place;
                let payload = Payload::Refused(Status::DATA_SGL_LENGTH_INVALID.with_dnr());
                core.start(slot, Command::new(sqe, permit, span, payload));
                entries.by_ref().for_each(|((place, _), _)| place.give_back(core));
            }
        }
    }
    drop(entries);
    pairing.end(count);
    if carried > 0 {
        add(&core.counters.carried_entries, u64::from(carried));
        book_payload(core, queue.address(first), carried, count);
    }
    let rest = rest.and_then(|(train, slot, missing)| {
        if queue.waiting() >= missing {
            queue.owed.set(queue.owed.get() + missing);
            // Wait for the doorbell without the slot: only this queue waits then, and the slot executes other commands.
            queue.missing.set(missing);
            return Some(Rest::new(train, slot));
        }
        let carried = core.slots.at(slot).carried.take();
        core.park_train(train, carried, missing);
        core.free_slot(slot);
        None
    });
    if rest.is_none() {
        queue.release();
    }
    rest
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
