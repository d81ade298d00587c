//! Features: identifiers, value dwords, and asynchronous events.

use bitfield_struct::bitfield;

use super::{SetFeatures, lid};

/// Feature identifiers (NVMe Base 2.1, 5.1.25.1). Codes from C0h on are the vendor's.
pub mod fid {
    /// Arbitration.
    pub const ARBITRATION: u8 = 0x01;
    /// Power Management.
    pub const POWER_MANAGEMENT: u8 = 0x02;
    /// LBA Range Type.
    pub const LBA_RANGE_TYPE: u8 = 0x03;
    /// Temperature Threshold.
    pub const TEMPERATURE_THRESHOLD: u8 = 0x04;
    /// Error Recovery.
    pub const ERROR_RECOVERY: u8 = 0x05;
    /// Volatile Write Cache.
    pub const VOLATILE_WRITE_CACHE: u8 = 0x06;
    /// Number of Queues.
    pub const NUMBER_OF_QUEUES: u8 = 0x07;
    /// Interrupt Coalescing.
    pub const INTERRUPT_COALESCING: u8 = 0x08;
    /// Interrupt Vector Configuration.
    pub const INTERRUPT_VECTOR_CONFIGURATION: u8 = 0x09;
    /// Write Atomicity Normal.
    pub const WRITE_ATOMICITY: u8 = 0x0A;
    /// Asynchronous Event Configuration.
    pub const ASYNC_EVENT_CONFIGURATION: u8 = 0x0B;
    /// Autonomous Power State Transition.
    pub const AUTONOMOUS_POWER_STATE_TRANSITION: u8 = 0x0C;
    /// Host Memory Buffer.
    pub const HOST_MEMORY_BUFFER: u8 = 0x0D;
    /// Timestamp.
    pub const TIMESTAMP: u8 = 0x0E;
    /// Keep Alive Timer.
    pub const KEEP_ALIVE_TIMER: u8 = 0x0F;
    /// Host Controlled Thermal Management.
    pub const HOST_CONTROLLED_THERMAL_MANAGEMENT: u8 = 0x10;
    /// Non-Operational Power State Config.
    pub const NON_OPERATIONAL_POWER_STATE: u8 = 0x11;
    /// Read Recovery Level Config.
    pub const READ_RECOVERY_LEVEL: u8 = 0x12;
    /// Predictable Latency Mode Config.
    pub const PREDICTABLE_LATENCY_MODE: u8 = 0x13;
    /// Predictable Latency Mode Window.
    pub const PREDICTABLE_LATENCY_WINDOW: u8 = 0x14;
    /// Host Behavior Support.
    pub const HOST_BEHAVIOR_SUPPORT: u8 = 0x16;
    /// Sanitize Config.
    pub const SANITIZE: u8 = 0x17;
    /// Endurance Group Event Configuration.
    pub const ENDURANCE_GROUP_EVENT: u8 = 0x18;
    /// I/O Command Set Profile.
    pub const COMMAND_SET_PROFILE: u8 = 0x19;
    /// Spinup Control.
    pub const SPINUP_CONTROL: u8 = 0x1A;
    /// Power Loss Signaling Config.
    pub const POWER_LOSS_SIGNALING: u8 = 0x1B;
    /// Performance Characteristics.
    pub const PERFORMANCE_CHARACTERISTICS: u8 = 0x1C;
    /// Flexible Data Placement.
    pub const FLEXIBLE_DATA_PLACEMENT: u8 = 0x1D;
    /// Flexible Data Placement Events.
    pub const FLEXIBLE_DATA_PLACEMENT_EVENTS: u8 = 0x1E;
    /// Namespace Admin Label.
    pub const NAMESPACE_ADMIN_LABEL: u8 = 0x1F;
    /// Key Value Configuration.
    pub const KEY_VALUE_CONFIGURATION: u8 = 0x20;
    /// Controller Data Queue.
    pub const CONTROLLER_DATA_QUEUE: u8 = 0x21;
    /// Enhanced Controller Metadata.
    pub const ENHANCED_CONTROLLER_METADATA: u8 = 0x7D;
    /// Controller Metadata.
    pub const CONTROLLER_METADATA: u8 = 0x7E;
    /// Namespace Metadata.
    pub const NAMESPACE_METADATA: u8 = 0x7F;
    /// Software Progress Marker.
    pub const SOFTWARE_PROGRESS_MARKER: u8 = 0x80;
    /// Host Identifier.
    pub const HOST_IDENTIFIER: u8 = 0x81;
    /// Reservation Notification Mask.
    pub const RESERVATION_NOTIFICATION_MASK: u8 = 0x82;
    /// Reservation Persistence.
    pub const RESERVATION_PERSISTENCE: u8 = 0x83;
    /// Namespace Write Protection Config.
    pub const NAMESPACE_WRITE_PROTECTION: u8 = 0x84;
    /// The first of the vendor specific features.
    pub const VENDOR: u8 = 0xC0;
    /// Byteway's own: transfer methods enabled for a queue ([`Methods`](crate::nvme::vendor::Methods)).
    pub const PAYLOAD_METHODS: u8 = 0xC0;
    /// Byteway's own: garbage collection windows
    /// ([`CollectionWindow`](crate::nvme::vendor::collection::CollectionWindow)).
    pub const COLLECTION_WINDOW: u8 = 0xC1;
    /// Byteway's own: peers that work for a drive ([`Loans`](crate::nvme::vendor::loans::Loans)).
    pub const LOANS: u8 = 0xC2;
}

