//! Background work: marks in the write-intent log, repair after a power cut, rebuilding.

use crate::config::{Defect, Level};
use crate::counters::Cause;
use crate::inner::Inner;
use crate::layout::UnitLocation;
use crate::rebuild::Rebuild;
use crate::superblock::SlotState;
use crate::xor::Parity;
use byteway_clock::SpanId;
use byteway_content::Content;
use byteway_firmware::WorkKind;
use std::rc::Rc;

/// Units rebuilt between two persistent progress marks: a power cut repeats at most this much.
const MARK_UNITS: u64 = 16_384;

/// The task that makes region marks durable: all waiting ones with one write to each member.
pub(crate) async fn run_log(inner: Rc<Inner>) {
    loop {
        inner.intents.wanted.notified().await;
        let _turn = inner.intents.turn.acquire(1).await;
        while let Some((content, marks)) = inner.intents.to_write() {
            if !inner.config.defect.has(Defect::NoIntentLog) {
                inner.write_log(content).await;
            }
            inner.intents.are_written(&marks);
        }
    }
}

/// The task that marks idle regions as clean.
pub(crate) async fn run_cleaner(inner: Rc<Inner>) {
    loop {
        inner.clock.timer(inner.config.clean_after).await;
        let idle = inner.intents.idle(true);
        if !idle.0.is_empty() && !inner.is_broken() {
            inner.flush_members(SpanId::NONE).await;
            inner.clean_log(&idle).await;
        }
    }
}

/// The task that repairs after a power cut, then rebuilds members.
pub(crate) async fn run(inner: Rc<Inner>) {
    loop {
        while let Some(region) = inner.intents.unsynced().first().copied() {
            if inner.is_broken() {
                break;
            }
            inner.repair(region).await;
        }
        let rebuilding = inner.rebuilding();
        match rebuilding {
            Some((slot, mark)) if !inner.is_broken() => inner.rebuild(slot, mark).await,
            _ => inner.upkeep.notified().await,
        }
    }
}

impl Inner {
    async fn write_log(&self, content: Content) {
        let group = self.group(SpanId::NONE, false);
        for slot in self.present() {
            group.add_write(slot, self.area.intents, true, std::iter::once(content.clone()));
        }
        self.exchange(&group, Cause::Log).await;
    }

    /// Clears the marks of regions that were idle and still are; their writes have been flushed since. The
    /// clearing is durable when this ends, because a member that fails together with the power would lose
    /// units of every marked region, however long it was idle.
    pub(crate) async fn clean_log(&self, idle: &(Vec<usize>, u32)) {
        let _turn = self.intents.turn.acquire(1).await;
        if !self.is_broken() && self.intents.clean(idle) {
            self.write_log(self.intents.encoded()).await;
            self.intents.are_cleared();
        }
    }

    fn rebuilding(&self) -> Option<(usize, u64)> {
        let slots = self.slots.borrow();
        slots.states.iter().enumerate().find_map(|(slot, state)| match state {
            SlotState::Rebuilding { mark } => Some((slot, *mark)),
            _ => None,
        })
    }

    /// Yields to hosts, and keeps to the rate limit.
    async fn pace_upkeep(&self, units: u64) {
        let rebuild = &self.config.rebuild;
        let rate = if self.attending.get() > 0 { rebuild.busy_rate } else { rebuild.idle_rate };
        self.pace(units, rate).await;
    }

    /// Makes copies or parity of a region consistent, unless a member fails meanwhile, whose failure then
    /// decides about the region.
    async fn repair(&self, region: usize) {
        let stripes = self.intents.stripes(region);
        for stripe in stripes.start..stripes.end.min(self.layout.stripes) {
            if !self.is_unsynced(stripe) || self.is_broken() {
                break;
            }
            let lock = self.lock(stripe * self.layout.stripe_units(), self.layout.stripe_units()).await;
            let was_wrong = match self.layout.level {
                Level::Raid5 => self.repair_parity(stripe).await,
                _ => self.repair_copies(stripe).await,
            };
            drop(lock);
            self.counting.count(|counters| counters.stripes_repaired += u64::from(was_wrong));
            self.pace_upkeep(self.layout.chunk).await;
        }
        if self.is_broken() {
            return;
        }
        // An unrecorded failure of a member meanwhile would leave the repair in doubt.
        self.gate.open().await;
        self.flush_members(SpanId::NONE).await;
        self.gate.open().await;
        if !self.is_broken() {
            self.intents.synced(region);
        }
    }

