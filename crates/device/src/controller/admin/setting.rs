//! Set Features and Get Features (NVMe Base 2.1, 5.1.25 and 5.1.11).

use crate::config::{CommandSet, DriveConfig};
use crate::controller::admin::keep_alive;
use crate::controller::background::operation::perform;
use crate::controller::command::context::Context;
use crate::controller::command::send::send_page;
use crate::controller::command::workspace::{Landing, Workspace};
use crate::controller::core::Core;
use crate::controller::memory::host_buffer::{self, HostBuffer};
use crate::controller::queue::ring::SubmissionQueue;
use crate::controller::state::feature::{Features, is_of_namespace, is_saveable};
use crate::controller::state::operations::Operation;
use byteway_link::{Fault, Purpose};
use byteway_wire::nvme::feature::{
    Arbitration, AsyncEvent, AsyncEventConfig, ErrorRecovery, HostBehavior, HostBufferEntry,
    HostMemoryBuffer, InterruptCoalescing, InterruptVectorConfiguration, NumberOfQueues,
    TemperatureThreshold, Timestamp, VolatileWriteCache, WriteProtection, fid,
};
use byteway_wire::nvme::vendor::Methods;
use byteway_wire::nvme::vendor::collection::CollectionWindow;
use byteway_wire::nvme::vendor::loans::Loans;
use byteway_wire::nvme::{GetFeatures, NSID_ALL, Select, SetFeatures, Status};
use std::rc::Rc;

