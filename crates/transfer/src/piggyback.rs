//! Payload in the fields of commands (BandSlim): a head, and pieces in transfer commands behind it.
//!
//! Serialized, a queue has one open stream, and its pieces come one after the other. Pipelined, a stream is named by
//! its head's command identifier, each piece says its place, and they come in any order, also before the head.

use crate::partial::{Partial, Placed, Pool, Table};
use byteway_clock::Time;
use byteway_wire::nvme::vendor::piggyback::{
    HEAD_BYTES, Head, PIECE_BYTES, PIPELINED_PIECE_BYTES, Piece, PipelinedPiece, commands,
};
use byteway_wire::nvme::{Sqe, Status, VendorOpcode};
use std::ops::Range;

/// The host's end: a payload cut into a head and pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    /// Its length.
    pub bytes: u32,
    /// Whether its pieces name their places.
    pub pipelined: bool,
}

impl Pieces {
    /// How many commands, with the head: at least 1. Pipelined, at most 65536 can be told apart.
    pub const fn count(self) -> u32 {
        commands(self.bytes, self.pipelined)
    }

    /// Which bytes of the payload command `index` carries; 0 is the head.
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

    /// The head: the command that stores, with its part of the payload (what [`Pieces::range`] names for 0). A Sink Store
    /// says in CDW2 that its pieces are pipelined, the others by their opcodes.
    pub fn head(self, mut sqe: Sqe, part: &[u8]) -> Sqe {
        Head::fill(&mut sqe, part);
        if self.pipelined && sqe.opcode() == VendorOpcode::SINK_STORE.0 {
            sqe.cdw2 |= Head::PIPELINED;
        }
        sqe
    }

    /// Piece `index` (from 1) as command `cid`; `stream` is the head's identifier.
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

/// A payload that is complete.
#[derive(Debug)]
pub struct Complete<S> {
    /// What its head says is to be done with it.
    pub store: S,
    /// Its length.
    pub bytes: u32,
    /// The payload, to be given back to the pool; the last piece's padding behind it.
    pub partial: Partial,
}

/// What became of a command of a stream.
#[derive(Debug)]
pub enum Taken<S> {
    /// It is kept, and more is to come.
    Kept,
    /// It was the last.
    Complete(Complete<S>),
    /// It fails.
    Failed(Status),
}

struct Open<S> {
    store: S,
    bytes: u32,
    partial: Partial,
}

/// The device's end of serialized streams: at most one a queue. `S` is what a head says is to be done.
pub struct Serialized<S> {
    open: Table<u16, Open<S>>,
}

impl<S> Default for Serialized<S> {
    fn default() -> Self {
        Serialized { open: Table::new() }
    }
}

impl<S> Serialized<S> {
    /// A head has come, of a payload of `bytes`: a stream that was open in its queue is none any more. A new one is
    /// given up at `until`.
    pub fn head(
        &mut self,
        pool: &mut Pool,
        queue: u16,
        (store, bytes): (S, u32),
        part: &[u8; HEAD_BYTES],
        until: Time,
    ) -> Taken<S> {
        self.give_up(pool, queue);
        let Some(mut partial) = pool.take(until) else { return Taken::Failed(Status::DATA_TRANSFER_ERROR) };
        partial.append(part);
        if bytes as usize <= HEAD_BYTES {
            return Taken::Complete(Complete { store, bytes, partial });
        }
        self.open.insert(queue, Open { store, bytes, partial });
        Taken::Kept
    }

    /// A piece has come.
    pub fn piece(&mut self, queue: u16, part: &[u8]) -> Taken<S> {
        let Some(open) = self.open.get_mut(queue) else {
            return Taken::Failed(Status::COMMAND_SEQUENCE_ERROR.with_dnr());
        };
        open.partial.append(part);
        if open.partial.bytes() < open.bytes as usize {
            return Taken::Kept;
        }
        match self.open.remove(queue) {
            Some(Open { store, bytes, partial }) => Taken::Complete(Complete { store, bytes, partial }),
            None => Taken::Kept, // it was found to be there
        }
    }

    /// Gives up a queue's stream.
    pub fn give_up(&mut self, pool: &mut Pool, queue: u16) {
        if let Some(open) = self.open.remove(queue) {
            pool.give(open.partial);
        }
    }

    /// Gives up the first stream whose time has come; false: there is none.
    pub fn give_up_late(&mut self, pool: &mut Pool, now: Time) -> bool {
        let late = self.open.find(|_, open| open.partial.until() <= now);
        late.map(|queue| self.give_up(pool, queue)).is_some()
    }

