//! Which site runs which kind of work, and what lies between sites.

use crate::hardware::{FlashCommands, Hardware};
use crate::site::Site;
use crate::work::{Cycles, Work};
use byteway_clock::{
    Clock, Delay, Notify, Passage, Permit, Pipe, Rate, Semaphore, Service, SpanId, Spans, Stage, Time,
};
use std::cell::Cell;
use std::rc::Rc;

/// One of the ways in which a drive's work is done. A command goes by [`Route::OWN`] unless whoever takes it says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route(u8);

impl Route {
    /// As the placement has it for all commands.
    pub const OWN: Route = Route(0);
}

/// What work is done for: the I/O that it is charged to, and the route by which it is done.
#[derive(Clone, Copy, Debug)]
pub struct Errand {
    /// The I/O.
    pub span: SpanId,
    /// The route.
    pub route: Route,
}

impl From<SpanId> for Errand {
    fn from(span: SpanId) -> Errand {
        Errand { span, route: Route::OWN }
    }
}

/// One way between two sites, over whatever lies between them.
pub trait Way {
    /// Sends `bytes` of data, behind what was sent before. The caller waits for what it needs of the passage.
    fn send(&self, bytes: u64) -> Passage;

    /// Sends a request for data, which has none itself.
    fn ask(&self) -> Passage;

    /// If nothing goes by it now: what says that it may do so again. Who wants to send waits for that first.
    fn closed(&self) -> Option<&Notify> {
        None
    }

    /// Bytes of data that were sent.
    fn bytes(&self) -> u64;
}

/// A way that nothing else crosses.
struct Own {
    clock: Clock,
    pipe: Pipe,
}

impl Way for Own {
    fn send(&self, bytes: u64) -> Passage {
        self.pipe.send(bytes)
    }

    fn ask(&self) -> Passage {
        let now = self.clock.now();
        Passage { queued: Delay::ZERO, sent: now, arrival: now + self.pipe.propagation() }
    }

    fn bytes(&self) -> u64 {
        self.pipe.bytes()
    }
}

/// What lies between two sites: a way each way. Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct Distance(Rc<Ways>);

struct Ways {
    clock: Clock,
    there: Rc<dyn Way>,
    back: Rc<dyn Way>,
}

impl Distance {
    /// A line of a cache: what an access to a word of another site's DRAM brings.
    pub const LINE_BYTES: u64 = 64;

    /// One of its own, that nothing else crosses: `latency` and `rate`, bytes a second, hold for each way.
    pub fn new(clock: &Clock, latency: Delay, rate: Rate) -> Self {
        let way = || Rc::new(Own { clock: clock.clone(), pipe: Pipe::new(clock, rate, latency) });
        Distance::over(clock, way(), way())
    }

    /// Over a fabric that others use too.
    pub fn over(clock: &Clock, there: Rc<dyn Way>, back: Rc<dyn Way>) -> Self {
        Distance(Rc::new(Ways { clock: clock.clone(), there, back }))
    }

    /// Reads `bytes` at the other end, where they come out of the DRAM after `access`: a request there, and the bytes back.
    /// Gives how long they waited for others.
    pub async fn read(&self, bytes: u64, access: Delay) -> Delay {
        let Ways { clock, there, back } = &*self.0;
        opened(&**there).await;
        let asked = there.ask();
        clock.sleep_until(asked.arrival + access).await;
        opened(&**back).await;
        let passage = back.send(bytes);
        clock.sleep_until(passage.arrival).await;
        asked.queued + passage.queued
    }

    /// Brings `bytes` to the other end. Gives how long they waited for others.
    pub async fn write(&self, bytes: u64) -> Delay {
        opened(&*self.0.there).await;
        let passage = self.0.there.send(bytes);
        self.0.clock.sleep_until(passage.arrival).await;
        passage.queued
    }

    /// The way there.
    pub(crate) fn there(&self) -> &dyn Way {
        &*self.0.there
    }

    /// The way back.
    pub(crate) fn back(&self) -> &dyn Way {
        &*self.0.back
    }

    /// Bytes that have gone there, and that have come back.
    pub fn bytes(&self) -> (u64, u64) {
        (self.0.there.bytes(), self.0.back.bytes())
    }
}