/// Set Features. Returns dword 0 of the completion.
pub async fn set_features(context: &Context<'_>, workspace: &mut Workspace) -> Result<u32, Status> {
    let core = context.core;
    let command = SetFeatures::parse(context.sqe);
    let nsid = context.sqe.nsid;
    if !is_supported(command.fid, &core.config) {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    if command.sv && !core.saves(command.fid) {
        return Err(Status::FEATURE_NOT_SAVEABLE.with_dnr());
    }
    // A feature of controller scope must not name a namespace.
    if !is_of_namespace(command.fid) && nsid != 0 && nsid != NSID_ALL {
        return Err(Status::FEATURE_NOT_NAMESPACE_SPECIFIC.with_dnr());
    }
    match command.fid {
        fid::TIMESTAMP => {
            context.bring(workspace, 8, Landing::Bytes).await?;
            let bytes = workspace.bytes[..].try_into().map_err(|_| Status::INTERNAL_ERROR)?;
            core.features.timestamp.set(Timestamp::from_bytes(bytes).milliseconds, core.clock.now());
            // Excludes namespace changes, which may take minutes: hosts set the timestamp whenever they come up.
            core.store().await;
            return Ok(0);
        }
        fid::HOST_BEHAVIOR_SUPPORT => {
            context.bring(workspace, HostBehavior::BYTES as u64, Landing::Bytes).await?;
            let bytes = workspace.bytes[..].try_into().map_err(|_| Status::INTERNAL_ERROR)?;
            core.features.host_behavior.set(possible(HostBehavior::from_bytes(bytes))?);
            return Ok(0);
        }
        fid::HOST_MEMORY_BUFFER => return set_host_buffer(core, HostMemoryBuffer::parse(&command)).await,
        fid::ERROR_RECOVERY => {
            set_error_recovery(core, nsid, ErrorRecovery::from_bits(command.cdw11))?;
            return Ok(0);
        }
        fid::NAMESPACE_WRITE_PROTECTION => {
            let state = WriteProtection::from_bits(command.cdw11)
                .filter(|state| matches!(state, WriteProtection::None | WriteProtection::Protected))
                .ok_or(Status::INVALID_FIELD.with_dnr())?;
            if nsid != NSID_ALL {
                core.inventory.active(nsid)?;
            }
            return perform(context, Operation::Protect { nsid, state }).await;
        }
        _ => {}
    }
    let dw0 = set_value(context, &command)?;
    if command.sv {
        let (which, value) = to_save(&command);
        core.features.save(command.fid, which, value);
        core.store().await;
    }
    Ok(dw0)
}

impl Core {
    /// Whether a value of the feature can be saved: the record holds those of the drive's first controller.
    fn saves(&self, feature: u8) -> bool {
        self.number == 0 && is_saveable(feature)
    }
}

/// Sets the error recovery of a namespace, or of all that are active. Errors of deallocated blocks (DULBE) are for namespaces that
/// have them (NSFEAT), which none does: they read as zeroes.
fn set_error_recovery(core: &Core, nsid: u32, asked: ErrorRecovery) -> Result<(), Status> {
    if asked.dulbe() {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    let all = (1..=core.inventory.nsid_max()).filter_map(|nsid| core.inventory.active(nsid).ok());
    let active: Vec<u64> = all.map(|namespace| namespace.uid).collect();
    let mut values = core.features.error_recovery.borrow_mut();
    values.retain(|uid, _| active.contains(uid)); // a deleted namespace leaves nothing behind
    match nsid {
        NSID_ALL => values.extend(active.iter().map(|uid| (*uid, asked.tler()))),
        _ => _ = values.insert(core.inventory.active(nsid)?.uid, asked.tler()),
    }
    Ok(())
}

/// Borrows host memory, or returns it. Returned memory ([`HostMemoryBuffer::is_returned`]) is treated like new memory:
/// the drive expects no earlier contents there.
async fn set_host_buffer(core: &Core, asked: HostMemoryBuffer) -> Result<u32, Status> {
    let Some(config) = core.config.controller.host_buffer else {
        return Err(Status::INVALID_FIELD.with_dnr());
    };
    if !asked.is_enabled {
        core.return_host_buffer().await;
        return Ok(0);
    }
    if core.features.host_buffer.get().is_enabled {
        return Err(Status::COMMAND_SEQUENCE_ERROR.with_dnr());
    }
    let page_bytes = core.registers.page_bytes.get();
    let units_max = host_buffer::units(&asked, page_bytes, config)?;
    let mut list = vec![0; asked.entries as usize * HostBufferEntry::BYTES];
    let read = core.port.read(asked.list, &mut list, Purpose::HostBuffer).await;
    read.map_err(|_: Fault| Status::DATA_TRANSFER_ERROR)?;
    let (entries, _) = list.as_chunks();
    let entries = entries.iter().map(HostBufferEntry::from_bytes);
    let buffer = HostBuffer::new(&core.port, entries, page_bytes, units_max)?;
    let places = buffer.places();
    if places < config.least_units {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    // A concurrent command may have lent memory first.
    if !core.backing.borrow_memory(Rc::new(buffer), places) {
        return Err(Status::COMMAND_SEQUENCE_ERROR.with_dnr());
    }
    core.features.host_buffer.set(asked);
    Ok(0)
}

/// Host behavior that the drive accepts. A host reports its abilities, which may exceed what the drive uses; but Copy
/// descriptor formats are enabled by it, and none can be (CDFS).
fn possible(behavior: HostBehavior) -> Result<HostBehavior, Status> {
    let HostBehavior { acre, etdas, lbafee, hdisns, cdfe } = behavior;
    let is_possible = [acre, etdas, lbafee, hdisns].iter().all(|field| *field <= 1) && cdfe == 0;
    is_possible.then_some(behavior).ok_or(Status::INVALID_FIELD.with_dnr())
}

/// Index of the feature value that was set, and its saved form.
fn to_save(command: &SetFeatures) -> (u8, u32) {
    match command.fid {
        fid::TEMPERATURE_THRESHOLD => {
            let threshold = TemperatureThreshold::from_bits(command.cdw11);
            (threshold.thsel(), threshold.tmpth().into())
        }
        fid::INTERRUPT_COALESCING => (0, command.cdw11 & 0xffff),
        fid::VOLATILE_WRITE_CACHE | fid::WRITE_ATOMICITY => (0, command.cdw11 & 1),
        _ => (0, command.cdw11),
    }
}

/// Sets a feature whose value is a dword.
fn set_value(context: &Context<'_>, command: &SetFeatures) -> Result<u32, Status> {
    let core = context.core;
    let features = &core.features;
    let value = command.cdw11;
    let invalid = Err(Status::INVALID_FIELD.with_dnr());
    let offered = core.config.transfer.methods;
    match command.fid {
        fid::ARBITRATION => {
            features.arbitration.set(Arbitration::from_bits(value));
            core.queues.arbiter.set_weights(features.weights());
        }
        fid::POWER_MANAGEMENT if value & 0x1f != 0 => return invalid,
        fid::POWER_MANAGEMENT => features.power.set(value),
        fid::TEMPERATURE_THRESHOLD => {
            let threshold = TemperatureThreshold::from_bits(value);
            // Only the composite temperature exists; 15 selects all.
            if !matches!(threshold.tmpsel(), 0 | 15) || threshold.thsel() > 1 {
                return invalid;
            }
            let under = threshold.thsel() == 1;
            let cell = if under { &features.under_temperature } else { &features.over_temperature };
            cell.set(threshold.tmpth());
            let temperature = core.temperature();
            let crossed =
                if under { temperature <= threshold.tmpth() } else { temperature >= threshold.tmpth() };
            if crossed && features.async_events.get().smart() & 0b10 != 0 {
                core.events.raise(byteway_wire::nvme::AsyncEvent::TEMPERATURE_THRESHOLD);
            }
        }
        fid::VOLATILE_WRITE_CACHE => features.write_cache.set(VolatileWriteCache::from_bits(value & 1)),
        fid::NUMBER_OF_QUEUES => {
            let wanted = NumberOfQueues::from_bits(value);
            if core.queues.has_io_queues() {
                return Err(Status::COMMAND_SEQUENCE_ERROR.with_dnr());
            }
            if wanted.nsq_z() == u16::MAX || wanted.ncq_z() == u16::MAX {
                return invalid;
            }
            let most = core.config.controller.io_queues_max;
            let granted = ((wanted.nsq_z() + 1).min(most), (wanted.ncq_z() + 1).min(most));
            core.queues.granted.set(Some(granted));
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
        fid::KEEP_ALIVE_TIMER => keep_alive::set(core, value)?,
        // There is one combination of command sets.
        fid::COMMAND_SET_PROFILE if value & 0x1FF != 0 => {
            return Err(Status::COMMAND_SET_COMBINATION_REJECTED.with_dnr());
        }
        fid::COMMAND_SET_PROFILE => {}
        fid::PAYLOAD_METHODS => {
            let methods = Methods::from_bits(value);
            if !methods.is_within(offered) {
                return invalid;
            }
            io_queue(core, context.sqe.cdw12)?.methods.set(methods);
            if methods.cxl_commit() {
                core.memory.commits.switch_on();
            }
        }
        fid::COLLECTION_WINDOW => {
            let Some(ftl) = core.backing.ftl() else { return invalid };
            let asked = CollectionWindow::from_bits(value);
            features.collection_notices.set(asked.notify());
            if asked.open() {
                // An event that is held for an earlier window is out of date.
                core.events.withdraw(AsyncEvent::COLLECTION_BEGUN);
                ftl.open_collection_window(asked.blocks().into());
            }
        }
        fid::LOANS => {
            let asked = Loans::from_bits(value);
            if asked.revoke() {
                core.borrowed.revoke(asked.lender());
            }
        }
        _ => return invalid,
    }
    Ok(0)
}

/// The I/O submission queue whose identifier is in the low half of `dword`.
fn io_queue(core: &Core, dword: u32) -> Result<Rc<SubmissionQueue>, Status> {
    let id = dword as u16;
    let queue = (id > 0).then(|| core.queues.submission(id)).flatten();
    queue.ok_or(Status::INVALID_QUEUE_ID.with_dnr())
}

fn queues_dword((sqs, cqs): (u16, u16)) -> u32 {
    NumberOfQueues::new().with_nsq_z(sqs - 1).with_ncq_z(cqs - 1).into_bits()
}

/// Get Features. Returns dword 0 of the completion; timestamp and host behavior are transferred as data.
pub async fn get_features(context: &Context<'_>, workspace: &mut Workspace) -> Result<u32, Status> {
    let core = context.core;
    let command = GetFeatures::parse(context.sqe);
    if !is_supported(command.fid, &core.config) || command.sel.0 > Select::SUPPORTED.0 {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    if command.sel == Select::SUPPORTED {
        let saveable = if core.saves(command.fid) { Select::SAVEABLE } else { 0 };
        let of_namespace = if is_of_namespace(command.fid) { Select::NAMESPACE_SPECIFIC } else { 0 };
        return Ok(Select::CHANGEABLE | saveable | of_namespace);
    }
    match command.fid {
        fid::TIMESTAMP => {
            // Default and saved value: never set.
            let timestamp = match command.sel {
                Select::CURRENT => core.features.timestamp.get(core.clock.now()),
                _ => Timestamp::default(),
            };
            send_page(context, workspace, timestamp.to_bytes().to_vec()).await
        }
        fid::HOST_BEHAVIOR_SUPPORT => {
            let behavior = match command.sel {
                Select::CURRENT => core.features.host_behavior.get(),
                _ => HostBehavior::default(),
            };
            send_page(context, workspace, behavior.to_bytes().to_vec()).await
        }
        fid::HOST_MEMORY_BUFFER => {
            // Default and saved value: no memory.
            let buffer = match command.sel {
                Select::CURRENT => core.features.host_buffer.get(),
                _ => HostMemoryBuffer::default(),
            };
            send_page(context, workspace, buffer.to_bytes().to_vec()).await?;
            Ok(buffer.dword())
        }
        fid::ERROR_RECOVERY => {
            let uid = core.inventory.active(context.sqe.nsid)?.uid;
            let current = core.features.error_recovery.borrow().get(&uid).copied();
            let tler = current.filter(|_| command.sel == Select::CURRENT).unwrap_or(0);
            Ok(ErrorRecovery::new().with_tler(tler).into_bits())
        }
        fid::NAMESPACE_WRITE_PROTECTION => {
            let protection = core.inventory.active(context.sqe.nsid)?.protection.get();
            Ok(if command.sel == Select::CURRENT { protection.bits() } else { 0 })
        }
        _ => get_value(core, &command),
    }
}

/// The value of a dword feature: current, default, or saved, which is the default if none was saved.
fn get_value(core: &Core, command: &GetFeatures) -> Result<u32, Status> {
    let features = &core.features;
    let most = core.config.controller.io_queues_max;
    let which = match command.fid {
        fid::TEMPERATURE_THRESHOLD => TemperatureThreshold::from_bits(command.cdw11).thsel(),
        _ => 0,
    };
    let pick = |current: u32, initial: u32| match command.sel {
        Select::CURRENT => current,
        Select::SAVED => features.saved_value(command.fid, which).unwrap_or(initial),
        _ => initial,
    };
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
        fid::VOLATILE_WRITE_CACHE => pick(features.write_cache.get().into_bits(), 1),
        fid::NUMBER_OF_QUEUES => {
            let all = (most, most);
            pick(queues_dword(core.queues.granted.get().unwrap_or(all)), queues_dword(all))
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
        fid::KEEP_ALIVE_TIMER => pick(features.keep_alive_ms.get(), 0),
        fid::COMMAND_SET_PROFILE => 0,
        fid::PAYLOAD_METHODS => pick(io_queue(core, command.cdw11)?.methods.get().into_bits(), 0),
        fid::COLLECTION_WINDOW => {
            let is_open = core.backing.ftl().is_some_and(|ftl| ftl.collection().dies_in_window > 0);
            let current =
                CollectionWindow::new().with_notify(features.collection_notices.get()).with_open(is_open);
            pick(current.into_bits(), 0)
        }
        fid::LOANS => {
            let hold = core.borrowed.count().min(u8::MAX.into()) as u8;
            pick(Loans::new().with_lender(hold).into_bits(), 0)
        }
        _ => return Err(Status::INVALID_FIELD.with_dnr()),
    })
}

/// Whether the drive supports a feature: [`fid::PAYLOAD_METHODS`] if it offers methods, the command set profile if it
/// has several sets, the Host Memory Buffer if it requests one, garbage collection windows if it has them, loans if
/// peers work for it.
pub fn is_supported(feature: u8, config: &DriveConfig) -> bool {
    match feature {
        fid::PAYLOAD_METHODS => !config.transfer.methods.is_empty(),
        fid::COMMAND_SET_PROFILE => CommandSet::are_several(config),
        fid::HOST_MEMORY_BUFFER => config.controller.host_buffer.is_some(),
        fid::COLLECTION_WINDOW => config.controller.collection_windows,
        fid::LOANS => config.controller.borrows,
        fid::TIMESTAMP
        | fid::KEEP_ALIVE_TIMER
        | fid::HOST_BEHAVIOR_SUPPORT
        | fid::NAMESPACE_WRITE_PROTECTION => true,
        fid::LBA_RANGE_TYPE => false,
        _ => matches!(feature, fid::ARBITRATION..=fid::ASYNC_EVENT_CONFIGURATION),
    }
}
