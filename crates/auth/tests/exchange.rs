//! Both ends against each other, and each against a peer that violates the protocol.
#![allow(clippy::unwrap_used, reason = "what a test can't do fails it")]

use byteway_auth::{
    Algorithms, Concatenation, Controller, Credentials, Endpoint, HostSecrets, Login, LoginError,
    NoRandomness, Progress, Provider, TakeError,
};
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::auth::{
    Challenge, Descriptor, DhGroup, Explanation, Failure, HashFunction, Message, Negotiate, Reply,
    SecureChannel, Success1, Success2,
};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555";
const SUBSYSTEM: &str = "nqn.2026-11.org.byteway:a";
/// Secrets: of the host, transformed and not; of the controller; and one that belongs to neither.
const SECRET: &str = "DHHC-1:01:kB5HZf02d83q8TfG7qIsXq/AOmoa2TpvbckY1N4T0OzkawRL:";
const CONTROLLER_SECRET: &str = "DHHC-1:00:dzQSBllT/Tkvweui5X8a2obJvM2E4Fy5BfFEdyWZyq7jLUS/:";
const OTHER: &str = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";

/// Random bytes from a seed; they run out after a given number.
struct Seeded(Cell<u64>, Cell<usize>);

impl Provider for Seeded {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        self.1.set(self.1.get().checked_sub(bytes.len()).ok_or(NoRandomness)?);
        for byte in bytes {
            self.0.set(self.0.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            *byte = (self.0.get() >> 33) as u8;
        }
        Ok(())
    }
}

fn endpoint(seed: u64, algorithms: Algorithms) -> Rc<Endpoint> {
    Rc::new(Endpoint::new(algorithms, Box::new(Seeded(Cell::new(seed), Cell::new(usize::MAX)))))
}

fn only(hash: HashFunction, group: DhGroup) -> Algorithms {
    Algorithms { hashes: vec![hash], groups: vec![group] }
}

fn secrets(host: &str, controller: Option<&str>) -> HostSecrets {
    let controller = controller.map(|text| text.parse().unwrap());
    HostSecrets { host: host.parse().unwrap(), controller }
}

fn names() -> (Nqn, Nqn) {
    (Nqn::new(HOST).unwrap(), Nqn::new(SUBSYSTEM).unwrap())
}

/// The output of a future that never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

fn controller_of(algorithms: Algorithms, secrets: &HostSecrets) -> Controller {
    let (host, subsystem) = names();
    Controller::new(&endpoint(1, algorithms), secrets, host, subsystem)
}

fn login_of(algorithms: Algorithms, secrets: &HostSecrets) -> Login {
    Login::new(&endpoint(2, algorithms), secrets, names(), 7)
}

/// Passes a message to the controller.
fn take(controller: &mut Controller, message: &[u8]) {
    now(controller.take(message)).unwrap();
}

/// Takes the controller's pending message for the host.
fn given(controller: &mut Controller) -> Vec<u8> {
    let message = controller.message().unwrap();
    controller.given();
    message
}

/// Runs a transaction between both ends; returns the outcome of each.
fn transact(login: &mut Login, controller: &mut Controller) -> (Result<(), LoginError>, Progress) {
    let mut talk = || {
        take(controller, &login.negotiate());
        let reply = now(login.reply(&given(controller)))?;
        take(controller, &reply);
        if let Some(last) = login.conclude(&given(controller))? {
            take(controller, &last);
        }
        Ok(())
    };
    let ended = talk();
    if let Some(failure) = ended.as_ref().err().and_then(|error| login.failure(error)) {
        take(controller, &failure);
    }
    (ended, controller.progress())
}

/// The controller's failure explanation for the last message.
fn refusal(controller: &mut Controller) -> Explanation {
    let message = given(controller);
    let Ok(Message::Failure1(failure)) = Message::parse(&message) else { panic!("{message:02X?}") };
    assert_eq!(controller.progress(), Progress::Failed(failure.explanation));
    failure.explanation
}

