//! Builds drives from plans.

use super::defects::AnyDefect;
use super::plan::{
    ArraySpec, BaseSpec, DriveSpec, Fault, FlashVerb, FoundPolicies, LevelSpec, PartialSpec, Plan,
    ProgramsSpec, UpkeepSpec,
};
use super::programs_oracle::{FUEL, ROW_FUEL, SLOTS};
use byteway_array::{ArrayConfig, Level, NvramConfig, RebuildConfig};
use byteway_assembly::{
    ArrayDriveConfig, ArrayLocation, EndpointConfig, Hosted, HostedConfig, PartialConfig, power_on_partial,
};
use byteway_clock::{Clock, Delay, Executor, Rate, Station, Time};
use byteway_content::{BlockSize, Keep};
use byteway_defect::Planted;
use byteway_device::{
    ConfigError, ControllerConfig, CsdPolicy, DriveConfig, HostBufferConfig, KvPolicy, MediaConfig,
    NamespaceConfig, ProgramsPolicy, SiteConfig,
};
use byteway_firmware::policy::wear::Spread;
use byteway_firmware::policy::{VictimPolicy, WearPolicy};
use byteway_firmware::{
    Background, Base, DynamicCache, ExtentConfig, FtlConfig, Housekeeping, Maintenance, Refresh, Striping,
    WorkKind,
};
use byteway_flash::{
    ChannelOrder, FaultKind, FaultPlan, Geometry, Medium, SlcTiming, SuspendTiming, Throttle, Timing,
};
use byteway_host::{BaseState, Completion, HostCosts};
use byteway_kv::{KvConfig, UnitExtent};
use byteway_link::{Generation, Memory, PcieConfig, SwitchConfig};
use byteway_world::{DriveBay, PoweredDrive};
use std::rc::Rc;

/// Upper limit of a command's transfer in bytes (MDTS).
pub(super) const TRANSFER_BYTES_MAX: u32 = 128 << 10;

/// The PCIe link of every run.
pub(super) fn link() -> PcieConfig {
    PcieConfig {
        generation: Generation::Gen3,
        lanes: 4,
        mps: 256,
        mrrs: 512,
        rcb: 64,
        read_tags: 32,
        propagation: Delay::from_ns(100),
        memory_latency: Delay::from_ns(150),
        slowdown: 1,
    }
}

/// A host's single processor.
pub(super) fn processor(clock: &Clock) -> [Rc<Station>; 1] {
    [Rc::new(Station::new(clock, 1))]
}

/// The flash failures of a life. If the plan has any, the drive expects failures in all lives.
pub(super) fn faults(plan: &Plan, life: usize) -> FaultPlan {
    let of_life = |fault: &Fault| match *fault {
        Fault::Flash { verb, die, nth, life: of } if of == life => {
            let kind = match verb {
                FlashVerb::Read => FaultKind::Read,
                FlashVerb::Program => FaultKind::Program,
                FlashVerb::Erase => FaultKind::Erase,
            };
            Some(byteway_flash::Fault { die, kind, nth })
        }
        _ => None,
    };
    let never = byteway_flash::Fault { die: 0, kind: FaultKind::Read, nth: u64::MAX };
    let may_fail = plan.faults.iter().any(|fault| matches!(fault, Fault::Flash { .. }));
    let fails = plan.faults.iter().filter_map(of_life);
    FaultPlan::exactly(fails.chain(may_fail.then_some(never)))
}

