//! Gathering and storing the controller's non-volatile state: [`Record`].
//!
//! Changes that the host may rely on are stored before their command completes. Counters are stored some time after
//! they change, and at shutdown, so a power cut loses a few seconds of them.
//!
//! A drive has one record, however many controllers; features and errors in it are those of the first.

use crate::controller::core::Core;
use crate::controller::namespace::record::{NamespaceRecord, Record, Totals};
use byteway_clock::{Delay, Time};

impl Core {
    /// Stores the record. It is durable on return.
    pub(crate) async fn store(&self) {
        let turn = self.background.persistence.begin_store().await;
        let record = match self.number {
            0 => self.record(),
            _ => self.peers.at(0).map_or_else(|| self.record(), |first| first.record()),
        };
        let record = record.encode();
        self.backing.store_record(record.into()).await;
        drop(turn);
    }

    /// Lifetime counters up to now, over all controllers; the error count is this controller's.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = self.background.persistence.before.get();
        let ms = |delay: Delay| delay.0 / Delay::from_ms(1).0;
        self.peers.each(|peer| {
            let counters = &peer.counters;
            totals.reads += counters.reads.get();
            totals.writes += counters.writes.get();
            totals.read_bytes += counters.read_bytes.get();
            totals.written_bytes += counters.written_bytes.get();
            totals.busy_ms += ms(counters.busy.get());
            totals.media_errors += counters.media_errors.get();
        });
        totals.on_ms += ms(self.clock.now().since(Time::ZERO));
        totals.errors = self.errors.count();
        totals
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
