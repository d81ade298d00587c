//! The points of BandSlim: the Cosmos+ board and what it would be on PCIe Gen5 with memory over CXL.mem, as payload sinks for
//! bytes and latencies by size (as for ByteExpress, whose board is the same), and as key-value drives for everything else.

use crate::reproduce::board::{Board, COSMOS, Departure, GEN5};
use crate::reproduce::point::{Job, Pairs, Spec};

/// Name of the job that stores.
pub(super) const PUTS: &str = "puts";

/// Values of one size up to which BandSlim's command takes them alone.
pub(super) const SHORT: [u64; 4] = [4, 8, 16, 32];

/// The sizes of the sweep of W(A), with those between which commands become more.
pub(super) const SWEEP: [u64; 13] = [4, 8, 16, 32, 35, 36, 64, 128, 256, 512, 1024, 2048, 4096];

/// The workloads of mixed sizes: as scenarios name them, and as the paper does.
pub(super) const MIXES: [(&str, &str); 4] =
    [("w-b", "W(B)"), ("w-c", "W(C)"), ("w-d", "W(D)"), ("w-m", "W(M)")];

/// Packing policies.
pub(super) const POLICIES: [&str; 4] = ["none", "all", "selective", "backfill"];

/// How values cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By PRP: the baseline.
    Prp,
    /// In the fields of commands.
    Piggyback,
    /// By stores over CXL.mem.
    Cxl,
    /// Piggybacked below the paper's threshold for the board, 128 B.
    Papers,
    /// Piggybacked as far as it is faster: below the threshold that was measured.
    AdaptiveP,
    /// Piggybacked below the paper's threshold for Gen5, 64 B: its Adaptive-P.
    AdaptiveP64,
    /// By CXL.mem below the paper's threshold for Gen5, 64 B: its Adaptive-C.
    AdaptiveC,
}

impl Way {
    /// What it is called.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Way::Prp => "prp",
            Way::Piggyback => "piggyback",
            Way::Cxl => "cxl-mem",
            Way::Papers => "adaptive, 128 B",
            Way::AdaptiveP => "adaptive, exact",
            Way::AdaptiveP64 => "adaptive-p",
            Way::AdaptiveC => "adaptive-c",
        }
    }

    fn of(self, spec: Spec) -> Spec {
        match self {
            Way::Prp | Way::Piggyback | Way::Cxl => spec.by(self.name()),
            Way::Papers => spec.adaptive("piggyback", Some(THRESHOLD)),
            Way::AdaptiveP => spec.adaptive("piggyback", None),
            Way::AdaptiveP64 => spec.adaptive("piggyback", Some(THRESHOLD_GEN5)),
            Way::AdaptiveC => spec.adaptive("cxl-mem", Some(THRESHOLD_GEN5)),
        }
    }
}

/// The paper's threshold on the board: shorter values are piggybacked.
pub(super) const THRESHOLD: u64 = 128;

/// The paper's threshold on Gen5, for both adaptive ways: shorter values go fine-grained.
pub(super) const THRESHOLD_GEN5: u64 = 64;

/// Payloads of one size to a board's sink.
pub(super) fn sink(board: &Board, way: Way, bytes: u64) -> Spec {
    way.of(board.sink()).job(Job::new("payloads", bytes))
}

/// Payloads of one size to the board's sink.
pub(super) fn board(way: Way, bytes: u64) -> Spec {
    sink(&COSMOS, way, bytes)
}

/// The same on Gen5.
pub(super) fn outlook(way: Way, bytes: u64) -> Spec {
    sink(&GEN5, way, bytes)
}

/// On a drive like that of Gen5, of which only the wire is faster than the board's: the paper divides the whole time of a
/// page by the ratio of transfer rates, and says itself that this may be too much.
pub(super) fn wire_alone(way: Way, bytes: u64) -> Spec {
    outlook(way, bytes).departs(Departure::of_paper(
        "drive.profile",
        "\"cosmos-plus-gen5x8\"",
        "CXL.mem-Based Value Transfer",
        "actual performance gains may be smaller due to system overheads",
    ))
}

/// W(A): values of one size, stored in the order of their keys.
pub(super) fn fixed(board: &Board, way: Way, bytes: u64) -> Spec {
    // What crosses the link of a PUT doesn't change with the number of PUTs before it.
    let puts = Pairs::new(PUTS, "w-a").key("value", format!("{bytes} B")).spared(10);
    way.of(board.kv()).pairs(puts)
}

/// W(A) by PRP, with so many pairs gathered by the host into one command; 1: each for itself.
pub(super) fn gathered(bytes: u64, pairs: u64) -> Spec {
    let puts = Pairs::new(PUTS, "w-a").key("value", format!("{bytes} B")).spared(10);
    let puts = if pairs > 1 { puts.raw("bulk_pairs", pairs) } else { puts };
    Way::Prp.of(COSMOS.kv()).pairs(puts)
}

/// A workload of mixed sizes.
pub(super) fn mixed(board: &Board, way: Way, workload: &str) -> Spec {
    way.of(board.kv()).pairs(Pairs::new(PUTS, workload))
}

/// A workload of mixed sizes with a packing policy.
pub(super) fn mixed_as(way: Way, workload: &str, packing: &str) -> Spec {
    packed(mixed(&COSMOS, way, workload), packing)
}

/// W(A) with a packing policy.
pub(super) fn fixed_as(way: Way, bytes: u64, packing: &str) -> Spec {
    let puts = Pairs::new(PUTS, "w-a").key("value", format!("{bytes} B"));
    packed(way.of(COSMOS.kv()).pairs(puts), packing)
}

/// With another packing policy than the board's, which the paper compares.
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

/// Pairs that a scan goes over.
pub(super) const SCAN: u64 = 100;

/// Fewer pairs than these would still be in the drive's buffers when they are read.
const PAIRS_READ: u64 = 20_000;

/// MixGraph's values in random order, then reads of single pairs and scans.
pub(super) fn read_back(packing: &str) -> Spec {
    let job =
        |name: &str, workload: &str| Pairs::new(name, workload).raw("key_bytes", 4).at_least(PAIRS_READ);
    let fill = job(PUTS, "filluniquerandom").key("value", "mixgraph").spared(10);
    let reads = job(READS[0], "readrandom").spared(10).one_for(4).later();
    let scans = job(READS[1], "scanrandom").spared(10).raw("scan_length", SCAN).one_for(4 * SCAN).later();
    packed(Way::Papers.of(COSMOS.kv()), packing).pairs(fill).pairs(reads).pairs(scans)
}
