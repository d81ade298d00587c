//! Power cuts of the simulated files: at any step, with anything unsynced lost, torn or reordered.

use crate::files::fixture::{BLOCKS, STRIPES, Seen, batch, open, run};
use byteway_clock::random::Rng;
use byteway_flash::file::{Files, SimulatedFiles};
use byteway_flash::{BlockId, Flash, Medium, Priority};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Allowed states of a superblock after a cut.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Numbers of the stripes of the durable generation, in order; None for a stripe that was unreadable
    /// then.
    durable: Vec<Option<u64>>,
    /// Numbers of the stripes programmed since.
    since: Vec<u64>,
    /// The last completed erase is durable as begun, perhaps not as ended.
    may_be_unstable: bool,
    /// It was found so, and not erased since.
    is_unstable: bool,
    /// An erase is in flight.
    is_erasing: bool,
}

#[derive(Clone, Debug, Default)]
struct Model {
    blocks: Vec<Known>,
    /// The durable state, and what may have come since.
    record: (Option<u8>, Vec<u8>),
    next: u64,
}

impl Model {
    /// The state found, which is durable.
    fn of(seen: &Seen, record: Option<u8>, next: u64) -> Model {
        let block = |(unstable, _, stripes): &(bool, u32, Vec<Option<u64>>)| Known {
            durable: stripes.clone(),
            is_unstable: *unstable,
            ..Known::default()
        };
        Model { blocks: seen.blocks.iter().map(block).collect(), record: (record, Vec::new()), next }
    }

    /// Everything that had ended by then is durable.
    fn synced(&mut self, then: &Model) {
        for (block, then) in self.blocks.iter_mut().zip(&then.blocks) {
            let count = then.since.len();
            if block.durable == then.durable && block.since.starts_with(&then.since) {
                block.durable.extend(block.since.drain(..count).map(Some));
                block.may_be_unstable &= !then.may_be_unstable || then.is_erasing;
            }
        }
        if let Some(last) = then.record.1.last() {
            self.record.0 = Some(*last);
        }
    }

    fn check(&self, seen: &Seen, record: Option<u8>, what: &str) {
        for (id, (block, (unstable, _, stripes))) in self.blocks.iter().zip(&seen.blocks).enumerate() {
            let what = format!("{what}, superblock {id}: {block:?} became {unstable} {stripes:?}");
            if *unstable || block.is_unstable && !block.is_erasing {
                let possible = block.is_unstable || block.may_be_unstable || block.is_erasing;
                assert!(*unstable && possible, "{what}");
                assert!(stripes.is_empty(), "{what}");
                continue;
            }
            assert!(stripes.len() >= block.durable.len(), "lost: {what}");
            let (durable, since) = stripes.split_at(block.durable.len());
            assert_eq!(durable, block.durable, "lost or changed: {what}");
            assert!(since.len() <= block.since.len(), "invented: {what}");
            for (found, written) in since.iter().zip(&block.since) {
                assert!(found.is_none_or(|found| found == *written), "invented: {what}");
            }
        }
        let possible =
            record == self.record.0 || record.is_some_and(|record| self.record.1.contains(&record));
        assert!(possible, "{what}: record {record:?} of {:?}", self.record);
    }
}

