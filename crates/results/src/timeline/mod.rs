//! The timeline `spans.json`: a run as tracks over time, for <https://ui.perfetto.dev> ("Open trace file";
//! nothing is uploaded) or `chrome://tracing`.
//!
//! | file | what |
//! |---|---|
//! | `mod` | the assignment to tracks |
//! | [`event`] | the events as JSON, written as they occur |
//!
//! The format is the Chrome trace event format, a JSON object: `traceEvents`, one event a line, then `displayTimeUnit`
//! and `otherData`. `ts` and `dur` are microseconds of the run's clock after the first I/O was issued, with six decimals
//! that are exact: picoseconds. (Perfetto shows nanoseconds, rounded down.)
//!
//! **Drives.** Of a run with several drives the processes of a drive's queues, link, cores and flash begin with its name, `a: flash:
//! dies`, and the I/Os have an argument `drive`. The host's processors are one process.
//!
//! **I/Os.** Each queue pair is a process, `queue 1: NAME OF ITS JOB`. An I/O is an async slice in it (`"b"`
//! to `"e"`, category `io`) from its due time to its completion, named `read`, `write` or `trim`. Its `id` is
//! its sequence number over all jobs, from 0. Its arguments are `io` (that number), `job`, `worker`, `queue`,
//! `lba`, `blocks`, whether it is `measured`, and the `error` if it failed. It contains its stages, in
//! sequence without gaps, as they were charged: host, doorbell, fetch, link, firmware, dram, flash, and
//! queueing for waiting on any of them. A charge that includes several waits shows as one: first all of its
//! queueing, then the rest. The stages of all measured I/Os sum exactly to the summary's spans.
//!
//! **Resources.** Each use is a complete slice (`"X"`) on the track of its resource: processors of the host,
//! the two directions of the link (by purpose; while the link is busy, without the propagation), the drive's
//! cores (by kind of work), its DRAM (transfers through the write buffer; the latency of a map access blocks
//! no other user, and appears in the I/Os only), channels and dies. Slices of a track never overlap.
//! `args.io` is the I/O, or `args.ios` the I/Os that share the use: a fetch of several entries, a program of
//! several writes. Uses that belong to no I/O have neither: garbage collection, interrupt handling, admin
//! commands. Slices of one I/O are linked by flow arrows. Uses in progress at the end of the run are cut off
//! there (dies), or shown in full as reserved.
//!
//! **Coverage.** The first I/Os of the run, up to `--spans-ios`. The tracks are complete until the next one
//! begins, at `otherData.complete_until_us`; afterwards they show only uses for covered I/Os. `otherData.ios`
//! is the number of I/Os in the file, `measured_ios` the number of these in the summary, and `complete` tells
//! whether the file covers the whole run.
//!
//! The file is written during the run, and takes 64 KiB and one bit per covered I/O of memory, for runs of
//! any length. Uses are written in the order in which they became known; viewers sort them.

pub mod event;

use byteway_clock::{Clock, Resource, SpanTrail, Time, Tracer, Usage};
use std::cell::RefCell;
use std::fmt;
use std::io::{self, Write};
use std::rc::Rc;

use byteway_workload::{Io, Kind};
use event::Events;

/// Default number of covered I/Os: some 50 MB, which a browser opens in seconds.
pub const IOS_DEFAULT: u32 = 10_000;

/// The tracks: names and numbers of the resources.
pub struct TrackLayout {
    /// Processors of the host's workers. Each drive's driver has one more for its interrupts; these follow,
    /// in the order of the drives.
    pub processors: u32,
    /// The drives: the resources of each have the clock's owner with its index.
    pub drives: Vec<TrackDrive>,
    /// Queue pairs of the workers, in order.
    pub queues: Vec<Queue>,
}

/// A drive and its link.
pub struct TrackDrive {
    /// Name of the drive, of several.
    pub name: Option<String>,
    /// Number of cores.
    pub cores: u32,
    /// Number of channels.
    pub channels: u32,
    /// Channel of each die.
    pub dies: Vec<u32>,
}

