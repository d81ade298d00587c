//! Units whose spare areas no longer identify them: the map has them in a superblock in which the collector
//! did not find them. This happens with damaged files.
//!
//! If such a superblock were erased, the map would lead to whatever is programmed there next, another unit's
//! data. So these units are moved like the others, as unreadable. Recovery cannot do as much: for units that
//! no translation page covers yet, the spare area is all there is.

use crate::ftl::map::table::{Entry, EntryKind};
use crate::ftl::space::{Space, UnitKind};
use crate::ftl::state::State;
use byteway_flash::{BlockId, Geometry, Ppa};

/// A unit that the map has in a superblock.
pub(in crate::ftl) struct Nameless {
    pub(in crate::ftl) lpa: u64,
    /// A sequence number for its replacement: after the lost version, and before any later one.
    pub(in crate::ftl) sequence: u64,
    pub(in crate::ftl) from: Entry,
    pub(in crate::ftl) ppa: Ppa,
}

/// All units that the map has in a superblock programmed since the base state, found by a scan of all
/// entries.
#[cold]
pub(in crate::ftl) fn units_in(
    state: &mut State,
    geometry: &Geometry,
    space: &Space,
    block: BlockId,
) -> Vec<Nameless> {
    let (first, count) = space.map;
    let mut found = Vec::new();
    for lpa in (0..space.user).chain(first..first + count) {
        let entry = state.map.get(lpa);
        let from = state.buffer.in_flash(entry);
        let EntryKind::Flash(ppa) = from.kind() else { continue };
        if geometry.block_of(ppa) != block {
            continue;
        }
        let sequence = match (space.kind(lpa), entry.as_slot()) {
            (UnitKind::Map(_), _) => state.buffer.settled(),
            (_, Some(slot)) => state.buffer.slot(slot).sequence.saturating_sub(1),
            (_, None) => {
                let next = state.buffer.counter();
                *next += 1;
                *next - 1
            }
        };
        found.push(Nameless { lpa, sequence, from, ppa });
    }
    found
}
