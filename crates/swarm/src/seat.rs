//! State of a run while the power is off: each drive's persistent state and its host's expectations.

use super::drive;
use super::failure::Failure;
use super::kept::Kept;
use super::plan::{Fault, FlashVerb, PartialSpec, Plan};
use super::programs_oracle::ProgramsOracle;
use super::space::{Holds, Space};
use super::tally::Tally;
use byteway_content::BlockSize;
use byteway_device::DriveConfig;
use byteway_host::{BaseState, KvOracle, Oracle};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A change with unknown outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    Format { nsid: u32, lbaf: u8 },
    Create,
    Delete { nsid: u32 },
}

/// The host's state that persists across power cuts.
pub(super) struct Run {
    pub(super) plan: Plan,
    /// Index of the next operation.
    pub(super) next: Cell<usize>,
    pub(super) spaces: RefCell<Vec<Space>>,
    /// Expected state of local memory and programs, if any.
    pub(super) programs: Option<ProgramsOracle>,
    pub(super) tally: Cell<Tally>,
    pub(super) failure: RefCell<Option<Failure>>,
    /// Per fault, whether it has happened or is about to.
    pub(super) struck: RefCell<Vec<bool>>,
    /// The pending change of namespaces, if any.
    pub(super) pending: Cell<Option<Pending>>,
    /// Incremented with each change of `spaces`.
    pub(super) spaces_version: Cell<u64>,
    /// Tag of the next namespace's stamps.
    pub(super) next_tag: Cell<u16>,
    /// Upper bound (exclusive) of the key numbers of operations.
    pub(super) keys: u32,
    /// Whether any read may fail.
    pub(super) reads_fail: Cell<bool>,
}

impl Run {
    /// Expected content of a block namespace.
    pub(super) fn oracle(&self, blocks: u64, block: BlockSize, tag: u16, base: BaseState) -> Oracle {
        let mut oracle = Oracle::new(blocks, block, tag, base).with_power_cuts(self.plan.drive.protected);
        if self.reads_fail.get() {
            oracle.let_reads_fail();
        }
        oracle
    }

    /// Any read may fail from now on.
    pub(super) fn let_reads_fail(&self) {
        self.reads_fail.set(true);
        for space in self.spaces.borrow().iter() {
            if let Holds::Blocks(oracle) = &space.holds {
                oracle.borrow_mut().let_reads_fail();
            }
        }
    }

    /// Expected content of a new KV namespace.
    pub(super) fn pairs_oracle(&self, tag: u16) -> KvOracle {
        KvOracle::new(tag).with_power_cuts(self.plan.drive.protected)
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Tally)) {
        let mut tally = self.tally.get();
        change(&mut tally);
        self.tally.set(tally);
    }

    /// Records a failure. The first one counts: later ones may be consequences.
    pub(super) fn fail(&self, failure: Failure) {
        self.failure.borrow_mut().get_or_insert(failure);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }
}

impl Run {
    pub(super) fn new(plan: &Plan, is_first: bool) -> Rc<Run> {
        let fails = |fault: &Fault| matches!(fault, Fault::Flash { verb: FlashVerb::Read, .. });
        let of_runs = |is_so: bool| u64::from(is_first && is_so);
        let run = Rc::new(Run {
            next: Cell::new(0),
            spaces: RefCell::default(),
            programs: plan.drive.programs.map(|programs| {
                ProgramsOracle::new(plan.drive.namespaces.len() as u32, programs.memory_units * 4096)
            }),
            tally: Cell::new(Tally {
                runs: of_runs(true),
                in_files: of_runs(plan.drive.files),
                untimed: of_runs(plan.drive.untimed),
                hosted: of_runs(plan.drive.endpoints > 0),
                partial: of_runs(plan.drive.partial != PartialSpec::default()),
                arrays: of_runs(plan.drive.array.as_ref().is_some_and(|array| array.bridge.is_none())),
                bridges: of_runs(plan.drive.array.as_ref().is_some_and(|array| array.bridge.is_some())),
                jbofs: of_runs(plan.jbof.is_some()),
                with_extents: of_runs(plan.drive.extents.is_some()),
                with_pairs: of_runs(plan.drive.has_pairs()),
                with_tables: of_runs(plan.drive.has_tables()),
                with_programs: of_runs(plan.drive.programs.is_some()),
                neighbours: u64::from(!is_first),
                ..Tally::default()
            }),
            failure: RefCell::default(),
            struck: RefCell::new(vec![false; plan.faults.len()]),
            pending: Cell::default(),
            spaces_version: Cell::default(),
            next_tag: Cell::new(plan.drive.namespaces.len() as u16 + 1),
            keys: plan.keys(),
            reads_fail: Cell::new(plan.faults.iter().any(fails)),
            plan: plan.clone(),
        });
        for (nsid, namespace) in (1..).zip(&plan.drive.namespaces) {
            let block = drive::block(namespace.block);
            let blocks = namespace.units * block.per_unit() as u64;
            let holds = match (namespace.pairs, namespace.tables) {
                (true, _) => Holds::Pairs(Rc::new(RefCell::new(run.pairs_oracle(nsid as u16)))),
                (_, true) => Holds::Tables(Rc::default()),
                _ => {
                    let oracle = run.oracle(blocks, block, nsid as u16, drive::base(&plan.drive, nsid));
                    Holds::Blocks(Rc::new(RefCell::new(oracle)))
                }
            };
            run.spaces.borrow_mut().push(Space { nsid, holds });
        }
        run
    }

    /// Counts, including those of verified results.
    pub(super) fn tally(&self) -> Tally {
        let mut tally = self.tally.get();
        for space in self.spaces.borrow().iter() {
            match &space.holds {
                Holds::Blocks(oracle) => tally.blocks_verified += oracle.borrow().verified_blocks(),
                Holds::Pairs(oracle) => tally.pairs_verified += oracle.borrow().verified(),
                Holds::Tables(oracle) => tally.tables_verified += oracle.verified.get(),
            }
        }
        tally.programs_verified += self.programs.as_ref().map_or(0, |programs| programs.verified.get());
        tally
    }
}

/// A drive of a run and its host, without power.
pub(super) struct Seat {
    pub(super) run: Rc<Run>,
    pub(super) config: DriveConfig,
    pub(super) kept: Kept,
}

impl Seat {
    pub(super) fn new(plan: &Plan, is_first: bool) -> Result<Seat, Failure> {
        let config = drive::config(plan);
        let kept = Kept::new(plan, &config)?;
        Ok(Seat { run: Run::new(plan, is_first), config, kept })
    }

    /// The drive's configuration with the flash failures of a life. `lives` is the number of lives ended.
    pub(super) fn faulty(&self, lives: usize) -> DriveConfig {
        let mut faulty = self.config.clone();
        faulty.media.faults = drive::faults(&self.run.plan, lives);
        faulty
    }
}
