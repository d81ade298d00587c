//! A fuzzed host with memory, which accesses registers, queues and that memory as the input determines.
//!
//! Verified after each input: no panic; the function is quiet after it has been detached; only mapped and
//! writable memory was written ([`Arena::check`]), and none after it was unmapped; for some of the inputs,
//! that the drive works afterwards and holds no resources.
//! A *tame* input follows the rules for hosts, but unmaps memory and resets at any time. It also verifies:
//! every completion has a submission; a successful read returns possible contents ([`Model`]); an admin
//! command is answered, and every command completes, unless the memory of the queues is gone; a queue that
//! waits for the rest of a train holds up no other.
//! Not verified: that nothing unnamed is *read*; the status of a failed command.

mod payloads;

use super::arena::{Arena, DATA, MORE_DATA, PLACES, QUEUES, READ_ONLY, REMOTE};
use super::bench::{self, IO_QUEUES, NS_4K, NS_512, NS_UNITS, Patience, Served, Shape, VECTORS};
use super::input::Input;
use super::model::{self, BLOCK_BYTES, BLOCKS, Model};
use byteway_content::Keep;
use byteway_firmware::Base;
use byteway_link::memory::PAGE_BYTES;
use byteway_serve::function::{Doorbells, REGION_BAR0, REGION_CONFIG};
use byteway_serve::pci::Effect;
use byteway_wire::nvme::register::{self, Aqa, Cc, Csts};
use byteway_wire::nvme::vendor::{Methods, ResultSlot};
use byteway_wire::nvme::{
    Abort, AdminOpcode, AsyncEventRequest, Cns, Cqe, CreateCq, CreateSq, DatasetManagement, DeleteQueue,
    Doorbell, DoorbellBufferConfig, Flush, GetFeatures, GetLogPage, Identify, NSID_ALL, NvmOpcode,
    QueuePriority, Range, ReadWrite, Select, SetFeatures, SglDescriptor, Sqe, Status, WriteZeroes, fid,
    sgl::SglSubType, sgl::SglType,
};
use payloads::Payloads;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};
use std::cell::Cell;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// Steps of an input, at most, so that it ends soon.
const ACTIONS_MAX: u32 = 96;
/// Data buffers of commands.
const BUFFERS: u64 = 6;
/// Pages of each buffer.
const BUFFER_PAGES: u64 = 5;
/// Layout of the queues' range in pages: first the submission queues, then the completion queues.
const COMPLETION_PAGES: u64 = IO_QUEUES as u64 + 1;
const LIST_PAGES: u64 = 2 * COMPLETION_PAGES;
const ADMIN_DATA_PAGE: u64 = LIST_PAGES + BUFFERS;
const SHADOW_PAGE: u64 = ADMIN_DATA_PAGE + 1;
const EVENT_PAGE: u64 = SHADOW_PAGE + 1;

/// Runs an input.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (flags, more) = (input.byte(), input.byte());
    let is = |bit: u8| flags & bit != 0;
    let shape = Shape {
        doorbells: if is(2) { Doorbells::Trapped } else { Doorbells::Mapped },
        sgl: !is(4),
        dstrd: u8::from(is(8)),
        dma_granularity: if is(16) { 4096 } else { 1 },
        command_slots: if is(32) { 3 } else { 32 },
        fetch_outstanding: 1 + u32::from(more & 3),
        keep: if is(64) { Keep::Stamps } else { Keep::Bytes },
        base: if more & 4 != 0 { Base::Steady } else { Base::Empty },
        fetch_burst: [4, 1, 16, 64][usize::from(more >> 5 & 3)],
        offers: more & 16 == 0,
    };
    let (is_wild, proves, is_bare) = (is(1), is(128), more & 8 != 0);
    // Initial data of a drive in its steady state is no version of the model.
    let is_tame = !is_wild && shape.base == Base::Empty;
    let bytes = bytes.to_vec();
    bench::run(shape, move |served| async move {
        let mut input = Input::new(bytes.get(2..).unwrap_or_default());
        let arena = Arena::new(served.function.memory());
        let mut host = Host::new(served, arena, shape, is_tame);
        if !is_bare {
            host.begin().await;
        }
        let mut actions = 0;
        while !input.is_empty() && actions < ACTIONS_MAX {
            host.act(&mut input, is_wild).await;
            actions += 1;
        }
        host.finish(proves).await;
    });
}

/// A queue pair, as the host sees it.
struct Ring {
    id: u16,
    sq: u64,
    sq_entries: u32,
    tail: u32,
    cq: u64,
    cq_entries: u32,
    head: u32,
    phase: bool,
    in_flight: u32,
    /// Its head according to completions.
    sqhd: u32,
    /// The last tail written to the doorbell.
    rung: Cell<u32>,
    enabled: Methods,
}

impl Ring {
    /// Number of free entries.
    fn free(&self) -> u32 {
        self.sq_entries - 1 - (self.tail + self.sq_entries - self.sqhd) % self.sq_entries
    }
}

/// An outstanding I/O command.
struct Io {
    key: (u16, u16),
    buffer: u64,
    address: u64,
    opcode: NvmOpcode,
    /// The ranges that it uses, and the numbers of their memories.
    places: Vec<(usize, u32)>,
    /// Its memory was truncated, or did not exist.
    is_torn: bool,
    /// For a compare, the version in the buffer.
    version: u32,
}

struct Host {
    served: Served,
    arena: Rc<Arena>,
    shape: Shape,
    is_tame: bool,
    rings: Vec<Option<Ring>>,
    ios: Vec<Io>,
    model: Model,
    payloads: Payloads,
    next_cid: u16,
    has_shadow: bool,
    /// Whether the queues' memory was unmapped since the controller was enabled.
    is_broken: bool,
    detaches: u32,
    sleeps: u32,
    answer: Option<Cqe>,
    /// The vector assignment, as the host sees it.
    ends: Vec<OwnedFd>,
}

impl Host {
    fn new(served: Served, arena: Rc<Arena>, shape: Shape, is_tame: bool) -> Self {
        Host {
            served,
            arena,
            shape,
            is_tame,
            rings: (0..=IO_QUEUES).map(|_| None).collect(),
            ios: Vec::new(),
            model: Model::new(),
            payloads: Payloads::new(),
            next_cid: 0,
            has_shadow: false,
            is_broken: false,
            detaches: 0,
            sleeps: 0,
            answer: None,
            ends: Vec::new(),
        }
    }