/// A controller that waits for the reply to this challenge.
fn challenged(algorithms: Algorithms, secrets: &HostSecrets) -> (Controller, Vec<u8>) {
    let mut controller = controller_of(algorithms.clone(), secrets);
    take(&mut controller, &login_of(algorithms, secrets).negotiate());
    let challenge = given(&mut controller);
    (controller, challenge)
}

// Finds a hash or a group that only one of the ends implements correctly.
#[test]
fn ends_authenticate_with_every_hash_and_group_one_way_and_both_ways() {
    for hash in HashFunction::ALL {
        for group in DhGroup::ALL {
            for controller_secret in [None, Some(CONTROLLER_SECRET)] {
                let secrets = secrets(SECRET, controller_secret);
                let mut controller = controller_of(Algorithms::default(), &secrets);
                let mut login = login_of(only(hash, group), &secrets);
                assert_eq!(transact(&mut login, &mut controller), (Ok(()), Progress::Authenticated));
                // Reauthentication.
                let mut again = login_of(only(hash, group), &secrets);
                assert_eq!(transact(&mut again, &mut controller), (Ok(()), Progress::Authenticated));
            }
        }
    }
}

// A stronger common algorithm is worth nothing if the weaker one is selected.
#[test]
fn the_controller_chooses_what_it_prefers() {
    let own = secrets(SECRET, None);
    for (algorithms, hash, group) in [
        (Algorithms::default(), HashFunction::Sha512, DhGroup::Ffdhe3072),
        (
            Algorithms { groups: vec![DhGroup::Ffdhe8192, DhGroup::Null], ..Algorithms::default() },
            HashFunction::Sha512,
            DhGroup::Ffdhe8192,
        ),
        (only(HashFunction::Sha384, DhGroup::Ffdhe2048), HashFunction::Sha384, DhGroup::Ffdhe2048),
    ] {
        let mut controller = controller_of(algorithms, &own);
        take(&mut controller, &login_of(Algorithms::default(), &own).negotiate());
        let message = given(&mut controller);
        let Ok(Message::Challenge(challenge)) = Message::parse(&message) else { panic!("no challenge") };
        assert_eq!((challenge.hash, challenge.group), (hash, group));
    }
}

// Without this, any host could claim any identity.
#[test]
fn an_end_with_another_secret_is_refused() {
    let refused = LoginError::Refused(Explanation::FAILED);
    for group in [DhGroup::Null, DhGroup::Ffdhe2048] {
        let algorithms = only(HashFunction::Sha256, group);
        let failed = Progress::Failed(Explanation::FAILED);
        for (host, controller, expected) in [
            (secrets(OTHER, None), secrets(SECRET, None), Err(refused)),
            // The untransformed form is another secret.
            (secrets(&SECRET.replace(":01:", ":00:"), None), secrets(SECRET, None), Err(refused)),
            (secrets(CONTROLLER_SECRET, None), secrets(SECRET, Some(CONTROLLER_SECRET)), Err(refused)),
            // The host requests a response that the controller has no secret for.
            (secrets(SECRET, Some(CONTROLLER_SECRET)), secrets(SECRET, None), Err(refused)),
            (
                secrets(SECRET, Some(OTHER)),
                secrets(SECRET, Some(CONTROLLER_SECRET)),
                Err(LoginError::NotAuthentic),
            ),
        ] {
            let (mut login, mut controller) =
                (login_of(algorithms.clone(), &host), controller_of(algorithms.clone(), &controller));
            assert_eq!(transact(&mut login, &mut controller), (expected, failed));
        }
        // The key of another NQN, or for another subsystem.
        let secrets = secrets(SECRET, None);
        let other = Nqn::new("nqn.2026-11.org.byteway:other").unwrap();
        for names in [(other, names().1), (names().0, other)] {
            let mut login = Login::new(&endpoint(3, algorithms.clone()), &secrets, names, 1);
            let mut controller = controller_of(algorithms.clone(), &secrets);
            assert_eq!(transact(&mut login, &mut controller), (Err(refused), failed));
        }
    }
}

