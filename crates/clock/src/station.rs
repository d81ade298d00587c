//! A station: k servers for processor cores or DRAM, by reservation, first come, first served. A reservation
//! is decided at the call, costs one timer and cannot be cancelled.

use crate::executor::Clock;
use crate::time::{Delay, Time};
use crate::tracer::{Resource, Track, Usage};
use std::cell::{Cell, RefCell};

/// Times of one reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Time spent waiting for a server.
    pub queued: Delay,
    /// End of the service.
    pub end: Time,
}

/// k servers, reserved in FIFO order.
pub struct Station {
    clock: Clock,
    /// By server.
    free_at: Box<[Cell<Time>]>,
    reserved: Cell<Delay>,
    served: Cell<u64>,
    /// Resource kind and first index of its servers in a trace; None if untraced.
    track: Option<Track>,
    /// Reserved time by name of the work, in order of first use; None if not recorded.
    by_name: Option<RefCell<Vec<(&'static str, Delay)>>>,
}

impl Station {
    /// A station of `servers` servers, at least one.
    pub fn new(clock: &Clock, servers: usize) -> Self {
        Station {
            clock: clock.clone(),
            free_at: vec![Cell::new(Time::ZERO); servers.max(1)].into(),
            reserved: Cell::default(),
            served: Cell::default(),
            track: None,
            by_name: None,
        }
    }

    /// Also records reserved time by name of the work ([`Station::each_name`]).
    pub fn keeping_names(mut self) -> Self {
        self.by_name = Some(RefCell::default());
        self
    }

    /// Calls `take` with each name and the time reserved for it up to now, in order of first use. No calls
    /// unless the station [keeps names](Station::keeping_names). Under `timing = "none"` the times are zero.
    pub fn each_name(&self, take: impl FnMut(&(&'static str, Delay))) {
        if let Some(names) = &self.by_name {
            names.borrow().iter().for_each(take);
        }
    }

    #[cold]
    fn note(names: &RefCell<Vec<(&'static str, Delay)>>, parts: &[(&'static str, Delay)]) {
        let mut names = names.borrow_mut();
        for (name, duration) in parts {
            // Usually the very same string: comparing pointers spares comparing bytes.
            match names.iter_mut().find(|(known, _)| std::ptr::eq(*known, *name) || known == name) {
                Some((_, sum)) => *sum += *duration,
                None => names.push((name, *duration)),
            }
        }
    }

    /// Shows the servers in traces as kind `resource`, numbered from `first`.
    pub fn traced_as(mut self, resource: Resource, first: u32) -> Self {
        self.track = Some(Track::new(resource, first));
        self
    }

    /// Reserves the earliest free server for `duration`.
    pub fn reserve(&self, duration: Delay) -> Service {
        self.reserve_for("work", duration)
    }

    /// Like [`reserve`](Station::reserve), for work that a trace shows as `what`.
    pub fn reserve_for(&self, what: &'static str, duration: Delay) -> Service {
        self.reserve_parts(duration, || [(what, duration)])
    }

    /// Like [`reserve`](Station::reserve), for several pieces of work in sequence. `parts` is called only when
    /// traced; it names the pieces and divides `duration` among them.
    #[inline]
    pub fn reserve_parts<const PARTS: usize>(
        &self,
        duration: Delay,
        parts: impl FnOnce() -> [(&'static str, Delay); PARTS],
    ) -> Service {
        let (index, service) = self.take(duration);
        if self.clock.is_traced() || self.by_name.is_some() {
            let parts = parts();
            if let Some(names) = self.by_name.as_ref().filter(|_| !self.clock.is_immediate()) {
                Self::note(names, &parts);
            }
            if self.clock.is_traced() {
                self.trace(index, service.end, &parts);
            }
        }
        service
    }

    /// Chooses the server, the first of those that are free the earliest: its index, and the times of the service.
    #[inline]
    fn take(&self, duration: Delay) -> (usize, Service) {
        let now = self.clock.now();
        self.served.set(self.served.get() + 1);
        if self.clock.is_immediate() {
            return (0, Service { queued: Delay::ZERO, end: now });
        }
        let (mut index, mut free_at) = (0, self.free_at[0].get());
        for (other, at) in self.free_at.iter().enumerate().skip(1) {
            if at.get() < free_at {
                (index, free_at) = (other, at.get());
            }
        }
        let start = free_at.max(now);
        let end = start + duration;
        self.free_at[index].set(end);
        self.reserved.set(self.reserved.get() + duration);
        (index, Service { queued: start.since(now), end })
    }

    #[cold]
    fn trace(&self, index: usize, end: Time, parts: &[(&'static str, Delay)]) {
        let Some(Track { resource, index: first, .. }) = self.track else { return };
        let track = Track::new(resource, first + index as u32);
        let whole: Delay = parts.iter().map(|(_, duration)| *duration).sum();
        let mut begin = Time(end.0.saturating_sub(whole.0));
        for (what, duration) in parts.iter().filter(|(_, duration)| *duration > Delay::ZERO) {
            let end = begin + *duration;
            self.clock.note(&Usage { track, what, begin, end, details: &[] });
            begin = end;
        }
    }

    /// Reserves a server and waits until the service ends.
    pub async fn serve(&self, duration: Delay) -> Service {
        let service = self.reserve(duration);
        self.clock.sleep_until(service.end).await;
        service
    }

    /// Like [`serve`](Station::serve), for work that a trace shows as `what`.
    pub async fn serve_for(&self, what: &'static str, duration: Delay) -> Service {
        let service = self.reserve_for(what, duration);
        self.clock.sleep_until(service.end).await;
        service
    }

    /// Instant at which the first server becomes free: a reservation from then on does not wait. In the past
    /// if a server is idle.
    pub fn next_free(&self) -> Time {
        self.free_at.iter().map(Cell::get).min().unwrap_or(Time::ZERO)
    }

    /// Number of servers.
    pub fn servers(&self) -> usize {
        self.free_at.len()
    }

    /// Work done up to now, summed over the servers. Reserved work that is still to come is not included.
    pub fn busy(&self) -> Delay {
        let now = self.clock.now();
        // A server whose `free_at` is in the future works without a gap until then.
        let ahead: Delay = self.free_at.iter().map(|free_at| free_at.get().since(now)).sum();
        self.reserved.get().saturating_sub(ahead)
    }

    /// Total reservations.
    pub fn served(&self) -> u64 {
        self.served.get()
    }

    /// Utilisation of the servers from `since` to now, 0 to 1. `busy_then` is [`Station::busy`] at `since`.
    pub fn utilisation(&self, since: Time, busy_then: Delay) -> f64 {
        share(self.busy().saturating_sub(busy_then), self.clock.now().since(since), self.servers())
    }
}

fn share(busy: Delay, span: Delay, servers: usize) -> f64 {
    if span == Delay::ZERO { 0.0 } else { busy.0 as f64 / (span.0 as f64 * servers as f64) }
}
