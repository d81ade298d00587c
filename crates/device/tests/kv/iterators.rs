//! Iterators: what they show, how many there are, and how they end.

use super::pairs::{ITERATOR_TIMEOUT, ITERATORS_MAX, KV, bench, field};
use crate::fixture::management::format;
use crate::fixture::{NS_4K, PAGE, Pair, TestHost, pattern};
use byteway_clock::Delay;
use byteway_content::BlockSize;
use byteway_wire::nvme::vendor::kv::{Close, Next, pair_bytes, pairs, seek};
use byteway_wire::nvme::{Cqe, Status};

const GONE: Status = Status::INVALID_FIELD.with_dnr();

async fn begin(host: &TestHost, pair: &Pair, from: &[u8]) -> Result<u32, Status> {
    let cqe = host.io(pair, seek(&field(from), 0, KV)).await;
    if cqe.status() == Status::SUCCESS { Ok(cqe.dw0) } else { Err(cqe.status()) }
}

async fn next(host: &TestHost, pair: &Pair, iterator: u32, bytes: u32) -> (Cqe, Vec<(Vec<u8>, Vec<u8>)>) {
    let address = host.holding(&vec![0x5c; bytes.next_multiple_of(PAGE as u32).max(PAGE as u32) as usize]);
    let (prp1, prp2) = host.prp(address, bytes.into());
    let sqe = Next { iterator, buffer_bytes: bytes }.sqe(0, KV).with_prp(prp1, prp2);
    let cqe = host.io(pair, sqe).await;
    let came = if cqe.dw1 & Next::TOO_SMALL == 0 { cqe.dw0 } else { 0 };
    let found = host.peek(address, bytes as usize);
    assert!(found[came as usize..].iter().all(|byte| *byte == 0x5c), "nothing is written behind the pairs");
    (cqe, pairs(&found[..came as usize]).map(|(key, value)| (key.to_vec(), value.to_vec())).collect())
}

async fn close(host: &TestHost, pair: &Pair, iterator: u32) -> Status {
    host.io(pair, Close { iterator }.sqe(0, KV)).await.status()
}

fn value(index: u8) -> Vec<u8> {
    pattern(index.into(), 10 + 7 * usize::from(index))
}

async fn fill(host: &TestHost, pair: &Pair, count: u8) {
    for index in 0..count {
        assert_eq!(host.put(pair, &[b'k', index], &value(index)).await, Status::SUCCESS);
    }
}

// A view that moves while it is read shows a state of the namespace that never was.
#[test]
fn an_iterator_shows_what_was_there_when_it_began() {
    bench().with_queue(async |host, pair| {
        fill(&host, &pair, 40).await;
        let iterator = begin(&host, &pair, b"").await.expect("an iterator");
        let from = begin(&host, &pair, &[b'k', 30]).await.expect("an iterator");
        for index in 0..40 {
            assert_eq!(host.put(&pair, &[b'k', index], b"later").await, Status::SUCCESS);
            assert_eq!(host.put(&pair, &[b'l', index], b"later").await, Status::SUCCESS);
        }
        assert_eq!(host.remove(&pair, &[b'k', 35]).await, Status::SUCCESS);
        let mut all = Vec::new();
        loop {
            let (cqe, found) = next(&host, &pair, iterator, 700).await;
            assert_eq!(cqe.status(), Status::SUCCESS);
            all.extend(found);
            if cqe.dw1 == Next::END {
                break;
            }
            assert_eq!(cqe.dw1, 0);
        }
        let expected: Vec<_> = (0..40).map(|index| (vec![b'k', index], value(index))).collect();
        assert_eq!(all, expected);
        let (cqe, found) = next(&host, &pair, iterator, 700).await;
        assert_eq!((cqe.status(), cqe.dw0, cqe.dw1), (Status::SUCCESS, 0, Next::END));
        assert!(found.is_empty());
        let (_, found) = next(&host, &pair, from, 32768).await;
        assert_eq!(found, expected[30..]);
        assert_eq!(close(&host, &pair, iterator).await, Status::SUCCESS);
        assert_eq!(close(&host, &pair, from).await, Status::SUCCESS);
    });
}

// A pair that doesn't fit must be there for a larger buffer, not lost.
#[test]
fn a_pair_waits_for_a_buffer_that_is_large_enough() {
    bench().with_queue(async |host, pair| {
        fill(&host, &pair, 3).await;
        let iterator = begin(&host, &pair, b"").await.expect("an iterator");
        for bytes in [0, 1, 19] {
            let (cqe, found) = next(&host, &pair, iterator, bytes).await;
            assert_eq!((cqe.status(), cqe.dw0, cqe.dw1), (Status::SUCCESS, 20, Next::TOO_SMALL));
            assert!(found.is_empty());
        }
        for index in 0..3 {
            let takes = pair_bytes(2, value(index).len()) as u32;
            let (cqe, found) = next(&host, &pair, iterator, takes).await;
            assert_eq!((cqe.status(), cqe.dw0), (Status::SUCCESS, takes));
            assert_eq!(found, [(vec![b'k', index], value(index))]);
        }
        assert_eq!(close(&host, &pair, iterator).await, Status::SUCCESS);
    });
}