/// Operations until the files end or `count` are done; `model` follows.
async fn play(flash: &Flash, model: &RefCell<Model>, seed: u64, count: u32) {
    let mut stream = Rng::new(seed).stream("operations");
    for _ in 0..count {
        let id = stream.below(BLOCKS.into()) as u32;
        let (block, index) = (BlockId(id), id as usize);
        let next = flash.programmed_stripes(block);
        match stream.below(16) {
            0 => {
                let then = model.borrow().clone();
                flash.sync().await;
                model.borrow_mut().synced(&then);
            }
            1 => {
                let then = {
                    let mut model = model.borrow_mut();
                    let record = stream.below(256) as u8;
                    model.record.1.push(record);
                    model.clone()
                };
                flash.write_record(vec![*then.record.1.last().unwrap()].into()).await;
                model.borrow_mut().synced(&then);
            }
            kind if flash.is_unstable(block) || next == STRIPES || kind == 2 => {
                let then = {
                    let mut model = model.borrow_mut();
                    model.blocks[index].is_erasing = true;
                    model.clone()
                };
                flash.erase(block).await;
                let mut model = model.borrow_mut();
                // An erase ends only when everything programmed before it is durable.
                model.synced(&then);
                model.blocks[index] = Known { may_be_unstable: true, ..Known::default() };
            }
            _ => {
                let number = model.borrow().next;
                model.borrow_mut().next += 1;
                model.borrow_mut().blocks[index].since.push(number);
                flash.program(block, next, batch(number), Priority::HostProgram).await;
            }
        }
    }
}

fn seen_of(medium: Medium) -> (Seen, Option<u8>, Medium) {
    run(medium, async |flash, _| {
        let record = flash.record().map(|record| record[0]);
        (Seen::of(&flash), record, flash.power_off(false))
    })
    .unwrap()
}

/// One drive that is cut again and again.
fn torture(seed: u64, cuts: u32) {
    let mut stream = Rng::new(seed).stream("cuts");
    let mut files = SimulatedFiles::new();
    let mut expected: Option<Model> = None;
    for cut in 0..cuts {
        let what = format!("seed {seed}, cut {cut}");
        // The power may be cut while the directory is opened, too, or created.
        while stream.chance(0.2) {
            files.end_at(files.steps() + stream.below(14));
            let _ = open(Arc::new(files.clone()));
            files = files.cut(stream.next_u64());
        }
        let (medium, _) = open(Arc::new(files.clone())).unwrap_or_else(|error| panic!("{what}: {error}"));
        let (seen, record, medium) = seen_of(medium);
        if let Some(model) = &expected {
            model.check(&seen, record, &what);
        }
        // Whatever was found is permanent.
        let again = files.cut(stream.next_u64());
        let (seen_again, record_again, _) = seen_of(open(Arc::new(again)).unwrap().0);
        assert_eq!(
            (&seen, record),
            (&seen_again, record_again),
            "{what}: another cut changes what was found"
        );
        let next = expected.map_or(1, |model| model.next);
        let model = Rc::new(RefCell::new(Model::of(&seen, record, next)));
        files.end_at(files.steps() + stream.below(120));
        let (inner, operations) = (model.clone(), stream.next_u64());
        run(medium, async move |flash, _| play(&flash, &inner, operations, 60).await);
        expected = Some(model.borrow().clone());
        files = files.cut(stream.next_u64());
    }
}

// A drive must not lose what it reported as durable, nor find what was never written.
#[test]
fn what_is_durable_is_there_after_any_cut() {
    let cuts: u32 = std::env::var("BYTEWAY_FILE_CUTS").map_or(600, |cuts| cuts.parse().unwrap());
    (0..u64::from(cuts / 10)).for_each(|seed| torture(seed, 10));
}

// Otherwise the simulation would prove nothing: without a sync anything must be able to vanish, even in part.
#[test]
fn the_simulation_loses_tears_and_keeps() {
    let (mut lost, mut torn, mut kept) = (0, 0, 0);
    for seed in 0..200 {
        let files = SimulatedFiles::new();
        let file = files.create("file").unwrap();
        file.write_at(&[1; 8192], 0).unwrap();
        file.sync().unwrap();
        files.sync().unwrap();
        file.write_at(&[2; 8192], 0).unwrap();
        let after = files.cut(seed).open("file").unwrap().unwrap();
        let mut bytes = [0; 8192];
        after.read_at(&mut bytes, 0).unwrap();
        match bytes.iter().filter(|byte| **byte == 2).count() {
            0 => lost += 1,
            8192 => kept += 1,
            some => {
                assert_eq!(some % 512, 0);
                torn += 1;
            }
        }
    }
    assert!(lost > 20 && torn > 20 && kept > 20, "{lost} {torn} {kept}");
}
