//! Which of a die's open superblocks a write goes to.
//!
//! | file | contents |
//! |---|---|
//! | `view.rs` | [`Stream`], and what it sees |
//! | `handle.rs` | [`StreamPolicy`]: a policy under its name |
//! | `built_in.rs` | the list of those that every program has |
//! | `separate.rs` | `separate`: one stream of the host, and one of garbage collection |
//! | `hot_cold.rs` | `hot-cold`: two streams of the host, by Bloom filters of recent writes |
//! | `program.rs` | an eBPF program's choice |
//! | `sep_bit.rs` | `sepbit`: classes by estimated remaining life |
//!
//! A drive asks its policy about each unit of 4 KiB that the host writes, when it enters the write buffer, and about each valid unit that
//! garbage collection reads to move it. Superblocks hold data of one stream each, so data that become stale together lie together.
//!
//! Not asked: translation pages, which go to the first stream of the host, and of the collector when they are moved; data moved for wear
//! leveling or refresh, which have a stream of their own; and, on a die without a free superblock, what is moved goes wherever there is space.

pub(super) mod built_in;
mod handle;
mod hot_cold;
mod program;
mod sep_bit;
mod separate;
mod view;

pub(crate) use handle::counts_of;
pub use handle::{MadeStream, StreamPolicy};
pub use hot_cold::HotCold;
pub use program::StreamProgram;
pub use sep_bit::SepBit;
pub use separate::Separate;
pub use view::{Filler, STREAMS_MAX, Source, Stream, StreamCounts, StreamView};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{NoProgram, Policies, UnknownPolicy};
    use byteway_clock::random::Rng;

    /// Units of the drive.
    const UNITS: u64 = 100;

    fn asked(
        policy: &mut dyn Stream,
        unit: u64,
        now: u64,
        last_write: Option<u64>,
        source: Option<Source>,
    ) -> u32 {
        let mut random = Rng::new(1).stream("streams");
        policy.place(&mut StreamView { unit, units: UNITS, now, last_write, source, random: &mut random })
    }

    fn source(filled_by: Filler, opened_at: u64) -> Source {
        Source { filled_by: Some(filled_by), opened_at }
    }

    // Algorithm 1 of the paper, step by step: a class mixed up would cost all that the policy gains, and look like a result.
    #[test]
    fn sepbit_classes_are_those_of_the_paper() {
        let mut policy = SepBit::default();
        let of_host = |policy: &mut SepBit, now, last| asked(policy, 7, now, last, None);
        assert_eq!(of_host(&mut policy, 1000, None), 1, "what was never written");
        assert_eq!(of_host(&mut policy, 1000, Some(0)), 0, "nothing is long before the first average");
        // Fifteen lives of 100 and one of 900: 150 on average. Those of other classes don't count.
        for life in [100; 15].into_iter().chain([900]) {
            policy.collects(source(Filler::Host(1), 0), 5000);
            policy.collects(source(Filler::Collector(0), 0), 5000);
            policy.collects(Source { filled_by: None, opened_at: 0 }, 5000);
            assert_eq!(of_host(&mut policy, 1000, Some(0)), 0, "fewer than 16");
            policy.collects(source(Filler::Host(0), 5000 - life), 5000);
        }
        assert_eq!(of_host(&mut policy, 1149, Some(1000)), 0);
        assert_eq!(of_host(&mut policy, 1150, Some(1000)), 1);
        let mut moved =
            |from: Filler, age: u64| asked(&mut policy, 7, 9000, Some(9000 - age), Some(source(from, 0)));
        assert_eq!(
            [0, 9000].map(|age| moved(Filler::Host(0), age)),
            [0, 0],
            "out of class 1, whatever its age"
        );
        for from in [Filler::Host(1), Filler::Collector(0), Filler::Collector(3)] {
            assert_eq!([0, 599, 600, 2399, 2400].map(|age| moved(from, age)), [1, 1, 2, 2, 3], "{from:?}");
        }
        // The next average forgets the last one.
        (0..16).for_each(|_| policy.collects(source(Filler::Host(0), 0), 10));
        assert_eq!([9, 10].map(|age| of_host(&mut policy, age, Some(0))), [0, 1]);
    }

    #[test]
    fn what_is_written_often_and_recently_is_hot() {
        let mut policy = HotCold::new(Some(8));
        let mut now = 0;
        let mut write = |policy: &mut HotCold, unit| {
            now += 1;
            asked(policy, unit, now, None, None)
        };
        // In filters 0, 1, 2 of weights 2, 0.5 and 1, since filter 0 was cleared last, before it filter 3, and so on.
        assert_eq!([0; 4].map(|_| write(&mut policy, 7)), [1, 1, 1, 0], "the fourth brings 1.5");
        assert_eq!([1, 2, 3, 4].map(|unit| write(&mut policy, unit)), [1; 4], "each once");
        // Filter 1 is cleared: the unit has 0, 2, 3 of weights 1.5, 0.5 and 1; this write goes to filter 0, which has it, so to 1.
        assert_eq!(write(&mut policy, 7), 0);
        // Without further writes it is forgotten filter by filter.
        (0..8).for_each(|other| _ = write(&mut policy, 50 + other));
        assert!(policy.weight(7) < 8, "of weight 3: filters 0, 1 and 3");
        (0..24).for_each(|other| _ = write(&mut policy, 60 + other));
        assert_eq!(policy.weight(7), 0);
        assert_eq!(
            asked(&mut policy, 7, 0, None, Some(source(Filler::Host(0), 0))),
            0,
            "one of the collector"
        );
    }

    // A policy that returns what it did not declare would have drives without a place for it.
    #[test]
    fn what_is_returned_is_below_what_is_declared() {
        let mut random = Rng::new(3).stream("writes");
        for name in ["separate", "hot-cold", "hot-cold:5", "sepbit"] {
            let mut policy = Policies::default().find::<dyn Stream>(name).unwrap().make();
            let StreamCounts { host, collector } = policy.counts();
            assert!(policy.counts().is_valid());
            for now in 0..5000 {
                let filler = match random.chance(0.5) {
                    true => Filler::Host(random.below(host.into()) as u32),
                    false => Filler::Collector(random.below(collector.into()) as u32),
                };
                let source = random.chance(0.5).then(|| source(filler, now / 2));
                source.into_iter().for_each(|source| policy.collects(source, now));
                let last = random.chance(0.7).then_some(now / 3);
                let most = if source.is_some() { collector } else { host };
                assert!(asked(&mut *policy, random.below(UNITS), now, last, source) < most, "{name}");
            }
        }
    }

    // What a program of a user's does wrong must be told, or the run would look like one with another policy; and what it writes down must be
    // there when it is asked again, for this drive only.
    #[test]
    fn a_program_places_or_its_fault_is_told() {
        use byteway_program::Instruction;
        use byteway_program::assemble::{
            R0, R1, R2, R3, R6, R7, alu64, assemble, exit, jump, load, mov, store,
        };
        use byteway_program::instruction::{alu, jump as when, size};
        let of = |counts: i32, code: &[Instruction]| {
            let mut all =
                vec![load(size::WORD, R6, R1, 40), mov(R0, counts), jump(when::NE, R6, 0, 1), exit()];
            all.extend(code);
            StreamProgram::verify(&assemble(&all))
        };
        // Streams in turn: a number in the program's memory.
        let turns = [
            load(size::DOUBLE, R7, R2, 0),
            mov(R0, R7),
            alu64(alu::AND, R0, 1),
            alu64(alu::ADD, R7, 1),
            store(size::DOUBLE, R2, 0, R7),
            exit(),
        ];
        let turns = of(2 + 256, &turns).unwrap();
        for _ in 0..2 {
            let mut turns = turns.again();
            assert_eq!(
                (turns.counts(), turns.needs_last_write()),
                (StreamCounts { host: 2, collector: 1 }, false)
            );
            assert_eq!([0; 4].map(|unit| asked(&mut turns, unit, 0, None, None)), [0, 1, 0, 1]);
            let moved = Some(source(Filler::Host(1), 3));
            assert_eq!(asked(&mut turns, 0, 0, None, moved), 0);
            assert_eq!(asked(&mut turns, 0, 0, None, moved), u32::MAX);
            assert_eq!(
                turns.fault().unwrap(),
                "asked for the stream of a unit that garbage collection moves, it returned 1, of 1 streams"
            );
            assert_eq!(asked(&mut turns, 0, 0, None, None), u32::MAX, "it has failed");
        }
        let beyond = [alu64(alu::ADD, R2, R3), load(size::BYTE, R0, R2, 0), exit()];
        let mut beyond = of(1 + 256, &beyond).unwrap();
        beyond.collects(source(Filler::Collector(0), 1), 2);
        let fault = beyond.fault().expect("beyond its memory, when it is told something");
        assert!(
            fault.starts_with("told of a superblock that will be emptied, the program was stopped at "),
            "{fault}"
        );
        for counts in [0, 1, 256, 5 + 4 * 256, 2 * 65_536 + 257, -1] {
            let refused = of(counts, &[exit()]).unwrap_err().to_string();
            assert!(refused.starts_with("asked for the number of its streams, it returned "), "{refused}");
        }
        let endless = [load(size::DOUBLE, R0, R1, 48), exit()];
        assert!(matches!(StreamProgram::verify(&assemble(&endless)), Err(NoProgram::Answer { .. })));
    }

    /// Declares what it is told to.
    struct Many(StreamCounts);

    impl Stream for Many {
        fn counts(&self) -> StreamCounts {
            self.0
        }

        fn place(&mut self, _view: &mut StreamView<'_>) -> u32 {
            0
        }
    }

    #[test]
    fn a_wrong_name_argument_or_number_of_streams_is_refused() {
        let policies = Policies::default();
        assert_eq!(policies.find::<dyn Stream>("sepbite"), Err(UnknownPolicy::Name));
        assert_eq!(policies.find::<dyn Stream>("greedy"), Err(UnknownPolicy::Name), "it is of victims");
        for wrong in
            ["separate:1", "sepbit:", "hot-cold:", "hot-cold:0", "hot-cold:-1", "hot-cold:1099511627777"]
        {
            assert!(matches!(policies.find::<dyn Stream>(wrong), Err(UnknownPolicy::Argument(_))), "{wrong}");
        }
        for (host, collector, is_valid) in [
            (1, 1, true),
            (7, 1, true),
            (1, 7, true),
            (4, 4, true),
            (0, 1, false),
            (1, 0, false),
            (4, 5, false),
        ] {
            let counts = StreamCounts { host, collector };
            let policies =
                Policies::default().with::<dyn Stream>("many", "", "1", move |_| Ok(Box::new(Many(counts))));
            assert_eq!(policies.find::<dyn Stream>("many").is_ok(), is_valid, "{counts:?}");
        }
        assert!(policies.find::<dyn Stream>("separate").unwrap().is_default());
    }
}
