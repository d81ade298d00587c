//! Hosts that have to authenticate before anything else, on every queue; and those that cannot.

use crate::host::{
    Answer, HOST, Host, SUBSYSTEM, Seeded, by_transport, in_capsule, with_credentials, with_target,
};
use crate::simulated::connect;
use byteway_auth::{Algorithms, Credentials, Endpoint, HostSecrets, Login, LoginError};
use byteway_clock::{Clock, Delay};
use byteway_host::fabric::{Authenticator, ConnectError, Initiator, InitiatorConfig};
use byteway_host::{Completion, QueueConfig};
use byteway_host::{Driver, DriverConfig, Port};
use byteway_link::Memory;
use byteway_nvmeof::{Ended, Target};
use byteway_wire::fabrics::auth::{
    AuthReceive, AuthSend, DhGroup, Explanation, Failure, HashFunction, Message, SecurityProtocol,
};
use byteway_wire::fabrics::status::AUTHENTICATION_REQUIRED;
use byteway_wire::fabrics::tcp::{CapsuleCmd, Digests, Pdu};
use byteway_wire::fabrics::{Connected, Disconnect, Nqn, PropertyGet, PropertySet, PropertySize};
use byteway_wire::nvme::register::{CC, CSTS};
use byteway_wire::nvme::{Cns, Identify, KeepAlive, NvmOpcode, ReadWrite, Sqe, Status};
use std::collections::BTreeMap;
use std::rc::Rc;

pub const SECRET: &str = "DHHC-1:00:kB5HZf02d83q8TfG7qIsXq/AOmoa2TpvbckY1N4T0OzkawRL:";
const CONTROLLER_SECRET: &str = "DHHC-1:03:dzQSBllT/Tkvweui5X8a2obJvM2E4Fy5BfFEdyWZyq7jLUS/:";
pub const OTHER_SECRET: &str = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";
/// A host that has no secret.
const UNPROVED: &str = "nqn.2026-11.org.byteway:unproved";

pub fn secrets(host: &str, controller: Option<&str>) -> HostSecrets {
    HostSecrets { host: host.parse().unwrap(), controller: controller.map(|text| text.parse().unwrap()) }
}

/// Secrets of the one host, without Diffie-Hellman, which tests of the message order do not need.
pub fn credentials() -> Credentials {
    let algorithms = Algorithms { hashes: vec![HashFunction::Sha256], groups: vec![DhGroup::Null] };
    let hosts = BTreeMap::from([(Nqn::new(HOST).unwrap(), secrets(SECRET, Some(CONTROLLER_SECRET)))]);
    Credentials::new(algorithms, hosts)
}

fn login(secret: &str, controller: Option<&str>) -> Login {
    let endpoint = Rc::new(Endpoint::new(Algorithms::default(), Box::new(Seeded::new(2))));
    let names = (Nqn::new(HOST).unwrap(), Nqn::new(SUBSYSTEM).unwrap());
    Login::new(&endpoint, &secrets(secret, controller), names, 77)
}

fn send_command(bytes: usize) -> Sqe {
    let command = AuthSend { protocol: SecurityProtocol::NVME, transfer_bytes: bytes as u32 };
    in_capsule(command.sqe(0, Default::default()), bytes as u32)
}

fn receive_command(bytes: u32) -> Sqe {
    let command = AuthReceive { protocol: SecurityProtocol::NVME, allocation_bytes: bytes };
    by_transport(command.sqe(0, Default::default()), bytes)
}

pub async fn send(host: &mut Host, message: &[u8]) -> Status {
    host.ask(send_command(message.len()), message).await.cqe.status()
}

/// The controller's pending message for the host.
pub async fn receive(host: &mut Host) -> Vec<u8> {
    let Answer { cqe, data } = host.ask(receive_command(4096), &[]).await;
    assert_eq!((cqe.status(), data.len()), (Status::SUCCESS, 4096));
    data
}

