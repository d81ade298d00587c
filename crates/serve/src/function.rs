//! The PCI function that a host sees: its regions, interrupts, memory and reset.
//!
//! BAR0 holds the NVMe registers, the doorbells from 4 KiB on, then the MSI-X table and the pending bit
//! array. The host's process keeps the effective MSI-X table (it assigns an eventfd to each vector); the
//! table here is memory that can be read back.
//!
//! The controller's payload buffer, if it has one, follows at a multiple of 64 KiB. Data written there
//! crosses the link in stores of 64 bytes. It reads as zeroes, so that one host cannot read what another left
//! there. Each write is a message, answered when its stores have arrived: a host with mapped doorbells waits
//! for that answer before it writes a doorbell.

use crate::front::DoorbellPoller;
use crate::interrupts::Interrupts;
use crate::pci::{CONFIG_BYTES, ConfigSpace, Effect, Identity};
use byteway_clock::{Clock, Delay, Time};
use byteway_device::Controller;
use byteway_link::memory::{Access, Backing, PAGE_BYTES};
use byteway_link::{HostEnd, Memory, Purpose};
use byteway_wire::nvme::register::{CAP, Cap, DOORBELLS};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::rc::Rc;

/// VFIO region index of BAR0.
pub const REGION_BAR0: u32 = 0;
/// VFIO region index of the configuration space.
pub const REGION_CONFIG: u32 = 7;

/// How doorbell writes reach the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doorbells {
    /// The host may map the doorbells: it stores to memory, which the server polls.
    Mapped,
    /// Each doorbell write is a message, which wakes the server.
    Trapped,
}

/// A part of a region that the host may map, so that its stores come without a message.
pub struct Mappable {
    /// Offset within the region, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// The file that backs it, at the same offset.
    pub file: Rc<File>,
}

/// A region, by its VFIO PCI index (0: BAR0, 7: configuration space).
pub struct Region {
    /// Length in bytes; 0: the region does not exist.
    pub bytes: u64,
    /// The part that the host may map.
    pub mappable: Option<Mappable>,
}

/// Errno of a refused access, for the reply to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessError(pub u32);

const EINVAL: u32 = 22;

/// Offsets in BAR0.
struct Layout {
    doorbells_bytes: u64,
    table: u64,
    pending: u64,
    /// End of the MSI-X table and pending bit array, rounded up to a page.
    table_end: u64,
    /// The payload buffer.
    buffer: Range<u64>,
    bytes: u64,
}

impl Layout {
    fn new(queues_max: u16, dstrd: u8, vectors: u16, (buffer, buffer_bytes): (u64, u32)) -> Self {
        let doorbells_bytes = (2 * (u64::from(queues_max) + 1) * (4 << dstrd)).next_multiple_of(PAGE_BYTES);
        let table = DOORBELLS + doorbells_bytes;
        let pending = table + (u64::from(vectors) * 16).next_multiple_of(PAGE_BYTES);
        let table_end = pending + u64::from(vectors).div_ceil(64).next_multiple_of(PAGE_BYTES / 8) * 8;
        assert!(table_end <= buffer, "the buffer for payload lies behind everything else");
        let buffer = buffer..buffer + u64::from(buffer_bytes);
        let end = if buffer.is_empty() { table_end } else { buffer.end };
        Layout { doorbells_bytes, table, pending, table_end, buffer, bytes: end.next_power_of_two() }
    }
}

impl Layout {
    /// Creates a file for the doorbells, at their offset in BAR0, and maps it.
    fn page(&self) -> io::Result<(File, Memory)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(memfd_create("byteway-doorbells", flags)?);
        file.set_len(DOORBELLS + self.doorbells_bytes)?;
        // The host holds the descriptor: without seals it could truncate the file, and accesses here would
        // raise SIGBUS.
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let page = Memory::guest();
        let backing = Backing::File { file: &file, offset: DOORBELLS };
        page.map(DOORBELLS, self.doorbells_bytes, backing, Access::ReadWrite).map_err(io::Error::other)?;
        Ok((file, page))
    }
}

