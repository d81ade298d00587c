//! A check for a steady state: it warns a reader who takes a run's mean for a property of the drive.
//!
//! A drive that begins empty, filled, or as another workload left it changes while it is written to, and its
//! figures then depend on the length of the run. So the first half of the measured part is compared with the
//! second: the throughput of each job, and, of a drive that collects garbage, what drifts beneath: its free
//! superblocks, write amplification and write buffer. The rate of an open loop is the same on a drive that
//! catches up, or falls behind, and only these tell.
//!
//! No note is made
//! - of the throughput of jobs whose rate the drive does not determine: open loops, timed traces, rate limits, pauses;
//! - of runs in phases, or of jobs that begin later or end earlier than others: their rate is meant to change;
//! - of runs that are too short: with fewer than `IOS_LEAST` I/Os in a half, or less than `SPAN_LEAST_NS` in
//!   total, a few garbage collections dominate the figures;
//! - of a drive that does not collect yet: it is measured as it began, and its free superblocks have to fall.

use super::{DrivePoint, Point, Series};
use byteway_clock::{Delay, Time};
use byteway_content::UNIT_BYTES;
use byteway_firmware::Base;
use byteway_scenario::profile::Geometry;
use byteway_scenario::{DrivePlan, Scenario};
use byteway_workload::{Distribution, Issue, JobPlan, Kind, Source};

/// Prefix of these notes.
pub const NOT_STEADY: &str = "not steady:";
/// Relative difference of the halves that is tolerated.
const DIFFERENCE_MOST: f64 = 0.1;
/// I/Os of a job in each half, at least.
const IOS_LEAST: u64 = 1000;
/// Length of the measured part in nanoseconds, at least: the dies of a drive erase and collect in turns of
/// some tens of milliseconds.
const SPAN_LEAST_NS: f64 = 200e6;
/// Steps of the series, at least: with fewer, the halves would be too unequal.
const STEPS_LEAST: usize = 8;
/// Free superblocks of a die by which the halves may differ: each die has one more or fewer as it collects.
const FREE_OF_DIE: f64 = 0.25;

/// The steps in which all jobs run and are measured: none of runs in phases, or with jobs that begin later.
pub(super) fn of_all_jobs<'a>(series: &'a Series, jobs: &[JobPlan]) -> Vec<&'a Point> {
    let Some(first) = jobs.first() else { return Vec::new() };
    let is_one_phase = |job: &JobPlan| job.phase == first.phase && job.start_delay.0 == 0;
    if !jobs.iter().all(is_one_phase) {
        return Vec::new();
    }
    let ramp_ns = jobs.iter().map(|job| job.ramp.0 as f64 / 1000.0).fold(series.measured_from_ns, f64::max);
    let mut measured: Vec<_> = series.points.iter().filter(|point| point.begin_ns >= ramp_ns).collect();
    let is_at_work = |job: usize| {
        measured.iter().rposition(|point| {
            let of_job = &point.jobs[job];
            of_job.read.ios + of_job.write.ios + of_job.trim.ios > 0
        })
    };
    // Until the first job ends.
    let end = (0..jobs.len()).filter_map(is_at_work).min();
    measured.truncate(end.map_or(0, |end| end + 1));
    measured
}

