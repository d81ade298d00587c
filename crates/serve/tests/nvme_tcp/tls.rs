//! Drives behind TLS: our initiator with our target, with damaged connections in between.

use crate::client::{Client, HOST};
use crate::service::Service;
use byteway_clock::{Executor, Timing};
use byteway_content::BlockSize;
use byteway_host::fabric::ConnectError;
use byteway_host::fabric::{Adapter, Initiator, InitiatorConfig};
use byteway_host::{
    BaseState, Client as Blocks, ClientConfig, Completion, Driver, DriverConfig, Method, Oracle, PointerKind,
    Port, QueueConfig, Rules,
};
use byteway_link::Memory;
use byteway_serve::tcp_host::Sockets;
use byteway_serve::tls::{ConfiguredPsk, Connector, Keys, TlsError, TlsPsk};
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::status::{CONNECT_INVALID_HOST, CONNECT_INVALID_PARAMETERS};
use byteway_wire::fabrics::tcp::Digests;
use byteway_wire::nvme::Status;
use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

const KEY_256: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
const KEY_384: &str =
    "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:";
const OTHER_KEY: &str = "NVMeTLSkey-1:01:M+eYfzsLyZdqO/JMLgbMs1ouSQ2cSc9szYUxjgEGwDwL2caL:";
const OTHER_HOST: &str = "nqn.2026-11.org.byteway:other-host";

fn nqn(name: &str) -> Nqn {
    Nqn::new(name).unwrap()
}

/// Keys of two hosts, one with each hash.
fn keys() -> Keys {
    format!("{HOST} {KEY_256}\n{OTHER_HOST} {KEY_384}").parse().unwrap()
}

fn psks(key: &str, host: &str, subsystem: &Nqn) -> Vec<TlsPsk> {
    key.parse::<ConfiguredPsk>().unwrap().tls_psks(&nqn(host), subsystem)
}

/// Why a host is not connected.
#[derive(Debug, PartialEq, Eq)]
enum Refused {
    Tls(TlsError),
    Status(Status),
}

/// Connects a host, which writes, reads and verifies small and large I/Os, across a reset after which its I/O
/// queues are reconnected. `None`: without TLS.
fn visit(
    address: SocketAddr,
    subsystem: &Nqn,
    host: &str,
    offered: Option<Vec<TlsPsk>>,
    digests: bool,
) -> Result<u64, Refused> {
    connected(address, subsystem, host, offered, digests, work)
}

/// Connects a host's admin queue, and runs `work`.
fn connected<W: Future<Output = u64>>(
    address: SocketAddr,
    subsystem: &Nqn,
    host: &str,
    offered: Option<Vec<TlsPsk>>,
    digests: bool,
    work: impl FnOnce(Rc<Initiator>) -> W + 'static,
) -> Result<u64, Refused> {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let digests = Digests::new().with_header(digests).with_data(digests);
    let mut sockets = Sockets::new(&clock, address, digests);
    if let Some(offered) = offered {
        sockets = sockets.secured(Connector::new(offered).unwrap());
    }
    let failure = sockets.tls_failure();
    let adapter = Adapter::real(&clock, Box::new(sockets));
    let config = InitiatorConfig {
        subsystem: *subsystem,
        host: nqn(host),
        host_id: [7; 16],
        admin_entries: 32,
        in_capsule_bytes: 4096,
        authenticator: None,
        timeout: None,
    };
    let main = async move {
        let connected = Initiator::connect(&adapter, Memory::simulated(), config).await;
        let port = connected.map_err(|status| match failure.last() {
            Some(error) => Refused::Tls(error),
            None => Refused::Status(match status {
                ConnectError::Refused(status) => status,
                error => panic!("{error}"),
            }),
        })?;
        Ok(work(port).await)
    };
    executor.run_real(Timing::None, None, main).unwrap()
}

