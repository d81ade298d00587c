//! Queues whose commands are executed for another drive: "Espresso", 4.4, shadow queue pairs.
//!
//! Verified: that such a command has the borrower's data, crosses the links that it should, and keeps the cores busy that it should;
//! that resets of either, deletions, formats, taking the queue back and the end of the borrower's power, each at many moments under
//! load, lose nothing that was acknowledged, complete every command that they should, and leave nothing taken.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use crate::fixture::management::format;
use crate::fixture::{
    NS_4K, Pair, TestHost, cc, create_sq, delete_sq, drive_config, link_config, pattern, read_write,
};
use byteway_clock::{Delay, Executor, Rate};
use byteway_content::BlockSize;
use byteway_device::{Drive, DriveConfig, LendError, Loan};
use byteway_firmware::{Base, Placement, Route, Site, SiteLink, WorkKind};
use byteway_jbof::fabric::{Fabric, FabricConfig, Node};
use byteway_link::{Memory, Purpose};
use byteway_wire::nvme::vendor::loans::Loans;
use byteway_wire::nvme::{Cqe, Flush, NvmOpcode, QueuePriority, Sqe, Status, fid};
use byteway_world::DriveBay;
use std::cell::Cell;
use std::rc::Rc;

/// Of the lender's queue pairs, the one that it lends.
const SHADOW: u16 = 3;
/// Its number among the borrower's peers.
const LENDER: u8 = 5;
/// How often each thing that goes wrong is tried, at another moment each time.
const MOMENTS: u64 = 40;

struct Two {
    borrower: TestHost,
    lender: TestHost,
    own: Pair,
    shadow: Pair,
    /// The borrower's cores, and the lender's.
    sites: [Site; 2],
    route: Route,
    loan: Rc<Loan>,
}

/// Runs `test` with two enabled drives, of which one has lent the other a queue.
fn run<T: 'static>(test: impl AsyncFnOnce(Two) -> T + 'static) -> T {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let mut config = drive_config();
    config.controller.borrows = true;
    let sites = [Drive::site(&clock, &config), Drive::site(&clock, &config)];
    let distance = SiteLink::new(&clock, Delay::from_ns(300), Rate::per_second(10_000_000_000));
    let mut placements = [0, 1].map(|of: usize| Placement::all_at(&sites[of], config.site.cycles));
    placements[0] = placements[0].clone().with_distance(&sites[1], &sites[0], &distance);
    let route = placements[0].add_route_to(&clock, &sites[1]).unwrap();
    let [borrower, lender] = [0, 1].map(|of: usize| {
        let bay = DriveBay::new(&clock, link_config(), Memory::simulated());
        let powered = bay.power_on_placed(config.clone(), sites[of].clone(), placements[of].clone(), None);
        TestHost::over(powered.expect("a possible drive"))
    });
    let finished = executor.run(async move {
        borrower.enable().await;
        lender.enable().await;
        let (own, shadow) = (borrower.create_pair(1, 64).await, lender.create_pair(SHADOW, 64).await);
        let loan = lender.controller().lend_as(LENDER, SHADOW, borrower.controller(), route).unwrap();
        test(Two { borrower, lender, own, shadow, sites, route, loan }).await
    });
    finished.unwrap_or_else(|stalled| panic!("{stalled}"))
}

impl Two {
    /// Has the lender do a command for the borrower. What it moves is in the borrower's host's memory, as the borrower moves it.
    async fn ask(&self, sqe: Sqe) -> Cqe {
        self.lender.io(&self.shadow, sqe).await
    }

    async fn write(&self, slba: u64, bytes: &[u8]) -> Status {
        let page = self.borrower.holding(bytes);
        self.ask(transfer(NvmOpcode::WRITE, slba, page)).await.status()
    }

