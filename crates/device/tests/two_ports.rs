//! A drive with two ports, a host at each: one NVM subsystem, two controllers, the same namespaces.
//!
//! Verified: that what one host writes the other reads; that resets, shutdowns and nonsense of one leave the other alone, and what it
//! reads right; that formats and deletions wait for the commands of both; that both are told; what Identify says; what of both
//! survives a power cut. Not verified here: the other ways in which commands end early, which one port has too (`cancellation.rs`).

use crate::fixture::management::{delete, format, wanted};
use crate::fixture::{
    Bench, NS_4K, NS_512, Pair, TestHost, cc, drive_config, get_features, pattern, read_write, set_features,
};
use byteway_clock::random::Rng;
use byteway_clock::{Delay, Executor};
use byteway_content::BlockSize;
use byteway_device::{HostBufferConfig, MemoryConfig};
use byteway_flash::Medium;
use byteway_link::{CxlConfig, Flit, Memory};
use byteway_testkit::{SmallWorld, link_config};
use byteway_wire::nvme::command::{FUSE_FIRST, FUSE_SECOND};
use byteway_wire::nvme::feature::{AsyncEventConfig, HostBufferEntry, HostMemoryBuffer};
use byteway_wire::nvme::register::Csts;
use byteway_wire::nvme::vendor::Methods;
use byteway_wire::nvme::{
    ActiveNamespaceList, AsyncEvent, ChangedNamespaceLog, Cns, ControllerList, DeviceSelfTest, Flush,
    IdentifyController, NamespaceAttachment, NamespaceManagement, NvmOpcode, Sanitize, Select, SelfTestLog,
    SetFeatures, SmartLog, Status, fid, lid,
};
use byteway_wire::{FromBytes, IntoBytes};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A host at each port of a drive, and a queue pair of each.
struct Both {
    hosts: [TestHost; 2],
    pairs: [Pair; 2],
}

/// Runs `test` with both controllers enabled. In the end both are quiet, and nothing is locked.
fn run<T: 'static>(bench: Bench, test: impl AsyncFnOnce(&Both) -> T + 'static) -> T {
    bench.run(async |first| {
        let second = first.beside();
        let both = enable([first, second]).await;
        let result = test(&both).await;
        both.hosts[0].sleep(Delay::from_ms(200)).await;
        for host in &both.hosts {
            assert!(host.controller().is_quiet(), "slots, permits and tags are free");
            assert_eq!(host.end().faults(), 0, "posted writes into memory that is not there");
        }
        assert_eq!(both.hosts[0].controller().ftl().units_locked(), 0);
        result
    })
}

async fn enable(hosts: [TestHost; 2]) -> Both {
    for host in &hosts {
        host.enable().await;
    }
    let pairs = [hosts[0].create_pair(1, 64).await, hosts[1].create_pair(1, 64).await];
    Both { hosts, pairs }
}

fn controller_of(page: &[u8]) -> IdentifyController {
    IdentifyController::read_from_bytes(page).expect("a page is as long as its structure")
}

async fn list(host: &TestHost, cns: Cns, nsid: u32) -> Vec<u16> {
    let page = host.identify(cns, nsid).await;
    let list = ControllerList::read_from_bytes(&page).expect("a page is as long as its structure");
    list.ids().expect("identifiers ascend").to_vec()
}

async fn smart(host: &TestHost) -> SmartLog {
    SmartLog::read_from_bytes(&host.log(lid::SMART, 0, 512).await)
        .expect("a page is as long as its structure")
}

/// The namespaces that have changed, by the log, which is read: events of that come again.
async fn changed(host: &TestHost) -> Vec<u32> {
    let page = host.log(lid::CHANGED_NAMESPACE_LIST, 0, 4096).await;
    let log = ChangedNamespaceLog::read_from_bytes(&page).expect("a page is as long as its structure");
    let nsids = log.nsids;
    nsids.into_iter().take_while(|nsid| *nsid > 0).collect()
}

