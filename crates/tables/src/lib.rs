//! Storage for tables: a catalog and row groups on the translation layer's units.
//!
//! A *table* has a name, a schema, and row groups. A *row group* is a description (where its columns are and the bounds of their values),
//! followed by the bytes of its columns, in extents of units. The encoding of schema and description belongs to the caller: to this crate
//! they are opaque bytes.
//!
//! The *catalog* names all tables. It is written whole, into two slots, one after the other; the newest valid copy counts. One task
//! (`writer`) makes every change, and completes it even if the command that requested it is cancelled: it makes the bytes of new row groups
//! durable, then both copies of the catalog that names them, and then acknowledges. An append is therefore atomic, and an acknowledged
//! change survives a power cut, even if one of the copies becomes unreadable. Units that a change releases are reused only after that, and
//! once no reader holds them.
//!
//! | file | what |
//! |---|---|
//! | [`config`] | configuration, errors, usage figures |
//! | [`catalog`] | tables and row groups, and their on-flash format |
//! | `range` | the units of a namespace: numbering, reads and writes |
//! | `space` | allocation of free units |
//! | `core` | what a store is made of |
//! | [`store`] | the interface of the store |
//! | `writer` | recovery, and changes, one at a time |
//!
//! A row group is appended to a table, and part of it is read:
//!
//! ```
//! use byteway_clock::{Clock, Executor, SpanId, Spans};
//! use byteway_firmware::Ftl;
//! use byteway_tables::{NewGroup, Tables, TablesConfig, TablesError, UnitExtent};
//!
//! # fn small_drive(clock: &Clock) -> Ftl {
//! #     use byteway_clock::{Delay, Rate};
//! #     use byteway_firmware::{Cycles, FtlConfig, Placement, Site};
//! #     use byteway_flash::{Geometry, Timing};
//! #     let site = Site::new(clock, 1, 1_000_000_000, Delay::from_ns(80), Rate::per_second(10_000_000_000));
//! #     let placement = Placement::all_at(&site, Cycles::FREE);
//! #     let geometry = Geometry { channels: 2, ways: 1, planes: 2, blocks: 40, pages: 8, page_bytes: 8192 };
//! #     let config = FtlConfig { user_units: 900, write_buffer_units: 32, ..FtlConfig::default() };
//! #     Ftl::new(clock, placement, geometry, Timing::default(), config).expect("such a drive can exist")
//! # }
//! let executor = Executor::new();
//! let config = TablesConfig::new(vec![UnitExtent { first: 0, count: 900 }], 1);
//! let tables = Tables::power_on(executor.clock(), small_drive(executor.clock()), config)?;
//! executor.run(async move {
//!     let (span, spans) = (SpanId::NONE, Spans::default());
//!     let id = tables.create(span, &spans, "orders", b"schema").await?;
//!     let group = NewGroup { rows: 3, meta: b"bounds".to_vec(), data: b"columns".to_vec() };
//!     assert_eq!(tables.append(span, &spans, id, vec![group]).await, Ok(3));
//!
//!     let table = tables.find("orders").expect("it was created");
//!     let mut bytes = Vec::new();
//!     tables.read(span, &spans, &table.groups[0], 3, 4, &mut bytes).await?;
//!     assert_eq!(bytes, b"umns");
//!     Ok::<(), TablesError>(())
//! })??;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What it does not do: it decodes no values, knows no query and no command, and does not merge row groups: a table of many short row
//! groups is slower to read than one of few long ones.

pub mod catalog;
pub mod config;
mod core;
mod range;
mod space;
pub mod store;
mod writer;

pub use catalog::{Group, NewGroup, Table, TableId};
pub use config::{Defect, TablesConfig, TablesConfigError, TablesError, TablesUsage, UnitExtent};
pub use store::Tables;
