//! Cost of a query's work on the drive's cores.

use crate::controller::core::Core;
use byteway_clock::Time;
use byteway_firmware::WorkKind;
use byteway_query::cost::Amount;

/// Converts an amount of work to counts per kind, in units of 64 bytes or 64 comparisons.
pub(crate) fn counts(amount: Amount) -> [(WorkKind, u64); 3] {
    [
        (WorkKind::Decode, amount.decoded_bytes.div_ceil(64)),
        (WorkKind::Evaluate, amount.comparisons.div_ceil(64)),
        (WorkKind::Output, amount.output_bytes.div_ceil(64)),
    ]
}

/// Longest reservation of one core for a kind of work, in counts of 64: 8 KiB, some microseconds. Commands
/// get the core between two slices.
const SLICE: u64 = 128;

/// A slice on every core of the site, in counts.
pub(crate) fn slice(core: &Core, work: WorkKind) -> u64 {
    SLICE * core.placement.site(work).cores().max(1) as u64
}

/// Divides `count` among all cores of the site and reserves them. Returns when the last one ends.
pub(crate) fn spread(core: &Core, work: WorkKind, count: u64) -> Time {
    let cores = core.placement.site(work).cores().max(1) as u64;
    let mut end = core.clock.now();
    for part in 0..cores.min(count) {
        let share = count / cores + u64::from(part < count % cores);
        end = end.max(core.placement.reserve(work, share).end);
    }
    end
}
