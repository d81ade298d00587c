//! What the points determine: confidence intervals, and constants that no point, or only a combination, fixes.

use super::constant::{Constant, Values};
use super::linear::Matrix;
use byteway_scenario::profile::Profile;

/// Half of a 95 % confidence interval, as a share of the value, above which a constant counts as not
/// identified.
pub const HALF_WIDTH_MAX: f64 = 0.15;

/// Half-width of a 95 % interval in standard deviations.
const DEVIATIONS: f64 = 1.96;

/// Share of a column that others don't explain, up to which they stand for it.
const LEFT_MAX: f64 = 0.35;

/// The same, up to which a constant among them that is known less is kept instead.
const LEFT_PART: f64 = 0.9;

/// Share of the explaining combination from which a constant is named.
const PART_MIN: f64 = 0.25;

/// Why a constant is not identified.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// No fitted point depends on it.
    Untouched,
    /// Others change the figures in the same way.
    Together {
        /// The others.
        with: Vec<Constant>,
        /// Whether only their sum matters: all are times that an I/O waits for, one after the other.
        as_sum: bool,
    },
    /// The points determine it, but less well than [`HALF_WIDTH_MAX`].
    Weak {
        /// Half of its 95 % confidence interval, as a share of the value.
        half_width: f64,
    },
    /// Its best value is at the end of its range.
    AtBound,
    /// The search was interrupted before it came to this one.
    Interrupted,
}

impl Reason {
    /// The reason in a sentence.
    pub fn sentence(&self, constant: Constant) -> String {
        let key = constant.key();
        match self {
            Reason::Untouched => {
                format!("not identified from these points: no fitted point depends on `{key}`")
            }
            Reason::Together { with, as_sum } => {
                let mut keys = vec![format!("`{key}`")];
                keys.extend(with.iter().map(|other| format!("`{}`", other.key())));
                let last = keys.pop().unwrap_or_default();
                let what = if *as_sum { "the sum" } else { "a combination" };
                format!("not identified from these points: only {what} of {} and {last} is", keys.join(", "))
            }
            Reason::Weak { half_width } => format!(
                "not identified from these points: they leave `{key}` open by {}",
                match *half_width < 2.0 {
                    true => format!("+-{:.0} %", half_width * 100.0),
                    false => "more than a factor of two".to_owned(),
                }
            ),
            Reason::Interrupted => {
                format!("not identified: the search was interrupted before it came to `{key}`")
            }
            Reason::AtBound => {
                format!(
                    "not identified from these points: the best `{key}` is at the end of its physical range"
                )
            }
        }
    }
}

/// Half of the 95 % confidence interval of each column's constant, as a share of its value. `spread` is the
/// standard deviation of a residual.
pub(super) fn half_widths(jacobian: &Matrix, spread: f64) -> Vec<f64> {
    // Too small to matter where anything is known, and large enough to keep the matrix regular.
    const RIDGE: f64 = 1e-4;
    let inverse = jacobian.normal(RIDGE).inverse_diagonal();
    let inverse = inverse.unwrap_or_else(|| vec![1.0 / RIDGE; jacobian.width()]);
    inverse.into_iter().map(|variance| DEVIATIONS * spread * variance.max(0.0).sqrt()).collect()
}

/// The constant that is to be kept at its base value first, as an index into `free`, and why; `None`: all are
/// identified.
pub(super) fn weakest(
    jacobian: &Matrix,
    spread: f64,
    free: &[usize],
    values: &Values,
    base: &Profile,
) -> Option<(usize, Reason)> {
    if let Some(column) = (0..free.len()).find(|column| jacobian.norm(*column) == 0.0) {
        return Some((column, Reason::Untouched));
    }
    let widths = half_widths(jacobian, spread);
    let (column, half_width) =
        widths.iter().copied().enumerate().max_by(|left, right| left.1.total_cmp(&right.1))?;
    if half_width <= HALF_WIDTH_MAX {
        return None;
    }
    // With any signal of its own, what makes it uncertain may be that another constant can take its place.
    let alone = DEVIATIONS * spread / jacobian.norm(column);
    let together = (alone <= 1.0).then(|| together(jacobian, column, free, values, base)).flatten();
    Some(together.unwrap_or((column, Reason::Weak { half_width })))
}

/// The constants whose columns make up that of another, and which of them all is to be kept.
fn together(
    jacobian: &Matrix,
    column: usize,
    free: &[usize],
    values: &Values,
    base: &Profile,
) -> Option<(usize, Reason)> {
    let (factors, left) = jacobian.explained(column)?;
    if left > LEFT_PART {
        return None;
    }
    let weight = |at: usize| factors[at].abs() * jacobian.norm(at);
    let most = (0..free.len()).map(weight).fold(0.0, f64::max);
    let named: Vec<usize> =
        (0..free.len()).filter(|at| *at != column && weight(*at) >= PART_MIN * most).collect();
    let clock = base.firmware.clock.0 as f64 / 1e9;
    let time = |at: usize| {
        let (constant, value) = values[free[at]];
        match constant.unit() {
            super::constant::ConstantUnit::Cycles => value / clock.max(1e-6),
            _ => value,
        }
    };
    // A nanosecond more of one is a nanosecond less of the other: the columns by nanoseconds are equal.
    let per_time = |at: usize| factors[at] * time(at) / time(column);
    let adds_up = |at: usize| values[free[at]].0.adds_up();
    let as_sum = match &named[..] {
        [] => return None,
        [only] => adds_up(column) && adds_up(*only) && (0.6..1.6).contains(&per_time(*only)),
        several => {
            let total: f64 = several.iter().map(|at| per_time(*at)).sum();
            adds_up(column)
                && several.iter().all(|at| adds_up(*at) && per_time(*at) > 0.0)
                && (0.6..2.2).contains(&total)
        }
    };
    // All of them are open along the same line: which one is kept is a matter of which is known from elsewhere.
    let group = [column].into_iter().chain(named.iter().copied());
    let kept = group.clone().max_by_key(|at| (values[free[*at]].0.kept_first(), *at == column))?;
    // What others explain only in part is open by itself, unless one of those is to be kept before it.
    if left > LEFT_MAX && kept == column {
        return None;
    }
    let with = group.filter(|at| *at != kept).map(|at| values[free[at]].0).collect();
    Some((kept, Reason::Together { with, as_sum }))
}
