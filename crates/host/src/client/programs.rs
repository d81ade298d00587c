//! Client of the drive's programs and local memory ([`byteway_wire::nvme::programs`],
//! [`byteway_wire::nvme::slm`]).
//!
//! [`ProgramsClient`] loads, activates and executes programs of one namespace, and reads and writes memory
//! namespaces. Each call has at most one command in flight.
//!
//! What it does not do: it neither compiles nor verifies programs; the drive verifies them. It retries
//! nothing: a call whose command was lost returns an error.

use crate::carrier::{Carrier, TransferConfig};
use crate::driver::buffer::IoBuffer;
use crate::driver::controller::{Data, Driver};
use crate::driver::queue::{Pending, QueuePair, Request};
use crate::error::{DriverError, IoError, Lost};
use byteway_clock::SpanId;
use byteway_transfer::Rules;
use byteway_wire::nvme::programs::{
    ActivateProgram, EBPF, ExecuteProgram, ListHeader, LoadProgram, ManageRangeSets, MemoryRange,
    ProgramDescriptor,
};
use byteway_wire::nvme::slm::{BlocksRange, BytesRange, LocalMemoryOpcode, MemoryAccess, MemoryCopy};
use byteway_wire::nvme::{Cqe, Sqe, Status, lid};
use byteway_wire::{FromBytes, IntoBytes};
use std::cell::RefCell;

/// Maximum length of a program piece in one command, in bytes.
const PIECE_BYTES: usize = 4096;

/// Error of a [`ProgramsClient`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramsError {
    /// An admin command could not be carried out.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// An I/O command could not be carried out.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The drive completed a command with an error status.
    #[error("{what} failed: {status}")]
    Status {
        /// Name of the command.
        what: &'static str,
        /// Status of its completion.
        status: Status,
    },
    /// The drive stopped a program.
    #[error("the drive stopped the program at instruction {at}: {status}")]
    Stopped {
        /// The instruction, from 0.
        at: u32,
        /// Reason: a memory bound, or the limit of instructions.
        status: Status,
    },
    /// The checksum of the loaded program differs from that of the program sent.
    #[error("the drive's program has checksum {loaded:#010x}, expected {sent:#010x}")]
    Checksum {
        /// Checksum reported by the drive.
        loaded: u32,
        /// Checksum of the program sent.
        sent: u32,
    },
    /// A list is too long for one command.
    #[error("{count} {what} do not fit in one command (at most {most})")]
    TooMany {
        /// Name of the list's elements.
        what: &'static str,
        /// Number of elements.
        count: usize,
        /// Maximum number of elements.
        most: usize,
    },
}

/// Arguments of Execute Program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Execution<'a> {
    /// Program index.
    pub program: u16,
    /// Memory range set; 0 to use `ranges`.
    pub set: u16,
    /// Memory ranges for this execution only.
    pub ranges: &'a [MemoryRange],
    /// Parameters: the program receives their address in R1 and their length in R2.
    pub parameters: &'a [u8],
    /// The program receives these in R3 and R4.
    pub numbers: [u64; 2],
}

impl Execution<'_> {
    /// Data of the command: ranges, followed by parameters.
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

/// Client of a programs namespace, and of the memory namespaces of the same drive.
pub struct ProgramsClient {
    driver: Driver,
    carrier: Carrier,
    nsid: u32,
    /// Buffers not in use.
    buffers: RefCell<Vec<IoBuffer>>,
}

impl ProgramsClient {
    /// A client of namespace `nsid` with I/O commands on `queue`. Payloads of up to `bytes_max` bytes are
    /// transferred by `rules`, for which the queue must be enabled.
    pub fn new(driver: &Driver, queue: QueuePair, nsid: u32, rules: Rules, bytes_max: u32) -> Self {
        let carrier = Carrier::new(queue, &TransferConfig::<()>::new(rules, bytes_max));
        ProgramsClient { driver: driver.clone(), carrier, nsid, buffers: RefCell::default() }
    }

    /// Loads `program` at this index, piece by piece, and compares checksums.
    ///
    /// # Errors
    /// [`ProgramsError::Checksum`] if the drive received other bytes; otherwise the failed command.
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

    /// Searches the drive's Program List for programs with this identifier. Returns their indexes, and
    /// whether each is activated.
    ///
    /// # Errors
    /// [`ProgramsError`] if Get Log Page failed.
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

    /// Unloads the program at this index, complete or partly loaded.
    ///
    /// # Errors
    /// [`ProgramsError::Status`] if there is no program, or it is activated or running.
    pub async fn unload(&self, index: u16) -> Result<(), ProgramsError> {
        let command = LoadProgram { program: index, unload: true, ..LoadProgram::default() };
        self.admin("Load Program (unload)", command.sqe(0, self.nsid), &[]).await.map(drop)
    }

