//! The NVM command set (NVM Command Set 1.1), command by command and status by status.
//!
//! Not here: Copy (`copy.rs`), blocks that can't be read (`unreadable.rs`), protection information and metadata (no
//! format has any).

use crate::fixture::{
    Bench, NS_4K, NS_4K_UNITS, NS_512, NS_512_UNITS, PAGE, Pair, TestHost, block_bytes, pattern, read_write,
};
use byteway_clock::Delay;
use byteway_content::BlockSize;
use byteway_wire::nvme::{
    DatasetManagement, Flush, NSID_ALL, NvmOpcode, Range, ReadWrite, Sqe, Status, WriteZeroes, fid,
};

/// Blocks of the namespace.
fn blocks(nsid: u32) -> u64 {
    if nsid == NS_4K { NS_4K_UNITS } else { NS_512_UNITS * 8 }
}

fn write_zeroes(nsid: u32, slba: u64, blocks: u32) -> Sqe {
    WriteZeroes { slba, nlb_z: (blocks - 1) as u16, ..WriteZeroes::default() }.sqe(0, nsid)
}

/// Dataset Management that deallocates `ranges`.
fn deallocate(host: &TestHost, nsid: u32, ranges: &[Range]) -> Sqe {
    dataset_management(host, nsid, ranges, true)
}

fn dataset_management(host: &TestHost, nsid: u32, ranges: &[Range], ad: bool) -> Sqe {
    let bytes: Vec<u8> = ranges.iter().flat_map(Range::to_bytes).collect();
    let command = DatasetManagement { nr_z: (ranges.len() - 1) as u8, ad, idr: !ad, idw: !ad };
    command.sqe(0, nsid).with_prp(host.holding(&bytes), 0)
}

/// Compare with `bytes`.
fn compare(host: &TestHost, nsid: u32, slba: u64, bytes: &[u8]) -> Sqe {
    let mut sqe = host.write_sqe(nsid, slba, bytes);
    sqe.set_opcode(NvmOpcode::COMPARE);
    sqe
}

async fn expect(host: &TestHost, pair: &Pair, sqe: Sqe, status: Status) {
    assert_eq!(host.io(pair, sqe).await.status(), status, "{sqe:?}");
}

/// Units in the write buffer: acknowledged and not on flash.
fn buffered(host: &TestHost) -> u32 {
    host.drive().controller.ftl().units_buffered()
}

// Without this nothing else means anything: a drive that doesn't give back what it took.
#[test]
fn what_was_written_is_read() {
    Bench::default().with_queue(async |host, pair| {
        for (nsid, slba, count) in
            [(NS_4K, 3, 1), (NS_4K, 8, 32), (NS_512, 0, 8), (NS_512, 16, 256), (NS_512, 1000, 1)]
        {
            let bytes = pattern(slba, count as usize * block_bytes(nsid));
            assert_eq!(host.write(&pair, nsid, slba, &bytes).await, Status::SUCCESS);
            assert_eq!(host.read(&pair, nsid, slba, count).await, bytes);
            expect(&host, &pair, Flush.sqe(0, nsid), Status::SUCCESS).await;
            assert_eq!(host.read(&pair, nsid, slba, count).await, bytes, "from flash too");
        }
    });
}

// Blocks that no host wrote hold zeroes, not an earlier owner's data.
#[test]
fn unwritten_blocks_read_as_zeroes() {
    Bench::default().with_queue(async |host, pair| {
        for nsid in [NS_512, NS_4K] {
            for slba in [0, 7, blocks(nsid) - 3] {
                let page = host.holding(&[0xaa; 4096 * 3]);
                let (prp1, prp2) = host.prp(page, 3 * block_bytes(nsid) as u64);
                expect(
                    &host,
                    &pair,
                    read_write(NvmOpcode::READ, nsid, slba, 3).with_prp(prp1, prp2),
                    Status::SUCCESS,
                )
                .await;
                assert!(host.peek(page, 3 * block_bytes(nsid)).iter().all(|byte| *byte == 0));
            }
        }
    });
}

