//! The admin commands (NVMe Base 2.1, 5), command by command and status by status.
//!
//! Not here: what changes namespaces (`namespaces.rs`, `format.rs`, `sanitize.rs`, `protection.rs`), self-test
//! (`self_test.rs`), non-volatile state (`persistence.rs`), and that all that is advertised works
//! (`advertised.rs`); and what the drive doesn't have: firmware download.

use crate::fixture::{
    Bench, LONG, NS_4K, NS_4K_UNITS, NS_512, NS_512_UNITS, PAGE, TestHost, cc, create_cq, create_sq,
    delete_cq, delete_sq, drive_config, get_features, pattern, read_write, set_features,
};
use byteway_clock::Delay;
use byteway_wire::nvme::feature::{
    Arbitration, AsyncEventConfig, ErrorRecovery, HostBehavior, InterruptCoalescing,
    InterruptVectorConfiguration, NumberOfQueues, TemperatureThreshold, VolatileWriteCache,
};
use byteway_wire::nvme::identify::{
    IdentifyController, IdentifyControllerNvm, IdentifyNamespaceNvm, ascii_text, fuses, lpa, oacs, oncs,
    sgls, vwc,
};
use byteway_wire::nvme::log::scope;
use byteway_wire::nvme::{
    Abort, ActiveNamespaceList, AdminOpcode, AsyncEvent, Cns, CommandsSupportedLog, CreateCq, CreateSq,
    Doorbell, ErrorLogEntry, FeaturesSupportedLog, FirmwareSlotLog, Flush, GetFeatures, GetLogPage, Identify,
    IdentifyNamespace, NSID_ALL, NamespaceDescriptor, NvmOpcode, QueuePriority, Select, SetFeatures,
    SglDescriptor, SmartLog, Sqe, Status, SupportedLogPages, Vs, csi, fid, lid,
};
use byteway_wire::{FromBytes, IntoBytes};

/// The structure in a page.
fn parse<T: FromBytes>(page: &[u8]) -> T {
    T::read_from_prefix(page).expect("the page is long enough").0
}

fn identify(cns: Cns, nsid: u32) -> Sqe {
    Identify { cns, ..Identify::default() }.sqe(0, nsid)
}

// Drivers size transfers, queues and requests by what the controller says, and show its names.
#[test]
fn identify_controller_says_what_the_drive_is_and_takes() {
    Bench::default().enabled(async |host| {
        let id: IdentifyController = parse(&host.identify(Cns::CONTROLLER, 0).await);
        assert_eq!((id.serial_number(), id.model_number()), ("TEST0001".into(), "Byteway test drive".into()));
        assert_eq!(id.firmware_revision(), env!("CARGO_PKG_VERSION"));
        assert_eq!((id.vid, id.ssvid), (0x1af4, 0x1af4));
        assert_eq!(id.ver, Vs::V2_0.into_bits());
        assert_eq!((id.cntrltype, id.nn, id.mnan), (1, 128, 128));
        assert_eq!(id.transfer_bytes_max(4096), Some(128 << 10));
        assert_eq!((id.sqes, id.cqes), (0x66, 0x44));
        assert_eq!((id.acl, id.aerl, id.elpe, id.npss, id.rab), (3, 3, 63, 0, 7));
        let commands = oncs::COMPARE | oncs::DATASET_MANAGEMENT | oncs::WRITE_ZEROES | oncs::SAVE;
        let commands = commands | oncs::WRITE_UNCORRECTABLE | oncs::VERIFY | oncs::COPY | oncs::TIMESTAMP;
        let commands = commands | oncs::COPY_ATOMIC;
        let admin = oacs::FORMAT | oacs::NAMESPACE_MANAGEMENT | oacs::SELF_TEST;
        let logs = lpa::COMMANDS_SUPPORTED | lpa::EXTENDED | lpa::SUPPORTED_LOG_PAGES;
        assert_eq!((id.oncs, id.oacs, id.fuses, id.lpa), (commands, admin, fuses::COMPARE_AND_WRITE, logs));
        assert_eq!((id.vwc, id.sgls), (vwc::PRESENT | vwc::FLUSH_ALL, 0));
        assert_eq!(id.frmw, 1 << 1 | 1, "one slot, read only");
        assert_eq!(u128::from_le_bytes(id.tnvmcap), u128::from(NS_512_UNITS + NS_4K_UNITS) * 4096);
        assert!(id.wctemp > 0 && id.cctemp > id.wctemp);
        let nqn = id.subnqn.split(|byte| *byte == 0).next().unwrap();
        assert_eq!(nqn, b"nqn.2026-11.org.byteway:TEST0001");
        let with_nsid: IdentifyController = parse(&host.identify(Cns::CONTROLLER, 77).await);
        assert_eq!(with_nsid.as_bytes(), id.as_bytes(), "the namespace does not matter");
    });
}

// A limit of 4 KiB would be an MDTS of 0, which means no limit: the host's transfers would then fail.
#[test]
fn the_largest_transfer_is_one_that_mdts_can_say() {
    for bytes in [8 << 10, 16 << 20] {
        let mut bench = Bench::default();
        bench.drive.controller.transfer_bytes_max = bytes;
        bench.enabled(async move |host| {
            let id: IdentifyController = parse(&host.identify(Cns::CONTROLLER, 0).await);
            assert_eq!(id.transfer_bytes_max(4096), Some(u64::from(bytes)));
        });
    }
    for bytes in [0, 512, 4096, 12 << 10, 32 << 20] {
        let mut config = drive_config();
        config.controller.transfer_bytes_max = bytes;
        let error = config.validate().unwrap_err();
        assert!(error.message.contains("from 8 KiB to 16 MiB"), "{bytes}: {error}");
    }
}

// A driver that is notified of SGLs uses them.
#[test]
fn identify_controller_tells_of_sgls_where_they_are_supported() {
    Bench::with_sgl().enabled(async |host| {
        let id: IdentifyController = parse(&host.identify(Cns::CONTROLLER, 0).await);
        assert_eq!(id.sgls, sgls::SUPPORTED | sgls::BIT_BUCKET);
    });
}

// A wrong size or format and a file system is laid over the neighbour, or loses its end.
#[test]
fn identify_namespace_says_size_and_format() {
    Bench::default().enabled(async |host| {
        let mut eui64 = Vec::new();
        for (nsid, blocks, lbads) in [(NS_512, NS_512_UNITS * 8, 9), (NS_4K, NS_4K_UNITS, 12)] {
            let id: IdentifyNamespace = parse(&host.identify(Cns::NAMESPACE, nsid).await);
            assert_eq!((id.nsze, id.ncap, id.nuse), (blocks, blocks, blocks));
            assert_eq!((id.nlbaf, id.format().lbads, id.format().ms), (1, lbads, 0));
            assert_eq!(u128::from_le_bytes(id.nvmcap), u128::from(blocks) << lbads);
            assert_eq!(
                id.dlfeat & 0b1111,
                0b1001,
                "deallocated blocks read as zeroes, Write Zeroes deallocates"
            );
            assert_eq!(id.npwg, if lbads == 9 { 7 } else { 0 }, "writes below 4 KiB are read-modify-write");
            eui64.push(id.eui64);
        }
        assert_ne!(eui64[0], eui64[1], "hosts tell namespaces apart by them");
        for nsid in [0, 129, 1000, NSID_ALL - 1] {
            let page = host.pages(1);
            host.refused(identify(Cns::NAMESPACE, nsid).with_prp(page, 0), Status::INVALID_NAMESPACE).await;
        }
        assert_eq!(host.identify(Cns::NAMESPACE, 3).await, [0; 4096], "nothing is attached by it");
        let common: IdentifyNamespace = parse(&host.identify(Cns::NAMESPACE, NSID_ALL).await);
        assert_eq!((common.nsze, common.nlbaf, common.lbaf[0].lbads, common.lbaf[1].lbads), (0, 1, 9, 12));
    });
}

