//! Superblocks: which are free, open or closed, how many valid units each has, and which one to collect.
//!
//! The collector has two streams of its own making in mind: what the host wrote last and what it moves itself lie in
//! different superblocks. One superblock a die is always left to it, so it can end what it begins: a victim with some
//! stale units fits into one superblock, and gives one back.
//!
//! The victim is found by looking at all counts of the die. They lie side by side, and a look at a thousand of them
//! costs less than one of the moves that follow, so an ordered structure that every overwrite would have to maintain
//! is not worth it.

use super::base::BaseState;
use super::config::Victim;
use byteway_flash::{BlockId, Geometry, Ppa};
use std::collections::VecDeque;

/// Whose units an open superblock takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// What the host writes.
    Host = 0,
    /// What the collector moves.
    Collector = 1,
}

/// Set in a count while its superblock is not closed. Such counts are greater than those of all that can be victims.
const NOT_CLOSED: u32 = 1 << 31;

#[derive(Clone, Copy)]
struct Open {
    block: u32,
    next_stripe: u32,
}

/// A superblock of which not all stripes are programmed; some may be on their way.
struct Filling {
    block: u32,
    stripes_left: u32,
}

struct DieBlocks {
    free: VecDeque<u32>,
    open: [Option<Open>; 2],
    filling: Vec<Filling>,
    /// How many superblocks were closed so far: the clock by which they age.
    closings: u32,
    /// The collector found nothing worth collecting: it wants to know of the next unit that becomes stale, and of the
    /// next superblock that is closed, for that may have stale units already.
    starved: bool,
}

/// All superblocks of a drive.
pub(super) struct Blocks {
    geometry: Geometry,
    /// Valid units, with [`NOT_CLOSED`].
    counts: Vec<u32>,
    /// When it was closed, by its die's `closings`.
    closed_at: Vec<u32>,
    /// Stripes that hold what the base state put there.
    base_stripes: Vec<u32>,
    dies: Vec<DieBlocks>,
    reserve: usize,
}

impl Blocks {
    pub(super) fn new(geometry: Geometry, base: &BaseState, reserve: u32) -> Self {
        let total = geometry.total_blocks();
        let mut blocks = Blocks {
            geometry,
            counts: Vec::with_capacity(total as usize),
            closed_at: Vec::with_capacity(total as usize),
            base_stripes: Vec::with_capacity(total as usize),
            dies: Vec::with_capacity(geometry.dies() as usize),
            reserve: reserve as usize,
        };
        for die in 0..geometry.dies() {
            let mut of_die = DieBlocks {
                free: VecDeque::with_capacity(geometry.blocks as usize),
                open: [None; 2],
                filling: Vec::with_capacity(8),
                closings: 0,
                starved: true,
            };
            for block in (0..geometry.blocks).map(|block| geometry.block(die, block)) {
                let stripes = base.stripes(block);
                let mut count = base.valid(block);
                let mut closed_at = 0;
                if stripes == geometry.pages {
                    closed_at = of_die.closings;
                    of_die.closings += 1;
                } else {
                    count |= NOT_CLOSED;
                    let slot = of_die.open.iter_mut().find(|open| open.is_none());
                    match slot {
                        Some(open) if stripes > 0 => {
                            *open = Some(Open { block: block.0, next_stripe: stripes });
                            let stripes_left = geometry.pages - stripes;
                            of_die.filling.push(Filling { block: block.0, stripes_left });
                        }
                        _ => of_die.free.push_back(block.0),
                    }
                }
                blocks.counts.push(count);
                blocks.closed_at.push(closed_at);
                blocks.base_stripes.push(stripes);
            }
            blocks.dies.push(of_die);
        }
        blocks
    }

    /// Free superblocks of a die.
    pub(super) fn free(&self, die: u32) -> u32 {
        self.dies[die as usize].free.len() as u32
    }

    /// Valid units of a superblock.
    pub(super) fn valid(&self, block: BlockId) -> u32 {
        self.counts[block.0 as usize] & !NOT_CLOSED
    }

    /// Whether a superblock is closed: full, all of it programmed, and not being collected.
    pub(super) fn is_closed(&self, block: BlockId) -> bool {
        self.counts[block.0 as usize] & NOT_CLOSED == 0
    }

    /// Whether a stripe holds what the base state put there.
    pub(super) fn is_base(&self, block: BlockId, stripe: u32) -> bool {
        stripe < self.base_stripes[block.0 as usize]
    }

    /// Stripes that are left in a stream's open superblock.
    pub(super) fn stripes_left(&self, die: u32, stream: Stream) -> u32 {
        self.dies[die as usize].open[stream as usize].map_or(0, |open| self.geometry.pages - open.next_stripe)
    }

