//! Data pointers in every shape (NVMe Base 2.1, 4.3): PRPs and their lists, SGLs and their segments, right and wrong.
//!
//! Not here: memory that goes while a transfer is in flight, and lists that change under the walk.

use crate::fixture::{Bench, NS_4K, NS_512, PAGE, Pair, TestHost, block_bytes, cc, pattern, read_write};
use byteway_link::{Direction, Purpose};
use byteway_wire::nvme::sgl::{SglSubType, SglType};
use byteway_wire::nvme::{Cns, NvmOpcode, SglDescriptor, Sqe, Status};

/// Fill byte of memory that no data must reach.
const UNTOUCHED: u8 = 0x5c;

/// `count` pages that hold [`UNTOUCHED`], no two of them contiguous, in no order.
fn scattered(host: &TestHost, count: usize) -> Vec<u64> {
    let mut pages: Vec<u64> = (0..count)
        .map(|_| {
            host.pages(1); // keeps the neighbours apart
            let page = host.pages(1);
            host.poke(page, &[UNTOUCHED; PAGE as usize]);
            page
        })
        .collect();
    pages.reverse();
    pages.swap(0, count / 2);
    pages
}

/// Writes and reads back by data pointers whose payload lies in `extents` (address and length), one after another;
/// everything else in those pages stays as it is.
async fn there_and_back(
    host: &TestHost,
    pair: &Pair,
    nsid: u32,
    extents: &[(u64, usize)],
    place: impl Fn(Sqe) -> Sqe,
) {
    let total: usize = extents.iter().map(|(_, bytes)| bytes).sum();
    let blocks = (total / block_bytes(nsid)) as u32;
    let payload = pattern(total as u64 ^ extents[0].0, total);
    let mut at = 0;
    for (address, bytes) in extents {
        host.poke(*address, &payload[at..at + bytes]);
        at += bytes;
    }
    let write = place(read_write(NvmOpcode::WRITE, nsid, 7, blocks));
    assert_eq!(host.io(pair, write).await.status(), Status::SUCCESS);
    assert_eq!(host.read(pair, nsid, 7, blocks).await, payload, "what was written");
    let compare = place(read_write(NvmOpcode::COMPARE, nsid, 7, blocks));
    assert_eq!(host.io(pair, compare).await.status(), Status::SUCCESS);
    for (address, bytes) in extents {
        host.poke(*address, &vec![UNTOUCHED; *bytes]);
    }
    let read = place(read_write(NvmOpcode::READ, nsid, 7, blocks));
    assert_eq!(host.io(pair, read).await.status(), Status::SUCCESS);
    let mut got = Vec::new();
    for (address, bytes) in extents {
        got.extend(host.peek(*address, *bytes));
        host.poke(*address, &vec![UNTOUCHED; *bytes]);
    }
    assert_eq!(got, payload, "what was read");
    for (address, _) in extents {
        let page = address / PAGE * PAGE;
        assert!(
            host.peek(page, PAGE as usize).iter().all(|byte| *byte == UNTOUCHED),
            "bytes around the payload"
        );
    }
}

/// The extents of `bytes` from `offset` in the first of `pages` on.
fn extents(pages: &[u64], offset: u64, bytes: usize) -> Vec<(u64, usize)> {
    let mut left = bytes;
    let mut extents = Vec::new();
    for (index, page) in pages.iter().enumerate() {
        let offset = if index == 0 { offset } else { 0 };
        let count = left.min((PAGE - offset) as usize);
        if count > 0 {
            extents.push((page + offset, count));
        }
        left -= count;
    }
    assert_eq!(left, 0, "the pages hold the payload");
    extents
}

