//! Least squares with few unknowns: normal equations, their inverse, and projections of columns.

/// A dense matrix by rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Matrix {
    pub(super) rows: Vec<Vec<f64>>,
}

impl Matrix {
    /// Number of columns.
    pub(super) fn width(&self) -> usize {
        self.rows.first().map_or(0, Vec::len)
    }

    /// Euclidean norm of a column.
    pub(super) fn norm(&self, column: usize) -> f64 {
        self.rows.iter().map(|row| row[column] * row[column]).sum::<f64>().sqrt()
    }

    /// The columns with these indices.
    pub(super) fn columns(&self, keep: &[usize]) -> Matrix {
        Matrix { rows: self.rows.iter().map(|row| keep.iter().map(|at| row[*at]).collect()).collect() }
    }

    /// Each row times its factor.
    pub(super) fn scaled(&self, factors: &[f64]) -> Matrix {
        let rows = self.rows.iter().zip(factors);
        Matrix { rows: rows.map(|(row, factor)| row.iter().map(|cell| cell * factor).collect()).collect() }
    }

    /// `transpose(self) * self`, with `ridge` added to the diagonal.
    pub(super) fn normal(&self, ridge: f64) -> Matrix {
        let width = self.width();
        let mut rows = vec![vec![0.0; width]; width];
        for row in &self.rows {
            for (i, left) in row.iter().enumerate() {
                for (j, right) in row.iter().enumerate() {
                    rows[i][j] += left * right;
                }
            }
        }
        for (i, row) in rows.iter_mut().enumerate() {
            row[i] += ridge;
        }
        Matrix { rows }
    }

    /// `transpose(self) * vector`.
    pub(super) fn against(&self, vector: &[f64]) -> Vec<f64> {
        let mut product = vec![0.0; self.width()];
        for (row, value) in self.rows.iter().zip(vector) {
            row.iter().zip(&mut product).for_each(|(cell, sum)| *sum += cell * value);
        }
        product
    }

    /// Solves `self * x = right` for a symmetric positive definite matrix (Cholesky); `None` if it is not.
    pub(super) fn solve(&self, right: &[f64]) -> Option<Vec<f64>> {
        let size = right.len();
        let mut lower = vec![vec![0.0; size]; size];
        for i in 0..size {
            for j in 0..=i {
                let sum: f64 = (0..j).map(|k| lower[i][k] * lower[j][k]).sum();
                let rest = self.rows[i][j] - sum;
                lower[i][j] = match i == j {
                    true if rest > 0.0 => rest.sqrt(),
                    true => return None,
                    false => rest / lower[j][j],
                };
            }
        }
        let mut x = right.to_vec();
        for i in 0..size {
            let sum: f64 = (0..i).map(|k| lower[i][k] * x[k]).sum();
            x[i] = (x[i] - sum) / lower[i][i];
        }
        for i in (0..size).rev() {
            let sum: f64 = (i + 1..size).map(|k| lower[k][i] * x[k]).sum();
            x[i] = (x[i] - sum) / lower[i][i];
        }
        x.iter().all(|value| value.is_finite()).then_some(x)
    }

    /// The diagonal of the inverse of a symmetric positive definite matrix.
    pub(super) fn inverse_diagonal(&self) -> Option<Vec<f64>> {
        let size = self.rows.len();
        let unit = |at: usize| (0..size).map(|other| f64::from(u8::from(other == at))).collect::<Vec<_>>();
        (0..size).map(|at| Some(self.solve(&unit(at))?[at])).collect()
    }

    /// The combination of the other columns that comes nearest to a column: its factors (0 for the column
    /// itself), and the share of the column that it leaves.
    pub(super) fn explained(&self, column: usize) -> Option<(Vec<f64>, f64)> {
        let norm = self.norm(column);
        let others: Vec<usize> = (0..self.width()).filter(|at| *at != column).collect();
        let target: Vec<f64> = self.rows.iter().map(|row| row[column]).collect();
        let rest = self.columns(&others);
        let factors = rest.normal(norm * norm * 1e-6 + 1e-12).solve(&rest.against(&target))?;
        let left = self.rows.iter().map(|row| {
            let made: f64 = others.iter().zip(&factors).map(|(at, factor)| row[*at] * factor).sum();
            (row[column] - made) * (row[column] - made)
        });
        let left = left.sum::<f64>().sqrt() / norm.max(1e-12);
        let mut all = vec![0.0; self.width()];
        others.iter().zip(factors).for_each(|(at, factor)| all[*at] = factor);
        Some((all, left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A wrong solution would be taken for a direction without descent, and the search would end where it began.
    #[test]
    fn normal_equations_are_solved() {
        let points = Matrix { rows: vec![vec![1.0, 1.0], vec![1.0, 2.0], vec![1.0, 4.0]] };
        let values = [5.0, 7.0, 11.0];
        let line = points.normal(0.0).solve(&points.against(&values)).unwrap();
        assert!((line[0] - 3.0).abs() < 1e-9 && (line[1] - 2.0).abs() < 1e-9, "{line:?}");
        let same = Matrix { rows: vec![vec![1.0, 1.0], vec![2.0, 2.0]] };
        assert_eq!(same.normal(0.0).solve(&[1.0, 1.0]), None);
        let inverse = Matrix { rows: vec![vec![4.0, 0.0], vec![0.0, 0.25]] }.inverse_diagonal().unwrap();
        assert_eq!(inverse, [0.25, 4.0]);
    }

    // Which constants appear only as a sum is read from this.
    #[test]
    fn a_column_that_others_make_up_is_found() {
        let columns = Matrix { rows: vec![vec![1.0, 2.0, 0.0], vec![2.0, 4.0, 1.0], vec![3.0, 6.0, 0.5]] };
        let (factors, left) = columns.explained(0).unwrap();
        assert!(
            (factors[1] - 0.5).abs() < 1e-3 && factors[2].abs() < 1e-2 && left < 1e-2,
            "{factors:?} {left}"
        );
        let (_, left) = columns.explained(2).unwrap();
        assert!(left > 0.5, "{left}");
    }
}
