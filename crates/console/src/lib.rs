//! Input and output conventions of the program: quantities, errors, tables, progress.
//!
//! | file | what |
//! |---|---|
//! | [`units`] | quantities with units: "4 KiB", "3.2 us" |
//! | [`error`] | invalid input: place, mistake, remedy |
//! | [`mod@file`] | small text files |
//! | [`table`] | tables for the terminal: 80 columns, one unit a column |
//! | [`number`] | ratios that are equal on every machine |
//! | [`progress`] | progress of long work |
//! | [`interrupt`] | the request to stop, which long work polls |
//!
//! What it does not do: it knows no file format, handles no signal, and draws no progress bar.

pub mod error;
pub mod file;
pub mod interrupt;
pub mod number;
pub mod progress;
pub mod table;
pub mod units;
