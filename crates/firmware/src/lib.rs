//! What is decided in a drive: named work at named places, and the flash translation layer.
//!
//! Firmware work has a kind and a cost in cycles ([`Work`], [`Cycles`]). A [`Placement`] says at which [`Site`] (a
//! set of cores with a frequency, and a DRAM) each kind runs, so the same translation layer runs on the drive's own
//! cores, on the host's, or on a peer's. Nothing in here says "my cores": everything is charged to a handle.
//!
//! | file | what |
//! |---|---|
//! | [`work`] | the kinds of firmware work, and what each costs |
//! | [`site`] | cores and DRAM: where work runs |
//! | [`placement`] | which site runs which kind |
//! | [`ftl`] | the translation layer: the verbs that a controller calls |
//! | [`ftl::config`] | its parameters and errors |
//! | [`ftl::base`] | where everything lies before the first I/O, in closed form |
//! | `ftl::map` | from a unit to where it is: an overlay over the base |
//! | `ftl::buffer` | the write buffer: slots, stripes, what is not programmed yet |
//! | `ftl::blocks` | superblocks: free, open, closed; valid counts; the victim |
//! | `ftl::write` | from the buffer to the dies: allocation and programming |
//! | `ftl::collect` | the collector of each die |
//! | `ftl::lock` | read-modify-write of a unit |
//!
//! What it does not do: it parses no command and touches no host memory (crate `device`), and it knows no timing of
//! flash (crate `flash`). It does not recover from power loss yet: the map is rebuilt by nobody.

pub mod ftl;
pub mod placement;
pub mod site;
pub mod work;

pub use ftl::{Base, Ftl, FtlConfig, FtlCounters, FtlError, MediaError, Region, Victim};
pub use placement::Placement;
pub use site::Site;
pub use work::{Cycles, Work};
