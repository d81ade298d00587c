//! What becomes of values that the host has stored over CXL.mem when the power is cut, or the host, before their key-only
//! commands have completed.
//!
//! Verified, at many moments from the store to the completion: the pair is there whole or not at all; the next command is
//! told a pointer at which a value can be stored, and which is right; nothing else is changed. What was acknowledged is
//! always there. Not verified here: cuts in the middle of merging and collection (`byteway-kv`).

use super::cxl::{BUFFER, CXL, placed};
use super::pairs::{KV, all_sets, keyed, offering};
use crate::fixture::power::power_cycle;
use crate::fixture::{Pair, TestHost, pattern};
use byteway_clock::Delay;
use byteway_device::DriveConfig;
use byteway_link::StoreOrdering;
use byteway_wire::nvme::register::Csts;
use byteway_wire::nvme::vendor::cxl::PagePointer;
use byteway_wire::nvme::{Flush, KvOpcode, Status};

/// How far the host comes with the value that is in danger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Its lines are on their way.
    Storing,
    /// They are there, and no command.
    Stored,
    /// The command was rung so long ago.
    Rung(Delay),
    /// The command has completed.
    Completed,
}

/// From the doorbell to beyond the completion.
fn reaches() -> impl Iterator<Item = Reach> {
    let rung = (0..30).map(|step| Reach::Rung(Delay::from_ns(step * 400)));
    [Reach::Storing, Reach::Stored, Reach::Completed].into_iter().chain(rung)
}

/// Bytes of the values before it, and of itself.
const KEPT: u64 = 1000;
const OWN: usize = 700;

fn config(plp: bool) -> DriveConfig {
    let mut config = offering(CXL).drive;
    config.ftl.plp = plp;
    config
}

async fn enabled(host: &TestHost) -> Pair {
    host.set_admin_queues();
    host.set_cc(all_sets());
    host.csts_until(|csts: &Csts| csts.rdy()).await;
    let pair = host.create_pair(1, 64).await;
    host.enable_methods(&pair, CXL).await;
    pair
}

async fn pointer(host: &TestHost, pair: &Pair) -> (u64, u64) {
    let told = host.io(pair, PagePointer { gives_up: true }.sqe(0, KV)).await;
    assert_eq!(told.status(), Status::SUCCESS);
    (told.dw0.into(), told.dw1.into())
}

async fn put(host: &TestHost, pair: &Pair, key: &[u8], at: u64, value: &[u8]) -> u64 {
    host.end().store_lines(BUFFER + at, value, StoreOrdering::Flushed).await;
    let sum = crc32c::crc32c(value);
    let stored = host.io(pair, placed(key, at, value.len() as u32, Some(sum))).await;
    assert_eq!(stored.status(), Status::SUCCESS);
    stored.dw0.into()
}

/// The host stores ten values, which are durable then, and comes so far with another.
async fn until(host: &TestHost, pair: &Pair, reach: Reach) {
    let (mut at, _) = pointer(host, pair).await;
    assert_eq!(at, 0);
    for index in 0..10 {
        at = put(host, pair, &[b'k', index], at, &pattern(index.into(), KEPT as usize / 10)).await;
    }
    assert_eq!(at, KEPT);
    assert_eq!(host.io(pair, Flush.sqe(0, KV)).await.status(), Status::SUCCESS);
    let value = pattern(99, OWN);
    if reach == Reach::Storing {
        host.end().store_lines_unordered(BUFFER + at, &value);
        return;
    }
    host.end().store_lines(BUFFER + at, &value, StoreOrdering::Flushed).await;
    match reach {
        Reach::Storing | Reach::Stored => {}
        Reach::Rung(delay) => {
            host.submit(&pair.sq, placed(b"own", at, OWN as u32, None));
            host.sleep(delay).await;
        }
        Reach::Completed => {
            let stored = host.io(pair, placed(b"own", at, OWN as u32, None)).await;
            assert_eq!((stored.status(), u64::from(stored.dw0)), (Status::SUCCESS, KEPT + OWN as u64));
        }
    }
}