    /// Repairs the parity of a stripe, except for unreadable units. Returns whether it was wrong.
    async fn repair_parity(&self, stripe: u64) -> bool {
        let layout = &self.layout;
        let at = layout.member_unit(stripe, 0);
        let parity_slot = layout.parity_slot(stripe);
        let group = self.group(SpanId::NONE, true);
        (0..layout.members).for_each(|slot| {
            group.add_read(slot, at, layout.chunk);
        });
        let all = self.exchange(&group, Cause::Repair).await;
        if self.is_broken() || self.gate.is_closed.get() || !self.is_unsynced(stripe) {
            return false;
        }
        let mut bad = vec![0_u64; layout.chunk as usize];
        if !all {
            // Offset by offset: an unreadable unit has no parity to be computed from, and is lost.
            drop(group);
            return self.repair_offsets(stripe, &mut bad).await;
        }
        let mut parity = Parity::new();
        let mut wrong = Vec::new();
        {
            let pieces = group.pieces.borrow();
            let pieces = &pieces[..group.len()];
            for offset in 0..layout.chunk as usize {
                let data = pieces.iter().filter(|piece| piece.slot != parity_slot);
                data.for_each(|piece| parity.add(&piece.contents[offset]));
                let right = parity.take(self.config.keep);
                let found = pieces.iter().find(|piece| piece.slot == parity_slot);
                if found.is_some_and(|piece| !is_same(&piece.contents[offset], &right)) {
                    wrong.push((offset as u64, right));
                }
            }
        }
        drop(group);
        let xored = layout.chunk * layout.columns;
        self.counting.count(|counters| counters.units_xored += xored);
        self.work(SpanId::NONE.into(), WorkKind::Parity, xored).await;
        self.write_repaired(parity_slot, at, &wrong).await;
        !wrong.is_empty()
    }

    /// Like `repair_parity`, with unreadable units.
    #[cold]
    async fn repair_offsets(&self, stripe: u64, bad: &mut [u64]) -> bool {
        let layout = &self.layout;
        let parity_slot = layout.parity_slot(stripe);
        for offset in 0..bad.len() as u64 {
            let at = layout.member_unit(stripe, offset);
            let mut parity = Parity::new();
            for slot in (0..layout.members).filter(|slot| *slot != parity_slot) {
                match self.read_one(SpanId::NONE, slot, at, Cause::Repair).await {
                    Ok(content) => parity.add(&content),
                    Err(_) if self.has(slot, stripe) => self.lose(stripe, slot, offset).await,
                    Err(_) => return false,
                }
            }
            self.write_repaired(parity_slot, at, &[(0, parity.take(self.config.keep))]).await;
        }
        self.write_lost().await;
        true
    }

    /// Marks a unit of a present member as lost, and writes zeroes in its place, so that parity holds.
    async fn lose(&self, stripe: u64, slot: usize, offset: u64) {
        self.lose_slot(stripe, slot, offset);
        self.write_lost().await; // before the zeroes can be read
        let at = self.layout.member_unit(stripe, offset);
        self.write_repaired(slot, at, &[(0, Content::Zero)]).await;
    }

    async fn write_repaired(&self, slot: usize, at: u64, units: &[(u64, Content)]) {
        if units.is_empty() {
            return;
        }
        let group = self.group(SpanId::NONE, true);
        for (offset, content) in units {
            group.add_write(slot, at + offset, false, std::iter::once(content.clone()));
        }
        self.exchange(&group, Cause::Repair).await;
    }

    /// Repairs the copies of a stripe: all become the first readable one. Returns whether they differed.
    async fn repair_copies(&self, stripe: u64) -> bool {
        let layout = &self.layout;
        let at = layout.member_unit(stripe, 0);
        let mut was_wrong = false;
        for column in 0..layout.columns {
            let first = layout.slot(stripe, column);
            let slots: Vec<usize> =
                (first..first + layout.copies).filter(|slot| self.has(*slot, stripe)).collect();
            let group = self.group(SpanId::NONE, true);
            slots.iter().for_each(|slot| {
                group.add_read(*slot, at, layout.chunk);
            });
            self.exchange(&group, Cause::Repair).await;
            let mut wrong: Vec<(usize, u64, Content)> = Vec::new();
            {
                let pieces = group.pieces.borrow();
                let readable = pieces[..group.len()].iter().filter(|piece| piece.error.is_none());
                let mut readable = readable.clone();
                let Some(source) = readable.next() else { continue };
                for piece in readable {
                    for (offset, (right, found)) in (0..).zip(source.contents.iter().zip(&piece.contents)) {
                        if !is_same(right, found) {
                            wrong.push((piece.slot, offset, right.clone()));
                        }
                    }
                }
            }
            drop(group);
            for (slot, offset, content) in wrong {
                was_wrong = true;
                self.write_repaired(slot, at + offset, &[(0, content)]).await;
            }
        }
        was_wrong
    }