// A host that takes the ports for two drives uses its data twice; one that finds no data by the second has no second path.
#[test]
fn two_controllers_have_the_same_namespaces_and_say_so() {
    run(Bench::default(), async |Both { hosts, pairs }| {
        for (from, to) in [(0, 1), (1, 0)] {
            for (nsid, slba) in [(NS_4K, 7), (NS_512, 9)] {
                let bytes = pattern(slba + from as u64, 8192);
                assert_eq!(hosts[from].write(&pairs[from], nsid, slba, &bytes).await, Status::SUCCESS);
                let blocks = if nsid == NS_4K { 2 } else { 16 };
                assert_eq!(hosts[to].read(&pairs[to], nsid, slba, blocks).await, bytes, "{from} to {to}");
            }
        }
        let first = controller_of(&hosts[0].identify(Cns::CONTROLLER, 0).await);
        let second = controller_of(&hosts[1].identify(Cns::CONTROLLER, 0).await);
        assert_eq!((first.cntlid, second.cntlid), (1, 2));
        assert_eq!((first.cmic, second.cmic), (3, 3), "several ports and controllers");
        assert_eq!((first.sn, first.subnqn), (second.sn, second.subnqn), "of one subsystem");
        for host in hosts {
            assert_eq!(list(host, Cns::CONTROLLERS, 0).await, [1, 2]);
            assert_eq!(list(host, Cns::NAMESPACE_CONTROLLERS, NS_4K).await, [1, 2]);
            assert_eq!(host.namespace(NS_4K).await.nmic, 1);
            assert_eq!(host.identify(Cns::INDEPENDENT_NAMESPACE, NS_4K).await[1], 1);
        }
        let names = [
            hosts[0].identify(Cns::NAMESPACE_DESCRIPTORS, NS_4K).await,
            hosts[1].identify(Cns::NAMESPACE_DESCRIPTORS, NS_4K).await,
        ];
        assert_eq!(names[0], names[1], "one namespace, whichever way");
    });
}

// A drive that says that it has two ports, and has one, has hosts wait for the other path.
#[test]
fn with_one_port_a_drive_speaks_of_one() {
    Bench::default().enabled(async |host| {
        let id = controller_of(&host.identify(Cns::CONTROLLER, 0).await);
        assert_eq!((id.cntlid, id.cmic), (1, 0));
        assert_eq!(list(&host, Cns::CONTROLLERS, 0).await, [1]);
        assert_eq!(host.namespace(NS_4K).await.nmic, 0);
        let shared = byteway_wire::nvme::IdentifyNamespace { nmic: 1, ..wanted(100, 1) };
        host.succeed(delete(NS_512)).await;
        host.refused(host.create_sqe(&shared), Status::INVALID_FIELD).await;
    });
}

// State that a drive keeps for one host only would be shared by two.
#[test]
fn a_drive_for_one_host_gets_no_second_port() {
    let mut config = drive_config();
    config.transfer.methods = Methods::new().with_cxl_mem(true);
    config.transfer.memory = Some(MemoryConfig {
        link: CxlConfig { flit: Flit::Bytes68, memory_latency: Delay::from_ns(80) },
        area_bytes: 4096,
        records: 0,
        poll: Delay::from_us(1),
    });
    SmallWorld::of(config).run(async |powered| {
        let refused = powered.add_port(link_config(), Memory::simulated()).map(drop);
        assert!(refused.is_err_and(|error| error.message.contains("only one port")));
    });
    SmallWorld::default().run(async |powered| {
        let _second = powered.add_port(link_config(), Memory::simulated()).expect("a second port");
        let refused = powered.add_port(link_config(), Memory::simulated()).map(drop);
        assert!(refused.is_err_and(|error| error.message.contains("two ports at most")));
    });
}

/// Writes and reads blocks from `base` on until told to stop, and verifies; gives how often.
async fn work(host: TestHost, pair: Pair, base: u64, stop: Rc<Cell<bool>>) -> u64 {
    let mut rounds = 0;
    while !stop.get() {
        let slba = base + rounds % 16;
        let bytes = pattern(rounds + 1, 4096);
        assert_eq!(host.write(&pair, NS_4K, slba, &bytes).await, Status::SUCCESS, "round {rounds}");
        assert_eq!(host.read(&pair, NS_4K, slba, 1).await, bytes, "round {rounds}");
        rounds += 1;
    }
    rounds
}

