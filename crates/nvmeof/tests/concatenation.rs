//! Secure channel concatenation: which queues generate TLS keys, and which commands are allowed with and
//! without TLS.

use crate::authentication::{OTHER_SECRET, SECRET, read, receive, refusal, secrets, send};
use crate::host::{HOST, Host, SUBSYSTEM, Seeded, by_transport, with_generated_keys};
use byteway_auth::{Algorithms, Credentials, Endpoint, GeneratedPsk, Login, TlsPolicy};
use byteway_nvmeof::discovery::{Port, Record};
use byteway_nvmeof::{Directory, GeneratedKeys, Hosts, Peer, Reached, Target};
use byteway_wire::fabrics::auth::{DhGroup, Explanation, SecureChannel};
use byteway_wire::fabrics::connect::CNTLID_DYNAMIC;
use byteway_wire::fabrics::discovery::SecurityType;
use byteway_wire::fabrics::tcp::Digests;
use byteway_wire::fabrics::{AuthRequirements, Connected, Nqn};
use byteway_wire::nvme::{AdminOpcode, Cns, Identify, KeepAlive, Sqe, Status};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const OTHER_HOST: &str = "nqn.2026-11.org.byteway:other-host";

/// Keys that a target has generated, each with the one that it replaces.
#[derive(Default)]
struct Kept(RefCell<Vec<(Vec<u8>, Option<u64>)>>);

impl GeneratedKeys for Kept {
    fn keep(&self, host: &Nqn, subsystem: &Nqn, key: &GeneratedPsk, replaced: Option<u64>) -> u64 {
        assert_eq!((host.as_str(), subsystem.as_str()), (HOST, SUBSYSTEM));
        self.0.borrow_mut().push((key.key().to_vec(), replaced));
        self.0.borrow().len() as u64
    }
}

fn nqn(name: &str) -> Nqn {
    Nqn::new(name).unwrap()
}

fn credentials(tls: TlsPolicy) -> Credentials {
    let algorithms = Algorithms { groups: vec![DhGroup::Ffdhe2048, DhGroup::Null], ..Algorithms::default() };
    Credentials::new(algorithms, BTreeMap::from([(nqn(HOST), secrets(SECRET, None))])).with_tls(tls)
}

fn login(asked: SecureChannel) -> Login {
    let endpoint = Rc::new(Endpoint::new(Algorithms::default(), Box::new(Seeded::new(2))));
    Login::new(&endpoint, &secrets(SECRET, None), (nqn(HOST), nqn(SUBSYSTEM)), 77).concatenating(asked)
}

/// A connected queue, with or without a secure channel, and its authentication requirements.
async fn connected(target: &Rc<Target>, peer: Option<Peer>) -> (Host, AuthRequirements) {
    let mut host = Host::initialized(target, Digests::new());
    peer.into_iter().for_each(|peer| host.queue.secure(peer));
    let cqe = host.connect(0, CNTLID_DYNAMIC, 32, |_| ()).await.cqe;
    (host, Connected::parse(&cqe).unwrap().requirements)
}

fn channel(generated: Option<u64>) -> Option<Peer> {
    Some(Peer { host: nqn(HOST), subsystem: nqn(SUBSYSTEM), generated })
}

/// Connects an I/O queue of an admin queue's controller; returns the status and the queue.
async fn io(target: &Rc<Target>, admin: &Host, peer: Option<Peer>) -> (Host, Status) {
    let mut host = Host::initialized(target, Digests::new());
    peer.into_iter().for_each(|peer| host.queue.secure(peer));
    let status = host.connect(1, admin.queue.controller().unwrap().id(), 32, |_| ()).await.cqe.status();
    (host, status)
}

/// Authenticates a queue; returns the generated key.
async fn authenticate(host: &mut Host, asked: SecureChannel) -> Option<Vec<u8>> {
    let mut login = login(asked);
    assert!(send(host, &login.negotiate()).await.is_success());
    let reply = login.reply(&receive(host).await).await.unwrap();
    assert!(send(host, &reply).await.is_success());
    assert!(login.conclude(&receive(host).await).unwrap().is_none());
    login.generated().map(|key| key.key().to_vec())
}

/// The explanation for a refused negotiation.
async fn refused(host: &mut Host, asked: SecureChannel) -> Explanation {
    assert!(send(host, &login(asked).negotiate()).await.is_success());
    refusal(host).await
}

