//! The decisions of a JBOF's drives, which know no drive and no command.
//!
//! | file | contents |
//! |---|---|
//! | [`descriptor`] | idle-resource descriptors, and each drive's table of them (4.3) |
//! | [`policy`] | when and to whom a processor is lent, and how many commands are redirected (4.4) |
//! | [`demand`] | the demand for DRAM, from the miss ratio curve (4.5) |
//!
//! A drive with a busy processor and idle flash borrows from the peer that offers just enough:
//!
//! ```
//! use byteway_jbof::decision::policy::{Action, WATERMARK, action, best_fit};
//!
//! assert_eq!(action(0.9, 0.3, WATERMARK), Action::Borrow);
//! assert_eq!(action(0.2, 0.3, WATERMARK), Action::Lend);
//! // More processor time would not help: the flash is busy too.
//! assert_eq!(action(0.9, 0.8, WATERMARK), Action::Nothing);
//!
//! let offers = [80, 30, 50];
//! assert_eq!(best_fit(offers, 40), Some(2));
//! assert_eq!(best_fit(offers, 100), Some(0), "the largest, if none is large enough");
//! ```

pub mod demand;
pub mod descriptor;
pub mod policy;

/// Number of a drive in its JBOF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriveId(pub u8);
