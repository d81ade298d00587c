//! Identify (NVMe Base 2.1, 5.1.13). Unsupported features are not advertised.

use crate::config::CommandSet;
use crate::controller::admin::keep_alive;
use crate::controller::background::self_test;
use crate::controller::command::context::Context;
use crate::controller::core::Core;
use crate::controller::memory::host_buffer::HOST_BUFFER_ENTRIES_MAX;
use crate::controller::namespace::{DriveIdentity, Limits, Namespace};
use crate::controller::state::counters::ERROR_ENTRIES;
use crate::controller::state::event::EVENT_REQUESTS_MAX;
use crate::controller::state::feature::Features;
use crate::controller::state::slot::ABORTS_MAX;
use byteway_content::UNIT_BYTES;
use byteway_wire::IntoBytes;
use byteway_wire::nvme::identify::{
    PowerState, ascii_field, cmic, ctratt, lpa, nwpc, oacs, oaes, oncs, sanicap, sgls, vwc,
};
use byteway_wire::nvme::inventory::GranularityDescriptor;
use byteway_wire::nvme::kv::identify::CommandSetCombinations;
use byteway_wire::nvme::{
    ActiveNamespaceList, Cns, ControllerList, GranularityList, Identify, IdentifyController, NSID_ALL,
    NamespaceDescriptor, SglRules, Status,
};
use std::rc::Rc;

const INVALID_FIELD: Status = Status::INVALID_FIELD.with_dnr();

