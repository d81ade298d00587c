//! A box of drives on one coherent fabric, which lend each other processors and DRAM ("Espresso", 4.2 to 4.5).
//!
//! Every drive has a daemon in its firmware. At the end of each period it looks how busy its cores and its flash channels were, and
//! lends a processor, borrows one, or does neither ([`policy`]). What it lends stands in its idle-resource table, which its peers read
//! over the fabric. The host looks as well, binds the queue pairs that lenders lend ([`Redirection`](byteway_host::Redirection)), and sets which part of a queue
//! pair's commands goes by which. In what order these look makes no difference: [`descriptor`](byteway_jbof::descriptor) has the steps.
//!
//! A lender's firmware works on the borrower's map over the fabric, and commands the borrower's flash and DMA by messages to its agent
//! ([`Placement::with_agent`]); payload goes between host and borrower by the borrower's own link. Collection stays at home.
//!
//! What it does not do: a lock of the map between lender and borrower costs nothing beyond the lines that cross: the
//! map of a simulated drive is one, and is always coherent. A drive lends one processor at a time, to one borrower; it may borrow of
//! several.
//!
//! | file | what |
//! |---|---|
//! | `member` | a slot and its drive; what a drive does as a lender |
//! | `daemon` | the firmware's look each period; what a drive does as a borrower |
//! | `dram` | the same for DRAM: what is lent, borrowed, reclaimed, returned, and lost |
//! | `host` | drivers, queue pairs and their weights |
//! | `binding` | the host's look each period: binding, draining, shares |
//! | `failure` | what fails, and how it is over |
//! | `platform` | what drives share, and who decides it: this, or one of the following |
//! | `central` | firmware of all drives on the host |
//! | `harvest` | a hypervisor on the host, which lets writes go to spare space of others |

mod binding;
mod central;
mod daemon;
mod dram;
mod failure;
mod harvest;
mod host;
mod member;
mod platform;

use binding::Bound;
use byteway_clock::{Clock, Delay, Owner, Resource, Semaphore, Station, TaskId};
use byteway_device::{ConfigError, Drive, DriveConfig};
use byteway_firmware::{HardwareFigures, Placement, Route, Site};
use byteway_flash::Medium;
use byteway_host::driver::{Driver, DriverConfig, QueueConfig};
use byteway_host::{DriverError, QueuePair, VirtualDrive};
use byteway_jbof::descriptor::IdleTable;
use byteway_jbof::fabric::{Fabric, FabricConfig, Node};
use byteway_jbof::policy;
use byteway_link::{HostEnd, Memory, PcieConfig};
use byteway_wire::nvme::QueuePriority;
use byteway_world::PoweredDrive;
use central::CentralDrive;
use harvest::Harvest;
use member::Member;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

pub use byteway_jbof::demand::SampleConfig;
pub use dram::{DramConfig, DramFigures};
pub use failure::{Canary, is_failure};
pub use host::QueueWeights;
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
    /// How often daemons and host look. 4.2: 10 ms. The host does so a quarter of a period after the drives: nothing depends on
    /// that, but a lender has its processor back sooner than by chance.
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
    /// How drives lend each other DRAM, where they do.
    pub dram: DramConfig,
    /// Peers whose processors a drive borrows at once, at most.
    pub loans_max: usize,
    /// The weights of queues, by NVMe's weighted round robin; none: queues take turns.
    pub weights: Option<QueueWeights>,
    /// After how long a command that a drive does not answer is aborted, and after as long again the drive is reset, and given up if
    /// that does not help: none: never.
    pub timeout: Option<Delay>,
    /// Chooses which command goes where.
    pub seed: u64,
    /// What is wrong on purpose.
    pub canary: Option<Canary>,
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
            dram: DramConfig::default(),
            loans_max: 4,
            weights: None,
            timeout: Some(Delay::from_ms(500)),
            seed,
            canary: None,
        }
    }
}

/// A drive of a box.
pub struct BoxedDrive {
    /// What it is called in messages.
    pub name: Option<String>,
    /// The drive.
    pub config: DriveConfig,
    /// What one like it has left; none: it is new.
    pub medium: Option<Medium>,
    /// What its driver is to be like; none: by [`JbofConfig::timeout`] and [`JbofConfig::weights`].
    pub driver: Option<DriverConfig>,
    /// The processor that submits the commands of others by the queue pair that it lends; none: the driver's.
    pub lent_cpu: Option<Rc<Station>>,
}