/// The controller's failure explanation.
pub async fn refusal(host: &mut Host) -> Explanation {
    let message = receive(host).await;
    match Message::parse(&message) {
        Ok(Message::Failure1(failure)) => failure.explanation,
        other => panic!("{other:?}"),
    }
}

/// A connected queue.
async fn connected(target: &Rc<Target>, qid: u16, cntlid: u16) -> Host {
    let mut host = Host::initialized(target, Digests::new());
    let cqe = host.connect(qid, cntlid, 32, |_| ()).await.cqe;
    assert!(Connected::parse(&cqe).unwrap().requirements.atr());
    host
}

/// Authenticates a queue.
async fn authenticate(host: &mut Host, controller: Option<&str>) {
    let (mut login, was_established) = (login(SECRET, controller), host.queue.is_established());
    assert_eq!(send(host, &login.negotiate()).await, Status::SUCCESS);
    let reply = login.reply(&receive(host).await).await.unwrap();
    assert_eq!(send(host, &reply).await, Status::SUCCESS);
    if let Some(last) = login.conclude(&receive(host).await).unwrap() {
        assert_eq!(host.queue.is_established(), was_established);
        assert_eq!(send(host, &last).await, Status::SUCCESS);
    }
    assert!(host.queue.is_established());
}

/// An authenticated admin queue with an enabled controller.
pub async fn admin(target: &Rc<Target>) -> Host {
    let mut host = connected(target, 0, 0xFFFF).await;
    authenticate(&mut host, None).await;
    host.configure(true).await;
    host
}

pub async fn io(target: &Rc<Target>, admin: &Host, qid: u16) -> Host {
    let mut host = connected(target, qid, admin.queue.controller().unwrap().id()).await;
    authenticate(&mut host, Some(CONTROLLER_SECRET)).await;
    host
}

pub fn read() -> Sqe {
    by_transport(ReadWrite { nlb_z: 0, ..ReadWrite::default() }.sqe(NvmOpcode::READ, 0, 2), 4096)
}

/// Waits until the connection of a queue has to close.
async fn assert_over(host: &Host, why: Explanation) {
    host.queue.over().await;
    assert_eq!(host.queue.refusal(), Some(why));
    host.queue.close();
}

// No command before authentication may have an effect.
#[test]
fn nothing_but_authentication_is_done_before_it() {
    with_credentials(credentials(), async |target, _| {
        let mut host = connected(&target, 0, 0xFFFF).await;
        let identify = Identify { cns: Cns::CONTROLLER, ..Identify::default() }.sqe(0, 0);
        let commands = [
            PropertyGet { size: PropertySize::DWORD, offset: CSTS as u32 }.sqe(0),
            PropertySet { size: PropertySize::DWORD, offset: CC as u32, value: 0x46_0001 }.sqe(0),
            by_transport(identify, 4096),
            KeepAlive.sqe(0),
            Disconnect::default().sqe(0),
            Sqe::new(0xC1u8, 0, 1),
        ];
        let mut login = login(SECRET, None);
        for step in 0..4 {
            for command in commands {
                let status = host.ask(command, &[]).await.cqe.status();
                assert_eq!(status, AUTHENTICATION_REQUIRED.with_dnr(), "{step}: {:02X}h", command.opcode());
            }
            match step {
                0 => assert!(send(&mut host, &login.negotiate()).await.is_success()),
                1 => {
                    let reply = login.reply(&receive(&mut host).await).await.unwrap();
                    assert!(send(&mut host, &reply).await.is_success());
                }
                2 => assert_eq!(target.subsystems()[0].controllers().len(), 1),
                _ => assert!(login.conclude(&receive(&mut host).await).unwrap().is_none()),
            }
        }
        host.configure(true).await;
        let id = host.queue.controller().unwrap().id();
        let mut io = connected(&target, 1, id).await;
        assert_eq!(io.ask(read(), &[]).await.cqe.status(), AUTHENTICATION_REQUIRED.with_dnr());
        authenticate(&mut io, None).await;
        assert_eq!(io.ask(read(), &[]).await.cqe.status(), Status::SUCCESS);
    });
}

