//! The write path: host units into the buffer, out of it in stripes, and the map update once they are
//! programmed.
//!
//! When a full stripe waits, or a unit that must not wait, it goes to the next die in turn that has space and
//! is not busy with host programs. For each program that can be in flight there is a permanent task that
//! waits for its end, so a write allocates nothing.
//!
//! | file | contents |
//! |---|---|
//! | [`filling`] | stripes being filled and programmed |
//! | [`die_set`] | dies as a set of bits |
//! | [`wordline`] | programmed stripes that wait for the rest of their wordline |
//! | [`parts`] | absorbed parts of units in DRAM |
//! | [`room`] | credits for free slots of the buffer |
//! | [`lock`] | units that are being read, changed and written back |
//! | [`superseded`] | contents that no read can ask for any more |
//! | [`buffering`], [`deallocate`] | units into the buffer; deallocation |
//! | [`dispatch`], [`writer`], [`finish`] | stripes to dies; the tasks that wait for their programs; the map update |
//! | [`housekeeping`] | what stops programs from time to time |
//! | [`settle`], [`standstill`] | waiting for all of that; waits that nothing will satisfy |

pub(in crate::ftl) mod buffering;
pub(in crate::ftl) mod deallocate;
pub(in crate::ftl) mod die_set;
pub(in crate::ftl) mod dispatch;
pub(in crate::ftl) mod filling;
pub(in crate::ftl) mod finish;
pub(in crate::ftl) mod housekeeping;
pub(in crate::ftl) mod lock;
pub(in crate::ftl) mod parts;
pub(in crate::ftl) mod room;
pub(in crate::ftl) mod settle;
pub(in crate::ftl) mod standstill;
pub(in crate::ftl) mod superseded;
pub(in crate::ftl) mod wordline;
pub(in crate::ftl) mod writer;
