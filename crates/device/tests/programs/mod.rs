//! Local memory, and programs that work on it: every command by hand, every error, runs that are ended in the middle, programs that loop or reach
//! for what isn't theirs, and the host's client.

mod client;
mod commands;
mod execution;
mod memory;

use crate::fixture::{Bench, Pair, TestHost, cc, drive_config};
use byteway_device::{DriveConfig, NamespaceConfig, ProgramsPolicy};
use byteway_firmware::WorkKind;
use byteway_program::assemble::assemble;
use byteway_program::{Instruction, Weights};
use byteway_wire::IntoBytes;
use byteway_wire::nvme::programs::{
    ActivateProgram, EBPF, ExecuteProgram, LoadProgram, ManageRangeSets, MemoryRange,
};
use byteway_wire::nvme::register::Cc;
use byteway_wire::nvme::slm::{LocalMemoryOpcode, MemoryAccess};
use byteway_wire::nvme::{Cqe, Sqe, Status};

/// A memory namespace of 1 MiB.
const MEMORY: u32 = 3;
const MEMORY_BYTES: u64 = 1 << 20;
/// The namespace of programs.
const PROGRAMS: u32 = 4;
/// A memory namespace of 64 KiB.
const OTHER: u32 = 5;
const OTHER_BYTES: u64 = 64 << 10;

fn policy() -> ProgramsPolicy {
    ProgramsPolicy {
        memory_bytes: 2 << 20,
        programs: 4,
        program_bytes_max: 16 << 10,
        programs_bytes_max: 24 << 10,
        activated_max: 2,
        sets_max: 3,
        ranges_max: 4,
        runs_max: 12,
        fuel: 1_000_000,
        row_fuel: 1000,
        filter_fuel: 1_000_000,
        weights: Weights { alu: 1, divide: 10, memory: 4, jump: 2, call: 8 },
        ..ProgramsPolicy::default()
    }
}

/// The small drive with these namespaces; an instruction that weighs 1 takes a cycle, which is a nanosecond.
fn config() -> DriveConfig {
    let mut config = drive_config();
    config.namespaces.extend([
        NamespaceConfig::local_memory(MEMORY_BYTES / 4096),
        NamespaceConfig::programs(),
        NamespaceConfig::local_memory(OTHER_BYTES / 4096),
    ]);
    config.site.cycles = config.site.cycles.with(WorkKind::Program, 1);
    config.programs = Some(policy());
    config
}

fn bench() -> Bench {
    Bench { drive: config(), cc: cc().with_css(Cc::CSS_ALL), ..Bench::default() }
}

fn dnr(status: Status) -> Status {
    status.with_dnr()
}

/// A command with `bytes` as its data.
fn with_data(host: &TestHost, sqe: Sqe, bytes: &[u8]) -> Sqe {
    if bytes.is_empty() {
        return sqe;
    }
    let (prp1, prp2) = host.prp(host.holding(bytes), bytes.len() as u64);
    sqe.with_prp(prp1, prp2)
}

async fn write(host: &TestHost, pair: &Pair, nsid: u32, start: u64, bytes: &[u8]) -> Status {
    let access = MemoryAccess { start, bytes: bytes.len() as u32 };
    let sqe = access.sqe(LocalMemoryOpcode::MEMORY_WRITE, 0, nsid);
    host.io(pair, with_data(host, sqe, bytes)).await.status()
}

async fn read(host: &TestHost, pair: &Pair, nsid: u32, start: u64, bytes: usize) -> Vec<u8> {
    let address = host.pages(bytes.div_ceil(4096).max(1));
    let (prp1, prp2) = host.prp(address, bytes as u64);
    let sqe = MemoryAccess { start, bytes: bytes as u32 }.sqe(LocalMemoryOpcode::MEMORY_READ, 0, nsid);
    assert_eq!(host.io(pair, sqe.with_prp(prp1, prp2)).await.status(), Status::SUCCESS);
    host.peek(address, bytes)
}

/// A piece of a program.
fn piece_sqe(host: &TestHost, program: u16, all: usize, offset: usize, bytes: &[u8]) -> Sqe {
    let piece = LoadProgram {
        program,
        kind: EBPF,
        identifier_kind: 1,
        identifier: 77,
        program_bytes: all as u32,
        bytes: bytes.len() as u32,
        offset: offset as u32,
        ..LoadProgram::default()
    };
    with_data(host, piece.sqe(0, PROGRAMS), bytes)
}

fn activate_sqe(program: u16, activate: bool) -> Sqe {
    ActivateProgram { program, select: activate.into() }.sqe(0, PROGRAMS)
}

fn unload_sqe(program: u16) -> Sqe {
    LoadProgram { program, unload: true, ..LoadProgram::default() }.sqe(0, PROGRAMS)
}

/// Loads a program in one piece and activates it.
async fn install(host: &TestHost, program: u16, instructions: &[Instruction]) {
    let bytes = assemble(instructions);
    let checksum = host.succeed(piece_sqe(host, program, bytes.len(), 0, &bytes)).await;
    assert_eq!(checksum, crc32c::crc32c(&bytes));
    host.succeed(activate_sqe(program, true)).await;
}

fn create_sqe(host: &TestHost, ranges: &[MemoryRange]) -> Sqe {
    let command = ManageRangeSets { select: ManageRangeSets::CREATE, set: 0, ranges: ranges.len() as u8 };
    with_data(host, command.sqe(0, PROGRAMS), ranges.as_bytes())
}

fn delete_sqe(set: u16) -> Sqe {
    ManageRangeSets { select: ManageRangeSets::DELETE, set, ranges: 0 }.sqe(0, PROGRAMS)
}

/// An Execute Program with these ranges of its own, these parameters in its data, and these in its fields.
fn execute_sqe(
    host: &TestHost,
    program: u16,
    set: u16,
    ranges: &[MemoryRange],
    parameters: &[u8],
    numbers: [u64; 2],
) -> Sqe {
    let data = [ranges.as_bytes(), parameters].concat();
    let command = ExecuteProgram {
        program,
        set,
        ranges: ranges.len() as u32,
        bytes: data.len() as u32,
        parameters: numbers,
    };
    with_data(host, command.sqe(0, PROGRAMS), &data)
}

/// Executes a program over `set`.
async fn execute(host: &TestHost, pair: &Pair, program: u16, set: u16) -> Cqe {
    host.io(pair, execute_sqe(host, program, set, &[], &[], [0; 2])).await
}

/// Return value of a program.
fn returned(cqe: &Cqe) -> u64 {
    assert_eq!(cqe.status(), Status::SUCCESS);
    u64::from(cqe.dw0) | u64::from(cqe.dw1) << 32
}
