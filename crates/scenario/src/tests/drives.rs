//! Several drives: `[[drive]]`, and jobs that name them.

use super::*;

const TWO: &str = "\
[[drive]]
name = \"a\"
profile = \"samsung-970-pro\"
capacity = \"4 GiB\"
[[drive]]
name = \"b\"
profile = \"mqsim-mlc\"
namespaces = 2
override.link.lanes = 2
";

fn job(drive: &str) -> String {
    format!("[[job]]\nrw = \"randread\"\ncount = 1000\ndrive = {drive}\n")
}

fn names(scenario: &Scenario) -> Vec<(&str, usize, u32)> {
    scenario.jobs.iter().map(|job| (job.name.as_str(), job.drive, job.phase)).collect()
}

// A drive with the profile, override or namespace of another would produce figures of a drive that is not in
// the scenario.
#[test]
fn each_drive_is_as_its_section_says() {
    let scenario = parse(&format!("{TWO}{}{}namespace = 2\n", job("\"a\""), job("\"b\"")), &[]).unwrap();
    let plans: Vec<&DrivePlan> = scenario.drives.iter().map(|drive| &drive.plan).collect();
    let shown = |plan: &DrivePlan| (plan.name.clone(), plan.profile_name.clone(), plan.profile.link.lanes);
    assert_eq!(shown(plans[0]), (Some("a".into()), "samsung-970-pro".into(), 4));
    assert_eq!(shown(plans[1]), (Some("b".into()), "mqsim-mlc".into(), 2));
    assert_eq!(plans[0].geometry.capacity_bytes, 4 << 30);
    assert_eq!(names(&scenario), [("job0", 0, 0), ("job1", 1, 0)]);
    assert_eq!(scenario.jobs[0].range_blocks, 1 << 20);
    assert_eq!(scenario.jobs[1].nsid, 2);
    let alone = parse(&format!("[drive]\nname = \"a\"\nprofile = \"mqsim-mlc\"\n{JOB}"), &[]).unwrap();
    assert_eq!(alone.drives[0].plan.name.as_deref(), Some("a"), "one drive may have a name, and needs none");
}

// A job on several drives is a separate job on each: same keys and phase, distinct names.
#[test]
fn a_job_runs_on_each_of_its_drives() {
    let after =
        "[[job]]\nname = \"after\"\nstonewall = true\nrw = \"write\"\nsize = \"1 MiB\"\ndrive = \"b\"\n";
    for all in ["\"all\"", "[\"a\", \"b\"]"] {
        let scenario = parse(&format!("{TWO}{}{after}", job(all)), &[]).unwrap();
        assert_eq!(names(&scenario), [("job0/a", 0, 0), ("job0/b", 1, 0), ("after", 1, 1)]);
        assert_eq!(scenario.jobs[0].namespace_blocks, 1 << 20, "each has the limits of its drive");
        assert_eq!(scenario.jobs[1].namespace_blocks, scenario.drives[1].plan.namespace_blocks);
    }
    let one = parse(&format!("{TWO}{}{}", job("[\"b\"]"), job("\"a\"")), &[]).unwrap();
    assert_eq!(names(&one), [("job0", 1, 0), ("job1", 0, 0)]);
    let copies = "[[drive]]\nname = \"ssd\"\ncopies = 3\nprofile = \"mqsim-mlc\"\n";
    let scenario = parse(&format!("{copies}{}", job("\"all\"")), &[]).unwrap();
    assert_eq!(names(&scenario), [("job0/ssd0", 0, 0), ("job0/ssd1", 1, 0), ("job0/ssd2", 2, 0)]);
}

// Without this a comparison of four drives would change only one of them.
#[test]
fn keys_reach_one_drive_or_all() {
    let text = format!("{TWO}{}", job("\"all\""));
    let bytes = |set: &str| {
        let scenario = parse(&text, &[set]).unwrap_or_else(|error| panic!("{error}"));
        scenario.drives.iter().map(|drive| drive.plan.geometry.capacity_bytes >> 30).collect::<Vec<_>>()
    };
    let whole = bytes("seed=2")[1];
    assert_eq!(bytes("drive.a.capacity=8 GiB"), [8, whole]);
    assert_eq!(bytes("drive.1.capacity=8 GiB"), [4, 8]);
    assert_eq!(bytes("drive.capacity=8 GiB"), [8, 8]);
    let lanes = parse(&text, &["drive.override.link.lanes=1"]).unwrap();
    assert!(lanes.drives.iter().all(|drive| drive.plan.profile.link.lanes == 1));
    let set = |set: &str| parse(&text, &[set]);
    assert_error(set("drive.c.capacity=8 GiB"), "--set drive.c", "there is no `drive.c`", "the entry's name");
    assert_error(set("drive.7.capacity=8 GiB"), "--set drive.7", "there is no `drive.7`", "from 0 to 1");
    assert_error(set("job.iodepth=8"), "--set job.iodepth", "there is no `job.iodepth`", "from 0 to 0");
}

