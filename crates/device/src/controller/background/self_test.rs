//! Device Self-test (NVMe Base 2.1, 5.1.5 and 8.1.7): whether DRAM, counters and media are what they should be.
//!
//! | segment | what is tested |
//! |---|---|
//! | 1 | a pattern through the DRAM: its port is really taken; modelled DRAM has no errors, so it never fails |
//! | 2 | health: no critical warning, and no more spare used than there is |
//! | 3 | the record of what outlives the power can be decoded, and says what is in force |
//! | 4 | samples of the media, spread evenly over the namespaces, are read; more of them in the extended test |
//!
//! A test reads one sample after another, behind the host's commands; it writes nothing. A block that the host has made
//! unreadable is not a failure of the media. A reset ends a short test; an extended one goes on after resets and power
//! cycles.

use crate::controller::core::Core;
use crate::controller::namespace::record::Record;
use crate::controller::state::self_test::{Failure, Test};
use byteway_clock::{Delay, SpanId};
use byteway_firmware::Work;
use byteway_wire::nvme::{NSID_ALL, SelfTestResult, Status};
use std::rc::Rc;

/// Units that a short test reads of each namespace.
const SHORT_SAMPLES: u64 = 64;
/// Units that an extended test reads of each namespace.
const EXTENDED_SAMPLES: u64 = 4096;
/// How long an extended test takes at most, minutes: what Identify says.
pub const EXTENDED_MINUTES: u16 = 10;
/// Bytes of the pattern for the DRAM.
const PATTERN_BYTES: u64 = 64 << 10;
/// Steps before the samples, each a per cent of the whole.
const SEGMENTS_BEFORE: u8 = 3;

/// Makes one test after another.
pub async fn run(core: Rc<Core>) {
    loop {
        let (test, turn) = core.background.self_test.begun().await;
        if test.extended {
            core.store().await; // it goes on after a power cut
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
    /// Time with power over the drive's life, hours.
    pub(crate) fn power_on_hours(&self) -> u64 {
        self.totals().on_ms / (Delay::from_s(3600).0 / Delay::from_ms(1).0)
    }

    /// Ends the self-test that is going on, if there is one, with `result`.
    pub(crate) fn end_self_test(&self, result: u8) {
        self.background.self_test.conclude(result, self.power_on_hours(), None);
    }

    /// The same, if it tests namespace `nsid`.
    pub(crate) fn end_self_test_on(&self, nsid: u32, result: u8) {
        if self.background.self_test.current().is_some_and(|test| test.nsid == nsid || test.nsid == NSID_ALL)
        {
            self.end_self_test(result);
        }
    }

    /// A reset ends a short test that this controller was asked for.
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
            // Held between reads, it would hold up whoever wants to change it.
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

/// The time of a pattern into the DRAM and out of it.
async fn take_dram(core: &Core) {
    let site = core.placement.site(Work::Buffer);
    for _ in 0..2 {
        let passage = site.dram("self-test", PATTERN_BYTES);
        core.clock.sleep_until(passage.arrival).await;
    }
}
