//! A drive's daemon: each period its monitor looks, and its manager lends, borrows, or does neither.

use super::Inner;
use super::member::Then;
use byteway_firmware::Work;
use byteway_host::Redirection;
use byteway_jbof::DriveId;
use byteway_jbof::descriptor::{Descriptor, Resource, TABLE_BYTES, Utilisation};
use byteway_jbof::fabric::{LINE_BYTES, Node};
use byteway_jbof::policy::{self, Action};
use std::rc::Rc;

/// A drive's daemon: monitor and manager.
pub(super) async fn daemon(inner: Rc<Inner>, number: usize) {
    let Inner { clock, config, members, .. } = &*inner;
    let member = &members[number];
    let mut then = Then { at: clock.now(), ..Then::default() };
    loop {
        clock.sleep(config.period).await;
        let (processor, own, data_end) = member.monitor(clock.now(), &mut then);
        let service = member.site.spend(Work::Poll, config.daemon);
        clock.sleep_until(service.end).await;
        // What it does for a borrower is no reason to end that: it lends what its own work leaves.
        let action = policy::action(own, data_end, config.watermark);
        member.lend(&inner, number, action == Action::Lend && member.borrows.get().is_none());
        inner.borrow(number, action == Action::Borrow, processor).await;
    }
}

impl Inner {
    /// Reads a table over the fabric.
    pub(super) async fn read_table(&self, from: Node, of: usize) {
        let asked = self.fabric.send(from, Node::Drive(of), 0);
        self.clock.sleep_until(asked.arrival).await;
        let table = self.fabric.send(Node::Drive(of), from, TABLE_BYTES as u64);
        self.clock.sleep_until(table.arrival).await;
    }

    /// Has a drive borrow a processor of a peer, or give back what it has.
    async fn borrow(&self, number: usize, wants: bool, processor: f64) {
        let (member, me) = (&self.members[number], DriveId(number as u8));
        let here = Node::Drive(number);
        if let Some((lender, index)) = member.borrows.get() {
            let table = &self.members[lender].table;
            // What it says is a line that crosses, like what it gives back.
            let said = self.fabric.send(here, Node::Drive(lender), LINE_BYTES);
            self.clock.sleep_until(said.arrival).await;
            let has = table.read(index).filter(|it| it.valid && it.borrower == Some(me));
            match has.map(|it| it.resource) {
                // It is less busy because a part of its commands goes elsewhere: what the lender does may all be for it.
                Some(Resource::Processor { lender, .. })
                    if !wants && processor + lender.share() <= self.config.watermark =>
                {
                    table.give_back(index, me);
                    member.borrows.set(None);
                }
                Some(_) => table.update(index, |resource| {
                    if let Resource::Processor { borrower, .. } = resource {
                        *borrower = Utilisation::of(processor);
                    }
                }),
                None => member.borrows.set(None),
            }
            return;
        }
        if !wants || member.lends.get().is_some() {
            return;
        }
        let mut offers = Vec::new();
        for peer in (0..self.members.len()).filter(|peer| *peer != number) {
            self.read_table(here, peer).await;
            let free = self.members[peer].table.iter().filter(|(_, it)| it.valid && it.borrower.is_none());
            offers
                .extend(free.filter(|(_, it)| !it.served && !it.bound).map(|(index, it)| (peer, index, it)));
        }
        let idle = |descriptor: &Descriptor| match descriptor.resource {
            Resource::Processor { lender, .. } => u64::from(u16::MAX - lender.0),
            Resource::Dram { .. } => 0,
        };
        // Half of what it needs, so that both are as busy.
        let wanted = (processor / 2.0 * f64::from(u16::MAX)) as u64;
        let Some(best) = policy::best_fit(offers.iter().map(|(.., it)| idle(it)), wanted) else { return };
        let (lender, index, seen) = offers[best];
        let claimed = self.fabric.send(here, Node::Drive(lender), LINE_BYTES);
        self.clock.sleep_until(claimed.arrival).await;
        let table = &self.members[lender].table;
        if table.claim(index, &seen, me).is_ok() {
            let busiest = {
                let own = member.own.borrow();
                own.iter().map(Redirection::queue).max_by_key(|queue| (queue.outstanding(), queue.qid()))
            };
            let queue = busiest.map_or(0, |queue| queue.cqid());
            table.update(index, |resource| {
                if let Resource::Processor { borrower_queue, borrower, .. } = resource {
                    (*borrower_queue, *borrower) = (queue, Utilisation::of(processor));
                }
            });
            member.borrows.set(Some((lender, index)));
            member.count(|figures| figures.borrowed += 1);
        }
    }
}