    // Registers.

    fn write32(&self, offset: u64, value: u32) {
        let written = self.served.function.write(REGION_BAR0, offset, &value.to_le_bytes());
        written.expect("a register lies in BAR0");
    }

    fn write64(&self, offset: u64, value: u64) {
        let written = self.served.function.write(REGION_BAR0, offset, &value.to_le_bytes());
        written.expect("a register lies in BAR0");
    }

    fn csts(&self) -> Csts {
        let mut bytes = [0; 4];
        let read = self.served.function.read(REGION_BAR0, register::CSTS, &mut bytes);
        read.expect("a register lies in BAR0");
        Csts::from_bits(u32::from_le_bytes(bytes))
    }

    fn page(page: u64) -> u64 {
        Arena::base(QUEUES) + page * PAGE_BYTES
    }

    /// Address of a buffer.
    fn buffer(buffer: u64) -> u64 {
        match buffer.checked_sub(4) {
            None => Arena::base(DATA) + buffer * BUFFER_PAGES * PAGE_BYTES,
            Some(remote) => Arena::base(REMOTE) + remote * BUFFER_PAGES * PAGE_BYTES,
        }
    }

    // Actions of a well-behaved host.

    /// Memory, an enabled controller, a queue pair.
    async fn begin(&mut self) {
        for place in [QUEUES, DATA, MORE_DATA, READ_ONLY, REMOTE] {
            self.arena.map(place);
        }
        self.enable().await;
        self.create_pair(1, 16, 16, 1, Some(1)).await;
    }

    async fn enable(&mut self) {
        self.reset().await;
        if self.arena.is_cut(QUEUES) {
            self.arena.unmap(QUEUES);
        }
        self.arena.map(QUEUES);
        self.is_broken = self.arena.is_cut(QUEUES);
        let entries = 16;
        self.rings[0] = Some(self.ring_at(0, entries, entries));
        self.write32(
            register::AQA,
            Aqa::new().with_asqs_z(entries as u16 - 1).with_acqs_z(entries as u16 - 1).into_bits(),
        );
        self.write64(register::ASQ, Self::page(0));
        self.write64(register::ACQ, Self::page(COMPLETION_PAGES));
        self.write32(register::CC, Cc::new().with_en(true).with_iosqes(6).with_iocqes(4).into_bits());
        self.served
            .until("enabling the controller", || {
                let csts = self.csts();
                csts.rdy() || csts.cfs()
            })
            .await;
    }

    async fn reset(&mut self) {
        self.write32(register::CC, 0);
        self.served
            .until("resetting the controller", || {
                let csts = self.csts();
                !csts.rdy() && !csts.cfs()
            })
            .await;
        self.forget();
    }

    fn forget(&mut self) {
        self.model.forget();
        self.payloads.forget(None);
        self.ios.clear();
        self.rings.iter_mut().for_each(|ring| *ring = None);
        self.has_shadow = false;
        self.is_broken = true;
        self.answer = None;
    }

    fn ring_at(&self, id: u16, sq_entries: u32, cq_entries: u32) -> Ring {
        let (sq, cq) = (Self::page(id.into()), Self::page(COMPLETION_PAGES + u64::from(id)));
        self.arena.poke(sq, &[0; PAGE_BYTES as usize]);
        self.arena.poke(cq, &[0; PAGE_BYTES as usize]);
        Ring {
            id,
            sq,
            sq_entries,
            tail: 0,
            cq,
            cq_entries,
            head: 0,
            phase: true,
            in_flight: 0,
            sqhd: 0,
            rung: Cell::new(0),
            enabled: Methods::new(),
        }
    }

    /// Whether commands can be expected to be answered.
    fn is_well(&self) -> bool {
        let csts = self.csts();
        !self.is_broken && csts.rdy() && !csts.cfs() && self.arena.is_mapped(QUEUES)
    }

    fn cid(&mut self) -> u16 {
        self.next_cid = self.next_cid.wrapping_add(1);
        self.next_cid
    }

    /// Places an entry, and moves the tail.
    fn place(&mut self, queue: u16, sqe: &[u8; 64]) {
        let arena = self.arena.clone();
        let Some(ring) = &mut self.rings[queue as usize] else { return };
        arena.poke(ring.sq + u64::from(ring.tail) * 64, sqe);
        ring.tail = (ring.tail + 1) % ring.sq_entries;
        ring.in_flight += 1;
    }

    fn ring_tail(&self, queue: u16, by_message: bool) {
        if let Some(ring) = &self.rings[queue as usize] {
            ring.rung.set(ring.tail);
            self.ring(Doorbell::SubmissionTail(queue), ring.tail, by_message);
        }
    }

    /// Writes a doorbell as a well-behaved host does: the shadow, if there is one, and the register if
    /// required.
    fn ring(&self, doorbell: Doorbell, value: u32, by_message: bool) {
        let offset = doorbell.offset(self.shape.dstrd);
        let is_admin = matches!(doorbell, Doorbell::SubmissionTail(0) | Doorbell::CompletionHead(0));
        if self.has_shadow && !is_admin {
            let at = offset - register::DOORBELLS;
            let mut bytes = [0; 4];
            self.arena.peek(Self::page(SHADOW_PAGE) + at, &mut bytes);
            let old = u32::from_le_bytes(bytes) as u16;
            self.arena.poke(Self::page(SHADOW_PAGE) + at, &value.to_le_bytes());
            self.arena.peek(Self::page(EVENT_PAGE) + at, &mut bytes);
            let (event, new) = (u32::from_le_bytes(bytes) as u16, value as u16);
            // As Linux does (B.5 of the specification).
            if new.wrapping_sub(event).wrapping_sub(1) >= new.wrapping_sub(old) {
                return;
            }
        }
        self.store_doorbell(offset, value, by_message);
    }

    /// To the page, if the host may map it, or as a message.
    fn store_doorbell(&self, offset: u64, value: u32, by_message: bool) {
        match self.served.function.region(REGION_BAR0).mappable {
            Some(mappable) if !by_message => {
                let end = mappable.offset + mappable.bytes;
                if (mappable.offset..end).contains(&offset) {
                    mappable
                        .file
                        .write_all_at(&value.to_le_bytes(), offset & !3)
                        .expect("memory can be written");
                }
            }
            _ => _ = self.served.function.write(REGION_BAR0, offset, &value.to_le_bytes()),
        }
    }

