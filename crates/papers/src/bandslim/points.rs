//! The points of BandSlim: the Cosmos+ board, and its outlook with PCIe Gen5 and CXL.mem; as payload sinks
//! for bytes and latencies by size (as for ByteExpress, with the same board), and as key-value drives for
//! everything else.

use crate::board::{Board, COSMOS, Departure, GEN5};
use crate::point::{Job, Pairs, Spec};

/// Name of the job with stores.
pub(super) const PUTS: &str = "puts";

/// Sizes of values that fit into one BandSlim command.
pub(super) const SHORT: [u64; 4] = [4, 8, 16, 32];

/// Sizes of the sweep of W(A), including those at which the number of commands changes.
pub(super) const SWEEP: [u64; 13] = [4, 8, 16, 32, 35, 36, 64, 128, 256, 512, 1024, 2048, 4096];

/// Workloads of mixed sizes: names in scenarios, and in the paper.
pub(super) const MIXES: [(&str, &str); 4] =
    [("w-b", "W(B)"), ("w-c", "W(C)"), ("w-d", "W(D)"), ("w-m", "W(M)")];

/// Packing policies.
pub(super) const POLICIES: [&str; 4] = ["none", "all", "selective", "backfill"];

/// Transfer method of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueMethod {
    /// PRPs: the baseline.
    Prp,
    /// Piggybacked in the fields of commands.
    Piggyback,
    /// Stores over CXL.mem.
    Cxl,
    /// Piggybacked below the paper's threshold for the board, 128 B.
    Papers,
    /// Piggybacked below the measured threshold, where it is faster.
    AdaptiveP,
    /// Piggybacked below the paper's threshold for Gen5, 64 B: its Adaptive-P.
    AdaptiveP64,
    /// CXL.mem below the paper's threshold for Gen5, 64 B: its Adaptive-C.
    AdaptiveC,
}

impl ValueMethod {
    /// Name in figures.
    pub(super) const fn name(self) -> &'static str {
        match self {
            ValueMethod::Prp => "prp",
            ValueMethod::Piggyback => "piggyback",
            ValueMethod::Cxl => "cxl-mem",
            ValueMethod::Papers => "adaptive, 128 B",
            ValueMethod::AdaptiveP => "adaptive, exact",
            ValueMethod::AdaptiveP64 => "adaptive-p",
            ValueMethod::AdaptiveC => "adaptive-c",
        }
    }

    fn of(self, spec: Spec) -> Spec {
        match self {
            ValueMethod::Prp | ValueMethod::Piggyback | ValueMethod::Cxl => spec.by(self.name()),
            ValueMethod::Papers => spec.adaptive("piggyback", Some(THRESHOLD)),
            ValueMethod::AdaptiveP => spec.adaptive("piggyback", None),
            ValueMethod::AdaptiveP64 => spec.adaptive("piggyback", Some(THRESHOLD_GEN5)),
            ValueMethod::AdaptiveC => spec.adaptive("cxl-mem", Some(THRESHOLD_GEN5)),
        }
    }
}

/// The paper's threshold on the board: shorter values are piggybacked.
pub(super) const THRESHOLD: u64 = 128;

/// The paper's threshold on Gen5 for both adaptive methods.
pub(super) const THRESHOLD_GEN5: u64 = 64;

/// Payloads of one size to a board's sink.
pub(super) fn sink(board: &Board, method: ValueMethod, bytes: u64) -> Spec {
    method.of(board.sink()).job(Job::new("payloads", bytes))
}

/// Payloads of one size to the board's sink.
pub(super) fn board(method: ValueMethod, bytes: u64) -> Spec {
    sink(&COSMOS, method, bytes)
}

/// Payloads of one size to the sink on Gen5.
pub(super) fn outlook(method: ValueMethod, bytes: u64) -> Spec {
    sink(&GEN5, method, bytes)
}

