//! An array: software on the host combines the drives of a scenario into one.

use super::array_section::ArraySection;
use super::drive::{ArrayPlan, DrivePlan};
use super::file::Store;
use super::personality::Personality;
use crate::profile::{Collection, Geometry, KeyError, collection, fault, within};
use crate::source::Index;
use byteway_firmware::Base;
use byteway_text::units::Frequency;

/// Drives of an array, at most.
const DRIVES_MAX: usize = 64;

/// Plans the array from its drives. `precondition_said`: whether a drive's section sets `precondition`.
pub(super) fn plan(
    section: &ArraySection,
    drives: &[(String, DrivePlan)],
    index: &Index,
) -> Result<DrivePlan, KeyError> {
    let wrong = |key: &str, what: String, help: &str| Err(fault(format!("array.{key}"), what, help));
    if !section.chunk.0.is_power_of_two() || !(4096..=4 << 20).contains(&section.chunk.0) {
        let what = format!("`array.chunk` = {} is not possible", section.chunk);
        return wrong("chunk", what, "choose a power of two from 4 KiB to 4 MiB");
    }
    within("array.clock", section.clock, Frequency(1_000_000), Frequency(10_000_000_000))?;
    within("array.stripe", section.stripe, 0, 1_000_000_000)?;
    within("array.parity", section.parity, 0, 1_000_000_000)?;
    let least = match section.level {
        0 => 1,
        1 => 2,
        5 => 3,
        10 => 4,
        level => {
            return wrong(
                "level",
                format!("`array.level` = {level} is no level here"),
                "choose 0, 1, 5 or 10",
            );
        }
    };
    let Some(active) = drives.len().checked_sub(section.spares.into()).filter(|active| *active >= least)
    else {
        let what = format!(
            "`array.level` = {} needs {least} drives that are not spares, and the scenario has {} with {} spares",
            section.level,
            drives.len(),
            section.spares
        );
        return wrong("level", what, "add drives (`copies`), or choose another level or fewer spares");
    };
    if drives.len() > DRIVES_MAX {
        let what = format!("`array`: {} drives", drives.len());
        return wrong("level", what, "at most 64 are one array");
    }
    if section.level == 10 && active % 2 == 1 {
        let what = format!("`array.level` = 10 mirrors pairs of drives, and {active} is an odd number");
        return wrong("level", what, "add a drive, or choose another level");
    }
    if section.level == 0 && section.spares > 0 {
        let what = "`array.spares` has no effect with level 0, which has no redundancy".to_owned();
        return wrong("spares", what, "leave it out, or choose another level");
    }
    if let Some(unplug) = section.unplug.filter(|unplug| usize::from(unplug.member) >= drives.len()) {
        let what = format!(
            "`array.unplug.member` = {}: the array has drives 0 to {}",
            unplug.member,
            drives.len() - 1
        );
        return wrong("unplug.member", what, "name one of these");
    }
    collection::check_window("array.collection_window", section.collection_window)?;
    let is_bridge = drives.iter().any(|(_, drive)| drive.profile.bridge.is_some());
    if section.collection == Collection::Together && is_bridge {
        let what =
            "`array.collection` = \"together\": a bridge decides when its drives collect garbage".to_owned();
        return wrong("collection", what, "leave it out, and set `override.bridge.collection` of the drives");
    }
    let (_, first) = &drives[0];
    for (path, drive) in drives {
        let key = |key: &str| format!("{path}.{key}");
        if index.has(&key("precondition")) && drive.precondition != Base::Empty {
            let what = format!("`{}`: the drives of an array start empty", key("precondition"));
            return Err(fault(key("precondition"), what, "leave it out; jobs can fill the array"));
        }
        if drive.personality != Personality::Block || drive.kv_bytes > 0 || drive.namespaces != 1 {
            let what = format!("`{path}`: a drive of an array has one block namespace");
            return Err(fault(path.clone(), what, "leave `personality`, `kv_capacity` and `namespaces` out"));
        }
        if drive.profile.programs.is_some() {
            let what = format!("`{path}`: a drive of an array has one block namespace, and no programs");
            return Err(fault(path.clone(), what, "set `override.programs = false`"));
        }
        let differs = [
            ("capacity", drive.namespace_blocks != first.namespace_blocks),
            ("lba_size", drive.lba_bytes != first.lba_bytes),
            ("store", drive.store != first.store),
        ];
        if let Some((what, _)) = differs.iter().find(|(_, differs)| *differs) {
            let text = format!("`{path}` has another {what} than the first drive of the array");
            let help = format!("give all drives of the array the same `{what}`");
            return Err(fault(path.clone(), text, help));
        }
    }
    let members: Vec<DrivePlan> =
        drives.iter().map(|(_, drive)| DrivePlan { precondition: Base::Empty, ..drive.clone() }).collect();
    let own = first.namespace_blocks * u64::from(first.lba_bytes);
    let data = match section.level {
        0 => active,
        1 => 1,
        5 => active - 1,
        _ => active / 2,
    } as u64;
    // Each drive reserves space for the array: marks, log and journal.
    let kept = own / 256 + (4 << 20) + 4 * active as u64 * section.chunk.0;
    let bytes = ((data * own.saturating_sub(kept)) >> 20) << 20;
    if bytes < 16 << 20 {
        let what = "`array`: its drives are too small".to_owned();
        return wrong("level", what, "let each have 1 GiB at least");
    }
    Ok(DrivePlan {
        name: None,
        profile_name: format!("raid-{} of {}", section.level, first.profile_name),
        geometry: Geometry { capacity_bytes: bytes, ..first.geometry },
        store: if first.store == Store::File { Store::Stamp } else { first.store },
        precondition: Base::Empty,
        namespaces: 1,
        namespace_blocks: bytes / u64::from(first.lba_bytes),
        array: Some(Box::new(ArrayPlan { section: section.clone(), members })),
        ..first.clone()
    })
}
