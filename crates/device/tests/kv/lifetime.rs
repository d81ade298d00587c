//! Lifetime of key-value pairs: write protection, format, deletion and creation, sanitize operations,
//! shutdown, power cuts, resets.

use super::pairs::{KV, KV_UNITS, all_sets, bench, keyed, store, with_pairs};
use crate::fixture::management::{delete, format, wanted};
use crate::fixture::power::power_cycle;
use crate::fixture::{Bench, NS_4K, TestHost, delete_sq, drive_config, pattern, set_features};
use byteway_clock::Delay;
use byteway_content::BlockSize;
use byteway_device::DriveConfig;
use byteway_wire::IntoBytes;
use byteway_wire::nvme::feature::WriteProtection;
use byteway_wire::nvme::identify::csi;
use byteway_wire::nvme::kv::identify::IdentifyNamespaceKv;
use byteway_wire::nvme::register::Csts;
use byteway_wire::nvme::{
    Abort, Flush, FormatNvm, KvOpcode, NSID_ALL, NamespaceManagement, Sanitize, SanitizeStatusLog, Sqe,
    Status, fid,
};

const NO_KEY: Status = Status::KEY_DOES_NOT_EXIST.with_dnr();

fn config(plp: bool) -> DriveConfig {
    let mut config = drive_config();
    with_pairs(&mut config);
    config.ftl.plp = plp;
    config
}

/// Enables for all command sets.
async fn enable(host: &TestHost) {
    host.set_admin_queues();
    host.set_cc(all_sets());
    host.csts_until(|csts: &Csts| csts.rdy()).await;
}

fn key(index: u32) -> [u8; 4] {
    index.to_be_bytes()
}

// Protected key-value pairs can be read, and not changed.
#[test]
fn protected_pairs_can_only_be_read() {
    bench().with_queue(async |host, pair| {
        assert_eq!(host.put(&pair, b"key", b"value").await, Status::SUCCESS);
        let protect = |state: WriteProtection| Sqe {
            nsid: KV,
            ..set_features(fid::NAMESPACE_WRITE_PROTECTION, state.bits())
        };
        host.succeed(protect(WriteProtection::Protected)).await;
        let protected = Status::NAMESPACE_WRITE_PROTECTED.with_dnr();
        assert_eq!(host.put(&pair, b"key", b"other").await, protected);
        assert_eq!(host.put(&pair, b"new", b"other").await, protected);
        assert_eq!(host.remove(&pair, b"key").await, protected);
        assert_eq!(host.admin(format(KV, BlockSize::B512, 0)).await.status(), protected);
        assert_eq!(host.value(&pair, b"key").await, Ok(b"value".to_vec()));
        assert_eq!(host.keys(&pair, b"", 64).await, Ok(vec![b"key".to_vec()]));
        host.succeed(protect(WriteProtection::None)).await;
        assert_eq!(host.remove(&pair, b"key").await, Status::SUCCESS);
    });
}

// A format that leaves a pair gives it to the next owner; one that takes another namespace's is worse.
#[test]
fn a_format_takes_all_pairs_and_nothing_else() {
    bench().with_queue(async |host, pair| {
        assert_eq!(host.write(&pair, NS_4K, 0, &pattern(1, 4096)).await, Status::SUCCESS);
        for index in 0..100 {
            assert_eq!(host.put(&pair, &key(index), &pattern(index.into(), 3000)).await, Status::SUCCESS);
        }
        let other = FormatNvm { lbaf: 1, ..FormatNvm::default() }.sqe(0, KV);
        host.refused(other, Status::INVALID_FORMAT).await;
        assert_eq!(host.has(&pair, &key(5)).await, Status::SUCCESS);
        host.succeed(FormatNvm { ses: FormatNvm::SES_USER_DATA, ..FormatNvm::default() }.sqe(0, KV)).await;
        assert_eq!(host.keys(&pair, b"", 4096).await, Ok(vec![]));
        assert_eq!(host.value(&pair, &key(5)).await, Err(NO_KEY));
        assert_eq!(host.read(&pair, NS_4K, 0, 1).await, pattern(1, 4096));
        assert_eq!(host.put(&pair, &key(5), b"again").await, Status::SUCCESS);
        host.succeed(format(NSID_ALL, BlockSize::B4096, 0)).await;
        assert_eq!(host.keys(&pair, b"", 4096).await, Ok(vec![]));
    });
}

