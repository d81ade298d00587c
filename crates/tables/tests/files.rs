//! Tables on a drive that is kept in files: what rots there costs a row group or a start, and never gives other rows.

use crate::fixture::{Case, NO_SPAN, group, holds, spans, timing};
use byteway_clock::{Executor, RunOutcome};
use byteway_firmware::{Ftl, FtlConfig};
use byteway_flash::file::damage::{Damage, bytes_of, copy};
use byteway_flash::file::{Files, Overlay, SimulatedFiles, Tuning};
use byteway_tables::{NewGroup, Table, Tables};
use std::rc::Rc;
use std::sync::Arc;

/// Code that never ends would hang.
const POLLS: u64 = 3_000_000;
const TABLES: [&str; 3] = ["parts", "orders", "lines"];

/// Runs `work` with tables on a drive in files, and closes them.
///
/// # Errors
/// The drive refuses the files.
fn session<T: 'static>(
    case: &Case,
    files: Arc<dyn Files>,
    work: impl AsyncFnOnce(Tables, Ftl) -> T + 'static,
) -> Result<T, String> {
    let tuning = Tuning { image_units: 400, journal_bytes: 6000 };
    let (medium, _) = Ftl::open_medium(case.geometry, &timing(), &case.ftl, files, tuning)
        .map_err(|error| error.to_string())?;
    let executor = Executor::new();
    let (ftl, tables) = case.power_on(executor.clock(), medium);
    let drive = ftl.clone();
    let main = async move {
        drive.started().await.map_err(|why| why.to_string())?;
        Ok(work(tables, drive).await)
    };
    let Ok(RunOutcome::Ended(given)) = executor.run_cut(main, POLLS) else { panic!("it hangs") };
    _ = ftl.power_off().close();
    given
}

/// Appends `groups` row groups to each table, which it makes first where it is not there. Returns copies of the files as they were before the
/// shutdown.
fn live(case: &Case, files: &SimulatedFiles, groups: std::ops::Range<u64>) -> SimulatedFiles {
    let source = files.clone();
    let work = async move |tables: Tables, ftl: Ftl| {
        tables.ready().await.unwrap();
        for number in groups {
            for (at, name) in (0..).zip(TABLES) {
                let id = match tables.find(name) {
                    Some(table) => table.id,
                    None => tables.create(NO_SPAN, &spans(), name, b"schema").await.unwrap(),
                };
                tables.append(NO_SPAN, &spans(), id, vec![made(at, number)]).await.unwrap();
            }
        }
        ftl.flush(NO_SPAN, &spans()).await.unwrap();
        let killed = copy(&source).unwrap();
        ftl.shutdown(NO_SPAN, &spans()).await.unwrap();
        killed
    };
    session(case, Arc::new(files.clone()), work).unwrap()
}

fn made(table: u64, number: u64) -> NewGroup {
    group(100 * table + number, 5000 + 1500 * number as usize)
}

/// Reads all tables of `groups` row groups each; the number of those that have an error.
///
/// # Errors
/// The drive refuses the files.
fn look(case: &Case, files: Arc<dyn Files>, groups: u64, what: String) -> Result<usize, String> {
    session(case, files, async move |tables: Tables, _| {
        if tables.ready().await.is_err() {
            return TABLES.len();
        }
        let mut errors = 0;
        for (at, name) in (0..).zip(TABLES) {
            let table = tables.find(name).unwrap_or_else(|| panic!("{what}: {name} is gone"));
            assert_eq!(table.groups.len() as u64, groups, "{what}: {name}");
            for (number, there) in (0..groups).zip(table.groups.iter()) {
                let one = Table { groups: Rc::new(vec![there.clone()]), ..table.clone() };
                match holds(&tables, &one, &[made(at, number)]).await {
                    Ok(()) => {}
                    Err(error) if error.contains("other bytes") || error.contains("instead of") => {
                        panic!("{what}: {error}")
                    }
                    Err(_) => errors += 1,
                }
            }
        }
        errors
    })
}

fn damages(files: &SimulatedFiles, file: &str, older: &[&SimulatedFiles]) -> Vec<Damage> {
    let bytes = bytes_of(files, file).unwrap().unwrap();
    let length = bytes.len() as u64;
    let flips: Vec<u64> = match file {
        // Records of units that hold something.
        "spare" => {
            let held =
                (0u64..).zip(bytes.chunks(64)).filter(|(_, record)| record.iter().any(|byte| *byte != 0));
            held.step_by(2).map(|(unit, _)| unit * 64 + unit * 7 % 64).collect()
        }
        "data" => (0..length / 4096).step_by(3).map(|unit| unit * 4096 + unit * 61 % 4096).collect(),
        _ => (0..length).step_by(1 + length as usize / 60).collect(),
    };
    let mut all = Damage::strikes(files, file, older).unwrap();
    all.extend(Damage::flips(file, flips));
    all
}

// Rows of another state of a table, or of another table, would be an answer that is wrong without a word.
#[test]
fn no_damage_of_the_files_beneath_is_read_as_rows() {
    let mut case = Case::tiny(false);
    let files = SimulatedFiles::new();
    let older = [live(&case, &files, 0..4), copy(&files).unwrap()];
    let killed = live(&case, &files, 4..9);
    case.ftl = FtlConfig { accepts_losses: true, ..case.ftl };
    for (state, files) in [("killed", killed), ("shut down", files)] {
        let whole = Arc::new(Overlay::new(Arc::new(files.clone())));
        assert_eq!(look(&case, whole, 9, state.to_owned()), Ok(0), "{state}");
        let (mut refused, mut errors, mut right) = (0, 0, 0);
        for file in files.names().unwrap() {
            for damage in damages(&files, &file, &older.each_ref()) {
                let over = Overlay::new(Arc::new(files.clone()));
                damage.apply(&over).unwrap();
                match look(&case, Arc::new(over), 9, format!("{state}, {damage}")) {
                    Err(_) => refused += 1,
                    Ok(0) => right += 1,
                    Ok(_) => errors += 1,
                }
            }
        }
        assert!(refused > 50 && errors > 20 && right > 50, "{state}: {refused} {errors} {right}");
    }
}
