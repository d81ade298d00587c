//! Tracing: each use of a resource, from when to when, and for which I/Os.
//!
//! A resource reports each use without knowing for which I/O it is. A task declares which I/Os it works for
//! ([`Clock::works_for`](crate::Clock::works_for)), and everything that it starts meanwhile is theirs. Work
//! that continues without the task, such as a flash operation, keeps them
//! ([`Clock::hold_ios`](crate::Clock::hold_ios)). Untraced, all this costs one check of a flag.
//!
//! Tracing never changes the run: it waits for nothing and takes no time.

mod clock;

use crate::task::TaskId;
use crate::time::Time;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A kind of resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Host processor cores.
    HostCore,
    /// The link's direction to the device.
    LinkDown,
    /// The link's direction to the host.
    LinkUp,
    /// Processor cores of the drive.
    Core,
    /// The drive's DRAM.
    Dram,
    /// Channels of the flash array.
    Channel,
    /// Dies of the flash array.
    Die,
}

/// Owner of a resource when a run has several drives. The builder of the drives assigns the numbers
/// ([`Clock::owned_by`](crate::Clock::owned_by)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner(pub u16);

/// One resource of its kind. It serves one use at a time, so its uses never overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Track {
    /// Owner of the resource, filled in by its clock.
    pub owner: Owner,
    /// The kind.
    pub resource: Resource,
    /// Index within the kind, from 0.
    pub index: u32,
}

impl Track {
    /// Track `index` of a kind, of the default owner.
    pub const fn new(resource: Resource, index: u32) -> Track {
        Track { owner: Owner(0), resource, index }
    }
}

/// A detail of a use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// A number.
    Number(u64),
    /// A word.
    Word(&'static str),
}

/// A use of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage<'a> {
    /// The resource.
    pub track: Track,
    /// Name of the work.
    pub what: &'static str,
    /// Begin of the use.
    pub begin: Time,
    /// End of the use. In the future if the resource is reserved ahead.
    pub end: Time,
    /// Further details, by name.
    pub details: &'a [(&'static str, Detail)],
}

/// Receives the uses of resources. They arrive in the order in which they become known, not in that of their
/// start. Uses of one track do not overlap.
pub trait Tracer {
    /// A resource was used for these I/Os; `ios` is empty if for no I/O in particular. Must not call the
    /// clock.
    fn note(&self, usage: &Usage<'_>, ios: &[u32]);
}

/// I/Os kept for work that continues without a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldIos(u32);

impl HeldIos {
    /// No I/Os.
    pub const NONE: HeldIos = HeldIos(u32::MAX);
}

/// State of tracing; None if untraced.
#[derive(Default)]
pub(crate) struct Tracing {
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    tracer: Option<Rc<dyn Tracer>>,
    /// I/Os from this number on are not traced.
    ios_max: u32,
    /// When the first untraced I/O began: from then on only uses for earlier ones are traced.
    cut: Option<Time>,
    /// Traced I/Os in flight.
    in_flight: u64,
    /// Tasks, each with the I/Os that it works for, by task slot.
    tasks: Vec<Option<(TaskId, Vec<u32>)>>,
    /// The same of calls.
    calls: BTreeMap<TaskId, Vec<u32>>,
    held: Vec<Vec<u32>>,
    free: Vec<u32>,
    /// Scratch: the traced ones among a task's I/Os.
    traced: Vec<u32>,
}

impl State {
    fn of(&mut self, task: TaskId) -> Option<&mut Vec<u32>> {
        if task == TaskId::NONE {
            return None;
        }
        if task.handler().is_some() {
            return Some(self.calls.entry(task).or_default());
        }
        let index = task.index as usize;
        if self.tasks.len() <= index {
            self.tasks.resize_with(index + 1, || None);
        }
        let (of, ios) = self.tasks[index].get_or_insert_with(|| (task, Vec::new()));
        if *of != task {
            *of = task;
            ios.clear(); // of an earlier task in this slot
        }
        Some(ios)
    }