    /// Puts `count` writes of blocks from `slba` into the shadow queue at once, each with its pattern; gives their identifiers.
    fn begin_writes(&self, slba: u64, count: u64, version: u64) -> Vec<u16> {
        let ids = (slba..slba + count).map(|at| {
            let page = self.borrower.holding(&pattern(at + version, 4096));
            self.lender.place(&self.shadow.sq, transfer(NvmOpcode::WRITE, at, page))
        });
        let ids = ids.collect();
        self.lender.ring_tail(&self.shadow.sq);
        ids
    }

    /// Takes completions until all of `ids` have come; which of them have succeeded.
    async fn finish(&self, ids: &[u16]) -> Vec<bool> {
        let mut done = vec![false; ids.len()];
        for cqe in self.lender.next_many(&self.shadow.cq, ids.len()).await {
            let status = cqe.status();
            assert!(status.is_success() || status.is(Status::COMMAND_INTERRUPTED), "{status}");
            let at = ids.iter().position(|id| *id == cqe.cid).expect("each completes once");
            done[at] = status.is_success();
        }
        done
    }

    /// Blocks are new where their write has succeeded, else old or new; all are read by the borrower itself, by a new queue pair if
    /// it was reset.
    async fn holds(&self, pair: &Pair, slba: u64, done: &[bool], version: u64) {
        for (at, is_done) in (slba..).zip(done) {
            let found = self.borrower.read(pair, NS_4K, at, 1).await;
            let (old, new) = (pattern(at, 4096), pattern(at + version, 4096));
            assert!(found == new || !is_done && found == old, "block {at}, done: {is_done}");
        }
    }

    /// Writes what is to be old.
    async fn fill(&self, slba: u64, count: u64) {
        for at in slba..slba + count {
            let status = self.borrower.write(&self.own, NS_4K, at, &pattern(at, 4096)).await;
            assert_eq!(status, Status::SUCCESS);
        }
    }

    /// Nothing is left taken, and the lender is of use.
    async fn is_well(&self, hosts: &[&TestHost]) {
        self.lender.sleep(Delay::from_ms(50)).await;
        for host in hosts {
            assert!(host.controller().is_quiet(), "slots, permits and tags are free");
            assert_eq!(host.controller().ftl().units_locked(), 0);
        }
        let pair = self.lender.create_pair(7, 16).await;
        let bytes = pattern(77, 4096);
        assert_eq!(self.lender.write(&pair, NS_4K, 5, &bytes).await, Status::SUCCESS);
        assert_eq!(self.lender.read(&pair, NS_4K, 5, 1).await, bytes);
    }
}

fn transfer(opcode: NvmOpcode, slba: u64, page: u64) -> Sqe {
    read_write(opcode, NS_4K, slba, 1).with_prp(page, 0)
}

/// Tries a thing at moments from right after eight writes were submitted until they are all done.
fn at_moments(test: impl AsyncFn(&Two, &[u16]) + Clone + 'static) {
    for moment in 0..MOMENTS {
        let test = test.clone();
        run(async move |two| {
            two.fill(0, 8).await;
            let ids = two.begin_writes(0, 8, 1000);
            two.borrower.sleep(Delay::from_ns(moment * 700)).await;
            test(&two, &ids).await;
        });
    }
}

