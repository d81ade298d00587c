//! Lists of controllers and namespace granularities, which Identify returns and Namespace Attachment takes.

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::assert_offsets;

/// A Controller List, 4096 bytes (NVMe Base 2.1, 4.6.1).
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ControllerList {
    /// Number of identifiers in the list, up to 2047.
    pub count: u16,
    /// The identifiers, ascending.
    pub ids: [u16; 2047],
}

assert_offsets!(ControllerList: 4096; count = 0, ids = 2);

impl ControllerList {
    /// The identifiers of `ascending` from `from` on.
    pub fn from(from: u16, ascending: impl IntoIterator<Item = u16>) -> ControllerList {
        let mut list = ControllerList::new_zeroed();
        for (slot, id) in list.ids.iter_mut().zip(ascending.into_iter().filter(|id| *id >= from)) {
            *slot = id;
            list.count += 1;
        }
        list
    }

    /// The identifiers; `None` if the number exceeds the list, or they do not ascend.
    pub fn ids(&self) -> Option<&[u16]> {
        let ids = self.ids.get(..usize::from(self.count))?;
        ids.is_sorted_by(|a, b| a < b).then_some(ids)
    }
}

/// A Namespace Granularity Descriptor, 16 bytes (NVM Command Set 1.1, 4.1.5.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct GranularityDescriptor {
    /// Namespace Size Granularity in bytes, 0 if not reported.
    pub nszegran: u64,
    /// Namespace Capacity Granularity in bytes, 0 if not reported.
    pub ncapgran: u64,
}

/// The Namespace Granularity List, 4096 bytes (NVM Command Set 1.1, 4.1.5.5).
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct GranularityList {
    /// Bit 0: each LBA format has a descriptor of its own; otherwise the first one applies to all.
    pub attributes: u32,
    /// Number of descriptors, zero-based.
    pub descriptors_z: u8,
    #[doc(hidden)]
    pub reserved_5: [u8; 27],
    /// The descriptors.
    pub descriptors: [GranularityDescriptor; 16],
    #[doc(hidden)]
    pub reserved_288: [u8; 3808],
}

assert_offsets!(GranularityList: 4096; attributes = 0, descriptors_z = 4, descriptors = 32, reserved_288 = 288);

impl Default for ControllerList {
    /// An empty one.
    fn default() -> Self {
        Self::new_zeroed()
    }
}

impl Default for GranularityList {
    /// One descriptor, which reports no granularity.
    fn default() -> Self {
        Self::new_zeroed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a number from a hostile host would reach past the list.
    #[test]
    fn a_controller_list_is_taken_if_it_can_be_one() {
        let list = ControllerList::from(2, 1..=4);
        assert_eq!(list.ids(), Some(&[2, 3, 4][..]));
        assert_eq!(ControllerList { count: 2048, ..list }.ids(), None);
        assert_eq!(ControllerList { count: 4, ..list }.ids(), None, "0 does not ascend");
        assert_eq!(ControllerList::default().ids(), Some(&[][..]));
        assert_eq!(ControllerList::from(0, 0..=u16::MAX).count, 2047);
    }
}
