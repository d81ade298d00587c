//! The write buffer: units that the host has written and that are not yet programmed.
//!
//! A unit occupies a slot. It *waits* until a stripe can be filled, is then *in flight* while the stripe is
//! programmed, and leaves the slot when the program ends, or waits again if it failed. Rewriting a waiting
//! unit replaces it in its slot. Rewriting a unit in flight takes a second slot, and the first one's result
//! is stale when it arrives.
//!
//! With several streams of the host the waiting units of each are also listed by themselves: a stripe takes
//! units of one stream.
//!
//! A slot remembers the flash address of the unit's previous version ([`Slot::old`]), which stays valid until
//! the new version is programmed: at every moment some version of the unit is in flash.

use crate::ftl::map::table::Entry;
use crate::placement::Route;
use byteway_content::Content;
use std::collections::VecDeque;

const NONE: u32 = u32::MAX;

/// I/O number of untraced work.
pub(in crate::ftl) const UNTRACED: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Waits,
    InFlight,
}

/// A buffered unit.
pub(in crate::ftl) struct Slot {
    pub(in crate::ftl) lpa: u64,
    /// Map entry of the previous version in flash.
    pub(in crate::ftl) old: Entry,
    /// A program that started for a slot below this sequence number holds an older version than `old`.
    pub(in crate::ftl) old_sequence: u64,
    /// Order in which slots were taken.
    pub(in crate::ftl) sequence: u64,
    /// Version for the spare area: the sequence number; for a translation page, the sequence number that it
    /// reflects.
    pub(in crate::ftl) stamp: u64,
    pub(in crate::ftl) content: Content,
    /// Number of a stripe before which none holds this unit, or one of a later slot: the first one that should
    /// have held this unit and failed; with several streams, the next one when the slot was taken. None:
    /// everything that is later is sent later.
    pub(in crate::ftl) first_stripe: Option<u64>,
    /// The stream of the host.
    stream: u8,
    /// The I/O that wrote it, for a trace.
    pub(in crate::ftl) io: u32,
    /// Route of the command that wrote it.
    pub(in crate::ftl) route: Route,
    state: State,
    previous: u32,
    next: u32,
}

/// The slots. Those in use form a list in order of sequence: first those in flight, then those that wait.
/// After a failed program some may wait among those in flight.
pub(in crate::ftl) struct Buffer {
    slots: Vec<Slot>,
    free: Vec<u32>,
    head: u32,
    tail: u32,
    first_waiting: u32,
    waiting: u32,
    next_sequence: u64,
    /// With several streams, the waiting units of each, in order of sequence: sequence number and slot.
    lanes: Vec<VecDeque<(u64, u32)>>,
}

impl Buffer {
    /// A buffer of `slots` slots, for units of `streams` streams.
    pub(in crate::ftl) fn new(slots: u32, streams: u32) -> Self {
        let slot = |_| Slot {
            lpa: 0,
            old: Entry::UNMAPPED,
            old_sequence: 0,
            sequence: 0,
            stamp: 0,
            content: Content::Zero,
            first_stripe: None,
            stream: 0,
            io: UNTRACED,
            route: Route::OWN,
            state: State::Free,
            previous: NONE,
            next: NONE,
        };
        Buffer {
            slots: (0..slots).map(slot).collect(),
            free: (0..slots).rev().collect(),
            head: NONE,
            tail: NONE,
            first_waiting: NONE,
            waiting: 0,
            next_sequence: 1,
            lanes: (0..if streams > 1 { streams } else { 0 }).map(|_| VecDeque::new()).collect(),
        }
    }

    /// Slots in use.
    pub(in crate::ftl) fn used(&self) -> u32 {
        (self.slots.len() - self.free.len()) as u32
    }

    /// Units that wait to be programmed.
    pub(in crate::ftl) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Units of a stream that wait to be programmed.
    pub(in crate::ftl) fn waiting_in(&self, stream: u8) -> u32 {
        self.lanes.get(usize::from(stream)).map_or(self.waiting, |lane| lane.len() as u32)
    }

