//! Finds the payload sizes up to which a method is better than another, to the byte, by runs between the
//! sizes of the comparison.
//!
//! Between two neighbouring sizes with different leaders, the lead is assumed to change once, and the size is
//! found by bisection. Each probe is a run of the same scenario with another size and at most [`PROBE_IOS`]
//! I/Os.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::finding::fact::{Fact, Finding, FindingInput, without};
use super::plan::{Plan, Planned};
use super::reach::Reach;
use super::vary::{Axis, Scale};
use byteway_results::RunResult;
use byteway_results::figures::{Figures, Metric, equal, is_fallback};
use byteway_scenario::Scenario;
use byteway_text::table::{grouped, time};
use byteway_transfer::Method;
use byteway_workload::{JobPlan, Source, Synthetic};

/// I/Os of a probe.
const PROBE_IOS: u64 = 500;

/// Whether a key is the transfer method.
pub(super) fn is_method(axis: &Axis) -> bool {
    axis.paths == ["transfer.method"]
}

/// Whether a key is the payload size.
fn is_size(axis: &Axis) -> bool {
    axis.scale == Scale::Numbers("B".to_owned())
        && axis.paths.iter().all(|path| path.starts_with("job.") && path.ends_with(".bs"))
}

/// The scenario with few payloads of `bytes`; `None` if its jobs have no single size.
pub fn with_payload(scenario: &Scenario, bytes: u32) -> Option<Scenario> {
    let mut scenario = scenario.clone();
    for JobPlan { settings, source } in &mut scenario.jobs {
        let Source::Synthetic(synthetic) = source else { return None };
        synthetic.lengths.fixed(synthetic.rw)?;
        let most = u64::from(settings.transfer_blocks_max).min(settings.range_blocks);
        let blocks = bytes / settings.lba_bytes;
        if blocks == 0 || !bytes.is_multiple_of(settings.lba_bytes) || u64::from(blocks) > most {
            return None;
        }
        synthetic.lengths = Synthetic::fixed(synthetic.rw, blocks).lengths;
        settings.count = Some(settings.count.unwrap_or(PROBE_IOS).min(PROBE_IOS));
        (settings.io_bytes, settings.runtime) = (None, None);
    }
    scenario.warmup = None;
    Some(scenario)
}

/// All findings about sizes and methods.
pub(super) fn findings(
    plan: &Plan,
    seen: &[FindingInput],
    probe: &dyn Fn(&Scenario) -> Option<RunResult>,
) -> Vec<Finding> {
    let method = plan.axes.iter().position(is_method);
    let size = plan.axes.iter().position(is_size);
    let (Some(method), Some(size)) = (method, size) else { return Vec::new() };
    let table = Table { plan, seen, method, size, probe, runs: RefCell::default() };
    let mut found = Vec::new();
    let mut combinations: Vec<Vec<usize>> = Vec::new();
    for point in seen {
        let mut others = point.choice.clone();
        (others[method], others[size]) = (0, 0);
        if !combinations.contains(&others) {
            combinations.push(others);
        }
    }
    for others in &combinations {
        found.extend(table.gain(others));
        let base = plan.points[table.index(others, 0, 0)].against;
        let base = plan.points[base].choice[method];
        for rival in (0..plan.axes[method].values.len()).filter(|rival| *rival != base) {
            found.extend(table.reach(others, rival, base));
        }
    }
    found
}

struct Table<'a> {
    plan: &'a Plan,
    seen: &'a [FindingInput],
    method: usize,
    size: usize,
    probe: &'a dyn Fn(&Scenario) -> Option<RunResult>,
    /// Figures of probes, by point (with any size) and size.
    runs: RefCell<BTreeMap<(usize, u32), Option<Figures>>>,
}

