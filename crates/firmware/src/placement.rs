//! Placement of firmware work on sites, and the links between sites.

use crate::hardware::{FlashCommands, Hardware, HostLink};
use crate::site::Site;
use crate::work::{Cycles, WorkKind};
use byteway_clock::{
    Awaited, Clock, Delay, Notify, Passage, Permit, Pipe, Rate, Semaphore, Service, SpanId, Spans, Stage,
    Time,
};
use std::cell::Cell;
use std::rc::Rc;

/// One of the alternative assignments of work to sites. A command takes [`Route::OWN`] unless its handler
/// chooses another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route(u8);

impl Route {
    /// The placement's default assignment.
    pub const OWN: Route = Route(0);
}

/// The work on whose behalf an operation runs.
#[derive(Clone, Copy, Debug)]
pub struct WorkContext {
    /// The span that time is charged to.
    pub span: SpanId,
    /// The route that selects the sites.
    pub route: Route,
}

impl From<SpanId> for WorkContext {
    fn from(span: SpanId) -> WorkContext {
        WorkContext { span, route: Route::OWN }
    }
}

/// One direction of a link between two sites.
pub trait LinkDirection {
    /// Sends `bytes` of data, in order. The caller waits for whichever time of the passage it needs.
    fn send(&self, bytes: u64) -> Passage;

    /// Sends a request for data, which carries none itself.
    fn ask(&self) -> Passage;

    /// While the link is closed, the notification of its reopening. A sender waits for it first.
    fn closed(&self) -> Option<&Notify> {
        None
    }

    /// Data bytes sent up to now.
    fn bytes(&self) -> u64;
}

/// A dedicated link direction.
struct Own {
    clock: Clock,
    pipe: Pipe,
}

impl LinkDirection for Own {
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

/// A link between two sites, in both directions. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct SiteLink(Rc<Ways>);

struct Ways {
    clock: Clock,
    there: Rc<dyn LinkDirection>,
    back: Rc<dyn LinkDirection>,
}

impl SiteLink {
    /// Bytes that an access to a word in another site's DRAM transfers: a cache line.
    pub const LINE_BYTES: u64 = 64;

    /// A dedicated link. `latency` and `rate`, in bytes a second, hold for each direction.
    pub fn new(clock: &Clock, latency: Delay, rate: Rate) -> Self {
        let way = || Rc::new(Own { clock: clock.clone(), pipe: Pipe::new(clock, rate, latency) });
        SiteLink::over(clock, way(), way())
    }

    /// A link over a shared fabric.
    pub fn over(clock: &Clock, there: Rc<dyn LinkDirection>, back: Rc<dyn LinkDirection>) -> Self {
        SiteLink(Rc::new(Ways { clock: clock.clone(), there, back }))
    }

    /// Reads `bytes` at the far end, whose DRAM delivers them after `access`: a request there, the bytes
    /// back. Returns the time spent waiting behind other traffic.
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

    /// Writes `bytes` to the far end. Returns the time spent waiting behind other traffic.
    pub async fn write(&self, bytes: u64) -> Delay {
        opened(&*self.0.there).await;
        let passage = self.0.there.send(bytes);
        self.0.clock.sleep_until(passage.arrival).await;
        passage.queued
    }

    /// The direction to the far end.
    pub(crate) fn there(&self) -> &dyn LinkDirection {
        &*self.0.there
    }

    /// The direction back.
    pub(crate) fn back(&self) -> &dyn LinkDirection {
        &*self.0.back
    }

