//! A drive that is hot from an instant on.

use crate::common::{round, run};

const THROTTLE: &str = "override.firmware.throttle = { light = { from = '70 C', rest = '40 %' }, heavy = { from = '80 C', rest = '75 %' } }\n";

// A drive that throttled writes and not reads, or by another share than its profile says, would be another drive.
#[test]
fn a_hot_drive_does_what_its_rests_leave() {
    for rw in ["randread", "write"] {
        let job = format!("[[job]]\nrw = '{rw}'\niodepth = 512\nruntime = '2 s'\n[measure]\nwarmup = 4096\n");
        let iops = |drive: &str| run(&round(drive, &job)).iops;
        let cool = iops("");
        assert_eq!(iops(THROTTLE), cool, "40 C throttle nothing");
        for (temperature, left) in [(75, 0.6), (85, 0.25)] {
            let hot = iops(&format!("{THROTTLE}temperature = [['0 s', '{temperature} C']]\n"));
            assert!((hot / cool / left - 1.0).abs() < 0.08, "{rw} at {temperature} C: {hot} of {cool}");
        }
    }
}

// A reader who takes a step of the temperature for a drive that is not in its steady state looks for it with a longer run.
#[test]
fn a_step_within_a_run_is_named() {
    let job = "[[job]]\nrw = 'randread'\niodepth = 64\nruntime = '400 ms'\n";
    let summary = run(&round(&format!("{THROTTLE}temperature = [['200 ms', '75 C']]\n"), job));
    let note =
        |start: &str| summary.notes.iter().find(|note| note.starts_with(start)).cloned().unwrap_or_default();
    assert!(note("not steady:").contains("`drive.temperature`"), "{:?}", summary.notes);
    assert!(note("throttled for ").contains("its dies rested for"), "{:?}", summary.notes);
    assert!(summary.waits.iter().any(|row| row.wait == "throttle" && row.share > 0.1), "{:?}", summary.waits);
}