/// Everything is as it was, but for the pair that was in danger: says whether that is there.
async fn look(host: &TestHost, pair: &Pair, what: &str) -> bool {
    let keys = host.keys(pair, b"", 4096).await.expect("a list");
    let kept: Vec<Vec<u8>> = (0..10).map(|index| vec![b'k', index]).collect();
    let is_there = host.io(pair, keyed(KvOpcode::EXIST, b"own")).await.status().is_success();
    let rest: Vec<_> = keys.into_iter().filter(|key| key != b"own" && key != b"next").collect();
    assert_eq!(rest, kept, "{what}");
    for index in 0..10 {
        let value = pattern(index.into(), KEPT as usize / 10);
        assert_eq!(host.value(pair, &[b'k', index]).await, Ok(value), "{what}");
    }
    if is_there {
        assert_eq!(host.value(pair, b"own").await, Ok(pattern(99, OWN)), "{what}: it is torn");
    }
    let pairs = host.drive().controller.pairs(KV).expect("pairs");
    pairs.check().await.unwrap_or_else(|error| panic!("{what}: {error}"));
    is_there
}

/// The next value goes to where the pointer is, shorter than what may still lie there.
async fn go_on(host: &TestHost, pair: &Pair, what: &str) {
    let (at, limit) = pointer(host, pair).await;
    assert!(limit - at >= 16384, "{what}: a page is free");
    for (name, bytes) in [(&b"next"[..], 300), (b"next", 10)] {
        let (at, _) = pointer(host, pair).await;
        let behind = put(host, pair, name, at, &pattern(7, bytes)).await;
        assert_eq!(behind, at + bytes as u64, "{what}");
        assert_eq!(host.value(pair, name).await, Ok(pattern(7, bytes)), "{what}");
    }
}

// Bytes in the buffer without a command belong to none. A drive that takes them for a pair shows one that no host stored; one
// that forgets what it had acknowledged next to them loses it.
#[test]
fn a_power_cut_between_store_and_completion() {
    let mut outcomes = [0; 2];
    for plp in [false, true] {
        for reach in reaches() {
            let what = format!("{reach:?}, plp {plp}");
            let ((), medium) = power_cycle(config(plp), None, async move |host| {
                let pair = enabled(&host).await;
                until(&host, &pair, reach).await;
            });
            let (is_there, _) = power_cycle(config(plp), Some(medium), async move |host| {
                let pair = enabled(&host).await;
                let is_there = look(&host, &pair, &what).await;
                go_on(&host, &pair, &what).await;
                assert_eq!(look(&host, &pair, &what).await, is_there, "{what}");
                is_there
            });
            match reach {
                Reach::Storing | Reach::Stored => {
                    assert!(!is_there, "{reach:?}, plp {plp}: it was never stored")
                }
                Reach::Completed => assert!(is_there || !plp, "plp {plp}: it was acknowledged"),
                Reach::Rung(_) => outcomes[usize::from(is_there)] += 1,
            }
        }
    }
    assert!(outcomes.iter().all(|count| *count > 5), "{outcomes:?}: the moments are the wrong ones");
}

// Of a host that crashes the drive learns by a reset. The next one knows nothing of the buffer: a pointer that counts what
// has no command wastes it, one that doesn't count what has one lets a value be stored over another.
#[test]
fn a_host_crash_between_store_and_completion() {
    let mut outcomes = [0; 2];
    for reach in reaches() {
        let what = format!("{reach:?}");
        let (is_there, _) = power_cycle(config(true), None, async move |host| {
            let pair = enabled(&host).await;
            until(&host, &pair, reach).await;
            host.set_cc(all_sets().with_en(false));
            host.csts_until(|csts: &Csts| !csts.rdy()).await;
            let pair = enabled(&host).await;
            let is_there = look(&host, &pair, &what).await;
            let (at, _) = pointer(&host, &pair).await;
            assert_eq!(at, KEPT + if is_there { OWN as u64 } else { 0 }, "{what}");
            go_on(&host, &pair, &what).await;
            assert_eq!(look(&host, &pair, &what).await, is_there, "{what}");
            is_there
        });
        match reach {
            Reach::Storing | Reach::Stored => assert!(!is_there, "{reach:?}: it was never stored"),
            Reach::Completed => assert!(is_there, "it was acknowledged"),
            Reach::Rung(_) => outcomes[usize::from(is_there)] += 1,
        }
    }
    assert!(outcomes.iter().all(|count| *count > 2), "{outcomes:?}: the moments are the wrong ones");
}
