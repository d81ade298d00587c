//! Spans: the stage to which each picosecond of an I/O is charged.
//!
//! The holder of an I/O calls [`Spans::charge`] after each wait, which charges the time since the last charge
//! to one stage. The stages of an I/O therefore sum to its latency. What it waited for makes up the stage
//! [`Stage::Queueing`], and the [`Awaited`]s of an I/O sum to that.

use crate::time::{Delay, Time};
use std::cell::RefCell;

/// The resource that time is charged to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    /// Host software: building, submitting, reaping.
    #[default]
    Host,
    /// From the doorbell write to the start of the fetch, including waits for arbitration, a command slot and
    /// a completion queue slot.
    Doorbell,
    /// Fetching the submission queue entry; for a commit record, from its arrival until the drive reads it.
    Fetch,
    /// Data, PRP and SGL lists, and completions on the link.
    Link,
    /// The drive's processor cores.
    Firmware,
    /// The drive's DRAM.
    Dram,
    /// Sensing, programming, erasing, and the transfer on the channel.
    Flash,
    /// The network between host and target: both adapters and the wire.
    Fabric,
    /// Target software: from a command's arrival to its submission to the drive, and back.
    Target,
    /// Waiting for any of these resources while others use it; [`Awaited`] tells for which.
    Queueing,
}

impl Stage {
    /// All stages, in report order.
    pub const ALL: [Stage; 10] = [
        Stage::Host,
        Stage::Doorbell,
        Stage::Fetch,
        Stage::Link,
        Stage::Firmware,
        Stage::Dram,
        Stage::Flash,
        Stage::Fabric,
        Stage::Target,
        Stage::Queueing,
    ];

    /// Whether only I/Os over a network spend time in this stage.
    pub fn is_remote(self) -> bool {
        matches!(self, Stage::Fabric | Stage::Target)
    }

    /// Name of the stage in reports.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Host => "host",
            Stage::Doorbell => "doorbell",
            Stage::Fetch => "fetch",
            Stage::Link => "link",
            Stage::Firmware => "firmware",
            Stage::Dram => "dram",
            Stage::Flash => "flash",
            Stage::Fabric => "fabric",
            Stage::Target => "target",
            Stage::Queueing => "queueing",
        }
    }
}

/// What an I/O waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Awaited {
    /// A place among the outstanding I/Os of its job: in an open loop, from when it is due.
    Depth,
    /// An entry of a queue, a credit or a buffer of a connection.
    QueueEntry,
    /// A core of the host.
    HostCore,
    /// The network's adapters and wire.
    Network,
    /// A core of the target.
    TargetCore,
    /// The PCIe link, a bridge or a switch.
    Link,
    /// A core of the drive.
    Core,
    /// The drive's DRAM.
    Dram,
    /// A command, a lock or a block that another I/O holds.
    Other,
    /// The translation layer, which takes one call of a caller at a time, or has one lock.
    Entry,
    /// A frame of the map's cache, until a changed one is on flash.
    MapFrame,
    /// Room in the write buffer, in proportion to what the dies do meanwhile: serve hosts (all of it where flash is
    /// across a link, since nothing is known of its dies),
    Buffer,
    /// or collect garbage, level wear and refresh, erases included.
    BufferCollection,
    /// A flash channel, or the link to flash that is elsewhere.
    Channel,
    /// A die that reads for hosts,
    DieReads,
    /// that programs for hosts,
    DiePrograms,
    /// that erases,
    DieErases,
    /// or that reads and programs what collection, wear levelling or refresh moves.
    DieCollection,
    /// A rest of all dies, by which a hot drive does less.
    Throttle,
}

