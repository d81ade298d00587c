//! Multipath: several paths to one subsystem, through controllers at different ports. Each command takes one of them,
//! as in Linux' native multipath.
//!
//! The controllers report the state of each path per namespace (Asymmetric Namespace Access, NVMe Base 2.1, 2.4.2). A
//! command takes the optimized path with the fewest outstanding commands, round robin among equals; without an
//! optimized path, a non-optimized one. An inaccessible or lost path is not used until it recovers; a path in
//! transition is waited for.
//!
//! A command that a path did not execute is sent again by another one. If the path was lost, it is unknown whether the
//! command was executed, and the command decides what is allowed (NVMe Base 2.1, 9.6.3):
//!
//! | command | after a lost path |
//! |---|---|
//! | Read, Compare, Verify, Flush; Retrieve, List, Exist | sent again at once |
//! | Write, Write Zeroes, Write Uncorrectable, Dataset Management | sent again when the lost controller has certainly ended its commands: otherwise it could execute the first one after later writes of the host |
//! | any other, and fused ones | lost: executed twice, it could have another effect |

use crate::driver::controller::{Data, Driver, Namespace, QueueConfig};
use crate::driver::queue::{QueuePair, Request, Routed, Routes};
use crate::error::{DriverError, Lost};
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

/// Configuration of multipath.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultipathConfig {
    /// Maximum time after the loss of a path during which its controller may still execute commands: commands that
    /// change data are delayed by this much before they are sent again. A longer Command Quiesce Time (CQT) of a
    /// controller takes precedence.
    pub quiesce: Delay,
    /// Time for which a command waits for a path to come back, and for which it is sent again after it was lost first.
    pub patience: Delay,
    /// The longest time that controllers may have for a transition (ANATT) and to quiesce (CQT): after it a command that
    /// waits fails, and one that would have to wait longer is not sent again.
    pub wait_max: Delay,
}

impl Default for MultipathConfig {
    fn default() -> Self {
        MultipathConfig {
            quiesce: Delay::from_s(1),
            patience: Delay::from_s(600),
            wait_max: Delay::from_s(600),
        }
    }
}

/// Why paths do not lead to one subsystem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MultipathError {
    /// A controller can't be identified.
    #[error("path {path}: {source}")]
    Driver {
        /// Name of the path.
        path: String,
        /// The error.
        source: DriverError,
    },
    /// The controllers are of different subsystems.
    #[error("path {path} leads to another subsystem ({found}) than path {first} ({wanted})")]
    Subsystem {
        /// Name of the path.
        path: String,
        /// Name of the subsystem found.
        found: String,
        /// Name of the first path.
        first: String,
        /// Name of the subsystem expected.
        wanted: String,
    },
    /// A namespace differs between paths.
    #[error(
        "namespace {nsid} differs between paths {first} and {path}: its identifiers or its format differ"
    )]
    Namespace {
        /// The namespace.
        nsid: u32,
        /// Name of the path.
        path: String,
        /// Name of the first path.
        first: String,
    },
    /// A namespace has no identifier by which paths can be compared.
    #[error(
        "namespace {nsid} has no NGUID, EUI64 or UUID: nothing tells whether all paths lead to the same one"
    )]
    NoIdentifier {
        /// The namespace.
        nsid: u32,
    },
}

/// Figures of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathFigures {
    /// Name of the path.
    pub name: String,
    /// State for the requested namespace: an ANA state, `lost`, `given up` or `refused`.
    pub state: &'static str,
    /// I/O commands sent by it.
    pub commands: u64,
    /// The part of `commands` that were sent again because of it, by any path.
    pub failovers: u64,
    /// Number of reconnections and resets of its controller.
    pub reconnects: u64,
    /// Reason why the path is no longer used although a controller is connected.
    pub refusal: Option<MultipathError>,
}

/// Identity of a namespace, which must be the same by all paths.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    identifiers: Vec<NamespaceDescriptor>,
    blocks: u64,
    block_bytes: u32,
}

/// Identity of a controller's subsystem and namespaces.
struct Described {
    subsystem: String,
    namespaces: BTreeMap<u32, Known>,
}

/// Pause of a command after each path was tried once.
const PAUSE: Delay = Delay::from_ms(10);
/// Interval of checks whether a path was lost during an operation with its controller.
const LOOK: Delay = Delay::from_ms(10);
/// Delay before a controller that answered incorrectly is asked again.
const ASK_AGAIN: Delay = Delay::from_s(1);
/// Maximum length of the ANA log page that is read, in bytes.
const LOG_BYTES_MAX: u64 = 64 << 10;
/// CMIC: the subsystem reports asymmetric namespace access.
const CMIC_ANA: u8 = 1 << 3;

