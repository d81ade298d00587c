//! What outlives the power, put together and taken apart: [`Record`].
//!
//! Changes that the host must be able to rely on are stored before their command completes. What is only counted is
//! stored a while after it has changed, and at shutdown, so a power cut takes a few seconds of it.

use crate::controller::namespace::Namespace;
use crate::controller::persist::{NamespaceRecord, Pending, Record, SanitizeState, Totals};
use crate::controller::{Core, operation};
use byteway_clock::{Clock, Delay, Notify, Semaphore};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// How long what is counted may wait for being stored.
const TOTALS_WAIT: Delay = Delay::from_s(10);

/// What is known of the record.
pub struct Persistence {
    /// What was counted before this power cycle.
    pub before: Cell<Totals>,
    /// The change under way.
    pub pending: RefCell<Pending>,
    /// The medium's record has been looked at, and what it says is in force.
    is_restored: Cell<bool>,
    restored: Notify,
    /// The record says that the drive was shut down.
    is_clean: Cell<bool>,
    /// Something was counted that the record does not have.
    is_unsaved: Cell<bool>,
    unsaved: Notify,
    /// One record is written at a time, so none is overwritten by an older one.
    turn: Semaphore,
}

impl Persistence {
    /// Nothing is known.
    pub fn new(clock: &Clock) -> Self {
        Persistence {
            before: Cell::default(),
            pending: RefCell::default(),
            is_restored: Cell::default(),
            restored: Notify::new(clock),
            is_clean: Cell::new(true),
            is_unsaved: Cell::default(),
            unsaved: Notify::new(clock),
            turn: Semaphore::new(clock, 1),
        }
    }

    /// Something was counted.
    #[inline]
    pub fn counted(&self) {
        if !self.is_unsaved.replace(true) {
            self.unsaved.notify_one();
        }
    }
}

/// Looks at the record at power-on, carries on what the power has interrupted, and from then on stores what is counted.
pub async fn run(core: Rc<Core>) {
    core.ftl.ready().await;
    restore(&core);
    let pending = core.persistence.pending.borrow().clone();
    operation::carry_on(&core, pending).await;
    // A sanitize operation that goes on gives them back when it has ended.
    if core.sanitize.state() != SanitizeState::InProgress {
        for namespace in core.inventory.all().iter().filter(|namespace| namespace.pairs().is_none()) {
            let _ = core.open_pairs(namespace); // without them, its commands say that it is not ready
        }
    }
    core.persistence.is_restored.set(true);
    core.persistence.restored.notify_all();
    loop {
        core.persistence.unsaved.notified().await;
        core.clock.timer(TOTALS_WAIT).await; // real also where modelled waits take no time
        core.store().await;
    }
}

impl Core {
    /// Waits until what the medium says is in force.
    pub(super) async fn restored(&self) {
        while !self.persistence.is_restored.get() {
            self.persistence.restored.notified().await;
        }
    }

    /// Stores everything that outlives the power; it is durable when this ends.
    pub(super) async fn store(&self) {
        let turn = self.persistence.turn.acquire(1).await;
        self.persistence.is_unsaved.set(false);
        let record = self.record().encode();
        self.ftl.store_record(record.into()).await;
        drop(turn);
    }

    /// The drive is in use: it is not shut down any more.
    pub(super) fn in_use(&self) {
        if self.persistence.is_clean.replace(false) {
            self.persistence.counted();
        }
    }

    /// Stores everything, and that the drive was shut down.
    pub(super) async fn store_clean(&self) {
        self.persistence.is_clean.set(true);
        self.store().await;
    }

    /// What is counted over the drive's life, until now.
    pub(super) fn totals(&self) -> Totals {
        let (before, counters) = (self.persistence.before.get(), &self.counters);
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
            pending: self.persistence.pending.borrow().clone(),
            features: self.features.saved(),
            timestamp: self.timestamp.to_keep(self.clock.now()),
            sanitize: self.sanitize.record(),
            results: self.self_test.results(),
            extended_test: self.self_test.extended(),
            totals: self.totals(),
            is_clean: self.persistence.is_clean.get(),
        }
    }
}

/// Puts into force what the record says; a new drive has none.
fn restore(core: &Core) {
    let units = core.inventory.capacity.borrow().units();
    let record = core.ftl.record().and_then(|bytes| Record::decode(&bytes));
    let Some(record) = record.filter(|record| record.units == units) else {
        core.persistence.before.set(Totals { power_cycles: 1, ..Totals::default() });
        return;
    };
    restore_namespaces(core, &record);
    core.features.restore(&record.features);
    core.timestamp.restore(record.timestamp);
    core.errors.restore(record.totals.errors);
    core.self_test.restore(record.results, record.extended_test);
    core.persistence.pending.replace(record.pending);
    core.persistence.before.set(Totals {
        power_cycles: record.totals.power_cycles + 1,
        unsafe_shutdowns: record.totals.unsafe_shutdowns + u64::from(!record.is_clean),
        ..record.totals
    });
    core.sanitize.restore(record.sanitize);
    if record.sanitize.state == SanitizeState::InProgress {
        core.sanitize.wake();
    }
    core.refresh_refusals();
}

fn restore_namespaces(core: &Core, record: &Record) {
    let inventory = &core.inventory;
    inventory.clear();
    inventory.next_uid.set(record.next_uid);
    for namespace in &record.namespaces {
        // A record with a checksum that fits was written here; what it says of too much space is not believed still.
        let is_possible = (1..=inventory.nsid_max()).contains(&namespace.nsid)
            && inventory.allocated(namespace.nsid).is_none();
        let mut capacity = inventory.capacity.borrow_mut();
        if !is_possible || !capacity.claim(namespace.nsid, &namespace.runs) {
            continue;
        }
        let per_unit = namespace.format.block.per_unit() as u64;
        let most = capacity.units_of(namespace.nsid).saturating_mul(per_unit);
        let extents = capacity.extents(namespace.nsid);
        drop(capacity);
        let blocks = namespace.blocks.min(most);
        let restored = Namespace::new(namespace.nsid, namespace.uid, namespace.format, blocks, extents);
        restored.attached.set(namespace.attached);
        restored.protection.set(namespace.protection);
        inventory.put(restored);
    }
}
