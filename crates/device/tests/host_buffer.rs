//! Host Memory Buffer: what a host may ask for, what the drive keeps there, and that nothing is lost with it.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use crate::fixture::*;
use byteway_clock::Delay;
use byteway_device::HostBufferConfig;
use byteway_firmware::FtlCounters;
use byteway_link::{Direction, Purpose};
use byteway_wire::FromBytes;
use byteway_wire::nvme::feature::{HostBufferEntry, HostMemoryBuffer};
use byteway_wire::nvme::{Cns, IdentifyController};
use byteway_wire::nvme::{GetFeatures, Identify, NvmOpcode, Select, SetFeatures, Status, fid};

/// Units of a translation page.
const PAGE_UNITS: u64 = 1024;
/// Translation pages of the namespace whose blocks are units.
const MAP_PAGES: u64 = NS_4K_UNITS / PAGE_UNITS;
const CONFIG: HostBufferConfig = HostBufferConfig { preferred_units: 6, least_units: 2 };

/// A drive whose DRAM holds one translation page.
fn bench() -> Bench {
    let mut bench = Bench::default();
    bench.drive.ftl.map_cache_pages = Some(1);
    bench.drive.controller.host_buffer = Some(CONFIG);
    bench
}

/// Memory of a host, with the list of it.
struct Lent {
    runs: Vec<HostBufferEntry>,
    list: u64,
}

impl Lent {
    fn of(host: &TestHost, pages: &[u32]) -> Lent {
        let run = |pages: &u32| HostBufferEntry { address: host.pages(*pages as usize), pages: *pages };
        let runs: Vec<HostBufferEntry> = pages.iter().map(run).collect();
        let list: Vec<u8> = runs.iter().flat_map(HostBufferEntry::to_bytes).collect();
        Lent { list: host.holding(&list), runs }
    }

    fn asked(&self) -> HostMemoryBuffer {
        HostMemoryBuffer {
            is_enabled: true,
            is_returned: false,
            pages: self.runs.iter().map(|run| run.pages).sum(),
            list: self.list,
            entries: self.runs.len() as u32,
        }
    }

    fn free(&self, host: &TestHost) {
        self.runs.iter().for_each(|run| host.memory().free(run.address, run.pages as usize));
    }
}

async fn set(host: &TestHost, asked: HostMemoryBuffer) -> Status {
    host.admin(asked.command().sqe(0, 0)).await.status()
}

async fn current(host: &TestHost) -> (u32, Vec<u8>) {
    let page = host.pages(1);
    let get = GetFeatures { fid: fid::HOST_MEMORY_BUFFER, sel: Select::CURRENT, ..GetFeatures::default() };
    let cqe = host.admin(get.sqe(0, 0).with_prp(page, 0)).await;
    assert!(cqe.status().is_success(), "{}", cqe.status());
    (cqe.dw0, host.peek(page, 16))
}

fn crossed(host: &TestHost) -> [u64; 2] {
    Direction::ALL.map(|direction| host.end().ledger().entry(Purpose::HostBuffer, direction).payload)
}

fn counters(host: &TestHost) -> FtlCounters {
    host.drive().controller.ftl().counters()
}

/// The first unit of each translation page, with a pattern of its own; all of it on flash.
async fn fill(host: &TestHost, pair: &Pair) {
    for page in 0..MAP_PAGES {
        let data = host.holding(&pattern(page, 4096));
        let write = read_write(NvmOpcode::WRITE, NS_4K, page * PAGE_UNITS, 1).with_prp(data, 0);
        assert!(host.io(pair, write).await.status().is_success());
    }
    flush(host, pair).await;
    look_at_all(host, pair).await; // pages that leave dirty are written
    flush(host, pair).await;
}

async fn flush(host: &TestHost, pair: &Pair) {
    let flush = byteway_wire::nvme::Flush.sqe(0, NS_4K);
    assert!(host.io(pair, flush).await.status().is_success());
}

/// Reads what [`fill`] has written.
async fn look_at_all(host: &TestHost, pair: &Pair) {
    let data = host.pages(1);
    for page in 0..MAP_PAGES {
        let read = read_write(NvmOpcode::READ, NS_4K, page * PAGE_UNITS, 1).with_prp(data, 0);
        assert!(host.io(pair, read).await.status().is_success());
        assert_eq!(host.peek(data, 4096), pattern(page, 4096), "page {page}");
    }
}

