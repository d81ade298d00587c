//! The status of a completed command: status code type, status code and flags.

use core::fmt;

/// The 15-bit status field of a completion (NVMe Base 2.1, 4.2.3): SC in bits 7:0, SCT in bits 10:8, CRD in bits
/// 12:11, More in bit 13, Do Not Retry in bit 14.
///
/// Two statuses are equal only if their flags are, too; [`Status::is`] compares codes only.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(u16);

const CODE: u16 = 0x07FF;
const CRD_SHIFT: u32 = 11;
const CRD: u16 = 0b11 << CRD_SHIFT;
const MORE: u16 = 1 << 13;
const DNR: u16 = 1 << 14;
const FIELD: u16 = 0x7FFF;

/// Status code type: generic command status.
pub const SCT_GENERIC: u8 = 0;
/// Status code type: command specific status.
pub const SCT_COMMAND_SPECIFIC: u8 = 1;
/// Status code type: media and data integrity errors.
pub const SCT_MEDIA: u8 = 2;
/// Status code type: path related status.
pub const SCT_PATH: u8 = 3;
/// Status code type: vendor specific.
pub const SCT_VENDOR: u8 = 7;

impl Status {
    /// The status with a code type (3 bits) and a code, no flag set.
    pub const fn new(sct: u8, sc: u8) -> Status {
        Status(((sct as u16) << 8 | sc as u16) & CODE)
    }

    /// The status in the 15 low bits of `bits`; bit 15 is ignored.
    pub const fn from_bits(bits: u16) -> Status {
        Status(bits & FIELD)
    }

    /// The 15-bit field.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Status Code Type.
    pub const fn sct(self) -> u8 {
        (self.0 >> 8 & 0b111) as u8
    }

    /// Status Code.
    pub const fn sc(self) -> u8 {
        self.0 as u8
    }

    /// SCT in bits 10:8 and SC in bits 7:0, without the flags.
    pub const fn code(self) -> u16 {
        self.0 & CODE
    }

    /// The same status without its flags.
    pub const fn without_flags(self) -> Status {
        Status(self.0 & CODE)
    }

    /// Whether both have the same code type and code, whatever their flags say.
    pub const fn is(self, other: Status) -> bool {
        self.code() == other.code()
    }

    /// Whether the command succeeded.
    pub const fn is_success(self) -> bool {
        self.code() == 0
    }

    /// Command Retry Delay: which of CRDT1-3 to wait, 0 for none.
    pub const fn crd(self) -> u8 {
        ((self.0 & CRD) >> CRD_SHIFT) as u8
    }

    /// Whether the error log has details of this command.
    pub const fn more(self) -> bool {
        self.0 & MORE != 0
    }

    /// Whether the same command would fail again if retried.
    pub const fn dnr(self) -> bool {
        self.0 & DNR != 0
    }

    /// With Command Retry Delay set to `crd` (2 bits).
    pub const fn with_crd(self, crd: u8) -> Status {
        Status(self.0 & !CRD | (crd as u16) << CRD_SHIFT & CRD)
    }

    /// With More set: the error log has an entry.
    pub const fn with_more(self) -> Status {
        Status(self.0 | MORE)
    }

    /// With Do Not Retry set.
    pub const fn with_dnr(self) -> Status {
        Status(self.0 | DNR)
    }
}

macro_rules! statuses {
    ($($name:ident = $sct:literal, $sc:literal, $text:literal;)+) => {
        impl Status {
            $(#[doc = concat!($text, ": type ", stringify!($sct), ", code ", stringify!($sc), ".")]
            pub const $name: Status = Status::new($sct, $sc);)+

            /// All named statuses, without flags.
            pub const ALL: &'static [Status] = &[$(Status::$name),+];

            /// The specification's name of the code, or the class of an unknown code.
            pub const fn name(self) -> &'static str {
                match self.without_flags() {
                    $(Status::$name => $text,)+
                    unknown if unknown.sct() == SCT_VENDOR || unknown.sc() >= 0xC0 => "Vendor Specific",
                    _ => "Reserved",
                }
            }
        }
    };
}

