//! A target between host and drives: its sections, and what is left of them once their profiles are loaded.

use crate::drive::{placed, profile_stem};
use crate::file::{Arbitration, ScenarioFile};
use crate::profile::{self, Completion, Fault, HOSTS, HostProfile, NETWORKS, NetworkProfile, fault};
use crate::source::{Index, Sources, Tree};
use crate::{Personality, Scenario};
use byteway_console::error::InputError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `[network]`: what lies between the host and the target.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkSection {
    /// A built-in network profile by name, or the path of one, from the folder of the scenario.
    #[serde(default = "roce")]
    pub profile: String,
    /// Keys of the network profile to be replaced, such as `rate = "3.125 GB/s"`.
    #[serde(default, rename = "override")]
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    pub overrides: Option<toml::Table>,
}

impl Default for NetworkSection {
    fn default() -> Self {
        NetworkSection { profile: roce(), overrides: None }
    }
}

/// `[target]`: the drives are not the host's but a target's, which it reaches over a network.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetSection {
    /// The target's host profile, by name or path: its processors, and what its driver for the drives costs.
    #[serde(default = "xeon")]
    pub profile: String,
    /// How commands get from the network to the drive.
    #[serde(default)]
    pub path: TargetPath,
    /// Who chooses among requests of the block layer.
    #[serde(default)]
    pub scheduler: BlockScheduler,
    /// Keys of the target's host profile to be replaced, such as `cores = 4`.
    #[serde(default, rename = "override")]
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    pub overrides: Option<toml::Table>,
}

fn roce() -> String {
    "roce-100g".to_owned()
}

fn xeon() -> String {
    "xeon-e5-v4".to_owned()
}

/// How commands get from the network to the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TargetPath {
    /// Through the block layer, as bios.
    #[default]
    Block,
    /// Past it, straight to the drive's queues (light-weight NVMe-oF).
    Bypass,
}

impl TargetPath {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            TargetPath::Block => "block",
            TargetPath::Bypass => "bypass",
        }
    }
}

/// Who chooses which request of the block layer is dispatched next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BlockScheduler {
    /// Nobody: as they come.
    #[default]
    None,
    /// By address, reads first.
    MqDeadline,
}

/// A target that can be built.
#[derive(Clone, Debug)]
pub struct TargetPlan {
    /// Name of its network's profile, without folder.
    pub network_name: String,
    /// The network.
    pub network: NetworkProfile,
    /// Name of its host profile, without folder.
    pub profile_name: String,
    /// Its processors, and what its driver for the drives costs.
    pub profile: HostProfile,
    /// How commands get to the drive.
    pub path: TargetPath,
    /// Who chooses among requests.
    pub scheduler: BlockScheduler,
}

/// Queue pairs that a host may have with a target's controller.
const QUEUES_MAX: u32 = 63;

/// I/Os that jobs at the target may have outstanding on a drive.
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
                let cure = "write a section [target], or leave [network] out";
                let fault = fault("network", "`network`: there is no target at its other end", cure);
                Err(placed(sources, index, fault))
            }
        };
    };
    let network = file.network.clone().unwrap_or_default();
    let span = |key: &str, section: &str| index.span(if index.has(key) { key } else { section });
    let at = span("network.profile", "target");
    let (profile, own): (NetworkProfile, Index) =
        profile::load(sources, &NETWORKS, &network.profile, at, network_over, "network profile")?;
    profile.check().map_err(|fault| placed(sources, &own, fault))?;
    let at = span("target.profile", "target");
    let (host, own): (HostProfile, Index) =
        profile::load(sources, &HOSTS, &section.profile, at, target_over, "host profile")?;
    host.check().map_err(|fault| placed(sources, &own, fault))?;
    if section.path == TargetPath::Bypass && section.scheduler != BlockScheduler::None {
        let what = "`target.scheduler`: past the block layer there is none";
        let fault = fault("target.scheduler", what, "leave it out, or set `path = \"block\"`");
        return Err(placed(sources, index, fault));
    }
    Ok(Some(TargetPlan {
        network_name: profile_stem(&network.profile),
        network: profile,
        profile_name: profile_stem(&section.profile),
        profile: host,
        path: section.path,
        scheduler: section.scheduler,
    }))
}

impl TargetPlan {
    /// What holds between the target and the rest of a scenario.
    pub(crate) fn check(&self, scenario: &Scenario) -> Result<(), Fault> {
        if scenario.host.profile.completion == Completion::Polled {
            let what = "`host.profile`: a host learns of a network's completions by interrupts";
            let cure = "choose a profile of this kind, such as \"xeon-e5-v4\" or \"linux-interrupt\"";
            return Err(fault("host.profile", what, cure));
        }
        if scenario.host.arbitration == Arbitration::Weighted {
            let what = "`host.arbitration`: a target has no weighted arbitration";
            return Err(fault("host.arbitration", what, "leave it out"));
        }
        for (number, drive) in scenario.drives.iter().enumerate() {
            if drive.plan.personality != Personality::Block {
                let what = "`drive.personality`: over a network a drive is asked for blocks";
                return Err(fault("drive.personality", what, "leave it out, or leave [target] out"));
            }
            if !drive.transfer.rules.method.is_pointer() {
                let what = "`transfer.method`: over a network data is described by data pointers";
                return Err(fault("transfer.method", what, "leave it out, or leave [target] out"));
            }
            let remote = scenario.jobs_of(number).filter(|job| !job.at_target);
            let workers: u32 = remote.map(|job| job.workers).sum();
            let local = scenario.jobs_of(number).filter(|job| job.at_target);
            let outstanding: u64 = local.map(|job| u64::from(job.workers) * u64::from(job.iodepth)).sum();
            if outstanding > LOCAL_MAX {
                let what = format!("{outstanding} I/Os could be outstanding over the jobs at the target");
                let cure = format!("lower `iodepth` or `numjobs`: at most {LOCAL_MAX}");
                return Err(fault("job.0.iodepth", what, cure));
            }
            if workers > QUEUES_MAX {
                let what =
                    format!("{workers} workers need as many queue pairs, and a target gives {QUEUES_MAX}");
                return Err(fault("job.0.numjobs", what, "lower `numjobs`"));
            }
        }
        Ok(())
    }
}
