//! Controllers, from Connect to their end.

use crate::host::{HOST, Host, SUBSYSTEM, by_transport, with_target};
use byteway_clock::Delay;
use byteway_nvmeof::{Ended, Hosts, Peer};
use byteway_wire::IntoBytes;
use byteway_wire::fabrics::status::{
    CONNECT_INVALID_HOST, CONNECT_INVALID_PARAMETERS, CONTROLLER_BUSY, INCOMPATIBLE_FORMAT,
    INVALID_QUEUE_TYPE,
};
use byteway_wire::fabrics::tcp::{CapsuleCmd, Digests, Pdu};
use byteway_wire::fabrics::{Connect, ConnectData, DataPointer, Disconnect, InvalidParameter, Nqn};
use byteway_wire::nvme::{Identify, KeepAlive, NvmOpcode, ReadWrite, Status};

// A host that may not connect must learn why, and get no access.
#[test]
fn connect_is_refused_with_the_parameter_that_is_wrong() {
    with_target(
        |config| config.io_queues_max = 2,
        async |target, _| {
            let admin = Host::admin(&target).await;
            let id = admin.queue.controller().unwrap().id();
            type Case = (u16, u16, u16, fn(&mut byteway_wire::fabrics::ConnectData), InvalidParameter);
            let cases: [Case; 7] = [
                (0, 0xFFFF, 32, |data| data.subnqn[24] = b'x', InvalidParameter::SUBNQN),
                (0, 0xFFFF, 32, |data| data.hostnqn = [b'n'; 256], InvalidParameter::HOSTNQN),
                (0, 5, 32, |_| (), InvalidParameter::CNTLID),
                (1, 77, 32, |_| (), InvalidParameter::CNTLID),
                (3, id, 32, |_| (), InvalidParameter::QID),
                (1, id, 1, |_| (), InvalidParameter::SQSIZE),
                (1, id, 129, |_| (), InvalidParameter::SQSIZE),
            ];
            for (qid, cntlid, entries, change, wrong) in cases {
                let mut host = Host::initialized(&target, Digests::new());
                let cqe = host.connect(qid, cntlid, entries, change).await.cqe;
                assert!(cqe.status().is(CONNECT_INVALID_PARAMETERS), "{qid} {cntlid} {entries}");
                assert_eq!(InvalidParameter::parse(&cqe), Some(wrong));
                assert!(host.queue.controller().is_none());
            }
            // A host must not access another host's controller.
            let mut other = Host::initialized(&target, Digests::new());
            let cqe = other.connect(1, id, 32, |data| data.hostid = [8; 16]).await.cqe;
            assert!(cqe.status().is(CONNECT_INVALID_HOST));
            // A queue can be connected once.
            let _io = Host::io(&target, &admin, 1, Digests::new()).await;
            let mut twice = Host::initialized(&target, Digests::new());
            let cqe = twice.connect(1, id, 32, |_| ()).await.cqe;
            assert_eq!(InvalidParameter::parse(&cqe), Some(InvalidParameter::QID));
        },
    );
}

#[test]
fn only_listed_hosts_connect() {
    for (listed, status) in [(HOST, Status::SUCCESS), ("nqn.2026-11.org.byteway:other", CONNECT_INVALID_HOST)]
    {
        with_target(
            move |config| config.hosts = Hosts::Listed(vec![Nqn::new(listed).unwrap()]),
            async move |target, _| {
                let mut host = Host::initialized(&target, Digests::new());
                assert!(host.connect(0, 0xFFFF, 32, |_| ()).await.cqe.status().is(status));
            },
        );
    }
}

// The key of a secure channel is valid for one host and one subsystem: it must not admit another host, or to
// another subsystem.
#[test]
fn a_connect_fits_the_secure_channel_that_it_comes_by() {
    with_target(
        |_| (),
        async |target, _| {
            let nqn = |name: &str| Nqn::new(name).unwrap();
            let peer = Peer { host: nqn(HOST), subsystem: nqn(SUBSYSTEM), generated: None };
            let mut own = Host::initialized(&target, Digests::new());
            own.queue.secure(peer);
            let other = nqn("nqn.2026-11.org.byteway:other").field();
            let cqe = own.connect(0, 0xFFFF, 32, |data| data.hostnqn = other).await.cqe;
            assert!(cqe.status().is(CONNECT_INVALID_HOST) && cqe.status().dnr());
            let discovery = Nqn::discovery().field();
            let cqe = own.connect(0, 0xFFFF, 32, |data| data.subnqn = discovery).await.cqe;
            assert_eq!(InvalidParameter::parse(&cqe), Some(InvalidParameter::SUBNQN));
            assert!(target.controllers().is_empty());
            assert!(own.connect(0, 0xFFFF, 32, |_| ()).await.cqe.status().is_success());
        },
    );
}

#[test]
fn controllers_have_a_limit_and_are_free_again() {
    with_target(
        |config| config.controllers_max = 2,
        async |target, _| {
            let (first, _second) = (Host::admin(&target).await, Host::admin(&target).await);
            let mut third = Host::initialized(&target, Digests::new());
            assert!(third.connect(0, 0xFFFF, 32, |_| ()).await.cqe.status().is(CONTROLLER_BUSY));
            first.queue.close();
            assert!(third.connect(0, 0xFFFF, 32, |_| ()).await.cqe.status().is_success());
        },
    );
}

