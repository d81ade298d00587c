//! The array: dies and channels at work.
//!
//! Each die has a task, whose timers move it from phase to phase. A die that is idle begins at the call that submits,
//! and one that waits for its channel is moved by the die that leaves it, so an uncontended read costs two polls of
//! the die and one of the reader.

use crate::channel::{Channel, Request, Use};
use crate::die::{Die, Operation, Phase, Priority, Verb};
use crate::geometry::{BlockId, Geometry, Ppa};
use crate::store::{BaseContent, Batch, Store};
use crate::ticket::{Outcome, Ticket, Tickets};
use crate::timing::Timing;
use byteway_clock::{Clock, Delay, Detail, HeldIos, Resource, Time, Track, Usage};
use byteway_wire::content::{Content, UNIT_BYTES};
use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

/// What the array has done, by [`Priority`]. Failed operations are only in `failed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Read operations.
    pub reads: [u64; Priority::COUNT],
    /// Program operations.
    pub programs: [u64; Priority::COUNT],
    /// Units that reads delivered.
    pub units_read: [u64; Priority::COUNT],
    /// Units programmed, padding included.
    pub units_programmed: [u64; Priority::COUNT],
    /// Superblocks erased.
    pub erases: u64,
    /// Operations that failed.
    pub failed: u64,
}

struct Array {
    dies: Vec<Die>,
    channels: Vec<Channel>,
    store: Store,
    tickets: Tickets,
    batches: Vec<Batch>,
    counters: Counters,
}

struct Inner {
    clock: Clock,
    geometry: Geometry,
    timing: Timing,
    array: RefCell<Array>,
}

/// A drive's flash array. Cheap to clone.
///
/// Operations are submitted under a [`Ticket`] and wait in the queue of their die. They belong to the array: nothing
/// takes them back. A program must be of the next stripe of its superblock, else it fails; erase a superblock before
/// its first. Operations of one superblock keep their order within a [`Priority`] only, but an erase never overtakes
/// a read submitted before it.
#[derive(Clone)]
pub struct Flash(Rc<Inner>);

impl Flash {
    /// An array that holds `base`.
    ///
    /// # Panics
    /// If `geometry` or `timing` isn't valid: whoever takes them from a file validates them there.
    pub fn new(clock: &Clock, geometry: Geometry, timing: Timing, base: Box<dyn BaseContent>) -> Flash {
        geometry.validate().expect("a geometry is validated where it is read");
        timing.validate().expect("a timing is validated where it is read");
        let array = Array {
            dies: (0..geometry.dies()).map(|_| Die::new()).collect(),
            channels: (0..geometry.channels).map(|_| Channel::default()).collect(),
            store: Store::new(geometry, base),
            tickets: Tickets::default(),
            batches: Vec::new(),
            counters: Counters::default(),
        };
        let flash =
            Flash(Rc::new(Inner { clock: clock.clone(), geometry, timing, array: RefCell::new(array) }));
        for die in 0..geometry.dies() {
            let task = clock.spawn("die", Sequencer { array: Rc::downgrade(&flash.0), die });
            flash.0.array.borrow_mut().dies[die as usize].task = Some(task);
        }
        flash
    }

    /// Its shape.
    pub fn geometry(&self) -> &Geometry {
        &self.0.geometry
    }

    /// Its times.
    pub fn timing(&self) -> &Timing {
        &self.0.timing
    }

    /// The clock that it goes by.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// A ticket to submit under.
    pub fn ticket(&self) -> Ticket {
        let index = self.tickets(Tickets::open);
        Ticket::new(self.clone(), index)
    }

    /// Submits a read of units of one stripe: bit i of `mask` stands for the i-th unit of the stripe that `first` is
    /// in. The planes sense together, once; then the units move over the channel. Gives the place of the first unit
    /// in the ticket's contents; the others follow in order.
    pub fn submit_read(&self, first: Ppa, mask: u64, priority: Priority, ticket: &Ticket) -> usize {
        let geometry = &self.0.geometry;
        let valid =
            u64::from(first.0) < geometry.total_units() && mask != 0 && mask & !geometry.full_mask() == 0;
        let block = geometry.block_of(first);
        let stripe = geometry.stripe_of(first);
        self.submit(valid, Verb::Read(mask), block, stripe, priority, ticket)
    }

