//! The NVM command set (NVM Command Set 1.1): Read, Write, Flush, Write Zeroes, Dataset Management, Compare. Copy is in
//! [`copy`], Verify and Write Uncorrectable in [`integrity`].

use crate::controller::log::add;
use crate::controller::namespace::{Namespace, Span};
use crate::controller::slot::Payload;
use crate::controller::{Context, Core, Reply, copy, integrity, kv, sink, streams};
use byteway_clock::{Delay, Stage};
use byteway_firmware::{Key, MediaError, Work};
use byteway_link::{Fault, Purpose};
use byteway_transfer::collector::Supported;
use byteway_transfer::{Collector, Extent, inline};
use byteway_transfer::{cxl_mem, mmio};
use byteway_wire::content::{Content, Keep, UNIT_BYTES, marred_parts};
use byteway_wire::nvme::command::{FUSE_NONE, PSDT_PRP};
use byteway_wire::nvme::kv::Retrieve;
use byteway_wire::nvme::opcode::Direction;
use byteway_wire::nvme::vendor::Chunk;
use byteway_wire::nvme::{
    CopyRange, DatasetManagement, NSID_ALL, NvmOpcode, Range, ReadWrite, Sqe, Status, VendorOpcode,
    WriteZeroes, dataset::RANGES_MAX,
};
use std::rc::Rc;

/// Blocks of one range of Dataset Management, at most (DMRSL).
pub const DEALLOCATE_RANGE_BLOCKS_MAX: u32 = 1 << 20;
/// Blocks of all its ranges together, at most (DMSL).
pub const DEALLOCATE_BLOCKS_MAX: u64 = 1 << 22;

/// Units deallocated between two looks at whether the command is to go on.
const DEALLOCATE_STEP_UNITS: u64 = 1 << 16;

/// What a command slot works with, reused from command to command.
pub struct Workspace {
    /// Resolves data pointers.
    pub collector: Collector,
    /// Units on their way between host and flash.
    pub(super) contents: Vec<Content>,
    /// Bytes on their way, where they are no whole units.
    pub(super) bytes: Vec<u8>,
    unit: Box<[u8; UNIT_BYTES]>,
    /// The source ranges of a Copy.
    pub(super) ranges: Vec<CopyRange>,
    /// What a List has found.
    pub(super) keys: Vec<Key>,
    /// The first block of the command that failed, for the error log.
    pub failed_lba: u64,
    /// Dword 0 of the completion of a command that failed.
    pub failed_dword: u32,
    /// What the error log says of it beside: its command specific information.
    pub failed_information: u64,
}

impl Workspace {
    /// For a device that takes the data pointers `supported`.
    pub fn new(supported: Supported) -> Self {
        Workspace {
            collector: Collector::new(supported),
            contents: Vec::new(),
            bytes: Vec::new(),
            unit: Box::new([0; UNIT_BYTES]),
            ranges: Vec::new(),
            keys: Vec::new(),
            failed_lba: 0,
            failed_dword: 0,
            failed_information: 0,
        }
    }

    /// Adds a part of the payload, which stands at `offset` of it; parts come in order.
    pub(super) fn land(&mut self, landing: Landing, keep: Keep, offset: usize, part: &[u8]) {
        match landing {
            Landing::Units => assemble(&mut self.contents, &mut self.unit, keep, offset, part),
            Landing::Bytes | Landing::Sink => self.bytes.extend_from_slice(part),
        }
    }
}

/// Where a payload from the host goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landing {
    /// Into `contents`: whole units.
    Units,
    /// Into `bytes`.
    Bytes,
    /// Into `bytes`, and on to the drive's DRAM.
    Sink,
}