/// Arbitration, feature 01h (NVMe Base 2.1, 5.1.25.1.1).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Arbitration {
    /// Arbitration Burst: 2^AB commands at a time from one queue, 7 for no limit.
    #[bits(3)]
    pub ab: u8,
    #[bits(5)]
    __: u8,
    /// Low Priority Weight, zero-based.
    pub lpw_z: u8,
    /// Medium Priority Weight, zero-based.
    pub mpw_z: u8,
    /// High Priority Weight, zero-based.
    pub hpw_z: u8,
}

impl Arbitration {
    /// Commands in one burst; `None`: no limit.
    pub const fn burst(self) -> Option<u32> {
        if self.ab() == 0b111 { None } else { Some(1 << self.ab()) }
    }
}

/// Power Management, feature 02h (NVMe Base 2.1, 5.1.25.1.2).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct PowerManagement {
    /// Power State.
    #[bits(5)]
    pub ps: u8,
    /// Workload Hint.
    #[bits(3)]
    pub wh: u8,
    #[bits(24)]
    __: u32,
}

/// Temperature Threshold, feature 04h (NVMe Base 2.1, 5.1.25.1.3).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct TemperatureThreshold {
    /// Temperature Threshold in kelvins.
    pub tmpth: u16,
    /// Threshold Temperature Select: 0 composite, 1-8 a sensor, Fh all (Set only).
    #[bits(4)]
    pub tmpsel: u8,
    /// Threshold Type Select: 0 over, 1 under.
    #[bits(2)]
    pub thsel: u8,
    /// Temperature Threshold Hysteresis in kelvins.
    #[bits(3)]
    pub tmpthh: u8,
    #[bits(7)]
    __: u8,
}

/// Error Recovery, feature 05h (NVM Command Set 1.1, 4.1.3.2).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct ErrorRecovery {
    /// Time Limited Error Recovery in units of 100 ms, 0 for no limit.
    pub tler: u16,
    /// Deallocated or Unwritten Logical Block Error Enable.
    pub dulbe: bool,
    #[bits(15)]
    __: u16,
}

/// Volatile Write Cache, feature 06h (NVMe Base 2.1, 5.1.25.1.4).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct VolatileWriteCache {
    /// Volatile Write Cache Enable.
    pub wce: bool,
    #[bits(31)]
    __: u32,
}

/// Number of Queues, feature 07h (NVMe Base 2.1, 5.1.25.2.1): requested in the command, granted in the result.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct NumberOfQueues {
    /// Number of I/O submission queues, zero-based; FFFFh is invalid.
    pub nsq_z: u16,
    /// Number of I/O completion queues, zero-based; FFFFh is invalid.
    pub ncq_z: u16,
}

