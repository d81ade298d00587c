//! Drives that lend each other resources, as hosts see them.

mod redirect;
