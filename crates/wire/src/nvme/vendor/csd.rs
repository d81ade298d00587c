//! Byteway's own command set for tables in the drive and queries over them: a computational SSD. Its namespaces have the command set
//! identifier [`CSI`].
//!
//! **Tables** have a name, a schema and row groups. The drive defines how row groups are encoded; the
//! encoding of a schema is that of `byteway-query`.
//!
//! | field | Table Create | Table Drop | Table Append | Table List | Table Groups | Table Read |
//! |---|---|---|---|---|---|---|
//! | DPTR | name and schema: [`Create`] | - | a part of an Arrow IPC stream | [`TableRecord`]s | [`GroupRecord`]s | bytes of a row group |
//! | CDW10 | bytes | 0 | bytes | bytes of the buffer | bytes of the buffer | bytes |
//! | CDW11 | 0 | 0 | upload; 0: start a new one | 0 | 0 | 0 |
//! | CDW12 | 0 | table | table | first table's number | table | table |
//! | CDW13 | 0 | 0 | bit 0: last part of the upload | 0 | first row group | row group |
//! | CDW14, 15 | 0 | 0 | 0 | 0 | 0 | offset in its columns |
//! | completion DW0 | table | 0 | upload; after the last part: rows of the table, low half | bytes of records | bytes of records | 0 |
//! | completion DW1 | 0 | 0 | after the last part: rows, high half | [`END`], [`TOO_SMALL`] | the same | 0 |
//!
//! The rows of an upload are appended with its last part, all or none, and are durable when that command
//! completes. An upload that is unused for some time is dropped. A reset drops all uploads.
//!
//! **Queries.** Task sends a query and opens a cursor. Result fetches the query's result, an Arrow IPC
//! stream. Cancel closes the cursor. Task Piggyback is a Task whose payload is in command fields: its first
//! 35 bytes in CDW4 to CDW9, bytes 1 to 3 of CDW11, CDW12 and CDW13 ([`Head`](super::piggyback::Head)), the
//! rest in transfer commands.
//!
//! | field | Task | Task Piggyback | Result | Cancel |
//! |---|---|---|---|---|
//! | CDW2 | 0 | bit 0: pieces are pipelined | 0 | 0 |
//! | DPTR | the task | payload (with MPTR) | buffer for the result | - |
//! | CDW10 | bytes | bytes | bytes of the buffer | 0 |
//! | CDW12 | 0 | payload | cursor | cursor |
//! | CDW14 | form; bit 8: only check it | the same | 0 | 0 |
//! | completion DW0 | cursor | cursor, in the command with the last byte | bytes of the result | 0 |
//! | completion DW1 | 0; after a check, the error that Result would report | the same | [`END`]; [`FAILED`]: the bytes are an error text | 0 |
//!
//! A task that cannot be executed opens a cursor, too: Result then reports [`FAILED`], with a [`Problem`] in
//! bits 15:8 of DW1. A result that fails part way ends in the same way. The last part of a result closes its
//! cursor.
//!
//! A task that is only checked is parsed and bound to its table, but not executed. It opens no cursor: DW0 is
//! 0, and DW1 is 0 or contains the [`Problem`], without text. It tells a host whether the drive supports the
//! task.
//!
//! **Rows filtered by a program.** A task of the form [`FILTERED`] contains a program of the drive
//! ([`programs`](crate::nvme::programs)), its columns and parameters, and a task of another form. That task
//! sees only the rows for which the program returns 1. Layout:
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | namespace of the program; 0: the first namespace of programs |
//! | 4 | 2 | program index, which must be activated |
//! | 6 | 1 | form of the contained task, other than [`FILTERED`] |
//! | 7 | 1 | number of columns, 1 to 64 |
//! | 8 | 4 | length of the parameters |
//! | 12 | | for each column: length of its name (1 byte), name (UTF-8, case-insensitive) |
//! | | | parameters |
//! | | | the task |
//!
//! The program runs once per row of the row groups that the task's own conditions do not rule out, in order,
//! before these conditions are applied. R1 is the address of the row: the columns' values, laid out as by a C
//! compiler in a struct, followed by one byte per column, which is 1 if the value is null (and then zero),
//! else 0. R2 is the address of the parameters, R3 the number of the row in the table, from 0, and R4 the
//! length of the parameters. Columns must have values of fixed length: VARCHAR is refused. If a program is
//! stopped, by its bounds, by an instruction limit, or because it returns neither 0 nor 1, the task ends with
//! [`Problem::Program`]; part of the result may have been fetched before. A program in use by a task can be
//! neither deactivated nor unloaded.
//!
//! | status | when |
//! |---|---|
//! | Invalid Field in Command | unknown table, row group, cursor or upload of this namespace; unknown form; too many bytes; an invalid schema, or not an Arrow stream of the table's columns; a table of this name exists |
//! | Command Sequence Error | the maximum number of cursors or uploads is open (without Do Not Retry); the cursor or upload is in use (Do Not Retry) |
//! | Capacity Exceeded | not enough free space |
//! | Unrecovered Error | unreadable flash |

