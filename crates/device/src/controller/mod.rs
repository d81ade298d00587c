//! The NVMe controller (NVMe Base 2.1): what happens between a doorbell and a completion.
//!
//! | file | what |
//! |---|---|
//! | [`registers`] | the property registers |
//! | [`queue`] | submission and completion queues, permits |
//! | [`arbiter`] | whose turn it is |
//! | [`fetch`] | reading submission queue entries |
//! | [`slot`] | where commands are executed |
//! | [`admin`], [`identify`], [`setting`], [`log_page`], [`management`] | the admin commands |
//! | [`io`], [`copy`], [`integrity`] | the NVM command set |
//! | [`fused`] | the two commands of a fused operation: how they find each other, and Compare and Write |
//! | [`kv`], [`iterator`] | the Key Value command set |
//! | [`train`] | payload in the entries behind its command |
//! | [`chunks`], [`streams`], [`partial`] | payload that comes in parts: in chunks, in the fields of commands |
//! | [`bar`] | the payload buffer behind the registers |
//! | [`device_memory`], [`commit`] | memory that the host stores to over CXL.mem; pairs that are stored without a command |
//! | [`result`] | results behind a completion, and rounded ones |
//! | [`sink`] | the payload sink |
//! | [`namespace`], [`inventory`], [`capacity`] | namespaces, and who has which part of the drive |
//! | [`operation`], [`sanitize`], [`self_test`] | what goes on behind commands |
//! | [`feature`], [`timestamp`], [`keep_alive`], [`log`], [`health`], [`event`], [`interrupt`] | what they act on |
//! | [`persist`], [`restore`] | what outlives the power |
//! | [`shadow`] | doorbells in host memory |
//! | [`lifecycle`] | enable, disable, shutdown, reset of the function |

pub mod admin;
pub mod arbiter;
pub mod bar;
pub mod capacity;
pub mod chunks;
pub mod commit;
pub mod copy;
pub mod device_memory;
pub mod event;
pub mod feature;
pub mod fetch;
pub mod fused;
pub mod health;
pub mod identify;
pub mod integrity;
pub mod interrupt;
pub mod inventory;
pub mod io;
pub mod iterator;
pub mod keep_alive;
pub mod kv;
pub mod lifecycle;
pub mod log;
pub mod log_page;
pub mod management;
pub mod namespace;
pub mod operation;
pub mod partial;
pub mod persist;
pub mod queue;
pub mod registers;
pub mod restore;
pub mod result;
pub mod sanitize;
pub mod self_test;
pub mod setting;
pub mod shadow;
pub mod sink;
pub mod slot;
pub mod streams;
pub mod timestamp;
pub mod train;

use crate::config::DriveConfig;
use arbiter::Arbiter;
use byteway_clock::{Clock, Delay, Notify, Passage, SpanId, Stage, Time};
use byteway_firmware::{Ftl, Kv, Placement, Work};
use byteway_flash::Medium;
use byteway_link::{Bar, DeviceEnd, Fault, MmioWrite};
use byteway_transfer::collector::Supported;
use byteway_transfer::mmio::BarBuffer;
use byteway_wire::cxl::DeviceDvsec;
use byteway_wire::nvme::register::Cap;
use byteway_wire::nvme::vendor::Chunk;
use byteway_wire::nvme::{AsyncEvent, Doorbell, QueuePriority, SglRules, Status};
use commit::Commits;
use event::{Answer, DoorbellError, Events};
use feature::Features;
use fused::Halves;
use interrupt::Interrupts;
use inventory::Inventory;
use iterator::Iterators;
use keep_alive::KeepAliveTimer;
use log::{Counters, ErrorLog, add};
use namespace::Namespace;
use operation::Operations;
use partial::{Partials, Waiting};
use queue::{CompletionQueue, Fate, Permit, SubmissionQueue};
use registers::{Effect, Registers};
use restore::Persistence;
use sanitize::Sanitizer;
use self_test::SelfTest;
use shadow::Shadow;
use sink::Sink;
use slot::{Command, Member, Payload, Slot};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use timestamp::Clockwork;
use train::Trains;

