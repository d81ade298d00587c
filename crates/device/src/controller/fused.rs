//! Fused operations (NVMe Base 2.1, 3.4.2): two commands that are executed as one. There is one in the NVM command set,
//! Compare and Write.
//!
//! **How the two find each other.** The second is in the entry behind the first, and one doorbell write exposes both. They
//! are put together when they have been fetched ([`Pairing`]), and executed in one command slot. Where a read of entries
//! ends between them, the first waits here, without a slot, for the read of the second:
//!
//! - if that is in flight, it ends by itself. Reads of a queue end in the order in which they began, as the link is in order;
//! - if the second is exposed and not taken, the first lends its place in the completion queue meanwhile, so that it holds
//!   nothing that the other needs ([`Permit::lend`](super::queue::Permit::lend)).
//!
//! Abort, deletion of the queue and a reset end the wait. A half without the other (the next entry is not exposed, or is no
//! second) is aborted; so is one whose completion queue could never hold both completions.
//!
//! Payload comes where the data pointers say. A command whose payload lies in its queue is no half.
//!
//! **How they are executed.** The payloads of both are there before the units are locked: [`Exchange`](byteway_firmware::Exchange)
//! keeps every other command from changing them between the comparison and the write. The completions are posted in the
//! order of the commands.

use crate::controller::fetch::{Place, start};
use crate::controller::io::{self, Landing, Workspace, check_equal, check_readable, fetch_units, status_of};
use crate::controller::log::add;
use crate::controller::namespace::{Namespace, Span};
use crate::controller::partial::Waiting;
use crate::controller::queue::{Fate, SubmissionQueue};
use crate::controller::slot::{Command, Member, Payload, Slot};
use crate::controller::{Context, Core};
use byteway_clock::Stage;
use byteway_firmware::Work;
use byteway_wire::content::{Content, Keep, UNIT_BYTES, marred_parts};
use byteway_wire::nvme::command::{FUSE_FIRST, FUSE_NONE, FUSE_SECOND};
use byteway_wire::nvme::{NvmOpcode, ReadWrite, Sqe, Status};
use std::cell::RefCell;
use std::rc::Rc;

/// Blocks of one Compare and Write, at most, of every format (ACWU, one-based). They touch no more units than they are,
/// wherever they begin.
pub fn blocks_max(core: &Core) -> u32 {
    core.ftl.exchange_units_max().min(1 << 16)
}

/// A first command that waits for the second.
struct Half {
    /// The slot of its entry in the ring.
    entry: u32,
    command: Waiting,
}

impl Half {
    fn is(&self, sqid: u16, cid: u16) -> bool {
        self.command.permit.queue().id == sqid && self.command.sqe.cid() == cid
    }
}

/// The first commands that wait for their second: at most one at the end of each read.
#[derive(Default)]
pub struct Halves(RefCell<Vec<Half>>);

impl Halves {
    fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Forgets them, as a reset does: they do not complete.
    pub fn clear(&self) {
        drop(self.0.take());
    }

    /// Those of `queue` that have lent their places take them again.
    pub fn take_back(&self, queue: &SubmissionQueue) {
        let halves = self.0.borrow();
        let own = halves.iter().filter(|half| half.command.permit.queue().id == queue.id);
        own.for_each(|half| half.command.permit.take_back());
    }

    fn put(&self, entry: u32, command: Waiting) {
        self.0.borrow_mut().push(Half { entry, command });
    }

    /// Takes the first half that is meant.
    fn take(&self, is_meant: impl Fn(&Half) -> bool) -> Option<Waiting> {
        let mut halves = self.0.borrow_mut();
        let index = halves.iter().position(is_meant)?;
        Some(halves.remove(index).command)
    }

    fn take_at(&self, queue: &SubmissionQueue, entry: u32) -> Option<Waiting> {
        self.take(|half| half.entry == entry && half.command.permit.queue().id == queue.id)
    }
}

impl Core {
    /// Aborts the command `cid` of queue `sqid`, if it waits for the other half and can complete.
    pub(super) fn abort_half(&self, sqid: u16, cid: u16) -> bool {
        let half = self.halves.take(|half| half.is(sqid, cid) && half.command.permit.has_place());
        half.map(|half| self.refuse_half(half, Status::ABORT_REQUESTED)).is_some()
    }

