//! `[target]` and `[network]`: drives that a host reaches over a network.

use super::*;
use crate::profile::{NetworkProfile, Transport};

const HOST: &str = "[host]\nprofile = \"xeon-e5-v4\"\n";

/// A drive behind a target, with more lines of `[target]`; the section begins in line 5.
fn remote(target: &str, rest: &str) -> Result<Scenario, InputError> {
    parse(&format!("{DRIVE}{HOST}[target]\n{target}{rest}{JOB}"), &[])
}

fn plan(target: &str, rest: &str) -> TargetPlan {
    remote(target, rest).unwrap_or_else(|error| panic!("{error}")).target.expect("it has a target")
}

// A target with undocumented defaults would be another system in every result.
#[test]
fn a_target_gets_its_defaults() {
    assert!(parse(&format!("{DRIVE}{JOB}"), &[]).unwrap().target.is_none());
    let plan = plan("", "");
    assert_eq!((plan.network_name.as_str(), plan.profile_name.as_str()), ("roce-100g", "xeon-e5-v4"));
    assert_eq!((plan.path, plan.scheduler), (TargetPath::Block, BlockScheduler::None));
    assert_eq!((plan.network.transport, plan.profile.cores), (Transport::Rdma, 20));
}

// An override applied to the wrong end, or to none, would silently produce a wrong result.
#[test]
fn keys_reach_target_and_network() {
    let target = "path = \"block\"\nscheduler = \"mq-deadline\"\noverride.cores = 3\n";
    let network =
        "[network]\nprofile = \"tcp-100g\"\noverride.in_capsule = \"0 B\"\noverride.block.tags = 7\n";
    let plan = plan(target, network);
    assert_eq!((plan.path, plan.scheduler), (TargetPath::Block, BlockScheduler::MqDeadline));
    assert_eq!((plan.profile.cores, plan.network_name.as_str()), (3, "tcp-100g"));
    let NetworkProfile { transport, in_capsule, block, .. } = plan.network;
    assert_eq!((transport, in_capsule, block.tags), (Transport::Tcp, Bytes(0), 7));
    let text = format!("{DRIVE}{HOST}[target]\n{JOB}");
    let sets = ["target.path=bypass", "target.override.cores=2", "network.profile=tcp-100g"];
    let scenario = parse(&text, &sets).unwrap();
    let plan = scenario.target.unwrap();
    assert_eq!(
        (plan.path, plan.profile.cores, plan.network.transport),
        (TargetPath::Bypass, 2, Transport::Tcp)
    );
    assert_eq!(scenario.host.profile.cores, 20, "the host's own are its own");
}

