//! From the target to a drive: commands of remote hosts go to queue pairs of the drive's, through a block layer or past it.
//!
//! Nothing of a remote command reaches the drive that was not understood here: how many bytes it moves, and which way, follows from
//! its own fields, and its data lies in memory of the target's. A host's address never does.

use crate::block::{Begun, BlockLayer};
use crate::merge::Offer;
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

/// What of the target a drive's path takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathConfig {
    /// The longest data of a command, in bytes: what the target's controllers report as MDTS. A power of two from 4 KiB on. It may be
    /// more than the drive's.
    pub bytes_max: u32,
    /// Commands that are at the drive at once, of all hosts together. Others wait.
    pub commands_max: u32,
    /// Commands of applications of the target's own that each queue pair has room for beside them: each side's share.
    pub local_max: u16,
    /// The first command identifier of what goes past the block layer. None: that above the block layer's tags. Any lower one is a
    /// mistake, which a test makes on purpose.
    pub first_identifier: Option<u16>,
    /// How payloads of commands get to the drive, if that offers the method: what came in a command's capsule may go inline behind
    /// the command.
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

/// Which way a command's data goes, and how much of it there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Movement {
    /// It has none.
    None,
    /// To the drive.
    ToDrive(u32),
    /// To the host.
    ToHost(u32),
}

/// On whose behalf a command goes to the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errand {
    /// The I/O that it belongs to.
    pub span: SpanId,
    /// Which of the path's queue pairs it takes: any number, of which the remainder counts.
    pub lane: usize,
}

impl Errand {
    /// Of an I/O that nobody follows, over the first queue pair.
    pub const NONE: Errand = Errand { span: SpanId::NONE, lane: 0 };
}

/// A queue pair of the drive's, and the processor that it belongs to.
struct Lane {
    /// As applications of the target's own use it.
    queue: QueuePair,
    carrier: Carrier,
    /// Places for data that no command has at the moment.
    buffers: RefCell<Vec<IoBuffer>>,
}

/// A drive, as the target reaches it. Shared by all that is connected to it.
pub struct Path {
    driver: Driver,
    lanes: Vec<Lane>,
    /// What commands go through; none: they go past it.
    block: Option<BlockLayer>,
    config: PathConfig,
    /// The longest data of a command to the drive; longer ones become several.
    part_bytes_max: u32,
    credits: Semaphore,
}

impl Path {
    /// To the drive of `driver`, over a queue pair of its own, past any block layer.
    ///
    /// # Errors
    /// The drive gives no queue pair.
    pub async fn open(driver: Driver, config: PathConfig) -> Result<Path, DriverError> {
        let cpu = driver.cpu().clone();
        Path::open_on(driver, config, &[cpu], None).await
    }

    /// The same over a queue pair for each of `processors`, of which there is one at least; through `block`, if there is one.
    ///
    /// # Errors
    /// The drive gives too few queue pairs.
    pub async fn open_on(
        driver: Driver,
        config: PathConfig,
        processors: &[Rc<Station>],
        block: Option<BlockLayer>,
    ) -> Result<Path, DriverError> {
        let drive_max = driver.transfer_bytes_max().unwrap_or(u64::from(config.bytes_max));
        let part_bytes_max = u64::from(config.bytes_max).min(drive_max) as u32;
        // A value is one command.
        let bytes_max = if driver.has_key_values() { part_bytes_max } else { config.bytes_max };
        let config = PathConfig { bytes_max, ..config };
        let room = config.commands_max + u32::from(config.local_max);
        let entries = (room + 1).min(u32::from(driver.cap().mqes_z()) + 1);
        let mut lanes = Vec::new();
        for (number, processor) in processors.iter().enumerate() {
            let vector = driver.interrupts().then_some(1 + (number % 63) as u16);
            // Through the block layer all commands have its tags; past it, remote ones have identifiers above them.
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

    /// The driver behind it.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// The queue pair of a processor, for an application of the target's own: remote commands share it, and its block layer.
    pub fn local_queue(&self, lane: usize) -> QueuePair {
        let queue = &self.lanes[lane % self.lanes.len()].queue;
        match &self.block {
            Some(block) => queue.behind(Rc::new(block.clone())),
            None => queue.clone(),
        }
    }

    /// What the drive says that it is.
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
        // One that could be there, and is not attached, is another mistake (NVMe Base 2.1, 3.2.1.5).
        let could_be = (1..=self.driver.identity().nn).contains(&nsid);
        let status = if could_be { Status::INVALID_FIELD } else { Status::INVALID_NAMESPACE };
        found.copied().ok_or(status.with_dnr())
    }

    /// The key value namespace with this identifier, if it is one.
    fn kv_namespace(&self, nsid: u32) -> Option<KvNamespace> {
        self.driver.kv_namespaces().iter().find(|namespace| namespace.nsid == nsid).copied()
    }

    /// What data a command of the Key Value command set has (NVMe KV 1.0, 3.2): its length is in the command, its key, too.
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

    /// What data an I/O command has.
    ///
    /// # Errors
    /// It is none that the target passes on, or moves more than a command may.
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

    /// Waits until the drive may have one more command of a host's: as long as the result is held.
    pub async fn admit(&self) -> Permit {
        self.credits.acquire(1).await
    }

    /// Has the drive execute an I/O command that moves data so, and that was admitted. `data` holds what goes to the drive, or takes
    /// what comes.
    pub async fn execute(&self, errand: Errand, sqe: &Sqe, movement: Movement, data: &mut Vec<u8>) -> Cqe {
        // Its namespace may have become another since its data was asked for, with blocks of another size.
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
            return self.execute_part(errand, sqe, movement, data).await;
        }
        Box::pin(self.execute_parts(errand, parts, movement, data)).await
    }

