//! Builds the parts of a simulation from a scenario's plan: world, link, drive, host.

mod jbof;

use crate::error::RunError;
use byteway_array::{ArrayConfig, Level, NvramConfig, RebuildConfig};
use byteway_assembly::{
    ArrayDriveConfig, ArrayLocation, EndpointConfig, Hosted, HostedConfig, Members, PartialConfig,
    power_on_partial,
};
use byteway_clock::random::Rng;
use byteway_clock::{Clock, Delay, Executor, Owner, Rate, RunOutcome, Station, Time};
use byteway_content::{BlockSize, Keep, UNIT_BYTES};
use byteway_device::{
    ControllerConfig, CsdPolicy, DriveConfig, HostBufferConfig, KvPolicy, MediaConfig, MergeConfig,
    NamespaceConfig, ProgramsPolicy, SiteConfig, Temperature,
};
use byteway_firmware::{Cycles, FtlConfig, Housekeeping, Striping, WorkKind};
use byteway_flash::{FaultPlan, Timing};
use byteway_host::DriverConfig;
use byteway_host::HostCosts;
use byteway_jbof::{Jbof, JbofError};
use byteway_link::{Generation, Memory, PcieConfig, SwitchConfig};
use byteway_scenario::profile::{
    self, Bridge, Collection, Completion, Endpoints, ExtentTree, HostProfile, Interrupts, Profile,
};
use byteway_scenario::{
    Arbitration, ArrayPlan, Device, DrivePlan, HostPlan, Personality, Platform, Scenario, Store,
};
use byteway_text::interrupt::Interrupt;
use byteway_text::units::{Bytes, Percent, Picos};
use byteway_world::{DriveBay, PoweredDrive, World};
use std::rc::Rc;
use std::time::Duration;

/// MSI-X vectors of each drive.
const VECTORS: u16 = 64;

/// Time from CC.EN to CSTS.RDY, which is part of no figure.
const READY_DELAY: Delay = Delay::from_ms(1);

/// The parts of a scenario.
pub struct Built {
    /// Host and drives.
    pub world: World,
    /// The JBOF of the drives, if any, with a driver for each.
    pub jbof: Option<Rc<Jbof>>,
    /// Per drive: the processor that handles interrupts of vectors without a queue's processor.
    pub interrupt_processors: Vec<Rc<Station>>,
}

/// The host of a scenario and its drives, new and powered, in the order of [`Scenario::drives`]. `executor` has run to attach to the drives
/// whose firmware runs on the host.
///
/// # Errors
/// A drive's configuration is not supported, or `interrupt` was raised between two drives, or while a composite one was assembled.
pub fn world(executor: &Executor, scenario: &Scenario, interrupt: &Interrupt) -> Result<Built, RunError> {
    let power = Power { executor, interrupt };
    let clock = executor.clock();
    let processors = scenario.host.profile.cores;
    let host = match scenario.accounts_for_host() {
        _ if scenario.jbof.is_some() => byteway_world::Host::pooled(clock, processors),
        true => byteway_world::Host::keeping_names(clock, processors),
        false => byteway_world::Host::new(clock, processors),
    };
    let interrupt_processors: Vec<Rc<Station>> =
        (0..scenario.drives.len()).map(|drive| host.interrupt_processor(drive)).collect();
    let mut world = World::around(clock, host);
    if let Some(plan) = &scenario.jbof {
        let cpu = world.host.processors()[0].clone();
        let parts = jbof::parts(scenario, plan, &cpu);
        let (clock, config) = (clock.clone(), jbof::config(scenario, plan));
        let jbof = Rc::new(Jbof::give_power_at(&clock, config, &cpu, parts).map_err(RunError::NotBoxed)?);
        let attached = jbof.clone();
        power.run(async move { attached.attach().await })?.map_err(RunError::NotBoxed)?;
        for drive in 0..jbof.len() {
            world.share(jbof.drive(drive).ok_or(RunError::NotBoxed(JbofError::Gone(drive)))?);
        }
        return Ok(Built { world, jbof: Some(jbof), interrupt_processors });
    }
    for (number, attached) in scenario.drives.iter().enumerate() {
        if number > 0 {
            power.look()?;
        }
        let plan = &attached.plan;
        let owned = clock.owned_by(Owner(number as u16));
        let config = drive(scenario, number);
        let powered = match &plan.array {
            None => power.on(&owned, world.host.processors(), plan, config)?,
            Some(array) => {
                let is_together = array.section.collection == Collection::Together;
                let members = array.members.iter().enumerate().map(|(member, own)| {
                    power.look()?;
                    let (seed, serial) = of_member(&config, member as u16, 'D');
                    let mut config = configure(own, seed, serial);
                    config.controller.collection_windows = is_together;
                    power.on(&owned, world.host.processors(), own, config)
                });
                let members = members.collect::<Result<_, _>>()?;
                let config = array_drive(scenario, array, config, world.host.processors());
                power.put_together(&owned, config, members)?
            }
        };
        world.hold(plan.name.clone(), powered);
    }
    Ok(Built { world, jbof: None, interrupt_processors })
}

