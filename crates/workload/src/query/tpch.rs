//! The eight tables of TPC-H, from the crate `tpchgen`, with the types of TPC-H 1.4.1. TPC-H defines the
//! generator, so no seed changes the rows. Comments are cut from a text of 1 MiB instead of 300 MiB, which
//! would take a second to generate: they consist of TPC-H's words, but are not the same texts.

use std::fmt::Display;
use std::sync::{Arc, LazyLock};

use arrow_array::builder::{Date32Builder, Decimal128Builder, Int32Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use byteway_query::{ColumnType, Schema};
use tpchgen::dates::TPCHDate;
use tpchgen::decimal::TPCHDecimal;
use tpchgen::distribution::Distributions;
use tpchgen::generators as tpch;
use tpchgen::text::TextPool;

use super::columns::schema as schema_of;

/// A table of TPC-H.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Region,
    Nation,
    Supplier,
    Customer,
    Part,
    Partsupp,
    Orders,
    Lineitem,
}

const KEY: ColumnType = ColumnType::Int64;
const COUNT: ColumnType = ColumnType::Int32;
const TEXT: ColumnType = ColumnType::Utf8;
const DATE: ColumnType = ColumnType::Date;
const MONEY: ColumnType = ColumnType::Decimal { precision: 15, scale: 2 };

type Columns = &'static [(&'static str, ColumnType)];

const REGION: Columns = &[("r_regionkey", COUNT), ("r_name", TEXT), ("r_comment", TEXT)];
const NATION: Columns =
    &[("n_nationkey", COUNT), ("n_name", TEXT), ("n_regionkey", COUNT), ("n_comment", TEXT)];
const SUPPLIER: Columns = &[
    ("s_suppkey", KEY),
    ("s_name", TEXT),
    ("s_address", TEXT),
    ("s_nationkey", COUNT),
    ("s_phone", TEXT),
    ("s_acctbal", MONEY),
    ("s_comment", TEXT),
];
const CUSTOMER: Columns = &[
    ("c_custkey", KEY),
    ("c_name", TEXT),
    ("c_address", TEXT),
    ("c_nationkey", COUNT),
    ("c_phone", TEXT),
    ("c_acctbal", MONEY),
    ("c_mktsegment", TEXT),
    ("c_comment", TEXT),
];
const PART: Columns = &[
    ("p_partkey", KEY),
    ("p_name", TEXT),
    ("p_mfgr", TEXT),
    ("p_brand", TEXT),
    ("p_type", TEXT),
    ("p_size", COUNT),
    ("p_container", TEXT),
    ("p_retailprice", MONEY),
    ("p_comment", TEXT),
];
const PARTSUPP: Columns = &[
    ("ps_partkey", KEY),
    ("ps_suppkey", KEY),
    ("ps_availqty", COUNT),
    ("ps_supplycost", MONEY),
    ("ps_comment", TEXT),
];
const ORDERS: Columns = &[
    ("o_orderkey", KEY),
    ("o_custkey", KEY),
    ("o_orderstatus", TEXT),
    ("o_totalprice", MONEY),
    ("o_orderdate", DATE),
    ("o_orderpriority", TEXT),
    ("o_clerk", TEXT),
    ("o_shippriority", COUNT),
    ("o_comment", TEXT),
];
const LINEITEM: Columns = &[
    ("l_orderkey", KEY),
    ("l_partkey", KEY),
    ("l_suppkey", KEY),
    ("l_linenumber", COUNT),
    ("l_quantity", MONEY),
    ("l_extendedprice", MONEY),
    ("l_discount", MONEY),
    ("l_tax", MONEY),
    ("l_returnflag", TEXT),
    ("l_linestatus", TEXT),
    ("l_shipdate", DATE),
    ("l_commitdate", DATE),
    ("l_receiptdate", DATE),
    ("l_shipinstruct", TEXT),
    ("l_shipmode", TEXT),
    ("l_comment", TEXT),
];

/// Length of the text from which comments are cut, in bytes.
const TEXT_BYTES: i32 = 1 << 20;

static POOL: LazyLock<TextPool> =
    LazyLock::new(|| TextPool::new(TEXT_BYTES, Distributions::static_default()));

/// Margin by which the scale exceeds rows / rows at scale 1, so that a table that is smaller than its mean
/// still has enough rows.
const SLACK: f64 = 1.1;

/// Minimum scale, at which TPC-H's smallest scaled table (`supplier`) has 10 rows.
pub(super) const SCALE_MIN: f64 = 0.001;

