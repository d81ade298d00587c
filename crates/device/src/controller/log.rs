//! Log pages (NVMe Base 2.1, 5.1.12): errors, the drive's health with live counters, and what is supported.

use crate::config::DriveConfig;
use crate::controller::feature;
use crate::controller::persist::Totals;
use byteway_clock::{Delay, Pace, Timing};
use byteway_firmware::Health;
use byteway_wire::nvme::log::scope;
use byteway_wire::nvme::vendor::pace::PaceLog;
use byteway_wire::nvme::{
    AdminOpcode, CommandsSupportedLog, ErrorLogEntry, FeaturesSupportedLog, KvOpcode, NvmOpcode, SmartLog,
    Sqe, Status, SupportedLogPages, VendorOpcode, lid,
};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Entries that the error log keeps.
pub const ERROR_ENTRIES: usize = 64;

/// What the controller counts of the host's commands.
#[derive(Default)]
pub struct Counters {
    /// Read and Compare commands that moved data.
    pub reads: Cell<u64>,
    /// Write commands that moved data.
    pub writes: Cell<u64>,
    /// Bytes read by the host.
    pub read_bytes: Cell<u64>,
    /// Bytes written by the host.
    pub written_bytes: Cell<u64>,
    /// Time with a command outstanding.
    pub busy: Cell<Delay>,
    /// Media errors.
    pub media_errors: Cell<u64>,
    /// Submission queue entries fetched.
    pub fetched: Cell<u64>,
    /// Completion queue entries posted.
    pub posted: Cell<u64>,
    /// Bytes of payload taken from the host, as commands count them.
    pub data_in_bytes: Cell<u64>,
    /// Bytes of payload that came by submission queues, as commands count them: not in the former.
    pub carried_bytes: Cell<u64>,
    /// Submission queue entries that carried them. They are fetched too, unless their command was aborted before.
    pub carried_entries: Cell<u64>,
    /// Bytes of payload taken from the buffer that the host stores to, as commands count them.
    pub buffered_bytes: Cell<u64>,
    /// Commit records that were answered.
    pub records: Cell<u64>,
    /// Chunks that were there already.
    pub chunks_duplicate: Cell<u64>,
    /// Chunks that were not kept: for want of room, because there is no such chunk, or because it contradicts others.
    pub chunks_refused: Cell<u64>,
    /// Payloads that were incomplete for too long.
    pub payloads_given_up: Cell<u64>,
    /// Results that went where the data pointer says, for want of room behind the completion or for their length.
    pub results_fallen_back: Cell<u64>,
    /// Bytes of payload given to the host, with what they were rounded up by, and in whole slots behind completions.
    pub data_out_bytes: Cell<u64>,
    /// Controller resets.
    pub resets: Cell<u64>,
}

/// Adds to a counter.
pub fn add(counter: &Cell<u64>, count: u64) {
    counter.set(counter.get() + count);
}

/// The error log.
#[derive(Default)]
pub struct ErrorLog {
    entries: RefCell<VecDeque<ErrorLogEntry>>,
    count: Cell<u64>,
}

impl ErrorLog {
    /// Records a command that failed.
    pub fn record(&self, sqid: u16, sqe: &Sqe, status: Status, lba: u64, information: u64) {
        let count = self.count.get() + 1;
        self.count.set(count);
        let mut entry = ErrorLogEntry {
            error_count: count,
            sqid,
            cid: sqe.cid(),
            parameter_error_location: ErrorLogEntry::NONE,
            lba,
            command_specific: information,
            nsid: sqe.nsid,
            opcode: sqe.opcode(),
            version: 1, // of the layout that has the opcode
            ..Default::default()
        };
        entry.set_status(status);
        let mut entries = self.entries.borrow_mut();
        entries.push_front(entry);
        entries.truncate(ERROR_ENTRIES);
    }

    /// There were so many before this power cycle.
    pub fn restore(&self, count: u64) {
        self.count.set(count);
    }

    /// Errors in the controller's life.
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// The log page, newest first.
    pub fn page(&self) -> Vec<u8> {
        use byteway_wire::IntoBytes;
        let mut page = vec![0; ERROR_ENTRIES * ErrorLogEntry::SIZE];
        for (entry, into) in self.entries.borrow().iter().zip(page.chunks_exact_mut(ErrorLogEntry::SIZE)) {
            into.copy_from_slice(entry.as_bytes());
        }
        page
    }
}

