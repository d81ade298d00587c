//! Attaching, creating and deleting queues, events, timeouts, reset, shutdown.

use crate::fake::run;
use byteway_clock::Delay;
use byteway_host::{Completion, Data, DriverConfig, DriverError, Lost, Namespace, QueueConfig};
use byteway_wire::nvme::{
    AdminOpcode, AsyncEvent, Cap, Csts, Doorbell, Flush, GetFeatures, Sqe, Status, fid, lid,
};

// A host that does not read the limits would send commands that the drive refuses.
#[test]
fn attaching_learns_what_the_controller_is() {
    run(|rig| async move {
        rig.fake.cap.set(rig.fake.cap.get().with_dstrd(3));
        rig.fake.block_bytes.set(4096);
        let driver = rig.attach(DriverConfig { queues_wanted: 20, ..DriverConfig::default() }).await;
        assert_eq!(driver.identity().model_number(), "Fake");
        assert_eq!(driver.transfer_bytes_max(), Some(128 << 10));
        assert_eq!(driver.queues_granted(), 8);
        let namespace =
            Namespace { nsid: 1, blocks: 1 << 20, block_bytes: 4096, metadata_bytes: 0, optimal_boundary: 0 };
        assert_eq!(driver.namespaces()[..], [namespace]);
        assert_eq!(driver.protocol_errors(), 0);
        // Attaching again takes over an enabled controller.
        let again = rig.attach(DriverConfig::default()).await;
        assert_eq!(again.namespaces()[..], [namespace]);
    });
}

// An empty slot, or a controller that never becomes ready, must be an error in time, not a hang.
#[test]
fn a_controller_that_does_not_come_up_is_an_error() {
    run(|rig| async move {
        rig.fake.sulks.set(true);
        let config = DriverConfig::default();
        let attach = || byteway_host::Driver::attach(rig.port.clone(), config.clone());
        let error = attach().await.err().unwrap();
        assert!(matches!(error, DriverError::NotReady { what: "ready", .. }), "{error}");
        assert!(rig.now().since(byteway_clock::Time::ZERO) < Delay::from_s(2));
        rig.fake.sulks.set(false);
        rig.fake.dies.set(true);
        assert_eq!(attach().await.err(), Some(DriverError::Fatal));
        rig.fake.dies.set(false);
        rig.fake.cap.set(Cap::new().with_css(1).with_mpsmin(2));
        assert_eq!(attach().await.err(), Some(DriverError::PageSize(14)));
        rig.fake.cap.set(Cap::new().with_css(1 << 7));
        assert_eq!(attach().await.err(), Some(DriverError::CommandSet));
        rig.fake.cap.set(Cap::from_bits(u64::MAX));
        assert_eq!(attach().await.err(), Some(DriverError::NoController));
    });
}

// Admin data must be transferred to and from host memory, and an error status must be returned unchanged.
#[test]
fn admin_commands_carry_data_and_status() {
    run(|rig| async move {
        let driver = rig.attach(DriverConfig::default()).await;
        let mut page = [0; 512];
        let cqe = driver.log_page(lid::SMART, 0, true, &mut page).await.unwrap();
        assert!(cqe.status().is_success() && page == [0x5a; 512]);
        let get = GetFeatures { fid: fid::ARBITRATION, ..GetFeatures::default() };
        let cqe = driver.admin(get.sqe(0, 0), Data::None).await.unwrap();
        assert_eq!(cqe.status(), Status::INVALID_OPCODE);
        let send = Sqe::new(AdminOpcode::DIRECTIVE_SEND, 0, 0);
        assert!(driver.admin(send, Data::Out(&[1; 100_000])).await.is_ok());
        let error = driver.admin(send, Data::Out(&[1; 200_000])).await.err();
        assert!(matches!(error, Some(DriverError::Data(_))));
    });
}