    /// Sends an admin command and waits for its completion. `None`: there will be none.
    async fn admin(&mut self, sqe: Sqe) -> Option<Cqe> {
        let is_full = |ring: &Ring| ring.free() == 0;
        if self.rings[0].as_ref().is_none_or(is_full) {
            return None;
        }
        let cid = self.cid();
        self.answer = None;
        self.place(0, &sqe.with_cid(cid).to_bytes());
        self.ring_tail(0, false);
        let mut patience = Patience::new(&self.served.clock);
        let mut turns = 0;
        loop {
            self.consume(0);
            if self.answer.is_some_and(|answer| answer.cid == cid) {
                return self.answer;
            }
            turns += 1;
            if turns > 500 && (!self.is_tame || !self.is_well()) {
                return None;
            }
            let complaint = || format!("an admin command is never answered: {sqe:?}");
            patience.turn(&self.served.clock, complaint).await;
        }
    }

    async fn create_pair(
        &mut self,
        id: u16,
        sq_entries: u32,
        cq_entries: u32,
        cqid: u16,
        vector: Option<u16>,
    ) {
        if self.rings[id as usize].is_some() {
            return;
        }
        let mut ring = self.ring_at(id, sq_entries, cq_entries);
        let (ien, iv) = (vector.is_some(), vector.unwrap_or(0));
        let cq = CreateCq { qid: id, qsize_z: cq_entries as u16 - 1, pc: true, ien, iv };
        let is_done = |answer: Option<Cqe>| answer.is_some_and(|answer| answer.status().is_success());
        if cqid == id && !is_done(self.admin(cq.sqe(0, ring.cq)).await) {
            return;
        }
        let qprio = QueuePriority::Medium;
        let sq = CreateSq { qid: id, qsize_z: sq_entries as u16 - 1, pc: true, qprio, cqid };
        if cqid != id {
            ring.cq_entries = 0; // it has none of its own
        }
        if is_done(self.admin(sq.sqe(0, ring.sq)).await) {
            self.rings[id as usize] = Some(ring);
        }
    }

    async fn delete_pair(&mut self, id: u16) {
        let has_own = self.rings[id as usize].as_ref().is_some_and(|ring| ring.cq_entries > 0);
        // Another queue may post there.
        if !has_own && self.is_tame {
            return;
        }
        self.admin(DeleteQueue { qid: id }.sqe(AdminOpcode::DELETE_SQ, 0)).await;
        // An aborted command has completed by then.
        self.consume(id);
        self.admin(DeleteQueue { qid: id }.sqe(AdminOpcode::DELETE_CQ, 0)).await;
        self.rings[id as usize] = None;
        let ended: Vec<_> = self.ios.iter().map(|io| io.key).filter(|key| key.0 == id).collect();
        for key in ended {
            self.model.ends(key, false);
        }
        self.ios.retain(|io| io.key.0 != id);
        self.payloads.forget(Some(id));
    }

    /// Takes completions, and writes the doorbell.
    fn consume(&mut self, queue: u16) {
        let mut count = 0;
        loop {
            let Some(ring) = &mut self.rings[queue as usize] else { return };
            if ring.cq_entries < 2 || count >= ring.cq_entries {
                break;
            }
            let mut bytes = [0; 16];
            self.arena.peek(ring.cq + u64::from(ring.head) * 16, &mut bytes);
            let cqe = Cqe::from_bytes(&bytes);
            if cqe.phase() != ring.phase {
                break;
            }
            let (cq, entries, mut head, mut phase) = (ring.cq, ring.cq_entries, ring.head, ring.phase);
            let slots = self.result_slots(&cqe).min(entries - 1);
            let mut result = Vec::new();
            for part in 0..=slots {
                self.arena.peek(cq + u64::from(head) * 16, &mut bytes);
                let slot = ResultSlot::from_bytes(&bytes);
                if slot.phase() != phase {
                    return self.ring_head(queue, count); // the rest is still to come
                }
                if part > 0 {
                    assert!(
                        !self.is_tame || u32::from(slot.part()) == part,
                        "parts of a result are in order"
                    );
                    result.extend_from_slice(&slot.payload);
                }
                head = (head + 1) % entries;
                phase ^= head == 0;
            }
            count += 1 + slots;
            if let Some(ring) = &mut self.rings[queue as usize] {
                (ring.head, ring.phase) = (head, phase);
            }
            self.completed(queue, cqe, &result);
        }
        self.ring_head(queue, count);
    }

    fn ring_head(&self, queue: u16, count: u32) {
        if count > 0
            && let Some(ring) = &self.rings[queue as usize]
        {
            self.ring(Doorbell::CompletionHead(queue), ring.head, false);
        }
    }

    fn completed(&mut self, queue: u16, cqe: Cqe, result: &[u8]) {
        let ring = self.rings.get_mut(usize::from(cqe.sqid)).and_then(Option::as_mut);
        if let Some(ring) = ring {
            ring.in_flight = ring.in_flight.saturating_sub(1);
            ring.sqhd = u32::from(cqe.sqhd) % ring.sq_entries;
        } else if self.is_tame && cqe.sqid > 0 && !self.is_broken {
            panic!("a completion names a queue that is not there: {cqe:?}");
        }
        if queue == 0 {
            self.answer = Some(cqe);
            return;
        }
        if self.payload_completed(cqe, result) {
            return;
        }
        let key = (cqe.sqid, cqe.cid);
        let Some(at) = self.ios.iter().position(|io| io.key == key) else {
            assert!(!self.is_tame || self.is_broken, "what completes was not submitted: {cqe:?}");
            return;
        };
        let io = self.ios.swap_remove(at);
        let is_success = cqe.status().is_success();
        let read = self.model.ends(key, is_success);
        if let (Some((first, blocks)), true) = (read, self.is_tame) {
            self.look_at(&io, first, &blocks, cqe.status());
        }
    }

