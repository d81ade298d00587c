//! The plan of a target between host and drives, and of its network: sections with their profiles resolved.

use super::drive::{DrivePlan, placed, profile_stem};
use super::file::{Arbitration, ScenarioFile};
use super::personality::Personality;
use super::plan::HostPlan;
use super::target_section::{BlockScheduler, TargetPath};
use super::transfer::TransferPlan;
use crate::profile::{self, Completion, HOSTS, HostProfile, KeyError, NETWORKS, NetworkProfile, fault};
use crate::source::{Index, Sources, Tree};
use byteway_text::error::InputError;
use byteway_transfer::Method;
use byteway_workload::JobPlan;

/// A target that can be built.
#[derive(Clone, Debug)]
pub struct TargetPlan {
    /// Name of its network's profile, without the directory.
    pub network_name: String,
    /// The network.
    pub network: NetworkProfile,
    /// Name of its host profile, without the directory.
    pub profile_name: String,
    /// Processors of the target, and the cost of its driver for the drives.
    pub profile: HostProfile,
    /// The path of commands to the drive.
    pub path: TargetPath,
    /// The I/O scheduler.
    pub scheduler: BlockScheduler,
    /// Maximum number of commands of remote hosts in flight at a drive.
    pub remote_outstanding: u32,
    /// Maximum number of commands of local jobs per queue pair of a drive; `None`: the number that they may
    /// have outstanding.
    pub local_outstanding: Option<u16>,
}

/// Maximum number of queue pairs of a host at a target's controller.
pub(crate) const QUEUES_MAX: u32 = 63;

/// Limit of `remote_outstanding`.
const REMOTE_MAX: u32 = 1023;

/// Outstanding I/Os of local jobs on a drive, at most.
const LOCAL_MAX: u64 = 1024;

/// Loads the profiles that a scenario names for its target, if it has one.
pub(crate) fn load<'t>(
    sources: &mut Sources<'t>,
    file: &ScenarioFile,
    index: &Index,
    target_over: Option<Tree<'t>>,
    network_over: Option<Tree<'t>>,
) -> Result<Option<TargetPlan>, InputError> {
    let Some(section) = &file.target else {
        return match &file.network {
            None => Ok(None),
            Some(_) => {
                let help = "write a section [target], or leave [network] out";
                let fault = fault("network", "`network`: there is no target at its other end", help);
                Err(placed(sources, index, fault))
            }
        };
    };
    let network = file.network.clone().unwrap_or_default();
    let span = |key: &str, section: &str| index.span(if index.has(key) { key } else { section });
    let at = span("network.profile", "target");
    let (profile, own): (NetworkProfile, Index) = profile::load(
        sources,
        &NETWORKS,
        &network.profile,
        at,
        network_over,
        ("network", "network profile"),
    )?;
    profile.check().map_err(|fault| placed(sources, &own, fault))?;
    let at = span("target.profile", "target");
    let (host, own): (HostProfile, Index) =
        profile::load(sources, &HOSTS, &section.profile, at, target_over, ("target", "host profile"))?;
    host.check().map_err(|fault| placed(sources, &own, fault))?;
    if section.path == TargetPath::Bypass && section.scheduler != BlockScheduler::None {
        let what = "`target.scheduler`: the path past the block layer has no scheduler";
        let fault = fault("target.scheduler", what, "leave it out, or set `path = \"block\"`");
        return Err(placed(sources, index, fault));
    }
    if section.path == TargetPath::Block && section.local_outstanding.is_some() {
        let what = "`target.local_outstanding`: through the block layer all commands share its tags";
        let help = "set `override.block.tags` of [network], or `path = \"bypass\"`";
        return Err(placed(sources, index, fault("target.local_outstanding", what, help)));
    }
    let limits = [
        ("remote", section.remote_outstanding, REMOTE_MAX),
        ("local", section.local_outstanding, LOCAL_MAX as u32),
    ];
    for (side, limit, most) in limits {
        if let Some(limit) = limit.filter(|limit| !(1..=most).contains(limit)) {
            let key = format!("target.{side}_outstanding");
            let what = format!("`{key}` = {limit}: not from 1 to {most}");
            return Err(placed(sources, index, fault(key, what, "choose one that is, or leave it out")));
        }
    }
    Ok(Some(TargetPlan {
        remote_outstanding: section.remote_outstanding.unwrap_or(REMOTE_MAX),
        local_outstanding: section.local_outstanding.map(|limit| limit as u16),
        network_name: profile_stem(&network.profile),
        network: profile,
        profile_name: profile_stem(&section.profile),
        profile: host,
        path: section.path,
        scheduler: section.scheduler,
    }))
}

impl TargetPlan {
    /// Checks the target against the rest of a scenario; drives and jobs come with their locations.
    pub(crate) fn check<'a>(
        &self,
        host: &HostPlan,
        drives: impl Iterator<Item = (&'a DrivePlan, &'a TransferPlan, &'a String)>,
        jobs: &[(&JobPlan, &String)],
    ) -> Result<(), KeyError> {
        if host.profile.completion == Completion::Polled {
            let what = "`host.profile`: a host learns of a network's completions by interrupts";
            let help = "choose a profile of this kind, such as \"xeon-e5-v4\" or \"linux-interrupt\"";
            return Err(fault("host.profile", what, help));
        }
        if host.arbitration == Arbitration::Weighted {
            let what = "`host.arbitration`: a target has no weighted arbitration";
            return Err(fault("host.arbitration", what, "leave it out"));
        }
        for (number, (drive, transfer, path)) in drives.enumerate() {
            let key = match drive.personality {
                Personality::Block if drive.kv_bytes > 0 => Some("kv_capacity"),
                Personality::Block => None,
                Personality::Kv if self.path == TargetPath::Bypass => None,
                Personality::Kv | Personality::Sink | Personality::Tables => Some("personality"),
            };
            if let Some(key) = key {
                let key = format!("{path}.{key}");
                let what =
                    format!("`{key}`: over a network, and through a block layer, only blocks are accessible");
                let help =
                    "leave it out, choose path = \"bypass\" for key-value pairs, or leave [target] out";
                return Err(fault(key, what, help));
            }
            if !transfer.rules.method.is_pointer() && transfer.rules.method != Method::Inline {
                let what = "`transfer.method`: over a network a payload is in its command's capsule, or behind a data pointer";
                let help = "choose inline (by the capsule, and inline to the target's drive), prp or sgl";
                return Err(fault("transfer.method", what, help));
            }
            let own = |at_target: bool| {
                jobs.iter().filter(move |(job, _)| job.drive == number && job.at_target == at_target)
            };
            let outstanding: u64 =
                own(true).map(|(job, _)| u64::from(job.workers) * u64::from(job.iodepth)).sum();
            if let Some((_, last)) = own(true).next_back().filter(|_| outstanding > LOCAL_MAX) {
                let what = format!("{outstanding} I/Os could be outstanding over the jobs at the target");
                let help = format!("lower `iodepth` or `numjobs`: at most {LOCAL_MAX}");
                return Err(fault(format!("{last}.iodepth"), what, help));
            }
        }
        Ok(())
    }
}
