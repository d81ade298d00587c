//! Non-volatile state, in addition to data: namespaces, features, counters, the time of day; and changes that the power
//! interrupts, cut at every moment.

use crate::fixture::management::{delete, format, wanted};
use crate::fixture::power::{enabled_cycle, power_cycle};
use crate::fixture::{
    NS_4K, NS_4K_UNITS, NS_512, TestHost, cc, drive_config, get_features, pattern, read_write,
};
use byteway_clock::Delay;
use byteway_content::BlockSize;
use byteway_device::Drive;
use byteway_flash::Medium;
use byteway_wire::FromBytes;
use byteway_wire::nvme::feature::{AsyncEventConfig, Timestamp};
use byteway_wire::nvme::register::Csts;
use byteway_wire::nvme::{
    ActiveNamespaceList, Cns, DeviceSelfTest, ErrorLogEntry, Flush, FormatNvm, GetFeatures, NSID_ALL,
    NvmOpcode, Select, SetFeatures, SmartLog, Sqe, Status, fid, lid,
};
use std::cell::Cell;
use std::rc::Rc;

async fn smart(host: &TestHost) -> SmartLog {
    SmartLog::read_from_bytes(&host.log(lid::SMART, 0, 512).await)
        .expect("a page is as long as its structure")
}

async fn shut_down(host: &TestHost) {
    host.set_cc(cc().with_shn(1));
    host.csts_until(|csts| csts.shst() == Csts::SHST_COMPLETE).await;
}

// A drive that comes up with other namespaces than it went down with has lost all that is in them.
#[test]
fn namespaces_outlive_the_power() {
    let (before, medium) = enabled_cycle(None, async |host| {
        host.succeed(delete(NS_512)).await;
        for (blocks, index) in [(1000, 1), (4001, 0), (500, 1)] {
            host.create(blocks, index).await;
        }
        host.succeed(delete(3)).await;
        host.succeed(host.attach_sqe(4, false)).await;
        host.succeed(host.create_sqe(&wanted(3000, 0))).await;
        host.succeed(format(NS_4K, BlockSize::B512, 0)).await;
        (
            host.identify(Cns::ALLOCATED_NAMESPACE, NS_4K).await,
            host.identify(Cns::NAMESPACE_DESCRIPTORS, 1).await,
            host.capacity().await,
        )
    });
    let (_, medium) = enabled_cycle(Some(medium), async move |host| {
        let list = async |cns| -> Vec<u32> {
            let page = host.identify(cns, 0).await;
            ActiveNamespaceList::read_from_bytes(&page)
                .expect("a page is as long as its structure")
                .iter()
                .collect()
        };
        assert_eq!(list(Cns::ALLOCATED_NAMESPACES).await, [1, 2, 3, 4]);
        assert_eq!(list(Cns::ACTIVE_NAMESPACES).await, [1, 2]);
        let sizes =
            [host.namespace(1).await.nsze, host.namespace(3).await.nsze, host.namespace(4).await.nsze];
        assert_eq!(sizes, [1000, 3000, 500]);
        let after = (
            host.identify(Cns::ALLOCATED_NAMESPACE, NS_4K).await,
            host.identify(Cns::NAMESPACE_DESCRIPTORS, 1).await,
            host.capacity().await,
        );
        assert_eq!(after, before);
        let uids: Vec<_> = [1, 2, 3, 4].to_vec();
        let mut names = Vec::new();
        for nsid in uids {
            let id = host.namespace(nsid).await;
            names.push((id.eui64, id.nguid));
        }
        host.succeed(delete(1)).await;
        host.create(10, 1).await;
        let id = host.namespace(1).await;
        assert!(names.iter().all(|(eui64, nguid)| *eui64 != id.eui64 && *nguid != id.nguid), "no name twice");
        assert_ne!(host.identify(Cns::NAMESPACE_DESCRIPTORS, 1).await, before.1);
        host.succeed(delete(NSID_ALL)).await;
    });
    enabled_cycle(Some(medium), async |host| {
        let (all, free) = host.capacity().await;
        assert_eq!(all, free, "none is left");
    });
}

