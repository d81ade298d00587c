//! Histories that the oracle must accept, and broken ones that it must reject.

use super::cells::DENSE_BLOCKS_MAX;
use super::*;

const BLOCK: BlockSize = BlockSize::B512;

fn oracle() -> Oracle {
    Oracle::new(100, BLOCK, 7, BaseState::Stamped { tag: 3 })
}

fn bytes_of(lba: u64, version: u32) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK.bytes()];
    let tag = if version == 0 { 3 } else { 7 };
    Stamp { lba, version, tag, block: BLOCK }.fill(&mut bytes);
    bytes
}

fn read(oracle: &mut Oracle, lba: u64, bytes: &[u8]) -> Result<(), Box<Mismatch>> {
    let token = oracle.begin_read();
    let result = oracle.verify_read(token, lba, bytes);
    oracle.end_read(token);
    result
}

fn write(oracle: &mut Oracle, lba: u64) -> u32 {
    let (token, stamp) = oracle.begin_write(lba, 1);
    oracle.end_write(token, Outcome::Done);
    stamp.version
}

// A lost or undone write, or another block's data, must not pass as the block's contents.
#[test]
fn a_block_holds_its_last_version() {
    let mut oracle = oracle();
    read(&mut oracle, 5, &bytes_of(5, 0)).unwrap();
    read(&mut oracle, 5, &bytes_of(6, 0)).unwrap_err();
    let version = write(&mut oracle, 5);
    read(&mut oracle, 5, &bytes_of(5, version)).unwrap();
    let mismatch = read(&mut oracle, 5, &bytes_of(5, 0)).unwrap_err();
    assert_eq!(mismatch.offset, 8, "the version is in the header's second word");
    assert_eq!(
        mismatch.to_string(),
        "logical block 5 holds version 0 of logical block 5 (tag 3) where version 1 of logical block 5 (tag 7) \
         was expected; the first difference is at byte 8"
    );
    let token = oracle.begin_zeroes(5, 1);
    oracle.end_write(token, Outcome::Done);
    read(&mut oracle, 5, &[0; 512]).unwrap();
    read(&mut oracle, 5, &bytes_of(5, version)).unwrap_err();
    assert_eq!(oracle.verified_blocks(), 3);
}

// Pattern names replace bytes that are not read: only the exact name of the settled contents may count, whatever else a
// read may return, and in doubt nothing counts as verified.
#[test]
fn a_name_stands_for_what_is_at_rest_alone() {
    let unit = |lba, version, tag, block| Some(Pattern::Stamp(Stamp { lba, version, tag, block }));
    let mut oracle = oracle();
    let right = unit(8, 0, 3, BLOCK);
    assert!(oracle.verify_patterns(8, [right, unit(16, 0, 3, BLOCK)].into_iter()));
    assert_eq!(oracle.verified_blocks(), 16);
    let wrong = [
        unit(7, 0, 3, BLOCK),
        unit(16, 0, 3, BLOCK),
        unit(u64::MAX - 3, 0, 3, BLOCK),
        unit(8, 1, 3, BLOCK),
        unit(8, 0, 7, BLOCK),
        unit(8, 0, 3, BlockSize::B4096),
        Some(Pattern::Zero),
        None,
    ];
    for wrong in wrong {
        assert!(!oracle.verify_patterns(8, [wrong].into_iter()), "{wrong:?}");
        assert!(!oracle.verify_patterns(0, [unit(0, 0, 3, BLOCK), wrong].into_iter()), "{wrong:?}");
    }
    // One block of the unit has another version, or may have.
    let version = write(&mut oracle, 15);
    assert!(!oracle.verify_patterns(8, [right].into_iter()));
    assert!(!oracle.verify_patterns(8, [unit(8, version, 7, BLOCK)].into_iter()));
    let (first, stamp) = oracle.begin_write(24, 8);
    assert!(oracle.verify_patterns(24, [unit(24, 0, 3, BLOCK)].into_iter()), "not replaced yet");
    assert!(!oracle.verify_patterns(24, [unit(24, stamp.version, 7, BLOCK)].into_iter()), "bytes must tell");
    oracle.end_write(first, Outcome::Uncertain);
    assert!(!oracle.verify_patterns(24, [unit(24, stamp.version, 7, BLOCK)].into_iter()), "either may be");
    let zeroes = oracle.begin_zeroes(32, 8);
    oracle.end_write(zeroes, Outcome::Done);
    assert!(oracle.verify_patterns(32, [Some(Pattern::Zero)].into_iter()));
    assert!(!oracle.verify_patterns(32, [unit(32, 0, 3, BLOCK)].into_iter()));
    assert!(
        !oracle.verify_patterns(u64::MAX - 2, [right].into_iter()),
        "a drive may claim to have read there"
    );
    assert_eq!(oracle.verified_blocks(), 32);
}