impl From<(DriveConfig, Option<Medium>)> for BoxedDrive {
    fn from((config, medium): (DriveConfig, Option<Medium>)) -> BoxedDrive {
        BoxedDrive { name: None, config, medium, driver: None, lent_cpu: None }
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
    /// The drive has no power, or the host has no driver for it now.
    #[error("drive {0} is gone")]
    Gone(usize),
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
    /// The host's processors, where what is central is theirs.
    cpu: Rc<Station>,
    /// The host's memory, where payload goes between it and more than one drive.
    memory: Memory,
    /// Of each drive, where firmware is the host's.
    central: Vec<CentralDrive>,
    /// Where drives are virtual, from the time on at which they have drivers.
    harvest: RefCell<Option<Rc<Harvest>>>,
    tasks: RefCell<Vec<TaskId>>,
    /// Whoever attaches drivers does so alone.
    attaching: Semaphore,
    /// Power-ons of drives, and queue pairs of users, that there were.
    lives: Cell<u64>,
    queues_made: Cell<u64>,
    host_restarts: Cell<u64>,
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
        let jbof = Jbof::give_power(clock, config, drives.into_iter().map(|drive| (drive, None)).collect())?;
        jbof.attach().await?;
        Ok(jbof)
    }

    /// Gives power to drives like these, each over the medium that one like it has left, or a new one. They lend nothing before there
    /// are [drivers](Jbof::attach). In a trace what a drive uses belongs to the owner with its number ([`Owner`]).
    ///
    /// # Errors
    /// There can be no such box.
    pub fn give_power(
        clock: &Clock,
        config: JbofConfig,
        drives: Vec<impl Into<BoxedDrive>>,
    ) -> Result<Jbof, JbofError> {
        let cpu = Station::new(clock, config.host.cores).keeping_names().traced_as(Resource::HostCore, 0);
        Jbof::give_power_at(clock, config, &Rc::new(cpu), drives)
    }

    /// The same with these processors of the host.
    ///
    /// # Errors
    /// As [`Jbof::give_power`].
    pub fn give_power_at(
        clock: &Clock,
        config: JbofConfig,
        cpu: &Rc<Station>,
        drives: Vec<impl Into<BoxedDrive>>,
    ) -> Result<Jbof, JbofError> {
        let cpu = cpu.clone();
        let drives: Vec<BoxedDrive> = drives.into_iter().map(Into::into).collect();
        let count = drives.len();
        if !(1..=DRIVES_MAX).contains(&count) {
            return Err(JbofError::Count(count));
        }
        if config.fabric.drives != count {
            return Err(JbofError::Fabric { ports: config.fabric.drives, drives: count });
        }
        let fabric = Fabric::new(clock, config.fabric.clone());
        let sites: Vec<Site> = match &config.platform {
            Platform::Central(_) => vec![config.host.site(clock, &cpu); count],
            _ => {
                let clock = |number| clock.owned_by(Owner(number as u16));
                let each = drives.iter().enumerate();
                each.map(|(number, drive)| Drive::site(&clock(number), &drive.config)).collect()
            }
        };
        let mut central = Vec::new();
        let mut members = Vec::with_capacity(count);
        let lends = config.platform.lends_processors();
        for (number, boxed) in drives.into_iter().enumerate() {
            let BoxedDrive { name, config: mut drive, medium, driver, lent_cpu } = boxed;
            drive.controller.borrows = lends;
            let own = Placement::all_at(&sites[number], drive.site.cycles);
            let (placement, routes) = match &config.platform {
                Platform::Lending { processor: true, .. } => {
                    lent_to(clock, own.with_agent(config.agent), &fabric, &sites, number)
                }
                Platform::Central(its) => {
                    drive = central::with_map_share(drive, &config.host, count);
                    let owned = clock.owned_by(Owner(number as u16));
                    central.push(CentralDrive::new(&owned, config.link.clone(), its));
                    (own.with_hardware(central[number].hardware.clone()), Vec::new())
                }
                Platform::Virtual(its) => {
                    drive = harvest::with_spare(drive, its);
                    (own, Vec::new())
                }
                Platform::Alone | Platform::Lending { .. } => (own, Vec::new()),
            };
            members.push(Member {
                name,
                config: drive,
                driver,
                lent_cpu,
                site: sites[number].clone(),
                placement,
                routes,
                present: RefCell::default(),
                medium: RefCell::new(medium),
                table: IdleTable::default(),
                attached: RefCell::default(),
                figures: Cell::default(),
            });
        }
        let jbof = Jbof(Rc::new(Inner {
            clock: clock.clone(),
            config,
            fabric,
            members,
            bound: RefCell::default(),
            cpu,
            memory: Memory::simulated(),
            central,
            harvest: RefCell::default(),
            tasks: RefCell::default(),
            attaching: Semaphore::new(clock, 1),
            lives: Cell::default(),
            queues_made: Cell::default(),
            host_restarts: Cell::default(),
        }));
        (0..count).try_for_each(|number| jbof.0.give_power(number))?;
        Ok(jbof)
    }

