//! What is decided in a drive, tested over the flash model: one binary, for each more takes as long to link.

mod audit;
mod borrowed;
mod cached_map;
mod crash;
mod extents;
mod far;
mod files;
mod lent_memory;
mod parts;
mod read_your_writes;
mod upkeep;
mod wide;
mod write_amplification;
