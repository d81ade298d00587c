//! Interrupt messages: which vector, when, and when not (NVMe Base 2.1, 5.1.25.2.2, 5.1.25.2.3 and 3.1.4.3).

use crate::fixture::{Bench, NS_4K, Pair, TestHost};
use byteway_clock::Delay;
use byteway_link::Purpose;
use byteway_wire::nvme::feature::{InterruptCoalescing, InterruptVectorConfiguration};
use byteway_wire::nvme::register::{INTMC, INTMS};
use byteway_wire::nvme::{Cns, Flush, QueuePriority, Sqe, fid};

/// A queue pair whose completions `vector` announces.
async fn pair(host: &TestHost, id: u16, vector: u16) -> Pair {
    let cq = host.create_cq(id, 64, Some(vector)).await;
    host.create_sq(id, 64, &cq, QueuePriority::Urgent).await
}

/// A command that completes in a few microseconds.
fn quick() -> Sqe {
    Flush.sqe(0, NS_4K)
}

fn coalescing(completions: u8, hundreds_of_us: u8) -> u32 {
    InterruptCoalescing::new().with_thr_z(completions - 1).with_time(hundreds_of_us).into_bits()
}

/// Messages on the link so far, by the ledger.
fn messages(host: &TestHost) -> u64 {
    host.end().ledger().of(Purpose::MsiX).tlps
}

