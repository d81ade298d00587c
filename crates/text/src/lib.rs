//! Input and output conventions of the program: quantities, errors, tables, progress.
//!
//! | file | what |
//! |---|---|
//! | [`units`] | quantities with units: "4 KiB", "3.2 us" |
//! | [`error`] | invalid input: place, mistake, remedy |
//! | [`mod@file`] | small text files |
//! | [`table`] | tables for the terminal: 80 columns, one unit a column |
//! | [`html`] | what pages have in common: style, chart library, tables |
//! | [`number`] | ratios that are equal on every machine |
//! | [`progress`] | progress of long work |
//! | [`interrupt`] | the request to stop, which long work polls |
//!
//! Quantities are parsed exactly, and a mistake is answered with what would be right:
//!
//! ```
//! use byteway_text::error::suggest;
//! use byteway_text::units::{Bytes, Picos};
//!
//! assert_eq!("3.2 us".parse(), Ok(Picos(3_200_000)));
//! assert_eq!("4 KiB".parse(), Ok(Bytes(4096)));
//! assert_eq!(Picos(3_200_000).to_string(), "3.2 us");
//!
//! let error = "3.2".parse::<Picos>().unwrap_err();
//! assert!(error.help.contains("us"), "{error}");
//! assert!(suggest("iodeph", &["bs", "iodepth"]).contains("`iodepth`"));
//! ```
//!
//! What it does not do: it reads no file format, composes no page, handles no signal, and draws no progress bar.

pub mod error;
pub mod file;
pub mod html;
pub mod interrupt;
pub mod number;
pub mod progress;
pub mod table;
pub mod units;
