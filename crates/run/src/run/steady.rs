//! The load of drives in the steady state.
//!
//! What long overwriting leaves depends on how fast a drive is overwritten: a host that saturates it leaves few free superblocks and
//! a full write buffer, a slower one as many as garbage collection keeps free, and dies that collect for a part of their time. Began a
//! slower host on a saturated drive, the drive would catch up for seconds, and that would be measured. So the first few thousand
//! I/Os of the jobs are simulated beforehand, on a drive that is filled and need not collect, and the rate of writes and the time that
//! dies work for the host are taken from there. The translation layer decides whether garbage collection keeps up with both.
//!
//! This is measured once more, on a drive that collects as much as it would at the first rate, or as it can: a closed loop is slower
//! beside garbage collection, and garbage collection is slower beside a host than its flash alone, since it waits for cores, channels and
//! the map, too. What a closed loop writes on a drive that begins so is another rate again, which leaves another drive: both are measured until
//! they agree. If it then does not keep up with what is asked, the load saturates the drive; so does one that fills the write buffer.

use super::{RunContext, build};
use crate::build::Built;
use crate::error::RunError;
use byteway_clock::{Delay, Executor, RunOutcome, Time};
use byteway_firmware::{Base, PacedState, SteadyLoad};
use byteway_results::results::steadiness::SETTLED_DRIVES_MOST;
use byteway_scenario::Scenario;
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Progress;
use byteway_workload::{Issue, JobPlan, Kind, Source};
use byteway_world::PoweredDrive;
use std::cell::{Cell, OnceCell, RefCell};
use std::ops::RangeInclusive;
use std::rc::Rc;

/// Units that a drive is written until its rate is known; the first quarter of them does not count.
const WRITTEN_UNITS: u64 = 4096;
/// Units that it is read at most.
const READ_UNITS: u64 = 16 * WRITTEN_UNITS;
/// Polls of the simulation for each drive, at most: a slow writer may be beside others that are not, and what it writes by then has to do.
const POLLS_MOST: u64 = 4 << 20;
/// Interval in which drives are looked at first; later a share of the time since the start.
const LOOK: Delay = Delay::from_us(10);
const LOOKS: u64 = 64;
/// Moved units from which on the time of garbage collection is measured: a few rounds of some dies.
const MOVED_UNITS: f64 = 1024.0;
/// Share of the write buffer, in per cent, by which its fill may differ between the ends of what is measured: while it fills, a drive takes
/// writes faster than later.
const FILLS_PERCENT: u64 = 10;
/// Times that it is written at most until its fill has to be the same.
const FILLED_TIMES: u64 = 4;
/// Share of the write buffer that is free, in per cent, below which writes wait for flash.
const FULL_PERCENT: u64 = 10;
/// Share by which a closed loop may be slower than it was measured beside garbage collection, in millionths: so short a measurement is
/// not exact, and a loop that is taken for one that saturates the drive begins far from where it goes on.
const INEXACT_PPM: u32 = 125_000;

/// Times that a closed loop is measured again, at least and at most.
const ROUNDS: RangeInclusive<u32> = 3..=8;
/// Difference in per cent of a rate from the one that was expected that is none: it is measured over a few thousand units.
const SETTLED_PERCENT: u64 = 2;

/// The scenario with the load of each drive that begins in the steady state.
///
/// # Errors
/// Like a run. An interrupt leaves the scenario as it is: the run itself ends by it.
pub(super) fn with_loads(scenario: &Scenario, interrupt: &Interrupt) -> Result<Scenario, RunError> {
    match asked(scenario, interrupt) {
        Err(RunError::Interrupted) => Ok(scenario.clone()),
        found => found,
    }
}

