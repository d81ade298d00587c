//! Invalid filters and tasks, and filters that end part way.

use super::{REJECT, TABLES, by_program, decide, driven, pair};
use crate::row_filters::Pair;
use byteway_clock::Delay;
use byteway_clock::random::Rng;
use byteway_host::{Driver, IoError, Lost, ProgramsError, TablesError};
use byteway_program::Instruction;
use byteway_program::assemble::*;
use byteway_program::instruction::{jump, size};
use byteway_program::memory::{PARAMETERS, range_address};
use byteway_query::Form;
use byteway_query::rows::numbered;
use byteway_wire::nvme::vendor::csd::{FILTERED, Filtered, Problem};
use byteway_wire::nvme::{Abort, Status};
use byteway_world::PoweredDrive;

const SQL: &str = "SELECT COUNT(*) FROM numbers";

/// Wants every row.
fn any() -> Vec<Instruction> {
    decide(&[])
}

/// Takes nearly all the instructions that a row may.
fn slow() -> Vec<Instruction> {
    decide(&[mov(R4, 300), alu64(byteway_program::instruction::alu::SUB, R4, 1), jump(jump::NE, R4, 0, -2)])
}

async fn works(pair: &mut Pair) {
    pair.install(1, &any()).await;
    let task = Filtered { program: 1, ..by_program(&["n"], &[], SQL) };
    assert_eq!(pair.filtered(&task).await.unwrap(), [["5000"]]);
}

// A program of whatever kind must end with a problem that says where and why, and leave the drive as it was.
#[test]
fn a_program_that_misbehaves_is_stopped() {
    driven(async |driver, powered| {
        let mut pair = pair(&driver).await;
        pair.load("numbers", &numbered(0, 5000)).await;
        let row = |body: &[Instruction]| {
            // At one row alone, so that it is found where it is.
            [&[jump(jump::NE, R3, 1234, 2 * body.len() as i16)][..], body, &vec![mov(R0, 0); body.len()]]
                .concat()
        };
        let beyond = |address: u64| {
            let [low, high] = wide(R4, address);
            row(&[low, high, load(size::BYTE, R5, R4, 0)])
        };
        for (body, words) in [
            (row(&[goto(-1)]), "limit of instructions"),
            (row(&[load(size::DOUBLE, R4, R1, 9)]), "is out of range"), // the row has 16 bytes
            (row(&[load(size::BYTE, R4, R1, -1)]), "is out of range"),
            (row(&[load(size::BYTE, R4, R2, 3)]), "is out of range"),
            (beyond(0), "is out of range"),
            (beyond(u64::MAX), "is out of range"),
            (beyond(range_address(1)), "is out of range"),
            (beyond(PARAMETERS - 1), "is out of range"),
            (row(&[store(size::BYTE, R1, 0, 1)]), "which are read-only"),
            (row(&[store(size::BYTE, R2, 0, 1)]), "which are read-only"),
            (row(&[mov(R0, 2), exit()]), "returned 2"),
        ] {
            pair.install(0, &decide(&body)).await;
            let (problem, said) = pair.problem(&by_program(&["n"], &[1, 2, 3], SQL)).await;
            assert_eq!(problem, Problem::Program, "{said}");
            assert!(said.starts_with("row 1234: ") && said.contains(words), "{said}");
            works(&mut pair).await;
        }
        // No row takes long, and all of them together do.
        pair.install(0, &slow()).await;
        let (problem, said) = pair.problem(&by_program(&["n"], &[], SQL)).await;
        assert_eq!(problem, Problem::Program, "{said}");
        assert!(said.contains("limit of instructions"), "{said}");
        works(&mut pair).await;
        // Bytes with a jump out of range are not a program.
        for wrong in [&[goto(5), exit()][..], &[mov(R0, 1)], &[]] {
            let loaded = pair.programs.load(2, 1, &assemble(wrong)).await;
            assert!(
                matches!(loaded, Err(ProgramsError::Status { .. } | ProgramsError::Checksum { .. }))
                    || wrong.is_empty()
            );
            let (problem, _) = pair.problem(&Filtered { program: 2, ..by_program(&["n"], &[], SQL) }).await;
            assert_eq!(problem, Problem::Program);
        }
        assert!(powered.drive.controller.is_quiet());
    });
}