    /// Handles the completion of a read or a compare.
    fn look_at(&self, io: &Io, first: u64, blocks: &[model::Block], status: Status) {
        if io.opcode == NvmOpcode::COMPARE {
            for (index, block) in blocks.iter().enumerate() {
                let lba = first + index as u64;
                let mut bytes = [0; BLOCK_BYTES];
                model::fill(lba, io.version, &mut bytes);
                if status.is_success() && !io.is_torn {
                    assert!(block.allows(lba, &bytes), "block {lba} compares with what it cannot hold");
                }
            }
            let all_equal = blocks.iter().all(|block| block.only() == Some(io.version));
            if all_equal && !io.is_torn {
                assert_ne!(status.without_flags(), Status::COMPARE_FAILURE, "blocks differ from themselves");
            }
            return;
        }
        if !status.is_success() || io.is_torn {
            return;
        }
        for (index, block) in blocks.iter().enumerate() {
            let lba = first + index as u64;
            let address = io.address + (index * BLOCK_BYTES) as u64;
            let mut candidates = vec![vec![0; BLOCK_BYTES]];
            self.arena.peek(address, &mut candidates[0]);
            let places: Vec<_> = Arena::places(address, BLOCK_BYTES as u64).collect();
            let before = io.places.iter().filter(|(place, _)| places.contains(place));
            let has_changed = before.clone().any(|(place, number)| self.arena.number(*place) != *number);
            if has_changed && places.len() > 1 {
                continue; // one half may have been read before, the other after
            }
            for (place, number) in before.filter(|_| has_changed) {
                candidates.extend(self.arena.peek_before(*place, *number, address, BLOCK_BYTES));
            }
            let is_right = candidates.iter().any(|bytes| block.allows(lba, bytes));
            assert!(
                is_right,
                "a read of block {lba} succeeds and gives what the block cannot hold: {:x?}..., it may hold {block:?}",
                &candidates[0][..16],
            );
        }
    }

    fn consume_all(&mut self) {
        (0..=IO_QUEUES).for_each(|queue| self.consume(queue));
    }

    fn is_free(&self, buffer: u64) -> bool {
        self.ios.iter().all(|io| io.buffer != buffer) && !self.payloads.uses(buffer)
    }

    /// Submits an I/O command to the modelled namespace.
    fn submit(&mut self, input: &mut Input<'_>) {
        let choice = input.byte();
        let (queue, by_message, rings) = (1 + u16::from(choice & 3), choice & 4 != 0, choice & 8 == 0);
        let buffer = (0..BUFFERS).map(|index| (index + u64::from(choice >> 4)) % BUFFERS);
        let Some(buffer) = buffer.into_iter().find(|buffer| self.is_free(*buffer)) else {
            return self.consume_all();
        };
        let queue = if self.rings[queue as usize].is_some() { queue } else { 1 };
        let Some(ring) = &self.rings[queue as usize] else { return };
        if ring.free() == 0 {
            return self.consume_all();
        }
        let has_trains = ring.enabled.inline() && ring.free() >= 2;
        let cid = self.cid();
        let key = (queue, cid);
        let opcode = input.pick(&[
            NvmOpcode::READ,
            NvmOpcode::WRITE,
            NvmOpcode::READ,
            NvmOpcode::WRITE,
            NvmOpcode::COMPARE,
            NvmOpcode::WRITE_ZEROES,
            NvmOpcode::DATASET_MANAGEMENT,
            NvmOpcode::FLUSH,
        ]);
        let shape = input.byte();
        let count = 1 + u64::from(shape & 3);
        let first = input.below(BLOCKS - count + 1);
        let offset = [0, 0, 0, 512, 2048, 4, 8, 4092][usize::from(shape >> 2 & 7)];
        let address = Self::buffer(buffer) + offset;
        let fua = shape & 32 != 0;
        let bytes = count * BLOCK_BYTES as u64;
        let rw = ReadWrite { slba: first, nlb_z: count as u16 - 1, fua, ..ReadWrite::default() };
        let (mut version, mut ranges) = (0, None);
        let sqe = match opcode {
            NvmOpcode::READ => {
                self.arena.poke(address, &vec![0xDB; bytes as usize]);
                self.model.reads(key, first, count);
                rw.sqe(opcode, cid, NS_4K)
            }
            NvmOpcode::COMPARE => {
                self.model.reads(key, first, count);
                version = input.below(4) as u32;
                self.fill(address, first, count, version);
                rw.sqe(opcode, cid, NS_4K)
            }
            NvmOpcode::WRITE => {
                version = self.model.version();
                self.fill(address, first, count, version);
                self.model.writes(key, first, count, version);
                rw.sqe(opcode, cid, NS_4K)
            }
            NvmOpcode::WRITE_ZEROES => {
                self.model.writes(key, first, count, 0);
                let nlb_z = count as u16 - 1;
                WriteZeroes { slba: first, nlb_z, fua, ..WriteZeroes::default() }.sqe(cid, NS_4K)
            }
            NvmOpcode::DATASET_MANAGEMENT => {
                ranges = Some(Range::new(first, count as u32));
                self.model.writes(key, first, count, 0);
                DatasetManagement { nr_z: 0, ad: true, ..DatasetManagement::default() }.sqe(cid, NS_4K)
            }
            _ => Flush.sqe(cid, if fua { NSID_ALL } else { NS_4K }),
        };
        let sqe = match ranges {
            Some(range) => {
                self.arena.poke(Self::page(LIST_PAGES + buffer), &range.to_bytes());
                sqe.with_prp(Self::page(LIST_PAGES + buffer), 0)
            }
            _ if self.shape.sgl && shape & 64 != 0 => {
                self.with_sgl(sqe, buffer, address, bytes, shape & 128 != 0)
            }
            _ => self.with_prp(sqe, buffer, address, bytes),
        };
        let mut places: Vec<_> =
            Arena::places(address, bytes).map(|place| (place, self.arena.number(place))).collect();
        let is_torn = places.iter().any(|(place, _)| self.arena.is_cut(*place)) || self.arena.is_cut(QUEUES);
        places.push((QUEUES, self.arena.number(QUEUES)));
        self.ios.push(Io { key, buffer, address, opcode, places, is_torn, version });
        if is_torn {
            self.model.tear(key);
        }
        match ranges {
            // Variations of any command with data.
            Some(range) if has_trains && shape & 64 != 0 => {
                let entries = payloads::ranges(sqe, &range);
                entries.iter().for_each(|entry| self.place(queue, &entry.to_bytes()));
            }
            _ => self.place(queue, &sqe.to_bytes()),
        }
        if rings {
            self.ring_tail(queue, by_message);
        }
    }

