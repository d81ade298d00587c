//! Runs a plan: a drive from one power-on to the next, and the host's memory of what it must hold, which outlives them.
//!
//! The medium is memory, or files of which a cut drops, tears and reorders what was not synced.
//!
//! Each *life* is an executor, a link, a drive on the medium that the life before has left, a driver, and workers that
//! take operations in order. A life ends with a power cut before a numbered poll, with an orderly shutdown, or when all
//! operations have ended. Then everything is flushed, the power is cut once more, and every block is read a last time.
//! Neighbour drives live in the same executor, and lose their power with the first one: each has a link, a host's work and an
//! oracle of its own, so that what one does to another shows.

use super::drive;
use super::failure::{Failure, Kind};
use super::life::{Life, Moment};
use super::plan::{Anchor, Fault, FlashVerb, PartialSpec, Plan};
use super::space::{Holds, Space};
use byteway_assembly::{Hosted, HostedError};
use byteway_clock::random::Rng;
use byteway_clock::{Clock, Executor, Owner, Ran, Timing};
use byteway_device::{ConfigError, Drive, DriveConfig};
use byteway_flash::file::{SimulatedFiles, Tuning};
use byteway_flash::{Flash, Medium};
use byteway_host::{BaseState, KvOracle, Oracle};
use byteway_wire::content::BlockSize;
use byteway_world::{PoweredDrive, World};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// A change of which nobody knows yet whether it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    Format { nsid: u32 },
    Create,
    Delete { nsid: u32 },
}

/// What a run did: so that one can see that a swarm does what it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Runs.
    pub runs: u64,
    /// Operations that were begun.
    pub ops: u64,
    /// Of those, how many ended with an error that a fault explains.
    pub ops_failed: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Of those, how many came before the driver had attached.
    pub cuts_mounting: u64,
    /// Orderly power cycles.
    pub cycles: u64,
    /// Controller resets.
    pub resets: u64,
    /// Aborts.
    pub aborts: u64,
    /// Interrupts that were lost.
    pub interrupts_lost: u64,
    /// Times that the link repeated itself.
    pub replays: u64,
    /// Programs and erases of flash that failed.
    pub flash_failures: u64,
    /// Units that reads of flash could not give.
    pub units_uncorrectable: u64,
    /// Superblocks that failed.
    pub blocks_retired: u64,
    /// Superblocks that were moved because they were little worn.
    pub blocks_levelled: u64,
    /// Superblocks that were moved because they were read too often, or old.
    pub blocks_refreshed: u64,
    /// Superblocks of a cache of one bit a cell that were emptied.
    pub blocks_folded: u64,
    /// Superblocks that were collected while the host was idle.
    pub blocks_collected_idle: u64,
    /// Translation pages that were not in DRAM.
    pub map_misses: u64,
    /// Runs whose drive was read-only in the end.
    pub ends_of_life: u64,
    /// Runs whose medium was in files.
    pub in_files: u64,
    /// Of the runs, those of drives whose firmware runs on the host.
    pub hosted: u64,
    /// Those of drives of which a part of the firmware runs on the host.
    pub partial: u64,
    /// Those of drives whose map is a tree of extents.
    pub with_extents: u64,
    /// Units of which parts waited in DRAM and were merged.
    pub parts_merged: u64,
    /// Runs in which modelled waits took no time.
    pub untimed: u64,
    /// Namespaces that were created.
    pub namespaces_created: u64,
    /// Namespaces that were deleted.
    pub namespaces_deleted: u64,
    /// Formats.
    pub formats: u64,
    /// Sanitize operations.
    pub sanitized: u64,
    /// Blocks that were read and verified.
    pub blocks_verified: u64,
    /// Runs with namespaces of pairs.
    pub with_pairs: u64,
    /// Pairs stored.
    pub pairs_stored: u64,
    /// Stores for which there was no room.
    pub pairs_refused: u64,
    /// Values, and answers to whether there is a key, that were verified.
    pub pairs_verified: u64,
    /// Merges of a store's index.
    pub pairs_merged: u64,
    /// Segments of a value log that were collected.
    pub pairs_collected: u64,
    /// Records of pairs that a recovery found.
    pub pairs_replayed: u64,
    /// Superblocks that were collected.
    pub blocks_collected: u64,
    /// Neighbour drives.
    pub neighbours: u64,
    /// Polls.
    pub polls: u64,
}

