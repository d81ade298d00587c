//! Identify data structures of controllers and namespaces.
//!
//! Each structure is 4096 bytes long; fields that Byteway does not use are reserved bytes. A new one is all zeros:
//! `IdentifyController::default()`.

use core::fmt;

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::assert_offsets;

/// Controller or Namespace Structure: the data structure that an Identify requests (NVMe Base 2.1, 5.1.13.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cns(pub u8);

impl Cns {
    /// Identify Namespace, of the NVM command set.
    pub const NAMESPACE: Cns = Cns(0x00);
    /// Identify Controller.
    pub const CONTROLLER: Cns = Cns(0x01);
    /// Active namespace identifiers above the command's.
    pub const ACTIVE_NAMESPACES: Cns = Cns(0x02);
    /// Namespace Identification Descriptor list.
    pub const NAMESPACE_DESCRIPTORS: Cns = Cns(0x03);
    /// NVM Set list.
    pub const NVM_SETS: Cns = Cns(0x04);
    /// Identify Namespace of the command's I/O command set.
    pub const COMMAND_SET_NAMESPACE: Cns = Cns(0x05);
    /// Identify Controller of the command's I/O command set.
    pub const COMMAND_SET_CONTROLLER: Cns = Cns(0x06);
    /// Active namespace identifiers of the command's I/O command set.
    pub const COMMAND_SET_ACTIVE_NAMESPACES: Cns = Cns(0x07);
    /// Identify Namespace, whatever the I/O command set.
    pub const INDEPENDENT_NAMESPACE: Cns = Cns(0x08);
    /// Allocated namespace identifiers.
    pub const ALLOCATED_NAMESPACES: Cns = Cns(0x10);
    /// Identify Namespace of an allocated namespace.
    pub const ALLOCATED_NAMESPACE: Cns = Cns(0x11);
    /// Controllers attached to the namespace.
    pub const NAMESPACE_CONTROLLERS: Cns = Cns(0x12);
    /// Controllers of the subsystem.
    pub const CONTROLLERS: Cns = Cns(0x13);
    /// Primary controller capabilities.
    pub const PRIMARY_CONTROLLER: Cns = Cns(0x14);
    /// Secondary controllers.
    pub const SECONDARY_CONTROLLERS: Cns = Cns(0x15);
    /// Namespace granularity list.
    pub const NAMESPACE_GRANULARITY: Cns = Cns(0x16);
    /// UUID list.
    pub const UUID_LIST: Cns = Cns(0x17);
    /// Domain list.
    pub const DOMAIN_LIST: Cns = Cns(0x18);
    /// Endurance group list.
    pub const ENDURANCE_GROUP_LIST: Cns = Cns(0x19);
    /// Allocated namespace identifiers of the command's I/O command set.
    pub const COMMAND_SET_ALLOCATED_NAMESPACES: Cns = Cns(0x1A);
    /// Identify Namespace of an allocated namespace, of the command's I/O command set.
    pub const COMMAND_SET_ALLOCATED_NAMESPACE: Cns = Cns(0x1B);
    /// Combinations of I/O command sets.
    pub const COMMAND_SETS: Cns = Cns(0x1C);
}

/// Command Set Identifiers (NVMe Base 2.1, 3.1.4.1 and its figures). A further set has its own in its file, as
/// [`slm::CSI`](super::slm::CSI).
pub mod csi {
    /// NVM command set.
    pub const NVM: u8 = 0x00;
    /// Key Value command set.
    pub const KEY_VALUE: u8 = 0x01;
    /// Zoned Namespace command set.
    pub const ZONED: u8 = 0x02;
}

/// Bits of [`IdentifyController::oacs`].
pub mod oacs {
    /// Security Send and Receive.
    pub const SECURITY: u16 = 1 << 0;
    /// Format NVM.
    pub const FORMAT: u16 = 1 << 1;
    /// Firmware Commit and Image Download.
    pub const FIRMWARE: u16 = 1 << 2;
    /// Namespace Management and Attachment.
    pub const NAMESPACE_MANAGEMENT: u16 = 1 << 3;
    /// Device Self-test.
    pub const SELF_TEST: u16 = 1 << 4;
    /// Doorbell Buffer Config.
    pub const DOORBELL_BUFFER: u16 = 1 << 8;
}

/// Bits of [`IdentifyController::oncs`].
pub mod oncs {
    /// Compare.
    pub const COMPARE: u16 = 1 << 0;
    /// Write Uncorrectable.
    pub const WRITE_UNCORRECTABLE: u16 = 1 << 1;
    /// Dataset Management.
    pub const DATASET_MANAGEMENT: u16 = 1 << 2;
    /// Write Zeroes.
    pub const WRITE_ZEROES: u16 = 1 << 3;
    /// Save in Set Features and Select in Get Features.
    pub const SAVE: u16 = 1 << 4;
    /// Reservations.
    pub const RESERVATIONS: u16 = 1 << 5;
    /// Timestamp.
    pub const TIMESTAMP: u16 = 1 << 6;
    /// Verify.
    pub const VERIFY: u16 = 1 << 7;
    /// Copy.
    pub const COPY: u16 = 1 << 8;
    /// Copy writes are as atomic as those of a Write (NVMCSA): mandatory since NVM Command Set 1.1.
    pub const COPY_ATOMIC: u16 = 1 << 9;
}

