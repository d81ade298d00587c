//! Authentication over sockets: the drive's computation thread, and connections that do not authenticate.

use crate::client::{Client, HOST, by_transport, in_capsule};
use crate::service::Service;
use byteway_auth::{
    Algorithms, Credentials, Endpoint, HostSecrets, Login, LoginError, NoRandomness, Provider,
};
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::auth::{AuthReceive, AuthSend, DhGroup, Explanation, SecurityProtocol};
use byteway_wire::fabrics::status::{AUTHENTICATION_REQUIRED, CONTROLLER_BUSY};
use byteway_wire::nvme::{KeepAlive, NvmOpcode, ReadWrite, Sqe};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Read;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub const SECRET: &str = "DHHC-1:00:kB5HZf02d83q8TfG7qIsXq/AOmoa2TpvbckY1N4T0OzkawRL:";
const CONTROLLER_SECRET: &str = "DHHC-1:03:dzQSBllT/Tkvweui5X8a2obJvM2E4Fy5BfFEdyWZyq7jLUS/:";
const OTHER_SECRET: &str = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";
/// A host that has no secret.
const UNPROVED: &str = "nqn.2026-11.org.byteway:unproved";

pub fn secrets(host: &str, controller: Option<&str>) -> HostSecrets {
    HostSecrets { host: host.parse().unwrap(), controller: controller.map(|text| text.parse().unwrap()) }
}

fn credentials(groups: &[DhGroup]) -> Credentials {
    let algorithms = Algorithms { groups: groups.to_vec(), ..Algorithms::default() };
    let hosts = BTreeMap::from([(Nqn::new(HOST).unwrap(), secrets(SECRET, Some(CONTROLLER_SECRET)))]);
    Credentials::new(algorithms, hosts)
}

/// A host's random bytes; they need not be unpredictable here.
struct Counted(Cell<u8>);

impl Provider for Counted {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        bytes.fill_with(|| self.0.replace(self.0.get().wrapping_mul(5).wrapping_add(77)));
        Ok(())
    }
}

/// The output of a future that never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

fn send(client: &mut Client, message: &[u8]) {
    let bytes = message.len() as u32;
    let command = AuthSend { protocol: SecurityProtocol::NVME, transfer_bytes: bytes };
    let answer = client.ask(in_capsule(command.sqe(0, Default::default()), bytes), message).unwrap();
    assert!(answer.cqe.status().is_success());
}

fn receive(client: &mut Client) -> Vec<u8> {
    let command = AuthReceive { protocol: SecurityProtocol::NVME, allocation_bytes: 4096 };
    client.ask(by_transport(command.sqe(0, Default::default()), 4096), &[]).unwrap().data
}

/// Runs a transaction on a queue.
pub fn authenticate(client: &mut Client, login: &mut Login) -> Result<(), LoginError> {
    send(client, &login.negotiate());
    let reply = now(login.reply(&receive(client)))?;
    send(client, &reply);
    if let Some(last) = login.conclude(&receive(client))? {
        send(client, &last);
    }
    Ok(())
}

fn login(nqn: &Nqn, secrets: &HostSecrets) -> Login {
    let endpoint = Rc::new(Endpoint::new(Algorithms::default(), Box::new(Counted(Cell::new(3)))));
    Login::new(&endpoint, secrets, (Nqn::new(HOST).unwrap(), *nqn), 5)
}

fn read() -> Sqe {
    by_transport(ReadWrite::default().sqe(NvmOpcode::READ, 0, 2), 4096)
}