/// The health page.
pub fn smart(totals: &Totals, critical_warning: u8, percentage_used: u8, health: &Health) -> SmartLog {
    SmartLog {
        critical_warning,
        composite_temperature: TEMPERATURE.into(),
        available_spare: health.available_spare_percent,
        available_spare_threshold: health.spare_threshold_percent,
        percentage_used,
        data_units_read: SmartLog::data_units(totals.read_bytes.into()).into(),
        data_units_written: SmartLog::data_units(totals.written_bytes.into()).into(),
        host_read_commands: u128::from(totals.reads).into(),
        host_write_commands: u128::from(totals.writes).into(),
        controller_busy_time: u128::from(totals.busy_ms / MINUTE_MS).into(),
        power_cycles: u128::from(totals.power_cycles).into(),
        power_on_hours: u128::from(totals.on_ms / (60 * MINUTE_MS)).into(),
        unsafe_shutdowns: u128::from(totals.unsafe_shutdowns).into(),
        media_errors: u128::from(totals.media_errors).into(),
        error_log_entries: u128::from(totals.errors).into(),
        ..Default::default()
    }
}

const MINUTE_MS: u64 = 60_000;

/// The drive has no thermometer: it reports 40 degrees Celsius, in kelvin.
pub const TEMPERATURE: u16 = 313;

/// Which log pages there are.
pub fn supported_log_pages(config: &DriveConfig, timing: Option<Timing>) -> SupportedLogPages {
    let mut page = SupportedLogPages::default();
    for lid in [
        lid::SUPPORTED_LOG_PAGES,
        lid::ERROR_INFORMATION,
        lid::SMART,
        lid::FIRMWARE_SLOT,
        lid::CHANGED_NAMESPACE_LIST,
        lid::COMMANDS_SUPPORTED,
        lid::DEVICE_SELF_TEST,
        lid::FEATURES_SUPPORTED,
        lid::NVME_MI_COMMANDS_SUPPORTED,
        lid::SANITIZE_STATUS,
    ] {
        page.lids[usize::from(lid)] = SupportedLogPages::LSUPP;
    }
    if config.transfer.memory.is_some() {
        page.lids[usize::from(lid::DEVICE_MEMORY)] = SupportedLogPages::LSUPP;
    }
    if timing.is_some() {
        page.lids[usize::from(lid::PACE)] = SupportedLogPages::LSUPP;
    }
    page
}

/// How a drive that is served in real time keeps to its model.
pub fn pace(timing: Timing, pace: Pace) -> PaceLog {
    let ns = |delay: Delay| delay.0 / 1_000;
    match timing {
        Timing::None => PaceLog::default(),
        Timing::Model => PaceLog {
            modelled: 1,
            late_from_ns: ns(Pace::LATE) as u32,
            waits: pace.waits,
            late: pace.late,
            lateness_ns: ns(pace.lateness),
            worst_ns: ns(pace.worst),
            slipped_ns: ns(pace.slipped),
            ..PaceLog::default()
        },
    }
}

/// The same under the Key Value command set.
pub fn kv_commands_supported(config: &DriveConfig) -> CommandsSupportedLog {
    const SUPPORTED: u32 = CommandsSupportedLog::CSUPP;
    const CHANGES_PAIRS: u32 = SUPPORTED | CommandsSupportedLog::LBCC;
    let offered = config.transfer.methods;
    let streams = |offered, effects| if offered { effects } else { 0 };
    let mut page = commands_supported(config);
    page.iocs.fill(0);
    for (opcode, effects) in [
        (KvOpcode::FLUSH.0, SUPPORTED),
        (KvOpcode::STORE.0, CHANGES_PAIRS),
        (KvOpcode::RETRIEVE.0, SUPPORTED),
        (KvOpcode::LIST.0, SUPPORTED),
        (KvOpcode::DELETE.0, CHANGES_PAIRS),
        (KvOpcode::EXIST.0, SUPPORTED),
        (VendorOpcode::TRANSFER.0, streams(offered.piggyback(), CHANGES_PAIRS)),
        (VendorOpcode::TRANSFER_PIPELINED.0, streams(offered.piggyback_pipelined(), CHANGES_PAIRS)),
        (VendorOpcode::KV_STORE_PIGGYBACK.0, streams(offered.piggyback(), CHANGES_PAIRS)),
        (VendorOpcode::KV_STORE_PIPELINED.0, streams(offered.piggyback_pipelined(), CHANGES_PAIRS)),
        (VendorOpcode::KV_SEEK.0, SUPPORTED),
        (VendorOpcode::KV_NEXT.0, SUPPORTED),
        (VendorOpcode::KV_CLOSE.0, SUPPORTED),
        (VendorOpcode::KV_STORE_MANY.0, CHANGES_PAIRS),
        (VendorOpcode::PAGE_POINTER.0, streams(offered.cxl_mem(), SUPPORTED)),
    ] {
        page.iocs[usize::from(opcode)] = effects;
    }
    page
}