fn asked(scenario: &Scenario, interrupt: &Interrupt) -> Result<Scenario, RunError> {
    let mut loaded = scenario.clone();
    let is_steady = |number: usize| {
        scenario.drives[number].plan.precondition == Base::Steady && scenario.jobs_of(number).any(may_write)
    };
    let steady: Vec<usize> = (0..scenario.drives.len()).filter(|number| is_steady(*number)).collect();
    if steady.is_empty() {
        return Ok(loaded);
    }
    for number in &steady {
        loaded.drives[*number].plan.precondition = Base::Filled;
    }
    let alone = loads(&loaded, &steady, interrupt)?;
    let is_closed = |number: usize| scenario.jobs_of(number).any(|job| job.issue == Issue::Closed);
    for (number, load) in steady.iter().zip(&alone) {
        let plan = &mut loaded.drives[*number].plan;
        plan.precondition = Base::Steady;
        plan.steady_load = yielding(*load, if is_closed(*number) { u32::MAX } else { 0 });
    }
    let beside = loads(&loaded, &steady, interrupt)?;
    for ((number, alone), beside) in steady.iter().zip(&alone).zip(beside) {
        let (load, yields_ppm) = if is_closed(*number) { (beside, INEXACT_PPM) } else { (*alone, 0) };
        loaded.drives[*number].plan.steady_load = yielding(together(*alone, beside, load), yields_ppm);
    }
    // One of writes alone is as fast as the drive, whatever it was measured beside.
    let reads = |number: &usize| is_closed(*number) && scenario.jobs_of(*number).any(may_read);
    let closed: Vec<usize> = steady.iter().copied().filter(reads).collect();
    if steady.len() <= SETTLED_DRIVES_MOST {
        settle(&mut loaded, &steady, &closed, &alone, interrupt)?;
    }
    Ok(loaded)
}

/// Measures the closed loops on drives that begin in the state of their load until that is the load which they are. `alone` are the loads of
/// `steady` beside no garbage collection.
fn settle(
    loaded: &mut Scenario,
    steady: &[usize],
    closed: &[usize],
    alone: &[SteadyLoad],
    interrupt: &Interrupt,
) -> Result<(), RunError> {
    for round in 1..=*ROUNDS.end() {
        if closed.iter().all(|number| rate(loaded.drives[*number].plan.steady_load).is_none()) {
            break;
        }
        let found = loads(loaded, steady, interrupt)?;
        let mut is_settled = true;
        for ((number, alone), found) in steady.iter().zip(alone).zip(found) {
            let own = &mut loaded.drives[*number].plan.steady_load;
            if let Some(next) = towards(*own, found).filter(|_| closed.contains(number)) {
                is_settled &= is_same(*own, found);
                *own = yielding(together(*alone, next, next), INEXACT_PPM);
            }
        }
        if is_settled && round >= *ROUNDS.start() {
            break;
        }
    }
    Ok(())
}

/// A third of the way from the load that a drive began with to the one that was `found` there. All of it would overshoot: dies that have collected
/// too little for a load let it write faster, and the other way round, by about twice the difference. Garbage collection is taken to last as long
/// as its flash does, beside what dies do for the host: what it moves in so short a time depends on the few dies that collect just then.
fn towards(own: SteadyLoad, found: SteadyLoad) -> Option<SteadyLoad> {
    let (own, found) = (rate(own)?, rate(found)?);
    let units_per_megasecond = ((2 * u128::from(own) + u128::from(found)) / 3) as u64;
    Some(SteadyLoad::Paced { units_per_megasecond, busy_ppm: 0, yields_ppm: 0, collection_ppm: 1_000_000 })
}

/// Whether two rates are the same, as far as they are measured.
fn is_same(own: SteadyLoad, found: SteadyLoad) -> bool {
    let rates = rate(own).zip(rate(found));
    rates.is_none_or(|(own, found)| 100 * found.abs_diff(own) <= SETTLED_PERCENT * own)
}

fn rate(load: SteadyLoad) -> Option<u64> {
    match load {
        SteadyLoad::Paced { units_per_megasecond, .. } => Some(units_per_megasecond),
        SteadyLoad::Saturating => None,
    }
}

fn yielding(load: SteadyLoad, most: u32) -> SteadyLoad {
    match load {
        SteadyLoad::Paced { units_per_megasecond, busy_ppm, collection_ppm, .. } => {
            SteadyLoad::Paced { units_per_megasecond, busy_ppm, yields_ppm: most, collection_ppm }
        }
        SteadyLoad::Saturating => load,
    }
}

