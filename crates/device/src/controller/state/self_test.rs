//! The self-test in progress, and the results of former ones (NVMe Base 2.1, 8.1.7).

use byteway_clock::{Clock, Notify};
use byteway_wire::nvme::{DeviceSelfTest, SelfTestLog, SelfTestResult, Status};
use std::cell::{Cell, RefCell};

/// Number of results that are kept.
pub(crate) const RESULTS: usize = 20;

/// A test in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Test {
    pub(crate) extended: bool,
    /// Namespaces under test: 0 none, an identifier, or all.
    pub(crate) nsid: u32,
    pub(crate) percent: u8,
    /// Number of the controller that received the command, from 0.
    pub(crate) controller: usize,
}

/// The test in progress, and the results of former ones.
pub struct SelfTest {
    test: Cell<Option<Test>>,
    /// Number of tests, so that the task can tell whether its test is still the current one.
    turn: Cell<u64>,
    results: RefCell<Vec<SelfTestResult>>,
    begun: Notify,
}

/// Details of a failed test.
pub(crate) struct Failure {
    pub(crate) segment: u8,
    pub(crate) nsid: Option<u32>,
    pub(crate) lba: Option<u64>,
    pub(crate) status: Option<Status>,
}

impl Failure {
    pub(crate) fn of(segment: u8) -> Self {
        Failure { segment, nsid: None, lba: None, status: None }
    }
}

impl SelfTest {
    /// No test so far.
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

    /// The extended test in progress: its namespaces, and per cent done.
    pub fn extended(&self) -> Option<(u32, u8)> {
        self.test.get().filter(|test| test.extended).map(|test| (test.nsid, test.percent))
    }

    /// Restores results and the extended test in progress from the record.
    pub fn restore(&self, results: Vec<SelfTestResult>, extended: Option<(u32, u8)>) {
        let mut results = results;
        results.truncate(RESULTS);
        self.results.replace(results);
        if let Some((nsid, _)) = extended {
            self.begin(Test { extended: true, nsid, percent: 0, controller: 0 });
        }
    }

    pub(crate) fn begin(&self, test: Test) {
        self.turn.set(self.turn.get() + 1);
        self.test.set(Some(test));
        self.begun.notify_one();
    }

    /// Ends the test in progress, if any; `hours`: power-on hours.
    pub(crate) fn conclude(&self, result: u8, hours: u64, failure: Option<Failure>) {
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

    /// The test in progress.
    pub(crate) fn current(&self) -> Option<Test> {
        self.test.get()
    }

    /// Waits until a test begins; returns it and its number.
    pub(crate) async fn begun(&self) -> (Test, u64) {
        loop {
            self.begun.notified().await;
            if let Some(test) = self.test.get() {
                return (test, self.turn.get());
            }
        }
    }

    /// Whether the test with this number is still in progress.
    pub(crate) fn goes_on(&self, turn: u64) -> bool {
        self.turn.get() == turn && self.test.get().is_some()
    }

    /// Like [`SelfTest::goes_on`]; also sets the per cent done.
    pub(crate) fn has_done(&self, turn: u64, percent: u8) -> bool {
        let goes_on = self.goes_on(turn);
        if goes_on {
            self.test.set(self.test.get().map(|test| Test { percent, ..test }));
        }
        goes_on
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
