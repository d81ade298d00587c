//! Drives the dies from phase to phase, and hands out the channels.
//!
//! Each die has timers, which call [`Array::advance`]. An idle die starts within the submitting call, and a die that
//! waits for its channel is moved by the die that frees it, so an uncontended read costs two calls for the die
//! and one event of the reader.
//!
//! **Suspension.** A program or an erase yields to reads that a host waits for, including those that waited
//! before it. The program's data stay in the die's page register meanwhile; the reads have only the cache
//! register, so they go one after the other. A read of the wordline being programmed, or of the superblock
//! being erased, waits for the end, and so do the reads behind it in its priority. After eight reads the
//! operation resumes, if only for the latency of the next suspension.
//!
//! **Cache reads.** Sensed data move into the cache register as soon as that is free, and the next read may
//! sense. If one waits, its command goes before the data, unless the channel serves data first
//! ([`ChannelOrder`]): a command is short, and the cells work meanwhile. A read that must be retried keeps
//! the die to itself, since data sensed behind it would be lost.
//!
//! **Retries.** The controller finds a unit uncorrectable only once it has the data. A retry is therefore a
//! whole read of the failing units: command, sensing, data.

use crate::array::{Array, Counters, Inner};
use crate::channel::{Request, Use};
use crate::die::{ActiveOperation, Die, Occupancy, Operation, Phase, Verb, since};
use crate::failure::UNCORRECTABLE;
use crate::geometry::units_in;
use crate::priority::Priority;
use crate::store::Batch;
use crate::throttle::Throttle;
use crate::ticket::Outcome;
use crate::timing::{ChannelOrder, Mode, SuspendTiming};
use byteway_clock::{Delay, Time};
use byteway_content::UNIT_BYTES;
use std::future::Future;
use std::pin::Pin;
use std::rc::Weak;
use std::task::{Context, Poll};

impl Array {
    /// Moves a die as far as it can go now. Spurious calls have no effect.
    pub(crate) fn advance(&mut self, inner: &Inner, index: u32) {
        let mut number = self.dies[index as usize].front;
        loop {
            let moved = self.step(inner, index, number);
            let front = self.dies[index as usize].front;
            // After the operation in the cells, try the one whose data are moving out.
            number = match moved {
                true => front,
                false if inner.timing.cache_read && number == front => 1 - front,
                false => return,
            };
        }
    }

    /// Takes the next step of one of a die's two operations, if it is due. Returns whether it did.
    fn step(&mut self, inner: &Inner, index: u32, number: u8) -> bool {
        let now = inner.clock.now();
        let die = &mut self.dies[index as usize];
        let is_front = die.front == number;
        let work = &die.active[number as usize];
        match work.phase {
            Phase::Idle => is_front && self.begin(inner, index),
            Phase::AwaitsStart | Phase::AwaitsOut => {
                let before = work.phase;
                // The channel's queue decides: the die that gets the channel may be another one.
                self.dispatch(inner, inner.geometry.channel_of_die(index));
                self.dies[index as usize].active[number as usize].phase != before
            }
            Phase::Works if now >= work.until => {
                match &work.operation {
                    Some(Operation { verb: Verb::Read { .. }, .. }) => self.sensed(inner, index, number),
                    // Its time is over, but its end must wait for a file job; [`Reporter`] advances the die
                    // then.
                    Some(operation) if self.store.delays_end(operation.block) => return false,
                    _ => self.finish(inner, index, number),
                }
                true
            }
            Phase::Suspends if now >= work.until => {
                self.suspend(inner, index);
                true
            }
            Phase::AwaitsRegister if !die.is_moving_out() => {
                self.pass_on(inner, index, number);
                true
            }
            Phase::MovesOut if now >= work.until => {
                let begun = if self.must_retry(index, number) {
                    self.retry(inner, index, number);
                    true
                } else {
                    self.finish(inner, index, number);
                    self.begin_behind(inner, index)
                };
                // Only now, so that the next command goes before the data of other dies: it is short, and the
                // cells then work meanwhile.
                self.dispatch(inner, inner.geometry.channel_of_die(index));
                begun
            }
            Phase::Works | Phase::Suspends | Phase::AwaitsRegister | Phase::MovesOut => false,
        }
    }