    fn fill(&self, address: u64, first: u64, count: u64, version: u32) {
        let mut bytes = vec![0; count as usize * BLOCK_BYTES];
        for (index, block) in bytes.chunks_exact_mut(BLOCK_BYTES).enumerate() {
            model::fill(first + index as u64, version, block);
        }
        self.arena.poke(address, &bytes);
    }

    fn with_prp(&self, sqe: Sqe, buffer: u64, address: u64, bytes: u64) -> Sqe {
        let next = (address & !(PAGE_BYTES - 1)) + PAGE_BYTES;
        let pages: Vec<u64> = (next..address + bytes).step_by(PAGE_BYTES as usize).collect();
        match pages[..] {
            [] => sqe.with_prp(address, 0),
            [page] => sqe.with_prp(address, page),
            _ => {
                let list = Self::page(LIST_PAGES + buffer);
                let entries: Vec<u8> = pages.iter().flat_map(|page| page.to_le_bytes()).collect();
                self.arena.poke(list, &entries);
                sqe.with_prp(address, list)
            }
        }
    }

    fn with_sgl(&self, sqe: Sqe, buffer: u64, address: u64, bytes: u64, is_split: bool) -> Sqe {
        if !is_split {
            return sqe.with_sgl(SglDescriptor::data_block(address, bytes as u32));
        }
        let list = Self::page(LIST_PAGES + buffer);
        let half = (bytes / 2) as u32;
        for (index, part) in [0, 1].into_iter().enumerate() {
            let part = SglDescriptor::data_block(address + part * u64::from(half), half);
            self.arena.poke(list + index as u64 * 16, &part.to_bytes());
        }
        sqe.with_sgl(SglDescriptor::last_segment(list, 32))
    }

    // Unmapping memory.

    fn unmap(&mut self, place: usize) {
        self.is_broken |= place == QUEUES;
        self.arena.unmap(place);
    }

    fn truncate(&mut self, place: usize, pages: u64) {
        if !self.arena.truncate(place, pages) {
            return;
        }
        self.is_broken |= place == QUEUES;
        for io in self.ios.iter_mut().filter(|io| io.places.iter().any(|(used, _)| *used == place)) {
            io.is_torn = true;
            self.model.tear(io.key);
        }
    }

    async fn detach(&mut self) {
        self.served.detach().await;
        self.forget();
        self.arena.was_detached();
        let mut byte = [0];
        for place in 0..PLACES {
            let read = self.served.function.memory().read(Arena::base(place), &mut byte);
            assert!(read.is_err(), "nothing is mapped once the host has gone");
        }
        self.ends.clear();
    }

    // Actions chosen by the input.

    async fn act(&mut self, input: &mut Input<'_>, is_wild: bool) {
        let action = input.byte();
        if action >= 0xC0 && self.shape.offers {
            return match is_wild && action & 1 == 1 {
                true => self.wild_payload(input),
                false => self.payload(input).await,
            };
        }
        let action = action % if is_wild { 32 } else { 22 };
        match action {
            0..=3 => self.submit(input),
            4 => self.consume_all(),
            5 | 6 => self.served.turns(input.below(64) as u32).await,
            7 => {
                let (id, more) = (1 + input.below(IO_QUEUES.into()) as u16, input.byte());
                let entries = 2 + u32::from(more & 31);
                let vector = (more & 32 == 0).then_some(id % VECTORS);
                let shares = more & 64 != 0 && id > 1 && self.rings[1].is_some();
                self.create_pair(id, entries, entries + 3, if shares { 1 } else { id }, vector).await;
            }
            8 => {
                let id = 1 + input.below(IO_QUEUES.into()) as u16;
                let is_shared = |ring: &Ring| ring.cq_entries == 0;
                if !self.is_tame || id > 1 || !self.rings.iter().flatten().any(is_shared) {
                    self.delete_pair(id).await;
                }
            }
            9 | 10 => {
                // The queues' memory is rarely unmapped, because little else can be tested without it.
                let place = [DATA, MORE_DATA, REMOTE, READ_ONLY, 5, 6, 7, QUEUES][input.below(8) as usize];
                self.unmap(place);
            }
            11 | 12 => {
                let place = [DATA, MORE_DATA, REMOTE, READ_ONLY, 5, 6, 7, QUEUES][input.below(8) as usize];
                self.arena.map(place);
            }
            13 => {
                let place = [DATA, MORE_DATA, READ_ONLY, QUEUES][input.below(4) as usize];
                let pages = input.below(Arena::pages(place));
                self.truncate(place, pages);
            }
            14 => {
                self.enable().await;
                if input.below(2) == 0 {
                    self.create_pair(1, 16, 16, 1, Some(1)).await;
                }
            }
            15 => self.admin_action(input).await,
            16 => {
                let config = DoorbellBufferConfig {
                    shadow_doorbells: Self::page(SHADOW_PAGE),
                    event_indexes: Self::page(EVENT_PAGE),
                };
                // The last doorbell value must be in memory there.
                if self.has_shadow {
                    return;
                }
                self.arena.poke(Self::page(SHADOW_PAGE), &[0; 2 * PAGE_BYTES as usize]);
                for ring in self.rings.iter().flatten() {
                    for (doorbell, value) in [
                        (Doorbell::SubmissionTail(ring.id), ring.rung.get()),
                        (Doorbell::CompletionHead(ring.id), ring.head),
                    ] {
                        let at = doorbell.offset(self.shape.dstrd) - register::DOORBELLS;
                        self.arena.poke(Self::page(SHADOW_PAGE) + at, &value.to_le_bytes());
                    }
                }
                if let Some(answer) = self.admin(config.sqe(0)).await {
                    self.has_shadow = answer.status().is_success();
                }
            }
            17 => {
                let accesses = input.pick(&[u32::MAX, 0, 1, 2, 5, 9]);
                let place = input.pick(&[None, Some(REMOTE), Some(DATA), Some(MORE_DATA)]);
                self.arena.misbehave(accesses, place);
            }
            18 => self.assign(input),
            19 => match input.below(4) {
                0 => {
                    let effect = self.served.function.write(REGION_CONFIG, 0x69, &[0x80]);
                    assert_eq!(effect, Ok(Effect::Reset), "a function-level reset was asked for");
                    self.served.function.reset().await;
                    self.forget();
                }
                1 => {
                    self.served.function.reset().await;
                    self.forget();
                }
                2 if self.detaches < 2 => {
                    self.detaches += 1;
                    self.detach().await;
                    self.begin().await;
                }
                _ => self.reset().await,
            },
            20 => {
                let (region, offset) = self.extent(input);
                let mut bytes = vec![0; usize::from(input.byte()) * 3];
                _ = self.served.function.read(region, offset, &mut bytes);
            }
            21 => {
                if self.sleeps < 2 && input.below(2) == 1 {
                    // Long enough for the doorbell poller to rest.
                    self.sleeps += 1;
                    self.served.clock.timer(byteway_clock::Delay::from_us(450)).await;
                } else {
                    self.served.turns(200).await;
                }
            }
            _ => self.wild(action, input).await,
        }
    }

