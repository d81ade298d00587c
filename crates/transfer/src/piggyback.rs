//! Payload in the fields of commands (BandSlim): a head, and pieces in transfer commands behind it.
//!
//! Serialized, a queue has one open stream, and its pieces come in order. Pipelined, a stream is named by its
//! head's command identifier, each piece has its index, and they come in any order, even before the head.

use crate::partial::{PartResult, Partial, Pool, Table};
use byteway_clock::Time;
use byteway_wire::nvme::vendor::piggyback::{
    HEAD_BYTES, Head, PIECE_BYTES, PIPELINED_PIECE_BYTES, Piece, PipelinedPiece, commands,
};
use byteway_wire::nvme::{Sqe, Status, VendorOpcode};
use std::ops::Range;

/// The host's end: a payload cut into a head and pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    /// Length in bytes.
    pub bytes: u32,
    /// Whether the pieces carry their indices.
    pub pipelined: bool,
}

impl Pieces {
    /// Number of commands including the head, at least 1. Pipelined, at most 65536 can be distinguished.
    pub const fn count(self) -> u32 {
        commands(self.bytes, self.pipelined)
    }

    /// The bytes of the payload in command `index`; 0 is the head.
    pub fn range(self, index: u32) -> Range<usize> {
        let bytes = self.bytes as usize;
        match index.checked_sub(1) {
            None => 0..bytes.min(HEAD_BYTES),
            Some(piece) => {
                let at = HEAD_BYTES + piece as usize * self.piece_bytes();
                at.min(bytes)..(at + self.piece_bytes()).min(bytes)
            }
        }
    }

    /// The head: the storing command, with its part of the payload (range 0 of [`Pieces::range`]). A Sink
    /// Store announces pipelined pieces in CDW2, the others by their opcodes.
    pub fn head(self, mut sqe: Sqe, part: &[u8]) -> Sqe {
        Head::fill(&mut sqe, part);
        // In a Store of a key-value pair these fields hold the key.
        let has_space = [VendorOpcode::SINK_STORE, VendorOpcode::CSD_TASK_PIGGYBACK]
            .contains(&VendorOpcode(sqe.opcode()));
        if self.pipelined && has_space {
            sqe.cdw2 |= Head::PIPELINED;
        }
        sqe
    }

    /// Piece `index` (from 1) as command `cid`; `stream` is the head's command identifier.
    pub fn piece(self, index: u32, cid: u16, nsid: u32, stream: u16, part: &[u8]) -> Sqe {
        if self.pipelined {
            PipelinedPiece { stream, sequence: index as u16 }.sqe(cid, nsid, part)
        } else {
            Piece::sqe(cid, nsid, part)
        }
    }

    fn piece_bytes(self) -> usize {
        if self.pipelined { PIPELINED_PIECE_BYTES } else { PIECE_BYTES }
    }
}

/// A complete payload.
#[derive(Debug)]
pub struct Complete<S> {
    /// Operation that its head requests.
    pub store: S,
    /// Length in bytes.
    pub bytes: u32,
    /// The payload, followed by the last piece's padding. Return it to the pool.
    pub partial: Partial,
}

/// Result of a command of a stream.
#[derive(Debug)]
pub enum PieceResult<S> {
    /// Kept; more is to come.
    Kept,
    /// The piece completed the payload.
    Complete(Complete<S>),
    /// The stream fails with this status.
    Failed(Status),
}

struct Open<S> {
    store: S,
    bytes: u32,
    partial: Partial,
}

/// The device's end of serialized streams, at most one per queue. `S` is the operation that a head requests.
pub struct Serialized<S> {
    open: Table<u16, Open<S>>,
}

impl<S> Default for Serialized<S> {
    fn default() -> Self {
        Serialized { open: Table::new() }
    }
}

impl<S> Serialized<S> {
    /// Handles a head, of a payload of `bytes`. It replaces an open stream of its queue. A new stream has the
    /// deadline `until`.
    pub fn head(
        &mut self,
        pool: &mut Pool,
        queue: u16,
        (store, bytes): (S, u32),
        part: &[u8; HEAD_BYTES],
        until: Time,
    ) -> PieceResult<S> {
        self.give_up(pool, queue);
        let Some(mut partial) = pool.take(until) else {
            return PieceResult::Failed(Status::DATA_TRANSFER_ERROR);
        };
        partial.append(part);
        if bytes as usize <= HEAD_BYTES {
            return PieceResult::Complete(Complete { store, bytes, partial });
        }
        self.open.insert(queue, Open { store, bytes, partial });
        PieceResult::Kept
    }

