//! The property registers (NVMe Base 2.1, 3.1.4): what they say and take; enable, disable, shutdown.

mod fixture;

use byteway_clock::Delay;
use byteway_wire::nvme::feature::{NumberOfQueues, VolatileWriteCache};
use byteway_wire::nvme::register::{
    ACQ, AQA, ASQ, Aqa, CAP, CC, CMBLOC, CMBSZ, CRTO, CSTS, Cap, Cc, Csts, INTMC, INTMS, NSSR, NSSR_RESET,
    PMRCAP, VS, Vs,
};
use byteway_wire::nvme::{AsyncEvent, Cns, Doorbell, QueuePriority, Status, fid};
use fixture::{Bench, LONG, NS_4K, TestHost, cc, create_sq, pattern};

// A driver sizes its queues and finds its doorbells by these.
#[test]
fn capabilities_and_version_are_what_the_profile_says() {
    let mut bench = Bench::default();
    bench.drive.controller.queue_entries_max = 256;
    bench.drive.controller.dstrd = 3;
    bench.run(async |host| {
        let cap = Cap::from_bits(host.read64(CAP).await);
        assert_eq!((cap.mqes_z(), cap.dstrd(), cap.ams()), (255, 3, 1));
        assert_eq!((cap.mpsmin(), cap.mpsmax(), cap.css()), (0, 4, 1));
        assert!(cap.cqr() && cap.to() > 0);
        assert!(
            !cap.nssrs() && !cap.bps() && !cap.pmrs() && !cap.cmbs() && !cap.nsss(),
            "none of these exists"
        );
        let halves = u64::from(host.read32(CAP).await) | u64::from(host.read32(CAP + 4).await) << 32;
        assert_eq!(halves, cap.into_bits(), "two reads of 32 bits are one of 64");
        assert_eq!(host.read32(VS).await, Vs::V2_0.into_bits());
        assert_eq!((cap.crms(), host.read32(CRTO).await), (1, u32::from(cap.to())));
    });
}

// A register that loses bits, or keeps reserved ones, makes a driver's read-modify-write write something else.
#[test]
fn admin_queue_registers_hold_what_they_are_given() {
    Bench::default().run(async |host| {
        host.write32(AQA, 0xffff_ffff);
        assert_eq!(host.read32(AQA).await, 0x0fff_0fff);
        for register in [ASQ, ACQ] {
            host.write64(register, 0x1234_5678_9abc_def0);
            assert_eq!(host.read64(register).await, 0x1234_5678_9abc_d000, "queues begin at a page");
            host.write32(register + 4, 0xaaaa_bbbb);
            host.write32(register, 0xcccc_dddd);
            assert_eq!(host.read64(register).await, 0xaaaa_bbbb_cccc_d000);
            assert_eq!(host.read32(register + 4).await, 0xaaaa_bbbb);
        }
    });
}

// The two mask registers are one mask: set by one, cleared by the other, read by both.
#[test]
fn interrupt_masks_are_set_and_cleared_by_bits() {
    Bench::default().run(async |host| {
        host.write32(INTMS, 0b1011);
        host.write32(INTMS, 0b0100);
        assert_eq!(host.read32(INTMS).await, 0b1111);
        host.write32(INTMC, 0b0110);
        assert_eq!((host.read32(INTMS).await, host.read32(INTMC).await), (0b1001, 0b1001));
    });
}

// A stray write must not turn the drive into another one.
#[test]
fn read_only_and_reserved_registers_ignore_writes() {
    Bench::default().enabled(async |host| {
        let reserved =
            [0x18, NSSR, CMBLOC, CMBSZ, 0x40, 0x44, 0x48, 0x50, 0x58, 0x64, 0x6c, 0x800, PMRCAP, 0xffc];
        let before = (host.read64(CAP).await, host.read32(VS).await, host.csts().await);
        for offset in [CAP, VS, CSTS].into_iter().chain(reserved) {
            host.write32(offset, u32::MAX);
            host.write32(offset, NSSR_RESET);
        }
        host.write64(CAP, 0x1111_2222_3333_4444);
        assert_eq!((host.read64(CAP).await, host.read32(VS).await, host.csts().await), before);
        for offset in reserved {
            assert_eq!(host.read32(offset).await, 0, "reserved at {offset:#x}");
        }
        assert_eq!(host.read64(0x1000).await, 0, "doorbells read as nothing");
        assert_eq!(host.read64(1 << 20).await, 0, "behind the last register");
        assert_eq!(host.identify(Cns::CONTROLLER, 0).await.len(), 4096, "still alive");
    });
}