// A controller that accepts any message at any time could be led past the verification.
#[test]
fn messages_out_of_order_fail_the_transaction() {
    let own = secrets(SECRET, Some(CONTROLLER_SECRET));
    let algorithms = only(HashFunction::Sha256, DhGroup::Null);
    let mut login = login_of(algorithms.clone(), &own);
    let (mut controller, challenge) = challenged(algorithms.clone(), &own);
    let reply = now(login.reply(&challenge)).unwrap();
    take(&mut controller, &reply);
    let success1 = given(&mut controller);
    let success2 = login.conclude(&success1).unwrap().unwrap();
    let negotiate = login.negotiate();
    let failure1 = Message::Failure1(Failure::new(7, Explanation::FAILED)).to_bytes();
    let all = [&negotiate, &challenge, &reply, &success1, &success2, &failure1];
    // Progress of the host, whether it has the controller's last message, and which message is then expected.
    for (said, has_heard, due) in [
        (&[][..], true, Some(&negotiate)),
        (&[&negotiate], false, None),
        (&[&negotiate], true, Some(&reply)),
        (&[&negotiate, &reply], false, None),
        (&[&negotiate, &reply], true, Some(&success2)),
    ] {
        for message in all.into_iter().filter(|message| Some(*message) != due) {
            let mut controller = controller_of(algorithms.clone(), &own);
            for (at, before) in said.iter().enumerate() {
                take(&mut controller, before);
                if has_heard || at + 1 < said.len() {
                    given(&mut controller);
                }
            }
            take(&mut controller, message);
            assert_eq!(refusal(&mut controller), Explanation::INCORRECT_MESSAGE);
        }
    }
    // A message of no transaction changes nothing on an authenticated queue.
    take(&mut controller, &success2);
    for message in [&challenge, &reply, &success1, &success2, &failure1, &vec![]] {
        assert_eq!(now(controller.take(message)), Err(TakeError::OutOfSequence));
        assert_eq!(controller.progress(), Progress::Authenticated);
    }
}

