//! Commands that arrive in one read.

use crate::client::{Client, HOST, by_transport};
use crate::service::Service;
use byteway_wire::nvme::{AsyncEventRequest, Cns, Identify, Sqe};

// Executing a command may wait, for an event perhaps indefinitely: the next command must not wait for it, for
// any commands in flight.
#[test]
fn a_command_that_waits_holds_up_nobody() {
    let service = Service::start(1, 1, |_, _, _| ());
    let identify = || by_transport(Identify { cns: Cns::CONTROLLER, ..Identify::default() }.sqe(0, 0), 4096);
    for (before, held) in (0..6).flat_map(|before| (0..=4).map(move |held| (before, held))) {
        let mut client = Client::admin(service.address(), &service.nqns[0], HOST).unwrap();
        // Some commands that arrive together, and complete.
        let sent = client.begin_together(&vec![identify(); before]);
        sent.into_iter().for_each(|cid| _ = client.answer(cid, &[]).unwrap());
        let held: Vec<Sqe> = (0..held).map(|_| AsyncEventRequest.sqe(0)).collect();
        let together: Vec<Sqe> = held.into_iter().chain([identify()]).collect();
        let sent = client.begin_together(&together);
        assert!(client.answer(sent[together.len() - 1], &[]).unwrap().cqe.status().is_success());
    }
}