// The last block of one namespace lies next to the first of the next: a write must not cross.
#[test]
fn namespaces_do_not_share_a_byte() {
    Bench::default().with_queue(async |host, pair| {
        let (last, first) = (blocks(NS_512) - 1, 0);
        let (mine, theirs) = (pattern(1, 512), pattern(2, 4096));
        assert_eq!(host.write(&pair, NS_4K, first, &theirs).await, Status::SUCCESS);
        assert_eq!(host.write(&pair, NS_512, last, &mine).await, Status::SUCCESS);
        assert_eq!(host.write(&pair, NS_512, first, &mine).await, Status::SUCCESS);
        expect(&host, &pair, write_zeroes(NS_512, last - 7, 7), Status::SUCCESS).await;
        assert_eq!(host.read(&pair, NS_4K, first, 1).await, theirs);
        assert_eq!(host.read(&pair, NS_512, last, 1).await, mine);
        let range = Range::new(0, blocks(NS_512) as u32);
        expect(&host, &pair, deallocate(&host, NS_512, &[range]), Status::SUCCESS).await;
        assert_eq!(host.read(&pair, NS_4K, first, 1).await, theirs);
        assert_eq!(host.read(&pair, NS_512, last, 1).await, [0; 512]);
    });
}

/// The first bytes of [`NS_512`] as they should be.
struct Model {
    bytes: Vec<u8>,
    seed: u64,
}

impl Model {
    const BLOCKS: usize = 40;

    /// Random bytes, written to the drive.
    async fn filled(host: &TestHost, pair: &Pair) -> Model {
        let bytes = pattern(99, Self::BLOCKS * 512);
        assert_eq!(host.write(pair, NS_512, 0, &bytes).await, Status::SUCCESS);
        Model { bytes, seed: 100 }
    }

    /// New random bytes for `count` blocks, in the model already.
    fn change(&mut self, slba: usize, count: usize) -> Vec<u8> {
        self.seed += 1;
        let new = pattern(self.seed, count * 512);
        self.bytes[slba * 512..(slba + count) * 512].copy_from_slice(&new);
        new
    }

    fn zero(&mut self, slba: usize, count: usize) {
        self.bytes[slba * 512..(slba + count) * 512].fill(0);
    }

    async fn check(&self, host: &TestHost, pair: &Pair, what: &str) {
        let got = host.read(pair, NS_512, 0, Self::BLOCKS as u32).await;
        let differs = got.iter().zip(&self.bytes).position(|(a, b)| a != b);
        assert_eq!(differs, None, "first byte that differs after {what}");
    }
}

/// Every alignment of a first block and every length up to more than two units.
fn alignments() -> impl Iterator<Item = (usize, usize)> {
    (0..9).flat_map(|slba| (1..=18).map(move |count| (slba, count)))
}

// Blocks are smaller than the units of flash: a write must change its bytes and no others.
#[test]
fn blocks_of_512_bytes_are_written_at_every_alignment() {
    Bench::default().with_queue(async |host, pair| {
        let mut model = Model::filled(&host, &pair).await;
        for (slba, count) in alignments() {
            let new = model.change(slba, count);
            assert_eq!(host.write(&pair, NS_512, slba as u64, &new).await, Status::SUCCESS);
            model.check(&host, &pair, &format!("a write of {count} from {slba}")).await;
        }
    });
}

// The other way round: what a read cuts out of units.
#[test]
fn blocks_of_512_bytes_are_read_at_every_alignment() {
    Bench::default().with_queue(async |host, pair| {
        let model = Model::filled(&host, &pair).await;
        for flushed in [false, true] {
            for (slba, count) in alignments() {
                let got = host.read(&pair, NS_512, slba as u64, count as u32).await;
                assert_eq!(got, model.bytes[slba * 512..][..count * 512], "{count} from {slba}");
            }
            if !flushed {
                expect(&host, &pair, Flush.sqe(0, NS_512), Status::SUCCESS).await;
            }
        }
    });
}