// A task that names what is not there, or what no program can be given, must say so; bytes that are none must be refused, too.
#[test]
fn what_is_wrong_with_a_filtered_task_is_said() {
    driven(async |driver, powered| {
        let mut pair = pair(&driver).await;
        pair.load("numbers", &numbered(0, 5000)).await;
        pair.install(0, &any()).await;
        pair.programs.load(3, 1, &assemble(&any())).await.unwrap();
        let good = || by_program(&["n"], &[], SQL);
        for (task, expected, words) in [
            (Filtered { program: 3, ..good() }, Problem::Program, "program 3"), // it is not activated
            (Filtered { program: 5, ..good() }, Problem::Program, "program 5"),
            (Filtered { program: 9999, ..good() }, Problem::Program, "program 9999"),
            (Filtered { nsid: TABLES, ..good() }, Problem::Program, "namespace 1"),
            (Filtered { nsid: 2, ..good() }, Problem::Program, "namespace 2"),
            (Filtered { nsid: 77, ..good() }, Problem::Program, "namespace 77"),
            (Filtered { nsid: u32::MAX, ..good() }, Problem::Program, "namespace"),
            (by_program(&[], &[], SQL), Problem::Malformed, "at least one column"),
            (by_program(&["t"], &[], SQL), Problem::Malformed, "VARCHAR"),
            (by_program(&["m"], &[], SQL), Problem::Malformed, "\"m\""),
            (by_program(&["n"; 65], &[], SQL), Problem::Execution, "columns of a program"),
            (by_program(&["n"], &[], "SELECT n FROM nowhere"), Problem::NoTable, "nowhere"),
            (by_program(&["n"], &[], "SELECT m FROM numbers"), Problem::Malformed, "\"m\""),
            (Filtered { form: FILTERED, ..good() }, Problem::Malformed, "unknown form"),
            (Filtered { form: 200, ..good() }, Problem::Malformed, "unknown form"),
            (Filtered { task: &[], ..good() }, Problem::Malformed, ""),
        ] {
            let (problem, said) = pair.problem(&task).await;
            assert_eq!(problem, expected, "{task:?}: {said}");
            assert!(said.contains(words), "{task:?}: {said}");
        }
        let bytes = good().to_bytes();
        let random = &mut Rng::new(1).stream("tasks");
        for at in 0..400 {
            let mut wrong = bytes.clone();
            match at % 3 {
                0 => wrong.truncate(random.below(bytes.len() as u64) as usize),
                1 => wrong[random.below(bytes.len() as u64) as usize] ^= 1 << random.below(8),
                _ => wrong.iter_mut().for_each(|byte| *byte = random.next_u64() as u8),
            }
            // In every case it ends, and the drive continues to work.
            let _ = pair.ask(FILTERED, &wrong).await;
        }
        works(&mut pair).await;
        // A task that is only checked takes no program in use.
        let (problem, _) = pair.tables.check(&mut pair.buffer, FILTERED, &bytes).await.unwrap();
        assert_eq!(problem, None);
        pair.programs.activate(0, false).await.unwrap();
        let (problem, _) = pair.tables.check(&mut pair.buffer, FILTERED, &bytes).await.unwrap();
        assert_eq!(problem, Some(Problem::Program));
        assert!(powered.drive.controller.is_quiet());
    });
}

/// Begins a task with a program that takes long; gives its cursor.
async fn begin(pair: &mut Pair) -> u32 {
    let bytes = by_program(&["n"], &[], "SELECT n FROM numbers").to_bytes();
    pair.tables.task(&mut pair.buffer, FILTERED, &bytes).await.unwrap().0
}

fn is_in_use(result: Result<(), ProgramsError>) -> bool {
    matches!(result, Err(ProgramsError::Status { status, .. }) if status.is(Status::PROGRAM_IN_USE))
}

