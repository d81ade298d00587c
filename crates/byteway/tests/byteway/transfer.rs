//! Transfer of payloads, from scenario to figures: every method by its own path and cost, with counted fallbacks, and the thresholds in the
//! profiles.

use crate::common::run;
use byteway_explore::compare::{CompareOptions, Comparison, Fact, Plan, Reach, Request, run_all};
use byteway_explore::threshold::{measure, to_toml};
use byteway_results::summary::{Summary, TransferSummary};
use byteway_run::probe::probe;
use byteway_scenario::{Options, Scenario};
use byteway_text::interrupt::Interrupt;
use byteway_text::progress::Hidden;
use byteway_transfer::Method;
use std::path::{Path, PathBuf};

fn sink(method: &str, job: &str, more: &str) -> Summary {
    run(&format!(
        "[drive]\nprofile = 'cosmos-plus'\npersonality = 'sink'\ncapacity = '1 GiB'\noverride.controller.sgl = true\n{more}\n\
         [host]\nprofile = 'cosmos'\n[transfer]\nmethod = '{method}'\n[[job]]\n{job}\n"
    ))
}

fn small_payloads() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/small-payloads.toml")
}

fn transfer(summary: &Summary) -> &TransferSummary {
    summary.transfer.as_ref().expect("a sink says how payloads crossed")
}

fn ways(summary: &Summary) -> Vec<(&str, u64)> {
    transfer(summary).ways.iter().map(|row| (row.way.as_str(), row.payloads)).collect()
}

fn mean_us(summary: &Summary) -> f64 {
    summary.spans.iter().map(|row| row.mean_ns).sum::<f64>() / 1e3
}

fn wire(summary: &Summary) -> u64 {
    summary.link.iter().map(|row| row.wire_bytes).sum::<u64>() / summary.ios
}

// A method that silently used PRP would show PRP's figures under its own name.
#[test]
fn every_method_goes_its_own_way() {
    // Records are for key-value pairs only.
    let methods = Method::ALL.map(Method::name);
    for method in methods.into_iter().filter(|method| *method != "cxl-commit") {
        let memory = if method.contains("cxl") {
            "[drive.override.cxl]\nflit = '68 B'\nmemory_latency = '80 ns'"
        } else {
            ""
        };
        let found = sink(method, "rw = 'randrw'\nbs = '100 B'\ncount = 400\niodepth = 4", memory);
        let writes = found.jobs[0].write.as_ref().expect("there were writes").ios;
        let way = match method {
            // 100 B are below the threshold; and a hybrid without a whole page is inline.
            "adaptive" | "hybrid" => "inline",
            // It needs more than one command.
            "piggyback-cxl" => "cxl-mem",
            method => method,
        };
        let reads = found.jobs[0].read.as_ref().expect("there were reads").ios;
        assert_eq!(ways(&found), [(way, writes), ("pointer results", reads)], "{method}");
        assert_eq!(transfer(&found).fallbacks, 0, "{method}");
        assert_eq!((found.errors.len(), found.verification.mismatches), (0, 0), "{method}");
    }
}

// The papers' totals, as the sum of the profile's constants (calibration: O, D, c, X).
#[test]
fn sixty_four_bytes_cost_what_the_board_takes() {
    let job = "rw = 'randwrite'\nbs = '64 B'\ncount = 100";
    for (method, us, wire_bytes) in
        [("prp", 5.08, 4840), ("sgl", 3.99, 340), ("piggyback", 8.235, 464), ("inline", 3.09, 340)]
    {
        let found = sink(method, job, "");
        assert!((mean_us(&found) - us).abs() < 0.006, "{method}: {}", mean_us(&found));
        assert_eq!(wire(&found), wire_bytes, "{method}");
    }
}

// A train that can never fit must use another method, be counted, and be reported.
#[test]
fn what_cannot_fit_falls_back_and_is_counted() {
    let found = sink(
        "inline",
        "rw = 'randwrite'\nbs = '200 B'\ncount = 50",
        "override.controller.max_queue_entries = 4",
    );
    assert_eq!(ways(&found), [("prp", 50)]);
    assert_eq!(transfer(&found).fallbacks, 50);
    assert!(found.to_tables().contains("50 of them by the fallback"), "{}", found.to_tables());
    let found = sink("inline", "rw = 'randwrite'\nbs = '9 KiB'\ncount = 50", "");
    assert_eq!((ways(&found), transfer(&found).fallbacks), (vec![("prp", 50)], 50));
}