// Identifiers and memory must be freed with queues, or a long run would exhaust both.
#[test]
fn queues_are_created_and_deleted() {
    run(|rig| async move {
        let driver = rig.attach(DriverConfig::default()).await;
        for entries in [0, 1, 1025] {
            let error = driver.create_queue_pair(QueueConfig::new(entries)).await.err();
            assert_eq!(error, Some(DriverError::QueueEntries { entries, entries_max: 1024 }));
        }
        for _ in 0..3 {
            let mut pairs = Vec::new();
            for _ in 0..8 {
                pairs.push(driver.create_queue_pair(QueueConfig::new(16)).await.unwrap());
            }
            let error = driver.create_queue_pair(QueueConfig::new(16)).await.err();
            assert_eq!(error, Some(DriverError::NoQueueLeft { granted: 8 }));
            for pair in &pairs {
                assert!(pair.execute(Flush.sqe(0, 1)).await.unwrap().status().is_success());
            }
            for pair in &pairs {
                driver.delete_queue_pair(pair).await.unwrap();
                assert_eq!(pair.execute(Flush.sqe(0, 1)).await, Err(Lost::Deleted));
                assert_eq!(driver.delete_queue_pair(pair).await, Err(DriverError::NoSuchQueue(pair.qid())));
            }
        }
        // An extent of a length that nothing else has is always fresh memory.
        let fresh = || rig.port.memory().allocate(17).unwrap();
        let before = fresh();
        let pair = driver.create_queue_pair(QueueConfig::new(16)).await.unwrap();
        driver.delete_queue_pair(&pair).await.unwrap();
        assert_eq!(fresh(), before + 17 * 4096, "queue memory is used again");
    });
}

// A completion queue in use by others must survive the deletion of one of its users.
#[test]
fn a_shared_completion_queue_goes_with_its_last_user() {
    run(|rig| async move {
        let driver = rig.attach(DriverConfig::default()).await;
        let one = driver.create_queue_pair(QueueConfig::new(8)).await.unwrap();
        let shares = Some(one.clone());
        let two = driver.create_queue_pair(QueueConfig { shares, ..QueueConfig::new(8) }).await.unwrap();
        assert_eq!((one.qid(), two.qid(), one.cqid(), two.cqid()), (1, 2, 1, 1));
        for _ in 0..20 {
            let (first, second) = (one.submit(Flush.sqe(0, 1)).await, two.submit(Flush.sqe(0, 1)).await);
            assert!(first.unwrap().await.is_ok() && second.unwrap().await.is_ok());
        }
        driver.delete_queue_pair(&one).await.unwrap();
        assert!(two.execute(Flush.sqe(0, 1)).await.is_ok());
        driver.reset().await.unwrap();
        assert!(two.execute(Flush.sqe(0, 1)).await.is_ok());
        driver.delete_queue_pair(&two).await.unwrap();
        assert_eq!(driver.create_queue_pair(QueueConfig::new(8)).await.unwrap().cqid(), 1);
        assert_eq!(driver.protocol_errors(), 0);
    });
}

// All queues that share a vector must be reaped when it fires, or commands would wait indefinitely.
#[test]
fn interrupts_reap_every_queue_of_the_vector() {
    run(|rig| async move {
        let driver =
            rig.attach(DriverConfig { completion: Completion::Interrupt, ..DriverConfig::default() }).await;
        let config = QueueConfig { vector: Some(0), ..QueueConfig::new(8) };
        let one = driver.create_queue_pair(config.clone()).await.unwrap();
        let two = driver.create_queue_pair(config).await.unwrap();
        let three = QueueConfig { vector: Some(5), ..QueueConfig::new(8) };
        let three = driver.create_queue_pair(three).await.unwrap();
        for _ in 0..30 {
            let mut pending = Vec::new();
            for pair in [&one, &two, &three] {
                pending.push(pair.submit(Flush.sqe(0, 1)).await.unwrap());
            }
            for command in pending {
                assert!(command.await.is_ok());
            }
        }
        driver.delete_queue_pair(&one).await.unwrap();
        assert!(two.execute(Flush.sqe(0, 1)).await.is_ok());
    });
}

// Outstanding commands must end when their queue is deleted, even those without a waiting task.
#[test]
fn deletion_ends_what_is_outstanding() {
    run(|rig| async move {
        let driver = rig.attach(DriverConfig::default()).await;
        let pair = driver.create_queue_pair(QueueConfig::new(4)).await.unwrap();
        rig.fake.swallows.set(true);
        let mut waiting = Vec::new();
        for _ in 0..3 {
            waiting.push(pair.submit(Flush.sqe(0, 1)).await.unwrap());
        }
        drop(waiting.pop());
        let late = pair.clone();
        let clock = rig.clock.clone();
        clock.spawn("late", async move {
            assert_eq!(late.execute(Flush.sqe(0, 1)).await, Err(Lost::Deleted));
        });
        driver.delete_queue_pair(&pair).await.unwrap();
        for command in waiting {
            assert_eq!(command.await, Err(Lost::Deleted));
        }
        assert_eq!((pair.outstanding(), pair.slots_free()), (0, 3));
        rig.clock.yield_now().await;
    });
}

