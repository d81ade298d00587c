//! Tracing methods of the clock.

use super::{HeldIos, State, Tracer, Usage};
use crate::executor::Clock;
use crate::span::SpanId;
use crate::time::Time;
use std::rc::Rc;

impl Clock {
    /// Starts tracing: from now on `tracer` is told of every use of a resource. Once I/O number `ios_max`
    /// begins, it is told only of uses for earlier I/Os, and of none after they have ended.
    pub fn trace(&self, tracer: Rc<dyn Tracer>, ios_max: u32) {
        let tracing = self.tracing();
        *tracing.state.borrow_mut() = State { tracer: Some(tracer), ios_max, ..State::default() };
        self.set_traced(true);
    }

    /// Ends tracing. If the trace became incomplete, returns when: at the start of the first I/O that was not
    /// traced.
    pub fn end_trace(&self) -> Option<Time> {
        let tracing = self.tracing();
        self.set_traced(false);
        std::mem::take(&mut *tracing.state.borrow_mut()).cut
    }

    /// Begins an I/O. The current task works for it from now on.
    #[inline]
    pub fn io_begins(&self, io: SpanId) {
        if self.is_traced() {
            self.note_begin(io);
        }
    }

    #[cold]
    fn note_begin(&self, io: SpanId) {
        self.works_for([io]);
        let (now, mut state) = (self.now(), self.tracing().state.borrow_mut());
        match io.number() {
            Some(number) if number < state.ios_max && state.cut.is_none() => state.in_flight += 1,
            Some(_) => {
                state.cut.get_or_insert(now);
                self.end_if_done(&state);
            }
            None => {}
        }
    }

    /// Ends an I/O.
    #[inline]
    pub fn io_ends(&self, io: SpanId) {
        if self.is_traced() {
            self.note_end(io);
        }
    }

    #[cold]
    fn note_end(&self, io: SpanId) {
        let mut state = self.tracing().state.borrow_mut();
        if io.number().is_some_and(|number| number < state.ios_max) {
            state.in_flight = state.in_flight.saturating_sub(1);
            self.end_if_done(&state);
        }
    }

    fn end_if_done(&self, state: &State) {
        if state.cut.is_some() && state.in_flight == 0 {
            self.set_traced(false);
        }
    }

    /// Sets the I/Os that the current task works for, until the next call.
    #[inline]
    pub fn works_for(&self, ios: impl IntoIterator<Item = SpanId>) {
        if self.is_traced() {
            self.note_ios(ios);
        }
    }

    #[cold]
    fn note_ios(&self, ios: impl IntoIterator<Item = SpanId>) {
        if let Some(list) = self.tracing().state.borrow_mut().of(self.current()) {
            list.clear();
            list.extend(ios.into_iter().filter_map(SpanId::number));
        }
    }

    /// Number of the first I/O that the current task works for.
    #[inline]
    pub fn io(&self) -> Option<u32> {
        if self.is_traced() { self.first_io() } else { None }
    }

    #[cold]
    fn first_io(&self) -> Option<u32> {
        self.tracing().state.borrow_mut().of(self.current())?.first().copied()
    }

    /// Swaps the set of I/Os that the current task works for. Swap again to restore it.
    #[cold]
    pub fn swap_ios(&self, ios: &mut Vec<u32>) {
        if let Some(list) = self.tracing().state.borrow_mut().of(self.current()) {
            std::mem::swap(list, ios);
        }
    }

    /// Reports that the current task uses a resource for its I/Os. Call only if [`Clock::is_traced`].
    #[cold]
    pub fn note(&self, usage: &Usage<'_>) {
        let mut state = self.tracing().state.borrow_mut();
        let ios = state.of(self.current()).map(std::mem::take).unwrap_or_default();
        state.note(self.owner(), usage, &ios);
        if let Some(list) = state.of(self.current()) {
            *list = ios;
        }
    }

    /// Keeps the current task's I/Os for work that continues without the task. Release them with
    /// [`Clock::release_ios`].
    #[inline]
    pub fn hold_ios(&self) -> HeldIos {
        if self.is_traced() { self.copy_ios() } else { HeldIos::NONE }
    }

    #[cold]
    fn copy_ios(&self) -> HeldIos {
        let mut state = self.tracing().state.borrow_mut();
        let place = state.free.pop().unwrap_or_else(|| {
            state.held.push(Vec::new());
            state.held.len() as u32 - 1
        });
        let mut list = std::mem::take(&mut state.held[place as usize]);
        list.clear();
        if let Some(ios) = state.of(self.current()) {
            list.extend_from_slice(ios);
        }
        state.held[place as usize] = list;
        HeldIos(place)
    }

    /// Reports a use of a resource for held I/Os. Call only if [`Clock::is_traced`].
    #[cold]
    pub fn note_held(&self, usage: &Usage<'_>, ios: HeldIos) {
        let mut state = self.tracing().state.borrow_mut();
        let list = state.held.get_mut(ios.0 as usize).map(std::mem::take).unwrap_or_default();
        state.note(self.owner(), usage, &list);
        if let Some(place) = state.held.get_mut(ios.0 as usize) {
            *place = list;
        }
    }

    /// Releases held I/Os.
    #[inline]
    pub fn release_ios(&self, ios: HeldIos) {
        if ios != HeldIos::NONE {
            self.free_ios(ios);
        }
    }

    #[cold]
    fn free_ios(&self, ios: HeldIos) {
        if self.is_traced() {
            self.tracing().state.borrow_mut().free.push(ios.0);
        }
    }
}