/// A note for each job whose throughput differs between the halves, and one if what drifts in the drive differs.
/// `drive` is the plan of the one drive whose figures the series has, which began at `start`: if the drive throttles more or less from within the
/// measured part on, that is named in place of what else would help.
pub fn notes(series: &Series, jobs: &[JobPlan], drive: &DrivePlan, start: Time) -> Vec<String> {
    let steps = of_all_jobs(series, jobs);
    let (Some(begin_ns), Some(end_ns)) =
        (steps.first().map(|step| step.begin_ns), steps.last().map(|step| step.end_ns))
    else {
        return Vec::new();
    };
    if steps.len() < STEPS_LEAST || end_ns - begin_ns < SPAN_LEAST_NS {
        return Vec::new();
    }
    let after = |ns: f64| start + Delay::from_ps((ns * 1000.0) as u64);
    let throttle = drive.throttle();
    let mut changes = throttle.iter().flat_map(|throttle| &throttle.steps).map(|(at, _)| *at);
    let advice = match changes.find(|at| *at > after(begin_ns) && *at < after(end_ns)) {
        None => "set `ramp_time` to exclude the start, and a longer runtime".to_owned(),
        Some(at) => format!(
            "the drive throttles otherwise from {} of the run on (`drive.temperature`): measure before and after it apart",
            at.since(start)
        ),
    };
    let middle_ns = 0.5 * (begin_ns + end_ns);
    let split = steps.partition_point(|step| 0.5 * (step.begin_ns + step.end_ns) < middle_ns);
    let halves = [&steps[..split], &steps[split..]];
    let beneath = Beneath::of_halves(halves);
    let of_chance = beneath.as_ref().map_or(0.0, |halves| of_chance(halves, drive));
    let of_job = |(number, job): (usize, &JobPlan)| {
        let is_the_drives = job.issue == Issue::Closed && job.cap.is_none() && job.think.is_none();
        let [(first_ios, first), (second_ios, second)] = halves.map(|half| flow(half, number));
        let is_long = first_ios.min(second_ios) >= IOS_LEAST;
        if !is_the_drives || !is_long || is_alike(first, second, of_chance) {
            return None;
        }
        let name = if jobs.len() > 1 { format!("job {}: ", job.name) } else { String::new() };
        Some(format!(
            "{NOT_STEADY} {name}first half {}IOPS, second half {}IOPS ({:+.0} %); {advice}",
            scaled(first),
            scaled(second),
            (second / first - 1.0) * 100.0
        ))
    };
    jobs.iter()
        .enumerate()
        .filter_map(of_job)
        .chain(beneath.and_then(|halves| drift(&halves, of_chance, drive, &advice)))
        .collect()
}

fn is_alike(first: f64, second: f64, of_chance: f64) -> bool {
    (second / first - 1.0).abs() <= DIFFERENCE_MOST + of_chance
}

/// I/Os of a job, and their rate in a second.
fn flow(steps: &[&Point], job: usize) -> (u64, f64) {
    let ios = steps.iter().map(|step| &step.jobs[job]);
    let ios: u64 = ios.map(|job| job.read.ios + job.write.ios + job.trim.ios).sum();
    let ns: f64 = steps.iter().map(|step| step.end_ns - step.begin_ns).sum();
    (ios, ios as f64 / ns * 1e9)
}

/// What drifts in a drive, over some steps.
struct Beneath {
    written: u64,
    erases: u64,
    amplification: f64,
    free: f64,
    buffered: f64,
}

impl Beneath {
    /// Both halves of a run that writes enough, and collects.
    fn of_halves(halves: [&[&Point]; 2]) -> Option<[Beneath; 2]> {
        let [first, second] = [Beneath::of(halves[0])?, Beneath::of(halves[1])?];
        let is_enough = first.written.min(second.written) >= IOS_LEAST && first.erases.max(second.erases) > 0;
        is_enough.then_some([first, second])
    }

    fn of(steps: &[&Point]) -> Option<Beneath> {
        let drives = || steps.iter().filter_map(|step| step.drive.as_ref());
        let sum = |of: fn(&DrivePoint) -> u64| drives().map(of).sum::<u64>();
        let count = drives().count();
        let mean = |of: fn(&DrivePoint) -> u64| sum(of) as f64 / count as f64;
        let written = sum(|drive| drive.host_written_bytes);
        (count > 0 && written > 0).then(|| Beneath {
            written: written / UNIT_BYTES as u64,
            erases: sum(|drive| drive.erases),
            amplification: sum(|drive| drive.programmed_bytes) as f64 / written as f64,
            free: mean(|drive| drive.free_superblocks),
            buffered: mean(|drive| drive.buffered_bytes),
        })
    }
}