impl Awaited {
    /// All waits, in report order.
    pub const ALL: [Awaited; 19] = [
        Awaited::Depth,
        Awaited::QueueEntry,
        Awaited::HostCore,
        Awaited::Network,
        Awaited::TargetCore,
        Awaited::Link,
        Awaited::Core,
        Awaited::Dram,
        Awaited::Other,
        Awaited::Entry,
        Awaited::MapFrame,
        Awaited::Buffer,
        Awaited::BufferCollection,
        Awaited::Channel,
        Awaited::DieReads,
        Awaited::DiePrograms,
        Awaited::DieErases,
        Awaited::DieCollection,
        Awaited::Throttle,
    ];

    /// Name of the wait in reports.
    pub fn name(self) -> &'static str {
        match self {
            Awaited::Depth => "queue depth",
            Awaited::QueueEntry => "queue entry",
            Awaited::HostCore => "host core",
            Awaited::Network => "network",
            Awaited::TargetCore => "target core",
            Awaited::Link => "link",
            Awaited::Core => "core",
            Awaited::Dram => "dram",
            Awaited::Other => "other command",
            Awaited::Entry => "firmware entry",
            Awaited::MapFrame => "map cache",
            Awaited::Buffer => "buffer",
            Awaited::BufferCollection => "buffer collection",
            Awaited::Channel => "channel",
            Awaited::DieReads => "die reads",
            Awaited::DiePrograms => "die programs",
            Awaited::DieErases => "die erases",
            Awaited::DieCollection => "die collection",
            Awaited::Throttle => "throttle",
        }
    }

    /// What is waited for where a stage is split into waiting and service.
    const fn of(stage: Stage) -> Awaited {
        match stage {
            Stage::Host => Awaited::HostCore,
            Stage::Fetch | Stage::Link => Awaited::Link,
            Stage::Firmware => Awaited::Core,
            Stage::Dram => Awaited::Dram,
            Stage::Flash => Awaited::Channel,
            Stage::Fabric => Awaited::Network,
            Stage::Target => Awaited::TargetCore,
            Stage::Doorbell | Stage::Queueing => Awaited::Other,
        }
    }
}

/// Time by [`Awaited`].
pub type Waits = [Delay; Awaited::ALL.len()];

/// Identifies the span of an open I/O. [`SpanId::NONE`] and ids of closed spans are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpanId {
    index: u32,
    /// Sequence number of the I/O. The holder of an aborted I/O's id must not charge the next I/O in the same
    /// entry.
    number: u32,
}

impl SpanId {
    /// No span: charges are ignored.
    pub const NONE: SpanId = SpanId { index: u32::MAX, number: 0 };

    /// I/O sequence number, from 0; None for [`SpanId::NONE`].
    pub fn number(self) -> Option<u32> {
        (self != SpanId::NONE).then_some(self.number)
    }
}

/// Times of one I/O by stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanRecord {
    /// When the span opened.
    pub begin: Time,
    /// When the span was last charged.
    pub last: Time,
    /// Time by [`Stage`].
    pub stages: [Delay; Stage::ALL.len()],
    /// Time of [`Stage::Queueing`] by [`Awaited`].
    pub waits: Waits,
}

impl SpanRecord {
    /// Time charged to `stage`.
    pub fn stage(&self, stage: Stage) -> Delay {
        self.stages[stage as usize]
    }

    /// Joins the spans of two consecutive commands, which are one operation. The time between them is charged to no stage.
    pub fn joined(self, next: SpanRecord) -> SpanRecord {
        let (mut stages, mut waits) = (self.stages, self.waits);
        stages.iter_mut().zip(next.stages).for_each(|(own, other)| *own += other);
        waits.iter_mut().zip(next.waits).for_each(|(own, other)| *own += other);
        SpanRecord { begin: self.begin, last: next.last, stages, waits }
    }
}

/// A segment of an I/O's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The stage that it is charged to.
    pub stage: Stage,
    /// In [`Stage::Queueing`], what it waits for.
    pub wait: Option<Awaited>,
    /// Start of the segment.
    pub begin: Time,
    /// End of the segment.
    pub end: Time,
}

