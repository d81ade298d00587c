//! What a drive's daemon does about DRAM: it samples which pages of the map are looked up, lends what helps the drive nothing, and borrows
//! what brings its miss ratio below the aim ("Espresso", 4.5).
//!
//! Once a period, by the curve of miss ratios ([`MapSample`]):
//!
//! - a drive that needs more than all of its own DRAM withdraws what it has offered, and borrows the best fits among its peers' offers
//!   until it has what it needs. Of what it needs no more it gives back whole descriptors;
//! - one that doesn't gives back all that it has borrowed, and offers what it can do without, in a few descriptors, so that several
//!   peers can have a part. It empties that DRAM before it offers it;
//! - one whose own look-ups miss more than the aim while it lends has a load that its curve does not know yet: it withdraws all that it has
//!   offered, and begins a new sample;
//! - a borrower whose descriptor was withdrawn leaves the DRAM, page by page, and gives it back. Not before that is it the lender's again.
//!
//! The tables are read over the fabric, and stale by then: a claim that names what was seen fails if it is so no more, and whoever
//! comes too late looks again a period later.
//!
//! **When a drive is lost**, with its power or with its link to the fabric, both ends of what it lent and borrowed see that at once
//! ([`Inner::dram_lost`]). Its borrowers recover what was in its DRAM, by what flash and their logs say; its lenders have theirs back.
//!
//! What it does not do: a lender does not clear what it has back; nothing that is offered is divided; a drive whose DRAM holds the
//! whole map takes no part.

use super::Inner;
use super::member::{Member, Present};
use byteway_clock::{Delay, TaskId};
use byteway_firmware::{BorrowFigures, Ftl, Lender, LenderId, Work};
use byteway_jbof::DriveId;
use byteway_jbof::demand::{MISS_RATIO_WANTED, MapSample, SampleConfig, Segments};
use byteway_jbof::descriptor::{DESCRIPTORS, Descriptor, Resource};
use byteway_jbof::fabric::Node;
use byteway_jbof::policy;
use byteway_world::PoweredDrive;
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

/// What keeps the miss ratio below this part of the aim is not given back, for the same reason.
const KEEP: f64 = 0.8;

/// Of fewer look-ups in a period a share says nothing.
const LOOKS_LEAST: u64 = 32;

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

/// The DRAM of a drive that has power, and what it has lent and borrowed.
pub(super) struct PresentDram {
    pub(super) task: Cell<Option<TaskId>>,
    sample: Rc<MapSample>,
    /// Segments of its own; 0: it takes no part.
    shape: Segments,
    offers: RefCell<Vec<Offer>>,
    borrowed: RefCell<Vec<Borrowed>>,
    /// Peers as they look from here, made when they are first borrowed of.
    lenders: RefCell<BTreeMap<usize, Lender>>,
    figures: Cell<DramFigures>,
    /// Look-ups that had found their page at the last look, and that had not.
    looked: Cell<(u64, u64)>,
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

impl PresentDram {
    /// That of a drive whose power has just come.
    pub(super) fn new(config: &DramConfig, drive: &PoweredDrive, seed: u64) -> Self {
        let ftl = drive.drive.controller.backing().ftl();
        let pages = ftl.map_or(0, Ftl::map_segment_pages).max(1);
        let own = ftl.and_then(Ftl::map_frames).map_or(0, |frames| frames / pages);
        PresentDram {
            task: Cell::default(),
            sample: Rc::new(MapSample::new(config.sample, seed)),
            shape: Segments { own, pages },
            offers: RefCell::default(),
            borrowed: RefCell::default(),
            lenders: RefCell::default(),
            figures: Cell::default(),
            looked: Cell::default(),
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

/// A drive, as the steps below need it.
#[derive(Clone, Copy)]
struct Own<'a> {
    number: usize,
    member: &'a Member,
    dram: &'a PresentDram,
    ftl: &'a Ftl,
}

impl Own<'_> {
    /// Whether its own look-ups have missed more than the aim in the last period, while it has DRAM on offer or lent. A load that has just
    /// come has a curve that says nothing yet, but it misses.
    fn misses_what_it_lends(&self, aim: f64) -> bool {
        let counters = self.ftl.counters();
        let now = (counters.map_hits, counters.map_misses + counters.map_misses_shared);
        let then = self.dram.looked.replace(now);
        let (hits, misses) = (now.0 - then.0, now.1 - then.1);
        let looks = hits + misses;
        self.dram.offered_segments() > 0 && looks >= LOOKS_LEAST && misses as f64 > aim * looks as f64
    }

    fn node(&self) -> Node {
        Node::Drive(self.number)
    }

    fn id(&self) -> DriveId {
        DriveId(self.number as u8)
    }
}

/// The part of a drive's daemon that is about DRAM.
pub(super) async fn daemon(inner: Rc<Inner>, number: usize, present: Rc<Present>) {
    let (config, dram) = (&inner.config, &present.dram);
    let ftl = present.powered.drive.controller.backing().ftl().filter(|_| dram.shape.own > 0);
    let Some(ftl) = ftl else { return };
    ftl.monitor_map(Some(dram.sample.clone()));
    let own = Own { number, member: &inner.members[number], dram, ftl };
    loop {
        inner.clock.sleep(config.period).await;
        let service = own.member.site.spend(Work::Poll, config.daemon);
        inner.clock.sleep_until(service.end).await;
        if own.misses_what_it_lends(config.dram.miss_ratio) {
            own.withdraw(dram.offered_segments());
            own.take_back();
            dram.sample.restart();
            // Of the new sample nothing is known yet.
            continue;
        }
        let curve = dram.sample.curve();
        let most = ftl.map_pages().div_ceil(dram.shape.pages).saturating_sub(dram.shape.own);
        let wants = dram.shape.to_borrow(&curve, config.dram.miss_ratio, most);
        own.take_back();
        inner.leave_withdrawn(own).await;
        let keeps = dram.shape.to_borrow(&curve, KEEP * config.dram.miss_ratio, most);
        inner.give_back_surplus(own, keeps.max(wants)).await;
        if wants > 0 {
            own.withdraw(dram.offered_segments());
            own.take_back();
            inner.borrow_dram(own, wants).await;
        } else {
            let is_reliable = dram.sample.is_reliable();
            let spare = if is_reliable { dram.shape.to_lend(&curve) } else { 0 };
            own.offer(config.dram.offers, spare, is_reliable).await;
        }
    }
}

impl Own<'_> {
    /// What has been withdrawn, and has no borrower any more, is the drive's own again.
    fn take_back(&self) {
        let is_back =
            |offer: &mut Offer| offer.is_withdrawn && !is_in_use(self.member.table.read(offer.index));
        let back: Vec<Offer> = self.dram.offers.borrow_mut().extract_if(.., is_back).collect();
        back.iter().for_each(|offer| self.ftl.take_map_segments(offer.segments));
    }