// The message is all that a user has to find the mistake.
#[test]
fn mistakes_are_named_where_they_stand() {
    let two = |rest: &str| parse(&format!("{TWO}{rest}"), &[]);
    let both = job("\"all\"");
    assert_error(two(&job("\"c\"")), "s.toml:13:9", "`job.0.drive`: there is no drive `c`", "`a`, `b`");
    assert_error(
        two(JOB),
        "s.toml:10:1",
        "`job.0` names no drive, and the scenario has 2",
        "drive = \"...\"",
    );
    assert_error(two(&job("[]")), "s.toml:13:9", "`job.0.drive` names no drive", "`a`, `b`");
    assert_error(two(&job("[\"a\", \"a\"]")), "s.toml:13:9", "names drive `a` twice", "numjobs");
    assert_error(two(&job("7")), "s.toml:13:9", "`job.0.drive`: integer `7`", "the name of a drive");
    assert_error(two(&format!("{both}namespace = 2\n")), "s.toml:14:13", "`job.0.namespace`", "1");
    let named = |name: &str| parse(&format!("{}{both}", TWO.replace("\"b\"", name)), &[]);
    assert_error(named("\"a\""), "s.toml:6:8", "two drives are called `a`", "a name of its own");
    for wrong in ["\"all\"", "\"7\"", "\"a.b\"", "\"\""] {
        assert_error(named(wrong), "s.toml:6:8", "cannot be the name of a drive", "1 to 32");
    }
    let nameless = parse(&format!("{}{both}", TWO.replace("name = \"b\"\n", "")), &[]);
    assert_error(nameless, "s.toml:5:1", "`drive.1` has no name", "add `name");
    let copies = |lines: &str| parse(&format!("[[drive]]\nprofile = \"mqsim-mlc\"\n{lines}{both}"), &[]);
    assert_error(copies("copies = 2\n"), "s.toml:1:1", "`drive.0` has copies, but no name", "ssd0");
    assert_error(copies("name = \"s\"\ncopies = 257\n"), "s.toml:4:10", "`drive.0.copies`", "256");
    let lba = parse(&format!("{}{both}", TWO.replace("namespaces = 2", "lba_size = \"1 KiB\"")), &[]);
    assert_error(lba, "s.toml:8:12", "`drive.1.lba_size` = 1 KiB", "4 KiB");
    let small = parse(&format!("{}{both}", TWO.replace("4 GiB", "4 KiB")), &[]);
    assert_error(small, "s.toml:4:12", "`drive.0.capacity`", "1 GiB");
    let unknown = parse(&format!("{}{both}", TWO.replace("namespaces", "namespace")), &[]);
    assert_error(unknown, "s.toml:8:1", "unknown key `namespace` in `drive.1`", "`namespaces`");
    let lost = parse(&format!("{}{both}", TWO.replace("profile = \"mqsim-mlc\"\n", "")), &[]);
    assert_error(lost, "s.toml:5:1", "`drive.1` lacks the key `profile`", "profile = ...");
    assert_error(parse(&format!("drive = []\n{JOB}"), &[]), "s.toml:1:9", "no drive", "[drive]");
    let one = parse(&format!("{DRIVE}{}", job("\"a\"")), &[]);
    assert_error(one, "s.toml:6:9", "there is no drive `a`", "has no name");
    let few = TWO.replace("override.link.lanes = 2", "override.controller.max_io_queues = 16");
    let few = parse(&format!("{few}{both}numjobs = 20\n[host]\narbitration = \"weighted\"\n"), &[]);
    assert_error(
        few,
        "s.toml:14:11",
        "20 workers would share 16 queue pairs",
        "raise drive.1.override.controller.max_io_queues",
    );
}