/// Namespaces as the drive reports them: size, blocks, and whether they are attached.
async fn inventory(host: &TestHost) -> Vec<(u32, u64, u8)> {
    let page = host.identify(Cns::ALLOCATED_NAMESPACES, 0).await;
    let mut all = Vec::new();
    for nsid in
        ActiveNamespaceList::read_from_bytes(&page).expect("a page is as long as its structure").iter()
    {
        let id = host.namespace(nsid).await;
        assert_eq!(id.fpi & 0x7f, 0, "none is half formatted");
        all.push((nsid, id.nsze, id.format().lbads));
    }
    all
}

/// Does `change` and cuts the power `delay` later; gives whether it had completed, and what the drive then says.
fn cut(change: impl Fn(&TestHost) -> Sqe + 'static, delay: Delay) -> (bool, Vec<(u32, u64, u8)>, Medium) {
    let (completed, medium) = enabled_cycle(None, async move |host| {
        let pair = host.create_pair(1, 64).await;
        let bytes = pattern(1, 128 << 10);
        for slba in (0..512).step_by(32) {
            assert_eq!(host.write(&pair, NS_4K, slba, &bytes).await, Status::SUCCESS);
        }
        let admin = host.admin_pair();
        host.submit(&admin.sq, change(&host));
        host.sleep(delay).await;
        host.look(&admin.cq).is_some()
    });
    let (after, medium) = enabled_cycle(Some(medium), async |host| {
        let after = inventory(&host).await;
        let pair = host.create_pair(1, 64).await;
        if let Some((nsid, blocks, lbads)) = after.get(1).copied() {
            let (status, held) = host.try_read(&pair, nsid, 0, 32, 1 << lbads).await;
            assert_eq!(status, Status::SUCCESS);
            let is_empty = held.iter().all(|byte| *byte == 0);
            assert!(is_empty || blocks == NS_4K_UNITS, "what was formatted is empty");
        }
        after
    });
    (completed, after, medium)
}

// The power may go at any moment of a change. The namespace is then what it was or what it was to be, as a whole; and
// what has completed has happened.
#[test]
fn changes_are_whole_whenever_the_power_goes() {
    let before = vec![(1, 32_768, 9), (2, NS_4K_UNITS, 12)];
    type Change = fn(&TestHost) -> Sqe;
    type Namespaces = Vec<(u32, u64, u8)>;
    let changes: [(Change, Namespaces); 3] = [
        (
            |_| format(NS_4K, BlockSize::B512, FormatNvm::SES_USER_DATA),
            vec![(1, 32_768, 9), (2, NS_4K_UNITS * 8, 9)],
        ),
        (|_| delete(NS_4K), vec![(1, 32_768, 9)]),
        (|_| format(NSID_ALL, BlockSize::B4096, 0), vec![(1, 4096, 12), (2, NS_4K_UNITS, 12)]),
    ];
    for (change, wanted) in changes {
        let (mut old, mut new) = (0, 0);
        for step in 0..60 {
            let delay = Delay::from_us(4) * (step * step);
            let (completed, after, _) = cut(change, delay);
            assert!(after == before || after == wanted, "after {delay}: {after:?}");
            assert!(!completed || after == wanted, "it had completed after {delay}");
            old += u32::from(after == before);
            new += u32::from(after == wanted);
        }
        assert!(old > 0 && new > 0, "cut before and after: {old}, {new}");
    }
}

// The next owner of the space of a namespace whose deletion the power interrupted must find zeroes there: also if something
// else was remembered meanwhile, here the result of the self-test that the deletion ended.
#[test]
fn what_is_half_deleted_is_nobodys() {
    let mut created = 0;
    for step in 0..40 {
        let delay = Delay::from_us(20) * (step * step);
        let (_, medium) = enabled_cycle(None, async move |host| {
            let pair = host.create_pair(1, 64).await;
            let bytes = pattern(1, 128 << 10);
            for slba in (0..NS_4K_UNITS).step_by(32) {
                assert_eq!(host.write(&pair, NS_4K, slba, &bytes).await, Status::SUCCESS);
            }
            assert_eq!(host.io(&pair, Flush.sqe(0, NS_4K)).await.status(), Status::SUCCESS);
            host.submit(&pair.sq, read_write(NvmOpcode::VERIFY, NS_4K, 0, NS_4K_UNITS as u32));
            host.succeed(DeviceSelfTest { stc: DeviceSelfTest::SHORT }.sqe(0, NS_4K)).await;
            host.submit(&host.admin_pair().sq, delete(NS_4K));
            host.sleep(delay).await;
        });
        let (is_created, _) = enabled_cycle(Some(medium), async move |host| {
            let pair = host.create_pair(1, 64).await;
            if host.capacity().await.1 == 0 {
                return false;
            }
            let nsid = host.create(NS_4K_UNITS, 1).await;
            for slba in (0..NS_4K_UNITS).step_by(32) {
                let (status, held) = host.try_read(&pair, nsid, slba, 32, 4096).await;
                assert_eq!(status, Status::SUCCESS);
                assert!(held.iter().all(|byte| *byte == 0), "block {slba}, cut after {delay}");
            }
            true
        });
        created += u32::from(is_created);
    }
    assert!((1..40).contains(&created), "cut before and after: {created}");
}

