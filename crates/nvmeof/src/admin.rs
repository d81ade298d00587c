//! Admin commands of a fabrics controller. Commands about the drive and its namespaces are forwarded to the
//! drive; commands about the controller and its settings are answered here. Commands that would change the
//! drive for other hosts are refused.

use crate::ana;
use crate::controller::{AERL, Controller, KEEP_ALIVE_GRANULARITY, SGLS, Service, VERSION, ended};
use crate::movement::Movement;
use crate::path::{Path, is_passed_on};
use crate::subsystem::Subsystem;
use crate::{discovery, discovery_admin};
use byteway_clock::Delay;
use byteway_wire::FromBytes;
use byteway_wire::nvme::ana::LSP_GROUPS_ONLY;
use byteway_wire::nvme::feature::{AsyncEventConfig, fid};
use byteway_wire::nvme::identify::{ascii_field, csi, lpa, oacs, oaes, oncs};
use byteway_wire::nvme::log::lid;
use byteway_wire::nvme::vendor::{Capabilities, Methods};
use byteway_wire::nvme::{
    Abort, AdminOpcode, Cns, CommandsSupportedLog, ControllerList, Cqe, GetFeatures, GetLogPage, Identify,
    IdentifyController, IdentifyNamespace, NSID_ALL, NamespaceAttachment, NamespaceManagement, Select,
    SetFeatures, Sqe, Status, SupportedLogPages,
};
use zerocopy::{FromZeros, IntoBytes};

const INVALID_FIELD: Status = Status::INVALID_FIELD.with_dnr();
/// CNTRLTYPE: an I/O controller.
const CNTRLTYPE_IO: u8 = 1;
/// CMIC: multiple ports, multiple controllers, asymmetric namespace access reporting.
const CMIC: u8 = 1 | 1 << 1 | 1 << 3;

/// Optional NVM commands that are passed on.
const ONCS: u16 =
    oncs::COMPARE | oncs::WRITE_UNCORRECTABLE | oncs::DATASET_MANAGEMENT | oncs::WRITE_ZEROES | oncs::VERIFY;
/// Byteway's transfer methods that a fabric supports.
const METHODS: Methods = Methods::new().with_inline(true);
/// The combination of command sets, in an I/O Command Set Profile.
const PROFILE: u32 = 0x1FF;
/// Size of the Commands Supported and Effects log page.
const PAGE_BYTES: u32 = size_of::<CommandsSupportedLog>() as u32;
/// Size of the Host Behavior Support data; none of its fields has an effect here.
const HOST_BEHAVIOR_BYTES: u32 = 512;

/// Data movement of an admin command.
///
/// # Errors
/// It asks for more than a command may transfer.
pub(crate) fn movement(controller: &Controller, sqe: &Sqe) -> Result<Movement, Status> {
    let bytes_max = match controller.service() {
        Service::Drive(subsystem) => u64::from(subsystem.path().bytes_max()),
        Service::Discovery(_) => u64::from(discovery::BYTES_MAX),
    };
    Ok(match AdminOpcode(sqe.opcode()) {
        AdminOpcode::IDENTIFY => Movement::ToHost(Identify::BYTES),
        AdminOpcode::GET_LOG_PAGE => match GetLogPage::parse(sqe).bytes() {
            bytes if bytes <= bytes_max => Movement::ToHost(bytes as u32),
            _ => return Err(INVALID_FIELD),
        },
        AdminOpcode::GET_FEATURES if GetFeatures::parse(sqe).fid == fid::HOST_BEHAVIOR_SUPPORT => {
            Movement::ToHost(HOST_BEHAVIOR_BYTES)
        }
        AdminOpcode::SET_FEATURES if SetFeatures::parse(sqe).fid == fid::HOST_BEHAVIOR_SUPPORT => {
            Movement::ToDrive(HOST_BEHAVIOR_BYTES)
        }
        AdminOpcode::NAMESPACE_MANAGEMENT
            if NamespaceManagement::parse(sqe).sel == NamespaceManagement::CREATE
                && may_manage(controller) =>
        {
            Movement::ToDrive(NamespaceManagement::BYTES)
        }
        AdminOpcode::NAMESPACE_ATTACHMENT if may_manage(controller) => {
            Movement::ToDrive(NamespaceAttachment::BYTES)
        }
        _ => Movement::None,
    })
}