/// Bits of [`IdentifyController::fuses`].
pub mod fuses {
    /// Compare and Write.
    pub const COMPARE_AND_WRITE: u16 = 1 << 0;
}

/// Bits of [`IdentifyController::lpa`].
pub mod lpa {
    /// SMART log for each namespace.
    pub const SMART_PER_NAMESPACE: u8 = 1 << 0;
    /// Commands Supported and Effects log.
    pub const COMMANDS_SUPPORTED: u8 = 1 << 1;
    /// Extended data: 32-bit lengths and offsets in Get Log Page.
    pub const EXTENDED: u8 = 1 << 2;
    /// The logs Supported Log Pages, Feature Identifiers Supported and Effects, NVMe-MI Commands Supported and Effects,
    /// and scopes in Commands Supported and Effects.
    pub const SUPPORTED_LOG_PAGES: u8 = 1 << 5;
}

/// Bits of [`IdentifyController::cmic`].
pub mod cmic {
    /// The NVM subsystem may have several ports.
    pub const SEVERAL_PORTS: u8 = 1 << 0;
    /// The NVM subsystem may have several controllers.
    pub const SEVERAL_CONTROLLERS: u8 = 1 << 1;
}

/// Bits of [`IdentifyController::oaes`].
pub mod oaes {
    /// Namespace Attribute Notices.
    pub const NAMESPACE_ATTRIBUTE: u32 = 1 << 8;
    /// Firmware Activation Notices.
    pub const FIRMWARE_ACTIVATION: u32 = 1 << 9;
    /// Asymmetric Namespace Access Change Notices.
    pub const ANA_CHANGE: u32 = 1 << 11;
    /// Discovery Log Page Change Notifications.
    pub const DISCOVERY_LOG_CHANGE: u32 = 1 << 31;
}

/// Bits of [`IdentifyController::ctratt`].
pub mod ctratt {
    /// Traffic Based Keep Alive: every command restarts the Keep Alive Timer.
    pub const TRAFFIC_BASED_KEEP_ALIVE: u32 = 1 << 6;
    /// Namespace granularity is reported (CNS 16h).
    pub const NAMESPACE_GRANULARITY: u32 = 1 << 7;
}

/// Bits of [`IdentifyController::sanicap`].
pub mod sanicap {
    /// Crypto erase.
    pub const CRYPTO_ERASE: u32 = 1 << 0;
    /// Block erase.
    pub const BLOCK_ERASE: u32 = 1 << 1;
    /// Overwrite.
    pub const OVERWRITE: u32 = 1 << 2;
    /// Verification.
    pub const VERIFICATION: u32 = 1 << 3;
    /// No-Deallocate Inhibited: blocks are deallocated even if the command says otherwise.
    pub const NO_DEALLOCATE_INHIBITED: u32 = 1 << 29;
    /// The media are not modified further when a sanitize operation has completed.
    pub const NOT_MODIFIED_AFTER: u32 = 0b01 << 30;
}

/// Bits of [`IdentifyController::fna`].
pub mod fna {
    /// A format applies to all namespaces.
    pub const FORMAT_ALL: u8 = 1 << 0;
    /// A secure erase applies to all namespaces.
    pub const ERASE_ALL: u8 = 1 << 1;
    /// Cryptographic erase.
    pub const CRYPTO_ERASE: u8 = 1 << 2;
    /// Format NVM does not accept the broadcast NSID.
    pub const NO_BROADCAST: u8 = 1 << 3;
}

/// Bits of [`IdentifyController::nwpc`].
pub mod nwpc {
    /// The states No Write Protect and Write Protect.
    pub const WRITE_PROTECT: u8 = 1 << 0;
    /// The state Write Protect Until Power Cycle.
    pub const UNTIL_POWER_CYCLE: u8 = 1 << 1;
    /// The state Permanent Write Protect.
    pub const PERMANENT: u8 = 1 << 2;
}

/// Bits of [`IdentifyController::sgls`].
pub mod sgls {
    /// SGLs are supported, data blocks need no alignment.
    pub const SUPPORTED: u32 = 0b01;
    /// SGLs are supported, data blocks need dword alignment and granularity.
    pub const SUPPORTED_DWORD: u32 = 0b10;
    /// Keyed data block descriptors.
    pub const KEYED: u32 = 1 << 2;
    /// Bit bucket descriptors.
    pub const BIT_BUCKET: u32 = 1 << 16;
    /// A byte-aligned contiguous metadata buffer.
    pub const METADATA_BYTE_ALIGNED: u32 = 1 << 17;
    /// Data SGLs longer than the data.
    pub const EXCESS: u32 = 1 << 18;
    /// An SGL in the metadata pointer.
    pub const METADATA_SGL: u32 = 1 << 19;
    /// An offset as address.
    pub const OFFSET: u32 = 1 << 20;
    /// Transport SGL data blocks.
    pub const TRANSPORT: u32 = 1 << 21;
}

/// Bits of [`IdentifyController::vwc`].
pub mod vwc {
    /// A volatile write cache is present.
    pub const PRESENT: u8 = 1 << 0;
    /// Flush with NSID FFFFFFFFh is not supported.
    pub const FLUSH_ALL_NO: u8 = 0b10 << 1;
    /// Flush with NSID FFFFFFFFh flushes all namespaces.
    pub const FLUSH_ALL: u8 = 0b11 << 1;
}

