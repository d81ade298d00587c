//! Key-value pairs over a fabric: the key is in the command, the value in the capsule, behind an R2T, or in C2HData.

use crate::host::{Host, by_transport, in_capsule, with_target_of};
use byteway_content::BlockSize;
use byteway_device::{DriveConfig, KvPolicy, NamespaceConfig};
use byteway_nvmeof::Target;
use byteway_testkit::drive_config;
use byteway_wire::FromBytes;
use byteway_wire::fabrics::tcp::Digests;
use byteway_wire::nvme::feature::fid;
use byteway_wire::nvme::identify::csi;
use byteway_wire::nvme::kv::identify::IdentifyNamespaceKv;
use byteway_wire::nvme::kv::list::keys;
use byteway_wire::nvme::kv::{KeyField, List, Retrieve, Store};
use byteway_wire::nvme::{
    AdminOpcode, Cns, CommandsSupportedLog, Flush, GetFeatures, GetLogPage, Identify, KvOpcode, NSID_ALL,
    NvmOpcode, ReadWrite, SetFeatures, Sqe, Status, lid,
};
use std::rc::Rc;

/// The KV namespace, behind the block namespaces.
const NSID: u32 = 3;

fn with_pairs(test: impl AsyncFnOnce(Rc<Target>) + 'static) {
    let mut drive: DriveConfig = drive_config();
    // Few blocks, to leave space for key-value pairs and their garbage collection.
    drive.namespaces.truncate(1);
    drive.namespaces.push(NamespaceConfig::blocks(64, BlockSize::B4096));
    drive.namespaces.push(NamespaceConfig::key_value(3 << 10));
    drive.kv = Some(KvPolicy {
        store: byteway_kv::KvConfig {
            segment_units: 64,
            memtable_bytes: 8 << 10,
            value_bytes_max: 24 << 10,
            ..byteway_kv::KvConfig::default()
        },
        ..KvPolicy::default()
    });
    with_target_of(drive, |_| (), async |target, _| test(target).await);
}

fn key(text: &str) -> KeyField {
    KeyField::new(text.as_bytes()).unwrap()
}

fn store(text: &str, bytes: usize) -> Sqe {
    Store { key: key(text), bytes: bytes as u32, ..Store::default() }.sqe(0, NSID)
}

fn retrieve(text: &str, bytes: u32) -> Sqe {
    by_transport(Retrieve { key: key(text), buffer_bytes: bytes, ..Retrieve::default() }.sqe(0, NSID), bytes)
}

fn value(seed: u8, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at as u8).wrapping_mul(17).wrapping_add(seed)).collect()
}

// Linux accepts KV namespaces from a controller only if it reports the effects of their commands (its driver
// reads page 05h for each command set), and nvme-cli shows the page: listed commands must be executed, and
// others refused.
#[test]
fn the_commands_that_are_listed_are_those_that_there_are() {
    with_pairs(async |target| {
        let mut admin = Host::admin(&target).await;
        let page = async |admin: &mut Host, csi: u8| {
            let numd_z = 4096 / 4 - 1;
            let lid = lid::COMMANDS_SUPPORTED;
            let command = GetLogPage { lid, csi, numd_z, rae: true, ..GetLogPage::default() };
            let answer = admin.ask(by_transport(command.sqe(0, NSID_ALL), 4096), &[]).await;
            assert_eq!(answer.cqe.status(), Status::SUCCESS);
            CommandsSupportedLog::read_from_bytes(&answer.data[..]).unwrap()
        };
        let path = target.subsystems()[0].path();
        for (csi, nsid) in [(csi::NVM, 1), (csi::KEY_VALUE, NSID)] {
            let listed = page(&mut admin, csi).await;
            for (opcode, entry) in (0..=u8::MAX).zip(listed.iocs) {
                let moved = path.movement(&Sqe::new(opcode, 0, nsid));
                let is_refused = moved.is_err_and(|status| status.is(Status::INVALID_OPCODE));
                assert_eq!(
                    entry & CommandsSupportedLog::CSUPP == 0,
                    is_refused,
                    "{csi}: opcode {opcode:#04x}"
                );
            }
            let write = if csi == csi::NVM { NvmOpcode::WRITE.0 } else { KvOpcode::STORE.0 };
            assert!(
                listed.iocs[usize::from(write)] & CommandsSupportedLog::LBCC != 0,
                "it changes what is there"
            );
        }
        let listed = page(&mut admin, csi::NVM).await;
        for (opcode, entry) in (0..=u8::MAX).zip(listed.acs) {
            let is_listed = entry & CommandsSupportedLog::CSUPP != 0;
            // One waits for an event, and the other is the fabric's.
            if opcode == AdminOpcode::ASYNC_EVENT_REQUEST.0 || opcode == 0x7F {
                assert_eq!(is_listed, opcode != 0x7F);
                continue;
            }
            let status = admin.ask(Sqe::new(opcode, 0, 0), &[]).await.cqe.status();
            assert_eq!(is_listed, !status.is(Status::INVALID_OPCODE), "opcode {opcode:#04x}: {status}");
        }
    });
}