/// Slots for admin commands, beside those for I/O: an admin command never waits for I/O.
const ADMIN_SLOTS: usize = 8;

/// Asynchronous Event Requests held at once.
const EVENT_REQUESTS_MAX: usize = 4;

/// Abort commands executed at once. Each waits in its slot for the command that it aborts; other admin commands have
/// slots left.
const ABORTS_MAX: u32 = 4;

/// The queues by identifier; 0 is the admin queue.
#[derive(Default)]
struct Queues {
    submission: Vec<Option<Rc<SubmissionQueue>>>,
    completion: Vec<Option<Rc<CompletionQueue>>>,
}

/// Called with a queue's doorbell.
type QueueCreated = Rc<dyn Fn(Doorbell)>;

/// The controller's state, shared by its tasks.
pub struct Core {
    clock: Clock,
    config: DriveConfig,
    port: DeviceEnd,
    registers: Registers,
    queues: RefCell<Queues>,
    arbiter: Arbiter,
    /// Something may have become fetchable.
    fetchable: Notify,
    /// A fetch task left entries unfetched, for want of a slot or of room for a completion.
    starved: Cell<bool>,
    slots: Vec<Rc<Slot>>,
    free_slots: RefCell<Vec<u32>>,
    free_admin_slots: RefCell<Vec<u32>>,
    /// Reads of entries and commands under way.
    in_flight: Cell<u32>,
    busy_since: Cell<Time>,
    quiet: Notify,
    lifecycle: Notify,
    interrupts: Interrupts,
    events: Events,
    events_changed: Notify,
    features: Features,
    counters: Counters,
    errors: ErrorLog,
    inventory: Inventory,
    operations: Operations,
    sanitize: Sanitizer,
    self_test: SelfTest,
    timestamp: Clockwork,
    keep_alive: KeepAliveTimer,
    persistence: Persistence,
    placement: Placement,
    ftl: Ftl,
    queues_granted: Cell<Option<(u16, u16)>>,
    /// Changes whenever a queue comes or goes.
    queues_epoch: Cell<u64>,
    /// Told of each queue that is about to exist.
    queue_created: RefCell<Option<QueueCreated>>,
    aborts: Cell<u32>,
    shadow: Shadow,
    sink: Sink,
    iterators: Iterators,
    trains: Trains,
    halves: Halves,
    partials: Partials,
    buffer: RefCell<BarBuffer>,
    bar_offset: u64,
    memory: device_memory::DeviceMemory,
    commits: Commits,
    function_resets: lifecycle::FunctionResets,
    /// A reset, an enabling or a shutdown is in progress.
    is_changing: Cell<bool>,
}

/// An NVMe controller. Cheap to clone.
#[derive(Clone)]
pub struct Controller(Rc<Core>);

