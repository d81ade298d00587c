//! The block client, its buffers and its verification.

use crate::fake::{BLOCKS, Rig, run};
use byteway_content::{BlockSize, Stamp};
use byteway_host::{
    BaseState, BlockError, Buffer, Client, ClientConfig, DriverConfig, IoError, Lost, Method, Namespace,
    Oracle, QueueConfig, Rules,
};
use byteway_wire::nvme::{Range, Status};
use std::cell::RefCell;
use std::rc::Rc;

async fn client(rig: &Rig, method: Method, verified: bool) -> Client {
    client_that(rig, method, verified, false).await
}

async fn client_that(rig: &Rig, method: Method, verified: bool, verify_bytes: bool) -> Client {
    let driver = rig.attach(DriverConfig::default()).await;
    let queue = driver.create_queue_pair(QueueConfig::new(64)).await.unwrap();
    let namespace = driver.namespaces()[0];
    let block = BlockSize::from_bytes(u64::from(namespace.block_bytes)).unwrap();
    let oracle = verified.then(|| Rc::new(RefCell::new(Oracle::new(BLOCKS, block, 1, BaseState::Zeroes))));
    let config = ClientConfig { rules: Rules::only(method), bytes_max: 128 << 10, oracle, verify_bytes };
    Client::new(queue, namespace, config).unwrap()
}

// Data must be returned from wherever it was written, by every method, from buffers of every shape.
#[test]
fn what_is_written_is_read() {
    for (method, block_bytes) in
        [(Method::Prp, 512), (Method::Prp, 4096), (Method::Sgl, 512), (Method::Sgl, 4096)]
    {
        run(move |rig| async move {
            rig.fake.block_bytes.set(block_bytes);
            let client = client(&rig, method, true).await;
            let memory = rig.port.memory();
            let mut buffers = vec![client.buffer().unwrap()];
            for offset in [0, 512, 4, 3072] {
                buffers.push(client.adopt(Buffer::scattered(memory, offset, 128 << 10).unwrap()).unwrap());
                buffers.push(client.adopt(Buffer::contiguous(memory, offset, 128 << 10).unwrap()).unwrap());
            }
            for buffer in &mut buffers {
                for (lba, blocks) in [(0, 1), (7, 9), (100, 16), (90, 32), (101, 3), (BLOCKS - 1, 1)] {
                    client.read(buffer, lba, blocks).await.unwrap();
                    client.write(buffer, lba, blocks).await.unwrap();
                    client.read(buffer, lba, blocks).await.unwrap();
                    client.compare(buffer, lba, blocks).await.unwrap();
                }
                client.write_fua(buffer, 5, 1).await.unwrap();
                client.flush().await.unwrap();
                client.write_zeroes(4, 3, true).await.unwrap();
                client
                    .trim(buffer, &[Range::new(100, 2), Range::new(10, 1), Range::new(0, 0)])
                    .await
                    .unwrap();
                client.read(buffer, 0, 32).await.unwrap();
                let record = client.read(buffer, 90, 32).await.unwrap();
                assert_eq!(record.last, rig.now());
                assert!(record.begin < record.last);
            }
        });
    }
}

// A drive that returns one wrong bit, or stale data, must be detected.
#[test]
fn wrong_data_is_a_mismatch() {
    run(|rig| async move {
        let client = client(&rig, Method::Prp, true).await;
        let mut buffer = client.buffer().unwrap();
        client.write(&mut buffer, 50, 8).await.unwrap();
        rig.fake.corrupts.set(Some(53));
        let error = client.read(&mut buffer, 50, 8).await.unwrap_err();
        assert!(
            matches!(&error, IoError::Client(BlockError::Mismatch(at)) if (at.lba, at.offset) == (53, 77)),
            "{error}"
        );
        rig.fake.corrupts.set(None);
        let old = rig.fake.media.borrow()[&50].clone();
        client.write(&mut buffer, 50, 1).await.unwrap();
        rig.fake.media.borrow_mut().insert(50, old.clone());
        assert!(matches!(
            client.read(&mut buffer, 50, 1).await,
            Err(IoError::Client(BlockError::Mismatch(_)))
        ));
        rig.fake.media.borrow_mut().insert(60, old);
        assert!(matches!(
            client.read(&mut buffer, 60, 1).await,
            Err(IoError::Client(BlockError::Mismatch(_)))
        ));
        let compared = client.compare(&mut buffer, 50, 1).await;
        assert_eq!(compared, Err(IoError::Status(Status::COMPARE_FAILURE)));
    });
}

