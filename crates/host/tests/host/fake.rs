//! A fake controller for testing the driver: on the real link, backed by a map of blocks, and able to misbehave.

use byteway_clock::{Clock, Delay, Executor, Time};
use byteway_content::{Content, Keep, Pattern, UNIT_BYTES};
use byteway_host::{Driver, DriverConfig, Port};
use byteway_link::{Bar, DeviceEnd, Link, Memory, MmioWrite, PartConsumer, Purpose};
use byteway_testkit::link_config;
use byteway_wire::IntoBytes;
use byteway_wire::nvme::feature::NumberOfQueues;
use byteway_wire::nvme::vendor::{Capabilities, Chunk, Framing, InlineSlots, Methods, ResultSlot, Sink};
use byteway_wire::nvme::{
    Abort, ActiveNamespaceList, AdminOpcode, Aqa, Cap, Cc, Cns, Cqe, CreateCq, CreateSq, Csts, DeleteQueue,
    Doorbell, Identify, IdentifyController, IdentifyNamespace, LbaFormat, NvmOpcode, PrpStep, PrpWalker,
    Range, ReadWrite, Segment, SglStep, SglWalker, Sqe, Status, VendorOpcode, Vs, WriteZeroes, fid, identify,
    register,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;

/// Blocks of the fake's one namespace.
pub const BLOCKS: u64 = 1 << 20;
/// Bytes of its payload sink.
pub const SINK_BYTES: usize = 1 << 16;

/// How it returns a result after a completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// Correctly.
    #[default]
    Whole,
    /// Without the last part.
    Short,
    /// With parts one and two swapped.
    Swapped,
    /// With the last part much later than the completion.
    Late,
    /// With a greater length in dword 1 than requested.
    Long,
    /// With a length in dword 1, but no result: completions follow.
    Absent,
}

struct Submission {
    address: u64,
    entries: u32,
    cqid: u16,
    head: u32,
    tail: u32,
    /// Slots that the host must consider occupied: from the last SQHD to the tail.
    reported: u32,
    fetching: bool,
}

struct Completion {
    address: u64,
    entries: u32,
    tail: u32,
    head: u32,
    phase: bool,
    vector: Option<u16>,
}

/// State and behavior of the controller.
pub struct Fake {
    clock: Clock,
    end: DeviceEnd,
    pub cap: Cell<Cap>,
    pub block_bytes: Cell<u32>,
    pub latency: Cell<Delay>,
    /// Never becomes ready.
    pub sulks: Cell<bool>,
    /// Reports a fatal status when it is enabled.
    pub dies: Cell<bool>,
    /// Queues it grants.
    pub grants: Cell<u16>,
    /// Fetches nothing from I/O queues.
    pub stopped: Cell<bool>,
    /// Never completes I/O commands, unless they are aborted.
    pub swallows: Cell<bool>,
    /// Never completes admin commands.
    pub keeps_admin: Cell<bool>,
    /// Interrupts are lost.
    pub mute: Cell<bool>,
    /// Doesn't abort anything.
    pub stubborn: Cell<bool>,
    /// Flips a bit of what is read from this block.
    pub corrupts: Cell<Option<u64>>,
    /// Fails every write with this status, after or before it has taken effect.
    pub fails_writes: Cell<Option<(Status, bool)>>,
    pub media: RefCell<BTreeMap<u64, Vec<u8>>>,
    /// Commands that it has swallowed: queue, identifier.
    pub swallowed: RefCell<Vec<(u16, u16)>>,
    pub events: RefCell<Vec<u16>>,
    /// Doorbell writes, by offset.
    pub rung: RefCell<BTreeMap<u64, u32>>,
    pub commands: Cell<u64>,
    /// Vendor extensions that it offers.
    pub offers: Cell<Capabilities>,
    /// Enabled methods, by queue.
    pub enabled: RefCell<BTreeMap<u16, Methods>>,
    pub answer: Cell<Answer>,
    /// Flips a bit of every payload that reaches the sink.
    pub spoils: Cell<bool>,
    pub sink: RefCell<Vec<u8>>,
    /// Payloads in the entries after commands, by queue and identifier; and in chunks.
    trains: RefCell<BTreeMap<(u16, u16), Vec<u8>>>,
    chunks: RefCell<BTreeMap<u16, BTreeMap<u16, Chunk>>>,
    /// Entries that carried payload.
    pub carried: Cell<u64>,
    /// Maximum number of outstanding commands of a queue.
    pub outstanding_max: Cell<u32>,
    outstanding: RefCell<BTreeMap<u16, u32>>,
    cc: Cell<Cc>,
    csts: Cell<Csts>,
    aqa: Cell<u32>,
    asq: Cell<u64>,
    acq: Cell<u64>,
    epoch: Cell<u64>,
    submissions: RefCell<BTreeMap<u16, Submission>>,
    completions: RefCell<BTreeMap<u16, Completion>>,
}

