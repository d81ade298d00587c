//! What a drive and a host are made of: the constants of `profiles/*.toml`, checked, and the geometry that follows
//! from them and a capacity.

mod bridge;
mod catalog;
mod cells;
pub(crate) mod collection;
mod completion;
mod cxl;
mod endpoints;
mod fault;
mod kv;
mod load;
mod network;
mod offers;
mod reliability;
mod switch;
mod transfer;
mod upkeep;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use byteway_console::units::{Bytes, Frequency, Percent, Picos, Rate};
use byteway_wire::nvme::vendor::Extension;

use fault::{MILLISECOND, SECOND, one_of, power_of_two};
use switch::Switch;

pub use bridge::{Bridge, SmallWrites};
pub use catalog::{
    DriveEntry, HostEntry, NetworkEntry, all_texts, drive_entries, host_entries, network_entries, text_of,
};
pub use cells::{Slc, Suspend};
pub use collection::Collection;
pub use completion::Completion;
pub use cxl::Cxl;
pub use endpoints::{Endpoints, FirmwarePlacement, OnHost};
pub use fault::{Fault, MAP_UNIT_BYTES};
pub(crate) use fault::{fault, within};
pub use kv::{KvPacking, KvStore};
pub(crate) use load::load;
pub use network::{BlockCosts, InitiatorCosts, NETWORKS, NetworkProfile, TargetCosts, Transport};
pub(crate) use offers::drives_with;
pub use reliability::{CellKind, OneBit, Reliability};
pub use transfer::{Thresholds, Transfer};
pub use upkeep::{Background, ExtentTree, Refresh, Wear};

/// The profiles of drives that are part of the program, by name.
pub const DRIVES: [(&str, &str); 18] = [
    ("samsung-970-pro", include_str!("../../../../profiles/samsung-970-pro.toml")),
    ("mqsim-mlc", include_str!("../../../../profiles/mqsim-mlc.toml")),
    ("mqsim-mlc-cached", include_str!("../../../../profiles/mqsim-mlc-cached.toml")),
    ("mqsim-mlc-as-run", include_str!("../../../../profiles/mqsim-mlc-as-run.toml")),
    ("wd-zn540", include_str!("../../../../profiles/wd-zn540.toml")),
    ("p4500", include_str!("../../../../profiles/p4500.toml")),
    ("tlc-generic", include_str!("../../../../profiles/tlc-generic.toml")),
    ("tlc-generic-aged", include_str!("../../../../profiles/tlc-generic-aged.toml")),
    ("modern-gen5", include_str!("../../../../profiles/modern-gen5.toml")),
    ("cosmos-plus", include_str!("../../../../profiles/cosmos-plus.toml")),
    ("cosmos-plus-gen3x4", include_str!("../../../../profiles/cosmos-plus-gen3x4.toml")),
    ("cosmos-plus-gen4x4", include_str!("../../../../profiles/cosmos-plus-gen4x4.toml")),
    ("cosmos-plus-gen5x8", include_str!("../../../../profiles/cosmos-plus-gen5x8.toml")),
    ("cosmos-plus-gen6x8", include_str!("../../../../profiles/cosmos-plus-gen6x8.toml")),
    ("bandslim-gen5x8", include_str!("../../../../profiles/bandslim-gen5x8.toml")),
    ("bssd", include_str!("../../../../profiles/bssd.toml")),
    ("fssd", include_str!("../../../../profiles/fssd.toml")),
    ("espresso", include_str!("../../../../profiles/espresso.toml")),
];

/// The profiles of hosts that are part of the program, by name.
pub const HOSTS: [(&str, &str); 6] = [
    ("linux-polled", include_str!("../../../../profiles/host-linux-polled.toml")),
    ("linux-interrupt", include_str!("../../../../profiles/host-linux-interrupt.toml")),
    ("cosmos", include_str!("../../../../profiles/host-cosmos.toml")),
    ("xeon-e5-v4", include_str!("../../../../profiles/host-xeon-e5-v4.toml")),
    ("sandy-bridge", include_str!("../../../../profiles/host-sandy-bridge.toml")),
    ("dpu", include_str!("../../../../profiles/host-dpu.toml")),
];

/// Capacities that a drive may have, in bytes: 1 GiB to 64 TiB.
pub const CAPACITY_BYTES: std::ops::RangeInclusive<u64> = 1 << 30..=64 << 40;

/// A drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// What it is called and how large it is.
    pub drive: Drive,
    /// The PCIe link.
    pub link: Link,
    /// The NVMe controller.
    pub controller: Controller,
    /// The processors and what runs on them.
    pub firmware: Firmware,
    /// The drive's own memory.
    pub dram: Dram,
    /// The flash array.
    pub flash: Flash,
    /// The hardware that firmware on the host commands: there is some if `firmware.placement` is "host".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Endpoints>,
    /// A bridge in front of several such drives, if `firmware.placement` is "bridge".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<Bridge>,
    /// What it offers small payloads.
    #[serde(default)]
    pub transfer: Transfer,
    /// Memory that the host stores to.
    #[serde(default)]
    pub cxl: Option<Cxl>,
    /// The store that it has if its personality is `kv`.
    #[serde(default)]
    pub kv: KvStore,
}

/// Name and size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Drive {
    /// Model number, as Identify Controller reports it: at most 40 ASCII characters.
    pub model: String,
    /// What the host sees, over all namespaces: 1 GiB to 64 TiB, a multiple of 1 MiB.
    pub capacity: Bytes,
}

