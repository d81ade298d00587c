//! Drives that lend each other what they have, as hosts see them.

mod redirect;
