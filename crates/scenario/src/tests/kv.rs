//! `[[kv]]`, and drives that store key-value pairs.

use super::*;
use byteway_kv::Packing;
use byteway_workload::kv::{KvSource, Verb};

const KV: &str = "[drive]\nprofile = \"cosmos-plus\"\npersonality = \"kv\"\n";

fn with(lines: &str) -> Result<Scenario, InputError> {
    parse(&format!("{KV}[[kv]]\n{lines}"), &[])
}

// A silent change of a default changes what every key-value scenario that relies on it stores.
#[test]
fn the_least_job_gets_its_defaults() {
    let scenario = with("workload = \"w-m\"\ncount = 1000\n").unwrap();
    let job = &scenario.jobs[0];
    assert_eq!((job.name.as_str(), job.iodepth, job.workers, job.nsid, job.lba_bytes), ("kv0", 1, 1, 1, 1));
    let Source::Pairs(plan) = &job.source else { unreachable!() };
    assert_eq!((plan.keys, plan.key_bytes, plan.value_bytes_max()), (1000, 4, 1024));
    let KvSource::Draws(draws) = &plan.source else { unreachable!() };
    assert_eq!(draws.mix, [(Verb::Store, 1.0)]);
    assert_eq!(scenario.drives[0].plan.precondition, Base::Empty);
    assert_eq!(scenario.drives[0].plan.profile.kv.packing, Packing::Backfill);
    assert_eq!(scenario.command_count(), Some(1000));
    let other = parse(
        &format!("{KV}[[kv]]\nworkload = \"fillseq\"\nkeys = 70\nvalue = \"1 KiB\"\n"),
        &["drive.override.kv.packing=all", "kv.0.iodepth=3"],
    );
    let other = other.unwrap();
    assert_eq!((other.drives[0].plan.profile.kv.packing, other.jobs[0].iodepth), (Packing::All, 3));
    assert_eq!(other.command_count(), Some(70));
}

// Each of these would otherwise run with another meaning, run indefinitely, or not at all.
#[test]
fn what_contradicts_itself_is_named() {
    for (lines, what, help) in [
        ("workload = \"w-x\"\n", "w-x", "w-a"),
        ("workload = \"fillseq\"\nkeys = 10\n", "needs `value`", "value ="),
        ("workload = \"w-b\"\nvalue = \"8 B\"\ncount = 1\n", "`kv.0.value`", "leave it out"),
        ("workload = \"readrandom\"\nkeys = 10\n", "never ends", "count"),
        ("workload = \"readrandom\"\nruntime = \"1 ms\"\n", "neither `keys` nor `count`", "keys"),
        ("workload = \"w-m\"\ncount = 10\nkey_bytes = 17\n", "`kv.0.key_bytes` = 17", "1 to 16"),
        (
            "workload = \"w-m\"\ncount = 10\nkeys = 300\nkey_bytes = 1\n",
            "fewer than 300 keys of 1 B",
            "key_bytes",
        ),
        ("workload = \"w-a\"\nvalue = \"2 MiB\"\ncount = 1\n", "exceed the drive's maximum", "kv.value_max"),
        ("workload = \"ycsb\"\n", "needs `file`", "file ="),
        ("workload = \"ycsb\"\nfile = \"no-such-file\"\n", "no-such-file", "check the path"),
        (
            "workload = \"mixed\"\nkeys = 9\ncount = 9\nvalue = \"8 B\"\nshares = { store = -1 }\n",
            "no shares",
            "0.9",
        ),
        (
            "workload = \"mixed\"\nkeys = 9\ncount = 9\nvalue = \"8 B\"\nshares = { stores = 1 }\n",
            "stores",
            "store",
        ),
        ("workload = \"w-m\"\ncount = 10\niodepth = 256\n", "iodepth", "255"),
        ("workload = \"w-m\"\ncount = 10\nnamespace = 2\n", "namespace", "1 to 1"),
        ("workload = \"w-m\"\ncount = 10\nbulk_pairs = 0\n", "`kv.0.bulk_pairs` = 0", "1 to"),
        (
            "workload = \"w-m\"\ncount = 10\nbulk_bytes = \"1000 B\"\n",
            "1000 B is not possible",
            "from 1048 B",
        ),
        (
            "workload = \"w-m\"\ncount = 10\nbulk_bytes = \"1 GiB\"\n",
            "1 GiB is not possible",
            "controller.mdts",
        ),
        (
            "workload = \"readrandom\"\nkeys = 10\ncount = 10\nbulk_pairs = 9\n",
            "more than store pairs",
            "only stores",
        ),
        ("workload = \"w-a\"\nvalue = \"12 parsecs\"\ncount = 1\n", "parsecs", "B"),
    ] {
        let error = with(lines).unwrap_err();
        let shown = error.to_string();
        assert!(error.what.contains(what), "what {what:?} in: {shown}");
        assert!(error.help.contains(help), "help {help:?} in: {shown}");
        assert!(shown.starts_with("s.toml:"), "{shown}");
    }
}

