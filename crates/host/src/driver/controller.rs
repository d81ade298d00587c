//! The driver of one controller: enable, identify, create queues, reset, shut down.

use crate::driver::completion::{CompletionConfig, CompletionQueue, Sharers, handle, poll, reap_by_calls};
use crate::driver::costs::HostCosts;
use crate::driver::extension::Extensions;
use crate::driver::lending::Loan;
use crate::driver::port::{ABSENT, Port};
use crate::driver::queue::{Band, OutOfBand, Pending, QueuePair, State, SubmissionConfig, SubmissionQueue};
use crate::driver::watchdog;
use crate::error::DriverError;
use crate::error::Lost;
use crate::fabric::Initiator;
use byteway_clock::{Clock, Delay, Handler, Notify, Station, TaskId};
use byteway_link::memory::PAGE_BYTES;
use byteway_transfer::host::{Buffer, PlanError, Planner};
use byteway_wire::IntoBytes;
use byteway_wire::nvme::feature::NumberOfQueues;
use byteway_wire::nvme::identify::NamespaceDescriptor;
use byteway_wire::nvme::kv::identify::{CommandSetCombinations, IdentifyNamespaceKv};
use byteway_wire::nvme::vendor::cxl::DeviceMemoryLog;
use byteway_wire::nvme::vendor::{Capabilities, Methods};
use byteway_wire::nvme::{
    Abort, ActiveNamespaceList, AdminOpcode, Aqa, Cap, Cc, Cns, Cqe, CreateCq, CreateSq, Csts, DeleteQueue,
    GetLogPage, Identify, IdentifyController, IdentifyNamespace, QueuePriority, SetFeatures, Sqe, Status,
    csi, fid, lid, register,
};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// How completions are detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completion {
    /// Polling. The cost of polls without a completion is not charged.
    #[default]
    Polled,
    /// Interrupts. Over shared memory, polling is used instead.
    Interrupt,
}

/// The arbitration mechanism of the controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arbitration {
    /// Round robin.
    #[default]
    RoundRobin,
    /// Weighted round robin by priority class, if supported; otherwise round robin.
    Weighted,
}

/// Configuration of a driver.
#[derive(Clone)]
pub struct DriverConfig {
    /// Processor time of the driver.
    pub costs: HostCosts,
    /// How completions of the admin queue are detected (vector 0).
    pub completion: Completion,
    /// The processor charged for admin commands, and for I/O queues without one. `None`: one of its own.
    pub cpu: Option<Rc<Station>>,
    /// Charge interrupts to the processor of the queue's completions, as interrupt affinity does; otherwise to the
    /// processor above.
    pub interrupts_queue: bool,
    /// Entries of the admin queues, 2 to 4096.
    pub admin_entries: u16,
    /// Number of I/O queues to request, at least 1.
    pub queues_wanted: u16,
    /// The arbitration mechanism to select.
    pub arbitration: Arbitration,
    /// Time after which a command is aborted; after as long again the controller is reset. `None`: never.
    pub timeout: Option<Delay>,
    /// Interval of checks for overdue commands.
    pub timeout_period: Delay,
    /// Interval of CSTS reads while waiting for a change of RDY.
    pub ready_period: Delay,
    /// The controller has no I/O queues and no namespaces, as that of a Discovery Service.
    pub is_administrative: bool,
    /// Memory that may be lent to a drive that requests some, in bytes; 0: none.
    pub lent_bytes_max: u64,
}

impl DriverConfig {
    /// The default limit of lent memory, as in Linux (`max_host_mem_size_mb` of its nvme module).
    pub const LENT_BYTES_MAX: u64 = 128 << 20;
}

impl Default for DriverConfig {
    fn default() -> Self {
        DriverConfig {
            costs: HostCosts::default(),
            completion: Completion::Polled,
            cpu: None,
            interrupts_queue: false,
            admin_entries: 32,
            queues_wanted: 64,
            arbitration: Arbitration::RoundRobin,
            timeout: None,
            timeout_period: Delay::from_s(1),
            ready_period: Delay::from_us(100),
            is_administrative: false,
            lent_bytes_max: Self::LENT_BYTES_MAX,
        }
    }
}

/// Configuration of an I/O queue pair.
#[derive(Clone)]
pub struct QueueConfig {
    /// Entries of the submission queue, one of which always stays empty.
    pub entries: u32,
    /// Maximum number of outstanding commands; `None`: entries minus one. More is possible, because a slot is free
    /// again once its entry was fetched.
    pub outstanding_max: Option<u16>,
    /// Priority class under weighted arbitration.
    pub priority: QueuePriority,
    /// Completion queue size in entries; `None` for that of the submission queue.
    pub completion_entries: Option<u32>,
    /// The interrupt vector; `None`: polled.
    pub vector: Option<u16>,
    /// Command identifiers for a second owner of the queue pair ([`QueuePair::out_of_band`]); `None`: no second owner.
    pub out_of_band: Option<OutOfBand>,
    /// The queue pair whose completion queue is shared; the two fields above are then unused.
    pub shares: Option<QueuePair>,
    /// The processor charged; `None`: the driver's.
    pub cpu: Option<Rc<Station>>,
}

impl QueueConfig {
    /// A polled queue pair with a completion queue of its own, of the same size.
    pub fn new(entries: u32) -> Self {
        QueueConfig {
            entries,
            outstanding_max: None,
            out_of_band: None,
            priority: QueuePriority::default(),
            completion_entries: None,
            vector: None,
            shares: None,
            cpu: None,
        }
    }
}

/// A block namespace, from Identify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Namespace identifier.
    pub nsid: u32,
    /// Logical blocks.
    pub blocks: u64,
    /// Data bytes of a block.
    pub block_bytes: u32,
    /// Metadata bytes of a block.
    pub metadata_bytes: u16,
    /// Namespace Optimal I/O Boundary in blocks, which commands should not cross (NOIOB). 0: none.
    pub optimal_boundary: u16,
}

/// A KV namespace, from Identify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvNamespace {
    /// Namespace identifier.
    pub nsid: u32,
    /// Size, in bytes.
    pub bytes: u64,
    /// Used bytes.
    pub used_bytes: u64,
    /// The longest key, in bytes.
    pub key_bytes_max: u16,
    /// The longest value, in bytes.
    pub value_bytes_max: u32,
}