// After a reset the same handles must work, whatever was lost, waiting or half submitted.
#[test]
fn reset_loses_what_is_outstanding_and_nothing_else() {
    run(|rig| async move {
        let driver = rig.attach(DriverConfig::default()).await;
        let config = QueueConfig { outstanding_max: Some(50), ..QueueConfig::new(4) };
        let pair = driver.create_queue_pair(config).await.unwrap();
        for round in 0..5 {
            rig.fake.swallows.set(true);
            let mut waiting = Vec::new();
            for _ in 0..3 {
                waiting.push(pair.submit(Flush.sqe(0, 1)).await.unwrap());
            }
            drop(waiting.remove(round % 3));
            // These wait: for a slot, and then for the reset.
            let (done, late) = (byteway_clock::Channel::unbounded(&rig.clock), pair.clone());
            for _ in 0..6 {
                let (done, late) = (done.clone(), late.clone());
                rig.clock.spawn("late", async move {
                    let result = late.execute(Flush.sqe(0, 1)).await;
                    done.send(result.is_ok()).await;
                });
            }
            rig.clock.sleep(Delay::from_us(3)).await;
            rig.fake.swallows.set(false);
            let (one, two) = (driver.clone(), driver.clone());
            rig.clock.spawn("another reset", async move { one.reset().await.unwrap() });
            two.reset().await.unwrap();
            for command in waiting {
                assert_eq!(command.await, Err(Lost::Reset));
            }
            for _ in 0..6 {
                assert!(done.receive().await);
            }
            assert_eq!(pair.outstanding(), 0);
            assert!(pair.execute(Flush.sqe(0, 1)).await.is_ok());
        }
        assert_eq!((driver.resets(), driver.protocol_errors()), (5, 0));
    });
}

// A controller that does not recover must fail every command, now and later, rather than hang them.
#[test]
fn a_failed_reset_fails_everything() {
    run(|rig| async move {
        let driver = rig.attach(DriverConfig::default()).await;
        let pair = driver.create_queue_pair(QueueConfig::new(8)).await.unwrap();
        rig.fake.swallows.set(true);
        let lost = pair.submit(Flush.sqe(0, 1)).await.unwrap();
        rig.fake.sulks.set(true);
        assert!(matches!(driver.reset().await, Err(DriverError::NotReady { .. })));
        assert_eq!(lost.await, Err(Lost::Reset));
        assert_eq!(pair.execute(Flush.sqe(0, 1)).await, Err(Lost::Failed));
        assert_eq!(driver.reset().await, Err(DriverError::Gone(Lost::Failed)));
        let error = driver.create_queue_pair(QueueConfig::new(8)).await.err();
        assert_eq!(error, Some(DriverError::Gone(Lost::Failed)));
    });
}

// A reset that is dropped halfway must not leave commands waiting for its end.
#[test]
fn a_reset_that_is_dropped_gives_the_controller_up() {
    run(|rig| async move {
        let driver = rig.attach(DriverConfig::default()).await;
        let pair = driver.create_queue_pair(QueueConfig::new(8)).await.unwrap();
        let reset = driver.clone();
        let task = rig.clock.spawn("reset", async move { drop(reset.reset().await) });
        rig.clock.sleep(Delay::from_ns(300)).await;
        rig.clock.kill(task);
        assert_eq!(pair.execute(Flush.sqe(0, 1)).await, Err(Lost::Failed));
    });
}

// A drive that loses a command must not hang a run with a timeout: first the command is aborted.
#[test]
fn an_overdue_command_is_aborted() {
    run(|rig| async move {
        let timeout = Some(Delay::from_ms(10));
        let timeout_period = Delay::from_ms(1);
        let driver = rig.attach(DriverConfig { timeout, timeout_period, ..DriverConfig::default() }).await;
        let pair = driver.create_queue_pair(QueueConfig::new(8)).await.unwrap();
        let events = driver.events(1);
        rig.fake.swallows.set(true);
        let lost = pair.submit(Flush.sqe(0, 1)).await.unwrap();
        assert_eq!(lost.await.unwrap().status(), Status::ABORT_REQUESTED);
        assert!((10..13).contains(&(rig.now().0 / 1_000_000_000)), "{}", rig.now());
        rig.clock.sleep(Delay::from_ms(50)).await;
        assert!(driver.resets() == 0 && events.is_empty(), "an event request has no timeout");
    });
}

// If the Abort does not help, or is not answered, the controller is reset.
#[test]
fn a_command_that_cannot_be_aborted_resets_the_controller() {
    run(|rig| async move {
        let timeout = Some(Delay::from_ms(10));
        let timeout_period = Delay::from_ms(1);
        let driver = rig.attach(DriverConfig { timeout, timeout_period, ..DriverConfig::default() }).await;
        let pair = driver.create_queue_pair(QueueConfig::new(8)).await.unwrap();
        rig.fake.swallows.set(true);
        rig.fake.stubborn.set(true);
        let lost = pair.submit(Flush.sqe(0, 1)).await.unwrap();
        assert_eq!(lost.await, Err(Lost::Reset));
        rig.fake.swallows.set(false);
        assert!(pair.execute(Flush.sqe(0, 1)).await.is_ok());
        assert_eq!(driver.resets(), 1);
    });
}

