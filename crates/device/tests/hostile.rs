//! A hostile driver: random registers, doorbells, entries, data pointers, lists, resets, in any order and at any time;
//! namespaces created, attached, formatted, protected and deleted, sanitize and self-test in between;
//! and, to drives that offer them, trains, chunks, pieces and stores of payload, right, wrong, too short and too long.
//!
//! Verified, with every seed: no panic; a reset ends within a second of virtual time whatever was going on, and the
//! drive then works and is quiet; no step makes the device work without end; nothing is written but memory that the
//! host has named, and nothing at all between a reset's end and the next enabling. Around every run of pages that
//! commands name lies memory that was not given, and memory that was given and is never named: canaries.
//! Not verified: that statuses are the right ones (the conformance tests do that), and that nothing unnamed is *read*.
//! A device that spins at one instant of virtual time hangs the test, which its time-out then ends.
//!
//! `BYTEWAY_HOSTILE_STEPS` (10,000 if not set) is the number of steps a seed, `BYTEWAY_HOSTILE_SEEDS` (8) that of seeds,
//! `BYTEWAY_HOSTILE_FIRST` (1) the first of them. A failure prints its seed and step. The long run is
//! `BYTEWAY_HOSTILE_STEPS=100000 BYTEWAY_HOSTILE_SEEDS=20`.

use crate::fixture;
use crate::fixture::management::delete;
use crate::fixture::{Bench, NS_4K, NS_512, NS_512_UNITS, PAGE, TestHost, block_bytes, cc, pattern};
use byteway_clock::Delay;
use byteway_clock::random::{Rng, Stream};
use byteway_content::Keep;
use byteway_device::TransferConfig;
use byteway_firmware::Base;
use byteway_link::MmioWrite;
use byteway_wire::nvme::register::{self, Aqa, Cc};
use byteway_wire::nvme::vendor::{
    Chunk, InlineSlots, Methods, Sink, bar_descriptor, inline_descriptor, piggyback, reassembled_descriptor,
};
use byteway_wire::nvme::{
    Abort, ActiveNamespaceList, AdminOpcode, AsyncEventRequest, Cns, ControllerList, Copy, CopyRange, Cqe,
    CreateCq, CreateSq, DatasetManagement, DeleteQueue, DeviceSelfTest, Doorbell, FormatNvm, GetFeatures,
    GetLogPage, Identify, IdentifyNamespace, NSID_ALL, NamespaceAttachment, NamespaceManagement, NvmOpcode,
    QueuePriority, Range, ReadWrite, Sanitize, SanitizeStatusLog, Select, SetFeatures, SglDescriptor, Sqe,
    Status, VendorOpcode, WriteZeroes, command::FUSE_FIRST, command::FUSE_SECOND, command::PSDT_SGL, fid,
    lid, sgl::SglSubType, sgl::SglType,
};
use byteway_wire::{FromBytes, IntoBytes};
use std::cell::Cell;
use std::rc::Rc;

/// Pages that commands name, in a row.
const RUN: u64 = 8;
/// Pages behind them that are not given: more than the largest queue that the device writes to.
const HOLE: u64 = 37;
/// Runs. The first holds the admin queues, the next eight I/O queues, the others data and lists.
const RUNS: usize = 24;
/// Queue pairs, with the admin queues.
const QUEUES: usize = 9;
/// Polls that a step may take: some hundred commands, each with lists of a thousand fetches.
const STEP_POLLS_MAX: u64 = 1_000_000;
/// Steps after which the drive has to prove that a reset recovers it.
const PROOF_STEPS: u32 = 500;

/// The host's memory: for each run a canary page in front of it and a hole behind it.
struct Arena {
    runs: Vec<u64>,
}

impl Arena {
    fn new(host: &TestHost) -> Self {
        // Not a canary: memory begins at 4 GiB, and a queue's entries taken for a list name that address as soon as a
        // word of zero stands before a namespace identifier of one.
        host.pages(1);
        let runs = (0..RUNS).map(|run| {
            let canary = host.pages((1 + RUN + HOLE) as usize);
            let first = canary + PAGE;
            host.poke(canary, &pattern(run as u64, PAGE as usize));
            host.memory().free(first + RUN * PAGE, HOLE as usize);
            first
        });
        Arena { runs: runs.collect() }
    }

    fn names_canary(&self, address: u64) -> bool {
        self.runs.iter().any(|first| (first - PAGE..*first).contains(&address))
    }

    fn check(&self, host: &TestHost) {
        for (run, first) in self.runs.iter().enumerate() {
            let held = host.peek(first - PAGE, PAGE as usize);
            let differs =
                held.iter().zip(&pattern(run as u64, PAGE as usize)).position(|(is, was)| is != was);
            assert_eq!(differs, None, "memory that no command named was written, before run {run}");
        }
    }
}

/// Queues as the driver believes they are.
struct Queue {
    sq: u64,
    sq_entries: u32,
    tail: u32,
    cq: u64,
    cq_entries: u32,
    head: u32,
    phase: bool,
}

struct Hostile {
    host: TestHost,
    arena: Arena,
    random: Stream,
    queues: Vec<Queue>,
    dstrd: u8,
    next_cid: u16,
    /// Queue and identifier of the last commands: what an Abort may find.
    recent: [(u16, u16); 16],
    /// Whether the drive offers the vendor's transfer methods.
    offers: bool,
    /// Where the buffer for payload is.
    bar_offset: u64,
    /// Whether namespaces come and go, and how many units the second one had at first.
    manages: bool,
    units: u64,
    step: Rc<Cell<u32>>,
}

