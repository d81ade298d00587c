//! Memory of reads of many units, used again and again.

use crate::ftl::read_cache::Origin;
use crate::ftl::write::parts::Patch;
use byteway_flash::Ppa;
use byteway_wire::content::Content;
use std::cell::RefCell;
use std::rc::Rc;

/// Units of one stripe, read at once.
pub(super) struct Group {
    pub(super) first: Ppa,
    pub(super) mask: u64,
    /// Where its units begin in what the ticket delivers.
    pub(super) at: u32,
}

/// A unit that is to be read from flash.
pub(super) struct Wanted {
    /// Its place in what the reader gets.
    pub(super) place: u32,
    pub(super) group: u32,
    pub(super) unit: u32,
    /// If what is read is kept.
    pub(super) origin: Option<Origin>,
}

/// Memory of a read of many units, used again and again.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) groups: Vec<Group>,
    pub(super) wanted: Vec<Wanted>,
    pub(super) contents: Vec<Content>,
    /// Parts of units that lie over what is read, by place.
    pub(super) patches: Vec<(u32, Rc<Patch>)>,
}

/// Lent, and given back also if the reader is dropped.
pub(super) struct Lent<'a> {
    pub(super) pool: &'a RefCell<Vec<Scratch>>,
    pub(super) scratch: Scratch,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.groups.clear();
        scratch.wanted.clear();
        scratch.contents.clear();
        scratch.patches.clear();
        self.pool.borrow_mut().push(scratch);
    }
}
