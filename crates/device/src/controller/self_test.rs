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

use crate::controller::persist::Record;
use crate::controller::{Context, Core};
use byteway_clock::{Clock, Delay, Notify, SpanId};
use byteway_firmware::Work;
use byteway_wire::nvme::{DeviceSelfTest, NSID_ALL, SelfTestLog, SelfTestResult, Status};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Results that are kept.
const RESULTS: usize = 20;
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

/// A test that is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Test {
    extended: bool,
    /// What it tests beside the controller: 0 nothing, or one namespace, or all.
    nsid: u32,
    percent: u8,
}

/// The test that is going on, and the results of former ones.
pub struct SelfTest {
    test: Cell<Option<Test>>,
    /// Counts tests, so that the task knows whether the one that it works at is still the one.
    turn: Cell<u64>,
    results: RefCell<Vec<SelfTestResult>>,
    begun: Notify,
}

/// What was found wrong.
struct Failure {
    segment: u8,
    nsid: Option<u32>,
    lba: Option<u64>,
    status: Option<Status>,
}

impl Failure {
    fn of(segment: u8) -> Self {
        Failure { segment, nsid: None, lba: None, status: None }
    }
}

impl SelfTest {
    /// None was ever made.
    pub fn new(clock: &Clock) -> Self {
        SelfTest {
            test: Cell::default(),
            turn: Cell::default(),
            results: RefCell::default(),
            begun: Notify::new(clock),
        }
    }

    /// Results, newest first.
    pub fn results(&self) -> Vec<SelfTestResult> {
        self.results.borrow().clone()
    }

    /// The extended test that is going on: its namespaces, and how much is done.
    pub fn extended(&self) -> Option<(u32, u8)> {
        self.test.get().filter(|test| test.extended).map(|test| (test.nsid, test.percent))
    }

    /// What was remembered.
    pub fn restore(&self, results: Vec<SelfTestResult>, extended: Option<(u32, u8)>) {
        let mut results = results;
        results.truncate(RESULTS);
        self.results.replace(results);
        if let Some((nsid, _)) = extended {
            self.begin(Test { extended: true, nsid, percent: 0 });
        }
    }

    fn begin(&self, test: Test) {
        self.turn.set(self.turn.get() + 1);
        self.test.set(Some(test));
        self.begun.notify_one();
    }

    /// Ends the test that is going on, if there is one, after `hours` with power.
    fn conclude(&self, result: u8, hours: u64, failure: Option<Failure>) {
        let Some(test) = self.test.take() else { return };
        let code = if test.extended { DeviceSelfTest::EXTENDED } else { DeviceSelfTest::SHORT };
        let mut entry = SelfTestResult {
            status: code << 4 | result,
            power_on_hours: hours.into(),
            ..SelfTestResult::default()
        };
        if let Some(Failure { segment, nsid, lba, status }) = failure {
            entry.segment = segment;
            if let Some(nsid) = nsid {
                (entry.nsid, entry.valid) = (nsid, entry.valid | SelfTestResult::VALID_NSID);
            }
            if let Some(lba) = lba {
                (entry.failing_lba, entry.valid) = (lba.into(), entry.valid | SelfTestResult::VALID_LBA);
            }
            if let Some(status) = status {
                (entry.status_code_type, entry.status_code) = (status.sct(), status.sc());
                entry.valid |= SelfTestResult::VALID_SCT | SelfTestResult::VALID_SC;
            }
        }
        let mut results = self.results.borrow_mut();
        results.insert(0, entry);
        results.truncate(RESULTS);
    }

    /// The log page.
    pub fn log(&self) -> SelfTestLog {
        let mut log = SelfTestLog::default();
        if let Some(test) = self.test.get() {
            log.current = if test.extended { DeviceSelfTest::EXTENDED } else { DeviceSelfTest::SHORT };
            log.completion = test.percent.min(99);
        }
        for (into, result) in log.results.iter_mut().zip(self.results.borrow().iter()) {
            *into = *result;
        }
        log
    }
}

/// Executes a Device Self-test command: it begins a test, or ends one.
pub fn command(context: &Context<'_>) -> Result<(), Status> {
    let core = context.core;
    let nsid = context.sqe.nsid;
    let extended = match DeviceSelfTest::parse(context.sqe).stc {
        DeviceSelfTest::SHORT => false,
        DeviceSelfTest::EXTENDED => true,
        DeviceSelfTest::ABORT => {
            core.end_self_test(SelfTestResult::ABORTED);
            core.persistence.counted();
            return Ok(());
        }
        _ => return Err(Status::INVALID_FIELD.with_dnr()),
    };
    if nsid != 0 && nsid != NSID_ALL {
        core.inventory.active(nsid)?;
    }
    if core.self_test.test.get().is_some() {
        return Err(Status::SELF_TEST_IN_PROGRESS);
    }
    core.self_test.begin(Test { extended, nsid, percent: 0 });
    Ok(())
}

/// Makes one test after another.
pub async fn run(core: Rc<Core>) {
    loop {
        core.self_test.begun.notified().await;
        let Some(test) = core.self_test.test.get() else { continue };
        let turn = core.self_test.turn.get();
        if test.extended {
            core.store().await; // it goes on after a power cut
        }
        let outcome = make(&core, test, turn).await;
        let self_test = &core.self_test;
        if self_test.turn.get() == turn && self_test.test.get().is_some() {
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
    pub(super) fn power_on_hours(&self) -> u64 {
        self.totals().on_ms / (Delay::from_s(3600).0 / Delay::from_ms(1).0)
    }

    /// Ends the self-test that is going on, if there is one, with `result`.
    pub(super) fn end_self_test(&self, result: u8) {
        self.self_test.conclude(result, self.power_on_hours(), None);
    }

    /// The same, if it tests namespace `nsid`.
    pub(super) fn end_self_test_on(&self, nsid: u32, result: u8) {
        if self.self_test.test.get().is_some_and(|test| test.nsid == nsid || test.nsid == NSID_ALL) {
            self.end_self_test(result);
        }
    }

    /// A reset ends a short test.
    pub(super) fn end_short_self_test(&self) {
        if self.self_test.test.get().is_some_and(|test| !test.extended) {
            self.end_self_test(SelfTestResult::ABORTED_RESET);
        }
    }

    /// Whether the test is still going on; notes how much of it is done.
    fn tests_on(&self, turn: u64, percent: u8) -> bool {
        let test = self.self_test.test.get().filter(|_| self.self_test.turn.get() == turn);
        self.self_test.test.set(match test {
            Some(test) => Some(Test { percent, ..test }),
            None => self.self_test.test.get(),
        });
        test.is_some()
    }
}

async fn make(core: &Core, test: Test, turn: u64) -> Result<(), Failure> {
    take_dram(core).await;
    if !core.tests_on(turn, 1) {
        return Ok(());
    }
    let health = core.ftl.health();
    if health.is_read_only || health.available_spare_percent < health.spare_threshold_percent {
        return Err(Failure::of(2));
    }
    if core.ftl.record().is_some_and(|bytes| Record::decode(&bytes).is_none()) {
        return Err(Failure::of(3));
    }
    if !core.tests_on(turn, SEGMENTS_BEFORE) {
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
            if !core.tests_on(turn, percent as u8) {
                return Ok(());
            }
            let unit = (u128::from(sample) * u128::from(units) / u128::from(samples)) as u64;
            let (first, _) = namespace.run(unit, 1);
            drop(namespace);
            let read = core.ftl.read(SpanId::NONE, core.port.spans(), first, 1, &mut contents).await;
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
