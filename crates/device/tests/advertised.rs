//! Capabilities that Identify and the logs advertise must exist, and others must be refused: every bit of
//! OACS, ONCS, SANICAP, FNA, LPA, OAES and others, one by one.

use crate::fixture;
use crate::fixture::management::{format, wanted};
use crate::fixture::{Bench, NS_4K, NS_512, Pair, TestHost, pattern, read_write, set_features};
use byteway_content::BlockSize;
use byteway_wire::FromBytes;
use byteway_wire::nvme::command::{FUSE_FIRST, FUSE_SECOND};
use byteway_wire::nvme::identify::{ctratt, fna, fuses, lpa, nwpc, oacs, oaes, oncs, sanicap, vwc};
use byteway_wire::nvme::{
    AdminOpcode, Cns, CommandsSupportedLog, Copy, CopyRange, DatasetManagement, DeviceSelfTest,
    DoorbellBufferConfig, FeaturesSupportedLog, Flush, FormatNvm, GetFeatures, GetLogPage, Identify,
    IdentifyController, NSID_ALL, NvmOpcode, Range, Sanitize, Select, SetFeatures, Sqe, Status,
    SupportedLogPages, WriteZeroes, fid, lid,
};

/// A bit of a field, and whether the capability exists.
struct Bit {
    name: &'static str,
    bit: u64,
    works: bool,
}

/// Each bit that is set works, each that works is set, and there is no other.
fn agree(field: &str, value: u64, bits: &[Bit]) {
    let mut named = 0;
    for Bit { name, bit, works } in bits {
        assert_eq!(value & bit != 0, *works, "{field}: {name} is advertised, and it works");
        named |= bit;
    }
    assert_eq!(value & !named, 0, "{field}: what the test knows nothing of");
}

async fn works(host: &TestHost, sqe: Sqe) -> bool {
    let status = host.admin(sqe).await.status();
    assert!(
        status.is_success() || status.is(Status::INVALID_OPCODE) || status.is(Status::INVALID_FIELD),
        "{status}"
    );
    status.is_success()
}

async fn does(host: &TestHost, pair: &Pair, sqe: Sqe) -> bool {
    let status = host.io(pair, sqe).await.status();
    assert!(
        status.is_success() || status.is(Status::INVALID_OPCODE) || status.is(Status::INVALID_FIELD),
        "{status}"
    );
    status.is_success()
}

async fn oacs_bits(host: &TestHost, shadow: bool) -> Vec<Bit> {
    let page = host.pages(2);
    let bit = |name, bit: u16, works| Bit { name, bit: bit.into(), works };
    let opcode = async |opcode: AdminOpcode| works(host, Sqe::new(opcode, 0, 0).with_prp(page, 0)).await;
    let format = works(host, format(NS_512, BlockSize::B512, 0)).await;
    let test = works(host, DeviceSelfTest { stc: DeviceSelfTest::ABORT }.sqe(0, 0)).await;
    let detached = works(host, host.attach_sqe(NS_512, false)).await;
    host.succeed(host.attach_sqe(NS_512, true)).await;
    let doorbells = DoorbellBufferConfig { shadow_doorbells: page, event_indexes: page + 4096 };
    vec![
        bit("Security Send and Receive", oacs::SECURITY, opcode(AdminOpcode::SECURITY_SEND).await),
        bit("Format NVM", oacs::FORMAT, format),
        bit("Firmware Commit", oacs::FIRMWARE, opcode(AdminOpcode::FIRMWARE_COMMIT).await),
        bit("Namespace Management", oacs::NAMESPACE_MANAGEMENT, detached),
        bit("Device Self-test", oacs::SELF_TEST, test),
        bit("Directives", 1 << 5, opcode(AdminOpcode::DIRECTIVE_SEND).await),
        bit("NVMe-MI", 1 << 6, opcode(AdminOpcode::NVME_MI_SEND).await),
        bit("Virtualization", 1 << 7, opcode(AdminOpcode::VIRTUALIZATION_MANAGEMENT).await),
        bit("Doorbell Buffer Config", oacs::DOORBELL_BUFFER, shadow && works(host, doorbells.sqe(0)).await),
        bit("Get LBA Status", 1 << 9, opcode(AdminOpcode::GET_LBA_STATUS).await),
        bit("Lockdown", 1 << 10, opcode(AdminOpcode::LOCKDOWN).await),
    ]
}

