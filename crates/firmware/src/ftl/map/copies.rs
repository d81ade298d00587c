//! Copies of translation pages in memory that a host lends: their places, and the loads in flight.

use crate::ftl::map::frames::Frames;
use byteway_clock::{Clock, Notify};
use byteway_content::UNIT_BYTES;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;

/// Lent memory: places for one translation page each, numbered from 0.
pub trait LentMemory {
    /// Sends a page to a place, without waiting for its arrival. A [`LentMemory::load`] that begins later
    /// reads it. Returns false if the memory is lost.
    fn store(&self, place: u32, page: &[u8; UNIT_BYTES]) -> bool;

    /// Fetches the page in a place. Returns false if the memory is lost.
    fn load<'a>(
        &'a self,
        place: u32,
        into: &'a mut [u8; UNIT_BYTES],
    ) -> Pin<Box<dyn Future<Output = bool> + 'a>>;
}

/// The copies, by page and place.
pub(in crate::ftl) struct Copies {
    places: Frames,
    /// Checksum of the copy in each place.
    sums: Vec<u64>,
}

/// A copy as of its look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ftl) struct Copy {
    pub(in crate::ftl) place: u32,
    pub(in crate::ftl) sum: u64,
}

impl Copies {
    /// Space for `places` copies.
    pub(in crate::ftl) fn new(places: u32) -> Self {
        Copies { places: Frames::new(places), sums: Vec::new() }
    }

    /// Number of copies.
    pub(in crate::ftl) fn count(&self) -> u32 {
        self.places.oldest().count() as u32
    }

    /// The copy of a page, which becomes the most recently used one.
    pub(in crate::ftl) fn find(&mut self, page: u32) -> Option<Copy> {
        let place = self.places.find(page)?;
        self.places.touch(place);
        Some(Copy { place, sum: self.sums[place as usize] })
    }

    /// Adds a copy of a page. Returns its place, from which the oldest copy may have been evicted.
    pub(in crate::ftl) fn add(&mut self, page: u32, sum: u64) -> Option<u32> {
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

    /// Drops the copy of a page.
    pub(in crate::ftl) fn forget(&mut self, page: u32) {
        if let Some(place) = self.places.find(page) {
            self.places.drop_page(place);
        }
    }
}

/// The lent memory, and the loads in flight from it.
pub(in crate::ftl) struct Lending {
    pub(in crate::ftl) memory: RefCell<Option<Rc<dyn LentMemory>>>,
    loads: Cell<u32>,
    /// Notified when no load is in flight.
    ended: Notify,
}

impl Lending {
    /// No memory is lent.
    pub(in crate::ftl) fn new(clock: &Clock) -> Self {
        Lending { memory: RefCell::default(), loads: Cell::default(), ended: Notify::new(clock) }
    }

    /// Waits until no load is in flight.
    pub(in crate::ftl) async fn quiet(&self) {
        while self.loads.get() > 0 {
            self.ended.notified().await;
        }
    }
}

/// Counts a load in flight, until dropped.
pub(in crate::ftl) struct Loading<'a>(&'a Lending);

impl<'a> Loading<'a> {
    pub(in crate::ftl) fn begin(lending: &'a Lending) -> Self {
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

    // With two pages in one place, or a copy kept after its page was written, a load would return a stale
    // translation.
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
