//! The host's end of vfio-user: attaches to a served device. Every call blocks until the reply, for at most 5
//! s.

use super::channel::{ANSWER_LIMIT, Channel, Gone, Message};
use super::message::{
    Capabilities, Command, DATA_BYTES_MAX, DeviceInfo, DmaAccess, DmaMap, DmaUnmap, Header, IrqInfo,
    RegionAccess, RegionInfo, SetIrqs, SparseMmap, Version, sparse_mmap, take,
};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vfio_bindings::bindings::vfio;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Buffer size for a region's capabilities.
const REGION_INFO_BYTES: usize = 4096;

/// Why the device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No server listens there.
    #[error(
        "nothing serves a device at {path}: start one with byteway serve DEVICE.toml --vfio-user DIR, and \
         give the same DIR, or the socket's path, here"
    )]
    NobodyThere {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Another host is attached to the device.
    #[error(
        "the device at {path} is in use by another host, and serves one at a time: detach that one first"
    )]
    Busy {
        /// Path of the socket.
        path: PathBuf,
    },
    /// The connection ended.
    #[error("the device's server is lost: {0}. Its log says more")]
    Lost(#[from] Gone),
    /// The server refused a request.
    #[error("the device's server refuses {command}; its log says why")]
    Refused {
        /// The refused request.
        command: Command,
        /// The errno of the reply.
        source: io::Error,
    },
    /// A reply is malformed.
    #[error("the reply to {0} violates the protocol: this is not a vfio-user server, or an incompatible one")]
    Answer(Command),
    /// The caller's request cannot be encoded.
    #[error("{0}")]
    Request(&'static str),
}

/// A region of the device.
#[derive(Debug)]
pub struct ClientRegion {
    /// VFIO index.
    pub index: u32,
    /// Length in bytes.
    pub bytes: u64,
    /// `VFIO_REGION_INFO_FLAG_*`.
    pub flags: u32,
    /// The part that may be mapped.
    pub mappable: Option<ClientMappable>,
}

/// A part of a region that may be mapped.
#[derive(Debug)]
pub struct ClientMappable {
    /// Offset within the region, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// The file that holds it.
    pub file: File,
    /// Offset within the file, in bytes.
    pub file_offset: u64,
}

/// Host memory that the server reaches by messages.
pub trait Served {
    /// Copies from memory. Returns false if the extent is not mapped.
    fn read(&mut self, address: u64, into: &mut [u8]) -> bool;
    /// Copies to memory. Returns false if the extent is not mapped or is read-only.
    fn write(&mut self, address: u64, from: &[u8]) -> bool;
}

/// A connection to a served device.
pub struct Client {
    channel: Channel,
    served: RefCell<Option<Box<dyn Served>>>,
    data_bytes_max: usize,
    answered: Cell<u64>,
}

impl Client {
    /// Attaches to the device at `path`: its socket, or the directory that holds one named `cntrl`.
    ///
    /// # Errors
    /// No server listens there, another host is attached, or the server speaks another protocol.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let path = if path.is_dir() { path.join("cntrl") } else { path.to_path_buf() };
        let mut client = Self::unversioned(&path)?;
        let offer = Capabilities::offer();
        let answer = match client.ask(Command::VERSION, &[Version::default().as_bytes(), &offer], &[]) {
            Err(ClientError::Refused { source, .. })
                if source.raw_os_error() == Some(Errno::BUSY.raw_os_error()) =>
            {
                return Err(ClientError::Busy { path });
            }
            answer => answer?,
        };
        let wrong = || ClientError::Answer(Command::VERSION);
        let (version, text) = take::<Version>(&answer.payload).ok_or_else(wrong)?;
        let capabilities = Capabilities::parse(text).map_err(|_| wrong())?;
        if version.major.get() != 0 {
            return Err(wrong());
        }
        client.data_bytes_max = usize::try_from(capabilities.data_bytes_max)
            .map_or(DATA_BYTES_MAX, |max| max.min(DATA_BYTES_MAX));
        Ok(client)
    }

    /// Connects without negotiating a version, for callers that send their own messages
    /// ([`Client::channel`]).
    ///
    /// # Errors
    /// No server listens there.
    pub fn unversioned(path: &Path) -> Result<Self, ClientError> {
        let connected = || -> Result<OwnedFd, Errno> {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            connect(&socket, &SocketAddrUnix::new(path)?)?;
            Ok(socket)
        };
        let socket = connected()
            .map_err(|errno| ClientError::NobodyThere { path: path.to_path_buf(), source: errno.into() })?;
        Ok(Client {
            channel: Channel::new(socket),
            served: RefCell::default(),
            data_bytes_max: DATA_BYTES_MAX,
            answered: Cell::new(0),
        })
    }

    /// The connection.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// The most data bytes in one region access.
    pub fn data_bytes_max(&self) -> usize {
        self.data_bytes_max
    }

    /// Answers the server's requests from `memory` from now on, while a call waits for its reply and in
    /// [`Client::serve_for`].
    pub fn serve(&self, memory: Box<dyn Served>) {
        self.served.replace(Some(memory));
    }

    /// Number of the server's requests answered so far.
    pub fn answered(&self) -> u64 {
        self.answered.get()
    }

    /// Answers the server's requests for `time`.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn serve_for(&self, time: Duration) -> Result<(), ClientError> {
        self.channel.wait_for(time, |message| {
            match message.header.kind() {
                Header::REPLY => self.channel.note_stray_reply(),
                _ => self.answer(message)?,
            }
            Ok(None::<()>)
        })?;
        Ok(())
    }

    /// Answers one request of the server.
    fn answer(&self, message: Message) -> Result<(), Gone> {
        let header = message.header;
        self.answered.set(self.answered.get() + 1);
        let failure = |errno: Errno| header.failure(errno.raw_os_error().unsigned_abs());
        let mut served = self.served.borrow_mut();
        let (Some(memory), Some((access, data))) = (&mut *served, take::<DmaAccess>(&message.payload)) else {
            return self.channel.send(failure(Errno::OPNOTSUPP), &[], &[]);
        };
        let (address, count) = (access.address.get(), access.count.get());
        let is_small = count <= DATA_BYTES_MAX as u64;
        match header.command() {
            Command::DMA_READ if data.is_empty() && is_small => {
                let mut bytes = vec![0; count as usize];
                match memory.read(address, &mut bytes) {
                    true => self.channel.send(header.reply(), &[access.as_bytes(), &bytes], &[]),
                    false => self.channel.send(failure(Errno::FAULT), &[], &[]),
                }
            }
            Command::DMA_WRITE if data.len() as u64 == count => match memory.write(address, data) {
                true => self.channel.send(header.reply(), &[access.as_bytes()], &[]),
                false => self.channel.send(failure(Errno::FAULT), &[], &[]),
            },
            Command::DMA_READ | Command::DMA_WRITE => self.channel.send(failure(Errno::INVAL), &[], &[]),
            _ => self.channel.send(failure(Errno::OPNOTSUPP), &[], &[]),
        }
    }

    /// Sends a request of `parts` and waits for its answer.
    ///
    /// # Errors
    /// The server refuses it, or the connection has ended.
    pub fn ask(
        &self,
        command: Command,
        parts: &[&[u8]],
        files: &[BorrowedFd<'_>],
    ) -> Result<Message, ClientError> {
        let answer = self.channel.ask(command, parts, files, |message| self.answer(message))?;
        if answer.header.has(Header::ERROR) {
            let errno = i32::try_from(answer.header.error.get()).unwrap_or(Errno::INVAL.raw_os_error());
            let source = io::Error::from_raw_os_error(errno);
            return Err(ClientError::Refused { command, source });
        }
        Ok(answer)
    }

    /// Sends a structure and expects one of the same type in the reply.
    fn ask_for<T>(&self, command: Command, asked: &T) -> Result<T, ClientError>
    where
        T: FromBytes + IntoBytes + KnownLayout + Immutable,
    {
        let answer = self.ask(command, &[asked.as_bytes()], &[])?;
        take::<T>(&answer.payload).map(|(value, _)| value).ok_or(ClientError::Answer(command))
    }

    /// Information about the device.
    ///
    /// # Errors
    /// Same as [`Client::ask`].
    pub fn device(&self) -> Result<DeviceInfo, ClientError> {
        let asked = DeviceInfo { argsz: argsz::<DeviceInfo>().into(), ..DeviceInfo::default() };
        self.ask_for(Command::DEVICE_GET_INFO, &asked)
    }

    /// A region by its VFIO index.
    ///
    /// # Errors
    /// Same as [`Client::ask`].
    pub fn region(&self, index: u32) -> Result<ClientRegion, ClientError> {
        let command = Command::DEVICE_GET_REGION_INFO;
        let wrong = || ClientError::Answer(command);
        let argsz = (REGION_INFO_BYTES as u32).into();
        let asked = RegionInfo { argsz, index: index.into(), ..RegionInfo::default() };
        let answer = self.ask(command, &[asked.as_bytes()], &[])?;
        let (info, _) = take::<RegionInfo>(&answer.payload).ok_or_else(wrong)?;
        let (flags, bytes) = (info.flags.get(), info.bytes.get());
        let mut mappable = None;
        if flags & vfio::VFIO_REGION_INFO_FLAG_CAPS != 0
            && let Some(sparse) = sparse_mmap(&answer.payload, info.cap_offset.get())
        {
            let SparseMmap { offset, bytes: part, .. } = sparse;
            let is_inside = offset.get().checked_add(part.get()).is_some_and(|end| end <= bytes);
            let file = answer.files.into_iter().next().filter(|_| is_inside).ok_or_else(wrong)?;
            mappable = Some(ClientMappable {
                offset: offset.get(),
                bytes: part.get(),
                file: file.into(),
                file_offset: info.offset.get().wrapping_add(offset.get()),
            });
        }
        Ok(ClientRegion { index, bytes, flags, mappable })
    }

    /// Information about the interrupts of a kind.
    ///
    /// # Errors
    /// Same as [`Client::ask`].
    pub fn irq(&self, index: u32) -> Result<IrqInfo, ClientError> {
        let asked = IrqInfo { argsz: argsz::<IrqInfo>().into(), index: index.into(), ..IrqInfo::default() };
        self.ask_for(Command::DEVICE_GET_IRQ_INFO, &asked)
    }

    /// Reads from a region.
    ///
    /// # Errors
    /// Same as [`Client::ask`].
    pub fn region_read(&self, region: u32, offset: u64, into: &mut [u8]) -> Result<(), ClientError> {
        let mut offset = offset;
        for part in into.chunks_mut(self.data_bytes_max) {
            let access = RegionAccess {
                offset: offset.into(),
                region: region.into(),
                count: (part.len() as u32).into(),
            };
            let answer = self.ask(Command::REGION_READ, &[access.as_bytes()], &[])?;
            let data = take::<RegionAccess>(&answer.payload).map(|(_, data)| data);
            let data = data.filter(|data| data.len() == part.len());
            part.copy_from_slice(data.ok_or(ClientError::Answer(Command::REGION_READ))?);
            self.channel.recycle(answer.payload);
            offset = offset.wrapping_add(part.len() as u64);
        }
        Ok(())
    }

    /// Writes to a region, and waits until the write is done.
    ///
    /// # Errors
    /// Same as [`Client::ask`]; or `from` is longer than one message carries.
    pub fn region_write(&self, region: u32, offset: u64, from: &[u8]) -> Result<(), ClientError> {
        let access = self.write_access(region, offset, from)?;
        let answer = self.ask(Command::REGION_WRITE, &[access.as_bytes(), from], &[])?;
        self.channel.recycle(answer.payload);
        Ok(())
    }

    /// Writes to a region without waiting for a reply.
    ///
    /// # Errors
    /// The connection has ended; or `from` is longer than one message carries.
    pub fn region_post(&self, region: u32, offset: u64, from: &[u8]) -> Result<(), ClientError> {
        let access = self.write_access(region, offset, from)?;
        let header = Header::request(self.channel.next_id(), Command::REGION_WRITE, Header::NO_REPLY);
        self.channel.send(header, &[access.as_bytes(), from], &[])?;
        // A client that only posts would otherwise send without bound to a server that does not read.
        if self.channel.has_unsent() && !self.channel.drain(ANSWER_LIMIT)? {
            return Err(self.channel.end(Gone::Silent(Command::REGION_WRITE)).into());
        }
        Ok(())
    }

    fn write_access(&self, region: u32, offset: u64, from: &[u8]) -> Result<RegionAccess, ClientError> {
        if from.len() > self.data_bytes_max {
            return Err(ClientError::Request("more data than one region access carries"));
        }
        let count = (from.len() as u32).into();
        Ok(RegionAccess { offset: offset.into(), region: region.into(), count })
    }

    /// Maps memory at `address` of the device's address space: `file` from `offset` on, shared; or, without a
    /// file, memory that the device reaches by messages ([`Client::serve`]).
    ///
    /// # Errors
    /// Same as [`Client::ask`].
    pub fn dma_map(
        &self,
        address: u64,
        bytes: u64,
        file: Option<(&File, u64)>,
        is_writable: bool,
    ) -> Result<(), ClientError> {
        let write = if is_writable { vfio::VFIO_DMA_MAP_FLAG_WRITE } else { 0 };
        let map = DmaMap {
            argsz: argsz::<DmaMap>().into(),
            flags: (vfio::VFIO_DMA_MAP_FLAG_READ | write).into(),
            offset: file.map_or(0, |(_, offset)| offset).into(),
            address: address.into(),
            bytes: bytes.into(),
        };
        let file = file.map(|(file, _)| file.as_fd());
        self.ask(Command::DMA_MAP, &[map.as_bytes()], file.as_slice())?;
        Ok(())
    }

    /// Unmaps memory. On return, the device no longer accesses it.
    ///
    /// # Errors
    /// Same as [`Client::ask`].
    pub fn dma_unmap(&self, address: u64, bytes: u64) -> Result<(), ClientError> {
        self.unmap(address, bytes, 0)
    }

    /// Unmaps all memory.
    ///
    /// # Errors
    /// Same as [`Client::ask`].
    pub fn dma_unmap_all(&self) -> Result<(), ClientError> {
        self.unmap(0, 0, vfio::VFIO_DMA_UNMAP_FLAG_ALL)
    }

    fn unmap(&self, address: u64, bytes: u64, flags: u32) -> Result<(), ClientError> {
        let unmap = DmaUnmap {
            argsz: argsz::<DmaUnmap>().into(),
            flags: flags.into(),
            address: address.into(),
            bytes: bytes.into(),
        };
        self.ask_for(Command::DMA_UNMAP, &unmap)?;
        Ok(())
    }

    /// Directs messages of the MSI-X vectors from `start` on to `events`, one each.
    ///
    /// # Errors
    /// Same as [`Client::ask`].
    pub fn set_events(&self, start: u32, events: &[BorrowedFd<'_>]) -> Result<(), ClientError> {
        let count = events.len() as u32;
        self.set_irqs(vfio::VFIO_IRQ_SET_DATA_EVENTFD, start, count, &[], events)
    }

    /// Drops messages of all MSI-X vectors from now on.
    ///
    /// # Errors
    /// Same as [`Client::ask`].
    pub fn clear_events(&self) -> Result<(), ClientError> {
        self.set_irqs(vfio::VFIO_IRQ_SET_DATA_NONE, 0, 0, &[], &[])
    }

    /// Sends SET_IRQS for MSI-X vectors, to trigger or to assign them; `data` is the `VFIO_IRQ_SET_DATA_*`
    /// payload.
    ///
    /// # Errors
    /// Same as [`Client::ask`].
    pub fn set_irqs(
        &self,
        data: u32,
        start: u32,
        count: u32,
        chosen: &[u8],
        events: &[BorrowedFd<'_>],
    ) -> Result<(), ClientError> {
        let set = SetIrqs {
            argsz: (argsz::<SetIrqs>() + chosen.len() as u32).into(),
            flags: (data | vfio::VFIO_IRQ_SET_ACTION_TRIGGER).into(),
            index: vfio::VFIO_PCI_MSIX_IRQ_INDEX.into(),
            start: start.into(),
            count: count.into(),
        };
        self.ask(Command::DEVICE_SET_IRQS, &[set.as_bytes(), chosen], events)?;
        Ok(())
    }

    /// Resets the device.
    ///
    /// # Errors
    /// Same as [`Client::ask`].
    pub fn reset(&self) -> Result<(), ClientError> {
        self.ask(Command::DEVICE_RESET, &[], &[])?;
        Ok(())
    }
}

fn argsz<T>() -> u32 {
    size_of::<T>() as u32
}