// A message to another vector wakes another processor, which finds nothing; the one that waits sleeps on.
#[test]
fn each_completion_is_announced_by_its_queue_s_vector() {
    Bench::default().enabled(async |host| {
        let counts: Vec<_> = (0..9).map(|vector| host.listen(vector)).collect();
        let mut pairs = Vec::new();
        for id in 1..=8 {
            pairs.push(pair(&host, id, 9 - id).await);
        }
        host.sleep(Delay::from_us(10)).await;
        assert_eq!(counts[0].get(), 16, "two commands a pair, on vector 0");
        for (index, pair) in pairs.iter().enumerate() {
            for _ in 0..=index {
                host.io(pair, quick()).await;
            }
        }
        host.sleep(Delay::from_us(10)).await;
        let got: Vec<u32> = counts.iter().map(|count| count.get()).collect();
        assert_eq!(got, [16, 8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(messages(&host), 16 + 36);
    });
}

// A host that polls pays for every message with a processor that stops what it does.
#[test]
fn a_polled_queue_sends_no_message() {
    Bench::default().with_queue(async |host, pair| {
        let before = messages(&host);
        for _ in 0..10 {
            host.io(&pair, quick()).await;
        }
        assert_eq!(messages(&host), before);
    });
}

// The handler reads the queue at once: a message that overtakes its entry is a lost completion.
#[test]
fn a_message_comes_behind_its_entry() {
    Bench::default().enabled(async |host| {
        let pair = pair(&host, 1, 1).await;
        let arrived = host.end().interrupt(1);
        for _ in 0..10 {
            host.submit(&pair.sq, quick());
            arrived.notified().await;
            assert!(host.take(&pair.cq).is_some(), "the entry is there when the message is");
            host.ring_head(&pair.cq);
        }
    });
}

// Two queues on one vector: the host looks at both.
#[test]
fn queues_can_share_a_vector() {
    Bench::default().enabled(async |host| {
        let (first, second) = (pair(&host, 1, 3).await, pair(&host, 2, 3).await);
        let count = host.listen(3);
        host.io(&first, quick()).await;
        host.io(&second, quick()).await;
        host.sleep(Delay::from_us(10)).await;
        assert_eq!(count.get(), 2);
    });
}

// Coalescing that doesn't is a storm; coalescing without the threshold is latency for nothing.
#[test]
fn completions_below_the_threshold_wait_and_the_threshold_sends() {
    Bench::default().enabled(async |host| {
        let pair = pair(&host, 1, 1).await;
        let count = host.listen(1);
        host.set_feature(fid::INTERRUPT_COALESCING, coalescing(4, 100)).await;
        for round in 1..=5 {
            for _ in 0..3 {
                host.io(&pair, quick()).await;
            }
            host.sleep(Delay::from_us(100)).await;
            assert_eq!(count.get(), round - 1, "three wait");
            host.io(&pair, quick()).await;
            host.sleep(Delay::from_us(10)).await;
            assert_eq!(count.get(), round, "the fourth sends");
        }
        host.sleep(Delay::from_ms(30)).await;
        assert_eq!(count.get(), 5, "nothing is left to announce");
    });
}

// The last completions of a burst never reach the threshold: only the time announces them.
#[test]
fn the_aggregation_time_sends_what_is_below_the_threshold() {
    Bench::default().enabled(async |host| {
        let pair = pair(&host, 1, 1).await;
        let count = host.listen(1);
        host.set_feature(fid::INTERRUPT_COALESCING, coalescing(200, 5)).await;
        for round in 1..=3 {
            host.io(&pair, quick()).await;
            let first = host.clock().now();
            host.sleep(Delay::from_us(200)).await;
            host.io(&pair, quick()).await;
            host.clock().sleep_until(first + Delay::from_us(490)).await;
            assert_eq!(count.get(), round - 1, "not before 500 us after the first");
            host.clock().sleep_until(first + Delay::from_us(510)).await;
            assert_eq!(count.get(), round, "one message for both");
            host.sleep(Delay::from_ms(2)).await;
            assert_eq!(count.get(), round, "and no second one at the other's time");
        }
    });
}

// Either field at zero turns coalescing off: a host that writes zeroes expects every message.
#[test]
fn a_time_or_threshold_of_zero_is_no_coalescing() {
    Bench::default().enabled(async |host| {
        let pair = pair(&host, 1, 1).await;
        let count = host.listen(1);
        for (value, expected) in [(coalescing(10, 0), 1), (coalescing(1, 10), 2), (0, 3)] {
            host.set_feature(fid::INTERRUPT_COALESCING, value).await;
            host.io(&pair, quick()).await;
            host.sleep(Delay::from_us(10)).await;
            assert_eq!(count.get(), expected, "{value:#x}");
        }
    });
}

// Admin commands are single and awaited: coalesced, each would take the whole aggregation time.
#[test]
fn the_admin_queue_is_never_coalesced() {
    Bench::default().enabled(async |host| {
        let count = host.listen(0);
        host.sleep(Delay::from_us(10)).await;
        host.set_feature(fid::INTERRUPT_COALESCING, coalescing(200, 255)).await;
        let before = count.get();
        for _ in 0..5 {
            host.identify(Cns::CONTROLLER, 0).await;
        }
        host.sleep(Delay::from_us(10)).await;
        assert_eq!(count.get(), before + 6);
    });
}

// A latency-critical queue is exempt by its vector, the others are not.
#[test]
fn a_vector_can_be_exempt_from_coalescing() {
    Bench::default().enabled(async |host| {
        let (exempt, other) = (pair(&host, 1, 1).await, pair(&host, 2, 2).await);
        let counts = [host.listen(1), host.listen(2)];
        host.set_feature(fid::INTERRUPT_COALESCING, coalescing(200, 255)).await;
        let cd = |cd| InterruptVectorConfiguration::new().with_iv(1).with_cd(cd).into_bits();
        host.set_feature(fid::INTERRUPT_VECTOR_CONFIGURATION, cd(true)).await;
        for _ in 0..3 {
            host.io(&exempt, quick()).await;
            host.io(&other, quick()).await;
        }
        host.sleep(Delay::from_us(10)).await;
        assert_eq!([counts[0].get(), counts[1].get()], [3, 0]);
        host.set_feature(fid::INTERRUPT_VECTOR_CONFIGURATION, cd(false)).await;
        host.io(&exempt, quick()).await;
        host.sleep(Delay::from_us(10)).await;
        assert_eq!(counts[0].get(), 3, "no longer exempt");
    });
}

// Completions that wait under long settings must be announced when the host sets short ones, and must not
// delay others.
#[test]
fn new_settings_announce_what_waits_and_hold_for_the_next() {
    Bench::default().enabled(async |host| {
        let (slow, fast) = (pair(&host, 1, 1).await, pair(&host, 2, 2).await);
        let counts = [host.listen(1), host.listen(2)];
        host.set_feature(fid::INTERRUPT_COALESCING, coalescing(200, 255)).await;
        host.io(&slow, quick()).await;
        host.set_feature(fid::INTERRUPT_COALESCING, coalescing(200, 1)).await;
        host.sleep(Delay::from_us(10)).await;
        assert_eq!(counts[0].get(), 1);
        host.io(&fast, quick()).await;
        host.sleep(Delay::from_us(110)).await;
        assert_eq!([counts[0].get(), counts[1].get()], [1, 1]);
    });
}

// A masked vector is a processor in a critical section: the message waits, and is not lost.
#[test]
fn a_masked_vector_sends_when_it_is_unmasked() {
    Bench::default().enabled(async |host| {
        let (masked, open) = (pair(&host, 1, 1).await, pair(&host, 2, 2).await);
        let counts = [host.listen(1), host.listen(2)];
        let got = || [counts[0].get(), counts[1].get()];
        host.write32(INTMS, 1 << 1);
        for _ in 0..3 {
            host.io(&masked, quick()).await;
            host.io(&open, quick()).await;
        }
        host.sleep(Delay::from_us(10)).await;
        assert_eq!(got(), [0, 3]);
        host.write32(INTMC, 1 << 2);
        host.sleep(Delay::from_us(10)).await;
        assert_eq!(got(), [0, 3], "another vector was unmasked");
        host.write32(INTMC, 1 << 1);
        host.sleep(Delay::from_us(10)).await;
        assert_eq!(got(), [1, 3], "one message for the three");
        host.write32(INTMS, 1 << 1);
        host.write32(INTMC, 1 << 1);
        host.sleep(Delay::from_us(10)).await;
        assert_eq!(got(), [1, 3], "nothing happened in between");
        host.io(&masked, quick()).await;
        host.sleep(Delay::from_us(10)).await;
        assert_eq!(got(), [2, 3]);
    });
}

// A deadline that passes while the vector is masked must not be lost either.
#[test]
fn coalescing_and_masking_go_together() {
    Bench::default().enabled(async |host| {
        let pair = pair(&host, 1, 1).await;
        let count = host.listen(1);
        host.set_feature(fid::INTERRUPT_COALESCING, coalescing(200, 1)).await;
        host.write32(INTMS, 1 << 1);
        host.io(&pair, quick()).await;
        host.sleep(Delay::from_ms(1)).await;
        assert_eq!(count.get(), 0);
        host.write32(INTMC, 1 << 1);
        host.sleep(Delay::from_us(10)).await;
        assert_eq!(count.get(), 1);
    });
}

// A message of an earlier life would be taken for one of this.
#[test]
fn nothing_is_announced_after_a_reset() {
    Bench::default().enabled(async |host| {
        let pair = pair(&host, 1, 1).await;
        let count = host.listen(1);
        host.set_feature(fid::INTERRUPT_COALESCING, coalescing(200, 10)).await;
        host.io(&pair, quick()).await;
        host.disable().await;
        host.sleep(Delay::from_ms(50)).await;
        host.enable().await;
        host.sleep(Delay::from_ms(50)).await;
        assert_eq!(count.get(), 0);
        assert_eq!(host.feature(fid::INTERRUPT_COALESCING).await, 0);
    });
}
