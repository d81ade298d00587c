//! A box of drives: what each platform leaves them, and what is said about wrong boxes.

use super::*;

/// Four drives of the paper's kind in a box; its section begins in line 6.
fn boxed(lines: &str) -> Result<Scenario, InputError> {
    boxed_with("", lines)
}

fn boxed_with(keys: &str, lines: &str) -> Result<Scenario, InputError> {
    let drives = format!(
        "[[drive]]\nname = \"ssd\"\ncopies = 4\nprofile = \"espresso\"\ncapacity = \"8 GiB\"{keys}\n"
    );
    parse(&format!("{drives}[jbof]\n{lines}\n[host]\nprofile = \"dpu\"\n{JOB}drive = \"all\"\n"), &[])
}

// The platforms are compared by what they leave a drive: half a map that were whole, or six cores that were three, would show nowhere.
#[test]
fn a_platform_says_what_drives_have() {
    let whole = 8 << 20; // 4 KiB for each 4 MiB
    for (platform, cores, held) in [
        ("conv", 6, None),
        ("shrunk", 3, Some(whole / 2)),
        ("vh", 3, Some(whole / 2)),
        ("vh-ideal", 3, Some(whole / 2)),
        ("proch", 3, Some(whole / 2)),
        ("espresso", 3, Some(whole / 2)),
        // 16 GB for four drives of 4 TB, whose maps have 4 GB each.
        ("oc", 3, None),
    ] {
        let scenario = boxed(&format!("platform = \"{platform}\"")).unwrap();
        let plan = scenario.jbof.as_ref().unwrap();
        assert_eq!(plan.section.platform.word(), platform);
        for (attached, share) in scenario.drives.iter().zip(&plan.drives) {
            let firmware = &attached.plan.profile.firmware;
            assert_eq!((firmware.cores, firmware.map_cache.map(|held| held.0)), (cores, held), "{platform}");
            assert_eq!((share.cores, share.cores_whole, share.terabytes()), (cores, 6, 4.0), "{platform}");
        }
        let spare = plan.spare_units;
        assert_eq!(spare > 0, plan.section.platform.is_virtual(), "{platform}");
        let plan = &scenario.drives[0].plan;
        assert_eq!(plan.namespace_blocks, (8 << 30) / 4096, "{platform}");
        assert_eq!(plan.geometry.capacity_bytes, (8 << 30) + spare * 4096, "{platform}");
    }
    let own = boxed("platform = \"espresso\"\ncores = 1\ndram = 0.25").unwrap();
    let firmware = &own.drives[3].plan.profile.firmware;
    assert_eq!((firmware.cores, firmware.map_cache), (1, Some(Bytes(whole / 4))));
    let twelve = "[[drive]]\nname = \"ssd\"\ncopies = 12\nprofile = \"espresso\"\ncapacity = \"8 GiB\"\n";
    let oc = parse(&format!("{twelve}[jbof]\nplatform = \"oc\"\n{JOB}drive = \"all\"\n"), &[]).unwrap();
    let held = oc.drives[0].plan.profile.firmware.map_cache.unwrap().0;
    assert_eq!(held / 4096, 2048 / 3, "a third of the map: 16 GB for twelve drives of 4 TB");
}

// Each mistake is found where it stands, and says what would be right.
#[test]
fn mistakes_of_a_box_are_named_where_they_stand() {
    for (lines, what, cure) in [
        ("platform = \"jbod\"", "`jbod` is not one of the choices", ""),
        ("cores = 0", "`jbof.cores` = 0", "from 1 to 64"),
        ("dram = 0.0", "`jbof.dram` = 0 is out of range", "0.001 to 1 GB"),
        ("dram = 1.5", "`jbof.dram` = 1.5 is out of range", "1 holds the whole map"),
        ("period = \"0 s\"", "`jbof.period`", "from 1 us"),
        ("watermark = \"0 %\"", "`jbof.watermark`", "from 1 %"),
        ("segment = \"5000 B\"", "`jbof.segment` = 5000 B is no multiple of 4 KiB", "2 MiB"),
        ("lenders = 0", "`jbof.lenders` = 0", "from 1 to 254"),
        ("prices = { dram_gb = -1.0 }", "`jbof.prices.dram_gb` = -1 is out of range", "dollars"),
        ("fabric = { port = \"1 B/s\" }", "`jbof.fabric.port`", "from 1 MB/s"),
        ("fabrik = {}", "unknown key `fabrik`", "did you mean `fabric`"),
    ] {
        let error = boxed(lines).unwrap_err();
        assert!(error.what.contains(what) && error.cure.contains(cure), "{lines}: {error}");
        assert_eq!(error.place.clone().unwrap().position.unwrap().0, 7, "{lines}: {error}");
    }
    let extents = boxed_with("\noverride = { firmware = { extents = {} } }", "platform = \"espresso\"");
    assert!(extents.is_err(), "a map of extents has no pages to lend");
    let hosted = "[drive]\nprofile = \"fssd\"\n[jbof]\nplatform = \"conv\"\n";
    let error = parse(&format!("{hosted}{JOB}"), &[]).unwrap_err();
    assert!(error.what.contains("a drive of a box has firmware of its own"), "{error}");
    let pairs = boxed_with("\npersonality = \"kv\"\nprecondition = \"empty\"", "platform = \"vh\"");
    assert!(pairs.is_err(), "a hypervisor redirects writes of blocks");
}

// Drives of a box are the host's: an array or a target of them would be something else.
#[test]
fn a_box_is_no_array_and_no_target() {
    let error = boxed("platform = \"conv\"\n[array]\nlevel = 0").unwrap_err();
    assert!(error.what.contains("no part of `[array]`"), "{error}");
}
