//! The oracle against a register with concurrent operations, simulated and by definition.

use byteway_content::{BlockSize, Stamp};
use byteway_host::Outcome;
use byteway_host::{BaseState, Oracle};
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

/// A write, from its start to its end if it has ended.
#[derive(Clone, Copy, Debug)]
struct Write {
    value: Value,
    lba: u64,
    blocks: u64,
    begin: usize,
    end: Option<usize>,
    failed: bool,
}

/// By definition: a read from `begin` to now may return a write's value unless another write certainly came after that
/// write and before the read.
fn may_return(writes: &[Write], lba: u64, value: Value, begin: usize) -> bool {
    let here = || writes.iter().filter(|write| (write.lba..write.lba + write.blocks).contains(&lba));
    let replaced = |end: usize| {
        here().any(|write| !write.failed && write.begin > end && write.end.is_some_and(|ended| ended < begin))
    };
    let initial = value == Value::Version(0) && !replaced(0);
    initial || here().any(|write| write.value == value && write.end.is_none_or(|end| !replaced(end)))
}

/// One step of a history; numbers are taken modulo what there is.
#[derive(Clone, Debug)]
enum Step {
    Write {
        lba: u64,
        blocks: u64,
        zeroes: bool,
    },
    /// A write in flight takes effect on one of its blocks.
    Land {
        which: usize,
        block: u64,
    },
    EndWrite {
        which: usize,
        failed: bool,
    },
    Read {
        lba: u64,
    },
    /// A read in flight samples the block.
    Sample {
        which: usize,
    },
    EndRead {
        which: usize,
    },
    /// A read that returns any value ever written: correct or wrong by the definition.
    Guess {
        lba: u64,
        value: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let lba = 0..BLOCKS;
    let which = 0..64_usize;
    prop_oneof![
        3 => (lba.clone(), 1..=2_u64, prop::bool::weighted(0.2))
            .prop_map(|(lba, blocks, zeroes)| Step::Write { lba, blocks, zeroes }),
        4 => (which.clone(), 0..2_u64).prop_map(|(which, block)| Step::Land { which, block }),
        3 => (which.clone(), prop::bool::weighted(0.2)).prop_map(|(which, failed)| Step::EndWrite { which, failed }),
        3 => lba.clone().prop_map(|lba| Step::Read { lba }),
        4 => which.clone().prop_map(|which| Step::Sample { which }),
        4 => which.clone().prop_map(|which| Step::EndRead { which }),
        3 => (lba, which).prop_map(|(lba, value)| Step::Guess { lba, value }),
    ]
}

struct OpenWrite {
    index: usize,
    token: byteway_host::WriteToken,
    landed: Vec<bool>,
}

struct OpenRead {
    lba: u64,
    token: byteway_host::ReadToken,
    begin: usize,
    sampled: Option<Value>,
}

fn check(steps: Vec<Step>) {
    let mut oracle = Oracle::new(BLOCKS, BlockSize::B512, TAG, BaseState::Stamped { tag: BASE_TAG });
    let mut content = vec![Value::Version(0); BLOCKS as usize];
    let mut writes: Vec<Write> = Vec::new();
    let mut open_writes: Vec<OpenWrite> = Vec::new();
    let mut open_reads: Vec<OpenRead> = Vec::new();
    for (now, step) in steps.into_iter().enumerate() {
        let now = now + 1;
        match step {
            Step::Write { lba, blocks, zeroes } => {
                let blocks = blocks.min(BLOCKS - lba);
                let (token, value) = if zeroes {
                    (oracle.begin_zeroes(lba, blocks), Value::Zeroes)
                } else {
                    let (token, stamp) = oracle.begin_write(lba, blocks);
                    (token, Value::Version(stamp.version))
                };
                open_writes.push(OpenWrite {
                    index: writes.len(),
                    token,
                    landed: vec![false; blocks as usize],
                });
                writes.push(Write { value, lba, blocks, begin: now, end: None, failed: false });
            }
            Step::Land { which, block } if !open_writes.is_empty() => {
                let count = open_writes.len();
                let open = &mut open_writes[which % count];
                let write = writes[open.index];
                let block = block % write.blocks;
                if !std::mem::replace(&mut open.landed[block as usize], true) {
                    content[(write.lba + block) as usize] = write.value;
                }
            }
            Step::EndWrite { which, failed } if !open_writes.is_empty() => {
                let open = open_writes.swap_remove(which % open_writes.len());
                let write = &mut writes[open.index];
                if !failed {
                    for (block, landed) in open.landed.iter().enumerate() {
                        if !landed {
                            content[write.lba as usize + block] = write.value;
                        }
                    }
                }
                (write.end, write.failed) = (Some(now), failed);
                oracle.end_write(open.token, if failed { Outcome::Uncertain } else { Outcome::Done });
            }
            Step::Read { lba } => {
                let token = oracle.begin_read();
                open_reads.push(OpenRead { lba, token, begin: now, sampled: None });
            }
            Step::Sample { which } if !open_reads.is_empty() => {
                let count = open_reads.len();
                let read = &mut open_reads[which % count];
                read.sampled.get_or_insert(content[read.lba as usize]);
            }
            Step::EndRead { which } if !open_reads.is_empty() => {
                let read = open_reads.swap_remove(which % open_reads.len());
                let value = read.sampled.unwrap_or(content[read.lba as usize]);
                assert!(
                    may_return(&writes, read.lba, value, read.begin),
                    "the definition holds for the simulation"
                );
                let verified = oracle.verify_read(read.token, read.lba, &bytes_of(read.lba, value));
                verified.expect("what a register returned is right");
                oracle.end_read(read.token);
            }
            Step::Guess { lba, value } => {
                let value = match value % (writes.len() + 1) {
                    0 => Value::Version(0),
                    index => writes[index - 1].value,
                };
                let token = oracle.begin_read();
                let verified = oracle.verify_read(token, lba, &bytes_of(lba, value));
                oracle.end_read(token);
                let here = writes.iter().any(|write| {
                    write.value == value && (write.lba..write.lba + write.blocks).contains(&lba)
                });
                let possible = (here || value == Value::Version(0)) && may_return(&writes, lba, value, now);
                assert!(possible || verified.is_err(), "{value:?} of block {lba} cannot be, at {now}");
                // The accepted value is now the block's contents, if the oracle was free to choose.
                if verified.is_ok() && !open_on(&open_writes, &writes, lba) {
                    content[lba as usize] = value;
                    for read in &mut open_reads {
                        if read.lba == lba {
                            read.sampled.get_or_insert(value);
                        }
                    }
                }
            }
            _ => {}
        }
    }
    // Without I/O in flight each block has one value.
    while let Some(open) = open_writes.pop() {
        let write = writes[open.index];
        (write.lba..write.lba + write.blocks).for_each(|lba| content[lba as usize] = write.value);
        oracle.end_write(open.token, Outcome::Done);
    }
    open_reads.into_iter().for_each(|read| oracle.end_read(read.token));
    for lba in 0..BLOCKS {
        let token = oracle.begin_read();
        let held = content[lba as usize];
        oracle.verify_read(token, lba, &bytes_of(lba, held)).expect("the last value is right");
        oracle.end_read(token);
        let values = writes.iter().map(|write| write.value).chain([Value::Version(0), Value::Zeroes]);
        for value in values.filter(|value| *value != held) {
            let token = oracle.begin_read();
            oracle.verify_read(token, lba, &bytes_of(lba, value)).expect_err("a read has decided");
            oracle.end_read(token);
        }
    }
    assert_eq!(oracle.contested_blocks(), 0);
}

fn open_on(open: &[OpenWrite], writes: &[Write], lba: u64) -> bool {
    open.iter().any(|open| {
        let write = writes[open.index];
        (write.lba..write.lba + write.blocks).contains(&lba)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    // An oracle that is too strict would blame a correct drive; one too lax would miss a lost write.
    #[test]
    fn accepts_what_a_register_may_return_and_nothing_else(steps in prop::collection::vec(step(), 1..120)) {
        check(steps);
    }
}
