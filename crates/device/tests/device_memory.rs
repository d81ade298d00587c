//! Payload in memory of the device that the host stores to over CXL.mem.
//!
//! Verified: what enumeration finds; every byte that arrives, in each manner of storing; that a command whose stores it has
//! overtaken waits for them if it says their checksum, and fails if they never come; where the memory ends; that nothing of
//! it is left after a reset; both ledgers.

use crate::fixture::payload::sink_write;
use crate::fixture::{Bench, Pair, TestHost, pattern};
use byteway_link::{Direction, Entry, Purpose, StoreOrdering};
use byteway_wire::IntoBytes;
use byteway_wire::nvme::vendor::Methods;
use byteway_wire::nvme::vendor::cxl::{DeviceMemoryLog, InDeviceMemory};
use byteway_wire::nvme::{GetLogPage, Sqe, Status, lid};

const CXL: Methods = Methods::new().with_cxl_mem(true);
/// Bytes of the area.
const AREA: u64 = 8192;

/// A Sink Write of what lies at `address`.
fn named(address: u64, bytes: u32, checksum: Option<u32>) -> Sqe {
    InDeviceMemory { address, bytes, checksum }.placed_in(sink_write(0, bytes))
}

async fn refused(host: &TestHost, pair: &Pair, sqe: Sqe, status: Status) {
    assert_eq!(host.io(pair, sqe).await.status(), status, "{sqe:?}");
}

// A host that finds another size than there is would store to nothing.
#[test]
fn enumeration_finds_the_memory() {
    Bench::offering(CXL).enabled(async move |host| {
        let range = host.end().hdm().unwrap();
        assert_eq!((range.bytes, range.base % (256 << 20)), (AREA, 0));
        let mut log = DeviceMemoryLog::default();
        let numd_z = (size_of::<DeviceMemoryLog>() / 4 - 1) as u32;
        let page = GetLogPage { lid: lid::DEVICE_MEMORY, numd_z, ..GetLogPage::default() };
        let address = host.pages(1);
        host.succeed(page.sqe(0, 0).with_prp(address, 0)).await;
        let bytes = log.as_mut_bytes();
        bytes.copy_from_slice(&host.peek(address, bytes.len()));
        assert_eq!((log.bytes, log.area_offset, log.area_bytes), (AREA, 0, AREA as u32));
        assert_eq!((log.buffer_bytes, log.placing()), (0, None), "there is no KV namespace");
    });
    Bench::offering(Methods::new()).enabled(async move |host| {
        assert_eq!(host.end().hdm(), None);
        let page = GetLogPage { lid: lid::DEVICE_MEMORY, numd_z: 15, ..GetLogPage::default() };
        let cqe = host.admin(page.sqe(0, 0).with_prp(host.pages(1), 0)).await;
        assert_eq!(cqe.status(), Status::INVALID_LOG_PAGE.with_dnr());
    });
}

// A byte that is lost on the way, or a command that overtakes what was flushed, would store something else.
#[test]
fn what_was_stored_is_the_commands_payload() {
    Bench::offering(CXL).with_methods(64, async |host, pair| {
        for bytes in [1u32, 63, 64, 65, 1000, 8192] {
            let payload = pattern(u64::from(bytes), bytes as usize);
            for ordering in [StoreOrdering::Flushed, StoreOrdering::Streamed] {
                host.end().store_lines(0, &payload, ordering).await;
                let cqe = host.io(&pair, named(0, bytes, None)).await;
                assert_eq!((cqe.status(), cqe.dw0), (Status::SUCCESS, crc32c::crc32c(&payload)));
            }
            let other = pattern(u64::from(bytes) + 7, bytes as usize);
            host.end().store_lines_unordered(0, &other);
            let cqe = host.io(&pair, named(0, bytes, Some(crc32c::crc32c(&other)))).await;
            assert_eq!((cqe.status(), cqe.dw0), (Status::SUCCESS, crc32c::crc32c(&other)), "{bytes}");
        }
        let before = pattern(1, 64);
        let cqe = host.io(&pair, named(0, 8192, Some(1))).await;
        assert_eq!(cqe.status(), Status::DATA_TRANSFER_ERROR, "that checksum nothing has");
        host.end().store_lines(0, &before, StoreOrdering::Flushed).await;
        assert_eq!(
            host.io(&pair, named(0, 64, Some(crc32c::crc32c(&before)))).await.status(),
            Status::SUCCESS
        );
    });
}

// Without these checks a command would take what lies past the memory, or another length than it said; and a drive that
// was not told would take it at all.
#[test]
fn a_payload_lies_in_memory_or_the_command_fails() {
    Bench::offering(CXL).with_methods(64, async |host, pair| {
        let offset = Status::SGL_OFFSET_INVALID.with_dnr();
        for (address, bytes) in [(AREA, 1), (AREA - 63, 64), (u64::MAX, 64), (u64::MAX - 63, 64)] {
            refused(&host, &pair, named(address, bytes, None), offset).await;
        }
        let other = InDeviceMemory { address: 0, bytes: 64, checksum: None }.placed_in(sink_write(0, 63));
        refused(&host, &pair, other, Status::DATA_SGL_LENGTH_INVALID.with_dnr()).await;
        host.enable_methods(&pair, Methods::new()).await;
        refused(&host, &pair, named(0, 64, None), Status::SGL_TYPE_INVALID.with_dnr()).await;
    });
}

// The next host must not see data that another host has stored.
#[test]
fn nothing_is_left_after_a_reset() {
    Bench::offering(CXL).with_methods(64, async |host, pair| {
        host.end().store_lines(0, &[7; 64], StoreOrdering::Flushed).await;
        assert_eq!(host.io(&pair, named(0, 64, None)).await.dw0, crc32c::crc32c(&[7; 64]));
        host.disable().await;
        let mut read = [9; 64];
        host.end().load_lines(0, &mut read).await;
        assert_eq!(read, [0; 64]);
    });
}

// By hand: each line is read to be owned (68 B down, 136 up), stored (136 down) and answered (68 up); the payload ledger
// counts 68 B for it, as BandSlim does.
#[test]
fn both_ledgers_by_hand() {
    for (bytes, lines) in [(32u32, 1u64), (64, 1), (65, 2), (128, 2), (1024, 16), (4096, 64)] {
        Bench::offering(CXL).with_methods(64, async move |host, pair| {
            let entry = |direction| host.end().ledger().entry(Purpose::CxlMem, direction);
            host.end().store_lines(0, &pattern(3, bytes as usize), StoreOrdering::Flushed).await;
            assert_eq!(host.io(&pair, named(0, bytes, None)).await.status(), Status::SUCCESS);
            let down = Entry { tlps: 3 * lines, payload: 68 * lines, wire: 204 * lines };
            assert_eq!(entry(Direction::Down), down, "{bytes} B");
            assert_eq!(entry(Direction::Up), Entry { tlps: 3 * lines, payload: 0, wire: 204 * lines });
            assert_eq!(host.end().ledger().entry(Purpose::Data, Direction::Down).payload, 0);
        });
    }
}