    /// Withdraws offers of at least so many segments, those first that no drive has.
    fn withdraw(&self, segments: u32) {
        let table = &self.member.table;
        let has_borrower = |offer: &Offer| table.read(offer.index).is_some_and(|it| it.borrower.is_some());
        let mut offers = self.dram.offers.borrow_mut();
        let mut left = segments;
        for is_lent in [false, true] {
            for offer in offers.iter_mut().filter(|it| !it.is_withdrawn && has_borrower(it) == is_lent) {
                if left == 0 {
                    return;
                }
                left = left.saturating_sub(offer.segments);
                table.withdraw(offer.index);
                offer.is_withdrawn = true;
            }
        }
    }

    /// Offers so many segments in at most so many descriptors: no more, and not much less.
    async fn offer(&self, descriptors: usize, spare: u32, is_reliable: bool) {
        let dram = self.dram;
        let offered = dram.offered_segments();
        if is_reliable && spare < offered {
            self.withdraw(offered - spare);
            self.take_back();
            return;
        }
        let all = dram.offers.borrow().iter().map(|it| it.segments).sum();
        let free = descriptors.min(DESCRIPTORS - 1).saturating_sub(dram.offers.borrow().len());
        let more = spare.saturating_sub(all);
        if free == 0 || more < (dram.shape.own / SPARE_PARTS).max(1) {
            return;
        }
        let mut left = self.ftl.give_up_map_segments(more).await;
        for piece in (1..=free as u32).rev() {
            let segments = left.div_ceil(piece);
            if segments == 0 {
                continue;
            }
            let list = dram.offers.borrow().iter().map(|it| it.segments).sum();
            let Some(index) = self.member.table.publish(Resource::Dram { segments, list, log: 0 }) else {
                break;
            };
            dram.offers.borrow_mut().push(Offer { index, segments, is_withdrawn: false });
            left -= segments;
        }
        self.ftl.take_map_segments(left); // there was no descriptor for them
    }
}

impl Inner {
    /// A drive leaves what its lenders have withdrawn.
    async fn leave_withdrawn(&self, own: Own<'_>) {
        let all: Vec<Borrowed> = own.dram.borrowed.borrow().clone();
        for it in all {
            if self.read_table(own.node(), it.lender).await.is_err() {
                continue;
            }
            let now = self.members[it.lender].table.read(it.index);
            if now.is_some_and(|now| now.borrower == Some(own.id()) && !now.valid) {
                self.give_back_dram(own, it).await;
                own.dram.count(|figures| figures.reclaimed += 1);
            }
        }
    }