// Values of every length by every way of data: a byte more or less is another value.
#[test]
fn what_is_stored_is_retrieved() {
    with_pairs(async |target| {
        let mut admin = Host::admin(&target).await;
        let identify =
            Identify { cns: Cns::COMMAND_SET_NAMESPACE, csi: csi::KEY_VALUE, ..Identify::default() };
        let data = admin.ask(by_transport(identify.sqe(0, NSID), 4096), &[]).await.data;
        let identity = IdentifyNamespaceKv::read_from_bytes(&data[..]).unwrap();
        assert_eq!((identity.nmic & 1, identity.format().vml), (1, 24 << 10));
        let mut io = Host::io(&target, &admin, 1, Digests::new().with_data(true)).await;
        for (number, bytes) in [0usize, 1, 3, 100, 4095, 4096, 8192, 20_001].into_iter().enumerate() {
            let (name, data) = (format!("key-{number}"), value(number as u8, bytes));
            let sqe = match bytes {
                0 => store(&name, 0),
                1..=8192 => in_capsule(store(&name, bytes), bytes as u32),
                _ => by_transport(store(&name, bytes), bytes as u32),
            };
            assert_eq!(io.ask(sqe, &data).await.cqe.status(), Status::SUCCESS, "{bytes}");
            let answer = io.ask(retrieve(&name, 24 << 10), &[]).await;
            assert_eq!((answer.cqe.status(), answer.cqe.dw0), (Status::SUCCESS, bytes as u32));
            assert!(answer.data == data, "{bytes}");
            // A smaller buffer receives the beginning, and the host learns the length of the value.
            let answer = io.ask(retrieve(&name, 2), &[]).await;
            assert_eq!((answer.cqe.dw0, &answer.data[..]), (bytes as u32, &data[..bytes.min(2)]));
            let exists = io.ask(key(&name).sqe(KvOpcode::EXIST, 0, NSID), &[]).await.cqe.status();
            assert_eq!(exists, Status::SUCCESS);
        }
        assert_eq!(io.ask(Flush.sqe(0, NSID), &[]).await.cqe.status(), Status::SUCCESS);
        let list = List { key: KeyField::default(), buffer_bytes: 4096 }.sqe(0, NSID);
        let listed = io.ask(by_transport(list, 4096), &[]).await.data;
        let names: Vec<String> = keys(&listed).map(|key| String::from_utf8(key.to_vec()).unwrap()).collect();
        assert_eq!(names, (0..8).map(|number| format!("key-{number}")).collect::<Vec<_>>());
        let delete = key("key-3").sqe(KvOpcode::DELETE, 0, NSID);
        assert_eq!(io.ask(delete, &[]).await.cqe.status(), Status::SUCCESS);
        for sqe in [delete, key("key-3").sqe(KvOpcode::EXIST, 0, NSID), retrieve("key-3", 100)] {
            assert!(io.ask(sqe, &[]).await.cqe.status().is(Status::KEY_DOES_NOT_EXIST));
        }
    });
}

