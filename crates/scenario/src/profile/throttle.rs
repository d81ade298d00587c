//! What a drive does when it is hot.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::{KeyError, MILLISECOND, SECOND, fault, within};
use byteway_text::units::{Celsius, Percent, Picos};

/// Temperatures that a drive may have, or throttle at.
pub(crate) const CELSIUS: [Celsius; 2] = [Celsius(-40), Celsius(125)];

/// Thermal throttling: of each period, a hot drive's dies rest for a share, in which no operation of the flash begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Throttle {
    /// Light throttling.
    pub light: ThrottleLevel,
    /// Heavy throttling: hotter than light, and no less rest.
    pub heavy: ThrottleLevel,
    /// Length of a period, 1 ms to 1 s. Default: 10 ms.
    #[serde(default = "ten_ms")]
    pub period: Picos,
}

/// A level of throttling.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThrottleLevel {
    /// Composite temperature from which on it applies.
    pub from: Celsius,
    /// Share of each period in which dies rest, at most 99 %.
    pub rest: Percent,
}

fn ten_ms() -> Picos {
    Picos(10_000_000_000)
}

impl Throttle {
    pub(super) fn check(&self) -> Result<(), KeyError> {
        let Throttle { light, heavy, period } = self;
        let [coldest, hottest] = CELSIUS;
        within("firmware.throttle.period", *period, MILLISECOND, SECOND)?;
        within("firmware.throttle.light.from", light.from, coldest, hottest)?;
        within("firmware.throttle.heavy.from", heavy.from, coldest, hottest)?;
        within("firmware.throttle.light.rest", light.rest, Percent(0.0), Percent(99.0))?;
        within("firmware.throttle.heavy.rest", heavy.rest, light.rest, Percent(99.0))?;
        if heavy.from <= light.from {
            let key = "firmware.throttle.heavy.from";
            let what = format!(
                "`{key}` = {} is not above `firmware.throttle.light.from` = {}",
                heavy.from, light.from
            );
            return Err(fault(key, what, "choose a higher temperature"));
        }
        Ok(())
    }

    /// How long dies rest in each period at this temperature.
    pub fn rest(&self, temperature: Celsius) -> Picos {
        let level = [&self.heavy, &self.light].into_iter().find(|level| temperature >= level.from);
        level.map_or(Picos(0), |level| Picos(level.rest.of(self.period.0)))
    }
}
