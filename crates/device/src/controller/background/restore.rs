//! Power-on: restores the record ([`Record`]) and completes work that a power cut interrupted. Afterwards it stores
//! changed counters, with a delay.

use crate::controller::background::operation;
use crate::controller::command_set::CommandSets;
use crate::controller::core::Core;
use crate::controller::namespace::Namespace;
use crate::controller::namespace::record::{Record, SanitizeState, Totals};
use byteway_clock::Delay;
use std::rc::Rc;

/// Delay before changed counters are stored.
const TOTALS_WAIT: Delay = Delay::from_s(10);

/// Restores the record, completes interrupted work, and then stores changed counters until the power is cut.
pub async fn run(sets: Rc<CommandSets>) {
    let core = &sets.core;
    core.backing.ready().await;
    restore(core);
    let pending = core.background.persistence.pending.borrow().clone();
    operation::carry_on(&sets, pending).await;
    // A sanitize operation in progress opens the namespaces when it ends.
    if core.background.sanitize.state() != SanitizeState::InProgress {
        for namespace in core.inventory.all() {
            let _ = sets.open(&namespace); // on failure its commands complete with Namespace Not Ready
        }
    }
    core.background.persistence.end_restore();
    loop {
        core.background.persistence.unsaved().await;
        core.clock.timer(TOTALS_WAIT).await; // real time, even where modelled waits take none
        core.store().await;
    }
}

/// Puts the record into effect; a new drive has none.
fn restore(core: &Core) {
    let units = core.inventory.capacity.borrow().units();
    let record = core.backing.record().and_then(|bytes| Record::decode(&bytes));
    let Some(record) = record.filter(|record| record.units == units) else {
        core.background.persistence.before.set(Totals { power_cycles: 1, ..Totals::default() });
        return;
    };
    restore_namespaces(core, &record);
    core.features.restore(&record.features);
    core.features.timestamp.restore(record.timestamp);
    core.errors.restore(record.totals.errors);
    core.background.self_test.restore(record.results, record.extended_test);
    core.background.persistence.pending.replace(record.pending);
    core.background.persistence.before.set(Totals {
        power_cycles: record.totals.power_cycles + 1,
        unsafe_shutdowns: record.totals.unsafe_shutdowns + u64::from(!record.is_clean),
        ..record.totals
    });
    core.background.sanitize.restore(record.sanitize);
    if record.sanitize.state == SanitizeState::InProgress {
        core.background.sanitize.wake();
    }
    core.refresh_refusals();
}

fn restore_namespaces(core: &Core, record: &Record) {
    let inventory = &core.inventory;
    inventory.clear();
    inventory.next_uid.set(record.next_uid);
    for namespace in &record.namespaces {
        // A record with a matching checksum was written by a controller, but its allocation is checked nevertheless.
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
