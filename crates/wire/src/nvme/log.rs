//! Log pages: their identifiers and the structures that Get Log Page returns.

use core::fmt;

use zerocopy::little_endian::{U16, U128};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::{Status, assert_offsets};

/// Log page identifiers (NVMe Base 2.1, 5.1.12.1). Codes from C0h on are the vendor's.
pub mod lid {
    /// Supported Log Pages.
    pub const SUPPORTED_LOG_PAGES: u8 = 0x00;
    /// Error Information.
    pub const ERROR_INFORMATION: u8 = 0x01;
    /// SMART / Health Information.
    pub const SMART: u8 = 0x02;
    /// Firmware Slot Information.
    pub const FIRMWARE_SLOT: u8 = 0x03;
    /// Changed Attached Namespace List.
    pub const CHANGED_NAMESPACE_LIST: u8 = 0x04;
    /// Commands Supported and Effects.
    pub const COMMANDS_SUPPORTED: u8 = 0x05;
    /// Device Self-test.
    pub const DEVICE_SELF_TEST: u8 = 0x06;
    /// Telemetry Host-Initiated.
    pub const TELEMETRY_HOST: u8 = 0x07;
    /// Telemetry Controller-Initiated.
    pub const TELEMETRY_CONTROLLER: u8 = 0x08;
    /// Endurance Group Information.
    pub const ENDURANCE_GROUP: u8 = 0x09;
    /// Predictable Latency Per NVM Set.
    pub const PREDICTABLE_LATENCY: u8 = 0x0A;
    /// Predictable Latency Event Aggregate.
    pub const PREDICTABLE_LATENCY_AGGREGATE: u8 = 0x0B;
    /// Asymmetric Namespace Access.
    pub const ANA: u8 = 0x0C;
    /// Persistent Event Log.
    pub const PERSISTENT_EVENT: u8 = 0x0D;
    /// LBA Status Information.
    pub const LBA_STATUS: u8 = 0x0E;
    /// Endurance Group Event Aggregate.
    pub const ENDURANCE_GROUP_AGGREGATE: u8 = 0x0F;
    /// Media Unit Status.
    pub const MEDIA_UNIT_STATUS: u8 = 0x10;
    /// Supported Capacity Configuration List.
    pub const SUPPORTED_CAPACITY: u8 = 0x11;
    /// Feature Identifiers Supported and Effects.
    pub const FEATURES_SUPPORTED: u8 = 0x12;
    /// NVMe-MI Commands Supported and Effects.
    pub const NVME_MI_COMMANDS_SUPPORTED: u8 = 0x13;
    /// Command and Feature Lockdown.
    pub const LOCKDOWN: u8 = 0x14;
    /// Boot Partition.
    pub const BOOT_PARTITION: u8 = 0x15;
    /// Rotational Media Information.
    pub const ROTATIONAL_MEDIA: u8 = 0x16;
    /// FDP Configurations.
    pub const FDP_CONFIGURATIONS: u8 = 0x20;
    /// Reclaim Unit Handle Usage.
    pub const FDP_HANDLE_USAGE: u8 = 0x21;
    /// FDP Statistics.
    pub const FDP_STATISTICS: u8 = 0x22;
    /// FDP Events.
    pub const FDP_EVENTS: u8 = 0x23;
    /// Discovery.
    pub const DISCOVERY: u8 = 0x70;
    /// Reservation Notification.
    pub const RESERVATION_NOTIFICATION: u8 = 0x80;
    /// Sanitize Status.
    pub const SANITIZE_STATUS: u8 = 0x81;
    /// Programs of a namespace (Computational Programs command set).
    pub const PROGRAMS: u8 = 0x82;
    /// Types of programs that can be loaded.
    pub const PROGRAM_TYPES: u8 = 0x83;
    /// Memory range sets of a namespace.
    pub const MEMORY_RANGE_SETS: u8 = 0x84;
    /// The first of the vendor specific log pages.
    pub const VENDOR: u8 = 0xC0;
    /// Byteway's own: division of device memory ([`DeviceMemoryLog`](crate::nvme::vendor::cxl::DeviceMemoryLog)).
    pub const DEVICE_MEMORY: u8 = 0xC0;
    /// Byteway's own: pace of a served drive ([`PaceLog`](crate::nvme::vendor::pace::PaceLog)).
    pub const PACE: u8 = 0xC1;
    /// Byteway's own: state of garbage collection ([`CollectionLog`](crate::nvme::vendor::collection::CollectionLog)).
    pub const COLLECTION: u8 = 0xC2;
}

