//! The plan of a comparison: every combination of values as a validated scenario, and the baseline of each.

use std::path::Path;

use toml::de::DeValue;

use super::fingerprint::{Fingerprint, fingerprint};
use super::vary::{Axis, Jobs, POINTS_MAX, place, resolve, split};
use crate::assumption::{Constants, Trial};
use crate::replicate::{Repeat, with_seed};
use byteway_report::shell::quoted;
use byteway_results::figures::Metric;
use byteway_scenario::source::{Sources, Texts};
use byteway_scenario::{Options, Scenario, ScenarioInput};
use byteway_text::error::{InputError, SourceLocation, suggest};
use byteway_text::units::excerpt;
use byteway_workload::{Issue, JobPlan};

/// The user's request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The scenario.
    pub scenario: ScenarioInput,
    /// `--vary` flags, in their order.
    pub varies: Vec<String>,
    /// `--baseline`.
    pub baseline: Option<String>,
    /// `--metric`.
    pub metric: Option<Metric>,
    /// `--repeat`.
    pub repeat: Repeat,
    /// Options common to all points.
    pub options: Options,
    /// `--sensitivity`: the constants to try with other values.
    pub sensitivity: Option<Constants>,
}

/// All points, ready to run.
#[derive(Debug)]
pub struct Plan {
    /// The varied keys, in the order of the flags.
    pub axes: Vec<Axis>,
    /// All combinations; the first key varies slowest.
    pub points: Vec<Planned>,
    /// The baseline in words.
    pub baseline: String,
    /// The figure shown first, if the user selected one.
    pub metric: Option<Metric>,
    /// Runs of each point.
    pub repeat: Repeat,
    /// Command to repeat it, from the directory of the scenario.
    pub command: String,
}

/// A point, ready to run.
#[derive(Debug)]
pub struct Planned {
    /// Index of its value on each axis.
    pub choice: Vec<usize>,
    /// The scenario.
    pub scenario: Scenario,
    /// Its runs: the first has the scenario's own seed.
    pub replicates: Vec<PlannedRun>,
    /// Index of its baseline.
    pub against: usize,
}

/// A run of a point.
#[derive(Debug)]
pub struct PlannedRun {
    /// Seed.
    pub seed: u64,
    /// Identity of its results: runs with equal fingerprints have equal results.
    pub fingerprint: Fingerprint,
}

impl Planned {
    /// The scenarios of its runs.
    pub(super) fn scenarios(&self) -> impl Iterator<Item = Scenario> {
        self.replicates.iter().map(|run| with_seed(&self.scenario, run.seed))
    }

    /// Whether all jobs issue their I/Os at times of their own, whatever the drive does.
    pub fn is_open(&self) -> bool {
        self.scenario.jobs.iter().all(|job| job.issue != Issue::Closed)
    }

    /// Constant number of outstanding I/Os, if every job is a closed loop without other waits.
    pub fn outstanding(&self) -> Option<u64> {
        let jobs = &self.scenario.jobs;
        let always = |job: &JobPlan| {
            let paced = job.cap.is_some() || job.think.is_some();
            job.issue == Issue::Closed && !paced && job.phase == 0 && job.start_delay.0 == 0
        };
        jobs.iter()
            .all(always)
            .then(|| jobs.iter().map(|job| u64::from(job.iodepth) * u64::from(job.workers)).sum())
    }
}

impl Plan {
    /// Number of runs of all points.
    pub fn runs(&self) -> usize {
        self.points.len() * self.repeat.count()
    }

    /// A run by its number: those of the first point come first.
    pub(super) fn run(&self, number: usize) -> (&Planned, &PlannedRun) {
        let point = &self.points[number / self.repeat.count()];
        (point, &point.replicates[number % self.repeat.count()])
    }

    /// Parses the flags, and loads and validates the scenario of every point.
    pub fn load(request: &Request) -> Result<Plan, InputError> {
        Plan::with_trial(request, None)
    }

