//! Several paths to one subsystem: controllers at different ports of it, of which each command takes one, as Linux' native multipath has
//! it.
//!
//! Which path is good for a namespace the controllers say (Asymmetric Namespace Access, NVMe Base 2.1, 2.4.2): of those that are
//! optimized the one with the fewest commands outstanding, in turn among equals; if there is none, of those that are not optimized.
//! A path that is inaccessible, or lost, takes none until it is better again; one that changes is waited for.
//!
//! A command that a path has not carried out goes by another one. If the path was lost, that is not known, and what may be done then
//! depends on the command (NVMe Base 2.1, 9.6.3):
//!
//! | command | |
//! |---|---|
//! | Read, Compare, Verify, Flush; Retrieve, List, Exist | is sent again at once |
//! | Write, Write Zeroes, Write Uncorrectable, Dataset Management | is sent again when the lost controller has surely ended its commands: else it could carry out the first one after what the host has written since |
//! | any other, and fused ones | is lost: done twice, it would not be the same |

use crate::driver::{Data, Driver, Namespace, QueueConfig};
use crate::error::{DriverError, Lost};
use crate::queue::{QueuePair, Request, Routed, Routes};
use byteway_clock::{Clock, Delay, Notify, Semaphore};
use byteway_wire::FromBytes;
use byteway_wire::nvme::ana::{AnaGroupDescriptor, AnaLogHeader, AnaState};
use byteway_wire::nvme::feature::{AsyncEvent, AsyncEventConfig};
use byteway_wire::nvme::identify::NamespaceDescriptor;
use byteway_wire::nvme::vendor::Methods;
use byteway_wire::nvme::{
    Cqe, KvOpcode, NSID_ALL, NvmOpcode, SetFeatures, Sqe, Status, fid, identify, lid, status,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::{Rc, Weak};

/// How paths are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultipathConfig {
    /// How long after a path was lost its controller may still carry out commands, at most: commands that change data wait for so long
    /// before they are sent again. A controller that reports a longer Command Quiesce Time (CQT) is given that.
    pub quiesce: Delay,
    /// How long a command waits for a path that may come back.
    pub patience: Delay,
}

impl Default for MultipathConfig {
    fn default() -> Self {
        MultipathConfig { quiesce: Delay::from_s(1), patience: Delay::from_s(600) }
    }
}

/// Why paths are not those of one subsystem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MultipathError {
    /// A controller does not say what it must.
    #[error("path {path}: {source}")]
    Driver {
        /// Which path.
        path: String,
        /// What was asked.
        source: DriverError,
    },
    /// The controllers are of different subsystems.
    #[error("path {path} leads to another subsystem ({found}) than path {first} ({wanted})")]
    Subsystem {
        /// Which path.
        path: String,
        /// Its subsystem's name.
        found: String,
        /// The first path.
        first: String,
        /// Its subsystem's name.
        wanted: String,
    },
    /// A namespace is another one by another path.
    #[error(
        "namespace {nsid} by path {path} is another one than by path {first}: its identifiers or its format differ"
    )]
    Namespace {
        /// Which namespace.
        nsid: u32,
        /// By which path.
        path: String,
        /// The first path.
        first: String,
    },
    /// Nothing tells that a namespace is the same by all paths.
    #[error(
        "namespace {nsid} has no NGUID, EUI64 or UUID: nothing tells whether all paths lead to the same one"
    )]
    NoIdentifier {
        /// Which namespace.
        nsid: u32,
    },
}

/// What has gone by a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathFigures {
    /// Its name.
    pub name: String,
    /// What it is good for now, for the namespace that was asked about: an ANA state, `lost`, `given up` or `refused`.
    pub state: &'static str,
    /// I/O commands that were sent by it.
    pub commands: u64,
    /// Of these, those that were sent again because of it, by this path or another.
    pub failovers: u64,
    /// How often its controller was connected again or reset.
    pub reconnects: u64,
    /// Why it is not used any more, although there is a controller.
    pub refusal: Option<MultipathError>,
}

/// What is known of a namespace, that must be the same by all paths.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    identifiers: Vec<NamespaceDescriptor>,
    blocks: u64,
    block_bytes: u32,
}

/// What a controller says of itself.
struct Described {
    subsystem: String,
    namespaces: BTreeMap<u32, Known>,
}

/// Commands that a path is given again after as many attempts as there are paths have this pause in between.
const PAUSE: Delay = Delay::from_ms(10);
/// How often it is looked whether a path is lost with whose controller something is done.
const LOOK: Delay = Delay::from_ms(10);
/// After so long a controller is asked again that has not answered as it must.
const ASK_AGAIN: Delay = Delay::from_s(1);
/// Bytes of the ANA log that are read, at most.
const LOG_BYTES_MAX: u64 = 64 << 10;
/// CMIC: the subsystem reports asymmetric namespace access.
const CMIC_ANA: u8 = 1 << 3;

