//! What the work of a query takes of the drive's cores.

use crate::controller::core::Core;
use byteway_clock::Time;
use byteway_firmware::WorkKind;
use byteway_query::cost::Amount;

/// An amount of work in counts of each kind.
pub(crate) fn counts(amount: Amount) -> [(WorkKind, u64); 3] {
    [
        (WorkKind::Decode, amount.decoded_bytes.div_ceil(64)),
        (WorkKind::Evaluate, amount.comparisons.div_ceil(64)),
        (WorkKind::Output, amount.output_bytes.div_ceil(64)),
    ]
}

/// What a core does of a kind before commands have their turn, in counts: 8 KiB, some microseconds.
const SLICE: u64 = 128;

/// A slice of all cores of the site.
pub(crate) fn slice(core: &Core, work: WorkKind) -> u64 {
    SLICE * core.placement.site(work).cores().max(1) as u64
}

/// Has the cores of the site do so much of a kind, all of them at once; gives when they have.
pub(crate) fn spread(core: &Core, work: WorkKind, count: u64) -> Time {
    let cores = core.placement.site(work).cores().max(1) as u64;
    let mut end = core.clock.now();
    for part in 0..cores.min(count) {
        let share = count / cores + u64::from(part < count % cores);
        end = end.max(core.placement.reserve(work, share).end);
    }
    end
}
