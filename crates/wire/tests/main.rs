//! Structures and lists, by what a peer reads of them.

mod fabrics;
mod lists;
mod round_trip;