    /// Activates or deactivates a program.
    ///
    /// # Errors
    /// [`ProgramsError::Status`] if there is no program, too many are activated, or it is running.
    pub async fn activate(&self, index: u16, activate: bool) -> Result<(), ProgramsError> {
        let select = if activate { ActivateProgram::ACTIVATE } else { ActivateProgram::DEACTIVATE };
        let command = ActivateProgram { program: index, select };
        self.admin("Program Activation Management", command.sqe(0, self.nsid), &[]).await.map(drop)
    }

    /// Creates a memory range set. Returns its identifier.
    ///
    /// # Errors
    /// [`ProgramsError::TooMany`] for more than 255 ranges; [`ProgramsError::Status`] if the drive refuses
    /// it.
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

    /// Deletes a memory range set.
    ///
    /// # Errors
    /// [`ProgramsError::Status`] if it does not exist, or a program runs over it.
    pub async fn delete_set(&self, set: u16) -> Result<(), ProgramsError> {
        let command = ManageRangeSets { select: ManageRangeSets::DELETE, set, ranges: 0 };
        self.admin("Memory Range Set Management", command.sqe(0, self.nsid), &[]).await.map(drop)
    }

    /// Executes a program. Returns the program's return value.
    ///
    /// # Errors
    /// [`ProgramsError::Stopped`] if the drive stopped the program; otherwise the failed command.
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

    /// Submits an execution without data, for a caller that may abort it.
    ///
    /// # Errors
    /// [`Lost`] if it could not be submitted.
    pub async fn begin(&self, execution: &Execution<'_>) -> Result<Pending, Lost> {
        self.carrier.queue().submit(Request::from(execution.sqe(self.nsid, 0))).await
    }

    /// Writes `bytes` to a memory namespace at `start`.
    ///
    /// # Errors
    /// [`ProgramsError::Status`] if the extent is out of range or not aligned.
    pub async fn write(&self, nsid: u32, start: u64, bytes: &[u8]) -> Result<(), ProgramsError> {
        let access = MemoryAccess { start, bytes: bytes.len() as u32 };
        let sqe = access.sqe(LocalMemoryOpcode::MEMORY_WRITE, 0, nsid);
        checked("Memory Write", &self.send(sqe, bytes).await?)
    }

    /// Reads from a memory namespace at `start`.
    ///
    /// # Errors
    /// [`ProgramsError::Status`] if the extent is out of range or not aligned.
    pub async fn read(&self, nsid: u32, start: u64, into: &mut [u8]) -> Result<(), ProgramsError> {
        let bytes = into.len() as u32;
        let sqe = MemoryAccess { start, bytes }.sqe(LocalMemoryOpcode::MEMORY_READ, 0, nsid);
        let buffer = self.buffer()?;
        let cqe = self.carrier.receive(SpanId::NONE, sqe, &buffer, bytes).await?;
        let read = self.carrier.get(&buffer, into);
        // The buffer is reused only after a completion: the drive may write to it until then.
        self.buffers.borrow_mut().push(buffer);
        checked("Memory Read", &cqe)?;
        Ok(read?)
    }

    /// Zeroes bytes of a memory namespace.
    ///
    /// # Errors
    /// [`ProgramsError::Status`] if the extent is out of range or not aligned.
    pub async fn fill(&self, nsid: u32, start: u64, bytes: u32) -> Result<(), ProgramsError> {
        let sqe = MemoryAccess { start, bytes }.sqe(LocalMemoryOpcode::MEMORY_FILL, 0, nsid);
        checked("Memory Fill", &self.send(sqe, &[]).await?)
    }

    /// Copies blocks of other namespaces, `bytes` in total, into a memory namespace at `to`.
    ///
    /// # Errors
    /// [`ProgramsError::TooMany`] unless there are 1 to 256 ranges; [`ProgramsError::Status`] if a range is
    /// unreadable or the destination out of range.
    pub async fn copy_blocks(
        &self,
        nsid: u32,
        to: u64,
        bytes: u64,
        from: &[BlocksRange],
    ) -> Result<(), ProgramsError> {
        self.copy(nsid, to, bytes, MemoryCopy::BLOCKS, (from.len(), from.as_bytes())).await
    }

    /// Copies bytes of memory namespaces into a memory namespace at `to`.
    ///
    /// # Errors
    /// [`ProgramsError::TooMany`] unless there are 1 to 256 ranges; [`ProgramsError::Status`] if a range is
    /// out of range or overlaps the destination.
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

    /// Executes an admin command. Returns dword 0 of its completion.
    async fn admin(&self, what: &'static str, sqe: Sqe, data: &[u8]) -> Result<u32, ProgramsError> {
        let data = if data.is_empty() { Data::None } else { Data::Out(data) };
        let cqe = self.driver.admin(sqe, data).await?;
        checked(what, &cqe)?;
        Ok(cqe.dw0)
    }

    /// Executes an I/O command with this data.
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
