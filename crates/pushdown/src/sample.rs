//! Estimates the selectivity of a filter by reading a few row groups: zone maps do not show how values are
//! distributed.

use crate::error::SessionError;
use crate::session::{Session, TableInfo};
use byteway_query::estimate::{counting, selectivity};
use byteway_query::{ColumnType, Execution, GroupMeta, Query, Work, group, stream, values};
use byteway_query::{Value, expr::Expr};

/// Maximum size of a sample, in bytes of columns.
pub(crate) const SAMPLE_BYTES_MAX: u64 = 1 << 20;
/// Maximum number of row groups in a sample.
const SAMPLE_GROUPS_MAX: usize = 32;

/// Estimate of a filter's selectivity from zone maps and a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SelectivitySample {
    /// Number of row groups in the sample.
    pub groups: u64,
    /// Number of rows in the sample.
    pub rows: u64,
    /// Bytes of columns in the sample.
    pub bytes: u64,
    /// Estimated number of rows of the table that pass.
    pub passing: f64,
}

/// All numbers below `count`, each once, in van der Corput order: 0, 1/2, 1/4, 3/4, 1/8 of the next power of
/// two and so on. A prefix is evenly spaced.
fn spaced(count: usize) -> impl Iterator<Item = usize> {
    let bits = count.next_power_of_two().trailing_zeros();
    let reversed =
        move |number: usize| if bits == 0 { 0 } else { number.reverse_bits() >> (usize::BITS - bits) };
    (0..1usize << bits).map(reversed).filter(move |number| *number < count)
}

impl Session {
    /// Reads the filter's columns of some row groups for which zone maps are inconclusive.
    pub(crate) async fn sample(
        &self,
        query: &Query,
        table: &TableInfo,
        metas: &[GroupMeta],
        may_match: &[bool],
    ) -> Result<SelectivitySample, SessionError> {
        let filter: Option<&Expr> = query.filter.as_ref();
        let mut sample = SelectivitySample::default();
        let mut open: Vec<(usize, f64)> = Vec::new();
        for (index, meta) in metas.iter().enumerate().filter(|(index, _)| may_match[*index]) {
            match selectivity(filter, meta) {
                share if share > 1.0 - 1e-9 => sample.passing += f64::from(meta.rows),
                share => open.push((index, share)),
            }
        }
        let Ok(execution) = Execution::new(counting(query), &table.schema) else { return Ok(sample) };
        let columns = execution.columns().to_vec();
        let mut passing = 0.0;
        let mut buffer = self.take_buffer()?;
        for place in spaced(open.len()).take(SAMPLE_GROUPS_MAX) {
            let (index, _) = open[place];
            let meta = &metas[index];
            let ranges = meta.ranges(&columns);
            let bytes: u64 = ranges.iter().map(|(_, bytes)| u64::from(*bytes)).sum();
            if sample.bytes + bytes > SAMPLE_BYTES_MAX {
                continue;
            }
            let (mut arrays, mut decoded) = (Vec::new(), Work::default());
            for (column, (offset, bytes)) in columns.iter().zip(ranges) {
                let mut chunk = Vec::with_capacity(bytes as usize);
                let place = (table.record.table, index as u32);
                self.client.read(&mut buffer, place, (offset, bytes.into()), &mut chunk).await?;
                arrays.extend(group::decode(&table.schema, *column, meta, &chunk, &mut decoded));
            }
            let Some(count) = count(query, table, &columns, arrays, meta) else { continue };
            sample.groups += 1;
            sample.rows += u64::from(meta.rows);
            sample.bytes += bytes;
            passing += count;
        }
        self.give_back(buffer);
        let open_rows = || open.iter().map(|(index, _)| f64::from(metas[*index].rows)).sum::<f64>();
        sample.passing += match sample.rows {
            // Without a sample, use the estimate from zone maps.
            0 => open.iter().map(|(index, share)| share * f64::from(metas[*index].rows)).sum::<f64>(),
            rows => passing / rows as f64 * open_rows(),
        };
        Ok(sample)
    }
}

/// Number of rows of a group that pass; `None` if its columns are damaged or a value overflows.
fn count(
    query: &Query,
    table: &TableInfo,
    columns: &[usize],
    arrays: Vec<byteway_query::ArrayRef>,
    meta: &GroupMeta,
) -> Option<f64> {
    let mut execution = Execution::new(counting(query), &table.schema).ok()?;
    let batch = stream::batch(&table.schema, columns, arrays, meta.rows as usize).ok()?;
    execution.push(&batch).ok()?;
    let counted = execution.finish().ok()??;
    match values::at(counted.column(0), ColumnType::Int64, 0) {
        Value::Integer(count) => Some(count as f64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::spaced;

    // A sample of the first row groups says nothing of a table that is in order of time.
    #[test]
    fn a_sample_is_spread_over_the_table() {
        assert_eq!(spaced(8).take(4).collect::<Vec<_>>(), [0, 4, 2, 6]);
        let mut all: Vec<usize> = spaced(13).collect();
        assert_eq!(&all[..4], [0, 8, 4, 12]);
        all.sort_unstable();
        assert_eq!(all, (0..13).collect::<Vec<_>>());
        assert_eq!(spaced(1).collect::<Vec<_>>(), [0]);
        assert_eq!(spaced(0).count(), 0);
    }
}
