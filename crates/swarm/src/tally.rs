//! Counts of what runs did. They show that a swarm exercises what it claims to.

byteway_clock::counters! {
    /// Counts of one or several runs.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Tally {
        /// Number of runs.
        pub runs: u64,
        /// Operations started.
        pub ops: u64,
        /// Operations that ended with an error explained by a fault.
        pub ops_failed: u64,
        /// Power cuts.
        pub cuts: u64,
        /// Power cuts before the driver had attached.
        pub cuts_mounting: u64,
        /// Orderly power cycles.
        pub cycles: u64,
        /// Controller resets.
        pub resets: u64,
        /// Aborts.
        pub aborts: u64,
        /// Interrupts lost.
        pub interrupts_lost: u64,
        /// Link replays.
        pub replays: u64,
        /// Flash programs and erases that failed.
        pub flash_failures: u64,
        /// Units that flash could not read.
        pub units_uncorrectable: u64,
        /// Superblocks that failed.
        pub blocks_retired: u64,
        /// Superblocks moved by static wear leveling.
        pub blocks_levelled: u64,
        /// Superblocks refreshed because of their read count or age.
        pub blocks_refreshed: u64,
        /// SLC superblocks folded.
        pub blocks_folded: u64,
        /// Superblocks collected while the host was idle.
        pub blocks_collected_idle: u64,
        /// Accesses to translation pages that were not in DRAM.
        pub map_misses: u64,
        /// Runs that ended with a read-only drive.
        pub ends_of_life: u64,
        /// Runs with media in files.
        pub in_files: u64,
        /// Runs of drives whose firmware runs on the host.
        pub hosted: u64,
        /// Runs of drives with part of the firmware on the host.
        pub partial: u64,
        /// Runs of drives with an extent tree as their map.
        pub with_extents: u64,
        /// Runs of arrays on the host.
        pub arrays: u64,
        /// Runs of bridges.
        pub bridges: u64,
        /// Array members unplugged.
        pub members_unplugged: u64,
        /// Array stripes repaired after a power cut.
        pub stripes_repaired: u64,
        /// Units reconstructed from the remaining members.
        pub units_reconstructed: u64,
        /// Units rebuilt onto replacement members.
        pub units_rebuilt: u64,
        /// Units of arrays marked as lost.
        pub units_lost: u64,
        /// Writes that bridges buffered.
        pub writes_taken: u64,
        /// Runs of JBOFs.
        pub jbofs: u64,
        /// Faults of JBOFs: drives that left, lost links, host restarts.
        pub jbof_faults: u64,
        /// Returns of a drive to its JBOF.
        pub drives_left: u64,
        /// Sessions lost with all their outstanding commands.
        pub sessions_cut: u64,
        /// Processors lent in JBOFs.
        pub loans: u64,
        /// Commands redirected through another drive.
        pub redirected: u64,
        /// Loans of DRAM in JBOFs.
        pub dram_borrowed: u64,
        /// Dirty map pages recovered after the loss of the DRAM that held them.
        pub dram_recovered: u64,
        /// Segments of borrowed DRAM flushed because their logs were full.
        pub log_flushes: u64,
        /// Units merged from parts buffered in DRAM.
        pub parts_merged: u64,
        /// Runs without modeled time.
        pub untimed: u64,
        /// Namespaces created.
        pub namespaces_created: u64,
        /// Namespaces deleted.
        pub namespaces_deleted: u64,
        /// Formats.
        pub formats: u64,
        /// Sanitize operations.
        pub sanitized: u64,
        /// Blocks read and verified.
        pub blocks_verified: u64,
        /// Runs with KV namespaces.
        pub with_pairs: u64,
        /// Runs with table namespaces.
        pub with_tables: u64,
        /// Verified results about tables.
        pub tables_verified: u64,
        /// Runs with local memory and programs.
        pub with_programs: u64,
        /// Verified results about these.
        pub programs_verified: u64,
        /// Key-value pairs stored.
        pub pairs_stored: u64,
        /// Stores refused for lack of space.
        pub pairs_refused: u64,
        /// Values and Exist results verified.
        pub pairs_verified: u64,
        /// Compactions of a KV store's index.
        pub pairs_merged: u64,
        /// Value log segments collected.
        pub pairs_collected: u64,
        /// Records of key-value pairs replayed by recoveries.
        pub pairs_replayed: u64,
        /// Superblocks collected.
        pub blocks_collected: u64,
        /// Neighbor drives.
        pub neighbours: u64,
        /// Polls.
        pub polls: u64,
    }
}
