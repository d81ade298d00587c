//! What a translation layer counts.

use byteway_clock::Delay;

/// What a translation layer has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FtlCounters {
    /// Units that the host wrote.
    pub user_units_written: u64,
    /// Bytes that the host wrote. Of a unit that was changed by [`edit`](crate::Ftl::edit) all of it counts.
    pub user_bytes_written: u64,
    /// Of those units, how many replaced one that was waiting in the buffer.
    pub units_overwritten_in_buffer: u64,
    /// Parts of units that were acknowledged when they were in DRAM; they are among
    /// [`user_units_written`](Self::user_units_written).
    pub parts_absorbed: u64,
    /// Units that were merged with what had come of them since.
    pub parts_merged: u64,
    /// Units that the host read.
    pub units_read: u64,
    /// Of those, how many were in the buffer.
    pub units_read_from_buffer: u64,
    /// Of those, how many were in the read cache.
    pub units_read_from_cache: u64,
    /// Of those, how many were nowhere: zeroes, without a read of flash.
    pub units_read_unmapped: u64,
    /// Units that the host deallocated.
    pub units_deallocated: u64,
    /// Units programmed because the host wrote them.
    pub units_programmed_host: u64,
    /// Units programmed because the collector moved them.
    pub units_programmed_collector: u64,
    /// Units programmed because they are translation pages that had changed.
    pub units_programmed_map: u64,
    /// Units programmed because their superblock was worn less than others.
    pub units_programmed_levelling: u64,
    /// Units programmed because their superblock was read too often, or they were old.
    pub units_programmed_refresh: u64,
    /// Units programmed because they were in the cache.
    pub units_programmed_folding: u64,
    /// Units programmed because their superblock had failed.
    pub units_programmed_retirement: u64,
    /// Units programmed to fill a stripe that could not wait.
    pub units_programmed_padding: u64,
    /// Units that the host wrote and that were programmed into the cache; they are among
    /// [`units_programmed_host`](Self::units_programmed_host).
    pub units_programmed_cache: u64,
    /// Of those that collectors moved, how many were translation pages.
    pub map_units_collected: u64,
    /// Times that a command found a translation page in the map's cache. It looks for each page once.
    pub map_hits: u64,
    /// Times that it did not, and the page had to be loaded; from flash, unless nothing had been mapped in it yet.
    pub map_misses: u64,
    /// Times that another command was loading it already.
    pub map_misses_shared: u64,
    /// Translation pages that were read from flash.
    pub map_reads: u64,
    /// Of those, how many flash could not give.
    pub map_reads_failed: u64,
    /// Translation pages that were written to make room in the cache.
    pub map_evictions_dirty: u64,
    /// Translation pages that were read and written because they had changed while they were not in the cache.
    pub map_updates: u64,
    /// Copies of translation pages that were sent to lent memory.
    pub map_copies_stored: u64,
    /// Translation pages that were loaded from their copies there.
    pub map_copies_loaded: u64,
    /// Copies that were damaged or gone; flash was read instead.
    pub map_copies_damaged: u64,
    /// Superblocks that were collected and erased because free ones were few.
    pub blocks_collected: u64,
    /// Superblocks that were collected and erased because the host was idle.
    pub blocks_collected_idle: u64,
    /// Superblocks that were collected and erased in windows, though free ones were not few.
    pub blocks_collected_window: u64,
    /// Collection windows that a host has opened.
    pub collection_windows: u64,
    /// Superblocks emptied and erased because they were worn less than others.
    pub blocks_levelled: u64,
    /// Superblocks emptied and erased because they were read too often, or old.
    pub blocks_refreshed: u64,
    /// Superblocks of the cache emptied and erased.
    pub blocks_folded: u64,
    /// Superblocks that failed.
    pub blocks_retired: u64,
    /// Of those, how many have been emptied.
    pub blocks_retired_empty: u64,
    /// Programs that failed.
    pub program_failures: u64,
    /// Erases that failed.
    pub erase_failures: u64,
    /// Units that the host asked for and flash could not give.
    pub units_unreadable: u64,
    /// Units that flash could not give when they were to be moved: from then on they can't be read.
    pub units_lost: u64,
    /// Spare superblocks that are left.
    pub blocks_spare: u64,
    /// Superblocks that are free now.
    pub blocks_free: u64,
    /// Checkpoints that were written.
    pub checkpoints: u64,
    /// Pages of the journal of deallocations that were written, in the system area.
    pub journal_pages_programmed: u64,
    /// Stripes that were looked at when the power came back.
    pub stripes_scanned: u64,
    /// Units whose place was found in them, rather than in a translation page.
    pub units_recovered: u64,
    /// How long it took until what the medium holds was known.
    pub recovery_time: Delay,
    /// How often the power has come, as far as checkpoints have noted it.
    pub power_cycles: u64,
    /// How often it had gone without a shutdown, likewise.
    pub unsafe_shutdowns: u64,
}

