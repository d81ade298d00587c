//! TPC-H's eight tables: what its queries ask of one table, and random predicates over each.

use std::io::Write;
use std::path::Path;

use byteway_clock::random::Rng;
use tpchgen::distribution::Distributions;
use tpchgen::generators::*;
use tpchgen::text::TextPool;

use crate::oracle::{Answer, Oracle};
use crate::real;
use crate::sampled;
use crate::table::Table;
use crate::{Outcome, compare, seed};

/// Tables with the columns of TPC-H 1.4.1.
const TABLES: [(&str, &str); 8] = [
    (
        "lineitem",
        "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INTEGER, l_quantity DECIMAL(15,2),
         l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag VARCHAR,
         l_linestatus VARCHAR, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct VARCHAR,
         l_shipmode VARCHAR, l_comment VARCHAR",
    ),
    (
        "orders",
        "o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus VARCHAR, o_totalprice DECIMAL(15,2), o_orderdate DATE,
         o_orderpriority VARCHAR, o_clerk VARCHAR, o_shippriority INTEGER, o_comment VARCHAR",
    ),
    (
        "part",
        "p_partkey BIGINT, p_name VARCHAR, p_mfgr VARCHAR, p_brand VARCHAR, p_type VARCHAR, p_size INTEGER,
         p_container VARCHAR, p_retailprice DECIMAL(15,2), p_comment VARCHAR",
    ),
    (
        "partsupp",
        "ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INTEGER, ps_supplycost DECIMAL(15,2), ps_comment VARCHAR",
    ),
    (
        "customer",
        "c_custkey BIGINT, c_name VARCHAR, c_address VARCHAR, c_nationkey BIGINT, c_phone VARCHAR,
         c_acctbal DECIMAL(15,2), c_mktsegment VARCHAR, c_comment VARCHAR",
    ),
    (
        "supplier",
        "s_suppkey BIGINT, s_name VARCHAR, s_address VARCHAR, s_nationkey BIGINT, s_phone VARCHAR,
         s_acctbal DECIMAL(15,2), s_comment VARCHAR",
    ),
    ("nation", "n_nationkey BIGINT, n_name VARCHAR, n_regionkey BIGINT, n_comment VARCHAR"),
    ("region", "r_regionkey BIGINT, r_name VARCHAR, r_comment VARCHAR"),
];

/// Writes a table's rows in dbgen's format, one per line.
fn write(name: &str, scale: f64, text: &TextPool, file: &Path) {
    let mut file = std::io::BufWriter::new(std::fs::File::create(file).unwrap());
    let lists = Distributions::static_default();
    macro_rules! rows {
        ($generator:expr) => {
            $generator.iter().for_each(|row| {
                let line = row.to_string();
                // dbgen ends every field with a bar, including the last one.
                writeln!(file, "{}", line.strip_suffix('|').unwrap_or(&line)).unwrap();
            })
        };
    }
    match name {
        "lineitem" => {
            rows!(LineItemGenerator::new_with_distributions_and_text_pool(scale, 1, 1, lists, text))
        }
        "orders" => rows!(OrderGenerator::new_with_distributions_and_text_pool(scale, 1, 1, lists, text)),
        "part" => rows!(PartGenerator::new_with_distributions_and_text_pool(scale, 1, 1, lists, text)),
        "partsupp" => rows!(PartSuppGenerator::new_with_text_pool(scale, 1, 1, text)),
        "customer" => {
            rows!(CustomerGenerator::new_with_distributions_and_text_pool(scale, 1, 1, lists, text))
        }
        "supplier" => {
            rows!(SupplierGenerator::new_with_distributions_and_text_pool(scale, 1, 1, lists, text))
        }
        "nation" => rows!(NationGenerator::new_with_distributions_and_text_pool(lists, text)),
        _ => rows!(RegionGenerator::new_with_distributions_and_text_pool(lists, text)),
    }
    file.flush().unwrap();
}

