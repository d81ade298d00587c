//! Raw flash across the link: what crosses and how long it takes, by hand; what comes back; what hosts send that none
//! should.

use crate::fixture::{Bench, Pair, TestHost, cc, drive_config, link_config};
use byteway_assembly::{RawFlash, RawFlashConfig};
use byteway_clock::random::Rng;
use byteway_clock::{Clock, Delay};
use byteway_content::{Content, Keep, UNIT_BYTES};
use byteway_device::{DriveConfig, NamespaceConfig};
use byteway_firmware::{Base, FtlConfig};
use byteway_flash::{
    BlockId, Far, Fault, FaultKind, FaultPlan, Geometry, Medium, Mode, Outcome, Ppa, Priority, SlcTiming,
    Spare, Ticket, Timing,
};
use byteway_host::{Driver, DriverConfig, PointerKind, Port, QueueConfig};
use byteway_link::{Direction, Generation, HostEnd, PcieConfig, Purpose};
use byteway_testkit::SmallWorld;
use byteway_wire::nvme::register::Cc;
use byteway_wire::nvme::vendor::raw_flash::{
    self, RawAction, RawErase, RawFlashIdentify, RawPart, RawProgram, RawRead, RawReport, RawSystem,
    copy_bytes, metadata_bytes, payload_bytes,
};
use byteway_wire::nvme::{
    AdminOpcode, Cns, FormatNvm, Identify, NvmOpcode, SetFeatures, Sqe, Status, VendorOpcode, fid,
};
use std::rc::Rc;

/// A stripe is 4 units.
const GEOMETRY: Geometry =
    Geometry { channels: 2, ways: 2, planes: 1, blocks: 8, pages: 12, page_bytes: 16384 };
const STRIPE: u32 = 4;
const RAW: u32 = 1;

fn config() -> DriveConfig {
    DriveConfig {
        geometry: GEOMETRY,
        namespaces: vec![NamespaceConfig::raw_flash(&GEOMETRY)],
        base: Base::Empty,
        ftl: FtlConfig::default(),
        ..drive_config()
    }
}

/// Two stripes a wordline, and one-bit mode.
fn two_bit() -> DriveConfig {
    let us = Delay::from_us;
    let config = config();
    let slc = SlcTiming { read: us(5), program: us(20), erase: us(300) };
    let timing =
        Timing { read: vec![us(10), us(12)], program: vec![us(50), us(60)], slc: Some(slc), ..config.timing };
    DriveConfig { timing, ..config }
}

/// 4 GB/s: 250 ps a byte.
fn round_link() -> PcieConfig {
    PcieConfig { generation: Generation::Gen2, lanes: 8, ..link_config() }
}

async fn attach(host: HostEnd) -> Far {
    attach_with(host).await.1
}

async fn attach_with(host: HostEnd) -> (Driver, Far) {
    let clock = host.clock().clone();
    let driver = Driver::attach(Port::Link(host), DriverConfig::default()).await.expect("a controller");
    let queue = driver.create_queue_pair(QueueConfig::new(32)).await.expect("a queue");
    let lanes = RawFlashConfig { lanes: 8, pointer: PointerKind::Prp, keep: Keep::Bytes };
    let flash = RawFlash::open(&driver, queue, lanes).await.expect("Identify").expect("raw flash");
    let far = Far::attach(&clock, flash).await.expect("flash");
    (driver, far)
}

/// Runs a test with the flash of a drive, which must be quiet in the end. Gives the medium.
fn run_on(
    config: DriveConfig,
    medium: Option<Medium>,
    test: impl AsyncFnOnce(Far, HostEnd) + 'static,
) -> Medium {
    SmallWorld { medium, ..world(config) }.run(async |powered| {
        let far = attach(powered.host.clone()).await;
        test(far.clone(), powered.host.clone()).await;
        assert_eq!(far.tickets_in_use(), 0);
        far.clock().sleep(Delay::from_ms(20)).await;
        assert!(powered.drive.controller.is_quiet(), "nothing leaked");
        powered.power_off()
    })
}

fn run(config: DriveConfig, test: impl AsyncFnOnce(Far, HostEnd) + 'static) -> Medium {
    run_on(config, None, test)
}

fn world(drive: DriveConfig) -> SmallWorld {
    SmallWorld { link: round_link(), ..SmallWorld::of(drive) }
}

