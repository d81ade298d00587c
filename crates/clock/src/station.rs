//! Stations: k servers that work for whoever comes.
//!
//! Two kinds. [`Station`] is by reservation: FIFO, decided at the call, one timer, not cancellable: processor cores,
//! DRAM. [`PriorityStation`] is by queue: waiters stand in line by priority, a grant can be held over other waits
//! (a die that keeps its page register until the channel is free), service can be suspended by a more urgent
//! arrival (program suspend), and every wait can be dropped.

use crate::executor::{Clock, TaskId};
use crate::time::{Delay, Time};
use crate::tracer::{Resource, Track, Usage};
use crate::wait::{Ticket, WaitLine};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// What a reservation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// How long it waited for a server.
    pub queued: Delay,
    /// When it is served.
    pub end: Time,
}

/// k servers, FIFO, by reservation.
pub struct Station {
    clock: Clock,
    free_at: RefCell<Vec<Time>>,
    reserved: Cell<Delay>,
    served: Cell<u64>,
    /// What its servers are in a trace: of which kind, and which the first one is.
    track: Option<Track>,
}

impl Station {
    /// `servers` of them, at least one.
    pub fn new(clock: &Clock, servers: usize) -> Self {
        Station {
            clock: clock.clone(),
            free_at: RefCell::new(vec![Time::ZERO; servers.max(1)]),
            reserved: Cell::default(),
            served: Cell::default(),
            track: None,
        }
    }

    /// In a trace its servers are of kind `resource`, numbered from `first` on. Without this it is in none.
    pub fn traced_as(mut self, resource: Resource, first: u32) -> Self {
        self.track = Some(Track::new(resource, first));
        self
    }

    /// Reserves the server that is free first, for `duration`.
    pub fn reserve(&self, duration: Delay) -> Service {
        self.reserve_for("work", duration)
    }

    /// The same for work of this name, as a trace shows it.
    pub fn reserve_for(&self, what: &'static str, duration: Delay) -> Service {
        self.reserve_parts(duration, || [(what, duration)])
    }

