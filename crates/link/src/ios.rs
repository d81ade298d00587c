//! The I/O ledger of a drive that is watched: I/Os and bytes by host and namespace, and their latency by stage.
//!
//! Whoever knows the host opens a span with an [`IoLabel`]: the target of a fabric, which knows every host, or else the
//! device, for the host at the other end of its link. The device books what it moves under the label, and the opener
//! books the latency when it closes the span. All memory is allocated when the ledger is made; a simulation has none.
//!
//! Hosts come and go, and namespaces are created at will: beyond [`HOSTS_MAX`] and [`ROWS_MAX`] they share one entry
//! each, so that hosts cannot make the ledger grow.

use byteway_clock::{Delay, SpanId, SpanRecord, Spans, Stage};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Hosts with figures of their own.
pub const HOSTS_MAX: usize = 32;
/// Pairs of host and namespace with figures of their own.
pub const ROWS_MAX: usize = 64;

/// What an I/O command has done, as far as the ledger distinguishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Verb {
    /// It moved data to the host.
    Read,
    /// It moved data to the drive.
    Write,
    /// Flush.
    Flush,
    /// Anything else: no data, or refused before any moved.
    Other,
}

impl Verb {
    /// All verbs.
    pub const ALL: [Verb; 4] = [Verb::Read, Verb::Write, Verb::Flush, Verb::Other];

    /// Name in labels of metrics.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Read => "read",
            Verb::Write => "write",
            Verb::Flush => "flush",
            Verb::Other => "other",
        }
    }

    /// The verb of an I/O command that has moved nothing yet: in all command sets 00h is Flush.
    pub fn of_opcode(opcode: u8) -> Verb {
        if opcode == 0x00 { Verb::Flush } else { Verb::Other }
    }
}

/// Index of a host in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoHost(u16);

impl IoHost {
    /// Hosts beyond [`HOSTS_MAX`], together.
    pub const OTHER: IoHost = IoHost(HOSTS_MAX as u16);

    /// Index into [`IoFigures::hosts`]; that of [`IoHost::OTHER`] is [`HOSTS_MAX`].
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// What an I/O is booked under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoLabel {
    /// The host that sent the command.
    pub host: IoHost,
    /// Its namespace. 0: none, all, or one that there is not, so that names of no namespace take no rows.
    pub nsid: u32,
    /// What it does. `None` until the command has been read.
    pub verb: Option<Verb>,
}

impl IoLabel {
    /// Set in every label, so that no label is 0.
    const MARK: u64 = 1 << 63;
    const UNREAD: u64 = 7;

    /// The label of an I/O whose command has not been read.
    pub fn unread(host: IoHost) -> IoLabel {
        IoLabel { host, nsid: 0, verb: None }
    }

    /// As a label of a span.
    pub fn bits(self) -> u64 {
        let verb = self.verb.map_or(Self::UNREAD, |verb| verb as u64);
        Self::MARK | verb << 48 | u64::from(self.host.0) << 32 | u64::from(self.nsid)
    }

    /// The label of a span, if it is one of the ledger.
    pub fn from_bits(bits: u64) -> Option<IoLabel> {
        let verb = Verb::ALL.get((bits >> 48 & 0xf) as usize).copied();
        let host = IoHost((bits >> 32) as u16);
        (bits & Self::MARK != 0).then_some(IoLabel { host, nsid: bits as u32, verb })
    }
}

/// Sub-buckets of an octave, as a power of two: the width of a bucket is at most a quarter of its values.
const SUB_BITS: u32 = 2;
const SUB: u64 = 1 << SUB_BITS;
/// Values below this share the first bucket: 64 ns.
const NS_MIN_BITS: u32 = 6;
/// Longer times are counted in the last bucket: 34 s.
const NS_MAX: u64 = (1 << 35) - 1;

/// Number of buckets of a [`LatencyCounts`].
pub const BUCKETS: usize = bucket(NS_MAX) + 1;

const fn bucket(ns: u64) -> usize {
    let ns = if ns > NS_MAX { NS_MAX } else { ns };
    if ns < 1 << NS_MIN_BITS {
        return 0;
    }
    let octave = ns.ilog2();
    let sub = ns >> (octave - SUB_BITS) & (SUB - 1);
    1 + ((octave - NS_MIN_BITS) as u64 * SUB + sub) as usize
}

/// Lower bound of a bucket in nanoseconds; of the bucket after the last, the upper bound of the last.
pub fn bucket_ns(index: usize) -> u64 {
    let Some(above) = (index as u64).checked_sub(1) else { return 0 };
    let octave = above / SUB + u64::from(NS_MIN_BITS);
    (1 << octave) + ((above % SUB) << (octave - u64::from(SUB_BITS)))
}

/// Counts of times in log-linear buckets, four an octave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyCounts {
    /// Number of times by bucket.
    pub buckets: [u64; BUCKETS],
    /// Sum of all times, in picoseconds.
    pub sum_ps: u128,
}