/// Whether its host may manage namespaces.
fn may_manage(controller: &Controller) -> bool {
    controller.subsystem().is_some_and(|subsystem| subsystem.config().may_manage)
}

/// Executes an admin command. `None`: send no completion, because the controller has ended while the command
/// was held.
pub(crate) async fn execute(
    controller: &Controller,
    sqe: &Sqe,
    movement: Movement,
    data: &mut Vec<u8>,
) -> Option<Cqe> {
    let opcode = AdminOpcode(sqe.opcode());
    match opcode {
        AdminOpcode::ASYNC_EVENT_REQUEST => return hold_event_request(controller, sqe.cid()).await,
        AdminOpcode::KEEP_ALIVE => return Some(ended(Status::SUCCESS)),
        _ => {}
    }
    let subsystem = match controller.service() {
        Service::Drive(subsystem) => subsystem,
        // The commands that a Discovery controller supports (NVMe Base 2.1, 3.1.3.3).
        Service::Discovery(discovery) => {
            return Some(match opcode {
                AdminOpcode::IDENTIFY => discovery_admin::identify(controller, sqe, data),
                AdminOpcode::GET_LOG_PAGE => {
                    discovery_admin::log_page(discovery, controller, sqe, movement, data)
                }
                AdminOpcode::SET_FEATURES => {
                    let command = SetFeatures::parse(sqe);
                    match command.fid {
                        _ if command.sv => ended(Status::FEATURE_NOT_SAVEABLE.with_dnr()),
                        fid::KEEP_ALIVE_TIMER | fid::ASYNC_EVENT_CONFIGURATION => {
                            set_of_controller(controller, &command)
                        }
                        _ => ended(INVALID_FIELD),
                    }
                }
                AdminOpcode::GET_FEATURES => {
                    let value = feature_of_controller(controller, GetFeatures::parse(sqe).fid);
                    value.map_or(ended(INVALID_FIELD), |value| ended(Status::SUCCESS).with_dw0(value))
                }
                _ => ended(Status::INVALID_OPCODE.with_dnr()),
            });
        }
    };
    let path = subsystem.path();
    Some(match opcode {
        AdminOpcode::IDENTIFY => identify(controller, subsystem, sqe, data).await,
        AdminOpcode::GET_LOG_PAGE => {
            let Movement::ToHost(bytes) = movement else { return Some(ended(Status::INTERNAL_ERROR)) };
            match GetLogPage::parse(sqe).lid {
                lid::ERROR_INFORMATION | lid::SMART | lid::FIRMWARE_SLOT => {
                    path.ask(*sqe, bytes as usize, data).await
                }
                lid::SUPPORTED_LOG_PAGES | lid::CHANGED_NAMESPACE_LIST | lid::ANA => {
                    own_log_page(controller, subsystem, sqe, bytes, data)
                }
                lid::COMMANDS_SUPPORTED => commands_supported(controller, path, sqe, bytes, data).await,
                _ => ended(Status::INVALID_LOG_PAGE.with_dnr()),
            }
        }
        AdminOpcode::SET_FEATURES if SetFeatures::parse(sqe).fid == fid::COMMAND_SET_PROFILE => {
            choose_sets(path, &SetFeatures::parse(sqe)).await
        }
        AdminOpcode::SET_FEATURES => set_features(controller, subsystem, &SetFeatures::parse(sqe)),
        AdminOpcode::GET_FEATURES => get_features(controller, path, sqe, data).await,
        AdminOpcode::NAMESPACE_MANAGEMENT | AdminOpcode::NAMESPACE_ATTACHMENT if may_manage(controller) => {
            manage(subsystem, sqe, data).await
        }
        AdminOpcode::ABORT => {
            let command = Abort::parse(sqe);
            let is_aborted = controller.waiting.abort((command.sqid, command.cid));
            ended(Status::SUCCESS).with_dw0(if is_aborted { 0 } else { Abort::NOT_ABORTED })
        }
        _ => ended(Status::INVALID_OPCODE.with_dnr()),
    })
}