// A host that crashes and comes up again, however often and whenever, must not be noticed at the other port: neither by a command
// that fails, nor by a block that the reset has taken, nor by something that stays locked.
#[test]
fn resets_of_one_port_leave_the_other_working() {
    run(Bench::default(), async |both| {
        let [one, other] = both.hosts.clone();
        let stop = Rc::new(Cell::new(false));
        let (worked, ended) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
        let (own, done, pair, until) = (worked.clone(), ended.clone(), both.pairs[1].clone(), stop.clone());
        one.clock().spawn("the other host", async move {
            own.set(work(other.clone(), pair, 1000, until).await);
            done.set(true);
        });
        let mut pair = both.pairs[0].clone();
        let mut model = vec![vec![0; 4096]; 4];
        for instant in 0..150u64 {
            // Whole units, parts of one, a Flush, a Compare and Write: each at another instant of its life.
            let slba = instant % 4;
            let new = pattern(10_000 + instant, 4096);
            let write = one.write_sqe(NS_4K, slba, &new);
            match instant % 3 {
                0 => _ = one.place(&pair.sq, write),
                1 => {
                    let mut compare = one.write_sqe(NS_4K, slba, &model[slba as usize]).with_fuse(FUSE_FIRST);
                    compare.set_opcode(NvmOpcode::COMPARE);
                    one.place(&pair.sq, compare);
                    one.place(&pair.sq, write.with_fuse(FUSE_SECOND));
                }
                _ => {
                    one.place(&pair.sq, write);
                    one.place(&pair.sq, Flush.sqe(0, NS_4K));
                    one.place(&pair.sq, one.write_sqe(NS_512, 8 * slba + 1, &new[..512]));
                }
            }
            one.ring_tail(&pair.sq);
            one.sleep(Delay::from_ns(173 * instant)).await;
            if instant % 2 == 0 {
                one.disable().await;
            } else {
                one.controller().reset().await;
            }
            one.enable().await;
            pair = one.create_pair(1, 64).await;
            let found = one.read(&pair, NS_4K, slba, 1).await;
            assert!(found == model[slba as usize] || found == new, "a block is old or new");
            model[slba as usize] = found;
        }
        stop.set(true);
        while !ended.get() {
            one.sleep(Delay::from_us(10)).await;
        }
        assert!(worked.get() > 150, "the other host goes on: {} rounds", worked.get());
    });
}

// A format that takes effect while the other host's commands run gives it blocks of the past, or takes what it writes to a namespace
// that is empty by now.
#[test]
fn a_format_waits_for_the_commands_of_both() {
    let mut bench = Bench::default();
    bench.drive.timing.read = vec![Delay::from_us(400)];
    run(bench, async |Both { hosts, pairs }| {
        let [one, other] = hosts;
        for round in 0..12u64 {
            let old = pattern(round, 4096);
            assert_eq!(one.write(&pairs[0], NS_4K, 3, &old).await, Status::SUCCESS);
            one.io(&pairs[0], Flush.sqe(0, NS_4K)).await;
            // At the other port a read and a write are in flight, each as far as the round says.
            let page = other.pages(1);
            let read = read_write(NvmOpcode::READ, NS_4K, 3, 1).with_prp(page, 0);
            let read = other.submit(&pairs[1].sq, read);
            let write = other.submit(&pairs[1].sq, other.write_sqe(NS_4K, 4, &old));
            other.sleep(Delay::from_us(7 * round)).await;
            one.succeed(format(NS_4K, BlockSize::B4096, 0)).await;
            let read = other.completion(&pairs[1].cq, read).await.status();
            let write = other.completion(&pairs[1].cq, write).await.status();
            for status in [read, write] {
                assert!([Status::SUCCESS, Status::FORMAT_IN_PROGRESS].contains(&status), "{status:?}");
            }
            if read == Status::SUCCESS {
                let found = other.peek(page, 4096);
                assert!(found == old || found == [0; 4096], "round {round}");
            }
            for (host, pair) in hosts.iter().zip(pairs) {
                assert_eq!(host.read(pair, NS_4K, 3, 2).await, [0; 8192], "round {round}: nothing is left");
            }
        }
    });
}