/// Difference of the halves by chance: dies collect a superblock at a time, and the host gets one at a time, so a half has one more or
/// fewer.
fn of_chance([first, second]: &[Beneath; 2], drive: &DrivePlan) -> f64 {
    let geometry = &drive.geometry;
    let superblock = f64::from(geometry.planes) * f64::from(geometry.pages) * f64::from(geometry.page_bytes)
        / UNIT_BYTES as f64;
    superblock / first.written.min(second.written) as f64 + 1.0 / first.erases.max(second.erases) as f64
}

/// The note for what drifts in a drive.
fn drift([first, second]: &[Beneath; 2], of_chance: f64, drive: &DrivePlan, advice: &str) -> Option<String> {
    let geometry = &drive.geometry;
    let dies = f64::from(geometry.channels) * f64::from(geometry.ways) * f64::from(geometry.dies);
    let mut found = Vec::new();
    let (before, after) = (first.amplification, second.amplification);
    if !is_alike(before, after, of_chance) {
        found.push(format!("write amplification {before:.2}, then {after:.2}"));
    }
    let free = (second.free - first.free).abs();
    if free > FREE_OF_DIE * dies && free > DIFFERENCE_MOST * first.free {
        let [before, after] = [first.free, second.free].map(|free| free / dies);
        found.push(format!("free superblocks of a die {before:.2}, then {after:.2}"));
    }
    let buffer = drive.profile.firmware.write_buffer.0 as f64;
    if (second.buffered - first.buffered).abs() > DIFFERENCE_MOST * buffer {
        let of_it = |bytes: f64| 100.0 * bytes / buffer;
        found.push(format!(
            "write buffer {:.0} %, then {:.0} %",
            of_it(first.buffered),
            of_it(second.buffered)
        ));
    }
    (!found.is_empty()).then(|| {
        format!("{NOT_STEADY} in the first half of the run and in the second: {}; {advice}", found.join("; "))
    })
}

/// Superblocks of data per die below which a constructed steady state is imprecise: each then holds a large
/// part of the data, and depends on the others.
const SUPERBLOCKS_LEAST: f64 = 8.0;

/// Drives of more than this number are measured once only when their steady state is constructed: each time all of them are simulated.
pub const SETTLED_DRIVES_MOST: usize = 8;
/// Share of a drive that its jobs have to overwrite for the steady state of the whole.
const OVERWRITTEN_LEAST: f64 = 0.9;
/// Writes that fill a superblock, at least, for them to be as good as single units: of longer ones a superblock holds few, and loses much at once.
const SUPERBLOCK_WRITES_LEAST: u64 = 64;

/// Notes for a drive that is overwritten from its constructed steady state on and measured from there, if that is not the steady state
/// of these writes, or only close to it. `number` is the index of the drive in the scenario; `written_before` are the bytes that the host had
/// written to it when measuring began: the drive has left its beginning behind, whatever that was, when they overwrite all that jobs write. A
/// shorter warm-up leaves a mixture, and excuses nothing.
pub fn rough_start(scenario: &Scenario, number: usize, writes: bool, written_before: u64) -> Vec<String> {
    let drive = &scenario.drives[number].plan;
    if drive.precondition != Base::Steady || !writes {
        return Vec::new();
    }
    let overwrites = Overwrites::of(scenario, number);
    if written_before >= overwrites.blocks.saturating_mul(drive.lba_bytes.into()) {
        return Vec::new();
    }
    let found = [
        few_superblocks(drive),
        measured_once(scenario, number),
        other_turns(scenario, number),
        overwrites.others(drive),
    ];
    found.into_iter().flatten().map(|what| format!("rough start: {what}")).collect()
}