impl Tally {
    /// Adds another's.
    pub fn add(&mut self, other: &Tally) {
        let Tally {
            runs,
            ops,
            ops_failed,
            cuts,
            cuts_mounting,
            cycles,
            resets,
            aborts,
            interrupts_lost,
            replays,
            flash_failures,
            units_uncorrectable,
            blocks_retired,
            blocks_levelled,
            blocks_refreshed,
            blocks_folded,
            blocks_collected_idle,
            map_misses,
            ends_of_life,
            in_files,
            untimed,
            hosted,
            partial,
            with_extents,
            parts_merged,
            namespaces_created,
            namespaces_deleted,
            formats,
            sanitized,
            blocks_verified,
            with_pairs,
            pairs_stored,
            pairs_refused,
            pairs_verified,
            pairs_merged,
            pairs_collected,
            pairs_replayed,
            blocks_collected,
            neighbours,
            polls,
        } = other;
        self.runs += runs;
        self.ops += ops;
        self.ops_failed += ops_failed;
        self.cuts += cuts;
        self.cuts_mounting += cuts_mounting;
        self.cycles += cycles;
        self.resets += resets;
        self.aborts += aborts;
        self.interrupts_lost += interrupts_lost;
        self.replays += replays;
        self.flash_failures += flash_failures;
        self.units_uncorrectable += units_uncorrectable;
        self.blocks_retired += blocks_retired;
        self.blocks_levelled += blocks_levelled;
        self.blocks_refreshed += blocks_refreshed;
        self.blocks_folded += blocks_folded;
        self.blocks_collected_idle += blocks_collected_idle;
        self.map_misses += map_misses;
        self.ends_of_life += ends_of_life;
        self.in_files += in_files;
        self.untimed += untimed;
        self.hosted += hosted;
        self.partial += partial;
        self.with_extents += with_extents;
        self.parts_merged += parts_merged;
        self.namespaces_created += namespaces_created;
        self.namespaces_deleted += namespaces_deleted;
        self.formats += formats;
        self.sanitized += sanitized;
        self.blocks_verified += blocks_verified;
        self.with_pairs += with_pairs;
        self.pairs_stored += pairs_stored;
        self.pairs_refused += pairs_refused;
        self.pairs_verified += pairs_verified;
        self.pairs_merged += pairs_merged;
        self.pairs_collected += pairs_collected;
        self.pairs_replayed += pairs_replayed;
        self.blocks_collected += blocks_collected;
        self.neighbours += neighbours;
        self.polls += polls;
    }
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// What it did.
    pub tally: Tally,
    /// If it failed.
    pub failure: Option<Failure>,
    /// Polls of each life, the last one included.
    pub lives: Vec<u64>,
}

/// What outlives the power on the host's side.
pub(super) struct Run {
    pub(super) plan: Plan,
    /// The next operation.
    pub(super) next: Cell<usize>,
    pub(super) spaces: RefCell<Vec<Space>>,
    pub(super) tally: Cell<Tally>,
    pub(super) failure: RefCell<Option<Failure>>,
    /// Faults that have happened, or are about to.
    pub(super) struck: RefCell<Vec<bool>>,
    /// A change of namespaces whose outcome is not known.
    pub(super) pending: Cell<Option<Pending>>,
    /// Counts changes of `spaces`.
    pub(super) spaces_version: Cell<u64>,
    /// The tag of the next namespace's stamps.
    pub(super) next_tag: Cell<u16>,
    /// Keys that operations name have numbers below this.
    pub(super) keys: u32,
    /// Every read may fail.
    pub(super) reads_fail: bool,
}

