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
//! | [`placement`] | which site runs which kind, by command; what lies between sites |
//! | [`ftl`] | the translation layer: the verbs that a controller calls |
//! | [`ftl::config`] | its parameters and errors |
//! | [`ftl::base`] | where everything lies before the first I/O, in closed form |
//! | [`ftl::redo`] | the log page of a segment of DRAM that a peer lends for the map |
//! | [`ftl::space`] | the logical units: the host's, translation pages |
//! | `ftl::inner` | what it is made of: its parts, and what its tasks wait for |
//! | `ftl::counters`, `ftl::footprint` | what it counts, and the DRAM that it takes |
//! | `ftl::blocks` | superblocks: free, open, closed; valid counts; the victim |
//! | `ftl::map` | from a unit to where it is; translation pages and their cache |
//! | `ftl::buffer` | units that the host has written and flash has not yet |
//! | `ftl::plain` | reads and writes of one unit, the short way |
//! | `ftl::write` | from the host to the dies: parts of units, stripes, wordlines |
//! | `ftl::collect` | what empties superblocks: for room, wear, failures, age, deletion |
//! | `ftl::durable` | what is written down so that the power may go, and what is found when it comes back |
//! | `ftl::steady` | the constructed state of a drive that is being overwritten |
//! | [`ftl::health`] | how the media are, and the end of their life |
//!
//! What it does not do: it parses no command and touches no host memory (crate `device`), and it knows no timing of
//! flash (crate `flash`).

pub mod ftl;
pub mod hardware;
pub mod placement;
pub mod site;
pub mod work;

pub use ftl::{
    Audit, Background, Base, BorrowFigures, Canary, CollectionState, Disagreement, Exchange, ExtentConfig,
    Footprint, Ftl, FtlConfig, FtlCounters, FtlError, Health, Holds, Lender, LenderId, LentMemory,
    MapMonitor, MediaError, MediumError, Refresh, Region, Rhythm, Space, Upkeep, Victim, WearConfig,
    space_of,
};
pub use hardware::{Hardware, HardwareFigures, VectorCosts};
pub use placement::{Distance, Errand, HostLink, Placement, Route, Way};
pub use site::Site;
pub use work::{Cycles, Work};
