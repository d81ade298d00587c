//! What vfio-user messages look like: a header of 16 bytes, and what each command carries behind it.
//!
//! Everything is little-endian. Command and error codes that this side doesn't know stay representable.

use serde_json::{Value, json};
use std::fmt;
use vfio_bindings::bindings::vfio;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a message's header.
pub const HEADER_BYTES: usize = size_of::<Header>();
/// Bytes of data in one message, at most; what this side announces as `max_data_xfer_size`.
pub const DATA_BYTES_MAX: usize = 1 << 20;
/// Bytes of a message, at most: data behind the largest fixed part.
pub const MESSAGE_BYTES_MAX: usize = DATA_BYTES_MAX + 64;
/// Descriptors that come with one message, at most.
pub const FILES_MAX: usize = 16;
/// Regions that a client may map.
pub const MAPS_MAX: usize = 1024;
/// The least that a client must be able to take as data of one message: a page.
pub const DATA_BYTES_MIN: usize = 4096;
/// Single writes in a [`Command::REGION_WRITE_MULTI`], at most.
pub const WRITES_MAX: u64 = 200;

/// What a message asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Command(pub u16);

#[allow(missing_docs, reason = "the protocol's names")]
impl Command {
    pub const VERSION: Command = Command(1);
    pub const DMA_MAP: Command = Command(2);
    pub const DMA_UNMAP: Command = Command(3);
    pub const DEVICE_GET_INFO: Command = Command(4);
    pub const DEVICE_GET_REGION_INFO: Command = Command(5);
    pub const DEVICE_GET_REGION_IO_FDS: Command = Command(6);
    pub const DEVICE_GET_IRQ_INFO: Command = Command(7);
    pub const DEVICE_SET_IRQS: Command = Command(8);
    pub const REGION_READ: Command = Command(9);
    pub const REGION_WRITE: Command = Command(10);
    pub const DMA_READ: Command = Command(11);
    pub const DMA_WRITE: Command = Command(12);
    pub const DEVICE_RESET: Command = Command(13);
    pub const DIRTY_PAGES: Command = Command(14);
    pub const REGION_WRITE_MULTI: Command = Command(15);
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Command::VERSION => "VERSION",
            Command::DMA_MAP => "DMA_MAP",
            Command::DMA_UNMAP => "DMA_UNMAP",
            Command::DEVICE_GET_INFO => "DEVICE_GET_INFO",
            Command::DEVICE_GET_REGION_INFO => "DEVICE_GET_REGION_INFO",
            Command::DEVICE_GET_REGION_IO_FDS => "DEVICE_GET_REGION_IO_FDS",
            Command::DEVICE_GET_IRQ_INFO => "DEVICE_GET_IRQ_INFO",
            Command::DEVICE_SET_IRQS => "DEVICE_SET_IRQS",
            Command::REGION_READ => "REGION_READ",
            Command::REGION_WRITE => "REGION_WRITE",
            Command::DMA_READ => "DMA_READ",
            Command::DMA_WRITE => "DMA_WRITE",
            Command::DEVICE_RESET => "DEVICE_RESET",
            Command::DIRTY_PAGES => "DIRTY_PAGES",
            Command::REGION_WRITE_MULTI => "REGION_WRITE_MULTI",
            Command(code) => return write!(f, "command {code}"),
        };
        f.write_str(name)
    }
}

/// What every message begins with.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// Which request this is, or answers. Each side counts its own.
    pub id: U16,
    /// See [`Command`].
    pub command: U16,
    /// Of the whole message, the header included.
    pub bytes: U32,
    /// See [`Header::REPLY`] and its neighbours.
    pub flags: U32,
    /// An errno, in a reply with [`Header::ERROR`].
    pub error: U32,
}

impl Header {
    /// In `flags`: request or reply.
    pub const TYPE: u32 = 0xF;
    /// A type: a request.
    pub const REQUEST: u32 = 0;
    /// A type: the answer to one.
    pub const REPLY: u32 = 1;
    /// Of a request: no answer is wanted.
    pub const NO_REPLY: u32 = 0x10;
    /// Of a reply: the request failed.
    pub const ERROR: u32 = 0x20;

    /// A request. The channel fills in its length.
    pub fn request(id: u16, command: Command, flags: u32) -> Self {
        Header { id: id.into(), command: command.0.into(), flags: flags.into(), ..Header::default() }
    }

    /// The answer to `self`.
    pub fn reply(&self) -> Self {
        Header { id: self.id, command: self.command, flags: Self::REPLY.into(), ..Header::default() }
    }