/// Wrong contents that a drive may return for a lost block.
fn wrong(lba: u64, version: u32, block: BlockSize) -> Vec<(&'static str, Vec<u8>)> {
    let filled = |stamp: Stamp| {
        let mut bytes = vec![0; block.bytes()];
        stamp.fill(&mut bytes);
        bytes
    };
    let right = Stamp { lba, version, tag: 1, block };
    let of = |change: fn(&mut Stamp)| {
        let mut stamp = right;
        change(&mut stamp);
        filled(stamp)
    };
    let mut torn = filled(right);
    let old = of(|stamp| stamp.version -= 1);
    torn[block.bytes() / 2..].copy_from_slice(&old[block.bytes() / 2..]);
    let mut damaged = filled(right);
    damaged[block.bytes() - 1] ^= 1;
    vec![
        ("the block before", of(|stamp| stamp.lba -= 1)),
        ("the unit behind", of(|stamp| stamp.lba += 8)),
        ("an older version", old),
        ("a later version", of(|stamp| stamp.version += 1)),
        ("another namespace", of(|stamp| stamp.tag += 1)),
        ("zeroes", vec![0; block.bytes()]),
        ("torn", torn),
        ("damaged", damaged),
    ]
}

// Whether pattern names or bytes are compared, wrong data must be detected at any position of a read, as the same
// mismatch; and the comparison of names must not reject correct data.
#[test]
fn whatever_a_drive_confuses_is_a_mismatch() {
    let found = Rc::new(RefCell::new([Vec::new(), Vec::new()]));
    for block_bytes in [512, 4096] {
        for (offset, verify_bytes) in [(0, false), (512, false), (0, true)] {
            let found = found.clone();
            run(move |rig| async move {
                rig.fake.block_bytes.set(block_bytes);
                let client = client_that(&rig, Method::Prp, true, verify_bytes).await;
                let memory = rig.port.memory();
                let place = Buffer::scattered(memory, offset, 64 << 10).unwrap();
                let mut buffer = client.adopt(place).unwrap();
                let block = BlockSize::from_bytes(u64::from(block_bytes)).unwrap();
                let (first, blocks) = (40, 3 * block.per_unit() as u32);
                client.write(&mut buffer, first, blocks).await.unwrap();
                client.write(&mut buffer, first, blocks).await.unwrap();
                for at in [0, blocks / 2, blocks - 1].map(|index| first + u64::from(index)) {
                    for (what, bytes) in wrong(at, 2, block) {
                        client.read(&mut buffer, first, blocks).await.unwrap();
                        let right = rig.fake.media.borrow_mut().insert(at, bytes).unwrap();
                        let error = client.read(&mut buffer, first, blocks).await.unwrap_err();
                        let IoError::Client(BlockError::Mismatch(mismatch)) = error else {
                            panic!("{what} at {at}: {error}");
                        };
                        assert_eq!(mismatch.lba, at, "{what}");
                        if offset == 0 {
                            found.borrow_mut()[usize::from(verify_bytes)].push(mismatch);
                        }
                        rig.fake.media.borrow_mut().insert(at, right);
                    }
                }
                let named =
                    buffer.place().pages()[..3].iter().filter(|page| memory.pattern(**page).is_some());
                assert_eq!(named.count(), 0, "after a mismatch, all of a read was looked at");
                client.read(&mut buffer, first, blocks).await.unwrap();
                let named =
                    buffer.place().pages()[..3].iter().filter(|page| memory.pattern(**page).is_some());
                let is_named = offset == 0 && !verify_bytes;
                assert_eq!(
                    named.count(),
                    if is_named { 3 } else { 0 },
                    "{block_bytes} {offset} {verify_bytes}"
                );
            });
        }
    }
    let [by_name, by_bytes] = &*found.borrow();
    assert_eq!(by_name.len(), 2 * 3 * 8);
    assert_eq!(by_name, by_bytes);
}

