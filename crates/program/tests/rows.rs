//! Programs as filters of rows.

use byteway_program::assemble::*;
use byteway_program::instruction::{Instruction, jump, size};
use byteway_program::rows::RowsError;
use byteway_program::{Column, Filter, Fuel, Program, Rows, TrapCause};

fn program(instructions: &[Instruction]) -> Program {
    Program::verify(&assemble(instructions)).unwrap()
}

/// Returns 1 if the jump is taken, else 0.
fn answer(condition: Instruction) -> Vec<Instruction> {
    vec![Instruction { offset: 2, ..condition }, mov(R0, 0), exit(), mov(R0, 1), exit()]
}

fn bytes_of<const N: usize, T>(values: &[T], bytes: fn(&T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(bytes).collect()
}

// A filter that reads a column of another row, or at an offset that the compiler does not expect, selects wrong rows.
#[test]
fn a_filter_sees_its_columns_as_a_struct() {
    let flags: Vec<u8> = (0..1000).map(|row| (row % 3) as u8).collect();
    let prices: Vec<i64> = (0..1000).map(|row| 500 - row * 7 % 1000).collect();
    let dates: Vec<u16> = (0..1000).map(|row| (row * 31 % 365) as u16).collect();
    let (prices_bytes, dates_bytes) =
        (bytes_of(&prices, |value| value.to_le_bytes()), bytes_of(&dates, |value| value.to_le_bytes()));
    let rows = Rows::of(&[
        Column { bytes: &flags, width: 1 },
        Column { bytes: &prices_bytes, width: 8 },
        Column { bytes: &dates_bytes, width: 2 },
    ])
    .unwrap();
    assert_eq!((rows.offsets(), rows.row_bytes(), rows.count()), (&[0, 8, 16][..], 24, 1000));
    // Selects flag = 1, price < the parameter, date >= 100.
    let filter = program(&[
        load(size::BYTE, R5, R1, 0),
        jump(jump::NE, R5, 1, 6),
        load(size::DOUBLE, R5, R1, 8),
        load(size::DOUBLE, R6, R2, 0),
        jump(jump::SGE, R5, R6, 3),
        load(size::HALF, R5, R1, 16),
        jump(jump::LT, R5, 100, 1),
        goto(2),
        mov(R0, 0),
        exit(),
        mov(R0, 1),
        exit(),
    ]);
    let selected = filter.run_rows(&rows, &(-20_i64).to_le_bytes(), 1 << 20).unwrap();
    let expected: Vec<u32> = (0..1000)
        .filter(|row| flags[*row] == 1 && prices[*row] < -20 && dates[*row] >= 100)
        .map(|row| row as u32)
        .collect();
    assert!(expected.len() > 50);
    assert_eq!(selected.rows, expected);
    assert!((3_000..12_000).contains(&selected.counts.all()), "{:?}", selected.counts);
}

// Row number and parameter length follow the calling convention.
#[test]
fn a_filter_knows_which_row_it_is() {
    let bytes = [0; 10];
    let rows = Rows::of(&[Column { bytes: &bytes, width: 1 }]).unwrap();
    let selected = program(&answer(jump(jump::EQ, R3, R4, 0))).run_rows(&rows, &[0; 6], 1000).unwrap();
    assert_eq!(selected.rows, [6]);
}

// Without rows or columns nothing must run, and no division by zero occur.
#[test]
fn there_may_be_no_rows() {
    let all = program(&[mov(R0, 1), exit()]);
    for columns in [&[][..], &[Column { bytes: &[], width: 8 }]] {
        let rows = Rows::of(columns).unwrap();
        assert_eq!(all.run_rows(&rows, &[], 0).unwrap().rows, []);
    }
}

// Inconsistent columns would give rows with bytes beyond a column.
#[test]
fn columns_must_fit_together() {
    for width in [0, 3, 32] {
        let error = Rows::of(&[Column { bytes: &[0; 32], width }]).unwrap_err();
        assert_eq!(error, RowsError::Width { column: 0, width });
    }
    let columns = [Column { bytes: &[0; 8], width: 4 }, Column { bytes: &[0; 8], width: 8 }];
    assert_eq!(Rows::of(&columns).unwrap_err(), RowsError::Length { column: 1, bytes: 8, width: 8, rows: 2 });
    let error = Rows::of(&[Column { bytes: &[0; 7], width: 4 }]).unwrap_err();
    assert_eq!(error, RowsError::Length { column: 0, bytes: 7, width: 4, rows: 1 });
}

// A filter that returns an invalid value, loops, or accesses memory beyond a row must be stopped at that row.
#[test]
fn a_filter_is_bounded() {
    let bytes: Vec<u8> = (0..10).collect();
    let rows = Rows::of(&[Column { bytes: &bytes, width: 1 }]).unwrap();
    let cause = |instructions: &[Instruction]| {
        program(instructions).run_rows(&rows, &[9], 100).unwrap_err().trap.cause
    };
    assert_eq!(cause(&[mov(R0, 2), exit()]), TrapCause::Answer(2));
    assert_eq!(cause(&[goto(-1)]), TrapCause::OutOfFuel);
    assert!(matches!(cause(&[store(size::BYTE, R1, 0, 0), exit()]), TrapCause::ReadOnly { .. }));
    assert!(matches!(cause(&[store(size::BYTE, R2, 0, 0), exit()]), TrapCause::ReadOnly { .. }));
    assert!(matches!(cause(&[load(size::BYTE, R0, R1, 1), exit()]), TrapCause::OutOfRange { .. }));
    assert!(matches!(cause(&[load(size::HALF, R0, R2, 0), exit()]), TrapCause::OutOfRange { .. }));
    // 10 rows of 2 instructions: the fuel is shared by all rows.
    let all = program(&[mov(R0, 1), exit()]);
    assert_eq!(all.run_rows(&rows, &[], 20).unwrap().rows.len(), 10);
    assert_eq!(all.run_rows(&rows, &[], 19).unwrap_err().trap.cause, TrapCause::OutOfFuel);
}

// A filter that is paused within a row, however often, must select the same rows and count the same instructions; otherwise results would
// depend on the drive's scheduling.
#[test]
fn a_filter_that_pauses_chooses_the_same() {
    let bytes: Vec<u8> = (0..100).map(|row| (row * 37 % 11) as u8).collect();
    let rows = Rows::of(&[Column { bytes: &bytes, width: 1 }]).unwrap();
    // Counts down from the value and selects odd rows.
    let filter = program(&[
        load(size::BYTE, R4, R1, 0),
        jump(jump::EQ, R4, 0, 2),
        alu64(byteway_program::instruction::alu::SUB, R4, 1),
        goto(-3),
        mov(R0, R3),
        alu64(byteway_program::instruction::alu::AND, R0, 1),
        exit(),
    ]);
    let whole = filter.run_rows(&rows, &[], 1 << 20).unwrap();
    assert_eq!(whole.rows.len(), 50);
    for limit in [1, 2, 7, 100, 1000] {
        let mut paused = Filter::new(Fuel { row: 1000, all: 1 << 20 });
        let (mut selected, mut calls) = (Vec::new(), 1_u64);
        while !paused.proceed(&filter, &rows, &[], (0, limit), &mut selected).unwrap() {
            calls += 1;
        }
        assert_eq!((selected, paused.counts()), (whole.rows.clone(), whole.counts));
        assert!(calls >= whole.counts.all() / limit, "{calls} calls of {limit} instructions");
        // The next batch starts at its first row and continues the numbering.
        let mut others = Vec::new();
        assert!(paused.proceed(&filter, &rows, &[], (101, 1 << 20), &mut others).unwrap());
        assert_eq!(others, (0..100).step_by(2).collect::<Vec<u32>>());
    }
}

// A row that takes too long must be stopped even if the total limit is not reached, and vice versa; the trap must name the row.
#[test]
fn fuel_is_of_a_row_and_of_all() {
    let bytes = [0, 0, 0, 1];
    let rows = Rows::of(&[Column { bytes: &bytes, width: 1 }]).unwrap();
    let loops_at_one = program(&[load(size::BYTE, R4, R1, 0), mov(R0, 0), jump(jump::NE, R4, 0, -1), exit()]);
    let stopped = |fuel| {
        let mut filter = Filter::new(fuel);
        filter.proceed(&loops_at_one, &rows, &[], (1000, u64::MAX), &mut Vec::new()).unwrap_err()
    };
    let trap = stopped(Fuel { row: 50, all: 1 << 40 });
    assert_eq!((trap.row, trap.trap.cause), (1003, TrapCause::OutOfFuel));
    assert_eq!(
        trap.to_string(),
        "row 1003: the program was stopped at instruction 2: the limit of instructions is reached"
    );
    let trap = stopped(Fuel { row: 50, all: 10 });
    assert_eq!((trap.row, trap.trap.cause), (1002, TrapCause::OutOfFuel));
}
