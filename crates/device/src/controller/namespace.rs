//! Namespaces: logical blocks over a run of the drive's units.

use crate::config::NamespaceConfig;
use byteway_wire::content::{BlockSize, UNIT_BYTES};
use byteway_wire::nvme::{IdentifyNamespace, LbaFormat, Status};

/// A namespace.
#[derive(Clone, Debug)]
pub struct Namespace {
    /// Identifier, from 1.
    pub nsid: u32,
    /// Its first unit on the drive.
    pub first_unit: u64,
    /// Its units.
    pub units: u64,
    /// Size of a logical block.
    pub block: BlockSize,
}

/// A run of logical blocks as bytes over units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First unit on the drive.
    pub unit: u64,
    /// Units touched.
    pub units: u32,
    /// Where in the first unit it begins, bytes.
    pub offset: u32,
    /// Its length, bytes.
    pub bytes: u64,
}

impl Span {
    /// Whether it is whole units only.
    pub fn is_whole(self) -> bool {
        self.offset == 0 && self.bytes.is_multiple_of(UNIT_BYTES as u64)
    }

    /// The whole units within: first and count. None if there is none.
    pub fn whole_units(self) -> Option<(u64, u64)> {
        let unit = UNIT_BYTES as u64;
        let first = u64::from(self.offset).div_ceil(unit);
        let end = (u64::from(self.offset) + self.bytes) / unit;
        (end > first).then(|| (self.unit + first, end - first))
    }
}

impl Namespace {
    /// The namespaces of a drive, one after another.
    pub fn layout(configs: &[NamespaceConfig]) -> Vec<Namespace> {
        let mut first_unit = 0;
        let mut namespaces = Vec::new();
        for (index, config) in configs.iter().enumerate() {
            let nsid = index as u32 + 1;
            namespaces.push(Namespace { nsid, first_unit, units: config.units, block: config.block });
            first_unit += config.units;
        }
        namespaces
    }

    /// Logical blocks.
    pub fn blocks(&self) -> u64 {
        self.units * self.block.per_unit() as u64
    }

    /// Where `blocks` blocks from `lba` on lie.
    ///
    /// # Errors
    /// LBA Out of Range.
    pub fn span(&self, lba: u64, blocks: u64) -> Result<Span, Status> {
        let end = lba.checked_add(blocks).filter(|end| *end <= self.blocks());
        if end.is_none() {
            return Err(Status::LBA_OUT_OF_RANGE.with_dnr());
        }
        let per_unit = self.block.per_unit() as u64;
        let offset = (lba % per_unit) as u32 * self.block.bytes() as u32;
        let bytes = blocks * self.block.bytes() as u64;
        let units = (u64::from(offset) + bytes).div_ceil(UNIT_BYTES as u64);
        Ok(Span { unit: self.first_unit + lba / per_unit, units: units as u32, offset, bytes })
    }

    /// Its Identify Namespace data structure.
    pub fn identify(&self, serial_hash: u64) -> IdentifyNamespace {
        let mut id = IdentifyNamespace {
            nsze: self.blocks(),
            ncap: self.blocks(),
            nuse: self.blocks(),
            // Deallocated blocks read as zeroes, and Write Zeroes deallocates.
            dlfeat: 0b0_1001,
            ..Default::default()
        };
        id.lbaf[0] = LbaFormat { ms: 0, lbads: self.block as u8, rp: 0 };
        id.nvmcap.copy_from_slice(&(u128::from(self.units) * UNIT_BYTES as u128).to_le_bytes());
        let per_unit = self.block.per_unit() as u16;
        if per_unit > 1 {
            id.nsfeat = IdentifyNamespace::NSFEAT_OPTIMAL;
            id.npwg = per_unit - 1;
            id.npwa = per_unit - 1;
            id.npdg = per_unit - 1;
            id.npda = per_unit - 1;
        }
        id.eui64 = self.eui64(serial_hash);
        id
    }

    /// Its EUI-64: locally administered, from the drive's serial number and the namespace.
    pub fn eui64(&self, serial_hash: u64) -> [u8; 8] {
        let mut eui = (serial_hash ^ u64::from(self.nsid).wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes();
        eui[0] = eui[0] & 0xfc | 0x02;
        eui
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // An off-by-one at the end would give a tenant the first block of the next.
    #[test]
    fn spans_end_where_the_namespace_does() {
        let configs = [
            NamespaceConfig { units: 4, block: BlockSize::B512 },
            NamespaceConfig { units: 4, block: BlockSize::B4096 },
        ];
        let both = Namespace::layout(&configs);
        assert_eq!(both[0].span(31, 1), Ok(Span { unit: 3, units: 1, offset: 7 * 512, bytes: 512 }));
        assert!(both[0].span(31, 2).is_err());
        assert!(both[0].span(u64::MAX, 2).is_err());
        assert_eq!(both[1].span(0, 4), Ok(Span { unit: 4, units: 4, offset: 0, bytes: 16384 }));
        assert!(both[1].span(4, 1).is_err());
        assert_eq!(both[0].span(7, 10).unwrap().units, 3);
        assert_eq!(both[0].span(7, 10).unwrap().whole_units(), Some((1, 1)));
        assert_eq!(both[0].span(1, 6).unwrap().whole_units(), None);
    }
}