/// One path.
struct Path {
    name: String,
    driver: Driver,
    /// By namespace; none: its controller knows no ANA.
    states: RefCell<Option<BTreeMap<u32, AnaState>>>,
    /// The life of the controller (its resets) that has said so.
    learned: Cell<Option<u64>>,
    /// It leads somewhere else now.
    refusal: RefCell<Option<MultipathError>>,
    /// The states may have changed.
    news: Notify,
    /// Queues are made one by one.
    making: Semaphore,
    outstanding: Cell<u32>,
    commands: Cell<u64>,
    failovers: Cell<u64>,
}

struct Inner {
    clock: Clock,
    config: MultipathConfig,
    paths: Vec<Path>,
    described: Described,
    queues: RefCell<Vec<Weak<PathQueues>>>,
    /// A path may be better, or worse, than it was.
    changed: Notify,
    turn: Cell<usize>,
}

/// Several paths to one subsystem. Cheap to clone.
#[derive(Clone)]
pub struct Multipath(Rc<Inner>);

/// The queue pairs of all paths that are one for who uses them.
struct PathQueues {
    inner: Rc<Inner>,
    config: QueueConfig,
    methods: Cell<Methods>,
    /// By path; none: it was not there when they were made.
    pairs: RefCell<Vec<Option<QueuePair>>>,
}

/// Where a command can go.
enum Choice {
    Path(usize),
    /// Paths are changing.
    Change,
    /// Some may come back.
    Wait(Status),
    /// None ever will.
    Never(Status),
    /// All are given up.
    Gone,
}

/// Whether a command whose end is not known may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeat {
    AtOnce,
    /// When the lost controller has ended its commands.
    Later,
    Never,
}

/// What follows from how a command has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Final,
    Again,
    AgainLater,
}

impl Repeat {
    fn of(sqe: &Sqe, is_kv: bool) -> Repeat {
        if sqe.fuse() != 0 {
            return Repeat::Never;
        }
        if is_kv {
            return match KvOpcode(sqe.opcode()) {
                KvOpcode::RETRIEVE | KvOpcode::LIST | KvOpcode::EXIST => Repeat::AtOnce,
                _ => Repeat::Never,
            };
        }
        match NvmOpcode(sqe.opcode()) {
            NvmOpcode::READ | NvmOpcode::COMPARE | NvmOpcode::VERIFY | NvmOpcode::FLUSH => Repeat::AtOnce,
            NvmOpcode::WRITE
            | NvmOpcode::WRITE_ZEROES
            | NvmOpcode::WRITE_UNCORRECTABLE
            | NvmOpcode::DATASET_MANAGEMENT => Repeat::Later,
            _ => Repeat::Never,
        }
    }
}

/// The state of a namespace that a status tells of.
fn told(status: Status) -> Option<AnaState> {
    AnaState::ALL.into_iter().find(|state| state.status().is_some_and(|own| own.is(status)))
}

/// What follows from how a command that was sent has ended.
fn judge(ended: &Result<Cqe, Lost>, repeat: Repeat) -> Verdict {
    match ended {
        Ok(cqe) => match cqe.status() {
            status if status.is_success() || status.dnr() => Verdict::Final,
            // It was not carried out.
            status if told(status).is_some() || status.is(Status::NAMESPACE_NOT_READY) => Verdict::Again,
            // It is over, whatever has become of it: nothing of it can come later.
            status
                if repeat != Repeat::Never
                    && (status.sct() == status::SCT_PATH || status.is(Status::TRANSIENT_TRANSPORT_ERROR)) =>
            {
                Verdict::Again
            }
            _ => Verdict::Final,
        },
        Err(Lost::Reset | Lost::Failed) => match repeat {
            Repeat::AtOnce => Verdict::Again,
            Repeat::Later => Verdict::AgainLater,
            Repeat::Never => Verdict::Final,
        },
        Err(_) => Verdict::Final,
    }
}