/// Waits until something goes by a way.
async fn opened(way: &dyn Way) {
    while let Some(closed) = way.closed() {
        closed.notified().await;
    }
}

/// Which [`Site`] runs each kind of [`Work`], and what it costs there. The cost in cycles is the firmware's; how long
/// a cycle takes is the site's. Whose DRAM holds the map and the write buffer is the placement's, too: another site that works
/// on them pays the [`Distance`].
#[derive(Clone)]
pub struct Placement {
    /// By route.
    sites: Vec<[Site; Work::ALL.len()]>,
    cycles: Cycles,
    /// Between which sites there is what; between others there is nothing.
    distances: Vec<(Site, Site, Distance)>,
    /// Who works on map and write buffer, where that is one at a time.
    lock: Option<Rc<Lock>>,
    /// What comes by a route of its own comes by calls.
    calls: Option<Calls>,
    /// What of it runs on the host, across a link.
    on_host: Option<OnHost>,
    /// What payload passes on its way.
    bounce: Option<Rc<Bounce>>,
    /// How long the data-end takes to take an operation out of the queue that peers put it into.
    agent: Option<Delay>,
    /// Flash and DMA across a link.
    hardware: Option<Hardware>,
}

/// Buffers of a driver that payload is copied through.
struct Bounce {
    rate: Rate,
    held: Cell<u64>,
    most: Cell<u64>,
}

/// A part of such buffers, given back also if the copy is dropped.
struct Bounced<'a> {
    bounce: &'a Bounce,
    bytes: u64,
}

impl Drop for Bounced<'_> {
    fn drop(&mut self) {
        self.bounce.held.set(self.bounce.held.get() - self.bytes);
    }
}

/// The way between a drive and the host, for parts of its firmware that run on either side of it.
pub trait HostLink {
    /// Sends `bytes` to the host. Gives when they are there.
    fn to_host(&self, bytes: u64) -> Time;

    /// Sends `bytes` to the drive. Gives when they are there.
    fn to_drive(&self, bytes: u64) -> Time;
}

/// What of a drive's firmware runs on the host.
#[derive(Clone)]
struct OnHost {
    link: Rc<dyn HostLink>,
    map: bool,
    collection: bool,
}

/// What the host is told of a unit that was programmed: the unit, and where it is.
const TOLD_BYTES: u64 = 16;
/// What the host is asked before a collector moves units: an entry of a queue; and what it decides.
const ASKED_BYTES: u64 = 16;
const DECIDED_BYTES: u64 = 64;

/// Calls into a translation layer.
#[derive(Clone)]
struct Calls {
    /// Of each, what keeps no core.
    wait: Delay,
    /// Of each route but [`Route::OWN`], whose turn it is.
    by_route: Vec<Rc<Semaphore>>,
}

/// The lock of map and write buffer, and how long it has been held.
struct Lock {
    clock: Clock,
    turn: Semaphore,
    held: Cell<Delay>,
    since: Cell<Option<Time>>,
}

/// The lock, held.
struct Held {
    lock: Rc<Lock>,
    _turn: Permit,
}

impl Lock {
    async fn acquire(self: &Rc<Lock>) -> Held {
        let turn = self.turn.acquire(1).await;
        self.since.set(Some(self.clock.now()));
        Held { lock: self.clone(), _turn: turn }
    }

    /// How long it has been held up to now.
    fn busy(&self) -> Delay {
        let now = self.clock.now();
        self.held.get() + self.since.get().map_or(Delay::ZERO, |since| now.since(since))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.lock.held.set(self.lock.busy());
        self.lock.since.set(None);
    }
}

/// What a command holds while it is in the translation layer.
pub(crate) struct Entered {
    _call: Option<Permit>,
    _lock: Option<Held>,
}

impl Placement {
    /// All work at one site: a drive of the usual kind.
    pub fn all_at(site: &Site, cycles: Cycles) -> Self {
        let sites = vec![std::array::from_fn(|_| site.clone())];
        Placement {
            sites,
            cycles,
            distances: Vec::new(),
            lock: None,
            calls: None,
            on_host: None,
            bounce: None,
            agent: None,
            hardware: None,
        }
    }

