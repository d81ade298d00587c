//! Payload in queues: after a command in its submission queue, in chunks in any submission queue, and after a
//! completion in its completion queue.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Methods, SUB_TYPE_REASSEMBLED};
use crate::nvme::command::PSDT_SGL;
use crate::nvme::sgl::{SglSubType, SglType};
use crate::nvme::{Cqe, Sqe, VendorOpcode, assert_offsets, opcode::Direction};

/// Classification of a submission queue entry by what follows it in the queue. It depends on the entry alone,
/// before the command is interpreted, so payload is never taken for commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// A command that nothing follows.
    Command,
    /// A command; the next entries are its payload.
    Train(InlineSlots),
    /// A chunk: a part of a payload that is assembled by identifier.
    Chunk,
}

impl Framing {
    /// The framing of `sqe` in a queue with these methods enabled.
    pub fn of(sqe: &Sqe, enabled: Methods) -> Framing {
        Self::with_tail(sqe, enabled, sqe.cdw3)
    }

    /// Like [`Framing::of`], for a Store to a KV namespace, which has its key where other commands have the length of an
    /// inline tail.
    pub fn of_store(sqe: &Sqe, enabled: Methods) -> Framing {
        Self::with_tail(sqe, enabled, sqe.cdw13)
    }

    fn with_tail(sqe: &Sqe, enabled: Methods, tail_bytes: u32) -> Framing {
        if enabled.reassembly() && sqe.opcode() == VendorOpcode::CHUNK.0 {
            return Framing::Chunk;
        }
        if enabled.inline() && sqe.psdt() == PSDT_SGL {
            let pointer = sqe.sgl();
            if pointer.sgl_type() == SglType::DATA_BLOCK && pointer.sub_type() == SglSubType::OFFSET {
                return InlineSlots { bytes: pointer.length }.framing();
            }
        }
        if enabled.inline_tail() && Direction::of(sqe.opcode()) == Direction::HostToController {
            return InlineSlots { bytes: tail_bytes }.framing();
        }
        Framing::Command
    }
}

/// The payload in entries of a submission queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InlineSlots {
    /// Length in bytes; the last entry is padded with zeroes.
    pub bytes: u32,
}

impl InlineSlots {
    /// Payload bytes per entry.
    pub const SLOT_BYTES: u32 = Sqe::SIZE as u32;

    /// Number of entries.
    pub const fn count(self) -> u32 {
        self.bytes.div_ceil(Self::SLOT_BYTES)
    }

    /// Zero bytes take no entry: a plain command.
    const fn framing(self) -> Framing {
        if self.bytes == 0 { Framing::Command } else { Framing::Train(self) }
    }
}

/// An entry that carries a part of a payload.
///
/// Rules for the host, because the drive can't tell old chunks from new ones: it reuses an identifier only after its
/// command has completed and no chunk of it is outstanding in any queue, and, if the payload failed, only after another
/// [`Capabilities::partial_timeout_us`](super::Capabilities::partial_timeout_us). A command that waits for chunks
/// occupies a slot of its completion queue: chunks after it in queues that complete there must not need the last slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Chunk {
    /// [`VendorOpcode::CHUNK`].
    pub opcode: u8,
    /// Bit 0, [`Chunk::COMPLETE`].
    pub flags: u8,
    /// Identifier of the payload, in place of a command identifier. The host uses none that is also a command's.
    pub id: u16,
    /// Index of the part, from 0.
    pub index: u16,
    /// Number of parts.
    pub total: u16,
    /// The part; the last one is padded with zeroes.
    pub payload: [u8; Chunk::PAYLOAD_BYTES],
}

assert_offsets!(Chunk: 64; opcode = 0, flags = 1, id = 2, index = 4, total = 6, payload = 8);

impl Chunk {
    /// Bytes of payload in a chunk.
    pub const PAYLOAD_BYTES: usize = 56;
    /// In `flags`: the chunk gets a completion of its own, with the payload's identifier. Otherwise it has none, and
    /// the host learns from another completion that its entry is free.
    pub const COMPLETE: u8 = 1;

    /// Number of chunks for `bytes` bytes.
    pub const fn count(bytes: u32) -> u32 {
        bytes.div_ceil(Self::PAYLOAD_BYTES as u32)
    }

    /// Part `index` of a payload; `part` is its bytes from `index * 56` on.
    pub fn new(id: u16, index: u16, total: u16, part: &[u8], flags: u8) -> Chunk {
        let mut payload = [0; Chunk::PAYLOAD_BYTES];
        payload[..part.len()].copy_from_slice(part);
        Chunk { opcode: VendorOpcode::CHUNK.0, flags, id, index, total, payload }
    }

    /// The entry decoded as a chunk.
    pub fn parse(sqe: &Sqe) -> Chunk {
        zerocopy::transmute!(*sqe)
    }

    /// Encodes it as an entry.
    pub fn sqe(&self) -> Sqe {
        zerocopy::transmute!(*self)
    }

    /// Whether it gets a completion.
    pub const fn completes(&self) -> bool {
        self.flags & Self::COMPLETE != 0
    }

    /// Identifier and length of the payload that a command's data pointer names, if it comes in chunks.
    pub fn named_by(sqe: &Sqe) -> Option<(u64, u32)> {
        let pointer = sqe.sgl();
        let named = sqe.psdt() == PSDT_SGL
            && pointer.sgl_type() == SglType::VENDOR
            && pointer.sub_type() == SUB_TYPE_REASSEMBLED;
        named.then_some((pointer.address, pointer.length))
    }
}