/// Waits until the connection is closed, discarding other PDUs.
fn is_closed(client: &mut Client, within: Duration) -> bool {
    client.stream.set_read_timeout(Some(within)).unwrap();
    loop {
        match client.stream.read(&mut [0; 256]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

// The computations run in another thread, whose results have to return to the right connection.
#[test]
fn hosts_authenticate_beside_others() {
    let service = Service::start_with(1, 1, Some(credentials(&[DhGroup::Ffdhe8192])), |_, _, _| ());
    let (address, nqn) = (service.address(), service.nqns[0]);
    let other = Client::admin(address, &nqn, UNPROVED).unwrap();
    let admins: Vec<_> = (0..4)
        .map(|number| {
            std::thread::spawn(move || {
                let mut admin = Client::connected(address, &nqn, HOST).unwrap();
                let own = secrets(SECRET, (number % 2 == 0).then_some(CONTROLLER_SECRET));
                authenticate(&mut admin, &mut login(&nqn, &own)).unwrap();
                admin.enable();
                let mut io = Client::io(address, &admin, &nqn, 1).unwrap();
                assert!(io.ask(read(), &[]).unwrap().cqe.status().is(AUTHENTICATION_REQUIRED));
                authenticate(&mut io, &mut login(&nqn, &own)).unwrap();
                assert!(io.ask(read(), &[]).unwrap().cqe.status().is_success());
            })
        })
        .collect();
    let mut other = other;
    for _ in 0..20 {
        assert!(other.ask(KeepAlive.sqe(0), &[]).unwrap().cqe.status().is_success());
    }
    admins.into_iter().for_each(|admin| admin.join().unwrap());
    service.end();
}

// A refused host has to learn why before its connection closes, without an effect on other connections.
#[test]
fn a_host_that_is_refused_learns_why_and_is_let_go() {
    let service = Service::start_with(1, 1, Some(credentials(&[DhGroup::Ffdhe2048])), |_, _, _| ());
    let (address, nqn) = (service.address(), service.nqns[0]);
    let mut good = Client::connected(address, &nqn, HOST).unwrap();
    authenticate(&mut good, &mut login(&nqn, &secrets(SECRET, None))).unwrap();
    good.enable();
    for _ in 0..5 {
        let mut bad = Client::connected(address, &nqn, HOST).unwrap();
        let refused = authenticate(&mut bad, &mut login(&nqn, &secrets(OTHER_SECRET, None)));
        assert_eq!(refused, Err(LoginError::Refused(Explanation::FAILED)));
        assert!(is_closed(&mut bad, Duration::from_secs(20)));
    }
    assert!(good.ask(KeepAlive.sqe(0), &[]).unwrap().cqe.status().is_success());
    service.end();
}

// Knowing a host's NQN, without a secret, must not be enough to occupy all connections.
#[test]
fn connections_that_do_not_authenticate_keep_nobody_out() {
    let service = Service::start_with(1, 1, Some(credentials(&[DhGroup::Null])), |_, subsystem, _| {
        subsystem.controllers_max = 1000;
        subsystem.host.controllers_max = 1000;
    });
    let (address, nqn) = (service.address(), service.nqns[0]);
    let mut good = Client::connected(address, &nqn, HOST).unwrap();
    authenticate(&mut good, &mut login(&nqn, &secrets(SECRET, None))).unwrap();
    good.enable();
    let mut silent: Vec<Client> = (0..200).map(|_| Client::connected(address, &nqn, HOST).unwrap()).collect();
    for client in &mut silent[..70] {
        assert!(is_closed(client, Duration::from_secs(5)));
    }
    assert!(good.ask(KeepAlive.sqe(0), &[]).unwrap().cqe.status().is_success());
    let mut late = Client::connected(address, &nqn, HOST).unwrap();
    authenticate(&mut late, &mut login(&nqn, &secrets(SECRET, None))).unwrap();
    service.end();
}

// Knowing a host's NQN, without a secret, must not be enough to occupy all of its controllers.
#[test]
fn controllers_that_are_not_authenticated_keep_the_host_not_out() {
    let service = Service::start_with(1, 1, Some(credentials(&[DhGroup::Null])), |_, subsystem, _| {
        subsystem.host.controllers_max = 2;
    });
    let (address, nqn) = (service.address(), service.nqns[0]);
    let mut silent: Vec<Client> = (0..20).map(|_| Client::connected(address, &nqn, HOST).unwrap()).collect();
    // The oldest are closed in favour of the newest.
    for client in &mut silent[..4] {
        assert!(is_closed(client, Duration::from_secs(5)));
    }
    let mut good: Vec<Client> = (0..2).map(|_| Client::connected(address, &nqn, HOST).unwrap()).collect();
    for client in &mut good {
        authenticate(client, &mut login(&nqn, &secrets(SECRET, None))).unwrap();
        client.enable();
    }
    // Authenticated connections count.
    assert!(Client::connected(address, &nqn, HOST).is_err_and(|status| status.is(CONTROLLER_BUSY)));
    drop(good);
    drop(silent);
    service.end();
}