// No look-up finds a namespace that is gone, whichever controller deleted it; and what it held is no other's.
#[test]
fn a_namespace_is_deleted_and_attached_for_both() {
    run(Bench::default(), async |Both { hosts, pairs }| {
        let [one, other] = hosts;
        let read =
            other.submit(&pairs[1].sq, read_write(NvmOpcode::READ, NS_4K, 3, 1).with_prp(other.pages(1), 0));
        one.succeed(delete(NS_4K)).await;
        other.completion(&pairs[1].cq, read).await;
        let (status, _) = other.try_read(&pairs[1], NS_4K, 0, 1, 4096).await;
        assert_eq!(status, Status::INVALID_FIELD.with_dnr());
        // The other one creates it again, shared or as it stands, and attaches it: to itself, to the first, or to both.
        for (ids, nmic) in [(vec![2], 1), (vec![1], 0), (vec![1, 2], 1)] {
            let asked = byteway_wire::nvme::IdentifyNamespace { nmic, ..wanted(500, 1) };
            let nsid = other.succeed(other.create_sqe(&asked)).await;
            assert_eq!(nsid, NS_4K);
            assert_eq!(list(one, Cns::NAMESPACE_CONTROLLERS, nsid).await, [0; 0]);
            let attach = |host: &TestHost, ids: &[u16]| {
                let page = host.holding(ControllerList::from(0, ids.iter().copied()).as_bytes());
                NamespaceAttachment { sel: NamespaceAttachment::ATTACH }.sqe(0, nsid).with_prp(page, 0)
            };
            for wrong in [vec![], vec![3], vec![1, 3], vec![0]] {
                other.refused(attach(other, &wrong), Status::CONTROLLER_LIST_INVALID).await;
            }
            other.succeed(attach(other, &ids)).await;
            one.identify(Cns::NAMESPACE, nsid).await;
            let bytes = pattern(u64::from(nmic), 4096);
            assert_eq!(one.write(&pairs[0], nsid, 11, &bytes).await, Status::SUCCESS);
            assert_eq!(other.read(&pairs[1], nsid, 11, 1).await, bytes);
            let sel = NamespaceManagement::DELETE;
            one.succeed(NamespaceManagement { sel, csi: 0 }.sqe(0, nsid)).await;
        }
        let page = other.identify(Cns::ACTIVE_NAMESPACES, 0).await;
        let list = ActiveNamespaceList::read_from_bytes(&page).expect("a page is as long as its structure");
        assert_eq!(list.iter().collect::<Vec<_>>(), [NS_512]);
    });
}

// A host that is not told reads and writes a namespace that has become another. Each has its own list: one that reads it must not
// take from the other what that has not read.
#[test]
fn both_hosts_are_told_of_what_concerns_both() {
    run(Bench::default(), async |Both { hosts, .. }| {
        let notices = AsyncEventConfig::new().with_namespace_attribute(true).into_bits();
        let mut requests = Vec::new();
        for host in hosts {
            host.set_feature(fid::ASYNC_EVENT_CONFIGURATION, notices).await;
            requests.push(host.request_event());
        }
        hosts[0].succeed(format(NS_512, BlockSize::B4096, 0)).await;
        for (host, request) in hosts.iter().zip(&requests) {
            let cqe = host.completion(&host.admin_pair().cq, *request).await;
            assert_eq!(AsyncEvent::from_dw0(cqe.dw0), AsyncEvent::NAMESPACE_ATTRIBUTE_CHANGED);
        }
        assert_eq!(changed(&hosts[0]).await, [NS_512]);
        assert_eq!(changed(&hosts[0]).await, [0; 0]);
        assert_eq!(changed(&hosts[1]).await, [NS_512], "the other's reading takes nothing from it");
        // Sanitize, requested at the second port.
        let requests: Vec<u16> = hosts.iter().map(TestHost::request_event).collect();
        hosts[1].succeed(Sanitize { sanact: Sanitize::BLOCK_ERASE, ..Sanitize::default() }.sqe(0)).await;
        for (host, request) in hosts.iter().zip(requests) {
            let cqe = host.completion(&host.admin_pair().cq, request).await;
            assert_eq!(AsyncEvent::from_dw0(cqe.dw0), AsyncEvent::SANITIZE_COMPLETED);
        }
    });
}

// A test that the reset of another's controller ends never comes to its end on a drive with a host that restarts.
#[test]
fn a_self_test_ends_with_the_controller_that_it_was_asked_of() {
    let mut bench = Bench::default();
    bench.drive.timing.read = vec![Delay::from_ms(1)];
    bench.drive.base = byteway_firmware::Base::Filled;
    run(bench, async |Both { hosts, .. }| {
        let log = async |host: &TestHost| {
            let page = host.log(lid::DEVICE_SELF_TEST, 0, 564).await;
            SelfTestLog::read_from_bytes(&page).expect("a page is as long as its structure")
        };
        let short = DeviceSelfTest { stc: DeviceSelfTest::SHORT }.sqe(0, NS_4K);
        hosts[1].succeed(short).await;
        let again = hosts[0].admin(short).await.status();
        assert_eq!(again, Status::SELF_TEST_IN_PROGRESS, "one at a time in the subsystem");
        hosts[0].disable().await;
        hosts[0].enable().await;
        assert_eq!(log(&hosts[0]).await.current, DeviceSelfTest::SHORT, "it goes on");
        hosts[1].disable().await;
        hosts[1].enable().await;
        assert_eq!(log(&hosts[0]).await.current, 0, "it has ended");
    });
}