impl Default for LatencyCounts {
    fn default() -> Self {
        LatencyCounts { buckets: [0; BUCKETS], sum_ps: 0 }
    }
}

impl LatencyCounts {
    fn add(&mut self, time: Delay) {
        self.buckets[bucket(time.0 / 1_000)] += 1;
        self.sum_ps += u128::from(time.0);
    }

    /// Number of times.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The times counted since `then`, an earlier state of these counts.
    pub fn since(&self, then: &LatencyCounts) -> LatencyCounts {
        let mut counts = self.clone();
        for (now, then) in counts.buckets.iter_mut().zip(&then.buckets) {
            *now = now.saturating_sub(*then);
        }
        counts.sum_ps = counts.sum_ps.saturating_sub(then.sum_ps);
        counts
    }

    /// Adds all times of `other`.
    pub fn merge(&mut self, other: &LatencyCounts) {
        for (own, other) in self.buckets.iter_mut().zip(&other.buckets) {
            *own += other;
        }
        self.sum_ps += other.sum_ps;
    }

    /// The time in nanoseconds that a share of all times does not exceed: the upper bound of its bucket. `None` without
    /// times.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        let count = self.count();
        let rank = ((count as f64 * share) as u64).clamp(1, count.max(1));
        let mut seen = 0;
        let index = self.buckets.iter().position(|times| {
            seen += times;
            seen >= rank
        });
        index.map(|index| bucket_ns(index + 1))
    }
}

/// Figures of the I/Os of one host to one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoRow {
    /// Index of the host in [`IoFigures::hosts`], or [`HOSTS_MAX`].
    pub host: usize,
    /// The namespace. `None`: several, of the pairs beyond [`ROWS_MAX`].
    pub nsid: Option<u32>,
    /// Reads and compares that moved data, and their bytes: of all rows together what the drive's summary says.
    pub reads: (u64, u64),
    /// Writes that moved data, and their bytes.
    pub writes: (u64, u64),
    /// Latency of completed commands, by [`Verb`].
    pub latencies: [LatencyCounts; Verb::ALL.len()],
}

/// All figures of a ledger at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoFigures {
    /// Names of the hosts.
    pub hosts: Vec<String>,
    /// Figures by host and namespace.
    pub rows: Vec<IoRow>,
    /// Time of completed commands by [`Verb`] and [`Stage`].
    pub stages: Vec<[LatencyCounts; Stage::ALL.len()]>,
}

/// Ledger of the I/Os of a drive, for all its ports.
pub struct IoLedger {
    figures: RefCell<IoFigures>,
    /// The row that was used last.
    last: Cell<usize>,
}

impl IoLedger {
    /// An empty ledger.
    pub fn new() -> Rc<IoLedger> {
        let mut rows = Vec::with_capacity(ROWS_MAX);
        rows.push(IoRow { host: HOSTS_MAX, ..IoRow::default() });
        let hosts = Vec::with_capacity(HOSTS_MAX);
        let stages = vec![Default::default(); Verb::ALL.len()];
        Rc::new(IoLedger { figures: RefCell::new(IoFigures { hosts, rows, stages }), last: Cell::default() })
    }

    /// The host with this name.
    pub fn host(&self, name: &str) -> IoHost {
        let hosts = &mut self.figures.borrow_mut().hosts;
        let known = hosts.iter().position(|host| host == name);
        let index = known.unwrap_or(hosts.len());
        if index == HOSTS_MAX {
            return IoHost::OTHER;
        }
        if known.is_none() {
            hosts.push(name.to_owned());
        }
        IoHost(index as u16)
    }

    /// Books a command that has read `bytes`.
    pub fn read(&self, label: IoLabel, bytes: u64) {
        self.with(label, |row| {
            row.reads.0 += 1;
            row.reads.1 += bytes;
        });
    }

    /// Books `commands` commands that have written `bytes`.
    pub fn written(&self, label: IoLabel, commands: u64, bytes: u64) {
        self.with(label, |row| {
            row.writes.0 += commands;
            row.writes.1 += bytes;
        });
    }

    /// Closes the span of a command that has completed, and books its latency.
    pub fn close(&self, spans: &Spans, span: SpanId) {
        let label = IoLabel::from_bits(spans.label(span));
        let record = spans.close(span);
        // A command that was refused before it was read has no verb.
        if let Some(label) = label
            && let Some(verb) = label.verb
        {
            self.completed(label, verb, &record);
        }
    }

    fn completed(&self, label: IoLabel, verb: Verb, record: &SpanRecord) {
        let latency = record.last.since(record.begin);
        self.with(label, |row| row.latencies[verb as usize].add(latency));
        let stages = &mut self.figures.borrow_mut().stages[verb as usize];
        for (counts, time) in stages.iter_mut().zip(record.stages) {
            // A stage that an I/O does not pass through is not one that takes no time.
            if time > Delay::ZERO {
                counts.add(time);
            }
        }
    }

