//! The flash that a translation layer drives: the drive's own, or flash across a link.

use crate::array::Flash;
use crate::far::Far;
use crate::geometry::{BlockId, Geometry, Ppa};
use crate::medium::Medium;
use crate::priority::Priority;
use crate::store::{Batch, Outdated, Spare};
use crate::ticket::Ticket;
use crate::timing::Mode;
use byteway_clock::{Clock, Delay, Time};
use byteway_content::Content;
use std::rc::Rc;
use std::time::Duration;

/// The data end of a translation layer. Cheap to clone.
///
/// Both kinds have the methods of [`Flash`], with the same meaning: operations are submitted under a
/// [`Ticket`], and the known state of superblocks and spare areas is available at once. The branch between
/// the kinds is the only cost for own flash. A further kind of far end implements
/// [`FarFlash`](crate::FarFlash) and changes nothing here.
#[derive(Clone, Debug)]
pub enum DataEnd {
    /// The drive's own array.
    Own(Flash),
    /// Flash across a link.
    Far(Far),
}

impl From<Flash> for DataEnd {
    fn from(flash: Flash) -> Self {
        DataEnd::Own(flash)
    }
}

impl From<Far> for DataEnd {
    fn from(far: Far) -> Self {
        DataEnd::Far(far)
    }
}

macro_rules! both {
    ($self:ident, $end:ident => $verb:expr) => {
        match $self {
            DataEnd::Own($end) => $verb,
            DataEnd::Far($end) => $verb,
        }
    };
}

impl DataEnd {
    /// The drive's own array; None for flash across a link.
    #[inline]
    pub fn own(&self) -> Option<&Flash> {
        match self {
            DataEnd::Own(flash) => Some(flash),
            DataEnd::Far(_) => None,
        }
    }

    /// Stripes that share the cells of a wordline; 1 for single-level cells.
    pub fn stripes_per_wordline(&self) -> u32 {
        match self {
            DataEnd::Own(flash) => flash.timing().stripes_per_wordline(),
            DataEnd::Far(far) => far.shape().wordline,
        }
    }

    /// Whether superblocks have a one-bit mode.
    pub fn has_one_bit_mode(&self) -> bool {
        match self {
            DataEnd::Own(flash) => flash.timing().slc.is_some(),
            DataEnd::Far(far) => far.shape().has_one_bit_mode,
        }
    }

    /// Whether operations can fail.
    pub fn can_fail(&self) -> bool {
        match self {
            DataEnd::Own(flash) => flash.can_fail(),
            DataEnd::Far(far) => far.shape().can_fail,
        }
    }

    /// What the dies have done so far: [`Flash::die_time`]. Nothing is known of those across a link.
    pub fn die_time(&self) -> [Delay; 2] {
        self.own().map_or_else(Default::default, Flash::die_time)
    }

    /// Time between two instants in which a hot drive's dies rested: [`crate::Throttle::rested`]. Nothing is known of those across a link.
    pub fn rested(&self, from: Time, to: Time) -> Delay {
        let throttle = self.own().and_then(|flash| flash.timing().throttle.as_ref());
        throttle.map_or(Delay::ZERO, |throttle| throttle.rested(from, to))
    }

    /// Content of a unit: of own flash at this instant and without cost, across a link by a read. Zero if
    /// unreadable.
    pub async fn content(&self, ppa: Ppa) -> Content {
        match self {
            DataEnd::Own(flash) => flash.content(ppa),
            DataEnd::Far(far) => far.content(ppa).await.unwrap_or_default(),
        }
    }

    /// Like [`content`](DataEnd::content); None if the unit is not intact or is unreadable.
    pub async fn intact(&self, ppa: Ppa) -> Option<Content> {
        match self {
            DataEnd::Own(flash) => flash.intact(ppa),
            DataEnd::Far(far) => far.content(ppa).await,
        }
    }

    /// Discards outdated contents: [`Flash::forget`]. No effect across a link.
    pub fn forget(&self, units: &mut Vec<Outdated>) {
        match self {
            DataEnd::Own(flash) => flash.forget(units),
            DataEnd::Far(_) => units.clear(),
        }
    }

    /// Cuts the power: [`Flash::power_off`]. For a far end this only detaches, because its medium stays where
    /// it is.
    pub fn power_off(&self, protected: bool) -> Option<Medium> {
        match self {
            DataEnd::Own(flash) => Some(flash.power_off(protected)),
            DataEnd::Far(far) => {
                far.stop();
                None
            }
        }
    }

    /// Geometry of the flash.
    #[inline]
    pub fn geometry(&self) -> &Geometry {
        both!(self, end => end.geometry())
    }

    /// The clock of this end.
    pub fn clock(&self) -> &Clock {
        both!(self, end => end.clock())
    }

    /// A new ticket.
    #[inline]
    pub fn ticket(&self) -> Ticket {
        both!(self, end => end.ticket())
    }

    /// Tickets that are held or have operations in flight.
    pub fn tickets_in_use(&self) -> usize {
        both!(self, end => end.tickets_in_use())
    }

    /// An empty batch, which reuses the memory of an earlier one.
    #[inline]
    pub fn take_batch(&self) -> Batch {
        both!(self, end => end.take_batch())
    }

    /// [`Flash::submit_read`].
    #[inline]
    pub fn submit_read(&self, first: Ppa, mask: u64, priority: Priority, ticket: &Ticket) -> usize {
        both!(self, end => end.submit_read(first, mask, priority, ticket))
    }

