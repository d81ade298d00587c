//! Copies of translation pages in memory that a host lends: in which places they are, and who is loading them.

use crate::ftl::map::frames::Frames;
use byteway_clock::{Clock, Notify};
use byteway_wire::content::UNIT_BYTES;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;

/// Memory that is lent: places for one translation page each, numbered from 0.
pub trait LentMemory {
    /// Sends a page to a place, without waiting for its arrival. A [`LentMemory::load`] that begins later finds it. False: there is
    /// no memory there any more.
    fn store(&self, place: u32, page: &[u8; UNIT_BYTES]) -> bool;

    /// Brings what a place holds. False: there is no memory there any more.
    fn load<'a>(
        &'a self,
        place: u32,
        into: &'a mut [u8; UNIT_BYTES],
    ) -> Pin<Box<dyn Future<Output = bool> + 'a>>;
}

/// Which pages have copies, in which places.
pub(in crate::ftl) struct Copies {
    places: Frames,
    /// Checksums, by place.
    sums: Vec<u64>,
}

/// A copy, as it was when it was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    pub(super) place: u32,
    pub(super) sum: u64,
}

impl Copies {
    /// Room for so many.
    pub(in crate::ftl) fn new(places: u32) -> Self {
        Copies { places: Frames::new(places), sums: Vec::new() }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.places.oldest().count() as u32
    }

    /// The copy of a page, which is then the one that was used last.
    pub(super) fn find(&mut self, page: u32) -> Option<Copy> {
        let place = self.places.find(page)?;
        self.places.touch(place);
        Some(Copy { place, sum: self.sums[place as usize] })
    }

    /// A page is to have a copy: gives its place, in which another's may have been.
    pub(super) fn add(&mut self, page: u32, sum: u64) -> Option<u32> {
        let place = match self.places.begin(page) {
            Some(place) => place,
            None => {
                self.places.drop_oldest()?;
                self.places.begin(page)?
            }
        };
        self.places.loaded(place);
        if self.sums.len() <= place as usize {
            self.sums.resize(place as usize + 1, 0);
        }
        self.sums[place as usize] = sum;
        Some(place)
    }

    /// A page has no copy any more.
    pub(in crate::ftl) fn forget(&mut self, page: u32) {
        if let Some(place) = self.places.find(page) {
            self.places.drop_page(place);
        }
    }
}

/// What is lent now, and who is loading from it.
pub(in crate::ftl) struct Lending {
    pub(super) memory: RefCell<Option<Rc<dyn LentMemory>>>,
    loads: Cell<u32>,
    /// No load is under way.
    ended: Notify,
}

impl Lending {
    /// Nothing.
    pub(in crate::ftl) fn new(clock: &Clock) -> Self {
        Lending { memory: RefCell::default(), loads: Cell::default(), ended: Notify::new(clock) }
    }

    /// Waits until no load is under way.
    pub(super) async fn quiet(&self) {
        while self.loads.get() > 0 {
            self.ended.notified().await;
        }
    }
}

/// A load under way, whether or not its end is waited for.
pub(super) struct Loading<'a>(&'a Lending);

impl<'a> Loading<'a> {
    pub(super) fn begin(lending: &'a Lending) -> Self {
        lending.loads.set(lending.loads.get() + 1);
        Loading(lending)
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.0.loads.set(self.0.loads.get() - 1);
        if self.0.loads.get() == 0 {
            self.0.ended.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Two pages in one place, or a place of a page that was written, would give a translation that is not the map's.
    #[test]
    fn a_place_is_of_one_page_and_the_oldest_goes() {
        let mut copies = Copies::new(2);
        assert_eq!((copies.add(7, 70), copies.add(8, 80)), (Some(0), Some(1)));
        assert_eq!(copies.find(7), Some(Copy { place: 0, sum: 70 }));
        assert_eq!(copies.add(9, 90), Some(1));
        assert_eq!((copies.find(8), copies.count()), (None, 2));
        copies.forget(7);
        assert_eq!((copies.find(7), copies.add(10, 100)), (None, Some(0)));
        assert_eq!(Copies::new(0).add(1, 1), None);
    }
}
