//! Power cuts at any poll, also during recovery: each change is atomic, changes are ordered, and acknowledged changes survive.

use crate::fixture::{Case, NO_SPAN, group, holds, spans};
use byteway_clock::random::{Rng, Stream};
use byteway_clock::{Executor, RunOutcome};
use byteway_flash::Medium;
use byteway_tables::Defect;
use byteway_tables::{NewGroup, Tables, TablesError};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Expected tables by name, with their row groups.
type State = BTreeMap<String, Vec<NewGroup>>;

/// The host's knowledge: the tables at the last acknowledged change, and the tables if the outstanding change takes effect.
#[derive(Clone, Default)]
struct Model {
    known: State,
    next: Option<State>,
    number: u64,
}

async fn host(tables: Tables, model: Rc<RefCell<Model>>, mut stream: Stream, steps: u32) {
    let spans = spans();
    tables.ready().await.unwrap();
    for _ in 0..steps {
        let name = format!("t{}", stream.below(3));
        let there = tables.find(&name);
        let mut next = model.borrow().known.clone();
        let done = match (there, stream.below(5)) {
            (None, _) => {
                next.insert(name.clone(), Vec::new());
                model.borrow_mut().next = Some(next.clone());
                tables.create(NO_SPAN, &spans, &name, name.as_bytes()).await.map(drop)
            }
            (Some(table), 0) => {
                next.remove(&name);
                model.borrow_mut().next = Some(next.clone());
                tables.drop_table(NO_SPAN, &spans, table.id).await
            }
            (Some(table), _) => {
                let count = 1 + stream.below(3);
                let groups: Vec<NewGroup> = (0..count)
                    .map(|_| {
                        model.borrow_mut().number += 1;
                        group(model.borrow().number, stream.below(60_000) as usize)
                    })
                    .collect();
                next.get_mut(&name).unwrap().extend(groups.clone());
                model.borrow_mut().next = Some(next.clone());
                tables.append(NO_SPAN, &spans, table.id, groups).await.map(drop)
            }
        };
        let mut model = model.borrow_mut();
        model.next = None;
        match done {
            Ok(()) => model.known = next,
            Err(TablesError::NoSpace | TablesError::CatalogFull) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn fits(tables: &Tables, state: &State) -> Result<(), String> {
    let names: Vec<String> = tables.tables().iter().map(|table| table.name.to_string()).collect();
    let mut sorted = names.clone();
    sorted.sort();
    if sorted != state.keys().cloned().collect::<Vec<_>>() {
        return Err(format!("tables {names:?} instead of {:?}", state.keys()));
    }
    for (name, groups) in state {
        let table = tables.find(name).unwrap();
        assert_eq!(&*table.schema, name.as_bytes());
        holds(tables, &table, groups).await?;
    }
    Ok(())
}

/// Powers a drive on, lets the host work until the cut, and checks the tables. Returns the persistent media.
fn life(
    case: &Case,
    medium: Medium,
    model: &Rc<RefCell<Model>>,
    seed: u64,
    cut: Option<u64>,
) -> Result<(Medium, u64), String> {
    let executor = Executor::new();
    let (ftl, tables) = case.power_on(executor.clock(), medium);
    let stream = Rng::new(seed).stream("host");
    let looking = {
        let (tables, model) = (tables.clone(), model.clone());
        async move {
            tables.ready().await.map_err(|error| error.to_string())?;
            let Model { known, next, .. } = model.borrow().clone();
            let as_known = fits(&tables, &known).await;
            match (as_known, next) {
                (Ok(()), _) => {}
                (Err(wrong), None) => return Err(wrong),
                (Err(wrong), Some(next)) => {
                    let as_next = fits(&tables, &next).await;
                    as_next.map_err(|other| format!("{wrong}; {other}"))?;
                    model.borrow_mut().known = next;
                }
            }
            model.borrow_mut().next = None;
            Ok::<(), String>(())
        }
    };
    let working = {
        let model = model.clone();
        async move {
            looking.await?;
            host(tables, model, stream, 40).await;
            Ok::<(), String>(())
        }
    };
    let ended = match cut {
        Some(polls) => executor.run_cut(working, polls).map_err(|stalled| stalled.to_string())?,
        None => RunOutcome::Ended(executor.run(working).map_err(|stalled| stalled.to_string())?),
    };
    if let RunOutcome::Ended(result) = ended {
        result?;
    }
    let polls = executor.clock().counters().polls;
    Ok((ftl.power_off(), polls))
}

/// Several lives of a drive, each cut at a random poll, every second one during recovery. An error carries the seed.
fn try_seed(case: &Case, seed: u64) -> Result<(), String> {
    let model = Rc::default();
    let mut medium = case.medium();
    let mut cuts = Rng::new(seed).stream("cuts");
    for number in 0..6 {
        let cut = 1 + cuts.below(if number % 3 == 2 { 20 } else { 600 });
        let lived = life(case, medium, &model, seed << 8 | number, Some(cut));
        medium = lived.map_err(|wrong| format!("seed {seed}, life {number}, cut at poll {cut}: {wrong}"))?.0;
    }
    life(case, medium, &model, seed << 8 | 99, None)
        .map(drop)
        .map_err(|wrong| format!("seed {seed}, at the end: {wrong}"))
}

// A partial change would corrupt a table; a missing acknowledged change would be lost data.
#[test]
fn changes_are_made_whole_or_not_at_all() {
    for plp in [false, true] {
        for seed in 0..150 {
            try_seed(&Case::tiny(plp), seed).unwrap_or_else(|wrong| panic!("plp {plp}, {wrong}"));
        }
    }
}

// The test above must be able to fail: it detects a store with a defect on purpose.
#[test]
fn defects_on_purpose_are_found() {
    for defect in Defect::ALL {
        let mut case = Case::tiny(false);
        case.tables.defect = defect.into();
        let found = (0..400).find_map(|seed| try_seed(&case, seed).err());
        assert!(found.is_some(), "{defect:?} was not found");
    }
}

// Covers every poll of one workload, where the test above samples.
#[test]
fn the_power_may_be_cut_at_any_poll() {
    let case = Case::tiny(false);
    let all = life(&case, case.medium(), &Rc::default(), 5, None).unwrap().1;
    assert!(all > 500, "{all}");
    for cut in (1..all).step_by(3) {
        let model = Rc::default();
        let (medium, _) = life(&case, case.medium(), &model, 5, Some(cut)).unwrap();
        life(&case, medium, &model, 6, None).unwrap_or_else(|wrong| panic!("cut at poll {cut}: {wrong}"));
    }
}