impl Controller {
    /// A controller at the device's end of a link, powered on and not enabled. Its tasks run until the executor ends.
    pub fn start(port: &DeviceEnd, config: DriveConfig, placement: Placement, ftl: Ftl) -> Self {
        let clock = port.clock().clone();
        let c = &config.controller;
        let cap = Cap::new()
            .with_mqes_z((c.queue_entries_max - 1) as u16)
            .with_cqr(true)
            .with_ams(1)
            .with_to(20)
            .with_dstrd(c.dstrd)
            .with_css(if config.kv.is_some() { 1 | 1 << 6 } else { 1 })
            .with_mpsmin(0)
            .with_mpsmax(4)
            .with_crms(0b01); // ready means ready with the media
        let io_slots = c.command_slots as usize;
        let slots: Vec<_> = (0..io_slots + ADMIN_SLOTS).map(|_| Slot::new(&clock)).collect();
        let core = Rc::new(Core {
            registers: Registers::new(cap),
            queues: RefCell::default(),
            arbiter: Arbiter::new(Features::new(c.arbitration_burst).weights()),
            fetchable: Notify::new(&clock),
            starved: Cell::default(),
            free_slots: RefCell::new((0..io_slots as u32).rev().collect()),
            free_admin_slots: RefCell::new((io_slots as u32..slots.len() as u32).rev().collect()),
            slots,
            in_flight: Cell::default(),
            busy_since: Cell::default(),
            quiet: Notify::new(&clock),
            lifecycle: Notify::new(&clock),
            interrupts: Interrupts::new(port, c.vectors),
            events: Events::default(),
            events_changed: Notify::new(&clock),
            features: Features::new(c.arbitration_burst),
            counters: Counters::default(),
            errors: ErrorLog::default(),
            inventory: Inventory::new(&config),
            operations: Operations::new(&clock),
            sanitize: Sanitizer::new(&clock),
            self_test: SelfTest::new(&clock),
            timestamp: Clockwork::default(),
            keep_alive: KeepAliveTimer::default(),
            persistence: Persistence::new(&clock),
            placement,
            ftl,
            queues_granted: Cell::default(),
            queues_epoch: Cell::default(),
            queue_created: RefCell::default(),
            aborts: Cell::default(),
            shadow: Shadow::default(),
            sink: Sink::new(config.transfer.sink_bytes),
            iterators: Iterators::new(&clock, config.kv.as_ref()),
            trains: Trains::default(),
            halves: Halves::default(),
            partials: Partials::new(&clock, &config),
            buffer: RefCell::new(BarBuffer::new(config.transfer.bar_bytes)),
            bar_offset: config.bar_offset(),
            memory: device_memory::DeviceMemory::new(config.transfer.memory.as_ref()),
            commits: Commits::new(&clock, config.transfer.memory.as_ref()),
            function_resets: lifecycle::FunctionResets::new(&clock),
            is_changing: Cell::default(),
            port: port.clone(),
            clock: clock.clone(),
            config,
        });
        core.reset_queues();
        port.attach(core.clone());
        if let Some(memory) = &core.config.transfer.memory {
            port.attach_memory(memory.link, core.clone());
        }
        for index in 0..core.slots.len() {
            clock.spawn("command slot", Core::run_slot(core.clone(), index as u32));
        }
        for _ in 0..core.config.controller.fetch_outstanding {
            clock.spawn("fetch", fetch::run(core.clone()));
        }
        clock.spawn("registers", Core::run_registers(core.clone()));
        clock.spawn("what outlives the power", restore::run(core.clone()));
        clock.spawn("lifecycle", lifecycle::run(core.clone()));
        clock.spawn("changes of namespaces", operation::run(core.clone()));
        clock.spawn("sanitize", sanitize::run(core.clone()));
        clock.spawn("self-test", self_test::run(core.clone()));
        clock.spawn("events", Core::run_events(core.clone()));
        if core.config.transfer.methods.cxl_commit() {
            clock.spawn("commit records", commit::run(core.clone()));
        }
        if core.config.transfer.has_partials() {
            clock.spawn("incomplete payloads", partial::run(core.clone()));
        }
        if core.config.kv.is_some() {
            clock.spawn("iterators", iterator::run(core.clone()));
        }
        clock.spawn("interrupt coalescing", Core::run_coalescing(core.clone()));
        clock.spawn("health", health::run(core.clone()));
        Controller(core)
    }

    /// What it has counted.
    pub fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// How often it has looked for commit records since power-on: every [`MemoryConfig::poll`](crate::MemoryConfig) while it was
    /// busy with none, and behind each that it had taken. Times the cycles of [`Work::Poll`] it is what looking takes of a core,
    /// the looks that took no event included.
    pub fn commit_looks(&self) -> u64 {
        self.0.commits.looks()
    }

    /// Shows the store of each namespace of pairs that can be used now.
    pub fn each_pairs(&self, mut each: impl FnMut(&Kv)) {
        for namespace in self.0.inventory.all() {
            if let Some(pairs) = namespace.pairs() {
                each(&pairs);
            }
        }
    }

