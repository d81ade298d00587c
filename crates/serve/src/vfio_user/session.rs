//! The session of one client: handles its messages and replies to them.

use super::channel::{ANSWER_LIMIT, Gone, Message};
use super::message::{
    Capabilities, Command, DATA_BYTES_MAX, DeviceInfo, DmaMap, DmaUnmap, HEADER_BYTES, Header, IrqInfo,
    MAPS_MAX, RegionAccess, RegionInfo, RegionIoFds, SetIrqs, SmallWrite, SparseMmap, Version, WRITES_MAX,
    take,
};
use super::peer::Peer;
use super::remote::{ClientMemory, Line};
use crate::before::before;
use crate::function::{AccessError, Function};
use crate::pci::Effect;
use byteway_clock::Delay;
use byteway_link::memory::{Access, Backing, MapError, PAGE_BYTES};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::fstat;
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::pin::pin;
use std::rc::Rc;
use tracing::{info, warn};
use vfio_bindings::bindings::vfio;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Number of regions of a PCI function, in VFIO's numbering.
const REGIONS: u32 = vfio::VFIO_PCI_NUM_REGIONS;
/// Number of interrupt kinds of a PCI function.
const IRQS: u32 = vfio::VFIO_PCI_NUM_IRQS;
/// Messages handled before other tasks run.
const TURN: u32 = 16;
/// Warnings logged for one client, at most: a client can cause any number of errors.
const WARNINGS_MAX: u32 = 20;

/// A refused request: the errno for the client, and the reason for the log.
struct Failure {
    errno: u32,
    why: &'static str,
}

impl Failure {
    fn new(errno: Errno, why: &'static str) -> Self {
        Failure { errno: errno.raw_os_error().unsigned_abs(), why }
    }

    fn invalid(why: &'static str) -> Self {
        Self::new(Errno::INVAL, why)
    }

    fn unsupported(why: &'static str) -> Self {
        Self::new(Errno::OPNOTSUPP, why)
    }
}

impl From<AccessError> for Failure {
    fn from(refused: AccessError) -> Self {
        Failure { errno: refused.0, why: "the function refuses the access" }
    }
}

impl From<MapError> for Failure {
    fn from(error: MapError) -> Self {
        match error {
            MapError::Extent => {
                Self::invalid("not whole pages, beyond the address space, or beyond the end of its file")
            }
            MapError::Overlap => Self::new(Errno::EXIST, "it overlaps a region that is mapped"),
            MapError::Unknown => Self::new(Errno::NOENT, "no region is mapped there, or a part of one only"),
            MapError::TooMany => Self::new(Errno::NOSPC, "too many regions are mapped"),
            MapError::System(error) => Failure {
                errno: error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error()).unsigned_abs(),
                why: "its file cannot be mapped: a memfd, or a file of huge pages, that is open for what the \
                      region's flags say is needed",
            },
        }
    }
}

/// Identity of a mapping: equal if mapping it again at its address changes nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mapping {
    bytes: u64,
    flags: u32,
    /// Device, inode and offset of the file.
    file: Option<(u64, u64, u64)>,
}

/// The session of one client.
pub struct Session {
    line: Rc<Line>,
    function: Rc<Function>,
    peer: Peer,
    is_negotiated: Cell<bool>,
    mappings: RefCell<BTreeMap<u64, Mapping>>,
    /// Device and inode of the last file whose sharing was checked.
    known_file: Cell<Option<(u64, u64)>>,
    warnings: Cell<u32>,
}

impl Session {
    /// A session for the client at the other end of `line`, which uses `function`.
    pub fn new(line: Rc<Line>, function: Rc<Function>, peer: Peer) -> Self {
        Session {
            line,
            function,
            peer,
            is_negotiated: Cell::new(false),
            mappings: RefCell::default(),
            known_file: Cell::new(None),
            warnings: Cell::new(0),
        }
    }

