//! Sanitize (NVMe Base 2.1, 5.1.22 and 8.1.24).

use crate::fixture;
use crate::fixture::management::{delete, format, wanted};
use crate::fixture::power::{enabled_cycle, power_cycle};
use crate::fixture::{
    Bench, NS_4K, NS_512, Pair, TestHost, block_bytes, drive_config, get_features, pattern, read_write,
};
use byteway_clock::Delay;
use byteway_device::controller::namespace::record::{Record, SanitizeRecord, SanitizeState};
use byteway_flash::Medium;
use byteway_wire::FromBytes;
use byteway_wire::nvme::{
    AdminOpcode, AsyncEvent, Cns, DeviceSelfTest, Flush, GetLogPage, IdentifyController, NSID_ALL, NvmOpcode,
    Sanitize, SanitizeStatusLog, Sqe, Status, fid, lid,
};

fn sanitize(sanact: u8) -> Sanitize {
    Sanitize { sanact, ..Sanitize::default() }
}

async fn fill(host: &TestHost, pair: &Pair) {
    for slba in (0..4096).step_by(32) {
        assert_eq!(host.write(pair, NS_4K, slba, &pattern(slba, 128 << 10)).await, Status::SUCCESS);
        assert_eq!(host.write(pair, NS_512, slba, &pattern(slba, 32 * 512)).await, Status::SUCCESS);
    }
}

/// Waits for the end of a sanitize operation.
async fn ended(host: &TestHost) -> SanitizeStatusLog {
    let mut last = 0;
    loop {
        let log = host.sanitize_status().await;
        if log.sstat & 0b111 != SanitizeStatusLog::IN_PROGRESS {
            assert_eq!(log.sprog, u16::MAX);
            return log;
        }
        assert!(log.sprog >= last && log.sprog < u16::MAX, "progress goes on: {last}, {}", log.sprog);
        last = log.sprog;
        host.sleep(Delay::from_us(100)).await;
    }
}

// A sanitized drive is sold: nothing that was written may be left, whether or not a command can reach it.
#[test]
fn nothing_is_left_on_flash() {
    Bench::default().with_queue(async |host, pair| {
        assert_eq!(host.sanitize_status().await, SanitizeStatusLog::default());
        fill(&host, &pair).await;
        fill(&host, &pair).await;
        let request = host.request_event();
        let command = Sanitize { ause: true, ..sanitize(Sanitize::BLOCK_ERASE) };
        host.succeed(command.sqe(0)).await;
        assert_eq!(host.sanitize_status().await.sstat & 0b111, SanitizeStatusLog::IN_PROGRESS);
        let log = ended(&host).await;
        assert_eq!(log.sstat, SanitizeStatusLog::SUCCEEDED | SanitizeStatusLog::ERASED);
        assert_eq!(log.scdw10, command.sqe(0).cdw10);
        assert_eq!(host.units_on_media(), 0);
        let cqe = host.completion(&host.admin_pair().cq, request).await;
        assert_eq!(AsyncEvent::from_dw0(cqe.dw0), AsyncEvent::SANITIZE_COMPLETED);
        assert_eq!(host.read(&pair, NS_4K, 0, 32).await, vec![0; 128 << 10]);
        host.write_is(&pair, NS_4K, Status::SUCCESS).await;
        let log = host.sanitize_status().await;
        assert_eq!(log.sstat, SanitizeStatusLog::SUCCEEDED, "something has been written since");
    });
}

// An event of the previous operation that arrives during another one must not report the new one as complete.
#[test]
fn an_event_is_of_the_operation_that_has_ended() {
    let mut bench = Bench::default();
    bench.drive.timing.erase = Delay::from_ms(50);
    bench.with_queue(async |host, pair| {
        fill(&host, &pair).await;
        host.succeed(sanitize(Sanitize::BLOCK_ERASE).sqe(0)).await;
        ended(&host).await;
        fill(&host, &pair).await;
        host.succeed(sanitize(Sanitize::BLOCK_ERASE).sqe(0)).await;
        let request = host.request_event();
        host.sleep(Delay::from_ms(10)).await;
        assert!(host.look(&host.admin_pair().cq).is_none(), "it goes on");
        let cqe = host.completion(&host.admin_pair().cq, request).await;
        assert_eq!(AsyncEvent::from_dw0(cqe.dw0), AsyncEvent::SANITIZE_COMPLETED);
        assert_eq!(host.sanitize_status().await.sstat & 0b111, SanitizeStatusLog::SUCCEEDED);
    });
}