/// Executes an I/O command.
pub async fn execute(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    match context.payload {
        // What came behind a command that takes no data is forgotten.
        Payload::Train(_) if Direction::of(context.sqe.opcode()) != Direction::HostToController => {
            return Err(Status::SGL_TYPE_INVALID.with_dnr());
        }
        Payload::Refused(status) => return Err(status),
        // A half of a fused operation never gets here, unless its payload comes by the queue; 11b is reserved.
        _ if context.sqe.fuse() != FUSE_NONE => return Err(Status::INVALID_FIELD.with_dnr()),
        Payload::Train(_) | Payload::Chunked(_) | Payload::Pointer => {}
    }
    if context.core.inventory.is_kv(context.sqe.nsid) {
        return kv::execute(context, workspace).await;
    }
    match NvmOpcode(context.sqe.opcode()) {
        NvmOpcode::READ => read(context, workspace).await,
        NvmOpcode::WRITE => write(context, workspace).await,
        NvmOpcode::FLUSH => flush(context).await,
        NvmOpcode::WRITE_ZEROES => write_zeroes(context, workspace).await,
        NvmOpcode::DATASET_MANAGEMENT => deallocate(context, workspace).await,
        NvmOpcode::COMPARE => compare(context, workspace).await,
        NvmOpcode::VERIFY => integrity::verify(context, workspace).await,
        NvmOpcode::WRITE_UNCORRECTABLE => integrity::mark_unreadable(context, workspace).await,
        NvmOpcode::COPY => copy::copy(context, workspace).await,
        _ => return vendor(context, workspace).await,
    }?;
    Ok(Reply::Done([0; 2]))
}

/// Executes a command of Byteway's own.
async fn vendor(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    let has_sink = context.core.config.transfer.sink_bytes > 0;
    let enabled = context.queue.methods.get();
    match VendorOpcode(context.sqe.opcode()) {
        VendorOpcode::TRANSFER if has_sink && enabled.piggyback() => {
            streams::transfer(context, workspace).await
        }
        VendorOpcode::TRANSFER_PIPELINED if has_sink && enabled.piggyback_pipelined() => {
            streams::transfer_pipelined(context, workspace).await
        }
        VendorOpcode(opcode) if kv::is_own(opcode) && context.core.config.kv.is_some() => {
            // There may be no such namespace; one that there is has blocks.
            context.core.namespace(context.sqe.nsid)?;
            Err(Status::INVALID_OPCODE.with_dnr())
        }
        _ => sink::execute(context, workspace).await,
    }
}

