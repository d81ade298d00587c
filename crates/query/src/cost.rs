//! Cost measures of a query, for which a processor model gives the time of one unit.
//!
//! The unit of evaluation is a comparison of two 8-byte values; other operators are weighted relative to it. The weights are estimates from
//! the instructions that each operator takes on a core with 128-bit vectors; none is from a paper.

use crate::work::{Encoding, Operator, Work};

/// Weight of an operator for one row, in eighths of a comparison.
const fn eighths(operator: Operator) -> u64 {
    match operator {
        Operator::Logic => 1,
        Operator::Compare | Operator::Arithmetic | Operator::Cast | Operator::Choose | Operator::Gather => 8,
        Operator::Aggregate => 16,
        Operator::ArithmeticWide | Operator::InList | Operator::CompareText => 32,
        Operator::Like => 64,
        Operator::GroupProbe | Operator::Sort => 96,
    }
}

/// Weight of an operator for one row, in comparisons.
pub fn comparisons(operator: Operator) -> f64 {
    eighths(operator) as f64 / 8.0
}

/// Cost measures of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Bytes of columns decoded, in their encoded size.
    pub decoded_bytes: u64,
    /// Comparisons, including other operators by weight.
    pub comparisons: u64,
    /// Bytes of results.
    pub output_bytes: u64,
}

impl Amount {
    /// Measures of all work counted.
    pub fn of(work: &Work) -> Amount {
        let eighths =
            Operator::ALL.iter().map(|operator| work.rows(*operator) * eighths(*operator)).sum::<u64>();
        Amount {
            decoded_bytes: Encoding::ALL.iter().map(|encoding| work.decoded_bytes(*encoding)).sum(),
            // Comparing one byte of a string costs about as much as comparing a value.
            comparisons: eighths.div_ceil(8) + work.text_bytes,
            output_bytes: work.bytes_out,
        }
    }

    /// The difference to an earlier measurement.
    pub fn since(self, before: Amount) -> Amount {
        Amount {
            decoded_bytes: self.decoded_bytes.saturating_sub(before.decoded_bytes),
            comparisons: self.comparisons.saturating_sub(before.comparisons),
            output_bytes: self.output_bytes.saturating_sub(before.output_bytes),
        }
    }
}
