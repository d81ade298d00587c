//! Structures and lists, by what a peer reads of them.

mod lists;
mod round_trip;