    /// Attaches a driver to each drive that has none, and has the host look at what they lend. To be called once.
    ///
    /// # Errors
    /// A controller does not do as it must.
    pub async fn attach(&self) -> Result<(), JbofError> {
        let inner = &self.0;
        let _turn = inner.attaching.acquire(1).await;
        for number in 0..inner.members.len() {
            inner.attach(number).await?;
        }
        if let Platform::Virtual(its) = &inner.config.platform {
            let (harvest, tasks) = Harvest::begin(inner, its.clone()).await?;
            inner.harvest.replace(Some(harvest));
            inner.tasks.borrow_mut().extend(tasks);
        }
        if inner.config.platform.lends_processors() {
            let task = inner.clock.spawn("binding", binding::bind(inner.clone()));
            inner.tasks.borrow_mut().push(task);
        }
        Ok(())
    }

    /// A queue pair to a drive, some of whose commands may go by those of its peers: of medium priority, if queues have weights.
    ///
    /// # Errors
    /// The controller does not give one, or the drive is gone.
    ///
    /// # Panics
    /// There is no such drive.
    pub async fn queue_pair(&self, drive: usize) -> Result<QueuePair, JbofError> {
        self.queue_pair_of(drive, QueuePriority::Medium).await
    }

    /// The same of another class.
    ///
    /// # Errors
    /// As [`Jbof::queue_pair`].
    ///
    /// # Panics
    /// There is no such drive.
    pub async fn queue_pair_of(&self, drive: usize, class: QueuePriority) -> Result<QueuePair, JbofError> {
        let queue = QueueConfig { priority: class, ..QueueConfig::new(self.0.config.entries) };
        self.queue_pair_with(drive, queue).await
    }

