//! Programs that a drive runs for this host, and its local memory ([`byteway_wire::nvme::programs`], [`byteway_wire::nvme::slm`]).
//!
//! [`ProgramsClient`] loads, activates and executes programs of one namespace, and reads and writes memory namespaces, by one command at a time
//! for each of its calls.
//!
//! What it does not do: it compiles nothing, and checks no program: the drive does. It repeats nothing: a call whose command was lost says so.

use crate::buffer::IoBuffer;
use crate::carrier::{Carrier, TransferConfig};
use crate::driver::{Data, Driver};
use crate::error::{DriverError, IoError, Lost};
use crate::queue::{Pending, QueuePair, Request};
use byteway_clock::SpanId;
use byteway_transfer::Rules;
use byteway_wire::nvme::programs::{
    ActivateProgram, EBPF, ExecuteProgram, ListHeader, LoadProgram, ManageRangeSets, MemoryRange,
    ProgramDescriptor,
};
use byteway_wire::nvme::slm::{BlocksRange, BytesRange, MemoryAccess, MemoryCopy};
use byteway_wire::nvme::{Cqe, LocalMemoryOpcode, Sqe, Status, lid};
use byteway_wire::{FromBytes, IntoBytes};
use std::cell::RefCell;

/// Bytes of a program in one command.
const PIECE_BYTES: usize = 4096;

/// Why the drive did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramsError {
    /// An admin command could not be carried out.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// An I/O command could not be carried out.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The drive refused a command, or gave it up.
    #[error("{what} failed: {status}")]
    Status {
        /// Which command.
        what: &'static str,
        /// How.
        status: Status,
    },
    /// The drive stopped a program.
    #[error("the drive stopped the program at instruction {at}: {status}")]
    Stopped {
        /// The instruction, from 0.
        at: u32,
        /// Why: out of its bounds, or of its limit of instructions.
        status: Status,
    },
    /// What the drive has loaded is not what was sent.
    #[error("the drive's program has the checksum {loaded:#010x}, and {sent:#010x} was sent")]
    Checksum {
        /// Of what the drive has.
        loaded: u32,
        /// Of what was sent.
        sent: u32,
    },
    /// A list is longer than a command can say.
    #[error("{count} {what} are more than one command can have ({most})")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        count: usize,
        /// The most.
        most: usize,
    },
}

/// What a program is executed with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Execution<'a> {
    /// Program index.
    pub program: u16,
    /// Memory range set; 0: `ranges`.
    pub set: u16,
    /// Memory ranges of this execution alone.
    pub ranges: &'a [MemoryRange],
    /// What the program finds at the address in R1, R2 bytes long.
    pub parameters: &'a [u8],
    /// What the program finds in R3 and R4.
    pub numbers: [u64; 2],
}

impl Execution<'_> {
    /// The data of the command: ranges, then parameters.
    fn data(&self) -> Vec<u8> {
        let mut data = self.ranges.as_bytes().to_vec();
        data.extend_from_slice(self.parameters);
        data
    }

    fn sqe(&self, nsid: u32, bytes: usize) -> Sqe {
        let command = ExecuteProgram {
            program: self.program,
            set: self.set,
            ranges: self.ranges.len() as u32,
            bytes: bytes as u32,
            parameters: self.numbers,
        };
        command.sqe(0, nsid)
    }
}

/// A namespace of programs, and the memory namespaces of the same drive.
pub struct ProgramsClient {
    driver: Driver,
    carrier: Carrier,
    nsid: u32,
    /// Buffers that no call uses now.
    buffers: RefCell<Vec<IoBuffer>>,
}

impl ProgramsClient {
    /// For namespace `nsid`, with I/O commands over `queue`, whose payloads of up to `bytes_max` bytes go by `rules`; the queue has been
    /// enabled for these.
    pub fn new(driver: &Driver, queue: QueuePair, nsid: u32, rules: Rules, bytes_max: u32) -> Self {
        let carrier = Carrier::new(queue, &TransferConfig::<()>::new(rules, bytes_max));
        ProgramsClient { driver: driver.clone(), carrier, nsid, buffers: RefCell::default() }
    }

    /// Loads `program` as the one with this index, piece by piece, and compares checksums.
    ///
    /// # Errors
    /// The drive refuses it, or has got something else.
    pub async fn load(&self, index: u16, identifier: u64, program: &[u8]) -> Result<(), ProgramsError> {
        let mut loaded = 0;
        for (piece, bytes) in program.chunks(PIECE_BYTES).enumerate() {
            let command = LoadProgram {
                program: index,
                kind: EBPF,
                unload: false,
                identifier_kind: 1,
                identifier,
                program_bytes: u32::try_from(program.len()).unwrap_or(u32::MAX),
                bytes: bytes.len() as u32,
                offset: (piece * PIECE_BYTES) as u32,
            };
            loaded = self.admin("Load Program", command.sqe(0, self.nsid), bytes).await?;
        }
        let sent = crc32c::crc32c(program);
        if loaded == sent { Ok(()) } else { Err(ProgramsError::Checksum { loaded, sent }) }
    }

