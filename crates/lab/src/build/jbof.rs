//! A box of drives, from its plan.

use super::{delay, drive, driver, host_costs, link};
use byteway_assembly::jbof::{
    BoxedDrive, CentralConfig, Copyback, HostConfig, JbofConfig, Platform, VirtualConfig,
};
use byteway_clock::{Rate, Station};
use byteway_jbof::fabric::FabricConfig;
use byteway_scenario::{JbofPlan, Platform as Word, Scenario};
use std::rc::Rc;

/// The box, but for its drives.
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
        platform: match section.platform {
            Word::Conv | Word::Shrunk => Platform::Alone,
            Word::Oc => Platform::Central(central(plan)),
            Word::Vh => Platform::Virtual(hypervisor(scenario, plan, Copyback::Copied)),
            Word::VhIdeal => Platform::Virtual(hypervisor(scenario, plan, Copyback::Kept)),
            Word::Proch | Word::Espresso => {
                Platform::Lending { processor: true, dram: section.platform.lends_dram() }
            }
        },
        host: HostConfig {
            cores: scenario.host.profile.cores.into(),
            hertz: section.central.clock.0,
            // Each drive's plan says already what of its map is held.
            costs: host_costs(&scenario.host),
            ..HostConfig::default()
        },
        period: delay(section.period),
        watermark: section.watermark.0 / 100.0,
        agent: delay(section.agent),
        daemon: delay(section.daemon),
        redirect: delay(section.redirect),
        loans_max: section.lenders.into(),
        ..JbofConfig::new(link(&scenario.drives[0].plan.profile), scenario.drives.len(), scenario.seed)
    }
}

/// Firmware of all drives on the host.
fn central(plan: &JbofPlan) -> CentralConfig {
    let command = delay(plan.section.central.command);
    CentralConfig {
        submit: command / 2,
        complete: command.saturating_sub(command / 2),
        ..CentralConfig::default()
    }
}

/// Of a drive one unit in so many more is spare, for others' data.
const SPARE: u64 = 32;

/// A hypervisor that shows virtual drives.
fn hypervisor(scenario: &Scenario, plan: &JbofPlan, copyback: Copyback) -> VirtualConfig {
    let section = &plan.section;
    let units = |number| drive(scenario, number).namespaces.first().map_or(0, |tenant| tenant.units);
    let least = (0..plan.drives.len()).map(units).min().unwrap_or(0);
    VirtualConfig {
        period: delay(section.period),
        lenders_max: section.lenders.into(),
        command: delay(section.central.virtual_command),
        lock: delay(section.central.virtual_lock),
        ..VirtualConfig::new(copyback, (least / SPARE).max(1))
    }
}

/// The drives, each with its driver. Queue pairs that they lend are submitted to by the host's processors in turn.
pub(super) fn parts(
    scenario: &Scenario,
    plan: &JbofPlan,
    processors: &[Rc<Station>],
    interrupts: &[Rc<Station>],
) -> Vec<BoxedDrive> {
    let one = |number: usize| BoxedDrive {
        name: scenario.drives[number].plan.name.clone(),
        config: drive(scenario, number),
        medium: None,
        driver: Some(driver(scenario, number, interrupts[number].clone())),
        lent_cpu: Some(processors[number % processors.len()].clone()),
    };
    (0..plan.drives.len()).map(one).collect()
}