    /// Rebuilds a member from stripe `mark` on, until it is complete, or it or the array fails.
    async fn rebuild(&self, slot: usize, mark: u64) {
        let (layout, mut since) = (&self.layout, 0);
        let (stripes, began) = (layout.stripes, self.clock.now());
        let earlier =
            self.rebuild.get().filter(|it| it.slot == slot && it.ended.is_none() && it.done == mark);
        let begun = Rebuild { slot, stripes, before: mark, done: mark, began, ended: None };
        self.rebuild.set(Some(earlier.unwrap_or(begun)));
        let told = |done: u64, ended| {
            self.rebuild.set(self.rebuild.get().map(|rebuild| Rebuild { done, ended, ..rebuild }));
        };
        for stripe in mark..layout.stripes {
            let lock = self.lock(stripe * layout.stripe_units(), layout.stripe_units()).await;
            let is_done = self.rebuild_stripe(slot, stripe).await;
            {
                let mut slots = self.slots.borrow_mut();
                match &mut slots.states[slot] {
                    SlotState::Rebuilding { mark } if is_done => {
                        *mark = stripe + 1;
                        told(stripe + 1, None);
                    }
                    _ => return, // the caller evaluates the state again
                }
            }
            drop(lock);
            since += layout.chunk;
            if since >= MARK_UNITS {
                since = 0;
                self.flush_members(SpanId::NONE).await;
                self.slots.borrow_mut().flushed[slot] = stripe + 1;
                self.write_superblocks().await;
            }
            self.pace_upkeep(layout.chunk).await;
        }
        self.flush_members(SpanId::NONE).await;
        self.write_lost().await;
        {
            let mut slots = self.slots.borrow_mut();
            if !matches!(slots.states[slot], SlotState::Rebuilding { .. }) || slots.is_broken {
                return;
            }
            slots.states[slot] = SlotState::Active;
        }
        told(layout.stripes, Some(self.clock.now()));
        // No stripe is degraded any more: remaining entries must not be found when one is again.
        self.journal.forget();
        // Until this is durable, stripes count as degraded and are journaled.
        self.write_superblocks().await;
        self.journal.forget(); // these as well: the superblocks of a further failure will record it
        self.health_changed.notify_one();
    }

    /// Rebuilds a stripe of the member. Returns whether it was written.
    async fn rebuild_stripe(&self, slot: usize, stripe: u64) -> bool {
        let layout = &self.layout;
        let at = layout.member_unit(stripe, 0);
        let mut contents = self.vector();
        contents.resize(layout.chunk as usize, Content::Zero);
        let is_known = match layout.level {
            Level::Raid5 => self.rebuild_from_parity(slot, stripe, &mut contents).await,
            _ => self.rebuild_from_copy(slot, stripe, &mut contents).await,
        };
        if !is_known {
            self.keep(contents);
            return false;
        }
        let group = self.group(SpanId::NONE, true);
        group.add_write(slot, at, false, contents.drain(..));
        self.keep(contents);
        self.exchange(&group, Cause::Rebuild).await
    }

    async fn rebuild_from_parity(&self, slot: usize, stripe: u64, contents: &mut [Content]) -> bool {
        let layout = &self.layout;
        let place = UnitLocation { stripe, column: 0, offset: 0 };
        let context = SpanId::NONE.into();
        let has_lost = {
            let lost = self.lost.borrow();
            let first = stripe * layout.stripe_units();
            !lost.is_empty() && (first..first + layout.stripe_units()).any(|unit| lost.has(unit))
        };
        if !has_lost && self.reconstruct(context, slot, place, contents, true).await.is_ok() {
            return true;
        }
        // Unit by unit: a unit that another member cannot read costs two, and no more.
        for (offset, content) in (0..).zip(contents) {
            let Some(rebuilt) = self.rebuild_unit(slot, stripe, offset).await else { return false };
            *content = rebuilt;
        }
        self.write_lost().await;
        true
    }

