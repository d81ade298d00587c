//! Distributions of random addresses: fio's `random_distribution`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use byteway_clock::permutation::Permutation;
use byteway_clock::random::{InvalidParameter, Normal, Stream, Zipf};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::direction::{percentages, split};
use byteway_text::units::{Bytes, UnitError, excerpt, fio_bytes};

/// Distribution of random addresses over the range, as fio's `random_distribution`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Distribution {
    /// Uniform.
    #[default]
    Uniform,
    /// Zipf: the r-th most popular unit has a probability proportional to 1 / r^theta; units are scattered
    /// over the range by a fixed permutation.
    Zipf {
        /// Skew, above 0.
        theta: f64,
    },
    /// Pareto: a share 1 - h of the accesses goes to a share h of the range, recursively; scattered likewise.
    Pareto {
        /// Skew, above 0 and below 1: 0.2 is the rule of 80 to 20.
        h: f64,
    },
    /// Normal: popularity falls on both sides of one unit, truncated at the range; scattered likewise.
    Normal {
        /// Standard deviation, in percent of the range.
        deviation: f64,
    },
    /// Zones in order, each with its share of the accesses, uniform within.
    Zoned(Vec<Zone<u32>>),
    /// The same with zone sizes in bytes. Addresses behind the last zone are never accessed.
    ZonedAbs(Vec<Zone<Bytes>>),
}

/// A part of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone<S> {
    /// Share of the accesses in percent.
    pub accesses: u32,
    /// Size, in percent of the range or in bytes.
    pub size: S,
}

const EXPECTED: &str = "\"random\", \"zipf:1.2\", \"pareto:0.2\", \"normal:10\", \"zoned:60/10:30/20:10/70\" (percent of the accesses / \
                        percent of the range) or \"zoned_abs:60/20g:40/100g\"";

impl FromStr for Distribution {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = |what: String| UnitError { what, help: format!("write {EXPECTED}") };
        let trimmed = text.trim();
        let (name, parameter) = trimmed.split_once(':').map_or((trimmed, None), |(n, p)| (n, Some(p.trim())));
        let number = |noun: &str, low: f64, high: f64, example: &str| {
            let Some(parameter) = parameter else {
                return Err(wrong(format!("`{}` lacks its {noun}", excerpt(text))));
            };
            match parameter.parse::<f64>() {
                Ok(value) if (low..=high).contains(&value) => Ok(value),
                Ok(_) => Err(UnitError {
                    what: format!("the {noun} of `{}` is out of range", excerpt(text)),
                    help: format!("choose a {noun} from {low} to {high}, such as \"{example}\""),
                }),
                Err(_) => Err(wrong(format!("the {noun} of `{}` is not a number", excerpt(text)))),
            }
        };
        match name {
            "random" | "uniform" if parameter.is_none() => Ok(Distribution::Uniform),
            "zipf" => number("theta", 0.001, 20.0, "zipf:1.2").map(|theta| Distribution::Zipf { theta }),
            "pareto" => number("h", 0.001, 0.999, "pareto:0.2").map(|h| Distribution::Pareto { h }),
            "normal" => {
                let deviation = number("deviation", 0.0, 100.0, "normal:10")?;
                Ok(Distribution::Normal { deviation })
            }
            "zoned" => zones(parameter.unwrap_or_default()).map(Distribution::Zoned),
            "zoned_abs" => zones_abs(parameter.unwrap_or_default()).map(Distribution::ZonedAbs),
            _ => Err(wrong(format!("`{}` is not a distribution", excerpt(text)))),
        }
    }
}

fn zones(text: &str) -> Result<Vec<Zone<u32>>, UnitError> {
    let parts = split(text, EXPECTED)?;
    let accesses = percentages(parts.iter().map(|part| part.0), "the accesses", EXPECTED)?;
    let sizes = percentages(parts.iter().map(|part| part.1), "the zones' sizes", EXPECTED)?;
    Ok(accesses.into_iter().zip(sizes).map(|(accesses, size)| Zone { accesses, size }).collect())
}

fn zones_abs(text: &str) -> Result<Vec<Zone<Bytes>>, UnitError> {
    let parts = split(text, EXPECTED)?;
    let accesses = percentages(parts.iter().map(|part| part.0), "the accesses", EXPECTED)?;
    let sizes = parts.iter().map(|part| fio_bytes(part.1)).collect::<Result<Vec<_>, _>>()?;
    Ok(accesses.into_iter().zip(sizes).map(|(accesses, size)| Zone { accesses, size }).collect())
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn zones<S: fmt::Display>(name: &str, zones: &[Zone<S>], f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(name)?;
            zones.iter().try_for_each(|zone| write!(f, ":{}/{}", zone.accesses, zone.size))
        }
        match self {
            Distribution::Uniform => f.write_str("random"),
            Distribution::Zipf { theta } => write!(f, "zipf:{theta}"),
            Distribution::Pareto { h } => write!(f, "pareto:{h}"),
            Distribution::Normal { deviation } => write!(f, "normal:{deviation}"),
            Distribution::Zoned(list) => zones("zoned", list, f),
            Distribution::ZonedAbs(list) => zones("zoned_abs", list, f),
        }
    }
}

