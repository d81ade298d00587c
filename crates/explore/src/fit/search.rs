//! The search: Levenberg-Marquardt over logarithms of constants, with differences of simulated figures as
//! derivatives, and Broyden's updates between them. It draws nothing at random.

use super::constant::{Values, rounded};
use super::error::FitError;
use super::linear::Matrix;
use super::model::Model;

/// Relative step of a constant for a derivative: large enough that the figures change by more than random
/// addresses and queues vary them.
const STEP: f64 = 0.08;

/// Relative change of a figure below which it is taken not to depend on a constant: alone in the drive, and
/// in a queue, where the order of I/Os changes, too.
const NOISE_ALONE: f64 = 0.000_5;
const NOISE_QUEUED: f64 = 0.004;

/// Logarithm of the factor by which a constant may leave the base without any cost in residuals. So large
/// that it only decides what the points don't.
const PRIOR: f64 = 3.0;

/// Largest change of a logarithm in a step.
const CHANGE_MAX: f64 = 0.7;

/// Steps of a descent to its end, at most.
pub(super) const STEPS_MAX: usize = 14;

/// The state of a search.
pub(super) struct Search<'m, 'a> {
    pub(super) model: &'m mut Model<'a>,
    /// Indices of the points that are fitted.
    pub(super) points: Vec<usize>,
    /// Values of the base, or the lowest possible ones.
    pub(super) base: Values,
    /// Steps of a descent, at most.
    pub(super) steps: usize,
    /// Whether it was interrupted.
    pub(super) interrupted: bool,
}

/// Squares of residuals.
fn squares(residuals: &[f64]) -> f64 {
    residuals.iter().map(|residual| residual * residual).sum()
}

impl Search<'_, '_> {
    /// The residuals of the fitted points, each in multiples of its figure's tolerance; `None` if such a
    /// drive can't be simulated.
    pub(super) fn residuals(&mut self, values: &Values) -> Result<Option<Vec<f64>>, FitError> {
        let requests: Vec<_> = self.points.iter().map(|point| (*point, values.clone())).collect();
        let found = self.model.figures(&requests)?;
        let mut residuals = Vec::new();
        for (point, found) in self.points.iter().zip(found) {
            let Some(found) = found else { return Ok(None) };
            let point = self.model.point(*point);
            for ((figure, value), found) in point.figures.iter().zip(found) {
                residuals.push(libm::log(found / value) / figure.tolerance());
            }
        }
        Ok(Some(residuals))
    }

    /// Derivatives of the residuals by the logarithms of the free constants.
    pub(super) fn jacobian(&mut self, values: &Values, free: &[usize]) -> Result<Matrix, FitError> {
        let mut requests: Vec<(usize, Values)> =
            self.points.iter().map(|point| (*point, values.clone())).collect();
        let mut moves = Vec::new();
        for &at in free {
            let (constant, value) = values[at];
            let up = value * (1.0 + STEP) <= constant.bounds().high;
            let mut moved = rounded(constant, if up { value * (1.0 + STEP) } else { value / (1.0 + STEP) });
            if moved == value {
                moved = value + 1.0;
            }
            let mut values = values.clone();
            values[at].1 = moved;
            moves.push(libm::log(moved / value));
            requests.extend(self.points.iter().map(|point| (*point, values.clone())));
        }
        let found = self.model.figures(&requests)?;
        let (here, moved) = found.split_at(self.points.len());
        let mut rows = Vec::new();
        for (at, point) in self.points.iter().enumerate() {
            let point = self.model.point(*point);
            let noise = if point.load.outstanding() == 1 { NOISE_ALONE } else { NOISE_QUEUED };
            for (number, (figure, _)) in point.figures.iter().enumerate() {
                let row = moves.iter().enumerate().map(|(column, by)| {
                    let there = moved[column * self.points.len() + at].as_ref();
                    let (Some(here), Some(there)) = (&here[at], there) else { return 0.0 };
                    let change = libm::log(there[number] / here[number]);
                    if change.abs() < noise { 0.0 } else { change / by / figure.tolerance() }
                });
                rows.push(row.collect());
            }
        }
        Ok(Matrix { rows })
    }

