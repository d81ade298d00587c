//! Executes a plan: a drive from one power-on to the next, and the host's expectations, which persist across power cuts.
//!
//! The medium is memory, or files; with files a cut drops, tears and reorders writes that were not synced.
//!
//! Each *life* has an executor, a link, a drive on the medium of the previous life, a driver, and workers that take operations in order. A
//! life ends with a power cut before a given poll, with an orderly shutdown, or after all operations. Then everything is flushed, the power
//! is cut once more, and every block is read a last time. Neighbor drives share the executor and the power supply with the first one: each
//! has its own link, host workload and oracle, so that interference shows.

use super::drive;
use super::failure::{Failure, Kind};
use super::jbof::{self, InJbof};
use super::kept::{Kept, KeptArray, impossible};
use super::life::{Life, LifeEvent};
use super::placing::Placing;
use super::plan::{Anchor, Fault, Plan};
use super::seat::{Run, Seat};
use super::tally::Tally;
use super::unplug::Bays;
use byteway_array::Cause;
use byteway_clock::random::Rng;
use byteway_clock::{Clock, Delay, Executor, Owner, RunOutcome, Station, Timing};
use byteway_device::{Backing, DriveConfig};
use byteway_flash::file::SimulatedFiles;
use byteway_world::{Host, PoweredDrive};
use std::rc::Rc;

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Counts.
    pub tally: Tally,
    /// The failure, if any.
    pub failure: Option<Failure>,
    /// Polls of each life, including the last one.
    pub lives: Vec<u64>,
}

/// When to cut the power.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Never,
    At(Anchor),
}

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Cut,
    Cycled,
    Done,
}

/// Upper limit of a life's polls: a constant, plus an allowance for each operation.
const POLLS_MAX: u64 = 1_000_000;
const POLLS_PER_OP_MAX: u64 = 20_000;

/// Runs a plan. Panics propagate.
pub fn run(plan: &Plan) -> Ended {
    let mut lives = Vec::new();
    let seats = plan.all().enumerate().map(|(number, plan)| Seat::new(plan, number == 0));
    let mut seats: Vec<Seat> = match seats.collect() {
        Ok(seats) => seats,
        Err(failure) => {
            let tally = Tally { runs: 1, ..Tally::default() };
            return Ended { tally, failure: Some(failure), lives };
        }
    };
    let runs: Vec<Rc<Run>> = seats.iter().map(|seat| seat.run.clone()).collect();
    let ended = live_all(&mut seats, &mut lives).err();
    let mut tally = Tally { polls: lives.iter().sum(), ..Tally::default() };
    runs.iter().for_each(|run| tally += run.tally());
    // An error found in a drive takes precedence over its consequences.
    let found = runs.iter().enumerate().find_map(|(number, run)| {
        let failure = run.failure.take()?;
        Some(match number {
            0 => failure,
            neighbour => Failure { text: format!("neighbor drive {neighbour}: {}", failure.text), ..failure },
        })
    });
    Ended { tally, failure: found.or(ended), lives }
}

fn has_failed(seats: &[Seat]) -> bool {
    seats.iter().any(|seat| seat.run.has_failed())
}

/// Runs one life after another. The first drive's plan has the cuts.
fn live_all(seats: &mut Vec<Seat>, lives: &mut Vec<u64>) -> Result<(), Failure> {
    let mut looks = true;
    let first = seats[0].run.clone();
    loop {
        let cut = next_cut(&first);
        let at = match &cut {
            Some((_, Fault::Cut { at, .. })) => Cut::At(*at),
            _ => Cut::Never,
        };
        let end = live(seats, at, looks, lives)?;
        looks = true;
        if has_failed(seats) {
            return Ok(());
        }
        if end == End::Done {
            break;
        }
        let Some((index, Fault::Cut { again, blind, ends, .. })) = cut.filter(|_| end == End::Cut) else {
            continue;
        };
        first.struck.borrow_mut()[index] = true;
        if ends {
            seats.iter().for_each(|seat| seat.run.next.set(seat.run.plan.ops.len()));
        }
        let mut end = End::Cut;
        for polls in again {
            let at = Cut::At(Anchor { op: None, later: polls });
            end = live(seats, at, true, lives)?;
            if has_failed(seats) {
                return Ok(());
            }
            if end != End::Cut {
                break;
            }
        }
        if end == End::Done {
            break;
        }
        looks = !blind;
    }
    last_look(seats, lives)
}