    /// Sequence number of the oldest waiting unit of a stream; the next number if none waits.
    pub(in crate::ftl) fn waiting_since(&self, stream: u8) -> u64 {
        match self.lanes.get(usize::from(stream)) {
            None => self.sequence_of(self.first_waiting),
            Some(lane) => lane.front().map_or(self.next_sequence, |(sequence, _)| *sequence),
        }
    }

    /// Every slot below this sequence number has been programmed.
    pub(in crate::ftl) fn settled(&self) -> u64 {
        self.sequence_of(self.head)
    }

    /// Sequence number of the next slot.
    pub(in crate::ftl) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// The counter of sequence numbers.
    pub(in crate::ftl) fn counter(&mut self) -> &mut u64 {
        &mut self.next_sequence
    }

    fn sequence_of(&self, slot: u32) -> u64 {
        if slot == NONE { self.next_sequence } else { self.slots[slot as usize].sequence }
    }

    pub(in crate::ftl) fn slot(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }

    pub(in crate::ftl) fn slot_mut(&mut self, slot: u32) -> &mut Slot {
        &mut self.slots[slot as usize]
    }

    /// Map entry of the version in flash of a unit with the map entry `entry`.
    #[inline]
    pub(in crate::ftl) fn in_flash(&self, entry: Entry) -> Entry {
        entry.as_slot().map_or(entry, |slot| self.slot(slot).old)
    }

    /// Records where the version in flash of the unit in a slot is now.
    pub(in crate::ftl) fn set_in_flash(&mut self, slot: u32, entry: Entry) {
        self.slots[slot as usize].old = entry;
    }

    /// Whether the latest programmed version of a unit with the map entry `entry` is at `from`, according to that
    /// or to the slot of its buffered version.
    #[inline]
    pub(in crate::ftl) fn holds(&self, entry: Entry, from: Entry) -> bool {
        entry == from || entry.as_slot().is_some_and(|slot| self.slot(slot).old == from)
    }

    /// Whether the unit in a slot still waits, and can be replaced or dropped.
    pub(in crate::ftl) fn waits(&self, slot: u32) -> bool {
        self.slots[slot as usize].state == State::Waits
    }

    /// Takes a slot for a unit of a stream. The caller holds a credit for it.
    pub(in crate::ftl) fn take(
        &mut self,
        stream: u8,
        lpa: u64,
        content: Content,
        io: u32,
        old: Entry,
        old_sequence: u64,
    ) -> u32 {
        debug_assert!(old.as_slot().is_none(), "the previous version is in flash or nowhere");
        let index = self.free.pop().expect("a credit stands for a free slot");
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.slots[index as usize] = Slot {
            lpa,
            old,
            old_sequence,
            sequence,
            stamp: sequence,
            content,
            first_stripe: None,
            stream,
            io,
            route: Route::OWN,
            state: State::Waits,
            previous: self.tail,
            next: NONE,
        };
        match self.tail {
            NONE => self.head = index,
            tail => self.slots[tail as usize].next = index,
        }
        self.tail = index;
        if self.first_waiting == NONE {
            self.first_waiting = index;
        }
        self.waiting += 1;
        if let Some(lane) = self.lanes.get_mut(usize::from(stream)) {
            debug_assert!(lane.back().is_none_or(|(last, _)| *last < sequence), "a list is in order of age");
            lane.push_back((sequence, index));
        }
        debug_assert!(self.waiting <= self.used(), "what waits has a slot");
        index
    }

    /// Marks the oldest waiting unit of a stream as in flight.
    pub(in crate::ftl) fn send_first(&mut self, stream: u8) -> Option<u32> {
        let index = match self.lanes.get_mut(usize::from(stream)) {
            None => self.first_waiting,
            Some(lane) => lane.pop_front().map_or(NONE, |(_, index)| index),
        };
        if index == NONE {
            return None;
        }
        let slot = &mut self.slots[index as usize];
        debug_assert!(slot.state == State::Waits && self.waiting > 0, "the first waiting slot waits");
        slot.state = State::InFlight;
        let next = slot.next;
        if self.first_waiting == index {
            self.first_waiting = self.next_waiting(next);
        }
        self.waiting -= 1;
        Some(index)
    }

    /// Moves a waiting unit, which was written again, to another stream.
    pub(in crate::ftl) fn move_to(&mut self, index: u32, stream: u8) {
        if self.slots[index as usize].stream != stream {
            self.leave_lane(index);
            self.slots[index as usize].stream = stream;
            self.enter_lane(index);
        }
    }

