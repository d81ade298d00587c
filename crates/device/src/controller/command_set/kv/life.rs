//! Life cycle of a KV namespace's store: open, close, flush.

use crate::config::{CommandSet, ConfigError, DriveConfig};
use crate::controller::command_set::kv::pairs::{status_of, store_of};
use crate::controller::core::Core;
use crate::controller::namespace::Namespace;
use byteway_clock::{Delay, SpanId};
use byteway_firmware::MediaError;
use byteway_kv::{Kv, KvConfig, UnitExtent};
use byteway_wire::nvme::Status;

/// The parameters of a namespace's store; `None` if the drive has no KV command set.
fn store_config(config: &DriveConfig, namespace: &Namespace) -> Option<KvConfig> {
    let policy = config.kv.as_ref()?;
    let extents = namespace.extents();
    let extents = extents.iter().map(|extent| UnitExtent { first: extent.first, count: extent.units });
    Some(KvConfig {
        extents: extents.collect(),
        uid: namespace.uid,
        plp: config.ftl.plp,
        seed: config.seed,
        ..policy.store.clone()
    })
}

/// Checks the KV part of a configuration.
pub(crate) fn check_config(config: &DriveConfig) -> Result<(), ConfigError> {
    let error = |message: &str| Err(ConfigError { message: message.to_owned() });
    let Some(policy) = &config.kv else {
        return match config.namespaces.iter().any(|namespace| namespace.set == CommandSet::KeyValue) {
            true => error("a KV namespace needs a drive with the KV command set"),
            false => Ok(()),
        };
    };
    if !(1..=1024).contains(&policy.iterators_max) || policy.iterator_timeout == Delay::ZERO {
        return error("kv.iterators_max must be 1 to 1024, and kv.iterator_timeout longer than 0");
    }
    Ok(())
}

/// Checks whether a namespace of the drive can have a store.
pub(crate) fn check_namespace(config: &DriveConfig, namespace: &Namespace) -> Result<(), ConfigError> {
    match store_config(config, namespace) {
        Some(store) => store.check().map_err(|error| ConfigError { message: error.to_string() }),
        None => Ok(()),
    }
}

/// Opens a namespace's store over its units, unless it is open.
///
/// # Errors
/// [`Status`] if a store of this size is not possible.
pub(crate) fn open(core: &Core, namespace: &Namespace) -> Result<(), Status> {
    let Some(config) = store_config(&core.config, namespace) else { return Ok(()) };
    if store_of(namespace).is_some() {
        return Ok(());
    }
    let store = Kv::power_on(&core.clock, core.placement.clone(), core.backing.own_ftl().clone(), config);
    let store = store.map_err(|_| Status::INVALID_FIELD.with_dnr())?;
    namespace.set_contents(store);
    Ok(())
}

/// Closes a namespace's store, which no command uses any more. Its units will be deallocated.
///
/// # Errors
/// At the end of the drive's life. The store then stays open with its contents, or closed if they must be recovered
/// anew.
pub(crate) async fn close(core: &Core, namespace: &Namespace) -> Result<(), MediaError> {
    let Some(store) = store_of(namespace) else { return Ok(()) };
    // An empty store writes nothing more to its units. If the format fails for another reason, the units are
    // deallocated anyway.
    let is_left = store.format().await.is_err() && core.backing.health().is_read_only;
    if is_left && store.is_known() {
        return Err(MediaError::WriteProtected);
    }
    store.stop();
    namespace.clear_contents();
    if is_left { Err(MediaError::WriteProtected) } else { Ok(()) }
}

/// Flushes everything that KV namespaces have acknowledged.
pub(crate) async fn flush(core: &Core, span: SpanId) -> Result<(), Status> {
    for store in stores(core) {
        let flushed = store.flush(span, core.port.spans()).await;
        flushed.map_err(|error| status_of(core, error))?;
    }
    Ok(())
}

/// All stores. The list holds no namespace, so waiting for a store does not block namespace changes.
fn stores(core: &Core) -> Vec<Kv> {
    core.inventory.all().iter().filter_map(|namespace| store_of(namespace)).collect()
}

/// The first namespace that has a store, and the store.
pub(crate) fn first_store(core: &Core) -> Option<(u32, Kv)> {
    core.inventory.find_map(|namespace| Some((namespace.nsid, store_of(namespace)?)))
}

/// Waits until all stores have recovered.
pub(crate) async fn ready(core: &Core) {
    for store in stores(core) {
        store.ready().await;
    }
}

/// Saves the stores' state to the media at a power cut, as far as capacitors allow.
pub(crate) fn power_off(core: &Core) {
    stores(core).iter().for_each(Kv::save);
}