fn content(seed: u8) -> Content {
    Content::of(
        &(0..UNIT_BYTES).map(|at| (at as u8).wrapping_mul(31) ^ seed).collect::<Vec<u8>>(),
        Keep::Bytes,
    )
}

fn spare(lpa: u64) -> Spare {
    Spare { lpa, sequence: lpa + 1000 }
}

/// Programs units `lpa` on.
async fn program(far: &Far, block: u32, stripe: u32, lpa: u64, units: u32) -> Outcome {
    let ticket = far.ticket();
    let mut batch = far.take_batch();
    batch.number = 1 + lpa;
    batch.units.extend((lpa..lpa + u64::from(units)).map(|lpa| (spare(lpa), content(lpa as u8))));
    far.submit_program(BlockId(block), stripe, batch, Priority::HostProgram, &ticket);
    ticket.wait().await
}

async fn erase(far: &Far, block: u32) -> Outcome {
    let ticket = far.ticket();
    far.submit_erase(BlockId(block), Priority::Collector, &ticket);
    ticket.wait().await
}

async fn read(far: &Far, first: Ppa, mask: u64) -> (Ticket, Outcome) {
    let ticket = far.ticket();
    far.submit_read(first, mask, Priority::HostRead, &ticket);
    let outcome = ticket.wait().await;
    (ticket, outcome)
}

/// Crossed payload and wire bytes, in the order of `crossings`.
type Crossings = [(Purpose, Direction, u64, u64)];

/// Asserts that an operation takes what the steps of a table sum to, and that what crosses is what the other table says and
/// nothing else.
async fn assert_takes<T>(
    host: &HostEnd,
    steps: &[(&str, u64)],
    crossings: &Crossings,
    operation: impl Future<Output = T>,
) -> T {
    let clock: &Clock = host.clock();
    clock.sleep(Delay::from_us(100)).await; // the doorbells of what came before have crossed
    let (begin, before) = (clock.now(), host.ledger().snapshot());
    let result = operation.await;
    let took = clock.now().since(begin);
    clock.sleep(Delay::from_us(100)).await;
    let since = host.ledger().since(&before);
    for purpose in Purpose::ALL {
        for direction in [Direction::Down, Direction::Up] {
            let of = |other: &&(Purpose, Direction, u64, u64)| (other.0, other.1) == (purpose, direction);
            let expected = crossings.iter().find(of).map_or((0, 0), |row| (row.2, row.3));
            let entry = since.entry(purpose, direction);
            assert_eq!((entry.payload, entry.wire), expected, "{purpose:?} {direction:?}");
        }
    }
    let sum: u64 = steps.iter().map(|(_, ps)| ps).sum();
    assert_eq!(took, Delay(sum), "{steps:?}");
    result
}

const NS: u64 = 1000;
const US: u64 = 1000 * NS;
/// 4 GB/s.
const BYTE: u64 = 250;
const PROPAGATION: u64 = 100 * NS;
const MEMORY: u64 = 150 * NS;
/// Of a packet with an address above 4 GiB, and of a completion.
const REQUEST: u64 = 24;
const COMPLETION: u64 = 20;

/// From the submission until the command is parsed.
const BEGIN: [(&str, u64); 6] = [
    ("doorbell: 4 B in a packet of 28 B, propagation", (4 + REQUEST) * BYTE + PROPAGATION),
    ("fetch: request, propagation", REQUEST * BYTE + PROPAGATION),
    ("fetch: host memory", MEMORY),
    ("fetch: completion of 64 + 20 B, propagation", (64 + COMPLETION) * BYTE + PROPAGATION),
    ("cores: fetch", 50 * NS),
    ("cores: parse", 100 * NS),
];
/// 5 pages: the first in the entry, four in the list.
const LIST: [(&str, u64); 3] = [
    ("PRP list: request, propagation", REQUEST * BYTE + PROPAGATION),
    ("PRP list: host memory", MEMORY),
    ("PRP list: completion of 4 entries, propagation", (4 * 8 + COMPLETION) * BYTE + PROPAGATION),
];
const END: [(&str, u64); 2] = [
    ("cores: complete", 50 * NS),
    ("completion: 16 B in a packet of 40 B, propagation", (16 + REQUEST) * BYTE + PROPAGATION),
];
/// 8 bytes of number, 24 of each unit.
const METADATA: u64 = 8 + 4 * 24;
/// 16 KiB at 800 MB/s.
const CHANNEL: u64 = 20_480 * NS;