// A host finds namespaces by these lists; one that doesn't end, or begins one too early, is scanned indefinitely.
#[test]
fn identify_lists_the_namespaces_above_the_given_one() {
    Bench::default().enabled(async |host| {
        for cns in [Cns::ACTIVE_NAMESPACES, Cns::COMMAND_SET_ACTIVE_NAMESPACES] {
            for (above, expected) in [(0, vec![1, 2]), (1, vec![2]), (2, vec![]), (500, vec![])] {
                let list: ActiveNamespaceList = parse(&host.identify(cns, above).await);
                assert_eq!(list.iter().collect::<Vec<_>>(), expected, "above {above}");
            }
            for above in [NSID_ALL - 1, NSID_ALL] {
                let page = host.pages(1);
                host.refused(identify(cns, above).with_prp(page, 0), Status::INVALID_NAMESPACE).await;
            }
        }
    });
}

// Descriptors are how a host recognises a namespace that comes back by another path.
#[test]
fn identify_describes_a_namespace() {
    Bench::default().enabled(async |host| {
        for nsid in [NS_512, NS_4K] {
            let id: IdentifyNamespace = parse(&host.identify(Cns::NAMESPACE, nsid).await);
            let page = host.identify(Cns::NAMESPACE_DESCRIPTORS, nsid).await;
            let descriptors: Vec<_> = NamespaceDescriptor::parse_list(&page).collect();
            let [eui64, nguid, NamespaceDescriptor::Uuid(uuid), csi] = descriptors[..] else {
                panic!("{descriptors:?}");
            };
            let others = [eui64, nguid, csi];
            assert_eq!(
                others,
                [
                    NamespaceDescriptor::Eui64(id.eui64),
                    NamespaceDescriptor::Nguid(id.nguid),
                    NamespaceDescriptor::Csi(csi::NVM)
                ]
            );
            assert_eq!((uuid[6] >> 4, uuid[8] >> 6), (8, 0b10), "version and variant of RFC 9562");
            assert_eq!(id.nguid[8..], id.eui64);
        }
        let wrong =
            [(0, Status::INVALID_NAMESPACE), (129, Status::INVALID_NAMESPACE), (3, Status::INVALID_FIELD)];
        for (nsid, status) in wrong.into_iter().chain([(NSID_ALL, Status::INVALID_NAMESPACE)]) {
            let page = host.pages(1);
            let sqe = identify(Cns::NAMESPACE_DESCRIPTORS, nsid).with_prp(page, 0);
            host.refused(sqe, status).await;
        }
    });
}

// The limits of Dataset Management are only here: a host that doesn't see them sends what is refused.
#[test]
fn identify_for_the_nvm_command_set() {
    Bench::default().enabled(async |host| {
        let limits: IdentifyControllerNvm = parse(&host.identify(Cns::COMMAND_SET_CONTROLLER, 0).await);
        assert_eq!((limits.dmrl, limits.dmrsl, limits.dmsl), (0, 1 << 20, 1 << 22));
        assert_eq!((limits.vsl, limits.wzsl, limits.wusl), (0, 0, 0), "no limit");
        let namespace: IdentifyNamespaceNvm = parse(&host.identify(Cns::COMMAND_SET_NAMESPACE, NS_4K).await);
        assert_eq!((namespace.lbstm, namespace.pic), (0, 0), "no protection information");
        let page = host.pages(1);
        let wrong = identify(Cns::COMMAND_SET_NAMESPACE, 129).with_prp(page, 0);
        host.refused(wrong, Status::INVALID_NAMESPACE).await;
        for cns in
            [Cns::COMMAND_SET_NAMESPACE, Cns::COMMAND_SET_CONTROLLER, Cns::COMMAND_SET_ACTIVE_NAMESPACES]
        {
            for csi in [csi::KEY_VALUE, csi::ZONED, 0xff] {
                let sqe = Identify { cns, csi, ..Identify::default() }.sqe(0, NS_4K).with_prp(page, 0);
                host.refused(sqe, Status::INVALID_FIELD).await;
            }
        }
    });
}

// An answer to a question that the drive doesn't know would be taken for a structure.
#[test]
fn identify_refuses_what_it_does_not_know() {
    Bench::default().enabled(async |host| {
        let known = [0, 1, 2, 3, 5, 6, 7, 8, 0x10, 0x11, 0x12, 0x13, 0x16, 0x1a, 0x1b];
        let page = host.pages(1);
        for cns in (0..=255).filter(|cns| !known.contains(cns)) {
            host.refused(identify(Cns(cns), NS_4K).with_prp(page, 0), Status::INVALID_FIELD).await;
        }
        assert!(host.peek(page, 4096).iter().all(|byte| *byte == 0));
    });
}

// 4 KiB at an offset end in a second page: admin data follows the same pointers as any other.
#[test]
fn admin_data_goes_where_the_prps_say() {
    Bench::default().enabled(async |host| {
        let expected = host.identify(Cns::CONTROLLER, 0).await;
        for offset in [0, 4, 512, 4092] {
            let (first, second) = (host.pages(3), host.pages(3));
            let sqe = identify(Cns::CONTROLLER, 0).with_prp(first + PAGE + offset, second + PAGE);
            host.succeed(sqe).await;
            let split = (PAGE - offset) as usize;
            assert_eq!(host.peek(first + PAGE + offset, split), expected[..split]);
            assert_eq!(host.peek(second + PAGE, 4096 - split), expected[split..]);
            let around =
                [host.peek(first, PAGE as usize + offset as usize), host.peek(second + 2 * PAGE, 4096)];
            assert!(around.concat().iter().all(|byte| *byte == 0), "nothing around it");
        }
        let page = host.pages(1);
        let status = host.admin(identify(Cns::CONTROLLER, 0).with_prp(page + 2, 0)).await.status();
        assert!(status.is(Status::PRP_OFFSET_INVALID));
        let status = host.admin(identify(Cns::CONTROLLER, 0).with_prp(host.hole(), 0)).await.status();
        assert!(status.is(Status::DATA_TRANSFER_ERROR));
    });
}

// Over PCIe, admin commands use PRPs, and there are no fused ones.
#[test]
fn admin_commands_take_no_sgl_and_no_fuse() {
    Bench::with_sgl().enabled(async |host| {
        let page = host.pages(1);
        let block = SglDescriptor::data_block(page, 4096);
        host.refused(identify(Cns::CONTROLLER, 0).with_sgl(block), Status::INVALID_FIELD).await;
        for fuse in 1..=3 {
            host.refused(
                identify(Cns::CONTROLLER, 0).with_prp(page, 0).with_fuse(fuse),
                Status::INVALID_FIELD,
            )
            .await;
        }
        assert!(host.peek(page, 4096).iter().all(|byte| *byte == 0));
    });
}

// Hosts try commands to find out what there is: each unknown one must be answered, and with this.
#[test]
fn unknown_admin_opcodes_are_refused() {
    Bench::default().enabled(async |host| {
        let known =
            [0x00, 0x01, 0x02, 0x04, 0x05, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x0d, 0x14, 0x15, 0x18, 0x80, 0x84];
        for opcode in (0..=255u8).filter(|opcode| !known.contains(opcode)) {
            host.refused(Sqe::new(opcode, 0, 0), Status::INVALID_OPCODE).await;
        }
    });
}

