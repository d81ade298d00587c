//! Wear of the flash.

use byteway_firmware::Ftl;

use crate::results::Wear;
use byteway_text::number::ratio;

/// Steps of the histogram, at most.
const STEPS_MAX: u64 = 256;

/// Statistics of the erase counts of all blocks; `began_worn` tells whether they include erases before the
/// run. Makes two passes over the counts and stores none.
pub fn wear(layers: &[&Ftl], endurance: u64, began_worn: bool) -> Wear {
    let each_erases = |mut take: &mut dyn FnMut(u32)| {
        layers.iter().for_each(|layer| layer.data_end().each_erases(&mut take))
    };
    let (mut blocks, mut sum, mut min, mut max) = (0u64, 0u128, u64::MAX, 0u64);
    each_erases(&mut |erases| {
        blocks += 1;
        sum += u128::from(erases);
        min = min.min(erases.into());
        max = max.max(erases.into());
    });
    let min = min.min(max);
    let width = (max - min) / STEPS_MAX + 1;
    let mut counts = vec![0u64; ((max - min) / width + 1) as usize];
    each_erases(&mut |erases| counts[((u64::from(erases) - min) / width) as usize] += 1);
    let steps = (0u64..).zip(counts).filter(|(_, count)| *count > 0);
    let histogram = steps.map(|(step, count)| (min + step * width, count)).collect();
    let mean = ratio(sum, blocks.into());
    Wear { blocks, min, mean, max, endurance, began_worn, histogram }
}