impl Multipath {
    /// Over these paths, each with its name: one at least. They stay used until the drivers are shut down.
    ///
    /// # Errors
    /// The controllers are not of one subsystem with the same namespaces, or don't say so.
    pub async fn new(
        paths: Vec<(String, Driver)>,
        config: MultipathConfig,
    ) -> Result<Multipath, MultipathError> {
        let mut first: Option<(String, Described)> = None;
        let lives: Vec<u64> = paths.iter().map(|(_, driver)| driver.resets()).collect();
        for (name, driver) in &paths {
            let described = describe(driver).await.map_err(|source| failed(name, source))?;
            match &first {
                None => first = Some((name.clone(), described)),
                Some((first, known)) => known.check(first, name, &described)?,
            }
        }
        let Some((_, described)) = first else { unreachable!("there is one path at least") };
        let alone = described.namespaces.iter().find(|(_, known)| known.identifiers.is_empty());
        if let (Some((nsid, _)), true) = (alone, paths.len() > 1) {
            return Err(MultipathError::NoIdentifier { nsid: *nsid });
        }
        let clock = paths[0].1.clock().clone();
        let path = |(name, driver)| Path {
            name,
            driver,
            states: RefCell::default(),
            learned: Cell::default(),
            refusal: RefCell::default(),
            news: Notify::new(&clock),
            making: Semaphore::new(&clock, 1),
            outstanding: Cell::default(),
            commands: Cell::default(),
            failovers: Cell::default(),
        };
        let inner = Rc::new(Inner {
            config,
            described,
            queues: RefCell::default(),
            changed: Notify::new(&clock),
            turn: Cell::default(),
            paths: paths.into_iter().map(path).collect(),
            clock: clock.clone(),
        });
        for (index, (path, life)) in inner.paths.iter().zip(lives).enumerate() {
            inner.learn(index, life).await.map_err(|source| failed(&path.name, source))?;
            clock.spawn("path", inner.clone().attend(index));
            clock.spawn("path's controller", inner.clone().follow(index));
            let events = path.driver.events(1);
            let listening = inner.clone();
            clock.spawn("path's events", async move {
                loop {
                    let event = events.receive().await;
                    if event == AsyncEvent::ANA_CHANGE {
                        listening.paths[index].news.notify_one();
                    }
                }
            });
        }
        Ok(Multipath(inner))
    }

    /// Creates a queue pair by each path, which are one for who uses it: commands that are executed go by any of them. Those that are
    /// submitted in batches, or fused, go by the first.
    ///
    /// # Errors
    /// A controller refuses, or there is no path in time.
    pub async fn create_queue_pair(&self, config: QueueConfig) -> Result<QueuePair, DriverError> {
        let inner = &self.0;
        let pairs = RefCell::new(vec![None; inner.paths.len()]);
        let queues = Rc::new(PathQueues { inner: inner.clone(), config, methods: Cell::default(), pairs });
        inner.queues.borrow_mut().push(Rc::downgrade(&queues));
        for (index, path) in inner.paths.iter().enumerate() {
            let opening = queues.clone();
            inner.while_up(path, async move { opening.open(index).await }).await?;
        }
        let begun = inner.clock.now();
        loop {
            let first = queues.pairs.borrow().iter().flatten().next().cloned();
            if let Some(first) = first {
                return Ok(QueuePair { routes: Some(queues), ..first });
            }
            let waited = inner.clock.now().since(begun);
            if waited >= inner.config.patience || inner.paths.iter().all(Path::is_over) {
                return Err(DriverError::Gone(Lost::Failed));
            }
            inner.clock.within(inner.config.patience - waited, inner.changed.notified()).await;
        }
    }

    /// Enables methods for a queue pair by each path, as [`Driver::enable_methods`] does.
    ///
    /// # Errors
    /// A controller refuses what it offers.
    pub async fn enable_methods(&self, pair: &QueuePair, wanted: Methods) -> Result<(), DriverError> {
        let Some(queues) = self.0.find(pair) else { return Err(DriverError::NoSuchQueue(pair.qid())) };
        queues.methods.set(queues.methods.get().or(wanted));
        for (index, path) in self.0.paths.iter().enumerate() {
            let own = queues.pair(index);
            if let Some(own) = own {
                let driver = path.driver.clone();
                let enabling = async move { enable(&driver, &own, wanted).await };
                self.0.while_up(path, enabling).await?;
            }
        }
        Ok(())
    }

    /// Deletes a queue pair: by paths that are lost, once they are back.
    ///
    /// # Errors
    /// A controller refuses. The queue may be there by some paths then.
    pub async fn delete_queue_pair(&self, pair: &QueuePair) -> Result<(), DriverError> {
        let inner = &self.0;
        let Some(queues) = inner.find(pair) else { return Err(DriverError::NoSuchQueue(pair.qid())) };
        inner.queues.borrow_mut().retain(|other| !std::ptr::eq(other.as_ptr(), Rc::as_ptr(&queues)));
        let pairs = queues.pairs.take();
        for (path, own) in inner.paths.iter().zip(pairs) {
            let (driver, Some(own)) = (path.driver.clone(), own) else { continue };
            inner.while_up(path, delete(driver, own)).await?;
        }
        Ok(())
    }