    /// Starts the cells' next work once the data of a read have left.
    fn begin_behind(&mut self, inner: &Inner, index: u32) -> bool {
        let die = &mut self.dies[index as usize];
        match die.front().phase {
            Phase::Idle => self.begin(inner, index),
            Phase::AwaitsRegister => {
                let front = die.front;
                self.pass_on(inner, index, front);
                true
            }
            _ => false,
        }
    }

    /// Starts the next operation; false if none can start. Operations that are impossible fail at once.
    fn begin(&mut self, inner: &Inner, index: u32) -> bool {
        let (geometry, timing) = (&inner.geometry, &inner.timing);
        let now = inner.clock.now();
        if self.rests(inner, index) {
            return false;
        }
        loop {
            // During a suspension only reads may start, and only as long as the suspended operation's turn
            // has not come.
            let die = &mut self.dies[index as usize];
            let next = match (&die.suspended, &mut self.schedule) {
                (None, None) => die.next(),
                (None, Some(schedule)) => die.next_by(schedule, now, index),
                (Some(_), _) => die.next_in_suspension(&self.store),
            };
            let Some(operation) = next else {
                return self.dies[index as usize].suspended.is_some() && self.resume(inner, index);
            };
            let mode = self.store.mode(operation.block);
            let mut usage = Use::Command;
            let mut passage = timing.command;
            let mut fails = false;
            let mut units = 0;
            let cell = match &operation.verb {
                Verb::Read { mask, .. } => {
                    if let Some(failures) = &mut self.failures {
                        fails = failures.begin_read(index);
                    }
                    units = *mask;
                    let partial = is_partial(*mask, geometry.units_per_page());
                    let (block, stripe) = (operation.block, operation.stripe);
                    let time = timing.read_time_for(operation.priority, stripe, partial, mode);
                    timing.sensed_in(time, || self.store.sensing(inner.sense_seed, block, stripe, 0))
                }
                Verb::Program(batch) => {
                    let block = operation.block;
                    // From here on the stripe counts as torn, so a power cut during the program finds it so.
                    if self.store.begin_program(block, operation.stripe, batch.units.len()).is_err() {
                        self.fail(inner, operation);
                        continue;
                    }
                    if let Some(failures) = &mut self.failures {
                        fails = failures.begin_program(index, self.store.cells(block, inner.calendar_ns()));
                    }
                    usage = Use::DataIn;
                    let bytes = u64::from(geometry.units_per_stripe()) * UNIT_BYTES as u64;
                    passage += timing.channel.time_for(bytes);
                    timing.program_time(block, operation.stripe, mode)
                }
                Verb::Erase => {
                    let block = operation.block;
                    if let Some(failures) = &mut self.failures {
                        fails = failures.begin_erase(index, self.store.cells(block, inner.calendar_ns()));
                    }
                    // The contents are gone from the start: an interrupted erase leaves nothing readable.
                    self.store.begin_erase(block);
                    timing.erase_time(mode)
                }
            };
            let cell = inner.modelled(cell);
            let die = &mut self.dies[index as usize];
            let waited = now.since(operation.submitted);
            let waits = match waited {
                Delay::ZERO => Occupancy::default(),
                _ => since(die.occupancy(now), operation.before),
            };
            die.hold(now, operation.occupant(), &mut self.all_dies);
            let front = die.front;
            let [first, second] = &mut die.active;
            let (work, other) = if front == 0 { (first, second) } else { (second, first) };
            if timing.cache_read && other.operation.is_some() {
                other.overtaken = Some(now);
            }
            work.begun = now;
            work.overtaken = None;
            (work.waited, work.waits) = (waited, waits);
            (work.cell, work.cells, work.channel) = (cell, cell, Delay::ZERO);
            work.suspends = 0;
            work.fails = fails;
            (work.mask, work.retries) = (units, 0);
            work.operation = Some(operation);
            self.start(inner, index, front, usage, passage);
            return true;
        }
    }

    /// Whether nothing may begin because the drive is hot. The die goes on after the rest if anything waits for it.
    #[inline]
    fn rests(&mut self, inner: &Inner, index: u32) -> bool {
        match &inner.timing.throttle {
            Some(throttle) => self.rests_by(inner, index, throttle),
            None => false,
        }
    }

