//! The same operations on an array in memory and on one in files: the same times, contents, spare areas and
//! counters.

use crate::files::fixture::{BLOCKS, Base, GEOMETRY, STRIPES, Seen, batch, open, timing};
use byteway_clock::random::Rng;
use byteway_clock::{Executor, Time};
use byteway_flash::file::SimulatedFiles;
use byteway_flash::{BlockId, Counters, Flash, Medium, Priority};
use std::rc::Rc;
use std::sync::Arc;

/// Observable result of a run.
type Shown = (Time, Counters, Seen, Vec<Option<Vec<u8>>>);

/// Random operations, some of them in flight at the power cut.
fn play(medium: Medium, seed: u64, first: u64) -> (Shown, Medium) {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let flash = Flash::new(&clock, GEOMETRY, timing(), medium);
    let inner = flash.clone();
    let ran = executor.run(async move {
        let flash = inner;
        let mut stream = Rng::new(seed).stream("same");
        for number in first..first + 40 {
            let block = BlockId(stream.below(BLOCKS.into()) as u32);
            let next = flash.programmed_stripes(block);
            match stream.below(20) {
                0 => flash.write_root(stream.below(2) as usize, vec![number as u8; 50].into()).await,
                1 => flash.write_record(vec![number as u8; 5].into()).await,
                2 => flash.sync().await,
                _ if flash.is_unstable(block) || next == STRIPES => _ = flash.erase(block).await,
                _ => _ = flash.program(block, next, batch(number), Priority::HostProgram).await,
            }
        }
        let ticket = flash.ticket();
        for block in (0..BLOCKS).map(BlockId) {
            match flash.programmed_stripes(block) {
                STRIPES => flash.submit_erase(block, Priority::Collector, &ticket),
                next => flash.submit_program(block, next, batch(first + 50), Priority::HostProgram, &ticket),
            }
        }
        flash.clock().sleep(byteway_clock::Delay::from_us(100)).await;
        let roots = [flash.read_root(0).await, flash.read_root(1).await, flash.record()];
        let roots = roots.map(|bytes| bytes.map(|bytes| bytes.to_vec())).to_vec();
        (flash.clock().now(), flash.counters(), Seen::of(&flash), roots)
    });
    (ran.unwrap(), flash.power_off(seed.is_multiple_of(2)))
}

// A drive in files that behaves differently from one in memory would invalidate every test of either for the
// other.
#[test]
fn files_and_memory_give_the_same_results() {
    for seed in 0..40 {
        let files = SimulatedFiles::new();
        let mut in_memory = Medium::new(GEOMETRY, Rc::new(Base));
        let mut in_files = open(Arc::new(files.clone())).unwrap().0;
        for round in 0..4 {
            let (shown, left) = play(in_memory, seed, 1 + round * 100);
            let (shown_of_files, left_in_files) = play(in_files, seed, 1 + round * 100);
            assert_eq!(shown, shown_of_files, "seed {seed}, round {round}");
            in_memory = left;
            // After closing and reopening, everything must come from the files.
            left_in_files.close().unwrap();
            let (medium, opened) = open(Arc::new(files.clone())).unwrap();
            assert!(opened.clean && opened.journal_bytes == 0, "{opened:?}");
            in_files = medium;
        }
    }
}
