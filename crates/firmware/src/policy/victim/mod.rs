//! Which superblock garbage collection empties next.
//!
//! | file | contents |
//! |---|---|
//! | `view.rs` | [`Victim`], and what it sees |
//! | `handle.rs` | [`VictimPolicy`]: a policy under its name |
//! | `built_in.rs` | the list of those that every program has |
//! | `greedy.rs` | `greedy`: the one with the fewest valid units |
//! | `cost_benefit.rs` | `cost-benefit`: the most space for the data moved, weighted by age |
//! | `fifo.rs` | `fifo`: the one that was closed first |
//! | `windowed_greedy.rs` | `windowed-greedy:N`: of the N that were closed first, the one with the fewest valid units |
//! | `d_choices.rs` | `d-choices:D`: of D drawn at random, the one with the fewest valid units |
//! | `program.rs` | an eBPF program's choice |
//!
//! A drive asks its policy whenever a die's collector needs a further superblock. The policy sees those of the die that can be emptied:
//! closed, and with so much that is stale that emptying them frees space.
//!
//! What is chosen by wear, age of data or failure is not asked here: such superblocks are taken whatever the policy says.

pub(super) mod built_in;
mod cost_benefit;
mod d_choices;
mod fifo;
mod greedy;
mod handle;
mod program;
mod view;
mod windowed_greedy;

pub use cost_benefit::CostBenefit;
pub use d_choices::DChoices;
pub use fifo::Fifo;
pub use greedy::Greedy;
pub use handle::{MadeVictim, VictimPolicy};
pub use program::VictimProgram;
pub use view::{Candidate, Victim, VictimView};
pub use windowed_greedy::WindowedGreedy;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Policies, UnknownPolicy};
    use byteway_clock::random::Rng;

    const CLOSED: u32 = u32::MAX;

    /// What a policy chooses among superblocks that were closed one after the other.
    fn chosen(policy: &mut dyn Victim, counts: &[u32]) -> u32 {
        let closed_at: Vec<u32> = (0..counts.len() as u32).collect();
        let mut random = Rng::new(1).stream("victims");
        policy.choose(&mut VictimView {
            counts,
            closed_at: &closed_at,
            valid_most: 7,
            closings: counts.len() as u32,
            units: 8,
            die: 0,
            random: &mut random,
        })
    }

    #[test]
    fn each_takes_what_it_says() {
        let counts = [CLOSED, 6, 8, 2, 5, 2, 1];
        assert_eq!(chosen(&mut Greedy, &counts), 6);
        assert_eq!(chosen(&mut Greedy, &counts[..6]), 3, "of equals the oldest");
        assert_eq!(chosen(&mut Fifo, &counts), 1);
        assert_eq!(chosen(&mut WindowedGreedy::new(1), &counts), 1);
        assert_eq!(chosen(&mut WindowedGreedy::new(3), &counts), 3);
        assert_eq!(chosen(&mut WindowedGreedy::new(100), &counts), 6);
        assert_eq!(chosen(&mut DChoices::new(1000), &counts), 6);
        // Ages 6 and 1: 6 * (1 - 6/8) / (2 * 6/8) is 1, and 1 * (1 - 5/8) / (2 * 5/8) is 0.3.
        assert_eq!(chosen(&mut CostBenefit, &[6, CLOSED, 8, 8, 8, 5]), 0);
        assert_eq!(chosen(&mut CostBenefit, &[6, 0, 5]), 1, "what is empty costs nothing");
    }

    // A policy that chose something else would erase valid data, or what is being written.
    #[test]
    fn what_cannot_be_emptied_is_never_chosen() {
        let mut random = Rng::new(5).stream("counts");
        for round in 0..2000 {
            let counts: Vec<u32> = (0..1 + random.below(20)).map(|_| random.below(12) as u32).collect();
            if counts.iter().all(|count| *count > 7) {
                continue;
            }
            for name in ["greedy", "cost-benefit", "fifo", "windowed-greedy:4", "d-choices:3"] {
                let mut policy = Policies::default().find::<dyn Victim>(name).unwrap().make();
                let victim = chosen(&mut *policy, &counts);
                assert!(counts[victim as usize] <= 7, "{name} in round {round}: {victim} of {counts:?}");
            }
        }
    }

    // What a program of a user's does wrong must be told, or the run would look like one with another policy.
    #[test]
    fn a_program_chooses_or_its_fault_is_told() {
        use byteway_program::Instruction;
        use byteway_program::assemble::{R0, R1, R2, alu64, assemble, exit, load, mov};
        use byteway_program::instruction::{alu, size};
        let of = |code: &[Instruction]| VictimProgram::new(VictimProgram::verify(&assemble(code)).unwrap());
        let counts = [CLOSED, 6, 8, 2, 5];
        let mut last = of(&[mov(R0, R2), alu64(alu::SUB, R0, 1), exit()]);
        assert_eq!((chosen(&mut last, &counts), last.fault()), (4, None));
        let mut beyond = of(&[mov(R0, R2), exit()]);
        assert_eq!(chosen(&mut beyond, &counts), u32::MAX);
        assert_eq!(beyond.fault().unwrap(), "asked for a victim, it returned 3, of 3 candidates");
        let mut stray = of(&[load(size::WORD, R0, R1, 36), exit()]);
        assert_eq!(chosen(&mut stray, &counts), u32::MAX);
        assert!(stray.fault().is_some());
        assert!(VictimProgram::verify(b"\x7fELF").is_err() && VictimProgram::verify(b"no code").is_err());
    }

    #[test]
    fn a_wrong_name_or_argument_is_refused() {
        let policies = Policies::default();
        assert_eq!(policies.find::<dyn Victim>("gready"), Err(UnknownPolicy::Name));
        for wrong in [
            "greedy:1",
            "d-choices",
            "d-choices:",
            "d-choices:0",
            "d-choices:-1",
            "windowed-greedy:1e3",
            "fifo:",
        ] {
            assert!(matches!(policies.find::<dyn Victim>(wrong), Err(UnknownPolicy::Argument(_))), "{wrong}");
        }
        assert_eq!(policies.find::<dyn Victim>("d-choices:2").unwrap().name(), "d-choices:2");
        assert_ne!(policies.find::<dyn Victim>("d-choices:2"), policies.find::<dyn Victim>("d-choices:3"));
    }
}
