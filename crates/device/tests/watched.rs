//! What a drive that is watched books for a host whose driver opens no spans: by namespace, and by what a command did.

use crate::fixture::{Bench, NS_4K, NS_512, block_bytes, pattern, read_write};
use byteway_link::ios::{HOSTS_MAX, ROWS_MAX};
use byteway_link::{IoLedger, IoRow, Verb};
use byteway_wire::nvme::{Flush, NSID_ALL, NvmOpcode, Status};

// A host can name four billion namespaces: those that there are not must not use up the rows of others.
#[test]
fn commands_are_booked_by_namespace_and_by_what_they_did() {
    Bench::default().with_queue(async |host, _| {
        let ledger = IoLedger::new();
        host.end().book_ios(ledger.clone(), ledger.host("here"));
        let pair = host.create_pair(2, 64).await;
        for nsid in (1000..1000 + 2 * ROWS_MAX as u32).chain([0]) {
            let sqe = read_write(NvmOpcode::READ, nsid, 0, 1).with_prp(host.pages(1), 0);
            assert_ne!(host.io(&pair, sqe).await.status(), Status::SUCCESS);
        }
        assert_eq!(host.io(&pair, Flush.sqe(0, NSID_ALL)).await.status(), Status::SUCCESS);
        for nsid in [NS_4K, NS_512] {
            let bytes = pattern(1, block_bytes(nsid));
            assert_eq!(host.write(&pair, nsid, 0, &bytes).await, Status::SUCCESS);
            assert_eq!(host.read(&pair, nsid, 0, 1).await, bytes);
            let beyond = read_write(NvmOpcode::READ, nsid, u64::from(u32::MAX), 1).with_prp(host.pages(1), 0);
            assert_ne!(host.io(&pair, beyond).await.status(), Status::SUCCESS);
        }
        let figures = ledger.figures();
        let rows: Vec<&IoRow> = figures.rows.iter().filter(|row| row.host != HOSTS_MAX).collect();
        assert_eq!(rows.len(), 3, "two namespaces, and all that are none");
        let counts = |nsid: u32| {
            let row = rows.iter().find(|row| row.nsid == Some(nsid)).unwrap();
            Verb::ALL.map(|verb| row.latencies[verb as usize].count())
        };
        // Reads, writes, flushes, others.
        assert_eq!(counts(0), [0, 0, 1, 2 * ROWS_MAX as u64 + 1]);
        assert_eq!(counts(NS_4K), [1, 1, 0, 1], "what is refused has moved nothing");
        assert_eq!(counts(NS_512), [1, 1, 0, 1]);
    });
}