    /// The programs with this identifier that the drive's Program List has: index, and whether it is activated.
    ///
    /// # Errors
    /// The drive does not answer.
    pub async fn find(&self, identifier: u64) -> Result<Vec<(u16, bool)>, ProgramsError> {
        const ENTRY: usize = size_of::<ProgramDescriptor>();
        let mut header = [0; ENTRY];
        self.read_list(&mut header).await?;
        let count = ListHeader::read_from_bytes(&header).map_or(0, |header| header.count);
        let count = count.min(u32::from(u16::MAX)) as usize;
        let mut list = vec![0; ENTRY * (1 + count)];
        self.read_list(&mut list).await?;
        let of = |(index, bytes): (usize, &[u8])| {
            let program = ProgramDescriptor::read_from_bytes(bytes).ok()?;
            let is_ours =
                program.state & 0b11 == ProgramDescriptor::DOWNLOADED && program.identifier == identifier;
            is_ours.then_some((index as u16, program.state & ProgramDescriptor::ACTIVATED != 0))
        };
        Ok(list.chunks_exact(ENTRY).skip(1).enumerate().filter_map(of).collect())
    }

    async fn read_list(&self, into: &mut [u8]) -> Result<(), ProgramsError> {
        let cqe = self.driver.log_page(lid::PROGRAMS, self.nsid, true, into).await?;
        checked("Get Log Page", &cqe)
    }

    /// Takes the program with this index, or what is loaded of it.
    ///
    /// # Errors
    /// There is none, or it is activated.
    pub async fn unload(&self, index: u16) -> Result<(), ProgramsError> {
        let command = LoadProgram { program: index, unload: true, ..LoadProgram::default() };
        self.admin("Load Program (unload)", command.sqe(0, self.nsid), &[]).await.map(drop)
    }

    /// Makes a program executable, or not any more.
    ///
    /// # Errors
    /// There is none, too many are, or it runs.
    pub async fn activate(&self, index: u16, activate: bool) -> Result<(), ProgramsError> {
        let select = if activate { ActivateProgram::ACTIVATE } else { ActivateProgram::DEACTIVATE };
        let command = ActivateProgram { program: index, select };
        self.admin("Program Activation Management", command.sqe(0, self.nsid), &[]).await.map(drop)
    }

    /// Makes a memory range set; gives its identifier.
    ///
    /// # Errors
    /// The drive can't have it.
    pub async fn create_set(&self, ranges: &[MemoryRange]) -> Result<u16, ProgramsError> {
        let count = u8::try_from(ranges.len()).map_err(|_| ProgramsError::TooMany {
            what: "memory ranges",
            count: ranges.len(),
            most: 255,
        })?;
        let command = ManageRangeSets { select: ManageRangeSets::CREATE, set: 0, ranges: count };
        let sqe = command.sqe(0, self.nsid);
        Ok(self.admin("Memory Range Set Management", sqe, ranges.as_bytes()).await? as u16)
    }

    /// Takes a memory range set.
    ///
    /// # Errors
    /// There is none, or a program runs over it.
    pub async fn delete_set(&self, set: u16) -> Result<(), ProgramsError> {
        let command = ManageRangeSets { select: ManageRangeSets::DELETE, set, ranges: 0 };
        self.admin("Memory Range Set Management", command.sqe(0, self.nsid), &[]).await.map(drop)
    }

    /// Executes a program; gives what it returns.
    ///
    /// # Errors
    /// The drive refuses it, or stops the program.
    pub async fn execute(&self, execution: &Execution<'_>) -> Result<u64, ProgramsError> {
        let data = execution.data();
        let cqe = self.send(execution.sqe(self.nsid, data.len()), &data).await?;
        match cqe.status() {
            status if status.is_success() => Ok(u64::from(cqe.dw0) | u64::from(cqe.dw1) << 32),
            status if status.is(Status::PROGRAM_TRAP) || status.is(Status::PROGRAM_OUT_OF_FUEL) => {
                Err(ProgramsError::Stopped { at: cqe.dw0, status })
            }
            status => Err(ProgramsError::Status { what: "Execute Program", status }),
        }
    }

    /// Begins an execution without data, for a caller that wants to abort it.
    ///
    /// # Errors
    /// It could not be submitted.
    pub async fn begin(&self, execution: &Execution<'_>) -> Result<Pending, Lost> {
        self.carrier.queue().submit(Request::from(execution.sqe(self.nsid, 0))).await
    }

