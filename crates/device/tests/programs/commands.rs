//! Load Program, Program Activation Management, Memory Range Set Management, and what the logs say of them.

use super::{
    MEMORY, MEMORY_BYTES, OTHER, PROGRAMS, activate_sqe, bench, create_sqe, delete_sqe, install, piece_sqe,
    unload_sqe, with_data,
};
use crate::fixture::{NS_4K, TestHost, drive_config};
use byteway_device::{Drive, NamespaceConfig};
use byteway_program::assemble::*;
use byteway_wire::IntoBytes;
use byteway_wire::nvme::programs::{
    ActivateProgram, EBPF, LoadProgram, ManageRangeSets, MemoryRange, ProgramDescriptor,
};
use byteway_wire::nvme::{AdminOpcode, GetLogPage, Sqe, Status, lid};

/// A program of `instructions`, which returns 1.
fn program(instructions: usize) -> Vec<u8> {
    let mut all = vec![mov(R0, 1); instructions - 1];
    all.push(exit());
    assemble(&all)
}

async fn log(host: &TestHost, nsid: u32, lid: u8, bytes: u32) -> Vec<u8> {
    let page = host.pages(1);
    let command = GetLogPage { lid, numd_z: bytes / 4 - 1, ..GetLogPage::default() };
    host.succeed(command.sqe(0, nsid).with_prp(page, 0)).await;
    host.peek(page, bytes as usize)
}

/// State, kind, identifier, loaded bytes, runs of a program.
async fn listed(host: &TestHost, program: usize) -> (u8, u8, u64, u32, u32) {
    let page = log(host, PROGRAMS, lid::PROGRAMS, 64 * 5).await;
    assert_eq!(page[..4], [4, 0, 0, 0]);
    let at = &page[64 * (program + 1)..];
    let word = |from: usize| u32::from_le_bytes(at[from..from + 4].try_into().expect("four bytes"));
    (at[0], at[1], u64::from(word(8)) | u64::from(word(12)) << 32, word(16), word(20))
}

// A program that is put together wrongly is another program.
#[test]
fn a_program_is_loaded_in_pieces() {
    bench().enabled(async |host| {
        let bytes = program(600);
        assert_eq!(listed(&host, 1).await, (0, 0, 0, 0, 0));
        let mut at = 0;
        for piece in [8, 1000, 12, 3000, 780] {
            let part = &bytes[at..at + piece];
            let checksum = host.succeed(piece_sqe(&host, 1, bytes.len(), at, part)).await;
            at += piece;
            assert_eq!(checksum, crc32c::crc32c(&bytes[..at]), "of all that is loaded");
            let state = ProgramDescriptor::DOWNLOADED | 1 << 3;
            assert_eq!(listed(&host, 1).await, (state, EBPF, 77, at as u32, 0));
            if at < bytes.len() {
                host.refused(activate_sqe(1, true), Status::INVALID_PROGRAM_DATA).await;
            }
        }
        assert_eq!(at, bytes.len());
        host.succeed(activate_sqe(1, true)).await;
        assert_eq!(
            listed(&host, 1).await.0,
            ProgramDescriptor::DOWNLOADED | ProgramDescriptor::ACTIVATED | 8
        );
        host.refused(piece_sqe(&host, 1, 8, 0, &program(1)), Status::PROGRAM_IN_USE).await;
        host.refused(unload_sqe(1), Status::PROGRAM_IN_USE).await;
        host.succeed(activate_sqe(1, false)).await;
        host.refused(piece_sqe(&host, 1, 8, 0, &program(1)), Status::PROGRAM_IN_USE).await;
        host.succeed(unload_sqe(1)).await;
        assert_eq!(listed(&host, 1).await, (0, 0, 0, 0, 0));
        host.refused(unload_sqe(1), Status::NO_PROGRAM).await;
    });
}

// Pieces that come twice, in another order, or of another program, must not end up in one.
#[test]
fn pieces_that_do_not_fit_are_refused() {
    bench().enabled(async |host| {
        let bytes = program(64); // 512 bytes
        let piece =
            |offset: usize, count: usize| piece_sqe(&host, 0, 512, offset, &bytes[offset..offset + count]);
        host.refused(piece(8, 8), Status::INVALID_FIELD).await; // nothing is before it
        host.succeed(piece(0, 256)).await;
        for wrong in [
            piece(128, 128),
            piece(264, 8),
            piece_sqe(&host, 0, 520, 256, &bytes[256..]), // of another length
            piece_sqe(&host, 0, 512, 256, &program(33)),  // beyond the end
            Sqe { cdw12: 78, ..piece(256, 256) },         // of another name
            Sqe { cdw14: 0, ..piece(256, 256) },
        ] {
            host.refused(wrong, Status::INVALID_FIELD).await;
        }
        host.refused(Sqe { cdw15: u32::MAX, ..piece(256, 256) }, Status::INVALID_FIELD).await;
        // A first piece restarts the load.
        host.succeed(piece(0, 8)).await;
        host.refused(piece(256, 256), Status::INVALID_FIELD).await;
        host.succeed(piece(8, 504)).await;
        host.succeed(activate_sqe(0, true)).await;
    });
}