/// Data of an admin command.
pub enum Data<'a> {
    /// None.
    None,
    /// Data from the controller; filled on completion.
    In(&'a mut [u8]),
    /// Data to the controller.
    Out(&'a [u8]),
}

/// CAP.CSS: the NVM command set.
const CSS_NVM: u8 = 1 << 0;
/// CAP.CSS: one or more command sets, listed by Identify.
const CSS_SEVERAL: u8 = 1 << 6;

/// The longest data of an admin command, in bytes.
const ADMIN_BYTES_MAX: u32 = 128 << 10;
/// Number of command identifiers of a queue; those from 8000h on are identifiers of payloads.
const IDENTIFIERS_MAX: u16 = 0x8000;
/// Maximum number of namespaces that are identified: one list.
const NAMESPACES_MAX: usize = 1024;
/// Minimum timeout for a change of RDY; a smaller CAP.TO is ignored.
const READY_TIMEOUT_MIN: Delay = Delay::from_ms(500);

struct Created {
    pair: QueuePair,
    priority: QueuePriority,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Up,
    Resetting,
    Gone(Lost),
}

/// What reaps a polled completion queue.
enum Reaper {
    Calls(Handler),
    Task(TaskId),
}

/// Host memory for the data of one admin command at a time.
struct Scratch {
    buffer: Buffer,
    slot: usize,
}

pub(crate) struct Inner {
    pub(crate) clock: Clock,
    pub(crate) port: Port,
    pub(crate) config: DriverConfig,
    pub(crate) admin: QueuePair,
    cap: Cap,
    cpu: Rc<Station>,
    condition: Cell<Condition>,
    changed: Notify,
    pub(crate) identity: RefCell<Rc<IdentifyController>>,
    /// Memory allocated to be lent to it.
    pub(crate) loan: Cell<Option<Loan>>,
    namespaces: RefCell<Rc<[Namespace]>>,
    kv_namespaces: RefCell<Rc<[KvNamespace]>>,
    pub(crate) extensions: Rc<Extensions>,
    /// The reset count at which the division of device memory was read.
    memory_learned: Cell<Option<u64>>,
    granted: Cell<u16>,
    /// Bit mask of the enabled command sets, by identifier.
    sets: Cell<u64>,
    pub(crate) resets: Cell<u64>,
    protocol_errors: Rc<Cell<u64>>,
    queues: RefCell<Vec<Created>>,
    submission_ids: RefCell<BTreeSet<u16>>,
    completion_ids: RefCell<BTreeSet<u16>>,
    /// Reapers of polled completion queues, by CQ identifier.
    reapers: RefCell<BTreeMap<u16, Reaper>>,
    vectors: RefCell<BTreeMap<u16, Sharers>>,
    planner: Planner,
    scratch: RefCell<Vec<Scratch>>,
}

/// The driver of a controller. Cheap to clone.
#[derive(Clone)]
pub struct Driver(pub(crate) Rc<Inner>);

/// Gives the controller up if a reset is cancelled.
struct Resetting<'a>(&'a Inner);

impl Drop for Resetting<'_> {
    fn drop(&mut self) {
        if self.0.condition.get() == Condition::Resetting {
            self.0.give_up(Lost::Failed);
        }
    }
}

impl Driver {
    /// Takes over the controller: disables it if necessary, sets the admin queues, enables it, and identifies it and
    /// its namespaces.
    ///
    /// # Errors
    /// [`DriverError`] if there is no controller, it does not become ready, or its answers are unusable.
    pub async fn attach(port: Port, config: DriverConfig) -> Result<Driver, DriverError> {
        let raw = port.read64(register::CAP).await;
        if raw == ABSENT {
            return Err(DriverError::NoController);
        }
        let cap = Cap::from_bits(raw);
        if cap.mpsmin() > 0 {
            return Err(DriverError::PageSize(12 + u32::from(cap.mpsmin())));
        }
        if cap.css() & (CSS_NVM | CSS_SEVERAL) == 0 && !config.is_administrative {
            return Err(DriverError::CommandSet);
        }
        let entries = u32::from(config.admin_entries);
        if !(2..=4096).contains(&entries) {
            return Err(DriverError::QueueEntries { entries, entries_max: 4096 });
        }
        let clock = port.clock().clone();
        let cpu = config.cpu.clone().unwrap_or_else(|| Rc::new(Station::new(&clock, 1)));
        let protocol_errors = Rc::new(Cell::new(0));
        let extensions = Rc::new(Extensions::new(&clock));
        let completion = Rc::new(CompletionQueue::new(
            &port,
            CompletionConfig {
                cqid: 0,
                entries,
                address: allocate(&port, entries, Cqe::SIZE)?,
                dstrd: cap.dstrd(),
                vector: (config.completion == Completion::Interrupt && !port.is_shared()).then_some(0),
                cpu: cpu.clone(),
                costs: config.costs,
                protocol_errors: protocol_errors.clone(),
            },
        ));
        let submission = SubmissionQueue::new(
            &port,
            SubmissionConfig {
                qid: 0,
                entries,
                address: allocate(&port, entries, Sqe::SIZE)?,
                dstrd: cap.dstrd(),
                identifiers: config.admin_entries - 1,
                out_of_band: None,
                cpu: cpu.clone(),
                costs: config.costs,
                extensions: extensions.clone(),
            },
            completion.work.clone(),
        );
        let admin = QueuePair {
            submission: Rc::new(submission),
            completion,
            band: Band::Tags,
            layer: None,
            routes: None,
        };
        admin.completion.add(admin.submission.clone());
        let driver = Driver(Rc::new(Inner {
            admin: admin.clone(),
            cap,
            cpu,
            condition: Cell::new(Condition::Up),
            changed: Notify::new(&clock),
            identity: RefCell::new(Rc::new(IdentifyController::default())),
            loan: Cell::default(),
            namespaces: RefCell::new(Rc::new([])),
            kv_namespaces: RefCell::new(Rc::new([])),
            extensions,
            memory_learned: Cell::default(),
            granted: Cell::new(0),
            sets: Cell::new(1 << csi::NVM),
            resets: Cell::new(0),
            protocol_errors,
            queues: RefCell::default(),
            submission_ids: RefCell::default(),
            completion_ids: RefCell::default(),
            reapers: RefCell::default(),
            vectors: RefCell::default(),
            planner: Planner::new(port.memory(), port.pointer_kind(), ADMIN_BYTES_MAX),
            scratch: RefCell::default(),
            clock,
            port,
            config,
        }));
        let watched = match (driver.0.config.timeout, &driver.0.port) {
            (Some(timeout), Port::Shared(_) | Port::Fabric(_)) => {
                let attaching = watchdog::watch_attachment(driver.clone(), timeout);
                Some(driver.0.clock.spawn("watchdog of the attachment", attaching))
            }
            _ => None,
        };
        let initialized = driver.initialize().await;
        if let Some(task) = watched {
            driver.0.clock.kill(task);
        }
        // Being given up is the cause of whatever has failed then.
        let initialized = driver.check_up().and(initialized);
        if let Err(error) = initialized {
            driver.abandon();
            if let Port::Fabric(initiator) = &driver.0.port {
                initiator.lose();
            }
            return Err(error);
        }
        if let Port::Fabric(initiator) = &driver.0.port {
            initiator.keep();
            driver.0.clock.spawn("reconnection", reconnect(driver.clone(), initiator.clone()));
        }
        if let Some(timeout) = driver.0.config.timeout {
            let watched = driver.clone();
            driver.0.clock.spawn("watchdog", async move { watchdog::watch(watched, timeout).await });
        }
        Ok(driver)
    }