    /// Writes `bytes` to a memory namespace.
    ///
    /// # Errors
    /// They don't lie in it.
    pub async fn write(&self, nsid: u32, start: u64, bytes: &[u8]) -> Result<(), ProgramsError> {
        let access = MemoryAccess { start, bytes: bytes.len() as u32 };
        let sqe = access.sqe(LocalMemoryOpcode::MEMORY_WRITE, 0, nsid);
        checked("Memory Write", &self.send(sqe, bytes).await?)
    }

    /// Reads from a memory namespace.
    ///
    /// # Errors
    /// They don't lie in it.
    pub async fn read(&self, nsid: u32, start: u64, into: &mut [u8]) -> Result<(), ProgramsError> {
        let bytes = into.len() as u32;
        let sqe = MemoryAccess { start, bytes }.sqe(LocalMemoryOpcode::MEMORY_READ, 0, nsid);
        let buffer = self.buffer()?;
        let cqe = self.carrier.receive(SpanId::NONE, sqe, &buffer, bytes).await?;
        let read = self.carrier.get(&buffer, into);
        // Kept only when the command has completed: until then the drive may write it.
        self.buffers.borrow_mut().push(buffer);
        checked("Memory Read", &cqe)?;
        Ok(read?)
    }

    /// Makes zeroes of bytes of a memory namespace.
    ///
    /// # Errors
    /// They don't lie in it.
    pub async fn fill(&self, nsid: u32, start: u64, bytes: u32) -> Result<(), ProgramsError> {
        let sqe = MemoryAccess { start, bytes }.sqe(LocalMemoryOpcode::MEMORY_FILL, 0, nsid);
        checked("Memory Fill", &self.send(sqe, &[]).await?)
    }

    /// Copies blocks of other namespaces, `bytes` in all, into a memory namespace.
    ///
    /// # Errors
    /// They can't be read, or don't fit.
    pub async fn copy_blocks(
        &self,
        nsid: u32,
        to: u64,
        bytes: u64,
        from: &[BlocksRange],
    ) -> Result<(), ProgramsError> {
        self.copy(nsid, to, bytes, MemoryCopy::BLOCKS, (from.len(), from.as_bytes())).await
    }

    /// Copies bytes of memory namespaces.
    ///
    /// # Errors
    /// They don't lie there, or don't fit.
    pub async fn copy_bytes(&self, nsid: u32, to: u64, from: &[BytesRange]) -> Result<(), ProgramsError> {
        let bytes = from.iter().map(|range| u64::from(range.bytes)).sum();
        self.copy(nsid, to, bytes, MemoryCopy::BYTES, (from.len(), from.as_bytes())).await
    }

    async fn copy(
        &self,
        nsid: u32,
        to: u64,
        bytes: u64,
        format: u8,
        (count, list): (usize, &[u8]),
    ) -> Result<(), ProgramsError> {
        let too_many = ProgramsError::TooMany { what: "source ranges", count, most: 256 };
        let ranges_z = count.checked_sub(1).and_then(|z| u8::try_from(z).ok()).ok_or(too_many)?;
        let command = MemoryCopy { to, bytes, ranges_z, format };
        checked("Memory Copy", &self.send(command.sqe(0, nsid), list).await?)
    }

    /// Carries out an admin command; gives dword 0 of its completion.
    async fn admin(&self, what: &'static str, sqe: Sqe, data: &[u8]) -> Result<u32, ProgramsError> {
        let data = if data.is_empty() { Data::None } else { Data::Out(data) };
        let cqe = self.driver.admin(sqe, data).await?;
        checked(what, &cqe)?;
        Ok(cqe.dw0)
    }

    /// Carries out an I/O command with this data.
    async fn send(&self, sqe: Sqe, data: &[u8]) -> Result<Cqe, ProgramsError> {
        if data.is_empty() {
            return Ok(self.carrier.queue().execute(Request::from(sqe)).await.map_err(IoError::Lost)?);
        }
        let buffer = self.buffer()?;
        self.carrier.put(&buffer, data)?;
        let cqe = self.carrier.send(SpanId::NONE, sqe, &buffer, data.len() as u32).await?;
        self.buffers.borrow_mut().push(buffer);
        Ok(cqe)
    }

    fn buffer(&self) -> Result<IoBuffer, IoError> {
        let kept = self.buffers.borrow_mut().pop();
        kept.map_or_else(|| self.carrier.buffer(), Ok)
    }
}

fn checked(what: &'static str, cqe: &Cqe) -> Result<(), ProgramsError> {
    match cqe.status() {
        status if status.is_success() => Ok(()),
        status => Err(ProgramsError::Status { what, status }),
    }
}
