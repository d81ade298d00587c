//! A die without a free superblock, after a power cut: what its collector was filling holds nothing but duplicates.
//!
//! The last free superblock of a die is opened by its collector alone, and until it has emptied another one none of the
//! die is erased. So whatever it had put there when the power went still lies where it was moved from. If the cut has
//! spoilt too much of that superblock to go on, the map goes back to those places, and it is erased. That may happen cut
//! after cut, and costs nothing but what was done since the last erase.
//!
//! A translation page may be on flash that says they are in that superblock. After another cut they are looked for then,
//! in the whole die: what is found among the stripes that are replayed anyway may be an older state, which a collector
//! was moving when this one was written. So before the superblock is erased the journal says that it was left.

use crate::ftl::inner::Inner;
use crate::ftl::map::table::Entry;
use crate::ftl::space::UnitKind;
use byteway_flash::{BlockId, Ppa, Priority, Spare};
use rustc_hash::FxHashMap;

/// A unit that is valid where it should not stay.
struct Duplicate {
    spare: Spare,
    at: Ppa,
    /// The other place.
    original: Option<Ppa>,
}

/// Leaves a superblock of a die that holds nothing but duplicates. Whether there was one.
pub(in crate::ftl) async fn leave(inner: &Inner, die: u32) -> bool {
    let geometry = &inner.geometry;
    let of_die = || (0..geometry.blocks).map(|block| geometry.block(die, block));
    let opened = |block: BlockId| {
        (0..geometry.pages)
            .find_map(|stripe| inner.flash.stripe_number(block, stripe))
            .filter(|number| *number > 0)
    };
    let mut newest: Vec<(u64, BlockId)> =
        of_die().filter_map(|block| opened(block).map(|number| (number, block))).collect();
    newest.sort_unstable_by(|a, b| b.cmp(a));
    for (_, block) in newest {
        let mut duplicates = valid_units(inner, block).await;
        let mut others: Vec<BlockId> = of_die().filter(|other| *other != block).collect();
        others.sort_by_key(|other| inner.state.borrow().blocks.valid(*other));
        let index = duplicates.iter().enumerate().map(|(index, duplicate)| (duplicate.spare.lpa, index));
        let index: FxHashMap<u64, usize> = index.collect();
        let mut missing = duplicates.len();
        for other in others {
            if missing == 0 {
                break;
            }
            for (ppa, spare) in units(inner, other).await {
                let Some(duplicate) = index.get(&spare.lpa).map(|index| &mut duplicates[*index]) else {
                    continue;
                };
                if duplicate.original.is_none() && is_same(inner, duplicate, ppa, spare).await {
                    duplicate.original = Some(ppa);
                    missing -= 1;
                }
            }
        }
        if missing == 0 {
            let noted = go_back(inner, die, &duplicates);
            inner.signals.journal.notify_one();
            while !inner.config.plp && inner.state.borrow().journal.durable_to() < noted {
                inner.signals.settled.notified().await;
            }
            return true;
        }
    }
    false
}

/// The units that can be read in a superblock. Takes the time of reading their stripes.
async fn units(inner: &Inner, block: BlockId) -> Vec<(Ppa, Spare)> {
    let geometry = &inner.geometry;
    let ticket = inner.flash.ticket();
    for stripe in 0..inner.flash.programmed_stripes(block) {
        inner.flash.submit_read(geometry.ppa(block, stripe, 0), 1, Priority::Collector, &ticket);
    }
    ticket.wait().await;
    let first = geometry.ppa(block, 0, 0).0;
    let all = (first..first + u64::from(geometry.units_per_block())).map(Ppa);
    let spares = all.filter_map(|ppa| inner.flash.spare(ppa).map(|spare| (ppa, spare)));
    spares.filter(|(_, spare)| inner.space.holds(spare.lpa)).collect()
}

/// Those of them that the map has there.
async fn valid_units(inner: &Inner, block: BlockId) -> Vec<Duplicate> {
    let units = units(inner, block).await;
    let state = inner.state.borrow();
    let is_valid = |ppa: Ppa, lpa| state.holds(state.map.table.get(lpa), Entry::flash(ppa));
    let valid = units.into_iter().filter(|(ppa, spare)| is_valid(*ppa, spare.lpa));
    valid.map(|(at, spare)| Duplicate { spare, at, original: None }).collect()
}

/// Whether the same state of the same unit lies at `ppa`. Two versions of a translation page may reflect the same number,
/// so their contents are compared.
async fn is_same(inner: &Inner, duplicate: &Duplicate, ppa: Ppa, spare: Spare) -> bool {
    let is_page = matches!(inner.space.kind(spare.lpa), UnitKind::Map(_));
    if spare != duplicate.spare || !is_page {
        return spare == duplicate.spare;
    }
    inner.flash.content(ppa).await == inner.flash.content(duplicate.at).await
}

/// The map goes back to where they were, and the journal says so, when its records before the number that this gives are
/// durable.
fn go_back(inner: &Inner, die: u32, duplicates: &[Duplicate]) -> u64 {
    let mut guard = inner.state.borrow_mut();
    let state = &mut *guard;
    for Duplicate { spare, at, original } in duplicates {
        let Some(to) = *original else { continue };
        let is_base = state.blocks.is_base(inner.geometry.block_of(to), inner.geometry.stripe_of(to));
        let entry = if is_base { Entry::BASE } else { Entry::flash(to) };
        if state.relocate(spare.lpa, Entry::flash(*at), entry) {
            state.blocks.lost(inner.geometry.block_of(*at), 1);
            state.blocks.gained(inner.geometry.block_of(to));
        }
    }
    inner.settle_extents(state);
    state.journal.note_left(die, inner.space.user, state.buffer.counter());
    let noted = state.buffer.next_sequence();
    state.journal.want(noted);
    noted
}