// The host controls every field of a message, and so every wrong value in it.
#[test]
fn each_wrong_field_has_its_explanation() {
    let own = secrets(SECRET, None);
    let descriptor = |hashes: &[HashFunction], groups: &[DhGroup]| Descriptor::new(hashes, groups);
    let good = descriptor(&HashFunction::ALL, &DhGroup::ALL);
    let none = SecureChannel::NONE;
    for (secure_channel, descriptors, explanation) in [
        (SecureChannel::NEW_TLS_PSK, vec![good], Explanation::SECURE_CHANNEL_MISMATCH),
        (SecureChannel(1), vec![good], Explanation::SECURE_CHANNEL_MISMATCH),
        (none, vec![], Explanation::PROTOCOL_NOT_USABLE),
        (none, vec![Descriptor { auth_id: 2, ..good }; 9], Explanation::PROTOCOL_NOT_USABLE),
        (none, vec![Descriptor { hash_ids: [9; 30], ..good }], Explanation::HASH_NOT_USABLE),
        (none, vec![descriptor(&[HashFunction::Sha512], &DhGroup::ALL)], Explanation::HASH_NOT_USABLE),
        (none, vec![Descriptor { dhg_ids: [0xC0; 30], ..good }], Explanation::GROUP_NOT_USABLE),
        (none, vec![descriptor(&HashFunction::ALL, &[DhGroup::Ffdhe8192])], Explanation::GROUP_NOT_USABLE),
        (none, vec![Descriptor { halen: 0, ..good }], Explanation::INCORRECT_PAYLOAD),
        (none, vec![Descriptor { dhlen: 31, ..good }], Explanation::INCORRECT_PAYLOAD),
    ] {
        let mut controller = controller_of(only(HashFunction::Sha256, DhGroup::Null), &own);
        let negotiate = Negotiate { transaction: 0xABCD, secure_channel, descriptors: &descriptors };
        take(&mut controller, &Message::Negotiate(negotiate).to_bytes());
        let message = controller.message().unwrap();
        let Ok(Message::Failure1(failure)) = Message::parse(&message) else { panic!("{message:02X?}") };
        assert_eq!(failure.explanation, explanation);
        // Nothing is known about an unreadable message.
        let is_read = explanation != Explanation::INCORRECT_PAYLOAD;
        assert_eq!(failure.transaction, if is_read { 0xABCD } else { 0 });
    }

    let own = secrets(SECRET, Some(CONTROLLER_SECRET));
    for group in [DhGroup::Null, DhGroup::Ffdhe2048] {
        let algorithms = only(HashFunction::Sha384, group);
        let edit = |change: &dyn Fn(&mut Parts)| {
            let (mut controller, challenge) = challenged(algorithms.clone(), &own);
            let reply = now(login_of(algorithms.clone(), &own).reply(&challenge)).unwrap();
            let Ok(Message::Challenge(asked)) = Message::parse(&challenge) else { panic!("no challenge") };
            let mut parts = Parts::of(&reply, asked.challenge);
            change(&mut parts);
            take(&mut controller, &parts.bytes());
            refusal(&mut controller)
        };
        type Change<'a> = &'a dyn Fn(&mut Parts);
        let cases: [(Change, Explanation); 9] = [
            (&|parts| parts.transaction += 1, Explanation::INCORRECT_PAYLOAD),
            (&|parts| parts.response[0] ^= 1, Explanation::FAILED),
            (&|parts| parts.response[47] ^= 0x80, Explanation::FAILED),
            (&|parts| parts.response.fill(0), Explanation::FAILED),
            (&|parts| parts.resize(32), Explanation::INCORRECT_PAYLOAD),
            (&|parts| parts.resize(64), Explanation::INCORRECT_PAYLOAD),
            (&|parts| parts.sequence = 0, Explanation::INCORRECT_PAYLOAD),
            (&|parts| parts.challenge = Some(parts.asked.clone()), Explanation::FAILED),
            (&|parts| parts.dh_value.push(2), Explanation::INCORRECT_PAYLOAD),
        ];
        for (change, explanation) in cases {
            assert_eq!(edit(change), explanation, "{group:?}");
        }
        if group != DhGroup::Null {
            let weak: [(Change, Explanation); 5] = [
                (&|parts| parts.dh_value.clear(), Explanation::INCORRECT_PAYLOAD),
                (&|parts| parts.dh_value = vec![0; 256], Explanation::INCORRECT_PAYLOAD),
                (&|parts| parts.dh_value = vec![1], Explanation::INCORRECT_PAYLOAD),
                (&|parts| parts.dh_value = vec![0xFF; 256], Explanation::INCORRECT_PAYLOAD),
                (&|parts| parts.dh_value = vec![7; 256], Explanation::FAILED),
            ];
            for (change, explanation) in weak {
                assert_eq!(edit(change), explanation);
            }
        }
    }
}

