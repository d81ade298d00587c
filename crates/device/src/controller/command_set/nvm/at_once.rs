//! Reads and writes of one unit in immediate mode, where modelled waits take no time: executed within the call that
//! fetched them, without a command slot, if nothing must be waited for and the command succeeds.
//!
//! Everything else is left to a command slot and [`io`](super::io), before any effect: other command formats and lists,
//! extents outside host memory, refused namespaces, unreadable blocks, a full write buffer. A host sees no difference
//! but time. The command begins and ends in one step, so no Abort, deletion or reset finds it in flight.

use crate::controller::core::Core;
use crate::controller::queue::ring::{QueueFate, SubmissionQueue};
use crate::controller::state::counters::add;
use byteway_clock::SpanId;
use byteway_content::{Content, UNIT_BYTES};
use byteway_link::{Direction, Purpose};
use byteway_wire::nvme::command::{FUSE_NONE, PSDT_PRP};
use byteway_wire::nvme::{NvmOpcode, ReadWrite, Segment, Sqe};

/// Executes a command of the NVM command set, if possible. `false`: it needs a command slot.
pub(crate) fn execute(core: &Core, queue: &SubmissionQueue, sqe: &Sqe, span: SpanId) -> bool {
    let opcode = NvmOpcode(sqe.opcode());
    let is_plain = sqe.psdt() == PSDT_PRP && sqe.fuse() == FUSE_NONE && queue.methods.get().is_empty();
    let is_own = core.router.get().is_none() && !queue.is_lent.get() && queue.fate.get() == QueueFate::Live;
    if !is_plain || !is_own || !matches!(opcode, NvmOpcode::READ | NvmOpcode::WRITE) {
        return false;
    }
    let done = if opcode == NvmOpcode::READ { read(core, sqe, span) } else { write(core, sqe, span) };
    done.is_some()
}

fn read(core: &Core, sqe: &Sqe, io: SpanId) -> Option<()> {
    let rw = ReadWrite::parse(sqe);
    let namespace = core.namespace(sqe.nsid).ok()?;
    let span = namespace.span(rw.slba, rw.blocks().into()).ok()?;
    if span.units != 1 || rw.fua {
        return None;
    }
    let segments = segments(core, sqe, span.bytes as u32)?;
    let epoch = core.port.epoch();
    segments.iter().try_for_each(|segment| core.port.check(*segment, Direction::Up, epoch)).ok()?;
    let (unit, _) = namespace.run(span.unit, 1);
    let content = core.backing.read_at_once(unit)?;
    if content.marred() != 0 {
        return None;
    }
    let mut at = span.offset;
    for Segment { address, bytes } in segments.into_iter().filter(|segment| segment.bytes > 0) {
        core.port.write_content(address, content.clone(), at, bytes, epoch, Purpose::Data).ok()?;
        at += bytes;
    }
    add(&core.counters.data_out_bytes, span.bytes);
    core.count_read(io, span.bytes);
    Some(())
}

fn write(core: &Core, sqe: &Sqe, io: SpanId) -> Option<()> {
    let rw = ReadWrite::parse(sqe);
    let namespace = core.namespace(sqe.nsid).ok()?;
    namespace.check_writable().ok()?;
    let span = namespace.span(rw.slba, rw.blocks().into()).ok()?;
    if span.units != 1 || !span.is_whole() {
        return None;
    }
    let segments = segments(core, sqe, span.bytes as u32)?;
    let epoch = core.port.epoch();
    segments.iter().try_for_each(|segment| core.port.check(*segment, Direction::Down, epoch)).ok()?;
    let durable = rw.fua || !core.features.write_cache.get().wce();
    let (unit, _) = namespace.run(span.unit, 1);
    if !core.backing.can_write_at_once(unit, durable) {
        return None; // before the payload is fetched, which must cross the link only once
    }
    let granularity = u64::from(core.config.controller.dma_granularity);
    let mut content = None;
    let mut parts = Vec::new(); // allocates only if the unit comes in several parts
    let take = |_: usize, part: &[u8]| match part.len() {
        UNIT_BYTES => content = Some(Content::of(part, core.config.keep)),
        _ => parts.extend_from_slice(part),
    };
    core.port.gather_at_once(segments, epoch, granularity, Purpose::Data, take).ok()?;
    let content = content.unwrap_or_else(|| Content::of(&parts, core.config.keep));
    core.backing.write_at_once(unit, content);
    add(&core.counters.data_in_bytes, span.bytes);
    core.count_write(io, span.bytes);
    Some(())
}

/// The PRP segments of a payload of at most a unit: in one page or two. The second segment may be empty.
fn segments(core: &Core, sqe: &Sqe, bytes: u32) -> Option<[Segment; 2]> {
    let page_bytes = core.registers.page_bytes.get();
    let within = (sqe.prp1 % u64::from(page_bytes)) as u32;
    let first = bytes.min(page_bytes - within);
    let rest = bytes - first;
    let is_proper = within.is_multiple_of(4) && (rest == 0 || sqe.prp2.is_multiple_of(page_bytes.into()));
    is_proper.then_some([
        Segment { address: sqe.prp1, bytes: first },
        Segment { address: if rest == 0 { sqe.prp1 } else { sqe.prp2 }, bytes: rest },
    ])
}
