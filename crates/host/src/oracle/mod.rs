//! What drives must have, as their host remembers it.
//!
//! | file | what |
//! |---|---|
//! | `block.rs` | expected contents of each logical block |
//! | `sink.rs` | expected contents of a payload sink |
//!
//! That of key-value pairs is in `client/kv`: it speaks of keys and answers as its client does.

pub(crate) mod block;
pub(crate) mod sink;
