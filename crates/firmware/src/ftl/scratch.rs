//! Reusable memory of reads of many units.

use crate::ftl::read_cache::Origin;
use crate::ftl::write::parts::Patch;
use byteway_content::Content;
use byteway_flash::Ppa;
use std::cell::RefCell;
use std::rc::Rc;

/// Units of one stripe that are read together.
pub(super) struct Group {
    pub(super) first: Ppa,
    pub(super) mask: u64,
    /// Index of its first unit in the ticket's contents.
    pub(super) at: u32,
}

/// A unit to read from flash.
pub(super) struct Wanted {
    /// Index in the reader's result.
    pub(super) place: u32,
    pub(super) group: u32,
    pub(super) unit: u32,
    /// Set if the unit is to be cached.
    pub(super) origin: Option<Origin>,
}

/// Reusable memory of a read of many units.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) groups: Vec<Group>,
    pub(super) wanted: Vec<Wanted>,
    pub(super) contents: Vec<Content>,
    /// Parts that overlay what is read, by index in the result.
    pub(super) patches: Vec<(u32, Rc<Patch>)>,
}

/// Scratch memory on loan, returned even if the reader is dropped.
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