// The threshold is the first payload size that uses PRP.
#[test]
fn adaptive_changes_over_at_its_threshold() {
    for (bytes, way) in [(256, "inline"), (257, "prp")] {
        let found = sink("adaptive", &format!("rw = 'randwrite'\nbs = '{bytes} B'\ncount = 20"), "");
        assert_eq!((ways(&found), transfer(&found).fallbacks), (vec![(way, 20)], 0));
    }
}

// Results by each return path; one that is too long for a completion queue's entries uses the data pointer.
#[test]
fn results_come_back_as_asked() {
    let read = |result: &str, bytes: u32| {
        run(&format!(
            "[drive]\nprofile = 'cosmos-plus'\npersonality = 'sink'\ncapacity = '1 GiB'\n[host]\nprofile = 'cosmos'\n\
             [transfer]\nresult = '{result}'\n[[job]]\nrw = 'randrw'\nbs = '{bytes} B'\ncount = 100"
        ))
    };
    for (result, bytes, way, fallbacks) in [
        ("pointer", 64, "pointer results", false),
        ("rounded", 64, "pointer results", false),
        ("inline", 64, "inline results", false),
        ("inline", 2000, "pointer results", true),
    ] {
        let found = read(result, bytes);
        let reads = found.jobs[0].read.as_ref().expect("there were reads").ios;
        assert!(ways(&found).contains(&(way, reads)), "{result}: {:?}", ways(&found));
        assert_eq!(transfer(&found).result_fallbacks, if fallbacks { reads } else { 0 }, "{result}");
    }
}

// A threshold that no longer matches the profile's constants would affect every adaptive run.
#[test]
fn thresholds_of_the_profiles_are_what_is_measured() {
    for profile in [
        "cosmos-plus",
        "cosmos-plus-gen3x4",
        "cosmos-plus-gen4x4",
        "cosmos-plus-gen5x8",
        "cosmos-plus-gen6x8",
        "bandslim-gen5x8",
        "modern-gen5",
    ] {
        let sets = vec![format!("drive.profile={profile}")];
        let scenario = Scenario::load(&small_payloads(), &Options { sets, ..Options::default() }).unwrap();
        let found = measure(&scenario, &Interrupt::default()).unwrap();
        let stored = scenario.drives[0].plan.profile.transfer.threshold.clone();
        let methods = 5 + usize::from(scenario.drives[0].plan.profile.cxl.is_some());
        assert_eq!((found.found.len(), found.missing.len()), (methods, 0), "{profile}");
        for threshold in &found.found {
            let wanted = stored.of(threshold.fine).map(|bytes| bytes.0 as u32);
            assert_eq!(Some(threshold.bytes), wanted, "{profile}: {threshold:?}");
        }
        assert!(to_toml(&scenario, &found, &[]).contains("[transfer.threshold]\npiggyback = \""));
    }
}

fn compare(varies: [&str; 2]) -> Comparison {
    let request = Request {
        scenario: small_payloads().into(),
        varies: varies.map(str::to_owned).to_vec(),
        baseline: Some("method=prp".to_owned()),
        options: Options { sets: vec!["job.0.count=20".to_owned()], ..Options::default() },
        ..Request::default()
    };
    let plan = Plan::load(&request).expect("the comparison can be planned");
    let (interrupt, bar) = (Interrupt::default(), Hidden);
    let options = CompareOptions { threads: 2, store: None, fresh: false, interrupt: &interrupt, bar: &bar };
    let outcomes = run_all(&plan, &options).expect("it runs").outcomes;
    Comparison::new(plan, outcomes, &|scenario| probe(scenario, &interrupt))
}

// Beyond its limit a method's runs are PRP's: inline would seem to recover at 16 KiB, and to beat mmio.
#[test]
fn a_comparison_concludes_nothing_from_fallbacks() {
    let comparison = compare(["method=prp,inline,mmio", "bs=64 B,4 KiB,16 KiB"]);
    let texts: Vec<&str> = comparison.findings.iter().map(|finding| finding.text.as_str()).collect();
    let said = "payloads used the fallback because their method could not carry them: method=inline, bs=16 KiB (20 of 20);";
    assert!(texts.iter().any(|text| text.starts_with(said)), "{texts:#?}");
    assert!(!texts.iter().any(|text| text.starts_with("inline overtakes")), "{texts:#?}");
    assert!(texts.iter().any(|text| text.starts_with("inline beats prp up to 256 B in")), "{texts:#?}");
}