    /// The same, but with `work` at `site`, whose DRAM then holds what the work is on.
    pub fn with(mut self, work: Work, site: &Site) -> Self {
        self.sites[0][work as usize] = site.clone();
        self
    }

    /// The same, with `distance` from the first site to the second.
    pub fn with_distance(mut self, from: &Site, to: &Site, distance: &Distance) -> Self {
        self.distances.push((from.clone(), to.clone(), distance.clone()));
        self
    }

    /// The same, where map and write buffer have one lock, as a driver's do that runs on any of a host's processors: entering,
    /// translating and buffering are done for one command at a time. Who waits for the lock sleeps, and keeps no core.
    pub fn with_lock(mut self, clock: &Clock) -> Self {
        self.lock = Some(Rc::new(Lock {
            clock: clock.clone(),
            turn: Semaphore::new(clock, 1),
            held: Cell::default(),
            since: Cell::default(),
        }));
        self
    }

    /// How long the lock of map and write buffer has been held up to now; none: there is none.
    pub fn lock_busy(&self) -> Option<Delay> {
        self.lock.as_ref().map(|lock| lock.busy())
    }

    /// The same, where what comes by a route of its own comes by a call that returns when the command is buffered or looked up: by
    /// each route one at a time, and `wait` of each call keeps no core. To be called before routes are added.
    pub fn with_calls(mut self, wait: Delay) -> Self {
        self.calls = Some(Calls { wait, by_route: Vec::new() });
        self
    }

    /// The same, where the map, or the collector's decisions, are on the host, at the other end of `link`, where the sites of
    /// [`Work::Translate`] and [`Work::Collect`] are to be as well. A command brings the places that it needs along, the host is told
    /// of every unit that is programmed, and is asked before units are moved.
    pub fn with_on_host(mut self, link: Rc<dyn HostLink>, map: bool, collection: bool) -> Self {
        self.on_host = Some(OnHost { link, map, collection });
        self
    }

    /// The same, where payload does not go to and from applications' memory itself, but is copied through buffers of the driver: a
    /// processor copies `rate` bytes a second, each of which is read from its DRAM and written there once more.
    pub fn with_bounce_buffers(mut self, rate: Rate) -> Self {
        self.bounce = Some(Rc::new(Bounce { rate, held: Cell::default(), most: Cell::default() }));
        self
    }

    /// The same, where firmware that works elsewhere, by a route with a distance, commands flash and DMA by messages into a queue in this
    /// drive's DRAM ("Espresso", 4.2): an agent takes each out in `time`, on the cores of the drive itself.
    pub fn with_agent(mut self, time: Delay) -> Self {
        self.agent = Some(time);
        self
    }

    /// The same, where flash and DMA are hardware across a link, with no firmware of its own.
    pub fn with_hardware(mut self, hardware: Hardware) -> Self {
        self.hardware = Some(hardware);
        self
    }

    /// Commands flash that is across a link for what was done there: with the work that it costs, and with what crosses.
    pub(crate) async fn command_hardware(
        &self,
        clock: &Clock,
        span: SpanId,
        spans: &Spans,
        commands: FlashCommands,
    ) {
        if let Some(hardware) = &self.hardware {
            hardware.command(clock, self.site(Work::Command), span, spans, commands).await;
        }
    }

    /// Whether flash is across a link.
    pub(crate) fn has_hardware(&self) -> bool {
        self.hardware.is_some()
    }

    /// Has the drive's data-end begin so many operations: if the firmware that asks for them works elsewhere, by messages.
    pub async fn command_data_end(&self, clock: &Clock, errand: Errand, spans: &Spans, operations: u64) {
        let Some(time) = self.agent.filter(|_| operations > 0) else { return };
        let Some(distance) = self.distance(Work::Agent, errand.route) else { return };
        let queued = distance.write(operations.saturating_mul(Distance::LINE_BYTES)).await;
        spans.charge_split(errand.span, clock.now(), queued, Stage::Link);
        let service = self.site(Work::Agent).spend(Work::Agent, time * operations);
        clock.sleep_until(service.end).await;
        spans.charge_split(errand.span, clock.now(), service.queued, Stage::Firmware);
    }