/// Bytes that cross with every command: tail and head doorbell, entry, completion.
const COMMAND: [(Purpose, Direction, u64, u64); 4] = [
    (Purpose::Doorbell, Direction::Down, 2 * 4, 2 * (4 + REQUEST)),
    (Purpose::SqeFetch, Direction::Up, 0, REQUEST),
    (Purpose::SqeFetch, Direction::Down, 64, 64 + COMPLETION),
    (Purpose::Cqe, Direction::Up, 16, 16 + REQUEST),
];
const LIST_BYTES: [(Purpose, Direction, u64, u64); 2] =
    [(Purpose::PrpList, Direction::Up, 0, REQUEST), (Purpose::PrpList, Direction::Down, 32, 32 + COMPLETION)];

// If anything crossed twice, or for nothing, or not at all, the advantage or the cost of a translation layer on the host
// would be an invention.
#[test]
fn a_stripe_takes_what_its_steps_take_both_ways() {
    run(config(), async |far, host| {
        // 33 requests: of 512 B each, and of the metadata. Completions follow without a gap, 4 of 4 KiB's worth and the
        // metadata's, so only the first batch's round trip shows.
        let data = [
            ("pipeline of a write", 300 * NS),
            ("data: the first 8 requests, propagation", 8 * REQUEST * BYTE + PROPAGATION),
            ("data: host memory", MEMORY),
            ("data: 64 completions of 256 + 20 B", (16384 + 64 * COMPLETION) * BYTE),
            ("data: metadata, propagation", (METADATA + COMPLETION) * BYTE + PROPAGATION),
            ("flash: command", 100 * NS),
            ("flash: 16 KiB to the die", CHANNEL),
            ("flash: program", 50 * US),
        ];
        let steps = [&BEGIN[..], &LIST, &data, &END].concat();
        let down = (Purpose::Data, Direction::Down, 16384 + METADATA, 16384 + METADATA + 65 * COMPLETION);
        let crossings =
            [&COMMAND[..], &LIST_BYTES, &[down, (Purpose::Data, Direction::Up, 0, 33 * REQUEST)]].concat();
        let programmed = assert_takes(&host, &steps, &crossings, program(&far, 3, 0, 40, STRIPE)).await;
        assert!(!programmed.failed);

        let data = [
            ("pipeline of a long read", 800 * NS),
            ("flash: command", 100 * NS),
            ("flash: sense", 10 * US),
            ("flash: 16 KiB from the die", CHANNEL),
            ("data: 64 packets of 256 + 24 B", (16384 + 64 * REQUEST) * BYTE),
            ("data: metadata", (METADATA + REQUEST) * BYTE),
        ];
        let steps = [&BEGIN[..], &LIST, &data, &END].concat();
        let up = (Purpose::Data, Direction::Up, 16384 + METADATA, 16384 + METADATA + 65 * REQUEST);
        let crossings = [&COMMAND[..], &LIST_BYTES, &[up]].concat();
        let first = GEOMETRY.ppa(BlockId(3), 0, 0);
        let (ticket, outcome) = assert_takes(&host, &steps, &crossings, read(&far, first, 0b1111)).await;
        assert!(!outcome.failed);
        (0..4).for_each(|unit| assert_eq!(ticket.content(unit), content(40 + unit as u8)));
        drop(ticket);

        let steps = [&BEGIN[..], &[("flash: command", 100 * NS), ("flash: erase", 500 * US)], &END].concat();
        let erased = assert_takes(&host, &steps, &COMMAND, erase(&far, 3)).await;
        assert!(!erased.failed);
    });
}

// One unit is one page and its metadata; there is no list, and no command pays for the rest of the stripe.
#[test]
fn a_unit_takes_what_its_steps_take() {
    run(config(), async |far, host| {
        program(&far, 0, 0, 7, STRIPE).await;
        let data = [
            ("pipeline of a read", 500 * NS),
            ("flash: command", 100 * NS),
            ("flash: sense", 10 * US),
            ("flash: 4 KiB from the die", CHANNEL / 4),
            ("data: 16 packets of 256 + 24 B, and metadata", (4096 + 16 * REQUEST + 32 + REQUEST) * BYTE),
        ];
        let steps = [&BEGIN[..], &data, &END].concat();
        let up = (Purpose::Data, Direction::Up, 4096 + 32, 4096 + 32 + 17 * REQUEST);
        let crossings = [&COMMAND[..], &[up]].concat();
        let (ticket, _) = assert_takes(&host, &steps, &crossings, read(&far, Ppa(2), 0b100)).await;
        assert_eq!(ticket.content(0), content(9));
    });
}

