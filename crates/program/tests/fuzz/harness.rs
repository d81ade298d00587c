//! Fuzzes programs as a host sends them, as a function of bytes. It is the body of the fuzz target `programs`, and of the test that replays
//! its corpus.
//!
//! | byte | what |
//! |---|---|
//! | 0 | low half: instructions of a slice, minus 1; bit 4: an object file follows; bits 5 to 7: columns, minus 1 |
//! | 1 | determines the columns' widths |
//! | 2 | number of instructions that follow, or of 8-byte units of an object file |
//! | then | these, and the remaining bytes for rows, ranges and parameters |
//!
//! Checked: a refusal has a printable reason. An accepted program never panics, stays within its fuel, writes only to its writable ranges,
//! and behaves identically for any division into slices: registers, memory, instruction counts and trap location. As a filter it selects
//! the same rows with and without pauses, each independently. Instructions from an object file lie inside it. Not checked: whether results
//! are correct, which the test `naive` does.

use byteway_program::instruction::Instruction;
use byteway_program::memory::{PARAMETERS, range_address};
use byteway_program::{
    Column, Counts, Filter, Fuel, Machine, Program, Progress, Range, Ranges, Rows, Trap, elf,
};

const FUEL: u64 = 3000;
const ROW_FUEL: u64 = 300;
/// Guard bytes around a range, which must not change.
const GUARD: usize = 16;
const WRITABLE: usize = 64;

/// Outcome of a run, and its effects.
#[derive(Debug, PartialEq)]
struct Ended {
    result: Result<Option<u64>, Trap>,
    counts: Counts,
    bytes: [u8; WRITABLE],
}

/// Runs a program in slices of `slice` instructions.
fn run_sliced(program: &Program, fixed: &[u8], slice: u64) -> Ended {
    let mut bytes = [0xa5; WRITABLE + 2 * GUARD];
    let (before, rest) = bytes.split_at_mut(GUARD);
    let (range, behind) = rest.split_at_mut(WRITABLE);
    for (byte, value) in range.iter_mut().zip(fixed) {
        *byte = *value;
    }
    let kept = fixed.to_vec();
    let arguments = [PARAMETERS, fixed.len() as u64, range_address(0), range_address(1), 2];
    let mut machine = Machine::new(arguments);
    let mut memory =
        Ranges { parameters: fixed, ranges: vec![Range::Write(&mut *range), Range::Read(fixed)] };
    let result = loop {
        let left = FUEL - machine.counts().all();
        match machine.proceed(program, &mut memory, slice.min(left)) {
            Ok(Progress::Ended(r0)) => break Ok(Some(r0)),
            Ok(Progress::Paused) if left <= slice => break Ok(None),
            Ok(Progress::Paused) => {}
            Err(trap) => break Err(trap),
        }
    };
    drop(memory);
    let counts = machine.counts();
    assert!(counts.all() <= FUEL, "it took more than it was given");
    assert!(before.iter().chain(&*behind).all(|byte| *byte == 0xa5), "a guard was written");
    assert_eq!(kept, fixed, "what can only be read was written");
    if let Err(trap) = &result {
        assert!((trap.at as usize) < program.instructions().len() && !trap.to_string().is_empty());
    }
    let mut left = [0; WRITABLE];
    left.copy_from_slice(range);
    Ended { result, counts, bytes: left }
}

/// Columns of these widths, with as many complete rows as the bytes hold, at most 40.
fn columns(bytes: &[u8], widths: &[usize]) -> Vec<(Vec<u8>, usize)> {
    let row: usize = widths.iter().sum();
    let rows = (bytes.len() / row.max(1)).min(40);
    let mut rest = bytes;
    let mut column = |width: &usize| {
        let (own, others) = rest.split_at(rows * width);
        rest = others;
        (own.to_vec(), *width)
    };
    widths.iter().map(&mut column).collect()
}

/// Runs a program as a filter; each row must be selected as it is in isolation.
fn run_rows(program: &Program, rows: &Rows<'_>, parameters: &[u8], slice: u64) {
    let whole = |rows: &Rows<'_>| {
        let mut filter = Filter::new(Fuel { row: ROW_FUEL, all: FUEL });
        let mut selected = Vec::new();
        let ended = filter.proceed(program, rows, parameters, (7, u64::MAX), &mut selected);
        (ended, selected, filter.counts())
    };
    let (ended, selected, counts) = whole(rows);
    assert!(counts.all() <= FUEL, "rows took more than they were given");
    assert!(selected.is_sorted() && selected.iter().all(|row| *row < rows.count()));
    let mut filter = Filter::new(Fuel { row: ROW_FUEL, all: FUEL });
    let mut others = Vec::new();
    let again = loop {
        let before = filter.counts().all();
        match filter.proceed(program, rows, parameters, (7, slice), &mut others) {
            Ok(false) => assert_eq!(filter.counts().all() - before, slice, "a slice is used up"),
            ended => break ended,
        }
    };
    assert_eq!((&again, &others, filter.counts()), (&ended, &selected, counts));
    if let Err(trap) = ended {
        assert!((7..7 + u64::from(rows.count())).contains(&trap.row) && !trap.to_string().is_empty());
    }
}

/// The fuzz target.
pub fn run(bytes: &[u8]) {
    let [shape, widths, count, rest @ ..] = bytes else { return };
    let (code, data) = rest.split_at((usize::from(*count) * Instruction::BYTES).min(rest.len()));
    let code = match shape & 0x10 {
        0 => code,
        _ => match elf::instructions(code) {
            Ok(found) => {
                let range = code.as_ptr_range();
                assert!(range.contains(&found.as_ptr()) || found.is_empty(), "they lie in the file");
                found
            }
            Err(error) => return assert!(!error.to_string().is_empty()),
        },
    };
    let program = match Program::verify(code) {
        Ok(program) => program,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let slice = u64::from(shape & 0xf) + 1;
    let fixed = &data[..data.len().min(48)];
    assert_eq!(
        run_sliced(&program, fixed, slice),
        run_sliced(&program, fixed, FUEL),
        "slices change nothing"
    );
    let width = |column| [1, 2, 4, 8, 16, 8, 4, 1][usize::from(widths.rotate_left(3 * column) & 7)];
    let widths: Vec<usize> = (0..=u32::from(shape >> 5)).map(width).collect();
    let columns = columns(data, &widths);
    let columns: Vec<Column<'_>> =
        columns.iter().map(|(bytes, width)| Column { bytes, width: *width }).collect();
    let rows = Rows::of(&columns).expect("columns of one length and of widths that there are");
    run_rows(&program, &rows, fixed, slice);
}