// A command that was executed for the wrong drive has another tenant's data; one whose work is done by the borrower after all makes
// lending look free.
#[test]
fn a_lent_queues_commands_are_the_borrowers() {
    run(async |two| {
        let (borrower, lender) = (&two.borrower, &two.lender);
        let (bytes, other) = (pattern(1, 4096), pattern(2, 4096));
        let own_of_lender = lender.create_pair(1, 16).await;
        assert_eq!(lender.write(&own_of_lender, NS_4K, 7, &other).await, Status::SUCCESS);
        let crossings = |host: &TestHost, purpose| host.end().ledger().of(purpose).tlps;
        let before = [borrower, lender]
            .map(|host| (crossings(host, Purpose::SqeFetch), crossings(host, Purpose::Data)));
        let busy = two.sites.clone().map(|site| site.busy());
        assert_eq!(two.write(7, &bytes).await, Status::SUCCESS);
        let spent = [0, 1].map(|of: usize| two.sites[of].busy().saturating_sub(busy[of]));
        let cycles = drive_config().site.cycles;
        let of = |works: &[WorkKind]| works.iter().fold(0, |sum, work| sum + cycles.of(*work));
        let whole = of(&[
            WorkKind::Fetch,
            WorkKind::Parse,
            WorkKind::Buffer,
            WorkKind::Translate,
            WorkKind::Complete,
        ]);
        assert_eq!(spent[1], Delay::from_ns(whole), "all of it is the lender's");
        assert_eq!(spent[0], Delay::ZERO);
        let after = [borrower, lender]
            .map(|host| (crossings(host, Purpose::SqeFetch), crossings(host, Purpose::Data)));
        assert_eq!(after[0].0, before[0].0, "the borrower fetches nothing");
        assert!(after[0].1 > before[0].1, "the payload crosses the borrower's link");
        assert!(after[1].0 > before[1].0, "the lender fetches");
        assert_eq!(after[1].1, before[1].1, "no payload crosses the lender's");
        assert_eq!(borrower.read(&two.own, NS_4K, 7, 1).await, bytes);
        assert_eq!(lender.read(&own_of_lender, NS_4K, 7, 1).await, other, "its own is untouched");
        // And the other way round.
        let newer = pattern(3, 4096);
        assert_eq!(borrower.write(&two.own, NS_4K, 7, &newer).await, Status::SUCCESS);
        let page = borrower.pages(1);
        assert_eq!(two.ask(transfer(NvmOpcode::READ, 7, page)).await.status(), Status::SUCCESS);
        assert_eq!(borrower.peek(page, 4096), newer);
        assert_eq!(two.ask(Flush.sqe(0, NS_4K)).await.status(), Status::SUCCESS);
        assert_eq!(borrower.controller().ftl().units_buffered(), 0, "a flush is the borrower's, too");
        // Taken back, it is the lender's own.
        lender.controller().take_back(SHADOW).unwrap();
        assert_eq!(lender.read(&two.shadow, NS_4K, 7, 1).await, other);
        two.is_well(&[borrower, lender]).await;
    });
}

// Cost of lending (4.2, 4.6): a line of the map over the fabric, and a message to the borrower's data-end for
// each operation, which its agent receives. Without these a lender's core would be as good as the borrower's
// own.
#[test]
fn a_lender_pays_the_fabric_and_the_agent() {
    const AGENT: Delay = Delay(114_200);
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let config = DriveConfig { base: Base::Filled, ..drive_config() };
    let fabric = Fabric::new(&clock, FabricConfig::of_drives(2));
    let sites = [Drive::site(&clock, &config), Drive::site(&clock, &config)];
    let distance = fabric.distance(Node::Drive(1), Node::Drive(0));
    let placement = Placement::all_at(&sites[0], config.site.cycles).with_agent(AGENT);
    let mut placement = placement.with_distance(&sites[1], &sites[0], &distance);
    let route = placement.add_route_to(&clock, &sites[1]).unwrap();
    let placements = [placement, Placement::all_at(&sites[1], config.site.cycles)];
    let [borrower, lender] = [0, 1].map(|of: usize| {
        let bay = DriveBay::new(&clock, link_config(), Memory::simulated());
        let powered = bay.power_on_placed(config.clone(), sites[of].clone(), placements[of].clone(), None);
        TestHost::over(powered.expect("a possible drive"))
    });
    let busy = sites[0].clone();
    executor
        .run(async move {
            borrower.enable().await;
            lender.enable().await;
            let (own, shadow) = (borrower.create_pair(1, 64).await, lender.create_pair(SHADOW, 64).await);
            lender.controller().lend(SHADOW, borrower.controller(), route).unwrap();
            let page = borrower.pages(1);
            let took = async |host: &TestHost, pair: &Pair, slba| {
                let before = host.clock().now();
                assert_eq!(
                    host.io(pair, transfer(NvmOpcode::READ, slba, page)).await.status(),
                    Status::SUCCESS
                );
                host.clock().now().since(before)
            };
            let alone = took(&borrower, &own, 3).await;
            let before = busy.busy();
            let lent = took(&lender, &shadow, 3).await;
            assert_eq!(busy.busy().saturating_sub(before), AGENT * 2, "a read of flash, and DMA");
            let way = |bytes| {
                fabric.latency(Node::Drive(0), Node::Drive(1))
                    + Rate::per_second(16_000_000_000).time_for(bytes)
            };
            // A map entry is requested and returned in one line; two messages go there.
            let expected = way(18) + way(86) + way(86) * 2 + AGENT * 2;
            assert_eq!(lent.saturating_sub(alone), expected, "{lent} lent, {alone} alone");
        })
        .unwrap();
}

