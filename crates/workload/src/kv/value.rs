//! Lengths of values.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use byteway_clock::random::{GeneralizedPareto, Stream};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::histogram::Histogram;
use crate::direction::{percentages, split};
use byteway_text::units::{Bytes, UnitError, excerpt, fio_bytes};

/// Longest value that a workload stores, in bytes.
pub const VALUE_BYTES_MAX: u32 = 16 << 20;

/// MixGraph's longest value, 1 KiB, by default.
pub const MIXGRAPH_BYTES_MAX: u32 = 1024;

/// Lengths of values, in a scenario's notation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueSizes {
    /// All of this length.
    Fixed(u32),
    /// Uniform over a range.
    Range {
        /// Shortest length.
        min: u32,
        /// Longest length.
        max: u32,
    },
    /// Lengths with their weights.
    Split(Vec<(u32, u32)>),
    /// MixGraph: a generalized Pareto distribution with location 0, shape 0.2615 and scale 25.45, rounded up;
    /// lengths above `max` are taken modulo `max` (Cao and others, FAST 2020; BandSlim's W(M) has a `max` of
    /// 1 KiB).
    MixGraph {
        /// Longest length.
        max: u32,
    },
}

const EXPECTED: &str = "a length such as \"128 B\", a range \"8 B..2 KiB\", lengths with percentages \"8 B/90:2 KiB/10\" (all without: \
                        equal shares), \"mixgraph\" or \"mixgraph:1 KiB\"";

impl ValueSizes {
    /// Longest length.
    pub fn max(&self) -> u32 {
        match self {
            ValueSizes::Fixed(bytes) => *bytes,
            ValueSizes::Range { max, .. } | ValueSizes::MixGraph { max } => *max,
            ValueSizes::Split(parts) => parts.iter().map(|part| part.0).max().unwrap_or(0),
        }
    }

    /// BandSlim's W(B) and W(C): 8 B and 2 KiB in these percentages.
    pub fn small_and_large(small_percent: u32) -> Self {
        ValueSizes::Split(vec![(8, small_percent), (2048, 100 - small_percent)])
    }

    /// BandSlim's W(D): the nine powers of two from 8 B to 2 KiB with equal shares.
    pub fn nine() -> Self {
        ValueSizes::Split((3..=11).map(|power| (1 << power, 1)).collect())
    }
}

impl FromStr for ValueSizes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wrong = |what: String| UnitError { what, help: format!("write {EXPECTED}") };
        let bytes = |text: &str| {
            let Bytes(bytes) = fio_bytes(text)?;
            if bytes > u64::from(VALUE_BYTES_MAX) {
                let what = format!("`{}` exceeds the maximum length of a value", excerpt(text));
                let help = format!("write at most {}", Bytes(VALUE_BYTES_MAX.into()));
                return Err(UnitError { what, help });
            }
            Ok(bytes as u32)
        };
        let text = text.trim();
        if let Some(rest) = text.strip_prefix("mixgraph") {
            let max = match rest.strip_prefix(':') {
                Some(max) => bytes(max)?,
                None if rest.is_empty() => MIXGRAPH_BYTES_MAX,
                None => return Err(wrong(format!("`{}` is no length of values", excerpt(text)))),
            };
            return match max {
                0 => Err(wrong("no value of mixgraph has 0 B".to_owned())),
                max => Ok(ValueSizes::MixGraph { max }),
            };
        }
        if let Some((min, max)) = text.split_once("..") {
            let (min, max) = (bytes(min)?, bytes(max)?);
            if min > max {
                return Err(wrong(format!("the range `{}` begins behind its end", excerpt(text))));
            }
            return Ok(ValueSizes::Range { min, max });
        }
        if !text.contains([':', '/']) {
            return Ok(ValueSizes::Fixed(bytes(text)?));
        }
        let parts = split(text, EXPECTED)?;
        let lengths = parts.iter().map(|part| bytes(part.0)).collect::<Result<Vec<_>, _>>()?;
        // Percentages would round equal shares.
        let weights = match parts.iter().all(|part| part.1.is_empty()) {
            true => vec![1; parts.len()],
            false => percentages(parts.iter().map(|part| part.1), "the lengths", EXPECTED)?,
        };
        Ok(ValueSizes::Split(lengths.into_iter().zip(weights).collect()))
    }
}

impl fmt::Display for ValueSizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |bytes: &u32| Bytes(u64::from(*bytes));
        match self {
            ValueSizes::Fixed(bytes) => size(bytes).fmt(f),
            ValueSizes::Range { min, max } => write!(f, "{}..{}", size(min), size(max)),
            ValueSizes::MixGraph { max } => write!(f, "mixgraph:{}", size(max)),
            ValueSizes::Split(parts) => {
                let equal = parts.iter().all(|part| part.1 == 1);
                for (index, (bytes, weight)) in parts.iter().enumerate() {
                    let colon = if index == 0 { "" } else { ":" };
                    match equal {
                        true => write!(f, "{colon}{}", size(bytes))?,
                        false => write!(f, "{colon}{}/{weight}", size(bytes))?,
                    }
                }
                Ok(())
            }
        }
    }
}

impl Serialize for ValueSizes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ValueSizes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for ValueSizes {
    fn schema_name() -> Cow<'static, str> {
        "ValueSizes".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": EXPECTED })
    }
}

/// Source of the lengths of a job's values.
#[derive(Clone, Debug, PartialEq)]
pub enum Lengths {
    /// The lengths in the scenario.
    Stated(ValueSizes),
    /// A measured distribution.
    Measured(Histogram),
}

