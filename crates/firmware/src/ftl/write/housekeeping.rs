//! What stops programs from time to time.

use crate::ftl::core::Core;
use crate::ftl::write::dispatch::dispatch;
use crate::ftl::write::standstill::look_for_an_end;
use byteway_clock::Delay;
use std::rc::Rc;

/// The task that keeps house for `time` whenever it is due. Programs that have begun go on; none begins until it is done.
pub(in crate::ftl) async fn run(core: Rc<Core>, time: Delay) {
    loop {
        core.signals.housekeeping.notified().await;
        core.clock.sleep(time).await;
        core.state.borrow_mut().filling.housekeeping.is_due = false;
        dispatch(&core);
        look_for_an_end(&core);
    }
}