// A host with a different key cannot connect with TLS; a key that is available before authentication admits
// any host.
#[test]
fn both_ends_generate_the_same_key() {
    for hash in [HashFunction::Sha256, HashFunction::Sha384] {
        for (group, controller_secret, asked, taken) in [
            (DhGroup::Ffdhe2048, None, SecureChannel::NEW_TLS_PSK, Concatenation::Offered),
            (
                DhGroup::Ffdhe3072,
                Some(CONTROLLER_SECRET),
                SecureChannel::NEW_TLS_PSK,
                Concatenation::Required,
            ),
            (
                DhGroup::Ffdhe2048,
                Some(CONTROLLER_SECRET),
                SecureChannel::REPLACE_TLS_PSK,
                Concatenation::Replacing,
            ),
        ] {
            let secrets = secrets(SECRET, controller_secret);
            let mut controller = controller_of(Algorithms::default(), &secrets).concatenating(taken);
            let mut login = login_of(only(hash, group), &secrets).concatenating(asked);
            take(&mut controller, &login.negotiate());
            let reply = now(login.reply(&given(&mut controller))).unwrap();
            take(&mut controller, &reply);
            assert!(controller.take_generated().is_none() && login.generated().is_none());
            let last = login.conclude(&given(&mut controller)).unwrap();
            if let Some(last) = last {
                assert!(controller.take_generated().is_none());
                take(&mut controller, &last);
            }
            let (own, other) = (controller.take_generated().unwrap(), login.generated().unwrap());
            assert_eq!((own.hash(), own.key()), (other.hash(), other.key()));
            assert_eq!((own.hash(), own.key().len()), (hash, hash.bytes()));
            assert!(controller.take_generated().is_none());
        }
    }
    // A refused end keeps no key, and no key is generated unless requested.
    let good = secrets(SECRET, Some(CONTROLLER_SECRET));
    let algorithms = only(HashFunction::Sha256, DhGroup::Ffdhe2048);
    for (host, asked) in [
        (secrets(OTHER, None), SecureChannel::NEW_TLS_PSK),
        (secrets(SECRET, Some(OTHER)), SecureChannel::NEW_TLS_PSK),
        (good.clone(), SecureChannel::NONE),
    ] {
        let mut controller = controller_of(algorithms.clone(), &good).concatenating(Concatenation::Offered);
        let mut login = login_of(algorithms.clone(), &host).concatenating(asked);
        let (ended, _) = transact(&mut login, &mut controller);
        assert_eq!(ended.is_ok(), asked == SecureChannel::NONE);
        assert!(controller.take_generated().is_none() && login.generated().is_none());
    }
}

// The requested secure channel has to be allowed on this queue; otherwise the host would continue unencrypted
// where it must not.
#[test]
fn secure_channels_are_negotiated_where_they_may_be() {
    let own = secrets(SECRET, None);
    let answer = |taken: Concatenation, asked: u8, descriptor: Descriptor| {
        let mut controller = controller_of(Algorithms::default(), &own).concatenating(taken);
        let negotiate =
            Negotiate { transaction: 1, secure_channel: SecureChannel(asked), descriptors: &[descriptor] };
        take(&mut controller, &Message::Negotiate(negotiate).to_bytes());
        let message = given(&mut controller);
        match Message::parse(&message) {
            Ok(Message::Challenge(challenge)) => Ok((challenge.hash, challenge.group)),
            Ok(Message::Failure1(failure)) => Err(failure.explanation),
            other => panic!("{other:?}"),
        }
    };
    let groups = [DhGroup::Ffdhe2048, DhGroup::Ffdhe3072];
    let good = Descriptor::new(&HashFunction::ALL, &groups);
    for (taken, takes) in [
        (Concatenation::Refused, [true, false, false, false]),
        (Concatenation::Offered, [true, false, true, false]),
        (Concatenation::Required, [false, false, true, false]),
        (Concatenation::Replacing, [true, false, false, true]),
    ] {
        for (asked, is_taken) in (0..).zip(takes) {
            let expected = match (is_taken, asked) {
                (false, _) => Err(Explanation::SECURE_CHANNEL_MISMATCH),
                (true, 0) => Ok((HashFunction::Sha512, DhGroup::Ffdhe3072)),
                // No cipher suite of TLS 1.3 uses SHA-512.
                (true, _) => Ok((HashFunction::Sha384, DhGroup::Ffdhe3072)),
            };
            assert_eq!(answer(taken, asked, good), expected, "{taken:?} {asked}");
        }
    }
    let null = Descriptor::new(&HashFunction::ALL, &[DhGroup::Ffdhe3072, DhGroup::Null]);
    assert_eq!(answer(Concatenation::Offered, 2, null), Err(Explanation::GROUP_NOT_USABLE));
    assert!(answer(Concatenation::Offered, 0, null).is_ok());
    let long = Descriptor::new(&[HashFunction::Sha512], &groups);
    assert_eq!(answer(Concatenation::Offered, 2, long), Err(Explanation::HASH_NOT_USABLE));
}