// The data of a move must not cross the link, which is the purpose of the copy; its addresses and metadata
// do.
#[test]
fn a_move_crosses_with_its_addresses_only() {
    run(config(), async |far, host| {
        program(&far, 0, 0, 20, STRIPE).await;
        program(&far, 1, 0, 30, STRIPE).await;
        let sources = vec![Ppa(3), GEOMETRY.ppa(BlockId(1), 0, 1)];
        let mut batch = far.take_batch();
        batch.number = 99;
        batch.units.extend([(spare(23), Content::Zero), (spare(31), Content::Zero)]);
        let ticket = far.ticket();
        let bytes = 2 * 8 + 8 + 2 * 24;
        let flash = 2 * (100 * NS + 10 * US + CHANNEL / 4) + 100 * NS + CHANNEL + 50 * US;
        let data = [
            ("pipeline of a write", 300 * NS),
            ("data: request, propagation", REQUEST * BYTE + PROPAGATION),
            ("data: host memory", MEMORY),
            ("data: completion, propagation", (bytes + COMPLETION) * BYTE + PROPAGATION),
            // The two sources are in superblocks of one die, so one is read after the other.
            ("flash: two reads, a program", flash),
        ];
        let steps = [&BEGIN[..], &data, &END].concat();
        let down = (Purpose::Data, Direction::Down, bytes, bytes + COMPLETION);
        let crossings = [&COMMAND[..], &[down, (Purpose::Data, Direction::Up, 0, REQUEST)]].concat();
        let outcome = assert_takes(&host, &steps, &crossings, async {
            far.submit_move(sources, BlockId(2), 0, batch, Priority::Collector, &ticket);
            ticket.wait().await
        });
        assert!(!outcome.await.failed);
        let first = GEOMETRY.ppa(BlockId(2), 0, 0);
        let (ticket, _) = read(&far, first, 0b1111).await;
        let found = [0, 1, 2, 3].map(|unit| ticket.content(unit));
        let zeroes = Content::of(&[0; UNIT_BYTES], Keep::Bytes);
        assert_eq!(found, [content(23), content(31), zeroes.clone(), zeroes]);
        assert_eq!(far.stripe_number(BlockId(2), 0), Some(99));
        assert_eq!((far.spare(first), far.spare(Ppa(first.0 + 2))), (Some(spare(23)), None));
        // Out of order: nothing is programmed.
        let mut batch = far.take_batch();
        batch.number = 100;
        batch.units.push((spare(1), Content::Zero));
        let ticket = far.ticket();
        far.submit_move(vec![Ppa(0)], BlockId(2), 2, batch, Priority::Collector, &ticket);
        assert!(ticket.wait().await.failed);
        assert_eq!(far.programmed_stripes(BlockId(2)), 1);
    });
}

// A part of a unit that was lost before must stay lost, and what the array can't give must not be taken for zeroes.
#[test]
fn what_cannot_be_read_is_told_across_the_link() {
    let mut config = config();
    config.media.faults = FaultPlan::exactly([1, 3].map(|nth| Fault { die: 0, kind: FaultKind::Read, nth }));
    run(config, async |far, _| {
        let marred = content(1).edited(Keep::Bytes, |_, blocks| *blocks |= 0b1010);
        let ticket = far.ticket();
        let mut batch = far.take_batch();
        batch.number = 5;
        batch.units.extend([(spare(1), marred.clone()), (spare(2), content(2))]);
        far.submit_program(BlockId(0), 0, batch, Priority::HostProgram, &ticket);
        assert!(!ticket.wait().await.failed);
        let (ticket, outcome) = read(&far, Ppa(0), 0b11).await;
        assert_eq!((outcome.failed, outcome.unreadable), (true, 2));
        assert!([0, 1].iter().all(|unit| ticket.is_unreadable(*unit)));
        assert_eq!([0, 1].map(|unit| ticket.content(unit)), [Content::Zero, Content::Zero]);
        let (ticket, outcome) = read(&far, Ppa(0), 0b11).await;
        assert_eq!((outcome.failed, outcome.unreadable), (false, 0));
        assert_eq!([0, 1].map(|unit| ticket.content(unit)), [marred, content(2)]);
        // Addresses that a root on the flash itself may contain.
        for (first, mask) in [(GEOMETRY.total_units(), 1), (u64::MAX, 1), (0, 1 << 4), (0, 0)] {
            assert!(read(&far, Ppa(first), mask).await.1.failed, "{first}, {mask}");
        }
        // Nothing is programmed in the place of what can't be moved.
        let mut batch = far.take_batch();
        batch.number = 6;
        batch.units.push((spare(2), Content::Zero));
        far.submit_move(vec![Ppa(1)], BlockId(2), 0, batch, Priority::Collector, &ticket);
        assert!(ticket.wait().await.failed);
        assert_eq!(far.programmed_stripes(BlockId(2)), 0);
    });
}

