//! Scenarios, profiles and device files in TOML: parsed, merged with profiles and overrides, and validated,
//! into the plan of a run or of a served drive.
//!
//! | file | what |
//! |---|---|
//! | `file.rs` | the scenario file ([`ScenarioFile`]), section by section |
//! | `format_name.rs`, `method_name.rs` | [`FormatName`]: the format of a trace; [`MethodName`]: a transfer method |
//! | `drive_names.rs` | [`DriveNames`]: the drives that a job uses |
//! | `lib.rs` | [`Scenario`]: a scenario that can be run |
//! | `input.rs` | [`ScenarioInput`]: a file, or a text in place of one |
//! | `drive.rs` | [`DrivePlan`]: a drive, in scenarios and in device files |
//! | `kv_section.rs` | the section of a key-value job |
//! | `jbof_section.rs`, `jbof.rs` | a JBOF: its section, and its plan ([`JbofPlan`]) |
//! | `plan.rs` | [`HostPlan`], [`Options`], and limits |
//! | `policy.rs` | policies by their names in a profile |
//! | `personality.rs` | [`Personality`]: the interface of a drive, and its consequences |
//! | `transfer.rs` | [`TransferPlan`]: how payloads cross |
//! | `target_section.rs` | the sections of a target and its network |
//! | `target.rs` | [`TargetPlan`]: a target between host and drives, and the network to it |
//! | `word.rs` | [`TableWord`]: values that are words of a table, such as methods |
//! | `job.rs` | from a job's section, or from flags, to its plan |
//! | `kv.rs` | the same for a key-value job |
//! | `query_section.rs`, `query.rs` | queries and their tables: sections and plans |
//! | `fio.rs` | from a fio job file to the text of a scenario |
//! | `device.rs` | [`Device`]: a drive to be served, and its file |
//! | [`secrets`] | files with secrets, for authentication over a network |
//! | [`profile`] | the constants of drives and hosts (`profiles/*.toml`), and the flash geometry that follows |
//! | [`source`] | TOML that keeps the location of every value through merging and overriding |
//!
//! A scenario gets its defaults, and a wrong one an error with the place:
//!
//! ```
//! use byteway_scenario::{Options, Scenario};
//! use std::path::Path;
//!
//! let parse = |job: &str| {
//!     let text = format!("[drive]\nprofile = \"samsung-970-pro\"\n[[job]]\n{job}");
//!     Scenario::from_text("reads.toml", Path::new(""), &text, &Options::default())
//! };
//! let scenario = parse("rw = \"randread\"\ncount = 1000\n")?;
//! assert_eq!((scenario.name.as_str(), scenario.seed), ("reads", 1));
//! assert_eq!((scenario.jobs[0].iodepth, scenario.command_count()), (1, Some(1000)));
//!
//! let error = parse("rw = \"randread\"\niodeph = 4\n").unwrap_err();
//! assert!(error.to_string().starts_with("reads.toml:5:1"), "{error}");
//! assert!(error.to_string().contains("`iodepth`"), "{error}");
//! # Ok::<(), byteway_text::error::InputError>(())
//! ```
//!
//! What it does not do: it builds nothing, runs nothing and draws nothing.

mod array;
mod array_section;
mod device;
mod drive;
mod drive_names;
mod file;
pub mod fio;
mod format_name;
mod hosted;
mod input;
mod jbof;
mod jbof_section;
mod job;
mod kv;
mod kv_section;
mod method_name;
mod personality;
mod plan;
mod policy;
pub mod profile;
mod query;
mod query_section;
mod reference;
pub mod secrets;
pub mod source;
mod table;
mod target;
mod target_section;
#[cfg(test)]
mod tests;
mod transfer;
mod word;
mod wrong;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::json;
use toml::Spanned;

use crate::profile::{HOSTS, HostProfile, KeyError, NetworkProfile, SourcedConstant, fault, load, within};
use crate::source::{Index, Sources, Texts, Tree};
use byteway_firmware::Base;
use byteway_text::error::InputError;
use byteway_text::file::read_small_file;
use byteway_text::units::Picos;
use byteway_trace::OwnFormat;
use byteway_transfer::Method;
use byteway_workload::kv::Engine;
use byteway_workload::own::OwnPlan;
use byteway_workload::{Beyond, JobPlan, Source};
use drive::{overrides, placed, profile_stem};
use kv::KvDraft;
use plan::{COUNT_MAX, check_name};
use query::QueryDraft;
use wrong::SectionError;