/// A power state descriptor of 32 bytes (NVMe Base 2.1, 5.1.13.2.1, figure "Power State Descriptor").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PowerState {
    /// Maximum Power in 0.01 W, or 0.0001 W if bit 0 of `flags` is set.
    pub mp: u16,
    #[doc(hidden)]
    pub reserved_2: u8,
    /// Bit 0 Max Power Scale, bit 1 Non-Operational State.
    pub flags: u8,
    /// Entry Latency in microseconds.
    pub enlat: u32,
    /// Exit Latency in microseconds.
    pub exlat: u32,
    /// Relative Read Throughput.
    pub rrt: u8,
    /// Relative Read Latency.
    pub rrl: u8,
    /// Relative Write Throughput.
    pub rwt: u8,
    /// Relative Write Latency.
    pub rwl: u8,
    /// Idle Power.
    pub idlp: u16,
    /// Idle Power Scale in bits 7:6.
    pub ips: u8,
    #[doc(hidden)]
    pub reserved_19: u8,
    /// Active Power.
    pub actp: u16,
    /// Active Power Scale in bits 7:6, Active Power Workload in bits 2:0.
    pub aps_apw: u8,
    #[doc(hidden)]
    pub reserved_23: [u8; 9],
}

assert_offsets!(PowerState: 32; mp = 0, flags = 3, enlat = 4, exlat = 8, rrt = 12, rwl = 15, idlp = 16, ips = 18,
    actp = 20, aps_apw = 22);

