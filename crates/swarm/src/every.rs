//! Cuts the power at every poll of a workload: writes, trims, flushes and all other commands, on a drive that is full enough for continuous
//! garbage collection.

use super::draw;
use super::failure::Failure;
use super::plan::{
    Anchor, BaseSpec, DriveSpec, Fault, HostSpec, KvSpec, NamespaceSpec, PartialSpec, Plan, PoliciesSpec,
    UpkeepSpec,
};
use super::swarm::run_caught;
use super::tally::Tally;
use byteway_clock::permutation::Permutation;
use byteway_defect::Planted;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which polls to cut at.
#[derive(Clone, Copy, Debug)]
pub struct Every {
    /// Seed of the workload.
    pub seed: u64,
    /// Number of operations in the workload.
    pub ops: usize,
    /// Distance of the cuts in polls; the seed determines the first one.
    pub step: u64,
    /// Number of threads.
    pub threads: usize,
}

/// Result.
#[derive(Clone, Debug)]
pub struct Cuts {
    /// Polls of the workload.
    pub polls: u64,
    /// Cuts planned: at every poll, or at every `step`th.
    pub wanted: u64,
    /// Cuts done.
    pub done: u64,
    /// Counts of all runs.
    pub tally: Tally,
    /// The first failure, with its plan.
    pub failure: Option<(Plan, Failure)>,
}

impl Every {
    /// The workload without cuts.
    pub fn plan(&self) -> Plan {
        let drive = DriveSpec {
            channels: 2,
            ways: 2,
            planes: 1,
            blocks: 10,
            pages: 8,
            page_bytes: 8192,
            bits: 2,
            base: BaseSpec::Steady,
            buffer_units: 8,
            protected: false,
            cost_benefit: false,
            policies: PoliciesSpec::default(),
            collect_start: 2,
            collect_reserve: 1,
            map_cache_pages: None,
            host_buffer_pages: None,
            wide_map: false,
            suspends: false,
            cache_read: false,
            data_out_first: false,
            checkpoint_units: 100,
            files: false,
            untimed: false,
            endpoints: 0,
            extents: None,
            absorbs_parts: None,
            read_cache_units: 0,
            in_turn: false,
            housekeeping_units: 0,
            rest_us: 0,
            partial: PartialSpec::default(),
            array: None,
            upkeep: UpkeepSpec::default(),
            kv: KvSpec::default(),
            programs: None,
            namespaces: vec![
                NamespaceSpec { units: 160, block: 4096, pairs: false, tables: false },
                NamespaceSpec { units: 100, block: 512, pairs: false, tables: false },
            ],
        };
        let host = HostSpec { depth: 8, queues: 2, entries: 16, interrupts: false };
        let mut plan = Plan {
            seed: self.seed,
            defect: Planted::none(),
            ops: Vec::new(),
            faults: Vec::new(),
            host,
            drive,
            neighbours: Vec::new(),
            jbof: None,
        };
        draw::shrink_to_fit(&mut plan);
        plan.ops = draw::busy_ops(self.seed, &plan, self.ops);
        plan
    }

    /// Runs the workload without a cut, then once for each cut, until `is_over` returns `true`. It is called before each run with the
    /// number of cuts done and planned. The seed scatters the order of the polls, so that a partial run is a sample of all polls.
    pub fn cut(&self, is_over: impl Fn(u64, u64) -> bool + Sync) -> Cuts {
        let plan = self.plan();
        let whole = run_caught(&plan);
        // The last life only verifies the content.
        let polls = whole.lives.first().copied().unwrap_or(0);
        if let Some(failure) = whole.failure {
            return Cuts { polls, wanted: 0, done: 0, tally: whole.tally, failure: Some((plan, failure)) };
        }
        let step = self.step.max(1);
        let offset = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % step;
        let wanted = polls.saturating_sub(offset).div_ceil(step);
        let order = Permutation::new(self.seed, wanted.max(1)).expect("a run has fewer than 2^40 polls");
        let next = AtomicU64::new(0);
        let done = AtomicU64::new(0);
        // A failure is stored with its position in the order, so that the first one does not depend on the number of threads.
        let state = Mutex::new((whole.tally, None::<(u64, Failure)>));
        let at = |place| offset + order.forward(place) * step;
        let with_cut = |at| {
            let at = Anchor { op: None, later: at };
            let cut = Fault::Cut { at, again: Vec::new(), blind: false, ends: true };
            Plan { faults: vec![cut], ..plan.clone() }
        };
        let work = || {
            loop {
                let has_failed = state.lock().expect("no thread panics with the lock held").1.is_some();
                if has_failed || is_over(done.load(Ordering::Relaxed), wanted) {
                    return;
                }
                let place = next.fetch_add(1, Ordering::Relaxed);
                if place >= wanted {
                    return;
                }
                let ended = run_caught(&with_cut(at(place)));
                done.fetch_add(1, Ordering::Relaxed);
                let mut state = state.lock().expect("no thread panics with the lock held");
                state.0 += ended.tally;
                if let Some(failure) = ended.failure
                    && state.1.as_ref().is_none_or(|(other, _)| place < *other)
                {
                    state.1 = Some((place, failure));
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads.max(1) {
                scope.spawn(work);
            }
            work();
        });
        let (tally, failure) = state.into_inner().expect("no thread panics with the lock held");
        let failure = failure.map(|(place, failure)| (with_cut(at(place)), failure));
        Cuts { polls, wanted, done: done.into_inner(), tally, failure }
    }
}
