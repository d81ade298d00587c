//! What a store has done so far, and how much of it is used.

/// What a store has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KvCounters {
    /// Log pages programmed for the host's values, those twice that were written when they were not full.
    pub log_pages: u64,
    /// Of those, pages that were not full.
    pub log_pages_partial: u64,
    /// Log pages programmed for values that collection moved.
    pub log_pages_moved: u64,
    /// Units of record tables programmed.
    pub record_units: u64,
    /// Units of tables that were programmed when memory was full.
    pub index_units_flushed: u64,
    /// Units of tables that merging programmed.
    pub index_units_compacted: u64,
    /// Units of tables read from flash to look something up.
    pub index_units_read: u64,
    /// Units of tables read from flash to merge them.
    pub index_units_merged: u64,
    /// Look-ups of a table's unit that DRAM had.
    pub cache_hits: u64,
    /// Units of the manifest programmed.
    pub manifest_units: u64,
    /// Manifests written.
    pub manifests: u64,
    /// Units of values read from flash for the host.
    pub value_units_read: u64,
    /// Values that the host stored.
    pub values_stored: u64,
    /// Their bytes.
    pub value_bytes_stored: u64,
    /// Values that collection moved.
    pub values_moved: u64,
    /// Their bytes.
    pub value_bytes_moved: u64,
    /// Bytes that the processor copied to their place.
    pub bytes_packed: u64,
    /// Bytes left empty between values of the host's.
    pub padding_bytes: u64,
    /// Tables that a filter spared a look-up.
    pub filter_hits: u64,
    /// Tables that were looked at although the key is not in them.
    pub filter_misses: u64,
    /// Memtables written to flash.
    pub memtables_flushed: u64,
    /// Merges of tables.
    pub compactions: u64,
    /// Entries that went into them.
    pub entries_compacted: u64,
    /// Of those, entries that were dropped because there were newer ones.
    pub entries_dropped: u64,
    /// Segments of the value log collected.
    pub collections: u64,
    /// Stores that had to wait for room.
    pub stalls: u64,
    /// Records replayed when the power came back.
    pub records_replayed: u64,
    /// Of those, how many were dropped because their value was torn.
    pub records_torn: u64,
}

/// How much of a store is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KvUsage {
    /// What pairs may take in all, with what their records and index entries take.
    pub capacity_bytes: u64,
    /// What they take: an estimate that is never too low while no power was cut. Pairs that were stored anew without a
    /// look at the old one count twice until they are merged.
    pub used_bytes: u64,
    /// How many pairs there are, estimated likewise.
    pub keys: u64,
}