// After a reset by the borrower's host, the lender must no longer change its data; and the lender's host
// waits for every completion.
#[test]
fn a_reset_of_the_borrower_ends_the_loan() {
    at_moments(async |two: &Two, ids: &[u16]| {
        two.borrower.disable().await;
        two.borrower.enable().await;
        let done = two.finish(ids).await;
        let pair = two.borrower.create_pair(1, 64).await;
        two.holds(&pair, 0, &done, 1000).await;
        assert!(two.loan.check().is_err());
        let page = two.borrower.pages(1);
        let status = two.ask(transfer(NvmOpcode::READ, 0, page)).await.status();
        assert!(status.is(Status::COMMAND_INTERRUPTED), "{status}");
        two.lender.controller().take_back(SHADOW).unwrap();
        two.lender.controller().lend(SHADOW, two.borrower.controller(), two.route).unwrap();
        assert_eq!(two.write(0, &pattern(5, 4096)).await, Status::SUCCESS, "it can be lent again");
        two.is_well(&[&two.borrower, &two.lender]).await;
    });
}

// A reset of the lender ends its queues: what the borrower has of their commands is old or new, and never half.
#[test]
fn a_reset_of_the_lender_leaves_the_borrower_well() {
    at_moments(async |two: &Two, _: &[u16]| {
        two.lender.disable().await;
        two.lender.enable().await;
        two.holds(&two.own, 0, &[false; 8], 1000).await;
        two.is_well(&[&two.borrower, &two.lender]).await;
    });
}

// A queue that is deleted and created again is no loan: its commands would go to another tenant's drive.
#[test]
fn a_deleted_queue_is_lent_no_more() {
    at_moments(async |two: &Two, ids: &[u16]| {
        two.lender.succeed(delete_sq(SHADOW)).await;
        let mut done = vec![false; ids.len()];
        for cqe in two.lender.next_many(&two.shadow.cq, ids.len()).await {
            let at = ids.iter().position(|id| *id == cqe.cid).unwrap();
            done[at] = cqe.status().is_success();
        }
        two.holds(&two.own, 0, &done, 1000).await;
        let sq = two.lender.new_sq(SHADOW, 64);
        two.lender.succeed(create_sq(&sq, two.shadow.cq.id, QueuePriority::Urgent)).await;
        let pair = Pair { sq, cq: two.shadow.cq.clone() };
        let bytes = pattern(9, 4096);
        assert_eq!(two.lender.write(&pair, NS_4K, 0, &bytes).await, Status::SUCCESS);
        assert_eq!(two.lender.controller().ftl().counters().user_units_written, 1, "it is its own");
        two.is_well(&[&two.borrower, &two.lender]).await;
    });
}

