//! What a drive reads ahead of its host.
//!
//! | file | contents |
//! |---|---|
//! | `view.rs` | [`Prefetch`], and what it sees |
//! | `handle.rs` | [`PrefetchPolicy`]: a policy under its name |
//! | `built_in.rs` | the list of those that every program has |
//! | `none.rs` | `none`: nothing |
//! | `sequential.rs` | `sequential:UNITS`: what follows in streams of reads, in a window that grows |
//!
//! A drive with a read cache asks its policy at each read of the host. What is read ahead costs what any read does: cores, dies, channels, and
//! DRAM on its way into the cache, where it takes the place of what was used least recently. A read of the host waits for what is on its way.
//! What is in the cache counts only while the map says the same, so what is written or deallocated meanwhile is never returned.

pub(super) mod built_in;
mod handle;
mod none;
mod sequential;
mod view;

pub use handle::{MadePrefetch, PrefetchPolicy};
pub use none::Nothing;
pub use sequential::Sequential;
pub use view::{Ahead, Prefetch, PrefetchView};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Policies, UnknownPolicy};
    use byteway_clock::Time;
    use byteway_clock::random::{Rng, Stream as Random};

    const UNITS: u64 = 1 << 20;

    fn asked(policy: &mut dyn Prefetch, random: &mut Random, first: u64, count: u32) -> Option<Ahead> {
        policy.ahead(&mut PrefetchView {
            first,
            count,
            hits: 0,
            on_their_way: 0,
            room: 4096,
            units: UNITS,
            idle_dies: &|| 4,
            dies: 4,
            now: Time::ZERO,
            random,
        })
    }

    /// What is read ahead beside reads of a unit each.
    fn ahead(policy: &mut dyn Prefetch, reads: impl IntoIterator<Item = u64>) -> Vec<Ahead> {
        let mut random = Rng::new(1).stream("prefetch");
        reads.into_iter().filter_map(|unit| asked(policy, &mut random, unit, 1)).collect()
    }

    // Units read twice, or not at all, would be waited for as if nothing had been read ahead.
    #[test]
    fn a_stream_is_read_ahead_whole_and_once() {
        for beside in [0, 1, 15] {
            let reads = (0..1000).flat_map(|at| (0..=beside).map(move |stream| 50_000 * stream + at));
            let found = ahead(&mut Sequential::new(64), reads);
            for stream in 0..=beside {
                let of_it = found.iter().filter(|ahead| ahead.first / 50_000 == stream);
                let end = of_it.fold(50_000 * stream + 3, |next, Ahead { first, count }| {
                    assert_eq!(*first, next, "no gap, and nothing twice");
                    assert!(*count <= 64);
                    first + u64::from(*count)
                });
                assert!((1000..1064).contains(&(end - 50_000 * stream)), "{end}: at most a window ahead");
            }
        }
        let found = ahead(&mut Sequential::new(64), 0..100);
        assert_eq!(
            found[..3].iter().map(|ahead| ahead.count).collect::<Vec<_>>(),
            [4, 6, 12],
            "windows of 4, 8 and 16, of which half of the last one is there"
        );
    }

    // A drive that reads ahead of random reads wears out its dies for nothing.
    #[test]
    fn random_reads_are_not_read_ahead() {
        let mut random = Rng::new(2).stream("reads");
        assert_eq!(ahead(&mut Sequential::new(64), (0..100_000).map(|_| random.below(UNITS))), []);
        assert_eq!(ahead(&mut Sequential::new(64), (0..1000).rev()), [], "backwards");
        assert_eq!(ahead(&mut Sequential::new(64), (0..1000).map(|at| 2 * at)), [], "with gaps");
        assert_eq!(ahead(&mut Nothing, 0..1000), []);
    }

    // Hosts with several reads in flight send them in order, and cores serve them in almost that order.
    #[test]
    fn reads_that_overtake_each_other_are_of_one_stream() {
        let in_pairs = (0..500).flat_map(|pair| [2 * pair + 1, 2 * pair]);
        let found = ahead(&mut Sequential::new(64), (0..8).chain(in_pairs.skip(8)));
        let units: u32 = found.iter().map(|ahead| ahead.count).sum();
        assert!((1000 - 8..1000 + 64).contains(&units), "{units}");
    }

    #[test]
    fn a_window_is_as_long_as_its_reads_at_least_and_ends_with_the_drive() {
        let mut random = Rng::new(1).stream("prefetch");
        let policy = &mut Sequential::new(64);
        let found: Vec<_> =
            (0..5).filter_map(|at| asked(policy, &mut random, UNITS - 5 * 32 + 32 * at, 32)).collect();
        assert_eq!(found.last().map(|ahead| ahead.first + u64::from(ahead.count)), Some(UNITS));
        assert_eq!(found[0].count, 32, "{found:?}");
    }

    #[test]
    fn a_wrong_name_or_argument_is_refused() {
        let policies = Policies::default();
        assert_eq!(policies.find::<dyn Prefetch>("sequentail"), Err(UnknownPolicy::Name));
        for wrong in ["none:1", "sequential", "sequential:0", "sequential:65537", "sequential:4KiB"] {
            let found = policies.find::<dyn Prefetch>(wrong);
            assert!(matches!(found, Err(UnknownPolicy::Argument(_))), "{wrong}");
        }
        assert!(policies.find::<dyn Prefetch>("none").unwrap().is_default());
    }
}
