//! Asymmetric Namespace Access (NVMe Base 2.1, 2.4.2): all namespaces of a subsystem are one group, whose state each of the
//! subsystem's ports has for itself, and which may change while hosts are connected.

use crate::shared::{Shared, Watching};
use byteway_wire::nvme::ana::{AnaGroupDescriptor, AnaLogHeader, AnaState};
use std::collections::BTreeMap;
use std::fmt;
use zerocopy::{FromZeros, IntoBytes};

/// The one group.
pub(crate) const GROUP: u32 = 1;
/// ANACAP: all states are reported, and a namespace doesn't change its group.
pub(crate) const ANACAP: u8 = 0x1F | 1 << 6;
/// ANATT: how long a group may be in the change state, in seconds.
pub(crate) const ANATT: u8 = 10;

/// The states of a subsystem's ports. Cheap to clone, and changed from any thread.
#[derive(Clone)]
pub struct PortStates(Shared<States>);

#[derive(Default)]
struct States {
    /// Of the ports that are not optimized.
    other: BTreeMap<u16, AnaState>,
    changes: u64,
}

impl Default for PortStates {
    fn default() -> Self {
        PortStates(Shared::new(States::default()))
    }
}

impl PartialEq for PortStates {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_same(&other.0)
    }
}

impl Eq for PortStates {}

impl fmt::Debug for PortStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.read(|states| f.debug_map().entries(&states.other).finish())
    }
}

impl PortStates {
    /// The state of a port: optimized, unless it was set otherwise.
    pub fn state(&self, port: u16) -> AnaState {
        self.0.read(|states| states.other.get(&port).copied().unwrap_or(AnaState::OPTIMIZED))
    }

    /// Sets the state of a port. Hosts that came by it are told.
    pub fn set(&self, port: u16, state: AnaState) {
        self.0.change(|states| {
            match state {
                AnaState::OPTIMIZED => _ = states.other.remove(&port),
                state => _ = states.other.insert(port, state),
            }
            states.changes += 1;
        });
    }

    /// Calls `watcher` after each change, until the result is dropped. It may be called from any thread.
    pub fn watch(&self, watcher: impl Fn() + Send + Sync + 'static) -> Watching {
        self.0.watch(watcher)
    }

    /// The log page (NVMe Base 2.1, 5.1.12.1.13) for a controller in this state.
    pub(crate) fn log_page(&self, state: AnaState, namespaces: &[u32]) -> Vec<u8> {
        let chgcnt = self.0.read(|states| states.changes);
        let header = AnaLogHeader { chgcnt, ngrps: 1, ..AnaLogHeader::new_zeroed() };
        let group = AnaGroupDescriptor {
            grpid: GROUP,
            nnsids: namespaces.len() as u32,
            chgcnt,
            state,
            ..AnaGroupDescriptor::new_zeroed()
        };
        [header.as_bytes(), group.as_bytes(), namespaces.as_bytes()].concat()
    }
}
