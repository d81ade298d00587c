use super::view::{Victim, VictimView};

/// The superblock with the greatest `age * (1 - u) / 2u`, where u is its fraction of valid units, and its age is the number of
/// superblocks of the die that were closed since it was (Rosenblum and Ousterhout, "The Design and Implementation of a Log-Structured
/// File System", 3.6; 2u stands for reading and writing the valid data). Of equals the first.
///
/// Age is counted in closings, not in seconds: a drive at rest does not age its data, and a paced one is as one that is saturated.
#[derive(Clone, Copy, Debug, Default)]
pub struct CostBenefit;

impl Victim for CostBenefit {
    fn choose(&mut self, view: &mut VictimView<'_>) -> u32 {
        let units = f64::from(view.units());
        let (mut victim, mut most) = (0, f64::NEG_INFINITY);
        for candidate in view.candidates() {
            let share = f64::from(candidate.valid) / units;
            let benefit = if share == 0.0 {
                f64::INFINITY
            } else {
                f64::from(candidate.age) * (1.0 - share) / (2.0 * share)
            };
            if benefit > most {
                (victim, most) = (candidate.index, benefit);
            }
        }
        victim
    }
}