pub use byteway_firmware::policy::Policies;
pub use byteway_trace::TraceFormats;
pub use byteway_transfer::own::TransferMethods;
pub use byteway_workload::own::WorkloadSources;

pub use array_section::{ArraySection, Unplug};
pub use device::{Device, DeviceFile, Doorbells, ServeSection, Timing};
pub use drive::{ArrayPlan, DrivePlan};
pub use drive_names::DriveNames;
pub use file::*;
pub use format_name::FormatName;
pub use input::ScenarioInput;
pub use jbof::{JbofPlan, Share};
pub use jbof_section::{JbofSection, Platform};
pub use job::{Draft, Keys, Limits};
pub use kv_section::{EngineName, KvSection, Order, Shares};
pub use method_name::MethodName;
pub use personality::Personality;
pub use plan::{HostPlan, OUTSTANDING_MAX, Options, RUNTIME_MAX};
pub use policy::{AddedPolicy, DrivePolicies};
pub use query_section::{QueryForm, QuerySection, QueryTexts, TableSection};
pub use reference::reference;
pub use target::TargetPlan;
pub use target_section::{BlockScheduler, NetworkSection, TargetPath, TargetSection};
pub use transfer::{Encoding, LineOrdering, ResultTransfer, TransferPlan, TransferSection};
pub use word::{FineMethod, FromWord, TableWord};

/// A scenario that can be run: resolved and validated.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Name of the run.
    pub name: String,
    /// Seed of all randomness.
    pub seed: u64,
    /// The drives: at least one.
    pub drives: Vec<Attached>,
    /// The JBOF of the drives, if they are in one.
    pub jbof: Option<JbofPlan>,
    /// The host.
    pub host: HostPlan,
    /// The target that serves the drives; `None`: they are local to the host.
    pub target: Option<TargetPlan>,
    /// The jobs, at least one. The field `drive` of each is an index into `drives`.
    pub jobs: Vec<JobPlan>,
    /// What the figures exclude at the beginning.
    pub warmup: Option<Warmup>,
    /// Width of a step of the time series, if set.
    pub interval: Option<Picos>,
    /// Whether the cost of I/O on the host is reported by component; `None`: if the firmware of a drive runs
    /// there.
    pub host_cost: Option<bool>,
    /// The text of the scenario; for a fio job file, its translation.
    pub text: String,
    /// Notes on keys of a fio job file that have another meaning here, or none.
    pub translated: Vec<String>,
    /// The `key=value` overrides that were applied.
    pub sets: Vec<String>,
    /// Constants of its profiles that it does not override.
    pub constants: Vec<SourcedConstant>,
}

/// A drive of a scenario, with its own link to the host.
#[derive(Clone, Debug)]
pub struct Attached {
    /// The drive.
    pub plan: DrivePlan,
    /// How payloads cross.
    pub transfer: TransferPlan,
}

/// Files take wall-clock time, which a simulation does not model.
fn check_store(path: &str, store: Store) -> Result<(), KeyError> {
    match store {
        Store::File => Err(fault(
            format!("{path}.store"),
            format!("`{path}.store` = \"file\" is of drives that are served"),
            "choose \"stamp\" or \"ram\", or serve the drive: `byteway serve drive.toml --data DIR ...`",
        )),
        Store::Ram | Store::Stamp => Ok(()),
    }
}

/// An LSM tree on the host uses the whole namespace.
fn check_trees(jobs: &[JobPlan]) -> Result<(), KeyError> {
    let is_tree = |job: &&JobPlan| matches!(&job.source, Source::Pairs(plan) if plan.engine != Engine::Drive);
    for tree in jobs.iter().filter(is_tree) {
        let shares = |job: &&JobPlan| (job.drive, job.nsid) == (tree.drive, tree.nsid);
        let other = jobs.iter().filter(shares).find(|job| !matches!(job.source, Source::Pairs(_)));
        if let Some(other) = other {
            let what = format!(
                "job `{}` uses namespace {}, which the tree of job `{}` takes as a whole",
                other.name, tree.nsid, tree.name
            );
            return Err(fault("kv.0", what, "give them namespaces of their own, or leave one out"));
        }
    }
    Ok(())
}

