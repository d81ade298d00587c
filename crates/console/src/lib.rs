//! What people write and read in files and on a terminal, whatever it is about.
//!
//! | file | what |
//! |---|---|
//! | [`units`] | numbers with their units: "4 KiB", "3.2 us" |
//! | [`error`] | wrong input: place, mistake, cure |
//! | [`mod@file`] | small text files, read whole |
//! | [`table`] | tables for the terminal: 80 columns, one unit a column |
//! | [`number`] | ratios that are the same on every machine |
//! | [`progress`] | how far long work is, for whoever shows it |
//! | [`interrupt`] | the wish to stop, that long work looks at |
//!
//! What it does not do: it knows no file format, no signal, and draws no progress bar.

pub mod error;
pub mod file;
pub mod interrupt;
pub mod number;
pub mod progress;
pub mod table;
pub mod units;
