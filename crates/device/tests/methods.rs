//! Payload methods: what the drive says that it offers, and enabling it queue by queue.
//!
//! Verified: a drive that offers nothing and a queue that enables nothing are plain NVMe; what the feature takes and
//! refuses; when it is forgotten.

use crate::fixture;
use crate::fixture::payload::{INLINE, SINK_BYTES, TAIL, set_methods, sink_write};
use crate::fixture::{Bench, Pair, TestHost, delete_sq, pattern};
use byteway_clock::Delay;
use byteway_device::{Drive, TransferConfig};
use byteway_wire::nvme::vendor::{Capabilities, Methods, inline_descriptor};
use byteway_wire::nvme::{
    Cns, CommandsSupportedLog, FeaturesSupportedLog, GetFeatures, QueuePriority, Select, Status,
    VendorOpcode, fid, lid,
};

fn get_methods(sel: Select, sqid: u16) -> byteway_wire::nvme::Sqe {
    GetFeatures { fid: fid::PAYLOAD_METHODS, sel, cdw11: sqid.into(), uidx: 0 }.sqe(0, 0)
}

async fn enabled(host: &TestHost, sqid: u16) -> Methods {
    Methods::from_bits(host.succeed(get_methods(Select::CURRENT, sqid)).await)
}

async fn capabilities(host: &TestHost) -> Option<Capabilities> {
    let page = host.identify(Cns::CONTROLLER, 0).await;
    let vendor: &[u8; 1024] = page[3072..].try_into().expect("the last quarter");
    vendor.iter().any(|byte| *byte != 0).then(|| Capabilities::parse(vendor))
}

/// Sends a train of 100 bytes and returns its status. Its entries are present, whether or not they are taken
/// for payload.
async fn train(host: &TestHost, pair: &Pair) -> Status {
    let payload = pattern(1, 100);
    host.inline(pair, sink_write(0, 100), &payload).await.status()
}

// A host goes by these bytes alone: one that is wrong, and it places what the drive does not understand.
#[test]
fn the_drive_says_what_it_offers() {
    let mut bench = Bench::offering(INLINE.or(TAIL).with_inline_result(true));
    bench.drive.controller.dma_granularity = 512;
    // A host that waits for less than this uses a name again while the drive keeps a part of its last payload.
    bench.drive.transfer.partial_timeout = Delay::from_ns(4_999_001);
    bench.enabled(async |host| {
        let found = capabilities(&host).await.expect("there are vendor bytes");
        let transfer = Bench::offering(Methods::new()).drive.transfer;
        assert_eq!(found.signature, *b"BYTEWAY\0");
        assert_eq!(found.offered(), INLINE.or(TAIL).with_inline_result(true));
        assert_eq!(found.inline_bytes_max, transfer.inline_bytes_max);
        assert_eq!(found.inline_result_bytes_max, transfer.inline_result_bytes_max);
        assert_eq!((found.partial_payloads_max, found.partial_timeout_us), (8, 5000));
        assert_eq!((found.dma_unit, found.sink_bytes), (512, SINK_BYTES));
        let features = host.log(lid::FEATURES_SUPPORTED, 0, 1024).await;
        assert_eq!(features[4 * usize::from(fid::PAYLOAD_METHODS)] & 1, FeaturesSupportedLog::FSUPP as u8);
        let commands = host.log(lid::COMMANDS_SUPPORTED, 0, 4096).await;
        let sink_write = 1024 + 4 * usize::from(VendorOpcode::SINK_WRITE.0);
        assert_eq!(commands[sink_write] & 1, CommandsSupportedLog::CSUPP as u8);
    });
}

// A plain drive must not change by a bit: hosts look at vendor bytes, and at the logs.
#[test]
fn a_drive_that_offers_nothing_is_a_plain_one() {
    Bench::default().with_queue(async |host, pair| {
        assert_eq!(capabilities(&host).await, None);
        host.refused(set_methods(1, Methods::new()), Status::INVALID_FIELD).await;
        host.refused(set_methods(1, INLINE), Status::INVALID_FIELD).await;
        for sel in [Select::CURRENT, Select::DEFAULT, Select::SUPPORTED] {
            host.refused(get_methods(sel, 1), Status::INVALID_FIELD).await;
        }
        let features = host.log(lid::FEATURES_SUPPORTED, 0, 1024).await;
        assert_eq!(features[4 * usize::from(fid::PAYLOAD_METHODS)], 0);
        let sqe = sink_write(0, 64).with_prp(host.pages(1), 0);
        assert_eq!(host.io(&pair, sqe).await.status(), Status::INVALID_OPCODE.with_dnr());
        // It has no SGL either: the field is invalid. One with SGLs knows the type, and not this one of it.
        let write = fixture::read_write(byteway_wire::nvme::NvmOpcode::WRITE, fixture::NS_512, 0, 1);
        let inline = write.with_sgl(inline_descriptor(512));
        assert_eq!(host.io(&pair, inline).await.status(), Status::INVALID_FIELD.with_dnr());
    });
    Bench::with_sgl().with_queue(async |host, pair| {
        let write = fixture::read_write(byteway_wire::nvme::NvmOpcode::WRITE, fixture::NS_512, 0, 1);
        let inline = write.with_sgl(inline_descriptor(512));
        assert_eq!(host.io(&pair, inline).await.status(), Status::SGL_TYPE_INVALID);
    });
}

