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
//! | [`ftl::space`] | the logical units: the host's, translation pages |
//! | `ftl::map` | from a unit to where it is: an overlay over the base |
//! | `ftl::pages` | translation pages: which are dirty, and what one says |
//! | `ftl::cache` | the cached map: misses, the evictor, pages that change while they are away |
//! | `ftl::frames` | its places, by last use |
//! | `ftl::buffer` | the write buffer: slots, stripes, what is not programmed yet |
//! | `ftl::blocks` | superblocks: free, open, closed; valid counts; the victim |
//! | `ftl::write` | from the buffer to the dies: allocation and programming |
//! | `ftl::wordline` | stripes that wait for the rest of their wordline |
//! | `ftl::journal` | what was deallocated, in the system area |
//! | `ftl::checkpoint`, `ftl::root` | the map, written down; where it is |
//! | `ftl::recover` | what the medium holds, when the power has come back |
//! | `ftl::audit` | whether the map and the spare areas say the same, for who looks at a directory |
//! | `ftl::medium` | media in files: what must stay the same, and looking at them |
//! | `ftl::duplicates` | a die that a power cut has left without a free superblock |
//! | `ftl::collect` | the collector of each die |
//! | `ftl::nameless` | units that the map has where no spare area names them |
//! | `ftl::upkeep` | which superblock is emptied next, and why: room, levelling, folding |
//! | `ftl::retire` | superblocks of which a program or an erase failed |
//! | `ftl::refresh` | moving what was read too often, or is old |
//! | `ftl::background` | collection while the host is idle |
//! | `ftl::lock`, `ftl::exchange` | read-modify-write of a unit; units that are read and then written as one step |
//! | `ftl::purge` | erasing what was deleted |
//! | [`ftl::health`] | how the media are, and the end of their life |
//! | [`kv`] | pairs of keys and values on the translation layer's units |
//!
//! What it does not do: it parses no command and touches no host memory (crate `device`), and it knows no timing of
//! flash (crate `flash`).

pub mod ftl;
pub mod kv;
pub mod placement;
pub mod site;
pub mod work;

pub use ftl::{
    Audit, Background, Base, Canary, Disagreement, Exchange, Ftl, FtlConfig, FtlCounters, FtlError, Health,
    Holds, MediaError, MediumError, Refresh, Region, Rhythm, Space, Upkeep, Victim, WearConfig, space_of,
};
pub use kv::{
    Cursor, Key, Kv, KvConfig, KvConfigError, KvCounters, KvError, KvUsage, Origin, Packing, StoreMode,
    Stored, UnitExtent,
};
pub use placement::{Distance, Errand, Placement, Route};
pub use site::Site;
pub use work::{Cycles, Work};
