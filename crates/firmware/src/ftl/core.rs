//! What a translation layer is made of. What it does is in the files above this one, each of which knows those below it.

use crate::ftl::base::BaseState;
use crate::ftl::blocks::Blocks;
use crate::ftl::collect::idleness::Idleness;
use crate::ftl::collectors::Collectors;
use crate::ftl::config::{FtlConfig, MediaError};
use crate::ftl::map::Cache;
use crate::ftl::map::copies::Lending;
use crate::ftl::map::extents::Log;
use crate::ftl::power::Power;
use crate::ftl::scratch::Scratch;
use crate::ftl::signals::{AheadSignals, Signals};
use crate::ftl::space::Space;
use crate::ftl::state::State;
use crate::ftl::write::filling::Writer;
use crate::ftl::write::lock::Locks;
use crate::ftl::write::room::Room;
use crate::ftl::write::superseded::Superseded;
use crate::hardware::FlashCommands;
use crate::placement::{Placement, WorkContext};
use crate::policy::stream::StreamCounts;
use crate::work::WorkKind;
use byteway_clock::{Clock, SpanId, Spans, TaskId};
use byteway_content::UNIT_BYTES;
use byteway_flash::{BlockId, DataEnd, Geometry, Mode};
use std::cell::RefCell;
use std::rc::Rc;

/// A translation layer, shared by its tasks.
pub(super) struct Core {
    pub(super) clock: Clock,
    pub(super) placement: Placement,
    pub(super) flash: DataEnd,
    pub(super) geometry: Geometry,
    pub(super) base: Rc<BaseState>,
    pub(super) config: FtlConfig,
    pub(super) streams: StreamCounts,
    pub(super) space: Space,
    pub(super) room: Room,
    pub(super) locks: Locks,
    /// DRAM holds the whole map, and nothing is read ahead.
    pub(super) is_plain: bool,
    /// The signals of reading ahead, if the drive does.
    pub(super) ahead: Option<AheadSignals>,
    /// The map cache, unless DRAM holds the whole map.
    pub(super) cache: Option<Cache>,
    /// Memory lent for the map.
    pub(super) lending: Lending,
    pub(super) idleness: Idleness,
    pub(super) superseded: Superseded,
    pub(super) power: Power,
    pub(super) signals: Signals,
    pub(super) collectors: Collectors,
    pub(super) writers: Vec<Writer>,
    pub(super) state: RefCell<State>,
    pub(super) scratch: RefCell<Vec<Scratch>>,
    pub(super) tasks: RefCell<Vec<TaskId>>,
}

impl Core {
    /// Superblocks of a die that the host leaves to garbage collection.
    pub(super) fn reserve(&self) -> u32 {
        self.config.reserve(self.streams)
    }

    /// Free superblocks of a die at which garbage collection begins.
    pub(super) fn start(&self) -> u32 {
        self.config.start(self.streams)
    }

    /// Sets the bits a cell of a superblock that is being opened, which the cache may have borrowed before, or borrows now.
    pub(super) fn set_mode(&self, blocks: &Blocks, block: BlockId) {
        let mode = if blocks.is_one_bit(block) { Mode::OneBit } else { Mode::Full };
        let is_set = self.flash.set_mode(block, mode);
        debug_assert!(is_set, "a superblock is erased when it is opened");
    }

    /// Checks that `count` units from `first` are within the capacity. Returns `first`.
    pub(super) fn check(&self, first: u64, count: u64) -> Result<u64, MediaError> {
        match first.checked_add(count) {
            Some(end) if end <= self.config.user_units => Ok(first),
            _ => Err(MediaError::OutOfRange),
        }
    }

    /// Whether commands may complete within the call that brings them.
    #[inline]
    pub(super) fn is_at_once(&self) -> bool {
        self.clock.is_immediate() && self.power.is_ready() && self.is_plain
    }

    /// Number of [`WorkKind::Translate`] charged for a look-up of `count` units: one for each unit, or for
    /// each node of a tree of extents that it visits.
    #[inline]
    pub(super) fn look_ups(&self, first: u64, count: u64) -> u64 {
        match self.config.extents {
            None => count,
            Some(_) => self.state.borrow().map.look_ups(first, count),
        }
    }

    /// Map changes that are charged immediately; changes of a tree of extents are charged later.
    #[inline]
    pub(super) fn changes_at_once(&self, count: u64) -> u64 {
        if self.config.extents.is_some() { 0 } else { count }
    }

    /// Applies map changes to the tree of extents, if the map is one.
    #[inline]
    pub(super) fn settle_extents(&self, state: &mut State) {
        let State { map, buffer, .. } = state;
        map.settle_extents(buffer, Log { flash: &self.flash, geometry: &self.geometry });
    }

    /// Charges changes of the tree of extents up to now, after the work that made them.
    pub(super) async fn pay_for_changes(&self) {
        if self.config.extents.is_none() {
            return;
        }
        let visits = self.state.borrow_mut().map.take_visits();
        let service = self.placement.reserve(WorkKind::Translate, visits);
        self.clock.sleep_until(service.end).await;
    }

    /// Waits for units to be transferred out of the buffer's DRAM.
    pub(super) async fn leave_buffer(&self, context: WorkContext, spans: &Spans, units: u64) {
        let bytes = units * UNIT_BYTES as u64;
        self.placement.take_from_buffer(&self.clock, context, spans, bytes).await;
    }

    /// Charges reads of units from flash across a link.
    pub(super) async fn command_reads(&self, span: SpanId, spans: &Spans, units: u64) {
        self.placement.command_hardware(&self.clock, span, spans, FlashCommands::reads(units)).await;
    }
}