/// A life of a drive with two hosts, over `medium`, that ends with a power cut. `test` is given controllers that are not enabled.
fn life<T: 'static>(
    medium: Option<Medium>,
    test: impl AsyncFnOnce([TestHost; 2]) -> T + 'static,
) -> (T, Medium) {
    SmallWorld { medium, ..SmallWorld::default() }.run(async |powered| {
        let first = TestHost::over(powered);
        let second = first.beside();
        let result = test([first.clone(), second]).await;
        (result, first.power_off())
    })
}

async fn shut_down(host: &TestHost) {
    host.set_cc(cc().with_shn(1));
    host.csts_until(|csts| csts.shst() == Csts::SHST_COMPLETE).await;
}

// A host that shuts its controller down may not stop the other's; and a drive that one still uses was not shut down.
#[test]
fn the_drive_is_shut_down_with_its_last_controller() {
    let (_, medium) = life(None, async |hosts| {
        let both = enable(hosts).await;
        let [one, other] = &both.hosts;
        shut_down(one).await;
        let bytes = pattern(5, 4096);
        assert_eq!(other.write(&both.pairs[1], NS_4K, 5, &bytes).await, Status::SUCCESS);
        assert_eq!(other.read(&both.pairs[1], NS_4K, 5, 1).await, bytes);
        other.io(&both.pairs[1], Flush.sqe(0, NS_4K)).await;
    });
    let (_, medium) = life(Some(medium), async |hosts| {
        let both = enable(hosts).await;
        let [one, other] = &both.hosts;
        assert_eq!(smart(one).await.unsafe_shutdowns.get(), 1, "one was in use");
        assert_eq!(one.read(&both.pairs[0], NS_4K, 5, 1).await, pattern(5, 4096));
        shut_down(other).await;
        shut_down(one).await;
    });
    life(Some(medium), async |hosts| {
        let both = enable(hosts).await;
        assert_eq!(smart(&both.hosts[1]).await.unsafe_shutdowns.get(), 1, "none was in use");
    });
}

// The record has the features of the first controller: a store on the second's behalf must not forget them, and what the second
// could not keep it must not take.
#[test]
fn saved_features_and_counters_are_kept_for_both() {
    let (_, medium) = life(None, async |hosts| {
        let both = enable(hosts).await;
        let [one, other] = &both.hosts;
        let saved = |cdw11| SetFeatures { sv: true, fid: fid::ARBITRATION, cdw11, ..SetFeatures::default() };
        one.succeed(saved(3).sqe(0, 0)).await;
        other.refused(saved(5).sqe(0, 0), Status::FEATURE_NOT_SAVEABLE).await;
        let supported = get_features(fid::ARBITRATION, Select::SUPPORTED, 0);
        assert_eq!(one.succeed(supported).await & Select::SAVEABLE, Select::SAVEABLE);
        assert_eq!(other.succeed(supported).await & Select::SAVEABLE, 0);
        other.succeed(set_features(fid::ARBITRATION, 5)).await;
        assert_eq!((one.feature(fid::ARBITRATION).await, other.feature(fid::ARBITRATION).await), (3, 5));
        for (host, pair) in both.hosts.iter().zip(&both.pairs) {
            for slba in 0..3 {
                assert_eq!(host.write(pair, NS_4K, slba, &pattern(slba, 4096)).await, Status::SUCCESS);
            }
        }
        for host in &both.hosts {
            assert_eq!(smart(host).await.host_write_commands.get(), 6, "the subsystem's");
        }
        other.succeed(format(NS_512, BlockSize::B4096, 0)).await; // the second stores the record
    });
    life(Some(medium), async |hosts| {
        let both = enable(hosts).await;
        let [one, other] = &both.hosts;
        assert_eq!((one.feature(fid::ARBITRATION).await, other.feature(fid::ARBITRATION).await), (3, 7));
        assert_eq!(smart(other).await.host_write_commands.get(), 6);
        assert_eq!(one.namespace(NS_512).await.flbas, 1, "what the second has stored");
    });
}