/// Driver configuration of a drive, whose interrupts `cpu` takes.
pub fn driver(scenario: &Scenario, drive: usize, cpu: Rc<Station>) -> DriverConfig {
    let host = &scenario.host;
    // A block device whose firmware runs on the host is called back.
    let is_called = scenario.drives[drive].plan.is_called()
        || scenario.jbof.as_ref().is_some_and(|plan| plan.section.platform == Platform::Oc);
    let completion = match is_called {
        true => byteway_host::Completion::Polled,
        false => completion(host),
    };
    DriverConfig {
        costs: host_costs(host),
        completion,
        cpu: Some(cpu),
        interrupts_queue: interrupts_queue(host),
        queues_wanted: scenario.queue_pairs(drive).clamp(1, u32::from(u16::MAX - 1)) as u16,
        arbitration: match weighted(host) {
            true => byteway_host::Arbitration::Weighted,
            false => byteway_host::Arbitration::RoundRobin,
        },
        timeout: Some(delay(host.profile.timeout)),
        lent_bytes_max: host.lends.0,
        ..DriverConfig::default()
    }
}

/// Context of powering on drives. A single drive is ready immediately; the parts of a composite drive need time.
struct Power<'a> {
    executor: &'a Executor,
    interrupt: &'a Interrupt,
}

impl Power<'_> {
    fn look(&self) -> Result<(), RunError> {
        if self.interrupt.is_raised() { Err(RunError::Interrupted) } else { Ok(()) }
    }

    /// Runs the executor until `main` completes.
    fn run<T: 'static>(&self, main: impl Future<Output = T> + 'static) -> Result<T, RunError> {
        match self.executor.run_unless(main, || self.interrupt.is_raised()).map_err(RunError::Stalled)? {
            RunOutcome::Ended(value) => Ok(value),
            RunOutcome::Cut => Err(RunError::Interrupted),
        }
    }

    /// Powers on a drive of any kind except an array on the host.
    fn on(
        &self,
        clock: &Clock,
        processors: &[Rc<Station>],
        plan: &DrivePlan,
        config: DriveConfig,
    ) -> Result<PoweredDrive, RunError> {
        let profile = &plan.profile;
        let link = profile.link.config();
        if let Some(on_host) = &profile.firmware.on_host {
            let bay = DriveBay::new(clock, link, Memory::simulated());
            let partial = PartialConfig {
                map: on_host.map,
                collection: on_host.collection,
                hertz: on_host.clock.0,
                dram_latency: delay(on_host.dram),
                dram_rate: Rate::per_second(profile.dram.bandwidth.0),
            };
            let powered = power_on_partial(clock, bay, config, partial, processors, None);
            return powered.map_err(RunError::NotBuilt);
        }
        if let Some(bridge) = &profile.bridge {
            let mut members = Vec::new();
            for number in 0..bridge.members {
                self.look()?;
                let bay = DriveBay::new(clock, behind(bridge, &link), Memory::simulated());
                let mut config = member(plan, &config, number);
                config.controller.collection_windows = bridge.collection == Collection::Together;
                members.push(bay.power_on(config, None).map_err(RunError::NotBuilt)?);
            }
            return self.put_together(clock, bridged(plan, bridge, link, config), members);
        }
        if let Some(endpoints) = &profile.endpoints {
            let config = hosted(profile, endpoints, link, config);
            let placed = Hosted::power_on(clock, config, processors, None).map_err(RunError::NotBuilt)?;
            return self.run(placed.attach())?.map_err(RunError::NotHosted);
        }
        let bay = DriveBay::new(clock, link, Memory::simulated());
        bay.power_on(config, None).map_err(RunError::NotBuilt)
    }

    /// Assembles a composite drive from new parts.
    fn put_together(
        &self,
        clock: &Clock,
        config: ArrayDriveConfig,
        members: Vec<PoweredDrive>,
    ) -> Result<PoweredDrive, RunError> {
        let clock = clock.clone();
        let assembled =
            self.run(async move { byteway_assembly::assemble(&clock, config, members, Members::New).await })?;
        let assembled = assembled.map_err(RunError::NotAssembled)?;
        Ok(assembled.drive)
    }
}