// A queue that can't be must not be: its completions would go astray.
#[test]
fn create_completion_queue_refuses_each_wrong_field() {
    Bench::default().enabled(async |host| {
        let base = host.pages(8);
        let right = CreateCq { qid: 1, qsize_z: 63, pc: true, ien: true, iv: 8 };
        let wrong = [
            (CreateCq { qid: 0, ..right }, base, Status::INVALID_QUEUE_ID),
            (CreateCq { qid: 9, ..right }, base, Status::INVALID_QUEUE_ID),
            (CreateCq { qid: 0xffff, ..right }, base, Status::INVALID_QUEUE_ID),
            (CreateCq { qsize_z: 0, ..right }, base, Status::INVALID_QUEUE_SIZE),
            (CreateCq { qsize_z: 1024, ..right }, base, Status::INVALID_QUEUE_SIZE),
            (CreateCq { qsize_z: 0xffff, ..right }, base, Status::INVALID_QUEUE_SIZE),
            (CreateCq { pc: false, ..right }, base, Status::INVALID_FIELD),
            (CreateCq { iv: 9, ..right }, base, Status::INVALID_INTERRUPT_VECTOR),
            (CreateCq { iv: 0xffff, ..right }, base, Status::INVALID_INTERRUPT_VECTOR),
            (right, base + 8, Status::PRP_OFFSET_INVALID),
            (right, base + 2048, Status::PRP_OFFSET_INVALID),
        ];
        for (command, prp1, status) in wrong {
            host.refused(command.sqe(0, prp1), status).await;
        }
        host.succeed(right.sqe(0, base)).await;
        host.refused(right.sqe(0, base), Status::INVALID_QUEUE_ID).await; // it exists
        let polled = CreateCq { qid: 2, ien: false, iv: 0xffff, ..right };
        host.succeed(polled.sqe(0, base + PAGE)).await; // the vector doesn't matter without interrupts
        let largest = CreateCq { qid: 8, qsize_z: 1023, ..right };
        host.succeed(largest.sqe(0, base + 2 * PAGE)).await;
    });
}

// The same for submission queues, which name a completion queue besides.
#[test]
fn create_submission_queue_refuses_each_wrong_field() {
    Bench::default().enabled(async |host| {
        let base = host.pages(32);
        host.create_cq(3, 16, None).await;
        let right = CreateSq { qid: 1, qsize_z: 63, pc: true, qprio: QueuePriority::Urgent, cqid: 3 };
        let wrong = [
            (CreateSq { qid: 0, ..right }, base, Status::INVALID_QUEUE_ID),
            (CreateSq { qid: 9, ..right }, base, Status::INVALID_QUEUE_ID),
            (CreateSq { qsize_z: 0, ..right }, base, Status::INVALID_QUEUE_SIZE),
            (CreateSq { qsize_z: 1024, ..right }, base, Status::INVALID_QUEUE_SIZE),
            (CreateSq { pc: false, ..right }, base, Status::INVALID_FIELD),
            (CreateSq { cqid: 0, ..right }, base, Status::INVALID_QUEUE_ID),
            (CreateSq { cqid: 9, ..right }, base, Status::INVALID_QUEUE_ID),
            (CreateSq { cqid: 4, ..right }, base, Status::COMPLETION_QUEUE_INVALID),
            (right, base + 4, Status::PRP_OFFSET_INVALID),
        ];
        for (command, prp1, status) in wrong {
            host.refused(command.sqe(0, prp1), status).await;
        }
        host.succeed(right.sqe(0, base)).await;
        host.refused(right.sqe(0, base), Status::INVALID_QUEUE_ID).await; // it exists
        let largest = CreateSq { qid: 8, qsize_z: 1023, ..right };
        host.succeed(largest.sqe(0, base + PAGE)).await;
    });
}

// With other sizes of entries the rings would be read at the wrong places.
#[test]
fn entry_sizes_in_cc_must_be_the_supported_ones() {
    Bench { cc: cc().with_iocqes(5), ..Bench::default() }.enabled(async |host| {
        host.refused(create_cq(&host.new_cq(1, 16), None), Status::INVALID_QUEUE_SIZE).await;
    });
    Bench { cc: cc().with_iosqes(0), ..Bench::default() }.enabled(async |host| {
        host.create_cq(1, 16, None).await;
        let sqe = create_sq(&host.new_sq(1, 16), 1, QueuePriority::Urgent);
        host.refused(sqe, Status::INVALID_QUEUE_SIZE).await;
    });
}

// A completion queue that goes before its submission queues leaves completions with nowhere to go.
#[test]
fn queues_are_deleted_in_order_and_once() {
    Bench::default().enabled(async |host| {
        let cq = host.create_cq(1, 16, None).await;
        let first = host.create_sq(1, 16, &cq, QueuePriority::Urgent).await;
        host.create_sq(2, 16, &cq, QueuePriority::Urgent).await;
        for qid in [0, 3, 9, 0xffff] {
            host.refused(delete_sq(qid), Status::INVALID_QUEUE_ID).await;
        }
        for qid in [0, 2, 9, 0xffff] {
            host.refused(delete_cq(qid), Status::INVALID_QUEUE_ID).await;
        }
        host.refused(delete_cq(1), Status::INVALID_QUEUE_DELETION).await;
        host.succeed(delete_sq(1)).await;
        host.refused(delete_sq(1), Status::INVALID_QUEUE_ID).await;
        host.refused(delete_cq(1), Status::INVALID_QUEUE_DELETION).await;
        host.succeed(delete_sq(2)).await;
        host.succeed(delete_cq(1)).await;
        host.refused(delete_cq(1), Status::INVALID_QUEUE_ID).await;
        host.refused(create_sq(&first.sq, 1, QueuePriority::Urgent), Status::COMPLETION_QUEUE_INVALID).await;
        let pair = host.create_pair(1, 4).await;
        assert_eq!(
            host.io(&pair, Flush.sqe(0, NS_4K)).await.status(),
            Status::SUCCESS,
            "the numbers are free again"
        );
    });
}

fn queues(sqs: u16, cqs: u16) -> u32 {
    NumberOfQueues::new().with_nsq_z(sqs - 1).with_ncq_z(cqs - 1).into_bits()
}

// A host creates as many queues as it was granted: a further one must fail, and a smaller request must be
// granted as requested.
#[test]
fn number_of_queues_grants_and_binds() {
    Bench::default().enabled(async |host| {
        assert_eq!(host.feature(fid::NUMBER_OF_QUEUES).await, queues(8, 8));
        for (wanted, granted) in [((64, 64), (8, 8)), ((1, 8), (1, 8)), ((2, 3), (2, 3))] {
            let got = host.set_feature(fid::NUMBER_OF_QUEUES, queues(wanted.0, wanted.1)).await;
            assert_eq!(got, queues(granted.0, granted.1));
            assert_eq!(host.feature(fid::NUMBER_OF_QUEUES).await, got);
        }
        for value in [0xffff, 0xffff_0000, 0xffff_ffff] {
            host.refused(set_features(fid::NUMBER_OF_QUEUES, value), Status::INVALID_FIELD).await;
        }
        let default = get_features(fid::NUMBER_OF_QUEUES, Select::DEFAULT, 0);
        assert_eq!(host.succeed(default).await, queues(8, 8));
        host.create_cq(3, 16, None).await;
        host.refused(create_cq(&host.new_cq(4, 16), None), Status::INVALID_QUEUE_ID).await;
        host.succeed(create_sq(&host.new_sq(2, 16), 3, QueuePriority::Urgent)).await;
        host.refused(create_sq(&host.new_sq(3, 16), 3, QueuePriority::Urgent), Status::INVALID_QUEUE_ID)
            .await;
        host.refused(set_features(fid::NUMBER_OF_QUEUES, queues(8, 8)), Status::COMMAND_SEQUENCE_ERROR).await;
        host.succeed(delete_sq(2)).await;
        host.refused(set_features(fid::NUMBER_OF_QUEUES, queues(8, 8)), Status::COMMAND_SEQUENCE_ERROR).await;
        host.succeed(delete_cq(3)).await;
        host.set_feature(fid::NUMBER_OF_QUEUES, queues(8, 8)).await;
    });
}

/// A feature: a value that is not its default, and its default, both with the selector that Get Features needs.
struct Feature {
    fid: u8,
    value: u32,
    default: u32,
    selector: u32,
}

