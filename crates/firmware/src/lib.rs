//! The firmware of a drive: units of work with a cost and a place, and the flash translation layer (FTL).
//!
//! Firmware work has a kind and a cost in cycles ([`WorkKind`], [`Cycles`]). A [`Placement`] assigns each
//! kind to a [`Site`] (cores with a frequency, and a DRAM), so the same translation layer runs on the drive's
//! own cores, on the host's, or on a peer's. All time is charged through a handle; no code assumes cores of
//! its own.
//!
//! | file | contents |
//! |---|---|
//! | [`work`] | the kinds of firmware work, and their cost |
//! | [`site`] | cores and DRAM on which work runs |
//! | [`placement`] | which site runs which kind, by command; links between sites |
//! | [`policy`] | decisions that users replace: which superblock is emptied next, and which one a write goes to |
//! | [`ftl`] | the translation layer: the operations that a controller calls |
//! | [`ftl::config`] | parameters and errors of the translation layer |
//! | [`ftl::base`] | the initial layout before the first I/O, in closed form |
//! | [`ftl::redo`] | the log page of a segment of DRAM that a peer lends for the map |
//! | [`ftl::space`] | logical units: the host's, and translation pages |
//! | `ftl::core`, `ftl::state` | the parts of the translation layer, and where a unit is |
//! | `ftl::signals`, `ftl::collectors`, `ftl::power` | signals between tasks; what a power cut leaves |
//! | `ftl::operations`, `ftl::figures` | what a controller calls |
//! | `ftl::counters`, `ftl::footprint` | counters, and DRAM in use |
//! | `ftl::blocks` | superblocks: free, open, closed; valid counts |
//! | `ftl::streams`, `ftl::asked` | streams of units; policies that are asked |
//! | `ftl::map` | the map from units to flash addresses, and its translation pages |
//! | `ftl::paging` | the cached map: translation pages that are loaded, written, copied and lent |
//! | `ftl::buffer` | the write buffer: units written by the host and not yet programmed |
//! | `ftl::write` | the write path: parts of units, stripes, wordlines |
//! | `ftl::collect` | emptying superblocks: garbage collection, wear leveling, refresh, purge |
//! | `ftl::journal` | deallocations, and state of checkpoints |
//! | `ftl::durable` | checkpoints, and recovery after a power cut |
//! | `ftl::host` | operations of the host; the fast path of reads and writes of one unit |
//! | `ftl::steady` | the constructed steady state of a drive under overwrites |
//! | [`ftl::health`], `ftl::retire` | media health, and end of life; superblocks that fail |
//!
//! A translation layer writes a unit twice, to different flash addresses, and reads the second version:
//!
//! ```
//! use byteway_clock::{Delay, Executor, Rate, SpanId, Spans};
//! use byteway_firmware::{Cycles, Ftl, FtlConfig, MediaError, Placement, Site, WorkKind};
//! use byteway_flash::{Geometry, Timing};
//! use byteway_content::{BlockSize, Content, Stamp};
//!
//! let executor = Executor::new();
//! let clock = executor.clock();
//! let site = Site::new(clock, 2, 1_000_000_000, Delay::from_ns(80), Rate::per_second(10_000_000_000));
//! let placement = Placement::all_at(&site, Cycles::FREE.with(WorkKind::Translate, 300));
//! let geometry = Geometry { channels: 2, ways: 1, planes: 2, blocks: 40, pages: 8, page_bytes: 8192 };
//! let config = FtlConfig { user_units: 900, write_buffer_units: 32, ..FtlConfig::default() };
//! let ftl = Ftl::new(clock, placement, geometry, Timing::default(), config)?;
//! let content = |version| Content::Stamp(Stamp { lba: 7, version, tag: 0, block: BlockSize::B4096 });
//! executor.run(async move {
//!     let (span, spans) = (SpanId::NONE, Spans::default());
//!     for version in [1, 2] {
//!         ftl.write(span, &spans, 7, &mut vec![content(version)], false).await?;
//!         ftl.flush(span, &spans).await?;
//!     }
//!     let mut units = Vec::new();
//!     ftl.read(span, &spans, 7, 1, &mut units).await?;
//!     assert_eq!(units, [content(2)]);
//!     assert_eq!(ftl.counters().units_programmed_host, 2);
//!     Ok::<(), MediaError>(())
//! })??;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it does not do: it parses no command and touches no host memory (crate `device`), and it knows no
//! flash timing (crate `flash`).

pub mod ftl;
pub mod hardware;
pub mod placement;
pub mod policy;
pub mod site;
pub mod work;

pub use ftl::{
    Audit, Background, Base, BorrowFigures, CollectionState, Defect, Disagreement, DynamicCache, Exchange,
    ExtentConfig, Footprint, Ftl, FtlConfig, FtlCounters, FtlError, Health, Housekeeping, Lender, LenderId,
    LentMemory, Maintenance, MapMonitor, MediaError, MediumError, PacedState, Progress, Refresh, Region,
    Space, SteadyLoad, SteadyTiming, Striping, UnitContent, UnitRead, UnitWrite, space_of,
};
pub use hardware::{Hardware, HardwareFigures, HostLink, VectorCosts};
pub use placement::{LinkDirection, Placement, Route, SiteLink, WorkContext};
pub use site::Site;
pub use work::{Cycles, WorkKind};
