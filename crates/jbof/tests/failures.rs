//! Failures in a JBOF whose drives lend each other processors, with an oracle per drive.
//!
//! Verified: after any failure at any moment, one or two at once, nothing acknowledged is lost, doubled or served from
//! another drive's map; all loans end when the failure is over; each failure is over within its time. Not verified
//! here: that a hanging lender does not act late (`device/tests/lending.rs`, at each of many moments).

use crate::fixture::{BLOCKS, PERIOD, Users, client, drives, jbof_config, read, run_jbof};
use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Clock, Delay};
use byteway_content::BlockSize;
use byteway_host::{AnyIoError, BaseState, Client, ClientConfig, IoBuffer, IoError, Method, Oracle, Rules};
use byteway_jbof::{Jbof, JbofConfig, Platform, is_failure};
use byteway_wire::nvme::Range;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Number of moments at which a lender is reset.
const RESETS: u64 = 60;
/// Time after which an unanswered command is given up.
const TIMEOUT: Delay = Delay::from_ms(20);

fn run<T: 'static>(
    count: usize,
    change: impl FnOnce(&mut JbofConfig),
    test: impl AsyncFnOnce(Clock, Rc<Jbof>) -> T + 'static,
) -> T {
    let mut config = JbofConfig { entries: 32, timeout: Some(TIMEOUT), ..jbof_config(count) };
    change(&mut config);
    run_jbof(config, drives(count), test)
}

/// The users of a drive, who continue through all failures.
struct Tenant {
    drive: usize,
    oracle: Rc<RefCell<Oracle>>,
    is_over: Rc<Cell<bool>>,
    has_ended: Rc<Cell<bool>>,
    /// Load: 0 is idle, otherwise the number of active users.
    wanted: Rc<Cell<u64>>,
    done: Rc<Cell<u64>>,
}

impl Tenant {
    fn begin(clock: &Clock, jbof: &Rc<Jbof>, drive: usize, seed: u64) -> Tenant {
        let oracle = Oracle::new(BLOCKS, BlockSize::B512, 1 + drive as u16, BaseState::Zeroes);
        let tenant = Tenant {
            drive,
            oracle: Rc::new(RefCell::new(oracle.with_power_cuts(false))),
            is_over: Rc::default(),
            has_ended: Rc::default(),
            wanted: Rc::new(Cell::new(8)),
            done: Rc::default(),
        };
        let Tenant { oracle, is_over, has_ended, wanted, done, .. } = &tenant;
        let (oracle, is_over, has_ended) = (oracle.clone(), is_over.clone(), has_ended.clone());
        let (wanted, done, jbof, clock_here) = (wanted.clone(), done.clone(), jbof.clone(), clock.clone());
        let rng = Rng::new(seed);
        clock.spawn("tenant", async move {
            let mut session = 0;
            while !is_over.get() {
                let Some(client) = open(&clock_here, &jbof, drive, &oracle).await else { continue };
                let life = jbof.life(drive);
                session += 1;
                let working = Rc::new(Cell::new(8_u64));
                let is_broken = Rc::new(Cell::new(false));
                for user in 0..8 {
                    let (client, working, is_broken) = (client.clone(), working.clone(), is_broken.clone());
                    let (wanted, is_over, done) = (wanted.clone(), is_over.clone(), done.clone());
                    let mut stream = rng.stream(&format!("{drive}/{session}/{user}"));
                    let clock = clock_here.clone();
                    clock_here.spawn("user", async move {
                        let mut buffer = client.buffer().unwrap();
                        while !is_over.get() && !is_broken.get() {
                            if user >= wanted.get() {
                                clock.sleep(PERIOD / 4).await;
                                continue;
                            }
                            match ask(&client, &mut buffer, &mut stream).await {
                                Ok(()) => done.set(done.get() + 1),
                                Err(error) => is_broken.set(explain(drive, error)),
                            }
                        }
                        working.set(working.get() - 1);
                    });
                }
                while working.get() > 0 {
                    clock_here.sleep(Delay::from_us(20)).await;
                }
                if jbof.life(drive) != life {
                    oracle.borrow_mut().cut_power();
                }
            }
            has_ended.set(true);
        });
        tenant
    }

    /// Ends them, and waits.
    async fn end(&self, clock: &Clock) {
        self.is_over.set(true);
        let patience = clock.now() + Delay::from_s(40);
        while !self.has_ended.get() {
            assert!(clock.now() < patience, "the users of drive {} wait indefinitely", self.drive);
            clock.sleep(Delay::from_us(100)).await;
        }
    }