/// Single-table queries: Q1 and Q6, what the others ask of a table before a join, and some additional ones.
const QUERIES: [(&str, &[&str]); 8] = [
    (
        "lineitem",
        &[
            "SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price,
                sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
                sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge, avg(l_quantity) AS avg_qty,
                avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc, count(*) AS count_order
             FROM lineitem WHERE l_shipdate <= date '1998-12-01' - interval '90' day
             GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus",
            "SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem
             WHERE l_shipdate >= date '1994-01-01' AND l_shipdate < date '1994-01-01' + interval '1' year
                AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND l_quantity < 24",
            // Q3, Q4, Q7, Q12, Q14, Q15, Q18 to Q20.
            "SELECT count(*), sum(l_extendedprice * (1 - l_discount)) FROM lineitem WHERE l_shipdate > date '1995-03-15'",
            "SELECT count(*), max(l_orderkey) FROM lineitem WHERE l_commitdate < l_receiptdate",
            "SELECT l_shipmode, count(*) FROM lineitem WHERE l_shipdate BETWEEN date '1995-01-01' AND date '1996-12-31'
             GROUP BY l_shipmode ORDER BY l_shipmode",
            "SELECT l_shipmode, count(*), max(l_comment) FROM lineitem WHERE l_shipmode IN ('MAIL', 'SHIP')
                AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate GROUP BY l_shipmode",
            "SELECT sum(CASE WHEN l_shipmode = 'AIR' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
                / sum(l_extendedprice) FROM lineitem
             WHERE l_shipdate >= date '1995-09-01' AND l_shipdate < date '1995-09-01' + interval '1' month",
            "SELECT l_suppkey, sum(l_extendedprice * (1 - l_discount)) AS r FROM lineitem
             WHERE l_shipdate >= date '1996-01-01' AND l_shipdate < date '1996-01-01' + interval '3' month
             GROUP BY l_suppkey ORDER BY r DESC, 1 LIMIT 10",
            "SELECT l_orderkey, sum(l_quantity) FROM lineitem WHERE l_orderkey < 40000 GROUP BY l_orderkey
             HAVING sum(l_quantity) > 250",
            "SELECT sum(l_extendedprice * (1 - l_discount)) FROM lineitem WHERE l_shipmode IN ('AIR', 'AIR REG')
                AND l_shipinstruct = 'DELIVER IN PERSON'
                AND (l_quantity >= 1 AND l_quantity <= 11 OR l_quantity BETWEEN 20 AND 30)",
            "SELECT l_partkey, l_suppkey, sum(l_quantity) * 0.5 FROM lineitem
             WHERE l_shipdate >= date '1994-01-01' AND l_shipdate < date '1994-02-01' GROUP BY 1, 2",
            "SELECT l_orderkey, l_comment FROM lineitem WHERE l_comment LIKE '%special%requests%'",
            "SELECT l_linenumber, l_returnflag, sum(l_tax) AS s FROM lineitem GROUP BY 1, 2 HAVING count(*) > 3000
             ORDER BY s DESC, 1 LIMIT 5",
        ],
    ),
    (
        "orders",
        &[
            "SELECT o_orderpriority, count(*) AS order_count FROM orders WHERE o_orderdate >= date '1993-07-01'
                AND o_orderdate < date '1993-07-01' + interval '3' month GROUP BY o_orderpriority ORDER BY 1",
            "SELECT count(*), sum(o_totalprice) FROM orders WHERE o_orderdate < date '1995-03-15'",
            "SELECT o_custkey, count(*) FROM orders WHERE o_comment NOT LIKE '%special%requests%' GROUP BY o_custkey",
            "SELECT sum(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END),
                sum(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END) FROM orders",
            "SELECT o_orderkey, o_totalprice FROM orders WHERE o_orderstatus = 'F' AND o_totalprice > 400000",
        ],
    ),
    (
        "part",
        &[
            "SELECT p_partkey, p_mfgr FROM part WHERE p_size = 15 AND p_type LIKE '%BRASS'",
            "SELECT count(*) FROM part WHERE p_type = 'ECONOMY ANODIZED STEEL'",
            "SELECT p_partkey FROM part WHERE p_name LIKE '%green%'",
            "SELECT p_brand, p_type, p_size, count(*) FROM part WHERE p_brand <> 'Brand#45'
                AND p_type NOT LIKE 'MEDIUM POLISHED%' AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9) GROUP BY 1, 2, 3",
            "SELECT p_partkey FROM part WHERE p_brand = 'Brand#23' AND p_container = 'MED BOX'",
            "SELECT p_partkey FROM part WHERE p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK')
                AND p_size BETWEEN 1 AND 5 OR p_name LIKE 'forest%'",
        ],
    ),
    (
        "partsupp",
        &[
            "SELECT min(ps_supplycost), sum(ps_supplycost * ps_availqty) FROM partsupp",
            "SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS v FROM partsupp WHERE ps_availqty < 500
             GROUP BY ps_partkey HAVING sum(ps_supplycost * ps_availqty) > 1000.0 ORDER BY v DESC, 1 LIMIT 20",
        ],
    ),
    (
        "customer",
        &[
            "SELECT count(*) FROM customer WHERE c_mktsegment = 'BUILDING'",
            "SELECT avg(c_acctbal) FROM customer WHERE c_acctbal > 0.00 AND (c_phone LIKE '13-%' OR c_phone LIKE '31-%')",
            "SELECT c_nationkey, avg(c_acctbal), min(c_name) FROM customer GROUP BY c_nationkey",
        ],
    ),
    (
        "supplier",
        &[
            "SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%'",
            "SELECT s_nationkey, count(*), max(s_acctbal) FROM supplier GROUP BY s_nationkey",
        ],
    ),
    ("nation", &["SELECT n_nationkey FROM nation WHERE n_name = 'FRANCE' OR n_name = 'GERMANY'"]),
    ("region", &["SELECT r_regionkey FROM region WHERE r_name = 'EUROPE'"]),
];