impl Hostile {
    fn below(&mut self, n: u64) -> u64 {
        self.random.below(n)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    // Building blocks of commands.

    /// An address: nearly always of memory that was given for it.
    fn address(&mut self) -> u64 {
        let run = match self.below(20) {
            0 => self.below(RUNS as u64), // also where queues lie
            _ => QUEUES as u64 + self.below(RUNS as u64 - QUEUES as u64),
        };
        let first = self.arena.runs[run as usize];
        let page = first + self.below(RUN) * PAGE;
        let address = match self.below(40) {
            0..24 => page,
            24..28 => page + self.below(PAGE / 4) * 4,
            28..30 => page + self.below(PAGE),
            30..33 => page + PAGE - 1 - self.below(16),
            33..35 => first + RUN * PAGE + self.below(HOLE) * PAGE,
            35 => first + RUN * PAGE - 8,
            36 => self.random.next_u64(),
            37 => self.random.next_u64() & !(PAGE - 1),
            38 => u64::MAX - self.below(3 * PAGE),
            _ => [0, PAGE, !(PAGE - 1), 1 << 63, 0xffff_f000][self.below(5) as usize],
        };
        self.innocent(address)
    }

    /// A page of one of `runs` runs from `first` on.
    fn page(&mut self, first: usize, runs: u64) -> u64 {
        let run = first + self.below(runs) as usize;
        self.arena.runs[run] + self.below(RUN) * PAGE
    }

    /// The same, or another if it is a canary's: those are never named.
    fn innocent(&self, address: u64) -> u64 {
        if self.arena.names_canary(address) { self.arena.runs[RUNS - 1] } else { address }
    }

    /// Fills a list page with pointers: to data, to lists, to itself.
    fn prp_list(&mut self) -> u64 {
        let list = self.page(QUEUES, 4);
        let entries: Vec<u64> =
            (0..512).map(|_| if self.one_in(20) { list } else { self.address() }).collect();
        self.host.poke_words(list, &entries);
        if self.one_in(3) { list + self.below(512) * 8 } else { list }
    }

    fn descriptor(&mut self) -> SglDescriptor {
        let length = match self.below(8) {
            0..3 => 4096,
            3 => 512,
            4 => self.below(32) as u32 * 16,
            5 => self.below(8192) as u32,
            6 => 0,
            _ => self.random.next_u64() as u32,
        };
        let sgl_type = match self.below(10) {
            0..5 => SglType::DATA_BLOCK,
            5 => SglType::BIT_BUCKET,
            6 => SglType::SEGMENT,
            7..9 => SglType::LAST_SEGMENT,
            _ => SglType(self.below(16) as u8),
        };
        let sub_type = SglSubType(if self.one_in(20) { self.below(16) as u8 } else { 0 });
        SglDescriptor::new(sgl_type, sub_type, self.address(), length)
    }

    /// Fills a list page with descriptors, and gives one that points there.
    fn sgl_list(&mut self) -> SglDescriptor {
        let list = self.page(QUEUES + 4, 4);
        let count = 1 + self.below(256);
        for index in 0..count {
            let descriptor = match self.below(12) {
                0 => SglDescriptor::segment(list, count as u32 * 16),
                1 => SglDescriptor::segment(list + index * 16, 16), // to itself
                2..8 => SglDescriptor::data_block(self.address(), 512 << self.below(4)),
                _ => self.descriptor(),
            };
            self.host.poke(list + index * 16, &descriptor.to_bytes());
        }
        let bytes = count as u32 * 16;
        if self.one_in(2) {
            SglDescriptor::last_segment(list, bytes)
        } else {
            SglDescriptor::segment(list, bytes)
        }
    }

    /// A data page, as a command that is right names it.
    fn data(&mut self) -> u64 {
        self.page(QUEUES + 9, (RUNS - QUEUES - 9) as u64)
    }

    /// A data pointer for `bytes`: mostly a right one.
    fn with_pointer(&mut self, sqe: Sqe, bytes: u64) -> Sqe {
        match self.below(20) {
            0..10 => {
                let (prp1, pages) = (self.data(), bytes.div_ceil(PAGE));
                let prp2 = match pages {
                    0..2 => 0,
                    2 => self.data(),
                    _ => {
                        let list = self.page(QUEUES, 4);
                        let entries: Vec<u64> = (0..pages.min(512)).map(|_| self.data()).collect();
                        self.host.poke_words(list, &entries);
                        list
                    }
                };
                sqe.with_prp(prp1, prp2)
            }
            10..13 => {
                let list = self.page(QUEUES + 4, 4);
                let count = bytes.div_ceil(PAGE).clamp(1, 256);
                for index in 0..count {
                    let length = (bytes - index * PAGE).min(PAGE) as u32;
                    let descriptor = SglDescriptor::data_block(self.data(), length);
                    self.host.poke(list + index * 16, &descriptor.to_bytes());
                }
                sqe.with_sgl(SglDescriptor::last_segment(list, count as u32 * 16))
            }
            13 => {
                let (prp1, prp2) = (self.address(), self.address());
                sqe.with_prp(prp1, prp2)
            }
            14..16 => {
                let (prp1, prp2) = (self.address(), self.prp_list());
                sqe.with_prp(prp1, prp2)
            }
            16 => {
                let descriptor = self.descriptor();
                sqe.with_sgl(descriptor)
            }
            _ => {
                let descriptor = self.sgl_list();
                sqe.with_sgl(descriptor)
            }
        }
    }

    fn namespace(&mut self) -> u32 {
        match self.below(60) {
            0 => 0,
            1 => 3,
            2 => NSID_ALL,
            3 => self.random.next_u64() as u32,
            other => {
                if other % 2 == 0 {
                    NS_512
                } else {
                    NS_4K
                }
            }
        }
    }

    fn block(&mut self) -> u64 {
        match self.below(40) {
            0 => 8192 - self.below(16),
            1 => 32768 - self.below(64),
            2 => self.random.next_u64(),
            3 => u64::MAX - self.below(4),
            _ => self.below(4096),
        }
    }

    fn count_z(&mut self) -> u16 {
        match self.below(30) {
            0 => self.random.next_u64() as u16,
            1 => self.below(300) as u16,
            _ => self.below(32) as u16,
        }
    }

    fn io_command(&mut self) -> Sqe {
        let (nsid, slba, nlb_z) = (self.namespace(), self.block(), self.count_z());
        let fua = self.one_in(4);
        let rw = ReadWrite { slba, nlb_z, fua, ..ReadWrite::default() };
        let sqe = match self.below(15) {
            12 => rw.sqe(NvmOpcode::VERIFY, 0, nsid),
            13 => rw.sqe(NvmOpcode::WRITE_UNCORRECTABLE, 0, nsid),
            14 => {
                let page = self.page(QUEUES + 8, 1);
                for index in 0..128 {
                    let nlb_z =
                        if self.one_in(8) { self.random.next_u64() as u16 } else { self.below(32) as u16 };
                    let range = CopyRange { slba: self.block(), nlb_z, ..CopyRange::default() };
                    self.host.poke(page + index * 32, &range.to_bytes());
                }
                let nr_z = if self.one_in(4) { self.below(256) as u8 } else { self.below(4) as u8 };
                let format = if self.one_in(8) { self.below(16) as u8 } else { 0 };
                let command = Copy { sdlba: slba, nr_z, format, fua, ..Copy::default() };
                return command.sqe(0, nsid).with_prp(page, 0);
            }
            0..4 => rw.sqe(NvmOpcode::READ, 0, nsid),
            4..8 => rw.sqe(NvmOpcode::WRITE, 0, nsid),
            8 => rw.sqe(NvmOpcode::COMPARE, 0, nsid),
            9 => WriteZeroes { slba, nlb_z, fua, ..WriteZeroes::default() }.sqe(0, nsid),
            10 => {
                let page = self.page(QUEUES + 8, 1);
                for index in 0..256 {
                    let length =
                        if self.one_in(8) { self.random.next_u64() as u32 } else { self.below(64) as u32 };
                    let range = Range::new(self.block(), length);
                    self.host.poke(page + index * 16, &range.to_bytes());
                }
                let nr_z = if self.one_in(2) { self.below(4) as u8 } else { self.below(256) as u8 };
                let command = DatasetManagement { nr_z, ad: !self.one_in(4), ..DatasetManagement::default() };
                return command.sqe(0, nsid).with_prp(page, 0);
            }
            _ => Sqe::new(NvmOpcode::FLUSH, 0, nsid),
        };
        let block = if nsid == NS_4K { 4096 } else { 512 };
        self.with_pointer(sqe, (u64::from(nlb_z) + 1) * block)
    }

    /// A command that changes namespaces or media, or asks how that goes.
    fn management(&mut self) -> Sqe {
        let nsid = if self.one_in(4) { 1 + self.below(6) as u32 } else { self.namespace() };
        let page = self.page(QUEUES + 8, 1);
        match self.below(16) {
            0..3 => {
                let nsze = match self.below(4) {
                    0 => self.random.next_u64(),
                    _ => self.below(9000),
                };
                let ncap = if self.one_in(6) { self.random.next_u64() } else { nsze };
                let flbas = if self.one_in(8) { self.random.next_u64() as u8 } else { self.below(2) as u8 };
                let mut wanted = IdentifyNamespace { nsze, ncap, flbas, ..Default::default() };
                if self.one_in(8) {
                    wanted.dps = self.random.next_u64() as u8;
                }
                self.host.poke(page, wanted.as_bytes());
                let nsid = if self.one_in(8) { nsid } else { 0 };
                NamespaceManagement { sel: 0, csi: 0 }.sqe(0, nsid).with_prp(page, 0)
            }
            3..6 => {
                let mut list = ControllerList::from(0, [1]);
                if self.one_in(6) {
                    list.count = self.random.next_u64() as u16;
                }
                self.host.poke(page, list.as_bytes());
                let sel = if self.one_in(3) { 1 } else { 0 };
                NamespaceAttachment { sel }.sqe(0, nsid).with_prp(page, 0)
            }
            6 => NamespaceManagement { sel: 1, csi: 0 }.sqe(0, nsid),
            7 | 8 => {
                let (lbaf, ses) = (self.below(3) as u8, self.below(3) as u8);
                FormatNvm { lbaf, ses, ..FormatNvm::default() }.sqe(0, nsid)
            }
            9 if self.one_in(4) => {
                let (sanact, ause) = (self.below(8) as u8, self.one_in(2));
                Sanitize { sanact, ause, ..Sanitize::default() }.sqe(0)
            }
            9..12 => {
                let stc = [1, 1, 2, 0xf, self.below(16) as u8][self.below(5) as usize];
                DeviceSelfTest { stc }.sqe(0, nsid)
            }
            12 => {
                let cdw11 = self.below(2) as u32;
                let fid = fid::NAMESPACE_WRITE_PROTECTION;
                SetFeatures { fid, cdw11, ..SetFeatures::default() }.sqe(0, nsid)
            }
            13 => {
                let command = SetFeatures { fid: fid::TIMESTAMP, ..SetFeatures::default() };
                self.with_pointer(command.sqe(0, 0), 8)
            }
            14 => {
                let fid = [fid::TIMESTAMP, fid::NAMESPACE_WRITE_PROTECTION][self.below(2) as usize];
                let sel = Select(self.below(4) as u8);
                let command = GetFeatures { fid, sel, ..GetFeatures::default() };
                self.with_pointer(command.sqe(0, nsid), 8)
            }
            _ => {
                let lid = [lid::CHANGED_NAMESPACE_LIST, lid::DEVICE_SELF_TEST, lid::SANITIZE_STATUS];
                let lid = lid[self.below(3) as usize];
                let numd_z = self.below(1100) as u32;
                let command = GetLogPage { lid, numd_z, ..GetLogPage::default() };
                self.with_pointer(command.sqe(0, 0), 4096)
            }
        }
    }

    fn admin_command(&mut self) -> Sqe {
        if self.manages && self.one_in(6) {
            return self.management();
        }
        let nsid = if self.one_in(2) { 0 } else { self.namespace() };
        let (qid, word) = (self.below(11) as u16, self.random.next_u64() as u32);
        let few = self.below(80) as u16;
        // Those that take queues away are rare, or nothing else would be done.
        let choice = self.below(40);
        let sqe = match if choice < 14 { choice } else { choice % 8 } {
            0 => Identify { cns: Cns(self.below(10) as u8), csi: self.below(3) as u8, ..Identify::default() }
                .sqe(0, nsid),
            1 | 2 => {
                let lid = self.below(8) as u8;
                let (numd_z, lpo) =
                    if self.one_in(3) { (word, self.random.next_u64()) } else { (word % 1100, 0) };
                GetLogPage { lid, numd_z, lpo, rae: word & 1 == 1, ..GetLogPage::default() }.sqe(0, nsid)
            }
            3 => {
                let fid = self.below(16) as u8;
                SetFeatures { fid, cdw11: word, sv: self.one_in(8), ..SetFeatures::default() }.sqe(0, nsid)
            }
            4 => GetFeatures { fid: self.below(16) as u8, sel: Select(few as u8 & 7), cdw11: word, uidx: 0 }
                .sqe(0, nsid),
            5 => return AsyncEventRequest.sqe(0),
            6 | 7 => {
                let (sqid, cid) = match self.below(10) {
                    0 => (self.below(10) as u16, word as u16),
                    _ => self.recent[self.below(self.recent.len() as u64) as usize],
                };
                return Abort { sqid, cid }.sqe(0);
            }
            8 => return DeleteQueue { qid }.sqe(AdminOpcode::DELETE_SQ, 0),
            9 => return DeleteQueue { qid }.sqe(AdminOpcode::DELETE_CQ, 0),
            10 => {
                let qprio = QueuePriority::from_bits(word as u8);
                let qsize_z = if self.one_in(4) { word as u16 } else { few };
                let base = self.address();
                let command =
                    CreateSq { qid, qsize_z, pc: word & 0xf0 != 0, qprio, cqid: self.below(11) as u16 };
                return command.sqe(0, base);
            }
            11 => {
                let qsize_z = if self.one_in(4) { word as u16 } else { few };
                let base = self.address();
                let iv = self.below(12) as u16;
                return CreateCq { qid, qsize_z, pc: word & 0xf0 != 0, ien: word & 1 == 1, iv }.sqe(0, base);
            }
            12 => {
                // The features that matter, with values that do something.
                if self.offers && self.one_in(2) {
                    return self.enabling();
                }
                let (fid, cdw11) = match self.below(4) {
                    0 => (0x08, (word & 0x0303) | 0x0100),
                    1 => (0x01, word),
                    2 => (0x06, word & 1),
                    _ => (0x0b, word),
                };
                return SetFeatures { fid, cdw11, ..SetFeatures::default() }.sqe(0, 0);
            }
            _ => Sqe::new(self.below(256) as u8, 0, nsid),
        };
        self.with_pointer(sqe, 4096)
    }

    /// A command, sometimes damaged.
    fn command(&mut self, queue: usize) -> [u8; 64] {
        if self.one_in(20) {
            return std::array::from_fn(|_| self.random.next_u64() as u8);
        }
        let wrong_kind = self.one_in(50);
        let mut sqe = if (queue == 0) != wrong_kind { self.admin_command() } else { self.io_command() };
        self.next_cid = self.next_cid.wrapping_add(1);
        sqe.set_cid(if self.one_in(30) { 7 } else { self.next_cid });
        let slot = usize::from(self.next_cid) % self.recent.len();
        self.recent[slot] = (queue as u16, sqe.cid());
        let mut bytes = sqe.to_bytes();
        if self.one_in(8) {
            for _ in 0..1 + self.below(3) {
                let bit = self.below(512);
                bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
            }
        }
        let mut sqe = Sqe::from_bytes(&bytes);
        sqe.prp1 = self.innocent(sqe.prp1);
        if sqe.psdt() != PSDT_SGL {
            sqe.prp2 = self.innocent(sqe.prp2);
        }
        sqe.to_bytes()
    }

    // Actions of the driver.

    fn ring(&self, doorbell: Doorbell, value: u32) {
        self.host.write32(doorbell.offset(self.dstrd), value);
    }

    /// Places the two commands of a Compare and Write, or one of them, or two that are none; alone or with others between.
    fn submit_fused(&mut self, queue: usize) {
        let nsid = if self.one_in(2) { NS_512 } else { NS_4K };
        let (slba, nlb_z) = (self.below(32), self.below(6) as u16);
        for (opcode, fuse) in [(NvmOpcode::COMPARE, FUSE_FIRST), (NvmOpcode::WRITE, FUSE_SECOND)] {
            if self.one_in(8) {
                let bytes = self.command(queue);
                self.place(queue, &bytes);
            }
            if self.one_in(8) {
                continue;
            }
            let slba = if self.one_in(10) { self.block() } else { slba };
            let rw = ReadWrite { slba, nlb_z, fua: self.one_in(4), ..ReadWrite::default() };
            let mut sqe = self.with_pointer(rw.sqe(opcode, 0, nsid), 4096).with_fuse(fuse);
            self.next_cid = self.next_cid.wrapping_add(1);
            sqe.set_cid(self.next_cid);
            let slot = usize::from(self.next_cid) % self.recent.len();
            self.recent[slot] = (queue as u16, sqe.cid());
            if self.one_in(12) {
                sqe.set_fuse(self.below(4) as u8);
            }
            self.place(queue, &sqe.to_bytes());
            if self.one_in(12) {
                self.ring(Doorbell::SubmissionTail(queue as u16), self.queues[queue].tail);
            }
        }
    }

    /// Places commands and rings, mostly as is right.
    fn submit(&mut self) {
        let queue = self.below(QUEUES as u64 + 2).saturating_sub(2) as usize;
        for _ in 0..1 + self.below(6) {
            if queue > 0 && self.offers && self.one_in(2) {
                self.submit_payload(queue);
                continue;
            }
            if queue > 0 && self.one_in(6) {
                self.submit_fused(queue);
                continue;
            }
            let bytes = self.command(queue);
            self.place(queue, &bytes);
        }
        if !self.one_in(10) {
            self.ring(Doorbell::SubmissionTail(queue as u16), self.queues[queue].tail);
        }
    }

    /// Places an entry at the tail.
    fn place(&mut self, queue: usize, bytes: &[u8; 64]) {
        let Queue { sq, sq_entries, tail, .. } = self.queues[queue];
        // A damaged idea of the queue's size must not make the driver itself write where it may not.
        if sq_entries >= 2 && u64::from(sq_entries) * 64 <= RUN * PAGE {
            self.host.poke(sq + u64::from(tail) * 64, bytes);
            self.queues[queue].tail = (tail + 1) % sq_entries;
        }
    }

    /// A length of payload: mostly one that a queue of this size can hold.
    fn payload_bytes(&mut self) -> u32 {
        match self.below(20) {
            0 => self.random.next_u64() as u32,
            1 => self.below(20_000) as u32,
            2..5 => self.below(2000) as u32,
            _ => self.below(300) as u32,
        }
    }

    /// Places a payload by one of the vendor methods, entire, or with entries that are missing, too many or damaged.
    fn submit_payload(&mut self, queue: usize) {
        let bytes = self.payload_bytes();
        let said = if self.one_in(10) { self.payload_bytes() } else { bytes };
        let offset = if self.one_in(20) { self.random.next_u64() } else { self.below(4096) };
        let sink = Sink { offset, bytes: said };
        let nsid = self.namespace();
        let entry =
            |hostile: &mut Self| -> [u8; 64] { std::array::from_fn(|_| hostile.random.next_u64() as u8) };
        self.next_cid = self.next_cid.wrapping_add(1);
        let cid = self.next_cid;
        self.recent[usize::from(cid) % 16] = (queue as u16, cid);
        let mut entries: Vec<[u8; 64]> = Vec::new();
        match self.below(9) {
            0..3 => {
                let opcode = match self.below(12) {
                    0 => VendorOpcode::SINK_READ,
                    1 => VendorOpcode::SINK_STORE,
                    _ => VendorOpcode::SINK_WRITE,
                };
                let sqe = sink.sqe(opcode, cid, nsid);
                let sqe = match self.below(4) {
                    0 => {
                        let prp1 = self.data();
                        Sqe { cdw3: bytes, ..sqe.with_prp(prp1, 0) }
                    }
                    _ => sqe.with_sgl(inline_descriptor(bytes)),
                };
                entries.push(sqe.to_bytes());
                let count = InlineSlots { bytes }.count().min(80);
                entries.extend((0..count).map(|_| entry(self)));
            }
            3 | 4 => {
                let id = 0x8000 | self.below(12) as u16;
                let total = Chunk::count(bytes.min(4000)) as u16;
                for index in 0..total {
                    let index = if self.one_in(30) { self.below(90) as u16 } else { index };
                    let total = if self.one_in(40) { self.below(90) as u16 } else { total };
                    let part = entry(self);
                    let flags = if self.one_in(8) { Chunk::COMPLETE } else { 0 };
                    entries.push(
                        Chunk::new(id, index, total, &part[..Chunk::PAYLOAD_BYTES], flags).sqe().to_bytes(),
                    );
                }
                let sqe = sink.sqe(VendorOpcode::SINK_WRITE, cid, nsid);
                entries.push(sqe.with_sgl(reassembled_descriptor(id, bytes)).to_bytes());
                if self.one_in(3) {
                    self.random.shuffle(&mut entries);
                }
            }
            5 | 6 => {
                let pipelined = self.one_in(2);
                let mut sqe = sink.sqe(VendorOpcode::SINK_STORE, cid, nsid);
                let part = entry(self);
                piggyback::Head::fill(&mut sqe, &part[..35]);
                sqe.cdw2 = u32::from(pipelined) * piggyback::Head::PIPELINED;
                entries.push(sqe.to_bytes());
                for sequence in 1..piggyback::commands(bytes.min(2000), pipelined) as u16 {
                    self.next_cid = self.next_cid.wrapping_add(1);
                    let (next, part) = (self.next_cid, entry(self));
                    let sequence = if self.one_in(30) { self.random.next_u64() as u16 } else { sequence };
                    let piece = piggyback::PipelinedPiece { stream: cid, sequence };
                    let sqe = match pipelined {
                        true => piece.sqe(next, nsid, &part[..52]),
                        false => piggyback::Piece::sqe(next, nsid, &part[..56]),
                    };
                    entries.push(sqe.to_bytes());
                }
            }
            7 => {
                let at = if self.one_in(10) { self.random.next_u64() } else { self.below(70_000) };
                let sqe = sink.sqe(VendorOpcode::SINK_WRITE, cid, nsid).with_sgl(bar_descriptor(at, bytes));
                entries.push(sqe.to_bytes());
            }
            _ => {
                let mut sqe = sink.sqe(VendorOpcode::SINK_READ, cid, nsid);
                sqe.cdw2 = Sink::INLINE_RESULT;
                let sqe = self.with_pointer(sqe, said.into());
                entries.push(sqe.to_bytes());
            }
        }
        match self.below(12) {
            0 => entries.truncate(self.random.below(entries.len() as u64 + 1) as usize),
            1 => entries.push(entry(self)),
            _ => {}
        }
        for bytes in entries {
            self.place(queue, &bytes);
            if self.one_in(12) {
                self.ring(Doorbell::SubmissionTail(queue as u16), self.queues[queue].tail);
            }
        }
    }

    /// Enables some transfer methods on a queue, or what isn't offered.
    fn enabling(&mut self) -> Sqe {
        let qid = self.below(QUEUES as u64 + 1) as u32;
        let cdw11 = match self.below(8) {
            0 => self.random.next_u64() as u32,
            1 => 0,
            2..5 => 0x1ff & !(1 << 6),
            _ => self.random.next_u64() as u32 & 0x1bf,
        };
        let command = SetFeatures { fid: fid::PAYLOAD_METHODS, cdw11, ..SetFeatures::default() };
        Sqe { cdw12: qid, ..command.sqe(0, 0) }
    }

    /// Consumes what has completed, and rings.
    fn consume(&mut self, queue: usize) {
        let state = &mut self.queues[queue];
        let mut count = 0;
        while count < state.cq_entries {
            let bytes = self.host.peek(state.cq + u64::from(state.head) * 16, 16);
            let cqe = Cqe::from_bytes(bytes[..].try_into().expect("an entry is 16 bytes"));
            if cqe.phase() != state.phase {
                break;
            }
            state.head = (state.head + 1) % state.cq_entries;
            state.phase ^= state.head == 0;
            count += 1;
        }
        if count > 0 {
            let head = self.queues[queue].head;
            self.ring(Doorbell::CompletionHead(queue as u16), head);
        }
    }

    fn wild_doorbell(&mut self) {
        let value = if self.one_in(2) { self.below(70) as u32 } else { self.random.next_u64() as u32 };
        let offset = match self.below(3) {
            0 => register::DOORBELLS + self.below(0x2000),
            _ => register::DOORBELLS + self.below(QUEUES as u64 * 2 + 4) * (4 << self.dstrd),
        };
        if self.one_in(4) {
            self.host.write64(offset, value.into())
        } else {
            self.host.write32(offset, value)
        }
    }

    fn wild_register(&mut self) {
        let offset = match self.below(6) {
            0..4 => self.below(0x20) * 4,
            4 => self.below(0x1100),
            _ => self.random.next_u64() | if self.one_in(2) { !7 } else { 0 },
        };
        let value = self.random.next_u64();
        match self.below(3) {
            0 => self.host.write64(offset, value),
            1 => self.host.write32(offset, value as u32),
            _ => {
                let bytes = self.below(18) as u32;
                self.host.device().deliver(MmioWrite { offset, value, bytes });
            }
        }
    }

    async fn wild_read(&mut self) {
        let offset = match self.below(3) {
            0 => self.below(0x2000),
            1 => u64::MAX - self.below(16),
            _ => self.random.next_u64(),
        };
        if self.one_in(2) {
            self.host.read32(offset).await.into()
        } else {
            self.host.read64(offset).await
        };
    }

    /// Scribbles over memory that the device may be reading: entries, lists, data, even completions.
    fn scribble(&mut self) {
        let run = self.below(RUNS as u64) as usize;
        let at = self.arena.runs[run] + self.below(RUN * PAGE / 8 - 64) * 8;
        let words: Vec<u64> = (0..1 + self.below(64)).map(|_| self.address()).collect();
        self.host.poke_words(at, &words);
    }

    /// CC as a hostile host writes it.
    fn wild_cc(&mut self) {
        let cc =
            Cc::from_bits(cc().into_bits() ^ self.random.next_u64() as u32 & self.random.next_u64() as u32);
        let cc = if self.one_in(2) { cc.with_en(true) } else { cc };
        self.host.set_cc(cc);
    }

    /// Disables the controller, which ends within a second, and sees that it is still afterwards.
    async fn reset(&mut self) {
        self.host.set_cc(Cc::new());
        self.host.csts_until(|csts| !csts.rdy() && !csts.cfs()).await;
        // A read of a register pushes posted writes ahead of it: what was sent before the end has arrived.
        assert!(
            self.host.drive().controller.is_quiet(),
            "a reset has ended, so slots, permits and tags are free"
        );
        let written = self.host.memory().dma_written_bytes();
        if self.one_in(3) {
            self.host.sleep(Delay::from_us(300)).await;
        }
        assert_eq!(self.host.memory().dma_written_bytes(), written, "written between reset and enabling");
    }

    /// Enables the controller with queues, more or less as is right.
    async fn enable(&mut self, sane: bool) {
        let damaged = |hostile: &mut Self| !sane && hostile.one_in(12);
        let entries = 2 + self.below(60) as u32;
        self.forget(0, entries, entries);
        let aqa = Aqa::new().with_asqs_z(entries as u16 - 1).with_acqs_z(entries as u16 - 1);
        let aqa = if damaged(self) { self.random.next_u64() as u32 } else { aqa.into_bits() };
        self.host.write32(register::AQA, aqa);
        let asq = if damaged(self) { self.address() } else { self.queues[0].sq };
        self.host.write64(register::ASQ, asq);
        let acq = if damaged(self) { self.address() } else { self.queues[0].cq };
        self.host.write64(register::ACQ, acq);
        let ams = if self.one_in(2) { Cc::AMS_WEIGHTED_ROUND_ROBIN } else { Cc::AMS_ROUND_ROBIN };
        let mps = if self.one_in(4) { self.below(5) as u8 } else { 0 };
        self.host.set_cc(cc().with_ams(ams).with_mps(mps));
        self.host.sleep(Delay::from_us(20)).await;
        for qid in 1..QUEUES as u16 {
            let (sq_entries, cq_entries) = (2 + self.below(62) as u32, 2 + self.below(62) as u32);
            self.forget(qid as usize, sq_entries, cq_entries);
            let Queue { sq, cq, .. } = self.queues[qid as usize];
            let create_cq =
                CreateCq { qid, qsize_z: cq_entries as u16 - 1, pc: true, ien: self.one_in(2), iv: qid };
            let qprio = QueuePriority::from_bits(self.below(4) as u8);
            let cqid = if self.one_in(4) { 1 } else { qid };
            let create_sq = CreateSq { qid, qsize_z: sq_entries as u16 - 1, pc: true, qprio, cqid };
            let methods = if self.offers && !self.one_in(4) { 0x1bf } else { 0 };
            let allow = SetFeatures { fid: fid::PAYLOAD_METHODS, cdw11: methods, ..SetFeatures::default() };
            let allow = Sqe { cdw12: qid.into(), ..allow.sqe(0xf200 + qid, 0) };
            for sqe in [create_cq.sqe(0xf000 + qid, cq), create_sq.sqe(0xf100 + qid, sq), allow] {
                let Queue { sq, sq_entries, tail, .. } = self.queues[0];
                self.host.poke(sq + u64::from(tail) * 64, &sqe.to_bytes());
                self.queues[0].tail = (tail + 1) % sq_entries;
                self.ring(Doorbell::SubmissionTail(0), self.queues[0].tail);
                self.host.sleep(Delay::from_us(3)).await;
                self.consume(0);
            }
        }
    }

    /// New and empty rings for a queue pair, where its run is.
    fn forget(&mut self, queue: usize, sq_entries: u32, cq_entries: u32) {
        let sq = self.arena.runs[queue];
        let cq = sq + 6 * PAGE;
        self.host.poke(sq, &vec![0; (RUN * PAGE) as usize]);
        self.queues[queue] = Queue { sq, sq_entries, tail: 0, cq, cq_entries, head: 0, phase: true };
    }

    async fn step(&mut self) {
        match self.below(100) {
            0..50 => self.submit(),
            50..72 => {
                for queue in 0..QUEUES {
                    if !self.one_in(4) {
                        self.consume(queue);
                    }
                }
            }
            72..75 => self.wild_doorbell(),
            75 if self.one_in(4) => self.wild_register(),
            75..77 => self.wild_read().await,
            77..80 => self.scribble(),
            80 if self.one_in(4) => self.wild_cc(),
            81 if self.one_in(3) => {
                // A reset that the host doesn't wait for.
                self.host.set_cc(cc().with_en(false));
                if self.one_in(2) {
                    self.host.set_cc(cc());
                }
            }
            82 if self.one_in(3) => {
                self.reset().await;
                self.enable(false).await;
            }
            83 if self.one_in(10) => {
                let shn = 1 + self.below(2) as u8;
                self.host.set_cc(cc().with_shn(shn));
            }
            83 if self.offers => {
                let offset = match self.below(4) {
                    0 => self.random.next_u64(),
                    _ => self.bar_offset + self.below(70_000),
                };
                let bytes: Vec<u8> = (0..1 + self.below(64)).map(|byte| byte as u8).collect();
                self.host.end().store(offset, &bytes);
            }
            84 => self.host.write32(register::INTMS, self.random.next_u64() as u32),
            85 => self.host.write32(register::INTMC, self.random.next_u64() as u32),
            86..90 => self.host.sleep(Delay::from_us(self.random.below(200))).await,
            _ => self.host.sleep(Delay::from_ns(self.random.below(3000))).await,
        }
        // A driver whose controller is down brings it up again, now and then.
        let csts = register::CSTS;
        let csts = register::Csts::from_bits(self.host.drive().controller.register(csts, 4) as u32);
        if (!csts.rdy() || csts.cfs()) && self.one_in(10) {
            self.reset().await;
            self.enable(false).await;
        }
    }

    /// A reset recovers the drive, whatever was done to it: it takes data and gives it back, and holds nothing.
    async fn prove(&mut self) {
        self.reset().await;
        self.host.enable().await;
        let pair = self.host.create_pair(1, 64).await;
        self.put_back().await;
        let spans = [(NS_512, 13, 21), (NS_4K, 100, 16)];
        for (nsid, slba, blocks) in spans {
            let seed = self.random.next_u64();
            let bytes = pattern(seed, blocks as usize * block_bytes(nsid));
            assert_eq!(self.host.write(&pair, nsid, slba, &bytes).await, Status::SUCCESS);
            assert!(self.host.read(&pair, nsid, slba, blocks).await == bytes, "what was written is read");
        }
        if self.offers {
            self.prove_trains(&pair).await;
        }
        let flush = self.host.io(&pair, Sqe::new(NvmOpcode::FLUSH, 0, NSID_ALL)).await;
        assert_eq!(flush.status(), Status::SUCCESS);
        // Samples of a self-test, and superblocks that are emptied, end as well.
        self.host.sleep(Delay::from_ms(5)).await;
        // Nothing is kept in slots; programs in flight have ended with the flush.
        self.host.sleep(Delay::from_us(100)).await;
        let controller = &self.host.drive().controller;
        assert!(controller.is_quiet(), "slots, permits and tags are free");
        let ftl = controller.ftl();
        assert_eq!(ftl.slots_free(), ftl.slots(), "slots of the write buffer");
        assert_eq!(ftl.units_locked(), 0, "locked units");
        self.arena.check(&self.host);
    }
}

impl Hostile {
    /// Whatever became of the namespaces, there are the two again that there were at first.
    async fn put_back(&mut self) {
        let host = &self.host;
        // A change is made in its turn: those that were in flight have ended then. This one may be refused meanwhile.
        let free = SetFeatures { fid: fid::NAMESPACE_WRITE_PROTECTION, ..SetFeatures::default() };
        host.admin(free.sqe(0, NSID_ALL)).await;
        while host.sanitize_status().await.sstat & 0b111 == SanitizeStatusLog::IN_PROGRESS {
            host.sleep(Delay::from_ms(1)).await;
        }
        host.succeed(DeviceSelfTest { stc: DeviceSelfTest::ABORT }.sqe(0, 0)).await;
        let page = host.identify(Cns::ALLOCATED_NAMESPACES, 0).await;
        let nsids: Vec<u32> =
            ActiveNamespaceList::read_from_bytes(&page).expect("a page is its size").iter().collect();
        let mut as_before = nsids == [NS_512, NS_4K];
        for nsid in nsids {
            let attached = host.admin(host.attach_sqe(nsid, true)).await.status();
            as_before &= attached.is(Status::NAMESPACE_ALREADY_ATTACHED);
            host.succeed(free.sqe(0, nsid)).await;
        }
        let size = async |nsid| {
            let id = host.namespace(nsid).await;
            (id.nsze, id.flbas)
        };
        let sizes = [(NS_512_UNITS * 8, 0), (self.units, 1)];
        if !as_before || size(NS_512).await != sizes[0] || size(NS_4K).await != sizes[1] {
            host.succeed(delete(NSID_ALL)).await;
            for (blocks, format) in sizes {
                host.create(blocks, format).await;
            }
        }
    }

