//! Builds a JBOF from its plan.

use super::{delay, drive, driver, host_costs};
use byteway_clock::{Rate, Station};
use byteway_content::UNIT_BYTES;
use byteway_jbof::fabric::FabricConfig;
use byteway_jbof::{
    CentralConfig, Copyback, DramConfig, HostConfig, JbofConfig, JbofDrive, Platform, QueueWeights,
    VirtualConfig,
};
use byteway_scenario::{Arbitration, HostPlan, JbofPlan, Platform as Word, Scenario, Weights};
use std::rc::Rc;

/// Configuration of the JBOF without its drives.
pub(super) fn config(scenario: &Scenario, plan: &JbofPlan) -> JbofConfig {
    let section = &plan.section;
    JbofConfig {
        fabric: FabricConfig {
            drives: scenario.drives.len(),
            drives_of_switch: section.fabric.drives_of_switch.into(),
            port: Rate::per_second(section.fabric.port.0),
            switch: delay(section.fabric.switch),
            framing: delay(section.fabric.framing),
        },
        platform: platform(plan),
        host: HostConfig {
            cores: scenario.host.profile.cores.into(),
            hertz: section.central.clock.0,
            dram_bytes: section.central.dram.0,
            dram_rate: Rate::per_second(section.central.dram_bandwidth.0),
            costs: host_costs(&scenario.host),
            ..HostConfig::default()
        },
        period: delay(section.period),
        watermark: section.watermark.0 / 100.0,
        agent: delay(section.agent),
        daemon: delay(section.daemon),
        redirect: delay(section.redirect),
        loans_max: section.lenders.into(),
        weights: weights(&scenario.host),
        dram: DramConfig {
            miss_ratio: section.miss_ratio.0 / 100.0,
            commit: delay(section.log_commit),
            ..DramConfig::default()
        },
        ..JbofConfig::new(scenario.drives[0].plan.profile.link.config(), scenario.drives.len(), scenario.seed)
    }
}

/// Weights of the priority classes, if the host has any.
fn weights(host: &HostPlan) -> Option<QueueWeights> {
    let Weights { high, medium, low } = host.weights;
    (host.arbitration == Arbitration::Weighted).then_some(QueueWeights { high, medium, low })
}

/// Platform: the resources that the drives share.
fn platform(plan: &JbofPlan) -> Platform {
    let section = &plan.section;
    let central = &section.central;
    let harvested = |copyback| VirtualConfig {
        period: delay(section.period),
        lenders_max: section.lenders.into(),
        command: delay(central.virtual_command),
        lock: delay(central.virtual_lock),
        ..VirtualConfig::new(copyback, plan.spare_units)
    };
    match section.platform {
        Word::Conv | Word::Shrunk => Platform::Alone,
        Word::Oc => Platform::Central(CentralConfig {
            submit: delay(central.submit),
            complete: delay(central.complete),
            ..CentralConfig::default()
        }),
        Word::Vh => Platform::Virtual(harvested(Copyback::Copied)),
        Word::VhIdeal => Platform::Virtual(harvested(Copyback::Kept)),
        Word::Proch => Platform::Lending { processor: true, dram: false },
        Word::Espresso => Platform::Lending { processor: true, dram: true },
    }
}

/// The drives with their drivers. The host's processor `cpu` runs the drivers and the queue pairs that the drives lend.
pub(super) fn parts(scenario: &Scenario, plan: &JbofPlan, cpu: &Rc<Station>) -> Vec<JbofDrive> {
    let segment_pages = plan.section.segment.0 / UNIT_BYTES as u64;
    let one = |number: usize| {
        let mut config = drive(scenario, number);
        config.ftl.map_segment_pages = segment_pages.clamp(1, u32::MAX.into()) as u32;
        JbofDrive {
            name: scenario.drives[number].plan.name.clone(),
            config,
            medium: None,
            driver: Some(driver(scenario, number, cpu.clone())),
            lent_cpu: Some(cpu.clone()),
        }
    };
    (0..plan.drives.len()).map(one).collect()
}