/// The rate of `load`, with the share of dies' time for the host that belongs to it, as measured `alone` (`beside` garbage collection dies
/// work for that, too), and the time of garbage collection as measured beside the host.
fn together(alone: SteadyLoad, beside: SteadyLoad, load: SteadyLoad) -> SteadyLoad {
    match (alone, beside, load) {
        (
            SteadyLoad::Paced { units_per_megasecond: before, busy_ppm, .. },
            SteadyLoad::Paced { collection_ppm, .. },
            SteadyLoad::Paced { units_per_megasecond, .. },
        ) => {
            let busy = u128::from(busy_ppm) * u128::from(units_per_megasecond) / u128::from(before).max(1);
            let busy_ppm = busy.min(u128::from(u32::MAX)) as u32;
            SteadyLoad::Paced { units_per_megasecond, busy_ppm, yields_ppm: 0, collection_ppm }
        }
        _ => SteadyLoad::Saturating,
    }
}

fn may_read(job: &JobPlan) -> bool {
    match &job.source {
        Source::Synthetic(own) => own.rw.kinds().contains(&Kind::Read),
        _ => true,
    }
}

fn may_write(job: &JobPlan) -> bool {
    match &job.source {
        Source::Synthetic(own) => own.rw.has_writes(),
        _ => true,
    }
}

/// What a drive has done until an instant.
#[derive(Clone, Copy, Default)]
struct Done {
    at: Time,
    written: u64,
    read: u64,
    /// Units programmed for the host and the map, and moved by garbage collection.
    programmed: u64,
    moved: u64,
    /// Mean over its dies.
    busy: Delay,
    /// Units in the write buffer, and those that it holds.
    buffered: u64,
    slots: u64,
}

impl Done {
    fn of(powered: &PoweredDrive, at: Time) -> Done {
        let mut done = Done { at, ..Done::default() };
        let (mut busy, mut dies) = (Delay::ZERO, 0);
        for layer in powered.layers() {
            let counters = layer.counters();
            done.written += counters.user_units_written;
            done.read += counters.units_read;
            done.programmed += counters.units_programmed_host + counters.units_programmed_map;
            done.moved += counters.units_programmed_collector;
            done.buffered += u64::from(layer.slots() - layer.slots_free());
            done.slots += u64::from(layer.slots());
            dies += layer.flash().geometry().dies();
            busy += (0..layer.flash().geometry().dies()).map(|die| layer.flash().die_busy(die)).sum();
        }
        done.busy = busy / u64::from(dies).max(1);
        done
    }

    /// The load from `self` on until `end`; saturating if nothing was written. Garbage collection was expected as in `paced`.
    fn load_until(self, end: Done, paced: Option<PacedState>) -> SteadyLoad {
        let (elapsed, written) = (end.at.since(self.at).0, end.written - self.written);
        let is_full = 100 * (end.slots - end.buffered) < FULL_PERCENT * end.slots;
        if elapsed == 0 || written == 0 || is_full {
            return SteadyLoad::Saturating;
        }
        let of_elapsed = |amount: u64, scale: u128| (u128::from(amount) * scale / u128::from(elapsed)) as u64;
        SteadyLoad::Paced {
            units_per_megasecond: of_elapsed(written, 1_000_000_000_000_000_000),
            busy_ppm: of_elapsed(end.busy.saturating_sub(self.busy).0, 1_000_000) as u32,
            yields_ppm: 0,
            collection_ppm: paced.map_or(1_000_000, |paced| self.collection_ppm(end, paced)),
        }
    }

    /// Time of garbage collection in relation to what was expected, in millionths: dies that collect should move this many units while
    /// the host writes others.
    fn collection_ppm(self, end: Done, paced: PacedState) -> u32 {
        let (programmed, moved) =
            ((end.programmed - self.programmed) as f64, (end.moved - self.moved) as f64);
        let expected = programmed * paced.moved * paced.collecting / paced.duty.max(1e-6);
        match expected >= MOVED_UNITS {
            true => (1e6 * expected / moved.max(1.0)).clamp(1e5, 1e9) as u32,
            false => 1_000_000,
        }
    }
}

/// A drive that is looked at: from when on its I/Os count, and until when.
#[derive(Clone, Copy, Default)]
struct Observed {
    first: Option<Done>,
    last: Option<Done>,
    /// Where it would count from, had its write buffer not filled meanwhile: if the jobs end before it is known how it goes on, what there is
    /// has to do. A moment in which nothing was written would be taken for a drive that can't.
    before: Option<Done>,
}

