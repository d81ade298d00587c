//! Non-volatile memory of a bridge: data that the members do not have yet, or not durably.

use byteway_content::{Content, Keep, MARRED_BYTES, UNIT_BYTES, marred_parts};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A unit, or some of its blocks of 512 bytes.
#[derive(Clone, Debug)]
struct Held {
    content: Content,
    /// The held blocks, one bit each.
    parts: u8,
    /// Changes with every write. Data sent to a member are still current if it is unchanged.
    generation: u64,
}

/// A bridge's non-volatile memory. It survives a power cut: [`Bridge::power_off`](super::Bridge::power_off)
/// returns it for the next bridge over the same members.
#[derive(Clone, Debug, Default)]
pub struct Nvram {
    units: BTreeMap<u64, Held>,
    bytes: u64,
    generation: u64,
    /// Units that the members cannot take; their held data stay until they are rewritten.
    pinned: BTreeSet<u64>,
}

/// A run of units to be sent to members together.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) first: u64,
    pub(super) contents: Vec<Content>,
    /// Blocks of a single unit; several units are whole.
    pub(super) parts: u8,
    generations: Vec<u64>,
}

impl Nvram {
    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Units with held data.
    pub fn units(&self) -> usize {
        self.units.len()
    }

    pub(super) fn has(&self, unit: u64) -> bool {
        self.units.contains_key(&unit)
    }

    /// Bytes by which it would grow with these blocks of a unit.
    pub(super) fn growth(&self, unit: u64, parts: u8) -> u64 {
        let held = self.units.get(&unit).map_or(0, |held| held.parts);
        u64::from((parts & !held).count_ones()) * MARRED_BYTES as u64
    }

    /// Stores the blocks `parts` of a unit, from `content`.
    pub(super) fn put(&mut self, unit: u64, content: Content, parts: u8, keep: Keep) {
        self.bytes += self.growth(unit, parts);
        self.generation += 1;
        self.pinned.remove(&unit);
        let generation = self.generation;
        match self.units.get_mut(&unit) {
            Some(held) => {
                held.content = merged(&held.content, &content, parts, keep);
                held.parts |= parts;
                held.generation = generation;
            }
            None => {
                self.units.insert(unit, Held { content, parts, generation });
            }
        }
    }

    /// Units of a range with held data.
    pub(super) fn held_in(&self, units: Range<u64>) -> Vec<u64> {
        self.units.range(units).map(|(unit, _)| *unit).collect()
    }

    /// The held data of a unit.
    pub(super) fn get(&self, unit: u64) -> Option<(Content, u8)> {
        self.units.get(&unit).map(|held| (held.content.clone(), held.parts))
    }

    /// The next run from `cursor` on, wrapping round: up to `units` adjacent whole units.
    pub(super) fn next_run(&self, cursor: u64, units: usize) -> Option<Run> {
        let may_go = |(unit, _): &(&u64, &Held)| !self.pinned.contains(unit);
        let behind = self.units.range(cursor..).find(may_go);
        let (first, held) = behind.or_else(|| self.units.range(..cursor).find(may_go))?;
        let mut run = Run { first: *first, parts: held.parts, ..Run::default() };
        for (unit, held) in self.units.range(*first..).filter(may_go) {
            let is_next = *unit == first + run.contents.len() as u64;
            let is_whole = held.parts == u8::MAX && run.parts == u8::MAX;
            let fits = run.contents.is_empty() || is_next && is_whole;
            if !fits || run.contents.len() == units {
                break;
            }
            run.contents.push(held.content.clone());
            run.generations.push(held.generation);
        }
        Some(run)
    }

    /// Pins a run that the members cannot take without reading something unreadable.
    pub(super) fn pin(&mut self, run: &Run) {
        self.pinned.extend((run.first..).take(run.contents.len()));
    }

    /// Units that can be drained.
    pub(super) fn drainable(&self) -> usize {
        self.units.len() - self.pinned.len()
    }