/// Identify Controller, 4096 bytes (NVMe Base 2.1, 5.1.13.2.1).
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IdentifyController {
    /// PCI Vendor ID.
    pub vid: u16,
    /// PCI Subsystem Vendor ID.
    pub ssvid: u16,
    /// Serial Number, ASCII.
    pub sn: [u8; 20],
    /// Model Number, ASCII.
    pub mn: [u8; 40],
    /// Firmware Revision, ASCII.
    pub fr: [u8; 8],
    /// Recommended Arbitration Burst, as a power of two.
    pub rab: u8,
    /// IEEE OUI Identifier, least significant byte first.
    pub ieee: [u8; 3],
    /// Controller Multi-Path I/O and Namespace Sharing Capabilities.
    pub cmic: u8,
    /// Maximum Data Transfer Size: 2^MDTS units of the smallest page, 0 for no limit.
    pub mdts: u8,
    /// Controller ID.
    pub cntlid: u16,
    /// Version, as in the register.
    pub ver: u32,
    /// RTD3 Resume Latency in microseconds.
    pub rtd3r: u32,
    /// RTD3 Entry Latency in microseconds.
    pub rtd3e: u32,
    /// Optional Asynchronous Events Supported, see [`oaes`].
    pub oaes: u32,
    /// Controller Attributes.
    pub ctratt: u32,
    /// Read Recovery Levels Supported.
    pub rrls: u16,
    /// Boot Partition Capabilities.
    pub bpcap: u8,
    #[doc(hidden)]
    pub reserved_103: u8,
    /// NVM Subsystem Shutdown Latency in microseconds.
    pub nssl: u32,
    #[doc(hidden)]
    pub reserved_108: [u8; 2],
    /// Power Loss Signaling Information.
    pub plsi: u8,
    /// Controller Type: 1 for an I/O controller.
    pub cntrltype: u8,
    /// FRU Globally Unique Identifier.
    pub fguid: [u8; 16],
    /// Command Retry Delay Time 1 in units of 100 ms.
    pub crdt1: u16,
    /// Command Retry Delay Time 2 in units of 100 ms.
    pub crdt2: u16,
    /// Command Retry Delay Time 3 in units of 100 ms.
    pub crdt3: u16,
    /// Controller Reachability Capabilities.
    pub crcap: u8,
    #[doc(hidden)]
    pub reserved_135: [u8; 118],
    /// NVM Subsystem Report.
    pub nvmsr: u8,
    /// VPD Write Cycle Information.
    pub vwci: u8,
    /// Management Endpoint Capabilities.
    pub mec: u8,
    /// Optional Admin Command Support, see [`oacs`].
    pub oacs: u16,
    /// Abort Command Limit, zero-based.
    pub acl: u8,
    /// Asynchronous Event Request Limit, zero-based.
    pub aerl: u8,
    /// Firmware Updates: slots in bits 3:1, bit 0 set if slot 1 is read only.
    pub frmw: u8,
    /// Log Page Attributes, see [`lpa`].
    pub lpa: u8,
    /// Error Log Page Entries, zero-based.
    pub elpe: u8,
    /// Number of Power States Support, zero-based.
    pub npss: u8,
    /// Admin Vendor Specific Command Configuration.
    pub avscc: u8,
    /// Autonomous Power State Transition Attributes.
    pub apsta: u8,
    /// Warning Composite Temperature Threshold in kelvins.
    pub wctemp: u16,
    /// Critical Composite Temperature Threshold in kelvins.
    pub cctemp: u16,
    /// Maximum Time for Firmware Activation in units of 100 ms.
    pub mtfa: u16,
    /// Host Memory Buffer Preferred Size in 4 KiB units.
    pub hmpre: u32,
    /// Host Memory Buffer Minimum Size in 4 KiB units.
    pub hmmin: u32,
    /// Total NVM Capacity in bytes, little endian.
    pub tnvmcap: [u8; 16],
    /// Unallocated NVM Capacity in bytes, little endian.
    pub unvmcap: [u8; 16],
    /// Replay Protected Memory Block Support.
    pub rpmbs: u32,
    /// Extended Device Self-test Time in minutes.
    pub edstt: u16,
    /// Device Self-test Options.
    pub dsto: u8,
    /// Firmware Update Granularity in 4 KiB units.
    pub fwug: u8,
    /// Keep Alive Support: granularity in units of 100 ms.
    pub kas: u16,
    /// Host Controlled Thermal Management Attributes.
    pub hctma: u16,
    /// Minimum Thermal Management Temperature in kelvins.
    pub mntmt: u16,
    /// Maximum Thermal Management Temperature in kelvins.
    pub mxtmt: u16,
    /// Sanitize Capabilities.
    pub sanicap: u32,
    /// Host Memory Buffer Minimum Descriptor Entry Size in 4 KiB units.
    pub hmminds: u32,
    /// Host Memory Maximum Descriptors Entries.
    pub hmmaxd: u16,
    /// NVM Set Identifier Maximum.
    pub nsetidmax: u16,
    /// Endurance Group Identifier Maximum.
    pub endgidmax: u16,
    /// ANA Transition Time in seconds.
    pub anatt: u8,
    /// Asymmetric Namespace Access Capabilities.
    pub anacap: u8,
    /// ANA Group Identifier Maximum.
    pub anagrpmax: u32,
    /// Number of ANA Group Identifiers.
    pub nanagrpid: u32,
    /// Persistent Event Log Size in 64 KiB units.
    pub pels: u32,
    /// Domain Identifier.
    pub did: u16,
    /// Key Per I/O Capabilities.
    pub kpioc: u8,
    #[doc(hidden)]
    pub reserved_359: u8,
    /// Maximum Processing Time for Firmware Activation Without Reset in units of 100 ms.
    pub mptfawr: u16,
    #[doc(hidden)]
    pub reserved_362: [u8; 6],
    /// Max Endurance Group Capacity in bytes, little endian.
    pub megcap: [u8; 16],
    /// Temperature Threshold Hysteresis Attributes.
    pub tmpthha: u8,
    #[doc(hidden)]
    pub reserved_385: u8,
    /// Command Quiesce Time in milliseconds.
    pub cqt: u16,
    #[doc(hidden)]
    pub reserved_388: [u8; 124],
    /// Submission Queue Entry Size: minimum in bits 3:0, maximum in bits 7:4, as powers of two (66h for 64 bytes).
    pub sqes: u8,
    /// Completion Queue Entry Size: minimum in bits 3:0, maximum in bits 7:4, as powers of two (44h for 16 bytes).
    pub cqes: u8,
    /// Maximum Outstanding Commands of one queue, 0 if not reported.
    pub maxcmd: u16,
    /// Number of Namespaces: the greatest valid namespace identifier.
    pub nn: u32,
    /// Optional NVM Command Support, see [`oncs`].
    pub oncs: u16,
    /// Fused Operation Support, see [`fuses`].
    pub fuses: u16,
    /// Format NVM Attributes.
    pub fna: u8,
    /// Volatile Write Cache, see [`vwc`].
    pub vwc: u8,
    /// Atomic Write Unit Normal in logical blocks, zero-based.
    pub awun: u16,
    /// Atomic Write Unit Power Fail in logical blocks, zero-based.
    pub awupf: u16,
    /// I/O Command Set Vendor Specific Command Configuration.
    pub icsvscc: u8,
    /// Namespace Write Protection Capabilities.
    pub nwpc: u8,
    /// Atomic Compare & Write Unit in logical blocks, zero-based.
    pub acwu: u16,
    /// Copy Descriptor Formats Supported.
    pub cdfs: u16,
    /// SGL Support, see [`sgls`].
    pub sgls: u32,
    /// Maximum Number of Allowed Namespaces.
    pub mnan: u32,
    /// Maximum Domain Namespace Attachments, little endian.
    pub maxdna: [u8; 16],
    /// Maximum I/O Controller Namespace Attachments.
    pub maxcna: u32,
    /// Optimal Aggregated Queue Depth.
    pub oaqd: u32,
    #[doc(hidden)]
    pub reserved_568: [u8; 200],
    /// NVM Subsystem NVMe Qualified Name, UTF-8, zero terminated.
    pub subnqn: [u8; 256],
    #[doc(hidden)]
    pub reserved_1024: [u8; 768],
    /// I/O Queue Command Capsule Supported Size in 16-byte units (fabrics).
    pub ioccsz: u32,
    /// I/O Queue Response Capsule Supported Size in 16-byte units (fabrics).
    pub iorcsz: u32,
    /// In Capsule Data Offset in 16-byte units (fabrics).
    pub icdoff: u16,
    /// Fabrics Controller Attributes.
    pub fcatt: u8,
    /// Maximum SGL Data Block Descriptors, 0 for no limit (fabrics).
    pub msdbd: u8,
    /// Optional Fabrics Commands Support.
    pub ofcs: u16,
    /// Discovery Controller Type.
    pub dctype: u8,
    #[doc(hidden)]
    pub reserved_1807: [u8; 241],
    /// Power State Descriptors.
    pub psd: [PowerState; 32],
    /// Vendor Specific.
    pub vs: [u8; 1024],
}