/// The PCIe link between host and drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// PCIe generation, 1 to 6.
    pub generation: u8,
    /// Lanes: 1, 2, 4, 8, 12, 16 or 32.
    pub lanes: u8,
    /// Maximum payload of a packet: a power of two from 128 B to 4 KiB.
    pub mps: Bytes,
    /// Maximum read request: a power of two from 128 B to 4 KiB.
    pub mrrs: Bytes,
    /// Read completion boundary: 64 B or 128 B.
    pub rcb: Bytes,
    /// Read requests that may be outstanding.
    pub read_tags: u16,
    /// From one end of the link to the other, beyond the time on the wire.
    pub propagation: Picos,
    /// From a read request's arrival at the host to its data's departure.
    pub memory_latency: Picos,
}

/// The NVMe controller's limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// I/O submission queues, and as many completion queues.
    pub max_io_queues: u16,
    /// Entries of a queue: CAP.MQES + 1.
    pub max_queue_entries: u32,
    /// Commands in work at a time, over all queues.
    pub command_slots: u32,
    /// Reads of queue entries that may be outstanding.
    pub fetch_outstanding: u16,
    /// Queue entries that one read may ask for.
    pub fetch_burst: u16,
    /// Maximum data transfer of a command: a power of two from 8 KiB to 16 MiB.
    pub mdts: Bytes,
    /// Doorbell stride, CAP.DSTRD: doorbells lie 4 << dstrd bytes apart.
    pub dstrd: u8,
    /// Whether SGLs are supported.
    #[serde(default)]
    pub sgl: bool,
    /// Host data that PRPs describe is fetched in whole units of this size; 1 B (the default) is exact, as SGLs are.
    #[serde(default = "exact")]
    pub dma_unit: Bytes,
    /// Commands that a queue may give in a row: a power of two up to 64; left out, there is no limit.
    #[serde(default)]
    pub arbitration_burst: Option<u8>,
}

fn is_zero(cycles: &u64) -> bool {
    *cycles == 0
}

fn is_no_bytes(bytes: &Bytes) -> bool {
    bytes.0 == 0
}

fn is_device(placement: &FirmwarePlacement) -> bool {
    *placement == FirmwarePlacement::Device
}

fn exact() -> Bytes {
    Bytes(1)
}

/// The processors and the flash translation layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Firmware {
    /// Where it runs. Left out, on the drive's own cores.
    #[serde(default, skip_serializing_if = "is_device")]
    pub placement: FirmwarePlacement,
    /// Parts of it that run on the host. Left out, or false, none does, or with `placement = "host"` all.
    #[serde(default, deserialize_with = "switch::deserialize", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Switch<OnHost>")]
    pub on_host: Option<OnHost>,
    /// Cores that share the work; on the host, the least number of processors that it needs.
    pub cores: u16,
    /// Their frequency.
    pub clock: Frequency,
    /// What each kind of work costs.
    pub cycles: Cycles,
    /// Waits of a command that keep no core busy.
    #[serde(default)]
    pub latency: FirmwareLatency,
    /// DRAM that holds written data until it is programmed.
    pub write_buffer: Bytes,
    /// Power-loss protection: a completed write survives a power cut.
    #[serde(default)]
    pub plp: bool,
    /// Spare flash over the capacity, beyond open blocks and those that only collection may take (`gc.urgent`).
    pub op: Percent,
    /// Garbage collection.
    pub gc: Gc,
    /// A checkpoint of the map is written whenever so much of the capacity has been programmed, beside those at shutdown and
    /// when the journal is nearly full; "0 %": no others. Left out, 10 %.
    #[serde(default = "upkeep::ten_percent")]
    pub checkpoint: Percent,
    /// DRAM that holds a part of the map, in pages of 4 KiB for 1024 units each: what is not there is read from flash first.
    /// Left out, or false, the whole map is in DRAM.
    #[serde(default, deserialize_with = "switch::deserialize")]
    #[schemars(with = "Switch<Bytes>")]
    pub map_cache: Option<Bytes>,
    /// The map is a tree of extents: memory and look-ups follow from what was written and how it is scattered. Left out, or false, it
    /// has an entry for each 4 KiB.
    #[serde(default, deserialize_with = "switch::deserialize", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Switch<ExtentTree>")]
    pub extents: Option<ExtentTree>,
    /// DRAM for parts of 4 KiB that the host writes: they are acknowledged there, and merged with the rest behind. Left out, or false,
    /// such a write reads the rest first.
    #[serde(default, deserialize_with = "switch::deserialize", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Switch<Bytes>")]
    pub absorb: Option<Bytes>,
    /// DRAM for data that the host has read, to be read again from there. Left out, or false, nothing is kept.
    #[serde(default, deserialize_with = "switch::deserialize", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Switch<Bytes>")]
    pub read_cache: Option<Bytes>,
    /// Memory of the host's that the drive asks for, to hold pages of the map beside those in DRAM (Host Memory Buffer). Left out, or
    /// false, it asks for none. It needs `map_cache`.
    #[serde(default, deserialize_with = "switch::deserialize", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Switch<Bytes>")]
    pub host_buffer: Option<Bytes>,
    /// Wear levelling; left out, or false, there is none.
    #[serde(default, deserialize_with = "switch::deserialize")]
    #[schemars(with = "Switch<Wear>")]
    pub wear: Option<Wear>,
    /// Moving data that was read often, or is old; left out, or false, it stays.
    #[serde(default, deserialize_with = "switch::deserialize")]
    #[schemars(with = "Switch<Refresh>")]
    pub refresh: Option<Refresh>,
}

