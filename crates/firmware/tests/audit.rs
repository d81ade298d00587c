//! Damaged directories: the audit names the defects of the map and their locations, and no read returns
//! zeroes for lost data.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use byteway_clock::{Clock, Delay, Executor, Rate, SpanId, Spans};
use byteway_content::{Content, UNIT_BYTES};
use byteway_firmware::{Audit, Cycles, Disagreement, Ftl, FtlConfig, Placement, Site, Space, UnitContent};
use byteway_flash::Geometry;
use byteway_flash::file::{Files, SimulatedFiles, Tuning};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

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
    let site = Site::new(clock, 1, 1_000_000_000, Delay::ZERO, Rate::per_second(1_000_000_000));
    let placement = Placement::all_at(&site, Cycles::FREE);
    let timing = byteway_flash::Timing::default();
    let (medium, _) =
        Ftl::open_medium(GEOMETRY, &timing, &config(), Arc::new(files.clone()), Tuning::default()).unwrap();
    Ftl::power_on(clock, placement, GEOMETRY, timing, config(), medium).unwrap()
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
        {
            let (mut failed, mut ready) = (pin!(ftl.flash().failed()), pin!(ftl.ready()));
            let known = poll_fn(|context| match failed.as_mut().poll(context) {
                Poll::Ready(why) => Poll::Ready(Err(why.to_string())),
                Poll::Pending => ready.as_mut().poll(context).map(Ok),
            });
            known.await?;
        }
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

// A flipped bit in a translation page would redirect each of 1024 units, or turn it into zeroes.
#[test]
fn a_damaged_translation_page_is_named_and_no_drive_starts_with_it() {
    let files = written();
    let unit = place(&files, Space::new(UNITS, false).map.0 + 1);
    assert!(files.rot("data", unit * UNIT_BYTES as u64 + 77));
    let why = audit(&files).unwrap_err();
    let said = format!("translation page 1 (unit {unit} of the array)");
    assert!(why.contains(&said) && why.contains("logical units 1024 to 1199"), "{why}");
    let executor = Executor::new();
    let ftl = power_on(executor.clock(), &files);
    let failed = executor.run(async move { ftl.flash().failed().await.to_string() });
    assert_eq!(failed.unwrap(), why);
}

// A translation page with a lost spare area cannot be found: its units must not count as deallocated.
#[test]
fn a_translation_page_without_a_spare_area_is_gone() {
    let files = written();
    let unit = place(&files, Space::new(UNITS, false).map.0);
    assert!(files.rot("spare", unit * RECORD_BYTES + 9));
    let found = audit(&files).unwrap();
    let gone = Disagreement::PageGone { page: 0, unit, first: 0, last: 1023 };
    assert!(found.findings.contains(&gone), "{:?}", found.findings);
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

// A location in a translation page that no longer holds the unit, without a later version: that is not a
// deallocation.
#[test]
fn units_that_are_gone_are_found() {
    let files = written();
    let unit = place(&files, 300);
    let block_units = u64::from(GEOMETRY.units_per_block());
    let first = unit / block_units * block_units;
    assert_ne!(unit, first);
    // Its superblock looks erased and reopened since: what was there may have been moved.
    for damaged in [first, unit] {
        assert!(files.rot("spare", damaged * RECORD_BYTES + 30));
    }
    let found = audit(&files).unwrap();
    let lost = Disagreement::Lost { lpa: 300, unit, holds: UnitContent::Nothing };
    assert!(found.findings.contains(&lost) && found.findings_total == 2, "{:?}", found.findings);
}