// Saved values are for the day when the power comes back.
#[test]
fn saved_features_outlive_the_power() {
    let (_, medium) = enabled_cycle(None, async |host| {
        for (fid, cdw11) in [(fid::VOLATILE_WRITE_CACHE, 0), (fid::INTERRUPT_COALESCING, 0x0302)] {
            host.succeed(SetFeatures { fid, cdw11, sv: true, ..SetFeatures::default() }.sqe(0, 0)).await;
        }
        let events = AsyncEventConfig::new().with_smart(3).into_bits();
        host.set_feature(fid::ASYNC_EVENT_CONFIGURATION, events).await;
    });
    enabled_cycle(Some(medium), async |host| {
        assert_eq!(host.feature(fid::VOLATILE_WRITE_CACHE).await, 0);
        assert_eq!(host.feature(fid::INTERRUPT_COALESCING).await, 0x0302);
        assert_eq!(host.feature(fid::ASYNC_EVENT_CONFIGURATION).await, 0, "it was not saved");
        let saved = get_features(fid::VOLATILE_WRITE_CACHE, Select::SAVED, 0);
        assert_eq!(host.succeed(saved).await, 0);
    });
}

// A drive's age, and how it was treated, are read from these figures years later.
#[test]
fn totals_outlive_the_power_and_power_cuts_are_counted() {
    let (_, medium) = enabled_cycle(None, async |host| {
        let pair = host.create_pair(1, 64).await;
        let bytes = pattern(1, 128 << 10);
        for round in 0..8 {
            assert_eq!(host.write(&pair, NS_4K, 32 * round, &bytes).await, Status::SUCCESS);
        }
        host.read(&pair, NS_4K, 0, 32).await;
        host.refused(Sqe::new(0xffu8, 0, 0), Status::INVALID_OPCODE).await;
        let smart = smart(&host).await;
        assert_eq!((smart.power_cycles.get(), smart.unsafe_shutdowns.get()), (1, 0));
        shut_down(&host).await;
    });
    let (_, medium) = enabled_cycle(Some(medium), async |host| {
        let smart = smart(&host).await;
        assert_eq!((smart.host_write_commands.get(), smart.host_read_commands.get()), (8, 1));
        assert_eq!(smart.data_units_written.get(), (8_u128 * (128 << 10)).div_ceil(512_000));
        assert_eq!((smart.power_cycles.get(), smart.unsafe_shutdowns.get()), (2, 0));
        assert_eq!(smart.error_log_entries.get(), 1);
        host.refused(Sqe::new(0xffu8, 0, 0), Status::INVALID_OPCODE).await;
        let log = host.log(lid::ERROR_INFORMATION, 0, 64).await;
        assert_eq!(
            ErrorLogEntry::read_from_bytes(&log).expect("a page is as long as its structure").error_count,
            2,
            "counted on"
        );
        // Long enough for what is counted to be stored; then the plug is pulled.
        host.sleep(Delay::from_s(3700)).await;
    });
    enabled_cycle(Some(medium), async |host| {
        let smart = smart(&host).await;
        assert_eq!((smart.power_cycles.get(), smart.unsafe_shutdowns.get()), (3, 1));
        assert_eq!((smart.host_write_commands.get(), smart.error_log_entries.get()), (8, 2));
    });
}

async fn timestamp(host: &TestHost) -> Timestamp {
    let page = host.pages(1);
    let get = GetFeatures { fid: fid::TIMESTAMP, ..GetFeatures::default() }.sqe(0, 0);
    host.succeed(get.with_prp(page, 0)).await;
    Timestamp::from_bytes(host.peek(page, 8)[..].try_into().expect("a timestamp has eight bytes"))
}

