//! What one host may have, so that others have something, too.

use crate::host::{HOST, Host, by_transport, with_target};
use byteway_clock::Delay;
use byteway_target::HostLimits;
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::status::CONTROLLER_BUSY;
use byteway_wire::fabrics::tcp::{CapsuleCmd, Digests, H2cData, Pdu};
use byteway_wire::nvme::{Abort, NvmOpcode, ReadWrite, Sqe, Status};
use std::cell::Cell;
use std::rc::Rc;

const OTHER: &str = "nqn.2026-11.org.byteway:other-host";

fn write(lba: u64, blocks: u16) -> Sqe {
    let sqe = ReadWrite { slba: lba, nlb_z: blocks - 1, ..ReadWrite::default() }.sqe(NvmOpcode::WRITE, 0, 2);
    by_transport(sqe, u32::from(blocks) * 4096)
}

// A host that connects again and again, and never disconnects, would keep others out.
#[test]
fn a_host_has_so_many_controllers_and_queues() {
    with_target(
        |config| {
            config.host = HostLimits { controllers_max: 2, io_queues_max: 3, ..HostLimits::default() };
        },
        async |target, _| {
            let (first, second) = (Host::admin(&target).await, Host::admin(&target).await);
            let mut third = Host::initialized(&target, Digests::new());
            assert!(third.connect(0, 0xFFFF, 32, |_| ()).await.cqe.status().is(CONTROLLER_BUSY));
            // Another identifier makes no other host of it; another name does.
            let mut same = Host::initialized(&target, Digests::new());
            let refused = same.connect(0, 0xFFFF, 32, |data| data.hostid = [9; 16]).await.cqe.status();
            assert!(refused.is(CONTROLLER_BUSY));
            let name = Nqn::new(OTHER).unwrap().field();
            let mut other = Host::initialized(&target, Digests::new());
            let connected = other.connect(0, 0xFFFF, 32, |data| data.hostnqn = name).await.cqe.status();
            assert_eq!(connected, Status::SUCCESS);
            other.configure(true).await;

            let queues = [
                Host::io(&target, &first, 1, Digests::new()).await,
                Host::io(&target, &first, 2, Digests::new()).await,
                Host::io(&target, &second, 1, Digests::new()).await,
            ];
            let id = second.queue.controller().unwrap().id();
            let mut fourth = Host::initialized(&target, Digests::new());
            let refused = fourth.connect(2, id, 32, |_| ()).await.cqe.status();
            assert!(refused.is(CONTROLLER_BUSY) && !refused.dnr(), "{refused}");
            let id = other.queue.controller().unwrap().id();
            let mut its = Host::initialized(&target, Digests::new());
            let connected = its.connect(1, id, 32, |data| data.hostnqn = name).await.cqe.status();
            assert_eq!(connected, Status::SUCCESS);
            queues[0].queue.close();
            Host::io(&target, &second, 2, Digests::new()).await;
            first.queue.close();
            assert!(third.connect(0, 0xFFFF, 32, |_| ()).await.cqe.status().is_success());
        },
    );
}

// Two machines may have one name, by a copied disk: neither gets at the other's controller, nor ends it.
#[test]
fn two_hosts_of_one_name_have_controllers_of_their_own() {
    with_target(
        |_| (),
        async |target, _| {
            let first = Host::admin(&target).await;
            let mut second = Host::initialized(&target, Digests::new());
            assert!(
                second.connect(0, 0xFFFF, 32, |data| data.hostid = [9; 16]).await.cqe.status().is_success()
            );
            let (one, two) = (first.queue.controller().unwrap(), second.queue.controller().unwrap());
            assert_ne!(one.id(), two.id());
            assert_eq!(one.host().nqn.as_str(), HOST);
            let mut io = Host::initialized(&target, Digests::new());
            assert!(!io.connect(1, two.id(), 32, |_| ()).await.cqe.status().is_success());
            second.queue.close();
            assert!(one.ended().is_none() && two.ended().is_some());
            let mut io = Host::io(&target, &first, 1, Digests::new()).await;
            assert!(io.ask(write(0, 1), &[1; 4096]).await.cqe.status().is_success());
        },
    );
}

