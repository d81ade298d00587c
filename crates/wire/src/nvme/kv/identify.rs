//! Identify data structures of the Key Value command set (CSI 01h), and the combinations of I/O command sets.

use core::fmt;

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::nvme::assert_offsets;

/// A KV format of 16 bytes (NVMe KV 1.0, 4.1.5.1, figure "KV Format Data Structure").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct KvFormat {
    /// KV Key Max Length in bytes.
    pub kml: u16,
    #[doc(hidden)]
    pub reserved_2: u8,
    /// Relative Performance in bits 1:0, 0 for the best.
    pub rp: u8,
    /// KV Value Max Length in bytes.
    pub vml: u32,
    /// Max Number of Keys; 0: no limit but the capacity.
    pub mnk: u32,
    #[doc(hidden)]
    pub reserved_12: [u8; 4],
}

assert_offsets!(KvFormat: 16; kml = 0, rp = 3, vml = 4, mnk = 8);

/// Identify Namespace for the Key Value command set (CNS 05h, CSI 01h), 4096 bytes (NVMe KV 1.0, 4.1.5.1).
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IdentifyNamespaceKv {
    /// Namespace Size in bytes.
    pub nsze: u64,
    #[doc(hidden)]
    pub reserved_8: [u8; 8],
    /// Namespace Utilization in bytes.
    pub nuse: u64,
    /// Namespace Features.
    pub nsfeat: u8,
    /// Number of KV Formats, zero-based.
    pub nkvf: u8,
    /// Namespace Multi-path I/O and Namespace Sharing Capabilities.
    pub nmic: u8,
    /// Reservation Capabilities.
    pub rescap: u8,
    /// Format Progress Indicator: bit 7 supported, bits 6:0 the per cent that remain.
    pub fpi: u8,
    /// KV Format Capabilities: index of the format in use in bits 3:0.
    pub kvfc: u8,
    #[doc(hidden)]
    pub reserved_30: [u8; 2],
    /// Namespace Optimal Value Granularity in bytes; 0: not reported.
    pub novg: u32,
    /// ANA Group Identifier.
    pub anagrpid: u32,
    #[doc(hidden)]
    pub reserved_40: [u8; 3],
    /// Namespace Attributes.
    pub nsattr: u8,
    /// NVM Set Identifier.
    pub nvmsetid: u16,
    /// Endurance Group Identifier.
    pub endgid: u16,
    /// Namespace Globally Unique Identifier, big endian.
    pub nguid: [u8; 16],
    /// IEEE Extended Unique Identifier, big endian.
    pub eui64: [u8; 8],
    /// KV formats.
    pub kvf: [KvFormat; 16],
    #[doc(hidden)]
    pub reserved_328: [u8; 3512],
    /// Vendor specific.
    pub vs: [u8; 256],
}

assert_offsets!(IdentifyNamespaceKv: 4096; nsze = 0, nuse = 16, nsfeat = 24, nkvf = 25, nmic = 26, rescap = 27, fpi = 28,
    kvfc = 29, novg = 32, anagrpid = 36, nsattr = 43, nvmsetid = 44, endgid = 46, nguid = 48, eui64 = 64, kvf = 72,
    vs = 3840);

impl IdentifyNamespaceKv {
    /// The format in use. An index out of range selects the first.
    pub fn format(&self) -> KvFormat {
        let index = self.kvfc & 0xF;
        self.kvf[usize::from(if index > self.nkvf { 0 } else { index })]
    }
}

/// Identify Controller for the Key Value command set (CNS 06h, CSI 01h), 4096 bytes.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IdentifyControllerKv {
    /// Version of the command set that the controller follows, as in the register.
    pub ver: u32,
    #[doc(hidden)]
    pub reserved_4: [u8; 4092],
}

assert_offsets!(IdentifyControllerKv: 4096; ver = 0);

/// Combinations of I/O command sets that a controller can enable at once (CNS 1Ch), 4096 bytes (NVMe Base 2.1,
/// 5.1.13.2.21): bit n of a vector is the command set with identifier n; the first empty vector ends the list.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CommandSetCombinations {
    /// The vectors, by their index in the feature I/O Command Set Profile.
    pub vectors: [u64; 512],
}

assert_offsets!(CommandSetCombinations: 4096; vectors = 0);

impl CommandSetCombinations {
    /// Index of the first combination that contains all of `wanted`.
    pub fn position(&self, wanted: u64) -> Option<u16> {
        let mut vectors = self.vectors.iter().take_while(|vector| **vector != 0);
        vectors.position(|vector| vector & wanted == wanted).map(|index| index as u16)
    }
}

macro_rules! zeroed {
    ($($type:ident: $($field:ident),+;)+) => {$(
        impl Default for $type {
            fn default() -> Self {
                Self::new_zeroed()
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($type))$(.field(stringify!($field), &self.$field))+.finish_non_exhaustive()
            }
        }
    )+};
}

zeroed! {
    IdentifyNamespaceKv: nsze, nuse, nkvf, kvfc;
    IdentifyControllerKv: ver;
}

impl Default for CommandSetCombinations {
    fn default() -> Self {
        Self::new_zeroed()
    }
}

impl fmt::Debug for CommandSetCombinations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.vectors.iter().take_while(|vector| **vector != 0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a drive could name a format that it does not describe, and the host would take zeroes for limits.
    #[test]
    fn the_format_in_use_is_one_that_is_described() {
        let mut id = IdentifyNamespaceKv { nkvf: 1, kvfc: 1, ..IdentifyNamespaceKv::default() };
        id.kvf[0] = KvFormat { kml: 16, vml: 4096, ..KvFormat::default() };
        id.kvf[1] = KvFormat { kml: 8, vml: 512, ..KvFormat::default() };
        assert_eq!(id.format().kml, 8);
        id.kvfc = 2;
        assert_eq!(id.format().kml, 16);
        assert_eq!(id.as_bytes()[72..74], [16, 0]);
        assert_eq!(id.as_bytes()[92..96], 512u32.to_le_bytes());
    }

    /// Without this a host would select a combination past the end of the list.
    #[test]
    fn combinations_end_at_the_first_empty_one() {
        let mut all = CommandSetCombinations::default();
        assert_eq!(all.position(1), None);
        (all.vectors[0], all.vectors[1], all.vectors[3]) = (0b1, 0b11, 0b111);
        assert_eq!(
            [0b1, 0b10, 0b11, 0b100].map(|wanted| all.position(wanted)),
            [Some(0), Some(1), Some(1), None]
        );
    }
}