// A flash whose controller was reset may have carried out what it has not answered: a host that continued as if it had failed, or had
// not, would lose data. So nothing ends any more, and the host is notified.
#[test]
fn a_link_that_is_gone_is_told() {
    world(config()).run(async |powered| {
        let (driver, far) = attach_with(powered.host.clone()).await;
        let ticket = far.ticket();
        far.submit_erase(BlockId(1), Priority::Collector, &ticket);
        far.clock().sleep(Delay::from_us(50)).await;
        driver.reset().await.expect("the controller comes back");
        let why = far.failed().await;
        assert!(why.contains("lost") && why.contains("reset"), "{why}");
        far.clock().sleep(Delay::from_ms(10)).await;
        assert_eq!(ticket.remaining(), 1);
    });
}

// The mirror of a flash that forgot a failure would have units read where nothing is.
#[test]
fn a_failure_is_known_before_its_ticket_ends() {
    let mut config = two_bit();
    // The second program of die 0 tears its wordline, of which the first was the other half.
    config.media.faults = FaultPlan::exactly([
        Fault { die: 0, kind: FaultKind::Program, nth: 2 },
        Fault { die: 1, kind: FaultKind::Erase, nth: 1 },
    ]);
    run(config, async |far, _| {
        let block = BlockId(0);
        assert!(!program(&far, 0, 0, 8, STRIPE).await.failed);
        assert_eq!((far.spare(Ppa(1)), far.stripe_number(block, 0)), (Some(spare(9)), Some(9)));
        assert!(program(&far, 0, 1, 16, STRIPE).await.failed);
        assert_eq!((far.programmed_stripes(block), far.stripe_number(block, 0)), (2, None));
        assert_eq!((far.spare(Ppa(1)), far.spare(Ppa(5))), (None, None));
        assert!(program(&far, 0, 1, 16, STRIPE).await.failed, "out of order");
        assert!(!program(&far, 0, 2, 16, 1).await.failed);
        assert_eq!(far.spare(Ppa(8)), Some(spare(16)));
        assert!(!erase(&far, 0).await.failed);
        assert_eq!((far.programmed_stripes(block), far.erases(block), far.spare(Ppa(8))), (0, 1, None));
        let other = GEOMETRY.block(1, 0);
        assert!(erase(&far, other.0).await.failed);
        assert!(far.is_unstable(other) && !far.is_unstable(block));
    });
}

