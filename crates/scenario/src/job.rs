//! Plans of jobs: every value of a job's section is checked against the job's drive. The section comes from a
//! scenario, or from the flags of a benchmark.

use std::fmt;
use std::path::PathBuf;

use super::drive::DrivePlan;
use super::file::{Arbitration, DeviceChoice, IssueMode, JobPlace, JobSection, TraceSection};
use super::format_name::FormatName;
use super::personality::Personality;
use super::plan::{COUNT_MAX, HostPlan, Options, RUNTIME_MAX, check_name};
use crate::profile::{KeyError, fault, within};
use crate::source::Index;
use byteway_clock::random::Rng;
use byteway_text::error::{InputError, suggest};
use byteway_text::units::{Bytes, Picos, Portion, excerpt};
use byteway_trace::{self, Format, ReadOptions};
use byteway_workload::own::{OwnPlan, UnknownSource};
use byteway_workload::{
    Beyond, ByKind, Cap, Distribution, Generator, Issue, JobPlan, JobSettings, Kind, Layout, Lengths, Rw,
    Scan, Source, Synthetic, Think, TracePlan, Verify, scan,
};

/// Default depth of an open loop.
const OPEN_DEPTH: u32 = 128;

/// The longest I/O to blocks: each outstanding I/O has its own buffer.
const IO_BYTES_MAX: Bytes = Bytes(64 << 20);

/// Memory for all outstanding I/Os of a job with split I/Os, at most: it is allocated before the first is
/// issued.
const SPLIT_BYTES_MAX: Bytes = Bytes(4 << 30);

/// Limits of drive and host for a job.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The drive's personality.
    pub personality: Personality,
    /// Bytes of a logical block.
    pub lba_bytes: u32,
    /// Number of namespaces.
    pub namespaces: u32,
    /// Size of the job's namespace in logical blocks.
    pub namespace_blocks: u64,
    /// Entries of a queue, at most.
    pub queue_entries_max: u32,
    /// Longest transfer of a command, in bytes.
    pub transfer_bytes_max: u64,
    /// Whether queues have priority classes.
    pub weighted: bool,
    /// Default verification of reads.
    pub verify: Verify,
}

impl Limits {
    pub(super) fn of(drive: &DrivePlan, host: &HostPlan) -> Self {
        let controller = &drive.profile.controller;
        let (lba_bytes, namespace_blocks) = drive.address_space();
        Limits {
            personality: drive.personality,
            lba_bytes,
            namespaces: if drive.personality.has_sink() { 1 } else { drive.namespaces },
            namespace_blocks,
            queue_entries_max: controller.max_queue_entries,
            transfer_bytes_max: controller.mdts.0,
            weighted: host.arbitration == Arbitration::Weighted,
            verify: host.verify,
        }
    }
}

/// Keys of a job that say what is drawn.
const DRAWN: [&str; 9] = [
    "rw",
    "rwmixread",
    "rwmixwrite",
    "bs",
    "bsrange",
    "bssplit",
    "blockalign",
    "random_distribution",
    "norandommap",
];

/// Source of a job's section, which determines the names of its keys in messages.
#[derive(Clone, Copy)]
pub enum Keys<'a> {
    /// A section of a scenario.
    Section {
        /// Path of the section, such as `job.0`.
        path: &'a str,
        /// Locations of the keys.
        index: &'a Index,
    },
    /// The command line.
    Flags,
}

impl Keys<'_> {
    /// The user's name of the key.
    fn name(&self, key: &str) -> String {
        match self {
            Keys::Section { path, .. } => format!("{path}.{key}"),
            Keys::Flags => format!("--{}", key.replace('_', "-")),
        }
    }

    /// Whether the user set the key, even to its default value.
    fn has(&self, key: &str) -> bool {
        match self {
            Keys::Section { path, index } => index.has(&format!("{path}.{key}")),
            Keys::Flags => false,
        }
    }

    /// The user's name of the job.
    fn job(&self) -> &str {
        match self {
            Keys::Section { path, .. } => path,
            Keys::Flags => "the job",
        }
    }

    /// The user's name of the block size.
    fn lba_size(&self) -> &'static str {
        match self {
            Keys::Section { .. } => "drive.lba_size",
            Keys::Flags => "the drive's logical block",
        }
    }
}