// A single wrong byte at the end of a block must be detected and located.
#[test]
fn every_byte_counts() {
    let mut oracle = oracle();
    let mut bytes = bytes_of(9, 0);
    bytes[511] ^= 1;
    let mismatch = read(&mut oracle, 9, &bytes).unwrap_err();
    assert_eq!(mismatch.offset, 511);
    assert!(matches!(mismatch.found, BlockContents::Damaged(_)));
    let token = oracle.begin_zeroes(9, 1);
    oracle.end_write(token, Outcome::Done);
    let mut zeroes = [0; 512];
    zeroes[300] = 1;
    assert_eq!(read(&mut oracle, 9, &zeroes).unwrap_err().offset, 300);
}

// A read that overlaps a write may see either version; a later one must not see the old one.
#[test]
fn a_read_during_a_write_sees_old_or_new() {
    let mut oracle = oracle();
    let before = oracle.begin_read();
    let (token, stamp) = oracle.begin_write(4, 2);
    let during = oracle.begin_read();
    for read in [before, during] {
        oracle.verify_read(read, 4, &bytes_of(4, 0)).unwrap();
        oracle.verify_read(read, 5, &bytes_of(5, stamp.version)).unwrap();
    }
    oracle.end_write(token, Outcome::Done);
    let after = oracle.begin_read();
    oracle.verify_read(before, 4, &bytes_of(4, 0)).unwrap();
    oracle.verify_read(during, 4, &bytes_of(4, 0)).unwrap();
    oracle.verify_read(after, 4, &bytes_of(4, 0)).unwrap_err();
    oracle.verify_read(after, 4, &bytes_of(4, stamp.version)).unwrap();
    for read in [during, after, before] {
        oracle.end_read(read);
    }
    assert!(oracle.replaced.is_empty() && oracle.reads.is_empty());
}

// After two concurrent writes either version may be there, until a read decides.
#[test]
fn a_read_decides_between_concurrent_writes() {
    let mut oracle = oracle();
    let (first, one) = oracle.begin_write(4, 1);
    let (second, two) = oracle.begin_write(4, 1);
    oracle.end_write(second, Outcome::Done);
    oracle.end_write(first, Outcome::Done);
    assert_eq!(oracle.contested_blocks(), 1);
    read(&mut oracle, 4, &bytes_of(4, 0)).unwrap_err();
    read(&mut oracle, 4, &bytes_of(4, one.version)).unwrap();
    assert_eq!(oracle.contested_blocks(), 0);
    read(&mut oracle, 4, &bytes_of(4, two.version)).unwrap_err();
}

// w1 ends before w3 begins, w2 overlaps both: w1 can't be the last, w2 and w3 can.
#[test]
fn a_write_replaces_what_had_ended_before_it_began() {
    let mut oracle = oracle();
    let (w1, one) = oracle.begin_write(4, 1);
    let (w2, two) = oracle.begin_write(4, 1);
    oracle.end_write(w1, Outcome::Done);
    let (w3, _) = oracle.begin_write(4, 1);
    oracle.end_write(w2, Outcome::Done);
    oracle.end_write(w3, Outcome::Done);
    read(&mut oracle, 4, &bytes_of(4, one.version)).unwrap_err();
    read(&mut oracle, 4, &bytes_of(4, two.version)).unwrap();
}

// A failed write may have taken effect; a later write decides.
#[test]
fn a_failed_write_leaves_old_or_new() {
    let mut oracle = oracle();
    for seen in [0u32, 1] {
        let lba = 10 + u64::from(seen);
        let (token, stamp) = oracle.begin_write(lba, 1);
        oracle.end_write(token, Outcome::Uncertain);
        let version = if seen == 0 { 0 } else { stamp.version };
        read(&mut oracle, lba, &bytes_of(lba, version)).unwrap();
        let other = if seen == 0 { stamp.version } else { 0 };
        read(&mut oracle, lba, &bytes_of(lba, other)).unwrap_err();
    }
    let (token, failed) = oracle.begin_write(20, 1);
    oracle.end_write(token, Outcome::Uncertain);
    assert_eq!(oracle.expected(20, &mut [0; 512]), Err(20));
    let version = write(&mut oracle, 20);
    read(&mut oracle, 20, &bytes_of(20, failed.version)).unwrap_err();
    read(&mut oracle, 20, &bytes_of(20, version)).unwrap();
    let mut bytes = vec![0; 512];
    oracle.expected(20, &mut bytes).unwrap();
    assert_eq!(bytes, bytes_of(20, version));
}

