//! What the user writes in TOML, and what is left of it once the profiles are loaded, the overrides laid on and every
//! value checked: all that a run, or a served drive, needs.
//!
//! | file | what |
//! |---|---|
//! | `file.rs` | the scenario as it is written ([`ScenarioFile`]), section by section |
//! | `drive_names.rs` | [`DriveNames`]: on which drives a job works |
//! | `lib.rs` | [`Scenario`]: a scenario that can be run |
//! | `drive.rs` | [`DrivePlan`]: the drive, the same in scenarios and in device files |
//! | `kv_section.rs` | the section of a key-value drive's job as it is written |
//! | `jbof_section.rs`, `jbof.rs` | a box of drives: as it is written, and what each drive has there ([`JbofPlan`]) |
//! | `plan.rs` | [`HostPlan`], [`Options`], and bounds |
//! | `personality.rs` | [`Personality`]: what a host asks a drive for, and what this decides |
//! | `transfer.rs` | [`TransferPlan`]: how payloads cross |
//! | `target_section.rs` | the sections of a target and its network as they are written |
//! | `target.rs` | [`TargetPlan`]: a target between host and drives, and the network to it |
//! | `word.rs` | [`Word`]: values that are a word of a table, such as methods |
//! | `job.rs` | from a job's section, or from flags, to its plan |
//! | `kv.rs` | the same of a key-value drive's job |
//! | `fio.rs` | from a fio job file to the text of a scenario |
//! | `device.rs` | [`Device`]: a drive to be served, and its file |
//! | [`secrets`] | files with secrets, for authentication over a network |
//! | [`profile`] | the constants of drives and hosts (`profiles/*.toml`), and the flash geometry that follows |
//! | [`source`] | TOML that keeps the place of every value through merging and overriding |
//!
//! What it does not do: it builds nothing, runs nothing and draws nothing.

mod array;
mod array_section;
mod device;
mod drive;
mod drive_names;
mod file;
pub mod fio;
mod hosted;
mod jbof;
mod jbof_section;
mod job;
mod kv;
mod kv_section;
mod personality;
mod plan;
pub mod profile;
pub mod secrets;
pub mod source;
mod target;
mod target_section;
#[cfg(test)]
mod tests;
mod transfer;
mod word;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toml::Spanned;

use crate::profile::{Fault, HOSTS, HostProfile, NetworkProfile, fault, load, within};
use crate::source::{Index, Sources, Texts, Tree};
use byteway_console::error::InputError;
use byteway_console::file::read_small_file;
use byteway_console::units::Picos;
use byteway_workload::kv::Engine;
use byteway_workload::{Beyond, JobPlan, Source};
use drive::{overrides, placed, profile_stem};
use kv::{KvDraft, Wrong};
use plan::{COUNT_MAX, check_name};

pub use array_section::{ArraySection, Unplug};
pub use device::{Device, DeviceFile, Doorbells, ServeSection, Timing};
pub use drive::{ArrayPlan, DrivePlan};
pub use drive_names::DriveNames;
pub use file::*;
pub use jbof::{JbofPlan, Share};
pub use jbof_section::{JbofSection, Platform};
pub use job::{Draft, Keys, Limits};
pub use kv_section::{EngineName, KvSection, Order, Shares};
pub use personality::Personality;
pub use plan::{HostPlan, OUTSTANDING_MAX, Options, RUNTIME_MAX};
pub use target::TargetPlan;
pub use target_section::{BlockScheduler, NetworkSection, TargetPath, TargetSection};
pub use transfer::{Encoding, LineOrdering, Pointer, ResultWay, TransferPlan, TransferSection};
pub use word::{Fine, Word, Written};

/// A scenario that can be run: everything looked up, laid on, checked.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What the run is called.
    pub name: String,
    /// Everything random follows from it.
    pub seed: u64,
    /// The drives: at least one.
    pub drives: Vec<Attached>,
    /// The box that the drives are in; none: they have nothing in common.
    pub jbof: Option<JbofPlan>,
    /// The host.
    pub host: HostPlan,
    /// What the drives are behind; none: they are the host's.
    pub target: Option<TargetPlan>,
    /// The jobs: at least one. `drive` of each is a place in `drives`.
    pub jobs: Vec<JobPlan>,
    /// What is left out of the figures at the beginning.
    pub warmup: Option<Warmup>,
    /// Width of the steps of the series over time.
    pub interval: Option<Picos>,
    /// Whether what I/O costs the host is reported by component; none: if the firmware of a drive runs there.
    pub host_cost: Option<bool>,
    /// The text that it was read from; of a fio job file, what it came to.
    pub text: String,
    /// What a fio job file asked for that means something else here, or nothing.
    pub translated: Vec<String>,
    /// The `key=value` overrides that were laid on it.
    pub sets: Vec<String>,
}

/// A drive of a scenario, on a link of its own to the host.
#[derive(Clone, Debug)]
pub struct Attached {
    /// The drive.
    pub plan: DrivePlan,
    /// How payloads cross.
    pub transfer: TransferPlan,
}

