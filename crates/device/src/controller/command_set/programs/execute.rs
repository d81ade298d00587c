//! Execute Program: runs in slices, so that a long run delays no other command and can be aborted.
//!
//! Arguments of a program: R1 address of the parameters in the data, R2 their length in bytes, R3 and R4 the
//! two parameters of the command, R5 the number of memory ranges. [`byteway_program::memory`] gives the
//! addresses of ranges. Ranges of a write-protected namespace are read-only.
//!
//! Stores of a slice take effect when the slice begins; its core time passes afterwards. Stores of an aborted
//! run remain. Memory is not locked: the host may read and write it during a run.

use crate::config::{CommandSet, Defect, ProgramsPolicy};
use crate::controller::command::context::{Context, Reply};
use crate::controller::command::workspace::{Landing, Workspace};
use crate::controller::command_set::programs::table::{Run, SetRange, Table};
use crate::controller::command_set::slm::memory::{LocalMemory, memory_of};
use crate::controller::core::Core;
use crate::controller::namespace::Namespace;
use byteway_clock::Delay;
use byteway_defect::Planted;
use byteway_firmware::WorkKind;
use byteway_program::memory::{PARAMETERS, range_of};
use byteway_program::{Denied, Machine, Memory, Progress, Trap, TrapCause};
use byteway_wire::nvme::Status;
use byteway_wire::nvme::programs::{ExecuteProgram, MemoryRange};
use byteway_wire::nvme::slm::GRANULARITY;
use std::rc::Rc;

const INVALID_FIELD: Status = Status::INVALID_FIELD.with_dnr();
/// Instructions between two checks for an abort.
pub(crate) const SLICE: u64 = 10_000;

/// A memory range of a run. Holds its namespace until the run ends.
struct Reached {
    _namespace: Rc<Namespace>,
    memory: Rc<LocalMemory>,
    start: u64,
    bytes: u32,
    is_writable: bool,
}

/// Memory of a run: parameters and ranges.
struct RunMemory<'a> {
    parameters: &'a [u8],
    ranges: Vec<Reached>,
    defect: Planted<Defect>,
}

impl RunMemory<'_> {
    /// The range that contains these bytes, and their offset in its memory.
    fn find(&self, address: u64, bytes: usize) -> Result<(&Reached, u64), Denied> {
        let (index, offset) = range_of(address).ok_or(Denied::OutOfRange)?;
        let range = self.ranges.get(index as usize).ok_or(Denied::OutOfRange)?;
        let end = u64::from(offset) + bytes as u64;
        if end > range.bytes.into() {
            return Err(Denied::OutOfRange);
        }
        Ok((range, range.start + u64::from(offset)))
    }

    fn parameters(&self, address: u64, bytes: usize) -> Option<&[u8]> {
        let from = address as u32 as usize;
        (address >> 32 == PARAMETERS >> 32).then(|| self.parameters.get(from..from + bytes))?
    }
}

impl Memory for RunMemory<'_> {
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), Denied> {
        if let Some(part) = self.parameters(address, into.len()) {
            into.copy_from_slice(part);
            return Ok(());
        }
        let (range, at) = self.find(address, into.len())?;
        range.memory.read(at, into);
        Ok(())
    }

    fn store(&mut self, address: u64, bytes: &[u8]) -> Result<(), Denied> {
        if self.parameters(address, bytes.len()).is_some() {
            return Err(Denied::ReadOnly);
        }
        let (range, at) = self.find(address, bytes.len())?;
        if !range.is_writable {
            return Err(Denied::ReadOnly);
        }
        if self.defect.has(Defect::LoseStore)
            && at + bytes.len() as u64 == range.start + u64::from(range.bytes)
        {
            return Ok(());
        }
        range.memory.write(at, bytes);
        Ok(())
    }

    fn range_bytes(&self, index: u32) -> Option<u64> {
        Some(self.ranges.get(index as usize)?.bytes.into())
    }
}

/// Charges a slice of a run to a core, when one of the slots for slices is free. Returns the time spent
/// waiting for the core. Yields even if modelled time does not pass, so that other tasks run.
pub(crate) async fn spend(core: &Core, run: &Run, weight: u64) -> Delay {
    let queued = {
        let _turn = run.turns().acquire(1).await;
        core.placement.run(WorkKind::Program, weight).await.queued
    };
    core.clock.yield_now().await;
    queued
}

