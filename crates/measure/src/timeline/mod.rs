//! `spans.json`: a run as tracks of time, for <https://ui.perfetto.dev> ("Open trace file"; nothing is uploaded) or
//! `chrome://tracing`.
//!
//! | file | what |
//! |---|---|
//! | `mod` | what is on which track |
//! | [`event`] | the events as JSON, written out as they come |
//!
//! The format is the Chrome trace event format, a JSON object: `traceEvents`, one event a line, then `displayTimeUnit`
//! and `otherData`. `ts` and `dur` are microseconds of the run's clock after the first I/O was issued, with six decimals
//! that are exact: picoseconds. (Perfetto shows nanoseconds, rounded down.)
//!
//! **Drives.** Of a run with several drives the processes of a drive's queues, link, cores and flash begin with its name, `a: flash:
//! dies`, and the I/Os have an argument `drive`. The host's processors are one process.
//!
//! **I/Os.** Each queue pair is a process of its own, `queue 1: NAME OF ITS JOB`. An I/O is an async slice there (`"b"` to
//! `"e"`, category `io`) from the moment it was due to its completion, named `read`, `write` or `trim`. Its `id` is its
//! number in the order of beginning, over all jobs from 0. Its arguments are `io` (that number), `job`, `worker`,
//! `queue`, `lba`, `blocks`, whether it is `measured`, and the `error` if it failed. In it stand its stages, one
//! after the other without a gap, as they were charged: host, doorbell, fetch, link, firmware, dram, flash, and
//! queueing for waiting on any of them. A charge of several waits shows as one: first all of its queueing, then the
//! rest. The stages of all measured I/Os sum to the summary's spans, to the picosecond.
//!
//! **Resources.** Each use is a complete slice (`"X"`) on the track of its resource: processors of the host, the two
//! directions of the link (by purpose; as long as they keep the link busy, without the propagation), the drive's cores
//! (by kind of work), its DRAM (what passes the write buffer; the latency of a look at the map keeps nobody else from
//! it, and is in the I/Os only), channels and dies. Slices of a track never overlap. `args.io` is the I/O, or `args.ios`
//! those for which it was used together: a read of several entries, a program of what several wrote. Neither stands with what is
//! of no I/O in particular: collection, interrupts' handling, admin commands. Slices of one I/O are linked by flow
//! arrows. What was still under way when the run ended is cut off there (dies), or stands in full as it was reserved.
//!
//! **What is covered.** The first so many I/Os (`--spans-ios`). When the next one begins, `otherData.complete_until_us`, the
//! tracks cease to be complete: from then on they show only what is for I/Os that are covered. `otherData.ios` says how
//! many are in the file, `measured_ios` how many of them are in the summary, and `complete` whether that is all.
//!
//! It is written while the run goes on, and holds 64 KiB and a bit for each I/O covered in memory, however long the run is. Uses come in the order in
//! which they were known; viewers sort them.

pub mod event;

use byteway_clock::{Clock, Resource, Time, Tracer, Trail, Usage};
use std::cell::RefCell;
use std::fmt;
use std::io::{self, Write};
use std::rc::Rc;

use byteway_workload::{Io, Kind};
use event::Events;

/// I/Os that a file covers unless the user says otherwise: some 50 MB, which a browser opens in seconds.
pub const IOS_DEFAULT: u32 = 10_000;

/// What there is to see: names and numbers of the tracks.
pub struct Stage {
    /// Processors of the host's workers. Each drive's driver has one more for its interrupts; they stand behind these, in the
    /// order of the drives.
    pub processors: u32,
    /// The drives: the resources of each are those of the clock's owner with its number.
    pub drives: Vec<StageDrive>,
    /// The workers' queue pairs, in their order.
    pub queues: Vec<Queue>,
}

/// A drive and its link.
pub struct StageDrive {
    /// What it is called, of several.
    pub name: Option<String>,
    /// Its cores.
    pub cores: u32,
    /// Its channels.
    pub channels: u32,
    /// The channel of each die.
    pub dies: Vec<u32>,
}

/// A worker's queue pair.
pub struct Queue {
    /// Which of the drives has it.
    pub drive: usize,
    /// Its identifier.
    pub qid: u16,
    /// The job.
    pub job: String,
    /// Which of the job's workers, from 0.
    pub worker: u32,
    /// The processor that it runs on.
    pub processor: u32,
}

/// An I/O that has ended.
pub struct Ended<'a> {
    /// Which of the queues it went through.
    pub queue: u32,
    /// What it was.
    pub io: Io,
    /// When it was due.
    pub due: Time,
    /// Whether the summary counts it.
    pub measured: bool,
    /// What it failed with.
    pub error: Option<&'a dyn fmt::Display>,
}

