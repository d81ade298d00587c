//! Format NVM (NVMe Base 2.1, 5.1.10).

use crate::fixture::management::format;
use crate::fixture::{Bench, NS_4K, NS_4K_UNITS, NS_512, NS_512_UNITS, Pair, TestHost, pattern, read_write};
use byteway_clock::Delay;
use byteway_content::BlockSize::{B512, B4096};
use byteway_wire::FromBytes;
use byteway_wire::nvme::{
    Abort, Cns, FormatNvm, IdentifyController, IdentifyNamespace, NSID_ALL, NvmOpcode, Status,
};

async fn zeroes(host: &TestHost, pair: &Pair, nsid: u32, blocks: u64, block_bytes: usize) {
    let step = (128 << 10) / block_bytes as u64;
    for slba in (0..blocks).step_by(step as usize) {
        let (status, held) = host.try_read(pair, nsid, slba, step as u32, block_bytes).await;
        assert_eq!(status, Status::SUCCESS);
        assert!(held.iter().all(|byte| *byte == 0), "block {slba} of namespace {nsid}");
    }
}

// A format that leaves data, or takes the neighbour's, is worse than none; and the new blocks must be those that Identify
// then tells of.
#[test]
fn a_format_empties_one_namespace_and_changes_its_blocks() {
    for ses in [FormatNvm::SES_NONE, FormatNvm::SES_USER_DATA] {
        Bench::default().with_queue(async move |host, pair| {
            let (mine, other) = (pattern(1, 128 << 10), pattern(2, 128 << 10));
            for slba in [0, 8000, 32_768 - 256] {
                assert_eq!(host.write(&pair, NS_512, slba, &mine).await, Status::SUCCESS);
            }
            assert_eq!(host.write(&pair, NS_4K, 32, &other).await, Status::SUCCESS);
            host.succeed(format(NS_512, B4096, ses)).await;
            let id = host.namespace(NS_512).await;
            assert_eq!((id.nsze, id.format().lbads, id.fpi), (NS_512_UNITS, 12, 0x80));
            assert_eq!(host.namespace(NS_4K).await.format().lbads, 12);
            zeroes(&host, &pair, NS_512, NS_512_UNITS, 4096).await;
            assert_eq!(host.read(&pair, NS_4K, 32, 32).await, other);
            let bytes = pattern(3, 4096);
            let sqe = read_write(NvmOpcode::WRITE, NS_512, NS_512_UNITS - 1, 1);
            let written = host.io(&pair, sqe.with_prp(host.holding(&bytes), 0)).await;
            assert_eq!(written.status(), Status::SUCCESS);
            host.succeed(format(NSID_ALL, B512, ses)).await;
            for (nsid, units) in [(NS_512, NS_512_UNITS), (NS_4K, NS_4K_UNITS)] {
                let id = host.namespace(nsid).await;
                assert_eq!((id.nsze, id.format().lbads), (units * 8, 9));
                zeroes(&host, &pair, nsid, units * 8, 512).await;
            }
        });
    }
}

// A drive that is erased is given away afterwards: what was there must be on no flash any more, whatever is
// deallocated, overwritten, or lies in a superblock that is still open; and what others have must still be theirs.
#[test]
fn a_secure_erase_leaves_nothing_on_flash() {
    Bench::default().with_queue(async |host, pair| {
        let other = pattern(2, 128 << 10);
        let write = async |nsid, from: u64, blocks: u64, step: usize, bytes: &[u8]| {
            for slba in (from..from + blocks).step_by(step) {
                assert_eq!(host.write(&pair, nsid, slba, bytes).await, Status::SUCCESS);
            }
        };
        for round in 0..6 {
            write(NS_512, 0, NS_512_UNITS * 8, 256, &pattern(10 + round, 128 << 10)).await;
            write(NS_4K, 0, 320, 32, &other).await;
        }
        let flush = byteway_wire::nvme::Flush.sqe(0, NSID_ALL);
        assert_eq!(host.io(&pair, flush).await.status(), Status::SUCCESS);
        assert!(host.units_on_media() > 3 * NS_512_UNITS as usize);
        host.succeed(format(NS_512, B512, FormatNvm::SES_NONE)).await;
        assert!(host.units_on_media() > 3 * NS_512_UNITS as usize, "this one only forgets");
        host.succeed(format(NS_512, B512, FormatNvm::SES_USER_DATA)).await;
        assert_eq!(host.units_on_media(), 320, "what the other namespace holds");
        for slba in (0..320).step_by(32) {
            assert_eq!(host.read(&pair, NS_4K, slba, 32).await, other);
        }
        write(NS_512, 0, 512, 256, &other).await;
        assert_eq!(host.read(&pair, NS_512, 256, 256).await, other, "the drive goes on");
    });
}

