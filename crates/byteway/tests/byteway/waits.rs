//! What an I/O waits for, where the cause is known: each scenario makes one resource the bottleneck.

use crate::common::{round, run};
use byteway_results::summary::Summary;

/// The longest wait, and its share in the time of an I/O.
fn longest(summary: &Summary) -> (&str, f64) {
    let rows = summary.waits.iter().map(|row| (row.wait.as_str(), row.share));
    rows.max_by(|one, other| one.1.total_cmp(&other.1)).expect("an I/O waited")
}

fn share(summary: &Summary, waits: &[&str]) -> f64 {
    summary.waits.iter().filter(|row| waits.contains(&row.wait.as_str())).map(|row| row.share).sum()
}

// "97 % queueing" explains nothing: with collection in the way a drive needs spare space, with reads more dies, with the host more cores.
#[test]
fn the_bottleneck_is_what_ios_wait_for() {
    let job = |lines: &str| format!("[[job]]\n{lines}\nruntime = '8 ms'\n");
    let busy_host = "[host]\nprofile = 'round-host.toml'\noverride.cores = 1\noverride.submit = '9 us'\n";
    for (wait, least, drive, rest) in [
        ("die reads", 0.8, "", job("rw = 'randread'\niodepth = 512")),
        (
            "channel",
            0.5,
            "override.flash.channels = 1\noverride.flash.ways = 16\n",
            job("rw = 'randread'\nbs = '16 KiB'\niodepth = 32"),
        ),
        (
            "core",
            0.5,
            "override.firmware.cores = 1\noverride.firmware.clock = '20 MHz'\n",
            job("rw = 'randread'\niodepth = 16"),
        ),
        ("dram", 0.3, "override.dram.bandwidth = '20 MB/s'\n", job("rw = 'write'\niodepth = 8")),
        ("buffer", 0.8, "override.firmware.write_buffer = '256 KiB'\n", job("rw = 'write'\niodepth = 64")),
        (
            "buffer collection",
            0.5,
            "precondition = 'steady'\noverride.firmware.write_buffer = '256 KiB'\n",
            job("rw = 'randwrite'\niodepth = 64"),
        ),
        ("queue depth", 0.8, "", job("rw = 'randread'\nissue = 'open'\nrate_iops = 400000\niodepth = 2")),
        ("host core", 0.5, "", format!("{busy_host}{}", job("rw = 'randread'\nnumjobs = 16"))),
    ] {
        let host = if rest.contains("[host]") { "" } else { "[host]\nprofile = 'round-host.toml'\n" };
        let text = format!("[drive]\nprofile = 'round.toml'\n{drive}{host}{rest}");
        let summary = run(&text);
        let (found, share) = longest(&summary);
        assert!(found == wait && share > least, "{wait}: {:?}", summary.waits);
    }
}

// Reads beside writes wait for programs, and where garbage is collected also for that: both are told apart.
#[test]
fn reads_tell_programs_from_collection() {
    let mix = "[[job]]\nname = 'reads'\nrw = 'randread'\niodepth = 2\nruntime = '40 ms'\n[[job]]\nname = 'writes'\nrw = 'randwrite'\n\
               iodepth = 8\nruntime = '40 ms'\n";
    let filled = run(&round("", mix));
    assert!(share(&filled, &["die programs"]) > 0.02, "{:?}", filled.waits);
    assert_eq!(share(&filled, &["die erases", "die collection", "buffer collection"]), 0.0);
    let steady = run(&round("precondition = 'steady'\n", mix));
    assert!(share(&steady, &["die collection"]) > share(&steady, &["die programs"]), "{:?}", steady.waits);
    assert!(share(&steady, &["die erases"]) > 0.02, "{:?}", steady.waits);
}
