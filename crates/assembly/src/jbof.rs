//! A box of drives on one coherent fabric, which lend each other processors ("Espresso", 4.2 to 4.4).
//!
//! Every drive has a daemon in its firmware. At the end of each period it looks how busy its cores and its flash channels were, and
//! lends a processor, borrows one, or does neither ([`policy`]). What it lends stands in its idle-resource table, which its peers read
//! over the fabric. The host looks as well, binds the queue pairs that lenders lend ([`Redirection`]), and sets which part of a queue
//! pair's commands goes by which. In what order these look makes no difference: [`descriptor`](byteway_jbof::descriptor) has the steps.
//!
//! A lender's firmware works on the borrower's map over the fabric, and commands the borrower's flash and DMA by messages to its agent
//! ([`Placement::with_agent`]); payload goes between host and borrower by the borrower's own link. Collection stays at home.
//!
//! What it does not do: DRAM is not lent. A lock of the map between lender and borrower costs nothing beyond the lines that cross: the
//! map of a simulated drive is one, and is always coherent. A drive lends one processor at a time, to one borrower.

use byteway_clock::random::Rng;
use byteway_clock::{Clock, Delay, TaskId, Time};
use byteway_device::{ConfigError, Drive, DriveConfig};
use byteway_firmware::{Placement, Route, Site, Work};
use byteway_host::driver::{Driver, DriverConfig, QueueConfig};
use byteway_host::{DriverError, Port, QueuePair, Redirection, ShadowId};
use byteway_jbof::DriveId;
use byteway_jbof::descriptor::{DESCRIPTORS, Descriptor, IdleTable, Resource, TABLE_BYTES, Utilisation};
use byteway_jbof::fabric::{Fabric, FabricConfig, LINE_BYTES, Node};
use byteway_jbof::policy::{self, Action, Load, Weight};
use byteway_link::{Memory, PcieConfig};
use byteway_world::{DriveBay, PoweredDrive};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A box, but for its drives.
#[derive(Clone, Debug)]
pub struct JbofConfig {
    /// Each drive's link to the host.
    pub link: PcieConfig,
    /// What lies between the drives, and the host.
    pub fabric: FabricConfig,
    /// Whether drives lend each other processors.
    pub lends: bool,
    /// How often daemons and host look. 4.2: 10 ms.
    pub period: Delay,
    /// Above it something is busy. 4.4: 75 %.
    pub watermark: f64,
    /// An operation of flash or DMA out of the queue that peers put it into. 4.6: 114.2 ns.
    pub agent: Delay,
    /// What a daemon's look takes of a core.
    pub daemon: Delay,
    /// Processor time of the host for each command of a queue pair that is redirected in part. 5.3: 20 ns.
    pub redirect: Delay,
    /// Entries of a queue pair.
    pub entries: u32,
    /// Chooses which command goes where.
    pub seed: u64,
}

impl JbofConfig {
    /// With the paper's parameters.
    pub fn new(link: PcieConfig, drives: usize, seed: u64) -> Self {
        JbofConfig {
            link,
            fabric: FabricConfig::of_drives(drives),
            lends: true,
            period: Delay::from_ms(10),
            watermark: policy::WATERMARK,
            agent: Delay(114_200),
            daemon: Delay::from_us(5),
            redirect: Delay::from_ns(20),
            entries: 256,
            seed,
        }
    }
}

/// Why there is no such box.
#[derive(Debug, thiserror::Error)]
pub enum JbofError {
    /// There can be no such drive.
    #[error("drive {drive}: {error}")]
    Config {
        /// Which.
        drive: usize,
        /// What is wrong.
        error: ConfigError,
    },
    /// More drives than their numbers can name, or none.
    #[error("a box has 1 to {DRIVES_MAX} drives, not {0}")]
    Count(usize),
    /// The fabric has another number of ports.
    #[error("a fabric for {ports} drives has {drives}")]
    Fabric {
        /// Its ports.
        ports: usize,
        /// The drives.
        drives: usize,
    },
    /// A drive's controller does not do as it must.
    #[error("drive {drive}: {error}")]
    Driver {
        /// Which.
        drive: usize,
        /// What it did.
        error: DriverError,
    },
}

/// Drives of a box, at most: a number of 8 bits, of which FFh is none; and a drive has 256 routes, of which one is its own.
pub const DRIVES_MAX: usize = 255;

