//! What a swarm has found once: each a plan, made smaller, with what was wrong.

use byteway_swarm::plan::Plan;
use byteway_swarm::swarm::run_caught;

macro_rules! plans {
    ($($(#[doc = $wrong:literal])+ $name:ident = $file:literal;)+) => {$(
        $(#[doc = $wrong])+
        #[test]
        fn $name() {
            check(include_str!(concat!("plans/", $file, ".toml")));
        }
    )+};
}

fn check(plan: &str) {
    let plan = Plan::from_toml(plan).expect("a plan in the repository is a plan");
    if let Some(failure) = run_caught(&plan).failure {
        panic!("{failure}");
    }
}

plans! {
    /// A trim dropped from the buffer what a flush beside it waited for; the flush ended, the trim was not durable yet, and
    /// after the cut there was neither.
    a_trim_beside_a_flush = "trim-beside-flush";
    /// The same, with several of each.
    trims_beside_flushes = "trims-beside-flushes";
    /// A purge waited for ever for superblocks that nobody closed.
    a_sanitize_that_never_ended = "sanitize-never-ends";
    /// A victim that the collector had taken while the host was idle waited when the host came, and a purge waited for it: nothing
    /// moved any more, which was taken for the drive's end.
    a_sanitize_beside_collection_while_idle = "sanitize-beside-idle-collection";
    /// An abort that was still on its way met the flush at the run's end, which was taken for a failure of the drive.
    an_abort_that_met_the_last_flush = "an-abort-that-meets-the-last-flush";
    /// While a Compare of zeroes was under way, they were written and trimmed again: what had been there before and what
    /// was there afterwards agreed, so that the difference was taken for a failure of the drive.
    a_compare_between_a_write_and_a_trim = "compare-between-write-and-trim";
    /// The stripe that padded a wordline of what was folded was more urgent than the stripe before it, came first and was
    /// refused: the superblock was taken for a bad one, and the drive for worn out.
    a_padding_that_overtook = "padding-overtakes";
    /// After a cut a die had no free superblock but spare ones. These were counted as free, so that streams went on where
    /// they were, and the collector found one of them again and again to be left.
    only_spare_superblocks_were_free = "only-spare-blocks-free";
    /// All that had something stale in it waited to be refreshed, for which there was no room; and nothing else could make
    /// room.
    all_superblocks_waited_for_a_refresh = "all-wait-for-refresh";
    /// The same on a drive with spare superblocks and a cache of one bit a cell.
    all_waited_on_a_drive_with_more_upkeep = "refresh-after-cuts";
    /// A unit whose program had failed was programmed in one stripe with what was written to it later: it was taken for
    /// stale before it had been counted.
    two_states_of_a_unit_in_a_stripe = "two-states-in-a-stripe";
    /// At the end of life translation pages that had changed left DRAM without being written; the orderly end after that
    /// wrote a checkpoint all the same, which said that flash had them: the units of these read as zeroes.
    a_checkpoint_after_the_end_of_life = "a-checkpoint-after-the-end";
    /// The same on another drive.
    a_checkpoint_of_pages_that_were_let_go = "a-checkpoint-of-pages-let-go";
    /// Capacitors had saved more than the write buffer holds, as what stores of pairs had in DRAM is beside it; when the drive
    /// reached the end of its life before all of that was programmed again, it took a slot that was not there.
    more_was_saved_than_the_buffer_holds = "pairs-saved-beyond-the-buffer";
    /// Pages of values that flash refused were dropped from DRAM, too, and pairs of a drive that was read-only could not be
    /// read.
    pairs_that_flash_refused = "pairs-that-flash-refuses";
    /// A store of pairs that flash didn't let format itself tried again, without a pause and for ever.
    a_format_of_pairs_that_never_ended = "pairs-sanitized-at-the-end";
    /// A Seek that came when the store was made anew, after a sanitize operation, completed before the store was ready: its
    /// iterator showed what was stored later.
    a_seek_before_the_store_was_ready = "scan-after-sanitize";
    /// With power-loss protection a segment of the value log was collected, and used again, while pages of it still waited to be
    /// written: they fell on what it had become.
    a_page_was_written_after_its_segment_was_collected = "pairs-written-after-collection";
    /// Segments that were closed with little in them, as the next value did not fit, counted as full: nothing was gained by
    /// collecting them, and a store that was all but empty had no room.
    pairs_in_sparse_segments = "pairs-in-sparse-segments";
    /// As after a failed program, so after a failed erase.
    a_checkpoint_after_a_failed_erase = "a-checkpoint-after-a-failed-erase";
    /// A value of many parts was counted once for each of them when its records were replayed, and a store that was all but
    /// empty had no room.
    pairs_in_parts_after_a_cut = "pairs-in-parts-after-a-cut";
    /// A store of pairs forgot what only DRAM had of it before flash had taken that it was empty; when flash refused that, values
    /// from before the newest came back.
    pairs_of_a_sanitize_that_failed = "pairs-of-a-sanitize-that-failed";
    /// The same of a format: afterwards the store could not be read.
    pairs_of_a_format_that_failed = "pairs-of-a-format-that-failed";
    /// The same without power-loss protection, where it isn't known then which manifest is the newest.
    pairs_of_a_format_that_failed_unprotected = "pairs-of-a-format-that-failed-unprotected";
    /// The watchdog's own reset waited for a completion whose interrupt was lost, and nobody looked.
    an_interrupt_was_lost_in_a_reset = "an-interrupt-lost-in-a-reset";
    /// A root said of a translation page that all its units are nowhere, while a collector moved what the base state has of that
    /// page; after a restart the copy was taken for newer, and what two formats had deallocated was there again.
    a_page_that_was_marked = "a-page-that-was-marked";
    /// Without modelled time the failure of a wordline's second program was learned before the end of its first, which it had
    /// spoilt, and which counted as safe all the same.
    a_failure_that_was_learned_first = "a-failure-that-was-learned-first";
    /// The last unit of a folded superblock went into the last free one of its die, and the former was erased, which gave
    /// none back. A cut of the power spoilt the latter, which could not be left any more: nothing was free, and nothing would be.
    a_fold_into_the_last_superblock = "a-fold-into-the-last-superblock";
    /// An iterator whose next command waited too long for room in the queue was gone, as it may be, which was taken for a failure.
    a_scan_that_came_late = "a-scan-that-came-late";
    /// A page of the map failed once to be read across a link, in recovery, and the firmware on the host gave up.
    a_page_of_the_map_that_failed_once_across_a_link = "a-page-of-the-map-that-failed-once-across-a-link";
    /// A drive that was pulled out went on with the commands that it had, and acknowledged a write that its medium did not have.
    an_acknowledgement_of_a_drive_that_was_pulled_out = "acknowledged-after-it-was-pulled";
    /// The write-intent log was cleared, but not durably: a member that failed with the power took units along of regions in which
    /// nothing had been written for long.
    marks_that_were_cleared = "marks-that-were-cleared";
    /// After a power cycle the last drives of an array were taken for spares, though one had become a member: it was missing then, and
    /// when another failed the array had lost data.
    a_spare_that_is_a_member = "a-spare-that-is-a-member";
    /// Without modelled time a read of a register waited for ever for a device that was off to take the writes before it.
    a_drive_that_is_off_takes_no_write = "a-drive-that-is-off-takes-no-write";
    /// Superblocks that were written while a member was rebuilt said that all was on it that had been written so far, which had not been
    /// flushed: when that member was missing after a power cut, units were lost for which there had been parity.
    a_rebuild_that_is_not_flushed = "a-rebuild-that-is-not-flushed";
    /// A lost unit was written while it was read: what had been read before was zeroes that stood in for it, which was not known any more
    /// to be lost.
    a_lost_unit_that_is_written_while_it_is_read = "a-lost-unit-that-is-written-while-it-is-read";
    /// Entries of the journal that were written while superblocks said that a member was rebuilt stayed there; when another member failed
    /// they were carried out, and what had been written since was undone.
    a_journal_of_an_earlier_failure = "a-journal-of-an-earlier-failure";
    /// The same where the numbers of such entries had been used again.
    a_journal_with_numbers_used_again = "a-journal-with-numbers-used-again";
    /// The first drive was shut down before its power went, which was taken for the end of its neighbour as well: that had a member
    /// pulled out, and its power cut, before it knew.
    a_neighbour_that_is_cut_when_the_first_drive_is_shut_down = "a-neighbour-that-is-cut-by-a-cycle";
    /// A drive of a box was pulled out and back before its host knew: what was asked of it went to the driver of the one that was gone.
    a_driver_of_an_earlier_life = "box-with-an-old-driver";
    /// A host that had restarted read a namespace whose format, asked for before, was still going on, which was taken for a failure.
    a_host_that_restarts_in_a_format = "box-restarted-in-a-format";
}
