//! The property registers (NVMe Base 2.1, 3.1.4): what they say and take; enable, disable, shutdown.

use crate::fixture::{
    Bench, LONG, NS_4K, TestHost, cc, create_sq, delete_cq, delete_sq, pattern, read_write,
};
use byteway_clock::Delay;
use byteway_firmware::Defect;
use byteway_link::MmioWrite;
use byteway_wire::nvme::feature::{NumberOfQueues, VolatileWriteCache};
use byteway_wire::nvme::register::{
    ACQ, AQA, ASQ, Aqa, CAP, CC, CMBLOC, CMBSZ, CRTO, CSTS, Cap, Cc, Csts, INTMC, INTMS, NSSR, NSSR_RESET,
    PMRCAP, VS, Vs,
};
use byteway_wire::nvme::{AsyncEvent, Cns, Doorbell, NvmOpcode, QueuePriority, Status, fid};
use std::cell::Cell;
use std::rc::Rc;

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

// Offsets come from the host: one that is no multiple of four is no register.
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

// If a host disables the controller before it is ready, the controller must not become ready later.
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

// A setting that CAP does not offer must fail: ready with it would run commands under rules that the
// controller does not follow.
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

// Reset is a driver's last resort: everything volatile starts over, and what the specification keeps is kept.
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

// The admin queues start over with each enable, also in the same memory: head, tail and phase.
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

// The power is cut when the host sees "complete": what is only in the buffer then is lost.
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

// A host gives up on a shutdown that takes too long, and resets: if that waited for the shutdown, neither this host nor
// any later one would ever get through.
#[test]
fn a_reset_ends_a_shutdown_that_would_never_end() {
    let mut bench = Bench::default();
    bench.drive.ftl.defect = Defect::StallShutdown.into();
    bench.run(async |host| {
        let drive = host.drive();
        for round in 0..3 {
            host.enable().await;
            let pair = host.create_pair(1, 64).await;
            let bytes = pattern(round as u64, 4096);
            assert_eq!(host.write(&pair, NS_4K, 5, &bytes).await, Status::SUCCESS);
            host.set_cc(cc().with_shn(Cc::SHN_NORMAL));
            host.csts_until(|csts| csts.shst() == Csts::SHST_OCCURRING).await;
            host.sleep(Delay::from_ms(1000)).await;
            assert_eq!(host.csts().await.shst(), Csts::SHST_OCCURRING, "it is stuck");
            match round {
                0 => host.disable().await,
                1 => {
                    // CC.SHN may still be set: the shutdown begins again, and ends again with what comes next.
                    host.set_cc(cc().with_en(false).with_shn(Cc::SHN_NORMAL));
                    host.csts_until(|csts| !csts.rdy()).await;
                }
                _ => drive.controller.reset().await,
            }
            host.enable().await;
            let pair = host.create_pair(1, 64).await;
            assert_eq!(host.read(&pair, NS_4K, 5, 1).await, bytes, "round {round}");
            host.disable().await;
        }
        assert!(drive.controller.is_quiet());
    });
}