/// Segments of an I/O's time, without a gap, from its start to its last charge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanTrail {
    /// I/O sequence number.
    pub io: u32,
    /// The segments, none of them empty.
    pub segments: Vec<Segment>,
}

impl SpanTrail {
    /// Appends a charge up to `end`. The waiting parts are placed first; several services in one charge are
    /// merged.
    #[cold]
    fn charge(&mut self, mut begin: Time, end: Time, waits: &[(Awaited, Delay)], stage: Stage) {
        for (wait, time) in waits {
            self.add(Stage::Queueing, Some(*wait), begin, begin + *time);
            begin = begin + *time;
        }
        self.add(stage, (stage == Stage::Queueing).then_some(Awaited::Other), begin, end);
    }

    fn add(&mut self, stage: Stage, wait: Option<Awaited>, begin: Time, end: Time) {
        if begin < end {
            self.segments.push(Segment { stage, wait, begin, end });
        }
    }
}

struct Entry {
    record: SpanRecord,
    /// Label given by the opener; 0 for none.
    label: u64,
    /// Number of the I/O that owns this entry.
    number: u32,
    is_open: bool,
    /// Whether the sequence of charges is recorded.
    is_recorded: bool,
    trail: SpanTrail,
}

#[derive(Default)]
struct Table {
    entries: Vec<Entry>,
    free: Vec<u32>,
    opened: u32,
    /// Trails of I/Os with lower numbers are recorded.
    recorded: u32,
    closed: Option<SpanTrail>,
    spare: SpanTrail,
}

impl Table {
    #[inline]
    fn entry(&mut self, id: SpanId) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(id.index as usize)?;
        (entry.number == id.number && entry.is_open).then_some(entry)
    }
}

/// Spans of all open I/Os. Entries are reused.
#[derive(Default)]
pub struct Spans(RefCell<Table>);

impl Spans {
    /// Records the trails of I/Os with numbers below `ios`.
    pub fn record(&self, ios: u32) {
        self.0.borrow_mut().recorded = ios;
    }

    /// Opens a span at `now`.
    pub fn open(&self, now: Time) -> SpanId {
        self.open_labelled(now, 0)
    }

    /// Opens a span that began at `now`, with a label that has a meaning for the opener only; 0 for none.
    pub fn open_labelled(&self, now: Time, label: u64) -> SpanId {
        let mut table = self.0.borrow_mut();
        let record = SpanRecord { begin: now, last: now, ..Default::default() };
        let number = table.opened;
        table.opened = number.wrapping_add(1);
        let is_recorded = number < table.recorded;
        if !is_recorded {
            table.recorded = 0; // the number may wrap, and later I/Os must not match
        }
        let index = match table.free.pop() {
            Some(index) => {
                let entry = &mut table.entries[index as usize];
                (entry.record, entry.number, entry.is_open) = (record, number, true);
                entry.label = label;
                entry.is_recorded = is_recorded;
                index
            }
            None => {
                let trail = SpanTrail::default();
                table.entries.push(Entry { record, label, number, is_open: true, is_recorded, trail });
                (table.entries.len() - 1) as u32
            }
        };
        SpanId { index, number }
    }

    /// Charges the time since the last charge to `stage`; in [`Stage::Queueing`], to [`Awaited::Other`].
    #[inline]
    pub fn charge(&self, id: SpanId, now: Time, stage: Stage) {
        self.charge_waits(id, now, [], stage);
    }

    /// Charges the time since the last charge to waiting.
    #[inline]
    pub fn wait(&self, id: SpanId, now: Time, awaited: Awaited) {
        self.charge_waits(id, now, [(awaited, Delay(u64::MAX))], Stage::Queueing);
    }

    /// Like [`charge`](Spans::charge), but up to `queued` of the time goes to [`Stage::Queueing`]: it waited
    /// for the resource of this stage.
    #[inline]
    pub fn charge_split(&self, id: SpanId, now: Time, queued: Delay, stage: Stage) {
        self.charge_waits(id, now, [(Awaited::of(stage), queued)], stage);
    }

