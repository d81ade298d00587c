//! The NVMe controller (NVMe Base 2.1): what happens between a doorbell and a completion.
//!
//! | folder | what |
//! |---|---|
//! | [`queue`] | submission and completion queues, arbitration, commands that wait without a slot |
//! | [`namespace`] | namespaces, and which part of the drive each has |
//! | [`memory`] | memory that the host stores to |
//! | [`state`] | the other parts of the state: registers, interrupts, slots, events, features |
//! | [`core`] | these parts together, and what they all do: doorbells, completions |
//! | [`command`] | a command while it is executed: payload, results |
//! | [`command_set`] | the I/O command sets, a folder each, behind one enum |
//! | [`fetch`] | reading submission queue entries |
//! | [`background`] | work behind commands |
//! | [`admin`] | the admin commands |
//! | [`slot`] | a command slot: from parsing to completion |
//! | [`lifecycle`] | enable, disable, shutdown, reset of the function |
//!
//! Each uses what stands above it, and nothing below: a part of the state never sees the whole, [`core`] knows no command,
//! and what all command sets have in common knows none of them.

use crate::backing::Backing;
use crate::config::{CommandSet, DriveConfig};
use crate::controller::command::media::status_of;
use crate::controller::command_set::CommandSets;
use crate::controller::command_set::lending::{self, LendError};
use crate::controller::core::{Core, Router};
use crate::controller::fetch::idle::Idle;
use crate::controller::state::counters::Counters;
use crate::controller::state::loan::Loan;
use byteway_clock::SpanId;
use byteway_firmware::{Ftl, Placement, Route};
use byteway_flash::Medium;
use byteway_link::{Bar, DeviceEnd};
use byteway_wire::cxl::DeviceDvsec;
use byteway_wire::nvme::register::Cap;
use byteway_wire::nvme::{Doorbell, Status};
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
    /// A controller at the device's end of a link, powered on and not enabled. Its tasks run until the executor ends.
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
            .with_crms(0b01); // ready means ready with the media
        let core = Core::new(port, config, cap, placement, backing);
        Self::begin(CommandSets::new(core, Rc::default()))
    }

    /// A further controller of the same drive, at the device's end of a link of its own: powered on and not enabled. It has the
    /// same namespaces, flash and firmware; its registers, queues, events and features are its own.
    pub(crate) fn start_beside(&self, port: &DeviceEnd) -> Self {
        Self::begin(CommandSets::new(self.core().beside(port), self.0.peers.clone()))
    }

    /// Starts the tasks of a controller, and with the first one those of its drive.
    fn begin(sets: Rc<CommandSets>) -> Self {
        let core = sets.core.clone();
        let (port, is_first) = (&core.port, core.number == 0);
        port.attach(core.clone());
        port.heed_quiet_writes(false); // it looks before it needs a place in a completion queue
        if let Some(memory) = &core.config.transfer.memory {
            port.attach_memory(memory.link, sets.clone());
        }
        let clock = &core.clock;
        let mut tasks = Vec::new(); // those of the slots first, by their numbers
        for index in 0..core.slots.count() {
            tasks.push(clock.spawn("command slot", slot::run(sets.clone(), index)));
        }
        let idle = Rc::new(Idle::default());
        for _ in 0..core.config.controller.fetch_outstanding {
            tasks.push(clock.spawn("fetch", fetch::run(sets.clone(), idle.clone())));
        }
        tasks.push(clock.spawn("registers", run_registers(core.clone(), idle)));
        if is_first {
            tasks.push(clock.spawn("what outlives the power", background::restore::run(sets.clone())));
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
            if core.config.controller.collection_windows {
                tasks.push(clock.spawn("collection notices", background::collection::run(core.clone())));
            }
        }
        core.tasks.replace(tasks);
        Controller(sets)
    }

    /// What its command sets share.
    pub(crate) fn core(&self) -> &Core {
        &self.0.core
    }

    /// What it has counted.
    pub fn counters(&self) -> &Counters {
        &self.0.core.counters
    }

    /// How often it has looked for commit records since power-on: every [`MemoryConfig::poll`](crate::MemoryConfig) while it was
    /// busy with none, and behind each that it had taken. Times the cycles of [`Work::Poll`](byteway_firmware::Work::Poll) it is
    /// what looking takes of a core, the looks that took no event included.
    pub fn commit_looks(&self) -> u64 {
        self.0.core.memory.commits.looks()
    }

    /// The translation layer behind it.
    ///
    /// # Panics
    /// There is an array of drives instead: [`Controller::backing`] tells.
    pub fn ftl(&self) -> &Ftl {
        self.0.core.backing.own_ftl()
    }

    /// What its units are on.
    pub fn backing(&self) -> &Backing {
        &self.0.core.backing
    }

    /// Its link lets go of it.
    pub(crate) fn detach(&self) {
        self.core().port.detach();
    }

    /// The power of the drive goes: this controller answers nothing any more, and its link lets go of it. Of a drive's controllers
    /// the first is told. None: its flash is across a link, and has its own power.
    pub(crate) fn power_off(&self) -> Option<Medium> {
        self.detach();
        self.0.core.borrowed.end();
        self.0.power_off();
        self.0.core.backing.power_off()
    }

    /// Its tasks end: to be called when the power of the drive has gone. In a world that goes on, as around a drive that was pulled
    /// out, they would acknowledge commands that the medium knows nothing of.
    pub(crate) fn end_tasks(&self) {
        let core = self.core();
        core.tasks.take().into_iter().for_each(|task| core.clock.kill(task));
    }

    /// Writes down what it holds in buffers, and what recovery would have to find out, as a shutdown does that a host asks
    /// for: for who ends the drive while no host is there.
    ///
    /// # Errors
    /// Flash has no room for all of it any more.
    pub async fn shut_down(&self) -> Result<(), Status> {
        let core = &self.0.core;
        let sets = self.0.flush(SpanId::NONE).await;
        let ftl = core.backing.shutdown(SpanId::NONE, core.port.spans()).await;
        ftl.map_err(|error| status_of(error, Status::INTERNAL_ERROR)).and(sets)
    }

    /// Waits until it knows what its medium holds, pairs too.
    pub async fn ready(&self) {
        self.0.core.backing.ready().await;
        self.0.core.background.persistence.restored().await;
        self.0.ready().await;
    }

    /// From now on `router` says, by its command, where the translation layer's work for a read or a write is done. To be called
    /// once: the first one stays.
    pub fn route_by(&self, router: Router) {
        self.0.core.router.set(router).ok();
    }

    /// Lends an I/O queue of this controller to `borrower`: its commands are fetched, parsed and completed here, and executed over the
    /// borrower's namespaces, flash and link, with the firmware work done by `route` of the borrower's placement ("Espresso", 4.4: a
    /// shadow queue pair). The loan [ends](Loan::end) when that is wanted, and is [revoked](Loan::revoke) when the borrower's host says so
    /// ([`Loans`](byteway_wire::nvme::vendor::loans::Loans)), by a reset of the borrower, or when its power goes: commands that are under
    /// way, or come later, then end with Command Interrupted. A reset of the lender ends it, too. The queue stays lent until it is
    /// [taken back](Controller::take_back) or deleted.
    ///
    /// # Errors
    /// There is no such queue, or its own host uses it.
    pub fn lend(&self, qid: u16, borrower: &Controller, route: Route) -> Result<Rc<Loan>, LendError> {
        self.lend_as(0, qid, borrower, route)
    }

    /// The same for a drive that is number `lender` among the borrower's peers.
    ///
    /// # Errors
    /// As [`Controller::lend`].
    pub fn lend_as(
        &self,
        lender: u8,
        qid: u16,
        borrower: &Controller,
        route: Route,
    ) -> Result<Rc<Loan>, LendError> {
        lending::lend(&self.0, qid, &borrower.0, (route, lender))
    }

    /// Takes a queue back that is lent: its commands are this drive's again. To be called when its host has every completion: of a
    /// doorbell that is on its way nothing is known here.
    ///
    /// # Errors
    /// Commands of it are under way, or wait to be fetched.
    pub fn take_back(&self, qid: u16) -> Result<(), LendError> {
        lending::take_back(&self.0, qid)
    }

    /// Gives up the commands of a lent queue whose borrower is gone and will never answer: they end without a completion, as in a
    /// reset. The queue stays lent; the host is to delete it.
    pub fn abandon(&self, qid: u16) {
        slot::abandon(&self.0, qid);
    }

    /// Commands of a submission queue that were fetched and have not completed; none if there is no such queue.
    pub fn outstanding(&self, qid: u16) -> u32 {
        self.0.core.queues.submission(qid).map_or(0, |queue| queue.outstanding())
    }

    /// Where its firmware runs.
    pub fn placement(&self) -> &Placement {
        &self.0.core.placement
    }

    /// Whether a host waits for what needs nothing more from it: a reset, an enabling or a shutdown, or what a command has
    /// asked of the firmware. If nothing moves then, nothing ever will.
    pub fn owes(&self) -> bool {
        let core = &self.0.core;
        core.lifecycle.is_changing.get() || core.lifecycle.resets.under_way() || core.backing.is_attending()
    }

    /// Whether every slot, permit and fetch is free: nothing leaked.
    pub fn is_quiet(&self) -> bool {
        self.0.core.is_quiet()
    }

    /// The value of a register, or of the payload buffer's bytes, at once: for who answers reads of it that don't cross
    /// the link.
    pub fn register(&self, offset: u64, bytes: u32) -> u64 {
        Bar::read(&*self.0.core, offset, bytes)
    }

    /// The buffer for payload behind the registers: where in BAR0 it begins, and its length; 0: there is none.
    pub fn payload_buffer(&self) -> (u64, u32) {
        (self.0.core.config.bar_offset(), self.0.core.config.transfer.bar_bytes)
    }

    /// How it says in its configuration space that it has memory for the host; none: it has none.
    pub fn dvsec(&self) -> Option<DeviceDvsec> {
        self.0.dvsec()
    }

    /// I/O queue pairs that it may have, at most.
    pub fn io_queues_max(&self) -> u16 {
        self.0.core.config.controller.io_queues_max
    }

    /// Another value than before: queues have come or gone, so a list made by [`Controller::each_queue`] is stale.
    pub fn queues_epoch(&self) -> u64 {
        self.0.core.queues.epoch()
    }

    /// Names the doorbells of all queues that there are: ascending, submission queues first.
    pub fn each_queue(&self, mut each: impl FnMut(Doorbell)) {
        let queues = &self.0.core.queues;
        queues.each_submission(|queue| each(Doorbell::SubmissionTail(queue.id)));
        queues.each_completion(|queue| each(Doorbell::CompletionHead(queue.id)));
    }

    /// From now on `created` is called with the doorbell of each queue that is about to exist, before the host can
    /// know of it.
    pub fn on_queue_created(&self, created: Rc<dyn Fn(Doorbell)>) {
        self.0.core.queues.on_created(created);
    }

    /// Whether entries are being read or commands executed.
    pub fn is_busy(&self) -> bool {
        self.0.core.slots.is_busy()
    }

    /// Whether the host has given shadow doorbells. Then a write of an I/O queue's doorbell register is only a hint, and
    /// hosts make few of them while [`Controller::look_at_shadow_doorbells`] is called again and again.
    pub fn has_shadow_doorbells(&self) -> bool {
        self.0.core.has_shadow_doorbells()
    }

    /// Looks at the shadow doorbells of all I/O queues, and takes what is new: true if there was anything. A poll loop
    /// calls this, and [`Controller::arm_shadow_doorbells`] before it stops.
    pub fn look_at_shadow_doorbells(&self) -> bool {
        self.0.core.look_at_shadow_doorbells()
    }

    /// Before polling stops: has the host write the register with its next ring of any queue, and looks once more. True
    /// if there was anything.
    pub fn arm_shadow_doorbells(&self) -> bool {
        self.0.core.arm_shadow_doorbells()
    }

    /// A function-level reset (NVMe Base 2.1, 3.7.2; PCIe Base 6.6.2): as if CC.EN were cleared, and every register is
    /// put back, AQA, ASQ and ACQ too. It may come in any state and several times at once. When this returns nothing
    /// is under way any more, neither here nor to the host's memory. Register writes that are under way, or come
    /// meanwhile, are lost.
    ///
    /// The reset goes on if this is dropped.
    pub async fn reset(&self) {
        lifecycle::reset_function(&self.0.core).await;
    }
}

/// Takes register writes in the order of their arrival.
async fn run_registers(core: Rc<Core>, idle: Rc<Idle>) {
    loop {
        let write = core.port.next_write().await;
        if core.register_write(write) {
            idle.begin(&core);
        }
    }
}

/// Answers Asynchronous Event Requests.
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