// While it is formatted, a namespace is in neither state: commands must say so.
#[test]
fn commands_wait_for_a_format() {
    bench().with_queue(async |host, pair| {
        assert_eq!(host.put(&pair, b"key", b"value").await, Status::SUCCESS);
        let admin = host.admin_pair();
        let cid = host.submit(&admin.sq, format(KV, BlockSize::B512, 0));
        let mut seen = false;
        for _ in 0..200 {
            let status = host.has(&pair, b"key").await;
            seen |= status == Status::FORMAT_IN_PROGRESS;
            if status == NO_KEY {
                break;
            }
        }
        assert!(seen, "a format takes a while");
        assert_eq!(host.completion(&admin.cq, cid).await.status(), Status::SUCCESS);
        assert_eq!(host.has(&pair, b"key").await, NO_KEY);
    });
}

// Space that comes back with another's pairs in it is another tenant's data.
#[test]
fn namespaces_of_pairs_come_and_go() {
    bench().with_queue(async |host, pair| {
        for index in 0..50 {
            assert_eq!(host.put(&pair, &key(index), &pattern(index.into(), 2000)).await, Status::SUCCESS);
        }
        host.succeed(delete(KV)).await;
        assert_eq!(host.has(&pair, &key(1)).await, Status::INVALID_FIELD.with_dnr());
        // As blocks it reads as zeroes; as pairs it is empty.
        let nsid = host.create(KV_UNITS, 1).await;
        assert_eq!(nsid, KV);
        for block in [0, 1, 64, 1000, KV_UNITS - 1] {
            let (status, bytes) = host.try_read(&pair, nsid, block, 1, 4096).await;
            assert_eq!(status, Status::SUCCESS);
            assert!(bytes.iter().all(|byte| *byte == 0), "block {block}");
        }
        host.succeed(delete(nsid)).await;
        let create = |wanted: &IdentifyNamespaceKv| {
            let page = host.holding(wanted.as_bytes());
            let csi = csi::KEY_VALUE;
            NamespaceManagement { sel: NamespaceManagement::CREATE, csi }.sqe(0, 0).with_prp(page, 0)
        };
        let size = |nsze| IdentifyNamespaceKv { nsze, ..IdentifyNamespaceKv::default() };
        host.refused(create(&size(0)), Status::INVALID_FIELD).await;
        host.refused(create(&IdentifyNamespaceKv { kvfc: 1, ..size(1 << 20) }), Status::INVALID_FIELD).await;
        let more = size((KV_UNITS + 1) * 4096);
        host.refused(create(&more), Status::NAMESPACE_INSUFFICIENT_CAPACITY).await;
        let nsid = host.succeed(create(&size(KV_UNITS * 4096))).await;
        host.succeed(host.attach_sqe(nsid, true)).await;
        assert_eq!(host.keys(&pair, b"", 4096).await, Ok(vec![]));
        assert_eq!(host.put(&pair, b"key", b"value").await, Status::SUCCESS);
        host.succeed(host.attach_sqe(nsid, false)).await;
        assert_eq!(host.has(&pair, b"key").await, Status::INVALID_FIELD.with_dnr());
        host.succeed(host.attach_sqe(nsid, true)).await;
        assert_eq!(host.value(&pair, b"key").await, Ok(b"value".to_vec()));
    });
}

