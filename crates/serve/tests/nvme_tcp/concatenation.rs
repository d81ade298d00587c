//! TLS with keys that authentication generates: our initiator with our target, in the right order and in
//! wrong ones.

use crate::authentication::{SECRET, authenticate, secrets};
use crate::client::{Client, HOST};
use crate::service::Service;
use crate::tls::work;
use byteway_auth::{
    Algorithms, Credentials, Endpoint, GeneratedPsk, HostSecrets, Login, LoginError, NoRandomness, Provider,
    TlsPolicy,
};
use byteway_clock::{Executor, Timing};
use byteway_host::fabric::{Adapter, Authenticator, ConnectError, Initiator, InitiatorConfig};
use byteway_link::Memory;
use byteway_serve::tcp_host::Sockets;
use byteway_serve::tls::{Connector, KeyRing, TlsError, TlsPsk};
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::auth::{DhGroup, Explanation, HashFunction, SecureChannel};
use byteway_wire::fabrics::status::CONNECT_INVALID_HOST;
use byteway_wire::fabrics::tcp::Digests;
use byteway_wire::nvme::{KeepAlive, Status};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;

const CONTROLLER_SECRET: &str = "DHHC-1:03:dzQSBllT/Tkvweui5X8a2obJvM2E4Fy5BfFEdyWZyq7jLUS/:";
const OTHER_HOST: &str = "nqn.2026-11.org.byteway:other-host";
const OTHER_SECRET: &str = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";

fn nqn(name: &str) -> Nqn {
    Nqn::new(name).unwrap()
}

fn credentials(hash: HashFunction, tls: TlsPolicy) -> Credentials {
    let algorithms = Algorithms { hashes: vec![hash], groups: vec![DhGroup::Ffdhe2048] };
    let hosts = BTreeMap::from([
        (nqn(HOST), secrets(SECRET, Some(CONTROLLER_SECRET))),
        (nqn(OTHER_HOST), secrets(OTHER_SECRET, None)),
    ]);
    Credentials::new(algorithms, hosts).with_tls(tls)
}

/// Distinct bytes for each connection; they need not be unpredictable here.
struct Counted(Cell<u64>);

impl Provider for Counted {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        bytes.fill_with(|| {
            self.0.set(self.0.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            (self.0.get() >> 33) as u8
        });
        Ok(())
    }
}

fn endpoint(seed: u64) -> Rc<Endpoint> {
    Rc::new(Endpoint::new(Algorithms::default(), Box::new(Counted(Cell::new(seed)))))
}

/// Why a host is not connected.
#[derive(Debug, PartialEq)]
enum Refused {
    Tls(TlsError),
    Connect(ConnectError),
}

/// How a host connects.
enum ConnectBy {
    /// With a secret, optionally generating a key.
    Secret(HostSecrets, bool),
    /// With TLS at once, by this key.
    Key(TlsPsk),
}

/// Connects a host, which writes, reads and verifies, across a reset.
fn visit(
    address: SocketAddr,
    subsystem: &Nqn,
    host: &str,
    way: ConnectBy,
    digests: bool,
) -> Result<u64, Refused> {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let digests = Digests::new().with_header(digests).with_data(digests);
    let sockets = Sockets::new(&clock, address, digests);
    let (sockets, authenticator) = match way {
        ConnectBy::Secret(secrets, concatenates) => {
            (sockets, Some(Authenticator { secrets, endpoint: endpoint(7), concatenates }))
        }
        ConnectBy::Key(psk) => (sockets.secured(Connector::new(vec![psk]).unwrap()), None),
    };
    let failure = sockets.tls_failure();
    let adapter = Adapter::real(&clock, Box::new(sockets));
    let config = InitiatorConfig {
        subsystem: *subsystem,
        host: nqn(host),
        host_id: [7; 16],
        admin_entries: 32,
        in_capsule_bytes: 4096,
        authenticator,
        timeout: None,
    };
    let main = async move {
        match Initiator::connect(&adapter, Memory::simulated(), config).await {
            Ok(initiator) => Ok(work(initiator).await),
            Err(error) => Err(failure.last().map_or(Refused::Connect(error), Refused::Tls)),
        }
    };
    executor.run_real(Timing::None, None, main).unwrap()
}