pub fn distance(from: u32, to: u32, entries: u32) -> u32 {
    (to + entries - from) % entries
}

impl Fake {
    pub fn new(clock: &Clock, end: DeviceEnd) -> Rc<Fake> {
        let fake = Rc::new(Fake {
            clock: clock.clone(),
            end,
            cap: Cell::new(Cap::new().with_mqes_z(1023).with_to(1).with_css(1)),
            block_bytes: Cell::new(512),
            latency: Cell::new(Delay::from_us(5)),
            sulks: Cell::default(),
            dies: Cell::default(),
            grants: Cell::new(8),
            stopped: Cell::default(),
            swallows: Cell::default(),
            keeps_admin: Cell::default(),
            mute: Cell::default(),
            stubborn: Cell::default(),
            corrupts: Cell::default(),
            fails_writes: Cell::default(),
            media: RefCell::default(),
            swallowed: RefCell::default(),
            events: RefCell::default(),
            rung: RefCell::default(),
            commands: Cell::default(),
            offers: Cell::default(),
            enabled: RefCell::default(),
            answer: Cell::default(),
            spoils: Cell::default(),
            sink: RefCell::new(vec![0; SINK_BYTES]),
            trains: RefCell::default(),
            chunks: RefCell::default(),
            carried: Cell::default(),
            outstanding_max: Cell::default(),
            outstanding: RefCell::default(),
            cc: Cell::new(Cc::new()),
            csts: Cell::new(Csts::new()),
            aqa: Cell::default(),
            asq: Cell::default(),
            acq: Cell::default(),
            epoch: Cell::default(),
            submissions: RefCell::default(),
            completions: RefCell::default(),
        });
        fake.end.attach(Rc::new(Registers(fake.clone())));
        let writes = fake.clone();
        clock.spawn("fake registers", async move {
            loop {
                let write = writes.end.next_write().await;
                writes.write(write);
            }
        });
        fake
    }

    pub fn csts(&self) -> Csts {
        self.csts.get()
    }

    pub fn registers(self: &Rc<Self>) -> Rc<dyn Bar> {
        Rc::new(Registers(self.clone()))
    }

    fn write(self: &Rc<Self>, write: MmioWrite) {
        let MmioWrite { offset, value, bytes } = write;
        let half = |old: u64, high: bool| {
            let (low, top) =
                if high { (old as u32, value as u32) } else { (value as u32, (old >> 32) as u32) };
            if bytes == 8 { value } else { u64::from(low) | u64::from(top) << 32 }
        };
        match offset {
            register::CC => self.configure(Cc::from_bits(value as u32)),
            register::AQA => self.aqa.set(value as u32),
            register::ASQ => self.asq.set(half(self.asq.get(), false)),
            register::ACQ => self.acq.set(half(self.acq.get(), false)),
            o if o == register::ASQ + 4 => self.asq.set(half(self.asq.get(), true)),
            o if o == register::ACQ + 4 => self.acq.set(half(self.acq.get(), true)),
            _ => {
                if let Some(doorbell) = Doorbell::decode(offset, self.cap.get().dstrd()) {
                    *self.rung.borrow_mut().entry(offset).or_default() += 1;
                    self.ring(doorbell, value as u32);
                }
            }
        }
    }