// The message is all that a user has to find the mistake.
#[test]
fn mistakes_are_named_where_they_stand() {
    let network = |lines: &str| remote("", &format!("[network]\n{lines}\n"));
    let alone = parse(&format!("{DRIVE}[network]\nprofile = \"tcp-100g\"\n{JOB}"), &[]);
    assert_error(alone, "s.toml:3:1", "no target at its other end", "section [target]");
    assert_error(network("profile = \"tcp\""), "s.toml:7:11", "`tcp`", "tcp-100g");
    assert_error(network("override.rate = \"1 B/s\""), "s.toml:7:17", "`rate`", "");
    assert_error(
        network("override.in_capsule = \"20 B\""),
        "s.toml:7:23",
        "not a multiple of 16 B",
        "16 bytes",
    );
    assert_error(network("override.packet = \"64 B\""), "s.toml:7:19", "`packet`", "");
    assert_error(network("override.block.tags = 0"), "s.toml:7:23", "`block.tags`", "");
    assert_error(network("override.send = \"2 s\""), "s.toml:7:17", "`send`", "");
    assert_error(network("speed = 1"), "s.toml:7:1", "unknown key `speed` in `network`", "`profile`");
    assert_error(remote("profile = \"xeon\"\n", ""), "s.toml:6:11", "`xeon`", "xeon-e5-v4");
    assert_error(remote("override.cores = 0\n", ""), "s.toml:6:18", "`cores`", "");
    assert_error(remote("path = \"past\"\n", ""), "s.toml:6:8", "`past`", "`bypass`");
    assert_error(
        remote("paths = \"block\"\n", ""),
        "s.toml:6:1",
        "unknown key `paths` in `target`",
        "`path`",
    );
    let scheduled = remote("path = \"bypass\"\nscheduler = \"mq-deadline\"\n", "");
    assert_error(scheduled, "s.toml:7:13", "has no scheduler", "path = \"block\"");
    let with = |host: &str, drive: &str, rest: &str| {
        parse(&format!("{DRIVE}{drive}[host]\n{host}[target]\n{JOB}{rest}"), &[])
    };
    const XEON: &str = "profile = \"xeon-e5-v4\"\n";
    assert_error(with("", "", ""), "s.toml:3:1", "by interrupts", "\"xeon-e5-v4\"");
    assert_error(with("profile = \"linux-polled\"\n", "", ""), "s.toml:4:11", "by interrupts", "xeon");
    let weighted = with(&format!("{XEON}arbitration = \"weighted\"\n"), "", "");
    assert_error(weighted, "s.toml:5:15", "no weighted arbitration", "leave it out");
    let cosmos = |drive: &str, rest: &str| {
        let drive = format!("[drive]\nprofile = \"cosmos-plus\"\n{drive}");
        parse(&format!("{drive}{HOST}[target]\n{rest}"), &[])
    };
    let sink = cosmos("personality = \"sink\"\n", "[[job]]\nrw = \"write\"\nbs = \"64 B\"\ncount = 1\n");
    assert_error(sink, "s.toml:3:15", "only blocks are accessible", "leave [target] out");
    let pairs = "[[kv]]\nworkload = \"fillrandom\"\nvalue = \"64 B\"\ncount = 1\n";
    let bypassed = format!(
        "[drive]\nprofile = \"cosmos-plus\"\npersonality = \"kv\"\n{HOST}[target]\npath = \"bypass\"\n{pairs}"
    );
    assert!(parse(&bypassed, &[]).is_ok());
    let kv = cosmos("personality = \"kv\"\n", pairs);
    assert_error(kv, "s.toml:3:15", "only blocks are accessible", "leave [target] out");
    assert!(cosmos("", &format!("[transfer]\nmethod = \"inline\"\n{JOB}")).is_ok());
    let mmio = cosmos("", &format!("[transfer]\nmethod = \"mmio\"\n{JOB}"));
    assert_error(mmio, "s.toml:7:10", "in its command's capsule", "choose inline");
    let shares = |lines: &str| remote(lines, "");
    let bypass = "path = \"bypass\"\n";
    assert!(shares(&format!("{bypass}remote_outstanding = 1\nlocal_outstanding = 1024\n")).is_ok());
    assert_error(shares("remote_outstanding = 0\n"), "s.toml:6:22", "from 1 to 1023", "choose one");
    assert_error(
        shares(&format!("{bypass}local_outstanding = 1025\n")),
        "s.toml:7:21",
        "from 1 to 1024",
        "choose",
    );
    assert_error(shares("local_outstanding = 8\n"), "s.toml:6:21", "share its tags", "override.block.tags");
    let both = cosmos("kv_capacity = \"1 GiB\"\n", pairs);
    assert_error(both, "s.toml:3:15", "only blocks are accessible", "leave [target] out");
    for (numjobs, pairs) in [(63, 63), (64, 63)] {
        assert_eq!(with(XEON, "", &format!("numjobs = {numjobs}\n")).unwrap().queue_pairs(0), pairs);
    }
    // A mistake of a drive or job other than the first is reported at its location.
    let (first, second) =
        ("name = \"a\"\nprofile = \"p4500\"\n", "name = \"b\"\nprofile = \"cosmos-plus\"\n");
    let two = |lines: &str, jobs: &str| {
        parse(&format!("[[drive]]\n{first}[[drive]]\n{second}{lines}{HOST}[target]\n{jobs}"), &[])
    };
    let job = |drive: &str, lines: &str| format!("{JOB}drive = \"{drive}\"\n{lines}");
    let kv = two("kv_capacity = \"1 GiB\"\n", &job("a", ""));
    assert_error(kv, "s.toml:7:15", "`drive.1.kv_capacity`: over a network", "leave [target] out");
    // The drive has eight queue pairs; those of its hosts belong to the target.
    assert_eq!(two("", &job("b", "numjobs = 9\n")).unwrap().queue_pairs(1), 9);
}
