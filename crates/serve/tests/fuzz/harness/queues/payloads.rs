//! Payloads by the extensions, from well-behaved and from misbehaving hosts.
//!
//! A tame host stores payloads in the sink by every method that is enabled for the queue, omits or repeats
//! parts, writes the doorbell in mid-train, and reads back. Verified: a response contains the checksum of the
//! payload; a read returns what was stored; an incomplete payload is never stored.

use super::{BUFFERS, Host};
use crate::harness::arena::{Arena, QUEUES};
use crate::harness::bench::{BAR_BYTES, IO_QUEUES, NS_4K, OFFERED, Patience};
use crate::harness::input::Input;
use byteway_serve::function::REGION_BAR0;
use byteway_wire::nvme::feature::fid;
use byteway_wire::nvme::vendor::piggyback::{
    HEAD_BYTES, Head, PIECE_BYTES, PIPELINED_PIECE_BYTES, Piece, PipelinedPiece,
};
use byteway_wire::nvme::vendor::{
    Chunk, InlineSlots, Methods, ResultSlot, Sink, bar_descriptor, inline_descriptor, reassembled_descriptor,
};
use byteway_wire::nvme::{
    Cqe, DatasetManagement, Doorbell, NvmOpcode, Range, ReadWrite, SetFeatures, Sqe, VendorOpcode,
};

/// Regions of the sink, each for one payload at a time.
const REGIONS: usize = 6;
/// The longest payload, and the distance of the regions.
pub const REGION_BYTES: usize = 512;
/// Identifiers from here on belong to payloads in chunks.
const FIRST_ID: u16 = 0x8000;

/// A region of the sink.
struct Region {
    bytes: [u8; REGION_BYTES],
    /// Number of its first bytes whose contents are known.
    known: usize,
    /// The payload that is being stored.
    sent: Vec<u8>,
    is_stored: bool,
    /// One of its commands failed, or the host cannot know what it sent.
    is_doubtful: bool,
    /// It lacks a part, so it must not be stored.
    is_flawed: bool,
}

/// The effect of a command on its region.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It stores the payload.
    Store,
    /// It carries a part; the part that completes the payload stores it.
    Part,
    /// It reads this many bytes, possibly inline behind the completion.
    Read { bytes: usize, is_inline: bool },
}

/// A command in flight.
struct Payload {
    key: (u16, u16),
    role: Role,
    region: usize,
    buffer: u64,
    address: u64,
    /// The ranges of its data pointer, and the numbers of their memories.
    places: Vec<(usize, u32)>,
}

/// The host's knowledge of its payloads.
pub struct Payloads {
    regions: Vec<Region>,
    live: Vec<Payload>,
    /// Answered chunks: queue and identifier.
    answers: Vec<(u16, u16)>,
    next_id: u16,
    count: u8,
}

impl Payloads {
    pub fn new() -> Self {
        let region = || Region {
            bytes: [0; REGION_BYTES],
            known: REGION_BYTES,
            sent: Vec::new(),
            is_stored: false,
            is_doubtful: false,
            is_flawed: false,
        };
        let regions = (0..REGIONS).map(|_| region()).collect();
        Payloads { regions, live: Vec::new(), answers: Vec::new(), next_id: FIRST_ID, count: 0 }
    }

    pub fn uses(&self, buffer: u64) -> bool {
        self.live.iter().any(|payload| payload.buffer == buffer)
    }

    pub fn keys(&self) -> impl Iterator<Item = (u16, u16)> {
        self.live.iter().map(|payload| payload.key)
    }

    /// Makes the outcome of the commands of a queue, or of all queues, unknown.
    pub fn forget(&mut self, queue: Option<u16>) {
        let of = |key: (u16, u16)| queue.is_none_or(|queue| key.0 == queue);
        let mut gone = Vec::new();
        self.live.retain(|payload| {
            gone.extend(of(payload.key).then_some(payload.region));
            !of(payload.key)
        });
        for region in gone {
            self.regions[region].is_doubtful = true;
            self.settle(region);
        }
        self.answers.retain(|key| !of(*key));
    }