    /// Bytes that such buffers have held at once, at most: what they were given is not taken back.
    pub fn bounce_bytes(&self) -> u64 {
        self.bounce.as_ref().map_or(0, |bounce| bounce.most.get())
    }

    /// Copies the `bytes` of a payload, if they pass through buffers, on the processor that does the rest for it.
    pub async fn copy_payload(&self, clock: &Clock, errand: Errand, spans: &Spans, bytes: u64) {
        let Some(bounce) = self.bounce.as_deref().filter(|_| bytes > 0) else { return };
        bounce.held.set(bounce.held.get() + bytes);
        bounce.most.set(bounce.most.get().max(bounce.held.get()));
        let _held = Bounced { bounce, bytes };
        let site = self.site_by(Work::Copy, errand.route);
        let passage = self.site(Work::Copy).dram("copy", 2 * bytes);
        let service = site.spend(Work::Copy, bounce.rate.time_for(bytes));
        clock.sleep_until(service.end).await;
        spans.charge_split(errand.span, clock.now(), service.queued, Stage::Firmware);
        clock.sleep_until(passage.arrival).await;
        spans.charge(errand.span, clock.now(), Stage::Dram);
    }

    /// So many units were programmed: a map on the host is told.
    pub(crate) fn programmed(&self, units: u64) {
        if let Some(on_host) = self.on_host.as_ref().filter(|on_host| on_host.map && units > 0) {
            on_host.link.to_host(units * TOLD_BYTES);
        }
    }

    /// Whether it is decided on the host what a collector does.
    pub(crate) fn asks_to_collect(&self) -> bool {
        self.on_host.as_ref().is_some_and(|on_host| on_host.collection)
    }

    /// Has the host decide on moving `units`, across the link and back.
    pub(crate) async fn ask_to_collect(&self, clock: &Clock, units: u64) {
        let Some(on_host) = &self.on_host else { return };
        clock.sleep_until(on_host.link.to_host(ASKED_BYTES)).await;
        let service = self.reserve(Work::Collect, units);
        clock.sleep_until(service.end).await;
        clock.sleep_until(on_host.link.to_drive(DECIDED_BYTES)).await;
    }

    /// Whether it is entered from elsewhere (by calls, by a lock, or by work of its own), or its flash is.
    pub(crate) fn is_apart(&self) -> bool {
        self.lock.is_some() || self.calls.is_some() || self.has_hardware() || self.cycles.of(Work::Enter) > 0
    }

    /// Enters the translation layer for a command: the call that it comes by, the lock, and [`Work::Enter`]; charges them. What the
    /// layer does by itself has no call, and is within already. What this gives is held until the work is done.
    pub(crate) async fn enter(&self, clock: &Clock, errand: Errand, spans: &Spans) -> Entered {
        let Errand { span, route } = errand;
        let mut entered = Entered { _call: None, _lock: None };
        let is_call = route != Route::OWN;
        if let Some(calls) = self.calls.as_ref().filter(|_| is_call)
            && let Some(turn) = calls.by_route.get(usize::from(route.0) - 1)
        {
            entered._call = Some(turn.acquire(1).await);
            spans.charge(span, clock.now(), Stage::Queueing);
            if calls.wait > Delay::ZERO {
                clock.sleep(calls.wait).await;
                spans.charge(span, clock.now(), Stage::Firmware);
            }
        }
        if let Some(lock) = &self.lock {
            entered._lock = Some(lock.acquire().await);
            spans.charge(span, clock.now(), Stage::Queueing);
        }
        if is_call && self.cycles.of(Work::Enter) > 0 {
            let service = self.reserve_by(route, Work::Enter, 1);
            clock.sleep_until(service.end).await;
            spans.charge_split(span, clock.now(), service.queued, Stage::Firmware);
        }
        entered
    }

