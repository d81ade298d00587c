//! Which programs are allowed, and the results of reads.

use crate::array::fixture::{Dice, GEOMETRY, at, base, batch, run, run_with, stamp, timing};
use byteway_clock::{Delay, Executor};
use byteway_content::Content;
use byteway_flash::{
    Blank, BlockId, ChannelOrder, Flash, Geometry, Medium, Outcome, Ppa, Priority, Spare, SuspendTiming,
    Ticket, Timing,
};
use std::collections::BTreeMap;
use std::rc::Rc;

const FAILED: Outcome = Outcome {
    queued: Delay::ZERO,
    die: [Delay::ZERO; 4],
    rest: Delay::ZERO,
    cell: Delay::ZERO,
    channel: Delay::ZERO,
    failed: true,
    unreadable: 0,
};

// NAND programs pages in order, after an erase. A drive that broke this unnoticed would work in simulation
// only.
#[test]
fn programs_out_of_order_fail_and_change_nothing() {
    run(async |flash, clock| {
        let program = async |block, stripe| {
            flash.program(BlockId(block), stripe, batch(&flash, 0, 1), Priority::HostProgram).await
        };
        assert_eq!(program(0, 0).await, FAILED, "full");
        assert_eq!(program(0, 6).await, FAILED, "beyond the last stripe");
        assert_eq!(program(2, 1).await, FAILED, "not the first");
        assert_eq!(program(1, 3).await, FAILED, "two are programmed, so the next is 2");
        assert_eq!(program(99, 0).await, FAILED, "beyond the array");
        assert_eq!(clock.now().0, 0, "what can't be done takes no time");
        assert!(!program(2, 0).await.failed);
        assert!(program(2, 0).await.failed, "twice");
        assert!(!program(2, 1).await.failed);
        assert!(!flash.erase(BlockId(0)).await.failed);
        assert!(!program(0, 0).await.failed);
        let mut long = batch(&flash, 0, 1);
        long.units.push((Spare { lpa: 8, sequence: 0 }, Content::Zero));
        assert!(
            flash.program(BlockId(0), 1, long, Priority::HostProgram).await.failed,
            "longer than the stripe"
        );
        let counters = flash.counters();
        assert_eq!((counters.failed, counters.programs, counters.erases), (7, [0, 0, 3, 0, 0], 1));
        assert_eq!(counters.units_programmed, [0, 0, 24, 0, 0]);
        let stripes = [0, 1, 2, 3].map(|block| flash.programmed_stripes(BlockId(block)));
        assert_eq!(stripes, [1, 2, 2, 0]);
    });
}

// Addresses that come from a host's raw commands must give a status.
#[test]
fn addresses_beyond_the_array_fail() {
    run(async |flash, clock| {
        let units = flash.geometry().total_units();
        for (first, mask) in [(units, 1u64), (u64::MAX, 1), (1 << 32, 1), (0, 0), (0, 0x100), (0, u64::MAX)] {
            let ticket = flash.ticket();
            flash.submit_read(Ppa(first), mask, Priority::HostRead, &ticket);
            assert_eq!(ticket.wait().await, Outcome { unreadable: mask.count_ones(), ..FAILED });
            assert_eq!(ticket.is_unreadable(0), mask != 0);
        }
        assert!(flash.erase(BlockId(32)).await.failed);
        assert!(flash.erase(BlockId(u32::MAX)).await.failed);
        assert_eq!((flash.content(Ppa(units)), flash.oob(Ppa(units))), (Content::Zero, None));
        assert_eq!(clock.now().0, 0);
    });
}

// Exactly what was programmed over the base state must differ from it.
#[test]
fn reads_give_the_base_what_was_programmed_or_zeroes() {
    run(async |flash, _| {
        let mut out = Vec::new();
        let outcome = flash
            .read(
                &[at(&flash, 0, 0, 5), at(&flash, 0, 1, 1), at(&flash, 0, 1, 2), at(&flash, 0, 2, 0)],
                Priority::HostRead,
                &mut out,
            )
            .await;
        assert!(!outcome.failed);
        assert_eq!(out, [base(40), base(56), Content::Zero, Content::Zero]);
        assert_eq!([40, 42, 64, 96].map(|ppa| flash.oob(Ppa(ppa))), [Some(40), None, None, None]);
        assert_eq!(flash.live_units(), 0);

        // Further into the half full block: its earlier data stay.
        let mut short = batch(&flash, 500, 9);
        short.units.truncate(3);
        short.units[1].0 = Spare::PADDING;
        assert!(!flash.program(BlockId(1), 2, short, Priority::Collector).await.failed);
        assert_eq!(flash.live_units(), 24);
        let contents = [63, 64, 66, 67, 72].map(|ppa| flash.content(Ppa(ppa)));
        assert_eq!(contents, [base(63), stamp(500, 9), stamp(502, 9), Content::Zero, Content::Zero]);
        let lpas = [62, 63, 64, 65, 66, 67, 72].map(|ppa| flash.oob(Ppa(ppa)));
        assert_eq!(lpas, [Some(62), Some(63), Some(500), None, Some(502), None, None]);

        flash.erase(BlockId(1)).await;
        assert_eq!(
            (flash.content(Ppa(48)), flash.oob(Ppa(48)), flash.live_units()),
            (Content::Zero, None, 0)
        );
        assert_eq!([0, 1].map(|block| flash.erases(BlockId(block))), [0, 1]);
        flash.program(BlockId(1), 0, batch(&flash, 700, 1), Priority::HostProgram).await;
        assert_eq!((flash.content(Ppa(49)), flash.oob(Ppa(49))), (stamp(701, 1), Some(701)));
    });
}