    /// Bytes sent to the far end, and received from it.
    pub fn bytes(&self) -> (u64, u64) {
        (self.0.there.bytes(), self.0.back.bytes())
    }
}

/// Waits while a link direction is closed.
async fn opened(way: &dyn LinkDirection) {
    while let Some(closed) = way.closed() {
        closed.notified().await;
    }
}

/// Assigns each [`WorkKind`] to a [`Site`], with its cost there. The cost in cycles is the
/// firmware's; the time of a cycle is the site's. The placement also determines whose DRAM holds the map and
/// the write buffer: work at another site pays the [`SiteLink`].
#[derive(Clone)]
pub struct Placement {
    /// Site of each kind of work, by route.
    sites: Vec<[Site; WorkKind::ALL.len()]>,
    cycles: Cycles,
    /// Links between sites; sites without one are adjacent.
    distances: Vec<(Site, Site, SiteLink)>,
    /// The lock of map and write buffer, if there is one.
    lock: Option<Rc<Lock>>,
    /// Calls into the translation layer, for commands by a route other than [`Route::OWN`].
    calls: Option<Calls>,
    /// Parts that run on the host, across a link.
    on_host: Option<OnHost>,
    /// Bounce buffers that payload is copied through.
    bounce: Option<Rc<Bounce>>,
    /// Time of the data end's agent to take an operation from the peers' queue.
    agent: Option<Delay>,
    /// Flash and DMA across a link.
    hardware: Option<Hardware>,
}

/// A driver's bounce buffers.
struct Bounce {
    rate: Rate,
    held: Cell<u64>,
    most: Cell<u64>,
}

/// A piece of a bounce buffer, freed even if the copy is dropped.
struct Bounced<'a> {
    bounce: &'a Bounce,
    bytes: u64,
}

impl Drop for Bounced<'_> {
    fn drop(&mut self) {
        self.bounce.held.set(self.bounce.held.get() - self.bytes);
    }
}

/// Firmware of a drive that runs on the host.
#[derive(Clone)]
struct OnHost {
    link: Rc<dyn HostLink>,
    map: bool,
    collection: bool,
}

/// Bytes of a message to the host about a programmed unit: the unit and its address.
const TOLD_BYTES: u64 = 16;
/// Bytes of a request to the host before garbage collection moves units, and of its decision.
const ASKED_BYTES: u64 = 16;
const DECIDED_BYTES: u64 = 64;

/// Calls into a translation layer.
#[derive(Clone)]
struct Calls {
    /// Time of each call that occupies no core.
    wait: Delay,
    /// Turn of each route except [`Route::OWN`].
    by_route: Vec<Rc<Semaphore>>,
}

/// The lock of map and write buffer, and the time for which it has been held.
struct Lock {
    clock: Clock,
    turn: Semaphore,
    held: Cell<Delay>,
    since: Cell<Option<Time>>,
}

/// A guard of the lock.
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

    /// Time for which it has been held up to now.
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

/// Guards that a command holds while it is in the translation layer.
pub(crate) struct Entered {
    _call: Option<Permit>,
    _lock: Option<Held>,
}

impl Placement {
    /// Places all work at one site, as in an ordinary drive.
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

    /// Moves `work` to `site`, whose DRAM then holds the data of that work.
    pub fn with(mut self, work: WorkKind, site: &Site) -> Self {
        self.sites[0][work as usize] = site.clone();
        self
    }

    /// Adds the link `distance` from the first site to the second.
    pub fn with_distance(mut self, from: &Site, to: &Site, distance: &SiteLink) -> Self {
        self.distances.push((from.clone(), to.clone(), distance.clone()));
        self
    }

    /// Adds one lock for map and write buffer, like that of a driver that runs on any of a host's processors:
    /// entering, translating and buffering go one command at a time. A waiter sleeps and occupies no core.
    pub fn with_lock(mut self, clock: &Clock) -> Self {
        self.lock = Some(Rc::new(Lock {
            clock: clock.clone(),
            turn: Semaphore::new(clock, 1),
            held: Cell::default(),
            since: Cell::default(),
        }));
        self
    }

    /// Time for which the lock of map and write buffer has been held; None without a lock.
    pub fn lock_busy(&self) -> Option<Delay> {
        self.lock.as_ref().map(|lock| lock.busy())
    }

    /// Makes each command by a route other than [`Route::OWN`] a call that returns when it is buffered or
    /// looked up: one at a time for each route, with `wait` of each call occupying no core. Call this before
    /// adding routes.
    pub fn with_calls(mut self, wait: Delay) -> Self {
        self.calls = Some(Calls { wait, by_route: Vec::new() });
        self
    }

