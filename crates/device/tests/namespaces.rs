//! Namespace Management and Attachment (NVMe Base 2.1, 5.1.20, 5.1.21 and 8.1.15): creation, attachment,
//! detachment and deletion in any order; the capacity of each namespace; and that no look-up finds a deleted
//! one.

use crate::fixture;
use crate::fixture::management::{delete, wanted};
use crate::fixture::{Bench, NS_4K, NS_4K_UNITS, NS_512, NS_512_UNITS, TestHost, pattern, read_write};
use byteway_clock::Delay;
use byteway_wire::nvme::feature::AsyncEventConfig;
use byteway_wire::nvme::{
    ActiveNamespaceList, AsyncEvent, ChangedNamespaceLog, Cns, ControllerList, Copy, CopyRange,
    DatasetManagement, ErrorLogEntry, GetLogPage, GranularityList, Identify, IdentifyNamespace, NSID_ALL,
    NamespaceAttachment, NamespaceManagement, NvmOpcode, Range, Status, fid, lid,
};
use byteway_wire::{FromBytes, IntoBytes};

async fn list(host: &TestHost, cns: Cns) -> Vec<u32> {
    let page = host.identify(cns, 0).await;
    ActiveNamespaceList::read_from_bytes(&page).expect("a page is as long as its structure").iter().collect()
}

// A host sizes what it creates by these figures; were they wrong, it would get less than it pays for.
#[test]
fn namespaces_come_and_go_and_capacity_with_them() {
    Bench::default().with_queue(async |host, pair| {
        let all = u128::from(NS_512_UNITS + NS_4K_UNITS) * 4096;
        assert_eq!(host.capacity().await, (all, 0));
        host.refused(host.create_sqe(&wanted(3, 1)), Status::NAMESPACE_INSUFFICIENT_CAPACITY).await;
        let log = host.log(lid::ERROR_INFORMATION, 0, 64).await;
        let entry = ErrorLogEntry::read_from_bytes(&log).expect("a page is as long as its structure");
        assert_eq!(entry.command_specific, 3 * 4096, "how much it would have taken");
        host.succeed(delete(NS_512)).await;
        assert_eq!(host.capacity().await, (all, u128::from(NS_512_UNITS) * 4096));
        host.write_is(&pair, NS_512, Status::INVALID_FIELD.with_dnr()).await;

        // Sizes are rounded up to 16 units here, and the identifier is the first free one.
        let first = host.succeed(host.create_sqe(&wanted(1000, 1))).await;
        assert_eq!(first, NS_512);
        assert_eq!(
            (list(&host, Cns::ALLOCATED_NAMESPACES).await, list(&host, Cns::ACTIVE_NAMESPACES).await),
            (vec![1, 2], vec![2])
        );
        host.write_is(&pair, first, Status::INVALID_FIELD.with_dnr()).await;
        assert_eq!(host.identify(Cns::NAMESPACE, first).await, [0; 4096], "it is not attached");
        let id = host.namespace(first).await;
        assert_eq!((id.nsze, id.ncap, id.format().lbads), (1000, 1000, 12));
        assert_eq!(u128::from_le_bytes(id.nvmcap), 1008 * 4096);
        assert_eq!(host.capacity().await.1, u128::from(NS_512_UNITS - 1008) * 4096);
        host.succeed(host.attach_sqe(first, true)).await;
        assert_eq!(list(&host, Cns::ACTIVE_NAMESPACES).await, [1, 2]);
        let bytes = pattern(3, 8 * 4096);
        let sqe = read_write(NvmOpcode::WRITE, first, 992, 8);
        let (prp1, prp2) = host.prp(host.holding(&bytes), 8 * 4096);
        assert_eq!(host.io(&pair, sqe.with_prp(prp1, prp2)).await.status(), Status::SUCCESS);
        assert_eq!(host.try_read(&pair, first, 992, 8, 4096).await, (Status::SUCCESS, bytes));
        let beyond = host.try_read(&pair, first, 1000, 1, 4096).await.0;
        assert_eq!(beyond, Status::LBA_OUT_OF_RANGE.with_dnr(), "blocks added by rounding are out of range");

        let second = host.create(24_704, 0).await;
        assert_eq!((second, host.capacity().await.1), (3, 0));
        host.succeed(delete(NSID_ALL)).await;
        assert_eq!(host.capacity().await, (all, all));
        assert!(list(&host, Cns::ALLOCATED_NAMESPACES).await.is_empty());
        host.succeed(delete(NSID_ALL)).await;
        let whole = host.create(NS_512_UNITS + NS_4K_UNITS, 1).await;
        assert_eq!(host.try_read(&pair, whole, 12_287, 1, 4096).await, (Status::SUCCESS, vec![0; 4096]));
    });
}

