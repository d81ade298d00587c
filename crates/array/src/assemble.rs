//! Creation of an array over new members, and assembly from the superblocks of existing ones.
//!
//! **Guarantee after a power cut.** A unit holds what was last written to it durably, or the data of a later
//! write that was not durable yet. This holds with all members present, and with one missing that the array
//! knew to be missing at the power cut: its stripes are in the journal ([`journal`](crate::journal)). If a
//! member fails *together with* the power, the parity of regions with writes in progress cannot be trusted:
//! the units of that member there are lost. Reads of them fail until they are written; no content is ever
//! made up.

use crate::area::Area;
use crate::array::Array;
use crate::config::{ArrayConfig, ArrayError, Initial, Level};
use crate::core::Core;
use crate::counters::Cause;
use crate::durable::{write_lost_pages, write_record, write_superblocks};
use crate::group::{Groups, Verb};
use crate::journaling::replay;
use crate::lost::Lost;
use crate::port::Port;
use crate::slots::{Slots, is_complete};
use crate::superblock::{SlotState, Superblock};
use crate::{failures, upkeep};
use byteway_clock::{Clock, SpanId};
use byteway_content::Content;
use byteway_firmware::Placement;
use byteway_member::{Member, MemberLost};
use std::rc::Rc;

impl Array {
    /// A new array over `members`, with slots in this order. Their contents are lost, or assumed consistent,
    /// according to `initial`.
    ///
    /// # Errors
    /// [`ArrayError`] if the configuration is impossible, or a member is lost.
    pub async fn create<M: Member>(
        clock: &Clock,
        placement: Placement,
        config: ArrayConfig,
        members: Vec<M>,
        initial: Initial,
    ) -> Result<Array, ArrayError> {
        let count = members.len();
        let mut ports = Vec::with_capacity(count);
        for (member, drive) in members.into_iter().enumerate() {
            let port = Port::attach(clock, drive).await.map_err(|why| ArrayError::Gone { member, why })?;
            ports.push(Some(port));
        }
        let units: Vec<u64> = ports.iter().flatten().map(|port| port.shape.units).collect();
        let first = units.first().copied().unwrap_or(0);
        if let Some(member) = units.iter().position(|units| *units != first) {
            return Err(ArrayError::Capacity { member, units: units[member], first });
        }
        let (states, joined) = (vec![SlotState::Active; count], vec![1; count]);
        let array = Array::build(clock, placement, config, first, ports, states, joined)?;
        let core = &*array.0;
        array.start();
        if initial == Initial::Unknown {
            core.intents.distrust_all();
        }
        let group = core.group(SpanId::NONE, false);
        for slot in 0..count {
            let at = core.area.lost;
            group.add(slot, Verb::Deallocate, at, core.area.superblocks[1] + 1 - at, |_| ());
        }
        core.exchange(&group, Cause::Log).await;
        drop(group);
        if initial == Initial::Unknown {
            let group = core.group(SpanId::NONE, false);
            let content = core.intents.encoded();
            (0..count).for_each(|slot| {
                group.add_write(slot, core.area.intents, true, std::iter::once(content.clone()));
            });
            core.exchange(&group, Cause::Log).await;
        }
        write_superblocks(core).await;
        core.gate.open().await;
        array.start_upkeep();
        array.unless_a_member_is_gone()
    }