impl Run {
    /// What a namespace must hold.
    pub(super) fn oracle(&self, blocks: u64, block: BlockSize, tag: u16, base: BaseState) -> Oracle {
        let mut oracle = Oracle::new(blocks, block, tag, base).with_power_cuts(self.plan.drive.protected);
        if self.reads_fail {
            oracle.let_reads_fail();
        }
        oracle
    }

    /// What a namespace of pairs must hold, which is new.
    pub(super) fn pairs_oracle(&self, tag: u16) -> KvOracle {
        KvOracle::new(tag).with_power_cuts(self.plan.drive.protected)
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Tally)) {
        let mut tally = self.tally.get();
        change(&mut tally);
        self.tally.set(tally);
    }

    /// The first failure counts: what follows may follow from it.
    pub(super) fn fail(&self, failure: Failure) {
        self.failure.borrow_mut().get_or_insert(failure);
    }

    fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }
}

/// When the power is to be cut.
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

/// A drive's medium while its power is off.
enum Kept {
    Memory(Vec<Medium>),
    Files(SimulatedFiles),
}

impl Kept {
    /// A new one.
    fn new(plan: &Plan, config: &DriveConfig) -> Result<Kept, Failure> {
        match plan.drive.files {
            true => Ok(Kept::Files(SimulatedFiles::new())),
            false => match drive::hosted(plan, config) {
                Some(hosted) => hosted.media(),
                None => Drive::medium(config).map(|medium| vec![medium]),
            }
            .map(Kept::Memory)
            .map_err(impossible),
        }
    }

    /// The medium, and the files that it is in.
    fn open(self, config: &DriveConfig) -> Result<(Medium, Option<SimulatedFiles>), Failure> {
        match self {
            Kept::Memory(mut media) => match media.pop() {
                Some(medium) => Ok((medium, None)),
                None => Err(Failure::new(Kind::Plan, "a drive has a medium")),
            },
            Kept::Files(files) => {
                let opened = Drive::open_medium_tuned(config, Arc::new(files.clone()), TUNING);
                // What a power cut leaves must be a medium.
                let (medium, _) = opened.map_err(|error| Failure::new(Kind::Data, error.to_string()))?;
                Ok((medium, Some(files)))
            }
        }
    }
}

fn impossible(error: ConfigError) -> Failure {
    Failure::new(Kind::Plan, error.to_string())
}

/// Checkpoints of a medium in files come often, for so small a drive.
const TUNING: Tuning = Tuning { image_units: 300, journal_bytes: 4000 };

/// Polls that a life may take beside those of its operations, and of each of those.
const POLLS_MAX: u64 = 1_000_000;
const POLLS_PER_OP_MAX: u64 = 20_000;

/// A drive of a run and the host that works on it: what there is of them while the power is off.
struct Seat {
    run: Rc<Run>,
    config: DriveConfig,
    medium: Kept,
}

impl Seat {
    fn new(plan: &Plan, is_first: bool) -> Result<Seat, Failure> {
        let config = drive::config(plan);
        let medium = Kept::new(plan, &config)?;
        Ok(Seat { run: Run::new(plan, is_first), config, medium })
    }

    /// The drive, with the failures of flash that a life has; `lives` have ended.
    fn faulty(&self, lives: usize) -> DriveConfig {
        let mut faulty = self.config.clone();
        faulty.media.faults = drive::faults(&self.run.plan, lives);
        faulty
    }
}

/// Drives whose firmware is put on the host, before anything else in a life.
#[derive(Default)]
struct Placing {
    /// The endpoints' drives of each, by its place among the seats.
    drives: Vec<(usize, Vec<Rc<Drive>>)>,
    hosted: Vec<Hosted>,
}

