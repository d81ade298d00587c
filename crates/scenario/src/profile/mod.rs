//! Profiles of drives and hosts: the validated constants of `profiles/*.toml`, and the geometry derived from
//! them and a capacity.

mod bridge;
mod catalog;
mod cells;
pub(crate) mod collection;
mod completion;
mod csd;
mod cxl;
mod endpoints;
mod fault;
mod kv;
mod load;
mod network;
mod offers;
mod policy_name;
mod programs;
mod reliability;
mod sourced;
mod switch;
mod throttle;
mod transfer;
mod upkeep;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use byteway_clock::Delay;
use byteway_firmware::WorkKind;
use byteway_firmware::ftl::greedy_write_amplification;
use byteway_firmware::policy::{self, Policies, Schedule, Stream};
use byteway_flash::ChannelOrder;
use byteway_link::{Generation, PcieConfig};
use byteway_text::units::{Bytes, Frequency, Percent, Picos, Rate};
use byteway_wire::nvme::vendor::Extension;

use fault::{MILLISECOND, SECOND, one_of, power_of_two};
use policy_name::{by_default, is_default};
use switch::Switch;

pub use bridge::{Bridge, SmallWrites};
pub use catalog::{
    DriveEntry, HostEntry, NetworkEntry, all_texts, drive_entries, host_entries, network_entries, text_of,
};
pub use cells::{Folding, Quantile, Slc, Suspend};
pub use collection::Collection;
pub use completion::Completion;
pub use csd::CsdStore;
pub use cxl::Cxl;
pub use endpoints::{Endpoints, FirmwarePlacement, OnHost};
pub use fault::{KeyError, MAP_UNIT_BYTES};
pub(crate) use fault::{fault, within};
pub use kv::KvStore;
pub(crate) use load::load;
pub use network::{BlockCosts, InitiatorCosts, NETWORKS, NetworkProfile, TargetCosts, Transport};
pub(crate) use offers::drives_with;
pub use programs::Programs;
pub use reliability::{CellKind, OneBit, Reliability};
pub use sourced::SourcedConstant;
pub(crate) use sourced::source_at;
pub(crate) use throttle::CELSIUS;
pub use throttle::{Throttle, ThrottleLevel};
pub use transfer::{Thresholds, Transfer};
pub use upkeep::{Background, ExtentTree, Refresh, Wear};

/// The built-in drive profiles, by name.
pub const DRIVES: [(&str, &str); 26] = [
    ("samsung-970-pro", include_str!("../../../../profiles/samsung-970-pro.toml")),
    ("mqsim-mlc", include_str!("../../../../profiles/mqsim-mlc.toml")),
    ("mqsim-mlc-cached", include_str!("../../../../profiles/mqsim-mlc-cached.toml")),
    ("mqsim-mlc-as-run", include_str!("../../../../profiles/mqsim-mlc-as-run.toml")),
    ("wd-zn540", include_str!("../../../../profiles/wd-zn540.toml")),
    ("wd-zn540-512", include_str!("../../../../profiles/wd-zn540-512.toml")),
    ("samsung-evo-2tb", include_str!("../../../../profiles/samsung-evo-2tb.toml")),
    ("optane-118gb", include_str!("../../../../profiles/optane-118gb.toml")),
    ("nvme-a", include_str!("../../../../profiles/nvme-a.toml")),
    ("solidigm-p5520", include_str!("../../../../profiles/solidigm-p5520.toml")),
    ("kioxia-cm7-r", include_str!("../../../../profiles/kioxia-cm7-r.toml")),
    ("samsung-980-pro", include_str!("../../../../profiles/samsung-980-pro.toml")),
    ("intel-660p", include_str!("../../../../profiles/intel-660p.toml")),
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

/// The built-in host profiles, by name.
pub const HOSTS: [(&str, &str); 8] = [
    ("linux-polled", include_str!("../../../../profiles/host-linux-polled.toml")),
    ("linux-interrupt", include_str!("../../../../profiles/host-linux-interrupt.toml")),
    ("libaio", include_str!("../../../../profiles/host-libaio.toml")),
    ("spdk", include_str!("../../../../profiles/host-spdk.toml")),
    ("cosmos", include_str!("../../../../profiles/host-cosmos.toml")),
    ("xeon-e5-v4", include_str!("../../../../profiles/host-xeon-e5-v4.toml")),
    ("sandy-bridge", include_str!("../../../../profiles/host-sandy-bridge.toml")),
    ("dpu", include_str!("../../../../profiles/host-dpu.toml")),
];

/// Valid capacities in bytes: 1 GiB to 64 TiB.
pub const CAPACITY_BYTES: std::ops::RangeInclusive<u64> = 1 << 30..=64 << 40;

/// A drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name and capacity.
    pub drive: Drive,
    /// The PCIe link.
    pub link: Link,
    /// The NVMe controller.
    pub controller: Controller,
    /// The processors, and the firmware that runs on them.
    pub firmware: Firmware,
    /// The drive's own memory.
    pub dram: Dram,
    /// The flash array.
    pub flash: Flash,
    /// Hardware controlled by firmware on the host, for `firmware.placement = "host"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Endpoints>,
    /// A bridge in front of several such drives, for `firmware.placement = "bridge"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<Bridge>,
    /// Transfer methods for small payloads.
    #[serde(default)]
    pub transfer: Transfer,
    /// Memory that the host accesses over CXL.mem.
    #[serde(default)]
    pub cxl: Option<Cxl>,
    /// The store for the personality `kv`.
    #[serde(default)]
    pub kv: KvStore,
    /// The tables for the personality `tables`.
    #[serde(default)]
    pub csd: CsdStore,
    /// Programs that it runs for its host, and memory for them. Omitted or false: none.
    #[serde(default, deserialize_with = "switch::deserialize", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Switch<Programs>")]
    pub programs: Option<Programs>,
}

