//! Every structure survives a round trip through memory, and every parser accepts any bytes.

use byteway_wire::nvme::feature::{AsyncEventConfig, TemperatureThreshold};
use byteway_wire::nvme::identify::{
    IdentifyControllerNvm, IdentifyNamespaceIndependent, IdentifyNamespaceNvm, ascii_field, ascii_text,
};
use byteway_wire::nvme::log::ChangedNamespaceLog;
use byteway_wire::nvme::*;
use byteway_wire::{FromBytes, IntoBytes};
use proptest::prelude::*;

fn sqe() -> impl Strategy<Value = Sqe> {
    // Half of the entries are sparse, so that single bits are seen alone.
    (any::<[u8; 32]>(), any::<[u8; 32]>(), any::<bool>()).prop_map(|(low, high, sparse)| {
        let mut bytes = [0; Sqe::SIZE];
        bytes[..32].copy_from_slice(&low);
        bytes[32..].copy_from_slice(&high);
        if sparse {
            bytes.iter_mut().for_each(|byte| *byte &= *byte >> 1 & *byte >> 2);
        }
        Sqe::from_bytes(&bytes)
    })
}

fn parameters(sqe: &Sqe) -> [u32; 6] {
    [sqe.cdw10, sqe.cdw11, sqe.cdw12, sqe.cdw13, sqe.cdw14, sqe.cdw15]
}

/// A parsed and rebuilt entry parses to the same, and has no bit that the original did not have.
macro_rules! assert_rebuilds {
    ($sqe:expr, $type:ty, |$command:ident| $build:expr) => {{
        let $command = <$type>::parse(&$sqe);
        let built: Sqe = $build;
        prop_assert_eq!(<$type>::parse(&built), $command);
        for (was, is) in parameters(&$sqe).into_iter().zip(parameters(&built)) {
            prop_assert_eq!(is & !was, 0, "{} sets a bit of its own", stringify!($type));
        }
        prop_assert_eq!(built.cid(), 0xABCD);
    }};
}

macro_rules! assert_bytes_survive {
    ($bytes:expr, $($type:ty),+) => {
        $({
            let bytes = &$bytes[..size_of::<$type>()];
            let value = <$type>::read_from_bytes(bytes).expect("the slice has the type's size");
            prop_assert_eq!(value.as_bytes(), bytes);
        })+
    };
}

/// Bytes of a pseudo-random page, from a seed that proptest prints.
fn page(mut seed: u64) -> Vec<u8> {
    std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 56) as u8
    })
    .take(4096)
    .collect()
}

