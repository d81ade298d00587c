//! Arbitration in the whole controller (NVMe Base 2.1, 3.4.4): shares of service under saturation, urgent before the
//! weighted classes, admin before all.
//!
//! Verified: shares by class and by queue within 2 %, bursts, how soon an urgent or an admin command is served. Not
//! verified: shares of queues that are not kept full, of which the specification says nothing.

use crate::fixture::{Bench, Cq, NS_4K, Pair, TestHost, cc, read_write};
use byteway_clock::Delay;
use byteway_firmware::Base;
use byteway_wire::nvme::feature::Arbitration;
use byteway_wire::nvme::register::Cc;
use byteway_wire::nvme::{Cns, Identify, NvmOpcode, QueuePriority, Sqe, Status, fid};
use std::rc::Rc;

/// Commands that a host keeps in each queue.
const DEPTH: u32 = 40;

/// A drive whose command slots are what everybody wants: eight of them, and reads of what was never written.
fn contended() -> Bench {
    let mut bench = Bench::default();
    bench.drive.controller.command_slots = 8;
    bench
}

/// A read into `page`.
fn read(page: u64, slba: u64) -> Sqe {
    read_write(NvmOpcode::READ, NS_4K, slba, 1).with_prp(page, 0)
}

/// One completion queue, and for each class a submission queue that completes to it.
async fn queues(host: &TestHost, classes: &[QueuePriority]) -> (Rc<Cq>, Vec<Pair>) {
    let cq = host.create_cq(1, 1024, None).await;
    let mut pairs = Vec::new();
    for (index, class) in classes.iter().enumerate() {
        pairs.push(host.create_sq(index as u16 + 1, 256, &cq, *class).await);
    }
    (cq, pairs)
}

/// Keeps all queues full until `count` commands have completed; gives how many did, by queue.
async fn saturate(host: &TestHost, cq: &Cq, pairs: &[Pair], count: u32) -> Vec<u32> {
    let page = host.pages(1);
    for pair in pairs {
        (0..DEPTH).for_each(|slba| _ = host.place(&pair.sq, read(page, slba.into())));
        host.ring_tail(&pair.sq);
    }
    let mut served = vec![0; pairs.len()];
    for done in 0..count {
        let cqe = host.next(cq).await;
        assert_eq!(cqe.status(), Status::SUCCESS);
        let queue = usize::from(cqe.sqid) - 1;
        served[queue] += 1;
        host.submit(&pairs[queue].sq, read(page, u64::from(done) % 1000));
    }
    // Remaining queue entries are served too, but no longer under saturation.
    for _ in 0..DEPTH * pairs.len() as u32 {
        host.next(cq).await;
    }
    served
}

fn assert_shares(served: &[u32], weights: &[u32]) {
    let (all, total) = (served.iter().sum::<u32>(), weights.iter().sum::<u32>());
    for (got, weight) in served.iter().zip(weights) {
        let due = f64::from(all) * f64::from(*weight) / f64::from(total);
        let off = (f64::from(*got) - due) / due;
        assert!(off.abs() <= 0.02, "{served:?} for the weights {weights:?}: {got} instead of {due}");
    }
}

fn weighted() -> Cc {
    cc().with_ams(Cc::AMS_WEIGHTED_ROUND_ROBIN)
}

fn weights(high: u8, medium: u8, low: u8, ab: u8) -> u32 {
    let weights = Arbitration::new().with_hpw_z(high - 1).with_mpw_z(medium - 1).with_lpw_z(low - 1);
    weights.with_ab(ab).into_bits()
}

use QueuePriority::{High, Low, Medium, Urgent};

// A tenant that paid for four times the service of another would get the same.
#[test]
fn weights_give_shares() {
    for ab in [0, 2, 7] {
        let bench = Bench { cc: weighted(), ..contended() };
        bench.enabled(async move |host| {
            host.set_feature(fid::ARBITRATION, weights(4, 2, 1, ab)).await;
            let (cq, pairs) = queues(&host, &[Low, Medium, High]).await;
            assert_shares(&saturate(&host, &cq, &pairs, 7000).await, &[1, 2, 4]);
        });
    }
}