assert_offsets!(IdentifyController: 4096;
    vid = 0, ssvid = 2, sn = 4, mn = 24, fr = 64, rab = 72, ieee = 73, cmic = 76, mdts = 77, cntlid = 78, ver = 80,
    rtd3r = 84, rtd3e = 88, oaes = 92, ctratt = 96, rrls = 100, bpcap = 102, nssl = 104, plsi = 110,
    cntrltype = 111, fguid = 112, crdt1 = 128, crdt2 = 130, crdt3 = 132, crcap = 134, nvmsr = 253, vwci = 254,
    mec = 255, oacs = 256, acl = 258, aerl = 259, frmw = 260, lpa = 261, elpe = 262, npss = 263, avscc = 264,
    apsta = 265, wctemp = 266, cctemp = 268, mtfa = 270, hmpre = 272, hmmin = 276, tnvmcap = 280, unvmcap = 296,
    rpmbs = 312, edstt = 316, dsto = 318, fwug = 319, kas = 320, hctma = 322, mntmt = 324, mxtmt = 326,
    sanicap = 328, hmminds = 332, hmmaxd = 336, nsetidmax = 338, endgidmax = 340, anatt = 342, anacap = 343,
    anagrpmax = 344, nanagrpid = 348, pels = 352, did = 356, kpioc = 358, mptfawr = 360, megcap = 368,
    tmpthha = 384, cqt = 386, sqes = 512, cqes = 513, maxcmd = 514, nn = 516, oncs = 520, fuses = 522, fna = 524,
    vwc = 525, awun = 526, awupf = 528, icsvscc = 530, nwpc = 531, acwu = 532, cdfs = 534, sgls = 536, mnan = 540,
    maxdna = 544, maxcna = 560, oaqd = 564, subnqn = 768, ioccsz = 1792, iorcsz = 1796, icdoff = 1800,
    fcatt = 1802, msdbd = 1803, ofcs = 1804, dctype = 1806, psd = 2048, vs = 3072);

impl IdentifyController {
    /// The serial number without its padding.
    pub fn serial_number(&self) -> String {
        ascii_text(&self.sn)
    }

    /// The model number without its padding.
    pub fn model_number(&self) -> String {
        ascii_text(&self.mn)
    }

    /// The firmware revision without its padding.
    pub fn firmware_revision(&self) -> String {
        ascii_text(&self.fr)
    }

    /// Maximum data transfer of a command in bytes; `page_bytes_min` is that of CAP.MPSMIN. `None`: no limit, or one
    /// that exceeds 64 bits.
    pub fn transfer_bytes_max(&self, page_bytes_min: u64) -> Option<u64> {
        if self.mdts == 0 {
            return None;
        }
        1_u64.checked_shl(u32::from(self.mdts))?.checked_mul(page_bytes_min)
    }
}

impl fmt::Debug for IdentifyController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdentifyController")
            .field("mn", &self.model_number())
            .field("sn", &self.serial_number())
            .field("fr", &self.firmware_revision())
            .field("cntlid", &self.cntlid)
            .field("nn", &self.nn)
            .finish_non_exhaustive()
    }
}

/// An LBA format of 4 bytes (NVM Command Set 1.1, 4.1.5.1, figure "LBA Format Data Structure").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct LbaFormat {
    /// Metadata Size in bytes for each block.
    pub ms: u16,
    /// LBA Data Size as a power of two; 0 if the format is not available.
    pub lbads: u8,
    /// Relative Performance in bits 1:0, 0 being the best.
    pub rp: u8,
}

assert_offsets!(LbaFormat: 4; ms = 0, lbads = 2, rp = 3);

impl LbaFormat {
    /// Data bytes of a block; `None` if the format is not available, or its size exceeds 32 bits.
    pub const fn block_bytes(&self) -> Option<u32> {
        if self.lbads == 0 { None } else { 1_u32.checked_shl(self.lbads as u32) }
    }
}

