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

mod binding;
mod daemon;
mod member;
mod platform;

use binding::Bound;
use byteway_clock::random::Rng;
use byteway_clock::{Clock, Delay, Owner, Station, TaskId};
use byteway_device::{ConfigError, Drive, DriveConfig};
use byteway_firmware::{Placement, Route, Site};
use byteway_host::driver::{Driver, DriverConfig, QueueConfig};
use byteway_host::{DriverError, Port, QueuePair, Redirection};
use byteway_jbof::descriptor::IdleTable;
use byteway_jbof::fabric::{Fabric, FabricConfig, Node};
use byteway_jbof::policy;
use byteway_link::{Memory, PcieConfig};
use byteway_world::{DriveBay, PoweredDrive};
use member::Member;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

pub use member::MemberFigures;
pub use platform::{CentralConfig, Copyback, HostConfig, Platform, VirtualConfig};

/// A box, but for its drives.
#[derive(Clone, Debug)]
pub struct JbofConfig {
    /// Each drive's link to the host.
    pub link: PcieConfig,
    /// What lies between the drives, and the host.
    pub fabric: FabricConfig,
    /// What the drives share.
    pub platform: Platform,
    /// The host.
    pub host: HostConfig,
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
            platform: Platform::Lending { processor: true, dram: false },
            host: HostConfig::default(),
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

/// A drive of a box, and what its driver is to be like.
pub struct BoxedDrive {
    /// What it is called in messages.
    pub name: Option<String>,
    /// The drive.
    pub config: DriveConfig,
    /// Its driver. There is one queue pair more than it wants: the one that the drive lends.
    pub driver: DriverConfig,
    /// The processor that submits the commands of others by that queue pair; none: the driver's.
    pub lent_cpu: Option<Rc<Station>>,
}

impl From<DriveConfig> for BoxedDrive {
    fn from(config: DriveConfig) -> BoxedDrive {
        BoxedDrive { name: None, config, driver: DriverConfig::default(), lent_cpu: None }
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
        Jbof::power_on_driven(clock, config, drives.into_iter().map(BoxedDrive::from).collect()).await
    }

    /// The same, with what the drivers are to be like. In a trace what a drive uses belongs to the owner with its number ([`Owner`]).
    ///
    /// # Errors
    /// As [`Jbof::power_on`].
    pub async fn power_on_driven(
        clock: &Clock,
        config: JbofConfig,
        drives: Vec<BoxedDrive>,
    ) -> Result<Jbof, JbofError> {
        let count = drives.len();
        if !(1..=DRIVES_MAX).contains(&count) {
            return Err(JbofError::Count(count));
        }
        if config.fabric.drives != count {
            return Err(JbofError::Fabric { ports: config.fabric.drives, drives: count });
        }
        let fabric = Fabric::new(clock, config.fabric.clone());
        let owned = |number: usize| clock.owned_by(Owner(number as u16));
        let sites = drives.iter().enumerate();
        let sites: Vec<Site> =
            sites.map(|(number, drive)| Drive::site(&owned(number), &drive.config)).collect();
        let mut members = Vec::with_capacity(count);
        for (number, BoxedDrive { name, config: drive, driver, lent_cpu }) in drives.into_iter().enumerate() {
            let clock = &owned(number);
            let own = Placement::all_at(&sites[number], drive.site.cycles);
            let (placement, routes) = match config.platform.lends_processors() {
                true => lent_to(clock, own.with_agent(config.agent), &fabric, &sites, number),
                false => (own, Vec::new()),
            };
            let bay = DriveBay::new(clock, config.link.clone(), Memory::simulated());
            let powered = bay.power_on_placed(drive, sites[number].clone(), placement, None);
            let mut powered = powered.map_err(|error| JbofError::Config { drive: number, error })?;
            powered.name = name;
            let failed = |error| JbofError::Driver { drive: number, error };
            let port = Port::Link(powered.host.clone());
            let driver = Driver::attach(
                port,
                DriverConfig { queues_wanted: driver.queues_wanted.saturating_add(1), ..driver },
            )
            .await
            .map_err(failed)?;
            let lent = QueueConfig { cpu: lent_cpu, ..QueueConfig::new(config.entries) };
            let shadow = driver.create_queue_pair(lent).await.map_err(failed)?;
            members.push(Member {
                powered: Rc::new(powered),
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
        if inner.config.platform.lends_processors() {
            let daemons =
                (0..count).map(|number| inner.clock.spawn("daemon", daemon::daemon(inner.clone(), number)));
            let mut tasks: Vec<TaskId> = daemons.collect();
            tasks.push(inner.clock.spawn("binding", binding::bind(inner.clone())));
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
        self.queue_pair_of(drive, QueueConfig::new(self.0.config.entries)).await
    }

    /// The same, with entries, processor and class of its own.
    ///
    /// # Errors
    /// As [`Jbof::queue_pair`].
    ///
    /// # Panics
    /// There is no such drive.
    pub async fn queue_pair_of(&self, drive: usize, queue: QueueConfig) -> Result<QueuePair, JbofError> {
        let Inner { clock, config, members, .. } = &*self.0;
        let member = &members[drive];
        let failed = |error| JbofError::Driver { drive, error };
        let queue = member.driver.create_queue_pair(queue).await.map_err(failed)?;
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
    pub fn drive(&self, drive: usize) -> &Rc<PoweredDrive> {
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
