//! What runs did, counted: a swarm in which nothing happens finds nothing.

/// What a run did: so that one can see that a swarm does what it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Runs.
    pub runs: u64,
    /// Operations that were begun.
    pub ops: u64,
    /// Of those, how many ended with an error that a fault explains.
    pub ops_failed: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Of those, how many came before the driver had attached.
    pub cuts_mounting: u64,
    /// Orderly power cycles.
    pub cycles: u64,
    /// Controller resets.
    pub resets: u64,
    /// Aborts.
    pub aborts: u64,
    /// Interrupts that were lost.
    pub interrupts_lost: u64,
    /// Times that the link repeated itself.
    pub replays: u64,
    /// Programs and erases of flash that failed.
    pub flash_failures: u64,
    /// Units that reads of flash could not give.
    pub units_uncorrectable: u64,
    /// Superblocks that failed.
    pub blocks_retired: u64,
    /// Superblocks that were moved because they were little worn.
    pub blocks_levelled: u64,
    /// Superblocks that were moved because they were read too often, or old.
    pub blocks_refreshed: u64,
    /// Superblocks of a cache of one bit a cell that were emptied.
    pub blocks_folded: u64,
    /// Superblocks that were collected while the host was idle.
    pub blocks_collected_idle: u64,
    /// Translation pages that were not in DRAM.
    pub map_misses: u64,
    /// Runs whose drive was read-only in the end.
    pub ends_of_life: u64,
    /// Runs whose medium was in files.
    pub in_files: u64,
    /// Of the runs, those of drives whose firmware runs on the host.
    pub hosted: u64,
    /// Those of drives of which a part of the firmware runs on the host.
    pub partial: u64,
    /// Those of drives whose map is a tree of extents.
    pub with_extents: u64,
    /// Those of arrays on the host.
    pub arrays: u64,
    /// Those of bridges.
    pub bridges: u64,
    /// Members of arrays that were unplugged.
    pub members_unplugged: u64,
    /// Stripes of arrays that were repaired after a power cut.
    pub stripes_repaired: u64,
    /// Units that were computed from the members that were left.
    pub units_reconstructed: u64,
    /// Units that were written to members that took the places of others.
    pub units_rebuilt: u64,
    /// Units of arrays that could not be known any more.
    pub units_lost: u64,
    /// Writes that bridges took into their memory.
    pub writes_taken: u64,
    /// Runs of boxes.
    pub boxes: u64,
    /// Faults of boxes: drives that left, links that were lost, hosts that restarted.
    pub box_faults: u64,
    /// Times that a drive of a box came back.
    pub drives_left: u64,
    /// Times that all that was under way at a drive of a box was lost, and its host went on.
    pub sessions_cut: u64,
    /// Processors that drives of boxes lent.
    pub loans: u64,
    /// Commands that went by another drive.
    pub redirected: u64,
    /// Times that drives of boxes borrowed DRAM.
    pub dram_borrowed: u64,
    /// Dirty pages of the map that were recovered because the DRAM that held them was lost.
    pub dram_recovered: u64,
    /// Segments of borrowed DRAM that were flushed because their logs were full.
    pub log_flushes: u64,
    /// Units of which parts waited in DRAM and were merged.
    pub parts_merged: u64,
    /// Runs in which modelled waits took no time.
    pub untimed: u64,
    /// Namespaces that were created.
    pub namespaces_created: u64,
    /// Namespaces that were deleted.
    pub namespaces_deleted: u64,
    /// Formats.
    pub formats: u64,
    /// Sanitize operations.
    pub sanitized: u64,
    /// Blocks that were read and verified.
    pub blocks_verified: u64,
    /// Runs with namespaces of pairs.
    pub with_pairs: u64,
    /// Pairs stored.
    pub pairs_stored: u64,
    /// Stores for which there was no room.
    pub pairs_refused: u64,
    /// Values, and answers to whether there is a key, that were verified.
    pub pairs_verified: u64,
    /// Merges of a store's index.
    pub pairs_merged: u64,
    /// Segments of a value log that were collected.
    pub pairs_collected: u64,
    /// Records of pairs that a recovery found.
    pub pairs_replayed: u64,
    /// Superblocks that were collected.
    pub blocks_collected: u64,
    /// Neighbour drives.
    pub neighbours: u64,
    /// Polls.
    pub polls: u64,
}

