//! Damaged directories: the audit names the defects of the map and their locations, and no read returns
//! zeroes for lost data.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use byteway_clock::{Clock, Delay, Executor, Rate, SpanId, Spans};
use byteway_content::{Content, UNIT_BYTES};
use byteway_firmware::{Audit, Cycles, Disagreement, Ftl, FtlConfig, Placement, Site, Space, UnitContent};
use byteway_flash::Geometry;
use byteway_flash::file::{Files, SimulatedFiles, Tuning};
use std::sync::Arc;

const GEOMETRY: Geometry =
    Geometry { channels: 2, ways: 1, planes: 2, blocks: 16, pages: 16, page_bytes: 8192 };
/// Two translation pages.
const UNITS: u64 = 1200;
const WRITTEN: u64 = 1100;
const RECORD_BYTES: u64 = 64;

fn config() -> FtlConfig {
    FtlConfig { user_units: UNITS, write_buffer_units: 32, ..FtlConfig::default() }
}

fn power_on(clock: &Clock, files: &SimulatedFiles) -> Ftl {
    power_on_as(clock, files, config())
}

fn power_on_as(clock: &Clock, files: &SimulatedFiles, config: FtlConfig) -> Ftl {
    let site = Site::new(clock, 1, 1_000_000_000, Delay::ZERO, Rate::per_second(1_000_000_000));
    let placement = Placement::all_at(&site, Cycles::FREE);
    let timing = byteway_flash::Timing::default();
    let (medium, _) =
        Ftl::open_medium(GEOMETRY, &timing, &config, Arc::new(files.clone()), Tuning::default()).unwrap();
    Ftl::power_on(clock, placement, GEOMETRY, timing, config, medium).unwrap()
}

/// A mostly written drive that was shut down.
fn written() -> SimulatedFiles {
    let files = SimulatedFiles::new();
    let executor = Executor::new();
    let ftl = power_on(executor.clock(), &files);
    let (inner, spans) = (ftl.clone(), Spans::default());
    let main = async move {
        for first in (0..WRITTEN).step_by(10) {
            let mut contents = (first..first + 10)
                .map(|lpa| Content::Bytes([1 + lpa as u8 % 200; UNIT_BYTES].into()))
                .collect();
            inner.write(SpanId::NONE, &spans, first, &mut contents, false).await.unwrap();
        }
        inner.shutdown(SpanId::NONE, &spans).await.unwrap();
    };
    executor.run(main).unwrap();
    ftl.power_off().close().unwrap();
    files
}

/// The result of an inspection: the reason why the map is unusable, or its defects.
fn audit(files: &SimulatedFiles) -> Result<Audit, String> {
    let executor = Executor::new();
    let ftl = Ftl::look(executor.clock(), Arc::new(files.clone())).unwrap();
    let main = async move {
        ftl.started().await.map_err(|why| why.to_string())?;
        Ok(ftl.audit().await)
    };
    executor.run(main).unwrap()
}

fn record(files: &SimulatedFiles, unit: u64) -> [u8; RECORD_BYTES as usize] {
    let mut record = [0; RECORD_BYTES as usize];
    let spare = files.open("spare").unwrap().unwrap();
    spare.read_at(&mut record, unit * RECORD_BYTES).unwrap();
    record
}

/// Address of the latest version of a logical unit.
fn place(files: &SimulatedFiles, lpa: u64) -> u64 {
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let states = (0..GEOMETRY.total_units()).filter_map(|unit| {
        let record = record(files, unit);
        let is_there = record[4] != 0 && number(&record[..4]) == lpa;
        is_there.then(|| (number(&record[8..16]), unit))
    });
    states.max().unwrap().1
}

/// Rewrites a spare record to name another logical unit, with a matching checksum.
fn forge(files: &SimulatedFiles, unit: u64, lpa: u32) {
    let mut record = record(files, unit);
    record[..4].copy_from_slice(&lpa.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&(unit as u32).to_le_bytes()), &record[..60]);
    record[60..].copy_from_slice(&crc.to_le_bytes());
    let spare = files.open("spare").unwrap().unwrap();
    spare.write_at(&record, unit * RECORD_BYTES).unwrap();
}

// Findings about an intact directory would hide those that matter.
#[test]
fn a_whole_directory_has_no_findings() {
    let found = audit(&written()).unwrap();
    assert_eq!((found.pages, found.units, found.findings_total), (2, WRITTEN, 0), "{:?}", found.findings);
}

/// Starts the drive; the reason if it is refused, and otherwise the units that read as errors.
fn start(files: &SimulatedFiles, accepts_losses: bool) -> Result<Vec<u64>, String> {
    let executor = Executor::new();
    let ftl = power_on_as(executor.clock(), files, FtlConfig { accepts_losses, ..config() });
    let main = async move {
        ftl.started().await.map_err(|why| why.to_string())?;
        let errors: Vec<u64> = (0..UNITS).filter(|lpa| ftl.peek(*lpa).marred() != 0).collect();
        assert_eq!(errors.len() as u64, ftl.lost_units());
        assert_eq!(ftl.health().unreadable, ftl.lost_units());
        Ok(errors)
    };
    executor.run(main).unwrap()
}

