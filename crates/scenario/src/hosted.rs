//! Requirements of drives whose firmware runs on the host.

use super::drive::DrivePlan;
use crate::profile::{HostProfile, KeyError, fault};

/// Checks that the host of a scenario can run the firmware of the drive at `path`, if that is required.
pub(super) fn check(
    path: &str,
    drive: &DrivePlan,
    host: &HostProfile,
    is_remote: bool,
) -> Result<(), KeyError> {
    let firmware = &drive.profile.firmware;
    if !drive.profile.takes_host() {
        return Ok(());
    }
    if is_remote {
        let what = format!("`{path}`: its firmware runs on the host at its link, which is the target here");
        let help = "choose a drive with firmware of its own, or leave `[target]` and `[network]` out";
        return Err(fault(path, what, help));
    }
    if drive.profile.is_hosted() && host.cores < firmware.cores {
        let what = format!(
            "`{path}`: its firmware needs {} processors of the host, which has {} (`firmware.cores`)",
            firmware.cores, host.cores
        );
        let help = format!("set `cores = {}` in [host.override], or choose another host", firmware.cores);
        return Err(fault(path, what, help));
    }
    Ok(())
}

/// Checks that a drive can be served.
pub(super) fn check_served(drive: &DrivePlan) -> Result<(), KeyError> {
    if !drive.profile.takes_host() {
        return Ok(());
    }
    let what =
        "`drive.profile`: its firmware, or a part of it, runs on the host, so there is no drive to attach to";
    let help = "choose a drive with firmware of its own; `byteway run` simulates this one";
    Err(fault("drive.profile", what, help))
}
