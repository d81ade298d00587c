//! The wire format of vfio-user: a header of 16 bytes, and the payload of each command.
//!
//! Everything is little-endian. Command and error codes that this side does not know stay representable.

use serde_json::{Value, json};
use std::fmt;
use vfio_bindings::bindings::vfio;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a message's header.
pub const HEADER_BYTES: usize = size_of::<Header>();
/// Data bytes in one message, at most; announced as `max_data_xfer_size`.
pub const DATA_BYTES_MAX: usize = 1 << 20;
/// Bytes of a message, at most: data behind the largest fixed part.
pub const MESSAGE_BYTES_MAX: usize = DATA_BYTES_MAX + 64;
/// Descriptors in one message, at most.
pub const FILES_MAX: usize = 16;
/// Mapped DMA regions of a client, at most.
pub const MAPS_MAX: usize = 1024;
/// The smallest `max_data_xfer_size` that is accepted from a client: a page.
pub const DATA_BYTES_MIN: usize = 4096;
/// Single writes in a [`Command::REGION_WRITE_MULTI`], at most.
pub const WRITES_MAX: u64 = 200;

/// Command code of a message.
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

/// The header of every message.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// Identifies a request and its reply. Each side has its own counter.
    pub id: U16,
    /// See [`Command`].
    pub command: U16,
    /// Length of the message in bytes, including the header.
    pub bytes: U32,
    /// Type and flags: [`Header::REPLY`] and its neighbours.
    pub flags: U32,
    /// An errno, in a reply with [`Header::ERROR`].
    pub error: U32,
}

impl Header {
    /// Mask in `flags`: the message type.
    pub const TYPE: u32 = 0xF;
    /// Message type: a request.
    pub const REQUEST: u32 = 0;
    /// Message type: a reply.
    pub const REPLY: u32 = 1;
    /// Flag of a request: no reply is wanted.
    pub const NO_REPLY: u32 = 0x10;
    /// Flag of a reply: the request failed.
    pub const ERROR: u32 = 0x20;

    /// Header of a request. The channel fills in the length.
    pub fn request(id: u16, command: Command, flags: u32) -> Self {
        Header { id: id.into(), command: command.0.into(), flags: flags.into(), ..Header::default() }
    }

    /// Header of the reply to `self`.
    pub fn reply(&self) -> Self {
        Header { id: self.id, command: self.command, flags: Self::REPLY.into(), ..Header::default() }
    }

    /// Header of an error reply to `self`.
    pub fn failure(&self, errno: u32) -> Self {
        Header { flags: (Self::REPLY | Self::ERROR).into(), error: errno.into(), ..self.reply() }
    }

    /// Command code.
    pub fn command(&self) -> Command {
        Command(self.command.get())
    }

    /// Whether all bits of `flags` are set.
    pub fn has(&self, flags: u32) -> bool {
        self.flags.get() & flags == flags
    }

    /// Message type: [`Header::REQUEST`], [`Header::REPLY`], or an undefined value.
    pub fn kind(&self) -> u32 {
        self.flags.get() & Self::TYPE
    }
}

/// Defines a payload that is read and written as bytes, and checks its length against the protocol's at
/// compile time.
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
    /// VERSION and its reply; capabilities as JSON with a final NUL may follow.
    Version, 4 {
        /// Major version: 0.
        major: U16,
        /// Minor version; the reply's is at most the request's.
        minor: U16,
    }
}

payload! {
    /// DMA_MAP. The descriptor of the file, if the region has one, comes with the message.
    DmaMap, 32 {
        /// Bytes of this structure.
        argsz: U32,
        /// `VFIO_DMA_MAP_FLAG_*`.
        flags: U32,
        /// Offset of the region within the file.
        offset: U64,
        /// Address of the region in the device's address space.
        address: U64,
        /// Length in bytes.
        bytes: U64,
    }
}

payload! {
    /// DMA_UNMAP and its reply.
    DmaUnmap, 24 {
        /// Bytes of this structure, plus the dirty bitmap if one is requested.
        argsz: U32,
        /// `VFIO_DMA_UNMAP_FLAG_*`.
        flags: U32,
        /// Start address of the range in the device's address space.
        address: U64,
        /// Length of the range that contains the regions.
        bytes: U64,
    }
}

payload! {
    /// DEVICE_GET_INFO and its reply.
    DeviceInfo, 16 {
        /// Bytes of this structure.
        argsz: U32,
        /// `VFIO_DEVICE_FLAGS_*`.
        flags: U32,
        /// Number of regions.
        regions: U32,
        /// Number of interrupt kinds.
        irqs: U32,
    }
}