/// Identify Namespace of the NVM command set, 4096 bytes (NVM Command Set 1.1, 4.1.5.1).
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IdentifyNamespace {
    /// Namespace Size in logical blocks.
    pub nsze: u64,
    /// Namespace Capacity in logical blocks.
    pub ncap: u64,
    /// Namespace Utilization in logical blocks.
    pub nuse: u64,
    /// Namespace Features, see the constants `NSFEAT_*`.
    pub nsfeat: u8,
    /// Number of LBA Formats, zero-based.
    pub nlbaf: u8,
    /// Formatted LBA Size: format index in bits 6:5 and 3:0, bit 4 set for extended blocks.
    pub flbas: u8,
    /// Metadata Capabilities.
    pub mc: u8,
    /// End-to-end Data Protection Capabilities.
    pub dpc: u8,
    /// End-to-end Data Protection Type Settings.
    pub dps: u8,
    /// Namespace Multi-path I/O and Namespace Sharing Capabilities.
    pub nmic: u8,
    /// Reservation Capabilities.
    pub rescap: u8,
    /// Format Progress Indicator.
    pub fpi: u8,
    /// Deallocate Logical Block Features: bits 2:0 what a deallocated block reads as (1 zeros), bit 3 set if Write
    /// Zeroes takes the Deallocate bit.
    pub dlfeat: u8,
    /// Namespace Atomic Write Unit Normal in logical blocks, zero-based.
    pub nawun: u16,
    /// Namespace Atomic Write Unit Power Fail in logical blocks, zero-based.
    pub nawupf: u16,
    /// Namespace Atomic Compare & Write Unit in logical blocks, zero-based.
    pub nacwu: u16,
    /// Namespace Atomic Boundary Size Normal in logical blocks, zero-based.
    pub nabsn: u16,
    /// Namespace Atomic Boundary Offset.
    pub nabo: u16,
    /// Namespace Atomic Boundary Size Power Fail in logical blocks, zero-based.
    pub nabspf: u16,
    /// Namespace Optimal I/O Boundary in logical blocks, 0 if none.
    pub noiob: u16,
    /// NVM Capacity in bytes, little endian.
    pub nvmcap: [u8; 16],
    /// Namespace Preferred Write Granularity in logical blocks, zero-based.
    pub npwg: u16,
    /// Namespace Preferred Write Alignment in logical blocks, zero-based.
    pub npwa: u16,
    /// Namespace Preferred Deallocate Granularity in logical blocks, zero-based.
    pub npdg: u16,
    /// Namespace Preferred Deallocate Alignment in logical blocks, zero-based.
    pub npda: u16,
    /// Namespace Optimal Write Size in logical blocks, zero-based.
    pub nows: u16,
    /// Maximum Single Source Range Length of Copy.
    pub mssrl: u16,
    /// Maximum Copy Length.
    pub mcl: u32,
    /// Maximum Source Range Count of Copy, zero-based.
    pub msrc: u8,
    /// Key Per I/O Status.
    pub kpios: u8,
    /// Number of Unique Attribute LBA Formats.
    pub nulbaf: u8,
    #[doc(hidden)]
    pub reserved_83: u8,
    /// Key Per I/O Data Access Alignment and Granularity.
    pub kpiodaag: u32,
    #[doc(hidden)]
    pub reserved_88: [u8; 4],
    /// ANA Group Identifier.
    pub anagrpid: u32,
    #[doc(hidden)]
    pub reserved_96: [u8; 3],
    /// Namespace Attributes: bit 0 write protected.
    pub nsattr: u8,
    /// NVM Set Identifier.
    pub nvmsetid: u16,
    /// Endurance Group Identifier.
    pub endgid: u16,
    /// Namespace Globally Unique Identifier, big endian.
    pub nguid: [u8; 16],
    /// IEEE Extended Unique Identifier, big endian.
    pub eui64: [u8; 8],
    /// LBA formats.
    pub lbaf: [LbaFormat; 64],
    /// Vendor Specific.
    pub vs: [u8; 3712],
}

assert_offsets!(IdentifyNamespace: 4096;
    nsze = 0, ncap = 8, nuse = 16, nsfeat = 24, nlbaf = 25, flbas = 26, mc = 27, dpc = 28, dps = 29, nmic = 30,
    rescap = 31, fpi = 32, dlfeat = 33, nawun = 34, nawupf = 36, nacwu = 38, nabsn = 40, nabo = 42, nabspf = 44,
    noiob = 46, nvmcap = 48, npwg = 64, npwa = 66, npdg = 68, npda = 70, nows = 72, mssrl = 74, mcl = 76, msrc = 80,
    kpios = 81, nulbaf = 82, kpiodaag = 84, anagrpid = 92, nsattr = 99, nvmsetid = 100, endgid = 102, nguid = 104,
    eui64 = 120, lbaf = 128, vs = 384);

impl IdentifyNamespace {
    /// NSFEAT: thin provisioning.
    pub const NSFEAT_THIN: u8 = 1 << 0;
    /// NSFEAT: NAWUN, NAWUPF and NACWU hold for this namespace.
    pub const NSFEAT_ATOMIC: u8 = 1 << 1;
    /// NSFEAT: Deallocated or Unwritten Logical Block errors.
    pub const NSFEAT_DULBE: u8 = 1 << 2;
    /// NSATTR: currently write protected.
    pub const NSATTR_WRITE_PROTECTED: u8 = 1 << 0;
    /// FPI: the indicator is supported; bits 6:0 are the per cent of a format that remain.
    pub const FPI_SUPPORTED: u8 = 1 << 7;
    /// NSFEAT: NPWG, NPWA, NPDG, NPDA and NOWS hold.
    pub const NSFEAT_OPTIMAL: u8 = 1 << 4;

    /// Index of the format in use, 0 to 63. Its upper bits count only if there are more than 16 formats.
    pub const fn format_index(&self) -> usize {
        let low = (self.flbas & 0xF) as usize;
        if self.nlbaf < 16 { low } else { low | ((self.flbas >> 5 & 0b11) as usize) << 4 }
    }

    /// The format in use.
    pub const fn format(&self) -> LbaFormat {
        self.lbaf[self.format_index()]
    }
}

impl fmt::Debug for IdentifyNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdentifyNamespace")
            .field("nsze", &self.nsze)
            .field("ncap", &self.ncap)
            .field("nuse", &self.nuse)
            .field("format", &self.format())
            .finish_non_exhaustive()
    }
}

/// Identify Namespace for the NVM command set (CNS 05h), 4096 bytes (NVM Command Set 1.1, 4.1.5.3).
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IdentifyNamespaceNvm {
    /// Logical Block Storage Tag Mask.
    pub lbstm: u64,
    /// Protection Information Capabilities.
    pub pic: u8,
    /// Protection Information Format Attribute.
    pub pifa: u8,
    #[doc(hidden)]
    pub reserved_10: [u8; 2],
    /// Extended LBA Formats: storage tag size in bits 6:0, protection information format in bits 8:7.
    pub elbaf: [u32; 64],
    #[doc(hidden)]
    pub reserved_268: [u8; 3828],
}