    /// The array that `members`, in any order, belong to. Stale members and those of another array are
    /// ignored; drives of no array can replace failed members ([`Array::take_unused`]). Returns when the
    /// array is usable: copies and parity of regions with writes in progress at the power cut are repaired in
    /// the background.
    ///
    /// # Errors
    /// [`ArrayError`] if they belong to another array or to none, or too many are missing.
    pub async fn assemble<M: Member>(
        clock: &Clock,
        placement: Placement,
        config: ArrayConfig,
        members: Vec<M>,
    ) -> Result<Array, ArrayError> {
        let groups = Groups::new(clock);
        let mut found: Vec<(Superblock, Rc<Port>)> = Vec::new();
        let mut unused = Vec::new();
        for drive in members {
            // A lost drive counts as missing.
            let Ok(port) = Port::attach(clock, drive).await else { continue };
            match probe(&groups, &port).await {
                Some(superblock) if superblock.uuid == config.uuid => found.push((superblock, port)),
                Some(_) => port.stop(),
                None => unused.push(port),
            }
        }
        let newest =
            found.iter().map(|(superblock, _)| superblock).max_by_key(|superblock| superblock.events);
        let newest = newest.cloned().ok_or(ArrayError::NoMembers)?;
        for (what, found, expected) in [
            ("level", newest.level as u64, config.level as u64),
            ("chunk", newest.chunk_units.into(), config.chunk_units.into()),
        ] {
            if found != expected {
                return Err(ArrayError::Differs { what, found, expected });
            }
        }
        let count = newest.slots.len();
        let mut ports: Vec<Option<Rc<Port>>> = vec![None; count];
        for (superblock, port) in found {
            let slot = superblock.slot as usize;
            let is_member = slot < count
                && newest.slots[slot] != SlotState::Failed
                && superblock.joined.get(slot) == newest.joined.get(slot)
                && port.shape.units == newest.member_units
                && ports[slot].is_none();
            match is_member {
                true => ports[slot] = Some(port),
                false => port.stop(),
            }
        }
        let missing: Vec<usize> = (0..count)
            .filter(|slot| ports[*slot].is_none() && newest.slots[*slot] != SlotState::Failed)
            .collect();
        let mut states = newest.slots.clone();
        let (member_units, joined) = (newest.member_units, newest.joined.clone());
        let array = Array::build(clock, placement, config, member_units, ports, states.clone(), joined)?;
        let core = &*array.0;
        missing.iter().for_each(|slot| states[*slot] = SlotState::Failed);
        if !is_complete(&core.layout, &states) {
            array.stop();
            let missing = states.iter().filter(|state| **state == SlotState::Failed).count();
            return Err(ArrayError::Incomplete { missing, members: count });
        }
        core.unused.replace(unused);
        core.superblocks.restore(newest.events);
        core.journal.restore(newest.journal_from);
        // Stripes with a member that the array knew to be missing are in the journal.
        if core.layout.level == Level::Raid5 {
            let below = newest.slots.iter().map(|state| match state {
                SlotState::Active => u64::MAX,
                SlotState::Rebuilding { mark } => *mark,
                SlotState::Failed => 0,
            });
            core.intents.limit_repair(below.min().unwrap_or(u64::MAX));
        }
        array.start();
        array.load(newest.has_lost).await;
        if core.layout.level == Level::Raid5 && newest.slots.iter().any(|state| *state != SlotState::Active) {
            replay(core).await;
        }
        core.journal.leave_behind(newest.journal_from + core.area.journal_units);
        match missing.is_empty() {
            true => write_superblocks(core).await,
            false => {
                missing.iter().for_each(|slot| core.fail(*slot, MemberLost::because("it is missing").into()))
            }
        }
        core.gate.open().await;
        array.start_upkeep();
        Ok(array)
    }

    fn unless_a_member_is_gone(self) -> Result<Array, ArrayError> {
        let states = self.0.slots.borrow().states().to_vec();
        match states.iter().position(|state| *state == SlotState::Failed) {
            None => Ok(self),
            Some(member) => {
                self.stop();
                Err(ArrayError::Gone {
                    member,
                    why: MemberLost::because("it failed while the array was created"),
                })
            }
        }
    }

    fn build(
        clock: &Clock,
        placement: Placement,
        config: ArrayConfig,
        member_units: u64,
        ports: Vec<Option<Rc<Port>>>,
        states: Vec<SlotState>,
        joined: Vec<u32>,
    ) -> Result<Array, ArrayError> {
        let members = states.len();
        config.layout(members, 0)?;
        let area = Area::new(&config, members, member_units)
            .map_err(|reserved| ArrayError::TooSmall { units: member_units, reserved })?;
        let layout = config.layout(members, area.data_units)?;
        let slots = Slots::new(ports, states, joined);
        Ok(Array(Rc::new(Core::new(clock, placement, config, layout, area, member_units, slots))))
    }

    /// Starts its tasks.
    fn start(&self) {
        let (core, clock) = (&self.0, &self.0.clock);
        let mut tasks = vec![clock.spawn("failed members", failures::run(core.clone()))];
        if core.layout.level.is_redundant() {
            tasks.push(clock.spawn("write-intent log", upkeep::run_log(core.clone())));
            tasks.push(clock.spawn("clean regions", upkeep::run_cleaner(core.clone())));
        }
        core.tasks.replace(tasks);
    }

    /// Starts repair and rebuilding. Not before the journal has been replayed, or a member would be rebuilt
    /// from torn stripes.
    fn start_upkeep(&self) {
        let core = &self.0;
        if core.layout.level.is_redundant() {
            let task = core.clock.spawn("repair and rebuilding", upkeep::run(core.clone()));
            core.tasks.borrow_mut().push(task);
        }
    }

    /// Loads the array's own state from the members.
    async fn load(&self, has_lost: bool) {
        let core = &*self.0;
        let (area, present) = (&core.area, core.present());
        let group = core.group(SpanId::NONE, false);
        for slot in &present {
            let is_logged = core.layout.level.is_redundant();
            if is_logged {
                group.add(*slot, Verb::Read, area.intents, 1, |_| ());
            }
            for at in area.records {
                group.add(*slot, Verb::Read, at, crate::area::RECORD_UNITS, |_| ());
            }
        }
        core.exchange(&group, Cause::Log).await;
        {
            let pieces = group.pieces.borrow();
            for piece in pieces[..group.len()].iter().filter(|piece| piece.error.is_none()) {
                if piece.first == area.intents {
                    core.intents.merge(&piece.contents[0]);
                } else {
                    core.record.borrow_mut().merge(&piece.contents);
                }
            }
        }
        drop(group);
        core.intents.distrust();
        let pages = area.journal - area.lost;
        if has_lost && pages > 0 {
            let group = core.group(SpanId::NONE, false);
            present.iter().for_each(|slot| {
                group.add(*slot, Verb::Read, area.lost, pages, |_| ());
            });
            core.exchange(&group, Cause::Log).await;
            let mut lost = Lost::default();
            let pieces = group.pieces.borrow();
            for piece in pieces[..group.len()].iter().filter(|piece| piece.error.is_none()) {
                // If members differ, a unit is lost if one of them says so.
                for (page, content) in (0..).zip(&piece.contents) {
                    lost.load(page, content, core.layout.units());
                }
            }
            drop(pieces);
            core.lost.replace(lost);
        }
    }

