//! Reads and writes of one unit with the whole map in DRAM and nothing read ahead, as nearly all host I/Os are, as records: their owner
//! carries them on from call to call, and between calls they are data. Results, times and order of events equal those of
//! [`Ftl::read`](crate::Ftl::read) and [`Ftl::write`](crate::Ftl::write), which handle all other cases.
//!
//! A step ends where time passes, and says what it waits for. It waits for nothing itself, so that the owner may be a call or a task.

use crate::ftl::collect::background::{begin_request, end_request};
use crate::ftl::collect::refresh::note_read;
use crate::ftl::config::MediaError;
use crate::ftl::core::Core;
use crate::ftl::health::BufferWait;
use crate::ftl::host::read::{keep_read, origin};
use crate::ftl::read_cache::Origin;
use crate::ftl::state::UnitLocation;
use crate::ftl::steady::dram::begin_writing;
use crate::ftl::write::buffering::buffer_units;
use crate::ftl::write::dispatch::dispatch;
use crate::ftl::write::parts::Patch;
use crate::placement::Route;
use crate::work::WorkKind;
use byteway_clock::{CreditPlace, Delay, NotifyPlace, Service, SpanId, Spans, Stage, Time};
use byteway_content::{Content, UNIT_BYTES};
use byteway_flash::{Outcome, Ppa, Priority, Ticket};
use std::rc::Rc;

/// How far a record got.
pub enum Progress<T> {
    /// The next step is due at this instant: at once, if it has passed.
    Until(Time),
    /// The next step is due when the call that made this one is made again.
    Called,
    /// It has ended; there is no further step.
    Ended(T),
}

/// Whether the fast path applies.
#[inline]
pub(in crate::ftl) fn is_plain(core: &Core, route: Route) -> bool {
    route == Route::OWN && !core.placement.is_apart() && core.is_plain && core.power.is_ready()
}

/// A read of one unit: [`Ftl::begin_read`](crate::Ftl::begin_read).
pub struct UnitRead {
    lpa: u64,
    turn: usize,
    step: ReadStep,
}

/// The next step of a read.
enum ReadStep {
    /// A core has looked the unit up, and the DRAM that holds the map has answered.
    Find(Service, Delay),
    /// Flash has delivered the unit.
    Take(Flash, Option<Rc<Patch>>),
    /// A unit has left the write buffer's DRAM.
    Leave(Delay, Content),
    /// The parts over a unit have. Boxed, since this is rare and large.
    Overlay(Box<Overlaid>),
}

/// A unit from flash and the parts over it, which wait for the buffer's DRAM.
struct Overlaid {
    queued: Delay,
    flash: Flash,
    patch: Rc<Patch>,
    outcome: Outcome,
}

/// A unit in flash that is being read.
struct Flash {
    ppa: Ppa,
    origin: Option<Origin>,
    ticket: Ticket,
}

/// Begins a read of a unit, with its look-up. Returns its end, at which the first step is due.
pub(in crate::ftl) fn begin_read(core: &Core, unit: u64) -> Result<(UnitRead, Time), MediaError> {
    let lpa = core.check(unit, 1)?;
    let turn = begin_request(core);
    let service = core.placement.reserve(WorkKind::Translate, core.look_ups(lpa, 1));
    let access = core.placement.site(WorkKind::Translate).dram_latency();
    Ok((UnitRead { lpa, turn, step: ReadStep::Find(service, access) }, service.end + access))
}

/// Takes the next step of a read.
pub(in crate::ftl) fn read_on(
    core: &Core,
    read: &mut UnitRead,
    span: SpanId,
    spans: &Spans,
) -> Progress<Result<Content, MediaError>> {
    let now = core.clock.now();
    let ended = loop {
        match &mut read.step {
            ReadStep::Find(service, access) => {
                spans.charge_split(span, service.end.min(now), service.queued, Stage::Firmware);
                if *access > Delay::ZERO {
                    spans.charge(span, now, Stage::Dram);
                }
                let found = {
                    let mut state = core.state.borrow_mut();
                    state.counters.units_read += 1;
                    state.find_counted(&core.base, read.lpa)
                };
                match found {
                    UnitLocation::Flash(ppa) => {
                        read.step = ReadStep::Take(sense(core, ppa), None);
                    }
                    UnitLocation::Under(ppa, patch) => {
                        read.step = ReadStep::Take(sense(core, ppa), Some(patch));
                    }
                    UnitLocation::Buffered(content) => {
                        let (queued, arrival) = leave_buffer(core);
                        read.step = ReadStep::Leave(queued, content);
                        return Progress::Until(arrival);
                    }
                    UnitLocation::Nowhere => break Ok(Content::Zero),
                }
            }
            ReadStep::Take(flash, patch) => {
                let Some(outcome) = flash.ticket.outcome() else { return Progress::Called };
                spans.charge_waits(span, now, outcome.waits(), Stage::Flash);
                note_read(core, flash.ppa);
                if patch.is_some() {
                    let (queued, arrival) = leave_buffer(core);
                    let ReadStep::Take(flash, Some(patch)) =
                        std::mem::replace(&mut read.step, ReadStep::Leave(queued, Content::Zero))
                    else {
                        unreachable!("this is its step")
                    };
                    read.step = ReadStep::Overlay(Box::new(Overlaid { queued, flash, patch, outcome }));
                    return Progress::Until(arrival);
                }
                if outcome.failed {
                    break Err(core.unreadable(outcome.unreadable));
                }
                let content = flash.ticket.take(0);
                keep_read(core, read.lpa, flash.origin, &content);
                break Ok(content);
            }
            ReadStep::Leave(queued, content) => {
                spans.charge_split(span, now, *queued, Stage::Dram);
                break Ok(std::mem::take(content));
            }
            ReadStep::Overlay(overlaid) => {
                let Overlaid { queued, flash, patch, outcome } = &**overlaid;
                spans.charge_split(span, now, *queued, Stage::Dram);
                // Blocks that flash cannot deliver are unreadable; those of the parts are not.
                if outcome.failed {
                    core.unreadable(outcome.unreadable);
                    break Ok(patch.over(&Content::unreadable(), core.config.keep));
                }
                let content = flash.ticket.take(0);
                keep_read(core, read.lpa, flash.origin, &content);
                break Ok(patch.over(&content, core.config.keep));
            }
        }
    };
    end_request(core, read.turn);
    Progress::Ended(ended)
}

