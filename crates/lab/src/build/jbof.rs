//! A box of drives, from its plan.

use super::{delay, drive, driver, link};
use byteway_assembly::jbof::{BoxedDrive, DramConfig, JbofConfig, Platform};
use byteway_clock::{Rate, Station};
use byteway_jbof::fabric::FabricConfig;
use byteway_scenario::{JbofPlan, Platform as Word, Scenario};
use byteway_wire::content::UNIT_BYTES;
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
            Word::Conv | Word::Shrunk | Word::Oc | Word::Vh | Word::VhIdeal => Platform::Alone,
            Word::Proch | Word::Espresso => {
                Platform::Lending { processor: true, dram: section.platform.lends_dram() }
            }
        },
        period: delay(section.period),
        watermark: section.watermark.0 / 100.0,
        agent: delay(section.agent),
        daemon: delay(section.daemon),
        redirect: delay(section.redirect),
        loans_max: section.lenders.into(),
        dram: DramConfig {
            miss_ratio: section.miss_ratio.0 / 100.0,
            commit: delay(section.log_commit),
            ..DramConfig::default()
        },
        ..JbofConfig::new(link(&scenario.drives[0].plan.profile), scenario.drives.len(), scenario.seed)
    }
}

/// The drives, each with its driver. Queue pairs that they lend are submitted to by the host's processors in turn.
pub(super) fn parts(
    scenario: &Scenario,
    plan: &JbofPlan,
    processors: &[Rc<Station>],
    interrupts: &[Rc<Station>],
) -> Vec<BoxedDrive> {
    let segment_pages = plan.section.segment.0 / UNIT_BYTES as u64;
    let one = |number: usize| {
        let mut config = drive(scenario, number);
        config.ftl.map_segment_pages = segment_pages.clamp(1, u32::MAX.into()) as u32;
        BoxedDrive {
            name: scenario.drives[number].plan.name.clone(),
            config,
            medium: None,
            driver: Some(driver(scenario, number, interrupts[number].clone())),
            lent_cpu: Some(processors[number % processors.len()].clone()),
        }
    };
    (0..plan.drives.len()).map(one).collect()
}
