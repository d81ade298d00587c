//! The levels without failures: what is written is read, with the right number of commands.

use crate::model::{Model, run_all};
use crate::ram::{Disk, assemble, config, create, members, placement, stamp};
use byteway_array::{Array, ArrayConfig, ArrayError, Cause, Initial, Level};
use byteway_clock::{Clock, Executor, SpanId};
use byteway_content::Content;
use std::rc::Rc;

pub const LEVELS: [(Level, usize); 6] = [
    (Level::Raid0, 3),
    (Level::Raid1, 2),
    (Level::Raid1, 3),
    (Level::Raid5, 3),
    (Level::Raid5, 5),
    (Level::Raid10, 4),
];

pub fn disks(count: usize) -> Vec<Rc<Disk>> {
    (0..count).map(|_| Disk::new(500)).collect()
}

fn run<T: 'static>(test: impl AsyncFnOnce(Clock) -> T + 'static) -> T {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    executor.run(async move { test(clock).await }).unwrap_or_else(|stalled| panic!("{stalled}"))
}

async fn write(array: &Array, first: u64, count: u64) {
    let mut contents: Vec<Content> = (first..first + count).map(|unit| stamp(unit, 1)).collect();
    array.write(SpanId::NONE, first, &mut contents, false).await.unwrap();
}

// A unit at a wrong location, or parity of a stripe that two writers change at once, shows as wrong data: at
// once, or when a member is missing.
#[test]
fn what_was_written_is_read_with_and_without_each_member() {
    for (seed, (level, count)) in (0..).zip(LEVELS) {
        run(async move |clock| {
            let disks = disks(count);
            let array = create(&clock, config(level), &disks).await;
            let model = Model::new(array.user_units());
            run_all(&clock, &array, &model, seed, 150).await;
            model.read_all(&array, "all members").await;
            assert_eq!(array.ranges_locked(), 0);
            array.shutdown(SpanId::NONE).await.unwrap();
            array.stop();
            for missing in 0..count {
                if !level.is_redundant() {
                    break;
                }
                // Copies of the others as they are now, so that each is missing once.
                let copies: Vec<Rc<Disk>> = disks.iter().map(|disk| copy(disk)).collect();
                copies[missing].is_gone.set(true);
                let array = assemble(&clock, config(level), &copies, seed).await.unwrap();
                assert!(array.state().is_degraded());
                model.read_all(&array, "a member is missing").await;
                array.stop();
            }
        });
    }
}

fn copy(disk: &Disk) -> Rc<Disk> {
    let copy = Disk::new(disk.units);
    (0..disk.units).for_each(|unit| copy.put(unit, disk.peek(unit)));
    copy
}

// Parts of a long I/O that are contiguous on a member must become one command: a command for each part would
// multiply every member's command count.
#[test]
fn a_member_gets_one_command_for_what_is_contiguous() {
    run(async |clock| {
        let disks = disks(4);
        let array = create(&clock, config(Level::Raid0), &disks).await;
        let commands = |of: fn(&Disk) -> u64| -> Vec<u64> { disks.iter().map(|disk| of(disk)).collect() };
        let before = commands(|disk| disk.writes.get());
        write(&array, 4, 4 * 4 * 5).await; // five stripes of 4 chunks of 4 units, from the second member on
        let after = commands(|disk| disk.writes.get());
        let written: Vec<u64> = before.iter().zip(&after).map(|(before, after)| after - before).collect();
        assert_eq!(written, [1, 1, 1, 1]);
        let before = commands(|disk| disk.reads.get());
        let mut out = Vec::new();
        array.read(SpanId::NONE, 4, 80, &mut out).await.unwrap();
        assert!((4..84).zip(&out).all(|(unit, content)| *content == stamp(unit, 1)));
        let read: Vec<u64> = before
            .iter()
            .zip(commands(|disk| disk.reads.get()))
            .map(|(before, after)| after - before)
            .collect();
        assert_eq!(read, [1, 1, 1, 1]);
    });
}

