//! Limits of one host, which reserve resources for others.

use crate::authentication::credentials;
use crate::host::{HOST, Host, by_transport, with_credentials, with_target};
use byteway_clock::Delay;
use byteway_clock::random::Rng;
use byteway_nvmeof::{Ended, HostLimits, UnauthenticatedLimits};
use byteway_wire::fabrics::Disconnect;
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::status::CONTROLLER_BUSY;
use byteway_wire::fabrics::tcp::{CapsuleCmd, Digests, H2cData, Pdu};
use byteway_wire::nvme::{Abort, KeepAlive, NvmOpcode, ReadWrite, SetFeatures, Sqe, Status, fid};
use std::cell::Cell;
use std::rc::Rc;

const OTHER: &str = "nqn.2026-11.org.byteway:other-host";

fn write(lba: u64, blocks: u16) -> Sqe {
    let sqe = ReadWrite { slba: lba, nlb_z: blocks - 1, ..ReadWrite::default() }.sqe(NvmOpcode::WRITE, 0, 2);
    by_transport(sqe, u32::from(blocks) * 4096)
}

// A host that connects repeatedly without disconnecting would lock others out.
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
            // Another Host Identifier or another NQN is another host.
            let mut same = Host::initialized(&target, Digests::new());
            let connected = same.connect(0, 0xFFFF, 32, |data| data.hostid = [9; 16]).await.cqe.status();
            assert_eq!(connected, Status::SUCCESS);
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

// Two machines may have the same NQN, after copying a disk: neither may access or end the other's controller.
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

// Data buffers are the target's memory: a host that announces data without sending it must not use all of it.
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

            // Another host has its own credit.
            let name = Nqn::new(OTHER).unwrap().field();
            let mut other = Host::initialized(&target, Digests::new());
            other.connect(0, 0xFFFF, 32, |data| data.hostnqn = name).await;
            other.configure(true).await;
            let id = other.queue.controller().unwrap().id();
            let mut its = Host::initialized(&target, Digests::new());
            its.connect(1, id, 32, |data| data.hostnqn = name).await;
            assert_eq!(its.ask(write(100, 8), &[1; 8 * 4096]).await.cqe.status(), Status::SUCCESS);

            // A completed command frees credit for the next.
            io.say(&Pdu::H2cData(H2cData::new(900, first.ttag, 0, 8 * 4096, true)), &[1; 8 * 4096]).unwrap();
            let credit = io.connection.credit();
            io.serve().await;
            let credit = credit.await;
            io.connection.grant(credit);
            let heard = io.hear();
            let [Pdu::CapsuleResp(response), Pdu::R2t(next)] = heard[..] else { panic!("{heard:?}") };
            assert_eq!((response.cqe.cid, next.cccid), (900, 902));

            // A read of the same host waits until then, but not indefinitely.
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
            // The connection that holds the credit is gone.
            io.queue.close();
            drop(io);
            clock.timer(Delay::from_ms(10)).await;
            assert!(done.get());
        },
    );
}

// Without this a host could not abort a command; or could abort another host's, because identifiers are
// chosen by each host.
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
            // Three that run one after another, because the host may have one at a time.
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
            // A command of another host with the same identifier; of another queue; one at the drive; a
            // waiting one, twice.
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

fn read(lba: u64, blocks: u16) -> Sqe {
    let sqe = ReadWrite { slba: lba, nlb_z: blocks - 1, ..ReadWrite::default() }.sqe(NvmOpcode::READ, 0, 2);
    by_transport(sqe, u32::from(blocks) * 4096)
}

// If the limit covered execution only, data read for a host that does not receive would fill the target's
// memory.
#[test]
fn a_read_has_its_credit_until_its_data_is_sent() {
    with_target(
        |_| (),
        async |target, _| {
            let admin = Host::admin(&target).await;
            let mut io = Host::io(&target, &admin, 1, Digests::new()).await;
            let controller = admin.queue.controller().unwrap();
            let free = controller.free_credit().unwrap();
            let mut work = io.begin(read(0, 8));
            let cqe = work.execute(&io.queue).await;
            io.connection.finish(work, cqe);
            assert_eq!(controller.free_credit(), Some((free.0, free.1 - 32768)));
            io.connection.sent(100);
            assert_eq!(controller.free_credit(), Some((free.0, free.1 - 32768)));
            let rest = io.connection.unsent().len();
            io.connection.sent(rest);
            assert_eq!(controller.free_credit(), Some(free));
        },
    );
}

