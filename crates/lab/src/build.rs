//! From a scenario's plan to the parts of a simulation: link, drive, host.

use crate::profile::{Completion, GcPolicy, Geometry, Profile};
use crate::scenario::{
    Arbitration, Device, DrivePlan, HostPlan, Precondition, Scenario, Store, TransferMethod,
};
use byteway_clock::random::Rng;
use byteway_clock::{Delay, Rate};
use byteway_device::{ControllerConfig, DriveConfig, FtlPolicy, NamespaceConfig, SiteConfig};
use byteway_firmware::{Base, Cycles, Victim, Work};
use byteway_flash::Timing;
use byteway_host::HostCosts;
use byteway_link::{Generation, PcieConfig};
use byteway_wire::content::{BlockSize, Keep, UNIT_BYTES};

/// MSI-X vectors of every drive.
const VECTORS: u16 = 64;

/// From CC.EN to CSTS.RDY: not part of any figure.
const READY_DELAY: Delay = Delay::from_ms(1);

/// The link.
pub fn link(profile: &Profile) -> PcieConfig {
    let link = &profile.link;
    PcieConfig {
        generation: Generation::from_number(link.generation.into()).expect("the profile was checked"),
        lanes: link.lanes.into(),
        mps: link.mps.0 as u32,
        mrrs: link.mrrs.0 as u32,
        rcb: link.rcb.0 as u32,
        read_tags: link.read_tags.into(),
        propagation: Delay::from_ps(link.propagation.0),
        memory_latency: Delay::from_ps(link.memory_latency.0),
        slowdown: 1,
    }
}

/// The drive of a scenario.
pub fn drive(scenario: &Scenario) -> DriveConfig {
    configure(&scenario.drive, scenario.seed, format!("BYTEWAY{:08}", scenario.seed % 100_000_000))
}

/// A drive to be served as `name`. Its serial number follows from seed and name, so that a host can tell two apart.
pub fn served(device: &Device, name: &str) -> DriveConfig {
    let number = Rng::new(device.seed).stream(&format!("serial/{name}")).next_u64();
    let mut config = configure(&device.drive, device.seed, format!("BW{number:016X}"));
    config.controller.shadow_doorbells = device.serve.shadow_doorbells;
    config
}

fn configure(plan: &DrivePlan, seed: u64, serial: String) -> DriveConfig {
    let profile = &plan.profile;
    DriveConfig {
        model: profile.drive.model.clone(),
        serial,
        controller: controller(profile),
        site: site(profile),
        geometry: geometry(&plan.geometry),
        timing: timing(profile),
        endurance_erases: profile.flash.endurance,
        ftl: ftl(plan),
        namespaces: namespaces(plan),
        base: match plan.precondition {
            Precondition::Empty => Base::Empty,
            Precondition::Filled => Base::Filled,
            Precondition::Steady => Base::Steady,
        },
        keep: match plan.store {
            Store::Ram => Keep::Bytes,
            Store::Stamp => Keep::Stamps,
        },
        seed,
    }
}

fn controller(profile: &Profile) -> ControllerConfig {
    let controller = &profile.controller;
    let latency = &profile.firmware.latency;
    let delay = |picos: crate::units::Picos| Delay::from_ps(picos.0);
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
        vectors: VECTORS,
        arbitration_burst: controller.arbitration_burst.map_or(128, u32::from),
        ready_delay: READY_DELAY,
        read_pipeline: delay(latency.read),
        read_large_pipeline: delay(latency.read_large.unwrap_or(latency.read)),
        write_pipeline: delay(latency.write),
    }
}

fn site(profile: &Profile) -> SiteConfig {
    let firmware = &profile.firmware;
    let cycles = &firmware.cycles;
    SiteConfig {
        cores: firmware.cores.into(),
        hertz: firmware.clock.0,
        cycles: Cycles::default()
            .with(Work::Fetch, cycles.fetch)
            .with(Work::Parse, cycles.parse)
            .with(Work::Translate, cycles.translate)
            .with(Work::Buffer, cycles.buffer)
            .with(Work::Complete, cycles.complete)
            .with(Work::Collect, cycles.collect),
        dram_latency: Delay::from_ps(profile.dram.latency.0),
        dram_rate: Rate::per_second(profile.dram.bandwidth.0),
    }
}

/// Chips on a channel and dies of a chip come to the same here: each die has its own sequencer.
fn geometry(geometry: &Geometry) -> byteway_flash::Geometry {
    byteway_flash::Geometry {
        channels: geometry.channels,
        ways: geometry.ways * geometry.dies,
        planes: geometry.planes,
        blocks: geometry.blocks,
        pages: geometry.pages,
        page_bytes: geometry.page_bytes,
    }
}

fn timing(profile: &Profile) -> Timing {
    let flash = &profile.flash;
    let delays = |times: &[crate::units::Picos]| -> Vec<Delay> {
        times.iter().map(|time| Delay::from_ps(time.0)).collect()
    };
    Timing {
        read: delays(&flash.read),
        partial_read: flash.read_partial.as_deref().map(delays),
        program: delays(&flash.program),
        erase: Delay::from_ps(flash.erase.0),
        channel: Rate::per_second(flash.channel_rate.0),
        command: Delay::from_ps(flash.command.0),
    }
}

fn ftl(plan: &DrivePlan) -> FtlPolicy {
    let firmware = &plan.profile.firmware;
    FtlPolicy {
        write_buffer_bytes: firmware.write_buffer.0,
        victim: match firmware.gc.policy {
            GcPolicy::Greedy => Victim::Greedy,
            GcPolicy::CostBenefit => Victim::CostBenefit,
        },
        collect_start_blocks: plan.geometry.gc_start_blocks,
        collect_reserve_blocks: plan.geometry.gc_urgent_blocks,
        power_loss_protection: firmware.plp,
    }
}

fn namespaces(plan: &DrivePlan) -> Vec<NamespaceConfig> {
    let block = BlockSize::from_bytes(plan.lba_bytes.into()).expect("the scenario was checked");
    let units = plan.namespace_blocks * u64::from(plan.lba_bytes) / UNIT_BYTES as u64;
    (0..plan.namespaces).map(|_| NamespaceConfig { units, block }).collect()
}

/// What the host's software costs.
pub fn host_costs(plan: &HostPlan) -> HostCosts {
    let profile = &plan.profile;
    HostCosts {
        submit: Delay::from_ps(profile.submit.0),
        complete: Delay::from_ps(profile.complete.0),
        interrupt: Delay::from_ps(profile.interrupt.0),
        ..HostCosts::default()
    }
}

/// How it learns of completions.
pub fn completion(plan: &HostPlan) -> byteway_host::Completion {
    match plan.profile.completion {
        Completion::Polled => byteway_host::Completion::Polled,
        Completion::Interrupt => byteway_host::Completion::Interrupt,
    }
}

/// How its commands say where their payload lies.
pub fn method(plan: &HostPlan) -> byteway_host::Method {
    match plan.method {
        TransferMethod::Prp => byteway_host::Method::Prp,
        TransferMethod::Sgl => byteway_host::Method::Sgl,
    }
}

/// Whether queues have classes.
pub fn weighted(plan: &HostPlan) -> bool {
    plan.arbitration == Arbitration::Weighted
}
