//! The array against hand-computed tables, and against a model.

mod cache_read;
mod channel_order;
mod errors;
mod faults;
mod fixture;
mod immediate;
mod one_bit;
mod owners;
mod physics;
mod policies;
mod power;
mod quantiles;
mod rules;
mod saturation;
mod suspend;
mod tickets;
mod trace;
mod waits;