// An offset in PRP1 and what follows in PRP2: the shape of nearly every small command.
#[test]
fn prps_of_one_and_two_pages() {
    Bench::default().with_queue(async |host, pair| {
        for offset in [0, 4, 512, 2048, 3584, 4092] {
            for bytes in [512, 1024, 4096] {
                let pages = scattered(&host, 2);
                let (prp1, prp2) = (pages[0] + offset, pages[1]);
                let extents = extents(&pages, offset, bytes);
                there_and_back(&host, &pair, NS_512, &extents, |sqe| sqe.with_prp(prp1, prp2)).await;
            }
        }
        // PRP2 that isn't needed isn't looked at.
        let pages = scattered(&host, 1);
        there_and_back(&host, &pair, NS_4K, &[(pages[0], 4096)], |sqe| sqe.with_prp(pages[0], 0xdead_beef))
            .await;
        let pages = scattered(&host, 2);
        let both = extents(&pages, 0, 8192);
        there_and_back(&host, &pair, NS_4K, &both, |sqe| sqe.with_prp(pages[0], pages[1])).await;
    });
}

// Lists from two entries to what MDTS allows, with and without an offset in the first page.
#[test]
fn prp_lists_of_every_length() {
    Bench::default().with_queue(async |host, pair| {
        for offset in [0, 4, 4092] {
            for blocks in [2, 3, 4, 15, 31, 32] {
                let count = blocks + usize::from(offset > 0);
                if count < 3 {
                    continue;
                }
                let pages = scattered(&host, count);
                let list = host.pages(1);
                host.poke_words(list, &pages[1..]);
                let extents = extents(&pages, offset, blocks * 4096);
                there_and_back(&host, &pair, NS_4K, &extents, |sqe| sqe.with_prp(pages[0] + offset, list))
                    .await;
            }
        }
    });
}

// A list may begin anywhere in its page: where the page ends, the last entry leads to the next one.
#[test]
fn prp_lists_with_an_offset_chain_at_the_page_s_end() {
    Bench::default().with_queue(async |host, pair| {
        for room in [1, 2, 3, 10, 30, 31, 32, 100] {
            let pages = scattered(&host, 32);
            let lists = host.pages(4);
            let list = lists + PAGE - room as u64 * 8;
            let entries = &pages[1..];
            if entries.len() <= room {
                host.poke_words(list, entries);
            } else {
                let (here, further) = entries.split_at(room - 1);
                host.poke_words(list, &[here, &[lists + 2 * PAGE]].concat());
                host.poke_words(lists + 2 * PAGE, further);
            }
            let extents = extents(&pages, 0, 32 * 4096);
            there_and_back(&host, &pair, NS_4K, &extents, |sqe| sqe.with_prp(pages[0], list)).await;
        }
    });
}

// Larger transfers chain more than once.
#[test]
fn prp_lists_chain_again() {
    let mut bench = Bench::default();
    bench.drive.controller.transfer_bytes_max = 8 << 20;
    bench.with_queue(async |host, pair| {
        let count = 2 * 511 + 7;
        let pages = scattered(&host, count + 1);
        let lists = host.pages(4);
        let entries = &pages[1..];
        host.poke_words(lists, &[&entries[..511], &[lists + 3 * PAGE]].concat());
        host.poke_words(lists + 3 * PAGE, &[&entries[511..1022], &[lists + PAGE]].concat());
        host.poke_words(lists + PAGE, &entries[1022..]);
        let extents = extents(&pages, 0, (count + 1) * 4096);
        there_and_back(&host, &pair, NS_4K, &extents, |sqe| sqe.with_prp(pages[0], lists)).await;
    });
}

/// A Read and a Write of `blocks` with this data pointer must fail with `status`; nothing is touched on either side.
async fn refused(
    host: &TestHost,
    pair: &Pair,
    blocks: u32,
    buffers: &[u64],
    status: Status,
    place: impl Fn(Sqe) -> Sqe,
) {
    for opcode in [NvmOpcode::READ, NvmOpcode::WRITE, NvmOpcode::COMPARE] {
        let sqe = place(read_write(opcode, NS_4K, 50, blocks));
        let cqe = host.io(pair, sqe).await;
        assert!(cqe.status().is(status), "{opcode:?}: {:?} instead of {status:?}", cqe.status());
    }
    for page in buffers {
        assert!(host.peek(*page, 4096).iter().all(|byte| *byte == UNTOUCHED), "memory is untouched");
    }
    let held = host.read(pair, NS_4K, 50, blocks).await;
    assert!(held.iter().all(|byte| *byte == 0), "media are untouched");
}