    /// The translation layer behind it.
    pub fn ftl(&self) -> &Ftl {
        &self.0.ftl
    }

    /// The store of a namespace of pairs, while that can be used.
    pub fn pairs(&self, nsid: u32) -> Option<Kv> {
        self.0.inventory.allocated(nsid)?.pairs()
    }

    /// The power goes: it answers nothing any more, and its link lets go of it.
    pub(crate) fn power_off(&self) -> Medium {
        self.0.port.detach();
        self.0
            .inventory
            .all()
            .iter()
            .filter_map(|namespace| namespace.pairs())
            .for_each(|pairs| pairs.save());
        self.0.ftl.power_off()
    }

    /// Writes down what it holds in buffers, and what recovery would have to find out, as a shutdown does that a host asks
    /// for: for who ends the drive while no host is there.
    ///
    /// # Errors
    /// Flash has no room for all of it any more.
    pub async fn shut_down(&self) -> Result<(), Status> {
        let core = &self.0;
        let pairs = core.flush_pairs(SpanId::NONE).await;
        let ftl = core.ftl.shutdown(SpanId::NONE, core.port.spans()).await;
        ftl.map_err(|error| io::status_of(error, Status::INTERNAL_ERROR)).and(pairs)
    }

    /// Waits until it knows what its medium holds, pairs too.
    pub async fn ready(&self) {
        self.0.ftl.ready().await;
        self.0.restored().await;
        self.0.pairs_ready().await;
    }

    /// Where its firmware runs.
    pub fn placement(&self) -> &Placement {
        &self.0.placement
    }

    /// Whether a host waits for what needs nothing more from it: a reset, an enabling or a shutdown, or what a command has
    /// asked of the firmware. If nothing moves then, nothing ever will.
    pub fn owes(&self) -> bool {
        let core = &self.0;
        core.is_changing.get() || core.function_resets.under_way() || core.ftl.is_attending()
    }

    /// Whether every slot, permit and fetch is free: nothing leaked.
    pub fn is_quiet(&self) -> bool {
        let core = &self.0;
        core.in_flight.get() == 0
            && core.permits_are_free()
            && core.partials.is_empty()
            && core.free_slots.borrow().len() + core.free_admin_slots.borrow().len() == core.slots.len()
            && core.port.tags_free()
    }

    /// The value of a register, or of the payload buffer's bytes, at once: for who answers reads of it that don't cross
    /// the link.
    pub fn register(&self, offset: u64, bytes: u32) -> u64 {
        Bar::read(&*self.0, offset, bytes)
    }

    /// The buffer for payload behind the registers: where in BAR0 it begins, and its length; 0: there is none.
    pub fn payload_buffer(&self) -> (u64, u32) {
        (self.0.config.bar_offset(), self.0.config.transfer.bar_bytes)
    }

    /// How it says in its configuration space that it has memory for the host; none: it has none.
    pub fn dvsec(&self) -> Option<DeviceDvsec> {
        self.0.dvsec()
    }

    /// I/O queue pairs that it may have, at most.
    pub fn io_queues_max(&self) -> u16 {
        self.0.config.controller.io_queues_max
    }

    /// Another value than before: queues have come or gone, so a list made by [`Controller::each_queue`] is stale.
    pub fn queues_epoch(&self) -> u64 {
        self.0.queues_epoch.get()
    }

    /// Names the doorbells of all queues that there are: ascending, submission queues first.
    pub fn each_queue(&self, mut each: impl FnMut(Doorbell)) {
        let queues = self.0.queues.borrow();
        let tails = queues.submission.iter().flatten().map(|queue| Doorbell::SubmissionTail(queue.id));
        let heads = queues.completion.iter().flatten().map(|queue| Doorbell::CompletionHead(queue.id));
        tails.chain(heads).for_each(&mut each);
    }

    /// From now on `created` is called with the doorbell of each queue that is about to exist, before the host can
    /// know of it.
    pub fn on_queue_created(&self, created: Rc<dyn Fn(Doorbell)>) {
        self.0.queue_created.replace(Some(created));
    }

