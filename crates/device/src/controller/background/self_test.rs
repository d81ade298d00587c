//! Device Self-test (NVMe Base 2.1, 5.1.5 and 8.1.7): tests of DRAM, counters and media.
//!
//! | segment | test |
//! |---|---|
//! | 1 | a pattern through the DRAM, which occupies its port; modelled DRAM has no errors, so it never fails |
//! | 2 | health: no critical warning, and no more spare used than available |
//! | 3 | the non-volatile record decodes, and agrees with the current state |
//! | 4 | reads of samples of the media, spread evenly over the namespaces; the extended test takes more |
//!
//! A test reads one sample after another, at lower priority than host commands, and writes nothing. A block that the
//! host has marked unreadable is not a media failure. A reset ends a short test; an extended one continues after resets
//! and power cycles.

use crate::controller::core::Core;
use crate::controller::namespace::record::Record;
use crate::controller::state::self_test::{Failure, Test};
use byteway_clock::{Delay, SpanId};
use byteway_firmware::WorkKind;
use byteway_wire::nvme::{NSID_ALL, SelfTestResult, Status};
use std::rc::Rc;

/// Units of each namespace that a short test reads.
const SHORT_SAMPLES: u64 = 64;
/// Units of each namespace that an extended test reads.
const EXTENDED_SAMPLES: u64 = 4096;
/// Maximum duration of an extended test, in minutes (EDSTT).
pub const EXTENDED_MINUTES: u16 = 10;
/// Size of the DRAM pattern, in bytes.
const PATTERN_BYTES: u64 = 64 << 10;
/// Segments before the samples; each counts as one per cent.
const SEGMENTS_BEFORE: u8 = 3;

/// Runs one test after another.
pub async fn run(core: Rc<Core>) {
    loop {
        let (test, turn) = core.background.self_test.begun().await;
        if test.extended {
            core.store().await; // it continues after a power cut
        }
        let outcome = make(&core, test, turn).await;
        let self_test = &core.background.self_test;
        if self_test.goes_on(turn) {
            let hours = core.power_on_hours();
            match outcome {
                Ok(()) => self_test.conclude(SelfTestResult::PASSED, hours, None),
                Err(failure) => self_test.conclude(SelfTestResult::SEGMENT_FAILED, hours, Some(failure)),
            }
        }
        core.store().await;
    }
}

impl Core {
    /// Power-on hours over the drive's life.
    pub(crate) fn power_on_hours(&self) -> u64 {
        self.totals().on_ms / (Delay::from_s(3600).0 / Delay::from_ms(1).0)
    }

    /// Ends the self-test in progress, if any, with `result`.
    pub(crate) fn end_self_test(&self, result: u8) {
        self.background.self_test.conclude(result, self.power_on_hours(), None);
    }

    /// Like [`Core::end_self_test`], if the test includes namespace `nsid`.
    pub(crate) fn end_self_test_on(&self, nsid: u32, result: u8) {
        if self.background.self_test.current().is_some_and(|test| test.nsid == nsid || test.nsid == NSID_ALL)
        {
            self.end_self_test(result);
        }
    }

    /// Ends a short test that this controller received, because of a reset.
    pub(crate) fn end_short_self_test(&self) {
        let is_own = |test: Test| !test.extended && test.controller == self.number;
        if self.background.self_test.current().is_some_and(is_own) {
            self.end_self_test(SelfTestResult::ABORTED_RESET);
        }
    }
}

async fn make(core: &Core, test: Test, turn: u64) -> Result<(), Failure> {
    take_dram(core).await;
    if !core.background.self_test.has_done(turn, 1) {
        return Ok(());
    }
    let health = core.backing.health();
    if health.is_read_only || health.available_spare_percent < health.spare_threshold_percent {
        return Err(Failure::of(2));
    }
    if core.backing.record().is_some_and(|bytes| Record::decode(&bytes).is_none()) {
        return Err(Failure::of(3));
    }
    if !core.background.self_test.has_done(turn, SEGMENTS_BEFORE) {
        return Ok(());
    }
    let nsids = match test.nsid {
        0 => Vec::new(),
        NSID_ALL => core.inventory.nsids(true),
        nsid => vec![nsid],
    };
    let samples = if test.extended { EXTENDED_SAMPLES } else { SHORT_SAMPLES };
    let mut contents = Vec::new();
    for (done, nsid) in nsids.iter().enumerate() {
        for sample in 0..samples {
            // Take a reference per read: held between reads, it would block namespace changes.
            let Ok(namespace) = core.inventory.active(*nsid) else { break };
            let (units, per_unit) = (namespace.units(), namespace.block.per_unit() as u64);
            let share = (done as u64 * samples + sample) * (100 - u64::from(SEGMENTS_BEFORE));
            let percent = share / (nsids.len() as u64 * samples).max(1) + u64::from(SEGMENTS_BEFORE);
            if !core.background.self_test.has_done(turn, percent as u8) {
                return Ok(());
            }
            let unit = (u128::from(sample) * u128::from(units) / u128::from(samples)) as u64;
            let (first, _) = namespace.run(unit, 1);
            drop(namespace);
            let read =
                core.backing.read(SpanId::NONE.into(), core.port.spans(), first, 1, &mut contents).await;
            if read.is_err() {
                return Err(Failure {
                    segment: SEGMENTS_BEFORE + 1,
                    nsid: Some(*nsid),
                    lba: Some(unit * per_unit),
                    status: Some(Status::UNRECOVERED_READ_ERROR),
                });
            }
        }
    }
    Ok(())
}

/// Charges the time of a pattern into the DRAM and back.
async fn take_dram(core: &Core) {
    let site = core.placement.site(WorkKind::Buffer);
    for _ in 0..2 {
        let passage = site.dram("self-test", PATTERN_BYTES);
        core.clock.sleep_until(passage.arrival).await;
    }
}