    /// The same for several pieces of work that follow one another: `parts`, which is asked only in a trace, names them
    /// and divides `duration`.
    #[inline]
    pub fn reserve_parts<const PARTS: usize>(
        &self,
        duration: Delay,
        parts: impl FnOnce() -> [(&'static str, Delay); PARTS],
    ) -> Service {
        let (index, service) = self.take(duration);
        if self.clock.is_traced() {
            self.trace(index, service.end, &parts());
        }
        service
    }

    /// Which server it is, and when it serves.
    fn take(&self, duration: Delay) -> (usize, Service) {
        let now = self.clock.now();
        self.served.set(self.served.get() + 1);
        if self.clock.is_immediate() {
            return (0, Service { queued: Delay::ZERO, end: now });
        }
        let mut free_at = self.free_at.borrow_mut();
        let servers = free_at.iter_mut().enumerate();
        let (index, server) = servers.min_by_key(|(_, at)| **at).expect("a station has a server");
        let start = (*server).max(now);
        let end = start + duration;
        *server = end;
        self.reserved.set(self.reserved.get() + duration);
        (index, Service { queued: start.since(now), end })
    }

    #[cold]
    fn trace(&self, index: usize, end: Time, parts: &[(&'static str, Delay)]) {
        let Some(Track { resource, index: first }) = self.track else { return };
        let track = Track::new(resource, first + index as u32);
        let whole: Delay = parts.iter().map(|(_, duration)| *duration).sum();
        let mut begin = Time(end.0.saturating_sub(whole.0));
        for (what, duration) in parts.iter().filter(|(_, duration)| *duration > Delay::ZERO) {
            let end = begin + *duration;
            self.clock.note(&Usage { track, what, begin, end, details: &[] });
            begin = end;
        }
    }

    /// Reserves and waits until served.
    pub async fn serve(&self, duration: Delay) -> Service {
        let service = self.reserve(duration);
        self.clock.sleep_until(service.end).await;
        service
    }

    /// The same for work of this name, as a trace shows it.
    pub async fn serve_for(&self, what: &'static str, duration: Delay) -> Service {
        let service = self.reserve_for(what, duration);
        self.clock.sleep_until(service.end).await;
        service
    }

    /// How many servers.
    pub fn servers(&self) -> usize {
        self.free_at.borrow().len()
    }

    /// Work done up to now in all, over every server; what is reserved but not yet done is not in it.
    pub fn busy(&self) -> Delay {
        let now = self.clock.now();
        // A server that is free later than now works without a gap until then.
        let ahead: Delay = self.free_at.borrow().iter().map(|free_at| free_at.since(now)).sum();
        self.reserved.get().saturating_sub(ahead)
    }

    /// Requests in all.
    pub fn served(&self) -> u64 {
        self.served.get()
    }

    /// Share of the servers' time from `since` to now that was work: 0 to 1. `busy_then` is [`Station::busy`] at
    /// `since`.
    pub fn utilisation(&self, since: Time, busy_then: Delay) -> f64 {
        share(self.busy().saturating_sub(busy_then), self.clock.now().since(since), self.servers())
    }
}

fn share(busy: Delay, span: Delay, servers: usize) -> f64 {
    if span == Delay::ZERO { 0.0 } else { busy.0 as f64 / (span.0 as f64 * servers as f64) }
}

/// How urgent: 0 comes first. Classes beyond [`PriorityStation::CLASSES`] - 1 count as the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(pub u8);

struct Running {
    task: TaskId,
    class: u8,
    grant: u64,
    suspended: bool,
}

struct Queue {
    clock: Clock,
    servers: usize,
    free: Cell<usize>,
    lines: [WaitLine<(), ()>; PriorityStation::CLASSES],
    /// Services that may be suspended, in the order in which they began.
    running: RefCell<Vec<Running>>,
    grants: Cell<u64>,
    held: Cell<Delay>,
    last: Cell<Time>,
    suspensions: Cell<u64>,
}

/// k servers with a line for each priority class. Cheap to clone.
#[derive(Clone)]
pub struct PriorityStation(Rc<Queue>);

impl PriorityStation {
    /// How many classes of priority there are.
    pub const CLASSES: usize = 4;

    /// `servers` of them, at least one.
    pub fn new(clock: &Clock, servers: usize) -> Self {
        let servers = servers.max(1);
        PriorityStation(Rc::new(Queue {
            clock: clock.clone(),
            servers,
            free: Cell::new(servers),
            lines: Default::default(),
            running: RefCell::default(),
            grants: Cell::default(),
            held: Cell::default(),
            last: Cell::default(),
            suspensions: Cell::default(),
        }))
    }

    /// Waits for a server. Classes are served in order, and in each the first comes first. When every server is
    /// taken and one of them serves a less urgent class by [`Grant::serve_suspendable`], or comes to do so, that
    /// service steps back.
    pub fn acquire(&self, priority: Priority) -> Acquire<'_> {
        Acquire { station: self, class: (priority.0).min(Self::CLASSES as u8 - 1), ticket: None }
    }

    /// Servers that nobody holds.
    pub fn free(&self) -> usize {
        self.0.free.get()
    }

    /// Those who wait, over all classes.
    pub fn waiting(&self) -> usize {
        self.0.lines.iter().map(WaitLine::len).sum()
    }

    /// Time that servers were held up to now, summed over the servers.
    pub fn busy(&self) -> Delay {
        self.0.account();
        self.0.held.get()
    }

    /// How often a service was suspended.
    pub fn suspensions(&self) -> u64 {
        self.0.suspensions.get()
    }

    /// Share of the servers' time from `since` to now in which they were held: 0 to 1.
    pub fn utilisation(&self, since: Time, busy_then: Delay) -> f64 {
        let busy = self.busy().saturating_sub(busy_then);
        share(busy, self.0.clock.now().since(since), self.0.servers)
    }
}

impl Queue {
    fn account(&self) {
        let now = self.clock.now();
        let held = (self.servers - self.free.get()) as u64;
        self.held.set(self.held.get() + now.since(self.last.get()) * held);
        self.last.set(now);
    }

    fn take_free(&self, class: u8) -> bool {
        let ahead = self.lines[..=class as usize].iter().any(|line| line.len() > 0);
        if self.free.get() == 0 || ahead {
            return false;
        }
        self.account();
        self.free.set(self.free.get() - 1);
        true
    }

    /// A server is free: it goes to the first in the most urgent line.
    fn release(&self) {
        match self.lines.iter().find_map(|line| line.grant(|()| ())) {
            Some(task) => self.clock.wake(task),
            None => {
                self.account();
                self.free.set(self.free.get() + 1);
            }
        }
    }

    /// Asks the least urgent, latest begun service that is less urgent than `class` to step back.
    fn suspend_for(&self, class: u8) {
        let mut running = self.running.borrow_mut();
        let victim =
            running.iter_mut().filter(|r| !r.suspended && r.class > class).max_by_key(|r| (r.class, r.grant));
        if let Some(victim) = victim {
            victim.suspended = true;
            self.clock.wake(victim.task);
        }
    }

    /// Whether more tasks that are more urgent than `class` wait than services were asked to step back for.
    fn is_pressed(&self, class: u8) -> bool {
        let waiting: usize = self.lines[..class as usize].iter().map(WaitLine::len).sum();
        waiting > 0 && waiting > self.running.borrow().iter().filter(|r| r.suspended).count()
    }

    /// Asks on behalf of the most urgent that waits.
    fn ask_another(&self) {
        if let Some(class) = self.lines.iter().position(|line| line.len() > 0) {
            self.suspend_for(class as u8);
        }
    }

    /// Whether the service was asked to step back for somebody who still waits: the one that asked may have been
    /// dropped, or served by another server.
    fn must_step_back(&self, grant: u64) -> bool {
        let mut running = self.running.borrow_mut();
        let Some(service) = running.iter_mut().find(|r| r.grant == grant) else { return false };
        service.suspended &= self.lines[..service.class as usize].iter().any(|line| line.len() > 0);
        service.suspended
    }
}

/// A wait for a server.
#[must_use = "a server is granted only when it is awaited"]
pub struct Acquire<'a> {
    station: &'a PriorityStation,
    class: u8,
    ticket: Option<Ticket>,
}

impl Future for Acquire<'_> {
    type Output = Grant;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Grant> {
        let queue = &self.station.0;
        let line = &queue.lines[self.class as usize];
        if self.ticket.is_some() {
            let mut ticket = self.ticket.take();
            let granted = line.take(&mut ticket);
            self.ticket = ticket;
            return match granted {
                Some(()) => Poll::Ready(Grant::new(self.station, self.class)),
                None => Poll::Pending,
            };
        }
        if queue.take_free(self.class) {
            return Poll::Ready(Grant::new(self.station, self.class));
        }
        let ticket = line.join(queue.clock.current(), ());
        queue.suspend_for(self.class);
        self.ticket = Some(ticket);
        Poll::Pending
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        let queue = &self.station.0;
        if queue.lines[self.class as usize].cancel(&mut self.ticket).is_some() {
            queue.release();
        }
    }
}

/// A server, until dropped.
pub struct Grant {
    station: PriorityStation,
    class: u8,
    number: u64,
    /// False while a suspended service has lent its server.
    has_server: Cell<bool>,
}

impl Grant {
    fn new(station: &PriorityStation, class: u8) -> Self {
        let number = station.0.grants.get();
        station.0.grants.set(number + 1);
        Grant { station: station.clone(), class, number, has_server: Cell::new(true) }
    }

