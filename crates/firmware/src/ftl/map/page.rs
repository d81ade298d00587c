//! Encoding of translation pages.

use crate::ftl::buffer::Buffer;
use crate::ftl::map::table::{Entry, Table};
use crate::ftl::space::Space;
use byteway_content::UNIT_BYTES;

/// The bytes of a page.
///
/// An entry takes four bytes, or eight in a wide map, little-endian, in the encoding of [`Entry::kept`].
pub(in crate::ftl) fn encode(map: &Table, buffer: &Buffer, space: Space, page: u32) -> [u8; UNIT_BYTES] {
    let mut bytes = [0; UNIT_BYTES];
    let (units, entry_bytes) = (space.units_of(page), entry_bytes(space));
    let first = units.start;
    map.each_changed(units, |lpa, entry| {
        let word = &mut bytes[(lpa - first) as usize * entry_bytes..][..entry_bytes];
        let kept = buffer.in_flash(entry).kept().expect("an entry for flash is no slot").min(kept_max(space));
        word.copy_from_slice(&kept.to_le_bytes()[..entry_bytes]);
    });
    bytes
}

/// Decodes a page into its units and their entries. Addresses beyond any array are those of lost units.
pub(in crate::ftl) fn decode(bytes: &[u8], space: Space, page: u32) -> impl Iterator<Item = (u64, Entry)> {
    let most = kept_max(space);
    let entries = bytes.chunks_exact(entry_bytes(space)).map(move |word| {
        let mut kept = [0; 8];
        kept[..word.len()].copy_from_slice(word);
        let kept = u64::from_le_bytes(kept);
        if kept >= most { Entry::LOST } else { Entry::of_kept(kept) }
    });
    space.units_of(page).zip(entries)
}

/// Encoding of a lost unit.
fn kept_max(space: Space) -> u64 {
    if space.is_wide { Entry::KEPT_MAX } else { Entry::KEPT_NARROW_MAX }
}

fn entry_bytes(space: Space) -> usize {
    UNIT_BYTES / space.page_units() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::buffer::UNTRACED;
    use crate::ftl::map::pages::Pages;
    use byteway_content::Content;
    use byteway_flash::{Geometry, Ppa};

    // For a buffered unit the page has the location of the previous version in flash, since the slot is lost
    // with the power.
    #[test]
    fn a_page_says_what_flash_has() {
        for (is_wide, last) in [(false, 2048..3000), (true, 2560..3000)] {
            let space = Space::new(3000, is_wide);
            let mut buffer = Buffer::new(4, 1);
            let mut map = Table::new(space);
            map.set(1024, Entry::flash(Ppa(77)));
            map.set(1025, Entry::UNMAPPED);
            let slot = buffer.take(0, 1026, Content::Zero, UNTRACED, Entry::flash(Ppa(5)), 0);
            map.set(1026, Entry::slot(slot));
            let pages = Pages::new(space, false);
            let page = space.page_of(1024);
            let bytes = encode(&map, &buffer, space, page);
            let expected = [Entry::flash(Ppa(77)), Entry::UNMAPPED, Entry::flash(Ppa(5)), Entry::BASE];
            let said: Vec<(u64, Entry)> = decode(&bytes, space, page).take(4).collect();
            assert_eq!(said, (1024..).zip(expected).collect::<Vec<_>>());
            // As all drives have kept it.
            assert_eq!(bytes[..if is_wide { 8 } else { 4 }].iter().position(|byte| *byte == 79), Some(0));
            assert_eq!(pages.units(space.page_of(2999)), last, "the last one is short");
        }
    }

    // The page of a damaged file holds anything: its entries must fit the map, and lead nowhere. A lost unit
    // that became an unmapped one would read as zeroes.
    #[test]
    fn what_no_array_has_and_what_is_lost_come_back_as_lost() {
        for is_wide in [false, true] {
            let space = Space::new(5000, is_wide);
            assert!(decode(&[0xff; UNIT_BYTES], space, 1).all(|(_, entry)| entry == Entry::LOST));
            let mut map = Table::new(space);
            let last = if is_wide { Geometry::UNITS_MAX as u64 } else { Geometry::NARROW_UNITS_MAX } - 1;
            map.set(0, Entry::LOST);
            map.set(1, Entry::flash(Ppa(last)));
            let bytes = encode(&map, &Buffer::new(4, 1), space, 0);
            let said: Vec<Entry> = decode(&bytes, space, 0).take(2).map(|(_, entry)| entry).collect();
            assert_eq!(said, [Entry::LOST, Entry::flash(Ppa(last))]);
        }
    }
}
