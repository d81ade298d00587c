//! A drive's hardware that is commanded across a link: flash and DMA, and no firmware of its own, as open-channel drives are.
//!
//! The firmware sends vectors of flash commands, each for units anywhere in the flash (Open-Channel SSD 2.0, 2.3; LightNVM). A vector costs its
//! processor a submission and a completion, and the link what a driver and a controller exchange for it: a doorbell, the entry and its
//! list of addresses, the units themselves, the completion. The map and the write buffer are at the firmware's end, so a unit crosses
//! when it is read from flash or programmed, and not when the host writes it.
//!
//! An operation of flash and its command are one after the other, and which of them comes first makes no difference to what waits for both:
//! here the flash comes first, so that dies take operations in the order in which they were decided on.
//!
//! What it does not do: what recovery reads when the power comes back, and erases that delete, cost no command. Nothing is copied within
//! the hardware: the collector reads and writes across the link, as Linux' pblk does.

use crate::placement::HostLink;
use crate::site::Site;
use crate::work::Work;
use byteway_clock::{Clock, Delay, SpanId, Spans, Stage};
use byteway_wire::content::UNIT_BYTES;
use std::cell::Cell;
use std::rc::Rc;

/// A doorbell, the request for an entry, the entry, an address in a list, a completion: bytes.
const DOORBELL_BYTES: u64 = 4;
const REQUEST_BYTES: u64 = 16;
const ENTRY_BYTES: u64 = 64;
const ADDRESS_BYTES: u64 = 8;
const COMPLETION_BYTES: u64 = 16;

/// What a vector of flash commands costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorCosts {
    /// Processor time to submit it.
    pub submit: Delay,
    /// Processor time to take its completion.
    pub complete: Delay,
    /// Units that it is for, at most: at least one.
    pub units_max: u32,
}

/// What has crossed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardwareFigures {
    /// Vectors of flash commands.
    pub vectors: u64,
    /// Units read from flash.
    pub units_to_host: u64,
    /// Units that were programmed.
    pub units_to_drive: u64,
}

/// Hardware across a link. Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct Hardware(Rc<Inner>);

struct Inner {
    link: Rc<dyn HostLink>,
    costs: VectorCosts,
    figures: Cell<HardwareFigures>,
}

/// Flash commands that are sent at once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlashCommands {
    /// Units that are read.
    pub(crate) reads: u64,
    /// Units that are programmed.
    pub(crate) programs: u64,
    /// Superblocks that are erased.
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
    /// At the other end of `link`.
    pub fn new(link: Rc<dyn HostLink>, costs: VectorCosts) -> Hardware {
        Hardware(Rc::new(Inner { link, costs, figures: Cell::default() }))
    }

    /// What has crossed.
    pub fn figures(&self) -> HardwareFigures {
        self.0.figures.get()
    }

    /// Sends flash commands from `site`, with what they move, and waits until they are completed there. The flash itself has done them.
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
        let submitted = site.spend(Work::Command, costs.submit * vectors);
        clock.sleep_until(submitted.end).await;
        spans.charge_split(span, clock.now(), submitted.queued, Stage::Firmware);
        clock.sleep_until(link.to_drive(DOORBELL_BYTES * vectors)).await;
        clock.sleep_until(link.to_host(REQUEST_BYTES * vectors)).await;
        // The address of a single unit is in the entry.
        let units = reads + programs;
        let addresses = if units + erases > vectors { units * ADDRESS_BYTES } else { 0 };
        clock.sleep_until(link.to_drive(ENTRY_BYTES * vectors + addresses)).await;
        spans.charge(span, clock.now(), Stage::Link);
        let bytes = |units: u64| units * UNIT_BYTES as u64;
        if programs > 0 {
            // Out of the write buffer, whose DRAM is here.
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
        let completed = site.spend(Work::Command, costs.complete * vectors);
        clock.sleep_until(completed.end).await;
        spans.charge_split(span, clock.now(), completed.queued, Stage::Firmware);
    }
}