    /// Reads everything once more.
    async fn verify(&self, clock: &Clock, jbof: &Jbof) {
        let client = open(clock, jbof, self.drive, &self.oracle).await;
        let client = client.unwrap_or_else(|| panic!("drive {} is not there", self.drive));
        let mut buffer = client.buffer().unwrap();
        for lba in (0..BLOCKS).step_by(64) {
            let read = client.read(&mut buffer, lba, 64).await;
            read.unwrap_or_else(|error| panic!("drive {}: {error}", self.drive));
        }
    }
}

/// A client of a drive, once it is present.
async fn open(clock: &Clock, jbof: &Jbof, drive: usize, oracle: &Rc<RefCell<Oracle>>) -> Option<Rc<Client>> {
    let config = ClientConfig {
        rules: Rules::only(Method::Prp),
        bytes_max: 64 << 10,
        oracle: Some(oracle.clone()),
        verify_bytes: true,
    };
    if jbof.is_there(drive)
        && let Ok(queue) = jbof.queue_pair(drive).await
        && jbof.is_there(drive)
    {
        let namespace = jbof.driver(drive).unwrap().namespaces()[0];
        return Some(Rc::new(Client::new(queue, namespace, config).unwrap()));
    }
    clock.sleep(Delay::from_us(50)).await;
    None
}

async fn ask(client: &Client, buffer: &mut IoBuffer, stream: &mut Stream) -> Result<(), AnyIoError> {
    let most = if stream.chance(0.5) { 8 } else { 60 };
    let blocks = 1 + stream.below(most);
    let lba = stream.below(BLOCKS - blocks + 1);
    match stream.below(100) {
        0..40 => client.write(buffer, lba, blocks as u32).await.map(drop)?,
        40..50 => client.write_fua(buffer, lba, blocks as u32).await.map(drop)?,
        50..80 => client.read(buffer, lba, blocks as u32).await.map(drop)?,
        80..86 => client.compare(buffer, lba, blocks as u32).await.map(drop)?,
        86..92 => client.trim(buffer, &[Range::new(lba, blocks as u32)]).await.map(drop)?,
        92..96 => client.write_zeroes(lba, blocks as u32, true).await.map(drop)?,
        _ => client.flush().await.map(drop)?,
    }
    Ok(())
}

/// An error must be explained by a failure. Returns whether the queue pair is unusable afterwards.
fn explain(drive: usize, error: AnyIoError) -> bool {
    match &error {
        IoError::Lost(lost) if is_failure(*lost) => true,
        // A comparison concurrent with writes.
        IoError::Client(error) if error.kind == byteway_host::ClientErrorKind::Uncertain => false,
        _ => panic!("drive {drive}: {error}"),
    }
}

#[derive(Clone, Copy, Debug)]
enum Failure {
    CutPower,
    Unplug,
    LoseLink,
    RestartHost,
    /// A reset of a drive's controller.
    Reset,
    CutAll,
}

/// Injects a failure, and repairs it after `during`.
async fn fail(clock: Clock, jbof: Rc<Jbof>, failure: Failure, drive: usize, during: Delay) {
    let all = 0..jbof.len();
    match failure {
        Failure::CutPower => jbof.cut_power(drive),
        Failure::Unplug => jbof.unplug(drive),
        Failure::LoseLink => jbof.lose_link(drive),
        Failure::CutAll => all.clone().for_each(|drive| jbof.cut_power(drive)),
        Failure::RestartHost => return jbof.restart_host().await.unwrap(),
        Failure::Reset => {
            if jbof.is_there(drive) {
                let _ = jbof.driver(drive).unwrap().reset().await; // the drive may be lost meanwhile
            }
            return;
        }
    }
    clock.sleep(during).await;
    match failure {
        Failure::CutPower | Failure::Unplug => {
            // Another failure may cut its power again meanwhile.
            let _ = jbof.plug_in(drive).await;
        }
        Failure::LoseLink => jbof.restore_link(drive),
        Failure::CutAll => {
            for drive in all {
                let _ = jbof.plug_in(drive).await;
            }
        }
        Failure::RestartHost | Failure::Reset => {}
    }
}

