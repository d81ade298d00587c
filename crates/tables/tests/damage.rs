//! Unreadable catalog pages: acknowledged changes survive, or the store reports an error.

use crate::fixture::{Case, NO_SPAN, group, holds, spans};
use byteway_clock::{Executor, RunOutcome};
use byteway_content::{Content, UNIT_BYTES};
use byteway_firmware::{Ftl, MediaError};
use byteway_flash::{Fault, FaultKind, FaultPlan, Medium};
use byteway_tables::{Tables, TablesError};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Runs `work` on a drive until power-off.
fn session(
    case: &Case,
    medium: Medium,
    cut: u64,
    work: impl AsyncFnOnce(Tables, Ftl) + 'static,
) -> (Medium, bool) {
    let executor = Executor::new();
    let (ftl, tables) = case.power_on(executor.clock(), medium);
    let drive = ftl.clone();
    let ran = executor.run_cut(async move { work(tables, drive).await }, cut).unwrap();
    (ftl.power_off(), matches!(ran, RunOutcome::Ended(())))
}

/// Units of the drive at which a catalog begins.
async fn slots(case: &Case, ftl: &Ftl) -> Vec<u64> {
    let mut found = Vec::new();
    for extent in &case.tables.extents {
        for unit in extent.first..extent.first + extent.count {
            let mut contents = Vec::new();
            ftl.read(NO_SPAN, &spans(), unit, 1, &mut contents).await.unwrap();
            let mut bytes = [0; UNIT_BYTES];
            contents[0].write_to(&mut bytes);
            if bytes.starts_with(b"BwTb") {
                found.push(unit);
            }
        }
    }
    found
}

/// Makes copies of the catalog unreadable while the store is idle.
async fn lose(case: &Case, ftl: &Ftl, which: &[usize]) {
    let slots = slots(case, ftl).await;
    assert_eq!(slots.len(), 2);
    for slot in which {
        ftl.write(NO_SPAN, &spans(), slots[*slot], &mut vec![Content::unreadable()], true).await.unwrap();
    }
}

const ALL: u64 = 3_000_000;

// One bad page after a power-on silently returned the tables of one change before.
#[test]
fn a_copy_of_the_catalog_that_is_lost_takes_no_change_with_it() {
    for changes in 1..6 {
        for lost in [0, 1] {
            let case = Case::tiny(true);
            let here = case.clone();
            let (medium, _) = session(&case, case.medium(), ALL, async move |tables, ftl| {
                let id = tables.create(NO_SPAN, &spans(), "t", b"schema").await.unwrap();
                for number in 1..changes {
                    tables.append(NO_SPAN, &spans(), id, vec![group(number, 9000)]).await.unwrap();
                }
                lose(&here, &ftl, &[lost]).await;
            });
            let here = case.clone();
            let (medium, _) = session(&case, medium, ALL, async move |tables, ftl| {
                tables.ready().await.unwrap();
                let table = tables.find("t").expect("it was acknowledged");
                let groups: Vec<_> = (1..changes).map(|number| group(number, 9000)).collect();
                holds(&tables, &table, &groups).await.unwrap();
                // Recovery rewrote the lost copy, so the other one may be lost now.
                lose(&here, &ftl, &[1 - lost]).await;
            });
            session(&case, medium, ALL, async move |tables, _| {
                tables.ready().await.unwrap();
                let table = tables.find("t").unwrap();
                assert_eq!(table.groups.len() as u64, changes - 1);
                tables.append(NO_SPAN, &spans(), table.id, vec![group(100, 50)]).await.unwrap();
            });
        }
    }
}

// With both copies unreadable, an empty store or an older state would be wrong.
#[test]
fn a_catalog_without_a_copy_is_an_error() {
    let case = Case::tiny(true);
    let here = case.clone();
    let (medium, _) = session(&case, case.medium(), ALL, async move |tables, ftl| {
        tables.create(NO_SPAN, &spans(), "t", b"schema").await.unwrap();
        lose(&here, &ftl, &[0, 1]).await;
    });
    session(&case, medium, ALL, async move |tables, _| {
        let unreadable = TablesError::Media(MediaError::Unreadable);
        assert_eq!(tables.ready().await, Err(unreadable));
        assert_eq!(tables.create(NO_SPAN, &spans(), "u", b"").await, Err(unreadable));
    });
}

// A recovered change must stay: one that a power cut left in one copy is written to the other before any reader sees it.
#[test]
fn a_change_that_was_seen_stays() {
    let case = Case::tiny(false);
    let mut ahead = 0;
    for (cut, lost) in (0..2000).step_by(3).flat_map(|cut| [(cut, 0), (cut, 1)]) {
        let (medium, ended) = session(&case, case.medium(), cut, async |tables, _| {
            tables.create(NO_SPAN, &spans(), "t", b"schema").await.unwrap();
            tables.create(NO_SPAN, &spans(), "u", b"schema").await.unwrap();
        });
        if ended {
            break;
        }
        let seen = Rc::new(Cell::new(0));
        let (here, saw) = (case.clone(), seen.clone());
        let (medium, _) = session(&case, medium, ALL, async move |tables, ftl| {
            tables.ready().await.unwrap();
            saw.set(tables.tables().len());
            if slots(&here, &ftl).await.len() == 2 {
                lose(&here, &ftl, &[lost]).await;
            }
        });
        let seen = seen.get();
        ahead += u32::from(seen == 1);
        session(&case, medium, ALL, async move |tables, _| {
            tables.ready().await.unwrap();
            assert_eq!(tables.tables().len(), seen, "cut at poll {cut}, copy {lost} lost");
        });
    }
    assert!(ahead > 4, "{ahead}");
}

// At the end of a drive's life one copy of the catalog may still be written, and the other not. The change has no acknowledgement; but whether
// it was made must not depend on when one looks.
#[test]
fn a_change_at_the_end_of_life_does_not_come_and_go() {
    let (mut refused, mut made) = (0, 0);
    for plp in [false, true] {
        for first in 1..120 {
            let mut worn = Case::tiny(plp);
            // All programs from some point on.
            let fails = |die| (first..4000).map(move |nth| Fault { die, kind: FaultKind::Program, nth });
            worn.faults = FaultPlan::exactly((0..2).flat_map(fails));
            let seen = Rc::new(RefCell::new(Vec::new()));
            let saw = seen.clone();
            let acknowledged = Rc::new(Cell::new(0));
            let counted = acknowledged.clone();
            let (medium, ended) = session(&worn, worn.medium(), ALL, async move |tables, _| {
                for number in 0..40 {
                    let name = format!("t{number}");
                    if tables.create(NO_SPAN, &spans(), &name, b"schema").await.is_err() {
                        break;
                    }
                    counted.set(counted.get() + 1);
                }
                saw.replace(names(&tables));
            });
            assert!(ended);
            let (seen, acknowledged) = (seen.take(), acknowledged.get());
            refused += u32::from(acknowledged < 40);
            made += u32::from(seen.len() > acknowledged);
            let again = Case { faults: FaultPlan::default(), ..worn };
            session(&again, medium, ALL, async move |tables, _| {
                tables.ready().await.unwrap();
                assert_eq!(names(&tables), seen, "programs fail from the {first}th on");
            });
        }
    }
    assert!(refused > 30 && made > 5, "{refused} {made}");
}

fn names(tables: &Tables) -> Vec<String> {
    tables.tables().iter().map(|table| table.name.to_string()).collect()
}