// A host that is listed without a secret continues to have access; one with a secret must not be able to skip
// authentication.
#[test]
fn only_hosts_with_a_secret_authenticate() {
    with_credentials(credentials(), async |target, _| {
        let mut host = Host::initialized(&target, Digests::new());
        let name = Nqn::new(UNPROVED).unwrap().field();
        let cqe = host.connect(0, 0xFFFF, 32, |data| data.hostnqn = name).await.cqe;
        assert!(!Connected::parse(&cqe).unwrap().requirements.atr() && host.queue.is_established());
        host.configure(true).await;
        assert!(send(&mut host, &login(SECRET, None).negotiate()).await.is(Status::INVALID_FIELD));
        let refused = host.ask(receive_command(4096), &[]).await.cqe.status();
        assert!(refused.is(Status::INVALID_FIELD));
    });
}

// A host that does not know the secret is disconnected, without an effect on others.
#[test]
fn a_wrong_secret_ends_its_own_connection() {
    with_credentials(credentials(), async |target, clock| {
        let mut good = admin(&target).await;
        let mut used = io(&target, &good, 1).await;
        let id = good.queue.controller().unwrap().id();
        for (qid, cntlid) in [(0, 0xFFFF), (2, id)] {
            for fetches in [true, false] {
                let mut bad = connected(&target, qid, cntlid).await;
                let mut login = login(OTHER_SECRET, None);
                send(&mut bad, &login.negotiate()).await;
                let reply = login.reply(&receive(&mut bad).await).await.unwrap();
                assert_eq!(send(&mut bad, &reply).await, Status::SUCCESS);
                // There is only one attempt.
                assert_eq!(send(&mut bad, &login.negotiate()).await, Status::SUCCESS);
                let begun = clock.now();
                match fetches {
                    true => assert_eq!(refusal(&mut bad).await, Explanation::FAILED),
                    false => clock.timer(Delay::from_ms(900)).await,
                }
                assert_over(&bad, Explanation::FAILED).await;
                assert!(clock.now().since(begun) <= Delay::from_s(1));
                assert_eq!(used.ask(read(), &[]).await.cqe.status(), Status::SUCCESS);
            }
        }
        assert!(good.ask(KeepAlive.sqe(0), &[]).await.cqe.status().is_success());
        assert_eq!(target.subsystems()[0].controllers().len(), 1);
    });
}

