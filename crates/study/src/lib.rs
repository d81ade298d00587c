//! Many runs, and what they say: held side by side, held against papers, drawn.
//!
//! | file | what |
//! |---|---|
//! | [`mod@compare`] | many runs side by side |
//! | [`reproduce`] | what papers say, measured again |
//! | [`threshold`] | from which size on fine-grained transfer no longer pays |
//! | [`mod@report`] | `report.html`: of a run, of a comparison, of a reproduction |
//! | `shell` | commands that reports tell one to type |
//!
//! What it does not do: it simulates nothing itself; its runs are the crate `lab`'s.

pub mod compare;
pub mod report;
pub mod reproduce;
mod shell;
pub mod threshold;