// Block I/O to a key-value drive, and the reverse, would at best fail at the first command.
#[test]
fn pairs_and_blocks_are_asked_of_their_own_drives() {
    assert_error(parse(&format!("{KV}{JOB}"), &[]), "s.toml:4", "has no blocks", "[[kv]]");
    let text = format!("{DRIVE}[[kv]]\nworkload = \"w-m\"\ncount = 1\n");
    assert_error(parse(&text, &[]), "s.toml:3", "no KV namespace", "personality");
    assert_error(parse(KV, &[]), "s.toml", "no job", "[[kv]]");
    let text = format!("{KV}precondition = \"filled\"\n[[kv]]\nworkload = \"w-m\"\ncount = 1\n");
    assert_error(parse(&text, &[]), "s.toml:4", "begins empty", "leave it out");
    let text = format!("{KV}[[kv]]\nworkload = \"w-m\"\ncount = 1\n[transfer]\nmethod = \"piggyback\"\n");
    assert!(parse(&text, &[]).is_ok());
}

// With both block and KV namespaces, each job has to use a namespace of its kind.
#[test]
fn a_drive_of_blocks_may_have_pairs_behind_them() {
    const DRIVE: &str = "[drive]\nprofile = \"cosmos-plus\"\ncapacity = \"4 GiB\"\nnamespaces = 2\n";
    let blocks = "[[job]]\nrw = \"randwrite\"\ncount = 10\n";
    let pairs = "[[kv]]\nworkload = \"fillseq\"\nkeys = 70\nvalue = \"1 KiB\"\n";
    let scenario = parse(&format!("{DRIVE}kv_capacity = \"1 GiB\"\n{blocks}{pairs}"), &[]).unwrap();
    assert_eq!((scenario.jobs[0].nsid, scenario.jobs[1].nsid), (1, 3));
    assert_eq!((scenario.drives[0].plan.kv_bytes, scenario.drives[0].plan.pairs_nsids()), (1 << 30, 3..=3));
    let bytes = scenario.drives[0].plan.namespace_blocks * u64::from(scenario.drives[0].plan.lba_bytes);
    assert!((1400 << 20..=1536 << 20).contains(&bytes), "{bytes}");
    assert_eq!(scenario.drives[0].plan.precondition, Base::Empty);
    let wrong = |lines: &str, jobs: &str| parse(&format!("{DRIVE}{lines}{jobs}"), &[]).unwrap_err();
    assert!(wrong("", pairs).what.contains("the drive has no KV namespace"));
    assert!(wrong("kv_capacity = \"1 MiB\"\n", blocks).what.contains("kv_capacity"));
    assert!(wrong("kv_capacity = \"5 GiB\"\n", blocks).what.contains("kv_capacity"));
    let filled = "kv_capacity = \"1 GiB\"\nprecondition = \"filled\"\n";
    assert!(wrong(filled, blocks).what.contains("drive.precondition"));
    assert!(wrong("kv_capacity = \"1 GiB\"\npersonality = \"kv\"\n", pairs).what.contains("kv_capacity"));
    let other = "[[kv]]\nnamespace = 2\nworkload = \"fillseq\"\nkeys = 70\nvalue = \"1 KiB\"\n";
    assert!(wrong("kv_capacity = \"1 GiB\"\n", other).what.contains("namespace"));
}