/// Cycles that a core is busy, for each piece of work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cycles {
    /// A command: take its entry out of the queue.
    pub fetch: u64,
    /// A command: check and dispatch it.
    pub parse: u64,
    /// A command, of firmware on the host: enter the translation layer from the driver. Left out, 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub enter: u64,
    /// 4 KiB of a command: look its place up or change it.
    pub translate: u64,
    /// 4 KiB of a command: move it through the buffer.
    pub buffer: u64,
    /// A command: post its completion.
    pub complete: u64,
    /// 4 KiB that garbage collection moves.
    pub collect: u64,
    /// 4 KiB of a payload, or a part of it, that a data pointer describes: set its DMA up. Left out, 0.
    #[serde(default)]
    pub dma: u64,
    /// An entry of a queue that carries payload: take it. Left out, 0.
    #[serde(default)]
    pub chunk: u64,
    /// A command on a pair: look it up, or change its entry in the index. Left out, 0.
    #[serde(default)]
    pub index: u64,
    /// 64 B of a value that the processor copies to its place. Left out, 0.
    #[serde(default)]
    pub pack: u64,
    /// An entry of a key-value index that is merged. Left out, 0.
    #[serde(default)]
    pub compact: u64,
    /// One look whether the next commit record is there. Left out, 0.
    #[serde(default)]
    pub poll: u64,
}

/// Fixed waits of a command that keep no core busy: hardware stages, and what a measured total leaves unexplained.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FirmwareLatency {
    /// A read of at most 4 KiB.
    #[serde(default)]
    pub read: Picos,
    /// A longer read; left out, as `read`.
    #[serde(default)]
    pub read_large: Option<Picos>,
    /// A write.
    #[serde(default)]
    pub write: Picos,
}

/// Garbage collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gc {
    /// Which block is collected next.
    pub policy: GcPolicy,
    /// Share of the blocks of a plane that are free when collection starts. Never less than two blocks.
    pub start: Percent,
    /// Share of the blocks of a plane that are free when host writes wait for it. Never less than one block.
    pub urgent: Percent,
    /// Collection while the host asks for nothing; left out, or false, there is none.
    #[serde(default, deserialize_with = "switch::deserialize")]
    #[schemars(with = "Switch<Background>")]
    pub background: Option<Background>,
}

/// Which block is collected next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GcPolicy {
    /// The one with the fewest valid pages.
    Greedy,
    /// The one with the best ratio of space won, weighted by age, to what must be moved.
    CostBenefit,
}

/// The drive's own memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dram {
    /// Bytes a second, in and out together.
    pub bandwidth: Rate,
    /// One access.
    pub latency: Picos,
}

/// The flash array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// Channels.
    pub channels: u32,
    /// Chips on a channel.
    pub ways: u32,
    /// Dies of a chip.
    #[serde(default = "one")]
    pub dies: u32,
    /// Planes of a die: 1, 2, 4 or 8.
    pub planes: u32,
    /// Blocks of a plane; left out, they follow from the capacity and `op`.
    #[serde(default)]
    pub blocks: Option<u32>,
    /// Pages of a block.
    pub pages: u32,
    /// A page: a power of two from 4 KiB to 256 KiB.
    pub page: Bytes,
    /// Bytes a second of a channel.
    pub channel_rate: Rate,
    /// Command and address cycles on the channel, for each operation.
    pub command: Picos,
    /// Reading a page into the die's register, for each page type in turn.
    pub read: Vec<Picos>,
    /// The same for at most 4 KiB of the page; left out, as `read`.
    #[serde(default)]
    pub read_partial: Option<Vec<Picos>>,
    /// Reading a page of the map, where the firmware keeps these in pages that read faster; left out, as any page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_map: Option<Picos>,
    /// Programming a page, for each page type in turn; one value stands for all.
    pub program: Vec<Picos>,
    /// Erasing a block.
    pub erase: Picos,
    /// Erases that a block endures: what SMART's percentage used refers to.
    pub endurance: u32,
    /// Blocks of a plane that are set aside for those that go bad, beyond the spare flash of `firmware.op`. Left out, none:
    /// bad blocks are then taken from that.
    #[serde(default)]
    pub spare_blocks: u32,
    /// Of these, how many of a die its maker may have marked as bad: each die draws a number up to this.
    #[serde(default)]
    pub factory_bad_blocks: u32,
    /// Blocks with one bit a cell, which take what the host writes first; left out, or false, there are none.
    #[serde(default, deserialize_with = "switch::deserialize")]
    #[schemars(with = "Switch<Slc>")]
    pub slc: Option<Slc>,
    /// Programs and erases can be suspended for the host's reads; left out, or false, reads wait for their end.
    #[serde(default, deserialize_with = "switch::deserialize")]
    #[schemars(with = "Switch<Suspend>")]
    pub suspend: Option<Suspend>,
    /// Whether a die senses the next page while the one before still moves out. Left out, false.
    #[serde(default)]
    pub cache_read: bool,
    /// Which of the dies that wait for a channel it serves first. Left out, commands.
    #[serde(default)]
    pub channel_order: ChannelOrder,
    /// What goes wrong in the cells, and how reads are tried again; left out, or false, nothing does.
    #[serde(default, deserialize_with = "switch::deserialize")]
    #[schemars(with = "Switch<Reliability>")]
    pub reliability: Option<Reliability>,
}

fn one() -> u32 {
    1
}

/// Which of the dies that wait for a channel it serves first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ChannelOrder {
    /// Commands of reads and erases, then the data of reads, then programs.
    #[default]
    CommandsFirst,
    /// The data of reads, then whatever begins an operation, in the order in which it came.
    DataOutFirst,
}

/// A host: what its software costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostProfile {
    /// Cores on which jobs run.
    pub cores: u16,
    /// A command, from the application to before its doorbell.
    pub submit: Picos,
    /// A completion, from its entry to the application.
    pub complete: Picos,
    /// Placing one more queue entry that carries payload, behind a command or as a chunk; left out, 0.
    #[serde(default)]
    pub chunk: Picos,
    /// From a completion to the next command of the same payload, where one waits for the other; left out, 0.
    #[serde(default)]
    pub turnaround: Picos,
    /// A write-combined store of 64 B to the drive's buffer, or past the cache to its memory; left out, 0.
    #[serde(default)]
    pub store: Picos,
    /// Storing a line of 64 B to the drive's memory and flushing it, without what the link takes for that; left out, 0.
    #[serde(default)]
    pub flush: Picos,
    /// With `transfer.method = "sgl"`, shorter payloads go by PRP, as a driver may have it; left out, none.
    #[serde(default)]
    pub sgl_min: Bytes,
    /// Memory that the system takes before any I/O; left out, 0.
    #[serde(default, skip_serializing_if = "is_no_bytes")]
    pub memory: Bytes,
    /// How the host learns of completions.
    pub completion: Completion,
    /// From an interrupt's arrival to its handler.
    #[serde(default)]
    pub interrupt: Picos,
    /// Which processor takes the interrupts; left out, one of its own for each drive.
    #[serde(default)]
    pub interrupts: Interrupts,
    /// A command that takes longer is aborted.
    #[serde(default = "thirty_seconds")]
    pub timeout: Picos,
}