    /// Settles the contents of a region that has no command in flight.
    fn settle(&mut self, index: usize) {
        if self.live.iter().any(|payload| payload.region == index) {
            return;
        }
        let region = &mut self.regions[index];
        let sent = std::mem::take(&mut region.sent);
        if region.is_doubtful {
            region.known = 0;
        }
        if region.is_stored {
            region.bytes[..sent.len()].copy_from_slice(&sent);
            region.known = region.known.max(sent.len());
        }
        (region.is_stored, region.is_doubtful, region.is_flawed) = (false, false, false);
    }
}

impl Host {
    /// Number of entries behind a completion that contain its result.
    pub(super) fn result_slots(&self, cqe: &Cqe) -> u32 {
        let key = (cqe.sqid, cqe.cid);
        let expects = |payload: &&Payload| {
            payload.key == key && matches!(payload.role, Role::Read { is_inline: true, .. })
        };
        match self.payloads.live.iter().any(|payload| expects(&payload)) {
            true if cqe.status().is_success() => ResultSlot::count(cqe.dw1),
            _ => 0,
        }
    }

    /// Handles a completion; returns whether it was for a payload. `result` is the data behind it.
    pub(super) fn payload_completed(&mut self, cqe: Cqe, result: &[u8]) -> bool {
        let key = (cqe.sqid, cqe.cid);
        if let Some(at) = self.payloads.answers.iter().position(|answer| *answer == key) {
            self.payloads.answers.swap_remove(at);
            return true;
        }
        let Some(at) = self.payloads.live.iter().position(|payload| payload.key == key) else { return false };
        let payload = self.payloads.live.swap_remove(at);
        // Its queue or its memory may be gone.
        let is_sound = self.is_tame && !self.is_broken;
        let has_changed = payload
            .places
            .iter()
            .any(|(place, number)| self.arena.number(*place) != *number || self.arena.is_cut(*place));
        let region = &mut self.payloads.regions[payload.region];
        region.is_doubtful |= has_changed || self.is_broken;
        match payload.role {
            _ if !cqe.status().is_success() => {
                region.is_doubtful |= !matches!(payload.role, Role::Read { .. });
            }
            Role::Store | Role::Part => {
                let right = crc32c::crc32c(&region.sent);
                let is_store = payload.role == Role::Store || cqe.dw0 != 0;
                if is_sound && is_store && !has_changed {
                    assert_eq!(
                        cqe.dw0,
                        right,
                        "a payload of {} bytes is stored otherwise",
                        region.sent.len()
                    );
                    assert!(!region.is_flawed, "a payload is stored that lacks a part");
                }
                region.is_stored |= is_store;
            }
            Role::Read { bytes, .. } if is_sound && region.known >= bytes => {
                let held = &region.bytes[..bytes];
                assert_eq!(cqe.dw0, crc32c::crc32c(held), "the sink holds something else");
                if cqe.dw1 > 0 {
                    assert_eq!(result.get(..bytes), Some(held), "the result behind a completion");
                } else if !has_changed {
                    let mut read = vec![0; bytes];
                    self.arena.peek(payload.address, &mut read);
                    assert_eq!(read, held, "the result by the data pointer");
                }
            }
            Role::Read { .. } => {}
        }
        self.payloads.settle(payload.region);
        true
    }

    /// Enables extensions for a queue without commands in flight: entries placed before would have another
    /// meaning.
    async fn enable_methods(&mut self, queue: u16, methods: Methods) {
        let is_idle = |ring: &super::Ring| ring.free() + 1 == ring.sq_entries;
        if !self.rings[queue as usize].as_ref().is_some_and(is_idle) {
            return self.consume_all();
        }
        let (cdw11, cdw12) = (methods.into_bits(), u32::from(queue));
        let set = SetFeatures { fid: fid::PAYLOAD_METHODS, cdw11, cdw12, ..SetFeatures::default() };
        let answer = self.admin(set.sqe(0, 0)).await;
        if let (Some(answer), Some(ring)) = (answer, &mut self.rings[queue as usize])
            && answer.status().is_success()
        {
            ring.enabled = methods;
        }
    }

