//! What a clock knows of tracing.

use super::{HeldIos, State, Tracer, Usage};
use crate::executor::Clock;
use crate::span::SpanId;
use crate::time::Time;
use std::rc::Rc;

impl Clock {
    /// From now on tells `tracer` of every use of a resource, until the I/O with the number `ios_max` begins: from then
    /// on only of uses for those before it, and of nothing more when they have ended.
    pub fn trace(&self, tracer: Rc<dyn Tracer>, ios_max: u32) {
        let tracing = self.tracing();
        *tracing.state.borrow_mut() = State { tracer: Some(tracer), ios_max, ..State::default() };
        self.set_traced(true);
    }

    /// Ends tracing. Gives when it stopped to be complete, if it did: when the first I/O began that was not traced.
    pub fn end_trace(&self) -> Option<Time> {
        let tracing = self.tracing();
        self.set_traced(false);
        std::mem::take(&mut *tracing.state.borrow_mut()).cut
    }

    /// An I/O begins, for which the present task works from now on.
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
            Some(number) if number < state.ios_max && state.cut.is_none() => state.under_way += 1,
            Some(_) => {
                state.cut.get_or_insert(now);
                self.end_if_done(&state);
            }
            None => {}
        }
    }

    /// An I/O has ended.
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
            state.under_way = state.under_way.saturating_sub(1);
            self.end_if_done(&state);
        }
    }

    fn end_if_done(&self, state: &State) {
        if state.cut.is_some() && state.under_way == 0 {
            self.set_traced(false);
        }
    }

    /// The I/Os that the present task works for, from now on until it says otherwise.
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

    /// The first I/O that the present task works for.
    #[inline]
    pub fn io(&self) -> Option<u32> {
        if self.is_traced() { self.first_io() } else { None }
    }

    #[cold]
    fn first_io(&self) -> Option<u32> {
        self.tracing().state.borrow_mut().of(self.current())?.first().copied()
    }

    /// Exchanges the I/Os that the present task works for, for something that it does for others; exchange them again
    /// afterwards.
    #[cold]
    pub fn swap_ios(&self, ios: &mut Vec<u32>) {
        if let Some(list) = self.tracing().state.borrow_mut().of(self.current()) {
            std::mem::swap(list, ios);
        }
    }

    /// A resource is used by the present task, for its I/Os. To be called only if [`Clock::is_traced`].
    #[cold]
    pub fn note(&self, usage: &Usage<'_>) {
        let mut state = self.tracing().state.borrow_mut();
        let ios = state.of(self.current()).map(std::mem::take).unwrap_or_default();
        state.note(self.owner(), usage, &ios);
        if let Some(list) = state.of(self.current()) {
            *list = ios;
        }
    }

    /// The present task's I/Os, for what goes on without it. Release them with [`Clock::release_ios`].
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

    /// A resource is used for I/Os that were held. To be called only if [`Clock::is_traced`].
    #[cold]
    pub fn note_held(&self, usage: &Usage<'_>, ios: HeldIos) {
        let mut state = self.tracing().state.borrow_mut();
        let list = state.held.get_mut(ios.0 as usize).map(std::mem::take).unwrap_or_default();
        state.note(self.owner(), usage, &list);
        if let Some(place) = state.held.get_mut(ios.0 as usize) {
            *place = list;
        }
    }

    /// Nothing works for them any more.
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