// Locks over a shared drive are Compare and Write from two hosts: both having one at once is a lost lock.
#[test]
fn compare_and_write_is_atomic_between_the_ports() {
    run(Bench::default(), async |both| {
        const ROUNDS: u64 = 40;
        let block = |value: u64| {
            let mut block = vec![0; 4096];
            block[..8].copy_from_slice(&value.to_le_bytes());
            block
        };
        let (won, ended) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        for (host, pair) in both.hosts.iter().cloned().zip(both.pairs.clone()) {
            let (won, ended) = (won.clone(), ended.clone());
            both.hosts[0].clock().spawn("one that counts", async move {
                for _ in 0..ROUNDS {
                    let now = host.read(&pair, NS_4K, 9, 1).await;
                    let value = u64::from_le_bytes(now[..8].try_into().expect("eight bytes"));
                    let mut compare = host.write_sqe(NS_4K, 9, &now).with_fuse(FUSE_FIRST);
                    compare.set_opcode(NvmOpcode::COMPARE);
                    host.place(&pair.sq, compare);
                    host.place(&pair.sq, host.write_sqe(NS_4K, 9, &block(value + 1)).with_fuse(FUSE_SECOND));
                    host.ring_tail(&pair.sq);
                    let statuses = [host.next(&pair.cq).await.status(), host.next(&pair.cq).await.status()];
                    match statuses {
                        [Status::SUCCESS, Status::SUCCESS] => won.set(won.get() + 1),
                        [status, _] => assert_eq!(status, Status::COMPARE_FAILURE),
                    }
                }
                ended.set(ended.get() + 1);
            });
        }
        while ended.get() < 2 {
            both.hosts[0].sleep(Delay::from_us(10)).await;
        }
        let last = both.hosts[0].read(&both.pairs[0], NS_4K, 9, 1).await;
        assert_eq!(last, block(won.get()), "every success is counted once");
        assert!(
            won.get() >= ROUNDS && won.get() < 2 * ROUNDS,
            "they were in each other's way: {}",
            won.get()
        );
    });
}

// Registers, doorbells and entries of no sense, and memory that is not there, are one host's own affair.
#[test]
fn nonsense_at_one_port_is_not_noticed_at_the_other() {
    for seed in 0..6 {
        let bench = Bench { ends_quiet: false, ..Bench::default() };
        bench.run(async move |other| {
            let one = other.beside();
            let both = enable([other, one]).await;
            let [other, one] = both.hosts;
            let stop = Rc::new(Cell::new(false));
            let (ended, until) = (Rc::new(Cell::new(0)), stop.clone());
            let (done, pair, working) = (ended.clone(), both.pairs[0].clone(), other.clone());
            other.clock().spawn("the host that works", async move {
                done.set(1 + work(working, pair, 2000, until).await);
            });
            let mut random = Rng::new(seed).stream("nonsense");
            let pair = &both.pairs[1];
            for _ in 0..400 {
                match random.below(6) {
                    0 => one.write32(4 * random.below(64), random.next_u64() as u32),
                    1 => one.write32(0x1000 + 4 * random.below(16), random.next_u64() as u32),
                    2 => one.end().write64(8 * random.below(32), random.next_u64()),
                    3 => {
                        let words: Vec<u8> = (0..8).flat_map(|_| random.next_u64().to_le_bytes()).collect();
                        let entry = byteway_wire::nvme::Sqe::read_from_bytes(&words).expect("64 bytes");
                        let mut entry = entry.with_prp(random.next_u64(), random.next_u64());
                        entry.nsid = NS_512; // what the other host doesn't use
                        one.place(&pair.sq, entry);
                        one.ring_tail(&pair.sq);
                    }
                    4 => {
                        one.set_cc(cc().with_en(random.below(2) == 0));
                    }
                    _ => {
                        one.set_admin_queues();
                        one.set_cc(cc());
                    }
                }
                one.sleep(Delay::from_ns(random.below(20_000))).await;
            }
            one.controller().reset().await;
            stop.set(true);
            while ended.get() == 0 {
                other.sleep(Delay::from_us(10)).await;
            }
            assert!(ended.get() > 20, "seed {seed}: the other host goes on");
            one.enable().await;
            let pair = one.create_pair(1, 64).await;
            assert_eq!(one.write(&pair, NS_4K, 1, &pattern(1, 4096)).await, Status::SUCCESS);
            other.sleep(Delay::from_ms(200)).await;
            assert!(one.controller().is_quiet() && other.controller().is_quiet());
            assert_eq!(one.controller().ftl().units_locked(), 0);
        });
    }
}