    fn bar(&self, offset: u64, bytes: &[u8]) -> bool {
        let (base, _) = self.served.drive.controller.payload_buffer();
        self.served.function.write(REGION_BAR0, base.wrapping_add(offset), bytes).is_ok()
    }

    /// Places consecutive entries, and writes the doorbell for all, some or none of them.
    fn place_all(&mut self, queue: u16, entries: &[Sqe], rung: u8) {
        for sqe in entries {
            self.place(queue, &sqe.to_bytes());
        }
        let Some(ring) = &self.rings[queue as usize] else { return };
        match rung {
            0 | 1 => self.ring_tail(queue, false),
            2 => {
                let back = entries.len() as u32 / 2 % ring.sq_entries;
                let tail = (ring.tail + ring.sq_entries - back) % ring.sq_entries;
                ring.rung.set(tail);
                self.ring(Doorbell::SubmissionTail(queue), tail, false);
            }
            _ => {}
        }
    }

    /// Notes a command of a payload, whose data pointer describes `bytes` of a buffer; returns its
    /// identifier.
    fn begin_payload(&mut self, queue: u16, role: Role, region: usize, buffer: u64, bytes: u64) -> u16 {
        let cid = self.cid();
        let address = Self::buffer(buffer);
        let mut places: Vec<_> = Vec::new();
        if bytes > 0 {
            places.extend(Arena::places(address, bytes).map(|place| (place, self.arena.number(place))));
        }
        places.push((QUEUES, self.arena.number(QUEUES)));
        let key = (queue, cid);
        self.payloads.live.push(Payload { key, role, region, buffer, address, places });
        cid
    }

