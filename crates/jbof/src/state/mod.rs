//! State of a JBOF: what the other files of this module operate on.
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
use crate::fabric::Fabric;
use byteway_clock::{Clock, Semaphore, Station, TaskId};
use byteway_link::Memory;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

pub(super) use attached::{Attached, Bound, UserQueue};
pub(super) use dram::{Borrowed, Offer, PresentDram};
pub(super) use member::{Borrowing, Lending, Member, Present};

pub use dram::DramFigures;
pub use member::MemberFigures;

/// The state that all parts of a JBOF share.
pub(crate) struct Inner {
    pub(crate) clock: Clock,
    pub(crate) config: JbofConfig,
    pub(crate) fabric: Fabric,
    pub(crate) members: Vec<Member>,
    pub(crate) bound: RefCell<Vec<Bound>>,
    /// The host's processors, where central work runs on them.
    pub(crate) cpu: Rc<Station>,
    /// The host's memory, where several drives transfer payload to and from it.
    pub(crate) memory: Memory,
    /// One per drive, where firmware runs on the host.
    pub(crate) central: Vec<CentralDrive>,
    /// The hypervisor, where drives are virtual, once they have drivers.
    pub(crate) harvest: RefCell<Option<Rc<Harvest>>>,
    pub(crate) tasks: RefCell<Vec<TaskId>>,
    /// Serializes the attachment of drivers.
    pub(crate) attaching: Semaphore,
    /// Number of power-ons, and of users' queue pairs.
    pub(crate) lives: Cell<u64>,
    pub(crate) queues_made: Cell<u64>,
    pub(crate) host_restarts: Cell<u64>,
}
