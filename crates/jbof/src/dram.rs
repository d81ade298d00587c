//! The DRAM part of a drive's daemon: it samples look-ups of map pages, lends segments that save the drive no misses,
//! and borrows as many as bring its miss ratio below the target ("Espresso", 4.5).
//!
//! Once a period, from the miss ratio curve ([`MapSample`]):
//!
//! - a drive that needs more than its own DRAM withdraws its offers, and borrows the best fits among its peers' offers
//!   until it has enough. What it no longer needs it gives back in whole descriptors;
//! - any other drive gives back all that it has borrowed, and offers spare segments in a few descriptors, so that
//!   several peers can have a part. It empties that DRAM before offering it;
//! - a drive whose own look-ups miss more than the target while it lends has a workload that its curve does not know
//!   yet: it withdraws all offers, and begins a new sample;
//! - a borrower of a withdrawn descriptor leaves the DRAM, page by page, and gives it back. Only then is it the
//!   lender's again.
//!
//! Tables are read over the fabric, and may be out of date by then: a claim names the descriptor as it was read and
//! fails if it has changed, and a daemon that comes too late tries again in the next period.
//!
//! **When a drive is lost**, with its power or with its link to the fabric, both ends of its loans notice at once
//! ([`Inner::dram_lost`]). Its borrowers recover the pages in its DRAM from flash and their logs; its lenders get their
//! DRAM back.
//!
//! What it does not do: a lender does not clear DRAM that it gets back; an offer is not divided; a drive whose DRAM
//! holds the whole map takes no part.

use super::state::{Borrowed, DramFigures, Inner, Member, Offer, Present, PresentDram};
use crate::decision::DriveId;
use crate::decision::descriptor::{DESCRIPTORS, Descriptor, Resource};
use crate::decision::policy;
use crate::fabric::Node;
use byteway_firmware::{Ftl, Lender, LenderId, WorkKind};
use std::rc::Rc;

#[cfg(doc)]
use crate::decision::demand::MapSample;

/// Divisor of the part of a drive's DRAM that must become spare before it offers more: noise in the estimate must not
/// move pages back and forth.
const SPARE_PARTS: u32 = 16;

/// DRAM that keeps the miss ratio below this fraction of the target is not given back, for the same reason.
const KEEP: f64 = 0.8;

/// Minimum number of look-ups in a period for a meaningful miss ratio.
const LOOKS_LEAST: u64 = 32;

/// A drive with the values that the steps below need.
#[derive(Clone, Copy)]
struct Own<'a> {
    number: usize,
    member: &'a Member,
    dram: &'a PresentDram,
    ftl: &'a Ftl,
}

impl Own<'_> {
    /// Whether the drive's own look-ups missed more than the target in the last period while DRAM was offered
    /// or lent. Misses show this even when a workload is too recent for its curve.
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

/// Runs the DRAM part of a drive's daemon.
pub(super) async fn daemon(inner: Rc<Inner>, number: usize, present: Rc<Present>) {
    let (config, dram) = (&inner.config, &present.dram);
    let ftl = present.powered.drive.controller.backing().ftl().filter(|_| dram.shape.own > 0);
    let Some(ftl) = ftl else { return };
    ftl.monitor_map(Some(dram.sample.clone()));
    let own = Own { number, member: &inner.members[number], dram, ftl };
    loop {
        inner.clock.sleep(config.period).await;
        let service = own.member.site.spend(WorkKind::Poll, config.daemon);
        inner.clock.sleep_until(service.end).await;
        if own.misses_what_it_lends(config.dram.miss_ratio) {
            own.withdraw(dram.offered_segments());
            own.take_back();
            dram.sample.restart();
            // The new sample has no curve yet.
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
    /// Takes back segments of withdrawn offers without a borrower.
    fn take_back(&self) {
        let is_back =
            |offer: &mut Offer| offer.is_withdrawn && !is_in_use(self.member.table.read(offer.index));
        let back: Vec<Offer> = self.dram.offers.borrow_mut().extract_if(.., is_back).collect();
        back.iter().for_each(|offer| self.ftl.take_map_segments(offer.segments));
    }

    /// Withdraws offers of at least `segments` segments, those without a borrower first.
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

    /// Offers about `spare` segments, at most that many, in at most `descriptors` descriptors.
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
        self.ftl.take_map_segments(left); // no descriptor was left for them
    }
}

impl Inner {
    /// Leaves the segments that lenders have withdrawn.
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

    /// Returns descriptors with more segments than the drive needs.
    async fn give_back_surplus(&self, own: Own<'_>, wants: u32) {
        loop {
            let surplus = own.dram.borrowed_segments().saturating_sub(wants);
            let last = own.dram.borrowed.borrow().iter().rev().find(|it| it.segments <= surplus).copied();
            let Some(it) = last else { return };
            self.give_back_dram(own, it).await;
            own.dram.count(|figures| figures.returns += 1);
        }
    }

    /// Reads back the dirty pages in a descriptor's segments, and gives it back.
    async fn give_back_dram(&self, own: Own<'_>, it: Borrowed) {
        own.ftl.give_back_segments(LenderId(it.lender as u8), it.segments).await;
        let is_said = self.write_table(own.node(), it.lender).await.is_ok();
        // If the lender was lost meanwhile, the borrowed segments were, too.
        let mut borrowed = own.dram.borrowed.borrow_mut();
        let at = borrowed.iter().position(|other| (other.lender, other.index) == (it.lender, it.index));
        if let Some(at) = at {
            debug_assert!(is_said, "both ends see at once that a lender is lost");
            borrowed.remove(at);
            self.members[it.lender].table.give_back(it.index, own.id());
        }
    }

    /// Borrows the best fits until the drive has enough segments, or nothing is offered.
    async fn borrow_dram(&self, own: Own<'_>, wants: u32) {
        let dram = own.dram;
        if dram.borrowed_segments() >= wants {
            return;
        }
        let mut offers: Vec<(usize, usize, Descriptor, u32)> = Vec::new();
        for peer in (0..self.members.len()).filter(|peer| *peer != own.number) {
            if self.read_table(own.node(), peer).await.is_err() {
                continue; // it has no offers
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

    /// A peer's DRAM, as this drive and the drives that work for it reach it.
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

    /// Handles the loss of a drive: with its power, if it `is_off`, or with its link to the fabric only. Pages of
    /// others in its DRAM are lost, and their owners recover them. DRAM that it had borrowed returns to its lenders; if
    /// the drive is still running it recovers those pages, and gets its own DRAM back.
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

/// Whether a withdrawn offer still has a borrower.
fn is_in_use(now: Option<Descriptor>) -> bool {
    now.is_some_and(|now| matches!(now.resource, Resource::Dram { .. }) && !now.valid)
}
