//! Reset, Abort and Delete SQ at every wait of every command.
//!
//! Each command is first run alone, looked at every nanosecond: the instants at which any task was polled part its life
//! into gaps, each of which is a wait. Then it is run again and again on the same drive, and in each run one of the
//! three arrives at another instant or in another gap. What they take on their way is measured and allowed for.
//!
//! Verified after each run: slots, permits, tags, spans, slots of the write buffer, locks of units and tickets of the flash
//! are free; the drive does what it is told; each block is old or new, new if the command succeeded, and no other
//! block has changed; an aborted command completes before its Abort does, and a deleted queue's commands before the
//! deletion. Not verified: two waits that end within the same nanosecond are one here; power loss.

use crate::fixture::{
    Bench, Cq, NS_4K, NS_512, PAGE, Pair, TestHost, block_bytes, cc, create_cq, create_sq, delete_cq,
    delete_sq, get_features, pattern, read_write, set_features,
};
use byteway_clock::{Delay, Time};
use byteway_link::IoLedger;
use byteway_wire::nvme::command::{FUSE_FIRST, FUSE_SECOND};
use byteway_wire::nvme::register::CC;
use byteway_wire::nvme::{
    Abort, AdminOpcode, AsyncEventRequest, Cns, Cqe, DatasetManagement, GetLogPage, Identify, NSID_ALL,
    NvmOpcode, QueuePriority, Range, ReadWrite, Select, Sqe, Status, WriteZeroes, fid, lid,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Blocks of each namespace that the model follows, 64 KiB each; what is behind them is for the proof that the drive
/// works.
const FOLLOWED_BYTES: usize = 64 << 10;
/// The queue pair that some commands are about.
const OTHER: u16 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Read,
    ReadParts,
    Write,
    WriteLong,
    WriteParts,
    WriteLockedParts,
    WriteToFullBuffer,
    WriteFua,
    WritePartsFua,
    Flush,
    WriteZeroes,
    WriteZeroesFua,
    Deallocate,
    Compare,
    CompareOther,
    CompareAndWrite,
    CompareAndWriteOther,
    CompareAndWriteLocked,
    CompareAndWriteSecond,
    Identify,
    IdentifyOverTwoPages,
    Log,
    SetFeatures,
    GetFeatures,
    CreateCq,
    CreateSq,
    DeleteSq,
    DeleteSqWithCommands,
    DeleteCq,
    Abort,
    AsyncEventRequest,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Reset,
    Abort,
    DeleteSq,
}

/// Bytes that a command makes of a namespace's blocks.
struct Change {
    nsid: u32,
    slba: u64,
    bytes: Vec<u8>,
}

/// A command, ready to be placed.
struct Trial {
    is_admin: bool,
    sqe: Sqe,
    /// The second command of a fused operation, in the entry behind, and whether an Abort is of that one.
    second: Option<(Sqe, bool)>,
    changes: Vec<Change>,
    /// Blocks that it reads into the rig's output.
    reads: Option<(u32, u64, u32)>,
    /// Commands that were submitted before it to the I/O queue, with what they change.
    before: Vec<(u16, Change)>,
    /// It waits indefinitely.
    parks: bool,
}

/// A host, and what it believes the drive holds.
struct Rig {
    host: TestHost,
    pair: RefCell<Pair>,
    /// By namespace.
    model: RefCell<[Vec<u8>; 2]>,
    /// Buffers of 64 KiB: payloads of commands that are in flight at once, and what is read.
    inputs: Vec<u64>,
    output: u64,
    prps: RefCell<BTreeMap<(u64, u64), (u64, u64)>>,
    /// Counts patterns.
    version: Cell<u64>,
    tickets: Cell<usize>,
    /// Delay until a register write, or an admin command, takes effect.
    reset_ns: Cell<i64>,
    admin_ns: Cell<i64>,
}