// After a power cut no write may stay in flight, or its blocks would be undecided indefinitely.
#[test]
fn abandoned_writes_are_uncertain() {
    let mut oracle = oracle();
    let (_, stamp) = oracle.begin_write(1, 3);
    let _ = oracle.begin_read();
    oracle.abandon();
    read(&mut oracle, 1, &bytes_of(1, 0)).unwrap();
    read(&mut oracle, 2, &bytes_of(2, stamp.version)).unwrap();
    read(&mut oracle, 1, &bytes_of(1, stamp.version)).unwrap_err();
    assert!(oracle.reads.is_empty() && oracle.writes.iter().all(Option::is_none));
}

// A drive of terabytes must not cost memory for untouched blocks, and a full one must not cost a map.
#[test]
fn cells_are_sparse_until_that_costs_more() {
    let mut cells = Cells::new(DENSE_BLOCKS_MAX + 1);
    assert!(matches!(cells, Cells::Sparse { .. }));
    cells.set(DENSE_BLOCKS_MAX, 9);
    cells.set(3, 4);
    cells.set(3, 0);
    assert_eq!((cells.get(DENSE_BLOCKS_MAX), cells.get(3)), (9, 0));
    let mut small = Cells::Sparse { cells: FxHashMap::default(), blocks: 60 };
    (0..11).for_each(|lba| small.set(lba, lba as u32 + 1));
    assert!(matches!(small, Cells::Dense(_)));
    assert_eq!((small.get(10), small.get(11)), (11, 0));
    assert!(matches!(Cells::new(u64::MAX), Cells::Sparse { .. }));
}

// Blocks past the namespace come from a hostile workload: they must not panic.
#[test]
fn blocks_beyond_the_end_are_nothing() {
    let mut oracle = oracle();
    let (token, _) = oracle.begin_write(99, 5);
    oracle.end_write(token, Outcome::Uncertain);
    let (token, _) = oracle.begin_write(u64::MAX, 5);
    oracle.end_write(token, Outcome::Done);
    read(&mut oracle, u64::MAX, &[bytes_of(1, 0), bytes_of(2, 0)].concat()).unwrap_err();
}

// From here on: power cuts. A cut leaves what may survive, and the result is final.

fn volatile(protected: bool) -> Oracle {
    oracle().with_power_cuts(protected)
}

fn flush(oracle: &mut Oracle) {
    let token = oracle.begin_flush();
    oracle.end_flush(token, Outcome::Done);
}

/// The versions of block 5 that a read may return; each is tried in a history of its own.
fn left(history: impl Fn(&mut Oracle), protected: bool) -> Vec<u32> {
    let may_be = |version: &u32| {
        let mut oracle = volatile(protected);
        history(&mut oracle);
        read(&mut oracle, 5, &bytes_of(5, *version)).is_ok()
    };
    (0..4).filter(may_be).collect()
}

// Flushed data that is missing after a cut, or data replaced before the flush that comes back, must not pass.
#[test]
fn a_flush_decides_what_a_cut_may_leave() {
    let unflushed = |oracle: &mut Oracle| {
        write(oracle, 5);
        write(oracle, 5);
        oracle.cut_power();
    };
    assert_eq!(left(unflushed, false), [0, 1, 2], "any value since the last durable one");
    assert_eq!(left(unflushed, true), [2], "with power-loss protection what is acknowledged is durable");
    let flushed = |oracle: &mut Oracle| {
        write(oracle, 5);
        flush(oracle);
        write(oracle, 5);
        oracle.cut_power();
    };
    assert_eq!(left(flushed, false), [1, 2]);
    let forced = |oracle: &mut Oracle| {
        write(oracle, 5);
        let (token, _) = oracle.begin_write(5, 1);
        oracle.end_write(token, Outcome::Durable);
        oracle.cut_power();
    };
    assert_eq!(left(forced, false), [2]);
}