    /// Places the map, or the decisions of garbage collection, on the host at the far end of `link`; the
    /// sites of [`WorkKind::Translate`] and [`WorkKind::Collect`] must be there as well. A command then
    /// carries its flash addresses with it, every programmed unit is reported to the host, and the host
    /// decides before units are moved.
    pub fn with_on_host(mut self, link: Rc<dyn HostLink>, map: bool, collection: bool) -> Self {
        self.on_host = Some(OnHost { link, map, collection });
        self
    }

    /// Copies payload through bounce buffers of the driver instead of using applications' memory directly: a
    /// processor copies `rate` bytes a second, each read from and written to its DRAM once more.
    pub fn with_bounce_buffers(mut self, rate: Rate) -> Self {
        self.bounce = Some(Rc::new(Bounce { rate, held: Cell::default(), most: Cell::default() }));
        self
    }

    /// Lets firmware at a distant site drive flash and DMA by messages into a queue in this drive's DRAM
    /// ("Espresso", 4.2): an agent on the drive's own cores takes `time` for each.
    pub fn with_agent(mut self, time: Delay) -> Self {
        self.agent = Some(time);
        self
    }

    /// Replaces flash and DMA by hardware across a link, without firmware of its own.
    pub fn with_hardware(mut self, hardware: Hardware) -> Self {
        self.hardware = Some(hardware);
        self
    }

    /// Accounts for flash operations across a link: their work, and their traffic.
    pub(crate) async fn command_hardware(
        &self,
        clock: &Clock,
        span: SpanId,
        spans: &Spans,
        commands: FlashCommands,
    ) {
        if let Some(hardware) = &self.hardware {
            hardware.command(clock, self.site(WorkKind::Command), span, spans, commands).await;
        }
    }

    /// Whether the flash is across a link.
    pub(crate) fn has_hardware(&self) -> bool {
        self.hardware.is_some()
    }

    /// Submits `operations` to the drive's data end: by messages, if the requesting firmware runs elsewhere.
    pub async fn command_data_end(
        &self,
        clock: &Clock,
        context: WorkContext,
        spans: &Spans,
        operations: u64,
    ) {
        let Some(time) = self.agent.filter(|_| operations > 0) else { return };
        let Some(distance) = self.distance(WorkKind::Agent, context.route) else { return };
        let queued = distance.write(operations.saturating_mul(SiteLink::LINE_BYTES)).await;
        spans.charge_split(context.span, clock.now(), queued, Stage::Link);
        let service = self.site(WorkKind::Agent).spend(WorkKind::Agent, time * operations);
        clock.sleep_until(service.end).await;
        spans.charge_split(context.span, clock.now(), service.queued, Stage::Firmware);
    }

    /// Peak bytes of bounce buffers in use; they are never freed.
    pub fn bounce_bytes(&self) -> u64 {
        self.bounce.as_ref().map_or(0, |bounce| bounce.most.get())
    }

    /// Copies the `bytes` of a payload through bounce buffers, if there are any, on the processor that serves
    /// the command.
    pub async fn copy_payload(&self, clock: &Clock, context: WorkContext, spans: &Spans, bytes: u64) {
        let Some(bounce) = self.bounce.as_deref().filter(|_| bytes > 0) else { return };
        bounce.held.set(bounce.held.get() + bytes);
        bounce.most.set(bounce.most.get().max(bounce.held.get()));
        let _held = Bounced { bounce, bytes };
        let site = self.site_by(WorkKind::Copy, context.route);
        let passage = self.site(WorkKind::Copy).dram("copy", 2 * bytes);
        let service = site.spend(WorkKind::Copy, bounce.rate.time_for(bytes));
        clock.sleep_until(service.end).await;
        spans.charge_split(context.span, clock.now(), service.queued, Stage::Firmware);
        clock.sleep_until(passage.arrival).await;
        spans.charge(context.span, clock.now(), Stage::Dram);
    }

    /// Reports `units` programmed units to a map on the host.
    pub(crate) fn programmed(&self, units: u64) {
        if let Some(on_host) = self.on_host.as_ref().filter(|on_host| on_host.map && units > 0) {
            on_host.link.to_host(units * TOLD_BYTES);
        }
    }