    #[cold]
    fn rests_by(&mut self, inner: &Inner, index: u32, throttle: &Throttle) -> bool {
        let until = match inner.clock.is_immediate() {
            true => None,
            false => throttle.rests_until(inner.clock.now()),
        };
        let Some(until) = until else { return false };
        let die = &mut self.dies[index as usize];
        let has_work = die.suspended.is_some() || !die.queue.is_empty();
        if has_work && die.rests_until != until {
            die.rests_until = until;
            inner.clock.wake_at(until, inner.dies.with(index));
        }
        true
    }

    /// Sends the command, and the data of a program, as soon as the channel is free.
    fn start(&mut self, inner: &Inner, index: u32, number: u8, usage: Use, passage: Delay) {
        let die = &mut self.dies[index as usize];
        die.active[number as usize].phase = Phase::AwaitsStart;
        let duration = inner.modelled(passage);
        if duration == Delay::ZERO {
            self.start_passage(inner, Request { die: index, work: number, usage, duration });
        } else {
            self.request(inner, Request { die: index, work: number, usage, duration });
        }
    }

    /// Requests the channel: served at once if it is idle, otherwise queued.
    fn request(&mut self, inner: &Inner, request: Request) {
        let now = inner.clock.now();
        let number = inner.geometry.channel_of_die(request.die);
        let channel = &mut self.channels[number as usize];
        let work = &mut self.dies[request.die as usize].active[request.work as usize];
        if channel.is_idle(now) {
            channel.serve(now, request.usage, request.duration);
            if inner.clock.is_traced() {
                inner.trace_passage(number, &request, work);
            }
            return self.start_passage(inner, request);
        }
        if request.usage == Use::DataOut {
            work.phase = Phase::AwaitsOut;
        }
        self.dies[request.die as usize].await_channel(now, request.work, true, &mut self.all_dies);
        channel.line.push(request.usage.class(inner.timing.channel_order), request);
        self.dispatch(inner, number);
    }

    /// Serves the channel's queue, if the channel is free, and ensures a later check while dies wait.
    #[inline]
    fn dispatch(&mut self, inner: &Inner, number: u32) {
        if !self.channels[number as usize].line.is_empty() {
            self.serve_line(inner, number);
        }
    }

    fn serve_line(&mut self, inner: &Inner, number: u32) {
        let now = inner.clock.now();
        while now >= self.channels[number as usize].free_at {
            let channel = &mut self.channels[number as usize];
            let Some(request) = channel.line.pop() else { return };
            channel.serve(now, request.usage, request.duration);
            let (die, work) = (request.die as usize, request.work as usize);
            if inner.clock.is_traced() {
                inner.trace_passage(number, &request, &self.dies[die].active[work]);
            }
            self.dies[die].await_channel(now, request.work, false, &mut self.all_dies);
            let index = request.die;
            self.start_passage(inner, request);
            if self.dies[die].active[work].until <= now {
                inner.clock.wake(inner.dies.with(index));
            }
        }
        let channel = &mut self.channels[number as usize];
        if channel.watched {
            return;
        }
        if let Some(first) = channel.line.first() {
            channel.watched = true;
            inner.clock.wake_at(channel.free_at, inner.dies.with(first.die));
        }
    }

    /// An operation starts its transfer on the channel.
    fn start_passage(&mut self, inner: &Inner, request: Request) {
        let Request { die: index, work: number, usage, duration } = request;
        let now = inner.clock.now();
        let die = &mut self.dies[index as usize];
        let work = &mut die.active[number as usize];
        work.channel += duration;
        match usage {
            // Command and data go in, then the cells work: one timer covers both.
            Use::Command | Use::DataIn => work.enter_cells(now + duration),
            Use::DataOut => {
                work.phase = Phase::MovesOut;
                work.until = now + duration;
            }
        }
        // A phase that takes no time is advanced by the caller.
        let until = work.until;
        if !self.suspend_for_read(inner, index) && until > now {
            inner.clock.wake_at(until, inner.dies.with(index));
        }
    }

    /// Suspends a program or an erase if a suitable read waits. Returns whether it will be suspended.
    #[inline]
    pub(crate) fn suspend_for_read(&mut self, inner: &Inner, index: u32) -> bool {
        match &inner.timing.suspend {
            Some(suspend) => self.suspend_for_read_by(inner, index, suspend),
            None => false,
        }
    }

