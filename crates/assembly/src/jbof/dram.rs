//! What a drive's daemon does about DRAM: it samples which pages of the map are looked up, lends what helps the drive nothing, and borrows
//! what brings its miss ratio below the aim ("Espresso", 4.5).
//!
//! Once a period, by the curve of miss ratios ([`MapSample`]):
//!
//! - a drive that needs more than all of its own DRAM withdraws what it has offered, and borrows the best fits among its peers' offers
//!   until it has what it needs. Of what it needs no more it gives back whole descriptors;
//! - one that doesn't gives back all that it has borrowed, and offers what it can do without, in a few descriptors, so that several
//!   peers can have a part. It empties that DRAM before it offers it;
//! - a borrower whose descriptor was withdrawn leaves the DRAM, page by page, and gives it back. Not before that is it the lender's again.
//!
//! The tables are read over the fabric, and stale by then: a claim that names what was seen fails if it is so no more, and whoever
//! comes too late looks again a period later.
//!
//! **When a drive is lost** the box is told ([`Inner::dram_lost`]). Its borrowers recover what was in its DRAM, by what flash and their
//! logs say, and its lenders have theirs back at once: nothing of a drive without power is worth a thing to it.
//!
//! What it does not do: a lender does not clear what it has back; nothing that is offered is divided; a drive whose DRAM holds the
//! whole map takes no part.

use super::Inner;
use byteway_clock::Delay;
use byteway_firmware::{BorrowFigures, Ftl, Lender, LenderId, Work};
use byteway_jbof::DriveId;
use byteway_jbof::demand::{MISS_RATIO_WANTED, MapSample, SampleConfig, Segments};
use byteway_jbof::descriptor::{DESCRIPTORS, Descriptor, Resource};
use byteway_jbof::fabric::{LINE_BYTES, Node};
use byteway_jbof::policy;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// How drives lend each other DRAM.
#[derive(Clone, Debug, PartialEq)]
pub struct DramConfig {
    /// A drive borrows until its miss ratio is below this. 4.5: 10 %.
    pub miss_ratio: f64,
    /// How look-ups are sampled.
    pub sample: SampleConfig,
    /// What it takes a core to commit a record of a log. 4.6: 321.9 ns.
    pub commit: Delay,
    /// Descriptors that a drive's offers take, at least one and at most 15: one is left for its processor.
    pub offers: usize,
}

impl Default for DramConfig {
    fn default() -> Self {
        DramConfig {
            miss_ratio: MISS_RATIO_WANTED,
            sample: SampleConfig::default(),
            commit: Lender::COMMIT,
            offers: 8,
        }
    }
}

/// So many parts of a drive's DRAM must have become spare at once for it to offer more: an estimate that trembles should not have pages
/// come and go.
const SPARE_PARTS: u32 = 16;

/// A descriptor of this drive's.
#[derive(Clone, Copy)]
struct Offer {
    index: usize,
    segments: u32,
    is_withdrawn: bool,
}

/// What it has of a peer, by that one's descriptor.
#[derive(Clone, Copy)]
struct Borrowed {
    lender: usize,
    index: usize,
    segments: u32,
}

/// A drive's DRAM, and what it has lent and borrowed.
pub(super) struct MemberDram {
    sample: Rc<MapSample>,
    /// Segments of its own; 0: it takes no part.
    shape: Segments,
    offers: RefCell<Vec<Offer>>,
    borrowed: RefCell<Vec<Borrowed>>,
    /// Peers as they look from here, made when they are first borrowed of.
    lenders: RefCell<BTreeMap<usize, Lender>>,
    is_lost: Cell<bool>,
    figures: Cell<DramFigures>,
}

/// What a drive's DRAM is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DramFigures {
    /// Segments of its own.
    pub own: u32,
    /// Of those, offered or lent now.
    pub offered: u32,
    /// Of those, lent now.
    pub lent: u32,
    /// Segments borrowed now.
    pub borrowed: u32,
    /// How often it has borrowed: descriptors.
    pub borrowings: u64,
    /// Claims of what was not as it had been seen.
    pub claims_failed: u64,
    /// Descriptors that it has given back because it needed them no more.
    pub returns: u64,
    /// Descriptors that it has given back because the lender had withdrawn them.
    pub reclaimed: u64,
    /// Look-ups of translation pages, and of those, how many found theirs in DRAM.
    pub look_ups: u64,
    /// See there.
    pub hits: u64,
    /// What it has used borrowed segments for.
    pub use_of: BorrowFigures,
}