impl Tally {
    /// Adds another's.
    pub fn add(&mut self, other: &Tally) {
        let Tally {
            runs,
            ops,
            ops_failed,
            cuts,
            cuts_mounting,
            cycles,
            resets,
            aborts,
            interrupts_lost,
            replays,
            flash_failures,
            units_uncorrectable,
            blocks_retired,
            blocks_levelled,
            blocks_refreshed,
            blocks_folded,
            blocks_collected_idle,
            map_misses,
            ends_of_life,
            in_files,
            untimed,
            hosted,
            partial,
            with_extents,
            arrays,
            bridges,
            members_unplugged,
            stripes_repaired,
            units_reconstructed,
            units_rebuilt,
            units_lost,
            writes_taken,
            boxes,
            box_faults,
            drives_left,
            sessions_cut,
            loans,
            redirected,
            dram_borrowed,
            dram_recovered,
            log_flushes,
            parts_merged,
            namespaces_created,
            namespaces_deleted,
            formats,
            sanitized,
            blocks_verified,
            with_pairs,
            pairs_stored,
            pairs_refused,
            pairs_verified,
            pairs_merged,
            pairs_collected,
            pairs_replayed,
            blocks_collected,
            neighbours,
            polls,
        } = other;
        self.runs += runs;
        self.ops += ops;
        self.ops_failed += ops_failed;
        self.cuts += cuts;
        self.cuts_mounting += cuts_mounting;
        self.cycles += cycles;
        self.resets += resets;
        self.aborts += aborts;
        self.interrupts_lost += interrupts_lost;
        self.replays += replays;
        self.flash_failures += flash_failures;
        self.units_uncorrectable += units_uncorrectable;
        self.blocks_retired += blocks_retired;
        self.blocks_levelled += blocks_levelled;
        self.blocks_refreshed += blocks_refreshed;
        self.blocks_folded += blocks_folded;
        self.blocks_collected_idle += blocks_collected_idle;
        self.map_misses += map_misses;
        self.ends_of_life += ends_of_life;
        self.in_files += in_files;
        self.untimed += untimed;
        self.hosted += hosted;
        self.partial += partial;
        self.with_extents += with_extents;
        self.arrays += arrays;
        self.bridges += bridges;
        self.members_unplugged += members_unplugged;
        self.stripes_repaired += stripes_repaired;
        self.units_reconstructed += units_reconstructed;
        self.units_rebuilt += units_rebuilt;
        self.units_lost += units_lost;
        self.writes_taken += writes_taken;
        self.boxes += boxes;
        self.box_faults += box_faults;
        self.drives_left += drives_left;
        self.sessions_cut += sessions_cut;
        self.loans += loans;
        self.redirected += redirected;
        self.dram_borrowed += dram_borrowed;
        self.dram_recovered += dram_recovered;
        self.log_flushes += log_flushes;
        self.parts_merged += parts_merged;
        self.namespaces_created += namespaces_created;
        self.namespaces_deleted += namespaces_deleted;
        self.formats += formats;
        self.sanitized += sanitized;
        self.blocks_verified += blocks_verified;
        self.with_pairs += with_pairs;
        self.pairs_stored += pairs_stored;
        self.pairs_refused += pairs_refused;
        self.pairs_verified += pairs_verified;
        self.pairs_merged += pairs_merged;
        self.pairs_collected += pairs_collected;
        self.pairs_replayed += pairs_replayed;
        self.blocks_collected += blocks_collected;
        self.neighbours += neighbours;
        self.polls += polls;
    }
}
