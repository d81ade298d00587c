//! Hosts that violate the protocol: each gets a status, or a termination request and a closed connection,
//! without a panic and without an effect on other hosts.

use crate::host::{Host, by_transport, in_capsule, with_target};
use byteway_clock::random::{Rng, Stream};
use byteway_nvmeof::QueueViolation;
use byteway_nvmeof::tcp::ConnectionError;
use byteway_wire::fabrics::DataPointer;
use byteway_wire::fabrics::tcp::{CapsuleCmd, Digests, FatalStatus, H2cData, Pdu, PduError};
use byteway_wire::nvme::{Flush, NvmOpcode, ReadWrite, Sqe, Status};

fn write(blocks: u16) -> Sqe {
    ReadWrite { slba: 0, nlb_z: blocks - 1, ..ReadWrite::default() }.sqe(NvmOpcode::WRITE, 0, 2)
}

/// The fatal error that ends the connection, as reported to the host.
fn told(host: &mut Host, said: Result<(), ConnectionError>) -> FatalStatus {
    let Err(ConnectionError::Pdu(PduError::Fatal(fatal))) = said else { panic!("{said:?}") };
    let heard = host.hear();
    let Some(Pdu::TermReq(term)) = heard.last() else { panic!("{heard:?}") };
    assert_eq!(term.fatal(), fatal);
    fatal.status
}

#[test]
fn what_comes_too_early_is_refused() {
    with_target(
        |_| (),
        async |target, _| {
            let mut host = Host::open(&target);
            let said = host.say(&Pdu::CapsuleCmd(CapsuleCmd::new(Flush.sqe(0, 2))), &[]);
            assert_eq!(told(&mut host, said), FatalStatus::SEQUENCE);
            let mut host = Host::initialized(&target, Digests::new());
            let status = host.ask(Flush.sqe(0, 2), &[]).await.cqe.status();
            assert!(status.is(Status::COMMAND_SEQUENCE_ERROR));
        },
    );
}

// Data that was not requested, or has another offset, must not get into a command's buffer; and a command must not wait for data
// of which the host says that it does not come.
#[test]
fn data_beyond_what_was_asked_for_ends_the_connection() {
    type Change = fn(&mut H2cData);
    let cases: [(Change, FatalStatus); 6] = [
        (|data| data.ttag = 9, FatalStatus::INVALID_FIELD),
        (|data| data.cccid = 99, FatalStatus::INVALID_FIELD),
        (|data| data.datao = 4, FatalStatus::OUT_OF_RANGE),
        (|data| data.datao = u32::MAX - 3, FatalStatus::OUT_OF_RANGE),
        (|_| (), FatalStatus::OUT_OF_RANGE),
        (|_| (), FatalStatus::INVALID_FIELD),
    ];
    for (number, (change, expected)) in cases.into_iter().enumerate() {
        with_target(
            |_| (),
            async move |target, _| {
                let admin = Host::admin(&target).await;
                let mut io = Host::io(&target, &admin, 1, Digests::new()).await;
                let sqe = by_transport(write(1), 4096).with_cid(50);
                io.say(&Pdu::CapsuleCmd(CapsuleCmd::new(sqe)), &[]).unwrap();
                let [Pdu::R2t(request)] = io.hear()[..] else { panic!("no R2T") };
                // The last cases send more than was requested, and less as the last of it.
                let bytes = [4096, 4096, 4096, 4096, 8192, 2048][number];
                let mut header = H2cData::new(50, request.ttag, 0, bytes, true);
                change(&mut header);
                let said = io.say(&Pdu::H2cData(header), &vec![1; bytes as usize]);
                assert_eq!(told(&mut io, said), expected, "case {number}");
            },
        );
    }
}

#[test]
fn identifiers_and_entries_are_not_used_twice() {
    with_target(
        |_| (),
        async |target, _| {
            let admin = Host::admin(&target).await;
            let mut io = Host::io(&target, &admin, 1, Digests::new()).await;
            let sqe = by_transport(write(1), 4096).with_cid(5);
            io.say(&Pdu::CapsuleCmd(CapsuleCmd::new(sqe)), &[]).unwrap();
            let said = io.say(&Pdu::CapsuleCmd(CapsuleCmd::new(sqe)), &[]);
            assert_eq!(said, Err(ConnectionError::Violation(QueueViolation::Identifier(5))));
            let mut io = Host::io(&target, &admin, 2, Digests::new()).await;
            let say =
                |cid: u16, io: &mut Host| io.say(&Pdu::CapsuleCmd(CapsuleCmd::new(sqe.with_cid(cid))), &[]);
            (0..32).for_each(|cid| say(cid, &mut io).unwrap());
            assert_eq!(say(32, &mut io), Err(ConnectionError::Violation(QueueViolation::Overflow(32))));
        },
    );
}