    /// Disables, enables and identifies the controller.
    async fn initialize(&self) -> Result<(), DriverError> {
        self.disable().await?;
        self.enable().await?;
        self.start_reaper(&self.0.admin.completion);
        self.learn().await?;
        self.lend().await
    }

    /// Name of the controller in messages.
    pub(crate) fn name(&self) -> String {
        match &self.0.port {
            Port::Link(_) | Port::Shared(_) => "the drive".to_owned(),
            Port::Fabric(initiator) => initiator.subsystem().as_str().to_owned(),
        }
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// The port to the controller.
    pub fn port(&self) -> &Port {
        &self.0.port
    }

    /// Controller Capabilities.
    pub fn cap(&self) -> Cap {
        self.0.cap
    }

    /// Identify Controller, as read at the last attach or refresh.
    pub fn identity(&self) -> Rc<IdentifyController> {
        self.0.identity.borrow().clone()
    }

    /// The active KV namespaces, in order; empty if the controller does not have the command set.
    pub fn kv_namespaces(&self) -> Rc<[KvNamespace]> {
        self.0.kv_namespaces.borrow().clone()
    }

    /// The active block namespaces with a supported format, in order.
    pub fn namespaces(&self) -> Rc<[Namespace]> {
        self.0.namespaces.borrow().clone()
    }

    /// Vendor extensions of the controller, as read at the last attach, reset or refresh; all zero without any.
    pub fn capabilities(&self) -> Capabilities {
        self.0.extensions.capabilities()
    }

    /// Maximum data transfer of an I/O command, in bytes; `None`: no limit.
    pub fn transfer_bytes_max(&self) -> Option<u64> {
        self.0.identity.borrow().transfer_bytes_max(PAGE_BYTES)
    }

    /// Number of I/O queues that the controller granted.
    pub fn queues_granted(&self) -> u16 {
        self.0.granted.get()
    }

    /// The admin queue pair.
    pub fn admin_queue(&self) -> &QueuePair {
        &self.0.admin
    }

    /// Whether completions are signalled by interrupts.
    pub fn interrupts(&self) -> bool {
        self.0.config.completion == Completion::Interrupt
    }

    /// The processor charged by default.
    pub fn cpu(&self) -> &Rc<Station> {
        &self.0.cpu
    }

    /// Number of completions that contradicted what was submitted: an unknown identifier or queue, an impossible SQHD.
    pub fn protocol_errors(&self) -> u64 {
        self.0.protocol_errors.get()
    }

    /// Number of controller resets by this driver.
    pub fn resets(&self) -> u64 {
        self.0.resets.get()
    }

    /// Executes an admin command. `data` is described by PRPs.
    ///
    /// # Errors
    /// [`DriverError`] if the command has no completion, or no memory is available for its data. A completion with an
    /// error status is returned as such.
    pub async fn admin(&self, sqe: Sqe, data: Data<'_>) -> Result<Cqe, DriverError> {
        self.command("an admin command", sqe, data).await
    }

    /// Reads `into.len()` bytes (a multiple of 4) from the beginning of a log page. Unless `retain` is set, this clears
    /// the event that announced the page.
    pub async fn log_page(
        &self,
        lid: u8,
        nsid: u32,
        retain: bool,
        into: &mut [u8],
    ) -> Result<Cqe, DriverError> {
        let numd_z = (into.len() as u32 / 4).saturating_sub(1);
        let sqe = GetLogPage { lid, rae: retain, numd_z, ..GetLogPage::default() }.sqe(0, nsid);
        self.command("Get Log Page", sqe, Data::In(into)).await
    }

    /// Requests the abort of a command. Returns true if the controller aborted it; the command then completes
    /// with an abort status.
    pub async fn abort(&self, command: &Pending) -> Result<bool, DriverError> {
        let sqe = Abort { sqid: command.qid(), cid: command.cid() }.sqe(0);
        let cqe = self.checked("Abort", sqe, Data::None).await?;
        Ok(cqe.dw0 & Abort::NOT_ABORTED == 0)
    }

    /// Identifies the controller and its namespaces again.
    pub async fn refresh(&self) -> Result<(), DriverError> {
        let mut identity = Box::new(IdentifyController::default());
        self.identify(Cns::CONTROLLER, 0, identity.as_mut_bytes()).await?;
        self.0.extensions.learn(Capabilities::parse(&identity.vs));
        self.0.identity.replace(Rc::from(identity));
        let mut namespaces = Vec::new();
        for nsid in self.active_namespaces(csi::NVM).await? {
            let mut namespace = Box::new(IdentifyNamespace::default());
            self.identify(Cns::NAMESPACE, nsid, namespace.as_mut_bytes()).await?;
            let format = namespace.format();
            if let Some(block_bytes) = format.block_bytes().filter(|bytes| *bytes >= 512) {
                let blocks = namespace.nsze;
                let (metadata_bytes, optimal_boundary) = (format.ms, namespace.noiob);
                namespaces.push(Namespace { nsid, blocks, block_bytes, metadata_bytes, optimal_boundary });
            }
        }
        self.0.namespaces.replace(namespaces.into());
        let mut namespaces = Vec::new();
        if self.has_key_values() {
            for nsid in self.active_namespaces(csi::KEY_VALUE).await? {
                let mut id = Box::new(IdentifyNamespaceKv::default());
                let (cns, csi) = (Cns::COMMAND_SET_NAMESPACE, csi::KEY_VALUE);
                self.identify_of(cns, csi, nsid, id.as_mut_bytes()).await?;
                namespaces.push(KvNamespace {
                    nsid,
                    bytes: id.nsze,
                    used_bytes: id.nuse,
                    key_bytes_max: id.format().kml,
                    value_bytes_max: id.format().vml,
                });
            }
        }
        if let Port::Fabric(initiator) = &self.0.port {
            initiator.set_pairs(namespaces.iter().map(|namespace: &KvNamespace| namespace.nsid));
        }
        self.0.kv_namespaces.replace(namespaces.into());
        Ok(())
    }

    /// The active namespaces of a command set, ascending; empty if it is not enabled.
    pub async fn namespaces_of(&self, csi: u8) -> Result<Vec<u32>, DriverError> {
        match self.0.sets.get().checked_shr(csi.into()) {
            Some(sets) if sets & 1 != 0 => self.active_namespaces(csi).await,
            _ => Ok(Vec::new()),
        }
    }

    /// The Identify Namespace data structure of a command set: [`Identify::BYTES`] long.
    pub async fn identify_namespace(&self, csi: u8, nsid: u32) -> Result<Vec<u8>, DriverError> {
        let mut id = vec![0; Identify::BYTES as usize];
        self.identify_of(Cns::COMMAND_SET_NAMESPACE, csi, nsid, &mut id).await?;
        Ok(id)
    }

    /// The Namespace Identification Descriptor list of a namespace.
    pub async fn namespace_descriptors(&self, nsid: u32) -> Result<Vec<NamespaceDescriptor>, DriverError> {
        let mut list = [0; Identify::BYTES as usize];
        self.identify(Cns::NAMESPACE_DESCRIPTORS, nsid, &mut list).await?;
        Ok(NamespaceDescriptor::parse_list(&list).collect())
    }

    /// Whether the controller is enabled for several command sets.
    fn has_all_sets(&self) -> bool {
        self.0.cap.css() & CSS_SEVERAL != 0
    }

    /// Whether the Key Value command set is enabled.
    pub fn has_key_values(&self) -> bool {
        self.0.sets.get() & 1 << csi::KEY_VALUE != 0
    }

    /// Selects the first combination with all command sets that this driver supports, otherwise that of block
    /// namespaces only.
    async fn select_sets(&self) -> Result<(), DriverError> {
        if !self.has_all_sets() {
            return Ok(());
        }
        let mut all = Box::new(CommandSetCombinations::default());
        self.identify(Cns::COMMAND_SETS, 0, all.as_mut_bytes()).await?;
        let (nvm, both) = (1 << csi::NVM, 1 << csi::NVM | 1 << csi::KEY_VALUE);
        let Some(index) = all.position(both).or_else(|| all.position(nvm)) else {
            return Err(DriverError::CommandSet);
        };
        let cdw11 = u32::from(index);
        let sqe = SetFeatures { fid: fid::COMMAND_SET_PROFILE, cdw11, ..SetFeatures::default() }.sqe(0, 0);
        self.checked("Set Features (I/O Command Set Profile)", sqe, Data::None).await?;
        self.0.sets.set(all.vectors[usize::from(index)]);
        Ok(())
    }

    /// The active namespaces of a command set, ascending.
    async fn active_namespaces(&self, csi: u8) -> Result<Vec<u32>, DriverError> {
        let mut list = Box::new(ActiveNamespaceList::default());
        match self.has_all_sets() {
            true => {
                let cns = Cns::COMMAND_SET_ACTIVE_NAMESPACES;
                self.identify_of(cns, csi, 0, list.as_mut_bytes()).await?;
            }
            false => self.identify(Cns::ACTIVE_NAMESPACES, 0, list.as_mut_bytes()).await?,
        }
        let mut last = 0;
        // A list that does not ascend is invalid from there on.
        let ascending = list.iter().take(NAMESPACES_MAX).take_while(|nsid| {
            let is_above = *nsid > last;
            last = *nsid;
            is_above
        });
        Ok(ascending.collect())
    }

    /// Creates an I/O queue pair.
    ///
    /// # Errors
    /// [`DriverError`] if no queue is left, the size is impossible, there is no memory, or the controller refuses.
    pub async fn create_queue_pair(&self, config: QueueConfig) -> Result<QueuePair, DriverError> {
        let inner = &self.0;
        self.check_up()?;
        self.check_entries(config.entries)?;
        let completion = match &config.shares {
            Some(pair) => self.find(pair)?.completion,
            None => self.create_completion_queue(&config).await?,
        };
        let place = self
            .free_id(&inner.submission_ids)
            .and_then(|qid| Ok((qid, allocate(&inner.port, config.entries, Sqe::SIZE)?)));
        let (qid, address) = match place {
            Ok(place) => place,
            Err(error) => {
                self.forget_completion_queue(&completion).await;
                return Err(error);
            }
        };
        inner.submission_ids.borrow_mut().insert(qid);
        let identifiers = config.entries.saturating_sub(1).clamp(1, u32::from(IDENTIFIERS_MAX)) as u16;
        let tags = config.outstanding_max.unwrap_or(identifiers).clamp(1, IDENTIFIERS_MAX);
        let submission = Rc::new(SubmissionQueue::new(
            &inner.port,
            SubmissionConfig {
                qid,
                entries: config.entries,
                address,
                dstrd: inner.cap.dstrd(),
                identifiers: tags,
                out_of_band: config.out_of_band.map(|own| OutOfBand {
                    count: own.count.min(IDENTIFIERS_MAX - own.first.unwrap_or(tags)),
                    ..own
                }),
                cpu: config.cpu.clone().unwrap_or_else(|| inner.cpu.clone()),
                costs: inner.config.costs,
                extensions: inner.extensions.clone(),
            },
            completion.work.clone(),
        ));
        completion.add(submission.clone());
        let pair = QueuePair { submission, completion, band: Band::Tags, layer: None, routes: None };
        inner.queues.borrow_mut().push(Created { pair: pair.clone(), priority: config.priority });
        if let Err(error) = self.announce_submission_queue(&pair, config.priority).await {
            if matches!(error, DriverError::Lost { lost: Lost::Reset, .. }) {
                // A reset in progress recreates this queue with all others.
                while inner.condition.get() == Condition::Resetting {
                    inner.changed.notified().await;
                }
                let sqe = DeleteQueue { qid }.sqe(AdminOpcode::DELETE_SQ, 0);
                let deleted = self.checked("Delete I/O Submission Queue", sqe, Data::None).await;
                deleted.map_err(|_| error.clone())?;
            }
            self.forget(&pair).await;
            return Err(error);
        }
        Ok(pair)
    }

    /// Deletes an I/O queue pair, and its completion queue if no other pair shares it. Commands that the controller
    /// does not complete are [`Lost::Deleted`].
    ///
    /// # Errors
    /// [`DriverError`] if the controller refuses. The queue then stays.
    pub async fn delete_queue_pair(&self, pair: &QueuePair) -> Result<(), DriverError> {
        let pair = self.find(pair)?;
        let sqe = DeleteQueue { qid: pair.qid() }.sqe(AdminOpcode::DELETE_SQ, 0);
        self.checked("Delete I/O Submission Queue", sqe, Data::None).await?;
        self.forget(&pair).await;
        Ok(())
    }

    /// Enables for a queue, in addition to its enabled methods, those of `wanted` that the controller offers;
    /// again after each reset, before the queue takes commands. Returns the enabled methods.
    ///
    /// # Errors
    /// [`DriverError`] if the controller refuses a method that it offers.
    pub async fn enable_methods(&self, pair: &QueuePair, wanted: Methods) -> Result<Methods, DriverError> {
        let pair = self.find(pair)?;
        let submission = &pair.submission;
        let enabled = submission.enabled();
        let wanted = submission.want(wanted).and(self.capabilities().offered());
        if wanted.is_within(enabled) {
            return Ok(enabled);
        }
        self.announce_methods(&pair, wanted).await
    }

    async fn announce_methods(&self, pair: &QueuePair, methods: Methods) -> Result<Methods, DriverError> {
        let qid = u32::from(pair.qid());
        let set = SetFeatures {
            fid: fid::PAYLOAD_METHODS,
            cdw11: methods.into_bits(),
            cdw12: qid,
            ..SetFeatures::default()
        };
        self.checked("Set Features (Payload Methods)", set.sqe(0, 0), Data::None).await?;
        if methods.cxl_mem() {
            self.learn_memory(methods.cxl_commit()).await?;
        }
        pair.submission.enable(methods);
        pair.completion.note_results();
        Ok(methods)
    }

    /// Reads the division of device memory: once after the controller was enabled, and again when its ring has been
    /// switched on.
    async fn learn_memory(&self, with_ring: bool) -> Result<(), DriverError> {
        let epoch = self.0.admin.submission.epoch();
        let is_complete = !with_ring || self.0.extensions.commits().is_some();
        if self.0.memory_learned.get() == Some(epoch) && is_complete {
            return Ok(());
        }
        let mut log = DeviceMemoryLog::default();
        let numd_z = (size_of::<DeviceMemoryLog>() / 4 - 1) as u32;
        let sqe = GetLogPage { lid: lid::DEVICE_MEMORY, numd_z, ..GetLogPage::default() }.sqe(0, 0);
        self.checked("Get Log Page (Device Memory)", sqe, Data::In(log.as_mut_bytes())).await?;
        let bytes = self.0.port.device_memory().map_or(0, |range| range.bytes);
        self.0.extensions.learn_memory(&self.0.port, log, bytes);
        self.0.memory_learned.set(Some(epoch));
        Ok(())
    }

    /// Resets the controller: disables and enables it, and recreates its queues. Commands outstanding at that moment
    /// are [`Lost::Reset`]; those submitted meanwhile wait.
    ///
    /// # Errors
    /// [`DriverError`] if the controller does not recover. Every command is then [`Lost::Failed`], now and later.
    pub async fn reset(&self) -> Result<(), DriverError> {
        let inner = &self.0;
        if inner.condition.get() == Condition::Resetting {
            while inner.condition.get() == Condition::Resetting {
                inner.changed.notified().await;
            }
            return self.check_up();
        }
        self.check_up()?;
        inner.condition.set(Condition::Resetting);
        let guard = Resetting(inner);
        self.hold();
        let losses = || if let Port::Fabric(initiator) = &inner.port { initiator.losses() } else { None };
        let mut before = losses();
        let mut result = self.restart().await;
        // A controller beyond a network may be lost again meanwhile.
        while result.is_err() && losses().is_some() && losses() != before {
            before = losses();
            self.hold();
            result = self.restart().await;
        }
        if result.is_ok() {
            inner.resets.set(inner.resets.get() + 1);
            inner.condition.set(Condition::Up);
            inner.changed.notify_all();
        }
        drop(guard); // gives the controller up, unless the reset succeeded
        result
    }

    /// Shuts the controller down before a power-off (CC.SHN), and waits until it reports completion. No command can be
    /// submitted afterwards.
    ///
    /// # Errors
    /// [`DriverError`] if it does not report completion within the time limit for becoming ready.
    pub async fn shutdown(&self) -> Result<(), DriverError> {
        let inner = &self.0;
        while inner.condition.get() == Condition::Resetting {
            inner.changed.notified().await; // a reset in progress would enable the controller again
        }
        self.check_up()?;
        inner.each_queue(|pair| pair.submission.set_state(State::Gone(Lost::ShutDown)));
        let cc = Cc::from_bits(inner.port.read32(register::CC).await);
        inner.port.write32(register::CC, cc.with_shn(Cc::SHN_NORMAL).into_bits());
        let done = self.wait_for("shut down", |csts| csts.shst() == Csts::SHST_COMPLETE).await;
        inner.each_queue(|pair| pair.completion.drain());
        inner.give_up(Lost::ShutDown);
        done
    }

    /// Abandons the controller, as when the host crashes and restarts: this driver submits nothing further, and takes
    /// no completion. Every command, now and later, is [`Lost::Deleted`]. The controller does not notice, and continues
    /// until another driver attaches.
    pub fn abandon(&self) {
        self.0.give_up(Lost::Deleted);
        self.0.each_queue(|pair| self.stop_reaper(&pair.completion));
    }

    /// Disables the controller and waits until it is not ready.
    async fn disable(&self) -> Result<(), DriverError> {
        let port = &self.0.port;
        let cc = Cc::from_bits(port.read32(register::CC).await);
        self.check_up()?; // abandoned meanwhile, it may belong to another driver
        if cc.en() {
            port.write32(register::CC, cc.with_en(false).with_shn(Cc::SHN_NONE).into_bits());
        }
        self.wait_for("disabled", |csts| !csts.rdy()).await
    }

    /// Sets the admin queues, enables the controller and waits until it is ready.
    async fn enable(&self) -> Result<(), DriverError> {
        let Inner { port, admin, cap, config, .. } = &*self.0;
        let size_z = config.admin_entries - 1;
        port.write32(register::AQA, Aqa::new().with_asqs_z(size_z).with_acqs_z(size_z).into_bits());
        port.write64(register::ASQ, admin.submission.address);
        port.write64(register::ACQ, admin.completion.address);
        let weighted = config.arbitration == Arbitration::Weighted && cap.ams() & 1 == 1;
        let ams = if weighted { Cc::AMS_WEIGHTED_ROUND_ROBIN } else { Cc::AMS_ROUND_ROBIN };
        let css = if self.has_all_sets() { Cc::CSS_ALL } else { Cc::CSS_NVM };
        let cc = Cc::new().with_en(true).with_css(css).with_ams(ams).with_iosqes(6).with_iocqes(4);
        port.write32(register::CC, cc.into_bits());
        self.wait_for("ready", |csts| csts.rdy()).await
    }

    /// Polls CSTS until `wanted`, for at most the time of CAP.TO, in real time also at most the timeout of a command.
    async fn wait_for(&self, what: &'static str, wanted: impl Fn(Csts) -> bool) -> Result<(), DriverError> {
        let Inner { clock, port, cap, config, .. } = &*self.0;
        let reported = READY_TIMEOUT_MIN.max(Delay::from_ms(500) * u64::from(cap.to()));
        // A controller in another process may report anything.
        let waited = match (port, config.timeout) {
            (Port::Shared(_) | Port::Fabric(_), Some(timeout)) => reported.min(timeout),
            _ => reported,
        };
        let deadline = clock.now() + waited;
        loop {
            let raw = port.read32(register::CSTS).await;
            if self.0.condition.get() == Condition::Gone(Lost::Deleted) {
                return Err(DriverError::Gone(Lost::Deleted));
            }
            if raw == ABSENT as u32 {
                return Err(DriverError::NoController);
            }
            let csts = Csts::from_bits(raw);
            if wanted(csts) {
                return Ok(());
            }
            if csts.cfs() && what != "disabled" {
                return Err(DriverError::Fatal);
            }
            if clock.now() >= deadline {
                return Err(DriverError::NotReady { what, waited });
            }
            clock.timer(config.ready_period.max(Delay::from_ns(100))).await;
        }
    }

    /// Requests queues, then identifies the controller.
    async fn learn(&self) -> Result<(), DriverError> {
        if self.0.config.is_administrative {
            let mut identity = Box::new(IdentifyController::default());
            self.identify(Cns::CONTROLLER, 0, identity.as_mut_bytes()).await?;
            self.0.identity.replace(Rc::from(identity));
            return Ok(());
        }
        self.ask_for_queues().await?;
        self.select_sets().await?;
        self.refresh().await
    }

    async fn ask_for_queues(&self) -> Result<(), DriverError> {
        let wanted = self.0.config.queues_wanted.max(1);
        let cdw11 = NumberOfQueues::new().with_nsq_z(wanted - 1).with_ncq_z(wanted - 1).into_bits();
        let sqe = SetFeatures { fid: fid::NUMBER_OF_QUEUES, cdw11, ..SetFeatures::default() }.sqe(0, 0);
        let cqe = self.checked("Set Features (Number of Queues)", sqe, Data::None).await?;
        let granted = NumberOfQueues::from_bits(cqe.dw0);
        let least = granted.nsq_z().min(granted.ncq_z()).saturating_add(1);
        self.0.granted.set(least.min(wanted));
        Ok(())
    }

    /// A Set Features without data. Returns its status.
    pub(crate) async fn set_features(&self, command: SetFeatures) -> Result<Status, DriverError> {
        Ok(self.command("Set Features", command.sqe(0, 0), Data::None).await?.status())
    }

    async fn identify(&self, cns: Cns, nsid: u32, into: &mut [u8]) -> Result<(), DriverError> {
        self.identify_of(cns, 0, nsid, into).await
    }

    /// Identify of a structure specific to a command set.
    async fn identify_of(&self, cns: Cns, csi: u8, nsid: u32, into: &mut [u8]) -> Result<(), DriverError> {
        let sqe = Identify { cns, csi, ..Identify::default() }.sqe(0, nsid);
        self.checked("Identify", sqe, Data::In(into)).await.map(drop)
    }

    /// Executes a command of the driver's own, which must succeed.
    pub(crate) async fn checked(
        &self,
        what: &'static str,
        sqe: Sqe,
        data: Data<'_>,
    ) -> Result<Cqe, DriverError> {
        let cqe = self.command(what, sqe, data).await?;
        match cqe.status() {
            status if status.is_success() => Ok(cqe),
            status => Err(DriverError::Status { what, status }),
        }
    }

    async fn command(&self, what: &'static str, sqe: Sqe, data: Data<'_>) -> Result<Cqe, DriverError> {
        let inner = &self.0;
        let bytes = match &data {
            Data::None => 0,
            Data::In(bytes) => bytes.len(),
            Data::Out(bytes) => bytes.len(),
        };
        let lost = |lost| DriverError::Lost { what, lost };
        if bytes == 0 {
            return inner.admin.execute(sqe).await.map_err(lost);
        }
        // If this future is dropped before the command completes, the memory is not reused: the controller may still
        // write to it.
        let scratch = self.scratch(bytes)?;
        let address = scratch.buffer.pages()[0];
        let memory = inner.port.memory();
        let fault = |fault| DriverError::Data(PlanError::Fault(fault));
        if let Data::Out(from) = &data {
            memory.write(address, from).map_err(fault)?;
        }
        let sqe = inner.planner.plan(scratch.slot, &scratch.buffer, bytes as u32)?.placed_in(sqe);
        let completed = inner.admin.execute(sqe).await;
        if let (Ok(_), Data::In(into)) = (&completed, data) {
            memory.read(address, into).map_err(fault)?;
        }
        inner.scratch.borrow_mut().push(scratch);
        completed.map_err(lost)
    }

    fn scratch(&self, bytes: usize) -> Result<Scratch, DriverError> {
        let inner = &self.0;
        if bytes > ADMIN_BYTES_MAX as usize {
            let (bytes, bytes_max) = (bytes as u64, u64::from(ADMIN_BYTES_MAX));
            return Err(PlanError::TooLong { bytes, bytes_max }.into());
        }
        let mut free = inner.scratch.borrow_mut();
        if let Some(index) = free.iter().position(|scratch| scratch.buffer.bytes() as usize >= bytes) {
            return Ok(free.swap_remove(index));
        }
        let memory = inner.port.memory();
        let rounded = (bytes as u32).next_multiple_of(PAGE_BYTES as u32);
        let buffer = Buffer::contiguous(memory, 0, rounded).ok_or(DriverError::Memory("an admin command"))?;
        let slot = inner.planner.add_slot().ok_or(DriverError::Memory("an admin command"))?;
        Ok(Scratch { buffer, slot })
    }

    /// Whether the controller is being reset.
    pub(crate) fn is_resetting(&self) -> bool {
        self.0.condition.get() == Condition::Resetting
    }

    /// Whether commands can be submitted now: the controller exists, and is not being reset.
    pub(crate) fn is_up(&self) -> bool {
        let is_lost = matches!(&self.0.port, Port::Fabric(initiator) if initiator.is_lost());
        self.0.condition.get() == Condition::Up && !is_lost
    }

    /// Whether the controller was removed permanently.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.0.condition.get(), Condition::Gone(_))
    }

