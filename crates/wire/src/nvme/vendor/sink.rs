//! The payload sink: drive DRAM as an array of bytes, written and read by commands, without flash.
//!
//! | field | Sink Write, Sink Store | Sink Read |
//! |---|---|---|
//! | CDW1 | namespace | namespace |
//! | CDW2 | Sink Store: bit 0, pieces are pipelined | bit 0: the result may follow the completion |
//! | CDW3 | Sink Write, if enabled: bytes of the inline tail | 0 |
//! | DPTR | Sink Write: the payload; Sink Store: payload (with MPTR) | buffer for the payload |
//! | CDW10 | bytes | bytes |
//! | CDW11 | Sink Store: bytes 1 to 3 are payload | 0 |
//! | CDW12, 13 | Sink Store: payload | 0 |
//! | CDW14, 15 | offset, low and high half | offset |
//! | completion DW0 | CRC-32C of the whole payload | CRC-32C of the payload |
//! | completion DW1 | 0 | bytes after the completion; 0: the payload was transferred to DPTR |

use crate::nvme::{Sqe, VendorOpcode};

/// A command of the payload sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sink {
    /// Offset of the first byte in the sink.
    pub offset: u64,
    /// Number of bytes; 0 is possible.
    pub bytes: u32,
}

impl Sink {
    /// In CDW2 of a Sink Read: the result may follow the completion.
    pub const INLINE_RESULT: u32 = 1;

    /// Decodes the entry.
    pub const fn parse(sqe: &Sqe) -> Sink {
        Sink { offset: sqe.cdw14 as u64 | (sqe.cdw15 as u64) << 32, bytes: sqe.cdw10 }
    }

    /// Builds the entry.
    pub fn sqe(&self, opcode: VendorOpcode, cid: u16, nsid: u32) -> Sqe {
        Sqe {
            cdw10: self.bytes,
            cdw14: self.offset as u32,
            cdw15: (self.offset >> 32) as u32,
            ..Sqe::new(opcode, cid, nsid)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a payload would be stored at another offset than the host meant.
    #[test]
    fn comes_back_as_it_was_built() {
        let sink = Sink { offset: 0x1_2345_6789, bytes: 77 };
        let sqe = sink.sqe(VendorOpcode::SINK_WRITE, 3, 1);
        assert_eq!(Sink::parse(&sqe), sink);
        assert_eq!(sqe.to_bytes()[56..], [0x89, 0x67, 0x45, 0x23, 1, 0, 0, 0]);
    }
}