    fn with(&self, label: IoLabel, act: impl FnOnce(&mut IoRow)) {
        let rows = &mut self.figures.borrow_mut().rows;
        let is_it = |row: &IoRow| row.nsid == Some(label.nsid) && row.host == label.host.index();
        let last = self.last.get();
        if rows.get(last).is_some_and(is_it) {
            return act(&mut rows[last]);
        }
        let index = match rows.iter().position(is_it) {
            Some(index) => index,
            None if rows.len() == ROWS_MAX => 0,
            None => {
                rows.push(IoRow { host: label.host.index(), nsid: Some(label.nsid), ..IoRow::default() });
                rows.len() - 1
            }
        };
        self.last.set(index);
        act(&mut rows[index]);
    }

    /// All figures up to now.
    pub fn figures(&self) -> IoFigures {
        self.figures.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::Time;

    // A time in the wrong bucket would move every percentile of a watched drive.
    #[test]
    fn every_time_lies_in_its_bucket() {
        let near = (0..40u32).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1, 3 << bit >> 1]);
        for ns in near.chain(0..5000) {
            let index = bucket(ns);
            let held = ns.min(NS_MAX);
            assert!(bucket_ns(index) <= held && held < bucket_ns(index + 1), "{ns} in {index}");
        }
        assert_eq!(bucket_ns(BUCKETS), NS_MAX + 1);
        for octave in NS_MIN_BITS..35 {
            assert_eq!(
                bucket(1 << octave),
                1 + (octave - NS_MIN_BITS) as usize * 4,
                "powers of two begin buckets"
            );
        }
    }

    #[test]
    fn quantiles_are_the_upper_bounds_of_buckets() {
        let mut counts = LatencyCounts::default();
        assert_eq!(counts.quantile_ns(0.5), None);
        (0..99).for_each(|_| counts.add(Delay::from_ns(1000)));
        counts.add(Delay::from_us(100));
        assert_eq!((counts.quantile_ns(0.5), counts.quantile_ns(0.99)), (Some(1024), Some(1024)));
        assert_eq!(counts.quantile_ns(1.0), Some(114_688));
        let then = counts.clone();
        counts.add(Delay::from_us(1));
        assert_eq!((counts.since(&then).count(), counts.since(&then).sum_ps), (1, 1_000_000));
    }

    #[test]
    fn a_label_is_what_its_bits_say() {
        for verb in Verb::ALL.into_iter().map(Some).chain([None]) {
            for (host, nsid) in [(IoHost(0), 1), (IoHost::OTHER, u32::MAX)] {
                let label = IoLabel { host, nsid, verb };
                assert_eq!(IoLabel::from_bits(label.bits()), Some(label));
            }
        }
        assert_eq!(IoLabel::from_bits(0), None, "the span of a host that labels nothing");
    }

    // Hosts choose their own names and namespaces: the ledger of a drive that is served for months must not grow.
    #[test]
    fn hosts_and_namespaces_beyond_the_limits_share_an_entry() {
        let ledger = IoLedger::new();
        for number in 0..1000u32 {
            let host = ledger.host(&format!("host-{number}"));
            ledger.read(IoLabel { host, nsid: number % 7, verb: Some(Verb::Read) }, 10);
        }
        assert_eq!(ledger.host("host-3").index(), 3);
        let figures = ledger.figures();
        assert_eq!((figures.hosts.len(), figures.rows.len() <= ROWS_MAX), (HOSTS_MAX, true));
        let sum = |of: fn(&IoRow) -> u64| figures.rows.iter().map(of).sum::<u64>();
        assert_eq!((sum(|row| row.reads.0), sum(|row| row.reads.1)), (1000, 10_000), "none is lost");
        let host = ledger.host("host-1");
        for nsid in 0..1000 {
            ledger.written(IoLabel { host, nsid, verb: Some(Verb::Write) }, 1, 0);
        }
        assert_eq!(ledger.figures().rows.len(), ROWS_MAX);
        assert!(ledger.figures().rows[0].writes.0 > 900);
    }

    // Stages that did not add up to the latency would leave time of an I/O unexplained.
    #[test]
    fn stages_sum_to_the_latency() {
        let (ledger, spans) = (IoLedger::new(), Spans::default());
        let label = IoLabel { host: ledger.host("a"), nsid: 1, verb: Some(Verb::Write) };
        let span = spans.open_labelled(Time(0), label.bits());
        spans.charge(span, Time(2_000_000), Stage::Doorbell);
        spans.charge(span, Time(7_000_000), Stage::Flash);
        ledger.close(&spans, span);
        ledger.close(&spans, span);
        let figures = ledger.figures();
        let stages = &figures.stages[Verb::Write as usize];
        let total = &figures.rows[1].latencies[Verb::Write as usize];
        assert_eq!((total.count(), total.sum_ps), (1, 7_000_000), "a closed span is booked once");
        assert_eq!(stages.iter().map(|stage| stage.sum_ps).sum::<u128>(), total.sum_ps);
        let unread = spans.open_labelled(Time(0), IoLabel::unread(label.host).bits());
        ledger.close(&spans, unread);
        assert_eq!(ledger.figures(), figures, "a command that was not read is none");
    }
}
