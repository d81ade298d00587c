//! Streams: payloads in command fields, a head that begins the stream, and pieces. Serialized, one command after
//! another; or pipelined, with several commands in flight.

use crate::carrier::Carrier;
use crate::driver::buffer::Part;
use crate::driver::queue::{Pending, Request};
use crate::error::Lost;
use byteway_clock::{Delay, SpanId, Stage};
use byteway_transfer::piggyback::Pieces;
use byteway_wire::nvme::vendor::Methods;
use byteway_wire::nvme::{Cqe, Sqe, Status};

/// Commands of a stream in flight, in reused memory.
#[derive(Default)]
pub(crate) struct Stream {
    requests: Vec<Request<'static>>,
    pending: Vec<Pending>,
}

impl Carrier {
    /// Sends the commands one after another. Returns the last completion, or the first one that reports a failure.
    pub(crate) async fn send_serialized(
        &self,
        span: SpanId,
        payload: Part<'_>,
        head: Sqe,
    ) -> Result<Cqe, Lost> {
        let submission = &self.queue.submission;
        let _turn = submission.stream.acquire(1).await;
        self.waited(span);
        let cut = Pieces { bytes: payload.bytes, pipelined: false };
        let needs = Methods::new().with_piggyback(true);
        let epoch = Some(submission.epoch());
        let mut index = 0;
        loop {
            let sqe = self.command(cut, index, payload, head);
            let completed = self.queue.execute(Request { span, needs, epoch, ..sqe.into() }).await;
            let succeeded = matches!(&completed, Ok(cqe) if cqe.status().is_success());
            index += 1;
            if !succeeded || index == cut.count() {
                return completed;
            }
            let turnaround = submission.costs.turnaround;
            if turnaround > Delay::ZERO {
                let service = submission.cpu.reserve_for("turnaround", turnaround);
                self.queue.port().clock().sleep_until(service.end).await;
                self.charge(span, service.queued, Stage::Host);
            }
        }
    }

    /// Sends all commands at once, as far as the queue has free slots. Returns the completion with the reply
    /// in dword 0 (`expected`: a checksum, if the drive computes one; `None`: anything but 0), or one that
    /// reports a failure. The I/O's time is that of the last command, including the wait until all have
    /// completed.
    pub(crate) async fn send_pipelined(
        &self,
        span: SpanId,
        payload: Part<'_>,
        head: Sqe,
        expected: Option<u32>,
    ) -> Result<Cqe, Lost> {
        let submission = &self.queue.submission;
        let cut = Pieces { bytes: payload.bytes, pipelined: true };
        // The identifier of the first command names the stream, so it stays in use until the others have completed.
        let window = submission.commands_max().saturating_sub(1);
        let count = cut.count() as usize;
        if count > 1 && window == 0 {
            return Err(Lost::NotPlaced);
        }
        let credit = submission.extensions.partial().await;
        let _turn = match count > window {
            true if count > 1 => Some(submission.stream.acquire(1).await),
            _ => None,
        };
        self.waited(span);
        let mut stream = self.streams.borrow_mut().pop().unwrap_or_default();
        let sent = self.send_windows(&mut stream, span, (cut, window), payload, head, expected).await;
        stream.pending.clear();
        self.streams.borrow_mut().push(stream);
        credit.set_must_rest(!matches!(&sent, Ok(cqe) if cqe.status().is_success()) && count > 1);
        self.waited(span);
        sent
    }

    /// Sends the commands of a pipelined stream: all together if they fit in `window`, otherwise the first, and then
    /// windows of the others.
    async fn send_windows(
        &self,
        stream: &mut Stream,
        span: SpanId,
        (cut, window): (Pieces, usize),
        payload: Part<'_>,
        head: Sqe,
        expected: Option<u32>,
    ) -> Result<Cqe, Lost> {
        let queue = &self.queue;
        let Stream { requests, pending } = stream;
        let needs = Methods::new().with_piggyback_pipelined(true);
        let epoch = Some(queue.submission.epoch());
        let count = cut.count();
        let mut answer = Cqe::new(0, Status::SUCCESS, 0, 0);
        let mut first: Option<Pending> = None;
        let mut next = 0;
        while next < count && answer.status().is_success() {
            let end = match next {
                0 if count as usize > window.max(1) => 1,
                _ => count.min(next + window.max(1) as u32),
            };
            requests.clear();
            for index in next..end {
                let mut sqe = self.command(cut, index, payload, head);
                if let Some(first) = &first {
                    sqe.cdw2 |= u32::from(first.cid());
                }
                let names_first = index > 0 && first.is_none();
                let span = if index + 1 == count { span } else { SpanId::NONE };
                requests.push(Request { span, needs, epoch, names_first, ..sqe.into() });
            }
            queue.submit_together(requests, pending).await?;
            let mut placed = pending.drain(..);
            if first.is_none() {
                first = placed.next();
            }
            for command in placed {
                judge(&mut answer, command.await?, expected);
            }
            self.waited(span);
            next = end;
        }
        if let Some(first) = first {
            judge(&mut answer, first.await?, expected);
        }
        Ok(answer)
    }

    /// Command `index` of a stream that `head` begins.
    fn command(&self, cut: Pieces, index: u32, payload: Part<'_>, head: Sqe) -> Sqe {
        let range = cut.range(index);
        let mut part = [0; Sqe::SIZE];
        let part = &mut part[..range.len()];
        payload.read(self.memory(), range.start as u32, part);
        match index {
            0 => cut.head(head, part),
            _ => cut.piece(index, 0, head.nsid, 0, part),
        }
    }
}

/// Evaluates the completion of a command of a pipelined stream: the first failure counts, and otherwise the one
/// completion with the answer.
fn judge(answer: &mut Cqe, completed: Cqe, expected: Option<u32>) {
    let is_the_one = expected.map_or(answer.dw0 != 0, |expected| answer.dw0 == expected);
    let is_better = !completed.status().is_success() || !is_the_one;
    if answer.status().is_success() && is_better {
        *answer = completed;
    }
}