    /// Handles a piece.
    pub fn piece(&mut self, queue: u16, part: &[u8]) -> PieceResult<S> {
        let Some(open) = self.open.get_mut(queue) else {
            return PieceResult::Failed(Status::COMMAND_SEQUENCE_ERROR.with_dnr());
        };
        open.partial.append(part);
        if open.partial.bytes() < open.bytes as usize {
            return PieceResult::Kept;
        }
        match self.open.remove(queue) {
            Some(Open { store, bytes, partial }) => PieceResult::Complete(Complete { store, bytes, partial }),
            None => PieceResult::Kept, // cannot happen: the stream was found above
        }
    }

    /// Gives up a queue's stream.
    pub fn give_up(&mut self, pool: &mut Pool, queue: u16) {
        if let Some(open) = self.open.remove(queue) {
            pool.give(open.partial);
        }
    }

    /// Gives up the first stream whose deadline has passed; false if there is none.
    pub fn give_up_late(&mut self, pool: &mut Pool, now: Time) -> bool {
        let late = self.open.find(|_, open| open.partial.until() <= now);
        late.map(|queue| self.give_up(pool, queue)).is_some()
    }

    /// The next deadline of a stream.
    pub fn until(&self) -> Option<Time> {
        self.open.values().map(|open| open.partial.until()).min()
    }
}

/// Queue and head's command identifier of a stream.
type StreamKey = (u16, u16);

struct Stream<S> {
    partial: Partial,
    /// Once the head has arrived: its operation, and the payload's length.
    head: Option<(S, u32)>,
    /// Whether the stream is poisoned: it never yields a payload.
    is_poisoned: bool,
    /// Whether the head has failed: further pieces belong to no payload.
    is_refused: bool,
}

/// The device's end of pipelined streams. `S` is what a head asks to do.
///
/// A piece that is repeated with different bytes, that its stream cannot have, or that fails, poisons the
/// stream: it never yields a payload, and is given up at its deadline. So is the rest of a stream whose head
/// has failed: otherwise its late pieces would be taken for those of the next stream of that name, since
/// pieces may come before their head.
pub struct Pipelined<S> {
    bytes_max: u32,
    streams: Table<StreamKey, Stream<S>>,
}

impl<S> Pipelined<S> {
    /// Streams with payloads of at most `bytes_max` bytes.
    pub fn new(bytes_max: u32) -> Self {
        Pipelined { bytes_max, streams: Table::new() }
    }

    /// Handles a head, of a payload of `bytes`, at most `bytes_max`. It replaces a stream of the same name
    /// that has or had a head; pieces that came before their head are its own. A new stream has the deadline
    /// `until`.
    pub fn head(
        &mut self,
        pool: &mut Pool,
        key: (u16, u16),
        head: (S, u32),
        part: &[u8; HEAD_BYTES],
        until: Time,
    ) -> PieceResult<S> {
        if self.streams.get_mut(key).is_some_and(|stream| stream.head.is_some() || stream.is_refused) {
            self.give_up(pool, key);
        }
        let count = commands(head.1, true);
        let Some(stream) = self.find_or_begin(pool, key, until) else {
            return PieceResult::Failed(Status::DATA_TRANSFER_ERROR);
        };
        if stream.is_poisoned || stream.partial.end() > count {
            self.give_up(pool, key);
            return PieceResult::Failed(Status::DATA_TRANSFER_ERROR);
        }
        stream.partial.place(0, 0, part);
        stream.head = Some(head);
        self.complete(key)
    }

    /// Handles a piece. A stream that begins with it has the deadline `until`.
    pub fn piece(
        &mut self,
        pool: &mut Pool,
        queue: u16,
        piece: &PipelinedPiece,
        part: &[u8],
        until: Time,
    ) -> PieceResult<S> {
        let (key, index) = ((queue, piece.stream), u32::from(piece.sequence));
        let known = self.streams.get_mut(key);
        let bytes =
            known.as_ref().and_then(|stream| stream.head.as_ref()).map_or(self.bytes_max, |head| head.1);
        if index == 0 || index >= commands(bytes, true) {
            if let Some(stream) = known {
                stream.is_poisoned = true;
            }
            return PieceResult::Failed(Status::INVALID_FIELD.with_dnr());
        }
        let Some(stream) = self.find_or_begin(pool, key, until) else {
            return PieceResult::Failed(Status::DATA_TRANSFER_ERROR);
        };
        if stream.is_poisoned {
            return PieceResult::Failed(Status::DATA_TRANSFER_ERROR);
        }
        let at = HEAD_BYTES + (index as usize - 1) * PIPELINED_PIECE_BYTES;
        match stream.partial.place(index, at, part) {
            PartResult::New => self.complete(key),
            PartResult::Same => PieceResult::Kept,
            PartResult::Other => {
                stream.is_poisoned = true;
                PieceResult::Failed(Status::DATA_TRANSFER_ERROR)
            }
        }
    }