async fn oncs_bits(host: &TestHost, pair: &Pair) -> Vec<Bit> {
    let bit = |name, bit: u16, works| Bit { name, bit: bit.into(), works };
    let block = host.holding(&pattern(1, 4096));
    let io = async |opcode| does(host, pair, read_write(opcode, NS_4K, 0, 1).with_prp(block, 0)).await;
    assert!(io(NvmOpcode::WRITE).await && io(NvmOpcode::READ).await);
    let compare = io(NvmOpcode::COMPARE).await;
    let ranges = host.holding(&Range::new(0, 1).to_bytes());
    let trim =
        DatasetManagement { ad: true, ..DatasetManagement::default() }.sqe(0, NS_4K).with_prp(ranges, 0);
    let source = host.holding(&CopyRange::new(10, 1).to_bytes());
    let copy = Copy { sdlba: 20, ..Copy::default() }.sqe(0, NS_4K).with_prp(source, 0);
    let save = SetFeatures { fid: fid::WRITE_ATOMICITY, sv: true, ..SetFeatures::default() }.sqe(0, 0);
    let time = host.holding(&[1, 2, 3, 4, 5, 6, 0, 0]);
    let copies = does(host, pair, copy).await;
    vec![
        bit("Compare", oncs::COMPARE, compare),
        bit("Write Uncorrectable", oncs::WRITE_UNCORRECTABLE, {
            does(host, pair, read_write(NvmOpcode::WRITE_UNCORRECTABLE, NS_4K, 5, 1)).await
        }),
        bit("Dataset Management", oncs::DATASET_MANAGEMENT, does(host, pair, trim).await),
        bit("Write Zeroes", oncs::WRITE_ZEROES, does(host, pair, WriteZeroes::default().sqe(0, NS_4K)).await),
        bit("Save", oncs::SAVE, works(host, save).await),
        bit("Reservations", oncs::RESERVATIONS, io(NvmOpcode::RESERVATION_REPORT).await),
        bit(
            "Timestamp",
            oncs::TIMESTAMP,
            works(host, set_features(fid::TIMESTAMP, 0).with_prp(time, 0)).await,
        ),
        bit("Verify", oncs::VERIFY, does(host, pair, read_write(NvmOpcode::VERIFY, NS_4K, 0, 1)).await),
        bit("Copy", oncs::COPY, copies),
        bit("Copy, atomic as a Write is: each block", oncs::COPY_ATOMIC, copies),
    ]
}

async fn compares_and_writes(host: &TestHost, pair: &Pair) -> bool {
    let zeroes = host.pages(1);
    let half = |opcode, fuse| read_write(opcode, NS_4K, 30, 1).with_prp(zeroes, 0).with_fuse(fuse);
    host.place(&pair.sq, half(NvmOpcode::COMPARE, FUSE_FIRST));
    host.place(&pair.sq, half(NvmOpcode::WRITE, FUSE_SECOND));
    host.ring_tail(&pair.sq);
    host.next_many(&pair.cq, 2).await.iter().all(|cqe| cqe.status().is_success())
}

async fn logs(host: &TestHost) -> Vec<Bit> {
    let page = host.pages(1);
    let bit = |name, bit: u8, works| Bit { name, bit: bit.into(), works };
    let log = async |lid, nsid, lpo| {
        let get = GetLogPage { lid, lpo, numd_z: 15, ..GetLogPage::default() };
        host.admin(get.sqe(0, nsid).with_prp(page, 0)).await.status().is_success()
    };
    vec![
        bit("SMART per namespace", lpa::SMART_PER_NAMESPACE, log(lid::SMART, NS_4K, 0).await),
        bit("Commands Supported", lpa::COMMANDS_SUPPORTED, log(lid::COMMANDS_SUPPORTED, 0, 0).await),
        bit("offsets", lpa::EXTENDED, log(lid::ERROR_INFORMATION, 0, 64).await),
        bit("Telemetry", 1 << 3, log(lid::TELEMETRY_HOST, 0, 0).await),
        bit("Persistent Event", 1 << 4, log(lid::PERSISTENT_EVENT, 0, 0).await),
        bit("Supported Log Pages", lpa::SUPPORTED_LOG_PAGES, {
            log(lid::SUPPORTED_LOG_PAGES, 0, 0).await && log(lid::FEATURES_SUPPORTED, 0, 0).await
        }),
    ]
}