// NVMe Base 2.1, 4.2.3.1 to 4.2.3.4; NVM Command Set 1.1, 3.2 and following.
statuses! {
    SUCCESS = 0, 0x00, "Successful Completion";
    INVALID_OPCODE = 0, 0x01, "Invalid Command Opcode";
    INVALID_FIELD = 0, 0x02, "Invalid Field in Command";
    CID_CONFLICT = 0, 0x03, "Command ID Conflict";
    DATA_TRANSFER_ERROR = 0, 0x04, "Data Transfer Error";
    ABORTED_POWER_LOSS = 0, 0x05, "Commands Aborted due to Power Loss Notification";
    INTERNAL_ERROR = 0, 0x06, "Internal Error";
    ABORT_REQUESTED = 0, 0x07, "Command Abort Requested";
    ABORTED_SQ_DELETED = 0, 0x08, "Command Aborted due to SQ Deletion";
    ABORTED_FAILED_FUSED = 0, 0x09, "Command Aborted due to Failed Fused Command";
    ABORTED_MISSING_FUSED = 0, 0x0A, "Command Aborted due to Missing Fused Command";
    INVALID_NAMESPACE = 0, 0x0B, "Invalid Namespace or Format";
    COMMAND_SEQUENCE_ERROR = 0, 0x0C, "Command Sequence Error";
    INVALID_SGL_SEGMENT = 0, 0x0D, "Invalid SGL Segment Descriptor";
    INVALID_SGL_COUNT = 0, 0x0E, "Invalid Number of SGL Descriptors";
    DATA_SGL_LENGTH_INVALID = 0, 0x0F, "Data SGL Length Invalid";
    METADATA_SGL_LENGTH_INVALID = 0, 0x10, "Metadata SGL Length Invalid";
    SGL_TYPE_INVALID = 0, 0x11, "SGL Descriptor Type Invalid";
    INVALID_CMB = 0, 0x12, "Invalid Use of Controller Memory Buffer";
    PRP_OFFSET_INVALID = 0, 0x13, "PRP Offset Invalid";
    ATOMIC_WRITE_UNIT_EXCEEDED = 0, 0x14, "Atomic Write Unit Exceeded";
    OPERATION_DENIED = 0, 0x15, "Operation Denied";
    SGL_OFFSET_INVALID = 0, 0x16, "SGL Offset Invalid";
    HOST_IDENTIFIER_INCONSISTENT = 0, 0x18, "Host Identifier Inconsistent Format";
    KEEP_ALIVE_EXPIRED = 0, 0x19, "Keep Alive Timer Expired";
    KEEP_ALIVE_INVALID = 0, 0x1A, "Keep Alive Timeout Invalid";
    ABORTED_PREEMPT = 0, 0x1B, "Command Aborted due to Preempt and Abort";
    SANITIZE_FAILED = 0, 0x1C, "Sanitize Failed";
    SANITIZE_IN_PROGRESS = 0, 0x1D, "Sanitize In Progress";
    SGL_GRANULARITY_INVALID = 0, 0x1E, "SGL Data Block Granularity Invalid";
    COMMAND_NOT_SUPPORTED_FOR_QUEUE_IN_CMB = 0, 0x1F, "Command Not Supported for Queue in CMB";
    NAMESPACE_WRITE_PROTECTED = 0, 0x20, "Namespace is Write Protected";
    COMMAND_INTERRUPTED = 0, 0x21, "Command Interrupted";
    TRANSIENT_TRANSPORT_ERROR = 0, 0x22, "Transient Transport Error";
    PROHIBITED_BY_LOCKDOWN = 0, 0x23, "Command Prohibited by Command and Feature Lockdown";
    ADMIN_MEDIA_NOT_READY = 0, 0x24, "Admin Command Media Not Ready";
    INVALID_KEY_TAG = 0, 0x25, "Invalid Key Tag";
    HOST_DISPERSED_SUPPORT_NOT_ENABLED = 0, 0x26, "Host Dispersed Namespace Support Not Enabled";
    HOST_IDENTIFIER_NOT_INITIALIZED = 0, 0x27, "Host Identifier Not Initialized";
    INCORRECT_KEY = 0, 0x28, "Incorrect Key";
    FDP_DISABLED = 0, 0x29, "FDP Disabled";
    INVALID_PLACEMENT_HANDLE_LIST = 0, 0x2A, "Invalid Placement Handle List";
    LBA_OUT_OF_RANGE = 0, 0x80, "LBA Out of Range";
    CAPACITY_EXCEEDED = 0, 0x81, "Capacity Exceeded";
    NAMESPACE_NOT_READY = 0, 0x82, "Namespace Not Ready";
    RESERVATION_CONFLICT = 0, 0x83, "Reservation Conflict";
    FORMAT_IN_PROGRESS = 0, 0x84, "Format In Progress";
    INVALID_VALUE_SIZE = 0, 0x85, "Invalid Value Size";
    INVALID_KEY_SIZE = 0, 0x86, "Invalid Key Size";
    KEY_DOES_NOT_EXIST = 0, 0x87, "KV Key Does Not Exist";
    UNRECOVERED_ERROR = 0, 0x88, "Unrecovered Error";
    KEY_EXISTS = 0, 0x89, "Key Exists";

    COMPLETION_QUEUE_INVALID = 1, 0x00, "Completion Queue Invalid";
    INVALID_QUEUE_ID = 1, 0x01, "Invalid Queue Identifier";
    INVALID_QUEUE_SIZE = 1, 0x02, "Invalid Queue Size";
    ABORT_LIMIT_EXCEEDED = 1, 0x03, "Abort Command Limit Exceeded";
    AER_LIMIT_EXCEEDED = 1, 0x05, "Asynchronous Event Request Limit Exceeded";
    INVALID_FIRMWARE_SLOT = 1, 0x06, "Invalid Firmware Slot";
    INVALID_FIRMWARE_IMAGE = 1, 0x07, "Invalid Firmware Image";
    INVALID_INTERRUPT_VECTOR = 1, 0x08, "Invalid Interrupt Vector";
    INVALID_LOG_PAGE = 1, 0x09, "Invalid Log Page";
    INVALID_FORMAT = 1, 0x0A, "Invalid Format";
    FIRMWARE_NEEDS_CONVENTIONAL_RESET = 1, 0x0B, "Firmware Activation Requires Conventional Reset";
    INVALID_QUEUE_DELETION = 1, 0x0C, "Invalid Queue Deletion";
    FEATURE_NOT_SAVEABLE = 1, 0x0D, "Feature Identifier Not Saveable";
    FEATURE_NOT_CHANGEABLE = 1, 0x0E, "Feature Not Changeable";
    FEATURE_NOT_NAMESPACE_SPECIFIC = 1, 0x0F, "Feature Not Namespace Specific";
    FIRMWARE_NEEDS_SUBSYSTEM_RESET = 1, 0x10, "Firmware Activation Requires NVM Subsystem Reset";
    FIRMWARE_NEEDS_CONTROLLER_RESET = 1, 0x11, "Firmware Activation Requires Controller Level Reset";
    FIRMWARE_NEEDS_MAXIMUM_TIME = 1, 0x12, "Firmware Activation Requires Maximum Time Violation";
    FIRMWARE_ACTIVATION_PROHIBITED = 1, 0x13, "Firmware Activation Prohibited";
    OVERLAPPING_RANGE = 1, 0x14, "Overlapping Range";
    NAMESPACE_INSUFFICIENT_CAPACITY = 1, 0x15, "Namespace Insufficient Capacity";
    NAMESPACE_ID_UNAVAILABLE = 1, 0x16, "Namespace Identifier Unavailable";
    NAMESPACE_ALREADY_ATTACHED = 1, 0x18, "Namespace Already Attached";
    NAMESPACE_IS_PRIVATE = 1, 0x19, "Namespace Is Private";
    NAMESPACE_NOT_ATTACHED = 1, 0x1A, "Namespace Not Attached";
    THIN_PROVISIONING_NOT_SUPPORTED = 1, 0x1B, "Thin Provisioning Not Supported";
    CONTROLLER_LIST_INVALID = 1, 0x1C, "Controller List Invalid";
    SELF_TEST_IN_PROGRESS = 1, 0x1D, "Device Self-test In Progress";
    BOOT_PARTITION_WRITE_PROHIBITED = 1, 0x1E, "Boot Partition Write Prohibited";
    INVALID_CONTROLLER_ID = 1, 0x1F, "Invalid Controller Identifier";
    INVALID_SECONDARY_CONTROLLER_STATE = 1, 0x20, "Invalid Secondary Controller State";
    INVALID_CONTROLLER_RESOURCES = 1, 0x21, "Invalid Number of Controller Resources";
    INVALID_RESOURCE_ID = 1, 0x22, "Invalid Resource Identifier";
    SANITIZE_PROHIBITED_PMR = 1, 0x23, "Sanitize Prohibited While Persistent Memory Region is Enabled";
    INVALID_ANA_GROUP = 1, 0x24, "ANA Group Identifier Invalid";
    ANA_ATTACH_FAILED = 1, 0x25, "ANA Attach Failed";
    INSUFFICIENT_CAPACITY = 1, 0x26, "Insufficient Capacity";
    NAMESPACE_ATTACHMENT_LIMIT_EXCEEDED = 1, 0x27, "Namespace Attachment Limit Exceeded";
    LOCKDOWN_PROHIBITION_NOT_SUPPORTED = 1, 0x28, "Prohibition of Command Execution Not Supported";
    COMMAND_SET_NOT_SUPPORTED = 1, 0x29, "I/O Command Set Not Supported";
    COMMAND_SET_NOT_ENABLED = 1, 0x2A, "I/O Command Set Not Enabled";
    COMMAND_SET_COMBINATION_REJECTED = 1, 0x2B, "I/O Command Set Combination Rejected";
    INVALID_COMMAND_SET = 1, 0x2C, "Invalid I/O Command Set";
    IDENTIFIER_UNAVAILABLE = 1, 0x2D, "Identifier Unavailable";
    CONFLICTING_ATTRIBUTES = 1, 0x80, "Conflicting Attributes";
    INVALID_PROTECTION_INFO = 1, 0x81, "Invalid Protection Information";
    WRITE_TO_READ_ONLY_RANGE = 1, 0x82, "Attempted Write to Read Only Range";
    COMMAND_SIZE_LIMIT_EXCEEDED = 1, 0x83, "Command Size Limit Exceeded";
    INCOMPATIBLE_NAMESPACE_OR_FORMAT = 1, 0x85, "Incompatible Namespace or Format";
    FAST_COPY_NOT_POSSIBLE = 1, 0x86, "Fast Copy Not Possible";
    OVERLAPPING_IO_RANGE = 1, 0x87, "Overlapping I/O Range";
    NAMESPACE_NOT_REACHABLE = 1, 0x88, "Namespace Not Reachable";
    INSUFFICIENT_RESOURCES = 1, 0x89, "Insufficient Resources";
    INSUFFICIENT_PROGRAM_RESOURCES = 1, 0x8A, "Insufficient Program Resources";
    INVALID_MEMORY_NAMESPACE = 1, 0x8B, "Invalid Memory Namespace";
    INVALID_MEMORY_RANGE_SET = 1, 0x8C, "Invalid Memory Range Set";
    INVALID_MEMORY_RANGE_SET_ID = 1, 0x8D, "Invalid Memory Range Set Identifier";
    INVALID_PROGRAM_DATA = 1, 0x8E, "Invalid Program Data";
    INVALID_PROGRAM_INDEX = 1, 0x8F, "Invalid Program Index";
    INVALID_PROGRAM_TYPE = 1, 0x90, "Invalid Program Type";
    MEMORY_RANGES_EXCEEDED = 1, 0x91, "Maximum Memory Ranges Exceeded";
    MEMORY_RANGE_SETS_EXCEEDED = 1, 0x92, "Maximum Memory Range Sets Exceeded";
    PROGRAMS_ACTIVATED = 1, 0x93, "Maximum Programs Activated";
    PROGRAM_BYTES_EXCEEDED = 1, 0x94, "Maximum Program Bytes Exceeded";
    MEMORY_RANGE_SET_IN_USE = 1, 0x95, "Memory Range Set In Use";
    NO_PROGRAM = 1, 0x96, "No Program";
    OVERLAPPING_MEMORY_RANGES = 1, 0x97, "Overlapping Memory Ranges";
    PROGRAM_NOT_ACTIVATED = 1, 0x98, "Program Not Activated";
    PROGRAM_IN_USE = 1, 0x99, "Program In Use";
    PROGRAM_INDEX_NOT_DOWNLOADABLE = 1, 0x9A, "Program Index Not Downloadable";
    PROGRAM_TOO_BIG = 1, 0x9B, "Program Too Big";
    PROGRAM_TRAP = 1, 0xC0, "Program Stopped by its Bounds (Byteway)";
    PROGRAM_OUT_OF_FUEL = 1, 0xC1, "Program Stopped by its Limit of Instructions (Byteway)";

    WRITE_FAULT = 2, 0x80, "Write Fault";
    UNRECOVERED_READ_ERROR = 2, 0x81, "Unrecovered Read Error";
    GUARD_CHECK_ERROR = 2, 0x82, "End-to-end Guard Check Error";
    APPLICATION_TAG_CHECK_ERROR = 2, 0x83, "End-to-end Application Tag Check Error";
    REFERENCE_TAG_CHECK_ERROR = 2, 0x84, "End-to-end Reference Tag Check Error";
    COMPARE_FAILURE = 2, 0x85, "Compare Failure";
    ACCESS_DENIED = 2, 0x86, "Access Denied";
    DEALLOCATED_OR_UNWRITTEN = 2, 0x87, "Deallocated or Unwritten Logical Block";
    STORAGE_TAG_CHECK_ERROR = 2, 0x88, "End-to-end Storage Tag Check Error";

    INTERNAL_PATH_ERROR = 3, 0x00, "Internal Path Error";
    ANA_PERSISTENT_LOSS = 3, 0x01, "Asymmetric Access Persistent Loss";
    ANA_INACCESSIBLE = 3, 0x02, "Asymmetric Access Inaccessible";
    ANA_TRANSITION = 3, 0x03, "Asymmetric Access Transition";
    CONTROLLER_PATHING_ERROR = 3, 0x60, "Controller Pathing Error";
    HOST_PATHING_ERROR = 3, 0x70, "Host Pathing Error";
    ABORTED_BY_HOST = 3, 0x71, "Command Aborted By Host";
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (type {:X}h, code {:02X}h", self.name(), self.sct(), self.sc())?;
        if self.crd() != 0 {
            write!(f, ", retry delay {}", self.crd())?;
        }
        if self.more() {
            f.write_str(", more")?;
        }
        if self.dnr() {
            f.write_str(", do not retry")?;
        }
        f.write_str(")")
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a flag would be decoded as part of the code, and a retryable error as another one.
    #[test]
    fn flags_are_beside_the_code() {
        let status = Status::LBA_OUT_OF_RANGE.with_dnr().with_more().with_crd(2);
        assert_eq!(
            (status.sct(), status.sc(), status.crd(), status.more(), status.dnr()),
            (0, 0x80, 2, true, true)
        );
        assert!(status.is(Status::LBA_OUT_OF_RANGE));
        assert_ne!(status, Status::LBA_OUT_OF_RANGE);
        assert_eq!(Status::from_bits(status.bits()), status);
        assert_eq!(Status::UNRECOVERED_READ_ERROR.with_dnr().bits(), 0x4281);
        assert!(!Status::SUCCESS.with_more().dnr());
        assert!(Status::SUCCESS.with_more().is_success());
    }

    /// Without this one code could have two names.
    #[test]
    fn codes_ascend() {
        assert!(Status::ALL.windows(2).all(|pair| pair[0] < pair[1]));
    }

    /// Without this an unknown status would print as a known one, or not at all.
    #[test]
    fn text_names_code_and_flags() {
        assert_eq!(Status::SUCCESS.to_string(), "Successful Completion (type 0h, code 00h)");
        assert_eq!(
            Status::COMPARE_FAILURE.with_dnr().to_string(),
            "Compare Failure (type 2h, code 85h, do not retry)"
        );
        assert_eq!(Status::new(7, 1).name(), "Vendor Specific");
        assert_eq!(Status::new(1, 0xC5).name(), "Vendor Specific");
        assert_eq!(Status::new(4, 1).name(), "Reserved");
    }
}