impl Rig {
    async fn new(host: TestHost) -> Rig {
        // The drive is watched: it opens a span for each command, which has to end however the command does.
        let ledger = IoLedger::new();
        host.end().book_ios(ledger.clone(), ledger.host("here"));
        let pair = host.create_pair(1, 64).await;
        let rig = Rig {
            pair: RefCell::new(pair),
            model: RefCell::new([vec![0; FOLLOWED_BYTES], vec![0; FOLLOWED_BYTES]]),
            inputs: (0..10).map(|_| host.pages(16)).collect(),
            output: host.pages(16),
            prps: RefCell::default(),
            version: Cell::new(0),
            tickets: Cell::default(),
            reset_ns: Cell::default(),
            admin_ns: Cell::default(),
            host,
        };
        for nsid in [NS_512, NS_4K] {
            let change = rig.change(nsid, 0, FOLLOWED_BYTES);
            rig.write_now(change).await;
        }
        rig.flush().await;
        rig.tickets.set(rig.host.drive().controller.ftl().flash().tickets_in_use());
        rig.measure().await;
        rig
    }

    fn pair(&self) -> Pair {
        self.pair.borrow().clone()
    }

    fn prp(&self, address: u64, bytes: u64) -> (u64, u64) {
        *self.prps.borrow_mut().entry((address, bytes)).or_insert_with(|| self.host.prp(address, bytes))
    }

    /// New bytes for `bytes` bytes of blocks from `slba` on.
    fn change(&self, nsid: u32, slba: u64, bytes: usize) -> Change {
        self.version.set(self.version.get() + 1);
        Change { nsid, slba, bytes: pattern(self.version.get(), bytes) }
    }

    fn zeroes(&self, nsid: u32, slba: u64, blocks: usize) -> Change {
        Change { nsid, slba, bytes: vec![0; blocks * block_bytes(nsid)] }
    }

    /// A Write of `change` from input `input`.
    fn write(&self, change: &Change, input: usize, fua: bool) -> Sqe {
        let address = self.inputs[input];
        self.host.poke(address, &change.bytes);
        let (prp1, prp2) = self.prp(address, change.bytes.len() as u64);
        let nlb_z = (change.bytes.len() / block_bytes(change.nsid) - 1) as u16;
        let write = ReadWrite { slba: change.slba, nlb_z, fua, ..ReadWrite::default() };
        write.sqe(NvmOpcode::WRITE, 0, change.nsid).with_prp(prp1, prp2)
    }

    /// A Read into the output.
    fn read(&self, nsid: u32, slba: u64, blocks: u32) -> Sqe {
        let (prp1, prp2) = self.prp(self.output, u64::from(blocks) * block_bytes(nsid) as u64);
        read_write(NvmOpcode::READ, nsid, slba, blocks).with_prp(prp1, prp2)
    }

    /// Writes, and notes it in the model if it is followed.
    async fn write_now(&self, change: Change) {
        let sqe = self.write(&change, 0, false);
        assert_eq!(self.host.io(&self.pair(), sqe).await.status(), Status::SUCCESS);
        self.apply(&change);
    }

    fn apply(&self, change: &Change) {
        let at = change.slba as usize * block_bytes(change.nsid);
        let mut model = self.model.borrow_mut();
        model[change.nsid as usize - 1][at..at + change.bytes.len()].copy_from_slice(&change.bytes);
    }

    fn model(&self, nsid: u32, slba: u64, blocks: u32) -> Vec<u8> {
        let (at, bytes) = (slba as usize * block_bytes(nsid), blocks as usize * block_bytes(nsid));
        self.model.borrow()[nsid as usize - 1][at..at + bytes].to_vec()
    }

    async fn read_now(&self, nsid: u32, slba: u64, blocks: u32) -> Vec<u8> {
        let sqe = self.read(nsid, slba, blocks);
        assert_eq!(self.host.io(&self.pair(), sqe).await.status(), Status::SUCCESS);
        self.host.peek(self.output, blocks as usize * block_bytes(nsid))
    }

    async fn flush(&self) {
        let flush = self.host.io(&self.pair(), Sqe::new(NvmOpcode::FLUSH, 0, NSID_ALL)).await;
        assert_eq!(flush.status(), Status::SUCCESS);
    }