/// A job section being turned into a plan.
pub struct Draft<'a> {
    /// The section.
    pub section: &'a JobSection,
    /// Names and locations of its keys.
    pub keys: Keys<'a>,
    /// Limits of drive and host.
    pub limits: Limits,
    /// What the command line, or the program, adds.
    pub options: &'a Options,
}

impl Draft<'_> {
    fn key(&self, key: &str) -> String {
        self.keys.name(key)
    }

    fn fault(&self, key: &str, what: impl fmt::Display, help: impl Into<String>) -> KeyError {
        fault(self.key(key), format!("`{}`: {what}", self.key(key)), help)
    }

    /// The plan; a trace still has to be scanned with [`Draft::replay`].
    ///
    /// # Errors
    /// The first invalid value, at its key.
    pub fn plan(&self, name: &str) -> Result<JobPlan, KeyError> {
        let (section, limits) = (self.section, &self.limits);
        let name = section.name.clone().unwrap_or_else(|| name.to_owned());
        check_name(&self.key("name"), &name)?;
        within(&self.key("namespace"), section.namespace, 1, limits.namespaces)?;
        within(&self.key("numjobs"), section.numjobs, 1, 1024)?;
        let (range_lba, range_blocks) = self.range()?;
        let depth_max = (limits.queue_entries_max - 1).min(65535);
        if let Some(iodepth) = section.iodepth {
            within(&self.key("iodepth"), iodepth, 1, depth_max)?;
        }
        if let Some(count) = section.count {
            within(&self.key("count"), count, 1, COUNT_MAX)?;
        }
        if let Some(io_size) = section.io_size {
            within(&self.key("io_size"), io_size, Bytes(1), Bytes(1 << 60))?;
        }
        if let Some(runtime) = section.runtime {
            within(&self.key("runtime"), runtime, Picos(1), RUNTIME_MAX)?;
        }
        for (key, time) in [("ramp_time", section.ramp_time), ("startdelay", section.startdelay)] {
            if let Some(time) = time {
                within(&self.key(key), time, Picos(0), RUNTIME_MAX)?;
            }
        }
        if self.keys.has("priority") && !limits.weighted {
            let help = "set `arbitration = \"weighted\"` in [host], or leave `priority` out";
            return Err(self.fault("priority", "has no effect under round robin", help));
        }
        let count_max = limits.personality.command_units_max();
        let transfer_blocks_max =
            (limits.transfer_bytes_max / u64::from(limits.lba_bytes)).min(count_max) as u32;
        if let Some(writes) = section.fsync {
            within(&self.key("fsync"), writes, 1, u32::MAX)?;
        }
        if limits.personality.has_sink() {
            self.check_sink()?;
        }
        let (issue, cap, source) = match (&section.source, &section.trace) {
            (Some(named), _) => {
                let own = self.own(named, range_blocks, transfer_blocks_max)?;
                let (issue, cap) = self.issue()?;
                (issue, cap, Source::Own(own))
            }
            (None, Some(trace)) => (self.check_trace(trace)?, None, PENDING),
            (None, None) => {
                let synthetic = self.synthetic(range_blocks, transfer_blocks_max)?;
                let (issue, cap) = self.issue()?;
                (issue, cap, Source::Synthetic(synthetic))
            }
        };
        let settings = JobSettings {
            name,
            drive: 0,
            at_target: section.at == JobPlace::Target,
            nsid: section.namespace,
            lba_bytes: limits.lba_bytes,
            range_lba,
            range_blocks,
            stride_blocks: section.offset_increment.map(|bytes| bytes.0 / u64::from(limits.lba_bytes)),
            namespace_blocks: limits.namespace_blocks,
            iodepth: section.iodepth.unwrap_or(match issue {
                Issue::Closed => 1,
                Issue::Open { .. } | Issue::Trace => OPEN_DEPTH.min(depth_max),
            }),
            workers: section.numjobs,
            issue,
            cap,
            think: self.think(issue)?,
            flush_after: section.fsync,
            phase: 0,
            start_delay: section.startdelay.unwrap_or_default(),
            ramp: section.ramp_time.unwrap_or_default(),
            verify: section.verify.unwrap_or(limits.verify),
            priority: section.priority,
            count: section.count,
            io_bytes: section.io_size.map(|bytes| bytes.0),
            runtime: section.runtime,
            transfer_blocks_max,
        };
        let mut plan = JobPlan { settings, source };
        let is_bounded = plan.count.is_some() || plan.runtime.is_some() || plan.io_bytes.is_some();
        if let Source::Own(own) = &plan.source {
            self.fits_memory(&plan, own.blocks_max)?;
            if !own.ends && !is_bounded {
                self.ends()?;
                plan.io_bytes = Some(one_pass(&plan, 1));
            }
        }
        if let (Source::Synthetic(synthetic), None) = (&plan.source, &section.trace) {
            let kinds = synthetic.rw.kinds().iter().filter(|kind| **kind != Kind::Trim);
            let longest = kinds.map(|kind| synthetic.lengths.get(*kind).max()).max().unwrap_or(0);
            self.fits_memory(&plan, longest)?;
            if !is_bounded {
                self.ends()?;
                plan.io_bytes = Some(one_pass(&plan, synthetic.lengths.min_of(synthetic.rw)));
            }
            // Errors that only the generator finds are also reported before the run, at their location.
            for worker in [0, plan.workers - 1] {
                if let Err(error) = Generator::new(&plan, worker, &Rng::new(0)) {
                    return Err(fault(self.key("random_distribution"), error.what, error.help));
                }
            }
        }
        Ok(plan)
    }

    /// Refuses keys that apply to block namespaces only.
    fn check_sink(&self) -> Result<(), KeyError> {
        if self.section.trace.is_some() {
            let help = "leave [job.trace] out, or set `drive.personality = \"block\"`";
            return Err(self.fault("trace", "a sink has no blocks, which is what traces ask for", help));
        }
        if self.section.fsync.is_some() {
            let help = "leave it out, or set `drive.personality = \"block\"`";
            return Err(self.fault("fsync", "a sink has nothing to flush", help));
        }
        match self.section.rw {
            Some(rw) if rw.kinds().contains(&Kind::Trim) => {
                Err(self.fault("rw", "a sink has nothing to be trimmed", "choose a read or write"))
            }
            _ => Ok(()),
        }
    }

    /// Whether there is memory for I/Os that are longer than one command.
    fn fits_memory(&self, plan: &JobPlan, longest: u32) -> Result<(), KeyError> {
        let outstanding = u64::from(plan.workers) * u64::from(plan.iodepth);
        let bytes = Bytes((outstanding * u64::from(longest)).saturating_mul(u64::from(plan.lba_bytes)));
        if longest <= plan.transfer_blocks_max || bytes.0 <= SPLIT_BYTES_MAX.0 {
            return Ok(());
        }
        let what = format!(
            "{outstanding} outstanding I/Os of up to {} take {bytes} of memory, more than {SPLIT_BYTES_MAX}",
            Bytes(u64::from(longest) * u64::from(plan.lba_bytes))
        );
        Err(self.fault("iodepth", what, "choose a lower `iodepth` or `numjobs`, or a smaller `bs`"))
    }

    /// Whether a job without another limit goes over its range once.
    fn ends(&self) -> Result<(), KeyError> {
        if self.section.size.is_some() {
            return Ok(());
        }
        let job = self.keys.job();
        let help = "add `count = 100000`, `runtime = \"1 s\"`, or `size = \"1 GiB\"` to go over so much once";
        Err(fault(job, format!("`{job}` never ends"), help))
    }

    /// First block and length of the range; of the first worker's range if each has its own.
    fn range(&self) -> Result<(u64, u64), KeyError> {
        let lba = u64::from(self.limits.lba_bytes);
        let whole = Bytes(self.limits.namespace_blocks * lba);
        for (key, portion) in [("offset", Some(self.section.offset)), ("size", self.section.size)] {
            if let Some(Portion::Part(percent)) = portion
                && !(0.0..=100.0).contains(&percent.0)
            {
                let what = format!("{percent} is not a part of the namespace");
                return Err(self.fault(key, what, "choose 0 % to 100 %, or a size"));
            }
        }
        // Whole logical blocks, and whole pages of most drives.
        let unit = lba.max(4096);
        let offset = self.section.offset.of(whole, unit);
        let multiple = |key: &str, bytes: Bytes| {
            if bytes.0.is_multiple_of(lba) {
                return Ok(());
            }
            let help = format!("choose a multiple of {}", Bytes(lba));
            Err(self.fault(key, format!("{bytes} is not a multiple of {}", self.keys.lba_size()), help))
        };
        multiple("offset", offset)?;
        if offset.0 >= whole.0 {
            let help = format!("choose an offset below {whole}, or a larger drive");
            return Err(self.fault("offset", format!("{offset} is beyond the namespace of {whole}"), help));
        }
        let increment = self.section.offset_increment.unwrap_or_default();
        multiple("offset_increment", increment)?;
        let beyond = increment.0.saturating_mul(u64::from(self.section.numjobs - 1));
        let rest = Bytes(whole.0 - offset.0);
        if beyond >= rest.0 {
            let what = format!("the last worker would begin beyond the namespace of {whole}");
            let help = "choose a smaller increment or `numjobs`, or a larger drive";
            return Err(self.fault("offset_increment", what, help));
        }
        let size = match self.section.size {
            None => rest,
            Some(portion @ Portion::Part(_)) => portion.of(whole, unit).min(Bytes(rest.0 - beyond)),
            Some(Portion::Bytes(size)) => size,
        };
        multiple("size", size)?;
        let room = match self.section.size {
            Some(_) => Bytes(rest.0 - beyond),
            None => rest,
        };
        if size.0 == 0 || size.0 > room.0 {
            let from = Bytes(offset.0 + beyond);
            let what = format!("{size} from {from} is not within the namespace of {whole}");
            return Err(self.fault(
                "size",
                what,
                format!("choose a size of at most {room}, or a larger drive"),
            ));
        }
        Ok((offset.0 / lba, size.0 / lba))
    }

    fn synthetic(&self, range_blocks: u64, transfer_blocks_max: u32) -> Result<Synthetic, KeyError> {
        let section = self.section;
        let Some(rw) = section.rw else {
            let help = "add `rw = \"randread\"` (or read, write, randwrite, rw, randrw, trim, randtrim, trimwrite, randtrimwrite), \
                        or [job.trace]";
            let job = self.keys.job();
            return Err(fault(job, format!("`{job}` says neither `rw` nor `trace`"), help));
        };
        let lengths = self.lengths(rw, range_blocks, transfer_blocks_max)?;
        let random_only = [
            ("random_distribution", section.random_distribution.is_some()),
            ("blockalign", section.blockalign.is_some()),
            ("norandommap", section.norandommap.is_some()),
        ];
        if let Some((key, _)) = random_only.iter().find(|(_, given)| *given && rw.is_sequential()) {
            let what =
                "contradicts `rw`: read, write, rw, trim and trimwrite are sequential, rand... are random";
            return Err(self.fault(key, what, "leave it out, or change `rw`"));
        }
        let distribution = section.random_distribution.clone().unwrap_or_default();
        let once = section.norandommap == Some(false);
        if once && (distribution != Distribution::Uniform || lengths.fixed(rw).is_none()) {
            let what = "accessing each block once is only possible with `random_distribution = \"random\"` and one `bs`";
            return Err(self.fault("norandommap", what, "leave it out"));
        }
        let align_blocks = self.align_blocks(&lengths, rw, range_blocks)?;
        if once && align_blocks.is_some() {
            let what = "accessing each block once is only possible without `blockalign`";
            return Err(self.fault("norandommap", what, "leave it out"));
        }
        if let Distribution::ZonedAbs(zones) = &distribution {
            let range = Bytes(range_blocks * u64::from(self.limits.lba_bytes));
            let sum = zones.iter().fold(0u64, |sum, zone| sum.saturating_add(zone.size.0));
            if sum > range.0 {
                let what =
                    format!("its zones of {} together are more than the job's range of {range}", Bytes(sum));
                let help = "choose smaller zones, or a larger `size`";
                return Err(self.fault("random_distribution", what, help));
            }
        }
        Ok(Synthetic { rw, read_percent: self.read_percent(rw)?, lengths, align_blocks, distribution, once })
    }

    /// Alignment of random addresses, if set: at most what leaves space for the longest I/O.
    fn align_blocks(
        &self,
        lengths: &ByKind<Lengths>,
        rw: Rw,
        range_blocks: u64,
    ) -> Result<Option<u32>, KeyError> {
        let Some(bytes) = self.section.blockalign else { return Ok(None) };
        let lba = u64::from(self.limits.lba_bytes);
        if bytes.0 == 0 || !bytes.0.is_multiple_of(lba) {
            let what = format!("{bytes} is not a multiple of {} = {}", self.keys.lba_size(), Bytes(lba));
            return Err(self.fault("blockalign", what, format!("choose a multiple of {}", Bytes(lba))));
        }
        let longest = u64::from(lengths.max_of(rw));
        match u32::try_from(bytes.0 / lba)
            .ok()
            .filter(|blocks| u64::from(*blocks).max(longest) <= range_blocks)
        {
            Some(blocks) => Ok(Some(blocks)),
            None => {
                let what = format!("{bytes} is more than the job's range");
                Err(self.fault("blockalign", what, "choose less, or a larger `size`"))
            }
        }
    }

    fn read_percent(&self, rw: Rw) -> Result<u8, KeyError> {
        let (read, write) = (self.section.rwmixread, self.section.rwmixwrite);
        for (key, share) in [("rwmixread", read), ("rwmixwrite", write)] {
            let Some(share) = share else { continue };
            if !rw.is_mixed() {
                let help = "choose `rw = \"rw\"` or `\"randrw\"`, or leave it out";
                return Err(self.fault(key, "there is no mix", help));
            }
            within(&self.key(key), share, 0, 100)?;
        }
        match (read, write) {
            (Some(read), Some(write)) if read + write != 100 => {
                let what = format!("{write} contradicts `rwmixread` = {read}: they don't sum to 100");
                Err(self.fault("rwmixwrite", what, "leave one of the two out"))
            }
            (Some(read), _) => Ok(read),
            (None, write) => Ok(100 - write.unwrap_or(50)),
        }
    }

    /// Lengths from `bs`, `bsrange` or `bssplit`, of which at most one may be set.
    fn lengths(
        &self,
        rw: Rw,
        range_blocks: u64,
        transfer_blocks_max: u32,
    ) -> Result<ByKind<Lengths>, KeyError> {
        let section = self.section;
        let given = [
            ("bs", section.bs.is_some()),
            ("bsrange", section.bsrange.is_some()),
            ("bssplit", section.bssplit.is_some()),
        ];
        let mut given = given.iter().filter(|(_, given)| *given).map(|(key, _)| *key);
        let key = given.next().unwrap_or("bs");
        if let Some(other) = given.next() {
            return Err(self.fault(
                other,
                format!("`{key}` has said it already"),
                "leave one of the two out",
            ));
        }
        let mut lengths = Synthetic::fixed(rw, 1).lengths;
        for kind in rw.kinds().iter().copied() {
            let blocks = |bytes| self.io_blocks(key, kind, bytes, transfer_blocks_max);
            *lengths.get_mut(kind) = if let Some(range) = section.bsrange.and_then(|all| *all.0.get(kind)) {
                Lengths::Range { min: blocks(range.min)?, max: blocks(range.max)? }
            } else if let Some(split) = section.bssplit.as_ref().and_then(|all| all.0.get(kind).as_ref()) {
                let parts = split.0.iter().map(|(bytes, share)| Ok((blocks(*bytes)?, *share)));
                Lengths::Split(parts.collect::<Result<_, KeyError>>()?)
            } else {
                let bytes = section.bs.and_then(|all| *all.0.get(kind)).unwrap_or(Bytes(4096));
                Lengths::Fixed(blocks(bytes)?)
            };
        }
        if rw.trims_then_writes() && lengths.trim != lengths.write {
            let what = "what is trimmed is also written, so there is one size for both";
            return Err(self.fault(key, what, "give the same size for writes and trims"));
        }
        let lba = u64::from(self.limits.lba_bytes);
        let range = Bytes(range_blocks * lba);
        let shared = rw.is_sequential() && section.offset_increment.is_none();
        let slices = if shared { u64::from(section.numjobs) } else { 1 };
        let unit = u64::from(lengths.min_of(rw));
        let most = rw.kinds().iter().map(|kind| lengths.get(*kind).max()).max().unwrap_or(1);
        if unit.saturating_mul(slices) > range_blocks || u64::from(most) > range_blocks {
            let bytes = Bytes(u64::from(most) * lba);
            let what =
                format!("{bytes} for each of {slices} workers do not fit in the job's range of {range}");
            return Err(self.fault(key, what, "choose a smaller `bs` or `numjobs`, or a larger `size`"));
        }
        Ok(lengths)
    }

    /// Number of logical blocks in an I/O of `bytes`.
    fn io_blocks(
        &self,
        key: &str,
        kind: Kind,
        bytes: Bytes,
        transfer_blocks_max: u32,
    ) -> Result<u32, KeyError> {
        let lba = Bytes(u64::from(self.limits.lba_bytes));
        if bytes.0 == 0 {
            return Err(self.fault(key, "an I/O of no bytes does nothing", format!("choose {lba} or more")));
        }
        if !bytes.0.is_multiple_of(lba.0) {
            let what = format!("{bytes} is not a multiple of {} = {lba}", self.keys.lba_size());
            return Err(self.fault(key, what, format!("choose a multiple of {lba}, or another lba_size")));
        }
        let blocks = bytes.0 / lba.0;
        // A trim moves no data, so the drive's transfer limit does not apply; a range has a length of 32
        // bits.
        let (limit, why) = match kind {
            Kind::Trim => (u64::from(u32::MAX), "a trim's range"),
            // A payload is one command; an I/O to blocks may be split, but into a limited number of commands.
            _ if self.limits.personality.has_sink() => {
                (u64::from(transfer_blocks_max), "one command transfers (controller.mdts)")
            }
            _ => (IO_BYTES_MAX.0 / lba.0, "an I/O may have"),
        };
        if blocks > limit {
            let most = Bytes(limit * lba.0);
            let help = format!("choose at most {most}, or override the limit in the profile");
            return Err(self.fault(key, format!("{bytes} is more than {why}"), help));
        }
        Ok(blocks as u32)
    }

    fn think(&self, issue: Issue) -> Result<Option<Think>, KeyError> {
        let section = self.section;
        let Some(time) = section.thinktime else {
            return match section.thinktime_blocks {
                Some(_) => {
                    let help = "add `thinktime = \"1 ms\"`, or leave it out";
                    Err(self.fault("thinktime_blocks", "there is no `thinktime`", help))
                }
                None => Ok(None),
            };
        };
        if issue != Issue::Closed {
            let what = "an open loop does not pause: its I/Os have fixed due times";
            return Err(self.fault("thinktime", what, "leave it out, or choose a closed loop"));
        }
        within(&self.key("thinktime"), time, Picos(0), RUNTIME_MAX)?;
        let blocks = section.thinktime_blocks.unwrap_or(1);
        within(&self.key("thinktime_blocks"), blocks, 1, u32::MAX)?;
        Ok((time.0 > 0).then_some(Think { time, blocks }))
    }

    fn issue(&self) -> Result<(Issue, Option<Cap>), KeyError> {
        const IOPS_MAX: u64 = 1_000_000_000;
        let section = self.section;
        if section.issue == Some(IssueMode::Open) {
            if section.rate.is_some() {
                let help = "give the rate of an open loop as `rate_iops`";
                return Err(self.fault("rate", "limits a closed loop, and this one is open", help));
            }
            let Some(rates) = section.rate_iops else {
                return Err(self.fault("issue", "an open loop needs a rate", "add `rate_iops = 100000`"));
            };
            let rates = rates.0;
            let (Some(rate), true) = (rates.read, rates.read == rates.write && rates.write == rates.trim)
            else {
                let help = "write one number, and the shares as `rwmixread`";
                return Err(self.fault("rate_iops", "an open loop has one rate for all its I/Os", help));
            };
            within(&self.key("rate_iops"), rate.0, 1, IOPS_MAX)?;
            return Ok((
                Issue::Open { rate_iops: rate.0, arrival: section.arrival.unwrap_or_default() },
                None,
            ));
        }
        if section.arrival.is_some() {
            let help = "add `issue = \"open\"`, or leave it out";
            return Err(self.fault("arrival", "a closed loop waits for completions, not for arrivals", help));
        }
        if section.rate.is_some() && section.rate_iops.is_some() {
            let help = "leave one of the two out";
            return Err(self.fault("rate", "`rate_iops` limits the job already", help));
        }
        let cap = match (section.rate, section.rate_iops) {
            (Some(rates), _) => {
                let rates = ByKind::from_fn(|kind| rates.0.get(kind).map(|rate| rate.0));
                for rate in [rates.read, rates.write, rates.trim].into_iter().flatten() {
                    within(&self.key("rate"), rate, 1, 1 << 50)?;
                }
                Some(Cap::Bytes(rates))
            }
            (None, Some(rates)) => {
                let rates = ByKind::from_fn(|kind| rates.0.get(kind).map(|rate| rate.0));
                for rate in [rates.read, rates.write, rates.trim].into_iter().flatten() {
                    within(&self.key("rate_iops"), rate, 1, IOPS_MAX)?;
                }
                Some(Cap::Iops(rates))
            }
            (None, None) => None,
        };
        Ok((Issue::Closed, cap))
    }

    /// The source of this name, which is not built in.
    fn own(&self, text: &str, range_blocks: u64, transfer_blocks_max: u32) -> Result<OwnPlan, KeyError> {
        if let Some(key) = DRAWN.iter().chain(&["trace"]).find(|key| self.keys.has(key)) {
            let what = format!("the job's I/Os are those of the source `{}`", excerpt(text));
            let help = "leave it out: the source says what is read and written; what it is told stands behind a colon in its name";
            return Err(self.fault(key, what, help));
        }
        let sources = &self.options.sources;
        let source = sources.find(text).map_err(|unknown| match unknown {
            UnknownSource::Argument(wrong) => {
                let path = self.key("source");
                fault(&path, format!("`{path}` = `{}` {}", excerpt(text), wrong.what), wrong.help)
            }
            UnknownSource::Name => {
                let name = text.split_once(':').map_or(text, |(name, _)| name);
                let known: Vec<&str> = sources.each().map(|(name, _)| name).collect();
                let help = match known[..] {
                    [] => "this program adds none: docs/tasks/write-a-workload.md says how one does; built in are `rw` and [job.trace]".to_owned(),
                    _ => suggest(name, &known),
                };
                self.fault("source", format!("there is no source `{}`", excerpt(name)), help)
            }
        })?;
        let says = source.says(|made| (made.ends(), made.bytes_max()));
        let (ends, bytes_max) = says.map_err(|wrong| {
            let what = format!("the source `{}` {}", excerpt(text), wrong.what);
            self.fault("source", what, wrong.help)
        })?;
        let most = u32::try_from(range_blocks).unwrap_or(u32::MAX);
        let blocks_max = match bytes_max {
            Some(bytes) => self.io_blocks("source", Kind::Read, Bytes(bytes), transfer_blocks_max)?,
            None => transfer_blocks_max,
        };
        let trims = !self.limits.personality.has_sink();
        Ok(OwnPlan { source, ends, blocks_max: blocks_max.min(most), trims })
    }

    fn check_trace(&self, trace: &TraceSection) -> Result<Issue, KeyError> {
        let of_loops = [
            "issue",
            "rate_iops",
            "rate",
            "arrival",
            "offset_increment",
            "io_size",
            "thinktime",
            "thinktime_blocks",
        ];
        if let Some(key) = DRAWN.iter().chain(&of_loops).find(|key| self.keys.has(key)) {
            let help = match *key {
                "issue" => "write `mode = \"open\"` or `\"closed\"` in [job.trace]",
                _ => "leave it out: addresses, lengths and times come from the trace",
            };
            return Err(self.fault(key, "the job replays a trace", help));
        }
        self.format(trace)?;
        let path = self.key("trace.time_scale");
        if !(1e-6..=1e6).contains(&trace.time_scale) {
            let what = format!("`{path}` = {} is out of range", trace.time_scale);
            return Err(fault(path, what, "choose a value from 0.000001 to 1000000.0"));
        }
        if trace.wrap && trace.beyond.is_some_and(|beyond| beyond != Beyond::Wrap) {
            let help = "leave `wrap` out: it is short for `beyond = \"wrap\"`";
            return Err(self.fault("trace.wrap", "contradicts `beyond`", help));
        }
        within(&self.key("trace.repeat"), trace.repeat, 1, 1_000_000)?;
        if let Some(number) = trace.reads_are {
            within(&self.key("trace.reads_are"), number, 0, 1)?;
        }
        if trace.mode == IssueMode::Open && trace.columns.as_ref().is_some_and(|columns| !columns.has_time())
        {
            let help = "name a column time_s, time_ms, time_us or time_ns, or set `mode = \"closed\"`";
            return Err(self.fault("trace.columns", "an open replay needs the times of the records", help));
        }
        Ok(match trace.mode {
            IssueMode::Open => Issue::Trace,
            IssueMode::Closed => Issue::Closed,
        })
    }

    /// The trace's format, of those that are built in and those that the program adds.
    fn format(&self, trace: &TraceSection) -> Result<Format, KeyError> {
        let name = match &trace.format {
            FormatName::BuiltIn(format) => return Ok(*format),
            FormatName::Other(name) => name,
        };
        let formats = &self.options.formats;
        formats.find(name).ok_or_else(|| {
            let built_in = [Format::Auto].into_iter().chain(Format::ALL).map(Format::name);
            let known: Vec<&str> = built_in.chain(formats.each().map(|own| own.name())).collect();
            let what = format!("`{}` is not one of the choices", excerpt(name));
            self.fault("trace.format", what, suggest(name, &known))
        })
    }

    /// Scans the trace.
    pub fn replay(&self, plan: &JobPlan, path: PathBuf, trace: &TraceSection) -> Result<Source, InputError> {
        let replay = TracePlan {
            path,
            read: ReadOptions {
                format: self.format(trace).map_err(|fault| InputError::new(fault.what, fault.help))?,
                device: match trace.device {
                    DeviceChoice::All | DeviceChoice::Spread => None,
                    DeviceChoice::One(device) => Some(device),
                },
                skip_bad_lines: self.options.skip_bad_lines,
                reads_are: trace.reads_are,
                action: trace.action,
                unit: trace.unit,
                columns: trace.columns.clone(),
            },
            spread: trace.device == DeviceChoice::Spread,
            beyond: match trace.wrap {
                true => Beyond::Wrap,
                false => trace.beyond.unwrap_or_default(),
            },
            time_scale_q32: libm::round(trace.time_scale * 4_294_967_296.0) as u64,
            repeat: trace.repeat,
            layout: Layout::default(),
            scan: Scan::default(),
        };
        let found = scan(plan, &replay)?;
        let tally = &found.scan.tally;
        if tally.records == 0 {
            let what = format!(
                "the trace `{}` has no record to replay ({} of other devices, {} bad lines)",
                byteway_trace::file_name(&found.path),
                tally.other_devices,
                tally.bad_lines
            );
            return Err(InputError::new(what, "choose another `device`, `format` or file"));
        }
        Ok(Source::Trace(found))
    }
}

/// Bytes of the job's range, or of all ranges of its workers, in whole I/Os of so many blocks.
fn one_pass(plan: &JobPlan, io_blocks: u32) -> u64 {
    let unit = u64::from(io_blocks);
    let ranges = if plan.stride_blocks.is_some() { plan.workers } else { 1 };
    let blocks = (0..ranges).map(|worker| plan.range_of(worker).1 / unit * unit);
    blocks.fold(0, u64::saturating_add).saturating_mul(u64::from(plan.lba_bytes))
}

/// Placeholder in a plan until its trace has been scanned.
const PENDING: Source = Source::Synthetic(Synthetic::fixed(Rw::Read, 1));
