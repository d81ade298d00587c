//! Memory that operations use again.

use byteway_content::Content;
use std::cell::RefCell;

/// Units that are consecutive in the array and on a member.
pub(crate) struct Fragment {
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// Position of the units in the group; `None` if no member has them.
    pub(crate) read: Option<(usize, usize)>,
}

/// Emptied vectors.
#[derive(Default)]
pub(crate) struct Scratch {
    vectors: RefCell<Vec<Vec<Content>>>,
    fragments: RefCell<Vec<Vec<Fragment>>>,
}

impl Scratch {
    /// A vector for contents; return it to [`keep`](Self::keep).
    pub(crate) fn vector(&self) -> Vec<Content> {
        self.vectors.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn keep(&self, mut vector: Vec<Content>) {
        vector.clear();
        self.vectors.borrow_mut().push(vector);
    }

    /// A vector for dividing reads; return it to [`keep_fragments`](Self::keep_fragments).
    pub(crate) fn fragments(&self) -> Vec<Fragment> {
        self.fragments.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn keep_fragments(&self, mut fragments: Vec<Fragment>) {
        fragments.clear();
        self.fragments.borrow_mut().push(fragments);
    }

    /// Memory of the vectors for contents that are not in use, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let contents: usize = self.vectors.borrow().iter().map(Vec::capacity).sum();
        (contents * size_of::<Content>()) as u64
    }
}
