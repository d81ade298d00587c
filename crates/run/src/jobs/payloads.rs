//! Workers of jobs on a payload sink, whose blocks are single bytes.

use super::ios::{Ios, Performed};
use byteway_clock::SpanRecord;
use byteway_host::{
    Counts, IoBuffer, IoError, PayloadClient, PayloadConfig, PayloadIoError, QueuePair, Rules, SinkBase,
    SinkOracle,
};
use byteway_transfer::result::ResultMethod;
use byteway_workload::{Generator, Io, JobPlan, Kind};
use std::cell::RefCell;
use std::rc::Rc;

/// A payload sink with its options.
#[derive(Clone)]
pub struct Sink {
    /// Return path of read results.
    pub results: ResultMethod,
    /// Expected content; `None`: only checksums are compared.
    pub oracle: Option<Rc<RefCell<SinkOracle>>>,
}

impl Sink {
    /// With an oracle if data is to be verified. `is_fresh`: the sink was never written.
    pub fn new(results: ResultMethod, verify: bool, is_fresh: bool) -> Sink {
        let base = if is_fresh { SinkBase::Zeroes } else { SinkBase::Unknown };
        Sink { results, oracle: verify.then(|| Rc::new(RefCell::new(SinkOracle::new(base)))) }
    }

    /// Client configuration of a job.
    pub(super) fn config(&self, rules: Rules, plan: &JobPlan) -> PayloadConfig {
        PayloadConfig {
            results: self.results,
            oracle: self.oracle.clone(),
            // No larger: each buffer uses part of the drive's memory for stores.
            ..PayloadConfig::new(rules, plan.payload_bytes_max().max(1))
        }
    }
}

/// A worker's access to a payload sink.
pub(super) struct Payloads {
    client: PayloadClient,
    generator: RefCell<Generator>,
}

impl Payloads {
    /// A worker on `queue`, which is enabled for the methods of `config`.
    ///
    /// # Errors
    /// The drive has no sink.
    pub(super) fn new(
        queue: QueuePair,
        nsid: u32,
        config: PayloadConfig,
        generator: Generator,
    ) -> Result<Payloads, PayloadIoError> {
        let client = PayloadClient::new(queue, nsid, config)?;
        Ok(Payloads { client, generator: RefCell::new(generator) })
    }

    pub(super) fn queue(&self) -> &QueuePair {
        self.client.queue()
    }

    pub(super) fn counts(&self) -> Counts {
        self.client.counts()
    }

    pub(super) fn oracle(&self) -> Option<&Rc<RefCell<SinkOracle>>> {
        self.client.oracle()
    }
}

impl Ios for Payloads {
    type Buffers = IoBuffer;

    fn generator(&self) -> &RefCell<Generator> {
        &self.generator
    }

    fn buffers(&self, _: u32) -> Result<IoBuffer, IoError> {
        self.client.buffer()
    }

    async fn perform(&self, buffer: &mut IoBuffer, io: Io, record: &mut SpanRecord) -> Performed {
        let performed = match io.kind {
            Kind::Read => self.client.read(buffer, io.lba, io.blocks).await,
            // Scenarios with trims of a sink are refused.
            Kind::Write | Kind::Trim => self.client.write(buffer, io.lba, io.blocks).await,
        };
        Performed::by_one(performed.map(|ended| *record = ended))
    }
}