#[test]
fn translation_pages_come_from_the_host() {
    bench().with_queue(async |host, pair| {
        let id = host.pages(1);
        host.succeed(Identify { cns: Cns::CONTROLLER, ..Identify::default() }.sqe(0, 0).with_prp(id, 0))
            .await;
        let id = IdentifyController::read_from_bytes(&host.peek(id, 4096)).unwrap();
        assert_eq!((id.hmpre, id.hmmin, id.hmminds, id.hmmaxd), (6, 2, 0, 256));
        fill(&host, &pair).await;
        assert_eq!(crossed(&host), [0, 0], "nothing was lent");
        let lent = Lent::of(&host, &[1, 3, 2]);
        assert_eq!(set(&host, lent.asked()).await, Status::SUCCESS);
        let list = 3 * HostBufferEntry::BYTES as u64;
        assert_eq!(crossed(&host), [list, 0]);
        for _ in 0..3 {
            look_at_all(&host, &pair).await;
        }
        // One page is in DRAM and six of eight have copies, so with pages accessed in turn each access misses
        // the page that was evicted last.
        let stored = counters(&host).map_copies_stored;
        assert_eq!((crossed(&host), counters(&host).map_copies_loaded), ([list, stored * 4096], 0));
        for _ in 0..3 {
            let data = host.pages(1);
            for page in [5, 6, 7] {
                let read = read_write(NvmOpcode::READ, NS_4K, page * PAGE_UNITS, 1).with_prp(data, 0);
                assert!(host.io(&pair, read).await.status().is_success());
                assert_eq!(host.peek(data, 4096), pattern(page, 4096), "page {page}");
            }
        }
        let loaded = counters(&host).map_copies_loaded;
        assert_eq!(loaded, 9, "the one that was in DRAM has left for the first");
        assert_eq!(crossed(&host)[0], list + loaded * 4096);
        assert_eq!(counters(&host).map_copies_damaged, 0);
    });
}

#[test]
fn what_a_host_asks_for_is_judged() {
    bench().enabled(async |host| {
        let lent = Lent::of(&host, &[2, 2]);
        let good = lent.asked();
        let hole = host.hole();
        let wrong = [
            HostMemoryBuffer { entries: 0, ..good },
            HostMemoryBuffer { entries: 257, ..good },
            HostMemoryBuffer { entries: u32::MAX, pages: u32::MAX, ..good },
            HostMemoryBuffer { pages: 1, ..good },
            HostMemoryBuffer { pages: 0, ..good },
        ];
        for asked in wrong {
            assert!(set(&host, asked).await.is(Status::INVALID_FIELD), "{asked:?}");
        }
        for entry in [
            HostBufferEntry { address: lent.runs[0].address + 512, pages: 4 },
            HostBufferEntry { address: u64::MAX - 4095, pages: 2 },
            HostBufferEntry { address: lent.runs[0].address, pages: 0 },
            HostBufferEntry { address: lent.runs[0].address, pages: 1 },
        ] {
            let list = host.holding(&entry.to_bytes());
            let asked = HostMemoryBuffer { list, entries: 1, ..good };
            assert!(set(&host, asked).await.is(Status::INVALID_FIELD), "{entry:?}");
        }
        let unreachable = HostMemoryBuffer { list: hole, ..good };
        assert!(set(&host, unreachable).await.is(Status::DATA_TRANSFER_ERROR));
        let saved = SetFeatures { sv: true, ..good.command() };
        assert!(host.admin(saved.sqe(0, 0)).await.status().is(Status::FEATURE_NOT_SAVEABLE));
        assert!(
            host.admin(good.command().sqe(0, NS_4K))
                .await
                .status()
                .is(Status::FEATURE_NOT_NAMESPACE_SPECIFIC)
        );
        assert_eq!(current(&host).await, (0, vec![0; 16]), "none of these was taken");

        assert_eq!(set(&host, good).await, Status::SUCCESS);
        assert!(set(&host, good).await.is(Status::COMMAND_SEQUENCE_ERROR), "there is one already");
        let (enabled, attributes) = current(&host).await;
        let expected = [&4u32.to_le_bytes()[..], &good.list.to_le_bytes(), &2u32.to_le_bytes()].concat();
        assert_eq!((enabled, attributes), (1, expected));
        for _ in 0..2 {
            assert_eq!(set(&host, HostMemoryBuffer::default()).await, Status::SUCCESS, "again, too");
            assert_eq!(current(&host).await, (0, vec![0; 16]));
        }
        let returned = HostMemoryBuffer { is_returned: true, ..good };
        assert_eq!(set(&host, returned).await, Status::SUCCESS);
        // A run of the whole address space is used up to the size that the drive requested.
        set(&host, HostMemoryBuffer::default()).await;
        let all = host.holding(&HostBufferEntry { address: 0, pages: u32::MAX }.to_bytes());
        let asked = HostMemoryBuffer { list: all, entries: 1, pages: u32::MAX, ..good };
        assert_eq!(set(&host, asked).await, Status::SUCCESS);
    });
}

