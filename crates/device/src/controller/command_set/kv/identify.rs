//! Identify for KV namespaces and the Key Value command set (NVMe KV 1.0, 4.1.5).

use crate::config::CommandSet;
use crate::controller::command_set::kv::pairs::store_of;
use crate::controller::namespace::{Format, Limits, Namespace};
use byteway_content::UNIT_BYTES;
use byteway_wire::FromBytes;
use byteway_wire::nvme::kv::KEY_BYTES_MAX;
use byteway_wire::nvme::kv::identify::{IdentifyControllerKv, IdentifyNamespaceKv, KvFormat};
use byteway_wire::nvme::register::Vs;
use byteway_wire::nvme::{IdentifyNamespace, Status};

/// The Identify Namespace data structure of a namespace.
pub fn namespace(namespace: &Namespace, limits: Limits, value_bytes_max: u32) -> IdentifyNamespaceKv {
    let usage = store_of(namespace).map(|pairs| pairs.usage()).unwrap_or_default();
    let bytes = namespace.units() * UNIT_BYTES as u64;
    let mut id = IdentifyNamespaceKv {
        nsze: bytes,
        // The namespace is larger than the capacity for its pairs: NUSE scales the used share to the size of the
        // namespace.
        nuse: match usage.capacity_bytes {
            0 => 0,
            all => (u128::from(bytes) * u128::from(usage.used_bytes.min(all)) / u128::from(all)) as u64,
        },
        fpi: IdentifyNamespace::FPI_SUPPORTED | namespace.formatting.get().unwrap_or(0),
        nmic: u8::from(limits.is_shared),
        nsattr: namespace.attributes(),
        nguid: namespace.nguid(limits.drive),
        eui64: namespace.eui64(limits.drive),
        ..Default::default()
    };
    id.kvf[0] = KvFormat { kml: KEY_BYTES_MAX as u16, vml: value_bytes_max, ..Default::default() };
    id
}

/// The Identify Controller data structure of the set.
pub(crate) fn controller() -> IdentifyControllerKv {
    IdentifyControllerKv { ver: Vs::new().with_mjr(1).into_bits(), ..Default::default() }
}

/// The size in units of a KV namespace to be created.
pub(crate) fn parse_create(bytes: &[u8], is_shared: bool) -> Result<(u64, Format), Status> {
    let wanted = IdentifyNamespaceKv::read_from_bytes(bytes).map_err(|_| Status::INVALID_FIELD.with_dnr())?;
    let is_plain = wanted.kvfc & 0xF == 0 && wanted.nmic <= u8::from(is_shared) && wanted.anagrpid == 0;
    if wanted.nsze == 0 || !is_plain || wanted.nvmsetid != 0 || wanted.endgid != 0 {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    Ok((wanted.nsze.div_ceil(UNIT_BYTES as u64), Format::of(CommandSet::KeyValue)))
}