// A pointer between dwords or pages is a driver's slip: it must be named, and not be rounded.
#[test]
fn misaligned_prps_are_refused() {
    Bench::default().with_queue(async |host, pair| {
        let status = Status::PRP_OFFSET_INVALID;
        let pages = scattered(&host, 4);
        for offset in [1, 2, 3, 4095] {
            refused(&host, &pair, 1, &pages, status, |sqe| sqe.with_prp(pages[0] + offset, 0)).await;
        }
        for offset in [4, 8, 512, 2048, 4095] {
            refused(&host, &pair, 2, &pages, status, |sqe| sqe.with_prp(pages[0], pages[1] + offset)).await;
        }
        let list = host.pages(2);
        host.poke_words(list, &pages[1..]);
        for offset in [1, 4] {
            refused(&host, &pair, 4, &pages, status, |sqe| sqe.with_prp(pages[0], list + offset)).await;
        }
        for wrong in 0..3 {
            let mut entries = pages[1..].to_vec();
            entries[wrong] += 8;
            host.poke_words(list, &entries);
            refused(&host, &pair, 4, &pages, status, |sqe| sqe.with_prp(pages[0], list)).await;
        }
        let end = list + PAGE - 16;
        host.poke_words(end, &[pages[1], list + PAGE + 8]); // leads to the middle of a page
        host.poke_words(list + PAGE + 8, &pages[2..]);
        refused(&host, &pair, 4, &pages, status, |sqe| sqe.with_prp(pages[0], end)).await;
    });
}

// A drive that follows a wild pointer writes over the owner of that memory.
#[test]
fn prps_outside_memory_fail_and_touch_nothing() {
    Bench::default().with_queue(async |host, pair| {
        let status = Status::DATA_TRANSFER_ERROR;
        let pages = scattered(&host, 4);
        let last = u64::MAX / PAGE * PAGE;
        for hole in [host.hole(), 0, PAGE, last, 1 << 63] {
            refused(&host, &pair, 1, &pages, status, |sqe| sqe.with_prp(hole, 0)).await;
            refused(&host, &pair, 1, &pages, status, |sqe| sqe.with_prp(hole + (PAGE - 4), pages[1])).await;
            refused(&host, &pair, 2, &pages, status, |sqe| sqe.with_prp(pages[0], hole)).await;
            refused(&host, &pair, 4, &pages, status, |sqe| sqe.with_prp(pages[0], hole)).await; // the list itself
            let list = host.pages(2);
            for wrong in 0..3 {
                let mut entries = pages[1..].to_vec();
                entries[wrong] = hole;
                host.poke_words(list, &entries);
                refused(&host, &pair, 4, &pages, status, |sqe| sqe.with_prp(pages[0], list)).await;
            }
            let end = list + PAGE - 16;
            host.poke_words(end, &[pages[1], hole]);
            refused(&host, &pair, 4, &pages, status, |sqe| sqe.with_prp(pages[0], end)).await;
        }
    });
}

// A list that leads back to itself ends with the byte count, and the drive with it.
#[test]
fn a_prp_list_in_a_circle_ends() {
    Bench::default().with_queue(async |host, pair| {
        let pages = scattered(&host, 2);
        let list = host.pages(1);
        let entries = vec![pages[1]; 511];
        host.poke_words(list, &[&entries[..], &[list]].concat());
        let near_the_end = list + PAGE - 16; // one entry, then the whole page again
        let read = read_write(NvmOpcode::READ, NS_4K, 0, 32).with_prp(pages[0], near_the_end);
        assert_eq!(host.io(&pair, read).await.status(), Status::SUCCESS);
        host.poke_words(list, &[list; 512]);
        let read = read_write(NvmOpcode::READ, NS_4K, 0, 32).with_prp(pages[0], near_the_end);
        assert_eq!(
            host.io(&pair, read).await.status(),
            Status::SUCCESS,
            "the host's own list is overwritten"
        );
    });
}

