//! Stores with several outstanding, from one task: values are copied into buffers of the batch's own, and tasks that are
//! made once carry them out.

use super::{KvClient, StoreIf};
use crate::buffer::IoBuffer;
use crate::kv::KvIoError;
use byteway_clock::{Channel, Semaphore, SpanRecord};
use byteway_wire::nvme::kv::Key;
use std::cell::RefCell;
use std::rc::Rc;

/// One store that waits for a task.
struct Job {
    buffer: IoBuffer,
    key: Key,
    bytes: u32,
    when: StoreIf,
}

/// Who is told what became of a store.
type Ended = dyn FnMut(Key, Result<SpanRecord, KvIoError>);

struct Inner {
    client: KvClient,
    depth: usize,
    jobs: Channel<Job>,
    /// One permit for each buffer that is free.
    room: Semaphore,
    free: RefCell<Vec<IoBuffer>>,
    /// Called with what became of each.
    ended: RefCell<Box<Ended>>,
}

/// Stores to one namespace, up to so many at once. Their order, if they are of one key, is nobody's: who needs it waits for
/// [`KvBatch::settle`] between them.
pub struct KvBatch(Rc<Inner>);

impl KvBatch {
    /// Up to `depth` stores at once (at least 1) by `client`. `ended` is called with what became of each, in the order in
    /// which they end.
    ///
    /// # Errors
    /// No room in host memory for the buffers.
    pub fn new(
        client: &KvClient,
        depth: usize,
        ended: impl FnMut(Key, Result<SpanRecord, KvIoError>) + 'static,
    ) -> Result<KvBatch, KvIoError> {
        let depth = depth.max(1);
        let clock = client.queue().port().clock();
        let free = (0..depth).map(|_| client.buffer()).collect::<Result<Vec<_>, _>>()?;
        let inner = Rc::new(Inner {
            client: client.clone(),
            depth,
            jobs: Channel::bounded(clock, depth),
            room: Semaphore::new(clock, depth),
            free: RefCell::new(free),
            ended: RefCell::new(Box::new(ended)),
        });
        for _ in 0..depth {
            let inner = inner.clone();
            clock.spawn("kv store", async move { inner.work().await });
        }
        Ok(KvBatch(inner))
    }

    /// Stores `value` under `key` as soon as one of the buffers is free; comes back when it is under way.
    ///
    /// # Errors
    /// The value is longer than the client's buffers.
    pub async fn store(&self, key: Key, value: &[u8]) -> Result<(), KvIoError> {
        let bytes = u32::try_from(value.len()).unwrap_or(u32::MAX);
        self.begin(key, bytes, StoreIf::Any, Some(value)).await
    }

    /// Stores `bytes` bytes under `key`, which the client's oracle chooses.
    ///
    /// # Errors
    /// The value is longer than the client's buffers.
    pub async fn store_pattern(&self, key: Key, bytes: u32) -> Result<(), KvIoError> {
        self.begin(key, bytes, StoreIf::Any, None).await
    }

    async fn begin(
        &self,
        key: Key,
        bytes: u32,
        when: StoreIf,
        value: Option<&[u8]>,
    ) -> Result<(), KvIoError> {
        let inner = &self.0;
        inner.room.acquire(1).await.forget();
        let buffer = inner.free.borrow_mut().pop();
        let mut buffer = buffer.expect("a permit stands for a free buffer");
        let filled = match value {
            Some(value) => inner.client.put(&mut buffer, value),
            None => inner.client.0.carrier.fits(&buffer, bytes),
        };
        if let Err(error) = filled {
            inner.give_back(buffer);
            return Err(error.into());
        }
        inner.jobs.send(Job { buffer, key, bytes, when }).await;
        Ok(())
    }

    /// Waits until all have ended.
    pub async fn settle(&self) {
        drop(self.0.room.acquire(self.0.depth).await);
    }
}

impl Inner {
    fn give_back(&self, buffer: IoBuffer) {
        self.free.borrow_mut().push(buffer);
        self.room.release(1);
    }

    async fn work(&self) {
        loop {
            let Job { mut buffer, key, bytes, when } = self.jobs.receive().await;
            let stored = self.client.store(&mut buffer, key, bytes, when).await;
            (self.ended.borrow_mut())(key, stored);
            self.give_back(buffer);
        }
    }
}
