//! Drives of every supported size, with each profile, precondition and store.

use crate::common::{finish, folder, run, with_its_spare};
use byteway_results::summary::Summary;
use byteway_scenario::profile::{CAPACITY_BYTES, DRIVES, Profile};
use byteway_scenario::{Options, Scenario};
use byteway_text::units::Bytes;

const PROFILES: [&str; 3] = ["samsung-970-pro", "mqsim-mlc", "cosmos-plus"];

/// A drive in a precondition, with the spare that it has.
fn drive(profile: &str, capacity: &str, precondition: &str, lines: &str) -> String {
    let section = format!("[drive]\nprofile = '{profile}'\ncapacity = '{capacity}'\n{lines}");
    with_its_spare(&section) + &format!("precondition = '{precondition}'\n")
}

/// A short mixed run with trims over the whole drive, verified.
fn mixed(drive: &str, count: u32) -> Summary {
    let text = format!(
        "{drive}[[job]]\nname = \"mix\"\nrw = \"randrw\"\niodepth = 16\ncount = {count}\n\
         [[job]]\nname = \"again\"\nrw = \"rw\"\nbs = \"32 KiB\"\nsize = \"16 MiB\"\niodepth = 4\ncount = {}\n\
         [[job]]\nname = \"trims\"\nrw = \"randtrim\"\nbs = \"64 KiB\"\ncount = {}\n",
        count / 2,
        count / 10
    );
    let summary = run(&text);
    assert_eq!(summary.ios, u64::from(count) + u64::from(count / 2) + u64::from(count / 10));
    assert!(summary.verification.on && summary.verification.reads > u64::from(count) / 2);
    summary
}

// Such sizes reach limits of the map, of block numbers and of memory that ordinary drives do not.
#[test]
fn every_capacity_profile_and_precondition_runs_and_verifies() {
    for (profile, most) in PROFILES.into_iter().zip(["64 TiB", "16 TiB", "16 TiB"]) {
        for capacity in ["1 GiB", "3 GiB", "64 GiB", "1 TiB", "8 TiB", most] {
            for precondition in ["empty", "filled", "steady"] {
                // A die is followed for as long as it has superblocks: seconds for a profile whose dies grow with the capacity.
                if precondition != "steady" || capacity != "8 TiB" {
                    mixed(&drive(profile, capacity, precondition, ""), 200);
                }
            }
        }
    }
}

// A capacity that a profile cannot hold would overflow an address during a run, or be reported in the wrong unit.
#[test]
fn the_greatest_capacity_of_every_profile_is_made_and_more_is_refused_with_the_limit() {
    let limit = *CAPACITY_BYTES.end();
    let (most, more) = (Bytes(limit).to_string(), Bytes(limit + (1 << 20)).to_string());
    for (profile, _) in DRIVES {
        let read = |capacity: &str, jobs: &str| {
            let text = format!("[drive]\nprofile = \"{profile}\"\ncapacity = \"{capacity}\"\n{jobs}");
            Scenario::from_text("test.toml", &folder(), &text, &Options::default())
                .map_err(|error| error.to_string())
        };
        let job = |name: &str, offset: u64| {
            format!(
                "[[job]]\nname = \"{name}\"\nrw = \"randrw\"\noffset = \"{}\"\nsize = \"1 MiB\"\ncount = 40\n",
                Bytes(offset)
            )
        };
        // At both ends, and across the limit of 32-bit unit numbers.
        let ends = job("first", 0) + &job("middle", (16 << 40) - (1 << 19)) + &job("last", limit - (1 << 20));
        // Drives behind a bridge reserve some capacity for the composite drive.
        let is_bridged = Profile::built_in(profile).unwrap().bridge.is_some();
        match read(&most, if is_bridged { "" } else { &ends }) {
            _ if is_bridged => {}
            Ok(scenario) => assert_eq!(finish(&scenario).ios, 120, "{profile}"),
            Err(error) => {
                assert!(error.contains("are possible") && error.contains(&most), "{profile}: {error}")
            }
        }
        for capacity in [more.as_str(), "65 TiB", "100 TiB", "1 PiB", "1 p", "1 EiB"] {
            let Err(error) = read(capacity, &job("first", 0)) else { panic!("more than the limit") };
            assert!(
                error.contains("out of range") && error.contains(&format!("to {most}")),
                "{profile}: {error}"
            );
        }
        let Err(error) = read("1 ZiB", &job("first", 0)) else { panic!("more than a size can be") };
        assert!(error.contains("too large") && error.contains("the most is"), "{profile}: {error}");
    }
}