use super::super::command::Sqe;
use super::super::opcode::VendorOpcode;

/// Command Set Identifier, among those for vendors.
pub const CSI: u8 = 0x31;

/// In DW1: the list or result is complete.
pub const END: u32 = 1;
/// In DW1: the next record does not fit into the buffer, even alone; DW0 is 0.
pub const TOO_SMALL: u32 = 2;
/// In DW1: the bytes are an error text.
pub const FAILED: u32 = 4;

/// The form of a task whose rows a program filters: [`Filtered`]. Other forms are those of `byteway-query`.
pub const FILTERED: u8 = 3;

/// Kind of a task's failure: bits 15:8 of DW1 of Result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Problem {
    /// Not a valid task: SQL syntax, unknown columns, mismatched types.
    Malformed = 1,
    /// A valid task that this drive does not support; the host can execute it.
    Refused = 2,
    /// Unknown table.
    NoTable = 3,
    /// The execution failed: an overflow, a division by zero, a limit.
    Execution = 4,
    /// Flash could not return the data.
    Media = 5,
    /// The filter program does not exist, is not activated, or was stopped.
    Program = 6,
}

impl Problem {
    const ALL: [Problem; 6] = [
        Problem::Malformed,
        Problem::Refused,
        Problem::NoTable,
        Problem::Execution,
        Problem::Media,
        Problem::Program,
    ];

    /// DW1 of a failed result with this problem.
    pub const fn dw1(self) -> u32 {
        END | FAILED | (self as u32) << 8
    }

    /// Decodes DW1; `None` without [`FAILED`] or for an unknown code.
    pub fn of(dw1: u32) -> Option<Problem> {
        Self::ALL.into_iter().find(|problem| dw1 & FAILED != 0 && *problem as u32 == dw1 >> 8 & 0xff)
    }
}

/// Task, or Task Piggyback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Length of the payload, in bytes.
    pub bytes: u32,
    /// Form of the payload: a code of `byteway-query`, or [`FILTERED`].
    pub form: u8,
    /// Only check the task; opens no cursor.
    pub is_check: bool,
}

impl Task {
    const CHECK: u32 = 1 << 8;

    /// Decodes the submission queue entry.
    pub const fn parse(sqe: &Sqe) -> Task {
        Task { bytes: sqe.cdw10, form: sqe.cdw14 as u8, is_check: sqe.cdw14 & Self::CHECK != 0 }
    }

    /// Encodes the submission queue entry, without its payload.
    pub fn sqe(&self, opcode: VendorOpcode, cid: u16, nsid: u32) -> Sqe {
        let check = if self.is_check { Self::CHECK } else { 0 };
        Sqe { cdw10: self.bytes, cdw14: u32::from(self.form) | check, ..Sqe::new(opcode, cid, nsid) }
    }
}

/// A task whose rows a program filters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filtered<'a> {
    /// Namespace of the program; 0: the first namespace of programs.
    pub nsid: u32,
    /// Program index.
    pub program: u16,
    /// Names of the columns that the program receives.
    pub columns: Vec<&'a str>,
    /// Parameters of the program.
    pub parameters: &'a [u8],
    /// Form of the task.
    pub form: u8,
    /// Payload of the task.
    pub task: &'a [u8],
}