/// The drive's configuration. Its times are short and not multiples of each other, so that events interleave in many ways.
pub(super) fn config(plan: &Plan) -> DriveConfig {
    let spec = &plan.drive;
    let (geometry, own) = (geometry(spec), SiteConfig::default());
    // A plan with a name that is none was refused.
    let FoundPolicies { victim, streams, admission, prefetch, .. } =
        spec.policies.found().unwrap_or_default();
    DriveConfig {
        model: "Byteway swarm drive".into(),
        serial: "SWARM".into(),
        controller: ControllerConfig {
            transfer_bytes_max: TRANSFER_BYTES_MAX,
            host_buffer: spec
                .host_buffer_pages
                .map(|pages| HostBufferConfig { preferred_units: pages, least_units: 1 }),
            ..ControllerConfig::default()
        },
        site: SiteConfig { cycles: own.cycles.with(WorkKind::Program, 1), ..own },
        geometry,
        timing: timing(spec),
        media: MediaConfig { faults: faults(plan, 0), ..MediaConfig::default() },
        ftl: FtlConfig {
            write_buffer_units: spec.buffer_units,
            absorbs_parts: spec.absorbs_parts,
            striping: if spec.in_turn { Striping::InTurn } else { Striping::Ready },
            housekeeping: (spec.housekeeping_units > 0)
                .then(|| Housekeeping { units: spec.housekeeping_units.into(), time: Delay::from_us(7) }),
            read_cache_units: spec.read_cache_units,
            admission,
            prefetch,
            extents: spec.extents.map(|entries| ExtentConfig {
                node_bytes: entries * EXTENT_BYTES,
                entry_bytes: EXTENT_BYTES,
                child_bytes: EXTENT_BYTES,
                ..ExtentConfig::default()
            }),
            gc: match spec.cost_benefit && spec.policies.victim.is_none() {
                true => VictimPolicy::built_in("cost-benefit").unwrap_or_default(),
                false => victim,
            },
            streams,
            gc_start_free_blocks: spec.collect_start,
            gc_reserve_blocks: spec.collect_reserve,
            plp: spec.protected,
            map_cache_pages: spec.map_cache_pages,
            wide_map: spec.wide_map,
            checkpoint_units: spec.checkpoint_units,
            upkeep: upkeep(&spec.upkeep),
            defect: plan.defect.and_then(AnyDefect::of_firmware),
            ..FtlConfig::default()
        },
        namespaces: spec
            .namespaces
            .iter()
            .map(|namespace| match (namespace.pairs, namespace.tables) {
                (true, _) => NamespaceConfig::key_value(namespace.units),
                (_, true) => NamespaceConfig::tables(namespace.units),
                _ => NamespaceConfig::blocks(namespace.units, block(namespace.block)),
            })
            .chain(spec.programs.iter().flat_map(|programs| {
                [NamespaceConfig::local_memory(programs.memory_units), NamespaceConfig::programs()]
            }))
            .collect(),
        base: match spec.base {
            BaseSpec::Empty => Base::Empty,
            BaseSpec::Filled => Base::Filled,
            BaseSpec::Steady => Base::Steady,
        },
        csd: spec.has_tables().then(|| CsdPolicy {
            timeout: CURSOR_TIMEOUT,
            group_rows: 300,
            buffer_bytes: 8192,
            cursors_max: 1024,
            defect: plan.defect.and_then(AnyDefect::of_device),
            store_defect: plan.defect.and_then(AnyDefect::of_tables),
            ..CsdPolicy::default()
        }),
        programs: spec.programs.map(|spec| programs(spec, plan.defect)),
        kv: spec.has_pairs().then(|| KvPolicy {
            store: KvConfig { defect: plan.defect.and_then(AnyDefect::of_kv), ..store(spec) },
            iterators_max: 1024,
            iterator_timeout: ITERATOR_TIMEOUT,
        }),
        // An index is not a test pattern. Other drives in memory keep contents in half of the runs, and release them once unused.
        keep: match !spec.files && (spec.has_pairs() || spec.has_tables() || plan.seed.is_multiple_of(2)) {
            true => Keep::Bytes,
            false => Keep::Stamps,
        },
        seed: plan.seed,
        ..DriveConfig::default()
    }
}

/// Size of an entry in a node of the extent tree, in bytes.
const EXTENT_BYTES: u32 = 24;

/// Timeout of an abandoned iterator.
pub(super) const ITERATOR_TIMEOUT: Delay = Delay::from_ms(100);

/// Timeout of an abandoned cursor or upload.
pub(super) const CURSOR_TIMEOUT: Delay = Delay::from_ms(100);

