//! Echo: a command set for tests. It is as small as a set can be, and is added like any other: by this module, and by a
//! line in the list ([`crate::config`]).
//!
//! A namespace keeps up to 64 bytes for each of its numbers, 64 numbers per unit, in the drive's DRAM: a controller
//! reset keeps them; a power cut, a format and a sanitize operation clear them.
//!
//! | opcode | command | dwords | completes with |
//! |---|---|---|---|
//! | [`PUT`] | stores its payload | CDW10 number, CDW11 bytes | |
//! | [`GET`] | returns what is stored, to the data pointer | CDW10 number, CDW11 maximum bytes | DW0 bytes |
//! | [`COUNT`] | counts | | DW0 numbers with stored bytes |

use crate::config::{CommandSet, DriveConfig, NamespaceConfig};
use crate::controller::command::context::{Context, Reply};
use crate::controller::command::send::send;
use crate::controller::command::workspace::{Landing, Workspace};
use crate::controller::command_set::io_command_set::IoCommandSet;
use crate::controller::core::Core;
use crate::controller::namespace::{Format, Limits, Namespace};
use byteway_clock::{Clock, Delay};
use byteway_content::{BlockSize, UNIT_BYTES};
use byteway_firmware::MediaError;
use byteway_wire::nvme::{CommandsSupportedLog, Identify, Sqe, Status, VendorOpcode};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Command Set Identifier, from the vendor-specific range.
pub const CSI: u8 = 0x31;
/// Echo Put.
pub const PUT: VendorOpcode = VendorOpcode(0xC1);
/// Echo Get.
pub const GET: VendorOpcode = VendorOpcode(0xC2);
/// Echo Count.
pub const COUNT: VendorOpcode = VendorOpcode(0xC4);
/// Maximum length of an echo, in bytes.
pub const BYTES_MAX: u32 = 64;

/// Stored bytes of a namespace, by number.
type Echoes = Rc<RefCell<BTreeMap<u32, Vec<u8>>>>;

/// The command set, whose only state is in its namespaces.
pub struct Echo;

impl IoCommandSet for Echo {
    const CSI: Option<u8> = Some(CSI);

    fn new(_: &Clock, _: &DriveConfig) -> Self {
        Echo
    }

    fn is_offered(config: &DriveConfig) -> bool {
        config.namespaces.iter().any(|namespace| namespace.set == CommandSet::Echo)
    }

    /// The structure contains the number of numbers, 64 bits.
    fn identify_namespace(_: &Core, namespace: Option<(&Namespace, Limits)>) -> Vec<u8> {
        let mut bytes = vec![0; Identify::BYTES as usize];
        if let Some((namespace, _)) = namespace {
            bytes[..8].copy_from_slice(&numbers(namespace).to_le_bytes());
        }
        bytes
    }

    fn add_commands(_: &DriveConfig, page: &mut CommandsSupportedLog) {
        for (opcode, effects) in [(PUT, CommandsSupportedLog::LBCC), (GET, 0), (COUNT, 0)] {
            page.iocs[usize::from(opcode.0)] = CommandsSupportedLog::CSUPP | effects;
        }
    }

    fn has(opcode: u8) -> bool {
        [PUT, GET, COUNT].contains(&VendorOpcode(opcode))
    }

    fn pipeline(core: &Core, sqe: &Sqe) -> Delay {
        match VendorOpcode(sqe.opcode()) {
            PUT => core.config.controller.write_pipeline,
            GET => core.config.controller.read_pipeline,
            _ => Delay::ZERO,
        }
    }

    async fn execute(&self, context: &Context<'_>, workspace: &mut Workspace) -> Result<Reply, Status> {
        let namespace = context.core.namespace(context.sqe.nsid)?;
        let echoes: Echoes = namespace.contents().ok_or(Status::NAMESPACE_NOT_READY)?;
        match VendorOpcode(context.sqe.opcode()) {
            PUT => put(context, workspace, &namespace, &echoes).await,
            GET => get(context, workspace, &namespace, &echoes).await,
            _ => Ok(Reply::Done([echoes.borrow().len() as u32, 0])),
        }
    }

    /// The bytes contain the number of units.
    fn parse_create(bytes: &[u8], _is_shared: bool) -> Result<(u64, Format), Status> {
        let units = bytes.first_chunk().map_or(0, |units| u64::from_le_bytes(*units));
        if units == 0 { Err(INVALID_FIELD) } else { Ok((units, Format::of(CommandSet::Echo))) }
    }

    fn open(&self, _: &Core, namespace: &Namespace) -> Result<(), Status> {
        if namespace.contents::<Echoes>().is_none() {
            namespace.set_contents(Echoes::default());
        }
        Ok(())
    }

    async fn close(&self, _: &Core, namespace: &Namespace) -> Result<(), MediaError> {
        namespace.clear_contents();
        Ok(())
    }
}

const INVALID_FIELD: Status = Status::INVALID_FIELD.with_dnr();

async fn put(
    context: &Context<'_>,
    workspace: &mut Workspace,
    namespace: &Namespace,
    echoes: &Echoes,
) -> Result<Reply, Status> {
    namespace.check_writable()?;
    let (number, bytes) = echo_of(context, namespace)?;
    context.bring(workspace, bytes.into(), Landing::Dram).await?;
    echoes.borrow_mut().insert(number, workspace.bytes.clone());
    context.core.count_write(context.span, bytes.into());
    Ok(Reply::Done([0; 2]))
}

async fn get(
    context: &Context<'_>,
    workspace: &mut Workspace,
    namespace: &Namespace,
    echoes: &Echoes,
) -> Result<Reply, Status> {
    let (number, bytes) = echo_of(context, namespace)?;
    context.resolve(workspace, bytes.into(), true).await?;
    workspace.bytes.clear();
    match echoes.borrow().get(&number) {
        Some(echo) => workspace.bytes.extend_from_slice(&echo[..echo.len().min(bytes as usize)]),
        None => return Err(Status::KEY_DOES_NOT_EXIST.with_dnr()),
    }
    send(context, workspace).await?;
    let sent = workspace.bytes.len() as u32;
    context.core.count_read(context.span, sent.into());
    Ok(Reply::Done([sent, 0]))
}

/// The number that a command names, and the number of bytes.
fn echo_of(context: &Context<'_>, namespace: &Namespace) -> Result<(u32, u32), Status> {
    let (number, bytes) = (context.sqe.cdw10, context.sqe.cdw11);
    if u64::from(number) >= numbers(namespace) {
        return Err(Status::LBA_OUT_OF_RANGE.with_dnr());
    }
    if !(1..=BYTES_MAX).contains(&bytes) {
        return Err(INVALID_FIELD);
    }
    Ok((number, bytes))
}

/// Number of numbers in a namespace.
fn numbers(namespace: &Namespace) -> u64 {
    namespace.units() * (UNIT_BYTES as u64 / u64::from(BYTES_MAX))
}

impl NamespaceConfig {
    /// An Echo namespace, with 64 numbers per unit.
    pub const fn echo(units: u64) -> NamespaceConfig {
        NamespaceConfig { units, block: BlockSize::B4096, set: CommandSet::Echo }
    }
}
