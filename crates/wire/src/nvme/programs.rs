//! The Computational Programs command set (NVMe Computational Programs Command Set 1.0 and 1.1): commands, parsed and built.
//!
//! | field | Load Program | Program Activation Management | Memory Range Set Management | Execute Program |
//! |---|---|---|---|---|
//! | opcode | admin 85h | admin 88h | admin 89h | I/O 01h |
//! | CDW2 | 0 | 0 | 0 | bits 15:0 program, bits 31:16 memory range set; 0: ranges in the data |
//! | CDW3 | 0 | 0 | 0 | memory ranges in the data |
//! | CDW4 | 0 | 0 | 0 | bytes of the data |
//! | DPTR | a piece of the program | – | [`MemoryRange`]s | memory ranges, then parameters |
//! | CDW10 | bits 15:0 program, 23:16 type, 24 unload, 27:25 type of identifier | bits 15:0 program, 19:16 activate | bits 3:0 delete, 31:16 set | first parameter, low |
//! | CDW11 | bytes of the whole program | 0 | bits 7:0 ranges | first parameter, high |
//! | CDW12, 13 | identifier of the program | 0 | 0 | second parameter |
//! | CDW14 | bytes of the piece | 0 | 0 | 0 |
//! | CDW15 | offset of the piece | 0 | 0 | 0 |
//! | completion DW0, 1 | DW0: CRC-32C of all bytes loaded so far | 0 | DW0 after a creation: the set | return value of the program |
//!
//! Opcodes and fields follow public implementations (a target's, by the figures of revision 1.1), status
//! codes NVMe Base 2.2, and log page identifiers NVMe Base 2.1. Where the text of the specification was not
//! available, Byteway's own choices are: the checksum in the completion of Load Program, in a reserved dword;
//! ranges before parameters in the data of Execute Program; the header of the lists; and the status of a
//! stopped program ([`Status::PROGRAM_TRAP`](super::Status::PROGRAM_TRAP) and
//! [`Status::PROGRAM_OUT_OF_FUEL`](super::Status::PROGRAM_OUT_OF_FUEL), vendor specific codes, with the
//! instruction in DW0).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::assert_offsets;
use super::command::Sqe;
use super::opcode::{AdminOpcode, opcodes};

/// Command Set Identifier.
pub const CSI: u8 = 0x04;

opcodes! {
    /// An opcode of an I/O queue under the Computational Programs command set.
    ProgramsOpcode, vendor specific from 0x80 {
        EXECUTE_PROGRAM = 0x01, "Execute Program";
    }
}

/// The program type that Byteway runs: eBPF, as raw instructions. A vendor specific type.
pub const EBPF: u8 = 0xC0;

const fn wide(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

/// Load Program: loads a piece of a program, or unloads a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadProgram {
    /// Program index.
    pub program: u16,
    /// Type of program: [`EBPF`].
    pub kind: u8,
    /// Unload the program instead of loading a piece.
    pub unload: bool,
    /// Type of the identifier; 0: no identifier.
    pub identifier_kind: u8,
    /// Identifier chosen by the host.
    pub identifier: u64,
    /// Length of the whole program, in bytes.
    pub program_bytes: u32,
    /// Length of the piece, in bytes.
    pub bytes: u32,
    /// Offset of the piece in the program, in bytes.
    pub offset: u32,
}

impl LoadProgram {
    /// Decodes the submission queue entry.
    pub const fn parse(sqe: &Sqe) -> LoadProgram {
        LoadProgram {
            program: sqe.cdw10 as u16,
            kind: (sqe.cdw10 >> 16) as u8,
            unload: sqe.cdw10 >> 24 & 1 != 0,
            identifier_kind: (sqe.cdw10 >> 25 & 0x7) as u8,
            identifier: wide(sqe.cdw12, sqe.cdw13),
            program_bytes: sqe.cdw11,
            bytes: sqe.cdw14,
            offset: sqe.cdw15,
        }
    }

    /// Encodes the submission queue entry.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        Sqe {
            cdw10: u32::from(self.program)
                | u32::from(self.kind) << 16
                | u32::from(self.unload) << 24
                | u32::from(self.identifier_kind & 0x7) << 25,
            cdw11: self.program_bytes,
            cdw12: self.identifier as u32,
            cdw13: (self.identifier >> 32) as u32,
            cdw14: self.bytes,
            cdw15: self.offset,
            ..Sqe::new(AdminOpcode::LOAD_PROGRAM, cid, nsid)
        }
    }
}

/// Program Activation Management.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActivateProgram {
    /// Program index.
    pub program: u16,
    /// Operation: [`ActivateProgram::ACTIVATE`] or [`ActivateProgram::DEACTIVATE`].
    pub select: u8,
}