impl Profile {
    /// Core cycles of each kind of work, those of tables and programs among them.
    pub fn cycles(&self) -> byteway_firmware::Cycles {
        let (cycles, csd) = (&self.firmware.cycles, &self.csd);
        byteway_firmware::Cycles::default()
            .with(WorkKind::Fetch, cycles.fetch)
            .with(WorkKind::Parse, cycles.parse)
            .with(WorkKind::Enter, cycles.enter)
            .with(WorkKind::Translate, cycles.translate)
            .with(WorkKind::Buffer, cycles.buffer)
            .with(WorkKind::Complete, cycles.complete)
            .with(WorkKind::Collect, cycles.collect)
            .with(WorkKind::Dma, cycles.dma)
            .with(WorkKind::Chunk, cycles.chunk)
            .with(WorkKind::Index, cycles.index)
            .with(WorkKind::Pack, cycles.pack)
            .with(WorkKind::Compact, cycles.compact)
            .with(WorkKind::Poll, cycles.poll)
            .with(WorkKind::Task, csd.task_cycles)
            .with(WorkKind::Decode, csd.decode_cycles)
            .with(WorkKind::Encode, csd.encode_cycles)
            .with(WorkKind::Evaluate, csd.evaluate_cycles)
            .with(WorkKind::Output, csd.output_cycles)
            .with(WorkKind::Program, self.programs.as_ref().map_or(0, |programs| programs.cycles))
    }
}

/// Name and capacity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Drive {
    /// Model number, as Identify Controller reports it: at most 40 ASCII characters.
    pub model: String,
    /// Capacity visible to the host, over all namespaces: 1 GiB to 64 TiB, a multiple of 1 MiB.
    pub capacity: Bytes,
}

/// The PCIe link between host and drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// PCIe generation, 1 to 6.
    pub generation: u8,
    /// Number of lanes: 1, 2, 4, 8, 12, 16 or 32.
    pub lanes: u8,
    /// Maximum payload of a packet: a power of two from 128 B to 4 KiB.
    pub mps: Bytes,
    /// Maximum read request: a power of two from 128 B to 4 KiB.
    pub mrrs: Bytes,
    /// Read completion boundary: 64 B or 128 B.
    pub rcb: Bytes,
    /// Outstanding read requests, at most.
    pub read_tags: u16,
    /// Latency from one end of the link to the other, in addition to the serialization time.
    pub propagation: Picos,
    /// Time from a read request's arrival at the host to the departure of its data.
    pub memory_latency: Picos,
}

impl Link {
    /// The link to build.
    ///
    /// # Panics
    /// Never for a loaded profile, whose generation was checked.
    pub fn config(&self) -> PcieConfig {
        PcieConfig {
            generation: Generation::from_number(self.generation.into()).expect("the profile was checked"),
            lanes: self.lanes.into(),
            mps: self.mps.0 as u32,
            mrrs: self.mrrs.0 as u32,
            rcb: self.rcb.0 as u32,
            read_tags: self.read_tags.into(),
            propagation: delay(self.propagation),
            memory_latency: delay(self.memory_latency),
            slowdown: 1,
        }
    }
}