    /// Shuts the controllers down that are there. No command can be submitted any more.
    ///
    /// # Errors
    /// One doesn't say in time that it has.
    pub async fn shutdown(&self) -> Result<(), DriverError> {
        let mut result = Ok(());
        for path in self.0.paths.iter().filter(|path| path.driver.is_up()) {
            let driver = path.driver.clone();
            let ended = self.0.while_up(path, async move { driver.shutdown().await }).await;
            result = ended.and(result);
        }
        result
    }

    /// The driver of a path that is there now.
    pub fn any_driver(&self) -> Option<Driver> {
        self.0.paths.iter().map(|path| &path.driver).find(|driver| driver.is_up()).cloned()
    }

    /// Completions that contradicted what was submitted, by all paths.
    pub fn protocol_errors(&self) -> u64 {
        self.0.paths.iter().map(|path| path.driver.protocol_errors()).sum()
    }

    /// What has gone by each path, and what it is good for now for a namespace.
    pub fn figures(&self, nsid: u32) -> Vec<PathFigures> {
        let figures = self.0.paths.iter().map(|path| PathFigures {
            name: path.name.clone(),
            state: match path.state(nsid) {
                Some(state) => state.name(),
                None if path.refusal.borrow().is_some() => "refused",
                None if path.is_over() => "given up",
                None => "lost",
            },
            commands: path.commands.get(),
            failovers: path.failovers.get(),
            reconnects: path.driver.resets(),
            refusal: path.refusal.borrow().clone(),
        });
        figures.collect()
    }
}

