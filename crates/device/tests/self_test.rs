//! Device Self-test (NVMe Base 2.1, 5.1.5 and 8.1.7), and its log.

use crate::fixture::management::{delete, format};
use crate::fixture::power::power_cycle;
use crate::fixture::{Bench, LONG, NS_4K, NS_512, TestHost, drive_config};
use byteway_clock::Delay;
use byteway_firmware::Base;
use byteway_wire::FromBytes;
use byteway_wire::nvme::{
    Cns, DeviceSelfTest, IdentifyController, NSID_ALL, Sanitize, SelfTestLog, SelfTestResult, Status, lid,
};

fn test(stc: u8, nsid: u32) -> byteway_wire::nvme::Sqe {
    DeviceSelfTest { stc }.sqe(0, nsid)
}

async fn log(host: &TestHost) -> SelfTestLog {
    SelfTestLog::read_from_bytes(&host.log(lid::DEVICE_SELF_TEST, 0, 564).await)
        .expect("a page is as long as its structure")
}

/// Codes and results, newest first.
async fn results(host: &TestHost) -> Vec<(u8, u8)> {
    let log = log(host).await;
    let made = log.results.iter().take_while(|result| result.result() != SelfTestResult::UNUSED);
    made.map(|result| (result.code(), result.result())).collect()
}

/// A drive of which a read takes a millisecond, and everything is on flash.
fn slow() -> Bench {
    let mut bench = Bench::default();
    bench.drive.timing.read = vec![Delay::from_ms(1)];
    bench.drive.base = Base::Filled;
    bench
}

// A test that reads nothing finds nothing. And one that holds up the host's commands is not started at all.
#[test]
fn a_test_reads_samples_and_leaves_a_result() {
    let mut bench = slow();
    bench.drive.timing.read = vec![Delay::from_us(50)];
    bench.with_queue(async |host, pair| {
        assert_eq!(log(&host).await, SelfTestLog::default());
        let id = IdentifyController::read_from_bytes(&host.identify(Cns::CONTROLLER, 0).await)
            .expect("a page is as long as its structure");
        assert_eq!((id.dsto, id.edstt), (1, 10));
        for (stc, nsid, reads) in [
            (DeviceSelfTest::SHORT, 0, 0),
            (DeviceSelfTest::SHORT, NS_4K, 64),
            (DeviceSelfTest::SHORT, NSID_ALL, 128),
            (DeviceSelfTest::EXTENDED, NS_4K, 4096),
        ] {
            let ftl = host.drive().controller.ftl();
            let before = ftl.counters().units_read;
            host.succeed(test(stc, nsid)).await;
            let running = log(&host).await;
            assert_eq!(running.current, stc);
            host.write_is(&pair, NS_4K, Status::SUCCESS).await;
            host.sleep(LONG * 3).await;
            assert_eq!(ftl.counters().units_read - before, reads);
            assert_eq!(log(&host).await.current, 0);
            assert_eq!(results(&host).await[0], (stc, SelfTestResult::PASSED));
        }
    });
}

