//! Rows of a table, from a Parquet file or a generator. Every read returns the same rows.

use std::path::PathBuf;

use arrow_array::RecordBatch;
use byteway_clock::random::Rng;
use byteway_query::Schema;
use byteway_text::error::InputError;

use super::draw::{Amount, Generator};
use super::parquet::ParquetRows;

/// Maximum number of rows in a batch.
const BATCH_ROWS: usize = 65_536;

/// Source of a table's rows.
#[derive(Clone, Debug, PartialEq)]
pub enum RowSource {
    /// A Parquet file.
    File(PathBuf),
    /// A generator with the amount of rows.
    Drawn(Generator, Amount),
}

/// A table that is loaded before the measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRows {
    /// Name of the table in queries.
    pub name: String,
    /// Namespace that holds the table, from 1.
    pub nsid: u32,
    /// Source of the rows.
    pub source: RowSource,
    /// Schema.
    pub schema: Schema,
}

/// Batches of rows; after an error there are no more.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, InputError>>>;

/// Maximum number of generated rows.
pub const ROWS_MAX: u64 = 1_000_000_000;

impl RowSource {
    /// Rows of a generator, either a number of rows or a scale.
    ///
    /// # Errors
    /// [`InputError`] unless exactly one of the two is given, within the generator's range.
    pub fn drawn(
        generator: Generator,
        rows: Option<u64>,
        scale: Option<f64>,
    ) -> Result<RowSource, InputError> {
        let name = generator.name();
        let amount = match (rows, scale, generator.scales()) {
            (Some(rows), None, _) if (1..=ROWS_MAX).contains(&rows) => Amount::Rows(rows),
            (Some(rows), None, _) => {
                let what = format!("{rows} rows of the generator {name} are out of range");
                return Err(InputError::new(what, format!("choose 1 to {ROWS_MAX}")));
            }
            (None, Some(scale), Some(scales)) if scales.contains(&scale) => Amount::Scale(scale),
            (None, Some(scale), Some(scales)) => {
                let what = format!("scale {scale} of the generator {name} is out of range");
                return Err(InputError::new(what, format!("choose {} to {}", scales.start(), scales.end())));
            }
            (None, Some(_), None) => {
                let what = format!("the generator {name} has no scale: only tables of TPC-H have one");
                return Err(InputError::new(what, "give the number of rows"));
            }
            (Some(_), Some(_), _) => {
                let what = format!("both rows and a scale of the generator {name}");
                return Err(InputError::new(what, "give one of the two"));
            }
            (None, None, scales) => {
                let what = format!("the number of rows of the generator {name} is missing");
                let help = if scales.is_some() { "give rows or a scale" } else { "give the number of rows" };
                return Err(InputError::new(what, help));
            }
        };
        Ok(RowSource::Drawn(generator, amount))
    }

    /// Schema of the rows.
    ///
    /// # Errors
    /// [`InputError`] if the file cannot be opened, is not a Parquet file, or has unsupported columns.
    pub fn schema(&self) -> Result<Schema, InputError> {
        match self {
            RowSource::Drawn(generator, _) => Ok(generator.schema()),
            RowSource::File(path) => Ok(ParquetRows::open(path, BATCH_ROWS)?.schema().clone()),
        }
    }

    /// Rows for the table `name`, in order. Generated rows come from the random stream `table/NAME`.
    ///
    /// # Errors
    /// [`InputError`] if the file cannot be read.
    pub fn batches(&self, name: &str, rng: &Rng) -> Result<Batches, InputError> {
        match self {
            RowSource::Drawn(generator, amount) => {
                let stream = rng.stream(&format!("table/{name}"));
                Ok(Box::new(generator.batches(*amount, BATCH_ROWS, stream).map(Ok)))
            }
            RowSource::File(path) => Ok(Box::new(ParquetRows::open(path, BATCH_ROWS)?)),
        }
    }
}

