//! Generated tables: small stand-ins for the output of scientific codes, and TPC-H, with the columns that
//! queries in the literature use. Each table is drawn from a named stream of the scenario's seed, so the same
//! seed gives the same table. The distributions are ours, as stated here; none is from a paper.
//!
//! | generator | columns |
//! |---|---|
//! | `vpic` | particles of a plasma in a unit box: `id` BIGINT counts; `x`, `y`, `z` FLOAT, uniform in [0, 1); `ux`, `uy`, `uz` FLOAT, momenta over mc, normal with a deviation of 0.5; `energy` FLOAT, kinetic, over mc^2: sqrt(1 + u^2) - 1 |
//! | `laghos` | vertices of a shock wave: `vertex_id`, `element_id` BIGINT, counting, and 8 vertices to an element; `x`, `y`, `z` DOUBLE, uniform in [0, 3); `e` DOUBLE, internal energy, exponential with a mean of 0.25; `rho` DOUBLE, uniform in [0.5, 1.5); `v_x`, `v_y`, `v_z` DOUBLE, normal with a deviation of 0.1 |
//! | `deep-water` | cells around an asteroid's impact: `rowid` BIGINT counts; `timestep` INTEGER, a step for 1,000 rows; `v02` FLOAT, water's share, and `v03` FLOAT, the asteroid's: 0 in nine cells of ten and in 99 of 100, else uniform in [0, 1); `prs` FLOAT, pressure, exponential with a mean of 1e6; `tev` FLOAT, temperature, exponential with a mean of 0.05 |
//! | `tpch-region`, `tpch-nation`, `tpch-supplier`, `tpch-customer`, `tpch-part`, `tpch-partsupp`, `tpch-orders`, `tpch-lineitem` | TPC-H's, from `tpchgen` ([`super::tpch`]) |

use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Float64Array, Int32Array, Int64Array, RecordBatch};
use byteway_clock::random::{Exponential, Normal, Stream};
use byteway_query::{ColumnType, Schema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::columns::schema;
use super::tpch::{self, Table};

/// A generator of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Generator {
    /// TPC-H's `region`: 5 rows.
    TpchRegion,
    /// TPC-H's `nation`: 25 rows.
    TpchNation,
    /// TPC-H's `supplier`.
    TpchSupplier,
    /// TPC-H's `customer`.
    TpchCustomer,
    /// TPC-H's `part`.
    TpchPart,
    /// TPC-H's `partsupp`.
    TpchPartsupp,
    /// TPC-H's `orders`.
    TpchOrders,
    /// TPC-H's `lineitem`.
    TpchLineitem,
    /// Particles of a plasma.
    Vpic,
    /// Vertices of a shock wave.
    Laghos,
    /// Cells around an asteroid's impact in water.
    DeepWater,
}

/// Numeric columns, and a function that draws a row of them.
struct Shape {
    columns: &'static [(&'static str, ColumnType)],
    draw: fn(u64, &mut Stream, &mut [f64]),
}

const VPIC: Shape = Shape {
    columns: &[
        ("id", ColumnType::Int64),
        ("x", ColumnType::Float32),
        ("y", ColumnType::Float32),
        ("z", ColumnType::Float32),
        ("ux", ColumnType::Float32),
        ("uy", ColumnType::Float32),
        ("uz", ColumnType::Float32),
        ("energy", ColumnType::Float32),
    ],
    draw: |index, stream, row| {
        row[0] = index as f64;
        row[1..4].fill_with(|| stream.unit());
        row[4..7].fill_with(|| normal(0.5, stream));
        // Kinetic energy of a relativistic particle.
        row[7] = (1.0 + row[4..7].iter().map(|u| u * u).sum::<f64>()).sqrt() - 1.0;
    },
};

const LAGHOS: Shape = Shape {
    columns: &[
        ("vertex_id", ColumnType::Int64),
        ("element_id", ColumnType::Int64),
        ("x", ColumnType::Float64),
        ("y", ColumnType::Float64),
        ("z", ColumnType::Float64),
        ("e", ColumnType::Float64),
        ("rho", ColumnType::Float64),
        ("v_x", ColumnType::Float64),
        ("v_y", ColumnType::Float64),
        ("v_z", ColumnType::Float64),
    ],
    draw: |index, stream, row| {
        (row[0], row[1]) = (index as f64, (index / 8) as f64);
        row[2..5].fill_with(|| 3.0 * stream.unit());
        row[5] = exponential(0.25, stream);
        row[6] = 0.5 + stream.unit();
        row[7..10].fill_with(|| normal(0.1, stream));
    },
};

const DEEP_WATER: Shape = Shape {
    columns: &[
        ("rowid", ColumnType::Int64),
        ("timestep", ColumnType::Int32),
        ("v02", ColumnType::Float32),
        ("v03", ColumnType::Float32),
        ("prs", ColumnType::Float32),
        ("tev", ColumnType::Float32),
    ],
    draw: |index, stream, row| {
        (row[0], row[1]) = (index as f64, (index / 1000) as f64);
        row[2] = if stream.chance(0.9) { 0.0 } else { stream.unit() };
        row[3] = if stream.chance(0.99) { 0.0 } else { stream.unit() };
        row[4] = exponential(1e6, stream);
        row[5] = exponential(0.05, stream);
    },
};