// Connections that are cut with reads, writes and R2Ts in any state would keep their host's credit, and its
// other connections would wait for it indefinitely.
#[test]
fn connections_that_are_cut_at_random_give_all_credit_back() {
    for seed in 0..40 {
        println!("seed {seed}");
        with_target(
            |config| {
                config.host = HostLimits { commands_max: 3, bytes_max: 96 << 10, ..HostLimits::default() };
            },
            async move |target, clock| {
                let admin = Host::admin(&target).await;
                let controller = admin.queue.controller().unwrap();
                let free = controller.free_credit().unwrap();
                let mut draws = Rng::new(seed).stream("cuts");
                let mut ios = Vec::new();
                for qid in 1..=6 {
                    ios.push(Host::io(&target, &admin, qid, Digests::new()).await);
                }
                let running = Rc::new(Cell::new(0));
                for _ in 0..120 {
                    let at = (draws.next_u64() % ios.len() as u64) as usize;
                    let io = &mut ios[at];
                    let blocks = 1 + (draws.next_u64() % 8) as u16;
                    match draws.next_u64() % 8 {
                        0 | 1 => send(io, write(0, blocks)),
                        2 | 3 => send(io, read(0, blocks)),
                        4 => {
                            for pdu in io.hear() {
                                let Pdu::R2t(request) = pdu else { continue };
                                let header = H2cData::new(request.cccid, request.ttag, 0, request.r2tl, true);
                                let data = vec![1; request.r2tl as usize];
                                if !draws.next_u64().is_multiple_of(4) {
                                    io.say(&Pdu::H2cData(header), &data).unwrap();
                                }
                            }
                        }
                        5 => {
                            // Its completions are not received: they are dropped with the connection.
                            while let Some(mut work) = io.connection.next_command() {
                                let (queue, running) = (io.queue.clone(), running.clone());
                                running.set(running.get() + 1);
                                clock.spawn("command", async move {
                                    let _ = work.execute(&queue).await;
                                    running.set(running.get() - 1);
                                });
                            }
                        }
                        6 => clock.timer(Delay::from_us(draws.next_u64() % 200)).await,
                        _ => {
                            io.queue.close();
                            io.connection.abandon(false);
                            let qid = at as u16 + 1;
                            ios[at] = Host::io(&target, &admin, qid, Digests::new()).await;
                        }
                    }
                }
                for io in &mut ios {
                    io.queue.close();
                    io.connection.abandon(false);
                }
                while running.get() > 0 {
                    clock.timer(Delay::from_us(10)).await;
                }
                assert_eq!(controller.free_credit(), Some(free));
            },
        );
    }
}

/// Sends a command, if its queue has a free entry.
fn send(io: &mut Host, sqe: Sqe) {
    let sqe = sqe.with_cid(io.next_cid());
    let _ = io.say(&Pdu::CapsuleCmd(CapsuleCmd::new(sqe)), &[]);
}

// A host that has disconnected a queue may reconnect its identifier at once (NVMe Base 2.1, 6.4).
#[test]
fn a_queue_is_deleted_with_the_completion_of_disconnect() {
    with_target(
        |_| (),
        async |target, _| {
            let admin = Host::admin(&target).await;
            let mut io = Host::io(&target, &admin, 1, Digests::new()).await;
            assert_eq!(io.ask(Disconnect::default().sqe(0), &[]).await.cqe.status(), Status::SUCCESS);
            let mut next = Host::io(&target, &admin, 1, Digests::new()).await;
            // The end of the first connection does not end the second.
            io.queue.close();
            assert_eq!(next.ask(read(0, 1), &[]).await.cqe.status(), Status::SUCCESS);
            // NVMe Base 2.1, 5.1.25.1.5
            let queues =
                SetFeatures { fid: fid::NUMBER_OF_QUEUES, cdw11: 0x1_0001, ..SetFeatures::default() };
            let mut admin = admin;
            let refused = admin.ask(queues.sqe(0, 0), &[]).await.cqe.status();
            assert!(refused.is(Status::COMMAND_SEQUENCE_ERROR), "{refused}");
            next.queue.close();
            assert_eq!(admin.ask(queues.sqe(0, 0), &[]).await.cqe.status(), Status::SUCCESS);
        },
    );
}