    /// After enabling, payload crosses after its command again, and is what comes back.
    async fn prove_trains(&mut self, pair: &fixture::Pair) {
        let enable = SetFeatures { fid: fid::PAYLOAD_METHODS, cdw11: 1, ..SetFeatures::default() };
        self.host.succeed(Sqe { cdw12: pair.sq.id.into(), ..enable.sqe(0, 0) }).await;
        for bytes in [1, 64, 200] {
            let payload = pattern(self.random.next_u64(), bytes as usize);
            let sink = Sink { offset: 77, bytes };
            let sqe = sink.sqe(VendorOpcode::SINK_WRITE, 0, NS_4K).with_sgl(inline_descriptor(bytes));
            let cid = self.host.place(&pair.sq, sqe);
            for part in payload.chunks(64) {
                let mut slot = [0; 64];
                slot[..part.len()].copy_from_slice(part);
                self.host.place_as_is(&pair.sq, Sqe::from_bytes(&slot));
            }
            self.host.ring_tail(&pair.sq);
            assert_eq!(self.host.completion(&pair.cq, cid).await.status(), Status::SUCCESS);
            let page = self.host.pages(1);
            let read = sink.sqe(VendorOpcode::SINK_READ, 0, NS_4K).with_prp(page, 0);
            assert_eq!(self.host.io(pair, read).await.status(), Status::SUCCESS);
            assert!(self.host.peek(page, bytes as usize) == payload, "the payload is read back");
            self.host.memory().free(page, 1);
        }
    }
}

/// Everything that a drive can offer, with little space.
fn everything() -> TransferConfig {
    TransferConfig {
        methods: Methods::from_bits(0x1bf),
        inline_bytes_max: 1500,
        reassembly_bytes_max: 1500,
        piggyback_bytes_max: 1500,
        inline_result_bytes_max: 700,
        partial_payloads_max: 6,
        partial_timeout: Delay::from_us(300),
        bar_bytes: 65536,
        memory: None,
        sink_bytes: 16384,
        chunk_store: Delay::from_ns(100),
    }
}

/// Says which seed it was, if the test fails.
struct Seed {
    seed: u64,
    step: Rc<Cell<u32>>,
}

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Seed { seed, step } = self;
            eprintln!("the hostile driver's seed was {seed}, its step {}", step.get());
        }
    }
}