/// The supported log pages.
const LOG_PAGES: [u8; 7] = [
    lid::SUPPORTED_LOG_PAGES,
    lid::ERROR_INFORMATION,
    lid::SMART,
    lid::FIRMWARE_SLOT,
    lid::CHANGED_NAMESPACE_LIST,
    lid::COMMANDS_SUPPORTED,
    lid::ANA,
];

/// Admin commands supported without permission to manage namespaces.
const COMMANDS: [AdminOpcode; 7] = [
    AdminOpcode::GET_LOG_PAGE,
    AdminOpcode::IDENTIFY,
    AdminOpcode::ABORT,
    AdminOpcode::SET_FEATURES,
    AdminOpcode::GET_FEATURES,
    AdminOpcode::ASYNC_EVENT_REQUEST,
    AdminOpcode::KEEP_ALIVE,
];

/// Commands Supported and Effects: the drive's entries, for the commands executed here or passed on. Without
/// this page, Linux ignores namespaces of command sets other than NVM.
async fn commands_supported(
    controller: &Controller,
    path: &Path,
    sqe: &Sqe,
    bytes: u32,
    data: &mut Vec<u8>,
) -> Cqe {
    let command = GetLogPage::parse(sqe);
    let whole = GetLogPage { lpo: 0, ot: false, numd_z: PAGE_BYTES / 4 - 1, ..command };
    let cqe = path.ask(whole.sqe(sqe.cid(), NSID_ALL), PAGE_BYTES as usize, data).await;
    if !cqe.status().is_success() {
        return cqe;
    }
    let Ok(mut page) = CommandsSupportedLog::read_from_bytes(&data[..]) else {
        return ended(Status::INTERNAL_ERROR);
    };
    for (opcode, entry) in (0..=u8::MAX).map(AdminOpcode).zip(&mut page.acs) {
        let is_managing =
            [AdminOpcode::NAMESPACE_MANAGEMENT, AdminOpcode::NAMESPACE_ATTACHMENT].contains(&opcode);
        match opcode {
            AdminOpcode::KEEP_ALIVE => *entry |= CommandsSupportedLog::CSUPP,
            _ if COMMANDS.contains(&opcode) || is_managing && may_manage(controller) => {}
            _ => *entry = 0,
        }
    }
    for (opcode, entry) in (0..=u8::MAX).zip(&mut page.iocs) {
        if !is_passed_on(command.csi, opcode) {
            *entry = 0;
        }
    }
    part_of(page.as_bytes(), &command, bytes, data)
}

/// A log page about the controller.
fn own_log_page(
    controller: &Controller,
    subsystem: &Subsystem,
    sqe: &Sqe,
    bytes: u32,
    data: &mut Vec<u8>,
) -> Cqe {
    let command = GetLogPage::parse(sqe);
    let page = match command.lid {
        lid::CHANGED_NAMESPACE_LIST => controller.changed_namespaces().as_bytes().to_vec(),
        lid::SUPPORTED_LOG_PAGES => {
            let mut pages = SupportedLogPages::default();
            LOG_PAGES.iter().for_each(|lid| pages.lids[usize::from(*lid)] = SupportedLogPages::LSUPP);
            pages.as_bytes().to_vec()
        }
        _ => {
            let groups_only = command.lsp & LSP_GROUPS_ONLY != 0;
            let namespaces = if groups_only { Vec::new() } else { subsystem.path().nsids() };
            subsystem.config().ports.log_page(controller.ana(), &namespaces)
        }
    };
    let cqe = part_of(&page, &command, bytes, data);
    if cqe.status().is_success() && !command.rae {
        if command.lid == lid::CHANGED_NAMESPACE_LIST {
            controller.forget_changed_namespaces();
        }
        controller.clear(command.lid);
    }
    cqe
}

/// Returns `bytes` of a log page, from the offset in the command.
fn part_of(page: &[u8], command: &GetLogPage, bytes: u32, data: &mut Vec<u8>) -> Cqe {
    let Some(rest) = usize::try_from(command.lpo).ok().and_then(|offset| page.get(offset..)) else {
        return ended(INVALID_FIELD);
    };
    if command.ot || !command.lpo.is_multiple_of(4) {
        return ended(INVALID_FIELD);
    }
    data.clear();
    data.extend_from_slice(&rest[..rest.len().min(bytes as usize)]);
    data.resize(bytes as usize, 0);
    ended(Status::SUCCESS)
}

