//! Damaged files of a drive: bytes flipped, files cut, emptied, removed, or replaced by older ones, each alone.
//! Every read afterwards gives what was written, or an error; or the drive does not start.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use byteway_clock::random::Rng;
use byteway_clock::{Clock, Delay, Executor, Rate, SpanId, Spans};
use byteway_content::{BlockSize, Content, Stamp, UNIT_BYTES};
use byteway_firmware::{Base, Cycles, ExtentConfig, Ftl, FtlConfig, Placement, Region, Site, space_of};
use byteway_flash::file::damage::{Damage, bytes_of, copy};
use byteway_flash::file::{Files, Format, Overlay, SimulatedFiles, Tuning, check};
use byteway_flash::{Geometry, Timing};
use std::sync::Arc;

const GEOMETRY: Geometry =
    Geometry { channels: 2, ways: 1, planes: 2, blocks: 12, pages: 12, page_bytes: 8192 };
const UNITS: u64 = 600;
const TAG: u16 = 7;
/// The version of a unit that holds zeroes.
const NOTHING: u32 = u32::MAX;
const RECORD_BYTES: u64 = 64;

fn content(lpa: u64, version: u32) -> Content {
    match version {
        NOTHING => Content::Zero,
        version if version.is_multiple_of(3) => {
            Content::Stamp(Stamp { lba: lpa, version, tag: TAG, block: BlockSize::B4096 })
        }
        version => {
            let mut bytes = [lpa as u8; UNIT_BYTES];
            bytes[..4].copy_from_slice(&version.to_le_bytes());
            bytes[4..12].copy_from_slice(&lpa.to_le_bytes());
            Content::Bytes(bytes.into())
        }
    }
}

fn power_on(clock: &Clock, config: &FtlConfig, files: Arc<dyn Files>) -> Result<Ftl, String> {
    let site = Site::new(clock, 1, 1_000_000_000, Delay::ZERO, Rate::per_second(1_000_000_000));
    let placement = Placement::all_at(&site, Cycles::FREE);
    let timing = Timing { read: vec![Delay::ZERO; 2], program: vec![Delay::ZERO; 2], ..Timing::default() };
    let tuning = Tuning { image_units: 400, journal_bytes: 6000 };
    let medium = Ftl::open_medium(GEOMETRY, &timing, config, files, tuning);
    let (medium, _) = medium.map_err(|error| error.to_string())?;
    Ok(Ftl::power_on(clock, placement, GEOMETRY, timing, config.clone(), medium).unwrap())
}

/// A drive's files, and what they hold.
struct State {
    name: &'static str,
    files: SimulatedFiles,
    versions: Vec<u32>,
}

/// Runs a host over the files: random writes and deallocations, all flushed. Returns copies of the files as they
/// were before the shutdown, and as they are after it.
fn live(files: &SimulatedFiles, config: &FtlConfig, versions: &mut Vec<u32>, seed: u32) -> SimulatedFiles {
    let executor = Executor::new();
    let ftl = power_on(executor.clock(), config, Arc::new(files.clone())).unwrap();
    let (inner, source) = (ftl.clone(), files.clone());
    let mut model = std::mem::take(versions);
    let main = async move {
        inner.started().await.unwrap();
        let (spans, span) = (Spans::default(), SpanId::NONE);
        let mut stream = Rng::new(seed.into()).stream("host");
        for step in 0..500 {
            let count = 1 + stream.below(8);
            let first = if seed == 1 && step < 75 { step * 8 } else { stream.below(UNITS - count + 1) };
            let count = if seed == 1 && step < 75 { 8 } else { count };
            let version = if stream.chance(0.9) { seed * 1000 + step as u32 } else { NOTHING };
            model[first as usize..(first + count) as usize].fill(version);
            if version == NOTHING {
                inner.trim(span, &spans, first, count).await.unwrap();
            } else {
                let mut contents = (first..first + count).map(|lpa| content(lpa, version)).collect();
                inner.write(span, &spans, first, &mut contents, false).await.unwrap();
            }
            if step % 50 == 49 {
                inner.flush(span, &spans).await.unwrap();
            }
        }
        let killed = copy(&source).unwrap();
        inner.shutdown(span, &spans).await.unwrap();
        (killed, model)
    };
    let (killed, model) = executor.run(main).unwrap();
    *versions = model;
    ftl.power_off().close().unwrap();
    killed
}

