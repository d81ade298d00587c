//! A drive with namespaces of both kinds, and a raw host of its key value namespace.
//!
//! Verified: that what is stored comes back, by every method that a value can take; each status where it belongs, with nothing
//! changed; that commands of the one kind do nothing to namespaces of the other; iterators, and how they end; what becomes
//! of pairs by reset, format, deletion, sanitizing, shutdown and power cuts. The store itself is tested in
//! `byteway-kv`.

mod both_kinds;
mod bulk;
mod client;
mod commands;
mod commit;
mod commit_client;
mod commit_cost;
mod commit_life;
mod cuts;
mod cxl;
mod cxl_crash;
mod hostile;
mod iterators;
mod lifetime;
mod pairs;
mod payload;