/// Which commands there are, and what they may change.
pub fn commands_supported(config: &DriveConfig) -> CommandsSupportedLog {
    const SUPPORTED: u32 = CommandsSupportedLog::CSUPP;
    const CHANGES_BLOCKS: u32 = SUPPORTED | CommandsSupportedLog::LBCC;
    let mut page = CommandsSupportedLog::default();
    for opcode in [
        AdminOpcode::DELETE_SQ,
        AdminOpcode::CREATE_SQ,
        AdminOpcode::GET_LOG_PAGE,
        AdminOpcode::DELETE_CQ,
        AdminOpcode::CREATE_CQ,
        AdminOpcode::IDENTIFY,
        AdminOpcode::ABORT,
        AdminOpcode::SET_FEATURES,
        AdminOpcode::GET_FEATURES,
        AdminOpcode::ASYNC_EVENT_REQUEST,
        AdminOpcode::KEEP_ALIVE,
    ] {
        page.acs[usize::from(opcode.0)] = SUPPORTED | scope::CONTROLLER;
    }
    // A host stops its I/O around these, and looks at its namespaces again.
    const CHANGES_NAMESPACES: u32 = SUPPORTED | CommandsSupportedLog::NIC;
    for (opcode, effects) in [
        (
            AdminOpcode::FORMAT_NVM,
            CHANGES_BLOCKS | CommandsSupportedLog::NCC | CommandsSupportedLog::CSE_ANY | scope::NAMESPACE,
        ),
        (
            AdminOpcode::NAMESPACE_MANAGEMENT,
            CHANGES_NAMESPACES
                | CommandsSupportedLog::LBCC
                | CommandsSupportedLog::CSE_ANY
                | scope::SUBSYSTEM,
        ),
        (
            AdminOpcode::NAMESPACE_ATTACHMENT,
            CHANGES_NAMESPACES | CommandsSupportedLog::CSE_NAMESPACE | scope::NAMESPACE,
        ),
        (AdminOpcode::SANITIZE, CHANGES_BLOCKS | CommandsSupportedLog::CSE_ANY | scope::SUBSYSTEM),
        (AdminOpcode::DEVICE_SELF_TEST, SUPPORTED | scope::CONTROLLER),
    ] {
        page.acs[usize::from(opcode.0)] = effects;
    }
    if config.controller.shadow_doorbells {
        page.acs[usize::from(AdminOpcode::DOORBELL_BUFFER_CONFIG.0)] = SUPPORTED | scope::CONTROLLER;
    }
    for (opcode, effects) in [
        (NvmOpcode::FLUSH, SUPPORTED),
        (NvmOpcode::WRITE, CHANGES_BLOCKS),
        (NvmOpcode::READ, SUPPORTED),
        (NvmOpcode::WRITE_UNCORRECTABLE, CHANGES_BLOCKS),
        (NvmOpcode::COMPARE, SUPPORTED),
        (NvmOpcode::WRITE_ZEROES, CHANGES_BLOCKS),
        (NvmOpcode::DATASET_MANAGEMENT, CHANGES_BLOCKS),
        (NvmOpcode::VERIFY, SUPPORTED),
        (NvmOpcode::COPY, CHANGES_BLOCKS),
    ] {
        // Their scope, a namespace, may be left untold: Linux warns of I/O commands that have more than these effects.
        page.iocs[usize::from(opcode.0)] = effects;
    }
    if config.transfer.sink_bytes > 0 {
        for opcode in [VendorOpcode::SINK_WRITE, VendorOpcode::SINK_READ] {
            page.iocs[usize::from(opcode.0)] = SUPPORTED;
        }
        let offered = config.transfer.methods;
        for (opcode, offered) in [
            (VendorOpcode::SINK_STORE, offered.piggyback() || offered.piggyback_pipelined()),
            (VendorOpcode::TRANSFER, offered.piggyback()),
            (VendorOpcode::TRANSFER_PIPELINED, offered.piggyback_pipelined()),
        ] {
            page.iocs[usize::from(opcode.0)] = if offered { SUPPORTED } else { 0 };
        }
    }
    page
}

/// Which features there are, and what setting one may change: nothing but whether a namespace can be written.
pub fn features_supported(config: &DriveConfig) -> FeaturesSupportedLog {
    let mut page = FeaturesSupportedLog::default();
    for fid in (0..=u8::MAX).filter(|fid| feature::is_supported(*fid, config)) {
        let effects = match feature::is_of_namespace(fid) {
            true => FeaturesSupportedLog::NCC | scope::NAMESPACE,
            false => scope::CONTROLLER,
        };
        page.fids[usize::from(fid)] = FeaturesSupportedLog::FSUPP | effects;
    }
    page
}