impl<'a> Filtered<'a> {
    /// Encodes the payload. Columns beyond 255, and bytes of a name beyond 255, are dropped.
    pub fn to_bytes(&self) -> Vec<u8> {
        let columns = &self.columns[..self.columns.len().min(usize::from(u8::MAX))];
        let mut bytes = self.nsid.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.program.to_le_bytes());
        bytes.extend_from_slice(&[self.form, columns.len() as u8]);
        bytes.extend_from_slice(&(self.parameters.len() as u32).to_le_bytes());
        for column in columns {
            let name = &column.as_bytes()[..column.len().min(usize::from(u8::MAX))];
            bytes.push(name.len() as u8);
            bytes.extend_from_slice(name);
        }
        bytes.extend_from_slice(self.parameters);
        bytes.extend_from_slice(self.task);
        bytes
    }

    /// Decodes the payload; `None` if it is truncated or a name is not UTF-8.
    pub fn parse(bytes: &'a [u8]) -> Option<Filtered<'a>> {
        let mut fields = Fields(bytes);
        let nsid = fields.u32()?;
        let [low, high, form, count] = fields.u32()?.to_le_bytes();
        let parameter_bytes = fields.u32()?;
        let mut name = || {
            let [length] = fields.bytes(1)? else { return None };
            std::str::from_utf8(fields.bytes(u32::from(*length))?).ok()
        };
        let columns = (0..count).map(|_| name()).collect::<Option<Vec<_>>>()?;
        let parameters = fields.bytes(parameter_bytes)?;
        let program = u16::from_le_bytes([low, high]);
        Some(Filtered { nsid, program, columns, parameters, form, task: fields.0 })
    }
}

/// Result: fetches a part of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetch {
    /// Cursor.
    pub cursor: u32,
    /// Length of the host's buffer, in bytes.
    pub buffer_bytes: u32,
}

impl Fetch {
    /// Decodes the submission queue entry.
    pub const fn parse(sqe: &Sqe) -> Fetch {
        Fetch { cursor: sqe.cdw12, buffer_bytes: sqe.cdw10 }
    }

    /// Encodes the submission queue entry, without its data pointer.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        Sqe { cdw10: self.buffer_bytes, cdw12: self.cursor, ..Sqe::new(VendorOpcode::CSD_RESULT, cid, nsid) }
    }
}

/// Encodes Cancel.
pub fn cancel(cursor: u32, cid: u16, nsid: u32) -> Sqe {
    Sqe { cdw12: cursor, ..Sqe::new(VendorOpcode::CSD_CANCEL, cid, nsid) }
}

/// Encodes Table Drop.
pub fn drop_table(table: u32, cid: u16, nsid: u32) -> Sqe {
    Sqe { cdw12: table, ..Sqe::new(VendorOpcode::TABLE_DROP, cid, nsid) }
}

/// The payload of Table Create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Create<'a> {
    /// The table's name.
    pub name: &'a str,
    /// The table's schema, as encoded by `byteway-query`.
    pub schema: &'a [u8],
}

impl<'a> Create<'a> {
    /// Encodes the payload: length of the name (2 bytes), name, schema.
    pub fn to_bytes(&self) -> Vec<u8> {
        let length = u16::try_from(self.name.len()).unwrap_or(u16::MAX);
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend_from_slice(self.name.as_bytes());
        bytes.extend_from_slice(self.schema);
        bytes
    }

    /// Decodes the payload; `None` if it is truncated or the name is not UTF-8.
    pub fn parse(bytes: &'a [u8]) -> Option<Create<'a>> {
        let (length, rest) = bytes.split_first_chunk()?;
        let (name, schema) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        Some(Create { name: std::str::from_utf8(name).ok()?, schema })
    }

    /// Encodes the submission queue entry for a payload of `bytes` bytes.
    pub fn sqe(bytes: u32, cid: u16, nsid: u32) -> Sqe {
        Sqe { cdw10: bytes, ..Sqe::new(VendorOpcode::TABLE_CREATE, cid, nsid) }
    }
}

/// Table Append: a part of an upload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Append {
    /// Length of this part, in bytes.
    pub bytes: u32,
    /// Upload; 0 starts a new one.
    pub upload: u32,
    /// Table.
    pub table: u32,
    /// This is the last part.
    pub ends: bool,
}

impl Append {
    /// Decodes the submission queue entry.
    pub const fn parse(sqe: &Sqe) -> Append {
        Append { bytes: sqe.cdw10, upload: sqe.cdw11, table: sqe.cdw12, ends: sqe.cdw13 & 1 == 1 }
    }

    /// Encodes the submission queue entry, without its data pointer.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        Sqe {
            cdw10: self.bytes,
            cdw11: self.upload,
            cdw12: self.table,
            cdw13: self.ends.into(),
            ..Sqe::new(VendorOpcode::TABLE_APPEND, cid, nsid)
        }
    }
}