    /// A further route: as [`Route::OWN`], but with all work at `site`. The map and the write buffer stay where they are. None:
    /// there are 256 already.
    pub fn add_route_to(&mut self, clock: &Clock, site: &Site) -> Option<Route> {
        let route = Route(u8::try_from(self.sites.len()).ok()?);
        self.sites.push(std::array::from_fn(|_| site.clone()));
        if let Some(calls) = &mut self.calls {
            calls.by_route.push(Rc::new(Semaphore::new(clock, 1)));
        }
        Some(route)
    }

    /// A further route: as [`Route::OWN`], but with `work` at `site`. The map and the write buffer stay where they are. None:
    /// there are 256 already.
    pub fn add_route(&mut self, work: Work, site: &Site) -> Option<Route> {
        let route = Route(u8::try_from(self.sites.len()).ok()?);
        let mut sites = self.sites[0].clone();
        sites[work as usize] = site.clone();
        self.sites.push(sites);
        Some(route)
    }

    /// Where `work` runs for commands that go by [`Route::OWN`].
    pub fn site(&self, work: Work) -> &Site {
        &self.sites[0][work as usize]
    }

    /// Where `work` runs for one that goes by `route`. Of a route that this placement has not: as by [`Route::OWN`].
    pub fn site_by(&self, work: Work, route: Route) -> &Site {
        match self.sites.get(route.0 as usize) {
            Some(sites) => &sites[work as usize],
            None => self.site(work),
        }
    }

    /// What there is between the site that does `work` by `route` and the DRAM that holds what the work is on.
    pub(crate) fn distance(&self, work: Work, route: Route) -> Option<&Distance> {
        if route == Route::OWN {
            return None;
        }
        let (site, holder) = (self.site_by(work, route), self.site(work));
        let is_between = |(from, to, _): &&(Site, Site, Distance)| from.is(site) && to.is(holder);
        self.distances.iter().find(is_between).map(|(.., distance)| distance)
    }

    /// What each kind costs.
    pub fn cycles(&self) -> &Cycles {
        &self.cycles
    }

    /// Reserves cores for `count` times `work`; the caller waits for the end.
    pub fn reserve(&self, work: Work, count: u64) -> Service {
        self.reserve_by(Route::OWN, work, count)
    }

    /// The same by `route`.
    pub fn reserve_by(&self, route: Route, work: Work, count: u64) -> Service {
        let (site, cycles) = (self.site_by(work, route), self.cycles.of(work).saturating_mul(count));
        if route != Route::OWN {
            site.note_lent(cycles);
        }
        site.reserve(work, cycles)
    }

    /// Whether what comes by `route` is done by a peer.
    pub(crate) fn is_lent(&self, route: Route) -> bool {
        route != Route::OWN && self.agent.is_some()
    }

    /// Does `count` times `work` by `route`, and waits for its end. Gives how long it waited for a core. What a peer does for this drive, by
    /// messages to its [agent](Placement::with_agent), comes behind what the peer does for itself.
    pub async fn work_by(&self, clock: &Clock, route: Route, work: Work, count: u64) -> Delay {
        if self.is_lent(route) {
            return self.site_by(work, route).work_lent(work, self.cycles.of(work), count).await;
        }
        let service = self.reserve_by(route, work, count);
        clock.sleep_until(service.end).await;
        service.queued
    }

    /// Reserves cores for `first` and then `second`, one after the other without a pause; the caller waits for the end. None:
    /// they run at different sites.
    #[inline]
    pub fn chain(&self, first: Work, second: Work) -> Option<Service> {
        let with_cycles = |work| (work, self.cycles.of(work));
        let site = self.site(first);
        site.is(self.site(second)).then(|| site.reserve_both(with_cycles(first), with_cycles(second)))
    }

    /// The same wherever they run: at different sites it waits for the first. Gives the reservation of the last, whose end the
    /// caller still waits for.
    pub async fn chain_apart(&self, first: Work, second: Work) -> Service {
        if let Some(both) = self.chain(first, second) {
            return both;
        }
        let before = self.run(first, 1).await;
        let after = self.reserve(second, 1);
        Service { queued: before.queued + after.queued, end: after.end }
    }

    /// What these pieces of work took, of one command, was done for another drive.
    pub fn note_lent(&self, works: &[Work]) {
        works.iter().for_each(|work| self.site(*work).note_lent(self.cycles.of(*work)));
    }