    /// Measures how long reset and Abort take from the host's write until they work.
    async fn measure(&self) {
        let host = &self.host;
        let controller = &host.drive().controller;
        let start = host.clock().now();
        // Another CC that is no reset, which takes as long to arrive.
        host.set_cc(cc().with_iosqes(7));
        let old = u64::from(cc().into_bits());
        while controller.register(CC, 4) == old {
            host.sleep(Delay::from_ns(1)).await;
        }
        self.reset_ns.set(ns_since(host, start));
        host.set_cc(cc());
        let fetched = controller.counters().fetched.get();
        let start = host.clock().now();
        let cid = host.submit(&host.admin_pair().sq, Abort { sqid: 1, cid: 0xffff }.sqe(0));
        while controller.counters().fetched.get() == fetched {
            host.sleep(Delay::from_ns(1)).await;
        }
        // Then it is parsed, which takes 100 cycles.
        self.admin_ns.set(ns_since(host, start) + 100);
        host.completion(&host.admin_pair().cq, cid).await;
    }

    // The commands.

    async fn prepare(&self, case: Case) -> Trial {
        let host = &self.host;
        let mut trial = Trial {
            is_admin: false,
            sqe: Sqe::default(),
            second: None,
            changes: vec![],
            reads: None,
            before: vec![],
            parks: false,
        };
        let mut admin = |sqe| {
            trial.is_admin = true;
            sqe
        };
        let (page, list) = (self.inputs[9], self.inputs[8]);
        trial.sqe = match case {
            Case::Read | Case::ReadParts => {
                let (nsid, slba, blocks) = if case == Case::Read { (NS_4K, 2, 4) } else { (NS_512, 3, 10) };
                trial.reads = Some((nsid, slba, blocks));
                self.read(nsid, slba, blocks)
            }
            Case::Write | Case::WriteLong | Case::WriteFua => {
                let blocks = if case == Case::WriteLong { 16 } else { 3 };
                let slba = if case == Case::WriteLong { 0 } else { 4 };
                let change = self.change(NS_4K, slba, blocks * 4096);
                let sqe = self.write(&change, 0, case == Case::WriteFua);
                trial.changes.push(change);
                sqe
            }
            Case::WriteParts | Case::WritePartsFua => {
                let change = self.change(NS_512, 5, 13 * 512);
                let sqe = self.write(&change, 0, case == Case::WritePartsFua);
                trial.changes.push(change);
                sqe
            }
            Case::WriteLockedParts => {
                // Two that change the same unit before it: it waits for its lock.
                for (index, slba) in [16, 18].into_iter().enumerate() {
                    let change = self.change(NS_512, slba, 512);
                    let cid = host.submit(&self.pair().sq, self.write(&change, 1 + index, false));
                    trial.before.push((cid, change));
                }
                let change = self.change(NS_512, 20, 2 * 512);
                let sqe = self.write(&change, 0, false);
                trial.changes.push(change);
                sqe
            }
            Case::WriteToFullBuffer => {
                for index in 0..4 {
                    let change = self.change(NS_4K, index as u64 * 3, 3 * 4096);
                    let cid = host.submit(&self.pair().sq, self.write(&change, 1 + index, false));
                    trial.before.push((cid, change));
                }
                let change = self.change(NS_4K, 12, 4 * 4096);
                let sqe = self.write(&change, 0, false);
                trial.changes.push(change);
                sqe
            }
            Case::Flush => {
                self.write_now(self.change(NS_4K, 7, 2 * 4096)).await;
                self.write_now(self.change(NS_512, 30, 3 * 512)).await;
                Sqe::new(NvmOpcode::FLUSH, 0, NS_4K)
            }
            Case::WriteZeroes | Case::WriteZeroesFua => {
                // Parts of a unit, whole ones, parts.
                self.write_now(self.change(NS_512, 0, 40 * 512)).await;
                trial.changes.push(self.zeroes(NS_512, 3, 23));
                let fua = case == Case::WriteZeroesFua;
                WriteZeroes { slba: 3, nlb_z: 22, fua, ..WriteZeroes::default() }.sqe(0, NS_512)
            }
            Case::Deallocate => {
                self.write_now(self.change(NS_512, 0, 64 * 512)).await;
                for (index, (slba, length)) in [(2, 3), (8, 16), (29, 6)].into_iter().enumerate() {
                    host.poke(list + index as u64 * 16, &Range::new(slba, length).to_bytes());
                    trial.changes.push(self.zeroes(NS_512, slba, length as usize));
                }
                let command = DatasetManagement { nr_z: 2, ad: true, ..DatasetManagement::default() };
                command.sqe(0, NS_512).with_prp(list, 0)
            }
            Case::Compare | Case::CompareOther => {
                let mut bytes = self.model(NS_512, 3, 12);
                bytes[6000] ^= u8::from(case == Case::CompareOther);
                host.poke(self.inputs[0], &bytes);
                let (prp1, prp2) = self.prp(self.inputs[0], bytes.len() as u64);
                read_write(NvmOpcode::COMPARE, NS_512, 3, 12).with_prp(prp1, prp2)
            }
            Case::CompareAndWrite
            | Case::CompareAndWriteOther
            | Case::CompareAndWriteLocked
            | Case::CompareAndWriteSecond => {
                // Parts of two units. Their old bytes may be in the write buffer: from flash is where a read takes time.
                self.flush().await;
                let (slba, blocks) = (14, 4);
                let mut bytes = self.model(NS_512, slba, blocks);
                if case == Case::CompareAndWriteLocked {
                    for (index, slba) in [8, 20].into_iter().enumerate() {
                        let change = self.change(NS_512, slba, 512);
                        let cid = host.submit(&self.pair().sq, self.write(&change, 2 + index, false));
                        trial.before.push((cid, change));
                    }
                }
                if case == Case::CompareAndWriteOther {
                    bytes[1500] ^= 1;
                }
                let compare = Change { nsid: NS_512, slba, bytes };
                let mut sqe = self.write(&compare, 0, false).with_fuse(FUSE_FIRST);
                sqe.set_opcode(NvmOpcode::COMPARE);
                let change = self.change(NS_512, slba, compare.bytes.len());
                let second = self.write(&change, 1, false).with_fuse(FUSE_SECOND);
                trial.second = Some((second, case == Case::CompareAndWriteSecond));
                if case != Case::CompareAndWriteOther {
                    trial.changes.push(change);
                }
                sqe
            }
            Case::Identify => {
                admin(Identify { cns: Cns::CONTROLLER, ..Identify::default() }.sqe(0, 0).with_prp(page, 0))
            }
            Case::IdentifyOverTwoPages => {
                let identify = Identify { cns: Cns::ACTIVE_NAMESPACES, ..Identify::default() }.sqe(0, 0);
                admin(identify.with_prp(page + 1024, page + PAGE))
            }
            Case::Log => {
                let log = GetLogPage { lid: lid::ERROR_INFORMATION, numd_z: 1023, ..GetLogPage::default() };
                admin(log.sqe(0, NSID_ALL).with_prp(page, 0))
            }
            Case::SetFeatures => admin(set_features(fid::VOLATILE_WRITE_CACHE, 1)),
            Case::GetFeatures => admin(get_features(fid::NUMBER_OF_QUEUES, Select::CURRENT, 0)),
            Case::CreateCq => admin(create_cq(&host.new_cq(OTHER, 16), None)),
            Case::CreateSq => {
                host.create_cq(OTHER, 16, None).await;
                admin(create_sq(&host.new_sq(OTHER, 16), OTHER, QueuePriority::Medium))
            }
            Case::DeleteSq => {
                host.create_pair(OTHER, 16).await;
                admin(delete_sq(OTHER))
            }
            Case::DeleteSqWithCommands => {
                let pair = host.create_pair(OTHER, 16).await;
                for _ in 0..6 {
                    host.place(&pair.sq, self.read(NS_4K, 0, 8));
                }
                host.ring_tail(&pair.sq);
                admin(delete_sq(OTHER))
            }
            Case::DeleteCq => {
                host.create_cq(OTHER, 16, None).await;
                admin(delete_cq(OTHER))
            }
            Case::Abort => {
                let pair = host.create_pair(OTHER, 16).await;
                let cid = host.submit(&pair.sq, self.read(NS_4K, 0, 8));
                admin(Abort { sqid: OTHER, cid }.sqe(0))
            }
            Case::AsyncEventRequest => {
                let sqe = admin(AsyncEventRequest.sqe(0));
                trial.parks = true;
                sqe
            }
            Case::Unknown => admin(Sqe::new(AdminOpcode(0xbf), 0, 0)),
        };
        trial
    }

