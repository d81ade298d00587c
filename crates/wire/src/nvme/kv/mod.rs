//! The Key Value command set (NVMe Key Value Command Set 1.0): commands, parsed and built.
//!
//! | file | what |
//! |---|---|
//! | `kv/mod.rs` | [`Key`], [`KeyField`], [`Store`], [`Retrieve`], [`List`], Delete and Exist |
//! | [`list`] | the data of a List |
//! | [`identify`] | Identify structures, combinations of I/O command sets |
//!
//! | field | Store | Retrieve | List | Delete, Exist |
//! |---|---|---|---|---|
//! | CDW2, 3 and 14, 15 | key | key | first key | key |
//! | CDW10 | bytes of the value | bytes of the buffer | bytes of the buffer | 0 |
//! | CDW11 bits 7:0 | bytes of the key | the same | the same; 0: from the first key on | the same |
//! | CDW11 bits 15:8 | options | options | 0 | 0 |
//! | CDW12 | 0 | first byte of the value (Byteway's own) | 0 | 0 |
//! | CDW13 | bytes of the inline tail (Byteway's own, if enabled) | bit 0: the result may follow the completion (Byteway's own, if enabled) | 0 | 0 |
//! | completion DW0 | 0 | bytes of the whole value | 0 | 0 |
//!
//! Byteway's own fields are reserved in the specification, so a host that does not know them clears them.

pub mod identify;
pub mod list;

use core::fmt;

use super::command::{Sqe, bit};
use super::opcode::KvOpcode;

/// Bytes of the longest key.
pub const KEY_BYTES_MAX: usize = 16;

/// A key field of a command, whose length may be invalid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyField {
    /// Length in bytes, as sent.
    pub length: u8,
    /// Bytes of the key; those beyond the length are ignored.
    pub bytes: [u8; KEY_BYTES_MAX],
}

impl KeyField {
    /// The field for a key of up to 16 bytes; `None` if it is longer.
    pub fn new(key: &[u8]) -> Option<KeyField> {
        let mut field = KeyField { length: key.len() as u8, bytes: [0; KEY_BYTES_MAX] };
        field.bytes.get_mut(..key.len())?.copy_from_slice(key);
        Some(field)
    }

    /// The key fields of a command.
    pub const fn parse(sqe: &Sqe) -> KeyField {
        let mut bytes = [0; KEY_BYTES_MAX];
        let dwords = [sqe.cdw2, sqe.cdw3, sqe.cdw14, sqe.cdw15];
        let mut at = 0;
        while at < KEY_BYTES_MAX {
            bytes[at] = (dwords[at / 4] >> (at % 4 * 8)) as u8;
            at += 1;
        }
        KeyField { length: sqe.cdw11 as u8, bytes }
    }

    /// The key, possibly empty; `None` if its length exceeds the field.
    pub fn key(&self) -> Option<&[u8]> {
        self.bytes.get(..usize::from(self.length))
    }

    /// The key, if its length is valid.
    pub fn valid(&self) -> Option<Key> {
        let mut bytes = self.bytes;
        bytes.get_mut(usize::from(self.length)..)?.fill(0);
        (self.length > 0).then_some(Key { bytes, length: self.length })
    }

    /// Writes it to a command.
    pub fn put(&self, sqe: &mut Sqe) {
        let dword = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| self.bytes[at + byte]));
        (sqe.cdw2, sqe.cdw3) = (dword(0), dword(4));
        (sqe.cdw14, sqe.cdw15) = (dword(8), dword(12));
        sqe.cdw11 = sqe.cdw11 & !0xFF | u32::from(self.length);
    }

    /// A command whose only field is a key: Delete, Exist, and Byteway's KV Seek.
    pub fn sqe(&self, opcode: impl Into<u8>, cid: u16, nsid: u32) -> Sqe {
        let mut sqe = Sqe::new(opcode, cid, nsid);
        self.put(&mut sqe);
        sqe
    }
}

/// A valid key: 1 to 16 bytes. Keys are ordered as List returns them: bytewise, a prefix before the keys that it
/// begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Zero after `length` bytes.
    bytes: [u8; KEY_BYTES_MAX],
    length: u8,
}

impl Key {
    /// The key with these bytes; `None` unless there are 1 to 16.
    pub fn new(key: &[u8]) -> Option<Key> {
        KeyField::new(key)?.valid()
    }

    /// The bytes, without padding.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// The key as a command field.
    pub const fn field(&self) -> KeyField {
        KeyField { length: self.length, bytes: self.bytes }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}

/// Store (NVMe KV 1.0, 3.2.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Store {
    /// Key.
    pub key: KeyField,
    /// Length of the value, in bytes.
    pub bytes: u32,
    /// Store only if the key exists.
    pub must_exist: bool,
    /// Store only if the key does not exist.
    pub must_not_exist: bool,
    /// Do not compress the value.
    pub no_compression: bool,
}

impl Store {
    /// The fields of a Store.
    pub const fn parse(sqe: &Sqe) -> Store {
        Store {
            key: KeyField::parse(sqe),
            bytes: sqe.cdw10,
            must_exist: bit(sqe.cdw11, 8),
            must_not_exist: bit(sqe.cdw11, 9),
            no_compression: bit(sqe.cdw11, 10),
        }
    }

