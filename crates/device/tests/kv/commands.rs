//! The five commands and Flush, as they are to work.

use super::pairs::{KV, KV_UNITS, VALUE_BYTES_MAX, bench, field, store};
use crate::fixture::pattern;
use byteway_wire::nvme::kv::Retrieve;
use byteway_wire::nvme::{Flush, Status};

const NO_KEY: Status = Status::KEY_DOES_NOT_EXIST.with_dnr();

// Without this a value comes back shorter, longer or as another's, at some length of key or value.
#[test]
fn what_is_stored_comes_back() {
    bench().with_queue(async |host, pair| {
        let sizes = [0, 1, 35, 63, 64, 511, 4095, 4096, 4097, 16384, VALUE_BYTES_MAX as usize];
        for (index, bytes) in sizes.into_iter().enumerate() {
            let key = pattern(index as u64, 1 + index % 16);
            assert_eq!(host.value(&pair, &key).await, Err(NO_KEY));
            assert_eq!(host.put(&pair, &key, &pattern(bytes as u64, bytes)).await, Status::SUCCESS);
            assert_eq!(host.value(&pair, &key).await, Ok(pattern(bytes as u64, bytes)), "{bytes} bytes");
        }
        for (index, bytes) in sizes.into_iter().enumerate() {
            let key = pattern(index as u64, 1 + index % 16);
            assert_eq!(
                host.value(&pair, &key).await,
                Ok(pattern(bytes as u64, bytes)),
                "{bytes} bytes, later"
            );
            assert_eq!(host.has(&pair, &key).await, Status::SUCCESS);
            assert_eq!(host.put(&pair, &key, b"anew").await, Status::SUCCESS);
            assert_eq!(host.value(&pair, &key).await, Ok(b"anew".to_vec()));
            assert_eq!(host.remove(&pair, &key).await, Status::SUCCESS);
            assert_eq!(host.remove(&pair, &key).await, NO_KEY);
            assert_eq!(host.has(&pair, &key).await, NO_KEY);
            assert_eq!(host.value(&pair, &key).await, Err(NO_KEY));
        }
        let flush = host.io(&pair, Flush.sqe(0, KV)).await;
        assert_eq!(flush.status(), Status::SUCCESS);
    });
}

// A host that asks for less than the value must learn how long that is, and get nothing past its buffer.
#[test]
fn a_small_buffer_gets_what_it_has_room_for() {
    bench().with_queue(async |host, pair| {
        let value = pattern(1, 10_000);
        assert_eq!(host.put(&pair, b"key", &value).await, Status::SUCCESS);
        for (offset, buffer_bytes) in [
            (0, 0),
            (0, 1),
            (0, 4095),
            (0, 9999),
            (0, 10_000),
            (0, 10_001),
            (1, 4096),
            (9_999, 5),
            (10_000, 5),
        ] {
            let retrieve = Retrieve { key: field(b"key"), buffer_bytes, offset, ..Retrieve::default() };
            let (cqe, found) = host.fetch(&pair, retrieve).await;
            assert_eq!(
                (cqe.status(), cqe.dw0, cqe.dw1),
                (Status::SUCCESS, 10_000, 0),
                "{offset}, {buffer_bytes}"
            );
            let end = (offset as usize + buffer_bytes as usize).min(value.len());
            let (came, rest) = found.split_at(end - offset as usize);
            assert_eq!(came, &value[offset as usize..end], "{offset}, {buffer_bytes}");
            assert!(rest.iter().all(|byte| *byte == 0x5c), "nothing is written behind the value");
        }
        let beyond = Retrieve { key: field(b"key"), buffer_bytes: 5, offset: 10_001, ..Retrieve::default() };
        assert_eq!(host.fetch(&pair, beyond).await.0.status(), Status::INVALID_FIELD.with_dnr());
    });
}

