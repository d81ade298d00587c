//! Tests of programs: instructions, verifier, bounds, and random programs.
#![allow(clippy::unwrap_used, reason = "what a test cannot do fails it")]

mod bounds;
mod elf;
mod fuzz;
mod instructions;
mod naive;
mod random;
mod rows;
mod verify;