impl std::ops::AddAssign for FtlCounters {
    /// Of several translation layers.
    fn add_assign(&mut self, other: FtlCounters) {
        let FtlCounters {
            user_units_written,
            user_bytes_written,
            units_overwritten_in_buffer,
            parts_absorbed,
            parts_merged,
            units_read,
            units_read_from_buffer,
            units_read_from_cache,
            units_read_unmapped,
            units_deallocated,
            units_programmed_host,
            units_programmed_collector,
            units_programmed_map,
            units_programmed_levelling,
            units_programmed_refresh,
            units_programmed_folding,
            units_programmed_retirement,
            units_programmed_padding,
            units_programmed_cache,
            map_units_collected,
            map_hits,
            map_misses,
            map_misses_shared,
            map_reads,
            map_reads_failed,
            map_evictions_dirty,
            map_updates,
            map_copies_stored,
            map_copies_loaded,
            map_copies_damaged,
            blocks_collected,
            blocks_collected_idle,
            blocks_collected_window,
            collection_windows,
            blocks_levelled,
            blocks_refreshed,
            blocks_folded,
            blocks_retired,
            blocks_retired_empty,
            program_failures,
            erase_failures,
            units_unreadable,
            units_lost,
            blocks_spare,
            blocks_free,
            checkpoints,
            journal_pages_programmed,
            stripes_scanned,
            units_recovered,
            recovery_time,
            power_cycles,
            unsafe_shutdowns,
        } = other;
        self.user_units_written += user_units_written;
        self.user_bytes_written += user_bytes_written;
        self.units_overwritten_in_buffer += units_overwritten_in_buffer;
        self.parts_absorbed += parts_absorbed;
        self.parts_merged += parts_merged;
        self.units_read += units_read;
        self.units_read_from_buffer += units_read_from_buffer;
        self.units_read_from_cache += units_read_from_cache;
        self.units_read_unmapped += units_read_unmapped;
        self.units_deallocated += units_deallocated;
        self.units_programmed_host += units_programmed_host;
        self.units_programmed_collector += units_programmed_collector;
        self.units_programmed_map += units_programmed_map;
        self.units_programmed_levelling += units_programmed_levelling;
        self.units_programmed_refresh += units_programmed_refresh;
        self.units_programmed_folding += units_programmed_folding;
        self.units_programmed_retirement += units_programmed_retirement;
        self.units_programmed_padding += units_programmed_padding;
        self.units_programmed_cache += units_programmed_cache;
        self.map_units_collected += map_units_collected;
        self.map_hits += map_hits;
        self.map_misses += map_misses;
        self.map_misses_shared += map_misses_shared;
        self.map_reads += map_reads;
        self.map_reads_failed += map_reads_failed;
        self.map_evictions_dirty += map_evictions_dirty;
        self.map_updates += map_updates;
        self.map_copies_stored += map_copies_stored;
        self.map_copies_loaded += map_copies_loaded;
        self.map_copies_damaged += map_copies_damaged;
        self.blocks_collected += blocks_collected;
        self.blocks_collected_idle += blocks_collected_idle;
        self.blocks_collected_window += blocks_collected_window;
        self.collection_windows += collection_windows;
        self.blocks_levelled += blocks_levelled;
        self.blocks_refreshed += blocks_refreshed;
        self.blocks_folded += blocks_folded;
        self.blocks_retired += blocks_retired;
        self.blocks_retired_empty += blocks_retired_empty;
        self.program_failures += program_failures;
        self.erase_failures += erase_failures;
        self.units_unreadable += units_unreadable;
        self.units_lost += units_lost;
        self.blocks_spare += blocks_spare;
        self.blocks_free += blocks_free;
        self.checkpoints += checkpoints;
        self.journal_pages_programmed += journal_pages_programmed;
        self.stripes_scanned += stripes_scanned;
        self.units_recovered += units_recovered;
        self.recovery_time += recovery_time;
        self.power_cycles += power_cycles;
        self.unsafe_shutdowns += unsafe_shutdowns;
    }
}

impl FtlCounters {
    /// Units programmed for each that the host wrote, since `then`. Zero if the host wrote none.
    pub fn write_amplification_since(&self, then: &FtlCounters) -> f64 {
        let programmed = self.units_programmed() - then.units_programmed();
        let written = self.user_units_written - then.user_units_written;
        if written == 0 { 0.0 } else { programmed as f64 / written as f64 }
    }

    /// Units programmed for each that the host wrote. Zero if the host wrote none.
    pub fn write_amplification(&self) -> f64 {
        self.write_amplification_since(&FtlCounters::default())
    }

    /// Units programmed, whatever for.
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
