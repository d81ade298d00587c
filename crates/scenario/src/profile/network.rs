//! Network profiles: the wire, the adapters, and the cost of the drivers at both ends.

use super::fault::{SECOND, within};
use super::{KeyError, fault, load};
use byteway_text::units::{Bytes, Picos, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The built-in network profiles, by name.
pub const NETWORKS: [(&str, &str); 2] = [
    ("roce-100g", include_str!("../../../../profiles/network-roce-100g.toml")),
    ("tcp-100g", include_str!("../../../../profiles/network-tcp-100g.toml")),
];

/// A network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkProfile {
    /// Transport of capsules and data.
    pub transport: Transport,
    /// Bandwidth of the wire in one direction.
    pub rate: Rate,
    /// Latency of wire and switch in one direction.
    pub propagation: Picos,
    /// Largest payload of a packet: 256 B to 64 KiB.
    pub packet: Bytes,
    /// Bytes of a packet in addition to its payload.
    pub overhead: Bytes,
    /// Time from posting a message to its first byte on the wire.
    pub send: Picos,
    /// Time from a message's last byte on the wire until it is in memory.
    pub receive: Picos,
    /// Largest in-capsule data: up to 64 KiB, a multiple of 16 B.
    pub in_capsule: Bytes,
    /// Cost of the host's transport driver, in addition to the host's profile.
    pub initiator: InitiatorCosts,
    /// Cost of the target's transport driver.
    pub target: TargetCosts,
    /// Cost of the target's block layer.
    pub block: BlockCosts,
}

/// Transport of capsules and data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// RDMA: the adapters access the other host's memory.
    Rdma,
    /// TCP: PDUs in a stream of bytes.
    Tcp,
}

/// Cost of the host's transport driver, in addition to that of any driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InitiatorCosts {
    /// Per command.
    pub submit: Picos,
    /// Per completion.
    pub complete: Picos,
}

/// Cost of the target's transport driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetCosts {
    /// Per interrupt of the adapter, with the switch to the task that polls the completion queue.
    pub interrupt: Picos,
    /// Per command: taking, parsing and mapping it.
    pub receive: Picos,
    /// Requesting data, and processing its arrival.
    pub fetch: Picos,
    /// Posting data and response.
    pub respond: Picos,
    /// Handling the send completion of a response.
    pub sent: Picos,
    /// Copying a KiB of data by a processor.
    pub copy: Picos,
}

/// Cost of the target's block layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlockCosts {
    /// Creating a bio and a request, and taking a tag.
    pub build: Picos,
    /// Queueing it in a scheduler and selecting it, if there is one.
    pub schedule: Picos,
    /// Handing it to the driver.
    pub dispatch: Picos,
    /// Completion, from the driver to the submitter.
    pub complete: Picos,
    /// Outstanding requests, at most: 1 to 65535.
    pub tags: u32,
}

impl NetworkProfile {
    /// A built-in profile; `None` if the name is unknown.
    pub fn built_in(name: &str) -> Option<NetworkProfile> {
        load::built_in(&NETWORKS, name, "network profile")
    }

    pub(crate) fn check(&self) -> Result<(), KeyError> {
        within("rate", self.rate, Rate(1_000_000), Rate(1_000_000_000_000))?;
        within("packet", self.packet, Bytes(256), Bytes(64 << 10))?;
        within("overhead", self.overhead, Bytes(0), Bytes(4096))?;
        within("in_capsule", self.in_capsule, Bytes(0), Bytes(64 << 10))?;
        if !self.in_capsule.0.is_multiple_of(16) {
            let what = format!("`in_capsule`: {} is not a multiple of 16 B", self.in_capsule);
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

    // A built-in profile that does not load would otherwise fail only when it is used.
    #[test]
    fn built_in_networks_load() {
        for (name, text) in NETWORKS {
            let network = NetworkProfile::built_in(name).unwrap();
            network.check().map_err(|_| name).unwrap();
            assert!(text.starts_with("# "), "{name}");
        }
    }
}
