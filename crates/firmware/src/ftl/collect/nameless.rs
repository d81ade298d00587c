//! Units whose spare areas don't say any more whose they are: the map has them in a superblock in which a collector has
//! not found them. That happens in files that were damaged.
//!
//! Were such a superblock erased, the map would lead to whatever comes there next, which is another unit's. So they are
//! moved like the others, as what can't be read. Recovery can't do as much: of what no translation page says yet, the
//! spare area is all that there is.

use crate::ftl::inner::State;
use crate::ftl::map::table::{Entry, Place};
use crate::ftl::space::{Space, UnitKind};
use byteway_flash::{BlockId, Geometry, Ppa};

/// A unit that the map has in a superblock.
pub(in crate::ftl) struct Nameless {
    pub(in crate::ftl) lpa: u64,
    /// A number for what takes its place: later than that of the state that is lost, and earlier than any after that.
    pub(in crate::ftl) sequence: u64,
    pub(in crate::ftl) from: Entry,
    pub(in crate::ftl) ppa: Ppa,
}

impl State {
    /// All units that the map has in a superblock that was programmed since the base state, found by a look at each entry.
    #[cold]
    pub(in crate::ftl) fn units_in(
        &mut self,
        geometry: &Geometry,
        space: &Space,
        block: BlockId,
    ) -> Vec<Nameless> {
        let (first, count) = space.map;
        let mut found = Vec::new();
        for lpa in (0..space.user).chain(first..first + count) {
            let entry = self.map.table.get(lpa);
            let from = self.buffer.in_flash(entry);
            let Place::Flash(ppa) = from.place() else { continue };
            if geometry.block_of(ppa) != block {
                continue;
            }
            let sequence = match (space.kind(lpa), entry.as_slot()) {
                (UnitKind::Map(_), _) => self.buffer.settled(),
                (_, Some(slot)) => self.buffer.slot(slot).sequence.saturating_sub(1),
                (_, None) => {
                    let next = self.buffer.counter();
                    *next += 1;
                    *next - 1
                }
            };
            found.push(Nameless { lpa, sequence, from, ppa });
        }
        found
    }
}