/// The PCI function of a drive.
pub struct Function {
    host: HostEnd,
    controller: Controller,
    front: Rc<DoorbellPoller>,
    interrupts: Rc<Interrupts>,
    layout: Layout,
    /// The doorbells that the host may map. Each host gets a new file.
    page: RefCell<Option<Rc<File>>>,
    config: ConfigSpace,
    /// MSI-X table and pending bit array.
    table: RefCell<Vec<u8>>,
    /// Instant at which the last store to the payload buffer arrives.
    stored: Cell<Time>,
}

impl Function {
    /// The function of `controller`, which is at the other end of the link. The host's memory is
    /// [`Memory::guest`], with nothing mapped yet. Spawns the task that polls doorbells.
    ///
    /// # Errors
    /// The system has no memory for the doorbells.
    pub fn new(
        host: &HostEnd,
        controller: &Controller,
        serial: u64,
        vectors: u16,
        doorbells: Doorbells,
    ) -> io::Result<Rc<Self>> {
        let dstrd = Cap::from_bits(controller.register(CAP, 8)).dstrd();
        let layout = Layout::new(controller.io_queues_max(), dstrd, vectors, controller.payload_buffer());
        let (file, page) = match doorbells {
            Doorbells::Trapped => (None, None),
            Doorbells::Mapped => {
                let (file, page) = layout.page()?;
                (Some(Rc::new(file)), Some(page))
            }
        };
        let front = DoorbellPoller::new(host, controller, page, dstrd);
        host.clock().spawn_watcher("front", front.clone().run());
        let interrupts = Rc::new(Interrupts::new(host.clock(), vectors));
        let messages = interrupts.clone();
        host.on_interrupt(Rc::new(move |vector| messages.raise(vector.into())));
        host.clock().spawn("interrupts", interrupts.clone().run());
        let identity = Identity::byteway(
            serial,
            layout.bytes,
            vectors,
            layout.table as u32, // far below 4 GiB: there are at most 64 Ki doorbell pairs of 4 KiB stride
            layout.pending as u32,
        );
        let config = ConfigSpace::new(&identity, host.config());
        let table = RefCell::new(vec![0; (layout.table_end - layout.table) as usize]);
        let (host, controller) = (host.clone(), controller.clone());
        Ok(Rc::new(Function {
            host,
            controller,
            front,
            interrupts,
            layout,
            page: RefCell::new(file),
            config,
            table,
            stored: Cell::new(Time::ZERO),
        }))
    }

    /// Sets the interval between two polls of mapped doorbells while the host is idle; the default is
    /// [`REST`](crate::front::REST).
    pub fn set_rest(&self, rest: Delay) {
        self.front.set_rest(rest);
    }

    /// Clock of the executor on which the function runs.
    pub fn clock(&self) -> &Clock {
        self.host.clock()
    }

    /// The region of `index`; any value is allowed.
    pub fn region(&self, index: u32) -> Region {
        match index {
            REGION_BAR0 => Region {
                bytes: self.layout.bytes,
                mappable: self.page.borrow().clone().map(|file| Mappable {
                    offset: DOORBELLS,
                    bytes: self.layout.doorbells_bytes,
                    file,
                }),
            },
            REGION_CONFIG => Region { bytes: CONFIG_BYTES as u64, mappable: None },
            _ => Region { bytes: 0, mappable: None },
        }
    }

    /// Reads from a region. In BAR0, everything but registers and tables reads as zeroes, including the
    /// payload buffer.
    ///
    /// # Errors
    /// The extent, which the host chose freely, is not within the region.
    pub fn read(&self, index: u32, offset: u64, into: &mut [u8]) -> Result<(), AccessError> {
        self.check(index, offset, into.len())?;
        if index == REGION_CONFIG {
            self.config.read(offset, into);
            return Ok(());
        }
        self.host.hasten_writes(); // a read must not pass earlier posted writes
        let registers = self.layout.table.saturating_sub(offset).min(into.len() as u64) as usize;
        let (mut rest, behind) = into.split_at_mut(registers);
        // Registers are read as 4 or 8 bytes; an access that starts or ends inside one gets its part.
        let mut at = offset;
        while !rest.is_empty() {
            let word = at & !3;
            let bytes = (self.controller.register(word, 4) as u32).to_le_bytes();
            let skip = (at - word) as usize;
            let count = rest.len().min(4 - skip);
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(&bytes[skip..skip + count]);
            (rest, at) = (later, at + count as u64);
        }
        behind.fill(0);
        let from = offset.saturating_sub(self.layout.table) as usize;
        let table = self.table.borrow();
        for (byte, held) in behind.iter_mut().zip(table.iter().skip(from)) {
            *byte = *held;
        }
        Ok(())
    }

