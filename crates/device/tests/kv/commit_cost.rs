//! What commit records cost: time and link bytes by hand, and events of the simulation.
//!
//! Verified: each part of a store's latency to the picosecond, from the constants of drive and link, at the instants at which
//! a drive that looks always would have looked; both ledgers; that looking while nothing happens takes no events.

use super::client::{self, key, run_with};
use super::commit::{pointer, with_ring};
use super::commit_client::streaming;
use crate::fixture::payload::POLL;
use crate::fixture::{link_config, pattern};
use byteway_clock::{Delay, Stage, Time};
use byteway_device::DriveConfig;
use byteway_firmware::WorkKind;
use byteway_host::{Method, StoreIf};
use byteway_link::{Direction, Purpose};
use byteway_wire::nvme::Status;
use byteway_wire::nvme::vendor::commit::CommitRecord;

// A drive that looks a million times a second while nothing happens would take all the time that a simulation has, and one
// that sleeps must find a record at the very instant at which it would have looked.
#[test]
fn looking_while_nothing_happens_takes_no_events() {
    with_ring(async |host, pair, ring| {
        let at = pointer(&host, &pair).await;
        let (before, looks) = (host.clock().counters(), host.drive().controller.commit_looks());
        host.sleep(Delay::from_ms(100)).await;
        let (after, now) = (host.clock().counters(), host.drive().controller.commit_looks());
        assert!(after.polls - before.polls < 100, "{} polls", after.polls - before.polls);
        assert_eq!(now - looks, Delay::from_ms(100).ps() / POLL.ps());
        // Bytes that are not a record cost a check per store, not one per instant.
        for _ in 0..10 {
            ring.post_as_is(CommitRecord::default(), 8).await;
            host.sleep(Delay::from_ms(1)).await;
        }
        let polls = host.clock().counters().polls - after.polls;
        assert!(polls < 600, "{polls} polls");
        assert_eq!(ring.commit(b"key", at, b"value").await.status(), Status::SUCCESS);
        host.disable().await;
        let looks = host.drive().controller.commit_looks();
        host.sleep(Delay::from_ms(1)).await;
        assert_eq!(host.drive().controller.commit_looks(), looks, "a ring that is off");
    });
}

/// A client's drive whose firmware takes time for all that a record takes.
fn timed(poll: Delay) -> DriveConfig {
    let mut config = client::config();
    config.transfer.memory.as_mut().expect("memory").poll = poll;
    let cycles = &mut config.site.cycles;
    *cycles = cycles.with(WorkKind::Poll, 30).with(WorkKind::Index, 200);
    config
}

// By hand, to the picosecond, from the constants of drive and link: a part that is charged twice, or forgotten, would show.
#[test]
fn latency_by_hand() {
    const POLL: Delay = Delay::from_ns(1700);
    run_with(timed(POLL), async |driver, _| {
        let client = streaming(&driver).await;
        let mut buffer = client.buffer().expect("a buffer");
        // The first asks for the pointer; and from here on values begin at lines.
        let first = client.store(&mut buffer, key(0), 64, StoreIf::Any).await.expect("a store");
        let wire = |bytes| link_config().rate().time_for(bytes);
        let (crossing, memory) = (Delay::from_ns(100), Delay::from_ns(80));
        let dram = |bytes: u64| Delay::from_ns(50) + Delay::from_ps(bytes * 100);
        let mut phases = Vec::new();
        let mut soonest = first.last.since(first.begin).saturating_sub(first.stage(Stage::Queueing));
        for turn in 1..40u64 {
            driver.clock().sleep(Delay::from_ns(1000 + turn * 137)).await;
            let span = client.store(&mut buffer, key(turn), 64, StoreIf::Any).await.expect("a store");
            // 300 is what the pipeline takes for a write.
            assert_eq!(span.stage(Stage::Firmware), Delay::from_ns(30 + 100 + 300 + 200), "turn {turn}");
            assert_eq!(span.stage(Stage::Dram), dram(64) + dram(16), "turn {turn}");
            assert_eq!((span.stage(Stage::Host), span.stage(Stage::Queueing)), (Delay::ZERO, Delay::ZERO));
            let waited = span.stage(Stage::Fetch);
            assert!(waited < POLL, "turn {turn}: {waited:?}");
            // A line and its header are five slots: two flits of 68 B.
            let visible = span.begin + wire(136) + wire(136) + crossing + memory;
            phases.push((visible + waited).since(Time::ZERO).ps() % POLL.ps());
            let answered = visible + waited + span.stage(Stage::Firmware) + span.stage(Stage::Dram);
            // The host's looks: a request of one flit, an answer of two.
            let mut look = span.begin + soonest.saturating_sub(soonest / 4);
            loop {
                let sampled = look + wire(68) + crossing + memory;
                let found = sampled + wire(136) + crossing;
                if sampled >= answered {
                    assert_eq!(span.last, found, "turn {turn}");
                    break;
                }
                look = found + found.since(span.begin) / 16;
            }
            soonest = span.last.since(span.begin).min(soonest + soonest / 16);
        }
        assert!(phases.iter().all(|phase| *phase == phases[0]), "looks at other instants: {phases:?}");
        assert_eq!(client.counts().of(Method::CxlCommit), 40);
    });
}

// By hand: a line that is flushed counts 68 B and takes three flits each way; a look at an answer counts none, and takes one
// down and two up. There is no entry, no doorbell, no completion.
#[test]
fn link_bytes_by_hand() {
    for (bytes, lines) in [(64u32, 1u64), (65, 2), (2048, 32)] {
        with_ring(async move |host, pair, ring| {
            let at = pointer(&host, &pair).await;
            let all = |purpose, direction| host.end().ledger().entry(purpose, direction);
            let others = || {
                [
                    all(Purpose::Doorbell, Direction::Down).wire,
                    all(Purpose::SqeFetch, Direction::Up).wire,
                    all(Purpose::SqeFetch, Direction::Down).wire,
                    all(Purpose::Cqe, Direction::Up).wire,
                    all(Purpose::Data, Direction::Down).wire,
                ]
            };
            let before = others();
            let (down, up) = (all(Purpose::CxlMem, Direction::Down), all(Purpose::CxlMem, Direction::Up));
            let answer = ring.commit(b"key", at, &pattern(9, bytes as usize)).await;
            assert_eq!(answer.status(), Status::SUCCESS);
            let (stored, loaded) = host.end().lines();
            assert_eq!(stored, lines + 1, "{bytes} B");
            let looks = loaded - stored; // each line is read to be owned
            assert!(looks >= 2, "{looks}");
            let now = (all(Purpose::CxlMem, Direction::Down), all(Purpose::CxlMem, Direction::Up));
            assert_eq!(now.0.payload - down.payload, 68 * (lines + 1), "{bytes} B");
            assert_eq!(now.0.wire - down.wire, 204 * (lines + 1) + 68 * looks, "{bytes} B");
            assert_eq!(now.1.wire - up.wire, 204 * (lines + 1) + 136 * looks, "{bytes} B");
            assert_eq!(others(), before, "{bytes} B");
        });
    }
}