    /// Whether a stream can have a stripe of a die.
    pub(super) fn has_room(&self, die: u32, stream: Stream) -> bool {
        let of_die = &self.dies[die as usize];
        let keep = if stream == Stream::Host { self.reserve } else { 0 };
        of_die.open[stream as usize].is_some() || of_die.free.len() > keep
    }

    /// The next stripe of a stream, if it can have one: the caller programs it. Stripes of a superblock are given out
    /// in order.
    pub(super) fn take_stripe(&mut self, die: u32, stream: Stream) -> Option<(BlockId, u32)> {
        if !self.has_room(die, stream) {
            return None;
        }
        let pages = self.geometry.pages;
        let of_die = &mut self.dies[die as usize];
        let open = &mut of_die.open[stream as usize];
        let Open { block, next_stripe } = match *open {
            Some(open) => open,
            None => {
                let block = of_die.free.pop_front()?;
                of_die.filling.push(Filling { block, stripes_left: pages });
                Open { block, next_stripe: 0 }
            }
        };
        *open = (next_stripe + 1 < pages).then_some(Open { block, next_stripe: next_stripe + 1 });
        Some((BlockId(block), next_stripe))
    }

    /// A stripe has been programmed, `valid` units of which are valid. The last one closes its superblock. Gives the
    /// die if its collector wants to know of that.
    pub(super) fn programmed(&mut self, block: BlockId, valid: u32) -> Option<u32> {
        let die = self.geometry.die_of_block(block);
        let of_die = &mut self.dies[die as usize];
        let count = &mut self.counts[block.0 as usize];
        *count += valid;
        let index =
            of_die.filling.iter().position(|filling| filling.block == block.0).expect("it is being filled");
        let filling = &mut of_die.filling[index];
        filling.stripes_left -= 1;
        if filling.stripes_left > 0 {
            return None;
        }
        of_die.filling.swap_remove(index);
        *count &= !NOT_CLOSED;
        self.closed_at[block.0 as usize] = of_die.closings;
        of_die.closings = of_die.closings.wrapping_add(1);
        std::mem::take(&mut of_die.starved).then_some(die)
    }

    /// A unit is stale from now on. Gives the die if its collector wants to know.
    #[inline]
    pub(super) fn lost(&mut self, ppa: Ppa) -> Option<u32> {
        let block = self.geometry.block_of(ppa);
        let count = &mut self.counts[block.0 as usize];
        debug_assert!(*count & !NOT_CLOSED > 0, "a unit that was valid was counted");
        *count -= 1;
        let die = self.geometry.die_of_block(block);
        std::mem::take(&mut self.dies[die as usize].starved).then_some(die)
    }

    /// No unit is valid any more.
    pub(super) fn lose_all(&mut self) {
        self.counts.iter_mut().for_each(|count| *count &= NOT_CLOSED);
    }

    /// A die's collector has found nothing to do.
    pub(super) fn starve(&mut self, die: u32) {
        self.dies[die as usize].starved = true;
    }

    /// The superblock to collect next, if one has no more than `valid_most` valid units. It is no longer closed.
    pub(super) fn take_victim(&mut self, die: u32, policy: Victim, valid_most: u32) -> Option<BlockId> {
        let first = self.geometry.block(die, 0).0 as usize;
        let all = first..first + self.geometry.blocks as usize;
        let victim = match policy {
            Victim::Greedy => self.emptiest(all),
            Victim::CostBenefit => self.most_beneficial(all, valid_most, self.dies[die as usize].closings),
        }?;
        if self.counts[victim] > valid_most {
            return None;
        }
        self.counts[victim] |= NOT_CLOSED;
        Some(BlockId(victim as u32))
    }

    fn emptiest(&self, all: std::ops::Range<usize>) -> Option<usize> {
        let least = *self.counts[all.clone()].iter().min()?;
        if least & NOT_CLOSED != 0 {
            return None;
        }
        all.filter(|block| self.counts[*block] == least).min_by_key(|block| self.closed_at[*block])
    }

    fn most_beneficial(&self, all: std::ops::Range<usize>, valid_most: u32, now: u32) -> Option<usize> {
        let units = f64::from(self.geometry.units_per_block());
        let benefit = |block: &usize| {
            let age = f64::from(now.wrapping_sub(self.closed_at[*block]));
            let share = f64::from(self.counts[*block]) / units;
            if share == 0.0 { f64::INFINITY } else { age * (1.0 - share) / (2.0 * share) }
        };
        let mut best = None;
        for block in all.filter(|block| self.counts[*block] <= valid_most) {
            let benefit = benefit(&block);
            if best.is_none_or(|(_, most)| benefit > most) {
                best = Some((block, benefit));
            }
        }
        best.map(|(block, _)| block)
    }