/// Limits of the drive's programs: the slots and fuel that the oracle assumes.
fn programs(spec: ProgramsSpec, defect: Planted<AnyDefect>) -> ProgramsPolicy {
    ProgramsPolicy {
        memory_bytes: spec.memory_units * 4096,
        programs: SLOTS,
        activated_max: SLOTS,
        fuel: FUEL,
        row_fuel: ROW_FUEL.row,
        filter_fuel: ROW_FUEL.all,
        defect: defect.and_then(AnyDefect::of_device),
        ..ProgramsPolicy::default()
    }
}

/// The store of a KV namespace.
fn store(spec: &DriveSpec) -> KvConfig {
    let kv = &spec.kv;
    KvConfig {
        page_units: spec.page_bytes / 4096,
        segment_units: kv.segment_units,
        packing: kv.packing,
        log_table_entries: kv.log_table,
        buffer_pages: kv.buffer_pages,
        memtable_bytes: kv.memtable_bytes,
        filter_bits_per_key: kv.filter_bits,
        filter_bytes: kv.filter_bytes,
        cache_units: kv.cache_units,
        l0_runs: kv.l0_runs,
        level_ratio: kv.level_ratio,
        value_bytes_max: kv.value_bytes_max,
        ..KvConfig::default()
    }
}

/// Smallest supported KV namespace in units.
pub(super) fn pairs_units_min(spec: &DriveSpec) -> u64 {
    let step = u64::from(spec.kv.segment_units.max(1));
    let fits = |units: &u64| {
        let extents = vec![UnitExtent { first: 0, count: *units }];
        KvConfig { extents, ..store(spec) }.check().is_ok()
    };
    (1..).map(|segments| segments * step).take(10_000).find(fits).unwrap_or(1 << 20)
}

/// Static wear leveling with this spread.
fn levelling(spread: u32) -> WearPolicy {
    WearPolicy::new(format!("static:{spread}"), None, move || Box::new(Spread::new(spread)))
}

fn upkeep(spec: &UpkeepSpec) -> Maintenance {
    Maintenance {
        wear: spec.static_spread.map_or_else(WearPolicy::default, levelling),
        spare_blocks: spec.spare_blocks,
        factory_bad_blocks: spec.factory_bad_blocks,
        background: spec
            .idle
            .map(|idle| Background { idle: Delay::from_us(idle.after_us), free_blocks: idle.free_blocks }),
        refresh: spec
            .refresh
            .map(|refresh| Refresh { reads: refresh.reads, age: Delay::from_us(refresh.age_us) }),
        slc_blocks: spec.slc_blocks,
        slc_dynamic: DynamicCache { most: spec.slc_dynamic, until: 2 * spec.slc_dynamic },
        slc_folds_idle: spec.slc_folds_idle,
    }
}

/// The configuration of the drive if its firmware runs on the host. `config` describes it to the host's workload.
pub(super) fn hosted(plan: &Plan, config: &DriveConfig) -> Option<HostedConfig> {
    let endpoints = plan.drive.endpoints;
    (endpoints > 0).then(|| HostedConfig {
        drive: config.clone(),
        endpoints,
        endpoint: EndpointConfig {
            controller: ControllerConfig { transfer_bytes_max: 1 << 20, ..config.controller.clone() },
            site: config.site.clone(),
            link: link(),
        },
        switch: (endpoints > 1).then(|| SwitchConfig {
            upstream: link(),
            latency: Delay::from_ns(150),
            buffer_bytes: 4096,
        }),
        lanes: 1 + (plan.seed % 16) as usize,
        costs: HostCosts::default(),
        completion: if plan.host.interrupts { Completion::Interrupt } else { Completion::Polled },
        is_locked: plan.seed.is_multiple_of(2),
        bounce: None,
        call: plan.seed.is_multiple_of(3).then(|| Delay::from_ns(700)),
    })
}

