//! What there is of a run while the power is off: of each drive what is kept, and what its host remembers.

use super::drive;
use super::failure::Failure;
use super::kept::Kept;
use super::plan::{Fault, FlashVerb, PartialSpec, Plan};
use super::space::{Holds, Space};
use super::tally::Tally;
use byteway_device::DriveConfig;
use byteway_host::{BaseState, KvOracle, Oracle};
use byteway_wire::content::BlockSize;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A change of which it is not known yet whether it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    Format { nsid: u32, lbaf: u8 },
    Create,
    Delete { nsid: u32 },
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
    pub(super) reads_fail: Cell<bool>,
}

impl Run {
    /// What a namespace must hold.
    pub(super) fn oracle(&self, blocks: u64, block: BlockSize, tag: u16, base: BaseState) -> Oracle {
        let mut oracle = Oracle::new(blocks, block, tag, base).with_power_cuts(self.plan.drive.protected);
        if self.reads_fail.get() {
            oracle.let_reads_fail();
        }
        oracle
    }

    /// From now on every read may fail.
    pub(super) fn let_reads_fail(&self) {
        self.reads_fail.set(true);
        for space in self.spaces.borrow().iter() {
            if let Holds::Blocks(oracle) = &space.holds {
                oracle.borrow_mut().let_reads_fail();
            }
        }
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
            tally: Cell::new(Tally {
                runs: of_runs(true),
                in_files: of_runs(plan.drive.files),
                untimed: of_runs(plan.drive.untimed),
                hosted: of_runs(plan.drive.endpoints > 0),
                partial: of_runs(plan.drive.partial != PartialSpec::default()),
                arrays: of_runs(plan.drive.array.as_ref().is_some_and(|array| array.bridge.is_none())),
                bridges: of_runs(plan.drive.array.as_ref().is_some_and(|array| array.bridge.is_some())),
                boxes: of_runs(plan.jbof.is_some()),
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
            reads_fail: Cell::new(plan.faults.iter().any(fails)),
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
    pub(super) fn tally(&self) -> Tally {
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

/// A drive of a run and the host that works on it: what there is of them while the power is off.
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

    /// The drive, with the failures of flash that a life has; `lives` have ended.
    pub(super) fn faulty(&self, lives: usize) -> DriveConfig {
        let mut faulty = self.config.clone();
        faulty.media.faults = drive::faults(&self.run.plan, lives);
        faulty
    }
}
