//! What becomes of pairs that are stored by records when their namespace, the controller or the power is cut.
//!
//! Verified: formats, deletion and protection; resets and power cuts at many moments, after which what was answered is there, and
//! of the rest all or nothing; that nothing of a life of the ring is left in the next.

use super::commit::{COMMIT, Ring, pointer, record, with_ring};
use super::pairs::{KV, all_sets, offering};
use crate::fixture::management::{delete, format};
use crate::fixture::payload::RECORDS;
use crate::fixture::power::power_cycle;
use crate::fixture::{Pair, TestHost, pattern, set_features};
use byteway_clock::Delay;
use byteway_clock::random::Rng;
use byteway_content::BlockSize;
use byteway_device::DriveConfig;
use byteway_firmware::WorkKind;
use byteway_wire::nvme::feature::WriteProtection;
use byteway_wire::nvme::register::Csts;
use byteway_wire::nvme::vendor::commit::CommitAnswer;
use byteway_wire::nvme::{Sqe, Status, fid};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

// If records outlive their namespace, a value stored then reaches a namespace being emptied, or the next
// owner's.
#[test]
fn records_find_out_what_has_become_of_their_namespace() {
    with_ring(async |host, pair, ring| {
        let mut at = pointer(&host, &pair).await;
        let value = pattern(1, 64);
        assert_eq!(ring.commit(b"key", at, &value).await.status(), Status::SUCCESS);
        at += 64;
        let protect = |state: WriteProtection| Sqe {
            nsid: KV,
            ..set_features(fid::NAMESPACE_WRITE_PROTECTION, state.bits())
        };
        host.succeed(protect(WriteProtection::Protected)).await;
        let protected = Status::NAMESPACE_WRITE_PROTECTED.with_dnr();
        assert_eq!(ring.commit(b"key", at, b"other").await.status(), protected);
        host.succeed(protect(WriteProtection::None)).await;
        assert_eq!(host.value(&pair, b"key").await, Ok(value));
        // While it is formatted.
        let admin = host.admin_pair();
        let cid = host.submit(&admin.sq, format(KV, BlockSize::B512, 0));
        let mut seen = false;
        for _ in 0..200 {
            let status = ring.commit(b"during", at, b"a value").await.status();
            seen |= status.is(Status::FORMAT_IN_PROGRESS);
            if host.has(&pair, b"key").await.is(Status::KEY_DOES_NOT_EXIST) {
                break;
            }
        }
        assert!(seen, "a format takes a while");
        assert_eq!(host.completion(&admin.cq, cid).await.status(), Status::SUCCESS);
        let at = pointer(&host, &pair).await;
        assert_eq!(ring.commit(b"after", at, b"a value").await.status(), Status::SUCCESS);
        assert_eq!(host.value(&pair, b"after").await, Ok(b"a value".to_vec()));
        host.succeed(delete(KV)).await;
        let number = ring.post(record(b"gone", at + 7, b"a value")).await;
        assert_eq!(ring.answer(number).await.status(), Status::INVALID_FIELD.with_dnr());
        host.create(100, 1).await;
        let number = ring.post(record(b"gone", at + 7, b"a value")).await;
        assert_eq!(ring.answer(number).await.status(), Status::INVALID_NAMESPACE.with_dnr(), "it has blocks");
    });
}

// The next host begins with record 1, and knows nothing of those that the last one stored: they must not be taken for its own.
#[test]
fn a_reset_empties_the_ring() {
    for step in 0..100 {
        let delay = Delay::from_ns(step * 40);
        offering(COMMIT).with_methods(64, async move |host, pair| {
            let ring = Ring::open(&host).await;
            let at = pointer(&host, &pair).await;
            let value = pattern(7, 200);
            assert_eq!(ring.commit(b"kept", at, &value).await.status(), Status::SUCCESS);
            for index in 0..3u64 {
                let at = at + 200 + index * 200;
                ring.stream(at, &value, record(&[b'n', index as u8], at, &value));
            }
            host.sleep(delay).await;
            let answered = host.drive().controller.counters().records.get();
            host.disable().await;
            host.enable().await;
            let pair = host.create_pair(1, 64).await;
            host.enable_methods(&pair, COMMIT).await;
            let again = Ring::open(&host).await;
            for number in 1..=RECORDS {
                let answer = again.look(number).await;
                assert_eq!(answer, CommitAnswer::default(), "{delay:?}: of the last life");
            }
            // A line of the last life, that left the cache late.
            assert_eq!(again.generation, ring.generation + 1);
            ring.post_as_is(record(b"stale", at, &value).sealed(1, ring.generation), 64).await;
            assert_eq!(again.answer_within(1, Delay::from_us(10)).await, None, "{delay:?}");
            let mut there = Vec::new();
            for index in 0..3u64 {
                match host.value(&pair, &[b'n', index as u8]).await {
                    Ok(found) => assert_eq!(found, value, "{delay:?}: {index} is torn"),
                    Err(status) => {
                        assert!(status.is(Status::KEY_DOES_NOT_EXIST));
                        continue;
                    }
                }
                there.push(index);
            }
            assert!(there.len() as u64 + 1 >= answered, "{delay:?}: {there:?} of {answered}");
            assert_eq!(host.value(&pair, b"kept").await, Ok(value.clone()));
            let at = pointer(&host, &pair).await;
            assert_eq!(again.commit(b"again", at, &value).await.status(), Status::SUCCESS);
            assert_eq!(host.value(&pair, b"again").await, Ok(value));
        });
    }
}