// The host controls the fields of the commands; invalid ones must change nothing, and allocate no memory.
#[test]
fn commands_with_wrong_fields_are_refused_and_change_nothing() {
    with_credentials(credentials(), async |target, _| {
        let mut host = connected(&target, 0, 0xFFFF).await;
        let negotiate = login(SECRET, None).negotiate();
        let (good, none) = (SecurityProtocol::NVME, Default::default());
        for protocol in [
            SecurityProtocol { secp: 0xEA, ..good },
            SecurityProtocol { spsp0: 0, ..good },
            SecurityProtocol { spsp1: 2, ..good },
        ] {
            let sqe = AuthSend { protocol, transfer_bytes: negotiate.len() as u32 }.sqe(0, none);
            let status = host.ask(in_capsule(sqe, negotiate.len() as u32), &negotiate).await.cqe.status();
            assert!(status.is(Status::INVALID_FIELD) && status.dnr(), "{status}");
            let sqe = AuthReceive { protocol, allocation_bytes: 4096 }.sqe(0, none);
            assert!(host.ask(by_transport(sqe, 4096), &[]).await.cqe.status().is(Status::INVALID_FIELD));
        }
        for bytes in [0, 4097, u32::MAX] {
            let sqe = AuthSend { protocol: good, transfer_bytes: bytes }.sqe(0, none);
            assert!(host.ask(by_transport(sqe, bytes), &[]).await.cqe.status().is(Status::INVALID_FIELD));
            let sqe = AuthReceive { protocol: good, allocation_bytes: bytes }.sqe(0, none);
            assert!(host.ask(by_transport(sqe, bytes), &[]).await.cqe.status().is(Status::INVALID_FIELD));
        }
        // The data pointer describes less than the command states, or more than is required.
        for given in [8, 100 << 10] {
            let sqe = AuthSend { protocol: good, transfer_bytes: 72 }.sqe(0, none);
            let status = host.ask(by_transport(sqe, given), &[]).await.cqe.status();
            assert!(status.is(Status::DATA_SGL_LENGTH_INVALID), "{status}");
        }
        // Without an effect; data may also be requested by R2T.
        let mut login = login(SECRET, None);
        let sqe = by_transport(send_command(negotiate.len()), negotiate.len() as u32);
        assert_eq!(host.ask(sqe, &negotiate).await.cqe.status(), Status::SUCCESS);
        // A challenge stays pending until the buffer is large enough.
        for bytes in [1, 47] {
            assert!(host.ask(receive_command(bytes), &[]).await.cqe.status().is(Status::INVALID_FIELD));
        }
        let challenge = host.ask(receive_command(48), &[]).await.data;
        let reply = login.reply(&challenge).await.unwrap();
        assert_eq!(send(&mut host, &reply).await, Status::SUCCESS);
        assert_eq!(login.conclude(&receive(&mut host).await), Ok(None));
        assert!(host.queue.is_established());
    });
}

// Each of these messages would grant access if it were mistaken for the expected one.
#[test]
fn what_is_out_of_order_ends_the_connection() {
    with_credentials(credentials(), async |target, _| {
        let success2 =
            Message::Success2(byteway_wire::fabrics::auth::Success2 { transaction: 77 }).to_bytes();
        for case in 0..6 {
            let mut host = connected(&target, 0, 0xFFFF).await;
            let mut login = login(SECRET, None);
            let mut expected = Explanation::INCORRECT_MESSAGE;
            match case {
                0 => {}
                1 => _ = send(&mut host, &success2).await,
                2 => {
                    send(&mut host, &login.negotiate()).await;
                    send(&mut host, &login.negotiate()).await;
                }
                3 => {
                    send(&mut host, &login.negotiate()).await;
                    receive(&mut host).await;
                    send(&mut host, &success2).await;
                }
                4 => {
                    send(&mut host, &login.negotiate()).await;
                    receive(&mut host).await; // and once more below
                }
                _ => {
                    send(&mut host, &login.negotiate()).await;
                    let reply = login.reply(&receive(&mut host).await).await.unwrap();
                    send(&mut host, &reply[..40]).await;
                    expected = Explanation::INCORRECT_PAYLOAD;
                }
            }
            assert_eq!(refusal(&mut host).await, expected, "{case}");
            assert!(!host.queue.is_established());
            // No further message is sent to it.
            assert!(send(&mut host, &login.negotiate()).await.is(Status::COMMAND_SEQUENCE_ERROR));
            let status = host.ask(receive_command(4096), &[]).await.cqe.status();
            assert!(status.is(Status::COMMAND_SEQUENCE_ERROR));
            assert_over(&host, expected).await;
        }
        assert!(target.controllers().is_empty());
    });
}

// A host that reports its own failure is disconnected at once.
#[test]
fn a_host_that_gives_up_is_let_go() {
    with_credentials(credentials(), async |target, _| {
        let mut host = connected(&target, 0, 0xFFFF).await;
        send(&mut host, &login(SECRET, None).negotiate()).await;
        receive(&mut host).await;
        let failure2 = Message::Failure2(Failure::new(77, Explanation::GROUP_NOT_USABLE)).to_bytes();
        assert_eq!(send(&mut host, &failure2).await, Status::SUCCESS);
        assert_over(&host, Explanation::GROUP_NOT_USABLE).await;
    });
}