    fn configure(self: &Rc<Self>, cc: Cc) {
        let was = self.cc.replace(cc).en();
        if cc.shn() != Cc::SHN_NONE {
            self.csts.set(self.csts.get().with_shst(Csts::SHST_COMPLETE));
        }
        if was == cc.en() {
            return;
        }
        self.epoch.set(self.epoch.get() + 1);
        if !cc.en() {
            self.submissions.borrow_mut().clear();
            self.completions.borrow_mut().clear();
            self.events.borrow_mut().clear();
            self.swallowed.borrow_mut().clear();
            self.outstanding.borrow_mut().clear();
            self.enabled.borrow_mut().clear();
            self.trains.borrow_mut().clear();
            self.chunks.borrow_mut().clear();
            self.csts.set(Csts::new());
            return;
        }
        assert_eq!((cc.iosqes(), cc.iocqes(), cc.mps()), (6, 4, 0));
        let aqa = Aqa::from_bits(self.aqa.get());
        self.add_completion(0, self.acq.get(), u32::from(aqa.acqs_z()) + 1, Some(0));
        self.add_submission(0, self.asq.get(), u32::from(aqa.asqs_z()) + 1, 0);
        self.csts.set(Csts::new().with_rdy(!self.sulks.get() && !self.dies.get()).with_cfs(self.dies.get()));
    }

    fn add_submission(&self, qid: u16, address: u64, entries: u32, cqid: u16) {
        let queue = Submission { address, entries, cqid, head: 0, tail: 0, reported: 0, fetching: false };
        self.submissions.borrow_mut().insert(qid, queue);
    }

    fn add_completion(&self, cqid: u16, address: u64, entries: u32, vector: Option<u16>) {
        let queue = Completion { address, entries, tail: 0, head: 0, phase: true, vector };
        self.completions.borrow_mut().insert(cqid, queue);
    }

    fn ring(self: &Rc<Self>, doorbell: Doorbell, value: u32) {
        match doorbell {
            Doorbell::CompletionHead(cqid) => {
                if let Some(queue) = self.completions.borrow_mut().get_mut(&cqid) {
                    assert!(value < queue.entries);
                    queue.head = value;
                }
            }
            Doorbell::SubmissionTail(qid) => {
                if let Some(queue) = self.submissions.borrow_mut().get_mut(&qid) {
                    let taken = distance(queue.reported, queue.tail, queue.entries);
                    let added = distance(queue.tail, value, queue.entries);
                    assert!(taken + added < queue.entries, "the free-slot rule: {taken} + {added} slots");
                    queue.tail = value;
                }
                self.fetch(qid);
            }
        }
    }

    /// Fetches the exposed entries, one at a time.
    pub fn fetch(self: &Rc<Self>, qid: u16) {
        match self.submissions.borrow_mut().get_mut(&qid) {
            Some(queue) if !queue.fetching && (qid == 0 || !self.stopped.get()) => queue.fetching = true,
            _ => return,
        }
        let fake = self.clone();
        let epoch = self.epoch.get();
        self.clock.spawn("fake fetch", async move {
            loop {
                let address = match fake.submissions.borrow_mut().get_mut(&qid) {
                    Some(queue) if queue.head == queue.tail => {
                        queue.fetching = false;
                        return;
                    }
                    Some(queue) => queue.address + 64 * u64::from(queue.head),
                    None => return,
                };
                let mut entry = [0; 64];
                let read = fake.end.read(address, &mut entry, Purpose::SqeFetch).await;
                if fake.epoch.get() != epoch {
                    return;
                }
                read.expect("the queue is host memory");
                if let Some(queue) = fake.submissions.borrow_mut().get_mut(&qid) {
                    queue.head = (queue.head + 1) % queue.entries;
                }
                let sqe = Sqe::from_bytes(&entry);
                let enabled = fake.enabled.borrow().get(&qid).copied().unwrap_or_default();
                match Framing::of(&sqe, enabled) {
                    Framing::Command => {}
                    Framing::Train(slots) => fake.fetch_train(qid, sqe.cid(), slots).await,
                    Framing::Chunk => {
                        fake.take_chunk(qid, Chunk::parse(&sqe)).await;
                        continue;
                    }
                }
                fake.count(qid, 1);
                let command = fake.clone();
                fake.clock.spawn("fake command", async move {
                    command.execute(qid, Sqe::from_bytes(&entry), epoch).await;
                });
            }
        });
    }