/// A worker's queue pair.
pub struct Queue {
    /// Index of the drive.
    pub drive: usize,
    /// Queue identifier.
    pub qid: u16,
    /// Name of the job.
    pub job: String,
    /// Index of the worker within the job, from 0.
    pub worker: u32,
    /// Index of the processor that it runs on.
    pub processor: u32,
}

/// A completed I/O.
pub struct Ended<'a> {
    /// Index of its queue.
    pub queue: u32,
    /// Operation.
    pub io: Io,
    /// Due time.
    pub due: Time,
    /// Whether it counts in the summary.
    pub measured: bool,
    /// Error, if the I/O failed.
    pub error: Option<&'a dyn fmt::Display>,
}

/// The tracks of a kind of resource: process, and first thread.
#[derive(Clone, Copy, Default)]
struct TrackIds {
    process: u32,
    thread: u32,
}

/// First process number of the queues, unless there are more resources than this.
const QUEUES_FROM: u32 = 100;

/// Sort order offset of resources: viewers show them below the queues.
const RESOURCES_BEHIND: u32 = 1 << 16;

struct Book {
    events: Events,
    /// Tracks by owner and kind.
    track_ids: Vec<[TrackIds; RESOURCES.len()]>,
    /// Process and thread by queue index.
    queues: Vec<(u32, u32)>,
    /// Arguments of the I/Os (job, worker, queue and drive) as JSON, by queue index.
    jobs: Vec<String>,
    ios: u64,
    measured: u64,
}

/// The resources shown, in order; each kind is a process for each drive, the host's once.
const RESOURCES: [(Resource, &str); 7] = [
    (Resource::HostCore, "host: processors"),
    (Resource::LinkDown, "link to device"),
    (Resource::LinkUp, "link to host"),
    (Resource::Core, "drive: cores"),
    (Resource::Dram, "drive: DRAM"),
    (Resource::Channel, "flash: channels"),
    (Resource::Die, "flash: dies"),
];

/// Records a run as events.
pub struct Timeline {
    ios_max: u32,
    book: RefCell<Book>,
}

impl Timeline {
    /// Writes to `out`; covers the first `ios_max` I/Os.
    pub fn new(out: Box<dyn Write>, ios_max: u32) -> Rc<Timeline> {
        let book = Book {
            events: Events::new(out),
            track_ids: Vec::new(),
            queues: Vec::new(),
            jobs: Vec::new(),
            ios: 0,
            measured: 0,
        };
        Rc::new(Timeline { ios_max, book: RefCell::new(book) })
    }

    /// Number of I/Os covered, at most.
    pub fn ios_max(&self) -> u32 {
        self.ios_max
    }

    /// Begins the run: names the tracks, and registers with the clock.
    pub fn begin(self: &Rc<Self>, clock: &Clock, layout: &TrackLayout) {
        self.book.borrow_mut().set(clock.now(), layout);
        clock.trace(self.clone(), self.ios_max);
    }

    /// Records a completed I/O, with its trail of stages.
    pub fn ended(&self, ended: &Ended<'_>, trail: &SpanTrail) {
        self.book.borrow_mut().io(ended, trail);
    }

    /// Ends the run: records nothing further.
    pub fn end(&self, clock: &Clock) {
        let cut = clock.end_trace();
        let mut book = self.book.borrow_mut();
        let (ios, measured) = (book.ios, book.measured);
        book.events.end(ios, measured, cut);
    }

    /// Whether everything could be written.
    ///
    /// # Errors
    /// The first failure; nothing was written after it.
    pub fn outcome(&self) -> io::Result<()> {
        self.book.borrow_mut().events.outcome()
    }
}

impl TrackDrive {
    /// The name of one of its tracks.
    fn called(&self, track: &str) -> String {
        match &self.name {
            Some(name) => format!("{name}: {track}"),
            None => track.to_owned(),
        }
    }
}

/// Names of the host's processors.
fn processors(layout: &TrackLayout) -> Vec<String> {
    let workers = (0..layout.processors).map(|index| format!("processor {index}"));
    let drivers = layout.drives.iter().map(|drive| match &drive.name {
        Some(name) => format!("driver of {name}: interrupts"),
        None => "driver: interrupts".to_owned(),
    });
    workers.chain(drivers).collect()
}