/// Executes an Execute Program.
pub(crate) async fn execute(
    context: &Context<'_>,
    workspace: &mut Workspace,
    table: &Rc<Table>,
) -> Result<Reply, Status> {
    let core = context.core;
    let policy = core.config.programs.as_ref().ok_or(Status::INVALID_OPCODE.with_dnr())?;
    let command = ExecuteProgram::parse(context.sqe);
    let run = table.begin(command.program, command.set)?;
    let of_ranges = check_data(core, policy, &command)?;
    workspace.bytes.clear();
    if command.bytes > 0 {
        context.bring(workspace, command.bytes.into(), Landing::Dram).await?;
    }
    let (ranges, parameters) = workspace.bytes.split_at(of_ranges.min(workspace.bytes.len()));
    let ranges = match command.set {
        0 => set_of(core, policy, MemoryRange::parse_list(ranges))?,
        _ => run.ranges.to_vec(),
    };
    let ranges = ranges.iter().map(|range| reach(core, range)).collect::<Result<Vec<_>, _>>()?;
    let [first, second] = command.parameters;
    let arguments = [PARAMETERS, parameters.len() as u64, first, second, ranges.len() as u64];
    let mut memory = RunMemory { parameters, ranges, defect: policy.defect };
    let mut machine = Machine::new(arguments);
    let ended = loop {
        let before = machine.counts();
        let slice = SLICE.min(policy.fuel - before.all());
        let progress = machine.proceed(&run.code, &mut memory, slice);
        let weight = policy.weights.of(&machine.counts().since(&before));
        let queued = spend(core, &run, weight).await;
        context.charge_firmware(queued);
        context.check()?;
        match progress {
            Ok(Progress::Ended(r0)) => break Ok(r0),
            Ok(Progress::Paused) if machine.counts().all() < policy.fuel => {}
            Ok(Progress::Paused) => break Err(machine.trap(TrapCause::OutOfFuel)),
            Err(trap) => break Err(trap),
        }
    };
    drop(memory);
    match ended {
        Ok(r0) => Ok(Reply::Done([r0 as u32, (r0 >> 32) as u32])),
        Err(trap) => Err(stopped(workspace, trap)),
    }
}

/// Status of a stopped run. Its instruction and address go to the completion and the error log.
fn stopped(workspace: &mut Workspace, trap: Trap) -> Status {
    workspace.failed_dword = trap.at;
    match trap.cause {
        TrapCause::OutOfRange { address, .. } | TrapCause::ReadOnly { address, .. } => {
            workspace.failed_information = address;
            Status::PROGRAM_TRAP.with_dnr()
        }
        TrapCause::OutOfFuel => Status::PROGRAM_OUT_OF_FUEL.with_dnr(),
        TrapCause::Answer(_) => Status::PROGRAM_TRAP.with_dnr(),
    }
}

/// Checks lengths and counts of the command. Returns the number of data bytes that are ranges.
fn check_data(core: &Core, policy: &ProgramsPolicy, command: &ExecuteProgram) -> Result<usize, Status> {
    if command.bytes > core.config.controller.transfer_bytes_max || command.ranges > 0 && command.set != 0 {
        return Err(INVALID_FIELD);
    }
    if command.ranges > policy.ranges_max.into() {
        return Err(Status::MEMORY_RANGES_EXCEEDED.with_dnr());
    }
    let bytes = command.ranges as usize * MemoryRange::SIZE;
    if bytes <= command.bytes as usize { Ok(bytes) } else { Err(INVALID_FIELD) }
}

/// Checks ranges and forms a set of them.
pub(crate) fn set_of(
    core: &Core,
    policy: &ProgramsPolicy,
    ranges: impl ExactSizeIterator<Item = MemoryRange>,
) -> Result<Vec<SetRange>, Status> {
    if ranges.len() > usize::from(policy.ranges_max) {
        return Err(Status::MEMORY_RANGES_EXCEEDED.with_dnr());
    }
    let mut set: Vec<SetRange> = Vec::new();
    for range in ranges {
        let unusable = Status::INVALID_MEMORY_NAMESPACE.with_dnr();
        let namespace = core.inventory.active(range.nsid).map_err(|_| unusable)?;
        if namespace.set != CommandSet::LocalMemory {
            return Err(unusable);
        }
        let granularity = u64::from(GRANULARITY);
        let fits = range.start.checked_add(range.bytes.into()).is_some_and(|end| end <= bytes_of(&namespace))
            && range.start.is_multiple_of(granularity)
            && u64::from(range.bytes).is_multiple_of(granularity);
        if !fits || range.bytes == 0 {
            return Err(Status::INVALID_MEMORY_RANGE_SET.with_dnr());
        }
        let end = range.start + u64::from(range.bytes);
        let overlaps = |SetRange { range: other, .. }: &SetRange| {
            other.nsid == range.nsid
                && other.start < end
                && range.start < other.start + u64::from(other.bytes)
        };
        if set.iter().any(overlaps) {
            return Err(Status::OVERLAPPING_MEMORY_RANGES.with_dnr());
        }
        set.push(SetRange { range, uid: namespace.uid });
    }
    Ok(set)
}

fn bytes_of(namespace: &Namespace) -> u64 {
    memory_of(namespace).map_or(0, |memory| memory.bytes())
}

/// Memory of a range, if the namespace that the set was created for still exists.
fn reach(core: &Core, SetRange { range, uid }: &SetRange) -> Result<Reached, Status> {
    let unusable = Status::INVALID_MEMORY_NAMESPACE.with_dnr();
    let namespace = core.inventory.active(range.nsid).map_err(|_| unusable)?;
    if namespace.uid != *uid {
        return Err(unusable);
    }
    let namespace = core.namespace(range.nsid)?; // fails while the namespace takes no commands
    let memory = memory_of(&namespace).ok_or(unusable)?;
    // A format may have made the namespace smaller.
    if !memory.holds(range.start, range.bytes.into()) {
        return Err(Status::INVALID_MEMORY_RANGE_SET.with_dnr());
    }
    let is_writable = namespace.check_writable().is_ok();
    Ok(Reached { _namespace: namespace, memory, start: range.start, bytes: range.bytes, is_writable })
}
