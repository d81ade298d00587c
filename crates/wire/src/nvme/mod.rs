//! NVMe data structures (NVMe Base 2.1, NVM Command Set 1.1, Key Value Command Set 1.0), each parsed once, at the edge.
//!
//! Everything is little endian, as specified. The types hold native integers, and the crate refuses to build for a
//! big-endian machine, so no access swaps bytes.

pub mod ana;
pub mod command;
pub mod completion;
pub mod dataset;
pub mod feature;
pub mod identify;
pub mod inventory;
pub mod kv;
pub mod log;
pub mod opcode;
pub mod programs;
pub mod progress;
pub mod prp;
pub mod register;
pub mod segment;
pub mod sgl;
pub mod slm;
pub mod status;
pub mod vendor;

pub use ana::{AnaGroupDescriptor, AnaLogHeader, AnaState};
pub use command::{
    Abort, AsyncEventRequest, Copy, CreateCq, CreateSq, DatasetManagement, DeleteQueue, DeviceSelfTest,
    DoorbellBufferConfig, Flush, FormatNvm, GetFeatures, GetLogPage, Identify, KeepAlive,
    NamespaceAttachment, NamespaceManagement, QueuePriority, ReadWrite, Sanitize, Select, SetFeatures, Sqe,
    WriteZeroes,
};
pub use completion::Cqe;
pub use dataset::{CopyRange, Range};
pub use feature::{AsyncEvent, AsyncEventType, fid};
pub use identify::{
    ActiveNamespaceList, Cns, IdentifyController, IdentifyNamespace, LbaFormat, NamespaceDescriptor, csi,
};
pub use inventory::{ControllerList, GranularityList};
pub use log::{
    ChangedNamespaceLog, CommandsSupportedLog, ErrorLogEntry, FeaturesSupportedLog, FirmwareSlotLog,
    NvmeMiCommandsSupportedLog, SmartLog, SupportedLogPages, lid,
};
pub use opcode::{AdminOpcode, KvOpcode, NvmOpcode, VendorOpcode};
pub use progress::{SanitizeStatusLog, SelfTestLog, SelfTestResult};
pub use prp::{PrpError, PrpStep, PrpWalker};
pub use register::{Aqa, Cap, Cc, Csts, Doorbell, Vs};
pub use segment::Segment;
pub use sgl::{SglDescriptor, SglError, SglRules, SglStep, SglWalker};
pub use status::Status;

/// The broadcast namespace identifier (NVMe Base 2.1, 3.2.1.2).
pub const NSID_ALL: u32 = u32::MAX;

/// Fails the build unless every field is at its specified offset.
macro_rules! assert_offsets {
    ($type:ty: $bytes:expr; $($field:ident = $offset:expr),+ $(,)?) => {
        const _: () = assert!(core::mem::size_of::<$type>() == $bytes);
        $(const _: () = assert!(core::mem::offset_of!($type, $field) == $offset);)+
    };
}
pub(crate) use assert_offsets;