fn thirty_seconds() -> Picos {
    Picos(30_000_000_000_000)
}

/// Which processor takes interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Interrupts {
    /// One of its own for each drive.
    #[default]
    Own,
    /// That of the queue whose completion it is.
    Queue,
}

/// The flash array in numbers, all of it derived and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Geometry {
    /// Channels.
    pub channels: u32,
    /// Chips on a channel.
    pub ways: u32,
    /// Dies of a chip.
    pub dies: u32,
    /// Planes of a die.
    pub planes: u32,
    /// Blocks of a plane.
    pub blocks: u32,
    /// Pages of a block.
    pub pages: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// What the host sees, in bytes.
    pub capacity_bytes: u64,
    /// Free blocks of a plane at which collection starts.
    pub gc_start_blocks: u32,
    /// Free blocks of a plane at which host writes wait for collection.
    pub gc_urgent_blocks: u32,
}

impl Geometry {
    /// All dies.
    pub fn die_count(&self) -> u32 {
        self.channels * self.ways * self.dies
    }

    /// All planes.
    pub fn plane_count(&self) -> u32 {
        self.die_count() * self.planes
    }

    /// All flash, in bytes.
    pub fn raw_bytes(&self) -> u64 {
        u64::from(self.plane_count())
            * u64::from(self.blocks)
            * u64::from(self.pages)
            * u64::from(self.page_bytes)
    }
}

/// Blocks of a plane that hold no data while the host writes all the time, beside those that only collection may take:
/// on average half a block, of what is free or open beyond. The translation layer reckons with the same
/// (`FtlConfig::user_units_at`).
const OPEN_BLOCKS: f64 = 0.5;

/// Units of 4 KiB in the pages that the planes of a die read or program at once, at most.
const STRIPE_UNITS_MAX: u64 = 64;

/// Rows of blocks over all dies, and units of 4 KiB over the whole array, at most.
const ROWS_MAX: u64 = byteway_flash::Geometry::BLOCKS_MAX as u64;
const UNITS_MAX: u64 = byteway_flash::Geometry::UNITS_MAX as u64;

/// A page of the map in DRAM.
pub const MAP_PAGE_BYTES: u64 = 4096;

/// Units of 4 KiB in the write buffer, at most.
const BUFFER_UNITS_MAX: u64 = 1 << 24;

impl Profile {
    /// A profile that is part of the program; `None` if there is none of that name.
    pub fn built_in(name: &str) -> Option<Profile> {
        load::built_in(&DRIVES, name, "profile")
    }

