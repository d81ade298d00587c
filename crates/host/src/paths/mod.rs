//! Which queue a command takes when there are several.
//!
//! | file | what |
//! |---|---|
//! | `multipath.rs` | controllers of one subsystem as paths: selection and failover |
//! | `redirect.rs` | redirection of commands to queue pairs of other drives |
//! | `virtual_drive/` | a tenant's virtual drive, with some of its data on other drives |

pub(crate) mod multipath;
pub(crate) mod redirect;
pub(crate) mod virtual_drive;
