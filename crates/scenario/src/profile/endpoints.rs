//! The section `[endpoints]` of a profile: the hardware of a drive whose firmware runs on the host.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::completion::Completion;
use super::fault::{KeyError, MILLISECOND, SECOND, fault, one_of, within};
use super::switch::{self, Switch};
use byteway_text::units::{Bytes, Frequency, Picos, Rate};

/// Where the firmware runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FirmwarePlacement {
    /// On the drive's own cores.
    #[default]
    Device,
    /// On the host's processors: `firmware.clock`, `firmware.cycles` and `dram` are the host's, and the
    /// drive's hardware is in `[endpoints]`.
    Host,
    /// On each of the drives behind the bridge in `[bridge]`.
    Bridge,
}

/// Parts of a drive's firmware that run on the host; the rest runs on its own cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnHost {
    /// Whether the map is in the host's memory: look-ups then run on the processor of a command's queue.
    #[serde(default)]
    pub map: bool,
    /// Whether the host selects victim blocks for garbage collection.
    #[serde(default)]
    pub collection: bool,
    /// Clock of a host processor. The cost of work is in `firmware.cycles`.
    pub clock: Frequency,
    /// Latency of the host's memory. Default: 80 ns.
    #[serde(default = "dram_latency")]
    pub dram: Picos,
}

fn dram_latency() -> Picos {
    Picos(80_000)
}

impl OnHost {
    pub(super) fn check(&self) -> Result<(), KeyError> {
        if !self.map && !self.collection {
            return Err(fault(
                "firmware.on_host",
                "`firmware.on_host`: neither the map nor collection is to be on the host",
                "set `map` or `collection` to true, or leave it out",
            ));
        }
        within("firmware.on_host.clock", self.clock, Frequency(1_000_000), Frequency(10_000_000_000))?;
        within("firmware.on_host.dram", self.dram, Picos(0), MILLISECOND)
    }
}

/// The hardware of a drive whose firmware runs on the host: endpoints with raw flash, behind a switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Endpoints {
    /// Number of endpoints, which divide the flash channels equally.
    pub count: u32,
    /// Lanes of an endpoint's link, of the generation of `link`. Default: as many as `link`.
    #[serde(default)]
    pub lanes: Option<u8>,
    /// Latency of the switch; `link` is the link between host and switch. Default: 150 ns.
    #[serde(default = "switch_latency")]
    pub switch: Picos,
    /// Buffer of an endpoint in the switch, in each direction. Default: 4 KiB.
    #[serde(default = "buffer")]
    pub buffer: Bytes,
    /// Outstanding commands of an endpoint, at most. Default: 64.
    #[serde(default = "outstanding")]
    pub outstanding: u32,
    /// Latency of an endpoint's hardware: from a command's fetch to the flash, and from there to its
    /// completion. Occupies no processor.
    #[serde(default)]
    pub latency: Picos,
    /// Processor time of the host to submit a raw command.
    #[serde(default)]
    pub submit: Picos,
    /// Processor time of the host for its completion.
    #[serde(default)]
    pub complete: Picos,
    /// Processor time of the host for an interrupt, before the first completion.
    #[serde(default)]
    pub interrupt: Picos,
    /// How the host detects completions of raw commands. Default: interrupt.
    #[serde(default = "by_interrupt")]
    pub completion: Completion,
    /// Memory of the host that the driver occupies before any I/O: its image, and preallocated buffers.
    /// Default: 0.
    #[serde(default)]
    pub image: Bytes,
    /// With synchronous calls: the part of a call that occupies no processor. An application's thread calls
    /// the firmware and returns when its command is buffered or looked up; each processor makes one call at a
    /// time. Omitted: a processor may have any number of commands in the firmware.
    #[serde(default)]
    pub call: Option<Picos>,
    /// Rate at which a processor copies payloads through bounce buffers of the driver, in bytes per second.
    /// Omitted or false: the endpoints access the application's memory directly.
    #[serde(default, deserialize_with = "switch::deserialize", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Switch<Rate>")]
    pub bounce: Option<Rate>,
    /// Whether map and write buffer share one lock, so that one command at a time is translated and buffered,
    /// for any number of processors. Default: true.
    #[serde(default = "locked")]
    pub lock: bool,
}

fn switch_latency() -> Picos {
    Picos(150_000)
}

fn buffer() -> Bytes {
    Bytes(4096)
}

fn outstanding() -> u32 {
    64
}

fn by_interrupt() -> Completion {
    Completion::Interrupt
}

fn locked() -> bool {
    true
}

impl Endpoints {
    /// Checks that a drive with this number of channels can have these endpoints.
    pub(super) fn check(&self, channels: u32) -> Result<(), KeyError> {
        within("endpoints.count", self.count, 1, 64)?;
        if !channels.is_multiple_of(self.count) {
            let what = format!(
                "`flash.channels` = {} don't divide among `endpoints.count` = {}",
                channels, self.count
            );
            return Err(fault("endpoints.count", what, "choose a divisor of the number of channels"));
        }
        if let Some(lanes) = self.lanes {
            one_of("endpoints.lanes", lanes.into(), &[1, 2, 4, 8, 12, 16, 32])?;
        }
        within("endpoints.switch", self.switch, Picos(0), MILLISECOND)?;
        within("endpoints.buffer", self.buffer, Bytes(256), Bytes(1 << 20))?;
        within("endpoints.outstanding", self.outstanding, 1, 4096)?;
        within("endpoints.image", self.image, Bytes(0), Bytes(1 << 40))?;
        if let Some(rate) = self.bounce {
            within("endpoints.bounce", rate, Rate(1_000_000), Rate(1_000_000_000_000))?;
        }
        for (key, time) in [
            ("latency", self.latency),
            ("submit", self.submit),
            ("complete", self.complete),
            ("interrupt", self.interrupt),
            ("call", self.call.unwrap_or_default()),
        ] {
            within(&format!("endpoints.{key}"), time, Picos(0), SECOND)?;
        }
        Ok(())
    }
}