    /// Works for `duration`, come what may.
    pub async fn serve(&self, duration: Delay) {
        self.station.0.clock.sleep(duration).await;
    }

    /// Works for `duration`, stepping back for whoever is more urgent, also at once for one that waits already; each
    /// time it resumes costs `resume` more. Gives how long it stood back in all.
    pub fn serve_suspendable(&self, duration: Delay, resume: Delay) -> Suspendable<'_> {
        Suspendable { grant: self, remaining: duration, resume, state: Stage::New, lost: Delay::ZERO }
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        if self.has_server.get() {
            self.station.0.release();
        }
    }
}

enum Stage {
    New,
    /// Under `timing = "none"`: it gave way to others once, and is done.
    Yielded,
    Running {
        end: Time,
    },
    Suspended {
        since: Time,
        ticket: Option<Ticket>,
    },
    Done,
}

/// See [`Grant::serve_suspendable`].
#[must_use = "work is done only when it is awaited"]
pub struct Suspendable<'a> {
    grant: &'a Grant,
    remaining: Delay,
    resume: Delay,
    state: Stage,
    lost: Delay,
}

impl Suspendable<'_> {
    fn run(&mut self) -> Poll<Delay> {
        let grant = self.grant;
        let queue = &grant.station.0;
        if queue.clock.is_immediate() && !queue.clock.skip_step() {
            queue.clock.wake(queue.clock.current());
            self.state = Stage::Yielded;
            return Poll::Pending;
        }
        if queue.clock.is_immediate() || self.remaining == Delay::ZERO {
            return self.finish();
        }
        if queue.is_pressed(grant.class) {
            return self.step_back(self.remaining);
        }
        let end = queue.clock.now() + self.remaining;
        let task = queue.clock.current();
        queue.running.borrow_mut().push(Running {
            task,
            class: grant.class,
            grant: grant.number,
            suspended: false,
        });
        queue.clock.wake_at(end, task);
        self.state = Stage::Running { end };
        Poll::Pending
    }

    fn finish(&mut self) -> Poll<Delay> {
        self.state = Stage::Done;
        Poll::Ready(self.lost)
    }

    /// Lends its server to those who are more urgent; `left` of the work remains, and the cost of resuming.
    fn step_back(&mut self, left: Delay) -> Poll<Delay> {
        let grant = self.grant;
        let queue = &grant.station.0;
        self.remaining = left + self.resume;
        queue.suspensions.set(queue.suspensions.get() + 1);
        grant.has_server.set(false);
        let ticket = queue.lines[grant.class as usize].rejoin(queue.clock.current(), ());
        self.state = Stage::Suspended { since: queue.clock.now(), ticket: Some(ticket) };
        queue.release();
        Poll::Pending
    }

    /// Takes itself off the list of services that may be suspended; true if it was asked to step back.
    fn leave_running(&self) -> bool {
        let mut running = self.grant.station.0.running.borrow_mut();
        match running.iter().position(|r| r.grant == self.grant.number) {
            Some(index) => running.remove(index).suspended,
            None => false,
        }
    }
}