    /// Waits until a reset has ended, successfully or not, or the controller is given up.
    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Waits until commands can be submitted. `false`: never.
    pub(crate) async fn up(&self) -> bool {
        while !self.is_up() && !self.is_gone() {
            self.changed().await;
        }
        self.is_up()
    }

    pub(crate) fn check_up(&self) -> Result<(), DriverError> {
        match self.0.condition.get() {
            Condition::Gone(lost) => Err(DriverError::Gone(lost)),
            _ => Ok(()),
        }
    }

    fn check_entries(&self, entries: u32) -> Result<u32, DriverError> {
        let entries_max = u32::from(self.0.cap.mqes_z()) + 1;
        if entries < 2 || entries > entries_max {
            return Err(DriverError::QueueEntries { entries, entries_max });
        }
        Ok(entries)
    }

    /// The lowest free identifier among the granted ones.
    fn free_id(&self, taken: &RefCell<BTreeSet<u16>>) -> Result<u16, DriverError> {
        let granted = self.0.granted.get();
        let taken = taken.borrow();
        (1..=granted).find(|id| !taken.contains(id)).ok_or(DriverError::NoQueueLeft { granted })
    }

    /// Finds the queue pair in this driver's list.
    fn find(&self, pair: &QueuePair) -> Result<QueuePair, DriverError> {
        let queues = self.0.queues.borrow();
        let known = queues.iter().find(|created| Rc::ptr_eq(&created.pair.submission, &pair.submission));
        known.map(|created| created.pair.clone()).ok_or(DriverError::NoSuchQueue(pair.qid()))
    }

