//! Commands as no host should send them: each gets its status, and nothing changes.

use super::pairs::{KV, VALUE_BYTES_MAX, bench, field, keyed, store};
use crate::fixture::{PAGE, TestHost, pattern};
use byteway_clock::random::Rng;
use byteway_wire::nvme::command::{FUSE_FIRST, FUSE_SECOND, PSDT_SGL};
use byteway_wire::nvme::kv::{KeyField, List, Retrieve, Store};
use byteway_wire::nvme::{KvOpcode, NvmOpcode, SglDescriptor, Sqe, Status, VendorOpcode};

async fn refused(host: &TestHost, pair: &crate::fixture::Pair, sqe: Sqe, status: Status) {
    let cqe = host.io(pair, sqe).await;
    assert_eq!((cqe.status(), cqe.dw0), (status.with_dnr(), 0), "opcode {:#x}", sqe.opcode());
}

// A length that no key has, taken at its word, reads beyond the key's field.
#[test]
fn keys_have_1_to_16_bytes() {
    bench().with_queue(async |host, pair| {
        assert_eq!(host.put(&pair, b"there", b"value").await, Status::SUCCESS);
        let page = host.holding(&pattern(1, PAGE as usize));
        for length in [0, 17, 18, 128, 255] {
            let key = KeyField { length, bytes: *b"there\0\0\0\0\0\0\0\0\0\0\0" };
            let store = Store { key, bytes: 64, ..Store::default() };
            let retrieve = Retrieve { key, buffer_bytes: 64, ..Retrieve::default() };
            for sqe in [
                store.sqe(0, KV),
                retrieve.sqe(0, KV),
                key.sqe(KvOpcode::DELETE, 0, KV),
                key.sqe(KvOpcode::EXIST, 0, KV),
            ] {
                refused(&host, &pair, sqe.with_prp(page, 0), Status::INVALID_KEY_SIZE).await;
            }
            if length > 0 {
                let list = List { key, buffer_bytes: 4096 }.sqe(0, KV).with_prp(page, 0);
                refused(&host, &pair, list, Status::INVALID_KEY_SIZE).await;
                refused(&host, &pair, key.sqe(VendorOpcode::KV_SEEK, 0, KV), Status::INVALID_KEY_SIZE).await;
            }
        }
        // Bytes after a key's length are not part of it.
        let spelt = KeyField { length: 5, bytes: *b"there-and-beyond" };
        let exists = host.io(&pair, spelt.sqe(KvOpcode::EXIST, 0, KV)).await;
        assert_eq!(exists.status(), Status::SUCCESS);
        assert_eq!(host.keys(&pair, b"", 4096).await, Ok(vec![b"there".to_vec()]));
        assert_eq!(host.value(&pair, b"there").await, Ok(b"value".to_vec()));
    });
}

// A value beyond the limit must not be taken and cut; a transfer beyond its own must not be made.
#[test]
fn sizes_have_limits() {
    bench().with_queue(async |host, pair| {
        let page = host.pages(1);
        let longest = VALUE_BYTES_MAX as usize;
        for bytes in [longest + 1, 128 << 10, (128 << 10) + 1, u32::MAX as usize] {
            let sqe = store(b"key", bytes).sqe(0, KV).with_prp(page, page);
            refused(&host, &pair, sqe, Status::INVALID_VALUE_SIZE).await;
        }
        assert_eq!(host.put(&pair, b"key", &pattern(1, longest)).await, Status::SUCCESS);
        for bytes in [(128 << 10) + 1, u32::MAX] {
            let retrieve = Retrieve { key: field(b"key"), buffer_bytes: bytes, ..Retrieve::default() };
            refused(&host, &pair, retrieve.sqe(0, KV).with_prp(page, page), Status::INVALID_FIELD).await;
            let list = List { key: field(b""), buffer_bytes: bytes }.sqe(0, KV).with_prp(page, page);
            refused(&host, &pair, list, Status::INVALID_FIELD).await;
        }
        for bytes in 0..4 {
            let list = List { key: field(b""), buffer_bytes: bytes }.sqe(0, KV).with_prp(page, 0);
            refused(&host, &pair, list, Status::INVALID_FIELD).await;
        }
        let beyond =
            Retrieve { key: field(b"key"), buffer_bytes: 8, offset: u32::MAX, ..Retrieve::default() };
        refused(&host, &pair, beyond.sqe(0, KV).with_prp(page, 0), Status::INVALID_FIELD).await;
        assert_eq!(host.value(&pair, b"key").await, Ok(pattern(1, longest)));
    });
}