/// With nothing outstanding, durable data must survive a cut.
fn last_look(seats: &mut Vec<Seat>, lives: &mut Vec<u64>) -> Result<(), Failure> {
    seats.iter().for_each(|seat| cut_power(&seat.run));
    live(seats, Cut::Never, true, lives).map(drop)
}

/// The next cut of the plan that can still happen.
fn next_cut(run: &Run) -> Option<(usize, Fault)> {
    let struck = run.struck.borrow();
    let is_ahead = |(index, fault): &(usize, &Fault)| match fault {
        Fault::Cut { at, .. } => !struck[*index] && at.op.is_none_or(|op| op >= run.next.get()),
        _ => false,
    };
    let cuts = run.plan.faults.iter().enumerate().filter(is_ahead);
    cuts.min_by_key(|(_, fault)| fault.anchor()).map(|(index, fault)| (index, fault.clone()))
}

/// The host's side of a power cut.
fn cut_power(run: &Run) {
    run.spaces.borrow().iter().for_each(|space| space.holds.cut_power());
    run.programs.iter().for_each(|programs| programs.clear());
}

/// A powered drive.
struct Powered {
    run: Rc<Run>,
    config: DriveConfig,
    /// State without power, in addition to its current media.
    rest: Rest,
    life: Rc<Life>,
}

/// State of a powered drive that is kept outside the drive.
enum Rest {
    Nothing,
    Files(SimulatedFiles),
    Array(KeptArray),
}

impl Powered {
    /// Powers on the drive of seat `number`, or takes the composed drive that was `placed` for it, of which `members` are present. `lives`
    /// is the number of lives ended.
    fn on(
        (clock, processors): (&Clock, &[Rc<Station>]),
        (number, seat): (u16, Seat),
        (placed, members): (Option<PoweredDrive>, Vec<usize>),
        in_jbof: Option<InJbof>,
        (watched, looks): (Option<usize>, bool),
        lives: usize,
    ) -> Result<Powered, Failure> {
        let faulty = seat.faulty(lives);
        let Seat { run, config, kept } = seat;
        let own = in_jbof.as_ref().map(|in_jbof| in_jbof.powered()).transpose()?;
        let (whole, rest) = match (placed, kept) {
            _ if own.is_some() => (None, Rest::Nothing),
            (Some(placed), Kept::Array(kept)) => (Some(placed), Rest::Array(kept)),
            (Some(placed), _) => (Some(placed), Rest::Nothing),
            (None, kept) => {
                let (medium, files) = kept.open(&faulty)?;
                let clock = clock.owned_by(Owner(number));
                let powered = drive::power_on(&clock, &run.plan.drive, faulty, processors, Some(medium));
                (Some(powered.map_err(impossible)?), files.map_or(Rest::Nothing, Rest::Files))
            }
        };
        let whole = own.or_else(|| whole.map(Rc::new)).expect("a drive is in a JBOF or on its own");
        let bays = Bays::new(members, lives == 0);
        let clock = whole.host.clock().clone();
        let life = Life::begin(&clock, run.clone(), (whole, bays), in_jbof, watched, looks);
        Ok(Powered { run, config, rest, life })
    }

