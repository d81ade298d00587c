//! The points of ByteExpress: the Cosmos+ board with its payload sink (the paper's "NAND off"), one payload at a time.

use crate::board::{COSMOS, Departure};
use crate::point::{Job, Spec};

/// The sizes of the paper's table of bytes.
pub const TABLE: [u64; 6] = [32, 64, 128, 256, 1024, 4096];

/// Sizes of the sweep of Fig. 5, including those at which the number of BandSlim's commands or of inline
/// chunks changes.
pub(super) const SWEEP: [u64; 12] = [16, 32, 35, 36, 64, 65, 128, 256, 512, 1024, 2048, 4096];

/// Sizes of a finer sweep around the size where PRP overtakes inline: whole chunks, and one byte more.
pub(super) const CHUNKS: [u64; 10] = [64, 128, 192, 256, 257, 320, 384, 448, 512, 1024];

/// Sizes from 1 to 16 KiB.
pub(super) fn kibibytes() -> impl Iterator<Item = u64> {
    (1..=16).map(|kib| kib * 1024)
}

/// Sizes for the byte interface.
pub(super) const LARGE: [u64; 6] = [64, 256, 1024, 2048, 4096, 8192];

/// The methods that the paper compares.
pub(super) const METHODS: [&str; 3] = ["prp", "piggyback", "inline"];

/// The board with other links: the profile in TOML, and a name.
pub(super) const LINKS: [(&str, &str); 5] = [
    ("\"cosmos-plus\"", "Gen2 x8"),
    ("\"cosmos-plus-gen3x4\"", "Gen3 x4"),
    ("\"cosmos-plus-gen4x4\"", "Gen4 x4"),
    ("\"cosmos-plus-gen5x8\"", "Gen5 x8"),
    ("\"cosmos-plus-gen6x8\"", "Gen6 x8"),
];

/// DMA of whole pages, the board's granularity, in TOML.
pub(super) const WHOLE_PAGES: &str = "\"4 KiB\"";

/// DMA granularity for transfers of exact length, in TOML.
pub(super) const EXACT: &str = "\"1 B\"";

/// DMA granularities in TOML, and their names.
pub(super) const UNITS: [(&str, &str); 3] =
    [(WHOLE_PAGES, "whole pages"), ("\"512 B\"", "units of 512 B"), (EXACT, "exactly the bytes")];

/// Payloads of one size, by a method on the board.
pub fn board(method: &str, bytes: u64) -> Spec {
    COSMOS.sink().by(method).job(Job::new("payloads", bytes))
}

/// Section of the paper with its outlook.
const DISCUSSION: &str = "5";

/// The same on another link; `profile` is the drive's profile in TOML.
pub(super) fn on_link(profile: &'static str, method: &str, bytes: u64) -> Spec {
    board(method, bytes).departs(Departure::of_paper(
        "drive.profile",
        profile,
        DISCUSSION,
        "higher-bandwidth PCIe generations",
    ))
}

/// With polled completions: for a table of ours, no claim.
pub fn polled(spec: Spec) -> Spec {
    let why = "bytes of a host that polls, next to those of one that uses interrupts";
    spec.departs(Departure::ours("host.override.completion", "\"polled\"", why))
}

/// With another DMA granularity, in TOML; the board's own is not set again, so that the point stays the same.
pub(super) fn unit(spec: Spec, unit: &'static str) -> Spec {
    let key = "drive.override.controller.dma_unit";
    match unit {
        WHOLE_PAGES => spec,
        _ => spec.departs(Departure::of_paper(key, unit, DISCUSSION, "finer-grained transfer units")),
    }
}

/// A controller with SGLs, which the board does not support.
const SGL: Departure =
    Departure::of_paper("drive.override.controller.sgl", "true", DISCUSSION, "SGL enables fine-grained DMA");

/// The Linux driver's default.
const SGL_MIN: Departure = Departure::of_paper(
    "host.override.sgl_min",
    "\"32 KiB\"",
    DISCUSSION,
    "a default threshold of 32 KB for enabling SGL",
);

/// Transfer by SGL: with a controller that supports it and fetches exact lengths.
pub(super) fn by_sgl(bytes: u64) -> Spec {
    unit(board("sgl", bytes), EXACT).departs(SGL)
}

/// Transfer as the Linux driver would use such a controller.
pub(super) fn by_linux(bytes: u64) -> Spec {
    board("sgl", bytes).departs(SGL).departs(SGL_MIN)
}

/// Name of the observed jobs next to trains.
pub(super) const OTHERS: &str = "others";

/// Name of the job with trains.
pub(super) const TRAINS: &str = "trains";

/// Four queues with payloads of 64 B by a method; with `trains`, next to a fifth with payloads of 4 KiB by
/// the same method.
pub(super) fn beside(method: &str, trains: bool) -> Spec {
    const EACH_NS: u64 = 5_000;
    let spec = COSMOS.sink().by(method).job(Job::new(OTHERS, 64).workers(4).timed(EACH_NS));
    match trains {
        true => spec.job(Job::new(TRAINS, 4096).depth(2).timed(EACH_NS)),
        false => spec,
    }
}