// A controller that says that it is not ready any more, and still stores for the host of before, does so to the next one's pairs.
#[test]
fn a_reset_waits_for_the_record_that_is_being_taken() {
    let mut bench = offering(COMMIT);
    bench.drive.site.cycles = bench.drive.site.cycles.with(WorkKind::Index, 200_000);
    bench.with_methods(64, async |host, pair| {
        let ring = Ring::open(&host).await;
        let at = pointer(&host, &pair).await;
        ring.stream(at, b"a value", record(b"key", at, b"a value"));
        host.sleep(Delay::from_us(3)).await;
        let begin = host.clock().now();
        host.disable().await;
        assert!(host.clock().now().since(begin) > Delay::from_us(190), "the store takes 200 us");
        assert_eq!(host.drive().controller.counters().records.get(), 0, "no record is acknowledged any more");
    });
}

// An answered record is acknowledged: a power cut must not lose it, and must leave an unanswered one complete
// or absent.
#[test]
fn a_power_cut_keeps_what_was_answered() {
    let mut lost = 0;
    for seed in 0..12 {
        let mut config = offering(COMMIT).drive;
        config.ftl.plp = true;
        let mut medium = None;
        let acknowledged: Rc<RefCell<BTreeMap<u64, u64>>> = Rc::default();
        let under_way: Rc<RefCell<BTreeMap<u64, u64>>> = Rc::default();
        for life in 0..3u64 {
            let mut stream = Rng::new(seed).stream(&format!("life {life}"));
            let (acked, flying) = (acknowledged.clone(), under_way.clone());
            let cut = power_cycle(DriveConfig::clone(&config), medium, async move |host| {
                let pair = enabled(&host).await;
                look_after_power(&host, &pair, &acked, &flying, (seed, life)).await;
                let ring = Ring::open(&host).await;
                let mut at = pointer(&host, &pair).await;
                let rounds = 1 + stream.below(6);
                for round in 0..rounds {
                    // Several at once, of different keys; then their answers, but those of the last round.
                    let is_last = round + 1 == rounds;
                    let count = 1 + stream.below(u64::from(RECORDS));
                    let mut posted = Vec::new();
                    for index in 0..count {
                        let (name, version) = ((round + index * 3) % 17, life * 1000 + round * 10 + index);
                        if posted.iter().any(|(_, before, _)| *before == name) {
                            continue;
                        }
                        let value = value_of(name, version);
                        flying.borrow_mut().insert(name, version);
                        let record = record(&name.to_be_bytes(), at, &value);
                        let number = match is_last {
                            true => ring.stream(at, &value, record),
                            false => {
                                ring.put(at, &value).await;
                                ring.post(record).await
                            }
                        };
                        at += value.len() as u64;
                        posted.push((number, name, version));
                    }
                    if is_last {
                        host.sleep(Delay::from_ns(stream.below(12_000))).await;
                        break;
                    }
                    for (number, name, version) in posted {
                        assert_eq!(ring.answer(number).await.status(), Status::SUCCESS);
                        acked.borrow_mut().insert(name, version);
                        flying.borrow_mut().remove(&name);
                    }
                }
            });
            medium = Some(cut.1);
        }
        let (acked, flying) = (acknowledged.clone(), under_way.clone());
        let (unanswered, _) = power_cycle(config, medium, async move |host| {
            let pair = enabled(&host).await;
            look_after_power(&host, &pair, &acked, &flying, (seed, 3)).await
        });
        lost += unanswered;
    }
    assert!(lost > 0, "the cuts come too late");
}

fn value_of(name: u64, version: u64) -> Vec<u8> {
    pattern(name * 7919 + version, 40 + (name * 131 % 900) as usize)
}

async fn enabled(host: &TestHost) -> Pair {
    host.set_admin_queues();
    host.set_cc(all_sets());
    host.csts_until(|csts: &Csts| csts.rdy()).await;
    let pair = host.create_pair(1, 64).await;
    host.enable_methods(&pair, COMMIT).await;
    pair
}

/// Each key has the value that was acknowledged last, or the one that was in flight: that is settled then. Returns the number of the
/// latter are not there.
async fn look_after_power(
    host: &TestHost,
    pair: &Pair,
    acknowledged: &RefCell<BTreeMap<u64, u64>>,
    under_way: &RefCell<BTreeMap<u64, u64>>,
    what: (u64, u64),
) -> u64 {
    let mut gone = 0;
    let (known, flying) = (acknowledged.borrow().clone(), under_way.take());
    for name in 0..17u64 {
        let found = host.value(pair, &name.to_be_bytes()).await.ok();
        let old = known.get(&name).map(|version| value_of(name, *version));
        let new = flying.get(&name).map(|version| value_of(name, *version));
        if let (Some(version), true) = (flying.get(&name), new.is_some() && found == new) {
            acknowledged.borrow_mut().insert(name, *version);
            continue;
        }
        assert_eq!(found, old, "{what:?}, key {name}");
        gone += u64::from(new.is_some());
    }
    gone
}