// Each field that determines a length, and each length that the host describes differently.
#[test]
fn lengths_are_checked() {
    with_pairs(async |target| {
        let admin = Host::admin(&target).await;
        let mut io = Host::io(&target, &admin, 1, Digests::new()).await;
        let cases = [
            (by_transport(store("a", (24 << 10) + 1), 32 << 10), Status::INVALID_VALUE_SIZE),
            (by_transport(store("a", u32::MAX as usize), u32::MAX), Status::INVALID_VALUE_SIZE),
            (by_transport(store("a", 100), 99), Status::DATA_SGL_LENGTH_INVALID),
            (by_transport(store("a", 100), u32::MAX), Status::DATA_SGL_LENGTH_INVALID),
            (retrieve("a", (32 << 10) + 4), Status::INVALID_FIELD),
            (retrieve("a", u32::MAX), Status::INVALID_FIELD),
            (by_transport(store("", 4), 4), Status::INVALID_KEY_SIZE),
            (Sqe { cdw11: 17, ..key("a").sqe(KvOpcode::EXIST, 0, NSID) }, Status::INVALID_KEY_SIZE),
            (
                by_transport(List { key: KeyField::default(), buffer_bytes: 3 }.sqe(0, NSID), 3),
                Status::INVALID_FIELD,
            ),
            (List::default().sqe(0, NSID), Status::INVALID_FIELD),
            (Sqe::new(0x7Eu8, 0, NSID), Status::INVALID_OPCODE),
            (Sqe::new(0x95u8, 0, NSID), Status::INVALID_OPCODE),
        ];
        for (sqe, expected) in cases {
            let status = io.ask(sqe, &[1; 100]).await.cqe.status();
            assert!(status.is(expected), "{:#x} {:#x}: {status}", sqe.opcode(), sqe.cdw10);
        }
        // More data than the value is long: the command's length counts.
        let answer = io.ask(in_capsule(store("a", 5), 100), &[7; 100]).await;
        assert_eq!(answer.cqe.status(), Status::SUCCESS);
        assert_eq!(io.ask(retrieve("a", 100), &[]).await.data, [7; 5]);
    });
}

// The target's buffers are reused for other hosts: the unfilled part of a value or list must not show
// another's data.
#[test]
fn what_a_command_does_not_fill_is_not_anothers_data() {
    with_pairs(async |target| {
        let admin = Host::admin(&target).await;
        let mut other = Host::io(&target, &admin, 1, Digests::new()).await;
        let secret = [0x5E; 8192];
        let write = ReadWrite { slba: 0, nlb_z: 1, ..ReadWrite::default() }.sqe(NvmOpcode::WRITE, 0, 2);
        assert!(other.ask(by_transport(write, 8192), &secret).await.cqe.status().is_success());
        let mut io = Host::io(&target, &admin, 2, Digests::new()).await;
        assert!(io.ask(in_capsule(store("a", 3), 3), b"abc").await.cqe.status().is_success());
        for sqe in [
            retrieve("a", 8192),
            by_transport(List { buffer_bytes: 8192, ..List::default() }.sqe(0, NSID), 8192),
        ] {
            assert!(other.ask(by_transport(write, 8192), &secret).await.cqe.status().is_success());
            let data = io.ask(sqe, &[]).await.data;
            assert!(!data.contains(&0x5E), "{:#x}", sqe.opcode());
        }
    });
}

// Without this a host with several command sets could not use a key-value drive over a fabric; a command that
// would change the combination for other hosts is refused.
#[test]
fn the_drives_combination_of_command_sets_can_be_chosen() {
    with_pairs(async |target| {
        let mut admin = Host::admin(&target).await;
        admin.configure(true).await;
        let profile = |cdw11: u32, sv: bool| {
            SetFeatures { fid: fid::COMMAND_SET_PROFILE, cdw11, sv, ..SetFeatures::default() }.sqe(0, 0)
        };
        assert_eq!(admin.ask(profile(0, false), &[]).await.cqe.status(), Status::SUCCESS);
        let refused = Status::FEATURE_NOT_CHANGEABLE.with_dnr();
        assert_eq!(admin.ask(profile(1, false), &[]).await.cqe.status(), refused);
        assert!(!admin.ask(profile(0, true), &[]).await.cqe.status().is_success());
        let get = GetFeatures { fid: fid::COMMAND_SET_PROFILE, ..GetFeatures::default() }.sqe(0, 0);
        let cqe = admin.ask(get, &[]).await.cqe;
        assert_eq!((cqe.status(), cqe.dw0), (Status::SUCCESS, 0));
    });
}
