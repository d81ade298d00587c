//! The firmware over the flash model: one test binary, since each further one takes as long to link.

mod audit;
mod borrowed;
mod cached_map;
mod crash;
mod damage;
mod extents;
mod far;
mod files;
mod lent_memory;
mod map_fixture;
mod parts;
mod read_your_writes;
mod streams;
mod upkeep;
mod wide;
mod write_amplification;
mod write_path;