/// A drive of a box.
struct Member {
    powered: PoweredDrive,
    site: Site,
    driver: Driver,
    table: IdleTable,
    /// By which route of this drive's placement each peer works for it.
    routes: Vec<Option<Route>>,
    /// The queue pair that it lends.
    shadow: QueuePair,
    /// The descriptor of that, if it is lent, or is not over.
    lends: Cell<Option<usize>>,
    /// Queue pairs that its users have, which commands may leave.
    own: RefCell<Vec<Redirection>>,
    /// What it borrows: of which peer, by which descriptor.
    borrows: Cell<Option<(usize, usize)>>,
    figures: Cell<MemberFigures>,
}

/// By what a lender's part becomes larger in a period, at most; and the least that it is.
const MORE: f64 = 1.25;
const LEAST: f64 = 0.01;

/// What the host has bound: a shadow queue pair of a lender to a queue pair of a borrower.
struct Bound {
    lender: usize,
    index: usize,
    borrower: usize,
    redirection: Redirection,
    id: ShadowId,
    /// No larger part of the commands goes there: what leaves the lender below the watermark.
    most: Cell<f64>,
}

/// What a drive has done for its peers, and they for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberFigures {
    /// How often it has borrowed a processor.
    pub borrowed: u64,
    /// How often it has lent its own.
    pub lent: u64,
    /// How busy its cores were in the last period.
    pub processor: Utilisation,
    /// How busy its flash channels were, in the mean.
    pub data_end: Utilisation,
}

/// A box whose drives have power, with drivers attached.
pub struct Jbof(Rc<Inner>);

struct Inner {
    clock: Clock,
    config: JbofConfig,
    fabric: Fabric,
    members: Vec<Member>,
    bound: RefCell<Vec<Bound>>,
    tasks: RefCell<Vec<TaskId>>,
}

impl Jbof {
    /// Gives power to drives like these, attaches a driver to each, and starts what makes them lend.
    ///
    /// # Errors
    /// There can be no such box, or a controller does not do as it must.
    pub async fn power_on(
        clock: &Clock,
        config: JbofConfig,
        drives: Vec<DriveConfig>,
    ) -> Result<Jbof, JbofError> {
        let count = drives.len();
        if !(1..=DRIVES_MAX).contains(&count) {
            return Err(JbofError::Count(count));
        }
        if config.fabric.drives != count {
            return Err(JbofError::Fabric { ports: config.fabric.drives, drives: count });
        }
        let fabric = Fabric::new(clock, config.fabric.clone());
        let sites: Vec<Site> = drives.iter().map(|drive| Drive::site(clock, drive)).collect();
        let mut members = Vec::with_capacity(count);
        for (number, drive) in drives.into_iter().enumerate() {
            let own = Placement::all_at(&sites[number], drive.site.cycles);
            let (placement, routes) = match config.lends {
                true => lent_to(clock, own.with_agent(config.agent), &fabric, &sites, number),
                false => (own, Vec::new()),
            };
            let bay = DriveBay::new(clock, config.link.clone(), Memory::simulated());
            let powered = bay.power_on_placed(drive, sites[number].clone(), placement, None);
            let powered = powered.map_err(|error| JbofError::Config { drive: number, error })?;
            let failed = |error| JbofError::Driver { drive: number, error };
            let port = Port::Link(powered.host.clone());
            let driver = Driver::attach(port, DriverConfig::default()).await.map_err(failed)?;
            let shadow = driver.create_queue_pair(QueueConfig::new(config.entries)).await.map_err(failed)?;
            members.push(Member {
                powered,
                site: sites[number].clone(),
                driver,
                table: IdleTable::default(),
                routes,
                shadow,
                lends: Cell::default(),
                own: RefCell::default(),
                borrows: Cell::default(),
                figures: Cell::default(),
            });
        }
        let (clock, bound, tasks) = (clock.clone(), RefCell::default(), RefCell::default());
        let inner = Rc::new(Inner { clock, config, fabric, members, bound, tasks });
        if inner.config.lends {
            let daemons = (0..count).map(|number| inner.clock.spawn("daemon", daemon(inner.clone(), number)));
            let mut tasks: Vec<TaskId> = daemons.collect();
            tasks.push(inner.clock.spawn("binding", bind(inner.clone())));
            inner.tasks.replace(tasks);
        }
        Ok(Jbof(inner))
    }

