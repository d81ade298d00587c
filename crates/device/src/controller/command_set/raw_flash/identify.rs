//! Identify for a raw flash namespace, and the constraints on its drive.

use crate::config::{CommandSet, ConfigError, DriveConfig, NamespaceConfig};
use crate::controller::core::Core;
use crate::controller::namespace::Namespace;
use byteway_content::BlockSize;
use byteway_firmware::Base;
use byteway_flash::Geometry;
use byteway_wire::IntoBytes;
use byteway_wire::nvme::vendor::raw_flash::{RawFlashIdentify, payload_bytes};
use byteway_wire::nvme::{Identify, IdentifyController};

/// The Identify Namespace data structure: the geometry and the constants of the array.
pub(crate) fn namespace(core: &Core) -> Vec<u8> {
    let flash = core.backing.own_ftl().flash();
    let geometry = flash.geometry();
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    let id = RawFlashIdentify {
        version: RawFlashIdentify::VERSION,
        flags: flag(flash.timing().slc.is_some(), RawFlashIdentify::ONE_BIT)
            | flag(flash.can_fail(), RawFlashIdentify::CAN_FAIL)
            | flag(flash.is_new(), RawFlashIdentify::IS_NEW),
        channels: geometry.channels,
        ways: geometry.ways,
        planes: geometry.planes,
        blocks: geometry.blocks,
        pages: geometry.pages,
        page_bytes: geometry.page_bytes,
        wordline: flash.timing().stripes_per_wordline(),
        calendar_ns: flash.calendar().as_nanos() as u64,
        ..RawFlashIdentify::default()
    };
    let mut bytes = id.as_bytes().to_vec();
    bytes.resize(Identify::BYTES as usize, 0);
    bytes
}

/// Removes what such a drive does not support: the array belongs to the host, so nothing can be formatted, and no
/// further namespace fits.
pub(crate) fn describe(id: &mut IdentifyController) {
    use byteway_wire::nvme::identify::oacs;
    id.oacs &= !(oacs::FORMAT | oacs::NAMESPACE_MANAGEMENT);
    id.sanicap = 0;
}

/// Checks whether such a namespace is possible.
pub(crate) fn check_namespace(config: &DriveConfig, namespace: &Namespace) -> Result<(), ConfigError> {
    let geometry = &config.geometry;
    let stripe = payload_bytes(geometry.units_per_stripe());
    let checks = [
        (config.namespaces.len() == 1, "a raw flash namespace is the only one of its drive"),
        (namespace.units() == geometry.total_units(), "a raw flash namespace has all units of the array"),
        (config.base == Base::Empty, "a drive with a raw flash namespace holds nothing at first"),
        (!config.ftl.plp, "a drive with a raw flash namespace buffers nothing that plp could save"),
        (
            stripe <= config.controller.transfer_bytes_max,
            "controller.transfer_bytes_max must hold a stripe of the raw flash with its metadata",
        ),
    ];
    match checks.iter().find(|(holds, _)| !holds) {
        Some((_, message)) => Err(ConfigError { message: (*message).to_owned() }),
        None => Ok(()),
    }
}

impl NamespaceConfig {
    /// The only namespace of its drive: the whole flash array, raw.
    pub const fn raw_flash(geometry: &Geometry) -> NamespaceConfig {
        NamespaceConfig { units: geometry.total_units(), block: BlockSize::B4096, set: CommandSet::RawFlash }
    }
}

impl DriveConfig {
    /// Whether the drive's flash is offered raw, so that it has no translation layer of its own.
    pub fn is_raw(&self) -> bool {
        self.namespaces.iter().any(|namespace| namespace.set == CommandSet::RawFlash)
    }
}
