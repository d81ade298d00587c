//! Write amplification and over-provisioning through the whole simulator: that `op` and `precondition = "steady"` of a
//! scenario mean what they say. That the translation layer amplifies as theory says is tested with it, at length.

use crate::common::{assert_within, round, run, scenario, writes};
use byteway_firmware::FtlConfig;
use byteway_firmware::ftl::greedy_write_amplification;
use byteway_lab::build;
use byteway_measure::summary::Summary;
use byteway_wire::content::UNIT_BYTES;

/// Two dies of 512 superblocks and the spare ones, each of 256 units of 4 KiB. The formula knows of no checkpoints, whose
/// pages are written, and take a tenth of a percent of the spare flash.
fn drive(op: u32, precondition: &str) -> String {
    format!(
        "precondition = \"{precondition}\"\noverride.flash.channels = 2\noverride.flash.ways = 1\n\
         override.firmware.op = \"{op} %\"\noverride.firmware.write_buffer = \"1 MiB\"\n\
         override.firmware.checkpoint = \"0 %\""
    )
}

/// `count` random writes of 4 KiB, measured after as many as `warmup`.
fn overwrite(op: u32, precondition: &str, warmup: u64, count: u64) -> Summary {
    let rest = format!(
        "[[job]]\nrw = \"randwrite\"\niodepth = 16\ncount = {}\n[measure]\nwarmup = {warmup}\n",
        warmup + count
    );
    run(&round(&drive(op, precondition), &rest))
}

fn amplification(summary: &Summary) -> f64 {
    summary.write_amplification.expect("the host wrote")
}

/// Units of 4 KiB of the drive above.
const UNITS: u64 = 1 << 18;

// Were the geometry reckoned with other blocks away than the translation layer has away, the constructed steady state
// would be of another over-provisioning than the scenario's.
#[test]
fn the_geometry_leaves_what_the_translation_layer_calls_spare() {
    for profile in ["samsung-970-pro", "mqsim-mlc", "cosmos-plus"] {
        for op in [7, 15, 28] {
            let text = format!(
                "[drive]\nprofile = \"{profile}\"\noverride.firmware.op = \"{op} %\"\n[[job]]\nrw = \"read\"\ncount = 1"
            );
            let drive = build::drive(&scenario(&text), 0);
            let geometry = &drive.geometry;
            let op = f64::from(op) / 100.0;
            let units = FtlConfig::user_units_at(geometry, drive.ftl.gc_reserve_blocks, op);
            let a_block_each = u64::from(geometry.units_per_block() * geometry.dies());
            assert!(units >= drive.user_units(), "{profile}: less spare than asked for");
            assert!(units <= drive.user_units() + a_block_each, "{profile}: more than a block more");
            assert_eq!(drive.user_bytes(), drive.user_units() * UNIT_BYTES as u64);
        }
    }
}

// `op` is what a user compares drives by. Counted with what is open or kept free, it would mean another write
// amplification on each geometry, and none that a formula gives.
#[test]
fn over_provisioning_gives_the_amplification_of_the_formula() {
    for op in [7, 15, 28] {
        let summary = overwrite(op, "steady", UNITS / 16, UNITS / 2);
        let expected = greedy_write_amplification(f64::from(op) / 100.0);
        assert_within(5.0, amplification(&summary), expected, &format!("OP {op} %"));
        // What was programmed is in both books: the translation layer's and the flash's.
        let flash = summary.flash.as_ref().expect("a simulation knows its flash");
        let (host, collector) = (flash.host_programs as f64, flash.collect_programs as f64);
        assert_within(0.5, (host + collector) / host, amplification(&summary), "by the pages programmed");
    }
}

// The constructed state saves hours of preconditioning only if a run on it is one on a drive that was written for hours.
#[test]
fn the_constructed_steady_state_is_that_of_a_drive_overwritten() {
    for op in [7, 28] {
        let constructed = overwrite(op, "steady", UNITS / 16, UNITS);
        let overwritten = overwrite(op, "filled", 3 * UNITS, UNITS);
        assert_within(2.0, amplification(&constructed), amplification(&overwritten), "write amplification");
        assert_within(2.0, writes(&constructed).iops, writes(&overwritten).iops, "throughput");
    }
}