/// Interrupt Coalescing, feature 08h (NVMe Base 2.1, 5.1.25.2.2). The admin queue is never coalesced.
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct InterruptCoalescing {
    /// Aggregation Threshold in completions, zero-based.
    pub thr_z: u8,
    /// Aggregation Time in units of 100 us, 0 for no delay.
    pub time: u8,
    __: u16,
}

/// Interrupt Vector Configuration, feature 09h (NVMe Base 2.1, 5.1.25.2.3).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct InterruptVectorConfiguration {
    /// Interrupt Vector.
    pub iv: u16,
    /// Coalescing Disable.
    pub cd: bool,
    #[bits(15)]
    __: u16,
}

/// Asynchronous Event Configuration, feature 0Bh (NVMe Base 2.1, 5.1.25.1.5).
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct AsyncEventConfig {
    /// SMART / Health Critical Warnings: a bit for each bit of the log's critical warning.
    pub smart: u8,
    /// Namespace Attribute Notices.
    pub namespace_attribute: bool,
    /// Firmware Activation Notices.
    pub firmware_activation: bool,
    /// Telemetry Log Notices.
    pub telemetry_log: bool,
    /// Asymmetric Namespace Access Change Notices.
    pub ana_change: bool,
    /// Predictable Latency Event Aggregate Log Change Notices.
    pub predictable_latency: bool,
    /// LBA Status Information Notices.
    pub lba_status: bool,
    /// Endurance Group Event Aggregate Log Change Notices.
    pub endurance_group: bool,
    /// Normal NVM Subsystem Shutdown.
    pub subsystem_shutdown: bool,
    #[bits(15)]
    __: u16,
    /// Discovery Log Page Change Notification, of Discovery controllers.
    pub discovery_log_change: bool,
}

/// Timestamp, feature 0Eh, 8 bytes (NVMe Base 2.1, 5.1.25.1.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamp {
    /// Milliseconds since 1970 if the host has set it, otherwise since the controller was reset; 48 bits.
    pub milliseconds: u64,
    /// Timestamp Origin, 3 bits: see the constants.
    pub origin: u8,
    /// Synch: counting may have paused since it was set.
    pub may_have_stopped: bool,
}

impl Timestamp {
    /// Origin: cleared by a controller level reset.
    pub const CLEARED: u8 = 0;
    /// Origin: set by Set Features.
    pub const SET: u8 = 1;

    /// Encodes the data.
    pub fn to_bytes(&self) -> [u8; 8] {
        let attributes = u64::from(self.may_have_stopped) | u64::from(self.origin & 0b111) << 1;
        (self.milliseconds & 0xFFFF_FFFF_FFFF | attributes << 48).to_le_bytes()
    }

    /// Decodes the data; reserved bits are dropped.
    pub fn from_bytes(bytes: &[u8; 8]) -> Timestamp {
        let word = u64::from_le_bytes(*bytes);
        Timestamp {
            milliseconds: word & 0xFFFF_FFFF_FFFF,
            origin: (word >> 49 & 0b111) as u8,
            may_have_stopped: word >> 48 & 1 != 0,
        }
    }
}

/// Host Memory Buffer, feature 0Dh (NVMe Base 2.1, 5.1.25.2.4): dwords 11 to 15 of Set Features; dword 0 and 4096 bytes
/// of data of Get Features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostMemoryBuffer {
    /// Enable Host Memory.
    pub is_enabled: bool,
    /// Memory Return: the memory was used before a reset, and has kept its contents.
    pub is_returned: bool,
    /// Host Memory Buffer Size, in memory pages of CC.MPS.
    pub pages: u32,
    /// Host Memory Descriptor List Address, aligned to 16 bytes.
    pub list: u64,
    /// Number of entries in that list.
    pub entries: u32,
}

impl HostMemoryBuffer {
    /// Bytes of the data of Get Features.
    pub const BYTES: usize = 4096;

