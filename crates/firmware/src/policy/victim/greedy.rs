use super::view::{Victim, VictimView};

/// The superblock with the fewest valid units; among equals the one that was closed first.
///
/// Optimal under uniform random writes (Bux and Iliadis, "Performance of greedy garbage collection in flash-based solid-state drives",
/// 2010). It scans all counts: they are contiguous, and a scan of a thousand costs less than one of the moves that follow, so an
/// ordered structure to be updated at every overwrite would not pay.
#[derive(Clone, Copy, Debug, Default)]
pub struct Greedy;

impl Victim for Greedy {
    fn choose(&mut self, view: &mut VictimView<'_>) -> u32 {
        let least = view.least();
        let equals = view.candidates().filter(|candidate| candidate.valid == least);
        // Reversed: of equal ages the first.
        equals
            .max_by_key(|candidate| (candidate.age, std::cmp::Reverse(candidate.index)))
            .map_or(0, |victim| victim.index)
    }
}