proptest! {
    /// Without this the device would execute with other parameters than the driver meant.
    #[test]
    fn commands_rebuild(sqe in sqe()) {
        const CID: u16 = 0xABCD;
        assert_rebuilds!(sqe, ReadWrite, |command| command.sqe(NvmOpcode::READ, CID, 1));
        assert_rebuilds!(sqe, WriteZeroes, |command| command.sqe(CID, 1));
        assert_rebuilds!(sqe, DatasetManagement, |command| command.sqe(CID, 1));
        assert_rebuilds!(sqe, Flush, |command| command.sqe(CID, NSID_ALL));
        assert_rebuilds!(sqe, CreateSq, |command| command.sqe(CID, 0x1000));
        assert_rebuilds!(sqe, CreateCq, |command| command.sqe(CID, 0x1000));
        assert_rebuilds!(sqe, DeleteQueue, |command| command.sqe(AdminOpcode::DELETE_CQ, CID));
        assert_rebuilds!(sqe, DoorbellBufferConfig, |command| command.sqe(CID));
        assert_rebuilds!(sqe, Identify, |command| command.sqe(CID, 1));
        assert_rebuilds!(sqe, GetLogPage, |command| command.sqe(CID, 1));
        assert_rebuilds!(sqe, SetFeatures, |command| command.sqe(CID, 1));
        assert_rebuilds!(sqe, GetFeatures, |command| command.sqe(CID, 1));
        assert_rebuilds!(sqe, Abort, |command| command.sqe(CID));
        assert_rebuilds!(sqe, AsyncEventRequest, |command| command.sqe(CID));
        assert_rebuilds!(sqe, Copy, |command| command.sqe(CID, 1));
        assert_rebuilds!(sqe, FormatNvm, |command| command.sqe(CID, 1));
        assert_rebuilds!(sqe, NamespaceManagement, |command| command.sqe(CID, 1));
        assert_rebuilds!(sqe, NamespaceAttachment, |command| command.sqe(CID, 1));
        assert_rebuilds!(sqe, Sanitize, |command| command.sqe(CID));
        assert_rebuilds!(sqe, DeviceSelfTest, |command| command.sqe(CID, 1));
        assert_rebuilds!(sqe, KeepAlive, |command| command.sqe(CID));
    }

    /// Without this one field of dword 0 would overwrite another.
    #[test]
    fn dword_0_fields_are_apart(sqe in sqe(), opcode: u8, cid: u16, fuse in 0..4_u8, psdt in 0..4_u8) {
        let mut changed = sqe;
        changed.set_opcode(opcode);
        changed.set_cid(cid);
        changed.set_fuse(fuse);
        changed.set_psdt(psdt);
        prop_assert_eq!((changed.opcode(), changed.cid(), changed.fuse(), changed.psdt()), (opcode, cid, fuse, psdt));
        prop_assert_eq!(changed.cdw0 & 0x3C00, sqe.cdw0 & 0x3C00, "reserved bits stay");
        changed.set_opcode(sqe.opcode());
        changed.set_cid(sqe.cid());
        changed.set_fuse(sqe.fuse());
        changed.set_psdt(sqe.psdt());
        prop_assert_eq!(changed, sqe);
        prop_assert_eq!(Sqe::new(opcode, cid, 7).with_sgl(sqe.sgl()).sgl(), sqe.sgl());
    }

    /// Without this a limit computed from a hostile command would overflow.
    #[test]
    fn derived_lengths_never_overflow(sqe in sqe()) {
        let read = ReadWrite::parse(&sqe);
        prop_assert_eq!(read.end(), read.slba.checked_add(u64::from(read.blocks())));
        let zeroes = WriteZeroes::parse(&sqe);
        prop_assert_eq!(zeroes.end(), zeroes.slba.checked_add(u64::from(zeroes.blocks())));
        prop_assert!((16..=4096).contains(&DatasetManagement::parse(&sqe).bytes()));
        prop_assert!((4..=1 << 34).contains(&GetLogPage::parse(&sqe).bytes()));
    }

    /// Without this a field would lie where no other implementation looks, or a reserved byte would be lost.
    #[test]
    fn structures_survive_memory(seed: u64) {
        let bytes = page(seed);
        assert_bytes_survive!(
            bytes, Sqe, Cqe, Range, SglDescriptor, ErrorLogEntry, SmartLog, FirmwareSlotLog, ChangedNamespaceLog,
            CommandsSupportedLog, FeaturesSupportedLog, NvmeMiCommandsSupportedLog, SupportedLogPages,
            IdentifyController, IdentifyNamespace, IdentifyNamespaceNvm, IdentifyControllerNvm,
            IdentifyNamespaceIndependent, ActiveNamespaceList, LbaFormat, CopyRange, ControllerList,
            GranularityList, SelfTestResult, SelfTestLog, SanitizeStatusLog
        );
        // Values derived from a controller's answer must accept any answer.
        let controller = IdentifyController::read_from_bytes(&bytes).expect("a page is its size");
        let _ = (controller.transfer_bytes_max(1 << 27), format!("{controller:?}"));
        let namespace = IdentifyNamespace::read_from_bytes(&bytes).expect("a page is its size");
        let _ = (namespace.format().block_bytes(), format!("{namespace:?}"));
    }

    /// Without this a status, an event or a completion would change between the device and the driver.
    #[test]
    fn completions_survive(dw0: u32, dw1: u32, bits: u16, ids: (u16, u16, u16), phase: bool) {
        let status = Status::from_bits(bits);
        prop_assert_eq!(Status::from_bits(status.bits()), status);
        let flags = Status::new(status.sct(), status.sc()).with_crd(status.crd());
        let flags = if status.more() { flags.with_more() } else { flags };
        prop_assert_eq!(if status.dnr() { flags.with_dnr() } else { flags }, status);
        prop_assert!(!status.to_string().is_empty());

        let cqe = Cqe::new(ids.0, status, ids.1, ids.2).with_dw0(dw0).with_dw1(dw1).with_phase(phase);
        let back = Cqe::from_bytes(&cqe.to_bytes());
        prop_assert_eq!((back.cid, back.status(), back.sqid, back.sqhd), (ids.0, status, ids.1, ids.2));
        prop_assert_eq!((back.dw0, back.dw1, back.phase()), (dw0, dw1, phase));
        let dwords = cqe.dwords().map(u32::to_le_bytes);
        prop_assert_eq!(dwords.as_flattened(), cqe.to_bytes());

        prop_assert_eq!(AsyncEvent::from_dw0(dw0).dw0(), dw0 & 0x00FF_FF07);
    }

    /// Without this two doorbells would share an address, or a stray write would count as a doorbell write.
    #[test]
    fn doorbells_and_offsets_are_one_to_one(offset in 0..0x40_0000_u64, any_offset: u64, dstrd in 0..16_u8, qid: u16) {
        for bell in [Doorbell::SubmissionTail(qid), Doorbell::CompletionHead(qid)] {
            prop_assert_eq!(Doorbell::decode(bell.offset(dstrd), dstrd), Some(bell));
        }
        for offset in [offset, any_offset, offset & !3] {
            if let Some(bell) = Doorbell::decode(offset, dstrd) {
                prop_assert_eq!(bell.offset(dstrd), offset);
            }
        }
    }

    /// Without this a reserved bit from a host would change a named field.
    #[test]
    fn registers_keep_their_bits(bits: u64) {
        prop_assert_eq!(Cap::from_bits(bits).into_bits(), bits);
        let dword = bits as u32;
        prop_assert_eq!(Cc::from_bits(dword).into_bits(), dword);
        prop_assert!(Cc::from_bits(dword).page_bytes().is_power_of_two());
        prop_assert_eq!(Csts::from_bits(dword).into_bits(), dword);
        prop_assert_eq!(Aqa::from_bits(dword).into_bits(), dword);
        prop_assert_eq!(TemperatureThreshold::from_bits(dword).into_bits(), dword);
        prop_assert_eq!(AsyncEventConfig::from_bits(dword).into_bits(), dword);
    }

    /// Without this a list from a hostile device would hang or crash the host.
    #[test]
    fn identify_lists_take_any_bytes(bytes in prop::collection::vec(0..20_u8, 0..200), text in ".{0,50}") {
        let found = NamespaceDescriptor::parse_list(&bytes).count();
        prop_assert!(found <= bytes.len() / 5);
        prop_assert_eq!(Range::parse_list(&bytes).len(), bytes.len() / 16);
        let field: [u8; 40] = ascii_field(&text);
        prop_assert!(field.iter().all(|byte| (0x20..=0x7E).contains(byte)));
        prop_assert_eq!(ascii_field::<40>(&ascii_text(&field)), field);
        let _ = ascii_text(&bytes);
    }
}
