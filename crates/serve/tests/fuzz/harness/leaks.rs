//! Resources that must be unchanged after an input: descriptors and memory.

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;

/// The allocator to install for counting memory.
pub static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Resources of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Open descriptors.
    pub descriptors: usize,
    /// Outstanding allocations.
    pub allocations: isize,
    /// Their bytes.
    pub bytes: isize,
}

impl Held {
    /// The present resources. Memory is counted only if [`ALLOCATOR`] is installed.
    pub fn now() -> Self {
        let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let stats = ALLOCATOR.stats();
        Held {
            descriptors,
            allocations: stats.allocations as isize - stats.deallocations as isize,
            bytes: stats.bytes_allocated as isize - stats.bytes_deallocated as isize,
        }
    }
}

/// Runs a target, and asserts that it leaks nothing. A one-time allocation (a table of the process, for
/// example) is no leak: so an input that seems to leak is run again.
pub fn run(target: fn(&[u8]), bytes: &[u8]) {
    let mut before = Held::now();
    for _ in 0..3 {
        target(bytes);
        let after = Held::now();
        if after == before {
            return;
        }
        before = after;
    }
    target(bytes);
    assert_eq!(before, Held::now(), "an input leaves something behind, each time");
}