// A host goes by what is advertised. A bit too many and its commands fail; a bit too few and what works is not used.
#[test]
fn every_bit_that_is_advertised_works_and_no_other_does() {
    for shadow in [false, true] {
        let mut bench = Bench::default();
        bench.drive.controller.shadow_doorbells = shadow;
        bench.ends_quiet = !shadow;
        bench.with_queue(async move |host, pair| {
            let page = host.identify(Cns::CONTROLLER, 0).await;
            let id = IdentifyController::read_from_bytes(&page).expect("a page is as long as its structure");
            agree("ONCS", id.oncs.into(), &oncs_bits(&host, &pair).await);
            agree("LPA", id.lpa.into(), &logs(&host).await);
            agree(
                "OAES",
                id.oaes.into(),
                &[Bit {
                    name: "namespaces",
                    bit: oaes::NAMESPACE_ATTRIBUTE.into(),
                    works: {
                        // the log that the event points to
                        host.log(lid::CHANGED_NAMESPACE_LIST, 0, 64).await;
                        true
                    },
                }],
            );
            host.identify(Cns::NAMESPACE_GRANULARITY, 0).await;
            // That the timer expires, and not before, is in `admin.rs`.
            let keeps_alive = works(&host, set_features(fid::KEEP_ALIVE_TIMER, 1_000_000)).await
                && works(&host, Sqe::new(AdminOpcode::KEEP_ALIVE, 0, 0)).await
                && works(&host, set_features(fid::KEEP_ALIVE_TIMER, 0)).await;
            assert_eq!(id.kas > 0, keeps_alive, "Keep Alive");
            agree(
                "CTRATT",
                id.ctratt.into(),
                &[
                    Bit {
                        name: "traffic based keep alive",
                        bit: ctratt::TRAFFIC_BASED_KEEP_ALIVE.into(),
                        works: keeps_alive,
                    },
                    Bit { name: "granularity", bit: ctratt::NAMESPACE_GRANULARITY.into(), works: true },
                ],
            );
            agree(
                "FUSES",
                id.fuses.into(),
                &[Bit {
                    name: "Compare and Write",
                    bit: fuses::COMPARE_AND_WRITE.into(),
                    works: compares_and_writes(&host, &pair).await,
                }],
            );
            let flush = does(&host, &pair, Flush.sqe(0, NSID_ALL)).await;
            agree(
                "VWC",
                id.vwc.into(),
                &[
                    Bit {
                        name: "present",
                        bit: vwc::PRESENT.into(),
                        works: { works(&host, set_features(fid::VOLATILE_WRITE_CACHE, 1)).await },
                    },
                    Bit { name: "flush of all", bit: vwc::FLUSH_ALL.into(), works: flush },
                ],
            );
            let crypto = format(NS_512, BlockSize::B512, FormatNvm::SES_CRYPTOGRAPHIC);
            let crypto_works = works(&host, crypto).await;
            let all = format(NSID_ALL, BlockSize::B4096, 0);
            let before = host.namespace(NS_4K).await;
            host.succeed(format(NS_512, BlockSize::B4096, FormatNvm::SES_USER_DATA)).await;
            assert_eq!(host.namespace(NS_4K).await.flbas, before.flbas, "of one namespace");
            agree(
                "FNA",
                id.fna.into(),
                &[
                    Bit { name: "cryptographic", bit: fna::CRYPTO_ERASE.into(), works: crypto_works },
                    Bit { name: "not all", bit: fna::NO_BROADCAST.into(), works: !works(&host, all).await },
                ],
            );
            let protects = async |state| {
                let sqe = set_features(fid::NAMESPACE_WRITE_PROTECTION, state);
                works(&host, Sqe { nsid: NS_512, ..sqe }).await
            };
            let bit = |name, bit: u8, works| Bit { name, bit: bit.into(), works };
            let takes_back = protects(1).await && protects(0).await;
            agree(
                "NWPC",
                id.nwpc.into(),
                &[
                    bit("until it is taken back", nwpc::WRITE_PROTECT, takes_back),
                    bit("until the power goes", nwpc::UNTIL_POWER_CYCLE, protects(2).await),
                    bit("for ever", nwpc::PERMANENT, protects(3).await),
                ],
            );
            assert_eq!(id.rpmbs, 0, "without it a host could not tell whether the last two are allowed");
            // Metadata, features of other kinds of drives: none.
            assert_eq!((id.cmic, id.hmpre, id.npss, id.anacap), (0, 0, 0, 0));
            assert_eq!(id.cdfs, 1);
        });
        let mut bench = Bench::default();
        bench.drive.controller.shadow_doorbells = shadow;
        bench.ends_quiet = false;
        bench.with_queue(async move |host, _| {
            let page = host.identify(Cns::CONTROLLER, 0).await;
            let id = IdentifyController::read_from_bytes(&page).expect("a page is as long as its structure");
            let sanitize = |sanact| Sanitize { sanact, ..Sanitize::default() };
            let no_deallocate = Sanitize { ndas: true, ..sanitize(Sanitize::BLOCK_ERASE) };
            let mut bits = vec![
                Bit {
                    name: "inhibited",
                    bit: sanicap::NO_DEALLOCATE_INHIBITED.into(),
                    works: { !works(&host, no_deallocate.sqe(0)).await },
                },
                Bit { name: "not modified", bit: sanicap::NOT_MODIFIED_AFTER.into(), works: true },
            ];
            for (name, bit, sanact) in [
                ("crypto erase", sanicap::CRYPTO_ERASE, Sanitize::CRYPTO_ERASE),
                ("overwrite", sanicap::OVERWRITE, Sanitize::OVERWRITE),
                ("verification", sanicap::VERIFICATION, Sanitize::EXIT_VERIFICATION),
                ("block erase", sanicap::BLOCK_ERASE, Sanitize::BLOCK_ERASE),
            ] {
                bits.push(Bit { name, bit: bit.into(), works: works(&host, sanitize(sanact).sqe(0)).await });
            }
            agree("SANICAP", id.sanicap.into(), &bits);
            host.sleep(fixture::LONG).await;
            agree("OACS", id.oacs.into(), &oacs_bits(&host, shadow).await);
        });
    }
}