// A flush covers what had completed before its submission: more would blame a correct drive.
#[test]
fn a_flush_covers_what_had_completed_before_it() {
    let during = |oracle: &mut Oracle| {
        let (token, _) = oracle.begin_write(5, 1);
        let flush = oracle.begin_flush();
        oracle.end_write(token, Outcome::Done);
        oracle.end_flush(flush, Outcome::Done);
        oracle.cut_power();
    };
    assert_eq!(left(during, false), [0, 1]);
    let failed = |oracle: &mut Oracle| {
        write(oracle, 5);
        let flush = oracle.begin_flush();
        oracle.end_flush(flush, Outcome::Uncertain);
        oracle.cut_power();
    };
    assert_eq!(left(failed, false), [0, 1]);
}

// A write in flight at the cut may be there or not, even with power-loss protection; so may a failed one.
#[test]
fn a_cut_write_is_old_or_new() {
    let under_way = |oracle: &mut Oracle| {
        let _ = oracle.begin_write(5, 1);
        oracle.cut_power();
    };
    assert_eq!(left(under_way, true), [0, 1]);
    let several = |oracle: &mut Oracle| {
        let _ = oracle.begin_write(5, 1);
        let _ = oracle.begin_write(5, 1);
        let (token, _) = oracle.begin_write(5, 1);
        oracle.end_write(token, Outcome::Done);
        oracle.cut_power();
    };
    assert_eq!(left(several, true), [1, 2, 3], "two were in flight in addition to the durable one");
}

// A deallocation undone by a cut after a flush would restore deleted data.
#[test]
fn flushed_trims_stay_trimmed() {
    let mut oracle = volatile(false);
    let version = write(&mut oracle, 5);
    flush(&mut oracle);
    let token = oracle.begin_zeroes(5, 1);
    oracle.end_write(token, Outcome::Done);
    flush(&mut oracle);
    oracle.cut_power();
    read(&mut oracle, 5, &bytes_of(5, version)).unwrap_err();
    read(&mut oracle, 5, &[0; 512]).unwrap();
    assert_eq!(oracle.volatile_blocks(), 0);
}

// A block that is old after one cut and new after the next was not settled by recovery.
#[test]
fn what_was_read_after_a_cut_stays() {
    for seen in [0, 1] {
        let mut oracle = volatile(false);
        write(&mut oracle, 5);
        oracle.cut_power();
        oracle.cut_power(); // while recovering
        read(&mut oracle, 5, &bytes_of(5, seen)).unwrap();
        for _ in 0..2 {
            oracle.cut_power();
            read(&mut oracle, 5, &bytes_of(5, 1 - seen)).unwrap_err();
            read(&mut oracle, 5, &bytes_of(5, seen)).unwrap();
        }
        assert_eq!(oracle.volatile_blocks(), 0);
    }
}

// After a new write, what the cut may have left may still survive the next cut, until the new write is durable.
#[test]
fn what_a_cut_left_is_history_once_something_newer_is_durable() {
    let mut oracle = volatile(false);
    write(&mut oracle, 5);
    oracle.cut_power();
    write(&mut oracle, 5);
    read(&mut oracle, 5, &bytes_of(5, 1)).unwrap_err();
    read(&mut oracle, 5, &bytes_of(5, 2)).unwrap();
    assert_eq!(oracle.volatile_blocks(), 1);
    flush(&mut oracle);
    oracle.cut_power();
    read(&mut oracle, 5, &bytes_of(5, 1)).unwrap_err();
    read(&mut oracle, 5, &bytes_of(5, 0)).unwrap_err();
    read(&mut oracle, 5, &bytes_of(5, 2)).unwrap();
}

// Of two concurrent writes a read decides which came last; a flush makes that one durable, so the other can't come
// back.
#[test]
fn what_was_read_and_flushed_survives() {
    let mut oracle = volatile(false);
    let (first, one) = oracle.begin_write(5, 1);
    let (second, two) = oracle.begin_write(5, 1);
    oracle.end_write(second, Outcome::Done);
    oracle.end_write(first, Outcome::Done);
    read(&mut oracle, 5, &bytes_of(5, one.version)).unwrap();
    flush(&mut oracle);
    oracle.cut_power();
    read(&mut oracle, 5, &bytes_of(5, two.version)).unwrap_err();
    read(&mut oracle, 5, &bytes_of(5, one.version)).unwrap();
}

