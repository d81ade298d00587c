//! Writes of level 5: whole stripes, and partial stripes by the method that reads less.
//!
//! For a partial stripe, either the old data and the old parity are read and the change is XORed into the
//! parity (read-modify-write), or the rest of the stripe is read and the parity recomputed
//! (reconstruct-write). With a missing member there is no choice: reconstruct-write if the missing chunk is
//! written, otherwise read-modify-write. A stripe whose parity cannot be trusted yet is always reconstructed.
//!
//! The caller has locked the stripe, marked its region and entered the gate, so members' states stay the
//! same, except that members may fail.

use crate::core::Core;
use crate::counters::Cause;
use crate::gate::Stopped;
use crate::journaling::journal_entry;
use crate::xor::Parity;
use byteway_content::{Content, UNIT_BYTES};
use byteway_firmware::{WorkContext, WorkKind};
use std::ops::Range;

/// How the parity of a partial stripe is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    /// From the old data and the old parity.
    Modify,
    /// From the rest of the stripe.
    Reconstruct,
    /// Not computed: its member is missing.
    None,
}

/// Range of offsets in the chunks at which the same columns are written.
struct Segment {
    offsets: Range<u64>,
    columns: Range<u64>,
    method: Method,
}

impl Segment {
    fn is_written(&self, column: u64) -> bool {
        self.columns.contains(&column)
    }
}

/// Writes units of level 5 from `first` on.
pub(crate) async fn write_parity(
    core: &Core,
    context: WorkContext,
    first: u64,
    contents: &[Content],
    durable: bool,
) -> Result<(), Stopped> {
    let layout = &core.layout;
    let stripe_units = layout.stripe_units();
    let (mut unit, end) = (first, first + contents.len() as u64);
    while unit < end {
        let stripe = layout.stripe_of(unit);
        let at = unit - stripe * stripe_units;
        let whole = if at == 0 { (end - unit) / stripe_units } else { 0 };
        let is_full = |stripe| core.slots.borrow().is_full(stripe);
        let run = (stripe..stripe + whole).take_while(|stripe| is_full(*stripe)).count() as u64;
        let count = match run {
            0 => (stripe_units - at).min(end - unit),
            _ => run * stripe_units,
        };
        let part = &contents[(unit - first) as usize..(unit - first + count) as usize];
        match run {
            0 => write_part_of_stripe(core, context, stripe, at, part, durable).await?,
            _ => write_stripes(core, context, stripe, part, durable).await?,
        }
        unit += count;
    }
    Ok(())
}

/// Writes whole stripes from `stripe` on, with one run for each member.
async fn write_stripes(
    core: &Core,
    context: WorkContext,
    stripe: u64,
    contents: &[Content],
    durable: bool,
) -> Result<(), Stopped> {
    let layout = &core.layout;
    let (chunk, columns) = (layout.chunk as usize, layout.columns as usize);
    let stripes = contents.len() / (chunk * columns);
    core.work(context, WorkKind::Parity, (stripes * chunk * (columns - 1)) as u64).await;
    let group = core.group(context.span, false);
    let mut parity = Parity::new();
    let mut parities = core.scratch.vector();
    for (stripe, contents) in (stripe..).zip(contents.chunks_exact(chunk * columns)) {
        parities.extend((0..chunk).map(|offset| {
            (0..columns).for_each(|column| parity.add(&contents[column * chunk + offset]));
            parity.take(core.config.keep)
        }));
        let at = layout.member_unit(stripe, 0);
        for column in 0..columns {
            let chunk = contents[column * chunk..(column + 1) * chunk].iter().cloned();
            group.add_write(layout.slot(stripe, column as u64), at, durable, chunk);
        }
        group.add_write(layout.parity_slot(stripe), at, durable, parities.drain(..));
    }
    core.scratch.keep(parities);
    core.counting.count(|counters| {
        counters.full_stripes += stripes as u64;
        counters.units_xored += (stripes * chunk * (columns - 1)) as u64;
    });
    core.exchange(&group, Cause::Data).await;
    core.counting.count(|counters| {
        // The parity goes to the members together with the data, in the same writes.
        let units = (stripes * chunk) as u64;
        let bytes = units * UNIT_BYTES as u64;
        let parity = &mut counters.traffic[Cause::Parity as usize];
        (parity.units_written, parity.bytes_written) =
            (parity.units_written + units, parity.bytes_written + bytes);
        let data = &mut counters.traffic[Cause::Data as usize];
        (data.units_written, data.bytes_written) = (data.units_written - units, data.bytes_written - bytes);
    });
    unless_broken(core)
}

