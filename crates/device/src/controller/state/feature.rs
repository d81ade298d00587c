//! Features (NVMe Base 2.1, 5.1.25): current and saved values.

use crate::controller::queue::arbiter::Weights;
use crate::controller::state::keep_alive::KeepAliveTimer;
use crate::controller::state::timestamp::Clockwork;
use byteway_wire::nvme::feature::{
    Arbitration, AsyncEventConfig, HostBehavior, HostMemoryBuffer, VolatileWriteCache, fid,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Whether a value of the feature can be saved. It then survives resets and power cycles.
pub fn is_saveable(feature: u8) -> bool {
    matches!(
        feature,
        fid::ARBITRATION
            | fid::TEMPERATURE_THRESHOLD
            | fid::VOLATILE_WRITE_CACHE
            | fid::INTERRUPT_COALESCING
            | fid::WRITE_ATOMICITY
            | fid::ASYNC_EVENT_CONFIGURATION
    )
}

/// Whether the feature is namespace-specific.
pub fn is_of_namespace(feature: u8) -> bool {
    matches!(feature, fid::ERROR_RECOVERY | fid::NAMESPACE_WRITE_PROTECTION)
}

/// Values of the features that the controller keeps.
pub struct Features {
    /// Arbitration.
    pub arbitration: Cell<Arbitration>,
    /// Volatile write cache.
    pub write_cache: Cell<VolatileWriteCache>,
    /// Events to report.
    pub async_events: Cell<AsyncEventConfig>,
    /// Power state: only 0.
    pub power: Cell<u32>,
    /// Temperature threshold, over, composite.
    pub over_temperature: Cell<u16>,
    /// Under temperature threshold, composite.
    pub under_temperature: Cell<u16>,
    /// Time Limited Error Recovery by unique number of the namespace. Nothing depends on it: reads are retried for as long
    /// as it takes.
    pub error_recovery: RefCell<BTreeMap<u64, u16>>,
    /// Write atomicity.
    pub write_atomicity: Cell<u32>,
    /// Keep Alive Timeout in milliseconds; 0: the timer is off.
    pub keep_alive_ms: Cell<u32>,
    /// Host behavior support. Nothing in the controller depends on it: there is no retry delay, no telemetry, no
    /// dispersed namespace and no optional Copy descriptor format, and there are two LBA formats.
    pub host_behavior: Cell<HostBehavior>,
    /// Notify the host when garbage collection starts outside a window.
    pub collection_notices: Cell<bool>,
    /// Host Memory Buffer.
    pub host_buffer: Cell<HostMemoryBuffer>,
    /// The timestamp.
    pub timestamp: Clockwork,
    /// The Keep Alive Timer.
    pub keep_alive: KeepAliveTimer,
    /// Saved values, by feature and index of the value.
    saved: RefCell<BTreeMap<(u8, u8), u32>>,
    arbitration_burst: u32,
}

impl Features {
    /// Values after power-on, with the arbitration burst of the profile.
    pub fn new(arbitration_burst: u32) -> Self {
        let features = Features {
            arbitration: Cell::new(Arbitration::new()),
            write_cache: Cell::new(VolatileWriteCache::new()),
            async_events: Cell::new(AsyncEventConfig::new()),
            power: Cell::default(),
            over_temperature: Cell::default(),
            under_temperature: Cell::default(),
            error_recovery: RefCell::default(),
            write_atomicity: Cell::default(),
            keep_alive_ms: Cell::default(),
            host_behavior: Cell::default(),
            collection_notices: Cell::default(),
            host_buffer: Cell::default(),
            timestamp: Clockwork::default(),
            keep_alive: KeepAliveTimer::default(),
            saved: RefCell::default(),
            arbitration_burst,
        };
        features.reset();
        features
    }

    /// The default of Arbitration.
    pub fn default_arbitration(&self) -> Arbitration {
        // A burst of seven, the greatest value of its three bits, means no limit.
        let exponent = self.arbitration_burst.ilog2().min(7) as u8;
        Arbitration::new().with_ab(exponent)
    }

    /// Whether a change of the temperature crosses a threshold, so that it is then over or under it.
    pub fn crosses_threshold(&self, before: u16, after: u16) -> bool {
        let (over, under) = (self.over_temperature.get(), self.under_temperature.get());
        before < over && after >= over || before > under && after <= under
    }

    /// Default over temperature threshold in kelvin, the same as WCTEMP.
    pub const OVER_TEMPERATURE: u16 = 343;

    /// CCTEMP in kelvin.
    pub const CRITICAL_TEMPERATURE: u16 = 353;

    /// Saves a value that was set.
    pub fn save(&self, feature: u8, which: u8, value: u32) {
        self.saved.borrow_mut().insert((feature, which), value);
    }

    /// A saved value.
    pub fn saved_value(&self, feature: u8, which: u8) -> Option<u32> {
        self.saved.borrow().get(&(feature, which)).copied()
    }

    /// All saved values: feature, index of the value, value.
    pub fn saved(&self) -> Vec<(u8, u8, u32)> {
        self.saved.borrow().iter().map(|((feature, which), value)| (*feature, *which, *value)).collect()
    }

    /// Restores the saved values of an earlier power cycle.
    pub fn restore(&self, saved: &[(u8, u8, u32)]) {
        let known = saved.iter().filter(|(feature, ..)| is_saveable(*feature));
        self.saved.replace(known.map(|(feature, which, value)| ((*feature, *which), *value)).collect());
        self.reset();
    }

    /// Resets all features to their saved values, or to the defaults.
    pub fn reset(&self) {
        self.reset_to_defaults();
        for ((feature, which), value) in self.saved.borrow().iter() {
            match (*feature, *which) {
                (fid::ARBITRATION, _) => self.arbitration.set(Arbitration::from_bits(*value)),
                (fid::TEMPERATURE_THRESHOLD, 0) => self.over_temperature.set(*value as u16),
                (fid::TEMPERATURE_THRESHOLD, _) => self.under_temperature.set(*value as u16),
                (fid::VOLATILE_WRITE_CACHE, _) => self.write_cache.set(VolatileWriteCache::from_bits(*value)),
                (fid::WRITE_ATOMICITY, _) => self.write_atomicity.set(*value),
                (fid::ASYNC_EVENT_CONFIGURATION, _) => {
                    self.async_events.set(AsyncEventConfig::from_bits(*value));
                }
                _ => {} // `Interrupts` keeps the coalescing
            }
        }
    }

    fn reset_to_defaults(&self) {
        self.arbitration.set(self.default_arbitration());
        self.write_cache.set(VolatileWriteCache::new().with_wce(true));
        self.async_events.set(AsyncEventConfig::new());
        self.power.set(0);
        self.over_temperature.set(Self::OVER_TEMPERATURE);
        self.under_temperature.set(0);
        self.error_recovery.borrow_mut().clear();
        self.write_atomicity.set(0);
        self.keep_alive_ms.set(0);
        self.host_behavior.set(HostBehavior::default());
        self.collection_notices.set(false);
    }

    /// The weights for the arbiter.
    pub fn weights(&self) -> Weights {
        let arbitration = self.arbitration.get();
        Weights {
            high: u32::from(arbitration.hpw_z()) + 1,
            medium: u32::from(arbitration.mpw_z()) + 1,
            low: u32::from(arbitration.lpw_z()) + 1,
            burst: arbitration.burst().unwrap_or(u32::MAX),
        }
    }
}
