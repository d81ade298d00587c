//! A box of drives on one coherent fabric that lend each other processors and DRAM ("Espresso"): the decisions.
//!
//! Section numbers refer to that paper.
//!
//! | file | what |
//! |---|---|
//! | [`fabric`] | the CXL fabric: ports, switches, flits |
//! | [`descriptor`] | idle-resource descriptors, and each drive's table of them (4.3) |
//! | [`policy`] | when and to whom a processor is lent, and how many commands are redirected (4.4) |
//! | [`demand`] | the demand for DRAM, from the miss ratio curve (4.5) |
//! | [`cost`] | purchase and running costs of drives (2.2, 5.2, Table 2) |
//!
//! What it does not do: it knows no drive and no command. `assembly` measures drives and carries these decisions out.

pub mod cost;
pub mod demand;
pub mod descriptor;
pub mod fabric;
pub mod policy;

/// Number of a drive in its box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriveId(pub u8);
