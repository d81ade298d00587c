//! Recovery of a die without a free superblock after a power cut: the collector's open superblock holds only
//! duplicates.
//!
//! Only its collector opens the last free superblock of a die, and until it has emptied another one, none of
//! the die is erased. All data that it had put there at the power cut therefore still lie at their old
//! addresses. If the cut has damaged too much of that superblock to continue it, the map returns to the old
//! addresses and the superblock is erased. This may repeat cut after cut, and loses only the work since the
//! last erase.
//!
//! A translation page in flash may refer to that superblock. After another cut its units are then searched in
//! the whole die, because the copies among the replayed stripes may be older versions, which a collector was
//! moving when this one was written. So before the superblock is erased, the journal records that it was
//! left.

use crate::ftl::core::Core;
use crate::ftl::map::table::Entry;
use crate::ftl::space::UnitKind;
use byteway_flash::{BlockId, Ppa, Priority, Spare};
use rustc_hash::FxHashMap;

/// A valid unit in the superblock to be left.
struct Duplicate {
    spare: Spare,
    at: Ppa,
    /// The address that it was copied from.
    original: Option<Ppa>,
}

/// Leaves a superblock of a die that holds only duplicates. Returns whether there was one.
pub(in crate::ftl) async fn leave(core: &Core, die: u32) -> bool {
    let geometry = &core.geometry;
    let of_die = || (0..geometry.blocks).map(|block| geometry.block(die, block));
    let opened = |block: BlockId| {
        (0..geometry.pages)
            .find_map(|stripe| core.flash.stripe_number(block, stripe))
            .filter(|number| *number > 0)
    };
    let mut newest: Vec<(u64, BlockId)> =
        of_die().filter_map(|block| opened(block).map(|number| (number, block))).collect();
    newest.sort_unstable_by(|a, b| b.cmp(a));
    // Newest first: the collector opened its superblock last.
    for (_, block) in newest {
        let mut duplicates = valid_units(core, block).await;
        let mut others: Vec<BlockId> = of_die().filter(|other| *other != block).collect();
        others.sort_by_key(|other| core.state.borrow().blocks.valid(*other));
        let index = duplicates.iter().enumerate().map(|(index, duplicate)| (duplicate.spare.lpa, index));
        let index: FxHashMap<u64, usize> = index.collect();
        let mut missing = duplicates.len();
        for other in others {
            if missing == 0 {
                break;
            }
            for (ppa, spare) in units(core, other).await {
                let Some(duplicate) = index.get(&spare.lpa).map(|index| &mut duplicates[*index]) else {
                    continue;
                };
                if duplicate.original.is_none() && is_same(core, duplicate, ppa, spare).await {
                    duplicate.original = Some(ppa);
                    missing -= 1;
                }
            }
        }
        if missing == 0 {
            // The record must be durable before the erase, for recovery after another cut.
            let noted = go_back(core, die, &duplicates);
            core.signals.journal.notify_one();
            while !core.config.plp && core.state.borrow().journal.durable_to() < noted {
                core.signals.settled.notified().await;
            }
            return true;
        }
    }
    false
}

/// The readable units of a superblock. Takes the time of reading their stripes.
async fn units(core: &Core, block: BlockId) -> Vec<(Ppa, Spare)> {
    let geometry = &core.geometry;
    let ticket = core.flash.ticket();
    for stripe in 0..core.flash.programmed_stripes(block) {
        core.flash.submit_read(geometry.ppa(block, stripe, 0), 1, Priority::Collector, &ticket);
    }
    ticket.wait().await;
    let first = geometry.ppa(block, 0, 0).0;
    let all = (first..first + u64::from(geometry.units_per_block())).map(Ppa);
    let spares = all.filter_map(|ppa| core.flash.spare(ppa).map(|spare| (ppa, spare)));
    spares.filter(|(_, spare)| core.space.holds(spare.lpa)).collect()
}

/// The valid ones among them.
async fn valid_units(core: &Core, block: BlockId) -> Vec<Duplicate> {
    let units = units(core, block).await;
    let state = core.state.borrow();
    let is_valid = |ppa: Ppa, lpa| state.buffer.holds(state.map.get(lpa), Entry::flash(ppa));
    let valid = units.into_iter().filter(|(ppa, spare)| is_valid(*ppa, spare.lpa));
    valid.map(|(at, spare)| Duplicate { spare, at, original: None }).collect()
}

/// Whether the same version of the same unit lies at `ppa`. Two versions of a translation page may reflect
/// the same sequence number, so their contents are compared.
async fn is_same(core: &Core, duplicate: &Duplicate, ppa: Ppa, spare: Spare) -> bool {
    let is_page = matches!(core.space.kind(spare.lpa), UnitKind::Map(_));
    if spare != duplicate.spare || !is_page {
        return spare == duplicate.spare;
    }
    core.flash.content(ppa).await == core.flash.content(duplicate.at).await
}

/// Returns the map to the old addresses, and records it in the journal: once records before the returned
/// number are durable.
fn go_back(core: &Core, die: u32, duplicates: &[Duplicate]) -> u64 {
    let mut guard = core.state.borrow_mut();
    let state = &mut *guard;
    for Duplicate { spare, at, original } in duplicates {
        let Some(to) = *original else { continue };
        let is_base = state.blocks.is_base(core.geometry.block_of(to), core.geometry.stripe_of(to));
        let entry = if is_base { Entry::BASE } else { Entry::flash(to) };
        if state.map.relocate(&mut state.buffer, spare.lpa, Entry::flash(*at), entry) {
            state.blocks.lost(core.geometry.block_of(*at), 1);
            state.blocks.gained(core.geometry.block_of(to));
        }
    }
    core.settle_extents(state);
    state.journal.note_left(die, core.space.user, state.buffer.counter());
    let noted = state.buffer.next_sequence();
    state.journal.want(noted);
    noted
}