/// On a drive like that of Gen5 that differs from the board only in its wire: the paper divides the whole
/// time of a page by the ratio of transfer rates, and says itself that this may overestimate.
pub(super) fn wire_alone(method: ValueMethod, bytes: u64) -> Spec {
    outlook(method, bytes).departs(Departure::of_paper(
        "drive.profile",
        "\"cosmos-plus-gen5x8\"",
        "CXL.mem-Based Value Transfer",
        "actual performance gains may be smaller due to system overheads",
    ))
}

/// W(A): values of one size, stored in key order.
pub(super) fn fixed(board: &Board, method: ValueMethod, bytes: u64) -> Spec {
    // The traffic of a PUT does not depend on the number of earlier PUTs.
    let puts = Pairs::new(PUTS, "w-a").key("value", format!("{bytes} B")).spared(10);
    method.of(board.kv()).pairs(puts)
}

/// W(A) by PRP, with `pairs` key-value pairs batched by the host in one command; 1: no batching.
pub(super) fn gathered(bytes: u64, pairs: u64) -> Spec {
    let puts = Pairs::new(PUTS, "w-a").key("value", format!("{bytes} B")).spared(10);
    let puts = if pairs > 1 { puts.raw("bulk_pairs", pairs) } else { puts };
    ValueMethod::Prp.of(COSMOS.kv()).pairs(puts)
}

/// A workload of mixed sizes.
pub(super) fn mixed(board: &Board, method: ValueMethod, workload: &str) -> Spec {
    method.of(board.kv()).pairs(Pairs::new(PUTS, workload))
}

/// A workload of mixed sizes with a packing policy.
pub(super) fn mixed_as(method: ValueMethod, workload: &str, packing: &str) -> Spec {
    packed(mixed(&COSMOS, method, workload), packing)
}

/// W(A) with a packing policy.
pub(super) fn fixed_as(method: ValueMethod, bytes: u64, packing: &str) -> Spec {
    let puts = Pairs::new(PUTS, "w-a").key("value", format!("{bytes} B"));
    packed(method.of(COSMOS.kv()).pairs(puts), packing)
}

/// With another packing policy than the board's, as the paper compares them.
fn packed(spec: Spec, packing: &str) -> Spec {
    const PLACE: &str = "In-Device Value Packing Mechanism";
    const KEY: &str = "drive.override.kv.packing";
    spec.departs(match packing {
        "none" => Departure::of_paper(KEY, "\"none\"", PLACE, "NAND page write amplification problem"),
        "all" => {
            Departure::of_paper(KEY, "\"all\"", PLACE, "copying large values during the packing process")
        }
        "selective" => {
            Departure::of_paper(KEY, "\"selective\"", PLACE, "selectively packing only small values")
        }
        _ => Departure::of_paper(KEY, "\"backfill\"", PLACE, "selective packing with backfilling policy"),
    })
}

/// Names of the jobs that read back.
pub(super) const READS: [&str; 2] = ["reads", "scans"];

/// Key-value pairs in a scan.
pub(super) const SCAN: u64 = 100;

/// Minimum number of key-value pairs; fewer would still be in the drive's buffers when they are read.
const PAIRS_READ: u64 = 20_000;

/// MixGraph's values in random order, then reads of single key-value pairs and scans.
pub(super) fn read_back(packing: &str) -> Spec {
    let job =
        |name: &str, workload: &str| Pairs::new(name, workload).raw("key_bytes", 4).at_least(PAIRS_READ);
    let fill = job(PUTS, "filluniquerandom").key("value", "mixgraph").spared(10);
    let reads = job(READS[0], "readrandom").spared(10).one_for(4).later();
    let scans = job(READS[1], "scanrandom").spared(10).raw("scan_length", SCAN).one_for(4 * SCAN).later();
    packed(ValueMethod::Papers.of(COSMOS.kv()), packing).pairs(fill).pairs(reads).pairs(scans)
}