// C2 is an input of the key. A nonzero S2 requests a response; zero requests none.
#[test]
fn a_key_needs_the_hosts_challenge() {
    let algorithms = only(HashFunction::Sha256, DhGroup::Ffdhe2048);
    let own = secrets(SECRET, None);
    let mut controller = controller_of(algorithms.clone(), &own).concatenating(Concatenation::Offered);
    let mut login = login_of(algorithms.clone(), &own).concatenating(SecureChannel::NEW_TLS_PSK);
    take(&mut controller, &login.negotiate());
    let reply = now(login.reply(&given(&mut controller))).unwrap();
    let Ok(Message::Reply(parsed)) = Message::parse(&reply) else { panic!("no reply") };
    assert!(parsed.challenge.is_some() && parsed.sequence == 0);
    let without = Message::Reply(Reply { challenge: None, ..parsed }).to_bytes();
    take(&mut controller, &without);
    assert_eq!(refusal(&mut controller), Explanation::INCORRECT_PAYLOAD);
    assert!(controller.take_generated().is_none());
}

/// A reply in parts that can be changed.
struct Parts {
    transaction: u16,
    sequence: u32,
    response: Vec<u8>,
    challenge: Option<Vec<u8>>,
    dh_value: Vec<u8>,
    /// The controller's challenge.
    asked: Vec<u8>,
}

impl Parts {
    fn of(reply: &[u8], asked: &[u8]) -> Parts {
        let Ok(Message::Reply(reply)) = Message::parse(reply) else { panic!("no reply") };
        Parts {
            transaction: reply.transaction,
            sequence: reply.sequence,
            response: reply.response.to_vec(),
            challenge: reply.challenge.map(<[u8]>::to_vec),
            dh_value: reply.dh_value.to_vec(),
            asked: asked.to_vec(),
        }
    }

    fn resize(&mut self, bytes: usize) {
        self.response.resize(bytes, 0);
        if let Some(challenge) = &mut self.challenge {
            challenge.resize(bytes, 0);
        }
    }

    fn bytes(&self) -> Vec<u8> {
        Message::Reply(Reply {
            transaction: self.transaction,
            sequence: self.sequence,
            response: &self.response,
            challenge: self.challenge.as_deref(),
            dh_value: &self.dh_value,
        })
        .to_bytes()
    }
}

// An eavesdropper on one transaction must not be able to replay it in another.
#[test]
fn a_reply_is_no_answer_to_another_challenge() {
    let own = secrets(SECRET, None);
    for group in [DhGroup::Null, DhGroup::Ffdhe2048] {
        let algorithms = only(HashFunction::Sha512, group);
        let shared = endpoint(1, algorithms.clone());
        let (host, subsystem) = names();
        let open = || {
            let mut controller = Controller::new(&shared, &own, host, subsystem);
            take(&mut controller, &login_of(algorithms.clone(), &own).negotiate());
            let challenge = given(&mut controller);
            (controller, challenge)
        };
        let (mut first, challenge) = open();
        let reply = now(login_of(algorithms.clone(), &own).reply(&challenge)).unwrap();
        let (mut second, other) = open();
        let sequence = |bytes: &[u8]| match Message::parse(bytes) {
            Ok(Message::Challenge(challenge)) => challenge.sequence,
            other => panic!("{other:?}"),
        };
        assert_eq!(sequence(&other), sequence(&challenge).wrapping_add(1));
        take(&mut second, &reply);
        assert_eq!(refusal(&mut second), Explanation::FAILED);
        take(&mut first, &reply);
        assert!(matches!(Message::parse(&given(&mut first)), Ok(Message::Success1(_))));
        // Nor a second time in the same transaction.
        assert_eq!(now(first.take(&reply)), Err(TakeError::OutOfSequence));
    }
}

