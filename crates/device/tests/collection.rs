//! Collection windows as hosts see them: feature C1h, its event and its log page.

use crate::fixture::{Bench, NS_4K, NS_4K_UNITS, Pair, TestHost, get_features, pattern, set_features};
use byteway_clock::Delay;
use byteway_wire::FromBytes;
use byteway_wire::nvme::vendor::collection::{CollectionLog, CollectionWindow};
use byteway_wire::nvme::{
    AsyncEvent, FeaturesSupportedLog, GetLogPage, Select, Status, SupportedLogPages, fid, lid,
};

const NOTIFY: CollectionWindow = CollectionWindow::new().with_notify(true);

fn bench() -> Bench {
    let mut bench = Bench::default();
    bench.drive.controller.collection_windows = true;
    bench
}

/// Writes the drive over so often that it has to collect.
async fn overwrite(host: &TestHost, pair: &Pair, times: u64) {
    for time in 0..times {
        for slba in (0..NS_4K_UNITS - 32).step_by(32) {
            // Here and there, so that what is collected holds something.
            let slba = (slba * 2_654_435_761 + time * 977) % (NS_4K_UNITS - 32);
            assert_eq!(host.write(pair, NS_4K, slba, &pattern(slba, 128 << 10)).await, Status::SUCCESS);
        }
    }
}

async fn log(host: &TestHost) -> CollectionLog {
    CollectionLog::read_from_bytes(&host.log(lid::COLLECTION, 0, 64).await).expect("it has its size")
}

async fn event(host: &TestHost) -> Option<AsyncEvent> {
    let admin = host.admin_pair();
    // It may have come while another completion was waited for.
    if admin.cq.stash.borrow().is_empty() {
        host.look(&admin.cq)?;
    }
    let cqe = host.next(&admin.cq).await;
    Some(AsyncEvent::from_dw0(cqe.dw0))
}

// A host of several drives relies on the event. An event that it did not enable would consume another drive's
// request; one per superblock would be a flood; and one that never recurred after the log was read would
// leave the drives uncoordinated.
#[test]
fn a_drive_says_when_it_begins_to_collect_if_it_is_asked_to() {
    bench().with_queue(async |host, pair| {
        host.request_event();
        host.request_event();
        overwrite(&host, &pair, 4).await;
        assert_eq!(event(&host).await, None, "it was not asked for");
        assert!(host.drive().controller.ftl().counters().blocks_collected > 0, "nothing was collected");
        host.set_feature(fid::COLLECTION_WINDOW, NOTIFY.into_bits()).await;
        assert_eq!(host.feature(fid::COLLECTION_WINDOW).await, NOTIFY.into_bits());
        overwrite(&host, &pair, 1).await;
        assert_eq!(event(&host).await, Some(AsyncEvent::COLLECTION_BEGUN));
        overwrite(&host, &pair, 1).await;
        assert_eq!(event(&host).await, None, "not before the log is read");
        let found = log(&host).await;
        assert_eq!((found.windows, found.dies_in_window), (0, 0));
        assert!(found.free_start > 0);
        overwrite(&host, &pair, 1).await;
        assert_eq!(event(&host).await, Some(AsyncEvent::COLLECTION_BEGUN));
        // A reset is the end of it.
        host.disable().await;
        host.enable().await;
        assert_eq!(host.feature(fid::COLLECTION_WINDOW).await & 1, 0);
    });
}

// A requested window must open, free superblocks, and end without a further command.
#[test]
fn a_window_opens_by_set_features() {
    bench().with_queue(async |host, pair| {
        overwrite(&host, &pair, 4).await;
        let before = log(&host).await;
        let window = NOTIFY.with_open(true).with_blocks(3);
        host.set_feature(fid::COLLECTION_WINDOW, window.into_bits()).await;
        host.sleep(Delay::from_ms(200)).await;
        let after = log(&host).await;
        assert_eq!((after.windows, after.dies_in_window), (1, 0));
        assert!(after.free_least > before.free_least && after.free_least > after.free_start, "{after:?}");
        let default = host.succeed(get_features(fid::COLLECTION_WINDOW, Select::DEFAULT, 0)).await;
        assert_eq!(default, 0);
    });
}

// A drive that says it has windows where it has none, or has them unsaid, is not what its logs say.
#[test]
fn only_a_drive_that_says_so_has_windows() {
    for has in [true, false] {
        let mut bench = bench();
        bench.drive.controller.collection_windows = has;
        bench.with_queue(async move |host, _| {
            let features =
                host.log(lid::FEATURES_SUPPORTED, 0, size_of::<FeaturesSupportedLog>() as u32).await;
            let features = FeaturesSupportedLog::read_from_bytes(&features).expect("it has its size");
            let said = features.fids[usize::from(fid::COLLECTION_WINDOW)] & FeaturesSupportedLog::FSUPP != 0;
            let logs = host.log(lid::SUPPORTED_LOG_PAGES, 0, size_of::<SupportedLogPages>() as u32).await;
            let logs = SupportedLogPages::read_from_bytes(&logs).expect("it has its size");
            assert_eq!((said, logs.lids[usize::from(lid::COLLECTION)] != 0), (has, has));
            let set = set_features(fid::COLLECTION_WINDOW, NOTIFY.into_bits());
            assert_eq!(host.admin(set).await.status().is_success(), has);
            let page = host.pages(1);
            let get = GetLogPage { lid: lid::COLLECTION, numd_z: 15, ..GetLogPage::default() };
            assert_eq!(host.admin(get.sqe(0, 0).with_prp(page, 0)).await.status().is_success(), has);
        });
    }
}
