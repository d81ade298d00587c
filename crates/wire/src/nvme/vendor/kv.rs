//! Byteway's own commands of the Key Value command set: Store in the fields of commands, and iterators.
//!
//! **Store by piggyback.** KV Store Piggyback has key, key length and value size where Store has them, and the first 35
//! bytes of the value in CDW4 to CDW9, bytes 1 to 3 of CDW11, CDW12 and CDW13 ([`Head`](super::piggyback::Head)); Transfer
//! commands bring the rest. It has no room for options: a Store with options goes by its data pointer. KV Store Pipelined is
//! the same, with the rest in Transfer Pipelined commands: the bit that says so to a Sink Store lies in CDW2, which is the
//! key's here.
//!
//! **Iterators.** KV Seek begins one at a key, or at the first (length 0); it sees the namespace as it was then, whatever is
//! stored later. KV Next gives the pairs that follow, KV Close ends it. There are few at once, and one that is not used for
//! a while is ended by the drive, as is every one by a reset, a format, a sanitize operation, and with its namespace.
//!
//! | field | KV Seek | KV Next | KV Close |
//! |---|---|---|---|
//! | CDW2, 3 and 14, 15; CDW11 bits 7:0 | first key | 0 | 0 |
//! | DPTR | - | where the pairs go | - |
//! | CDW10 | 0 | bytes of the buffer | 0 |
//! | CDW12 | 0 | iterator | iterator |
//! | completion DW0 | iterator | bytes of pairs in the buffer; if that is 0 although there are more: bytes that the next pair takes | 0 |
//! | completion DW1 | 0 | bit 0: there are no more; bit 1: the next pair doesn't fit in the buffer | 0 |
//!
//! | status | when |
//! |---|---|
//! | Invalid Key Size | KV Seek: a key of more than 16 bytes |
//! | Command Sequence Error | KV Seek: there are as many iterators as there may be (not Do Not Retry) |
//! | Invalid Field in Command | KV Next, KV Close: no such iterator of this namespace |
//! | Command Sequence Error, Do Not Retry | KV Next, KV Close: the iterator is in use by another command |
//! | Unrecovered Error | KV Next: the next pair can't be read |

use super::super::command::Sqe;
use super::super::kv::KeyField;
use super::super::opcode::VendorOpcode;

/// Bytes before a pair's key: length of the value (4), of the key (2), 2 of zero.
pub const PAIR_HEADER_BYTES: usize = 8;

/// KV Next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Next {
    /// Which iterator.
    pub iterator: u32,
    /// Bytes of the host's buffer.
    pub buffer_bytes: u32,
}

impl Next {
    /// Bit of DW1: there are no more pairs.
    pub const END: u32 = 1 << 0;
    /// Bit of DW1: the next pair doesn't fit in the buffer, even alone.
    pub const TOO_SMALL: u32 = 1 << 1;

    /// The fields of a KV Next.
    pub const fn parse(sqe: &Sqe) -> Next {
        Next { iterator: sqe.cdw12, buffer_bytes: sqe.cdw10 }
    }

    /// The command, without its data pointer.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        Sqe { cdw10: self.buffer_bytes, cdw12: self.iterator, ..Sqe::new(VendorOpcode::KV_NEXT, cid, nsid) }
    }
}

/// KV Seek from `key` on.
pub fn seek(key: &KeyField, cid: u16, nsid: u32) -> Sqe {
    key.sqe(VendorOpcode::KV_SEEK, cid, nsid)
}

/// KV Close.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Close {
    /// Which iterator.
    pub iterator: u32,
}

impl Close {
    /// The field of a KV Close.
    pub const fn parse(sqe: &Sqe) -> Close {
        Close { iterator: sqe.cdw12 }
    }

    /// The command.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        Sqe { cdw12: self.iterator, ..Sqe::new(VendorOpcode::KV_CLOSE, cid, nsid) }
    }
}

/// Bytes that a pair takes: header, key and value, filled up to a multiple of 4.
pub const fn pair_bytes(key: usize, value: usize) -> usize {
    (PAIR_HEADER_BYTES + key + value).next_multiple_of(4)
}

/// Adds a pair to what a KV Next returns.
pub fn push(into: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let end = into.len() + pair_bytes(key.len(), value.len());
    into.extend_from_slice(&(value.len() as u32).to_le_bytes());
    into.extend_from_slice(&(key.len() as u16).to_le_bytes());
    into.extend_from_slice(&[0; 2]);
    into.extend_from_slice(key);
    into.extend_from_slice(value);
    into.resize(end, 0);
}

/// The pairs in `bytes`, up to the first that is cut off.
pub fn pairs(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (header, behind) = rest.split_first_chunk::<PAIR_HEADER_BYTES>()?;
        let [v0, v1, v2, v3, k0, k1, ..] = *header;
        let value_bytes = u32::from_le_bytes([v0, v1, v2, v3]) as usize;
        let (key, behind) = behind.split_at_checked(u16::from_le_bytes([k0, k1]).into())?;
        let value = behind.get(..value_bytes)?;
        rest = rest.get(pair_bytes(key.len(), value_bytes)..).unwrap_or_default();
        Some((key, value))
    })
}

#[cfg(test)]
mod tests {
    use super::super::piggyback::Head;
    use super::*;
    use crate::nvme::kv::Store;

    /// Without this a byte of a value would overwrite a byte of its key.
    #[test]
    fn a_piggybacked_value_leaves_its_key_alone() {
        let key = KeyField::new(b"0123456789abcdef").unwrap();
        for opcode in [VendorOpcode::KV_STORE_PIGGYBACK, VendorOpcode::KV_STORE_PIPELINED] {
            let mut sqe = Store { key, bytes: 35, ..Store::default() }.sqe(9, 4);
            sqe.set_opcode(opcode);
            let payload: Vec<u8> = (1..=35).collect();
            Head::fill(&mut sqe, &payload);
            assert_eq!(Head::payload(&sqe)[..], payload);
            let store = Store::parse(&sqe);
            assert_eq!((store.key, store.bytes, sqe.nsid, sqe.cid()), (key, 35, 4, 9));
        }
    }

    /// Without this a host would take one value's padding for the next pair, or read past its buffer.
    #[test]
    fn pairs_come_back_as_they_were_put_in() {
        let all: Vec<(&[u8], &[u8])> = vec![(b"a", b""), (b"bb", b"1"), (b"0123456789abcdef", &[7; 100])];
        let mut bytes = Vec::new();
        all.iter().for_each(|(key, value)| push(&mut bytes, key, value));
        assert_eq!(pairs(&bytes).collect::<Vec<_>>(), all);
        for cut in 0..bytes.len() {
            assert!(pairs(&bytes[..cut]).count() <= all.len());
        }
        assert_eq!(pairs(&[255; 40]).count(), 0);
        let next = Next { iterator: 77, buffer_bytes: 4096 };
        assert_eq!(Next::parse(&next.sqe(1, 2)), next);
        let close = Close { iterator: u32::MAX };
        assert_eq!(Close::parse(&close.sqe(1, 2)), close);
    }
}
