//! Audit after recovery: compares the map with the spare areas, before a damaged directory is trusted.
//!
//! It verifies that
//! - the translation pages named by the root are present and readable, unless newer ones were found or all
//!   their units are known without them;
//! - a logical unit is where its translation page says, or a newer version was found, or it was deallocated
//!   since;
//! - where the map locates a unit, the spare area names that unit, so no two units share an address;
//! - no readable unit of the array is a later version of its logical unit than the one in the map;
//! - base data that the map refers to have not been erased.
//!
//! It does not verify contents, except those of translation pages, nor that an unmapped unit was deallocated
//! if no translation page has a location for it.

use crate::ftl::durable::journal::{self, Trim};
use crate::ftl::durable::root::Root;
use crate::ftl::inner::Ftl;
use crate::ftl::inner::Inner;
use crate::ftl::map::page;
use crate::ftl::map::table::{Entry, EntryKind};
use crate::ftl::space::UnitKind;
use byteway_content::UNIT_BYTES;
use byteway_flash::{BlockId, NO_LPA, Ppa};
use std::ops::Range;

/// Result of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Translation pages checked in flash.
    pub pages: u64,
    /// Host units checked that the map locates in flash, other than in the base state.
    pub units: u64,
    /// The first [`Audit::FINDINGS_MAX`] findings.
    pub findings: Vec<Disagreement>,
    /// Total number of findings.
    pub findings_total: u64,
}

/// A defect of the map. Units are numbered over the array, logical units from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Disagreement {
    /// A translation page is not at the address in the root.
    #[error(
        "translation page {page} is not in unit {unit}, where the root says, nor anywhere else: the location of \
         logical units {first} to {last} is unknown; restore the directory from a copy"
    )]
    PageGone {
        /// Number of the page.
        page: u32,
        /// Address according to the root.
        unit: u64,
        /// First logical unit that it covers.
        first: u64,
        /// Last logical unit that it covers.
        last: u64,
    },
    /// An older version of a translation page replaces the one that the root names.
    #[error(
        "translation page {page} is not in unit {unit}, where the root says, and an older version is in unit {older}: \
         logical units {first} to {last} may read as older versions; restore the directory from a copy"
    )]
    PageOlder {
        /// Number of the page.
        page: u32,
        /// Address according to the root.
        unit: u64,
        /// Address of the older version.
        older: u64,
        /// First logical unit that it covers.
        first: u64,
        /// Last logical unit that it covers.
        last: u64,
    },
    /// A translation page is unreadable.
    #[error("translation page {page} in unit {unit} is damaged; restore the directory from a copy")]
    PageDamaged {
        /// Number of the page.
        page: u32,
        /// Address.
        unit: u64,
    },
    /// The version that a translation page refers to does not exist, and no newer one has replaced it.
    #[error(
        "logical unit {lpa}: its translation page says unit {unit}, which {holds}, and no newer version exists; it reads \
         as zeroes: write it again, from a copy"
    )]
    Lost {
        /// The logical unit.
        lpa: u64,
        /// Address according to the translation page.
        unit: u64,
        /// Content of that unit.
        holds: UnitContent,
    },
    /// The map leads to another unit's data.
    #[error("logical unit {lpa}: the map says unit {unit}, which {holds}; write it again, from a copy")]
    Place {
        /// The logical unit.
        lpa: u64,
        /// Address according to the map.
        unit: u64,
        /// Content of that unit.
        holds: UnitContent,
    },
    /// The map leads to an older version than exists.
    #[error(
        "logical unit {lpa}: the map says unit {unit}, and unit {newer} holds a later version; this is a \
         defect of Byteway"
    )]
    Older {
        /// The logical unit.
        lpa: u64,
        /// Address according to the map.
        unit: u64,
        /// Address of a later version.
        newer: u64,
    },
}

/// Content of a unit of the array, according to its spare area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitContent {
    /// The unit is not readable.
    Nothing,
    /// A version of this logical unit.
    Unit(u64),
}

impl std::fmt::Display for UnitContent {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            UnitContent::Nothing => write!(out, "holds nothing readable"),
            UnitContent::Unit(lpa) => write!(out, "belongs to logical unit {lpa}"),
        }
    }
}

impl Audit {
    /// Maximum findings that are kept.
    pub const FINDINGS_MAX: usize = 1000;

    fn find(&mut self, finding: Disagreement) {
        self.findings_total += 1;
        if self.findings.len() < Self::FINDINGS_MAX {
            self.findings.push(finding);
        }
    }
}