// Weights are of a class: two tenants of one class share its service, and don't get twice as much.
#[test]
fn queues_of_a_class_share_its_weight() {
    let bench = Bench { cc: weighted(), ..contended() };
    bench.enabled(async |host| {
        host.set_feature(fid::ARBITRATION, weights(4, 2, 2, 0)).await;
        let (cq, pairs) = queues(&host, &[Low, Low, High, High]).await;
        assert_shares(&saturate(&host, &cq, &pairs, 6000).await, &[1, 1, 2, 2]);
    });
}

// A class without commands must not keep its share from the others.
#[test]
fn an_idle_class_gives_its_turn_away() {
    let bench = Bench { cc: weighted(), ..contended() };
    bench.enabled(async |host| {
        host.set_feature(fid::ARBITRATION, weights(200, 2, 1, 0)).await;
        let (cq, pairs) = queues(&host, &[Low, Medium, High]).await;
        assert_shares(&saturate(&host, &cq, &pairs[..2], 3000).await, &[1, 2]);
    });
}

// Paging or a log's tail would wait behind bulk I/O.
#[test]
fn urgent_goes_first() {
    let bench = Bench { cc: weighted(), ..contended() };
    bench.enabled(async |host| {
        host.set_feature(fid::ARBITRATION, weights(4, 2, 1, 0)).await;
        let (cq, pairs) = queues(&host, &[Low, Medium, High, Urgent]).await;
        let page = host.pages(1);
        for pair in &pairs[..3] {
            (0..200).for_each(|slba| _ = host.place(&pair.sq, read(page, slba)));
            host.ring_tail(&pair.sq);
        }
        host.next_many(&cq, 20).await;
        (0..100).for_each(|slba| _ = host.place(&pairs[3].sq, read(page, slba)));
        host.ring_tail(&pairs[3].sq);
        let mut others = 0;
        let mut urgent = 0;
        while urgent < 100 {
            match host.next(&cq).await.sqid {
                4 => urgent += 1,
                _ => others += 1,
            }
        }
        // Those that had a slot, were being fetched, or completed while the doorbell was in flight.
        assert!(others <= 40, "{others} others were served before 100 urgent commands");
        host.next_many(&cq, 600 - 20 - others).await;
    });
}

// Under round robin all tenants are equal, independent of requested class and burst size.
#[test]
fn round_robin_is_equal() {
    for burst in [1, 4, 128] {
        let mut bench = contended();
        bench.drive.controller.arbitration_burst = burst;
        bench.enabled(async |host| {
            let (cq, pairs) = queues(&host, &[Low, Urgent, High, Medium]).await;
            assert_shares(&saturate(&host, &cq, &pairs, 8000).await, &[1, 1, 1, 1]);
        });
    }
}

// A drive that answers no Abort or Identify while it is busy looks dead: the driver's time-out would reset it.
#[test]
fn admin_commands_are_answered_while_every_slot_is_busy() {
    let mut bench = contended();
    bench.drive.base = Base::Filled;
    bench.drive.timing.read = vec![Delay::from_ms(1)];
    bench.with_queue(async |host, pair| {
        let page = host.pages(1);
        (0..48).for_each(|slba| _ = host.place(&pair.sq, read(page, slba * 16)));
        host.ring_tail(&pair.sq);
        host.sleep(Delay::from_us(100)).await;
        assert!(host.look(&pair.cq).is_none(), "every slot waits for flash");
        let before = host.clock().now();
        let identify = Identify { cns: Cns::CONTROLLER, ..Identify::default() };
        for _ in 0..20 {
            host.succeed(identify.sqe(0, 0).with_prp(page, 0)).await;
        }
        let each = Delay(host.clock().now().since(before).0 / 20);
        assert!(each < Delay::from_us(10), "an Identify took {each}");
        assert!(host.look(&pair.cq).is_none(), "every slot waits for flash still");
        host.next_many(&pair.cq, 48).await;
    });
}
