//! The points of BandSlim: the Cosmos+ board and what it would be on PCIe Gen5 with memory over CXL.mem, as payload sinks for
//! latencies by size (as for ByteExpress, whose constants are the same), and as drives of keys and values for everything else.
//!
//! The transfer of whole workloads is measured with packing `all`: the time of a PUT beside its transfer, to which the
//! profile's constants were fitted, grows with every byte of every value. That is a copy of each value to the write pointer,
//! by whatever way it came. The paper's other policies spare copies; they are measured where it compares them.

use crate::reproduce::byteexpress;
use crate::reproduce::point::{Job, Pairs, Spec};

/// The board.
pub(super) const BOARD: &str = "cosmos-plus";

/// What it would be on PCIe Gen5 x8, with CXL.mem.
pub(super) const GEN5: &str = "bandslim-gen5x8";

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
    /// Piggybacked up to the paper's threshold for the board, 128 B.
    Papers,
    /// Piggybacked as far as it is faster: to the threshold that was measured. On Gen5 the paper's Adaptive-P.
    AdaptiveP,
    /// Piggybacked up to the paper's threshold for Gen5, 64 B.
    AdaptiveP64,
    /// By CXL.mem up to the paper's threshold for Gen5, 64 B: its Adaptive-C.
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
            Way::AdaptiveP => "adaptive-p",
            Way::AdaptiveP64 => "adaptive-p, 64 B",
            Way::AdaptiveC => "adaptive-c",
        }
    }

    fn of(self, spec: Spec) -> Spec {
        let adaptive =
            |fine: &str| spec.clone().key("transfer.method", "adaptive").key("transfer.fine", fine);
        match self {
            Way::Prp | Way::Piggyback | Way::Cxl => spec.key("transfer.method", self.name()),
            Way::Papers => adaptive("piggyback").key("transfer.threshold", "128 B"),
            Way::AdaptiveP => adaptive("piggyback"),
            Way::AdaptiveP64 => adaptive("piggyback").key("transfer.threshold", "64 B"),
            Way::AdaptiveC => adaptive("cxl-mem").key("transfer.threshold", "64 B"),
        }
    }
}

/// Payloads of one size to the board's sink.
pub(super) fn board(way: Way, bytes: u64) -> Spec {
    byteexpress::board(way.name(), bytes)
}

/// The same on Gen5.
pub(super) fn outlook(way: Way, bytes: u64) -> Spec {
    let sink = Spec::new(GEN5, "cosmos").key("drive.personality", "sink");
    way.of(sink).job(Job::new("payloads", bytes))
}

/// A drive of keys and values.
fn drive(profile: &str, way: Way) -> Spec {
    let drive = Spec::new(profile, "cosmos").key("drive.personality", "kv").key("drive.capacity", "16 GiB");
    way.of(drive)
}

fn packed(spec: Spec, packing: &str) -> Spec {
    spec.key("drive.override.kv.packing", packing)
}

/// W(A): values of one size, stored in the order of their keys.
pub(super) fn fixed(profile: &str, way: Way, bytes: u64) -> Spec {
    let puts = Pairs::new(PUTS, "w-a").key("value", format!("{bytes} B"));
    packed(drive(profile, way), "all").pairs(puts)
}

/// W(A) by PRP, with so many pairs gathered by the host into one command; 1: each for itself.
pub(super) fn gathered(bytes: u64, pairs: u64) -> Spec {
    let puts = Pairs::new(PUTS, "w-a").key("value", format!("{bytes} B"));
    let puts = if pairs > 1 { puts.raw("bulk_pairs", pairs) } else { puts };
    packed(drive(BOARD, Way::Prp), "all").pairs(puts)
}

/// A workload of mixed sizes, each value copied to the write pointer.
pub(super) fn mixed(profile: &str, way: Way, workload: &str) -> Spec {
    mixed_as(profile, way, workload, "all")
}

/// A workload of mixed sizes with a packing policy.
pub(super) fn mixed_as(profile: &str, way: Way, workload: &str, packing: &str) -> Spec {
    packed(drive(profile, way), packing).pairs(Pairs::new(PUTS, workload))
}

/// W(A) with a packing policy.
pub(super) fn fixed_as(way: Way, bytes: u64, packing: &str) -> Spec {
    let puts = Pairs::new(PUTS, "w-a").key("value", format!("{bytes} B"));
    packed(drive(BOARD, way), packing).pairs(puts)
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
    let fill = job(PUTS, "filluniquerandom").key("value", "mixgraph");
    let reads = job(READS[0], "readrandom").one_for(4).later();
    let scans = job(READS[1], "scanrandom").raw("scan_length", SCAN).one_for(4 * SCAN).later();
    packed(drive(BOARD, Way::Papers), packing).pairs(fill).pairs(reads).pairs(scans)
}
