//! Tables, row groups, and the on-flash format of the catalog that names them.
//!
//! A catalog is a header of 32 bytes, followed by the list of tables in the [postcard](https://postcard.jamesmunns.com/wire-format) format:
//!
//! | bytes | field |
//! |---|---|
//! | 0 to 3 | magic: "BwTb" |
//! | 4, 5 | format version: 1 |
//! | 8 to 15 | owner: [`TablesConfig::uid`](crate::TablesConfig::uid) |
//! | 16 to 23 | sequence number, incremented by each change |
//! | 24 to 27 | length of the list in bytes |
//! | 28 to 31 | CRC-32C of the header up to here and of the list |

use crate::config::UnitExtent;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A table's identifier. It is never reused: a new table of an old name has a new identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u32);

/// A row group to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewGroup {
    /// Number of rows.
    pub rows: u64,
    /// Encoded description; opaque to the store.
    pub meta: Vec<u8>,
    /// Encoded columns; opaque to the store.
    pub data: Vec<u8>,
}

/// A stored row group.
#[derive(Debug)]
pub struct Group {
    /// Number of rows.
    pub rows: u64,
    /// Length of the description in bytes.
    pub meta_bytes: u32,
    /// Length of the columns in bytes.
    pub data_bytes: u64,
    /// CRC-32C of the description.
    pub(crate) meta_crc: u32,
    /// The units it occupies, numbered within the range: the description first, then the columns from the next unit on.
    pub(crate) extents: Vec<UnitExtent>,
    /// The description, cached by the first read.
    pub(crate) meta: RefCell<Option<Rc<[u8]>>>,
}

impl Group {
    /// Number of 4 KiB units it occupies.
    pub fn units(&self) -> u64 {
        self.extents.iter().map(|extent| extent.count).sum()
    }
}

/// Snapshot of a table. It stays readable while this value exists, whatever is appended or dropped in the meantime.
#[derive(Clone, Debug)]
pub struct Table {
    /// Identifier.
    pub id: TableId,
    /// Name, 1 to 255 bytes.
    pub name: Rc<str>,
    /// Encoded schema; opaque to the store.
    pub schema: Rc<[u8]>,
    /// Row groups, in the order in which they were appended.
    pub groups: Rc<Vec<Rc<Group>>>,
}

impl Table {
    /// Number of rows in all row groups.
    pub fn rows(&self) -> u64 {
        self.groups.iter().map(|group| group.rows).sum()
    }

    /// Bytes of all row groups, without the padding of their last units.
    pub fn bytes(&self) -> u64 {
        self.groups.iter().map(|group| u64::from(group.meta_bytes) + group.data_bytes).sum()
    }
}

/// All tables, with the counters that the catalog stores.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    /// Sequence number, incremented by each change.
    pub(crate) number: u64,
    pub(crate) next_id: u32,
    pub(crate) tables: BTreeMap<TableId, Table>,
}

const MAGIC: [u8; 4] = *b"BwTb";
const FORM: u16 = 1;
pub(crate) const HEADER_BYTES: usize = 32;

#[derive(Serialize, Deserialize)]
struct List {
    next_id: u32,
    tables: Vec<Listed>,
}

#[derive(Serialize, Deserialize)]
struct Listed {
    id: u32,
    name: String,
    schema: Vec<u8>,
    groups: Vec<ListedGroup>,
}

#[derive(Serialize, Deserialize)]
struct ListedGroup {
    rows: u64,
    meta_bytes: u32,
    data_bytes: u64,
    meta_crc: u32,
    extents: Vec<(u64, u64)>,
}

impl Catalog {
    pub(crate) fn find(&self, name: &str) -> Option<&Table> {
        self.tables.values().find(|table| &*table.name == name)
    }