// A truncated message is invalid at every length.
#[test]
fn messages_that_are_cut_off_fail_the_transaction() {
    let own = secrets(SECRET, Some(CONTROLLER_SECRET));
    let algorithms = only(HashFunction::Sha256, DhGroup::Ffdhe2048);
    let negotiate = login_of(algorithms.clone(), &own).negotiate();
    for end in 0..negotiate.len() {
        let mut controller = controller_of(algorithms.clone(), &own);
        take(&mut controller, &negotiate[..end]);
        assert_eq!(refusal(&mut controller), Explanation::INCORRECT_PAYLOAD, "{end}");
    }
    let (_, challenge) = challenged(algorithms.clone(), &own);
    let reply = now(login_of(algorithms.clone(), &own).reply(&challenge)).unwrap();
    for end in 0..reply.len() {
        let (mut controller, _) = challenged(algorithms.clone(), &own);
        take(&mut controller, &reply[..end]);
        assert_eq!(refusal(&mut controller), Explanation::INCORRECT_PAYLOAD, "{end}");
    }
    let mut login = login_of(algorithms.clone(), &own);
    for end in 0..challenge.len() {
        let error = now(login.reply(&challenge[..end])).unwrap_err();
        assert!(matches!(error, LoginError::Malformed(_)), "{end}");
        assert!(login.failure(&error).is_some());
    }
}

// A host must not trust another controller, nor reveal its response to it.
#[test]
fn a_host_believes_no_controller() {
    let own = secrets(SECRET, Some(CONTROLLER_SECRET));
    let algorithms = only(HashFunction::Sha256, DhGroup::Ffdhe2048);
    let dh_value = [5; 256];
    let challenge = Challenge {
        transaction: 7,
        hash: HashFunction::Sha256,
        group: DhGroup::Ffdhe2048,
        sequence: 1,
        challenge: &[3; 32],
        dh_value: &dh_value,
    };
    let answered = |challenge: Challenge<'_>| {
        now(login_of(algorithms.clone(), &own).reply(&Message::Challenge(challenge).to_bytes())).map(|_| ())
    };
    assert_eq!(answered(challenge), Ok(()));
    for (wrong, error) in [
        (Challenge { transaction: 8, ..challenge }, LoginError::Unexpected),
        (Challenge { sequence: 0, ..challenge }, LoginError::Challenge),
        (Challenge { dh_value: &[1], ..challenge }, LoginError::Challenge),
        (Challenge { dh_value: &[0xFF; 256], ..challenge }, LoginError::Challenge),
        (Challenge { group: DhGroup::Null, dh_value: &[], ..challenge }, LoginError::Challenge),
        (Challenge { hash: HashFunction::Sha384, challenge: &[3; 48], ..challenge }, LoginError::Challenge),
    ] {
        assert_eq!(answered(wrong), Err(error));
    }
    let concluded = |success: Success1<'_>| {
        let mut login = login_of(algorithms.clone(), &own);
        now(login.reply(&Message::Challenge(challenge).to_bytes())).unwrap();
        login.conclude(&Message::Success1(success).to_bytes()).map(|_| ())
    };
    let success = Success1 { transaction: 7, hash: HashFunction::Sha256, response: Some(&[9; 32]) };
    for (wrong, error) in [
        (success, LoginError::NotAuthentic),
        (Success1 { response: None, ..success }, LoginError::NotAuthentic),
        (Success1 { transaction: 8, ..success }, LoginError::Unexpected),
        (
            Success1 { hash: HashFunction::Sha384, response: Some(&[9; 48]), ..success },
            LoginError::Unexpected,
        ),
    ] {
        assert_eq!(concluded(wrong), Err(error));
    }
    let mut login = login_of(algorithms.clone(), &own);
    let success2 = Message::Success2(Success2 { transaction: 7 }).to_bytes();
    assert_eq!(now(login.reply(&success2)), Err(LoginError::Unexpected));
    let failure1 = Message::Failure1(Failure::new(7, Explanation::HASH_NOT_USABLE)).to_bytes();
    let refused = LoginError::Refused(Explanation::HASH_NOT_USABLE);
    assert_eq!(now(login.reply(&failure1)), Err(refused));
    assert_eq!(login.failure(&refused), None);
}

