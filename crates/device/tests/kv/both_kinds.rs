//! Namespaces of both kinds on one drive: which hosts are notified of them, and which commands they accept.

use super::pairs::{KV, KV_UNITS, VALUE_BYTES_MAX, all_sets, bench, field, keyed, store};
use crate::fixture::{Bench, NS_4K, NS_512, pattern, read_write, set_features};
use byteway_clock::Delay;
use byteway_wire::FromBytes;
use byteway_wire::nvme::identify::csi;
use byteway_wire::nvme::kv::identify::{CommandSetCombinations, IdentifyNamespaceKv};
use byteway_wire::nvme::kv::{KeyField, List, Retrieve};
use byteway_wire::nvme::register::{self, Cap, Cc};
use byteway_wire::nvme::{
    ActiveNamespaceList, Cns, Flush, Identify, KvOpcode, NSID_ALL, NamespaceDescriptor, NvmOpcode, Status,
    VendorOpcode, fid,
};

// A command of the one kind that a namespace of the other executes destroys data under a name that no host gave it.
#[test]
fn commands_are_those_of_the_namespaces_kind() {
    bench().with_queue(async |host, pair| {
        let block = pattern(1, 4096);
        assert_eq!(host.write(&pair, NS_4K, 0, &block).await, Status::SUCCESS);
        assert_eq!(host.put(&pair, b"key", b"value").await, Status::SUCCESS);
        let page = host.holding(&pattern(2, 4096));
        let invalid = Status::INVALID_OPCODE.with_dnr();
        for opcode in NvmOpcode::ALL {
            // Write and Read are Store and Retrieve, and Flush is both kinds'.
            if !matches!(*opcode, NvmOpcode::WRITE | NvmOpcode::READ | NvmOpcode::FLUSH) {
                let sqe = read_write(*opcode, KV, 0, 1).with_prp(page, 0);
                assert_eq!(host.io(&pair, sqe).await.status(), invalid, "{opcode} on pairs");
            }
        }
        // A Write to pairs is a Store with a key of no bytes.
        let write = read_write(NvmOpcode::WRITE, KV, 0, 1).with_prp(page, 0);
        assert_eq!(host.io(&pair, write).await.status(), Status::INVALID_KEY_SIZE.with_dnr());
        for nsid in [NS_512, NS_4K] {
            for opcode in [KvOpcode::LIST, KvOpcode::DELETE, KvOpcode::EXIST] {
                let sqe = field(b"key").sqe(opcode, 0, nsid).with_prp(page, 0);
                assert_eq!(host.io(&pair, sqe).await.status(), invalid, "{opcode} on blocks");
            }
            for opcode in [VendorOpcode::KV_STORE_PIGGYBACK, VendorOpcode::KV_SEEK, VendorOpcode::KV_NEXT] {
                let sqe = field(b"key").sqe(opcode, 0, nsid).with_prp(page, 0);
                assert_eq!(host.io(&pair, sqe).await.status(), invalid, "{opcode} on blocks");
            }
        }
        assert_eq!(host.read(&pair, NS_4K, 0, 1).await, block);
        assert_eq!(host.value(&pair, b"key").await, Ok(b"value".to_vec()));
        assert_eq!(host.keys(&pair, b"", 4096).await, Ok(vec![b"key".to_vec()]));
        for nsid in [NS_4K, KV, NSID_ALL] {
            assert_eq!(host.io(&pair, Flush.sqe(0, nsid)).await.status(), Status::SUCCESS);
        }
    });
}

// A namespace that is not there must not be taken for one that is.
#[test]
fn unknown_namespaces_take_nothing() {
    bench().with_queue(async |host, pair| {
        let page = host.pages(1);
        for (nsid, status) in [
            (0, Status::INVALID_NAMESPACE),
            (4, Status::INVALID_FIELD),
            (129, Status::INVALID_NAMESPACE),
            (NSID_ALL, Status::INVALID_NAMESPACE),
        ] {
            for sqe in [
                field(b"key").sqe(KvOpcode::DELETE, 0, nsid),
                field(b"key").sqe(KvOpcode::EXIST, 0, nsid),
                List { key: KeyField::default(), buffer_bytes: 64 }.sqe(0, nsid),
                store(b"key", 64).sqe(0, nsid),
                Retrieve { key: field(b"key"), buffer_bytes: 64, ..Retrieve::default() }.sqe(0, nsid),
            ] {
                let status = status.with_dnr();
                assert_eq!(host.io(&pair, sqe.with_prp(page, 0)).await.status(), status, "namespace {nsid}");
            }
        }
    });
}

