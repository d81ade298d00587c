//! I/O of a connected host.

use crate::host::{Host, by_transport, in_capsule, with_target};
use byteway_wire::FromBytes;
use byteway_wire::IntoBytes;
use byteway_wire::fabrics::tcp::Digests;
use byteway_wire::nvme::feature::fid;
use byteway_wire::nvme::{
    Cns, DatasetManagement, Flush, Identify, IdentifyController, KeepAlive, NvmOpcode, Range, ReadWrite,
    SetFeatures, Status, WriteZeroes,
};

const BLOCK: usize = 4096;

fn read_write(opcode: NvmOpcode, lba: u64, blocks: u16) -> byteway_wire::nvme::Sqe {
    ReadWrite { slba: lba, nlb_z: blocks - 1, ..ReadWrite::default() }.sqe(opcode, 0, 2)
}

fn pattern(seed: u8, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed) ^ (at >> 8) as u8).collect()
}

/// Writes with in-capsule data and with R2T, and reads back, with these digests and in pieces of so many
/// bytes.
async fn write_and_read(host: &mut Host) {
    let small = pattern(3, BLOCK);
    let write = in_capsule(read_write(NvmOpcode::WRITE, 5, 1), BLOCK as u32);
    assert_eq!(host.ask(write, &small).await.cqe.status(), Status::SUCCESS);
    let large = pattern(9, 8 * BLOCK);
    let write = by_transport(read_write(NvmOpcode::WRITE, 8, 8), large.len() as u32);
    assert_eq!(host.ask(write, &large).await.cqe.status(), Status::SUCCESS);
    for (lba, blocks, expected) in [(5, 1, &small), (8, 8, &large)] {
        let read = by_transport(read_write(NvmOpcode::READ, lba, blocks), expected.len() as u32);
        let answer = host.ask(read, &[]).await;
        assert_eq!(answer.cqe.status(), Status::SUCCESS);
        assert!(answer.data == *expected, "{lba}");
    }
    let compare = by_transport(read_write(NvmOpcode::COMPARE, 8, 8), large.len() as u32);
    assert_eq!(host.ask(compare, &large).await.cqe.status(), Status::SUCCESS);
    let differs = host.ask(compare, &pattern(10, 8 * BLOCK)).await.cqe.status();
    assert!(differs.is(Status::COMPARE_FAILURE), "{differs}");
}

// Without any of these a host would read other bytes than it wrote: in-capsule data, requested data, header
// and data digests, and a stream cut anywhere.
#[test]
fn what_is_written_is_read() {
    for (header, data) in [(false, false), (true, false), (false, true), (true, true)] {
        for pieces in [usize::MAX, 1, 7, 1500] {
            with_target(
                |_| (),
                async move |target, _| {
                    let admin = Host::admin(&target).await;
                    let digests = Digests::new().with_header(header).with_data(data);
                    let mut io = Host::io(&target, &admin, 1, digests).await;
                    io.pieces = pieces;
                    write_and_read(&mut io).await;
                },
            );
        }
    }
}

// Linux describes 4 KiB for the ranges of a Dataset Management, for any number of ranges.
#[test]
fn a_host_may_give_more_than_a_command_takes() {
    with_target(
        |_| (),
        async |target, _| {
            let admin = Host::admin(&target).await;
            let mut io = Host::io(&target, &admin, 1, Digests::new()).await;
            write_and_read(&mut io).await;
            let mut ranges = vec![0; 4096];
            let range = Range { slba: 8, length: 8, ..Range::default() };
            ranges[..16].copy_from_slice(range.as_bytes());
            let deallocate = DatasetManagement { ad: true, ..DatasetManagement::default() }.sqe(0, 2);
            let answer = io.ask(in_capsule(deallocate, 4096), &ranges).await;
            assert_eq!(answer.cqe.status(), Status::SUCCESS);
            let read = by_transport(read_write(NvmOpcode::READ, 8, 8), 8 * BLOCK as u32);
            assert!(io.ask(read, &[]).await.data.iter().all(|byte| *byte == 0));
            // Less than the command takes is refused.
            let answer = io.ask(by_transport(read_write(NvmOpcode::READ, 5, 2), 4096), &[]).await;
            assert!(answer.cqe.status().is(Status::DATA_SGL_LENGTH_INVALID));
            let answer = io.ask(in_capsule(read_write(NvmOpcode::WRITE, 5, 2), 4096), &[0; 4096]).await;
            assert!(answer.cqe.status().is(Status::DATA_SGL_LENGTH_INVALID));
        },
    );
}

#[test]
fn commands_without_data_reach_the_drive() {
    with_target(
        |_| (),
        async |target, _| {
            let admin = Host::admin(&target).await;
            let mut io = Host::io(&target, &admin, 1, Digests::new()).await;
            write_and_read(&mut io).await;
            let zeroes = WriteZeroes { slba: 5, nlb_z: 0, ..WriteZeroes::default() }.sqe(0, 2);
            assert_eq!(io.ask(zeroes, &[]).await.cqe.status(), Status::SUCCESS);
            assert_eq!(io.ask(Flush.sqe(0, 2), &[]).await.cqe.status(), Status::SUCCESS);
            let read = by_transport(read_write(NvmOpcode::READ, 5, 1), BLOCK as u32);
            assert!(io.ask(read, &[]).await.data.iter().all(|byte| *byte == 0));
        },
    );
}

// A host relies on Identify for the lengths that it may send, and the commands that it may use.
#[test]
fn identify_describes_the_controller_and_not_the_drives_own() {
    with_target(
        |_| (),
        async |target, _| {
            let mut admin = Host::admin(&target).await;
            let identify = Identify { cns: Cns::CONTROLLER, ..Identify::default() }.sqe(0, 0);
            let data = admin.ask(by_transport(identify, 4096), &[]).await.data;
            let identity = IdentifyController::read_from_bytes(&data[..]).unwrap();
            assert_eq!(identity.cntlid, admin.queue.controller().unwrap().id());
            assert_eq!((identity.mdts, identity.ioccsz, identity.iorcsz, identity.icdoff), (3, 516, 1, 0));
            assert_eq!((identity.maxcmd, identity.oacs, identity.fuses, identity.cntrltype), (128, 0, 0, 1));
            assert_eq!(identity.sgls & 0b11, 1);
            assert!(identity.subnqn.starts_with(crate::host::SUBSYSTEM.as_bytes()));
            let queues =
                SetFeatures { fid: fid::NUMBER_OF_QUEUES, cdw11: 4 << 16 | 4, ..SetFeatures::default() };
            assert_eq!(admin.ask(queues.sqe(0, 0), &[]).await.cqe.dw0, 4 << 16 | 4);
            assert_eq!(admin.ask(KeepAlive.sqe(0), &[]).await.cqe.status(), Status::SUCCESS);
        },
    );
}