// A key that is stored too late fails a host that uses it at once; without TLS no data may be read or
// changed.
#[test]
fn a_key_is_generated_in_the_clear_and_used_in_its_channel() {
    let kept = Rc::new(Kept::default());
    let keys = kept.clone();
    with_generated_keys(credentials(TlsPolicy::Offered), keys, async move |target, _| {
        let (mut clear, requirements) = connected(&target, None).await;
        assert_eq!(requirements, AuthRequirements::new().with_atr(true));
        let key = authenticate(&mut clear, SecureChannel::NEW_TLS_PSK).await.unwrap();
        assert_eq!(kept.0.borrow()[..], [(key, None)]);
        // The commands that Linux sends before it reconnects.
        clear.configure(true).await;
        let identify = Identify { cns: Cns::CONTROLLER, ..Identify::default() }.sqe(0, 0);
        assert!(clear.ask(by_transport(identify, 4096), &[]).await.cqe.status().is_success());
        assert!(clear.ask(KeepAlive.sqe(0), &[]).await.cqe.status().is_success());
        for opcode in [AdminOpcode::FORMAT_NVM, AdminOpcode::NAMESPACE_MANAGEMENT, AdminOpcode(0xC1)] {
            let status = clear.ask(Sqe::new(opcode.0, 0, 1), &[]).await.cqe.status();
            assert_eq!(status, Status::OPERATION_DENIED.with_dnr(), "{opcode:?}");
        }
        for peer in [None, channel(Some(1))] {
            assert_eq!(io(&target, &clear, peer).await.1, Status::COMMAND_SEQUENCE_ERROR.with_dnr());
        }
        // Another key on the same queue replaces it.
        authenticate(&mut clear, SecureChannel::NEW_TLS_PSK).await.unwrap();
        assert_eq!(kept.0.borrow()[1].1, Some(1));
        clear.queue.close();

        let (mut admin, requirements) = connected(&target, channel(Some(2))).await;
        assert!(requirements == AuthRequirements::new() && admin.queue.is_established());
        admin.configure(true).await;
        assert_eq!(io(&target, &admin, None).await.1, Status::COMMAND_SEQUENCE_ERROR.with_dnr());
        let (mut io, status) = io(&target, &admin, channel(Some(2))).await;
        assert!(status.is_success() && io.queue.is_established());
        assert!(io.ask(read(), &[]).await.cqe.status().is_success());
        // The key is replaced during I/O, by the admin queue only.
        authenticate(&mut admin, SecureChannel::REPLACE_TLS_PSK).await.unwrap();
        assert_eq!(kept.0.borrow()[2].1, Some(2));
        assert!(authenticate(&mut admin, SecureChannel::NONE).await.is_none());
        assert!(io.ask(read(), &[]).await.cqe.status().is_success());
        let mismatch = Explanation::SECURE_CHANNEL_MISMATCH;
        assert_eq!(refused(&mut io, SecureChannel::REPLACE_TLS_PSK).await, mismatch);
        assert_eq!(kept.0.borrow().len(), 3);
    });
}

// An association without TLS must not get a key and continue unencrypted.
#[test]
fn io_queues_in_the_clear_end_with_the_key() {
    with_generated_keys(credentials(TlsPolicy::Offered), Rc::new(Kept::default()), async |target, _| {
        let (mut admin, _) = connected(&target, None).await;
        assert!(authenticate(&mut admin, SecureChannel::NONE).await.is_none());
        admin.configure(true).await;
        let (mut io, status) = io(&target, &admin, None).await;
        assert!(status.is_success());
        assert!(authenticate(&mut io, SecureChannel::NONE).await.is_none());
        assert!(io.ask(read(), &[]).await.cqe.status().is_success());
        authenticate(&mut admin, SecureChannel::NEW_TLS_PSK).await.unwrap();
        assert!(admin.ask(KeepAlive.sqe(0), &[]).await.cqe.status().is_success());
        assert_eq!(io.ask(read(), &[]).await.cqe.status(), Status::OPERATION_DENIED.with_dnr());
    });
}

