//! The executor and its resources: one test binary, since each further one takes as long to link.

mod drops;
mod executor;
mod queueing;
mod random_golden;
mod real;
mod resources;
mod wheel;
