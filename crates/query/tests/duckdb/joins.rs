//! TPC-H's queries over several tables at a small scale: Q3, Q5, Q10 and Q12, and Q2 without its sub-query.

use arrow_array::{ArrayRef, RecordBatch};
use byteway_query::{Column, ColumnType, Schema, Value, values};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};

use crate::Outcome;
use crate::oracle::{Answer, Oracle};
use crate::rest::compare;
use crate::table::Table;

const MONEY: ColumnType = ColumnType::Decimal { precision: 15, scale: 2 };
const KEY: ColumnType = ColumnType::Int64;
const SCALE: f64 = 0.01;

fn batch(columns: &[(&str, ColumnType)], rows: impl Iterator<Item = Vec<Value>>) -> RecordBatch {
    let mut all: Vec<Vec<Value>> = vec![Vec::new(); columns.len()];
    rows.for_each(|row| all.iter_mut().zip(row).for_each(|(column, value)| column.push(value)));
    let column = |(name, column_type): &(&str, ColumnType)| Column {
        name: (*name).to_owned(),
        column_type: *column_type,
        nullable: false,
    };
    let schema = Schema::new(columns.iter().map(column).collect()).unwrap();
    let arrays: Vec<ArrayRef> = all
        .iter()
        .zip(columns)
        .map(|(found, (_, column_type))| values::array(found.iter(), *column_type))
        .collect();
    RecordBatch::try_new(schema.to_arrow(), arrays).unwrap()
}

fn int(value: impl Into<i128>) -> Value {
    Value::Integer(value.into())
}

fn text(value: impl ToString) -> Value {
    Value::Text(value.to_string())
}

/// The columns that the queries need.
fn tables() -> Vec<(&'static str, RecordBatch)> {
    use ColumnType::{Date, Int32, Utf8};
    let region = batch(
        &[("r_regionkey", KEY), ("r_name", Utf8)],
        RegionGenerator::new(SCALE, 1, 1).iter().map(|r| vec![int(r.r_regionkey), text(r.r_name)]),
    );
    let nation = batch(
        &[("n_nationkey", KEY), ("n_name", Utf8), ("n_regionkey", KEY)],
        NationGenerator::new(SCALE, 1, 1)
            .iter()
            .map(|n| vec![int(n.n_nationkey), text(n.n_name), int(n.n_regionkey)]),
    );
    let supplier = batch(
        &[("s_suppkey", KEY), ("s_name", Utf8), ("s_nationkey", KEY), ("s_acctbal", MONEY)],
        SupplierGenerator::new(SCALE, 1, 1)
            .iter()
            .map(|s| vec![int(s.s_suppkey), text(s.s_name), int(s.s_nationkey), int(s.s_acctbal.0)]),
    );
    let part = batch(
        &[("p_partkey", KEY), ("p_mfgr", Utf8), ("p_type", Utf8), ("p_size", Int32)],
        PartGenerator::new(SCALE, 1, 1)
            .iter()
            .map(|p| vec![int(p.p_partkey), text(p.p_mfgr), text(p.p_type), int(p.p_size)]),
    );
    let partsupp = batch(
        &[("ps_partkey", KEY), ("ps_suppkey", KEY), ("ps_supplycost", MONEY)],
        PartSuppGenerator::new(SCALE, 1, 1)
            .iter()
            .map(|s| vec![int(s.ps_partkey), int(s.ps_suppkey), int(s.ps_supplycost.0)]),
    );
    let customer = batch(
        &[
            ("c_custkey", KEY),
            ("c_name", Utf8),
            ("c_nationkey", KEY),
            ("c_acctbal", MONEY),
            ("c_mktsegment", Utf8),
        ],
        CustomerGenerator::new(SCALE, 1, 1).iter().map(|c| {
            let segment = text(c.c_mktsegment);
            vec![int(c.c_custkey), text(c.c_name), int(c.c_nationkey), int(c.c_acctbal.0), segment]
        }),
    );
    let orders = batch(
        &[
            ("o_orderkey", KEY),
            ("o_custkey", KEY),
            ("o_orderdate", Date),
            ("o_shippriority", Int32),
            ("o_orderpriority", Utf8),
        ],
        OrderGenerator::new(SCALE, 1, 1).iter().map(|o| {
            let day = int(o.o_orderdate.to_unix_epoch());
            vec![int(o.o_orderkey), int(o.o_custkey), day, int(o.o_shippriority), text(o.o_orderpriority)]
        }),
    );
    let lineitem = batch(
        &[
            ("l_orderkey", KEY),
            ("l_suppkey", KEY),
            ("l_extendedprice", MONEY),
            ("l_discount", MONEY),
            ("l_returnflag", Utf8),
            ("l_shipmode", Utf8),
            ("l_shipdate", Date),
            ("l_commitdate", Date),
            ("l_receiptdate", Date),
        ],
        LineItemGenerator::new(SCALE, 1, 1).iter().map(|l| {
            let mut row =
                vec![int(l.l_orderkey), int(l.l_suppkey), int(l.l_extendedprice.0), int(l.l_discount.0)];
            row.extend([text(l.l_returnflag), text(l.l_shipmode)]);
            row.extend([l.l_shipdate, l.l_commitdate, l.l_receiptdate].map(|day| int(day.to_unix_epoch())));
            row
        }),
    );
    vec![
        ("region", region),
        ("nation", nation),
        ("supplier", supplier),
        ("part", part),
        ("partsupp", partsupp),
        ("customer", customer),
        ("orders", orders),
        ("lineitem", lineitem),
    ]
}

