//! Admin commands specific to a Discovery controller (NVMe Base 2.1, 3.1.3.3).

use crate::controller::{AERL, Controller, KEEP_ALIVE_GRANULARITY, SGLS, VERSION, ended};
use crate::discovery::{BYTES_MAX, Discovery};
use crate::movement::Movement;
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::discovery::{DiscoveryEntry, DiscoveryLog};
use byteway_wire::nvme::identify::{ascii_field, lpa, oaes};
use byteway_wire::nvme::log::lid;
use byteway_wire::nvme::{Cns, Cqe, GetLogPage, Identify, IdentifyController, Sqe, Status};
use zerocopy::{FromZeros, IntoBytes};

/// CNTRLTYPE: a Discovery controller.
const CNTRLTYPE_DISCOVERY: u8 = 2;

/// Handles Identify.
pub(crate) fn identify(controller: &Controller, sqe: &Sqe, data: &mut Vec<u8>) -> Cqe {
    // A Discovery controller has no namespaces (NVMe Base 2.1, 3.1.3.3).
    if Identify::parse(sqe).cns != Cns::CONTROLLER {
        return ended(Status::INVALID_FIELD.with_dnr());
    }
    let mut identity = Box::new(IdentifyController::new_zeroed());
    identity.sn = ascii_field("");
    identity.mn = ascii_field("Byteway Discovery Service");
    identity.fr = ascii_field(env!("CARGO_PKG_VERSION"));
    identity.mdts = (BYTES_MAX / 4096).ilog2() as u8;
    identity.cntlid = controller.id();
    identity.ver = VERSION;
    identity.oaes = oaes::DISCOVERY_LOG_CHANGE;
    identity.cntrltype = CNTRLTYPE_DISCOVERY;
    identity.aerl = AERL;
    identity.lpa = lpa::EXTENDED;
    identity.kas = KEEP_ALIVE_GRANULARITY;
    identity.maxcmd = controller.entries_max();
    identity.sgls = SGLS;
    identity.subnqn = Nqn::discovery().field();
    data.clear();
    data.extend_from_slice(identity.as_bytes());
    ended(Status::SUCCESS)
}

/// Handles Get Log Page.
pub(crate) fn log_page(
    discovery: &Discovery,
    controller: &Controller,
    sqe: &Sqe,
    movement: Movement,
    data: &mut Vec<u8>,
) -> Cqe {
    let Movement::ToHost(bytes) = movement else { return ended(Status::INTERNAL_ERROR) };
    let command = GetLogPage::parse(sqe);
    if command.lid != lid::DISCOVERY {
        return ended(Status::INVALID_LOG_PAGE.with_dnr());
    }
    let (genctr, entries) = discovery.directory().entries(&controller.host().nqn, controller.reached());
    let length = ((1 + entries.len()) * DiscoveryEntry::SIZE) as u64;
    if command.ot || !command.lpo.is_multiple_of(4) || command.lpo > length {
        return ended(Status::INVALID_FIELD.with_dnr());
    }
    data.clear();
    data.resize(bytes as usize, 0);
    DiscoveryLog { genctr, entries: &entries }.read(command.lpo, data);
    if !command.rae {
        controller.clear(lid::DISCOVERY);
    }
    ended(Status::SUCCESS)
}
