//! Shrinks a failing plan: fewer operations and faults, a simpler host and drive, an earlier cut. Each step is a run, and is kept if the
//! failure is the same.

use super::failure::Failure;
use super::plan::{ArraySpec, Fault, JbofSpec, KvSpec, LevelSpec, NEIGHBOURS_MAX, Op, PartialSpec, Plan};

/// A shrunk plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Shrunken {
    /// The smallest plan found.
    pub plan: Plan,
    /// Failure of the plan.
    pub failure: Failure,
    /// Number of runs needed.
    pub runs: u64,
}

/// Shrinks `plan`, which fails with `failure`. `run` runs a plan, at most `runs_max` times.
pub fn shrink(
    plan: &Plan,
    failure: &Failure,
    runs_max: u64,
    run: impl FnMut(&Plan) -> Option<Failure>,
) -> Shrunken {
    let (plan, failure) = (plan.clone(), failure.clone());
    let mut search = Search { best: plan, first: failure.clone(), failure, runs: 0, runs_max, run };
    loop {
        let runs = search.runs;
        let size = size(&search.best);
        search.cut_tail();
        search.drop_faults();
        search.drop_ops();
        search.simplify();
        search.drop_ops();
        search.soften_faults();
        let is_smaller = self::size(&search.best) < size;
        if !is_smaller || search.runs >= runs_max || search.runs == runs {
            break;
        }
    }
    Shrunken { plan: search.best, failure: search.failure, runs: search.runs }
}

/// Size of a plan; compared lexicographically.
fn size(plan: &Plan) -> (usize, usize, u64, u64) {
    let text = plan.to_toml().len() as u64;
    let later = plan.faults.iter().map(|fault| fault.anchor().map_or(0, |at| at.later)).sum();
    (plan.faults.len(), plan.ops.len(), text, later)
}

struct Search<F> {
    best: Plan,
    first: Failure,
    failure: Failure,
    runs: u64,
    runs_max: u64,
    run: F,
}

impl<F: FnMut(&Plan) -> Option<Failure>> Search<F> {
    /// Keeps a plan if it fails in the same way.
    fn try_plan(&mut self, plan: Plan) -> bool {
        if self.runs >= self.runs_max || plan == self.best {
            return false;
        }
        self.runs += 1;
        match (self.run)(&plan) {
            Some(failure) if failure.is_like(&self.first) => {
                (self.best, self.failure) = (plan, failure);
                true
            }
            _ => false,
        }
    }

    /// Applies `change` to the best plan, and keeps the result if it fails in the same way.
    fn try_change(&mut self, change: impl FnOnce(&mut Plan)) -> bool {
        let mut plan = self.best.clone();
        change(&mut plan);
        self.try_plan(plan)
    }

    /// Removes the operations after the last fault, which rarely matter.
    fn cut_tail(&mut self) {
        let mut keep = 1;
        while keep < self.best.ops.len() {
            let count = self.best.ops.len();
            if self.try_plan(self.best.without_ops(keep..count)) {
                return;
            }
            keep *= 2;
        }
    }

    /// Removes operations, first half of them at a time and finally one.
    fn drop_ops(&mut self) {
        let mut chunk = self.best.ops.len().div_ceil(2).max(1);
        loop {
            let mut at = 0;
            while at < self.best.ops.len() {
                let end = (at + chunk).min(self.best.ops.len());
                if !self.try_plan(self.best.without_ops(at..end)) {
                    at = end;
                }
            }
            if chunk == 1 || self.runs >= self.runs_max {
                return;
            }
            chunk = chunk.div_ceil(2);
        }
    }

    fn drop_faults(&mut self) {
        let mut at = 0;
        while at < self.best.faults.len() {
            if !self.try_change(|plan| drop(plan.faults.remove(at))) {
                at += 1;
            }
        }
    }