    /// Submits a program of a stripe. A batch shorter than the stripe is padded. Take it from
    /// [`take_batch`](Flash::take_batch); it goes back there.
    pub fn submit_program(
        &self,
        block: BlockId,
        stripe: u32,
        batch: Batch,
        priority: Priority,
        ticket: &Ticket,
    ) {
        let valid = block.0 < self.0.geometry.total_blocks();
        self.submit(valid, Verb::Program(batch), block, stripe, priority, ticket);
    }

    /// Submits an erase of a superblock, with the collector's priority. What it holds is gone when the erase begins.
    pub fn submit_erase(&self, block: BlockId, ticket: &Ticket) {
        let valid = block.0 < self.0.geometry.total_blocks();
        self.submit(valid, Verb::Erase, block, 0, Priority::Collector, ticket);
    }

    fn submit(
        &self,
        valid: bool,
        verb: Verb,
        block: BlockId,
        stripe: u32,
        priority: Priority,
        ticket: &Ticket,
    ) -> usize {
        debug_assert!(
            Rc::ptr_eq(&self.0, &ticket.flash().0),
            "a ticket is of the array that it is used with"
        );
        let inner = &*self.0;
        let mut array = inner.array.borrow_mut();
        let units = match &verb {
            Verb::Read(mask) => mask.count_ones() as usize,
            _ => 0,
        };
        let at = array.tickets.add(ticket.index, units);
        let submitted = inner.clock.now();
        let ios = inner.clock.hold_ios();
        let operation =
            Operation { verb, block, stripe, ticket: ticket.index, at: at as u32, priority, submitted, ios };
        if !valid {
            array.fail(inner, operation);
            return at;
        }
        array.store.warm(block);
        let index = inner.geometry.die_of_block(block);
        let die = &mut array.dies[index as usize];
        die.queue.push(priority as usize, operation);
        if die.phase == Phase::Idle {
            array.advance(inner, index);
        }
        at
    }

    /// An empty batch, with the memory of an earlier one.
    pub fn take_batch(&self) -> Batch {
        let batch = self.0.array.borrow_mut().batches.pop();
        batch.unwrap_or_else(|| Vec::with_capacity(self.0.geometry.units_per_stripe() as usize))
    }

    /// Reads units and waits for them; what they hold is added to `out`, in the order of `ppas`. Units of one stripe
    /// that follow each other in rising order are read at once.
    pub async fn read(&self, ppas: &[Ppa], priority: Priority, out: &mut Vec<Content>) -> Outcome {
        let ticket = self.ticket();
        let geometry = &self.0.geometry;
        let mut ppas = ppas.iter().copied().peekable();
        while let Some(first) = ppas.next() {
            let start = geometry.stripe_start(first);
            let mut mask = 1u64 << geometry.unit_of_stripe(first);
            while let Some(next) = ppas.next_if(|next| {
                geometry.stripe_start(*next) == start && mask >> geometry.unit_of_stripe(*next) == 0
            }) {
                mask |= 1 << geometry.unit_of_stripe(next);
            }
            self.submit_read(first, mask, priority, &ticket);
        }
        let outcome = ticket.wait().await;
        ticket.take_contents(out);
        outcome
    }

    /// Programs a stripe and waits.
    pub async fn program(&self, block: BlockId, stripe: u32, batch: Batch, priority: Priority) -> Outcome {
        let ticket = self.ticket();
        self.submit_program(block, stripe, batch, priority, &ticket);
        ticket.wait().await
    }

    /// Erases a superblock and waits.
    pub async fn erase(&self, block: BlockId) -> Outcome {
        let ticket = self.ticket();
        self.submit_erase(block, &ticket);
        ticket.wait().await
    }

    /// What a unit holds at this instant, at no cost: for recovery's models and for tests. What a read gives is in its
    /// ticket. A unit that isn't programmed is zero, as is an address beyond the array.
    pub fn content(&self, ppa: Ppa) -> Content {
        if u64::from(ppa.0) >= self.0.geometry.total_units() {
            return Content::Zero;
        }
        self.0.array.borrow().store.content(ppa)
    }

    /// The logical unit that a unit was programmed for, from its spare area, at this instant and at no cost. None if
    /// it is padding, isn't programmed, or lies beyond the array.
    pub fn oob(&self, ppa: Ppa) -> Option<u32> {
        if u64::from(ppa.0) >= self.0.geometry.total_units() {
            return None;
        }
        self.0.array.borrow().store.lpa(ppa)
    }