/// Upper limit of an array's metadata on a member, in units.
pub(super) fn array_overhead(spec: &ArraySpec) -> u64 {
    // Marks of lost units, the journal, two records, the log, two superblocks, and an incomplete chunk.
    let journal = 2 * (u64::from(spec.members) * u64::from(spec.chunk_units) + 1);
    1 + journal.max(64) + 64 + 1 + 2 + u64::from(spec.chunk_units)
}

fn array_config(spec: &ArraySpec, keep: Keep) -> ArrayConfig {
    let level = match spec.level {
        LevelSpec::Raid0 => Level::Raid0,
        LevelSpec::Raid1 => Level::Raid1,
        LevelSpec::Raid5 => Level::Raid5,
        LevelSpec::Raid10 => Level::Raid10,
    };
    ArrayConfig {
        clean_after: Delay::from_us(spec.clean_us),
        rebuild: RebuildConfig { idle_rate: 0, busy_rate: 0 },
        ..ArrayConfig::new(level, spec.chunk_units, *b"the swarm's own.", keep)
    }
}

/// The configuration of member `number` of an array that presents itself as `config`. Without an array it is the drive itself.
pub(super) fn member(plan: &Plan, config: &DriveConfig, number: usize) -> DriveConfig {
    let Some(spec) = &plan.drive.array else { return config.clone() };
    let array = array_config(spec, config.keep);
    let wanted: u64 = plan.drive.namespaces.iter().map(|namespace| namespace.units).sum();
    let columns = (spec.members as usize / spec.level.copies(spec.members as usize)).max(1) as u64;
    let holds =
        |units: &u64| array.user_units(spec.members as usize, *units).is_ok_and(|units| units >= wanted);
    let least = wanted / columns + 64;
    let units = (least..least + 20_000).find(holds).unwrap_or(1 << 20);
    let block = if plan.seed & 2 == 0 { BlockSize::B512 } else { BlockSize::B4096 };
    let mut controller = config.controller.clone();
    controller.collection_windows = spec.collects_together;
    DriveConfig {
        controller,
        serial: format!("SWARM{number}"),
        namespaces: vec![NamespaceConfig::blocks(units, block)],
        seed: config.seed.wrapping_add(number as u64),
        ..config.clone()
    }
}

/// The array, if the drive is one.
pub(super) fn array(
    plan: &Plan,
    config: &DriveConfig,
    processors: &[Rc<Station>],
) -> Option<ArrayDriveConfig> {
    let spec = plan.drive.array.as_ref()?;
    let hertz = 1_000_000_000;
    let place = match &spec.bridge {
        None => ArrayLocation::Host { processors: processors.to_vec(), hertz },
        Some(bridge) => {
            let nvram = NvramConfig {
                bytes: bridge.bytes,
                small_bytes: bridge.small_bytes,
                stream_window: bridge.stream_window,
                drain_depth: bridge.drain_depth,
                is_through: bridge.is_through,
                row_units: bridge.row_units,
            };
            ArrayLocation::Bridge { link: link(), nvram: Some(nvram), cores: 1, hertz }
        }
    };
    let mut drive = config.clone();
    drive.site.cycles =
        drive.site.cycles.with(WorkKind::Stripe, 60).with(WorkKind::Parity, 90).with(WorkKind::Convert, 70);
    Some(ArrayDriveConfig {
        drive,
        array: ArrayConfig {
            defect: plan.defect.and_then(AnyDefect::of_array),
            ..array_config(spec, config.keep)
        },
        place,
        costs: HostCosts::default(),
        completion: if plan.host.interrupts { Completion::Interrupt } else { Completion::Polled },
        lanes: 1 + (plan.seed % 16) as usize,
        spares: spec.spares as usize,
        timeout: None,
        window_blocks: spec.collects_together.then_some(1),
    })
}

/// The parts of the firmware that run on the host, if any.
fn partial(spec: &DriveSpec) -> Option<PartialConfig> {
    let PartialSpec { map, collection } = spec.partial;
    (map || collection).then(|| PartialConfig {
        map,
        collection,
        hertz: 1_000_000_000,
        dram_latency: Delay::from_ns(70),
        dram_rate: Rate::per_second(10_000_000_000),
    })
}