/// Writes, reads and verifies small and large I/Os, across a reset after which I/O queues are reconnected.
pub async fn work(port: Rc<Initiator>) -> u64 {
    let driver = Driver::attach(
        Port::Fabric(port),
        DriverConfig { completion: Completion::Interrupt, ..DriverConfig::default() },
    )
    .await
    .unwrap();
    let namespace = driver.namespaces()[0];
    let block = BlockSize::from_bytes(namespace.block_bytes.into()).unwrap();
    // It does not know what others have written, so it reads only its own data.
    let oracle = Oracle::new(namespace.blocks, block, 1, BaseState::Zeroes);
    let oracle = Rc::new(RefCell::new(oracle));
    let config = ClientConfig {
        rules: Rules { fallback: PointerKind::Sgl, sgl_bytes_min: 0, ..Rules::only(Method::Sgl) },
        bytes_max: 128 << 10,
        oracle: Some(oracle.clone()),
        verify_bytes: true,
    };
    let queue = driver.create_queue_pair(QueueConfig::new(32)).await.unwrap();
    let client = Blocks::new(queue, namespace, config).unwrap();
    let mut buffer = client.buffer().unwrap();
    for round in 0..2 {
        for (lba, blocks) in [(0, 1), (1, 2), (8, 32), (40, 17)] {
            client.write(&mut buffer, lba, blocks).await.unwrap();
            client.read(&mut buffer, lba, blocks).await.unwrap();
        }
        if round == 0 {
            driver.reset().await.unwrap();
        }
    }
    driver.shutdown().await.unwrap();
    oracle.borrow().verified_blocks()
}

// With every derived key and hash, a host gets its own data back, and no other host's key works for it.
#[test]
fn hosts_use_a_drive_by_every_key_that_they_may_derive() {
    let service = Service::secured(&keys());
    let (address, drive) = (service.address(), service.nqns[0]);
    for (host, key) in [(HOST, KEY_256), (OTHER_HOST, KEY_384)] {
        let all = psks(key, host, &drive);
        for (number, psk) in all.iter().enumerate() {
            let visited = visit(address, &drive, host, Some(vec![psk.clone()]), number % 2 == 1);
            assert_eq!(visited, Ok(104), "{}", psk.identity);
        }
        assert_eq!(visit(address, &drive, host, Some(all), true), Ok(104));
    }
    assert_eq!(service.end()[0].clients, 2 * 5);
}

// A key is valid for one host and one subsystem; another key, no key, or a key for another NQN is refused.
#[test]
fn hosts_without_the_right_key_are_refused() {
    let service = Service::secured(&keys());
    let (address, drive) = (service.address(), service.nqns[0]);
    let refused = |host: &str, offered: Option<Vec<TlsPsk>>| {
        visit(address, &drive, host, offered, false).expect_err("it must not be let in")
    };
    let refused_by_tls = Refused::Tls(TlsError::Closed);
    assert_eq!(refused(HOST, Some(psks(OTHER_KEY, HOST, &drive))), refused_by_tls);
    assert_eq!(refused(HOST, Some(psks(KEY_384, HOST, &drive))), refused_by_tls);
    let nobody = "nqn.2026-11.org.byteway:nobody";
    assert_eq!(refused(nobody, Some(psks(KEY_256, nobody, &drive))), refused_by_tls);
    assert_eq!(refused(HOST, Some(psks(KEY_256, HOST, &nqn(OTHER_HOST)))), refused_by_tls);
    assert_eq!(refused(HOST, Some(Vec::new())), refused_by_tls);
    assert!(matches!(refused(HOST, None), Refused::Status(_)));
    // With its own key but another NQN; and with the key for the Discovery Service.
    let Refused::Status(status) = refused(OTHER_HOST, Some(psks(KEY_256, HOST, &drive))) else { panic!() };
    assert!(status.is(CONNECT_INVALID_HOST));
    let discovery = psks(KEY_256, HOST, &Nqn::discovery());
    let Refused::Status(status) = refused(HOST, Some(discovery)) else { panic!() };
    assert!(status.is(CONNECT_INVALID_PARAMETERS));
    assert_eq!(service.end()[0].clients, 0);
}

// A host with TLS at one end only has to be told so, at once.
#[test]
fn a_port_without_tls_refuses_it() {
    let service = Service::start(1, 1, |_, _, _| ());
    let (address, drive) = (service.address(), service.nqns[0]);
    let refused = visit(address, &drive, HOST, Some(psks(KEY_256, HOST, &drive)), false);
    assert!(matches!(refused, Err(Refused::Tls(TlsError::Closed | TlsError::Protocol(_)))), "{refused:?}");
    assert_eq!(visit(address, &drive, HOST, None, false), Ok(104));
    service.end();
}

