//! Both ends of TLS over a socket pair.

use super::*;
use crate::tls::ConfiguredPsk;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

const KEY_256: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
const KEY_384: &str =
    "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:";

fn host() -> Nqn {
    Nqn::new("nqn.2026-11.org.byteway:host").unwrap()
}

fn subsystem() -> Nqn {
    Nqn::new("nqn.2026-11.org.byteway:drive").unwrap()
}

fn psks(key: &str) -> Vec<TlsPsk> {
    key.parse::<ConfiguredPsk>().unwrap().tls_psks(&host(), &subsystem())
}

fn sockets() -> [Rc<OwnedFd>; 2] {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (one, other) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
    [one, other].map(Rc::new)
}

fn acceptor(key: &str) -> Acceptor {
    let keys: Keys = format!("{} {key}", host().as_str()).parse().unwrap();
    Acceptor::new(&keys, &[subsystem()]).unwrap()
}

/// Results of both ends.
type Outcome = (Result<Option<Peer>, TlsError>, Result<Option<Peer>, TlsError>);

fn negotiate(target: &mut Session, host: &mut Session) -> Outcome {
    let (mut first, mut second) = (Poll::Pending, Poll::Pending);
    for _ in 0..10 {
        if second.is_pending() {
            second = host.negotiate();
        }
        if first.is_pending() {
            first = target.negotiate();
            if let Poll::Ready(Err(_)) = first {
                target.finish();
            }
        }
    }
    match (first, second) {
        (Poll::Ready(first), Poll::Ready(second)) => (first, second),
        pending => panic!("{pending:?}"),
    }
}

/// Two ends with an established connection.
fn connected(key: &str, offered: Vec<TlsPsk>) -> (Session, Session) {
    let [one, other] = sockets();
    let mut target = acceptor(key).accept(&one).unwrap();
    let mut host_end = Connector::new(offered).unwrap().connect(&other).unwrap();
    let peer = Peer { host: host(), subsystem: subsystem(), generated: None };
    assert_eq!(negotiate(&mut target, &mut host_end), (Ok(Some(peer)), Ok(None)));
    (target, host_end)
}

fn carry(from: &mut Session, to: &mut Session, bytes: usize) {
    let sent: Vec<u8> = (0..bytes).map(|index| (index % 251) as u8).collect();
    let (mut left, mut came, mut chunk) = (&sent[..], Vec::new(), vec![0; 64 << 10]);
    while came.len() < bytes {
        if let (Poll::Ready(count), false) = (from.send(left), left.is_empty()) {
            left = &left[count.unwrap()..];
        }
        if let Poll::Ready(count) = to.receive(&mut chunk) {
            let count = count.unwrap();
            assert!(count > 0);
            came.extend_from_slice(&chunk[..count]);
        }
    }
    assert!(sent == came);
    assert!(to.receive(&mut chunk).is_pending());
}

// Every key that a host may derive has to be found, by its identity and its derivation; and bytes must arrive
// unchanged, more than the sockets buffer at once, across key updates of both ends.
#[test]
fn every_key_of_a_host_makes_a_connection() {
    for (key, suite) in [(KEY_256, "TLS_AES_128_GCM_SHA256"), (KEY_384, "TLS_AES_256_GCM_SHA384")] {
        let all = psks(key);
        assert_eq!(all.len(), 4);
        let each = all.iter().map(|psk| vec![psk.clone()]);
        for offered in each.chain([all.clone(), all.iter().rev().cloned().collect()]) {
            let (mut target, mut host) = connected(key, offered);
            for session in [&target, &host] {
                assert_eq!(
                    session.connection.actual_protocol_version().unwrap(),
                    s2n_tls::enums::Version::TLS13
                );
                assert_eq!(session.connection.cipher_suite().unwrap(), suite);
            }
            for bytes in [1, 4096, 16 << 10, 3 << 20] {
                carry(&mut target, &mut host, bytes);
                carry(&mut host, &mut target, bytes);
                host.update_key();
                target.update_key();
            }
        }
    }
}