    /// A drive gives descriptors back whose segments are more than it wants.
    async fn give_back_surplus(&self, own: Own<'_>, wants: u32) {
        loop {
            let surplus = own.dram.borrowed_segments().saturating_sub(wants);
            let last = own.dram.borrowed.borrow().iter().rev().find(|it| it.segments <= surplus).copied();
            let Some(it) = last else { return };
            self.give_back_dram(own, it).await;
            own.dram.count(|figures| figures.returns += 1);
        }
    }

    /// A drive reads back what is in a descriptor's segments, and gives it back.
    async fn give_back_dram(&self, own: Own<'_>, it: Borrowed) {
        own.ftl.give_back_segments(LenderId(it.lender as u8), it.segments).await;
        let is_said = self.write_table(own.node(), it.lender).await.is_ok();
        // If the lender was lost meanwhile, so is what was borrowed of it.
        let mut borrowed = own.dram.borrowed.borrow_mut();
        let at = borrowed.iter().position(|other| (other.lender, other.index) == (it.lender, it.index));
        if let Some(at) = at {
            debug_assert!(is_said, "both ends see at once that a lender is lost");
            borrowed.remove(at);
            self.members[it.lender].table.give_back(it.index, own.id());
        }
    }

    /// A drive borrows the best fits until it has what it wants, or nothing is offered.
    async fn borrow_dram(&self, own: Own<'_>, wants: u32) {
        let dram = own.dram;
        if dram.borrowed_segments() >= wants {
            return;
        }
        let mut offers: Vec<(usize, usize, Descriptor, u32)> = Vec::new();
        for peer in (0..self.members.len()).filter(|peer| *peer != own.number) {
            if self.read_table(own.node(), peer).await.is_err() {
                continue; // it offers nothing
            }
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
            if self.write_table(own.node(), lender).await.is_err() {
                continue;
            }
            if self.members[lender].table.claim(index, &seen, own.id()).is_err() {
                dram.count(|figures| figures.claims_failed += 1);
                continue;
            }
            own.ftl.borrow_segments(&self.lender(own, lender), segments);
            dram.borrowed.borrow_mut().push(Borrowed { lender, index, segments });
            dram.count(|figures| figures.borrowings += 1);
        }
    }

    /// A peer's DRAM as a drive reaches it, and as those do that work for the drive.
    fn lender(&self, own: Own<'_>, peer: usize) -> Lender {
        let mut lenders = own.dram.lenders.borrow_mut();
        let lender = lenders.entry(peer).or_insert_with(|| {
            let distance = |from| self.fabric.distance(Node::Drive(from), Node::Drive(peer));
            let memory = &self.members[peer].site;
            let lender = Lender::new(LenderId(peer as u8), memory, &distance(own.number));
            let lender = lender.with_commit(self.config.dram.commit);
            let routes = own.member.routes.iter().enumerate();
            routes.filter_map(|(who, route)| Some((who, (*route)?))).fold(lender, |lender, (who, route)| {
                lender.with_route(route, (who != peer).then(|| distance(who)))
            })
        });
        lender.clone()
    }

    /// A drive is lost: with its power, if it `is_off`, or with its link to the fabric alone. What others had of its DRAM is gone, and
    /// they recover it. What it had of theirs is theirs again; if it goes on it recovers that, and has its own DRAM back.
    pub(super) fn dram_lost(&self, number: usize, lost: &Present, is_off: bool) {
        for other in self.members.iter().filter_map(Member::present) {
            let mut borrowed = other.dram.borrowed.borrow_mut();
            let before = borrowed.len();
            borrowed.retain(|it| it.lender != number);
            if borrowed.len() < before
                && let Some(ftl) = other.powered.drive.controller.backing().ftl()
            {
                ftl.lose_segments(LenderId(number as u8));
            }
        }
        let own = lost.powered.drive.controller.backing().ftl().filter(|_| !is_off);
        let table = &self.members[number].table;
        for offer in lost.dram.offers.take() {
            let borrower = table.withdraw(offer.index);
            borrower.into_iter().for_each(|borrower| table.give_back(offer.index, borrower));
            own.iter().for_each(|ftl| ftl.take_map_segments(offer.segments));
        }
        for it in lost.dram.borrowed.take() {
            self.members[it.lender].table.give_back(it.index, DriveId(number as u8));
            own.iter().for_each(|ftl| _ = ftl.lose_segments(LenderId(it.lender as u8)));
        }
    }

    pub(super) fn dram_figures(&self, number: usize) -> DramFigures {
        let member = &self.members[number];
        let Some(present) = member.present() else { return DramFigures::default() };
        let (dram, ftl) = (&present.dram, present.powered.drive.controller.backing().ftl());
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