/// Enables methods for a queue pair; a reset does that, too.
async fn enable(driver: &Driver, pair: &QueuePair, methods: Methods) -> Result<(), DriverError> {
    match driver.enable_methods(pair, methods).await {
        Ok(_) | Err(DriverError::Lost { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Deletes a queue pair, once more if the controller is reset meanwhile: that makes it again.
async fn delete(driver: Driver, pair: QueuePair) -> Result<(), DriverError> {
    while driver.up().await {
        let life = driver.resets();
        match driver.delete_queue_pair(&pair).await {
            Err(DriverError::Lost { lost: Lost::Reset, .. }) => {}
            Err(DriverError::Status { .. }) if !driver.is_up() || driver.resets() != life => {}
            Err(DriverError::Gone(_) | DriverError::Lost { .. }) => break,
            ended => return ended,
        }
    }
    Ok(())
}

fn failed(path: &str, source: DriverError) -> MultipathError {
    MultipathError::Driver { path: path.to_owned(), source }
}

/// What a controller says of its subsystem and its namespaces.
async fn describe(driver: &Driver) -> Result<Described, DriverError> {
    let name: Vec<u8> = driver.identity().subnqn.iter().copied().take_while(|byte| *byte != 0).collect();
    let mut namespaces = BTreeMap::new();
    let mut add = async |nsid, blocks, block_bytes| {
        let mut identifiers = driver.namespace_descriptors(nsid).await?;
        identifiers.retain(|descriptor| match descriptor {
            NamespaceDescriptor::Eui64(id) => id.iter().any(|byte| *byte != 0),
            NamespaceDescriptor::Nguid(id) | NamespaceDescriptor::Uuid(id) => {
                id.iter().any(|byte| *byte != 0)
            }
            NamespaceDescriptor::Csi(_) | NamespaceDescriptor::Unknown { .. } => false,
        });
        namespaces.insert(nsid, Known { identifiers, blocks, block_bytes });
        Ok::<(), DriverError>(())
    };
    for Namespace { nsid, blocks, block_bytes, .. } in driver.namespaces().iter() {
        add(*nsid, *blocks, *block_bytes).await?;
    }
    for namespace in driver.kv_namespaces().iter() {
        add(namespace.nsid, namespace.bytes, 0).await?;
    }
    Ok(Described { subsystem: String::from_utf8_lossy(&name).into_owned(), namespaces })
}

impl Described {
    /// Whether another path leads to the same; a namespace that it does not have is nothing wrong.
    fn check(&self, first: &str, path: &str, other: &Described) -> Result<(), MultipathError> {
        let (first, path) = (first.to_owned(), path.to_owned());
        if self.subsystem != other.subsystem {
            let (found, wanted) = (other.subsystem.clone(), self.subsystem.clone());
            return Err(MultipathError::Subsystem { path, found, first, wanted });
        }
        let differs =
            |(nsid, known): &(&u32, &Known)| self.namespaces.get(nsid).is_some_and(|own| own != *known);
        match other.namespaces.iter().find(differs) {
            Some((nsid, _)) => Err(MultipathError::Namespace { nsid: *nsid, path, first }),
            None => Ok(()),
        }
    }
}

impl Path {
    /// It will never be used again.
    fn is_over(&self) -> bool {
        self.refusal.borrow().is_some() || self.driver.is_gone()
    }

    /// What it is good for; none: nothing now.
    fn state(&self, nsid: u32) -> Option<AnaState> {
        let is_known = self.learned.get() == Some(self.driver.resets());
        if self.refusal.borrow().is_some() || !is_known || !self.driver.is_up() {
            return None;
        }
        let states = self.states.borrow();
        match &*states {
            // Of no namespace, or of all.
            Some(_) if matches!(nsid, 0 | NSID_ALL) => Some(AnaState::OPTIMIZED),
            Some(states) => Some(states.get(&nsid).copied().unwrap_or(AnaState::INACCESSIBLE)),
            None => Some(AnaState::OPTIMIZED),
        }
    }

    fn has_change(&self) -> bool {
        let states = self.states.borrow();
        states.as_ref().is_some_and(|states| states.values().any(|state| *state == AnaState::CHANGE))
    }

    /// How long a group may be in the change state.
    fn transition(&self) -> Delay {
        Delay::from_s(u64::from(self.driver.identity().anatt).max(1))
    }
}

impl Inner {
    /// Keeps what is known of a path what its controller says.
    async fn attend(self: Rc<Self>, index: usize) {
        let path = &self.paths[index];
        loop {
            match path.has_change() {
                // It is asked again if it doesn't say in time that the change is over.
                true => drop(self.clock.within(path.transition(), path.news.notified()).await),
                false => path.news.notified().await,
            }
            while !path.is_over() {
                let life = path.driver.resets();
                if self.renew(index).await.is_ok() {
                    break;
                }
                // One that was lost meanwhile is waited for; one that refuses is asked again, but not at once.
                if path.driver.is_up() && path.driver.resets() == life {
                    self.clock.timer(ASK_AGAIN).await;
                }
            }
            self.changed.notify_all();
            if path.is_over() {
                return;
            }
        }
    }

    /// Tells when the controller of a path is another one, or there will be none.
    async fn follow(self: Rc<Self>, index: usize) {
        let path = &self.paths[index];
        while !path.driver.is_gone() {
            path.driver.changed().await;
            path.news.notify_one();
        }
    }

    /// Asks the controller of a path again, once there is one: all of it, if it is another one.
    async fn renew(&self, index: usize) -> Result<(), DriverError> {
        let path = &self.paths[index];
        if !path.driver.up().await {
            return Ok(());
        }
        let life = path.driver.resets();
        if path.learned.get() == Some(life) {
            return self.read_states(path).await;
        }
        path.driver.refresh().await?;
        let described = describe(&path.driver).await?;
        if let Err(error) = self.described.check(&self.paths[0].name, &path.name, &described) {
            path.refusal.replace(Some(error));
            return Ok(());
        }
        let queues: Vec<_> = self.queues.borrow().iter().filter_map(Weak::upgrade).collect();
        for queues in queues {
            queues.open(index).await?;
        }
        self.learn(index, life).await
    }

    /// Has the controller of a path tell of changes, and asks for the states. In this life of it, it has been found to be the right one.
    async fn learn(&self, index: usize, life: u64) -> Result<(), DriverError> {
        let path = &self.paths[index];
        let identity = path.driver.identity();
        if identity.oaes & identify::oaes::ANA_CHANGE != 0 {
            let cdw11 = AsyncEventConfig::new().with_ana_change(true).into_bits();
            let set = SetFeatures { fid: fid::ASYNC_EVENT_CONFIGURATION, cdw11, ..SetFeatures::default() };
            path.driver
                .checked("Set Features (Asynchronous Event Configuration)", set.sqe(0, 0), Data::None)
                .await?;
        }
        self.read_states(path).await?;
        path.learned.set(Some(life));
        Ok(())
    }

    async fn read_states(&self, path: &Path) -> Result<(), DriverError> {
        let identity = path.driver.identity();
        if identity.cmic & CMIC_ANA == 0 {
            path.states.replace(None);
            return Ok(());
        }
        let namespaces = if identity.mnan > 0 { identity.mnan } else { identity.nn };
        let bytes = (identity.nanagrpid as usize).saturating_mul(size_of::<AnaGroupDescriptor>());
        let bytes = bytes.saturating_add((namespaces as usize).saturating_mul(4));
        let most = path.driver.transfer_bytes_max().unwrap_or(u64::MAX).min(LOG_BYTES_MAX) as usize;
        let mut page = vec![0; bytes.saturating_add(size_of::<AnaLogHeader>()).min(most)];
        let cqe = path.driver.log_page(lid::ANA, 0, false, &mut page).await?;
        if !cqe.status().is_success() {
            return Err(DriverError::Status {
                what: "Get Log Page (Asymmetric Namespace Access)",
                status: cqe.status(),
            });
        }
        path.states.replace(Some(parse(&page)));
        Ok(())
    }

    /// Does work with the controller of a path, and waits for its end, unless the path is lost: then it goes on by itself, and may take
    /// as long as it takes to connect another controller.
    async fn while_up(
        &self,
        path: &Path,
        work: impl Future<Output = Result<(), DriverError>> + 'static,
    ) -> Result<(), DriverError> {
        let ended: Rc<Cell<Option<Result<(), DriverError>>>> = Rc::default();
        let over = Rc::new(Notify::new(&self.clock));
        let (end, tell) = (ended.clone(), over.clone());
        self.clock.spawn("work with a path", async move {
            end.set(Some(work.await));
            tell.notify_one();
        });
        loop {
            match ended.take() {
                Some(result) => return result,
                None if !path.driver.is_up() => return Ok(()),
                None => drop(self.clock.within(LOOK, over.notified()).await),
            }
        }
    }

    fn find(&self, pair: &QueuePair) -> Option<Rc<PathQueues>> {
        let queues: Vec<_> = self.queues.borrow().iter().filter_map(Weak::upgrade).collect();
        queues.into_iter().find(|queues| queues.has(pair))
    }

    fn is_kv(&self, nsid: u32) -> bool {
        self.paths[0].driver.kv_namespaces().iter().any(|namespace| namespace.nsid == nsid)
    }
}

/// The state of each namespace that an ANA log page names.
fn parse(page: &[u8]) -> BTreeMap<u32, AnaState> {
    let mut states = BTreeMap::new();
    let Ok((header, mut rest)) = AnaLogHeader::read_from_prefix(page) else { return states };
    for _ in 0..header.ngrps {
        let Ok((group, behind)) = AnaGroupDescriptor::read_from_prefix(rest) else { break };
        let listed = (group.nnsids as usize).saturating_mul(4).min(behind.len());
        let (nsids, behind) = behind.split_at(listed);
        let nsids = nsids.as_chunks().0.iter().map(|nsid| u32::from_le_bytes(*nsid));
        states.extend(nsids.map(|nsid| (nsid, group.state)));
        rest = behind;
    }
    states
}

/// Counts a command as outstanding by a path until it is dropped.
struct Outstanding<'a>(&'a Path);

impl<'a> Outstanding<'a> {
    fn by(path: &'a Path) -> Outstanding<'a> {
        path.outstanding.set(path.outstanding.get() + 1);
        Outstanding(path)
    }
}

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        self.0.outstanding.set(self.0.outstanding.get() - 1);
    }
}

impl PathQueues {
    fn has(&self, pair: &QueuePair) -> bool {
        let pairs = self.pairs.borrow();
        pairs.iter().flatten().any(|own| Rc::ptr_eq(&own.submission, &pair.submission))
    }

    fn pair(&self, index: usize) -> Option<QueuePair> {
        self.pairs.borrow().get(index).cloned().flatten()
    }

    /// Makes the queue pair of a path, if it is there and has none.
    async fn open(&self, index: usize) -> Result<(), DriverError> {
        let path = &self.inner.paths[index];
        let _turn = path.making.acquire(1).await;
        let is_missing = self.pairs.borrow().get(index).is_some_and(Option::is_none);
        if !is_missing || path.refusal.borrow().is_some() || !path.driver.is_up() {
            return Ok(());
        }
        let made = async {
            let pair = path.driver.create_queue_pair(self.config.clone()).await?;
            enable(&path.driver, &pair, self.methods.get()).await?;
            Ok::<QueuePair, DriverError>(pair)
        };
        let made = made.await;
        match made {
            Ok(pair) => {
                let is_wanted = match self.pairs.borrow_mut().get_mut(index) {
                    Some(place) => {
                        *place = Some(pair.clone());
                        true
                    }
                    None => false,
                };
                self.inner.changed.notify_all();
                // They were deleted meanwhile.
                if is_wanted { Ok(()) } else { delete(path.driver.clone(), pair).await }
            }
            // Its next controller will have them.
            Err(DriverError::Lost { lost: Lost::Reset, .. }) => Ok(()),
            Err(error) if path.driver.is_up() => Err(error),
            Err(_) => Ok(()),
        }
    }

    /// Where a command for `nsid` can go, rather not where it has just been.
    fn choose(&self, nsid: u32, last: Option<usize>) -> Choice {
        let paths = &self.inner.paths;
        let pairs = self.pairs.borrow();
        let mut best: Option<((bool, bool, u32, usize), usize)> = None;
        let (mut changes, mut waits, mut persistent) = (false, None, false);
        for (index, path) in paths.iter().enumerate() {
            let state = path.state(nsid).filter(|_| pairs.get(index).is_some_and(Option::is_some));
            match state {
                Some(state @ (AnaState::OPTIMIZED | AnaState::NON_OPTIMIZED)) => {
                    let behind = (index + paths.len() - self.inner.turn.get() % paths.len()) % paths.len();
                    let key =
                        (last == Some(index), state != AnaState::OPTIMIZED, path.outstanding.get(), behind);
                    if best.is_none_or(|(other, _)| key < other) {
                        best = Some((key, index));
                    }
                }
                Some(AnaState::CHANGE) => changes = true,
                Some(AnaState::PERSISTENT_LOSS) => persistent = true,
                Some(_) => waits = Some(Status::ANA_INACCESSIBLE),
                None if path.is_over() => {}
                None => _ = waits.get_or_insert(Status::HOST_PATHING_ERROR),
            }
        }
        match best {
            Some((_, index)) => {
                self.inner.turn.set(index + 1);
                Choice::Path(index)
            }
            None if changes => Choice::Change,
            None => match (waits, persistent) {
                (Some(status), _) => Choice::Wait(status),
                (None, true) => Choice::Never(Status::ANA_PERSISTENT_LOSS),
                (None, false) => Choice::Gone,
            },
        }
    }

    /// Waits until a command can go somewhere: by which path.
    ///
    /// # Errors
    /// It can't, or not in time.
    async fn find(&self, nsid: u32, last: Option<usize>) -> Result<usize, Result<Cqe, Lost>> {
        let Inner { clock, config, .. } = &*self.inner;
        let begun = clock.now();
        let ends_with = |status| Ok(Cqe::new(0, status, 0, 0));
        loop {
            let (limit, status) = match self.choose(nsid, last) {
                Choice::Path(index) => return Ok(index),
                Choice::Change => {
                    let longest = self.inner.paths.iter().map(Path::transition).max();
                    (longest.unwrap_or(config.patience), Status::ANA_TRANSITION)
                }
                Choice::Wait(status) => (config.patience, status),
                Choice::Never(status) => return Err(ends_with(status)),
                Choice::Gone => return Err(Err(Lost::Failed)),
            };
            let waited = clock.now().since(begun);
            if waited >= limit {
                return Err(ends_with(status));
            }
            clock.within(limit - waited, self.inner.changed.notified()).await;
        }
    }

    async fn carry(&self, request: &Request<'_>) -> Result<Cqe, Lost> {
        let Inner { clock, config, paths, .. } = &*self.inner;
        let begun = clock.now();
        let nsid = request.sqe.nsid;
        let repeat = Repeat::of(&request.sqe, self.inner.is_kv(nsid));
        let (mut last, mut attempts) = (None, 0);
        loop {
            let index = match self.find(nsid, last).await {
                Ok(index) => index,
                Err(ended) => return ended,
            };
            let path = &paths[index];
            let Some(pair) = self.pair(index) else { continue };
            let outstanding = Outstanding::by(path);
            let attempt = Request { epoch: Some(pair.submission.epoch()), ..*request };
            let ended = match pair.submit(attempt).await {
                Ok(pending) => {
                    path.commands.set(path.commands.get() + 1);
                    pending.await
                }
                // It was not sent: any other path will do.
                Err(Lost::Reset | Lost::Failed) => {
                    last = Some(index);
                    continue;
                }
                Err(lost) => return Err(lost),
            };
            drop(outstanding);
            let verdict = judge(&ended, repeat);
            if let Ok(cqe) = &ended
                && let Some(state) = told(cqe.status())
            {
                // The next command must not find that out by itself.
                if let Some(states) = &mut *path.states.borrow_mut() {
                    states.insert(nsid, state);
                }
                path.news.notify_one();
            }
            if verdict == Verdict::Final || clock.now().since(begun) >= config.patience {
                return ended;
            }
            path.failovers.set(path.failovers.get() + 1);
            last = Some(index);
            attempts += 1;
            if verdict == Verdict::AgainLater {
                let reported = Delay::from_ms(path.driver.identity().cqt.into());
                clock.timer(config.quiesce.max(reported)).await;
            } else if attempts % paths.len() == 0 && ended.is_ok() {
                clock.timer(PAUSE).await;
            }
        }
    }
}

impl Routes for PathQueues {
    fn execute<'a>(&'a self, request: &'a Request<'a>) -> Routed<'a> {
        Box::pin(self.carry(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_wire::IntoBytes;
    use byteway_wire::nvme::command::FUSE_FIRST;
    use byteway_wire::nvme::{Copy, ReadWrite};

    fn ended(status: Status) -> Result<Cqe, Lost> {
        Ok(Cqe::new(0, status, 0, 0))
    }

    // Without this a command would be done twice that must not be, or fail where another path would have carried it out.
    #[test]
    fn what_is_sent_again_depends_on_the_command_and_its_end() {
        use Verdict::{Again, AgainLater, Final};
        let repeat = |opcode| Repeat::of(&ReadWrite::default().sqe(opcode, 0, 1), false);
        let (read, write) = (repeat(NvmOpcode::READ), repeat(NvmOpcode::WRITE));
        let copy = Repeat::of(&Copy::default().sqe(0, 1), false);
        let told = |ended: &Result<Cqe, Lost>| [read, write, copy].map(|repeat| judge(ended, repeat));
        assert_eq!(told(&ended(Status::SUCCESS)), [Final; 3]);
        assert_eq!(told(&ended(Status::COMPARE_FAILURE)), [Final; 3]);
        for refused in [
            Status::ANA_INACCESSIBLE,
            Status::ANA_PERSISTENT_LOSS,
            Status::ANA_TRANSITION,
            Status::NAMESPACE_NOT_READY,
        ] {
            assert_eq!(told(&ended(refused)), [Again; 3]);
            assert_eq!(told(&ended(refused.with_dnr())), [Final; 3]);
        }
        assert_eq!(told(&ended(Status::INTERNAL_PATH_ERROR)), [Again, Again, Final]);
        assert_eq!(told(&ended(Status::TRANSIENT_TRANSPORT_ERROR)), [Again, Again, Final]);
        assert_eq!(told(&Err(Lost::Reset)), [Again, AgainLater, Final]);
        assert_eq!(told(&Err(Lost::ShutDown)), [Final; 3]);
        // Write is Store's opcode, and Read is Retrieve's.
        let pair = |opcode| Repeat::of(&ReadWrite::default().sqe(opcode, 0, 1), true);
        assert_eq!((pair(NvmOpcode::WRITE), pair(NvmOpcode::READ)), (Repeat::Never, Repeat::AtOnce));
        let compare = ReadWrite::default().sqe(NvmOpcode::COMPARE, 0, 1);
        assert_eq!(Repeat::of(&compare, false), Repeat::AtOnce);
        assert_eq!(Repeat::of(&compare.with_fuse(FUSE_FIRST), false), Repeat::Never);
    }

    // A drive that is served anew under its old name is none of the paths to what was there before.
    #[test]
    fn another_namespace_of_the_same_number_is_found() {
        let known = |id: u8, blocks| Known {
            identifiers: vec![NamespaceDescriptor::Nguid([id; 16])],
            blocks,
            block_bytes: 4096,
        };
        let described = |namespaces: &[(u32, Known)]| Described {
            subsystem: "s".to_owned(),
            namespaces: namespaces.iter().cloned().collect(),
        };
        let first = described(&[(1, known(1, 9)), (2, known(2, 9))]);
        let check = |other: &[(u32, Known)]| first.check("a", "b", &described(other));
        assert_eq!(check(&[(1, known(1, 9)), (3, known(3, 9))]), Ok(()));
        let differs =
            |nsid| Err(MultipathError::Namespace { nsid, path: "b".to_owned(), first: "a".to_owned() });
        assert_eq!(check(&[(1, known(1, 9)), (2, known(3, 9))]), differs(2));
        assert_eq!(check(&[(1, known(1, 8))]), differs(1));
    }

    // A page that lies about its length, or ends early, must not be believed beyond its end.
    #[test]
    fn a_log_page_is_read_as_far_as_it_goes() {
        let header = AnaLogHeader { chgcnt: 1, ngrps: u16::MAX, reserved_10: [0; 6] };
        let group =
            |nnsids, state| AnaGroupDescriptor { grpid: 1, nnsids, chgcnt: 1, state, reserved_17: [0; 15] };
        let nsids = [1u32, 7];
        let page = [
            header.as_bytes(),
            group(2, AnaState::NON_OPTIMIZED).as_bytes(),
            nsids.as_bytes(),
            group(u32::MAX, AnaState::CHANGE).as_bytes(),
            [3u32].as_bytes(),
        ]
        .concat();
        let all = [(1, AnaState::NON_OPTIMIZED), (7, AnaState::NON_OPTIMIZED), (3, AnaState::CHANGE)];
        assert_eq!(parse(&page), all.into());
        assert_eq!(parse(&page[..16 + 32 + 8 + 31]), all[..2].iter().copied().collect());
        assert!(parse(&page[..9]).is_empty());
    }
}
