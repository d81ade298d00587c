//! The NVMe controller (NVMe Base 2.1): everything between a doorbell and a completion.
//!
//! | folder | what |
//! |---|---|
//! | [`queue`] | submission and completion queues, arbitration, commands that wait without a command slot |
//! | [`namespace`] | namespaces, and the part of the drive that each occupies |
//! | [`memory`] | drive memory that the host stores to |
//! | [`state`] | the other parts of the state: registers, interrupts, slots, events, features |
//! | [`core`] | all state together, and operations on it: doorbells, completions |
//! | [`command`] | a command while it is executed: payload, results |
//! | [`command_set`] | the I/O command sets, one folder each, behind one enum |
//! | [`fetch`] | reading submission queue entries |
//! | [`background`] | work that outlives commands |
//! | [`admin`] | the admin commands |
//! | [`slot`] | command slots, from parsing to completion: by calls, or by a task |
//! | [`lifecycle`] | enable, disable, shutdown, function-level reset |
//!
//! Each uses only what stands above it: a part of the state never sees the whole, [`core`] knows no command, and code
//! shared by all command sets knows none of them.

use crate::backing::Backing;
use crate::config::{CommandSet, DriveConfig};
use crate::controller::command::media::status_of;
use crate::controller::command_set::CommandSets;
use crate::controller::command_set::lending::{self, LendError};
use crate::controller::core::{Core, OnReset, Router};
use crate::controller::fetch::Fetches;
use crate::controller::slot::Records;
use crate::controller::state::counters::Counters;
use crate::controller::state::loan::Loan;
use byteway_clock::{Delay, Handler, SpanId};
use byteway_firmware::{Ftl, Placement, Route};
use byteway_flash::Medium;
use byteway_link::{Bar, DeviceEnd};
use byteway_wire::cxl::DeviceDvsec;
use byteway_wire::nvme::register::Cap;
use byteway_wire::nvme::{Doorbell, SmartLog, Status};
use std::rc::Rc;

pub mod admin;
pub mod background;
pub mod command;
pub mod command_set;
pub mod core;
pub mod fetch;
pub mod lifecycle;
pub mod memory;
pub mod namespace;
pub mod queue;
pub mod slot;
pub mod state;

/// An NVMe controller. Cheap to clone.
#[derive(Clone)]
pub struct Controller(Rc<CommandSets>);

impl Controller {
    /// Starts a controller at the device's end of a link: powered on and not enabled. Its tasks run until the power is
    /// cut.
    pub fn start(port: &DeviceEnd, config: DriveConfig, placement: Placement, backing: Backing) -> Self {
        let c = &config.controller;
        let cap = Cap::new()
            .with_mqes_z((c.queue_entries_max - 1) as u16)
            .with_cqr(true)
            .with_ams(1)
            .with_to(20)
            .with_dstrd(c.dstrd)
            .with_css(CommandSet::css(&config))
            .with_mpsmin(0)
            .with_mpsmax(4)
            .with_crms(0b01); // CRMS: the only mode is Controller Ready With Media
        let core = Core::new(port, config, cap, placement, backing);
        Self::begin(CommandSets::new(core, Rc::default()))
    }

    /// Starts a further controller of the same drive, at a link of its own: powered on and not enabled. It shares
    /// namespaces, flash and firmware; registers, queues, events and features are its own.
    pub(crate) fn start_peer(&self, port: &DeviceEnd) -> Self {
        Self::begin(CommandSets::new(self.core().new_peer(port), self.0.peers.clone()))
    }

