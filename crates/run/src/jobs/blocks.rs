//! Workers of jobs on block namespaces.

use super::ios::{Ios, Performed};
use byteway_clock::SpanRecord;
use byteway_content::UNIT_BYTES;
use byteway_host::Direction;
use byteway_host::{
    AnyIoError, BlockIoError, Client, ClientConfig, Counts, IoError, Namespace, Oracle, QueuePair, Rules,
    SplitBuffer,
};
use byteway_wire::nvme::Range;
use byteway_workload::{Generator, Io, JobPlan, Kind, Verify};
use std::cell::RefCell;
use std::rc::Rc;

/// A worker's access to a block namespace.
pub(super) struct Blocks {
    client: Client,
    /// Client for unverified reads in a namespace in which other jobs verify.
    unchecked: Option<Client>,
    generator: RefCell<Generator>,
}

/// Buffers for a verified and for an unverified I/O.
pub(super) struct Buffers {
    checked: SplitBuffer,
    unchecked: Option<SplitBuffer>,
}

impl Blocks {
    /// A worker on `queue`, which is enabled for the methods of `rules`. `oracle` has the namespace's
    /// expected content.
    ///
    /// # Errors
    /// The namespace has an unsupported format.
    pub(super) fn new(
        queue: QueuePair,
        namespace: &Namespace,
        plan: &JobPlan,
        rules: Rules,
        oracle: Option<Rc<RefCell<Oracle>>>,
        generator: Generator,
    ) -> Result<Blocks, BlockIoError> {
        // The payload of a trim is its list of ranges. Jobs without verification still write patterns, so that others can verify.
        let bytes_max = plan.payload_bytes_max().max(UNIT_BYTES as u32);
        let config = ClientConfig { rules, bytes_max, oracle, verify_bytes: plan.verify == Verify::Bytes };
        let unchecked = match config.oracle.is_some() && !plan.verify.is_on() {
            true => {
                let config = ClientConfig { oracle: None, ..config.clone() };
                Some(Client::new(queue.clone(), *namespace, config)?)
            }
            false => None,
        };
        let client = Client::new(queue, *namespace, config)?;
        Ok(Blocks { client, unchecked, generator: RefCell::new(generator) })
    }

    pub(super) fn queue(&self) -> &QueuePair {
        self.client.queue()
    }

    pub(super) fn counts(&self) -> Counts {
        let mut counts = self.client.counts();
        if let Some(unchecked) = &self.unchecked {
            counts += unchecked.counts();
        }
        counts
    }
}

impl Ios for Blocks {
    type Buffers = Buffers;

    fn generator(&self) -> &RefCell<Generator> {
        &self.generator
    }

    fn buffers(&self, blocks: u32) -> Result<Buffers, IoError> {
        Ok(Buffers {
            checked: self.client.split_buffer(blocks)?,
            unchecked: self.unchecked.as_ref().map(|client| client.split_buffer(blocks)).transpose()?,
        })
    }

    async fn perform(&self, buffers: &mut Buffers, io: Io, record: &mut SpanRecord) -> Performed {
        let (client, buffer) = match (&self.unchecked, &mut buffers.unchecked) {
            (Some(client), Some(buffer)) if io.kind == Kind::Read => (client, buffer),
            _ => (&self.client, &mut buffers.checked),
        };
        let direction = match io.kind {
            Kind::Read => Direction::Read,
            Kind::Write => Direction::Write { fua: false },
            Kind::Trim => {
                let ranges = [Range::new(io.lba, io.blocks)];
                let trimmed = Box::pin(client.trim(buffer.first(), &ranges)).await;
                return Performed::by_one(trimmed.map(|ended| *record = ended));
            }
        };
        if io.blocks <= client.blocks_max() {
            return Performed::by_one(client.io(direction, buffer.first(), io.lba, io.blocks, record).await);
        }
        let done = Box::pin(client.read_or_write_split(direction, buffer, io.lba, io.blocks)).await;
        Performed::by_several(done, record)
    }

    async fn flush(&self) -> Result<(), AnyIoError> {
        self.client.flush().await.map(drop).map_err(AnyIoError::from)
    }
}
