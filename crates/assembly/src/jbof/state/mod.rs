//! State of a box: what the other files of this module operate on.
//!
//! | file | what |
//! |---|---|
//! | `member` | a slot and its drive |
//! | `dram` | the DRAM of a drive |
//! | `attached` | the host's drivers, queue pairs and bindings |

mod attached;
mod dram;
mod member;

use super::central::CentralDrive;
use super::config::JbofConfig;
use super::harvest::Harvest;
use byteway_clock::{Clock, Semaphore, Station, TaskId};
use byteway_jbof::fabric::Fabric;
use byteway_link::Memory;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

pub(super) use attached::{Attached, Bound, UserQueue};
pub(super) use dram::{Borrowed, Offer, PresentDram};
pub(super) use member::{Borrowing, Lending, Member, Present};

pub use dram::DramFigures;
pub use member::MemberFigures;

/// The state that all parts of a box share.
pub(in crate::jbof) struct Inner {
    pub(in crate::jbof) clock: Clock,
    pub(in crate::jbof) config: JbofConfig,
    pub(in crate::jbof) fabric: Fabric,
    pub(in crate::jbof) members: Vec<Member>,
    pub(in crate::jbof) bound: RefCell<Vec<Bound>>,
    /// The host's processors, where central work runs on them.
    pub(in crate::jbof) cpu: Rc<Station>,
    /// The host's memory, where several drives transfer payload to and from it.
    pub(in crate::jbof) memory: Memory,
    /// One per drive, where firmware runs on the host.
    pub(in crate::jbof) central: Vec<CentralDrive>,
    /// The hypervisor, where drives are virtual, once they have drivers.
    pub(in crate::jbof) harvest: RefCell<Option<Rc<Harvest>>>,
    pub(in crate::jbof) tasks: RefCell<Vec<TaskId>>,
    /// Serializes the attachment of drivers.
    pub(in crate::jbof) attaching: Semaphore,
    /// Number of power-ons, and of users' queue pairs.
    pub(in crate::jbof) lives: Cell<u64>,
    pub(in crate::jbof) queues_made: Cell<u64>,
    pub(in crate::jbof) host_restarts: Cell<u64>,
}