// State known at this end must be found by the next host: a mark that has not crossed does not count.
#[test]
fn what_the_flash_holds_is_found_at_the_next_attach() {
    let root: Rc<[u8]> = (0..100_000u32).map(|at| (at * 7) as u8).collect();
    let expected = root.clone();
    let medium = run(two_bit(), async move |far, _| {
        assert!(far.shape().is_new && far.read_root(0).await.is_none());
        assert!(far.set_mode(BlockId(5), Mode::OneBit));
        assert!(!program(&far, 5, 0, 60, 3).await.failed);
        assert!(!program(&far, 9, 0, 70, STRIPE).await.failed);
        assert!(!erase(&far, 2).await.failed);
        far.mark_bad(BlockId(2));
        far.write_root(1, root).await;
        far.write_record(Rc::from(&b"record"[..])).await;
        for page in [&b"one"[..], b"two", b"three"] {
            far.append_journal(page.into()).await;
        }
        far.cut_journal(1);
        far.sync().await;
        assert!(!far.set_mode(BlockId(9), Mode::OneBit), "it is programmed");
        let journal: Vec<Rc<[u8]>> = [&b"two"[..], b"three"].map(Rc::from).to_vec();
        assert_eq!(far.read_journal().await, journal);
    });
    run_on(two_bit(), Some(medium), async move |far, _| {
        assert!(!far.shape().is_new);
        let first = GEOMETRY.ppa(BlockId(5), 0, 0);
        let found: Vec<_> = (0..4).map(|unit| far.spare(Ppa(first.0 + unit))).collect();
        assert_eq!(found, [Some(spare(60)), Some(spare(61)), Some(spare(62)), None]);
        assert_eq!((far.mode(BlockId(5)), far.stripes_of(BlockId(5))), (Mode::OneBit, 6));
        assert_eq!(far.stripe_number(BlockId(9), 0), Some(71));
        assert_eq!(
            (far.is_bad(BlockId(2)), far.erases(BlockId(2)), far.is_bad(BlockId(9))),
            (true, 1, false)
        );
        assert_eq!(far.read_root(1).await.as_deref(), Some(&expected[..]));
        assert_eq!((far.read_root(0).await, far.record().as_deref()), (None, Some(&b"record"[..])));
        assert_eq!(far.read_journal().await.len(), 2);
        assert_eq!(far.content(Ppa(first.0 + 1)).await, Some(content(61)));
        assert!(far.programmed_at(BlockId(5)).is_some_and(|at| at < far.calendar()));
    });
}

fn bench() -> Bench {
    Bench { drive: two_bit(), cc: cc().with_css(Cc::CSS_ALL), ..Bench::default() }
}

/// A host that has selected all command sets, with a queue.
fn with_queue(test: impl AsyncFnOnce(TestHost, Pair) + 'static) {
    bench().with_queue(test);
}

async fn refused(host: &TestHost, pair: &Pair, sqe: Sqe, status: Status) {
    let found = host.io(pair, sqe).await.status();
    assert!(found.is(status), "opcode {:#x}: {found}, not {status}; {sqe:?}", sqe.opcode());
}

// Descriptors come from hosts: each that can't be gets its status, and the flash stays as it was.
#[test]
fn malformed_commands_get_a_status() {
    with_queue(async |host, pair| {
        let (range, field, fault) = (Status::LBA_OUT_OF_RANGE, Status::INVALID_FIELD, Status::WRITE_FAULT);
        let page = host.pages(8);
        let list = host.holding(&(1..8).flat_map(|n| (page + n * 4096).to_le_bytes()).collect::<Vec<u8>>());
        let prp = |sqe: Sqe| sqe.with_prp(page, list);
        let good = RawRead { block: 31, stripe: 11, mask: 0b1111, priority: 4, metadata_only: false };
        assert_eq!(host.io(&pair, prp(good.sqe(0, RAW))).await.status(), Status::SUCCESS);
        for (read, status) in [
            (RawRead { block: 32, ..good }, range),
            (RawRead { block: u32::MAX, ..good }, range),
            (RawRead { stripe: 12, ..good }, range),
            (RawRead { mask: 0, ..good }, field),
            (RawRead { mask: 1 << 4, ..good }, field),
            (RawRead { mask: u64::MAX, metadata_only: true, ..good }, field),
            (RawRead { priority: 5, ..good }, field),
            (RawRead { priority: 15, ..good }, field),
        ] {
            refused(&host, &pair, prp(read.sqe(0, RAW)), status).await;
        }
        host.poke(page, &[0; 5 * 4096]);
        let good = RawProgram { block: 0, stripe: 0, units: 4, priority: 2 };
        for opcode in [VendorOpcode::RAW_PROGRAM, VendorOpcode::RAW_COPY] {
            for (program, status) in [
                (RawProgram { block: 32, ..good }, range),
                (RawProgram { stripe: 12, ..good }, range),
                (RawProgram { units: 5, ..good }, field),
                (RawProgram { units: 127, ..good }, field),
                (RawProgram { priority: 9, ..good }, field),
                (RawProgram { stripe: 1, ..good }, fault),
            ] {
                refused(&host, &pair, prp(program.sqe(opcode, 0, RAW)), status).await;
            }
        }
        // Metadata whose reserved bytes are not 0, and the number that stands for no metadata.
        let program = prp(good.sqe(VendorOpcode::RAW_PROGRAM, 0, RAW));
        for (at, byte) in [(8 + 17, 1), (8 + 3 * 24 + 23, 255)] {
            host.poke(page + 4 * 4096 + at, &[byte]);
            refused(&host, &pair, program, field).await;
            host.poke(page + 4 * 4096 + at, &[0]);
        }
        host.poke(page + 4 * 4096, &[255; 8]);
        refused(&host, &pair, program, field).await;
        // Where a copy takes its units from.
        host.poke(page, &GEOMETRY.total_units().to_le_bytes());
        refused(&host, &pair, prp(good.sqe(VendorOpcode::RAW_COPY, 0, RAW)), range).await;
        refused(&host, &pair, RawErase { block: 32, priority: 0 }.sqe(0, RAW), range).await;
        refused(&host, &pair, RawErase { block: 0, priority: 7 }.sqe(0, RAW), field).await;
        for (first, count, status) in
            [(0, 0, field), (0, 33, range), (32, 1, range), (1, u32::MAX, range), (u32::MAX, 1, range)]
        {
            refused(&host, &pair, prp(RawReport { first, count }.sqe(0, RAW)), status).await;
        }
        for action in
            [RawAction::MarkBad { block: 32 }, RawAction::SetMode { block: u32::MAX, one_bit: true }]
        {
            refused(&host, &pair, action.sqe(0, RAW), range).await;
        }
        let unknown = Sqe { cdw10: 77, ..Sqe::new(VendorOpcode::RAW_MANAGE, 0, RAW) };
        refused(&host, &pair, unknown, field).await;
        // Not one of them has done anything.
        let flash = host.drive().controller.ftl().flash();
        assert!(flash.is_new() && flash.programmed_stripes(BlockId(0)) == 0);
    });
}