fn run(seed: u64, steps: u32) {
    let mut bench = Bench::with_sgl();
    let controller = &mut bench.drive.controller;
    controller.sgl = seed % 4 != 1;
    controller.dma_granularity = [1, 4096, 512][(seed % 3) as usize];
    controller.dstrd = (seed % 2) as u8;
    controller.command_slots = [3, 64][(seed / 2 % 2) as usize];
    controller.fetch_outstanding = 1 + (seed % 3) as u32;
    bench.drive.keep = [Keep::Bytes, Keep::Stamps][(seed / 3 % 2) as usize];
    if seed.is_multiple_of(2) {
        // Nearly full, so that the collector works as well.
        bench.drive.namespaces[1].units = 24_000;
        bench.drive.base = Base::Steady;
    }
    bench.ends_quiet = false; // commands fail half-way here, so payloads are more than what they count
    let offers = seed % 5 != 4;
    if offers {
        bench.drive.controller.fetch_burst = [1, 4, 64][(seed % 3) as usize];
        bench.drive.transfer = everything();
    }
    let units = bench.drive.namespaces[1].units;
    let (dstrd, bar_offset) = (bench.drive.controller.dstrd, bench.drive.bar_offset());
    let step = Rc::new(Cell::new(0));
    let _says = Seed { seed, step: step.clone() };
    bench.run(async move |host| {
        let arena = Arena::new(&host);
        let queue = || Queue { sq: 0, sq_entries: 2, tail: 0, cq: 0, cq_entries: 2, head: 0, phase: true };
        let queues = (0..QUEUES).map(|_| queue()).collect();
        let random = Rng::new(seed).stream("hostile");
        let mut hostile = Hostile {
            host,
            arena,
            random,
            queues,
            dstrd,
            next_cid: 100,
            recent: [(0, 0); 16],
            offers,
            bar_offset,
            manages: seed % 3 != 2,
            units,
            step,
        };
        hostile.prove().await;
        let tickets = hostile.host.drive().controller.ftl().flash().tickets_in_use();
        hostile.enable_again().await;
        for step in 1..=steps {
            hostile.step.set(step);
            let before = hostile.host.clock().counters().polls;
            hostile.step().await;
            let polls = hostile.host.clock().counters().polls - before;
            assert!(polls < STEP_POLLS_MAX, "{polls} polls in one step");
            if step % PROOF_STEPS == 0 || step == steps {
                hostile.prove().await;
                let flash = hostile.host.drive().controller.ftl().flash().clone();
                assert_eq!(flash.tickets_in_use(), tickets, "tickets of the flash");
                hostile.enable_again().await;
            }
        }
    });
}

