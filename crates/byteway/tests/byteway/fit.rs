//! `byteway fit` as a command: the jobs that it prints are jobs, and wrong input is refused before anything is simulated.

use crate::common::finish;
use byteway_scenario::{Options, Scenario};
use std::path::Path;
use std::process::{Command, Output};

fn byteway(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_byteway"));
    command.current_dir(folder).args(arguments).env("BYTEWAY_LOG", "error");
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

// Jobs that Byteway itself doesn't take could not be simulated to check a fit.
#[test]
fn the_jobs_run_and_their_results_are_measurements() {
    let folder = tempfile::tempdir().unwrap();
    let jobs =
        byteway(folder.path(), &["fit", "--jobs", "--runtime", "10ms", "--ramp", "1ms", "--size", "64m"]);
    let jobs = printed(&jobs);
    assert!(jobs.contains("DESTROY ALL DATA") && jobs.contains("filename=${DRIVE}"), "{jobs}");
    let sets = vec!["drive.override.controller.max_io_queues=128".to_owned()];
    let options = Options { sets, defines: vec!["DRIVE=any".to_owned()], ..Options::default() };
    let scenario = Scenario::from_text("fit.fio", folder.path(), &jobs, &options);
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
    let summary = finish(&scenario);
    assert!(summary.errors.is_empty() && summary.verification.mismatches == 0);
    assert!(summary.jobs.iter().all(|job| job.ios > 0), "{:?}", summary.jobs);
    std::fs::write(folder.path().join("fit.fio"), jobs).unwrap();
    let sets = ["--set", "drive.override.controller.max_io_queues=128", "--format", "fio", "--quiet"];
    let results =
        byteway(folder.path(), &[&["run", "fit.fio", "--define", "DRIVE=any"][..], &sets[..]].concat());
    let results: serde_json::Value = serde_json::from_str(&printed(&results)).unwrap();
    let first = &results["jobs"][2];
    assert_eq!(first["jobname"], "unwritten-randread-4k-qd1");
    assert_eq!(first["job options"]["rw"], "randread");
    assert!(first["read"]["lat_ns"]["mean"].as_f64().unwrap() > 1000.0, "{first}");
    assert!(first["read"]["clat_ns"]["percentile"]["50.000000"].as_f64().unwrap() > 1000.0, "{first}");
}

// A fit takes minutes: what is wrong must be said at once, with its place and what helps.
#[test]
fn wrong_input_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("point.csv", "rw,bs,iodepth,metric,value,unit\nrandread,4k,1,mean,90,us\n");
    write(
        "bad.json",
        "{\"jobs\": [{\"jobname\": \"a\", \"error\": 5, \"job options\": {\"rw\": \"read\"}}]}",
    );
    for (line, words) in [
        ("fit", "required"),
        ("fit --jobs point.csv", "cannot be used with"),
        ("fit absent.json", "absent.json"),
        ("fit bad.json", "`jobs[0].error`: fio ended this job with error 5"),
        ("fit point.csv --base p4501", "did you mean `p4500`"),
        ("fit point.csv --host linux", "there is no built-in host profile `linux`"),
        ("fit point.csv --hold-out other", "there is no point `other`"),
        ("fit point.csv --set drive.override.flash.reed=3", "reed"),
        ("fit point.csv --set drive.personality=sink --base cosmos-plus", "is not a drive of blocks"),
        ("fit --jobs --runtime 5ns", "is too short"),
        ("fit --jobs --size 4k", "is too small"),
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        let output = byteway(folder.path(), &arguments);
        assert_eq!(output.status.code(), Some(2), "{line}: {}", said(&output));
        assert!(said(&output).contains(words), "{line}: {}", said(&output));
    }
    // The only point is held out.
    let output = byteway(folder.path(), &["fit", "point.csv", "--hold-out", "randread 4k x 1"]);
    assert!(
        output.status.code() == Some(2) && said(&output).contains("none is left to fit"),
        "{}",
        said(&output)
    );
}

// A script that takes the profile of a fit must not get one that is off by a factor of ten as if it were the drive.
#[test]
fn a_fit_that_is_off_says_so_and_is_no_success() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let header = "name,rw,bs,iodepth,metric,value,unit\na,randread,4k,1,mean,80,us\n";
    write("good.csv", header);
    write("bad.csv", &format!("{header}b,randread,4k,2,mean,800,us\nc,randread,4k,4,mean,20,us\n"));
    let fit = |rest: &str| {
        let line = format!("fit {rest} --base wd-zn540 --hold-out none --quiet");
        byteway(folder.path(), &line.split(' ').collect::<Vec<_>>())
    };
    let good = printed(&fit("good.csv"));
    assert!(!good.contains("FAILED"), "{good}");
    let table = fit("bad.csv --out fitted");
    assert_eq!(table.status.code(), Some(2), "{}", said(&table));
    // The terminal's width breaks its lines.
    let shown = String::from_utf8_lossy(&table.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        shown.contains("FAILED: ") && shown.contains("`b` read mean -") && shown.contains("help: "),
        "{shown}"
    );
    for name in ["my-drive.toml", "fit.json", "report.html"] {
        let text = std::fs::read_to_string(folder.path().join("fitted").join(name)).unwrap();
        assert!(text.contains("FAILED: "), "{name}: {text}");
    }
    let profile = fit("bad.csv --format profile");
    assert_eq!(profile.status.code(), Some(2));
    assert!(said(&profile).starts_with("FAILED: "), "{}", said(&profile));
}