/// What came of a start with damage.
#[derive(Default)]
struct Seen {
    refused: u32,
    /// Starts with some reads that fail, and among these starts those that have lost units of the map.
    errors: u32,
    lost: u32,
    right: u32,
}

/// Starts a drive and reads everything.
fn look(state: &State, config: &FtlConfig, files: Arc<dyn Files>, what: &str) -> Result<(u64, u64), String> {
    let executor = Executor::new();
    let ftl = power_on(executor.clock(), config, files)?;
    let (what, name, versions) = (what.to_owned(), state.name, state.versions.clone());
    let main = async move {
        ftl.started().await.map_err(|why| why.to_string())?;
        let (mut out, mut errors) = (Vec::new(), 0);
        for (lpa, version) in (0..).zip(versions) {
            out.clear();
            match ftl.read(SpanId::NONE, &Spans::default(), lpa, 1, &mut out).await {
                Ok(()) if out[0].marred() == 0 => {
                    let expected = content(lpa, version);
                    assert!(out[0] == expected, "{name}, {what}: unit {lpa} is not of version {version}");
                }
                _ => errors += 1,
            }
        }
        Ok((errors, ftl.lost_units()))
    };
    executor.run(main).unwrap()
}

/// What an inspection finds wrong.
fn found(files: &Arc<dyn Files>) -> Option<String> {
    let units = |format: &Format| space_of(format).unwrap().units();
    match check(&**files, units, |_, _| true) {
        Err(error) => return Some(error.to_string()),
        Ok(check) if check.findings_total > 0 => return Some(check.findings[0].to_string()),
        Ok(_) => {}
    }
    let executor = Executor::new();
    let ftl = match Ftl::look(executor.clock(), files.clone()) {
        Err(error) => return Some(error.to_string()),
        Ok(ftl) => ftl,
    };
    let main = async move {
        if let Err(why) = ftl.started().await {
            return Some(why.to_string());
        }
        ftl.audit().await.findings.first().map(ToString::to_string)
    };
    executor.run(main).unwrap()
}

/// Applies damages to copies, each alone, and looks at what is left.
fn suffer(state: &State, config: &FtlConfig, damages: Vec<Damage>) -> Seen {
    let mut seen = Seen::default();
    for damage in damages {
        let damaged = || -> Arc<dyn Files> {
            let over = Overlay::new(Arc::new(state.files.clone()));
            damage.apply(&over).unwrap();
            Arc::new(over)
        };
        let what = damage.to_string();
        let accepting = FtlConfig { accepts_losses: true, ..config.clone() };
        let looked = look(state, &accepting, damaged(), &what);
        match &looked {
            Err(_) => seen.refused += 1,
            Ok((0, _)) => seen.right += 1,
            Ok((_, lost)) => {
                seen.errors += 1;
                if *lost > 0 {
                    seen.lost += 1;
                    assert!(look(state, config, damaged(), &what).is_err(), "{what}: it is accepted");
                }
            }
        }
        if !matches!(looked, Ok((0, _))) {
            let name = state.name;
            assert!(found(&damaged()).is_some(), "{name}, {what}: an inspection finds nothing in {looked:?}");
        }
    }
    seen
}

/// Whether a record names a translation page.
fn is_map_page(record: &[u8]) -> bool {
    let lpa = u64::from(u32::from_le_bytes(record[..4].try_into().unwrap()));
    record[4] != 0 && (UNITS..u64::from(u32::MAX)).contains(&lpa)
}