impl Hostile {
    async fn enable_again(&mut self) {
        self.reset().await;
        self.enable(true).await;
    }
}

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name);
    text.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

// One host that misbehaves must not bring down the process that serves its neighbours, nor make the device write
// memory that is not its to write.
#[test]
fn nothing_that_a_host_does_harms_the_drive() {
    let steps = setting("BYTEWAY_HOSTILE_STEPS", 10_000) as u32;
    let first = setting("BYTEWAY_HOSTILE_FIRST", 1);
    for seed in first..first + setting("BYTEWAY_HOSTILE_SEEDS", 8) {
        run(seed, steps);
    }
}

// Registers of 32 bits may be written two at a time. The second of them was changed and not acted upon: a controller
// that is enabled by such a write never became ready.
#[test]
fn both_halves_of_a_wide_register_write_have_effect() {
    Bench::default().run(async |host| {
        host.set_admin_queues();
        host.write64(register::INTMC, u64::from(cc().into_bits()) << 32);
        host.csts_until(|csts| csts.rdy()).await;
    });
}

// The last offset plus four is no offset: computing it brought the device down.
#[test]
fn the_last_offset_reads_as_nothing() {
    Bench::default().run(async |host| {
        assert_eq!(host.read64(u64::MAX - 3).await, 0);
        assert_eq!(host.read64(u64::MAX - 15).await, 0);
    });
}

