//! The sections `[target]` and `[network]` of a scenario file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `[network]`: the network between the host and the target.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkSection {
    /// A built-in network profile by name, or the path of one, relative to the directory of the scenario.
    #[serde(default = "roce")]
    pub profile: String,
    /// Keys of the network profile to override, such as `rate = "3.125 GB/s"`.
    #[serde(default, rename = "override")]
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    pub overrides: Option<toml::Table>,
}

impl Default for NetworkSection {
    fn default() -> Self {
        NetworkSection { profile: roce(), overrides: None }
    }
}

/// `[target]`: the drives belong to a target, which the host reaches over a network.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetSection {
    /// The target's host profile, by name or path: its processors, and the cost of its driver for the drives.
    #[serde(default = "xeon")]
    pub profile: String,
    /// The path of commands from the network to the drive.
    #[serde(default)]
    pub path: TargetPath,
    /// I/O scheduler of the block layer.
    #[serde(default)]
    pub scheduler: BlockScheduler,
    /// Maximum number of commands of remote hosts in flight at a drive, 1 to 1023; others wait at the target.
    /// Default: 1023.
    #[serde(default)]
    pub remote_outstanding: Option<u32>,
    /// With `path = "bypass"`: commands of local jobs per queue pair of a drive, 1 to 1024. Default: as many
    /// as these jobs may have outstanding.
    #[serde(default)]
    pub local_outstanding: Option<u32>,
    /// Keys of the target's host profile to override, such as `cores = 4`.
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

/// The path of commands from the network to the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TargetPath {
    /// Through the block layer, as bios.
    #[default]
    Block,
    /// Directly to the drive's queues, bypassing the block layer (light-weight NVMe-oF).
    Bypass,
}

impl TargetPath {
    /// Name in a scenario.
    pub fn name(self) -> &'static str {
        match self {
            TargetPath::Block => "block",
            TargetPath::Bypass => "bypass",
        }
    }
}

/// I/O scheduler of the block layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BlockScheduler {
    /// None: requests are dispatched in order of arrival.
    #[default]
    None,
    /// Sorted by address, reads first.
    MqDeadline,
}