    /// When the next stream is to be given up.
    pub fn until(&self) -> Option<Time> {
        self.open.values().map(|open| open.partial.until()).min()
    }
}

/// A stream by its queue and its head's identifier.
type StreamKey = (u16, u16);

struct Stream<S> {
    partial: Partial,
    /// What is to be done, and the payload's length: what the head says.
    head: Option<(S, u32)>,
    /// It never yields a payload.
    is_poisoned: bool,
    /// Its head has failed: no other piece is a part of anything.
    is_refused: bool,
}

/// The device's end of pipelined streams. `S` is what a head says is to be done.
///
/// A piece that comes twice with different bytes, that its stream cannot have, or that fails, poisons the stream: it never
/// yields a payload, and is given up in time. So is what is left of a stream whose head has failed: pieces of it that come
/// then would else be taken for those of the next stream of its name, since pieces may come before their head.
pub struct Pipelined<S> {
    bytes_max: u32,
    streams: Table<StreamKey, Stream<S>>,
}

impl<S> Pipelined<S> {
    /// For payloads of at most `bytes_max`.
    pub fn new(bytes_max: u32) -> Self {
        Pipelined { bytes_max, streams: Table::new() }
    }

    /// A head has come, of a payload of `bytes`, which are at most `bytes_max`. A stream of the same name that has or had a
    /// head is none any more; pieces that came before their head are its. A new stream is given up at `until`.
    pub fn head(
        &mut self,
        pool: &mut Pool,
        key: (u16, u16),
        head: (S, u32),
        part: &[u8; HEAD_BYTES],
        until: Time,
    ) -> Taken<S> {
        if self.streams.get_mut(key).is_some_and(|stream| stream.head.is_some() || stream.is_refused) {
            self.give_up(pool, key);
        }
        let count = commands(head.1, true);
        let Some(stream) = self.find_or_begin(pool, key, until) else {
            return Taken::Failed(Status::DATA_TRANSFER_ERROR);
        };
        if stream.is_poisoned || stream.partial.end() > count {
            self.give_up(pool, key);
            return Taken::Failed(Status::DATA_TRANSFER_ERROR);
        }
        stream.partial.place(0, 0, part);
        stream.head = Some(head);
        self.complete(key)
    }

    /// A piece has come. A stream that begins with it is given up at `until`.
    pub fn piece(
        &mut self,
        pool: &mut Pool,
        queue: u16,
        piece: &PipelinedPiece,
        part: &[u8],
        until: Time,
    ) -> Taken<S> {
        let (key, index) = ((queue, piece.stream), u32::from(piece.sequence));
        let known = self.streams.get_mut(key);
        let bytes =
            known.as_ref().and_then(|stream| stream.head.as_ref()).map_or(self.bytes_max, |head| head.1);
        if index == 0 || index >= commands(bytes, true) {
            if let Some(stream) = known {
                stream.is_poisoned = true;
            }
            return Taken::Failed(Status::INVALID_FIELD.with_dnr());
        }
        let Some(stream) = self.find_or_begin(pool, key, until) else {
            return Taken::Failed(Status::DATA_TRANSFER_ERROR);
        };
        if stream.is_poisoned {
            return Taken::Failed(Status::DATA_TRANSFER_ERROR);
        }
        let at = HEAD_BYTES + (index as usize - 1) * PIPELINED_PIECE_BYTES;
        match stream.partial.place(index, at, part) {
            Placed::New => self.complete(key),
            Placed::Same => Taken::Kept,
            Placed::Other => {
                stream.is_poisoned = true;
                Taken::Failed(Status::DATA_TRANSFER_ERROR)
            }
        }
    }

    /// A head has failed, with pieces that have come or will: they fail until `until`, or until another head of that name
    /// comes. Without room for another stream those that come are refused as well, as long as that is so.
    pub fn refuse_head(&mut self, pool: &mut Pool, key: (u16, u16), until: Time) {
        self.give_up(pool, key);
        if let Some(stream) = self.find_or_begin(pool, key, until) {
            (stream.is_poisoned, stream.is_refused) = (true, true);
        }
    }

    /// A piece has failed.
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

    /// Gives up the first stream whose time has come; false: there is none.
    pub fn give_up_late(&mut self, pool: &mut Pool, now: Time) -> bool {
        let late = self.streams.find(|_, stream| stream.partial.until() <= now);
        late.map(|key| self.give_up(pool, key)).is_some()
    }

