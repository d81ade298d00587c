//! A power cut at every poll of one workload: writes, trims, flushes and all else on a drive so full that its collector
//! is always at work.

use super::draw;
use super::failure::Failure;
use super::plan::{
    Anchor, BaseSpec, DriveSpec, Fault, HostSpec, KvSpec, NamespaceSpec, PartialSpec, Plan, UpkeepSpec,
};
use super::swarm::run_caught;
use super::tally::Tally;
use byteway_clock::permutation::Permutation;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which polls.
#[derive(Clone, Copy, Debug)]
pub struct Every {
    /// Seed of the workload.
    pub seed: u64,
    /// Operations of it.
    pub ops: usize,
    /// Every so many polls, from a poll on that follows from the seed.
    pub step: u64,
    /// At once.
    pub threads: usize,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Cuts {
    /// Polls of the workload.
    pub polls: u64,
    /// Of them, those that were to be cut at: every one, or every so many.
    pub wanted: u64,
    /// Of those, those that were cut at.
    pub done: u64,
    /// Of all runs.
    pub tally: Tally,
    /// The first failure, with the plan that has it.
    pub failure: Option<(Plan, Failure)>,
}

impl Every {
    /// The workload, without a cut.
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
            collect_start: 2,
            collect_reserve: 1,
            map_cache_pages: None,
            host_buffer_pages: None,
            wide_map: false,
            suspends: false,
            cache_read: false,
            data_out_first: false,
            checkpoint_units: 100,
            canary: None,
            files: false,
            untimed: false,
            endpoints: 0,
            extents: None,
            absorbs_parts: None,
            read_cache_units: 0,
            partial: PartialSpec::default(),
            array: None,
            upkeep: UpkeepSpec::default(),
            kv: KvSpec::default(),
            namespaces: vec![
                NamespaceSpec { units: 160, block: 4096, pairs: false },
                NamespaceSpec { units: 100, block: 512, pairs: false },
            ],
        };
        let host = HostSpec { depth: 8, queues: 2, entries: 16, interrupts: false };
        let mut plan = Plan {
            seed: self.seed,
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

    /// Runs the workload once whole, and then once for each cut, until `is_over` says so, which is asked before each run
    /// with how many cuts are done of how many. The polls are taken in an order that the seed scatters, so that those
    /// that were done stand for all.
    pub fn cut(&self, is_over: impl Fn(u64, u64) -> bool + Sync) -> Cuts {
        let plan = self.plan();
        let whole = run_caught(&plan);
        // The last life only looks whether all is there.
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
        // A failure is kept with its place in the order: the first does not depend on the number of threads.
        let state = Mutex::new((whole.tally, None::<(u64, Failure)>));
        let at = |place| offset + order.forward(place) * step;
        let with_cut = |at| {
            let at = Anchor { op: None, later: at };
            let cut = Fault::Cut { at, again: Vec::new(), blind: false, ends: true };
            Plan { faults: vec![cut], ..plan.clone() }
        };
        let work = || {
            loop {
                let has_failed = state.lock().expect("nobody panics with it").1.is_some();
                if has_failed || is_over(done.load(Ordering::Relaxed), wanted) {
                    return;
                }
                let place = next.fetch_add(1, Ordering::Relaxed);
                if place >= wanted {
                    return;
                }
                let ended = run_caught(&with_cut(at(place)));
                done.fetch_add(1, Ordering::Relaxed);
                let mut state = state.lock().expect("nobody panics with it");
                state.0.add(&ended.tally);
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
        let (tally, failure) = state.into_inner().expect("nobody panics with it");
        let failure = failure.map(|(place, failure)| (with_cut(at(place)), failure));
        Cuts { polls, wanted, done: done.into_inner(), tally, failure }
    }
}