    /// Stripes of a superblock that are programmed: the number of the one to be programmed next.
    pub fn programmed_stripes(&self, block: BlockId) -> u32 {
        self.0.array.borrow().store.programmed(block)
    }

    /// How often a superblock was erased in this run.
    pub fn erases(&self, block: BlockId) -> u32 {
        self.0.array.borrow().store.erases(block)
    }

    /// Hands `take` how often each superblock was erased in this run, in the order of their numbers.
    pub fn each_erases(&self, take: impl FnMut(u32)) {
        self.0.array.borrow().store.each_erases().for_each(take);
    }

    /// What it has done.
    pub fn counters(&self) -> Counters {
        self.0.array.borrow().counters
    }

    /// How long a die was held by operations so far. Against an earlier value and the time between, it gives the use.
    pub fn die_busy(&self, die: u32) -> Delay {
        self.0.array.borrow().dies[die as usize].busy(self.0.clock.now())
    }

    /// How long a channel was in use so far.
    pub fn channel_busy(&self, channel: u32) -> Delay {
        self.0.array.borrow().channels[channel as usize].busy(self.0.clock.now())
    }

    /// Operations that wait for a die or are at work there.
    pub fn pending(&self, die: u32) -> usize {
        let die = &self.0.array.borrow().dies[die as usize];
        die.queue.len() + usize::from(die.current.is_some())
    }

    /// Shows a trace the operations that are at work, up to now: for its end. Those that end are shown by themselves.
    pub fn trace_under_way(&self) {
        let inner = &*self.0;
        let array = inner.array.borrow();
        if inner.clock.is_traced() {
            let now = inner.clock.now();
            (0..).zip(&array.dies).for_each(|(index, die)| inner.trace_operation(index, die, now));
        }
    }

    /// Tickets that are held, or whose operations are not done.
    pub fn tickets_in_use(&self) -> usize {
        self.0.array.borrow().tickets.in_use()
    }

    /// Units held in memory, because the run programmed them.
    pub fn live_units(&self) -> u64 {
        self.0.array.borrow().store.live_units()
    }

    pub(crate) fn tickets<R>(&self, look: impl FnOnce(&mut Tickets) -> R) -> R {
        look(&mut self.0.array.borrow_mut().tickets)
    }
}

impl fmt::Debug for Flash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Flash({:?})", self.0.geometry)
    }
}

impl Array {
    /// Moves a die as far as it goes at this instant. A call too many does nothing.
    fn advance(&mut self, inner: &Inner, index: u32) {
        let now = inner.clock.now();
        loop {
            let die = &self.dies[index as usize];
            match die.phase {
                Phase::Idle => {
                    if !self.begin(inner, index) {
                        return;
                    }
                }
                Phase::AwaitsStart | Phase::AwaitsOut => {
                    let before = die.phase;
                    self.dispatch(inner, inner.geometry.channel_of_die(index));
                    if self.dies[index as usize].phase == before {
                        return;
                    }
                }
                Phase::Works if now >= die.until => {
                    match die.current.as_ref().map(|operation| &operation.verb) {
                        Some(Verb::Read(mask)) => {
                            let bytes = u64::from(mask.count_ones()) * UNIT_BYTES as u64;
                            let duration = inner.modelled(inner.timing.channel.time_for(bytes));
                            self.request(inner, Request { die: index, usage: Use::DataOut, duration });
                        }
                        _ => self.finish(inner, index),
                    }
                }
                Phase::MovesOut if now >= die.until => {
                    self.finish(inner, index);
                    let begun = self.begin(inner, index);
                    // After `begin`, so that the next command goes before the data of others: it is short, and
                    // the cells then work meanwhile.
                    self.dispatch(inner, inner.geometry.channel_of_die(index));
                    if !begun {
                        return;
                    }
                }
                Phase::Works | Phase::MovesOut => return,
            }
        }
    }