    /// The fields of a Set Features.
    pub const fn parse(command: &SetFeatures) -> HostMemoryBuffer {
        HostMemoryBuffer {
            is_enabled: command.cdw11 & 1 != 0,
            is_returned: command.cdw11 & 2 != 0,
            pages: command.cdw12,
            list: command.cdw13 as u64 & !0xF | (command.cdw14 as u64) << 32,
            entries: command.cdw15,
        }
    }

    /// The Set Features command with these fields.
    pub fn command(&self) -> SetFeatures {
        SetFeatures {
            fid: fid::HOST_MEMORY_BUFFER,
            cdw11: u32::from(self.is_enabled) | u32::from(self.is_returned) << 1,
            cdw12: self.pages,
            cdw13: self.list as u32,
            cdw14: (self.list >> 32) as u32,
            cdw15: self.entries,
            ..SetFeatures::default()
        }
    }

    /// Dword 0 of the completion of Get Features.
    pub const fn dword(&self) -> u32 {
        self.is_enabled as u32
    }

    /// The data of Get Features: size, address and entries of the list; the rest is zero.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.pages.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.list.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.entries.to_le_bytes());
        bytes
    }
}

/// An entry of the Host Memory Descriptor List (NVMe Base 2.1, 5.1.25.2.4): a run of the host's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostBufferEntry {
    /// Address, aligned to a memory page.
    pub address: u64,
    /// Size in memory pages.
    pub pages: u32,
}

impl HostBufferEntry {
    /// Bytes of an entry.
    pub const BYTES: usize = 16;

    /// Encodes the entry.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.pages.to_le_bytes());
        bytes
    }

    /// Decodes an entry; reserved bytes are dropped.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> HostBufferEntry {
        let [a, b, c, d, e, f, g, h, i, j, k, l, ..] = *bytes;
        HostBufferEntry {
            address: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            pages: u32::from_le_bytes([i, j, k, l]),
        }
    }
}

/// Host Behavior Support, feature 16h, 512 bytes (NVMe Base 2.1, 5.1.25.1.14): what the host supports.
///
/// A field of one byte is 0 or 1; other values are reserved and kept as received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostBehavior {
    /// Advanced Command Retry Enable: completions may name a Command Retry Delay.
    pub acre: u8,
    /// Extended Telemetry Data Area 4 Supported.
    pub etdas: u8,
    /// LBA Format Extension Enable: more than 16 LBA formats.
    pub lbafee: u8,
    /// Host Dispersed Namespace Support.
    pub hdisns: u8,
    /// Copy Descriptor Formats Enable: bit n for format n, of the formats from 2h on.
    pub cdfe: u16,
}

impl HostBehavior {
    /// Bytes of the structure.
    pub const BYTES: usize = 512;

    /// Encodes the data.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&[self.acre, self.etdas, self.lbafee, self.hdisns]);
        bytes[4..6].copy_from_slice(&self.cdfe.to_le_bytes());
        bytes
    }

    /// Decodes the data; reserved bytes are dropped.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> HostBehavior {
        let [acre, etdas, lbafee, hdisns, low, high, ..] = *bytes;
        HostBehavior { acre, etdas, lbafee, hdisns, cdfe: u16::from_le_bytes([low, high]) }
    }
}

/// Namespace Write Protection Config, feature 84h: bits 2:0 of dword 11 and of the result (NVMe Base 2.1, 5.1.25.1.32).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteProtection {
    /// 0: no write protection.
    #[default]
    None,
    /// 1: protected until the host lifts it.
    Protected,
    /// 2: protected until the next power cycle.
    UntilPowerCycle,
    /// 3: protected permanently.
    Permanent,
}

impl WriteProtection {
    /// The state with this code; `None` if it is reserved. Bits from 3 on are ignored.
    pub const fn from_bits(bits: u32) -> Option<WriteProtection> {
        match bits & 0b111 {
            0 => Some(WriteProtection::None),
            1 => Some(WriteProtection::Protected),
            2 => Some(WriteProtection::UntilPowerCycle),
            3 => Some(WriteProtection::Permanent),
            _ => None,
        }
    }

