//! Past failures found by swarms, as shrunk plans, with their causes.

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
    /// A trim removed from the buffer the data that a flush waited for. The flush completed although the trim was not durable yet, and
    /// after the cut there was neither.
    a_trim_beside_a_flush = "trim-beside-flush";
    /// The same, with several of each.
    trims_beside_flushes = "trims-beside-flushes";
    /// A purge waited indefinitely for superblocks that no task closed.
    a_sanitize_that_never_ended = "sanitize-never-ends";
    /// A victim selected by idle garbage collection waited when the host returned, and a purge waited for the victim. The deadlock was
    /// mistaken for the drive's end of life.
    a_sanitize_beside_collection_while_idle = "sanitize-beside-idle-collection";
    /// A late abort hit the flush at the end of the run, which was mistaken for a failure of the drive.
    an_abort_that_met_the_last_flush = "an-abort-that-meets-the-last-flush";
    /// During a Compare of zeroes, zeroes were written and trimmed again: the states before and after agreed, so that the mismatch was
    /// mistaken for a failure of the drive.
    a_compare_between_a_write_and_a_trim = "compare-between-write-and-trim";
    /// The stripe that padded a wordline of a fold had a higher priority than the preceding stripe, arrived first and was refused. The
    /// superblock was mistaken for a bad one, and the drive for worn out.
    a_padding_that_overtook = "padding-overtakes";
    /// After a cut a die had only spare superblocks free. They were counted as free, so that streams kept their open superblocks, and
    /// garbage collection selected the same one repeatedly.
    only_spare_superblocks_were_free = "only-spare-blocks-free";
    /// All superblocks with stale data waited for a refresh, for which there was no free space; and nothing else could free any.
    all_superblocks_waited_for_a_refresh = "all-wait-for-refresh";
    /// The same on a drive with spare superblocks and an SLC cache.
    all_waited_on_a_drive_with_more_upkeep = "refresh-after-cuts";
    /// A unit whose program had failed was programmed in one stripe with its newer version: it was treated as stale before it had been
    /// counted.
    two_states_of_a_unit_in_a_stripe = "two-states-in-a-stripe";
    /// At the end of life dirty translation pages were evicted from DRAM without being written. The later shutdown still wrote a checkpoint
    /// that claimed they were in flash: their units read as zeroes.
    a_checkpoint_after_the_end_of_life = "a-checkpoint-after-the-end";
    /// The same on another drive.
    a_checkpoint_of_pages_that_were_let_go = "a-checkpoint-of-pages-let-go";
    /// Capacitors had saved more than the write buffer holds, because DRAM state of KV stores is additional. When the drive reached its end
    /// of life before all of it was programmed again, it used a slot that did not exist.
    more_was_saved_than_the_buffer_holds = "pairs-saved-beyond-the-buffer";
    /// Pages of values that flash refused were dropped from DRAM as well, so that pairs of a read-only drive could not be read.
    pairs_that_flash_refused = "pairs-that-flash-refuses";
    /// A KV store that flash did not allow to format itself retried indefinitely, without a pause.
    a_format_of_pairs_that_never_ended = "pairs-sanitized-at-the-end";
    /// A Seek during the reinitialization of a store after a sanitize operation completed before the store was ready: its iterator showed
    /// pairs stored later.
    a_seek_before_the_store_was_ready = "scan-after-sanitize";
    /// With power-loss protection a value log segment was collected and reused while some of its pages still waited to be written: they
    /// overwrote the new content.
    a_page_was_written_after_its_segment_was_collected = "pairs-written-after-collection";
    /// Segments closed early because the next value did not fit counted as full: collecting them freed nothing, and a nearly empty store
    /// had no free space.
    pairs_in_sparse_segments = "pairs-in-sparse-segments";
    /// The same after a failed erase as after a failed program.
    a_checkpoint_after_a_failed_erase = "a-checkpoint-after-a-failed-erase";
    /// During replay, a value of several parts was counted once for each part, and a nearly empty store had no free space.
    pairs_in_parts_after_a_cut = "pairs-in-parts-after-a-cut";
    /// A KV store discarded its DRAM state before flash had accepted that it was empty. When flash refused, older values returned.
    pairs_of_a_sanitize_that_failed = "pairs-of-a-sanitize-that-failed";
    /// The same with a format: afterwards the store could not be read.
    pairs_of_a_format_that_failed = "pairs-of-a-format-that-failed";
    /// The same without power-loss protection, where it is then unknown which manifest is the newest.
    pairs_of_a_format_that_failed_unprotected = "pairs-of-a-format-that-failed-unprotected";
    /// The watchdog's own reset waited for a completion whose interrupt was lost, and no task polled for it.
    an_interrupt_was_lost_in_a_reset = "an-interrupt-lost-in-a-reset";
    /// A root said of a translation page that all its units are unmapped, while garbage collection moved the base state's data of that
    /// page. After a restart the copy was considered newer, and data that two formats had deallocated returned.
    a_page_that_was_marked = "a-page-that-was-marked";
    /// Without modeled time the failure of a wordline's second program was reported before the end of its first one, which it had
    /// corrupted, and which still counted as safe.
    a_failure_that_was_learned_first = "a-failure-that-was-learned-first";
    /// The last unit of a folded superblock went into the last free superblock of its die, and the former was erased, which freed none. A
    /// power cut corrupted the latter, which could no longer be evacuated: nothing was free, nor would be.
    a_fold_into_the_last_superblock = "a-fold-into-the-last-superblock";
    /// An iterator whose next command waited too long for a free queue slot had expired, as is allowed, which was mistaken for a failure.
    a_scan_that_came_late = "a-scan-that-came-late";
    /// A single read failure of a map page over a link, during recovery, made the firmware on the host give up.
    a_page_of_the_map_that_failed_once_across_a_link = "a-page-of-the-map-that-failed-once-across-a-link";
    /// A removed drive continued with its commands, and acknowledged a write that its medium did not have.
    an_acknowledgement_of_a_drive_that_was_pulled_out = "acknowledged-after-it-was-pulled";
    /// The write-intent log was cleared, but not durably: a member that failed with the power took units with it, in regions that had been
    /// idle for long.
    marks_that_were_cleared = "marks-that-were-cleared";
    /// After a power cycle the last drives of an array were treated as spares, although one had become a member. It was then missing, and
    /// the failure of another one lost data.
    a_spare_that_is_a_member = "a-spare-that-is-a-member";
    /// Without modeled time a register read waited indefinitely for an unpowered device to accept earlier writes.
    a_drive_that_is_off_takes_no_write = "a-drive-that-is-off-takes-no-write";
    /// Superblocks written during a rebuild claimed that the new member had all data written so far, which was not flushed. When that
    /// member was missing after a power cut, units with valid parity were lost.
    a_rebuild_that_is_not_flushed = "a-rebuild-that-is-not-flushed";
    /// A lost unit was written while it was read: the read had taken zeroes that stood in for it, and the unit was no longer marked as
    /// lost.
    a_lost_unit_that_is_written_while_it_is_read = "a-lost-unit-that-is-written-while-it-is-read";
    /// Journal entries written while superblocks said that a member was being rebuilt stayed in the journal. When another member failed
    /// they were replayed, and undid later writes.
    a_journal_of_an_earlier_failure = "a-journal-of-an-earlier-failure";
    /// The same where the numbers of such entries had been reused.
    a_journal_with_numbers_used_again = "a-journal-with-numbers-used-again";
    /// The first drive was shut down before its power-off, which was mistaken for the end of its neighbor as well: that one had a member
    /// removed, and its power cut, unexpectedly.
    a_neighbour_that_is_cut_when_the_first_drive_is_shut_down = "a-neighbour-that-is-cut-by-a-cycle";
    /// A drive left its JBOF and returned before its host noticed: commands went to the driver of the earlier life.
    a_driver_of_an_earlier_life = "box-with-an-old-driver";
    /// A restarted host read a namespace whose earlier format was still in progress, which was mistaken for a failure.
    a_host_that_restarts_in_a_format = "box-restarted-in-a-format";
    /// A reset in progress when a drive in a JBOF lost power completed under another driver, and was mistaken for a failure of that
    /// one.
    a_reset_that_a_driver_did_not_end = "box-reset-over-a-cut";
    /// A checkpoint after a sanitize determined once which map pages had entries, and marked a page as empty that had received some while
    /// it waited: after the next power-on its units read as zeroes.
    a_page_that_filled_while_a_checkpoint_waited = "page-fills-in-a-checkpoint";
    /// A drive had returned to its JBOF, and had no queue pairs yet: a reset was requested from the driver of the earlier life.
    a_reset_of_an_old_driver = "box-reset-of-an-old-driver";
    /// The newer of the two copies of a namespace's catalog was on a page that could not be read after a power-on: the older one, one change
    /// before, was taken for what there was.
    a_catalog_with_a_bad_page = "a-catalog-with-a-bad-page";
    /// A read of one entry ended before one of four that had begun earlier: the second half of a fused operation came first, and both were
    /// refused.
    a_fused_operation_whose_halves_are_in_two_reads = "fused-without-its-half";
    /// In a JBOF a command took longer than its host waits, without any fault: the host reset the drive, an iterator ended with that, and its
    /// next command waited for the end of the reset. That was mistaken for a failure.
    a_scan_over_a_reset_in_a_jbof = "scan-over-a-reset-in-a-jbof";
}