impl MemberDram {
    /// That of a drive with this translation layer.
    pub(super) fn new(config: &DramConfig, ftl: Option<&Ftl>, seed: u64) -> Self {
        let sample = Rc::new(MapSample::new(config.sample, seed));
        let pages = ftl.map_or(0, Ftl::map_segment_pages).max(1);
        let own = ftl.and_then(Ftl::map_frames).map_or(0, |frames| frames / pages);
        let shape = Segments { own, pages };
        MemberDram {
            sample,
            shape,
            offers: RefCell::default(),
            borrowed: RefCell::default(),
            lenders: RefCell::default(),
            is_lost: Cell::default(),
            figures: Cell::default(),
        }
    }

    fn count(&self, change: impl FnOnce(&mut DramFigures)) {
        let mut figures = self.figures.get();
        change(&mut figures);
        self.figures.set(figures);
    }

    fn borrowed_segments(&self) -> u32 {
        self.borrowed.borrow().iter().map(|it| it.segments).sum()
    }

    fn offered_segments(&self) -> u32 {
        self.offers.borrow().iter().filter(|it| !it.is_withdrawn).map(|it| it.segments).sum()
    }
}

/// The part of a drive's daemon that is about DRAM.
pub(super) async fn daemon(inner: Rc<Inner>, number: usize) {
    let Inner { clock, config, members, .. } = &*inner;
    let (member, dram) = (&members[number], &members[number].dram);
    let Some(ftl) = member.powered.drive.controller.backing().ftl().filter(|_| dram.shape.own > 0) else {
        return;
    };
    ftl.monitor_map(Some(dram.sample.clone()));
    loop {
        clock.sleep(config.period).await;
        if dram.is_lost.get() {
            continue;
        }
        let service = member.site.spend(Work::Poll, config.daemon);
        clock.sleep_until(service.end).await;
        let curve = dram.sample.curve();
        let most = ftl.map_pages().div_ceil(dram.shape.pages).saturating_sub(dram.shape.own);
        let wants = dram.shape.to_borrow(&curve, config.dram.miss_ratio, most);
        inner.take_back(ftl, number);
        inner.leave_withdrawn(ftl, number).await;
        inner.give_back_surplus(ftl, number, wants).await;
        if wants > 0 {
            inner.withdraw(number, dram.offered_segments());
            inner.take_back(ftl, number);
            inner.borrow_dram(ftl, number, wants).await;
        } else {
            let is_reliable = dram.sample.is_reliable();
            let spare = if is_reliable { dram.shape.to_lend(&curve) } else { 0 };
            inner.offer(ftl, number, spare, is_reliable).await;
        }
    }
}

impl Inner {
    /// What has been withdrawn, and has no borrower any more, is the drive's own again.
    fn take_back(&self, ftl: &Ftl, number: usize) {
        let member = &self.members[number];
        let is_back = |offer: &mut Offer| offer.is_withdrawn && !is_in_use(member.table.read(offer.index));
        let back: Vec<Offer> = member.dram.offers.borrow_mut().extract_if(.., is_back).collect();
        back.iter().for_each(|offer| ftl.take_map_segments(offer.segments));
    }

    /// Withdraws offers of at least so many segments, those first that nobody has.
    fn withdraw(&self, number: usize, segments: u32) {
        let member = &self.members[number];
        let mut offers = member.dram.offers.borrow_mut();
        let has_borrower =
            |offer: &Offer| member.table.read(offer.index).is_some_and(|it| it.borrower.is_some());
        let mut left = segments;
        for is_lent in [false, true] {
            for offer in offers.iter_mut().filter(|it| !it.is_withdrawn && has_borrower(it) == is_lent) {
                if left == 0 {
                    return;
                }
                left = left.saturating_sub(offer.segments);
                member.table.withdraw(offer.index);
                offer.is_withdrawn = true;
            }
        }
    }

    /// Offers so many segments, no more and not much less.
    async fn offer(&self, ftl: &Ftl, number: usize, spare: u32, is_reliable: bool) {
        let dram = &self.members[number].dram;
        let offered = dram.offered_segments();
        if is_reliable && spare < offered {
            self.withdraw(number, offered - spare);
            self.take_back(ftl, number);
            return;
        }
        let more = spare.saturating_sub(offered + self.withdrawn_segments(number));
        let free = self.config.dram.offers.min(DESCRIPTORS - 1).saturating_sub(dram.offers.borrow().len());
        if free == 0 || more < (dram.shape.own / SPARE_PARTS).max(1) {
            return;
        }
        let mut left = ftl.give_up_map_segments(more).await;
        for piece in (1..=free as u32).rev() {
            let segments = left.div_ceil(piece);
            if segments == 0 || dram.is_lost.get() {
                continue;
            }
            let first = dram.offers.borrow().iter().map(|it| it.segments).sum();
            let resource = Resource::Dram { segments, list: first, log: 0 };
            let Some(index) = self.members[number].table.publish(resource) else { break };
            dram.offers.borrow_mut().push(Offer { index, segments, is_withdrawn: false });
            left -= segments;
        }
        ftl.take_map_segments(left); // there was no descriptor for them
    }

