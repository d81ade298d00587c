//! Counters of a store, and its space in use.

/// Counters of a store since power-on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KvCounters {
    /// Log pages programmed for the host's values. A page flushed before it was full counts again when the rest is
    /// written.
    pub log_pages: u64,
    /// The part of `log_pages` that were not full.
    pub log_pages_partial: u64,
    /// Log pages programmed for values that garbage collection moved.
    pub log_pages_moved: u64,
    /// Units of record tables that were programmed.
    pub record_units: u64,
    /// Units of tables programmed by memtable flushes.
    pub index_units_flushed: u64,
    /// Units of tables programmed by merges.
    pub index_units_compacted: u64,
    /// Units of tables read from flash by look-ups.
    pub index_units_read: u64,
    /// Units of tables read from flash by merges.
    pub index_units_merged: u64,
    /// Look-ups of a table's unit that the DRAM cache answered.
    pub cache_hits: u64,
    /// Units of the manifest programmed.
    pub manifest_units: u64,
    /// Manifests written.
    pub manifests: u64,
    /// Units of values read from flash for the host.
    pub value_units_read: u64,
    /// Values that the host stored.
    pub values_stored: u64,
    /// Bytes of those values.
    pub value_bytes_stored: u64,
    /// Values that garbage collection moved.
    pub values_moved: u64,
    /// Bytes of those values.
    pub value_bytes_moved: u64,
    /// Bytes that the processor copied into log pages.
    pub bytes_packed: u64,
    /// Bytes left empty between the host's values.
    pub padding_bytes: u64,
    /// Table reads that a filter avoided.
    pub filter_hits: u64,
    /// Tables that were read although they do not hold the key.
    pub filter_misses: u64,
    /// Memtables flushed to flash.
    pub memtables_flushed: u64,
    /// Merges of tables.
    pub compactions: u64,
    /// Entries read by merges.
    pub entries_compacted: u64,
    /// The part of `entries_compacted` that newer entries replaced.
    pub entries_dropped: u64,
    /// Segments of the value log that garbage collection freed.
    pub collections: u64,
    /// Operations that waited for space.
    pub stalls: u64,
    /// Records replayed in recovery.
    pub records_replayed: u64,
    /// Records dropped in recovery because the value did not match its checksum.
    pub records_torn: u64,
}

/// Capacity of a store, and how much is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KvUsage {
    /// Capacity, in bytes of values, records and index entries together.
    pub capacity_bytes: u64,
    /// Bytes in use: an estimate that is never too low unless power was lost. A key-value pair that was
    /// overwritten without a look-up counts twice until its entries are merged.
    pub used_bytes: u64,
    /// Number of key-value pairs, with the same reservation.
    pub keys: u64,
}