// The main conclusion of a comparison, with its sizes to the byte.
#[test]
fn a_comparison_says_up_to_which_size_a_method_pays() {
    let comparison = compare(["method=prp,sgl,inline", "bs=64 B..4 KiB x2"]);
    let texts: Vec<&str> = comparison.findings.iter().map(|finding| finding.text.as_str()).collect();
    let wanted = "inline beats prp up to 256 B in mean latency; it transfers fewer bytes on the wire up to 2,688 B, and \
                  fewer payload bytes up to 4,032 B (to the byte, by runs in between)";
    assert!(texts.contains(&wanted), "{texts:#?}");
    let gain = comparison.findings.iter().find_map(|finding| match finding.fact {
        Fact::Gain { bytes, prp_ns, sgl_ns, inline_ns, .. } => Some((bytes, prp_ns, sgl_ns, inline_ns)),
        _ => None,
    });
    let (bytes, prp_ns, sgl_ns, inline_ns) = gain.expect("prp, sgl and inline are compared");
    assert!(bytes == 64 && prp_ns > sgl_ns && sgl_ns > inline_ns, "{texts:#?}");
    let sgl = comparison.findings.iter().any(|finding| {
        matches!(&finding.fact, Fact::Reach { method, latency, .. } if method == "sgl" && *latency == Reach::UpTo(4095))
    });
    assert!(sgl, "{texts:#?}");
    assert!(comparison.to_table().contains("completions by interrupt"));
}

// A statement must not claim more than was compared: blocks that were only written prove nothing, nor do bytes that were read while being
// written.
#[test]
fn what_is_said_of_verification_is_what_was_compared() {
    let by_blocks = run("[drive]\nprofile = 'cosmos-plus'\n[transfer]\nmethod = 'inline'\n\
         [[job]]\nrw = 'randwrite'\nbs = '4 KiB'\ncount = 20\n");
    assert_eq!(ways(&by_blocks), [("inline", 20)]);
    assert!(by_blocks.to_tables().contains("No reads, so nothing was verified"));
    let alone = sink("inline", "rw = 'randrw'\nbs = '100 B'\ncount = 400", "");
    assert!(alone.to_tables().contains("every payload by the drive's checksum"));
    assert!(!alone.to_tables().contains("by checksum only"), "{}", alone.to_tables());
    let crowded = sink("inline", "rw = 'randrw'\nbs = '100 B'\nsize = '400 B'\niodepth = 8\ncount = 400", "");
    assert!(crowded.notes.iter().any(|note| note.contains("by checksum only")), "{:?}", crowded.notes);
}

// Payload that is read or posted together with an entry has no packet of its own: if it were omitted, it would cross for free, and inline
// would save too much.
#[test]
fn payload_that_shares_a_packet_is_counted() {
    let bytes =
        |summary: &Summary| summary.link.iter().map(|row| row.payload_bytes).sum::<u64>() / summary.ios;
    let of = |purpose: &str, summary: &Summary| -> u64 {
        let rows = summary.link.iter().filter(|row| row.purpose == purpose);
        rows.map(|row| row.payload_bytes).sum::<u64>() / summary.ios
    };
    let burst =
        run("[drive]\nprofile = 'modern-gen5'\npersonality = 'sink'\n[transfer]\nmethod = 'inline'\n\
         [[job]]\nrw = 'randwrite'\nbs = '64 B'\ncount = 50\n");
    assert_eq!((of("inline chunk", &burst), bytes(&burst)), (64, 64 + 64 + 16 + 8));
    assert!(burst.to_tables().contains("inline chunk"), "{}", burst.to_tables());
    let results = run("[drive]\nprofile = 'cosmos-plus'\npersonality = 'sink'\n[host]\nprofile = 'cosmos'\n\
         [transfer]\nresult = 'inline'\n[[job]]\nrw = 'randread'\nbs = '256 B'\ncount = 50\n");
    assert_eq!((of("data", &results), bytes(&results)), (19 * 16, 64 + 16 + 19 * 16 + 8 + 4));
}

// The drive's buffer for stores is shared by all outstanding payloads: allocated in pages, it would suffice for a few.
#[test]
fn short_stores_share_the_drives_buffer() {
    let found = sink("mmio", "rw = 'randwrite'\nbs = '64 B'\ncount = 300\niodepth = 64", "");
    assert_eq!((ways(&found), transfer(&found).fallbacks), (vec![("mmio", 300)], 0));
}