    fn withdrawn_segments(&self, number: usize) -> u32 {
        let offers = self.members[number].dram.offers.borrow();
        offers.iter().filter(|it| it.is_withdrawn).map(|it| it.segments).sum()
    }

    /// Leaves what its lenders have withdrawn.
    async fn leave_withdrawn(&self, ftl: &Ftl, number: usize) {
        let dram = &self.members[number].dram;
        let me = Some(DriveId(number as u8));
        let all: Vec<Borrowed> = dram.borrowed.borrow().clone();
        for it in all {
            // What it says is a line that crosses.
            let asked = self.fabric.send(Node::Drive(number), Node::Drive(it.lender), 0);
            self.clock.sleep_until(asked.arrival).await;
            let line = self.fabric.send(Node::Drive(it.lender), Node::Drive(number), LINE_BYTES);
            self.clock.sleep_until(line.arrival).await;
            let now = self.members[it.lender].table.read(it.index).filter(|now| now.borrower == me);
            if now.is_some_and(|now| !now.valid) {
                self.give_back_dram(ftl, number, it).await;
                dram.count(|figures| figures.reclaimed += 1);
            }
        }
    }

    /// Gives descriptors back whose segments are more than the drive wants.
    async fn give_back_surplus(&self, ftl: &Ftl, number: usize, wants: u32) {
        let dram = &self.members[number].dram;
        loop {
            let surplus = dram.borrowed_segments().saturating_sub(wants);
            let last = dram.borrowed.borrow().iter().rev().find(|it| it.segments <= surplus).copied();
            let Some(it) = last else { return };
            self.give_back_dram(ftl, number, it).await;
            dram.count(|figures| figures.returns += 1);
        }
    }

    /// Reads back what is in a descriptor's segments, and gives it back.
    async fn give_back_dram(&self, ftl: &Ftl, number: usize, it: Borrowed) {
        let dram = &self.members[number].dram;
        ftl.give_back_segments(LenderId(it.lender as u8), it.segments).await;
        let said = self.fabric.send(Node::Drive(number), Node::Drive(it.lender), LINE_BYTES);
        self.clock.sleep_until(said.arrival).await;
        // If the lender was lost meanwhile, it is not borrowed any more.
        let mut borrowed = dram.borrowed.borrow_mut();
        let at = borrowed.iter().position(|other| (other.lender, other.index) == (it.lender, it.index));
        if let Some(at) = at {
            borrowed.remove(at);
            self.members[it.lender].table.give_back(it.index, DriveId(number as u8));
        }
    }

    /// Borrows the best fits until the drive has what it wants, or nothing is offered.
    async fn borrow_dram(&self, ftl: &Ftl, number: usize, wants: u32) {
        let dram = &self.members[number].dram;
        if dram.borrowed_segments() >= wants {
            return;
        }
        let mut offers: Vec<(usize, usize, Descriptor, u32)> = Vec::new();
        for peer in (0..self.members.len()).filter(|peer| *peer != number) {
            if self.members[peer].dram.is_lost.get() {
                continue; // its table can't be read
            }
            self.read_table(Node::Drive(number), peer).await;
            for (index, it) in self.members[peer].table.iter() {
                if let (Resource::Dram { segments, .. }, true, None) = (it.resource, it.valid, it.borrower) {
                    offers.push((peer, index, it, segments));
                }
            }
        }
        loop {
            let left = wants.saturating_sub(dram.borrowed_segments());
            let amounts = offers.iter().map(|(.., segments)| u64::from(*segments));
            let Some(best) = policy::best_fit(amounts, left.into()).filter(|_| left > 0) else { return };
            let (lender, index, seen, segments) = offers.swap_remove(best);
            let said = self.fabric.send(Node::Drive(number), Node::Drive(lender), LINE_BYTES);
            self.clock.sleep_until(said.arrival).await;
            if dram.is_lost.get() {
                return;
            }
            if self.members[lender].table.claim(index, &seen, DriveId(number as u8)).is_err() {
                dram.count(|figures| figures.claims_failed += 1);
                continue;
            }
            ftl.borrow_segments(&self.lender(number, lender), segments);
            dram.borrowed.borrow_mut().push(Borrowed { lender, index, segments });
            dram.count(|figures| figures.borrowings += 1);
        }
    }