    /// Whether entries are being read or commands executed.
    pub fn is_busy(&self) -> bool {
        self.0.in_flight.get() > 0
    }

    /// Whether the host has given shadow doorbells. Then a write of an I/O queue's doorbell register is only a hint, and
    /// hosts make few of them while [`Controller::look_at_shadow_doorbells`] is called again and again.
    pub fn has_shadow_doorbells(&self) -> bool {
        self.0.has_shadow_doorbells()
    }

    /// Looks at the shadow doorbells of all I/O queues, and takes what is new: true if there was anything. A poll loop
    /// calls this, and [`Controller::arm_shadow_doorbells`] before it stops.
    pub fn look_at_shadow_doorbells(&self) -> bool {
        self.0.look_at_shadow_doorbells()
    }

    /// Before polling stops: has the host write the register with its next ring of any queue, and looks once more. True
    /// if there was anything.
    pub fn arm_shadow_doorbells(&self) -> bool {
        self.0.arm_shadow_doorbells()
    }

    /// A function-level reset (NVMe Base 2.1, 3.7.2; PCIe Base 6.6.2): as if CC.EN were cleared, and every register is
    /// put back, AQA, ASQ and ACQ too. It may come in any state and several times at once. When this returns nothing
    /// is under way any more, neither here nor to the host's memory. Register writes that are under way, or come
    /// meanwhile, are lost.
    ///
    /// The reset goes on if this is dropped.
    pub async fn reset(&self) {
        lifecycle::reset_function(&self.0).await;
    }
}

impl Bar for Core {
    fn read(&self, offset: u64, bytes: u32) -> u64 {
        self.buffer_load(offset, bytes).unwrap_or_else(|| self.registers.read(offset, bytes))
    }

    fn write(&self, write: MmioWrite) {
        self.register_write(write);
    }

    fn store(&self, offset: u64, bytes: &[u8]) {
        self.buffer_store(offset, bytes);
    }
}

impl Core {
    /// Forgets the queues and makes room for as many as the profile allows.
    fn reset_queues(&self) {
        let count = self.config.controller.io_queues_max as usize + 1;
        let mut queues = self.queues.borrow_mut();
        queues.submission = vec![None; count];
        queues.completion = vec![None; count];
        drop(queues);
        self.queues_changed();
    }

    /// A queue has come or gone.
    fn queues_changed(&self) {
        self.queues_epoch.set(self.queues_epoch.get() + 1);
    }

    /// A queue is about to exist.
    fn queue_created(&self, doorbell: Doorbell) {
        let created = self.queue_created.borrow().clone();
        if let Some(created) = created {
            created(doorbell);
        }
    }

    fn submission_queue(&self, id: u16) -> Option<Rc<SubmissionQueue>> {
        self.queues.borrow().submission.get(id as usize)?.clone()
    }

    fn completion_queue(&self, id: u16) -> Option<Rc<CompletionQueue>> {
        self.queues.borrow().completion.get(id as usize)?.clone()
    }

    /// A command goes to a slot, which was taken for it.
    fn start(&self, slot: u32, command: Command) {
        self.begin();
        self.slots[slot as usize].dispatch(command);
    }

    /// A namespace that takes commands. Whoever executes one holds it until the command ends.
    #[inline]
    fn namespace(&self, nsid: u32) -> Result<Rc<Namespace>, Status> {
        let namespace = self.inventory.active(nsid)?;
        match namespace.refusal.get() {
            Status::SUCCESS => Ok(namespace),
            status => Err(status),
        }
    }

    /// Takes register writes in the order of their arrival.
    async fn run_registers(core: Rc<Core>) {
        loop {
            let write = core.port.next_write().await;
            core.register_write(write);
        }
    }