// Write Zeroes deallocates whole units and overwrites the rest: the seams are where bytes get lost.
#[test]
fn write_zeroes_at_every_alignment() {
    Bench::default().with_queue(async |host, pair| {
        let mut model = Model::filled(&host, &pair).await;
        for (slba, count) in alignments() {
            let refill = model.change(0, Model::BLOCKS);
            assert_eq!(host.write(&pair, NS_512, 0, &refill).await, Status::SUCCESS);
            model.zero(slba, count);
            expect(&host, &pair, write_zeroes(NS_512, slba as u64, count as u32), Status::SUCCESS).await;
            model.check(&host, &pair, &format!("zeroing {count} from {slba}")).await;
        }
        let bytes = pattern(5, 4096 * 8);
        assert_eq!(host.write(&pair, NS_4K, 100, &bytes).await, Status::SUCCESS);
        let deallocating =
            WriteZeroes { slba: 102, nlb_z: 3, deac: true, fua: true, ..WriteZeroes::default() };
        expect(&host, &pair, deallocating.sqe(0, NS_4K), Status::SUCCESS).await;
        let got = host.read(&pair, NS_4K, 100, 8).await;
        let expected = [&bytes[..8192], &[0; 4 * 4096], &bytes[6 * 4096..]].concat();
        assert_eq!(got, expected);
    });
}

// The same for deallocation, whose contents this drive promises to be zeroes.
#[test]
fn deallocation_at_every_alignment() {
    Bench::default().with_queue(async |host, pair| {
        let mut model = Model::filled(&host, &pair).await;
        for (slba, count) in alignments() {
            let refill = model.change(0, Model::BLOCKS);
            assert_eq!(host.write(&pair, NS_512, 0, &refill).await, Status::SUCCESS);
            model.zero(slba, count);
            let sqe = deallocate(&host, NS_512, &[Range::new(slba as u64, count as u32)]);
            expect(&host, &pair, sqe, Status::SUCCESS).await;
            model.check(&host, &pair, &format!("deallocating {count} from {slba}")).await;
        }
    });
}

// Eight blocks share a unit: writes of different ones at once must all be there in the end.
#[test]
fn concurrent_writes_to_one_unit_all_land() {
    Bench::default().with_queue(async |host, pair| {
        for round in 0..20 {
            let bytes = pattern(round, 4096);
            for block in 0..8 {
                let part = &bytes[block * 512..][..512];
                host.place(&pair.sq, host.write_sqe(NS_512, 80 + block as u64, part));
            }
            host.ring_tail(&pair.sq);
            for cqe in host.next_many(&pair.cq, 8).await {
                assert_eq!(cqe.status(), Status::SUCCESS);
            }
            assert_eq!(host.read(&pair, NS_512, 80, 8).await, bytes);
        }
    });
}

/// Whether a write of one unit is on flash when it completes.
async fn is_durable(host: &TestHost, pair: &Pair, fua: bool) -> bool {
    let bytes = pattern(7, 4096);
    let mut durable = true;
    for (nsid, count) in [(NS_4K, 1), (NS_512, 3)] {
        let data = host.write_sqe(nsid, 40, &bytes[..count * block_bytes(nsid)]);
        let command = ReadWrite { slba: 40, nlb_z: (count - 1) as u16, fua, ..ReadWrite::default() };
        let sqe = command.sqe(NvmOpcode::WRITE, 0, nsid).with_prp(data.prp1, data.prp2);
        expect(host, pair, sqe, Status::SUCCESS).await;
        durable &= buffered(host) == 0;
        assert_eq!(host.read(pair, nsid, 40, count as u32).await, bytes[..count * block_bytes(nsid)]);
    }
    durable
}

// A data base's log record that is only in the buffer when its write completes is lost with the power.
#[test]
fn forced_unit_access_writes_to_flash() {
    Bench::default().with_queue(async |host, pair| {
        assert!(!is_durable(&host, &pair, false).await, "without it, the buffer is enough");
        assert!(is_durable(&host, &pair, true).await);
    });
}

