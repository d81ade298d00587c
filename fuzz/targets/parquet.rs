#![no_main]

use byteway_fuzz::tables;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tables::run("parquet", bytes));
