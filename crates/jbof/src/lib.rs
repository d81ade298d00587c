//! A box of drives on one coherent fabric, which lend each other processors and DRAM ("Espresso").
//!
//! Section numbers are that paper's.
//!
//! | file | what |
//! |---|---|
//! | [`fabric`] | the CXL fabric: ports, switches, flits |
//! | [`descriptor`] | idle-resource descriptors and the table of them that each drive shows (4.3) |
//! | [`policy`] | when a processor is lent or borrowed, from whom, and how many commands are redirected (4.4) |
//! | [`demand`] | how much DRAM helps, by the curve of miss ratios (4.5) |
//! | [`cost`] | what drives cost to buy and to run (2.2, 5.2, Table 2) |
//!
//! What it does not do: it knows no drive and no command. Who measures a drive and executes these decisions stands above it.

pub mod cost;
pub mod demand;
pub mod descriptor;
pub mod fabric;
pub mod policy;

/// Which of the drives in a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriveId(pub u8);