impl Table<'_> {
    /// Index of the point with these values.
    fn index(&self, others: &[usize], method: usize, size: usize) -> usize {
        let mut choice = others.to_vec();
        (choice[self.method], choice[self.size]) = (method, size);
        let axes = self.plan.axes.iter();
        choice.iter().zip(axes).fold(0, |index, (choice, axis)| index * axis.values.len() + choice)
    }

    /// Sizes in ascending order: bytes, and index of the value.
    fn sizes(&self) -> Vec<(u32, usize)> {
        let values = self.plan.axes[self.size].values.iter().enumerate();
        let mut sizes: Vec<(u32, usize)> =
            values.filter_map(|(at, value)| Some((value.number? as u32, at))).collect();
        sizes.sort_unstable();
        sizes
    }

    fn label(&self, method: usize) -> &str {
        &self.plan.axes[self.method].values[method].label
    }

    fn figures(&self, others: &[usize], method: usize, bytes: u32, at: Option<usize>) -> Option<Figures> {
        if let Some(at) = at {
            return self.seen[self.index(others, method, at)].figures;
        }
        let index = self.index(others, method, 0);
        if let Some(known) = self.runs.borrow().get(&(index, bytes)) {
            return *known;
        }
        let planned: &Planned = &self.plan.points[index];
        let runs = planned.scenarios().map(|scenario| {
            let found = (self.probe)(&with_payload(&scenario, bytes)?)?;
            (!is_fallback(&found.summary)).then(|| Figures::of(&found))
        });
        let runs: Option<Vec<Figures>> = runs.collect();
        let figures = runs.map(|runs| Figures::mean_of(&runs));
        self.runs.borrow_mut().insert((index, bytes), figures);
        figures
    }

    /// Whether `rival` is better than `base` at a size, beyond chance.
    fn wins(
        &self,
        others: &[usize],
        rival: usize,
        base: usize,
        metric: Metric,
        size: (u32, Option<usize>),
    ) -> Option<bool> {
        let of = |method| self.figures(others, method, size.0, size.1);
        let (rival, base) = (of(rival)?, of(base)?);
        let (own, other) = (rival.get(metric)?, base.get(metric)?);
        let is_better = if metric.more_is_better() { own > other } else { own < other };
        Some(is_better && !rival.is_chance(&base, metric))
    }

    /// Determines to the byte where `rival` is better than `base`.
    fn place(&self, others: &[usize], rival: usize, base: usize, metric: Metric) -> Option<Reach> {
        // Sizes that one of the methods cannot carry are excluded.
        let (sizes, wins): (Vec<(u32, usize)>, Vec<bool>) = self
            .sizes()
            .into_iter()
            .filter_map(|(bytes, at)| {
                let wins = self.wins(others, rival, base, metric, (bytes, Some(at)))?;
                Some(((bytes, at), wins))
            })
            .unzip();
        let turns: Vec<usize> = (1..wins.len()).filter(|at| wins[*at] != wins[at - 1]).collect();
        let &[turn] = &turns[..] else {
            return Some(match (turns.is_empty(), wins.first()?) {
                (true, true) => Reach::Everywhere(u64::from(sizes.last()?.0)),
                (true, false) => Reach::Nowhere,
                (false, _) => Reach::Mixed,
            });
        };
        let first = wins[turn - 1];
        let (mut low, mut high) = (sizes[turn - 1].0, sizes[turn].0);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.wins(others, rival, base, metric, (middle, None))? == first {
                true => low = middle,
                false => high = middle,
            }
        }
        Some(if first { Reach::UpTo(u64::from(low)) } else { Reach::From(u64::from(high)) })
    }

    fn reach(&self, others: &[usize], rival: usize, base: usize) -> Option<Finding> {
        let place = |metric| self.place(others, rival, base, metric);
        let latency = place(Metric::MeanNs)?;
        let wire = place(Metric::WireBytesPerIo)?;
        let payload = place(Metric::PayloadBytesPerIo)?;
        let (method, against) = (self.label(rival).to_owned(), self.label(base).to_owned());
        let named = without(&self.plan.axes, others, &[self.method, self.size]);
        let turns =
            [latency, wire, payload].iter().any(|reach| matches!(reach, Reach::UpTo(_) | Reach::From(_)));
        let text = format!(
            "{}{method} beats {against} {} in mean latency; it transfers fewer bytes on the wire {}, and fewer payload bytes {}{}",
            if named.is_empty() { String::new() } else { format!("with {named}: ") },
            latency.words(),
            wire.words(),
            payload.words(),
            if turns { " (to the byte, by runs in between)" } else { "" }
        );
        let repeat = self.plan.repeat;
        let chance = match repeat.is_several() {
            true => format!(
                "; where the intervals of {} replicates do not part, neither beats the other",
                repeat.count()
            ),
            false => String::new(),
        };
        let text = text + &chance;
        let fact = Fact::Reach { method, against, others: named, latency, wire, payload };
        Some(Finding { fact, text })
    }

    /// The part of inline's gain over whole pages that an SGL brings, too, at 64 B or the shortest payload.
    fn gain(&self, others: &[usize]) -> Option<Finding> {
        let method = |wanted: Method| {
            let name = wanted.name();
            (0..self.plan.axes[self.method].values.len()).find(|at| self.label(*at) == name)
        };
        let sizes = self.sizes();
        let &(bytes, at) = sizes.iter().find(|(bytes, _)| *bytes == 64).or_else(|| sizes.first())?;
        let of = |wanted| self.figures(others, method(wanted)?, bytes, Some(at));
        let (prp, sgl, inline) = (of(Method::Prp)?, of(Method::Sgl)?, of(Method::Inline)?);
        let mean = |figures: &Figures| figures.get(Metric::MeanNs);
        let (prp_ns, sgl_ns, inline_ns) = (mean(&prp)?, mean(&sgl)?, mean(&inline)?);
        let is_chance = [(&prp, &sgl), (&sgl, &inline), (&prp, &inline)]
            .iter()
            .any(|(one, other)| one.is_chance(other, Metric::MeanNs));
        let named = without(&self.plan.axes, others, &[self.method, self.size]);
        let (pages, setup) = (prp_ns - sgl_ns, sgl_ns - inline_ns);
        if is_chance || inline_ns >= prp_ns || equal(inline_ns, prp_ns) || pages < 0.0 || setup < 0.0 {
            return None;
        }
        let text = format!(
            "{}at {} B inline takes {} less than prp: {} of them is page granularity, which sgl also saves by transferring \
             exactly the bytes, and {} is the fixed cost of DMA: its set-up and another round trip",
            if named.is_empty() { String::new() } else { format!("with {named}: ") },
            grouped(bytes.into()),
            time(prp_ns - inline_ns),
            time(pages),
            time(setup)
        );
        let fact = Fact::Gain { bytes: bytes.into(), others: named, prp_ns, sgl_ns, inline_ns };
        Some(Finding { fact, text })
    }
}