// Pieces of the system area that don't follow one another would make a root that no host wrote.
#[test]
fn pieces_must_follow_one_another() {
    with_queue(async |host, pair| {
        let (field, sequence) = (Status::INVALID_FIELD, Status::COMMAND_SEQUENCE_ERROR);
        let page = host.holding(&[9; 4096]);
        let part = RawPart::Root0;
        let system = |opcode, part, offset, bytes, total| {
            RawSystem { part, bytes, offset, total }.sqe(opcode, 0, RAW).with_prp(page, 0)
        };
        let write = |offset, bytes, total| system(VendorOpcode::RAW_SYSTEM_WRITE, part, offset, bytes, total);
        let read = |part, offset, bytes| system(VendorOpcode::RAW_SYSTEM_READ, part, offset, bytes, 0);
        refused(&host, &pair, write(100, 100, 200), sequence).await;
        refused(&host, &pair, write(0, 0, 0), field).await;
        refused(&host, &pair, write(0, 200, 100), field).await;
        refused(&host, &pair, write(u32::MAX, 100, u32::MAX), field).await;
        refused(&host, &pair, write(0, 100, RawSystem::TOTAL_MAX + 1), field).await;
        assert_eq!(host.io(&pair, write(0, 100, 300)).await.status(), Status::SUCCESS);
        refused(&host, &pair, write(200, 100, 300), sequence).await;
        refused(&host, &pair, write(100, 100, 400), sequence).await;
        refused(&host, &pair, read(part, 4096, 100), sequence).await;
        let empty = host.io(&pair, read(part, 0, 4096)).await;
        assert_eq!((empty.status(), empty.dw0, empty.dw1), (Status::SUCCESS, 0, 0), "no root yet");
        assert_eq!(host.io(&pair, write(100, 200, 300)).await.status(), Status::SUCCESS);
        let whole = host.io(&pair, read(part, 0, 256)).await;
        assert_eq!((whole.status(), whole.dw0, whole.dw1), (Status::SUCCESS, 300, 1));
        refused(&host, &pair, read(part, 301, 100), field).await;
        refused(&host, &pair, read(RawPart::Root1, 256, 100), sequence).await;
        refused(&host, &pair, Sqe { cdw10: 4, ..read(part, 0, 100) }, field).await;
        assert_eq!(host.io(&pair, read(part, 256, 4096)).await.dw0, 300);
    });
}

