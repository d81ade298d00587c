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

/// Logarithm of the factor by which a constant may leave the base at the cost of a tolerance. So large that it
/// only decides what the points don't.
pub(super) const PRIOR: f64 = 3.0;

/// Residual in tolerances from which on a point may be a wrong one.
pub(super) const STRANGE: f64 = 5.0;

/// Largest change of a logarithm in a step.
const CHANGE_MAX: f64 = 0.7;

/// Steps of a descent to its end, at most.
pub(super) const STEPS_MAX: usize = 14;

/// One of so many figures may be off without a fit having failed: a wrong point, if the others fit.
pub(super) const WRONG_MAX: usize = 10;

/// What residuals cost. By squares alone, one wrong point would decide about all constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Loss {
    /// Squares up to a residual, linear beyond it (Huber): from any start it leads to what most points say.
    Linear(f64),
    /// Squares of small residuals, logarithmic in large ones (Cauchy): what is far from what most points say has
    /// next to no weight. It needs a start that is near.
    Logarithmic(f64),
}

impl Loss {
    pub(super) const SQUARES: Loss = Loss::Linear(f64::INFINITY);

    /// The cost of residuals in tolerances.
    pub(super) fn cost(self, residuals: &[f64]) -> f64 {
        let each = residuals.iter().map(|residual| {
            let size = residual.abs();
            match self {
                Loss::Linear(from) if size <= from => size * size,
                Loss::Linear(from) => (2.0 * size - from) * from,
                Loss::Logarithmic(width) => width * width * libm::log1p((size / width) * (size / width)),
            }
        });
        each.sum()
    }

    /// The weight of a residual's square: that of a small one is 1.
    pub(super) fn weight(self, residual: f64) -> f64 {
        let size = residual.abs();
        match self {
            Loss::Linear(from) if size <= from => 1.0,
            Loss::Linear(from) => from / size,
            Loss::Logarithmic(width) => 1.0 / (1.0 + (size / width) * (size / width)),
        }
    }

    /// The square roots of the weights.
    pub(super) fn roots(self, residuals: &[f64]) -> Vec<f64> {
        residuals.iter().map(|residual| self.weight(*residual).sqrt()).collect()
    }
}

/// The state of a search.
pub(super) struct Search<'m, 'a> {
    pub(super) model: &'m mut Model<'a>,
    /// Indices of the points that are fitted.
    pub(super) points: Vec<usize>,
    /// Values of the base, or the lowest possible ones.
    pub(super) base: Values,
    /// Logarithm of the factor by which each constant may leave the base at the cost of a tolerance.
    pub(super) priors: Vec<f64>,
    /// What residuals cost.
    pub(super) loss: Loss,
    /// Steps of a descent, at most.
    pub(super) steps: usize,
    /// The best values so far, and the cost of their residuals.
    pub(super) best: Option<(f64, Values)>,
    /// Whether it was interrupted.
    pub(super) interrupted: bool,
}

impl<'m, 'a> Search<'m, 'a> {
    /// A search from the base that counts squares.
    pub(super) fn new(model: &'m mut Model<'a>, points: Vec<usize>, base: Values) -> Search<'m, 'a> {
        let (priors, loss) = (vec![PRIOR; base.len()], Loss::SQUARES);
        Search { model, points, base, priors, loss, steps: STEPS_MAX, best: None, interrupted: false }
    }

    /// What most points say of values: the cost of their residuals for each figure, without the tenth of them that costs
    /// most. One wrong figure would hide whatever a constant does to the others.
    pub(super) fn cost(&mut self, values: &Values) -> Result<f64, FitError> {
        let residuals = self.residuals(values)?.unwrap_or_default();
        let mut costs: Vec<f64> =
            residuals.iter().map(|residual| Loss::Linear(STRANGE).cost(&[*residual])).collect();
        costs.sort_by(f64::total_cmp);
        costs.truncate(costs.len() - costs.len() / WRONG_MAX);
        Ok(match costs.len() {
            0 => f64::INFINITY,
            count => costs.iter().sum::<f64>() / count as f64,
        })
    }

    /// The figures of the fitted points; `None` if such a drive can't be simulated.
    pub(super) fn figures(&mut self, values: &Values) -> Result<Option<Vec<Vec<f64>>>, FitError> {
        let requests: Vec<_> = self.points.iter().map(|point| (*point, values.clone())).collect();
        Ok(self.model.figures(&requests)?.into_iter().collect())
    }

    /// The residuals of the fitted points, each in multiples of its figure's tolerance; `None` if such a
    /// drive can't be simulated.
    pub(super) fn residuals(&mut self, values: &Values) -> Result<Option<Vec<f64>>, FitError> {
        let Some(found) = self.figures(values)? else { return Ok(None) };
        let mut residuals = Vec::new();
        for (point, found) in self.points.iter().zip(found) {
            let point = self.model.point(*point);
            for ((figure, value), found) in point.figures.iter().zip(found) {
                residuals.push(libm::log(found / value) / point.tolerance(*figure));
            }
        }
        let cost = Loss::Linear(STRANGE).cost(&residuals);
        if self.best.as_ref().is_none_or(|(best, _)| cost < *best) {
            self.best = Some((cost, values.clone()));
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
                    if change.abs() < noise { 0.0 } else { change / by / point.tolerance(*figure) }
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
        let mut cost = self.loss.cost(&residuals) + self.prior(values, free);
        for _ in 0..self.steps {
            let roots = self.loss.roots(&residuals);
            let weighted = jacobian.scaled(&roots);
            let right: Vec<f64> =
                residuals.iter().zip(&roots).map(|(residual, root)| residual * root).collect();
            let mut normal = weighted.normal(0.0);
            let mut slope = weighted.against(&right);
            for (at, &index) in free.iter().enumerate() {
                let prior = 1.0 / (self.priors[index] * self.priors[index]);
                slope[at] += prior * self.away(values, index);
                normal.rows[at][at] += prior;
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
            let next_cost = found.as_ref().map(|found| self.loss.cost(found) + self.prior(&next, free));
            if let (Some(found), Some(next_cost)) = (found, next_cost)
                && next_cost < cost
            {
                // Broyden: what the step has shown of the derivatives.
                let length: f64 = moved.iter().map(|by| by * by).sum();
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
        free.iter().map(|at| self.away(values, *at) / self.priors[*at]).map(|away| away * away).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // By squares, one point that is wrong by a factor of ten has the weight of ten thousand good ones.
    #[test]
    fn a_wrong_residual_costs_little_more_than_a_large_one() {
        let (squares, linear, logarithmic) = (Loss::SQUARES, Loss::Linear(5.0), Loss::Logarithmic(5.0));
        for small in [0.0, -0.5, 1.0] {
            assert_eq!(squares.weight(small), 1.0);
            assert_eq!(linear.weight(small), 1.0);
            assert!(logarithmic.weight(small) > 0.95);
        }
        assert_eq!(squares.cost(&[3.0, -4.0]), 25.0);
        assert_eq!(linear.cost(&[3.0, -4.0]), 25.0);
        assert_eq!(linear.cost(&[5.0, -10.0]), 25.0 + 75.0);
        assert!(logarithmic.cost(&[230.0]) < logarithmic.cost(&[23.0]) * 3.0);
        // The pull of a residual is its weight times it: constant, and falling.
        assert!((linear.weight(230.0) * 230.0 - 5.0).abs() < 1e-9);
        assert!(logarithmic.weight(230.0) * 230.0 < 0.2);
    }
}
