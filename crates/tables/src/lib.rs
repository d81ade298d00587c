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
//! | [`store`] | the interface of the store |
//! | `writer` | recovery, and changes, one at a time |
//!
//! What it does not do: it decodes no values, knows no query and no command, and does not merge row groups: a table of many short row
//! groups is slower to read than one of few long ones.

pub mod catalog;
pub mod config;
mod range;
mod space;
pub mod store;
mod writer;

pub use catalog::{Group, NewGroup, Table, TableId};
pub use config::{TablesCanary, TablesConfig, TablesConfigError, TablesError, TablesUsage, UnitExtent};
pub use store::Tables;
