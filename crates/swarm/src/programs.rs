//! Operations on local memory and programs. They are serialized, as those on tables are, so that the expected state is known at any time,
//! or at least which bytes and slots are unknown.

use super::plan::{Extent, MemoryVerb, Op, ProgramVerb};
use super::programs_oracle::{self as oracle, ProgramsOracle, Slot, wrong};
use byteway_clock::Semaphore;
use byteway_host::{
    AnyIoError, Driver, DriverError, Execution, IoError, ProgramsClient, ProgramsError, QueuePair, Rules,
};
use byteway_program::TrapCause;
use byteway_program::assemble::assemble;
use byteway_transfer::Method;
use byteway_wire::nvme::Status;
use byteway_wire::nvme::programs::MemoryRange;

/// Unit of an extent of memory, in bytes.
const WORD: u64 = 4;
/// Upper limit of an operation in words.
const WORDS_MAX: u32 = 8192;

/// A client for the drive's programs, on a queue.
pub(super) fn client(driver: &Driver, queue: &QueuePair, oracle: &ProgramsOracle) -> ProgramsClient {
    ProgramsClient::new(driver, queue.clone(), oracle.nsid, Rules::only(Method::Prp), 4 * WORDS_MAX + 4096)
}

/// Limits an extent (in words) to the memory: start and length in bytes.
fn fit(oracle: &ProgramsOracle, extent: &Extent) -> (u64, u64) {
    let words = oracle.bytes() / WORD;
    let first = extent.lba % words;
    let count = u64::from(extent.blocks.min(WORDS_MAX)).min(words - first);
    (first * WORD, count * WORD)
}

fn failed(error: ProgramsError) -> AnyIoError {
    match error {
        ProgramsError::Io(error) => error.of_client(),
        ProgramsError::Driver(DriverError::Lost { lost, .. } | DriverError::Gone(lost)) => {
            IoError::Lost(lost)
        }
        ProgramsError::Driver(DriverError::Status { status, .. })
        | ProgramsError::Status { status, .. }
        | ProgramsError::Stopped { status, .. } => IoError::Status(status),
        other => wrong(other.to_string()),
    }
}

/// Whether a command on a slot of unknown state was refused because the slot is empty.
fn is_nothing(error: &ProgramsError) -> bool {
    let of = |status: Status| status.is(Status::NO_PROGRAM) || status.is(Status::INVALID_PROGRAM_DATA);
    matches!(error, ProgramsError::Status { status, .. } if of(*status))
}

/// Performs an operation on memory or programs. `may_store`: programs may write, which ends at the drive's end of life.
pub(super) async fn perform(
    turn: &Semaphore,
    oracle: &ProgramsOracle,
    client: &ProgramsClient,
    op: &Op,
    may_store: &dyn Fn() -> bool,
) -> Result<(), AnyIoError> {
    let _turn = turn.acquire(1).await;
    match op {
        Op::Memory { extent, verb } => memory(oracle, client, fit(oracle, extent), *verb).await,
        Op::Program { slot, verb } => match verb {
            ProgramVerb::Load(kind) => load(oracle, client, *slot, *kind).await,
            ProgramVerb::Unload => unload(oracle, client, *slot).await,
            ProgramVerb::Execute { extent, number } => {
                let part = fit(oracle, extent);
                execute(oracle, client, *slot, (part, *number), may_store).await
            }
        },
        _ => Ok(()),
    }
}