// A host that turns the cache off expects every write to be durable, and the zeroes too.
#[test]
fn without_the_write_cache_every_write_is_on_flash() {
    Bench::default().with_queue(async |host, pair| {
        host.set_feature(fid::VOLATILE_WRITE_CACHE, 0).await;
        assert!(is_durable(&host, &pair, false).await);
        expect(&host, &pair, write_zeroes(NS_512, 41, 2), Status::SUCCESS).await;
        assert_eq!(buffered(&host), 0);
        expect(&host, &pair, deallocate(&host, NS_512, &[Range::new(41, 2)]), Status::SUCCESS).await;
        assert_eq!(buffered(&host), 0);
        host.set_feature(fid::VOLATILE_WRITE_CACHE, 1).await;
        assert!(!is_durable(&host, &pair, false).await);
    });
}

// With power-loss protection the buffer is durable: waiting for flash would cost what the capacitors were bought for.
#[test]
fn with_power_loss_protection_nothing_waits_for_flash() {
    let mut bench = Bench::default();
    bench.drive.ftl.plp = true;
    bench.with_queue(async |host, pair| {
        assert!(!is_durable(&host, &pair, true).await);
        let begun = host.clock().now();
        expect(&host, &pair, Flush.sqe(0, NS_4K), Status::SUCCESS).await;
        assert!(host.clock().now().since(begun) < Delay::from_us(10));
        assert!(buffered(&host) > 0);
    });
}

// Flush is what a file system's fsync comes down to.
#[test]
fn flush_empties_the_buffer() {
    Bench::default().with_queue(async |host, pair| {
        for nsid in [NS_512, NS_4K, NSID_ALL] {
            assert_eq!(host.write(&pair, NS_4K, 1, &pattern(1, 4096)).await, Status::SUCCESS);
            assert_eq!(host.write(&pair, NS_512, 1, &pattern(2, 512)).await, Status::SUCCESS);
            assert!(buffered(&host) > 0);
            expect(&host, &pair, Flush.sqe(0, nsid), Status::SUCCESS).await;
            assert_eq!(buffered(&host), 0, "namespace {nsid:#x}");
            expect(&host, &pair, Flush.sqe(0, nsid), Status::SUCCESS).await; // with nothing to do
        }
    });
}

// Forced unit access of a read: what it shows must survive a power cut, so it comes from flash.
#[test]
fn a_forced_read_comes_from_flash() {
    Bench::default().with_queue(async |host, pair| {
        let bytes = pattern(1, 4096);
        assert_eq!(host.write(&pair, NS_4K, 1, &bytes).await, Status::SUCCESS);
        assert_eq!(buffered(&host), 1);
        let page = host.pages(1);
        let command = ReadWrite { slba: 1, fua: true, ..ReadWrite::default() };
        expect(&host, &pair, command.sqe(NvmOpcode::READ, 0, NS_4K).with_prp(page, 0), Status::SUCCESS).await;
        assert_eq!((host.peek(page, 4096), buffered(&host)), (bytes.clone(), 0));
        for (slba, opcode) in [(2, NvmOpcode::COMPARE), (3, NvmOpcode::VERIFY)] {
            assert_eq!(host.write(&pair, NS_4K, slba, &bytes).await, Status::SUCCESS);
            let command = ReadWrite { slba, fua: true, ..ReadWrite::default() };
            let sqe = command.sqe(opcode, 0, NS_4K).with_prp(host.holding(&bytes), 0);
            expect(&host, &pair, sqe, Status::SUCCESS).await;
            assert_eq!(buffered(&host), 0, "{opcode}");
        }
        assert_eq!(host.drive().controller.ftl().counters().units_read_from_buffer, 0);
    });
}

/// Each command with an address, from `slba` on, `count` blocks.
fn addressed(host: &TestHost, nsid: u32, slba: u64, count: u32) -> Vec<Sqe> {
    let (prp1, prp2) = host.prp(host.pages(33), u64::from(count) * block_bytes(nsid) as u64);
    let moves = [NvmOpcode::READ, NvmOpcode::WRITE, NvmOpcode::COMPARE];
    let mut all: Vec<Sqe> =
        moves.into_iter().map(|opcode| read_write(opcode, nsid, slba, count).with_prp(prp1, prp2)).collect();
    all.push(write_zeroes(nsid, slba, count));
    all.push(deallocate(host, nsid, &[Range::new(slba, count)]));
    all
}

