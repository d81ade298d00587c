//! Arrays over drives in memory, in virtual time.

mod bridge;
mod crash;
mod degraded;
mod double_failure;
mod drives;
mod levels;
mod model;
mod ram;