impl Observed {
    fn look(&mut self, now: Done) {
        if self.last.is_some() {
            return;
        }
        let is_long = now.read >= READ_UNITS || now.written >= WRITTEN_UNITS + FILLED_TIMES * now.slots;
        match self.first {
            None if now.written >= WRITTEN_UNITS / 4 => self.first = Some(now),
            Some(first) if is_long || now.written - first.written >= WRITTEN_UNITS / 4 * 3 => {
                let fills = 100 * now.buffered.abs_diff(first.buffered) > FILLS_PERCENT * now.slots;
                if fills && !is_long {
                    (self.first, self.before) = (Some(now), Some(first));
                } else {
                    self.last = Some(now);
                }
            }
            None if is_long => self.last = Some(now),
            _ => {}
        }
    }
}

/// The loads of the drives `steady`, from the beginning of their jobs.
fn loads(scenario: &Scenario, steady: &[usize], interrupt: &Interrupt) -> Result<Vec<SteadyLoad>, RunError> {
    let mut endless = scenario.clone();
    let is_timed = |job: &JobPlan| job.phase == 0 && job.count.is_none() && job.io_bytes.is_none();
    let is_closed = |job: &JobPlan| job.issue == Issue::Closed;
    if endless.jobs.iter().all(is_timed) && endless.jobs.iter().any(is_closed) {
        // A short run would be over before its rate is known. That of an open loop is given.
        endless.jobs.iter_mut().for_each(|job| job.runtime = None);
    }
    let scenario = &endless;
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let Built { world, jbof, interrupt_processors } = build::world(&executor, scenario, interrupt)?;
    let context = Rc::new(RunContext {
        clock: clock.clone(),
        world: Rc::new(world),
        scenario: scenario.clone(),
        mark: Rc::new(|| ()),
        ios: Cell::default(),
        timeline: None,
        remote: OnceCell::new(),
        jbof,
        interrupt_processors,
        is_pulled_out: Cell::default(),
        began: Cell::default(),
    });
    let observed = Rc::new(RefCell::new(vec![Observed::default(); steady.len()]));
    let stop = Interrupt::default();
    let (looking, found, drives, end) = (context.clone(), observed.clone(), steady.to_vec(), stop.clone());
    let polls_most = clock.counters().polls + POLLS_MOST * steady.len() as u64;
    clock.spawn("steady load", async move {
        let mut wait = LOOK;
        loop {
            looking.clock.sleep(wait).await;
            let Some(began) = looking.began.get() else { continue };
            let now = looking.clock.now();
            wait = LOOK.max(now.since(began) / LOOKS);
            let mut found = found.borrow_mut();
            for (number, observed) in drives.iter().zip(found.iter_mut()) {
                let done = Done::of(&looking.world.drives()[*number], now);
                observed.look(done);
            }
            let is_long = looking.clock.counters().polls >= polls_most;
            if is_long || found.iter().all(|observed| observed.last.is_some()) {
                end.raise();
                return;
            }
        }
    });
    let jobs = context.clone().play(Progress::hidden(), stop);
    let ran = executor.run_unless(jobs, || interrupt.is_raised()).map_err(RunError::Stalled)?;
    let RunOutcome::Ended((result, _)) = ran else { return Err(RunError::Interrupted) };
    result?;
    let (began, now) = (context.began.get().unwrap_or_default(), clock.now());
    let of_drive = |(number, observed): (&usize, &Observed)| {
        let first = if observed.last.is_some() { observed.first } else { observed.before.or(observed.first) };
        let first = first.unwrap_or(Done { at: began, ..Done::default() });
        let last = observed.last.unwrap_or_else(|| Done::of(&context.world.drives()[*number], now));
        let paced = match &context.world.drives()[*number].layers()[..] {
            [layer] => layer.paced_state(),
            _ => None,
        };
        first.load_until(last, paced)
    };
    let loads = steady.iter().zip(observed.borrow().iter()).map(of_drive).collect();
    context.world.power_off();
    Ok(loads)
}