    /// Whether the constants describe a drive that can exist. The capacity is checked by [`Profile::geometry`].
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if self.drive.model.len() > 40 || !self.drive.model.bytes().all(|b| (0x20..0x7f).contains(&b)) {
            return Err(fault(
                "drive.model",
                "`drive.model` is not a model number",
                "write at most 40 ASCII characters",
            ));
        }
        self.check_link()?;
        self.check_controller()?;
        self.check_firmware()?;
        self.check_flash()?;
        self.check_endpoints()?;
        self.check_bridge()?;
        self.cxl.as_ref().map_or(Ok(()), Cxl::check)?;
        if self.transfer.offers(Extension::CxlMem) && self.cxl.is_none() {
            let what = "`transfer.methods` names `cxl-mem`, and the drive has no memory for it";
            return Err(fault("transfer.methods", what, "leave it out: `[cxl]` alone offers it"));
        }
        if self.transfer.offers(Extension::CxlCommit) && self.cxl.as_ref().is_none_or(|cxl| cxl.records == 0)
        {
            let what = "`transfer.methods` names `cxl-commit`, and the drive has no records for it";
            return Err(fault("transfer.methods", what, "leave it out: `cxl.records` alone offers it"));
        }
        self.transfer.check()?;
        self.kv.check()
    }

    /// Whether the firmware runs on the host.
    pub fn is_hosted(&self) -> bool {
        self.firmware.placement == FirmwarePlacement::Host
    }

    /// Whether some of the firmware, or all, runs on the host.
    pub fn takes_host(&self) -> bool {
        self.is_hosted() || self.firmware.on_host.is_some()
    }

    /// Whole drives that it is made of, behind a bridge; else 1.
    pub fn members(&self) -> u16 {
        self.bridge.as_ref().map_or(1, |bridge| bridge.members)
    }

    /// A bridge, and whether the rest of the profile goes with it.
    fn check_bridge(&self) -> Result<(), Fault> {
        let is_placed = self.firmware.placement == FirmwarePlacement::Bridge;
        let Some(bridge) = &self.bridge else {
            return match is_placed {
                false => Ok(()),
                true => Err(fault(
                    "firmware.placement",
                    "`firmware.placement` = \"bridge\", and the profile says nothing of the bridge",
                    "add `[bridge]` with at least `members`, `chunk`, `generation`, `lanes`, `cores`, `clock`, `command` and `convert`",
                )),
            };
        };
        if !is_placed {
            return Err(fault(
                "bridge",
                "`[bridge]` stands before drives with firmware of their own",
                "add `firmware.placement = \"bridge\"`, or leave the section out",
            ));
        }
        bridge.check()?;
        if self.endpoints.is_some()
            || self.firmware.on_host.is_some()
            || self.firmware.host_buffer.is_some()
            || self.cxl.is_some()
        {
            let what = "a drive behind a bridge has no way to the host: no `[endpoints]`, `on_host`, `host_buffer` or `[cxl]`";
            return Err(fault("firmware.placement", what, "leave these out"));
        }
        Ok(())
    }

    /// The endpoints, and whether the rest of the profile goes with them.
    fn check_endpoints(&self) -> Result<(), Fault> {
        if let Some(part) = &self.firmware.on_host {
            part.check()?;
            if self.is_hosted()
                || part.map && (self.firmware.map_cache.is_some() || self.firmware.extents.is_some())
            {
                let what = "`firmware.on_host`: with `placement = \"host\"` all of the firmware is there, and a map there is a table \
                     that is all in memory: no `map_cache`, no `extents`";
                return Err(fault("firmware.on_host", what, "leave one of them out"));
            }
        }
        let Some(endpoints) = &self.endpoints else {
            return match self.is_hosted() {
                false => Ok(()),
                true => Err(fault(
                    "firmware.placement",
                    "`firmware.placement` = \"host\", and the profile says nothing of the hardware that it commands",
                    "add `[endpoints]` with at least `count = 1`",
                )),
            };
        };
        if !self.is_hosted() {
            return Err(fault(
                "endpoints",
                "`[endpoints]` are commanded by firmware on the host, and this drive has its own",
                "add `firmware.placement = \"host\"`, or leave the section out",
            ));
        }
        endpoints.check(self.flash.channels)?;
        let wrong = |key: &str, what: &str, cure: &str| Err(fault(key, what, cure));
        if self.firmware.plp {
            return wrong(
                "firmware.plp",
                "`firmware.plp`: no capacitors save what is buffered in the host's memory",
                "set it to false, or leave it out",
            );
        }
        if self.firmware.host_buffer.is_some() || self.cxl.is_some() || self.transfer.sink.0 > 0 {
            return wrong(
                "firmware.placement",
                "a drive whose firmware runs on the host has no memory of its own: no `host_buffer`, `[cxl]` or sink",
                "leave these out",
            );
        }
        Ok(())
    }

    fn check_link(&self) -> Result<(), Fault> {
        let link = &self.link;
        within("link.generation", link.generation, 1, 6)?;
        one_of("link.lanes", link.lanes.into(), &[1, 2, 4, 8, 12, 16, 32])?;
        power_of_two("link.mps", link.mps, 128, 4096)?;
        power_of_two("link.mrrs", link.mrrs, 128, 4096)?;
        power_of_two("link.rcb", link.rcb, 64, 128)?;
        within("link.read_tags", link.read_tags, 1, 1024)?;
        within("link.propagation", link.propagation, Picos(0), MILLISECOND)?;
        within("link.memory_latency", link.memory_latency, Picos(0), MILLISECOND)
    }

    fn check_controller(&self) -> Result<(), Fault> {
        let controller = &self.controller;
        within("controller.max_io_queues", controller.max_io_queues, 1, 1024)?;
        within("controller.max_queue_entries", controller.max_queue_entries, 2, 65536)?;
        within("controller.command_slots", controller.command_slots, 1, 65536)?;
        within("controller.fetch_outstanding", controller.fetch_outstanding, 1, 1024)?;
        within("controller.fetch_burst", controller.fetch_burst, 1, 64)?;
        power_of_two("controller.mdts", controller.mdts, 8192, 16 << 20)?;
        within("controller.dstrd", controller.dstrd, 0, 8)?;
        power_of_two("controller.dma_unit", controller.dma_unit, 1, 4096)?;
        if let Some(burst) = controller.arbitration_burst {
            one_of("controller.arbitration_burst", burst.into(), &[1, 2, 4, 8, 16, 32, 64])?;
        }
        Ok(())
    }

    fn check_firmware(&self) -> Result<(), Fault> {
        let firmware = &self.firmware;
        within("firmware.cores", firmware.cores, 1, 256)?;
        within("firmware.clock", firmware.clock, Frequency(1_000_000), Frequency(10_000_000_000))?;
        let cycles = &firmware.cycles;
        for (key, count) in [
            ("fetch", cycles.fetch),
            ("parse", cycles.parse),
            ("enter", cycles.enter),
            ("translate", cycles.translate),
            ("buffer", cycles.buffer),
            ("complete", cycles.complete),
            ("collect", cycles.collect),
            ("dma", cycles.dma),
            ("chunk", cycles.chunk),
            ("index", cycles.index),
            ("pack", cycles.pack),
            ("compact", cycles.compact),
            ("poll", cycles.poll),
        ] {
            within(&format!("firmware.cycles.{key}"), count, 0, 1_000_000_000)?;
        }
        let latency = &firmware.latency;
        within("firmware.latency.read", latency.read, Picos(0), SECOND)?;
        within("firmware.latency.read_large", latency.read_large.unwrap_or_default(), Picos(0), SECOND)?;
        within("firmware.latency.write", latency.write, Picos(0), SECOND)?;
        within("firmware.op", firmware.op, Percent(1.0), Percent(400.0))?;
        within("firmware.gc.start", firmware.gc.start, Percent(0.0), Percent(50.0))?;
        within("firmware.gc.urgent", firmware.gc.urgent, Percent(0.0), firmware.gc.start)?;
        firmware.check_upkeep()?;
        within("dram.bandwidth", self.dram.bandwidth, Rate(1_000_000), Rate(1_000_000_000_000))?;
        within("dram.latency", self.dram.latency, Picos(0), MILLISECOND)
    }

    fn check_flash(&self) -> Result<(), Fault> {
        let flash = &self.flash;
        within("flash.channels", flash.channels, 1, 64)?;
        within("flash.ways", flash.ways, 1, 64)?;
        within("flash.dies", flash.dies, 1, 16)?;
        one_of("flash.planes", flash.planes, &[1, 2, 4, 8])?;
        within("flash.pages", flash.pages, 4, 8192)?;
        power_of_two("flash.page", flash.page, 4096, 256 << 10)?;
        let row = Bytes(flash.page.0 * u64::from(flash.planes));
        if row.0 / MAP_UNIT_BYTES > STRIPE_UNITS_MAX {
            let most = Bytes(STRIPE_UNITS_MAX * MAP_UNIT_BYTES);
            let what = format!("the pages of all planes of a die make {row}, more than {most}");
            return Err(fault("flash.page", what, "choose a smaller `flash.page` or fewer `flash.planes`"));
        }
        within("flash.endurance", flash.endurance, 1, 1_000_000)?;
        flash.check_cells()?;
        within("flash.channel_rate", flash.channel_rate, Rate(1_000_000), Rate(100_000_000_000))?;
        within("flash.command", flash.command, Picos(0), MILLISECOND)?;
        within("flash.erase", flash.erase, Picos(1), SECOND)?;
        let types = flash.read.len();
        page_times("flash.read", &flash.read, types.clamp(1, 8))?;
        if let Some(times) = &flash.read_partial {
            page_times("flash.read_partial", times, types)?;
        }
        if let Some(time) = flash.read_map {
            within("flash.read_map", time, Picos(1), SECOND)?;
        }
        page_times("flash.program", &flash.program, if flash.program.len() == 1 { 1 } else { types })?;
        within(
            "firmware.write_buffer",
            self.firmware.write_buffer,
            row,
            Bytes(BUFFER_UNITS_MAX * MAP_UNIT_BYTES),
        )
    }

    /// The array that holds `capacity`, which must be a multiple of 1 MiB from 1 GiB to 64 TiB.
    ///
    /// Without `flash.blocks`: what `op` makes of the capacity, and in addition the blocks that are open or left to
    /// collection, and those of `flash.spare_blocks` and `flash.slc`. In either case one percent of the capacity, at least, must be spare beyond the blocks that are free
    /// when collection rests: with less it would never rest.
    pub(crate) fn geometry(&self, capacity: Bytes) -> Result<Geometry, Fault> {
        let narrow = self.geometry_with(capacity, false)?;
        if narrow.raw_bytes() / MAP_UNIT_BYTES <= byteway_flash::Geometry::NARROW_UNITS_MAX {
            return Ok(narrow);
        }
        self.geometry_with(capacity, true)
    }

    /// The same; `is_wide` says whether entries of the map take 8 bytes.
    fn geometry_with(&self, capacity: Bytes, is_wide: bool) -> Result<Geometry, Fault> {
        let path = "drive.capacity";
        within(path, capacity, Bytes(*CAPACITY_BYTES.start()), Bytes(*CAPACITY_BYTES.end()))?;
        if !capacity.0.is_multiple_of(1 << 20) {
            let rounded = Bytes(capacity.0 >> 20 << 20);
            return Err(fault(
                path,
                format!("`{path}` = {capacity} is not a multiple of 1 MiB"),
                format!("the next below is {rounded}"),
            ));
        }
        let flash = &self.flash;
        // At most 2^10 x 2^6 x 2^3 planes, 2^13 pages, 2^18 bytes: nothing here comes near 2^64.
        let planes = u64::from(flash.channels * flash.ways * flash.dies * flash.planes);
        let block_bytes = u64::from(flash.pages) * flash.page.0;
        // A map that is not all in DRAM lies in flash beside the data.
        let map_pages = byteway_firmware::Space::new(capacity.0 / MAP_UNIT_BYTES, is_wide).map.1;
        let map_bytes = if self.firmware.map_cache.is_some() { map_pages * MAP_UNIT_BYTES } else { 0 };
        let held_bytes = capacity.0 + map_bytes;
        let user = held_bytes.div_ceil(planes * block_bytes);
        let spare = 1.0 + self.firmware.op.0 / 100.0;
        let of = |share: Percent, blocks: u64, least: u64| {
            ((blocks as f64 * share.0 / 100.0).ceil() as u64).max(least)
        };
        let with_spare = (user as f64 * spare).ceil() as u64;
        let reserved = u64::from(flash.reserved_blocks());
        let all = flash.blocks.map_or(with_spare, |blocks| u64::from(blocks).saturating_sub(reserved));
        let start = of(self.firmware.gc.start, all, 2);
        let urgent = of(self.firmware.gc.urgent, all, 1).min(start - 1);
        let least = user + (user / 100).max(1) + start + 1 + reserved;
        let net = held_bytes as f64 / (planes * block_bytes) as f64 * spare;
        let blocks = match flash.blocks {
            Some(blocks) => u64::from(blocks),
            None => ((net + urgent as f64 + OPEN_BLOCKS).ceil() as u64 + reserved).max(least),
        };
        if blocks < least {
            let set_aside = if reserved > 0 { format!("{reserved} set aside, ") } else { String::new() };
            let what = format!(
                "`flash.blocks` = {blocks} cannot hold {capacity}: {user} blocks a plane for the data, {start} kept free, \
                 1 open, {set_aside}and at least 1 % spare make {least}"
            );
            return Err(fault(
                "flash.blocks",
                what,
                "raise flash.blocks, leave it out, or choose a smaller capacity",
            ));
        }
        let rows = blocks * (planes / u64::from(flash.planes));
        let units = blocks * planes * (block_bytes / MAP_UNIT_BYTES);
        if rows > ROWS_MAX || units > UNITS_MAX {
            let what = format!(
                "{capacity} and its spare take {blocks} blocks of {} on each of {planes} planes, {rows} rows of blocks \
                 and {units} units of 4 KiB: at most {ROWS_MAX} rows and {UNITS_MAX} units are possible",
                Bytes(block_bytes)
            );
            return Err(fault(
                path,
                what,
                "choose larger blocks (`flash.pages`), less `firmware.op` or capacity",
            ));
        }
        Ok(Geometry {
            channels: flash.channels,
            ways: flash.ways,
            dies: flash.dies,
            planes: flash.planes,
            blocks: blocks as u32,
            pages: flash.pages,
            page_bytes: flash.page.0 as u32,
            capacity_bytes: capacity.0,
            gc_start_blocks: start as u32,
            gc_urgent_blocks: urgent as u32,
        })
    }
}

