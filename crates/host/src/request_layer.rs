//! What commands of a queue pair go through before they are submitted, such as the block layer of the host's system.

use byteway_clock::{SpanId, Station};
use byteway_wire::nvme::{Sqe, Status};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

/// Work that is not over yet.
pub type Work<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// See [`QueuePair::behind`](crate::QueuePair::behind).
pub trait RequestLayer {
    /// Makes a request of a command, and waits until it may be submitted by `cpu`. The result is to be awaited behind the command's
    /// completion; dropped, the request is over at once.
    ///
    /// # Errors
    /// The status with which the layer refuses the command.
    fn begin<'a>(
        &'a self,
        span: SpanId,
        cpu: &'a Rc<Station>,
        sqe: &'a Sqe,
    ) -> Work<'a, Result<Work<'static, ()>, Status>>;
}