// Unbinding under load: what was redirected completes, one way or the other.
#[test]
fn a_queue_is_taken_back_under_load() {
    at_moments(async |two: &Two, ids: &[u16]| {
        two.borrower.sleep(Delay::from_us(1)).await; // the doorbell's way to the lender, which knows nothing before
        let in_use = two.lender.controller().take_back(SHADOW);
        two.loan.end();
        let done = two.finish(ids).await;
        assert!(
            in_use.is_err() || done.iter().all(|is_done| *is_done),
            "else commands are the wrong drive's"
        );
        if in_use.is_err() {
            two.lender.controller().take_back(SHADOW).unwrap();
        }
        two.holds(&two.own, 0, &done, 1000).await;
        two.is_well(&[&two.borrower, &two.lender]).await;
    });
}

// A format that did not wait for lent commands would have them write into blocks of another size.
#[test]
fn a_format_waits_for_the_commands_of_lent_queues() {
    at_moments(async |two: &Two, ids: &[u16]| {
        let formatted = two.borrower.admin(format(NS_4K, BlockSize::B512, 0)).await;
        assert_eq!(formatted.status(), Status::SUCCESS);
        for cqe in two.lender.next_many(&two.shadow.cq, ids.len()).await {
            assert!(ids.contains(&cqe.cid));
        }
        // Writes that come after it are to blocks of 512 bytes: the first eight. What came before is gone.
        let found = two.borrower.read(&two.own, NS_4K, 0, 64).await;
        for (at, block) in (0..).zip(found.chunks_exact(512)) {
            let is_zero = block.iter().all(|byte| *byte == 0);
            assert!(is_zero || at < 8 && *block == pattern(at + 1000, 4096)[..512], "block {at}");
        }
        two.is_well(&[&two.borrower, &two.lender]).await;
    });
}

/// Has the borrower's host revoke what the lender has.
async fn revoke(two: &Two) {
    two.borrower
        .set_feature(fid::LOANS, Loans::new().with_lender(LENDER).with_revoke(true).into_bits())
        .await;
}

// A host that has given a command up has the borrower do it, and writes the same blocks again: the lender's write must not come after
// that, at whatever it is at.
#[test]
fn what_is_revoked_changes_nothing_any_more() {
    at_moments(async |two: &Two, ids: &[u16]| {
        assert!(two.borrower.feature(fid::LOANS).await <= 1);
        revoke(two).await;
        assert_eq!(two.borrower.feature(fid::LOANS).await, 0, "no loan holds");
        for at in 0..8 {
            let status = two.borrower.write(&two.own, NS_4K, at, &pattern(at + 2000, 4096)).await;
            assert_eq!(status, Status::SUCCESS);
        }
        two.finish(ids).await;
        two.holds(&two.own, 0, &[true; 8], 2000).await;
        two.lender.controller().take_back(SHADOW).unwrap();
        two.lender.controller().lend_as(LENDER, SHADOW, two.borrower.controller(), two.route).unwrap();
        assert_eq!(two.write(0, &pattern(5, 4096)).await, Status::SUCCESS, "it can be lent again");
        two.is_well(&[&two.borrower, &two.lender]).await;
    });
}

// A lender that hangs and resumes long after its host has given it up must not continue its commands.
#[test]
fn a_lender_that_hangs_does_not_come_back_to_its_commands() {
    at_moments(async |two: &Two, ids: &[u16]| {
        two.sites[1].spend(WorkKind::Poll, Delay::from_ms(40));
        two.borrower.sleep(Delay::from_ms(1)).await;
        revoke(two).await;
        for at in 0..8 {
            let status = two.borrower.write(&two.own, NS_4K, at, &pattern(at + 2000, 4096)).await;
            assert_eq!(status, Status::SUCCESS);
        }
        two.finish(ids).await;
        two.holds(&two.own, 0, &[true; 8], 2000).await;
        two.is_well(&[&two.borrower, &two.lender]).await;
    });
}

