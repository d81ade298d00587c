//! Warnings of the drive's health (NVMe Base 2.1, 5.1.2.1 and 5.1.12.1.3).

use crate::fixture::management::{delete, format};
use crate::fixture::power::power_cycle;
use crate::fixture::{Bench, NS_4K, NS_4K_UNITS, Pair, TestHost, drive_config, pattern};
use byteway_clock::{Delay, Time};
use byteway_device::Temperature;
use byteway_flash::{BlockId, Fault, FaultKind, FaultPlan};
use byteway_wire::FromBytes;
use byteway_wire::nvme::feature::{AsyncEventConfig, TemperatureThreshold};
use byteway_wire::nvme::{AsyncEvent, NSID_ALL, Sanitize, SanitizeStatusLog, SmartLog, Status, fid, lid};

/// A drive with one spare superblock a die.
fn bench() -> Bench {
    let mut bench = Bench::default();
    bench.drive.ftl.upkeep.spare_blocks = 1;
    bench
}

/// The next program of die 0 fails, and all that is written is programmed.
async fn lose_a_superblock(host: &TestHost, pair: &Pair) {
    let fault = Fault { die: 0, kind: FaultKind::Program, nth: 1 };
    host.drive().controller.ftl().flash().inject(FaultPlan::exactly([fault]));
    for slba in (0..256).step_by(32) {
        host.write(pair, NS_4K, slba, &pattern(slba, 128 << 10)).await;
    }
    host.sleep(Delay::from_ms(20)).await;
}

async fn smart(host: &TestHost) -> SmartLog {
    SmartLog::read_from_bytes(&host.log(lid::SMART, 0, 512).await).expect("it has its size")
}

async fn critical_warning(host: &TestHost) -> u8 {
    smart(host).await.critical_warning
}

/// The event that has come, if one has.
async fn event(host: &TestHost) -> Option<AsyncEvent> {
    host.sleep(Delay::from_ms(20)).await;
    host.look(&host.admin_pair().cq)?;
    let cqe = host.next(&host.admin_pair().cq).await;
    assert_eq!(cqe.status(), Status::SUCCESS);
    Some(AsyncEvent::from_dw0(cqe.dw0))
}

// Without the event, a host that enabled notifications of a failing drive would learn of it from its first
// failed write.
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
                let command = format(NS_4K, byteway_content::BlockSize::B4096, 1);
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

// At the end of its life a drive must stay readable: a Format or a deletion that cannot complete must not
// destroy data that the host could still save.
#[test]
fn what_a_dying_drive_holds_stays_readable() {
    bench().with_queue(async |host, pair| {
        let bytes = pattern(7, 128 << 10);
        assert_eq!(host.write(&pair, NS_4K, 4096, &bytes).await, Status::SUCCESS);
        host.sleep(Delay::from_ms(20)).await;
        while critical_warning(&host).await & SmartLog::WARNING_READ_ONLY == 0 {
            lose_a_superblock(&host, &pair).await;
        }
        let free = host.capacity().await.1;
        for sqe in [
            format(NS_4K, byteway_content::BlockSize::B512, 0),
            format(NSID_ALL, byteway_content::BlockSize::B4096, 1),
            delete(NS_4K),
            delete(NSID_ALL),
        ] {
            host.refused(sqe, Status::NAMESPACE_WRITE_PROTECTED).await;
            assert_eq!(host.read(&pair, NS_4K, 4096, 32).await, bytes);
        }
        assert_eq!(host.capacity().await.1, free);
    });
}

// A host that replaces drives by this figure would keep one that is worn out: it is worn by its whole life, not by what it did
// since its power came.
#[test]
fn wear_is_of_the_whole_life() {
    let mut config = drive_config();
    config.media.worn_erases = 1500; // of 3000
    let mut used = Vec::new();
    let (of_worn, medium) = power_cycle(config.clone(), None, async |host| {
        host.enable().await;
        let pair = host.create_pair(1, 64).await;
        let before = smart(&host).await.percentage_used;
        for round in 0..4 {
            for slba in (0..NS_4K_UNITS).step_by(32) {
                let bytes = pattern(round, 128 << 10);
                assert_eq!(host.write(&pair, NS_4K, slba, &bytes).await, Status::SUCCESS);
            }
        }
        (before, smart(&host).await.percentage_used)
    });
    used.extend([of_worn.0, of_worn.1]);
    let (again, _) = power_cycle(config, Some(medium), async |host| {
        host.enable().await;
        smart(&host).await.percentage_used
    });
    used.push(again);
    assert!((48..=52).contains(&used[0]), "{used:?}");
    assert!(used[1] >= used[0] && used[2] == used[1], "{used:?}");
}

// A host that is notified of a temperature beyond its threshold, and then finds no such warning, believes neither.
#[test]
fn a_temperature_beyond_its_threshold_is_a_warning() {
    Bench::default().enabled(async |host| {
        let threshold = |kelvin, under: bool| {
            TemperatureThreshold::new().with_tmpth(kelvin).with_thsel(under.into()).into_bits()
        };
        for (kelvin, under, warning) in [
            (313, false, SmartLog::WARNING_TEMPERATURE),
            (314, false, 0),
            (313, true, SmartLog::WARNING_TEMPERATURE),
            (312, true, 0),
        ] {
            host.set_feature(fid::TEMPERATURE_THRESHOLD, threshold(kelvin, under)).await;
            assert_eq!(critical_warning(&host).await, warning, "{kelvin}, {under}");
        }
    });
}

// A step of a drive's temperature that is told twice, late or not at all is one that a host cannot react to.
#[test]
fn a_step_over_the_threshold_is_told_once_a_crossing() {
    let mut bench = Bench::default();
    let s = |s: u64| Time::ZERO + Delay::from_s(s);
    bench.drive.temperature = Temperature {
        steps: vec![(s(2), 350), (s(4), 360), (s(6), 300), (s(8), 350)],
        throttles: Some([345, 355]),
    };
    bench.enabled(async move |host| {
        let config = AsyncEventConfig::new().with_smart(SmartLog::WARNING_TEMPERATURE);
        host.set_feature(fid::ASYNC_EVENT_CONFIGURATION, config.into_bits()).await;
        let (mut told, mut is_asked) = (Vec::new(), false);
        for second in 1..10 {
            if !std::mem::replace(&mut is_asked, true) {
                host.request_event();
            }
            host.sleep((s(second) + Delay::from_ms(300)).since(host.clock().now())).await;
            if event(&host).await == Some(AsyncEvent::TEMPERATURE_THRESHOLD) {
                told.push(second);
                is_asked = false;
            }
            let log = smart(&host).await;
            let expected = match second {
                1 => 313,
                2 | 3 | 8 | 9 => 350,
                4 | 5 => 360,
                _ => 300,
            };
            assert_eq!(log.composite_temperature.get(), expected, "{second}");
            assert_eq!(
                log.critical_warning & SmartLog::WARNING_TEMPERATURE != 0,
                expected >= 343,
                "{second}"
            );
        }
        assert_eq!(told, [2, 8]);
        let log = smart(&host).await;
        assert_eq!((log.thermal_1_transitions, log.thermal_2_transitions), (2, 1));
        assert_eq!((log.thermal_1_time, log.thermal_2_time), (3, 2));
    });
}
