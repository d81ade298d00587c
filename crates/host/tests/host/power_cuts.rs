//! The oracle against a simulated drive that loses volatile data, and against the definition of what may survive.

use byteway_content::{BlockSize, Stamp};
use byteway_host::{BaseState, Oracle};
use byteway_host::{FlushToken, Outcome, WriteToken};
use proptest::prelude::*;

const BLOCKS: u64 = 3;
const BASE_TAG: u16 = 5;
const TAG: u16 = 6;

/// Possible content of a block: a version, or zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Version(u32),
    Zeroes,
}

fn bytes_of(lba: u64, value: Value) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    if let Value::Version(version) = value {
        let tag = if version == 0 { BASE_TAG } else { TAG };
        Stamp { lba, version, tag, block: BlockSize::B512 }.fill(&mut bytes);
    }
    bytes
}

/// One step of a history; numbers are taken modulo what there is.
#[derive(Clone, Debug)]
enum Step {
    Write {
        lba: u64,
        blocks: u64,
        zeroes: bool,
        fua: bool,
    },
    EndWrite {
        which: usize,
        failed: bool,
    },
    Flush,
    EndFlush {
        which: usize,
        failed: bool,
    },
    /// The drive writes a block to the media by itself.
    Destage {
        lba: u64,
    },
    Cut,
    Read {
        lba: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0..64_usize;
    prop_oneof![
        6 => (0..BLOCKS, 1..=2_u64, prop::bool::weighted(0.2), prop::bool::weighted(0.1))
            .prop_map(|(lba, blocks, zeroes, fua)| Step::Write { lba, blocks, zeroes, fua }),
        7 => (which.clone(), prop::bool::weighted(0.2)).prop_map(|(which, failed)| Step::EndWrite { which, failed }),
        2 => Just(Step::Flush),
        2 => (which, prop::bool::weighted(0.1)).prop_map(|(which, failed)| Step::EndFlush { which, failed }),
        3 => (0..BLOCKS).prop_map(|lba| Step::Destage { lba }),
        2 => Just(Step::Cut),
        3 => (0..BLOCKS).prop_map(|lba| Step::Read { lba }),
    ]
}

/// A write, as in the definition.
#[derive(Clone, Copy, Debug)]
struct Write {
    value: Value,
    lba: u64,
    blocks: u64,
    fua: bool,
    begin: usize,
    end: Option<usize>,
    acknowledged: Option<usize>,
    durable: bool,
}

impl Write {
    fn is_of(&self, lba: u64) -> bool {
        (self.lba..self.lba + self.blocks).contains(&lba)
    }
}

/// By definition: a value may survive a cut unless a durable write of the block began after it had ended.
fn may_survive(writes: &[Write], lba: u64, value: Value) -> bool {
    let here = || writes.iter().filter(|write| write.is_of(lba));
    let superseded = |end: usize| here().any(|write| write.durable && write.begin > end);
    let initial = value == Value::Version(0) && !superseded(0);
    initial || here().any(|write| write.value == value && write.end.is_none_or(|end| !superseded(end)))
}

/// A register with a volatile and a durable value.
#[derive(Clone, Copy)]
struct Block {
    now: Value,
    medium: Value,
}

struct Drive {
    blocks: Vec<Block>,
    protected: bool,
}

impl Drive {
    fn land(&mut self, write: &Write) {
        for lba in write.lba..write.lba + write.blocks {
            let block = &mut self.blocks[lba as usize];
            block.now = write.value;
            if write.fua || self.protected {
                block.medium = write.value;
            }
        }
    }
}

fn read(oracle: &mut Oracle, lba: u64, value: Value) -> bool {
    let token = oracle.begin_read();
    let verified = oracle.verify_read(token, lba, &bytes_of(lba, value)).is_ok();
    oracle.end_read(token);
    verified
}

/// Writes take effect when they end, so they have one order; the oracle does not know what a cut leaves.
fn check(steps: Vec<Step>, protected: bool) {
    let base = BaseState::Stamped { tag: BASE_TAG };
    let mut oracle = Oracle::new(BLOCKS, BlockSize::B512, TAG, base).with_power_cuts(protected);
    let first = Block { now: Value::Version(0), medium: Value::Version(0) };
    let mut drive = Drive { blocks: vec![first; BLOCKS as usize], protected };
    let mut writes: Vec<Write> = Vec::new();
    let mut open: Vec<(usize, WriteToken)> = Vec::new();
    let mut flushes: Vec<(usize, FlushToken)> = Vec::new();
    for (now, step) in steps.into_iter().enumerate() {
        let now = now + 1;
        match step {
            Step::Write { lba, blocks, zeroes, fua } => {
                let blocks = blocks.min(BLOCKS - lba);
                let (token, value) = if zeroes {
                    (oracle.begin_zeroes(lba, blocks), Value::Zeroes)
                } else {
                    let (token, stamp) = oracle.begin_write(lba, blocks);
                    (token, Value::Version(stamp.version))
                };
                open.push((writes.len(), token));
                writes.push(Write {
                    value,
                    lba,
                    blocks,
                    fua,
                    begin: now,
                    end: None,
                    acknowledged: None,
                    durable: false,
                });
            }
            Step::EndWrite { which, failed } if !open.is_empty() => {
                let (index, token) = open.swap_remove(which % open.len());
                let write = &mut writes[index];
                write.end = Some(now);
                if failed {
                    // It has not taken effect; the other test covers that it might have.
                    write.durable = false;
                    oracle.end_write(token, Outcome::Uncertain);
                    continue;
                }
                write.acknowledged = Some(now);
                write.durable = write.fua || protected;
                drive.land(write);
                oracle.end_write(token, if write.fua { Outcome::Durable } else { Outcome::Done });
            }
            Step::Flush => flushes.push((now, oracle.begin_flush())),
            Step::EndFlush { which, failed } if !flushes.is_empty() => {
                let (begin, token) = flushes.swap_remove(which % flushes.len());
                if failed {
                    oracle.end_flush(token, Outcome::Uncertain);
                    continue;
                }
                drive.blocks.iter_mut().for_each(|block| block.medium = block.now);
                for write in &mut writes {
                    write.durable |= write.acknowledged.is_some_and(|at| at < begin);
                }
                oracle.end_flush(token, Outcome::Done);
            }
            Step::Destage { lba } => drive.blocks[lba as usize].medium = drive.blocks[lba as usize].now,
            Step::Cut => {
                // A write in flight takes effect, also on the media, or is lost.
                for (number, (index, _)) in open.drain(..).enumerate() {
                    if number % 2 == 0 {
                        let write = Write { fua: true, ..writes[index] };
                        drive.land(&write);
                    }
                }
                flushes.clear();
                drive.blocks.iter_mut().for_each(|block| block.now = block.medium);
                oracle.cut_power();
                for lba in 0..BLOCKS {
                    let held = drive.blocks[lba as usize].now;
                    assert!(may_survive(&writes, lba, held), "the definition holds for the simulation");
                    // Values that can't have survived are refused, and refusing changes nothing.
                    let others = writes.iter().map(|write| write.value);
                    for other in others.chain([Value::Version(0), Value::Zeroes]) {
                        if !may_survive(&writes, lba, other) {
                            assert!(
                                !read(&mut oracle, lba, other),
                                "{other:?} of block {lba} can't be, at {now}"
                            );
                        }
                    }
                    assert!(read(&mut oracle, lba, held), "{held:?} of block {lba} is right, at {now}");
                }
                // From here on each block counts as written durably with its contents.
                writes.clear();
                for lba in 0..BLOCKS {
                    let value = drive.blocks[lba as usize].now;
                    writes.push(Write {
                        value,
                        lba,
                        blocks: 1,
                        fua: true,
                        begin: now,
                        end: Some(now),
                        acknowledged: Some(now),
                        durable: true,
                    });
                }
                assert_eq!(oracle.volatile_blocks(), 0, "all of them were read");
            }
            Step::Read { lba } => {
                let held = drive.blocks[lba as usize].now;
                assert!(read(&mut oracle, lba, held), "{held:?} of block {lba} is right, at {now}");
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    // An oracle that is too strict would blame a drive that lost only what it may; one too lax would let it lose more.
    #[test]
    fn accepts_what_may_survive_and_nothing_else(
        steps in prop::collection::vec(step(), 1..80),
        protected in prop::bool::ANY,
    ) {
        check(steps, protected);
    }
}