// A connection may be lost between a Connect's arrival and its execution: found by fuzzing.
#[test]
fn a_connect_of_a_connection_that_is_gone_makes_no_controller() {
    with_target(
        |_| (),
        async |target, _| {
            let mut host = Host::initialized(&target, Digests::new());
            let connect = Connect { sqsize_z: 31, ..Connect::default() };
            let (subsystem, own) = (Nqn::new(SUBSYSTEM).unwrap(), Nqn::new(HOST).unwrap());
            let data = ConnectData::new([7; 16], 0xFFFF, &subsystem, &own);
            let pointer = DataPointer::InCapsule { offset: 0, bytes: ConnectData::SIZE as u32 };
            let capsule = CapsuleCmd::new(connect.sqe(1, pointer.descriptor()));
            host.say(&Pdu::CapsuleCmd(capsule), data.as_bytes()).unwrap();
            host.queue.close();
            host.serve().await;
            assert!(target.controllers().is_empty() && host.hear().is_empty());
        },
    );
}

// A dead host must not keep its controller indefinitely; one that is idle but sends Keep Alive must keep it.
#[test]
fn a_silent_host_loses_its_controller_and_one_that_keeps_alive_does_not() {
    with_target(
        |_| (),
        async |target, clock| {
            let mut alive = Host::admin(&target).await;
            let silent = Host::admin(&target).await;
            let io = Host::io(&target, &silent, 1, Digests::new()).await;
            for _ in 0..10 {
                clock.timer(Delay::from_s(1)).await;
                assert!(alive.ask(KeepAlive.sqe(0), &[]).await.cqe.status().is_success());
            }
            let controller = silent.queue.controller().unwrap();
            assert_eq!(controller.ended(), Some(Ended::Silent));
            io.queue.over().await; // its I/O queues have to close, too
            assert_eq!(alive.queue.controller().unwrap().ended(), None);
            assert_eq!(target.subsystems()[0].controllers().len(), 1);
        },
    );
}

// Queues belong to one life of the controller: those from before a reset must end.
#[test]
fn a_reset_ends_io_queues_and_what_comes_before_enabling_is_refused() {
    with_target(
        |_| (),
        async |target, _| {
            let mut admin = Host::admin(&target).await;
            let io = Host::io(&target, &admin, 1, Digests::new()).await;
            admin.configure(false).await;
            io.queue.over().await;
            io.queue.close();
            let identify = by_transport(Identify::default().sqe(0, 0), 4096);
            let refused = admin.ask(identify, &[]).await.cqe.status();
            assert!(refused.is(Status::COMMAND_SEQUENCE_ERROR), "{refused}");
            admin.configure(true).await;
            let again = Host::io(&target, &admin, 1, Digests::new()).await;
            assert_eq!(again.queue.qid(), Some(1));
            assert_eq!(
                admin.queue.controller().unwrap().subsystem().unwrap().config().nqn.as_str(),
                SUBSYSTEM
            );
        },
    );
}

#[test]
fn a_queue_is_disconnected_by_itself() {
    with_target(
        |_| (),
        async |target, _| {
            let admin = Host::admin(&target).await;
            let mut io = Host::io(&target, &admin, 1, Digests::new()).await;
            assert!(io.ask(Disconnect::default().sqe(0), &[]).await.cqe.status().is_success());
            assert!(io.connection.is_closing());
            io.queue.close();
            assert_eq!(admin.queue.controller().unwrap().ended(), None);
            Host::io(&target, &admin, 1, Digests::new()).await;
        },
    );
}

// An unknown command must not delete its queue, as happened to SPDK's fuzzer.
#[test]
fn a_disconnect_of_another_format_or_queue_is_refused() {
    with_target(
        |_| (),
        async |target, _| {
            let mut admin = Host::admin(&target).await;
            let mut io = Host::io(&target, &admin, 1, Digests::new()).await;
            let unknown = Disconnect { recfmt: 0x1D57 }.sqe(0);
            assert_eq!(io.ask(unknown, &[]).await.cqe.status(), INCOMPATIBLE_FORMAT.with_dnr());
            let misplaced = Disconnect::default().sqe(0);
            assert_eq!(admin.ask(misplaced, &[]).await.cqe.status(), INVALID_QUEUE_TYPE.with_dnr());
            assert_eq!(admin.ask(unknown, &[]).await.cqe.status(), INVALID_QUEUE_TYPE.with_dnr());
            for host in [&admin, &io] {
                assert!(!host.connection.is_closing());
            }
            assert_eq!(admin.queue.controller().unwrap().ended(), None);
            let read = ReadWrite::default().sqe(NvmOpcode::READ, 0, 2);
            assert_eq!(io.ask(by_transport(read, 4096), &[]).await.cqe.status(), Status::SUCCESS);
        },
    );
}

// SPDK's perf gives no name of its own: SPDK's target takes such a host where it takes any, and so does this one.
#[test]
fn a_host_without_a_name_connects_where_any_host_may() {
    for (hosts, expected) in [(Hosts::Any, true), (Hosts::Listed(vec![Nqn::new(HOST).unwrap()]), false)] {
        with_target(
            move |config| config.hosts = hosts,
            async move |target, _| {
                let mut host = Host::initialized(&target, Digests::new());
                let status = host.connect(0, 0xFFFF, 32, |data| data.hostnqn = [0; 256]).await.cqe.status();
                assert_eq!(status.is_success(), expected, "{status}");
                assert!(expected || status.is(CONNECT_INVALID_HOST), "{status}");
            },
        );
    }
}