    async fn fetch_train(&self, qid: u16, cid: u16, slots: InlineSlots) {
        let mut payload = Vec::new();
        for _ in 0..slots.count() {
            let address = {
                let mut submissions = self.submissions.borrow_mut();
                let Some(queue) = submissions.get_mut(&qid) else { return };
                assert!(queue.head != queue.tail, "the host exposes a train as a whole");
                let address = queue.address + 64 * u64::from(queue.head);
                queue.head = (queue.head + 1) % queue.entries;
                address
            };
            let mut entry = [0; 64];
            self.end.read(address, &mut entry, Purpose::InlineChunk).await.unwrap();
            payload.extend_from_slice(&entry);
            self.carried.set(self.carried.get() + 1);
        }
        assert!(payload[slots.bytes as usize..].iter().all(|byte| *byte == 0), "padded with zeroes");
        payload.truncate(slots.bytes as usize);
        self.trains.borrow_mut().insert((qid, cid), payload);
    }

    async fn take_chunk(&self, qid: u16, chunk: Chunk) {
        self.carried.set(self.carried.get() + 1);
        let fresh = self.chunks.borrow_mut().entry(chunk.id).or_default().insert(chunk.index, chunk);
        assert_eq!(fresh, None, "an identifier was used again too early");
        if chunk.completes() {
            self.count(qid, 1);
            self.complete(qid, chunk.id, Status::SUCCESS, 0).await;
        }
    }

    /// Waits until payload `id` is complete.
    async fn gather(&self, id: u16, bytes: u32) -> Vec<u8> {
        let total = Chunk::count(bytes) as usize;
        loop {
            if self.chunks.borrow().get(&id).is_some_and(|parts| parts.len() == total) {
                break;
            }
            self.clock.sleep(Delay::from_ns(100)).await;
        }
        let parts = self.chunks.borrow_mut().remove(&id).unwrap();
        let mut all: Vec<u8> = parts.values().flat_map(|chunk| chunk.payload).collect();
        all.truncate(bytes as usize);
        all
    }

    /// Executes a command of the payload sink.
    async fn sink(&self, qid: u16, sqe: &Sqe) -> Option<(Status, u32)> {
        let Sink { offset, bytes } = Sink::parse(sqe);
        let range = offset as usize..offset as usize + bytes as usize;
        if sqe.opcode() == VendorOpcode::SINK_WRITE.0 {
            let train = self.trains.borrow_mut().remove(&(qid, sqe.cid()));
            let mut payload = match (train, Chunk::named_by(sqe)) {
                (Some(train), _) => {
                    let before = bytes as usize - train.len();
                    let mut payload = self.receive(sqe, before).await;
                    payload.extend(train);
                    payload
                }
                (None, Some((id, bytes))) => self.gather(id as u16, bytes).await,
                (None, None) => self.receive(sqe, bytes as usize).await,
            };
            if self.spoils.get() {
                payload[0] ^= 1;
            }
            self.sink.borrow_mut()[range].copy_from_slice(&payload);
            return Some((Status::SUCCESS, crc32c::crc32c(&payload)));
        }
        let payload = self.sink.borrow()[range].to_vec();
        let crc = crc32c::crc32c(&payload);
        if sqe.cdw2 & Sink::INLINE_RESULT == 0 {
            self.send(sqe, &payload).await;
            return Some((Status::SUCCESS, crc));
        }
        self.answer(qid, sqe.cid(), crc, &payload).await;
        None
    }

