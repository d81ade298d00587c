//! The points of the paper, in a JBOF of twelve drives: six with a tenant, six idle, unless the paper says
//! otherwise.
//!
//! Drives are simulated at 1/512 of their 4 TB, with a proportional map, so that caches are warm within a
//! tenth of a second. DRAM segments are 1/64 of their 2 MB. Spare flash is not scaled: the writes of a burst
//! do not fill it, nor would they fill the paper's drive. That scaling changes no ratio is shown on a point
//! with drives eight times as large ([`latency_of_large`]).

use super::workloads::Production;
use crate::board::{Departure, ESPRESSO};
use crate::point::Spec;
use crate::tenants::Tenants;
use byteway_scenario::Platform;
use std::ops::Range;

/// Drives with a tenant; the others are idle.
pub(super) const BORROWERS: Range<u16> = 0..6;
pub(super) const LENDERS: Range<u16> = 6..12;

/// I/O sizes of Figure 10, in KiB.
pub(super) const SIZES: [u64; 3] = [64, 128, 256];
/// Queue depth of Figure 10.
pub(super) const DEEP: u32 = 64;
/// Outstanding I/Os of a tenant with a production workload. The paper does not say; with this depth Conv
/// reaches the 6 GB/s in Ali-0 that follow from ES47: one core moves 2.7 GB/s, which is 54.6 % less.
pub(super) const DEPTH: u32 = 16;

const MS: u64 = 1_000_000;
/// Ramp until drives have borrowed processors: a few periods of 10 ms. Without borrowing, caches are warm
/// earlier.
const BORROWING_NS: u64 = 60 * MS;
/// Ramp until drives have borrowed DRAM.
const BORROWING_DRAM_NS: u64 = 240 * MS;
const WARMING_NS: u64 = 40 * MS;
/// Ramp until single I/Os have accessed every page of the map several times.
const SLOW_NS: u64 = 600 * MS;
/// Ramp until, in addition, a drive's monitor has enough samples to estimate the benefit of DRAM.
const SLOW_BORROWING_NS: u64 = 3000 * MS;

fn slow(platform: Platform) -> u64 {
    if platform.lends_dram() { SLOW_BORROWING_NS } else { SLOW_NS }
}

/// The four patterns of Figure 10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    SequentialRead,
    RandomRead,
    SequentialWrite,
    RandomWrite,
}

impl Pattern {
    pub(super) const ALL: [Pattern; 4] =
        [Pattern::SequentialRead, Pattern::RandomRead, Pattern::SequentialWrite, Pattern::RandomWrite];
    pub(super) const WRITES: [Pattern; 2] = [Pattern::SequentialWrite, Pattern::RandomWrite];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Pattern::SequentialRead => "sequential reads",
            Pattern::RandomRead => "random reads",
            Pattern::SequentialWrite => "sequential writes",
            Pattern::RandomWrite => "random writes",
        }
    }

    pub(super) const fn rw(self) -> &'static str {
        match self {
            Pattern::SequentialRead => "read",
            Pattern::RandomRead => "randread",
            Pattern::SequentialWrite => "write",
            Pattern::RandomWrite => "randwrite",
        }
    }
}

pub(super) fn on(platform: Platform) -> Spec {
    ESPRESSO.block().on_platform(platform)
}

/// Ramp of a tenant.
fn warm(platform: Platform) -> u64 {
    match platform {
        Platform::Espresso => BORROWING_DRAM_NS,
        Platform::Proch | Platform::Vh | Platform::VhIdeal => BORROWING_NS,
        Platform::Conv | Platform::Oc | Platform::Shrunk => WARMING_NS,
    }
}

/// A burst, and the time after it in which a hypervisor copies back; a negligible load then keeps the run
/// going.
fn burst_and_rest(spec: Spec, burst: Tenants) -> Spec {
    let rest = Tenants::new("rest", BORROWERS, "randread", 4096, 1)
        .key("rate_iops", 1000)
        .key("stonewall", true)
        .ramp(0)
        .lasting(0, REST_NS);
    spec.tenants(burst.ramp(0).lasting(0, BURST_NS)).tenants(rest)
}

const BURST_NS: u64 = 60 * MS;
const REST_NS: u64 = 400 * MS;

/// Figure 10: large I/O of one pattern with 64 outstanding. For VH, the burst with the copying after it.
pub(super) fn large(platform: Platform, pattern: Pattern, kib: u64) -> Spec {
    let burst = Tenants::new("burst", BORROWERS, pattern.rw(), kib << 10, DEEP);
    match platform {
        Platform::Vh => burst_and_rest(on(platform), burst),
        _ => on(platform).tenants(burst.ramp(warm(platform))),
    }
}

/// Figures 11, 15 and 17: I/O of a few KiB, one at a time.
pub(super) fn latency(platform: Platform, pattern: Pattern, kib: u64) -> Spec {
    let one = Tenants::new("one", BORROWERS, pattern.rw(), kib << 10, 1);
    on(platform).tenants(one.ramp(slow(platform)).lasting(10_000, 50 * MS))
}

const LARGER: Departure =
    Departure::ours("drive.capacity", "\"64 GiB\"", "eight times as large: scaling must not change a ratio");
