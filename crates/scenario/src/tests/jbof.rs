//! A JBOF: resources by platform, and error messages for invalid JBOFs.

use super::*;

/// Four drives of the paper's kind in a JBOF; its section begins in line 6.
fn boxed(lines: &str) -> Result<Scenario, InputError> {
    boxed_with("", lines)
}

fn boxed_with(keys: &str, lines: &str) -> Result<Scenario, InputError> {
    let drives = format!(
        "[[drive]]\nname = \"ssd\"\ncopies = 4\nprofile = \"espresso\"\ncapacity = \"8 GiB\"{keys}\n"
    );
    parse(&format!("{drives}[jbof]\n{lines}\n[host]\nprofile = \"dpu\"\n{JOB}drive = \"all\"\n"), &[])
}

// Platforms are compared by the resources of their drives: wrong ones would not be visible anywhere.
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

// Each mistake is reported at its location, with a remedy.
#[test]
fn mistakes_of_a_box_are_named_where_they_stand() {
    for (lines, what, help) in [
        ("platform = \"jbod\"", "`jbod` is not one of the choices", ""),
        ("cores = 0", "`jbof.cores` = 0", "from 1 to 64"),
        ("dram = 0.0", "`jbof.dram` = 0 is out of range", "0.001 to 1 GB"),
        ("dram = 1.5", "`jbof.dram` = 1.5 is out of range", "1 holds the whole map"),
        ("period = \"0 s\"", "`jbof.period`", "from 1 us"),
        ("watermark = \"0 %\"", "`jbof.watermark`", "from 1 %"),
        ("segment = \"5000 B\"", "`jbof.segment` = 5000 B is not a multiple of 4 KiB", "2 MiB"),
        ("lenders = 0", "`jbof.lenders` = 0", "from 1 to 254"),
        ("prices = { dram_gb = -1.0 }", "`jbof.prices.dram_gb` = -1 is out of range", "dollars"),
        ("fabric = { port = \"1 B/s\" }", "`jbof.fabric.port`", "from 1 MB/s"),
        ("fabrik = {}", "unknown key `fabrik`", "did you mean `fabric`"),
        (
            "central = { virtual_command = \"300 ns\", virtual_lock = \"301 ns\" }",
            "`jbof.central.virtual_lock` = 301 ns is a part of `virtual_command` = 300 ns",
            "raise `virtual_command`",
        ),
    ] {
        let error = boxed(lines).unwrap_err();
        assert!(error.what.contains(what) && error.help.contains(help), "{lines}: {error}");
        assert_eq!(error.place.clone().unwrap().position.unwrap().0, 7, "{lines}: {error}");
    }
    // Each of these would have no effect, or affect only the price, and be taken for a result.
    let oc = boxed("platform = \"oc\"\ncores = 1").unwrap_err();
    assert!(oc.what.contains("`jbof.cores`") && oc.help.contains("[host.override]"), "{oc}");
    assert_eq!(oc.place.unwrap().position.unwrap().0, 8);
    let cached = boxed_with("\noverride.firmware.map_cache = \"1 MiB\"", "dram = 0.25").unwrap_err();
    assert!(cached.what.contains("is `jbof.dram`") && cached.help.contains("set it to false"), "{cached}");
    assert_eq!(cached.place.unwrap().position.unwrap().0, 6);
    assert!(boxed_with("\noverride.firmware.map_cache = false", "dram = 0.25").is_ok());
    let extents = boxed_with("\noverride = { firmware = { extents = {} } }", "platform = \"espresso\"");
    assert!(extents.is_err(), "a map of extents has no pages to lend");
    let hosted = "[drive]\nprofile = \"fssd\"\n[jbof]\nplatform = \"conv\"\n";
    let error = parse(&format!("{hosted}{JOB}"), &[]).unwrap_err();
    assert!(error.what.contains("a drive of a JBOF has firmware of its own"), "{error}");
    let pairs = boxed_with("\npersonality = \"kv\"\nprecondition = \"empty\"", "platform = \"vh\"");
    assert!(pairs.is_err(), "a hypervisor redirects writes of blocks");
}

// Drives of a JBOF belong to the host: combined with an array or a target they would be something else.
#[test]
fn a_box_is_no_array_and_no_target() {
    let error = boxed("platform = \"conv\"\n[array]\nlevel = 0").unwrap_err();
    assert!(error.what.contains("no part of `[array]`"), "{error}");
}

// Without the reserve the run would end with "all I/O queues are in use".
#[test]
fn a_drive_of_a_box_has_a_queue_pair_for_its_peers() {
    let with = |queues: u32, numjobs: u32| {
        let job = format!("{JOB}drive = \"all\"\nnumjobs = {numjobs}\n");
        let drives = "[[drive]]\nname = \"ssd\"\ncopies = 4\nprofile = \"espresso\"\ncapacity = \"8 GiB\"\n";
        let queues = format!("override.controller.max_io_queues = {queues}\n");
        parse(&format!("{drives}{queues}[jbof]\nplatform = \"conv\"\n{job}"), &[])
    };
    for (numjobs, pairs) in [(1, 1), (7, 7), (8, 7), (9, 7)] {
        assert_eq!(with(8, numjobs).unwrap().queue_pairs(3), pairs);
    }
    let error = with(1, 1).unwrap_err();
    assert!(error.what.contains("one for its peers"), "{error}");
    assert!(error.help.contains("override.controller.max_io_queues = 2"), "{error}");
    assert_eq!(error.place.unwrap().position.unwrap().0, 13);
}

// Idle drives are the purpose of a JBOF: a note for each would hide important ones.
#[test]
fn idle_drives_of_a_box_are_no_oversight() {
    let drives = "[[drive]]\nname = \"ssd\"\ncopies = 4\nprofile = \"espresso\"\ncapacity = \"8 GiB\"\n";
    let scenario = parse(&format!("{drives}[jbof]\n{JOB}drive = \"ssd0\"\n"), &[]).unwrap();
    assert!((0..4).all(|drive| scenario.notes(drive).is_empty()));
    let alone = parse(&format!("{drives}{JOB}drive = \"ssd0\"\n"), &[]).unwrap();
    assert_eq!(alone.notes(3), ["no job uses it"]);
}
