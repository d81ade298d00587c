//! Boxes: the drives of a plan and its neighbours lend each other processors, some also DRAM, and leave and come back while the others go on.
//!
//! Each drive has a host's work and an oracle of its own. The box's drivers are everybody's; a drive that loses its power, or a host that
//! restarts, ends a *session* of those who work on it: all that they have under way is lost, and as soon as there is a driver again
//! they begin another one, which looks at everything first.

use super::drive;
use super::failure::{Failure, Kind};
use super::kept::{Kept, impossible};
use super::plan::{BoxCanarySpec, BoxSpec, Fault, Plan};
use super::seat::Seat;
use super::tally::Tally;
use byteway_assembly::jbof::{
    Canary, DramConfig, Jbof, JbofConfig, JbofError, Platform, QueueWeights, SampleConfig,
};
use byteway_clock::{Clock, Delay, Executor, Ran};
use byteway_firmware::Work;
use byteway_host::{Driver, QueuePair};
use byteway_world::PoweredDrive;
use std::cell::Cell;
use std::rc::Rc;

/// Looks whether a box is at rest, at most: one each period.
const LOOKS_MAX: u32 = 2000;

/// The boxes of a run: one, or none.
pub(super) struct Boxed {
    pub(super) jbof: Rc<Jbof>,
    spec: BoxSpec,
    drive: usize,
    /// The session: in which life of the drive, and after how many restarts of the host.
    session: Cell<(Option<u64>, u64)>,
}

fn config(spec: &BoxSpec, drives: usize, seed: u64) -> JbofConfig {
    // Looks are few: a sample is old soon.
    let sample = SampleConfig { pages: 64, periods: 3, looks_of_page: 4, periods_most: 4 };
    JbofConfig {
        platform: Platform::Lending { processor: true, dram: spec.dram },
        dram: DramConfig { sample, ..DramConfig::default() },
        period: Delay::from_us(spec.period_us),
        watermark: f64::from(spec.watermark) / 100.0,
        entries: spec.entries,
        loans_max: spec.loans as usize,
        weights: spec.weighted.then_some(QueueWeights { high: 8, medium: 4, low: 1 }),
        timeout: Some(Delay::from_us(spec.timeout_us)),
        daemon: Delay::from_us(1),
        canary: spec.canary.map(|canary| match canary {
            BoxCanarySpec::StaleDescriptor => Canary::StaleDescriptor,
            BoxCanarySpec::UnbindWithoutDrain => Canary::UnbindWithoutDrain,
        }),
        ..JbofConfig::new(drive::link(), drives, seed)
    }
}

/// Gives power to the box of a plan, over the media of its seats, if it is one.
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
            return Err(Failure::new(Kind::Plan, "a drive of a box has a medium of its own"));
        };
        // One core, which is busy soon.
        config.site.cores = 1;
        config.site.cycles = config
            .site
            .cycles
            .with(Work::Translate, spec.translate_ns)
            .with(Work::Buffer, spec.translate_ns / 4);
        drives.push((config, media.pop()));
    }
    let jbof = Jbof::give_power(clock, config(spec, drives.len(), plan.seed), drives);
    jbof.map(|jbof| Some(Rc::new(jbof))).map_err(broken)
}

/// Attaches drivers to all drives, before poll `polls`. False: the power is cut before.
pub(super) fn attach(executor: &Executor, jbof: &Rc<Jbof>, polls: u64) -> Result<bool, Failure> {
    let attaching = jbof.clone();
    match executor.run_cut(async move { attaching.attach().await }, polls) {
        Err(stalled) => Err(Failure::new(Kind::Hang, format!("while it attached: {stalled}"))),
        Ok(Ran::Cut) => Ok(false),
        Ok(Ran::Ended(attached)) => attached.map(|()| true).map_err(broken),
    }
}

/// The power of a box goes: its drives' media are the seats'.
pub(super) fn power_off(jbof: &Jbof, seats: &mut [Seat]) {
    for (seat, medium) in seats.iter_mut().zip(jbof.power_off()) {
        seat.kept = Kept::Memory(vec![medium]);
    }
}

/// What must hold when all have done their work: all drives are there, nothing is lent, and nothing is left taken.
pub(super) async fn come_to_rest(clock: Clock, jbof: Rc<Jbof>, period: Delay) -> Result<(), Failure> {
    let all = 0..jbof.len();
    let quiet = |drive| {
        let controller = jbof.drive(drive).drive.controller.clone();
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
        what = "something is lent, or bound, though nothing is to be done";
        if !jbof.is_at_rest() {
            continue;
        }
        what = "a controller keeps something though nothing is asked of it";
        if all.clone().all(quiet) {
            return Ok(());
        }
    }
    Err(Failure::new(Kind::Leak, what))
}

fn broken(error: JbofError) -> Failure {
    match error {
        JbofError::Config { error, .. } => impossible(error),
        error => Failure::new(Kind::Error, format!("the box: {error}")),
    }
}

impl Boxed {
    pub(super) fn new(jbof: &Rc<Jbof>, spec: &BoxSpec, drive: usize) -> Boxed {
        Boxed { jbof: jbof.clone(), spec: spec.clone(), drive, session: Cell::default() }
    }

    /// Counts what the drive has lent, and its host redirected.
    pub(super) fn count(&self, tally: &mut Tally) {
        tally.loans += self.jbof.figures(self.drive).lent;
        let dram = self.jbof.dram_figures(self.drive);
        tally.dram_borrowed += dram.borrowings;
        tally.dram_recovered += dram.use_of.pages_recovered;
        tally.log_flushes += dram.use_of.flushes;
        tally.redirected += self.jbof.redirected(self.drive).0;
    }

    /// A period of the box.
    pub(super) fn period(&self) -> Delay {
        Delay::from_us(self.spec.period_us)
    }

    /// Waits until there is a driver, and begins a session. Whether the power was off since the one before.
    pub(super) async fn begin(&self, clock: &Clock) -> bool {
        while !self.jbof.is_there(self.drive) {
            clock.timer(self.period() / 4).await;
        }
        let (before, _) = self.session.get();
        let now = self.jbof.life(self.drive);
        self.session.set((now, self.jbof.host_restarts()));
        before.is_some() && before != now
    }

    /// Whether the session is over.
    pub(super) fn is_over(&self) -> bool {
        self.session.get() != (self.jbof.life(self.drive), self.jbof.host_restarts())
    }

    /// The drive of the session.
    pub(super) fn whole(&self) -> Rc<PoweredDrive> {
        self.jbof.drive(self.drive)
    }

    /// The driver of the session.
    pub(super) fn driver(&self) -> Driver {
        self.jbof.driver(self.drive)
    }

    /// So many queue pairs; none: the drive is gone.
    pub(super) async fn queues(&self, count: u16) -> Result<Vec<QueuePair>, Failure> {
        let mut queues = Vec::new();
        for _ in 0..count {
            queues.push(self.jbof.queue_pair(self.drive).await.map_err(broken)?);
        }
        Ok(queues)
    }

    /// Has a fault of the box happen, and waits until it is over. Whether it is one.
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
                    // It has lost its power again meanwhile.
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
