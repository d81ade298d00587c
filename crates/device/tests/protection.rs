//! Namespace Write Protection (NVMe Base 2.1, 5.1.25.1.32 and 8.1.16).

use crate::fixture::management::{delete, format};
use crate::fixture::power::enabled_cycle;
use crate::fixture::{Bench, NS_4K, NS_512, TestHost, pattern, read_write};
use byteway_content::BlockSize;
use byteway_wire::FromBytes;
use byteway_wire::nvme::feature::WriteProtection;
use byteway_wire::nvme::{
    Cns, Copy, CopyRange, DatasetManagement, GetFeatures, IdentifyController, IdentifyNamespace, NSID_ALL,
    NvmOpcode, Range, Sanitize, Select, SetFeatures, Sqe, Status, WriteZeroes, fid,
};

fn set(nsid: u32, state: u32) -> Sqe {
    SetFeatures { fid: fid::NAMESPACE_WRITE_PROTECTION, cdw11: state, ..SetFeatures::default() }.sqe(0, nsid)
}

fn get(nsid: u32, sel: Select) -> Sqe {
    GetFeatures { fid: fid::NAMESPACE_WRITE_PROTECTION, sel, ..GetFeatures::default() }.sqe(0, nsid)
}

async fn state(host: &TestHost, nsid: u32) -> Option<WriteProtection> {
    WriteProtection::from_bits(host.succeed(get(nsid, Select::CURRENT)).await)
}

// Protection must cover every command that changes data, and commands that only read must continue to work.
#[test]
fn nothing_that_writes_gets_through() {
    Bench::default().with_queue(async |host, pair| {
        let bytes = pattern(6, 4096);
        assert_eq!(host.write(&pair, NS_4K, 0, &bytes).await, Status::SUCCESS);
        host.succeed(set(NS_4K, 1)).await;
        assert_eq!(host.drive().controller.ftl().units_buffered(), 0, "what was written is on flash");
        let page = IdentifyNamespace::read_from_bytes(&host.identify(Cns::NAMESPACE, NS_4K).await)
            .expect("a page is as long as its structure");
        assert_eq!(page.nsattr, IdentifyNamespace::NSATTR_WRITE_PROTECTED);
        let range = host.holding(&Range::new(0, 1).to_bytes());
        let source = host.holding(&CopyRange::new(8, 1).to_bytes());
        let refused = Status::NAMESPACE_WRITE_PROTECTED.with_dnr();
        let writes = [
            host.write_sqe(NS_4K, 0, &pattern(7, 4096)),
            WriteZeroes::default().sqe(0, NS_4K),
            read_write(NvmOpcode::WRITE_UNCORRECTABLE, NS_4K, 0, 1),
            DatasetManagement { ad: true, ..DatasetManagement::default() }.sqe(0, NS_4K).with_prp(range, 0),
            Copy::default().sqe(0, NS_4K).with_prp(source, 0),
        ];
        for sqe in writes {
            assert_eq!(host.io(&pair, sqe).await.status(), refused, "{sqe:?}");
        }
        for sqe in [
            format(NS_4K, BlockSize::B512, 0),
            format(NSID_ALL, BlockSize::B512, 1),
            delete(NS_4K),
            delete(NSID_ALL),
        ] {
            host.refused(sqe, Status::NAMESPACE_WRITE_PROTECTED).await;
        }
        for sanact in [Sanitize::BLOCK_ERASE, Sanitize::EXIT_FAILURE] {
            let sanitize = Sanitize { sanact, ..Sanitize::default() };
            host.refused(sanitize.sqe(0), Status::NAMESPACE_WRITE_PROTECTED).await;
        }
        assert_eq!(host.read(&pair, NS_4K, 0, 1).await, bytes);
        for sqe in [Sqe::new(NvmOpcode::FLUSH, 0, NS_4K), read_write(NvmOpcode::VERIFY, NS_4K, 0, 1)] {
            assert_eq!(host.io(&pair, sqe).await.status(), Status::SUCCESS);
        }
        host.write_is(&pair, NS_512, Status::SUCCESS).await;
        host.succeed(set(NS_4K, 0)).await;
        host.write_is(&pair, NS_4K, Status::SUCCESS).await;
    });
}

// An unsupported state is refused, and a state stays until the host changes it: protection must not end on
// its own.
#[test]
fn states_change_as_the_specification_says() {
    Bench::default().enabled(async |host| {
        let id = IdentifyController::read_from_bytes(&host.identify(Cns::CONTROLLER, 0).await)
            .expect("a page is as long as its structure");
        assert_eq!(id.nwpc, 0b001);
        assert_eq!(
            host.succeed(get(NS_4K, Select::SUPPORTED)).await,
            Select::CHANGEABLE | Select::NAMESPACE_SPECIFIC
        );
        for code in 2..8 {
            host.refused(set(NS_4K, code), Status::INVALID_FIELD).await;
        }
        for (nsid, status) in [(0, Status::INVALID_NAMESPACE), (3, Status::INVALID_FIELD)] {
            host.refused(set(nsid, 1), status).await;
            host.refused(get(nsid, Select::CURRENT), status).await;
        }
        let saved = SetFeatures {
            fid: fid::NAMESPACE_WRITE_PROTECTION,
            sv: true,
            cdw11: 1,
            ..SetFeatures::default()
        };
        host.refused(saved.sqe(0, NS_4K), Status::FEATURE_NOT_SAVEABLE).await;
        host.succeed(set(NSID_ALL, 1)).await;
        assert_eq!(state(&host, NS_512).await, Some(WriteProtection::Protected));
        host.disable().await;
        host.enable().await;
        assert_eq!(state(&host, NS_4K).await, Some(WriteProtection::Protected), "a reset takes nothing back");
        host.succeed(set(NS_4K, 0)).await;
        assert_eq!(state(&host, NS_4K).await, Some(WriteProtection::None));
        assert_eq!(state(&host, NS_512).await, Some(WriteProtection::Protected));
    });
}

// Permanent protection must survive a power cut, or pulling the plug would remove it.
#[test]
fn protection_outlives_the_power() {
    let (nsid, medium) = enabled_cycle(None, async |host| {
        host.succeed(delete(NS_512)).await;
        let third = host.create(16, 1).await;
        assert_eq!(third, NS_512);
        let fourth = host.create(16, 1).await;
        host.succeed(set(third, 1)).await;
        fourth
    });
    enabled_cycle(Some(medium), async move |host| {
        assert_eq!(state(&host, NS_512).await, Some(WriteProtection::Protected));
        assert_eq!(state(&host, nsid).await, Some(WriteProtection::None));
        host.succeed(set(NS_512, 0)).await;
    });
}