    /// Posts a completion with a result after it, or with a configured defect.
    async fn answer(&self, qid: u16, cid: u16, crc: u32, payload: &[u8]) {
        self.count(qid, -1);
        let (head, cqid) = {
            let mut submissions = self.submissions.borrow_mut();
            let queue = submissions.get_mut(&qid).unwrap();
            queue.reported = queue.head;
            (queue.head as u16, queue.cqid)
        };
        let answer = self.answer.get();
        let said = payload.len() as u32 + if answer == Answer::Long { 1 } else { 0 };
        let cqe = Cqe::new(cid, Status::SUCCESS, qid, head).with_dw0(crc).with_dw1(said);
        let mut parts: Vec<_> = payload.chunks(ResultSlot::PAYLOAD_BYTES).zip(1..).collect();
        match answer {
            Answer::Swapped => parts.swap(0, 1),
            Answer::Absent => parts.clear(),
            _ => {}
        }
        let late = matches!(answer, Answer::Late | Answer::Short);
        let behind = if answer == Answer::Absent { 0 } else { parts.len() as u32 };
        let (first, mut slots) = {
            let mut completions = self.completions.borrow_mut();
            let queue = completions.get_mut(&cqid).unwrap();
            let taken = distance(queue.head, queue.tail, queue.entries);
            assert!(
                taken + behind + 1 < queue.entries,
                "the test requests no more than the queue has free slots"
            );
            let mut place = || {
                let place = (queue.address + 16 * u64::from(queue.tail), queue.phase);
                queue.tail = (queue.tail + 1) % queue.entries;
                queue.phase ^= queue.tail == 0;
                place
            };
            let first = place();
            (first, parts.into_iter().map(|part| (place(), part)).collect::<Vec<_>>())
        };
        let last = if late { slots.pop() } else { None };
        for ((address, phase), (bytes, part)) in slots {
            self.end.post(address, ResultSlot::new(part, bytes, phase).to_bytes()).unwrap();
        }
        self.end.post(first.0, cqe.with_phase(first.1).to_bytes()).unwrap();
        if let Some(((address, phase), (bytes, part))) = last
            && answer == Answer::Late
        {
            self.clock.sleep(Delay::from_us(20)).await;
            self.end.post(address, ResultSlot::new(part, bytes, phase).to_bytes()).unwrap();
        }
    }

    fn count(&self, qid: u16, more: i32) {
        let mut outstanding = self.outstanding.borrow_mut();
        let count = outstanding.entry(qid).or_default();
        *count = count.saturating_add_signed(more);
        if qid > 0 {
            self.outstanding_max.set(self.outstanding_max.get().max(*count));
        }
    }

    async fn execute(self: Rc<Self>, qid: u16, sqe: Sqe, epoch: u64) {
        self.clock.sleep(self.latency.get()).await;
        if self.epoch.get() != epoch {
            return;
        }
        self.commands.set(self.commands.get() + 1);
        let done = if qid == 0 { self.admin(&sqe).await } else { self.io(qid, &sqe).await };
        if let Some((status, dw0)) = done
            && self.epoch.get() == epoch
        {
            self.complete(qid, sqe.cid(), status, dw0).await;
        }
    }

    /// Posts the completion of a command.
    pub async fn complete(&self, qid: u16, cid: u16, status: Status, dw0: u32) {
        self.count(qid, -1);
        let head = match self.submissions.borrow_mut().get_mut(&qid) {
            Some(queue) => {
                queue.reported = queue.head;
                queue.head
            }
            None => return,
        };
        let cqid = self.submissions.borrow()[&qid].cqid;
        self.post(cqid, Cqe::new(cid, status, qid, head as u16).with_dw0(dw0)).await;
    }