fn features() -> Vec<Feature> {
    let plain = |fid, value, default| Feature { fid, value, default, selector: 0 };
    let threshold = |kelvin| TemperatureThreshold::new().with_tmpth(kelvin);
    let vector = |cd| InterruptVectorConfiguration::new().with_iv(5).with_cd(cd).into_bits();
    vec![
        plain(
            fid::ARBITRATION,
            Arbitration::new().with_ab(3).with_lpw_z(1).with_mpw_z(2).with_hpw_z(3).into_bits(),
            Arbitration::new().with_ab(7).into_bits(),
        ),
        plain(fid::POWER_MANAGEMENT, 1 << 5, 0),
        plain(fid::TEMPERATURE_THRESHOLD, threshold(400).into_bits(), 343),
        Feature {
            fid: fid::TEMPERATURE_THRESHOLD,
            value: threshold(200).with_thsel(1).into_bits(),
            default: 0,
            selector: threshold(0).with_thsel(1).into_bits(),
        },
        plain(fid::VOLATILE_WRITE_CACHE, 0, VolatileWriteCache::new().with_wce(true).into_bits()),
        plain(
            fid::INTERRUPT_COALESCING,
            InterruptCoalescing::new().with_thr_z(4).with_time(9).into_bits(),
            0,
        ),
        Feature {
            fid: fid::INTERRUPT_VECTOR_CONFIGURATION,
            value: vector(true),
            default: vector(false),
            selector: vector(false),
        },
        plain(fid::WRITE_ATOMICITY, 1, 0),
        plain(fid::ASYNC_EVENT_CONFIGURATION, AsyncEventConfig::new().with_smart(0b10).into_bits(), 0),
    ]
}

// Get must return the value that was set, and the default must still be readable: hosts save and restore.
#[test]
fn each_feature_is_set_and_got_with_each_select() {
    Bench::default().enabled(async |host| {
        for Feature { fid, value, default, selector } in features() {
            let get = |sel| get_features(fid, sel, selector);
            // A threshold comes back without the bits that select it.
            let expected = if fid == fid::TEMPERATURE_THRESHOLD { value & 0xffff } else { value };
            assert_eq!(host.succeed(get(Select::CURRENT)).await, default, "feature {fid:#x} at first");
            host.set_feature(fid, value).await;
            assert_eq!(host.succeed(get(Select::CURRENT)).await, expected, "feature {fid:#x} set");
            assert_eq!(host.succeed(get(Select::DEFAULT)).await, default, "feature {fid:#x} default");
            assert_eq!(host.succeed(get(Select::SAVED)).await, default, "nothing is saved");
            let saveable = if SAVEABLE.contains(&fid) { Select::SAVEABLE } else { 0 };
            assert_eq!(host.succeed(get(Select::SUPPORTED)).await, Select::CHANGEABLE | saveable);
            for sel in 4..8 {
                host.refused(get(Select(sel)), Status::INVALID_FIELD).await;
            }
            host.set_feature(fid, default | selector).await;
            assert_eq!(host.succeed(get(Select::CURRENT)).await, default, "feature {fid:#x} set back");
        }
    });
}

/// Features of which values can be saved.
const SAVEABLE: [u8; 6] = [
    fid::ARBITRATION,
    fid::TEMPERATURE_THRESHOLD,
    fid::VOLATILE_WRITE_CACHE,
    fid::INTERRUPT_COALESCING,
    fid::WRITE_ATOMICITY,
    fid::ASYNC_EVENT_CONFIGURATION,
];

// Saved features must be in force after every reset, and a host must be told which ones cannot be saved.
#[test]
fn saved_features_are_in_force_after_a_reset() {
    Bench::default().enabled(async |host| {
        for Feature { fid, value, default, selector } in features() {
            let get = |sel| get_features(fid, sel, selector);
            let expected = if fid == fid::TEMPERATURE_THRESHOLD { value & 0xffff } else { value };
            let set = SetFeatures { fid, cdw11: value, sv: true, ..SetFeatures::default() };
            if !SAVEABLE.contains(&fid) {
                host.refused(set.sqe(0, 0), Status::FEATURE_NOT_SAVEABLE).await;
                continue;
            }
            host.succeed(set.sqe(0, 0)).await;
            assert_eq!(host.succeed(get(Select::SAVED)).await, expected, "feature {fid:#x} saved");
            assert_eq!(host.succeed(get(Select::DEFAULT)).await, default);
            host.set_feature(fid, default | selector).await;
            host.disable().await;
            host.enable().await;
            assert_eq!(host.succeed(get(Select::CURRENT)).await, expected, "feature {fid:#x} after a reset");
        }
    });
}

// `nvme feat err-recovery /dev/nvme0n1` names the namespace, whose feature it is; and blocks that are deallocated read as zeroes, so a
// host that asks for errors instead must not believe that it gets them.
#[test]
fn error_recovery_belongs_to_a_namespace() {
    Bench::default().enabled(async |host| {
        let set = |nsid, cdw11| {
            let fid = fid::ERROR_RECOVERY;
            SetFeatures { fid, cdw11, ..SetFeatures::default() }.sqe(0, nsid)
        };
        let get = |nsid, sel| GetFeatures { fid: fid::ERROR_RECOVERY, sel, cdw11: 0, uidx: 0 }.sqe(0, nsid);
        let values = async |host: &TestHost| {
            [
                host.succeed(get(NS_4K, Select::CURRENT)).await,
                host.succeed(get(NS_512, Select::CURRENT)).await,
            ]
        };
        host.succeed(set(NS_4K, 20)).await;
        assert_eq!(values(&host).await, [20, 0]);
        host.succeed(set(NSID_ALL, 7)).await;
        assert_eq!(values(&host).await, [7, 7]);
        let dulbe = ErrorRecovery::new().with_dulbe(true).with_tler(9).into_bits();
        host.refused(set(NS_4K, dulbe), Status::INVALID_FIELD).await;
        assert_eq!(host.namespace(NS_4K).await.nsfeat & IdentifyNamespace::NSFEAT_DULBE, 0);
        for nsid in [0, 1 << 20] {
            host.refused(set(nsid, 1), Status::INVALID_NAMESPACE).await;
            host.refused(get(nsid, Select::CURRENT), Status::INVALID_NAMESPACE).await;
        }
        host.refused(get(NSID_ALL, Select::CURRENT), Status::INVALID_NAMESPACE).await;
        assert_eq!(values(&host).await, [7, 7]);
        assert_eq!(host.succeed(get(NS_4K, Select::DEFAULT)).await, 0);
        let offers = Select::CHANGEABLE | Select::NAMESPACE_SPECIFIC;
        assert_eq!(host.succeed(get(NS_4K, Select::SUPPORTED)).await, offers);
        host.disable().await;
        host.enable().await;
        assert_eq!(values(&host).await, [0, 0], "it is not saved");
        let save = SetFeatures { fid: fid::ERROR_RECOVERY, sv: true, ..SetFeatures::default() };
        host.refused(save.sqe(0, NS_4K), Status::FEATURE_NOT_SAVEABLE).await;
    });
}

// A value that was set for one namespace and is in force for all is a surprise.
#[test]
fn features_of_the_controller_refuse_namespaces() {
    Bench::default().enabled(async |host| {
        for Feature { fid, value, default, selector } in features() {
            let set = SetFeatures { fid, cdw11: value, ..SetFeatures::default() };
            host.refused(set.sqe(0, NS_4K), Status::FEATURE_NOT_NAMESPACE_SPECIFIC).await;
            assert_eq!(
                host.succeed(get_features(fid, Select::CURRENT, selector)).await,
                default,
                "unchanged"
            );
            host.succeed(set.sqe(0, NSID_ALL)).await;
        }
    });
}