/// Namespace Management and Attachment. All controllers of the subsystem share the drive's one attachment: a
/// namespace attached to some of them is attached to all.
async fn manage(subsystem: &Subsystem, sqe: &Sqe, data: &mut Vec<u8>) -> Cqe {
    if AdminOpcode(sqe.opcode()) == AdminOpcode::NAMESPACE_ATTACHMENT {
        let list = ControllerList::read_from_bytes(&data[..]).ok();
        let ids = list.as_ref().and_then(ControllerList::ids);
        if ids.is_none_or(|ids| ids.is_empty() || ids.iter().any(|id| subsystem.controller(*id).is_none())) {
            return ended(Status::CONTROLLER_LIST_INVALID.with_dnr());
        }
        let own = ControllerList::from(0, [subsystem.path().identity().cntlid]);
        data.clear();
        data.extend_from_slice(own.as_bytes());
    } else if let Ok(namespace) = IdentifyNamespace::mut_from_bytes(&mut data[..]) {
        // Every namespace is shared, and in the only ANA group; the drive itself supports neither.
        namespace.nmic &= !1;
        if namespace.anagrpid == ana::GROUP {
            namespace.anagrpid = 0;
        }
    }
    let (cqe, changed) = subsystem.path().manage(*sqe, data).await;
    subsystem.namespaces_changed(&changed);
    cqe
}

async fn identify(controller: &Controller, subsystem: &Subsystem, sqe: &Sqe, data: &mut Vec<u8>) -> Cqe {
    let path = subsystem.path();
    match Identify::parse(sqe).cns {
        Cns::CONTROLLER => {
            data.clear();
            data.extend_from_slice(identity(controller, subsystem).as_bytes());
            ended(Status::SUCCESS)
        }
        Cns::NAMESPACE | Cns::COMMAND_SET_NAMESPACE | Cns::INDEPENDENT_NAMESPACE => {
            let cqe = path.ask(*sqe, Identify::BYTES as usize, data).await;
            if cqe.status().is_success() {
                share(&Identify::parse(sqe), data);
            }
            cqe
        }
        Cns::NAMESPACE_CONTROLLERS | Cns::CONTROLLERS if may_manage(controller) => {
            let from = Identify::parse(sqe).cntid;
            // Answered from the drive's controller, if the namespace is attached to it.
            let is_attached = match Identify::parse(sqe).cns {
                Cns::CONTROLLERS => true,
                _ => path.nsids().contains(&sqe.nsid),
            };
            let ids = subsystem.controllers().into_iter().filter(|_| is_attached).map(|other| other.id());
            data.clear();
            data.extend_from_slice(ControllerList::from(from, ids).as_bytes());
            ended(Status::SUCCESS)
        }
        Cns::ALLOCATED_NAMESPACES
        | Cns::ALLOCATED_NAMESPACE
        | Cns::COMMAND_SET_ALLOCATED_NAMESPACES
        | Cns::COMMAND_SET_ALLOCATED_NAMESPACE
            if may_manage(controller) =>
        {
            let cqe = path.ask(*sqe, Identify::BYTES as usize, data).await;
            if cqe.status().is_success() {
                share(&Identify::parse(sqe), data);
            }
            cqe
        }
        Cns::ACTIVE_NAMESPACES
        | Cns::NAMESPACE_DESCRIPTORS
        | Cns::COMMAND_SET_CONTROLLER
        | Cns::COMMAND_SET_ACTIVE_NAMESPACES
        | Cns::COMMAND_SETS => path.ask(*sqe, Identify::BYTES as usize, data).await,
        _ => ended(INVALID_FIELD),
    }
}