    async fn create_completion_queue(
        &self,
        config: &QueueConfig,
    ) -> Result<Rc<CompletionQueue>, DriverError> {
        let inner = &self.0;
        let entries = self.check_entries(config.completion_entries.unwrap_or(config.entries))?;
        let cqid = self.free_id(&inner.completion_ids)?;
        let address = allocate(&inner.port, entries, Cqe::SIZE)?;
        inner.completion_ids.borrow_mut().insert(cqid);
        let completion = Rc::new(CompletionQueue::new(
            &inner.port,
            CompletionConfig {
                cqid,
                entries,
                address,
                dstrd: inner.cap.dstrd(),
                vector: config.vector.filter(|_| !inner.port.is_shared()),
                cpu: config.cpu.clone().unwrap_or_else(|| inner.cpu.clone()),
                costs: inner.config.costs,
                protocol_errors: inner.protocol_errors.clone(),
            },
        ));
        if let Err(error) = self.announce_completion_queue(&completion).await {
            inner.completion_ids.borrow_mut().remove(&cqid);
            inner.port.memory().free(address, pages(entries, Cqe::SIZE));
            return Err(error);
        }
        self.start_reaper(&completion);
        Ok(completion)
    }

    async fn announce_completion_queue(&self, queue: &CompletionQueue) -> Result<(), DriverError> {
        let create = CreateCq {
            qid: queue.cqid,
            qsize_z: (queue.entries - 1) as u16,
            pc: true,
            ien: queue.vector.is_some(),
            iv: queue.vector.unwrap_or(0),
        };
        self.checked("Create I/O Completion Queue", create.sqe(0, queue.address), Data::None).await.map(drop)
    }