// A drive that takes the command's length although the list describes less stores what lies past the host's buffer.
#[test]
fn an_sgl_that_is_too_short_stores_nothing() {
    let mut bench = bench();
    bench.drive.controller.sgl = true;
    bench.with_queue(async |host, pair| {
        assert_eq!(host.put(&pair, b"key", b"old").await, Status::SUCCESS);
        let address = host.holding(&pattern(1, 4096));
        for (stated, described) in [(100, 99), (100, 0), (4096, 4095)] {
            let sqe = store(b"key", stated).sqe(0, KV);
            let sqe = sqe.with_sgl(SglDescriptor::data_block(address, described));
            assert!(host.io(&pair, sqe).await.status().is(Status::DATA_SGL_LENGTH_INVALID));
            let retrieve =
                Retrieve { key: field(b"key"), buffer_bytes: stated as u32, ..Retrieve::default() };
            let sqe = retrieve.sqe(0, KV).with_sgl(SglDescriptor::data_block(address, described));
            assert!(host.io(&pair, sqe).await.status().is(Status::DATA_SGL_LENGTH_INVALID));
        }
        let exact = store(b"key", 100).sqe(0, KV).with_sgl(SglDescriptor::data_block(address + 1, 100));
        assert_eq!(host.io(&pair, exact).await.status(), Status::SUCCESS);
        assert_eq!(host.value(&pair, b"key").await, Ok(pattern(1, 101)[1..].to_vec()));
    });
}

// Data that can't be fetched must leave the old value as it was.
#[test]
fn a_value_that_cannot_be_fetched_changes_nothing() {
    bench().with_queue(async |host, pair| {
        assert_eq!(host.put(&pair, b"key", b"old").await, Status::SUCCESS);
        let hole = host.hole();
        let sqe = store(b"key", 4096).sqe(0, KV).with_prp(hole, 0);
        assert_eq!(host.io(&pair, sqe).await.status(), Status::DATA_TRANSFER_ERROR);
        let misaligned = store(b"key", 8192).sqe(0, KV).with_prp(host.pages(1), 0x1001);
        assert!(!host.io(&pair, misaligned).await.status().is_success());
        assert_eq!(host.value(&pair, b"key").await, Ok(b"old".to_vec()));
        // No two commands on pairs are a fused operation: also not those with the opcodes of Compare and of Write.
        for first in [KvOpcode::EXIST, KvOpcode(NvmOpcode::COMPARE.0)] {
            host.place(&pair.sq, keyed(first, b"key").with_fuse(FUSE_FIRST));
            let second = store(b"key", 3).sqe(0, KV).with_prp(host.holding(b"new"), 0);
            host.place(&pair.sq, second.with_fuse(FUSE_SECOND));
            host.ring_tail(&pair.sq);
            for cqe in host.next_many(&pair.cq, 2).await {
                assert_eq!(cqe.status(), Status::INVALID_FIELD.with_dnr());
            }
        }
        assert_eq!(host.value(&pair, b"key").await, Ok(b"old".to_vec()));
    });
}

// Whatever an entry contains, the drive answers it, continues to work, and keeps key-value pairs that no
// command of it names.
#[test]
fn any_entry_is_answered() {
    bench().with_queue(async |host, pair| {
        assert_eq!(host.put(&pair, b"kept", b"value").await, Status::SUCCESS);
        let mut random = Rng::new(7).stream("entries");
        let page = host.pages(1);
        for _ in 0..3000 {
            let mut sqe = Sqe::from_bytes(&std::array::from_fn(|_| random.next_u64() as u8));
            let opcodes = [0x01, 0x02, 0x06, 0x10, 0x14, 0x00, 0x94, 0x98, 0x9c, 0x9e, 0xa0, 0x88, 0x8c];
            let opcode = match random.below(4) {
                0 => random.next_u64() as u8,
                _ => opcodes[random.below(opcodes.len() as u64) as usize],
            };
            sqe.set_opcode(opcode);
            sqe.nsid = [KV, KV, KV, 0, 4, u32::MAX][random.below(6) as usize];
            (sqe.prp1, sqe.prp2) = (page, page);
            if random.below(2) == 0 {
                sqe.cdw10 &= 0x1fff;
                sqe.cdw11 = sqe.cdw11 & !0xff | random.below(19) as u32;
                sqe.set_fuse(0);
                sqe.set_psdt(0);
            } else if sqe.psdt() == PSDT_SGL {
                sqe.set_psdt(0);
            }
            // A command of its own may rightly name the key.
            sqe.cdw2 |= 0x80;
            host.io(&pair, sqe).await;
        }
        assert_eq!(host.value(&pair, b"kept").await, Ok(b"value".to_vec()));
    });
}