/// Table List, or Table Groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// Length of the host's buffer, in bytes.
    pub buffer_bytes: u32,
    /// Table List: number of the first table. Table Groups: the table.
    pub table: u32,
    /// Table Groups: index of the first row group.
    pub group: u32,
}

impl List {
    /// Decodes the submission queue entry.
    pub const fn parse(sqe: &Sqe) -> List {
        List { buffer_bytes: sqe.cdw10, table: sqe.cdw12, group: sqe.cdw13 }
    }

    /// Encodes the submission queue entry, without its data pointer.
    pub fn sqe(&self, opcode: VendorOpcode, cid: u16, nsid: u32) -> Sqe {
        Sqe { cdw10: self.buffer_bytes, cdw12: self.table, cdw13: self.group, ..Sqe::new(opcode, cid, nsid) }
    }
}

/// Table Read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Number of bytes to read.
    pub bytes: u32,
    /// Table.
    pub table: u32,
    /// Index of the row group.
    pub group: u32,
    /// Offset in the row group's columns, in bytes.
    pub offset: u64,
}

impl Read {
    /// Decodes the submission queue entry.
    pub const fn parse(sqe: &Sqe) -> Read {
        let offset = sqe.cdw14 as u64 | (sqe.cdw15 as u64) << 32;
        Read { bytes: sqe.cdw10, table: sqe.cdw12, group: sqe.cdw13, offset }
    }

    /// Encodes the submission queue entry, without its data pointer.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        Sqe {
            cdw10: self.bytes,
            cdw12: self.table,
            cdw13: self.group,
            cdw14: self.offset as u32,
            cdw15: (self.offset >> 32) as u32,
            ..Sqe::new(VendorOpcode::TABLE_READ, cid, nsid)
        }
    }
}

/// A table in the Table List.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRecord {
    /// Table number.
    pub table: u32,
    /// Number of row groups.
    pub groups: u32,
    /// Number of rows.
    pub rows: u64,
    /// Length of all row groups, in bytes.
    pub bytes: u64,
    /// Name.
    pub name: String,
    /// Schema, as encoded by `byteway-query`.
    pub schema: Vec<u8>,
}

/// A row group in Table Groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRecord {
    /// Number of rows.
    pub rows: u64,
    /// Length of its columns, in bytes.
    pub data_bytes: u64,
    /// Description: ranges of the columns' bytes, and zone maps.
    pub meta: Vec<u8>,
}

