//! Drive hardware without firmware that is driven across a link: flash and DMA, as in open-channel drives.
//!
//! The firmware sends vectors of flash commands, each for units anywhere in the flash (Open-Channel SSD 2.0,
//! 2.3; LightNVM). A vector costs its processor a submission and a completion, and the link what a driver and
//! a controller exchange for it: a doorbell write, the submission queue entry with its list of addresses, the
//! units themselves, and the completion. The map and the write buffer are at the firmware's end, so a unit
//! crosses the link when it is programmed or read from flash, not when the host writes it.
//!
//! A flash operation and its command run one after the other, and their order makes no difference to a task
//! that waits for both. Here the flash comes first, so that dies take operations in the order of the
//! firmware's decisions.
//!
//! What it does not do: recovery reads and the erases of a purge cost no command. Nothing is copied within
//! the hardware: garbage collection reads and writes across the link, as in Linux' pblk.

use crate::site::Site;
use crate::work::WorkKind;
use byteway_clock::{Clock, Delay, SpanId, Spans, Stage, Time};
use byteway_content::UNIT_BYTES;
use std::cell::Cell;
use std::rc::Rc;

/// Sizes in bytes: a doorbell write, a read request for an entry, an entry, an address in a list, a
/// completion.
const DOORBELL_BYTES: u64 = 4;
const REQUEST_BYTES: u64 = 16;
const ENTRY_BYTES: u64 = 64;
const ADDRESS_BYTES: u64 = 8;
const COMPLETION_BYTES: u64 = 16;

/// The link between a drive and the host, for firmware that is split between the two.
pub trait HostLink {
    /// Sends `bytes` to the host. Returns the arrival time.
    fn to_host(&self, bytes: u64) -> Time;

    /// Sends `bytes` to the drive. Returns the arrival time.
    fn to_drive(&self, bytes: u64) -> Time;
}

/// Costs of a vector of flash commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorCosts {
    /// Processor time of a submission.
    pub submit: Delay,
    /// Processor time of a completion.
    pub complete: Delay,
    /// Maximum units of a vector, at least one.
    pub units_max: u32,
}

/// Traffic of a [`Hardware`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardwareFigures {
    /// Vectors of flash commands.
    pub vectors: u64,
    /// Units read from flash.
    pub units_to_host: u64,
    /// Units programmed.
    pub units_to_drive: u64,
}

/// Hardware across a link. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct Hardware(Rc<Inner>);

struct Inner {
    link: Rc<dyn HostLink>,
    costs: VectorCosts,
    figures: Cell<HardwareFigures>,
}

/// Flash commands that are sent together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlashCommands {
    /// Units read.
    pub(crate) reads: u64,
    /// Units programmed.
    pub(crate) programs: u64,
    /// Superblocks erased.
    pub(crate) erases: u64,
}

impl FlashCommands {
    pub(crate) fn reads(units: u64) -> Self {
        FlashCommands { reads: units, ..FlashCommands::default() }
    }

    pub(crate) fn programs(units: u64) -> Self {
        FlashCommands { programs: units, ..FlashCommands::default() }
    }
}

impl Hardware {
    /// Hardware at the far end of `link`.
    pub fn new(link: Rc<dyn HostLink>, costs: VectorCosts) -> Hardware {
        Hardware(Rc::new(Inner { link, costs, figures: Cell::default() }))
    }

    /// Traffic up to now.
    pub fn figures(&self) -> HardwareFigures {
        self.0.figures.get()
    }

    /// Sends flash commands from `site`, with their data, and waits for their completion. The flash
    /// operations themselves have already been performed.
    pub(crate) async fn command(
        &self,
        clock: &Clock,
        site: &Site,
        span: SpanId,
        spans: &Spans,
        commands: FlashCommands,
    ) {
        let Inner { link, costs, figures } = &*self.0;
        let FlashCommands { reads, programs, erases } = commands;
        let most = u64::from(costs.units_max.max(1));
        let vectors = reads.div_ceil(most) + programs.div_ceil(most) + erases;
        if vectors == 0 {
            return;
        }
        let mut counted = figures.get();
        counted.vectors += vectors;
        counted.units_to_host += reads;
        counted.units_to_drive += programs;
        figures.set(counted);
        let submitted = site.spend(WorkKind::Command, costs.submit * vectors);
        clock.sleep_until(submitted.end).await;
        spans.charge_split(span, clock.now(), submitted.queued, Stage::Firmware);
        clock.sleep_until(link.to_drive(DOORBELL_BYTES * vectors)).await;
        clock.sleep_until(link.to_host(REQUEST_BYTES * vectors)).await;
        // The entry holds the address of a single unit.
        let units = reads + programs;
        let addresses = if units + erases > vectors { units * ADDRESS_BYTES } else { 0 };
        clock.sleep_until(link.to_drive(ENTRY_BYTES * vectors + addresses)).await;
        spans.charge(span, clock.now(), Stage::Link);
        let bytes = |units: u64| units * UNIT_BYTES as u64;
        if programs > 0 {
            // The write buffer is in this end's DRAM.
            let out = site.dram("out of the buffer", bytes(programs));
            clock.sleep_until(out.arrival).await;
            spans.charge_split(span, clock.now(), out.queued, Stage::Dram);
            clock.sleep_until(link.to_drive(bytes(programs))).await;
        }
        if reads > 0 {
            clock.sleep_until(link.to_host(bytes(reads))).await;
        }
        clock.sleep_until(link.to_host(COMPLETION_BYTES * vectors)).await;
        spans.charge(span, clock.now(), Stage::Link);
        let completed = site.spend(WorkKind::Command, costs.complete * vectors);
        clock.sleep_until(completed.end).await;
        spans.charge_split(span, clock.now(), completed.queued, Stage::Firmware);
    }
}
