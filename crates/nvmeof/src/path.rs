//! The path from the target to a drive: commands of remote hosts go to the drive's queue pairs, through a
//! block layer or bypassing it.
//!
//! Only commands that the target understands reach the drive. Length and direction of the data follow from
//! the command's own fields, and the data lies in the target's memory; a host's address never reaches the
//! drive.

use crate::block::{Begun, BlockLayer};
use crate::merge::Offer;
use crate::movement::Movement;
use crate::split::{self, Part};
use byteway_clock::{Channel, Permit, Semaphore, SpanId, Station};
use byteway_host::{
    Carrier, Data, Driver, DriverError, IoBuffer, IoError, KvNamespace, Lost, Method, Namespace, OutOfBand,
    QueueConfig, QueuePair, Request, Rules, TransferConfig,
};
use byteway_wire::nvme::command::FUSE_NONE;
use byteway_wire::nvme::feature::AsyncEventConfig;
use byteway_wire::nvme::identify::{cmic, csi};
use byteway_wire::nvme::kv::{List, Retrieve, Store};
use byteway_wire::nvme::{
    AsyncEvent, ChangedNamespaceLog, Copy, CopyRange, Cqe, DatasetManagement, IdentifyController, KvOpcode,
    NSID_ALL, NvmOpcode, Range, ReadWrite, SetFeatures, Sqe, Status, fid, lid,
};
use std::cell::RefCell;
use std::rc::Rc;
use zerocopy::{FromZeros, IntoBytes};

/// Configuration of the path to a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathConfig {
    /// The longest data of a command in bytes, reported as MDTS by the target's controllers: a power of two
    /// of at least 4 KiB. May exceed the drive's limit.
    pub bytes_max: u32,
    /// Commands of all hosts at the drive at once; others wait.
    pub commands_max: u32,
    /// Entries of each queue pair reserved for the target's local applications, in addition to those for
    /// remote commands.
    pub local_max: u16,
    /// First command identifier of commands that bypass the block layer. `None`: the first one above the
    /// block layer's tags. A lower value makes identifiers collide, which a test does on purpose.
    pub first_identifier: Option<u16>,
    /// Transfer method rules for payloads to the drive, where the drive offers the method: in-capsule data
    /// may go inline behind the command.
    pub rules: Rules,
}

impl Default for PathConfig {
    fn default() -> Self {
        PathConfig {
            bytes_max: 128 << 10,
            commands_max: 512,
            local_max: 0,
            first_identifier: None,
            rules: Rules::only(Method::Prp),
        }
    }
}

/// Context in which a command goes to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandContext {
    /// Trace span of the I/O that it belongs to.
    pub span: SpanId,
    /// Which queue pair of the path it uses, modulo their number.
    pub lane: usize,
}

impl CommandContext {
    /// No trace span, on the first queue pair.
    pub const NONE: CommandContext = CommandContext { span: SpanId::NONE, lane: 0 };
}

/// A queue pair of the drive, and the processor that it belongs to.
struct Lane {
    /// The same queue pair, for local applications of the target.
    queue: QueuePair,
    carrier: Carrier,
    /// Free data buffers.
    buffers: RefCell<Vec<IoBuffer>>,
}

/// A drive as the target reaches it. Shared by all connections.
pub struct Path {
    driver: Driver,
    lanes: Vec<Lane>,
    /// The block layer; `None`: commands bypass it.
    block: Option<BlockLayer>,
    config: PathConfig,
    /// The longest data of a command to the drive; longer commands are split.
    part_bytes_max: u32,
    credits: Semaphore,
}

impl Path {
    /// Opens a path to the drive of `driver`, over its own queue pair, without a block layer.
    ///
    /// # Errors
    /// The drive grants no queue pair.
    pub async fn open(driver: Driver, config: PathConfig) -> Result<Path, DriverError> {
        let cpu = driver.cpu().clone();
        Path::open_on(driver, config, &[cpu], None).await
    }