/// A path.
struct Path {
    name: String,
    driver: Driver,
    /// ANA states by namespace; `None`: the controller does not support ANA.
    states: RefCell<Option<BTreeMap<u32, AnaState>>>,
    /// Number of the controller's resets when the states were read.
    learned: Cell<Option<u64>>,
    /// Set when the path leads to another subsystem.
    refusal: RefCell<Option<MultipathError>>,
    /// The states may have changed.
    news: Notify,
    /// Serializes the creation of queues.
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
    /// The state of a path may have changed.
    changed: Notify,
    turn: Cell<usize>,
}

/// Multipath over one subsystem. Cheap to clone.
#[derive(Clone)]
pub struct Multipath(Rc<Inner>);

/// The queue pairs of all paths that form one for their user.
struct PathQueues {
    inner: Rc<Inner>,
    config: QueueConfig,
    methods: Cell<Methods>,
    /// Queue pairs by path; `None` if the path was not available when they were created.
    pairs: RefCell<Vec<Option<QueuePair>>>,
}

/// Selection of a path for a command.
enum Choice {
    Path(usize),
    /// Nowhere now: paths are in transition.
    Change,
    /// Nowhere now: some may come back. Without a status, none is connected.
    Wait(Option<Status>),
    /// Nowhere: none will come back.
    Never(Status),
    /// Nowhere: all are given up.
    Gone,
}

/// Whether a command with unknown outcome may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeat {
    AtOnce,
    /// Once the lost controller has ended its commands.
    Later,
    Never,
}

/// Action after a command has ended.
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

/// The ANA state that a status reports.
fn reported_state(status: Status) -> Option<AnaState> {
    AnaState::ALL.into_iter().find(|state| state.status().is_some_and(|own| own.is(status)))
}