    fn count(&self) {
        let whole = self.life.whole();
        if let Some(in_jbof) = &self.life.in_jbof {
            self.run.count(|tally| in_jbof.count(tally));
        }
        self.run.count(|tally| {
            let layers = whole.layers();
            for counters in layers.iter().map(|layer| layer.counters()) {
                tally.blocks_collected += counters.blocks_collected;
                tally.blocks_collected_idle += counters.blocks_collected_idle;
                tally.blocks_retired += counters.blocks_retired;
                tally.blocks_levelled += counters.blocks_levelled;
                tally.blocks_refreshed += counters.blocks_refreshed;
                tally.blocks_folded += counters.blocks_folded;
                tally.map_misses += counters.map_misses;
                tally.parts_merged += counters.parts_merged;
            }
            tally.ends_of_life = u64::from(layers.iter().any(|layer| layer.health().is_read_only));
            let backing = whole.drive.controller.backing();
            if let Some(array) = backing.array() {
                let counters = array.counters();
                tally.stripes_repaired += counters.stripes_repaired;
                tally.units_reconstructed += counters.units_reconstructed;
                tally.units_rebuilt += counters.of(Cause::Rebuild).units_written;
                tally.units_lost = array.state().lost_units;
            }
            if let Backing::Bridge(bridge) = backing {
                tally.writes_taken += bridge.counters().writes_taken;
            }
            for flash in whole.arrays() {
                let flash = flash.counters();
                tally.flash_failures += flash.failed_programs + flash.failed_erases;
                tally.units_uncorrectable += flash.units_uncorrectable;
            }
            whole.drive.controller.each_pairs(|pairs| {
                let counters = pairs.counters();
                tally.pairs_stored += counters.values_stored;
                tally.pairs_merged += counters.compactions;
                tally.pairs_collected += counters.collections;
                tally.pairs_replayed += counters.records_replayed;
            });
        });
    }

    /// Power-off, by a cut or after a shutdown. `lives` is the number of lives started.
    fn power_off(self, lives: usize, is_cut: bool) -> Seat {
        let Powered { run, config, rest, life } = self;
        let whole = life.whole();
        let kept = match rest {
            Rest::Nothing if life.in_jbof.is_some() => Kept::Memory(Vec::new()), // the JBOF has it
            Rest::Nothing => Kept::Memory(whole.power_off_all()),
            Rest::Files(files) => {
                let chance = Rng::new(run.plan.seed).stream(&format!("files-{lives}")).next_u64();
                let left = files.cut(chance);
                whole.power_off_all();
                Kept::Files(left)
            }
            Rest::Array(kept) => {
                let kept = life.bays.power_off(&run, &whole, kept, is_cut);
                whole.power_off_all();
                Kept::Array(kept)
            }
        };
        Seat { run, config, kept }
    }
}