// A feature that isn't there must not look as if it were.
#[test]
fn unknown_features_and_impossible_values_are_refused() {
    Bench::default().enabled(async |host| {
        let known = [1, 2, 4, 5, 6, 7, 8, 9, 0xa, 0xb, 0xe, 0xf, 0x16, 0x84];
        for fid in (0..=255).filter(|fid| !known.contains(fid)) {
            host.refused(get_features(fid, Select::CURRENT, 0), Status::INVALID_FIELD).await;
            host.refused(get_features(fid, Select::SUPPORTED, 0), Status::INVALID_FIELD).await;
            host.refused(set_features(fid, 0), Status::INVALID_FIELD).await;
        }
        let threshold = TemperatureThreshold::new();
        let wrong = [
            (fid::POWER_MANAGEMENT, 1),
            (fid::POWER_MANAGEMENT, 31),
            (fid::TEMPERATURE_THRESHOLD, threshold.with_tmpsel(1).into_bits()),
            (fid::TEMPERATURE_THRESHOLD, threshold.with_tmpsel(8).into_bits()),
            (fid::TEMPERATURE_THRESHOLD, threshold.with_thsel(2).into_bits()),
            (fid::INTERRUPT_VECTOR_CONFIGURATION, 9),
            (fid::INTERRUPT_VECTOR_CONFIGURATION, 0xffff),
        ];
        for (fid, cdw11) in wrong {
            host.refused(set_features(fid, cdw11), Status::INVALID_FIELD).await;
        }
        for (fid, cdw11) in [
            (fid::TEMPERATURE_THRESHOLD, threshold.with_tmpsel(1).into_bits()),
            (fid::TEMPERATURE_THRESHOLD, threshold.with_thsel(2).into_bits()),
            (fid::INTERRUPT_VECTOR_CONFIGURATION, 9),
        ] {
            host.refused(get_features(fid, Select::CURRENT, cdw11), Status::INVALID_FIELD).await;
        }
    });
}

/// A drive whose reads of flash take a millisecond, so that something can happen meanwhile.
fn slow() -> Bench {
    let mut bench = Bench::default();
    bench.drive.timing.read = vec![Delay::from_ms(1)];
    bench.drive.base = byteway_firmware::Base::Filled;
    bench
}

// Linux aborts what takes too long: the command must end, with this status, and before the Abort does.
#[test]
fn abort_ends_a_command_and_completes_after_it() {
    slow().with_queue(async |host, pair| {
        let page = host.pages(1);
        let read = read_write(NvmOpcode::READ, NS_4K, 0, 1).with_prp(page, 0);
        let cid = host.submit(&pair.sq, read);
        host.sleep(Delay::from_us(100)).await;
        let aborted = host.admin(Abort { sqid: 1, cid }.sqe(0)).await;
        assert_eq!((aborted.status(), aborted.dw0), (Status::SUCCESS, 0));
        let cqe = host.take(&pair.cq).expect("the command's completion is there when the Abort's is");
        assert_eq!((cqe.cid, cqe.status()), (cid, Status::ABORT_REQUESTED));
        host.ring_head(&pair.cq);
        assert!(host.peek(page, 4096).iter().all(|byte| *byte == 0), "no data came");
        assert_eq!(host.io(&pair, read).await.status(), Status::SUCCESS, "the slot serves again");
    });
}

// The race that the host always loses: what has ended, or never was, is not aborted, and the Abort says so.
#[test]
fn abort_says_when_there_was_nothing_to_abort() {
    Bench::default().with_queue(async |host, pair| {
        let done = host.io(&pair, Flush.sqe(0, NS_4K)).await;
        for command in
            [Abort { sqid: 1, cid: done.cid }, Abort { sqid: 1, cid: 0xffff }, Abort { sqid: 0, cid: 0xffff }]
        {
            let cqe = host.admin(command.sqe(0)).await;
            assert_eq!((cqe.status(), cqe.dw0), (Status::SUCCESS, Abort::NOT_ABORTED), "{command:?}");
        }
        for sqid in [2, 9, 0xffff] {
            host.refused(Abort { sqid, cid: 1 }.sqe(0), Status::INVALID_FIELD).await;
        }
        let sq = host.admin_pair().sq.clone();
        host.place_as_is(&sq, Abort { sqid: 0, cid: 0x7777 }.sqe(0x7777)); // itself
        host.ring_tail(&sq);
        let cqe = host.completion(&host.admin_pair().cq, 0x7777).await;
        assert_eq!((cqe.status(), cqe.dw0), (Status::SUCCESS, Abort::NOT_ABORTED));
    });
}

// More Aborts than Identify says are refused, and do no harm to those within the limit.
#[test]
fn aborts_beyond_the_limit_are_refused() {
    slow().with_queue(async |host, pair| {
        let page = host.pages(1);
        let mut reads = Vec::new();
        for lba in 0..5 {
            reads.push(host.submit(&pair.sq, read_write(NvmOpcode::READ, NS_4K, lba, 1).with_prp(page, 0)));
        }
        host.sleep(Delay::from_us(100)).await;
        let admin = host.admin_pair();
        for cid in &reads {
            host.place(&admin.sq, Abort { sqid: 1, cid: *cid }.sqe(0));
        }
        host.ring_tail(&admin.sq);
        let mut statuses = Vec::new();
        for cqe in host.next_many(&admin.cq, 5).await {
            statuses.push(cqe.status());
        }
        statuses.sort();
        assert_eq!(statuses[..4], [Status::SUCCESS; 4]);
        assert!(statuses[4].is(Status::ABORT_LIMIT_EXCEEDED));
        let ended: Vec<_> = host.next_many(&pair.cq, 5).await;
        assert_eq!(ended.iter().filter(|cqe| cqe.status() == Status::ABORT_REQUESTED).count(), 4);
        assert_eq!(ended.iter().filter(|cqe| cqe.status() == Status::SUCCESS).count(), 1);
    });
}

// A host that reads twice that a command was aborted believes that it has aborted two.
#[test]
fn of_two_aborts_of_a_command_one_reports_it() {
    slow().with_queue(async |host, pair| {
        let page = host.pages(1);
        let cid = host.submit(&pair.sq, read_write(NvmOpcode::READ, NS_4K, 0, 1).with_prp(page, 0));
        host.sleep(Delay::from_us(100)).await;
        let admin = host.admin_pair();
        let aborts = [0; 2].map(|_| host.place(&admin.sq, Abort { sqid: 1, cid }.sqe(0)));
        host.ring_tail(&admin.sq);
        let mut ended = Vec::new();
        for abort in aborts {
            let cqe = host.completion(&admin.cq, abort).await;
            ended.push((cqe.status(), cqe.dw0));
        }
        assert_eq!(ended, [(Status::SUCCESS, 0), (Status::SUCCESS, Abort::NOT_ABORTED)]);
        assert_eq!(host.completion(&pair.cq, cid).await.status(), Status::ABORT_REQUESTED);
    });
}

// SPDK's compliance suite asks for it, and its hosts send the drive what they can deal with.
#[test]
fn host_behavior_is_kept_until_a_reset() {
    Bench::default().enabled(async |host| {
        let get = async |sel| {
            let page = host.holding(&[0xaa; 4096]);
            host.succeed(get_features(fid::HOST_BEHAVIOR_SUPPORT, sel, 0).with_prp(page, 0)).await;
            assert_eq!(host.peek(page + 512, 512), [0xaa; 512], "512 bytes");
            let bytes = host.peek(page, HostBehavior::BYTES);
            HostBehavior::from_bytes(bytes[..].try_into().expect("512 bytes"))
        };
        let set = |behavior: HostBehavior| {
            let page = host.holding(&behavior.to_bytes());
            set_features(fid::HOST_BEHAVIOR_SUPPORT, 0).with_prp(page, 0)
        };
        let all = HostBehavior { acre: 1, etdas: 1, lbafee: 1, hdisns: 1, cdfe: 0 };
        assert_eq!(get(Select::CURRENT).await, HostBehavior::default());
        host.succeed(set(all)).await;
        for (sel, expected) in [
            (Select::CURRENT, all),
            (Select::DEFAULT, HostBehavior::default()),
            (Select::SAVED, HostBehavior::default()),
        ] {
            assert_eq!(get(sel).await, expected);
        }
        let wrong = [
            HostBehavior { acre: 2, ..all },
            HostBehavior { etdas: 0xff, ..all },
            HostBehavior { lbafee: 2, ..all },
            HostBehavior { hdisns: 2, ..all },
            // No format of Copy descriptors but the first: nothing to enable.
            HostBehavior { cdfe: 1 << 2, ..all },
        ];
        for wrong in wrong {
            host.refused(set(wrong), Status::INVALID_FIELD).await;
        }
        let save = SetFeatures { fid: fid::HOST_BEHAVIOR_SUPPORT, sv: true, ..SetFeatures::default() };
        host.refused(save.sqe(0, 0), Status::FEATURE_NOT_SAVEABLE).await;
        assert_eq!(get(Select::CURRENT).await, all, "what is refused changes nothing");
        host.disable().await;
        host.enable().await;
        assert_eq!(get(Select::CURRENT).await, HostBehavior::default());
    });
}