/// Maximum scale: 600 million line items.
pub(super) const SCALE_MAX: f64 = 100.0;

/// A column under construction.
enum Builder {
    Key(Int64Builder),
    Count(Int32Builder),
    Money(Decimal128Builder),
    Date(Date32Builder),
    Text(StringBuilder),
}

impl Builder {
    fn of(column_type: ColumnType) -> Builder {
        match column_type {
            ColumnType::Int64 => Builder::Key(Int64Builder::new()),
            ColumnType::Int32 => Builder::Count(Int32Builder::new()),
            ColumnType::Date => Builder::Date(Date32Builder::new()),
            ColumnType::Utf8 => Builder::Text(StringBuilder::new()),
            _ => Builder::Money(Decimal128Builder::new()),
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Builder::Key(mut keys) => Arc::new(keys.finish()),
            Builder::Count(mut counts) => Arc::new(counts.finish()),
            Builder::Money(mut amounts) => Arc::new(amounts.finish().with_data_type(MONEY.to_arrow())),
            Builder::Date(mut days) => Arc::new(days.finish()),
            Builder::Text(mut texts) => Arc::new(texts.finish()),
        }
    }
}

/// Rows under construction: values are appended in the order of the columns.
struct Rows {
    builders: Vec<Builder>,
    next: usize,
    text: String,
}

impl Rows {
    fn new(columns: Columns) -> Rows {
        let builders = columns.iter().map(|(_, column_type)| Builder::of(*column_type)).collect();
        Rows { builders, next: 0, text: String::new() }
    }

    fn column(&mut self) -> &mut Builder {
        let column = self.next;
        self.next = (column + 1) % self.builders.len();
        &mut self.builders[column]
    }

    /// Appends a key or a count.
    fn number(&mut self, value: i64) -> &mut Self {
        match self.column() {
            Builder::Key(keys) => keys.append_value(value),
            Builder::Count(counts) => counts.append_value(value as i32),
            _ => unreachable!("rows are written as their columns are listed"),
        }
        self
    }

    fn money(&mut self, value: TPCHDecimal) -> &mut Self {
        let Builder::Money(amounts) = self.column() else {
            unreachable!("rows are written as their columns are listed")
        };
        amounts.append_value(value.0.into());
        self
    }

    fn date(&mut self, value: TPCHDate) -> &mut Self {
        let Builder::Date(days) = self.column() else {
            unreachable!("rows are written as their columns are listed")
        };
        days.append_value(value.to_unix_epoch());
        self
    }

    fn text(&mut self, value: impl Display) -> &mut Self {
        use std::fmt::Write as _;
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        let _ = write!(text, "{value}");
        let Builder::Text(texts) = self.column() else {
            unreachable!("rows are written as their columns are listed")
        };
        texts.append_value(&text);
        self.text = text;
        self
    }

    fn finish(self, columns: Columns) -> RecordBatch {
        let arrays = self.builders.into_iter().map(Builder::finish).collect();
        RecordBatch::try_new(schema_of(columns).to_arrow(), arrays).expect("arrays are as the schema says")
    }
}

impl Table {
    fn columns(self) -> Columns {
        match self {
            Table::Region => REGION,
            Table::Nation => NATION,
            Table::Supplier => SUPPLIER,
            Table::Customer => CUSTOMER,
            Table::Part => PART,
            Table::Partsupp => PARTSUPP,
            Table::Orders => ORDERS,
            Table::Lineitem => LINEITEM,
        }
    }

    pub(super) fn schema(self) -> Schema {
        schema_of(self.columns())
    }

    /// Approximate number of rows at scale 1 (TPC-H 4.2.5).
    fn rows_of_one(self) -> f64 {
        match self {
            // Independent of the scale.
            Table::Region | Table::Nation => f64::INFINITY,
            Table::Supplier => 10_000.0,
            Table::Customer => 150_000.0,
            Table::Part => 200_000.0,
            Table::Partsupp => 800_000.0,
            Table::Orders => 1_500_000.0,
            Table::Lineitem => 6_001_215.0,
        }
    }

    /// The first `rows` rows at a scale with at least as many; scale-dependent values are those of that
    /// scale. `region` and `nation` have a fixed number of rows.
    pub(super) fn rows(self, rows: u64, batch_rows: usize) -> Box<dyn Iterator<Item = RecordBatch>> {
        let scale = rows as f64 / self.rows_of_one() * SLACK;
        self.batches(scale, rows, batch_rows)
    }