    async fn announce_submission_queue(
        &self,
        pair: &QueuePair,
        priority: QueuePriority,
    ) -> Result<(), DriverError> {
        let create = CreateSq {
            qid: pair.qid(),
            qsize_z: (pair.entries() - 1) as u16,
            pc: true,
            qprio: priority,
            cqid: pair.cqid(),
        };
        let sqe = create.sqe(0, pair.submission.address);
        self.checked("Create I/O Submission Queue", sqe, Data::None).await.map(drop)
    }

    fn start_reaper(&self, queue: &Rc<CompletionQueue>) {
        let inner = &self.0;
        let Some((vector, interrupt)) = queue.vector.and_then(|v| Some((v, inner.port.interrupt(v)?))) else {
            let reaper = match inner.port.watch(queue.address, queue.bytes()) {
                Some(arrived) => Reaper::Calls(reap_by_calls(queue.clone(), arrived)),
                None => Reaper::Task(inner.clock.spawn("reaper", poll(queue.clone()))),
            };
            inner.reapers.borrow_mut().insert(queue.cqid, reaper);
            return;
        };
        let mut vectors = inner.vectors.borrow_mut();
        let sharers = vectors.entry(vector).or_insert_with(|| {
            let sharers = Sharers::default();
            let cost = inner.config.costs.interrupt;
            let cpu = if inner.config.interrupts_queue { queue.cpu.clone() } else { inner.cpu.clone() };
            let handler = handle(sharers.clone(), interrupt, cpu, cost);
            inner.clock.spawn("interrupt handler", handler);
            sharers
        });
        sharers.borrow_mut().push(queue.clone());
    }