// One block too many belongs to another tenant, or to none.
#[test]
fn blocks_beyond_the_namespace_are_refused() {
    Bench::default().with_queue(async |host, pair| {
        for nsid in [NS_512, NS_4K] {
            let end = blocks(nsid);
            for (slba, count) in [(end - 1, 1), (end - 20, 20)] {
                for sqe in addressed(&host, nsid, slba, count) {
                    expect(&host, &pair, sqe, Status::SUCCESS).await;
                }
            }
            let beyond =
                [(end, 1), (end - 1, 2), (end - 19, 20), (u64::MAX, 1), (u64::MAX - 1, 2), (1 << 52, 1)];
            for (slba, count) in beyond {
                for sqe in addressed(&host, nsid, slba, count) {
                    expect(&host, &pair, sqe, Status::LBA_OUT_OF_RANGE.with_dnr()).await;
                }
            }
        }
        assert_eq!(host.drive().controller.counters().data_out_bytes.get(), (21 * 512) + (21 * 4096));
    });
}

// A namespace that isn't there must not be the first, or all of them.
#[test]
fn wrong_namespaces_are_refused() {
    Bench::default().with_queue(async |host, pair| {
        // Identifiers that nothing is attached by, and such as can't be.
        let cases = [(3, Status::INVALID_FIELD), (128, Status::INVALID_FIELD)];
        let never = [0, 129, 0x1_0001, NSID_ALL - 1, NSID_ALL].map(|nsid| (nsid, Status::INVALID_NAMESPACE));
        for (nsid, status) in cases.into_iter().chain(never) {
            let mut commands = addressed(&host, nsid, 0, 1);
            if nsid != NSID_ALL {
                commands.push(Flush.sqe(0, nsid));
            }
            for sqe in commands {
                expect(&host, &pair, sqe, status.with_dnr()).await;
            }
        }
    });
}

// Drivers split by MDTS: exactly as much must go, one block more must not.
#[test]
fn transfers_end_at_the_advertised_size() {
    Bench::default().with_queue(async |host, pair| {
        for nsid in [NS_512, NS_4K] {
            let most = (128 << 10) / block_bytes(nsid);
            let bytes = pattern(1, 128 << 10);
            assert_eq!(host.write(&pair, nsid, 1, &bytes).await, Status::SUCCESS);
            assert_eq!(host.read(&pair, nsid, 1, most as u32).await, bytes);
            expect(&host, &pair, compare(&host, nsid, 1, &bytes), Status::SUCCESS).await;
            for count in [most as u32 + 1, 8192] {
                let page = host.pages(1);
                for opcode in [NvmOpcode::READ, NvmOpcode::WRITE, NvmOpcode::COMPARE] {
                    let sqe = read_write(opcode, nsid, 0, count).with_prp(page, page);
                    expect(&host, &pair, sqe, Status::INVALID_FIELD.with_dnr()).await;
                }
                expect(&host, &pair, write_zeroes(nsid, 0, count), Status::SUCCESS).await; // moves no data
            }
        }
    });
}

// Hosts try commands to find out what there is: each unknown one must be answered, and with this.
#[test]
fn unknown_io_opcodes_are_refused() {
    Bench::default().with_queue(async |host, pair| {
        let known = [0x00, 0x01, 0x02, 0x04, 0x05, 0x08, 0x09, 0x0c, 0x19];
        for opcode in (0..=255u8).filter(|opcode| !known.contains(opcode)) {
            expect(&host, &pair, Sqe::new(opcode, 0, NS_4K), Status::INVALID_OPCODE.with_dnr()).await;
        }
    });
}