impl Placing {
    /// Gives power to the endpoints of the seats that have some, and takes their media; `lives` have ended.
    fn power_on(world: &World, clock: &Clock, seats: &mut [Seat], lives: usize) -> Result<Placing, Failure> {
        let mut placing = Placing::default();
        for (number, seat) in seats.iter_mut().enumerate() {
            let config = drive::hosted(&seat.run.plan, &seat.faulty(lives));
            if let (Some(config), Kept::Memory(media)) = (config, &mut seat.medium) {
                let media = Some(std::mem::take(media));
                let hosted = Hosted::power_on(clock, config, world.host.processors(), media);
                let hosted = hosted.map_err(impossible)?;
                placing.drives.push((number, hosted.drives().cloned().collect()));
                placing.hosted.push(hosted);
            }
        }
        Ok(placing)
    }

    /// Attaches to all of them, before poll `polls`: each with its place among the seats. None: the power was cut before.
    fn attach(&mut self, executor: &Executor, polls: u64) -> Result<Option<Vec<Placed>>, Failure> {
        if self.hosted.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let (hosted, mut places) =
            (std::mem::take(&mut self.hosted), self.drives.iter().map(|(place, _)| *place));
        let attaching = async move {
            let mut placed = Vec::new();
            for one in hosted {
                placed.push(one.attach().await);
            }
            placed
        };
        match executor.run_cut(attaching, polls) {
            Err(stalled) => Err(Failure::new(Kind::Hang, format!("while it attached: {stalled}"))),
            Ok(Ran::Cut) => Ok(None),
            Ok(Ran::Ended(placed)) => {
                let place = |placed: Result<PoweredDrive, HostedError>| match placed {
                    Ok(placed) => Ok(Placed { place: places.next().unwrap_or_default(), drive: placed }),
                    Err(error) => Err(Failure::new(Kind::Data, error.to_string())),
                };
                placed.into_iter().map(place).collect::<Result<_, _>>().map(Some)
            }
        }
    }

    /// The power has gone before drivers had attached: gives the media back.
    fn power_off(self, seats: &mut [Seat]) {
        for (place, drives) in self.drives {
            let media = drives.iter().filter_map(|drive| drive.power_off());
            seats[place].medium = Kept::Memory(media.collect());
        }
    }
}

/// A drive whose firmware runs on the host, and whose it is.
struct Placed {
    place: usize,
    drive: PoweredDrive,
}

impl Run {
    fn new(plan: &Plan, is_first: bool) -> Rc<Run> {
        let fails = |fault: &Fault| matches!(fault, Fault::Flash { verb: FlashVerb::Read, .. });
        let of_runs = |is_so: bool| u64::from(is_first && is_so);
        let run = Rc::new(Run {
            next: Cell::new(0),
            spaces: RefCell::default(),
            tally: Cell::new(Tally {
                runs: of_runs(true),
                in_files: of_runs(plan.drive.files),
                untimed: of_runs(plan.drive.untimed),
                hosted: of_runs(plan.drive.endpoints > 0),
                partial: of_runs(plan.drive.partial != PartialSpec::default()),
                with_extents: of_runs(plan.drive.extents.is_some()),
                with_pairs: of_runs(plan.drive.has_pairs()),
                neighbours: u64::from(!is_first),
                ..Tally::default()
            }),
            failure: RefCell::default(),
            struck: RefCell::new(vec![false; plan.faults.len()]),
            pending: Cell::default(),
            spaces_version: Cell::default(),
            next_tag: Cell::new(plan.drive.namespaces.len() as u16 + 1),
            keys: plan.keys(),
            reads_fail: plan.faults.iter().any(fails),
            plan: plan.clone(),
        });
        for (nsid, namespace) in (1..).zip(&plan.drive.namespaces) {
            let block = drive::block(namespace.block);
            let blocks = namespace.units * block.per_unit() as u64;
            let holds = match namespace.pairs {
                true => Holds::Pairs(Rc::new(RefCell::new(run.pairs_oracle(nsid as u16)))),
                false => {
                    let oracle = run.oracle(blocks, block, nsid as u16, drive::base(&plan.drive, nsid));
                    Holds::Blocks(Rc::new(RefCell::new(oracle)))
                }
            };
            run.spaces.borrow_mut().push(Space { nsid, holds });
        }
        run
    }

