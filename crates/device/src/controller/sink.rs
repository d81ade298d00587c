//! The payload sink: DRAM of the drive that commands write and read as an array of bytes
//! ([`byteway_wire::nvme::vendor::sink`]), with no flash behind it.

use crate::controller::io::{Landing, Workspace};
use crate::controller::log::add;
use crate::controller::{Context, Reply, streams};
use byteway_clock::{Stage, Time};
use byteway_link::{Fault, Purpose};
use byteway_transfer::Extent;
use byteway_wire::nvme::{Segment, Status, VendorOpcode, vendor};
use std::cell::RefCell;
use std::rc::Rc;

const PAGE: usize = 4096;
/// Pages of a table: 2 MiB.
const TABLE: usize = 512;

type Table = Box<[Option<Box<[u8; PAGE]>>; TABLE]>;

/// Bytes that were never written are zeroes, and take no memory. A reset leaves all as it is.
pub struct Sink {
    bytes: u64,
    tables: RefCell<Vec<Option<Table>>>,
}

impl Sink {
    /// `bytes` of zeroes.
    pub fn new(bytes: u64) -> Self {
        Sink { bytes, tables: RefCell::default() }
    }

    /// Everything is zeroes again.
    pub fn clear(&self) {
        self.tables.borrow_mut().clear();
    }

    /// Whether all of an extent lies in the sink.
    pub fn holds(&self, offset: u64, bytes: u64) -> bool {
        offset.checked_add(bytes).is_some_and(|end| end <= self.bytes)
    }

    /// Stores `bytes` from `offset` on; that must lie in the sink.
    pub fn write(&self, offset: u64, mut bytes: &[u8]) {
        debug_assert!(self.holds(offset, bytes.len() as u64), "commands are checked before");
        let mut tables = self.tables.borrow_mut();
        let mut at = offset as usize;
        while !bytes.is_empty() {
            let (page, start) = (at / PAGE, at % PAGE);
            let (now, later) = bytes.split_at(bytes.len().min(PAGE - start));
            if page / TABLE >= tables.len() {
                tables.resize_with(page / TABLE + 1, || None);
            }
            let table = tables[page / TABLE].get_or_insert_with(|| Box::new([const { None }; TABLE]));
            let held = table[page % TABLE].get_or_insert_with(|| Box::new([0; PAGE]));
            held[start..start + now.len()].copy_from_slice(now);
            (at, bytes) = (at + now.len(), later);
        }
    }

    /// Adds the `bytes` from `offset` on to `into`; they must lie in the sink.
    pub fn read(&self, offset: u64, bytes: u32, into: &mut Vec<u8>) {
        debug_assert!(self.holds(offset, u64::from(bytes)), "commands are checked before");
        let tables = self.tables.borrow();
        let (mut at, end) = (offset as usize, offset as usize + bytes as usize);
        while at < end {
            let (page, start) = (at / PAGE, at % PAGE);
            let count = (end - at).min(PAGE - start);
            let table = tables.get(page / TABLE).and_then(Option::as_ref);
            match table.and_then(|table| table[page % TABLE].as_ref()) {
                Some(held) => into.extend_from_slice(&held[start..start + count]),
                None => into.resize(into.len() + count, 0),
            }
            at += count;
        }
    }
}

impl Context<'_> {
    /// The extent that a command of the sink names, if the drive takes it.
    pub(super) fn sink_extent(&self) -> Result<vendor::Sink, Status> {
        let extent = vendor::Sink::parse(self.sqe);
        self.core.namespace(self.sqe.nsid)?;
        if extent.bytes > self.core.config.controller.transfer_bytes_max {
            return Err(Status::INVALID_FIELD.with_dnr());
        }
        if !self.core.sink.holds(extent.offset, u64::from(extent.bytes)) {
            return Err(Status::LBA_OUT_OF_RANGE.with_dnr());
        }
        Ok(extent)
    }
}

/// Executes a command of the sink.
pub async fn execute(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    let has_sink = context.core.config.transfer.sink_bytes > 0;
    match VendorOpcode(context.sqe.opcode()) {
        VendorOpcode::SINK_WRITE if has_sink => write(context, workspace).await,
        VendorOpcode::SINK_READ if has_sink => read(context, workspace).await,
        VendorOpcode::SINK_STORE if has_sink => streams::store(context, workspace).await,
        _ => Err(Status::INVALID_OPCODE.with_dnr()),
    }
}

/// Sink Write.
pub async fn write(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    let extent = context.sink_extent()?;
    context.bring(workspace, u64::from(extent.bytes), Landing::Sink).await?;
    Ok(store(context, extent, &workspace.bytes))
}

/// Stores what was brought, and answers with its checksum. That the sink holds it, a read tells.
pub fn store(context: &Context<'_>, extent: vendor::Sink, bytes: &[u8]) -> Reply {
    let core = context.core;
    core.sink.write(extent.offset, bytes);
    add(&core.counters.writes, 1);
    add(&core.counters.written_bytes, bytes.len() as u64);
    Reply::Done([crc32c::crc32c(bytes), 0])
}

/// Sink Read.
pub async fn read(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    let core = context.core;
    let extent = context.sink_extent()?;
    let is_behind = context.reserve_behind(extent.bytes);
    if !is_behind {
        context.resolve(workspace, u64::from(extent.bytes), true).await?;
    }
    let loaded = core.placement.site(byteway_firmware::Work::Buffer).dram("payload", extent.bytes.into());
    core.clock.sleep_until(loaded.arrival).await;
    context.charge(Stage::Dram);
    context.check()?;
    workspace.bytes.clear();
    core.sink.read(extent.offset, extent.bytes, &mut workspace.bytes);
    if is_behind {
        add(&core.counters.reads, 1);
        add(&core.counters.read_bytes, u64::from(extent.bytes));
        return Ok(Reply::Result([crc32c::crc32c(&workspace.bytes), extent.bytes]));
    }
    context.set_up_dma(extent.bytes.into()).await?;
    let sent = send(context, workspace)?;
    core.clock.sleep_until(sent).await;
    context.charge(Stage::Link);
    context.check()?;
    add(&core.counters.reads, 1);
    add(&core.counters.read_bytes, u64::from(extent.bytes));
    Ok(Reply::Done([crc32c::crc32c(&workspace.bytes), 0]))
}

/// Posts `workspace.bytes` to the extents of the host, of which it may fill only the first; gives when the last has left.
pub fn send(context: &Context<'_>, workspace: &Workspace) -> Result<Time, Status> {
    let core = context.core;
    let epoch = workspace.collector.epoch();
    let mut sent = core.clock.now();
    let mut at = 0;
    for extent in workspace.collector.extents() {
        let count = (extent.bytes() as usize).min(workspace.bytes.len() - at);
        if count == 0 {
            continue;
        }
        if let Extent::Memory(segment) = extent {
            let segment = Segment { bytes: count as u32, ..*segment };
            let part = workspace.bytes[at..at + count].iter().copied();
            let padding = context.padding(segment);
            let bytes: Rc<[u8]> = part.chain(std::iter::repeat_n(0, padding as usize)).collect();
            let written = core.port.write_bytes(segment.address, bytes, epoch, Purpose::Data);
            sent = written.map_err(|_: Fault| Status::DATA_TRANSFER_ERROR)?.sent;
            add(&core.counters.data_out_bytes, count as u64 + u64::from(padding));
        }
        at += count;
    }
    Ok(sent)
}
