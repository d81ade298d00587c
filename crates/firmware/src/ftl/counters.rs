//! Counters of a translation layer.

use byteway_clock::Delay;

byteway_clock::counters! {
    /// Counters of a translation layer since power-on, unless stated otherwise.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct FtlCounters {
        /// Units written by the host.
        pub user_units_written: u64,
        /// Bytes written by the host. A unit changed by [`edit`](crate::Ftl::edit) counts as a whole.
        pub user_bytes_written: u64,
        /// Written units that replaced a unit waiting in the buffer.
        pub units_overwritten_in_buffer: u64,
        /// Parts of units acknowledged from DRAM; included in [`user_units_written`](Self::user_units_written).
        pub parts_absorbed: u64,
        /// Units merged with their absorbed parts.
        pub parts_merged: u64,
        /// Units read by the host.
        pub units_read: u64,
        /// Read units found in the buffer.
        pub units_read_from_buffer: u64,
        /// Read units found in the read cache.
        pub units_read_from_cache: u64,
        /// Read units that are in flash, and were not in the read cache, of a drive that has one.
        pub units_not_in_cache: u64,
        /// Units read ahead of the host, into the read cache.
        pub units_read_ahead: u64,
        /// Of these, those that the host has read from there.
        pub units_read_ahead_used: u64,
        /// Read units that were unmapped, which read as zeroes without a flash read.
        pub units_read_unmapped: u64,
        /// Units deallocated by the host.
        pub units_deallocated: u64,
        /// Units programmed for host writes.
        pub units_programmed_host: u64,
        /// Units programmed by garbage collection.
        pub units_programmed_collector: u64,
        /// Units programmed because a translation page had changed.
        pub units_programmed_map: u64,
        /// Units programmed by wear leveling.
        pub units_programmed_levelling: u64,
        /// Units programmed by refresh.
        pub units_programmed_refresh: u64,
        /// Units programmed by folding the cache.
        pub units_programmed_folding: u64,
        /// Units programmed when retiring a failed superblock.
        pub units_programmed_retirement: u64,
        /// Padding units programmed to complete a stripe.
        pub units_programmed_padding: u64,
        /// Host units programmed into the cache; included in
        /// [`units_programmed_host`](Self::units_programmed_host).
        pub units_programmed_cache: u64,
        /// Translation pages among the units that garbage collection moved.
        pub map_units_collected: u64,
        /// Look-ups that found their translation page in the map cache. A command looks up each page once.
        pub map_hits: u64,
        /// Look-ups that had to load the page: from flash, unless nothing was mapped in it yet.
        pub map_misses: u64,
        /// Look-ups of a page that another command was already loading.
        pub map_misses_shared: u64,
        /// Translation pages read from flash.
        pub map_reads: u64,
        /// Map reads that flash could not deliver.
        pub map_reads_failed: u64,
        /// Dirty translation pages evicted from the cache.
        pub map_evictions_dirty: u64,
        /// Translation pages read and written back because they changed while not cached.
        pub map_updates: u64,
        /// Copies of translation pages stored in lent memory.
        pub map_copies_stored: u64,
        /// Translation pages loaded from such copies.
        pub map_copies_loaded: u64,
        /// Copies found damaged or lost, for which flash was read instead.
        pub map_copies_damaged: u64,
        /// Superblocks collected and erased because few were free.
        pub blocks_collected: u64,
        /// Superblocks collected and erased while the host was idle.
        pub blocks_collected_idle: u64,
        /// Superblocks collected and erased in collection windows although enough were free.
        pub blocks_collected_window: u64,
        /// Collection windows opened by a host.
        pub collection_windows: u64,
        /// Superblocks emptied and erased by wear leveling.
        pub blocks_levelled: u64,
        /// Superblocks emptied and erased by refresh.
        pub blocks_refreshed: u64,
        /// Superblocks of the cache emptied and erased.
        pub blocks_folded: u64,
        /// Superblocks that failed.
        pub blocks_retired: u64,
        /// Retired superblocks that have been emptied.
        pub blocks_retired_empty: u64,
        /// Failed programs.
        pub program_failures: u64,
        /// Failed erases.
        pub erase_failures: u64,
        /// Units requested by the host that flash could not deliver.
        pub units_unreadable: u64,
        /// Units that flash could not deliver when they were moved; they are unreadable from then on.
        pub units_lost: u64,
        /// Spare superblocks left.
        pub blocks_spare: u64,
        /// Free superblocks now.
        pub blocks_free: u64,
        /// Checkpoints written.
        pub checkpoints: u64,
        /// Pages of the deallocation journal written to the system area.
        pub journal_pages_programmed: u64,
        /// Stripes scanned at power-on.
        pub stripes_scanned: u64,
        /// Units whose address came from a scanned stripe instead of a translation page.
        pub units_recovered: u64,
        /// Duration of the recovery at power-on.
        pub recovery_time: Delay,
        /// Power cycles, as far as recorded in checkpoints.
        pub power_cycles: u64,
        /// Unsafe shutdowns, as far as recorded in checkpoints.
        pub unsafe_shutdowns: u64,
    }
}

impl FtlCounters {
    /// Write amplification factor since `then`. Zero if the host wrote nothing.
    pub fn write_amplification_since(&self, then: &FtlCounters) -> f64 {
        let programmed = self.units_programmed() - then.units_programmed();
        let written = self.user_units_written - then.user_units_written;
        if written == 0 { 0.0 } else { programmed as f64 / written as f64 }
    }

    /// Write amplification factor. Zero if the host wrote nothing.
    pub fn write_amplification(&self) -> f64 {
        self.write_amplification_since(&FtlCounters::default())
    }

    /// Units programmed for any reason.
    pub fn units_programmed(&self) -> u64 {
        self.units_programmed_host
            + self.units_programmed_map
            + self.units_programmed_collector
            + self.units_programmed_levelling
            + self.units_programmed_refresh
            + self.units_programmed_folding
            + self.units_programmed_retirement
            + self.units_programmed_padding
    }
}