impl Serialize for Distribution {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Distribution {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Distribution {
    fn schema_name() -> Cow<'static, str> {
        "Distribution".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": EXPECTED,
            "pattern": r"^(random|uniform|(zipf|pareto|normal):[0-9.]+|zoned(_abs)?:.+)$",
        })
    }
}

/// Draws units of a range, from 0.
pub(crate) enum Spread {
    Uniform {
        units: u64,
    },
    /// Each unit once, then each again in another order.
    Once {
        order: Permutation,
        drawn: u64,
    },
    Zipf {
        ranks: Zipf,
        scatter: Permutation,
    },
    Pareto {
        units: u64,
        power: f64,
        scatter: Permutation,
    },
    Normal {
        normal: Normal,
        units: u64,
        scatter: Permutation,
    },
    /// Cumulative accesses in percent, first unit, and number of units of each zone.
    Zoned {
        zones: Vec<(u32, u64, u64)>,
    },
}

impl Spread {
    /// A distribution over `units` units (at least 1) of `unit_bytes`; `key` selects the permutation.
    pub(crate) fn new(
        distribution: &Distribution,
        units: u64,
        unit_bytes: u64,
        key: u64,
    ) -> Result<Self, InvalidParameter> {
        let scatter = || Permutation::new(key, units);
        Ok(match distribution {
            Distribution::Uniform => Spread::Uniform { units },
            Distribution::Zipf { theta } => {
                Spread::Zipf { ranks: Zipf::new(units, *theta)?, scatter: scatter()? }
            }
            Distribution::Pareto { h } => {
                // P(unit < x of all) = x^(1 / power), which is 1 - h where x is h.
                let power = libm::log(*h) / libm::log1p(-h);
                Spread::Pareto { units, power, scatter: scatter()? }
            }
            Distribution::Normal { deviation } => {
                let whole = units as f64;
                let normal = Normal::new(whole / 2.0, whole * deviation / 100.0)?;
                Spread::Normal { normal, units, scatter: scatter()? }
            }
            Distribution::Zoned(list) => {
                let mut percent = 0;
                Self::zoned(list.iter().map(|zone| {
                    percent += zone.size;
                    let end = u128::from(units) * u128::from(percent) / 100;
                    (zone.accesses, end as u64)
                }))
            }
            Distribution::ZonedAbs(list) => {
                let mut bytes = 0u64;
                Self::zoned(list.iter().map(|zone| {
                    bytes = bytes.saturating_add(zone.size.0);
                    (zone.accesses, (bytes / unit_bytes.max(1)).min(units))
                }))
            }
        })
    }

    /// Each of `units` once, in an order selected by `key`.
    pub(crate) fn once(units: u64, key: u64) -> Result<Self, InvalidParameter> {
        Ok(Spread::Once { order: Permutation::new(key, units)?, drawn: 0 })
    }

    fn zoned(ends: impl Iterator<Item = (u32, u64)>) -> Self {
        let (mut accesses, mut first) = (0, 0);
        let zones = ends.map(|(share, end)| {
            accesses += share;
            let zone = (accesses, first, end - first);
            first = end;
            zone
        });
        Spread::Zoned { zones: zones.collect() }
    }

    /// Whether a zone with accesses has no unit.
    pub(crate) fn has_empty_zone(&self) -> bool {
        let Spread::Zoned { zones } = self else { return false };
        let mut before = 0;
        zones.iter().any(|(accesses, _, units)| {
            let share = accesses - before;
            before = *accesses;
            share > 0 && *units == 0
        })
    }

    pub(crate) fn draw(&mut self, stream: &mut Stream) -> u64 {
        match self {
            Spread::Uniform { units } => stream.below(*units),
            Spread::Once { order, drawn } => {
                if *drawn == order.n() {
                    *drawn = 0;
                    // The length is unchanged, so construction cannot fail.
                    *order = Permutation::new(stream.next_u64(), order.n()).unwrap_or(order.clone());
                }
                *drawn += 1;
                order.forward(*drawn - 1)
            }
            Spread::Zipf { ranks, scatter } => scatter.forward(ranks.sample(stream)),
            Spread::Pareto { units, power, scatter } => {
                let rank = libm::pow(stream.unit_open(), *power) * *units as f64;
                // Rounding may yield the number of units itself.
                scatter.forward((rank as u64).min(*units - 1))
            }
            Spread::Normal { normal, units, scatter } => loop {
                // Even at a deviation of 100 %, more than a third of the draws are in range.
                let at = normal.sample(stream).floor();
                if at >= 0.0 && at < *units as f64 {
                    break scatter.forward(at as u64);
                }
            },
            Spread::Zoned { zones } => {
                let percent = stream.below(100) as u32;
                let zone = zones.partition_point(|zone| zone.0 <= percent);
                let (_, first, units) = zones[zone];
                first + stream.below(units)
            }
        }
    }
}