    /// Posts any entry, waiting while the queue is full.
    pub async fn post(&self, cqid: u16, cqe: Cqe) {
        let epoch = self.epoch.get();
        loop {
            let full = match self.completions.borrow().get(&cqid) {
                Some(queue) => (queue.tail + 1) % queue.entries == queue.head,
                None => return,
            };
            if !full {
                break;
            }
            self.clock.sleep(Delay::from_ns(100)).await;
            if self.epoch.get() != epoch {
                return;
            }
        }
        let mut completions = self.completions.borrow_mut();
        let queue = completions.get_mut(&cqid).unwrap();
        let address = queue.address + 16 * u64::from(queue.tail);
        self.end.post(address, cqe.with_phase(queue.phase).to_bytes()).unwrap();
        queue.tail = (queue.tail + 1) % queue.entries;
        if queue.tail == 0 {
            queue.phase = !queue.phase;
        }
        if let Some(vector) = queue.vector.filter(|_| !self.mute.get()) {
            self.end.interrupt(vector);
        }
    }

    async fn admin(&self, sqe: &Sqe) -> Option<(Status, u32)> {
        if self.keeps_admin.get() {
            return None;
        }
        let ok = Some((Status::SUCCESS, 0));
        match AdminOpcode(sqe.opcode()) {
            AdminOpcode::IDENTIFY => {
                let page = match Identify::parse(sqe).cns {
                    Cns::CONTROLLER => {
                        let mn = identify::ascii_field("Fake");
                        let mut data = IdentifyController { mn, mdts: 5, ..IdentifyController::default() };
                        self.offers.get().write(&mut data.vs);
                        data.as_bytes().to_vec()
                    }
                    Cns::ACTIVE_NAMESPACES => ActiveNamespaceList::above(sqe.nsid, [1]).as_bytes().to_vec(),
                    _ => {
                        let mut data = IdentifyNamespace { nsze: BLOCKS, ..IdentifyNamespace::default() };
                        let lbads = self.block_bytes.get().trailing_zeros() as u8;
                        data.lbaf[0] = LbaFormat { ms: 0, lbads, rp: 0 };
                        data.as_bytes().to_vec()
                    }
                };
                self.send(sqe, &page).await;
                ok
            }
            AdminOpcode::SET_FEATURES if sqe.cdw10 as u8 == fid::PAYLOAD_METHODS => {
                let (methods, qid) = (Methods::from_bits(sqe.cdw11), sqe.cdw12 as u16);
                assert!(methods.is_within(self.offers.get().offered()), "the host knows what is offered");
                self.enabled.borrow_mut().insert(qid, methods);
                ok
            }
            AdminOpcode::SET_FEATURES => {
                let z = self.grants.get() - 1;
                Some((Status::SUCCESS, NumberOfQueues::new().with_nsq_z(z).with_ncq_z(z).into_bits()))
            }
            AdminOpcode::GET_LOG_PAGE => {
                self.send(sqe, &[0x5a; 512]).await;
                ok
            }
            AdminOpcode::CREATE_CQ => {
                let create = CreateCq::parse(sqe);
                let fresh = !self.completions.borrow().contains_key(&create.qid);
                let vector = create.ien.then_some(create.iv);
                self.add_completion(create.qid, sqe.prp1, u32::from(create.qsize_z) + 1, vector);
                Some((if fresh { Status::SUCCESS } else { Status::INVALID_QUEUE_ID }, 0))
            }
            AdminOpcode::CREATE_SQ => {
                let create = CreateSq::parse(sqe);
                let fresh = !self.submissions.borrow().contains_key(&create.qid);
                self.add_submission(create.qid, sqe.prp1, u32::from(create.qsize_z) + 1, create.cqid);
                Some((if fresh { Status::SUCCESS } else { Status::INVALID_QUEUE_ID }, 0))
            }
            AdminOpcode::DELETE_SQ => {
                self.submissions.borrow_mut().remove(&DeleteQueue::parse(sqe).qid);
                ok
            }
            AdminOpcode::DELETE_CQ => {
                let qid = DeleteQueue::parse(sqe).qid;
                if self.submissions.borrow().values().any(|queue| queue.cqid == qid) {
                    return Some((Status::INVALID_QUEUE_DELETION, 0));
                }
                self.completions.borrow_mut().remove(&qid);
                ok
            }
            AdminOpcode::ABORT => {
                let Abort { sqid, cid } = Abort::parse(sqe);
                let was = self.swallowed.borrow().len();
                if !self.stubborn.get() {
                    self.swallowed.borrow_mut().retain(|command| *command != (sqid, cid));
                }
                if self.swallowed.borrow().len() == was {
                    return Some((Status::SUCCESS, Abort::NOT_ABORTED));
                }
                self.complete(sqid, cid, Status::ABORT_REQUESTED, 0).await;
                ok
            }
            AdminOpcode::ASYNC_EVENT_REQUEST => {
                self.events.borrow_mut().push(sqe.cid());
                None
            }
            _ => Some((Status::INVALID_OPCODE, 0)),
        }
    }

