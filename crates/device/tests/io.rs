//! The NVM command set (NVM Command Set 1.1), command by command and status by status.

mod fixture;

use byteway_wire::nvme::{Cns, Status};
use fixture::{Bench, NS_4K, pattern};

// Without this nothing else means anything: a drive that doesn't give back what it took.
#[test]
fn what_was_written_is_read() {
    Bench::default().with_queue(async |host, pair| {
        assert_eq!(host.identify(Cns::CONTROLLER, 0).await.len(), 4096);
        let bytes = pattern(1, 4096);
        assert_eq!(host.write(&pair, NS_4K, 3, &bytes).await, Status::SUCCESS);
        assert_eq!(host.read(&pair, NS_4K, 3, 1).await, bytes);
    });
}