    /// Stores a payload, or reads one.
    pub(super) async fn payload(&mut self, input: &mut Input<'_>) {
        let (choice, way) = (input.byte(), input.byte());
        let (queue, rung) = (1 + u16::from(choice & 3), choice >> 2 & 3);
        let queue = if self.rings[queue as usize].is_some() { queue } else { 1 };
        let Some(enabled) = self.rings[queue as usize].as_ref().map(|ring| ring.enabled) else { return };
        let is_free = |region: usize| self.payloads.live.iter().all(|payload| payload.region != region);
        let Some(region) =
            (0..REGIONS).map(|n| (n + usize::from(choice >> 4)) % REGIONS).find(|n| is_free(*n))
        else {
            return self.consume_all();
        };
        let bytes = match input.byte() {
            small @ 0..=127 => usize::from(small),
            large => (usize::from(large) * 4 - 508).min(REGION_BYTES),
        };
        let (is_enabled, needed) = match way % 8 {
            1 => (enabled.inline(), 1 + InlineSlots { bytes: bytes as u32 }.count()),
            2 => (enabled.inline_tail(), 1 + InlineSlots { bytes: bytes as u32 }.count()),
            3 => (enabled.reassembly(), 3 + Chunk::count(bytes as u32)),
            4 => (enabled.piggyback(), 1),
            5 => (enabled.piggyback_pipelined(), 2 + (bytes / PIPELINED_PIECE_BYTES) as u32),
            6 => (enabled.mmio(), 1),
            _ => (true, 1),
        };
        if !is_enabled {
            let methods = Methods::from_bits(u32::from(way) << 5 & OFFERED.into_bits());
            return self.enable_methods(queue, if way < 64 { OFFERED } else { methods }).await;
        }
        if self.rings[queue as usize].as_ref().is_none_or(|ring| ring.free() < needed) {
            return self.consume_all();
        }
        let buffer = (0..BUFFERS).find(|buffer| self.is_free(*buffer));
        let Some(buffer) = buffer else { return self.consume_all() };
        self.payloads.count = self.payloads.count.wrapping_add(1);
        let first = self.payloads.count;
        let sent: Vec<u8> = (0..bytes).map(|at| (at as u8).wrapping_mul(7).wrapping_add(first) | 1).collect();
        if way % 8 != 7 {
            self.payloads.regions[region].sent.clone_from(&sent);
        }
        let sink = Sink { offset: (region * REGION_BYTES) as u64, bytes: bytes as u32 };
        match way % 8 {
            1 => {
                let cid = self.begin_payload(queue, Role::Store, region, buffer, 0);
                let sqe = sink.sqe(VendorOpcode::SINK_WRITE, cid, NS_4K);
                let entries = train(sqe.with_sgl(inline_descriptor(bytes as u32)), &sent);
                self.place_all(queue, &entries, rung);
            }
            2 => {
                // Before the tail: nothing, or half of it.
                let before = if way & 8 == 0 { 0 } else { bytes / 2 };
                let cid = self.begin_payload(queue, Role::Store, region, buffer, before as u64);
                self.arena.poke(Self::buffer(buffer), &sent[..before]);
                let mut sqe = sink.sqe(VendorOpcode::SINK_WRITE, cid, NS_4K);
                sqe.cdw3 = (bytes - before) as u32;
                if before > 0 {
                    sqe = sqe.with_prp(Self::buffer(buffer), 0);
                }
                self.place_all(queue, &train(sqe, &sent[before..]), rung);
            }
            3 => self.chunks(queue, region, buffer, sink, &sent, way >> 3, rung),
            4 => self.stream(queue, region, buffer, sink, &sent, way >> 3).await,
            5 => {
                let cid = self.begin_payload(queue, Role::Part, region, buffer, 0);
                let mut head = sink.sqe(VendorOpcode::SINK_STORE, cid, NS_4K);
                head.cdw2 = Head::PIPELINED;
                let (now, later) = sent.split_at(sent.len().min(HEAD_BYTES));
                Head::fill(&mut head, now);
                let mut entries = vec![head];
                for (index, part) in later.chunks(PIPELINED_PIECE_BYTES).enumerate() {
                    let own = self.begin_payload(queue, Role::Part, region, buffer, 0);
                    let piece = PipelinedPiece { stream: cid, sequence: index as u16 + 1 };
                    entries.push(piece.sqe(own, NS_4K, part));
                }
                let count = entries.len();
                match way >> 3 & 7 {
                    0 | 1 => {}
                    2 => entries.reverse(),
                    3 | 4 if count > 1 => {
                        let left_out = entries.remove(1 + usize::from(way >> 6) % (count - 1));
                        self.payloads.live.retain(|payload| payload.key != (queue, left_out.cid()));
                        self.payloads.regions[region].is_flawed = true;
                    }
                    _ => entries.rotate_left(usize::from(way >> 6) % count),
                }
                self.place_all(queue, &entries, rung);
            }
            6 => {
                let offset = (region * REGION_BYTES) as u64;
                assert!(self.bar(offset, &sent), "the buffer takes what lies within it");
                let cid = self.begin_payload(queue, Role::Store, region, buffer, 0);
                let sqe = sink.sqe(VendorOpcode::SINK_WRITE, cid, NS_4K);
                self.place_all(queue, &[sqe.with_sgl(bar_descriptor(offset, bytes as u32))], rung);
            }
            7 => {
                let is_inline = enabled.inline_result() && way & 8 == 0;
                let role = Role::Read { bytes, is_inline };
                let cid = self.begin_payload(queue, role, region, buffer, bytes.max(1) as u64);
                let mut sqe = sink.sqe(VendorOpcode::SINK_READ, cid, NS_4K);
                sqe.cdw2 = if is_inline { Sink::INLINE_RESULT } else { 0 };
                let sqe = self.with_prp(sqe, buffer, Self::buffer(buffer), bytes as u64);
                self.place_all(queue, &[sqe], rung);
            }
            _ => {
                let cid = self.begin_payload(queue, Role::Store, region, buffer, bytes.max(1) as u64);
                self.arena.poke(Self::buffer(buffer), &sent);
                let sqe = sink.sqe(VendorOpcode::SINK_WRITE, cid, NS_4K);
                let sqe = self.with_prp(sqe, buffer, Self::buffer(buffer), bytes as u64);
                self.place_all(queue, &[sqe], rung);
            }
        }
    }

