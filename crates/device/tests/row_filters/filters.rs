//! The same filter in SQL and as a program.
//!
//! What a program can't do that SQL does: text (it is no column of a program's), arithmetic of floats (the instruction set has none; they are
//! compared by their bits), integers of more than 64 bits without doing it in parts.

use super::{ACCEPT, GROUP_ROWS, REJECT, by_program, decide, driven, not_null, pair};
use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray, UInt8Array,
};
use arrow_schema::{DataType, Field, Schema};
use byteway_clock::random::{Rng, Stream};
use byteway_program::Instruction;
use byteway_program::assemble::*;
use byteway_program::instruction::{alu, class, jump, mode, size};
use byteway_query::rows::numbered;
use std::sync::Arc;

const ROWS: usize = 2300;

/// Values, of which each eighth is null.
fn some<T>(random: &mut Stream, value: impl Fn(&mut Stream) -> T) -> Vec<Option<T>> {
    let one = |_| {
        let value = value(random);
        (random.below(8) > 0).then_some(value)
    };
    (0..ROWS).map(one).collect()
}

/// Rows with nulls, extremes, NaN and infinities.
fn table(seed: u64) -> RecordBatch {
    let random = &mut Rng::new(seed).stream("table");
    let i = Int64Array::from(some(random, |random| match random.below(50) {
        0 => i64::MIN,
        1 => i64::MAX,
        _ => random.below(41) as i64 - 20,
    }));
    let j = Int32Array::from(some(random, |random| random.below(31) as i32 - 15));
    let u = UInt8Array::from_iter_values((0..ROWS).map(|_| random.below(256) as u8));
    let f = Float64Array::from(some(random, |random| match random.below(20) {
        0 => f64::NAN,
        1 => f64::INFINITY,
        2 => f64::NEG_INFINITY,
        3 => -0.0,
        4 => 0.0,
        _ => (random.below(81) as f64 - 40.0) / 8.0,
    }));
    let d = Decimal128Array::from(some(random, |random| i128::from(random.below(6000)) - 1000));
    let w = Decimal128Array::from(some(random, |random| {
        (i128::from(random.below(5)) - 2) * 10_i128.pow(25) + i128::from(random.below(3))
    }));
    let day = Date32Array::from(some(random, |random| random.below(20_000) as i32 - 1000));
    let flag = BooleanArray::from(some(random, |random| random.below(2) == 1));
    let s = StringArray::from(some(random, |random| format!("text {}", random.below(9))));
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("i", Arc::new(i), true),
        ("j", Arc::new(j), true),
        ("u", Arc::new(u), false),
        ("f", Arc::new(f), true),
        ("d", Arc::new(d.with_precision_and_scale(15, 2).unwrap()), true),
        ("w", Arc::new(w.with_precision_and_scale(30, 0).unwrap()), true),
        ("day", Arc::new(day), true),
        ("flag", Arc::new(flag), true),
        ("s", Arc::new(s), true),
    ];
    let field = |(name, array, nullable): &(&str, ArrayRef, bool)| {
        Field::new(*name, DataType::clone(array.data_type()), *nullable)
    };
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, array, _)| array).collect()).unwrap()
}

/// Loads with the sign extended.
fn load_signed(size: u8, dst: Register, src: Register, offset: i16) -> Instruction {
    Instruction { opcode: class::LDX | mode::MEMSX | size, ..load(size, dst, src, offset) }
}

/// Makes of a double's bits in R2, with R3 and R4, a number that has its order, as DuckDB has it: -0.0 as 0.0, NaN greatest of all.
fn ordered() -> Vec<Instruction> {
    let mut code = vec![
        mov(R3, R2),
        alu64(alu::LSH, R3, 1), // without the sign
        jump(jump::NE, R3, 0, 1),
        mov(R2, 0), // either zero
    ];
    code.extend(wide(R4, 0x7ff0_0000_0000_0000 << 1));
    code.extend([jump(jump::LE, R3, R4, 2), mov(R2, -1), goto(6)]); // NaN, whatever its sign
    code.extend([jump(jump::SGE, R2, 0, 2), alu64(alu::XOR, R2, -1), goto(3)]);
    code.extend(wide(R4, 1 << 63));
    code.push(alu64(alu::XOR, R2, R4));
    code
}

/// Sort key of a double, as in [`ordered`].
fn order_of(value: f64) -> u64 {
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// A filter in SQL; the same as a program, the columns that it is given, and its parameters.
struct Both {
    sql: &'static str,
    columns: &'static [&'static str],
    parameters: Vec<u8>,
    body: Vec<Instruction>,
}