// A host that did not ask must get a plain drive, whatever it offers: bits in its commands mean what they always did.
#[test]
fn a_queue_begins_with_nothing_enabled() {
    for sgl in [false, true] {
        let mut bench = Bench::offering(INLINE.or(TAIL));
        bench.drive.controller.sgl = sgl;
        bench.with_queue(async |host, pair| {
            assert_eq!(enabled(&host, 1).await, Methods::new());
            let inline = sink_write(0, 100).with_sgl(inline_descriptor(100));
            assert_eq!(host.io(&pair, inline).await.status(), Status::SGL_TYPE_INVALID.with_dnr());
            let empty = sink_write(0, 0).with_sgl(inline_descriptor(0));
            assert_eq!(host.io(&pair, empty).await.status(), Status::SGL_TYPE_INVALID.with_dnr());
            let read = fixture::read_write(byteway_wire::nvme::NvmOpcode::READ, fixture::NS_512, 0, 1);
            let read = read.with_sgl(inline_descriptor(512));
            assert_eq!(host.io(&pair, read).await.status(), Status::SGL_TYPE_INVALID.with_dnr());
            // CDW3 is nothing to a plain drive.
            let mut sqe = host.sink_write(0, &pattern(1, 64));
            sqe.cdw3 = 64;
            assert_eq!(host.io(&pair, sqe).await.status(), Status::SUCCESS);
            assert_eq!(host.sink_read(&pair, 0, 64).await, pattern(1, 64));
        });
    }
}

// The feature is a host's only way to say what it will place: it must say no to what the drive can't frame.
#[test]
fn the_feature_takes_what_is_offered_for_a_queue_that_exists() {
    Bench::offering(INLINE.or(TAIL)).with_queue(async |host, pair| {
        let other = host.create_sq(2, 16, &pair.cq, QueuePriority::Urgent).await;
        host.enable_methods(&pair, INLINE).await;
        host.enable_methods(&other, INLINE.or(TAIL)).await;
        assert_eq!(enabled(&host, 1).await, INLINE);
        assert_eq!(enabled(&host, 2).await, INLINE.or(TAIL));
        for beyond in
            [Methods::new().with_mmio(true), INLINE.with_reassembly(true), Methods::from_bits(1 << 20)]
        {
            host.refused(set_methods(1, beyond), Status::INVALID_FIELD).await;
        }
        for sqid in [0, 3, 9, u16::MAX] {
            host.refused(set_methods(sqid, INLINE), Status::INVALID_QUEUE_ID).await;
            host.refused(get_methods(Select::CURRENT, sqid), Status::INVALID_QUEUE_ID).await;
        }
        assert_eq!(enabled(&host, 1).await, INLINE, "what was refused changed nothing");
        assert_eq!(host.succeed(get_methods(Select::DEFAULT, 1)).await, 0);
        assert_eq!(host.succeed(get_methods(Select::SUPPORTED, 1)).await, Select::CHANGEABLE);
        assert_eq!(train(&host, &pair).await, Status::SUCCESS);
        host.enable_methods(&pair, Methods::new()).await;
        assert_eq!(enabled(&host, 1).await, Methods::new());
        let inline = sink_write(0, 100).with_sgl(inline_descriptor(100));
        assert_eq!(host.io(&pair, inline).await.status(), Status::SGL_TYPE_INVALID.with_dnr());
        assert_eq!(train(&host, &other).await, Status::SUCCESS, "the other queue's are its own");
    });
}

// A queue that inherits what its predecessor, or the host before the reset, had enabled takes commands for payload.
#[test]
fn deletion_and_reset_forget_what_was_enabled() {
    Bench::offering(INLINE).with_methods(64, async |host, pair| {
        assert_eq!(train(&host, &pair).await, Status::SUCCESS);
        host.succeed(delete_sq(1)).await;
        host.refused(get_methods(Select::CURRENT, 1), Status::INVALID_QUEUE_ID).await;
        let again = host.create_sq(1, 64, &pair.cq, QueuePriority::Urgent).await;
        assert_eq!(enabled(&host, 1).await, Methods::new());
        host.enable_methods(&again, INLINE).await;
        for by_function in [false, true] {
            match by_function {
                true => host.drive().controller.reset().await,
                false => host.disable().await,
            }
            host.enable().await;
            let pair = host.create_pair(1, 64).await;
            assert_eq!(enabled(&host, 1).await, Methods::new());
            let inline = sink_write(0, 100).with_sgl(inline_descriptor(100));
            assert_eq!(host.io(&pair, inline).await.status(), Status::SGL_TYPE_INVALID.with_dnr());
            host.enable_methods(&pair, INLINE).await;
            assert_eq!(train(&host, &pair).await, Status::SUCCESS, "re-enabled");
        }
    });
}

// A profile that offers what can't be would be found out by its host's data.
#[test]
fn a_drive_that_cannot_be_is_refused() {
    let refused = |change: fn(&mut TransferConfig)| {
        let mut drive = Bench::offering(INLINE).drive;
        change(&mut drive.transfer);
        Drive::medium(&drive).err().map(|error| error.message)
    };
    assert_eq!(refused(|_| ()), None);
    for (change, field) in [
        ((|transfer| transfer.inline_bytes_max = 0) as fn(&mut TransferConfig), "inline_bytes_max"),
        (|transfer| transfer.inline_bytes_max = (128 << 10) + 1, "inline_bytes_max"),
        (|transfer| transfer.methods = Methods::new().with_cxl_mem(true), "cxl_mem"),
        (|transfer| transfer.sink_bytes = (1 << 40) + 1, "sink_bytes"),
    ] {
        let message = refused(change).expect("it can't be");
        assert!(message.contains(field), "{message}");
    }
}