// A drive that returns data for blocks marked unreadable, or an error for others, is wrong.
#[test]
fn marred_blocks_fail_and_others_don_t() {
    let mut oracle = volatile(false);
    let fails = |oracle: &mut Oracle, lba, blocks| {
        let token = oracle.begin_read();
        let result = oracle.verify_unreadable(token, lba, blocks);
        oracle.end_read(token);
        result.is_ok()
    };
    let token = oracle.begin_marred(5, 1);
    oracle.end_write(token, Outcome::Done);
    assert!(fails(&mut oracle, 4, 3) && !fails(&mut oracle, 6, 3));
    read(&mut oracle, 5, &bytes_of(5, 0)).unwrap_err();
    oracle.cut_power();
    assert!(fails(&mut oracle, 4, 3), "it is the only one that can have failed");
    read(&mut oracle, 5, &bytes_of(5, 0)).unwrap_err();
    write(&mut oracle, 5);
    assert!(!fails(&mut oracle, 4, 3));
}

// A copy has its source's contents, under the source's name; a later write to the source does not change it.
#[test]
fn a_copy_holds_what_its_source_held() {
    let mut oracle = volatile(true);
    let version = write(&mut oracle, 8);
    let token = oracle.begin_copy(20, &[(8, 1), (3, 2)]).unwrap();
    oracle.end_write(token, Outcome::Done);
    write(&mut oracle, 8);
    oracle.cut_power();
    let copied = [bytes_of(8, version), bytes_of(3, 0), bytes_of(4, 0)].concat();
    read(&mut oracle, 20, &copied).unwrap();
    read(&mut oracle, 20, &bytes_of(20, 0)).unwrap_err();
    let (_under_way, _) = oracle.begin_write(3, 1);
    assert_eq!(oracle.begin_copy(30, &[(2, 2)]), Err(3));
}

// A block that was written and deallocated during a Compare has its former contents, but the Compare may have found
// those in between: it proves nothing.
#[test]
fn what_was_touched_meanwhile_is_known() {
    let mut oracle = Oracle::new(100, BLOCK, 7, BaseState::Zeroes);
    write(&mut oracle, 4);
    let token = oracle.begin_read();
    assert_eq!(oracle.first_touched(token, 0, 100), None);
    write(&mut oracle, 6);
    let trim = oracle.begin_zeroes(6, 1);
    oracle.end_write(trim, Outcome::Done);
    assert_eq!(oracle.first_touched(token, 0, 100), Some(6));
    assert_eq!(oracle.first_touched(token, 0, 6), None);
    let (under_way, _) = oracle.begin_write(9, 1);
    assert_eq!(oracle.first_touched(token, 7, 3), Some(9));
    oracle.end_write(under_way, Outcome::Uncertain);
    assert_eq!(oracle.first_touched(token, 7, 3), Some(9));
    oracle.end_read(token);
    let later = oracle.begin_read();
    assert_eq!((oracle.first_touched(later, 0, 9), oracle.first_touched(later, 9, 1)), (None, Some(9)));
    oracle.end_read(later);
}

// A Compare and Write with a failed Compare has written nothing: its value must not pass, not even after a cut, and the
// block must be as certain as before.
#[test]
fn a_write_that_was_undone_is_as_if_it_had_never_begun() {
    for (is_contested, protected) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut oracle = oracle().with_power_cuts(protected);
        let old = write(&mut oracle, 5);
        let flush = oracle.begin_flush();
        oracle.end_flush(flush, Outcome::Done);
        assert_eq!(oracle.volatile_blocks(), 0);
        let (undone, stamp) = oracle.begin_write(5, 1);
        let other = is_contested.then(|| oracle.begin_write(5, 1));
        oracle.end_write(undone, Outcome::Undone);
        let mut held = old;
        if let Some((other, stamp)) = other {
            oracle.end_write(other, Outcome::Durable);
            held = stamp.version;
        }
        assert_eq!((oracle.contested_blocks(), oracle.volatile_blocks()), (0, 0));
        read(&mut oracle, 5, &bytes_of(5, stamp.version)).unwrap_err();
        read(&mut oracle, 5, &bytes_of(5, held)).unwrap();
        oracle.cut_power();
        read(&mut oracle, 5, &bytes_of(5, stamp.version)).unwrap_err();
        read(&mut oracle, 5, &bytes_of(5, held)).unwrap();
    }
}
