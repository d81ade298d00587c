//! Changes of namespaces and paths while hosts are connected, and their events.

use crate::discovery::configure_events;
use crate::host::{Host, SUBSYSTEM, by_transport, with_target};
use byteway_clock::{Clock, Delay};
use byteway_host::{Data, Driver, DriverConfig, Port};
use byteway_link::Memory;
use byteway_nvmeof::tcp::ConnectionError;
use byteway_nvmeof::{Path, PathConfig, QueueViolation, Reached, Subsystem, SubsystemConfig, Target};
use byteway_testkit::SmallWorld;
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::tcp::{CapsuleCmd, Digests, H2cData, Pdu};
use byteway_wire::nvme::ana::{AnaGroupDescriptor, AnaLogHeader};
use byteway_wire::nvme::feature::{AsyncEvent, AsyncEventConfig, fid};
use byteway_wire::nvme::{
    AnaState, AsyncEventRequest, Cns, ControllerList, Cqe, FormatNvm, GetFeatures, GetLogPage, Identify,
    IdentifyController, IdentifyNamespace, NSID_ALL, NamespaceAttachment, NamespaceManagement, NvmOpcode,
    ReadWrite, Sqe, Status, lid,
};
use byteway_wire::{FromBytes, IntoBytes};
use std::cell::RefCell;
use std::rc::Rc;

/// Events that a host received.
type Told = Rc<RefCell<Vec<AsyncEvent>>>;

/// Enables all events, and submits `requests` Asynchronous Event Requests.
async fn listen(host: &mut Host, clock: &Clock, requests: usize) -> Told {
    let wanted = AsyncEventConfig::new().with_namespace_attribute(true).with_ana_change(true);
    assert!(host.ask(configure_events(wanted), &[]).await.cqe.status().is_success());
    let told = Told::default();
    for _ in 0..requests {
        let mut work = host.begin(AsyncEventRequest.sqe(0));
        let (queue, told) = (host.queue.clone(), told.clone());
        clock.spawn("event request", async move {
            if let Some(cqe) = queue.execute(&work.sqe, work.movement, &mut work.data).await {
                queue.end(&work.sqe, cqe);
                told.borrow_mut().push(AsyncEvent::from_dw0(cqe.dw0));
            }
        });
    }
    settle(clock).await;
    told
}

async fn settle(clock: &Clock) {
    clock.timer(Delay::from_ms(1)).await;
}

async fn log(host: &mut Host, lid: u8, bytes: u32, rae: bool) -> Vec<u8> {
    let command = GetLogPage { lid, rae, numd_z: bytes / 4 - 1, ..GetLogPage::default() };
    let answer = host.ask(by_transport(command.sqe(0, NSID_ALL), bytes), &[]).await;
    assert_eq!(answer.cqe.status(), Status::SUCCESS);
    answer.data
}

async fn changed(host: &mut Host) -> Vec<u32> {
    let data = log(host, lid::CHANGED_NAMESPACE_LIST, 4096, false).await;
    let nsids = data.chunks_exact(4).map(|nsid| u32::from_le_bytes(nsid.try_into().unwrap()));
    nsids.take_while(|nsid| *nsid > 0).collect()
}

/// Creates a namespace with this number of blocks and format.
async fn create(host: &mut Host, blocks: u64, format: u8) -> Cqe {
    let wanted = IdentifyNamespace {
        nsze: blocks,
        ncap: blocks,
        flbas: format,
        nmic: 1,
        anagrpid: 1,
        ..Default::default()
    };
    let sqe = NamespaceManagement { sel: NamespaceManagement::CREATE, csi: 0 }.sqe(0, 0);
    host.ask(by_transport(sqe, 4096), wanted.as_bytes()).await.cqe
}

async fn delete(host: &mut Host, nsid: u32) -> Status {
    let sqe = NamespaceManagement { sel: NamespaceManagement::DELETE, csi: 0 }.sqe(0, nsid);
    host.ask(sqe, &[]).await.cqe.status()
}

async fn attach(host: &mut Host, nsid: u32, sel: u8, controllers: &[u16]) -> Status {
    let list = ControllerList::from(0, controllers.iter().copied());
    let sqe = by_transport(NamespaceAttachment { sel }.sqe(0, nsid), 4096);
    host.ask(sqe, list.as_bytes()).await.cqe.status()
}