impl ActivateProgram {
    /// Deactivate: the program is no longer executable.
    pub const DEACTIVATE: u8 = 0;
    /// Activate: make the program executable.
    pub const ACTIVATE: u8 = 1;

    /// Decodes the submission queue entry.
    pub const fn parse(sqe: &Sqe) -> ActivateProgram {
        ActivateProgram { program: sqe.cdw10 as u16, select: (sqe.cdw10 >> 16 & 0xf) as u8 }
    }

    /// Encodes the submission queue entry.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        let cdw10 = u32::from(self.program) | u32::from(self.select & 0xf) << 16;
        Sqe { cdw10, ..Sqe::new(AdminOpcode::PROGRAM_ACTIVATION_MANAGEMENT, cid, nsid) }
    }
}

/// Memory Range Set Management.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ManageRangeSets {
    /// Operation: [`ManageRangeSets::CREATE`] or [`ManageRangeSets::DELETE`].
    pub select: u8,
    /// Set to delete.
    pub set: u16,
    /// Number of ranges of the set to create.
    pub ranges: u8,
}

impl ManageRangeSets {
    /// Create a set.
    pub const CREATE: u8 = 0;
    /// Delete a set.
    pub const DELETE: u8 = 1;

    /// Decodes the submission queue entry.
    pub const fn parse(sqe: &Sqe) -> ManageRangeSets {
        ManageRangeSets {
            select: (sqe.cdw10 & 0xf) as u8,
            set: (sqe.cdw10 >> 16) as u16,
            ranges: sqe.cdw11 as u8,
        }
    }

    /// Encodes the submission queue entry.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        Sqe {
            cdw10: u32::from(self.select & 0xf) | u32::from(self.set) << 16,
            cdw11: self.ranges.into(),
            ..Sqe::new(AdminOpcode::MEMORY_RANGE_SET_MANAGEMENT, cid, nsid)
        }
    }
}

/// A range of a memory namespace, 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct MemoryRange {
    /// Memory namespace.
    pub nsid: u32,
    /// Length in bytes.
    pub bytes: u32,
    /// First byte.
    pub start: u64,
    #[doc(hidden)]
    pub reserved_16: [u8; 16],
}

assert_offsets!(MemoryRange: 32; nsid = 0, bytes = 4, start = 8, reserved_16 = 16);

impl MemoryRange {
    /// Size of a descriptor, in bytes.
    pub const SIZE: usize = 32;

    /// A range of `bytes` bytes at `start`.
    pub const fn new(nsid: u32, start: u64, bytes: u32) -> MemoryRange {
        MemoryRange { nsid, bytes, start, reserved_16: [0; 16] }
    }

    /// The complete ranges in `bytes`, in order. A remainder of fewer than 32 bytes is ignored.
    pub fn parse_list(bytes: &[u8]) -> impl ExactSizeIterator<Item = MemoryRange> + '_ {
        let (ranges, _rest) = bytes.as_chunks::<{ MemoryRange::SIZE }>();
        ranges.iter().map(|bytes| zerocopy::transmute!(*bytes))
    }
}

/// Execute Program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecuteProgram {
    /// Program index.
    pub program: u16,
    /// Memory range set; 0 for the ranges in the data.
    pub set: u16,
    /// Number of memory ranges in the data.
    pub ranges: u32,
    /// Length of the data in bytes: ranges, followed by parameters.
    pub bytes: u32,
    /// First and second parameter of the program.
    pub parameters: [u64; 2],
}

impl ExecuteProgram {
    /// Decodes the submission queue entry. CDW4 is the low half of MPTR, which this command does not use
    /// otherwise.
    pub const fn parse(sqe: &Sqe) -> ExecuteProgram {
        ExecuteProgram {
            program: sqe.cdw2 as u16,
            set: (sqe.cdw2 >> 16) as u16,
            ranges: sqe.cdw3,
            bytes: sqe.mptr as u32,
            parameters: [wide(sqe.cdw10, sqe.cdw11), wide(sqe.cdw12, sqe.cdw13)],
        }
    }

    /// Encodes the submission queue entry.
    pub fn sqe(&self, cid: u16, nsid: u32) -> Sqe {
        let [first, second] = self.parameters;
        Sqe {
            cdw2: u32::from(self.program) | u32::from(self.set) << 16,
            cdw3: self.ranges,
            mptr: self.bytes.into(),
            cdw10: first as u32,
            cdw11: (first >> 32) as u32,
            cdw12: second as u32,
            cdw13: (second >> 32) as u32,
            ..Sqe::new(ProgramsOpcode::EXECUTE_PROGRAM, cid, nsid)
        }
    }
}

