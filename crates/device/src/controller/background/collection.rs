//! Notifies hosts when garbage collection starts, if they enabled that by feature C1h
//! ([`byteway_wire::nvme::vendor::collection`]).

use crate::controller::core::Core;
use byteway_wire::nvme::AsyncEvent;
use std::rc::Rc;

/// Raises an event whenever garbage collection starts on a die outside a window, unless the same event is held or
/// masked.
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