    /// Undoes the effects of the command about the other queue pair, whatever its outcome.
    async fn clean(&self, case: Case) {
        let about_queues =
            [Case::CreateCq, Case::CreateSq, Case::DeleteSq, Case::DeleteSqWithCommands, Case::DeleteCq];
        if case == Case::Abort || about_queues.contains(&case) {
            for sqe in [delete_sq(OTHER), delete_cq(OTHER)] {
                let status = self.host.admin(sqe).await.status();
                let gone = Status::INVALID_QUEUE_ID.with_dnr();
                assert!(status == Status::SUCCESS || status == gone, "deleting what is left: {status:?}");
            }
        }
    }

    // Actions on them.

    /// Runs the command alone; gives the instants, in nanoseconds from its doorbell on, at which something happened.
    async fn instants(&self, case: Case) -> Vec<i64> {
        let trial = self.prepare(case).await;
        let (host, controller) = (&self.host, &self.host.drive().controller);
        let queue = if trial.is_admin { host.admin_pair() } else { self.pair() };
        let cid = host.place(&queue.sq, trial.sqe);
        let second = trial.second.map(|(sqe, _)| host.place(&queue.sq, sqe));
        host.ring_tail(&queue.sq);
        let start = host.clock().now();
        let fetched = controller.counters().fetched.get() + 1 + u64::from(second.is_some());
        let mut instants = vec![0];
        let mut polls = host.clock().counters().polls;
        // Until nothing is in flight and, of what is, the command has been.
        while controller.counters().fetched.get() < fetched || !controller.is_quiet() {
            host.sleep(Delay::from_ns(1)).await;
            let now = host.clock().counters().polls;
            if now > polls + 1 {
                instants.push(ns_since(host, start));
            }
            polls = now;
        }
        if trial.parks {
            let abort = host.admin(Abort { sqid: 0, cid }.sqe(0)).await;
            assert_eq!(abort.dw0, 0, "a held request can be aborted");
            assert_eq!(host.completion(&queue.cq, cid).await.status(), Status::ABORT_REQUESTED);
        } else {
            for cid in std::iter::once(cid).chain(second) {
                host.completion(&queue.cq, cid).await;
            }
        }
        for (cid, change) in &trial.before {
            assert_eq!(host.completion(&queue.cq, *cid).await.status(), Status::SUCCESS);
            self.apply(change);
        }
        trial.changes.iter().for_each(|change| self.apply(change));
        self.clean(case).await;
        self.check().await;
        instants
    }

