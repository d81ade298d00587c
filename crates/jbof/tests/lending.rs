//! Processor lending between drives of a JBOF, with host drivers and users of each.
//!
//! Verified: a drive limited by its cores does more with an idle peer, and not with a busy one; reads are correct,
//! against an oracle each, while drives alternately lend and borrow; a lender with new work of its own gets its
//! processor back within a few periods; no loans or commands are left; reproducibility.

use crate::fixture::{PERIOD, Users, at_rest, client, drives, jbof_config, mixed, read, run_jbof};
use byteway_clock::random::Rng;
use byteway_clock::{Clock, Executor};
use byteway_jbof::{Jbof, JbofConfig, JbofError, Platform};
use byteway_testkit::link_config;
use std::rc::Rc;

fn run<T: 'static>(count: usize, lends: bool, test: impl AsyncFnOnce(Clock, Rc<Jbof>) -> T + 'static) -> T {
    let platform = if lends { Platform::Lending { processor: true, dram: false } } else { Platform::Alone };
    run_jbof(JbofConfig { platform, ..jbof_config(count) }, drives(count), test)
}

// A drive with too few cores does as well with a peer's; without an idle peer it does as before.
#[test]
fn a_busy_drive_gets_more_done_with_an_idle_peer() {
    let rate = |lends: bool, peer_is_busy: bool| {
        run(2, lends, async move |clock, jbof| {
            let busy = Users::begin(&clock, &jbof, 0, 12, read).await;
            let peer = match peer_is_busy {
                true => Some(Users::begin(&clock, &jbof, 1, 12, read).await),
                false => None,
            };
            clock.sleep(PERIOD * 10).await; // until it has borrowed
            let rate = busy.rate(&clock, PERIOD * 40).await;
            let figures = (jbof.figures(0), jbof.figures(1));
            busy.end(&clock).await;
            if let Some(peer) = peer {
                peer.end(&clock).await;
            }
            at_rest(&clock, &jbof).await;
            (rate, figures, jbof.redirected(0))
        })
    };
    let (alone, ..) = rate(false, false);
    let (helped, figures, (redirected, all)) = rate(true, false);
    let share = redirected as f64 / all as f64;
    assert_eq!((figures.0.borrowed, figures.1.lent), (1, 1));
    // A lender is kept below 75 %, so the gain is at most a factor of 1.75.
    assert!(helped as f64 > 1.45 * alone as f64, "{helped} with a peer, {alone} alone; {share} redirected");
    assert!((0.3..0.5).contains(&share), "{share}");
    let (crowded, figures, (redirected, _)) = rate(true, true);
    // An offer from before the peer was busy may be claimed, without effect.
    assert_eq!((figures.1.lent, redirected), (0, 0), "both are busy");
    assert!(crowded as f64 > 0.97 * alone as f64, "{crowded} next to a busy peer, {alone} alone");
}

// A lender that served others first would be a bad neighbor: when its own users come, it must get its processor back.
#[test]
fn a_lender_has_its_processor_back() {
    let latency = |lends: bool| {
        run(2, lends, async move |clock, jbof| {
            let borrower = Users::begin(&clock, &jbof, 0, 12, read).await;
            clock.sleep(PERIOD * 10).await;
            let own = Users::begin(&clock, &jbof, 1, 12, read).await;
            clock.sleep(PERIOD * 4).await;
            let rate = own.rate(&clock, PERIOD * 40).await;
            borrower.end(&clock).await;
            own.end(&clock).await;
            at_rest(&clock, &jbof).await;
            rate
        })
    };
    let (alone, lender) = (latency(false), latency(true));
    assert!(lender as f64 > 0.97 * alone as f64, "{lender} of {alone}");
}

// With bursts that come and go, drives alternately lend and borrow: reads must return what was written last.
#[test]
fn drives_that_lend_in_turn_hold_what_was_written() {
    let once = || {
        run(4, true, async |clock, jbof| {
            let mut stream = Rng::new(5).stream("bursts");
            let (mut all, mut clients) = (Vec::new(), Vec::new());
            for drive in 0..4 {
                clients.push(client(&jbof, drive).await);
            }
            for burst in 0..24 {
                let client = clients[stream.below(4) as usize].clone();
                let users = Users::of(&clock, client, burst, 8, mixed);
                clock.sleep(PERIOD * (2 + stream.below(8))).await;
                users.end(&clock).await;
                all.push(users.done.get());
            }
            at_rest(&clock, &jbof).await;
            let figures: Vec<_> = (0..4).map(|drive| (jbof.figures(drive), jbof.redirected(drive))).collect();
            (all, figures, clock.now())
        })
    };
    let first = once();
    let borrowed: u64 = first.1.iter().map(|(figures, _)| figures.borrowed).sum();
    let redirected: u64 = first.1.iter().map(|(_, (redirected, _))| redirected).sum();
    assert!(borrowed > 8 && redirected > 200, "{first:?}");
    assert_eq!(first, once(), "the same again");
}

// Configurations come from files.
#[test]
fn what_cannot_be_is_refused() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    executor
        .run(async move {
            let config = JbofConfig::new(link_config(), 2, 1);
            let refused = Jbof::power_on(&clock, config.clone(), Vec::new()).await.err();
            assert!(matches!(refused, Some(JbofError::Count(0))));
            let refused = Jbof::power_on(&clock, config, drives(3)).await.err();
            assert!(matches!(refused, Some(JbofError::Fabric { ports: 2, drives: 3 })));
        })
        .unwrap();
}
