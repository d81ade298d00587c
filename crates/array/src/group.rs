//! Groups of requests to members, sent together, and their answers.

use byteway_clock::{Clock, Notify, SpanId};
use byteway_content::Content;
use byteway_member::MemberError;
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;

/// Kind of a request to a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verb {
    #[default]
    Read,
    /// A write, durable or not.
    Write(bool),
    /// A write of part of one unit: offset, bytes, durable or not.
    WritePart(u32, u32, bool),
    Deallocate,
    Flush,
}

/// A request for a run of units of one member. Its memory is reused.
#[derive(Default)]
pub(crate) struct Piece {
    pub(crate) slot: usize,
    /// Event number with which the slot's member had joined when this was sent. A failure of an earlier
    /// member must not affect its successor.
    pub(crate) joined: u32,
    pub(crate) verb: Verb,
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// The data written or read.
    pub(crate) contents: Vec<Content>,
    /// The failure, if any; a lost member outranks an unreadable unit.
    pub(crate) error: Option<MemberError>,
}

impl Piece {
    pub(crate) fn fail(&mut self, error: MemberError) {
        if !matches!(self.error, Some(MemberError::Lost(_))) {
            self.error = Some(error);
        }
    }
}

/// Requests that are sent together.
pub(crate) struct Group {
    pub(crate) pieces: RefCell<Vec<Piece>>,
    /// Pieces in use; further ones only keep their memory.
    used: Cell<usize>,
    /// Commands in flight.
    left: Cell<u32>,
    answered: Notify,
    pub(crate) span: Cell<SpanId>,
    /// Whether the group waits behind host I/Os.
    pub(crate) is_background: Cell<bool>,
}

impl Group {
    /// Adds a piece, with contents that `fill` puts into an empty vector. Returns its index.
    pub(crate) fn add(
        &self,
        slot: usize,
        verb: Verb,
        first: u64,
        count: u64,
        fill: impl FnOnce(&mut Vec<Content>),
    ) -> usize {
        let (mut pieces, index) = (self.pieces.borrow_mut(), self.used.get());
        if pieces.len() == index {
            pieces.push(Piece::default());
        }
        let mut contents = std::mem::take(&mut pieces[index].contents);
        contents.clear();
        fill(&mut contents);
        pieces[index] = Piece { slot, joined: 0, verb, first, count, contents, error: None };
        self.used.set(index + 1);
        index
    }

    /// Adds a read, or extends the slot's last piece by it. Returns the piece, and the offset of the units in
    /// it.
    pub(crate) fn add_read(&self, slot: usize, first: u64, count: u64) -> (usize, usize) {
        {
            let mut pieces = self.pieces.borrow_mut();
            let last =
                pieces[..self.used.get()].iter_mut().enumerate().rfind(|(_, piece)| piece.slot == slot);
            if let Some((index, piece)) = last
                && piece.verb == Verb::Read
                && piece.first + piece.count == first
            {
                let at = piece.count as usize;
                piece.count += count;
                return (index, at);
            }
        }
        (self.add(slot, Verb::Read, first, count, |_| ()), 0)
    }

    /// Adds a write, or extends the slot's last piece by it.
    pub(crate) fn add_write(
        &self,
        slot: usize,
        first: u64,
        durable: bool,
        contents: impl ExactSizeIterator<Item = Content>,
    ) {
        let count = contents.len() as u64;
        let mut pieces = self.pieces.borrow_mut();
        if let Some(piece) = pieces[..self.used.get()].iter_mut().rfind(|piece| piece.slot == slot)
            && piece.verb == Verb::Write(durable)
            && piece.first + piece.count == first
        {
            piece.count += count;
            piece.contents.extend(contents);
            return;
        }
        drop(pieces);
        self.add(slot, Verb::Write(durable), first, count, |into| into.extend(contents));
    }

    pub(crate) fn len(&self) -> usize {
        self.used.get()
    }

    /// The slot of a piece, and its failure.
    pub(crate) fn error(&self, index: usize) -> (usize, Option<MemberError>) {
        let pieces = self.pieces.borrow();
        (pieces[index].slot, pieces[index].error.clone())
    }

    /// Takes `count` units that a piece has read, from offset `at` on.
    pub(crate) fn take(&self, index: usize, at: usize, count: usize, mut each: impl FnMut(usize, Content)) {
        let mut pieces = self.pieces.borrow_mut();
        let contents = &mut pieces[index].contents[at..at + count];
        contents.iter_mut().enumerate().for_each(|(nth, content)| each(nth, std::mem::take(content)));
    }

    /// Removes all pieces. None may be in flight.
    pub(crate) fn clear(&self) {
        debug_assert_eq!(self.left.get(), 0, "a group is reused only after all answers");
        self.used.set(0);
    }

    pub(crate) fn expect(&self, commands: u32) {
        self.left.set(self.left.get() + commands);
    }

    pub(crate) fn answer(&self) {
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            self.answered.notify_one();
        }
    }

    /// Waits until all commands are answered.
    pub(crate) async fn wait(&self) {
        while self.left.get() > 0 {
            self.answered.notified().await;
        }
    }
}

/// Pool of groups, one per operation in flight at most.
pub(crate) struct Groups {
    clock: Clock,
    free: RefCell<Vec<Rc<Group>>>,
}

impl Groups {
    pub(crate) fn new(clock: &Clock) -> Self {
        Groups { clock: clock.clone(), free: RefCell::default() }
    }

    pub(crate) fn lend(&self, span: SpanId, is_background: bool) -> LentGroup<'_> {
        let group = self.free.borrow_mut().pop().unwrap_or_else(|| {
            Rc::new(Group {
                pieces: RefCell::default(),
                used: Cell::default(),
                left: Cell::default(),
                answered: Notify::new(&self.clock),
                span: Cell::new(SpanId::NONE),
                is_background: Cell::default(),
            })
        });
        group.clear();
        group.span.set(span);
        group.is_background.set(is_background);
        LentGroup { groups: self, group }
    }

    /// Memory in bytes of the groups that are not on loan.
    pub(crate) fn bytes(&self) -> u64 {
        let of_group = |group: &Rc<Group>| {
            let pieces = group.pieces.borrow();
            let contents: usize = pieces.iter().map(|piece| piece.contents.capacity()).sum();
            size_of::<Group>() + pieces.capacity() * size_of::<Piece>() + contents * size_of::<Content>()
        };
        self.free.borrow().iter().map(|group| of_group(group) as u64).sum()
    }
}

/// A group on loan, returned on drop.
pub(crate) struct LentGroup<'a> {
    groups: &'a Groups,
    group: Rc<Group>,
}

impl LentGroup<'_> {
    pub(crate) fn shared(&self) -> &Rc<Group> {
        &self.group
    }
}

impl Deref for LentGroup<'_> {
    type Target = Group;

    fn deref(&self) -> &Group {
        &self.group
    }
}

impl Drop for LentGroup<'_> {
    fn drop(&mut self) {
        // If dropped before all answers, the group is left to them.
        if self.group.left.get() == 0 {
            // The contents are shared with other owners, so they are not kept.
            self.group.pieces.borrow_mut().iter_mut().for_each(|piece| piece.contents.clear());
            self.groups.free.borrow_mut().push(self.group.clone());
        }
    }
}