// With larger pages an entry is more data, lists are longer, and offsets are of another page.
#[test]
fn prps_go_by_the_page_size_in_cc() {
    for mps in 1..=4 {
        let bench = Bench { cc: cc().with_mps(mps), ..Bench::default() };
        let page_bytes = PAGE << mps;
        bench.with_queue(async move |host, pair| {
            let data = host.aligned_pages(40 << mps);
            host.poke(data, &vec![UNTOUCHED; (40 * page_bytes) as usize]);
            let list = host.aligned_pages(1 << mps);
            let page = |index: u64| data + index * page_bytes;
            let size = page_bytes as usize;
            // Inside one page, across two with an offset, and a list.
            there_and_back(&host, &pair, NS_4K, &[(page(0) + PAGE, 4096)], |sqe| {
                sqe.with_prp(page(0) + PAGE, 0)
            })
            .await;
            let two = [(page(1) + page_bytes - 4, 4), (page(5), size - 4)];
            there_and_back(&host, &pair, NS_4K, &two, |sqe| sqe.with_prp(two[0].0, two[1].0)).await;
            let count = (128 << 10) / page_bytes;
            if count > 2 {
                let entries: Vec<u64> = (1..count).map(|index| page(2 * index)).collect();
                let extents: Vec<_> = (0..count).map(|index| (page(2 * index), size)).collect();
                host.poke_words(list, &entries);
                there_and_back(&host, &pair, NS_4K, &extents, |sqe| sqe.with_prp(page(0), list)).await;
            }
            // PRP2 at a page of 4 KiB is the middle of one.
            let sqe = read_write(NvmOpcode::READ, NS_4K, 0, 2 << mps).with_prp(page(0), page(1) + PAGE);
            assert!(host.io(&pair, sqe).await.status().is(Status::PRP_OFFSET_INVALID));
            assert_eq!(host.identify(Cns::CONTROLLER, 0).await.len(), 4096);
        });
    }
}

// The boards of the papers fetch whole pages: that costs bytes on the link and must not change any in the payload.
#[test]
fn dma_granularity_rounds_what_is_fetched_and_nothing_else() {
    for granularity in [64, 512, 4096] {
        let mut bench = Bench::default();
        bench.drive.controller.dma_granularity = granularity;
        bench.with_queue(async move |host, pair| {
            let before = host.end().ledger().snapshot();
            let pages = scattered(&host, 2);
            let (prp1, prp2) = (pages[0] + 4096 - 4, pages[1]);
            let two = [(pages[0] + 4092, 4), (pages[1], 508)];
            there_and_back(&host, &pair, NS_512, &two, |sqe| sqe.with_prp(prp1, prp2)).await;
            let crossed = host.end().ledger().since(&before);
            let fetched = 2 * u64::from(granularity + 508u32.next_multiple_of(granularity));
            assert_eq!(
                crossed.entry(Purpose::Data, Direction::Down).payload,
                fetched,
                "a Write and a Compare"
            );
            assert_eq!(crossed.entry(Purpose::Data, Direction::Up).payload, 2 * 512, "reads are exact");
        });
    }
}

/// A segment of `descriptors` in new memory: its address and length.
fn segment(host: &TestHost, descriptors: &[SglDescriptor]) -> (u64, u32) {
    let bytes: Vec<u8> = descriptors.iter().flat_map(SglDescriptor::to_bytes).collect();
    (host.holding(&bytes), bytes.len() as u32)
}

fn last(host: &TestHost, descriptors: &[SglDescriptor]) -> SglDescriptor {
    let (address, length) = segment(host, descriptors);
    SglDescriptor::last_segment(address, length)
}