/// Authenticates without TLS and generates a key, for a host that then reconnects in another way, or not at
/// all.
fn generate(
    address: SocketAddr,
    subsystem: &Nqn,
    host: &str,
    secret: &str,
    seed: u64,
) -> (Client, GeneratedPsk) {
    let mut client = Client::connected(address, subsystem, host).unwrap();
    let names = (nqn(host), *subsystem);
    let login = Login::new(&endpoint(seed), &secrets(secret, None), names, 5);
    let mut login = login.concatenating(SecureChannel::NEW_TLS_PSK);
    authenticate(&mut client, &mut login).unwrap();
    let psk = login.generated().unwrap().clone();
    (client, psk)
}

// The key from authentication has to be all that a host needs, with each TLS hash, at any port, and across a
// reset.
#[test]
fn hosts_use_a_drive_by_generated_keys() {
    for hash in [HashFunction::Sha256, HashFunction::Sha384] {
        let credentials = credentials(hash, TlsPolicy::Required);
        let service = Service::concatenating(2, &credentials, &KeyRing::default());
        let drive = service.nqns[0];
        for (port, controller) in [(0, None), (1, Some(CONTROLLER_SECRET)), (0, Some(CONTROLLER_SECRET))] {
            let way = ConnectBy::Secret(secrets(SECRET, controller), true);
            assert_eq!(visit(service.addresses[0][port], &drive, HOST, way, port == 1), Ok(104));
        }
        let way = ConnectBy::Secret(secrets(OTHER_SECRET, None), true);
        assert_eq!(visit(service.address(), &drive, OTHER_HOST, way, false), Ok(104));
        // Each has had a controller without TLS, and one with TLS.
        assert_eq!(service.end()[0].clients, 2 * 4);
    }
}

// Many hosts at once, each with its own key: generating one must not remove another that is about to be used.
#[test]
fn associations_of_one_host_have_keys_of_their_own() {
    let credentials = credentials(HashFunction::Sha256, TlsPolicy::Offered);
    let service = Service::concatenating(2, &credentials, &KeyRing::default());
    let (addresses, drive) = (service.addresses[0].clone(), service.nqns[0]);
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let address = addresses[number % 2];
            std::thread::spawn(move || {
                let (_clear, psk) = generate(address, &drive, HOST, SECRET, number as u64 + 1);
                TlsPsk::generated(&psk, &nqn(HOST), &drive)
            })
        })
        .collect();
    let psks: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    for psk in psks {
        assert_eq!(visit(service.address(), &drive, HOST, ConnectBy::Key(psk), false), Ok(104));
    }
    service.end();
}

// A host that has to use TLS and does not is refused at that message; a wrong secret generates nothing.
#[test]
fn hosts_without_a_key_are_refused() {
    let required = credentials(HashFunction::Sha256, TlsPolicy::Required);
    let service = Service::concatenating(1, &required, &KeyRing::default());
    let (address, drive) = (service.address(), service.nqns[0]);
    let refused = |host: &str, way: ConnectBy| visit(address, &drive, host, way, false).unwrap_err();
    let connect = |error| Refused::Connect(error);
    let plain = || ConnectBy::Secret(secrets(SECRET, None), false);
    assert_eq!(refused(HOST, plain()), connect(ConnectError::SecureChannel));
    let wrong = ConnectBy::Secret(secrets(OTHER_SECRET, None), true);
    let failed = LoginError::Refused(Explanation::FAILED);
    assert_eq!(refused(HOST, wrong), connect(ConnectError::Login(failed)));
    let nobody = ConnectBy::Secret(secrets(SECRET, None), true);
    let Refused::Connect(ConnectError::Refused(status)) = refused("nqn.2026-11.x:nobody", nobody) else {
        panic!()
    };
    assert!(status.is(CONNECT_INVALID_HOST));
    // A host that ignores the requirement.
    let mut client = Client::connected(address, &drive, HOST).unwrap();
    let mut login = Login::new(&endpoint(1), &secrets(SECRET, None), (nqn(HOST), drive), 5);
    let mismatch = LoginError::Refused(Explanation::SECURE_CHANNEL_MISMATCH);
    assert_eq!(authenticate(&mut client, &mut login), Err(mismatch));
    service.end();

    // Where no keys are available, a host that requests one does not continue without.
    let never = credentials(HashFunction::Sha256, TlsPolicy::Never);
    let service = Service::concatenating(1, &never, &KeyRing::default());
    let way = ConnectBy::Secret(secrets(SECRET, None), true);
    assert_eq!(
        visit(service.address(), &service.nqns[0], HOST, way, false),
        Err(connect(ConnectError::Login(mismatch)))
    );
    assert_eq!(visit(service.address(), &service.nqns[0], HOST, plain(), false), Ok(104));
    service.end();
}

