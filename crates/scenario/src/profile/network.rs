//! A network between a host and a target: the wire, the adapters, and what the drivers of both ends cost.

use super::fault::{SECOND, within};
use super::{Fault, fault, load};
use byteway_console::units::{Bytes, Picos, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The profiles of networks that are part of the program, by name.
pub const NETWORKS: [(&str, &str); 2] = [
    ("roce-100g", include_str!("../../../../profiles/network-roce-100g.toml")),
    ("tcp-100g", include_str!("../../../../profiles/network-tcp-100g.toml")),
];

/// A network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkProfile {
    /// How capsules and data cross.
    pub transport: Transport,
    /// What the wire carries a second, one way.
    pub rate: Rate,
    /// Wire and switch, one way.
    pub propagation: Picos,
    /// Payload of a packet at most: 256 B to 64 KiB.
    pub packet: Bytes,
    /// Bytes of a packet beside its payload.
    pub overhead: Bytes,
    /// From the post of a message to its first byte on the wire.
    pub send: Picos,
    /// From a message's last byte on the wire until it is in memory.
    pub receive: Picos,
    /// The most data that goes in a command's capsule: up to 64 KiB, a multiple of 16 B.
    pub in_capsule: Bytes,
    /// What the host's driver for the network costs, beside the host's profile.
    pub initiator: InitiatorCosts,
    /// What the target's driver for the network costs.
    pub target: TargetCosts,
    /// What the target's block layer costs.
    pub block: BlockCosts,
}

/// How capsules and data cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// The adapters read and write the other host's memory.
    Rdma,
    /// PDUs in a stream of bytes.
    Tcp,
}

/// What the host's driver for the network costs, beside what any driver costs there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InitiatorCosts {
    /// A command.
    pub submit: Picos,
    /// A completion.
    pub complete: Picos,
}

/// What the target's driver for the network costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetCosts {
    /// An interrupt of the adapter's, and the switch to who looks for what has come.
    pub interrupt: Picos,
    /// A command: taken, parsed, mapped.
    pub receive: Picos,
    /// Asking for data, and taking what has come.
    pub fetch: Picos,
    /// Posting data and response.
    pub respond: Picos,
    /// Learning that a response was sent.
    pub sent: Picos,
    /// A KiB of data that a processor copies.
    pub copy: Picos,
}

/// What the target's block layer costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlockCosts {
    /// A bio and a request are made, and a tag is taken.
    pub build: Picos,
    /// It is queued with a scheduler and chosen by it, where there is one.
    pub schedule: Picos,
    /// It is handed to the driver.
    pub dispatch: Picos,
    /// Its completion, from the driver to who has submitted it.
    pub complete: Picos,
    /// Requests that may be under way at once: 1 to 65535.
    pub tags: u32,
}

impl NetworkProfile {
    /// A profile that is part of the program; `None` if there is none of that name.
    pub fn built_in(name: &str) -> Option<NetworkProfile> {
        load::built_in(&NETWORKS, name, "network profile")
    }

    pub(crate) fn check(&self) -> Result<(), Fault> {
        within("rate", self.rate, Rate(1_000_000), Rate(1_000_000_000_000))?;
        within("packet", self.packet, Bytes(256), Bytes(64 << 10))?;
        within("overhead", self.overhead, Bytes(0), Bytes(4096))?;
        within("in_capsule", self.in_capsule, Bytes(0), Bytes(64 << 10))?;
        if !self.in_capsule.0.is_multiple_of(16) {
            let what = format!("`in_capsule`: {} is no multiple of 16 B", self.in_capsule);
            return Err(fault("in_capsule", what, "capsules are counted in units of 16 bytes"));
        }
        let InitiatorCosts { submit, complete } = &self.initiator;
        let TargetCosts { interrupt, receive, fetch, respond, sent, copy } = &self.target;
        let BlockCosts { build, schedule, dispatch, complete: block_complete, tags } = &self.block;
        for (key, time) in [
            ("propagation", &self.propagation),
            ("send", &self.send),
            ("receive", &self.receive),
            ("initiator.submit", submit),
            ("initiator.complete", complete),
            ("target.interrupt", interrupt),
            ("target.receive", receive),
            ("target.fetch", fetch),
            ("target.respond", respond),
            ("target.sent", sent),
            ("target.copy", copy),
            ("block.build", build),
            ("block.schedule", schedule),
            ("block.dispatch", dispatch),
            ("block.complete", block_complete),
        ] {
            within(key, *time, Picos(0), SECOND)?;
        }
        within("block.tags", *tags, 1, 65535)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A built-in profile that does not load, or says less than it should, fails only when somebody names it.
    #[test]
    fn built_in_networks_load() {
        for (name, text) in NETWORKS {
            let network = NetworkProfile::built_in(name).unwrap();
            network.check().map_err(|_| name).unwrap();
            assert!(text.starts_with("# "), "{name}");
        }
    }
}