fn blocks_of(extents: &[(u64, usize)]) -> Vec<SglDescriptor> {
    extents.iter().map(|(address, bytes)| SglDescriptor::data_block(*address, *bytes as u32)).collect()
}

// One descriptor for a buffer in one piece, at any byte: what SGLs are for.
#[test]
fn sgl_of_one_data_block() {
    Bench::with_sgl().with_queue(async |host, pair| {
        let pages = host.pages(10);
        host.poke(pages, &[UNTOUCHED; 10 * 4096]);
        for (offset, bytes) in [(0, 4096), (1, 4096), (4095, 4096), (4094, 8192), (8, 32768)] {
            let extents = [(pages + offset, bytes)];
            there_and_back(&host, &pair, NS_4K, &extents, |sqe| sqe.with_sgl(blocks_of(&extents)[0])).await;
        }
    });
}

// Pieces of any length, in one last segment, in chains, and with empty descriptors between them.
#[test]
fn sgl_segments_and_chains() {
    Bench::with_sgl().with_queue(async |host, pair| {
        let pages = scattered(&host, 8);
        let pieces = [1, 7, 500, 4, 3584, 2000, 1000, 1096];
        let extents: Vec<_> = pages.iter().zip(pieces).map(|(page, bytes)| (page + 13, bytes)).collect();
        let data = blocks_of(&extents);
        let single = last(&host, &data);
        there_and_back(&host, &pair, NS_4K, &extents, |sqe| sqe.with_sgl(single)).await;

        let third = last(&host, &data[5..]);
        let (address, length) = segment(&host, &[&data[2..5], &[third]].concat());
        let second = SglDescriptor::segment(address, length);
        let (address, length) = segment(&host, &[&data[..2], &[second]].concat());
        let first = SglDescriptor::segment(address, length);
        there_and_back(&host, &pair, NS_4K, &extents, |sqe| sqe.with_sgl(first)).await;

        let empty = SglDescriptor::data_block(0xdead_0000_0000, 0);
        let with_empty = last(&host, &[&[empty], &data[..4], &[empty, empty], &data[4..], &[empty]].concat());
        there_and_back(&host, &pair, NS_4K, &extents, |sqe| sqe.with_sgl(with_empty)).await;
    });
}

// A long list is fetched in parts: the seam is at 256 descriptors.
#[test]
fn sgl_of_many_descriptors() {
    Bench::with_sgl().with_queue(async |host, pair| {
        let pages = host.pages(40);
        let extents: Vec<_> =
            (0..1000).map(|index| (pages + index * 128, if index < 999 { 4 } else { 100 })).collect();
        let total = 999 * 4 + 100;
        assert_eq!(total, 4096);
        let list = last(&host, &blocks_of(&extents));
        let payload = pattern(3, total);
        extents.iter().fold(0, |at, (address, bytes)| {
            host.poke(*address, &payload[at..at + bytes]);
            at + bytes
        });
        let write = read_write(NvmOpcode::WRITE, NS_4K, 1, 1).with_sgl(list);
        assert_eq!(host.io(&pair, write).await.status(), Status::SUCCESS);
        assert_eq!(host.read(&pair, NS_4K, 1, 1).await, payload);
    });
}