    /// A command in parts. Each goes its way by itself, as if it were a command.
    async fn execute_parts(
        &self,
        errand: Errand,
        parts: Vec<Part>,
        movement: Movement,
        data: &mut Vec<u8>,
    ) -> Cqe {
        let (whole_data, is_read) = (std::mem::take(data), matches!(movement, Movement::ToHost(_)));
        let works = parts.iter().map(|part| -> split::Work<'_, (Cqe, Vec<u8>)> {
            let range = part.offset as usize..(part.offset + part.bytes) as usize;
            let movement = if is_read { Movement::ToHost(part.bytes) } else { Movement::ToDrive(part.bytes) };
            let mut own = if is_read { Vec::new() } else { whole_data[range].to_vec() };
            Box::pin(async move {
                let cqe = self.execute_part(errand, &part.sqe, movement, &mut own).await;
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

    /// A command that the drive has as it is.
    async fn execute_part(&self, errand: Errand, sqe: &Sqe, movement: Movement, data: &mut Vec<u8>) -> Cqe {
        let lane = &self.lanes[errand.lane % self.lanes.len()];
        let mut request = match &self.block {
            None => None,
            Some(block) => {
                let offer = Offer { movement, data, bytes_max: self.part_bytes_max };
                match block.begin(errand.span, lane.carrier.queue().cpu(), sqe, Some(offer)).await {
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
                let executed = self.execute_in(lane, &buffer, errand.span, &sqe, movement, data).await;
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
        // Its data pointer and metadata pointer are the host's, and name nothing here.
        let mut sqe = Sqe { mptr: 0, ..sqe.with_prp(0, 0) };
        let is_kv = self.kv_namespace(sqe.nsid).is_some();
        if is_kv {
            sqe.cdw13 = 0; // Byteway's own ways of moving values are those of a link
        }
        match movement {
            Movement::None => Ok(lane.carrier.queue().execute(Request::from(sqe).within(span)).await?),
            Movement::ToDrive(bytes) => {
                lane.carrier.put(buffer, data)?;
                lane.carrier.send(span, sqe, buffer, bytes).await
            }
            Movement::ToHost(bytes) => {
                // A list of keys fills as much of its buffer as there are keys: the rest would be another command's data.
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

    /// Identifiers of the namespaces that hosts have, ascending.
    pub fn nsids(&self) -> Vec<u32> {
        let (blocks, pairs) = (self.driver.namespaces(), self.driver.kv_namespaces());
        let blocks = blocks.iter().map(|namespace| namespace.nsid);
        let mut all: Vec<u32> = blocks.chain(pairs.iter().map(|namespace| namespace.nsid)).collect();
        all.sort_unstable();
        all
    }

    /// Has the drive execute an admin command that creates, attaches, detaches or deletes namespaces, with this data. No I/O
    /// command is at the drive meanwhile: each was measured by what its namespace was. Gives which namespaces are attached that
    /// were not, or the other way round.
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

    /// Whether hosts may reach the drive's namespaces by other controllers of its own.
    pub fn is_shared(&self) -> bool {
        self.identity().cmic & cmic::SEVERAL_CONTROLLERS != 0
    }

    /// Asks the drive to tell what others change of its namespaces, from now on.
    ///
    /// # Errors
    /// The drive doesn't.
    pub(crate) async fn changes(&self) -> Result<Channel<AsyncEvent>, DriverError> {
        let cdw11 = AsyncEventConfig::new().with_namespace_attribute(true).into_bits();
        let asked = SetFeatures { fid: fid::ASYNC_EVENT_CONFIGURATION, cdw11, ..SetFeatures::default() };
        self.driver.admin(asked.sqe(0, 0), Data::None).await?;
        Ok(self.driver.events(1))
    }

    /// Looks at what the drive has after others have changed it. No I/O command is at the drive meanwhile: each was measured by
    /// what its namespace was, and the drive refuses them until its log of changes is read here. Gives which namespaces have
    /// changed.
    ///
    /// # Errors
    /// The drive doesn't say.
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

    /// Has the drive execute an admin command that brings `bytes` into `data`.
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

/// How many of the `bytes` of its buffer a key value command has filled: a value may be shorter (NVMe KV 1.0, 3.2.4).
fn value_bytes(sqe: &Sqe, cqe: &Cqe, bytes: u32) -> u32 {
    match KvOpcode(sqe.opcode()) {
        KvOpcode::RETRIEVE => cqe.dw0.saturating_sub(Retrieve::parse(sqe).offset).min(bytes),
        _ => bytes,
    }
}

fn failed(status: Status) -> Cqe {
    Cqe::new(0, status, 0, 0)
}

/// What a host is told of a command that has no completion: it may try again, there or elsewhere.
fn status_of(error: &IoError) -> Status {
    match error {
        IoError::Status(status) => *status,
        IoError::Lost(Lost::NotPlaced) => Status::COMMAND_INTERRUPTED,
        _ => Status::INTERNAL_PATH_ERROR,
    }
}