/// A JBOF under varying load with failures; returns loans given and lost, redirected commands, and the time.
fn rough(seed: u64, count: usize, failures: u64) -> (u64, u64, u64, u64, u64) {
    run(
        count,
        |config| config.seed = seed,
        async move |clock, jbof| {
            let mut stream = Rng::new(seed).stream("failures");
            let tenants: Vec<Tenant> =
                (0..count).map(|drive| Tenant::begin(&clock, &jbof, drive, seed)).collect();
            let redirected = Rc::new(Cell::new(0));
            for _ in 0..failures {
                for tenant in &tenants {
                    tenant.wanted.set(if stream.chance(0.4) { 8 } else { stream.below(2) });
                }
                clock.sleep(PERIOD * 2 + Delay::from_ns(stream.below(4_000_000))).await;
                (0..count).for_each(|drive| redirected.set(redirected.get() + jbof.redirected(drive).0));
                let at_once = if stream.chance(0.3) { 2 } else { 1 };
                let running = Rc::new(Cell::new(at_once));
                for _ in 0..at_once {
                    let kinds = [
                        Failure::CutPower,
                        Failure::Unplug,
                        Failure::LoseLink,
                        Failure::RestartHost,
                        Failure::Reset,
                        Failure::CutAll,
                    ];
                    let failure = kinds[stream.below(kinds.len() as u64) as usize];
                    let (drive, during) = (stream.below(count as u64) as usize, stream.below(6_000_000));
                    let failing = fail(clock.clone(), jbof.clone(), failure, drive, Delay::from_ns(during));
                    let running = running.clone();
                    clock.spawn("failure", async move {
                        failing.await;
                        running.set(running.get() - 1);
                    });
                    clock.sleep(Delay::from_ns(stream.below(300_000))).await;
                }
                while running.get() > 0 {
                    clock.sleep(Delay::from_us(50)).await;
                }
                for drive in 0..count {
                    jbof.restore_link(drive);
                    while jbof.life(drive).is_none() {
                        let _ = jbof.plug_in(drive).await;
                    }
                }
            }
            for tenant in &tenants {
                tenant.end(&clock).await;
            }
            for tenant in &tenants {
                tenant.verify(&clock, &jbof).await;
            }
            is_well(&clock, &jbof).await;
            let figures = (0..count).map(|drive| jbof.figures(drive));
            let (lent, lost) =
                figures.fold((0, 0), |sum, figures| (sum.0 + figures.lent, sum.1 + figures.lost));
            let done = tenants.iter().map(|tenant| tenant.done.get()).sum();
            (lent, lost, redirected.get(), done, clock.now().0)
        },
    )
}

/// No loans are left, and nothing has leaked.
async fn is_well(clock: &Clock, jbof: &Jbof) {
    clock.sleep(PERIOD * 20).await;
    assert!(jbof.is_at_rest(), "something stays lent or bound");
    for drive in 0..jbof.len() {
        let powered = jbof.drive(drive).unwrap();
        assert!(powered.drive.controller.is_quiet(), "drive {drive}: slots, permits and tags are free");
        let ftl = powered.drive.controller.ftl();
        assert_eq!(ftl.units_locked(), 0, "drive {drive}");
        assert_eq!(ftl.slots_free() + ftl.units_buffered(), ftl.slots(), "drive {drive}");
        assert_eq!(jbof.driver(drive).unwrap().protocol_errors(), 0, "drive {drive}");
    }
}

// Any failure at any moment: the property that everything else serves.
#[test]
fn nothing_acknowledged_is_lost_whatever_fails() {
    let (mut lent, mut lost, mut redirected) = (0, 0, 0);
    for seed in 0..12 {
        let first = rough(seed, 2 + seed as usize % 3, 8);
        (lent, lost, redirected) = (lent + first.0, lost + first.1, redirected + first.2);
        if seed < 2 {
            assert_eq!(first, rough(seed, 2 + seed as usize % 3, 8), "seed {seed}: the same again");
        }
    }
    assert!(lent > 100 && lost > 60 && redirected > 1_500, "{lent} {lost} {redirected}");
}

/// A busy drive 0 that borrows from drive 1, both with an oracle; `test` injects a failure.
fn while_lent(count: usize, test: impl AsyncFnOnce(&Clock, &Rc<Jbof>, &[Tenant]) + 'static) {
    run(
        count,
        |_| {},
        async move |clock, jbof| {
            let tenants: Vec<Tenant> =
                (0..count).map(|drive| Tenant::begin(&clock, &jbof, drive, 7)).collect();
            tenants[1..].iter().for_each(|tenant| tenant.wanted.set(0));
            clock.sleep(PERIOD * 12).await;
            assert!(jbof.redirected(0).0 > 0, "it borrows");
            test(&clock, &jbof, &tenants).await;
            for tenant in &tenants {
                tenant.end(&clock).await;
                tenant.verify(&clock, &jbof).await;
            }
            is_well(&clock, &jbof).await;
        },
    );
}