    async fn admin_action(&mut self, input: &mut Input<'_>) {
        let data = Self::page(ADMIN_DATA_PAGE);
        let word = input.u32();
        let sqe = match input.byte() % 10 {
            0 => Identify { cns: Cns(word as u8 % 10), csi: (word >> 8) as u8 % 3, ..Identify::default() }
                .sqe(0, word >> 16 & 3),
            1 => {
                let (lid, numd_z) = (word as u8 % 8, word >> 8 & 0x3FF);
                GetLogPage { lid, numd_z, rae: word >> 31 == 1, ..GetLogPage::default() }.sqe(0, 0)
            }
            2 => GetFeatures { fid: word as u8 % 16, sel: Select((word >> 8) as u8 & 7), cdw11: 0, uidx: 0 }
                .sqe(0, 1),
            3 => SetFeatures { fid: 0x06, cdw11: word & 1, ..SetFeatures::default() }.sqe(0, 0),
            4 => SetFeatures { fid: 0x01, cdw11: word, ..SetFeatures::default() }.sqe(0, 0),
            5 => SetFeatures { fid: 0x08, cdw11: word & 0x0303, ..SetFeatures::default() }.sqe(0, 0),
            6 => SetFeatures { fid: 0x0b, cdw11: word, ..SetFeatures::default() }.sqe(0, 0),
            7 => {
                let mut keys = self.ios.iter().map(|io| io.key).chain(self.payloads.keys());
                let key = keys.nth(word as usize % 4).unwrap_or((1, word as u16));
                Abort { sqid: key.0, cid: key.1 }.sqe(0)
            }
            8 => {
                // It is answered later, or never.
                if self.rings[0].as_ref().is_some_and(|ring| ring.in_flight < 4) {
                    let cid = self.cid();
                    self.place(0, &AsyncEventRequest.sqe(cid).to_bytes());
                    self.ring_tail(0, false);
                }
                return;
            }
            _ => SetFeatures { fid: 0x07, cdw11: word & 0x0007_0007, ..SetFeatures::default() }.sqe(0, 0),
        };
        self.admin(sqe.with_prp(data, 0)).await;
    }