// The next owner of a namespace's space must get zeroes, also of what was on its way when the other one went.
#[test]
fn nothing_is_found_of_who_was_there_before() {
    for delay in 0..40 {
        Bench::default().with_queue(async move |host, pair| {
            let bytes = pattern(9, 128 << 10);
            for slba in [0, 64, 4000 * 8] {
                assert_eq!(host.write(&pair, NS_512, slba, &bytes).await, Status::SUCCESS);
            }
            // Writes of all kinds are in flight when the namespace is deleted.
            for round in 0..6 {
                let sqe = host.write_sqe(NS_512, 256 * round + round % 2, &bytes[..(100 << 10)]);
                host.place(&pair.sq, sqe);
            }
            host.ring_tail(&pair.sq);
            host.sleep(Delay::from_us(2 * delay)).await;
            host.succeed(delete(NS_512)).await;
            let again = host.create(NS_512_UNITS, 1).await;
            host.next_many(&pair.cq, 6).await;
            for slba in (0..NS_512_UNITS).step_by(32) {
                let (status, held) = host.try_read(&pair, again, slba, 32, 4096).await;
                assert_eq!(status, Status::SUCCESS);
                assert!(held.iter().all(|byte| *byte == 0), "block {slba}, deleted after {delay}");
            }
        });
    }
}

// Space that is free in pieces is space: a namespace over pieces must be one to its host, at every border.
#[test]
fn a_namespace_over_several_extents_is_one() {
    Bench::default().with_queue(async |host, pair| {
        host.succeed(delete(NS_512)).await;
        let pieces = [host.create(1024, 1).await, host.create(2048, 1).await, host.create(1024, 1).await];
        assert_eq!(pieces, [1, 3, 4]);
        let other = pattern(77, 4096 * 16);
        let write = async |nsid, slba, bytes: &[u8]| {
            let (prp1, prp2) = host.prp(host.holding(bytes), bytes.len() as u64);
            let sqe = read_write(NvmOpcode::WRITE, nsid, slba, bytes.len() as u32 / 4096);
            assert_eq!(host.io(&pair, sqe.with_prp(prp1, prp2)).await.status(), Status::SUCCESS);
        };
        write(3, 0, &other).await;
        write(3, 2032, &other).await;
        host.succeed(delete(1)).await;
        host.succeed(delete(4)).await;
        let whole = host.create(2048, 1).await;
        assert_eq!((whole, host.capacity().await.1), (1, 0));
        let bytes = pattern(5, 32 * 4096);
        write(whole, 1008, &bytes).await;
        assert_eq!(host.try_read(&pair, whole, 1008, 32, 4096).await, (Status::SUCCESS, bytes.clone()));
        assert_eq!(host.try_read(&pair, whole, 1023, 2, 4096).await.1, bytes[15 * 4096..17 * 4096]);
        let (prp1, prp2) = host.prp(host.holding(&bytes), bytes.len() as u64);
        for opcode in [NvmOpcode::COMPARE, NvmOpcode::VERIFY] {
            let sqe = read_write(opcode, whole, 1008, 32).with_prp(prp1, prp2);
            assert_eq!(host.io(&pair, sqe).await.status(), Status::SUCCESS);
        }
        let range = host.holding(&CopyRange::new(1008, 32).to_bytes());
        let copy = Copy { sdlba: 100, ..Copy::default() }.sqe(0, whole).with_prp(range, 0);
        assert_eq!(host.io(&pair, copy).await.status(), Status::SUCCESS);
        assert_eq!(host.try_read(&pair, whole, 100, 32, 4096).await.1, bytes);
        let range = host.holding(&CopyRange::new(100, 32).to_bytes());
        let copy = Copy { sdlba: 1010, ..Copy::default() }.sqe(0, whole).with_prp(range, 0);
        assert_eq!(host.io(&pair, copy).await.status(), Status::SUCCESS);
        assert_eq!(host.try_read(&pair, whole, 1010, 32, 4096).await.1, bytes);
        let range = host.holding(&Range::new(1012, 28).to_bytes());
        let trim = DatasetManagement { ad: true, ..DatasetManagement::default() }.sqe(0, whole);
        assert_eq!(host.io(&pair, trim.with_prp(range, 0)).await.status(), Status::SUCCESS);
        let after = host.try_read(&pair, whole, 1010, 32, 4096).await.1;
        assert_eq!(after[..2 * 4096], bytes[..2 * 4096]);
        assert!(after[2 * 4096..30 * 4096].iter().all(|byte| *byte == 0));
        assert_eq!(after[30 * 4096..], bytes[30 * 4096..]);
        assert_eq!(host.try_read(&pair, 3, 0, 16, 4096).await.1, other, "the one in between is untouched");
        assert_eq!(host.try_read(&pair, 3, 2032, 16, 4096).await.1, other);
        host.succeed(delete(NS_4K)).await;
    });
}