/// Waits until an I/O of a tenant completes; returns the time.
async fn until_served(clock: &Clock, tenant: &Tenant) -> Delay {
    let (since, done) = (clock.now(), tenant.done.get());
    while tenant.done.get() < done + 20 {
        clock.sleep(Delay::from_us(20)).await;
        assert!(clock.now().since(since) < Delay::from_s(30), "drive {} is not served", tenant.drive);
    }
    clock.now().since(since)
}

// A removed lender takes commands with it: the borrower's host must have the loan revoked and the commands executed, at
// once.
#[test]
fn a_lender_is_pulled_out() {
    while_lent(2, async |clock, jbof, tenants| {
        jbof.unplug(1);
        let waited = until_served(clock, &tenants[0]).await;
        assert!(waited < PERIOD * 4, "{waited}");
        assert!(jbof.revoked(0) > 0, "before commands are resubmitted");
        clock.sleep(PERIOD * 3).await;
        assert!(jbof.lenders(0).is_empty(), "what was borrowed of it is over");
        jbof.plug_in(1).await.unwrap();
        let before = jbof.figures(0).borrowed;
        clock.sleep(PERIOD * 12).await;
        assert!(jbof.figures(0).borrowed > before, "it lends again");
    });
}

// A lender without power in its slot is detected by timeout only; the borrower's users must not wait longer than that.
#[test]
fn a_lender_loses_its_power() {
    while_lent(2, async |clock, jbof, tenants| {
        jbof.cut_power(1);
        clock.sleep(TIMEOUT * 3).await;
        assert!(jbof.revoked(0) > 0, "before commands are resubmitted");
        let waited = until_served(clock, &tenants[0]).await;
        assert!(waited < PERIOD * 4, "{waited}");
        jbof.plug_in(1).await.unwrap();
    });
}

// A lender must not lose its command slots, nor its queue, to a removed borrower.
#[test]
fn a_borrower_is_pulled_out() {
    while_lent(3, async |clock, jbof, tenants| {
        jbof.unplug(0);
        // Another drive uses them.
        tenants[1].wanted.set(8);
        let waited = until_served(clock, &tenants[1]).await;
        assert!(waited < PERIOD * 4, "the lender's own users: {waited}");
        clock.sleep(PERIOD * 12).await;
        assert!(jbof.redirected(1).0 > 0, "the third lends to the second");
        jbof.plug_in(0).await.unwrap();
        tenants[1].wanted.set(0);
        until_served(clock, &tenants[0]).await;
        clock.sleep(PERIOD * 16).await;
        assert!(jbof.redirected(0).0 > 0, "it borrows again");
    });
}

// Both at once: neither can be asked.
#[test]
fn lender_and_borrower_are_pulled_out() {
    while_lent(2, async |clock, jbof, tenants| {
        jbof.unplug(0);
        jbof.unplug(1);
        clock.sleep(PERIOD * 3).await;
        jbof.plug_in(1).await.unwrap();
        jbof.plug_in(0).await.unwrap();
        until_served(clock, &tenants[0]).await;
    });
}

// A reset returns the lender's queue to its own host. Whether it comes between its daemon's period and the
// host's, or lasts longer than both, no command may be redirected afterwards: it would be executed on the
// lender's data.
#[test]
fn a_lender_is_reset_at_any_moment() {
    for moment in 0..RESETS {
        let lent = run(
            2,
            |_| {},
            async move |clock, jbof| {
                let tenants = [0, 1].map(|drive| Tenant::begin(&clock, &jbof, drive, moment));
                tenants[1].wanted.set(0);
                clock.sleep(PERIOD * 6 * moment / RESETS).await;
                jbof.driver(1).unwrap().reset().await.unwrap();
                clock.sleep(PERIOD * 12).await;
                for tenant in &tenants {
                    tenant.end(&clock).await;
                    tenant.verify(&clock, &jbof).await;
                }
                is_well(&clock, &jbof).await;
                jbof.figures(1).lent
            },
        );
        assert!(lent > 0, "moment {moment}: it lends when it has been reset");
    }
}