    /// Does `count` times `work`: one after another, on one core.
    pub async fn run(&self, work: Work, count: u64) -> Service {
        self.site(work).work(work, self.cycles.of(work).saturating_mul(count)).await
    }

    /// Does `count` times [`Work::Translate`] and the one access to the map that it waits for, and charges both.
    pub(crate) async fn translate(&self, clock: &Clock, errand: Errand, spans: &Spans, count: u64) {
        let Errand { span, route } = errand;
        let _entered = self.enter(clock, errand, spans).await;
        let access = self.site(Work::Translate).dram_latency();
        let Some(distance) = self.distance(Work::Translate, route) else {
            let service = self.reserve_by(route, Work::Translate, count);
            clock.sleep_until(service.end + access).await;
            let now = clock.now();
            spans.charge_split(span, service.end.min(now), service.queued, Stage::Firmware);
            if access > Delay::ZERO {
                spans.charge(span, now, Stage::Dram);
            }
            return;
        };
        let queued = self.work_by(clock, route, Work::Translate, count).await;
        spans.charge_split(span, clock.now(), queued, Stage::Firmware);
        let queued = distance.read(Distance::LINE_BYTES, access).await;
        spans.charge_split(span, clock.now(), queued, Stage::Dram);
    }

    /// Brings a changed entry of the map to the DRAM that holds it, if that is elsewhere.
    pub(crate) async fn update_map(&self, clock: &Clock, errand: Errand, spans: &Spans) {
        if let Some(distance) = self.distance(Work::Translate, errand.route) {
            let queued = distance.write(Distance::LINE_BYTES).await;
            spans.charge_split(errand.span, clock.now(), queued, Stage::Dram);
        }
    }

    /// Moves `bytes` into the DRAM of the write buffer: from where the work of buffering is done, or, by an [agent](Placement::with_agent),
    /// from the host by the drive's own DMA.
    pub(crate) async fn add_to_buffer(&self, clock: &Clock, errand: Errand, spans: &Spans, bytes: u64) {
        let mut queued = Delay::ZERO;
        if let Some(distance) = self.distance(Work::Buffer, errand.route).filter(|_| self.agent.is_none()) {
            queued += distance.write(bytes).await;
        }
        let passage = self.site(Work::Buffer).dram("into the buffer", bytes);
        clock.sleep_until(passage.arrival).await;
        spans.charge_split(errand.span, clock.now(), queued + passage.queued, Stage::Dram);
    }

    /// The same out of it.
    pub(crate) async fn take_from_buffer(&self, clock: &Clock, errand: Errand, spans: &Spans, bytes: u64) {
        let mut queued = Delay::ZERO;
        let passage = self.site(Work::Buffer).dram("out of the buffer", bytes);
        clock.sleep_until(passage.arrival).await;
        if let Some(distance) = self.distance(Work::Buffer, errand.route).filter(|_| self.agent.is_none()) {
            queued += distance.read(bytes, Delay::ZERO).await;
        }
        spans.charge_split(errand.span, clock.now(), queued + passage.queued, Stage::Dram);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::{Delay, Executor, Rate, Time};

    // Work that is placed elsewhere must cost time there and none here; else "placement" would be a word.
    #[test]
    fn work_keeps_the_cores_of_its_own_site_busy() {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let rate = Rate::per_second(1_000_000_000);
        let here = Site::new(&clock, 2, 1_000_000_000, Delay::from_ns(100), rate);
        let there = Site::new(&clock, 1, 500_000_000, Delay::from_ns(100), rate);
        let cycles = Cycles::FREE.with(Work::Parse, 300).with(Work::Translate, 100);
        let placement = Placement::all_at(&here, cycles).with(Work::Translate, &there);
        let now = executor.run(async move {
            placement.run(Work::Parse, 1).await;
            placement.run(Work::Complete, 5).await;
            placement.run(Work::Translate, 3).await;
            clock.now()
        });
        assert_eq!(now, Ok(Time(300_000 + 600_000)));
        assert_eq!((here.busy(), here.served()), (Delay::from_ns(300), 1));
        assert_eq!((there.busy(), there.served()), (Delay::from_ns(600), 1));
    }
}
