//! Verification of a data directory: all checksums, and the spare areas as far as possible without firmware.
//! Changes nothing.
//!
//! It verifies the format, the checkpoint and the journal; for every stripe that is programmed and not torn,
//! that all of its units are present, of one program, with the contents that were written; that each unit
//! belongs to an existing logical unit; and that no two stripes have the same number. It does not verify the
//! map, which takes firmware (and [`Overlay`](super::Overlay)), nor the base state, which is not in files.

use super::files::Files;
use super::format::{Format, MARKED_VERSION, ParsedFormat};
use super::open::{Loaded, OpenError, OpenReport, read_format};
use super::record::{RECORD_BYTES, Record};
use crate::geometry::{BlockId, Geometry, Ppa};
use crate::store::NO_LPA;
use byteway_content::UNIT_BYTES;
use std::collections::BTreeSet;
use zerocopy::{FromZeros, IntoBytes};

/// Result of a verification.
#[derive(Clone, Debug)]
pub struct Check {
    /// Format of the directory.
    pub format: Format,
    /// State in which the directory would open.
    pub opened: OpenReport,
    /// Superblocks verified: all of them, unless it was stopped.
    pub blocks: u32,
    /// Units verified.
    pub units: u64,
    /// Units among these whose bytes are in the file; all were read.
    pub units_with_bytes: u64,
    /// The first [`Check::FINDINGS_MAX`] findings.
    pub findings: Vec<Finding>,
    /// Total number of findings.
    pub findings_total: u64,
}

impl Check {
    /// Maximum findings that are kept.
    pub const FINDINGS_MAX: usize = 1000;

    fn find(&mut self, finding: Finding) {
        self.findings_total += 1;
        if self.findings.len() < Self::FINDINGS_MAX {
            self.findings.push(finding);
        }
    }
}

/// A defect found by a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// A spare record is damaged, or of another program.
    #[error(
        "unit {unit} (superblock {block}, stripe {stripe}): its spare record is damaged; it reads as an error if it is \
         still in use"
    )]
    Record {
        /// Address of the unit in the array.
        unit: u64,
        /// Superblock.
        block: u32,
        /// Stripe.
        stripe: u32,
    },
    /// The contents differ from what was written.
    #[error(
        "unit {unit} (superblock {block}, stripe {stripe}): its bytes are not those that were written for logical \
         unit {lpa}; it reads as an error if it is still in use: write that unit again, from a copy"
    )]
    Content {
        /// Address of the unit in the array.
        unit: u64,
        /// Superblock.
        block: u32,
        /// Stripe.
        stripe: u32,
        /// Logical unit.
        lpa: u64,
    },
    /// The logical unit is out of range.
    #[error("unit {unit} belongs to logical unit {lpa}, which is out of range; this is a defect of Byteway")]
    Beyond {
        /// Address of the unit in the array.
        unit: u64,
        /// The logical unit in its spare area.
        lpa: u64,
    },
    /// The file `mark` is missing or damaged.
    #[error(
        "the file `mark` is missing or damaged, so what other files lack at their ends cannot be told; the next start of \
         the drive writes it again"
    )]
    Mark,
    /// Two stripes have the same number.
    #[error("two stripes have number {number}; this is a defect of Byteway")]
    Number {
        /// The number.
        number: u64,
    },
}

/// Verifies the directory of a drive with `lpas` logical units. `progress` receives the number of superblocks
/// done and in all, and returns whether to continue.
///
/// # Errors
/// [`OpenError`] if the directory holds no drive, or is too damaged to be opened.
pub fn check(
    files: &dyn Files,
    logical_units: impl FnOnce(&Format) -> u64,
    mut progress: impl FnMut(u64, u64) -> bool,
) -> Result<Check, OpenError> {
    let ParsedFormat { format, version } = read_format(files)?.ok_or(OpenError::Missing)?;
    let geometry = format.geometry;
    let logical = logical_units(&format);
    let mut loaded = Loaded::of(files, geometry)?;
    loaded.find()?;
    let opened = OpenReport { starts: loaded.image.epoch, ..loaded.opened };
    let mut check = Check {
        format,
        opened,
        blocks: 0,
        units: 0,
        units_with_bytes: 0,
        findings: Vec::new(),
        findings_total: 0,
    };
    if loaded.mark.is_none() && version >= MARKED_VERSION {
        check.find(Finding::Mark);
    }
    let torn: BTreeSet<(u32, u32)> = loaded.image.torn.iter().copied().collect();
    let mut numbers = Vec::new();
    for (block, entry) in (0..).zip(&loaded.image.blocks) {
        let stripes = if entry.is_erasing { 0..0 } else { entry.base..entry.programmed };
        for stripe in stripes.filter(|stripe| !torn.contains(&(block, *stripe))) {
            numbers.extend(check_stripe(&loaded, block, stripe, logical, &mut check)?);
        }
        check.blocks += 1;
        if !progress(u64::from(block) + 1, u64::from(geometry.total_blocks())) {
            break;
        }
    }
    numbers.sort_unstable();
    for pair in numbers.windows(2).filter(|pair| pair[0] == pair[1]) {
        check.find(Finding::Number { number: pair[0] });
    }
    Ok(check)
}

/// Verifies a stripe. Returns its number, if a unit has one.
fn check_stripe(
    loaded: &Loaded,
    block: u32,
    stripe: u32,
    logical: u64,
    check: &mut Check,
) -> Result<Option<u64>, OpenError> {
    let geometry = &loaded.geometry;
    let mut records = [Record::new_zeroed(); Geometry::STRIPE_UNITS_MAX as usize];
    let records = &mut records[..geometry.units_per_stripe() as usize];
    let first = geometry.ppa(BlockId(block), stripe, 0);
    loaded.spare.read_at(records.as_mut_bytes(), first.0 * RECORD_BYTES as u64)?;
    let generation = loaded.image.blocks[block as usize].generation;
    let whole = (first.0..).map(Ppa).zip(&*records).find(|(ppa, record)| record.is_whole(*ppa));
    let origin = whole.map_or(records[0].origin(), |(_, record)| record.origin());
    let mut bytes = [0; UNIT_BYTES];
    for (ppa, record) in (first.0..).map(Ppa).zip(&*records) {
        let unit = ppa.0;
        check.units += 1;
        let is_whole = record.is_whole(ppa) && record.origin() == origin && origin.generation == generation;
        if !is_whole {
            check.find(Finding::Record { unit, block, stripe });
            continue;
        }
        let lpa = record.spare().lpa;
        if lpa != NO_LPA && lpa >= logical {
            check.find(Finding::Beyond { unit, lpa });
        }
        if record.has_bytes() {
            check.units_with_bytes += 1;
            loaded.data.read_at(&mut bytes, unit * UNIT_BYTES as u64)?;
            if !record.is_of(&bytes) {
                check.find(Finding::Content { unit, block, stripe, lpa });
            }
        } else if record.content().is_none() {
            check.find(Finding::Record { unit, block, stripe });
        }
    }
    Ok(whole.map(|_| origin.number))
}
