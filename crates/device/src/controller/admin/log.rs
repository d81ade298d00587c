//! Log pages (NVMe Base 2.1, 5.1.12): errors, health with live counters, supported features and commands.

use crate::config::{CommandSet, DriveConfig, Temperature};
use crate::controller::admin::setting::is_supported;
use crate::controller::core::Core;
use crate::controller::namespace::record::Totals;
use crate::controller::state::feature::{Features, is_of_namespace};
use byteway_clock::{Delay, Lateness, Timing};
use byteway_firmware::{CollectionState, Health};
use byteway_wire::nvme::feature::fid;
use byteway_wire::nvme::log::scope;
use byteway_wire::nvme::vendor::collection::CollectionLog;
use byteway_wire::nvme::vendor::pace::PaceLog;
use byteway_wire::nvme::{
    AdminOpcode, CommandsSupportedLog, FeaturesSupportedLog, NvmOpcode, SmartLog, SupportedLogPages, lid,
};

/// The SMART / Health Information log page of a controller.
pub(crate) fn smart_of(core: &Core) -> SmartLog {
    let log = smart(&core.totals(), core.critical_warning(), core.percentage_used(), &core.backing.health());
    let (temperature, now) = (&core.config.temperature, core.clock.now());
    let [warning, critical] = [Features::OVER_TEMPERATURE, Features::CRITICAL_TEMPERATURE];
    let whole = |from, to, unit_s| (temperature.time_at(now, from..to).0 / Delay::from_s(unit_s).0) as u32;
    let log = SmartLog {
        composite_temperature: temperature.at(now).into(),
        warning_temperature_time: whole(warning, critical, 60),
        critical_temperature_time: whole(critical, u16::MAX, 60),
        ..log
    };
    let Some([light, heavy]) = temperature.throttles else { return log };
    SmartLog {
        thermal_1_transitions: temperature.rises(now, light),
        thermal_2_transitions: temperature.rises(now, heavy),
        thermal_1_time: whole(light, heavy, 1),
        thermal_2_time: whole(heavy, u16::MAX, 1),
        ..log
    }
}

/// The SMART / Health Information log page.
pub fn smart(totals: &Totals, critical_warning: u8, percentage_used: u8, health: &Health) -> SmartLog {
    SmartLog {
        critical_warning,
        composite_temperature: Temperature::USUAL.into(),
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

/// The Supported Log Pages log page.
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
    if config.controller.collection_windows {
        page.lids[usize::from(lid::COLLECTION)] = SupportedLogPages::LSUPP;
    }
    if config.programs.is_some() {
        for lid in [lid::PROGRAMS, lid::PROGRAM_TYPES, lid::MEMORY_RANGE_SETS] {
            page.lids[usize::from(lid)] = SupportedLogPages::LSUPP;
        }
    }
    if timing.is_some() {
        page.lids[usize::from(lid::PACE)] = SupportedLogPages::LSUPP;
    }
    page
}

/// The garbage collection log page of a drive.
pub fn collection(state: CollectionState) -> CollectionLog {
    let CollectionState { windows, dies_in_window, free_least, free_start } = state;
    CollectionLog { windows, dies_in_window, free_least, free_start, ..CollectionLog::default() }
}

/// The pace log page: how a drive that is served in real time keeps up with its model.
pub fn pace(timing: Timing, pace: Lateness) -> PaceLog {
    let ns = |delay: Delay| delay.0 / 1_000;
    match timing {
        Timing::None => PaceLog::default(),
        Timing::Model => PaceLog {
            modelled: 1,
            late_from_ns: ns(Lateness::LATE) as u32,
            waits: pace.waits,
            late: pace.late,
            lateness_ns: ns(pace.lateness),
            worst_ns: ns(pace.worst),
            slipped_ns: ns(pace.slipped),
            ..PaceLog::default()
        },
    }
}

/// The Commands Supported and Effects log page, with the I/O commands of one command set. Over an array of drives,
/// commands that need own media are left out.
pub fn commands_supported(
    config: &DriveConfig,
    has_own_media: bool,
    set: CommandSet,
) -> CommandsSupportedLog {
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
    // A host stops its I/O around these commands, and identifies its namespaces again.
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
    if config.is_raw() {
        for opcode in [
            AdminOpcode::FORMAT_NVM,
            AdminOpcode::NAMESPACE_MANAGEMENT,
            AdminOpcode::NAMESPACE_ATTACHMENT,
            AdminOpcode::SANITIZE,
        ] {
            page.acs[usize::from(opcode.0)] = 0;
        }
    }
    if config.controller.shadow_doorbells {
        page.acs[usize::from(AdminOpcode::DOORBELL_BUFFER_CONFIG.0)] = SUPPORTED | scope::CONTROLLER;
    }
    set.add_commands(config, &mut page);
    if !has_own_media {
        page.acs[usize::from(AdminOpcode::SANITIZE.0)] = 0;
        page.iocs[usize::from(NvmOpcode::WRITE_UNCORRECTABLE.0)] = 0;
    }
    page
}

/// The Feature Identifiers Supported and Effects log page. Setting a feature changes at most whether a namespace is
/// writable.
pub fn features_supported(config: &DriveConfig) -> FeaturesSupportedLog {
    let mut page = FeaturesSupportedLog::default();
    for fid in (0..=u8::MAX).filter(|fid| is_supported(*fid, config)) {
        let changes = if fid == fid::NAMESPACE_WRITE_PROTECTION { FeaturesSupportedLog::NCC } else { 0 };
        let effects = changes | if is_of_namespace(fid) { scope::NAMESPACE } else { scope::CONTROLLER };
        page.fids[usize::from(fid)] = FeaturesSupportedLog::FSUPP | effects;
    }
    page
}