    /// The queue is being deleted: its halves end. One whose completion has no place ends without: it is completed
    /// implicitly by the deletion (NVMe Base 2.1, 5.2.4).
    pub(super) fn delete_halves(&self, qid: u16) {
        while let Some(half) = self.halves.take(|half| half.command.permit.queue().id == qid) {
            if half.permit.has_place() {
                self.refuse_half(half, Status::ABORTED_SQ_DELETED);
            }
        }
    }

    fn refuse_half(&self, half: Waiting, status: Status) {
        half.permit.take_back();
        self.refuse_waiting(half, status);
    }
}

/// A command that may be one of two, and its slot, if it has one.
struct Candidate {
    command: Waiting,
    slot: Option<u32>,
}

impl Candidate {
    fn fetched(sqe: Sqe, place: Place) -> Self {
        let Place { permit, slot, span } = place;
        Candidate { command: Waiting { sqe, permit, span }, slot: Some(slot) }
    }
}

/// Hands out the commands of one read of entries, the two of a fused operation together.
pub struct Pairing<'a> {
    core: &'a Core,
    queue: &'a SubmissionQueue,
    /// The read's first entry.
    first: u32,
    /// A first half in the entry before.
    open: Option<Candidate>,
}

impl<'a> Pairing<'a> {
    /// For the read of `queue` that began with entry `first` and has ended.
    pub fn new(core: &'a Core, queue: &'a SubmissionQueue, first: u32) -> Self {
        Pairing { core, queue, first, open: None }
    }

    /// The entry `index` of the read is this command. Entries come in order.
    #[inline]
    pub fn command(&mut self, index: u32, sqe: Sqe, place: Place) {
        let is_behind_half = self.open.is_some() || index == 0 && !self.core.halves.is_empty();
        match sqe.fuse() {
            FUSE_NONE if !is_behind_half => start(self.core, sqe, place),
            _ => self.look(index, sqe, place),
        }
    }

    /// The entry `index` of the read is something else.
    pub fn part(&mut self, index: u32) {
        if let Some(first) = self.before(index) {
            self.end_alone(first);
        }
    }

    #[cold]
    fn look(&mut self, index: u32, sqe: Sqe, place: Place) {
        let before = self.before(index);
        let (core, queue) = (self.core, self.queue);
        let fuse = if queue.id == 0 { FUSE_NONE } else { sqe.fuse() }; // the admin commands refuse it themselves
        match (before, fuse) {
            (Some(first), FUSE_SECOND) => return self.start_both(first, sqe, place),
            (Some(first), _) => self.end_alone(first),
            (None, _) => {}
        }
        match fuse {
            FUSE_FIRST => self.open = Some(Candidate::fetched(sqe, place)),
            FUSE_SECOND => self.end_alone(Candidate::fetched(sqe, place)),
            _ => start(core, sqe, place),
        }
    }

    /// The first half in the entry before `index`, if there is one.
    fn before(&mut self, index: u32) -> Option<Candidate> {
        if index > 0 || self.core.halves.is_empty() {
            return self.open.take();
        }
        let queue = self.queue;
        let before = if self.first == 0 { queue.entries() - 1 } else { self.first - 1 };
        let command = self.core.halves.take_at(queue, before)?;
        Some(Candidate { command, slot: None })
    }

    /// All `count` entries of the read were handed out.
    pub fn end(mut self, count: u32) {
        if let Some(first) = self.open.take() {
            self.leave(first, count);
        }
    }

    /// The first half in the last of `count` entries waits for the entry behind, if that can come.
    fn leave(&self, first: Candidate, count: u32) {
        let (core, queue) = (self.core, self.queue);
        let next = queue.after(self.first, count);
        let is_coming = queue.is_reading_from(next);
        let is_exposed = queue.head() == next && queue.waiting() > 0;
        // A queue is full with one entry empty.
        let holds_both = queue.completion_queue.entries() > 2;
        let can_wait = is_coming || is_exposed && holds_both;
        if !is_live(queue) || !can_wait {
            return self.end_alone(first);
        }
        let Candidate { command, slot } = first;
        if !is_coming {
            command.permit.lend();
        }
        core.halves.put(queue.after(self.first, count - 1), command);
        if let Some(slot) = slot {
            core.free_slot(slot);
        }
        // For the place that was lent: another queue may have waited for it.
        core.room();
    }