/// How much dies leave to writes, and so to garbage collection, depends on the order in which they serve what waits. The state is constructed
/// from their time alone.
fn other_turns(scenario: &Scenario, number: usize) -> Option<String> {
    let DrivePlan { policies, profile, .. } = &scenario.drives[number].plan;
    let reads = |job: &JobPlan| !matches!(&job.source, Source::Synthetic(own) if !own.rw.has_reads());
    let suspends = profile.flash.suspend.as_ref().is_some_and(|suspend| suspend.most > 0);
    let is_other = !policies.schedule.is_default() || suspends && scenario.jobs_of(number).any(reads);
    is_other.then(|| {
        "the steady state is constructed as if dies served what waits by `flash.schedule = \"priority\"`, without suspensions: write amplification \
         may begin far from where it goes until all that is written was overwritten; set `warmup` or `ramp_time` to exclude that"
            .to_owned()
    })
}

fn few_superblocks(drive: &DrivePlan) -> Option<String> {
    let geometry = &drive.geometry;
    let superblock = f64::from(geometry.planes) * f64::from(geometry.pages) * f64::from(geometry.page_bytes);
    let superblocks = geometry.capacity_bytes as f64 / f64::from(geometry.die_count()) / superblock;
    (superblocks < SUPERBLOCKS_LEAST).then(|| {
        format!(
            "with {superblocks:.1} superblocks of data on a die the constructed steady state is an approximation, and \
             writes are up to a quarter faster or slower than in the steady state until all that is written was overwritten; choose a larger \
             `drive.capacity`, or set `warmup` or `ramp_time` to exclude that"
        )
    })
}

/// What jobs write of a drive.
struct Overwrites {
    /// In which other order than uniform random.
    order: Option<String>,
    /// Blocks that they write to.
    blocks: u64,
}

impl Overwrites {
    fn of(scenario: &Scenario, number: usize) -> Overwrites {
        let drive = &scenario.drives[number].plan;
        let Geometry { planes, pages, page_bytes, .. } = drive.geometry;
        let long_bytes =
            u64::from(planes) * u64::from(pages) * u64::from(page_bytes) / SUPERBLOCK_WRITES_LEAST;
        let mut order = None;
        let mut ranges: Vec<(u32, u64, u64)> = Vec::new();
        for job in scenario.jobs_of(number) {
            let is = match &job.source {
                Source::Synthetic(own) if !own.rw.has_writes() => {
                    if own.rw.kinds().contains(&Kind::Trim) {
                        order.get_or_insert(format!("job {} trims blocks", job.name));
                    }
                    continue;
                }
                Source::Synthetic(own) if own.rw.is_sequential() => Some("sequential"),
                Source::Synthetic(own) if own.rw.trims_then_writes() => Some("each behind a trim"),
                Source::Synthetic(own) if own.distribution != Distribution::Uniform => Some("skewed"),
                Source::Synthetic(own) => {
                    let longest = u64::from(own.lengths.get(Kind::Write).max()) * u64::from(job.lba_bytes);
                    (longest > long_bytes).then_some("long")
                }
                Source::Trace(_) => Some("those of a trace"),
                // Nobody knows beforehand in which order it writes.
                Source::Own(_) => Some("those of a source that is not built in"),
                // Drives with pairs or tables begin empty.
                _ => continue,
            };
            order = order.or(is.map(|is| format!("the writes of job {} are {is}", job.name)));
            let workers = if job.stride_blocks.is_some() { job.workers } else { 1 };
            for worker in 0..workers {
                let begin = job.range_lba + u64::from(worker) * job.stride_blocks.unwrap_or(0);
                ranges.push((
                    job.nsid,
                    begin,
                    begin.saturating_add(job.range_blocks).min(job.namespace_blocks),
                ));
            }
        }
        ranges.sort_unstable();
        let (mut blocks, mut behind) = (0, (0, 0));
        for (nsid, begin, end) in ranges {
            let begin = if behind.0 == nsid { begin.max(behind.1) } else { begin };
            blocks += end.saturating_sub(begin);
            behind = (nsid, if behind.0 == nsid { end.max(behind.1) } else { end });
        }
        Overwrites { order, blocks }
    }

