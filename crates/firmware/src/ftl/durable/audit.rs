//! Whether the map and the spare areas say the same, after recovery: what is to be known before a damaged directory is
//! trusted.
//!
//! It verifies that
//! - the translation pages that the root names are there, unless newer ones were found or all that they are about is
//!   known without them, and can be read;
//! - a logical unit is where its translation page says, or a newer state was found, or it was deallocated since;
//! - where the map says that a unit is, flash has it, and says that it is this one's; so no two share a place;
//! - no readable unit of the array is a later state of its logical unit than the one that the map leads to;
//! - what lies where the base state has it has not been erased.
//!
//! It does not verify contents, other than those of translation pages, nor that what is nowhere was deallocated if no
//! translation page says that it was anywhere.

use crate::ftl::durable::journal::{self, Trim};
use crate::ftl::durable::root::Root;
use crate::ftl::inner::Ftl;
use crate::ftl::inner::Inner;
use crate::ftl::map::page;
use crate::ftl::map::table::{Entry, Place};
use crate::ftl::space::UnitKind;
use byteway_flash::{BlockId, NO_LPA, Ppa};
use byteway_wire::content::UNIT_BYTES;
use std::ops::Range;

/// What was looked at, and what is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Translation pages in flash.
    pub pages: u64,
    /// Logical units of the host's that the map says are in flash, other than where the base state has them.
    pub units: u64,
    /// What is wrong, the first [`Audit::FINDINGS_MAX`].
    pub findings: Vec<Disagreement>,
    /// How much is wrong in all.
    pub findings_total: u64,
}

/// Something that is wrong with the map. Units are numbered over the array, logical units from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Disagreement {
    /// A translation page is not where the root says.
    #[error(
        "translation page {page} is not in unit {unit}, where the root says, nor anywhere else: where logical units {first} \
         to {last} are is not known; restore the directory from a copy"
    )]
    PageGone {
        /// Which.
        page: u32,
        /// Where it should be.
        unit: u64,
        /// What it is about.
        first: u64,
        /// To this one, included.
        last: u64,
    },
    /// An older version of a translation page takes the place of the one that the root names.
    #[error(
        "translation page {page} is not in unit {unit}, where the root says, and an older version is in unit {older}: \
         logical units {first} to {last} may read as what they held before; restore the directory from a copy"
    )]
    PageOlder {
        /// Which.
        page: u32,
        /// Where it should be.
        unit: u64,
        /// Where an older version is.
        older: u64,
        /// What it is about.
        first: u64,
        /// To this one, included.
        last: u64,
    },
    /// A translation page can't be read.
    #[error("translation page {page} in unit {unit} is damaged; restore the directory from a copy")]
    PageDamaged {
        /// Which.
        page: u32,
        /// Where it is.
        unit: u64,
    },
    /// What a translation page says is no more, and nothing has taken its place.
    #[error(
        "logical unit {lpa}: its translation page says unit {unit}, which {holds}, and no newer state is there; it reads as \
         zeroes: write it again, from a copy"
    )]
    Lost {
        /// Which logical unit.
        lpa: u64,
        /// Where it should be.
        unit: u64,
        /// What is there.
        holds: Holds,
    },
    /// The map leads to what is not this unit.
    #[error("logical unit {lpa}: the map says unit {unit}, which {holds}; write it again, from a copy")]
    Place {
        /// Which logical unit.
        lpa: u64,
        /// Where the map says that it is.
        unit: u64,
        /// What is there.
        holds: Holds,
    },
    /// The map leads to an older state than there is.
    #[error(
        "logical unit {lpa}: the map says unit {unit}, and unit {newer} holds a later state; this is a defect of Byteway"
    )]
    Older {
        /// Which logical unit.
        lpa: u64,
        /// Where the map says that it is.
        unit: u64,
        /// Where a later state is.
        newer: u64,
    },
}

/// What a unit of the array holds, as its spare area says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Nothing that can be read.
    Nothing,
    /// A state of this logical unit.
    Unit(u64),
}

impl std::fmt::Display for Holds {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Holds::Nothing => write!(out, "holds nothing that can be read"),
            Holds::Unit(lpa) => write!(out, "is that of logical unit {lpa}"),
        }
    }
}

impl Audit {
    /// How many findings are kept.
    pub const FINDINGS_MAX: usize = 1000;

    fn find(&mut self, finding: Disagreement) {
        self.findings_total += 1;
        if self.findings.len() < Self::FINDINGS_MAX {
            self.findings.push(finding);
        }
    }
}