    /// Runs the command, and `action` such that it works `at_ns` after the command's doorbell was rung.
    async fn cancelled(&self, case: Case, action: Action, at_ns: i64) {
        let trial = self.prepare(case).await;
        let host = &self.host;
        let pair = self.pair();
        let queue = if trial.is_admin { host.admin_pair() } else { pair.clone() };
        let takes_ns = if action == Action::Reset { self.reset_ns.get() } else { self.admin_ns.get() };
        let cid = host.place(&queue.sq, trial.sqe);
        let second = trial.second.map(|(sqe, _)| host.place(&queue.sq, sqe));
        // Commands that an Abort can refer to, and commands that change blocks.
        let aimed = second.filter(|_| trial.second.is_some_and(|(_, is_aimed)| is_aimed)).unwrap_or(cid);
        let changing = second.unwrap_or(cid);
        let mut wait_ns = at_ns - takes_ns;
        if trial.is_admin {
            // In one queue the second can't come first.
            wait_ns = wait_ns.max(0);
        }
        if wait_ns >= 0 {
            host.ring_tail(&queue.sq);
            host.sleep(Delay::from_ns(wait_ns as u64)).await;
        }
        let admin = host.admin_pair();
        let action_cid = match action {
            Action::Reset => {
                host.set_cc(cc().with_en(false));
                0
            }
            Action::Abort => host.submit(&admin.sq, Abort { sqid: queue.sq.id, cid: aimed }.sqe(0)),
            Action::DeleteSq => host.submit(&admin.sq, delete_sq(1)),
        };
        if wait_ns < 0 {
            host.sleep(Delay::from_ns(wait_ns.unsigned_abs())).await;
            host.ring_tail(&queue.sq);
        }
        let mut statuses = BTreeMap::new();
        match action {
            Action::Reset => {
                host.csts_until(|csts| !csts.rdy()).await;
                assert!(host.drive().controller.is_quiet(), "a reset ends when nothing is held");
                note(&mut statuses, &take_all(host, &queue.cq));
                let count = host.memory().dma_written_bytes();
                host.sleep(Delay::from_us(20)).await;
                assert_eq!(
                    host.memory().dma_written_bytes(),
                    count,
                    "the device writes nothing after a reset"
                );
                host.enable().await;
                self.pair.replace(host.create_pair(1, 64).await);
            }
            Action::Abort if trial.is_admin => {
                let mut seen = Vec::new();
                while !seen.iter().any(|cqe: &Cqe| cqe.cid == action_cid) {
                    seen.push(host.next(&admin.cq).await);
                }
                note(&mut statuses, &seen);
                let abort = seen.last().expect("the Abort's, at least");
                let aborted = statuses.get(&cid) == Some(&Status::ABORT_REQUESTED);
                assert_eq!(abort.dw0 & 1 == 0, aborted, "{:?} before the Abort", statuses.get(&cid));
                if trial.parks && !aborted {
                    // It was not held yet; now it is.
                    let abort = host.submit(&admin.sq, Abort { sqid: 0, cid }.sqe(0));
                    assert_eq!(host.next(&admin.cq).await.status(), Status::ABORT_REQUESTED);
                    let abort_cqe = host.next(&admin.cq).await;
                    assert_eq!((abort_cqe.cid, abort_cqe.dw0), (abort, 0));
                } else if !aborted && !statuses.contains_key(&cid) {
                    host.completion(&admin.cq, cid).await;
                }
            }
            Action::Abort => {
                let abort = host.completion(&admin.cq, action_cid).await;
                assert_eq!(abort.status(), Status::SUCCESS);
                let seen = take_all(host, &pair.cq);
                host.ring_head(&pair.cq);
                note(&mut statuses, &seen);
                let aborted = statuses.get(&aimed) == Some(&Status::ABORT_REQUESTED);
                assert_eq!(abort.dw0 & 1 == 0, aborted, "{:?} before the Abort", statuses.get(&aimed));
                while statuses.len() < 1 + usize::from(second.is_some()) + trial.before.len() {
                    note(&mut statuses, &[host.next(&pair.cq).await]);
                }
                if let Some(second) = second {
                    let ends = [statuses[&cid], statuses[&second]];
                    let possible = [
                        [Status::SUCCESS; 2],
                        [Status::SUCCESS, Status::ABORT_REQUESTED],
                        [Status::ABORT_REQUESTED, Status::ABORTED_FAILED_FUSED],
                        [Status::COMPARE_FAILURE, Status::ABORTED_FAILED_FUSED],
                    ];
                    assert!(possible.contains(&ends), "a fused operation ends as one: {ends:?}");
                }
                for (cid, _) in &trial.before {
                    assert_eq!(statuses[cid], Status::SUCCESS, "only one was aborted");
                }
            }
            Action::DeleteSq => {
                let deleted = host.completion(&admin.cq, action_cid).await;
                assert_eq!(deleted.status(), Status::SUCCESS);
                let seen = take_all(host, &pair.cq);
                host.ring_head(&pair.cq);
                note(&mut statuses, &seen);
                host.sleep(Delay::from_us(20)).await;
                assert!(
                    host.look(&pair.cq).is_none(),
                    "commands of a deleted queue complete before the deletion"
                );
                let sq = host.create_sq(1, 64, &pair.cq, QueuePriority::Urgent).await;
                self.pair.replace(sq);
            }
        }
        let success = |cid: &u16| statuses.get(cid) == Some(&Status::SUCCESS);
        if let (Some((nsid, slba, blocks)), true) = (trial.reads, success(&cid)) {
            let read = host.peek(self.output, blocks as usize * block_bytes(nsid));
            assert!(read == self.model(nsid, slba, blocks), "a read that succeeded has read");
        }
        self.clean(case).await;
        let changes = trial.changes.iter().map(|change| (change, success(&changing)));
        let before = trial.before.iter().map(|(cid, change)| (change, success(cid)));
        for (change, is_new) in changes.chain(before) {
            self.settle(change, is_new).await;
        }
        self.check().await;
    }

