//! From a job's section to its plan: every value checked against the drive that it is for. The section comes from a
//! scenario, or from the flags of a benchmark.

use std::fmt;
use std::path::PathBuf;

use super::file::{DeviceChoice, IssueMode, JobSection, TraceSection};
use super::{Arbitration, COUNT_MAX, DrivePlan, HostPlan, RUNTIME_MAX, check_name};
use crate::error::InputError;
use crate::profile::{Fault, fault, within};
use crate::source::Index;
use crate::trace;
use crate::units::{Bytes, Picos};
use crate::workload::{Distribution, Issue, JobPlan, Rw, Scan, Source, Synthetic, TracePlan, scan};

/// I/Os of a worker that may be outstanding in an open loop whose scenario doesn't say.
const OPEN_DEPTH: u32 = 128;

/// What of drive and host bounds a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of a logical block.
    pub lba_bytes: u32,
    /// The highest namespace.
    pub namespaces: u32,
    /// Logical blocks of the job's namespace.
    pub namespace_blocks: u64,
    /// Entries of a queue.
    pub queue_entries_max: u32,
    /// Bytes of a command.
    pub transfer_bytes_max: u64,
    /// Whether queues have classes.
    pub weighted: bool,
}

impl Limits {
    pub(super) fn of(drive: &DrivePlan, host: &HostPlan) -> Self {
        let controller = &drive.profile.controller;
        Limits {
            lba_bytes: drive.lba_bytes,
            namespaces: drive.namespaces,
            namespace_blocks: drive.namespace_blocks,
            queue_entries_max: controller.max_queue_entries,
            transfer_bytes_max: controller.mdts.0,
            weighted: host.arbitration == Arbitration::Weighted,
        }
    }
}

/// Where a job's section comes from: what the user knows its keys as.
#[derive(Clone, Copy)]
pub(crate) enum Keys<'a> {
    /// A scenario, at this path.
    Section {
        /// `job.0`.
        path: &'a str,
        /// What was written where.
        index: &'a Index,
    },
    /// The command line.
    Flags,
}

impl Keys<'_> {
    /// What the user calls the key.
    fn name(&self, key: &str) -> String {
        match self {
            Keys::Section { path, .. } => format!("{path}.{key}"),
            Keys::Flags => format!("--{key}"),
        }
    }

    /// Whether he wrote it where it counts even with its default value.
    fn has(&self, key: &str) -> bool {
        match self {
            Keys::Section { path, index } => index.has(&format!("{path}.{key}")),
            Keys::Flags => false,
        }
    }

    /// What he calls the job.
    fn job(&self) -> &str {
        match self {
            Keys::Section { path, .. } => path,
            Keys::Flags => "the job",
        }
    }

    /// What he calls the size of a block.
    fn lba_size(&self) -> &'static str {
        match self {
            Keys::Section { .. } => "drive.lba_size",
            Keys::Flags => "the drive's logical block",
        }
    }
}

/// A job on its way from section to plan.
pub(crate) struct Draft<'a> {
    pub section: &'a JobSection,
    pub keys: Keys<'a>,
    pub limits: Limits,
}

