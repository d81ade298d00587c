//! How evenly the superblocks of a die wear: which free one is opened, and which one's data are moved so that it wears, too.
//!
//! | file | contents |
//! |---|---|
//! | `view.rs` | [`Wear`], and what it sees |
//! | `handle.rs` | [`WearPolicy`]: a policy under its name |
//! | `built_in.rs` | the list of those that every program has |
//! | `fifo.rs` | `fifo`: opens the one that has been free for longest, moves nothing |
//! | `dynamic.rs` | `dynamic`: opens the least worn one, moves nothing |
//! | `spread.rs` | `static:SPREAD`: moves cold data where erase counts are further apart |
//! | `random.rs` | `random:N`: moves the data of one at random after one of N erases |
//!
//! A drive asks its policy when it opens a superblock and two or more are free; and, if the policy moves data, whenever a superblock of the
//! die was erased. It keeps a superblock open for what is moved, beside those of streams.
//!
//! One-bit caches and bad superblocks are not asked about.

pub(super) mod built_in;
mod dynamic;
mod fifo;
mod handle;
mod random;
mod spread;
mod view;

pub use dynamic::Dynamic;
pub use fifo::Fifo;
pub use handle::{MadeWear, WearPolicy};
pub use random::AtRandom;
pub use spread::Spread;
pub use view::{ClosedBlock, Opening, Wear, WearView, WornBlock};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Policies, UnknownPolicy};
    use byteway_clock::random::Rng;
    use std::collections::VecDeque;

    const OPEN: u32 = 1 << 31;

    /// A die with superblocks of 8 units, of these erase counts, of which these are free and none is open.
    fn with<T>(erases: &[u32], free: &[u32], ask: impl FnOnce(&mut WearView<'_>) -> T) -> T {
        let free: VecDeque<u32> = free.iter().copied().collect();
        let counts: Vec<u32> =
            (0..erases.len() as u32).map(|block| if free.contains(&block) { OPEN } else { 8 }).collect();
        let closed_at: Vec<u32> = (0..erases.len() as u32).collect();
        let (is_bad, mut random) = (vec![false; erases.len()], Rng::new(1).stream("wear"));
        ask(&mut WearView {
            erases,
            is_bad: &is_bad,
            counts: &counts,
            closed_at: &closed_at,
            valid_most: 8,
            closings: erases.len() as u32,
            free: &free,
            first: 0,
            units: 8,
            die: 0,
            random: &mut random,
        })
    }

    #[test]
    fn each_opens_what_it_says() {
        let opens = |policy: &mut dyn Wear, opening| {
            with(&[9, 4, 3, 4, 7, 0], &[4, 3, 1, 0], |view| policy.open(view, opening))
        };
        for opening in [Opening::Host, Opening::Collector, Opening::Moved] {
            assert_eq!(opens(&mut Fifo, opening), 4, "freed first");
        }
        for policy in [&mut Dynamic as &mut dyn Wear, &mut Spread::new(4), &mut AtRandom::new(4)] {
            assert_eq!(opens(policy, Opening::Host), 3, "of the least worn the one freed first");
            assert_eq!(opens(policy, Opening::Collector), 3);
            assert_eq!(opens(policy, Opening::Moved), 0, "cold data rest where much is worn");
        }
    }

    #[test]
    fn static_moves_what_has_been_closed_for_longest_beyond_the_spread() {
        let moves =
            |spread, erases: &[u32], free: &[u32]| with(erases, free, |view| Spread::new(spread).level(view));
        assert_eq!(moves(8, &[8, 0, 1, 8], &[0]), None, "8 apart");
        assert_eq!(moves(7, &[8, 0, 1, 8], &[0]), Some(1));
        assert_eq!(moves(7, &[9, 1, 0, 9], &[0]), Some(1), "nearly as little worn, and older");
        assert_eq!(moves(7, &[20, 0, 0, 1], &[3]), None, "what is free is not worn itself");
        assert!(!Dynamic.moves() && !Fifo.moves() && Spread::new(1).moves() && AtRandom::new(1).moves());
    }

    // Without rest, data would be moved after each erase: below three quarters of the limit it ends.
    #[test]
    fn static_rests_where_counts_are_close_again() {
        let mut policy = Spread::new(8);
        let mut moves = |least| with(&[20, least, 20], &[0], |view| policy.level(view));
        assert_eq!(
            (moves(12), moves(11), moves(13), moves(14), moves(12)),
            (None, Some(1), Some(1), None, None)
        );
    }

    // A draw that is forgotten before its turn would move less than is said.
    #[test]
    fn a_superblock_that_was_drawn_stays_so_until_it_is_moved() {
        let mut policy = AtRandom::new(1);
        let mut moves = |erases: &[u32], free: &[u32]| with(erases, free, |view| policy.level(view));
        assert_eq!(moves(&[5, 5, 5, 5], &[0]), None, "no erase");
        let drawn = moves(&[6, 5, 5, 5], &[0]).unwrap();
        assert!(drawn != 0, "it is closed");
        assert_eq!(moves(&[7, 5, 5, 5], &[0]), Some(drawn));
        assert!(moves(&[9, 5, 5, 5], &[drawn]).is_some_and(|next| next != drawn), "it was moved");
        let mut alone = AtRandom::new(1);
        let mut moves = |erases: &[u32], free: &[u32]| with(erases, free, |view| alone.level(view));
        assert_eq!(moves(&[5, 5, 5, 5], &[0]), None);
        let drawn = moves(&[6, 5, 5, 5], &[0]).unwrap();
        let mut erases = [6, 5, 5, 5];
        erases[drawn as usize] += 1;
        assert_eq!(moves(&erases, &[drawn]), None, "what is moved is no reason to move more");
        let mut rare = AtRandom::new(u32::MAX);
        let drawn = (0..1000).filter_map(|at| with(&[at, 1, 1, 1], &[0], |view| rare.level(view)));
        assert_eq!(drawn.count(), 0);
    }

    #[test]
    fn a_wrong_name_or_argument_is_refused() {
        let policies = Policies::default();
        assert_eq!(policies.find::<dyn Wear>("dinamic"), Err(UnknownPolicy::Name));
        for wrong in ["fifo:1", "dynamic:", "static", "static:0", "static:1000001", "random:x"] {
            assert!(matches!(policies.find::<dyn Wear>(wrong), Err(UnknownPolicy::Argument(_))), "{wrong}");
        }
        assert!(policies.find::<dyn Wear>("fifo").unwrap().is_default());
        assert!(policies.find::<dyn Wear>("static:8").unwrap().make().moves());
    }
}