fn page_times(path: &str, times: &[Picos], types: usize) -> Result<(), Fault> {
    if times.len() != types {
        return Err(fault(
            path,
            format!("`{path}` has {} entries", times.len()),
            format!("write {types}: one time for each page type that `flash.read` has, at most 8"),
        ));
    }
    times.iter().try_for_each(|time| within(path, *time, Picos(1), SECOND))
}

impl HostProfile {
    /// A profile that is part of the program; `None` if there is none of that name.
    pub fn built_in(name: &str) -> Option<HostProfile> {
        load::built_in(&HOSTS, name, "host profile")
    }

    pub(crate) fn check(&self) -> Result<(), Fault> {
        within("cores", self.cores, 1, 1024)?;
        within("memory", self.memory, Bytes(0), Bytes(1 << 50))?;
        within("submit", self.submit, Picos(0), SECOND)?;
        within("chunk", self.chunk, Picos(0), SECOND)?;
        within("turnaround", self.turnaround, Picos(0), SECOND)?;
        within("store", self.store, Picos(0), SECOND)?;
        within("sgl_min", self.sgl_min, Bytes(0), Bytes(1 << 30))?;
        within("complete", self.complete, Picos(0), SECOND)?;
        within("interrupt", self.interrupt, Picos(0), SECOND)?;
        within("timeout", self.timeout, MILLISECOND, Picos(3600 * SECOND.0))
    }
}