    /// Whether the host decides on garbage collection.
    pub(crate) fn asks_to_collect(&self) -> bool {
        self.on_host.as_ref().is_some_and(|on_host| on_host.collection)
    }

    /// Asks the host to decide on moving `units`, across the link and back.
    pub(crate) async fn ask_to_collect(&self, clock: &Clock, units: u64) {
        let Some(on_host) = &self.on_host else { return };
        clock.sleep_until(on_host.link.to_host(ASKED_BYTES)).await;
        let service = self.reserve(WorkKind::Collect, units);
        clock.sleep_until(service.end).await;
        clock.sleep_until(on_host.link.to_drive(DECIDED_BYTES)).await;
    }

    /// Whether commands enter it by calls, by a lock or by work of its own, or its flash is across a link.
    pub(crate) fn is_apart(&self) -> bool {
        self.lock.is_some()
            || self.calls.is_some()
            || self.has_hardware()
            || self.cycles.of(WorkKind::Enter) > 0
    }

    /// Enters the translation layer for a command: call, lock and [`WorkKind::Enter`], all charged.
    /// Background work is already inside and does not enter. Hold the result until the work is done.
    pub(crate) async fn enter(&self, clock: &Clock, context: WorkContext, spans: &Spans) -> Entered {
        let WorkContext { span, route } = context;
        let mut entered = Entered { _call: None, _lock: None };
        let is_call = route != Route::OWN;
        if let Some(calls) = self.calls.as_ref().filter(|_| is_call)
            && let Some(turn) = calls.by_route.get(usize::from(route.0) - 1)
        {
            entered._call = Some(turn.acquire(1).await);
            spans.wait(span, clock.now(), Awaited::Entry);
            if calls.wait > Delay::ZERO {
                clock.sleep(calls.wait).await;
                spans.charge(span, clock.now(), Stage::Firmware);
            }
        }
        if let Some(lock) = &self.lock {
            entered._lock = Some(lock.acquire().await);
            spans.wait(span, clock.now(), Awaited::Entry);
        }
        if is_call && self.cycles.of(WorkKind::Enter) > 0 {
            let service = self.reserve_by(route, WorkKind::Enter, 1);
            clock.sleep_until(service.end).await;
            spans.charge_split(span, clock.now(), service.queued, Stage::Firmware);
        }
        entered
    }

    /// Adds a route: as [`Route::OWN`], but with all work at `site`. The map and the write buffer stay where
    /// they are. None if there are 256 routes already.
    pub fn add_route_to(&mut self, clock: &Clock, site: &Site) -> Option<Route> {
        let route = Route(u8::try_from(self.sites.len()).ok()?);
        self.sites.push(std::array::from_fn(|_| site.clone()));
        if let Some(calls) = &mut self.calls {
            calls.by_route.push(Rc::new(Semaphore::new(clock, 1)));
        }
        Some(route)
    }

    /// Adds a route: as [`Route::OWN`], but with `work` at `site`. The map and the write buffer stay where
    /// they are. None if there are 256 routes already.
    pub fn add_route(&mut self, work: WorkKind, site: &Site) -> Option<Route> {
        let route = Route(u8::try_from(self.sites.len()).ok()?);
        let mut sites = self.sites[0].clone();
        sites[work as usize] = site.clone();
        self.sites.push(sites);
        Some(route)
    }

    /// The site of `work` for commands by [`Route::OWN`].
    pub fn site(&self, work: WorkKind) -> &Site {
        &self.sites[0][work as usize]
    }

    /// The site of `work` for commands by `route`. An unknown route counts as [`Route::OWN`].
    pub fn site_by(&self, work: WorkKind, route: Route) -> &Site {
        match self.sites.get(route.0 as usize) {
            Some(sites) => &sites[work as usize],
            None => self.site(work),
        }
    }