// A key admits only its own host, while it is valid.
#[test]
fn keys_of_others_and_stale_ones_are_refused() {
    let ring = KeyRing::default();
    let service = Service::concatenating(1, &credentials(HashFunction::Sha256, TlsPolicy::Offered), &ring);
    let (address, drive) = (service.address(), service.nqns[0]);
    let by_tls = Err(Refused::Tls(TlsError::Closed));
    let psk = |key: &GeneratedPsk, host: &str| TlsPsk::generated(key, &nqn(host), &drive);
    let (mut clear, first) = generate(address, &drive, HOST, SECRET, 1);
    let by = |host: &str, psk: TlsPsk| visit(address, &drive, host, ConnectBy::Key(psk), false);
    // Another identity with the right key; and the right identity for another NQN.
    assert_eq!(by(OTHER_HOST, psk(&first, OTHER_HOST)), by_tls);
    let Err(Refused::Connect(ConnectError::Refused(status))) = by(OTHER_HOST, psk(&first, HOST)) else {
        panic!()
    };
    assert!(status.is(CONNECT_INVALID_HOST));
    assert_eq!(by(HOST, psk(&first, HOST)), Ok(104));
    // The next key of the same queue replaces it.
    let login = Login::new(&endpoint(2), &secrets(SECRET, None), (nqn(HOST), drive), 6);
    let mut login = login.concatenating(SecureChannel::NEW_TLS_PSK);
    authenticate(&mut clear, &mut login).unwrap();
    let second = login.generated().unwrap().clone();
    assert_eq!(by(HOST, psk(&first, HOST)), by_tls);
    assert_eq!(by(HOST, psk(&second, HOST)), Ok(104));
    // Without TLS there are no I/O queues any more, and before authentication nothing.
    clear.enable();
    assert!(clear.ask(KeepAlive.sqe(0), &[]).unwrap().cqe.status().is_success());
    let Err(status) = Client::io(address, &clear, &drive, 1) else { panic!() };
    assert!(status.is(Status::COMMAND_SEQUENCE_ERROR));
    ring.forget(&nqn(HOST));
    assert_eq!(by(HOST, psk(&second, HOST)), by_tls);
    service.end();
}

// A host that generates keys endlessly has a limited number, and locks no other host out.
#[test]
fn a_host_that_authenticates_in_a_loop_takes_no_more() {
    let service = Service::concatenating(
        1,
        &credentials(HashFunction::Sha256, TlsPolicy::Offered),
        &KeyRing::default(),
    );
    let (address, drive) = (service.address(), service.nqns[0]);
    let (_other, kept) = generate(address, &drive, OTHER_HOST, OTHER_SECRET, 1);
    let mut keys = Vec::new();
    for seed in 0..20 {
        let (client, key) = generate(address, &drive, HOST, SECRET, seed);
        drop(client);
        keys.push(TlsPsk::generated(&key, &nqn(HOST), &drive));
    }
    for (number, psk) in keys.into_iter().enumerate() {
        let visited = visit(address, &drive, HOST, ConnectBy::Key(psk), false);
        assert_eq!(visited.is_ok(), number >= 12, "{number}: {visited:?}");
    }
    let psk = TlsPsk::generated(&kept, &nqn(OTHER_HOST), &drive);
    assert_eq!(visit(address, &drive, OTHER_HOST, ConnectBy::Key(psk), false), Ok(104));
    service.end();
}

// The first byte decides: one that arrives late, alone or never, or of no known protocol, must not block a
// connection or the server.
#[test]
fn any_first_byte_is_survived() {
    let service = Service::concatenating(
        1,
        &credentials(HashFunction::Sha256, TlsPolicy::Offered),
        &KeyRing::default(),
    );
    let (address, drive) = (service.address(), service.nqns[0]);
    let silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
    for first in 0..=255_u8 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&[first]).unwrap();
        if !matches!(first, 0 | 21 | 22) {
            stream.write_all(&[7; 7]).unwrap();
            while let Ok(1..) = stream.read(&mut [0; 64]) {}
        }
    }
    let way = ConnectBy::Secret(secrets(SECRET, None), true);
    assert_eq!(visit(address, &drive, HOST, way, true), Ok(104));
    drop(silent);
    service.end();
}