fn every_damage_of(personality: FtlConfig) {
    let config = FtlConfig {
        user_units: UNITS,
        write_buffer_units: 24,
        checkpoint_units: 700,
        regions: vec![Region { first_unit: 0, tag: TAG, block: BlockSize::B4096 }],
        ..personality
    };
    let files = SimulatedFiles::new();
    let mut versions = vec![if config.base == Base::Empty { NOTHING } else { 0 }; UNITS as usize];
    let killed = live(&files, &config, &mut versions, 1);
    let older = [copy(&files).unwrap(), killed.clone()];
    // After a recovery.
    let killed = live(&killed, &config, &mut versions, 2);
    let files = copy(&killed).unwrap();
    let killed = live(&files, &config, &mut versions, 3);
    let states = [
        State { name: "killed", files: killed, versions: versions.clone() },
        State { name: "shut down", files, versions },
    ];
    for state in &states {
        let whole: Arc<dyn Files> = Arc::new(state.files.clone());
        assert_eq!(found(&whole), None, "{}", state.name);
        let over = Arc::new(Overlay::new(whole));
        assert_eq!(look(state, &config, over, "whole"), Ok((0, 0)), "{}", state.name);
        let is_clean = state.name == "shut down";
        let older: Vec<&SimulatedFiles> = older.iter().collect();
        for name in state.files.names().unwrap() {
            let seen = suffer(state, &config, Damage::strikes(&state.files, &name, &older).unwrap());
            let length = bytes_of(&state.files, &name).unwrap().unwrap().len() as u64;
            // An empty journal has nothing to lose, and without the mark nothing is verified by it.
            let is_needed = name != "mark" && !(is_clean && name.starts_with("journal-"));
            assert_eq!(seen.refused > 10, is_needed, "{} `{name}`", state.name);
            let flipped = match &*name {
                // A byte of every record in turn; and every byte of some records.
                "spare" => {
                    let spare = bytes_of(&state.files, "spare").unwrap().unwrap();
                    let records: Vec<(u64, &[u8])> = (0..)
                        .zip(spare.chunks(RECORD_BYTES as usize))
                        .filter(|(_, record)| record[4] != 0)
                        .collect();
                    let pages: Vec<u64> = records
                        .iter()
                        .filter(|(_, record)| is_map_page(record))
                        .map(|(unit, _)| *unit)
                        .collect();
                    assert!(!pages.is_empty());
                    let some = records
                        .iter()
                        .map(|(unit, _)| *unit)
                        .step_by(97)
                        .chain(pages.iter().copied().step_by(5));
                    let whole =
                        some.flat_map(|unit| (0..RECORD_BYTES).map(move |at| unit * RECORD_BYTES + at));
                    let each = records.iter().map(|(unit, _)| unit * RECORD_BYTES + unit * 7 % RECORD_BYTES);
                    let pages = pages.iter().map(|unit| unit * RECORD_BYTES + 9);
                    Damage::flips(&name, each.step_by(3).chain(whole).chain(pages))
                }
                "data" => {
                    let units = (0..length.div_ceil(UNIT_BYTES as u64)).step_by(2);
                    Damage::flips(&name, units.map(|unit| unit * UNIT_BYTES as u64 + unit * 61 % 4096))
                }
                "checkpoint" | "format" => Damage::flips(&name, (0..length).step_by(5)),
                _ => Damage::flips(&name, (0..length).step_by(1 + length as usize / 200)),
            };
            let flipped = suffer(state, &config, flipped);
            match &*name {
                "spare" => {
                    assert!(
                        flipped.errors > 50 && flipped.right > 50,
                        "{} {}",
                        flipped.errors,
                        flipped.right
                    );
                    assert_eq!(flipped.refused > 0, !is_clean, "{}", state.name);
                    assert!(!is_clean || flipped.lost > 0);
                }
                "data" => assert!(flipped.refused == 0 && flipped.errors > 50 && flipped.lost > 0),
                "mark" => assert_eq!((flipped.refused, flipped.errors), (0, 0)),
                _ => assert_eq!((flipped.right, flipped.errors), (0, 0), "{} `{name}`", state.name),
            }
        }
    }
}

// A flipped bit in the spare area of a translation page once made a thousand units read as zeroes, with success.
#[test]
fn no_damage_of_a_drive_with_its_map_in_dram_is_read_as_data() {
    every_damage_of(FtlConfig::default());
}

#[test]
fn no_damage_of_a_filled_drive_with_a_cached_map_is_read_as_data() {
    every_damage_of(FtlConfig { base: Base::Filled, map_cache_pages: Some(1), ..FtlConfig::default() });
}

#[test]
fn no_damage_of_a_drive_with_a_wide_map_is_read_as_data() {
    every_damage_of(FtlConfig { base: Base::Steady, wide_map: true, ..FtlConfig::default() });
}

#[test]
fn no_damage_of_a_drive_with_a_tree_of_extents_is_read_as_data() {
    every_damage_of(FtlConfig { extents: Some(ExtentConfig::default()), ..FtlConfig::default() });
}