// Offsets come from the host: one that is no multiple of four is nobody's register.
#[test]
fn unaligned_accesses_do_nothing() {
    Bench::default().enabled(async |host| {
        for offset in [0x1, 0x2, CC + 1, CC + 2, CSTS + 3, 0x1001, 0x1002, u64::MAX, u64::MAX - 2] {
            host.write32(offset, 0);
            host.write64(offset, 0);
            assert_eq!((host.read32(offset).await, host.read64(offset).await), (0, 0), "at {offset:#x}");
        }
        for offset in [u64::MAX - 3, u64::MAX - 7] {
            host.write64(offset, u64::MAX);
            assert_eq!(host.read64(offset).await, 0);
        }
        assert!(host.csts().await.rdy());
        assert_eq!(host.read32(CC).await, cc().into_bits());
    });
}

// Some hosts write 64 bits where two registers lie: both count, also where one of them does something.
#[test]
fn a_write_of_64_bits_is_two_of_32() {
    Bench::default().run(async |host| {
        host.set_admin_queues();
        host.write32(INTMS, 0b11);
        host.write64(INTMC, 0b01 | u64::from(cc().into_bits()) << 32);
        host.csts_until(Csts::rdy).await;
        assert_eq!(host.read32(INTMS).await, 0b10);
        assert_eq!(host.read64(VS).await, u64::from(Vs::V2_0.into_bits()) | 0b10 << 32);
        host.identify(Cns::CONTROLLER, 0).await;
    });
}

// A driver waits for ready: too early and its first command is lost, never and it gives up.
#[test]
fn enabling_takes_the_time_that_the_profile_says() {
    let mut bench = Bench::default();
    bench.drive.controller.ready_delay = Delay::from_us(500);
    bench.run(async |host| {
        host.set_admin_queues();
        assert_eq!(host.csts().await, Csts::new());
        host.set_cc(cc());
        host.sleep(Delay::from_us(450)).await;
        assert_eq!(host.csts().await, Csts::new(), "not yet");
        host.sleep(Delay::from_us(60)).await;
        assert_eq!(host.csts().await, Csts::new().with_rdy(true));
        assert_eq!(Cc::from_bits(host.read32(CC).await), cc());
    });
}

// A host that changes its mind must not find a controller that comes up later all the same.
#[test]
fn disabled_before_it_is_ready_it_never_is() {
    let mut bench = Bench::default();
    bench.drive.controller.ready_delay = Delay::from_us(500);
    bench.run(async |host| {
        host.set_admin_queues();
        host.set_cc(cc());
        host.sleep(Delay::from_us(100)).await;
        host.set_cc(cc().with_en(false));
        host.sleep(LONG).await;
        assert_eq!(host.csts().await, Csts::new());
        host.enable().await;
        host.identify(Cns::CONTROLLER, 0).await;
    });
}