const LARGER_SEGMENT: Departure = Departure::ours("jbof.segment", "\"256 KiB\"", "scaled with the map");
const LARGER_SPARE: Departure =
    Departure::ours("drive.override.firmware.op", "\"12.5 %\"", "spare flash unchanged");

/// Random reads of 4 KiB, one at a time, by one drive in a JBOF of larger drives (eight times).
pub(super) fn latency_of_large(platform: Platform) -> Spec {
    let one = Tenants::new("one", 0..1, "randread", 4096, 1);
    let one = one.ramp(8 * slow(platform)).lasting(10_000, 50 * MS);
    on(platform).tenants(one).departs(LARGER).departs(LARGER_SEGMENT).departs(LARGER_SPARE)
}

/// Figure 17: random reads of 4 KiB by one drive, with all cores and this much DRAM: "we assume there is
/// enough number of idle SSDs".
pub(super) fn with_dram(platform: Platform, dram: &str) -> Spec {
    let one = Tenants::new("one", 0..1, "randread", 4096, 1).ramp(slow(platform)).lasting(10_000, 50 * MS);
    on(platform).tenants(one).with_cores(6).with_dram(dram)
}

/// Figure 12: a production workload. For VH as in Figure 10.
pub(super) fn production(platform: Platform, workload: &Production) -> Spec {
    let tenants = workload.tenants("burst", BORROWERS, DEPTH);
    match platform {
        Platform::Vh => burst_and_rest(on(platform), tenants),
        _ => on(platform).tenants(tenants.ramp(warm(platform))),
    }
}

/// Figure 16: a production workload on some of the twelve drives, with this number of cores each and DRAM for
/// the whole map.
pub(super) fn with_cores(platform: Platform, cores: u16, borrowers: u16, workload: &Production) -> Spec {
    let tenants = workload.tenants("burst", 0..borrowers, DEPTH).ramp(BORROWING_NS);
    on(platform).with_cores(cores).with_dram("1.0").tenants(tenants)
}

/// Figure 14: borrowers read as fast as they can, while lenders have their own load.
pub(super) fn beside(platform: Platform, own: Tenants) -> Spec {
    let burst = Tenants::new("burst", BORROWERS, "randread", 64 << 10, DEEP).ramp(BORROWING_DRAM_NS);
    on(platform).tenants(burst).tenants(own.ramp(BORROWING_DRAM_NS))
}

/// Figure 4(a): a number of drives with a load that keeps all of them busy.
pub(super) fn scaled(platform: Platform, drives: u16) -> Spec {
    let burst = Tenants::new("burst", 0..drives, "randread", 64 << 10, DEEP).ramp(WARMING_NS);
    on(platform).tenants(burst)
}

/// Section 3.1: all drives busy with a production workload, which a hypervisor manages.
pub(super) fn managed(platform: Platform, workload: &Production) -> Spec {
    on(platform).tenants(workload.tenants("burst", 0..12, DEEP).ramp(WARMING_NS))
}

/// Figure 18: groups of twelve tenants, each with a burst of fixed size at a random time.
pub(super) const GROUPS: u64 = 10;
const GROUP_BYTES: &str = "\"768 MiB\"";
/// Bursts begin within this time. Tencent's drives use 27.8 % of their bandwidth on average (2.2, Fig. 3(d)):
/// 768 MiB take 57.5 ms at the 14 GB/s that a drive reads, which is 27.8 % of 207 ms.
pub(super) const GROUP_MS: u64 = 207;

/// The workloads and start times of a group, from a portable random number generator.
pub(super) fn group(number: u64) -> [(usize, u64); 12] {
    let mut state = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(number + 1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    std::array::from_fn(|_| ((next() % 3) as usize, next() % GROUP_MS))
}

/// A group of twelve tenants with Tencent's workloads: `burst-N` of drive N begins after its delay.
pub(super) fn tenants(platform: Platform, number: u64, workloads: &[Production; 3]) -> Spec {
    group(number).into_iter().enumerate().fold(on(platform), |spec, (drive, (workload, delay_ms))| {
        let drive = drive as u16;
        let name = format!("burst-{drive}");
        let burst = workloads[workload].tenants(&name, drive..drive + 1, DEEP);
        let burst = burst.key("startdelay", format!("\"{delay_ms} ms\"")).key("io_size", GROUP_BYTES);
        spec.tenants(burst.ramp(0).whole())
    })
}

const TWO_DRIVES: Departure = Departure::of_paper(
    "drive.copies",
    "2",
    "5.6",
    "one socket to mimic the borrower SSD, while the other socket acts as the lender SSD",
);

/// Figure 19 is based on an emulator with two sockets; here two drives of the JBOF, one of them idle.
pub(super) fn two_drives(platform: Platform, application: &str) -> Spec {
    let burst = |rw, bytes| Tenants::new("burst", 0..1, rw, bytes, DEEP);
    let burst = match application {
        "filebench" => burst("randrw", 128 << 10).key("rwmixread", 50),
        _ => burst("randread", 16 << 10),
    };
    on(platform).departs(TWO_DRIVES).tenants(burst.ramp(BORROWING_DRAM_NS))
}