// Compare is how hosts lock blocks of a shared drive: a difference that is overlooked gives a lock to two.
#[test]
fn compare_sees_any_byte_that_differs() {
    Bench::default().with_queue(async |host, pair| {
        for (nsid, slba, count) in [(NS_4K, 2, 4), (NS_512, 3, 1), (NS_512, 5, 20), (NS_512, 8, 8)] {
            let bytes = pattern(slba, count * block_bytes(nsid));
            assert_eq!(host.write(&pair, nsid, slba, &bytes).await, Status::SUCCESS);
            for flush in [false, true] {
                if flush {
                    expect(&host, &pair, Flush.sqe(0, nsid), Status::SUCCESS).await;
                }
                expect(&host, &pair, compare(&host, nsid, slba, &bytes), Status::SUCCESS).await;
                for at in (0..bytes.len()).step_by(509).chain([bytes.len() - 1]) {
                    let mut wrong = bytes.clone();
                    wrong[at] ^= 1;
                    expect(&host, &pair, compare(&host, nsid, slba, &wrong), Status::COMPARE_FAILURE).await;
                }
            }
            assert_eq!(host.read(&pair, nsid, slba, count as u32).await, bytes, "nothing was changed");
        }
    });
}

// Ranges come as a list: each must be done, an empty one is none.
#[test]
fn deallocation_does_every_range() {
    Bench::default().with_queue(async |host, pair| {
        let mut model = Model::filled(&host, &pair).await;
        let ranges = [(3, 2), (20, 0), (8, 8), (30, 10), (9, 3), (0, 1)];
        let list: Vec<Range> = ranges.iter().map(|(slba, length)| Range::new(*slba, *length)).collect();
        expect(&host, &pair, deallocate(&host, NS_512, &list), Status::SUCCESS).await;
        ranges.iter().for_each(|(slba, length)| model.zero(*slba as usize, *length as usize));
        model.check(&host, &pair, "deallocating a list").await;

        for lba in 0..256 {
            assert_eq!(host.write(&pair, NS_4K, lba * 2, &pattern(lba, 8192)).await, Status::SUCCESS);
        }
        let list: Vec<Range> = (0..256).map(|index| Range::new(index * 2, 1)).collect();
        expect(&host, &pair, deallocate(&host, NS_4K, &list), Status::SUCCESS).await;
        for lba in 0..256 {
            let got = host.read(&pair, NS_4K, lba * 2, 2).await;
            assert!(got[..4096].iter().all(|byte| *byte == 0));
            assert_eq!(got[4096..], pattern(lba, 8192)[4096..]);
        }
    });
}

// Hints are allowed on any range, and must not lose a byte.
#[test]
fn dataset_management_without_deallocate_changes_nothing() {
    Bench::default().with_queue(async |host, pair| {
        let model = Model::filled(&host, &pair).await;
        let hints = Range { context: 0x0101_0733, length: 30, slba: 2 };
        expect(&host, &pair, dataset_management(&host, NS_512, &[hints], false), Status::SUCCESS).await;
        model.check(&host, &pair, "a hint").await;
        assert_eq!(host.drive().controller.ftl().counters().units_deallocated, 0);
    });
}

// A list with one wrong range is refused as a whole: half a deallocation is worse than none.
#[test]
fn a_range_beyond_the_namespace_deallocates_nothing() {
    Bench::default().with_queue(async |host, pair| {
        let model = Model::filled(&host, &pair).await;
        let end = blocks(NS_512);
        for wrong in [
            Range::new(end, 1),
            Range::new(end - 1, 2),
            Range::new(u64::MAX, 1),
            Range::new(0, u32::MAX),
            Range::new(end + 1, 0),
        ] {
            let sqe = deallocate(&host, NS_512, &[Range::new(0, 16), wrong]);
            expect(&host, &pair, sqe, Status::LBA_OUT_OF_RANGE.with_dnr()).await;
        }
        model.check(&host, &pair, "refused lists").await;
    });
}

