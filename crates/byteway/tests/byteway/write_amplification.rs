//! Write amplification and over-provisioning through the whole simulator: the meaning of `op` and `precondition = "steady"` in a scenario.
//! The translation layer's own tests compare its amplification with theory, at length.

use crate::common::{assert_within, round, run, scenario, writes};
use byteway_content::UNIT_BYTES;
use byteway_firmware::FtlConfig;
use byteway_firmware::ftl::greedy_write_amplification;
use byteway_results::summary::Summary;
use byteway_run::build;

/// Two dies of 512 superblocks and the spare ones, each of 256 units of 4 KiB. The formula does not include checkpoints, whose pages are
/// written, and take 0.1 % of the spare flash.
fn drive(op: u32, precondition: &str) -> String {
    format!(
        "precondition = \"{precondition}\"\noverride.flash.channels = 2\noverride.flash.ways = 1\n\
         override.firmware.op = \"{op} %\"\noverride.firmware.write_buffer = \"1 MiB\"\n\
         override.firmware.checkpoint = \"0 %\""
    )
}

/// `count` random writes of 4 KiB, measured after `warmup` others.
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

// If scenario and translation layer reserved different blocks, the constructed steady state would have another over-provisioning than the
// scenario's.
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

// Users compare drives by `op`. If it included open or reserved blocks, it would mean another write amplification for each geometry, and
// none that a formula gives.
#[test]
fn over_provisioning_gives_the_amplification_of_the_formula() {
    for op in [7, 15, 28] {
        let summary = overwrite(op, "steady", UNITS / 16, UNITS / 2);
        let expected = greedy_write_amplification(f64::from(op) / 100.0);
        assert_within(5.0, amplification(&summary), expected, &format!("OP {op} %"));
        // Programs are counted by both translation layer and flash.
        let flash = summary.flash.as_ref().expect("a simulation knows its flash");
        let (host, collector) = (flash.host_programs as f64, flash.collect_programs as f64);
        assert_within(0.5, (host + collector) / host, amplification(&summary), "by the pages programmed");
    }
}

// The constructed state only replaces hours of preconditioning if it behaves like a drive that was overwritten for hours.
#[test]
fn the_constructed_steady_state_is_that_of_a_drive_overwritten() {
    for op in [7, 28] {
        let constructed = overwrite(op, "steady", UNITS / 16, UNITS);
        let overwritten = overwrite(op, "filled", 3 * UNITS, UNITS);
        assert_within(2.0, amplification(&constructed), amplification(&overwritten), "write amplification");
        assert_within(2.0, writes(&constructed).iops, writes(&overwritten).iops, "throughput");
    }
}

/// A drive on the paper's host, with blocks of 512 bytes.
fn placed(drive: &str, rest: &str) -> Summary {
    run(&format!("[drive]\n{drive}\nlba_size = \"512 B\"\n[host]\nprofile = \"sandy-bridge\"\n{rest}"))
}

// Each partial write of 4 KiB costs a program of 4 KiB eventually: eight bytes per byte. Counted in units the factor would seem to be one,
// and a bridge's drives would count data that the bridge has combined as the host's.
#[test]
fn parts_count_as_the_bytes_that_the_host_wrote() {
    let job = "[[job]]\nrw = \"randwrite\"\nbs = \"512 B\"\niodepth = 32\ncount = 60000\n";
    let small = "override.firmware.write_buffer = \"1 MiB\"";
    let own = placed(
        &format!("profile = \"samsung-970-pro\"\ncapacity = \"1 GiB\"\nprecondition = \"empty\"\n{small}"),
        job,
    );
    let found = amplification(&own);
    assert!(found > 6.0 && found < 10.0, "{found}: a part of eight is a program of the whole");
    let bridge = "profile = \"bssd\"\ncapacity = \"4 GiB\"\noverride.bridge.small_writes.memory = \"1 MiB\"";
    let bridge = amplification(&placed(&format!("{bridge}\n{small}"), job));
    assert!(bridge > 4.0 && bridge < 12.0, "{bridge}");
}

// "0.000" would look like a drive that programs nothing, while all data is still in a buffer.
#[test]
fn there_is_none_before_anything_has_reached_flash() {
    let few = "[[job]]\nrw = \"randwrite\"\ncount = 1\n"; // less than a stripe
    let summary = run(&round("precondition = \"empty\"", few));
    assert_eq!(summary.write_amplification, None);
    assert!(summary.to_json().contains("\"write_amplification\": null"));
    let tables = summary.to_tables();
    assert!(tables.contains("none yet") && !tables.contains("0.000"), "{tables}");
    let reads = run(&round("", "[[job]]\nrw = \"randread\"\ncount = 8\n"));
    assert!(reads.write_amplification.is_none() && !reads.to_tables().contains("none yet"));
}

// An array adds its own amplification in front of its drives: parity, mirrors and its log. The total must be relative to the host's writes,
// not to those sent to the drives.
#[test]
fn an_array_adds_to_its_drives() {
    let text = "[[drive]]\nname = \"ssd\"\ncopies = 4\nprofile = \"samsung-970-pro\"\ncapacity = \"1 GiB\"\n\
                override.firmware.write_buffer = \"1 MiB\"\n[array]\nlevel = 10\n\
                [[job]]\nrw = \"randwrite\"\nbs = \"64 KiB\"\niodepth = 16\nio_size = \"256 MiB\"\n";
    let summary = run(text);
    let array = summary.array.as_ref().expect("it is one");
    let own = array.write_amplification.expect("the host wrote");
    assert!((2.0..2.2).contains(&own), "{own}: two copies and a log");
    let data = array.traffic.iter().find(|row| row.cause == "data").expect("it has data");
    assert_eq!(data.bytes_written, 2 * (256 << 20));
    let whole = amplification(&summary);
    assert!((1.9..2.4).contains(&whole), "{whole}: what is in the drives' buffers is not programmed yet");
}
