//! Payload in the buffer behind BAR0's registers: posted stores, then the command.
//!
//! Verified: every byte that arrives, in the order in which it was sent; where the buffer begins and ends; that nothing of
//! it is left after a reset; the ledger.

use crate::fixture::payload::{TAIL, sink_write};
use crate::fixture::{Bench, NS_512, Pair, TestHost, drive_config, pattern, read_write};
use byteway_clock::Delay;
use byteway_device::ControllerConfig;
use byteway_link::{Direction, MmioWrite, Purpose};
use byteway_transfer::area::{Area, Areas};
use byteway_transfer::inline;
use byteway_wire::nvme::register::{self, DOORBELLS};
use byteway_wire::nvme::vendor::{Capabilities, Methods, bar_descriptor};
use byteway_wire::nvme::{AsyncEvent, Cns, NvmOpcode, Sqe, Status};

const MMIO: Methods = Methods::new().with_mmio(true);
/// Bytes of the buffer.
const BUFFER: u64 = 8192;

fn bar_offset() -> u64 {
    drive_config().bar_offset()
}

/// A Sink Write of `payload` to `offset`, which lies at `area` of the buffer.
fn command(offset: u64, area: u32, bytes: usize) -> Sqe {
    at(area, bytes as u32, sink_write(offset, bytes as u32))
}

/// The command with the payload of `bytes` that lies at `first` of the buffer.
fn at(first: u32, bytes: u32, sqe: Sqe) -> Sqe {
    Area { first, bytes }.placed_in(bytes, sqe)
}

/// Stores and commands, without a pause between, and looks into the sink.
async fn carry(host: &TestHost, pair: &Pair, area: u32, bytes: usize) {
    let payload = pattern(bytes as u64 + 1, bytes);
    host.end().store(bar_offset() + u64::from(area), &payload);
    let cqe = host.io(pair, command(300, area, bytes)).await;
    assert_eq!((cqe.status(), cqe.dw0), (Status::SUCCESS, crc32c::crc32c(&payload)), "{bytes} bytes");
    assert!(host.sink_read(pair, 300, bytes as u32).await == payload, "{bytes} bytes at {area}");
}

async fn refused(host: &TestHost, pair: &Pair, sqe: Sqe, status: Status) {
    assert_eq!(host.io(pair, sqe).await.status(), status.with_dnr(), "{sqe:?}");
}

// A command that overtook the stores before it would take what was in the buffer before.
#[test]
fn stores_arrive_before_the_doorbell_behind_them() {
    Bench::offering(MMIO).with_methods(64, async |host, pair| {
        for bytes in [0, 1, 8, 63, 64, 65, 1000, 4096, 8192] {
            carry(&host, &pair, 0, bytes).await;
        }
        for area in [1, 63, 64, 4000, 8128] {
            carry(&host, &pair, area, 64).await;
        }
        // Several payloads in flight, each in an area of its own.
        let mut areas = Areas::new(BUFFER as u32);
        let payloads: Vec<_> = (0..8).map(|which| pattern(which, 1000)).collect();
        let mut cids = Vec::new();
        for (which, payload) in payloads.iter().enumerate() {
            let area = areas.take(1000).unwrap().first;
            host.end().store(bar_offset() + u64::from(area), payload);
            cids.push(host.submit(&pair.sq, command(which as u64 * 1000, area, 1000)));
        }
        for (cid, payload) in cids.into_iter().zip(payloads) {
            assert_eq!(host.completion(&pair.cq, cid).await.dw0, crc32c::crc32c(&payload));
        }
    });
}

