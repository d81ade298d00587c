//! Figures of a JBOF over the measured part of a run: mutual help of the drives, cost and energy.

use byteway_clock::{Delay, Time};
use byteway_content::UNIT_BYTES;
use byteway_jbof::Jbof;
use byteway_jbof::fabric::Node;
use byteway_link::Direction;
use byteway_results::cost::{Activity, Power, Prices};
use byteway_results::summary::{DriveParts, EnergySummary, JbofRow, JbofSummary};
use byteway_scenario::{JbofPlan, Platform};
use byteway_text::number::{ns, ratio};
use byteway_world::PoweredDrive;
use std::rc::Rc;

/// Counters of a drive at an instant.
#[derive(Clone, Copy, Default)]
struct DriveCounters {
    cores: Delay,
    lent: Delay,
    held: Delay,
    array: Delay,
    link_bytes: u64,
    fabric_bytes: u64,
    dram_bytes: u64,
    map_hits: u64,
    map_misses: u64,
    commands: u64,
    redirected: u64,
    borrowed: u64,
    lends: u64,
    redirected_bytes: u64,
    copied_bytes: u64,
    last_copy: Time,
    segments_borrowed: u64,
    segments_lent: u64,
    log_commits: u64,
    log_flushes: u64,
}

/// Counters of a JBOF at an instant.
#[derive(Default)]
pub struct JbofSnapshot {
    at: Time,
    drives: Vec<DriveCounters>,
}

impl JbofSnapshot {
    /// Takes the counters of a JBOF with these drives at `now`.
    pub fn take(jbof: &Jbof, drives: &[Rc<PoweredDrive>], now: Time) -> JbofSnapshot {
        let each = drives.iter().enumerate();
        JbofSnapshot { at: now, drives: each.map(|(number, drive)| counters(jbof, number, drive)).collect() }
    }

    /// Summary from `begin` to this snapshot, in which jobs achieved this number of I/Os per second.
    pub fn summary(
        &self,
        begin: &JbofSnapshot,
        plan: &JbofPlan,
        drives: &[Rc<PoweredDrive>],
        iops: f64,
    ) -> JbofSummary {
        let elapsed = self.at.since(begin.at);
        let power = Power::default();
        let (mut energy, mut fabric_bytes, mut rows) = (EnergySummary::default(), 0, Vec::new());
        for (number, share) in plan.drives.iter().enumerate() {
            let (now, then) = (&self.drives[number], begin.drives.get(number).copied().unwrap_or_default());
            let since = |now: Delay, then: Delay| now.saturating_sub(then);
            let (cores, lent) = (since(now.cores, then.cores), since(now.lent, then.lent));
            let powered = &drives[number];
            let dies: u64 = powered.arrays().iter().map(|flash| u64::from(flash.geometry().dies())).sum();
            let fabric = now.fabric_bytes - then.fabric_bytes;
            fabric_bytes += fabric;
            energy = energy.with(EnergySummary::of(
                &power,
                &Activity {
                    seconds: seconds(elapsed),
                    dies,
                    held_seconds: seconds(since(now.held, then.held)),
                    array_seconds: seconds(since(now.array, then.array)),
                    core_seconds: seconds(cores),
                    cores_of_whole: share.cores_whole.into(),
                    link_bytes: now.link_bytes - then.link_bytes + fabric,
                    dram_bytes: now.dram_bytes - then.dram_bytes,
                },
            ));
            let of_cores =
                |busy: Delay| ratio(busy.0.into(), u128::from(elapsed.0) * u128::from(share.cores));
            let (hits, misses) = (now.map_hits - then.map_hits, now.map_misses - then.map_misses);
            let looked_up = u128::from(hits) + u128::from(misses);
            rows.push(JbofRow {
                drive: powered.name.clone().unwrap_or_default(),
                cores_busy: of_cores(cores),
                cores_lent: of_cores(lent),
                borrowed: now.borrowed - then.borrowed,
                lent: now.lends - then.lends,
                commands: now.commands - then.commands,
                redirected: now.redirected - then.redirected,
                map_lookups: hits + misses,
                log_commits: now.log_commits - then.log_commits,
                log_flushes: now.log_flushes - then.log_flushes,
                segments_borrowed: now.segments_borrowed,
                segments_lent: now.segments_lent,
                map_miss_ratio: (looked_up > 0).then(|| ratio(misses.into(), looked_up)),
                redirected_bytes: now.redirected_bytes - then.redirected_bytes,
                copied_bytes: now.copied_bytes - then.copied_bytes,
                copied_by_ns: (now.copied_bytes > then.copied_bytes)
                    .then(|| ns(now.last_copy.since(begin.at).0)),
            });
        }
        let section = &plan.section;
        let has_cxl = section.platform.lends_processors();
        let parts: Vec<DriveParts> = plan
            .drives
            .iter()
            .map(|share| {
                // With firmware on the host the drive keeps a controller for data movement only; the paper does not state its price.
                let (dram, cores) = match section.platform {
                    Platform::Oc => (0.0, (share.cores, share.cores_whole)),
                    _ => (share.dram, (share.cores, share.cores_whole)),
                };
                DriveParts { terabytes: share.terabytes(), dram, cores, has_cxl }
            })
            .collect();
        let prices = Prices {
            flash_128_gb: section.prices.flash_128_gb,
            dram_gb: section.prices.dram_gb,
            controller: section.prices.controller,
            other: section.prices.other,
            cxl: section.prices.cxl.0 / 100.0,
        };
        JbofSummary::new(section.platform.word(), &parts, &prices, iops, rows, energy, fabric_bytes)
    }
}