    /// [`Flash::submit_known_read`]. Across a link it delivers contents like any other read, because nothing
    /// is known at this end.
    #[inline]
    pub fn submit_known_read(&self, first: Ppa, mask: u64, priority: Priority, ticket: &Ticket) -> usize {
        match self {
            DataEnd::Own(flash) => flash.submit_known_read(first, mask, priority, ticket),
            DataEnd::Far(far) => far.submit_read(first, mask, priority, ticket),
        }
    }

    /// [`Flash::submit_program`].
    #[inline]
    pub fn submit_program(
        &self,
        block: BlockId,
        stripe: u32,
        batch: Batch,
        priority: Priority,
        ticket: &Ticket,
    ) {
        both!(self, end => end.submit_program(block, stripe, batch, priority, ticket))
    }

    /// [`Flash::submit_move`]. The data do not cross the link.
    pub fn submit_move(
        &self,
        sources: Vec<Ppa>,
        block: BlockId,
        stripe: u32,
        batch: Batch,
        priority: Priority,
        ticket: &Ticket,
    ) {
        both!(self, end => end.submit_move(sources, block, stripe, batch, priority, ticket))
    }

    /// [`Flash::submit_erase`].
    pub fn submit_erase(&self, block: BlockId, priority: Priority, ticket: &Ticket) {
        both!(self, end => end.submit_erase(block, priority, ticket))
    }

    /// [`Flash::spare`].
    #[inline]
    pub fn spare(&self, ppa: Ppa) -> Option<Spare> {
        both!(self, end => end.spare(ppa))
    }

    /// [`Flash::spares`].
    #[inline]
    pub fn spares(&self, first: Ppa, spares: &mut [Spare]) {
        both!(self, end => end.spares(first, spares))
    }

    /// [`Flash::stripe_number`].
    #[inline]
    pub fn stripe_number(&self, block: BlockId, stripe: u32) -> Option<u64> {
        both!(self, end => end.stripe_number(block, stripe))
    }

    /// [`Flash::programmed_stripes`].
    pub fn programmed_stripes(&self, block: BlockId) -> u32 {
        both!(self, end => end.programmed_stripes(block))
    }

    /// [`Flash::stripes_of`].
    pub fn stripes_of(&self, block: BlockId) -> u32 {
        both!(self, end => end.stripes_of(block))
    }

    /// [`Flash::mode`].
    pub fn mode(&self, block: BlockId) -> Mode {
        both!(self, end => end.mode(block))
    }

    /// [`Flash::set_mode`].
    pub fn set_mode(&self, block: BlockId, mode: Mode) -> bool {
        both!(self, end => end.set_mode(block, mode))
    }

    /// [`Flash::mark_bad`].
    pub fn mark_bad(&self, block: BlockId) {
        both!(self, end => end.mark_bad(block))
    }

    /// [`Flash::is_bad`].
    pub fn is_bad(&self, block: BlockId) -> bool {
        both!(self, end => end.is_bad(block))
    }

    /// [`Flash::is_unstable`].
    pub fn is_unstable(&self, block: BlockId) -> bool {
        both!(self, end => end.is_unstable(block))
    }

    /// [`Flash::erases`].
    pub fn erases(&self, block: BlockId) -> u32 {
        both!(self, end => end.erases(block))
    }

    /// [`Flash::erases_since_made`].
    pub fn erases_since_made(&self, block: BlockId) -> u32 {
        both!(self, end => end.erases_since_made(block))
    }

    /// [`Flash::each_erases`].
    pub fn each_erases(&self, take: impl FnMut(u32)) {
        both!(self, end => end.each_erases(take));
    }

    /// [`Flash::reads_since_erase`].
    #[inline]
    pub fn reads_since_erase(&self, block: BlockId) -> u32 {
        both!(self, end => end.reads_since_erase(block))
    }

    /// [`Flash::calendar`].
    pub fn calendar(&self) -> Duration {
        both!(self, end => end.calendar())
    }

    /// [`Flash::programmed_at`].
    pub fn programmed_at(&self, block: BlockId) -> Option<Duration> {
        both!(self, end => end.programmed_at(block))
    }

    /// [`Flash::record`].
    pub fn record(&self) -> Option<Rc<[u8]>> {
        both!(self, end => end.record())
    }

    /// [`Flash::cut_journal`].
    pub fn cut_journal(&self, pages: usize) {
        both!(self, end => end.cut_journal(pages))
    }

    /// [`Flash::refuse`].
    pub fn refuse(&self, why: String) {
        both!(self, end => end.refuse(why))
    }

    /// [`Flash::read_root`].
    pub async fn read_root(&self, slot: usize) -> Option<Rc<[u8]>> {
        both!(self, end => end.read_root(slot).await)
    }

    /// [`Flash::write_root`].
    pub async fn write_root(&self, slot: usize, bytes: Rc<[u8]>) {
        both!(self, end => end.write_root(slot, bytes).await)
    }

    /// [`Flash::write_record`].
    pub async fn write_record(&self, bytes: Rc<[u8]>) {
        both!(self, end => end.write_record(bytes).await)
    }

    /// [`Flash::read_journal`].
    pub async fn read_journal(&self) -> Vec<Rc<[u8]>> {
        both!(self, end => end.read_journal().await)
    }

    /// [`Flash::append_journal`].
    pub async fn append_journal(&self, page: Rc<[u8]>) {
        both!(self, end => end.append_journal(page).await)
    }

    /// [`Flash::sync`].
    pub async fn sync(&self) {
        both!(self, end => end.sync().await)
    }

    /// [`Flash::failed`].
    pub async fn failed(&self) -> Rc<str> {
        both!(self, end => end.failed().await)
    }
}