// The transfer method of the scenario must be the one used: SGLs of long payloads need no list.
#[test]
fn the_transfer_method_is_what_the_scenario_says() {
    let crossed = |lines: &str| {
        let text = format!(
            "[drive]\nprofile = \"samsung-970-pro\"\ncapacity = \"1 GiB\"\n\
             override.controller.sgl = true\n{lines}\n\
             [[job]]\nrw = \"randwrite\"\nbs = \"64 KiB\"\ncount = 50\n\
             [[job]]\nname = \"reads\"\nrw = \"randread\"\nbs = \"64 KiB\"\ncount = 50\n"
        );
        run(&text)
            .link
            .into_iter()
            .filter(|row| row.purpose == "PRP list")
            .map(|row| row.crossings)
            .sum::<u64>()
    };
    assert!(crossed("") > 0, "sixteen pages need a PRP list");
    assert_eq!(crossed("[transfer]\nmethod = \"sgl\""), 0);
}

// Blocks of 512 B are parts of flash units: every write is a read-modify-write, and the last unit must be complete.
#[test]
fn small_blocks_run_and_verify_at_both_ends_of_the_sizes() {
    for (profile, most) in PROFILES.into_iter().zip(["64 TiB", "16 TiB", "8 TiB"]) {
        for capacity in ["1 GiB", most] {
            for precondition in ["empty", "steady"] {
                let drive = drive(profile, capacity, precondition, "lba_size = '512 B'\n");
                let text = format!(
                    "{drive}[[job]]\nrw = \"randrw\"\nbs = \"512 B\"\niodepth = 8\n\
                     count = 300\n[[job]]\nrw = \"randrw\"\nbs = \"2560 B\"\nsize = \"1 MiB\"\niodepth = 8\ncount = 300\n"
                );
                run(&text);
                mixed(&drive, 100);
            }
        }
    }
}

// Stores of bytes and of stamps must behave alike: a stamp with less information than the bytes would verify wrong data.
#[test]
fn bytes_and_stamps_give_the_same_result() {
    for profile in PROFILES {
        for lba_size in ["512 B", "4 KiB"] {
            let of = |store: &str| {
                let lines = format!("lba_size = '{lba_size}'\nstore = '{store}'\n");
                mixed(&drive(profile, "1 GiB", "steady", &lines), 1000).to_json()
            };
            assert_eq!(of("ram"), of("stamp"), "{profile}, {lba_size}");
        }
    }
}

// Known page contents must be equivalent to their bytes: no I/O may take another time, and no block verify differently.
#[test]
fn names_of_patterns_and_bytes_give_the_same_result() {
    for (profile, store) in PROFILES.into_iter().zip(["stamp", "ram", "stamp"]) {
        for lba_size in ["512 B", "4 KiB"] {
            let of = |verify: &str| {
                let drive = format!(
                    "[drive]\nprofile = '{profile}'\ncapacity = '1 GiB'\nlba_size = '{lba_size}'\nstore = '{store}'\n\
                     [host]\nverify = {verify}\n"
                );
                mixed(&drive, 1000).to_json()
            };
            assert_eq!(of("true"), of("\"bytes\""), "{profile}, {lba_size}");
        }
    }
}

// Overlapping namespaces would let one tenant overwrite another's data.
#[test]
fn namespaces_divide_a_drive() {
    let job = |namespace: u32| {
        format!(
            "[[job]]\nname = \"n{namespace}\"\nnamespace = {namespace}\nrw = \"randrw\"\niodepth = 4\ncount = 300\n"
        )
    };
    for (profile, lba_size) in PROFILES.into_iter().zip(["4 KiB", "512 B", "4 KiB"]) {
        let jobs: String = [1, 2, 3, 7].map(job).concat();
        let text = format!(
            "[drive]\nprofile = \"{profile}\"\ncapacity = \"1 GiB\"\nlba_size = \"{lba_size}\"\nnamespaces = 7\n{jobs}"
        );
        assert_eq!(run(&text).ios, 4 * 300);
    }
}