// A refused host must not get access, and the log must state the reason.
#[test]
fn keys_that_are_missing_or_wrong_are_told_apart() {
    let refused = |known: &str, offered: Vec<TlsPsk>| {
        let [one, other] = sockets();
        let mut target = acceptor(known).accept(&one).unwrap();
        let mut host = Connector::new(offered).unwrap().connect(&other).unwrap();
        let (target, host) = negotiate(&mut target, &mut host);
        assert_eq!(host, Err(TlsError::Closed));
        target.unwrap_err()
    };
    let other_key = "NVMeTLSkey-1:01:M+eYfzsLyZdqO/JMLgbMs1ouSQ2cSc9szYUxjgEGwDwL2caL:";
    let version_0 = psks(other_key)[1].clone();
    assert!(version_0.identity.starts_with("NVMe0R01"));
    assert_eq!(refused(KEY_256, vec![version_0.clone()]), TlsError::WrongKey(version_0.identity));
    // An identity of version 1 identifies its key.
    let version_1 = psks(other_key)[0].clone();
    assert_eq!(refused(KEY_256, vec![version_1.clone()]), TlsError::Unknown(version_1.identity.clone()));
    assert!(matches!(refused(KEY_384, psks(KEY_256)), TlsError::Unknown(_)));
    assert_eq!(refused(KEY_256, Vec::new()), TlsError::NoPsk);
    // Beyond the limit of offered keys, the right one is not searched.
    let named = |number: usize| TlsPsk { identity: number.to_string(), ..version_1.clone() };
    let many = |others: usize| (0..others).map(named).chain([psks(KEY_256)[0].clone()]).collect::<Vec<_>>();
    assert_eq!(refused(KEY_256, many(OFFERED_MAX)), TlsError::Unknown("0".to_owned()));
    drop(connected(KEY_256, many(OFFERED_MAX - 1)));
    let mut noise = version_1;
    noise.identity = "\u{1b}[2J".to_owned() + &"x".repeat(20_000);
    let TlsError::Unknown(shown) = refused(KEY_256, vec![noise]) else { panic!() };
    assert!(shown.len() < 600 && shown.starts_with("\\u{1b}[2J"), "{shown}");
}

/// A host's ClientHello.
fn hello(offered: Vec<TlsPsk>) -> Vec<u8> {
    let [one, other] = sockets();
    assert!(Connector::new(offered).unwrap().connect(&other).unwrap().negotiate().is_pending());
    let mut bytes = vec![0; 64 << 10];
    let (_, length) = recv(&*one, &mut bytes[..], RecvFlags::empty()).unwrap();
    bytes.truncate(length);
    bytes
}

// An unauthenticated host may send anything.
#[test]
fn hellos_that_are_cut_or_changed_are_refused() {
    const RECORD: usize = 5;
    const MESSAGE: usize = 4;
    let acceptor = acceptor(KEY_256);
    let whole = hello(psks(KEY_256));
    let message = &whole[RECORD + MESSAGE..];
    assert_eq!(Offer::parse(message).unwrap().psks().count(), 3);
    let refused = |bytes: &[u8], then_closed: bool| {
        let [one, other] = sockets();
        let mut target = acceptor.accept(&one).unwrap();
        rustix::net::send(&*other, bytes, rustix::net::SendFlags::empty()).unwrap();
        if then_closed {
            drop(other);
        }
        let outcome = target.negotiate();
        target.finish();
        outcome
    };
    for length in 1..whole.len() {
        assert!(Offer::parse(&message[..length.min(message.len() - 1)]).is_none());
        assert!(refused(&whole[..length], false).is_pending(), "{length}");
        assert!(matches!(refused(&whole[..length], true), Poll::Ready(Err(_))), "{length}");
    }
    // With a changed bit the server may wait for more, but not succeed; the binder covers everything except
    // itself.
    for bit in 0..whole.len() * 8 {
        let mut changed = whole.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let outcome = refused(&changed, false);
        let is_record_version = (8..24).contains(&bit);
        assert!(outcome.is_pending() || matches!(outcome, Poll::Ready(Err(_))), "{bit}");
        if outcome.is_pending() && !is_record_version {
            // Another key may still be bound: a changed binder affects only its own key.
            let offer = Offer::parse(&changed[RECORD + MESSAGE..]);
            let is_bound = offer.is_some_and(|offer| {
                offer.psks().any(|(identity, binder)| {
                    psks(KEY_256)
                        .iter()
                        .any(|psk| psk.identity.as_bytes() == identity && offer.is_bound_by(psk, binder))
                })
            });
            let is_length = bit < RECORD * 8 || (RECORD * 8..(RECORD + MESSAGE) * 8).contains(&bit);
            assert!(is_bound || is_length, "{bit}");
        }
    }
}