impl Ftl {
    /// Compares the recovered map with the spare areas. Call it when the layer is [ready](Ftl::ready), before
    /// anything else; the layer does nothing more afterwards. Takes modelled time only for the system area.
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

fn holds(inner: &Inner, ppa: Ppa) -> UnitContent {
    inner.flash.spare(ppa).map_or(UnitContent::Nothing, |spare| UnitContent::Unit(spare.lpa))
}

/// Version of a unit at an address; None if another unit is there.
fn sequence(inner: &Inner, lpa: u64, ppa: Ppa) -> Option<u64> {
    inner.flash.spare(ppa).filter(|spare| spare.lpa == lpa).map(|spare| spare.sequence)
}

/// The unit of a translation page, and the range of host units that it covers.
fn page_units(inner: &Inner, page: u32) -> (u64, Range<u64>) {
    let state = inner.state.borrow();
    (state.map.pages.unit(page), state.map.pages.units(page))
}

fn page_count(inner: &Inner) -> u32 {
    inner.state.borrow().map.pages.count()
}

/// Checks that the translation pages named by the root, or newer ones, are present.
fn check_root(inner: &Inner, root: &Root, trims: &[Trim], audit: &mut Audit) {
    for run in &root.pages {
        let EntryKind::Flash(ppa) = run.place.kind() else { continue };
        if run.first >= page_count(inner) {
            continue;
        }
        let (page, (unit, units)) = (run.first, page_units(inner, run.first));
        if sequence(inner, unit, ppa).is_some() {
            continue;
        }
        let (first, last) = (units.start, units.end - 1);
        let found = match entry(inner, unit).kind() {
            EntryKind::Flash(found) => sequence(inner, unit, found).map(|sequence| (found, sequence)),
            _ => None,
        };
        match found {
            // A page whose units were all deallocated may be gone before the next root records it.
            None if is_known_without(inner, root, trims, &units) => {}
            None => audit.find(Disagreement::PageGone { page, unit: ppa.0, first, last }),
            // Nothing was moved where nothing was erased since, so the page should be there.
            Some((found, sequence)) if sequence < root.settled && is_as_then(inner, root, ppa) => {
                let older = found.0;
                audit.find(Disagreement::PageOlder { page, unit: ppa.0, older, first, last });
            }
            Some(_) => {}
        }
    }
}

/// Whether all of these units have newer versions than the root's, or were deallocated since.
fn is_known_without(inner: &Inner, root: &Root, trims: &[Trim], units: &Range<u64>) -> bool {
    let trims: Vec<&Trim> = trims.iter().filter(|trim| is_since(root, trim, units)).collect();
    units.clone().all(|lpa| match entry(inner, lpa).kind() {
        EntryKind::Flash(_) | EntryKind::Slot(_) => true,
        EntryKind::Base | EntryKind::Unmapped => trims.iter().any(|trim| range(trim).contains(&lpa)),
    })
}

fn range(trim: &Trim) -> Range<u64> {
    trim.first..trim.first.saturating_add(trim.count)
}

/// Whether a deallocation after the root covers some of these units.
fn is_since(root: &Root, trim: &Trim, units: &Range<u64>) -> bool {
    let Range { start, end } = range(trim);
    trim.sequence >= root.settled && start < units.end && end > units.start
}

/// Whether a superblock has not been erased or opened since the root was written.
fn is_as_then(inner: &Inner, root: &Root, ppa: Ppa) -> bool {
    if ppa.0 >= inner.geometry.total_units() {
        return false;
    }
    let block = inner.geometry.block_of(ppa);
    let first = inner.flash.stripe_number(block, 0);
    first.is_some_and(|number| number < root.first_stripe)
}

/// Checks that the map agrees with the translation pages, or has something newer.
async fn check_pages(inner: &Inner, root: &Root, trims: &[Trim], audit: &mut Audit) {
    for page in 0..page_count(inner) {
        let (unit, units) = page_units(inner, page);
        let EntryKind::Flash(ppa) = entry(inner, unit).kind() else { continue };
        audit.pages += 1;
        let Some(content) = inner.flash.intact(ppa).await.filter(|_| sequence(inner, unit, ppa).is_some())
        else {
            audit.find(Disagreement::PageDamaged { page, unit: ppa.0 });
            continue;
        };
        let mut bytes = [0; UNIT_BYTES];
        content.write_to(&mut bytes);
        let said = page::decode(&bytes, inner.space, page).map(|(lpa, entry)| (lpa, entry.kind()));
        // Locations in the map are checked by `check_places`.
        let nowhere: Vec<(u64, Ppa)> = said
            .filter_map(|(lpa, said)| match said {
                EntryKind::Flash(said) if entry(inner, lpa) == Entry::UNMAPPED => Some((lpa, said)),
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

/// Checks that units are where the map locates them.
fn check_places(inner: &Inner, audit: &mut Audit) {
    let mut places: Vec<(u64, Ppa)> = Vec::new();
    inner.state.borrow().map.table.each_kept(0..inner.space.user, |lpa, entry| {
        if let EntryKind::Flash(ppa) = entry.kind() {
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

/// Checks that no unit of the array is later than the one in the map.
fn check_array(inner: &Inner, audit: &mut Audit) {
    let geometry = &inner.geometry;
    for block in (0..geometry.total_blocks()).map(BlockId) {
        for stripe in 0..inner.flash.programmed_stripes(block) {
            // Base data are older than anything else.
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
                let EntryKind::Flash(mapped) = entry(inner, spare.lpa).kind() else { continue };
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

/// Checks that base data that the map refers to are still there.
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