// A creation that cannot be carried out as requested must fail, not create something else.
#[test]
fn create_refuses_each_wrong_field() {
    Bench::default().enabled(async |host| {
        host.succeed(delete(NS_512)).await;
        let right = wanted(100, 1);
        let wrong = [
            (IdentifyNamespace { nsze: 0, ncap: 0, ..right }, Status::INVALID_FIELD),
            (IdentifyNamespace { ncap: 101, ..right }, Status::INVALID_FIELD),
            (IdentifyNamespace { ncap: 99, ..right }, Status::THIN_PROVISIONING_NOT_SUPPORTED),
            (IdentifyNamespace { flbas: 2, ..right }, Status::INVALID_FORMAT),
            (IdentifyNamespace { flbas: 0x11, ..right }, Status::INVALID_FIELD),
            (IdentifyNamespace { dps: 1, ..right }, Status::INVALID_FIELD),
            (IdentifyNamespace { nmic: 1, ..right }, Status::INVALID_FIELD),
            (IdentifyNamespace { anagrpid: 1, ..right }, Status::INVALID_FIELD),
            (IdentifyNamespace { nvmsetid: 1, ..right }, Status::INVALID_FIELD),
            (IdentifyNamespace { endgid: 1, ..right }, Status::INVALID_FIELD),
            (IdentifyNamespace { nsze: 4097, ncap: 4097, ..right }, Status::NAMESPACE_INSUFFICIENT_CAPACITY),
            (
                IdentifyNamespace { nsze: u64::MAX, ncap: u64::MAX, ..right },
                Status::NAMESPACE_INSUFFICIENT_CAPACITY,
            ),
        ];
        for (wanted, status) in wrong {
            host.refused(host.create_sqe(&wanted), status).await;
        }
        let mut sqe = host.create_sqe(&right);
        sqe.nsid = 5;
        host.refused(sqe, Status::INVALID_FIELD).await;
        let page = host.holding(right.as_bytes());
        for (command, status) in [
            (NamespaceManagement { sel: 0, csi: 1 }, Status::COMMAND_SET_NOT_SUPPORTED),
            (NamespaceManagement { sel: 2, csi: 0 }, Status::INVALID_FIELD),
            (NamespaceManagement { sel: 15, csi: 0 }, Status::INVALID_FIELD),
        ] {
            host.refused(command.sqe(0, 0).with_prp(page, 0), status).await;
        }
        for (nsid, status) in [
            (0, Status::INVALID_NAMESPACE),
            (129, Status::INVALID_NAMESPACE),
            (NSID_ALL - 1, Status::INVALID_NAMESPACE),
            (NS_512, Status::INVALID_FIELD),
            (128, Status::INVALID_FIELD),
        ] {
            host.refused(delete(nsid), status).await;
        }
        assert_eq!(list(&host, Cns::ALLOCATED_NAMESPACES).await, [NS_4K], "nothing has come of it");
        for nsid in [1].into_iter().chain(3..=128) {
            assert_eq!(host.succeed(host.create_sqe(&wanted(1, 1))).await, nsid);
        }
        host.refused(host.create_sqe(&wanted(1, 1)), Status::NAMESPACE_ID_UNAVAILABLE).await;
    });
}

