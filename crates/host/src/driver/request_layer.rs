//! The request layer: what commands of a queue pair pass before submission, such as the block layer of the host's
//! operating system.

use byteway_clock::{SpanId, Station};
use byteway_wire::nvme::{Sqe, Status};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

/// Work in progress.
pub type BoxedWork<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// See [`QueuePair::behind`](crate::QueuePair::behind).
pub trait RequestLayer {
    /// Makes a request of a command, and waits until `cpu` may submit it. Await the result after the
    /// command's completion; if it is dropped, the request ends immediately.
    ///
    /// # Errors
    /// The status with which the layer refuses the command.
    fn begin<'a>(
        &'a self,
        span: SpanId,
        cpu: &'a Rc<Station>,
        sqe: &'a Sqe,
    ) -> BoxedWork<'a, Result<BoxedWork<'static, ()>, Status>>;
}