    fn start_both(&self, first: Candidate, second: Sqe, place: Place) {
        let core = self.core;
        let Waiting { sqe, permit, span } = first.command;
        core.port.spans().charge(span, core.clock.now(), Stage::Fetch);
        if let Some(spare) = first.slot {
            core.free_slot(spare);
        }
        let Place { permit: second_permit, slot, span: second_span } = place;
        let second = Waiting { sqe: second, permit: second_permit, span: second_span };
        let second = Some(Box::new(second));
        core.start(slot, Command { sqe, permit, span, payload: Payload::Pointer, second });
    }

    /// A half without the other.
    fn end_alone(&self, half: Candidate) {
        let status = Status::ABORTED_MISSING_FUSED;
        let Candidate { command, slot } = half;
        match slot {
            Some(slot) => {
                let Waiting { sqe, permit, span } = command;
                let payload = Payload::Refused(status);
                self.core.start(slot, Command { sqe, permit, span, payload, second: None });
            }
            None => self.core.refuse_half(command, status),
        }
    }
}

fn is_live(queue: &SubmissionQueue) -> bool {
    queue.fate.get() == Fate::Live
}

/// Executes a fused operation, and completes both commands, in a slot that the caller frees.
pub async fn run(core: &Rc<Core>, slot: &Slot, workspace: &mut Workspace, first: Waiting, second: Waiting) {
    let queue = first.permit.queue().clone();
    core.clock.works_for([first.span, second.span]);
    let both = [(&first, Member::First), (&second, Member::Second)].map(|(command, member)| {
        let Waiting { sqe, permit, span } = command;
        Context { core, slot, queue: &queue, permit, sqe, span: *span, payload: Payload::Pointer, member }
    });
    (workspace.failed_lba, workspace.failed_dword, workspace.failed_information) = (0, 0, 0);
    let parsed = [
        core.placement.chain(Work::Fetch, Work::Parse).await,
        core.placement.chain(Work::Fetch, Work::Parse).await,
    ];
    let pipelines = io::pipeline(core, both[0].sqe) + io::pipeline(core, both[1].sqe);
    core.clock.sleep_until(parsed[0].end.max(parsed[1].end) + pipelines).await;
    both.iter().for_each(|context| context.charge_firmware(parsed[0].queued + parsed[1].queued));
    let statuses = execute(&both, workspace).await;
    core.operations.command_ended();
    core.persistence.counted();
    both[1].charge(Stage::Queueing); // until here for what the first needed alone
    let complete = core.placement.run(Work::Complete, 2).await;
    both[0].charge_firmware(complete.queued);
    both[1].charge_firmware(complete.queued);
    if queue.fate.get() != Fate::Reset {
        for (Waiting { sqe, permit, span }, status) in [first, second].into_iter().zip(statuses) {
            if status != Status::SUCCESS {
                core.errors.record(queue.id, &sqe, status, workspace.failed_lba, 0);
            }
            core.post(permit, sqe.cid(), status, [0; 2], span);
        }
    }
    slot.clear(statuses[0], statuses[1]);
}