/// Powers on a drive with its own firmware, part of which may run on the host's `processors`.
///
/// # Errors
/// The configuration is not supported.
pub(super) fn power_on(
    clock: &Clock,
    spec: &DriveSpec,
    config: DriveConfig,
    processors: &[Rc<Station>],
    medium: Option<Medium>,
) -> Result<PoweredDrive, ConfigError> {
    let bay = DriveBay::new(clock, link(), Memory::simulated());
    match partial(spec) {
        Some(partial) => power_on_partial(clock, bay, config, partial, processors, medium),
        None => bay.power_on(config, medium),
    }
}

/// Whether a plan's drive can be built.
pub(super) fn is_possible(plan: &Plan) -> bool {
    let executor = Executor::new();
    let clock = executor.clock();
    if let Some(config) = hosted(plan, &config(plan))
        && Hosted::power_on(clock, config, &processor(clock), None).is_err()
    {
        return false;
    }
    if let Some(spec) = &plan.drive.array
        && array_config(spec, Keep::Stamps).user_units(spec.members as usize, 1 << 20).is_err()
    {
        return false;
    }
    let own = member(plan, &config(plan), 0);
    power_on(clock, &plan.drive, own, &processor(clock), None).is_ok()
}

/// Geometry of its flash.
pub(super) fn geometry(spec: &DriveSpec) -> Geometry {
    Geometry {
        channels: spec.channels,
        ways: spec.ways,
        planes: spec.planes,
        blocks: spec.blocks,
        pages: spec.pages,
        page_bytes: spec.page_bytes,
    }
}

fn timing(spec: &DriveSpec) -> Timing {
    let types = spec.bits.clamp(1, 4) as u64;
    let FoundPolicies { schedule, suspend: suspend_policy, .. } = spec.policies.found().unwrap_or_default();
    Timing {
        schedule,
        suspend_policy,
        read: (0..types).map(|of| Delay::from_us(9 + 4 * of)).collect(),
        read_quantiles: None,
        program: (0..types).map(|of| Delay::from_us(47 + 31 * of)).collect(),
        program_spread_ppm: 0, // kept plans are of wordlines that are alike
        erase: Delay::from_us(290),
        channel: Rate::per_second(800_000_000),
        command: Delay::from_ns(100),
        partial_read: None,
        map_read: None,
        suspend: spec.suspends.then_some(SuspendTiming {
            latency: Delay::from_us(5),
            resume: Delay::from_us(3),
            most: 8,
            // As the units between times of housekeeping are drawn: any step will do.
            step: Delay::from_ns(70 * u64::from(spec.housekeeping_units)),
        }),
        cache_read: spec.cache_read,
        channel_order: match spec.data_out_first {
            true => ChannelOrder::DataOutFirst,
            false => ChannelOrder::CommandsFirst,
        },
        slc: spec.upkeep.has_cache().then_some(SlcTiming {
            read: Delay::from_us(7),
            program: Delay::from_us(23),
            erase: Delay::from_us(210),
        }),
        // Hot from the first power-on on, and hotter a little later.
        throttle: (spec.rest_us > 0).then(|| Throttle {
            period: Delay::from_us(u64::from(spec.rest_us) + 100),
            steps: vec![
                (Time::ZERO, Delay::from_us(u64::from(spec.rest_us).div_ceil(2))),
                (Time::ZERO + Delay::from_ms(2), Delay::from_us(spec.rest_us.into())),
            ],
        }),
    }
}

/// A logical block size.
pub(super) fn block(bytes: u32) -> BlockSize {
    BlockSize::from_bytes(u64::from(bytes)).unwrap_or(BlockSize::B4096)
}

/// Initial content of namespace `nsid`.
pub(super) fn base(spec: &DriveSpec, nsid: u32) -> BaseState {
    match spec.base {
        BaseSpec::Empty => BaseState::Zeroes,
        BaseSpec::Filled | BaseSpec::Steady => BaseState::Stamped { tag: nsid as u16 },
    }
}