/// Limits of the NVMe controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// Number of I/O submission queues, and of completion queues.
    pub max_io_queues: u16,
    /// Entries of a queue: CAP.MQES + 1.
    pub max_queue_entries: u32,
    /// Commands executed at a time, over all queues.
    pub command_slots: u32,
    /// Outstanding reads of queue entries, at most.
    pub fetch_outstanding: u16,
    /// Queue entries per read, at most.
    pub fetch_burst: u16,
    /// Maximum data transfer size: a power of two from 8 KiB to 16 MiB.
    pub mdts: Bytes,
    /// Doorbell stride, CAP.DSTRD: doorbells are 4 << dstrd bytes apart.
    pub dstrd: u8,
    /// Whether SGLs are supported.
    #[serde(default)]
    pub sgl: bool,
    /// Granularity in which host data described by PRPs is fetched; 1 B (the default) is exact, as for SGLs.
    #[serde(default = "exact")]
    pub dma_unit: Bytes,
    /// Arbitration burst: consecutive commands from one queue, a power of two up to 64. Default: unlimited.
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
    /// Where the firmware runs. Default: on the drive's own cores.
    #[serde(default, skip_serializing_if = "is_device")]
    pub placement: FirmwarePlacement,
    /// Parts of the firmware that run on the host. Omitted or false: none, or with `placement = "host"` all.
    #[serde(default, deserialize_with = "switch::deserialize", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Switch<OnHost>")]
    pub on_host: Option<OnHost>,
    /// Number of cores that share the work; on the host, the minimum number of processors.
    pub cores: u16,
    /// Clock of a core.
    pub clock: Frequency,
    /// Cost of each kind of work.
    pub cycles: Cycles,
    /// Waits of a command that occupy no core.
    #[serde(default)]
    pub latency: FirmwareLatency,
    /// DRAM for written data until it is programmed.
    pub write_buffer: Bytes,
    /// Which die programs the next stripe of written data. Default: "ready".
    #[serde(default, skip_serializing_if = "is_ready")]
    pub striping: Striping,
    /// What the firmware does for itself with all dies, and that stops programs. Omitted or false: nothing.
    #[serde(default, deserialize_with = "switch::deserialize", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Switch<Housekeeping>")]
    pub housekeeping: Option<Housekeeping>,
    /// Thermal throttling, by the temperature that a scenario gives the drive (`drive.temperature`). Omitted or false: none.
    #[serde(default, deserialize_with = "switch::deserialize", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Switch<Throttle>")]
    pub throttle: Option<Throttle>,
    /// Merging of writes that cover a unit only in part, one at a time. Omitted or false: it takes no time.
    #[serde(default, deserialize_with = "switch::deserialize", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Switch<Merge>")]
    pub merge: Option<Merge>,
    /// Power-loss protection: a completed write survives a power cut.
    #[serde(default)]
    pub plp: bool,
    /// Overprovisioning: spare flash relative to the capacity, in addition to open blocks and those reserved
    /// for garbage collection (`gc.urgent`).
    pub op: Percent,
    /// Garbage collection.
    pub gc: Gc,
    /// Which open superblock a write goes to: the name of a policy.
    #[serde(
        default = "by_default::<dyn Stream>",
        deserialize_with = "policy_name::deserialize::<dyn Stream, _>",
        skip_serializing_if = "is_default::<dyn Stream>"
    )]
    pub streams: String,
    /// Programmed bytes after which a checkpoint of the map is written, as a share of the capacity, in
    /// addition to checkpoints at shutdown and when the journal is half full; "0 %": no others. Default: 10
    /// %.
    #[serde(default = "upkeep::ten_percent")]
    pub checkpoint: Percent,
    /// DRAM for a map cache, in pages of 4 KiB with 1024 units each; missing pages are read from flash.
    /// Omitted or false: the whole map is in DRAM.
    #[serde(default, deserialize_with = "switch::deserialize")]
    #[schemars(with = "Switch<Bytes>")]
    pub map_cache: Option<Bytes>,
    /// The map as a tree of extents: memory and look-ups depend on the fragmentation of written data. Omitted
    /// or false: the map has an entry per 4 KiB.
    #[serde(default, deserialize_with = "switch::deserialize", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Switch<ExtentTree>")]
    pub extents: Option<ExtentTree>,
    /// DRAM for partial writes of 4 KiB units: they are acknowledged from there, and merged with the rest in
    /// the background. Omitted or false: such a write first reads the rest.
    #[serde(default, deserialize_with = "switch::deserialize", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Switch<Bytes>")]
    pub absorb: Option<Bytes>,
    /// DRAM for a read cache. Omitted or false: none.
    #[serde(default, deserialize_with = "switch::deserialize", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Switch<Bytes>")]
    pub read_cache: Option<Bytes>,
    /// Which units that the host reads the read cache keeps: the name of a policy. Requires `read_cache`.
    #[serde(
        default = "by_default::<dyn policy::Admission>",
        deserialize_with = "policy_name::deserialize::<dyn policy::Admission, _>",
        skip_serializing_if = "is_default::<dyn policy::Admission>"
    )]
    pub admission: String,
    /// What is read ahead of the host, into the read cache: the name of a policy. Requires `read_cache`.
    #[serde(
        default = "by_default::<dyn policy::Prefetch>",
        deserialize_with = "policy_name::deserialize::<dyn policy::Prefetch, _>",
        skip_serializing_if = "is_default::<dyn policy::Prefetch>"
    )]
    pub prefetch: String,
    /// Host memory that the drive requests for pages of the map in addition to those in DRAM (Host Memory
    /// Buffer). Requires `map_cache`. Omitted or false: none.
    #[serde(default, deserialize_with = "switch::deserialize", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Switch<Bytes>")]
    pub host_buffer: Option<Bytes>,
    /// Wear leveling. Omitted or false: none.
    #[serde(default, deserialize_with = "switch::deserialize")]
    #[schemars(with = "Switch<Wear>")]
    pub wear: Option<Wear>,
    /// Refresh: moving data that is old, or whose block was read often. Omitted or false: none.
    #[serde(default, deserialize_with = "switch::deserialize")]
    #[schemars(with = "Switch<Refresh>")]
    pub refresh: Option<Refresh>,
}

/// Core cycles of each piece of work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cycles {
    /// Per command: taking its entry from the queue.
    pub fetch: u64,
    /// Per command: validating and dispatching it.
    pub parse: u64,
    /// Per command, for firmware on the host: entering the translation layer from the driver. Default: 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub enter: u64,
    /// Per 4 KiB of a command: looking up or updating its map entry.
    pub translate: u64,
    /// Per 4 KiB of a command: moving it through the buffer.
    pub buffer: u64,
    /// Per command: posting its completion.
    pub complete: u64,
    /// Per 4 KiB that garbage collection moves.
    pub collect: u64,
    /// Per 4 KiB of a payload, or a part of it, with a data pointer: setting up its DMA. Default: 0.
    #[serde(default)]
    pub dma: u64,
    /// Per queue entry that carries payload: taking it. Default: 0.
    #[serde(default)]
    pub chunk: u64,
    /// Per key-value command: looking up or updating its index entry. Default: 0.
    #[serde(default)]
    pub index: u64,
    /// Per 64 B of a value that the processor copies into place. Default: 0.
    #[serde(default)]
    pub pack: u64,
    /// Per entry of a key-value index that compaction merges. Default: 0.
    #[serde(default)]
    pub compact: u64,
    /// Per poll for a commit record. Default: 0.
    #[serde(default)]
    pub poll: u64,
}

