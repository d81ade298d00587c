//! Shared parts of the tests: the drive, and a raw host's commands.

use crate::fixture::{Bench, PAGE, Pair, TestHost, cc};
use byteway_clock::Delay;
use byteway_device::{DriveConfig, KvPolicy, NamespaceConfig};
use byteway_kv::KvConfig;
use byteway_wire::nvme::kv::{KeyField, List, Retrieve, Store, list};
use byteway_wire::nvme::register::Cc;
use byteway_wire::nvme::vendor::Methods;
use byteway_wire::nvme::{Cqe, KvOpcode, Sqe, Status};

/// The KV namespace, behind the block namespaces: 16 MiB.
pub const KV: u32 = 3;
/// Units of 4 KiB of [`KV`].
pub const KV_UNITS: u64 = 4096;
/// The longest value.
pub const VALUE_BYTES_MAX: u32 = 48 << 10;
/// Iterators at once.
pub const ITERATORS_MAX: u32 = 3;
/// After so long one that is not used is ended.
pub const ITERATOR_TIMEOUT: Delay = Delay::from_ms(50);

/// Adds the KV namespace.
pub fn with_pairs(config: &mut DriveConfig) {
    config.namespaces.push(NamespaceConfig::key_value(KV_UNITS));
    config.kv = Some(KvPolicy {
        store: KvConfig {
            segment_units: 64,
            memtable_bytes: 64 << 10,
            value_bytes_max: VALUE_BYTES_MAX,
            ..KvConfig::default()
        },
        iterators_max: ITERATORS_MAX,
        iterator_timeout: ITERATOR_TIMEOUT,
    });
}

/// CC for all command sets.
pub fn all_sets() -> Cc {
    cc().with_css(Cc::CSS_ALL)
}

/// A bench with both kinds, for all command sets.
pub fn bench() -> Bench {
    let mut bench = Bench { cc: all_sets(), ..Bench::default() };
    with_pairs(&mut bench.drive);
    bench
}

/// The same with payload methods.
pub fn offering(methods: Methods) -> Bench {
    let mut bench = Bench { cc: all_sets(), ..Bench::offering(methods) };
    with_pairs(&mut bench.drive);
    bench
}

/// The field of a key.
pub fn field(key: &[u8]) -> KeyField {
    KeyField::new(key).expect("at most 16 bytes")
}

/// Store, without its data pointer.
pub fn store(key: &[u8], bytes: usize) -> Store {
    Store { key: field(key), bytes: bytes as u32, ..Store::default() }
}

/// A command with a key and no data.
pub fn keyed(opcode: KvOpcode, key: &[u8]) -> Sqe {
    field(key).sqe(opcode, 0, KV)
}

impl TestHost {
    /// `sqe` with `bytes` in new memory as its data.
    pub fn with_data(&self, sqe: Sqe, bytes: &[u8]) -> Sqe {
        let (prp1, prp2) = self.prp(self.holding(bytes), bytes.len() as u64);
        sqe.with_prp(prp1, prp2)
    }

    /// Stores a pair; gives the status.
    pub async fn put(&self, pair: &Pair, key: &[u8], value: &[u8]) -> Status {
        let sqe = self.with_data(store(key, value.len()).sqe(0, KV), value);
        self.io(pair, sqe).await.status()
    }

    /// Retrieves by a buffer of `bytes`: the completion, and the buffer, which held 5Ch.
    pub async fn fetch(&self, pair: &Pair, retrieve: Retrieve) -> (Cqe, Vec<u8>) {
        let bytes = retrieve.buffer_bytes as usize;
        let address = self.holding(&vec![0x5c; bytes.next_multiple_of(PAGE as usize).max(PAGE as usize)]);
        let (prp1, prp2) = self.prp(address, bytes as u64);
        let cqe = self.io(pair, retrieve.sqe(0, KV).with_prp(prp1, prp2)).await;
        (cqe, self.peek(address, bytes))
    }

    /// The value of a key, by a buffer that is large enough.
    pub async fn value(&self, pair: &Pair, key: &[u8]) -> Result<Vec<u8>, Status> {
        let retrieve = Retrieve { key: field(key), buffer_bytes: VALUE_BYTES_MAX, ..Retrieve::default() };
        let (cqe, mut bytes) = self.fetch(pair, retrieve).await;
        if cqe.status() != Status::SUCCESS {
            return Err(cqe.status());
        }
        assert!(bytes[cqe.dw0 as usize..].iter().all(|byte| *byte == 0x5c), "only the value is written");
        bytes.truncate(cqe.dw0 as usize);
        Ok(bytes)
    }

    /// Deletes a key; gives the status.
    pub async fn remove(&self, pair: &Pair, key: &[u8]) -> Status {
        self.io(pair, keyed(KvOpcode::DELETE, key)).await.status()
    }

    /// Whether there is a key: the status.
    pub async fn has(&self, pair: &Pair, key: &[u8]) -> Status {
        self.io(pair, keyed(KvOpcode::EXIST, key)).await.status()
    }

    /// Lists the keys from one on, by a buffer of `bytes`.
    pub async fn keys(&self, pair: &Pair, from: &[u8], bytes: u32) -> Result<Vec<Vec<u8>>, Status> {
        let address = self.pages(bytes.div_ceil(PAGE as u32).max(1) as usize);
        let (prp1, prp2) = self.prp(address, bytes.into());
        let sqe = List { key: field(from), buffer_bytes: bytes }.sqe(0, KV).with_prp(prp1, prp2);
        let cqe = self.io(pair, sqe).await;
        if cqe.status() != Status::SUCCESS {
            return Err(cqe.status());
        }
        let found = self.peek(address, bytes as usize);
        let keys: Vec<Vec<u8>> = list::keys(&found).map(<[u8]>::to_vec).collect();
        assert_eq!(keys.len(), list::count(&found) as usize, "all keys are whole");
        Ok(keys)
    }
}
