//! The section `flash.reliability` of a profile: a kind of cells, whose constants are in
//! `byteway_flash::reliability`, and overrides of these constants, which are explained there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::{KeyError, fault, within};
use byteway_flash::reliability::CellErrors;
use byteway_text::units::Age;

const ONSET_MAX: Age = Age(CellErrors::SHIFT_ONSET_MAX as u64 * 86_400);

/// Bit errors that grow with wear, age and reads; read retries; programs and erases that fail on worn cells.
/// Omitted keys have the values of the kind of cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reliability {
    /// The kind of cells.
    pub cells: CellKind,
    /// Raw bit error rate of a page of new cells, at the best thresholds, as all rates here.
    #[serde(default)]
    pub fresh: Option<f64>,
    /// Bit error rate added by `flash.endurance` erases.
    #[serde(default)]
    pub wear: Option<f64>,
    /// Exponent of its growth with erases.
    #[serde(default)]
    pub wear_exponent: Option<f64>,
    /// Retries by which the best thresholds of new cells move away, each time that the age of their data grows by a factor of 2.718.
    #[serde(default)]
    pub shift: Option<f64>,
    /// How much more they do after `flash.endurance` erases: 1 is twice as much.
    #[serde(default)]
    pub shift_wear: Option<f64>,
    /// Age from which on they do: first reads are made for younger data.
    #[serde(default)]
    pub shift_onset: Option<Age>,
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
    /// Standard deviation of how far their thresholds move, relative to the mean.
    #[serde(default)]
    pub shift_spread: Option<f64>,
    /// Read retries at shifted thresholds, at most; each takes as long as a read.
    #[serde(default)]
    pub retry_steps: Option<u32>,
    /// Factor by which each retry reduces the error rate, until the best thresholds are reached.
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
    pub shift: Option<f64>,
    /// As for the other cells.
    #[serde(default)]
    pub disturb: Option<f64>,
}

impl Reliability {
    /// Constants of the kind of cells, overridden by those of the section.
    pub(super) fn config(&self, endurance: u32) -> byteway_flash::Reliability {
        let kind = match self.cells {
            CellKind::Slc => byteway_flash::Reliability::slc(),
            CellKind::Mlc => byteway_flash::Reliability::mlc(),
            CellKind::Tlc => byteway_flash::Reliability::tlc(),
            CellKind::Qlc => byteway_flash::Reliability::qlc(),
        };
        let (cells, one_bit) = (kind.cells, kind.one_bit);
        let onset = self.shift_onset.map(|Age(seconds)| seconds as f64 / 86_400.0);
        byteway_flash::Reliability {
            cells: CellErrors {
                endurance,
                fresh: self.fresh.unwrap_or(cells.fresh),
                wear: self.wear.unwrap_or(cells.wear),
                wear_exponent: self.wear_exponent.unwrap_or(cells.wear_exponent),
                shift: self.shift.unwrap_or(cells.shift),
                shift_wear: self.shift_wear.unwrap_or(cells.shift_wear),
                shift_onset: onset.unwrap_or(cells.shift_onset),
                disturb: self.disturb.unwrap_or(cells.disturb),
                pages: self.pages.clone().unwrap_or(cells.pages),
            },
            one_bit: CellErrors {
                endurance: self.one_bit.endurance.unwrap_or(one_bit.endurance),
                fresh: self.one_bit.fresh.unwrap_or(one_bit.fresh),
                wear: self.one_bit.wear.unwrap_or(one_bit.wear),
                shift: self.one_bit.shift.unwrap_or(one_bit.shift),
                disturb: self.one_bit.disturb.unwrap_or(one_bit.disturb),
                ..one_bit
            },
            correctable: self.correctable.unwrap_or(kind.correctable),
            spread: self.spread.unwrap_or(kind.spread),
            shift_spread: self.shift_spread.unwrap_or(kind.shift_spread),
            retry_steps: self.retry_steps.unwrap_or(kind.retry_steps),
            retry_factor: self.retry_factor.unwrap_or(kind.retry_factor),
            program_failures: self.program_failures.unwrap_or(kind.program_failures),
            erase_failures: self.erase_failures.unwrap_or(kind.erase_failures),
        }
    }

    pub(super) fn check(&self) -> Result<(), KeyError> {
        let rates = [
            ("fresh", self.fresh),
            ("wear", self.wear),
            ("disturb", self.disturb),
            ("one_bit.fresh", self.one_bit.fresh),
            ("one_bit.wear", self.one_bit.wear),
            ("one_bit.disturb", self.one_bit.disturb),
        ];
        let bounds = [
            ("wear_exponent", self.wear_exponent, 0.1, 10.0),
            ("shift", self.shift, 0.0, CellErrors::SHIFT_MAX),
            ("one_bit.shift", self.one_bit.shift, 0.0, CellErrors::SHIFT_MAX),
            ("shift_wear", self.shift_wear, 0.0, CellErrors::SHIFT_WEAR_MAX),
            ("spread", self.spread, 0.0, 2.0),
            ("shift_spread", self.shift_spread, 0.0, 1.0),
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
        if let Some(onset) = self.shift_onset {
            within("flash.reliability.shift_onset", onset, Age(1), ONSET_MAX)?;
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