    /// Rebuilds one unit; None if a member is lost.
    async fn rebuild_unit(&self, slot: usize, stripe: u64, offset: u64) -> Option<Content> {
        let layout = &self.layout;
        let at = layout.member_unit(stripe, offset);
        let mut units = Vec::with_capacity(layout.members);
        for other in (0..layout.members).filter(|other| *other != slot) {
            match self.read_one(SpanId::NONE, other, at, Cause::Rebuild).await {
                Ok(content) => units.push((other, Some(content))),
                Err(_) if self.has(other, stripe) => units.push((other, None)),
                Err(_) => return None,
            }
        }
        let is_lost = |slot: usize| {
            let column = layout.column_of(stripe, slot);
            column.is_some_and(|column| {
                self.lost.borrow().has(layout.unit(UnitLocation { stripe, column, offset }))
            })
        };
        let all = units.iter().all(|(_, unit)| unit.is_some());
        let mut parity = Parity::new();
        if all && !is_lost(slot) {
            units.iter().flat_map(|(_, unit)| unit).for_each(|unit| parity.add(unit));
            self.work(SpanId::NONE.into(), WorkKind::Parity, layout.columns).await;
            self.counting.count(|counters| counters.units_reconstructed += 1);
            return Some(parity.take(self.config.keep));
        }
        // Unreadable units of the others are lost, and with them what depends on them. This is durable before
        // zeroes take their place, over which the parity then holds, so that nothing can be computed from
        // them.
        let parity_slot = layout.parity_slot(stripe);
        let bad: Vec<usize> =
            units.iter().filter(|(_, unit)| unit.is_none()).map(|(other, _)| *other).collect();
        bad.iter().chain([&slot]).for_each(|slot| self.lose_slot(stripe, *slot, offset));
        self.write_lost().await;
        for other in bad.into_iter().filter(|other| *other != parity_slot) {
            self.write_repaired(other, at, &[(0, Content::Zero)]).await;
        }
        let data = units.iter().filter(|(other, _)| *other != parity_slot);
        data.filter_map(|(_, unit)| unit.as_ref()).for_each(|unit| parity.add(unit));
        let right = parity.take(self.config.keep);
        if slot == parity_slot {
            return Some(right);
        }
        self.write_repaired(parity_slot, at, &[(0, right)]).await;
        Some(Content::Zero)
    }

    /// Marks the unit of a slot as lost, unless it is parity.
    fn lose_slot(&self, stripe: u64, slot: usize, offset: u64) {
        if let Some(column) = self.layout.column_of(stripe, slot) {
            let unit = self.layout.unit(UnitLocation { stripe, column, offset });
            self.lost.borrow_mut().lose(unit);
        }
    }

    async fn rebuild_from_copy(&self, slot: usize, stripe: u64, contents: &mut [Content]) -> bool {
        let layout = &self.layout;
        let at = layout.member_unit(stripe, 0);
        let first = slot / layout.copies * layout.copies;
        let source = (first..first + layout.copies).find(|other| *other != slot && self.has(*other, stripe));
        let Some(source) = source else { return false };
        let group = self.group(SpanId::NONE, true);
        group.add_read(source, at, layout.chunk);
        if self.exchange(&group, Cause::Rebuild).await {
            group.take(0, 0, contents.len(), |nth, content| contents[nth] = content);
            return true;
        }
        drop(group);
        for (offset, content) in (0..).zip(contents) {
            let mut found = None;
            for other in (first..first + layout.copies).filter(|other| *other != slot) {
                if found.is_none() && self.has(other, stripe) {
                    found = self.read_one(SpanId::NONE, other, at + offset, Cause::Rebuild).await.ok();
                }
            }
            if !(first..first + layout.copies).any(|other| other != slot && self.has(other, stripe)) {
                return false;
            }
            if found.is_none() {
                self.lose_slot(stripe, slot, offset);
                self.write_lost().await;
            }
            *content = found.unwrap_or_default();
        }
        true
    }
}

/// Whether two units have the same bytes, however they are stored.
fn is_same(one: &Content, other: &Content) -> bool {
    if one == other {
        return true;
    }
    let (mut left, mut right) = ([0; 4096], [0; 4096]);
    one.write_to(&mut left);
    other.write_to(&mut right);
    left == right
}
