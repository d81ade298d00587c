//! The points of light-weight NVMe-oF: random reads of 4 KiB by 1 to 32 jobs with one outstanding read each,
//! on a local drive and on one behind a target.

use crate::board::P4500;
use crate::point::{Job, Spec};

/// Numbers of jobs.
pub(super) const JOBS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// The largest number of jobs.
pub(super) const MOST: u32 = JOBS[JOBS.len() - 1];

/// Size of a read.
const BYTES: u64 = 4096;

/// Virtual time of a point per payload of other papers' points: 10,000 correspond to 100 ms. All jobs read
/// until the end, so that the load is constant.
const EACH_NS: u64 = 10_000;

/// Name of the jobs that share queue pairs.
pub(super) const REMOTE: &str = "remote";
pub(super) const LOCAL: &str = "local";

/// The systems that the paper compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    /// A local drive: the paper's NVMe.
    Local,
    /// A target with its block layer: the paper's NVMeoF.
    Block,
    /// A target that bypasses it: the paper's Bypass.
    Bypass,
}

impl System {
    pub(super) const ALL: [System; 3] = [System::Local, System::Block, System::Bypass];

    /// Name in figures.
    pub(super) const fn name(self) -> &'static str {
        match self {
            System::Local => "local",
            System::Block => "block layer",
            System::Bypass => "bypass",
        }
    }

    /// Reads by this number of jobs.
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

    /// Remote reads and writes together with those of a local application of the target, on the same queue
    /// pairs of the drive.
    pub(super) fn shared(self) -> Spec {
        let job = |name| Job::new(name, BYTES).mixes().workers(4).depth(8).timed(EACH_NS / 10);
        self.with(job(REMOTE)).job(job(LOCAL).at_target())
    }

    /// Reads for each number of jobs.
    pub(super) fn sweep(self) -> impl Iterator<Item = Spec> {
        JOBS.into_iter().map(move |jobs| self.reads(jobs))
    }
}