// A read of many units, in any order, must return them in that order, and sense each stripe once if possible.
#[test]
fn units_come_back_in_the_order_asked_for() {
    run(async |flash, _| {
        let asked = [3, 5, 7, 6, 8, 9, 9, 400, 2].map(Ppa);
        let mut out = vec![Content::Zero];
        assert!(!flash.read(&asked, Priority::HostRead, &mut out).await.failed);
        let expected: Vec<_> = asked.iter().map(|ppa| flash.content(*ppa)).collect();
        assert_eq!(out[1..], expected);
        assert_eq!(out[1], base(3));
        let counters = flash.counters();
        assert_eq!((counters.reads[0], counters.units_read[0]), (6, 9));
    });
}

// A unit that was visible before its program ends would survive a power cut that it should not.
#[test]
fn a_stripe_is_not_there_before_its_program_ends_and_gone_when_its_erase_begins() {
    run(async |flash, clock| {
        let ticket = flash.ticket();
        flash.submit_program(BlockId(2), 0, batch(&flash, 0, 1), Priority::HostProgram, &ticket);
        clock.sleep(Delay::from_ns(100 + 40_960 + 199_999)).await;
        assert_eq!((flash.content(Ppa(97)), flash.programmed_stripes(BlockId(2))), (Content::Zero, 0));
        ticket.wait().await;
        assert_eq!((flash.content(Ppa(97)), flash.programmed_stripes(BlockId(2))), (stamp(1, 1), 1));
        flash.submit_erase(BlockId(2), Priority::Collector, &ticket);
        assert_eq!((flash.content(Ppa(97)), flash.erases(BlockId(2))), (Content::Zero, 0));
        ticket.wait().await;
        assert_eq!(flash.erases(BlockId(2)), 1);
    });
}

// A read that waits behind others under the same ticket is complete: its block may be erased before the
// caller looks.
#[test]
fn what_was_read_outlives_the_erase_of_its_block() {
    run(async |flash, _| {
        let ticket = flash.ticket();
        let place = flash.submit_read(at(&flash, 0, 0, 0), 0b100, Priority::HostRead, &ticket);
        // Two erases keep another die, and so the ticket, busy.
        flash.submit_erase(BlockId(6), Priority::Collector, &ticket);
        flash.submit_erase(BlockId(7), Priority::Collector, &ticket);
        assert!(!flash.erase(BlockId(0)).await.failed);
        assert_eq!((flash.content(Ppa(2)), ticket.remaining()), (Content::Zero, 1));
        ticket.wait().await;
        assert_eq!(ticket.content(place), base(2));
    });
}

// Nor may a more urgent erase overtake the read: its data would be gone.
#[test]
fn an_erase_never_overtakes_a_less_urgent_read_of_its_block() {
    run(async |flash, _| {
        let [busy, other, read, erase] = std::array::from_fn(|_| flash.ticket());
        flash.submit_read(Ppa(48), 1, Priority::HostRead, &busy);
        flash.submit_read(Ppa(48), 1, Priority::Background, &other);
        let place = flash.submit_read(Ppa(0), 1, Priority::Background, &read);
        flash.submit_erase(BlockId(0), Priority::Map, &erase);
        assert!(!erase.wait().await.failed);
        assert_eq!((read.content(place), read.remaining()), (base(0), 0));
    });
}

// The collector's turn after eight reads must not come before a ninth read of that block.
#[test]
fn an_erase_never_overtakes_a_read_of_its_block() {
    run(async |flash, _| {
        let read = |ppa: u64, ticket: &Ticket| flash.submit_read(Ppa(ppa), 1, Priority::HostRead, ticket);
        let ticket = flash.ticket();
        for _ in 0..14 {
            read(48, &ticket);
        }
        let place = read(0, &ticket);
        let erase = flash.ticket();
        flash.submit_erase(BlockId(0), Priority::Collector, &erase);
        for _ in 0..5 {
            read(48, &ticket);
        }
        assert!(!erase.wait().await.failed);
        assert_eq!((ticket.content(place), ticket.remaining()), (base(0), 5));
    });
}