// A host that stores elsewhere than the drive looks would send nothing, or ring doorbells.
#[test]
fn the_buffer_lies_where_the_drive_says() {
    for (queues, dstrd, vectors, expected) in
        [(8, 0, 9, 0x1_0000), (4096, 0, 2048, 0x2_0000), (4096, 8, 2048, 0x81_0000), (1, 0, 1, 0x1_0000)]
    {
        let controller =
            ControllerConfig { io_queues_max: queues, dstrd, vectors, ..drive_config().controller };
        let doorbells_end = DOORBELLS + 2 * (u64::from(queues) + 1) * (4 << dstrd);
        let vectors_bytes = u64::from(vectors) * 16 + u64::from(vectors).div_ceil(64) * 8;
        assert!(controller.bar_offset() >= doorbells_end + vectors_bytes);
        assert_eq!(controller.bar_offset(), expected, "{queues} queues, {dstrd}, {vectors} vectors");
    }
    for methods in [MMIO, TAIL] {
        Bench::offering(methods).enabled(async move |host| {
            let page = host.identify(Cns::CONTROLLER, 0).await;
            let said = Capabilities::parse(page[3072..].try_into().unwrap());
            let (offset, bytes) = if methods.mmio() { (bar_offset(), BUFFER as u32) } else { (0, 0) };
            assert_eq!((said.bar_offset, said.bar_bytes), (offset, bytes));
        });
    }
}

// Without these checks a command would take what lies past the buffer, or another length than it said.
#[test]
fn a_payload_lies_in_the_buffer_or_the_command_fails() {
    Bench::offering(MMIO).with_methods(64, async |host, pair| {
        let named =
            |offset: u64, bytes: u32, written| sink_write(0, written).with_sgl(bar_descriptor(offset, bytes));
        for (sqe, status) in [
            (named(BUFFER, 1, 1), Status::SGL_OFFSET_INVALID),
            (named(BUFFER - 63, 64, 64), Status::SGL_OFFSET_INVALID),
            (named(u64::MAX, 64, 64), Status::SGL_OFFSET_INVALID),
            (named(u64::MAX - 63, 64, 64), Status::SGL_OFFSET_INVALID),
            (named(0, 64, 63), Status::DATA_SGL_LENGTH_INVALID),
            (named(0, 63, 64), Status::DATA_SGL_LENGTH_INVALID),
            (
                read_write(NvmOpcode::READ, NS_512, 0, 1).with_sgl(bar_descriptor(0, 512)),
                Status::SGL_TYPE_INVALID,
            ),
        ] {
            refused(&host, &pair, sqe, status).await;
        }
        carry(&host, &pair, BUFFER as u32 - 64, 64).await;
    });
}

// A host that has enabled nothing has a plain drive.
#[test]
fn without_being_enabled_the_buffer_is_no_data_pointer() {
    for sgl in [false, true] {
        let mut bench = Bench::offering(MMIO);
        bench.drive.controller.sgl = sgl;
        bench.with_queue(async |host, pair| {
            host.end().store(bar_offset(), &[7; 64]);
            refused(&host, &pair, command(0, 0, 64), Status::SGL_TYPE_INVALID).await;
            host.enable_methods(&pair, MMIO).await;
            carry(&host, &pair, 0, 64).await;
        });
    }
    // A drive that offers nothing knows no such pointer, and has no buffer.
    Bench::default().with_queue(async |host, pair| {
        host.end().store(bar_offset(), &[7; 64]);
        assert_eq!(host.read64(bar_offset()).await, 0);
        let write = read_write(NvmOpcode::WRITE, NS_512, 0, 1).with_sgl(bar_descriptor(0, 512));
        refused(&host, &pair, write, Status::INVALID_FIELD).await;
    });
}

// Every command with data to the controller can use this method, and the data before a tail may be in the
// buffer, too.
#[test]
fn any_command_with_data_to_the_controller_takes_it() {
    Bench::offering(MMIO.or(TAIL)).with_methods(64, async |host, pair| {
        let payload = pattern(3, 1024);
        host.end().store(bar_offset() + 64, &payload);
        for opcode in [NvmOpcode::WRITE, NvmOpcode::COMPARE] {
            let sqe = at(64, 1024, read_write(opcode, NS_512, 8, 2));
            assert_eq!(host.io(&pair, sqe).await.status(), Status::SUCCESS, "{opcode:?}");
        }
        assert!(host.read(&pair, NS_512, 8, 2).await == payload);
        let sqe = at(64, 1000, sink_write(0, 1024));
        let cid = host.place(&pair.sq, inline::place(sqe, 24, true));
        host.place_payload(&pair.sq, &payload[1000..]);
        host.ring_tail(&pair.sq);
        assert_eq!(host.completion(&pair.cq, cid).await.dw0, crc32c::crc32c(&payload));
    });
}