// A bit bucket takes what the host doesn't want of a read; in a write there is nothing to take.
#[test]
fn bit_buckets_discard_in_reads_only() {
    Bench::with_sgl().with_queue(async |host, pair| {
        let payload = pattern(9, 8192);
        assert_eq!(host.write(&pair, NS_4K, 0, &payload).await, Status::SUCCESS);
        let pages = scattered(&host, 2);
        let before = host.end().ledger().snapshot();
        let parts = [
            SglDescriptor::bit_bucket(100),
            SglDescriptor::data_block(pages[0], 1000),
            SglDescriptor::bit_bucket(5000),
            SglDescriptor::data_block(pages[1], 1092),
            SglDescriptor::bit_bucket(1000),
        ];
        let list = last(&host, &parts);
        let read = read_write(NvmOpcode::READ, NS_4K, 0, 2).with_sgl(list);
        assert_eq!(host.io(&pair, read).await.status(), Status::SUCCESS);
        assert_eq!(host.peek(pages[0], 1000), payload[100..1100]);
        assert_eq!(host.peek(pages[1], 1092), payload[6100..7192]);
        assert!(host.peek(pages[0] + 1000, 3096).iter().all(|byte| *byte == UNTOUCHED));
        let crossed = host.end().ledger().since(&before);
        assert_eq!(
            crossed.entry(Purpose::Data, Direction::Up).payload,
            2092,
            "what is discarded doesn't cross"
        );

        let whole = SglDescriptor::bit_bucket(8192);
        let read = read_write(NvmOpcode::READ, NS_4K, 0, 2).with_sgl(whole);
        assert_eq!(host.io(&pair, read).await.status(), Status::SUCCESS);

        let data = host.holding(&pattern(10, 4096));
        let list = last(&host, &[SglDescriptor::bit_bucket(4096), SglDescriptor::data_block(data, 4096)]);
        let write = read_write(NvmOpcode::WRITE, NS_4K, 0, 1).with_sgl(list);
        assert_eq!(host.io(&pair, write).await.status(), Status::SUCCESS);
        assert_eq!(host.read(&pair, NS_4K, 0, 1).await, pattern(10, 4096));
        let write = read_write(NvmOpcode::WRITE, NS_4K, 0, 1).with_sgl(SglDescriptor::bit_bucket(4096));
        assert_eq!(host.io(&pair, write).await.status(), Status::DATA_SGL_LENGTH_INVALID);
    });
}

// An SGL comes from the host, and each rule it can break has a status of its own.
#[test]
fn wrong_sgls_are_refused_each_with_its_status() {
    Bench::with_sgl().with_queue(async |host, pair| {
        let pages = scattered(&host, 2);
        let block = |length| SglDescriptor::data_block(pages[0], length);
        let kind = |sgl_type, sub_type| SglDescriptor::new(sgl_type, sub_type, pages[0], 4096);
        let (address, length) = segment(&host, &[block(4096)]);
        let inner = last(&host, &[block(4096)]);
        let many = vec![block(4); 1024];
        let circle = host.pages(1);
        let around = SglDescriptor::segment(circle, 32);
        host.poke(circle, &[block(0).to_bytes(), around.to_bytes()].concat());
        let cases = [
            (block(4095), Status::DATA_SGL_LENGTH_INVALID),
            (block(4097), Status::DATA_SGL_LENGTH_INVALID),
            (block(0), Status::DATA_SGL_LENGTH_INVALID),
            (block(u32::MAX), Status::DATA_SGL_LENGTH_INVALID),
            (last(&host, &[block(2000), block(2095)]), Status::DATA_SGL_LENGTH_INVALID),
            (last(&host, &[block(4096), block(1)]), Status::DATA_SGL_LENGTH_INVALID),
            (kind(SglType::KEYED_DATA_BLOCK, SglSubType::ADDRESS), Status::SGL_TYPE_INVALID),
            (kind(SglType::TRANSPORT_DATA_BLOCK, SglSubType::TRANSPORT), Status::SGL_TYPE_INVALID),
            (kind(SglType(9), SglSubType::ADDRESS), Status::SGL_TYPE_INVALID),
            (kind(SglType::VENDOR, SglSubType::ADDRESS), Status::SGL_TYPE_INVALID),
            (kind(SglType::DATA_BLOCK, SglSubType::OFFSET), Status::SGL_TYPE_INVALID),
            (SglDescriptor::data_block_offset(0, 4096), Status::SGL_TYPE_INVALID),
            (kind(SglType::LAST_SEGMENT, SglSubType(7)), Status::SGL_TYPE_INVALID),
            (last(&host, &[kind(SglType(8), SglSubType::ADDRESS)]), Status::SGL_TYPE_INVALID),
            (SglDescriptor::last_segment(address, 0), Status::INVALID_SGL_SEGMENT),
            (SglDescriptor::last_segment(address, length - 1), Status::INVALID_SGL_SEGMENT),
            (SglDescriptor::last_segment(address, length + 8), Status::INVALID_SGL_SEGMENT),
            (SglDescriptor::last_segment(address + 4, length), Status::INVALID_SGL_SEGMENT),
            (last(&host, &[inner]), Status::INVALID_SGL_SEGMENT),
            (last(&host, &[SglDescriptor::segment(address, length)]), Status::INVALID_SGL_SEGMENT),
            (
                {
                    let (address, length) = segment(&host, &[inner, block(4096)]);
                    SglDescriptor::segment(address, length)
                },
                Status::INVALID_SGL_COUNT,
            ),
            (last(&host, &many), Status::INVALID_SGL_COUNT),
            (SglDescriptor::last_segment(address, 0xffff_fff0), Status::INVALID_SGL_COUNT),
            (around, Status::INVALID_SGL_COUNT),
        ];
        for (descriptor, status) in cases {
            refused(&host, &pair, 1, &pages, status, |sqe| sqe.with_sgl(descriptor)).await;
        }
    });
}

