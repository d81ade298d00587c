//! Life cycle of a tables namespace: opening and closing its store, and its Identify data.

use crate::config::{CommandSet, ConfigError, DriveConfig};
use crate::controller::core::Core;
use crate::controller::namespace::{Format, Limits, Namespace};
use crate::controller::state::counters::add;
use byteway_clock::Delay;
use byteway_content::UNIT_BYTES;
use byteway_firmware::MediaError;
use byteway_tables::{Tables, TablesConfig, TablesError, UnitExtent};
use byteway_wire::nvme::{IdentifyNamespace, Status};
use byteway_wire::{FromBytes, IntoBytes};
use std::rc::Rc;

/// Store of a namespace; `None` if it has not been opened.
pub(crate) fn store_of(namespace: &Namespace) -> Option<Tables> {
    namespace.contents()
}

/// Namespace `nsid` and its store. Waits until the store has recovered its catalog.
pub(crate) async fn tables_of(core: &Core, nsid: u32) -> Result<(Rc<Namespace>, Tables), Status> {
    let namespace = core.namespace(nsid)?;
    let tables = store_of(&namespace).ok_or(Status::NAMESPACE_NOT_READY)?;
    tables.ready().await.map_err(|error| status_of(core, error))?;
    Ok((namespace, tables))
}

/// Maps a store error to a status. All commands of the set use it.
pub(crate) fn status_of(core: &Core, error: TablesError) -> Status {
    match error {
        TablesError::NotFound | TablesError::Exists | TablesError::Name => Status::INVALID_FIELD.with_dnr(),
        TablesError::TooMany | TablesError::NoSpace | TablesError::CatalogFull => {
            Status::CAPACITY_EXCEEDED.with_dnr()
        }
        TablesError::Media(MediaError::WriteProtected) => Status::NAMESPACE_WRITE_PROTECTED,
        TablesError::Media(_) => {
            add(&core.counters.media_errors, 1);
            Status::UNRECOVERED_ERROR
        }
        TablesError::Stopped => Status::NAMESPACE_NOT_READY,
    }
}

fn store_config(config: &DriveConfig, namespace: &Namespace) -> Option<TablesConfig> {
    let policy = config.csd.as_ref()?;
    let extents = namespace.extents();
    let extents = extents.iter().map(|extent| UnitExtent { first: extent.first, count: extent.units });
    let tables_max = policy.tables_max;
    let defect = policy.store_defect;
    Some(TablesConfig { tables_max, defect, ..TablesConfig::new(extents.collect(), namespace.uid) })
}

/// Checks the drive configuration for this command set.
pub(crate) fn check_config(config: &DriveConfig) -> Result<(), ConfigError> {
    let error = |message: &str| Err(ConfigError { message: message.to_owned() });
    let Some(policy) = &config.csd else {
        return match config.namespaces.iter().any(|namespace| namespace.set == CommandSet::Tables) {
            true => error("a namespace of tables needs the drive to have that command set"),
            false => Ok(()),
        };
    };
    if !(1..=1024).contains(&policy.cursors_max) || !(1..=1024).contains(&policy.uploads_max) {
        return error("csd.cursors_max and csd.uploads_max must be from 1 to 1024");
    }
    if policy.timeout == Delay::ZERO || policy.tables_max == 0 {
        return error("csd.timeout must be longer than 0, csd.tables_max at least 1");
    }
    if !(1..=1 << 20).contains(&policy.group_rows) || !(1..=64).contains(&policy.readers) {
        return error("csd.group_rows must be from 1 to 1,048,576, csd.readers from 1 to 64");
    }
    Ok(())
}

/// Checks that the namespace is large enough for a store.
pub(crate) fn check_namespace(config: &DriveConfig, namespace: &Namespace) -> Result<(), ConfigError> {
    match store_config(config, namespace) {
        Some(store) => store.check().map_err(|error| ConfigError { message: error.to_string() }),
        None => Ok(()),
    }
}

/// Opens the store of a namespace on its units, unless it is open.
///
/// # Errors
/// [`Status::INVALID_FIELD`] if no store of this size is possible.
pub(crate) fn open(core: &Core, namespace: &Namespace) -> Result<(), Status> {
    let Some(config) = store_config(&core.config, namespace) else { return Ok(()) };
    if store_of(namespace).is_some() {
        return Ok(());
    }
    let store = Tables::power_on(&core.clock, core.backing.own_ftl().clone(), config);
    namespace.set_contents(store.map_err(|_| Status::INVALID_FIELD.with_dnr())?);
    Ok(())
}

/// Closes the store of a namespace whose units are about to be deallocated. No command uses the store any
/// more.
///
/// # Errors
/// [`MediaError::WriteProtected`] at the end of the drive's life. The namespace keeps its store and contents.
pub(crate) async fn close(core: &Core, namespace: &Namespace) -> Result<(), MediaError> {
    let Some(store) = store_of(namespace) else { return Ok(()) };
    if core.backing.health().is_read_only {
        return Err(MediaError::WriteProtected);
    }
    // Writes in flight must end here: later ones would overwrite units of the next owner.
    let _ = store.format().await;
    store.stop();
    namespace.clear_contents();
    Ok(())
}

/// Stores of all namespaces.
pub(crate) fn stores(core: &Core) -> Vec<Tables> {
    core.inventory.all().iter().filter_map(|namespace| store_of(namespace)).collect()
}

/// Waits until all stores have recovered their catalogs.
pub(crate) async fn ready(core: &Core) {
    for store in stores(core) {
        let _ = store.ready().await; // a failed recovery is reported to the commands that need the store
    }
}

/// Stops all stores at power-off. Acknowledged changes are on the medium already.
pub(crate) fn power_off(core: &Core) {
    stores(core).iter().for_each(Tables::stop);
}

/// Identify Namespace data structure of the set. Sizes are in bytes, as for a KV namespace.
pub(crate) fn identify(namespace: &Namespace, limits: Limits) -> Vec<u8> {
    let usage = store_of(namespace).map(|tables| tables.usage()).unwrap_or_default();
    let bytes = namespace.units() * UNIT_BYTES as u64;
    let id = IdentifyNamespace {
        nsze: bytes,
        ncap: bytes,
        nuse: bytes - (usage.capacity_bytes - usage.used_bytes),
        fpi: IdentifyNamespace::FPI_SUPPORTED | namespace.formatting.get().unwrap_or(0),
        nmic: u8::from(limits.is_shared),
        nsattr: namespace.attributes(),
        nguid: namespace.nguid(limits.drive),
        eui64: namespace.eui64(limits.drive),
        ..Default::default()
    };
    id.as_bytes().to_vec()
}

/// Size in units of a tables namespace to create.
pub(crate) fn parse_create(bytes: &[u8], is_shared: bool) -> Result<(u64, Format), Status> {
    let wanted = IdentifyNamespace::read_from_bytes(bytes).map_err(|_| Status::INVALID_FIELD.with_dnr())?;
    let is_plain = wanted.nmic <= u8::from(is_shared) && wanted.anagrpid == 0;
    if wanted.nsze == 0 || wanted.nsze != wanted.ncap || !is_plain {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    Ok((wanted.nsze.div_ceil(UNIT_BYTES as u64), Format::of(CommandSet::Tables)))
}