// The small-write penalty of level 5: two reads and two writes for a unit; no read for a whole stripe.
#[test]
fn parity_is_written_by_whichever_way_reads_less() {
    run(async |clock| {
        let disks = disks(6); // 5 columns of 4 units
        let array = create(&clock, config(Level::Raid5), &disks).await;
        let mut before = array.counters();
        let mut cost = async |first: u64, count: u64| {
            write(&array, first, count).await;
            let now = array.counters();
            let of = |cause: Cause| (now.of(cause), before.of(cause));
            let (parity, parity_before) = of(Cause::Parity);
            let (data, data_before) = of(Cause::Data);
            let cost = (
                parity.units_read - parity_before.units_read,
                data.units_written - data_before.units_written,
                parity.units_written - parity_before.units_written,
                now.units_xored - before.units_xored,
            );
            before = now;
            cost
        };
        assert_eq!(cost(1, 1).await, (2, 1, 1, 2), "the old unit and the old parity");
        assert_eq!(cost(0, 16).await, (4, 16, 4, 16), "four of five columns: the fifth is read");
        assert_eq!(cost(20, 40).await, (0, 40, 8, 32), "two whole stripes");
        // From the middle of column 1 to the middle of column 2: at no offset are both written.
        assert_eq!(cost(6, 4).await, (8, 4, 4, 8));
        let counters = array.counters();
        assert_eq!(
            (counters.read_modify_writes, counters.reconstruct_writes, counters.full_stripes),
            (2, 1, 2)
        );
        assert!(array.memory().total() > 0);
    });
}

// Drives of other arrays, and those with other parameters, must be refused, since their contents mean
// something else.
#[test]
fn members_that_do_not_belong_together_are_refused() {
    run(async |clock| {
        let error = async |config: ArrayConfig, disks: &[Rc<Disk>]| {
            let members = members(&clock, disks, 1);
            let created = Array::create(&clock, placement(&clock), config, members, Initial::Zeroed).await;
            created.err().expect("there can be no such array")
        };
        let other = [Disk::new(500), Disk::new(500), Disk::new(501)];
        let capacity = ArrayError::Capacity { member: 2, units: 501, first: 500 };
        assert_eq!(error(config(Level::Raid5), &other).await, capacity);
        let chunk = ArrayConfig { chunk_units: 3, ..config(Level::Raid0) };
        assert_eq!(error(chunk, &other[..2]).await, ArrayError::Chunk(3));
        assert_eq!(error(config(Level::Raid10), &disks(5)).await, ArrayError::Odd(5));
        let few = ArrayError::Members { level: Level::Raid5, members: 2, least: 3 };
        assert_eq!(error(config(Level::Raid5), &disks(2)).await, few);
        assert!(matches!(
            error(config(Level::Raid1), &[Disk::new(50), Disk::new(50)]).await,
            ArrayError::TooSmall { units: 50, .. }
        ));
        let gone = disks(3);
        gone[1].is_gone.set(true);
        assert!(matches!(error(config(Level::Raid5), &gone).await, ArrayError::Gone { member: 1, .. }));

        let disks = disks(3);
        create(&clock, config(Level::Raid5), &disks).await.stop();
        let assembled = async |config: ArrayConfig, disks: &[Rc<Disk>]| {
            let assembled = assemble(&clock, config, disks, 1).await;
            assembled.map(|array| array.stop()).err()
        };
        let named = ArrayConfig { uuid: *b"another's name..", ..config(Level::Raid5) };
        assert_eq!(assembled(named, &disks).await, Some(ArrayError::NoMembers));
        let chunk = ArrayConfig { chunk_units: 8, ..config(Level::Raid5) };
        let differs = ArrayError::Differs { what: "chunk", found: 4, expected: 8 };
        assert_eq!(assembled(chunk, &disks).await, Some(differs));
        let incomplete = ArrayError::Incomplete { missing: 2, members: 3 };
        assert_eq!(assembled(config(Level::Raid5), &disks[..1]).await, Some(incomplete));
        let mixed = [disks[2].clone(), disks[0].clone(), disks[1].clone()];
        assert_eq!(assembled(config(Level::Raid5), &mixed).await, None, "in any order");
    });
}

// The controller's persistent record is kept on the members in two copies, so a power cut during an update
// leaves one of them intact.
#[test]
fn the_record_is_kept() {
    run(async |clock| {
        let disks = disks(3);
        let array = create(&clock, config(Level::Raid5), &disks).await;
        assert_eq!(array.record(), None);
        for length in [1, 5000, 90_000] {
            let record: Rc<[u8]> = vec![length as u8; length].into();
            array.store_record(record).await;
        }
        array.stop();
        disks[0].is_gone.set(true);
        let array = assemble(&clock, config(Level::Raid5), &disks, 1).await.unwrap();
        assert_eq!(array.record().as_deref(), Some(&vec![90_000_u32 as u8; 90_000][..]));
        array.stop();
    });
}