// Without a keep-alive timeout, a controller that is never enabled would be kept indefinitely.
#[test]
fn a_controller_that_is_left_unused_ends() {
    with_target(
        |_| (),
        async |target, clock| {
            let mut host = Host::initialized(&target, Digests::new());
            assert_eq!(host.connect(0, 0xFFFF, 32, |_| ()).await.cqe.status(), Status::SUCCESS);
            let unused = host.queue.controller().unwrap();
            let mut other = Host::admin(&target).await;
            let used = other.queue.controller().unwrap();
            for _ in 0..125 {
                clock.timer(Delay::from_s(1)).await;
                host.ask(KeepAlive.sqe(0), &[]).await; // counts as activity, and is refused
                assert!(other.ask(KeepAlive.sqe(0), &[]).await.cqe.status().is_success());
            }
            assert_eq!(unused.ended(), Some(Ended::Unused));
            assert_eq!(used.ended(), None);
        },
    );
}

// A host's name and identifier are free: without a limit of all unauthenticated hosts together, one machine with many names would
// take every place, also of hosts that authenticate.
#[test]
fn unauthenticated_hosts_leave_places_to_those_that_authenticate() {
    with_credentials(credentials(), async |target, _| {
        let name = Nqn::new(OTHER).unwrap().field();
        let mut strangers = Vec::new();
        let refused = loop {
            let mut host = Host::initialized(&target, Digests::new());
            let id = [strangers.len() as u8; 16];
            let connected = host.connect(0, 0xFFFF, 32, |data| {
                data.hostnqn = name;
                data.hostid = id;
            });
            match connected.await.cqe.status() {
                Status::SUCCESS => strangers.push(host),
                status => break status,
            }
        };
        assert!(refused.is(CONTROLLER_BUSY), "{refused}");
        assert_eq!(strangers.len(), 48);
        let mut known = Host::initialized(&target, Digests::new());
        assert_eq!(known.connect(0, 0xFFFF, 32, |_| ()).await.cqe.status(), Status::SUCCESS);
    });
}

// Without this thirty hosts would have the target hold thirty times what one may.
#[test]
fn unauthenticated_hosts_share_memory_and_queues() {
    with_target(
        |config| {
            config.unauthenticated =
                UnauthenticatedLimits { bytes_max: 64 << 10, io_queues_max: 2, ..config.unauthenticated };
        },
        async |target, _| {
            let mut queues = Vec::new();
            for id in 1..=3 {
                let mut admin = Host::initialized(&target, Digests::new());
                let connected = admin.connect(0, 0xFFFF, 32, |data| data.hostid = [id; 16]).await;
                assert_eq!(connected.cqe.status(), Status::SUCCESS);
                admin.configure(true).await;
                let cntlid = admin.queue.controller().unwrap().id();
                let mut io = Host::initialized(&target, Digests::new());
                let connected = io.connect(1, cntlid, 32, |data| data.hostid = [id; 16]).await;
                match id {
                    3 => assert!(connected.cqe.status().is(CONTROLLER_BUSY)),
                    _ => assert_eq!(connected.cqe.status(), Status::SUCCESS),
                }
                queues.push((admin, io));
            }
            let (first, others) = queues.split_first_mut().unwrap();
            for cid in 900..902 {
                let sqe = write(u64::from(cid - 900) * 8, 8).with_cid(cid);
                first.1.say(&Pdu::CapsuleCmd(CapsuleCmd::new(sqe)), &[]).unwrap();
            }
            assert_eq!(first.1.hear().len(), 2, "both are asked for");
            let second = &mut others[0].1;
            let sqe = write(100, 8).with_cid(900);
            second.say(&Pdu::CapsuleCmd(CapsuleCmd::new(sqe)), &[]).unwrap();
            assert!(second.hear().is_empty() && second.connection.waits_for_credit());
            let credit = second.connection.credit();
            first.1.connection.abandon(false);
            let credit = credit.await;
            second.connection.grant(credit);
            assert!(matches!(second.hear()[..], [Pdu::R2t(_)]));
        },
    );
}
