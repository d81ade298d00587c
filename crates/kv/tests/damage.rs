//! Unreadable or corrupted flash: the store returns a status, and never panics or returns another's data.

use crate::fixture::{Case, NOBODY, key, spans, value};
use byteway_clock::random::Rng;
use byteway_clock::{Executor, RunOutcome};
use byteway_content::{Content, UNIT_BYTES};
use byteway_firmware::Ftl;
use byteway_flash::{Fault, FaultKind, FaultPlan, Medium};
use byteway_kv::{Key, Kv, KvError, Origin, StoreMode};
use std::collections::BTreeMap;
use std::rc::Rc;

pub type Model = BTreeMap<Key, Vec<u8>>;
type Unit = [u8; UNIT_BYTES];

pub async fn put(kv: &Kv, number: u64, version: u32, bytes: usize) -> Result<(), KvError> {
    let key = key(number);
    let value = value(&key, version, bytes);
    kv.store(NOBODY, &spans(), key, &value, Origin::Memory, StoreMode::Any).await
}

/// Runs `work` on a drive until its power is switched off.
fn session<T: 'static>(
    case: &Case,
    medium: Medium,
    work: impl AsyncFnOnce(Kv, Ftl) -> T + 'static,
) -> (Medium, T) {
    let executor = Executor::new();
    let (ftl, kv) = case.power_on(executor.clock(), medium);
    let (inner, drive) = (kv.clone(), ftl.clone());
    // With a limit: code that never waits would hang.
    let ran = executor.run_cut(async move { work(inner, drive).await }, 3_000_000);
    let Ok(RunOutcome::Ended(given)) = ran else { panic!("{}: it hangs", case.name) };
    kv.save();
    kv.stop();
    (ftl.power_off(), given)
}

/// Like `session`, without a store.
fn beneath<T: 'static>(
    case: &Case,
    medium: Medium,
    work: impl AsyncFnOnce(Ftl) -> T + 'static,
) -> (Medium, T) {
    let executor = Executor::new();
    let (_, ftl) = case.power_ftl(executor.clock(), medium);
    let drive = ftl.clone();
    let given = executor
        .run(async move {
            drive.ready().await;
            let given = work(drive.clone()).await;
            drive.flush(NOBODY, &spans()).await.unwrap();
            given
        })
        .unwrap();
    (ftl.power_off(), given)
}

async fn read(ftl: &Ftl, unit: u64) -> Unit {
    let mut contents = Vec::new();
    ftl.read(NOBODY, &spans(), unit, 1, &mut contents).await.unwrap();
    let mut bytes = [0; UNIT_BYTES];
    contents[0].write_to(&mut bytes);
    bytes
}

async fn write(ftl: &Ftl, unit: u64, content: Content) {
    ftl.write(NOBODY, &spans(), unit, &mut vec![content], false).await.unwrap();
}

fn loaded(case: &Case) -> (Medium, Model) {
    session(case, case.medium(), async |kv: Kv, _| {
        let mut model = Model::new();
        let mut stream = Rng::new(1).stream("load");
        for step in 0..700u32 {
            let number = stream.below(200);
            let bytes = if step == 500 { 70_000 } else { stream.below(700) as usize };
            put(&kv, number, step, bytes).await.unwrap();
            model.insert(key(number), value(&key(number), step, bytes));
            if step % 5 == 0 {
                let gone = key(stream.below(200));
                let deleted = kv.delete(NOBODY, &spans(), gone).await;
                assert_eq!(deleted.is_ok(), model.remove(&gone).is_some());
            }
        }
        kv.flush(NOBODY, &spans()).await.unwrap();
        // However fast the host is, the number of runs stays bounded.
        assert!(kv.counters().compactions > 0, "{:?}", kv.counters());
        model
    })
}

fn number(unit: &Unit, at: usize) -> u32 {
    u32::from_le_bytes(unit[at..at + 4].try_into().unwrap())
}

/// Whether a unit belongs to an index table; a checksum comes first.
fn is_index(unit: &Unit) -> bool {
    number(unit, 8) > 0 && number(unit, 12) == 0 && crc32c::crc32c(&unit[4..]) == number(unit, 0)
}