// Whatever a host sends, the drive answers and continues to work.
#[test]
fn any_fields_are_answered() {
    for seed in 0..20 {
        with_queue(async move |host, pair| {
            let mut stream = Rng::new(seed).stream("fields");
            let page = host.holding(&(0..8 * 4096).map(|at| (at * 13 % 251) as u8).collect::<Vec<u8>>());
            let list =
                host.holding(&(1..64).flat_map(|n| (page + n % 8 * 4096).to_le_bytes()).collect::<Vec<u8>>());
            let raw: Vec<u8> = (0xa8..=0xb3).collect();
            for _ in 0..200 {
                let opcode = raw[stream.below(raw.len() as u64) as usize];
                let field = |stream: &mut byteway_clock::random::Stream| match stream.below(4) {
                    0 => stream.below(1 << 32) as u32,
                    1 => stream.below(40) as u32,
                    2 => (stream.below(8) << 16) as u32 | stream.below(6) as u32,
                    _ => 0,
                };
                let fields: [u32; 6] = std::array::from_fn(|_| field(&mut stream));
                let sqe = Sqe {
                    cdw10: fields[0],
                    cdw11: fields[1],
                    cdw12: fields[2],
                    cdw13: fields[3],
                    cdw14: fields[4],
                    cdw15: fields[5],
                    ..Sqe::new(opcode, 0, RAW)
                };
                host.io(&pair, sqe.with_prp(page, list)).await;
            }
            let report = RawReport { first: 0, count: 32 }.sqe(0, RAW).with_prp(page, 0);
            assert_eq!(host.io(&pair, report).await.status(), Status::SUCCESS, "seed {seed}");
        });
    }
}

// A raw drive that formatted its namespace, or wrote a record of its own, would write over the host's translation layer.
#[test]
fn the_drive_leaves_its_array_alone() {
    bench().enabled(async |host| {
        let profile = SetFeatures { fid: fid::COMMAND_SET_PROFILE, ..SetFeatures::default() };
        host.succeed(profile.sqe(0, 0)).await;
        let pair = host.create_pair(1, 64).await;
        let page = host.pages(1);
        let identify =
            Identify { cns: Cns::COMMAND_SET_NAMESPACE, csi: raw_flash::CSI, ..Identify::default() };
        host.succeed(identify.sqe(0, RAW).with_prp(page, 0)).await;
        let id = RawFlashIdentify::parse(&host.peek(page, 64)).expect("what flash it is");
        assert_eq!((id.channels, id.blocks, id.page_bytes, id.wordline), (2, 8, 16384, 2));
        assert_eq!(id.flags, RawFlashIdentify::IS_NEW | RawFlashIdentify::ONE_BIT);
        host.refused(FormatNvm::default().sqe(0, RAW), Status::INVALID_OPCODE).await;
        for opcode in
            [AdminOpcode::NAMESPACE_MANAGEMENT, AdminOpcode::NAMESPACE_ATTACHMENT, AdminOpcode::SANITIZE]
        {
            host.refused(Sqe::new(opcode, 0, RAW), Status::INVALID_OPCODE).await;
        }
        for opcode in [NvmOpcode::READ, NvmOpcode::WRITE, NvmOpcode::FLUSH] {
            refused(&host, &pair, Sqe::new(opcode, 0, RAW).with_prp(page, 0), Status::INVALID_OPCODE).await;
        }
        host.sleep(Delay::from_s(30)).await;
        assert!(host.drive().controller.shut_down().await.is_ok());
        let flash = host.drive().controller.ftl().flash();
        assert!(flash.is_new() && flash.record().is_none());
    });
}

// A namespace that left no free space for its metadata in a command, or shared its array, could not be what it says.
#[test]
fn drives_that_cannot_be_are_refused() {
    let message = |config: DriveConfig| config.validate().expect_err("it is not possible").message;
    let both = vec![config().namespaces[0].clone(), config().namespaces[0].clone()];
    assert!(message(DriveConfig { namespaces: both, ..config() }).contains("only one"));
    let geometry = Geometry { blocks: 9, ..GEOMETRY };
    assert!(message(DriveConfig { geometry, ..config() }).contains("all units"));
    assert!(message(DriveConfig { base: Base::Filled, ..config() }).contains("nothing at first"));
    let mut small = config();
    small.controller.transfer_bytes_max = 16384;
    assert!(message(small).contains("transfer_bytes_max"));
    assert_eq!((metadata_bytes(4), payload_bytes(4), copy_bytes(4)), (104, 16488, 136));
}