assert_offsets!(IdentifyNamespaceNvm: 4096; lbstm = 0, pic = 8, pifa = 9, elbaf = 12, reserved_268 = 268);

/// Identify Controller for the NVM command set (CNS 06h), 4096 bytes (NVM Command Set 1.1, 4.1.5.4).
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IdentifyControllerNvm {
    /// Verify Size Limit, as MDTS; 0 for no limit.
    pub vsl: u8,
    /// Write Zeroes Size Limit, as MDTS; 0 for no limit.
    pub wzsl: u8,
    /// Write Uncorrectable Size Limit, as MDTS; 0 for no limit.
    pub wusl: u8,
    /// Dataset Management Ranges Limit; 0 for no limit.
    pub dmrl: u8,
    /// Dataset Management Range Size Limit in logical blocks; 0 for no limit.
    pub dmrsl: u32,
    /// Dataset Management Size Limit in logical blocks; 0 for no limit.
    pub dmsl: u64,
    #[doc(hidden)]
    pub reserved_16: [u8; 4080],
}

assert_offsets!(IdentifyControllerNvm: 4096; vsl = 0, wzsl = 1, wusl = 2, dmrl = 3, dmrsl = 4, dmsl = 8);

/// I/O Command Set Independent Identify Namespace (CNS 08h), 4096 bytes (NVMe Base 2.1, 5.1.13.2.8).
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IdentifyNamespaceIndependent {
    /// Common Namespace Features.
    pub nsfeat: u8,
    /// Namespace Multi-path I/O and Namespace Sharing Capabilities.
    pub nmic: u8,
    /// Reservation Capabilities.
    pub rescap: u8,
    /// Format Progress Indicator.
    pub fpi: u8,
    /// ANA Group Identifier.
    pub anagrpid: u32,
    /// Namespace Attributes.
    pub nsattr: u8,
    #[doc(hidden)]
    pub reserved_9: u8,
    /// NVM Set Identifier.
    pub nvmsetid: u16,
    /// Endurance Group Identifier.
    pub endgid: u16,
    /// Namespace Status: bit 0 ready.
    pub nstat: u8,
    #[doc(hidden)]
    pub reserved_15: [u8; 4081],
}

assert_offsets!(IdentifyNamespaceIndependent: 4096; nsfeat = 0, nmic = 1, rescap = 2, fpi = 3, anagrpid = 4, nsattr = 8,
    nvmsetid = 10, endgid = 12, nstat = 14);

/// Active Namespace ID list, 4096 bytes: ascending identifiers, padded with zeros (NVMe Base 2.1, 5.1.13.2.2).
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ActiveNamespaceList {
    /// The identifiers; the first 0 ends the list.
    pub nsids: [u32; 1024],
}

assert_offsets!(ActiveNamespaceList: 4096; nsids = 0);

impl ActiveNamespaceList {
    /// The first 1024 of `ascending` that are above `after`, the command's NSID.
    pub fn above(after: u32, ascending: impl IntoIterator<Item = u32>) -> ActiveNamespaceList {
        let mut list = ActiveNamespaceList::default();
        for (slot, nsid) in list.nsids.iter_mut().zip(ascending.into_iter().filter(|nsid| *nsid > after)) {
            *slot = nsid;
        }
        list
    }

    /// The identifiers, up to the first 0.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.nsids.iter().copied().take_while(|nsid| *nsid != 0)
    }
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
    IdentifyController,
    IdentifyNamespace,
    IdentifyNamespaceNvm,
    IdentifyControllerNvm,
    IdentifyNamespaceIndependent,
    ActiveNamespaceList
);

/// One entry of the Namespace Identification Descriptor list (NVMe Base 2.1, 5.1.13.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceDescriptor {
    /// 1h: IEEE Extended Unique Identifier, big endian.
    Eui64([u8; 8]),
    /// 2h: Namespace Globally Unique Identifier, big endian.
    Nguid([u8; 16]),
    /// 3h: UUID, big endian.
    Uuid([u8; 16]),
    /// 4h: Command Set Identifier.
    Csi(u8),
    /// A descriptor of another type, or a known one with a wrong length.
    Unknown {
        /// Namespace Identifier Type.
        nidt: u8,
        /// Namespace Identifier Length in bytes.
        nidl: u8,
    },
}

impl NamespaceDescriptor {
    const HEADER_BYTES: usize = 4;

    /// The list as an Identify returns it: the descriptors one after another, then zeros.
    ///
    /// An `Unknown` is omitted, because its identifier is not kept.
    ///
    /// # Panics
    /// If the descriptors exceed 4096 bytes; 204 of them always fit.
    pub fn list(descriptors: &[NamespaceDescriptor]) -> [u8; 4096] {
        let mut list = [0; 4096];
        let mut at = 0;
        for descriptor in descriptors {
            let (nidt, nid): (u8, &[u8]) = match descriptor {
                NamespaceDescriptor::Eui64(nid) => (1, nid),
                NamespaceDescriptor::Nguid(nid) => (2, nid),
                NamespaceDescriptor::Uuid(nid) => (3, nid),
                NamespaceDescriptor::Csi(csi) => (4, core::slice::from_ref(csi)),
                NamespaceDescriptor::Unknown { .. } => continue,
            };
            list[at] = nidt;
            list[at + 1] = nid.len() as u8;
            at += Self::HEADER_BYTES;
            list[at..at + nid.len()].copy_from_slice(nid);
            at += nid.len();
        }
        list
    }

