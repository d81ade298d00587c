//! Byteway with a victim policy of one's own: `greedy-aged:SHARE`.
//!
//! Greedy collection takes the superblock with the fewest valid units, and so moves hot data that would have become stale by themselves.
//! This one waits: only the oldest share of the candidates is looked at.

use byteway::{Candidate, Extensions, MadeVictim, Victim, VictimView, WrongArgument};
use std::process::ExitCode;

/// Among the oldest `share` of the candidates, the one with the fewest valid units.
struct GreedyAged {
    share: f64,
    candidates: Vec<Candidate>,
}

impl Victim for GreedyAged {
    fn choose(&mut self, view: &mut VictimView<'_>) -> u32 {
        self.candidates.clear();
        self.candidates.extend(view.candidates());
        self.candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.age));
        let oldest = (self.candidates.len() as f64 * self.share).ceil() as usize;
        let among = &self.candidates[..oldest.clamp(1, self.candidates.len())];
        among.iter().min_by_key(|candidate| candidate.valid).map_or(0, |victim| victim.index)
    }
}

/// The policy of `greedy-aged:0.5`; half without an argument.
fn greedy_aged(argument: Option<&str>) -> MadeVictim {
    let share = argument.unwrap_or("0.5").parse().ok().filter(|share| (0.0..=1.0).contains(share));
    let share = share.ok_or_else(|| WrongArgument {
        what: "needs a share from 0 to 1".into(),
        help: "write it behind a colon, such as `greedy-aged:0.5`".into(),
    })?;
    Ok(Box::new(GreedyAged { share, candidates: Vec::new() }))
}

fn main() -> ExitCode {
    let about = "Of the oldest superblocks, half of them or `greedy-aged:SHARE`, the one with the fewest valid units.";
    byteway::main_with(Extensions::default().victim(
        "greedy-aged",
        about,
        env!("CARGO_PKG_VERSION"),
        greedy_aged,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_share_is_refused() {
        assert!(greedy_aged(Some("0.1")).is_ok() && greedy_aged(None).is_ok());
        assert!(greedy_aged(Some("2")).is_err() && greedy_aged(Some("half")).is_err());
    }
}