// A host sets the time at every start: if that waited for a format in progress, its driver would give up.
#[test]
fn the_time_is_set_while_a_format_goes_on() {
    let mut config = drive_config();
    config.timing.erase = Delay::from_ms(50);
    power_cycle(config, None, async |host| {
        host.enable().await;
        let pair = host.create_pair(1, 64).await;
        for slba in (0..NS_4K_UNITS).step_by(32) {
            assert_eq!(host.write(&pair, NS_4K, slba, &pattern(1, 128 << 10)).await, Status::SUCCESS);
        }
        let admin = host.admin_pair();
        host.submit(&admin.sq, format(NS_4K, BlockSize::B512, FormatNvm::SES_USER_DATA));
        let before = host.clock().now();
        let said = Timestamp { milliseconds: 1_700_000_000_000, ..Timestamp::default() };
        let set = SetFeatures { fid: fid::TIMESTAMP, ..SetFeatures::default() }.sqe(0, 0);
        host.succeed(set.with_prp(host.holding(&said.to_bytes()), 0)).await;
        let saved = SetFeatures { fid: fid::VOLATILE_WRITE_CACHE, sv: true, ..SetFeatures::default() };
        host.succeed(saved.sqe(0, 0)).await;
        assert!(host.clock().now().since(before) < Delay::from_ms(20));
        assert!(host.namespace(NS_4K).await.fpi & 0x7f > 0, "it goes on");
        host.next(&admin.cq).await;
    });
}

// Logs are dated by this: it must run, survive a reset, and say when it may have stood still.
#[test]
fn the_timestamp_counts_on() {
    let (_, medium) = enabled_cycle(None, async |host| {
        host.sleep(Delay::from_ms(1500)).await;
        let first = timestamp(&host).await;
        assert_eq!(
            (first.milliseconds, first.origin, first.may_have_stopped),
            (1500, Timestamp::CLEARED, false)
        );
        let said = Timestamp { milliseconds: 1_700_000_000_000, ..Timestamp::default() };
        let set = SetFeatures { fid: fid::TIMESTAMP, ..SetFeatures::default() }.sqe(0, 0);
        host.succeed(set.with_prp(host.holding(&said.to_bytes()), 0)).await;
        host.sleep(Delay::from_ms(2500)).await;
        host.disable().await;
        host.enable().await;
        let now = timestamp(&host).await;
        assert_eq!(
            (now.milliseconds, now.origin, now.may_have_stopped),
            (1_700_000_002_500, Timestamp::SET, false)
        );
        let saved = SetFeatures { fid: fid::TIMESTAMP, sv: true, ..SetFeatures::default() };
        host.refused(saved.sqe(0, 0), Status::FEATURE_NOT_SAVEABLE).await;
        shut_down(&host).await;
    });
    enabled_cycle(Some(medium), async |host| {
        let now = timestamp(&host).await;
        assert_eq!((now.origin, now.may_have_stopped), (Timestamp::SET, true));
        assert!((1_700_000_002_500..1_700_000_002_600).contains(&now.milliseconds), "{now:?}");
    });
}

// A medium of another drive, or one that is damaged, must not bring this one down, nor be taken for its own.
#[test]
fn a_record_that_is_no_record_is_as_none() {
    for bytes in [vec![], vec![0; 64], pattern(5, 600)] {
        let (_, medium) = enabled_cycle(None, async move |host| {
            host.drive().controller.ftl().store_record(bytes.into()).await;
        });
        enabled_cycle(Some(medium), async |host| {
            assert_eq!(inventory(&host).await, [(1, 32_768, 9), (2, NS_4K_UNITS, 12)]);
        });
    }
    let medium = Drive::medium(&drive_config()).expect("the drive is possible");
    enabled_cycle(Some(medium), async |host| {
        assert_eq!(smart(&host).await.power_cycles.get(), 1);
    });
}

// A drive that its link keeps alive leaves its memory, and the host's, behind at every power cut.
#[test]
fn nothing_of_a_drive_is_left_when_its_power_is_gone() {
    let held = Rc::new(Cell::new(0));
    let (told, weak) = (held.clone(), Rc::downgrade(&held));
    let ((), medium) = enabled_cycle(None, async move |host| {
        let told = told.clone();
        host.drive().controller.on_queue_created(Rc::new(move |_| told.set(told.get() + 1)));
    });
    drop(held);
    assert!(weak.upgrade().is_none(), "its controller is gone");
    drop(medium);
}
