//! A JBOF: the cores and DRAM that each drive has of its profile's.

use super::drive::DrivePlan;
use super::jbof_section::{JbofSection, Platform};
use super::personality::Personality;
use crate::profile::{HostProfile, KeyError, fault, within};
use byteway_content::UNIT_BYTES;
use byteway_text::units::{Bytes, Frequency, Percent, Picos, Rate};

/// A JBOF that can be built.
#[derive(Clone, Debug)]
pub struct JbofPlan {
    /// The validated section.
    pub section: JbofSection,
    /// Resources of each drive.
    pub drives: Vec<Share>,
    /// Units of 4 KiB on each drive for writes that a hypervisor redirects to it.
    pub spare_units: u64,
}

/// Resources of a drive in a JBOF, relative to its profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Capacity that it represents in bytes: that of its profile. Smaller drives simulate faster, with a
    /// proportionally smaller map.
    pub stands_for: u64,
    /// DRAM in GB per TB of flash.
    pub dram: f64,
    /// Number of its cores.
    pub cores: u16,
    /// Number of cores in its profile.
    pub cores_whole: u16,
}

/// Drives of a JBOF, at most: indices have eight bits, and all ones means none.
const DRIVES_MAX: usize = 255;

/// Bytes of flash that a 4 KiB page of the map covers.
const MAPPED_BYTES: u64 = 1024 * UNIT_BYTES as u64;
const TB: f64 = (1u64 << 40) as f64;

/// Plans a JBOF of the drives, and reduces them to the resources of its platform.
pub(super) fn plan(
    section: &JbofSection,
    drives: &mut [(String, DrivePlan)],
    host: &HostProfile,
) -> Result<JbofPlan, KeyError> {
    check(section)?;
    if drives.len() > DRIVES_MAX {
        let what = format!("`jbof`: {} drives", drives.len());
        return Err(fault("jbof", what, format!("at most {DRIVES_MAX} are in one JBOF")));
    }
    let platform = section.platform;
    if platform == Platform::Oc && host.cores == 0 {
        let what = "`jbof.platform` = \"oc\": the firmware runs on the host, which has no processor";
        return Err(fault("jbof.platform", what, "set `cores = 16` in [host.override]"));
    }
    if platform == Platform::Oc && section.cores.is_some() {
        let what = "`jbof.cores`: the firmware of \"oc\" runs on the host's processors, so drives with other cores are as fast";
        return Err(fault("jbof.cores", what, "leave it out, or set `cores` in [host.override]"));
    }
    let whole_bytes: u64 = drives.iter().map(|(_, drive)| drive.profile.drive.capacity.0).sum();
    let mut shares = Vec::with_capacity(drives.len());
    let smallest = drives.iter().map(|(_, drive)| drive.geometry.capacity_bytes).min().unwrap_or(0);
    let spare_bytes = match platform.is_virtual() {
        true => (smallest as f64 * section.central.spare.0 / 100.0) as u64 >> 20 << 20,
        false => 0,
    };
    for (path, drive) in drives {
        let profile = &mut drive.profile;
        if profile.takes_host() || profile.bridge.is_some() {
            let what = format!("`{path}`: a drive of a JBOF has firmware of its own");
            return Err(fault(path.clone(), what, "choose a profile such as `espresso`"));
        }
        if profile.programs.is_some() {
            let what = format!("`{path}`: a drive of a JBOF, whose cores others borrow, runs no programs");
            return Err(fault(path.clone(), what, "set `override.programs = false`"));
        }
        if profile.firmware.map_cache.is_some() {
            let what = format!(
                "`{path}`: DRAM for the map of a drive of a JBOF is `jbof.dram`, not `firmware.map_cache`"
            );
            let help = "set `jbof.dram`, and leave `override.firmware.map_cache` out, or set it to false";
            return Err(fault(format!("{path}.override.firmware.map_cache"), what, help));
        }
        if profile.firmware.extents.is_some() {
            let what = format!("`{path}`: a drive of a JBOF has a map of pages, not of extents");
            return Err(fault(path.clone(), what, "set `override.firmware.extents = false`"));
        }
        if platform.is_virtual() && (drive.personality != Personality::Block || drive.namespaces != 1) {
            let what = format!("`{path}`: a hypervisor redirects writes of drives with one block namespace");
            return Err(fault(path.clone(), what, "leave `personality` and `namespaces` out"));
        }
        let cores_whole = profile.firmware.cores;
        let cores = section.cores.unwrap_or(match platform {
            Platform::Conv => cores_whole,
            _ => cores_whole.div_ceil(2),
        });
        let dram = section.dram.unwrap_or(match platform {
            Platform::Conv => 1.0,
            Platform::Oc => (section.central.dram.0 as f64 / whole_bytes as f64 * 1024.0).min(1.0),
            _ => 0.5,
        });
        profile.firmware.cores = cores;
        let own_bytes = drive.geometry.capacity_bytes;
        let map_bytes = own_bytes.div_ceil(MAPPED_BYTES) * UNIT_BYTES as u64;
        if dram < 1.0 {
            let held = (map_bytes as f64 * dram) as u64 / UNIT_BYTES as u64 * UNIT_BYTES as u64;
            profile.firmware.map_cache = Some(Bytes(held.max(UNIT_BYTES as u64)));
        }
        if spare_bytes > 0 {
            let larger = profile.geometry(Bytes(own_bytes + spare_bytes));
            drive.geometry =
                larger.map_err(|fault| KeyError { path: "jbof.central.spare".to_owned(), ..fault })?;
        }
        shares.push(Share { stands_for: profile.drive.capacity.0, dram, cores, cores_whole });
    }
    Ok(JbofPlan { section: section.clone(), drives: shares, spare_units: spare_bytes / UNIT_BYTES as u64 })
}