/// The data structure that an Identify command requests.
///
/// For a namespace that is not attached, data structures of attached namespaces are zeroes (NVMe Base 2.1, 5.1.13.1).
pub fn page(context: &Context<'_>, command: &Identify) -> Result<Vec<u8>, Status> {
    let core = context.core;
    let inventory = &core.inventory;
    let nsid = context.sqe.nsid;
    let set = CommandSet::of_csi(command.csi, &core.config);
    // Lists: identifiers from here on are reserved.
    let above = || if nsid >= 0xffff_fffe { Err(Status::INVALID_NAMESPACE.with_dnr()) } else { Ok(nsid) };
    let list = |attached| -> Result<Vec<u8>, Status> {
        Ok(ActiveNamespaceList::above(above()?, inventory.nsids(attached)).as_bytes().to_vec())
    };
    let list_of = |attached, set| -> Result<Vec<u8>, Status> {
        Ok(ActiveNamespaceList::above(above()?, inventory.nsids_of(attached, set)).as_bytes().to_vec())
    };
    let zeroes = || vec![0; Identify::BYTES as usize];
    let active = || match inventory.active(nsid) {
        Err(status) if status.is(Status::INVALID_FIELD) => Ok(None),
        namespace => namespace.map(Some),
    };
    let allocated = || match core.known(nsid) {
        Err(status) if status.is(Status::INVALID_FIELD) => Ok(None),
        namespace => namespace.map(Some),
    };
    let structure = |namespace: &Namespace| {
        namespace.set.identify_blocks(core, Some((namespace, core.limits(namespace))))
    };
    let of_set = |namespace: Option<Rc<Namespace>>| {
        let namespace = namespace.as_deref().map(|namespace| (namespace, core.limits(namespace)));
        set.ok_or(INVALID_FIELD)?.identify_namespace(core, namespace)
    };
    let bytes = match command.cns {
        // The broadcast NSID requests what all namespaces have in common.
        Cns::NAMESPACE if nsid == NSID_ALL => CommandSet::Nvm.identify_blocks(core, None)?,
        Cns::NAMESPACE => active()?.map_or_else(|| Ok(zeroes()), |namespace| structure(&namespace))?,
        Cns::ALLOCATED_NAMESPACE => {
            allocated()?.map_or_else(|| Ok(zeroes()), |namespace| structure(&namespace))?
        }
        Cns::CONTROLLER => controller(context).as_bytes().to_vec(),
        Cns::ACTIVE_NAMESPACES => list(true)?,
        Cns::COMMAND_SET_ACTIVE_NAMESPACES => list_of(true, set.ok_or(INVALID_FIELD)?)?,
        Cns::ALLOCATED_NAMESPACES => list(false)?,
        Cns::COMMAND_SET_ALLOCATED_NAMESPACES => list_of(false, set.ok_or(INVALID_FIELD)?)?,
        Cns::NAMESPACE_DESCRIPTORS => {
            let namespace = inventory.active(nsid)?;
            let drive = DriveIdentity::new(&core.config.serial);
            let csi = namespace.set.csi().ok_or(Status::INTERNAL_ERROR)?;
            let descriptors = [
                NamespaceDescriptor::Eui64(namespace.eui64(drive)),
                NamespaceDescriptor::Nguid(namespace.nguid(drive)),
                NamespaceDescriptor::Uuid(namespace.uuid(drive)),
                NamespaceDescriptor::Csi(csi),
            ];
            NamespaceDescriptor::list(&descriptors).to_vec()
        }
        Cns::COMMAND_SET_NAMESPACE if set.is_some() => of_set(active()?)?,
        Cns::COMMAND_SET_ALLOCATED_NAMESPACE if set.is_some() => of_set(allocated()?)?,
        Cns::COMMAND_SET_CONTROLLER => set.ok_or(INVALID_FIELD)?.identify_controller(),
        Cns::COMMAND_SETS if CommandSet::are_several(&core.config) => {
            let mut all = CommandSetCombinations::default();
            all.vectors[0] = CommandSet::vector(&core.config);
            all.as_bytes().to_vec()
        }
        Cns::INDEPENDENT_NAMESPACE => {
            let structure = |it: Rc<Namespace>| it.identify_independent(core.is_shared()).as_bytes().to_vec();
            active()?.map_or_else(zeroes, structure)
        }
        Cns::NAMESPACE_CONTROLLERS => {
            let attached = core.known(nsid)?.attached.get();
            let ids = core.ids().filter(|_| attached);
            ControllerList::from(command.cntid, ids).as_bytes().to_vec()
        }
        Cns::CONTROLLERS => ControllerList::from(command.cntid, core.ids()).as_bytes().to_vec(),
        Cns::NAMESPACE_GRANULARITY => {
            let bytes = inventory.capacity.borrow().chunk_units() * UNIT_BYTES as u64;
            let mut list = GranularityList::default();
            list.descriptors[0] = GranularityDescriptor { nszegran: bytes, ncapgran: bytes };
            list.as_bytes().to_vec()
        }
        _ => return Err(INVALID_FIELD),
    };
    // A host with change notifications learns of a change from their log. For any other, identifying the namespace is
    // the only sign that it knows.
    if matches!(command.cns, Cns::NAMESPACE | Cns::COMMAND_SET_NAMESPACE | Cns::ALLOCATED_NAMESPACE)
        && !core.features.async_events.get().namespace_attribute()
    {
        core.unbar(Some(nsid));
    }
    Ok(bytes)
}

impl Core {
    /// Limits for the identification of a namespace.
    fn limits(&self, namespace: &Namespace) -> Limits {
        Limits {
            drive: DriveIdentity::new(&self.config.serial),
            transfer_bytes_max: self.config.controller.transfer_bytes_max,
            units: self.inventory.capacity.borrow().units_of(namespace.nsid),
            is_shared: self.is_shared(),
        }
    }
}