// A namespace attached twice, or to a controller that isn't there, is one that some host will miss.
#[test]
fn attachment_refuses_each_wrong_field() {
    Bench::default().enabled(async |host| {
        let list = |ids: &[u16]| host.holding(ControllerList::from(0, ids.iter().copied()).as_bytes());
        let attach = |sel| NamespaceAttachment { sel }.sqe(0, NS_4K);
        let invalid = Status::CONTROLLER_LIST_INVALID;
        for ids in [&[][..], &[0], &[2], &[1, 2], &[0xffff]] {
            host.refused(attach(1).with_prp(list(ids), 0), invalid).await;
        }
        let mut twice = ControllerList::from(0, [1]);
        (twice.count, twice.ids[1]) = (2, 1);
        host.refused(attach(1).with_prp(host.holding(twice.as_bytes()), 0), invalid).await;
        twice.count = u16::MAX;
        host.refused(attach(1).with_prp(host.holding(twice.as_bytes()), 0), invalid).await;
        host.refused(attach(2).with_prp(list(&[1]), 0), Status::INVALID_FIELD).await;
        for (nsid, status) in [
            (0, Status::INVALID_NAMESPACE),
            (129, Status::INVALID_NAMESPACE),
            (NSID_ALL, Status::INVALID_NAMESPACE),
            (3, Status::INVALID_FIELD),
        ] {
            host.refused(host.attach_sqe(nsid, true), status).await;
        }
        host.refused(host.attach_sqe(NS_4K, true), Status::NAMESPACE_ALREADY_ATTACHED).await;
        host.succeed(host.attach_sqe(NS_4K, false)).await;
        host.refused(host.attach_sqe(NS_4K, false), Status::NAMESPACE_NOT_ATTACHED).await;
        host.succeed(host.attach_sqe(NS_4K, true)).await;
    });
}

// A detached namespace keeps its contents; one that is deleted and created again is a different one to its
// host.
#[test]
fn detached_namespaces_keep_their_data_and_new_ones_their_own_names() {
    Bench::default().with_queue(async |host, pair| {
        let bytes = pattern(4, 4096);
        assert_eq!(host.write(&pair, NS_4K, 7, &bytes).await, Status::SUCCESS);
        host.succeed(host.attach_sqe(NS_4K, false)).await;
        host.write_is(&pair, NS_4K, Status::INVALID_FIELD.with_dnr()).await;
        assert_eq!(host.identify(Cns::NAMESPACE, NS_4K).await, [0; 4096]);
        let before = host.namespace(NS_4K).await;
        host.succeed(host.attach_sqe(NS_4K, true)).await;
        assert_eq!(host.read(&pair, NS_4K, 7, 1).await, bytes);
        host.succeed(delete(NS_4K)).await;
        assert_eq!(host.create(NS_4K_UNITS, 1).await, NS_4K);
        let after = host.namespace(NS_4K).await;
        assert_eq!((after.nsze, after.nvmcap), (before.nsze, before.nvmcap));
        assert_ne!(after.eui64, before.eui64);
    });
}