impl Lengths {
    /// Longest length.
    pub fn max(&self) -> u32 {
        match self {
            Lengths::Stated(sizes) => sizes.max(),
            Lengths::Measured(histogram) => histogram.max().min(u64::from(VALUE_BYTES_MAX)) as u32,
        }
    }
}

/// Draws lengths; each consumes one draw.
pub(super) struct Ruler {
    lengths: Lengths,
    weight: u64,
    pareto: GeneralizedPareto,
    stream: Stream,
}

impl Ruler {
    pub(super) fn new(lengths: &Lengths, stream: Stream) -> Self {
        let weight = match lengths {
            Lengths::Stated(ValueSizes::Split(parts)) => parts.iter().map(|part| u64::from(part.1)).sum(),
            _ => 0,
        };
        let pareto = GeneralizedPareto::new(0.0, 0.2615, 25.45).expect("these are constants");
        Ruler { lengths: lengths.clone(), weight, pareto, stream }
    }

    pub(super) fn draw(&mut self) -> u32 {
        let stream = &mut self.stream;
        let sizes = match &self.lengths {
            Lengths::Measured(histogram) => {
                return histogram.draw(stream).min(u64::from(VALUE_BYTES_MAX)) as u32;
            }
            Lengths::Stated(sizes) => sizes,
        };
        match sizes {
            ValueSizes::Fixed(bytes) => *bytes,
            ValueSizes::Range { min, max } => stream.range(u64::from(*min)..=u64::from(*max)) as u32,
            ValueSizes::Split(parts) => {
                let mut at = stream.below(self.weight.max(1));
                for (bytes, weight) in parts {
                    match at.checked_sub(u64::from(*weight)) {
                        Some(rest) => at = rest,
                        None => return *bytes,
                    }
                }
                0
            }
            ValueSizes::MixGraph { max } => {
                let bytes = libm::ceil(self.pareto.sample(stream)).min(1e15) as u64;
                match bytes <= u64::from(*max) {
                    true => bytes as u32,
                    false => (bytes % u64::from(*max)) as u32,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::random::Rng;

    fn drawn(text: &str, count: usize) -> Vec<u32> {
        let sizes = text.parse().unwrap();
        let mut ruler = Ruler::new(&Lengths::Stated(sizes), Rng::new(7).stream("values"));
        (0..count).map(|_| ruler.draw()).collect()
    }

    fn share(sizes: &[u32], of: impl Fn(u32) -> bool) -> f64 {
        sizes.iter().filter(|bytes| of(**bytes)).count() as f64 / sizes.len() as f64
    }

    // With other constants, rounding or tail, MixGraph's figures would not be comparable with the papers':
    // mean 34.9 B, 66.3 % up to 32 B, 69.1 % up to 35 B, 95.9 % below 128 B.
    #[test]
    fn mixgraph_has_the_published_mean_and_shares() {
        let sizes = drawn("mixgraph", 1_000_000);
        let mean = sizes.iter().map(|bytes| f64::from(*bytes)).sum::<f64>() / sizes.len() as f64;
        assert!((mean - 34.9).abs() < 0.15, "mean {mean}");
        for (published, found) in [
            (0.663, share(&sizes, |bytes| bytes <= 32)),
            (0.691, share(&sizes, |bytes| bytes <= 35)),
            (0.959, share(&sizes, |bytes| bytes < 128)),
        ] {
            assert!((found - published).abs() < 0.0015, "{found} instead of {published}");
        }
        assert!(sizes.iter().all(|bytes| *bytes <= 1024));
    }

    // These shares define W(B), W(C) and W(D).
    #[test]
    fn shares_are_as_written() {
        let sizes = drawn("8 B/90:2 KiB/10", 100_000);
        assert!((share(&sizes, |bytes| bytes == 8) - 0.9).abs() < 0.005);
        assert!(sizes.iter().all(|bytes| [8, 2048].contains(bytes)));
        let sizes = drawn("8:16:32:64:128:256:512:1k:2k", 900_000);
        for power in 3..=11 {
            let found = share(&sizes, |bytes| bytes == 1 << power);
            assert!((found - 1.0 / 9.0).abs() < 0.002, "2^{power}: {found}");
        }
        let sizes = drawn("10 B..19 B", 10_000);
        assert!(sizes.iter().all(|bytes| (10..20).contains(bytes)));
        assert!(share(&sizes, |bytes| bytes == 19) > 0.08);
    }

    // A value shown in a summary must be accepted in a scenario.
    #[test]
    fn what_is_shown_can_be_read_back() {
        let bandslim = [ValueSizes::small_and_large(90), ValueSizes::nine()].map(|sizes| sizes.to_string());
        let written = ["128 B", "8 B..2 KiB", "mixgraph", "8 B/90:2 KiB/10", "1k:2k"].map(str::to_owned);
        for text in written.into_iter().chain(bandslim) {
            let sizes: ValueSizes = text.parse().unwrap();
            assert_eq!(sizes.to_string().parse(), Ok(sizes), "{text}");
        }
        for wrong in ["", "12", "2k..1k", "mixgraphs", "mixgraph:0 B", "8 B/50:9 B/40", "17 MiB", "8 B/x"] {
            let read = wrong.parse::<ValueSizes>();
            assert!(wrong == "12" || read.is_err(), "{wrong}: {read:?}");
        }
    }
}