    /// Like [`Path::open`], with a queue pair for each of `processors` (at least one), and through `block`, if
    /// given.
    ///
    /// # Errors
    /// The drive grants too few queue pairs.
    pub async fn open_on(
        driver: Driver,
        config: PathConfig,
        processors: &[Rc<Station>],
        block: Option<BlockLayer>,
    ) -> Result<Path, DriverError> {
        let drive_max = driver.transfer_bytes_max().unwrap_or(u64::from(config.bytes_max));
        let part_bytes_max = u64::from(config.bytes_max).min(drive_max) as u32;
        // A value cannot be split: it is one command.
        let bytes_max = if driver.has_key_values() { part_bytes_max } else { config.bytes_max };
        let config = PathConfig { bytes_max, ..config };
        let outstanding_max = config.commands_max + u32::from(config.local_max);
        let entries = (outstanding_max + 1).min(u32::from(driver.cap().mqes_z()) + 1);
        let mut lanes = Vec::new();
        for (number, processor) in processors.iter().enumerate() {
            let vector = driver.interrupts().then_some(1 + (number % 63) as u16);
            // Through the block layer, all commands use its tags; bypassing it, remote commands use
            // identifiers above the tags.
            let (tags, out_of_band) = match (&block, config.local_max) {
                (Some(_), _) | (None, 0) => (None, None),
                (None, tags) => {
                    let count = config.commands_max.min(u32::from(u16::MAX)) as u16;
                    (Some(tags), Some(OutOfBand { count, first: config.first_identifier }))
                }
            };
            let own = QueueConfig {
                cpu: Some(processor.clone()),
                vector,
                outstanding_max: tags,
                out_of_band,
                ..QueueConfig::new(entries)
            };
            let queue = driver.create_queue_pair(own).await?;
            driver.enable_methods(&queue, config.rules.methods()).await?;
            let remote = queue.out_of_band().unwrap_or_else(|| queue.clone());
            let transfer = TransferConfig::<()>::new(config.rules, part_bytes_max);
            let carrier = Carrier::new(remote, &transfer);
            lanes.push(Lane { queue, carrier, buffers: RefCell::default() });
        }
        let credits = Semaphore::new(driver.clock(), config.commands_max as usize);
        Ok(Path { driver, lanes, block, config, part_bytes_max, credits })
    }

    /// The driver of the drive.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// The queue pair of a processor for a local application of the target; remote commands share it, and its
    /// block layer.
    pub fn local_queue(&self, lane: usize) -> QueuePair {
        let queue = &self.lanes[lane % self.lanes.len()].queue;
        match &self.block {
            Some(block) => queue.behind(Rc::new(block.clone())),
            None => queue.clone(),
        }
    }

    /// The drive's Identify Controller data.
    pub fn identity(&self) -> Rc<IdentifyController> {
        self.driver.identity()
    }

    /// The longest data of a command, in bytes.
    pub fn bytes_max(&self) -> u32 {
        self.config.bytes_max
    }

    fn namespace(&self, nsid: u32) -> Result<Namespace, Status> {
        let namespaces = self.driver.namespaces();
        let found = namespaces.iter().find(|namespace| namespace.nsid == nsid);
        // A valid but inactive NSID has another status than an invalid one (NVMe Base 2.1, 3.2.1.5).
        let could_be = (1..=self.driver.identity().nn).contains(&nsid);
        let status = if could_be { Status::INVALID_FIELD } else { Status::INVALID_NAMESPACE };
        found.copied().ok_or(status.with_dnr())
    }

    /// The key-value namespace with this identifier, if it is one.
    fn kv_namespace(&self, nsid: u32) -> Option<KvNamespace> {
        self.driver.kv_namespaces().iter().find(|namespace| namespace.nsid == nsid).copied()
    }

    /// Data movement of a Key Value command (NVMe KV 1.0, 3.2): the command contains its length, and the key.
    fn kv_movement(&self, namespace: &KvNamespace, sqe: &Sqe) -> Result<Movement, Status> {
        let checked = |bytes: u32| {
            let is_too_long = bytes > self.config.bytes_max;
            if is_too_long { Err(Status::INVALID_FIELD.with_dnr()) } else { Ok(bytes) }
        };
        Ok(match KvOpcode(sqe.opcode()) {
            KvOpcode::STORE => match Store::parse(sqe).bytes {
                bytes if bytes > namespace.value_bytes_max => {
                    return Err(Status::INVALID_VALUE_SIZE.with_dnr());
                }
                0 => Movement::None,
                bytes => Movement::ToDrive(checked(bytes)?),
            },
            KvOpcode::RETRIEVE => match Retrieve::parse(sqe).buffer_bytes {
                0 => Movement::None,
                bytes => Movement::ToHost(checked(bytes)?),
            },
            KvOpcode::LIST => match List::parse(sqe).buffer_bytes {
                0 => Movement::None,
                bytes => Movement::ToHost(checked(bytes)?),
            },
            KvOpcode::FLUSH | KvOpcode::DELETE | KvOpcode::EXIST => Movement::None,
            _ => return Err(Status::INVALID_OPCODE.with_dnr()),
        })
    }

