//! Policies: the decisions of a translation layer that users replace. Each is a trait with a small view of what it decides about, never
//! of the state itself, so that a policy can neither break the map nor make a run depend on anything but its scenario.
//!
//! | module | decides |
//! |---|---|
//! | [`victim`] | which superblock garbage collection empties next |
//!
//! A policy has a name in scenarios. [`Policies`] adds names to those that are built in; the program takes one from whoever calls it.

mod argument;
mod named;
pub mod victim;

pub use argument::WrongArgument;
pub use named::{MakeVictim, Policies, UnknownPolicy, is_file};
pub use victim::{Candidate, MadeVictim, Victim, VictimPolicy, VictimView};
