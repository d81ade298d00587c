//! Arrays of whole drives: RAID levels 0, 1, 5 and 10, as the storage behind a controller.
//!
//! An [`Array`] offers units as a translation layer does, and stores them on
//! [members](byteway_member::Member) across links. Its work (address computation, parity) runs where a
//! [`Placement`](byteway_firmware::Placement) puts it: on a host's processors, or on a bridge's own core.
//!
//! | file | contents |
//! |---|---|
//! | [`config`] | levels, parameters, errors |
//! | [`array`](mod@array) | [`Array`]: the operations that a controller calls |
//! | `assemble` | creation, assembly, spares; the guarantee after a power cut |
//! | `layout` | the arithmetic of the levels, from units to members |
//! | `area` | the array's own state on every member |
//! | `superblock` | the array's identity and member states, on every member |
//! | `inner` | the parts of an array; sending to members |
//! | `group`, `port` | requests to members, and the tasks that send them |
//! | `read` | reads, and reconstruction of missing units |
//! | `write`, `parity` | writes; for level 5, with parity |
//! | `xor` | parity of units |
//! | `state` | failures of members |
//! | `intent` | the write-intent log |
//! | `journal` | the journal of degraded stripes |
//! | `lost` | units whose content is lost |
//! | `rebuild` | progress of a rebuild |
//! | `upkeep` | repair after a power cut, rebuilding |
//! | [`counters`] | what is counted |
//! | [`bridge`] | a cache in front of an array: small writes into non-volatile memory |
//!
//! **Order of waits.** An operation locks its units, has its regions marked, and then enters the gate.
//! Operations inside wait only for members. The gate closes while the failure of a member is recorded, which
//! waits for the operations inside.
//!
//! What it does not do: it knows no commands (`device`, `host`) and no flash. Deallocation does not reach the
//! members where parity forbids it. No level 6, no reshaping, no journal of undegraded stripes.

mod area;
pub mod array;
mod assemble;
pub mod bridge;
pub mod config;
pub mod counters;
mod group;
mod inner;
mod intent;
mod journal;
mod layout;
mod lost;
mod parity;
mod port;
mod read;
mod rebuild;
mod state;
mod superblock;
mod upkeep;
mod write;
mod xor;

pub use array::{Array, ArrayHealth, ArrayMemory, UnitExchange};
pub use assemble::Unused;
pub use bridge::nvram::Nvram;
pub use bridge::{Bridge, BridgeCounters, BridgeExchange, NvramConfig};
pub use config::{ArrayConfig, ArrayError, Canary, Initial, Level, MEMBERS_MAX, RebuildConfig};
pub use counters::{ArrayCounters, Cause, Traffic};
pub use rebuild::Rebuild;
pub use superblock::SlotState;