/// Fixed waits of a command that occupy no core: hardware stages, and the unexplained part of a measured
/// total.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FirmwareLatency {
    /// Delay of a read of at most 4 KiB.
    #[serde(default)]
    pub read: Picos,
    /// Delay of a longer read. Default: as `read`.
    #[serde(default)]
    pub read_large: Option<Picos>,
    /// Delay of a write.
    #[serde(default)]
    pub write: Picos,
}

/// Writes that are no whole units are merged with the rest of their units, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Merge {
    /// What the drive maps and protects by a code as a whole: a power of two from 4 KiB to 256 KiB.
    pub unit: Bytes,
    /// Time of a write.
    pub command: Picos,
    /// Time of its bytes in addition, as a rate. Default: 1 TB/s.
    #[serde(default = "at_once")]
    pub rate: Rate,
    /// Time for each write that still waits to be merged: it is searched for another part of the same unit. Default: none.
    #[serde(default = "no_time", skip_serializing_if = "is_no_time")]
    pub search: Picos,
    /// Waiting writes that are searched, at most. Default: 16.
    #[serde(default = "sixteen", skip_serializing_if = "is_sixteen")]
    pub searched_max: u16,
}

fn no_time() -> Picos {
    Picos(0)
}

fn is_no_time(time: &Picos) -> bool {
    time.0 == 0
}

fn sixteen() -> u16 {
    16
}

fn is_sixteen(count: &u16) -> bool {
    *count == 16
}

/// Which die programs the next stripe of written data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Striping {
    /// The next one that is not busy.
    #[default]
    Ready,
    /// All dies strictly one after the other, as with parity over them: a write that finds the buffer full waits for one die, though others
    /// are idle.
    InTurn,
}

fn is_ready(striping: &Striping) -> bool {
    *striping == Striping::Ready
}

/// What the firmware does for itself with all dies: its records, parity, blocks to prepare. No program begins meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Housekeeping {
    /// Written data between two such times.
    pub every: Bytes,
    /// How long one takes.
    pub time: Picos,
}

fn at_once() -> Rate {
    Rate(1_000_000_000_000)
}

/// Garbage collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gc {
    /// Selection of the next victim block: the name of a policy.
    #[serde(deserialize_with = "policy_name::deserialize::<dyn policy::Victim, _>")]
    pub policy: String,
    /// Share of free blocks of a plane at which garbage collection starts; at least two blocks.
    pub start: Percent,
    /// Share of free blocks of a plane at which host writes wait for garbage collection; at least one block.
    pub urgent: Percent,
    /// Garbage collection while the host is idle. Omitted or false: none.
    #[serde(default, deserialize_with = "switch::deserialize")]
    #[schemars(with = "Switch<Background>")]
    pub background: Option<Background>,
}

/// The drive's own memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dram {
    /// Bandwidth in bytes per second, both directions together.
    pub bandwidth: Rate,
    /// Latency of one access.
    pub latency: Picos,
}

/// The flash array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// Number of channels.
    pub channels: u32,
    /// Chips per channel.
    pub ways: u32,
    /// Dies per chip.
    #[serde(default = "one")]
    pub dies: u32,
    /// Planes per die: 1, 2, 4 or 8.
    pub planes: u32,
    /// Blocks per plane. Default: derived from the capacity and `op`.
    #[serde(default)]
    pub blocks: Option<u32>,
    /// Pages per block.
    pub pages: u32,
    /// Size of a page: a power of two from 4 KiB to 256 KiB.
    pub page: Bytes,
    /// Bandwidth of a channel.
    pub channel_rate: Rate,
    /// Time of command and address cycles on the channel, per operation.
    pub command: Picos,
    /// Time to read a page into the die's register, for each page type in turn.
    pub read: Vec<Picos>,
    /// Measured quantiles of the time of a read, relative to `read` (and `read_partial`, `read_map`, `slc.read`): pairs of a share of the reads
    /// and the factor that they are not above, from `"0 %"` to `"100 %"`, such as `[["0 %", 0.9], ["50 %", 1], ["99 %", 1.3], ["100 %", 2]]`.
    /// Between two of them the distribution is a straight line. Each read of a page draws anew. At most 64. Default: all reads take `read`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_quantiles: Option<Vec<Quantile>>,
    /// As `read`, for at most 4 KiB of the page. Default: as `read`.
    #[serde(default)]
    pub read_partial: Option<Vec<Picos>>,
    /// Time to read a page of the map, where the firmware keeps these in faster pages. Default: as any page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_map: Option<Picos>,
    /// Time to program a page, for each page type in turn; a single value applies to all.
    pub program: Vec<Picos>,
    /// How far the program time of a wordline may be from `program`: layers and blocks differ. At most 99 %. Default: all are alike.
    #[serde(default = "none_of_it", skip_serializing_if = "is_none_of_it")]
    pub program_spread: Percent,
    /// Time to erase a block.
    pub erase: Picos,
    /// Erase cycles that a block endures; SMART's Percentage Used refers to it.
    pub endurance: u32,
    /// Blocks per plane reserved to replace bad blocks, in addition to the spare flash of `firmware.op`.
    /// Default: none; bad blocks then reduce that.
    #[serde(default)]
    pub spare_blocks: u32,
    /// Maximum number of these per die that the manufacturer marks bad: each die draws a number up to this.
    #[serde(default)]
    pub factory_bad_blocks: u32,
    /// Blocks with one bit per cell, to which host writes go first. Omitted or false: none.
    #[serde(default, deserialize_with = "switch::deserialize")]
    #[schemars(with = "Switch<Slc>")]
    pub slc: Option<Slc>,
    /// Suspension of programs and erases for reads of the host. Omitted or false: reads wait for their end.
    #[serde(default, deserialize_with = "switch::deserialize")]
    #[schemars(with = "Switch<Suspend>")]
    pub suspend: Option<Suspend>,
    /// Which of the operations that wait for a die is next: the name of a policy.
    #[serde(
        default = "by_default::<dyn Schedule>",
        deserialize_with = "policy_name::deserialize::<dyn Schedule, _>",
        skip_serializing_if = "is_default::<dyn Schedule>"
    )]
    pub schedule: String,
    /// Cache reads: whether a die senses the next page while the previous one is transferred. Default: false.
    #[serde(default)]
    pub cache_read: bool,
    /// Priority of dies that wait for a channel. Default: commands first.
    #[serde(default, with = "cells::ChannelOrderWord")]
    pub channel_order: ChannelOrder,
    /// Bit errors and failures of cells, and read retries. Omitted or false: none.
    #[serde(default, deserialize_with = "switch::deserialize")]
    #[schemars(with = "Switch<Reliability>")]
    pub reliability: Option<Reliability>,
}

