//! Audit after recovery: compares the map with the spare areas, before a damaged directory is trusted.
//!
//! It verifies that
//! - recovery lost nothing: the translation pages named by the root are present and intact, unless newer ones
//!   were found or all their units are known without them; and each logical unit is where its page says, or a
//!   newer version was found, or it was deallocated since;
//! - nor did an earlier one, of units that were not written since;
//! - where the map locates a unit, the spare area names that unit, so no two units share an address;
//! - no readable unit of the array is a later version of its logical unit than the one in the map;
//! - base data that the map refers to have not been erased.
//!
//! It does not verify contents, except those of translation pages, nor that an unmapped unit was deallocated
//! if no translation page has a location for it.
//!
//! It tells what reads will do: it is the recovery of a start that does.

use crate::ftl::inner::Ftl;
use crate::ftl::inner::Inner;
use crate::ftl::map::table::{Entry, EntryKind};
use crate::ftl::space::UnitKind;
use byteway_flash::{BlockId, NO_LPA, Ppa};
use std::collections::BTreeSet;

/// Result of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Translation pages checked in flash.
    pub pages: u64,
    /// Host units checked that the map locates in flash, other than in the base state.
    pub units: u64,
    /// Units found to be lost by this recovery, because of which a start is refused unless it accepts losses.
    pub lost_units: u64,
    /// The first [`Audit::FINDINGS_MAX`] findings.
    pub findings: Vec<Disagreement>,
    /// Total number of findings.
    pub findings_total: u64,
}

/// A defect of the map. Units are numbered over the array, logical units from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Disagreement {
    /// A translation page is damaged, or not at the address in the root.
    #[error(
        "translation page {page} {}: {lost} of the logical units {first} to {last} are lost and read as errors; write \
         them again, or restore the directory from a copy",
        if *is_damaged { format!("in unit {unit} is damaged") }
        else { format!("is not in unit {unit}, where the root says, nor anywhere else") }
    )]
    Page {
        /// Number of the page.
        page: u32,
        /// Its address.
        unit: u64,
        /// Whether it is there.
        is_damaged: bool,
        /// First logical unit that it covers.
        first: u64,
        /// Last logical unit that it covers.
        last: u64,
        /// Units without a later version.
        lost: u64,
    },
    /// Units that an earlier start found to be lost.
    #[error(
        "logical units {first} to {last} are lost since an earlier start and read as errors; write them again, from a \
         copy"
    )]
    StillLost {
        /// First logical unit.
        first: u64,
        /// Last logical unit.
        last: u64,
    },
    /// The version that a translation page refers to does not exist, and no newer one has replaced it.
    #[error(
        "logical unit {lpa}: its translation page says unit {unit}, which {holds}, and no newer version exists; it reads \
         as an error: write it again, from a copy"
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
        let mut audit = Audit::default();
        check_lost(inner, &mut audit);
        count_pages(inner, &mut audit);
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

/// Reports what is lost: found by this recovery, or recorded by an earlier one.
fn check_lost(inner: &Inner, audit: &mut Audit) {
    let losses = &*inner.power.losses.borrow();
    audit.lost_units = losses.units;
    losses.findings.iter().for_each(|finding| audit.find(*finding));
    let (mut pages, mut units) = (BTreeSet::new(), BTreeSet::new());
    for finding in &losses.findings {
        match finding {
            Disagreement::Page { page, .. } => _ = pages.insert(*page),
            Disagreement::Lost { lpa, .. } => _ = units.insert(*lpa),
            _ => {}
        }
    }
    let mut run: Option<(u64, u64)> = None;
    inner.state.borrow().map.table.each_kept(0..inner.space.user, |lpa, entry| {
        let is_reported = || pages.contains(&inner.space.page_of(lpa)) || units.contains(&lpa);
        if entry != Entry::LOST || is_reported() {
            return;
        }
        match &mut run {
            Some((_, last)) if *last + 1 == lpa => *last = lpa,
            _ => {
                if let Some((first, last)) = run.replace((lpa, lpa)) {
                    audit.find(Disagreement::StillLost { first, last });
                }
            }
        }
    });
    if let Some((first, last)) = run {
        audit.find(Disagreement::StillLost { first, last });
    }
}

fn count_pages(inner: &Inner, audit: &mut Audit) {
    let (first, count) = inner.space.map;
    let is_in_flash = |unit: &u64| matches!(entry(inner, *unit).kind(), EntryKind::Flash(_));
    audit.pages = (first..first + count).filter(is_in_flash).count() as u64;
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