    /// Puts a drive into a failed slot, to be rebuilt in the background. Returns the slot.
    ///
    /// # Errors
    /// [`ArrayError`] if no slot has failed, or too many have, or the drive is lost or has another capacity.
    pub async fn add_spare<M: Member>(&self, member: M) -> Result<usize, ArrayError> {
        let slot = self.failed_slot().await?;
        let port = Port::attach(&self.0.clock, member).await;
        self.add(slot, port.map_err(|why| ArrayError::Gone { member: slot, why })?).await
    }

    /// The drives of no array that were found at assembly.
    pub fn take_unused(&self) -> Vec<Unused> {
        self.0.unused.take().into_iter().map(Unused).collect()
    }

    /// Like [`Array::add_spare`], for a drive that was found at assembly.
    ///
    /// # Errors
    /// Same as [`Array::add_spare`].
    pub async fn add_unused(&self, spare: Unused) -> Result<usize, ArrayError> {
        let slot = self.failed_slot().await?;
        self.add(slot, spare.0).await
    }

    async fn failed_slot(&self) -> Result<usize, ArrayError> {
        self.0.gate.open().await;
        let slot = self.0.slots.borrow().failed_slot();
        slot.ok_or(ArrayError::NoSlot)
    }

    async fn add(&self, slot: usize, port: Rc<Port>) -> Result<usize, ArrayError> {
        let core = &*self.0;
        let gone = |why| ArrayError::Gone { member: slot, why };
        if port.shape.units != core.member_units {
            port.stop();
            let (units, first) = (port.shape.units, core.member_units);
            return Err(ArrayError::Capacity { member: slot, units, first });
        }
        // Whatever the drive held before, its area is reset to that of a new member.
        let groups = Groups::new(&core.clock);
        let group = groups.lend(SpanId::NONE, false);
        let at = core.area.lost;
        group.add(slot, Verb::Deallocate, at, core.area.superblocks[1] + 1 - at, |_| ());
        port.send(group.shared(), 0);
        group.wait().await;
        if let (_, Some(error)) = group.error(0) {
            port.stop();
            return Err(gone(MemberLost::because(error)));
        }
        drop(group);
        let joined = core.superblocks.events() as u32 + 1;
        if !core.slots.borrow_mut().install(slot, &port, joined) {
            port.stop();
            return Err(ArrayError::NoSlot);
        }
        let pages = core.lost.borrow().all();
        write_lost_pages(core, &pages, &[slot]).await;
        if let Some(record) = self.record() {
            write_record(core, record, &core.present()).await;
        }
        {
            let _turn = core.intents.turn().await;
            let group = core.group(SpanId::NONE, false);
            group.add_write(slot, core.area.intents, true, std::iter::once(core.intents.encoded()));
            core.exchange(&group, Cause::Log).await;
        }
        write_superblocks(core).await;
        core.gate.open().await;
        core.upkeep.notify_one();
        match core.slots.borrow().states()[slot] {
            SlotState::Failed => Err(gone(MemberLost::because("it failed when it was added"))),
            _ => Ok(slot),
        }
    }

    /// Removes a member from the array, as if it had failed. Returns when the other members have recorded it.
    pub async fn remove(&self, slot: usize) {
        if slot < self.0.layout.members {
            self.0.fail(slot, MemberLost::because("it was taken out").into());
        }
        self.0.gate.open().await;
    }
}

/// A drive of no array that was found at assembly.
pub struct Unused(Rc<Port>);

/// The newest superblock of a drive; None if it has none.
async fn probe(groups: &Groups, port: &Port) -> Option<Superblock> {
    if port.shape.units < 2 {
        return None;
    }
    let group = groups.lend(SpanId::NONE, false);
    for back in 1..=2 {
        // One at a time, so that an unreadable one does not hide the other.
        let index = group.add(0, Verb::Read, port.shape.units - back, 1, |_| ());
        port.send(group.shared(), index);
    }
    group.wait().await;
    let pieces = group.pieces.borrow();
    let readable = pieces[..group.len()].iter().filter(|piece| piece.error.is_none());
    let decode = |contents: &[Content]| contents.first().and_then(Superblock::decode);
    readable.filter_map(|piece| decode(&piece.contents)).max_by_key(|superblock| superblock.events)
}