impl Future for Suspendable<'_> {
    type Output = Delay;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Delay> {
        let this = &mut *self;
        let grant = this.grant;
        let queue = &grant.station.0;
        let now = queue.clock.now();
        match &mut this.state {
            Stage::New => this.run(),
            Stage::Running { end } => {
                let end = *end;
                if now >= end {
                    if this.leave_running() {
                        // It was asked, and may keep its server for other work: another has to step back instead.
                        queue.ask_another();
                    }
                    return this.finish();
                }
                if queue.must_step_back(grant.number) {
                    this.leave_running();
                    return this.step_back(end.since(now));
                }
                Poll::Pending
            }
            Stage::Suspended { since, ticket } => {
                if queue.lines[grant.class as usize].take(ticket).is_none() {
                    return Poll::Pending;
                }
                grant.has_server.set(true);
                this.lost += now.since(*since);
                this.run()
            }
            Stage::Yielded | Stage::Done => this.finish(),
        }
    }
}

impl Drop for Suspendable<'_> {
    fn drop(&mut self) {
        match &mut self.state {
            Stage::Running { .. } => {
                self.leave_running();
            }
            Stage::Suspended { ticket, .. } => {
                let queue = &self.grant.station.0;
                if queue.lines[self.grant.class as usize].cancel(ticket).is_some() {
                    queue.release();
                }
            }
            Stage::New | Stage::Yielded | Stage::Done => {}
        }
    }
}