    /// Takes up the next operation; false if there is none. Those that can't be done fail at once.
    fn begin(&mut self, inner: &Inner, index: u32) -> bool {
        let (geometry, timing) = (&inner.geometry, &inner.timing);
        loop {
            let die = &mut self.dies[index as usize];
            let Some(operation) = die.next() else { return false };
            let mut usage = Use::Command;
            let mut passage = timing.command;
            let cell = match &operation.verb {
                Verb::Read(mask) => {
                    timing.read_time(operation.stripe, is_partial(*mask, geometry.units_per_page()))
                }
                Verb::Program(batch) => {
                    if self.store.begin_program(operation.block, operation.stripe, batch.len()).is_err() {
                        self.fail(inner, operation);
                        continue;
                    }
                    usage = Use::DataIn;
                    let bytes = u64::from(geometry.units_per_stripe()) * UNIT_BYTES as u64;
                    passage += timing.channel.time_for(bytes);
                    timing.program_time(operation.stripe)
                }
                Verb::Erase => {
                    self.store.begin_erase(operation.block);
                    timing.erase
                }
            };
            die.begun = inner.clock.now();
            die.cell = inner.modelled(cell);
            die.channel = Delay::ZERO;
            die.current = Some(operation);
            die.phase = Phase::AwaitsStart;
            let duration = inner.modelled(passage);
            if duration == Delay::ZERO {
                die.start(inner, Delay::ZERO);
            } else {
                self.request(inner, Request { die: index, usage, duration });
            }
            return true;
        }
    }

    /// Asks for the channel: served at once if it is idle, else in line.
    fn request(&mut self, inner: &Inner, request: Request) {
        let now = inner.clock.now();
        let number = inner.geometry.channel_of_die(request.die);
        let channel = &mut self.channels[number as usize];
        let die = &mut self.dies[request.die as usize];
        if channel.is_idle(now) {
            channel.serve(now, request.usage, request.duration);
            if inner.clock.is_traced() {
                inner.trace_passage(number, request.usage, request.duration, request.die, die);
            }
            return die.start_passage(inner, request.usage, request.duration);
        }
        if request.usage == Use::DataOut {
            die.phase = Phase::AwaitsOut;
        }
        channel.line.push(request.usage as usize, request);
        self.dispatch(inner, number);
    }

    /// Lets the next die have the channel, if it is free, and sees to it that one looks again while others wait.
    fn dispatch(&mut self, inner: &Inner, number: u32) {
        let now = inner.clock.now();
        let channel = &mut self.channels[number as usize];
        while now >= channel.free_at {
            let Some(Request { die, usage, duration }) = channel.line.pop() else { return };
            channel.serve(now, usage, duration);
            let index = die;
            let die = &mut self.dies[die as usize];
            if inner.clock.is_traced() {
                inner.trace_passage(number, usage, duration, index, die);
            }
            die.start_passage(inner, usage, duration);
            if die.until <= now {
                inner.clock.wake(die.task());
            }
        }
        if channel.watched {
            return;
        }
        if let Some(first) = channel.line.first() {
            channel.watched = true;
            inner.clock.wake_at(channel.free_at, self.dies[first.die as usize].task());
        }
    }

    /// Ends a die's operation: the store changes, the ticket learns.
    fn finish(&mut self, inner: &Inner, index: u32) {
        let now = inner.clock.now();
        let die = &mut self.dies[index as usize];
        if inner.clock.is_traced() {
            inner.trace_operation(index, die, now);
        }
        let operation = die.end(now);
        inner.clock.release_ios(operation.ios);
        let (cell, channel) = (die.cell, die.channel);
        let queued = now.since(operation.submitted).saturating_sub(cell + channel);
        let mut outcome = Outcome { queued, cell, channel, failed: false };
        let class = operation.priority as usize;
        match operation.verb {
            Verb::Read(_) if self.store.is_torn(operation.block, operation.stripe) => {
                outcome.failed = true;
                self.counters.failed += 1;
            }
            Verb::Read(mask) => {
                self.counters.reads[class] += 1;
                self.counters.units_read[class] += u64::from(mask.count_ones());
                let mut places = self.tickets.contents_at(operation.ticket, operation.at as usize).iter_mut();
                if places.len() > 0 {
                    self.store.read(operation.block, operation.stripe, mask, |content| {
                        if let Some(place) = places.next() {
                            *place = content;
                        }
                    });
                }
            }
            Verb::Program(mut batch) => {
                self.counters.programs[class] += 1;
                self.counters.units_programmed[class] += u64::from(inner.geometry.units_per_stripe());
                self.store.end_program(operation.block, &mut batch);
                self.recycle(batch);
            }
            Verb::Erase => {
                self.counters.erases += 1;
                self.store.end_erase(operation.block);
            }
        }
        self.complete(inner, operation.ticket, outcome);
    }