    /// Sees what became of the blocks of `change`: each is old or new.
    async fn settle(&self, change: &Change, is_new: bool) {
        let size = block_bytes(change.nsid);
        let blocks = (change.bytes.len() / size) as u32;
        let held = self.read_now(change.nsid, change.slba, blocks).await;
        let old = self.model(change.nsid, change.slba, blocks);
        let parts = held.chunks(size).zip(old.chunks(size)).zip(change.bytes.chunks(size));
        for (index, ((held, old), new)) in parts.enumerate() {
            assert!(held == new || held == old && !is_new, "block {index} of a write: neither old nor new");
        }
        self.apply(&Change { bytes: held, ..*change });
    }

    /// Nothing is held; the drive works; what it holds is what it should hold.
    async fn check(&self) {
        let proof = self.change(NS_512, 1001, 9 * 512);
        let sqe = self.write(&proof, 0, false);
        assert_eq!(self.host.io(&self.pair(), sqe).await.status(), Status::SUCCESS);
        assert!(self.read_now(NS_512, 1001, 9).await == proof.bytes, "the drive works");
        for nsid in [NS_512, NS_4K] {
            let blocks = (FOLLOWED_BYTES / block_bytes(nsid)) as u32;
            let held = self.read_now(nsid, 0, blocks).await;
            assert!(held == self.model(nsid, 0, blocks), "namespace {nsid} holds what it should");
        }
        self.flush().await;
        let controller = &self.host.drive().controller;
        let ftl = controller.ftl();
        // The flush waited for programs, not for their writers; and its doorbell may be in flight. Deallocations may have
        // filled the journal: then a checkpoint writes pages of the map in the background.
        for _ in 0..1000 {
            self.host.sleep(Delay::from_us(1)).await;
            if ftl.slots_free() == ftl.slots() {
                break;
            }
        }
        assert!(controller.is_quiet(), "slots, permits and tags are free");
        assert_eq!(self.host.clock().spans().open_count(), 0, "spans of commands that have ended");
        assert_eq!(ftl.slots_free(), ftl.slots(), "slots of the write buffer");
        assert_eq!(ftl.units_locked(), 0, "locked units");
        assert_eq!(ftl.flash().tickets_in_use(), self.tickets.get(), "tickets of the flash");
    }
}