impl Ftl {
    /// Compares the map, as recovery has found it, with the spare areas. To be called when it is [ready](Ftl::ready), before
    /// anything else: nothing more is done by this translation layer. It takes modelled time for the system area only.
    pub async fn audit(&self) -> Audit {
        self.end_tasks();
        let inner = &*self.0;
        let mut trims: Vec<Trim> = Vec::new();
        for page in inner.flash.read_journal().await {
            trims.extend(journal::decode(&page));
        }
        let roots = [inner.flash.read_root(0).await, inner.flash.read_root(1).await];
        let root = roots.iter().flatten().filter_map(|bytes| Root::decode(bytes));
        let root = root.max_by_key(|root| root.generation).unwrap_or_default();
        let mut audit = Audit::default();
        check_root(inner, &root, &trims, &mut audit);
        check_pages(inner, &root, &trims, &mut audit).await;
        check_places(inner, &mut audit);
        check_array(inner, &mut audit);
        check_base(inner, &mut audit);
        audit
    }
}

fn entry(inner: &Inner, lpa: u64) -> Entry {
    inner.state.borrow().map.table.get(lpa)
}

fn holds(inner: &Inner, ppa: Ppa) -> Holds {
    inner.flash.spare(ppa).map_or(Holds::Nothing, |spare| Holds::Unit(spare.lpa))
}

/// Which state of a unit lies there, if one does.
fn sequence(inner: &Inner, lpa: u64, ppa: Ppa) -> Option<u64> {
    inner.flash.spare(ppa).filter(|spare| spare.lpa == lpa).map(|spare| spare.sequence)
}

/// The unit of a translation page, and the host's units that it is about: from the first to the last.
fn page_units(inner: &Inner, page: u32) -> (u64, Range<u64>) {
    let state = inner.state.borrow();
    (state.map.pages.unit(page), state.map.pages.units(page))
}

fn page_count(inner: &Inner) -> u32 {
    inner.state.borrow().map.pages.count()
}

/// The translation pages that the root names are there, or newer ones.
fn check_root(inner: &Inner, root: &Root, trims: &[Trim], audit: &mut Audit) {
    for run in &root.pages {
        let Place::Flash(ppa) = run.place.place() else { continue };
        if run.first >= page_count(inner) {
            continue;
        }
        let (page, (unit, units)) = (run.first, page_units(inner, run.first));
        if sequence(inner, unit, ppa).is_some() {
            continue;
        }
        let (first, last) = (units.start, units.end - 1);
        let found = match entry(inner, unit).place() {
            Place::Flash(found) => sequence(inner, unit, found).map(|sequence| (found, sequence)),
            _ => None,
        };
        match found {
            // A page of which everything was deallocated is lost before the next root says so.
            None if is_known_without(inner, root, trims, &units) => {}
            None => audit.find(Disagreement::PageGone { page, unit: ppa.0, first, last }),
            // Where nothing was erased since, nothing was moved: it should be there.
            Some((found, sequence)) if sequence < root.settled && is_as_then(inner, root, ppa) => {
                let older = found.0;
                audit.find(Disagreement::PageOlder { page, unit: ppa.0, older, first, last });
            }
            Some(_) => {}
        }
    }
}

/// Whether all of these units have newer states than the root's, or were deallocated since.
fn is_known_without(inner: &Inner, root: &Root, trims: &[Trim], units: &Range<u64>) -> bool {
    let trims: Vec<&Trim> = trims.iter().filter(|trim| is_since(root, trim, units)).collect();
    units.clone().all(|lpa| match entry(inner, lpa).place() {
        Place::Flash(_) | Place::Slot(_) => true,
        Place::Base | Place::Unmapped => trims.iter().any(|trim| range(trim).contains(&lpa)),
    })
}

fn range(trim: &Trim) -> Range<u64> {
    trim.first..trim.first.saturating_add(trim.count)
}

/// Whether a deallocation came after the root, and is about some of these units.
fn is_since(root: &Root, trim: &Trim, units: &Range<u64>) -> bool {
    let Range { start, end } = range(trim);
    trim.sequence >= root.settled && start < units.end && end > units.start
}

/// Whether a superblock was neither erased nor begun since the root was written.
fn is_as_then(inner: &Inner, root: &Root, ppa: Ppa) -> bool {
    if ppa.0 >= inner.geometry.total_units() {
        return false;
    }
    let block = inner.geometry.block_of(ppa);
    let first = inner.flash.stripe_number(block, 0);
    first.is_some_and(|number| number < root.first_stripe)
}

