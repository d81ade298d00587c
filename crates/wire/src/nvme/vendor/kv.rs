//! Byteway's own KV commands: Store in command fields, many Stores in one command, and iterators.
//!
//! **Store by piggyback.** KV Store Piggyback has key, key length and value size where Store has them, and the first 35
//! bytes of the value in CDW4 to CDW9, bytes 1 to 3 of CDW11, CDW12 and CDW13 ([`Head`](super::piggyback::Head));
//! Transfer commands bring the rest. It has no field for options: a Store with options uses its data pointer. KV Store
//! Pipelined is the same, with the rest in Transfer Pipelined commands: the flag that tells them apart in a Sink Store
//! is in CDW2, which holds the key here.
//!
//! **Many Stores in one** (bulk PUT). KV Store Many brings key-value pairs one after another, each in the format of KV
//! Next ([`push`]), and the drive stores them in that order. Nothing is stored unless the whole payload is valid. Then
//! each pair is a Store of its own: the first failure ends the command, and a power cut may leave some pairs stored and
//! others not.
//!
//! | field | KV Store Many |
//! |---|---|
//! | DPTR | the pairs |
//! | CDW10 | their bytes, with headers and padding |
//! | CDW12 | number of pairs |
//! | completion DW0 | number of pairs stored, from the first on, also on a failure |
//!
//! | status | when |
//! |---|---|
//! | Invalid Field in Command | no pairs; more bytes than the transfer limit; bytes that are not exactly that number of pairs |
//! | Invalid Key Size, Invalid Value Size | of any pair |
//! | as of Store | for the first pair that could not be stored |
//!
//! **Iterators.** KV Seek creates one at a key, or at the first key (length 0); it shows the namespace as of then,
//! whatever is stored later. KV Next returns the next pairs, KV Close ends it. Their number is limited. The drive ends
//! an iterator that is unused for some time, and all of them at a reset, a format, a sanitize operation, and with their
//! namespace.
//!
//! | field | KV Seek | KV Next | KV Close |
//! |---|---|---|---|
//! | CDW2, 3 and 14, 15; CDW11 bits 7:0 | first key | 0 | 0 |
//! | DPTR | - | buffer for the pairs | - |
//! | CDW10 | 0 | bytes of the buffer | 0 |
//! | CDW12 | 0 | iterator | iterator |
//! | completion DW0 | iterator | bytes of pairs in the buffer; if 0 although there are more: bytes that the next pair takes | 0 |
//! | completion DW1 | 0 | bit 0: there are no more; bit 1: the next pair doesn't fit in the buffer | 0 |
//!
//! | status | when |
//! |---|---|
//! | Invalid Key Size | KV Seek: a key of more than 16 bytes |
//! | Command Sequence Error | KV Seek: too many iterators (not Do Not Retry) |
//! | Invalid Field in Command | KV Next, KV Close: no such iterator of this namespace |
//! | Command Sequence Error, Do Not Retry | KV Next, KV Close: the iterator is in use by another command |
//! | Unrecovered Error | KV Next: the next pair can't be read |

use super::super::command::Sqe;
use super::super::kv::KeyField;
use super::super::opcode::VendorOpcode;

/// Bytes before a key-value pair's key: length of the value (4), of the key (2), 2 of zero.
pub const PAIR_HEADER_BYTES: usize = 8;

/// KV Next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Next {
    /// Identifier of the iterator.
    pub iterator: u32,
    /// Bytes of the host's buffer.
    pub buffer_bytes: u32,
}

impl Next {
    /// Bit of DW1: there are no more key-value pairs.
    pub const END: u32 = 1 << 0;
    /// Bit of DW1: the next key-value pair does not fit in the buffer, even alone.
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
    /// Identifier of the iterator.
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

/// KV Store Many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreMany {
    /// Number of key-value pairs.
    pub pairs: u32,
    /// Length of all key-value pairs, in bytes.
    pub bytes: u32,
}

/// Why the payload of a KV Store Many is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The payload is truncated, or does not consist of exactly the stated number of key-value pairs.
    Layout,
    /// A key has an invalid length.
    Key,
    /// A value is too long.
    Value,
}

/// Limits of a batch: it is sent when either is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkLimits {
    /// Number of key-value pairs.
    pub pairs: u32,
    /// Bytes of the command's payload: key-value pairs with their headers; at most the size of the client's
    /// buffers.
    pub bytes: u32,
}

impl StoreMany {
    /// The fields of a KV Store Many.
    pub const fn parse(sqe: &Sqe) -> StoreMany {
        StoreMany { pairs: sqe.cdw12, bytes: sqe.cdw10 }
    }