// Without random bytes a challenge could repeat an answered one.
#[test]
fn an_end_without_random_bytes_asks_nothing() {
    let own = secrets(SECRET, Some(CONTROLLER_SECRET));
    let algorithms = only(HashFunction::Sha256, DhGroup::Ffdhe2048);
    for bytes in [0, 4, 35, 36, 67] {
        let provider = Box::new(Seeded(Cell::new(1), Cell::new(bytes)));
        let poor = Rc::new(Endpoint::new(algorithms.clone(), provider));
        let (host, subsystem) = names();
        let mut controller = Controller::new(&poor, &own, host, subsystem);
        let negotiate = login_of(algorithms.clone(), &own).negotiate();
        assert_eq!(now(controller.take(&negotiate)), Err(TakeError::NoRandomness(NoRandomness)), "{bytes}");
        assert_eq!((controller.progress(), controller.message()), (Progress::Idle, None));
        let (_, challenge) = challenged(algorithms.clone(), &own);
        let mut login = Login::new(&poor, &own, names(), 7);
        assert_eq!(now(login.reply(&challenge)), Err(LoginError::NoRandomness(NoRandomness)), "{bytes}");
    }
}

// Credentials are looked up by the complete NQN.
#[test]
fn credentials_are_those_of_one_name() {
    let (host, subsystem) = names();
    let hosts = BTreeMap::from([(host, secrets(SECRET, None))]);
    let credentials = Credentials::new(Algorithms::default(), hosts);
    assert!(credentials.of(&host).is_some() && credentials.of(&subsystem).is_none());
    assert!(credentials.has(&host) && !credentials.has(&subsystem) && credentials.count() == 1);
    // Every clone sees the replacement, and which hosts changed.
    let (clone, none) = (credentials.clone(), Credentials::default());
    assert_eq!((credentials.changed(&clone), credentials.changed(&none)), (vec![], vec![host]));
    credentials.replace(&none);
    assert!(!clone.has(&host));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    // No sequence of messages authenticates a host without its secret.
    #[test]
    fn noise_authenticates_nobody(
        messages in proptest::collection::vec((0u8..8, proptest::collection::vec(any::<u8>(), 0..300), 0usize..400, any::<u8>()), 1..12),
    ) {
        let own = secrets(SECRET, Some(CONTROLLER_SECRET));
        let algorithms = only(HashFunction::Sha256, DhGroup::Null);
        let mut controller = controller_of(algorithms.clone(), &own);
        let guess = secrets(OTHER, Some(OTHER));
        let mut login = login_of(algorithms, &guess);
        let mut heard = Vec::new();
        for (kind, noise, at, bit) in messages {
            let mut message = match kind {
                0 | 1 => login.negotiate(),
                2 | 3 => now(login.reply(&heard)).unwrap_or(noise),
                4 => Message::Success2(Success2 { transaction: 7 }).to_bytes(),
                5 => { controller.refuse(); noise }
                _ => noise,
            };
            if kind % 2 == 1 && !message.is_empty() {
                let at = at % message.len();
                message[at] ^= bit;
            }
            let _ = now(controller.take(&message));
            if let Some(message) = controller.message() {
                prop_assert!(message.len() <= 1168);
                heard = message;
                controller.given();
            }
            prop_assert_ne!(controller.progress(), Progress::Authenticated);
        }
    }
}