/// Runs a life from power-on to power-off, with the power cut at `cut`. With `looks`, every block is read first. The first drive's work
/// determines the end of the life; after it, the work of the others is awaited.
fn live(seats: &mut Vec<Seat>, cut: Cut, looks: bool, lives: &mut Vec<u64>) -> Result<End, Failure> {
    let executor = Executor::new();
    let plan = seats[0].run.plan.clone();
    executor.set_timing(if plan.drive.untimed { Timing::None } else { Timing::Model });
    let clock = executor.clock().clone();
    let watched = match cut {
        Cut::At(Anchor { op: Some(op), .. }) => Some(op),
        _ => None,
    };
    let ops: usize = plan.all().map(|plan| plan.ops.len()).sum();
    let polls_max = POLLS_MAX * seats.len() as u64 + POLLS_PER_OP_MAX * ops as u64;
    let first = match cut {
        Cut::At(Anchor { op: None, later }) => later.min(polls_max),
        _ => polls_max,
    };
    let host = Host::new(&clock, 1);
    let jbof = jbof::power_on(&clock, &plan, seats, lives.len())?;
    let mut placing = match jbof {
        Some(_) => Placing::default(),
        None => Placing::power_on(&clock, host.processors(), seats, lives.len())?,
    };
    let has_jbof = match &jbof {
        Some(jbof) => jbof::attach(&executor, jbof, first)?,
        None => true,
    };
    let placed = if has_jbof { placing.attach(&executor, first)? } else { None };
    let Some(mut placed) = placed else {
        let polls = clock.counters().polls;
        lives.push(polls);
        if polls >= polls_max {
            return Err(Failure::new(Kind::Hang, format!("{polls} polls are not enough to attach")));
        }
        placing.power_off(seats);
        jbof.iter().for_each(|jbof| jbof::power_off(jbof, seats));
        drop(executor);
        seats.iter().for_each(|seat| cut_power(&seat.run));
        seats[0].run.count(|tally| {
            tally.cuts += 1;
            tally.cuts_mounting += 1;
        });
        return Ok(End::Cut);
    };
    let mut powered = Vec::new();
    for (number, seat) in seats.drain(..).enumerate() {
        let watched = watched.filter(|_| number == 0);
        let own = placed.iter().position(|placed| placed.place == number);
        let own = (own.map(|index| placed.swap_remove(index).drive), placing.members(number));
        let seat = (number as u16, seat);
        let in_jbof = jbof.as_ref().zip(plan.jbof.as_ref());
        let in_jbof = in_jbof.map(|(jbof, spec)| InJbof::new(jbof, spec, number));
        let drive = (&clock, host.processors());
        powered.push(Powered::on(drive, seat, own, in_jbof, (watched, looks), lives.len())?);
    }
    let life = powered[0].life.clone();
    let mut ran = executor.run_cut(life.clone().next_moment(), first);
    if let (Ok(RunOutcome::Ended(LifeEvent::Begun)), Cut::At(anchor)) = (&ran, cut) {
        let at = clock.counters().polls.saturating_add(anchor.later).min(polls_max);
        ran = executor.run_cut(life.clone().next_moment(), at);
    }
    for other in &powered[1..] {
        if let Ok(RunOutcome::Ended(LifeEvent::Ended)) = ran {
            ran = executor.run_cut(other.life.clone().next_moment(), polls_max);
        }
    }
    let has_failed = powered.iter().any(|powered| powered.run.has_failed());
    if let (Some(jbof), Some(spec), Ok(RunOutcome::Ended(LifeEvent::Ended)), false) =
        (&jbof, &plan.jbof, &ran, has_failed)
    {
        let period = Delay::from_us(spec.period_us);
        let rest = jbof::wait_for_rest(clock.clone(), jbof.clone(), period);
        ran = match executor.run_cut(rest, polls_max) {
            Ok(RunOutcome::Ended(Ok(()))) => Ok(RunOutcome::Ended(LifeEvent::Ended)),
            Ok(RunOutcome::Ended(Err(failure))) => {
                powered[0].run.fail(failure);
                Ok(RunOutcome::Ended(LifeEvent::Ended))
            }
            Ok(RunOutcome::Cut) => Ok(RunOutcome::Cut),
            Err(stalled) => Err(stalled),
        };
    }
    let polls = clock.counters().polls;
    lives.push(polls);
    powered.iter().for_each(Powered::count);
    if let Ok(RunOutcome::Ended(_)) = ran {
        // A map tree that contradicts the actual locations would otherwise only show at a later look-up.
        let whole =
            powered.iter().filter(|powered| powered.life.bays.are_full() && powered.life.in_jbof.is_none());
        whole
            .for_each(|powered| powered.life.whole().layers().iter().for_each(|layer| layer.check_extents()));
    }
    let has_attached = life.has_attached();
    let end = match ran {
        Err(stalled) => return Err(Failure::new(Kind::Hang, format!("{stalled}"))),
        Ok(RunOutcome::Ended(LifeEvent::Ended)) => End::Done,
        Ok(RunOutcome::Ended(LifeEvent::Cycled)) => End::Cycled,
        Ok(RunOutcome::Ended(LifeEvent::Begun)) => {
            return Err(Failure::new(Kind::Plan, "an operation was begun twice"));
        }
        Ok(RunOutcome::Cut) if polls >= polls_max => {
            let whole = powered[0].life.whole();
            let layers = whole.layers();
            let counters: Vec<_> = layers.iter().map(|layer| layer.counters()).collect();
            let text = format!("{polls} polls are not enough: something goes on and on `{counters:?}`");
            return Err(Failure::new(Kind::Hang, text));
        }
        Ok(RunOutcome::Cut) => End::Cut,
    };
    // Only the first drive was shut down: its neighbors' power is cut.
    let is_cut = |number: usize| end != End::Cycled || number > 0;
    let left = powered.into_iter().enumerate();
    seats.extend(left.map(|(number, powered)| powered.power_off(lives.len(), is_cut(number))));
    jbof.iter().for_each(|jbof| jbof::power_off(jbof, seats));
    drop(life);
    drop(executor); // with all outstanding tasks, including the host's
    if end != End::Done {
        seats.iter().for_each(|seat| cut_power(&seat.run));
    }
    seats[0].run.count(|tally| match end {
        End::Cut => {
            tally.cuts += 1;
            tally.cuts_mounting += u64::from(!has_attached);
        }
        End::Cycled => tally.cycles += 1,
        End::Done => {}
    });
    Ok(end)
}
