//! Memory Copy: copies logical blocks, or bytes of memory, into a memory namespace inside the drive.
//!
//! All source ranges are checked before the first is copied. They are copied in order, a part at a time. If a
//! copy ends early, dword 0 of its completion is the index of the first range that was not completely copied.

use crate::config::CommandSet;
use crate::controller::command::context::{Context, Reply};
use crate::controller::command::workspace::{Landing, Workspace};
use crate::controller::command_set::nvm::blocks::fetch_units;
use crate::controller::command_set::slm::memory::{
    INVALID_FIELD, LocalMemory, check_extent, memory_of, take_dram,
};
use crate::controller::namespace::Namespace;
use byteway_wire::FromBytes;
use byteway_wire::nvme::Status;
use byteway_wire::nvme::slm::{BlocksRange, BytesRange, FAST_ONLY, MemoryCopy};
use std::rc::Rc;

/// Maximum number of source ranges: the 8-bit, zero-based count of the command.
pub(crate) const RANGES_MAX: usize = 256;
/// Size of a range descriptor, in bytes.
const RANGE_BYTES: usize = 32;
/// Bytes copied between two checks for an abort.
const PART_BYTES: u64 = 64 << 10;

/// A source range. Holds its namespace until the command ends.
enum Source {
    Blocks { namespace: Rc<Namespace>, slba: u64, blocks: u64 },
    Bytes { _namespace: Rc<Namespace>, memory: Rc<LocalMemory>, start: u64, bytes: u64 },
}

impl Source {
    fn bytes(&self) -> u64 {
        match self {
            Source::Blocks { namespace, blocks, .. } => blocks * namespace.block.bytes() as u64,
            Source::Bytes { bytes, .. } => *bytes,
        }
    }
}

/// Executes Memory Copy.
pub(crate) async fn copy(
    context: &Context<'_>,
    workspace: &mut Workspace,
    namespace: &Namespace,
    memory: &LocalMemory,
) -> Result<Reply, Status> {
    namespace.check_writable()?;
    let command = MemoryCopy::parse(context.sqe);
    if !matches!(command.format, MemoryCopy::BLOCKS | MemoryCopy::BYTES) {
        return Err(INVALID_FIELD);
    }
    check_extent(memory, command.to, command.bytes)?;
    context.bring(workspace, (command.ranges() * RANGE_BYTES) as u64, Landing::Bytes).await?;
    let sources = sources(context, &command, &workspace.bytes)?;
    // Ranges longer than the command's length would write beyond the extent checked above.
    if sources.iter().map(Source::bytes).sum::<u64>() != command.bytes {
        return Err(INVALID_FIELD);
    }
    let mut to = command.to;
    for (index, source) in sources.iter().enumerate() {
        workspace.failed_dword = index as u32;
        copy_range(context, workspace, source, memory, to).await?;
        to += source.bytes();
    }
    workspace.failed_dword = 0;
    Ok(Reply::Done([0; 2]))
}

/// The source ranges, all readable and none overlapping the destination.
fn sources(context: &Context<'_>, command: &MemoryCopy, list: &[u8]) -> Result<Vec<Source>, Status> {
    let (ranges, _rest) = list.as_chunks::<RANGE_BYTES>();
    let all = ranges.iter().map(|bytes| match command.format {
        MemoryCopy::BLOCKS => {
            let range = BlocksRange::read_from_bytes(bytes).map_err(|_| INVALID_FIELD)?;
            blocks(context, range)
        }
        _ => {
            let range = BytesRange::read_from_bytes(bytes).map_err(|_| INVALID_FIELD)?;
            bytes_of(context, command, range)
        }
    });
    all.collect()
}

fn blocks(context: &Context<'_>, range: BlocksRange) -> Result<Source, Status> {
    let namespace = source(context, range.snsid, range.sopt, CommandSet::Nvm)?;
    let blocks = u64::from(range.nlb_z) + 1;
    namespace.span(range.slba, blocks)?;
    Ok(Source::Blocks { namespace, slba: range.slba, blocks })
}

fn bytes_of(context: &Context<'_>, command: &MemoryCopy, range: BytesRange) -> Result<Source, Status> {
    let namespace = source(context, range.snsid, range.sopt, CommandSet::LocalMemory)?;
    let memory = memory_of(&namespace).ok_or(Status::NAMESPACE_NOT_READY)?;
    let (start, bytes) = (range.start, u64::from(range.bytes));
    check_extent(&memory, start, bytes)?;
    let overlaps = start < command.to + command.bytes && command.to < start + bytes;
    if range.snsid == context.sqe.nsid && overlaps && bytes > 0 {
        return Err(Status::OVERLAPPING_IO_RANGE.with_dnr());
    }
    Ok(Source::Bytes { _namespace: namespace, memory, start, bytes })
}

/// Namespace of a source range.
fn source(context: &Context<'_>, nsid: u32, options: u16, set: CommandSet) -> Result<Rc<Namespace>, Status> {
    // All copies go through DRAM, so none can be guaranteed to be fast.
    if options & FAST_ONLY != 0 {
        return Err(Status::FAST_COPY_NOT_POSSIBLE.with_dnr());
    }
    let namespace = context.core.namespace(nsid)?;
    if namespace.set != set {
        return Err(Status::INCOMPATIBLE_NAMESPACE_OR_FORMAT.with_dnr());
    }
    Ok(namespace)
}

/// Copies one range to `to`, part by part.
async fn copy_range(
    context: &Context<'_>,
    workspace: &mut Workspace,
    source: &Source,
    into: &LocalMemory,
    to: u64,
) -> Result<(), Status> {
    let all = source.bytes();
    let mut done = 0;
    while done < all {
        let part = PART_BYTES.min(all - done);
        match source {
            Source::Blocks { namespace, slba, .. } => {
                let block = namespace.block.bytes() as u64;
                let span = namespace.span(slba + done / block, part / block)?;
                workspace.failed_lba = slba + done / block;
                fetch_units(context, workspace, namespace, span).await?;
                take_dram(context, part).await?;
                let mut at = to + done;
                for (index, content) in (0..).zip(&workspace.contents) {
                    let (offset, count) = span.part(index);
                    content.write_part(offset, &mut workspace.unit[..count]);
                    into.write(at, &workspace.unit[..count]);
                    at += count as u64;
                }
            }
            Source::Bytes { memory, start, .. } => {
                take_dram(context, 2 * part).await?; // a read and a write
                workspace.bytes.clear();
                workspace.bytes.resize(part as usize, 0);
                memory.read(start + done, &mut workspace.bytes);
                into.write(to + done, &workspace.bytes);
            }
        }
        done += part;
    }
    Ok(())
}
