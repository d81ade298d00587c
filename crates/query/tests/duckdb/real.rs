//! Tables written by simulations: the Laghos hydrodynamics code (8 to 100,000 rows), and an asteroid impact in deep water (27 million
//! rows).

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use byteway_clock::random::Rng;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::oracle::{self, Answer, Oracle};
use crate::table::Table;
use crate::{Outcome, compare, sampled, seed};

/// All rows of a file of the compression that this workspace's reader reads.
pub fn rows(file: &Path) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(file).unwrap()).unwrap();
    let schema = reader.schema().clone();
    let batches: Vec<_> = reader.build().unwrap().map(Result::unwrap).collect();
    concat_batches(&schema, &batches).unwrap()
}

/// The same for any compression: DuckDB rewrites the file first.
fn rows_of_any(oracle: &mut Oracle, file: &Path, folder: &Path) -> RecordBatch {
    let plain = folder.join("plain.parquet");
    let copied = oracle.ask(&format!(
        "COPY (SELECT * FROM '{}') TO '{}' (COMPRESSION uncompressed)",
        file.display(),
        plain.display()
    ));
    assert!(matches!(copied, Answer::Rows(..)), "{copied:?}");
    rows(&plain)
}

/// Compares queries over Laghos' rows, and `random_queries` random ones, with DuckDB.
fn laghos(random_queries: usize) {
    let Some(mut oracle) = Oracle::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    for (name, count) in [("test1", 8), ("test2", 1000), ("test4", 100_000)] {
        let Some(file) = byteway_testkit::needs::trace(&format!("tables/laghos/{name}.parquet")) else {
            return;
        };
        let rows = rows_of_any(&mut oracle, &file, folder.path());
        assert_eq!(rows.num_rows(), count);
        let table = Table::new(name, &rows, &[8192], folder.path());
        oracle.ask(&table.create(folder.path()));
        for rest in [
            "min(vertex_id), max(x), avg(e) FROM {} WHERE x > 1.5 AND x < 1.6 AND y > 1.5 AND y < 1.6 GROUP BY vertex_id",
            "vertex_id, x, y, z, e FROM {} WHERE e > 1.999",
            "count(*), sum(rho), min(v_x), max(v_x) FROM {} WHERE v_x BETWEEN -1e-6 AND 1e-6",
            "element_id, sum(e * rho) FROM {} WHERE element_id % 100 = 7 GROUP BY element_id",
            "* FROM {} WHERE z <> 0 AND NOT (x + y > 2.5)",
        ] {
            let sql = format!("SELECT {}", rest.replace("{}", name));
            assert_eq!(compare(&mut oracle, &table, &sql), Outcome::Same, "{sql}");
        }
        let random = Rng::new(seed()).stream(name);
        sampled::check(&mut oracle, &table, &rows, random, random_queries);
    }
}

// Values of a simulation differ from generated ones; the queries include that of figure 4 of ByteExpress.
#[test]
fn laghos_is_filtered_as_duckdb_does() {
    laghos(60);
}

#[test]
#[ignore = "takes minutes: a thousand random queries over 100,000 rows"]
fn laghos_is_filtered_as_duckdb_does_a_thousand_times() {
    laghos(1000);
}

// Long runs of zeros, then nearly all distinct values: encodings that generated tables lack, in millions of rows.
#[test]
#[ignore = "takes minutes and 4 GiB of memory: 27 million rows, which are inflated by Python's brotli"]
fn deep_water_is_filtered_as_duckdb_does() {
    let Some(mut oracle) = Oracle::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    for (name, step) in [("step_0", "00000"), ("step_16118", "16118")] {
        let Some(packed) = byteway_testkit::needs::trace(&format!(
            "tables/deep-water/pv_insitu_300x300x300_{step}.parquet.br"
        )) else {
            return;
        };
        let file = folder.path().join("inflated.parquet");
        oracle::inflate(&packed, &file);
        let rows = rows_of_any(&mut oracle, &file, folder.path());
        assert_eq!(rows.num_rows(), 27_000_000);
        let table = Table::new(name, &rows, &[65_536], folder.path());
        oracle.ask(&table.create(folder.path()));
        for rest in [
            "count(*), sum(rowid) FROM {} WHERE v03 > 0.999",
            "rowid, v02 FROM {} WHERE v02 > 0.4 AND v02 < 0.41 AND rowid % 50 = 3",
            "min(v02), max(v02), avg(v02), min(v03), max(v03), avg(v03) FROM {}",
            "* FROM {} WHERE rowid BETWEEN 13000000 AND 13000500",
        ] {
            let sql = format!("SELECT {}", rest.replace("{}", name));
            assert_eq!(compare(&mut oracle, &table, &sql), Outcome::Same, "{sql}");
        }
        let random = Rng::new(seed()).stream(name);
        sampled::check(&mut oracle, &table, &rows, random, 20);
        oracle.ask(&format!("DROP TABLE {name}"));
    }
}