    fn register_write(&self, write: MmioWrite) {
        let MmioWrite { offset, value, bytes } = write;
        if !matches!(bytes, 4 | 8) || !offset.is_multiple_of(4) {
            return; // undefined by the specification; ignored
        }
        if self.function_resets.under_way() {
            return;
        }
        if self.in_buffer(offset).is_some() {
            return self.buffer_store(offset, &value.to_le_bytes()[..bytes as usize]);
        }
        if offset < byteway_wire::nvme::register::DOORBELLS {
            for effect in self.registers.write(offset, value, bytes) {
                match effect {
                    Effect::Lifecycle => self.lifecycle.notify_one(),
                    Effect::Unmasked => self.interrupts.unmasked(self.registers.interrupt_mask.get()),
                    Effect::None => {}
                }
            }
            return;
        }
        match Doorbell::decode(offset, self.config.controller.dstrd) {
            Some(doorbell) => self.ring(doorbell, value as u32),
            None if self.registers.csts.get().rdy() => self.raise(DoorbellError::Register.event()),
            None => {}
        }
    }

    /// A doorbell was written. One of a controller that is not ready means nothing.
    fn ring(&self, doorbell: Doorbell, value: u32) {
        if !self.registers.csts.get().rdy() || self.function_resets.under_way() {
            return;
        }
        let rung = match doorbell {
            Doorbell::SubmissionTail(id) => match self.submission_queue(id) {
                Some(queue) if self.tail_hint(&queue) => Ok(()),
                Some(queue) => self.submitted(&queue, value),
                None => Err(DoorbellError::Register),
            },
            Doorbell::CompletionHead(id) => match self.completion_queue(id) {
                Some(queue) if self.head_hint(&queue) => Ok(()),
                Some(queue) => self.consumed(&queue, value),
                None => Err(DoorbellError::Register),
            },
        };
        if let Err(error) = rung {
            self.raise(error.event());
        }
    }

    /// The host has submitted commands up to `tail`.
    fn submitted(&self, queue: &SubmissionQueue, tail: u32) -> Result<(), DoorbellError> {
        queue.set_tail(tail)?;
        if queue.missing.get() > 0 {
            self.skip_train(queue);
        }
        self.fetchable.notify_one();
        Ok(())
    }

    /// There is a slot or room for a completion again: what waited for it may be fetched.
    fn room(&self) {
        if self.starved.take() {
            self.fetchable.notify_one();
        }
    }

    /// The host has consumed completions up to `head`.
    fn consumed(&self, queue: &CompletionQueue, head: u32) -> Result<(), DoorbellError> {
        queue.set_head(head)?;
        if queue.id == 0 {
            self.events_changed.notify_one();
        }
        self.room();
        Ok(())
    }

    /// Reports an event.
    fn raise(&self, event: AsyncEvent) {
        self.events.raise(event);
        self.events_changed.notify_one();
    }

    /// Answers Asynchronous Event Requests.
    async fn run_events(core: Rc<Core>) {
        loop {
            core.events_changed.notified().await;
            core.answer_events();
        }
    }

    /// Answers those that can be answered: that were aborted, or have an event; as far as their completions have room.
    fn answer_events(&self) {
        while let Some((request, answer)) = self.events.next() {
            let (status, dw0) = match answer {
                Answer::Aborted => (Status::ABORT_REQUESTED, 0),
                Answer::Event(event) => (Status::SUCCESS, event.dw0()),
            };
            self.post(Permit::unpark(request.queue), request.cid, status, [dw0, 0], SpanId::NONE);
        }
    }

    async fn run_coalescing(core: Rc<Core>) {
        loop {
            let vector = core.interrupts.expired().await;
            core.interrupts.announce(vector, core.registers.interrupt_mask.get());
        }
    }

    /// Begins something that a reset waits for.
    fn begin(&self) {
        if self.in_flight.get() == 0 {
            self.busy_since.set(self.clock.now());
        }
        self.in_flight.set(self.in_flight.get() + 1);
    }