/// Submits a read of a unit, in the same instant as its look-up: otherwise the superblock could be erased in between.
#[inline]
fn sense(core: &Core, ppa: Ppa) -> Flash {
    let (ticket, origin) = (core.flash.ticket(), origin(core, ppa));
    let mask = 1 << core.geometry.unit_of_stripe(ppa);
    core.flash.submit_read(ppa, mask, Priority::HostRead, &ticket);
    Flash { ppa, origin, ticket }
}

/// Moves a unit out of the write buffer's DRAM: how long it waits for that, and when it has arrived.
fn leave_buffer(core: &Core) -> (Delay, Time) {
    let passage = core.placement.site(WorkKind::Buffer).dram("out of the buffer", UNIT_BYTES as u64);
    (passage.queued, passage.arrival)
}

/// A write of one unit without FUA: [`Ftl::begin_write`](crate::Ftl::begin_write).
pub struct UnitWrite {
    lpa: u64,
    turn: usize,
    content: Content,
    /// How long it has waited for cores.
    queued: Delay,
    step: WriteStep,
}

/// The next step of a write.
enum WriteStep {
    /// A core has prepared the buffer, and, where the map is next to it, looked the unit up.
    LookUp(u64),
    /// Another core has looked the unit up.
    Enter,
    /// The unit has crossed the buffer's DRAM, after this wait for it.
    Reserve(Delay),
    /// There is a slot for it, for which it waited since then.
    Reserved(CreditPlace, Option<BufferWait>),
    /// It has a slot, and no task reads and changes the unit.
    Buffer(NotifyPlace),
}

/// Begins a write of a unit. Returns the instant at which the first step is due.
pub(in crate::ftl) fn begin_write(
    core: &Core,
    unit: u64,
    content: Content,
) -> Result<(UnitWrite, Time), MediaError> {
    let lpa = core.check(unit, 1)?;
    core.check_writable()?;
    let turn = begin_request(core);
    begin_writing(core);
    let changes = core.changes_at_once(1);
    let service = core.placement.reserve_buffering(Route::OWN, 1, changes);
    let step = WriteStep::LookUp(changes);
    Ok((UnitWrite { lpa, turn, content, queued: service.queued, step }, service.end))
}

/// Takes the next step of a write.
pub(in crate::ftl) fn write_on(
    core: &Core,
    write: &mut UnitWrite,
    span: SpanId,
    spans: &Spans,
) -> Progress<Result<(), MediaError>> {
    let (now, placement) = (core.clock.now(), &core.placement);
    loop {
        match &mut write.step {
            WriteStep::LookUp(changes) => {
                let changes = *changes;
                write.step = WriteStep::Enter;
                if changes > 0 && !placement.site(WorkKind::Buffer).is(placement.site(WorkKind::Translate)) {
                    let service = placement.reserve(WorkKind::Translate, changes);
                    write.queued += service.queued;
                    return Progress::Until(service.end);
                }
            }
            WriteStep::Enter => {
                spans.charge_split(span, now, write.queued, Stage::Firmware);
                let passage = placement.site(WorkKind::Buffer).dram("into the buffer", UNIT_BYTES as u64);
                write.step = WriteStep::Reserve(passage.queued);
                return Progress::Until(passage.arrival);
            }
            WriteStep::Reserve(queued) => {
                spans.charge_split(span, now, *queued, Stage::Dram);
                let wait = (!core.room.has(1)).then(|| core.wait_for_buffer());
                write.step = WriteStep::Reserved(CreditPlace::default(), wait);
            }
            WriteStep::Reserved(place, wait) => {
                let Some(granted) = core.room.take_or_wait(1, place) else { return Progress::Called };
                if let Some(wait) = wait {
                    core.charge_wait(span, spans, wait);
                }
                if granted == 0 || core.check_writable().is_err() {
                    core.room.give_back(granted);
                    end_request(core, write.turn);
                    return Progress::Ended(Err(MediaError::WriteProtected));
                }
                write.step = WriteStep::Buffer(NotifyPlace::default());
            }
            WriteStep::Buffer(place) => {
                if !core.locks.is_free(write.lpa, place) {
                    return Progress::Called;
                }
                let content = std::mem::take(&mut write.content);
                let taken = buffer_units(core, Route::OWN, write.lpa, std::iter::once(content));
                core.room.give_back(1 - taken);
                dispatch(core);
                spans.charge(span, now, Stage::Queueing);
                end_request(core, write.turn);
                return Progress::Ended(Ok(()));
            }
        }
    }
}