    /// Ends an operation that can't be done, without its taking time.
    fn fail(&mut self, inner: &Inner, operation: Operation) {
        self.counters.failed += 1;
        inner.clock.release_ios(operation.ios);
        let queued = inner.clock.now().since(operation.submitted);
        if let Verb::Program(batch) = operation.verb {
            self.recycle(batch);
        }
        self.complete(inner, operation.ticket, Outcome { queued, failed: true, ..Outcome::default() });
    }

    fn complete(&mut self, inner: &Inner, ticket: u32, outcome: Outcome) {
        if let Some(task) = self.tickets.complete(ticket, outcome) {
            inner.clock.wake(task);
        }
    }

    fn recycle(&mut self, mut batch: Batch) {
        batch.clear();
        self.batches.push(batch);
    }
}

impl Die {
    /// The channel serves it from now on, for `duration`.
    fn start_passage(&mut self, inner: &Inner, usage: Use, duration: Delay) {
        match usage {
            Use::Command | Use::DataIn => self.start(inner, duration),
            Use::DataOut => {
                self.channel += duration;
                self.enter(inner, Phase::MovesOut, duration);
            }
        }
    }

    /// Command, and data if any, come in for `passage`; then the cells work. One timer for both.
    fn start(&mut self, inner: &Inner, passage: Delay) {
        self.channel = passage;
        self.enter(inner, Phase::Works, passage + self.cell);
    }

    fn enter(&mut self, inner: &Inner, phase: Phase, duration: Delay) {
        self.phase = phase;
        self.until = inner.clock.now() + duration;
        // A phase that takes no time is left by whoever moves the die now.
        if duration > Delay::ZERO {
            inner.clock.wake_at(self.until, self.task());
        }
    }
}

impl Inner {
    /// A modelled time, which takes none under `timing = "none"`.
    fn modelled(&self, delay: Delay) -> Delay {
        if self.clock.is_immediate() { Delay::ZERO } else { delay }
    }

    /// Shows what a channel does from now on.
    #[cold]
    fn trace_passage(&self, channel: u32, usage: Use, duration: Delay, index: u32, die: &Die) {
        let begin = self.clock.now();
        let what = match usage {
            Use::Command => "command",
            Use::DataOut => "data out",
            Use::DataIn => "command and data in",
        };
        let ios = die.current.as_ref().map_or(HeldIos::NONE, |operation| operation.ios);
        let details = [("die", Detail::Number(index.into()))];
        let track = Track::new(Resource::Channel, channel);
        self.clock.note_held(&Usage { track, what, begin, end: begin + duration, details: &details }, ios);
    }

    /// Shows what a die has done up to now.
    #[cold]
    fn trace_operation(&self, index: u32, die: &Die, now: Time) {
        let Some(operation) = &die.current else { return };
        let (what, units) = match &operation.verb {
            Verb::Read(mask) => ("read", mask.count_ones() as usize),
            Verb::Program(batch) => ("program", batch.len()),
            Verb::Erase => ("erase", 0),
        };
        let details = [
            ("for", Detail::Word(operation.priority.client())),
            ("superblock", Detail::Number(operation.block.0.into())),
            ("stripe", Detail::Number(operation.stripe.into())),
            ("units", Detail::Number(units as u64)),
            ("queued_ps", Detail::Number(die.begun.since(operation.submitted).0)),
            ("cells_ps", Detail::Number(die.cell.0)),
        ];
        // An erase is of the whole superblock.
        let details = if matches!(operation.verb, Verb::Erase) { &details[..2] } else { &details[..] };
        let track = Track::new(Resource::Die, index);
        self.clock.note_held(&Usage { track, what, begin: die.begun, end: now, details }, operation.ios);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.array.get_mut().dies.iter().filter_map(|die| die.task).for_each(|task| self.clock.kill(task));
    }
}

/// Whether no page has more than one unit in the mask; a page of a single unit is whole.
fn is_partial(mask: u64, units_per_page: u32) -> bool {
    if units_per_page == 1 {
        return false;
    }
    let page = u64::MAX >> (64 - units_per_page);
    let mut left = mask;
    while left != 0 {
        if (left & page).count_ones() > 1 {
            return false;
        }
        left = left.checked_shr(units_per_page).unwrap_or(0);
    }
    true
}

/// The task of a die. It ends with the array.
struct Sequencer {
    array: Weak<Inner>,
    die: u32,
}

impl Future for Sequencer {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let Some(inner) = self.array.upgrade() else { return Poll::Ready(()) };
        inner.array.borrow_mut().advance(&inner, self.die);
        Poll::Pending
    }
}