    /// The answer to `self` that it failed.
    pub fn failure(&self, errno: u32) -> Self {
        Header { flags: (Self::REPLY | Self::ERROR).into(), error: errno.into(), ..self.reply() }
    }

    /// What it asks for, or answers.
    pub fn command(&self) -> Command {
        Command(self.command.get())
    }

    /// Whether all flags of `flags` are set.
    pub fn has(&self, flags: u32) -> bool {
        self.flags.get() & flags == flags
    }

    /// Its type: [`Header::REQUEST`], [`Header::REPLY`], or something that doesn't exist.
    pub fn kind(&self) -> u32 {
        self.flags.get() & Self::TYPE
    }
}

/// Makes a payload's type readable and writable as bytes, and checks its length against the protocol's.
macro_rules! payload {
    ($(#[$doc:meta])* $name:ident, $bytes:literal { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
        )]
        #[repr(C)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }
        const _: () = assert!(size_of::<$name>() == $bytes);
    };
}

const _: () = assert!(HEADER_BYTES == 16);

payload! {
    /// VERSION, and its reply; capabilities as JSON and a NUL may follow.
    Version, 4 {
        /// 0.
        major: U16,
        /// The reply's is at most the request's.
        minor: U16,
    }
}

payload! {
    /// DMA_MAP. The file's descriptor, if the region has one, comes with the message.
    DmaMap, 32 {
        /// Bytes of this structure.
        argsz: U32,
        /// `VFIO_DMA_MAP_FLAG_*`.
        flags: U32,
        /// Where in the file the region begins.
        offset: U64,
        /// Where it is in the device's address space.
        address: U64,
        /// Its length.
        bytes: U64,
    }
}

payload! {
    /// DMA_UNMAP, and its reply.
    DmaUnmap, 24 {
        /// Bytes of this structure, and of the bitmap if one is asked for.
        argsz: U32,
        /// `VFIO_DMA_UNMAP_FLAG_*`.
        flags: U32,
        /// Where the regions are in the device's address space.
        address: U64,
        /// The length of the extent in which they are.
        bytes: U64,
    }
}

payload! {
    /// DEVICE_GET_INFO, and its reply.
    DeviceInfo, 16 {
        /// Bytes of this structure.
        argsz: U32,
        /// `VFIO_DEVICE_FLAGS_*`.
        flags: U32,
        /// How many regions there are.
        regions: U32,
        /// How many kinds of interrupts there are.
        irqs: U32,
    }
}

payload! {
    /// DEVICE_GET_REGION_INFO, and its reply, behind which capabilities may stand.
    RegionInfo, 32 {
        /// Of the request: bytes that the client can take. Of the reply: bytes that all of it needs.
        argsz: U32,
        /// `VFIO_REGION_INFO_FLAG_*`.
        flags: U32,
        /// Which region.
        index: U32,
        /// Where the first capability begins, from this structure on; 0: there is none.
        cap_offset: U32,
        /// The region's length.
        bytes: U64,
        /// Where in the file the region's first byte would be.
        offset: U64,
    }
}

payload! {
    /// The capability that says which part of a region may be mapped, for one part.
    SparseMmap, 32 {
        /// `VFIO_REGION_INFO_CAP_SPARSE_MMAP`.
        id: U16,
        /// 1.
        version: U16,
        /// Where the next capability begins; 0: this is the last.
        next: U32,
        /// 1.
        areas: U32,
        /// 0.
        reserved: U32,
        /// Where the part begins within the region.
        offset: U64,
        /// Its length.
        bytes: U64,
    }
}

payload! {
    /// DEVICE_GET_REGION_IO_FDS, and its reply.
    RegionIoFds, 16 {
        /// Bytes of this structure.
        argsz: U32,
        /// 0.
        flags: U32,
        /// Which region.
        index: U32,
        /// Of the reply: how many descriptors there are.
        count: U32,
    }
}

payload! {
    /// DEVICE_GET_IRQ_INFO, and its reply.
    IrqInfo, 16 {
        /// Bytes of this structure.
        argsz: U32,
        /// `VFIO_IRQ_INFO_*`.
        flags: U32,
        /// Which kind of interrupts.
        index: U32,
        /// How many of these there are.
        count: U32,
    }
}