    /// Handles a failed head, together with its pieces, past and future: they fail until `until`, or until
    /// another head of that name comes. If the pool is exhausted, later pieces are refused as well, for as
    /// long as that lasts.
    pub fn refuse_head(&mut self, pool: &mut Pool, key: (u16, u16), until: Time) {
        self.give_up(pool, key);
        if let Some(stream) = self.find_or_begin(pool, key, until) {
            (stream.is_poisoned, stream.is_refused) = (true, true);
        }
    }

    /// Handles a failed piece.
    pub fn refuse_piece(&mut self, key: (u16, u16)) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.is_poisoned = true;
        }
    }

    /// Gives up all streams of a queue.
    pub fn give_up_queue(&mut self, pool: &mut Pool, queue: u16) {
        while let Some(key) = self.streams.find(|key, _| key.0 == queue) {
            self.give_up(pool, key);
        }
    }

    /// Gives up the first stream whose deadline has passed; false if there is none.
    pub fn give_up_late(&mut self, pool: &mut Pool, now: Time) -> bool {
        let late = self.streams.find(|_, stream| stream.partial.until() <= now);
        late.map(|key| self.give_up(pool, key)).is_some()
    }

    /// The next deadline of a stream.
    pub fn until(&self) -> Option<Time> {
        self.streams.values().map(|stream| stream.partial.until()).min()
    }

    fn find_or_begin(&mut self, pool: &mut Pool, key: StreamKey, until: Time) -> Option<&mut Stream<S>> {
        if self.streams.get_mut(key).is_none() {
            let partial = pool.take(until)?;
            let stream = Stream { partial, head: None, is_poisoned: false, is_refused: false };
            self.streams.insert(key, stream);
        }
        self.streams.get_mut(key)
    }

    /// Takes the payload if nothing is missing.
    fn complete(&mut self, key: StreamKey) -> PieceResult<S> {
        let is_complete = self.streams.get_mut(key).is_some_and(|stream| {
            stream.head.as_ref().is_some_and(|(_, bytes)| stream.partial.parts() == commands(*bytes, true))
        });
        let stream = if is_complete { self.streams.remove(key) } else { None };
        match stream {
            Some(Stream { partial, head: Some((store, bytes)), .. }) => {
                PieceResult::Complete(Complete { store, bytes, partial })
            }
            _ => PieceResult::Kept,
        }
    }

    fn give_up(&mut self, pool: &mut Pool, key: StreamKey) {
        if let Some(stream) = self.streams.remove(key) {
            pool.give(stream.partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::Delay;
    use byteway_wire::nvme::vendor::Sink;
    use proptest::prelude::*;

    const QUEUE: u16 = 3;

    fn late() -> Time {
        Time::ZERO + Delay::from_us(1)
    }

    fn payload(bytes: u32) -> Vec<u8> {
        (0..bytes).map(|at| (at * 11 + at / 253) as u8).collect()
    }

    /// The commands of a payload: the head's identifier is `stream`, those of the pieces do not matter.
    fn cut(bytes: u32, pipelined: bool, stream: u16) -> Vec<Sqe> {
        let (cut, all) = (Pieces { bytes, pipelined }, payload(bytes));
        let head = Sink { offset: 0, bytes }.sqe(VendorOpcode::SINK_STORE, stream, 1);
        (0..cut.count())
            .map(|index| match (index, &all[cut.range(index)]) {
                (0, part) => cut.head(head, part),
                (_, part) => cut.piece(index, 99, 1, stream, part),
            })
            .collect()
    }

    fn give_pipelined(device: &mut Pipelined<u16>, pool: &mut Pool, sqe: &Sqe) -> PieceResult<u16> {
        if sqe.opcode() == VendorOpcode::SINK_STORE.0 {
            assert_eq!(sqe.cdw2, Head::PIPELINED);
            let head = (sqe.cid(), Sink::parse(sqe).bytes);
            return device.head(pool, (QUEUE, sqe.cid()), head, &Head::payload(sqe), late());
        }
        let piece = PipelinedPiece::parse(sqe);
        device.piece(pool, QUEUE, &piece, PipelinedPiece::payload(sqe), late())
    }

    fn bytes_of(pool: &mut Pool, complete: Complete<u16>) -> Vec<u8> {
        let Complete { bytes, mut partial, .. } = complete;
        let mut all = Vec::new();
        partial.swap_into(&mut all, bytes as usize);
        pool.give(partial);
        all
    }

    /// Without this a serialized payload would lose bytes at a boundary, or count as complete too early.
    #[test]
    fn serialized_streams_give_their_payload() {
        let (mut pool, mut device) = (Pool::new(2), Serialized::default());
        for bytes in [0, 1, 35, 36, 91, 92, 147, 148, 4096] {
            let commands = cut(bytes, false, 7);
            let (head, pieces) = commands.split_first().unwrap();
            let mut taken = device.head(&mut pool, QUEUE, (7, bytes), &Head::payload(head), late());
            for piece in pieces {
                assert!(matches!(taken, PieceResult::Kept), "{bytes}");
                taken = device.piece(QUEUE, Piece::payload(piece));
            }
            let PieceResult::Complete(complete) = taken else { panic!("{bytes}: {taken:?}") };
            assert_eq!(bytes_of(&mut pool, complete), payload(bytes));
            let more = device.piece(QUEUE, &[0; PIECE_BYTES]);
            assert!(
                matches!(more, PieceResult::Failed(status) if status == Status::COMMAND_SEQUENCE_ERROR.with_dnr())
            );
            assert_eq!(pool.used(), 0);
        }
    }

    /// Without this bytes of an abandoned stream would end up in the next one, or in another queue's.
    #[test]
    fn a_head_replaces_the_open_stream_of_its_queue_only() {
        let (mut pool, mut device) = (Pool::new(4), Serialized::default());
        let (old, new) = (cut(100, false, 1), cut(60, false, 2));
        for queue in [QUEUE, QUEUE + 1] {
            assert!(matches!(
                device.head(&mut pool, queue, (1, 100), &Head::payload(&old[0]), late()),
                PieceResult::Kept
            ));
        }
        let head = device.head(&mut pool, QUEUE, (2, 60), &Head::payload(&new[0]), late());
        assert!(matches!(head, PieceResult::Kept));
        let PieceResult::Complete(complete) = device.piece(QUEUE, Piece::payload(&new[1])) else {
            panic!("complete")
        };
        assert_eq!((complete.store, pool.used()), (2, 2));
        assert_eq!(bytes_of(&mut pool, complete), payload(60));
        assert!(matches!(device.piece(QUEUE + 1, Piece::payload(&old[1])), PieceResult::Kept));
        assert!(!device.give_up_late(&mut pool, Time::ZERO));
        assert!(device.give_up_late(&mut pool, late()));
        assert_eq!((pool.used(), device.until()), (0, None));
        assert!(matches!(device.piece(QUEUE + 1, Piece::payload(&old[2])), PieceResult::Failed(_)));
    }

    /// Without this a piece that its stream cannot have, or that contradicts another, would be stored.
    #[test]
    fn a_poisoned_stream_never_yields_a_payload() {
        let good = cut(150, true, 7);
        let mut other = good[2];
        other.cdw3 ^= 1;
        let zero = PipelinedPiece { stream: 7, sequence: 0 }.sqe(9, 1, &[1; 52]);
        let beyond = PipelinedPiece { stream: 7, sequence: 4 }.sqe(9, 1, &[1; 52]);
        let far = PipelinedPiece { stream: 7, sequence: u16::MAX }.sqe(9, 1, &[1; 52]);
        for (what, bad) in [("double", other), ("zero", zero), ("beyond", beyond), ("far", far)] {
            for at in 1..good.len() {
                let (mut pool, mut device) = (Pool::new(4), Pipelined::new(4096));
                // The repeated piece comes first, so that there is something to contradict.
                let mut order = vec![good[2], good[0], good[1], good[3]];
                order.insert(at, bad);
                let taken: Vec<_> =
                    order.iter().map(|sqe| give_pipelined(&mut device, &mut pool, sqe)).collect();
                assert!(
                    taken.iter().all(|taken| !matches!(taken, PieceResult::Complete(_))),
                    "{what} at {at}: {taken:?}"
                );
                assert!(taken.iter().any(|taken| matches!(taken, PieceResult::Failed(_))), "{what} at {at}");
                while device.give_up_late(&mut pool, late()) {}
                assert_eq!((pool.used(), device.until()), (0, None), "{what} at {at}");
            }
        }
    }

    /// Without these bounds a host could make the device keep more than its memory.
    #[test]
    fn bounds_are_kept() {
        let (mut pool, mut device) = (Pool::new(1), Pipelined::new(139));
        let beyond = PipelinedPiece { stream: 1, sequence: 3 }.sqe(9, 1, &[1; 52]);
        assert!(matches!(give_pipelined(&mut device, &mut pool, &beyond), PieceResult::Failed(_)));
        assert_eq!(pool.used(), 0, "nothing is kept for it");
        let (one, two) = (cut(139, true, 1), cut(139, true, 2));
        assert!(matches!(give_pipelined(&mut device, &mut pool, &one[2]), PieceResult::Kept));
        for sqe in &two {
            let full = give_pipelined(&mut device, &mut pool, sqe);
            assert!(matches!(full, PieceResult::Failed(Status::DATA_TRANSFER_ERROR)));
        }
        // The same name in another queue is another stream.
        let piece = PipelinedPiece::parse(&one[2]);
        let other = device.piece(&mut pool, QUEUE + 1, &piece, PipelinedPiece::payload(&one[2]), late());
        assert!(matches!(other, PieceResult::Failed(_)));
        device.give_up_queue(&mut pool, QUEUE + 1);
        assert_eq!(pool.used(), 1);
        device.give_up_queue(&mut pool, QUEUE);
        assert_eq!(pool.used(), 0);
    }

    proptest! {
        /// Without this some order of commands would change a payload, or complete it too early.
        #[test]
        fn any_order_gives_the_payload(
            lengths in prop::collection::vec(0u32..700, 1..5),
            order in prop::collection::vec((any::<u16>(), any::<bool>()), 1..200),
        ) {
            let (mut pool, mut device) = (Pool::new(8), Pipelined::new(4096));
            let mut open: Vec<(usize, Sqe)> = lengths.iter().enumerate()
                .flat_map(|(which, bytes)| cut(*bytes, true, which as u16).into_iter().map(move |sqe| (which, sqe)))
                .collect();
            let mut done = vec![0; lengths.len()];
            let mut turns = order.iter().cycle();
            while !open.is_empty() {
                let (pick, again) = turns.next().unwrap();
                let (which, sqe) = open.swap_remove(*pick as usize % open.len());
                match give_pipelined(&mut device, &mut pool, &sqe) {
                    PieceResult::Kept => {
                        // A piece may be repeated; a repeated head begins anew.
                        if *again && sqe.opcode() != VendorOpcode::SINK_STORE.0 {
                            prop_assert!(matches!(give_pipelined(&mut device, &mut pool, &sqe), PieceResult::Kept));
                        }
                    }
                    PieceResult::Complete(complete) => {
                        prop_assert_eq!(complete.store as usize, which);
                        prop_assert!(open.iter().all(|(other, _)| *other != which));
                        prop_assert_eq!(bytes_of(&mut pool, complete), payload(lengths[which]));
                        done[which] += 1;
                    }
                    PieceResult::Failed(status) => panic!("{status:?}"),
                }
            }
            prop_assert!(done.iter().all(|times| *times == 1));
            prop_assert_eq!((pool.used(), device.until()), (0, None));
        }

        /// Without this some hostile sequence would panic, or leak memory.
        #[test]
        fn anything_goes_and_everything_comes_back(
            steps in prop::collection::vec((0u8..5, 0u16..3, 0u16..3, any::<u16>(), any::<bool>()), 0..200)
        ) {
            let mut pool = Pool::new(3);
            let (mut serialized, mut pipelined) = (Serialized::default(), Pipelined::new(300));
            for (what, queue, stream, number, bit) in steps {
                let bytes = u32::from(number) % 301;
                let taken = match what {
                    0 => serialized.head(&mut pool, queue, ((), bytes), &[bit.into(); HEAD_BYTES], late()),
                    1 => serialized.piece(queue, &[bit.into(); PIECE_BYTES]),
                    2 => pipelined.head(&mut pool, (queue, stream), ((), bytes), &[bit.into(); 35], late()),
                    3 => {
                        let piece = PipelinedPiece { stream, sequence: number % 8 };
                        pipelined.piece(&mut pool, queue, &piece, &[bit.into(); 52], late())
                    }
                    _ => {
                        serialized.give_up(&mut pool, queue);
                        pipelined.give_up_queue(&mut pool, queue);
                        PieceResult::Kept
                    }
                };
                if let PieceResult::Complete(complete) = taken {
                    prop_assert!(complete.partial.bytes() >= complete.bytes as usize);
                    pool.give(complete.partial);
                }
                prop_assert!(pool.used() <= 3);
            }
            for queue in 0..3 {
                serialized.give_up(&mut pool, queue);
                pipelined.give_up_queue(&mut pool, queue);
            }
            prop_assert_eq!(pool.used(), 0);
        }
    }
}