fn unless_broken(core: &Core) -> Result<(), Stopped> {
    if core.is_broken() { Err(Stopped::Broken) } else { Ok(()) }
}

/// Divides a partial write into segments with the same columns, at most three.
fn segments(core: &Core, stripe: u64, at: u64, count: u64, force: Option<Method>) -> Vec<Segment> {
    let layout = &core.layout;
    let chunk = layout.chunk;
    let (first, last) = (layout.place(at), layout.place(at + count - 1));
    let mut cuts = [0, first.offset, last.offset + 1, chunk];
    cuts.sort_unstable();
    let missing = (0..layout.members).find(|slot| !core.has(*slot, stripe));
    let is_unsynced = core.intents.is_unsynced(stripe);
    let mut segments: Vec<Segment> = Vec::with_capacity(3);
    for offsets in cuts.windows(2).map(|cut| cut[0]..cut[1]).filter(|offsets| !offsets.is_empty()) {
        let from = first.column + u64::from(offsets.start < first.offset);
        let to = last.column + u64::from(offsets.start <= last.offset);
        if from >= to {
            continue;
        }
        let columns = from..to;
        let written = to - from;
        let method = match missing {
            Some(slot) => match layout.column_of(stripe, slot) {
                None => Method::None,
                Some(column) if columns.contains(&column) => Method::Reconstruct,
                Some(_) => Method::Modify,
            },
            None if is_unsynced => Method::Reconstruct,
            None => force.unwrap_or(match written + 1 < layout.columns - written {
                true => Method::Modify,
                false => Method::Reconstruct,
            }),
        };
        segments.push(Segment { offsets, columns, method });
    }
    segments
}

/// Writes part of a stripe, from its data unit `at` on.
async fn write_part_of_stripe(
    core: &Core,
    context: WorkContext,
    stripe: u64,
    at: u64,
    contents: &[Content],
    durable: bool,
) -> Result<(), Stopped> {
    let tried = try_part(core, context, stripe, at, contents, durable, None).await;
    let Err(Stopped::Unreadable) = tried else { return tried };
    // If a member cannot read a unit that the parity needs, the other method may do without it.
    for method in [Method::Reconstruct, Method::Modify] {
        let tried = try_part(core, context, stripe, at, contents, durable, Some(method)).await;
        if !matches!(tried, Err(Stopped::Unreadable)) {
            return tried;
        }
    }
    Err(Stopped::Unreadable)
}

async fn try_part(
    core: &Core,
    context: WorkContext,
    stripe: u64,
    at: u64,
    contents: &[Content],
    durable: bool,
    force: Option<Method>,
) -> Result<(), Stopped> {
    let layout = &core.layout;
    let segments = segments(core, stripe, at, contents.len() as u64, force);
    let mut parities = core.scratch.vector();
    let computed = compute(core, context, stripe, at, contents, &segments, &mut parities).await;
    if let Err(stopped) = computed {
        core.scratch.keep(parities);
        return Err(stopped);
    }
    // The writes: one run of each column, and the parity of each segment.
    let group = core.group(context.span, false);
    let end = at + contents.len() as u64;
    for column in at / layout.chunk..end.div_ceil(layout.chunk) {
        let start = column * layout.chunk;
        let (from, to) = (at.max(start), end.min(start + layout.chunk));
        let slot = layout.slot(stripe, column);
        if core.has(slot, stripe) {
            let run = contents[(from - at) as usize..(to - at) as usize].iter().cloned();
            group.add_write(slot, layout.member_unit(stripe, from - start), durable, run);
        }
    }
    let data_pieces = group.len();
    let mut rest = parities.drain(..);
    for segment in segments.iter().filter(|segment| segment.method != Method::None) {
        let units: Vec<Content> =
            rest.by_ref().take((segment.offsets.end - segment.offsets.start) as usize).collect();
        let first = layout.member_unit(stripe, segment.offsets.start);
        group.add_write(layout.parity_slot(stripe), first, durable, units.into_iter());
    }
    drop(rest);
    core.scratch.keep(parities);
    let has_parity = group.len() > data_pieces;
    let entry = match has_parity && core.is_degraded(stripe) {
        true => journal_entry(core, context.span, stripe, &group).await?,
        false => None,
    };
    let parity_units: u64 = group.pieces.borrow()[data_pieces..group.len()].iter().map(|p| p.count).sum();
    core.exchange(&group, Cause::Data).await;
    core.counting.count(|counters| {
        let [data, parity] = [Cause::Data, Cause::Parity].map(|cause| cause as usize);
        let pieces = (group.len() - data_pieces) as u64;
        counters.traffic[data].units_written -= parity_units;
        counters.traffic[data].writes -= pieces;
        counters.traffic[parity].units_written += parity_units;
        counters.traffic[parity].writes += pieces;
    });
    drop(entry);
    unless_broken(core)
}