fn ns_since(host: &TestHost, start: Time) -> i64 {
    (host.clock().now().since(start).0 / 1000) as i64
}

fn take_all(host: &TestHost, cq: &Rc<Cq>) -> Vec<Cqe> {
    std::iter::from_fn(|| host.take(cq)).collect()
}

fn note(statuses: &mut BTreeMap<u16, Status>, seen: &[Cqe]) {
    for cqe in seen {
        assert!(statuses.insert(cqe.cid, cqe.status()).is_none(), "command {} completed twice", cqe.cid);
    }
}

/// Says which run it was, if the test fails.
struct Says(Rc<Cell<(Case, Action, i64)>>);

impl Drop for Says {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (case, action, at_ns) = self.0.get();
            eprintln!("it was {case:?}, and {action:?} {at_ns} ns after its doorbell");
        }
    }
}

/// Every wait of each of `cases`, cut short by each of `actions`.
fn cut_short(cases: &[Case], actions: &[Action]) {
    for (case, action) in cases.iter().flat_map(|case| actions.iter().map(|action| (*case, *action))) {
        let mut bench = Bench::default();
        if case == Case::WriteToFullBuffer {
            bench.drive.ftl.write_buffer_units = 8;
        }
        let which = Rc::new(Cell::new((case, action, -1)));
        let _says = Says(which.clone());
        bench.enabled(async move |host| {
            let rig = Rig::new(host).await;
            let instants = rig.instants(case).await;
            assert!(
                instants.len() >= 6,
                "{case:?} has waits: doorbell, fetch, firmware, completion at least"
            );
            let gaps = instants.windows(2).map(|pair| (pair[0] + pair[1]) / 2);
            let mut times: Vec<i64> = gaps.chain(instants.iter().copied()).collect();
            times.sort_unstable();
            times.dedup();
            // And when it has ended.
            times.push(times.last().expect("there are some") + 500);
            for at_ns in times {
                which.set((case, action, at_ns));
                rig.cancelled(case, action, at_ns).await;
            }
        });
    }
}