fn write(nsid: u32) -> Sqe {
    ReadWrite { slba: 0, ..ReadWrite::default() }.sqe(NvmOpcode::WRITE, 0, nsid)
}

fn id_of(host: &Host) -> u16 {
    host.queue.controller().unwrap().id()
}

// Without events a host would continue to use a deleted namespace, and never find a new one.
#[test]
fn hosts_learn_of_namespaces_that_come_and_go() {
    with_target(
        |config| config.may_manage = true,
        async |target, clock| {
            let (mut one, mut other) = (Host::admin(&target).await, Host::admin(&target).await);
            let told = listen(&mut other, &clock, 4).await;
            assert_eq!(delete(&mut one, 1).await, Status::SUCCESS);
            settle(&clock).await;
            assert_eq!(*told.borrow(), [AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED]);
            assert_eq!(changed(&mut other).await, [1]);
            assert_eq!(changed(&mut other).await, []);

            // A new namespace is inactive until it is attached; then every host has it.
            let created = create(&mut one, 100, 1).await;
            assert_eq!((created.status(), created.dw0), (Status::SUCCESS, 1));
            settle(&clock).await;
            assert_eq!(told.borrow().len(), 1);
            let mut io = Host::io(&target, &other, 1, Digests::new()).await;
            assert!(
                io.ask(by_transport(write(1), 4096), &[1; 4096]).await.cqe.status().is(Status::INVALID_FIELD)
            );
            let both = [id_of(&one), id_of(&other)];
            assert_eq!(attach(&mut one, 1, NamespaceAttachment::ATTACH, &both).await, Status::SUCCESS);
            settle(&clock).await;
            assert_eq!(told.borrow().len(), 2);
            assert_eq!(changed(&mut other).await, [1]);
            assert_eq!(io.ask(by_transport(write(1), 4096), &[1; 4096]).await.cqe.status(), Status::SUCCESS);
            let identify = Identify { cns: Cns::NAMESPACE_CONTROLLERS, ..Identify::default() }.sqe(0, 1);
            let data = other.ask(by_transport(identify, 4096), &[]).await.data;
            assert_eq!(ControllerList::read_from_bytes(&data[..]).unwrap().ids(), Some(&both[..]));
            // A read with Retain Asynchronous Event keeps list and event.
            assert_eq!(attach(&mut one, 1, NamespaceAttachment::DETACH, &both[..1]).await, Status::SUCCESS);
            settle(&clock).await;
            let list = log(&mut other, lid::CHANGED_NAMESPACE_LIST, 4096, true).await;
            assert_eq!((list[0], changed(&mut other).await), (1, vec![1]));
            assert_eq!(told.borrow().len(), 3);
            // A list without any of these controllers.
            for list in [&[][..], &[77], &[id_of(&one), 77]] {
                let status = attach(&mut one, 1, NamespaceAttachment::ATTACH, list).await;
                assert!(status.is(Status::CONTROLLER_LIST_INVALID), "{list:?}");
            }
            other.queue.close();
        },
    );
}

// One host must not change the namespaces of all.
#[test]
fn namespaces_are_managed_only_where_that_is_allowed() {
    with_target(
        |_| (),
        async |target, _| {
            let mut host = Host::admin(&target).await;
            let id = id_of(&host);
            assert!(delete(&mut host, 1).await.is(Status::INVALID_OPCODE));
            let sqe = NamespaceManagement { sel: NamespaceManagement::CREATE, csi: 0 }.sqe(0, 0);
            assert!(host.ask(sqe, &[]).await.cqe.status().is(Status::INVALID_OPCODE));
            let sqe = NamespaceAttachment { sel: NamespaceAttachment::DETACH }.sqe(0, 1);
            assert!(host.ask(sqe, &[]).await.cqe.status().is(Status::INVALID_OPCODE));
            assert_eq!(target.subsystems()[0].path().nsids(), [1, 2]);
            assert_eq!(id, 1);
        },
    );
}