    fn stop_reaper(&self, queue: &CompletionQueue) {
        let inner = &self.0;
        queue.close();
        if let Some(reaper) = inner.reapers.borrow_mut().remove(&queue.cqid) {
            match reaper {
                Reaper::Calls(calls) => inner.clock.remove(calls),
                Reaper::Task(task) => inner.clock.kill(task),
            }
            inner.port.unwatch(queue.address);
        }
        if let Some(sharers) = queue.vector.and_then(|vector| inner.vectors.borrow().get(&vector).cloned()) {
            sharers.borrow_mut().retain(|sharer| sharer.cqid != queue.cqid);
        }
    }

    /// Forgets a submission queue that the controller no longer has: takes its last completions, then frees its
    /// resources.
    async fn forget(&self, pair: &QueuePair) {
        let inner = &self.0;
        let QueuePair { submission, completion, .. } = pair;
        completion.drain();
        submission.set_state(State::Gone(Lost::Deleted));
        submission.restart(Lost::Deleted);
        completion.remove(submission.qid);
        inner.queues.borrow_mut().retain(|created| !Rc::ptr_eq(&created.pair.submission, submission));
        inner.submission_ids.borrow_mut().remove(&submission.qid);
        inner.port.memory().free(submission.address, pages(submission.entries, Sqe::SIZE));
        self.forget_completion_queue(completion).await;
    }