    /// Lists a waiting unit in its stream, in its place by sequence.
    fn enter_lane(&mut self, index: u32) {
        let Slot { stream, sequence, .. } = self.slots[index as usize];
        if let Some(lane) = self.lanes.get_mut(usize::from(stream)) {
            let place = lane.partition_point(|(other, _)| *other < sequence);
            lane.insert(place, (sequence, index));
        }
    }

    /// Takes a unit from the list of its stream.
    fn leave_lane(&mut self, index: u32) {
        let Slot { stream, sequence, .. } = self.slots[index as usize];
        if let Some(lane) = self.lanes.get_mut(usize::from(stream)) {
            let place =
                lane.binary_search(&(sequence, index)).expect("a waiting unit is in its stream's list");
            lane.remove(place);
        }
    }

    /// The first waiting slot from `from` on.
    fn next_waiting(&self, from: u32) -> u32 {
        let mut index = from;
        while index != NONE && self.slots[index as usize].state != State::Waits {
            index = self.slots[index as usize].next;
        }
        index
    }

    /// Marks a unit in flight as waiting again, because its stripe, with this number, has failed.
    pub(in crate::ftl) fn send_back(&mut self, index: u32, number: u64) {
        let slot = &mut self.slots[index as usize];
        debug_assert_eq!(slot.state, State::InFlight, "only a unit in flight can have failed");
        let sequence = slot.sequence;
        slot.state = State::Waits;
        slot.first_stripe.get_or_insert(number);
        if sequence < self.sequence_of(self.first_waiting) {
            // It may be older than units sent after it; the oldest is to go first again.
            self.first_waiting = index;
        }
        self.waiting += 1;
        self.enter_lane(index);
    }

    /// Frees a slot whose unit was programmed, or dropped while it waited.
    pub(in crate::ftl) fn free(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        debug_assert_ne!(slot.state, State::Free, "a slot is freed once");
        let (previous, next) = (slot.previous, slot.next);
        let waited = slot.state == State::Waits;
        slot.state = State::Free;
        slot.content = Content::Zero;
        if waited {
            self.waiting -= 1;
            self.leave_lane(index);
        }
        match previous {
            NONE => self.head = next,
            previous => self.slots[previous as usize].next = next,
        }
        match next {
            NONE => self.tail = previous,
            next => self.slots[next as usize].previous = previous,
        }
        if self.first_waiting == index {
            self.first_waiting = self.next_waiting(next);
        }
        self.free.push(index);
    }
}

impl Buffer {
    /// Frees the slots of waiting units that `drops` selects. Returns their number.
    pub(in crate::ftl) fn drop_waiting(&mut self, drops: impl Fn(u64) -> bool) -> u32 {
        let mut next = self.first_waiting;
        let mut dropped = 0;
        while let Some(slot) = self.slots.get(next as usize) {
            let index = std::mem::replace(&mut next, slot.next);
            // Units in flight may come after a waiting one that has been sent back, and keep their slots.
            if slot.state == State::Waits && drops(slot.lpa) {
                self.free(index);
                dropped += 1;
            }
        }
        dropped
    }