// A client that never compared bytes would not notice wrong ones: it does so for one read and write in 64.
#[test]
fn one_read_and_one_write_in_64_go_by_bytes() {
    run(|rig| async move {
        rig.fake.block_bytes.set(4096);
        let client = client(&rig, Method::Prp, true).await;
        let memory = rig.port.memory();
        let mut buffer = client.buffer().unwrap();
        let page = buffer.place().pages()[0];
        let (mut read, mut written) = (Vec::new(), Vec::new());
        for io in 1..=200 {
            client.write(&mut buffer, io % 7, 1).await.unwrap();
            if memory.pattern(page).is_none() {
                written.push(io);
            }
            client.read(&mut buffer, io % 7, 1).await.unwrap();
            if memory.pattern(page).is_none() {
                read.push(io);
            }
        }
        assert_eq!(written, [64, 128, 192]);
        assert_eq!(read, [64, 128, 192]);
    });
}

// After a failed write the drive may hold either version, but must stay with it.
#[test]
fn a_failed_write_may_have_landed() {
    run(|rig| async move {
        let client = client(&rig, Method::Prp, true).await;
        let mut buffer = client.buffer().unwrap();
        for (lba, landed) in [(5, false), (6, true)] {
            client.write(&mut buffer, lba, 1).await.unwrap();
            let old = rig.fake.media.borrow()[&lba].clone();
            rig.fake.fails_writes.set(Some((Status::WRITE_FAULT, landed)));
            let failed = client.write(&mut buffer, lba, 1).await;
            assert_eq!(failed, Err(IoError::Status(Status::WRITE_FAULT)));
            rig.fake.fails_writes.set(None);
            assert_eq!(
                client.compare(&mut buffer, lba, 1).await,
                Err(IoError::Client(BlockError::Unsettled { lba }))
            );
            client.read(&mut buffer, lba, 1).await.unwrap();
            client.compare(&mut buffer, lba, 1).await.unwrap();
            if landed {
                rig.fake.media.borrow_mut().insert(lba, old);
                assert!(matches!(
                    client.read(&mut buffer, lba, 1).await,
                    Err(IoError::Client(BlockError::Mismatch(_)))
                ));
            }
        }
    });
}

// Concurrent I/Os on the same blocks are legal: they must neither confuse the oracle nor escape it.
#[test]
fn concurrent_io_on_few_blocks_verifies() {
    run(|rig| async move {
        let client = client(&rig, Method::Prp, true).await;
        let done = byteway_clock::Channel::unbounded(&rig.clock);
        for worker in 0..16_u64 {
            let (client, done) = (client.clone(), done.clone());
            let mut buffer = client.buffer().unwrap();
            rig.clock.spawn("worker", async move {
                for step in 0..200_u64 {
                    let mixed = (worker * 7919 + step * 104_729) ^ (step >> 3);
                    let (lba, blocks) = (mixed % 8, (mixed / 8 % 5 + 1) as u32);
                    match mixed / 64 % 8 {
                        0..4 => client.read(&mut buffer, lba, blocks).await,
                        4..7 => client.write(&mut buffer, lba, blocks).await,
                        _ => client.write_zeroes(lba, blocks, false).await,
                    }
                    .unwrap();
                }
                done.send(()).await;
            });
        }
        for _ in 0..16 {
            done.receive().await;
        }
        let mut buffer = client.buffer().unwrap();
        client.read(&mut buffer, 0, 16).await.unwrap();
        client.compare(&mut buffer, 0, 16).await.unwrap();
    });
}