    async fn io(&self, qid: u16, sqe: &Sqe) -> Option<(Status, u32)> {
        if self.swallows.get() {
            self.swallowed.borrow_mut().push((qid, sqe.cid()));
            return None;
        }
        if matches!(VendorOpcode(sqe.opcode()), VendorOpcode::SINK_WRITE | VendorOpcode::SINK_READ) {
            return self.sink(qid, sqe).await;
        }
        let size = self.block_bytes.get() as usize;
        let ok = Some((Status::SUCCESS, 0));
        match NvmOpcode(sqe.opcode()) {
            NvmOpcode::FLUSH => ok,
            NvmOpcode::WRITE_ZEROES => {
                let zeroes = WriteZeroes::parse(sqe);
                (zeroes.slba..zeroes.end()?).for_each(|lba| drop(self.media.borrow_mut().remove(&lba)));
                ok
            }
            NvmOpcode::DATASET_MANAGEMENT => {
                let bytes = (sqe.cdw10 as u8 as usize + 1) * Range::SIZE;
                for range in Range::parse_list(&self.receive(sqe, bytes).await) {
                    (range.slba..range.end()?).for_each(|lba| drop(self.media.borrow_mut().remove(&lba)));
                }
                ok
            }
            opcode => {
                let command = ReadWrite::parse(sqe);
                if command.end().is_none_or(|end| end > BLOCKS) {
                    return Some((Status::LBA_OUT_OF_RANGE, 0));
                }
                let bytes = command.blocks() as usize * size;
                let stored = || {
                    let media = self.media.borrow();
                    let blocks = command.slba..command.end().unwrap();
                    blocks
                        .flat_map(|lba| media.get(&lba).cloned().unwrap_or(vec![0; size]))
                        .collect::<Vec<u8>>()
                };
                match opcode {
                    NvmOpcode::READ => {
                        let mut data = stored();
                        if let Some(lba) = self.corrupts.get()
                            && lba >= command.slba
                            && lba < command.end()?
                        {
                            data[(lba - command.slba) as usize * size + 77] ^= 1;
                        }
                        self.send(sqe, &data).await;
                        ok
                    }
                    NvmOpcode::COMPARE => {
                        let same = self.receive(sqe, bytes).await == stored();
                        Some((if same { Status::SUCCESS } else { Status::COMPARE_FAILURE }, 0))
                    }
                    _ => {
                        let data = self.receive(sqe, bytes).await;
                        let fails = self.fails_writes.get();
                        if fails.is_none_or(|(_, after)| after) {
                            for (lba, block) in (command.slba..).zip(data.chunks_exact(size)) {
                                self.media.borrow_mut().insert(lba, block.to_vec());
                            }
                        }
                        Some((fails.map_or(Status::SUCCESS, |(status, _)| status), 0))
                    }
                }
            }
        }
    }

