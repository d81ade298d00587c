//! Byteway's vendor-specific NVMe extensions: transfer methods for small payloads, a payload sink, and command sets.
//!
//! A drive announces what it offers in the vendor bytes of Identify Controller ([`Capabilities`]). A host enables what
//! it wants per queue with Set Features ([`fid::PAYLOAD_METHODS`](super::fid::PAYLOAD_METHODS), [`Methods`]). Until
//! then, and after every reset, the drive is a plain NVMe drive.
//!
//! | file | what |
//! |---|---|
//! | [`mod@capability`] | [`Capabilities`], [`Methods`] |
//! | [`mod@sink`] | [`Sink`]: commands of the payload sink |
//! | [`mod@inline`] | [`Framing`], [`InlineSlots`], [`Chunk`]: payload in a submission queue; [`ResultSlot`]: in a completion queue |
//! | [`mod@piggyback`] | payload in command fields: [`piggyback::Head`], [`piggyback::Piece`] |
//! | [`mod@kv`] | commands for KV namespaces: Store by piggyback, bulk stores, iterators |
//! | [`mod@cxl`] | payload in device memory; placement of values in the page buffer |
//! | [`mod@pace`] | pace of a drive that is served in real time |
//! | [`mod@raw_flash`] | the flash array itself, for a translation layer that runs elsewhere |
//! | [`mod@csd`] | tables in the drive, and queries over them |
//! | [`mod@collection`] | garbage collection windows, so that several drives collect at the same time |
//! | [`mod@loans`] | revoking the work of peers for a drive |
//! | [`mod@commit`] | key-value pairs stored without a command, by records in device memory |
//!
//! **Data pointers** that these extensions add, all with PSDT 01b:
//!
//! | SGL descriptor | location of the payload |
//! |---|---|
//! | data block (0h), sub-type offset (1h), address 0, length n | the next ceil(n / 64) entries of the same queue: [`Framing`] |
//! | vendor (Fh), sub-type 1h, address = payload identifier, length n | chunks, in any order, in any queue: [`Chunk`] |
//! | vendor (Fh), sub-type 2h, address = offset, length n | the buffer after BAR0's registers |
//! | vendor (Fh), sub-type 3h, address = device address, length n | device memory: [`cxl::InDeviceMemory`] |
//!
//! With [`Methods::inline_tail`], the last CDW3 bytes of a command's payload follow the command in the same way, and
//! the data pointer describes what precedes them. If nothing does, this is ByteExpress's own encoding (ByteExpress
//! 3.3.1: the data pointer is unchanged, a reserved field holds the length). A Store to a KV namespace has its key in
//! CDW3, so the length is in CDW13 ([`Framing::of_store`]).

pub mod capability;
pub mod collection;
pub mod commit;
pub mod csd;
pub mod cxl;
pub mod inline;
pub mod kv;
pub mod loans;
pub mod pace;
pub mod piggyback;
pub mod raw_flash;
pub mod sink;

pub use capability::{Capabilities, Extension, Methods};
pub use inline::{Chunk, Framing, InlineSlots, ResultSlot};
pub use sink::Sink;

use super::sgl::{SglDescriptor, SglSubType, SglType};

/// Sub-type 1h of the vendor descriptor: payload in chunks.
pub const SUB_TYPE_REASSEMBLED: SglSubType = SglSubType(0x1);
/// Sub-type 2h of the vendor descriptor: payload in the buffer in BAR0.
pub const SUB_TYPE_BAR: SglSubType = SglSubType(0x2);
/// Sub-type 3h of the vendor descriptor: payload in device memory.
pub const SUB_TYPE_DEVICE_MEMORY: SglSubType = SglSubType(0x3);

/// A payload of `length` bytes in the entries after the command.
pub const fn inline_descriptor(length: u32) -> SglDescriptor {
    SglDescriptor::data_block_offset(0, length)
}

/// Payload `id` of `length` bytes, in chunks.
pub const fn reassembled_descriptor(id: u16, length: u32) -> SglDescriptor {
    SglDescriptor::new(SglType::VENDOR, SUB_TYPE_REASSEMBLED, id as u64, length)
}

/// A payload of `length` bytes at `offset` of the buffer in BAR0.
pub const fn bar_descriptor(offset: u64, length: u32) -> SglDescriptor {
    SglDescriptor::new(SglType::VENDOR, SUB_TYPE_BAR, offset, length)
}