/// Checks which commands are refused while an operation is in progress or after it has failed.
async fn check_table(host: &TestHost, pair: &Pair, refusal: Status) {
    let page = host.pages(1);
    for nsid in [NS_512, NS_4K] {
        for opcode in [
            NvmOpcode::READ,
            NvmOpcode::WRITE,
            NvmOpcode::COMPARE,
            NvmOpcode::VERIFY,
            NvmOpcode::WRITE_UNCORRECTABLE,
            NvmOpcode::WRITE_ZEROES,
            NvmOpcode::DATASET_MANAGEMENT,
            NvmOpcode::COPY,
        ] {
            let sqe = read_write(opcode, nsid, 0, 1).with_prp(page, 0);
            assert_eq!(host.io(pair, sqe).await.status(), refusal, "{opcode}");
        }
        assert_eq!(host.io(pair, Flush.sqe(0, nsid)).await.status(), Status::SUCCESS);
    }
    let admin = async |sqe: Sqe| host.admin(sqe).await.status();
    assert_eq!(admin(format(NS_4K, byteway_content::BlockSize::B4096, 0)).await, refusal);
    assert_eq!(admin(delete(NS_4K)).await, refusal);
    assert_eq!(admin(host.create_sqe(&wanted(1, 1))).await, refusal);
    assert_eq!(admin(host.attach_sqe(NS_4K, false)).await, refusal);
    assert_eq!(admin(DeviceSelfTest { stc: 1 }.sqe(0, 0)).await, refusal);
    for lid in 0..=255 {
        let get = GetLogPage { lid, numd_z: 15, rae: true, ..GetLogPage::default() };
        let status = admin(get.sqe(0, NSID_ALL).with_prp(page, 0)).await;
        let allowed = [lid::ERROR_INFORMATION, lid::SMART, lid::CHANGED_NAMESPACE_LIST, lid::SANITIZE_STATUS];
        assert_eq!(status, if allowed.contains(&lid) { Status::SUCCESS } else { refusal }, "log {lid:#x}");
    }
    host.identify(Cns::CONTROLLER, 0).await;
    host.identify(Cns::NAMESPACE, NS_4K).await;
    host.succeed(get_features(fid::VOLATILE_WRITE_CACHE, byteway_wire::nvme::Select::CURRENT, 0)).await;
    host.set_feature(fid::VOLATILE_WRITE_CACHE, 1).await;
    host.create_pair(5, 8).await;
    host.succeed(fixture::delete_sq(5)).await;
    host.succeed(fixture::delete_cq(5)).await;
}

// A command that got in between would write what is not erased, or read what is to be gone.
#[test]
fn commands_are_refused_while_it_goes_on() {
    let mut bench = Bench::default();
    bench.drive.timing.erase = Delay::from_ms(50);
    bench.with_queue(async |host, pair| {
        fill(&host, &pair).await;
        host.succeed(sanitize(Sanitize::BLOCK_ERASE).sqe(0)).await;
        check_table(&host, &pair, Status::SANITIZE_IN_PROGRESS).await;
        for sanact in [Sanitize::BLOCK_ERASE, Sanitize::EXIT_FAILURE] {
            let status = host.admin(sanitize(sanact).sqe(0)).await.status();
            assert_eq!(status, Status::SANITIZE_IN_PROGRESS);
        }
        assert_eq!(host.sanitize_status().await.sstat, SanitizeStatusLog::IN_PROGRESS, "still");
        ended(&host).await;
        host.write_is(&pair, NS_4K, Status::SUCCESS).await;
    });
}

// An operation that SANICAP does not offer must be refused, not replaced by another.
#[test]
fn only_what_is_offered_is_done() {
    Bench::default().enabled(async |host| {
        let id = IdentifyController::read_from_bytes(&host.identify(Cns::CONTROLLER, 0).await)
            .expect("a page is as long as its structure");
        assert_eq!(id.sanicap, 1 << 1 | 1 << 29 | 0b01 << 30);
        for sanact in [0, 3, 4, 5, 6, 7] {
            host.refused(sanitize(sanact).sqe(0), Status::INVALID_FIELD).await;
        }
        let erase = sanitize(Sanitize::BLOCK_ERASE);
        host.refused(Sanitize { ndas: true, ..erase }.sqe(0), Status::INVALID_FIELD).await;
        host.refused(Sanitize { emvs: true, ..erase }.sqe(0), Status::INVALID_FIELD).await;
        host.succeed(sanitize(Sanitize::EXIT_FAILURE).sqe(0)).await; // there is none: nothing happens
        assert_eq!(host.sanitize_status().await, SanitizeStatusLog::default());
        assert_eq!(AdminOpcode::SANITIZE.0, 0x84);
    });
}