// A drive that takes a live host for dead stops working; one that never detects a dead host keeps its locks.
#[test]
fn a_host_that_is_silent_too_long_ends_the_controller() {
    Bench::default().with_queue(async |host, pair| {
        let keep_alive = || Sqe::new(AdminOpcode::KEEP_ALIVE, 0, 0);
        assert_eq!(host.feature(fid::KEEP_ALIVE_TIMER).await, 0, "off at first");
        host.succeed(keep_alive()).await;
        host.refused(set_features(fid::KEEP_ALIVE_TIMER, u32::MAX), Status::KEEP_ALIVE_INVALID).await;
        // Longer, then shorter: the second is what counts.
        host.set_feature(fid::KEEP_ALIVE_TIMER, 1_000_000).await;
        host.set_feature(fid::KEEP_ALIVE_TIMER, 901).await;
        assert_eq!(host.feature(fid::KEEP_ALIVE_TIMER).await, 1000, "rounded up to KAS");
        for turn in 0..5 {
            host.sleep(Delay::from_ms(950)).await;
            match turn % 2 {
                0 => drop(host.succeed(keep_alive()).await),
                _ => assert_eq!(host.io(&pair, Flush.sqe(0, NS_4K)).await.status(), Status::SUCCESS),
            }
        }
        host.set_feature(fid::KEEP_ALIVE_TIMER, 0).await;
        host.sleep(Delay::from_ms(5000)).await;
        assert!(!host.csts().await.cfs(), "it was turned off");
        host.set_feature(fid::KEEP_ALIVE_TIMER, 1000).await;
        host.sleep(Delay::from_ms(900)).await;
        assert!(!host.csts().await.cfs(), "it is not over");
        host.sleep(Delay::from_ms(1200)).await;
        assert!(host.csts().await.cfs(), "two time-outs are over");
        let ignored = host.submit(&pair.sq, Flush.sqe(0, NS_4K));
        host.sleep(LONG).await;
        assert!(host.take(&pair.cq).is_none_or(|cqe| cqe.cid != ignored), "no command is processed");
        host.disable().await;
        host.enable().await;
        assert_eq!(host.feature(fid::KEEP_ALIVE_TIMER).await, 0, "a reset turns it off");
        host.sleep(Delay::from_ms(5000)).await;
        assert!(!host.csts().await.cfs());
        let newest: ErrorLogEntry = parse(&host.log(lid::ERROR_INFORMATION, 0, 64).await);
        assert_eq!(newest.status(), Status::KEEP_ALIVE_EXPIRED);
        assert_eq!((newest.sqid, newest.cid), (0xffff, 0xffff), "of no command");
    });
}

// A driver that unloads takes its event requests back.
#[test]
fn event_requests_can_be_aborted() {
    Bench::default().enabled(async |host| {
        let (kept, aborted) = (host.request_event(), host.request_event());
        assert_eq!(host.succeed(Abort { sqid: 0, cid: aborted }.sqe(0)).await, 0);
        let admin = host.admin_pair();
        let cqe = host.completion(&admin.cq, aborted).await;
        assert_eq!(cqe.status(), Status::ABORT_REQUESTED);
        assert_eq!(host.succeed(Abort { sqid: 0, cid: aborted }.sqe(0)).await, Abort::NOT_ABORTED);
        host.ring(Doorbell::SubmissionTail(7), 1);
        assert_eq!(host.completion(&admin.cq, kept).await.status(), Status::SUCCESS, "the other one serves");
    });
}

// An Abort of an event request when the completion queue holds nothing more: it must wait, not overwrite.
#[test]
fn an_aborted_event_request_waits_for_room_in_the_completion_queue() {
    Bench { admin_entries: 2, ..Bench::default() }.enabled(async |host| {
        let admin = host.admin_pair();
        let request = host.submit(&admin.sq, Sqe::new(AdminOpcode::ASYNC_EVENT_REQUEST, 0, 0));
        host.sleep(Delay::from_us(20)).await;
        let abort = host.submit(&admin.sq, Abort { sqid: 0, cid: request }.sqe(0));
        let mut cids = [host.next_quietly(&admin.cq).await.cid, 0];
        host.sleep(LONG).await;
        assert!(host.look(&admin.cq).is_none(), "one entry is all that fits");
        host.ring_head(&admin.cq);
        cids[1] = host.next(&admin.cq).await.cid;
        cids.sort_unstable();
        assert_eq!(cids, [request, abort]);
    });
}

/// The event that completes request `cid`.
async fn event(host: &TestHost, cid: u16) -> AsyncEvent {
    let cqe = host.completion(&host.admin_pair().cq, cid).await;
    assert_eq!(cqe.status(), Status::SUCCESS);
    AsyncEvent::from_dw0(cqe.dw0)
}

/// Whether nothing arrives for a while.
async fn nothing_arrives(host: &TestHost) -> bool {
    host.sleep(LONG).await;
    host.look(&host.admin_pair().cq).is_none()
}

// A driver that rings wrongly must be told which of the two mistakes it was; the drive must do nothing else.
#[test]
fn invalid_doorbells_raise_their_events() {
    Bench::default().with_queue(async |host, pair| {
        let register = [
            Doorbell::SubmissionTail(2),
            Doorbell::CompletionHead(2),
            Doorbell::SubmissionTail(8),
            Doorbell::SubmissionTail(9),
            Doorbell::CompletionHead(0xffff),
        ];
        let value = [
            (Doorbell::SubmissionTail(1), 64),
            (Doorbell::SubmissionTail(1), u32::MAX),
            (Doorbell::SubmissionTail(1), 0x1_0001),
            (Doorbell::SubmissionTail(1), 0), // as it is
            (Doorbell::CompletionHead(1), 64),
            (Doorbell::CompletionHead(1), 1), // nothing to consume
            (Doorbell::CompletionHead(1), 0), // as it is
            (Doorbell::SubmissionTail(0), 4000),
            (Doorbell::CompletionHead(0), 32),
        ];
        let register = register.map(|doorbell| (doorbell, 1, AsyncEvent::INVALID_DOORBELL_REGISTER));
        let value = value.map(|(doorbell, value)| (doorbell, value, AsyncEvent::INVALID_DOORBELL_VALUE));
        for (doorbell, value, expected) in register.into_iter().chain(value) {
            let request = host.request_event();
            host.sleep(Delay::from_us(20)).await;
            host.ring(doorbell, value);
            assert_eq!(event(&host, request).await, expected, "{doorbell:?} {value}");
            host.log(lid::ERROR_INFORMATION, 0, 64).await;
        }
        let fetched = host.drive().controller.counters().fetched.get();
        assert_eq!(
            host.io(&pair, Flush.sqe(0, NS_4K)).await.status(),
            Status::SUCCESS,
            "the queue is as it was"
        );
        assert_eq!(host.drive().controller.counters().fetched.get(), fetched + 1);
    });
}

// Events come as often as their cause: masked until the host has looked, one bad driver can't flood its own queue.
#[test]
fn events_of_a_type_are_masked_until_the_log_is_read() {
    Bench::default().enabled(async |host| {
        let first = host.request_event();
        host.ring(Doorbell::SubmissionTail(7), 1);
        assert_eq!(event(&host, first).await, AsyncEvent::INVALID_DOORBELL_REGISTER);
        let second = host.request_event();
        host.ring(Doorbell::SubmissionTail(7), 1);
        host.ring(Doorbell::SubmissionTail(7), 1);
        host.ring(Doorbell::SubmissionTail(0), 4000);
        assert!(nothing_arrives(&host).await, "the type is masked");
        let retained =
            GetLogPage { lid: lid::ERROR_INFORMATION, numd_z: 15, rae: true, ..GetLogPage::default() };
        host.succeed(retained.sqe(0, NSID_ALL).with_prp(host.pages(1), 0)).await;
        assert!(nothing_arrives(&host).await, "it was read with Retain Asynchronous Event");
        host.log(lid::SMART, 0, 512).await;
        assert!(nothing_arrives(&host).await, "another log was read");
        host.log(lid::ERROR_INFORMATION, 0, 64).await;
        assert_eq!(event(&host, second).await, AsyncEvent::INVALID_DOORBELL_REGISTER);
        host.log(lid::ERROR_INFORMATION, 0, 64).await;
        let third = host.request_event();
        assert_eq!(event(&host, third).await, AsyncEvent::INVALID_DOORBELL_VALUE, "the next one that waited");
        host.log(lid::ERROR_INFORMATION, 0, 64).await;
        host.request_event();
        assert!(nothing_arrives(&host).await, "the same event twice is one");
    });
}