/// Where the tracks of each kind of resource stand: process, and the first thread.
#[derive(Clone, Copy, Default)]
struct Place {
    process: u32,
    thread: u32,
}

/// The queues' processes begin here, or behind the resources' if there are more of those.
const QUEUES_FROM: u32 = 100;

/// A viewer shows the resources below the queues, of which there are fewer.
const RESOURCES_BEHIND: u32 = 1 << 16;

struct Book {
    events: Events,
    /// By owner and kind.
    places: Vec<[Place; RESOURCES.len()]>,
    /// By number: process and thread.
    queues: Vec<(u32, u32)>,
    /// Of each queue what its I/Os have as arguments: job, worker, queue and drive, as JSON.
    jobs: Vec<String>,
    ios: u64,
    measured: u64,
}

/// What is shown, in this order; each kind is a process, of each drive but for the host's.
const RESOURCES: [(Resource, &str); 7] = [
    (Resource::HostCore, "host: processors"),
    (Resource::LinkDown, "link to device"),
    (Resource::LinkUp, "link to host"),
    (Resource::Core, "drive: cores"),
    (Resource::Dram, "drive: DRAM"),
    (Resource::Channel, "flash: channels"),
    (Resource::Die, "flash: dies"),
];

/// Takes a run down as events.
pub struct Timeline {
    ios_max: u32,
    book: RefCell<Book>,
}

impl Timeline {
    /// Writes to `out`, and covers the first `ios_max` I/Os.
    pub fn new(out: Box<dyn Write>, ios_max: u32) -> Rc<Timeline> {
        let book = Book {
            events: Events::new(out),
            places: Vec::new(),
            queues: Vec::new(),
            jobs: Vec::new(),
            ios: 0,
            measured: 0,
        };
        Rc::new(Timeline { ios_max, book: RefCell::new(book) })
    }

    /// I/Os that it covers, at most.
    pub fn ios_max(&self) -> u32 {
        self.ios_max
    }

    /// The run begins: names the tracks, and listens from now on.
    pub fn begin(self: &Rc<Self>, clock: &Clock, stage: &Stage) {
        self.book.borrow_mut().set(clock.now(), stage);
        clock.trace(self.clone(), self.ios_max);
    }

    /// An I/O has ended, which left this trail.
    pub fn ended(&self, ended: &Ended<'_>, trail: &Trail) {
        self.book.borrow_mut().io(ended, trail);
    }

    /// The run is over: nothing more is taken down.
    pub fn end(&self, clock: &Clock) {
        let cut = clock.end_trace();
        let mut book = self.book.borrow_mut();
        let (ios, measured) = (book.ios, book.measured);
        book.events.end(ios, measured, cut);
    }

    /// Whether everything could be written.
    ///
    /// # Errors
    /// What went wrong first; nothing was written from then on.
    pub fn outcome(&self) -> io::Result<()> {
        self.book.borrow_mut().events.outcome()
    }
}

impl StageDrive {
    /// What one of its tracks is called.
    fn called(&self, track: &str) -> String {
        match &self.name {
            Some(name) => format!("{name}: {track}"),
            None => track.to_owned(),
        }
    }
}

/// Names of the host's processors.
fn processors(stage: &Stage) -> Vec<String> {
    let workers = (0..stage.processors).map(|index| format!("processor {index}"));
    let drivers = stage.drives.iter().map(|drive| match &drive.name {
        Some(name) => format!("driver of {name}: interrupts"),
        None => "driver: interrupts".to_owned(),
    });
    workers.chain(drivers).collect()
}

impl Tracer for Timeline {
    fn note(&self, usage: &Usage<'_>, ios: &[u32]) {
        let mut book = self.book.borrow_mut();
        let track = usage.track;
        let Place { process, thread } = book.places[usize::from(track.owner.0)][track.resource as usize];
        book.events.usage(process, thread + usage.track.index, usage, ios);
    }
}

impl Book {
    /// Names all tracks.
    fn set(&mut self, origin: Time, stage: &Stage) {
        self.events.set_origin(origin);
        self.places = vec![Default::default(); stage.drives.len().max(1)];
        let (mut process, mut thread) = (1, 1);
        for (owner, drive) in stage.drives.iter().enumerate() {
            // The host's resources have the first owner.
            let own = RESOURCES.iter().filter(|(resource, _)| owner == 0 || *resource != Resource::HostCore);
            for (resource, name) in own {
                let is_hosts = *resource == Resource::HostCore;
                let names: Vec<String> = match resource {
                    Resource::HostCore => processors(stage),
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
                self.places[owner][*resource as usize] = Place { process, thread };
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
        for (number, queue) in (0..).zip(&stage.queues) {
            let process = first + number;
            let drive = &stage.drives[queue.drive];
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

    fn io(&mut self, ended: &Ended<'_>, trail: &Trail) {
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