impl Context<'_> {
    /// Where the blocks of a transfer lie, if it is a transfer that the drive takes.
    pub(super) fn transfer(
        &self,
        rw: &ReadWrite,
        workspace: &mut Workspace,
    ) -> Result<(Rc<Namespace>, Span), Status> {
        workspace.failed_lba = rw.slba;
        let namespace = self.core.namespace(self.sqe.nsid)?;
        let span = namespace.span(rw.slba, u64::from(rw.blocks()))?;
        if span.bytes > u64::from(self.core.config.controller.transfer_bytes_max) {
            return Err(Status::INVALID_FIELD.with_dnr());
        }
        Ok((namespace, span))
    }

    /// The namespace that the command names, if it can be written.
    pub(super) fn writable(&self) -> Result<Rc<Namespace>, Status> {
        let namespace = self.core.namespace(self.sqe.nsid)?;
        namespace.check_writable()?;
        Ok(namespace)
    }

    /// Resolves the data pointer.
    pub(super) async fn resolve(
        &self,
        workspace: &mut Workspace,
        bytes: u64,
        to_host: bool,
    ) -> Result<(), Status> {
        match self.names_inline() {
            Some(true) if !to_host => return Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr()), // no train came with it
            Some(_) => return Err(Status::SGL_TYPE_INVALID.with_dnr()),
            None => {}
        }
        if self.names_vendor() {
            return Err(Status::SGL_TYPE_INVALID.with_dnr());
        }
        let page_bytes = self.core.registers.page_bytes.get();
        workspace.collector.resolve(&self.core.port, self.sqe, bytes, page_bytes, to_host).await?;
        self.charge(Stage::Link);
        self.check()
    }

    /// Brings the payload from wherever it is to `landing`.
    pub(super) async fn bring(
        &self,
        workspace: &mut Workspace,
        bytes: u64,
        landing: Landing,
    ) -> Result<(), Status> {
        workspace.contents.clear();
        workspace.bytes.clear();
        match self.payload {
            Payload::Pointer if bytes == 0 && self.names_inline() == Some(true) => Ok(()),
            Payload::Pointer => self.gather(workspace, bytes, landing).await,
            Payload::Train(slots) => {
                let before = inline::before(self.sqe, slots, bytes)?;
                if before > 0 {
                    self.gather(workspace, before, landing).await?;
                }
                self.unload(workspace, before, landing);
                Ok(())
            }
            Payload::Chunked(slots) if u64::from(slots.bytes) == bytes => {
                self.unload(workspace, 0, landing);
                Ok(())
            }
            Payload::Chunked(_) => Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr()),
            Payload::Refused(status) => Err(status),
        }
    }

    /// Whether the queue is enabled for what the data pointer says: that the payload lies behind the command. None: it
    /// says something else, or the drive is one that knows no such pointer.
    fn names_inline(&self) -> Option<bool> {
        let offers = !self.core.config.transfer.methods.is_empty();
        (offers && inline::is_described(self.sqe)).then(|| self.queue.methods.get().inline())
    }

    /// Whether the data pointer is one that only such drives know: for a payload in chunks, in the buffer or in memory.
    fn names_vendor(&self) -> bool {
        let offers = !self.core.config.transfer.methods.is_empty();
        offers
            && (Chunk::named_by(self.sqe).is_some()
                || mmio::named_by(self.sqe).is_some()
                || cxl_mem::named_by(self.sqe).is_some())
    }

    /// Adds what came by the queue to the payload, of which `before` bytes are there.
    fn unload(&self, workspace: &mut Workspace, before: u64, landing: Landing) {
        let carried = self.slot.carried.borrow();
        add(&self.core.counters.carried_bytes, carried.len() as u64);
        workspace.land(landing, self.core.config.keep, before as usize, &carried);
    }

    /// The work of setting up DMA of `bytes`.
    pub(super) async fn set_up_dma(&self, bytes: u64) -> Result<(), Status> {
        let core = self.core;
        if core.placement.cycles().of(Work::Dma) > 0 && bytes > 0 {
            let work = core.placement.run(Work::Dma, bytes.div_ceil(UNIT_BYTES as u64)).await;
            self.charge_firmware(work.queued);
            self.check()?;
        }
        Ok(())
    }

    /// Brings `bytes` from where the data pointer says.
    async fn gather(&self, workspace: &mut Workspace, bytes: u64, landing: Landing) -> Result<(), Status> {
        if self.names_buffer() {
            return self.unbuffer(workspace, bytes, landing).await;
        }
        if let Some(named) = self.in_memory() {
            return self.recall(workspace, named, bytes, landing).await;
        }
        self.resolve(workspace, bytes, false).await?;
        self.set_up_dma(bytes).await?;
        let core = self.core;
        // Bytes go on to DRAM as they come in: its port is taken from the beginning, and the last of them is stored its
        // latency after it has come.
        let site = core.placement.site(Work::Buffer);
        let stored = (landing == Landing::Sink && bytes > 0).then(|| site.dram("payload", bytes));
        let keep = core.config.keep;
        // PRPs name pages, of which the DMA knows only whole units; an SGL has the lengths to be exact.
        let granularity = match self.sqe.psdt() {
            PSDT_PRP => u64::from(core.config.controller.dma_granularity),
            _ => 1,
        };
        let Workspace { collector, contents, bytes: raw, unit, .. } = workspace;
        let epoch = collector.epoch();
        let take = |offset: usize, part: &[u8]| match landing {
            Landing::Units => assemble(contents, unit, keep, offset, part),
            Landing::Bytes | Landing::Sink => raw.extend_from_slice(part),
        };
        let gathered = core.port.gather(collector.segments(), epoch, granularity, Purpose::Data, take).await;
        gathered.map_err(|_: Fault| Status::DATA_TRANSFER_ERROR)?;
        add(&core.counters.data_in_bytes, bytes);
        self.charge(Stage::Link);
        if let Some(passage) = stored {
            core.clock.sleep_until(passage.arrival.max(core.clock.now() + site.dram_latency())).await;
            self.charge(Stage::Dram);
        }
        self.check()
    }

    /// With `fua`: what is about to be read is on flash when this ends, and is read from there.
    pub(super) async fn commit(&self, fua: bool) -> Result<(), Status> {
        if fua {
            settle(self).await?;
            self.check()?;
        }
        Ok(())
    }

    /// Whether a write is to be on flash when it completes.
    pub(super) fn durable(&self, fua: bool) -> bool {
        fua || !self.core.features.write_cache.get().wce()
    }
}

