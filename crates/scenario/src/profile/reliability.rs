//! The section `flash.reliability` of a profile: a kind of cells, whose constants are in
//! `byteway_flash::reliability`, and overrides of these constants, which are explained there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::{KeyError, fault, within};

/// Bit errors that grow with wear, age and reads; read retries; programs and erases that fail on worn cells.
/// Omitted keys have the values of the kind of cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reliability {
    /// The kind of cells.
    pub cells: CellKind,
    /// Raw bit error rate of a page just programmed on new cells.
    #[serde(default)]
    pub fresh: Option<f64>,
    /// Bit error rate added by `flash.endurance` erases.
    #[serde(default)]
    pub wear: Option<f64>,
    /// Exponent of its growth with erases.
    #[serde(default)]
    pub wear_exponent: Option<f64>,
    /// Bit error rate added by a year of retention, on cells at their endurance.
    #[serde(default)]
    pub retention: Option<f64>,
    /// Exponent of its growth with time.
    #[serde(default)]
    pub retention_exponent: Option<f64>,
    /// Bit error rate added by 100,000 reads of the block, on cells at their endurance.
    #[serde(default)]
    pub disturb: Option<f64>,
    /// Relative error rate of each page type, 1 on average.
    #[serde(default)]
    pub pages: Option<Vec<f64>>,
    /// Correctable bit errors in 4 KiB, at most.
    #[serde(default)]
    pub correctable: Option<u32>,
    /// Variation between the units of a page: standard deviation of the logarithm of their error rate.
    #[serde(default)]
    pub spread: Option<f64>,
    /// Read retries at shifted thresholds, at most; each takes as long as a read.
    #[serde(default)]
    pub retry_steps: Option<u32>,
    /// Factor by which each retry reduces the error rate.
    #[serde(default)]
    pub retry_factor: Option<f64>,
    /// Probability that a program fails at twice the endurance; up to the endurance none does.
    #[serde(default)]
    pub program_failures: Option<f64>,
    /// The same for an erase.
    #[serde(default)]
    pub erase_failures: Option<f64>,
    /// Constants for blocks with one bit per cell.
    #[serde(default)]
    pub one_bit: OneBit,
}

/// Bits per cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CellKind {
    /// One.
    Slc,
    /// Two.
    Mlc,
    /// Three.
    Tlc,
    /// Four.
    Qlc,
}

/// Cells of blocks with one bit per cell (`flash.slc`). Omitted keys have typical values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OneBit {
    /// Erase cycles that such a block endures.
    #[serde(default)]
    pub endurance: Option<u32>,
    /// As for the other cells.
    #[serde(default)]
    pub fresh: Option<f64>,
    /// As for the other cells.
    #[serde(default)]
    pub wear: Option<f64>,
    /// As for the other cells.
    #[serde(default)]
    pub retention: Option<f64>,
    /// As for the other cells.
    #[serde(default)]
    pub disturb: Option<f64>,
}

impl Reliability {
    pub(super) fn check(&self) -> Result<(), KeyError> {
        let rates = [
            ("fresh", self.fresh),
            ("wear", self.wear),
            ("retention", self.retention),
            ("disturb", self.disturb),
            ("one_bit.fresh", self.one_bit.fresh),
            ("one_bit.wear", self.one_bit.wear),
            ("one_bit.retention", self.one_bit.retention),
            ("one_bit.disturb", self.one_bit.disturb),
        ];
        let bounds = [
            ("wear_exponent", self.wear_exponent, 0.1, 10.0),
            ("retention_exponent", self.retention_exponent, 0.1, 10.0),
            ("spread", self.spread, 0.0, 2.0),
            ("retry_factor", self.retry_factor, 0.0, 1.0),
            ("program_failures", self.program_failures, 0.0, 1.0),
            ("erase_failures", self.erase_failures, 0.0, 1.0),
        ];
        let rates = rates.into_iter().map(|(key, value)| (key, value, 0.0, 0.5));
        for (key, value, low, high) in rates.chain(bounds) {
            if let Some(value) = value {
                within(&format!("flash.reliability.{key}"), value, low, high)?;
            }
        }
        if let Some(bits) = self.correctable {
            within("flash.reliability.correctable", bits, 1, 32_768)?;
        }
        if let Some(steps) = self.retry_steps {
            within("flash.reliability.retry_steps", steps, 0, byteway_flash::Reliability::RETRY_STEPS_MAX)?;
        }
        if let Some(erases) = self.one_bit.endurance {
            within("flash.reliability.one_bit.endurance", erases, 1, 10_000_000)?;
        }
        let path = "flash.reliability.pages";
        match &self.pages {
            Some(pages) if pages.is_empty() || pages.len() > 8 => {
                let what = format!("`{path}` has {} entries", pages.len());
                Err(fault(path, what, "write one share for each page type that `flash.read` has, at most 8"))
            }
            Some(pages) => pages.iter().try_for_each(|share| within(path, *share, 0.0, 100.0)),
            None => Ok(()),
        }
    }
}