    /// Releases a run that is durable on the members, except for data rewritten since.
    pub(super) fn release(&mut self, run: &Run) {
        for (unit, generation) in (run.first..).zip(&run.generations) {
            if let Some(held) = self.units.get(&unit)
                && held.generation == *generation
            {
                self.bytes -= u64::from(held.parts.count_ones()) * MARRED_BYTES as u64;
                self.units.remove(&unit);
            }
        }
    }
}

/// `old` with the blocks `parts` replaced by those of `new`.
pub(super) fn merged(old: &Content, new: &Content, parts: u8, keep: Keep) -> Content {
    if parts == u8::MAX {
        return new.clone();
    }
    let mut bytes = [0; UNIT_BYTES];
    new.write_to(&mut bytes);
    old.edited(keep, |unit, marred| {
        let blocks = unit.chunks_exact_mut(MARRED_BYTES).zip(bytes.chunks_exact(MARRED_BYTES));
        for (_, (into, from)) in blocks.enumerate().filter(|(part, _)| parts & 1 << part != 0) {
            into.copy_from_slice(from);
        }
        *marred &= !parts;
    })
}

/// The runs of blocks in `parts`, with offset and bytes of each.
pub(super) fn runs_of(parts: u8) -> impl Iterator<Item = (u32, u32)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = u16::from(parts) >> at;
        if rest == 0 {
            return None;
        }
        let start = at + rest.trailing_zeros();
        let count = (u16::from(parts) >> start).trailing_ones();
        at = start + count;
        Some((start * MARRED_BYTES as u32, count * MARRED_BYTES as u32))
    })
}

/// The blocks in the range of `bytes` at `offset`; None unless it is whole blocks.
pub(super) fn parts_of(offset: u32, bytes: u32) -> Option<u8> {
    let is_whole = offset.is_multiple_of(MARRED_BYTES as u32) && bytes.is_multiple_of(MARRED_BYTES as u32);
    is_whole.then(|| marred_parts(offset as usize, bytes as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(value: u8) -> Content {
        Content::of(&[value; UNIT_BYTES], Keep::Bytes)
    }

    // Releasing data that were rewritten meanwhile would lose an acknowledged write.
    #[test]
    fn what_was_written_again_is_not_released() {
        let mut nvram = Nvram::default();
        (3..6).for_each(|unit| nvram.put(unit, filled(1), u8::MAX, Keep::Bytes));
        nvram.put(9, filled(1), 0b110, Keep::Bytes);
        assert_eq!((nvram.bytes(), nvram.units()), (3 * 4096 + 1024, 4));
        let run = nvram.next_run(0, 8).unwrap();
        assert_eq!((run.first, run.contents.len(), run.parts), (3, 3, u8::MAX));
        nvram.put(4, filled(2), 1, Keep::Bytes);
        nvram.release(&run);
        let (content, parts) = nvram.get(4).unwrap();
        let mut bytes = [0; UNIT_BYTES];
        content.write_to(&mut bytes);
        assert_eq!((bytes[511], bytes[512], parts, nvram.units()), (2, 1, u8::MAX, 2));
        let part = nvram.next_run(5, 8).unwrap();
        assert_eq!((part.first, part.parts), (9, 0b110));
        nvram.release(&part);
        assert_eq!(nvram.bytes(), 4096);
        assert_eq!(nvram.next_run(5, 8).map(|run| run.first), Some(4), "around the end");
    }

    // A run that is too long would overwrite the member with data that the memory does not have.
    #[test]
    fn runs_are_those_of_the_bits() {
        let runs = |parts| runs_of(parts).collect::<Vec<_>>();
        assert_eq!(runs(0), []);
        assert_eq!(runs(0xff), [(0, 4096)]);
        assert_eq!(runs(0b1000_0110), [(512, 1024), (3584, 512)]);
        assert_eq!(parts_of(512, 1024), Some(0b110));
        assert_eq!(parts_of(100, 512), None);
    }
}
