//! JBOFs: the drives of a plan and its neighbors lend each other processors, in some runs also DRAM, and leave and return while
//! the others continue.
//!
//! Each drive has its own host workload and oracle. The JBOF's drivers are shared; a drive that loses power, or a host that restarts,
//! ends a *session* of the workers on that drive: all their outstanding commands are lost, and once there is a driver again they start a
//! new session, which first verifies everything.

use super::defects::AnyDefect;
use super::drive;
use super::failure::{Failure, Kind};
use super::kept::{Kept, impossible};
use super::plan::{Fault, JbofSpec, Plan};
use super::seat::Seat;
use super::tally::Tally;
use byteway_clock::{Clock, Delay, Executor, RunOutcome};
use byteway_firmware::WorkKind;
use byteway_host::{Driver, HostCosts, QueuePair};
use byteway_jbof::{
    DramConfig, HostConfig, Jbof, JbofConfig, JbofError, Platform, QueueWeights, SampleConfig,
};
use byteway_world::PoweredDrive;
use std::cell::Cell;
use std::rc::Rc;

/// Upper limit of checks whether the JBOF is at rest, one each period.
const LOOKS_MAX: u32 = 2000;

/// The JBOF of a run, if any.
pub(super) struct InJbof {
    pub(super) jbof: Rc<Jbof>,
    spec: JbofSpec,
    drive: usize,
    session: Cell<Session>,
}

/// A session: the drive's life (`None` without power), and the number of host restarts.
type Session = (Option<u64>, u64);

/// A session that has started.
pub(super) struct Begun {
    pub(super) driver: Driver,
    pub(super) whole: Rc<PoweredDrive>,
    /// Whether the power was off since the previous session.
    pub(super) was_off: bool,
}

fn config(spec: &JbofSpec, drives: usize, plan: &Plan) -> JbofConfig {
    // With few looks a sample goes stale quickly, which exercises stale samples.
    let sample = SampleConfig { pages: 64, periods: 3, looks_of_page: 4, periods_most: 4 };
    let costs = HostCosts { submit: Delay::from_ns(spec.submit_ns), ..HostCosts::default() };
    JbofConfig {
        host: HostConfig { costs, ..HostConfig::default() },
        platform: Platform::Lending { processor: true, dram: spec.dram },
        dram: DramConfig { sample, ..DramConfig::default() },
        period: Delay::from_us(spec.period_us),
        watermark: f64::from(spec.watermark) / 100.0,
        entries: spec.entries,
        loans_max: spec.loans as usize,
        weights: spec.weighted.then_some(QueueWeights { high: 8, medium: 4, low: 1 }),
        timeout: Some(Delay::from_us(spec.timeout_us)),
        daemon: Delay::from_us(1),
        defect: plan.defect.and_then(AnyDefect::of_jbof),
        ..JbofConfig::new(drive::link(), drives, plan.seed)
    }
}

/// Powers on the JBOF of a plan, if it has one, with the media of its seats.
pub(super) fn power_on(
    clock: &Clock,
    plan: &Plan,
    seats: &mut [Seat],
    lives: usize,
) -> Result<Option<Rc<Jbof>>, Failure> {
    let Some(spec) = &plan.jbof else { return Ok(None) };
    let mut drives = Vec::with_capacity(seats.len());
    for seat in seats.iter_mut() {
        let mut config = seat.faulty(lives);
        if spec.dram {
            config.ftl.map_segment_pages = 1;
        }
        let Kept::Memory(media) = &mut seat.kept else {
            return Err(Failure::new(Kind::Plan, "a drive in a JBOF must have its own medium"));
        };
        // A single core is soon busy.
        config.site.cores = 1;
        config.site.cycles = config
            .site
            .cycles
            .with(WorkKind::Translate, spec.translate_ns)
            .with(WorkKind::Buffer, spec.translate_ns / 4);
        drives.push((config, media.pop()));
    }
    let jbof = Jbof::give_power(clock, config(spec, drives.len(), plan), drives);
    jbof.map(|jbof| Some(Rc::new(jbof))).map_err(broken)
}

/// Attaches drivers to all drives, before poll `polls`. `false` if the power is cut before that.
pub(super) fn attach(executor: &Executor, jbof: &Rc<Jbof>, polls: u64) -> Result<bool, Failure> {
    let attaching = jbof.clone();
    match executor.run_cut(async move { attaching.attach().await }, polls) {
        Err(stalled) => Err(Failure::new(Kind::Hang, format!("while it attached: {stalled}"))),
        Ok(RunOutcome::Cut) => Ok(false),
        Ok(RunOutcome::Ended(attached)) => attached.map(|()| true).map_err(broken),
    }
}