// A loan of another peer is not this one's.
#[test]
fn only_the_loan_that_is_named_is_revoked() {
    run(async |two| {
        let other = Loans::new().with_lender(LENDER + 1).with_revoke(true);
        two.borrower.set_feature(fid::LOANS, other.into_bits()).await;
        two.borrower.set_feature(fid::LOANS, Loans::new().with_lender(LENDER).into_bits()).await;
        assert_eq!(two.write(3, &pattern(3, 4096)).await, Status::SUCCESS);
        assert_eq!(two.borrower.feature(fid::LOANS).await, 1);
    });
}

// A lender that loses its power stops in the middle of the borrower's commands: what it held of the borrower must be free.
#[test]
fn a_lender_that_is_gone_leaves_the_borrower_well() {
    at_moments(async |two: &Two, _: &[u16]| {
        two.lender.drive().power_off();
        two.holds(&two.own, 0, &[false; 8], 1000).await;
        two.borrower.sleep(Delay::from_ms(50)).await;
        assert!(two.borrower.controller().is_quiet(), "slots, permits and tags are free");
        assert_eq!(two.borrower.controller().ftl().units_locked(), 0);
        two.borrower.disable().await; // which waits for what is in flight
    });
}

// A borrower that is pulled out answers nothing: the lender must not lose its command slots to it, one by one.
#[test]
fn a_borrower_that_is_gone_leaves_the_lender_whole() {
    at_moments(async |two: &Two, _: &[u16]| {
        two.borrower.drive().power_off();
        two.lender.sleep(Delay::from_us(3)).await;
        two.lender.controller().abandon(SHADOW);
        two.lender.succeed(delete_sq(SHADOW)).await;
        two.is_well(&[&two.lender]).await;
    });
}

// A queue that cannot be lent is refused with the reason; otherwise a drive's own commands would go
// elsewhere.
#[test]
fn what_cannot_be_lent_is_refused() {
    run(async |two| {
        let (lender, borrower) = (two.lender.controller(), two.borrower.controller());
        let refused = |qid, to| lender.lend(qid, to, two.route).unwrap_err();
        assert_eq!(refused(0, borrower), LendError::NoQueue(0));
        assert_eq!(refused(9, borrower), LendError::NoQueue(9));
        assert_eq!(refused(SHADOW, borrower), LendError::IsLent(SHADOW));
        let pair = two.lender.create_pair(4, 16).await;
        assert_eq!(refused(4, lender), LendError::IsOwn);
        let page = two.lender.pages(1);
        two.lender.submit(&pair.sq, transfer(NvmOpcode::READ, 0, page));
        two.lender.sleep(Delay::from_us(2)).await;
        assert_eq!(refused(4, borrower), LendError::IsInUse(4));
        two.lender.next(&pair.cq).await;
        lender.lend(4, borrower, two.route).unwrap();
    });
}

// A reset recreates queues while others still regard them as lent. So from its beginning until either drive
// is enabled again no queue is lent. Other records of the loan are corrected at that beginning, while
// commands in flight still end.
#[test]
fn nothing_is_lent_during_a_reset() {
    for of_lender in [true, false] {
        run(async move |two| {
            let is_told = Rc::new(Cell::new(false));
            let tell = is_told.clone();
            let pair = two.lender.create_pair(4, 16).await;
            let drive = if of_lender { &two.lender } else { &two.borrower };
            drive.controller().on_reset(Box::new(move || tell.set(true)));
            two.begin_writes(0, 8, 1000); // which hold the reset up
            two.lender.sleep(Delay::from_us(5)).await;
            drive.set_cc(cc().with_en(false));
            let lend = || two.lender.controller().lend(pair.sq.id, two.borrower.controller(), two.route);
            while !is_told.get() {
                two.lender.sleep(Delay::from_ns(10)).await;
            }
            assert_eq!(lend().unwrap_err(), LendError::NotEnabled);
            drive.csts_until(|csts| !csts.rdy()).await;
            let after = lend().unwrap_err();
            assert_eq!(after, if of_lender { LendError::NoQueue(4) } else { LendError::NotEnabled });
        });
    }
}