/// The Identify Namespace data structure of a programs namespace (CNS 05h); the remaining bytes are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ProgramsIdentify {
    /// Maximum number of activated programs.
    pub activated_max: u16,
    /// Maximum number of memory range sets.
    pub sets_max: u16,
    /// Granularity of memory ranges in bytes, as a power of two.
    pub range_granularity: u16,
    /// Maximum number of ranges of a set.
    pub ranges_max: u8,
    #[doc(hidden)]
    pub reserved_7: u8,
    /// Maximum size of all programs together, in MiB, rounded up.
    pub program_mib_max: u64,
    /// Granularity of program pieces in bytes, as a power of two.
    pub load_granularity: u8,
    #[doc(hidden)]
    pub reserved_17: [u8; 7],
    /// Number of program indexes, from 0. Byteway's own field.
    pub programs: u32,
    /// Maximum size of a program, in bytes. Byteway's own field.
    pub program_bytes_max: u32,
    /// Maximum number of instructions of a run. Byteway's own field.
    pub fuel: u64,
}

assert_offsets!(ProgramsIdentify: 40; activated_max = 0, sets_max = 2, range_granularity = 4, ranges_max = 6,
    program_mib_max = 8, load_granularity = 16, programs = 24, program_bytes_max = 28, fuel = 32);

/// Header of a list in a log page, 64 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ListHeader {
    /// Number of descriptors that follow.
    pub count: u32,
    #[doc(hidden)]
    pub reserved_4: [[u8; 4]; 15],
}

assert_offsets!(ListHeader: 64; count = 0, reserved_4 = 4);

/// A program in the Program List (log page 82h), 64 bytes. The list has one descriptor per program index,
/// from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ProgramDescriptor {
    /// Bits 1:0: 0 for no program, 2 for a downloaded one; bit 2: activated; bits 5:3: type of the
    /// identifier.
    pub state: u8,
    /// Type of program.
    pub kind: u8,
    #[doc(hidden)]
    pub reserved_2: [u8; 6],
    /// Identifier chosen by the host.
    pub identifier: u64,
    /// Number of bytes loaded so far. Byteway's own field.
    pub loaded_bytes: u32,
    /// Number of active runs. Byteway's own field.
    pub runs: u32,
    #[doc(hidden)]
    pub reserved_24: [[u8; 8]; 5],
}

assert_offsets!(ProgramDescriptor: 64; state = 0, kind = 1, identifier = 8, loaded_bytes = 16, runs = 20);

impl ProgramDescriptor {
    /// In `state`: the program was downloaded.
    pub const DOWNLOADED: u8 = 2;
    /// In `state`: the program is activated.
    pub const ACTIVATED: u8 = 1 << 2;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this another program would run, over other memory, than the host meant.
    #[test]
    fn commands_come_back_as_they_were_built() {
        let load = LoadProgram {
            program: 10,
            kind: EBPF,
            unload: true,
            identifier_kind: 5,
            identifier: 0x1_0000_0002,
            program_bytes: 4096,
            bytes: 512,
            offset: 1024,
        };
        let sqe = load.sqe(1, 2);
        assert_eq!((LoadProgram::parse(&sqe), sqe.cdw10), (load, 0x0bc0_000a));
        let activate = ActivateProgram { program: 10, select: ActivateProgram::ACTIVATE };
        assert_eq!(
            (ActivateProgram::parse(&activate.sqe(1, 2)), activate.sqe(1, 2).cdw10),
            (activate, 0x1_000a)
        );
        let manage = ManageRangeSets { select: ManageRangeSets::DELETE, set: 7, ranges: 3 };
        assert_eq!((ManageRangeSets::parse(&manage.sqe(1, 2)), manage.sqe(1, 2).cdw10), (manage, 0x7_0001));
        let execute =
            ExecuteProgram { program: 3, set: 4, ranges: 5, bytes: 600, parameters: [1 << 40, 2 << 40] };
        let sqe = execute.sqe(1, 2);
        assert_eq!((ExecuteProgram::parse(&sqe), sqe.cdw2), (execute, 0x4_0003));
        assert_eq!(sqe.to_bytes()[16..20], 600_u32.to_le_bytes(), "CDW4");
    }

    /// Without this a range would be of another namespace, or longer than it is.
    #[test]
    fn ranges_lie_in_memory_as_the_figure_says() {
        let range = MemoryRange::new(100, 0x1_0000_0000, 65536);
        let bytes = range.as_bytes();
        assert_eq!(bytes[..16], [100, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(MemoryRange::parse_list(bytes).collect::<Vec<_>>(), [range]);
    }
}