/// Relays bytes between one host and a target until this many have been relayed in one direction; then closes
/// both connections.
fn cut_after(target: SocketAddr, to_target: usize, to_host: usize) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = spawn(move || {
        let (host, _) = listener.accept().unwrap();
        let target = TcpStream::connect(target).unwrap();
        let carry = |mut from: TcpStream, mut to: TcpStream, mut left: usize| {
            let mut chunk = [0; 4096];
            while left > 0 {
                let most = left.min(chunk.len());
                match from.read(&mut chunk[..most]) {
                    Ok(bytes @ 1..) if to.write_all(&chunk[..bytes]).is_ok() => left -= bytes,
                    _ => break,
                }
            }
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        };
        let (host_too, target_too) = (host.try_clone().unwrap(), target.try_clone().unwrap());
        let back = spawn(move || carry(target_too, host_too, to_host));
        carry(host, target, to_target);
        back.join().unwrap();
    });
    (address, thread)
}

// A network may fail at any byte: of the handshake, of the first commands, of data. Neither end may hang, and
// nothing of the host may remain.
#[test]
fn connections_that_are_cut_anywhere_leave_nothing() {
    let service = Service::secured(&keys());
    let (address, drive) = (service.address(), service.nqns[0]);
    let offered = || Some(psks(KEY_256, HOST, &drive));
    let mut came = 0;
    for bytes in (0..480).step_by(31).chain([1, 2, 3, 4, 5, 6, 9, 600, 800, 1500, 3000]) {
        for (to_target, to_host) in [(bytes, usize::MAX), (usize::MAX, bytes / 2)] {
            let (between, thread) = cut_after(address, to_target, to_host);
            let visited = connected(between, &drive, HOST, offered(), false, async |_| 0);
            came += u64::from(visited.is_ok());
            assert!(visited.is_err() || bytes > 480, "{to_target} {to_host}");
            thread.join().unwrap();
        }
    }
    assert!(came < 5);
    assert_eq!(visit(address, &drive, HOST, offered(), false), Ok(104));
    service.end();
}

// Many hosts that disconnect in different ways exhaust neither descriptors nor connections.
#[test]
fn hosts_with_tls_come_and_go() {
    let service = Service::secured(&keys());
    let (address, drive) = (service.address(), service.nqns[0]);
    for number in 0..600_usize {
        let mut stream = TcpStream::connect(address).unwrap();
        match number % 4 {
            0 => drop(stream),
            1 => _ = stream.write_all(&[22, 3, 1, 1, 0, 1][..1 + number % 6]),
            // The header of a record that never arrives, and of something else.
            2 => _ = stream.write_all(&[&[22, 3, 1, 0x40, 0][..], &[number as u8; 300]].concat()),
            _ => {
                let mut plain = Client::open(address);
                plain.say(
                    &byteway_wire::fabrics::tcp::Pdu::IcReq(byteway_wire::fabrics::tcp::IcReq::new(
                        0,
                        Digests::new(),
                        0,
                    )),
                    &[],
                );
                plain.stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                assert!(matches!(plain.stream.read(&mut [0; 64]), Ok(_) | Err(_)));
            }
        }
    }
    for _ in 0..20 {
        assert_eq!(visit(address, &drive, HOST, Some(psks(KEY_256, HOST, &drive)), false), Ok(104));
    }
    assert_eq!(service.end()[0].clients, 20);
}

// A host that sends its handshake a byte at a time holds a connection no longer than one that connects no
// queue.
#[test]
fn slow_handshakes_are_ended() {
    let service = Service::secured(&keys());
    let start = Instant::now();
    let mut slow = TcpStream::connect(service.address()).unwrap();
    slow.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut sent = [22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3].into_iter().chain(std::iter::repeat(7));
    let ended = loop {
        let _ = slow.write_all(&[sent.next().unwrap()]);
        match slow.read(&mut [0; 256]) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            _ => break start.elapsed(),
        }
    };
    assert!((9..16).contains(&ended.as_secs()), "{ended:?}");
}