    /// Serves the client until it disconnects or the future is dropped; returns the reason. State that the
    /// client left in the function is not undone.
    pub async fn run(&self) -> Gone {
        let mut out = Vec::new();
        let mut turn = 0;
        // A client that connects and says nothing must not lock others out.
        let limit = Delay::from_ms(ANSWER_LIMIT.as_millis() as u64);
        let limit = pin!(self.function.clock().timer(limit));
        let Some(mut next) = before(limit, self.line.next()).await else {
            return self.line.channel().end(Gone::Protocol("its first message has not come for 5 s"));
        };
        loop {
            let message = match next {
                Ok(message) => message,
                Err(why) => return why,
            };
            if let Err(why) = self.take(message, &mut out).await {
                return self.line.channel().end(why);
            }
            turn += 1;
            if turn % TURN == 0 {
                self.function.clock().yield_now().await;
            }
            next = self.line.next().await;
        }
    }

    /// Handles a message and replies. `out` is a buffer for the reply.
    async fn take(&self, mut message: Message, out: &mut Vec<u8>) -> Result<(), Gone> {
        let channel = self.line.channel();
        let header = message.header;
        let command = header.command();
        if header.kind() == Header::REPLY {
            channel.note_stray_reply();
            return Ok(());
        }
        out.clear();
        let files = std::mem::take(&mut message.files);
        let mut fatal = None;
        let result = if header.kind() != Header::REQUEST {
            Err(Failure::invalid("it is neither a request nor a reply"))
        } else if message.has_too_many_files {
            Err(Failure::invalid("more than 16 descriptors came with it, or this process can open no more"))
        } else if command == Command::VERSION && !self.is_negotiated.get() {
            self.version(&message.payload, out).map(|()| None).map_err(|why| {
                fatal = Some(Gone::Protocol(why));
                Failure::invalid(why)
            })
        } else if !self.is_negotiated.get() {
            fatal = Some(Gone::Protocol("its first message is not VERSION"));
            Err(Failure::invalid("VERSION comes first"))
        } else {
            self.act(command, &message.payload, files, out).await
        };
        channel.recycle(message.payload);
        let wants_reply = !header.has(Header::NO_REPLY) || header.kind() != Header::REQUEST;
        match result {
            Ok(file) if wants_reply => {
                let file = file.as_ref().map(|file| file.as_fd());
                channel.send(header.reply(), &[out], file.as_slice())?;
            }
            Ok(_) => {}
            Err(failure) => {
                self.warn(command, &failure);
                if wants_reply {
                    channel.send(header.failure(failure.errno), &[], &[])?;
                }
            }
        }
        if out.capacity() > DATA_BYTES_MAX / 4 {
            *out = Vec::new();
        }
        fatal.map_or(Ok(()), Err)
    }

    fn warn(&self, command: Command, failure: &Failure) {
        let warnings = self.warnings.get() + 1;
        if warnings > WARNINGS_MAX {
            return;
        }
        self.warnings.set(warnings);
        let Failure { errno, why } = failure;
        warn!("{command} of {} fails with errno {errno}: {why}", self.peer);
        if warnings == WARNINGS_MAX {
            warn!("further errors of {} are not shown", self.peer);
        }
    }