// The next tenant must not find what the one before has stored: neither by a command nor by a read.
#[test]
fn every_reset_zeroes_the_buffer() {
    for way in 0..3 {
        Bench::offering(MMIO).run(async move |host| {
            if way < 2 {
                host.enable().await;
            }
            host.end().store(bar_offset(), &[7; 256]);
            assert_eq!(host.read64(bar_offset() + 248).await, 0x0707_0707_0707_0707);
            match way {
                0 => host.disable().await,
                // Also without ever having been enabled.
                _ => host.drive().controller.reset().await,
            }
            for at in [0, 64, 248] {
                assert_eq!(host.read64(bar_offset() + at).await, 0);
            }
            host.enable().await;
            let pair = host.create_pair(1, 64).await;
            host.enable_methods(&pair, MMIO).await;
            assert_eq!(host.io(&pair, command(0, 0, 256)).await.dw0, crc32c::crc32c(&[0; 256]));
            carry(&host, &pair, 0, 256).await;
        });
    }
}

// A store that a reset of the function has overtaken is lost with all else that was in flight.
#[test]
fn stores_under_way_are_lost_with_a_reset_of_the_function() {
    Bench::offering(MMIO).enabled(async |host| {
        host.end().store(bar_offset(), &[7; 64]);
        host.drive().controller.reset().await;
        host.sleep(Delay::from_us(10)).await;
        assert_eq!(host.read64(bar_offset()).await, 0);
    });
}

// A store that is taken for a register, or a register write for a store, changes what it should not.
#[test]
fn buffer_registers_and_doorbells_are_apart() {
    Bench::offering(MMIO).with_methods(64, async |host, pair| {
        let event = host.request_event();
        let end = bar_offset() + BUFFER;
        // Past the buffer there is nothing; a store over its end is cut.
        host.end().store(end, &[9; 64]);
        host.end().store(u64::MAX - 7, &[9; 64]);
        host.end().store(end - 8, &[5; 64]);
        // Before it there are registers, which no store reaches.
        host.end().store(register::CC, &[0; 64]);
        host.end().store(bar_offset() - 64, &[9; 64]);
        assert_eq!(host.read64(end - 8).await, 0x0505_0505_0505_0505);
        assert_eq!((host.read64(end).await, host.read64(bar_offset()).await), (0, 0));
        assert!(host.csts().await.rdy());
        // Writes of a register's size reach the buffer, of which they are a part.
        host.write32(bar_offset() + 4, 0x1234_5678);
        assert_eq!(host.read64(bar_offset()).await, 0x1234_5678_0000_0000);
        assert_eq!(host.read32(bar_offset() + 4).await, 0x1234_5678);
        assert!(host.look(&host.admin_pair().cq).is_none(), "no event so far");
        // Where neither is, a write is of a doorbell that is none.
        host.device().deliver(MmioWrite { offset: end, value: 1, bytes: 4 });
        let cqe = host.completion(&host.admin_pair().cq, event).await;
        assert_eq!(cqe.dw0, AsyncEvent::INVALID_DOORBELL_REGISTER.dw0());
        carry(&host, &pair, 0, 64).await;
    });
}

// Traffic that is not entered makes the method look better than it is.
#[test]
fn the_ledger_has_every_store() {
    Bench::offering(MMIO).with_methods(64, async |host, pair| {
        for (area, bytes, stores) in [(0, 64, 1), (0, 65, 2), (60, 8, 2), (1, 64, 2), (0, 4096, 64)] {
            let before = host.end().ledger().snapshot();
            carry(&host, &pair, area, bytes).await;
            let stored = host.end().ledger().since(&before).entry(Purpose::MmioData, Direction::Down);
            assert_eq!((stored.tlps, stored.payload), (stores, bytes as u64));
            assert_eq!(stored.wire, bytes as u64 + stores * 24);
        }
    });
}