impl Scenario {
    /// Loads a scenario file, or a fio job file (with a name that ends in `.fio`).
    pub fn load(path: &Path, options: &Options) -> Result<Scenario, InputError> {
        let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        if is_fio(path) {
            let text = read_small_file(path, "fio job file")?;
            let folder = path.parent().unwrap_or(Path::new(""));
            return Scenario::from_fio(&path.display().to_string(), folder, &text, &stem, options);
        }
        let texts = Texts::default();
        let mut sources = Sources::new(&texts);
        let tree = sources.parse_file(path, "scenario")?;
        Scenario::resolve(sources, tree, &stem, options)
    }

    /// Like [`Scenario::load`], for a text in place of the file `folder`/`name`.
    pub fn from_text(
        name: &str,
        folder: &Path,
        text: &str,
        options: &Options,
    ) -> Result<Scenario, InputError> {
        if is_fio(Path::new(name)) {
            return Scenario::from_fio(name, folder, text, name.trim_end_matches(".fio"), options);
        }
        let texts = Texts::default();
        let mut sources = Sources::new(&texts);
        let tree = sources.parse_text(name, folder, text)?;
        Scenario::resolve(sources, tree, name.trim_end_matches(".toml"), options)
    }

    fn from_fio(
        name: &str,
        folder: &Path,
        text: &str,
        stem: &str,
        options: &Options,
    ) -> Result<Scenario, InputError> {
        let file = fio::JobFile { name, folder, text, defines: &options.defines };
        let made = fio::translate(&file, fio::PROFILE)?;
        let notes = made.notes.clone();
        let texts = Texts::default();
        let mut sources = Sources::new(&texts);
        let tree = sources.parse_translated(name, folder, made)?;
        let scenario = Scenario::resolve(sources, tree, stem, options)?;
        Ok(Scenario { translated: notes, ..scenario })
    }

