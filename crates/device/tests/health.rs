//! Warnings of the drive's health (NVMe Base 2.1, 5.1.2.1 and 5.1.12.1.3).

mod fixture;

use byteway_clock::Delay;

use byteway_flash::{BlockId, Fault, FaultPlan, FaultVerb};
use byteway_wire::FromBytes;
use byteway_wire::nvme::feature::AsyncEventConfig;
use byteway_wire::nvme::{AsyncEvent, Sanitize, SanitizeStatusLog, SmartLog, Status, fid, lid};
use fixture::management::format;
use fixture::{Bench, NS_4K, Pair, TestHost, pattern};

/// A drive with one spare superblock a die.
fn bench() -> Bench {
    let mut bench = Bench::default();
    bench.drive.ftl.upkeep.spare_blocks = 1;
    bench
}

/// The next program of die 0 fails, and all that is written is programmed.
async fn lose_a_superblock(host: &TestHost, pair: &Pair) {
    let fault = Fault { die: 0, verb: FaultVerb::Program, nth: 1 };
    host.drive().controller.ftl().flash().inject(FaultPlan::exactly([fault]));
    for slba in (0..256).step_by(32) {
        host.write(pair, NS_4K, slba, &pattern(slba, 128 << 10)).await;
    }
    host.sleep(Delay::from_ms(20)).await;
}

async fn critical_warning(host: &TestHost) -> u8 {
    SmartLog::read_from_bytes(&host.log(lid::SMART, 0, 512).await).expect("it has its size").critical_warning
}

/// The event that has come, if one has.
async fn event(host: &TestHost) -> Option<AsyncEvent> {
    host.sleep(Delay::from_ms(20)).await;
    host.look(&host.admin_pair().cq)?;
    let cqe = host.next(&host.admin_pair().cq).await;
    assert_eq!(cqe.status(), Status::SUCCESS);
    Some(AsyncEvent::from_dw0(cqe.dw0))
}

// A host that asked to be told of a dying drive would learn of it from its first failed write.
#[test]
fn a_warning_is_told_when_it_comes_and_once() {
    bench().with_queue(async |host, pair| {
        let warnings = SmartLog::WARNING_SPARE | SmartLog::WARNING_READ_ONLY;
        let config = AsyncEventConfig::new().with_smart(warnings);
        host.set_feature(fid::ASYNC_EVENT_CONFIGURATION, config.into_bits()).await;
        host.request_event();
        host.request_event();
        assert_eq!(event(&host).await, None);
        lose_a_superblock(&host, &pair).await;
        assert_eq!(event(&host).await, Some(AsyncEvent::SPARE_BELOW_THRESHOLD));
        assert_eq!(critical_warning(&host).await, SmartLog::WARNING_SPARE);
        assert_eq!(event(&host).await, None, "it was told");
        lose_a_superblock(&host, &pair).await;
        assert_eq!(event(&host).await, Some(AsyncEvent::RELIABILITY_DEGRADED));
        assert_eq!(critical_warning(&host).await, warnings);
        host.request_event();
        lose_a_superblock(&host, &pair).await;
        assert_eq!(event(&host).await, None, "it was told");
    });
}

// An event that the host did not ask for takes the request that was meant for another.
#[test]
fn what_the_host_has_not_asked_for_is_not_told() {
    bench().with_queue(async |host, pair| {
        let config = AsyncEventConfig::new().with_smart(SmartLog::WARNING_READ_ONLY);
        host.set_feature(fid::ASYNC_EVENT_CONFIGURATION, config.into_bits()).await;
        host.request_event();
        lose_a_superblock(&host, &pair).await;
        assert_eq!(event(&host).await, None);
        assert_eq!(critical_warning(&host).await, SmartLog::WARNING_SPARE);
    });
}

// A drive that says it is erased when it is not, or never says anything, can't be given away.
#[test]
fn an_erase_that_fails_is_told() {
    for sanitizes in [true, false] {
        bench().with_queue(async move |host, pair| {
            for slba in (0..1024).step_by(32) {
                assert_eq!(host.write(&pair, NS_4K, slba, &pattern(slba, 128 << 10)).await, Status::SUCCESS);
            }
            let flash = host.drive().controller.ftl().flash().clone();
            flash.inject(FaultPlan { erase: 1.0, ..FaultPlan::default() });
            if sanitizes {
                let sanitize = Sanitize { sanact: Sanitize::BLOCK_ERASE, ..Sanitize::default() };
                host.succeed(sanitize.sqe(0)).await;
                host.sleep(Delay::from_s(1)).await;
                assert_eq!(host.sanitize_status().await.sstat, SanitizeStatusLog::FAILED);
            } else {
                let command = format(NS_4K, byteway_wire::content::BlockSize::B4096, 1);
                assert_eq!(host.admin(command).await.status(), Status::INTERNAL_ERROR);
                assert_eq!(
                    host.read(&pair, NS_4K, 0, 32).await,
                    vec![0; 128 << 10],
                    "formatted all the same"
                );
            }
            assert!((0..128).map(BlockId).any(|block| flash.is_unstable(block)));
        });
    }
}