/// A host's knowledge of a block: the version acknowledged as durable, and the one sent last.
type Versions = Rc<RefCell<Vec<(u64, u64)>>>;

/// Writes versions of blocks from `base` on, as durable, until the power is cut.
async fn write_versions(host: TestHost, pair: Pair, base: u64, versions: Versions) {
    for round in 0u64.. {
        let index = (round % 8) as usize;
        let version = versions.borrow()[index].1 + 1;
        versions.borrow_mut()[index].1 = version;
        let bytes = pattern(version * 100 + base + index as u64, 4096);
        let write = host.write_sqe(NS_4K, base + index as u64, &bytes);
        let fua = byteway_wire::nvme::Sqe { cdw12: write.cdw12 | 1 << 30, ..write };
        if host.io(&pair, fua).await.status().is_success() {
            versions.borrow_mut()[index].0 = version;
        }
    }
}

// A write acknowledged to either host must survive a power cut at any event.
#[test]
fn a_power_cut_takes_nothing_acknowledged_from_either_host() {
    const BASES: [u64; 2] = [10, 500];
    let mut medium = None;
    let known: [Versions; 2] = [(); 2].map(|()| Rc::new(RefCell::new(vec![(0, 0); 8])));
    let mut acknowledged = 0;
    for cut in 0..24u64 {
        let executor = Executor::new();
        let powered =
            SmallWorld { medium: medium.take(), ..SmallWorld::default() }.power_on(executor.clock());
        let first = TestHost::over(powered);
        let second = first.beside();
        let (hosts, told) = ([first.clone(), second], known.clone());
        let life = async move {
            let both = enable(hosts).await;
            for port in 0..2 {
                let known = told[port].borrow().clone();
                for (index, (least, most)) in known.into_iter().enumerate() {
                    // Each is looked at by the host at the other port.
                    let other = 1 - port;
                    let slba = BASES[port] + index as u64;
                    let found = both.hosts[other].read(&both.pairs[other], NS_4K, slba, 1).await;
                    let is = |version| match version {
                        0 => found == [0; 4096],
                        _ => found == pattern(version * 100 + slba, 4096),
                    };
                    let version = (least..=most).rev().find(|version| is(*version));
                    let version = version.unwrap_or_else(|| panic!("cut {cut}: block {slba} is lost"));
                    told[port].borrow_mut()[index] = (version, version);
                }
            }
            for port in 0..2 {
                let (host, pair) = (both.hosts[port].clone(), both.pairs[port].clone());
                let writes = write_versions(host, pair, BASES[port], told[port].clone());
                both.hosts[0].clock().spawn("one that writes", writes);
            }
            std::future::pending::<()>().await;
        };
        // The first polls are those of powering on and looking.
        let _ = executor.run_cut(life, 6000 + 791 * cut);
        acknowledged +=
            known.iter().map(|known| known.borrow().iter().map(|it| it.0).sum::<u64>()).sum::<u64>();
        medium = Some(first.power_off());
    }
    assert!(acknowledged > 100, "writes were in flight at the power cut: {acknowledged}");
}

