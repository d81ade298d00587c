//! Payload in command fields (BandSlim): the first 35 bytes in the command that stores it, the rest in transfer
//! commands.

use zerocopy::{FromBytes, IntoBytes};

use crate::nvme::{Sqe, VendorOpcode};

/// Payload bytes of the first command: CDW4 to CDW9 (24), bytes 1 to 3 of CDW11, CDW12 and CDW13 (8).
pub const HEAD_BYTES: usize = 35;
/// Payload bytes of a transfer command: CDW2 to CDW15.
pub const PIECE_BYTES: usize = 56;
/// Payload bytes of a pipelined transfer command: CDW3 to CDW15.
pub const PIPELINED_PIECE_BYTES: usize = 52;

/// Number of commands for `bytes` bytes.
pub const fn commands(bytes: u32, pipelined: bool) -> u32 {
    let piece = if pipelined { PIPELINED_PIECE_BYTES } else { PIECE_BYTES } as u32;
    1 + bytes.saturating_sub(HEAD_BYTES as u32).div_ceil(piece)
}

/// The part in the first command.
pub struct Head;

impl Head {
    /// In CDW2, where that is unused: the pieces that follow are pipelined.
    pub const PIPELINED: u32 = 1;

    /// Writes `payload` (at most 35 bytes) to the fields of `sqe`. Byte 0 of CDW11 stays.
    pub fn fill(sqe: &mut Sqe, payload: &[u8]) {
        let mut all = [0; HEAD_BYTES];
        all[..payload.len()].copy_from_slice(payload);
        let bytes = sqe.as_mut_bytes();
        bytes[16..40].copy_from_slice(&all[..24]);
        bytes[45..48].copy_from_slice(&all[24..27]);
        bytes[48..56].copy_from_slice(&all[27..]);
    }

    /// The payload in the fields.
    pub fn payload(sqe: &Sqe) -> [u8; HEAD_BYTES] {
        let mut all = [0; HEAD_BYTES];
        let bytes = sqe.as_bytes();
        all[..24].copy_from_slice(&bytes[16..40]);
        all[24..27].copy_from_slice(&bytes[45..48]);
        all[27..].copy_from_slice(&bytes[48..56]);
        all
    }
}

/// A transfer command. In queue order, they carry the rest of the open stream.
pub struct Piece;

impl Piece {
    /// The command with `payload` (at most 56 bytes).
    pub fn sqe(cid: u16, nsid: u32, payload: &[u8]) -> Sqe {
        let mut sqe = Sqe::new(VendorOpcode::TRANSFER, cid, nsid);
        sqe.as_mut_bytes()[8..8 + payload.len()].copy_from_slice(payload);
        sqe
    }

    /// Payload in the entry's fields.
    pub fn payload(sqe: &Sqe) -> &[u8] {
        &sqe.as_bytes()[8..]
    }
}

/// A pipelined transfer command: it names its stream by the identifier of the command that began it, and its position.
/// After a stream has failed, the identifier must not be reused for a while, as that of chunks
/// ([`Chunk`](super::Chunk)).
pub struct PipelinedPiece {
    /// Identifier of the stream's first command. CDW2 bits 15:0.
    pub stream: u16,
    /// Number of the piece, from 1. CDW2 bits 31:16.
    pub sequence: u16,
}

impl PipelinedPiece {
    /// The command with `payload` (at most 52 bytes).
    pub fn sqe(&self, cid: u16, nsid: u32, payload: &[u8]) -> Sqe {
        let mut sqe = Sqe::new(VendorOpcode::TRANSFER_PIPELINED, cid, nsid);
        sqe.cdw2 = u32::from(self.stream) | u32::from(self.sequence) << 16;
        sqe.as_mut_bytes()[12..12 + payload.len()].copy_from_slice(payload);
        sqe
    }

    /// Decodes stream and number.
    pub const fn parse(sqe: &Sqe) -> PipelinedPiece {
        PipelinedPiece { stream: sqe.cdw2 as u16, sequence: (sqe.cdw2 >> 16) as u16 }
    }

    /// Payload in the entry's fields.
    pub fn payload(sqe: &Sqe) -> &[u8] {
        &sqe.as_bytes()[12..]
    }
}

const _: () = {
    assert!(HEAD_BYTES == 24 + 3 + 8);
    assert!(PIECE_BYTES == Sqe::SIZE - 8);
    assert!(PIPELINED_PIECE_BYTES == Sqe::SIZE - 12);
    const fn is_readable<T: FromBytes>() {}
    is_readable::<Sqe>();
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvme::vendor::Sink;

    /// Without this a byte of a value would overwrite a field of its command, or be lost.
    #[test]
    fn payload_and_fields_do_not_touch() {
        let payload: Vec<u8> = (1..=35).collect();
        let sink = Sink { offset: 0x11_2233_4455, bytes: 35 };
        let mut sqe = sink.sqe(VendorOpcode::SINK_STORE, 0xABCD, 7);
        let before = sqe;
        Head::fill(&mut sqe, &payload);
        assert_eq!(Head::payload(&sqe)[..], payload);
        assert_eq!((Sink::parse(&sqe), sqe.cdw0, sqe.nsid), (sink, before.cdw0, 7));
        assert_eq!((sqe.cdw2, sqe.cdw3, sqe.cdw11 & 0xFF), (0, 0, 0));
        let piece: Vec<u8> = (0..56).collect();
        let sqe = Piece::sqe(1, 7, &piece);
        assert_eq!((Piece::payload(&sqe), sqe.nsid, sqe.cid()), (&piece[..], 7, 1));
        let sqe = PipelinedPiece { stream: 9, sequence: 2 }.sqe(1, 7, &piece[..52]);
        assert_eq!(PipelinedPiece::payload(&sqe), &piece[..52]);
        let found = PipelinedPiece::parse(&sqe);
        assert_eq!((found.stream, found.sequence), (9, 2));
    }

    /// Without this the papers' traffic figures could not be reproduced: n = 1 + ceil((v - 35) / 56).
    #[test]
    fn commands_are_as_many_as_the_paper_says() {
        let counts = [0, 32, 35, 36, 91, 92, 128, 4096].map(|bytes| commands(bytes, false));
        assert_eq!(counts, [1, 1, 1, 2, 2, 3, 3, 74]);
        assert_eq!(commands(87, true), 2);
        assert_eq!(commands(88, true), 3);
    }
}