/// Seed and serial number of a part of a composite drive.
fn of_member(whole: &DriveConfig, number: u16, kind: char) -> (u64, String) {
    let seed = Rng::new(whole.seed).stream(&format!("member/{number}")).next_u64();
    (seed, format!("{:.16}-{kind}{number}", whole.serial))
}

/// An array on the host. `config` describes the array as a whole.
fn array_drive(
    scenario: &Scenario,
    array: &ArrayPlan,
    config: DriveConfig,
    processors: &[Rc<Station>],
) -> ArrayDriveConfig {
    let section = &array.section;
    let uuid = u128::from(Rng::new(config.seed).stream("array").next_u64()).to_le_bytes();
    let level = Level::from_number(section.level).expect("the scenario was checked");
    let own = ArrayConfig::new(level, (section.chunk.0 / UNIT_BYTES as u64) as u32, uuid, config.keep);
    let rebuild = RebuildConfig { busy_rate: section.rebuild, ..own.rebuild };
    let cycles = Cycles::FREE.with(WorkKind::Stripe, section.stripe).with(WorkKind::Parity, section.parity);
    let host = &scenario.host;
    ArrayDriveConfig {
        array: ArrayConfig { rebuild, ..own },
        place: ArrayLocation::Host { processors: processors.to_vec(), hertz: section.clock.0 },
        costs: host_costs(host),
        completion: completion(host),
        lanes: ARRAY_LANES,
        spares: section.spares.into(),
        window_blocks: window_blocks(section.collection, section.collection_window, &array.members[0]),
        // A removed drive never replies.
        timeout: Some(ARRAY_TIMEOUT),
        drive: in_front(config, cycles),
    }
}

/// Superblocks that a garbage collection window frees in each die of a member; `None`: members collect independently.
fn window_blocks(collection: Collection, window: Percent, member: &DrivePlan) -> Option<u16> {
    let blocks = window.of(member.geometry.blocks.into());
    (collection == Collection::Together).then(|| blocks.clamp(1, u16::MAX.into()) as u16)
}

/// Outstanding commands on a drive of an array.
const ARRAY_LANES: usize = 64;

/// Timeout after which a drive of an array is considered failed.
const ARRAY_TIMEOUT: Delay = Delay::from_ms(500);

/// Configuration of the front of a composite drive, in which commands queue.
fn in_front(config: DriveConfig, cycles: Cycles) -> DriveConfig {
    DriveConfig {
        site: SiteConfig { cycles, ..config.site.clone() },
        controller: ControllerConfig {
            host_buffer: None,
            collection_windows: false,
            borrows: false,
            read_pipeline: Delay::ZERO,
            read_large_pipeline: Delay::ZERO,
            write_pipeline: Delay::ZERO,
            merging: None,
            ..config.controller.clone()
        },
        ..config
    }
}