    /// The feature's value.
    pub const fn bits(self) -> u32 {
        self as u32
    }
}

/// Asynchronous Event Type, 3 bits (NVMe Base 2.1, 5.1.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AsyncEventType(pub u8);

impl AsyncEventType {
    /// Error event.
    pub const ERROR: AsyncEventType = AsyncEventType(0);
    /// SMART / health status event.
    pub const SMART: AsyncEventType = AsyncEventType(1);
    /// Notice event.
    pub const NOTICE: AsyncEventType = AsyncEventType(2);
    /// Immediate event.
    pub const IMMEDIATE: AsyncEventType = AsyncEventType(3);
    /// I/O command specific event.
    pub const COMMAND_SET: AsyncEventType = AsyncEventType(6);
    /// Vendor specific event.
    pub const VENDOR: AsyncEventType = AsyncEventType(7);
}

/// An asynchronous event: dword 0 of the completion of an Asynchronous Event Request (NVMe Base 2.1, 5.1.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AsyncEvent {
    /// Event type. No other event of this type is reported until the log page is read.
    pub event_type: AsyncEventType,
    /// Event information, within the type.
    pub info: u8,
    /// The log page with details; reading it clears the event.
    pub lid: u8,
}

impl AsyncEvent {
    /// Error: a write to a doorbell of a nonexistent queue.
    pub const INVALID_DOORBELL_REGISTER: AsyncEvent = AsyncEvent::error(0);
    /// Error: a doorbell value out of range, or equal to the previous one.
    pub const INVALID_DOORBELL_VALUE: AsyncEvent = AsyncEvent::error(1);
    /// Error: diagnostic failure.
    pub const DIAGNOSTIC_FAILURE: AsyncEvent = AsyncEvent::error(2);
    /// Error: persistent internal error.
    pub const PERSISTENT_INTERNAL_ERROR: AsyncEvent = AsyncEvent::error(3);
    /// Error: transient internal error.
    pub const TRANSIENT_INTERNAL_ERROR: AsyncEvent = AsyncEvent::error(4);
    /// Error: firmware image load error.
    pub const FIRMWARE_IMAGE_LOAD_ERROR: AsyncEvent = AsyncEvent::error(5);
    /// SMART: the subsystem's reliability is degraded.
    pub const RELIABILITY_DEGRADED: AsyncEvent = AsyncEvent::smart(0);
    /// SMART: a temperature is over or under its threshold.
    pub const TEMPERATURE_THRESHOLD: AsyncEvent = AsyncEvent::smart(1);
    /// SMART: available spare is below its threshold.
    pub const SPARE_BELOW_THRESHOLD: AsyncEvent = AsyncEvent::smart(2);
    /// Notice: a namespace was changed.
    pub const NAMESPACE_ATTRIBUTE_CHANGED: AsyncEvent =
        AsyncEvent { event_type: AsyncEventType::NOTICE, info: 0, lid: lid::CHANGED_NAMESPACE_LIST };
    /// Notice: Asymmetric Namespace Access Change, the state of an ANA group has changed for this controller.
    pub const ANA_CHANGE: AsyncEvent =
        AsyncEvent { event_type: AsyncEventType::NOTICE, info: 3, lid: lid::ANA };
    /// Notice: Discovery Log Page Change, of a Discovery controller.
    pub const DISCOVERY_LOG_CHANGE: AsyncEvent =
        AsyncEvent { event_type: AsyncEventType::NOTICE, info: 0xF0, lid: lid::DISCOVERY };
    /// Notice: firmware activation begins.
    pub const FIRMWARE_ACTIVATION_STARTING: AsyncEvent =
        AsyncEvent { event_type: AsyncEventType::NOTICE, info: 1, lid: lid::FIRMWARE_SLOT };

    /// I/O command specific: a sanitize operation has ended, successfully or not.
    pub const SANITIZE_COMPLETED: AsyncEvent =
        AsyncEvent { event_type: AsyncEventType::COMMAND_SET, info: 1, lid: lid::SANITIZE_STATUS };