// Lists of controllers are how tools find out where a namespace can be had.
#[test]
fn identify_lists_controllers_and_granularity() {
    Bench::default().enabled(async |host| {
        let ids = async |cns, nsid, cntid| {
            let page = host.pages(1);
            let sqe = Identify { cns, cntid, ..Identify::default() }.sqe(0, nsid).with_prp(page, 0);
            host.succeed(sqe).await;
            let list = ControllerList::read_from_bytes(&host.peek(page, 4096))
                .expect("a page is as long as its structure");
            list.ids().expect("it ascends").to_vec()
        };
        assert_eq!(ids(Cns::CONTROLLERS, 0, 0).await, [1]);
        assert!(ids(Cns::CONTROLLERS, 0, 2).await.is_empty());
        assert_eq!(ids(Cns::NAMESPACE_CONTROLLERS, NS_4K, 1).await, [1]);
        host.succeed(host.attach_sqe(NS_4K, false)).await;
        assert!(ids(Cns::NAMESPACE_CONTROLLERS, NS_4K, 0).await.is_empty());
        let list = GranularityList::read_from_bytes(&host.identify(Cns::NAMESPACE_GRANULARITY, 0).await)
            .expect("a page is as long as its structure");
        assert_eq!((list.descriptors_z, list.descriptors[0].nszegran), (0, 16 * 4096));
    });
}

fn changed(page: &[u8]) -> Vec<u32> {
    let log = ChangedNamespaceLog::read_from_prefix(page).expect("a page is as long as its structure").0;
    log.nsids.into_iter().take_while(|nsid| *nsid != 0).collect()
}

// A host that is not told of a new namespace never looks.
#[test]
fn changes_are_in_the_log_and_announced_to_who_asked() {
    Bench::default().enabled(async |host| {
        let request = host.request_event();
        host.succeed(host.attach_sqe(NS_4K, false)).await;
        host.sleep(fixture::LONG).await;
        assert!(host.look(&host.admin_pair().cq).is_none(), "it was not requested");
        let config = AsyncEventConfig::new().with_namespace_attribute(true).into_bits();
        host.set_feature(fid::ASYNC_EVENT_CONFIGURATION, config).await;
        host.succeed(host.attach_sqe(NS_4K, true)).await;
        let cqe = host.completion(&host.admin_pair().cq, request).await;
        assert_eq!(AsyncEvent::from_dw0(cqe.dw0), AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED);
        host.succeed(delete(NS_512)).await;
        let page = host.pages(1);
        let kept =
            GetLogPage { lid: lid::CHANGED_NAMESPACE_LIST, rae: true, numd_z: 1023, ..GetLogPage::default() };
        host.succeed(kept.sqe(0, 0).with_prp(page, 0)).await;
        assert_eq!(changed(&host.peek(page, 4096)), [NS_512, NS_4K]);
        assert_eq!(changed(&host.log(lid::CHANGED_NAMESPACE_LIST, 0, 4096).await), [NS_512, NS_4K]);
        assert!(changed(&host.log(lid::CHANGED_NAMESPACE_LIST, 0, 4096).await).is_empty());
    });
}

// A change during the transfer of the list is not in the list. If it were forgotten with the others, the host
// would never learn of it.
#[test]
fn a_change_that_the_list_does_not_tell_stays_in_it() {
    let mut seen = [0, 0];
    for delay in 0..60 {
        let late = Bench::default().enabled(async move |host| {
            host.succeed(host.attach_sqe(NS_512, false)).await;
            let page = host.pages(1);
            let get = GetLogPage { lid: lid::CHANGED_NAMESPACE_LIST, numd_z: 1023, ..GetLogPage::default() };
            let admin = host.admin_pair();
            let detach = host.submit(&admin.sq, host.attach_sqe(NS_4K, false));
            host.sleep(Delay::from_us(1) * delay).await;
            let read = host.submit(&admin.sq, get.sqe(0, NSID_ALL).with_prp(page, 0));
            host.completion(&admin.cq, read).await;
            host.completion(&admin.cq, detach).await;
            let mut told = changed(&host.peek(page, 4096));
            let late = changed(&host.log(lid::CHANGED_NAMESPACE_LIST, 0, 4096).await);
            assert!(!told.is_empty());
            told.extend(&late);
            assert_eq!(told, [NS_512, NS_4K], "read {delay} us after");
            !late.is_empty()
        });
        seen[usize::from(late)] += 1;
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}