    /// The segments of the payload.
    async fn segments(&self, sqe: &Sqe, bytes: usize, is_read: bool) -> Vec<Segment> {
        let mut found = Vec::new();
        let mut list = vec![0; 4096];
        if sqe.psdt() == 0 {
            let mut walker = PrpWalker::new(sqe.prp1, sqe.prp2, bytes as u64, 4096);
            loop {
                match walker.next().unwrap() {
                    PrpStep::Data(segment) => found.push(segment),
                    PrpStep::FetchList { address, bytes } => {
                        let list = &mut list[..bytes as usize];
                        self.end.read(address, list, Purpose::PrpList).await.unwrap();
                        walker.feed(list);
                    }
                    PrpStep::Done => return found,
                }
            }
        }
        let mut walker = SglWalker::new(sqe.sgl(), bytes as u64, is_read);
        loop {
            match walker.next().unwrap() {
                SglStep::Data(segment) => found.push(segment),
                SglStep::FetchSegment { address, bytes } => {
                    let list = &mut list[..bytes as usize];
                    self.end.read(address, list, Purpose::SglSegment).await.unwrap();
                    walker.feed(list);
                }
                SglStep::Discard { .. } => panic!("the host discards nothing"),
                SglStep::Done => return found,
            }
        }
    }

    /// Transfers whole units as a drive that stores patterns does.
    async fn send(&self, sqe: &Sqe, mut data: &[u8]) {
        let epoch = self.end.epoch();
        for segment in self.segments(sqe, data.len(), true).await {
            let (now, later) = data.split_at(segment.bytes as usize);
            for (address, part) in (segment.address..).step_by(UNIT_BYTES).zip(now.chunks(UNIT_BYTES)) {
                if part.len() < UNIT_BYTES {
                    self.end.write_bytes(address, part.into(), epoch, Purpose::Data).unwrap();
                    continue;
                }
                let content = Content::of(part, Keep::Stamps);
                let bytes = UNIT_BYTES as u32;
                self.end.write_content(address, content, 0, bytes, epoch, Purpose::Data).unwrap();
            }
            data = later;
        }
    }

    async fn receive(&self, sqe: &Sqe, bytes: usize) -> Vec<u8> {
        let mut data = Vec::new();
        for segment in self.segments(sqe, bytes, false).await {
            let (epoch, take) = (self.end.epoch(), Taken(&mut data));
            self.end.gather([segment], epoch, 1, Purpose::Data, take).await.unwrap();
        }
        data
    }
}

struct Registers(Rc<Fake>);

impl Bar for Registers {
    fn read(&self, offset: u64, _: u32) -> u64 {
        match offset {
            register::CAP => self.0.cap.get().into_bits(),
            register::VS => u64::from(Vs::V2_0.into_bits()),
            register::CC => u64::from(self.0.cc.get().into_bits()),
            register::CSTS => u64::from(self.0.csts.get().into_bits()),
            _ => 0,
        }
    }

    fn write(&self, write: MmioWrite) {
        self.0.write(write);
    }
}

/// Resources of a test.
pub struct Rig {
    pub clock: Clock,
    pub port: Port,
    pub fake: Rc<Fake>,
}

impl Rig {
    pub async fn attach(&self, config: DriverConfig) -> Driver {
        Driver::attach(self.port.clone(), config).await.unwrap()
    }

    pub fn now(&self) -> Time {
        self.clock.now()
    }
}

/// Runs a test in virtual time.
pub fn run<F: Future<Output = ()> + 'static>(test: impl FnOnce(Rig) -> F) {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let (host, device) = Link::connect(&clock, link_config(), Memory::simulated());
    let fake = Fake::new(&clock, device);
    executor.run(test(Rig { clock, port: Port::Link(host), fake })).unwrap();
}

/// Takes whole pages by pattern name, as a drive does: the page in host memory stays a name.
struct Taken<'a>(&'a mut Vec<u8>);

impl PartConsumer for Taken<'_> {
    fn bytes(&mut self, _: usize, part: &[u8]) {
        self.0.extend_from_slice(part);
    }

    fn page(&mut self, _: usize, pattern: Pattern) -> bool {
        let start = self.0.len();
        self.0.resize(start + UNIT_BYTES, 0);
        pattern.fill(&mut self.0[start..]);
        true
    }
}