    /// Ends it.
    fn end(&self) {
        self.in_flight.set(self.in_flight.get() - 1);
        if self.in_flight.get() == 0 {
            let busy = self.clock.now().since(self.busy_since.get());
            self.counters.busy.set(self.counters.busy.get() + busy);
            self.quiet.notify_all();
        }
    }

    /// Whether no command has a place in a queue.
    fn permits_are_free(&self) -> bool {
        let queues = self.queues.borrow();
        queues.submission.iter().flatten().all(|queue| queue.outstanding() == 0)
            && queues.completion.iter().flatten().all(|queue| queue.reserved() == 0)
    }

    fn take_slot(&self, admin: bool) -> Option<u32> {
        if admin { self.free_admin_slots.borrow_mut().pop() } else { self.free_slots.borrow_mut().pop() }
    }

    fn free_slot(&self, index: u32) {
        if (index as usize) < self.slots.len() - ADMIN_SLOTS {
            self.free_slots.borrow_mut().push(index);
        } else {
            self.free_admin_slots.borrow_mut().push(index);
        }
        self.room();
    }

    /// A command slot's life.
    async fn run_slot(core: Rc<Core>, index: u32) {
        let slot = core.slots[index as usize].clone();
        let sgl = core.config.controller.sgl.then(SglRules::default);
        let mut workspace = io::Workspace::new(Supported { sgl });
        loop {
            let Command { sqe, permit, span, payload, second } = slot.next().await;
            if let Some(second) = second {
                fused::run(&core, &slot, &mut workspace, Waiting { sqe, permit, span }, *second).await;
                core.free_slot(index);
                core.end();
                continue;
            }
            let queue = permit.queue().clone();
            core.clock.works_for([span]);
            let context = Context {
                core: &core,
                slot: &slot,
                queue: &queue,
                permit: &permit,
                sqe: &sqe,
                span,
                payload,
                member: Member::First,
            };
            (workspace.failed_lba, workspace.failed_dword, workspace.failed_information) = (0, 0, 0);
            let parse = core.placement.chain(Work::Fetch, Work::Parse).await;
            let pipeline = if queue.id == 0 { Delay::ZERO } else { io::pipeline(&core, &sqe) };
            core.clock.sleep_until(parse.end + pipeline).await;
            context.charge_firmware(parse.queued);
            match payload {
                Payload::Train(slots) => context.take_in(slots.count()).await,
                Payload::Chunked(slots) => context.take_in(Chunk::count(slots.bytes)).await,
                Payload::Pointer | Payload::Refused(_) => {}
            }
            let outcome = match context.check() {
                Err(status) => Err(status),
                Ok(()) if queue.id == 0 => admin::execute(&context, &mut workspace).await,
                Ok(()) => io::execute(&context, &mut workspace).await,
            };
            let mut result = None;
            let (status, dwords) = match outcome {
                Ok(Reply::Done(dwords)) => (Status::SUCCESS, dwords),
                Ok(Reply::Result(dwords)) => {
                    result = Some(&workspace.bytes[..]);
                    (Status::SUCCESS, dwords)
                }
                Ok(Reply::Parked) => {
                    core.park(permit, sqe.cid());
                    slot.clear(Status::SUCCESS, Status::SUCCESS);
                    core.free_slot(index);
                    core.end();
                    continue;
                }
                Err(status) => {
                    streams::end_failed(&context);
                    (status, [workspace.failed_dword, 0])
                }
            };
            core.operations.command_ended();
            core.persistence.counted();
            let complete = core.placement.run(Work::Complete, 1).await;
            context.charge_firmware(complete.queued);
            if queue.fate.get() != Fate::Reset {
                if status != Status::SUCCESS {
                    let (lba, information) = (workspace.failed_lba, workspace.failed_information);
                    core.errors.record(queue.id, &sqe, status, lba, information);
                }
                match result {
                    Some(bytes) => core.post_result(permit, sqe.cid(), dwords, bytes, span),
                    None => core.post(permit, sqe.cid(), status, dwords, span),
                }
            }
            slot.clear(status, Status::SUCCESS);
            core.free_slot(index);
            core.end();
        }
    }