    /// Byteway's own: fetching from a submission queue has stopped, because a command in it announced more inline
    /// payload than possible. The error log names the command.
    pub const QUEUE_BROKEN: AsyncEvent =
        AsyncEvent { event_type: AsyncEventType::VENDOR, info: 0, lid: lid::ERROR_INFORMATION };

    /// Byteway's own: the drive has started garbage collection outside a window, because free superblocks are few.
    pub const COLLECTION_BEGUN: AsyncEvent =
        AsyncEvent { event_type: AsyncEventType::VENDOR, info: 1, lid: lid::COLLECTION };

    const fn error(info: u8) -> AsyncEvent {
        AsyncEvent { event_type: AsyncEventType::ERROR, info, lid: lid::ERROR_INFORMATION }
    }

    const fn smart(info: u8) -> AsyncEvent {
        AsyncEvent { event_type: AsyncEventType::SMART, info, lid: lid::SMART }
    }

    /// Dword 0 of the completion.
    pub const fn dw0(self) -> u32 {
        (self.event_type.0 & 0b111) as u32 | (self.info as u32) << 8 | (self.lid as u32) << 16
    }

    /// Decodes dword 0 of a completion.
    pub const fn from_dw0(dw0: u32) -> AsyncEvent {
        AsyncEvent {
            event_type: AsyncEventType((dw0 & 0b111) as u8),
            info: (dw0 >> 8) as u8,
            lid: (dw0 >> 16) as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a host would set another weight, threshold or vector than intended.
    #[test]
    fn bits_are_where_the_specification_says() {
        let arbitration = Arbitration::from_bits(0x0403_0207);
        assert_eq!((arbitration.lpw_z(), arbitration.mpw_z(), arbitration.hpw_z()), (2, 3, 4));
        assert_eq!(arbitration.burst(), None);
        assert_eq!(Arbitration::new().with_ab(3).burst(), Some(8));
        assert_eq!(NumberOfQueues::new().with_nsq_z(7).with_ncq_z(8).into_bits(), 0x0008_0007);
        assert_eq!(InterruptCoalescing::new().with_thr_z(9).with_time(2).into_bits(), 0x0209);
        assert_eq!(InterruptVectorConfiguration::new().with_iv(3).with_cd(true).into_bits(), 0x0001_0003);
        assert_eq!(TemperatureThreshold::new().with_tmpth(300).with_thsel(1).into_bits(), 300 | 1 << 20);
        assert_eq!(ErrorRecovery::new().with_dulbe(true).into_bits(), 1 << 16);
        assert_eq!(AsyncEventConfig::new().with_namespace_attribute(true).with_smart(1).into_bits(), 0x101);
        let timestamp =
            Timestamp { milliseconds: 0x0102_0304_0506, origin: Timestamp::SET, may_have_stopped: true };
        assert_eq!(timestamp.to_bytes(), [6, 5, 4, 3, 2, 1, 3, 0]);
        assert_eq!(Timestamp::from_bytes(&timestamp.to_bytes()), timestamp);
        let behavior = HostBehavior { acre: 1, etdas: 2, lbafee: 3, hdisns: 4, cdfe: 0x0605 };
        assert_eq!(behavior.to_bytes()[..8], [1, 2, 3, 4, 5, 6, 0, 0]);
        assert_eq!(HostBehavior::from_bytes(&behavior.to_bytes()), behavior);
        assert_eq!(AsyncEventConfig::new().with_subsystem_shutdown(true).into_bits(), 1 << 15);
        assert_eq!(AsyncEventConfig::new().with_discovery_log_change(true).into_bits(), 1 << 31);
        assert_eq!(PowerManagement::new().with_wh(1).into_bits(), 1 << 5);
    }

    /// Without this a host would read the wrong log page and never clear the event.
    #[test]
    fn an_event_names_its_log_page() {
        assert_eq!(AsyncEvent::INVALID_DOORBELL_VALUE.dw0(), 0x0001_0100);
        assert_eq!(AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED.dw0(), 0x0004_0002);
        assert_eq!(AsyncEvent::from_dw0(0x0002_0101), AsyncEvent::TEMPERATURE_THRESHOLD);
    }
}
