#![no_main]

use byteway_fuzz::harness::{capsules, leaks};
use stats_alloc::StatsAlloc;
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = leaks::ALLOCATOR;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| leaks::run(capsules::run, bytes));
