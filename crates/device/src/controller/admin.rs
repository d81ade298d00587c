//! The admin commands (NVMe Base 2.1, 5): queues, features, logs, identification, abort, events.

use crate::controller::feature::{Features, is_supported};
use crate::controller::io::Workspace;
use crate::controller::log::{
    TEMPERATURE, add, commands_supported, features_supported, smart, supported_log_pages,
};
use crate::controller::queue::{CompletionQueue, Fate, SubmissionQueue};
use crate::controller::{ABORTS_MAX, Context, Core, EVENT_REQUESTS_MAX, Reply, identify};
use byteway_clock::Stage;
use byteway_link::{Fault, Purpose};
use byteway_transfer::Extent;
use byteway_wire::IntoBytes;
use byteway_wire::nvme::command::PSDT_PRP;
use byteway_wire::nvme::feature::{
    Arbitration, AsyncEventConfig, InterruptCoalescing, InterruptVectorConfiguration, NumberOfQueues,
    TemperatureThreshold, VolatileWriteCache, fid,
};
use byteway_wire::nvme::vendor::Methods;
use byteway_wire::nvme::{
    Abort, AdminOpcode, CreateCq, CreateSq, DeleteQueue, Doorbell, DoorbellBufferConfig, FirmwareSlotLog,
    GetFeatures, GetLogPage, Identify, NSID_ALL, NvmeMiCommandsSupportedLog, Select, SetFeatures, Status,
    lid,
};
use std::rc::Rc;