    /// The same with another value of a constant.
    pub(super) fn with_trial(request: &Request, trial: Option<&Trial>) -> Result<Plan, InputError> {
        let jobs = job_count(&request.scenario, &request.options)?;
        let mut axes: Vec<Axis> = Vec::new();
        for flag in &request.varies {
            let axis = Axis::parse(flag, jobs)?;
            if let Some(other) =
                axes.iter().find(|other| other.paths.iter().any(|path| axis.paths.contains(path)))
            {
                let what = format!("`{}` and `{}` are the same key", excerpt(&other.key), excerpt(&axis.key));
                let help = "give all values of a key in one --vary";
                return Err(InputError::new(what, help).at(place("--vary", flag)));
            }
            let set = |set: &&String| {
                set.split('=').next().is_some_and(|key| axis.paths.iter().any(|p| p == key.trim()))
            };
            if let Some(set) = request.options.sets.iter().find(set) {
                let what =
                    format!("`{}` is varied and also set by --set {}", excerpt(&axis.key), excerpt(set));
                return Err(InputError::new(what, "remove one of the two").at(place("--vary", flag)));
            }
            axes.push(axis);
        }
        if axes.is_empty() {
            return Err(InputError::new("nothing is varied", "add --vary, such as --vary iodepth=1..256x2"));
        }
        let count = axes.iter().try_fold(1usize, |product, axis| product.checked_mul(axis.values.len()));
        let is_few =
            |count: &usize| count.checked_mul(request.repeat.count()).is_some_and(|runs| runs <= POINTS_MAX);
        let Some(count) = count.filter(is_few) else {
            let sizes = axes.iter().map(|axis| format!("{} of `{}`", axis.values.len(), axis.key));
            let repeat = request.repeat.is_several();
            let sizes = sizes.chain(repeat.then(|| format!("{} replicates", request.repeat.count())));
            let what = format!(
                "all combinations of {} are more than {POINTS_MAX} runs",
                sizes.collect::<Vec<_>>().join(" and ")
            );
            let last = request.varies.last().map_or("", String::as_str);
            return Err(InputError::new(what, "vary fewer keys or values").at(place("--vary", last)));
        };
        let fixed = match &request.baseline {
            Some(flag) => Some(fixed_values(flag, &axes, jobs)?),
            None => None,
        };
        let mut points = Vec::with_capacity(count);
        for index in 0..count {
            let choice = choice_of(index, &axes);
            let scenario = load_point(request, &axes, &choice, trial)?;
            let seeds = request.repeat.seeds(scenario.seed);
            let run =
                |seed: u64| Ok(PlannedRun { seed, fingerprint: fingerprint(&with_seed(&scenario, seed))? });
            let replicates = seeds.into_iter().map(run).collect::<Result<Vec<_>, InputError>>()?;
            let against = match &fixed {
                None => 0,
                Some(fixed) => {
                    let other = choice.iter().zip(fixed).map(|(own, fixed)| fixed.unwrap_or(*own));
                    other.zip(&axes).fold(0, |index, (choice, axis)| index * axis.values.len() + choice)
                }
            };
            points.push(Planned { choice, scenario, replicates, against });
        }
        let baseline = match &fixed {
            None => format!("the first point ({})", describe(&axes, &points[0].choice)),
            Some(fixed) => {
                let parts = axes.iter().zip(fixed).filter_map(|(axis, fixed)| {
                    Some(format!("{}={}", axis.key, axis.values[(*fixed)?].label))
                });
                let own = if fixed.contains(&None) { ", with equal other keys" } else { "" };
                format!("{}{own}", parts.collect::<Vec<_>>().join(", "))
            }
        };
        let (metric, repeat, command) = (request.metric, request.repeat, command(request));
        Ok(Plan { axes, points, baseline, metric, repeat, command })
    }
}

/// The command, without flags that do not affect the results.
fn command(request: &Request) -> String {
    // The text shown next to the command is a scenario, even for a fio job file.
    let path = request.scenario.path();
    let name = match path.extension().is_some_and(|extension| extension == "fio") {
        true => path.with_extension("toml"),
        false => path.to_owned(),
    };
    let file = name.file_name().unwrap_or_default().to_string_lossy();
    let mut parts = vec!["byteway compare".to_owned(), quoted(&file)];
    let flags = request.varies.iter().map(|vary| ("--vary", vary));
    let flags = flags.chain(request.options.sets.iter().map(|set| ("--set", set)));
    for (flag, value) in flags.chain(request.baseline.iter().map(|baseline| ("--baseline", baseline))) {
        parts.push(flag.to_owned());
        parts.push(quoted(value));
    }
    if let Some(metric) = request.metric {
        parts.push(format!("--metric {}", metric.key()));
    }
    if request.repeat.is_several() {
        parts.push(format!("--repeat {}", request.repeat.count()));
    }
    match &request.sensitivity {
        None => {}
        Some(Constants::Assumed) => parts.push("--sensitivity".to_owned()),
        Some(Constants::Named(keys)) => parts.push(format!("--sensitivity={}", quoted(&keys.join(",")))),
    }
    if request.options.skip_bad_lines {
        parts.push("--skip-bad-lines".to_owned());
    }
    parts.join(" ")
}