// A host that believes a wrong structure takes keys for blocks, or stores what the drive can't take.
#[test]
fn each_kind_is_described_as_what_it_is() {
    bench().with_queue(async |host, pair| {
        let cap = Cap::from_bits(host.read64(register::CAP).await);
        assert_eq!(cap.css(), 0b0100_0001);
        let identify = async |cns, csi, nsid| {
            let page = host.pages(1);
            let sqe = Identify { cns, csi, ..Identify::default() }.sqe(0, nsid).with_prp(page, 0);
            let status = host.admin(sqe).await.status();
            (status, host.peek(page, 4096))
        };
        let list = async |cns, csi| {
            let (status, page) = identify(cns, csi, 0).await;
            assert_eq!(status, Status::SUCCESS);
            let list = ActiveNamespaceList::read_from_bytes(&page).expect("a page is its size");
            list.iter().collect::<Vec<_>>()
        };
        assert_eq!(list(Cns::ACTIVE_NAMESPACES, 0).await, [1, 2, 3]);
        for cns in [Cns::COMMAND_SET_ACTIVE_NAMESPACES, Cns::COMMAND_SET_ALLOCATED_NAMESPACES] {
            assert_eq!(list(cns, csi::NVM).await, [1, 2]);
            assert_eq!(list(cns, csi::KEY_VALUE).await, [3]);
            assert_eq!(identify(cns, csi::ZONED, 0).await.0, Status::INVALID_FIELD.with_dnr());
        }
        for nsid in [NS_512, NS_4K, KV] {
            let (_, page) = identify(Cns::NAMESPACE_DESCRIPTORS, 0, nsid).await;
            let kind = if nsid == KV { csi::KEY_VALUE } else { csi::NVM };
            let is_kind = |descriptor| descriptor == NamespaceDescriptor::Csi(kind);
            assert!(NamespaceDescriptor::parse_list(&page).any(is_kind), "namespace {nsid}");
        }
        let wrong = Status::INVALID_COMMAND_SET.with_dnr();
        assert_eq!(identify(Cns::COMMAND_SET_NAMESPACE, csi::KEY_VALUE, NS_4K).await.0, wrong);
        assert_eq!(identify(Cns::COMMAND_SET_NAMESPACE, csi::NVM, KV).await.0, wrong);
        assert_eq!(identify(Cns::NAMESPACE, 0, KV).await.0, Status::INVALID_NAMESPACE.with_dnr());

        assert_eq!(host.put(&pair, b"key", &pattern(1, 40_000)).await, Status::SUCCESS);
        let (status, page) = identify(Cns::COMMAND_SET_NAMESPACE, csi::KEY_VALUE, KV).await;
        assert_eq!(status, Status::SUCCESS);
        let id = IdentifyNamespaceKv::read_from_bytes(&page).expect("a page is its size");
        assert_eq!((id.nsze, id.nkvf, id.kvfc), (KV_UNITS * 4096, 0, 0));
        assert!(id.nuse <= id.nsze);
        assert_eq!((id.format().kml, id.format().vml), (16, VALUE_BYTES_MAX));

        let (_, page) = identify(Cns::COMMAND_SETS, 0, 0).await;
        let all = CommandSetCombinations::read_from_bytes(&page).expect("a page is its size");
        assert_eq!((all.vectors[0], all.vectors[1]), (0b11, 0));
        assert_eq!(host.set_feature(fid::COMMAND_SET_PROFILE, 0).await, 0);
        assert_eq!(host.feature(fid::COMMAND_SET_PROFILE).await, 0);
        let other = set_features(fid::COMMAND_SET_PROFILE, 1);
        host.refused(other, Status::COMMAND_SET_COMBINATION_REJECTED).await;
    });
}