// A sanitize operation must leave no key-value pair on the media.
#[test]
fn a_sanitize_operation_takes_all_pairs() {
    bench().with_queue(async |host, pair| {
        for index in 0..50 {
            assert_eq!(host.put(&pair, &key(index), &pattern(index.into(), 2000)).await, Status::SUCCESS);
        }
        host.succeed(Sanitize { sanact: Sanitize::BLOCK_ERASE, ..Sanitize::default() }.sqe(0)).await;
        assert_eq!(host.has(&pair, &key(1)).await, Status::SANITIZE_IN_PROGRESS);
        while host.sanitize_status().await.sstat & 7 == SanitizeStatusLog::IN_PROGRESS & 7 {
            host.sleep(Delay::from_ms(1)).await;
        }
        assert_eq!(host.has(&pair, &key(1)).await, NO_KEY);
        assert_eq!(host.keys(&pair, b"", 4096).await, Ok(vec![]));
        assert_eq!(host.put(&pair, &key(1), b"value").await, Status::SUCCESS);
        assert_eq!(host.value(&pair, &key(1)).await, Ok(b"value".to_vec()));
    });
}

// A pair that was acknowledged and flushed, or that capacitors should have saved, must survive a power cut.
#[test]
fn pairs_outlive_the_power() {
    for plp in [false, true] {
        let ((), medium) = power_cycle(config(plp), None, async move |host| {
            enable(&host).await;
            let pair = host.create_pair(1, 64).await;
            for index in 0..300 {
                assert_eq!(host.put(&pair, &key(index), &pattern(index.into(), 700)).await, Status::SUCCESS);
            }
            for index in (0..300).step_by(3) {
                assert_eq!(host.remove(&pair, &key(index)).await, Status::SUCCESS);
            }
            if !plp {
                assert_eq!(host.io(&pair, Flush.sqe(0, KV)).await.status(), Status::SUCCESS);
            }
        });
        let ((), _) = power_cycle(config(plp), Some(medium), async |host| {
            enable(&host).await;
            let pair = host.create_pair(1, 64).await;
            let there: Vec<_> = (0..300).filter(|index| index % 3 != 0).collect();
            for index in &there {
                let value = pattern(u64::from(*index), 700);
                assert_eq!(host.value(&pair, &key(*index)).await, Ok(value), "key {index}");
            }
            let keys: Vec<Vec<u8>> = there.iter().map(|index| key(*index).to_vec()).collect();
            assert_eq!(host.keys(&pair, b"", 4096).await, Ok(keys));
            assert_eq!(host.put(&pair, &key(0), b"anew").await, Status::SUCCESS);
        });
    }
}

// A namespace that was created must be there after the power was off, with its pairs, and as what it is.
#[test]
fn an_orderly_shutdown_keeps_pairs_and_kinds() {
    let ((), medium) = power_cycle(config(false), None, async |host| {
        enable(&host).await;
        let pair = host.create_pair(1, 64).await;
        for index in 0..20 {
            assert_eq!(host.put(&pair, &key(index), &pattern(index.into(), 5000)).await, Status::SUCCESS);
        }
        host.set_cc(all_sets().with_shn(1));
        host.csts_until(|csts: &Csts| csts.shst() == Csts::SHST_COMPLETE).await;
    });
    let ((), _) = power_cycle(config(false), Some(medium), async |host| {
        enable(&host).await;
        let pair = host.create_pair(1, 64).await;
        for index in 0..20 {
            assert_eq!(host.value(&pair, &key(index)).await, Ok(pattern(index.into(), 5000)));
        }
        let (status, _) = host.try_read(&pair, KV, 0, 1, 512).await;
        assert_eq!(status, Status::INVALID_KEY_SIZE.with_dnr(), "it is one of pairs still");
    });
}

