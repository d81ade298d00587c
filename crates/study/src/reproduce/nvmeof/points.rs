//! The points of light-weight NVMe-oF: random reads of 4 KiB by 1 to 32 jobs, each of which has one read in flight, on a drive of
//! the host's own and on one behind a target.

use crate::reproduce::board::P4500;
use crate::reproduce::point::{Job, Spec};

/// Numbers of jobs.
pub(super) const JOBS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// The most jobs.
pub(super) const MOST: u32 = JOBS[JOBS.len() - 1];

/// Size of a read.
const BYTES: u64 = 4096;

/// Virtual time of a point for each payload that points of other papers have: 10,000 come to 100 ms. All jobs read to the end,
/// so that none is alone there.
const EACH_NS: u64 = 10_000;

/// The jobs that share queue pairs.
pub(super) const REMOTE: &str = "remote";
pub(super) const LOCAL: &str = "local";

/// What the paper compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    /// The host's own drive: the paper's NVMe.
    Local,
    /// A target that goes through its block layer: the paper's NVMeoF.
    Block,
    /// A target that goes past it: the paper's Bypass.
    Bypass,
}

impl System {
    pub(super) const ALL: [System; 3] = [System::Local, System::Block, System::Bypass];

    /// Its name in figures.
    pub(super) const fn name(self) -> &'static str {
        match self {
            System::Local => "local",
            System::Block => "block layer",
            System::Bypass => "bypass",
        }
    }

    /// Reads by so many jobs.
    pub(super) fn reads(self, jobs: u32) -> Spec {
        self.with(Job::new("reads", BYTES).reads().workers(jobs).timed(EACH_NS))
    }

    fn with(self, job: Job) -> Spec {
        let spec = match self {
            System::Local => P4500.block(),
            System::Block => P4500.behind("block"),
            System::Bypass => P4500.behind("bypass"),
        };
        spec.job(job)
    }

    /// A host's reads and writes beside those of an application of the target's, on the same queue pairs of the drive's.
    pub(super) fn shared(self) -> Spec {
        let job = |name| Job::new(name, BYTES).mixes().workers(4).depth(8).timed(EACH_NS / 10);
        self.with(job(REMOTE)).job(job(LOCAL).at_target())
    }

    /// The same by each number of jobs.
    pub(super) fn sweep(self) -> impl Iterator<Item = Spec> {
        JOBS.into_iter().map(move |jobs| self.reads(jobs))
    }
}
