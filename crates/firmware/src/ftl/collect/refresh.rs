//! Refresh: moving data that were read too often, or are too old, while they are still readable.
//!
//! Reads are checked one by one: the array counts them, and the one that reaches the limit queues its
//! superblock. Age is checked at power-on, since most of it passes without power, and again when the oldest
//! superblock will be too old. A superblock that is still open is left until it is closed.

use crate::ftl::config::Refresh;
use crate::ftl::core::Core;
use byteway_clock::Delay;
use byteway_flash::{BlockId, Ppa};
use std::rc::Rc;
use std::time::Duration;

/// Minimum time between two scans of all superblocks.
const LOOK_MIN: Duration = Duration::from_secs(1);

/// The task that checks the age of data, spawned only if refresh is enabled.
pub(in crate::ftl) async fn run(core: Rc<Core>) {
    let Some(Refresh { age, .. }) = core.config.upkeep.refresh else { return };
    let age = Duration::from_nanos(age.0 / 1000);
    core.power.ready().await;
    loop {
        let next = refresh_old(&core, age).max(LOOK_MIN).max(age / 16);
        let ps = u64::try_from(next.as_nanos()).ok().and_then(|ns| ns.checked_mul(1000));
        let end = ps.and_then(|ps| core.clock.now().0.checked_add(ps).map(|_| Delay(ps)));
        let Some(pause) = end else { return }; // beyond the range of time
        core.clock.timer(pause).await; // data age whether or not modelled waits take time
    }
}

/// Queues all superblocks that are `age` old. Returns the time until the next one will be.
fn refresh_old(core: &Core, age: Duration) -> Duration {
    let now = core.flash.calendar();
    let mut next = age;
    for block in (0..core.geometry.total_blocks()).map(BlockId) {
        let Some(programmed) = core.flash.programmed_at(block) else { continue };
        let left = (programmed + age).saturating_sub(now);
        if left.is_zero() { refresh_block(core, block) } else { next = next.min(left) }
    }
    next
}

/// Checks the read count after a stripe was read for the host.
#[inline]
pub(in crate::ftl) fn note_read(core: &Core, ppa: Ppa) {
    if let Some(refresh) = &core.config.upkeep.refresh {
        let block = core.geometry.block_of(ppa);
        if core.flash.reads_since_erase(block) >= refresh.reads {
            refresh_block(core, block);
        }
    }
}

/// Queues a superblock for refresh, if it is closed.
fn refresh_block(core: &Core, block: BlockId) {
    if core.state.borrow_mut().blocks.refresh(block) {
        core.collectors.call(core.geometry.die_of_block(block));
    }
}