    /// Encodes the catalog, header included, for the owner `uid`.
    pub(crate) fn to_bytes(&self, uid: u64) -> Vec<u8> {
        let group = |group: &Rc<Group>| ListedGroup {
            rows: group.rows,
            meta_bytes: group.meta_bytes,
            data_bytes: group.data_bytes,
            meta_crc: group.meta_crc,
            extents: group.extents.iter().map(|extent| (extent.first, extent.count)).collect(),
        };
        let table = |table: &Table| Listed {
            id: table.id.0,
            name: table.name.to_string(),
            schema: table.schema.to_vec(),
            groups: table.groups.iter().map(group).collect(),
        };
        let list = List { next_id: self.next_id, tables: self.tables.values().map(table).collect() };
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&FORM.to_le_bytes());
        bytes[8..16].copy_from_slice(&uid.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        let mut bytes = postcard::to_extend(&list, bytes).expect("encoding to memory cannot fail");
        let behind = (bytes.len() - HEADER_BYTES) as u32;
        bytes[24..28].copy_from_slice(&behind.to_le_bytes());
        let crc = checksum(&bytes);
        bytes[28..32].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Parses a slot's header: total length in bytes and sequence number. `None` if the slot holds no catalog of this owner.
    pub(crate) fn header(bytes: &[u8], uid: u64) -> Option<(u64, u64)> {
        let header = bytes.get(..HEADER_BYTES)?;
        let is_ours =
            header[..4] == MAGIC && header[4..6] == FORM.to_le_bytes() && header[8..16] == uid.to_le_bytes();
        let number = u64::from_le_bytes(header[16..24].try_into().ok()?);
        let behind = u32::from_le_bytes(header[24..28].try_into().ok()?);
        is_ours.then_some((HEADER_BYTES as u64 + u64::from(behind), number))
    }

    /// Decodes a slot. `None` if it is damaged or names a unit at or beyond `units`.
    pub(crate) fn from_bytes(bytes: &[u8], uid: u64, units: u64) -> Option<Catalog> {
        let (all, number) = Catalog::header(bytes, uid)?;
        let bytes = bytes.get(..usize::try_from(all).ok()?)?;
        if bytes[28..32] != checksum(bytes).to_le_bytes() {
            return None;
        }
        let list: List = postcard::from_bytes(&bytes[HEADER_BYTES..]).ok()?;
        let extent = |(first, count): (u64, u64)| {
            let end = first.checked_add(count)?;
            (count > 0 && end <= units).then_some(UnitExtent { first, count })
        };
        let group = |listed: ListedGroup| {
            let ListedGroup { rows, meta_bytes, data_bytes, meta_crc, extents } = listed;
            let extents = extents.into_iter().map(extent).collect::<Option<Vec<_>>>()?;
            Some(Rc::new(Group { rows, meta_bytes, data_bytes, meta_crc, extents, meta: RefCell::default() }))
        };
        let table = |listed: Listed| {
            let groups = listed.groups.into_iter().map(group).collect::<Option<Vec<_>>>()?;
            let id = TableId(listed.id);
            let table =
                Table { id, name: listed.name.into(), schema: listed.schema.into(), groups: Rc::new(groups) };
            Some((id, table))
        };
        let tables = list.tables.into_iter().map(table).collect::<Option<BTreeMap<_, _>>>()?;
        Some(Catalog { number, next_id: list.next_id, tables })
    }
}

/// CRC-32C of a catalog's bytes, except the checksum field itself.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..28]), &bytes[HEADER_BYTES..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog() -> Catalog {
        let extents = vec![UnitExtent { first: 8, count: 3 }, UnitExtent { first: 20, count: 1 }];
        let group = Group {
            rows: 7,
            meta_bytes: 100,
            data_bytes: 9000,
            meta_crc: 5,
            extents,
            meta: RefCell::default(),
        };
        let table = Table {
            id: TableId(3),
            name: "particles".into(),
            schema: [1, 2, 3].into(),
            groups: Rc::new(vec![Rc::new(group)]),
        };
        Catalog { number: 9, next_id: 4, tables: BTreeMap::from([(TableId(3), table)]) }
    }

    // If encoding lost a field, a restart would return different tables.
    #[test]
    fn a_catalog_comes_back() {
        let bytes = catalog().to_bytes(77);
        let back = Catalog::from_bytes(&bytes, 77, 21).unwrap();
        assert_eq!(back.to_bytes(77), bytes);
        assert_eq!((back.number, back.next_id), (9, 4));
        let table = back.find("particles").unwrap();
        assert_eq!((table.rows(), table.bytes(), table.groups[0].units()), (7, 9100, 4));
    }

    // A slot torn by a power cut, left by another namespace, or naming units out of range must not be accepted.
    #[test]
    fn what_is_not_whole_is_no_catalog() {
        let bytes = catalog().to_bytes(77);
        for index in 0..bytes.len() {
            let mut torn = bytes.clone();
            torn[index] ^= 0x10;
            assert!(Catalog::from_bytes(&torn, 77, 21).is_none(), "byte {index}");
            assert!(Catalog::from_bytes(&bytes[..index], 77, 21).is_none());
        }
        assert!(Catalog::from_bytes(&bytes, 78, 21).is_none());
        assert!(Catalog::from_bytes(&bytes, 77, 20).is_none());
    }
}