    /// Removes other drives, and simplifies host, drive and operations.
    fn simplify(&mut self) {
        self.try_change(|plan| {
            plan.jbof = None;
            plan.neighbours.truncate(NEIGHBOURS_MAX);
            let all = std::iter::once(&mut plan.faults)
                .chain(plan.neighbours.iter_mut().map(|plan| &mut plan.faults));
            all.for_each(|faults| faults.retain(|fault| !fault.is_of_a_jbof()));
        });
        if let Some(spec) = self.best.jbof.clone() {
            for simpler in [
                JbofSpec { weighted: false, ..spec.clone() },
                JbofSpec { dram: false, ..spec.clone() },
                JbofSpec { loans: 1, ..spec.clone() },
                JbofSpec { entries: 64, ..spec },
            ] {
                self.try_change(|plan| plan.jbof = Some(simpler));
            }
        }
        self.try_change(|plan| plan.neighbours.clear());
        for number in (0..self.best.neighbours.len()).rev() {
            if self.try_change(|plan| drop(plan.neighbours.remove(number))) {
                continue;
            }
            self.try_change(|plan| plan.neighbours[number].faults.clear());
            for at in (0..self.best.neighbours[number].faults.len()).rev() {
                self.try_change(|plan| drop(plan.neighbours[number].faults.remove(at)));
            }
            let ops = self.best.neighbours[number].ops.len();
            for keep in
                std::iter::successors(Some(0), |keep| Some((keep * 2).max(1))).take_while(|keep| *keep < ops)
            {
                if self.try_change(|plan| {
                    plan.neighbours[number] = plan.neighbours[number].without_ops(keep..ops)
                }) {
                    break;
                }
            }
        }
        for depth in [1, 2, 4, 8] {
            if depth < self.best.host.depth && self.try_change(|plan| plan.host.depth = depth) {
                break;
            }
        }
        self.try_change(|plan| plan.host.queues = 1);
        self.try_change(|plan| plan.host.interrupts = false);
        self.try_change(|plan| plan.host.entries = 64);
        self.try_change(|plan| plan.drive.base = Default::default());
        self.try_change(|plan| plan.drive.cost_benefit = false);
        self.try_change(|plan| plan.drive.policies = Default::default());
        self.try_change(|plan| plan.drive.policies.victim = None);
        self.try_change(|plan| plan.drive.policies.streams = None);
        self.try_change(|plan| plan.drive.policies.schedule = None);
        self.try_change(|plan| plan.drive.policies.suspend = None);
        self.try_change(|plan| plan.drive.policies.admission = None);
        self.try_change(|plan| plan.drive.policies.prefetch = None);
        self.try_change(|plan| plan.drive.endpoints = 0);
        self.try_change(|plan| plan.drive.endpoints = plan.drive.endpoints.min(1));
        self.try_change(|plan| plan.drive.partial = PartialSpec::default());
        self.try_change(|plan| plan.drive.partial.map = false);
        self.try_change(|plan| plan.drive.partial.collection = false);
        self.try_change(|plan| {
            plan.drive.array = None;
            plan.faults.retain(|fault| !matches!(fault, Fault::Unplug { .. }));
        });
        self.try_array(|array| array.bridge = None);
        self.try_array(|array| array.spares = 0);
        self.try_array(|array| array.collects_together = false);
        self.try_array(|array| array.members = if array.level == LevelSpec::Raid5 { 3 } else { 2 });
        self.try_array(|array| array.chunk_units = 1);
        self.try_array(|array| array.clean_us = 1_000_000);
        self.try_change(|plan| plan.drive.extents = None);
        self.try_change(|plan| plan.drive.absorbs_parts = None);
        self.try_change(|plan| plan.drive.in_turn = false);
        self.try_change(|plan| plan.drive.housekeeping_units = 0);
        self.try_change(|plan| plan.drive.rest_us = 0);
        self.try_change(|plan| {
            plan.drive.read_cache_units = 0;
            (plan.drive.policies.admission, plan.drive.policies.prefetch) = (None, None);
        });
        self.try_change(|plan| plan.drive.host_buffer_pages = None);
        self.try_change(|plan| {
            plan.drive.map_cache_pages = None;
            plan.drive.host_buffer_pages = None;
        });
        self.try_change(|plan| plan.drive.wide_map = false);
        self.try_change(|plan| plan.drive.files = false);
        self.try_change(|plan| {
            plan.drive.untimed = false;
            plan.neighbours.iter_mut().for_each(|plan| plan.drive.untimed = false);
        });
        self.try_change(|plan| plan.drive.upkeep = Default::default());
        self.try_change(|plan| plan.drive.upkeep.factory_bad_blocks = 0);
        self.try_change(|plan| plan.drive.upkeep.spare_blocks = 0);
        self.try_change(|plan| plan.drive.upkeep.slc_blocks = 0);
        self.try_change(|plan| plan.drive.upkeep.slc_dynamic = 0);
        self.try_change(|plan| plan.drive.upkeep.slc_folds_idle = false);
        self.try_change(|plan| plan.drive.upkeep.static_spread = None);
        self.try_change(|plan| plan.drive.upkeep.refresh = None);
        self.try_change(|plan| plan.drive.upkeep.idle = None);
        self.try_change(|plan| plan.drive.suspends = false);
        self.try_change(|plan| plan.drive.cache_read = false);
        self.try_change(|plan| plan.drive.data_out_first = false);
        self.try_change(|plan| plan.drive.checkpoint_units = 0);
        self.try_change(|plan| plan.drive.protected = false);
        self.try_change(|plan| plan.drive.channels = 1);
        self.try_change(|plan| plan.drive.ways = 1);
        self.try_change(|plan| plan.drive.planes = 1);
        self.try_change(|plan| plan.drive.programs = None);
        self.try_change(|plan| plan.drive.namespaces.truncate(1));
        self.try_change(|plan| plan.drive.namespaces.retain(|namespace| namespace.pairs || namespace.tables));
        self.try_change(|plan| {
            plan.drive.namespaces.retain(|namespace| !namespace.pairs && !namespace.tables)
        });
        let segment_units = self.best.drive.kv.segment_units;
        self.try_change(|plan| plan.drive.kv = KvSpec { segment_units, ..KvSpec::default() });
        self.try_change(|plan| plan.drive.kv.packing = Default::default());
        for index in 0..self.best.ops.len() {
            self.simplify_op(index);
        }
    }