    /// The command, without its data pointer.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        Sqe { cdw10: self.bytes, cdw12: self.pairs, ..Sqe::new(VendorOpcode::KV_STORE_MANY, cid, nsid) }
    }

    /// Checks that `bytes` are exactly the stated key-value pairs, with values of up to `value_bytes_max`:
    /// [`pairs`] then returns all of them.
    ///
    /// # Errors
    /// [`Malformed`] for the first invalid pair.
    pub fn check(&self, bytes: &[u8], value_bytes_max: u32) -> Result<(), Malformed> {
        let (mut at, mut found) = (0, 0);
        while let Some(header) = bytes.get(at..).and_then(|rest| rest.first_chunk::<PAIR_HEADER_BYTES>()) {
            let [v0, v1, v2, v3, k0, k1, reserved @ ..] = *header;
            let (value, key) = (u32::from_le_bytes([v0, v1, v2, v3]), u16::from_le_bytes([k0, k1]));
            if !(1..=KEY_BYTES_MAX).contains(&usize::from(key)) {
                return Err(Malformed::Key);
            }
            if value > value_bytes_max {
                return Err(Malformed::Value);
            }
            if reserved != [0; 2] {
                return Err(Malformed::Layout);
            }
            at = at.saturating_add(pair_bytes(key.into(), value as usize));
            found += 1;
        }
        let is_whole = at == bytes.len() && found == self.pairs && found > 0;
        if is_whole { Ok(()) } else { Err(Malformed::Layout) }
    }
}

/// Maximum length of a key, in bytes.
const KEY_BYTES_MAX: usize = 16;

/// Length of an encoded key-value pair: header, key and value, padded to a multiple of 4.
pub const fn pair_bytes(key: usize, value: usize) -> usize {
    (PAIR_HEADER_BYTES + key + value).next_multiple_of(4)
}

/// Appends a key-value pair in the format of KV Next and KV Store Many.
pub fn push(into: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let end = into.len() + pair_bytes(key.len(), value.len());
    push_header(into, key, value.len() as u32);
    into.extend_from_slice(value);
    into.resize(end, 0);
}

/// Like [`push`], with a value of `bytes` zeroes; returns the value, to be filled.
pub fn push_room<'a>(into: &'a mut Vec<u8>, key: &[u8], bytes: u32) -> &'a mut [u8] {
    let begin = into.len();
    push_header(into, key, bytes);
    let value = into.len();
    into.resize(begin + pair_bytes(key.len(), bytes as usize), 0);
    &mut into[value..value + bytes as usize]
}

fn push_header(into: &mut Vec<u8>, key: &[u8], value_bytes: u32) {
    into.extend_from_slice(&value_bytes.to_le_bytes());
    into.extend_from_slice(&(key.len() as u16).to_le_bytes());
    into.extend_from_slice(&[0; 2]);
    into.extend_from_slice(key);
}

/// The key-value pairs in `bytes`, up to the first that is truncated.
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

    /// Without this a drive would store what no host sent (a truncated pair, a key of another length, the rest of a
    /// buffer), or a pair less than stated.
    #[test]
    fn many_pairs_are_exactly_what_the_command_says() {
        let mut bytes = Vec::new();
        push(&mut bytes, b"a", b"12345");
        push(&mut bytes, b"0123456789abcdef", b"");
        let length = bytes.len() as u32;
        let many = StoreMany { pairs: 2, bytes: length };
        assert_eq!(StoreMany::parse(&many.sqe(1, 2)), many);
        assert_eq!(many.check(&bytes, 5), Ok(()));
        assert_eq!(many.check(&bytes, 4), Err(Malformed::Value));
        for pairs in [0, 1, 3, u32::MAX] {
            assert_eq!(StoreMany { pairs, ..many }.check(&bytes, 5), Err(Malformed::Layout), "{pairs} pairs");
        }
        for cut in 0..bytes.len() {
            assert!(many.check(&bytes[..cut], 5).is_err(), "cut at {cut}");
        }
        assert_eq!(StoreMany::default().check(&[], 5), Err(Malformed::Layout));
        let changed = |at: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            many.check(&bytes, u32::MAX)
        };
        assert_eq!(
            (changed(4, 0), changed(4, 17), changed(5, 1)),
            (Err(Malformed::Key), Err(Malformed::Key), Err(Malformed::Key))
        );
        assert_eq!((changed(6, 1), changed(7, 1)), (Err(Malformed::Layout), Err(Malformed::Layout)));
        assert_eq!(changed(3, 255), Err(Malformed::Layout), "a value of 4 GB");
        bytes.extend_from_slice(&[0; 4]);
        assert_eq!(many.check(&bytes, 5), Err(Malformed::Layout), "something lies behind them");
        bytes.extend_from_slice(&[0; 4]);
        assert_eq!(many.check(&bytes, 5), Err(Malformed::Key), "a whole header does");
    }

    /// Without this a host would take padding for the next pair, or read past its buffer.
    #[test]
    fn pairs_come_back_as_they_were_put_in() {
        let all: Vec<(&[u8], &[u8])> = vec![(b"a", b""), (b"bb", b"1"), (b"0123456789abcdef", &[7; 100])];
        let mut bytes = Vec::new();
        all.iter().for_each(|(key, value)| push(&mut bytes, key, value));
        let mut filled = Vec::new();
        for (key, value) in &all {
            push_room(&mut filled, key, value.len() as u32).copy_from_slice(value);
        }
        assert_eq!(filled, bytes);
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