/// What both commands complete with.
async fn execute(both: &[Context<'_>; 2], workspace: &mut Workspace) -> [Status; 2] {
    let [first, second] = both;
    if let Err(status) = first.check_queue() {
        return [status; 2];
    }
    if !is_compare_and_write(first, second) {
        return [Status::INVALID_FIELD.with_dnr(); 2];
    }
    let status_of = |outcome: Result<(), Status>| outcome.err().unwrap_or(Status::SUCCESS);
    match compare_and_write(first, second, workspace).await {
        Ok(written) => [Status::SUCCESS, status_of(written)],
        // A queue that is deleted aborts the second for that.
        Err(failed) => [failed, second.check_queue().err().unwrap_or(Status::ABORTED_FAILED_FUSED)],
    }
}

/// Whether the two are a fused operation that there is, over the same blocks.
fn is_compare_and_write(first: &Context<'_>, second: &Context<'_>) -> bool {
    let blocks = |sqe| {
        let ReadWrite { slba, nlb_z, .. } = ReadWrite::parse(sqe);
        (sqe.nsid, slba, nlb_z)
    };
    NvmOpcode(first.sqe.opcode()) == NvmOpcode::COMPARE
        && NvmOpcode(second.sqe.opcode()) == NvmOpcode::WRITE
        && blocks(first.sqe) == blocks(second.sqe)
        && !first.core.inventory.is_kv(first.sqe.nsid)
}

/// Compares, and writes if what is there is equal. An error is the first's, and then nothing is written; what the second
/// fails with leaves the first as it is.
async fn compare_and_write(
    first: &Context<'_>,
    second: &Context<'_>,
    workspace: &mut Workspace,
) -> Result<Result<(), Status>, Status> {
    let core = first.core;
    let (compare, write) = (ReadWrite::parse(first.sqe), ReadWrite::parse(second.sqe));
    let (namespace, span) = first.transfer(&compare, workspace)?;
    if compare.blocks() > blocks_max(core) {
        return Err(Status::ATOMIC_WRITE_UNIT_EXCEEDED.with_dnr());
    }
    first.check()?;
    first.bring(workspace, span.bytes, Landing::Bytes).await?;
    let expected = std::mem::take(&mut workspace.bytes);
    second.charge(Stage::Queueing);
    let prepared = prepare_write(second, workspace, &namespace, span).await;
    let new = std::mem::take(&mut workspace.bytes);
    first.charge(Stage::Queueing);
    first.check()?;
    first.commit(compare.fua).await?;
    let spans = core.port.spans();
    let exchange = match prepared {
        Ok(()) => {
            let units: Vec<u64> =
                (0..u64::from(span.units)).map(|index| namespace.run(span.unit + index, 1).0).collect();
            let exchange = core.ftl.exchange(first.span, spans, &units).await;
            exchange.map_err(|error| status_of(error, Status::WRITE_FAULT))
        }
        Err(status) => Err(status),
    };
    let exchange = match exchange {
        Ok(exchange) => exchange,
        Err(status) => {
            // Nothing will be written; what is compared stands for itself.
            fetch_units(first, workspace, &namespace, span).await?;
            check_equal(first, workspace, span, &expected)?;
            return Ok(Err(status));
        }
    };
    let read = exchange.read(first.span, spans, &mut workspace.contents).await;
    read.map_err(|error| {
        add(&core.counters.media_errors, 1);
        status_of(error, Status::UNRECOVERED_READ_ERROR)
    })?;
    first.check()?;
    check_readable(first, workspace, &namespace, span)?;
    check_equal(first, workspace, span, &expected)?;
    if let Err(status) = second.check() {
        return Ok(Err(status));
    }
    overwrite(&mut workspace.contents, core.config.keep, span, &new);
    second.charge(Stage::Queueing);
    let durable = second.durable(write.fua);
    let written = exchange.write(second.span, spans, &mut workspace.contents, durable).await;
    first.charge(Stage::Queueing);
    if written.is_ok() {
        add(&core.counters.writes, 1);
        add(&core.counters.written_bytes, span.bytes);
    }
    Ok(written.map_err(|error| status_of(error, Status::WRITE_FAULT)))
}

/// Brings the payload of the Write, if it can be executed.
async fn prepare_write(
    write: &Context<'_>,
    workspace: &mut Workspace,
    namespace: &Namespace,
    span: Span,
) -> Result<(), Status> {
    write.check()?;
    namespace.check_writable()?;
    write.bring(workspace, span.bytes, Landing::Bytes).await
}

/// Puts `bytes` into the part of the units that `span` is.
fn overwrite(contents: &mut [Content], keep: Keep, span: Span, bytes: &[u8]) {
    let mut rest = bytes;
    for (index, content) in (0..).zip(contents) {
        let (offset, count) = span.part(index);
        let (part, later) = rest.split_at(count);
        *content = match count {
            UNIT_BYTES => Content::of(part, keep),
            _ => content.edited(keep, |unit, marred| {
                unit[offset..offset + count].copy_from_slice(part);
                *marred &= !marred_parts(offset, count);
            }),
        };
        rest = later;
    }
}