    /// A payload in chunks, on this queue, or on this and the next.
    #[allow(clippy::too_many_arguments, reason = "what makes a payload")]
    fn chunks(
        &mut self,
        queue: u16,
        region: usize,
        buffer: u64,
        sink: Sink,
        sent: &[u8],
        manner: u8,
        rung: u8,
    ) {
        let id = self.payloads.next_id;
        self.payloads.next_id = id.wrapping_add(1) | FIRST_ID;
        let total = Chunk::count(sink.bytes) as u16;
        let parts = sent.chunks(Chunk::PAYLOAD_BYTES);
        let chunk = |(index, part): (usize, &[u8])| Chunk::new(id, index as u16, total, part, 0);
        let mut chunks: Vec<_> = parts.enumerate().map(chunk).collect();
        let at = usize::from(manner >> 3) % chunks.len().max(1);
        match manner & 7 {
            1 => chunks.reverse(),
            2 => chunks.rotate_left(at),
            3 if !chunks.is_empty() => chunks.push(chunks[at]),
            4 if !chunks.is_empty() => _ = chunks.remove(at),
            5 if !chunks.is_empty() => {
                let mut other = chunks[at];
                other.payload[0] ^= 0xFF;
                chunks.push(other);
            }
            _ => {}
        }
        // With a repeated part, the right one may have been accepted before the other arrived.
        self.payloads.regions[region].is_flawed = manner & 7 == 4 && !sent.is_empty();
        let cid = self.begin_payload(queue, Role::Store, region, buffer, 0);
        let command = sink.sqe(VendorOpcode::SINK_WRITE, cid, NS_4K);
        let command = command.with_sgl(reassembled_descriptor(id, sink.bytes));
        let other = 1 + queue % IO_QUEUES;
        let other = self.rings[other as usize]
            .as_ref()
            .is_some_and(|ring| ring.enabled.reassembly() && ring.free() as usize > chunks.len());
        let other = if other && manner & 8 != 0 { 1 + queue % IO_QUEUES } else { queue };
        // The last one of a queue is answered, which frees its entries.
        let mut is_last = true;
        for chunk in chunks.iter_mut().rev() {
            chunk.flags = if std::mem::take(&mut is_last) { Chunk::COMPLETE } else { 0 };
        }
        self.payloads.answers.extend((!is_last).then_some((other, id)));
        let mut entries: Vec<_> = chunks.iter().map(Chunk::sqe).collect();
        if other != queue {
            self.place_all(other, &entries, rung);
            entries.clear();
        }
        entries.insert(if manner & 16 == 0 { entries.len() } else { 0 }, command);
        self.place_all(queue, &entries, rung);
    }

    /// A payload in the fields of commands, each after the completion of the one before; or only the first of
    /// them.
    async fn stream(&mut self, queue: u16, region: usize, buffer: u64, sink: Sink, sent: &[u8], manner: u8) {
        let cid = self.begin_payload(queue, Role::Part, region, buffer, 0);
        let mut head = sink.sqe(VendorOpcode::SINK_STORE, cid, NS_4K);
        let (now, later) = sent.split_at(sent.len().min(HEAD_BYTES));
        Head::fill(&mut head, now);
        self.place_all(queue, &[head], 0);
        let mut last = (queue, cid);
        for part in later.chunks(PIECE_BYTES) {
            let mut patience = Patience::new(&self.served.clock);
            let mut turns = 0;
            while self.payloads.keys().any(|key| key == last) {
                self.consume_all();
                turns += 1;
                if turns > 500 && (!self.is_tame || !self.is_well()) {
                    return;
                }
                let complaint = || format!("a part of a stream is never answered: {last:?}");
                patience.turn(&self.served.clock, complaint).await;
            }
            if manner & 3 == 3 {
                return; // it is abandoned
            }
            if self.rings[queue as usize].as_ref().is_none_or(|ring| ring.free() == 0) {
                return;
            }
            // It was settled when nothing of it was in flight.
            self.payloads.regions[region].sent = sent.to_vec();
            let cid = self.begin_payload(queue, Role::Part, region, buffer, 0);
            self.place_all(queue, &[Piece::sqe(cid, NS_4K, part)], 0);
            last = (queue, cid);
        }
    }