// A drive named like a key would make `--set drive.capacity` ambiguous.
#[test]
fn no_drive_is_called_like_a_key() {
    let schema = serde_json::to_value(schemars::schema_for!(crate::file::DriveSection)).unwrap();
    let keys: Vec<&str> = schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    let mut listed = crate::drive::SECTION_KEYS.to_vec();
    listed.sort_unstable();
    assert_eq!(listed, keys, "a key that is missing could be a drive's name");
    for key in keys {
        let text = format!("{}{}", TWO.replace("\"b\"", &format!("{key:?}")), job("\"all\""));
        assert_error(parse(&text, &[]), "s.toml:6:8", "cannot be the name of a drive", "choose another");
    }
}

// `drive.a.capacity` would silently apply to the first section only.
#[test]
fn no_two_sections_have_one_name() {
    let text = format!("{}{}", TWO.replace("\"a\"\n", "\"b\"\ncopies = 2\n"), job("\"b\""));
    assert_error(parse(&text, &[]), "s.toml:7:8", "two drives are called `b`", "a name of its own");
}

// The remedy must be valid input: a copy has no section of its own.
#[test]
fn a_cure_names_the_section_of_copies() {
    let copies = "[[drive]]\nname = \"s\"\ncopies = 2\nprofile = \"mqsim-mlc\"\n";
    let weighted = "[host]\narbitration = \"weighted\"\n";
    let text = format!("{copies}{}numjobs = 900\n{weighted}", job("\"all\""));
    let wrong = parse(&text, &[]).unwrap_err();
    let key = "drive.0.override.controller.max_io_queues";
    assert!(wrong.help.contains(key) && wrong.help.contains("to 900"), "{wrong}");
    assert!(parse(&text, &[&format!("{key}=900")]).is_ok());
}

// If a job does not fit one of its drives, the message has to say which one.
#[test]
fn faults_of_one_of_several_drives_name_it() {
    let pairs = TWO.replace("namespaces = 2", "personality = \"kv\"");
    let kv = "[[kv]]\nworkload = \"fillrandom\"\ncount = 10\ndrive = \"all\"\n";
    let two = |drives: &str, jobs: &str| parse(&format!("{drives}{jobs}"), &[]);
    let large = format!("{}size = \"5 GiB\"\n", job("\"all\""));
    assert_error(two(TWO, &large), "s.toml:14:8", "the namespace of 4 GiB (on drive `a`)", "at most 4 GiB");
    assert_error(two(&pairs, kv), "s.toml:10:1", "has no KV namespace (on drive `a`)", "personality");
    assert_error(two(&pairs, &job("\"all\"")), "s.toml:10:1", "drive `b` with `personality", "[[kv]]");
    let sgl = TWO.replace("override.link.lanes = 2", "override.controller.sgl = true");
    let method = format!("{}[transfer]\nmethod = \"sgl\"\n", job("\"all\""));
    assert_error(two(&sgl, &method), "s.toml:15:10", "has no SGLs (on drive `a`)", "controller.sgl");
    let everywhere = two(TWO, &format!("{}bs = \"3 KiB\"\n", job("\"all\""))).unwrap_err();
    assert!(!everywhere.what.contains("on drive"), "{everywhere}");
}

// The note tells an idle drive's figures from those of a busy one.
#[test]
fn a_drive_without_a_job_is_told() {
    let scenario = parse(&format!("{TWO}{}", job("\"a\"")), &[]).unwrap();
    assert_eq!((scenario.notes(0), scenario.notes(1)), (vec![], vec!["no job uses it".to_owned()]));
}

// Jobs on namespaces with the same number on two drives do not conflict.
#[test]
fn a_tree_on_one_drive_leaves_the_other_alone() {
    let tree = "[[kv]]\nworkload = \"fillrandom\"\nvalue = \"128 B\"\ncount = 10\nengine = \"leveldb\"\ndrive = \"a\"\n";
    assert!(parse(&format!("{TWO}{}{tree}", job("\"b\"")), &[]).is_ok());
    let both = parse(&format!("{TWO}{}{tree}", job("\"all\"")), &[]);
    assert_error(both, "s.toml", "job `job0/a` uses namespace 1", "namespaces of their own");
}

// A served drive has its own file, and the file's name.
#[test]
fn a_device_file_has_one_drive() {
    let device = |text: &str| Device::from_text("d.toml", Path::new(""), text, &Options::default());
    let refused = |text: &str, what: &str| {
        let error = device(text).unwrap_err();
        assert!(error.what.contains(what) && error.place.is_some(), "{error}");
    };
    refused(TWO, "a device file has one drive");
    refused("[drive]\nname = \"a\"\nprofile = \"mqsim-mlc\"\n", "`drive.name`: a device file has one drive");
}
