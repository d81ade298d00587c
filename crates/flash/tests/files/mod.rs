//! Contents in files: the same as in memory, recovered at every open, and consistent after any power cut.

mod cuts;
mod fixture;
mod opening;
mod same;
