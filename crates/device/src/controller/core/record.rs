//! What the controller must not forget, put together and stored: [`Record`].
//!
//! Changes that the host must be able to rely on are stored before their command completes. What is only counted is
//! stored a while after it has changed, and at shutdown, so a power cut takes a few seconds of it.

use crate::controller::core::Core;
use crate::controller::namespace::record::{NamespaceRecord, Record, Totals};
use byteway_clock::Delay;

impl Core {
    /// Stores everything that outlives the power; it is durable when this ends.
    pub(crate) async fn store(&self) {
        let turn = self.background.persistence.begin_store().await;
        let record = self.record().encode();
        self.ftl.store_record(record.into()).await;
        drop(turn);
    }

    /// What is counted over the drive's life, until now.
    pub(crate) fn totals(&self) -> Totals {
        let (before, counters) = (self.background.persistence.before.get(), &self.counters);
        let ms = |delay: Delay| delay.0 / Delay::from_ms(1).0;
        Totals {
            reads: before.reads + counters.reads.get(),
            writes: before.writes + counters.writes.get(),
            read_bytes: before.read_bytes + counters.read_bytes.get(),
            written_bytes: before.written_bytes + counters.written_bytes.get(),
            busy_ms: before.busy_ms + ms(counters.busy.get()),
            on_ms: before.on_ms + self.clock.now().0 / Delay::from_ms(1).0,
            media_errors: before.media_errors + counters.media_errors.get(),
            errors: self.errors.count(),
            ..before
        }
    }

    fn record(&self) -> Record {
        let capacity = self.inventory.capacity.borrow();
        let namespaces = self.inventory.all_and_leaving().into_iter().map(|namespace| NamespaceRecord {
            nsid: namespace.nsid,
            uid: namespace.uid,
            blocks: namespace.blocks,
            format: namespace.format(),
            attached: namespace.attached.get(),
            protection: namespace.protection.get(),
            runs: capacity.runs(namespace.nsid),
        });
        Record {
            units: capacity.units(),
            next_uid: self.inventory.next_uid.get(),
            namespaces: namespaces.collect(),
            pending: self.background.persistence.pending.borrow().clone(),
            features: self.features.saved(),
            timestamp: self.features.timestamp.to_keep(self.clock.now()),
            sanitize: self.background.sanitize.record(),
            results: self.background.self_test.results(),
            extended_test: self.background.self_test.extended(),
            totals: self.totals(),
            is_clean: self.background.persistence.is_clean(),
        }
    }
}