// The limits of CNS 06h are promises in both directions.
#[test]
fn deallocation_ends_at_the_advertised_limits() {
    let mut bench = Bench::default();
    bench.drive.geometry.blocks = 160;
    bench.drive.namespaces[0].units = (1 << 20) / 8 + 8;
    assert_eq!(bench.drive.namespaces[0].block, BlockSize::B512);
    bench.with_queue(async |host, pair| {
        let bytes = pattern(1, 512);
        assert_eq!(host.write(&pair, NS_512, 5, &bytes).await, Status::SUCCESS);
        let exceeded = Status::COMMAND_SIZE_LIMIT_EXCEEDED.with_dnr();
        let too_long = [Range::new(0, (1 << 20) + 1)];
        expect(&host, &pair, deallocate(&host, NS_512, &too_long), exceeded).await;
        let too_many = [
            Range::new(8, 1 << 20),
            Range::new(8, 1 << 20),
            Range::new(8, 1 << 20),
            Range::new(8, 1 << 20),
            Range::new(0, 1),
        ];
        expect(&host, &pair, deallocate(&host, NS_512, &too_many), exceeded).await;
        assert_eq!(host.read(&pair, NS_512, 5, 1).await, bytes);
        expect(&host, &pair, deallocate(&host, NS_512, &too_many[..4]), Status::SUCCESS).await;
        assert_eq!(host.read(&pair, NS_512, 5, 1).await, bytes, "it begins behind");
        expect(&host, &pair, deallocate(&host, NS_512, &[Range::new(0, 1 << 20)]), Status::SUCCESS).await;
        assert_eq!(host.read(&pair, NS_512, 5, 1).await, [0; 512]);
    });
}

// The data of a hint list comes by the same pointers: one that is wrong is refused, and nothing deallocated.
#[test]
fn dataset_management_checks_its_data_pointer() {
    Bench::default().with_queue(async |host, pair| {
        let model = Model::filled(&host, &pair).await;
        let command = DatasetManagement { nr_z: 0, ad: true, ..DatasetManagement::default() };
        let sqe = command.sqe(0, NS_512).with_prp(host.hole(), 0);
        expect(&host, &pair, sqe, Status::DATA_TRANSFER_ERROR).await;
        let status = host.io(&pair, command.sqe(0, NS_512).with_prp(host.pages(1) + 2, 0)).await.status();
        assert!(status.is(Status::PRP_OFFSET_INVALID));
        model.check(&host, &pair, "refused lists").await;
        // A list across two pages.
        let pages = host.pages(4);
        let ranges: Vec<u8> = (0..4).flat_map(|index| Range::new(index * 10, 1).to_bytes()).collect();
        host.poke(pages + PAGE - 24, &ranges[..24]);
        host.poke(pages + 3 * PAGE, &ranges[24..]);
        let command = DatasetManagement { nr_z: 3, ..command };
        let sqe = command.sqe(0, NS_512).with_prp(pages + PAGE - 24, pages + 3 * PAGE);
        expect(&host, &pair, sqe, Status::SUCCESS).await;
        let mut model = model;
        (0..4).for_each(|index| model.zero(index * 10, 1));
        model.check(&host, &pair, "a list across two pages").await;
    });
}

// A drive that is written over and over must collect garbage in the background without mixing blocks up.
#[test]
fn data_survives_many_times_the_capacity() {
    let mut bench = Bench::default();
    bench.drive.geometry.blocks = 8;
    bench.drive.namespaces[0].units = 64;
    bench.drive.namespaces[1].units = 4096;
    bench.with_queue(async |host, pair| {
        let mut versions = vec![0u64; 4096 / 16];
        let mut seed = 1u64;
        for _ in 0..1500 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let chunk = (seed >> 33) % 256;
            versions[chunk as usize] = seed;
            assert_eq!(
                host.write(&pair, NS_4K, chunk * 16, &pattern(seed, 16 * 4096)).await,
                Status::SUCCESS
            );
        }
        for (chunk, version) in versions.into_iter().enumerate() {
            let got = host.read(&pair, NS_4K, chunk as u64 * 16, 16).await;
            let expected = if version == 0 { vec![0; 16 * 4096] } else { pattern(version, 16 * 4096) };
            assert!(got == expected, "chunk {chunk}");
        }
        assert!(host.drive().controller.ftl().counters().blocks_collected > 10);
    });
}