// An unsupported format must be refused without any effect.
#[test]
fn each_wrong_field_is_refused() {
    Bench::default().with_queue(async |host, pair| {
        let id = IdentifyController::read_from_bytes(&host.identify(Cns::CONTROLLER, 0).await)
            .expect("a page is as long as its structure");
        assert_eq!(id.fna, 0, "one namespace or all, no cryptographic erase");
        let bytes = pattern(1, 4096);
        assert_eq!(host.write(&pair, NS_4K, 0, &bytes).await, Status::SUCCESS);
        let right = FormatNvm::default();
        for (command, status) in [
            (FormatNvm { lbaf: 2, ..right }, Status::INVALID_FORMAT),
            (FormatNvm { lbaf: 16, ..right }, Status::INVALID_FORMAT),
            (FormatNvm { lbaf: 63, ..right }, Status::INVALID_FORMAT),
            (FormatNvm { pi: 1, ..right }, Status::INVALID_FORMAT),
            (FormatNvm { mset: true, ..right }, Status::INVALID_FORMAT),
            (FormatNvm { ses: 2, ..right }, Status::INVALID_FIELD),
            (FormatNvm { ses: 3, ..right }, Status::INVALID_FIELD),
            (FormatNvm { ses: 7, ..right }, Status::INVALID_FIELD),
        ] {
            host.refused(command.sqe(0, NS_4K), status).await;
        }
        for (nsid, status) in
            [(0, Status::INVALID_NAMESPACE), (3, Status::INVALID_FIELD), (129, Status::INVALID_NAMESPACE)]
        {
            host.refused(right.sqe(0, nsid), status).await;
        }
        host.succeed(host.attach_sqe(NS_512, false)).await;
        host.refused(right.sqe(0, NS_512), Status::INVALID_FIELD).await;
        assert_eq!(host.read(&pair, NS_4K, 0, 1).await, bytes);
    });
}

/// A drive that takes half a second to erase what was written to it.
async fn fill(host: &TestHost, pair: &Pair) {
    for slba in (0..NS_4K_UNITS).step_by(32) {
        assert_eq!(host.write(pair, NS_4K, slba, &pattern(slba, 128 << 10)).await, Status::SUCCESS);
    }
}

// While blocks have no size, a transfer would go anywhere; so it must wait, and other namespaces must not.
#[test]
fn commands_are_refused_while_it_goes_on() {
    Bench::default().with_queue(async |host, pair| {
        fill(&host, &pair).await;
        let admin = host.admin_pair();
        let cid = host.submit(&admin.sq, format(NS_4K, B512, FormatNvm::SES_USER_DATA));
        host.sleep(Delay::from_us(400)).await;
        let refused = host.try_read(&pair, NS_4K, 0, 1, 4096).await.0;
        assert_eq!(refused, Status::FORMAT_IN_PROGRESS, "and it may be tried again");
        host.write_is(&pair, NS_512, Status::SUCCESS).await;
        let id = IdentifyNamespace::read_from_bytes(&host.identify(Cns::NAMESPACE, NS_4K).await)
            .expect("a page is as long as its structure");
        assert!((1..=100).contains(&(id.fpi & 0x7f)), "it says how much is left: {:#x}", id.fpi);
        // An Abort comes too late: a namespace is never half formatted.
        let abort = host.submit(&admin.sq, Abort { sqid: 0, cid }.sqe(0));
        assert_eq!(host.completion(&admin.cq, cid).await.status(), Status::SUCCESS);
        let aborted = host.completion(&admin.cq, abort).await;
        assert_eq!((aborted.status(), aborted.dw0), (Status::SUCCESS, Abort::NOT_ABORTED));
        assert_eq!(host.try_read(&pair, NS_4K, 0, 1, 512).await, (Status::SUCCESS, vec![0; 512]));
    });
}

// A reset must not wait for a format, which may take minutes, nor stop it half-way.
#[test]
fn it_goes_on_through_a_reset() {
    Bench::default().with_queue(async |host, pair| {
        fill(&host, &pair).await;
        let before = host.clock().now();
        host.submit(&host.admin_pair().sq, format(NS_4K, B512, FormatNvm::SES_USER_DATA));
        host.sleep(Delay::from_us(400)).await;
        host.disable().await;
        assert!(host.clock().now().since(before) < Delay::from_ms(5));
        host.enable().await;
        let pair = host.create_pair(1, 64).await;
        assert_eq!(host.try_read(&pair, NS_4K, 0, 1, 512).await.0, Status::FORMAT_IN_PROGRESS);
        // The next change waits for its end.
        host.succeed(host.attach_sqe(NS_512, false)).await;
        assert_eq!(host.try_read(&pair, NS_4K, 0, 1, 512).await, (Status::SUCCESS, vec![0; 512]));
        assert_eq!(host.namespace(NS_4K).await.nsze, NS_4K_UNITS * 8);
    });
}
