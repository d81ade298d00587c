//! Payload in chunks joined by their identifiers (ByteExpress 3.3.2): slots of any submission queue, in any
//! order, before or after the command that names their payload.
//!
//! A payload belongs to the [`Pool`] until its command is executed. A contradiction poisons it: a repeated
//! chunk with other bytes, another number of chunks, or a chunk beyond that number. Its command then fails as
//! soon as it arrives.

use crate::partial::{PartResult, Partial, Pool, Table};
use byteway_clock::Time;
use byteway_wire::nvme::vendor::{Chunk, reassembled_descriptor};
use byteway_wire::nvme::{Sqe, Status};
use std::ops::Range;

/// The host's end: a payload cut into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunked {
    /// Identifier, unique among commands in flight and among payloads whose commands have not completed.
    /// After a failure it must not be reused while the device keeps incomplete payloads, because chunks may
    /// still be present.
    pub id: u16,
    /// Length in bytes.
    pub bytes: u32,
}

impl Chunked {
    /// Number of chunks, zero for no bytes. At most 65535 can be distinguished.
    pub const fn count(self) -> u32 {
        Chunk::count(self.bytes)
    }

    /// The bytes of the payload in chunk `index`.
    pub fn range(self, index: u32) -> Range<usize> {
        let at = index as usize * Chunk::PAYLOAD_BYTES;
        at..(at + Chunk::PAYLOAD_BYTES).min(self.bytes as usize)
    }

    /// Chunk `index` as a submission queue entry; `part` is the range given by [`Chunked::range`].
    pub fn entry(self, index: u32, part: &[u8], completes: bool) -> Sqe {
        let flags = if completes { Chunk::COMPLETE } else { 0 };
        Chunk::new(self.id, index as u16, self.count() as u16, part, flags).sqe()
    }

    /// The command with a data pointer that names the payload.
    pub fn placed_in(self, sqe: Sqe) -> Sqe {
        sqe.with_sgl(reassembled_descriptor(self.id, self.bytes))
    }
}

/// A payload that lacks chunks, or its command.
struct Payload<C> {
    partial: Partial,
    chunks: u32,
    command: Option<C>,
    is_poisoned: bool,
}

/// A complete payload with its command.
#[derive(Debug)]
pub struct Complete<C> {
    /// The command.
    pub command: C,
    /// The payload, followed by the last chunk's padding. Return it to the pool.
    pub partial: Partial,
}

/// Result of a chunk.
#[derive(Debug)]
pub enum ChunkResult<C> {
    /// Kept; more is to come.
    Kept,
    /// The chunk completed the payload of a waiting command.
    Complete(Complete<C>),
    /// The chunk had arrived before.
    Duplicate,
    /// The chunk was dropped: the pool is exhausted, or its index is out of range.
    Refused,
    /// The chunk contradicts the others, so this waiting command fails.
    Failed(C),
}

/// Result of a command.
#[derive(Debug)]
pub enum Named<C> {
    /// The command waits for chunks.
    Waits,
    /// The payload is complete; `None` if it has no bytes.
    Complete(C, Option<Partial>),
    /// The command fails with this status.
    Failed(C, Status),
}

/// The device's end: payloads by identifier. `C` is a waiting command.
pub struct Reassembly<C> {
    bytes_max: u32,
    payloads: Table<u16, Payload<C>>,
}

impl<C> Reassembly<C> {
    /// Reassembly of payloads of at most `bytes_max` bytes.
    pub fn new(bytes_max: u32) -> Self {
        Reassembly { bytes_max, payloads: Table::new() }
    }

    /// Handles a chunk. A payload that begins with it has the deadline `until`.
    pub fn chunk(&mut self, pool: &mut Pool, chunk: &Chunk, until: Time) -> ChunkResult<C> {
        let (index, chunks) = (u32::from(chunk.index), u32::from(chunk.total));
        let at = index as usize * Chunk::PAYLOAD_BYTES;
        let Some(payload) = self.payloads.get_mut(chunk.id) else {
            if index >= chunks || chunks > Chunk::count(self.bytes_max) {
                return ChunkResult::Refused;
            }
            let Some(mut partial) = pool.take(until) else { return ChunkResult::Refused };
            partial.place(index, at, &chunk.payload);
            let payload = Payload { partial, chunks, command: None, is_poisoned: false };
            self.payloads.insert(chunk.id, payload);
            return ChunkResult::Kept;
        };
        if payload.is_poisoned {
            return ChunkResult::Refused;
        }
        let placed = if chunks != payload.chunks || index >= chunks {
            PartResult::Other
        } else {
            payload.partial.place(index, at, &chunk.payload)
        };
        match placed {
            PartResult::Same => ChunkResult::Duplicate,
            PartResult::New if payload.partial.parts() < payload.chunks || payload.command.is_none() => {
                ChunkResult::Kept
            }
            PartResult::New => match self.remove(chunk.id) {
                Some((Some(command), partial)) => ChunkResult::Complete(Complete { command, partial }),
                _ => ChunkResult::Kept, // cannot happen: the payload was found above
            },
            PartResult::Other if payload.command.is_none() => {
                payload.is_poisoned = true;
                ChunkResult::Refused
            }
            PartResult::Other => match self.give_up(pool, chunk.id) {
                Some(command) => ChunkResult::Failed(command),
                None => ChunkResult::Refused,
            },
        }
    }