fn one() -> u32 {
    1
}

fn none_of_it() -> Percent {
    Percent(0.0)
}

fn is_none_of_it(share: &Percent) -> bool {
    share.0 == 0.0
}

fn delay(time: Picos) -> Delay {
    Delay::from_ps(time.0)
}

/// A host: the cost of its software.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostProfile {
    /// Cores for jobs.
    pub cores: u16,
    /// Processor time of a submission: from the application until before its doorbell.
    pub submit: Picos,
    /// Processor time of a completion: from its entry to the application.
    pub complete: Picos,
    /// Processor time to place one more queue entry with payload, behind a command or as a chunk. Default: 0.
    #[serde(default)]
    pub chunk: Picos,
    /// Time from a completion to the next command of the same payload, where one waits for the other.
    /// Default: 0.
    #[serde(default)]
    pub turnaround: Picos,
    /// A write-combined store of 64 B to the drive's buffer, or a non-temporal store to its memory. Default:
    /// 0.
    #[serde(default)]
    pub store: Picos,
    /// Storing a line of 64 B to the drive's memory and flushing it, without the link's time for that.
    /// Default: 0.
    #[serde(default)]
    pub flush: Picos,
    /// With `transfer.method = "sgl"`: shorter payloads use PRPs, as some drivers do. Default: 0 B.
    #[serde(default)]
    pub sgl_min: Bytes,
    /// Memory that the system occupies before any I/O. Default: 0.
    #[serde(default, skip_serializing_if = "is_no_bytes")]
    pub memory: Bytes,
    /// How the host detects completions.
    pub completion: Completion,
    /// Time from an interrupt's arrival to its handler.
    #[serde(default)]
    pub interrupt: Picos,
    /// The processor that handles interrupts. Default: a dedicated one for each drive.
    #[serde(default)]
    pub interrupts: Interrupts,
    /// Time after which a command is aborted.
    #[serde(default = "thirty_seconds")]
    pub timeout: Picos,
}

fn thirty_seconds() -> Picos {
    Picos(30_000_000_000_000)
}

/// The processor that handles interrupts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Interrupts {
    /// A dedicated one for each drive.
    #[default]
    Own,
    /// The processor of the queue that the completion belongs to.
    Queue,
}

/// The derived and validated geometry of the flash array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Geometry {
    /// Number of channels.
    pub channels: u32,
    /// Chips per channel.
    pub ways: u32,
    /// Dies per chip.
    pub dies: u32,
    /// Planes per die.
    pub planes: u32,
    /// Blocks per plane.
    pub blocks: u32,
    /// Pages per block.
    pub pages: u32,
    /// Bytes per page.
    pub page_bytes: u32,
    /// Capacity visible to the host, in bytes.
    pub capacity_bytes: u64,
    /// Free blocks of a plane at which garbage collection starts.
    pub gc_start_blocks: u32,
    /// Free blocks of a plane at which host writes wait for garbage collection.
    pub gc_urgent_blocks: u32,
}

impl Geometry {
    /// That of the array. Chips per channel and dies per chip are equivalent there: each die has its own sequencer.
    pub fn array(&self) -> byteway_flash::Geometry {
        byteway_flash::Geometry {
            channels: self.channels,
            ways: self.ways * self.dies,
            planes: self.planes,
            blocks: self.blocks,
            pages: self.pages,
            page_bytes: self.page_bytes,
        }
    }

    /// Number of dies.
    pub fn die_count(&self) -> u32 {
        self.channels * self.ways * self.dies
    }

    /// Number of planes.
    pub fn plane_count(&self) -> u32 {
        self.die_count() * self.planes
    }

    /// Size of all flash, in bytes.
    pub fn raw_bytes(&self) -> u64 {
        u64::from(self.plane_count())
            * u64::from(self.blocks)
            * u64::from(self.pages)
            * u64::from(self.page_bytes)
    }
}

/// Blocks of a plane that hold no data during continuous writes, in addition to those reserved for garbage
/// collection: on average half a block, partly free or open. The translation layer uses the same figure
/// (`FtlConfig::user_units_at`).
const OPEN_BLOCKS: f64 = 0.5;
/// Blocks of a plane up to which a capacity is looked for that has its spare.
const BLOCKS_SEARCHED: u32 = 1 << 14;