    /// Holds an Asynchronous Event Request.
    fn park(&self, permit: Permit, cid: u16) {
        if permit.queue().fate.get() == Fate::Live {
            let queue = permit.park();
            self.events.park(event::ParkedRequest { queue, cid, is_aborted: false });
            self.events_changed.notify_one();
        }
    }

    /// Posts a completion and announces it.
    fn post(&self, permit: Permit, cid: u16, status: Status, dwords: [u32; 2], span: SpanId) {
        let (address, entry, queue) = permit.complete(cid, status, dwords);
        let posted = self.port.post(address, entry.to_bytes());
        self.posted(posted, &queue, span);
    }

    /// A completion was posted to where `queue` completes: announces it.
    fn posted(&self, posted: Result<Passage, Fault>, queue: &SubmissionQueue, span: SpanId) {
        let Ok(passage) = posted else {
            self.fail();
            return;
        };
        // The crossing is the link's until the entry arrives; from then on it is the host that takes its time.
        self.port.spans().charge(span, passage.arrival, Stage::Link);
        add(&self.counters.posted, 1);
        if let Some(vector) = queue.completion_queue.vector {
            let mask = self.registers.interrupt_mask.get();
            self.interrupts.completion(vector, queue.id == 0, mask);
        }
    }

    /// A queue lies in memory that is not there: Controller Fatal Status. The host resets.
    fn fail(&self) {
        self.registers.csts.set(self.registers.csts.get().with_cfs(true));
    }

    /// Makes a submission queue known.
    fn add_submission_queue(
        &self,
        id: u16,
        base: u64,
        entries: u32,
        cq: Rc<CompletionQueue>,
        class: QueuePriority,
    ) {
        self.queue_created(Doorbell::SubmissionTail(id));
        let queue = SubmissionQueue::new(&self.clock, id, base, entries, cq, class);
        self.queues.borrow_mut().submission[id as usize] = Some(queue.clone());
        self.queues_changed();
        self.shadow_submission(&queue);
        self.arbiter.add(queue);
    }
}

/// What a command answers with.
pub enum Reply {
    /// Success, with these in dwords 0 and 1 of the completion.
    Done([u32; 2]),
    /// The same, with the workspace's bytes behind the completion; room for them is reserved.
    Result([u32; 2]),
    /// Nothing yet: it is held (Asynchronous Event Request).
    Parked,
}

/// A command that is being executed.
pub struct Context<'a> {
    core: &'a Rc<Core>,
    slot: &'a Slot,
    queue: &'a SubmissionQueue,
    permit: &'a Permit,
    sqe: &'a byteway_wire::nvme::Sqe,
    span: SpanId,
    payload: Payload,
    member: Member,
}

impl Context<'_> {
    /// Whether to go on; asked after each wait.
    fn check(&self) -> Result<(), Status> {
        self.slot.check(self.queue, self.member)
    }

    /// Takes in the payload of `entries` that came by the queue: they are looked at one by one, and stored in DRAM.
    async fn take_in(&self, entries: u32) {
        let core = self.core;
        let taken = core.placement.run(Work::Chunk, u64::from(entries)).await;
        self.charge_firmware(taken.queued);
        core.clock.sleep(core.config.transfer.chunk_store * u64::from(entries)).await;
        self.charge(Stage::Dram);
    }

    /// The same, for what an Abort can't stop.
    fn check_queue(&self) -> Result<(), Status> {
        match self.queue.fate.get() {
            Fate::Live => Ok(()),
            Fate::Deleting | Fate::Reset => Err(Status::ABORTED_SQ_DELETED),
        }
    }

    fn charge(&self, stage: Stage) {
        self.core.port.spans().charge(self.span, self.core.clock.now(), stage);
    }

    fn charge_firmware(&self, queued: Delay) {
        let stage = Stage::Firmware;
        self.core.port.spans().charge_split(self.span, self.core.clock.now(), queued, stage);
    }
}