// A flipped bit in a translation page would redirect each of 1024 units, or turn it into zeroes; in its spare
// area the page cannot be found, and its units must not count as deallocated.
#[test]
fn the_units_of_a_lost_translation_page_are_errors_or_no_drive_starts() {
    for is_damaged in [false, true] {
        let files = written();
        let unit = place(&files, Space::new(UNITS, false).map.0 + 1);
        assert!(match is_damaged {
            true => files.rot("data", unit * UNIT_BYTES as u64 + 77),
            false => files.rot("spare", unit * RECORD_BYTES + 9),
        });
        let found = audit(&files).unwrap().findings;
        let lost = UNITS - 1024;
        let page = Disagreement::Page { page: 1, unit, is_damaged, first: 1024, last: UNITS - 1, lost };
        assert_eq!(found, [page]);
        let why = start(&files, false).unwrap_err();
        assert_eq!(why, page.to_string());
        let said = format!("translation page 1 is {}in unit {unit}", if is_damaged { "" } else { "not " });
        let said = if is_damaged { format!("translation page 1 in unit {unit} is damaged") } else { said };
        assert!(why.contains(&said) && why.contains("176 of the logical units 1024 to 1199"), "{why}");
        assert_eq!(start(&files, true), Ok((1024..UNITS).collect()));
    }
}

// What is lost would read as zeroes after the next checkpoint; and what was written or deallocated since would
// stay lost.
#[test]
fn lost_units_stay_lost_until_they_are_written_or_deallocated() {
    let files = written();
    let unit = place(&files, Space::new(UNITS, false).map.0 + 1);
    assert!(files.rot("spare", unit * RECORD_BYTES + 9));
    let executor = Executor::new();
    let ftl = power_on_as(executor.clock(), &files, FtlConfig { accepts_losses: true, ..config() });
    let inner = ftl.clone();
    let main = async move {
        let (spans, span) = (Spans::default(), SpanId::NONE);
        let mut contents = vec![Content::Bytes([7; UNIT_BYTES].into())];
        inner.write(span, &spans, 1030, &mut contents, true).await.unwrap();
        inner.trim(span, &spans, 1040, 10).await.unwrap();
        // A part of a unit leaves the rest lost.
        let part = |bytes: &mut [u8; UNIT_BYTES], marred: &mut u8| {
            bytes[..512].fill(9);
            *marred &= !1;
        };
        inner.edit(span, &spans, 1060, part, false).await.unwrap();
        inner.shutdown(span, &spans).await.unwrap();
    };
    executor.run(main).unwrap();
    ftl.power_off().close().unwrap();
    let healed = |lpa: u64| lpa == 1030 || (1040..1050).contains(&lpa);
    let runs = [(1024, 1029), (1031, 1039), (1050, 1059), (1061, UNITS - 1)];
    let runs = runs.map(|(first, last)| Disagreement::StillLost { first, last });
    assert_eq!(audit(&files).unwrap().findings, runs);
    // No further loss is accepted with it.
    let executor = Executor::new();
    let ftl = power_on(executor.clock(), &files);
    let main = async move {
        ftl.ready().await;
        assert_eq!(ftl.lost_units(), 0);
        for lpa in 1024..UNITS {
            let mut out = Vec::new();
            ftl.read(SpanId::NONE, &Spans::default(), lpa, 1, &mut out).await.unwrap();
            let marred = match lpa {
                1060 => 0xfe,
                _ if healed(lpa) => 0,
                _ => 0xff,
            };
            assert_eq!(out[0].marred(), marred, "unit {lpa}");
        }
    };
    executor.run(main).unwrap();
}

// A unit whose spare area is another's is another's data: every checksum is right, and only the map shows it.
#[test]
fn spare_areas_of_other_units_are_found() {
    let files = written();
    let units = [place(&files, 5), place(&files, 700)];
    forge(&files, units[0], 6);
    assert!(files.rot("spare", units[1] * RECORD_BYTES + 30));
    let found = audit(&files).unwrap();
    let expected = [
        Disagreement::Place { lpa: 5, unit: units[0], holds: UnitContent::Unit(6) },
        Disagreement::Place { lpa: 700, unit: units[1], holds: UnitContent::Nothing },
    ];
    assert_eq!(found.findings, expected);
}

// A later version that the map does not lead to is lost to the host.
#[test]
fn a_later_state_than_the_maps_is_found() {
    let files = written();
    let (older, newer) = (place(&files, 3), place(&files, 1000));
    forge(&files, newer, 3);
    let found = audit(&files).unwrap();
    let expected = [
        Disagreement::Place { lpa: 1000, unit: newer, holds: UnitContent::Unit(3) },
        Disagreement::Older { lpa: 3, unit: older, newer },
    ];
    assert_eq!(found.findings, expected);
}

// A superblock whose first stripe is damaged was once taken for one that was erased and opened since: what its
// pages say was given up, and older versions elsewhere counted.
#[test]
fn a_damaged_first_stripe_is_no_sign_of_an_erase() {
    let files = written();
    let unit = place(&files, 300);
    let block_units = u64::from(GEOMETRY.units_per_block());
    let first = unit / block_units * block_units;
    let stripe = first..first + u64::from(GEOMETRY.units_per_stripe());
    assert!(!stripe.contains(&unit));
    for damaged in stripe.chain([unit]) {
        assert!(files.rot("spare", damaged * RECORD_BYTES + 30));
    }
    let found = audit(&files).unwrap();
    let places = |finding: &&Disagreement| {
        matches!(finding, Disagreement::Place { unit: damaged, holds: UnitContent::Nothing, .. }
            if *damaged == unit || (first..first + 4).contains(damaged))
    };
    assert_eq!((found.findings.iter().filter(places).count(), found.findings_total), (5, 5));
    assert_eq!(start(&files, false), Ok(vec![]), "none is lost: their reads fail");
}