fn counters(jbof: &Jbof, drive: usize, powered: &PoweredDrive) -> DriveCounters {
    let site = &powered.drive.site;
    let (figures, dram_figures) = (jbof.figures(drive), jbof.dram_figures(drive));
    let (redirected, commands) = jbof.redirected(drive);
    let fabric = jbof.fabric().bytes(Node::Drive(drive));
    // With firmware on the host the drive has no cores and no DRAM of its own.
    let hardware = jbof.hardware(drive);
    let own = hardware.is_none();
    let mut counters = DriveCounters {
        cores: if own { site.busy() } else { Delay::ZERO },
        lent: if own { site.lent() } else { Delay::ZERO },
        fabric_bytes: fabric.0 + fabric.1,
        dram_bytes: if own { site.dram_bytes() } else { 0 },
        commands,
        redirected,
        borrowed: figures.borrowed,
        lends: figures.lent,
        segments_borrowed: dram_figures.borrowed.into(),
        segments_lent: dram_figures.lent.into(),
        log_commits: dram_figures.use_of.commits,
        log_flushes: dram_figures.use_of.flushes,
        ..DriveCounters::default()
    };
    if let Some(own) = jbof.virtual_drive(drive) {
        let figures = own.figures();
        counters.redirected_bytes = figures.units_redirected * UNIT_BYTES as u64;
        counters.copied_bytes = figures.units_copied * UNIT_BYTES as u64;
        counters.last_copy = figures.last_copy;
    }
    let links = powered.links().into_iter().filter(|_| own).chain(hardware.map(|(_, link)| link));
    for link in links {
        let ledger = link.ledger();
        let both = [Direction::Down, Direction::Up];
        counters.link_bytes += both.map(|direction| ledger.total(direction).wire).iter().sum::<u64>();
    }
    for flash in powered.arrays() {
        let dies = 0..flash.geometry().dies();
        counters.held += dies.clone().map(|die| flash.die_busy(die)).sum::<Delay>();
        counters.array += dies.map(|die| flash.die_array(die)).sum::<Delay>();
    }
    for layer in powered.layers() {
        let ftl = layer.counters();
        counters.map_hits += ftl.map_hits;
        counters.map_misses += ftl.map_misses + ftl.map_misses_shared;
        if own {
            // Passage through DRAM is charged as time on the way in only; its energy is spent again on the way to flash.
            counters.dram_bytes += ftl.units_programmed_host * UNIT_BYTES as u64;
        }
    }
    counters
}

fn seconds(delay: Delay) -> f64 {
    delay.0 as f64 / 1e12
}
