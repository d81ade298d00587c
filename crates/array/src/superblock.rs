//! The superblock: state of the array on every member, one atomic unit, in two locations in turn.

use crate::config::{Level, MEMBERS_MAX};
use byteway_clock::{Clock, Permit, Semaphore};
use byteway_content::{Content, Keep, UNIT_BYTES};
use std::cell::Cell;

const MAGIC: [u8; 8] = *b"BytwyAry";
const VERSION: u32 = 1;
/// Start of the bytes covered by the checksum: after magic, version and the checksum itself.
const CHECKED_FROM: usize = 16;
/// Offset of the slots, and the bytes of each.
const SLOTS_AT: usize = 128;
const SLOT_BYTES: usize = 16;
const _: () = assert!(SLOTS_AT + MEMBERS_MAX * SLOT_BYTES <= UNIT_BYTES);

/// State of a slot's member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// Complete.
    Active,
    /// Complete in the stripes below `mark`.
    Rebuilding {
        /// The first stripe that is not rebuilt.
        mark: u64,
    },
    /// Missing, stale or broken.
    Failed,
}

impl SlotState {
    /// Whether it holds its data of a stripe.
    pub(crate) fn has(self, stripe: u64) -> bool {
        match self {
            SlotState::Active => true,
            SlotState::Rebuilding { mark } => stripe < mark,
            SlotState::Failed => false,
        }
    }
}

/// The turn to write superblocks, and their number.
pub(crate) struct Superblocks {
    turn: Semaphore,
    events: Cell<u64>,
}

impl Superblocks {
    pub(crate) fn new(clock: &Clock) -> Self {
        Superblocks { turn: Semaphore::new(clock, 1), events: Cell::new(0) }
    }

    /// Waits for the turn to write superblocks: one task at a time, so that a place is not overwritten whose number the
    /// other one lacks yet.
    pub(crate) async fn turn(&self) -> Permit {
        self.turn.acquire(1).await
    }

    /// Number of the newest superblocks.
    pub(crate) fn events(&self) -> u64 {
        self.events.get()
    }

    /// Takes over the number of the superblocks that assembly found.
    pub(crate) fn restore(&self, events: u64) {
        debug_assert_eq!(self.events.get(), 0, "superblocks were written before the newest were known");
        self.events.set(events);
    }

    /// Number of the superblocks to be written now. The caller has the turn.
    pub(crate) fn advance(&self) -> u64 {
        debug_assert_eq!(self.turn.available(), 0, "superblocks are written in turn");
        self.events.set(self.events.get() + 1);
        self.events.get()
    }
}

/// State of an array, as stored on its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) uuid: [u8; 16],
    pub(crate) level: Level,
    pub(crate) chunk_units: u32,
    /// Capacity of a member in units, and the part of it for data.
    pub(crate) member_units: u64,
    pub(crate) data_units: u64,
    /// Slot of this member.
    pub(crate) slot: u32,
    /// Number of state changes: the highest is the newest.
    pub(crate) events: u64,
    /// Journal entries below this number are obsolete.
    pub(crate) journal_from: u64,
    /// There are lost units.
    pub(crate) has_lost: bool,
    pub(crate) slots: Vec<SlotState>,
    /// Event number with which each slot's member joined, which differs for a drive that had the slot before.
    pub(crate) joined: Vec<u32>,
}

impl Superblock {
    pub(crate) fn encode(&self) -> Content {
        let mut bytes = [0; UNIT_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(16, &self.uuid);
        put(32, &[self.level as u8, self.slots.len() as u8, u8::from(self.has_lost)]);
        put(36, &self.chunk_units.to_le_bytes());
        put(40, &self.slot.to_le_bytes());
        put(48, &self.member_units.to_le_bytes());
        put(56, &self.data_units.to_le_bytes());
        put(64, &self.events.to_le_bytes());
        put(72, &self.journal_from.to_le_bytes());
        for (index, state) in self.slots.iter().enumerate() {
            let (kind, mark) = match *state {
                SlotState::Active => (1_u8, 0),
                SlotState::Rebuilding { mark } => (2, mark),
                SlotState::Failed => (3, 0),
            };
            put(SLOTS_AT + index * SLOT_BYTES, &[kind]);
            put(SLOTS_AT + index * SLOT_BYTES + 4, &self.joined[index].to_le_bytes());
            put(SLOTS_AT + index * SLOT_BYTES + 8, &mark.to_le_bytes());
        }
        let sum = crc32c::crc32c(&bytes[CHECKED_FROM..]);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        Content::of(&bytes, Keep::Bytes)
    }

    /// Decodes a superblock; None if it is damaged or of another version.
    pub(crate) fn decode(content: &Content) -> Option<Superblock> {
        let mut bytes = [0; UNIT_BYTES];
        content.write_to(&mut bytes);
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let is_whole =
            bytes[..8] == MAGIC && word(8) == VERSION && word(12) == crc32c::crc32c(&bytes[CHECKED_FROM..]);
        if content.marred() != 0 || !is_whole || usize::from(bytes[33]) > MEMBERS_MAX {
            return None;
        }
        let slot_state = |index: usize| {
            let at = SLOTS_AT + index * SLOT_BYTES;
            match bytes[at] {
                1 => Some(SlotState::Active),
                2 => Some(SlotState::Rebuilding { mark: long(at + 8) }),
                3 => Some(SlotState::Failed),
                _ => None,
            }
        };
        Some(Superblock {
            uuid: bytes[16..32].try_into().ok()?,
            level: Level::from_number(bytes[32])?,
            chunk_units: word(36),
            member_units: long(48),
            data_units: long(56),
            slot: word(40),
            events: long(64),
            journal_from: long(72),
            has_lost: bytes[34] != 0,
            slots: (0..bytes[33].into()).map(slot_state).collect::<Option<_>>()?,
            joined: (0..bytes[33].into())
                .map(|index: usize| word(SLOTS_AT + index * SLOT_BYTES + 4))
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A misread superblock mixes up members; trusting a damaged one is worse.
    #[test]
    fn what_is_written_is_read_and_nothing_else_is() {
        let superblock = Superblock {
            uuid: *b"0123456789abcdef",
            level: Level::Raid5,
            chunk_units: 16,
            member_units: 1 << 40,
            data_units: (1 << 40) - 999,
            slot: 2,
            events: 77,
            journal_from: 5,
            has_lost: true,
            slots: vec![SlotState::Active, SlotState::Failed, SlotState::Rebuilding { mark: 1 << 35 }],
            joined: vec![1, 1, 76],
        };
        let content = superblock.encode();
        assert_eq!(Superblock::decode(&content), Some(superblock));
        for at in [0, 9, 13, 20, 33, 64, 130, 4095] {
            let damaged = content.edited(Keep::Bytes, |bytes, _| bytes[at] ^= 0x40);
            assert_eq!(Superblock::decode(&damaged), None, "byte {at}");
        }
        assert_eq!(Superblock::decode(&Content::Zero), None);
    }
}
