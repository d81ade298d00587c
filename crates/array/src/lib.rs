//! Arrays of whole drives: RAID levels 0, 1, 5 and 10, as the storage behind a controller.
//!
//! An [`Array`] offers units as a translation layer does, and keeps them on [members](byteway_member::Member) across links. Its
//! work (finding members, computing parity) is done where a [`Placement`](byteway_firmware::Placement) says: on a host's
//! processors, or on a bridge's own core.
//!
//! | file | what |
//! |---|---|
//! | [`config`] | levels, parameters, errors |
//! | [`array`](mod@array) | [`Array`]: the verbs that a controller calls |
//! | `assemble` | created, assembled, spares; what is guaranteed after a power cut |
//! | `layout` | where a unit lies: the arithmetic of the levels |
//! | `area` | what the array keeps for itself on every member |
//! | `superblock` | the state of the array as every member says it |
//! | `inner` | what it is made of; how its parts send to members |
//! | `group`, `port` | what is asked of members, and the tasks that ask |
//! | `read` | reads, and reads around what is missing |
//! | `write`, `parity` | writes; of level 5, with the parity |
//! | `lock`, `xor` | ranges that one changes at a time; parity of units |
//! | `state` | how members fail |
//! | `intent` | the write-intent log |
//! | `journal` | the journal of degraded stripes |
//! | `lost` | units that can't be known any more |
//! | `rebuild` | how far rebuilding is |
//! | `upkeep` | repair after a power cut, rebuilding |
//! | [`counters`] | what is counted |
//! | [`bridge`] | a cache in front of an array: small writes into non-volatile memory |
//!
//! **Order of waits.** An operation locks its units, has its regions marked, and then enters the gate. Who has entered waits for
//! members alone. The gate closes while the failure of a member is taken down, which waits for those who have entered.
//!
//! What it does not do: it knows no commands (`device`, `host`) and no flash; it does not discard what the members hold below a
//! deallocation that parity forbids; no level 6, no reshaping, no journal of undegraded stripes.

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
mod lock;
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

pub use array::{Array, ArrayHealth, ArrayMemory, Exchange};
pub use assemble::Unused;
pub use bridge::nvram::Nvram;
pub use bridge::{Bridge, BridgeCounters, BridgeExchange, NvramConfig};
pub use config::{ArrayConfig, ArrayError, Canary, Initial, Level, MEMBERS_MAX, RebuildConfig};
pub use counters::{ArrayCounters, Cause, Traffic};
pub use rebuild::Rebuild;
pub use superblock::SlotState;