    /// Applies a change to the array, if any.
    fn try_array(&mut self, change: impl FnOnce(&mut ArraySpec)) {
        self.try_change(|plan| {
            if let Some(array) = &mut plan.drive.array {
                change(array);
            }
        });
    }

    fn simplify_op(&mut self, index: usize) {
        let Some(op) = self.best.ops.get(index).cloned() else { return };
        match op {
            Op::Write { namespace, extent, fua } if extent.blocks > 1 => {
                let extent = super::plan::Extent { blocks: 1, ..extent };
                self.try_change(|plan| plan.ops[index] = Op::Write { namespace, extent, fua });
            }
            Op::Store { namespace, key, bytes, when } if bytes > 1 => {
                for bytes in [1, 100, bytes / 2] {
                    self.try_change(|plan| plan.ops[index] = Op::Store { namespace, key, bytes, when });
                }
            }
            Op::Trim { namespace, extents } if extents.len() > 1 => {
                let extents = extents[..1].to_vec();
                self.try_change(|plan| plan.ops[index] = Op::Trim { namespace, extents });
            }
            _ => {}
        }
    }

    /// Makes cuts earlier and fewer.
    fn soften_faults(&mut self) {
        for index in 0..self.best.faults.len() {
            let again = match &self.best.faults[index] {
                Fault::Cut { again, .. } => again.len(),
                _ => 0,
            };
            for at in (0..again).rev() {
                self.try_change(|plan| {
                    if let Fault::Cut { again, .. } = &mut plan.faults[index] {
                        again.remove(at);
                    }
                });
            }
            self.try_change(|plan| {
                if let Fault::Unplug { returns, .. } = &mut plan.faults[index] {
                    *returns = true;
                }
            });
            self.try_change(|plan| {
                if let Fault::Unplug { with_power, .. } = &mut plan.faults[index] {
                    *with_power = false;
                }
            });
            self.try_change(|plan| {
                if let Fault::Cut { blind, .. } = &mut plan.faults[index] {
                    *blind = false;
                }
            });
            // Halves, then decrements: earlier failures are easier to follow.
            while let Some(later) =
                self.best.faults[index].anchor().map(|at| at.later).filter(|later| *later > 0)
            {
                let set = |later| {
                    move |plan: &mut Plan| {
                        if let Some(at) = plan.faults[index].anchor_mut() {
                            at.later = later;
                        }
                    }
                };
                if !self.try_change(set(later / 2)) && !self.try_change(set(later - 1)) {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::draw::draw;
    use super::super::failure::Kind;
    use super::*;

    // The cause of a failure among hundreds of operations is hard to find.
    #[test]
    fn what_does_not_matter_goes() {
        let fails = |plan: &Plan| {
            let flush = plan.ops.iter().position(|op| matches!(op, Op::Flush { .. }))?;
            let write = plan.ops.iter().rposition(|op| matches!(op, Op::Write { .. }))?;
            (flush < write).then(|| Failure::new(Kind::Data, format!("{} operations", plan.ops.len())))
        };
        let (plan, failure) = (0..)
            .find_map(|index| {
                let plan = draw(1, index);
                fails(&plan)
                    .filter(|_| plan.ops.len() > 100 && plan.faults.len() > 2)
                    .map(|failure| (plan, failure))
            })
            .unwrap();
        let shrunken = shrink(&plan, &failure, 10_000, fails);
        assert_eq!(shrunken.failure.text, "2 operations");
        assert_eq!(shrunken.plan.ops.len(), 2);
        assert!(shrunken.plan.faults.is_empty());
        let Plan { host, drive, .. } = &shrunken.plan;
        assert_eq!((host.depth, host.queues, drive.channels, drive.ways), (1, 1, 1, 1));
    }

    // Following a failure of another kind would lose the original one.
    #[test]
    fn another_failure_is_not_followed() {
        let plan = draw(1, 0);
        let failure = Failure::new(Kind::Data, "");
        let other = |plan: &Plan| {
            let kind = if plan.ops.len() > 30 { Kind::Data } else { Kind::Panic };
            Some(Failure::new(kind, ""))
        };
        assert_eq!(shrink(&plan, &failure, 10_000, other).plan.ops.len(), 31);
        assert_eq!(shrink(&plan, &failure, 0, other).plan, plan);
    }
}