/// Powers off the JBOF and returns the media to the seats.
pub(super) fn power_off(jbof: &Jbof, seats: &mut [Seat]) {
    for (seat, medium) in seats.iter_mut().zip(jbof.power_off()) {
        seat.kept = Kept::Memory(medium.into_iter().collect());
    }
}

/// Checks the state after all work: all drives are present, nothing is lent, and no resource is held.
pub(super) async fn wait_for_rest(clock: Clock, jbof: Rc<Jbof>, period: Delay) -> Result<(), Failure> {
    let all = 0..jbof.len();
    let quiet = |drive| {
        let Some(powered) = jbof.drive(drive) else { return false };
        let controller = &powered.drive.controller;
        let ftl = controller.ftl();
        let has_slots = ftl.slots_free() + ftl.units_buffered() == ftl.slots();
        controller.is_quiet() && has_slots && ftl.units_locked() == 0
    };
    let mut what = "a drive does not come back";
    for _ in 0..LOOKS_MAX {
        clock.timer(period).await;
        if !all.clone().all(|drive| jbof.is_there(drive)) {
            continue;
        }
        what = "resources are lent or bound although the JBOF is idle";
        if !jbof.is_at_rest() {
            continue;
        }
        what = "an idle controller holds resources";
        if all.clone().all(quiet) {
            return Ok(());
        }
    }
    Err(Failure::new(Kind::Leak, what))
}

fn broken(error: JbofError) -> Failure {
    match error {
        JbofError::Config { error, .. } => impossible(error),
        error => Failure::new(Kind::Error, format!("the JBOF: {error}")),
    }
}

impl InJbof {
    pub(super) fn new(jbof: &Rc<Jbof>, spec: &JbofSpec, drive: usize) -> InJbof {
        InJbof { jbof: jbof.clone(), spec: spec.clone(), drive, session: Cell::default() }
    }

    /// Adds the loans of the drive and the redirected commands of its host.
    pub(super) fn count(&self, tally: &mut Tally) {
        tally.loans += self.jbof.figures(self.drive).lent;
        let dram = self.jbof.dram_figures(self.drive);
        tally.dram_borrowed += dram.borrowings;
        tally.dram_recovered += dram.use_of.pages_recovered;
        tally.log_flushes += dram.use_of.flushes;
        tally.redirected += self.jbof.redirected(self.drive).0;
    }

    /// The powered drive.
    pub(super) fn powered(&self) -> Result<Rc<PoweredDrive>, Failure> {
        self.jbof.drive(self.drive).ok_or_else(|| broken(JbofError::Gone(self.drive)))
    }

    /// Period of the JBOF's daemons.
    pub(super) fn period(&self) -> Delay {
        Delay::from_us(self.spec.period_us)
    }

    /// Waits for a driver, and starts a session.
    pub(super) async fn begin(&self, clock: &Clock) -> Begun {
        let (driver, whole) = loop {
            if let Some(both) = self.jbof.driver(self.drive).zip(self.jbof.drive(self.drive)) {
                break both;
            }
            clock.timer(self.period() / 4).await;
        };
        let (before, _) = self.session.get();
        let now = self.jbof.life(self.drive);
        self.session.set((now, self.jbof.host_restarts()));
        Begun { driver, whole, was_off: before.is_some() && before != now }
    }

    /// The session started last.
    pub(super) fn session(&self) -> Session {
        self.session.get()
    }

    /// Whether the session started last has ended.
    pub(super) fn is_over(&self) -> bool {
        self.session() != (self.jbof.life(self.drive), self.jbof.host_restarts())
    }

    /// Creates `count` queue pairs.
    pub(super) async fn queues(&self, count: u16) -> Result<Vec<QueuePair>, Failure> {
        let mut queues = Vec::new();
        for _ in 0..count {
            queues.push(self.jbof.queue_pair(self.drive).await.map_err(broken)?);
        }
        Ok(queues)
    }

    /// Injects a fault of the JBOF, and waits until it has passed. `false` if `fault` is of another kind.
    pub(super) async fn disturb(&self, clock: &Clock, fault: &Fault) -> Result<bool, Failure> {
        let jbof = &self.jbof;
        match *fault {
            Fault::Leave { is_seen, during, .. } => {
                match is_seen {
                    true => jbof.unplug(self.drive),
                    false => jbof.cut_power(self.drive),
                }
                clock.sleep(Delay::from_us(during)).await;
                while let Err(error) = jbof.plug_in(self.drive).await {
                    // It has lost power again in the meantime.
                    if jbof.life(self.drive).is_some() {
                        return Err(broken(error));
                    }
                    clock.timer(self.period()).await;
                }
            }
            Fault::Link { during, .. } => {
                jbof.lose_link(self.drive);
                clock.sleep(Delay::from_us(during)).await;
                jbof.restore_link(self.drive);
            }
            Fault::Host { .. } => jbof.restart_host().await.map_err(broken)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}
