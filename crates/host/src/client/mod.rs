//! What is asked of a drive, a file or folder for each command set.
//!
//! | file | what |
//! |---|---|
//! | `block.rs` | block I/O, traced by spans and verified by an oracle |
//! | `split.rs` | I/Os longer than a command, split into several |
//! | `payload.rs` | payloads to and from the payload sink, by every method |
//! | `kv/` | key-value operations, and expected contents of each key |
//! | `tables.rs` | tables, and queries over them |
//! | `programs.rs` | programs that a drive runs, and its local memory |
//! | `member.rs` | a drive as a member of an array |

pub(crate) mod block;
pub(crate) mod kv;
pub(crate) mod member;
pub(crate) mod payload;
pub(crate) mod programs;
pub(crate) mod split;
pub(crate) mod tables;

pub use block::{BlockError, BlockIoError, Client, ClientConfig, Direction, Opened};
pub use kv::{
    Answer, Held, KvBatch, KvBulk, KvClear, KvClient, KvConfig, KvCursor, KvError, KvFlush, KvIoError,
    KvMismatch, KvOracle, KvOutcome, KvRead, KvWrite, LossFigures, LossWindow, StoreIf,
};
pub use member::{MemberConfig, MemberDrive};
pub use payload::{PayloadClient, PayloadConfig, PayloadError, PayloadIoError};
pub use programs::{Execution, ProgramsClient, ProgramsError};
pub use split::{SplitBuffer, SplitDone};
pub use tables::{Fetched, TablesClient, TablesConfig, TablesError, TablesIoError};