    #[cold]
    fn suspend_for_read_by(&mut self, inner: &Inner, index: u32, suspend: &SuspendTiming) -> bool {
        let now = inner.clock.now();
        let die = &mut self.dies[index as usize];
        let work = &die.active[die.front as usize];
        let is_write = matches!(&work.operation, Some(operation) if !operation.is_read());
        if work.phase != Phase::Works || !is_write || work.suspends >= suspend.most {
            return false;
        }
        let at = suspend.next_end(work.cells_from, now) + suspend.latency;
        let read = if at >= work.until { None } else { die.awaited_read(work, &self.store) };
        let Some(class) = read else { return false };
        if let Some(policy) = &mut self.suspend
            && !die.suspends_by(policy, class, (now, at), suspend, index)
        {
            return false;
        }
        let work = die.front();
        work.cells = work.until.since(at);
        work.phase = Phase::Suspends;
        work.until = at;
        work.suspends += 1;
        inner.clock.wake_at(at, inner.dies.with(index));
        true
    }

    /// Sets aside the operation that the cells worked for.
    #[cold]
    fn suspend(&mut self, inner: &Inner, index: u32) {
        let now = inner.clock.now();
        let die = &mut self.dies[index as usize];
        self.counters.suspends += 1;
        if inner.clock.is_traced() {
            inner.trace_operation(index, die.front(), now);
        }
        die.suspend(now, &mut self.all_dies);
    }

    /// Resumes the suspended operation; false if there is none.
    #[cold]
    fn resume(&mut self, inner: &Inner, index: u32) -> bool {
        let Some(suspend) = inner.timing.suspend else { return false };
        let now = inner.clock.now();
        let Some(work) = self.dies[index as usize].resume(now, &mut self.all_dies) else { return false };
        work.begun = now;
        work.cell += suspend.resume;
        work.enter_cells(now + suspend.resume);
        let until = work.until;
        if !self.suspend_for_read(inner, index) {
            inner.clock.wake_at(until, inner.dies.with(index));
        }
        true
    }

    /// A read has its data in the page register.
    fn sensed(&mut self, inner: &Inner, index: u32, number: u8) {
        if self.failures.is_some() {
            self.draw_errors(inner, index, number);
        }
        if !inner.timing.cache_read {
            return self.send_out(inner, index, number);
        }
        let die = &mut self.dies[index as usize];
        die.active[number as usize].phase = Phase::AwaitsRegister;
        if die.active[1 - number as usize].phase == Phase::AwaitsOut {
            die.await_channel(inner.clock.now(), 1 - number, true, &mut self.all_dies);
        }
        // Otherwise `step` continues once the register is free.
        if !die.is_moving_out() {
            self.pass_on(inner, index, number);
        }
    }

    /// Moves the data of a read into the free cache register and from there out. The cells may start the next
    /// read.
    #[cold]
    fn pass_on(&mut self, inner: &Inner, index: u32, number: u8) {
        let keeps_die = self.must_retry(index, number);
        let sends_first = inner.timing.channel_order == ChannelOrder::DataOutFirst;
        if sends_first {
            self.send_out(inner, index, number);
        }
        let die = &mut self.dies[index as usize];
        if die.suspended.is_none() && !keeps_die {
            if !sends_first {
                // While this phase is not idle, `begin` starts nothing but a read.
                die.active[number as usize].phase = Phase::AwaitsOut;
            }
            die.front = 1 - number;
            self.begin(inner, index);
        }
        if !sends_first {
            self.send_out(inner, index, number);
        }
    }

    /// Requests the channel for the data of a read.
    fn send_out(&mut self, inner: &Inner, index: u32, number: u8) {
        let mask = self.dies[index as usize].active[number as usize].mask;
        let bytes = u64::from(units_in(mask)) * UNIT_BYTES as u64;
        let duration = inner.modelled(inner.timing.channel.time_for(bytes));
        self.request(inner, Request { die: index, work: number, usage: Use::DataOut, duration });
    }

    /// Whether some units of a sensing are uncorrected and retries are left.
    #[inline]
    fn must_retry(&self, index: u32, number: u8) -> bool {
        let Some(failures) = &self.failures else { return false };
        let work = &self.dies[index as usize].active[number as usize];
        work.retries < failures.retries() && work.uncorrected() != 0
    }