// The extremes of each field that determines how much memory is accessed.
#[test]
fn commands_that_ask_for_too_much_get_a_status() {
    with_target(
        |_| (),
        async |target, _| {
            let admin = Host::admin(&target).await;
            let mut io = Host::io(&target, &admin, 1, Digests::new()).await;
            let read = |blocks_z: u16, lba: u64| {
                ReadWrite { slba: lba, nlb_z: blocks_z, ..ReadWrite::default() }.sqe(NvmOpcode::READ, 0, 2)
            };
            let cases = [
                (by_transport(read(8, 0), 9 * 4096), Status::INVALID_FIELD), // above MDTS
                (by_transport(read(u16::MAX, 0), u32::MAX), Status::INVALID_FIELD),
                (by_transport(read(0, u64::MAX), 4096), Status::LBA_OUT_OF_RANGE),
                (by_transport(write(8), u32::MAX), Status::DATA_SGL_LENGTH_INVALID),
                (by_transport(Sqe { nsid: 0, ..read(0, 0) }, 4096), Status::INVALID_NAMESPACE),
                (by_transport(Sqe { nsid: u32::MAX, ..read(0, 0) }, 4096), Status::INVALID_NAMESPACE),
                (by_transport(read(0, 0).with_fuse(1), 4096), Status::INVALID_FIELD),
                (Sqe::new(0x7Eu8, 0, 2), Status::INVALID_OPCODE),
                (Sqe::new(0xC1u8, 0, 2), Status::INVALID_OPCODE),
                (read(0, 0).with_prp(0x1000, 0), Status::SGL_TYPE_INVALID), // an address of the host
            ];
            for (sqe, expected) in cases {
                let status = io.ask(sqe, &[]).await.cqe.status();
                assert!(status.is(expected), "{:#x}: {status}", sqe.opcode());
            }
            let mut moved = write(1);
            crate::host::place(&mut moved, DataPointer::InCapsule { offset: 8, bytes: 4096 });
            let status = io.ask(moved, &[0; 4096]).await.cqe.status();
            assert!(status.is(Status::SGL_OFFSET_INVALID), "{status}");
        },
    );
}

// A network may damage data: what does not match its digest must not be written.
#[test]
fn data_with_a_wrong_digest_is_not_written() {
    with_target(
        |_| (),
        async |target, _| {
            let admin = Host::admin(&target).await;
            let mut io = Host::io(&target, &admin, 1, Digests::new().with_data(true)).await;
            let good = in_capsule(write(1), 4096);
            assert!(io.ask(good, &[7; 4096]).await.cqe.status().is_success());
            let header = Pdu::CapsuleCmd(CapsuleCmd::new(good.with_cid(900)));
            let mut bytes = io.encoded(&header, &[9; 4096]);
            bytes[1000] ^= 1;
            io.say_bytes(&bytes).unwrap();
            io.serve().await;
            let [Pdu::CapsuleResp(response)] = io.hear()[..] else { panic!("no completion") };
            assert!(response.cqe.status().is(Status::TRANSIENT_TRANSPORT_ERROR));
            let read = ReadWrite { slba: 0, nlb_z: 0, ..ReadWrite::default() }.sqe(NvmOpcode::READ, 0, 2);
            assert_eq!(io.ask(by_transport(read, 4096), &[]).await.data, [7; 4096]);
        },
    );
}

// Arbitrary bytes at any time of a connection.
#[test]
fn noise_breaks_its_own_connection_only() {
    for seed in 0..60 {
        with_target(
            |_| (),
            async move |target, _| {
                let mut rng = Rng::new(seed).stream("noise");
                let admin = Host::admin(&target).await;
                for round in 0..20 {
                    let mut host = match round % 4 {
                        0 => Host::open(&target),
                        1 => Host::initialized(&target, Digests::new()),
                        2 => Host::initialized(&target, Digests::new().with_header(true).with_data(true)),
                        _ => Host::io(&target, &admin, 1 + round, Digests::new()).await,
                    };
                    for _ in 0..8 {
                        let mut sqe = [0; 64];
                        sqe.iter_mut().for_each(|byte| *byte = below(&mut rng, 256) as u8);
                        // Sometimes a nearly valid command.
                        if below(&mut rng, 2) == 0 {
                            sqe[0] = below(&mut rng, 12) as u8;
                            sqe[1] = 0x40;
                            sqe[4..8].copy_from_slice(&2u32.to_le_bytes());
                        }
                        let sqe = Sqe::from_bytes(&sqe);
                        let mut bytes = host.encoded(&Pdu::CapsuleCmd(CapsuleCmd::new(sqe)), &[1; 64]);
                        for _ in 0..below(&mut rng, 3) {
                            let at = below(&mut rng, bytes.len() as u64) as usize;
                            bytes[at] = below(&mut rng, 256) as u8;
                        }
                        if host.say_bytes(&bytes).is_err() {
                            break;
                        }
                        host.serve().await;
                        let sent = host.connection.unsent().len();
                        host.connection.sent(sent);
                    }
                    host.queue.close();
                }
                let mut admin = admin;
                assert!(admin.ask(byteway_wire::nvme::KeepAlive.sqe(0), &[]).await.cqe.status().is_success());
            },
        );
    }
}

fn below(rng: &mut Stream, end: u64) -> u64 {
    rng.next_u64() % end
}
