//! Checkpoints: the map is written down, so that recovery needs to look only at what came later.
//!
//! The host goes on meanwhile, and so do collectors. What counts is what was settled when a checkpoint began: every
//! translation page that was dirty then is captured after that, so the pages together hold everything up to there, and
//! what came later is in stripes that were not finished then. So the root names the first of these, and recovery takes
//! what it finds in them by its number, whether or not a page reflects it already. Pages that change later are left to
//! the next checkpoint: each that is written makes room necessary, which moves units, and that changes pages.
//!
//! Collectors keep stripes unfinished for as long as they have nothing to move. They are named one by one, so that the
//! first stripe does not wait for them.

use crate::ftl::config::Canary;
use crate::ftl::config::MediaError;
use crate::ftl::durable::Checkpoints;
use crate::ftl::durable::root::{PageRun, Root};
use crate::ftl::inner::Inner;
use crate::ftl::inner::State;
use crate::ftl::map::table::{Entry, Place};
use std::rc::Rc;

/// The task that writes checkpoints.
pub(in crate::ftl) async fn run(inner: Rc<Inner>) {
    loop {
        inner.signals.checkpoint.notified().await;
        loop {
            let (turn, is_shutdown) = {
                let checkpoints = &mut inner.state.borrow_mut().checkpoints;
                if checkpoints.asked == checkpoints.done {
                    break;
                }
                (checkpoints.asked, std::mem::take(&mut checkpoints.is_shutdown))
            };
            if is_shutdown && inner.config.canary == Some(Canary::StallShutdown) {
                std::future::pending::<()>().await;
            }
            let written = inner.write_checkpoint(is_shutdown).await;
            let checkpoints = &mut inner.state.borrow_mut().checkpoints;
            checkpoints.done = turn;
            if is_shutdown {
                checkpoints.failed = written.err(); // without free space there is none
            }
            inner.signals.settled.notify_all();
        }
    }
}

impl State {
    /// The lowest number of a stripe of the host's that is not finished, or has failed and what it was to have is not
    /// programmed yet: what was numbered after that is in stripes behind it, though they may be finished.
    fn first_unfinished(&self) -> u64 {
        let under_way = self.filling.jobs.iter().filter_map(|job| job.number);
        let failed = self.buffer.iter().filter_map(|slot| slot.failed_in);
        under_way
            .chain(self.filling.wordlines.lowest())
            .chain(failed)
            .min()
            .unwrap_or(self.filling.next_number)
    }

    /// The translation pages that flash has.
    fn page_runs(&self) -> Vec<PageRun> {
        let mut runs: Vec<PageRun> = Vec::new();
        let units = self.map.pages.unit(0)..self.map.pages.unit(self.map.pages.count());
        self.map.table.each_changed(units, |unit, entry| {
            let page = (unit - self.map.pages.unit(0)) as u32;
            let place = self.buffer.in_flash(entry);
            match (place.place(), runs.last_mut()) {
                (Place::Base | Place::Slot(_), _) => {}
                (Place::Unmapped, Some(last)) if last.place == place && last.first + last.count == page => {
                    last.count += 1;
                }
                _ => runs.push(PageRun { first: page, count: 1, place }),
            }
        });
        runs
    }

    /// Whether the last root says all that there is to say.
    fn is_as_written(&self) -> bool {
        (self.checkpoints.is_clean || self.checkpoints.power_cycles == 0)
            && self.buffer.used() == 0
            && self.parts.len() == 0
            && self.journal.is_empty()
            && !self.checkpoints.is_over
            && self.map.pages.dirty().next().is_none()
    }

    /// Units have been programmed. Whether so many that there is to be a checkpoint.
    pub(in crate::ftl) fn is_checkpoint_due(&self, every: u64) -> bool {
        let Checkpoints { units_then, asked, done, .. } = self.checkpoints;
        every > 0 && asked == done && self.counters.units_programmed() - units_then >= every
    }
}

impl Inner {
    /// Asks for a checkpoint, if none is under way.
    pub(in crate::ftl) fn want_checkpoint(&self) {
        let checkpoints = &mut self.state.borrow_mut().checkpoints;
        if checkpoints.asked == checkpoints.done {
            checkpoints.asked += 1;
            self.signals.checkpoint.notify_one();
        }
    }