payload! {
    /// DEVICE_GET_REGION_INFO and its reply, which capabilities may follow.
    RegionInfo, 32 {
        /// Request: bytes that the client can receive. Reply: bytes that the full reply needs.
        argsz: U32,
        /// `VFIO_REGION_INFO_FLAG_*`.
        flags: U32,
        /// VFIO region index.
        index: U32,
        /// Offset of the first capability from the start of this structure; 0: none.
        cap_offset: U32,
        /// Length of the region in bytes.
        bytes: U64,
        /// Offset in the file that corresponds to the first byte of the region.
        offset: U64,
    }
}

payload! {
    /// The sparse-mmap capability with one area: the part of a region that may be mapped.
    SparseMmap, 32 {
        /// `VFIO_REGION_INFO_CAP_SPARSE_MMAP`.
        id: U16,
        /// Version: 1.
        version: U16,
        /// Offset of the next capability; 0: this is the last.
        next: U32,
        /// Number of areas: 1.
        areas: U32,
        /// Reserved: 0.
        reserved: U32,
        /// Offset of the area within the region.
        offset: U64,
        /// Length in bytes.
        bytes: U64,
    }
}

payload! {
    /// DEVICE_GET_REGION_IO_FDS and its reply.
    RegionIoFds, 16 {
        /// Bytes of this structure.
        argsz: U32,
        /// Flags: 0.
        flags: U32,
        /// VFIO region index.
        index: U32,
        /// Reply: number of descriptors.
        count: U32,
    }
}

payload! {
    /// DEVICE_GET_IRQ_INFO and its reply.
    IrqInfo, 16 {
        /// Bytes of this structure.
        argsz: U32,
        /// `VFIO_IRQ_INFO_*`.
        flags: U32,
        /// VFIO interrupt index (the kind).
        index: U32,
        /// Number of interrupts of this kind.
        count: U32,
    }
}

payload! {
    /// DEVICE_SET_IRQS. A byte for each interrupt may follow, or a descriptor for each may come with the
    /// message.
    SetIrqs, 20 {
        /// Bytes of this structure and the data after it.
        argsz: U32,
        /// `VFIO_IRQ_SET_*`.
        flags: U32,
        /// VFIO interrupt index (the kind).
        index: U32,
        /// First interrupt of the range.
        start: U32,
        /// Number of interrupts.
        count: U32,
    }
}

payload! {
    /// REGION_READ and REGION_WRITE and their replies; the data follows.
    RegionAccess, 16 {
        /// Offset within the region.
        offset: U64,
        /// VFIO region index.
        region: U32,
        /// Data bytes.
        count: U32,
    }
}

payload! {
    /// One write of a REGION_WRITE_MULTI, whose payload begins with the number of writes as 64 bits.
    SmallWrite, 24 {
        /// Offset within the region.
        offset: U64,
        /// VFIO region index.
        region: U32,
        /// Data bytes, up to 8.
        count: U32,
        /// The data.
        data: [u8; 8],
    }
}

payload! {
    /// DMA_READ and DMA_WRITE and their replies; the data follows.
    DmaAccess, 16 {
        /// Address in the device's address space.
        address: U64,
        /// Data bytes.
        count: U64,
    }
}

/// Splits `payload` into a leading `T` and the rest.
pub fn take<T: FromBytes + KnownLayout + Immutable>(payload: &[u8]) -> Option<(T, &[u8])> {
    T::read_from_prefix(payload).ok()
}

/// The mappable part of a region, from a reply to DEVICE_GET_REGION_INFO: walks the capabilities from
/// `cap_offset` of `reply`.
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
        // Offsets have to increase, so that a cyclic chain ends.
        at = Some(head[1].get()).filter(|next| *next == 0 || *next > at)?;
    }
    None
}

/// Capabilities that each side announces as JSON in VERSION.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Descriptors that the sender accepts in one message.
    pub files_max: u64,
    /// Data bytes that the sender accepts in one message.
    pub data_bytes_max: u64,
}

impl Default for Capabilities {
    /// The protocol's defaults, for a peer that announces nothing.
    fn default() -> Self {
        Capabilities { files_max: 1, data_bytes_max: DATA_BYTES_MAX as u64 }
    }
}

impl Capabilities {
    /// This side's capabilities: JSON and a NUL.
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

    /// Parses the peer's capabilities. Empty text is valid, too.
    ///
    /// # Errors
    /// Description of the invalid value.
    pub fn parse(text: &[u8]) -> Result<Self, &'static str> {
        let Some((last, text)) = text.split_last() else { return Ok(Self::default()) };
        if *last != 0 {
            return Err("its capabilities don't end with a NUL");
        }
        // The parser refuses nesting deeper than 128.
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