/// An entry of the Error Information log, 64 bytes (NVMe Base 2.1, 5.1.12.1.2). The newest comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ErrorLogEntry {
    /// Error Count: number of the error since manufacture, from 1; 0 marks an invalid entry.
    pub error_count: u64,
    /// Submission queue of the command; FFFFh if the error belongs to no command.
    pub sqid: u16,
    /// Identifier of the command; FFFFh if the error belongs to no command.
    pub cid: u16,
    /// Status field in bits 15:1, phase tag in bit 0, as in the completion.
    pub status_phase: u16,
    /// Parameter Error Location in the command: byte in bits 7:0 and bit in bits 10:8; FFFFh if not applicable.
    pub parameter_error_location: u16,
    /// First logical block with the error.
    pub lba: u64,
    /// Namespace.
    pub nsid: u32,
    /// Vendor-specific log page with details, 0 if none.
    pub vendor_log: u8,
    /// Transport Type.
    pub trtype: u8,
    /// Command Set Identifier.
    pub csi: u8,
    /// Opcode of the command.
    pub opcode: u8,
    /// Command specific information.
    pub command_specific: u64,
    /// Transport specific information.
    pub transport_specific: u16,
    #[doc(hidden)]
    pub reserved_42: [u8; 21],
    /// Log Page Version: 1 if `opcode` and `csi` are valid.
    pub version: u8,
}

assert_offsets!(ErrorLogEntry: 64; error_count = 0, sqid = 8, cid = 10, status_phase = 12,
    parameter_error_location = 14, lba = 16, nsid = 24, vendor_log = 28, trtype = 29, csi = 30, opcode = 31,
    command_specific = 32, transport_specific = 40, version = 63);

impl ErrorLogEntry {
    /// Bytes of an entry.
    pub const SIZE: usize = 64;
    /// `parameter_error_location` of an error in no parameter; `sqid` and `cid` of an error of no command.
    pub const NONE: u16 = u16::MAX;

    /// The status in the entry.
    pub const fn status(&self) -> Status {
        Status::from_bits(self.status_phase >> 1)
    }

    /// Sets the status, phase tag 0.
    pub const fn set_status(&mut self, status: Status) {
        self.status_phase = status.bits() << 1;
    }
}

/// The SMART / Health Information log, 512 bytes (NVMe Base 2.1, 5.1.12.1.3).
///
/// The counters are little endian and unaligned: `log.power_cycles = 3.into()`, `log.power_cycles.get()`.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SmartLog {
    /// Critical Warning, see the constants `WARNING_*`.
    pub critical_warning: u8,
    /// Composite Temperature in kelvins.
    pub composite_temperature: U16,
    /// Available Spare in percent.
    pub available_spare: u8,
    /// Available Spare Threshold in percent.
    pub available_spare_threshold: u8,
    /// Percentage Used, up to 255.
    pub percentage_used: u8,
    /// Endurance Group Critical Warning Summary.
    pub endurance_group_warning: u8,
    #[doc(hidden)]
    pub reserved_7: [u8; 25],
    /// Data Units Read: thousands of 512 bytes, rounded up.
    pub data_units_read: U128,
    /// Data Units Written: thousands of 512 bytes, rounded up.
    pub data_units_written: U128,
    /// Host Read Commands (Compare and Verify included).
    pub host_read_commands: U128,
    /// Host Write Commands.
    pub host_write_commands: U128,
    /// Controller Busy Time in minutes.
    pub controller_busy_time: U128,
    /// Power Cycles.
    pub power_cycles: U128,
    /// Power On Hours.
    pub power_on_hours: U128,
    /// Unsafe Shutdowns.
    pub unsafe_shutdowns: U128,
    /// Media and Data Integrity Errors.
    pub media_errors: U128,
    /// Number of Error Information Log Entries over the controller's life.
    pub error_log_entries: U128,
    /// Warning Composite Temperature Time in minutes.
    pub warning_temperature_time: u32,
    /// Critical Composite Temperature Time in minutes.
    pub critical_temperature_time: u32,
    /// Temperature Sensors 1-8 in kelvins, 0 if not implemented.
    pub temperature_sensors: [u16; 8],
    /// Thermal Management Temperature 1 Transition Count.
    pub thermal_1_transitions: u32,
    /// Thermal Management Temperature 2 Transition Count.
    pub thermal_2_transitions: u32,
    /// Total Time For Thermal Management Temperature 1 in seconds.
    pub thermal_1_time: u32,
    /// Total Time For Thermal Management Temperature 2 in seconds.
    pub thermal_2_time: u32,
    #[doc(hidden)]
    pub reserved_232: [u8; 280],
}