    /// The command, without its data pointer.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        let mut sqe = self.key.sqe(KvOpcode::STORE, cid, nsid);
        sqe.cdw10 = self.bytes;
        sqe.cdw11 |= u32::from(self.must_exist) << 8
            | u32::from(self.must_not_exist) << 9
            | u32::from(self.no_compression) << 10;
        sqe
    }
}

/// Retrieve (NVMe KV 1.0, 3.2.4).
///
/// Returns as many bytes of the value as fit into the buffer. Dword 0 of the completion is the length of the whole
/// value: if it exceeds the buffer, the host can fetch the rest with `offset`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retrieve {
    /// Key.
    pub key: KeyField,
    /// Bytes of the host's buffer.
    pub buffer_bytes: u32,
    /// Return the value as stored, without decompression.
    pub raw: bool,
    /// Offset of the first byte to return. Byteway's own: past the value's end it is Invalid Field in Command.
    pub offset: u32,
    /// The result may follow the completion. Byteway's own.
    pub inline_result: bool,
}

impl Retrieve {
    /// The fields of a Retrieve.
    pub const fn parse(sqe: &Sqe) -> Retrieve {
        Retrieve {
            key: KeyField::parse(sqe),
            buffer_bytes: sqe.cdw10,
            raw: bit(sqe.cdw11, 8),
            offset: sqe.cdw12,
            inline_result: bit(sqe.cdw13, 0),
        }
    }

    /// The command, without its data pointer.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        let mut sqe = self.key.sqe(KvOpcode::RETRIEVE, cid, nsid);
        (sqe.cdw10, sqe.cdw12, sqe.cdw13) = (self.buffer_bytes, self.offset, self.inline_result.into());
        sqe.cdw11 |= u32::from(self.raw) << 8;
        sqe
    }
}

/// List (NVMe KV 1.0, 3.2.3): keys in order, starting at a given one ([`list`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// The first key to list, whether or not it exists. Length 0: the first key in the namespace.
    pub key: KeyField,
    /// Bytes of the host's buffer.
    pub buffer_bytes: u32,
}

impl List {
    /// The fields of a List.
    pub const fn parse(sqe: &Sqe) -> List {
        List { key: KeyField::parse(sqe), buffer_bytes: sqe.cdw10 }
    }

    /// The command, without its data pointer.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        Sqe { cdw10: self.buffer_bytes, ..self.key.sqe(KvOpcode::LIST, cid, nsid) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"0123456789abcdef";

    /// Without this a foreign host would store under another key.
    #[test]
    fn keys_lie_where_the_specification_says() {
        let key = KeyField::new(KEY).unwrap();
        let store = Store { key, bytes: 0x1_0203, must_not_exist: true, ..Store::default() };
        let bytes = store.sqe(7, 3).to_bytes();
        assert_eq!((&bytes[8..16], &bytes[56..64]), (&KEY[..8], &KEY[8..]));
        assert_eq!((bytes[0], &bytes[40..48]), (1, &[3, 2, 1, 0, 16, 0b10, 0, 0][..]));
        for length in 0..=16 {
            let key = KeyField::new(&KEY[..length]).unwrap();
            let sqe = key.sqe(KvOpcode::DELETE, 1, 1);
            assert_eq!(KeyField::parse(&sqe).key(), Some(&KEY[..length]));
        }
        assert_eq!(KeyField::new(&[0; 17]), None);
        assert_eq!(KeyField { length: 17, bytes: key.bytes }.key(), None);
        assert_eq!(KeyField { length: 255, bytes: key.bytes }.key(), None);
    }

    /// Without this two encodings of one key would be two keys, or a List would be out of order.
    #[test]
    fn keys_are_ordered_by_their_bytes() {
        let all: [&[u8]; 6] = [b"\0", b"\0\0", b"a", b"a\0", b"ab", b"b"];
        let keys = all.map(|key| Key::new(key).unwrap());
        assert!(keys.is_sorted() && keys.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(keys.map(|key| key.as_bytes().to_vec()), all);
        let spelt = KeyField { length: 1, bytes: [b'a'; 16] };
        assert_eq!(spelt.valid(), Key::new(b"a"));
        for length in [0, 17, 255] {
            assert_eq!(KeyField { length, bytes: spelt.bytes }.valid(), None);
        }
        assert_eq!(keys[3].to_string(), "a\\x00");
    }

    /// Without this an option would be lost, or taken for another.
    #[test]
    fn commands_come_back_as_they_were_built() {
        let key = KeyField::new(b"k").unwrap();
        for options in 0..8 {
            let [must_exist, must_not_exist, no_compression] = [1, 2, 4].map(|bit| options & bit != 0);
            let store = Store { key, bytes: 77, must_exist, must_not_exist, no_compression };
            assert_eq!(Store::parse(&store.sqe(1, 2)), store);
            assert_eq!(store.sqe(1, 2).cdw11 >> 8, options);
        }
        let retrieve = Retrieve { key, buffer_bytes: 9, raw: true, offset: 4096, inline_result: true };
        assert_eq!(Retrieve::parse(&retrieve.sqe(1, 2)), retrieve);
        let list = List { key: KeyField::default(), buffer_bytes: 4096 };
        assert_eq!(List::parse(&list.sqe(1, 2)), list);
    }
}
