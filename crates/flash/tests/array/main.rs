//! The array against tables written by hand, and against a model.

mod fixture;
mod immediate;
mod physics;
mod rules;
mod saturation;
mod tickets;