    /// The slots in use, oldest first.
    pub(in crate::ftl) fn iter(&self) -> impl Iterator<Item = &Slot> {
        let first = self.slots.get(self.head as usize);
        std::iter::successors(first, |slot| self.slots.get(slot.next as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(buffer: &mut Buffer, lpa: u64) -> u32 {
        buffer.take(0, lpa, Content::Zero, UNTRACED, Entry::BASE, 0)
    }

    // Flush waits for the oldest slot: with a list out of order it would complete too early, or never.
    #[test]
    fn the_oldest_slot_tells_what_is_settled() {
        let mut buffer = Buffer::new(4, 1);
        let slots: Vec<u32> = (0..4).map(|lpa| taken(&mut buffer, lpa)).collect();
        assert_eq!((buffer.waiting(), buffer.settled(), buffer.waiting_since(0)), (4, 1, 1));
        assert_eq!(buffer.send_first(0), Some(slots[0]));
        assert_eq!(buffer.send_first(0), Some(slots[1]));
        assert_eq!((buffer.waiting(), buffer.settled(), buffer.waiting_since(0)), (2, 1, 3));
        buffer.free(slots[1]);
        assert_eq!(buffer.settled(), 1);
        buffer.free(slots[0]);
        assert_eq!(buffer.settled(), 3);
        buffer.free(slots[2]); // dropped while it waits
        assert_eq!((buffer.waiting(), buffer.waiting_since(0)), (1, 4));
        let late = taken(&mut buffer, 9);
        assert_eq!(buffer.send_first(0), Some(slots[3]));
        assert_eq!(buffer.send_first(0), Some(late));
        assert_eq!(buffer.send_first(0), None);
        buffer.free(late);
        buffer.free(slots[3]);
        assert_eq!((buffer.used(), buffer.waiting(), buffer.settled()), (0, 0, 6));
    }

    // A translation page dropped along with the host's units would leave flash behind the map.
    #[test]
    fn only_what_is_named_is_dropped() {
        let mut buffer = Buffer::new(5, 1);
        let slots: Vec<u32> = (0..5).map(|lpa| taken(&mut buffer, lpa)).collect();
        assert_eq!(buffer.send_first(0), Some(slots[0]));
        assert_eq!(buffer.drop_waiting(|lpa| lpa != 2), 3);
        assert_eq!((buffer.used(), buffer.waiting(), buffer.waiting_since(0)), (2, 1, 3));
        assert_eq!(buffer.send_first(0), Some(slots[2]));
        assert_eq!(buffer.drop_waiting(|_| true), 0);
    }

    // A slot that is dropped while in flight would be freed twice, the second time as another unit's.
    #[test]
    fn what_is_under_way_behind_one_that_was_sent_back_is_not_dropped() {
        let mut buffer = Buffer::new(5, 1);
        let slots: Vec<u32> = (0..4).map(|lpa| taken(&mut buffer, lpa)).collect();
        (0..3).for_each(|_| _ = buffer.send_first(0));
        buffer.send_back(slots[0], 1);
        assert_eq!((buffer.waiting(), buffer.drop_waiting(|_| true)), (2, 2));
        assert_eq!((buffer.used(), buffer.waiting()), (2, 0));
        buffer.free(slots[1]);
        buffer.free(slots[2]);
        assert_eq!((buffer.used(), buffer.settled()), (0, 5));
    }

    // A stripe with units of two streams would mix what the policy has told apart; a unit that is in no list is never programmed.
    #[test]
    fn each_stream_has_its_own_waiting_units_in_order() {
        let mut buffer = Buffer::new(8, 2);
        let take =
            |buffer: &mut Buffer, stream| buffer.take(stream, 1, Content::Zero, UNTRACED, Entry::BASE, 0);
        let slots = [0, 1, 1, 0, 1].map(|stream| take(&mut buffer, stream));
        assert_eq!(
            [0, 1].map(|stream| (buffer.waiting_in(stream), buffer.waiting_since(stream))),
            [(2, 1), (3, 2)]
        );
        assert_eq!([buffer.send_first(1), buffer.send_first(0)], [Some(slots[1]), Some(slots[0])]);
        assert_eq!((buffer.waiting(), buffer.settled()), (3, 1));
        // The third is written again as one of the other stream, and keeps its age.
        buffer.move_to(slots[2], 0);
        assert_eq!(
            [0, 1].map(|stream| (buffer.waiting_in(stream), buffer.waiting_since(stream))),
            [(2, 3), (1, 5)]
        );
        buffer.send_back(slots[1], 7);
        assert_eq!(
            (buffer.waiting_since(1), buffer.waiting_in(1), buffer.slot(slots[1]).first_stripe),
            (2, 2, Some(7))
        );
        buffer.free(slots[3]); // dropped while it waits
        assert_eq!([buffer.send_first(0), buffer.send_first(0)], [Some(slots[2]), None]);
        assert_eq!([0; 3].map(|_| buffer.send_first(1)), [Some(slots[1]), Some(slots[4]), None]);
        assert_eq!((buffer.waiting(), buffer.waiting_since(0), buffer.waiting_since(1)), (0, 6, 6));
    }
}