    /// Reads the uncorrected units again.
    #[cold]
    fn retry(&mut self, inner: &Inner, index: u32, number: u8) {
        let work = &mut self.dies[index as usize].active[number as usize];
        let Some(operation) = &work.operation else { return };
        work.mask = work.uncorrected();
        work.retries += 1;
        let partial = is_partial(work.mask, inner.geometry.units_per_page());
        let mode = self.store.mode(operation.block);
        let (block, stripe, retries) = (operation.block, operation.stripe, work.retries);
        let time = inner.timing.read_time_for(operation.priority, stripe, partial, mode);
        let sensing = || self.store.sensing(inner.sense_seed, block, stripe, retries);
        work.cells = inner.modelled(inner.timing.sensed_in(time, sensing));
        work.cell += work.cells;
        self.counters.retries += 1;
        self.start(inner, index, number, Use::Command, inner.timing.command);
    }

    /// Draws, after the first sensing of a read, how many retries each unit needs.
    #[cold]
    fn draw_errors(&mut self, inner: &Inner, index: u32, number: u8) {
        let Some(failures) = &mut self.failures else { return };
        let work = &mut self.dies[index as usize].active[number as usize];
        let Some(operation) = &work.operation else { return };
        if work.retries > 0 {
            return;
        }
        let (block, stripe) = (operation.block, operation.stripe);
        if work.fails || self.store.is_torn(block, stripe) {
            work.steps.fill(UNCORRECTABLE);
        } else if stripe < self.store.programmed(block) {
            let cells = self.store.cells(block, inner.calendar_ns());
            failures.draw(index, stripe, work.mask, cells, &mut work.steps);
        } else {
            work.steps.fill(0);
        }
    }

    /// Ends a die's operation: updates the store and completes the ticket.
    fn finish(&mut self, inner: &Inner, index: u32, number: u8) {
        let now = inner.clock.now();
        let die = &mut self.dies[index as usize];
        let work = &mut die.active[number as usize];
        if inner.clock.is_traced() {
            inner.trace_operation(index, work, now);
        }
        let operation = work.operation.take().expect("a die that ends an operation has one");
        work.phase = Phase::Idle;
        let (cell, channel, fails, waits) = (work.cell, work.channel, work.fails, work.waits);
        let uncorrected = if self.failures.is_some() { work.uncorrected() } else { 0 };
        let sensings = 1 + u32::from(work.retries);
        die.release(now, &mut self.all_dies);
        die.array += cell;
        inner.clock.release_ios(operation.ios);
        let queued = now.since(operation.submitted).saturating_sub(cell + channel);
        let [reads, programs, erases, collection, _] = waits;
        let die = [reads, programs, erases, collection];
        // Of what ended meanwhile the die's time counts first, and of a suspended operation all rests up to its end.
        let rest = inner.timing.throttle.as_ref().map_or(Delay::ZERO, |throttle| {
            throttle.rested(operation.submitted, now).min(queued.saturating_sub(die.into_iter().sum()))
        });
        let mut outcome = Outcome { queued, die, rest, cell, channel, failed: false, unreadable: 0 };
        let class = operation.priority as usize;
        let (block, stripe) = (operation.block, operation.stripe);
        match operation.verb {
            Verb::Read { mask, is_known } => {
                self.store.sensed(block, sensings);
                if sensings > 1 {
                    let retries = (sensings as usize - 1).min(Counters::RETRY_BUCKETS);
                    self.counters.reads_retried[retries - 1] += 1;
                }
                let bad = if self.store.is_torn(block, stripe) { mask } else { uncorrected };
                let bad = self.deliver(inner, &operation, mask, bad, is_known);
                outcome.unreadable = units_in(bad);
                self.counters.units_uncorrectable += u64::from(outcome.unreadable);
                if bad == 0 {
                    self.counters.reads[class] += 1;
                }
                let units = u64::from(units_in(mask & !bad));
                self.counters.units_read[class] += units;
                if operation.priority == Priority::HostRead && self.store.mode(block) == Mode::OneBit {
                    self.counters.units_read_one_bit += units;
                }
                outcome.failed = bad != 0;
            }
            Verb::Program(batch) if fails => {
                self.store.fail_program(block, inner.calendar_ns());
                self.counters.failed_programs += 1;
                outcome.failed = true;
                self.recycle(batch);
            }
            Verb::Program(mut batch) => {
                self.counters.programs[class] += 1;
                self.counters.units_programmed[class] += u64::from(inner.geometry.units_per_stripe());
                self.store.end_program(block, &mut batch, inner.calendar_ns());
                self.recycle(batch);
            }
            Verb::Erase if fails => {
                self.store.fail_erase(block);
                self.counters.failed_erases += 1;
                outcome.failed = true;
            }
            Verb::Erase => {
                self.counters.erases += 1;
                self.store.end_erase(block);
            }
        }
        self.counters.failed += u64::from(outcome.failed);
        if self.store.has_failed() {
            // The operation may be missing in the files, so no caller may rely on it. See
            // [`Flash::failed`](crate::Flash::failed).
            inner.synced.notify_all();
            return;
        }
        inner.desk.complete(operation.ticket, outcome);
    }