    /// What is constructed is the state that uniform random overwrites of the whole drive leave. Another order leaves another, which a drive
    /// reaches by the time that most of it was overwritten.
    fn others(self, drive: &DrivePlan) -> Option<String> {
        let share = self.blocks as f64 / (drive.namespace_blocks * u64::from(drive.namespaces)) as f64;
        let few = || format!("jobs write to {:.3} % of it", 100.0 * share);
        let what = self.order.or_else(|| (share < OVERWRITTEN_LEAST).then(few))?;
        Some(format!(
            "the constructed steady state is that of uniform random overwrites of the whole drive, and {what}: figures move until most of what \
         is written was overwritten; set `warmup` or `ramp_time` to exclude that, or begin with `precondition = \"filled\"`"
        ))
    }
}

fn measured_once(scenario: &Scenario, number: usize) -> Option<String> {
    let is_mixed = |job: &JobPlan| {
        job.issue == Issue::Closed
            && matches!(&job.source, Source::Synthetic(own) if own.rw.has_writes() && own.rw.has_reads())
    };
    let drives = scenario.drives.len();
    (drives > SETTLED_DRIVES_MOST && scenario.jobs_of(number).any(is_mixed)).then(|| {
        format!(
            "with {drives} drives, more than {SETTLED_DRIVES_MOST}, the steady state under closed loops that read and write is constructed \
             for the rate that was measured once, and write amplification may begin far from where it goes until all that is written was overwritten; \
             set `warmup` or `ramp_time` to exclude that"
        )
    })
}

/// A note for a drive that collected garbage with another spare than its profile asks for, because it is small. In the steady state a
/// scenario refuses it.
pub fn other_spare(scenario: &Scenario, number: usize, collected: u64) -> Option<String> {
    let plan = &scenario.drives[number].plan;
    // The members of an array are alike.
    let DrivePlan { profile, geometry, .. } = plan.members().next()?;
    (collected > 0 && !profile.has_its_spare(geometry)).then(|| {
        format!(
            "spare: of so small a drive it is {:.3} %, in whole superblocks, and not firmware.op = {}; writes are amplified as with that",
            100.0 * profile.spare(geometry),
            profile.firmware.op
        )
    })
}

/// Three digits, with the prefix of the unit that follows.
fn scaled(iops: f64) -> String {
    match iops {
        ..1e3 => format!("{iops:.0} "),
        ..1e4 => format!("{:.2} K ", iops / 1e3),
        ..1e5 => format!("{:.1} K ", iops / 1e3),
        ..1e6 => format!("{:.0} K ", iops / 1e3),
        _ => format!("{:.2} M ", iops / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_scenario::Options;
    use std::path::Path;

    // "free superblocks 3, then 3" told a reader that nothing had changed: a small drive has few, and a quarter of one of each die matters.
    #[test]
    fn what_has_changed_differs_where_it_is_said() {
        let drive = |channels: u32| {
            let text = format!(
                "[drive]\nprofile = 'samsung-970-pro'\ncapacity = '1 GiB'\noverride.flash.channels = {channels}\noverride.flash.ways = 1\n\
                 [[job]]\nrw = 'randwrite'\ncount = 1\n"
            );
            let scenario = Scenario::from_text("s.toml", Path::new(""), &text, &Options::default());
            scenario.unwrap_or_else(|error| panic!("{error}")).drives.remove(0).plan
        };
        let half =
            |free: f64| Beneath { written: 1 << 20, erases: 1000, amplification: 2.0, free, buffered: 0.0 };
        let note = |free: [f64; 2], channels: u32| drift(&free.map(half), 0.01, &drive(channels), "");
        let said = note([2.8, 3.15], 1).expect("more than a quarter");
        assert!(said.contains("free superblocks of a die 2.80, then 3.15; "), "{said}");
        let said = note([12.0, 10.4], 4).expect("more than a quarter of each die");
        assert!(said.contains("free superblocks of a die 3.00, then 2.60; "), "{said}");
        assert_eq!(note([2.8, 3.0], 1), None);
        assert_eq!(note([12.0, 11.2], 4), None);
    }
}