// A program that filters can't go in the middle, and it can when the task has ended, however that was: one that stayed in use would hold its
// slot until the power goes.
#[test]
fn a_program_stays_while_it_filters_and_no_longer() {
    driven(async |driver, powered| {
        let mut pair = pair(&driver).await;
        pair.load("numbers", &numbered(0, 5000)).await;
        for end in 0..4 {
            pair.install(0, &slow()).await;
            let cursor = begin(&mut pair).await;
            driver.clock().sleep(Delay::from_us(20)).await;
            assert!(is_in_use(pair.programs.activate(0, false).await));
            assert!(is_in_use(pair.programs.unload(0).await));
            match end {
                0 => pair.tables.cancel(cursor).await.unwrap(),
                1 => driver.clock().sleep(Delay::from_ms(120)).await, // the cursor's time is over
                2 => driver.reset().await.unwrap(),
                _ => drop(abort_a_fetch(&driver, &mut pair, cursor).await),
            }
            pair.programs.activate(0, false).await.unwrap_or_else(|error| panic!("end {end}: {error}"));
            pair.programs.unload(0).await.unwrap();
            works(&mut pair).await;
        }
        assert!(powered.drive.controller.is_quiet());
    });
}

/// Waits for a result, and has that aborted; gives how it ended, when no Abort is in flight any more.
async fn abort_a_fetch(driver: &Driver, pair: &mut Pair, cursor: u32) -> Result<(), IoError<TablesError>> {
    let ended = aborted_fetch(driver, pair, cursor).await;
    driver.clock().sleep(Delay::from_ms(10)).await;
    ended
}

async fn aborted_fetch(driver: &Driver, pair: &mut Pair, cursor: u32) -> Result<(), IoError<TablesError>> {
    let (clock, aborting) = (driver.clock().clone(), driver.clone());
    driver.clock().spawn("abort", async move {
        clock.sleep(Delay::from_us(30)).await;
        for cid in 0..64 {
            let _ = aborting.admin(Abort { sqid: 1, cid }.sqe(0), byteway_host::Data::None).await;
        }
    });
    loop {
        let fetched = pair.tables.fetch(&mut pair.buffer, cursor).await?.0;
        if fetched.is_end {
            return Ok(());
        }
    }
}

// A result that is waited for must end with an abort and with a reset, at any moment of the program, and the drive must answer what comes
// next.
#[test]
fn a_filter_ends_in_the_middle() {
    driven(async |driver, powered| {
        let mut pair = pair(&driver).await;
        pair.load("numbers", &numbered(0, 5000)).await;
        let mut ended = 0;
        for moment in 0..30 {
            pair.install(0, &decide(&[jump(jump::GT, R3, 1800, REJECT)])).await;
            let cursor = begin(&mut pair).await;
            let aborted = abort_a_fetch(&driver, &mut pair, cursor).await;
            ended += u32::from(
                matches!(aborted, Err(IoError::Status(status)) if status.is(Status::ABORT_REQUESTED)),
            );
            pair.install(0, &slow()).await;
            let cursor = begin(&mut pair).await;
            let (clock, resetting) = (driver.clock().clone(), driver.clone());
            driver.clock().spawn("reset", async move {
                clock.sleep(Delay::from_us(moment * 7)).await;
                resetting.reset().await.unwrap();
            });
            let lost = loop {
                match pair.tables.fetch(&mut pair.buffer, cursor).await {
                    Ok((fetched, _)) if fetched.is_end => break Ok(()),
                    Ok(_) => {}
                    Err(error) => break Err(error),
                }
            };
            ended += u32::from(matches!(lost, Err(IoError::Lost(Lost::Reset) | IoError::Status(_))));
            driver.clock().sleep(Delay::from_ms(1)).await;
            works(&mut pair).await;
        }
        assert!(ended > 20, "{ended} were in flight");
        assert!(powered.drive.controller.is_quiet());
    });
}

// A drive without programs has no such form.
#[test]
fn a_drive_without_programs_has_no_filters() {
    use super::config;
    use byteway_host::DriverConfig;
    use byteway_testkit::SmallWorld;
    let mut config = config();
    config.namespaces.truncate(1);
    config.programs = None;
    SmallWorld::of(config).run_driven(DriverConfig::default(), async |driver: Driver, _: &PoweredDrive| {
        let mut pair = pair(&driver).await;
        pair.load("numbers", &numbered(0, 100)).await;
        let bytes = by_program(&["n"], &[], SQL).to_bytes();
        let refused = pair.tables.task(&mut pair.buffer, FILTERED, &bytes).await;
        assert!(matches!(refused, Err(IoError::Status(status)) if status.is(Status::INVALID_FIELD)));
        assert_eq!(pair.ask(Form::Sql.code(), SQL.as_bytes()).await.unwrap(), [["100"]]);
    });
}