// Unavailable or missing concatenation is reported at the first message, and no key is generated.
#[test]
fn the_policy_decides_who_gets_a_key() {
    let mismatch = Explanation::SECURE_CHANNEL_MISMATCH;
    let (new, replace) = (SecureChannel::NEW_TLS_PSK, SecureChannel::REPLACE_TLS_PSK);
    for (policy, peer, refusals) in [
        (TlsPolicy::Never, None, vec![new, replace]),
        (TlsPolicy::Offered, None, vec![replace, SecureChannel(1)]),
        (TlsPolicy::Required, None, vec![SecureChannel::NONE, replace]),
        // With TLS by a configured key none can be generated, nor can another channel with a generated one.
        (TlsPolicy::Offered, channel(None), vec![new, replace]),
        (TlsPolicy::Offered, channel(Some(1)), vec![new]),
    ] {
        let kept = Rc::new(Kept::default());
        with_generated_keys(credentials(policy), kept.clone(), async move |target, _| {
            for asked in refusals {
                let (mut host, requirements) = connected(&target, peer).await;
                let expected = match (policy, peer.and_then(|peer| peer.generated)) {
                    (_, Some(_)) => AuthRequirements::new(),
                    (TlsPolicy::Required, None) => AuthRequirements::new().with_ascr(true),
                    _ => AuthRequirements::new().with_atr(true),
                };
                assert_eq!(requirements, expected);
                assert_eq!(refused(&mut host, asked).await, mismatch, "{policy:?} {asked:?}");
                host.queue.over().await;
                host.queue.close();
            }
        });
        assert!(kept.0.borrow().is_empty());
    }
}

// nvme-cli connects to what it discovers, and has to know that a key is required.
#[test]
fn the_discovery_service_tells_who_needs_a_key() {
    let directory = Directory::default();
    let credentials = credentials(TlsPolicy::Required);
    let _published = directory.publish(Record {
        nqn: nqn(SUBSYSTEM),
        hosts: Hosts::Listed(vec![nqn(OTHER_HOST)]),
        credentials: Some(credentials.clone()),
        ports: vec![Port { id: 1, address: "127.0.0.1:4420".parse().unwrap(), is_secure: false }],
        admin_entries_max: 128,
    });
    let reached = Reached { port: 1, address: "127.0.0.1:4420".parse().unwrap(), is_secure: false };
    let told = |host: &str| {
        let (_, entries) = directory.entries(&nqn(host), reached);
        let found = entries.iter().find(|entry| entry.subsystem().ok() == Some(nqn(SUBSYSTEM)));
        found.map(|entry| (entry.sectype, entry.treq.tsc()))
    };
    assert_eq!(told(HOST), Some((SecurityType::TLS_1_3, 2)));
    assert_eq!(told(OTHER_HOST), Some((SecurityType::NONE, 2)));
    assert_eq!(told("nqn.2026-11.x:nobody"), None);
    credentials.replace(&Credentials::default());
    assert_eq!(told(HOST), None);
}

// When a secret is replaced, keys derived from the old one must no longer give access.
#[test]
fn a_secret_that_is_replaced_generates_no_key() {
    let (all, kept) = (credentials(TlsPolicy::Offered), Rc::new(Kept::default()));
    let (known, keys) = (all.clone(), kept.clone());
    with_generated_keys(all, kept, async move |target, _| {
        let (mut host, _) = connected(&target, None).await;
        let hosts = BTreeMap::from([(nqn(HOST), secrets(OTHER_SECRET, None))]);
        known.replace(&Credentials::new(Algorithms::default(), hosts));
        assert!(authenticate(&mut host, SecureChannel::NEW_TLS_PSK).await.is_some());
        assert!(keys.0.borrow().is_empty());
        assert_eq!(io(&target, &host, None).await.1, Status::COMMAND_SEQUENCE_ERROR.with_dnr());
    });
}

// Hosts that are added or removed are judged by the rules at the time of their connection.
#[test]
fn credentials_that_are_replaced_hold_for_queues_that_connect() {
    let all = credentials(TlsPolicy::Offered);
    let known = all.clone();
    with_generated_keys(all, Rc::new(Kept::default()), async move |target, _| {
        let (mut before, _) = connected(&target, None).await;
        known.replace(&credentials(TlsPolicy::Required));
        assert!(authenticate(&mut before, SecureChannel::NONE).await.is_none());
        before.configure(true).await;
        let (_, requirements) = connected(&target, None).await;
        assert!(requirements.ascr());
        // Nor can an older association add a queue without TLS.
        assert_eq!(io(&target, &before, None).await.1, Status::COMMAND_SEQUENCE_ERROR.with_dnr());
        known.replace(&Credentials::default());
        // Without its secret the host is one of those that may connect without authentication.
        let (_, requirements) = connected(&target, None).await;
        assert_eq!(requirements, AuthRequirements::new());
        assert!(before.ask(KeepAlive.sqe(0), &[]).await.cqe.status().is_success());
    });
}