    /// Starts the tasks of a controller, and with the first controller those of the drive.
    fn begin(sets: Rc<CommandSets>) -> Self {
        let core = sets.core.clone();
        let (port, is_first) = (&core.port, core.number == 0);
        port.attach(core.clone());
        port.heed_quiet_writes(false); // head doorbells are taken when a free completion slot is looked for
        if let Some(memory) = &core.config.transfer.memory {
            port.attach_memory(memory.link, sets.clone());
        }
        let clock = &core.clock;
        let mut tasks = Vec::new();
        let slots_of = Rc::downgrade(&sets); // the slots are a part of the sets
        core.slots.start_by(move |index| {
            let sets = slots_of.upgrade()?;
            Some(sets.core.clock.spawn("command slot", slot::run(sets.clone(), index)))
        });
        let (fetches, fetching) = Fetches::start(&sets);
        core.handlers.replace(vec![take_registers(&core, fetches), fetching, Records::start(&sets)]);
        if is_first {
            tasks.push(clock.spawn("non-volatile state", background::restore::run(sets.clone())));
        }
        tasks.push(clock.spawn("lifecycle", lifecycle::run(sets.clone())));
        if is_first {
            tasks.push(clock.spawn("changes of namespaces", background::operation::run(sets.clone())));
            tasks.push(clock.spawn("sanitize", background::sanitize::run(sets.clone())));
            tasks.push(clock.spawn("self-test", background::self_test::run(core.clone())));
        }
        tasks.push(clock.spawn("events", run_events(core.clone())));
        if core.config.transfer.has_partials() {
            tasks.push(clock.spawn("incomplete payloads", background::incomplete::run(core.clone())));
        }
        sets.spawn();
        tasks.push(clock.spawn("interrupt coalescing", run_coalescing(core.clone())));
        if is_first {
            tasks.push(clock.spawn("health", background::health::run(core.clone())));
            if !core.config.temperature.steps.is_empty() {
                tasks.push(clock.spawn("temperature", background::health::watch_temperature(core.clone())));
            }
            if core.config.controller.collection_windows {
                tasks.push(clock.spawn("collection notices", background::collection::run(core.clone())));
            }
        }
        core.tasks.replace(tasks);
        Controller(sets)
    }

    /// The state that all command sets share.
    pub(crate) fn core(&self) -> &Core {
        &self.0.core
    }

    /// Counters since power-on.
    pub fn counters(&self) -> &Counters {
        &self.0.core.counters
    }

    /// Number of polls of the commit ring since power-on: one each [`MemoryConfig::poll`](crate::MemoryConfig) while
    /// the controller had no record to take, and one after each record. Multiplied by the cycles of
    /// [`WorkKind::Poll`](byteway_firmware::WorkKind::Poll) it is the core time that polling takes, including polls
    /// that needed no event.
    pub fn commit_looks(&self) -> u64 {
        self.0.core.memory.commits.looks()
    }

    /// The translation layer.
    ///
    /// # Panics
    /// If the controller is over an array of drives ([`Controller::backing`]).
    pub fn ftl(&self) -> &Ftl {
        self.0.core.backing.own_ftl()
    }

    /// The storage behind the controller's units.
    pub fn backing(&self) -> &Backing {
        &self.0.core.backing
    }

    /// Detaches the controller from its link.
    pub(crate) fn detach(&self) {
        self.core().port.detach();
    }

    /// Cuts the power of the drive: this controller stops answering and detaches from its link. Called on the first of
    /// a drive's controllers. Returns the media; `None` if the flash is across a link, and has power of its own.
    pub(crate) fn power_off(&self) -> Option<Medium> {
        self.detach();
        self.0.core.borrowed.end();
        self.0.power_off();
        self.0.core.backing.power_off()
    }

    /// Ends the controller's tasks, once the drive has lost power. Where the simulation goes on, as after a hot
    /// removal, they would otherwise acknowledge commands that never reach the media.
    pub(crate) fn end_tasks(&self) {
        let core = self.core();
        core.slots.take_tasks().chain(core.tasks.take()).for_each(|task| core.clock.kill(task));
        core.handlers.take().into_iter().for_each(|handler| core.clock.remove(handler));
    }

    /// Writes buffered data and the state that recovery would have to rebuild, as a host's shutdown does. For a caller
    /// that ends the drive without a host.
    ///
    /// # Errors
    /// The status of a flush that flash has no space for.
    pub async fn shut_down(&self) -> Result<(), Status> {
        let core = &self.0.core;
        let sets = self.0.flush(SpanId::NONE).await;
        let ftl = core.backing.shutdown(SpanId::NONE, core.port.spans()).await;
        ftl.map_err(|error| status_of(error, Status::INTERNAL_ERROR)).and(sets)
    }

    /// Waits until the contents of the media are known, KV namespaces included.
    pub async fn ready(&self) {
        self.0.core.backing.ready().await;
        self.0.core.background.persistence.restored().await;
        self.0.ready().await;
    }

