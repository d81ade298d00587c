//! Property Get and Property Set: register access over fabrics (NVMe Base 2.1, 6.5 and 6.6). Offsets are those of
//! [`register`].

use super::FabricsType;
use crate::nvme::{Cqe, Sqe, Status, register};

/// Size of a property, 3 bits of ATTRIB. Reserved codes stay representable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PropertySize(pub u8);

impl PropertySize {
    /// 000b: 4 bytes.
    pub const DWORD: PropertySize = PropertySize(0b000);
    /// 001b: 8 bytes.
    pub const QWORD: PropertySize = PropertySize(0b001);

    /// Size of the property at an offset; `None` if fabrics define none there (NVMe Base 2.1, 3.1.4, figure "Property
    /// Definition").
    pub const fn of(offset: u32) -> Option<PropertySize> {
        match offset as u64 {
            register::CAP => Some(PropertySize::QWORD),
            register::VS
            | register::CC
            | register::CSTS
            | register::NSSR
            | register::NSSD
            | register::CRTO => Some(PropertySize::DWORD),
            _ => None,
        }
    }

    /// Size in bytes; `None` if the code is reserved.
    pub const fn bytes(self) -> Option<u32> {
        match self {
            PropertySize::DWORD => Some(4),
            PropertySize::QWORD => Some(8),
            _ => None,
        }
    }

    const fn of_attributes(cdw10: u32) -> PropertySize {
        PropertySize((cdw10 & 0b111) as u8)
    }
}

/// Property Get (NVMe Base 2.1, 6.5): ATTRIB in byte 40, OFST in bytes 47:44.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PropertyGet {
    /// Property Return Size.
    pub size: PropertySize,
    /// Offset of the property in bytes.
    pub offset: u32,
}

impl PropertyGet {
    /// The fields of a Property Get.
    pub const fn parse(sqe: &Sqe) -> PropertyGet {
        PropertyGet { size: PropertySize::of_attributes(sqe.cdw10), offset: sqe.cdw11 }
    }

    /// The command.
    pub fn sqe(&self, cid: u16) -> Sqe {
        let cdw10 = u32::from(self.size.0 & 0b111);
        Sqe { cdw10, cdw11: self.offset, ..FabricsType::PROPERTY_GET.sqe(cid) }
    }

    /// The response: VALUE in bytes 7:0. The upper half is 0 for a 4-byte property.
    pub const fn response(value: u64, cid: u16, sqhd: u16) -> Cqe {
        Cqe::new(cid, Status::SUCCESS, 0, sqhd).with_dw0(value as u32).with_dw1((value >> 32) as u32)
    }

    /// The value in a response to this command, without the reserved bytes of a 4-byte property.
    pub fn value(&self, response: &Cqe) -> u64 {
        let upper = if self.size == PropertySize::DWORD { 0 } else { response.dw1 };
        u64::from(response.dw0) | u64::from(upper) << 32
    }
}

/// Property Set (NVMe Base 2.1, 6.6): ATTRIB in byte 40, OFST in bytes 47:44, VALUE in bytes 55:48.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PropertySet {
    /// Property Update Size.
    pub size: PropertySize,
    /// Offset of the property in bytes.
    pub offset: u32,
    /// New value; the upper half is ignored if the size is 4 bytes.
    pub value: u64,
}

impl PropertySet {
    /// The fields of a Property Set.
    pub const fn parse(sqe: &Sqe) -> PropertySet {
        PropertySet {
            size: PropertySize::of_attributes(sqe.cdw10),
            offset: sqe.cdw11,
            value: sqe.cdw12 as u64 | (sqe.cdw13 as u64) << 32,
        }
    }

    /// The command.
    pub fn sqe(&self, cid: u16) -> Sqe {
        Sqe {
            cdw10: u32::from(self.size.0 & 0b111),
            cdw11: self.offset,
            cdw12: self.value as u32,
            cdw13: (self.value >> 32) as u32,
            ..FabricsType::PROPERTY_SET.sqe(cid)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a driver would enable a controller by writing to a wrong offset.
    #[test]
    fn fields_lie_where_the_specification_says() {
        let set = PropertySet { size: PropertySize::DWORD, offset: 0x14, value: 0x0046_0001 };
        let bytes = set.sqe(7).to_bytes();
        assert_eq!(bytes[..5], [0x7F, 0x40, 7, 0, 0]);
        assert_eq!(bytes[40..56], [0, 0, 0, 0, 0x14, 0, 0, 0, 1, 0, 0x46, 0, 0, 0, 0, 0]);
        assert_eq!(PropertySet::parse(&set.sqe(7)), set);

        let get = PropertyGet { size: PropertySize::QWORD, offset: 0 };
        let bytes = get.sqe(7).to_bytes();
        assert_eq!((bytes[4], &bytes[40..48]), (4, &[1, 0, 0, 0, 0, 0, 0, 0][..]));
        assert_eq!(PropertyGet::parse(&get.sqe(7)), get);
        let response = PropertyGet::response(0x0102_0304_0506_0708, 7, 3);
        assert_eq!(response.to_bytes(), [8, 7, 6, 5, 4, 3, 2, 1, 3, 0, 0, 0, 7, 0, 0, 0]);
        assert_eq!(get.value(&response), 0x0102_0304_0506_0708);
        assert_eq!(PropertyGet { size: PropertySize::DWORD, ..get }.value(&response), 0x0506_0708);
    }

    /// Without this half of CAP would be read, or CC together with its neighbor.
    #[test]
    fn properties_have_their_sizes() {
        assert_eq!(PropertySize::of(0).and_then(PropertySize::bytes), Some(8));
        assert_eq!(PropertySize::of(0x14).and_then(PropertySize::bytes), Some(4));
        assert_eq!(
            (PropertySize::of(4), PropertySize::of(0x24), PropertySize(2).bytes()),
            (None, None, None)
        );
    }
}