/// The link of a drive behind a bridge.
fn behind(bridge: &Bridge, card: &PcieConfig) -> PcieConfig {
    PcieConfig {
        generation: Generation::from_number(bridge.generation.into()).expect("the profile was checked"),
        lanes: bridge.lanes.into(),
        ..card.clone()
    }
}

/// A drive behind a bridge. `config` describes the composite drive.
fn member(plan: &DrivePlan, config: &DriveConfig, number: u16) -> DriveConfig {
    let (seed, serial) = of_member(config, number, 'M');
    let block = BlockSize::from_bytes(plan.lba_bytes.into()).expect("the scenario was checked");
    DriveConfig {
        serial,
        seed,
        namespaces: vec![NamespaceConfig::blocks(plan.geometry.capacity_bytes / UNIT_BYTES as u64, block)],
        ..config.clone()
    }
}

/// A bridge with its drives. `config` describes the composite drive.
fn bridged(plan: &DrivePlan, bridge: &Bridge, link: PcieConfig, config: DriveConfig) -> ArrayDriveConfig {
    let uuid = u128::from(Rng::new(config.seed).stream("array").next_u64()).to_le_bytes();
    let chunk_units = (bridge.chunk.0 / UNIT_BYTES as u64) as u32;
    let cycles = Cycles::FREE
        .with(WorkKind::Parse, bridge.command)
        .with(WorkKind::Convert, bridge.convert)
        .with(WorkKind::Buffer, bridge.buffer);
    ArrayDriveConfig {
        array: ArrayConfig::new(Level::Raid0, chunk_units, uuid, config.keep),
        place: ArrayLocation::Bridge {
            link,
            nvram: bridge.small_writes.as_ref().map(|small| NvramConfig {
                bytes: small.memory.0,
                small_bytes: small.longest.0,
                stream_window: small.stream.0,
                drain_depth: small.drain,
                is_through: small.through,
                row_units: small.row.0 / UNIT_BYTES as u64,
            }),
            cores: bridge.cores.into(),
            hertz: bridge.clock.0,
        },
        costs: HostCosts::default(), // a command to a member costs its conversion only
        completion: how(bridge.completion),
        lanes: bridge.outstanding as usize,
        spares: 0,
        window_blocks: window_blocks(bridge.collection, bridge.collection_window, plan),
        timeout: None,
        drive: in_front(config, cycles),
    }
}

/// A drive whose firmware runs on the host. `config` describes it to applications.
fn hosted(profile: &Profile, endpoints: &Endpoints, link: PcieConfig, config: DriveConfig) -> HostedConfig {
    let own = endpoints.lanes.map_or(link.lanes, u32::from);
    let latency = delay(endpoints.latency);
    HostedConfig {
        endpoint: EndpointConfig {
            controller: ControllerConfig {
                io_queues_max: 1,
                command_slots: endpoints.outstanding + 2,
                transfer_bytes_max: RAW_TRANSFER_BYTES_MAX,
                host_buffer: None,
                collection_windows: false,
                borrows: false,
                read_pipeline: latency,
                read_large_pipeline: latency,
                write_pipeline: latency,
                ..controller(profile)
            },
            // Hardware: its time is part of its latency.
            site: SiteConfig { cores: 1, cycles: Cycles::FREE, ..config.site.clone() },
            link: PcieConfig { lanes: own, ..link.clone() },
        },
        endpoints: endpoints.count,
        switch: Some(SwitchConfig {
            upstream: link,
            latency: delay(endpoints.switch),
            buffer_bytes: endpoints.buffer.0,
        }),
        lanes: endpoints.outstanding as usize,
        costs: HostCosts {
            submit: delay(endpoints.submit),
            complete: delay(endpoints.complete),
            interrupt: delay(endpoints.interrupt),
            ..HostCosts::default()
        },
        completion: how(endpoints.completion),
        is_locked: endpoints.lock,
        bounce: endpoints.bounce.map(|rate| Rate::per_second(rate.0)),
        call: endpoints.call.map(delay),
        drive: config,
    }
}

