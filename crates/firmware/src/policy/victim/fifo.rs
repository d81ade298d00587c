use super::view::{Victim, VictimView};

/// The superblock that was closed first, as in a circular log (the "LRU" cleaning of Desnoyers, "Analytic Models of SSD Write
/// Performance", 2014).
///
/// Superblocks in which nothing is stale are no candidates, and are passed over: emptying one would free nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo;

impl Victim for Fifo {
    fn choose(&mut self, view: &mut VictimView<'_>) -> u32 {
        view.candidates().max_by_key(|candidate| candidate.age).map_or(0, |victim| victim.index)
    }
}
