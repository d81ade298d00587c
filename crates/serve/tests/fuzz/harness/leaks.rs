//! What must be after an input as it was before: descriptors and memory.

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;

/// To be made the program's allocator, if memory is to be looked at.
pub static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What the process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Open descriptors.
    pub descriptors: usize,
    /// Allocations that were not given back.
    pub allocations: isize,
    /// Their bytes.
    pub bytes: isize,
}

impl Held {
    /// At present. Nothing is known of memory where [`ALLOCATOR`] is not the allocator.
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

/// Runs a target, and asserts that it leaves nothing behind. What an input allocates for good only once (a table of
/// the process, say) is no leak: so one that seems to leak gets further chances.
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