// A reset that stopped it would leave data on a drive that its owner believes empty.
#[test]
fn it_goes_on_through_resets_and_power_cuts() {
    let mut slow = drive_config();
    slow.timing.erase = Delay::from_ms(50);
    let (_, medium) = power_cycle(slow.clone(), None, async |host| {
        host.enable().await;
        let pair = host.create_pair(1, 64).await;
        fill(&host, &pair).await;
        host.succeed(sanitize(Sanitize::BLOCK_ERASE).sqe(0)).await;
        host.disable().await;
        host.enable().await;
        assert_eq!(host.sanitize_status().await.sstat, SanitizeStatusLog::IN_PROGRESS);
    });
    let (_, medium) = power_cycle(slow, Some(medium), async |host| {
        host.enable().await;
        let pair = host.create_pair(1, 64).await;
        let log = host.sanitize_status().await;
        assert_eq!(log.sstat, SanitizeStatusLog::IN_PROGRESS);
        let refused = host.try_read(&pair, NS_512, 0, 1, block_bytes(NS_512)).await.0;
        assert_eq!(refused, Status::SANITIZE_IN_PROGRESS);
        assert_eq!(ended(&host).await.sstat & 0b111, SanitizeStatusLog::SUCCEEDED);
        assert_eq!(host.units_on_media(), 0);
        host.write_is(&pair, NS_4K, Status::SUCCESS).await;
    });
    enabled_cycle(Some(medium), async |host| {
        let log = host.sanitize_status().await;
        assert_eq!(log.sstat, SanitizeStatusLog::SUCCEEDED, "blocks may have been written since");
    });
}

/// A drive on which a sanitize operation has failed.
fn failed(ause: bool) -> Medium {
    let (_, medium) = enabled_cycle(None, async move |host| {
        host.succeed(host.attach_sqe(NS_512, false)).await;
        host.succeed(host.attach_sqe(NS_512, true)).await;
        let ftl = host.drive().controller.ftl();
        let mut record = Record::decode(&ftl.record().expect("there is one")).expect("and it is whole");
        let cdw10 = Sanitize { ause, ..sanitize(Sanitize::BLOCK_ERASE) }.sqe(0).cdw10;
        record.sanitize = SanitizeRecord { state: SanitizeState::Failed, cdw10 };
        ftl.store_record(record.encode().into()).await;
    });
    medium
}

// A drive that failed to erase must not be used as if it had succeeded; a host that allowed unrestricted exit
// must be able to use it again.
#[test]
fn a_failure_is_left_as_its_command_allowed() {
    for ause in [true, false] {
        enabled_cycle(Some(failed(ause)), async move |host| {
            let pair = host.create_pair(1, 64).await;
            let refusal = Status::SANITIZE_FAILED.with_dnr();
            assert_eq!(host.sanitize_status().await.sstat, SanitizeStatusLog::FAILED);
            check_table(&host, &pair, refusal).await;
            let exit = host.admin(sanitize(Sanitize::EXIT_FAILURE).sqe(0)).await.status();
            if ause {
                assert_eq!(exit, Status::SUCCESS);
                host.write_is(&pair, NS_4K, Status::SUCCESS).await;
                assert_eq!(
                    host.sanitize_status().await.sstat,
                    SanitizeStatusLog::FAILED,
                    "it did, all the same"
                );
                return;
            }
            assert_eq!(exit, refusal);
            let unrestricted = Sanitize { ause: true, ..sanitize(Sanitize::BLOCK_ERASE) };
            assert_eq!(host.admin(unrestricted.sqe(0)).await.status(), refusal);
            host.succeed(sanitize(Sanitize::BLOCK_ERASE).sqe(0)).await;
            assert_eq!(ended(&host).await.sstat & 0b111, SanitizeStatusLog::SUCCEEDED);
            host.write_is(&pair, NS_4K, Status::SUCCESS).await;
        });
    }
}

// A drive that is nearly full has no free space to move in: what a superblock still holds must find some.
#[test]
fn a_full_drive_is_sanitized_too() {
    for seed in 0..8 {
        let mut bench = Bench::default();
        bench.drive.namespaces[1].units = 24_000;
        bench.drive.base = byteway_firmware::Base::Steady;
        bench.drive.seed = seed;
        bench.with_queue(async move |host, pair| {
            for round in 0..40 {
                let slba = (round * 7919 * (seed + 1)) % 20_000;
                assert_eq!(host.write(&pair, NS_4K, slba, &pattern(slba, 128 << 10)).await, Status::SUCCESS);
            }
            if seed % 2 == 1 {
                host.succeed(format(NS_512, byteway_content::BlockSize::B512, 1)).await;
            }
            for slba in 0..40 {
                host.place(&pair.sq, host.write_sqe(NS_4K, slba * 32, &pattern(slba, 128 << 10)));
            }
            host.ring_tail(&pair.sq);
            host.succeed(sanitize(Sanitize::BLOCK_ERASE).sqe(0)).await;
            for _ in 0..1000 {
                host.sleep(Delay::from_ms(1)).await;
                if host.sanitize_status().await.sstat & 0b111 != SanitizeStatusLog::IN_PROGRESS {
                    break;
                }
            }
            assert_eq!(host.sanitize_status().await.sstat & 0b111, SanitizeStatusLog::SUCCEEDED);
            assert_eq!(host.units_on_media(), 0);
            host.next_many(&pair.cq, 40).await;
        });
    }
}