    /// Data movement of an I/O command.
    ///
    /// # Errors
    /// The target does not pass the command on, or it moves more than a command may.
    pub fn movement(&self, sqe: &Sqe) -> Result<Movement, Status> {
        if sqe.fuse() != FUSE_NONE {
            return Err(Status::INVALID_FIELD.with_dnr());
        }
        if let Some(namespace) = self.kv_namespace(sqe.nsid) {
            return self.kv_movement(&namespace, sqe);
        }
        let blocks = |sqe: &Sqe| {
            let namespace = self.namespace(sqe.nsid)?;
            let block = u64::from(namespace.block_bytes) + u64::from(namespace.metadata_bytes);
            let bytes = u64::from(ReadWrite::parse(sqe).blocks()) * block;
            match u32::try_from(bytes) {
                Ok(bytes) if bytes <= self.config.bytes_max => Ok(bytes),
                _ => Err(Status::INVALID_FIELD.with_dnr()),
            }
        };
        Ok(match NvmOpcode(sqe.opcode()) {
            NvmOpcode::READ => Movement::ToHost(blocks(sqe)?),
            NvmOpcode::WRITE | NvmOpcode::COMPARE => Movement::ToDrive(blocks(sqe)?),
            NvmOpcode::DATASET_MANAGEMENT => Movement::ToDrive(
                (u32::from(DatasetManagement::parse(sqe).nr_z) + 1) * size_of::<Range>() as u32,
            ),
            NvmOpcode::COPY => {
                Movement::ToDrive((u32::from(Copy::parse(sqe).nr_z) + 1) * size_of::<CopyRange>() as u32)
            }
            NvmOpcode::FLUSH
            | NvmOpcode::WRITE_ZEROES
            | NvmOpcode::WRITE_UNCORRECTABLE
            | NvmOpcode::VERIFY => Movement::None,
            _ => return Err(Status::INVALID_OPCODE.with_dnr()),
        })
    }

    /// Waits until the drive may have one more remote command; the permit is held while the command runs.
    pub async fn admit(&self) -> Permit {
        self.credits.acquire(1).await
    }

    /// Executes an admitted I/O command with this data movement. `data` holds the data to the drive, or
    /// receives the data from it.
    pub async fn execute(
        &self,
        context: CommandContext,
        sqe: &Sqe,
        movement: Movement,
        data: &mut Vec<u8>,
    ) -> Cqe {
        // The namespace may have been reformatted, with another block size, since the data was requested.
        match self.movement(sqe) {
            Ok(now) if now == movement => {}
            Ok(_) => return failed(Status::COMMAND_INTERRUPTED),
            Err(status) => return failed(status),
        }
        let parts = match (movement, self.namespace(sqe.nsid)) {
            (Movement::ToDrive(bytes) | Movement::ToHost(bytes), Ok(namespace)) => {
                let atomic_blocks = u32::from(self.identity().awun) + 1;
                split::parts(sqe, &namespace, bytes, self.part_bytes_max, atomic_blocks)
            }
            _ => Vec::new(),
        };
        if parts.is_empty() {
            return self.execute_part(context, sqe, movement, data).await;
        }
        Box::pin(self.execute_parts(context, parts, movement, data)).await
    }