// The same for what the logs name: opcodes, features, log pages, structures. Each has its own status for what isn't there.
#[test]
fn what_no_log_names_is_refused_with_its_own_status() {
    Bench::default().with_queue(async |host, pair| {
        let page = host.pages(1);
        let log = host.log(lid::COMMANDS_SUPPORTED, 0, 4096).await;
        let commands =
            CommandsSupportedLog::read_from_bytes(&log).expect("a page is as long as its structure");
        for opcode in 0..=255u8 {
            // With an opcode only, existing commands are refused too, but for another reason.
            if commands.acs[usize::from(opcode)] == 0 {
                host.refused(Sqe::new(opcode, 0, NS_4K), Status::INVALID_OPCODE).await;
            }
            let status = host.io(&pair, Sqe::new(opcode, 0, NS_4K).with_prp(page, 0)).await.status();
            let is_there = commands.iocs[usize::from(opcode)] != 0;
            assert_eq!(status.is(Status::INVALID_OPCODE), !is_there, "{}: {status}", NvmOpcode(opcode));
        }
        let log = host.log(lid::FEATURES_SUPPORTED, 0, 1024).await;
        let features =
            FeaturesSupportedLog::read_from_bytes(&log).expect("a page is as long as its structure");
        let log = host.log(lid::SUPPORTED_LOG_PAGES, 0, 1024).await;
        let pages = SupportedLogPages::read_from_bytes(&log).expect("a page is as long as its structure");
        for code in 0..=255u8 {
            let sqe = GetFeatures { fid: code, sel: Select::SUPPORTED, ..GetFeatures::default() }.sqe(0, 0);
            match features.fids[usize::from(code)] {
                0 => {
                    host.refused(sqe, Status::INVALID_FIELD).await;
                    host.refused(set_features(code, 0), Status::INVALID_FIELD).await;
                }
                _ => assert!(host.succeed(sqe).await & Select::CHANGEABLE != 0, "feature {code:#x}"),
            }
            let get =
                GetLogPage { lid: code, numd_z: 15, ..GetLogPage::default() }.sqe(0, 0).with_prp(page, 0);
            match pages.lids[usize::from(code)] {
                0 => host.refused(get, Status::INVALID_LOG_PAGE).await,
                _ => drop(host.succeed(get).await),
            }
        }
        for csi in 1..=255 {
            for cns in [Cns::COMMAND_SET_ALLOCATED_NAMESPACES, Cns::COMMAND_SET_ALLOCATED_NAMESPACE] {
                let sqe = Identify { cns, csi, ..Identify::default() }.sqe(0, NS_4K).with_prp(page, 0);
                host.refused(sqe, Status::INVALID_FIELD).await;
            }
        }
        host.refused(host.create_sqe(&wanted(1, 1)), Status::NAMESPACE_INSUFFICIENT_CAPACITY).await;
    });
}
