//! The device's memory, which the host stores to over CXL.mem ([`byteway_wire::nvme::vendor::cxl`]): an area for payloads of
//! any command, behind it the ring of commit records ([`commit`](super::commit)), and the page buffer of the first key value
//! namespace.

use crate::config::MemoryConfig;
use crate::controller::io::{Landing, Workspace};
use crate::controller::log::add;
use crate::controller::{Context, Core, Reply, kv};
use byteway_clock::{Delay, SpanId, Stage, Time};
use byteway_firmware::{Key, Kv, StoreMode, Stored, Work};
use byteway_link::Hdm;
use byteway_transfer::cxl_mem::{self, Place};
use byteway_transfer::mmio::BarBuffer;
use byteway_wire::cxl::DeviceDvsec;
use byteway_wire::nvme::Status;
use byteway_wire::nvme::vendor::cxl::{DeviceMemoryLog, InDeviceMemory, PagePointer};
use std::cell::RefCell;

/// Between two looks at a payload whose checksum is not right yet: stores may still be under way.
const LOOK_AGAIN: Delay = Delay::from_ns(50);
/// How many there are: a host may store for ever.
const LOOKS_MAX: u32 = 100;

/// What is behind the device's addresses.
#[derive(Debug, Default)]
pub struct DeviceMemory {
    area: RefCell<BarBuffer>,
}

impl DeviceMemory {
    /// Zeroes.
    pub fn new(config: Option<&MemoryConfig>) -> Self {
        DeviceMemory { area: RefCell::new(BarBuffer::new(config.map_or(0, |config| config.area_bytes))) }
    }

    /// Zeroes again: what a tenant stored is not for the next.
    pub fn clear(&self) {
        self.area.borrow_mut().clear();
    }
}

impl Core {
    /// What the device's memory is used for.
    pub(super) fn memory_log(&self) -> DeviceMemoryLog {
        let Some(config) = &self.config.transfer.memory else { return DeviceMemoryLog::default() };
        let area_bytes = config.area_bytes;
        let ring = config.ring();
        let area = DeviceMemoryLog {
            bytes: u64::from(config.buffer_offset()),
            area_bytes,
            records_offset: ring.offset,
            records: ring.records,
            poll_ns: if ring.records > 0 { (config.poll.ps() / 1000) as u32 } else { 0 },
            generation: self.commits.generation(),
            ..Default::default()
        };
        let Some((nsid, pairs)) = self.inventory.first_pairs() else { return area };
        let told = pairs.told();
        let log = DeviceMemoryLog {
            bytes: area.bytes + u64::from(pairs.buffer_bytes()),
            buffer_offset: config.buffer_offset(),
            buffer_bytes: pairs.buffer_bytes(),
            page_bytes: pairs.page_bytes(),
            align: pairs.value_align(),
            nsid,
            pointer: told.pointer,
            limit: told.limit,
            ..area
        };
        // Positions lie in the buffer modulo its size: without powers of two there is none.
        if log.placing().is_some() { log } else { area }
    }

    /// Where in the page buffer a device address is, and whose it is.
    fn in_page_buffer(&self, address: u64) -> Option<(u32, Kv)> {
        let offset = self.config.transfer.memory.as_ref()?.buffer_offset();
        let at = u32::try_from(address.checked_sub(offset.into())?).ok()?;
        let (_, pairs) = self.inventory.first_pairs()?;
        (at < pairs.buffer_bytes()).then_some((at, pairs))
    }

    /// How the device says in its configuration space that it has memory for the host; none: it has none.
    pub(super) fn dvsec(&self) -> Option<DeviceDvsec> {
        let bytes = self.memory_log().bytes;
        (bytes > 0).then(|| DeviceDvsec::new(bytes))
    }
}

impl Hdm for Core {
    fn bytes(&self) -> u64 {
        self.memory_log().bytes
    }

    fn store(&self, offset: u64, bytes: &[u8]) {
        if let Some((at, pairs)) = self.in_page_buffer(offset) {
            return pairs.buffer_store(at, bytes);
        }
        if let Some(at) = self.commits.position(offset) {
            return self.commits.store(at, bytes);
        }
        self.memory.area.borrow_mut().store(offset, bytes);
    }

    fn load(&self, offset: u64, into: &mut [u8]) {
        if let Some((at, pairs)) = self.in_page_buffer(offset) {
            return pairs.buffer_load(at, into);
        }
        if let Some(at) = self.commits.position(offset) {
            return self.commits.load(at, into);
        }
        self.memory.area.borrow().load(offset, into);
    }

    fn announce(&self, offset: u64, _bytes: u64, at: Time) {
        if let Some(position) = self.commits.position(offset) {
            self.commits.announce(position, at);
        }
    }
}