    /// The link between the site that does `work` by `route` and the DRAM that holds the work's data, if they
    /// are apart.
    pub(crate) fn distance(&self, work: WorkKind, route: Route) -> Option<&SiteLink> {
        if route == Route::OWN {
            return None;
        }
        let (site, holder) = (self.site_by(work, route), self.site(work));
        let is_between = |(from, to, _): &&(Site, Site, SiteLink)| from.is(site) && to.is(holder);
        self.distances.iter().find(is_between).map(|(.., distance)| distance)
    }

    /// The cost of each kind in cycles.
    pub fn cycles(&self) -> &Cycles {
        &self.cycles
    }

    /// Reserves cores for `count` times `work`. The caller waits for the end.
    #[inline]
    pub fn reserve(&self, work: WorkKind, count: u64) -> Service {
        self.reserve_by(Route::OWN, work, count)
    }

    /// Like [`reserve`](Placement::reserve), for commands by `route`.
    pub fn reserve_by(&self, route: Route, work: WorkKind, count: u64) -> Service {
        let (site, cycles) = (self.site_by(work, route), self.cycles.of(work).saturating_mul(count));
        if route != Route::OWN {
            site.note_lent(cycles);
        }
        site.reserve(work, cycles)
    }

    /// Whether a peer does the work of `route`.
    pub(crate) fn is_lent(&self, route: Route) -> bool {
        route != Route::OWN && self.agent.is_some()
    }

    /// Does `count` times `work` by `route`, and waits for the end. Returns the time spent waiting for a
    /// core. Work that a peer does for this drive, by messages to its [agent](Placement::with_agent), comes
    /// after the peer's own work.
    pub async fn work_by(&self, clock: &Clock, route: Route, work: WorkKind, count: u64) -> Delay {
        if self.is_lent(route) {
            return self.site_by(work, route).work_lent(work, self.cycles.of(work), count).await;
        }
        let service = self.reserve_by(route, work, count);
        clock.sleep_until(service.end).await;
        service.queued
    }

    /// Reserves cores for buffering `count` units and, at the same site, `look_ups` look-ups, as one piece of work.
    pub(crate) fn reserve_buffering(&self, route: Route, count: u64, look_ups: u64) -> Service {
        let site = self.site_by(WorkKind::Buffer, route);
        let cycles = |work, count| (work, self.cycles().of(work).saturating_mul(count));
        match look_ups > 0 && site.is(self.site_by(WorkKind::Translate, route)) {
            true => {
                let (buffer, translate) =
                    (cycles(WorkKind::Buffer, count), cycles(WorkKind::Translate, look_ups));
                if route != Route::OWN {
                    site.note_lent(buffer.1.saturating_add(translate.1));
                }
                site.reserve_both(buffer, translate)
            }
            false => self.reserve_by(route, WorkKind::Buffer, count),
        }
    }

    /// Reserves cores for `first` and then `second`, without a gap. The caller waits for the end. None if
    /// they run at different sites.
    #[inline]
    pub fn chain(&self, first: WorkKind, second: WorkKind) -> Option<Service> {
        let with_cycles = |work| (work, self.cycles.of(work));
        let site = self.site(first);
        site.is(self.site(second)).then(|| site.reserve_both(with_cycles(first), with_cycles(second)))
    }

    /// Like [`chain`](Placement::chain), at any sites: waits for the first work if the sites differ. Returns
    /// the reservation of the last work, whose end the caller waits for.
    pub async fn chain_apart(&self, first: WorkKind, second: WorkKind) -> Service {
        if let Some(both) = self.chain(first, second) {
            return both;
        }
        let before = self.run(first, 1).await;
        let after = self.reserve(second, 1);
        Service { queued: before.queued + after.queued, end: after.end }
    }

    /// Notes that the work of one command, these pieces, was done for another drive.
    pub fn note_lent(&self, works: &[WorkKind]) {
        works.iter().for_each(|work| self.site(*work).note_lent(self.cycles.of(*work)));
    }

    /// Does `count` times `work`, in sequence on one core.
    pub async fn run(&self, work: WorkKind, count: u64) -> Service {
        self.site(work).work(work, self.cycles.of(work).saturating_mul(count)).await
    }

