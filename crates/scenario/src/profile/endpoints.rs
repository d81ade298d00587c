//! `[endpoints]` of a profile: the hardware of a drive whose firmware runs on the host.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::completion::Completion;
use super::fault::{Fault, MILLISECOND, SECOND, fault, one_of, within};
use super::switch::{self, Switch};
use byteway_console::units::{Bytes, Frequency, Picos, Rate};

/// Where the firmware runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FirmwarePlacement {
    /// On the drive's own cores.
    #[default]
    Device,
    /// On the host's processors, before the link: `firmware.clock`, `firmware.cycles` and `dram` are the host's, and the drive's
    /// hardware is in `[endpoints]`.
    Host,
    /// On the drives behind a bridge, which is in `[bridge]`: each has its own.
    Bridge,
}

/// Parts of a drive's firmware that run on the host, while the rest is on its own cores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnHost {
    /// The map is in the host's memory: look-ups are work of the processor of a command's queue.
    #[serde(default)]
    pub map: bool,
    /// The host decides what is collected.
    #[serde(default)]
    pub collection: bool,
    /// A processor of the host. What a piece of work takes stands in `firmware.cycles`.
    pub clock: Frequency,
    /// An access to the host's memory. Left out, 80 ns.
    #[serde(default = "dram_latency")]
    pub dram: Picos,
}

fn dram_latency() -> Picos {
    Picos(80_000)
}

impl OnHost {
    pub(super) fn check(&self) -> Result<(), Fault> {
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
    /// Endpoints: each has the same number of the flash's channels.
    pub count: u32,
    /// Lanes of an endpoint's own link, of the generation of `link`; left out, as many as that has.
    #[serde(default)]
    pub lanes: Option<u8>,
    /// The switch's latency; `link` is the one between host and switch. Left out, 150 ns.
    #[serde(default = "switch_latency")]
    pub switch: Picos,
    /// What an endpoint has room for in the switch, in each direction. Left out, 4 KiB.
    #[serde(default = "buffer")]
    pub buffer: Bytes,
    /// Commands under way at an endpoint. Left out, 64.
    #[serde(default = "outstanding")]
    pub outstanding: u32,
    /// An endpoint's hardware: from a command's fetch to the flash, and from there to its completion. It keeps no processor busy.
    #[serde(default)]
    pub latency: Picos,
    /// Processor time of the host for a raw command: to submit it.
    #[serde(default)]
    pub submit: Picos,
    /// For its completion.
    #[serde(default)]
    pub complete: Picos,
    /// For an interrupt, before the first completion is looked at.
    #[serde(default)]
    pub interrupt: Picos,
    /// How the host learns of a raw command's completion. Left out, by interrupt.
    #[serde(default = "by_interrupt")]
    pub completion: Completion,
    /// Memory of the host that the driver takes before any I/O: its image, and what it keeps ready. Left out, 0.
    #[serde(default)]
    pub image: Bytes,
    /// An application's thread calls the firmware, and comes back when its command is buffered or looked up: from each processor one
    /// at a time. Of a call so much keeps no processor busy. Left out, a processor may have any number of commands in the firmware.
    #[serde(default)]
    pub call: Option<Picos>,
    /// Payload is copied through buffers of the driver, at so many bytes a second of a processor. Left out, or false, endpoints' data
    /// goes to and from applications' memory itself.
    #[serde(default, deserialize_with = "switch::deserialize", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Switch<Rate>")]
    pub bounce: Option<Rate>,
    /// Whether map and write buffer have one lock, so that one command at a time is translated and buffered, whatever the number of
    /// processors. Left out, true.
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
    /// Whether a drive with so many channels can have them.
    pub(super) fn check(&self, channels: u32) -> Result<(), Fault> {
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