/// Sets NMIC (shared namespace) and ANAGRPID, whose offsets depend on the structure.
fn share(identify: &Identify, data: &mut [u8]) {
    let (nmic, group) = match identify.cns {
        Cns::NAMESPACE | Cns::ALLOCATED_NAMESPACE => (30, 92),
        Cns::INDEPENDENT_NAMESPACE => (1, 4),
        Cns::COMMAND_SET_NAMESPACE | Cns::COMMAND_SET_ALLOCATED_NAMESPACE
            if identify.csi == csi::KEY_VALUE =>
        {
            (26, 36)
        }
        _ => return,
    };
    // An inactive namespace is reported as all zeroes.
    if data.iter().any(|byte| *byte != 0) {
        data[nmic] |= 1;
        data[group..group + 4].copy_from_slice(&ana::GROUP.to_le_bytes());
    }
}

/// Identify Controller: the drive's data, with the fields of a fabrics controller replaced.
fn identity(controller: &Controller, subsystem: &Subsystem) -> Box<IdentifyController> {
    let config = subsystem.config();
    let drive = subsystem.path().identity();
    let mut identity = Box::new(IdentifyController::new_zeroed());
    *identity = *drive;
    identity.cmic = CMIC;
    identity.mdts = (subsystem.path().bytes_max() / 4096).ilog2() as u8;
    identity.cntlid = controller.id();
    identity.ver = VERSION;
    identity.oaes = oaes::NAMESPACE_ATTRIBUTE | oaes::ANA_CHANGE;
    identity.ctratt = 0;
    identity.cntrltype = CNTRLTYPE_IO;
    identity.oacs &= if config.may_manage { oacs::NAMESPACE_MANAGEMENT } else { 0 };
    identity.aerl = AERL;
    identity.lpa &= lpa::EXTENDED | lpa::COMMANDS_SUPPORTED | lpa::SUPPORTED_LOG_PAGES;
    identity.anatt = ana::ANATT;
    identity.anacap = ana::ANACAP;
    identity.anagrpmax = ana::GROUP;
    identity.nanagrpid = 1;
    identity.kas = KEEP_ALIVE_GRANULARITY;
    identity.sanicap = 0;
    identity.hmpre = 0;
    identity.hmmin = 0;
    identity.rpmbs = 0;
    identity.maxcmd = config.entries_max;
    identity.oncs &= ONCS;
    identity.fuses = 0;
    identity.fna = 0;
    identity.sgls = SGLS;
    identity.subnqn = config.nqn.field();
    identity.ioccsz = (Sqe::SIZE as u32 + config.in_capsule_bytes) / 16;
    identity.iorcsz = (Cqe::SIZE / 16) as u32;
    identity.icdoff = 0;
    identity.fcatt = 0;
    identity.msdbd = 1;
    identity.ofcs = 0;
    // A fabric supports one of Byteway's methods: a payload that goes inline behind a command on a link goes
    // in the capsule here.
    let offered = Capabilities {
        signature: Capabilities::SIGNATURE,
        version: Capabilities::VERSION,
        methods: METHODS.into_bits(),
        inline_bytes_max: config.in_capsule_bytes,
        ..Capabilities::default()
    };
    identity.vs = [0; 1024];
    offered.write(&mut identity.vs);
    identity.fr = ascii_field(env!("CARGO_PKG_VERSION"));
    identity
}

fn set_features(controller: &Controller, subsystem: &Subsystem, command: &SetFeatures) -> Cqe {
    if command.sv {
        return ended(Status::FEATURE_NOT_SAVEABLE.with_dnr());
    }
    match command.fid {
        // Not after I/O queues exist (NVMe Base 2.1, 5.1.25.1.5).
        fid::NUMBER_OF_QUEUES if controller.io_queues() > 0 => {
            ended(Status::COMMAND_SEQUENCE_ERROR.with_dnr())
        }
        fid::NUMBER_OF_QUEUES => {
            let (submission, completion) = (command.cdw11 as u16, (command.cdw11 >> 16) as u16);
            if submission == u16::MAX || completion == u16::MAX {
                return ended(INVALID_FIELD);
            }
            // A queue on a fabric is a submission and completion queue in one.
            let wanted = submission.min(completion) + 1;
            controller.granted.set(wanted.min(subsystem.config().io_queues_max));
            ended(Status::SUCCESS).with_dw0(queues(controller))
        }
        fid::KEEP_ALIVE_TIMER | fid::ASYNC_EVENT_CONFIGURATION => set_of_controller(controller, command),
        fid::HOST_BEHAVIOR_SUPPORT => ended(Status::SUCCESS),
        fid::PAYLOAD_METHODS => {
            let is_offered = Methods::from_bits(command.cdw11).is_within(METHODS);
            let is_granted = (1..=u32::from(controller.granted.get())).contains(&command.cdw12);
            ended(if is_offered && is_granted { Status::SUCCESS } else { INVALID_FIELD })
        }
        // The write cache belongs to the drive, which other hosts use, too.
        _ => ended(Status::FEATURE_NOT_CHANGEABLE.with_dnr()),
    }
}