// Every limit is one that a host would otherwise fill the drive's memory by.
#[test]
fn limits_of_programs() {
    bench().enabled(async |host| {
        let one = program(1);
        for index in [4, u16::MAX] {
            host.refused(piece_sqe(&host, index, 8, 0, &one), Status::INVALID_PROGRAM_INDEX).await;
            host.refused(activate_sqe(index, true), Status::INVALID_PROGRAM_INDEX).await;
            host.refused(unload_sqe(index), Status::INVALID_PROGRAM_INDEX).await;
        }
        host.refused(piece_sqe(&host, 0, (16 << 10) + 8, 0, &one), Status::PROGRAM_TOO_BIG).await;
        host.refused(piece_sqe(&host, 0, u32::MAX as usize, 0, &one), Status::PROGRAM_TOO_BIG).await;
        host.succeed(piece_sqe(&host, 0, 16 << 10, 0, &one)).await;
        host.refused(piece_sqe(&host, 1, (8 << 10) + 8, 0, &one), Status::PROGRAM_BYTES_EXCEEDED).await;
        host.succeed(piece_sqe(&host, 1, 8 << 10, 0, &one)).await;
        host.refused(piece_sqe(&host, 2, 8, 0, &one), Status::PROGRAM_BYTES_EXCEEDED).await;
        host.succeed(unload_sqe(0)).await;
        host.succeed(unload_sqe(1)).await;
        let kind = LoadProgram { kind: 1, program_bytes: 8, bytes: 8, ..LoadProgram::default() };
        let sqe = with_data(&host, kind.sqe(0, PROGRAMS), &one);
        host.refused(sqe, Status::INVALID_PROGRAM_TYPE).await;
        for index in 0..3 {
            host.succeed(piece_sqe(&host, index, 8, 0, &one)).await;
        }
        host.refused(activate_sqe(3, true), Status::NO_PROGRAM).await;
        host.succeed(activate_sqe(0, true)).await;
        host.succeed(activate_sqe(0, true)).await; // it is already
        host.succeed(activate_sqe(1, true)).await;
        host.refused(activate_sqe(2, true), Status::PROGRAMS_ACTIVATED).await;
        host.succeed(activate_sqe(0, false)).await;
        host.succeed(activate_sqe(2, true)).await;
        let unknown = ActivateProgram { program: 0, select: 2 };
        host.refused(unknown.sqe(0, PROGRAMS), Status::INVALID_FIELD).await;
    });
}

// A program that the verifier refuses must not occupy its slot, which could then never be used again.
#[test]
fn what_is_no_program_is_refused_and_gone() {
    bench().enabled(async |host| {
        for bytes in [
            vec![0xff; 64],
            assemble(&[mov(R0, 1)]),
            assemble(&[goto(5), exit()]),
            assemble(&[mov(R10, 1), exit()]),
            assemble(&[call(99), exit()]),
            assemble(&[exit()])[..7].to_vec(),
            vec![0; 16 << 10],
        ] {
            let status = Status::INVALID_PROGRAM_DATA;
            host.refused(piece_sqe(&host, 0, bytes.len(), 0, &bytes), status).await;
            host.refused(unload_sqe(0), Status::NO_PROGRAM).await;
        }
        install(&host, 0, &[exit()]).await;
        let hole = piece_sqe(&host, 1, 8, 0, &[0; 8]).with_prp(host.hole(), 0);
        assert_eq!(host.admin(hole).await.status(), Status::DATA_TRANSFER_ERROR);
        host.refused(unload_sqe(1), Status::NO_PROGRAM).await;
    });
}

