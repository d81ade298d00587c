//! Byteway's own extensions of NVMe: ways for small payloads to cross, and a sink that takes payloads.
//!
//! A drive says what it offers in the vendor bytes of Identify Controller ([`Capabilities`]). A host enables, queue by
//! queue, what it wants of that with Set Features ([`fid::PAYLOAD_METHODS`](super::fid::PAYLOAD_METHODS),
//! [`Methods`]). Until then the drive is a plain NVMe drive, and it is one again after every reset.
//!
//! | file | what |
//! |---|---|
//! | [`mod@capability`] | [`Capabilities`], [`Methods`] |
//! | [`mod@sink`] | [`Sink`]: commands of the payload sink |
//! | [`mod@inline`] | [`Framing`], [`InlineSlots`], [`Chunk`]: payload in a submission queue; [`ResultSlot`]: in a completion queue |
//! | [`mod@piggyback`] | payload in the fields of commands: [`piggyback::Head`], [`piggyback::Piece`] |
//! | [`mod@kv`] | commands for key value namespaces: Store by piggyback, iterators |
//! | [`mod@cxl`] | payload in memory of the device; where values lie in the page buffer |
//! | [`mod@pace`] | whether a drive that is served in real time keeps to its model |
//! | [`mod@raw_flash`] | the flash array itself, for a translation layer that runs elsewhere |
//! | [`mod@collection`] | windows in which a drive collects, so that several do so at once |
//! | [`mod@loans`] | peers of a box that work for a drive |
//! | [`mod@commit`] | pairs that are stored without a command: records in memory of the device |
//!
//! **Data pointers** that these extensions add, all with PSDT 01b:
//!
//! | SGL descriptor | the payload |
//! |---|---|
//! | data block (0h), sub-type offset (1h), address 0, length n | lies in the next ceil(n / 64) entries of the same queue: [`Framing`] |
//! | vendor (Fh), sub-type 1h, address = payload identifier, length n | comes in chunks, in any order, by any queue: [`Chunk`] |
//! | vendor (Fh), sub-type 2h, address = offset, length n | lies in the buffer behind BAR0's registers |
//! | vendor (Fh), sub-type 3h, address = device address, length n | lies in the device's memory: [`cxl::InDeviceMemory`] |
//!
//! With [`Methods::inline_tail`], the last CDW3 bytes of a command's payload lie behind the command in the same way,
//! and the data pointer describes what is before them. If that is nothing, it is ByteExpress's own encoding
//! (ByteExpress 3.3.1: the data pointer stays as it is, the length stands in a reserved field). A Store to a key value
//! namespace has its key in CDW3: there the length stands in CDW13 ([`Framing::of_store`]).

pub mod capability;
pub mod collection;
pub mod commit;
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

/// Sub-type 1h of the vendor descriptor: the payload comes in chunks.
pub const SUB_TYPE_REASSEMBLED: SglSubType = SglSubType(0x1);
/// Sub-type 2h of the vendor descriptor: the payload lies in the buffer of BAR0.
pub const SUB_TYPE_BAR: SglSubType = SglSubType(0x2);
/// Sub-type 3h of the vendor descriptor: the payload lies in the device's memory.
pub const SUB_TYPE_DEVICE_MEMORY: SglSubType = SglSubType(0x3);

/// Payload in the entries behind the command: `length` bytes.
pub const fn inline_descriptor(length: u32) -> SglDescriptor {
    SglDescriptor::data_block_offset(0, length)
}

/// Payload `id` of `length` bytes, which comes in chunks.
pub const fn reassembled_descriptor(id: u16, length: u32) -> SglDescriptor {
    SglDescriptor::new(SglType::VENDOR, SUB_TYPE_REASSEMBLED, id as u64, length)
}

/// Payload of `length` bytes at `offset` of the buffer of BAR0.
pub const fn bar_descriptor(offset: u64, length: u32) -> SglDescriptor {
    SglDescriptor::new(SglType::VENDOR, SUB_TYPE_BAR, offset, length)
}