    /// Writes to a region. Registers accept writes of 4 and 8 bytes at multiples of 4; other register writes
    /// are ignored. The payload buffer accepts any size. The caller carries out the returned effect, such as
    /// a reset, and waits for it, before it answers.
    ///
    /// # Errors
    /// Same as [`Function::read`]; or a write that starts behind the doorbells is neither within the table nor
    /// within the buffer.
    pub fn write(&self, index: u32, offset: u64, from: &[u8]) -> Result<Effect, AccessError> {
        self.check(index, offset, from.len())?;
        if index == REGION_CONFIG {
            return Ok(self.config.write(offset, from));
        }
        if offset >= self.layout.table_end {
            return self.store(offset, from).map(|()| Effect::None);
        }
        if offset >= self.layout.table {
            let to = (offset - self.layout.table) as usize;
            let mut table = self.table.borrow_mut();
            let table = table.get_mut(to..to + from.len()).ok_or(AccessError(EINVAL))?;
            table.copy_from_slice(from);
            return Ok(Effect::None);
        }
        let value = match *from {
            [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
            [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => return Ok(Effect::None), // undefined by the specification
        };
        if offset >= DOORBELLS {
            self.front.written(offset, value as u32);
            if from.len() == 8 {
                self.front.written(offset + 4, (value >> 32) as u32);
            }
        } else if from.len() == 8 {
            self.host.write64(offset, value);
        } else {
            self.host.write32(offset, value as u32, Purpose::Register);
        }
        Ok(Effect::None)
    }

    /// Stores to the payload buffer as a processor's write-combining buffers would: 64 bytes at a time.
    fn store(&self, offset: u64, from: &[u8]) -> Result<(), AccessError> {
        let buffer = &self.layout.buffer;
        if offset < buffer.start || offset + from.len() as u64 > buffer.end {
            return Err(AccessError(EINVAL));
        }
        self.stored.set(self.host.store(offset, from));
        Ok(())
    }

    /// Waits until every store to the payload buffer has arrived, which limits a host to the bandwidth of the
    /// link.
    pub async fn stored(&self) {
        self.clock().sleep_until(self.stored.get()).await;
    }

    fn check(&self, index: u32, offset: u64, bytes: usize) -> Result<(), AccessError> {
        let end = offset.checked_add(bytes as u64);
        let within = end.is_some_and(|end| end <= self.region(index).bytes);
        if within { Ok(()) } else { Err(AccessError(EINVAL)) }
    }

    /// The MSI-X vectors.
    pub fn interrupts(&self) -> &Interrupts {
        &self.interrupts
    }

    /// The host's memory, parts of which the host maps and unmaps.
    pub fn memory(&self) -> &Memory {
        self.host.memory()
    }

    /// Delivers all outstanding posted writes to the host's memory. Called before the host unmaps any of it.
    pub fn land_posted_writes(&self) {
        self.host.land_posted_writes();
    }

    /// Resets the function. On return, no command or write from before the reset is in flight.
    pub async fn reset(&self) {
        self.config.reset();
        self.table.borrow_mut().fill(0);
        self.controller.reset().await;
    }

    /// Cleans up after a host has detached: resets the function, unmaps its memory, drops its eventfds, and
    /// creates new doorbells for the next host, because the detached process may keep its mapping.
    pub async fn detach(&self) {
        self.reset().await;
        self.memory().unmap_all();
        self.interrupts.clear();
        if self.page.borrow().is_none() {
            return;
        }
        match self.layout.page() {
            Ok((file, page)) => {
                self.page.replace(Some(Rc::new(file)));
                self.front.replace_page(page);
            }
            Err(error) => tracing::error!("the next client gets the doorbells of this one: {error}"),
        }
    }
}