assert_offsets!(SmartLog: 512; critical_warning = 0, composite_temperature = 1, available_spare = 3,
    available_spare_threshold = 4, percentage_used = 5, endurance_group_warning = 6, data_units_read = 32,
    data_units_written = 48, host_read_commands = 64, host_write_commands = 80, controller_busy_time = 96,
    power_cycles = 112, power_on_hours = 128, unsafe_shutdowns = 144, media_errors = 160, error_log_entries = 176,
    warning_temperature_time = 192, critical_temperature_time = 196, temperature_sensors = 200,
    thermal_1_transitions = 216, thermal_2_transitions = 220, thermal_1_time = 224, thermal_2_time = 228);

impl SmartLog {
    /// Bytes of the log page.
    pub const SIZE: usize = 512;
    /// Critical warning: available spare below its threshold.
    pub const WARNING_SPARE: u8 = 1 << 0;
    /// Critical warning: a temperature over or under its threshold.
    pub const WARNING_TEMPERATURE: u8 = 1 << 1;
    /// Critical warning: reliability degraded.
    pub const WARNING_RELIABILITY: u8 = 1 << 2;
    /// Critical warning: media read only.
    pub const WARNING_READ_ONLY: u8 = 1 << 3;
    /// Critical warning: volatile memory backup failed.
    pub const WARNING_BACKUP: u8 = 1 << 4;

    /// `bytes` in data units: thousands of 512 bytes, rounded up.
    pub const fn data_units(bytes: u128) -> u128 {
        bytes.div_ceil(512_000)
    }
}

impl fmt::Debug for SmartLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmartLog")
            .field("critical_warning", &self.critical_warning)
            .field("percentage_used", &self.percentage_used)
            .field("data_units_read", &self.data_units_read.get())
            .field("data_units_written", &self.data_units_written.get())
            .field("host_read_commands", &self.host_read_commands.get())
            .field("host_write_commands", &self.host_write_commands.get())
            .field("media_errors", &self.media_errors.get())
            .field("error_log_entries", &self.error_log_entries.get())
            .finish_non_exhaustive()
    }
}

/// The Firmware Slot Information log, 512 bytes (NVMe Base 2.1, 5.1.12.1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FirmwareSlotLog {
    /// Active Firmware Info: slot in use in bits 2:0, slot after the next reset in bits 6:4.
    pub afi: u8,
    #[doc(hidden)]
    pub reserved_1: [u8; 7],
    /// Firmware Revisions of slots 1-7, ASCII.
    pub frs: [[u8; 8]; 7],
    #[doc(hidden)]
    pub reserved_64: [u8; 448],
}

assert_offsets!(FirmwareSlotLog: 512; afi = 0, frs = 8, reserved_64 = 64);

/// The Changed Attached Namespace List log, 4096 bytes (NVMe Base 2.1, 5.1.12.1.5).
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ChangedNamespaceLog {
    /// Changed namespaces, ascending, padded with zeros; the first is FFFFFFFFh if there are more than 1024.
    pub nsids: [u32; 1024],
}

assert_offsets!(ChangedNamespaceLog: 4096; nsids = 0);

/// The Commands Supported and Effects log, 4096 bytes (NVMe Base 2.1, 5.1.12.1.6).
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CommandsSupportedLog {
    /// Admin commands by opcode, see the constants and [`scope`].
    pub acs: [u32; 256],
    /// I/O commands by opcode, see the constants and [`scope`].
    pub iocs: [u32; 256],
    #[doc(hidden)]
    pub reserved_2048: [u8; 2048],
}

assert_offsets!(CommandsSupportedLog: 4096; acs = 0, iocs = 1024, reserved_2048 = 2048);

impl CommandsSupportedLog {
    /// The command is supported.
    pub const CSUPP: u32 = 1 << 0;
    /// The command may change logical block content.
    pub const LBCC: u32 = 1 << 1;
    /// The command may change namespace capabilities.
    pub const NCC: u32 = 1 << 2;
    /// The command may change the inventory of namespaces.
    pub const NIC: u32 = 1 << 3;
    /// The command may change controller capabilities.
    pub const CCC: u32 = 1 << 4;
    /// Command Submission and Execution 001b: no other command to the same namespace may be outstanding.
    pub const CSE_NAMESPACE: u32 = 0b001 << 16;
    /// Command Submission and Execution 010b: no other command to any namespace may be outstanding.
    pub const CSE_ANY: u32 = 0b010 << 16;
}

