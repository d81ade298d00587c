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

use crate::ftl::core::Core;
use crate::ftl::finding::{Disagreement, UnitContent};
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

/// Compares the recovered map with the spare areas, once all tasks have ended.
pub(in crate::ftl) fn audit(core: &Core) -> Audit {
    let mut audit = Audit::default();
    check_lost(core, &mut audit);
    count_pages(core, &mut audit);
    check_places(core, &mut audit);
    check_array(core, &mut audit);
    check_base(core, &mut audit);
    audit
}

fn entry(core: &Core, lpa: u64) -> Entry {
    core.state.borrow().map.get(lpa)
}

fn holds(core: &Core, ppa: Ppa) -> UnitContent {
    core.flash.spare(ppa).map_or(UnitContent::Nothing, |spare| UnitContent::Unit(spare.lpa))
}

/// Version of a unit at an address; None if another unit is there.
fn sequence(core: &Core, lpa: u64, ppa: Ppa) -> Option<u64> {
    core.flash.spare(ppa).filter(|spare| spare.lpa == lpa).map(|spare| spare.sequence)
}

/// Reports what is lost: found by this recovery, or recorded by an earlier one.
fn check_lost(core: &Core, audit: &mut Audit) {
    let losses = &*core.power.losses();
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
    core.state.borrow().map.table().each_kept(0..core.space.user, |lpa, entry| {
        let is_reported = || pages.contains(&core.space.page_of(lpa)) || units.contains(&lpa);
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

fn count_pages(core: &Core, audit: &mut Audit) {
    let (first, count) = core.space.map;
    let is_in_flash = |unit: &u64| matches!(entry(core, *unit).kind(), EntryKind::Flash(_));
    audit.pages = (first..first + count).filter(is_in_flash).count() as u64;
}

/// Checks that units are where the map locates them.
fn check_places(core: &Core, audit: &mut Audit) {
    let mut places: Vec<(u64, Ppa)> = Vec::new();
    core.state.borrow().map.table().each_kept(0..core.space.user, |lpa, entry| {
        if let EntryKind::Flash(ppa) = entry.kind() {
            places.push((lpa, ppa));
        }
    });
    for (lpa, ppa) in places {
        audit.units += 1;
        if sequence(core, lpa, ppa).is_none() {
            audit.find(Disagreement::Place { lpa, unit: ppa.0, holds: holds(core, ppa) });
        }
    }
}

/// Checks that no unit of the array is later than the one in the map.
fn check_array(core: &Core, audit: &mut Audit) {
    let geometry = &core.geometry;
    for block in (0..geometry.total_blocks()).map(BlockId) {
        for stripe in 0..core.flash.programmed_stripes(block) {
            // Base data are older than anything else.
            if core.flash.stripe_number(block, stripe).is_none_or(|number| number == 0) {
                continue;
            }
            let start = geometry.ppa(block, stripe, 0).0;
            for ppa in (start..start + u64::from(geometry.units_per_stripe())).map(Ppa) {
                let Some(spare) = core.flash.spare(ppa).filter(|spare| spare.lpa != NO_LPA) else {
                    continue;
                };
                if !matches!(core.space.kind(spare.lpa), UnitKind::User | UnitKind::Map(_)) {
                    continue;
                }
                let EntryKind::Flash(mapped) = entry(core, spare.lpa).kind() else { continue };
                if mapped != ppa
                    && sequence(core, spare.lpa, mapped).is_some_and(|sequence| sequence < spare.sequence)
                {
                    let (lpa, unit, newer) = (spare.lpa, mapped.0, ppa.0);
                    audit.find(Disagreement::Older { lpa, unit, newer });
                }
            }
        }
    }
}

/// Checks that base data that the map refers to are still there.
fn check_base(core: &Core, audit: &mut Audit) {
    let geometry = &core.geometry;
    for block in (0..geometry.total_blocks()).map(BlockId) {
        let stripes = core.base.stripes(block);
        if stripes == 0 || core.flash.stripe_number(block, 0) == Some(0) {
            continue;
        }
        let start = geometry.ppa(block, 0, 0).0;
        for ppa in (start..start + u64::from(stripes) * u64::from(geometry.units_per_stripe())).map(Ppa) {
            let Some(lpa) = core.base.lpa(ppa) else { continue };
            if lpa < core.space.user && entry(core, lpa) == Entry::BASE {
                audit.find(Disagreement::Place { lpa, unit: ppa.0, holds: holds(core, ppa) });
            }
        }
    }
}
