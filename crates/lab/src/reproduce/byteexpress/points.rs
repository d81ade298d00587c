//! The points of ByteExpress: the Cosmos+ board with its payload sink (the paper's "NAND off"), one payload at a time.

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

/// The board, its links replaced: the profile, and what it is called.
pub(super) const LINKS: [(&str, &str); 5] = [
    ("cosmos-plus", "Gen2 x8"),
    ("cosmos-plus-gen3x4", "Gen3 x4"),
    ("cosmos-plus-gen4x4", "Gen4 x4"),
    ("cosmos-plus-gen5x8", "Gen5 x8"),
    ("cosmos-plus-gen6x8", "Gen6 x8"),
];

/// DMA granularities.
pub(super) const UNITS: [(&str, &str); 3] =
    [("4 KiB", "whole pages"), ("512 B", "units of 512 B"), ("1 B", "exactly the bytes")];

/// Payloads of one size by a method on the board.
pub fn board(method: &str, bytes: u64) -> Spec {
    sink("cosmos-plus", "cosmos", method).job(Job::new("payloads", bytes))
}

/// The same on another link.
pub(super) fn on_link(profile: &str, method: &str, bytes: u64) -> Spec {
    sink(profile, "cosmos", method).job(Job::new("payloads", bytes))
}

/// With an interrupt for each completion.
pub fn interrupt(spec: Spec) -> Spec {
    spec.key("host.override.completion", "interrupt")
}

/// With another DMA granularity; the board's own is left as it is, so that it stays the same point.
pub(super) fn unit(spec: Spec, unit: &str) -> Spec {
    if unit == "4 KiB" { spec } else { spec.key("drive.override.controller.dma_unit", unit) }
}

/// By SGL, which the board does not have: with a controller that has it and fetches exactly what it describes.
pub(super) fn by_sgl(bytes: u64) -> Spec {
    unit(board("sgl", bytes), "1 B").raw("drive.override.controller.sgl", true)
}

/// As the Linux driver would have it on such a controller.
pub(super) fn by_linux(bytes: u64) -> Spec {
    sink("cosmos-plus", "linux-polled", "sgl")
        .raw("drive.override.controller.sgl", true)
        .job(Job::new("payloads", bytes))
}

/// Name of the jobs that are looked at beside trains.
pub(super) const OTHERS: &str = "others";

/// Name of the job of trains.
pub(super) const TRAINS: &str = "trains";

/// Four queues with payloads of 64 B by a method; with `trains`, beside a fifth with payloads of 4 KiB by the same.
pub(super) fn beside(method: &str, trains: bool) -> Spec {
    const EACH_NS: u64 = 5_000;
    let spec = sink("cosmos-plus", "cosmos", method).job(Job::new(OTHERS, 64).workers(4).timed(EACH_NS));
    match trains {
        true => spec.job(Job::new(TRAINS, 4096).depth(2).timed(EACH_NS)),
        false => spec,
    }
}

fn sink(drive: &str, host: &str, method: &str) -> Spec {
    Spec::new(drive, host).key("drive.personality", "sink").key("transfer.method", method)
}