/// Selects the action after a command has ended.
fn judge(ended: &Result<Cqe, Lost>, repeat: Repeat) -> Verdict {
    match ended {
        Ok(cqe) => match cqe.status() {
            status if status.is_success() || status.dnr() => Verdict::Final,
            // The command was not executed.
            status if reported_state(status).is_some() || status.is(Status::NAMESPACE_NOT_READY) => {
                Verdict::Again
            }
            // The command has ended, whatever its outcome, so it can't take effect later.
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
    /// Multipath over these named paths, at least one. They stay in use until the drivers are shut down.
    ///
    /// # Errors
    /// [`MultipathError`] if the controllers do not belong to one subsystem with the same namespaces, or can't be
    /// identified.
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

    /// Creates a queue pair on each path, which together act as one. Executed commands use any of them;
    /// commands submitted in batches, or fused, use the first.
    ///
    /// # Errors
    /// [`DriverError`] if a controller refuses, or no path becomes available in time.
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

    /// Enables methods for the queue pairs of all paths, as [`Driver::enable_methods`].
    ///
    /// # Errors
    /// [`DriverError`] if a controller refuses a method that it offers.
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

    /// Deletes a queue pair; on lost paths, when they are back.
    ///
    /// # Errors
    /// [`DriverError`] if a controller refuses. The queue may then still exist on some paths.
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

    /// Shuts down the connected controllers. No command can be submitted afterwards.
    ///
    /// # Errors
    /// [`DriverError`] if one does not report completion in time.
    pub async fn shutdown(&self) -> Result<(), DriverError> {
        let mut result = Ok(());
        for path in self.0.paths.iter().filter(|path| path.driver.is_up()) {
            let driver = path.driver.clone();
            let ended = self.0.while_up(path, async move { driver.shutdown().await }).await;
            result = ended.and(result);
        }
        result
    }

    /// The driver of an available path.
    pub fn any_driver(&self) -> Option<Driver> {
        self.0.paths.iter().map(|path| &path.driver).find(|driver| driver.is_up()).cloned()
    }

    /// Number of completions that contradicted what was submitted, over all paths.
    pub fn protocol_errors(&self) -> u64 {
        self.0.paths.iter().map(|path| path.driver.protocol_errors()).sum()
    }

    /// Figures of each path, with its state for a namespace.
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

/// Enables methods for a queue pair; a reset in between enables them, too.
async fn enable(driver: &Driver, pair: &QueuePair, methods: Methods) -> Result<(), DriverError> {
    match driver.enable_methods(pair, methods).await {
        Ok(_) | Err(DriverError::Lost { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Deletes a queue pair, again if the controller is reset meanwhile, which recreates it.
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

/// Reads the identity of a controller's subsystem and namespaces.
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
    /// Checks that another path leads to the same subsystem; a missing namespace is allowed.
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
    /// Whether it will never be used again.
    fn is_over(&self) -> bool {
        self.refusal.borrow().is_some() || self.driver.is_gone()
    }

    /// State for a namespace; `None` if not usable now.
    fn state(&self, nsid: u32) -> Option<AnaState> {
        let is_known = self.learned.get() == Some(self.driver.resets());
        if self.refusal.borrow().is_some() || !is_known || !self.driver.is_up() {
            return None;
        }
        let states = self.states.borrow();
        match &*states {
            // For commands of no namespace, or of all.
            Some(_) if matches!(nsid, 0 | NSID_ALL) => Some(AnaState::OPTIMIZED),
            Some(states) => Some(states.get(&nsid).copied().unwrap_or(AnaState::INACCESSIBLE)),
            None => Some(AnaState::OPTIMIZED),
        }
    }

    fn has_change(&self) -> bool {
        let states = self.states.borrow();
        states.as_ref().is_some_and(|states| states.values().any(|state| *state == AnaState::CHANGE))
    }

    /// Time limit of the transition state.
    fn transition(&self) -> Delay {
        Delay::from_s(u64::from(self.driver.identity().anatt).max(1))
    }
}

impl Inner {
    /// Keeps the states of a path up to date.
    async fn attend(self: Rc<Self>, index: usize) {
        let path = &self.paths[index];
        loop {
            match path.has_change() {
                // Ask again if the controller does not report the end of the transition in time.
                true => drop(self.clock.within(path.transition(), path.news.notified()).await),
                false => path.news.notified().await,
            }
            while !path.is_over() {
                let life = path.driver.resets();
                if self.renew(index).await.is_ok() {
                    break;
                }
                // A path lost meanwhile is waited for; a controller that refuses is asked again, with a delay.
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

    /// Notifies when the controller of a path was replaced, or is given up.
    async fn follow(self: Rc<Self>, index: usize) {
        let path = &self.paths[index];
        while !path.driver.is_gone() {
            path.driver.changed().await;
            path.news.notify_one();
        }
    }

    /// Asks the controller of a path again, once it is connected: everything, if it was replaced.
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

    /// Enables notifications of a path's controller, and reads the states. The controller has been identified since its
    /// last reset.
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

    /// Runs an operation with the controller of a path, and waits for its end, unless the path is lost: then the
    /// operation continues in the background, possibly until another controller is connected.
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

/// The state of each namespace in an ANA log page.
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

/// Counts a command as outstanding on a path until it is dropped.
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

    /// Creates the queue pair of a path, if the path is available and has none.
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
            // Its next controller will get them.
            Err(DriverError::Lost { lost: Lost::Reset, .. }) => Ok(()),
            Err(error) if path.driver.is_up() => Err(error),
            Err(_) => Ok(()),
        }
    }

    /// Selects a path for a command to `nsid`, preferably another than the last one.
    fn choose(&self, nsid: u32, last: Option<usize>) -> Choice {
        let paths = &self.inner.paths;
        let pairs = self.pairs.borrow();
        let mut best: Option<((bool, bool, u32, usize), usize)> = None;
        let (mut changes, mut waits, mut persistent, mut lost) = (false, None, false, false);
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
                None => lost = true,
            }
        }
        match best {
            Some((_, index)) => {
                self.inner.turn.set(index + 1);
                Choice::Path(index)
            }
            None if changes => Choice::Change,
            None if lost || waits.is_some() => Choice::Wait(waits),
            None if persistent => Choice::Never(Status::ANA_PERSISTENT_LOSS),
            None => Choice::Gone,
        }
    }

    /// Waits for a path for a command; returns its index.
    ///
    /// # Errors
    /// The result with which the command ends, if there is no path in time.
    async fn find(&self, nsid: u32, last: Option<usize>) -> Result<usize, Result<Cqe, Lost>> {
        let Inner { clock, config, .. } = &*self.inner;
        let begun = clock.now();
        let ends_with = |status| Ok(Cqe::new(0, status, 0, 0));
        loop {
            let (limit, ended) = match self.choose(nsid, last) {
                Choice::Path(index) => return Ok(index),
                Choice::Change => {
                    let longest = self.inner.paths.iter().map(Path::transition).max();
                    let longest = longest.unwrap_or(config.patience).min(config.wait_max);
                    (longest, ends_with(Status::ANA_TRANSITION))
                }
                Choice::Wait(None) => (config.patience, Err(Lost::Disconnected)),
                Choice::Wait(Some(status)) => (config.patience, ends_with(status)),
                Choice::Never(status) => return Err(ends_with(status)),
                Choice::Gone => return Err(Err(Lost::Failed)),
            };
            let waited = clock.now().since(begun);
            if waited >= limit {
                return Err(ended);
            }
            clock.within(limit - waited, self.inner.changed.notified()).await;
        }
    }

    async fn carry(&self, request: &Request<'_>) -> Result<Cqe, Lost> {
        let Inner { clock, config, paths, .. } = &*self.inner;
        let mut failed = None;
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
                // It was not submitted: any other path may be used.
                Err(Lost::Reset | Lost::Failed) => {
                    last = Some(index);
                    continue;
                }
                Err(lost) => return Err(lost),
            };
            drop(outstanding);
            let verdict = judge(&ended, repeat);
            if let Ok(cqe) = &ended
                && let Some(state) = reported_state(cqe.status())
            {
                // Record the state, so that the next command does not have to fail in the same way.
                if let Some(states) = &mut *path.states.borrow_mut() {
                    states.insert(nsid, state);
                }
                path.news.notify_one();
            }
            let now = clock.now();
            if verdict == Verdict::Final || now.since(*failed.get_or_insert(now)) >= config.patience {
                return ended;
            }
            let quiesce = config.quiesce.max(Delay::from_ms(path.driver.identity().cqt.into()));
            if verdict == Verdict::AgainLater && quiesce > config.wait_max {
                return ended;
            }
            path.failovers.set(path.failovers.get() + 1);
            last = Some(index);
            attempts += 1;
            if verdict == Verdict::AgainLater {
                clock.timer(quiesce).await;
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

    // Without this a command that must not be executed twice would be, or a command would fail that another path could
    // execute.
    #[test]
    fn what_is_sent_again_depends_on_the_command_and_its_end() {
        use Verdict::{Again, AgainLater, Final};
        let repeat = |opcode| Repeat::of(&ReadWrite::default().sqe(opcode, 0, 1), false);
        let (read, write) = (repeat(NvmOpcode::READ), repeat(NvmOpcode::WRITE));
        let copy = Repeat::of(&Copy::default().sqe(0, 1), false);
        let verdicts = |ended: &Result<Cqe, Lost>| [read, write, copy].map(|repeat| judge(ended, repeat));
        assert_eq!(verdicts(&ended(Status::SUCCESS)), [Final; 3]);
        assert_eq!(verdicts(&ended(Status::COMPARE_FAILURE)), [Final; 3]);
        for refused in [
            Status::ANA_INACCESSIBLE,
            Status::ANA_PERSISTENT_LOSS,
            Status::ANA_TRANSITION,
            Status::NAMESPACE_NOT_READY,
        ] {
            assert_eq!(verdicts(&ended(refused)), [Again; 3]);
            assert_eq!(verdicts(&ended(refused.with_dnr())), [Final; 3]);
        }
        assert_eq!(verdicts(&ended(Status::INTERNAL_PATH_ERROR)), [Again, Again, Final]);
        assert_eq!(verdicts(&ended(Status::TRANSIENT_TRANSPORT_ERROR)), [Again, Again, Final]);
        assert_eq!(verdicts(&Err(Lost::Reset)), [Again, AgainLater, Final]);
        assert_eq!(verdicts(&Err(Lost::ShutDown)), [Final; 3]);
        // Write shares its opcode with Store, and Read with Retrieve.
        let pair = |opcode| Repeat::of(&ReadWrite::default().sqe(opcode, 0, 1), true);
        assert_eq!((pair(NvmOpcode::WRITE), pair(NvmOpcode::READ)), (Repeat::Never, Repeat::AtOnce));
        let compare = ReadWrite::default().sqe(NvmOpcode::COMPARE, 0, 1);
        assert_eq!(Repeat::of(&compare, false), Repeat::AtOnce);
        assert_eq!(Repeat::of(&compare.with_fuse(FUSE_FIRST), false), Repeat::Never);
    }

    // A drive served again under its old name is not a path to the former contents.
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

    // A malformed or truncated page must not be read past its end.
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