    /// A queue pair to a drive, some of whose commands may go by those of its peers.
    ///
    /// # Errors
    /// The controller does not give one.
    ///
    /// # Panics
    /// There is no such drive.
    pub async fn queue_pair(&self, drive: usize) -> Result<QueuePair, JbofError> {
        let Inner { clock, config, members, .. } = &*self.0;
        let member = &members[drive];
        let failed = |error| JbofError::Driver { drive, error };
        let queue =
            member.driver.create_queue_pair(QueueConfig::new(config.entries)).await.map_err(failed)?;
        let name = format!("redirection/{drive}/{}", member.own.borrow().len());
        let draws = Rng::new(config.seed).stream(&name);
        let redirection = Redirection::new(clock, queue, draws, config.redirect);
        let used = redirection.queue();
        member.own.borrow_mut().push(redirection);
        Ok(used)
    }

    /// How many drives.
    pub fn len(&self) -> usize {
        self.0.members.len()
    }

    /// Whether it has none: never.
    pub fn is_empty(&self) -> bool {
        self.0.members.is_empty()
    }

    /// A drive.
    ///
    /// # Panics
    /// There is no such drive.
    pub fn drive(&self, drive: usize) -> &PoweredDrive {
        &self.0.members[drive].powered
    }

    /// Its driver.
    ///
    /// # Panics
    /// There is no such drive.
    pub fn driver(&self, drive: usize) -> &Driver {
        &self.0.members[drive].driver
    }

    /// What it has done for its peers, and they for it.
    ///
    /// # Panics
    /// There is no such drive.
    pub fn figures(&self, drive: usize) -> MemberFigures {
        self.0.members[drive].figures.get()
    }

    /// Commands of a drive's users that went by its peers, of all.
    ///
    /// # Panics
    /// There is no such drive.
    pub fn redirected(&self, drive: usize) -> (u64, u64) {
        let own = self.0.members[drive].own.borrow();
        own.iter()
            .map(Redirection::figures)
            .fold((0, 0), |sum, figures| (sum.0 + figures.redirected, sum.1 + figures.commands))
    }

    /// What the drives are on.
    pub fn fabric(&self) -> &Fabric {
        &self.0.fabric
    }
}

impl Drop for Jbof {
    fn drop(&mut self) {
        for task in self.0.tasks.take() {
            self.0.clock.kill(task);
        }
    }
}

/// The placement of a drive whose peers may work for it, and by which route each does.
fn lent_to(
    clock: &Clock,
    mut placement: Placement,
    fabric: &Fabric,
    sites: &[Site],
    number: usize,
) -> (Placement, Vec<Option<Route>>) {
    let mut routes = Vec::with_capacity(sites.len());
    for (peer, site) in sites.iter().enumerate() {
        if peer == number {
            routes.push(None);
            continue;
        }
        let distance = fabric.distance(Node::Drive(peer), Node::Drive(number));
        placement = placement.with_distance(site, &sites[number], &distance);
        routes.push(placement.add_route_to(clock, site));
    }
    (placement, routes)
}

/// Where a resource monitor was at the end of the last period.
#[derive(Default)]
struct Then {
    at: Time,
    cores: Delay,
    lent: Delay,
    channels: Delay,
}

/// A drive's daemon: monitor and manager.
async fn daemon(inner: Rc<Inner>, number: usize) {
    let Inner { clock, config, members, .. } = &*inner;
    let member = &members[number];
    let mut then = Then { at: clock.now(), ..Then::default() };
    loop {
        clock.sleep(config.period).await;
        let (processor, own, data_end) = member.monitor(clock.now(), &mut then);
        let service = member.site.spend(Work::Poll, config.daemon);
        clock.sleep_until(service.end).await;
        // What it does for a borrower is no reason to end that: it lends what its own work leaves.
        let action = policy::action(own, data_end, config.watermark);
        member.lend(&inner, number, action == Action::Lend && member.borrows.get().is_none());
        inner.borrow(number, action == Action::Borrow, processor).await;
    }
}

impl Member {
    /// How busy cores were since `then`, how busy with the drive's own work, and how busy channels were.
    fn monitor(&self, now: Time, then: &mut Then) -> (f64, f64, f64) {
        let (cores, lent) = (self.site.busy(), self.site.lent());
        let flash = self.powered.arrays();
        let count: u32 = flash.iter().map(|flash| flash.geometry().channels).sum();
        let channels = flash.iter().fold(Delay::ZERO, |sum, flash| {
            (0..flash.geometry().channels).fold(sum, |sum, channel| sum + flash.channel_busy(channel))
        });
        let elapsed = now.since(then.at).0.max(1);
        let share = |busy: Delay, of: usize| busy.0 as f64 / (elapsed * of.max(1) as u64) as f64;
        let processor = share(cores.saturating_sub(then.cores), self.site.cores());
        let for_others = share(lent.saturating_sub(then.lent), self.site.cores());
        let data_end = share(channels.saturating_sub(then.channels), count as usize);
        *then = Then { at: now, cores, lent, channels };
        self.count(|figures| {
            (figures.processor, figures.data_end) = (Utilisation::of(processor), Utilisation::of(data_end));
        });
        (processor, (processor - for_others).max(0.0), data_end)
    }