// Types are masked one by one: a health warning must come through while doorbell errors wait.
#[test]
fn a_crossed_temperature_threshold_is_an_event_of_its_own_type() {
    Bench::default().enabled(async |host| {
        let threshold = |kelvin| TemperatureThreshold::new().with_tmpth(kelvin);
        let (first, second) = (host.request_event(), host.request_event());
        host.set_feature(fid::TEMPERATURE_THRESHOLD, threshold(300).into_bits()).await;
        assert!(nothing_arrives(&host).await, "the host has not asked for it");
        let config = AsyncEventConfig::new().with_smart(SmartLog::WARNING_TEMPERATURE);
        host.set_feature(fid::ASYNC_EVENT_CONFIGURATION, config.into_bits()).await;
        host.set_feature(fid::TEMPERATURE_THRESHOLD, threshold(400).into_bits()).await;
        assert!(nothing_arrives(&host).await, "it is cooler than that");
        host.ring(Doorbell::SubmissionTail(7), 1);
        assert_eq!(event(&host, first).await, AsyncEvent::INVALID_DOORBELL_REGISTER);
        host.set_feature(fid::TEMPERATURE_THRESHOLD, threshold(300).with_tmpsel(15).into_bits()).await;
        assert_eq!(event(&host, second).await, AsyncEvent::TEMPERATURE_THRESHOLD);
        let third = host.request_event();
        host.set_feature(fid::TEMPERATURE_THRESHOLD, threshold(320).with_thsel(1).into_bits()).await;
        assert!(nothing_arrives(&host).await, "the type is masked");
        host.log(lid::SMART, 0, 512).await;
        assert_eq!(event(&host, third).await, AsyncEvent::TEMPERATURE_THRESHOLD, "warmer is wanted");
    });
}

// Requests are memory of the drive's: beyond the advertised number they must be refused, not held.
#[test]
fn event_requests_beyond_the_limit_are_refused() {
    Bench::default().enabled(async |host| {
        let requests: Vec<u16> = (0..4).map(|_| host.request_event()).collect();
        host.refused(Sqe::new(AdminOpcode::ASYNC_EVENT_REQUEST, 0, 0), Status::AER_LIMIT_EXCEEDED).await;
        host.ring(Doorbell::SubmissionTail(7), 1);
        event(&host, requests[0]).await;
        host.request_event();
        host.refused(Sqe::new(AdminOpcode::ASYNC_EVENT_REQUEST, 0, 0), Status::AER_LIMIT_EXCEEDED).await;
    });
}

// An event that occurs while no request is outstanding must not be lost.
#[test]
fn an_event_waits_for_a_request() {
    Bench::default().enabled(async |host| {
        host.ring(Doorbell::CompletionHead(7), 1);
        host.sleep(LONG).await;
        let request = host.request_event();
        assert_eq!(event(&host, request).await, AsyncEvent::INVALID_DOORBELL_REGISTER);
    });
}

fn entries(page: &[u8]) -> Vec<ErrorLogEntry> {
    page.chunks_exact(64).map(parse::<ErrorLogEntry>).take_while(|entry| entry.error_count > 0).collect()
}

// The error log is what an administrator sees of a failing drive: newest first, and nothing made up.
#[test]
fn the_error_log_tells_of_each_failed_command() {
    Bench::default().with_queue(async |host, pair| {
        assert_eq!(entries(&host.log(lid::ERROR_INFORMATION, 0, 4096).await), []);
        let beyond = host.submit(&pair.sq, read_write(NvmOpcode::READ, NS_4K, NS_4K_UNITS + 5, 1));
        host.completion(&pair.cq, beyond).await;
        host.refused(Sqe::new(0xc5u8, 0, 3), Status::INVALID_OPCODE).await;
        let log = entries(&host.log(lid::ERROR_INFORMATION, 0, 4096).await);
        assert_eq!(log.len(), 2);
        assert_eq!((log[0].error_count, log[0].sqid, log[0].opcode, log[0].nsid), (2, 0, 0xc5, 3));
        assert_eq!((log[0].status(), log[0].lba), (Status::INVALID_OPCODE.with_dnr(), 0));
        assert_eq!((log[1].error_count, log[1].sqid, log[1].cid, log[1].nsid), (1, 1, beyond, NS_4K));
        assert_eq!((log[1].status(), log[1].lba), (Status::LBA_OUT_OF_RANGE.with_dnr(), NS_4K_UNITS + 5));
        assert_eq!((log[1].opcode, log[1].version), (NvmOpcode::READ.0, 1));
        for _ in 0..100 {
            host.refused(Sqe::new(0xffu8, 0, 0), Status::INVALID_OPCODE).await;
        }
        let log = entries(&host.log(lid::ERROR_INFORMATION, 0, 4096).await);
        let counts: Vec<u64> = log.iter().map(|entry| entry.error_count).collect();
        assert_eq!(counts, (39..=102).rev().collect::<Vec<_>>(), "the newest 64");
        let smart: SmartLog = parse(&host.log(lid::SMART, 0, 512).await);
        assert_eq!(smart.error_log_entries.get(), 102);
        host.disable().await;
        host.enable().await;
        let log = entries(&host.log(lid::ERROR_INFORMATION, 0, 64).await);
        assert_eq!(log[0].error_count, 102, "the log outlives a reset");
    });
}

// Health figures that stand still make every dashboard wrong.
#[test]
fn the_smart_log_counts_what_was_done() {
    Bench::default().with_queue(async |host, pair| {
        let smart = async || parse::<SmartLog>(&host.log(lid::SMART, 0, 512).await);
        let before = smart().await;
        assert_eq!((before.host_read_commands.get(), before.data_units_written.get()), (0, 0));
        assert_eq!((before.critical_warning, before.composite_temperature.get()), (0, 313));
        assert_eq!((before.available_spare, before.percentage_used, before.power_cycles.get()), (100, 0, 1));
        let bytes = pattern(1, 128 << 10);
        for round in 0..10 {
            assert_eq!(host.write(&pair, NS_4K, 32 * round, &bytes).await, Status::SUCCESS);
        }
        for _ in 0..3 {
            host.read(&pair, NS_512, 1, 5).await;
        }
        let mut compare = host.write_sqe(NS_4K, 0, &bytes);
        compare.set_opcode(NvmOpcode::COMPARE);
        assert_eq!(host.io(&pair, compare).await.status(), Status::SUCCESS);
        host.io(&pair, Flush.sqe(0, NS_4K)).await;
        let after = smart().await;
        assert_eq!((after.host_write_commands.get(), after.host_read_commands.get()), (10, 4));
        assert_eq!(after.data_units_written.get(), (10 * (128 << 10) as u128).div_ceil(512_000));
        assert_eq!(after.data_units_read.get(), (3 * 5 * 512 + (128 << 10) as u128).div_ceil(512_000));
        assert_eq!((after.media_errors.get(), after.error_log_entries.get()), (0, 0));
    });
}

// Firmware tools show this.
#[test]
fn the_firmware_slot_log_names_the_revision() {
    Bench::default().enabled(async |host| {
        let log: FirmwareSlotLog = parse(&host.log(lid::FIRMWARE_SLOT, 0, 512).await);
        assert_eq!((log.afi, ascii_text(&log.frs[0])), (1, env!("CARGO_PKG_VERSION").into()));
        assert_eq!(log.frs[1], [0; 8]);
    });
}

