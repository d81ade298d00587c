//! A small array with round numbers.

use byteway_clock::{Clock, Delay, Executor, Rate, Time};
use byteway_content::{BlockSize, Content, Stamp};
use byteway_flash::{
    BaseContent, Batch, BlockId, Flash, Geometry, Medium, NO_LPA, Outcome, Ppa, Priority, Spare, Ticket,
    Timing,
};
use std::rc::Rc;

/// 2 channels x 4 ways x 2 planes x 4 blocks x 6 pages of 16 KiB: stripes of 8 units.
pub const GEOMETRY: Geometry =
    Geometry { channels: 2, ways: 4, planes: 2, blocks: 4, pages: 6, page_bytes: 16384 };

pub const UNIT: Delay = Delay::from_ns(5_120);
pub const COMMAND: Delay = Delay::from_ns(100);

/// 4 KiB in 5.12 us.
pub fn timing() -> Timing {
    let us = Delay::from_us;
    Timing {
        read: vec![us(30), us(45), us(60)],
        program: vec![us(200), us(280), us(400)],
        erase: us(3000),
        channel: Rate::per_second(800_000_000),
        command: COMMAND,
        ..Timing::default()
    }
}

pub fn stamp(lba: u64, version: u32) -> Content {
    Content::Stamp(Stamp { lba, version, tag: 7, block: BlockSize::B4096 })
}

/// Content of a unit in the base state.
pub fn base(ppa: u64) -> Content {
    if is_padding(ppa) { Content::Zero } else { stamp(ppa, 0) }
}

/// One unit of each superblock.
fn is_padding(ppa: u64) -> bool {
    ppa % 48 == 42
}

/// Block 0 of each die is full, block 1 has two stripes, the others are erased. Each unit holds a pattern of
/// its address.
pub struct Base(pub Geometry);

impl BaseContent for Base {
    fn stripes(&self, block: BlockId) -> u32 {
        match block.0 % self.0.blocks {
            0 => u32::MAX,
            1 => 2,
            _ => 0,
        }
    }
    fn lpas(&self, first: Ppa, lpas: &mut [u64]) {
        let each = (first.0..).map(|ppa| if is_padding(ppa) { NO_LPA } else { ppa });
        lpas.iter_mut().zip(each).for_each(|(lpa, each)| *lpa = each);
    }
    fn content(&self, lpa: u64) -> Content {
        stamp(lpa, 0)
    }
}

pub fn flash(clock: &Clock, geometry: Geometry, timing: Timing) -> Flash {
    Flash::new(clock, geometry, timing, medium(geometry))
}

/// A new medium.
pub fn medium(geometry: Geometry) -> Medium {
    Medium::new(geometry, Rc::new(Base(geometry)))
}

/// Runs `main` on the small array.
pub fn run<T: 'static>(main: impl AsyncFnOnce(Flash, Clock) -> T + 'static) -> T {
    run_with(GEOMETRY, timing(), main)
}

pub fn run_with<T: 'static>(
    geometry: Geometry,
    timing: Timing,
    main: impl AsyncFnOnce(Flash, Clock) -> T + 'static,
) -> T {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let flash = flash(&clock, geometry, timing);
    executor.run(async move { main(flash, clock).await }).expect("every wait must end")
}

/// A stripe's worth of stamps whose logical units begin at `lpa`.
pub fn batch(flash: &Flash, lpa: u32, version: u32) -> Batch {
    let lpa = u64::from(lpa);
    let mut batch = flash.take_batch();
    assert!(batch.units.is_empty());
    let spare = |lpa| Spare { lpa, sequence: version.into() };
    let units = (lpa..lpa + u64::from(flash.geometry().units_per_stripe()))
        .map(|lpa| (spare(lpa), stamp(lpa, version)));
    batch.units.extend(units);
    batch
}

/// The first unit of `stripe` of block `block` of `die`.
pub fn at(flash: &Flash, die: u32, block: u32, stripe: u32) -> Ppa {
    let geometry = flash.geometry();
    geometry.ppa(geometry.block(die, block), stripe, 0)
}

/// Submits a read of one unit under a ticket of its own.
pub fn read_one(flash: &Flash, die: u32, stripe: u32, priority: Priority) -> Ticket {
    let ticket = flash.ticket();
    flash.submit_read(at(flash, die, 0, stripe), 1, priority, &ticket);
    ticket
}

pub fn at_ns(ns: u64) -> Time {
    Time::ZERO + Delay::from_ns(ns)
}

/// Outcome of an operation that took this long.
pub fn went(queued: Delay, cell: Delay, channel: Delay) -> Outcome {
    Outcome { queued, cell, channel, ..Outcome::default() }
}

/// Outcome of one that waited for its die, too, which did this meanwhile.
pub fn behind(die: [u64; 4], outcome: Outcome) -> Outcome {
    Outcome { die: die.map(Delay::from_ns), ..outcome }
}

/// Waits for each in turn. Returns each outcome and end time. Pass them in the order of their ends.
pub async fn ends(flash: &Flash, tickets: &[Ticket]) -> Vec<(Outcome, Time)> {
    let mut ends = Vec::new();
    for ticket in tickets {
        ends.push((ticket.wait().await, flash.clock().now()));
    }
    ends
}

/// xorshift64*: any sequence will do.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }
}