// Sizes come from scenarios and traces: impossible ones must be errors that name them.
#[test]
fn impossible_extents_are_errors() {
    run(|rig| async move {
        let client = client(&rig, Method::Prp, true).await;
        let mut buffer = client.buffer().unwrap();
        for (lba, blocks) in [(0, 0), (0, 65537), (u64::MAX, 1)] {
            let error = IoError::Client(BlockError::Extent { lba, count: u64::from(blocks) });
            assert_eq!(client.read(&mut buffer, lba, blocks).await, Err(error.clone()));
            assert_eq!(client.write(&mut buffer, lba, blocks).await, Err(error.clone()));
            assert_eq!(client.write_zeroes(lba, blocks, true).await, Err(error));
        }
        assert!(matches!(client.read(&mut buffer, 0, 257).await, Err(IoError::Plan(_))));
        assert!(matches!(client.write(&mut buffer, 0, 257).await, Err(IoError::Plan(_))));
        let beyond = Err(IoError::Status(Status::LBA_OUT_OF_RANGE));
        assert_eq!(client.read(&mut buffer, BLOCKS, 1).await, beyond);
        assert_eq!(client.write(&mut buffer, BLOCKS - 1, 2).await, beyond);
        assert!(matches!(
            client.trim(&mut buffer, &[]).await,
            Err(IoError::Client(BlockError::Extent { .. }))
        ));
        let many = vec![Range::new(0, 1); 257];
        assert!(matches!(
            client.trim(&mut buffer, &many).await,
            Err(IoError::Client(BlockError::Extent { .. }))
        ));
        let wraps = [Range::new(u64::MAX, 2)];
        assert!(matches!(
            client.trim(&mut buffer, &wraps).await,
            Err(IoError::Client(BlockError::Extent { .. }))
        ));
        let namespace = Namespace { block_bytes: 520, ..*client.namespace() };
        let config = ClientConfig {
            rules: Rules::only(Method::Prp),
            bytes_max: 4096,
            oracle: None,
            verify_bytes: false,
        };
        let refused = Client::new(client.queue().clone(), namespace, config).err();
        assert_eq!(
            refused,
            Some(IoError::Client(BlockError::Format { block_bytes: 520, metadata_bytes: 0 }))
        );
        client.read(&mut buffer, BLOCKS - 1, 1).await.unwrap();
    });
}

// Without an oracle a client transfers the given bytes.
#[test]
fn bytes_can_be_put_and_got() {
    run(|rig| async move {
        let client = client(&rig, Method::Prp, false).await;
        let memory = rig.port.memory();
        let mut buffer = client.adopt(Buffer::scattered(memory, 100, 20_000).unwrap()).unwrap();
        let bytes: Vec<u8> = (0..10_240_u32).map(|index| ((index * 31) >> 3) as u8).collect();
        client.put(&mut buffer, &bytes).unwrap();
        client.write(&mut buffer, 9, 20).await.unwrap();
        client.put(&mut buffer, &[0; 20_000]).unwrap();
        client.read(&mut buffer, 9, 20).await.unwrap();
        let mut back = vec![1; bytes.len()];
        client.get(&buffer, &mut back).unwrap();
        assert_eq!(back, bytes);
        assert!(client.put(&mut buffer, &[0; 20_001]).is_err());
    });
}

// An I/O lost in a reset must be an error, and leave its blocks undecided, not wrong.
#[test]
fn io_lost_in_a_reset_is_undecided() {
    run(|rig| async move {
        let driver = rig.attach(DriverConfig::default()).await;
        let queue = driver.create_queue_pair(QueueConfig::new(8)).await.unwrap();
        let oracle = Rc::new(RefCell::new(Oracle::new(BLOCKS, BlockSize::B512, 1, BaseState::Zeroes)));
        let config = ClientConfig {
            rules: Rules::only(Method::Prp),
            bytes_max: 4096,
            oracle: Some(oracle.clone()),
            verify_bytes: false,
        };
        let client = Client::new(queue, driver.namespaces()[0], config).unwrap();
        rig.fake.swallows.set(true);
        let (writer, mut buffer) = (client.clone(), client.buffer().unwrap());
        let done = byteway_clock::Channel::unbounded(&rig.clock);
        let sent = done.clone();
        rig.clock.spawn("write", async move {
            sent.send(writer.write(&mut buffer, 3, 2).await).await;
        });
        rig.clock.sleep(byteway_clock::Delay::from_us(50)).await;
        rig.fake.swallows.set(false);
        driver.reset().await.unwrap();
        assert_eq!(done.receive().await, Err(IoError::Lost(Lost::Reset)));
        assert_eq!(oracle.borrow().contested_blocks(), 2);
        let mut buffer = client.buffer().unwrap();
        client.read(&mut buffer, 0, 8).await.unwrap();
        assert_eq!(oracle.borrow().contested_blocks(), 0);
    });
}