/// Upper limit of a stripe of raw flash with its metadata.
const RAW_TRANSFER_BYTES_MAX: u32 = 1 << 20;

/// A bay with the profile's link, for a single drive.
pub fn bay(clock: &Clock, profile: &Profile) -> DriveBay {
    DriveBay::new(clock, profile.link.config(), Memory::simulated())
}

/// Configuration of a drive of the scenario. Scenario seed and drive name, if any, determine everything random in it.
pub fn drive(scenario: &Scenario, number: usize) -> DriveConfig {
    let plan = &scenario.drives[number].plan;
    match &plan.name {
        Some(name) => {
            let seed = Rng::new(scenario.seed).stream(&format!("drive/{name}")).next_u64();
            configure(plan, seed, serial(scenario.seed, name))
        }
        None => configure(plan, scenario.seed, format!("BYTEWAY{:08}", scenario.seed % 100_000_000)),
    }
}

/// Serial number of a named drive, so that hosts can distinguish drives.
fn serial(seed: u64, name: &str) -> String {
    format!("BW{:016X}", Rng::new(seed).stream(&format!("serial/{name}")).next_u64())
}

/// Configuration of a drive served as `name`. Seed and name determine its serial number.
pub fn served(device: &Device, name: &str) -> DriveConfig {
    let mut config = configure(&device.drive, device.seed, serial(device.seed, name));
    config.controller.shadow_doorbells = device.serve.shadow_doorbells;
    // An attaching host has no mapping of the device memory.
    config.transfer.memory = None;
    config.transfer.methods.set_cxl_mem(false);
    config.transfer.methods.set_cxl_commit(false);
    config
}

fn configure(plan: &DrivePlan, seed: u64, serial: String) -> DriveConfig {
    let profile = &plan.profile;
    DriveConfig {
        model: profile.drive.model.clone(),
        serial,
        controller: controller(profile),
        transfer: profile.transfer.config(profile.cxl.as_ref()),
        site: site(profile),
        geometry: plan.geometry.array(),
        timing: Timing {
            schedule: plan.policies.schedule.clone(),
            suspend_policy: plan.policies.suspend.clone(),
            throttle: plan.throttle(),
            ..profile.flash.timing()
        },
        media: MediaConfig {
            reliability: profile.flash.cell_errors(),
            faults: FaultPlan::default(),
            age: Duration::from_secs(plan.age.0),
            worn_erases: plan.worn.of(profile.flash.endurance.into()) as u32,
        },
        temperature: Temperature {
            steps: plan
                .temperature
                .iter()
                .map(|(at, celsius)| (Time::ZERO + delay(*at), celsius.kelvins()))
                .collect(),
            throttles: (profile.firmware.throttle.as_ref())
                .map(|throttle| [throttle.light, throttle.heavy].map(|level| level.from.kelvins())),
        },
        endurance_erases: profile.flash.endurance,
        ftl: ftl(plan),
        namespaces: namespaces(plan),
        programs: profile.programs.as_ref().map(programs),
        kv: (!plan.pairs_nsids().is_empty()).then(|| pairs(plan)),
        csd: plan.personality.has_tables().then(|| tables(plan)),
        base: plan.precondition,
        keep: match plan.store {
            // An index or a table is not a test pattern, and a program must find the data that was written.
            Store::Stamp
                if !plan.pairs_nsids().is_empty()
                    || plan.personality.has_tables()
                    || profile.programs.is_some() =>
            {
                Keep::Bytes
            }
            Store::Ram => Keep::Bytes,
            // In files a test pattern takes no more space than its spare area.
            Store::Stamp | Store::File => Keep::Stamps,
        },
        seed,
    }
}

/// Minimum host memory that a drive uses as host memory buffer: 1 MiB.
const HOST_BUFFER_LEAST_UNITS: u32 = 256;