/// A reader of little-endian fields.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, count: u32) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count as usize)?;
        self.0 = rest;
        Some(bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.bytes(4).map(|bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes")))
    }

    fn u64(&mut self) -> Option<u64> {
        self.bytes(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    }
}

impl TableRecord {
    /// Appends the record: number, row groups (4 bytes each), rows, bytes (8 each), lengths of name and
    /// schema (4 each), name, schema.
    pub fn push(&self, into: &mut Vec<u8>) {
        let words = [self.table, self.groups];
        words.iter().for_each(|word| into.extend_from_slice(&word.to_le_bytes()));
        [self.rows, self.bytes].iter().for_each(|word| into.extend_from_slice(&word.to_le_bytes()));
        let lengths = [self.name.len() as u32, self.schema.len() as u32];
        lengths.iter().for_each(|word| into.extend_from_slice(&word.to_le_bytes()));
        into.extend_from_slice(self.name.as_bytes());
        into.extend_from_slice(&self.schema);
    }

    /// Decodes all records of a buffer; `None` if it is truncated or a name is not UTF-8.
    pub fn all(bytes: &[u8]) -> Option<Vec<TableRecord>> {
        let mut fields = Fields(bytes);
        let mut all = Vec::new();
        while !fields.0.is_empty() {
            let (table, groups, rows, bytes) = (fields.u32()?, fields.u32()?, fields.u64()?, fields.u64()?);
            let (name, schema) = (fields.u32()?, fields.u32()?);
            let name = String::from_utf8(fields.bytes(name)?.to_vec()).ok()?;
            let schema = fields.bytes(schema)?.to_vec();
            all.push(TableRecord { table, groups, rows, bytes, name, schema });
        }
        Some(all)
    }
}

impl GroupRecord {
    /// Appends a record: rows, bytes (8 each), length of the description (4), description.
    pub fn push(rows: u64, data_bytes: u64, meta: &[u8], into: &mut Vec<u8>) {
        into.extend_from_slice(&rows.to_le_bytes());
        into.extend_from_slice(&data_bytes.to_le_bytes());
        into.extend_from_slice(&(meta.len() as u32).to_le_bytes());
        into.extend_from_slice(meta);
    }

    /// Decodes all records of a buffer; `None` if it is truncated.
    pub fn all(bytes: &[u8]) -> Option<Vec<GroupRecord>> {
        let mut fields = Fields(bytes);
        let mut all = Vec::new();
        while !fields.0.is_empty() {
            let (rows, data_bytes, meta) = (fields.u64()?, fields.u64()?, fields.u32()?);
            all.push(GroupRecord { rows, data_bytes, meta: fields.bytes(meta)?.to_vec() });
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A field that is read from where another was written names another table, or another cursor.
    #[test]
    fn commands_come_back_as_they_were_built() {
        for is_check in [false, true] {
            let task = Task { bytes: 70_000, form: 2, is_check };
            assert_eq!(Task::parse(&task.sqe(VendorOpcode::CSD_TASK, 1, 2)), task);
        }
        let fetch = Fetch { cursor: 9, buffer_bytes: 4096 };
        assert_eq!(Fetch::parse(&fetch.sqe(1, 2)), fetch);
        assert_eq!(Fetch::parse(&cancel(9, 1, 2)).cursor, 9);
        for ends in [false, true] {
            let append = Append { bytes: 5, upload: 6, table: 7, ends };
            assert_eq!(Append::parse(&append.sqe(1, 2)), append);
        }
        let list = List { buffer_bytes: 5, table: 6, group: 7 };
        assert_eq!(List::parse(&list.sqe(VendorOpcode::TABLE_GROUPS, 1, 2)), list);
        let read = Read { bytes: 5, table: 6, group: 7, offset: 0x1_2345_6789 };
        assert_eq!(Read::parse(&read.sqe(1, 2)), read);
        let create = Create { name: "t\u{e4}", schema: &[1, 2] };
        let bytes = create.to_bytes();
        assert_eq!(Create::parse(&bytes), Some(create));
        assert_eq!(Create::parse(&bytes[..4]), None);
        assert_eq!(Create::parse(&[1, 0, 0xff]), None);
        for problem in Problem::ALL {
            assert_eq!(Problem::of(problem.dw1()), Some(problem));
        }
        assert_eq!((Problem::of(END), Problem::of(FAILED)), (None, None));
    }

    // A name that is read where another begins gives a program another column; what is cut off is nothing, wherever it is.
    #[test]
    fn filtered_tasks_come_back() {
        let filtered = Filtered {
            nsid: 0x1_0002,
            program: 0x304,
            columns: vec!["a", "", "caf\u{e9}"],
            parameters: &[1, 2, 3],
            form: 1,
            task: b"t a > 1",
        };
        let bytes = filtered.to_bytes();
        assert_eq!(bytes[..12], [2, 0, 1, 0, 4, 3, 1, 3, 3, 0, 0, 0]);
        assert_eq!(Filtered::parse(&bytes), Some(filtered.clone()));
        let least = bytes.len() - filtered.task.len();
        assert!((0..least).all(|length| Filtered::parse(&bytes[..length]).is_none()));
        assert_eq!(Filtered::parse(&bytes[..least]).map(|cut| cut.task), Some(&[][..]));
        let mut wrong = bytes;
        wrong[13] = 0xff; // of a name
        assert_eq!(Filtered::parse(&wrong), None);
    }

    // What a drive says must be what a host reads; what is cut off is nothing.
    #[test]
    fn records_come_back() {
        let table = |name: &str| TableRecord {
            table: 3,
            groups: 2,
            rows: 1 << 40,
            bytes: 77,
            name: name.to_owned(),
            schema: vec![9; 5],
        };
        let tables = vec![table("a"), table("")];
        let mut bytes = Vec::new();
        tables.iter().for_each(|table| table.push(&mut bytes));
        assert_eq!(TableRecord::all(&bytes), Some(tables));
        assert_eq!(TableRecord::all(&bytes[..bytes.len() - 1]), None);
        let mut bytes = Vec::new();
        GroupRecord::push(5, 6, &[1, 2, 3], &mut bytes);
        assert_eq!(
            GroupRecord::all(&bytes),
            Some(vec![GroupRecord { rows: 5, data_bytes: 6, meta: vec![1, 2, 3] }])
        );
        assert_eq!(GroupRecord::all(&bytes[..22]), None);
    }
}