    /// Descends from `values` along the free constants; keeps the best values if it is interrupted.
    ///
    /// # Errors
    /// A run failed.
    pub(super) fn descend(&mut self, values: &mut Values, free: &[usize]) -> Result<(), FitError> {
        match self.try_descend(values, free) {
            Err(FitError::Interrupted) => {
                self.interrupted = true;
                Ok(())
            }
            done => done,
        }
    }

    fn try_descend(&mut self, values: &mut Values, free: &[usize]) -> Result<(), FitError> {
        let Some(mut residuals) = self.residuals(values)? else { return Ok(()) };
        if free.is_empty() {
            return Ok(());
        }
        let mut jacobian = self.jacobian(values, free)?;
        let mut is_exact = true;
        let mut damping = 1e-3;
        let mut cost = squares(&residuals) + self.prior(values, free);
        for _ in 0..self.steps {
            let prior = 1.0 / (PRIOR * PRIOR);
            let mut normal = jacobian.normal(prior);
            let mut slope = jacobian.against(&residuals);
            for (at, index) in free.iter().enumerate() {
                slope[at] += prior * self.away(values, *index);
                normal.rows[at][at] *= 1.0 + damping;
            }
            let Some(change) = normal.solve(&slope) else { break };
            let mut next = values.clone();
            let mut moved = Vec::new();
            for (&at, change) in free.iter().zip(&change) {
                let (constant, value) = values[at];
                let bounds = constant.bounds();
                let wanted = value * libm::exp((-change).clamp(-CHANGE_MAX, CHANGE_MAX));
                next[at].1 = rounded(constant, wanted.clamp(bounds.low, bounds.high));
                moved.push(libm::log(next[at].1 / value));
            }
            let largest = moved.iter().fold(0.0f64, |largest, by| largest.max(by.abs()));
            if largest < 5e-5 {
                break;
            }
            let found = self.residuals(&next)?;
            let next_cost = found.as_ref().map(|found| squares(found) + self.prior(&next, free));
            if let (Some(found), Some(next_cost)) = (found, next_cost)
                && next_cost < cost
            {
                // Broyden: what the step has shown of the derivatives.
                let length: f64 = squares(&moved);
                for ((row, now), then) in jacobian.rows.iter_mut().zip(&found).zip(&residuals) {
                    let told: f64 = row.iter().zip(&moved).map(|(cell, by)| cell * by).sum();
                    let wrong = (now - then - told) / length;
                    row.iter_mut().zip(&moved).for_each(|(cell, by)| *cell += wrong * by);
                }
                let gain = cost - next_cost;
                (*values, residuals, cost) = (next, found, next_cost);
                damping = (damping / 5.0).max(1e-6);
                // Another percent of a tolerance is no better fit.
                if gain < 1e-3 * cost || cost < 1e-4 * residuals.len() as f64 {
                    if is_exact || cost < 1e-2 * residuals.len() as f64 {
                        break;
                    }
                    jacobian = self.jacobian(values, free)?;
                    is_exact = true;
                } else {
                    is_exact = false;
                }
            } else if is_exact {
                damping *= 8.0;
                if damping > 1e4 {
                    break;
                }
            } else {
                jacobian = self.jacobian(values, free)?;
                is_exact = true;
            }
        }
        Ok(())
    }

    /// How far a constant is from the base, in logarithms.
    fn away(&self, values: &Values, at: usize) -> f64 {
        libm::log(values[at].1 / self.base[at].1)
    }

    fn prior(&self, values: &Values, free: &[usize]) -> f64 {
        free.iter().map(|at| self.away(values, *at) / PRIOR).map(|away| away * away).sum()
    }
}
