//! Many users of superblocks of the same dies, at any time.

use crate::array::fixture::{Dice, GEOMETRY, batch, medium, stamp, timing};
use byteway_clock::{Clock, Delay, Executor, Time};
use byteway_flash::{
    BlockId, CellErrors, Flash, FlashConfig, Mode, Priority, Reliability, SlcTiming, SuspendTiming, Timing,
};
use std::cell::Cell;
use std::rc::Rc;

// Each user of a superblock must find there what it left, whatever others make the die do meanwhile:
// suspended programs, overlapping reads, retries.
#[test]
fn owners_of_superblocks_agree_with_themselves_at_any_time() {
    let us = Delay::from_us;
    let mut counters = [0; 3];
    for seed in 1..=12u64 {
        let suspend = Some(SuspendTiming { latency: us(5), resume: us(7), most: 4, step: Delay::ZERO })
            .filter(|_| seed % 3 != 0);
        let slc = Some(SlcTiming { read: us(20), program: us(100), erase: us(1000) });
        let timing = Timing { suspend, cache_read: seed % 2 == 0, slc, ..timing() };
        // About half of the reads are retried, and none is lost.
        let mut reliability =
            Reliability { spread: 0.3, correctable: 200, retry_steps: 64, ..Reliability::tlc() };
        reliability.cells.disturb = 0.0;
        // Within milliseconds.
        (reliability.cells.shift, reliability.cells.shift_onset) = (0.5, CellErrors::SHIFT_ONSET_MIN);
        let reliability = Some(reliability).filter(|_| seed % 4 > 1);
        let config = FlashConfig { reliability, ..timing.into() };
        let executor = Executor::new();
        let flash = Flash::new(executor.clock(), GEOMETRY, config, medium(GEOMETRY));
        let clock = executor.clock().clone();
        let all = flash.clone();
        let left = Rc::new(Cell::new(0));
        // Three owners a die, of its three superblocks that the base doesn't fill.
        for id in (0..GEOMETRY.total_blocks()).filter(|id| id % 4 != 0 && id / 4 < 4) {
            let (flash, clock, left) = (flash.clone(), clock.clone(), left.clone());
            left.set(left.get() + 1);
            clock.clone().spawn("owner", async move {
                own(&flash, &clock, BlockId(id), Dice(seed * 1000 + u64::from(id) + 1)).await;
                left.set(left.get() - 1);
            });
        }
        let ended = executor.run(async move {
            while left.get() > 0 {
                clock.sleep(Delay::from_ms(10)).await;
            }
            clock.now()
        });
        let ended = ended.expect("nothing hangs").since(Time::ZERO);
        for die in 0..GEOMETRY.dies() {
            assert_eq!(all.pending(die), 0);
            assert!(all.die_busy(die) <= ended);
        }
        assert!((0..GEOMETRY.channels).all(|channel| all.channel_busy(channel) <= ended));
        let counted = all.counters();
        assert_eq!((counted.failed, all.tickets_in_use()), (0, 0), "seed {seed}");
        counters[0] += counted.suspends;
        counters[1] += counted.retries;
        counters[2] += counted.programs.iter().sum::<u64>();
    }
    assert!(counters.iter().all(|count| *count > 500), "{counters:?}");
}

async fn own(flash: &Flash, clock: &Clock, block: BlockId, mut dice: Dice) {
    let mut version = 0;
    assert!(!flash.erase(block).await.failed);
    for _ in 0..20 {
        let mode = if dice.roll(3) == 0 { Mode::OneBit } else { Mode::Full };
        assert!(flash.set_mode(block, mode));
        let stripes = flash.stripes_of(block);
        assert_eq!(stripes, if mode == Mode::OneBit { 2 } else { 6 });
        version += 1;
        for stripe in 0..stripes {
            let writer = Priority::ALL[2 + dice.roll(3) as usize];
            let lpa = block.0 * 1000 + stripe * 8;
            let program = flash.ticket();
            flash.submit_program(block, stripe, batch(flash, lpa, version), writer, &program);
            clock.sleep(Delay::from_us(dice.roll(300))).await;
            let reader = Priority::ALL[dice.roll(5) as usize];
            let (of, unit) = (dice.roll(u64::from(stripe) + 1) as u32, dice.roll(8) as u32);
            let ticket = flash.ticket();
            if program.remaining() == 0 || of < stripe {
                let first = flash.geometry().ppa(block, of, 0);
                flash.submit_read(first, 1 << unit | 1, reader, &ticket);
                assert!(!ticket.wait().await.failed);
                let expected = stamp(u64::from(block.0 * 1000 + of * 8), version);
                assert_eq!(ticket.content(0), expected);
                assert!(!ticket.is_unreadable(0));
            }
            assert!(!program.wait().await.failed);
        }
        let eraser = Priority::ALL[dice.roll(5) as usize];
        let erase = flash.ticket();
        flash.submit_erase(block, eraser, &erase);
        assert!(!erase.wait().await.failed);
    }
}