impl TableRows {
    /// Rows of the table, in order.
    ///
    /// # Errors
    /// [`InputError`] if the file cannot be read.
    pub fn batches(&self, rng: &Rng) -> Result<Batches, InputError> {
        self.source.batches(&self.name, rng)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Float32Array, Int64Array};
    use std::collections::BTreeSet;

    fn drawn(generator: Generator, amount: Amount, seed: u64) -> Vec<RecordBatch> {
        let source = RowSource::Drawn(generator, amount);
        let schema = source.schema().unwrap();
        let table = TableRows { name: "t".to_owned(), nsid: 1, source, schema };
        table.batches(&Rng::new(seed)).unwrap().map(Result::unwrap).collect()
    }

    fn count(batches: &[RecordBatch]) -> usize {
        batches.iter().map(RecordBatch::num_rows).sum()
    }

    // A table that changes from run to run, or that has fewer rows than a scenario says, changes every figure.
    #[test]
    fn generators_give_the_same_rows_again() {
        for generator in Generator::ALL {
            let batches = drawn(generator, Amount::Rows(70_000), 1);
            let rows = match generator {
                Generator::TpchRegion => 5,
                Generator::TpchNation => 25,
                _ => 70_000,
            };
            assert_eq!(count(&batches), rows, "{generator:?}");
            assert_eq!(batches, drawn(generator, Amount::Rows(70_000), 1));
            assert_eq!(Schema::from_arrow(&batches[0].schema()).unwrap(), generator.schema());
        }
        let few = Amount::Rows(10);
        assert_ne!(drawn(Generator::Vpic, few, 1), drawn(Generator::Vpic, few, 2));
    }

    fn keys(batches: &[RecordBatch], column: &str) -> BTreeSet<i64> {
        let array = |batch: &RecordBatch| batch.column_by_name(column).unwrap().clone();
        let keys = |batch| array(batch).as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec();
        batches.iter().flat_map(keys).collect()
    }

    // Tables of a scale that do not have the keys of each other cannot be joined; TPC-H 4.2.5 says how many rows there are.
    #[test]
    fn tables_of_a_scale_have_the_keys_of_each_other() {
        let scale = Amount::Scale(0.002);
        let [parts, suppliers, offers, customers, orders, items] = [
            Generator::TpchPart,
            Generator::TpchSupplier,
            Generator::TpchPartsupp,
            Generator::TpchCustomer,
            Generator::TpchOrders,
            Generator::TpchLineitem,
        ]
        .map(|generator| drawn(generator, scale, 1));
        let counts = [&parts, &suppliers, &offers, &customers, &orders].map(|table| count(table));
        assert_eq!(counts, [400, 20, 1600, 300, 3000]);
        assert!((11_000..13_000).contains(&count(&items)), "{} line items", count(&items));
        for (of, column, to, key) in [
            (&offers, "ps_partkey", &parts, "p_partkey"),
            (&offers, "ps_suppkey", &suppliers, "s_suppkey"),
            (&orders, "o_custkey", &customers, "c_custkey"),
            (&items, "l_orderkey", &orders, "o_orderkey"),
            (&items, "l_suppkey", &suppliers, "s_suppkey"),
        ] {
            assert!(keys(of, column).is_subset(&keys(to, key)), "{column}");
        }
    }

    // What the documentation says of the particles: a predicate over x passes its share, and energies beyond 1.3 are rare.
    #[test]
    fn particles_are_spread_as_documented() {
        let batches = drawn(Generator::Vpic, Amount::Rows(50_000), 3);
        let share = |column: &str, passes: fn(f32) -> bool| {
            let array = batches[0].column_by_name(column).unwrap();
            let values = array.as_any().downcast_ref::<Float32Array>().unwrap();
            values.values().iter().filter(|value| passes(**value)).count() as f64 / values.len() as f64
        };
        assert!((share("x", |x| x < 0.1) - 0.1).abs() < 0.005);
        assert!((share("ux", |u| u.abs() < 0.5) - 0.683).abs() < 0.01);
        assert!(share("energy", |e| e > 1.3) < 0.002);
        assert!(share("energy", |e| e >= 0.0) == 1.0);
    }
}