/// The fixed part of what the controller's pipeline takes for a command: it follows the parsing.
pub fn pipeline(core: &Core, sqe: &Sqe) -> Delay {
    let c = &core.config.controller;
    match NvmOpcode(sqe.opcode()) {
        NvmOpcode::READ | NvmOpcode::COMPARE | NvmOpcode::VERIFY => {
            let bytes = match core.inventory.block_bytes(sqe.nsid) {
                0 => Retrieve::parse(sqe).buffer_bytes as usize,
                block => ReadWrite::parse(sqe).blocks() as usize * block,
            };
            if bytes <= UNIT_BYTES { c.read_pipeline } else { c.read_large_pipeline }
        }
        NvmOpcode::WRITE | NvmOpcode::COPY => c.write_pipeline,
        NvmOpcode(opcode) if VendorOpcode(opcode) == VendorOpcode::KV_STORE_MANY => c.write_pipeline,
        _ => Delay::ZERO,
    }
}

/// Adds a part of the payload to the units that it makes up; parts come in order.
fn assemble(
    contents: &mut Vec<Content>,
    unit: &mut [u8; UNIT_BYTES],
    keep: Keep,
    offset: usize,
    mut part: &[u8],
) {
    let mut at = offset % UNIT_BYTES;
    while !part.is_empty() {
        let (now, later) = part.split_at(part.len().min(UNIT_BYTES - at));
        if now.len() == UNIT_BYTES {
            contents.push(Content::of(now, keep));
        } else {
            unit[at..at + now.len()].copy_from_slice(now);
            if at + now.len() == UNIT_BYTES {
                contents.push(Content::of(&unit[..], keep));
            }
        }
        (at, part) = (0, later);
    }
}

async fn read(context: &Context<'_>, workspace: &mut Workspace) -> Result<(), Status> {
    let core = context.core;
    let rw = ReadWrite::parse(context.sqe);
    let (namespace, span) = context.transfer(&rw, workspace)?;
    context.resolve(workspace, span.bytes, true).await?;
    context.commit(rw.fua).await?;
    fetch_units(context, workspace, &namespace, span).await?;
    context.set_up_dma(span.bytes).await?;
    let passage = send(context, workspace, span)?;
    core.clock.sleep_until(passage).await;
    context.charge(Stage::Link);
    context.check()?;
    add(&core.counters.reads, 1);
    add(&core.counters.read_bytes, span.bytes);
    Ok(())
}

/// Reads the units of `span` into `workspace.contents`. If not all of it can be read, `workspace.failed_lba`, which was
/// the span's first block, is the first that can't.
pub(super) async fn fetch_units(
    context: &Context<'_>,
    workspace: &mut Workspace,
    namespace: &Namespace,
    span: Span,
) -> Result<(), Status> {
    let (core, contents) = (context.core, &mut workspace.contents);
    let (first, count) = namespace.run(span.unit, span.units.into());
    let spans = core.port.spans();
    let mut read = core.ftl.read(context.span, spans, first, count as u32, contents).await;
    if count < u64::from(span.units) && read.is_ok() {
        read = fetch_rest(context, contents, namespace, span, count).await;
    }
    read.map_err(|error: MediaError| {
        add(&core.counters.media_errors, 1);
        status_of(error, Status::UNRECOVERED_READ_ERROR)
    })?;
    context.check()?;
    check_readable(context, workspace, namespace, span)
}