/// A literal of all fields, as those below are: a field that a drive gets must have a key in profiles, or a reason here to have none.
fn controller(profile: &Profile) -> ControllerConfig {
    let controller = &profile.controller;
    let latency = &profile.firmware.latency;
    ControllerConfig {
        io_queues_max: controller.max_io_queues,
        queue_entries_max: controller.max_queue_entries,
        command_slots: controller.command_slots,
        fetch_outstanding: controller.fetch_outstanding.into(),
        fetch_burst: controller.fetch_burst.into(),
        transfer_bytes_max: controller.mdts.0 as u32,
        dma_granularity: controller.dma_unit.0 as u32,
        dstrd: controller.dstrd,
        sgl: controller.sgl,
        shadow_doorbells: false,
        host_buffer: profile.firmware.host_buffer.map(|bytes| HostBufferConfig {
            preferred_units: units(bytes),
            least_units: units(bytes).min(HOST_BUFFER_LEAST_UNITS),
        }),
        collection_windows: false,
        borrows: false,
        vectors: VECTORS,
        arbitration_burst: controller.arbitration_burst.map_or(128, u32::from),
        ready_delay: READY_DELAY,
        read_pipeline: delay(latency.read),
        read_large_pipeline: delay(latency.read_large.unwrap_or(latency.read)),
        write_pipeline: delay(latency.write),
        merging: profile.firmware.merge.as_ref().map(|merge| MergeConfig {
            unit_bytes: merge.unit.0 as u32,
            command: delay(merge.command),
            rate: Rate::per_second(merge.rate.0),
            search: delay(merge.search),
            searched_max: merge.searched_max.into(),
        }),
    }
}

fn site(profile: &Profile) -> SiteConfig {
    let firmware = &profile.firmware;
    SiteConfig {
        cores: firmware.cores.into(),
        hertz: firmware.clock.0,
        cycles: profile.cycles(),
        dram_latency: delay(profile.dram.latency),
        dram_rate: Rate::per_second(profile.dram.bandwidth.0),
    }
}

fn ftl(plan: &DrivePlan) -> FtlConfig {
    let firmware = &plan.profile.firmware;
    FtlConfig {
        write_buffer_units: units(firmware.write_buffer),
        gc: plan.policies.victim.clone(),
        streams: plan.policies.streams.clone(),
        gc_start_free_blocks: plan.geometry.gc_start_blocks,
        gc_reserve_blocks: plan.geometry.gc_urgent_blocks,
        // A process has no power-loss protection, nor have its unwritten pages in the page cache.
        plp: firmware.plp && plan.store != Store::File,
        map_cache_pages: firmware.map_cache.map(units),
        extents: firmware.extents.as_ref().map(ExtentTree::config),
        striping: match firmware.striping {
            profile::Striping::Ready => Striping::Ready,
            profile::Striping::InTurn => Striping::InTurn,
        },
        housekeeping: firmware.housekeeping.as_ref().map(|housekeeping| Housekeeping {
            units: units(housekeeping.every).into(),
            time: delay(housekeeping.time),
        }),
        absorbs_parts: firmware.absorb.map(units),
        read_cache_units: firmware.read_cache.map_or(0, units),
        admission: plan.policies.admission.clone(),
        prefetch: plan.policies.prefetch.clone(),
        checkpoint_units: firmware.checkpoint.of(plan.geometry.capacity_bytes / UNIT_BYTES as u64),
        upkeep: plan.profile.maintenance(&plan.geometry, &plan.policies.wear),
        steady_load: plan.steady_load,
        ..FtlConfig::default()
    }
}

/// Converts to units of 4 KiB, the size of translation pages.
fn units(bytes: Bytes) -> u32 {
    (bytes.0 / UNIT_BYTES as u64).min(u64::from(u32::MAX)) as u32
}

fn delay(picos: Picos) -> Delay {
    Delay::from_ps(picos.0)
}