    /// Sets the router, which chooses for each read and write where the translation layer's work is done. Only the
    /// first call has an effect.
    pub fn route_by(&self, router: Router) {
        self.0.core.router.set(router).ok();
    }

    /// Sets the hook that runs when a controller reset begins and its loans end, so that the owner of other records of
    /// these loans can correct them before the host sees the reset done and recreates its queues. Only the first call
    /// has an effect.
    pub fn on_reset(&self, act: OnReset) {
        self.0.core.on_reset.set(act).ok();
    }

    /// Lends an I/O queue of this controller to `borrower`: its commands are fetched, parsed and completed here, and
    /// executed over the borrower's namespaces, flash and link; firmware work follows `route` of the borrower's
    /// placement ("Espresso", 4.4: a shadow queue pair). The loan [ends](Loan::end) on request. It is
    /// [revoked](Loan::revoke) when the borrower's host says so ([`Loans`](byteway_wire::nvme::vendor::loans::Loans)),
    /// when the borrower is reset, or when it loses power; commands that are in flight or arrive later then end with
    /// Command Interrupted. A reset of the lender ends it, too. The queue stays lent until it is [taken
    /// back](Controller::take_back) or deleted.
    ///
    /// # Errors
    /// [`LendError`] if there is no such queue, its own host uses it, or a controller can't take part.
    pub fn lend(&self, qid: u16, borrower: &Controller, route: Route) -> Result<Rc<Loan>, LendError> {
        self.lend_as(0, qid, borrower, route)
    }

    /// Like [`Controller::lend`], for the drive with number `lender` among the borrower's peers.
    ///
    /// # Errors
    /// Same as [`Controller::lend`].
    pub fn lend_as(
        &self,
        lender: u8,
        qid: u16,
        borrower: &Controller,
        route: Route,
    ) -> Result<Rc<Loan>, LendError> {
        lending::lend(&self.0, qid, &borrower.0, (route, lender))
    }

    /// Takes a lent queue back: its commands are this drive's again. Call it when its host has received every
    /// completion; a doorbell write in flight can't be seen here.
    ///
    /// # Errors
    /// [`LendError`] if commands of the queue are in flight, or wait to be fetched.
    pub fn take_back(&self, qid: u16) -> Result<(), LendError> {
        lending::take_back(&self.0, qid)
    }

    /// Drops the commands of a lent queue whose borrower was removed: they end without a completion, as in a
    /// reset. The queue stays lent; the host must delete it.
    pub fn abandon(&self, qid: u16) {
        slot::abandon(&self.0, qid);
    }

    /// Number of commands of a submission queue that were fetched and have not completed; 0 if there is no such queue.
    pub fn outstanding(&self, qid: u16) -> u32 {
        self.0.core.queues.submission(qid).map_or(0, |queue| queue.outstanding())
    }

    /// Number of I/O commands that hosts have submitted and that have not completed.
    pub fn outstanding_ios(&self) -> u64 {
        let mut count = 0;
        self.0.core.queues.each_submission(|queue| {
            if queue.id > 0 {
                count += u64::from(queue.waiting()) + u64::from(queue.outstanding());
            }
        });
        count
    }

    /// The SMART / Health Information log page (NVMe Base 2.1, 5.1.12.1.3).
    pub fn smart(&self) -> SmartLog {
        admin::log::smart_of(&self.0.core)
    }

    /// The placement of its firmware.
    pub fn placement(&self) -> &Placement {
        &self.0.core.placement
    }

    /// Whether a host waits for something that needs no further action of the host: a reset, an enabling, a shutdown,
    /// or firmware work for a command. If the simulation stalls then, it is a deadlock.
    pub fn has_pending_work(&self) -> bool {
        let core = &self.0.core;
        core.lifecycle.is_changing.get() || core.lifecycle.resets.is_pending() || core.backing.is_attending()
    }

    /// Whether every slot, permit and fetch is free, so that nothing has leaked.
    pub fn is_quiet(&self) -> bool {
        self.0.core.is_quiet()
    }