// Entries past the end of the address space: computing where they lie brought the device down, as soon as they were
// fetched next to those before the end.
#[test]
fn a_queue_at_the_end_of_the_address_space_is_a_fatal_status() {
    let mut bench = Bench::default();
    bench.drive.controller.fetch_outstanding = 4;
    bench.drive.controller.fetch_burst = 64;
    bench.drive.controller.command_slots = 512;
    bench.enabled(async |host| {
        host.create_cq(1, 1024, None).await;
        let create = CreateSq { qid: 1, qsize_z: 1023, pc: true, cqid: 1, ..CreateSq::default() };
        host.succeed(create.sqe(0, u64::MAX - 4095)).await;
        host.ring(Doorbell::SubmissionTail(1), 1000);
        host.csts_until(|csts| csts.cfs()).await;
        host.disable().await;
        host.enable().await;
    });
}

// A held event request needs a slot in the completion queue when it is aborted. With the last one taken, by the Abort,
// it took one that was not there.
#[test]
fn an_aborted_event_request_waits_for_room() {
    let bench = Bench { admin_entries: 2, ..Bench::default() };
    bench.enabled(async |host| {
        let admin = host.admin_pair();
        let request = host.request_event();
        host.sleep(Delay::from_us(10)).await;
        let abort = host.submit(&admin.sq, Abort { sqid: 0, cid: request }.sqe(0));
        let first = host.next_quietly(&admin.cq).await;
        assert_eq!((first.cid, first.status()), (abort, Status::SUCCESS));
        host.sleep(Delay::from_us(10)).await;
        assert!(host.look(&admin.cq).is_none(), "the completion queue is full");
        host.ring_head(&admin.cq);
        let second = host.next(&admin.cq).await;
        assert_eq!((second.cid, second.status()), (request, Status::ABORT_REQUESTED));
    });
}

