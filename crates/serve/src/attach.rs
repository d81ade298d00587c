//! The host's end of an attachment: register accesses as messages, doorbells and host memory as memory shared
//! with the process that serves the drive.

use crate::function::REGION_BAR0;
use crate::vfio_user::client::{Client, ClientError};
use byteway_clock::Clock;
use byteway_host::{Port, Registers};
use byteway_link::Memory;
use byteway_link::memory::{Access, Backing, MapError, Mapped, PAGE_BYTES};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io;
use std::path::Path;
use std::rc::Rc;

/// Base address of this host's memory in the device's address space: above 4 GiB, as most of a real host's
/// memory is.
const BASE: u64 = 0x1_0000_0000;

/// Error of [`Attachment::connect`].
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The vfio-user connection failed or was refused.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The system could not allocate the memory to share.
    #[error("{bytes} bytes of memory cannot be shared with the device")]
    Memory {
        /// Requested size in bytes.
        bytes: u64,
        /// Error of the system.
        source: io::Error,
    },
    /// The doorbells cannot be mapped.
    #[error("the device's doorbells cannot be mapped: {0}")]
    Doorbells(MapError),
}

/// A device served by another process, with memory that both processes share.
pub struct Attachment {
    client: Rc<Client>,
    doorbells: Option<Memory>,
    memory: Memory,
}

/// Register access by messages.
struct ByMessage(Rc<Client>);

impl Registers for ByMessage {
    fn read(&self, offset: u64, bytes: u32) -> u64 {
        let mut value = [0; 8];
        match self.0.region_read(REGION_BAR0, offset, &mut value[..bytes as usize]) {
            Ok(()) => u64::from_le_bytes(value),
            Err(_) => u64::MAX, // reads as all ones, as an empty slot does: the driver reports that the device is gone
        }
    }

    fn write(&self, offset: u64, value: u64, bytes: u32) {
        // A post fails only if the server is gone; the next read reports that.
        let _ = self.0.region_post(REGION_BAR0, offset, &value.to_le_bytes()[..bytes as usize]);
    }

    fn store(&self, offset: u64, bytes: &[u8]) {
        let parts = (offset..).step_by(self.0.data_bytes_max()).zip(bytes.chunks(self.0.data_bytes_max()));
        for (offset, part) in parts {
            // A refused write, or one lost with the server, makes the command that names these bytes fail.
            let _ = self.0.region_write(REGION_BAR0, offset, part);
        }
    }
}

impl Attachment {
    /// Attaches to the device at `path`, a socket or the directory that holds one named `cntrl`, and shares
    /// `bytes` of memory with it, rounded up to whole pages.
    ///
    /// # Errors
    /// No server listens at `path`, another host is attached, or the system has no memory.
    pub fn connect(path: &Path, bytes: u64) -> Result<Self, AttachError> {
        let client = Rc::new(Client::connect(path)?);
        let bytes = bytes.max(1).next_multiple_of(PAGE_BYTES);
        let no_memory = |source| AttachError::Memory { bytes, source };
        let file = File::from(
            memfd_create("byteway-host", MemfdFlags::CLOEXEC).map_err(|errno| no_memory(errno.into()))?,
        );
        file.set_len(bytes).map_err(no_memory)?;
        let memory = Memory::mapped(Mapped::new(&file, BASE, bytes).map_err(no_memory)?);
        client.dma_map(BASE, bytes, Some((&file, 0)), true)?;
        let doorbells = match client.region(REGION_BAR0)?.mappable {
            None => None,
            Some(part) => {
                let page = Memory::guest();
                let backing = Backing::File { file: &part.file, offset: part.file_offset };
                page.map(part.offset, part.bytes, backing, Access::ReadWrite)
                    .map_err(AttachError::Doorbells)?;
                Some(page)
            }
        };
        Ok(Attachment { client, doorbells, memory })
    }

    /// The port through which a driver reaches the controller.
    pub fn port(&self, clock: &Clock) -> Port {
        let registers = Box::new(ByMessage(self.client.clone()));
        Port::shared(registers, self.doorbells.clone(), self.memory.clone(), clock)
    }

    /// The vfio-user connection.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Whether doorbells are stores to shared memory instead of messages.
    pub fn has_mapped_doorbells(&self) -> bool {
        self.doorbells.is_some()
    }
}