// A challenge without a time limit gives an attacker time to find the response.
#[test]
fn a_transaction_that_is_not_continued_expires() {
    with_credentials(credentials(), async |target, clock| {
        // The keep-alive timeout is 5 s.
        let mut late = connected(&target, 0, 0xFFFF).await;
        let mut own = login(SECRET, None);
        send(&mut late, &own.negotiate()).await;
        let reply = own.reply(&receive(&mut late).await).await.unwrap();
        clock.timer(Delay::from_ms(5500)).await;
        for _ in 0..3 {
            assert!(send(&mut late, &reply).await.is(Status::COMMAND_SEQUENCE_ERROR));
            let status = late.ask(receive_command(4096), &[]).await.cqe.status();
            assert!(status.is(Status::COMMAND_SEQUENCE_ERROR));
        }
        assert_over(&late, Explanation::FAILED).await;

        // An authenticated host stays authenticated.
        let mut host = admin(&target).await;
        let mut own = login(SECRET, None);
        assert!(send(&mut host, &own.negotiate()).await.is_success());
        let reply = own.reply(&receive(&mut host).await).await.unwrap();
        for _ in 0..3 {
            clock.timer(Delay::from_s(2)).await;
            assert!(host.ask(KeepAlive.sqe(0), &[]).await.cqe.status().is_success());
        }
        assert!(send(&mut host, &reply).await.is(Status::COMMAND_SEQUENCE_ERROR));
        let nothing = host.ask(receive_command(4096), &[]).await.cqe.status();
        assert!(nothing.is(Status::COMMAND_SEQUENCE_ERROR));
        assert!(host.queue.is_established());
        authenticate(&mut host, Some(CONTROLLER_SECRET)).await;
    });
}

// A host may reauthenticate at any time. It continues to have access until that fails.
#[test]
fn a_further_authentication_keeps_the_association_unless_it_fails() {
    with_credentials(credentials(), async |target, _| {
        let mut host = admin(&target).await;
        let mut used = io(&target, &host, 1).await;
        let mut login = login(SECRET, None);
        send(&mut host, &login.negotiate()).await;
        let challenge = receive(&mut host).await;
        assert!(host.ask(KeepAlive.sqe(0), &[]).await.cqe.status().is_success());
        assert_eq!(used.ask(read(), &[]).await.cqe.status(), Status::SUCCESS);
        send(&mut host, &login.reply(&challenge).await.unwrap()).await;
        assert_eq!(login.conclude(&receive(&mut host).await), Ok(None));
        authenticate_again_wrongly(&mut used).await;
        assert_over(&used, Explanation::FAILED).await;
        let controller = host.queue.controller().unwrap();
        assert_eq!(controller.ended(), Some(Ended::Unauthenticated));
        host.queue.over().await;
        assert_eq!(host.queue.refusal(), None);
    });
}

async fn authenticate_again_wrongly(host: &mut Host) {
    let mut login = login(OTHER_SECRET, None);
    send(host, &login.negotiate()).await;
    let reply = login.reply(&receive(host).await).await.unwrap();
    send(host, &reply).await;
    assert!(host.queue.is_established());
    assert_eq!(refusal(host).await, Explanation::FAILED);
    assert!(!host.queue.is_established());
}