    fn resolve<'t>(
        mut sources: Sources<'t>,
        mut tree: Spanned<Tree<'t>>,
        stem: &str,
        options: &Options,
    ) -> Result<Scenario, InputError> {
        sources.policies = options.policies.clone();
        for flag in &options.sets {
            sources.set(&mut tree, flag)?;
        }
        let text = sources.text(tree.span().start).to_owned();
        let drive_overs = drive::all_overrides(&tree);
        let host_over = overrides(&tree, "host");
        let (target_over, network_over) = (overrides(&tree, "target"), overrides(&tree, "network"));
        let (file, index): (ScenarioFile, Index) = sources.decode(tree, "scenario")?;

        let mut drives = drive::load_all(&mut sources, &file.drive, &index, drive_overs)?;
        for (path, drive) in &drives {
            check_store(path, drive.store).map_err(|fault| self::placed(&sources, &index, fault))?;
        }
        let span = index.span("host.profile");
        let (host_profile, host_index): (HostProfile, Index) =
            load(&mut sources, &HOSTS, &file.host.profile, span, host_over, ("host", "host profile"))?;
        let target = target::load(&mut sources, &file, &index, target_over, network_over)?;
        let constants = sources.take_constants();
        let placed = |index: &Index, fault: KeyError| placed(&sources, index, fault);
        host_profile.check().map_err(|fault| placed(&host_index, fault))?;

        for (path, drive) in &drives {
            let checked = hosted::check(path, drive, &host_profile, target.is_some());
            checked.map_err(|fault| placed(&index, fault))?;
        }
        let mut jbof = None;
        if let Some(section) = &file.jbof {
            let other = [("target", target.is_some()), ("array", file.array.is_some())];
            if let Some((other, _)) = other.iter().find(|(_, is_there)| *is_there) {
                let what =
                    format!("`[jbof]`: drives of a JBOF are the host's own, and no part of `[{other}]`");
                return Err(placed(&index, fault("jbof", what, "leave one of the two sections out")));
            }
            let plan = jbof::plan(section, &mut drives, &host_profile);
            jbof = Some(plan.map_err(|fault| placed(&index, fault))?);
        }
        if let Some(section) = &file.array {
            if target.is_some() {
                let what = "`[array]`: an array consists of the host's drives, and these are a target's";
                return Err(placed(
                    &index,
                    fault("array", what, "leave `[array]`, or `[target]` and `[network]`, out"),
                ));
            }
            let whole = array::plan(section, &drives, &index).map_err(|fault| placed(&index, fault))?;
            // The controller of an array is like that of its first drive.
            drives = vec![(drives[0].0.clone(), whole)];
        }
        let name = file.name.clone().unwrap_or_else(|| stem.to_owned());
        check_name("name", &name).map_err(|fault| placed(&index, fault))?;
        let mut job_paths: Vec<String> = Vec::new();
        let mut attached = Vec::new();
        let mut drive_paths = Vec::new();
        let of_program = (&options.methods, file.seed);
        let transfer_of =
            |plan: &DrivePlan| file.transfer.plan(plan, host_profile.sgl_min, &index, of_program);
        for (path, plan) in &drives {
            let transfer = transfer_of(plan).map_err(|fault| {
                let others = drives.iter().map(|(_, other)| transfer_of(other).err());
                placed(&index, drive::on_drive(fault, plan, others))
            })?;
            attached.push(Attached { plan: plan.clone(), transfer });
            drive_paths.push(path.clone());
        }
        let host = HostPlan {
            profile_name: profile_stem(&file.host.profile),
            profile: host_profile,
            verify: file.host.verify,
            arbitration: file.host.arbitration,
            weights: file.host.weights,
            queues: file.host.queues,
            lends: file.host.lends,
        };
        if let Some(queues) = host.queues {
            within("host.queues", queues, 1, 1024).map_err(|fault| placed(&index, fault))?;
        }
        for (key, weight) in
            [("high", host.weights.high), ("medium", host.weights.medium), ("low", host.weights.low)]
        {
            let path = format!("host.weights.{key}");
            within(&path, weight, 1, 256).map_err(|fault| placed(&index, fault))?;
            if index.has(&path) && host.arbitration == Arbitration::RoundRobin {
                let what = format!("`{path}`: has no effect under round robin");
                let help = "set `arbitration = \"weighted\"` in [host], or leave the weights out";
                return Err(placed(&index, fault(path, what, help)));
            }
        }
        let mut jobs: Vec<JobPlan> = Vec::new();
        let known: Vec<&DrivePlan> = attached.iter().map(|drive| &drive.plan).collect();
        // A section is a job on each of its drives.
        let mut add = |path: &str, stonewall: bool, plans: Vec<JobPlan>| {
            let phase = jobs.last().map_or(0, |before| before.phase + u32::from(stonewall));
            let several = plans.len() > 1;
            for mut plan in plans {
                plan.phase = phase;
                if let Some(drive) = known[plan.drive].name.as_ref().filter(|_| several) {
                    plan.name = format!("{}/{drive}", plan.name);
                }
                jobs.push(plan);
                job_paths.push(path.to_owned());
            }
        };
        for (number, section) in file.job.iter().enumerate() {
            let path = format!("job.{number}");
            let of_job = drive::drives_of(section.drive.as_ref(), &path, &known);
            let of_job = of_job.map_err(|fault| placed(&index, fault))?;
            let keys = Keys::Section { path: &path, index: &index };
            let draft =
                |drive: usize| Draft { section, keys, limits: Limits::of(known[drive], &host), options };
            let plan_of = |drive: usize| draft(drive).plan(&format!("job{number}"));
            let mut plans = Vec::new();
            for &drive in &of_job {
                let draft = draft(drive);
                let mut plan = plan_of(drive).map_err(|fault| {
                    let others = of_job.iter().map(|other| plan_of(*other).err());
                    placed(&index, drive::on_drive(fault, known[drive], others))
                })?;
                plan.drive = drive;
                if let Some(trace) = &section.trace {
                    let span = index.span(&format!("{path}.trace.file"));
                    let file = PathBuf::from(&trace.file);
                    let source = match byteway_trace::is_stdin(&file) {
                        true => file,
                        false => sources.folder(span.start).join(file),
                    };
                    plan.source = draft.replay(&plan, source, trace).map_err(|error| match error.place {
                        None => error.at(sources.place(&span)),
                        Some(_) => error,
                    })?;
                }
                plans.push(plan);
            }
            add(&path, section.stonewall, plans);
        }
        for (number, section) in file.kv.iter().enumerate() {
            let path = format!("kv.{number}");
            let folder = sources.folder(index.span(&path).start).to_owned();
            let of_job = drive::drives_of(section.drive.as_ref(), &path, &known);
            let of_job = of_job.map_err(|fault| placed(&index, fault))?;
            let plan_of = |drive: usize| {
                let (path, index, drive) = (&path[..], &index, known[drive]);
                let draft = KvDraft { section, path, index, drive, host: &host, folder: &folder };
                draft.plan(&format!("kv{number}"))
            };
            let mut plans = Vec::new();
            for &number_of_drive in &of_job {
                let mut plan = plan_of(number_of_drive).map_err(|wrong| match wrong {
                    SectionError::Key(fault) => {
                        let others = of_job.iter().map(|other| match plan_of(*other) {
                            Err(SectionError::Key(fault)) => Some(fault),
                            _ => None,
                        });
                        placed(&index, drive::on_drive(fault, known[number_of_drive], others))
                    }
                    SectionError::File(key, error) if error.place.is_none() => {
                        error.at(sources.place(&index.span(&key)))
                    }
                    SectionError::File(_, error) => error,
                })?;
                plan.drive = number_of_drive;
                plans.push(plan);
            }
            add(&path, section.stonewall, plans);
        }
        for (number, section) in file.query.iter().enumerate() {
            let path = format!("query.{number}");
            let of_job = drive::drives_of(section.drive.as_ref(), &path, &known);
            let of_job = of_job.map_err(|fault| placed(&index, fault))?;
            let plan_of = |drive: usize| {
                let draft = QueryDraft { section, path: &path, drive: known[drive], host: &host };
                draft.plan(&format!("query{number}"))
            };
            let mut plans = Vec::new();
            for &drive in &of_job {
                let mut plan = plan_of(drive).map_err(|fault| {
                    let others = of_job.iter().map(|other| plan_of(*other).err());
                    placed(&index, drive::on_drive(fault, known[drive], others))
                })?;
                plan.drive = drive;
                plans.push(plan);
            }
            add(&path, section.stonewall, plans);
        }
        // A key-value drive or one with tables accepts no block I/O.
        let is_wrong = |job: &JobPlan| !known[job.drive].personality.takes(job);
        if let Some(number) = jobs.iter().position(is_wrong) {
            let called = match &known[jobs[number].drive].name {
                Some(name) if known.len() > 1 => format!("drive `{name}` "),
                _ => "a drive ".to_owned(),
            };
            let personality = known[jobs[number].drive].personality;
            let (word, help) = match personality {
                Personality::Tables => {
                    ("tables", "write `[[query]]` with at least `sql = \"SELECT COUNT(*) FROM ...\"`")
                }
                _ => ("kv", "write `[[kv]]` with at least `workload = \"fillrandom\"`"),
            };
            let what = format!("`job`: {called}with `personality = \"{word}\"` has no blocks");
            return Err(placed(&index, fault(&job_paths[number], what, help)));
        }
        let scenario = Scenario {
            name,
            seed: file.seed,
            drives: attached,
            host,
            target,
            jbof,
            jobs,
            warmup: file.measure.warmup,
            interval: file.measure.interval,
            host_cost: file.measure.host,
            text,
            translated: Vec::new(),
            constants,
            sets: options.sets.clone(),
        };
        check_trees(&scenario.jobs).map_err(|fault| placed(&index, fault))?;
        scenario.check(&job_paths, &drive_paths).map_err(|fault| placed(&index, fault))?;
        Ok(scenario)
    }

    /// Checks across sections; the section of each job is at its path in `paths`, of each drive in
    /// `drive_paths`.
    fn check(&self, paths: &[String], drive_paths: &[String]) -> Result<(), KeyError> {
        let Some(last) = paths.last() else {
            // For the message, any drive that accepts the job.
            let personalities = || self.drives.iter().map(|drive| drive.plan.personality);
            let is_any = |personality: &Personality| !personality.has_pairs() && !personality.has_tables();
            let other = personalities().find(is_any);
            let (key, help) = other.or(personalities().next()).unwrap_or_default().example();
            return Err(fault(key, "the scenario has no job", help));
        };
        let mut names = BTreeSet::new();
        for (job, path) in self.jobs.iter().zip(paths) {
            if !names.insert(&job.name) {
                let what = format!("two jobs are called `{}`", job.name);
                let help = "give each a name of its own: its random numbers follow from it";
                return Err(fault(format!("{path}.name"), what, help));
            }
        }
        match &self.target {
            // With a target, a host's queue pairs are separate; a drive's are shared by all hosts.
            Some(target) => {
                let drives = self.drives.iter().zip(drive_paths);
                let drives = drives.map(|(drive, path)| (&drive.plan, &drive.transfer, path));
                target.check(&self.host, drives, &self.jobs.iter().zip(paths).collect::<Vec<_>>())?;
            }
            None => {
                if let Some((_, path)) = self.jobs.iter().zip(paths).find(|(job, _)| job.at_target) {
                    let help = "write a section [target], or leave `at` out";
                    let what = format!("`{path}.at`: there is no target");
                    return Err(fault(format!("{path}.at"), what, help));
                }
                for (number, (drive, key)) in self.drives.iter().zip(drive_paths).enumerate() {
                    self.check_queues(number, (&drive.plan, key), paths)?;
                }
            }
        }
        let outstanding: u64 =
            self.jobs.iter().map(|job| u64::from(job.workers) * u64::from(job.iodepth)).sum();
        if outstanding > OUTSTANDING_MAX {
            let what = format!("{outstanding} I/Os could be outstanding over all jobs");
            let help = format!("lower `iodepth` or `numjobs`: at most {OUTSTANDING_MAX}");
            return Err(fault(format!("{last}.iodepth"), what, help));
        }
        if let Some(interval) = self.interval {
            within("measure.interval", interval, Picos(1_000_000), RUNTIME_MAX)?;
        }
        match self.warmup {
            Some(Warmup::Ios(count)) => within("measure.warmup", count, 0, COUNT_MAX),
            Some(Warmup::Time(time)) => within("measure.warmup", time, Picos(0), RUNTIME_MAX),
            None => Ok(()),
        }
    }

    /// Checks whether the workers of a drive's jobs can share its queue pairs.
    fn check_queues(
        &self,
        number: usize,
        (drive, key): (&DrivePlan, &str),
        paths: &[String],
    ) -> Result<(), KeyError> {
        let mut own = self.jobs.iter().zip(paths).filter(|(job, _)| job.drive == number);
        let Some((_, last)) = own.next_back() else { return Ok(()) };
        let (workers, queues) = (self.workers(number), self.queue_pairs(number));
        if self.jbof.is_some() && drive.profile.controller.max_io_queues < 2 {
            let what = "a drive of a JBOF needs a queue pair for the host, and one for its peers";
            let help = format!("set {key}.override.controller.max_io_queues = 2");
            return Err(fault(format!("{last}.numjobs"), what, help));
        }
        if self.host.arbitration == Arbitration::Weighted && workers > queues {
            let what = format!(
                "{workers} workers would share {queues} queue pairs, and under weighted arbitration a queue pair has one priority"
            );
            let help = format!(
                "lower `numjobs`, raise {key}.override.controller.max_io_queues and `host.queues` to {workers}, or leave \
                 `host.arbitration` out"
            );
            return Err(fault(format!("{last}.numjobs"), what, help));
        }
        Ok(())
    }

    /// Workers of a drive's jobs on the host.
    fn workers(&self, drive: usize) -> u32 {
        self.jobs_of(drive).filter(|job| !job.at_target).map(|job| job.workers).sum()
    }

    /// I/O queue pairs of the host at a drive: one for each worker, as far as the drive or the target has them and the host
    /// wants them; further workers share them.
    pub fn queue_pairs(&self, drive: usize) -> u32 {
        let there = match (&self.target, &self.jbof) {
            (Some(_), _) => target::QUEUES_MAX,
            (None, jbof) => {
                // One is for commands of peers.
                let of_peers = u16::from(jbof.is_some());
                self.drives[drive].plan.profile.controller.max_io_queues.saturating_sub(of_peers).into()
            }
        };
        self.workers(drive).min(there).min(self.host.queues.unwrap_or(u32::MAX)).max(1)
    }

    /// Total number of commands of the run, if known for every job.
    pub fn command_count(&self) -> Option<u64> {
        self.jobs.iter().map(JobPlan::command_count).try_fold(0u64, |sum, count| sum.checked_add(count?))
    }

    /// Virtual time of the run, at most, if every job has a runtime.
    pub fn runtime(&self) -> Option<Picos> {
        let mut whole = 0u64;
        for phase in self.jobs.chunk_by(|a, b| a.phase == b.phase) {
            let mut ends = phase.iter().map(|job| {
                let lead = job.start_delay.0.saturating_add(job.ramp.0);
                job.runtime.map(|runtime| lead.saturating_add(runtime.0))
            });
            whole = whole.saturating_add(ends.try_fold(0, |longest, end| Some(longest.max(end?)))?);
        }
        Some(Picos(whole))
    }

    /// The jobs of a drive.
    pub fn jobs_of(&self, drive: usize) -> impl Iterator<Item = &JobPlan> {
        self.jobs.iter().filter(move |job| job.drive == drive)
    }

    /// Whether the cost of I/O on the host is reported by component.
    pub fn accounts_for_host(&self) -> bool {
        let is_hosted = |drive: &Attached| drive.plan.profile.takes_host() || drive.plan.array.is_some();
        self.host_cost.unwrap_or_else(|| self.drives.iter().any(is_hosted))
    }

    /// Whether any job verifies its reads of a drive.
    pub fn verifies(&self, drive: usize) -> bool {
        self.jobs_of(drive).any(|job| job.verify.is_on())
    }

    /// Whether any job issues key-value operations to a drive.
    pub fn asks_for_pairs(&self, drive: usize) -> bool {
        let is_of_drive =
            |job: &JobPlan| matches!(&job.source, Source::Pairs(plan) if plan.engine == Engine::Drive);
        self.jobs_of(drive).any(is_of_drive)
    }

    /// Notes for the reader of the result about the inputs of a drive: assumptions, skipped or wrapped
    /// records. Contain no paths.
    pub fn notes(&self, drive: usize) -> Vec<String> {
        let mut notes = self.translated.clone();
        let plan = &self.drives[drive].plan;
        if plan.age.0 > 0 && plan.profile.flash.reliability.is_none() {
            notes.push("drive.age changes nothing: the profile has no flash.reliability".to_owned());
        }
        if !plan.temperature.is_empty() && plan.profile.firmware.throttle.is_none() {
            notes.push("drive.temperature slows nothing: the profile has no firmware.throttle".to_owned());
        }
        notes.extend(table::notes(&plan.tables));
        for member in plan.members() {
            for AddedPolicy { what, name, hash, .. } in member.policies.added() {
                let what = format!("{what} are chosen by `{name}` (version {hash}), which is not built in");
                notes.extend((!notes.contains(&what)).then_some(what));
            }
        }
        if let Method::Own(own) = self.drives[drive].transfer.rules.method {
            let (name, version) = (self.drives[drive].transfer.rules.method.name(), own.hash());
            notes.push(format!("payloads cross by `{name}` (version {version}), which is not built in"));
        }
        let may_write =
            |job: &JobPlan| !matches!(&job.source, Source::Synthetic(own) if !own.rw.has_writes());
        let is_constructed = plan.precondition == Base::Steady && self.jobs_of(drive).any(may_write);
        if is_constructed && !plan.policies.victim.is_default() {
            let name = plan.policies.victim.name();
            notes.push(format!(
                "the steady state is that of `greedy`: under `{name}` the drive moves away from it until all of it was rewritten, \
                 so set `warmup` or `ramp_time` to several times its capacity"
            ));
        }
        // Idle drives of a JBOF are intended: they lend.
        if self.jbof.is_none() && self.jobs_of(drive).next().is_none() {
            notes.push("no job uses it".to_owned());
        }
        let (workers, queues) = (self.workers(drive), self.queue_pairs(drive));
        if workers > queues {
            notes.push(format!("{workers} workers share {queues} queue pairs"));
        }
        for job in self.jobs_of(drive) {
            if let Source::Own(OwnPlan { source, .. }) = &job.source {
                let (name, version) = (source.name(), source.hash().unwrap_or_default());
                notes.push(format!(
                    "job {}: its I/Os are those of `{name}` (version {version}), which is not built in",
                    job.name
                ));
            }
            if let Source::Pairs(pairs) = &job.source {
                notes.extend(pairs.note().map(|note| format!("job {}: {note}", job.name)));
                if pairs.engine != Engine::Drive {
                    notes.push(format!(
                        "job {}: key-value pairs are stored in an LSM tree on the host (LevelDB), whose processor time and file system cost \
                         nothing",
                        job.name
                    ));
                }
            }
            let Source::Trace(replay) = &job.source else { continue };
            let (scan, tally) = (&replay.scan, &replay.scan.tally);
            let mut note = |text: String| notes.push(format!("job {}: {text}", job.name));
            let file = byteway_trace::file_name(&replay.path);
            let often =
                if replay.repeat > 1 { format!(", replayed {} times", replay.repeat) } else { String::new() };
            note(format!("{file} taken as {}; {} records{often}", replay.read.assumption(), tally.records));
            if let Some(count) = job.count.filter(|_| scan.is_exhausted) {
                note(format!(
                    "count = {count} is more than the {} records that there are to replay: it ended after them, and repeat = {} \
                     in [job.trace] would reach it",
                    scan.replayed,
                    count.div_ceil(tally.records.max(1))
                ));
            }
            tally.doubts(&replay.read).into_iter().for_each(&mut note);
            if tally.bad_lines > 0 {
                let first = tally.first_bad.as_deref().unwrap_or_default();
                note(format!(
                    "{} lines of {file} are no records and were skipped; first {first}",
                    tally.bad_lines
                ));
            }
            if tally.other_devices > 0 {
                note(format!("{} records of other devices were left out", tally.other_devices));
            }
            if tally.times_raised > 0 {
                note(format!(
                    "{} times went backwards and were raised to the latest before",
                    tally.times_raised
                ));
            }
            if replay.spread {
                note(format!(
                    "{} devices have an equal slice of the range each",
                    replay.layout.device_count()
                ));
            }
            match replay.beyond {
                Beyond::Wrap if scan.moved > 0 => {
                    note(format!("{} records beyond the range were wrapped into it", scan.moved));
                }
                Beyond::Scale if scan.moved > 0 => {
                    note(format!(
                        "addresses were scaled down to the range, those of {} records changed",
                        scan.moved
                    ));
                }
                Beyond::Compact => note(format!(
                    "the {} units of 4 KiB that are touched were numbered in the order of their first use",
                    replay.layout.unit_count()
                )),
                _ => {}
            }
            if scan.trims_left_out > 0 {
                note(format!("{} trims of less than a logical block were left out", scan.trims_left_out));
            }
            if scan.widened > 0 {
                let lba_bytes = plan.lba_bytes;
                let help = if lba_bytes > 512 { "; drive.lba_size = \"512 B\" may fit them" } else { "" };
                note(format!(
                    "{} records that begin or end within a block of {lba_bytes} B were widened to whole blocks{help}",
                    scan.widened
                ));
            }
            if scan.commands > scan.replayed {
                note(format!(
                    "records that are longer than one command may be, or lie apart, were split: {} commands",
                    scan.commands
                ));
            }
        }
        notes
    }
}