const ALL: [Action; 3] = [Action::Reset, Action::Abort, Action::DeleteSq];
/// An admin command's queue can't be deleted.
const OF_ADMIN: [Action; 2] = [Action::Reset, Action::Abort];

// A reset host (a time-out, a reboot, kexec) finds commands in every state: one that keeps a slot, a lock or a place
// in a queue makes the drive smaller with each reset, until it stands still.
#[test]
fn reads_are_cut_short() {
    cut_short(&[Case::Read, Case::ReadParts, Case::Compare, Case::CompareOther], &ALL);
}

// A write that is cut short must leave old or new blocks, and give back its space in the buffer.
#[test]
fn writes_are_cut_short() {
    cut_short(&[Case::Write, Case::WriteLong, Case::WriteFua, Case::WriteToFullBuffer], &ALL);
}

// A part of a unit is read, changed and written under a lock: kept, it would block the unit indefinitely.
#[test]
fn writes_of_parts_are_cut_short() {
    cut_short(&[Case::WriteParts, Case::WritePartsFua, Case::WriteLockedParts], &ALL);
}

// The two of a fused operation hold locks of several units, slots of the write buffer and two completion slots, and
// what has only compared must not have written.
#[test]
fn fused_operations_are_cut_short() {
    let cases = [
        Case::CompareAndWrite,
        Case::CompareAndWriteOther,
        Case::CompareAndWriteLocked,
        Case::CompareAndWriteSecond,
    ];
    cut_short(&cases, &ALL);
}

// Those that have no data, or make much of little, wait in places of their own.
#[test]
fn flushes_and_deallocations_are_cut_short() {
    cut_short(&[Case::Flush, Case::WriteZeroes, Case::WriteZeroesFua, Case::Deallocate], &ALL);
}

// Admin commands change what others stand on: a queue that is half created or half deleted could not be used again.
#[test]
fn admin_commands_are_cut_short() {
    let cases = [
        Case::Identify,
        Case::IdentifyOverTwoPages,
        Case::Log,
        Case::SetFeatures,
        Case::GetFeatures,
        Case::CreateCq,
        Case::CreateSq,
        Case::DeleteSq,
        Case::DeleteSqWithCommands,
        Case::DeleteCq,
        Case::Abort,
        Case::AsyncEventRequest,
        Case::Unknown,
    ];
    cut_short(&cases, &OF_ADMIN);
}