    // Actions that no host should take.

    fn wild_bytes(&mut self, input: &mut Input<'_>) -> u32 {
        match input.below(8) {
            0 => input.pick(&[0, 1, 512, 513, 4096, 1 << 20, u32::MAX, u32::MAX - 63]),
            1 => input.u32(),
            2 => input.below(2048) as u32,
            _ => input.below(200) as u32,
        }
    }

    fn wild_command(&mut self, input: &mut Input<'_>) -> Sqe {
        let (bytes, nsid) = (self.wild_bytes(input), input.pick(&[NS_4K, 1, NS_4K, 0, 3]));
        let offset = if input.one_in(8) { input.u64() } else { input.below(4096) };
        let sink = Sink { offset, bytes };
        let opcode =
            input.pick(&[VendorOpcode::SINK_WRITE, VendorOpcode::SINK_WRITE, VendorOpcode::SINK_READ]);
        let mut sqe = match input.below(6) {
            0 => {
                let rw =
                    ReadWrite { slba: input.below(64), nlb_z: input.below(3) as u16, ..ReadWrite::default() };
                let opcode =
                    input.pick(&[NvmOpcode::WRITE, NvmOpcode::READ, NvmOpcode::COMPARE, NvmOpcode::FLUSH]);
                rw.sqe(opcode, 0, 1)
            }
            1 => DatasetManagement { nr_z: input.byte() & 3, ad: true, ..DatasetManagement::default() }
                .sqe(0, nsid),
            _ => sink.sqe(opcode, 0, nsid),
        };
        sqe.cdw2 = input.below(4) as u32;
        let length = if input.one_in(3) { self.wild_bytes(input) } else { bytes };
        match input.below(8) {
            0..=2 => sqe.with_sgl(inline_descriptor(length)),
            3 => {
                sqe.cdw3 = length;
                self.with_pointer(sqe, input)
            }
            4 => sqe.with_sgl(reassembled_descriptor(FIRST_ID + input.below(4) as u16, length)),
            5 => {
                let at = if input.one_in(4) { input.u64() } else { input.below(u64::from(BAR_BYTES)) };
                sqe.with_sgl(bar_descriptor(at, length))
            }
            6 => {
                // The sub-type of queue entries with an address, or another type.
                let mut sgl = inline_descriptor(length);
                sgl.address = input.u64();
                sqe.with_sgl(sgl)
            }
            _ => self.with_pointer(sqe, input),
        }
    }