fn both(sql: &'static str, columns: &'static [&'static str], parts: &[&[Instruction]]) -> Both {
    Both { sql, columns, parameters: Vec::new(), body: parts.concat() }
}

fn all() -> Vec<Both> {
    // Where columns are: `i` alone has its value at 0 and its null at 8; `i, j` 0, 8, and 12, 13; `f`, `d` as `i`; `w` 0 and 16.
    let i = [load(size::DOUBLE, R2, R1, 0)];
    let j = [load_signed(size::WORD, R3, R1, 8)];
    let in_list = [1, 2, 3, 5, 8].map(|value| jump(jump::EQ, R2, value, ACCEPT));
    let greater = |value: f64| {
        let [low, high] = wide(R3, order_of(value));
        [low, high, jump(jump::LE, R2, R3, REJECT)]
    };
    let w_is = {
        // -10^25 + 1, in two halves.
        let value = 1 - 10_i128.pow(25);
        let ([a, b], [c, d]) = (wide(R4, value as u64), wide(R5, (value >> 64) as u64));
        [a, b, c, d, jump(jump::NE, R2, R4, REJECT), jump(jump::NE, R3, R5, REJECT)]
    };
    let days = [load(size::WORD, R2, R1, 0), jump32(jump::SLT, R2, 9131, REJECT)];
    vec![
        both("i = 5", &["i"], &[&not_null(8), &i, &[jump(jump::NE, R2, 5, REJECT)]]),
        both("i <> 5", &["i"], &[&not_null(8), &i, &[jump(jump::EQ, R2, 5, REJECT)]]),
        both("i < -3", &["i"], &[&not_null(8), &i, &[jump(jump::SGE, R2, -3, REJECT)]]),
        both(
            "i BETWEEN -10 AND 10",
            &["i"],
            &[&not_null(8), &i, &[jump(jump::SLT, R2, -10, REJECT), jump(jump::SGT, R2, 10, REJECT)]],
        ),
        both("i IN (1, 2, 3, 5, 8)", &["i"], &[&not_null(8), &i, &in_list, &[goto(REJECT)]]),
        both(
            // A null of one side leaves the other to decide.
            "i < 0 OR j > 7",
            &["i", "j"],
            &[
                &[load(size::BYTE, R5, R1, 12), jump(jump::NE, R5, 0, 2)],
                &i,
                &[jump(jump::SLT, R2, 0, ACCEPT)],
                &not_null(13),
                &j,
                &[jump(jump::SLE, R3, 7, REJECT)],
            ],
        ),
        both(
            "u + j > 100",
            &["u", "j"],
            &[
                &not_null(9),
                &[load(size::BYTE, R2, R1, 0), load_signed(size::WORD, R3, R1, 4)],
                &[alu64(alu::ADD, R2, R3), jump(jump::SLE, R2, 100, REJECT)],
            ],
        ),
        both(
            "j * j * 3 - j <= 100",
            &["i", "j"],
            &[
                &not_null(13),
                &j,
                &[mov(R2, R3), alu64(alu::MUL, R2, R3), alu64(alu::MUL, R2, 3), alu64(alu::SUB, R2, R3)],
                &[jump(jump::SGT, R2, 100, REJECT)],
            ],
        ),
        both(
            // Of a signed remainder, whose sign is the dividend's.
            "i % 7 = -3",
            &["i"],
            &[
                &not_null(8),
                &i,
                &[Instruction { offset: 1, ..alu64(alu::MOD, R2, 7) }, jump(jump::NE, R2, -3, REJECT)],
            ],
        ),
        both("u >= 200", &["u"], &[&[load(size::BYTE, R2, R1, 0), jump(jump::LT, R2, 200, REJECT)]]),
        both("f > 1.5", &["f"], &[&not_null(8), &[load(size::DOUBLE, R2, R1, 0)], &ordered(), &greater(1.5)]),
        both(
            "f > -2.25",
            &["f"],
            &[&not_null(8), &[load(size::DOUBLE, R2, R1, 0)], &ordered(), &greater(-2.25)],
        ),
        both(
            "f = 0",
            &["f"],
            &[
                &not_null(8),
                &[load(size::DOUBLE, R2, R1, 0), alu64(alu::LSH, R2, 1), jump(jump::NE, R2, 0, REJECT)],
            ],
        ),
        both(
            // The digits alone, without the point.
            "d >= 12.50 AND d < 30",
            &["d"],
            &[&not_null(8), &i, &[jump(jump::SLT, R2, 1250, REJECT), jump(jump::SGE, R2, 3000, REJECT)]],
        ),
        both(
            "w = -9999999999999999999999999",
            &["w"],
            &[&not_null(16), &i, &[load(size::DOUBLE, R3, R1, 8)], &w_is],
        ),
        both("day >= DATE '1995-01-01'", &["day"], &[&not_null(4), &days]),
        both(
            "flag AND u < 100",
            &["flag", "u"],
            &[
                &not_null(2),
                &[load(size::BYTE, R2, R1, 0), jump(jump::EQ, R2, 0, REJECT)],
                &[load(size::BYTE, R2, R1, 1), jump(jump::GE, R2, 100, REJECT)],
            ],
        ),
        both(
            "i IS NULL AND j IS NOT NULL",
            &["i", "j"],
            &[&[load(size::BYTE, R5, R1, 12), jump(jump::EQ, R5, 0, REJECT)], &not_null(13)],
        ),
        Both {
            sql: "i >= -4 AND j <= 9",
            columns: &["j", "i"],
            parameters: [(-4_i64).to_le_bytes(), 9_i64.to_le_bytes()].concat(),
            // `j` is at 0, `i` at 8, the nulls at 16 and 17.
            body: [
                &not_null(16)[..],
                &not_null(17),
                &[load(size::DOUBLE, R3, R1, 8), load(size::DOUBLE, R4, R2, 0)],
                &[jump(jump::SLT, R3, R4, REJECT)],
                &[load_signed(size::WORD, R3, R1, 0), load(size::DOUBLE, R4, R2, 8)],
                &[jump(jump::SGT, R3, R4, REJECT)],
            ]
            .concat(),
        },
        both("u < 0", &["u"], &[&[goto(REJECT)]]),
        both("u >= 0", &["u"], &[]),
    ]
}

// A program that sees another value, another null or another row than SQL does filters by something else.
#[test]
fn a_filter_in_sql_and_as_a_program_gives_the_same_rows() {
    driven(async |driver, powered| {
        let mut pair = pair(&driver).await;
        let mut chosen = 0;
        for seed in 0..3 {
            let name = format!("t{seed}");
            pair.load(&name, &table(seed)).await;
            for Both { sql, columns, parameters, body } in all() {
                pair.install(0, &decide(&body)).await;
                let expected = pair.sql(&format!("SELECT * FROM {name} WHERE {sql}")).await;
                let task = format!("SELECT * FROM {name}");
                let found = pair.filtered(&by_program(columns, &parameters, &task)).await.unwrap();
                assert_eq!(found.len(), expected.len(), "{sql}, table {seed}");
                assert!(found == expected, "{sql}, table {seed}");
                chosen += found.len();
                // Before the task's own conditions and its aggregation; on columns that the program does not
                // receive.
                let all = "SELECT COUNT(*), SUM(u), MIN(s) FROM";
                let expected = pair.sql(&format!("{all} {name} WHERE ({sql}) AND j > 0")).await;
                let task = format!("{all} {name} WHERE j > 0");
                let found = pair.filtered(&by_program(columns, &parameters, &task)).await.unwrap();
                assert_eq!(found, expected, "{sql}, table {seed}");
            }
        }
        assert!(chosen > 10_000, "{chosen} rows passed");
        assert!(powered.drive.controller.is_quiet());
    });
}

// The number of a row is its place in the table, not in its row group, and whether row groups are read changes nothing of it; without that a
// sample by number would be another sample on another drive.
#[test]
fn a_program_knows_the_number_of_a_row() {
    driven(async |driver, _| {
        let mut pair = pair(&driver).await;
        pair.load("numbers", &numbered(0, 5000)).await;
        const { assert!(5000 / GROUP_ROWS > 3, "several row groups") };
        // The row's number is that in its column, and is a multiple of 9.
        let body = [
            load(size::DOUBLE, R2, R1, 0),
            jump(jump::NE, R2, R3, REJECT),
            alu64(alu::MOD, R2, 9),
            jump(jump::NE, R2, 0, REJECT),
        ];
        pair.install(0, &decide(&body)).await;
        for (condition, first) in [("", 0), (" WHERE n >= 3000", 3000), (" WHERE n > 4999", 5000)] {
            let task = format!("SELECT n FROM numbers{condition}");
            let expected: Vec<Vec<String>> =
                (first..5000).filter(|n| n % 9 == 0).map(|n| vec![n.to_string()]).collect();
            let found = pair.filtered(&by_program(&["n"], &[], &task)).await.unwrap();
            assert_eq!(found, expected, "{condition}");
        }
        // Enough is enough.
        let task = "SELECT n FROM numbers LIMIT 3";
        let found = pair.filtered(&by_program(&["n"], &[], task)).await.unwrap();
        assert_eq!(found, [["0"], ["9"], ["18"]]);
        // Whatever the case of its name, and of the first namespace of programs.
        let mut task = by_program(&["N", "n"], &[], "SELECT COUNT(*) FROM numbers");
        task.nsid = 0;
        assert_eq!(pair.filtered(&task).await.unwrap(), [["556"]]);
    });
}