// A command is checked against its namespace's format: if the format changes before its data arrives, it must
// not access the drive's buffer out of bounds.
#[test]
fn a_namespace_that_becomes_another_ends_what_was_measured_by_it() {
    with_target(
        |config| config.may_manage = true,
        async |target, _| {
            let mut admin = Host::admin(&target).await;
            let mut io = Host::io(&target, &admin, 1, Digests::new()).await;
            // In blocks of 512 bytes, the present format.
            let sqe = by_transport(write(1), 512).with_cid(900);
            io.say(&Pdu::CapsuleCmd(CapsuleCmd::new(sqe)), &[]).unwrap();
            let [Pdu::R2t(request)] = io.hear()[..] else { panic!("no R2T") };
            assert_eq!(delete(&mut admin, 1).await, Status::SUCCESS);
            assert_eq!(create(&mut admin, 100, 1).await.dw0, 1);
            let id = id_of(&admin);
            assert_eq!(attach(&mut admin, 1, NamespaceAttachment::ATTACH, &[id]).await, Status::SUCCESS);
            io.say(&Pdu::H2cData(H2cData::new(900, request.ttag, 0, 512, true)), &[1; 512]).unwrap();
            io.serve().await;
            let [Pdu::CapsuleResp(response)] = io.hear()[..] else { panic!("no completion") };
            assert!(response.cqe.status().is(Status::COMMAND_INTERRUPTED), "{}", response.cqe.status());
        },
    );
}

fn at(port: u16) -> Reached {
    Reached { port, ..Reached::default() }
}

async fn state_in_log(host: &mut Host, target: &Rc<Target>) -> AnaState {
    let page = log(host, lid::ANA, 4096, false).await;
    let (header, rest) = AnaLogHeader::read_from_prefix(&page).unwrap();
    let (group, rest) = AnaGroupDescriptor::read_from_prefix(rest).unwrap();
    assert_eq!((header.ngrps, header.chgcnt, group.grpid), (1, group.chgcnt, 1));
    let nsids = rest.chunks_exact(4).take(group.nnsids as usize);
    let nsids: Vec<u32> = nsids.map(|nsid| u32::from_le_bytes(nsid.try_into().unwrap())).collect();
    assert_eq!(nsids, target.subsystems()[0].path().nsids());
    group.state
}

// Two paths to one drive, each of which reports its ANA state and changes of it.
#[test]
fn each_port_has_a_state_that_its_hosts_learn_and_that_commands_obey() {
    with_target(
        |_| (),
        async |target, clock| {
            let subsystem = target.subsystems()[0].clone();
            let ports = subsystem.config().ports.clone();
            let mut first = Host::admin_at(&target, at(1)).await;
            let mut second = Host::admin_at(&target, at(2)).await;
            let identify = Identify { cns: Cns::CONTROLLER, ..Identify::default() }.sqe(0, 0);
            let data = first.ask(by_transport(identify, 4096), &[]).await.data;
            let identity = IdentifyController::read_from_bytes(&data[..]).unwrap();
            assert_eq!(
                (identity.cmic, identity.anacap, identity.anagrpmax, identity.nanagrpid),
                (0b1011, 0x5F, 1, 1)
            );
            assert_eq!(identity.oaes, 1 << 8 | 1 << 11);
            assert!((1..=identity.nn).contains(&identity.mnan), "Linux refuses others");
            let identify = Identify { cns: Cns::NAMESPACE, ..Identify::default() }.sqe(0, 2);
            let data = first.ask(by_transport(identify, 4096), &[]).await.data;
            let namespace = IdentifyNamespace::read_from_bytes(&data[..]).unwrap();
            assert_eq!((namespace.anagrpid, namespace.nmic & 1), (1, 1));

            let told = [listen(&mut first, &clock, 3).await, listen(&mut second, &clock, 3).await];
            let mut ios = [
                Host::io(&target, &first, 1, Digests::new()).await,
                Host::io(&target, &second, 1, Digests::new()).await,
            ];
            let states = [
                (AnaState::NON_OPTIMIZED, Status::SUCCESS),
                (AnaState::INACCESSIBLE, Status::ANA_INACCESSIBLE),
                (AnaState::CHANGE, Status::ANA_TRANSITION),
                (AnaState::PERSISTENT_LOSS, Status::ANA_PERSISTENT_LOSS),
                (AnaState::OPTIMIZED, Status::SUCCESS),
            ];
            for (number, (state, expected)) in states.into_iter().enumerate() {
                ports.set(2, state);
                subsystem.ports_changed();
                settle(&clock).await;
                assert_eq!((told[0].borrow().len(), told[1].borrow().len()), (0, (number + 1).min(3)));
                assert_eq!(state_in_log(&mut first, &target).await, AnaState::OPTIMIZED);
                assert_eq!(state_in_log(&mut second, &target).await, state);
                let sqe = by_transport(write(2), 4096);
                assert_eq!(ios[0].ask(sqe, &[1; 4096]).await.cqe.status(), Status::SUCCESS);
                assert_eq!(ios[1].ask(sqe, &[1; 4096]).await.cqe.status(), expected, "{}", state.name());
                // Admin commands continue.
                let identify = by_transport(Identify::default().sqe(0, 2), 4096);
                assert_eq!(second.ask(identify, &[]).await.cqe.status(), Status::SUCCESS);
            }
            assert!(told[1].borrow().iter().all(|event| *event == AsyncEvent::ANA_CHANGE));
            // A command whose data arrives later is executed with the state at that time.
            let sqe = by_transport(write(2), 4096).with_cid(900);
            ios[1].say(&Pdu::CapsuleCmd(CapsuleCmd::new(sqe)), &[]).unwrap();
            let [Pdu::R2t(request)] = ios[1].hear()[..] else { panic!("no R2T") };
            ports.set(2, AnaState::INACCESSIBLE);
            subsystem.ports_changed();
            ios[1].say(&Pdu::H2cData(H2cData::new(900, request.ttag, 0, 4096, true)), &[1; 4096]).unwrap();
            ios[1].serve().await;
            let [Pdu::CapsuleResp(response)] = ios[1].hear()[..] else { panic!("no completion") };
            assert_eq!(response.cqe.status(), Status::ANA_INACCESSIBLE);
            first.queue.close();
            second.queue.close();
        },
    );
}