    fn note(&mut self, owner: Owner, usage: &Usage<'_>, ios: &[u32]) {
        let Some(tracer) = &self.tracer else { return };
        self.traced.clear();
        self.traced.extend(ios.iter().filter(|io| **io < self.ios_max));
        if self.cut.is_none() || !self.traced.is_empty() {
            tracer.note(&Usage { track: Track { owner, ..usage.track }, ..*usage }, &self.traced);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Executor;
    use crate::span::Spans;
    use crate::station::Station;
    use crate::time::Delay;

    /// What was used, from when to when, and for which I/Os.
    type Note = (&'static str, u64, u64, Vec<u32>);

    #[derive(Default)]
    struct Notes(RefCell<Vec<Note>>);

    impl Tracer for Notes {
        fn note(&self, usage: &Usage<'_>, ios: &[u32]) {
            let Usage { what, begin, end, .. } = *usage;
            self.0.borrow_mut().push((what, begin.0, end.0, ios.to_vec()));
        }
    }

    // Tasks take turns at every wait: what one of them uses must not be taken for another's I/O.
    #[test]
    fn each_task_has_its_own_ios() {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let (notes, spans) = (Rc::new(Notes::default()), Rc::new(Spans::default()));
        let station = Rc::new(Station::new(&clock, 1).traced_as(Resource::Core, 0));
        clock.trace(notes.clone(), 10);
        for _ in 0..2 {
            let (clock, spans, station) = (clock.clone(), spans.clone(), station.clone());
            executor.clock().spawn("worker", async move {
                let io = spans.open(clock.now());
                clock.io_begins(io);
                let parts = [("first", Delay(3)), ("none", Delay(0)), ("second", Delay(2))];
                clock.sleep_until(station.reserve_parts(Delay(5), || parts).end).await;
                station.serve_for("third", Delay(1)).await;
            });
        }
        let main = clock.clone();
        let ended = executor.run(async move {
            main.sleep(Delay(100)).await;
            station.serve_for("alone", Delay(1)).await;
            main.end_trace()
        });
        assert_eq!(ended, Ok(None));
        let expected = vec![
            ("first", 0, 3, vec![0]),
            ("second", 3, 5, vec![0]),
            ("first", 5, 8, vec![1]),
            ("second", 8, 10, vec![1]),
            ("third", 10, 11, vec![0]),
            ("third", 11, 12, vec![1]),
            ("alone", 100, 101, vec![]),
        ];
        assert_eq!(notes.0.take(), expected);
    }

    // Two drives have a core 0 each: taken for one, its uses would overlap.
    #[test]
    fn a_resource_is_its_owners() {
        #[derive(Default)]
        struct Tracks(RefCell<Vec<Track>>);

        impl Tracer for Tracks {
            fn note(&self, usage: &Usage<'_>, _: &[u32]) {
                self.0.borrow_mut().push(usage.track);
            }
        }

        let executor = Executor::new();
        let clock = executor.clock().clone();
        let tracks = Rc::new(Tracks::default());
        clock.trace(tracks.clone(), 1);
        for owner in [Owner(0), Owner(7)] {
            let station = Station::new(&clock.owned_by(owner), 1).traced_as(Resource::Core, 0);
            station.reserve(Delay(5));
        }
        let held = clock.owned_by(Owner(3));
        let track = Track::new(Resource::Die, 2);
        let usage = Usage { track, what: "read", begin: Time(0), end: Time(1), details: &[] };
        held.note_held(&usage, HeldIos::NONE);
        let found: Vec<_> = tracks.0.borrow().iter().map(|track| (track.owner.0, track.resource)).collect();
        assert_eq!(found, [(0, Resource::Core), (7, Resource::Core), (3, Resource::Die)]);
    }

    // A trace without an end grows with the run; one that ends in the middle of an I/O shows half of it.
    #[test]
    fn a_trace_ends_with_the_last_io_that_it_covers() {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let (notes, spans) = (Rc::new(Notes::default()), Spans::default());
        let station = Station::new(&clock, 1).traced_as(Resource::Core, 0);
        clock.trace(notes.clone(), 1);
        let main = clock.clone();
        let ended = executor.run(async move {
            let covered = spans.open(main.now());
            main.io_begins(covered);
            let other = spans.open(main.now());
            main.io_begins(other);
            station.serve_for("other", Delay(1)).await;
            main.works_for([covered]);
            station.serve_for("covered", Delay(1)).await;
            main.works_for([other, covered]);
            station.serve_for("both", Delay(1)).await;
            main.io_ends(other);
            assert!(main.is_traced());
            main.io_ends(covered);
            assert!(!main.is_traced());
            station.serve_for("late", Delay(1)).await;
            main.end_trace()
        });
        assert_eq!(ended, Ok(Some(Time(0))));
        assert_eq!(notes.0.take(), [("covered", 1, 2, vec![0]), ("both", 2, 3, vec![0])]);
    }
}