/// Scope of a command or a feature: bits of its entry in the log pages of supported commands and features. No bit set:
/// not reported.
pub mod scope {
    /// One or several namespaces.
    pub const NAMESPACE: u32 = 1 << 20;
    /// The controller.
    pub const CONTROLLER: u32 = 1 << 21;
    /// An NVM set.
    pub const NVM_SET: u32 = 1 << 22;
    /// An endurance group.
    pub const ENDURANCE_GROUP: u32 = 1 << 23;
    /// A domain.
    pub const DOMAIN: u32 = 1 << 24;
    /// The NVM subsystem.
    pub const SUBSYSTEM: u32 = 1 << 25;
}

/// The Feature Identifiers Supported and Effects log, 1024 bytes (NVMe Base 2.1, 5.1.12.1, log page 12h).
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FeaturesSupportedLog {
    /// Features by identifier, see the constants and [`scope`].
    pub fids: [u32; 256],
}

assert_offsets!(FeaturesSupportedLog: 1024; fids = 0);

impl FeaturesSupportedLog {
    /// The feature is supported.
    pub const FSUPP: u32 = 1 << 0;
    /// Setting it may change user data.
    pub const UDCC: u32 = 1 << 1;
    /// Setting it may change namespace capabilities.
    pub const NCC: u32 = 1 << 2;
    /// Setting it may change the inventory of namespaces.
    pub const NIC: u32 = 1 << 3;
    /// Setting it may change controller capabilities.
    pub const CCC: u32 = 1 << 4;
}

/// The NVMe-MI Commands Supported and Effects log, 4096 bytes (NVMe Base 2.1, 5.1.12.1, log page 13h): the management
/// commands that NVMe-MI Send and Receive carry.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct NvmeMiCommandsSupportedLog {
    /// Commands by opcode, bit 0 of those that are supported, see also [`scope`].
    pub commands: [u32; 256],
    #[doc(hidden)]
    pub reserved_1024: [u8; 3072],
}

assert_offsets!(NvmeMiCommandsSupportedLog: 4096; commands = 0, reserved_1024 = 1024);

/// The Supported Log Pages log, 1024 bytes (NVMe Base 2.1, 5.1.12.1.1).
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SupportedLogPages {
    /// Log pages by identifier, see the constants; bits 31:16 are specific to the page.
    pub lids: [u32; 256],
}

assert_offsets!(SupportedLogPages: 1024; lids = 0);

impl SupportedLogPages {
    /// The log page is supported.
    pub const LSUPP: u32 = 1 << 0;
    /// The log page takes an index as offset.
    pub const IOS: u32 = 1 << 1;
}

macro_rules! zeroed_default {
    ($($type:ty),+) => {
        $(impl Default for $type {
            /// All zeros.
            fn default() -> Self {
                Self::new_zeroed()
            }
        })+
    };
}

zeroed_default!(
    SmartLog,
    FirmwareSlotLog,
    ChangedNamespaceLog,
    CommandsSupportedLog,
    FeaturesSupportedLog,
    NvmeMiCommandsSupportedLog,
    SupportedLogPages
);

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a monitoring tool would read a counter at a wrong offset.
    #[test]
    fn smart_counters_lie_in_memory_as_the_specification_says() {
        let log = SmartLog {
            composite_temperature: 310.into(),
            power_cycles: (1_u128 << 64 | 3).into(),
            ..SmartLog::default()
        };
        let bytes = log.as_bytes();
        assert_eq!(bytes[1..3], [54, 1]);
        assert_eq!(bytes[112..128], [3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(SmartLog::read_from_bytes(bytes), Ok(log));
        assert_eq!(SmartLog::data_units(0), 0);
        assert_eq!(SmartLog::data_units(1), 1);
        assert_eq!(SmartLog::data_units(512_001), 2);
    }

    /// Without this the log would report another status than the completion did.
    #[test]
    fn an_error_entry_holds_the_completions_status() {
        let mut entry = ErrorLogEntry::default();
        entry.set_status(Status::INVALID_FIELD.with_dnr());
        assert_eq!(entry.status_phase, 0x8004);
        assert_eq!(entry.status(), Status::INVALID_FIELD.with_dnr());
    }
}
