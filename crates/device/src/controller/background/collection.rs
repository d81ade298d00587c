//! Tells hosts that the drive has begun to collect, if they have asked for that by feature C1h
//! ([`byteway_wire::nvme::vendor::collection`]).

use crate::controller::core::Core;
use byteway_wire::nvme::AsyncEvent;
use std::rc::Rc;

/// Raises an event whenever a die begins to collect outside a window. What is reported already, or waits to be, is not again.
pub async fn run(core: Rc<Core>) {
    core.backing.ready().await;
    let Some(ftl) = core.backing.ftl() else { return };
    loop {
        ftl.collection_begun().await;
        core.peers.each(|peer| {
            if peer.features.collection_notices.get() {
                peer.events.raise(AsyncEvent::COLLECTION_BEGUN);
            }
        });
    }
}