// A host that knows only blocks must not find a namespace that has none.
#[test]
fn a_host_of_blocks_sees_only_blocks() {
    let bench = Bench { cc: all_sets().with_css(Cc::CSS_NVM), ..bench() };
    bench.with_queue(async |host, pair| {
        let page = host.identify(Cns::ACTIVE_NAMESPACES, 0).await;
        let list = ActiveNamespaceList::read_from_bytes(&page).expect("a page is its size");
        assert_eq!(list.iter().collect::<Vec<_>>(), [1, 2]);
        let inactive = Status::INVALID_FIELD.with_dnr();
        assert_eq!(host.has(&pair, b"key").await, inactive);
        assert_eq!(host.put(&pair, b"key", b"value").await, inactive);
        let (status, _) = host.try_read(&pair, KV, 0, 1, 4096).await;
        assert_eq!(status, inactive);
        assert_eq!(host.write(&pair, NS_4K, 5, &pattern(3, 4096)).await, Status::SUCCESS);
    });
}

// A drive without that command set must be one that never heard of it: goldens and guests depend on that.
#[test]
fn a_drive_of_blocks_offers_nothing_of_it() {
    Bench::default().with_queue(async |host, pair| {
        assert_eq!(Cap::from_bits(host.read64(register::CAP).await).css(), 1);
        let page = host.pages(1);
        for cns in [Cns::COMMAND_SETS, Cns::COMMAND_SET_CONTROLLER, Cns::COMMAND_SET_ACTIVE_NAMESPACES] {
            let identify = Identify { cns, csi: csi::KEY_VALUE, ..Identify::default() };
            host.refused(identify.sqe(0, 0).with_prp(page, 0), Status::INVALID_FIELD).await;
        }
        host.refused(set_features(fid::COMMAND_SET_PROFILE, 0), Status::INVALID_FIELD).await;
        for opcode in [KvOpcode::DELETE, KvOpcode::EXIST, KvOpcode::LIST] {
            let sqe = field(b"key").sqe(opcode, 0, NS_4K).with_prp(page, 0);
            assert_eq!(host.io(&pair, sqe).await.status(), Status::INVALID_OPCODE.with_dnr());
        }
        assert_eq!(host.has(&pair, b"key").await, Status::INVALID_OPCODE.with_dnr());
    });
    Bench { cc: all_sets(), ends_quiet: false, ..Bench::default() }.run(async |host| {
        host.set_admin_queues();
        host.set_cc(all_sets());
        host.sleep(Delay::from_ms(1)).await;
        assert!(host.csts().await.cfs(), "command sets that are not offered can't be selected");
    });
}

// Pairs and blocks share flash, queues and slots: at once, none may get in the other's way.
#[test]
fn both_kinds_at_once() {
    bench().with_queue(async |host, pair| {
        let mut commands = Vec::new();
        for index in 0..20_u64 {
            let block = pattern(index, 4096);
            commands.push(host.write_sqe(NS_4K, index, &block));
            let value = pattern(100 + index, 100 * index as usize);
            commands.push(host.with_data(store(&index.to_le_bytes(), value.len()).sqe(0, KV), &value));
        }
        let cids: Vec<u16> = commands.into_iter().map(|sqe| host.place(&pair.sq, sqe)).collect();
        host.ring_tail(&pair.sq);
        for cid in cids {
            assert_eq!(host.completion(&pair.cq, cid).await.status(), Status::SUCCESS);
        }
        for index in 0..20_u64 {
            assert_eq!(host.read(&pair, NS_4K, index, 1).await, pattern(index, 4096));
            let value = pattern(100 + index, 100 * index as usize);
            assert_eq!(host.value(&pair, &index.to_le_bytes()).await, Ok(value));
        }
        assert_eq!(
            host.io(&pair, keyed(KvOpcode::EXIST, b"none")).await.status(),
            Status::KEY_DOES_NOT_EXIST.with_dnr()
        );
    });
}