    /// When the next stream is to be given up.
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
    fn complete(&mut self, key: StreamKey) -> Taken<S> {
        let is_complete = self.streams.get_mut(key).is_some_and(|stream| {
            stream.head.as_ref().is_some_and(|(_, bytes)| stream.partial.parts() == commands(*bytes, true))
        });
        let stream = if is_complete { self.streams.remove(key) } else { None };
        match stream {
            Some(Stream { partial, head: Some((store, bytes)), .. }) => {
                Taken::Complete(Complete { store, bytes, partial })
            }
            _ => Taken::Kept,
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

    /// The commands of a payload: the head's identifier is `stream`, that of a piece does not matter.
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

    fn give_pipelined(device: &mut Pipelined<u16>, pool: &mut Pool, sqe: &Sqe) -> Taken<u16> {
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

    /// Without this a serialized payload would lose bytes at a boundary, or be taken for complete too early.
    #[test]
    fn serialized_streams_give_their_payload() {
        let (mut pool, mut device) = (Pool::new(2), Serialized::default());
        for bytes in [0, 1, 35, 36, 91, 92, 147, 148, 4096] {
            let commands = cut(bytes, false, 7);
            let (head, pieces) = commands.split_first().unwrap();
            let mut taken = device.head(&mut pool, QUEUE, (7, bytes), &Head::payload(head), late());
            for piece in pieces {
                assert!(matches!(taken, Taken::Kept), "{bytes}");
                taken = device.piece(QUEUE, Piece::payload(piece));
            }
            let Taken::Complete(complete) = taken else { panic!("{bytes}: {taken:?}") };
            assert_eq!(bytes_of(&mut pool, complete), payload(bytes));
            let more = device.piece(QUEUE, &[0; PIECE_BYTES]);
            assert!(
                matches!(more, Taken::Failed(status) if status == Status::COMMAND_SEQUENCE_ERROR.with_dnr())
            );
            assert_eq!(pool.used(), 0);
        }
    }

    /// Without this bytes of a stream that was left would end up in the next one, or in another queue's.
    #[test]
    fn a_head_replaces_the_open_stream_of_its_queue_only() {
        let (mut pool, mut device) = (Pool::new(4), Serialized::default());
        let (old, new) = (cut(100, false, 1), cut(60, false, 2));
        for queue in [QUEUE, QUEUE + 1] {
            assert!(matches!(
                device.head(&mut pool, queue, (1, 100), &Head::payload(&old[0]), late()),
                Taken::Kept
            ));
        }
        let head = device.head(&mut pool, QUEUE, (2, 60), &Head::payload(&new[0]), late());
        assert!(matches!(head, Taken::Kept));
        let Taken::Complete(complete) = device.piece(QUEUE, Piece::payload(&new[1])) else {
            panic!("complete")
        };
        assert_eq!((complete.store, pool.used()), (2, 2));
        assert_eq!(bytes_of(&mut pool, complete), payload(60));
        assert!(matches!(device.piece(QUEUE + 1, Piece::payload(&old[1])), Taken::Kept));
        assert!(!device.give_up_late(&mut pool, Time::ZERO));
        assert!(device.give_up_late(&mut pool, late()));
        assert_eq!((pool.used(), device.until()), (0, None));
        assert!(matches!(device.piece(QUEUE + 1, Piece::payload(&old[2])), Taken::Failed(_)));
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
                // The piece that is doubled comes first, so that there is something to contradict.
                let mut order = vec![good[2], good[0], good[1], good[3]];
                order.insert(at, bad);
                let taken: Vec<_> =
                    order.iter().map(|sqe| give_pipelined(&mut device, &mut pool, sqe)).collect();
                assert!(
                    taken.iter().all(|taken| !matches!(taken, Taken::Complete(_))),
                    "{what} at {at}: {taken:?}"
                );
                assert!(taken.iter().any(|taken| matches!(taken, Taken::Failed(_))), "{what} at {at}");
                while device.give_up_late(&mut pool, late()) {}
                assert_eq!((pool.used(), device.until()), (0, None), "{what} at {at}");
            }
        }
    }

    /// Without these bounds a host could make the device keep more than it has.
    #[test]
    fn bounds_are_kept() {
        let (mut pool, mut device) = (Pool::new(1), Pipelined::new(139));
        let beyond = PipelinedPiece { stream: 1, sequence: 3 }.sqe(9, 1, &[1; 52]);
        assert!(matches!(give_pipelined(&mut device, &mut pool, &beyond), Taken::Failed(_)));
        assert_eq!(pool.used(), 0, "nothing is kept for it");
        let (one, two) = (cut(139, true, 1), cut(139, true, 2));
        assert!(matches!(give_pipelined(&mut device, &mut pool, &one[2]), Taken::Kept));
        for sqe in &two {
            let full = give_pipelined(&mut device, &mut pool, sqe);
            assert!(matches!(full, Taken::Failed(Status::DATA_TRANSFER_ERROR)));
        }
        // The same name in another queue is another stream.
        let piece = PipelinedPiece::parse(&one[2]);
        let other = device.piece(&mut pool, QUEUE + 1, &piece, PipelinedPiece::payload(&one[2]), late());
        assert!(matches!(other, Taken::Failed(_)));
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
                    Taken::Kept => {
                        // A piece may come again; a head begins anew.
                        if *again && sqe.opcode() != VendorOpcode::SINK_STORE.0 {
                            prop_assert!(matches!(give_pipelined(&mut device, &mut pool, &sqe), Taken::Kept));
                        }
                    }
                    Taken::Complete(complete) => {
                        prop_assert_eq!(complete.store as usize, which);
                        prop_assert!(open.iter().all(|(other, _)| *other != which));
                        prop_assert_eq!(bytes_of(&mut pool, complete), payload(lengths[which]));
                        done[which] += 1;
                    }
                    Taken::Failed(status) => panic!("{status:?}"),
                }
            }
            prop_assert!(done.iter().all(|times| *times == 1));
            prop_assert_eq!((pool.used(), device.until()), (0, None));
        }

        /// Without this some hostile sequence would panic, or memory would be lost in one.
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
                        Taken::Kept
                    }
                };
                if let Taken::Complete(complete) = taken {
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