// Without its link to the fabric a drive works alone; its loans end within a few periods, and not only when the link is
// back.
#[test]
fn a_link_is_lost() {
    for lost in [0, 1] {
        while_lent(2, async move |clock, jbof, tenants| {
            jbof.lose_link(lost);
            let waited = until_served(clock, &tenants[0]).await;
            assert!(waited < PERIOD * 4, "{waited}");
            clock.sleep(PERIOD * 4).await;
            let before = jbof.redirected(0).0;
            clock.sleep(PERIOD * 4).await;
            assert_eq!(jbof.redirected(0).0, before, "nothing is redirected");
            assert!(jbof.lenders(0).is_empty());
            jbof.restore_link(lost);
            clock.sleep(PERIOD * 16).await;
            assert!(jbof.redirected(0).0 > before, "it borrows again");
        });
    }
}

// A host that forgets its bindings leaves drives that lend indefinitely, unless the loans end by themselves.
#[test]
fn the_host_restarts_at_any_moment() {
    for moment in 0..12 {
        while_lent(2, async move |clock, jbof, tenants| {
            clock.sleep(Delay::from_us(moment * 61)).await;
            if moment % 2 == 1 {
                tenants[0].wanted.set(0); // while it drains
                clock.sleep(PERIOD).await;
            }
            jbof.restart_host().await.unwrap();
            tenants[0].wanted.set(8);
            until_served(clock, &tenants[0]).await;
            clock.sleep(PERIOD * 16).await;
            assert!(jbof.redirected(0).0 > 0, "it borrows again");
        });
    }
}

// A hanging lender is given up by its driver, after all remedies; its commands must not be executed when it resumes.
#[test]
fn a_lender_hangs_and_comes_to() {
    while_lent(2, async |clock, jbof, tenants| {
        jbof.drive(1).unwrap().drive.site.spend(byteway_firmware::WorkKind::Poll, Delay::from_s(15));
        clock.sleep(TIMEOUT).await;
        until_served(clock, &tenants[0]).await;
        clock.sleep(Delay::from_s(14)).await;
        assert!(jbof.revoked(0) > 0, "before commands are resubmitted");
        clock.sleep(Delay::from_s(2)).await;
        jbof.unplug(1); // its driver has given it up
        jbof.plug_in(1).await.unwrap();
    });
}

// A slow lender has commands aborted by its driver's time limit: the borrower executes them, and no user sees an abort.
#[test]
fn commands_that_a_slow_lender_has_aborted_are_carried_out() {
    while_lent(2, async |clock, jbof, tenants| {
        jbof.drive(1).unwrap().drive.site.spend(byteway_firmware::WorkKind::Poll, TIMEOUT * 3 / 2);
        clock.sleep(TIMEOUT * 2).await;
        until_served(clock, &tenants[0]).await;
        assert_eq!(jbof.revoked(0), 0, "it has answered");
        assert_eq!(jbof.driver(1).unwrap().resets(), 0);
    });
}

// A lender's own latency returns to normal within two periods of its burst (ES: a lending neighbor is no worse a
// neighbor).
#[test]
fn a_lenders_latency_is_back_within_two_periods() {
    let latencies = |lends: bool| {
        run(
            2,
            |config| {
                if !lends {
                    config.platform = Platform::Alone;
                }
            },
            async move |clock, jbof| {
                let borrower = Users::begin(&clock, &jbof, 0, 12, read).await;
                clock.sleep(PERIOD * 12).await;
                let (own, mut stream) = (client(&jbof, 1).await, Rng::new(3).stream("own"));
                let mut of_periods = Vec::new();
                for _ in 0..6 {
                    let (end, mut sum, mut count) = (clock.now() + PERIOD, Delay::ZERO, 0);
                    while clock.now() < end {
                        let begin = clock.now();
                        // Four at once: most of what its core can do.
                        let reads: Vec<_> = (0..4)
                            .map(|_| {
                                let (own, lba) = (own.clone(), stream.below(BLOCKS / 8) * 8);
                                let ended = Rc::new(Cell::new(false));
                                let told = ended.clone();
                                clock.spawn("read", async move {
                                    let mut buffer = own.buffer().unwrap();
                                    own.read(&mut buffer, lba, 8).await.unwrap();
                                    told.set(true);
                                });
                                ended
                            })
                            .collect();
                        while reads.iter().any(|ended| !ended.get()) {
                            clock.sleep(Delay::from_us(1)).await;
                        }
                        sum += clock.now().since(begin);
                        count += 1;
                    }
                    of_periods.push(sum.0 / count.max(1));
                }
                borrower.end(&clock).await;
                of_periods
            },
        )
    };
    let (alone, lender) = (latencies(false), latencies(true));
    for period in 2..6 {
        let (with, without) = (lender[period] as f64, alone[period] as f64);
        assert!(with < 1.1 * without, "period {period}: {with} ps, {without} ps alone");
    }
}