fn is_fio(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("fio"))
}

/// The JSON schema of the scenario file.
pub fn scenario_schema() -> serde_json::Value {
    scenario_schema_with(&Options::default())
}

/// The same for a program that adds what `options` have: their names stand in it.
pub fn scenario_schema_with(options: &Options) -> serde_json::Value {
    let mut whole = schemars::schema_for!(ScenarioFile).to_value();
    let each: Vec<String> =
        options.sources.each().map(|(name, about)| format!("`{name}`: {about}")).collect();
    let source = whole.pointer_mut("/$defs/JobSection/properties/source/description");
    if let (Some(serde_json::Value::String(described)), false) = (source, each.is_empty()) {
        *described = format!("{described} Here: {}", each.join(" "));
    }
    if let Some(serde_json::Value::Array(formats)) = whole.pointer_mut("/$defs/Format/oneOf") {
        let of =
            |own: &OwnFormat| json!({ "type": "string", "const": own.name(), "description": own.about() });
        formats.extend(options.formats.each().map(of));
    }
    if let Some(serde_json::Value::Array(methods)) = whole.pointer_mut("/$defs/TransferMethod/oneOf") {
        let of =
            |(name, about): (&str, &str)| json!({ "type": "string", "const": name, "description": about });
        methods.extend(options.methods.each().map(of));
    }
    whole
}

/// The JSON schema of the device file.
pub fn device_schema() -> serde_json::Value {
    schemars::schema_for!(DeviceFile).to_value()
}

/// The JSON schema of a network's profile.
pub fn network_schema() -> serde_json::Value {
    schemars::schema_for!(NetworkProfile).to_value()
}

/// The JSON schema of a host's profile.
pub fn host_schema() -> serde_json::Value {
    schemars::schema_for!(HostProfile).to_value()
}