    /// The same, with entries and a processor of its own.
    ///
    /// # Errors
    /// As [`Jbof::queue_pair`].
    ///
    /// # Panics
    /// There is no such drive.
    pub async fn queue_pair_with(&self, drive: usize, queue: QueueConfig) -> Result<QueuePair, JbofError> {
        match self.harvest() {
            Some(harvest) => harvest.queue_pair(&self.0, drive, queue).await,
            None => self.0.queue_pair(drive, queue).await,
        }
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
    /// There is no such drive, or it has no power.
    pub fn drive(&self, drive: usize) -> Rc<PoweredDrive> {
        let present = self.0.members[drive].present();
        present.expect("the drive has power").powered.clone()
    }

    /// Its driver.
    ///
    /// # Panics
    /// There is no such drive, or the host has none.
    pub fn driver(&self, drive: usize) -> Driver {
        self.0.members[drive].attached().expect("the drive has a driver").driver.clone()
    }

    /// What it has done for its peers, and they for it.
    ///
    /// # Panics
    /// There is no such drive.
    pub fn figures(&self, drive: usize) -> MemberFigures {
        self.0.members[drive].figures.get()
    }

    /// What its DRAM is used for, and what it has of others', since its power came. Nothing, while it has none.
    ///
    /// # Panics
    /// There is no such drive.
    pub fn dram_figures(&self, drive: usize) -> DramFigures {
        self.0.dram_figures(drive)
    }

    /// Commands of a drive's users that went by its peers, of all.
    ///
    /// # Panics
    /// There is no such drive.
    pub fn redirected(&self, drive: usize) -> (u64, u64) {
        if let Some(own) = self.virtual_drive(drive) {
            return (own.figures().redirected, own.figures().commands);
        }
        let Some(attached) = self.0.members[drive].attached() else { return (0, 0) };
        let own = attached.own.borrow();
        own.iter()
            .map(|own| own.redirection.figures())
            .fold((0, 0), |sum, figures| (sum.0 + figures.redirected, sum.1 + figures.commands))
    }

    /// Loans of a drive that its host has had it revoke, as their lenders had failed, by the queue pairs that it has now.
    ///
    /// # Panics
    /// There is no such drive.
    pub fn revoked(&self, drive: usize) -> u64 {
        let Some(attached) = self.0.members[drive].attached() else { return 0 };
        let own = attached.own.borrow();
        own.iter().map(|own| own.redirection.figures().revoked).sum()
    }

    /// Whether nothing is lent, borrowed or bound.
    pub fn is_at_rest(&self) -> bool {
        let members = self.0.members.iter().filter_map(|member| Some((member, member.present()?)));
        let is_free = |(member, own): (&Member, Rc<member::Present>)| {
            own.borrows.borrow().is_empty()
                && member.table.iter().all(|(_, it)| it.borrower.is_none() && !it.served && !it.bound)
        };
        self.0.bound.borrow().is_empty() && members.into_iter().all(is_free)
    }

    /// Peers that a drive borrows of now.
    ///
    /// # Panics
    /// There is no such drive.
    pub fn lenders(&self, drive: usize) -> Vec<usize> {
        let own = self.0.members[drive].present();
        own.map_or(Vec::new(), |own| own.borrows.borrow().iter().map(|it| it.lender).collect())
    }

    fn harvest(&self) -> Option<Rc<Harvest>> {
        self.0.harvest.borrow().clone()
    }

    /// A drive as its tenant has it, where drives are virtual.
    ///
    /// # Panics
    /// There is no such drive.
    pub fn virtual_drive(&self, drive: usize) -> Option<VirtualDrive> {
        self.harvest().map(|harvest| harvest.drives[drive].clone())
    }

    /// Has what the host does for drives by itself come to an end, when their tenants have nothing under way: copies of a hypervisor that
    /// have begun end, and no more begin. Then the books balance.
    pub async fn quiesce(&self) {
        let Some(harvest) = self.harvest() else { return };
        for drive in &harvest.drives {
            drive.stop_copying().await;
        }
    }

    /// To which drive a drive lends its space, where drives are virtual.
    ///
    /// # Panics
    /// There is no such drive.
    pub fn lends_to(&self, drive: usize) -> Option<usize> {
        self.harvest().and_then(|harvest| harvest.lends_to(drive))
    }

    /// How long the lock of the hypervisor has been held; none: there is no hypervisor.
    pub fn hypervisor_lock_busy(&self) -> Option<Delay> {
        self.harvest().map(|harvest| harvest.hypervisor.lock_busy())
    }

    /// What has crossed the link of a drive whose firmware is the host's, and the host's end of that link: [`Jbof::drive`] has that of
    /// what is called instead.
    ///
    /// # Panics
    /// There is no such drive.
    pub fn hardware(&self, drive: usize) -> Option<(HardwareFigures, &HostEnd)> {
        let central = (!self.0.central.is_empty()).then(|| &self.0.central[drive])?;
        Some((central.hardware.figures(), &central.link))
    }

    /// The host's processors, which keep apart what they do by name: all of its work where something is central, and what drivers
    /// cost that were not given others.
    pub fn processors(&self) -> &Rc<Station> {
        &self.0.cpu
    }

    /// What the drives are on.
    pub fn fabric(&self) -> &Fabric {
        &self.0.fabric
    }
}

impl Drop for Jbof {
    fn drop(&mut self) {
        let daemons = self.0.members.iter().filter_map(Member::present).flat_map(|own| {
            let tasks = [own.daemon.take(), own.dram.task.take()];
            tasks.into_iter().flatten()
        });
        for task in self.0.tasks.take().into_iter().chain(daemons) {
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