// Terabytes must cost only what is touched, or no machine could hold them.
#[test]
fn an_untouched_array_of_eight_tebibytes_is_a_table_of_blocks() {
    let geometry =
        Geometry { channels: 16, ways: 8, planes: 4, blocks: 1024, pages: 1024, page_bytes: 16384 };
    assert_eq!(geometry.total_units() * 4096, 8 << 40);
    run_with(geometry, timing(), async |flash, _| {
        let die = 127;
        let mut out = Vec::new();
        let last = at(&flash, die, 0, 1023);
        assert!(!flash.read(&[last], Priority::HostRead, &mut out).await.failed);
        assert_eq!(out, [base(last.0)]);
        assert_eq!(flash.live_units(), 0);
        let block = flash.geometry().block(die, 1023);
        assert!(!flash.program(block, 0, batch(&flash, 0, 1), Priority::HostProgram).await.failed);
        assert_eq!(flash.live_units(), 16);
    });
}

// A factory-new drive is erased everywhere.
#[test]
fn a_blank_array_is_zeroes() {
    let executor = Executor::new();
    let flash = Flash::new(executor.clock(), GEOMETRY, timing(), Medium::new(GEOMETRY, Rc::new(Blank)));
    assert!((0..flash.geometry().total_units()).map(Ppa).all(|ppa| flash.content(ppa) == Content::Zero));
}

// Whatever the order in which dies and channels serve them, each read returns what was last programmed, and
// the times of each operation sum to its duration.
#[test]
fn a_model_agrees_under_random_operations() {
    let us = Delay::from_us;
    let suspend = Some(SuspendTiming { latency: us(5), resume: us(7), most: 3, step: Delay::ZERO });
    for seed in 1..=40u64 {
        let suspend = suspend.filter(|_| seed % 2 == 1);
        let channel_order = [ChannelOrder::CommandsFirst, ChannelOrder::DataOutFirst][seed as usize / 4 % 2];
        let timing = Timing { suspend, cache_read: seed % 4 < 2, channel_order, ..timing() };
        run_with(GEOMETRY, timing, async move |flash, clock| {
            let mut dice = Dice(seed * 0x9e37_79b9);
            let geometry = *flash.geometry();
            // The stripes of each block, and the content of each unit that is not in the base state.
            let mut stripes: Vec<u32> =
                (0..geometry.total_blocks()).map(|id| [6, 2, 0, 0][id as usize % 4]).collect();
            let mut model: BTreeMap<u64, Content> = BTreeMap::new();
            for id in 0..geometry.total_blocks() {
                for ppa in (0..stripes[id as usize] * 8).map(|unit| Ppa(u64::from(id * 48 + unit))) {
                    model.insert(ppa.0, base(ppa.0));
                }
            }
            for round in 0..60u32 {
                // Each round touches each block once: concurrent operations do not depend on order.
                let mut under_way = Vec::new();
                let begin = clock.now();
                for id in 0..geometry.total_blocks() {
                    let ticket = flash.ticket();
                    let next = &mut stripes[id as usize];
                    match dice.roll(8) {
                        0 if *next > 3 => {
                            let priority = Priority::ALL[2 + dice.roll(3) as usize];
                            flash.submit_erase(BlockId(id), priority, &ticket);
                            *next = 0;
                            model.retain(|ppa, _| ppa / 48 != u64::from(id));
                        }
                        1..=3 if *next < 6 => {
                            let batch = batch(&flash, dice.roll(1 << 20) as u32, round + 1);
                            for (unit, (_, content)) in batch.units.iter().enumerate() {
                                model.insert(u64::from(id * 48 + *next * 8) + unit as u64, content.clone());
                            }
                            let priority = Priority::ALL[2 + dice.roll(3) as usize];
                            flash.submit_program(BlockId(id), *next, batch, priority, &ticket);
                            *next += 1;
                        }
                        _ => {
                            let first = Ppa(u64::from(id) * 48 + dice.roll(6) * 8);
                            let mask = dice.roll(255) + 1;
                            let priority = Priority::ALL[dice.roll(5) as usize];
                            flash.submit_read(first, mask, priority, &ticket);
                            under_way.push((ticket, Some((first, mask))));
                            continue;
                        }
                    }
                    under_way.push((ticket, None));
                }
                let mut last = clock.now();
                for (ticket, read) in &under_way {
                    let outcome = ticket.wait().await;
                    assert!(!outcome.failed, "seed {seed}");
                    let waits: Delay = outcome.waits().into_iter().map(|(_, time)| time).sum();
                    assert_eq!(waits, outcome.queued, "seed {seed} round {round}");
                    last = last.max(begin + outcome.queued + outcome.cell + outcome.channel);
                    let Some((first, mask)) = read else { continue };
                    let units = (0..8).filter(|unit| mask >> unit & 1 == 1);
                    for (index, unit) in units.enumerate() {
                        let expected = model.get(&(first.0 + unit)).cloned().unwrap_or_default();
                        assert_eq!(ticket.content(index), expected, "seed {seed} round {round}");
                    }
                }
                assert_eq!(clock.now(), last, "seed {seed} round {round}");
            }
            assert_eq!(flash.counters().failed, 0);
            for ppa in 0..geometry.total_units() {
                assert_eq!(
                    flash.content(Ppa(ppa)),
                    model.get(&ppa).cloned().unwrap_or_default(),
                    "seed {seed}"
                );
            }
        });
    }
}