// A set that names what is not there would give a program the drive's own memory.
#[test]
fn memory_range_sets_are_checked() {
    bench().enabled(async |host| {
        let good = MemoryRange::new(MEMORY, 64, 128);
        for (range, status) in [
            (MemoryRange::new(MEMORY, MEMORY_BYTES - 4, 8), Status::INVALID_MEMORY_RANGE_SET),
            (MemoryRange::new(MEMORY, u64::MAX - 3, 8), Status::INVALID_MEMORY_RANGE_SET),
            (MemoryRange::new(MEMORY, 2, 8), Status::INVALID_MEMORY_RANGE_SET),
            (MemoryRange::new(MEMORY, 0, 6), Status::INVALID_MEMORY_RANGE_SET),
            (MemoryRange::new(MEMORY, 0, 0), Status::INVALID_MEMORY_RANGE_SET),
            (MemoryRange::new(MEMORY, 188, 8), Status::OVERLAPPING_MEMORY_RANGES),
            (MemoryRange::new(MEMORY, 0, 68), Status::OVERLAPPING_MEMORY_RANGES),
            (MemoryRange::new(NS_4K, 0, 8), Status::INVALID_MEMORY_NAMESPACE),
            (MemoryRange::new(PROGRAMS, 0, 8), Status::INVALID_MEMORY_NAMESPACE),
            (MemoryRange::new(0, 0, 8), Status::INVALID_MEMORY_NAMESPACE),
            (MemoryRange::new(u32::MAX, 0, 8), Status::INVALID_MEMORY_NAMESPACE),
        ] {
            host.refused(create_sqe(&host, &[good, range]), status).await;
        }
        host.refused(create_sqe(&host, &[good; 5]), Status::MEMORY_RANGES_EXCEEDED).await;
        host.refused(create_sqe(&host, &[]), Status::INVALID_FIELD).await;
        let apart = [good, MemoryRange::new(MEMORY, 192, 8), MemoryRange::new(OTHER, 64, 128)];
        assert_eq!(host.succeed(create_sqe(&host, &apart)).await, 1);
        assert_eq!(host.succeed(create_sqe(&host, &[good])).await, 2);
        assert_eq!(host.succeed(create_sqe(&host, &[good])).await, 3);
        host.refused(create_sqe(&host, &[good]), Status::MEMORY_RANGE_SETS_EXCEEDED).await;
        let page = log(&host, PROGRAMS, lid::MEMORY_RANGE_SETS, 64 + 7 * 32).await;
        assert_eq!((page[0], page[64], page[68]), (3, 1, 3));
        assert_eq!(page[96..192], *apart.as_bytes());
        host.succeed(delete_sqe(2)).await;
        for unknown in [0, 2, 4, u16::MAX] {
            host.refused(delete_sqe(unknown), Status::INVALID_MEMORY_RANGE_SET_ID).await;
        }
        assert_eq!(host.succeed(create_sqe(&host, &[good])).await, 2, "what is free is given again");
        let unknown = ManageRangeSets { select: 9, set: 1, ranges: 1 };
        host.refused(unknown.sqe(0, PROGRAMS), Status::INVALID_FIELD).await;
    });
}

// The admin commands are the namespace's; to any other, and to a drive without programs, there are none.
#[test]
fn the_commands_are_of_their_namespace() {
    let opcodes = [
        AdminOpcode::LOAD_PROGRAM,
        AdminOpcode::PROGRAM_ACTIVATION_MANAGEMENT,
        AdminOpcode::MEMORY_RANGE_SET_MANAGEMENT,
    ];
    bench().enabled(async move |host| {
        for opcode in opcodes {
            for (nsid, status) in [
                (0, Status::INVALID_NAMESPACE),
                (1, Status::INVALID_NAMESPACE),
                (MEMORY, Status::INVALID_NAMESPACE),
                (99, Status::INVALID_FIELD),
                (u32::MAX, Status::INVALID_NAMESPACE),
            ] {
                host.refused(Sqe::new(opcode, 0, nsid), status).await;
            }
        }
        assert_eq!(log(&host, PROGRAMS, lid::PROGRAM_TYPES, 68).await[64], EBPF);
        let page = host.pages(1);
        for nsid in [0, MEMORY, u32::MAX] {
            let command = GetLogPage { lid: lid::PROGRAMS, numd_z: 15, ..GetLogPage::default() };
            host.refused(command.sqe(0, nsid).with_prp(page, 0), Status::INVALID_LOG_PAGE).await;
        }
        // Pages of the controller name no namespace still.
        let smart = GetLogPage { lid: lid::SMART, numd_z: 15, ..GetLogPage::default() };
        host.refused(smart.sqe(0, PROGRAMS).with_prp(page, 0), Status::INVALID_FIELD).await;
    });
    crate::fixture::Bench::default().enabled(async move |host| {
        for opcode in opcodes {
            host.refused(Sqe::new(opcode, 0, 1), Status::INVALID_OPCODE).await;
        }
    });
}

// A drive that can't be is refused with the setting that is wrong.
#[test]
fn wrong_policies_are_refused() {
    let told = |change: fn(&mut byteway_device::DriveConfig)| {
        let mut config = super::config();
        change(&mut config);
        Drive::medium(&config).err().map(|error| error.message).unwrap_or_default()
    };
    assert_eq!(told(|_| ()), "");
    assert!(told(|config| config.programs = None).contains("these command sets"));
    assert!(told(|config| config.programs.as_mut().unwrap().memory_bytes = 1 << 20).contains("memory_bytes"));
    assert!(told(|config| config.programs.as_mut().unwrap().programs = 0).contains("programs.programs"));
    assert!(told(|config| config.programs.as_mut().unwrap().fuel = 0).contains("programs.fuel"));
    assert!(
        told(|config| config.programs.as_mut().unwrap().program_bytes_max = 1 << 20)
            .contains("program_bytes_max")
    );
    let mut plain = drive_config();
    plain.namespaces.push(NamespaceConfig::programs());
    assert!(Drive::medium(&plain).is_err());
}