// A command's pages are of the size that the controller was enabled with: with the size that CC says later, data would
// go to addresses that no entry of its list names.
#[test]
fn the_page_size_is_that_of_the_enabling() {
    Bench::default().with_queue(async |host, pair| {
        let bytes = pattern(5, 4 * 4096);
        assert_eq!(host.write(&pair, NS_4K, 0, &bytes).await, Status::SUCCESS);
        let run = host.pages(16);
        let pages: Vec<u64> = [0, 9, 5, 12].iter().map(|page| run + page * PAGE).collect();
        let list = host.pages(1);
        host.poke_words(list, &pages[1..]);
        let read = ReadWrite { slba: 0, nlb_z: 3, ..ReadWrite::default() }.sqe(NvmOpcode::READ, 0, NS_4K);
        host.set_cc(cc().with_mps(4));
        assert_eq!(host.io(&pair, read.with_prp(pages[0], list)).await.status(), Status::SUCCESS);
        for (page, part) in pages.iter().zip(bytes.chunks(4096)) {
            assert_eq!(host.peek(*page, 4096), part);
        }
        assert_eq!(host.peek(run + PAGE, 4096), [0; 4096]);
    });
}

// Cleared and set at one instant, CC.EN looked as if nothing had happened, and the old queues lived on under a host
// that had started over.
#[test]
fn enabling_at_once_after_disabling_is_a_reset() {
    Bench::default().with_queue(async |host, pair| {
        let cid = host.submit(&pair.sq, Sqe::new(NvmOpcode::FLUSH, 0, NSID_ALL));
        assert_eq!(host.completion(&pair.cq, cid).await.status(), Status::SUCCESS);
        host.set_admin_queues();
        host.sleep(Delay::from_us(10)).await;
        for cc in [Cc::new(), cc()] {
            host.device().deliver(MmioWrite { offset: register::CC, value: cc.into_bits().into(), bytes: 4 });
        }
        host.sleep(Delay::from_us(50)).await;
        assert_eq!(host.drive().controller.counters().resets.get(), 1);
        host.csts_until(|csts| csts.rdy()).await;
        host.create_pair(1, 16).await;
    });
}
