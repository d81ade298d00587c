//! The points of ByteExpress: the Cosmos+ board with its payload sink (the paper's "NAND off"), one payload at a time.

use crate::reproduce::board::{COSMOS, Departure};
use crate::reproduce::point::{Job, Spec};

/// The sizes of the paper's table of bytes.
pub const TABLE: [u64; 6] = [32, 64, 128, 256, 1024, 4096];

/// The sizes of the sweep of Fig. 5, with those between which BandSlim's commands and inline's chunks become more.
pub(super) const SWEEP: [u64; 12] = [16, 32, 35, 36, 64, 65, 128, 256, 512, 1024, 2048, 4096];

/// The sizes of a finer sweep in which PRP overtakes inline: whole chunks, and a byte beyond the last.
pub(super) const CHUNKS: [u64; 10] = [64, 128, 192, 256, 257, 320, 384, 448, 512, 1024];

/// Sizes from 1 to 16 KiB.
pub(super) fn kibibytes() -> impl Iterator<Item = u64> {
    (1..=16).map(|kib| kib * 1024)
}

/// The sizes at which the byte interface is looked at.
pub(super) const LARGE: [u64; 6] = [64, 256, 1024, 2048, 4096, 8192];

/// The methods that the paper compares.
pub(super) const METHODS: [&str; 3] = ["prp", "piggyback", "inline"];

/// The board, its links replaced: the profile in TOML, and what it is called.
pub(super) const LINKS: [(&str, &str); 5] = [
    ("\"cosmos-plus\"", "Gen2 x8"),
    ("\"cosmos-plus-gen3x4\"", "Gen3 x4"),
    ("\"cosmos-plus-gen4x4\"", "Gen4 x4"),
    ("\"cosmos-plus-gen5x8\"", "Gen5 x8"),
    ("\"cosmos-plus-gen6x8\"", "Gen6 x8"),
];

/// DMA of whole pages, as the board has it, in TOML.
pub(super) const WHOLE_PAGES: &str = "\"4 KiB\"";

/// DMA of exactly the bytes, in TOML.
pub(super) const EXACT: &str = "\"1 B\"";

/// DMA granularities in TOML, and what they are called.
pub(super) const UNITS: [(&str, &str); 3] =
    [(WHOLE_PAGES, "whole pages"), ("\"512 B\"", "units of 512 B"), (EXACT, "exactly the bytes")];

/// Payloads of one size by a method on the board.
pub fn board(method: &str, bytes: u64) -> Spec {
    COSMOS.sink().by(method).job(Job::new("payloads", bytes))
}

/// The section in which the paper looks beyond its board.
const DISCUSSION: &str = "5";

/// The same on another link, of which the TOML text is the drive's profile.
pub(super) fn on_link(profile: &'static str, method: &str, bytes: u64) -> Spec {
    board(method, bytes).departs(Departure::of_paper(
        "drive.profile",
        profile,
        DISCUSSION,
        "higher-bandwidth PCIe generations",
    ))
}

/// With completions polled for: for a table of ours, no claim.
pub fn polled(spec: Spec) -> Spec {
    let why = "bytes of a host that polls, beside those of one that is interrupted";
    spec.departs(Departure::ours("host.override.completion", "\"polled\"", why))
}

/// With another DMA granularity, in TOML; the board's own is left as it is, so that it stays the same point.
pub(super) fn unit(spec: Spec, unit: &'static str) -> Spec {
    let key = "drive.override.controller.dma_unit";
    match unit {
        WHOLE_PAGES => spec,
        _ => spec.departs(Departure::of_paper(key, unit, DISCUSSION, "finer-grained transfer units")),
    }
}

/// A controller with SGLs, which the board does not have.
const SGL: Departure =
    Departure::of_paper("drive.override.controller.sgl", "true", DISCUSSION, "SGL enables fine-grained DMA");

/// The Linux driver's default.
const SGL_MIN: Departure = Departure::of_paper(
    "host.override.sgl_min",
    "\"32 KiB\"",
    DISCUSSION,
    "a default threshold of 32 KB for enabling SGL",
);

/// By SGL, which the board does not have: with a controller that has it and fetches exactly what it describes.
pub(super) fn by_sgl(bytes: u64) -> Spec {
    unit(board("sgl", bytes), EXACT).departs(SGL)
}

/// As the Linux driver would have it on such a controller.
pub(super) fn by_linux(bytes: u64) -> Spec {
    board("sgl", bytes).departs(SGL).departs(SGL_MIN)
}

/// Name of the jobs that are looked at beside trains.
pub(super) const OTHERS: &str = "others";

/// Name of the job of trains.
pub(super) const TRAINS: &str = "trains";

/// Four queues with payloads of 64 B by a method; with `trains`, beside a fifth with payloads of 4 KiB by the same.
pub(super) fn beside(method: &str, trains: bool) -> Spec {
    const EACH_NS: u64 = 5_000;
    let spec = COSMOS.sink().by(method).job(Job::new(OTHERS, 64).workers(4).timed(EACH_NS));
    match trains {
        true => spec.job(Job::new(TRAINS, 4096).depth(2).timed(EACH_NS)),
        false => spec,
    }
}