/// Whether all of `span` can be read, whose units have been.
pub(super) fn check_readable(
    context: &Context<'_>,
    workspace: &mut Workspace,
    namespace: &Namespace,
    span: Span,
) -> Result<(), Status> {
    if workspace.contents.iter().any(|content| content.marred() != 0) {
        return check_marred(context, workspace, namespace, span);
    }
    Ok(())
}

/// Reads what lies in further extents.
#[cold]
async fn fetch_rest(
    context: &Context<'_>,
    contents: &mut Vec<Content>,
    namespace: &Namespace,
    span: Span,
    mut done: u64,
) -> Result<(), MediaError> {
    let mut more = Vec::new();
    while done < u64::from(span.units) {
        let (first, count) = namespace.run(span.unit + done, u64::from(span.units) - done);
        let spans = context.core.port.spans();
        context.core.ftl.read(context.span, spans, first, count as u32, &mut more).await?;
        contents.append(&mut more);
        done += count;
    }
    Ok(())
}

/// Whether what can't be read of the units lies outside of the span.
#[cold]
fn check_marred(
    context: &Context<'_>,
    workspace: &mut Workspace,
    namespace: &Namespace,
    span: Span,
) -> Result<(), Status> {
    for (index, content) in (0..).zip(&workspace.contents) {
        let (offset, bytes) = span.part(index);
        if let Some(at) = content.first_marred(offset, bytes) {
            let before = u64::from(index) * UNIT_BYTES as u64 + at as u64 - u64::from(span.offset);
            workspace.failed_lba += before / namespace.block.bytes() as u64;
            add(&context.core.counters.media_errors, 1);
            return Err(Status::UNRECOVERED_READ_ERROR);
        }
    }
    Ok(())
}

/// Posts the bytes of `span` to the extents of the host; gives when the last has left.
fn send(context: &Context<'_>, workspace: &Workspace, span: Span) -> Result<byteway_clock::Time, Status> {
    let core = context.core;
    let mut at = span.offset as usize;
    let mut sent = core.clock.now();
    let epoch = workspace.collector.epoch();
    for extent in workspace.collector.extents() {
        let Extent::Memory(segment) = *extent else {
            at += extent.bytes() as usize;
            continue;
        };
        let mut done = 0;
        while done < segment.bytes {
            let (unit, offset) = (at / UNIT_BYTES, at % UNIT_BYTES);
            let count = (segment.bytes - done).min((UNIT_BYTES - offset) as u32);
            let content = workspace.contents[unit].clone();
            let address = segment.address + u64::from(done);
            let written =
                core.port.write_content(address, content, offset as u32, count, epoch, Purpose::Data);
            sent = written.map_err(|_: Fault| Status::DATA_TRANSFER_ERROR)?.sent;
            add(&core.counters.data_out_bytes, u64::from(count));
            done += count;
            at += count as usize;
        }
        let padding = context.padding(segment);
        if padding > 0 {
            let address = segment.address + u64::from(segment.bytes);
            let zeroes = Content::Zero;
            let written = core.port.write_content(address, zeroes, 0, padding, epoch, Purpose::Data);
            sent = written.map_err(|_: Fault| Status::DATA_TRANSFER_ERROR)?.sent;
            add(&core.counters.data_out_bytes, u64::from(padding));
        }
    }
    Ok(sent)
}

async fn write(context: &Context<'_>, workspace: &mut Workspace) -> Result<(), Status> {
    let core = context.core;
    let rw = ReadWrite::parse(context.sqe);
    let (namespace, span) = context.transfer(&rw, workspace)?;
    namespace.check_writable()?;
    let durable = context.durable(rw.fua);
    let landing = if span.is_whole() { Landing::Units } else { Landing::Bytes };
    context.bring(workspace, span.bytes, landing).await?;
    if span.is_whole() {
        write_units(context, &namespace, span.unit, &mut workspace.contents, durable).await?;
    } else {
        let bytes = std::mem::take(&mut workspace.bytes);
        let written = write_part(context, &namespace, span, Fill::Bytes(&bytes), durable).await;
        workspace.bytes = bytes;
        written?;
    }
    add(&core.counters.writes, 1);
    add(&core.counters.written_bytes, span.bytes);
    Ok(())
}