/// Whether a unit belongs to a record table, or starts a manifest.
fn begins_with(unit: &Unit, magic: &[u8; 4]) -> bool {
    unit[..4] == *magic
}

/// Units of the range that match, with their contents.
async fn find(case: &Case, ftl: &Ftl, is_wanted: impl Fn(&Unit) -> bool) -> Vec<(u64, Unit)> {
    let mut found = Vec::new();
    for unit in case.units() {
        let bytes = read(ftl, unit).await;
        if is_wanted(&bytes) {
            found.push((unit, bytes));
        }
    }
    found
}

fn cases() -> [Case; 2] {
    [Case::tiny("damage", false), Case::tiny("damage, protected", true)].map(|mut case| {
        case.kv.memtable_bytes = 700;
        case
    })
}

fn small(name: &'static str) -> Case {
    let mut case = Case::small(name, true);
    case.kv.memtable_bytes = 700;
    case
}

/// Runs every operation once. No result may contradict `model`, if it is given.
pub async fn try_all(kv: &Kv, model: Option<&Model>) -> usize {
    let spans = spans();
    let mut errors = 0;
    for number in 0..200 {
        let (key, mut bytes) = (key(number), Vec::new());
        let found = kv.retrieve(NOBODY, &spans, key, 0, u32::MAX, &mut bytes).await;
        let exists = kv.exist(NOBODY, &spans, key).await;
        errors += usize::from(matches!(found, Err(KvError::Media(_))));
        let Some(model) = model else { continue };
        match (found, model.get(&key)) {
            (Ok(_), value) => assert_eq!(Some(&bytes), value),
            (Err(KvError::NotFound), value) => assert_eq!(value, None),
            (Err(error), _) => assert!(matches!(error, KvError::Media(_)), "{error}"),
        }
        if let Ok(exists) = exists {
            assert_eq!(exists, model.contains_key(&key));
        }
    }
    let mut listed = Vec::new();
    let ended = kv.list(NOBODY, &spans, Key::FIRST, 1 << 20, &mut listed).await;
    if let Some(model) = model {
        match ended {
            Ok(()) => assert!(listed.iter().eq(model.keys())),
            Err(error) => assert!(matches!(error, KvError::Media(_)), "{error}"),
        }
    }
    let mut cursor = kv.seek(None);
    let mut bytes = Vec::new();
    let mut left = 2000; // an out-of-order index might have no end
    while let Ok(Some(_)) = cursor.next(NOBODY, &spans, &mut bytes).await {
        left -= 1;
        assert!(left > 0);
    }
    drop(cursor);
    _ = kv.usage();
    errors
}

async fn try_changes(kv: &Kv) {
    for number in 0..60 {
        _ = put(kv, number, 1, 2000).await;
        _ = kv.delete(NOBODY, &spans(), key(number * 3)).await;
    }
    _ = kv.flush(NOBODY, &spans()).await;
}

// With an unreadable index unit, a key in it must not be reported as missing, and all others must be found.
#[test]
fn index_units_that_cannot_be_read() {
    for case in cases() {
        for seed in 0..6 {
            let (medium, model) = loaded(&case);
            let here = case.clone();
            let (medium, marred) = beneath(&case, medium, async move |ftl| {
                let units = find(&here, &ftl, is_index).await;
                assert!(units.len() > 2, "{}", units.len());
                let mut stream = Rng::new(seed).stream("damage");
                let mut marred = 0;
                for (unit, _) in units {
                    if marred == 0 || stream.chance(0.2) {
                        write(&ftl, unit, Content::unreadable()).await;
                        marred += 1;
                    }
                }
                marred
            });
            assert!(marred > 0);
            let then = model.clone();
            let (medium, errors) =
                session(&case, medium, async move |kv: Kv, _| try_all(&kv, Some(&then)).await);
            // The same with further stores, until a merge reads the unit.
            let (_, ()) = session(&case, medium, async move |kv: Kv, _| {
                try_changes(&kv).await;
                try_all(&kv, None).await;
            });
            assert!(seed > 0 || errors > 0, "none of them counts");
        }
    }
}