impl Context<'_> {
    /// The payload in the device's memory that the data pointer names, if it does and the host has enabled that for the
    /// queue.
    pub(super) fn in_memory(&self) -> Option<InDeviceMemory> {
        cxl_mem::named_by(self.sqe).filter(|_| self.queue.methods.get().cxl_mem())
    }

    /// Takes the payload of `bytes` from the area for payloads of any command.
    pub(super) async fn recall(
        &self,
        workspace: &mut Workspace,
        named: InDeviceMemory,
        bytes: u64,
        landing: Landing,
    ) -> Result<(), Status> {
        let core = self.core;
        let Place::Area(offset) = cxl_mem::find(&core.memory_log(), named, bytes)? else {
            return Err(Status::SGL_OFFSET_INVALID.with_dnr()); // only values go to the page buffer
        };
        self.settled(named.checksum, || {
            core.memory.area.borrow_mut().payload(offset, named.bytes).map(crc32c::crc32c)
        })
        .await?;
        workspace.land(
            landing,
            core.config.keep,
            0,
            core.memory.area.borrow_mut().payload(offset, named.bytes)?,
        );
        add(&core.counters.buffered_bytes, bytes);
        if landing == Landing::Sink && bytes > 0 {
            let stored = core.placement.site(Work::Buffer).dram("payload", bytes);
            core.clock.sleep_until(stored.arrival).await;
            self.charge(Stage::Dram);
        }
        self.check()
    }

    /// Stores a pair whose value of `bytes` the host has put where it stays, if that is where the data pointer says: in the
    /// page buffer. Gives the pointer and the limit. None: it is elsewhere.
    pub(super) async fn store_placed(
        &self,
        workspace: &mut Workspace,
        pairs: &Kv,
        key: Key,
        bytes: u32,
        mode: StoreMode,
    ) -> Option<Result<Reply, Status>> {
        let named = self.in_memory().filter(|_| bytes > 0)?;
        let log = self.core.memory_log();
        match cxl_mem::find(&log, named, bytes.into()) {
            Ok(Place::Area(_)) => None,
            Ok(Place::Buffer(_)) if log.nsid != self.sqe.nsid => {
                Some(Err(Status::SGL_OFFSET_INVALID.with_dnr()))
            }
            Ok(Place::Buffer(at)) => {
                let check = || self.check();
                let value = &mut workspace.bytes;
                let stored =
                    self.core.store_at((self.span, &check), value, pairs, key, (at, named), mode).await;
                Some(stored.map(|told| Reply::Done([told.pointer, told.limit])))
            }
            Err(status) => Some(Err(status)),
        }
    }

    /// Page Pointer.
    pub(super) async fn page_pointer(&self) -> Result<Reply, Status> {
        let core = self.core;
        let (_namespace, pairs) = self.pairs()?;
        if core.memory_log().nsid != self.sqe.nsid {
            return Err(Status::INVALID_FIELD.with_dnr());
        }
        let gives_up = PagePointer::parse(self.sqe).gives_up;
        let made = pairs.make_place(self.span, core.port.spans(), gives_up).await;
        let told = made.map_err(|error| kv::status_of(core, error))?;
        self.check()?;
        Ok(Reply::Done([told.pointer, told.limit]))
    }

    /// Brings the device's memory up to now, and waits until a payload there is what its checksum says, if the host says
    /// one; `sum` looks.
    ///
    /// # Errors
    /// Nothing is under way any more, or only other stores, and it is not.
    pub(super) async fn settled(
        &self,
        checksum: Option<u32>,
        sum: impl FnMut() -> Result<u32, Status>,
    ) -> Result<(), Status> {
        self.core.settled((self.span, &|| self.check()), checksum, sum).await
    }
}

/// Who is followed, and whether to go on, which is asked after each wait.
type Followed<'a> = (SpanId, &'a dyn Fn() -> Result<(), Status>);

impl Core {
    /// Stores a pair whose value lies at `at` of the page buffer, as a command or a record says: once its checksum is right.
    /// `value` is memory to be used again.
    pub(super) async fn store_at(
        &self,
        followed: Followed<'_>,
        value: &mut Vec<u8>,
        pairs: &Kv,
        key: Key,
        (at, named): (u32, InDeviceMemory),
        mode: StoreMode,
    ) -> Result<Stored, Status> {
        let (span, spans) = (followed.0, self.port.spans());
        value.clear();
        value.resize(named.bytes as usize, 0);
        self.settled(followed, named.checksum, || {
            pairs.buffer_load(at, value);
            Ok(crc32c::crc32c(value))
        })
        .await?;
        let stored = pairs.store_placed(span, spans, key, at, named.bytes, named.checksum, mode).await;
        let told = stored.map_err(|error| kv::status_of(self, error))?;
        self.make_durable(span, pairs).await?;
        add(&self.counters.buffered_bytes, named.bytes.into());
        add(&self.counters.writes, 1);
        add(&self.counters.written_bytes, named.bytes.into());
        Ok(told)
    }

    async fn settled(
        &self,
        (span, check): Followed<'_>,
        checksum: Option<u32>,
        mut sum: impl FnMut() -> Result<u32, Status>,
    ) -> Result<(), Status> {
        self.port.settle_memory();
        let Some(checksum) = checksum else { return Ok(()) };
        for _ in 0..LOOKS_MAX {
            if sum()? == checksum {
                return Ok(());
            }
            if self.port.memory_is_settled() {
                break;
            }
            self.clock.sleep(LOOK_AGAIN).await;
            self.port.spans().charge(span, self.clock.now(), Stage::Link);
            check()?;
        }
        if sum()? == checksum { Ok(()) } else { Err(Status::DATA_TRANSFER_ERROR) }
    }
}