    /// A superblock has been erased.
    pub(super) fn erased(&mut self, block: BlockId) {
        debug_assert_eq!(self.valid(block), 0, "nothing valid is erased");
        self.counts[block.0 as usize] = NOT_CLOSED;
        self.base_stripes[block.0 as usize] = 0;
        self.dies[self.geometry.die_of_block(block) as usize].free.push_back(block.0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::{Base, FtlConfig};
    use super::*;

    const GEOMETRY: Geometry =
        Geometry { channels: 1, ways: 1, planes: 1, blocks: 6, pages: 2, page_bytes: 8192 };

    fn blocks() -> Blocks {
        let config = FtlConfig { user_units: 8, base: Base::Empty, ..Default::default() };
        Blocks::new(GEOMETRY, &BaseState::new(GEOMETRY, &config), 1)
    }

    // If the host could open the last free superblock, the collector could never end and the drive would stand still.
    #[test]
    fn the_last_free_superblock_is_the_collectors() {
        let mut blocks = blocks();
        let host: Vec<_> = std::iter::from_fn(|| blocks.take_stripe(0, Stream::Host)).collect();
        assert_eq!(host.len(), 10);
        assert_eq!(host[0], (BlockId(0), 0));
        assert_eq!(host[3], (BlockId(1), 1));
        assert_eq!(blocks.free(0), 1);
        assert!(!blocks.has_room(0, Stream::Host));
        assert_eq!(blocks.take_stripe(0, Stream::Collector), Some((BlockId(5), 0)));
    }

    // A superblock with a program under way has too low a count: were it a victim, what arrives would be erased.
    #[test]
    fn a_superblock_is_no_victim_before_its_last_program_ended() {
        let mut blocks = blocks();
        let (first, _) = blocks.take_stripe(0, Stream::Host).unwrap();
        blocks.take_stripe(0, Stream::Host);
        blocks.programmed(first, 0);
        assert_eq!(blocks.take_victim(0, Victim::Greedy, 3), None);
        blocks.programmed(first, 2);
        assert_eq!(blocks.take_victim(0, Victim::Greedy, 1), None);
        assert_eq!(blocks.take_victim(0, Victim::Greedy, 3), Some(first));
        assert_eq!(blocks.take_victim(0, Victim::Greedy, 3), None, "it is being collected");
    }

    /// Closes four superblocks with so many valid units, one after another.
    fn closed(valid: [u32; 4]) -> Blocks {
        let mut blocks = blocks();
        for valid in valid {
            for stripe_valid in [valid / 2, valid - valid / 2] {
                let (block, _) = blocks.take_stripe(0, Stream::Host).unwrap();
                blocks.programmed(block, stripe_valid);
            }
        }
        blocks
    }

    // Greedy that did not take the emptiest, or cost-benefit that ignored age, would be other policies.
    #[test]
    fn each_policy_takes_its_victim() {
        let victim = |valid, policy| closed(valid).take_victim(0, policy, 3);
        assert_eq!(victim([3, 2, 3, 1], Victim::Greedy), Some(BlockId(3)), "the emptiest");
        assert_eq!(victim([3, 2, 2, 3], Victim::Greedy), Some(BlockId(1)), "the oldest of equals");
        assert_eq!(victim([4, 4, 4, 4], Victim::Greedy), None, "nothing is stale");
        // Of ages 4, 3, 2, 1: 4 * .25 / 1.5 = .67, 3 * .5 / 1 = 1.5, 2 * .25 / 1.5 = .33, 1 * .75 / .5 = 1.5.
        assert_eq!(victim([3, 2, 3, 1], Victim::CostBenefit), Some(BlockId(1)), "older, though fuller");
        assert_eq!(
            victim([3, 2, 3, 0], Victim::CostBenefit),
            Some(BlockId(3)),
            "what is empty costs nothing"
        );
        assert_eq!(victim([4, 4, 4, 4], Victim::CostBenefit), None, "nothing is stale");
    }

    // A collector that found nothing must hear of the next stale unit, once, and of the next superblock that closes.
    #[test]
    fn a_starved_collector_is_called() {
        let mut blocks = blocks();
        let program = |blocks: &mut Blocks| {
            let (block, _) = blocks.take_stripe(0, Stream::Host).unwrap();
            blocks.programmed(block, 2)
        };
        assert_eq!(program(&mut blocks), None);
        assert_eq!(program(&mut blocks), Some(0), "at the start it rests");
        assert_eq!(blocks.lost(Ppa(0)), None);
        blocks.starve(0);
        assert_eq!(blocks.lost(Ppa(1)), Some(0));
        assert_eq!(blocks.lost(Ppa(2)), None);
        assert_eq!(blocks.valid(BlockId(0)), 1);
        blocks.starve(0);
        assert_eq!(program(&mut blocks), None);
        assert_eq!(program(&mut blocks), Some(0));
    }
}