impl Draft<'_> {
    fn key(&self, key: &str) -> String {
        self.keys.name(key)
    }

    fn fault(&self, key: &str, what: impl fmt::Display, cure: impl Into<String>) -> Fault {
        fault(self.key(key), format!("`{}`: {what}", self.key(key)), cure)
    }

    /// The plan. A replay's records are still missing.
    pub fn plan(&self, name: &str) -> Result<JobPlan, Fault> {
        let (section, limits) = (self.section, &self.limits);
        let name = section.name.clone().unwrap_or_else(|| name.to_owned());
        check_name(&self.key("name"), &name)?;
        within(&self.key("namespace"), section.namespace, 1, limits.namespaces)?;
        let (range_lba, range_blocks) = self.range()?;
        let depth_max = (limits.queue_entries_max - 1).min(65535);
        if let Some(iodepth) = section.iodepth {
            within(&self.key("iodepth"), iodepth, 1, depth_max)?;
        }
        within(&self.key("numjobs"), section.numjobs, 1, 1024)?;
        if let Some(count) = section.count {
            within(&self.key("count"), count, 1, COUNT_MAX)?;
        }
        if let Some(runtime) = section.runtime {
            within(&self.key("runtime"), runtime, Picos(1), RUNTIME_MAX)?;
        }
        if self.keys.has("priority") && !limits.weighted {
            let cure = "set `arbitration = \"weighted\"` in [host], or leave `priority` out";
            return Err(self.fault("priority", "has no effect under round robin", cure));
        }
        let transfer_blocks_max = (limits.transfer_bytes_max / u64::from(limits.lba_bytes)).min(65536) as u32;
        let (issue, source) = match &section.trace {
            Some(trace) => (self.check_trace(trace)?, PENDING),
            None => self.synthetic(range_blocks, transfer_blocks_max)?,
        };
        Ok(JobPlan {
            name,
            nsid: section.namespace,
            lba_bytes: limits.lba_bytes,
            range_lba,
            range_blocks,
            iodepth: section.iodepth.unwrap_or(match issue {
                Issue::Closed => 1,
                Issue::Open { .. } | Issue::Trace => OPEN_DEPTH.min(depth_max),
            }),
            workers: section.numjobs,
            issue,
            priority: section.priority,
            count: section.count,
            runtime: section.runtime,
            transfer_blocks_max,
            source,
        })
    }

    /// First block of the range and their number.
    fn range(&self) -> Result<(u64, u64), Fault> {
        let lba = u64::from(self.limits.lba_bytes);
        let whole = Bytes(self.limits.namespace_blocks * lba);
        let offset = self.section.offset;
        let multiple = |key: &str, bytes: Bytes| {
            if bytes.0.is_multiple_of(lba) {
                return Ok(());
            }
            let cure = format!("choose a multiple of {}", Bytes(lba));
            Err(self.fault(key, format!("{bytes} is not a multiple of {}", self.keys.lba_size()), cure))
        };
        multiple("offset", offset)?;
        if offset.0 >= whole.0 {
            let cure = format!("choose an offset below {whole}, or a larger drive");
            return Err(self.fault("offset", format!("{offset} is beyond the namespace of {whole}"), cure));
        }
        let rest = Bytes(whole.0 - offset.0);
        let size = self.section.size.unwrap_or(rest);
        multiple("size", size)?;
        if size.0 == 0 || size.0 > rest.0 {
            let what = format!("{size} from {offset} is not within the namespace of {whole}");
            return Err(self.fault(
                "size",
                what,
                format!("choose a size of at most {rest}, or a larger drive"),
            ));
        }
        Ok((offset.0 / lba, size.0 / lba))
    }

    fn synthetic(&self, range_blocks: u64, transfer_blocks_max: u32) -> Result<(Issue, Source), Fault> {
        let section = self.section;
        let Some(rw) = section.rw else {
            let cure = "add `rw = \"randread\"` (or read, write, randwrite, rw, randrw, trim, randtrim), or [job.trace]";
            let job = self.keys.job();
            return Err(fault(job, format!("`{job}` says neither `rw` nor `trace`"), cure));
        };
        if section.count.is_none() && section.runtime.is_none() {
            let job = self.keys.job();
            let what = format!("`{job}` never ends");
            return Err(fault(job, what, "add `count = 100000` or `runtime = \"1 s\"`"));
        }
        if section.rwmixread.is_some() && !rw.is_mixed() {
            let cure = "choose `rw = \"rw\"` or `\"randrw\"`, or leave it out";
            return Err(self.fault("rwmixread", "there is no mix", cure));
        }
        let read_percent = section.rwmixread.unwrap_or(50);
        within(&self.key("rwmixread"), read_percent, 0, 100)?;
        let distribution = match (rw.is_sequential(), section.distribution) {
            (true, None | Some(Distribution::Sequential)) => Distribution::Sequential,
            (false, None) => Distribution::Uniform,
            (false, Some(chosen)) if chosen != Distribution::Sequential => chosen,
            _ => {
                let what = "contradicts `rw`: read, write, rw, trim are sequential, rand... are random";
                return Err(self.fault("distribution", what, "leave it out, or change `rw`"));
            }
        };
        let bs = section.bs.unwrap_or(Bytes(4096));
        let lba = Bytes(u64::from(self.limits.lba_bytes));
        if bs.0 == 0 || !bs.0.is_multiple_of(lba.0) {
            let what = format!("{bs} is not a multiple of {} = {lba}", self.keys.lba_size());
            return Err(self.fault("bs", what, format!("choose a multiple of {lba}, or another lba_size")));
        }
        let io_blocks = bs.0 / lba.0;
        // A trim moves no data, so the drive's transfer limit does not bind it; one range has 32 bits.
        let (limit, why) = match rw {
            Rw::Trim | Rw::RandTrim => (u64::from(u32::MAX), "a trim's range"),
            _ => (u64::from(transfer_blocks_max), "one command transfers (controller.mdts)"),
        };
        if io_blocks > limit {
            let most = Bytes(limit * lba.0);
            let cure = format!("choose at most {most}, or override the limit in the profile");
            return Err(self.fault("bs", format!("{bs} is more than {why}"), cure));
        }
        let slices = if rw.is_sequential() { u64::from(section.numjobs) } else { 1 };
        if io_blocks * slices > range_blocks {
            let range = Bytes(range_blocks * lba.0);
            let what = format!("{bs} for each of {slices} workers do not fit in the job's range of {range}");
            return Err(self.fault("bs", what, "choose a smaller `bs` or `numjobs`, or a larger `size`"));
        }
        let synthetic = Synthetic { rw, read_percent, io_blocks: io_blocks as u32, distribution };
        Ok((self.issue()?, Source::Synthetic(synthetic)))
    }

    fn issue(&self) -> Result<Issue, Fault> {
        let section = self.section;
        match section.issue.unwrap_or_default() {
            IssueMode::Open => {
                let Some(rate_iops) = section.rate_iops else {
                    return Err(self.fault("issue", "an open loop needs a rate", "add `rate_iops = 100000`"));
                };
                within(&self.key("rate_iops"), rate_iops, 1, 1_000_000_000)?;
                Ok(Issue::Open { rate_iops, arrival: section.arrival.unwrap_or_default() })
            }
            IssueMode::Closed => {
                let given =
                    [("rate_iops", section.rate_iops.is_some()), ("arrival", section.arrival.is_some())];
                match given.iter().find(|(_, given)| *given) {
                    Some((key, _)) => {
                        let cure = "add `issue = \"open\"`, or leave it out";
                        Err(self.fault(key, "a closed loop has no rate", cure))
                    }
                    None => Ok(Issue::Closed),
                }
            }
        }
    }

    fn check_trace(&self, trace: &TraceSection) -> Result<Issue, Fault> {
        let foreign = ["rw", "rwmixread", "bs", "distribution", "issue", "rate_iops", "arrival"];
        if let Some(key) = foreign.iter().find(|key| self.keys.has(key)) {
            let cure = match *key {
                "issue" => "write `mode = \"open\"` or `\"closed\"` in [job.trace]",
                _ => "leave it out: addresses, lengths and times come from the trace",
            };
            return Err(self.fault(key, "the job replays a trace", cure));
        }
        let path = self.key("trace.time_scale");
        if !(1e-6..=1e6).contains(&trace.time_scale) {
            let what = format!("`{path}` = {} is out of range", trace.time_scale);
            return Err(fault(path, what, "choose a value from 0.000001 to 1000000.0"));
        }
        Ok(match trace.mode {
            IssueMode::Open => Issue::Trace,
            IssueMode::Closed => Issue::Closed,
        })
    }

    /// Reads the trace through once.
    pub fn replay(
        &self,
        plan: &JobPlan,
        path: PathBuf,
        trace: &TraceSection,
        skip_bad_lines: bool,
    ) -> Result<Source, InputError> {
        let mut replay = TracePlan {
            path,
            format: trace.format,
            device: match trace.device {
                DeviceChoice::All => None,
                DeviceChoice::One(device) => Some(device),
            },
            wrap: trace.wrap,
            time_scale_q32: libm::round(trace.time_scale * 4_294_967_296.0) as u64,
            skip_bad_lines,
            scan: Scan::default(),
        };
        let (format, scan) = scan(plan, &replay)?;
        if scan.tally.records == 0 {
            let what = format!(
                "the trace `{}` has no record to replay ({} of other devices, {} bad lines)",
                trace::file_name(&replay.path),
                scan.tally.other_devices,
                scan.tally.bad_lines
            );
            return Err(InputError::new(what, "choose another `device`, `format` or file"));
        }
        replay.format = format;
        replay.scan = scan;
        Ok(Source::Trace(replay))
    }
}

/// Stands in a plan until its trace has been read.
const PENDING: Source = Source::Synthetic(Synthetic {
    rw: Rw::Read,
    read_percent: 100,
    io_blocks: 1,
    distribution: Distribution::Sequential,
});
