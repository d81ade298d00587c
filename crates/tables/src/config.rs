//! Configuration, errors and usage figures of a store.

use byteway_content::UNIT_BYTES;
use byteway_defect::Planted;
use byteway_firmware::MediaError;

/// A run of consecutive 4 KiB units of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitExtent {
    /// First unit.
    pub first: u64,
    /// Number of units.
    pub count: u64,
}

/// Configuration of a store.
#[derive(Clone, Debug)]
pub struct TablesConfig {
    /// The units of the store, in the order in which the store numbers them.
    pub extents: Vec<UnitExtent>,
    /// Owner of the units. A catalog written by another owner is ignored.
    pub uid: u64,
    /// Upper limit of the number of tables.
    pub tables_max: u32,
    /// The defect on purpose, if any.
    pub defect: Planted<Defect>,
}

byteway_defect::defects! {
    /// Defects on purpose of a store.
    pub enum Defect {
        /// Writes the catalog before the row groups that it names.
        CatalogFirst = "catalog-first",
        /// Commits row groups of one append one by one.
        OneByOne = "one-by-one",
    }
}

impl TablesConfig {
    /// A configuration over these units, with defaults for the rest.
    pub fn new(extents: Vec<UnitExtent>, uid: u64) -> TablesConfig {
        TablesConfig { extents, uid, tables_max: 1024, defect: Planted::none() }
    }

    /// Checks the configuration.
    ///
    /// # Errors
    /// The store has fewer than [`UNITS_MIN`] units.
    pub fn check(&self) -> Result<(), TablesConfigError> {
        let units = self.units();
        if units < UNITS_MIN { Err(TablesConfigError { units }) } else { Ok(()) }
    }

    pub(crate) fn units(&self) -> u64 {
        self.extents.iter().map(|extent| extent.count).sum()
    }
}

/// Smallest store, in units. Below this the two catalog slots would take most of it.
pub const UNITS_MIN: u64 = 64;

/// Why a configuration is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{units} units of 4 KiB are too few for a store of tables: at least {UNITS_MIN} are required")]
pub struct TablesConfigError {
    units: u64,
}

/// Why a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TablesError {
    /// No table of this name or identifier exists.
    #[error("no such table")]
    NotFound,
    /// A table of this name exists.
    #[error("a table of this name already exists")]
    Exists,
    /// The name is empty or longer than 255 bytes.
    #[error("a table name must have 1 to 255 bytes")]
    Name,
    /// [`TablesConfig::tables_max`] tables exist.
    #[error("the maximum number of tables exists: drop one first")]
    TooMany,
    /// Too few free units, or too fragmented.
    #[error("not enough free space: drop a table or enlarge the namespace")]
    NoSpace,
    /// The catalog would exceed its slot.
    #[error("the catalog is full: append fewer, longer row groups")]
    CatalogFull,
    /// A read or write of flash failed.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// The store was stopped.
    #[error("the store has stopped")]
    Stopped,
}

/// Usage figures of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TablesUsage {
    /// Bytes available to row groups, used and free.
    pub capacity_bytes: u64,
    /// Bytes that row groups occupy.
    pub used_bytes: u64,
    /// Number of tables.
    pub tables: u64,
    /// Number of row groups.
    pub groups: u64,
    /// Number of rows.
    pub rows: u64,
}

/// Size in units of each of the two catalog slots of a range of `units`.
pub(crate) fn slot_units(units: u64) -> u64 {
    (units / 64).clamp(4, 2048)
}

/// Number of units that `bytes` occupy, the last one possibly in part.
pub(crate) fn units_of(bytes: u64) -> u64 {
    bytes.div_ceil(UNIT_BYTES as u64)
}
