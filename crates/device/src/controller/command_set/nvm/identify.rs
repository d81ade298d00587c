//! Identify for block namespaces and the NVM command set (NVM Command Set 1.1, 4.1.5).

use crate::controller::command_set::nvm::compare_and_write::blocks_max;
use crate::controller::command_set::nvm::io::{DEALLOCATE_BLOCKS_MAX, DEALLOCATE_RANGE_BLOCKS_MAX};
use crate::controller::core::Core;
use crate::controller::namespace::{Format, Limits, Namespace};
use byteway_content::{BlockSize, UNIT_BYTES};
use byteway_wire::FromBytes;
use byteway_wire::nvme::identify::{IdentifyControllerNvm, IdentifyNamespaceNvm, fuses, oncs};
use byteway_wire::nvme::{IdentifyController, IdentifyNamespace, LbaFormat, Status};

/// The LBA formats, by index.
pub const FORMATS: [BlockSize; 2] = [BlockSize::B512, BlockSize::B4096];
/// Maximum number of source ranges in a Copy.
pub const COPY_RANGES_MAX: usize = 128;

/// The Identify Namespace data structure of capabilities that all namespaces share.
pub fn capabilities(transfer_bytes_max: u32) -> IdentifyNamespace {
    let mut id = IdentifyNamespace {
        nlbaf: (FORMATS.len() - 1) as u8,
        // Deallocated blocks read as zeroes, and Write Zeroes deallocates.
        dlfeat: 0b0_1001,
        fpi: IdentifyNamespace::FPI_SUPPORTED,
        msrc: (COPY_RANGES_MAX - 1) as u8,
        ..Default::default()
    };
    for (format, block) in id.lbaf.iter_mut().zip(FORMATS) {
        *format = LbaFormat { ms: 0, lbads: block as u8, rp: 0 };
    }
    let blocks = transfer_bytes_max / BlockSize::B4096.bytes() as u32;
    (id.mssrl, id.mcl) = copy_limits(blocks);
    id
}

/// The Identify Namespace data structure of a namespace.
pub fn namespace(namespace: &Namespace, limits: Limits) -> IdentifyNamespace {
    let mut id = capabilities(limits.transfer_bytes_max);
    (id.nsze, id.ncap, id.nuse) = (namespace.blocks, namespace.blocks, namespace.blocks);
    id.flbas = format_index(namespace.block);
    id.fpi |= namespace.formatting.get().unwrap_or(0);
    id.nsattr = namespace.attributes();
    id.nmic = u8::from(limits.is_shared);
    id.nvmcap.copy_from_slice(&(u128::from(limits.units) * UNIT_BYTES as u128).to_le_bytes());
    (id.mssrl, id.mcl) = copy_limits_of(namespace, limits.transfer_bytes_max);
    let per_unit = namespace.block.per_unit() as u16;
    if per_unit > 1 {
        id.nsfeat = IdentifyNamespace::NSFEAT_OPTIMAL;
        id.npwg = per_unit - 1;
        id.npwa = per_unit - 1;
        id.npdg = per_unit - 1;
        id.npda = per_unit - 1;
    }
    id.nguid = namespace.nguid(limits.drive);
    id.eui64 = namespace.eui64(limits.drive);
    id
}

/// Maximum number of blocks in a source range of a Copy (MSSRL), and in all ranges (MCL).
pub fn copy_limits_of(namespace: &Namespace, transfer_bytes_max: u32) -> (u16, u32) {
    copy_limits(transfer_bytes_max / namespace.block.bytes() as u32)
}

fn copy_limits(transfer_blocks: u32) -> (u16, u32) {
    let range = transfer_blocks.clamp(1, u16::MAX.into()) as u16;
    (range, u32::from(range) * COPY_RANGES_MAX as u32)
}

/// The index of the LBA format.
pub fn format_index(block: BlockSize) -> u8 {
    FORMATS.iter().position(|format| *format == block).unwrap_or(0) as u8
}

/// The set-specific Identify Namespace data structure: all fields are zero.
pub(crate) fn of_set() -> IdentifyNamespaceNvm {
    IdentifyNamespaceNvm::default()
}

/// The Identify Controller data structure of the set.
pub(crate) fn controller() -> IdentifyControllerNvm {
    // Verify, Write Zeroes and Write Uncorrectable run in steps: the only limit is the range of the command's fields.
    IdentifyControllerNvm {
        dmrl: 0, // no limit beyond the command's 256 ranges
        dmrsl: DEALLOCATE_RANGE_BLOCKS_MAX,
        dmsl: DEALLOCATE_BLOCKS_MAX,
        ..Default::default()
    }
}

/// Adds the NVM command set to the common Identify Controller data structure.
pub(crate) fn describe(core: &Core, id: &mut IdentifyController) {
    id.oncs |= oncs::COMPARE
        | oncs::DATASET_MANAGEMENT
        | oncs::WRITE_ZEROES
        | oncs::VERIFY
        | oncs::COPY
        | oncs::COPY_ATOMIC;
    if core.backing.has_own_media() {
        id.oncs |= oncs::WRITE_UNCORRECTABLE;
    }
    id.fuses = fuses::COMPARE_AND_WRITE;
    id.acwu = (blocks_max(core) - 1) as u16;
    id.cdfs = 1; // descriptor format 0h
}

/// The size of a block namespace to be created, if the drive supports it.
pub(crate) fn parse_create(bytes: &[u8], is_shared: bool) -> Result<(u64, Format), Status> {
    let wanted = IdentifyNamespace::read_from_bytes(bytes).map_err(|_| Status::INVALID_FIELD.with_dnr())?;
    // The upper bits of the format index count only with more than 16 formats.
    let block = format_of(wanted.flbas & 0xF)?;
    if wanted.nsze == 0 || wanted.ncap > wanted.nsze {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    if wanted.ncap < wanted.nsze {
        return Err(Status::THIN_PROVISIONING_NOT_SUPPORTED.with_dnr());
    }
    let is_plain = wanted.flbas & 0x10 == 0 && wanted.dps == 0 && wanted.nmic <= u8::from(is_shared);
    if !is_plain || wanted.anagrpid != 0 || wanted.nvmsetid != 0 || wanted.endgid != 0 {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    Ok((wanted.nsze, Format::blocks(block)))
}

pub(crate) fn format_of(index: u8) -> Result<BlockSize, Status> {
    FORMATS.get(usize::from(index)).copied().ok_or(Status::INVALID_FORMAT.with_dnr())
}