payload! {
    /// DEVICE_SET_IRQS; a byte for each interrupt may follow, or a descriptor for each may come with the message.
    SetIrqs, 20 {
        /// Bytes of this structure and what follows.
        argsz: U32,
        /// `VFIO_IRQ_SET_*`.
        flags: U32,
        /// Which kind of interrupts.
        index: U32,
        /// The first of them.
        start: U32,
        /// How many.
        count: U32,
    }
}

payload! {
    /// REGION_READ and REGION_WRITE, and their replies; the data follows.
    RegionAccess, 16 {
        /// Where in the region.
        offset: U64,
        /// Which region.
        region: U32,
        /// Bytes of data.
        count: U32,
    }
}

payload! {
    /// One of the writes of a REGION_WRITE_MULTI, which begins with their number as 64 bits.
    SmallWrite, 24 {
        /// Where in the region.
        offset: U64,
        /// Which region.
        region: U32,
        /// Bytes of data, up to 8.
        count: U32,
        /// The data.
        data: [u8; 8],
    }
}

payload! {
    /// DMA_READ and DMA_WRITE, and their replies; the data follows.
    DmaAccess, 16 {
        /// Where in the device's address space.
        address: U64,
        /// Bytes of data.
        count: U64,
    }
}

/// The first bytes of `payload` as a `T`, and the rest.
pub fn take<T: FromBytes + KnownLayout + Immutable>(payload: &[u8]) -> Option<(T, &[u8])> {
    T::read_from_prefix(payload).ok()
}

/// The part of a region that may be mapped, from a reply to DEVICE_GET_REGION_INFO: walks its capabilities, which
/// begin at `cap_offset` of `reply`.
pub fn sparse_mmap(reply: &[u8], cap_offset: u32) -> Option<SparseMmap> {
    let mut at = cap_offset;
    while at != 0 {
        let rest = reply.get(usize::try_from(at).ok()?..)?;
        let (id, _) = take::<[U16; 2]>(rest)?;
        if u32::from(id[0].get()) == vfio::VFIO_REGION_INFO_CAP_SPARSE_MMAP {
            return take::<SparseMmap>(rest)
                .map(|(sparse, _)| sparse)
                .filter(|sparse| sparse.areas.get() > 0);
        }
        let (head, _) = take::<[U32; 2]>(rest)?;
        // Forward only: a chain that turns back would have no end.
        at = Some(head[1].get()).filter(|next| *next == 0 || *next > at)?;
    }
    None
}

/// What the two sides tell each other as JSON in VERSION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Descriptors that the sender takes with one message.
    pub files_max: u64,
    /// Bytes of data that it takes in one message.
    pub data_bytes_max: u64,
}

impl Default for Capabilities {
    /// What holds of a side that says nothing.
    fn default() -> Self {
        Capabilities { files_max: 1, data_bytes_max: DATA_BYTES_MAX as u64 }
    }
}

impl Capabilities {
    /// What this side says of itself: JSON and a NUL.
    pub fn offer() -> Vec<u8> {
        let offer = json!({
            "capabilities": {
                "max_msg_fds": FILES_MAX,
                "max_data_xfer_size": DATA_BYTES_MAX,
                "max_dma_maps": MAPS_MAX,
                "pgsizes": 4096,
                "write_multiple": true,
            }
        });
        let mut text = offer.to_string().into_bytes();
        text.push(0);
        text
    }

    /// Reads what the other side says. Nothing at all is well, too.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &[u8]) -> Result<Self, &'static str> {
        let Some((last, text)) = text.split_last() else { return Ok(Self::default()) };
        if *last != 0 {
            return Err("its capabilities don't end with a NUL");
        }
        // The parser refuses what is nested deeper than 128.
        let all: Value =
            serde_json::from_slice(text).map_err(|_| "its capabilities are not JSON, or nested too deep")?;
        let all = all.as_object().ok_or("its capabilities are not a JSON object")?;
        let Some(inner) = all.get("capabilities") else { return Ok(Self::default()) };
        let inner = inner.as_object().ok_or("\"capabilities\" is not a JSON object")?;
        let number = |name, default| inner.get(name).map_or(Some(default), Value::as_u64);
        let default = Self::default();
        let files_max = number("max_msg_fds", default.files_max).ok_or("\"max_msg_fds\" is not a number")?;
        let data_bytes_max = number("max_data_xfer_size", default.data_bytes_max)
            .filter(|bytes| *bytes >= DATA_BYTES_MIN as u64)
            .ok_or("\"max_data_xfer_size\" is not a number from 4096 on")?;
        Ok(Capabilities { files_max, data_bytes_max })
    }
}
