//! SGL descriptors specific to fabrics: the location of a capsule's data (NVMe Base 2.1, 4.3.2; TCP Transport 1.0,
//! 3.3.2).
//!
//! | descriptor | byte 15 | bytes 7:0 | bytes 10:8 | byte 11 | bytes 14:12 |
//! |---|---|---|---|---|---|
//! | Data Block, offset | 01h | offset in the capsule | length | length | 0 |
//! | Transport Data Block | 5Ah | 0 | length | length | 0 |
//! | Keyed Data Block | 40h, 4Fh | address | length | key | key |

use crate::nvme::SglDescriptor;
use crate::nvme::sgl::{SglError, SglSubType, SglType};

/// Sub-type Fh of a keyed descriptor: the key is invalidated when the command completes.
const INVALIDATE_KEY: SglSubType = SglSubType(0xF);

/// Maximum length that a keyed descriptor describes: a 24-bit number of bytes.
pub const KEYED_BYTES_MAX: u32 = (1 << 24) - 1;

/// The single SGL descriptor of a command received over a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataPointer {
    /// In-capsule data: it follows the submission queue entry (type 0h, sub-type 1h).
    InCapsule {
        /// Offset of the first byte, counted from the end of the entry if ICDOFF is 0, as NVMe/TCP requires.
        offset: u64,
        /// Length in bytes.
        bytes: u32,
    },
    /// Data that the transport moves: for NVMe/TCP in H2CData and C2HData PDUs (type 5h, sub-type Ah).
    Transport {
        /// Length of the command's data buffer in bytes.
        bytes: u32,
    },
    /// Host memory with a remote key (type 4h): RDMA.
    Keyed {
        /// Address in the host.
        address: u64,
        /// Length in bytes, at most [`KEYED_BYTES_MAX`].
        bytes: u32,
        /// Remote key.
        key: u32,
        /// The key is to be invalidated when the command completes.
        invalidate: bool,
    },
}

impl DataPointer {
    /// Reads a descriptor.
    ///
    /// # Errors
    /// [`SglError::Type`] if it is not a fabrics descriptor: SGL Descriptor Type Invalid.
    pub fn parse(descriptor: &SglDescriptor) -> Result<DataPointer, SglError> {
        let SglDescriptor { address, length, reserved: [key_1, key_2, key_3], .. } = *descriptor;
        match (descriptor.sgl_type(), descriptor.sub_type()) {
            (SglType::DATA_BLOCK, SglSubType::OFFSET) => {
                Ok(DataPointer::InCapsule { offset: address, bytes: length })
            }
            (SglType::TRANSPORT_DATA_BLOCK, SglSubType::TRANSPORT) => {
                Ok(DataPointer::Transport { bytes: length })
            }
            (SglType::KEYED_DATA_BLOCK, sub_type @ (SglSubType::ADDRESS | INVALIDATE_KEY)) => {
                Ok(DataPointer::Keyed {
                    address,
                    bytes: length & KEYED_BYTES_MAX,
                    key: u32::from_le_bytes([(length >> 24) as u8, key_1, key_2, key_3]),
                    invalidate: sub_type == INVALIDATE_KEY,
                })
            }
            _ => Err(SglError::Type),
        }
    }

    /// The descriptor. Only the low 24 bits of a keyed length are used.
    pub const fn descriptor(self) -> SglDescriptor {
        match self {
            DataPointer::InCapsule { offset, bytes } => SglDescriptor::data_block_offset(offset, bytes),
            DataPointer::Transport { bytes } => {
                SglDescriptor::new(SglType::TRANSPORT_DATA_BLOCK, SglSubType::TRANSPORT, 0, bytes)
            }
            DataPointer::Keyed { address, bytes, key, invalidate } => {
                let [key_0, key_1, key_2, key_3] = key.to_le_bytes();
                let length = bytes & KEYED_BYTES_MAX | (key_0 as u32) << 24;
                let sub_type = if invalidate { INVALIDATE_KEY } else { SglSubType::ADDRESS };
                SglDescriptor {
                    reserved: [key_1, key_2, key_3],
                    ..SglDescriptor::new(SglType::KEYED_DATA_BLOCK, sub_type, address, length)
                }
            }
        }
    }

    /// Length of the data in bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            DataPointer::InCapsule { bytes, .. }
            | DataPointer::Transport { bytes }
            | DataPointer::Keyed { bytes, .. } => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a controller would look for a command's data where the host did not put it.
    #[test]
    fn descriptors_lie_as_the_specification_says() {
        let keyed =
            DataPointer::Keyed { address: 0x0102, bytes: 0x04_0506, key: 0x0A0B_0C0D, invalidate: true };
        for (pointer, bytes) in [
            (
                DataPointer::InCapsule { offset: 0, bytes: 4096 },
                [0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0x01],
            ),
            (
                DataPointer::Transport { bytes: 0x3000 },
                [0, 0, 0, 0, 0, 0, 0, 0, 0, 0x30, 0, 0, 0, 0, 0, 0x5A],
            ),
            (keyed, [2, 1, 0, 0, 0, 0, 0, 0, 6, 5, 4, 0x0D, 0x0C, 0x0B, 0x0A, 0x4F]),
        ] {
            assert_eq!(pointer.descriptor().to_bytes(), bytes);
            assert_eq!(DataPointer::parse(&pointer.descriptor()), Ok(pointer));
        }
        assert_eq!(keyed.bytes(), 0x04_0506);
        for id in [0x00, 0x10, 0x41, 0x50, 0x5B] {
            let descriptor = SglDescriptor { id, ..SglDescriptor::default() };
            assert_eq!(DataPointer::parse(&descriptor), Err(SglError::Type), "{id:02X}h");
        }
    }
}
