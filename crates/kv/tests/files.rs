//! A store whose drive is kept in files: what rots there costs a value or a start, and never gives another value.

use crate::damage::{Model, put, try_all};
use crate::fixture::{Case, NOBODY, key, spans, timing, value};
use byteway_clock::random::Rng;
use byteway_clock::{Executor, RunOutcome};
use byteway_firmware::{Ftl, FtlConfig};
use byteway_flash::file::damage::{Damage, bytes_of, copy};
use byteway_flash::file::{Files, Overlay, SimulatedFiles, Tuning};
use byteway_kv::Kv;
use std::sync::Arc;

const RECORD_BYTES: usize = 64;
const UNIT_BYTES: u64 = 4096;
/// Code that never ends would hang.
const POLLS: u64 = 3_000_000;

/// Runs `work` with a store on a drive in files, and closes them.
///
/// # Errors
/// The drive refuses the files.
fn session<T: 'static>(
    case: &Case,
    files: Arc<dyn Files>,
    work: impl AsyncFnOnce(Kv, Ftl) -> T + 'static,
) -> Result<T, String> {
    let tuning = Tuning { image_units: 400, journal_bytes: 6000 };
    let (medium, _) = Ftl::open_medium(case.geometry, &timing(), &case.ftl, files, tuning)
        .map_err(|error| error.to_string())?;
    let executor = Executor::new();
    let (ftl, kv) = case.power_on(executor.clock(), medium);
    let (drive, store) = (ftl.clone(), kv.clone());
    let main = async move {
        drive.started().await.map_err(|why| why.to_string())?;
        Ok(work(store, drive).await)
    };
    let Ok(RunOutcome::Ended(given)) = executor.run_cut(main, POLLS) else { panic!("it hangs") };
    kv.stop();
    _ = ftl.power_off().close();
    given
}

/// Stores and deletes, all flushed. Returns copies of the files as they were before the shutdown.
fn live(case: &Case, files: &SimulatedFiles, model: &mut Model, seed: u32) -> SimulatedFiles {
    let (source, mut known) = (files.clone(), std::mem::take(model));
    let work = async move |kv: Kv, ftl: Ftl| {
        let mut stream = Rng::new(seed.into()).stream("load");
        for step in 0..350 {
            let (number, version) = (stream.below(200), seed * 1000 + step);
            let bytes = if step == 250 { 70_000 } else { stream.below(700) as usize };
            put(&kv, number, version, bytes).await.unwrap();
            known.insert(key(number), value(&key(number), version, bytes));
            if step % 5 == 0 {
                let gone = key(stream.below(200));
                let deleted = kv.delete(NOBODY, &spans(), gone).await;
                assert_eq!(deleted.is_ok(), known.remove(&gone).is_some());
            }
        }
        kv.flush(NOBODY, &spans()).await.unwrap();
        let killed = copy(&source).unwrap();
        ftl.shutdown(NOBODY, &spans()).await.unwrap();
        (killed, known)
    };
    let (killed, known) = session(case, Arc::new(files.clone()), work).unwrap();
    *model = known;
    killed
}

/// Damages of a file: every kind of strike, and flips all over it.
fn damages(files: &SimulatedFiles, file: &str, older: &[&SimulatedFiles]) -> Vec<Damage> {
    let bytes = bytes_of(files, file).unwrap().unwrap();
    let length = bytes.len() as u64;
    let flips: Vec<u64> = match file {
        // Records of units that hold something.
        "spare" => {
            let records = (0u64..).zip(bytes.chunks(RECORD_BYTES));
            let held = records.filter(|(_, record)| record.iter().any(|byte| *byte != 0));
            held.step_by(2).map(|(unit, _)| unit * 64 + unit * 7 % 64).collect()
        }
        "data" => {
            (0..length / UNIT_BYTES).step_by(2).map(|unit| unit * UNIT_BYTES + unit * 61 % 4096).collect()
        }
        _ => (0..length).step_by(1 + length as usize / 60).collect(),
    };
    let mut all = Damage::strikes(files, file, older).unwrap();
    all.extend(Damage::flips(file, flips));
    all
}

// A value that a disk has damaged was once the store's own business: its index, log and manifest are units like any other.
#[test]
fn no_damage_of_the_files_beneath_is_read_as_a_value() {
    let mut case = Case::tiny("files", false);
    case.kv.memtable_bytes = 700;
    let files = SimulatedFiles::new();
    let mut model = Model::new();
    let older = [live(&case, &files, &mut model, 1), copy(&files).unwrap()];
    let killed = live(&case, &files, &mut model, 2);
    case.ftl = FtlConfig { accepts_losses: true, ..case.ftl };
    for (state, files) in [("killed", killed), ("shut down", files)] {
        let look = |files: Arc<dyn Files>| {
            let known = model.clone();
            session(&case, files, async move |kv: Kv, _| try_all(&kv, Some(&known)).await)
        };
        assert_eq!(look(Arc::new(Overlay::new(Arc::new(files.clone())))), Ok(0), "{state}");
        let (mut refused, mut errors, mut right) = (0, 0, 0);
        for file in files.names().unwrap() {
            for damage in damages(&files, &file, &older.each_ref()) {
                // What a failed assertion is about.
                println!("{state}, {damage}");
                let over = Overlay::new(Arc::new(files.clone()));
                damage.apply(&over).unwrap();
                match look(Arc::new(over)) {
                    Err(_) => refused += 1,
                    Ok(0) => right += 1,
                    Ok(_) => errors += 1,
                }
            }
        }
        println!("{state}: {refused} refused, {errors} with errors, {right} right");
        assert!(refused > 50 && errors > 30 && right > 50, "{state}: {refused} {errors} {right}");
    }
}