const Q2: &str = "
    SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, ps_supplycost
    FROM part, supplier, partsupp, nation, region
    WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND p_size = 15 AND p_type LIKE '%BRASS'
        AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'EUROPE'
    ORDER BY s_acctbal DESC, n_name, s_name, p_partkey LIMIT 100";

const Q3: &str = "
    SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
    FROM customer, orders, lineitem
    WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
        AND o_orderdate < date '1995-03-15' AND l_shipdate > date '1995-03-15'
    GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate, l_orderkey LIMIT 10";

const Q5: &str = "
    SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
    FROM customer, orders, lineitem, supplier, nation, region
    WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
        AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
        AND r_name = 'ASIA' AND o_orderdate >= date '1994-01-01'
        AND o_orderdate < date '1994-01-01' + interval '1' year
    GROUP BY n_name ORDER BY revenue DESC";

const Q10: &str = "
    SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name
    FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey
        JOIN nation ON c_nationkey = n_nationkey
    WHERE o_orderdate >= date '1993-10-01' AND o_orderdate < date '1993-10-01' + interval '3' month
        AND l_returnflag = 'R'
    GROUP BY c_custkey, c_name, c_acctbal, n_name ORDER BY revenue DESC, c_custkey LIMIT 20";

const Q12: &str = "
    SELECT l_shipmode,
        sum(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END) AS high_line_count,
        sum(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1 ELSE 0 END) AS low_line_count
    FROM orders, lineitem
    WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate
        AND l_shipdate < l_commitdate AND l_receiptdate >= date '1994-01-01'
        AND l_receiptdate < date '1994-01-01' + interval '1' year
    GROUP BY l_shipmode ORDER BY l_shipmode";

// Queries that such a host runs besides Q1 and Q6: joins of two to six tables by key, sums of decimals over
// joined rows, top-N.
#[test]
fn queries_of_several_tables_give_the_rows_of_duckdb() {
    let Some(mut oracle) = Oracle::start() else { return };
    // Without its optimizer DuckDB builds the cross product of all tables in FROM before it filters.
    assert!(matches!(oracle.ask("PRAGMA enable_optimizer"), Answer::Rows(..)));
    let folder = tempfile::tempdir().unwrap();
    let tables: Vec<Table> =
        tables().iter().map(|(name, rows)| Table::new(name, rows, &[16_384], folder.path())).collect();
    tables.iter().for_each(|table| drop(oracle.ask(&table.create(folder.path()))));
    let all: Vec<&Table> = tables.iter().collect();
    for (sql, order) in [
        (Q2, &[0, 1, 2, 3, 4, 5][..]),
        (Q3, &[0, 1, 2, 3]),
        (Q5, &[0, 1]),
        (Q10, &[0, 1, 2, 3, 4]),
        (Q12, &[0, 1, 2]),
        (
            "SELECT count(DISTINCT l_suppkey), sum(l_extendedprice) / count(*) FROM lineitem WHERE l_discount > 0.05",
            &[0, 1],
        ),
        (
            "SELECT o_custkey, count(*) AS n FROM orders GROUP BY o_custkey HAVING n > 20 ORDER BY n DESC, o_custkey",
            &[0, 1],
        ),
    ] {
        for groups in [true, false] {
            assert_eq!(compare(&mut oracle, &all, sql, order, groups), Outcome::Same, "{sql}");
        }
    }
}
