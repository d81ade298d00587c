//! Superblocks in one-bit mode.

use crate::array::fixture::{COMMAND, GEOMETRY, UNIT, at, batch, flash, run, run_with, stamp, timing, went};
use byteway_clock::{Delay, Executor};
use byteway_flash::{BlockId, Flash, Mode, Outcome, Priority, SlcTiming, Timing};

const BLOCK: BlockId = BlockId(2);

fn with_slc() -> Timing {
    let us = Delay::from_us;
    Timing { slc: Some(SlcTiming { read: us(20), program: us(100), erase: us(1000) }), ..timing() }
}

async fn program(flash: &Flash, stripe: u32) -> Outcome {
    flash.program(BLOCK, stripe, batch(flash, stripe * 8, 1), Priority::HostProgram).await
}

async fn read(flash: &Flash, stripe: u32) -> (Outcome, byteway_content::Content) {
    let ticket = flash.ticket();
    flash.submit_read(at(flash, 0, 2, stripe), 1, Priority::HostRead, &ticket);
    (ticket.wait().await, ticket.content(0))
}

// The purpose of one bit is speed, its price two stripes of three: a cache that had both would be wrong.
#[test]
fn a_superblock_of_one_bit_is_faster_and_takes_a_stripe_a_wordline() {
    run_with(GEOMETRY, with_slc(), async |flash, _| {
        assert_eq!((flash.stripes_of(BLOCK), flash.mode(BLOCK)), (6, Mode::Full));
        assert!(flash.set_mode(BLOCK, Mode::OneBit));
        assert_eq!((flash.stripes_of(BLOCK), flash.mode(BLOCK)), (2, Mode::OneBit));
        for stripe in 0..2 {
            let time = went(Delay::ZERO, Delay::from_us(100), COMMAND + UNIT * 8);
            assert_eq!(program(&flash, stripe).await, time);
        }
        assert!(program(&flash, 2).await.failed, "it is full");
        for stripe in 0..2 {
            let time = went(Delay::ZERO, Delay::from_us(20), COMMAND + UNIT);
            assert_eq!(read(&flash, stripe).await, (time, stamp(u64::from(stripe) * 8, 1)));
        }
        // It stays in its mode, and is erased in its mode, until it is set otherwise.
        assert_eq!(flash.erase(BLOCK).await, went(Delay::ZERO, Delay::from_us(1000), COMMAND));
        assert_eq!(flash.mode(BLOCK), Mode::OneBit);
        assert!(flash.set_mode(BLOCK, Mode::Full));
        assert_eq!(program(&flash, 0).await.cell, Delay::from_us(200));
    });
}

// Present bits would be read by the wrong thresholds.
#[test]
fn the_mode_is_set_of_what_is_erased_only() {
    run_with(GEOMETRY, with_slc(), async |flash, clock| {
        assert!(!flash.set_mode(BlockId(0), Mode::OneBit), "full");
        let ticket = flash.ticket();
        flash.submit_program(BLOCK, 0, batch(&flash, 0, 1), Priority::HostProgram, &ticket);
        clock.sleep(Delay::from_us(1)).await;
        assert!(!flash.set_mode(BLOCK, Mode::OneBit), "being programmed");
        ticket.wait().await;
        assert!(!flash.set_mode(BLOCK, Mode::OneBit), "programmed");
        flash.submit_erase(BLOCK, Priority::Collector, &ticket);
        clock.sleep(Delay::from_us(1)).await;
        assert!(!flash.set_mode(BLOCK, Mode::OneBit), "being erased");
        ticket.wait().await;
        assert!(flash.set_mode(BLOCK, Mode::OneBit));
        assert!(!flash.set_mode(BlockId(u32::MAX), Mode::OneBit), "beyond the array");
    });
    run(async |flash, _| {
        assert!(!flash.set_mode(BLOCK, Mode::OneBit), "the part has no such times");
        assert!(flash.set_mode(BLOCK, Mode::Full));
    });
}

// One bit shares its cells with no other, so a cut destroys nothing else; and the mode must survive it.
#[test]
fn a_power_cut_tears_one_stripe() {
    let executor = Executor::new();
    let flash = flash(executor.clock(), GEOMETRY, with_slc());
    let cut = executor.run(async move {
        flash.set_mode(BLOCK, Mode::OneBit);
        program(&flash, 0).await;
        let ticket = flash.ticket();
        flash.submit_program(BLOCK, 1, batch(&flash, 8, 1), Priority::HostProgram, &ticket);
        flash.clock().sleep(Delay::from_us(50)).await;
        flash.power_off(false)
    });
    let executor = Executor::new();
    let flash = Flash::new(executor.clock(), GEOMETRY, with_slc(), cut.unwrap());
    let look = executor.run(async move {
        assert_eq!((flash.mode(BLOCK), flash.programmed_stripes(BLOCK)), (Mode::OneBit, 2));
        assert_eq!(read(&flash, 0).await.1, stamp(0, 1));
        assert!(read(&flash, 1).await.0.failed);
    });
    look.unwrap();
}
