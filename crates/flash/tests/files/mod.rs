//! Contents in files: the same as in memory, there again when they are opened, and true whatever a power cut leaves.

mod cuts;
mod fixture;
mod opening;
mod same;