// The map borrows memory of one host: were it lent by both, a reset of one would leave the drive with memory that is not its any more.
#[test]
fn the_first_ports_host_lends_memory_alone() {
    let mut bench = Bench::default();
    bench.drive.ftl.map_cache_pages = Some(1);
    bench.drive.controller.host_buffer = Some(HostBufferConfig { preferred_units: 4, least_units: 1 });
    run(bench, async |Both { hosts, pairs }| {
        let units =
            hosts.each_ref().map(async |host| controller_of(&host.identify(Cns::CONTROLLER, 0).await).hmpre);
        let [first, second] = units;
        assert_eq!((first.await, second.await), (4, 0));
        let lent = |host: &TestHost| HostMemoryBuffer {
            is_enabled: true,
            pages: 4,
            list: host.holding(&HostBufferEntry { address: host.pages(4), pages: 4 }.to_bytes()),
            entries: 1,
            ..HostMemoryBuffer::default()
        };
        let [first, second] = hosts;
        assert!(second.admin(lent(second).command().sqe(0, 0)).await.status().is(Status::INVALID_FIELD));
        first.succeed(lent(first).command().sqe(0, 0)).await;
        for slba in [0, 1024, 2048] {
            assert_eq!(second.write(&pairs[1], NS_4K, slba, &pattern(slba, 4096)).await, Status::SUCCESS);
            assert_eq!(second.read(&pairs[1], NS_4K, slba, 1).await, pattern(slba, 4096));
        }
        // Pages go to flash, and leave copies when they leave again.
        for _ in 0..2 {
            assert!(second.io(&pairs[1], Flush.sqe(0, NS_4K)).await.status().is_success());
            for slba in [0, 1024, 2048] {
                assert_eq!(second.read(&pairs[1], NS_4K, slba, 1).await, pattern(slba, 4096));
            }
        }
        let copies = first.controller().ftl().map_copies();
        assert!(copies > 0);
        second.disable().await;
        assert_eq!(first.controller().ftl().map_copies(), copies, "the other one's reset");
        first.disable().await;
        assert_eq!(first.controller().ftl().map_copies(), 0);
    });
}

// A command that was made for blocks of 512 bytes moves eight times as many when the other host has formatted the namespace with
// 4 KiB: into memory past the buffer, wherever a stale list of pages leads. It is refused until its host has looked.
#[test]
fn commands_made_for_other_blocks_are_refused_until_their_host_has_looked() {
    run(Bench::default(), async |Both { hosts, pairs }| {
        let [one, other] = hosts;
        let status = async |port: usize| {
            let page = hosts[port].pages(2);
            let read = read_write(NvmOpcode::READ, NS_512, 0, 1).with_prp(page, 0);
            hosts[port].io(&pairs[port], read).await.status()
        };
        // A host that asks for no events has looked when it has identified the namespace.
        one.succeed(format(NS_512, BlockSize::B4096, 0)).await;
        assert_eq!(status(0).await, Status::SUCCESS, "who has formatted it knows");
        assert_eq!(status(1).await, Status::NAMESPACE_NOT_READY);
        assert_eq!(status(0).await, Status::SUCCESS);
        other.identify(Cns::NAMESPACE, NS_4K).await;
        assert_eq!(status(1).await, Status::NAMESPACE_NOT_READY, "that was another one");
        other.identify(Cns::NAMESPACE, NS_512).await;
        assert_eq!(status(1).await, Status::SUCCESS);
        // A format that leaves blocks as they are needs no look.
        one.succeed(format(NS_512, BlockSize::B4096, 0)).await;
        assert_eq!(status(1).await, Status::SUCCESS);
        // A host that is notified of changes has looked when it has read which.
        let notices = AsyncEventConfig::new().with_namespace_attribute(true).into_bits();
        other.set_feature(fid::ASYNC_EVENT_CONFIGURATION, notices).await;
        one.succeed(format(NS_512, BlockSize::B512, 0)).await;
        other.identify(Cns::NAMESPACE, NS_512).await;
        assert_eq!(status(1).await, Status::NAMESPACE_NOT_READY, "it has not read the log");
        assert_eq!(changed(other).await, [NS_512]);
        assert_eq!(status(1).await, Status::SUCCESS);
        // One that has come again has looked.
        one.succeed(format(NS_512, BlockSize::B4096, 0)).await;
        assert_eq!(status(1).await, Status::NAMESPACE_NOT_READY);
        other.disable().await;
        assert_eq!(status(0).await, Status::SUCCESS);
        other.enable().await;
        let pair = other.create_pair(1, 64).await;
        assert_eq!(other.read(&pair, NS_4K, 0, 1).await, [0; 4096]);
        let (status, _) = other.try_read(&pair, NS_512, 0, 1, 4096).await;
        assert_eq!(status, Status::SUCCESS);
        // The same identifier, another namespace.
        one.succeed(delete(NS_512)).await;
        one.succeed(one.create_sqe(&wanted(800, 0))).await;
        one.succeed(one.attach_sqe(NS_512, true)).await;
        let (status, _) = other.try_read(&pair, NS_512, 0, 1, 4096).await;
        assert_eq!(status, Status::NAMESPACE_NOT_READY);
        other.identify(Cns::NAMESPACE, NS_512).await;
        let (status, _) = other.try_read(&pair, NS_512, 0, 1, 512).await;
        assert_eq!(status, Status::SUCCESS);
    });
}