    /// Handles a command that names payload `id` of `bytes`. If it has to wait, its deadline is `until`, or
    /// the earlier one of the chunks that came before.
    pub fn command(&mut self, pool: &mut Pool, (id, bytes): (u64, u32), command: C, until: Time) -> Named<C> {
        let Ok(id) = u16::try_from(id) else {
            return Named::Failed(command, Status::INVALID_FIELD.with_dnr());
        };
        if bytes > self.bytes_max {
            return Named::Failed(command, Status::DATA_SGL_LENGTH_INVALID.with_dnr());
        }
        if bytes == 0 {
            return Named::Complete(command, None);
        }
        let chunks = Chunk::count(bytes);
        let Some(payload) = self.payloads.get_mut(id) else {
            let Some(partial) = pool.take(until) else {
                return Named::Failed(command, Status::DATA_TRANSFER_ERROR);
            };
            let payload = Payload { partial, chunks, command: Some(command), is_poisoned: false };
            self.payloads.insert(id, payload);
            return Named::Waits;
        };
        if payload.command.is_some() {
            // The payload belongs to another command, which must not suffer.
            return Named::Failed(command, Status::COMMAND_SEQUENCE_ERROR.with_dnr());
        }
        if payload.is_poisoned || payload.chunks != chunks {
            self.give_up(pool, id);
            return Named::Failed(command, Status::DATA_TRANSFER_ERROR);
        }
        if payload.partial.parts() < chunks {
            payload.command = Some(command);
            return Named::Waits;
        }
        let partial = self.remove(id).map(|(_, partial)| partial);
        Named::Complete(command, partial)
    }

    /// Gives up the first payload whose command satisfies `is_meant`. Returns that command.
    pub fn give_up_command(&mut self, pool: &mut Pool, is_meant: impl Fn(&C) -> bool) -> Option<C> {
        let id = self.payloads.find(|_, payload| payload.command.as_ref().is_some_and(&is_meant))?;
        self.give_up(pool, id)
    }

    /// Gives up the first payload whose deadline has passed. Returns its command, if that has come.
    pub fn give_up_late(&mut self, pool: &mut Pool, now: Time) -> Option<Option<C>> {
        let id = self.payloads.find(|_, payload| payload.partial.until() <= now)?;
        Some(self.give_up(pool, id))
    }

    /// Gives up an arbitrary payload. Returns its command, if that has come.
    pub fn give_up_any(&mut self, pool: &mut Pool) -> Option<Option<C>> {
        let id = self.payloads.find(|_, _| true)?;
        Some(self.give_up(pool, id))
    }

    /// The next deadline of a payload.
    pub fn until(&self) -> Option<Time> {
        self.payloads.values().map(|payload| payload.partial.until()).min()
    }

    fn give_up(&mut self, pool: &mut Pool, id: u16) -> Option<C> {
        let (command, partial) = self.remove(id)?;
        pool.give(partial);
        command
    }