/// Reads the inputs of the segments' parity and computes it, in the order of the segments with parity.
async fn compute(
    core: &Core,
    context: WorkContext,
    stripe: u64,
    at: u64,
    contents: &[Content],
    segments: &[Segment],
    parities: &mut Vec<Content>,
) -> Result<(), Stopped> {
    let layout = &core.layout;
    let group = core.group(context.span, false);
    let columns = layout.columns;
    // For each segment, the positions in the group of each column's units, then of the parity.
    let mut read: Vec<(usize, usize)> = Vec::new();
    let (mut modified, mut reconstructed) = (0, 0);
    for segment in segments {
        let count = segment.offsets.end - segment.offsets.start;
        let first = layout.member_unit(stripe, segment.offsets.start);
        for column in 0..columns {
            let is_needed = match segment.method {
                Method::Modify => segment.is_written(column),
                Method::Reconstruct => !segment.is_written(column),
                Method::None => false,
            };
            if is_needed {
                read.push(group.add_read(layout.slot(stripe, column), first, count));
            }
        }
        match segment.method {
            Method::Modify => {
                read.push(group.add_read(layout.parity_slot(stripe), first, count));
                modified += 1;
            }
            Method::Reconstruct => reconstructed += 1,
            Method::None => {}
        }
    }
    if !core.exchange(&group, Cause::Parity).await {
        unless_broken(core)?;
        // A lost member has closed the gate; a present one cannot read a unit.
        return Err(if core.gate.is_closed() { Stopped::Again } else { Stopped::Unreadable });
    }
    let mut parity = Parity::new();
    let mut units = 0;
    let mut read = read.into_iter();
    for segment in segments.iter().filter(|segment| segment.method != Method::None) {
        let count = (segment.offsets.end - segment.offsets.start) as usize;
        let read_here = match segment.method {
            Method::Modify => segment.columns.end - segment.columns.start + 1,
            _ => columns - (segment.columns.end - segment.columns.start),
        };
        let places: Vec<(usize, usize)> = read.by_ref().take(read_here as usize).collect();
        let pieces = group.pieces.borrow();
        for offset in 0..count {
            for (piece, at) in &places {
                parity.add(&pieces[*piece].contents[at + offset]);
            }
            for column in segment.columns.clone() {
                let unit = column * layout.chunk + segment.offsets.start + offset as u64;
                parity.add(&contents[(unit - at) as usize]);
            }
            parities.push(parity.take(core.config.keep));
        }
        let operands = read_here + segment.columns.end - segment.columns.start;
        units += (operands - 1) * count as u64;
    }
    core.counting.count(|counters| {
        counters.units_xored += units;
        counters.read_modify_writes += u64::from(modified > 0);
        counters.reconstruct_writes += u64::from(modified == 0 && reconstructed > 0);
    });
    core.work(context, WorkKind::Parity, units).await;
    if core.gate.is_closed() {
        // A member has failed meanwhile, and nothing is written yet.
        unless_broken(core)?;
        return Err(Stopped::Again);
    }
    Ok(())
}
