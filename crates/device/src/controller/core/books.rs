//! What commands have moved, in the counters of the controller; and in the I/O ledger of a drive that is watched, by host
//! and namespace.
//!
//! The I/O of a host whose driver is not in this process has no span. If the drive is watched, the device opens one
//! when it takes the entry, which ends with the permit.

use crate::controller::core::Core;
use crate::controller::queue::ring::{Permit, SubmissionQueue};
use crate::controller::state::counters::add;
use byteway_clock::SpanId;
use byteway_link::{IoHost, IoLabel, Verb};
use byteway_wire::nvme::Sqe;

impl Core {
    /// Counts a Read or Compare that has moved `bytes`.
    #[inline]
    pub(crate) fn count_read(&self, span: SpanId, bytes: u64) {
        add(&self.counters.reads, 1);
        add(&self.counters.read_bytes, bytes);
        if let Some(book) = self.port.ios() {
            book.ledger.read(self.label_as(span, Verb::Read), bytes);
        }
    }

    /// Counts a Write that has moved `bytes`.
    #[inline]
    pub(crate) fn count_write(&self, span: SpanId, bytes: u64) {
        self.count_written(span, 1, bytes);
    }

    /// Counts `bytes` written, by this number of commands: 0 if the command ends later.
    #[inline]
    pub(crate) fn count_written(&self, span: SpanId, commands: u64, bytes: u64) {
        add(&self.counters.writes, commands);
        add(&self.counters.written_bytes, bytes);
        if let Some(book) = self.port.ios() {
            book.ledger.written(self.label_as(span, Verb::Write), commands, bytes);
        }
    }

    #[cold]
    fn label_of(&self, span: SpanId) -> IoLabel {
        IoLabel::from_bits(self.port.spans().label(span)).unwrap_or(IoLabel::unread(IoHost::OTHER))
    }

    /// Labels the span of a command with what it has turned out to do; whatever its opcode is in its command set.
    #[cold]
    fn label_as(&self, span: SpanId, verb: Verb) -> IoLabel {
        let label = IoLabel { verb: Some(verb), ..self.label_of(span) };
        self.port.spans().set_label(span, label.bits());
        label
    }

    /// Opens a span for an entry that was taken, of a host that opens none. Admin commands have none.
    #[cold]
    pub(crate) fn open_span(&self, queue: &SubmissionQueue, entry: u32, permit: &Permit) -> SpanId {
        let Some(book) = self.port.ios().filter(|_| queue.id > 0) else { return SpanId::NONE };
        let begin = queue.rung_at(entry).unwrap_or_else(|| self.clock.now());
        let span = self.port.spans().open_labelled(begin, IoLabel::unread(book.host).bits());
        permit.own_span(span);
        span
    }

    /// Labels the span that the device has opened for a command, if it has, with what the command says.
    #[inline]
    pub(crate) fn name_span(&self, permit: &Permit, sqe: &Sqe) {
        if permit.span() != SpanId::NONE {
            let verb = Some(Verb::of_opcode(sqe.opcode()));
            let nsid = self.inventory.active(sqe.nsid).map_or(0, |_| sqe.nsid);
            let label = IoLabel { nsid, verb, ..self.label_of(permit.span()) };
            self.port.spans().set_label(permit.span(), label.bits());
        }
    }

    /// Ends the span that the device has opened for a completed command.
    #[cold]
    pub(crate) fn book_latency(&self, own: SpanId) {
        match self.port.ios() {
            Some(book) => book.ledger.close(self.port.spans(), own),
            None => _ = self.port.spans().close(own),
        }
    }
}
