//! A tiny array in files, and its test data.

use byteway_clock::{Clock, Delay, Executor, Rate};
use byteway_content::{BlockSize, Content, Stamp, UNIT_BYTES};
use byteway_flash::file::{Files, Format, OpenError, OpenReport, Tuning};
use byteway_flash::{BaseContent, Batch, BlockId, Flash, Geometry, Medium, Ppa, Spare, Timing};
use std::rc::Rc;
use std::sync::Arc;

/// 2 dies x 3 superblocks x 4 stripes of 4 units.
pub const GEOMETRY: Geometry =
    Geometry { channels: 1, ways: 2, planes: 2, blocks: 3, pages: 4, page_bytes: 8192 };

pub const BLOCKS: u32 = 6;
pub const STRIPES: u32 = 4;
pub const UNITS: u32 = 4;

/// Frequent checkpoints.
pub const TUNING: Tuning = Tuning { image_units: 40, journal_bytes: 600 };

pub fn timing() -> Timing {
    let us = Delay::from_us;
    Timing {
        read: vec![us(30), us(45)],
        program: vec![us(200)],
        erase: us(3000),
        channel: Rate::per_second(800_000_000),
        command: Delay::from_ns(100),
        ..Timing::default()
    }
}

/// Superblock 1 has two stripes in the base state.
pub struct Base;

impl BaseContent for Base {
    fn stripes(&self, block: BlockId) -> u32 {
        if block == BlockId(1) { 2 } else { 0 }
    }
    fn lpas(&self, first: Ppa, lpas: &mut [u64]) {
        lpas.iter_mut().zip(first.0..).for_each(|(lpa, ppa)| *lpa = ppa);
    }
    fn content(&self, lpa: u64) -> Content {
        Content::Stamp(Stamp { lba: lpa, version: 0, tag: 1, block: BlockSize::B4096 })
    }
}

pub fn format() -> Format {
    Format { geometry: GEOMETRY, traits: vec![("units".to_owned(), "48".to_owned())] }
}

pub fn open(files: Arc<dyn Files>) -> Result<(Medium, OpenReport), OpenError> {
    Medium::open(files, &format(), Rc::new(Base), TUNING)
}

/// Unit `unit` of the `number`th stripe to be programmed.
pub fn unit(number: u64, unit: u32) -> (Spare, Content) {
    let lpa = number * u64::from(UNITS) + u64::from(unit);
    let content = match (number + u64::from(unit)) % 5 {
        0 => Content::Zero,
        1 => Content::Stamp(Stamp { lba: number, version: unit, tag: 2, block: BlockSize::B512 }),
        _ => {
            let mut bytes = [number as u8; UNIT_BYTES];
            bytes[..8].copy_from_slice(&number.to_le_bytes());
            bytes[9] = unit as u8;
            Content::Bytes(bytes.into())
        }
    };
    (Spare { lpa, sequence: number }, content)
}

pub fn batch(number: u64) -> Batch {
    Batch { number, units: (0..UNITS).map(|index| unit(number, index)).collect() }
}

/// The number of a stripe, if all of it is as programmed; None if none of it is readable.
pub fn stripe(flash: &Flash, block: u32, stripe: u32) -> Option<u64> {
    let number = flash.stripe_number(BlockId(block), stripe);
    for index in 0..UNITS {
        let ppa = GEOMETRY.ppa(BlockId(block), stripe, index);
        match number {
            None => assert_eq!((flash.spare(ppa), flash.content(ppa)), (None, Content::Zero)),
            Some(0) => {
                let lpa = ppa.0;
                assert_eq!(flash.spare(ppa), Some(Spare { lpa, sequence: 0 }));
                assert_eq!(flash.content(ppa), Base.content(ppa.0));
            }
            Some(number) => {
                let (spare, content) = unit(number, index);
                assert_eq!((flash.spare(ppa), flash.content(ppa)), (Some(spare), content), "{number}");
            }
        }
    }
    number
}

/// Visible state of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// By superblock: whether it is unstable, its erases, and the number of each stripe.
    pub blocks: Vec<(bool, u32, Vec<Option<u64>>)>,
}

impl Seen {
    pub fn of(flash: &Flash) -> Seen {
        let block = |block| {
            let programmed = flash.programmed_stripes(BlockId(block));
            let stripes = (0..programmed).map(|index| stripe(flash, block, index)).collect();
            (flash.is_unstable(BlockId(block)), flash.erases(BlockId(block)), stripes)
        };
        Seen { blocks: (0..BLOCKS).map(block).collect() }
    }
}

/// Runs `main` on an array with this medium. None if it never completes, because its files have failed.
pub fn run<T: 'static>(medium: Medium, main: impl AsyncFnOnce(Flash, Clock) -> T + 'static) -> Option<T> {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let flash = Flash::new(&clock, GEOMETRY, timing(), medium);
    executor.run(async move { main(flash, clock).await }).ok()
}