// Other protocols may connect to any port: the host gets no answer, and the log states the reason.
#[test]
fn what_is_no_tls_and_old_tls_are_refused() {
    let acceptor = acceptor(KEY_256);
    let outcome = |bytes: &[u8]| {
        let [one, other] = sockets();
        let mut target = acceptor.accept(&one).unwrap();
        rustix::net::send(&*other, bytes, rustix::net::SendFlags::empty()).unwrap();
        (target.negotiate(), other)
    };
    for text in [
        &[0, 0, 128, 0, 128, 0, 0, 0][..],
        b"GET / HTTP/1.1\r\n\r\n",
        &[0x80, 0x2E, 1, 0, 2],
        &[23, 3, 3, 0, 1, 0],
    ] {
        assert!(matches!(outcome(text).0, Poll::Ready(Err(TlsError::NotTls))), "{text:?}");
    }
    // TLS 1.2, with one of its cipher suites and no extensions.
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0xC0, 0x2F, 1, 0]);
    let mut old = vec![22, 3, 1, 0, body.len() as u8 + 4, 1, 0, 0, body.len() as u8];
    old.extend(body);
    assert!(matches!(outcome(&old).0, Poll::Ready(Err(_))));
}

// A connection may end with close_notify or without; both are an end of the data.
#[test]
fn the_end_is_an_end_with_a_word_and_without() {
    for has_word in [true, false] {
        let (mut target, mut host) = connected(KEY_256, psks(KEY_256));
        assert!(matches!(host.send(b"last"), Poll::Ready(Ok(4))));
        if has_word {
            host.finish();
        } else {
            drop(host);
        }
        let mut chunk = [0; 16];
        assert!(matches!(target.receive(&mut chunk), Poll::Ready(Ok(4))));
        assert!(matches!(target.receive(&mut chunk), Poll::Ready(Ok(0))));
        assert!(matches!(target.receive(&mut chunk), Poll::Ready(Ok(0))));
    }
}

// A host that sends endlessly must not monopolize a shared thread.
#[test]
fn no_more_is_taken_at_once_than_is_fair() {
    let (mut target, mut host) = connected(KEY_256, psks(KEY_256));
    let sent = vec![7; 1 << 20];
    let mut left = &sent[..];
    while let Poll::Ready(count) = host.send(&left[..left.len().min(4096)]) {
        left = &left[count.unwrap()..];
    }
    let mut chunk = vec![0; 1 << 20];
    let Poll::Ready(Ok(first)) = target.receive(&mut chunk) else { panic!() };
    assert!((64 << 10..=RECEIVE_BYTES).contains(&first), "{first}");
    assert!(matches!(target.receive(&mut chunk), Poll::Ready(Ok(1..))));
}

// Bytes changed in transit must not be accepted, and bytes before them must not be lost.
#[test]
fn changed_records_end_the_connection() {
    let (mut target, mut host) = connected(KEY_256, psks(KEY_256));
    assert!(matches!(host.send(b"good"), Poll::Ready(Ok(4))));
    let mut forged = vec![23, 3, 3, 0, 40];
    forged.extend([9; 40]);
    rustix::net::send(&*host.socket, &forged, rustix::net::SendFlags::empty()).unwrap();
    let mut chunk = [0; 64];
    assert!(matches!(target.receive(&mut chunk), Poll::Ready(Ok(4))));
    assert!(matches!(target.receive(&mut chunk), Poll::Ready(Err(TlsError::Protocol(_)))));
}