async fn memory(
    oracle: &ProgramsOracle,
    client: &ProgramsClient,
    (start, bytes): (u64, u64),
    verb: MemoryVerb,
) -> Result<(), AnyIoError> {
    let nsid = oracle.memory_nsid;
    match verb {
        MemoryVerb::Read => read(oracle, client, (start, bytes)).await.map(drop),
        MemoryVerb::Write(seed) => {
            let of = |at| (u64::from(seed).wrapping_add(at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
            let data: Vec<u8> = (start..start + bytes).map(of).collect();
            oracle.forget_bytes(start, bytes);
            client.write(nsid, start, &data).await.map_err(failed)?;
            oracle.set_bytes(start, &data);
            Ok(())
        }
        MemoryVerb::Fill => {
            oracle.forget_bytes(start, bytes);
            client.fill(nsid, start, bytes as u32).await.map_err(failed)?;
            oracle.set_bytes(start, &vec![0; bytes as usize]);
            Ok(())
        }
    }
}

/// Reads and verifies.
async fn read(
    oracle: &ProgramsOracle,
    client: &ProgramsClient,
    (start, bytes): (u64, u64),
) -> Result<Vec<u8>, AnyIoError> {
    let mut found = vec![0; bytes as usize];
    client.read(oracle.memory_nsid, start, &mut found).await.map_err(failed)?;
    oracle.settle(start, &found)?;
    Ok(found)
}

/// Empties a slot, so that its state is known.
async fn empty(oracle: &ProgramsOracle, client: &ProgramsClient, slot: u16) -> Result<(), AnyIoError> {
    let was = oracle.slot(slot);
    oracle.set_slot(slot, Slot::Unknown);
    if was != Slot::Empty {
        for result in [client.activate(slot, false).await, client.unload(slot).await] {
            match result {
                Err(error) if was == Slot::Unknown && is_nothing(&error) => {}
                result => result.map_err(failed)?,
            }
        }
    }
    oracle.set_slot(slot, Slot::Empty);
    Ok(())
}

async fn load(
    oracle: &ProgramsOracle,
    client: &ProgramsClient,
    slot: u16,
    kind: u8,
) -> Result<(), AnyIoError> {
    empty(oracle, client, slot).await?;
    oracle.set_slot(slot, Slot::Unknown);
    let code = assemble(&oracle::instructions(kind));
    client.load(slot, kind.into(), &code).await.map_err(failed)?;
    client.activate(slot, true).await.map_err(failed)?;
    oracle.set_slot(slot, Slot::Loaded(kind));
    Ok(())
}

async fn unload(oracle: &ProgramsOracle, client: &ProgramsClient, slot: u16) -> Result<(), AnyIoError> {
    if oracle.slot(slot) != Slot::Empty {
        return empty(oracle, client, slot).await;
    }
    match client.unload(slot).await {
        Err(error) if is_nothing(&error) => {
            oracle.verified.set(oracle.verified.get() + 1);
            Ok(())
        }
        Err(error) => Err(failed(error)),
        Ok(()) => Err(wrong(format!("slot {slot} had a program although none was loaded"))),
    }
}

async fn execute(
    oracle: &ProgramsOracle,
    client: &ProgramsClient,
    slot: u16,
    ((start, bytes), number): ((u64, u64), u32),
    may_store: &dyn Fn() -> bool,
) -> Result<(), AnyIoError> {
    let ranges = [MemoryRange::new(oracle.memory_nsid, start, bytes as u32)];
    let parameters = u64::from(number).to_le_bytes();
    let execution = Execution {
        program: slot,
        set: 0,
        ranges: &ranges,
        parameters: &parameters,
        numbers: [number.into(), 0],
    };
    let kind = match oracle.slot(slot) {
        Slot::Unknown => return Ok(()),
        Slot::Empty => {
            return match client.execute(&execution).await {
                Err(error) if is_nothing(&error) => Ok(()),
                Err(error) => Err(failed(error)),
                Ok(_) => Err(wrong(format!("slot {slot} was executed although it is empty"))),
            };
        }
        Slot::Loaded(kind) => kind,
    };
    let mut there = match oracle.known_bytes(start, bytes) {
        Some(bytes) => bytes,
        None => read(oracle, client, (start, bytes)).await?,
    };
    let expected = oracle::run(kind, &mut there, number);
    // An aborted execution may have stored some of its results.
    oracle.forget_bytes(start, bytes);
    let found = client.execute(&execution).await;
    let is_right = match (&found, &expected) {
        (Ok(found), Ok(expected)) => found == expected,
        (Err(ProgramsError::Stopped { at, status }), Err(trap)) => {
            let of_fuel = trap.cause == TrapCause::OutOfFuel;
            *at == trap.at
                && status.is(if of_fuel { Status::PROGRAM_OUT_OF_FUEL } else { Status::PROGRAM_TRAP })
        }
        (Ok(_), Err(_)) | (Err(ProgramsError::Stopped { .. }), Ok(_)) => false,
        (Err(_), _) => return found.map(drop).map_err(failed),
    };
    if !may_store() {
        return Ok(()); // at the end of life it is stopped at its first store
    }
    if !is_right {
        return Err(wrong(format!(
            "program {kind} over {start}+{bytes} returned {found:?} instead of {expected:?}"
        )));
    }
    oracle.set_bytes(start, &there);
    oracle.verified.set(oracle.verified.get() + 1);
    Ok(())
}

/// Reads that cover all of the memory.
pub(super) fn reads(oracle: &ProgramsOracle) -> impl Iterator<Item = Op> {
    let words = oracle.bytes() / WORD;
    (0..words).step_by(WORDS_MAX as usize).map(|first| {
        let extent = Extent { lba: first, blocks: WORDS_MAX };
        Op::Memory { extent, verb: MemoryVerb::Read }
    })
}
