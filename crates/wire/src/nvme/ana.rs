//! Asymmetric Namespace Access (NVMe Base 2.1, 2.4.2): states, and their log page.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Status, assert_offsets};

/// State of an ANA group for a controller (NVMe Base 2.1, 5.1.12.1.13). Unknown codes stay representable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct AnaState(pub u8);

impl AnaState {
    /// ANA Optimized.
    pub const OPTIMIZED: AnaState = AnaState(1);
    /// ANA Non-Optimized.
    pub const NON_OPTIMIZED: AnaState = AnaState(2);
    /// ANA Inaccessible.
    pub const INACCESSIBLE: AnaState = AnaState(3);
    /// ANA Persistent Loss.
    pub const PERSISTENT_LOSS: AnaState = AnaState(4);
    /// ANA Change.
    pub const CHANGE: AnaState = AnaState(0xF);
    /// All named states.
    pub const ALL: [AnaState; 5] = [
        AnaState::OPTIMIZED,
        AnaState::NON_OPTIMIZED,
        AnaState::INACCESSIBLE,
        AnaState::PERSISTENT_LOSS,
        AnaState::CHANGE,
    ];

    /// The name that Linux and nvme-cli use.
    pub const fn name(self) -> &'static str {
        match self {
            AnaState::OPTIMIZED => "optimized",
            AnaState::NON_OPTIMIZED => "non-optimized",
            AnaState::INACCESSIBLE => "inaccessible",
            AnaState::PERSISTENT_LOSS => "persistent-loss",
            AnaState::CHANGE => "change",
            _ => "reserved",
        }
    }

    /// The status of an I/O command in this state; `None`: it is executed. The host may retry it on another path.
    pub const fn status(self) -> Option<Status> {
        match self {
            AnaState::INACCESSIBLE => Some(Status::ANA_INACCESSIBLE),
            AnaState::PERSISTENT_LOSS => Some(Status::ANA_PERSISTENT_LOSS),
            AnaState::CHANGE => Some(Status::ANA_TRANSITION),
            _ => None,
        }
    }
}

/// Header of the Asymmetric Namespace Access log page; descriptors of groups follow, each with its namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct AnaLogHeader {
    /// Change Count.
    pub chgcnt: u64,
    /// Number of ANA Group Descriptors.
    pub ngrps: u16,
    #[doc(hidden)]
    pub reserved_10: [u8; 6],
}

assert_offsets!(AnaLogHeader: 16; chgcnt = 0, ngrps = 8);

/// An ANA Group Descriptor; identifiers of its namespaces follow, 4 bytes each, ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct AnaGroupDescriptor {
    /// ANA Group ID.
    pub grpid: u32,
    /// Number of NSID Values.
    pub nnsids: u32,
    /// Change Count.
    pub chgcnt: u64,
    /// ANA State for the controller that returns the log page.
    pub state: AnaState,
    #[doc(hidden)]
    pub reserved_17: [u8; 15],
}

assert_offsets!(AnaGroupDescriptor: 32; grpid = 0, nnsids = 4, chgcnt = 8, state = 16);

/// Return Groups Only, bit 0 of the log specific parameter: no namespaces are listed.
pub const LSP_GROUPS_ONLY: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this a host would use a path that does not work, or abandon one that does.
    #[test]
    fn states_have_the_codes_and_statuses_of_the_specification() {
        assert_eq!(AnaState::ALL.map(|state| state.0), [1, 2, 3, 4, 15]);
        let statuses = AnaState::ALL.map(|state| state.status().map(|status| (status.sct(), status.sc())));
        assert_eq!(statuses, [None, None, Some((3, 2)), Some((3, 1)), Some((3, 3))]);
        assert!(AnaState::ALL.iter().all(|state| state.status().is_none_or(|status| !status.dnr())));
    }
}