// Memory for data is the target's: a host that announces much and sends nothing must not have all of it.
#[test]
fn data_is_asked_for_as_far_as_a_host_has_credit() {
    with_target(
        |config| config.host = HostLimits { bytes_max: 64 << 10, ..HostLimits::default() },
        async |target, clock| {
            let admin = Host::admin(&target).await;
            let mut io = Host::io(&target, &admin, 1, Digests::new()).await;
            for cid in 900..905 {
                let sqe = write(u64::from(cid - 900) * 8, 8).with_cid(cid);
                io.say(&Pdu::CapsuleCmd(CapsuleCmd::new(sqe)), &[]).unwrap();
            }
            let asked = io.hear();
            let [Pdu::R2t(first), Pdu::R2t(_)] = asked[..] else { panic!("{asked:?}") };
            assert!(io.connection.waits_for_credit());

            // Another host has its own.
            let name = Nqn::new(OTHER).unwrap().field();
            let mut other = Host::initialized(&target, Digests::new());
            other.connect(0, 0xFFFF, 32, |data| data.hostnqn = name).await;
            other.configure(true).await;
            let id = other.queue.controller().unwrap().id();
            let mut its = Host::initialized(&target, Digests::new());
            its.connect(1, id, 32, |data| data.hostnqn = name).await;
            assert_eq!(its.ask(write(100, 8), &[1; 8 * 4096]).await.cqe.status(), Status::SUCCESS);

            // What has ended makes room for the next.
            io.say(&Pdu::H2cData(H2cData::new(900, first.ttag, 0, 8 * 4096, true)), &[1; 8 * 4096]).unwrap();
            let credit = io.connection.credit();
            io.serve().await;
            let credit = credit.await;
            io.connection.grant(credit);
            let heard = io.hear();
            let [Pdu::CapsuleResp(response), Pdu::R2t(next)] = heard[..] else { panic!("{heard:?}") };
            assert_eq!((response.cqe.cid, next.cccid), (900, 902));

            // A read of the same host waits until then, and not for ever.
            let read = ReadWrite { slba: 100, nlb_z: 7, ..ReadWrite::default() }.sqe(NvmOpcode::READ, 0, 2);
            let mut reader = Host::io(&target, &admin, 2, Digests::new()).await;
            let mut work = reader.begin(by_transport(read, 8 * 4096));
            let done = std::rc::Rc::new(std::cell::Cell::new(false));
            let (queue, is_done) = (reader.queue.clone(), done.clone());
            clock.spawn("read", async move {
                let cqe = queue.execute(&work.sqe, work.movement, &mut work.data).await.unwrap();
                assert!(cqe.status().is_success());
                is_done.set(true);
            });
            clock.timer(Delay::from_ms(10)).await;
            assert!(!done.get());
            // The connection that holds it is gone.
            io.queue.close();
            drop(io);
            clock.timer(Delay::from_ms(10)).await;
            assert!(done.get());
        },
    );
}

// Without this a host could take back nothing; or take back another's, as identifiers are each host's own.
#[test]
fn a_host_aborts_what_of_its_own_still_waits() {
    with_target(
        |config| config.host = HostLimits { commands_max: 1, ..HostLimits::default() },
        async |target, clock| {
            let admin_of = async |name: Option<&str>| {
                let name = name.map(|name| Nqn::new(name).unwrap().field());
                let mut admin = Host::initialized(&target, Digests::new());
                admin.connect(0, 0xFFFF, 32, |data| data.hostnqn = name.unwrap_or(data.hostnqn)).await;
                admin.configure(true).await;
                let id = admin.queue.controller().unwrap().id();
                let mut io = Host::initialized(&target, Digests::new());
                io.connect(1, id, 32, |data| data.hostnqn = name.unwrap_or(data.hostnqn)).await;
                (admin, io)
            };
            let ((mut admin, mut io), (mut other, _its)) =
                (admin_of(None).await, admin_of(Some(OTHER)).await);
            let read = ReadWrite { slba: 0, nlb_z: 7, ..ReadWrite::default() }.sqe(NvmOpcode::READ, 0, 2);
            // Three that go one after another, as the host may have one at a time.
            let ends: Vec<Rc<Cell<Option<Status>>>> = (0..3).map(|_| Rc::default()).collect();
            let mut cids = Vec::new();
            for end in &ends {
                let mut work = io.begin(by_transport(read, 8 * 4096));
                cids.push(work.sqe.cid());
                let (queue, end) = (io.queue.clone(), end.clone());
                clock.spawn("read", async move {
                    let cqe = queue.execute(&work.sqe, work.movement, &mut work.data).await.unwrap();
                    end.set(Some(cqe.status()));
                });
            }
            clock.yield_now().await;
            let abort = |sqid: u16, cid: u16| Abort { sqid, cid }.sqe(0);
            let answer = async |host: &mut Host, sqid, cid| host.ask(abort(sqid, cid), &[]).await.cqe.dw0;
            // Another host's of the same name; another queue's; one that is at the drive; one that waits, twice.
            assert_eq!(answer(&mut other, 1, cids[1]).await, Abort::NOT_ABORTED);
            assert_eq!(answer(&mut admin, 2, cids[1]).await, Abort::NOT_ABORTED);
            assert_eq!(answer(&mut admin, 1, cids[0]).await, Abort::NOT_ABORTED);
            assert_eq!(answer(&mut admin, 1, cids[1]).await, 0);
            assert_eq!(answer(&mut admin, 1, cids[1]).await, Abort::NOT_ABORTED);
            clock.timer(Delay::from_ms(10)).await;
            let ends: Vec<Option<Status>> = ends.iter().map(|end| end.get()).collect();
            assert_eq!(ends, [Some(Status::SUCCESS), Some(Status::ABORT_REQUESTED), Some(Status::SUCCESS)]);
            assert_eq!(answer(&mut admin, 1, cids[2]).await, Abort::NOT_ABORTED);
        },
    );
}
