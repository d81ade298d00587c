//! Asymmetric Namespace Access (NVMe Base 2.1, 2.4.2). All namespaces of a subsystem form one group. Each
//! port of the subsystem has its own state for it, which may change while hosts are connected.

use crate::shared::{Shared, Watching};
use byteway_wire::nvme::ana::{AnaGroupDescriptor, AnaLogHeader, AnaState};
use std::collections::BTreeMap;
use std::fmt;
use zerocopy::{FromZeros, IntoBytes};

/// ANAGRPID of the only group.
pub(crate) const GROUP: u32 = 1;
/// ANACAP: all states are reported, and the group of a namespace does not change.
pub(crate) const ANACAP: u8 = 0x1F | 1 << 6;
/// ANATT: how long a group may stay in the change state, in seconds.
pub(crate) const ANATT: u8 = 10;

/// The ANA states of a subsystem's ports. Cheap to clone; may be changed from any thread.
#[derive(Clone)]
pub struct PortStates(Shared<States>);

#[derive(Default)]
struct States {
    /// Ports that are not in the optimized state.
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
    /// The state of a port: optimized, unless set otherwise.
    pub fn state(&self, port: u16) -> AnaState {
        self.0.read(|states| states.other.get(&port).copied().unwrap_or(AnaState::OPTIMIZED))
    }

    /// Sets the state of a port, and notifies the hosts connected through it.
    pub fn set(&self, port: u16, state: AnaState) {
        self.0.change(|states| {
            match state {
                AnaState::OPTIMIZED => _ = states.other.remove(&port),
                state => _ = states.other.insert(port, state),
            }
            states.changes += 1;
        });
    }

    /// Calls `watcher` after each change, until the result is dropped. The call may come from any thread.
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
