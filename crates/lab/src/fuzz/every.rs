//! A power cut at every poll of one workload: writes, trims, flushes and all else on a drive so full that its collector
//! is always at work.

use super::draw;
use super::failure::Failure;
use super::plan::{Anchor, BaseSpec, DriveSpec, Fault, HostSpec, KvSpec, NamespaceSpec, Plan, UpkeepSpec};
use super::rig::Tally;
use super::swarm::run_caught;
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
            suspends: false,
            cache_read: false,
            checkpoint_units: 100,
            canary: None,
            files: false,
            upkeep: UpkeepSpec::default(),
            kv: KvSpec::default(),
            namespaces: vec![
                NamespaceSpec { units: 160, block: 4096, pairs: false },
                NamespaceSpec { units: 100, block: 512, pairs: false },
            ],
        };
        let host = HostSpec { depth: 8, queues: 2, entries: 16, interrupts: false };
        let mut plan = Plan { seed: self.seed, ops: Vec::new(), faults: Vec::new(), host, drive };
        draw::shrink_to_fit(&mut plan);
        plan.ops = draw::busy_ops(self.seed, &plan, self.ops);
        plan
    }

    /// Runs the workload once whole, and then once for each cut. `progress` hears how many polls are done of how many.
    pub fn cut(&self, progress: impl Fn(u64, u64) + Sync) -> Cuts {
        let plan = self.plan();
        let whole = run_caught(&plan);
        // The last life only looks whether all is there.
        let polls = whole.lives.first().copied().unwrap_or(0);
        if let Some(failure) = whole.failure {
            return Cuts { polls, tally: whole.tally, failure: Some((plan, failure)) };
        }
        let offset = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % self.step.max(1);
        let next = AtomicU64::new(offset);
        let state = Mutex::new((whole.tally, None::<(u64, Failure)>));
        let with_cut = |at| {
            let at = Anchor { op: None, later: at };
            let cut = Fault::Cut { at, again: Vec::new(), blind: false, ends: true };
            Plan { faults: vec![cut], ..plan.clone() }
        };
        let work = || {
            loop {
                let at = next.fetch_add(self.step.max(1), Ordering::Relaxed);
                let has_failed = state.lock().expect("nobody panics with it").1.is_some();
                if at >= polls || has_failed {
                    return;
                }
                let ended = run_caught(&with_cut(at));
                let mut state = state.lock().expect("nobody panics with it");
                state.0.add(&ended.tally);
                if let Some(failure) = ended.failure
                    && state.1.as_ref().is_none_or(|(other, _)| at < *other)
                {
                    state.1 = Some((at, failure));
                }
                drop(state);
                progress(at, polls);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads.max(1) {
                scope.spawn(work);
            }
            work();
        });
        let (tally, failure) = state.into_inner().expect("nobody panics with it");
        Cuts { polls, tally, failure: failure.map(|(at, failure)| (with_cut(at), failure)) }
    }
}