/// Executes an admin command.
pub async fn execute(context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
    // Admin commands over PCIe use PRPs (NVMe Base 2.1, 4.3), and are not fused.
    if context.sqe.psdt() != PSDT_PRP || context.sqe.fuse() != 0 {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    let dw0 = match AdminOpcode(context.sqe.opcode()) {
        AdminOpcode::CREATE_CQ => create_completion_queue(context),
        AdminOpcode::CREATE_SQ => create_submission_queue(context),
        AdminOpcode::DELETE_SQ => delete_submission_queue(context).await,
        AdminOpcode::DELETE_CQ => delete_completion_queue(context),
        AdminOpcode::IDENTIFY => {
            let page = identify::page(context, &Identify::parse(context.sqe))?;
            send(context, workspace, page).await
        }
        AdminOpcode::GET_LOG_PAGE => get_log_page(context, workspace).await,
        AdminOpcode::SET_FEATURES => set_features(context),
        AdminOpcode::GET_FEATURES => get_features(context),
        AdminOpcode::ABORT => abort(context).await,
        AdminOpcode::DOORBELL_BUFFER_CONFIG if context.core.config.controller.shadow_doorbells => {
            context.core.configure_shadow(&DoorbellBufferConfig::parse(context.sqe))?;
            Ok(0)
        }
        AdminOpcode::ASYNC_EVENT_REQUEST => {
            if context.core.events.parked() >= EVENT_REQUESTS_MAX {
                return Err(Status::AER_LIMIT_EXCEEDED.with_dnr());
            }
            return Ok(Reply::Parked);
        }
        _ => Err(Status::INVALID_OPCODE.with_dnr()),
    }?;
    Ok(Reply::Done([dw0, 0]))
}

/// Sends a page of data to the host.
async fn send(context: &Context<'_>, workspace: &mut Workspace, page: Vec<u8>) -> Result<u32, Status> {
    let core = context.core;
    context.resolve(workspace, page.len() as u64, true).await?;
    let mut at = 0;
    let mut sent = core.clock.now();
    for extent in workspace.collector.extents() {
        let count = extent.bytes() as usize;
        if let Extent::Memory(segment) = extent {
            let bytes: Rc<[u8]> = page[at..at + count].into();
            let epoch = workspace.collector.epoch();
            let written = core.port.write_bytes(segment.address, bytes, epoch, Purpose::Data);
            sent = written.map_err(|_: Fault| Status::DATA_TRANSFER_ERROR)?.sent;
            add(&core.counters.data_out_bytes, count as u64);
        }
        at += count;
    }
    core.clock.sleep_until(sent).await;
    context.charge(Stage::Link);
    context.check()?;
    Ok(0)
}

/// The entries of a queue to be created, if the size and place are possible.
fn queue_entries(core: &Core, qsize_z: u16, pc: bool, base: u64) -> Result<u32, Status> {
    let entries = u32::from(qsize_z) + 1;
    if !(2..=core.config.controller.queue_entries_max).contains(&entries) {
        return Err(Status::INVALID_QUEUE_SIZE.with_dnr());
    }
    // CAP.CQR: queues are physically contiguous.
    if !pc {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    if !base.is_multiple_of(u64::from(core.registers.page_bytes.get())) {
        return Err(Status::PRP_OFFSET_INVALID.with_dnr());
    }
    Ok(entries)
}

fn create_completion_queue(context: &Context<'_>) -> Result<u32, Status> {
    let core = context.core;
    let command = CreateCq::parse(context.sqe);
    let granted = core.queues_granted.get().map_or(core.config.controller.io_queues_max, |(_, cqs)| cqs);
    if command.qid == 0 || command.qid > granted || core.completion_queue(command.qid).is_some() {
        return Err(Status::INVALID_QUEUE_ID.with_dnr());
    }
    let entries = queue_entries(core, command.qsize_z, command.pc, context.sqe.prp1)?;
    if core.registers.cc.get().iocqes() != 4 {
        return Err(Status::INVALID_QUEUE_SIZE.with_dnr());
    }
    if command.ien && command.iv >= core.config.controller.vectors {
        return Err(Status::INVALID_INTERRUPT_VECTOR.with_dnr());
    }
    let vector = command.ien.then_some(command.iv);
    core.queue_created(Doorbell::CompletionHead(command.qid));
    let queue = CompletionQueue::new(command.qid, context.sqe.prp1, entries, vector);
    core.queues.borrow_mut().completion[command.qid as usize] = Some(queue.clone());
    core.queues_changed();
    core.shadow_completion(&queue);
    Ok(0)
}

fn create_submission_queue(context: &Context<'_>) -> Result<u32, Status> {
    let core = context.core;
    let command = CreateSq::parse(context.sqe);
    let granted = core.queues_granted.get().map_or(core.config.controller.io_queues_max, |(sqs, _)| sqs);
    if command.qid == 0 || command.qid > granted || core.submission_queue(command.qid).is_some() {
        return Err(Status::INVALID_QUEUE_ID.with_dnr());
    }
    let entries = queue_entries(core, command.qsize_z, command.pc, context.sqe.prp1)?;
    if core.registers.cc.get().iosqes() != 6 {
        return Err(Status::INVALID_QUEUE_SIZE.with_dnr());
    }
    if command.cqid == 0 || command.cqid > core.config.controller.io_queues_max {
        return Err(Status::INVALID_QUEUE_ID.with_dnr());
    }
    let cq = core.completion_queue(command.cqid).ok_or(Status::COMPLETION_QUEUE_INVALID.with_dnr())?;
    core.add_submission_queue(command.qid, context.sqe.prp1, entries, cq, command.qprio);
    Ok(0)
}

/// Commands of the queue are aborted and complete before this does.
async fn delete_submission_queue(context: &Context<'_>) -> Result<u32, Status> {
    let core = context.core;
    let qid = DeleteQueue::parse(context.sqe).qid;
    let queue = (qid > 0).then(|| core.submission_queue(qid)).flatten();
    let queue = queue.filter(|queue| queue.fate.get() == Fate::Live);
    let queue = queue.ok_or(Status::INVALID_QUEUE_ID.with_dnr())?;
    queue.fate.set(Fate::Deleting);
    core.arbiter.remove(qid);
    core.delete_train(&queue);
    core.delete_partials(qid);
    queue.drain().await;
    context.check()?; // a reset: the queue is gone already
    let cq = &queue.completion_queue;
    cq.users.set(cq.users.get() - 1);
    core.queues.borrow_mut().submission[qid as usize] = None;
    core.queues_changed();
    Ok(0)
}

fn delete_completion_queue(context: &Context<'_>) -> Result<u32, Status> {
    let core = context.core;
    let qid = DeleteQueue::parse(context.sqe).qid;
    let queue = (qid > 0).then(|| core.completion_queue(qid)).flatten();
    let queue = queue.ok_or(Status::INVALID_QUEUE_ID.with_dnr())?;
    if queue.users.get() > 0 {
        return Err(Status::INVALID_QUEUE_DELETION.with_dnr());
    }
    core.queues.borrow_mut().completion[qid as usize] = None;
    core.queues_changed();
    Ok(0)
}

/// Dword 0 of Abort's completion: bit 0 set says that the command was not aborted. It completes after the command.
async fn abort(context: &Context<'_>) -> Result<u32, Status> {
    let core = context.core;
    let command = Abort::parse(context.sqe);
    if core.submission_queue(command.sqid).is_none() {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    if core.aborts.get() >= ABORTS_MAX {
        return Err(Status::ABORT_LIMIT_EXCEEDED);
    }
    if command.sqid == 0 && core.events.abort(command.cid) {
        core.answer_events();
        return Ok(0);
    }
    if core.abort_train(command.sqid, command.cid) || core.abort_waiting(command.sqid, command.cid) {
        return Ok(0);
    }
    let Some(slot) = core.slots.iter().find(|slot| slot.runs(command.sqid, command.cid)) else {
        return Ok(Abort::NOT_ABORTED);
    };
    core.aborts.set(core.aborts.get() + 1);
    let aborted = slot.abort().await;
    core.aborts.set(core.aborts.get() - 1);
    context.check()?;
    Ok(if aborted { 0 } else { Abort::NOT_ABORTED })
}

async fn get_log_page(context: &Context<'_>, workspace: &mut Workspace) -> Result<u32, Status> {
    let core = context.core;
    let command = GetLogPage::parse(context.sqe);
    let drive_wide = context.sqe.nsid == NSID_ALL || context.sqe.nsid == 0;
    let page = match command.lid {
        lid::SUPPORTED_LOG_PAGES => supported_log_pages().as_bytes().to_vec(),
        lid::ERROR_INFORMATION => core.errors.page(),
        lid::SMART => {
            let page = smart(&core.counters, &core.errors, core.percentage_used(), core.clock.now());
            page.as_bytes().to_vec()
        }
        lid::FIRMWARE_SLOT => {
            let mut page = FirmwareSlotLog { afi: 1, ..Default::default() };
            page.frs[0] = byteway_wire::nvme::identify::ascii_field(env!("CARGO_PKG_VERSION"));
            page.as_bytes().to_vec()
        }
        lid::COMMANDS_SUPPORTED => commands_supported(&core.config).as_bytes().to_vec(),
        lid::FEATURES_SUPPORTED => features_supported(core.config.transfer.methods).as_bytes().to_vec(),
        // None: there is no management endpoint.
        lid::NVME_MI_COMMANDS_SUPPORTED => NvmeMiCommandsSupportedLog::default().as_bytes().to_vec(),
        _ => return Err(Status::INVALID_LOG_PAGE.with_dnr()),
    };
    let (offset, wanted) = (command.lpo, command.bytes());
    let transfer_max = u64::from(core.config.controller.transfer_bytes_max);
    // All of them are the controller's: a namespace is not to be named.
    if !drive_wide || command.ot || offset % 4 != 0 || offset > page.len() as u64 || wanted > transfer_max {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    let mut part = page[offset as usize..].to_vec();
    part.resize(wanted as usize, 0);
    send(context, workspace, part).await?;
    if !command.rae {
        core.events.log_read(command.lid);
        core.events_changed.notify_one();
    }
    Ok(0)
}

fn set_features(context: &Context<'_>) -> Result<u32, Status> {
    let core = context.core;
    let features = &core.features;
    let command = SetFeatures::parse(context.sqe);
    let value = command.cdw11;
    let invalid = Err(Status::INVALID_FIELD.with_dnr());
    if command.sv {
        return Err(Status::FEATURE_NOT_SAVEABLE.with_dnr());
    }
    let offered = core.config.transfer.methods;
    if !is_supported(command.fid, offered) {
        return invalid;
    }
    // Every feature here is of the controller: a namespace is not to be named.
    if context.sqe.nsid != 0 && context.sqe.nsid != NSID_ALL {
        return Err(Status::FEATURE_NOT_NAMESPACE_SPECIFIC.with_dnr());
    }
    match command.fid {
        fid::ARBITRATION => {
            features.arbitration.set(Arbitration::from_bits(value));
            core.arbiter.set_weights(features.weights());
        }
        fid::POWER_MANAGEMENT if value & 0x1f != 0 => return invalid,
        fid::POWER_MANAGEMENT => features.power.set(value),
        fid::TEMPERATURE_THRESHOLD => {
            let threshold = TemperatureThreshold::from_bits(value);
            // Only the composite temperature exists; 15 stands for all.
            if !matches!(threshold.tmpsel(), 0 | 15) || threshold.thsel() > 1 {
                return invalid;
            }
            let under = threshold.thsel() == 1;
            let cell = if under { &features.under_temperature } else { &features.over_temperature };
            cell.set(threshold.tmpth());
            let crossed =
                if under { TEMPERATURE <= threshold.tmpth() } else { TEMPERATURE >= threshold.tmpth() };
            if crossed && features.async_events.get().smart() & 0b10 != 0 {
                core.raise(byteway_wire::nvme::AsyncEvent::TEMPERATURE_THRESHOLD);
            }
        }
        fid::ERROR_RECOVERY => features.error_recovery.set(value & 0xffff),
        fid::VOLATILE_WRITE_CACHE => features.write_cache.set(VolatileWriteCache::from_bits(value & 1)),
        fid::NUMBER_OF_QUEUES => {
            let wanted = NumberOfQueues::from_bits(value);
            let queues = core.queues.borrow();
            let exist = queues.submission[1..].iter().any(Option::is_some)
                || queues.completion[1..].iter().any(Option::is_some);
            if exist {
                return Err(Status::COMMAND_SEQUENCE_ERROR.with_dnr());
            }
            if wanted.nsq_z() == u16::MAX || wanted.ncq_z() == u16::MAX {
                return invalid;
            }
            let most = core.config.controller.io_queues_max;
            let granted = ((wanted.nsq_z() + 1).min(most), (wanted.ncq_z() + 1).min(most));
            core.queues_granted.set(Some(granted));
            return Ok(queues_dword(granted));
        }
        fid::INTERRUPT_COALESCING => {
            let mask = core.registers.interrupt_mask.get();
            core.interrupts.set_coalescing(InterruptCoalescing::from_bits(value & 0xffff), mask);
        }
        fid::INTERRUPT_VECTOR_CONFIGURATION => {
            let vector = InterruptVectorConfiguration::from_bits(value);
            if !core.interrupts.set_uncoalesced(vector.iv(), vector.cd()) {
                return invalid;
            }
        }
        fid::WRITE_ATOMICITY => features.write_atomicity.set(value & 1),
        fid::ASYNC_EVENT_CONFIGURATION => features.async_events.set(AsyncEventConfig::from_bits(value)),
        fid::PAYLOAD_METHODS => {
            let methods = Methods::from_bits(value);
            if !methods.is_within(offered) {
                return invalid;
            }
            io_queue(core, context.sqe.cdw12)?.methods.set(methods);
        }
        _ => return invalid,
    }
    Ok(0)
}

/// The I/O submission queue whose identifier stands in the low half of `dword`.
fn io_queue(core: &Core, dword: u32) -> Result<Rc<SubmissionQueue>, Status> {
    let id = dword as u16;
    let queue = (id > 0).then(|| core.submission_queue(id)).flatten();
    queue.ok_or(Status::INVALID_QUEUE_ID.with_dnr())
}

fn queues_dword((sqs, cqs): (u16, u16)) -> u32 {
    NumberOfQueues::new().with_nsq_z(sqs - 1).with_ncq_z(cqs - 1).into_bits()
}

fn get_features(context: &Context<'_>) -> Result<u32, Status> {
    let core = context.core;
    let features = &core.features;
    let command = GetFeatures::parse(context.sqe);
    if !is_supported(command.fid, core.config.transfer.methods) {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    // Nothing is saved: the saved value is the default.
    let default = match command.sel {
        Select::CURRENT => false,
        Select::DEFAULT | Select::SAVED => true,
        Select::SUPPORTED => return Ok(Select::CHANGEABLE),
        _ => return Err(Status::INVALID_FIELD.with_dnr()),
    };
    let most = core.config.controller.io_queues_max;
    let pick = |current: u32, initial: u32| if default { initial } else { current };
    Ok(match command.fid {
        fid::ARBITRATION => {
            pick(features.arbitration.get().into_bits(), features.default_arbitration().into_bits())
        }
        fid::POWER_MANAGEMENT => pick(features.power.get(), 0),
        fid::TEMPERATURE_THRESHOLD => {
            let threshold = TemperatureThreshold::from_bits(command.cdw11);
            match (threshold.tmpsel(), threshold.thsel()) {
                (0, 0) => pick(features.over_temperature.get().into(), Features::OVER_TEMPERATURE.into()),
                (0, 1) => pick(features.under_temperature.get().into(), 0),
                _ => return Err(Status::INVALID_FIELD.with_dnr()),
            }
        }
        fid::ERROR_RECOVERY => pick(features.error_recovery.get(), 0),
        fid::VOLATILE_WRITE_CACHE => pick(features.write_cache.get().into_bits(), 1),
        fid::NUMBER_OF_QUEUES => {
            let all = (most, most);
            pick(queues_dword(core.queues_granted.get().unwrap_or(all)), queues_dword(all))
        }
        fid::INTERRUPT_COALESCING => pick(core.interrupts.coalescing().into_bits(), 0),
        fid::INTERRUPT_VECTOR_CONFIGURATION => {
            let wanted = InterruptVectorConfiguration::from_bits(command.cdw11);
            let current = core.interrupts.uncoalesced(wanted.iv()).ok_or(Status::INVALID_FIELD.with_dnr())?;
            let answer = InterruptVectorConfiguration::new().with_iv(wanted.iv());
            pick(answer.with_cd(current).into_bits(), answer.into_bits())
        }
        fid::WRITE_ATOMICITY => pick(features.write_atomicity.get(), 0),
        fid::ASYNC_EVENT_CONFIGURATION => pick(features.async_events.get().into_bits(), 0),
        fid::PAYLOAD_METHODS => pick(io_queue(core, command.cdw11)?.methods.get().into_bits(), 0),
        _ => return Err(Status::INVALID_FIELD.with_dnr()),
    })
}