/// Writes whole units, which it takes out of `contents`.
pub(super) async fn write_units(
    context: &Context<'_>,
    namespace: &Namespace,
    mut unit: u64,
    contents: &mut Vec<Content>,
    durable: bool,
) -> Result<(), Status> {
    let core = context.core;
    loop {
        let (first, count) = namespace.run(unit, contents.len() as u64);
        // What lies in another extent comes after.
        let mut rest = Vec::new();
        if count < contents.len() as u64 {
            rest = contents.split_off(count as usize);
        }
        let written = core.ftl.write(context.span, core.port.spans(), first, contents, durable).await;
        written.map_err(|error| status_of(error, Status::WRITE_FAULT))?;
        if rest.is_empty() {
            return Ok(());
        }
        *contents = rest;
        unit += count;
    }
}

/// What a span is filled with.
#[derive(Clone, Copy)]
pub(super) enum Fill<'a> {
    /// These bytes, as many as the span has.
    Bytes(&'a [u8]),
    /// Zeroes.
    Zero,
    /// Nothing: it can't be read any more.
    Unreadable,
}

/// Writes over a span that is not whole units: each unit is read, changed and written as one step.
pub(super) async fn write_part(
    context: &Context<'_>,
    namespace: &Namespace,
    span: Span,
    fill: Fill<'_>,
    durable: bool,
) -> Result<(), Status> {
    let core = context.core;
    let mut at = 0;
    for index in 0..span.units {
        let (offset, count) = span.part(index);
        let edit = |unit: &mut [u8; UNIT_BYTES], marred: &mut u8| {
            let (part, parts) = (&mut unit[offset..offset + count], marred_parts(offset, count));
            match fill {
                Fill::Bytes(bytes) => part.copy_from_slice(&bytes[at..at + count]),
                Fill::Zero => part.fill(0),
                Fill::Unreadable => return *marred |= parts,
            }
            *marred &= !parts;
        };
        let (unit, _) = namespace.run(span.unit + u64::from(index), 1);
        let edited = core.ftl.edit(context.span, core.port.spans(), unit, edit, durable).await;
        edited.map_err(|error| status_of(error, Status::WRITE_FAULT))?;
        at += count;
        context.check()?;
    }
    Ok(())
}

async fn flush(context: &Context<'_>) -> Result<(), Status> {
    if context.sqe.nsid != NSID_ALL {
        // Also while its namespace is sanitized (NVMe Base 2.1, 8.1.24).
        context.core.inventory.active(context.sqe.nsid)?;
    }
    if context.sqe.nsid == NSID_ALL {
        context.core.flush_pairs(context.span).await?;
    }
    settle(context).await?;
    context.check()
}

/// Waits until everything that is buffered is on flash.
pub(super) async fn settle(context: &Context<'_>) -> Result<(), Status> {
    let flushed = context.core.ftl.flush(context.span, context.core.port.spans()).await;
    flushed.map_err(|error| status_of(error, Status::WRITE_FAULT))
}

async fn write_zeroes(context: &Context<'_>, workspace: &mut Workspace) -> Result<(), Status> {
    let command = WriteZeroes::parse(context.sqe);
    workspace.failed_lba = command.slba;
    let namespace = context.writable()?;
    let span = namespace.span(command.slba, u64::from(command.blocks()))?;
    zero(context, &namespace, span).await?;
    if context.durable(command.fua) {
        settle(context).await?;
    }
    Ok(())
}