/// Amount of generated rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// At most this many rows: TPC-H's `region` has 5 rows, `nation` 25.
    Rows(u64),
    /// All rows at a TPC-H scale. Tables of the same scale have matching keys.
    Scale(f64),
}

fn normal(sd: f64, stream: &mut Stream) -> f64 {
    Normal::new(0.0, sd).expect("a deviation above 0").sample(stream)
}

fn exponential(mean: f64, stream: &mut Stream) -> f64 {
    Exponential::new(mean).expect("a mean above 0").sample(stream)
}

impl Generator {
    /// All generators.
    pub const ALL: [Generator; 11] = [
        Generator::TpchRegion,
        Generator::TpchNation,
        Generator::TpchSupplier,
        Generator::TpchCustomer,
        Generator::TpchPart,
        Generator::TpchPartsupp,
        Generator::TpchOrders,
        Generator::TpchLineitem,
        Generator::Vpic,
        Generator::Laghos,
        Generator::DeepWater,
    ];

    /// Name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Generator::TpchRegion => "tpch-region",
            Generator::TpchNation => "tpch-nation",
            Generator::TpchSupplier => "tpch-supplier",
            Generator::TpchCustomer => "tpch-customer",
            Generator::TpchPart => "tpch-part",
            Generator::TpchPartsupp => "tpch-partsupp",
            Generator::TpchOrders => "tpch-orders",
            Generator::TpchLineitem => "tpch-lineitem",
            Generator::Vpic => "vpic",
            Generator::Laghos => "laghos",
            Generator::DeepWater => "deep-water",
        }
    }

    /// Finds a generator by its name.
    pub fn of_name(name: &str) -> Option<Generator> {
        Generator::ALL.into_iter().find(|generator| generator.name() == name)
    }

    fn kind(self) -> Kind {
        match self {
            Generator::TpchRegion => Kind::Tpch(Table::Region),
            Generator::TpchNation => Kind::Tpch(Table::Nation),
            Generator::TpchSupplier => Kind::Tpch(Table::Supplier),
            Generator::TpchCustomer => Kind::Tpch(Table::Customer),
            Generator::TpchPart => Kind::Tpch(Table::Part),
            Generator::TpchPartsupp => Kind::Tpch(Table::Partsupp),
            Generator::TpchOrders => Kind::Tpch(Table::Orders),
            Generator::TpchLineitem => Kind::Tpch(Table::Lineitem),
            Generator::Vpic => Kind::Drawn(&VPIC),
            Generator::Laghos => Kind::Drawn(&LAGHOS),
            Generator::DeepWater => Kind::Drawn(&DEEP_WATER),
        }
    }

    /// Supported scales; `None` if the generator has no scale.
    pub fn scales(self) -> Option<std::ops::RangeInclusive<f64>> {
        matches!(self.kind(), Kind::Tpch(_)).then_some(tpch::SCALE_MIN..=tpch::SCALE_MAX)
    }

    /// Schema of its tables.
    pub fn schema(self) -> Schema {
        match self.kind() {
            Kind::Drawn(shape) => schema(shape.columns),
            Kind::Tpch(table) => table.schema(),
        }
    }

    /// Generates rows from `stream`, in batches of up to `batch_rows`. Empty for a scale of a generator
    /// without scales.
    pub(super) fn batches(
        self,
        amount: Amount,
        batch_rows: usize,
        mut stream: Stream,
    ) -> Box<dyn Iterator<Item = RecordBatch>> {
        match (self.kind(), amount) {
            (Kind::Tpch(table), Amount::Rows(rows)) => table.rows(rows, batch_rows),
            (Kind::Tpch(table), Amount::Scale(scale)) => table.scaled(scale, batch_rows),
            (Kind::Drawn(shape), Amount::Rows(rows)) => {
                let count = move |first: u64| (rows - first).min(batch_rows as u64) as usize;
                let firsts = (0..rows).step_by(batch_rows);
                Box::new(firsts.map(move |first| drawn(shape, first, count(first), &mut stream)))
            }
            (Kind::Drawn(_), Amount::Scale(_)) => Box::new(std::iter::empty()),
        }
    }
}

/// Implementation of a generator.
enum Kind {
    Tpch(Table),
    Drawn(&'static Shape),
}

fn drawn(shape: &Shape, first: u64, count: usize, stream: &mut Stream) -> RecordBatch {
    let mut columns = vec![Vec::with_capacity(count); shape.columns.len()];
    let mut row = vec![0.0; shape.columns.len()];
    for index in 0..count as u64 {
        (shape.draw)(first + index, stream, &mut row);
        columns.iter_mut().zip(&row).for_each(|(column, value)| column.push(*value));
    }
    let array = |(values, (_, column_type)): (Vec<f64>, &(&str, ColumnType))| -> ArrayRef {
        match column_type {
            ColumnType::Int64 => {
                Arc::new(values.into_iter().map(|value| value as i64).collect::<Int64Array>())
            }
            ColumnType::Int32 => {
                Arc::new(values.into_iter().map(|value| value as i32).collect::<Int32Array>())
            }
            ColumnType::Float32 => {
                Arc::new(values.into_iter().map(|value| value as f32).collect::<Float32Array>())
            }
            _ => Arc::new(Float64Array::from(values)),
        }
    };
    let arrays = columns.into_iter().zip(shape.columns).map(array).collect();
    RecordBatch::try_new(schema(shape.columns).to_arrow(), arrays).expect("arrays are as the schema says")
}