    /// Executes a command in parts; each part is executed like a command of its own.
    async fn execute_parts(
        &self,
        context: CommandContext,
        parts: Vec<Part>,
        movement: Movement,
        data: &mut Vec<u8>,
    ) -> Cqe {
        let (whole_data, is_read) = (std::mem::take(data), matches!(movement, Movement::ToHost(_)));
        let works = parts.iter().map(|part| -> split::BoxedWork<'_, (Cqe, Vec<u8>)> {
            let range = part.offset as usize..(part.offset + part.bytes) as usize;
            let movement = if is_read { Movement::ToHost(part.bytes) } else { Movement::ToDrive(part.bytes) };
            let mut own = if is_read { Vec::new() } else { whole_data[range].to_vec() };
            Box::pin(async move {
                let cqe = self.execute_part(context, &part.sqe, movement, &mut own).await;
                (cqe, own)
            })
        });
        let ended = split::all(works.collect()).await;
        let (ends, came): (Vec<Cqe>, Vec<Vec<u8>>) = ended.into_iter().unzip();
        *data = whole_data;
        if is_read {
            data.clear();
            came.iter().for_each(|part| data.extend_from_slice(part));
        }
        split::whole(&ends)
    }

    /// Executes a command that the drive accepts as it is.
    async fn execute_part(
        &self,
        context: CommandContext,
        sqe: &Sqe,
        movement: Movement,
        data: &mut Vec<u8>,
    ) -> Cqe {
        let lane = &self.lanes[context.lane % self.lanes.len()];
        let mut request = match &self.block {
            None => None,
            Some(block) => {
                let offer = Offer { movement, data, bytes_max: self.part_bytes_max };
                match block.begin(context.span, lane.carrier.queue().cpu(), sqe, Some(offer)).await {
                    Ok(Begun::Dispatched(request)) => Some(request),
                    Ok(Begun::Joined(joined)) => return joined.end(data).await,
                    Err(status) => return failed(status),
                }
            }
        };
        let mut gathering = request.as_mut().and_then(|request| request.gathering.take());
        let (sqe, movement) = match &mut gathering {
            Some(gathering) => gathering.command(sqe, movement, data),
            None => (*sqe, movement),
        };
        let cqe = match lane.take() {
            Ok(buffer) => {
                let executed = self.execute_in(lane, &buffer, context.span, &sqe, movement, data).await;
                lane.buffers.borrow_mut().push(buffer);
                executed.unwrap_or_else(|error| failed(status_of(&error)))
            }
            Err(_) => failed(Status::COMMAND_INTERRUPTED),
        };
        if let Some(request) = request {
            request.end().await;
        }
        if let Some(gathering) = gathering {
            gathering.end(movement, cqe, data);
        }
        cqe
    }

    async fn execute_in(
        &self,
        lane: &Lane,
        buffer: &IoBuffer,
        span: SpanId,
        sqe: &Sqe,
        movement: Movement,
        data: &mut Vec<u8>,
    ) -> Result<Cqe, IoError> {
        // The host's data and metadata pointers mean nothing to this drive.
        let mut sqe = Sqe { mptr: 0, ..sqe.with_prp(0, 0) };
        let is_kv = self.kv_namespace(sqe.nsid).is_some();
        if is_kv {
            sqe.cdw13 = 0; // Byteway's methods of moving values exist on a link only
        }
        match movement {
            Movement::None => Ok(lane.carrier.queue().execute(Request::from(sqe).within(span)).await?),
            Movement::ToDrive(bytes) => {
                lane.carrier.put(buffer, data)?;
                lane.carrier.send(span, sqe, buffer, bytes).await
            }
            Movement::ToHost(bytes) => {
                // A list of keys may fill only a part of its buffer: the rest would show another command's
                // data.
                if is_kv && KvOpcode(sqe.opcode()) == KvOpcode::LIST {
                    data.clear();
                    data.resize(bytes as usize, 0);
                    lane.carrier.put(buffer, data)?;
                }
                let cqe = lane.carrier.receive(span, sqe, buffer, bytes).await?;
                if cqe.status().is_success() {
                    let bytes = if is_kv { value_bytes(&sqe, &cqe, bytes) } else { bytes };
                    lane.carrier.take(buffer, bytes, data)?;
                }
                Ok(cqe)
            }
        }
    }

    /// NSIDs of the active namespaces, ascending.
    pub fn nsids(&self) -> Vec<u32> {
        let (blocks, pairs) = (self.driver.namespaces(), self.driver.kv_namespaces());
        let blocks = blocks.iter().map(|namespace| namespace.nsid);
        let mut all: Vec<u32> = blocks.chain(pairs.iter().map(|namespace| namespace.nsid)).collect();
        all.sort_unstable();
        all
    }

    /// Executes an admin command that creates, attaches, detaches or deletes namespaces, with this data.
    /// Waits until no I/O command is at the drive, because each was checked against its namespace as it was.
    /// Returns the NSIDs whose attachment has changed.
    pub async fn manage(&self, sqe: Sqe, data: &[u8]) -> (Cqe, Vec<u32>) {
        let _all = self.credits.acquire(self.config.commands_max as usize).await;
        let before = self.nsids();
        let asked = if data.is_empty() { Data::None } else { Data::Out(data) };
        let Ok(cqe) = self.driver.admin(Sqe { mptr: 0, ..sqe.with_prp(0, 0) }, asked).await else {
            return (failed(Status::INTERNAL_PATH_ERROR), Vec::new());
        };
        if self.driver.refresh().await.is_err() {
            return (failed(Status::INTERNAL_PATH_ERROR), Vec::new());
        }
        let after = self.nsids();
        let changed = before.iter().filter(|nsid| !after.contains(nsid));
        (cqe, changed.chain(after.iter().filter(|nsid| !before.contains(nsid))).copied().collect())
    }

    /// Whether hosts may reach the drive's namespaces through other controllers of the drive.
    pub fn is_shared(&self) -> bool {
        self.identity().cmic & cmic::SEVERAL_CONTROLLERS != 0
    }

    /// Requests events for namespace changes made by others.
    ///
    /// # Errors
    /// The drive refuses.
    pub(crate) async fn changes(&self) -> Result<Channel<AsyncEvent>, DriverError> {
        let cdw11 = AsyncEventConfig::new().with_namespace_attribute(true).into_bits();
        let asked = SetFeatures { fid: fid::ASYNC_EVENT_CONFIGURATION, cdw11, ..SetFeatures::default() };
        self.driver.admin(asked.sqe(0, 0), Data::None).await?;
        Ok(self.driver.events(1))
    }

    /// Updates the namespaces after others have changed them. Waits until no I/O command is at the drive,
    /// because each was checked against its namespace as it was; and the drive refuses I/O until its log of
    /// changes is read here. Returns the NSIDs that have changed.
    ///
    /// # Errors
    /// The drive does not answer.
    pub(crate) async fn look_again(&self) -> Result<Vec<u32>, DriverError> {
        let _all = self.credits.acquire(self.config.commands_max as usize).await;
        let mut log = Box::new(ChangedNamespaceLog::new_zeroed());
        self.driver.log_page(lid::CHANGED_NAMESPACE_LIST, NSID_ALL, false, log.as_mut_bytes()).await?;
        let mut known = self.nsids();
        self.driver.refresh().await?;
        let nsids = log.nsids;
        if nsids[0] != NSID_ALL {
            return Ok(nsids.into_iter().take_while(|nsid| *nsid > 0).collect());
        }
        known.extend(self.nsids());
        Ok(known)
    }

    /// Executes an admin command that reads `bytes` into `data`.
    pub async fn ask(&self, sqe: Sqe, bytes: usize, data: &mut Vec<u8>) -> Cqe {
        data.clear();
        data.resize(bytes, 0);
        let asked = if bytes == 0 { Data::None } else { Data::In(data) };
        match self.driver.admin(Sqe { mptr: 0, ..sqe.with_prp(0, 0) }, asked).await {
            Ok(cqe) => cqe,
            Err(_) => failed(Status::INTERNAL_PATH_ERROR),
        }
    }
}