fn namespaces(plan: &DrivePlan) -> Vec<NamespaceConfig> {
    let block = BlockSize::from_bytes(plan.lba_bytes.into()).expect("the scenario was checked");
    let units = plan.namespace_blocks * u64::from(plan.lba_bytes) / UNIT_BYTES as u64;
    let one = |_| match plan.personality {
        Personality::Kv => NamespaceConfig::key_value(units),
        Personality::Tables => NamespaceConfig::tables(units),
        Personality::Block | Personality::Sink => NamespaceConfig::blocks(units, block),
    };
    let kv_namespace =
        (plan.kv_bytes > 0).then(|| NamespaceConfig::key_value(plan.kv_bytes / UNIT_BYTES as u64));
    let programs = plan.profile.programs.iter().flat_map(|programs| {
        let memory = programs.memory.0 / UNIT_BYTES as u64;
        [NamespaceConfig::local_memory(memory), NamespaceConfig::programs()]
    });
    (0..plan.namespaces).map(one).chain(kv_namespace).chain(programs).collect()
}

/// Iterators of a key-value drive: one for each concurrent scan that a run may have.
const ITERATORS: u32 = 1024;

/// The store of a key-value drive.
fn pairs(plan: &DrivePlan) -> KvPolicy {
    KvPolicy {
        store: plan.profile.kv.config(plan.geometry.page_bytes),
        iterators_max: ITERATORS,
        ..KvPolicy::default()
    }
}

/// The tables of a computational drive.
fn tables(plan: &DrivePlan) -> CsdPolicy {
    let store = &plan.profile.csd;
    CsdPolicy {
        cursors_max: store.cursors,
        upload_bytes_max: store.upload.0,
        timeout: delay(store.timeout),
        group_rows: store.group_rows,
        readers: store.readers,
        buffer_bytes: store.buffer.0 as u32,
        ..CsdPolicy::default()
    }
}

/// Programs that a drive runs for its host.
fn programs(section: &profile::Programs) -> ProgramsPolicy {
    let narrow = |value: u32| u16::try_from(value).unwrap_or(u16::MAX); // the scenario was checked
    ProgramsPolicy {
        memory_bytes: section.memory.0,
        programs: narrow(section.programs),
        program_bytes_max: section.program_max.0 as u32,
        programs_bytes_max: section.programs_max.0,
        activated_max: narrow(section.activated),
        sets_max: narrow(section.sets),
        ranges_max: u8::try_from(section.ranges).unwrap_or(u8::MAX),
        runs_max: narrow(section.runs),
        fuel: section.fuel,
        row_fuel: section.row_fuel,
        filter_fuel: section.filter_fuel,
        weights: section.weights(),
        defect: Default::default(),
    }
}

/// Costs of the host's software.
pub fn host_costs(plan: &HostPlan) -> HostCosts {
    costs(&plan.profile)
}

/// Costs of the software in a host profile.
pub fn costs(profile: &HostProfile) -> HostCosts {
    HostCosts {
        submit: delay(profile.submit),
        complete: delay(profile.complete),
        interrupt: delay(profile.interrupt),
        chunk: delay(profile.chunk),
        turnaround: delay(profile.turnaround),
        store: delay(profile.store),
        flush: delay(profile.flush),
        ..HostCosts::default()
    }
}

/// Method by which the host detects completions.
pub fn completion(plan: &HostPlan) -> byteway_host::Completion {
    how(plan.profile.completion)
}

fn how(completion: Completion) -> byteway_host::Completion {
    match completion {
        Completion::Polled => byteway_host::Completion::Polled,
        Completion::Interrupt => byteway_host::Completion::Interrupt,
    }
}

/// Whether the processor of a queue takes its interrupts.
pub fn interrupts_queue(plan: &HostPlan) -> bool {
    plan.profile.interrupts == Interrupts::Queue
}

/// Whether queues have priority classes.
pub fn weighted(plan: &HostPlan) -> bool {
    plan.arbitration == Arbitration::Weighted
}