// Hosts ask for what the list names and leave the rest alone: a page that is missing there might as well not exist.
#[test]
fn the_supported_log_pages_are_those_that_are_answered() {
    Bench::default().enabled(async |host| {
        let log: SupportedLogPages = parse(&host.log(lid::SUPPORTED_LOG_PAGES, 0, 1024).await);
        let page = host.pages(1);
        for lid in 0..=255u8 {
            let get = GetLogPage { lid, numd_z: 15, ..GetLogPage::default() };
            let status = host.admin(get.sqe(0, 0).with_prp(page, 0)).await.status();
            let expected = if status == Status::SUCCESS { SupportedLogPages::LSUPP } else { 0 };
            assert_eq!(log.lids[usize::from(lid)], expected, "log page {lid:#x}: {status}");
        }
        for mandatory in [0, 1, 2, 3, 5, 0x12] {
            assert_eq!(
                log.lids[mandatory],
                SupportedLogPages::LSUPP,
                "log page {mandatory:#x}, from version 2.0 on"
            );
        }
    });
}

// Linux decides by this log whether a command from a tool needs the queues stopped or the namespaces scanned again.
#[test]
fn the_commands_supported_log_tells_of_the_commands_that_are_executed() {
    Bench::default().with_queue(async |host, pair| {
        let log: CommandsSupportedLog = parse(&host.log(lid::COMMANDS_SUPPORTED, 0, 4096).await);
        for opcode in 0..=255u8 {
            let sqe = Sqe::new(opcode, 0, NS_4K);
            // Rejected without effect: to an existing namespace, but with an invalid length or format.
            let admin = Sqe { cdw10: 0xffff_ffff, ..sqe };
            let executed = match AdminOpcode(opcode) {
                AdminOpcode::ASYNC_EVENT_REQUEST => true, // answered when something happens
                _ => !host.admin(admin).await.status().is(Status::INVALID_OPCODE),
            };
            type Log = CommandsSupportedLog;
            let effects = match AdminOpcode(opcode) {
                AdminOpcode::FORMAT_NVM => Log::LBCC | Log::NCC | Log::CSE_ANY | scope::NAMESPACE,
                AdminOpcode::NAMESPACE_MANAGEMENT => Log::LBCC | Log::NIC | Log::CSE_ANY | scope::SUBSYSTEM,
                AdminOpcode::NAMESPACE_ATTACHMENT => Log::NIC | Log::CSE_NAMESPACE | scope::NAMESPACE,
                AdminOpcode::SANITIZE => Log::LBCC | Log::CSE_ANY | scope::SUBSYSTEM,
                _ => scope::CONTROLLER,
            };
            let expected = if executed { Log::CSUPP | effects } else { 0 };
            assert_eq!(log.acs[usize::from(opcode)], expected, "{}", AdminOpcode(opcode));

            let executed = !host.io(&pair, sqe).await.status().is(Status::INVALID_OPCODE);
            let changes = [NvmOpcode::WRITE, NvmOpcode::WRITE_ZEROES, NvmOpcode::DATASET_MANAGEMENT]
                .into_iter()
                .chain([NvmOpcode::WRITE_UNCORRECTABLE, NvmOpcode::COPY])
                .collect::<Vec<_>>();
            let expected = match executed {
                true if changes.contains(&NvmOpcode(opcode)) => {
                    CommandsSupportedLog::CSUPP | CommandsSupportedLog::LBCC
                }
                true => CommandsSupportedLog::CSUPP,
                false => 0,
            };
            assert_eq!(log.iocs[usize::from(opcode)], expected, "{}", NvmOpcode(opcode));
        }
        assert_eq!(log.reserved_2048, [0; 2048]);
    });
}

// A tool that saves and restores features goes through this list.
#[test]
fn the_features_supported_log_tells_of_the_features_that_there_are() {
    Bench::default().enabled(async |host| {
        let log: FeaturesSupportedLog = parse(&host.log(lid::FEATURES_SUPPORTED, 0, 1024).await);
        for fid in 0..=255u8 {
            let page = host.pages(1);
            let mut get = get_features(fid, Select::CURRENT, 0).with_prp(page, 0);
            let mut effects = scope::CONTROLLER;
            if matches!(fid, fid::ERROR_RECOVERY | fid::NAMESPACE_WRITE_PROTECTION) {
                get.nsid = NS_4K;
                let changes = if fid == fid::ERROR_RECOVERY { 0 } else { FeaturesSupportedLog::NCC };
                effects = scope::NAMESPACE | changes;
            }
            let status = host.admin(get).await.status();
            let expected = match status {
                Status::SUCCESS => FeaturesSupportedLog::FSUPP | effects,
                _ => 0,
            };
            assert_eq!(log.fids[usize::from(fid)], expected, "feature {fid:#x}: {status}");
        }
    });
}

// LPA promises this page together with the others; the drive has no management endpoint, and must say so.
#[test]
fn no_management_command_is_supported() {
    Bench::default().enabled(async |host| {
        assert_eq!(host.log(lid::NVME_MI_COMMANDS_SUPPORTED, 0, 4096).await, [0; 4096]);
    });
}

// Tools read logs piece by piece: each piece must be what the whole has there, and zeroes past its end.
#[test]
fn log_pages_are_read_in_parts() {
    Bench::default().enabled(async |host| {
        for nsid in 1..=3 {
            host.refused(Sqe::new(0xffu8, 0, nsid), Status::INVALID_OPCODE).await;
        }
        let whole = host.log(lid::ERROR_INFORMATION, 0, 4096).await;
        for (offset, bytes) in
            [(0, 4), (0, 128), (64, 64), (28, 100), (4092, 4), (4032, 128), (4096, 64), (0, 8192)]
        {
            let part = host.log(lid::ERROR_INFORMATION, offset, bytes).await;
            let expected: Vec<u8> = whole[offset as usize..]
                .iter()
                .copied()
                .chain(std::iter::repeat(0))
                .take(bytes as usize)
                .collect();
            assert_eq!(part, expected, "{bytes} from {offset}");
        }
        let (smart, tail) = (host.log(lid::SMART, 0, 512).await, host.log(lid::SMART, 500, 12).await);
        assert_eq!(smart[500..], tail);
    });
}

// A length or an offset from the host must not reach beyond the page, nor fill memory.
#[test]
fn get_log_page_refuses_each_wrong_field() {
    Bench::default().enabled(async |host| {
        let right = GetLogPage { lid: lid::ERROR_INFORMATION, numd_z: 15, ..GetLogPage::default() };
        let invalid = Status::INVALID_FIELD;
        let smart = GetLogPage { lid: lid::SMART, numd_z: 127, ..right };
        let wrong = [
            (GetLogPage { lpo: 4100, ..right }, 0, invalid),
            (GetLogPage { lpo: u64::MAX - 3, ..right }, 0, invalid),
            (GetLogPage { lpo: 2, ..right }, 0, invalid),
            (GetLogPage { ot: true, ..right }, 0, invalid),
            (GetLogPage { numd_z: (128 << 10) / 4, ..right }, 0, invalid),
            (GetLogPage { numd_z: u32::MAX, ..right }, 0, invalid),
            (smart, NS_4K, invalid),
            (smart, 77, invalid),
            (right, NS_4K, invalid),
            (GetLogPage { lid: lid::SUPPORTED_LOG_PAGES, lpo: 1028, ..right }, 0, invalid),
        ];
        let page = host.pages(1);
        for (command, nsid, status) in wrong {
            host.refused(command.sqe(0, nsid).with_prp(page, 0), status).await;
        }
        let known = [0, 1, 2, 3, 4, 5, 6, 0x12, 0x13, 0x81];
        for lid in (0..=255).filter(|lid| !known.contains(lid)) {
            host.refused(GetLogPage { lid, ..right }.sqe(0, 0).with_prp(page, 0), Status::INVALID_LOG_PAGE)
                .await;
        }
        assert!(host.peek(page, 4096).iter().all(|byte| *byte == 0));
        host.succeed(smart.sqe(0, 0).with_prp(page, 0)).await;
    });
}