    /// Does `count` times [`WorkKind::Translate`] and the map access that it waits for, and charges both.
    pub(crate) async fn translate(&self, clock: &Clock, context: WorkContext, spans: &Spans, count: u64) {
        let WorkContext { span, route } = context;
        let _entered = self.enter(clock, context, spans).await;
        let access = self.site(WorkKind::Translate).dram_latency();
        let Some(distance) = self.distance(WorkKind::Translate, route) else {
            let service = self.reserve_by(route, WorkKind::Translate, count);
            clock.sleep_until(service.end + access).await;
            let now = clock.now();
            spans.charge_split(span, service.end.min(now), service.queued, Stage::Firmware);
            if access > Delay::ZERO {
                spans.charge(span, now, Stage::Dram);
            }
            return;
        };
        let queued = self.work_by(clock, route, WorkKind::Translate, count).await;
        spans.charge_split(span, clock.now(), queued, Stage::Firmware);
        let queued = distance.read(SiteLink::LINE_BYTES, access).await;
        spans.charge_split(span, clock.now(), queued, Stage::Dram);
    }

    /// Writes a changed map entry back to the DRAM that holds it, if that is at another site.
    pub(crate) async fn update_map(&self, clock: &Clock, context: WorkContext, spans: &Spans) {
        if let Some(distance) = self.distance(WorkKind::Translate, context.route) {
            let queued = distance.write(SiteLink::LINE_BYTES).await;
            spans.charge_split(context.span, clock.now(), queued, Stage::Dram);
        }
    }

    /// Moves `bytes` into the DRAM of the write buffer: from the site that does the buffering, or, with an
    /// [agent](Placement::with_agent), from the host by the drive's own DMA.
    pub(crate) async fn add_to_buffer(&self, clock: &Clock, context: WorkContext, spans: &Spans, bytes: u64) {
        let mut queued = Delay::ZERO;
        if let Some(distance) =
            self.distance(WorkKind::Buffer, context.route).filter(|_| self.agent.is_none())
        {
            queued += distance.write(bytes).await;
        }
        let passage = self.site(WorkKind::Buffer).dram("into the buffer", bytes);
        clock.sleep_until(passage.arrival).await;
        spans.charge_split(context.span, clock.now(), queued + passage.queued, Stage::Dram);
    }

    /// Moves `bytes` out of the DRAM of the write buffer likewise.
    pub(crate) async fn take_from_buffer(
        &self,
        clock: &Clock,
        context: WorkContext,
        spans: &Spans,
        bytes: u64,
    ) {
        let mut queued = Delay::ZERO;
        let passage = self.site(WorkKind::Buffer).dram("out of the buffer", bytes);
        clock.sleep_until(passage.arrival).await;
        if let Some(distance) =
            self.distance(WorkKind::Buffer, context.route).filter(|_| self.agent.is_none())
        {
            queued += distance.read(bytes, Delay::ZERO).await;
        }
        spans.charge_split(context.span, clock.now(), queued + passage.queued, Stage::Dram);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::{Delay, Executor, Rate, Time};

    // Work placed elsewhere must cost time there and none here; otherwise placement would have no effect.
    #[test]
    fn work_keeps_the_cores_of_its_own_site_busy() {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let rate = Rate::per_second(1_000_000_000);
        let here = Site::new(&clock, 2, 1_000_000_000, Delay::from_ns(100), rate);
        let there = Site::new(&clock, 1, 500_000_000, Delay::from_ns(100), rate);
        let cycles = Cycles::FREE.with(WorkKind::Parse, 300).with(WorkKind::Translate, 100);
        let placement = Placement::all_at(&here, cycles).with(WorkKind::Translate, &there);
        let now = executor.run(async move {
            placement.run(WorkKind::Parse, 1).await;
            placement.run(WorkKind::Complete, 5).await;
            placement.run(WorkKind::Translate, 3).await;
            clock.now()
        });
        assert_eq!(now, Ok(Time(300_000 + 600_000)));
        assert_eq!((here.busy(), here.served()), (Delay::from_ns(300), 1));
        assert_eq!((there.busy(), there.served()), (Delay::from_ns(600), 1));
    }
}