    fn remove(&mut self, id: u16) -> Option<(Option<C>, Partial)> {
        self.payloads.remove(id).map(|payload| (payload.command, payload.partial))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LATE: Time = Time(1000);

    fn payload(bytes: u32) -> Vec<u8> {
        (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect()
    }

    fn chunk(cut: Chunked, index: u32, from: &[u8]) -> Chunk {
        Chunk::parse(&cut.entry(index, &from[cut.range(index)], false))
    }

    fn bytes_of(mut partial: Partial, bytes: u32) -> Vec<u8> {
        let mut all = Vec::new();
        partial.swap_into(&mut all, bytes as usize);
        all
    }

    /// Without this a last chunk would carry bytes from beyond the payload, or none would carry its end.
    #[test]
    fn a_cut_covers_the_payload_once() {
        for bytes in [0, 1, 55, 56, 57, 112, 4096] {
            let cut = Chunked { id: 0x8000, bytes };
            let ranges: Vec<_> = (0..cut.count()).map(|index| cut.range(index)).collect();
            assert_eq!(ranges.iter().map(Range::len).sum::<usize>(), bytes as usize);
            assert!(ranges.iter().all(|range| (1..=56).contains(&range.len())));
            assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }

    /// Without this an impossible payload would be executed, or wait indefinitely.
    #[test]
    fn what_contradicts_fails_and_leaves_nothing() {
        let cut = Chunked { id: 0x8000, bytes: 150 };
        let good = payload(150);
        let mut other = good.clone();
        other[60] ^= 1;
        type Step = fn(&mut Chunk);
        let cases: [(&str, Step); 4] = [
            ("other bytes", |chunk| chunk.payload[3] ^= 1),
            ("fewer chunks", |chunk| chunk.total = 2),
            ("more chunks", |chunk| chunk.total = 4),
            ("beyond the last", |chunk| chunk.index = 3),
        ];
        for (what, change) in cases {
            for waits in [false, true] {
                let (mut pool, mut device) = (Pool::new(4), Reassembly::new(4096));
                assert!(matches!(device.chunk(&mut pool, &chunk(cut, 1, &good), LATE), ChunkResult::Kept));
                if waits {
                    assert!(matches!(device.command(&mut pool, (0x8000, 150), 1, LATE), Named::Waits));
                }
                let mut bad = chunk(cut, 1, &good);
                change(&mut bad);
                match device.chunk(&mut pool, &bad, LATE) {
                    ChunkResult::Failed(1) if waits => {}
                    ChunkResult::Refused if !waits => {
                        let third = chunk(cut, 2, &good);
                        assert!(
                            matches!(device.chunk(&mut pool, &third, LATE), ChunkResult::Refused),
                            "{what}"
                        );
                        let named = device.command(&mut pool, (0x8000, 150), 1, LATE);
                        assert!(matches!(named, Named::Failed(1, Status::DATA_TRANSFER_ERROR)), "{what}");
                    }
                    taken => panic!("{what}, {waits}: {taken:?}"),
                }
                assert_eq!((pool.used(), device.until()), (0, None), "{what}");
            }
        }
    }

    /// Without these checks a host could make the device keep more than its memory, or take a payload from
    /// another command.
    #[test]
    fn bounds_are_kept() {
        let (mut pool, mut device) = (Pool::new(2), Reassembly::<u32>::new(112));
        let fill = |id, index, total| Chunk::new(id, index, total, &[1; 56], 0);
        for (bad, why) in [(fill(1, 0, 0), "none"), (fill(1, 2, 2), "beyond"), (fill(1, 0, 3), "too long")] {
            assert!(matches!(device.chunk(&mut pool, &bad, LATE), ChunkResult::Refused), "{why}");
        }
        assert!(matches!(device.chunk(&mut pool, &fill(1, 0, 2), LATE), ChunkResult::Kept));
        assert!(matches!(device.command(&mut pool, (2, 57), 2, LATE), Named::Waits));
        assert!(
            matches!(device.chunk(&mut pool, &fill(3, 0, 1), LATE), ChunkResult::Refused),
            "the pool is exhausted"
        );
        let full = device.command(&mut pool, (3, 57), 3, LATE);
        assert!(matches!(full, Named::Failed(3, Status::DATA_TRANSFER_ERROR)));
        let twice = device.command(&mut pool, (2, 57), 4, LATE);
        assert!(matches!(twice, Named::Failed(4, status) if status.same_as(Status::COMMAND_SEQUENCE_ERROR)));
        let long = device.command(&mut pool, (1, 113), 5, LATE);
        assert!(matches!(long, Named::Failed(5, status) if status.same_as(Status::DATA_SGL_LENGTH_INVALID)));
        let wide = device.command(&mut pool, (1 << 16 | 1, 57), 6, LATE);
        assert!(matches!(wide, Named::Failed(6, status) if status.same_as(Status::INVALID_FIELD)));
        assert!(matches!(device.command(&mut pool, (9, 0), 7, LATE), Named::Complete(7, None)));
        assert_eq!(device.until(), Some(LATE));
        assert!(device.give_up_late(&mut pool, Time::ZERO).is_none());
        assert!(matches!(device.give_up_late(&mut pool, LATE), Some(None)));
        assert!(matches!(device.give_up_command(&mut pool, |command| *command == 2), Some(2)));
        assert_eq!((pool.used(), device.until()), (0, None));
    }

    trait SameAs {
        fn same_as(self, other: Status) -> bool;
    }

    impl SameAs for Status {
        fn same_as(self, other: Status) -> bool {
            self == other.with_dnr()
        }
    }

    proptest! {
        /// Without this some order of chunks, some repetition or some neighbour would change a payload.
        #[test]
        fn any_order_gives_the_payload(
            lengths in prop::collection::vec(1u32..1200, 1..6),
            order in prop::collection::vec((any::<u16>(), any::<bool>()), 1..400),
        ) {
            let payloads: Vec<_> = lengths.iter().map(|bytes| payload(*bytes)).collect();
            let cuts: Vec<_> = lengths.iter().zip(0x8000..).map(|(bytes, id)| Chunked { id, bytes: *bytes }).collect();
            // What to send: chunks and, as None, commands.
            let mut open: Vec<_> = cuts.iter().enumerate()
                .flat_map(|(which, cut)| (0..cut.count()).map(Some).chain([None]).map(move |part| (which, part)))
                .collect();
            let (mut pool, mut device) = (Pool::new(8), Reassembly::new(4096));
            let mut done = vec![0; cuts.len()];
            let mut turns = order.iter().cycle();
            while !open.is_empty() {
                let (pick, again) = turns.next().unwrap();
                let (which, part) = open[*pick as usize % open.len()];
                let cut = cuts[which];
                let complete = match part {
                    Some(index) => match device.chunk(&mut pool, &chunk(cut, index, &payloads[which]), LATE) {
                        ChunkResult::Complete(Complete { command, partial }) => Some((command, partial)),
                        ChunkResult::Kept => {
                            if *again {
                                let same = device.chunk(&mut pool, &chunk(cut, index, &payloads[which]), LATE);
                                prop_assert!(matches!(same, ChunkResult::Duplicate));
                            }
                            None
                        }
                        taken => panic!("{taken:?}"),
                    },
                    None => match device.command(&mut pool, (cut.id.into(), cut.bytes), which, LATE) {
                        Named::Waits => None,
                        Named::Complete(command, partial) => Some((command, partial.unwrap())),
                        named => panic!("{named:?}"),
                    },
                };
                open.swap_remove(*pick as usize % open.len());
                if let Some((command, partial)) = complete {
                    prop_assert_eq!(command, which);
                    prop_assert!(open.iter().all(|(other, _)| *other != which), "complete with its last part");
                    let mut partial = partial;
                    let mut bytes = Vec::new();
                    partial.swap_into(&mut bytes, cut.bytes as usize);
                    pool.give(partial);
                    prop_assert_eq!(&bytes, &payloads[which]);
                    done[which] += 1;
                }
            }
            prop_assert!(done.iter().all(|times| *times == 1));
            prop_assert_eq!((pool.used(), device.until()), (0, None));
        }

        /// Without this a payload would be executed with a part missing: any of them.
        #[test]
        fn a_missing_chunk_keeps_it_waiting(bytes in 57u32..2000, missing in any::<u16>()) {
            let cut = Chunked { id: 7, bytes };
            let missing = u32::from(missing) % cut.count();
            let (mut pool, mut device) = (Pool::new(1), Reassembly::new(4096));
            let all = payload(bytes);
            prop_assert!(matches!(device.command(&mut pool, (7, bytes), (), LATE), Named::Waits));
            for index in (0..cut.count()).filter(|index| *index != missing) {
                prop_assert!(matches!(device.chunk(&mut pool, &chunk(cut, index, &all), LATE), ChunkResult::Kept));
            }
            match device.chunk(&mut pool, &chunk(cut, missing, &all), LATE) {
                ChunkResult::Complete(complete) => prop_assert_eq!(bytes_of(complete.partial, bytes), all),
                taken => panic!("{taken:?}"),
            }
        }

        /// Without this some hostile sequence would panic, or leak memory.
        #[test]
        fn anything_goes_and_everything_comes_back(
            steps in prop::collection::vec((0u8..4, 0u16..4, 0u16..5, 0u16..5, any::<u8>()), 0..200)
        ) {
            let (mut pool, mut device) = (Pool::new(3), Reassembly::new(200));
            for (what, id, index, total, fill) in steps {
                let gone = match what {
                    0 | 1 => match device.chunk(&mut pool, &Chunk::new(id, index, total, &[fill & 1; 56], 0), LATE) {
                        ChunkResult::Complete(complete) => Some(complete.partial),
                        _ => None,
                    },
                    2 => match device.command(&mut pool, (id.into(), u32::from(total) * 56), id, LATE) {
                        Named::Complete(_, partial) => partial,
                        _ => None,
                    },
                    _ => { device.give_up_command(&mut pool, |command| *command == id); None }
                };
                if let Some(partial) = gone {
                    pool.give(partial);
                }
                prop_assert!(pool.used() <= 3);
            }
            while device.give_up_any(&mut pool).is_some() {}
            prop_assert_eq!((pool.used(), device.until()), (0, None));
        }
    }
}