// Without this two hosts that mean to create the same key both believe that they have.
#[test]
fn stores_keep_to_their_conditions() {
    bench().with_queue(async |host, pair| {
        let with = |must_exist, must_not_exist, value: &[u8]| {
            let command = super::pairs::store(b"k", value.len());
            let command = byteway_wire::nvme::kv::Store { must_exist, must_not_exist, ..command };
            host.with_data(command.sqe(0, KV), value)
        };
        assert_eq!(host.io(&pair, with(true, false, b"no")).await.status(), NO_KEY);
        assert_eq!(host.value(&pair, b"k").await, Err(NO_KEY));
        assert_eq!(host.io(&pair, with(false, true, b"new")).await.status(), Status::SUCCESS);
        let exists = Status::KEY_EXISTS.with_dnr();
        assert_eq!(host.io(&pair, with(false, true, b"again")).await.status(), exists);
        assert_eq!(host.value(&pair, b"k").await, Ok(b"new".to_vec()));
        assert_eq!(host.io(&pair, with(true, false, b"updated")).await.status(), Status::SUCCESS);
        assert_eq!(host.value(&pair, b"k").await, Ok(b"updated".to_vec()));
        let invalid = Status::INVALID_FIELD.with_dnr();
        assert_eq!(host.io(&pair, with(true, true, b"both")).await.status(), invalid);
        let mut raw = store(b"k", 3);
        raw.no_compression = true;
        assert_eq!(host.io(&pair, host.with_data(raw.sqe(0, KV), b"raw")).await.status(), Status::SUCCESS);
        assert_eq!(host.value(&pair, b"k").await, Ok(b"raw".to_vec()));
    });
}

// A full drive that takes what it has no free space for loses what it had; one that takes nothing any more, not even a Delete, is
// lost itself.
#[test]
fn a_full_namespace_refuses_and_recovers() {
    bench().with_queue(async |host, pair| {
        let value = pattern(1, VALUE_BYTES_MAX as usize);
        let most = KV_UNITS * 4096 / u64::from(VALUE_BYTES_MAX);
        let mut stored = 0_u64;
        let refused = loop {
            match host.put(&pair, &stored.to_be_bytes(), &value).await {
                Status::SUCCESS if stored <= most => stored += 1,
                status => break status,
            }
        };
        assert_eq!(refused, Status::CAPACITY_EXCEEDED.with_dnr(), "after {stored} values of {most}");
        assert!(stored > most / 4, "{stored} of {most}");
        assert_eq!(host.value(&pair, &stored.to_be_bytes()).await, Err(NO_KEY));
        for index in 0..stored {
            assert_eq!(host.has(&pair, &index.to_be_bytes()).await, Status::SUCCESS);
        }
        for round in 0..3 {
            for index in 0..stored / 2 {
                assert_eq!(host.remove(&pair, &index.to_be_bytes()).await, Status::SUCCESS, "round {round}");
            }
            for index in 0..stored / 4 {
                let status = host.put(&pair, &index.to_be_bytes(), &value).await;
                assert_eq!(status, Status::SUCCESS, "round {round}, {index}");
            }
            for index in stored / 4..stored / 2 {
                assert_eq!(host.put(&pair, &index.to_be_bytes(), b"small").await, Status::SUCCESS);
            }
        }
        assert_eq!(host.value(&pair, &(stored - 1).to_be_bytes()).await, Ok(value));
    });
}

// A list that skips a key, or cuts one off, makes a host believe that it is gone.
#[test]
fn lists_are_in_order_and_whole() {
    bench().with_queue(async |host, pair| {
        assert_eq!(host.keys(&pair, b"", 4096).await, Ok(vec![]));
        let mut all: Vec<Vec<u8>> = (0..200_u64).map(|seed| pattern(seed, 1 + seed as usize % 16)).collect();
        all.extend([b"a".to_vec(), b"a\0".to_vec(), b"ab".to_vec(), vec![0], vec![255; 16]]);
        for key in &all {
            assert_eq!(host.put(&pair, key, b"v").await, Status::SUCCESS);
        }
        all.sort();
        all.dedup();
        assert_eq!(host.keys(&pair, b"", 32768).await, Ok(all.clone()));
        // From each key on, and from between two; the first that fit.
        for (index, key) in all.iter().enumerate() {
            let found = host.keys(&pair, key, 64).await.expect("a list");
            assert!(!found.is_empty() && found.len() <= 15);
            assert_eq!(found, all[index..index + found.len()]);
            let used: usize = found.iter().map(|key| (2 + key.len()).next_multiple_of(4)).sum();
            let next = all.get(index + found.len()).map(|key| (2 + key.len()).next_multiple_of(4));
            assert!(next.is_none_or(|next| 4 + used + next > 64), "one more would have fit");
        }
        for bytes in [4, 5, 7] {
            assert_eq!(host.keys(&pair, b"", bytes).await, Ok(vec![]), "no key fits in {bytes}");
        }
        assert_eq!(host.keys(&pair, b"", 8).await, Ok(vec![vec![0]]), "a key of 1 byte takes 4");
    });
}