// What CAP doesn't offer can't be had: ready with it would run commands under rules that nobody keeps.
#[test]
fn impossible_settings_are_a_fatal_status_until_the_reset() {
    Bench::default().run(async |host| {
        let sizes = |asqs_z, acqs_z| Aqa::new().with_asqs_z(asqs_z).with_acqs_z(acqs_z);
        let usual = sizes(31, 31);
        let wrong = [
            (cc().with_mps(5), usual),
            (cc().with_mps(15), usual),
            (cc().with_ams(2), usual),
            (cc().with_ams(Cc::AMS_VENDOR), usual),
            (cc().with_css(1), usual),
            (cc().with_css(Cc::CSS_ALL), usual),
            (cc().with_css(Cc::CSS_ADMIN), usual), // reserved where CAP.CSS doesn't offer it
            (cc(), sizes(0, 31)),
            (cc(), sizes(31, 0)),
        ];
        for (cc, aqa) in wrong {
            host.set_admin_queues();
            host.write32(AQA, aqa.into_bits());
            host.set_cc(cc);
            let csts = host.csts_until(|csts| csts.rdy() || csts.cfs()).await;
            assert_eq!(csts, Csts::new().with_cfs(true), "{cc:?} {aqa:?}");
            host.set_cc(cc.with_en(false));
            host.csts_until(|csts| *csts == Csts::new()).await;
        }
        host.enable().await;
        host.identify(Cns::CONTROLLER, 0).await;
    });
}

// Reset is a driver's last resort: everything volatile starts anew, and what the specification keeps is kept.
#[test]
fn disabling_forgets_queues_and_features_and_keeps_the_admin_registers() {
    Bench::default().with_queue(async |host, pair| {
        let bytes = pattern(1, 4096);
        assert_eq!(host.write(&pair, NS_4K, 9, &bytes).await, Status::SUCCESS);
        host.set_feature(fid::VOLATILE_WRITE_CACHE, 0).await;
        host.write32(INTMS, 0xff00);
        let admin = (host.read32(AQA).await, host.read64(ASQ).await, host.read64(ACQ).await);
        host.disable().await;
        assert_eq!(host.csts().await, Csts::new());
        assert_eq!((host.read32(AQA).await, host.read64(ASQ).await, host.read64(ACQ).await), admin);
        assert_eq!(host.read32(INTMS).await, 0);
        assert_eq!(host.drive().controller.counters().resets.get(), 1);

        host.enable().await;
        let cache = VolatileWriteCache::from_bits(host.feature(fid::VOLATILE_WRITE_CACHE).await);
        assert!(cache.wce(), "features are back to their defaults");
        let queues = NumberOfQueues::new().with_nsq_z(7).with_ncq_z(7).into_bits();
        host.set_feature(fid::NUMBER_OF_QUEUES, queues).await; // refused if a queue were left
        host.refused(create_sq(&pair.sq, 1, QueuePriority::Urgent), Status::COMPLETION_QUEUE_INVALID).await;
        let pair = host.create_pair(1, 8).await;
        assert_eq!(host.read(&pair, NS_4K, 9, 1).await, bytes, "media outlive a reset");
    });
}

// The admin queues begin anew with each enable, also in the same memory: head, tail and phase.
#[test]
fn the_same_admin_queues_serve_after_a_reset() {
    Bench::default().enabled(async |host| {
        for _ in 0..3 {
            for _ in 0..50 {
                host.identify(Cns::CONTROLLER, 0).await;
            }
            let old = host.admin_pair();
            host.disable().await;
            host.poke(old.cq.base, &[0; 32 * 16]);
            old.sq.tail.set(0);
            old.cq.head.set(0);
            old.cq.phase.set(true);
            host.set_cc(cc());
            host.csts_until(Csts::rdy).await;
        }
    });
}

// Doorbells of a controller that is not ready are the tail of an earlier life.
#[test]
fn doorbells_count_only_while_ready() {
    Bench::default().run(async |host| {
        host.set_admin_queues();
        host.ring(Doorbell::SubmissionTail(0), 3);
        host.set_cc(cc());
        host.ring(Doorbell::SubmissionTail(0), 5);
        host.csts_until(Csts::rdy).await;
        host.sleep(LONG).await;
        assert_eq!(host.drive().controller.counters().fetched.get(), 0);
        let event = host.request_event();
        host.identify(Cns::CONTROLLER, 0).await;
        host.disable().await;
        host.ring(Doorbell::SubmissionTail(0), 3);
        host.sleep(LONG).await;
        assert!(
            host.look(&host.admin_pair().cq).is_none(),
            "request {event} is not answered, nor fetched again"
        );
    });
}