/// Compares all queries, and `random_queries` random ones on each table, with DuckDB.
fn check(scale: f64, text_bytes: i32, random_queries: usize) {
    let Some(mut oracle) = Oracle::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let text = TextPool::new(text_bytes, Distributions::static_default());
    for ((name, columns), (of, queries)) in TABLES.into_iter().zip(QUERIES) {
        assert_eq!(name, of);
        let (lines, file) = (folder.path().join("lines.tbl"), folder.path().join("rows.parquet"));
        write(name, scale, &text, &lines);
        for sql in [
            format!("CREATE OR REPLACE TABLE loaded ({columns})"),
            format!(
                "COPY loaded FROM '{}' (FORMAT csv, DELIMITER '|', HEADER false, QUOTE '')",
                lines.display()
            ),
            format!("COPY loaded TO '{}' (FORMAT parquet, COMPRESSION uncompressed)", file.display()),
        ] {
            let answer = oracle.ask(&sql);
            assert!(matches!(answer, Answer::Rows(..)), "{sql}: {answer:?}");
        }
        let rows = real::rows(&file);
        let table = Table::new(name, &rows, &[16_384], folder.path());
        oracle.ask(&table.create(folder.path()));
        for sql in queries {
            assert_eq!(compare(&mut oracle, &table, sql), Outcome::Same, "{sql}");
        }
        let random = Rng::new(seed()).stream(name);
        sampled::check(&mut oracle, &table, &rows, random, random_queries);
        oracle.ask(&format!("DROP TABLE {name}"));
    }
}

// Papers on computational drives run TPC-H first; covers decimals, dates and intervals, averages, groups, strings of a few words.
#[test]
fn tpch_is_filtered_and_summed_as_duckdb_does() {
    check(0.01, 1 << 20, 40);
}

// More row groups, keys and digits than at the small scale, and TPC-H's own strings.
#[test]
#[ignore = "takes minutes: lineitem has 600,000 rows"]
fn tpch_at_scale_0_1_is_filtered_and_summed_as_duckdb_does() {
    check(0.1, 300 << 20, 400);
}