impl Lane {
    fn take(&self) -> Result<IoBuffer, IoError> {
        match self.buffers.borrow_mut().pop() {
            Some(buffer) => Ok(buffer),
            None => self.carrier.buffer(),
        }
    }
}

/// Whether a target passes on I/O commands of this command set with this opcode.
pub(crate) fn is_passed_on(csi: u8, opcode: u8) -> bool {
    match csi {
        csi::KEY_VALUE => [
            KvOpcode::FLUSH,
            KvOpcode::STORE,
            KvOpcode::RETRIEVE,
            KvOpcode::LIST,
            KvOpcode::DELETE,
            KvOpcode::EXIST,
        ]
        .contains(&KvOpcode(opcode)),
        csi::NVM => [
            NvmOpcode::FLUSH,
            NvmOpcode::WRITE,
            NvmOpcode::READ,
            NvmOpcode::WRITE_UNCORRECTABLE,
            NvmOpcode::COMPARE,
            NvmOpcode::WRITE_ZEROES,
            NvmOpcode::DATASET_MANAGEMENT,
            NvmOpcode::VERIFY,
            NvmOpcode::COPY,
        ]
        .contains(&NvmOpcode(opcode)),
        _ => false,
    }
}

/// Bytes of the buffer that a Key Value command has filled: a value may be shorter (NVMe KV 1.0, 3.2.4).
fn value_bytes(sqe: &Sqe, cqe: &Cqe, bytes: u32) -> u32 {
    match KvOpcode(sqe.opcode()) {
        KvOpcode::RETRIEVE => cqe.dw0.saturating_sub(Retrieve::parse(sqe).offset).min(bytes),
        _ => bytes,
    }
}

fn failed(status: Status) -> Cqe {
    Cqe::new(0, status, 0, 0)
}

/// Status of a command that got no completion: the host may retry it, here or on another path.
fn status_of(error: &IoError) -> Status {
    match error {
        IoError::Status(status) => *status,
        IoError::Lost(Lost::NotPlaced) => Status::COMMAND_INTERRUPTED,
        _ => Status::INTERNAL_PATH_ERROR,
    }
}