    /// The descriptors in `bytes`, up to the first of length 0 or one that is truncated.
    pub fn parse_list(bytes: &[u8]) -> impl Iterator<Item = NamespaceDescriptor> + '_ {
        let mut rest = bytes;
        core::iter::from_fn(move || {
            let [nidt, nidl, _, _, behind @ ..] = rest else { return None };
            let (nid, behind) = behind.split_at_checked(usize::from(*nidl))?;
            rest = behind;
            if nid.is_empty() {
                rest = &[];
                return None;
            }
            let unknown = NamespaceDescriptor::Unknown { nidt: *nidt, nidl: *nidl };
            Some(match nidt {
                1 => nid.try_into().map_or(unknown, NamespaceDescriptor::Eui64),
                2 => nid.try_into().map_or(unknown, NamespaceDescriptor::Nguid),
                3 => nid.try_into().map_or(unknown, NamespaceDescriptor::Uuid),
                4 if nid.len() == 1 => NamespaceDescriptor::Csi(nid[0]),
                _ => unknown,
            })
        })
    }
}

/// `text` as an ASCII field: truncated at `N` bytes, padded with spaces, with a question mark for each byte outside 20h
/// to 7Eh (NVMe Base 2.1, 1.4.2).
pub fn ascii_field<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [b' '; N];
    for (slot, byte) in field.iter_mut().zip(text.bytes()) {
        *slot = if (0x20..=0x7E).contains(&byte) { byte } else { b'?' };
    }
    field
}

/// The text of an ASCII field, without trailing spaces and zeros.
pub fn ascii_text(field: &[u8]) -> String {
    let text: String = field
        .iter()
        .map(|byte| if (0x20..=0x7E).contains(byte) || *byte == 0 { *byte as char } else { '?' })
        .collect();
    text.trim_end_matches([' ', '\0']).replace('\0', "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a host would display padding, or a text would run into the next field.
    #[test]
    fn ascii_fields_are_padded_and_cut() {
        let field: [u8; 8] = ascii_field("1.0");
        assert_eq!(&field, b"1.0     ");
        assert_eq!(ascii_text(&field), "1.0");
        assert_eq!(&ascii_field::<4>("toolong"), b"tool");
        assert_eq!(&ascii_field::<4>("a\n\u{e9}"), b"a???");
        assert_eq!(ascii_text(&[b'a', 0, b'b', 0xFF, 0, 0]), "a?b?");
    }

    /// Without this a namespace after the 1024th, or the one that the host named, would be listed twice or never.
    #[test]
    fn a_namespace_list_starts_above_the_given_one() {
        let list = ActiveNamespaceList::above(2, 1..=5);
        assert_eq!(list.iter().collect::<Vec<_>>(), [3, 4, 5]);
        let list = ActiveNamespaceList::above(0, 1..=2000);
        assert_eq!(list.iter().last(), Some(1024));
        assert_eq!(list.iter().count(), 1024);
    }

    /// Without this parsing a hostile list would read past its end, or never end.
    #[test]
    fn namespace_descriptors_end_with_the_list() {
        let descriptors = [
            NamespaceDescriptor::Eui64([1; 8]),
            NamespaceDescriptor::Nguid([2; 16]),
            NamespaceDescriptor::Uuid([3; 16]),
            NamespaceDescriptor::Csi(csi::KEY_VALUE),
        ];
        let list = NamespaceDescriptor::list(&descriptors);
        assert_eq!(list[..5], [1, 8, 0, 0, 1]);
        assert_eq!(NamespaceDescriptor::parse_list(&list).collect::<Vec<_>>(), descriptors);
        assert_eq!(NamespaceDescriptor::parse_list(&list[..20]).count(), 1);
        assert_eq!(NamespaceDescriptor::parse_list(&[1, 0, 0, 0, 4, 1, 0, 0, 0]).count(), 0);
        let odd: Vec<_> = NamespaceDescriptor::parse_list(&[1, 2, 0, 0, 9, 9, 7, 1, 0, 0, 9]).collect();
        assert_eq!(
            odd,
            [
                NamespaceDescriptor::Unknown { nidt: 1, nidl: 2 },
                NamespaceDescriptor::Unknown { nidt: 7, nidl: 1 }
            ]
        );
    }

    /// Without this a transfer limit or block size from a hostile controller would overflow a shift.
    #[test]
    fn powers_of_two_from_outside_are_checked() {
        let mut controller = IdentifyController::default();
        assert_eq!(controller.transfer_bytes_max(4096), None);
        controller.mdts = 5;
        assert_eq!(controller.transfer_bytes_max(4096), Some(128 * 1024));
        controller.mdts = 255;
        assert_eq!(controller.transfer_bytes_max(4096), None);
        assert_eq!(LbaFormat { lbads: 12, ..LbaFormat::default() }.block_bytes(), Some(4096));
        assert_eq!(LbaFormat { lbads: 200, ..LbaFormat::default() }.block_bytes(), None);
        let mut namespace = IdentifyNamespace { flbas: 0xFF, nlbaf: 255, ..IdentifyNamespace::default() };
        assert_eq!(namespace.format_index(), 63);
        namespace.nlbaf = 1;
        assert_eq!(namespace.format_index(), 15);
    }
}