/// Maximum number of 4 KiB units that the planes of a die read or program at once.
const STRIPE_UNITS_MAX: u64 = 64;

/// Rows of blocks over all dies, at most.
const ROWS_MAX: u64 = byteway_flash::Geometry::BLOCKS_MAX as u64;
const UNITS_MAX: u64 = byteway_flash::Geometry::UNITS_MAX as u64;

/// Bytes of a map page in DRAM.
pub const MAP_PAGE_BYTES: u64 = 4096;

/// Units of 4 KiB in the write buffer, at most.
const BUFFER_UNITS_MAX: u64 = 1 << 24;

impl Profile {
    /// A built-in profile; `None` if the name is unknown.
    pub fn built_in(name: &str) -> Option<Profile> {
        load::built_in(&DRIVES, name, "profile")
    }

    /// Checks that the constants describe a possible drive. [`Profile::geometry`] checks the capacity.
    pub(crate) fn check(&self) -> Result<(), KeyError> {
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
        self.kv.check()?;
        self.csd.check()?;
        self.programs.as_ref().map_or(Ok(()), |programs| self.check_programs(programs))
    }

    /// Validates the programs, and checks that such a drive can have them.
    fn check_programs(&self, programs: &Programs) -> Result<(), KeyError> {
        programs.check(self.controller.command_slots)?;
        let who = match self.firmware.placement {
            FirmwarePlacement::Device => return Ok(()),
            FirmwarePlacement::Host => "a drive whose firmware runs on the host",
            FirmwarePlacement::Bridge => "a drive that is several behind a bridge",
        };
        Err(fault(
            "programs",
            format!("`programs`: {who} has blocks only"),
            "leave it out, or set it to false",
        ))
    }

    /// Whether the firmware runs on the host.
    pub fn is_hosted(&self) -> bool {
        self.firmware.placement == FirmwarePlacement::Host
    }

    /// Whether some of the firmware, or all, runs on the host.
    pub fn takes_host(&self) -> bool {
        self.is_hosted() || self.firmware.on_host.is_some()
    }

    /// Number of complete drives behind its bridge; 1 without a bridge.
    pub fn members(&self) -> u16 {
        self.bridge.as_ref().map_or(1, |bridge| bridge.members)
    }

