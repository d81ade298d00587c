//! Fabrics commands and authentication messages: each survives a round trip, and every parser accepts any bytes.

use byteway_wire::fabrics::auth::{
    AuthError, AuthReceive, AuthSend, Challenge, Descriptor, DhGroup, Explanation, Failure, HashFunction,
    Message, Negotiate, Reply, SecureChannel, SecurityProtocol, Success1, Success2,
};
use byteway_wire::fabrics::discovery::{DiscoveryEntry, DiscoveryHeader, DiscoveryLog};
use byteway_wire::fabrics::*;
use byteway_wire::nvme::{Cqe, SglDescriptor, Sqe};
use byteway_wire::{FromBytes, IntoBytes};
use proptest::prelude::*;

const DESCRIPTORS: usize = 2;

fn descriptors() -> [Descriptor; DESCRIPTORS] {
    [
        Descriptor::new(&[HashFunction::Sha512, HashFunction::Sha256], &[DhGroup::Ffdhe3072, DhGroup::Null]),
        Descriptor::new(&HashFunction::ALL, &DhGroup::ALL),
    ]
}

/// One message of each kind, with parts from `bytes`, which are at least 1024.
fn messages<'a>(bytes: &'a [u8], descriptors: &'a [Descriptor]) -> [Message<'a>; 9] {
    let failure = Failure::new(7, Explanation::GROUP_NOT_USABLE);
    let (hash, transaction) = (HashFunction::Sha384, 7);
    let reply = Reply {
        transaction,
        sequence: 9,
        response: &bytes[..32],
        challenge: Some(&bytes[32..64]),
        dh_value: &bytes[..1024],
    };
    let challenge = Challenge {
        transaction,
        hash,
        group: DhGroup::Ffdhe2048,
        sequence: 0x0102_0304,
        challenge: &bytes[..48],
        dh_value: &bytes[48..304],
    };
    [
        Message::Negotiate(Negotiate {
            transaction,
            secure_channel: SecureChannel::NEW_TLS_PSK,
            descriptors,
        }),
        Message::Challenge(challenge),
        Message::Reply(reply),
        Message::Reply(Reply { challenge: None, dh_value: &[], ..reply }),
        Message::Success1(Success1 { transaction, hash, response: Some(&bytes[..48]) }),
        Message::Success1(Success1 { transaction, hash, response: None }),
        Message::Success2(Success2 { transaction }),
        Message::Failure1(failure),
        Message::Failure2(failure),
    ]
}