// Half a checkpoint, or the permit of one, that an aborted shutdown left behind would keep the next shutdown from ending.
#[test]
fn a_shutdown_ends_after_any_number_of_aborted_ones() {
    Bench::default().run(async |host| {
        let ftl = host.drive().controller.ftl().clone();
        for step in 0..120 {
            host.enable().await;
            let pair = host.create_pair(1, 64).await;
            let bytes = pattern(step, 4096);
            assert_eq!(host.write(&pair, NS_4K, step % 16, &bytes).await, Status::SUCCESS);
            host.set_cc(cc().with_shn(Cc::SHN_NORMAL));
            host.sleep(Delay::from_ns(7_919 * step)).await; // up to beyond the end of the shutdown
            match step % 3 {
                0 => host.drive().controller.reset().await,
                _ => host.disable().await,
            }
            host.enable().await;
            let pair = host.create_pair(1, 64).await;
            assert_eq!(host.read(&pair, NS_4K, step % 16, 1).await, bytes, "step {step}");
            if step % 4 == 0 {
                host.set_cc(cc().with_shn(Cc::SHN_NORMAL));
                host.csts_until(|csts| csts.shst() == Csts::SHST_COMPLETE).await;
                assert_eq!((ftl.units_buffered(), ftl.slots_free()), (0, ftl.slots()), "step {step}");
            }
            host.disable().await;
        }
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

/// The function's reset is done: every register is put back, and the drive can be enabled and works.
async fn assert_reset(host: &TestHost, case: &str) {
    assert_eq!(host.csts().await, Csts::new(), "{case}");
    for register in [CC, AQA, ASQ, ASQ + 4, ACQ, ACQ + 4, INTMS] {
        assert_eq!(host.read32(register).await, 0, "{case}: register {register:#x}");
    }
    let controller = &host.drive().controller;
    assert!(controller.is_quiet(), "{case}");
    controller.each_queue(|doorbell| panic!("{case}: {doorbell:?} is still there"));
    host.sleep(LONG).await;
    assert_eq!(host.csts().await, Csts::new(), "{case}: it stays so");
    host.enable().await;
    let pair = host.create_pair(1, 64).await;
    assert_eq!(host.read(&pair, NS_4K, 3, 1).await.len(), 4096, "{case}");
}

// A host resets a function that it knows nothing of: the one before may have left it in any state.
#[test]
fn a_function_reset_works_in_any_state() {
    Bench::default().run(async |host| {
        let controller = host.drive().controller.clone();
        controller.reset().await;
        assert_reset(&host, "enabled never").await;

        controller.reset().await;
        assert_reset(&host, "enabled and idle").await;

        host.disable().await;
        controller.reset().await;
        assert_reset(&host, "disabled").await;

        controller.reset().await;
        host.set_admin_queues();
        host.set_cc(cc());
        host.sleep(Delay::from_us(5)).await;
        assert!(!host.csts().await.rdy());
        controller.reset().await;
        assert_reset(&host, "being enabled").await;

        let pair = host.create_pair(2, 64).await;
        assert_eq!(host.write(&pair, NS_4K, 5, &pattern(2, 4096)).await, Status::SUCCESS);
        host.set_cc(cc().with_shn(Cc::SHN_NORMAL));
        host.csts_until(|csts| csts.shst() == Csts::SHST_OCCURRING).await;
        controller.reset().await;
        assert_reset(&host, "shutting down").await;

        host.set_cc(cc().with_shn(Cc::SHN_NORMAL));
        host.csts_until(|csts| csts.shst() == Csts::SHST_COMPLETE).await;
        controller.reset().await;
        assert_reset(&host, "shut down").await;

        host.disable().await;
        host.set_admin_queues();
        host.write64(ASQ, host.hole());
        host.set_cc(cc());
        host.csts_until(Csts::rdy).await;
        host.request_event();
        host.csts_until(Csts::cfs).await;
        controller.reset().await;
        assert_reset(&host, "fatal").await;

        host.disable().await;
        host.set_cc(cc().with_mps(15));
        host.csts_until(Csts::cfs).await;
        controller.reset().await;
        assert_reset(&host, "fatal before it was ready").await;
    });
}

// The next owner of the memory must not find completions, data or interrupts of the one before in it.
#[test]
fn after_a_function_reset_nothing_arrives() {
    for wait_ns in [0, 50, 300, 900, 2_000, 9_000, 12_000, 14_000, 20_000] {
        Bench::default().enabled(async move |host| {
            let interrupts = host.listen(1);
            let cq = host.create_cq(1, 64, Some(1)).await;
            let pair = host.create_sq(1, 64, &cq, QueuePriority::Urgent).await;
            let data = host.pages(40);
            for index in 0..40_u64 {
                let opcode = if index % 4 == 0 { NvmOpcode::WRITE } else { NvmOpcode::READ };
                let sqe = read_write(opcode, NS_4K, index, 1).with_prp(data + index * 4096, 0);
                host.place(&pair.sq, sqe);
            }
            host.request_event();
            host.ring_tail(&pair.sq);
            host.sleep(Delay::from_ns(wait_ns)).await;
            host.drive().controller.reset().await;
            let end = host.clock().now();
            let memory = || (host.peek(pair.cq.base, 1024), host.peek(data, 40 * 4096));
            let (before, announced) = (memory(), interrupts.get());
            // A doorbell write that was in flight, or comes too late, has no effect.
            host.ring_tail(&pair.sq);
            host.sleep(LONG).await;
            assert_eq!((before, announced), (memory(), interrupts.get()), "{wait_ns} ns, reset at {end:?}");
            assert_reset(&host, "under load").await;
        });
    }
}

/// Writes a register without a link between.
fn deliver(host: &TestHost, offset: u64, value: u32) {
    host.device().deliver(MmioWrite { offset, value: value.into(), bytes: 4 });
}

// Two owners may reset at once (the guest and its monitor), and a driver may write CC meanwhile.
#[test]
fn function_resets_may_overlap_each_other_and_writes_of_cc() {
    Bench::default().enabled(async |host| {
        let mut overlapped = 0;
        for wait_ns in [0, 200, 700, 1_000, 2_000, 8_000] {
            let pair = host.create_pair(3, 64).await;
            for lba in 0..30 {
                let sqe = read_write(NvmOpcode::READ, NS_4K, lba, 1).with_prp(host.pages(1), 0);
                host.place(&pair.sq, sqe);
            }
            host.ring_tail(&pair.sq);
            host.sleep(Delay::from_ns(wait_ns)).await;
            let controller = host.drive().controller.clone();
            let ended = Rc::new(Cell::new(0));
            for _ in 0..2 {
                let (controller, ended) = (controller.clone(), ended.clone());
                host.clock().spawn("reset", async move {
                    controller.reset().await;
                    ended.set(ended.get() + 1);
                });
            }
            host.clock().yield_now().await;
            if !controller.is_quiet() {
                deliver(&host, CC, cc().with_en(false).into_bits());
                deliver(&host, CC, cc().into_bits()); // the reset lasts, and this is lost
                overlapped += 1;
            }
            controller.reset().await;
            host.clock().yield_now().await;
            assert_eq!(ended.get(), 2, "they are one reset");
            assert_reset(&host, "at once").await;
            // And a controller reset, that a function reset overtakes.
            host.sleep(Delay::from_us(1)).await; // what was sent before is there
            deliver(&host, CC, cc().with_en(false).into_bits());
            host.sleep(Delay::from_ns(wait_ns + 1)).await;
            controller.reset().await;
            assert_reset(&host, "after CC").await;
        }
        assert!(overlapped >= 2, "{overlapped}");
    });
}

// A transport that polls doorbells looks at those that exist: with a stale list it misses a new queue's first command.
#[test]
fn a_transport_sees_queues_come_and_go() {
    Bench::default().enabled(async |host| {
        let controller = host.drive().controller.clone();
        let list = || {
            let mut all = Vec::new();
            controller.each_queue(|doorbell| all.push(doorbell));
            all
        };
        use Doorbell::{CompletionHead as Head, SubmissionTail as Tail};
        let mut epochs = vec![controller.queues_epoch()];
        let mut changed = || {
            let epoch = controller.queues_epoch();
            let new = !epochs.contains(&epoch);
            epochs.push(epoch);
            new
        };
        assert_eq!(list(), [Tail(0), Head(0)]);
        host.identify(Cns::CONTROLLER, 0).await;
        assert!(!changed(), "nothing came or went");
        let cq = host.create_cq(2, 8, None).await;
        assert!(changed());
        assert_eq!(list(), [Tail(0), Head(0), Head(2)]);
        let pair = host.create_sq(1, 8, &cq, QueuePriority::Urgent).await;
        assert!(changed());
        assert_eq!(list(), [Tail(0), Tail(1), Head(0), Head(2)]);

        let bytes = host.read(&pair, NS_4K, 0, 1).await;
        assert_eq!(bytes.len(), 4096);
        assert!(!changed());
        host.succeed(delete_sq(1)).await;
        assert!(changed());
        host.succeed(delete_cq(2)).await;
        assert!(changed());
        assert_eq!(list(), [Tail(0), Head(0)]);
        host.disable().await;
        assert!(changed());
        assert_eq!(list(), []);
        host.enable().await;
        assert!(changed());
        host.identify(Cns::CONTROLLER, 0).await;
    });
}