    /// What it did, with what was verified.
    fn tally(&self) -> Tally {
        let mut tally = self.tally.get();
        for space in self.spaces.borrow().iter() {
            match &space.holds {
                Holds::Blocks(oracle) => tally.blocks_verified += oracle.borrow().verified_blocks(),
                Holds::Pairs(oracle) => tally.pairs_verified += oracle.borrow().verified(),
            }
        }
        tally
    }
}

/// Runs a plan. A panic goes through.
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
    runs.iter().for_each(|run| tally.add(&run.tally()));
    // What was found in a drive comes before what followed from it.
    let found = runs.iter().enumerate().find_map(|(number, run)| {
        let failure = run.failure.take()?;
        Some(match number {
            0 => failure,
            neighbour => {
                Failure { text: format!("neighbour drive {neighbour}: {}", failure.text), ..failure }
            }
        })
    });
    Ended { tally, failure: found.or(ended), lives }
}

fn has_failed(seats: &[Seat]) -> bool {
    seats.iter().any(|seat| seat.run.has_failed())
}

/// One life after the other. The first drive's plan has the cuts.
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

/// What is durable must be there after a cut when nothing was under way.
fn last_look(seats: &mut Vec<Seat>, lives: &mut Vec<u64>) -> Result<(), Failure> {
    seats.iter().for_each(|seat| cut_power(&seat.run));
    live(seats, Cut::Never, true, lives).map(drop)
}

/// The next cut in the order of the plan, of those that can still be.
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
}

/// A drive with power.
struct Powered {
    run: Rc<Run>,
    config: DriveConfig,
    drive: Rc<Drive>,
    arrays: Vec<Flash>,
    files: Option<SimulatedFiles>,
    life: Rc<Life>,
}

impl Powered {
    /// The drive of a seat, as the next of a world, or the one whose firmware was `placed` on the host; `lives` have ended.
    fn on(
        (world, clock): (&mut World, &Clock),
        seat: Seat,
        placed: Option<PoweredDrive>,
        (watched, looks): (Option<usize>, bool),
        lives: usize,
    ) -> Result<Powered, Failure> {
        let faulty = seat.faulty(lives);
        let Seat { run, config, medium } = seat;
        let mut files = None;
        let powered = match placed {
            Some(placed) => world.hold(None, placed),
            None => {
                let (medium, in_files) = medium.open(&faulty)?;
                files = in_files;
                let clock = clock.owned_by(Owner(world.drives().len() as u16));
                let processors = world.host.processors();
                let powered = drive::power_on(&clock, &run.plan.drive, faulty, processors, Some(medium));
                world.hold(None, powered.map_err(impossible)?)
            }
        };
        let (host, drive) = (powered.host.clone(), powered.drive.clone());
        let arrays = powered.arrays().into_iter().cloned().collect();
        let clock = host.clock().clone();
        let life = Life::begin(&clock, run.clone(), host, drive.clone(), watched, looks);
        Ok(Powered { run, config, drive, arrays, files, life })
    }

    fn count(&self) {
        self.run.count(|tally| {
            let ftl = self.drive.controller.ftl();
            let counters = ftl.counters();
            tally.blocks_collected += counters.blocks_collected;
            tally.blocks_collected_idle += counters.blocks_collected_idle;
            tally.blocks_retired += counters.blocks_retired;
            tally.blocks_levelled += counters.blocks_levelled;
            tally.blocks_refreshed += counters.blocks_refreshed;
            tally.blocks_folded += counters.blocks_folded;
            tally.map_misses += counters.map_misses;
            tally.parts_merged += counters.parts_merged;
            tally.ends_of_life = u64::from(ftl.health().is_read_only);
            for flash in &self.arrays {
                let flash = flash.counters();
                tally.flash_failures += flash.failed_programs + flash.failed_erases;
                tally.units_uncorrectable += flash.units_uncorrectable;
            }
            self.drive.controller.each_pairs(|pairs| {
                let counters = pairs.counters();
                tally.pairs_stored += counters.values_stored;
                tally.pairs_merged += counters.compactions;
                tally.pairs_collected += counters.collections;
                tally.pairs_replayed += counters.records_replayed;
            });
        });
    }

