//! Health warnings and their events (NVMe Base 2.1, 5.1.2.1 and 5.1.12.1.3).
//!
//! A warning raises an event once, when it appears. A warning that exists at power-on is in the log only.

use crate::controller::core::Core;
use byteway_firmware::Health;
use byteway_wire::nvme::{AsyncEvent, SmartLog};
use std::rc::Rc;

/// Warnings that last to the end of life, and the event of each: read-only media count as a loss of reliability.
const WARNINGS: [(u8, AsyncEvent); 2] = [
    (SmartLog::WARNING_SPARE, AsyncEvent::SPARE_BELOW_THRESHOLD),
    (SmartLog::WARNING_READ_ONLY, AsyncEvent::RELIABILITY_DEGRADED),
];

/// The lasting bits of the Critical Warning.
fn lasting_warnings(health: &Health) -> u8 {
    let spare_is_low = health.available_spare_percent < health.spare_threshold_percent;
    let when = |is_so, bit| if is_so { bit } else { 0 };
    when(spare_is_low, SmartLog::WARNING_SPARE) | when(health.is_read_only, SmartLog::WARNING_READ_ONLY)
}

impl Core {
    /// Percentage Used: mean erases of the flash, as a percentage of its endurance.
    pub(crate) fn percentage_used(&self) -> u8 {
        // The wear of an array is that of its members, which report it themselves.
        let Some((erases, blocks)) = self.backing.erases() else { return 0 };
        let endured = blocks * u64::from(self.config.endurance_erases);
        (erases.saturating_mul(100) / endured.max(1)).min(u8::MAX.into()) as u8
    }

    /// The composite temperature now, in kelvins.
    pub(crate) fn temperature(&self) -> u16 {
        self.config.temperature.at(self.clock.now())
    }

    /// The Critical Warning.
    pub(crate) fn critical_warning(&self) -> u8 {
        let temperature = self.temperature();
        let is_hot_or_cold = temperature >= self.features.over_temperature.get()
            || temperature <= self.features.under_temperature.get();
        lasting_warnings(&self.backing.health())
            | if is_hot_or_cold { SmartLog::WARNING_TEMPERATURE } else { 0 }
    }
}

/// Raises events for new warnings that the host of each controller has enabled with feature 0Bh.
pub async fn run(core: Rc<Core>) {
    core.backing.ready().await;
    let mut told = lasting_warnings(&core.backing.health());
    loop {
        core.backing.worsened().await;
        let now = lasting_warnings(&core.backing.health());
        let new = now & !told;
        told = now;
        core.peers.each(|peer| {
            let wanted = new & peer.features.async_events.get().smart();
            WARNINGS
                .iter()
                .filter(|(bit, _)| wanted & bit != 0)
                .for_each(|(_, event)| peer.events.raise(*event));
        });
    }
}

/// Raises the event of a temperature that crosses a threshold, once a crossing.
pub async fn watch_temperature(core: Rc<Core>) {
    let mut before = core.temperature();
    while let Some(step) = core.config.temperature.next(core.clock.now()) {
        core.clock.timer(step.since(core.clock.now())).await;
        let after = core.temperature();
        core.peers.each(|peer| {
            let is_wanted = peer.features.async_events.get().smart() & SmartLog::WARNING_TEMPERATURE != 0;
            if is_wanted && peer.features.crosses_threshold(before, after) {
                peer.events.raise(AsyncEvent::TEMPERATURE_THRESHOLD);
            }
        });
        before = after;
    }
}