impl Share {
    /// Capacity that the drive represents, in TB.
    pub fn terabytes(&self) -> f64 {
        self.stands_for as f64 / TB
    }
}

fn check(section: &JbofSection) -> Result<(), KeyError> {
    let microsecond = Picos(1_000_000);
    let second = Picos(1_000_000_000_000);
    if let Some(cores) = section.cores {
        within("jbof.cores", cores, 1, 64)?;
    }
    if let Some(dram) = section.dram.filter(|dram| !(0.001..=1.0).contains(dram)) {
        let what = format!("`jbof.dram` = {dram} is out of range");
        return Err(fault("jbof.dram", what, "choose 0.001 to 1 GB for each TB: 1 holds the whole map"));
    }
    within("jbof.period", section.period, microsecond, second)?;
    within("jbof.watermark", section.watermark, Percent(1.0), Percent(100.0))?;
    within("jbof.lenders", section.lenders, 1, 254)?;
    within("jbof.agent", section.agent, Picos(0), microsecond)?;
    within("jbof.log_commit", section.log_commit, Picos(0), microsecond)?;
    within("jbof.daemon", section.daemon, Picos(0), second)?;
    within("jbof.redirect", section.redirect, Picos(0), microsecond)?;
    within("jbof.segment", section.segment, Bytes(UNIT_BYTES as u64), Bytes(1 << 30))?;
    if !section.segment.0.is_multiple_of(UNIT_BYTES as u64) {
        let what = format!("`jbof.segment` = {} is not a multiple of 4 KiB", section.segment);
        return Err(fault("jbof.segment", what, "choose \"2 MiB\", for one"));
    }
    within("jbof.miss_ratio", section.miss_ratio, Percent(0.0), Percent(100.0))?;
    let fabric = &section.fabric;
    within("jbof.fabric.drives_of_switch", fabric.drives_of_switch, 1, 255)?;
    within("jbof.fabric.port", fabric.port, Rate(1_000_000), Rate(1_000_000_000_000))?;
    within("jbof.fabric.switch", fabric.switch, Picos(0), second)?;
    within("jbof.fabric.framing", fabric.framing, Picos(0), second)?;
    let central = &section.central;
    within("jbof.central.clock", central.clock, Frequency(1_000_000), Frequency(10_000_000_000))?;
    within("jbof.central.dram", central.dram, Bytes(1 << 20), Bytes(1 << 50))?;
    within("jbof.central.dram_bandwidth", central.dram_bandwidth, Rate(1_000_000), Rate(1_000_000_000_000))?;
    within("jbof.central.submit", central.submit, Picos(0), second)?;
    within("jbof.central.complete", central.complete, Picos(0), second)?;
    within("jbof.central.spare", central.spare, Percent(1.0), Percent(100.0))?;
    within("jbof.central.virtual_command", central.virtual_command, Picos(0), second)?;
    within("jbof.central.virtual_lock", central.virtual_lock, Picos(0), second)?;
    if central.virtual_lock > central.virtual_command {
        let what = format!(
            "`jbof.central.virtual_lock` = {} is a part of `virtual_command` = {}, and larger",
            central.virtual_lock, central.virtual_command
        );
        return Err(fault("jbof.central.virtual_lock", what, "lower it, or raise `virtual_command`"));
    }
    let prices = &section.prices;
    for (key, price) in [
        ("flash_128_gb", prices.flash_128_gb),
        ("dram_gb", prices.dram_gb),
        ("controller", prices.controller),
        ("other", prices.other),
    ] {
        if !(0.0..=1e6).contains(&price) {
            let what = format!("`jbof.prices.{key}` = {price} is out of range");
            return Err(fault(format!("jbof.prices.{key}"), what, "choose 0 to 1000000 dollars"));
        }
    }
    within("jbof.prices.cxl", prices.cxl, Percent(0.0), Percent(1000.0))
}