    /// What a power cut leaves of the files that the medium is in, if it is in files; `lives` have been begun.
    fn cut_files(&self, lives: usize) -> Option<SimulatedFiles> {
        let chance = || Rng::new(self.run.plan.seed).stream(&format!("files-{lives}")).next_u64();
        self.files.as_ref().map(|files| files.cut(chance()))
    }
}

/// From one power-on to the end of the power, which is cut at `cut`. `looks`: every block is read first. The first drive's work
/// decides how a life ends; if it is done, that of the others is waited for.
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
    let mut world = World::new(&clock, 1);
    let mut placing = Placing::power_on(&world, &clock, seats, lives.len())?;
    let Some(mut placed) = placing.attach(&executor, first)? else {
        let polls = clock.counters().polls;
        lives.push(polls);
        if polls >= polls_max {
            return Err(Failure::new(Kind::Hang, format!("{polls} polls are not enough to attach")));
        }
        placing.power_off(seats);
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
        let own = own.map(|index| placed.swap_remove(index).drive);
        powered.push(Powered::on((&mut world, &clock), seat, own, (watched, looks), lives.len())?);
    }
    let life = powered[0].life.clone();
    let mut ran = executor.run_cut(life.clone().next_moment(), first);
    if let (Ok(Ran::Ended(Moment::Begun)), Cut::At(anchor)) = (&ran, cut) {
        let at = clock.counters().polls.saturating_add(anchor.later).min(polls_max);
        ran = executor.run_cut(life.clone().next_moment(), at);
    }
    for other in &powered[1..] {
        if let Ok(Ran::Ended(Moment::Ended)) = ran {
            ran = executor.run_cut(other.life.clone().next_moment(), polls_max);
        }
    }
    let polls = clock.counters().polls;
    lives.push(polls);
    powered.iter().for_each(Powered::count);
    if let Ok(Ran::Ended(_)) = ran {
        // A tree that had come to differ from the places of units would be taken for the truth by a later look-up only.
        powered.iter().for_each(|powered| powered.drive.controller.ftl().check_extents());
    }
    let has_attached = life.has_attached();
    let end = match ran {
        Err(stalled) => return Err(Failure::new(Kind::Hang, format!("{stalled}"))),
        Ok(Ran::Ended(Moment::Ended)) => End::Done,
        Ok(Ran::Ended(Moment::Cycled)) => End::Cycled,
        Ok(Ran::Ended(Moment::Begun)) => {
            return Err(Failure::new(Kind::Plan, "an operation was begun twice"));
        }
        Ok(Ran::Cut) if polls >= polls_max => {
            let counters = powered[0].drive.controller.ftl().counters();
            let text = format!("{polls} polls are not enough: something goes on and on `{counters:?}`");
            return Err(Failure::new(Kind::Hang, text));
        }
        Ok(Ran::Cut) => End::Cut,
    };
    let files: Vec<_> = powered.iter().map(|powered| powered.cut_files(lives.len())).collect();
    for ((powered, files), media) in powered.into_iter().zip(files).zip(world.power_off()) {
        let Powered { run, config, .. } = powered;
        let medium = match files {
            Some(files) => Kept::Files(files),
            None => Kept::Memory(media),
        };
        seats.push(Seat { run, config, medium });
    }
    drop(life);
    drop(executor); // with everything that was under way, the host's side too
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