fn controller(context: &Context<'_>) -> IdentifyController {
    let config = &context.core.config;
    let mut id = IdentifyController {
        vid: VENDOR_ID,
        ssvid: VENDOR_ID,
        sn: ascii_field(&config.serial),
        mn: ascii_field(&config.model),
        fr: ascii_field(env!("CARGO_PKG_VERSION")),
        rab: (config.controller.arbitration_burst.ilog2()).min(7) as u8,
        mdts: (config.controller.transfer_bytes_max / 4096).ilog2() as u8,
        cmic: if context.core.is_shared() { cmic::SEVERAL_PORTS | cmic::SEVERAL_CONTROLLERS } else { 0 },
        cntlid: context.core.id(),
        oaes: oaes::NAMESPACE_ATTRIBUTE,
        ctratt: ctratt::TRAFFIC_BASED_KEEP_ALIVE | ctratt::NAMESPACE_GRANULARITY,
        ver: context.core.registers.vs.into_bits(),
        cntrltype: 1,
        oacs: oacs::FORMAT | oacs::NAMESPACE_MANAGEMENT | oacs::SELF_TEST,
        acl: (ABORTS_MAX - 1) as u8,
        aerl: (EVENT_REQUESTS_MAX - 1) as u8,
        // One firmware slot, read-only.
        frmw: 1 << 1 | 1,
        lpa: lpa::COMMANDS_SUPPORTED | lpa::EXTENDED | lpa::SUPPORTED_LOG_PAGES,
        elpe: (ERROR_ENTRIES - 1) as u8,
        wctemp: Features::OVER_TEMPERATURE,
        cctemp: Features::CRITICAL_TEMPERATURE,
        kas: keep_alive::GRANULARITY,
        sqes: 0x66,
        cqes: 0x44,
        // One test at a time in the subsystem.
        edstt: self_test::EXTENDED_MINUTES,
        dsto: 1,
        sanicap: match context.core.backing.has_own_media() {
            true => sanicap::BLOCK_ERASE | sanicap::NO_DEALLOCATE_INHIBITED | sanicap::NOT_MODIFIED_AFTER,
            false => 0,
        },
        nn: context.core.inventory.nsid_max(),
        mnan: context.core.inventory.nsid_max(),
        oncs: oncs::SAVE | oncs::TIMESTAMP,
        // The other states require a Replay Protected Memory Block.
        nwpc: nwpc::WRITE_PROTECT,
        vwc: vwc::PRESENT | vwc::FLUSH_ALL,
        ..Default::default()
    };
    CommandSet::offered(config).for_each(|set| set.describe(context.core, &mut id));
    if config.controller.sgl {
        let rules = SglRules::default();
        id.sgls = if rules.dword_aligned { sgls::SUPPORTED_DWORD } else { sgls::SUPPORTED };
        id.sgls |= if rules.bit_bucket { sgls::BIT_BUCKET } else { 0 };
        id.sgls |= if rules.allow_excess { sgls::EXCESS } else { 0 };
    }
    if let Some(buffer) = config.controller.host_buffer {
        (id.hmpre, id.hmmin) = (buffer.preferred_units, buffer.least_units);
        id.hmmaxd = HOST_BUFFER_ENTRIES_MAX;
    }
    if config.controller.shadow_doorbells {
        id.oacs |= oacs::DOORBELL_BUFFER;
    }
    let capacity = u128::from(config.user_bytes());
    id.tnvmcap.copy_from_slice(&capacity.to_le_bytes());
    id.unvmcap.copy_from_slice(&context.core.unallocated_bytes().to_le_bytes());
    id.psd[0] = PowerState { mp: 900, ..Default::default() };
    let nqn = format!("nqn.2026-11.org.byteway:{}", config.serial);
    id.subnqn[..nqn.len()].copy_from_slice(nqn.as_bytes());
    let (bar_offset, dma_unit) = (config.bar_offset(), config.controller.dma_granularity);
    if let Some(capabilities) = config.transfer.capabilities(bar_offset, dma_unit) {
        capabilities.write(&mut id.vs);
    }
    id
}

/// PCI vendor ID. None is free: Red Hat's for virtual devices has a range of device IDs for experiments without
/// registration (1af4:10f0 to 10ff), which Byteway uses until it has its own.
pub const VENDOR_ID: u16 = 0x1af4;