    fn count(&self, change: impl FnOnce(&mut MemberFigures)) {
        let mut figures = self.figures.get();
        change(&mut figures);
        self.figures.set(figures);
    }

    /// Lends its processor, or ends that; and takes the steps that have become possible.
    fn lend(&self, inner: &Inner, number: usize, wants: bool) {
        let (busy, controller, qid) =
            (self.figures.get().processor, &self.powered.drive.controller, self.shadow.qid());
        let Some(index) = self.lends.get() else {
            if wants {
                let (borrower, directory, borrower_queue) = Default::default();
                let (lender, shadow_queue) = (busy, self.shadow.cqid());
                let resource =
                    Resource::Processor { borrower, lender, directory, borrower_queue, shadow_queue };
                self.lends.set(self.table.publish(resource));
            }
            return;
        };
        self.table.update(index, |resource| {
            if let Resource::Processor { lender, .. } = resource {
                *lender = busy;
            }
        });
        if !wants {
            self.table.withdraw(index);
        }
        match self.table.read(index) {
            Some(Descriptor { served: true, .. }) => {
                if self.table.is_service_over(index) && controller.take_back(qid).is_ok() {
                    self.table.end_service(index);
                }
            }
            Some(Descriptor { valid: true, borrower: Some(borrower), .. }) => {
                let borrower = &inner.members[usize::from(borrower.0)];
                let route = borrower.routes[number];
                let lent = route.map(|route| controller.lend(qid, &borrower.powered.drive.controller, route));
                if lent.is_some_and(|loan| loan.is_ok()) {
                    self.table.serve(index);
                    self.count(|figures| figures.lent += 1);
                }
            }
            Some(_) | None => {}
        }
        if self.table.read(index).is_none() {
            self.lends.set(None);
        }
    }
}

impl Inner {
    /// Reads a table over the fabric.
    async fn read_table(&self, from: Node, of: usize) {
        let asked = self.fabric.send(from, Node::Drive(of), 0);
        self.clock.sleep_until(asked.arrival).await;
        let table = self.fabric.send(Node::Drive(of), from, TABLE_BYTES as u64);
        self.clock.sleep_until(table.arrival).await;
    }

    /// Has a drive borrow a processor of a peer, or give back what it has.
    async fn borrow(&self, number: usize, wants: bool, processor: f64) {
        let (member, me) = (&self.members[number], DriveId(number as u8));
        let here = Node::Drive(number);
        if let Some((lender, index)) = member.borrows.get() {
            let table = &self.members[lender].table;
            // What it says is a line that crosses, like what it gives back.
            let said = self.fabric.send(here, Node::Drive(lender), LINE_BYTES);
            self.clock.sleep_until(said.arrival).await;
            let has = table.read(index).filter(|it| it.valid && it.borrower == Some(me));
            match has.map(|it| it.resource) {
                // It is less busy because a part of its commands goes elsewhere: what the lender does may all be for it.
                Some(Resource::Processor { lender, .. })
                    if !wants && processor + lender.share() <= self.config.watermark =>
                {
                    table.give_back(index, me);
                    member.borrows.set(None);
                }
                Some(_) => table.update(index, |resource| {
                    if let Resource::Processor { borrower, .. } = resource {
                        *borrower = Utilisation::of(processor);
                    }
                }),
                None => member.borrows.set(None),
            }
            return;
        }
        if !wants || member.lends.get().is_some() {
            return;
        }
        let mut offers = Vec::new();
        for peer in (0..self.members.len()).filter(|peer| *peer != number) {
            self.read_table(here, peer).await;
            let free = self.members[peer].table.iter().filter(|(_, it)| it.valid && it.borrower.is_none());
            offers
                .extend(free.filter(|(_, it)| !it.served && !it.bound).map(|(index, it)| (peer, index, it)));
        }
        let idle = |descriptor: &Descriptor| match descriptor.resource {
            Resource::Processor { lender, .. } => u64::from(u16::MAX - lender.0),
            Resource::Dram { .. } => 0,
        };
        // Half of what it needs, so that both are as busy.
        let wanted = (processor / 2.0 * f64::from(u16::MAX)) as u64;
        let Some(best) = policy::best_fit(offers.iter().map(|(.., it)| idle(it)), wanted) else { return };
        let (lender, index, seen) = offers[best];
        let claimed = self.fabric.send(here, Node::Drive(lender), LINE_BYTES);
        self.clock.sleep_until(claimed.arrival).await;
        let table = &self.members[lender].table;
        if table.claim(index, &seen, me).is_ok() {
            let busiest = {
                let own = member.own.borrow();
                own.iter().map(Redirection::queue).max_by_key(|queue| (queue.outstanding(), queue.qid()))
            };
            let queue = busiest.map_or(0, |queue| queue.cqid());
            table.update(index, |resource| {
                if let Resource::Processor { borrower_queue, borrower, .. } = resource {
                    (*borrower_queue, *borrower) = (queue, Utilisation::of(processor));
                }
            });
            member.borrows.set(Some((lender, index)));
            member.count(|figures| figures.borrowed += 1);
        }
    }
}