// The same wild pointers as with PRPs.
#[test]
fn sgls_outside_memory_fail_and_touch_nothing() {
    Bench::with_sgl().with_queue(async |host, pair| {
        let status = Status::DATA_TRANSFER_ERROR;
        let pages = scattered(&host, 2);
        let good = SglDescriptor::data_block(pages[0], 4092);
        for hole in [host.hole(), 0, u64::MAX - 4095, u64::MAX - 7, 1 << 63] {
            let wrong = [
                SglDescriptor::data_block(hole, 4096),
                SglDescriptor::last_segment(hole, 16),
                SglDescriptor::segment(hole & !7, 64),
                last(&host, &[good, SglDescriptor::data_block(hole, 4)]),
                last(&host, &[SglDescriptor::data_block(hole, 4), good]),
            ];
            for descriptor in wrong {
                let descriptor = SglDescriptor { address: descriptor.address & !7, ..descriptor };
                refused(&host, &pair, 1, &pages, status, |sqe| sqe.with_sgl(descriptor)).await;
            }
        }
        for wrong in [u64::MAX, u64::MAX - 3] {
            let descriptor = SglDescriptor::data_block(wrong, 4096);
            refused(&host, &pair, 1, &pages, status, |sqe| sqe.with_sgl(descriptor)).await;
        }
        // A buffer whose end is missing.
        let tail = host.pages(2);
        host.memory().free(tail + PAGE, 1);
        let descriptor = SglDescriptor::data_block(tail + 8, 4096);
        refused(&host, &pair, 1, &pages, status, |sqe| sqe.with_sgl(descriptor)).await;
    });
}

// A drive without SGLs that took one for a PRP would transfer to wherever the descriptor's bytes point.
#[test]
fn sgls_are_refused_where_they_are_not_supported() {
    Bench::default().with_queue(async |host, pair| {
        let pages = scattered(&host, 1);
        let descriptor = SglDescriptor::data_block(pages[0], 4096);
        refused(&host, &pair, 1, &pages, Status::INVALID_FIELD, |sqe| sqe.with_sgl(descriptor)).await;
    });
}

// The other two codes of PSDT: metadata SGLs, which no drive here has, and the reserved one.
#[test]
fn reserved_kinds_of_data_pointer_are_refused() {
    for bench in [Bench::default(), Bench::with_sgl()] {
        bench.with_queue(async |host, pair| {
            let pages = scattered(&host, 1);
            for psdt in [0b10, 0b11] {
                refused(&host, &pair, 1, &pages, Status::INVALID_FIELD, |sqe| {
                    let mut sqe = sqe.with_prp(pages[0], 0);
                    sqe.set_psdt(psdt);
                    sqe
                })
                .await;
            }
        });
    }
}