    /// The value of a register, or of bytes of the payload buffer, without a wait: for callers whose reads do not cross
    /// the link.
    pub fn register(&self, offset: u64, bytes: u32) -> u64 {
        Bar::read(&*self.0.core, offset, bytes)
    }

    /// The payload buffer in BAR0: its offset and its length in bytes, 0 if there is none.
    pub fn payload_buffer(&self) -> (u64, u32) {
        (self.0.core.config.bar_offset(), self.0.core.config.transfer.bar_bytes)
    }

    /// The DVSEC that announces memory for the host in configuration space; `None` if there is no such memory.
    pub fn dvsec(&self) -> Option<DeviceDvsec> {
        self.0.dvsec()
    }

    /// Maximum number of I/O queue pairs.
    pub fn io_queues_max(&self) -> u16 {
        self.0.core.config.controller.io_queues_max
    }

    /// Changes whenever a queue is created or deleted; a list from [`Controller::each_queue`] is then stale.
    pub fn queues_epoch(&self) -> u64 {
        self.0.core.queues.epoch()
    }

    /// Calls `each` with the doorbell of every queue: ascending, submission queues first.
    pub fn each_queue(&self, mut each: impl FnMut(Doorbell)) {
        let queues = &self.0.core.queues;
        queues.each_submission(|queue| each(Doorbell::SubmissionTail(queue.id)));
        queues.each_completion(|queue| each(Doorbell::CompletionHead(queue.id)));
    }

    /// Sets a hook that is called with the doorbell of each new queue, before the host can know of the queue.
    pub fn on_queue_created(&self, created: Rc<dyn Fn(Doorbell)>) {
        self.0.core.queues.on_created(created);
    }

    /// Time for which it has merged parts of units, if its firmware does.
    pub fn merging_busy(&self) -> Option<Delay> {
        let core = &self.0.core;
        core.config.controller.merging.as_ref().map(|_| core.merging.busy(core.clock.now()))
    }

    /// Whether entries are being read or commands executed.
    pub fn is_busy(&self) -> bool {
        self.0.core.slots.is_busy()
    }

    /// Whether the host has configured shadow doorbells. A write of an I/O queue's doorbell register is then only a
    /// hint, and hosts write few of them while [`Controller::look_at_shadow_doorbells`] is called repeatedly.
    pub fn has_shadow_doorbells(&self) -> bool {
        self.0.core.has_shadow_doorbells()
    }

    /// Reads the shadow doorbells of all I/O queues. `true` if any was new. For a poll loop, which calls
    /// [`Controller::arm_shadow_doorbells`] before it stops.
    pub fn look_at_shadow_doorbells(&self) -> bool {
        self.0.core.look_at_shadow_doorbells()
    }

    /// Prepares for the end of polling: requests that the host write the doorbell register at the next
    /// submission or completion of any queue, then reads all shadow doorbells once more. Returns true if any
    /// was new.
    pub fn arm_shadow_doorbells(&self) -> bool {
        self.0.core.arm_shadow_doorbells()
    }

    /// Function-level reset (NVMe Base 2.1, 3.7.2; PCIe Base 6.6.2): clears CC.EN and resets every register, AQA, ASQ
    /// and ACQ included. It may be requested in any state and repeatedly. On return nothing is in flight, neither in
    /// the controller nor to host memory. Register writes that are in flight or arrive meanwhile are lost.
    ///
    /// The reset proceeds even if this future is dropped.
    pub async fn reset(&self) {
        lifecycle::reset_function(&self.0.core).await;
    }
}

/// Has a call take register writes, in the order of arrival.
fn take_registers(core: &Rc<Core>, fetches: Rc<Fetches>) -> Handler {
    let (clock, core) = (&core.clock, core.clone());
    let registers = clock.handle(move |_| {
        core.port.serve_writes(|write| {
            if core.register_write(write) {
                fetches.exposed();
            }
        });
    });
    clock.wake(registers.with(0));
    registers
}

/// Completes Asynchronous Event Requests.
async fn run_events(core: Rc<Core>) {
    loop {
        core.events.answerable().await;
        core.answer_events();
    }
}

async fn run_coalescing(core: Rc<Core>) {
    loop {
        let vector = core.interrupts.expired().await;
        core.interrupts.announce(vector, core.registers.interrupt_mask.get());
    }
}
