//! Dies and channels in a trace.

use crate::array::Inner;
use crate::channel::{Request, Use};
use crate::die::{ActiveOperation, Verb};
use byteway_clock::{Detail, HeldIos, Resource, Time, Track, Usage};

impl Inner {
    /// Traces a channel's transfer that starts now.
    #[cold]
    pub(crate) fn trace_passage(&self, channel: u32, request: &Request, work: &ActiveOperation) {
        let begin = self.clock.now();
        let what = match request.usage {
            Use::Command => "command",
            Use::DataOut => "data out",
            Use::DataIn => "command and data in",
        };
        let ios = work.operation.as_ref().map_or(HeldIos::NONE, |operation| operation.ios);
        let details = [("die", Detail::Number(request.die.into()))];
        let track = Track::new(Resource::Channel, channel);
        let end = begin + request.duration;
        self.clock.note_held(&Usage { track, what, begin, end, details: &details }, ios);
    }

    /// Traces a die's work on an operation since it last took the die, up to `now` or the start of the next
    /// operation.
    #[cold]
    pub(crate) fn trace_operation(&self, index: u32, work: &ActiveOperation, now: Time) {
        let Some(operation) = &work.operation else { return };
        let end = work.overtaken.unwrap_or(now);
        let (what, units) = match &operation.verb {
            Verb::Read { mask, .. } => ("read", mask.count_ones() as usize),
            Verb::Program(batch) => ("program", batch.units.len()),
            Verb::Erase => ("erase", 0),
        };
        let details = [
            ("for", Detail::Word(operation.priority.client())),
            ("superblock", Detail::Number(operation.block.0.into())),
            ("stripe", Detail::Number(operation.stripe.into())),
            ("units", Detail::Number(units as u64)),
            ("queued_ps", Detail::Number(work.waited.0)),
            ("cells_ps", Detail::Number(work.cell.0)),
        ];
        // An erase has no stripe: it covers the whole superblock.
        let details = if matches!(operation.verb, Verb::Erase) { &details[..2] } else { &details[..] };
        let track = Track::new(Resource::Die, index);
        self.clock.note_held(&Usage { track, what, begin: work.begun, end, details }, operation.ios);
    }
}