/// A part of a result after a completion, in a slot of a completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ResultSlot {
    /// The part; the last one is padded with zeroes.
    pub payload: [u8; ResultSlot::PAYLOAD_BYTES],
    /// Bit 0: the phase tag, at the position where completions have it. Bits 15:1: number of the part, from 1.
    pub part_phase: u16,
}

assert_offsets!(ResultSlot: 16; payload = 0, part_phase = 14);
const _: () = assert!(size_of::<ResultSlot>() == Cqe::SIZE);

impl ResultSlot {
    /// Result bytes per slot.
    pub const PAYLOAD_BYTES: usize = 14;

    /// Number of slots for `bytes` bytes after the completion.
    pub const fn count(bytes: u32) -> u32 {
        bytes.div_ceil(Self::PAYLOAD_BYTES as u32)
    }

    /// Part number `part` (from 1), with the phase of its slot.
    pub fn new(part: u16, bytes: &[u8], phase: bool) -> ResultSlot {
        let mut payload = [0; ResultSlot::PAYLOAD_BYTES];
        payload[..bytes.len()].copy_from_slice(bytes);
        ResultSlot { payload, part_phase: part << 1 | phase as u16 }
    }

    /// Number of the part, from 1.
    pub const fn part(&self) -> u16 {
        self.part_phase >> 1
    }

    /// The phase tag.
    pub const fn phase(&self) -> bool {
        self.part_phase & 1 == 1
    }

    /// Encodes the slot.
    pub fn to_bytes(&self) -> [u8; Cqe::SIZE] {
        zerocopy::transmute!(*self)
    }

    /// Decodes a slot.
    pub fn from_bytes(bytes: &[u8; Cqe::SIZE]) -> ResultSlot {
        zerocopy::transmute!(*bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{inline_descriptor, reassembled_descriptor};
    use super::*;
    use crate::nvme::{NvmOpcode, SglDescriptor};

    /// Without this payload would be taken for commands, or commands for payload.
    #[test]
    fn the_entry_alone_frames_what_follows() {
        let all = Methods::new().with_inline(true).with_inline_tail(true).with_reassembly(true);
        let train = Sqe::new(VendorOpcode::SINK_WRITE, 1, 1).with_sgl(inline_descriptor(65));
        assert_eq!(Framing::of(&train, all), Framing::Train(InlineSlots { bytes: 65 }));
        assert_eq!(InlineSlots { bytes: 65 }.count(), 2);
        assert_eq!(Framing::of(&train, Methods::new()), Framing::Command);
        let empty = train.with_sgl(inline_descriptor(0));
        assert_eq!(Framing::of(&empty, all), Framing::Command);
        let elsewhere = train.with_sgl(SglDescriptor::data_block(0x1000, 65));
        assert_eq!(Framing::of(&elsewhere, all), Framing::Command);
        let tail = Sqe { cdw3: 3, ..Sqe::new(NvmOpcode::WRITE, 1, 1).with_prp(0x1000, 0) };
        assert_eq!(Framing::of(&tail, all), Framing::Train(InlineSlots { bytes: 3 }));
        assert_eq!(Framing::of(&tail, all.with_inline_tail(false)), Framing::Command);
        let read = Sqe { cdw3: 3, ..Sqe::new(NvmOpcode::READ, 1, 1) };
        assert_eq!(Framing::of(&read, all), Framing::Command);
        let read = read.with_sgl(inline_descriptor(64));
        assert_eq!(Framing::of(&read, all), Framing::Train(InlineSlots { bytes: 64 }), "refused later");
    }

    /// Without this chunks would be lost, or placed at wrong offsets of their payload.
    #[test]
    fn a_chunk_is_an_entry_and_comes_back() {
        let chunk = Chunk::new(0x8001, 2, 3, b"tail", Chunk::COMPLETE);
        let sqe = chunk.sqe();
        assert_eq!(Chunk::parse(&sqe), chunk);
        assert_eq!((sqe.opcode() & 0b11, sqe.cid()), (0b00, 0x8001));
        assert!(chunk.completes());
        let all = Methods::new().with_reassembly(true);
        assert_eq!(Framing::of(&sqe, all), Framing::Chunk);
        assert_eq!(Framing::of(&sqe, Methods::new()), Framing::Command);
        assert_eq!((Chunk::count(0), Chunk::count(56), Chunk::count(57)), (0, 1, 2));
        let command = Sqe::new(VendorOpcode::SINK_WRITE, 1, 1).with_sgl(reassembled_descriptor(7, 57));
        assert_eq!(Chunk::named_by(&command), Some((7, 57)));
        assert_eq!(Framing::of(&command, all), Framing::Command);
    }

    /// Without this a host would take a result slot for a completion of the previous pass.
    #[test]
    fn a_result_slot_keeps_the_phase_where_completions_have_it() {
        let slot = ResultSlot::new(5, b"abc", true);
        let bytes = slot.to_bytes();
        assert!(Cqe::from_bytes(&bytes).phase());
        assert_eq!(ResultSlot::from_bytes(&bytes), slot);
        assert_eq!((slot.part(), slot.phase(), &slot.payload[..4]), (5, true, b"abc\0".as_slice()));
        assert_eq!((ResultSlot::count(14), ResultSlot::count(15)), (1, 2));
    }
}
