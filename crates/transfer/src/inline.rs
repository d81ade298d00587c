//! Method `inline`: payload in the submission queue slots behind its command (ByteExpress 3.3).
//!
//! A submission queue entry announces the train of slots in one of two ways: by an SGL descriptor of sub-type
//! offset, which NVMe over Fabrics calls in-capsule data; or by its length in CDW3, for data that follow
//! those described by the data pointer. The latter is the paper's own encoding if it covers the whole
//! payload, and a hybrid if it covers only the tail.

use byteway_wire::nvme::command::PSDT_SGL;
use byteway_wire::nvme::opcode::Direction;
use byteway_wire::nvme::sgl::{SglSubType, SglType};
use byteway_wire::nvme::vendor::{InlineSlots, inline_descriptor};
use byteway_wire::nvme::{Sqe, Status};

/// The host's end: announces a train of `bytes` in `sqe`; fill it with [`slot`]. With `in_cdw3` the data
/// pointer is left as it is, and describes the data before the train. Zero bytes take no train.
pub fn place(sqe: Sqe, bytes: u32, in_cdw3: bool) -> Sqe {
    match (bytes, in_cdw3) {
        (0, true) => sqe,
        (_, true) => Sqe { cdw3: bytes, ..sqe },
        (_, false) => sqe.with_sgl(inline_descriptor(bytes)),
    }
}

/// Like [`place`], for a Store to a KV namespace, with the length in CDW13, since CDW3 holds part of the key.
pub fn place_store(sqe: Sqe, bytes: u32) -> Sqe {
    Sqe { cdw13: bytes, ..sqe }
}

/// The slot that carries `part` of a payload, at most 64 bytes, padded with zeroes.
pub fn slot(part: &[u8]) -> [u8; Sqe::SIZE] {
    let mut entry = [0; Sqe::SIZE];
    entry[..part.len()].copy_from_slice(part);
    entry
}

/// Whether the SGL descriptor of `sqe` announces a train.
pub fn is_described(sqe: &Sqe) -> bool {
    let pointer = sqe.sgl();
    sqe.psdt() == PSDT_SGL
        && pointer.sgl_type() == SglType::DATA_BLOCK
        && pointer.sub_type() == SglSubType::OFFSET
}

/// The device's end: of the `bytes` of payload of a command with a train, the number that come before the
/// train, by the data pointer.
///
/// # Errors
/// SGL Descriptor Type Invalid if the command's opcode has no data to the controller. SGL Offset Invalid if
/// the payload is to begin elsewhere than directly behind the command. Data SGL Length Invalid if the length
/// of the train disagrees with that of the payload.
pub fn before(sqe: &Sqe, train: InlineSlots, bytes: u64) -> Result<u64, Status> {
    if Direction::of(sqe.opcode()) != Direction::HostToController {
        return Err(Status::SGL_TYPE_INVALID.with_dnr());
    }
    if is_described(sqe) && sqe.sgl().address != 0 {
        return Err(Status::SGL_OFFSET_INVALID.with_dnr());
    }
    let before = bytes.checked_sub(u64::from(train.bytes));
    let before = before.filter(|before| *before == 0 || !is_described(sqe));
    before.ok_or(Status::DATA_SGL_LENGTH_INVALID.with_dnr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_wire::nvme::kv::{KeyField, Store};
    use byteway_wire::nvme::vendor::{Framing, Methods};
    use byteway_wire::nvme::{NvmOpcode, SglDescriptor, VendorOpcode};

    const BOTH: Methods = Methods::new().with_inline(true).with_inline_tail(true);

    // Without this a device would frame another number of slots than the host has placed.
    #[test]
    fn what_is_placed_is_framed_by_either_encoding() {
        let sqe = Sqe::new(VendorOpcode::SINK_WRITE, 1, 1).with_prp(0x1000, 0);
        for bytes in [1, 63, 64, 65, 4096] {
            for in_cdw3 in [false, true] {
                let train = InlineSlots { bytes };
                assert_eq!(Framing::of(&place(sqe, bytes, in_cdw3), BOTH), Framing::Train(train));
                assert_eq!(before(&place(sqe, bytes, in_cdw3), train, bytes.into()), Ok(0));
            }
        }
        assert_eq!(place(sqe, 64, true).prp1, 0x1000, "the paper leaves the data pointer as it is");
        for in_cdw3 in [false, true] {
            assert_eq!(Framing::of(&place(sqe, 0, in_cdw3), BOTH), Framing::Command);
        }
        let key = KeyField::new(&[255; 16]).expect("a key");
        let store = Store { key, bytes: 4096, ..Store::default() }.sqe(1, 1).with_prp(0x1000, 0);
        let train = InlineSlots { bytes: 100 };
        assert_eq!(Framing::of_store(&place_store(store, 100), BOTH), Framing::Train(train));
        assert_eq!(before(&place_store(store, 100), train, 4096), Ok(3996));
        assert_eq!(Framing::of_store(&store, BOTH), Framing::Command, "a key is no length");
        assert_eq!(slot(b"abc")[..4], *b"abc\0");
    }

    // Without this bytes of a train would be lost, or more would be read than it has.
    #[test]
    fn a_length_that_disagrees_is_refused() {
        let length = Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr());
        let sqe = Sqe::new(VendorOpcode::SINK_WRITE, 1, 1).with_prp(0x1000, 0);
        let (described, tail) = (place(sqe, 65, false), place(sqe, 65, true));
        let train = InlineSlots { bytes: 65 };
        assert_eq!([64, 65, 66].map(|bytes| before(&described, train, bytes)), [length, Ok(0), length]);
        assert_eq!([64, 65, 4161].map(|bytes| before(&tail, train, bytes)), [length, Ok(0), Ok(4096)]);
    }

    // Without this a payload that begins elsewhere would be read from the start of its train.
    #[test]
    fn a_train_begins_right_behind_its_command() {
        let sqe = Sqe::new(VendorOpcode::SINK_WRITE, 1, 1).with_sgl(SglDescriptor::data_block_offset(64, 64));
        let train = InlineSlots { bytes: 64 };
        assert_eq!(Framing::of(&sqe, BOTH), Framing::Train(train));
        assert_eq!(before(&sqe, train, 64), Err(Status::SGL_OFFSET_INVALID.with_dnr()));
    }

    // Without this a read would take a train as its data.
    #[test]
    fn only_payload_to_the_controller_comes_inline() {
        for opcode in [NvmOpcode::READ, NvmOpcode::FLUSH, NvmOpcode(0x83)] {
            let sqe = place(Sqe::new(opcode, 1, 1), 64, false);
            let refused = Err(Status::SGL_TYPE_INVALID.with_dnr());
            assert_eq!(before(&sqe, InlineSlots { bytes: 64 }, 64), refused);
        }
    }
}