    /// Writes the reply to `out`; returns the descriptor that is sent with it.
    async fn act(
        &self,
        command: Command,
        payload: &[u8],
        files: Vec<OwnedFd>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Rc<File>>, Failure> {
        match command {
            Command::VERSION => return Err(Failure::invalid("the version is agreed on already")),
            Command::DMA_MAP => self.dma_map(payload, files)?,
            // A descriptor may come with it; it is not needed.
            Command::DMA_UNMAP => self.dma_unmap(payload, out)?,
            Command::DEVICE_GET_INFO => device_info(payload, out)?,
            Command::DEVICE_GET_REGION_INFO => return self.region_info(payload, out),
            Command::DEVICE_GET_REGION_IO_FDS => region_io_fds(payload, out)?,
            Command::DEVICE_GET_IRQ_INFO => self.irq_info(payload, out)?,
            Command::DEVICE_SET_IRQS => self.set_irqs(payload, files)?,
            Command::REGION_READ => self.region_read(payload, out)?,
            Command::REGION_WRITE => self.region_write(payload, out).await?,
            Command::REGION_WRITE_MULTI => self.region_write_multi(payload).await?,
            Command::DEVICE_RESET => {
                if !payload.is_empty() {
                    return Err(Failure::invalid("nothing follows its header"));
                }
                self.function.reset().await;
            }
            Command::DMA_READ | Command::DMA_WRITE => {
                return Err(Failure::unsupported("it is a request of the server to the client"));
            }
            _ => return Err(Failure::unsupported("this server does not know it")),
        }
        Ok(None)
    }

    /// Negotiates the version. The error says what is unsupported in the client's version.
    fn version(&self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
        let (version, text) = take::<Version>(payload).ok_or("its VERSION is too short")?;
        if version.major.get() != 0 {
            return Err("it speaks another major version than 0");
        }
        let capabilities = Capabilities::parse(text)?;
        self.line.set_data_bytes_max(capabilities.data_bytes_max);
        self.is_negotiated.set(true);
        // Minor version 0 is understood by every client.
        out.extend_from_slice(Version::default().as_bytes());
        out.extend_from_slice(&Capabilities::offer());
        info!("{} is attached", self.peer);
        Ok(())
    }

    fn dma_map(&self, payload: &[u8], files: Vec<OwnedFd>) -> Result<(), Failure> {
        let map = sized::<DmaMap>(payload, |map| map.argsz.get())?;
        let (base, bytes, offset, flags) =
            (map.address.get(), map.bytes.get(), map.offset.get(), map.flags.get());
        let is_whole = bytes > 0 && bytes.is_multiple_of(PAGE_BYTES) && base.is_multiple_of(PAGE_BYTES);
        let Some(end) = base.checked_add(bytes).filter(|_| is_whole) else {
            return Err(MapError::Extent.into());
        };
        const WRITE: u32 = vfio::VFIO_DMA_MAP_FLAG_WRITE;
        let access = match flags {
            0 => Access::None,
            vfio::VFIO_DMA_MAP_FLAG_READ => Access::Read,
            _ if flags & !(vfio::VFIO_DMA_MAP_FLAG_READ | WRITE) == 0 => Access::ReadWrite,
            _ => return Err(Failure::invalid("it has flags that are none of read and write")),
        };
        let mut files = files.into_iter().map(File::from);
        let file = files.next();
        if files.next().is_some() {
            return Err(Failure::invalid("more than one descriptor came with it"));
        }
        let identity = match &file {
            None => None,
            Some(file) => {
                let stat = fstat(file).map_err(|errno| Failure::new(errno, "its file has no properties"))?;
                Some((stat.st_dev, stat.st_ino, offset))
            }
        };
        let mapping = Mapping { bytes, flags, file: identity };
        let mut mappings = self.mappings.borrow_mut();
        // Repeating a mapping is harmless, but not if its file has been truncated since.
        if mappings.get(&base) == Some(&mapping) && self.function.memory().check(base, bytes).is_ok() {
            return Ok(());
        }
        let before = mappings.range(..end).next_back();
        if before.is_some_and(|(at, other)| at + other.bytes > base) {
            return Err(MapError::Overlap.into());
        }
        if mappings.len() == MAPS_MAX {
            return Err(MapError::TooMany.into());
        }
        let memory = self.function.memory();
        match &file {
            None => {
                let remote = Rc::new(ClientMemory(self.line.clone()));
                memory.map(base, bytes, Backing::Remote(remote), access)?;
            }
            Some(file) => {
                self.look_at_sharing(file, identity);
                memory.map(base, bytes, Backing::File { file, offset }, access)?;
            }
        }
        mappings.insert(base, mapping);
        Ok(())
    }

    /// Logs a warning if the client's memory is not really shared.
    fn look_at_sharing(&self, file: &File, identity: Option<(u64, u64, u64)>) {
        let identity = identity.map(|(device, inode, _)| (device, inode));
        if self.known_file.replace(identity) != identity && self.peer.keeps_private_copy(file) == Some(true) {
            warn!(
                "{} has given a file as its memory of which it uses a private copy: nothing that it writes there \
                 arrives, and its commands will time out. For QEMU, say share=on in the memory backend's -object",
                self.peer
            );
        }
    }

    fn dma_unmap(&self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
        let unmap = sized::<DmaUnmap>(payload, |unmap| unmap.argsz.get())?;
        let (base, bytes) = (unmap.address.get(), unmap.bytes.get());
        self.function.land_posted_writes();
        let memory = self.function.memory();
        let mut mappings = self.mappings.borrow_mut();
        match unmap.flags.get() {
            0 => {
                let end = base.checked_add(bytes).ok_or(MapError::Extent)?;
                if bytes == 0 {
                    return Err(MapError::Extent.into());
                }
                memory.unmap(base, bytes)?;
                mappings.retain(|at, _| !(base..end).contains(at));
            }
            vfio::VFIO_DMA_UNMAP_FLAG_ALL if base == 0 && bytes == 0 => {
                memory.unmap_all();
                mappings.clear();
            }
            vfio::VFIO_DMA_UNMAP_FLAG_ALL => {
                return Err(Failure::invalid("to unmap all, address and size are zero"));
            }
            vfio::VFIO_DMA_UNMAP_FLAG_GET_DIRTY_BITMAP => {
                return Err(Failure::unsupported("dirty pages are not tracked"));
            }
            _ => return Err(Failure::invalid("it has flags that do not exist")),
        }
        out.extend_from_slice(unmap.as_bytes());
        Ok(())
    }

    fn region_info(&self, payload: &[u8], out: &mut Vec<u8>) -> Result<Option<Rc<File>>, Failure> {
        let asked = sized::<RegionInfo>(payload, |info| info.argsz.get())?;
        let index = asked.index;
        if index.get() >= REGIONS {
            return Err(Failure::invalid("there is no such region"));
        }
        let region = self.function.region(index.get());
        let mut info = RegionInfo { index, bytes: region.bytes.into(), ..RegionInfo::default() };
        let mut flags = 0;
        if region.bytes > 0 {
            flags |= vfio::VFIO_REGION_INFO_FLAG_READ | vfio::VFIO_REGION_INFO_FLAG_WRITE;
        }
        let mut needed = size_of::<RegionInfo>();
        let mut file = None;
        let mut sparse = None;
        if let Some(mappable) = region.mappable {
            flags |= vfio::VFIO_REGION_INFO_FLAG_MMAP;
            // Clients map the file at the region's offset (0) plus the area's offset in the region.
            needed += size_of::<SparseMmap>();
            // If the reply does not fit, the client asks again with the buffer size that this reply names.
            if asked.argsz.get() as usize >= needed {
                flags |= vfio::VFIO_REGION_INFO_FLAG_CAPS;
                info.cap_offset = (size_of::<RegionInfo>() as u32).into();
                sparse = Some(SparseMmap {
                    id: (vfio::VFIO_REGION_INFO_CAP_SPARSE_MMAP as u16).into(),
                    version: 1.into(),
                    areas: 1.into(),
                    offset: mappable.offset.into(),
                    bytes: mappable.bytes.into(),
                    ..SparseMmap::default()
                });
                file = Some(mappable.file);
            }
        }
        info.argsz = (needed as u32).into();
        info.flags = flags.into();
        out.extend_from_slice(info.as_bytes());
        sparse.inspect(|sparse| out.extend_from_slice(sparse.as_bytes()));
        Ok(file)
    }

    /// Number of interrupts of a kind.
    fn irq_count(&self, index: u32) -> Result<u32, Failure> {
        match index {
            vfio::VFIO_PCI_MSIX_IRQ_INDEX => Ok(self.function.interrupts().count()),
            // QEMU warns if it cannot register for errors and requests. The function never raises them.
            vfio::VFIO_PCI_ERR_IRQ_INDEX | vfio::VFIO_PCI_REQ_IRQ_INDEX => Ok(1),
            0..IRQS => Ok(0),
            _ => Err(Failure::invalid("there is no such kind of interrupts")),
        }
    }

    fn irq_info(&self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
        let asked = sized::<IrqInfo>(payload, |info| info.argsz.get())?;
        let count = self.irq_count(asked.index.get())?;
        let info = IrqInfo {
            argsz: (size_of::<IrqInfo>() as u32).into(),
            flags: vfio::VFIO_IRQ_INFO_EVENTFD.into(),
            index: asked.index,
            count: count.into(),
        };
        out.extend_from_slice(info.as_bytes());
        Ok(())
    }

    fn set_irqs(&self, payload: &[u8], files: Vec<OwnedFd>) -> Result<(), Failure> {
        let set = sized::<SetIrqs>(payload, |set| set.argsz.get())?;
        let index = set.index.get();
        let count_max = self.irq_count(index)?;
        let (start, count) = (set.start.get(), set.count.get());
        let Some(end) = start.checked_add(count).filter(|end| *end <= count_max) else {
            return Err(Failure::invalid("there are not that many interrupts"));
        };
        let flags = set.flags.get();
        let data = flags & vfio::VFIO_IRQ_SET_DATA_TYPE_MASK;
        let action = flags & vfio::VFIO_IRQ_SET_ACTION_TYPE_MASK;
        if data | action != flags || data.count_ones() != 1 || action.count_ones() != 1 {
            return Err(Failure::invalid("its flags are not one kind of data and one action"));
        }
        if action != vfio::VFIO_IRQ_SET_ACTION_TRIGGER {
            // Consistent with VFIO_IRQ_INFO_MASKABLE, which is not set: a host masks vectors in the MSI-X
            // table.
            return Err(Failure::unsupported("these interrupts cannot be masked"));
        }
        if data != vfio::VFIO_IRQ_SET_DATA_EVENTFD && !files.is_empty() {
            return Err(Failure::invalid("descriptors came with it, and its flags speak of none"));
        }
        if count == 0 && data != vfio::VFIO_IRQ_SET_DATA_NONE {
            return Err(Failure::invalid("it is about no interrupt"));
        }
        if index != vfio::VFIO_PCI_MSIX_IRQ_INDEX {
            return Ok(());
        }
        let interrupts = self.function.interrupts();
        match data {
            vfio::VFIO_IRQ_SET_DATA_NONE if count == 0 => interrupts.clear(),
            vfio::VFIO_IRQ_SET_DATA_NONE => (start..end).for_each(|vector| interrupts.trigger(vector)),
            vfio::VFIO_IRQ_SET_DATA_BOOL => {
                let chosen = payload
                    .get(size_of::<SetIrqs>()..)
                    .and_then(|chosen| chosen.get(..count as usize))
                    .ok_or_else(|| Failure::invalid("a byte for each interrupt is missing"))?;
                for (vector, _) in (start..end).zip(chosen).filter(|(_, chosen)| **chosen != 0) {
                    interrupts.trigger(vector);
                }
            }
            _ => {
                if !files.is_empty() && files.len() != count as usize {
                    return Err(Failure::invalid("it needs a descriptor for each interrupt, or none"));
                }
                let mut files = files.into_iter();
                for vector in start..end {
                    interrupts
                        .assign(vector, files.next())
                        .map_err(|_| Failure::invalid("its descriptor cannot be used"))?;
                }
            }
        }
        Ok(())
    }

    fn region_read(&self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
        let (access, rest) = take::<RegionAccess>(payload).ok_or(Failure::invalid("it is too short"))?;
        let bytes = access.count.get() as usize;
        if !rest.is_empty() || bytes > DATA_BYTES_MAX {
            return Err(Failure::invalid("it asks for more than a message holds, or carries data"));
        }
        let end = access.offset.get().checked_add(bytes as u64);
        if end.is_none_or(|end| end > self.function.region(access.region.get()).bytes) {
            return Err(Failure::invalid("it is beyond the end of the region"));
        }
        out.extend_from_slice(access.as_bytes());
        let data = out.len();
        out.resize(data + bytes, 0);
        self.function.read(access.region.get(), access.offset.get(), &mut out[data..])?;
        Ok(())
    }

    async fn region_write(&self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
        let (access, data) = take::<RegionAccess>(payload).ok_or(Failure::invalid("it is too short"))?;
        if access.count.get() as usize != data.len() {
            return Err(Failure::invalid("its count is not that of the data it carries"));
        }
        self.write(access.region.get(), access.offset.get(), data).await?;
        out.extend_from_slice(access.as_bytes());
        Ok(())
    }

    /// Writes to a region and carries out the effect, such as a reset.
    async fn write(&self, region: u32, offset: u64, data: &[u8]) -> Result<(), Failure> {
        match self.function.write(region, offset, data)? {
            Effect::None => self.function.stored().await,
            Effect::Reset => self.function.reset().await,
        }
        Ok(())
    }

    async fn region_write_multi(&self, payload: &[u8]) -> Result<(), Failure> {
        let (count, writes) = take::<U64>(payload).ok_or(Failure::invalid("it is too short"))?;
        let count = count.get();
        if count > WRITES_MAX || writes.len() as u64 != count * size_of::<SmallWrite>() as u64 {
            return Err(Failure::invalid("its count is not that of the writes it carries"));
        }
        for write in writes.chunks_exact(size_of::<SmallWrite>()) {
            let write = SmallWrite::read_from_bytes(write).expect("as long as a write");
            let data = write.data.get(..write.count.get() as usize);
            let data = data.ok_or(Failure::invalid("one of its writes is longer than 8 bytes"))?;
            self.write(write.region.get(), write.offset.get(), data).await?;
        }
        Ok(())
    }
}

fn device_info(payload: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
    sized::<DeviceInfo>(payload, |info| info.argsz.get())?;
    let info = DeviceInfo {
        argsz: (size_of::<DeviceInfo>() as u32).into(),
        flags: (vfio::VFIO_DEVICE_FLAGS_PCI | vfio::VFIO_DEVICE_FLAGS_RESET).into(),
        regions: REGIONS.into(),
        irqs: IRQS.into(),
    };
    out.extend_from_slice(info.as_bytes());
    Ok(())
}

/// No region has I/O descriptors: doorbells are mapped, or come as messages.
fn region_io_fds(payload: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
    let asked = sized::<RegionIoFds>(payload, |asked| asked.argsz.get())?;
    if asked.flags.get() != 0 || asked.count.get() != 0 || asked.index.get() >= REGIONS {
        return Err(Failure::invalid("there is no such region, or it has flags or a count"));
    }
    let argsz = (size_of::<RegionIoFds>() as u32).into();
    out.extend_from_slice(RegionIoFds { argsz, ..asked }.as_bytes());
    Ok(())
}

/// Reads a structure that contains its own length. SPDK's requests include space for the reply after it.
fn sized<T>(payload: &[u8], argsz: impl FnOnce(&T) -> u32) -> Result<T, Failure>
where
    T: FromBytes + KnownLayout + Immutable,
{
    let (value, _) = take::<T>(payload).ok_or(Failure::invalid("it is too short"))?;
    if (argsz(&value) as usize) < size_of::<T>() {
        return Err(Failure::invalid("its argsz is too small"));
    }
    Ok(value)
}

const _: () =
    assert!(HEADER_BYTES + size_of::<RegionAccess>() + DATA_BYTES_MAX <= super::message::MESSAGE_BYTES_MAX);