    /// Deletes a completion queue, unless a submission queue uses it.
    async fn forget_completion_queue(&self, completion: &CompletionQueue) {
        let inner = &self.0;
        if completion.is_used() {
            return;
        }
        self.stop_reaper(completion);
        let sqe = DeleteQueue { qid: completion.cqid }.sqe(AdminOpcode::DELETE_CQ, 0);
        // On a failure the controller may keep writing to the queue: its memory and identifier must not be reused.
        if self.checked("Delete I/O Completion Queue", sqe, Data::None).await.is_ok() {
            inner.port.memory().free(completion.address, pages(completion.entries, Cqe::SIZE));
            inner.completion_ids.borrow_mut().remove(&completion.cqid);
        }
    }

    /// Holds submissions. Commands outstanding at a lost controller can't complete: its connections are closed, so that
    /// nothing of them reaches the host, and no command waits for another controller.
    fn hold(&self) {
        let is_lost = matches!(&self.0.port, Port::Fabric(initiator) if initiator.is_lost());
        self.0.each_queue(|pair| {
            pair.submission.set_state(State::Resetting);
            if is_lost {
                pair.completion.drain(); // completions that have arrived are not lost
                pair.submission.restart(Lost::Reset);
            }
        });
    }

    /// Performs a reset, once submissions are held.
    async fn restart(&self) -> Result<(), DriverError> {
        let inner = &self.0;
        self.disable().await?;
        inner.extensions.lose_commits(Lost::Reset);
        // Writes to memory in flight have arrived before the result of the register read: the buffers are free again.
        inner.each_queue(|pair| {
            pair.submission.restart(Lost::Reset);
            pair.completion.restart();
        });
        self.enable().await?;
        inner.admin.submission.set_state(State::Live);
        if inner.config.is_administrative {
            return Ok(());
        }
        self.ask_for_queues().await?;
        self.select_sets().await?;
        self.lend().await?;
        let extended =
            inner.queues.borrow().iter().any(|created| !created.pair.submission.wanted().is_empty());
        if extended {
            let mut identity = Box::new(IdentifyController::default());
            self.identify(Cns::CONTROLLER, 0, identity.as_mut_bytes()).await?;
            inner.extensions.learn(Capabilities::parse(&identity.vs));
        }
        let queues: Vec<_> =
            inner.queues.borrow().iter().map(|created| (created.pair.clone(), created.priority)).collect();
        let mut announced = Vec::new();
        for (pair, priority) in queues {
            if !announced.contains(&pair.cqid()) {
                self.announce_completion_queue(&pair.completion).await?;
                announced.push(pair.cqid());
            }
            self.announce_submission_queue(&pair, priority).await?;
            let wanted = pair.submission.wanted().and(self.capabilities().offered());
            if !wanted.is_empty() {
                self.announce_methods(&pair, wanted).await?;
            }
            if pair.submission.is(State::Resetting) {
                pair.submission.set_state(State::Live);
            }
        }
        Ok(())
    }
}

impl Inner {
    /// Calls `act` with the admin queue pair and with each I/O queue pair.
    pub(crate) fn each_queue(&self, mut act: impl FnMut(&QueuePair)) {
        act(&self.admin);
        self.queues.borrow().iter().for_each(|created| act(&created.pair));
    }

    /// Gives the controller up: all commands are `lost`.
    pub(crate) fn give_up(&self, lost: Lost) {
        self.condition.set(Condition::Gone(lost));
        self.extensions.lose_commits(lost);
        self.each_queue(|pair| {
            pair.submission.set_state(State::Gone(lost));
            pair.submission.restart(lost);
        });
        self.changed.notify_all();
    }
}

/// Resets a controller beyond a network whenever it is lost: outstanding commands are lost, and another controller is
/// connected.
async fn reconnect(driver: Driver, initiator: Rc<Initiator>) {
    loop {
        initiator.lost().await;
        if driver.check_up().is_err() || initiator.losses().is_none() {
            return;
        }
        tracing::warn!("{}: the connection is lost: connecting again", driver.name());
        if driver.is_resetting() {
            // Commands of the reset itself can't complete; it starts over.
            driver.0.admin.submission.restart(Lost::Reset);
        } else {
            let driver = driver.clone();
            driver.0.clock.clone().spawn("reset", async move { drop(driver.reset().await) });
        }
        initiator.found().await;
        match initiator.losses() {
            Some(_) => tracing::warn!("{}: connected again", driver.name()),
            None => tracing::warn!("{}: it is not connected again", driver.name()),
        }
    }
}

fn pages(entries: u32, entry_bytes: usize) -> usize {
    (entries as usize * entry_bytes).div_ceil(PAGE_BYTES as usize)
}

fn allocate(port: &Port, entries: u32, entry_bytes: usize) -> Result<u64, DriverError> {
    port.memory().allocate(pages(entries, entry_bytes)).ok_or(DriverError::Memory("a queue"))
}