// With an unreadable record table its segment can't be collected, but others can.
#[test]
fn record_tables_that_cannot_be_read() {
    let case = Case::tiny("records", true);
    let (medium, model) = loaded(&case);
    let here = case.clone();
    let (medium, ()) = beneath(&case, medium, async move |ftl| {
        let units = find(&here, &ftl, |unit| begins_with(unit, b"BwKr")).await;
        assert!(units.len() > 10);
        // The last ones are needed for replay at power-on: they must be readable.
        for (unit, _) in units.iter().filter(|(_, bytes)| number(bytes, 16) < 4) {
            write(&ftl, *unit, Content::unreadable()).await;
        }
    });
    let (_, ()) = session(&case, medium, async move |kv: Kv, _| {
        let mut model = model;
        for step in 0..6000u32 {
            let number = 150 + u64::from(step) * 7 % 50;
            put(&kv, number, step, 1500).await.unwrap();
            model.insert(key(number), value(&key(number), step, 1500));
        }
        assert!(kv.counters().collections > 0);
        assert_eq!(try_all(&kv, Some(&model)).await, 0);
    });
}

// With an unreadable manifest neither the previous one nor an empty store is valid. But the namespace can be formatted,
// and then nothing of its contents may come back.
#[test]
fn a_manifest_that_cannot_be_read() {
    for case in cases() {
        for which in 0..3 {
            let (medium, _) = loaded(&case);
            let here = case.clone();
            let (medium, ()) = beneath(&case, medium, async move |ftl| {
                let mut slots = find(&here, &ftl, |unit| begins_with(unit, b"BwKm")).await;
                assert_eq!(slots.len(), 2);
                slots.sort_by_key(|(_, unit)| number(unit, 24));
                for (at, (unit, _)) in slots.iter().rev().enumerate() {
                    if which == 2 || which == at {
                        write(&ftl, *unit, Content::unreadable()).await;
                    }
                }
            });
            let (medium, ()) = session(&case, medium, async move |kv: Kv, _| {
                let spans = spans();
                kv.ready().await;
                for number in 0..200 {
                    let mut bytes = Vec::new();
                    let found = kv.retrieve(NOBODY, &spans, key(number), 0, 9, &mut bytes).await;
                    assert!(matches!(found, Err(KvError::Media(_))), "{found:?}");
                    let exists = kv.exist(NOBODY, &spans, key(number)).await;
                    assert!(matches!(exists, Err(KvError::Media(_))), "{exists:?}");
                }
                let mut listed = Vec::new();
                assert!(kv.list(NOBODY, &spans, Key::FIRST, 4096, &mut listed).await.is_err());
                assert!(matches!(put(&kv, 1, 1, 9).await, Err(KvError::Media(_))));
                assert!(kv.flush(NOBODY, &spans).await.is_err());
                kv.format().await.unwrap();
                put(&kv, 1000, 1, 9).await.unwrap();
                kv.flush(NOBODY, &spans).await.unwrap();
            });
            let mut medium = medium;
            for _ in 0..3 {
                let (next, ()) = session(&case, medium, async move |kv: Kv, _| {
                    kv.check().await.unwrap();
                    let mut listed = Vec::new();
                    kv.list(NOBODY, &spans(), Key::FIRST, 4096, &mut listed).await.unwrap();
                    assert_eq!(listed, [key(1000)]);
                });
                medium = next;
            }
        }
    }
}

/// Replacement numbers: they replace a byte, which may be part of a longer number.
const NUMBERS: [&[u8]; 6] = [
    &[0],
    &[0x7f],
    &[0xff],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
];

/// Changes one unit and uses the store; then another, starting over from the original.
fn play(case: &Case, medium: Medium, changes: Vec<(u64, Unit)>) {
    let here = case.clone();
    let (mut medium, image) = beneath(case, medium, async move |ftl| find(&here, &ftl, |_| true).await);
    let image = Rc::new(image);
    for (unit, bytes) in changes {
        let image = image.clone();
        (medium, ()) = beneath(case, medium, async move |ftl| {
            for (unit, bytes) in &*image {
                write(&ftl, *unit, Content::Bytes((*bytes).into())).await;
            }
            write(&ftl, unit, Content::Bytes(bytes.into())).await;
        });
        (medium, ()) = session(case, medium, async move |kv: Kv, _| {
            try_all(&kv, None).await;
            try_changes(&kv).await;
            _ = kv.check().await;
            _ = kv.format().await;
            try_changes(&kv).await;
        });
    }
}