    /// Like [`charge`](Spans::charge), but up to these times go to [`Stage::Queueing`], in this order.
    #[inline]
    pub fn charge_waits<const WAITS: usize>(
        &self,
        id: SpanId,
        now: Time,
        mut waits: [(Awaited, Delay); WAITS],
        stage: Stage,
    ) {
        let mut table = self.0.borrow_mut();
        let Some(entry) = table.entry(id) else { return };
        let record = &mut entry.record;
        let passed = now.since(record.last);
        // What an I/O has waited and spent is no more than its latency, so sums of it don't overflow.
        let mut left = passed.0;
        for (wait, time) in &mut waits {
            time.0 = left.min(time.0);
            record.waits[*wait as usize].0 += time.0;
            left -= time.0;
        }
        if WAITS > 0 {
            record.stages[Stage::Queueing as usize].0 += passed.0 - left;
        }
        record.stages[stage as usize].0 += left;
        if stage == Stage::Queueing {
            record.waits[Awaited::Other as usize].0 += left;
        }
        if entry.is_recorded {
            entry.trail.charge(record.last, record.last + passed, &waits, stage);
        }
        record.last = now.max(record.last);
    }

    /// Number of open spans.
    pub fn open_count(&self) -> usize {
        let table = self.0.borrow();
        table.entries.len() - table.free.len()
    }

    /// Label of an open span; 0 for any other.
    pub fn label(&self, id: SpanId) -> u64 {
        self.0.borrow_mut().entry(id).map_or(0, |entry| entry.label)
    }

    /// Changes the label of an open span.
    pub fn set_label(&self, id: SpanId, label: u64) {
        if let Some(entry) = self.0.borrow_mut().entry(id) {
            entry.label = label;
        }
    }

    /// Closes the span and returns its record; an empty record for [`SpanId::NONE`].
    pub fn close(&self, id: SpanId) -> SpanRecord {
        let mut record = SpanRecord::default();
        self.close_into(id, &mut record);
        record
    }

    /// Like [`close`](Spans::close), into a record that is kept: it is large.
    pub fn close_into(&self, id: SpanId, record: &mut SpanRecord) {
        let mut table = self.0.borrow_mut();
        let Some(entry) = table.entry(id) else {
            *record = SpanRecord::default();
            return;
        };
        entry.is_open = false;
        *record = entry.record;
        if entry.is_recorded {
            let mut trail = std::mem::take(&mut entry.trail);
            trail.io = id.number;
            table.entries[id.index as usize].trail = std::mem::take(&mut table.spare);
            table.closed = Some(trail);
        }
        table.free.push(id.index);
    }

    /// Takes the trail of the I/O that was closed last, if it was recorded. Return it with
    /// [`Spans::recycle`].
    pub fn take_trail(&self) -> Option<SpanTrail> {
        self.0.borrow_mut().closed.take()
    }