    /// Entries and a doorbell write as the input determines.
    pub(super) fn wild_payload(&mut self, input: &mut Input<'_>) {
        let queue = 1 + input.below(IO_QUEUES.into()) as u16;
        let mut entries = Vec::new();
        match input.below(8) {
            0 => {
                let bits =
                    if input.one_in(8) { input.u32() } else { u32::from(input.u16()) & OFFERED.into_bits() };
                let cdw12 = if input.one_in(8) { input.u32() } else { queue.into() };
                let set =
                    SetFeatures { fid: fid::PAYLOAD_METHODS, cdw11: bits, cdw12, ..SetFeatures::default() };
                return self.wild_submit(0, set.sqe(0, 0), input);
            }
            1 => {
                let at = if input.one_in(4) { input.u64() } else { input.below(u64::from(BAR_BYTES) + 128) };
                let count = input.below(300) as usize;
                let mut bytes = input.take(count).to_vec();
                bytes.resize(count, 0x5A);
                _ = self.bar(at, &bytes);
                return;
            }
            2 | 3 => {
                for _ in 0..1 + input.below(6) {
                    let id = if input.one_in(8) { input.u16() } else { FIRST_ID + input.below(4) as u16 };
                    let (index, total) = match input.below(4) {
                        0 => (input.u16(), input.u16()),
                        _ => (input.below(6) as u16, 1 + input.below(6) as u16),
                    };
                    let part = [input.byte(); Chunk::PAYLOAD_BYTES];
                    entries.push(Chunk::new(id, index, total, &part, input.byte() & 3).sqe());
                }
            }
            4 => {
                for _ in 0..1 + input.below(4) {
                    let part = [input.byte(); PIPELINED_PIECE_BYTES];
                    let cid = self.cid();
                    entries.push(match input.below(3) {
                        0 => {
                            let sink = Sink { offset: input.below(4096), bytes: self.wild_bytes(input) };
                            let mut head = sink.sqe(VendorOpcode::SINK_STORE, cid, NS_4K);
                            head.cdw2 = input.below(2) as u32;
                            Head::fill(&mut head, &part[..HEAD_BYTES]);
                            head
                        }
                        1 => Piece::sqe(cid, NS_4K, &part),
                        _ => {
                            let stream = cid.wrapping_sub(input.below(4) as u16);
                            let sequence = if input.one_in(8) { input.u16() } else { input.below(6) as u16 };
                            PipelinedPiece { stream, sequence }.sqe(cid, NS_4K, &part)
                        }
                    });
                }
            }
            _ => {
                for _ in 0..1 + input.below(3) {
                    let cid = self.cid();
                    entries.push(self.wild_command(input).with_cid(cid));
                    // Possibly its payload, or a command.
                    for _ in 0..input.below(10) {
                        entries.push(match input.below(6) {
                            0 => self.wild_command(input).with_cid(cid),
                            1 => Sqe::from_bytes(&input.array()),
                            _ => Sqe::from_bytes(&[input.byte(); 64]),
                        });
                    }
                }
            }
        }
        let rung = if input.one_in(3) { 2 } else { 0 };
        self.place_all(queue, &entries, rung);
    }

    /// Finally: a payload behind its command arrives, and can be read.
    pub(super) async fn prove_payloads(&mut self) {
        self.enable_methods(1, OFFERED).await;
        let enabled = self.rings[1].as_ref().map(|ring| ring.enabled);
        assert_eq!(enabled, Some(OFFERED), "the extensions can be enabled again");
        let sent: Vec<u8> = (0..100).map(|at| at ^ 0x3C).collect();
        for (round, opcode) in [VendorOpcode::SINK_WRITE, VendorOpcode::SINK_READ].into_iter().enumerate() {
            let role = match round {
                0 => Role::Store,
                _ => Role::Read { bytes: sent.len(), is_inline: false },
            };
            let cid = self.begin_payload(1, role, 0, 0, 100);
            let sqe = Sink { offset: 0, bytes: 100 }.sqe(opcode, cid, NS_4K);
            let entries = match round {
                0 => train(sqe.with_sgl(inline_descriptor(100)), &sent),
                _ => vec![sqe.with_prp(Self::buffer(0), 0)],
            };
            self.payloads.regions[0].sent.clone_from(&sent);
            self.place_all(1, &entries, 0);
            let mut patience = Patience::new(&self.served.clock);
            while self.payloads.keys().next().is_some() {
                self.consume_all();
                patience.turn(&self.served.clock, || "a payload is never answered".into()).await;
            }
            let region = &self.payloads.regions[0];
            assert!(region.known >= 100 && region.bytes[..100] == sent, "a reset recovers the drive");
        }
    }
}

/// A command with its payload behind it.
fn train(sqe: Sqe, payload: &[u8]) -> Vec<Sqe> {
    let mut entries = vec![sqe];
    for part in payload.chunks(InlineSlots::SLOT_BYTES as usize) {
        let mut slot = [0; Sqe::SIZE];
        slot[..part.len()].copy_from_slice(part);
        entries.push(Sqe::from_bytes(&slot));
    }
    entries
}

/// A range to deallocate, behind its command.
pub fn ranges(sqe: Sqe, range: &Range) -> Vec<Sqe> {
    let bytes = range.to_bytes();
    train(sqe.with_sgl(inline_descriptor(bytes.len() as u32)), &bytes)
}