    /// Writes everything to flash, and a checkpoint, unless there is nothing new. The checkpoint is the task's to write, so
    /// it is completed, not torn, if the caller drops this because a reset has come.
    ///
    /// # Errors
    /// At the end of life, if flash has no free space: then there is no checkpoint.
    pub(in crate::ftl) async fn shut_down(&self) -> Result<(), MediaError> {
        // One that has begun may not hold what was settled since.
        while self.is_checkpoint_pending() {
            self.signals.settled.notified().await;
        }
        let turn = {
            let checkpoints = &mut self.state.borrow_mut().checkpoints;
            checkpoints.asked += 1;
            checkpoints.is_shutdown = true;
            checkpoints.asked
        };
        self.signals.checkpoint.notify_one();
        while self.state.borrow().checkpoints.done < turn {
            self.signals.settled.notified().await;
        }
        self.state.borrow().checkpoints.failed.map_or(Ok(()), Err)
    }

    fn is_checkpoint_pending(&self) -> bool {
        let Checkpoints { asked, done, .. } = self.state.borrow().checkpoints;
        asked != done
    }

    /// Writes a checkpoint: all that is settled when it begins is in it, and a little more is settled first, so that
    /// journal records up to now are.
    ///
    /// # Errors
    /// At the end of life, for the pages take room: the last root then stays the one there is.
    async fn write_checkpoint(&self, is_clean: bool) -> Result<(), MediaError> {
        if is_clean {
            self.settle_parts().await?;
            if self.state.borrow().is_as_written() {
                return Ok(());
            }
        }
        self.check_checkpoints()?;
        self.settle_units().await?;
        let (mut root, dirty) = {
            let mut guard = self.state.borrow_mut();
            let state = &mut *guard;
            state.checkpoints.units_then = state.counters.units_programmed();
            let root = Root {
                generation: state.checkpoints.generation + 1,
                settled: state.buffer.settled(),
                first_stripe: state.first_unfinished(),
                power_cycles: state.checkpoints.power_cycles,
                unsafe_shutdowns: state.checkpoints.unsafe_shutdowns,
                is_clean,
                moving: state
                    .collecting
                    .moving
                    .iter()
                    .flatten()
                    .map(|(block, stripe)| (block.0, *stripe))
                    .collect(),
                ..Root::default()
            };
            state.journal.seal(root.settled);
            (root, state.map.pages.dirty())
        };
        let occupied = self.state.borrow().map.table.occupied();
        for page in dirty {
            if !self.state.borrow().map.pages.is_dirty(page) || self.is_marked(page, occupied.as_deref()) {
                continue;
            }
            self.read_away(&[page]).await;
            self.read_back(page).await;
            let permit = self.slots(1).await?;
            let taken = self.state.borrow_mut().buffer_page(page, self.config.keep);
            permit.forget();
            if !taken {
                self.credits.release(1);
            }
            self.dispatch();
        }
        self.settle_units().await?;
        self.check_checkpoints()?; // the end of life may have come meanwhile
        let bytes = {
            let state = self.state.borrow();
            root.pages = state.page_runs();
            (root.next_sequence, root.next_number) =
                (state.buffer.next_sequence(), state.filling.next_number);
            root.encode()
        };
        self.flash.write_root((root.generation % 2) as usize, bytes).await;
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        (state.checkpoints.generation, state.checkpoints.is_clean) = (root.generation, is_clean);
        state.counters.checkpoints += 1;
        self.flash.cut_journal(state.journal.pass(root.settled));
        drop(guard);
        self.journal_moved();
        Ok(())
    }

    /// Fails if there is no checkpoint any more.
    fn check_checkpoints(&self) -> Result<(), MediaError> {
        if self.state.borrow().checkpoints.is_over { Err(MediaError::WriteProtected) } else { Ok(()) }
    }

    /// A page that says of all units that they are nowhere, and that flash does not have, is a mark in the root.
    fn is_marked(&self, page: u32, occupied: Option<&[bool]>) -> bool {
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        let unit = state.map.pages.unit(page);
        let entry = state.map.table.get(unit);
        let is_blank = matches!(entry, Entry::BASE | Entry::UNMAPPED)
            && state.map.table.is_blank(state.map.pages.units(page), occupied);
        if is_blank {
            let die = state.lose(&self.base, unit, entry);
            die.inspect(|die| self.signals.collectors[*die as usize].notify_one());
            state.map.table.set(unit, Entry::UNMAPPED);
            state.map.written(page);
        }
        is_blank
    }
}