// A format that was interrupted must not bring pairs back.
#[test]
fn a_format_that_a_power_cut_interrupts_is_carried_through() {
    let ((), medium) = power_cycle(config(true), None, async |host| {
        enable(&host).await;
        let pair = host.create_pair(1, 64).await;
        for index in 0..50 {
            assert_eq!(host.put(&pair, &key(index), &pattern(index.into(), 2000)).await, Status::SUCCESS);
        }
        let admin = host.admin_pair();
        host.submit(&admin.sq, format(KV, BlockSize::B512, 0));
        while host.has(&pair, &key(1)).await != Status::FORMAT_IN_PROGRESS {}
    });
    let ((), _) = power_cycle(config(true), Some(medium), async |host| {
        enable(&host).await;
        let pair = host.create_pair(1, 64).await;
        assert_eq!(host.keys(&pair, b"", 4096).await, Ok(vec![]));
        assert_eq!(host.put(&pair, &key(0), b"anew").await, Status::SUCCESS);
    });
}

// Commands that end before their time must give everything back, and leave each pair as it was or as it was to be.
#[test]
fn aborts_deletions_and_resets_leave_old_or_new() {
    for what in 0..3 {
        Bench { ends_quiet: true, ..bench() }.enabled(async move |host| {
            let mut pair = host.create_pair(1, 64).await;
            for index in 0..16 {
                assert_eq!(host.put(&pair, &key(index), b"old").await, Status::SUCCESS);
            }
            for wait_ns in (0..40_000).step_by(2500) {
                let new = pattern(wait_ns, 9000);
                let mut cids = Vec::new();
                for index in 0..16 {
                    let sqe = match index % 4 {
                        3 => keyed(KvOpcode::EXIST, &key(index)),
                        _ => host.with_data(store(&key(index), new.len()).sqe(0, KV), &new),
                    };
                    cids.push(host.place(&pair.sq, sqe));
                }
                host.ring_tail(&pair.sq);
                host.sleep(Delay::from_ns(wait_ns)).await;
                match what {
                    0 => {
                        for cid in &cids {
                            host.succeed(Abort { sqid: 1, cid: *cid }.sqe(0)).await;
                        }
                        for cid in &cids {
                            let status = host.completion(&pair.cq, *cid).await.status();
                            assert!(
                                status == Status::SUCCESS || status == Status::ABORT_REQUESTED,
                                "{status} after {wait_ns} ns"
                            );
                        }
                    }
                    1 => {
                        host.succeed(delete_sq(1)).await;
                        host.succeed(crate::fixture::delete_cq(1)).await;
                        pair = host.create_pair(1, 64).await;
                    }
                    _ => {
                        host.disable().await;
                        host.enable().await;
                        pair = host.create_pair(1, 64).await;
                    }
                }
                for index in 0..16 {
                    let value = host.value(&pair, &key(index)).await.expect("there is one");
                    let is_right = value == b"old" || value == new;
                    assert!(is_right, "key {index} after {wait_ns} ns");
                    assert_eq!(host.put(&pair, &key(index), b"old").await, Status::SUCCESS);
                }
            }
        });
    }
}

// Sizes of what can be created follow the capacity, whatever kind it had.
#[test]
fn blocks_can_become_pairs() {
    bench().with_queue(async |host, pair| {
        assert_eq!(host.write(&pair, NS_4K, 7, &pattern(1, 4096)).await, Status::SUCCESS);
        host.succeed(delete(NS_4K)).await;
        let id = IdentifyNamespaceKv { nsze: 8192 * 4096, ..IdentifyNamespaceKv::default() };
        let page = host.holding(id.as_bytes());
        let management = NamespaceManagement { sel: NamespaceManagement::CREATE, csi: csi::KEY_VALUE };
        let nsid = host.succeed(management.sqe(0, 0).with_prp(page, 0)).await;
        assert_eq!(nsid, NS_4K);
        host.succeed(host.attach_sqe(nsid, true)).await;
        let exist = super::pairs::field(b"key").sqe(KvOpcode::EXIST, 0, nsid);
        assert_eq!(host.io(&pair, exist).await.status(), NO_KEY);
        let flush = host.io(&pair, Flush.sqe(0, nsid)).await;
        assert_eq!(flush.status(), Status::SUCCESS);
        host.refused(host.create_sqe(&wanted(1, 1)), Status::NAMESPACE_INSUFFICIENT_CAPACITY).await;
    });
}