#[test]
fn a_drive_that_asks_for_none_has_no_such_feature() {
    Bench::default().enabled(async |host| {
        let lent = Lent::of(&host, &[8]);
        assert!(set(&host, lent.asked()).await.is(Status::INVALID_FIELD));
        let get = GetFeatures { fid: fid::HOST_MEMORY_BUFFER, ..GetFeatures::default() };
        let page = host.pages(1);
        assert!(host.admin(get.sqe(0, 0).with_prp(page, 0)).await.status().is(Status::INVALID_FIELD));
    });
    let mut whole = Bench::default();
    whole.drive.controller.host_buffer = Some(CONFIG);
    let error = whole.drive.validate().unwrap_err().to_string();
    assert!(error.contains("firmware.map_cache"), "{error}");
}

// Hosts may write to memory that they have lent, or withdraw it without notice: the drive's data must stay
// readable.
#[test]
fn what_becomes_of_the_memory_harms_nothing() {
    for takes_away in [false, true] {
        bench().with_queue(async move |host, pair| {
            fill(&host, &pair).await;
            let lent = Lent::of(&host, &[6]);
            assert_eq!(set(&host, lent.asked()).await, Status::SUCCESS);
            look_at_all(&host, &pair).await;
            let address = lent.runs[0].address;
            if takes_away {
                lent.free(&host);
            } else {
                host.poke(address, &[0xff; 6 * 4096]);
            }
            let data = host.pages(1);
            for page in (0..MAP_PAGES).rev() {
                let read = read_write(NvmOpcode::READ, NS_4K, page * PAGE_UNITS, 1).with_prp(data, 0);
                assert!(host.io(&pair, read).await.status().is_success());
                assert_eq!(host.peek(data, 4096), pattern(page, 4096), "page {page}");
            }
            assert!(counters(&host).map_copies_damaged > 0);
        });
    }
}

// After a reset, a shutdown or the command that returns the memory, the host uses it for something else: the
// drive must not write to it any more, at whatever moment that command comes.
#[test]
fn nothing_reaches_memory_that_was_given_back() {
    #[derive(Clone, Copy, Debug)]
    enum End {
        Feature,
        Reset,
        Shutdown,
        Function,
    }
    for end in [End::Feature, End::Reset, End::Shutdown, End::Function] {
        for moment in 0..60 {
            bench().with_queue(async move |host, pair| {
                fill(&host, &pair).await;
                let lent = Lent::of(&host, &[3, 3]);
                assert_eq!(set(&host, lent.asked()).await, Status::SUCCESS);
                look_at_all(&host, &pair).await;
                // Reads of pages that have copies and of such as have none, all at once.
                for page in (0..MAP_PAGES).rev() {
                    let data = host.pages(1);
                    let read = read_write(NvmOpcode::READ, NS_4K, page * PAGE_UNITS, 1).with_prp(data, 0);
                    host.place(&pair.sq, read);
                }
                host.ring_tail(&pair.sq);
                host.sleep(Delay::from_us(7 * moment)).await;
                match end {
                    End::Feature => {
                        assert_eq!(set(&host, HostMemoryBuffer::default()).await, Status::SUCCESS)
                    }
                    End::Reset => host.disable().await,
                    End::Shutdown => {
                        host.set_cc(cc().with_shn(1));
                        host.csts_until(|csts| csts.shst() == 2).await;
                    }
                    End::Function => host.drive().controller.reset().await,
                }
                let then = crossed(&host);
                for run in &lent.runs {
                    host.poke(run.address, &vec![0xA5; run.pages as usize * 4096]);
                }
                host.sleep(LONG).await;
                if let End::Feature = end {
                    host.next_many(&pair.cq, MAP_PAGES as usize).await;
                    look_at_all(&host, &pair).await;
                }
                assert_eq!(crossed(&host), then, "{end:?} at {moment}");
                for run in &lent.runs {
                    let bytes = host.peek(run.address, run.pages as usize * 4096);
                    assert!(bytes.iter().all(|byte| *byte == 0xA5), "{end:?} at {moment}");
                }
                if let End::Reset | End::Function = end {
                    host.enable().await;
                    let pair = host.create_pair(1, 64).await;
                    assert_eq!(current(&host).await.0, 0, "it is to be lent again");
                    assert_eq!(set(&host, lent.asked()).await, Status::SUCCESS);
                    look_at_all(&host, &pair).await;
                }
            });
        }
    }
}
