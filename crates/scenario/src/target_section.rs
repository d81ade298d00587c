//! The sections of a target and its network as they are written.

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
    /// Commands of remote hosts that are at a drive at once; others wait at the target. From 1 to 1023, which it is if left out.
    #[serde(default)]
    pub remote_outstanding: Option<u32>,
    /// Past the block layer: commands of jobs at the target that each of a drive's queue pairs has at once. From 1 to 1024; left out,
    /// as many as these jobs could have.
    #[serde(default)]
    pub local_outstanding: Option<u32>,
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