// Concurrent commands are executed one after another: none finds the transaction half done.
#[test]
fn commands_that_come_at_once_have_their_turns() {
    with_credentials(credentials(), async |target, clock| {
        let mut host = connected(&target, 0, 0xFFFF).await;
        let negotiate = login(SECRET, None).negotiate();
        let sends = (900..910).map(|cid| (send_command(negotiate.len()).with_cid(cid), &negotiate[..]));
        let receives = (910..920).map(|cid| (receive_command(4096).with_cid(cid), &[][..]));
        for (sqe, data) in sends.chain(receives) {
            host.say(&Pdu::CapsuleCmd(CapsuleCmd::new(sqe)), data).unwrap();
        }
        while let Some(mut work) = host.connection.next_command() {
            let queue = host.queue.clone();
            clock.spawn("command", async move {
                let cqe = queue.execute(&work.sqe, work.movement, &mut work.data).await.unwrap();
                // A second negotiation ends the transaction, which one of the others reports.
                let fails = cqe.status().is(Status::COMMAND_SEQUENCE_ERROR);
                assert!(cqe.status().is_success() || work.sqe.cid() > 910 && fails, "{}", work.sqe.cid());
            });
        }
        clock.timer(Delay::from_ms(1)).await;
        assert_over(&host, Explanation::INCORRECT_MESSAGE).await;
    });
}

/// An association of our initiator with these secrets.
async fn initiator(
    target: &Rc<Target>,
    clock: &Clock,
    own: Option<HostSecrets>,
) -> Result<Rc<Initiator>, ConnectError> {
    let (adapter, _served) = connect(target, clock, 1);
    let endpoint = Rc::new(Endpoint::new(Algorithms::default(), Box::new(Seeded::new(3))));
    let config = InitiatorConfig {
        subsystem: Nqn::new(SUBSYSTEM).unwrap(),
        host: Nqn::new(HOST).unwrap(),
        host_id: [7; 16],
        admin_entries: 32,
        in_capsule_bytes: 4096,
        authenticator: own.map(|secrets| Authenticator { secrets, endpoint, concatenates: false }),
        timeout: None,
    };
    Initiator::connect(&adapter, Memory::simulated(), config).await
}

// The initiator's queues have to authenticate automatically, including I/O queues.
#[test]
fn the_initiator_authenticates_its_queues() {
    for group in [DhGroup::Null, DhGroup::Ffdhe2048, DhGroup::Ffdhe8192] {
        for controller in [None, Some(CONTROLLER_SECRET)] {
            let algorithms = Algorithms { groups: vec![group], ..Algorithms::default() };
            let own = secrets(SECRET, controller);
            let hosts = BTreeMap::from([(Nqn::new(HOST).unwrap(), own.clone())]);
            with_credentials(Credentials::new(algorithms, hosts), async move |target, clock| {
                let initiator = initiator(&target, &clock, Some(own)).await.unwrap();
                let config = DriverConfig { completion: Completion::Interrupt, ..DriverConfig::default() };
                let driver = Driver::attach(Port::Fabric(initiator.clone()), config).await.unwrap();
                let mut queues = Vec::new();
                for vector in 1..4 {
                    let queue = QueueConfig { vector: Some(vector), ..QueueConfig::new(16) };
                    queues.push(driver.create_queue_pair(queue).await.unwrap());
                }
                let read = ReadWrite::default().sqe(NvmOpcode::FLUSH, 0, 2);
                for queue in &queues {
                    assert!(queue.execute(read).await.unwrap().status().is_success());
                }
                assert_eq!(initiator.strays(), 0);
                driver.shutdown().await.unwrap();
            });
        }
    }
}

// The initiator's error messages are read by people.
#[test]
fn the_initiator_says_why_it_is_not_connected() {
    let failed = ConnectError::Login(LoginError::Refused(Explanation::FAILED));
    with_credentials(credentials(), async move |target, clock| {
        for (own, error) in [
            (None, ConnectError::NoSecret),
            (Some(secrets(OTHER_SECRET, None)), failed),
            (Some(secrets(SECRET, Some(OTHER_SECRET))), ConnectError::Login(LoginError::NotAuthentic)),
        ] {
            let connected = initiator(&target, &clock, own).await.map(|_| ());
            assert_eq!(connected, Err(error));
        }
    });
    // A target that requires no authentication receives no messages.
    with_target(
        |_| (),
        async |target, clock| {
            assert!(initiator(&target, &clock, Some(secrets(OTHER_SECRET, None))).await.is_ok());
        },
    );
}