    /// Checks a bridge, and the rest of the profile against it.
    fn check_bridge(&self) -> Result<(), KeyError> {
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

    /// Checks the endpoints, and the rest of the profile against them.
    fn check_endpoints(&self) -> Result<(), KeyError> {
        if let Some(part) = &self.firmware.on_host {
            part.check()?;
            if self.is_hosted()
                || part.map && (self.firmware.map_cache.is_some() || self.firmware.extents.is_some())
            {
                let what = "`firmware.on_host`: with `placement = \"host\"` the whole firmware runs on the host, and its map is a table \
                     in memory: no `map_cache`, no `extents`";
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
        let wrong = |key: &str, what: &str, help: &str| Err(fault(key, what, help));
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

    fn check_link(&self) -> Result<(), KeyError> {
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

    fn check_controller(&self) -> Result<(), KeyError> {
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

    fn check_firmware(&self) -> Result<(), KeyError> {
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
        if let Some(merge) = &firmware.merge {
            power_of_two("firmware.merge.unit", merge.unit, 4096, 256 << 10)?;
            within("firmware.merge.command", merge.command, Picos(0), MILLISECOND)?;
            within("firmware.merge.rate", merge.rate, Rate(1_000_000), at_once())?;
            within("firmware.merge.search", merge.search, Picos(0), MILLISECOND)?;
            within("firmware.merge.searched_max", merge.searched_max, 1, 1024)?;
        }
        if let Some(housekeeping) = &firmware.housekeeping {
            within("firmware.housekeeping.every", housekeeping.every, Bytes(1 << 20), Bytes(1 << 40))?;
            within("firmware.housekeeping.time", housekeeping.time, Picos(0), SECOND)?;
        }
        firmware.throttle.iter().try_for_each(Throttle::check)?;
        within("firmware.op", firmware.op, Percent(1.0), Percent(400.0))?;
        within("firmware.gc.start", firmware.gc.start, Percent(0.0), Percent(50.0))?;
        within("firmware.gc.urgent", firmware.gc.urgent, Percent(0.0), firmware.gc.start)?;
        firmware.check_upkeep()?;
        within("dram.bandwidth", self.dram.bandwidth, Rate(1_000_000), Rate(1_000_000_000_000))?;
        within("dram.latency", self.dram.latency, Picos(0), MILLISECOND)
    }

    fn check_flash(&self) -> Result<(), KeyError> {
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
        within("flash.program_spread", flash.program_spread, Percent(0.0), Percent(99.0))?;
        within("flash.erase", flash.erase, Picos(1), SECOND)?;
        let types = flash.read.len();
        page_times("flash.read", &flash.read, types.clamp(1, 8))?;
        if let Some(times) = &flash.read_partial {
            page_times("flash.read_partial", times, types)?;
        }
        if let Some(time) = flash.read_map {
            within("flash.read_map", time, Picos(1), SECOND)?;
        }
        flash.quantiles().map_err(|error| {
            let help = "give pairs of a share and a factor, both ascending, from \"0 %\" to \"100 %\"";
            fault("flash.read_quantiles", format!("`flash.read_quantiles`: {error}"), help)
        })?;
        page_times("flash.program", &flash.program, if flash.program.len() == 1 { 1 } else { types })?;
        within(
            "firmware.write_buffer",
            self.firmware.write_buffer,
            row,
            Bytes(BUFFER_UNITS_MAX * MAP_UNIT_BYTES),
        )
    }

    /// The geometry for `capacity`, which must be a multiple of 1 MiB from 1 GiB to 64 TiB.
    ///
    /// Without `flash.blocks`, the number of blocks follows from `op`, the capacity, open and reserved
    /// blocks, `flash.spare_blocks` and `flash.slc`. In any case at least one percent of the capacity must be
    /// spare, in addition to the blocks that are free when garbage collection rests: with less it would never
    /// rest.
    pub(crate) fn geometry(&self, capacity: Bytes) -> Result<Geometry, KeyError> {
        let narrow = self.geometry_with(capacity, false)?;
        if !is_wide(&narrow) {
            return Ok(narrow);
        }
        self.geometry_with(capacity, true)
    }

    /// Spare flash over what the drive holds, net of what holds no data: `firmware.op`, up to whole blocks. A plane of a small drive
    /// has few blocks, and as many as garbage collection needs at least.
    pub fn spare(&self, geometry: &Geometry) -> f64 {
        let idle = f64::from(self.flash.reserved_blocks() + geometry.gc_urgent_blocks) + OPEN_BLOCKS;
        let bytes =
            f64::from(geometry.plane_count()) * f64::from(geometry.pages) * f64::from(geometry.page_bytes);
        let net = (f64::from(geometry.blocks) - idle) * bytes;
        net / self.held_bytes(geometry.capacity_bytes, is_wide(geometry)) as f64 - 1.0
    }

    /// Whether random overwrites are amplified as `firmware.op` makes them, within a tenth.
    pub fn has_its_spare(&self, geometry: &Geometry) -> bool {
        let asked = greedy_write_amplification(self.firmware.op.0 / 100.0);
        self.flash.blocks.is_some()
            || (greedy_write_amplification(self.spare(geometry)) / asked - 1.0).abs() <= 0.1
    }

    /// The smallest capacity from `capacity` on at which [`Profile::has_its_spare`].
    pub fn capacity_with_its_spare(&self, capacity: Bytes) -> Option<Bytes> {
        let found = self.geometry(capacity).ok()?;
        let block = f64::from(found.plane_count()) * f64::from(found.pages) * f64::from(found.page_bytes);
        // Where blocks come out whole.
        let whole = |blocks: u32| {
            let idle = f64::from(self.flash.reserved_blocks() + found.gc_urgent_blocks) + OPEN_BLOCKS;
            let bytes = (f64::from(blocks) - idle) * block / (1.0 + self.firmware.op.0 / 100.0);
            Bytes((bytes as u64) >> 20 << 20)
        };
        (found.blocks..found.blocks.saturating_add(BLOCKS_SEARCHED))
            .map(whole)
            .filter(|whole| *whole >= capacity)
            .find(|whole| self.geometry(*whole).is_ok_and(|geometry| self.has_its_spare(&geometry)))
    }

    /// Blocks of a plane that the drive takes at least, with one stream of the host and one of garbage collection.
    pub(crate) fn least_blocks(&self, geometry: &Geometry) -> u64 {
        let plane =
            u64::from(geometry.pages) * u64::from(geometry.page_bytes) * u64::from(geometry.plane_count());
        let user = self.held_bytes(geometry.capacity_bytes, is_wide(geometry)).div_ceil(plane);
        least_blocks(user, geometry.gc_start_blocks.into(), self.flash.reserved_blocks().into())
    }

    /// Bytes that always occupy flash: a map that is not completely in DRAM is stored there in addition to the data.
    fn held_bytes(&self, capacity: u64, is_wide: bool) -> u64 {
        let map_pages = byteway_firmware::Space::new(capacity / MAP_UNIT_BYTES, is_wide).map.1;
        capacity + if self.firmware.map_cache.is_some() { map_pages * MAP_UNIT_BYTES } else { 0 }
    }

    /// Like [`Profile::geometry`]; `is_wide` tells whether map entries have 8 bytes.
    fn geometry_with(&self, capacity: Bytes, is_wide: bool) -> Result<Geometry, KeyError> {
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
        // At most 2^10 x 2^6 x 2^3 planes, 2^13 pages, 2^18 bytes: the products are far below 2^64.
        let planes = u64::from(flash.channels * flash.ways * flash.dies * flash.planes);
        let block_bytes = u64::from(flash.pages) * flash.page.0;
        let held_bytes = self.held_bytes(capacity.0, is_wide);
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
        let least = least_blocks(user, start, reserved);
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

/// Blocks of a plane for `user` of data, so many kept free and so many set aside: an open one, and one percent spare.
fn least_blocks(user: u64, kept_free: u64, set_aside: u64) -> u64 {
    user + (user / 100).max(1) + kept_free + 1 + set_aside
}

/// Whether map entries of a drive have 8 bytes.
fn is_wide(geometry: &Geometry) -> bool {
    geometry.raw_bytes() / MAP_UNIT_BYTES > byteway_flash::Geometry::NARROW_UNITS_MAX
}

fn page_times(path: &str, times: &[Picos], types: usize) -> Result<(), KeyError> {
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
    /// A built-in profile; `None` if the name is unknown.
    pub fn built_in(name: &str) -> Option<HostProfile> {
        load::built_in(&HOSTS, name, "host profile")
    }

    pub(crate) fn check(&self) -> Result<(), KeyError> {
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

/// Describes the key `at` of a policy by the policies, each with its name and what it does. `default` is what a profile without the key has, if
/// it need not have it: schemars leaves that out where a default is not written to files.
fn describe<'a>(
    defs: &mut Option<serde_json::Value>,
    (at, default): (&str, Option<String>),
    what: &str,
    policies: impl Iterator<Item = (&'a str, &'a str)>,
) {
    if let Some(key) = defs.as_mut().and_then(|defs| defs.pointer_mut(at)) {
        let each: Vec<String> = policies.map(|(name, about)| format!("`{name}`: {about}")).collect();
        key["description"] = json!(format!("{what} {}", each.join(" ")));
        if let Some(default) = default {
            key["default"] = json!(default);
        }
    }
}

/// The JSON schema of a drive profile: all of its sections, or a base and the differences from it. It names the built-in policies and
/// these.
pub fn profile_schema(policies: &Policies) -> serde_json::Value {
    let mut whole = schemars::schema_for!(Profile).to_value();
    let mut defs = whole.as_object_mut().and_then(|schema| schema.remove("$defs"));
    let own = [("FILE.o", "What an eBPF program chooses.")];
    describe(
        &mut defs,
        ("/Gc/properties/policy", None),
        "Selection of the next victim block.",
        policies.each::<dyn policy::Victim>().chain(own),
    );
    describe(
        &mut defs,
        ("/Firmware/properties/streams", Some(by_default::<dyn Stream>())),
        "Which open superblock a write goes to.",
        policies.each::<dyn Stream>().chain(own),
    );
    describe(
        &mut defs,
        ("/Firmware/properties/admission", Some(by_default::<dyn policy::Admission>())),
        "Which units that the host reads the read cache keeps. Requires `read_cache`.",
        policies.each::<dyn policy::Admission>(),
    );
    describe(
        &mut defs,
        ("/Firmware/properties/prefetch", Some(by_default::<dyn policy::Prefetch>())),
        "What is read ahead of the host, into the read cache. Requires `read_cache`.",
        policies.each::<dyn policy::Prefetch>(),
    );
    describe(
        &mut defs,
        ("/Flash/properties/schedule", Some(by_default::<dyn Schedule>())),
        "Which of the operations that wait for a die is next.",
        policies.each::<dyn Schedule>().chain(own),
    );
    describe(
        &mut defs,
        ("/Suspend/properties/policy", Some(by_default::<dyn policy::Suspend>())),
        "Which programs and erases are suspended.",
        policies.each::<dyn policy::Suspend>().chain(own),
    );
    // Without the key the other two decide, so that there is no default to state as a value.
    let wear = format!(
        "Which free block is written next, and whose data is moved, in place of `dynamic` and `static_spread`. Default: what these say, and \
         without them `{}`.",
        by_default::<dyn policy::Wear>()
    );
    describe(&mut defs, ("/Wear/properties/policy", None), &wear, policies.each::<dyn policy::Wear>());
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

    // A built-in profile that does not parse would break every scenario that names it.
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

    // A constant without a source cannot be checked, so a wrong one would never be found.
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

    /// Serialization time of `bytes` on a profile's link, in picoseconds.
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

    /// Link time of a command without its data, in picoseconds: doorbell, fetch and completion.
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

    // The papers' totals include the link time: firmware time equal to the whole total would count it twice.
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
        // Two of eight requests are sent at a time, a quarter of the tags; received data goes to DRAM
        // meanwhile.
        let page = wire_ps(&profile, 2 * 24) + round_trip + wire + profile.dram.latency.0;
        assert!(dram_ps(&profile, 4096) < page);
        near(page + cycles_ps(&profile, cycles.dma), 2620);
        let chunk = host.chunk.0 + fetch + cycles_ps(&profile, cycles.chunk);
        near(chunk + profile.transfer.chunk_store.0, 630);
        near(host.turnaround.0, 3250);
    }

    // A faster link must save exactly the difference in wire time: the constants of the board are shared.
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
        // A read accesses the map in DRAM; it moves no data through the buffer.
        let read = cycles.fetch + cycles.parse + cycles.complete + cycles.translate;
        let read = command_ps(&profile) + profile.dram.latency.0 + cycles_ps(&profile, read);
        near(read + latency.read.0, 21_500);
        near(read + latency.read_large.unwrap().0, 30_490);
        let round_trip = 2 * profile.link.propagation.0 + profile.link.memory_latency.0;
        // All eight requests of a page are sent at once.
        near(common + round_trip + wire_ps(&profile, 8 * 24) + latency.write.0, 4_460);
        let more = dram_ps(&profile, 4096) - profile.dram.latency.0;
        near(more + cycles_ps(&profile, cycles.translate + cycles.buffer), 460);
    }

    // Golden: the number of blocks determines the frequency of garbage collection, so a change must be seen
    // and explained.
    #[test]
    fn blocks_follow_from_the_capacity() {
        let geometry = |name: &str, gib: u64| {
            let profile = drive(name);
            let Ok(geometry) = profile.geometry(Bytes(gib << 30)) else { panic!("{name}") };
            (geometry.plane_count(), geometry.blocks, geometry.gc_start_blocks, geometry.gc_urgent_blocks)
        };
        assert_eq!(geometry("samsung-970-pro", 512), (16, 4383 + 11 + 1, 44, 11));
        assert_eq!(geometry("samsung-970-pro", 1), (16, 9 + 2 + 1, 2, 1)); // the minimum that can collect garbage
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
