//! Warnings of the drive's health, and the events that tell of them (NVMe Base 2.1, 5.1.2.1 and 5.1.12.1.3).
//!
//! A warning is told once, when it comes. One that is there when the power comes is in the log only.

use crate::controller::Core;
use byteway_firmware::Health;
use byteway_wire::nvme::{AsyncEvent, SmartLog};
use std::rc::Rc;

/// The warnings that stay until the end, and what tells of each: that media are read-only is a loss of reliability.
const WARNINGS: [(u8, AsyncEvent); 2] = [
    (SmartLog::WARNING_SPARE, AsyncEvent::SPARE_BELOW_THRESHOLD),
    (SmartLog::WARNING_READ_ONLY, AsyncEvent::RELIABILITY_DEGRADED),
];

/// The Critical Warning of the health page.
pub fn critical_warning(health: &Health) -> u8 {
    let spare_is_low = health.available_spare_percent < health.spare_threshold_percent;
    let when = |is_so, bit| if is_so { bit } else { 0 };
    when(spare_is_low, SmartLog::WARNING_SPARE) | when(health.is_read_only, SmartLog::WARNING_READ_ONLY)
}

/// Tells of warnings that the host has asked for, with feature 0Bh.
pub async fn run(core: Rc<Core>) {
    core.ftl.ready().await;
    let mut told = critical_warning(&core.ftl.health());
    loop {
        core.ftl.worsened().await;
        let now = critical_warning(&core.ftl.health());
        let wanted = now & !told & core.features.async_events.get().smart();
        told = now;
        WARNINGS.iter().filter(|(bit, _)| wanted & bit != 0).for_each(|(_, event)| core.raise(*event));
    }
}