// Common initiators abandon their event requests before they shut a controller down, and reuse the
// identifiers, as do all hosts after a reset. Any other identifier in use twice ends the connection.
#[test]
fn identifiers_of_event_requests_can_be_used_again() {
    with_target(
        |_| (),
        async |target, clock| {
            let mut host = Host::admin(&target).await;
            let ended = Rc::new(RefCell::new(Vec::new()));
            let hold = |host: &mut Host, cid: u16| {
                host.say(&Pdu::CapsuleCmd(CapsuleCmd::new(AsyncEventRequest.sqe(cid))), &[]).unwrap();
                let mut work = host.connection.next_command().unwrap();
                let (queue, ended) = (host.queue.clone(), ended.clone());
                clock.spawn("event request", async move {
                    let cqe = queue.execute(&work.sqe, work.movement, &mut work.data).await;
                    if cqe.is_none() {
                        queue.forget(&work.sqe);
                    }
                    ended.borrow_mut().push((cid, cqe.is_some()));
                });
            };
            for cid in [700, 701, 702] {
                hold(&mut host, cid);
            }
            settle(&clock).await;
            // By another command, and by another request.
            let get = |cid| GetFeatures { fid: fid::NUMBER_OF_QUEUES, ..GetFeatures::default() }.sqe(cid, 0);
            host.say(&Pdu::CapsuleCmd(CapsuleCmd::new(get(700))), &[]).unwrap();
            let _executing = host.connection.next_command().unwrap();
            hold(&mut host, 701);
            settle(&clock).await;
            assert_eq!(*ended.borrow(), [(700, false), (701, false)]);
            // The command in execution is not an event request.
            let twice = host.say(&Pdu::CapsuleCmd(CapsuleCmd::new(get(700))), &[]);
            assert!(
                matches!(twice, Err(ConnectionError::Violation(QueueViolation::Identifier(700)))),
                "{twice:?}"
            );
            ended.borrow_mut().clear();
            host.configure(false).await;
            host.configure(true).await;
            settle(&clock).await;
            ended.borrow_mut().sort_unstable();
            assert_eq!(*ended.borrow(), [(701, false), (702, false)]);
            for cid in [701, 702] {
                hold(&mut host, cid);
            }
            assert!(host.ask(get(0), &[]).await.cqe.status().is_success());
        },
    );
}