/// A point in words: `iodepth=4, method=sgl`.
pub fn describe(axes: &[Axis], choice: &[usize]) -> String {
    let parts = axes.iter().zip(choice).map(|(axis, at)| format!("{}={}", axis.key, axis.values[*at].label));
    parts.collect::<Vec<_>>().join(", ")
}

/// The choice of values of the point with this index: the last axis varies fastest.
fn choice_of(index: usize, axes: &[Axis]) -> Vec<usize> {
    let mut rest = index;
    let mut choice: Vec<usize> = axes
        .iter()
        .rev()
        .map(|axis| {
            let at = rest % axis.values.len();
            rest /= axis.values.len();
            at
        })
        .collect();
    choice.reverse();
    choice
}

/// Number of jobs in the scenario. A scenario that is valid only with the varied values is counted as
/// written.
pub(crate) fn job_count(input: &ScenarioInput, options: &Options) -> Result<Jobs, InputError> {
    let loaded = input.load(options);
    let texts = Texts::default();
    let tree = match &loaded {
        // A section may be a job on each of several drives, and a fio job file has no sections.
        Ok(scenario) => Sources::new(&texts).parse_text("scenario", Path::new(""), &scenario.text),
        Err(_) => input.parse(&mut Sources::new(&texts)),
    };
    let tree = match (tree, loaded) {
        (Ok(tree), _) => tree,
        (Err(error), Ok(_)) | (Err(_), Err(error)) => return Err(error),
    };
    let count = |section: &str| match tree.get_ref().get(section).map(|jobs| jobs.get_ref()) {
        Some(DeValue::Array(jobs)) => jobs.len(),
        _ => 0,
    };
    Ok(Jobs { blocks: count("job"), pairs: count("kv"), queries: count("query") })
}

/// Loads one point. An error in a varied value is located at its `--vary`; any other error names the point.
fn load_point(
    request: &Request,
    axes: &[Axis],
    choice: &[usize],
    trial: Option<&Trial>,
) -> Result<Scenario, InputError> {
    let mut options = request.options.clone();
    let mut flags: Vec<(String, SourceLocation)> = Vec::new();
    for (axis, at) in axes.iter().zip(choice) {
        let value = &axis.values[*at];
        for path in &axis.paths {
            let set = format!("{path}={}", value.raw);
            let vary = place("--vary", &format!("{}={}", axis.key, value.raw));
            flags.push((place("--set", &set).source, vary));
            options.sets.push(set);
        }
    }
    let loaded = request.scenario.load(&options).and_then(|scenario| {
        let sets = trial.map_or_else(Vec::new, |trial| trial.sets(&scenario.constants));
        if sets.is_empty() {
            return Ok(scenario);
        }
        options.sets.extend(sets);
        request.scenario.load(&options)
    });
    loaded.map_err(|mut error| {
        let stands = error.place.as_ref().map(|place| place.source.clone());
        match flags.into_iter().find(|(set, _)| Some(set) == stands.as_ref()) {
            Some((_, vary)) => error.place = Some(Box::new(vary)),
            None => error.what = format!("{} (in the point {})", error.what, describe(axes, choice)),
        }
        error
    })
}

/// The values that `--baseline` fixes, by axis.
fn fixed_values(flag: &str, axes: &[Axis], jobs: Jobs) -> Result<Vec<Option<usize>>, InputError> {
    let refuse = |what: String, help: String| InputError::new(what, help).at(place("--baseline", flag));
    let mut fixed = vec![None; axes.len()];
    for item in split(flag).map_err(|(what, help)| refuse(what, help))? {
        let Some((key, value)) = item.split_once('=') else {
            let first = &axes[0];
            let help =
                format!("name a value that is varied, such as {}={}", first.key, first.values[0].label);
            return Err(refuse(format!("`{}` is not KEY=VALUE", excerpt(item)), help));
        };
        let key = key.trim();
        let same = |axis: &Axis| axis.key == key || resolve(key, jobs).is_ok_and(|paths| paths == axis.paths);
        let Some(at) = axes.iter().position(same) else {
            let keys: Vec<&str> = axes.iter().map(|axis| axis.key.as_str()).collect();
            return Err(refuse(format!("`{}` is not varied", excerpt(key)), suggest(key, &keys)));
        };
        let Some(chosen) = axes[at].position(value) else {
            let labels: Vec<&str> =
                axes[at].values.iter().map(|value| value.label.as_str()).take(20).collect();
            let what = format!("`{}` is not a valid value of `{key}`", excerpt(value.trim()));
            return Err(refuse(what, suggest(value.trim(), &labels)));
        };
        if fixed[at].replace(chosen).is_some() {
            return Err(refuse(format!("`{key}` is given twice"), "remove one of them".to_owned()));
        }
    }
    Ok(fixed)
}