/// Writes something that stays in the write buffer, and shuts down.
async fn shut_down_after_a_write(host: TestHost, shn: u8) {
    let pair = host.create_pair(1, 64).await;
    let bytes = pattern(2, 4096);
    assert_eq!(host.write(&pair, NS_4K, 5, &bytes).await, Status::SUCCESS);
    let ftl = host.drive().controller.ftl().clone();
    assert_eq!(ftl.units_buffered(), 1, "it waits for its stripe to fill");
    host.set_cc(cc().with_shn(shn));
    let csts = host.csts_until(|csts| csts.shst() != Csts::SHST_NORMAL).await;
    assert_eq!(csts.shst(), Csts::SHST_OCCURRING, "programming takes its time");
    let csts = host.csts_until(|csts| csts.shst() != Csts::SHST_OCCURRING).await;
    assert_eq!(csts, Csts::new().with_rdy(true).with_shst(Csts::SHST_COMPLETE));
    assert_eq!(ftl.units_buffered(), 0, "everything is on flash");
    host.sleep(LONG).await;
    assert_eq!(host.csts().await.shst(), Csts::SHST_COMPLETE, "it stays shut down");
    host.disable().await;
    assert_eq!(host.csts().await, Csts::new());
    host.enable().await;
    let pair = host.create_pair(1, 64).await;
    assert_eq!(host.read(&pair, NS_4K, 5, 1).await, bytes);
}

// The power goes when the host sees "complete": what is only in the buffer then is lost.
#[test]
fn a_normal_shutdown_flushes() {
    Bench::default().enabled(async |host| shut_down_after_a_write(host, Cc::SHN_NORMAL).await);
}

// Abrupt allows the drive not to, but a buffer without power-loss protection has nowhere else to go.
#[test]
fn an_abrupt_shutdown_flushes_too() {
    Bench::default().enabled(async |host| shut_down_after_a_write(host, Cc::SHN_ABRUPT).await);
}

// Hosts shut controllers down that they never enabled, and wait for the end.
#[test]
fn a_controller_that_is_not_enabled_shuts_down() {
    Bench::default().run(async |host| {
        host.set_cc(Cc::new().with_shn(Cc::SHN_NORMAL));
        host.csts_until(|csts| csts.shst() == Csts::SHST_COMPLETE).await;
    });
}

// Admin queues where no memory is: the host must see it, and be able to repair it.
#[test]
fn admin_queues_outside_memory_are_a_fatal_status() {
    Bench::default().run(async |host| {
        for register in [ASQ, ACQ] {
            for address in [host.hole(), u64::MAX << 12, 0] {
                host.set_admin_queues();
                host.write64(register, address);
                host.set_cc(cc());
                host.csts_until(Csts::rdy).await;
                host.request_event();
                host.submit(&host.admin_pair().sq, create_sq(&host.new_sq(1, 2), 9, QueuePriority::Urgent));
                host.csts_until(Csts::cfs).await;
                host.disable().await;
            }
        }
        host.enable().await;
        host.identify(Cns::CONTROLLER, 0).await;
    });
}

// The stride is for hosts that give each doorbell a page: with it wrong, every doorbell is another queue's.
#[test]
fn doorbells_lie_as_far_apart_as_the_stride_says() {
    let mut bench = Bench::default();
    bench.drive.controller.dstrd = 4;
    bench.with_queue(async |host, pair| {
        let bytes = pattern(3, 4096);
        assert_eq!(host.write(&pair, NS_4K, 1, &bytes).await, Status::SUCCESS);
        assert_eq!(host.read(&pair, NS_4K, 1, 1).await, bytes);
        let event = host.request_event();
        host.write32(0x1000 + 4, 0); // between two doorbells
        let cqe = host.completion(&host.admin_pair().cq, event).await;
        assert_eq!(cqe.dw0, AsyncEvent::INVALID_DOORBELL_REGISTER.dw0());
    });
}