impl Tracer for Timeline {
    fn note(&self, usage: &Usage<'_>, ios: &[u32]) {
        let mut book = self.book.borrow_mut();
        let track = usage.track;
        let TrackIds { process, thread } =
            book.track_ids[usize::from(track.owner.0)][track.resource as usize];
        book.events.usage(process, thread + usage.track.index, usage, ios);
    }
}

impl Book {
    /// Names all tracks.
    fn set(&mut self, origin: Time, layout: &TrackLayout) {
        self.events.set_origin(origin);
        self.track_ids = vec![Default::default(); layout.drives.len().max(1)];
        let (mut process, mut thread) = (1, 1);
        for (owner, drive) in layout.drives.iter().enumerate() {
            // The host's resources belong to the first owner.
            let own = RESOURCES.iter().filter(|(resource, _)| owner == 0 || *resource != Resource::HostCore);
            for (resource, name) in own {
                let is_hosts = *resource == Resource::HostCore;
                let names: Vec<String> = match resource {
                    Resource::HostCore => processors(layout),
                    Resource::LinkDown | Resource::LinkUp => vec![(*name).to_owned()],
                    Resource::Core => (0..drive.cores).map(|index| format!("core {index}")).collect(),
                    Resource::Dram => vec!["DRAM".to_owned()],
                    Resource::Channel => {
                        (0..drive.channels).map(|index| format!("channel {index}")).collect()
                    }
                    Resource::Die => (0..)
                        .zip(&drive.dies)
                        .map(|(index, channel): (u32, &u32)| format!("die {index} (channel {channel})"))
                        .collect(),
                };
                self.track_ids[owner][*resource as usize] = TrackIds { process, thread };
                let shown = if is_hosts { (*name).to_owned() } else { drive.called(name) };
                self.events.name_process(process, &shown, RESOURCES_BEHIND + process);
                for name in names {
                    self.events.name_thread(process, thread, &name);
                    thread += 1;
                }
                process += 1;
            }
        }
        let first = process.max(QUEUES_FROM);
        for (number, queue) in (0..).zip(&layout.queues) {
            let process = first + number;
            let drive = &layout.drives[queue.drive];
            let name = drive.called(&format!("queue {}: {}", queue.qid, queue.job));
            self.events.name_process(process, &name, number);
            let name = format!("worker {} on processor {}", queue.worker, queue.processor);
            self.events.name_thread(process, thread, &name);
            self.queues.push((process, thread));
            let job = event::quoted(&queue.job);
            let drive = drive.name.as_ref().map(|name| format!(",\"drive\":{}", event::quoted(name)));
            self.jobs.push(format!(
                "\"job\":{job},\"worker\":{},\"queue\":{}{}",
                queue.worker,
                queue.qid,
                drive.unwrap_or_default()
            ));
            thread += 1;
        }
    }

    fn io(&mut self, ended: &Ended<'_>, trail: &SpanTrail) {
        let Some((process, thread)) = self.queues.get(ended.queue as usize).copied() else { return };
        let queue = &self.jobs[ended.queue as usize];
        let Io { lba, blocks, .. } = ended.io;
        let what = match ended.io.kind {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Trim => "trim",
        };
        let error = match ended.error {
            Some(error) => format!(",\"error\":{}", event::quoted(&error.to_string())),
            None => String::new(),
        };
        let arguments = format!(
            "\"io\":{},{queue},\"lba\":{lba},\"blocks\":{blocks},\"measured\":{}{error}",
            trail.io, ended.measured
        );
        let begin = trail.segments.first().map_or(ended.due, |segment| segment.begin).min(ended.due);
        let end = trail.segments.last().map_or(begin, |segment| segment.end);
        self.events.open(process, thread, trail.io, what, begin, &arguments);
        self.events.stages(process, thread, trail, ended.due);
        self.events.close(process, thread, trail.io, what, end);
        self.ios += 1;
        self.measured += u64::from(ended.measured);
    }
}