// A reset waits for commands of its own: a lost interrupt must not hang it.
#[test]
fn a_reset_does_without_interrupts() {
    run(|rig| async move {
        let timeout = Some(Delay::from_ms(10));
        let timeout_period = Delay::from_ms(1);
        let completion = Completion::Interrupt;
        let config = DriverConfig { timeout, timeout_period, completion, ..DriverConfig::default() };
        let driver = rig.attach(config).await;
        let pair = driver.create_queue_pair(QueueConfig::new(8)).await.unwrap();
        rig.fake.swallows.set(true);
        rig.fake.stubborn.set(true);
        let lost = pair.submit(Flush.sqe(0, 1)).await.unwrap();
        rig.fake.mute.set(true);
        assert_eq!(lost.await, Err(Lost::Reset));
        rig.fake.swallows.set(false);
        assert!(pair.execute(Flush.sqe(0, 1)).await.is_ok());
        assert_eq!(driver.resets(), 1);
    });
}

// Nor may one that never completes: then the controller is given up.
#[test]
fn a_reset_whose_commands_never_end_gives_the_controller_up() {
    run(|rig| async move {
        let timeout = Some(Delay::from_ms(10));
        let timeout_period = Delay::from_ms(1);
        let driver = rig.attach(DriverConfig { timeout, timeout_period, ..DriverConfig::default() }).await;
        let pair = driver.create_queue_pair(QueueConfig::new(8)).await.unwrap();
        rig.fake.keeps_admin.set(true);
        assert!(matches!(driver.reset().await, Err(DriverError::Lost { lost: Lost::Failed, .. })));
        assert_eq!(pair.execute(Flush.sqe(0, 1)).await, Err(Lost::Failed));
    });
}

// A manual Abort must report whether it worked.
#[test]
fn abort_says_whether_it_did() {
    run(|rig| async move {
        let driver = rig.attach(DriverConfig::default()).await;
        let pair = driver.create_queue_pair(QueueConfig::new(8)).await.unwrap();
        rig.fake.swallows.set(true);
        let command = pair.submit(Flush.sqe(0, 1)).await.unwrap();
        rig.clock.sleep(Delay::from_us(50)).await;
        assert_eq!(driver.abort(&command).await, Ok(true));
        assert_eq!(driver.abort(&command).await, Ok(false));
        assert_eq!(command.await.unwrap().status(), Status::ABORT_REQUESTED);
    });
}

// Events must reach the host one by one, also after a reset.
#[test]
fn events_are_delivered_and_asked_for_again() {
    run(|rig| async move {
        let driver = rig.attach(DriverConfig::default()).await;
        let events = driver.events(2);
        for round in 0..4 {
            rig.clock.sleep(Delay::from_us(50)).await;
            assert_eq!(rig.fake.events.borrow().len(), 2);
            let cid = rig.fake.events.borrow_mut().remove(0);
            let event = AsyncEvent::INVALID_DOORBELL_VALUE;
            rig.fake.complete(0, cid, Status::SUCCESS, event.dw0()).await;
            assert_eq!(events.receive().await, event);
            if round == 1 {
                driver.reset().await.unwrap();
            }
        }
        let cid = rig.fake.events.borrow_mut().remove(0);
        rig.fake.complete(0, cid, Status::AER_LIMIT_EXCEEDED, 0).await;
        rig.clock.sleep(Delay::from_us(50)).await;
        assert_eq!(rig.fake.events.borrow().len(), 1, "a refused request is not repeated");
    });
}

// A drive must be notified before a power loss; no command may follow.
#[test]
fn shutdown_is_the_end() {
    run(|rig| async move {
        let driver = rig.attach(DriverConfig::default()).await;
        let pair = driver.create_queue_pair(QueueConfig::new(8)).await.unwrap();
        driver.shutdown().await.unwrap();
        assert_eq!(rig.fake.csts().shst(), Csts::SHST_COMPLETE);
        assert_eq!(pair.execute(Flush.sqe(0, 1)).await, Err(Lost::ShutDown));
        assert_eq!(driver.shutdown().await, Err(DriverError::Gone(Lost::ShutDown)));
        assert!(!rig.fake.rung.borrow().contains_key(&Doorbell::SubmissionTail(1).offset(0)));
    });
}