// Each iterator holds what it shows: a host that begins more and more would fill the drive.
#[test]
fn there_are_few_iterators_and_none_for_ever() {
    bench().with_queue(async |host, pair| {
        fill(&host, &pair, 3).await;
        let mut all = Vec::new();
        for _ in 0..ITERATORS_MAX {
            all.push(begin(&host, &pair, b"").await.expect("an iterator"));
        }
        assert_eq!(begin(&host, &pair, b"").await, Err(Status::COMMAND_SEQUENCE_ERROR));
        assert_eq!(close(&host, &pair, all[0]).await, Status::SUCCESS);
        assert_eq!(close(&host, &pair, all[0]).await, GONE);
        assert_eq!(next(&host, &pair, all[0], 64).await.0.status(), GONE);
        all[0] = begin(&host, &pair, b"").await.expect("an iterator is free again");
        // One that is used lives on; the others are given up.
        for _ in 0..4 {
            host.sleep(Delay(ITERATOR_TIMEOUT.0 / 3)).await;
            assert_eq!(next(&host, &pair, all[1], 4).await.0.status(), Status::SUCCESS);
        }
        for iterator in [all[0], all[2]] {
            assert_eq!(next(&host, &pair, iterator, 64).await.0.status(), GONE);
        }
        assert_eq!(next(&host, &pair, all[1], 64).await.1.len(), 2);
        host.sleep(ITERATOR_TIMEOUT + Delay::from_ms(1)).await;
        assert_eq!(close(&host, &pair, all[1]).await, GONE);
        for iterator in [0, 1 << 20, u32::MAX] {
            assert_eq!(next(&host, &pair, iterator, 64).await.0.status(), GONE);
        }
    });
}

// One at the other port, too.
#[test]
fn iterators_of_both_ports_end_with_a_format() {
    bench().enabled(async |host| {
        let pair = host.create_pair(1, 64).await;
        fill(&host, &pair, 3).await;
        let other = host.beside();
        other.enable().await;
        let other_pair = other.create_pair(1, 64).await;
        assert_eq!(other.value(&other_pair, &[b'k', 2]).await, Ok(value(2)), "one store");
        let shown = begin(&other, &other_pair, b"").await.expect("an iterator");
        let own = begin(&host, &pair, b"").await.expect("an iterator");
        other.disable().await;
        other.enable().await;
        let other_pair = other.create_pair(1, 64).await;
        assert_eq!(next(&other, &other_pair, shown, 64).await.0.status(), GONE, "it was reset");
        assert_eq!(next(&host, &pair, own, 64).await.0.status(), Status::SUCCESS, "that was another's reset");
        let shown = begin(&other, &other_pair, b"").await.expect("an iterator");
        host.succeed(format(KV, BlockSize::B512, 0)).await;
        assert_eq!(next(&other, &other_pair, shown, 64).await.0.status(), GONE);
        assert_eq!(other.put(&other_pair, b"new", &value(9)).await, Status::SUCCESS);
        assert_eq!(host.value(&pair, b"new").await, Ok(value(9)));
    });
}

// An iterator that outlives what it shows would show deleted pairs, or another host's.
#[test]
fn iterators_end_with_a_format_and_a_reset() {
    bench().enabled(async |host| {
        let pair = host.create_pair(1, 64).await;
        fill(&host, &pair, 3).await;
        let before = begin(&host, &pair, b"").await.expect("an iterator");
        host.succeed(format(NS_4K, BlockSize::B4096, 0)).await;
        assert_eq!(next(&host, &pair, before, 4).await.0.status(), Status::SUCCESS, "another's format");
        host.succeed(format(KV, BlockSize::B512, 0)).await;
        assert_eq!(next(&host, &pair, before, 64).await.0.status(), GONE);
        fill(&host, &pair, 3).await;
        let again = begin(&host, &pair, b"").await.expect("an iterator");
        host.disable().await;
        host.enable().await;
        let pair = host.create_pair(1, 64).await;
        assert_eq!(next(&host, &pair, again, 64).await.0.status(), GONE);
        assert_eq!(host.value(&pair, &[b'k', 2]).await, Ok(value(2)), "a reset leaves pairs as they are");
    });
}