// A manifest with a valid checksum and wrong numbers, as a file may contain: it is refused or accepted, without a
// panic.
#[test]
fn manifests_with_other_numbers() {
    let case = small("manifest");
    let (medium, _) = loaded(&case);
    let here = case.clone();
    let (medium, newest) = beneath(&case, medium, async move |ftl| {
        let slots = find(&here, &ftl, |unit| begins_with(unit, b"BwKm")).await;
        slots.into_iter().max_by_key(|(_, unit)| number(unit, 24)).unwrap()
    });
    let (unit, bytes) = newest;
    let length = number(&bytes, 12) as usize;
    assert!(length < UNIT_BYTES - 16);
    let mut changes = Vec::new();
    for at in 24..length {
        for (which, new) in NUMBERS.iter().enumerate() {
            if at % 3 != which % 3 {
                continue;
            }
            let mut body = bytes[..length].to_vec();
            body.splice(at..at + 1, new.iter().copied());
            let count = body.len() as u32;
            body[12..16].copy_from_slice(&count.to_le_bytes());
            let crc = crc32c::crc32c(&body[8..]);
            body[4..8].copy_from_slice(&crc.to_le_bytes());
            body.resize(UNIT_BYTES, 0);
            changes.push((unit, body.try_into().unwrap()));
        }
    }
    play(&case, medium, changes);
}

// As above, for units of index and record tables.
#[test]
fn tables_with_other_numbers() {
    let case = small("tables");
    let (medium, _) = loaded(&case);
    let here = case.clone();
    let (medium, units) = beneath(&case, medium, async move |ftl| {
        let mut units = find(&here, &ftl, is_index).await;
        units.truncate(12);
        units.extend(find(&here, &ftl, |unit| begins_with(unit, b"BwKr")).await);
        units
    });
    let mut stream = Rng::new(3).stream("places");
    let mut changes = Vec::new();
    for (unit, bytes) in units {
        let is_index = is_index(&bytes);
        for new in NUMBERS.iter().chain(&NUMBERS) {
            let used = if is_index { 16 + (number(&bytes, 4) & 0xffff) as usize } else { 400 };
            let from = if is_index { 4 } else { 16 };
            let at = from + stream.below((used - from) as u64) as usize;
            let mut body = bytes.to_vec();
            body.splice(at..at + 1, new.iter().copied());
            body.truncate(UNIT_BYTES);
            let crc_at = if is_index { 0 } else { 4 };
            let crc = crc32c::crc32c(&body[crc_at + 4..]);
            body[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
            changes.push((unit, body.try_into().unwrap()));
        }
    }
    play(&case, medium, changes);
}

// With read-only flash, contents can still be read, and no operation waits indefinitely.
#[test]
fn a_drive_that_takes_nothing_more_can_be_read() {
    for case in cases() {
        let (medium, model) = loaded(&case);
        let mut worn = case.clone();
        // All programs from some point on.
        let fails = |die| (40..4000).map(move |nth| Fault { die, kind: FaultKind::Program, nth });
        worn.faults = FaultPlan::exactly((0..2).flat_map(fails));
        let (medium, ()) = session(&worn, medium, async move |kv: Kv, _| {
            let spans = spans();
            let mut model = model;
            let mut refused = None;
            for step in 0..3000u32 {
                let number = u64::from(step) % 200;
                let bytes = value(&key(number), step, 900);
                match put(&kv, number, step, 900).await {
                    Ok(()) => _ = model.insert(key(number), bytes),
                    Err(error) => {
                        refused = Some(error);
                        break;
                    }
                }
            }
            assert!(matches!(refused, Some(KvError::Media(_))), "{refused:?}");
            assert_eq!(try_all(&kv, Some(&model)).await, 0, "what is there can be read");
            assert!(kv.delete(NOBODY, &spans, key(3)).await.is_err());
            assert!(kv.format().await.is_err());
            assert!(kv.format().await.is_err());
        });
        drop(medium);
    }
}