    /// Takes back a trail, to reuse its memory.
    pub fn recycle(&self, mut trail: SpanTrail) {
        trail.segments.clear();
        self.0.borrow_mut().spare = trail;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // An entry is reused: a span must not have the label of the one before it, nor a closed span that of its successor.
    #[test]
    fn a_label_belongs_to_one_span() {
        let spans = Spans::default();
        let first = spans.open_labelled(Time(1), 7);
        spans.set_label(first, 8);
        assert_eq!((spans.label(first), spans.label(SpanId::NONE)), (8, 0));
        spans.close(first);
        let second = spans.open(Time(2));
        assert_eq!((spans.label(first), spans.label(second)), (0, 0));
        spans.set_label(first, 9);
        assert_eq!(spans.label(second), 0);
    }

    // A wait that is not told from the others, or longer than what passed, would blame the wrong resource.
    #[test]
    fn waits_sum_to_the_time_in_queues() {
        let spans = Spans::default();
        spans.record(1);
        let span = spans.open(Time(0));
        spans.wait(span, Time(7), Awaited::Buffer);
        let die =
            [(Awaited::DieErases, Delay(20)), (Awaited::Channel, Delay(5)), (Awaited::DieReads, Delay(90))];
        spans.charge_waits(span, Time(100), die, Stage::Flash);
        spans.charge_split(span, Time(110), Delay(4), Stage::Firmware);
        let record = spans.close(span);
        let waits = Awaited::ALL.map(|wait| (wait, record.waits[wait as usize]));
        let waits: Vec<_> = waits.into_iter().filter(|(_, time)| *time > Delay::ZERO).collect();
        let expected = [
            (Awaited::Core, Delay(4)),
            (Awaited::Buffer, Delay(7)),
            (Awaited::Channel, Delay(5)),
            (Awaited::DieReads, Delay(68)),
            (Awaited::DieErases, Delay(20)),
        ];
        assert_eq!(waits, expected);
        assert_eq!(record.stage(Stage::Queueing), Delay(104));
        assert_eq!((record.stage(Stage::Flash), record.stage(Stage::Firmware)), (Delay::ZERO, Delay(6)));
        let trail = spans.take_trail().expect("it is recorded");
        let drawn: Vec<_> =
            trail.segments.iter().map(|part| (part.wait, part.end.since(part.begin))).collect();
        let expected = [
            (Some(Awaited::Buffer), Delay(7)),
            (Some(Awaited::DieErases), Delay(20)),
            (Some(Awaited::Channel), Delay(5)),
            (Some(Awaited::DieReads), Delay(68)),
            (Some(Awaited::Core), Delay(4)),
            (None, Delay(6)),
        ];
        assert_eq!(drawn, expected);
        assert!(Awaited::ALL.into_iter().enumerate().all(|(place, wait)| wait as usize == place));
    }

    // A segment that is charged and not drawn, or drawn twice, would make the chart differ from the sums.
    #[test]
    fn a_trail_is_what_was_charged() {
        let spans = Spans::default();
        spans.record(2);
        let first = spans.open(Time(10));
        let second = spans.open(Time(12));
        let third = spans.open(Time(13));
        spans.charge(first, Time(15), Stage::Host);
        spans.charge_split(first, Time(25), Delay(4), Stage::Flash);
        spans.charge_split(first, Time(27), Delay(4), Stage::Link); // all of it was waiting
        spans.charge(first, Time(20), Stage::Dram); // before the last: nothing
        let record = spans.close(first);
        let trail = spans.take_trail().expect("the first two are recorded");
        let segment = |stage, wait, begin, end| Segment { stage, wait, begin: Time(begin), end: Time(end) };
        let expected = [
            segment(Stage::Host, None, 10, 15),
            segment(Stage::Queueing, Some(Awaited::Channel), 15, 19),
            segment(Stage::Flash, None, 19, 25),
            segment(Stage::Queueing, Some(Awaited::Link), 25, 27),
        ];
        assert_eq!((trail.io, &trail.segments[..]), (0, &expected[..]));
        for stage in Stage::ALL {
            let of = trail.segments.iter().filter(|segment| segment.stage == stage);
            assert_eq!(
                of.map(|segment| segment.end.since(segment.begin)).sum::<Delay>(),
                record.stage(stage)
            );
        }
        assert_eq!(spans.take_trail(), None);
        spans.recycle(trail);
        spans.charge(third, Time(30), Stage::Host);
        spans.close(third);
        assert_eq!(spans.take_trail(), None, "it is not recorded");
        spans.close(second);
        assert_eq!(spans.take_trail(), Some(SpanTrail { io: 1, segments: Vec::new() }));
        // Its entry is another's now, which is not recorded.
        let fourth = spans.open(Time(40));
        spans.charge(fourth, Time(41), Stage::Host);
        spans.close(fourth);
        assert_eq!(spans.take_trail(), None);
    }
}