    /// Assigns a vector: to an eventfd, to a full one, or to something that cannot be signalled.
    fn assign(&mut self, input: &mut Input<'_>) {
        let vector = input.below(u64::from(VECTORS) + 2) as u32;
        let kind = input.below(5);
        let event = match kind {
            0 | 1 => {
                let event = eventfd(0, EventfdFlags::CLOEXEC).expect("the system has a descriptor");
                if kind == 1 {
                    let full = (u64::MAX - 1).to_ne_bytes();
                    rustix::io::write(&event, &full).expect("an eventfd takes a number");
                }
                Some(event)
            }
            2 | 3 => {
                let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).expect("the system has descriptors");
                Some(if kind == 2 { reader } else { writer })
            }
            _ => None,
        };
        if let (Some(event), 0 | 1) = (&event, kind) {
            self.ends.push(event.try_clone().expect("the system has a descriptor"));
        }
        let assigned = self.served.function.interrupts().assign(vector, event);
        let is_right = vector < u32::from(VECTORS) && !matches!(kind, 2 | 3);
        assert_eq!(assigned.is_ok(), is_right, "eventfds are taken, for vectors that there are");
        for end in &self.ends {
            // The holder of the other descriptor may change this at any time.
            fcntl_setfl(end, OFlags::empty()).expect("a descriptor can be made one that blocks");
        }
        self.served.function.interrupts().trigger(vector);
    }

    fn extent(&mut self, input: &mut Input<'_>) -> (u32, u64) {
        let region = input.pick(&[REGION_BAR0, REGION_BAR0, REGION_CONFIG, 1, u32::MAX]);
        let offset = match input.below(4) {
            0 => input.below(0x20) * 4,
            1 => input.below(0x8000),
            2 => register::DOORBELLS + input.below(0x40) * 4,
            _ => input.u64(),
        };
        (region, offset)
    }

    // Actions that no host should take.

    /// An address, nearly always of mapped memory.
    fn address(&mut self, input: &mut Input<'_>) -> u64 {
        let place = input.below(PLACES as u64) as usize;
        let page = Arena::base(place) + input.below(Arena::pages(place)) * PAGE_BYTES;
        match input.byte() % 16 {
            0..8 => page,
            8 => page + input.below(1024) * 4,
            9 => page + input.below(PAGE_BYTES),
            10 => page + PAGE_BYTES - 1 - input.below(16),
            11 => Arena::base(place) + Arena::pages(place) * PAGE_BYTES,
            12 => Arena::base(place) - PAGE_BYTES,
            13 => u64::MAX - input.below(3 * PAGE_BYTES),
            14 => [0, PAGE_BYTES, !(PAGE_BYTES - 1), 1 << 63][input.below(4) as usize],
            _ => input.u64(),
        }
    }

    fn descriptor(&mut self, input: &mut Input<'_>) -> SglDescriptor {
        let address = self.address(input);
        let length = match input.below(6) {
            0..=2 => 512 << input.below(4),
            3 => input.below(32) as u32 * 16,
            4 => input.below(8192) as u32,
            _ => input.u32(),
        };
        let sgl_type = match input.below(10) {
            0..=4 => SglType::DATA_BLOCK,
            5 => SglType::BIT_BUCKET,
            6 => SglType::SEGMENT,
            7 | 8 => SglType::LAST_SEGMENT,
            _ => SglType(input.byte() & 15),
        };
        let sub_type = SglSubType(if input.one_in(20) { input.byte() & 15 } else { 0 });
        SglDescriptor::new(sgl_type, sub_type, address, length)
    }

    /// A data pointer, with lists determined by the input.
    fn with_pointer(&mut self, sqe: Sqe, input: &mut Input<'_>) -> Sqe {
        match input.below(5) {
            0 => {
                let (prp1, prp2) = (self.address(input), self.address(input));
                sqe.with_prp(prp1, prp2)
            }
            1 => {
                let list = self.address(input);
                let few: Vec<u64> = (0..1 + input.below(4)).map(|_| self.address(input)).collect();
                let entries: Vec<u8> =
                    few.iter().cycle().take(512).flat_map(|entry| entry.to_le_bytes()).collect();
                self.arena.poke(list, &entries);
                let prp1 = self.address(input);
                sqe.with_prp(prp1, list)
            }
            2 => {
                let descriptor = self.descriptor(input);
                sqe.with_sgl(descriptor)
            }
            _ => {
                let list = self.address(input);
                let count = 1 + input.below(20);
                for index in 0..count {
                    let descriptor = match input.below(4) {
                        0 => SglDescriptor::segment(list, count as u32 * 16),
                        1 => SglDescriptor::segment(list.wrapping_add(index * 16), 16),
                        _ => self.descriptor(input),
                    };
                    self.arena.poke(list.saturating_add(index * 16), &descriptor.to_bytes());
                }
                let bytes = count as u32 * 16;
                sqe.with_sgl(match input.below(2) {
                    0 => SglDescriptor::last_segment(list, bytes),
                    _ => SglDescriptor::segment(list, bytes),
                })
            }
        }
    }

    fn wild_io(&mut self, input: &mut Input<'_>) -> Sqe {
        let nsid = input.pick(&[NS_512, NS_4K, NS_512, NS_4K, 0, 3, NSID_ALL]);
        let slba = match input.below(8) {
            0 => NS_UNITS * 8 - input.below(16),
            1 => NS_UNITS - input.below(16),
            2 => input.u64(),
            _ => input.below(256),
        };
        let nlb_z = if input.one_in(12) { input.u16() } else { input.below(40) as u16 };
        let fua = input.one_in(4);
        let rw = ReadWrite { slba, nlb_z, fua, ..ReadWrite::default() };
        let sqe = match input.below(8) {
            0 | 1 => rw.sqe(NvmOpcode::READ, 0, nsid),
            2 | 3 => rw.sqe(NvmOpcode::WRITE, 0, nsid),
            4 => rw.sqe(NvmOpcode::COMPARE, 0, nsid),
            5 => WriteZeroes { slba, nlb_z, fua, ..WriteZeroes::default() }.sqe(0, nsid),
            6 => {
                let page = self.address(input);
                for index in 0..1 + input.below(8) {
                    let range = Range::new(input.below(2200), input.below(300) as u32);
                    self.arena.poke(page.saturating_add(index * 16), &range.to_bytes());
                }
                let command = DatasetManagement {
                    nr_z: input.byte(),
                    ad: !input.one_in(4),
                    ..DatasetManagement::default()
                };
                return command.sqe(0, nsid).with_prp(page, 0);
            }
            _ => Sqe::new(input.byte(), 0, nsid),
        };
        self.with_pointer(sqe, input)
    }

    fn wild_admin(&mut self, input: &mut Input<'_>) -> Sqe {
        let (qid, word) = (input.below(7) as u16, input.u32());
        match input.below(8) {
            0 => {
                let prp1 = self.address(input);
                let qprio = QueuePriority::from_bits(word as u8);
                let cqid = (word >> 8) as u16 % 7;
                CreateSq { qid, qsize_z: (word >> 16) as u16, pc: word & 0xF0 != 0, qprio, cqid }.sqe(0, prp1)
            }
            1 => {
                let prp1 = self.address(input);
                let iv = (word >> 8) as u16 % 7;
                let (pc, ien) = (word & 0xF0 != 0, word & 1 == 1);
                CreateCq { qid, qsize_z: (word >> 16) as u16, pc, ien, iv }.sqe(0, prp1)
            }
            2 => DeleteQueue { qid }.sqe(input.pick(&[AdminOpcode::DELETE_SQ, AdminOpcode::DELETE_CQ]), 0),
            3 => {
                let (shadow_doorbells, event_indexes) = (self.address(input), self.address(input));
                DoorbellBufferConfig { shadow_doorbells, event_indexes }.sqe(0)
            }
            4 => {
                let sqe = SetFeatures { fid: word as u8, cdw11: input.u32(), ..SetFeatures::default() };
                self.with_pointer(sqe.sqe(0, qid.into()), input)
            }
            5 => {
                let lpo = if input.one_in(3) { input.u64() } else { 0 };
                let page = GetLogPage {
                    lid: word as u8 % 24,
                    numd_z: word >> 8 & 0xFFFF,
                    lpo,
                    ..GetLogPage::default()
                };
                self.with_pointer(page.sqe(0, qid.into()), input)
            }
            6 => {
                let sqe = Identify { cns: Cns(word as u8), csi: qid as u8, ..Identify::default() };
                self.with_pointer(sqe.sqe(0, word >> 8 & 3), input)
            }
            _ => self.with_pointer(Sqe::new(word as u8, 0, qid.into()), input),
        }
    }

    /// Places entries determined by the input, with some bits changed, and writes the doorbell.
    fn wild_submit(&mut self, queue: u16, sqe: Sqe, input: &mut Input<'_>) {
        let cid = if input.one_in(20) { 7 } else { self.cid() };
        let mut bytes = sqe.with_cid(cid).to_bytes();
        if input.one_in(4) {
            for _ in 0..1 + input.below(3) {
                let bit = input.below(512);
                bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
            }
        }
        self.place(queue, &tamed(queue, bytes));
        self.ring_tail(queue, input.one_in(3));
    }

    async fn wild(&mut self, action: u8, input: &mut Input<'_>) {
        match action {
            22 | 23 => {
                let queue = input.below(IO_QUEUES as u64 + 1) as u16;
                let sqe = self.wild_io(input);
                self.wild_submit(queue, sqe, input);
            }
            24 => {
                let sqe = self.wild_admin(input);
                self.wild_submit(0, sqe, input);
            }
            25 => {
                let queue = input.below(IO_QUEUES as u64 + 1) as u16;
                let bytes = input.array();
                self.place(queue, &tamed(queue, bytes));
                self.ring_tail(queue, false);
            }
            26 => {
                let value = if input.one_in(4) { input.u32() } else { input.below(70) as u32 };
                let offset = match input.below(3) {
                    0 => register::DOORBELLS + input.below(0x1000),
                    _ => register::DOORBELLS + input.below(12) * (4 << self.shape.dstrd),
                };
                self.store_doorbell(offset, value, input.one_in(2));
            }
            27 => {
                let (region, offset) = self.extent(input);
                let count = input.pick(&[4, 8, 4, 1, 2, 3, 16, 255]);
                let mut bytes = input.array::<8>().to_vec();
                bytes.resize(count, bytes[0]);
                if self.served.function.write(region, offset, &bytes) == Ok(Effect::Reset) {
                    self.served.function.reset().await; // as a session does before it answers
                }
            }
            28 => {
                let cc = Cc::new().with_en(true).with_iosqes(6).with_iocqes(4).into_bits();
                self.write32(register::CC, cc ^ input.u32() & input.u32());
            }
            29 => {
                let at = self.address(input);
                let count = input.below(64) as usize;
                let bytes = input.take(count);
                self.arena.poke(at, bytes);
            }
            30 => {
                let at = Self::page(input.pick(&[SHADOW_PAGE, EVENT_PAGE]))
                    + input.below(12) * (4 << self.shape.dstrd);
                let value = if input.one_in(4) { input.u32() } else { input.below(70) as u32 };
                self.arena.poke(at, &value.to_le_bytes());
            }
            _ => {
                let (asq, acq) = (self.address(input), self.address(input));
                self.write32(register::AQA, input.u32());
                self.write64(register::ASQ, asq);
                self.write64(register::ACQ, acq);
            }
        }
    }

    // The end.

    async fn finish(mut self, proves: bool) {
        self.consume_all();
        if self.is_tame && self.is_well() {
            // First those of queues whose doorbells are up to date.
            self.end(|ring| ring.rung.get() == ring.tail).await;
            for queue in 1..=IO_QUEUES {
                self.ring_tail(queue, false);
            }
            self.end(|_| true).await;
        }
        self.detach().await;
        if proves {
            self.prove().await;
            self.detach().await;
        }
        self.arena.check();
    }

    /// Waits until every command of some queues has completed.
    async fn end(&mut self, is_meant: impl Fn(&Ring) -> bool) {
        let queues = self.rings.iter().flatten().filter(|ring| is_meant(ring));
        let queues: Vec<_> = queues.map(|ring| ring.id).collect();
        let mut patience = Patience::new(&self.served.clock);
        loop {
            self.consume_all();
            let keys = self.ios.iter().map(|io| io.key).chain(self.payloads.keys());
            let keys: Vec<_> = keys.filter(|key| queues.contains(&key.0)).collect();
            if keys.is_empty() || !self.is_well() {
                return;
            }
            patience.turn(&self.served.clock, || format!("never completed: {keys:?}")).await;
        }
    }

    /// Asserts that the drive works for the next host, and holds no resources.
    async fn prove(&mut self) {
        self.is_tame = true;
        self.arena.misbehave(u32::MAX, None);
        self.begin().await;
        assert!(self.rings[1].is_some(), "a queue pair can be created again");
        let address = Self::buffer(0);
        let (first, count) = (3, 4);
        let bytes = count * BLOCK_BYTES as u64;
        let rw = ReadWrite { slba: first, nlb_z: count as u16 - 1, ..ReadWrite::default() };
        self.fill(address, first, count, 77);
        for (opcode, round) in [(NvmOpcode::WRITE, 0), (NvmOpcode::READ, 1), (NvmOpcode::FLUSH, 2)] {
            let cid = self.cid();
            let sqe = self.with_prp(rw.sqe(opcode, cid, NS_4K), 0, address, bytes);
            let key = (1, cid);
            let io = Io { key, buffer: 0, address, opcode, places: Vec::new(), is_torn: false, version: 0 };
            self.ios.push(io);
            self.place(1, &sqe.to_bytes());
            self.ring_tail(1, false);
            let mut patience = Patience::new(&self.served.clock);
            let cqe = loop {
                let ring = self.rings[1].as_ref().expect("it was created");
                let mut entry = [0; 16];
                self.arena.peek(ring.cq + 16 * round, &mut entry);
                let cqe = Cqe::from_bytes(&entry);
                if cqe.phase() {
                    break cqe;
                }
                patience.turn(&self.served.clock, || "a reset does not recover the drive".into()).await;
            };
            assert_eq!((cqe.cid, cqe.status()), (cid, Status::SUCCESS), "a reset recovers the drive");
            let mut held = vec![0; bytes as usize];
            self.arena.peek(address, &mut held);
            let mut right = [0; BLOCK_BYTES];
            for (lba, block) in (first..).zip(held.chunks(BLOCK_BYTES)) {
                model::fill(lba, 77, &mut right);
                assert!(block == right, "what was written is read, at block {lba}");
            }
            self.arena.poke(address, &vec![0; bytes as usize]);
            if opcode == NvmOpcode::READ {
                self.fill(address, first, count, 77);
            }
        }
        if self.shape.offers {
            self.consume_all();
            self.prove_payloads().await;
        }
        let ftl = self.served.drive.controller.ftl();
        self.served
            .until("what is buffered", || ftl.slots_free() == ftl.slots() && ftl.units_locked() == 0)
            .await;
    }
}

/// The same entry, unless it would delete or reformat the namespaces that this target depends on:
/// `device/tests/hostile.rs` covers such commands.
fn tamed(queue: u16, mut bytes: [u8; Sqe::SIZE]) -> [u8; Sqe::SIZE] {
    let sqe = Sqe::from_bytes(&bytes);
    let takes_away = if queue == 0 {
        match AdminOpcode(sqe.opcode()) {
            AdminOpcode::FORMAT_NVM
            | AdminOpcode::SANITIZE
            | AdminOpcode::NAMESPACE_MANAGEMENT
            | AdminOpcode::NAMESPACE_ATTACHMENT => true,
            AdminOpcode::SET_FEATURES => SetFeatures::parse(&sqe).fid == fid::NAMESPACE_WRITE_PROTECTION,
            _ => false,
        }
    } else {
        NvmOpcode(sqe.opcode()) == NvmOpcode::WRITE_UNCORRECTABLE
    };
    if takes_away {
        bytes[0] = 0xFF; // no valid opcode
    }
    bytes
}
