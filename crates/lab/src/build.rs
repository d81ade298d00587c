//! From a scenario's plan to the parts of a simulation: link, drive, host.

use crate::profile::{Completion, Extension, GcPolicy, Geometry, Profile};
use crate::scenario::TransferPlan;
use crate::scenario::{
    Arbitration, Device, DrivePlan, Encoding, HostPlan, Pointer, Precondition, ResultWay, Scenario, Store,
    TransferMethod,
};
use byteway_clock::random::Rng;
use byteway_clock::{Delay, Rate};
use byteway_device::{ControllerConfig, DriveConfig, FtlPolicy, NamespaceConfig, SiteConfig, TransferConfig};
use byteway_firmware::{Base, Cycles, Victim, Work};
use byteway_flash::Timing;
use byteway_host::{HostCosts, Results};
use byteway_link::{Generation, PcieConfig};
use byteway_transfer::host::PointerKind;
use byteway_transfer::{Method, Rules};
use byteway_wire::content::{BlockSize, Keep, UNIT_BYTES};
use byteway_wire::nvme::vendor::Methods;

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
        transfer: transfer(profile),
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

fn transfer(profile: &Profile) -> TransferConfig {
    let transfer = &profile.transfer;
    let methods = transfer.methods.iter().fold(Methods::new(), |methods, extension| match extension {
        Extension::Inline => methods.with_inline(true),
        Extension::InlineTail => methods.with_inline_tail(true),
        Extension::InlineReassembly => methods.with_reassembly(true),
        Extension::Piggyback => methods.with_piggyback(true),
        Extension::PiggybackPipelined => methods.with_piggyback_pipelined(true),
        Extension::Mmio => methods.with_mmio(true),
        Extension::InlineResult => methods.with_inline_result(true),
        Extension::RoundedResults => methods.with_rounded_results(true),
    });
    TransferConfig {
        methods,
        inline_bytes_max: transfer.inline_max.0 as u32,
        reassembly_bytes_max: transfer.reassembly_max.0 as u32,
        piggyback_bytes_max: transfer.piggyback_max.0 as u32,
        inline_result_bytes_max: transfer.inline_result_max.0 as u32,
        partial_payloads_max: transfer.partial_payloads,
        partial_timeout: Delay::from_ps(transfer.partial_timeout.0),
        bar_bytes: if methods.mmio() { transfer.bar.0 as u32 } else { 0 },
        sink_bytes: transfer.sink.0,
        chunk_store: Delay::from_ps(transfer.chunk_store.0),
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
            .with(Work::Collect, cycles.collect)
            .with(Work::Dma, cycles.dma)
            .with(Work::Chunk, cycles.chunk),
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
        chunk: Delay::from_ps(profile.chunk.0),
        turnaround: Delay::from_ps(profile.turnaround.0),
        store: Delay::from_ps(profile.store.0),
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

/// How payloads cross.
pub fn rules(transfer: &TransferPlan) -> Rules {
    Rules {
        method: method(transfer.method),
        fallback: match transfer.fallback {
            Pointer::Prp => PointerKind::Prp,
            Pointer::Sgl => PointerKind::Sgl,
        },
        fine: method(transfer.fine.method()),
        threshold_bytes: transfer.threshold_bytes,
        sgl_bytes_min: transfer.sgl_bytes_min,
        paper_encoding: transfer.encoding == Encoding::Paper,
    }
}

fn method(method: TransferMethod) -> Method {
    match method {
        TransferMethod::Prp => Method::Prp,
        TransferMethod::Sgl => Method::Sgl,
        TransferMethod::Piggyback => Method::Piggyback,
        TransferMethod::PiggybackPipelined => Method::PiggybackPipelined,
        TransferMethod::Inline => Method::Inline,
        TransferMethod::InlineReassembly => Method::InlineReassembly,
        TransferMethod::Mmio => Method::Mmio,
        TransferMethod::Adaptive => Method::Adaptive,
        TransferMethod::Hybrid => Method::Hybrid,
    }
}

/// How the results of a sink's reads come.
pub fn results(way: ResultWay) -> Results {
    match way {
        ResultWay::Pointer => Results::Pointer,
        ResultWay::Inline => Results::Inline,
        ResultWay::Rounded => Results::Rounded,
    }
}

/// Whether queues have classes.
pub fn weighted(plan: &HostPlan) -> bool {
    plan.arbitration == Arbitration::Weighted
}