/// The JSON schema of a drive's profile: all of its sections, or a base and what differs from it.
pub fn profile_schema() -> serde_json::Value {
    let mut whole = schemars::schema_for!(Profile).to_value();
    let defs = whole.as_object_mut().and_then(|schema| schema.remove("$defs"));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Profile",
        "anyOf": [
            whole,
            {
                "type": "object",
                "description": "The same as another profile, but for what stands here.",
                "properties": {
                    "base": {
                        "type": "string",
                        "description": "A built-in profile by name, or the path of one, from the folder of this file.",
                    },
                },
                "required": ["base"],
            },
        ],
        "$defs": defs,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(name: &str) -> Profile {
        Profile::built_in(name).unwrap()
    }

    // A profile that does not parse would stop every scenario that names it, on the user's machine.
    #[test]
    fn every_built_in_profile_is_possible() {
        for (name, _) in DRIVES {
            let profile = drive(name);
            assert!(profile.check().is_ok(), "{name}");
            for capacity in [Bytes(1 << 30), profile.drive.capacity, Bytes(8 << 40)] {
                let Ok(geometry) = profile.geometry(capacity) else { panic!("{name} at {capacity}") };
                assert!(geometry.raw_bytes() > capacity.0, "{name}");
                assert!(geometry.gc_urgent_blocks < geometry.gc_start_blocks, "{name}");
            }
        }
        for (name, _) in HOSTS {
            assert!(HostProfile::built_in(name).unwrap().check().is_ok(), "{name}");
        }
    }

    // A constant without its source cannot be checked by anyone, and a wrong one would never be found.
    #[test]
    fn every_constant_of_a_drive_is_followed_by_its_source() {
        for (name, text) in DRIVES {
            let mut covered = false;
            for line in text.lines() {
                let trimmed = line.trim();
                if trimmed.starts_with('[') {
                    covered = trimmed.contains('#');
                } else if trimmed.contains(" = ")
                    && !trimmed.starts_with('#')
                    && !trimmed.starts_with("model")
                    && !trimmed.starts_with("base")
                {
                    assert!(covered || trimmed.contains('#'), "{name}: {trimmed}");
                }
            }
        }
    }

    /// Picoseconds that `bytes` take on the wire of a profile's link.
    fn wire_ps(profile: &Profile, bytes: u64) -> u64 {
        let (per_lane, numerator, denominator) = match profile.link.generation {
            1 => (250_000_000u64, 1, 1),
            2 => (500_000_000, 1, 1),
            3 => (1_000_000_000, 128, 130),
            _ => unreachable!("no profile has it"),
        };
        let rate = per_lane * u64::from(profile.link.lanes) * numerator / denominator;
        bytes * 1_000_000_000_000 / rate
    }

    /// Picoseconds of a command that the link charges whatever the data: doorbell, fetch and completion.
    fn command_ps(profile: &Profile) -> u64 {
        let link = &profile.link;
        let doorbell = wire_ps(profile, 28) + link.propagation.0;
        let fetch = wire_ps(profile, 24 + 84) + 2 * link.propagation.0 + link.memory_latency.0;
        let completion = wire_ps(profile, 40) + link.propagation.0;
        doorbell + fetch + completion
    }

    fn cycles_ps(profile: &Profile, cycles: u64) -> u64 {
        cycles * (1_000_000_000_000 / profile.firmware.clock.0)
    }

    fn dram_ps(profile: &Profile, bytes: u64) -> u64 {
        bytes * 1_000_000_000_000 / profile.dram.bandwidth.0 + profile.dram.latency.0
    }

    fn near(found_ps: u64, wanted_ns: u64) {
        assert!(found_ps.abs_diff(wanted_ns * 1000) < 2_000, "{found_ps} ps against {wanted_ns} ns");
    }

    // The papers' totals contain what the link charges: firmware time on top of the whole total would count it twice.
    #[test]
    fn the_totals_of_cosmos_are_charged_once() {
        let profile = drive("cosmos-plus");
        let host = HostProfile::built_in("cosmos").unwrap();
        let cycles = &profile.firmware.cycles;
        let command = cycles_ps(&profile, cycles.fetch + cycles.parse + cycles.complete);
        // The interrupt follows its completion on the wire.
        assert_eq!(host.completion, Completion::Interrupt);
        let interrupt = wire_ps(&profile, 28);
        near(host.submit.0 + command_ps(&profile) + interrupt + command, 2460);
        let round_trip = 2 * profile.link.propagation.0 + profile.link.memory_latency.0;
        let fetch = wire_ps(&profile, 24 + 84) + round_trip;
        near(fetch + cycles_ps(&profile, cycles.fetch), 400);
        let wire = wire_ps(&profile, 4096 + 16 * 20);
        near(wire, 1104);
        // Of eight requests two go out at a time, a quarter of the tags; what has come goes into DRAM meanwhile.
        let page = wire_ps(&profile, 2 * 24) + round_trip + wire + profile.dram.latency.0;
        assert!(dram_ps(&profile, 4096) < page);
        near(page + cycles_ps(&profile, cycles.dma), 2620);
        let chunk = host.chunk.0 + fetch + cycles_ps(&profile, cycles.chunk);
        near(chunk + profile.transfer.chunk_store.0, 630);
        near(host.turnaround.0, 3250);
    }

    // A faster link must bring what the wire takes less, and nothing else: the constants of the board stand once.
    #[test]
    fn cosmos_on_another_link_is_the_same_board() {
        let board = drive("cosmos-plus");
        for (name, generation, lanes) in
            [("gen3x4", 3, 4), ("gen4x4", 4, 4), ("gen5x8", 5, 8), ("gen6x8", 6, 8)]
        {
            let found = drive(&format!("cosmos-plus-{name}"));
            let mut wanted = board.clone();
            wanted.drive.model = found.drive.model.clone();
            (wanted.link.generation, wanted.link.lanes) = (generation, lanes);
            wanted.transfer.threshold = found.transfer.threshold.clone(); // measured on each link
            assert_eq!(found.cxl.is_some(), generation >= 5, "{name}: CXL came with Gen5");
            wanted.cxl = found.cxl.clone();
            assert_eq!(found, wanted, "{name}");
        }
    }

    // The same for the drive that NVMeVirt measured.
    #[test]
    fn the_totals_of_the_970_pro_are_charged_once() {
        let profile = drive("samsung-970-pro");
        let cycles = &profile.firmware.cycles;
        let all = cycles.fetch + cycles.parse + cycles.complete + cycles.translate + cycles.buffer;
        let common = command_ps(&profile) + dram_ps(&profile, 4096) + cycles_ps(&profile, all);
        let latency = &profile.firmware.latency;
        // A read looks into the map in DRAM; it moves no data through the buffer.
        let read = cycles.fetch + cycles.parse + cycles.complete + cycles.translate;
        let read = command_ps(&profile) + profile.dram.latency.0 + cycles_ps(&profile, read);
        near(read + latency.read.0, 21_500);
        near(read + latency.read_large.unwrap().0, 30_490);
        let round_trip = 2 * profile.link.propagation.0 + profile.link.memory_latency.0;
        // All eight requests of a page go out at once.
        near(common + round_trip + wire_ps(&profile, 8 * 24) + latency.write.0, 4_460);
        let more = dram_ps(&profile, 4096) - profile.dram.latency.0;
        near(more + cycles_ps(&profile, cycles.translate + cycles.buffer), 460);
    }

    // Golden: blocks decide how often garbage is collected, so a change to them must be seen and explained.
    #[test]
    fn blocks_follow_from_the_capacity() {
        let geometry = |name: &str, gib: u64| {
            let profile = drive(name);
            let Ok(geometry) = profile.geometry(Bytes(gib << 30)) else { panic!("{name}") };
            (geometry.plane_count(), geometry.blocks, geometry.gc_start_blocks, geometry.gc_urgent_blocks)
        };
        assert_eq!(geometry("samsung-970-pro", 512), (16, 4383 + 11 + 1, 44, 11));
        assert_eq!(geometry("samsung-970-pro", 1), (16, 9 + 2 + 1, 2, 1)); // the least that can collect
        assert_eq!(geometry("mqsim-mlc", 476), (128, 2038 + 11, 102, 11));
        assert_eq!(geometry("cosmos-plus", 931), (32, 7970 + 20, 80, 20));
    }

    // A drive with fewer blocks than its data needs would never finish collecting.
    #[test]
    fn a_geometry_that_cannot_hold_the_capacity_is_refused() {
        let mut profile = drive("mqsim-mlc");
        profile.flash.blocks = Some(2048);
        assert!(profile.geometry(Bytes(476 << 30)).is_ok());
        assert!(profile.geometry(Bytes(500 << 30)).is_err());
        assert!(profile.geometry(Bytes((1 << 30) - (1 << 20))).is_err());
        assert!(profile.geometry(Bytes((1 << 30) + 1)).is_err());
        assert!(profile.geometry(Bytes(65 << 40)).is_err());
        profile.flash.blocks = Some(0);
        assert!(profile.geometry(Bytes(1 << 30)).is_err());
        let mut profile = drive("mqsim-mlc");
        profile.firmware.op = Percent(400.0);
        assert!(profile.geometry(Bytes(64 << 40)).is_err());
        profile.flash.page = Bytes(256 << 10);
        assert!(profile.check().is_err());
        let mut profile = drive("mqsim-mlc");
        profile.flash.read.clear();
        assert!(profile.check().is_err());
        let mut profile = drive("samsung-970-pro");
        profile.flash.program.push(Picos(1));
        assert!(profile.check().is_ok());
        profile.flash.program.push(Picos(1));
        assert!(profile.check().is_err());
    }
}