// The host sees how far it is, can't start another next to it, and can end it.
#[test]
fn one_test_at_a_time_and_each_way_to_end_it() {
    slow().enabled(async |host| {
        host.succeed(test(DeviceSelfTest::ABORT, 0)).await; // nothing to abort, and no result
        assert_eq!(results(&host).await, []);
        host.succeed(test(DeviceSelfTest::EXTENDED, NSID_ALL)).await;
        host.sleep(Delay::from_ms(1000)).await;
        let percent = log(&host).await.completion;
        assert!((5..50).contains(&percent), "{percent}");
        for stc in [DeviceSelfTest::SHORT, DeviceSelfTest::EXTENDED] {
            assert_eq!(host.admin(test(stc, 0)).await.status(), Status::SELF_TEST_IN_PROGRESS);
        }
        host.succeed(test(DeviceSelfTest::ABORT, 0)).await;
        host.succeed(test(DeviceSelfTest::SHORT, NS_4K)).await;
        host.disable().await;
        host.enable().await;
        host.succeed(test(DeviceSelfTest::SHORT, NS_4K)).await;
        host.succeed(format(NS_4K, byteway_content::BlockSize::B4096, 0)).await;
        host.succeed(test(DeviceSelfTest::EXTENDED, NS_512)).await;
        host.succeed(delete(NS_4K)).await;
        assert_eq!(log(&host).await.current, DeviceSelfTest::EXTENDED, "another namespace's");
        host.succeed(delete(NS_512)).await;
        host.create(100, 1).await;
        host.succeed(test(DeviceSelfTest::SHORT, NSID_ALL)).await;
        host.succeed(Sanitize { sanact: Sanitize::BLOCK_ERASE, ..Sanitize::default() }.sqe(0)).await;
        host.sleep(LONG).await;
        assert_eq!(
            results(&host).await,
            [
                (1, SelfTestResult::ABORTED_SANITIZE),
                (2, SelfTestResult::ABORTED_NAMESPACE),
                (1, SelfTestResult::ABORTED_FORMAT),
                (1, SelfTestResult::ABORTED_RESET),
                (2, SelfTestResult::ABORTED),
            ]
        );
        for stc in [0, 3, 4, 0xe] {
            host.refused(test(stc, 0), Status::INVALID_FIELD).await;
        }
        host.refused(test(DeviceSelfTest::SHORT, 5), Status::INVALID_FIELD).await;
        host.refused(test(DeviceSelfTest::SHORT, 500), Status::INVALID_NAMESPACE).await;
        for _ in 0..30 {
            host.succeed(test(DeviceSelfTest::SHORT, 0)).await;
            host.sleep(Delay::from_ms(1)).await;
        }
        assert_eq!(results(&host).await, [(1, SelfTestResult::PASSED); 20], "the last twenty");
    });
}

// An extended test of a large drive takes longer than its host stays up.
#[test]
fn an_extended_test_goes_on_after_resets_and_power_cuts() {
    let mut config = drive_config();
    config.timing.read = vec![Delay::from_us(50)];
    config.base = Base::Filled;
    let (_, medium) = power_cycle(config.clone(), None, async |host| {
        host.enable().await;
        host.succeed(test(DeviceSelfTest::SHORT, 0)).await;
        host.sleep(Delay::from_ms(1)).await;
        host.succeed(test(DeviceSelfTest::EXTENDED, NS_4K)).await;
        host.sleep(Delay::from_ms(10)).await;
        host.disable().await;
        host.enable().await;
        assert_eq!(log(&host).await.current, DeviceSelfTest::EXTENDED);
    });
    let (_, medium) = power_cycle(config.clone(), Some(medium), async |host| {
        host.enable().await;
        assert_eq!(log(&host).await.current, DeviceSelfTest::EXTENDED);
        host.sleep(LONG * 3).await;
        assert_eq!(results(&host).await, [(2, SelfTestResult::PASSED), (1, SelfTestResult::PASSED)]);
    });
    power_cycle(config, Some(medium), async |host| {
        host.enable().await;
        assert_eq!(results(&host).await, [(2, SelfTestResult::PASSED), (1, SelfTestResult::PASSED)]);
    });
}

// A result is dated by the time with power at which its test ended, however it ended: that is what it is looked up by.
#[test]
fn results_are_dated_by_their_end() {
    let mut config = drive_config();
    config.timing.read = vec![Delay::from_ms(1)];
    config.base = Base::Filled;
    let (_, medium) = power_cycle(config.clone(), None, async |host| {
        host.enable().await;
        host.sleep(Delay::from_s(2 * 3600 + 60)).await;
        host.succeed(test(DeviceSelfTest::EXTENDED, NS_4K)).await;
        host.sleep(Delay::from_ms(20)).await;
    });
    power_cycle(config, Some(medium), async |host| {
        host.enable().await;
        host.succeed(test(DeviceSelfTest::ABORT, 0)).await;
        let result = log(&host).await.results[0];
        assert_eq!((result.result(), result.power_on_hours.get()), (SelfTestResult::ABORTED, 2));
    });
}