    /// A peer's DRAM as a drive reaches it, and as those do that work for the drive.
    fn lender(&self, number: usize, peer: usize) -> Lender {
        let member = &self.members[number];
        let mut lenders = member.dram.lenders.borrow_mut();
        let lender = lenders.entry(peer).or_insert_with(|| {
            let distance = |from| self.fabric.distance(Node::Drive(from), Node::Drive(peer));
            let lender = Lender::new(LenderId(peer as u8), &self.members[peer].site, &distance(number));
            let lender = lender.with_commit(self.config.dram.commit);
            let routes = member.routes.iter().enumerate();
            routes.filter_map(|(who, route)| Some((who, (*route)?))).fold(lender, |lender, (who, route)| {
                lender.with_route(route, (who != peer).then(|| distance(who)))
            })
        });
        lender.clone()
    }

    /// A drive is lost: with its power or its place, if it `is_off`, or with its port of the fabric alone. What others had of its DRAM
    /// is gone, and they recover it; what it had of theirs is theirs again, and it recovers what was there if it goes on.
    pub(super) fn dram_lost(&self, number: usize, is_off: bool) {
        self.members[number].dram.is_lost.set(true);
        self.lender_lost(number, is_off);
        self.borrower_lost(number, is_off);
    }

    /// It is back, and what it lends and borrows is nothing.
    pub(super) fn dram_back(&self, number: usize) {
        self.members[number].dram.is_lost.set(false);
    }

    /// A lender is gone: its borrowers recover what was in its DRAM, and its descriptors say nothing any more.
    fn lender_lost(&self, lender: usize, is_off: bool) {
        for (number, member) in self.members.iter().enumerate() {
            let before = member.dram.borrowed.borrow().len();
            member.dram.borrowed.borrow_mut().retain(|it| it.lender != lender);
            let has_lost = member.dram.borrowed.borrow().len() < before;
            if let Some(ftl) = member.powered.drive.controller.backing().ftl().filter(|_| has_lost) {
                debug_assert!(number != lender, "a drive borrows of others");
                ftl.lose_segments(LenderId(lender as u8));
            }
        }
        let member = &self.members[lender];
        let own = member.powered.drive.controller.backing().ftl().filter(|_| !is_off);
        for offer in member.dram.offers.take() {
            let borrower = member.table.withdraw(offer.index);
            borrower.into_iter().for_each(|borrower| member.table.give_back(offer.index, borrower));
            own.iter().for_each(|ftl| ftl.take_map_segments(offer.segments));
        }
    }

    /// A borrower is gone: what it had of others' DRAM is free, or its lender's again if that had withdrawn it.
    fn borrower_lost(&self, borrower: usize, is_off: bool) {
        let member = &self.members[borrower];
        let own = member.powered.drive.controller.backing().ftl().filter(|_| !is_off);
        for it in member.dram.borrowed.take() {
            own.iter().for_each(|ftl| _ = ftl.lose_segments(LenderId(it.lender as u8)));
            self.members[it.lender].table.give_back(it.index, DriveId(borrower as u8));
        }
    }

    pub(super) fn dram_figures(&self, number: usize) -> DramFigures {
        let member = &self.members[number];
        let (dram, ftl) = (&member.dram, member.powered.drive.controller.backing().ftl());
        let is_lent = |it: &&Offer| member.table.read(it.index).is_some_and(|it| it.borrower.is_some());
        let offers = dram.offers.borrow();
        let counters = ftl.map(Ftl::counters).unwrap_or_default();
        DramFigures {
            own: dram.shape.own,
            offered: offers.iter().map(|it| it.segments).sum(),
            lent: offers.iter().filter(is_lent).map(|it| it.segments).sum(),
            borrowed: dram.borrowed_segments(),
            look_ups: counters.map_hits + counters.map_misses + counters.map_misses_shared,
            hits: counters.map_hits,
            use_of: ftl.map(Ftl::borrow_figures).unwrap_or_default(),
            ..dram.figures.get()
        }
    }
}

/// Whether what was offered there is still another's.
fn is_in_use(now: Option<Descriptor>) -> bool {
    now.is_some_and(|now| matches!(now.resource, Resource::Dram { .. }) && !now.valid)
}