/// The host's part: it reads the tables, and binds and unbinds.
async fn bind(inner: Rc<Inner>) {
    let Inner { clock, config, members, .. } = &*inner;
    loop {
        clock.sleep(config.period).await;
        for lender in 0..members.len() {
            inner.read_table(Node::Host, lender).await;
            for index in 0..DESCRIPTORS {
                inner.bind_or_unbind(lender, index).await;
            }
        }
    }
}

impl Inner {
    async fn bind_or_unbind(self: &Rc<Self>, lender: usize, index: usize) {
        let table = &self.members[lender].table;
        let now = table.read(index);
        let at = self.bound.borrow().iter().position(|it| (it.lender, it.index) == (lender, index));
        match (at, now) {
            (None, Some(now)) if now.may_be_bound() => {
                let Some(borrower) = now.borrower.map(|drive| usize::from(drive.0)) else { return };
                let Resource::Processor { borrower_queue, .. } = now.resource else { return };
                let redirection = {
                    let own = self.members[borrower].own.borrow();
                    own.iter().find(|it| it.queue().cqid() == borrower_queue).cloned()
                };
                let Some(redirection) = redirection.filter(|_| table.bind(index).is_some()) else { return };
                let id = redirection.bind(self.members[lender].shadow.clone());
                let most = Cell::new(1.0);
                self.bound.borrow_mut().push(Bound { lender, index, borrower, redirection, id, most });
                self.share_out(borrower);
            }
            (Some(at), now) => {
                let (borrower, redirection, id) = {
                    let bound = self.bound.borrow();
                    let Bound { borrower, redirection, id, .. } = &bound[at];
                    (*borrower, redirection.clone(), *id)
                };
                let me = Some(DriveId(borrower as u8));
                if now.is_some_and(|now| now.may_be_bound() && now.borrower == me) {
                    self.share_out(borrower);
                    return;
                }
                redirection.unbind(id).await;
                self.bound.borrow_mut().retain(|it| (it.lender, it.index) != (lender, index));
                table.unbind(index);
                self.share_out(borrower);
            }
            (None, _) => {}
        }
    }

    /// Sets which part of a borrower's commands goes by which of its lenders: what the paper's formula says, but no more than leaves a
    /// lender below the watermark, so that its own work does not wait. The formula alone makes both equally busy, which is too busy
    /// where the borrower has no end of commands.
    fn share_out(&self, borrower: usize) {
        let bound = self.bound.borrow();
        let of_borrower: Vec<&Bound> = bound.iter().filter(|it| it.borrower == borrower).collect();
        let even = Weight { own: 1, all: 1 };
        let mut own = Utilisation::of(1.0);
        let mut lenders = Vec::with_capacity(of_borrower.len());
        for it in &of_borrower {
            let descriptor = self.members[it.lender].table.read(it.index);
            if let Some(Resource::Processor { borrower, lender, .. }) = descriptor.map(|it| it.resource) {
                own = borrower;
                lenders.push(Load { utilisation: lender, weight: even });
            }
        }
        let shares = policy::shares(Load { utilisation: own, weight: even }, &lenders);
        for ((it, share), load) in of_borrower.iter().zip(shares).zip(&lenders) {
            let room = self.config.watermark / load.utilisation.share().max(0.01);
            let most =
                if room < 1.0 { it.most.get().min(share) * room } else { it.most.get() * room.min(MORE) };
            it.most.set(most.clamp(LEAST, 1.0));
            it.redirection.set_share(it.id, share.min(it.most.get()));
        }
    }
}