/// Without this two implementations would not authenticate each other. Offsets: NVMe Base 2.1, 8.3.4.4 and 8.3.4.5.
#[test]
fn messages_lie_as_the_specification_says() {
    let bytes: Vec<u8> = (0..1024).map(|at| at as u8).collect();
    let descriptors = descriptors();
    let [negotiate, challenge, reply, unasked, success1, _, success2, failure1, failure2] =
        messages(&bytes, &descriptors).map(|message| message.to_bytes());
    assert_eq!(negotiate[..8], [0, 0, 0, 0, 7, 0, 2, 2]);
    assert_eq!(negotiate[8..16], [1, 0, 2, 2, 3, 1, 0, 0]);
    assert_eq!((&negotiate[8 + 34..8 + 37], negotiate.len()), (&[2, 0, 0][..], 8 + 2 * 64));
    assert_eq!(challenge[..18], [1, 1, 0, 0, 7, 0, 48, 0, 2, 1, 0, 1, 4, 3, 2, 1, 0, 1]);
    assert_eq!((challenge[64], challenge.len()), (48, 16 + 48 + 256));
    assert_eq!(reply[..17], [1, 2, 0, 0, 7, 0, 32, 0, 1, 0, 0, 4, 9, 0, 0, 0, 0]);
    assert_eq!((reply[48], reply[80], reply.len()), (32, 0, 16 + 64 + 1024));
    assert_eq!((&unasked[8..12], &unasked[48..]), (&[0; 4][..], &[0; 32][..]));
    assert_eq!(success1[..16], [1, 3, 0, 0, 7, 0, 48, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!((&success1[16..19], success1.len()), (&[0, 1, 2][..], 64));
    assert_eq!(success2, [1, 4, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(failure1, [0, 0xF1, 0, 0, 7, 0, 1, 5]);
    assert_eq!(failure2, [0, 0xF0, 0, 0, 7, 0, 1, 5]);
    assert_eq!(descriptors[0].hashes().collect::<Vec<_>>(), [HashFunction::Sha512, HashFunction::Sha256]);
    assert_eq!(descriptors[1].groups().collect::<Vec<_>>(), DhGroup::ALL);
}

/// Without this a truncated message would be read past its end, or one in a larger buffer refused.
#[test]
fn messages_survive_and_cut_ones_are_refused() {
    let bytes: Vec<u8> = (0..1024).map(|at| at as u8).collect();
    for message in messages(&bytes, &descriptors()) {
        let sent = message.to_bytes();
        assert_eq!(Message::parse(&sent), Ok(message));
        assert_eq!(Message::parse(&[&sent[..], &[0xAA; 9]].concat()), Ok(message));
        // Without a response its field may be omitted.
        let shortest = if matches!(message, Message::Success1(Success1 { response: None, .. })) {
            16
        } else {
            sent.len()
        };
        for length in 0..shortest {
            let error = Message::parse(&sent[..length]).unwrap_err();
            assert!(
                matches!(error, AuthError::Short { is, needs } if is == length && needs > length),
                "{error}"
            );
        }
    }
}

/// Without this a hostile host could choose lengths that no hash or group has.
#[test]
fn wrong_fields_of_messages_are_told_apart() {
    let bytes = [0xAA; 1024];
    let descriptors = descriptors();
    let [negotiate, challenge, reply, _, success1, ..] = messages(&bytes, &descriptors).map(|m| m.to_bytes());
    for (message, at, value, error) in [
        (&negotiate, 0, 2, AuthError::Unknown(2, 0)),
        (&negotiate, 1, 5, AuthError::Unknown(0, 5)),
        (&negotiate, 10, 0, AuthError::Length),
        (&negotiate, 10, 31, AuthError::Length),
        (&negotiate, 8 + 64 + 3, 31, AuthError::Length),
        (&challenge, 1, 5, AuthError::Unknown(1, 5)),
        (&challenge, 6, 47, AuthError::Length),
        (&challenge, 6, 32, AuthError::Length),
        (&challenge, 8, 4, AuthError::Hash(4)),
        (&challenge, 8, 1, AuthError::Length),
        (&challenge, 9, 6, AuthError::Group(6)),
        (&challenge, 9, 0, AuthError::Length),
        (&challenge, 10, 1, AuthError::Length),
        (&challenge, 11, 0, AuthError::Length),
        (&reply, 6, 0, AuthError::Length),
        (&reply, 8, 2, AuthError::Valid(2)),
        (&reply, 10, 1, AuthError::Length),
        (&success1, 8, 0xFF, AuthError::Valid(0xFF)),
    ] {
        let mut wrong = message.clone();
        wrong[at] = value;
        assert_eq!(Message::parse(&wrong), Err(error), "byte {at} of {:02X?}", &message[..2]);
    }
    // Another protocol's descriptor is skipped.
    let mut other = negotiate;
    (other[8], other[10]) = (9, 0);
    let Ok(Message::Negotiate(parsed)) = Message::parse(&other) else { panic!("it is an AUTH_Negotiate") };
    assert_eq!((parsed.descriptors[0].is_chap(), parsed.descriptors[0].hashes().count()), (false, 0));
}

/// A parsed and rebuilt entry parses to the same, and has no bit that the original did not have.
fn assert_rebuilds(sqe: &Sqe, command: FabricsCommand, built: Sqe) {
    assert_eq!(FabricsCommand::parse(&built), Some(command));
    for (was, is) in sqe.to_bytes()[40..].iter().zip(&built.to_bytes()[40..]) {
        assert_eq!(is & !was, 0, "{command:?} sets a bit of its own");
    }
    assert_eq!((built.opcode(), built.cid()), (0x7F, 0xABCD));
}

proptest! {
    /// Without this a controller would act on other parameters than those that the host meant.
    #[test]
    fn commands_rebuild(bytes: [u8; 64], sgl: [u8; 16]) {
        let data = SglDescriptor::from_bytes(&sgl);
        for code in 0..=u8::MAX {
            let mut sqe = Sqe::from_bytes(&bytes);
            sqe.set_opcode(0x7F_u8);
            sqe.nsid = sqe.nsid & !0xFF | u32::from(code);
            let command = FabricsCommand::parse(&sqe).unwrap();
            let built = match command {
                FabricsCommand::PropertySet(command) => command.sqe(0xABCD),
                FabricsCommand::Connect(command) => command.sqe(0xABCD, data),
                FabricsCommand::PropertyGet(command) => command.sqe(0xABCD),
                FabricsCommand::AuthSend(command) => command.sqe(0xABCD, data),
                FabricsCommand::AuthReceive(command) => command.sqe(0xABCD, data),
                FabricsCommand::Disconnect(command) => command.sqe(0xABCD),
                FabricsCommand::Unknown(unknown) => {
                    prop_assert_eq!(unknown, FabricsType(code));
                    continue;
                }
            };
            // Reserved attributes survive, too.
            assert_rebuilds(&sqe, command, built);
            prop_assert_eq!(built.psdt(), 0b01, "Linux's target takes nothing else");
        }
        if let Ok(pointer) = DataPointer::parse(&data) {
            prop_assert_eq!(DataPointer::parse(&pointer.descriptor()), Ok(pointer));
        }
    }

    /// Without this a response would change between controller and host, or a field lie where no other implementation
    /// looks.
    #[test]
    fn structures_survive(page in prop::collection::vec(any::<u8>(), 4096), cqe: [u8; 16], value: u64) {
        let bytes = &page[..1024];
        let data = ConnectData::read_from_bytes(bytes).unwrap();
        prop_assert_eq!(data.as_bytes(), bytes);
        let entry = DiscoveryEntry::read_from_bytes(bytes).unwrap();
        prop_assert_eq!(entry.as_bytes(), bytes);
        let header = DiscoveryHeader::read_from_bytes(bytes).unwrap();
        prop_assert_eq!(header.as_bytes(), bytes);
        let _ = format!("{data:?} {entry:?} {header:?}");
        if let Some((_, entries)) = DiscoveryLog::parse(&page) {
            prop_assert!(entries.count() <= 3);
        }

        let cqe = Cqe::from_bytes(&cqe);
        if let Some(connected) = Connected::parse(&cqe) {
            prop_assert_eq!(Connected::parse(&connected.cqe(1, 2)), Some(connected));
        }
        let get = PropertyGet { size: PropertySize::QWORD, offset: 0 };
        prop_assert_eq!(get.value(&PropertyGet::response(value, 1, 2)), value);
        let invalid = InvalidParameter { offset: value as u16, in_data: value >> 63 == 1 };
        prop_assert_eq!(InvalidParameter::parse(&invalid.cqe(1)), Some(invalid));
        let send = AuthSend { protocol: SecurityProtocol::NVME, transfer_bytes: value as u32 };
        let sqe = send.sqe(1, SglDescriptor::default());
        prop_assert_eq!(AuthReceive::parse(&sqe).protocol, SecurityProtocol::NVME);
    }

    /// Without this hostile bytes would panic a host or a controller, or be taken for another message when sent on.
    #[test]
    fn parsers_take_any_bytes(
        mut bytes in prop::collection::vec(any::<u8>(), 0..700),
        head in (0..3_u8, prop_oneof![0..6_u8, 0xEF..0xF2_u8], prop::sample::select(vec![0_u8, 32, 48, 64, 65])),
        lengths in (0..4_u8, 0..7_u8, 0..=1_u16),
        name in ".{0,40}",
    ) {
        if bytes.len() >= 12 {
            (bytes[0], bytes[1], bytes[6]) = head;
            (bytes[8], bytes[9]) = (lengths.0, lengths.1);
            bytes[10..12].copy_from_slice(&(lengths.2 * 256).to_le_bytes());
        }
        if let Ok(message) = Message::parse(&bytes) {
            let sent = message.to_bytes();
            prop_assert_eq!(Message::parse(&sent), Ok(message));
        }
        for name in [name.clone(), format!("nqn.2014-08.{name}"), format!("nqn.2014-08.a:{name}")] {
            if let Ok(nqn) = Nqn::new(&name) {
                prop_assert_eq!(Nqn::from_field(&nqn.field()), Ok(nqn));
                prop_assert_eq!(nqn.as_str(), name);
            }
        }
    }
}