// The drive has a second port, whose host formats namespaces that the target's hosts use: they are notified,
// none of their commands moves data with the wrong length, and each finds the new format.
#[test]
fn what_a_host_at_another_port_changes_the_hosts_are_told() {
    SmallWorld::default().run(async |powered| {
        let second = powered.add_port(byteway_testkit::link_config(), Memory::simulated()).unwrap();
        let guest = Driver::attach(Port::Link(powered.host.clone()), DriverConfig::default()).await.unwrap();
        let clock = guest.clock().clone();
        let driver = Driver::attach(Port::Link(second.host.clone()), DriverConfig::default()).await.unwrap();
        assert_eq!((guest.identity().cntlid, driver.identity().cntlid), (1, 2));
        let path = Path::open(driver, PathConfig::default()).await.unwrap();
        let mut config = SubsystemConfig::new(Nqn::new(SUBSYSTEM).unwrap());
        config.may_manage = true;
        let target = Target::new(vec![Subsystem::new(&clock, config, path)]);
        settle(&clock).await;

        let mut admin = Host::admin(&target).await;
        assert!(id_of(&admin) >= 3, "the drive's own controllers are of the same subsystem");
        let told = listen(&mut admin, &clock, 2).await;
        let mut io = Host::io(&target, &admin, 1, Digests::new()).await;
        let bytes = target.subsystems()[0].path().driver().namespaces()[0].block_bytes;
        assert_eq!(bytes, 512);
        // A command checked with 512-byte blocks is in flight when the blocks become larger.
        let sqe = by_transport(write(1), 512).with_cid(900);
        io.say(&Pdu::CapsuleCmd(CapsuleCmd::new(sqe)), &[]).unwrap();
        let [Pdu::R2t(request)] = io.hear()[..] else { panic!("no R2T") };
        let format = FormatNvm { lbaf: 1, ..FormatNvm::default() }.sqe(0, 1);
        assert!(guest.admin(format, Data::None).await.unwrap().status().is_success());
        io.say(&Pdu::H2cData(H2cData::new(900, request.ttag, 0, 512, true)), &[1; 512]).unwrap();
        io.serve().await;
        let [Pdu::CapsuleResp(response)] = io.hear()[..] else { panic!("no completion") };
        let status = response.cqe.status();
        assert!(status.is(Status::NAMESPACE_NOT_READY) || status.is(Status::COMMAND_INTERRUPTED), "{status}");
        settle(&clock).await;
        assert_eq!(told.borrow()[..], [AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED]);
        assert_eq!(changed(&mut admin).await, [1]);
        assert_eq!(target.subsystems()[0].path().driver().namespaces()[0].block_bytes, 4096);
        let wrote = io.ask(by_transport(write(1), 4096), &[1; 4096]).await;
        assert_eq!(wrote.cqe.status(), Status::SUCCESS);
        // A deleted namespace is gone for all.
        let delete = NamespaceManagement { sel: NamespaceManagement::DELETE, csi: 0 }.sqe(0, 2);
        assert!(guest.admin(delete, Data::None).await.unwrap().status().is_success());
        settle(&clock).await;
        assert_eq!(changed(&mut admin).await, [2]);
        assert_eq!(told.borrow().len(), 2);
        assert_eq!(target.subsystems()[0].path().nsids(), [1]);
        // And in reverse: a namespace created by a remote host exists at the other port.
        assert_eq!(create(&mut admin, 100, 1).await.dw0, 2);
        let id = id_of(&admin);
        assert_eq!(attach(&mut admin, 2, NamespaceAttachment::ATTACH, &[id]).await, Status::SUCCESS);
        guest.refresh().await.unwrap();
        assert_eq!(guest.namespaces().iter().map(|it| it.nsid).collect::<Vec<_>>(), [1, 2]);
    });
}

// A host requests what the target lists: a listed page must exist, and any other must not.
#[test]
fn the_log_pages_that_are_listed_are_those_that_there_are() {
    with_target(
        |_| (),
        async |target, _| {
            let mut host = Host::admin(&target).await;
            let listed = log(&mut host, lid::SUPPORTED_LOG_PAGES, 1024, true).await;
            for (lid, supported) in (0..=u8::MAX).zip(listed.chunks_exact(4)) {
                let command = GetLogPage { lid, rae: true, numd_z: 1, ..GetLogPage::default() };
                let answer = host.ask(by_transport(command.sqe(0, NSID_ALL), 8), &[]).await;
                let is_refused = answer.cqe.status().is(Status::INVALID_LOG_PAGE);
                assert_eq!(supported[0] & 1 == 0, is_refused, "log page {lid:#04x}: {}", answer.cqe.status());
            }
        },
    );
}