/// Files take the wall's time, of which a simulation knows nothing.
fn check_store(path: &str, store: Store) -> Result<(), Fault> {
    match store {
        Store::File => Err(fault(
            format!("{path}.store"),
            format!("`{path}.store` = \"file\" is of drives that are served"),
            "choose \"stamp\" or \"ram\", or serve the drive: `byteway serve drive.toml --data DIR ...`",
        )),
        Store::Ram | Store::Stamp => Ok(()),
    }
}

/// A tree on the host takes all of its namespace.
fn check_trees(jobs: &[JobPlan]) -> Result<(), Fault> {
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
    /// Reads, resolves and checks a scenario file, or a fio job file, whose name ends in `.fio`.
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

    /// The same for a text that stands for the file `folder`/`name`.
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
            load(&mut sources, &HOSTS, &file.host.profile, span, host_over, "host profile")?;
        let target = target::load(&mut sources, &file, &index, target_over, network_over)?;
        let placed = |index: &Index, fault: Fault| placed(&sources, index, fault);
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
                    format!("`[jbof]`: drives of a box are the host's own, and no part of `[{other}]`");
                return Err(placed(&index, fault("jbof", what, "leave one of the two sections out")));
            }
            let plan = jbof::plan(section, &mut drives, &host_profile);
            jbof = Some(plan.map_err(|fault| placed(&index, fault))?);
        }
        if let Some(section) = &file.array {
            if target.is_some() {
                let what = "`[array]`: an array is the host's, and these drives are a target's";
                return Err(placed(
                    &index,
                    fault("array", what, "leave `[array]`, or `[target]` and `[network]`, out"),
                ));
            }
            let whole = array::plan(section, &drives, &index).map_err(|fault| placed(&index, fault))?;
            // Its controller is as its first drive's.
            drives = vec![(drives[0].0.clone(), whole)];
        }
        let name = file.name.clone().unwrap_or_else(|| stem.to_owned());
        check_name("name", &name).map_err(|fault| placed(&index, fault))?;
        let mut job_paths: Vec<String> = Vec::new();
        let mut attached = Vec::new();
        let mut drive_paths = Vec::new();
        let transfer_of = |plan: &DrivePlan| file.transfer.plan(plan, host_profile.sgl_min, &index);
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
            lends: file.host.lends,
        };
        for (key, weight) in
            [("high", host.weights.high), ("medium", host.weights.medium), ("low", host.weights.low)]
        {
            let path = format!("host.weights.{key}");
            within(&path, weight, 1, 256).map_err(|fault| placed(&index, fault))?;
            if index.has(&path) && host.arbitration == Arbitration::RoundRobin {
                let what = format!("`{path}`: has no effect under round robin");
                let cure = "set `arbitration = \"weighted\"` in [host], or leave the weights out";
                return Err(placed(&index, fault(path, what, cure)));
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
            let draft = |drive: usize| Draft { section, keys, limits: Limits::of(known[drive], &host) };
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
                    plan.source =
                        draft.replay(&plan, source, trace, options.skip_bad_lines).map_err(|error| {
                            match error.place {
                                None => error.at(sources.place(&span)),
                                Some(_) => error,
                            }
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
                    Wrong::Fault(fault) => {
                        let others = of_job.iter().map(|other| match plan_of(*other) {
                            Err(Wrong::Fault(fault)) => Some(fault),
                            _ => None,
                        });
                        placed(&index, drive::on_drive(fault, known[number_of_drive], others))
                    }
                    Wrong::File(key, error) if error.place.is_none() => {
                        error.at(sources.place(&index.span(&key)))
                    }
                    Wrong::File(_, error) => error,
                })?;
                plan.drive = number_of_drive;
                plans.push(plan);
            }
            add(&path, section.stonewall, plans);
        }
        // A drive of pairs is not asked for blocks.
        let is_wrong = |job: &JobPlan| !known[job.drive].personality.takes(job);
        if let Some(number) = jobs.iter().position(is_wrong) {
            let called = match &known[jobs[number].drive].name {
                Some(name) if known.len() > 1 => format!("drive `{name}` "),
                _ => "a drive ".to_owned(),
            };
            let what = format!("`job`: {called}with `personality = \"kv\"` has no blocks");
            let cure = "write `[[kv]]` with at least `workload = \"fillrandom\"`";
            return Err(placed(&index, fault(&job_paths[number], what, cure)));
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
            sets: options.sets.clone(),
        };
        check_trees(&scenario.jobs).map_err(|fault| placed(&index, fault))?;
        scenario.check(&job_paths, &drive_paths).map_err(|fault| placed(&index, fault))?;
        Ok(scenario)
    }

    /// What holds between the parts; each job is written at its place in `paths`, each drive at its place in `drive_paths`.
    fn check(&self, paths: &[String], drive_paths: &[String]) -> Result<(), Fault> {
        let Some(last) = paths.last() else {
            // Of several drives, one that takes any job.
            let personalities = || self.drives.iter().map(|drive| drive.plan.personality);
            let other = personalities().find(|personality| !personality.has_pairs());
            let (key, cure) = other.or(personalities().next()).unwrap_or_default().example();
            return Err(fault(key, "the scenario has no job", cure));
        };
        let mut names = BTreeSet::new();
        for (job, path) in self.jobs.iter().zip(paths) {
            if !names.insert(&job.name) {
                let what = format!("two jobs are called `{}`", job.name);
                let cure = "give each a name of its own: its random numbers follow from it";
                return Err(fault(format!("{path}.name"), what, cure));
            }
        }
        match &self.target {
            // Its hosts' queue pairs are its own: a drive's are shared by all of them.
            Some(target) => {
                let drives = self.drives.iter().zip(drive_paths);
                let drives = drives.map(|(drive, path)| (&drive.plan, &drive.transfer, path));
                target.check(&self.host, drives, &self.jobs.iter().zip(paths).collect::<Vec<_>>())?;
            }
            None => {
                if let Some((_, path)) = self.jobs.iter().zip(paths).find(|(job, _)| job.at_target) {
                    let cure = "write a section [target], or leave `at` out";
                    let what = format!("`{path}.at`: there is no target");
                    return Err(fault(format!("{path}.at"), what, cure));
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
            let cure = format!("lower `iodepth` or `numjobs`: at most {OUTSTANDING_MAX}");
            return Err(fault(format!("{last}.iodepth"), what, cure));
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

    /// Whether a drive has queue pairs for the workers of its jobs.
    fn check_queues(
        &self,
        number: usize,
        (drive, key): (&DrivePlan, &str),
        paths: &[String],
    ) -> Result<(), Fault> {
        let called = match &drive.name {
            Some(name) if self.drives.len() > 1 => format!("drive `{name}`"),
            _ => "the drive".to_owned(),
        };
        let own = || self.jobs.iter().zip(paths).filter(|(job, _)| job.drive == number);
        let Some((_, last)) = own().next_back() else { return Ok(()) };
        let workers: u64 = own().map(|(job, _)| u64::from(job.workers)).sum();
        let queues = drive.profile.controller.max_io_queues;
        if workers <= u64::from(queues) {
            return Ok(());
        }
        let what =
            format!("{workers} workers over all jobs need as many queue pairs, and {called} has {queues}");
        let cure = format!("lower `numjobs`, or set {key}.override.controller.max_io_queues = {workers}");
        Err(fault(format!("{last}.numjobs"), what, cure))
    }

    /// Commands that the run issues in all, if every job knows its own.
    pub fn command_count(&self) -> Option<u64> {
        self.jobs.iter().map(JobPlan::command_count).try_fold(0u64, |sum, count| sum.checked_add(count?))
    }

    /// How far virtual time goes at most, if every job has a runtime.
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

    /// Whether what I/O costs the host is reported by component.
    pub fn accounts_for_host(&self) -> bool {
        let is_hosted = |drive: &Attached| drive.plan.profile.takes_host() || drive.plan.array.is_some();
        self.host_cost.unwrap_or_else(|| self.drives.iter().any(is_hosted))
    }

    /// Whether any job's reads of a drive are checked.
    pub fn verifies(&self, drive: usize) -> bool {
        self.jobs_of(drive).any(|job| job.verify.is_on())
    }

    /// Whether any job asks a drive for pairs.
    pub fn asks_for_pairs(&self, drive: usize) -> bool {
        let is_of_drive =
            |job: &JobPlan| matches!(&job.source, Source::Pairs(plan) if plan.engine == Engine::Drive);
        self.jobs_of(drive).any(is_of_drive)
    }

    /// What a reader of the result should know about the inputs of a drive: what was assumed, skipped, wrapped. Holds no
    /// paths.
    pub fn notes(&self, drive: usize) -> Vec<String> {
        let mut notes = self.translated.clone();
        let plan = &self.drives[drive].plan;
        if plan.age.0 > 0 && plan.profile.flash.reliability.is_none() {
            notes.push("drive.age changes nothing: the profile has no flash.reliability".to_owned());
        }
        if self.jobs_of(drive).next().is_none() {
            notes.push("no job uses it".to_owned());
        }
        for job in self.jobs_of(drive) {
            if let Source::Pairs(pairs) = &job.source {
                notes.extend(pairs.note().map(|note| format!("job {}: {note}", job.name)));
                if pairs.engine != Engine::Drive {
                    notes.push(format!(
                        "job {}: pairs are kept by a tree on the host (LevelDB's), whose processor time and file system cost \
                         nothing",
                        job.name
                    ));
                }
            }
            let Source::Trace(replay) = &job.source else { continue };
            let (scan, tally) = (&replay.scan, &replay.scan.tally);
            let mut note = |text: String| notes.push(format!("job {}: {text}", job.name));
            let file = byteway_trace::file_name(&replay.path);
            note(format!("{file} taken as {}; {} records", replay.read.assumption(), tally.records));
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
                let cure = if lba_bytes > 512 { "; drive.lba_size = \"512 B\" may fit them" } else { "" };
                note(format!(
                    "{} records that begin or end within a block of {lba_bytes} B were widened to whole blocks{cure}",
                    scan.widened
                ));
            }
            if scan.commands > tally.records {
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
    schemars::schema_for!(ScenarioFile).to_value()
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
