//! A drive served over a register page that it shares with its driver.
//!
//! A store to a shared page wakes nobody and leaves only its value behind: not when it was made, nor what stood there
//! before. So this side looks, again and again, and rests when nothing has come for a while. What it keeps to:
//! - CC is looked at first and delivered last. What the driver stored before it enabled the controller (AQA, ASQ, ACQ)
//!   is then visible, and arrives before it.
//! - A doorbell of a queue that doesn't exist reads as zero, where a new queue begins. Else the value that a deleted
//!   queue left behind would hide the first ring of the next one of that identifier: the same value again is no news.
//! - The admin doorbells are looked at before all others, so a look that finds Create I/O Queue has also put the new
//!   queue's doorbell right.
//! - What only the drive writes (CAP, VS, CSTS) is published and never read back.
//!
//! What it does not do: registers that are written for their effect and not for their value (INTMS, INTMC, NSSR) need a
//! transport that carries each write, and so do interrupts. A driver over a shared page polls.

use crate::controller::Controller;
use byteway_clock::Delay;
use byteway_link::{DeviceEnd, MmioWrite, SharedBar};
use byteway_wire::nvme::Doorbell;
use byteway_wire::nvme::register::{ACQ, AQA, ASQ, CAP, CC, CRTO, CSTS, Cap, Csts, VS};

/// Looks in vain before a rest.
const LOOKS_BEFORE_REST: u32 = 2_000;
/// How long a rest is: long enough for the runner to give the processor away.
const REST: Delay = Delay::from_us(100);

/// Between a register page and the controller.
pub struct SharedFront {
    port: DeviceEnd,
    controller: Controller,
    page: SharedBar,
    dstrd: u8,
}

impl SharedFront {
    /// Makes `page` what the registers of `controller` are, whatever was there before. `port` is the device's end of the link that the controller is at;
    /// the page reaches up to the doorbells of the last I/O queue that the controller may have, or those beyond it
    /// are not served. CAP is written last: who reads it as not zero can go on.
    pub fn new(port: &DeviceEnd, controller: &Controller, page: SharedBar) -> Self {
        let cap = controller.register(CAP, 8);
        for offset in (VS..=CRTO).step_by(4) {
            page.publish(offset, controller.register(offset, 4) as u32);
        }
        let dstrd = Cap::from_bits(cap).dstrd();
        for doorbell in doorbells(controller) {
            page.publish(doorbell.offset(dstrd), 0);
        }
        page.publish(CAP + 4, (cap >> 32) as u32);
        page.publish(CAP, cap as u32);
        SharedFront { port: port.clone(), controller: controller.clone(), page, dstrd }
    }

    /// Serves for ever. Only under the real runner: in virtual time nothing would pass between two looks.
    pub async fn serve(self) {
        let clock = self.port.clock();
        let mut vain = 0;
        loop {
            vain = if self.look() { 0 } else { vain + 1 };
            if vain < LOOKS_BEFORE_REST {
                clock.yield_now().await;
            } else {
                clock.timer(REST).await;
            }
        }
    }

    /// Looks once at everything. True if the driver had written something, or CSTS has changed for it.
    pub fn look(&self) -> bool {
        let cc = self.page.take(CC);
        let mut any = cc.is_some();
        for offset in [AQA, ASQ, ASQ + 4, ACQ, ACQ + 4] {
            if let Some(value) = self.page.take(offset) {
                self.deliver(offset, value);
                any = true;
            }
        }
        any |= self.look_at_doorbells();
        if let Some(value) = cc {
            self.deliver(CC, value);
        }
        let csts = self.controller.register(CSTS, 4) as u32;
        // A driver that sees RDY cleared reuses the rings: no completion may be under way to them then.
        let resets = Csts::from_bits(self.page.taken(CSTS)).rdy() && !Csts::from_bits(csts).rdy();
        if resets && !self.port.has_arrived() {
            return true;
        }
        any | self.page.renew(CSTS, csts)
    }

    /// Looks once at the doorbells: all of it where the other registers come by another way. True if one was rung.
    pub fn look_at_doorbells(&self) -> bool {
        let mut any = false;
        for doorbell in doorbells(&self.controller) {
            any |= self.look_at(doorbell);
        }
        any
    }

    fn look_at(&self, doorbell: Doorbell) -> bool {
        let offset = doorbell.offset(self.dstrd);
        let rung = self.page.take(offset);
        if rung.is_none() && self.page.taken(offset) == 0 {
            return false; // as most are: never rung
        }
        let exists = self.controller.has_queue(doorbell);
        if let Some(value) = rung.filter(|value| exists || *value != 0) {
            self.deliver(offset, value); // also where no queue is: the controller has an event for that
        }
        if !exists {
            self.page.publish(offset, 0);
        }
        rung.is_some()
    }

    fn deliver(&self, offset: u64, value: u32) {
        self.port.deliver(MmioWrite { offset, value: u64::from(value), bytes: 4 });
    }
}

/// Of all queues that the controller may have, the admin queue's first.
fn doorbells(controller: &Controller) -> impl Iterator<Item = Doorbell> {
    let ids = 0..=controller.io_queues_max();
    ids.flat_map(|id| [Doorbell::SubmissionTail(id), Doorbell::CompletionHead(id)])
}