/// What translation pages say is what the map says, or something newer has come.
async fn check_pages(inner: &Inner, root: &Root, trims: &[Trim], audit: &mut Audit) {
    for page in 0..page_count(inner) {
        let (unit, units) = page_units(inner, page);
        let Place::Flash(ppa) = entry(inner, unit).place() else { continue };
        audit.pages += 1;
        let Some(content) = inner.flash.intact(ppa).await.filter(|_| sequence(inner, unit, ppa).is_some())
        else {
            audit.find(Disagreement::PageDamaged { page, unit: ppa.0 });
            continue;
        };
        let mut bytes = [0; UNIT_BYTES];
        content.write_to(&mut bytes);
        let said = page::decode(&bytes, inner.space, page).map(|(lpa, entry)| (lpa, entry.place()));
        // Where the map leads is looked at for itself.
        let nowhere: Vec<(u64, Ppa)> = said
            .filter_map(|(lpa, said)| match said {
                Place::Flash(said) if entry(inner, lpa) == Entry::UNMAPPED => Some((lpa, said)),
                _ => None,
            })
            .collect();
        if nowhere.is_empty() {
            continue;
        }
        let trims: Vec<&Trim> = trims.iter().filter(|trim| is_since(root, trim, &units)).collect();
        for (lpa, said) in nowhere {
            let there = sequence(inner, lpa, said);
            let ends =
                |trim: &&Trim| range(trim).contains(&lpa) && there.is_none_or(|state| state < trim.sequence);
            if !trims.iter().any(ends) {
                audit.find(Disagreement::Lost { lpa, unit: said.0, holds: holds(inner, said) });
            }
        }
    }
}

/// Where the map says that units are, they are.
fn check_places(inner: &Inner, audit: &mut Audit) {
    let mut places: Vec<(u64, Ppa)> = Vec::new();
    inner.state.borrow().map.table.each_kept(0..inner.space.user, |lpa, entry| {
        if let Place::Flash(ppa) = entry.place() {
            places.push((lpa, ppa));
        }
    });
    for (lpa, ppa) in places {
        audit.units += 1;
        if sequence(inner, lpa, ppa).is_none() {
            audit.find(Disagreement::Place { lpa, unit: ppa.0, holds: holds(inner, ppa) });
        }
    }
}

/// No unit of the array is later than the one that the map leads to.
fn check_array(inner: &Inner, audit: &mut Audit) {
    let geometry = &inner.geometry;
    for block in (0..geometry.total_blocks()).map(BlockId) {
        for stripe in 0..inner.flash.programmed_stripes(block) {
            // What the base state has is older than anything else.
            if inner.flash.stripe_number(block, stripe).is_none_or(|number| number == 0) {
                continue;
            }
            let start = geometry.ppa(block, stripe, 0).0;
            for ppa in (start..start + u64::from(geometry.units_per_stripe())).map(Ppa) {
                let Some(spare) = inner.flash.spare(ppa).filter(|spare| spare.lpa != NO_LPA) else {
                    continue;
                };
                if !matches!(inner.space.kind(spare.lpa), UnitKind::User | UnitKind::Map(_)) {
                    continue;
                }
                let Place::Flash(mapped) = entry(inner, spare.lpa).place() else { continue };
                if mapped != ppa
                    && sequence(inner, spare.lpa, mapped).is_some_and(|sequence| sequence < spare.sequence)
                {
                    let (lpa, unit, newer) = (spare.lpa, mapped.0, ppa.0);
                    audit.find(Disagreement::Older { lpa, unit, newer });
                }
            }
        }
    }
}

/// What lies where the base state has it is there still.
fn check_base(inner: &Inner, audit: &mut Audit) {
    let geometry = &inner.geometry;
    for block in (0..geometry.total_blocks()).map(BlockId) {
        let stripes = inner.base.stripes(block);
        if stripes == 0 || inner.flash.stripe_number(block, 0) == Some(0) {
            continue;
        }
        let start = geometry.ppa(block, 0, 0).0;
        for ppa in (start..start + u64::from(stripes) * u64::from(geometry.units_per_stripe())).map(Ppa) {
            let Some(lpa) = inner.base.lpa(ppa) else { continue };
            if lpa < inner.space.user && entry(inner, lpa) == Entry::BASE {
                audit.find(Disagreement::Place { lpa, unit: ppa.0, holds: holds(inner, ppa) });
            }
        }
    }
}