/// Makes a span read as zeroes: whole units are unmapped, parts of units overwritten.
async fn zero(context: &Context<'_>, namespace: &Namespace, span: Span) -> Result<(), Status> {
    let core = context.core;
    let unit = UNIT_BYTES as u64;
    let (first, count) = span.whole_units().unwrap_or((span.unit, 0));
    let head = (first - span.unit) * unit; // bytes of the span's units before the whole ones
    if count == 0 {
        return write_part(context, namespace, span, Fill::Zero, false).await;
    }
    if head > 0 {
        let bytes = head - u64::from(span.offset);
        write_part(context, namespace, Span { units: 1, bytes, ..span }, Fill::Zero, false).await?;
    }
    let mut done = 0;
    while done < count {
        let (at, step) = namespace.run(first + done, (count - done).min(DEALLOCATE_STEP_UNITS));
        let trimmed = core.ftl.trim(context.span, core.port.spans(), at, step).await;
        trimmed.map_err(|error| status_of(error, Status::INTERNAL_ERROR))?;
        done += step;
        context.check()?;
    }
    let tail = u64::from(span.offset) + span.bytes - head - count * unit;
    if tail > 0 {
        let rest = Span { unit: first + count, units: 1, offset: 0, bytes: tail };
        write_part(context, namespace, rest, Fill::Zero, false).await?;
    }
    Ok(())
}

async fn deallocate(context: &Context<'_>, workspace: &mut Workspace) -> Result<(), Status> {
    let command = DatasetManagement::parse(context.sqe);
    // Without the attribute it only gives hints, which change nothing.
    let namespace =
        if command.ad { context.writable()? } else { context.core.namespace(context.sqe.nsid)? };
    let bytes = command.ranges() * Range::SIZE;
    context.bring(workspace, bytes as u64, Landing::Bytes).await?;
    let mut ranges = [Range::default(); RANGES_MAX];
    let mut blocks = 0;
    for (range, into) in Range::parse_list(&workspace.bytes).zip(&mut ranges) {
        workspace.failed_lba = range.slba;
        namespace.span(range.slba, u64::from(range.length))?;
        blocks += u64::from(range.length);
        if range.length > DEALLOCATE_RANGE_BLOCKS_MAX || blocks > DEALLOCATE_BLOCKS_MAX {
            return Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED.with_dnr());
        }
        *into = range;
    }
    if !command.ad {
        return Ok(()); // the other attributes are hints
    }
    for range in ranges.iter().filter(|range| range.length > 0) {
        let span = namespace.span(range.slba, u64::from(range.length))?;
        zero(context, &namespace, span).await?;
    }
    if context.durable(false) {
        settle(context).await?;
    }
    Ok(())
}

async fn compare(context: &Context<'_>, workspace: &mut Workspace) -> Result<(), Status> {
    let rw = ReadWrite::parse(context.sqe);
    let (namespace, span) = context.transfer(&rw, workspace)?;
    context.bring(workspace, span.bytes, Landing::Bytes).await?;
    context.commit(rw.fua).await?;
    fetch_units(context, workspace, &namespace, span).await?;
    let expected = std::mem::take(&mut workspace.bytes);
    let compared = check_equal(context, workspace, span, &expected);
    workspace.bytes = expected;
    compared
}

/// Whether the units of `span`, which have been read, hold `expected` in it: the end of a Compare.
pub(super) fn check_equal(
    context: &Context<'_>,
    workspace: &mut Workspace,
    span: Span,
    expected: &[u8],
) -> Result<(), Status> {
    for (index, content) in (0..).zip(&workspace.contents) {
        let (offset, bytes) = span.part(index);
        let at = (index as usize * UNIT_BYTES + offset) - span.offset as usize;
        let held = &mut workspace.unit[..bytes];
        content.write_part(offset, held);
        if *held != expected[at..at + bytes] {
            return Err(Status::COMPARE_FAILURE);
        }
    }
    let counters = &context.core.counters;
    add(&counters.reads, 1);
    add(&counters.read_bytes, span.bytes);
    Ok(())
}

/// The one place where a failure of the media becomes a status.
pub(super) fn status_of(error: MediaError, unreadable: Status) -> Status {
    match error {
        MediaError::OutOfRange => Status::LBA_OUT_OF_RANGE.with_dnr(),
        MediaError::Unreadable => unreadable,
        MediaError::WriteProtected => Status::NAMESPACE_WRITE_PROTECTED,
        MediaError::NotErased => Status::INTERNAL_ERROR,
    }
}