/// I/O Command Set Profile: a host may only select the combination of command sets that the target has
/// chosen.
async fn choose_sets(path: &Path, command: &SetFeatures) -> Cqe {
    let asked = GetFeatures { fid: fid::COMMAND_SET_PROFILE, ..GetFeatures::default() };
    let chosen = path.ask(asked.sqe(0, 0), 0, &mut Vec::new()).await;
    match chosen.status() {
        Status::SUCCESS if command.sv => ended(Status::FEATURE_NOT_SAVEABLE.with_dnr()),
        Status::SUCCESS if command.cdw11 & PROFILE == chosen.dw0 & PROFILE => chosen,
        Status::SUCCESS => ended(Status::FEATURE_NOT_CHANGEABLE.with_dnr()),
        _ => chosen,
    }
}

/// Sets a feature that every kind of controller supports.
fn set_of_controller(controller: &Controller, command: &SetFeatures) -> Cqe {
    if command.fid == fid::KEEP_ALIVE_TIMER {
        controller.set_keep_alive(Delay::from_ms(u64::from(command.cdw11)));
    } else {
        controller.configure_events(AsyncEventConfig::from_bits(command.cdw11));
    }
    ended(Status::SUCCESS)
}

/// The value of a feature that every kind of controller supports; `None` for other features.
fn feature_of_controller(controller: &Controller, feature: u8) -> Option<u32> {
    match feature {
        fid::KEEP_ALIVE_TIMER => Some((controller.keep_alive().0 / Delay::from_ms(1).0) as u32),
        fid::ASYNC_EVENT_CONFIGURATION => Some(controller.event_configuration().into_bits()),
        _ => None,
    }
}

async fn get_features(controller: &Controller, path: &Path, sqe: &Sqe, data: &mut Vec<u8>) -> Cqe {
    let command = GetFeatures::parse(sqe);
    if let Some(value) = feature_of_controller(controller, command.fid) {
        return ended(Status::SUCCESS).with_dw0(value);
    }
    let value = match command.fid {
        fid::NUMBER_OF_QUEUES => queues(controller),
        fid::HOST_BEHAVIOR_SUPPORT => {
            data.clear();
            data.resize(HOST_BEHAVIOR_BYTES as usize, 0);
            0
        }
        fid::ARBITRATION
        | fid::POWER_MANAGEMENT
        | fid::TEMPERATURE_THRESHOLD
        | fid::ERROR_RECOVERY
        | fid::VOLATILE_WRITE_CACHE
        | fid::COMMAND_SET_PROFILE
        | fid::WRITE_ATOMICITY => {
            let mut cqe = path.ask(*sqe, 0, data).await;
            // The drive's values are read here, but not changed: `set_features` refuses.
            if command.sel == Select::SUPPORTED {
                cqe.dw0 &= Select::NAMESPACE_SPECIFIC;
            }
            return cqe;
        }
        _ => return ended(INVALID_FIELD),
    };
    ended(Status::SUCCESS).with_dw0(value)
}

/// I/O queues granted to the host, zero-based, in both halves of the dword.
fn queues(controller: &Controller) -> u32 {
    let granted = u32::from(controller.granted.get() - 1);
    granted | granted << 16
}

/// Holds an Asynchronous Event Request until an event is pending. `None`: send no completion.
async fn hold_event_request(controller: &Controller, cid: u16) -> Option<Cqe> {
    if controller.held() > usize::from(AERL) {
        return Some(ended(Status::AER_LIMIT_EXCEEDED.with_dnr()));
    }
    let event = controller.event(cid).await;
    event.map(|event| ended(Status::SUCCESS).with_dw0(event.dw0()))
}