    /// All rows at a scale.
    pub(super) fn scaled(self, scale: f64, batch_rows: usize) -> Box<dyn Iterator<Item = RecordBatch>> {
        self.batches(scale, u64::MAX, batch_rows)
    }

    fn batches(self, scale: f64, most: u64, batch_rows: usize) -> Box<dyn Iterator<Item = RecordBatch>> {
        let scale = scale.max(SCALE_MIN);
        let (words, pool) = (Distributions::static_default(), &*POOL);
        // Generates the whole table: part 1 of 1.
        macro_rules! all {
            ($generator:ident) => {
                tpch::$generator::new_with_distributions_and_text_pool(scale, 1, 1, words, pool).iter()
            };
        }
        let columns = self.columns();
        match self {
            Table::Region => {
                let all = tpch::RegionGenerator::new_with_distributions_and_text_pool(words, pool).iter();
                batched(columns, all, most, batch_rows, |rows, of| {
                    rows.number(of.r_regionkey).text(of.r_name).text(of.r_comment);
                })
            }
            Table::Nation => {
                let all = tpch::NationGenerator::new_with_distributions_and_text_pool(words, pool).iter();
                batched(columns, all, most, batch_rows, |rows, of| {
                    rows.number(of.n_nationkey).text(of.n_name).number(of.n_regionkey).text(of.n_comment);
                })
            }
            Table::Supplier => batched(columns, all!(SupplierGenerator), most, batch_rows, |rows, of| {
                rows.number(of.s_suppkey).text(of.s_name).text(of.s_address).number(of.s_nationkey);
                rows.text(of.s_phone).money(of.s_acctbal).text(of.s_comment);
            }),
            Table::Customer => batched(columns, all!(CustomerGenerator), most, batch_rows, |rows, of| {
                rows.number(of.c_custkey).text(of.c_name).text(of.c_address).number(of.c_nationkey);
                rows.text(of.c_phone).money(of.c_acctbal).text(of.c_mktsegment).text(of.c_comment);
            }),
            Table::Part => batched(columns, all!(PartGenerator), most, batch_rows, |rows, of| {
                rows.number(of.p_partkey).text(of.p_name).text(of.p_mfgr).text(of.p_brand).text(of.p_type);
                rows.number(of.p_size.into()).text(of.p_container).money(of.p_retailprice);
                rows.text(of.p_comment);
            }),
            Table::Partsupp => {
                let all = tpch::PartSuppGenerator::new_with_text_pool(scale, 1, 1, pool).iter();
                batched(columns, all, most, batch_rows, |rows, of| {
                    rows.number(of.ps_partkey).number(of.ps_suppkey).number(of.ps_availqty.into());
                    rows.money(of.ps_supplycost).text(of.ps_comment);
                })
            }
            Table::Orders => batched(columns, all!(OrderGenerator), most, batch_rows, |rows, of| {
                rows.number(of.o_orderkey).number(of.o_custkey).text(of.o_orderstatus);
                rows.money(of.o_totalprice).date(of.o_orderdate).text(of.o_orderpriority);
                rows.text(of.o_clerk).number(of.o_shippriority.into()).text(of.o_comment);
            }),
            Table::Lineitem => batched(columns, all!(LineItemGenerator), most, batch_rows, |rows, of| {
                rows.number(of.l_orderkey).number(of.l_partkey).number(of.l_suppkey);
                rows.number(of.l_linenumber.into()).money(TPCHDecimal(of.l_quantity * 100));
                rows.money(of.l_extendedprice).money(of.l_discount).money(of.l_tax);
                rows.text(of.l_returnflag).text(of.l_linestatus);
                rows.date(of.l_shipdate).date(of.l_commitdate).date(of.l_receiptdate);
                rows.text(of.l_shipinstruct).text(of.l_shipmode).text(of.l_comment);
            }),
        }
    }
}

/// Batches of at most `most` rows in total.
fn batched<T: 'static>(
    columns: Columns,
    mut all: impl Iterator<Item = T> + 'static,
    most: u64,
    batch_rows: usize,
    write: impl Fn(&mut Rows, T) + 'static,
) -> Box<dyn Iterator<Item = RecordBatch>> {
    let mut left = most;
    Box::new(std::iter::from_fn(move || {
        let wanted = left.min(batch_rows as u64);
        let mut rows = Rows::new(columns);
        all.by_ref().take(wanted as usize).for_each(|of| write(&mut rows, of));
        let batch = rows.finish(columns);
        left = left.saturating_sub(batch.num_rows() as u64);
        (batch.num_rows() > 0).then_some(batch)
    }))
}
