//! The executor and its resources: one binary, for each more takes as long to link.

mod drops;
mod executor;
mod random_golden;
mod real;
mod resources;
mod wheel;