    /// Hands the contents of a read to the ticket, unless they are known, and marks unreadable units: those
    /// of `bad`, and those that the store cannot give. Returns all of these.
    fn deliver(
        &mut self,
        inner: &Inner,
        operation: &Operation,
        mask: u64,
        mut bad: u64,
        is_known: bool,
    ) -> u64 {
        if is_known && bad == 0 {
            // A garbage collector that relies on known contents must not copy units that were erased.
            assert!(
                self.store.is_programmed(operation.block, operation.stripe),
                "stripe {} of superblock {} is known, and was erased",
                operation.stripe,
                operation.block.0
            );
            return 0;
        }
        let at = operation.at as usize;
        inner.desk.tickets(|tickets| {
            let mut places = tickets.contents_at(operation.ticket, at).iter_mut();
            if !is_known && places.len() > 0 && bad != mask {
                bad |= self.store.read(operation.block, operation.stripe, mask, |content| {
                    if let Some(place) = places.next() {
                        *place = content;
                    }
                });
            }
            if bad != 0 {
                tickets.mark_unreadable(operation.ticket, at, mask, bad);
            }
            bad
        })
    }

    /// Fails an impossible operation at once.
    pub(crate) fn fail(&mut self, inner: &Inner, operation: Operation) {
        self.counters.failed += 1;
        inner.clock.release_ios(operation.ios);
        let now = inner.clock.now();
        let queued = now.since(operation.submitted);
        // It may name a superblock beyond the array.
        let die = self.dies.get(inner.geometry.die_of_block(operation.block) as usize);
        let waits = die.map_or_else(Occupancy::default, |die| since(die.occupancy(now), operation.before));
        let [reads, programs, erases, collection, _] = waits;
        let die = [reads, programs, erases, collection];
        let mut outcome = Outcome { queued, die, failed: true, ..Outcome::default() };
        match operation.verb {
            Verb::Read { mask, .. } => {
                outcome.unreadable = mask.count_ones();
                let at = operation.at as usize;
                inner.desk.tickets(|tickets| tickets.mark_unreadable(operation.ticket, at, mask, mask));
            }
            Verb::Program(batch) => self.recycle(batch),
            Verb::Erase => {}
        }
        inner.desk.complete(operation.ticket, outcome);
    }

    fn recycle(&mut self, mut batch: Batch) {
        batch.units.clear();
        self.batches.push(batch);
    }
}

impl ActiveOperation {
    /// The cells work from `begin` on.
    fn enter_cells(&mut self, begin: Time) {
        self.phase = Phase::Works;
        self.cells_from = begin;
        self.until = begin + self.cells;
    }
}

/// Whether no page has more than one unit in the mask and pages hold several units.
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

/// The task that handles completed file jobs. It ends with the array.
pub(crate) struct Reporter(pub(crate) Weak<Inner>);

impl Future for Reporter {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let Some(inner) = self.0.upgrade() else { return Poll::Ready(()) };
        let mut array = inner.array.borrow_mut();
        array.store.collect_jobs();
        array.store.mark_reported();
        let works = |die: &Die| die.active.iter().any(|work| work.phase == Phase::Works);
        let at_work = (0..).zip(&array.dies).filter(|(_, die)| works(die));
        at_work.for_each(|(index, _)| inner.clock.wake(inner.dies.with(index)));
        drop(array);
        inner.synced.notify_all();
        Poll::Pending
    }
}
