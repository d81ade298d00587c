//! Commit records ([`byteway_wire::nvme::vendor::commit`]): key-value pairs that the host stores without a command. A
//! task polls the ring in device memory, takes the records in order, and answers each.
//!
//! The drive polls every [`MemoryConfig::poll`](crate::MemoryConfig), counted from the moment at which the ring was
//! switched on, and once more right after each record. Polls that can find nothing, because no store to the ring is in
//! flight, are only counted ([`Commits::looks`](crate::controller::memory::commit_ring::Commits::looks)) and cost no
//! event: every record is found at the same instant as if all polls were made. Their core time delays no other work: a
//! polling core has nothing else to do, or is a separate one.
//!
//! A poll that is made costs [`WorkKind::Poll`] and reading a line from DRAM. A record costs [`WorkKind::Parse`] and
//! the pipeline latency of a write, as a command does, then the store, and writing the answer to DRAM. Fetching and
//! completing cost nothing.

use crate::config::CommandSet;
use crate::controller::command_set::kv::page_buffer;
use crate::controller::command_set::kv::pairs::{check_value, key, mode, writable_pairs};
use crate::controller::core::Core;
use crate::controller::state::counters::add;
use byteway_clock::{SpanId, Stage};
use byteway_firmware::WorkKind;
use byteway_kv::Stored;
use byteway_transfer::cxl_mem::{self, PayloadLocation};
use byteway_wire::nvme::Status;
use byteway_wire::nvme::vendor::commit::{ANSWER_BYTES, CommitAnswer, CommitRecord, RECORD_BYTES};
use byteway_wire::nvme::vendor::cxl::InDeviceMemory;
use std::rc::Rc;

/// Takes records until the drive loses power.
pub async fn run(core: Rc<Core>) {
    let commits = &core.memory.commits;
    let mut value = Vec::new();
    loop {
        commits.due().await;
        while commits.is_on() {
            let Some((record, arrived)) = commits.look(&core.port) else {
                pay_for_look(&core, SpanId::NONE).await;
                commits.was_busy();
                break;
            };
            core.begin(); // a reset waits for it
            let span = core.port.followed_stored(commits.index_of(&record));
            core.port.spans().charge(span, arrived, Stage::Link);
            core.port.spans().charge(span, core.clock.now(), Stage::Fetch);
            core.clock.works_for([span]);
            take_record(&core, &record, &mut value, span).await;
            core.end();
            commits.was_busy();
        }
    }
}

/// Charges reading a line of the ring.
async fn pay_for_look(core: &Core, span: SpanId) {
    let spans = core.port.spans();
    let looked = core.placement.run(WorkKind::Poll, 1).await;
    spans.charge_split(span, core.clock.now(), looked.queued, Stage::Firmware);
    move_dram(core, "commit record", RECORD_BYTES, span).await;
}

async fn move_dram(core: &Core, what: &'static str, bytes: u32, span: SpanId) {
    let passage = core.placement.site(WorkKind::Poll).dram(what, bytes.into());
    core.clock.sleep_until(passage.arrival).await;
    core.port.spans().charge_split(span, core.clock.now(), passage.queued, Stage::Dram);
}

/// Stores the key-value pair of a record and acknowledges it, unless a reset came first.
async fn take_record(core: &Core, record: &CommitRecord, value: &mut Vec<u8>, span: SpanId) {
    let life = core.memory.commits.generation();
    let is_live = || core.memory.commits.generation() == life;
    pay_for_look(core, span).await;
    let parse = core.placement.run(WorkKind::Parse, 1).await;
    core.clock.sleep(core.config.controller.write_pipeline).await;
    core.port.spans().charge_split(span, core.clock.now(), parse.queued, Stage::Firmware);
    let stored = match is_live() {
        true => store_record(core, record, value, span, is_live).await,
        false => return,
    };
    core.background.command_ended();
    move_dram(core, "commit answer", ANSWER_BYTES, span).await;
    if !is_live() {
        return;
    }
    add(&core.counters.records, 1);
    let number = record.number;
    core.memory.commits.answer(&match stored {
        Ok(Stored { pointer, limit, .. }) => CommitAnswer { number, pointer, limit, ..Default::default() },
        Err(status) => CommitAnswer { number, status: status.bits(), ..Default::default() },
    });
}

async fn store_record(
    core: &Core,
    record: &CommitRecord,
    value: &mut Vec<u8>,
    span: SpanId,
    is_live: impl Fn() -> bool,
) -> Result<Stored, Status> {
    let namespace = core.inventory.allocated(record.nsid);
    if namespace.is_some_and(|namespace| namespace.set != CommandSet::KeyValue) {
        return Err(Status::INVALID_NAMESPACE.with_dnr());
    }
    let (_namespace, pairs) = writable_pairs(core, record.nsid)?;
    let store = record.store().ok_or(Status::INVALID_FIELD.with_dnr())?;
    let key = key(&store.key)?;
    if store.bytes == 0 {
        return Err(Status::INVALID_VALUE_SIZE.with_dnr()); // an empty value has no position; it needs a command
    }
    check_value(core, store.bytes)?;
    let mode = mode(&store)?;
    let named =
        InDeviceMemory { address: record.address, bytes: store.bytes, checksum: Some(record.checksum) };
    let log = page_buffer::log(core);
    let at = match cxl_mem::find(&log, named, store.bytes.into())? {
        PayloadLocation::Buffer(at) if log.nsid == record.nsid => at,
        PayloadLocation::Buffer(_) | PayloadLocation::Area(_) => {
            return Err(Status::SGL_OFFSET_INVALID.with_dnr());
        }
    };
    let goes_on = || if is_live() { Ok(()) } else { Err(Status::ABORTED_SQ_DELETED) };
    page_buffer::store_at(core, (span, &goes_on), value, &pairs, key, (at, named), mode).await
}
