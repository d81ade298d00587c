//! `report.html` as seen by a reader: in a browser, on a screen, on a phone and on paper.

mod plausible;

use crate::browser::{Browser, View};
use byteway_report::{Axis, Chart, Figure, Ink, Page, Section, Unit, run_report};
use byteway_results::results::Distribution;
use byteway_results::summary::ErrorRow;
use std::path::{Path, PathBuf};

const DESK: View = View { width: 1200, print: false, dark: false };
const TELEPHONE: View = View { width: 360, print: false, dark: false };
const NIGHT: View = View { width: 1200, print: false, dark: true };
/// A report is sent by e-mail, and archived in numbers.
const REPORT_BYTES_MAX: usize = 1_500_000;
/// A4 between the margins.
const PAPER: View = View { width: 680, print: true, dark: false };

fn written(folder: &Path, name: &str, html: &str) -> PathBuf {
    let file = folder.join(name);
    std::fs::write(&file, html).unwrap();
    file
}

// Correct code does not exclude an empty frame, a script error, or overlapping text.
#[test]
fn the_report_is_drawn_everywhere() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    // Screenshots for visual inspection, if requested.
    let pictures = std::env::var_os("BYTEWAY_PICTURES").map(PathBuf::from);
    for (name, results) in [("mixed", plausible::mixed()), ("reads", plausible::reads())] {
        let html = run_report(&plausible::scenario(), &results).render();
        let file = written(folder.path(), &format!("{name}.html"), &html);
        for (view_name, view) in
            [("desk", DESK), ("telephone", TELEPHONE), ("night", NIGHT), ("paper", PAPER)]
        {
            let mut shown = browser.open(&file, view);
            if view.print {
                shown.evaluate("window.dispatchEvent(new Event('beforeprint')); 0");
            }
            let figures = shown.inspect();
            assert!(figures >= if name == "mixed" { 17 } else { 12 }, "{name}: {figures} figures");
            if let Some(folder) = &pictures {
                std::fs::write(folder.join(format!("{name}-{view_name}.png")), shown.picture()).unwrap();
                std::fs::copy(&file, folder.join(format!("{name}.html"))).unwrap();
            }
            assert!(shown.complaints.is_empty(), "{name}, {view_name}:\n{}", shown.complaints.join("\n"));
        }
    }
}

// Charts printed from a wide window would keep its width and be cut off at the edge of the paper.
#[test]
fn the_report_prints() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let html = run_report(&plausible::scenario(), &plausible::mixed()).render();
    let file = written(folder.path(), "report.html", &html);
    let mut shown = browser.open(&file, View { dark: true, ..DESK });
    let widths =
        "[...document.querySelectorAll('svg.main-svg')].map((svg) => svg.getBoundingClientRect().width)";
    let before = shown.evaluate(widths);
    // The charts' size during print layout can only be queried then.
    shown.evaluate(
        "window.widest = 0; window.addEventListener('beforeprint', () => { \
         window.widest = Math.max(...document.querySelectorAll('svg.main-svg').values().map((svg) => \
         Number(svg.getAttribute('width')))); }); 0",
    );
    let pdf = shown.print();
    assert!(pdf.starts_with(b"%PDF"), "{:?}", &pdf[..pdf.len().min(8)]);
    let pages = pdf.windows(11).filter(|bytes| *bytes == b"/Type /Page").count();
    assert!((3..40).contains(&pages), "{pages} pages");
    let widest = shown.evaluate("window.widest").as_f64().unwrap();
    assert!((1.0..=680.0).contains(&widest), "charts of {widest} px were printed");
    let settled = "new Promise((done) => requestAnimationFrame(() => setTimeout(done, 300)))";
    shown.evaluate(settled);
    assert_eq!(shown.evaluate(widths), before, "printing has changed what is on the screen");
    assert!(shown.complaints.is_empty(), "{}", shown.complaints.join("\n"));
    if let Some(folder) = std::env::var_os("BYTEWAY_PICTURES") {
        std::fs::write(Path::new(&folder).join("report.pdf"), pdf).unwrap();
    }
}

// A check that cannot fail would pass a broken report.
#[test]
fn a_broken_report_is_found() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let chart = |points| {
        Chart::new(Axis::linear("time", Unit::Nanoseconds), Axis::linear("rate", Unit::Iops)).line(
            "a",
            Ink::nth(0),
            points,
        )
    };
    let page = |chart: Chart| Page {
        title: "broken".to_owned(),
        sections: vec![Section::new("one").figure(Figure::new("a figure", "", chart))],
        ..Page::default()
    };
    let whole = page(chart(vec![(0.0, 1.0), (1.0, 2.0)])).render();
    let hollow = page(chart(vec![(0.0, f64::NAN), (1.0, f64::NAN)])).render();
    let open = whole.replace("http-equiv=\"Content-Security-Policy\"", "name=\"policy\"");
    let with = |html: &str, script: &str| html.replace("</body>", &format!("{script}</body>"));
    let cases = [
        ("throws", with(&whole, "<script>throw new Error('a mistake')</script>"), "a mistake"),
        ("complains", with(&whole, "<script>console.error('a complaint')</script>"), "a complaint"),
        (
            "fetches",
            with(&open, "<script>fetch('http://127.0.0.1:9/').catch(() => 0)</script>"),
            "request: http",
        ),
        ("is forbidden to fetch", with(&whole, "<img src='http://127.0.0.1:9/a.png'>"), "127.0.0.1:9"),
        ("draws nothing", whole.replace("return Plotly.newPlot", "return 0 && Plotly.newPlot"), "not drawn"),
        ("has an empty figure", hollow, "a figure"),
        ("is too wide", with(&whole, "<div style='width: 5000px'>x</div>"), "px wide in a window"),
    ];
    let file = written(folder.path(), "whole.html", &whole);
    let mut shown = browser.open(&file, DESK);
    assert_eq!((shown.inspect(), shown.complaints.len()), (1, 0), "{:?}", shown.complaints);
    for (what, html, expected) in cases {
        assert_ne!(html, whole, "{what}");
        let file = written(folder.path(), "broken.html", &html);
        let mut shown = browser.open(&file, DESK);
        shown.inspect();
        let complaints = shown.complaints.join("\n");
        assert!(complaints.contains(expected), "a page that {what}: {complaints:?}");
    }
}

// Two runs of one scenario must be comparable by `cmp`, and text from names or scenarios must not become markup.
#[test]
fn the_page_is_the_same_twice_and_takes_no_markup() {
    let mut results = plausible::mixed();
    results.summary.notes.push("<script>alert('a & b')</script>".to_owned());
    results.distributions[0].job = "</script><b>".to_owned();
    let html = run_report(&plausible::scenario(), &results).render();
    assert_eq!(html, run_report(&plausible::scenario(), &results).render());
    assert!(!html.contains("alert('a & b')") && html.contains("alert('a &amp; b')"));
    assert_eq!(html.matches("</script>").count(), 3, "the charts, Plotly, and the page's own");
    assert!(html.len() <= REPORT_BYTES_MAX, "{} bytes", html.len());
    for part in [
        "samsung-970-pro",
        "polled",
        "virtual",
        "byteway run first.toml --set job.greedy.iodepth=16",
        "Write amplification",
        "seed 1",
    ] {
        assert!(html.contains(part), "{part:?} is missing");
    }
    let reads = run_report(&plausible::scenario(), &plausible::reads()).render();
    assert!(reads.contains("The host wrote nothing, so there is no write amplification"));
}

// A run that is interrupted immediately, or a drive served by another process, leaves most of it empty.
#[test]
fn a_report_of_next_to_nothing_is_a_report() {
    let mut results = plausible::reads();
    results.series.points.clear();
    results.distributions.clear();
    let summary = &mut results.summary;
    (summary.ios, summary.iops, summary.bytes_per_second, summary.elapsed_ns) = (0, 0.0, 0.0, 0.0);
    (summary.jobs, summary.partial, summary.flash) = (Vec::new(), true, None);
    summary.spans.clear();
    summary.link.clear();
    summary.utilisation.clear();
    summary.host_profile = None;
    summary.verification.mismatches = 2;
    summary.errors.push(ErrorRow { status: "LBA Out of Range".to_owned(), count: 3 });
    let html = run_report(&plausible::scenario(), &results).render();
    for part in [
        "Partial: the run was interrupted",
        "Data mismatch: 2 of",
        "3 commands failed",
        "No time series was recorded",
    ] {
        assert!(html.contains(part), "{part:?} is missing");
    }
    let Some(mut browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut shown = browser.open(&written(folder.path(), "report.html", &html), TELEPHONE);
    assert_eq!(shown.inspect(), 0);
    assert!(shown.complaints.is_empty(), "{}", shown.complaints.join("\n"));
}

// Thousands of dies and dozens of jobs must not result in a page of 100 MB, or a legend longer than its chart.
#[test]
fn a_large_run_is_a_page_that_opens() {
    let mut results = plausible::mixed();
    let jobs: Vec<_> = (0..40)
        .map(|index| {
            let mut job = results.summary.jobs[index % 2].clone();
            job.name = format!("job-{index}");
            job
        })
        .collect();
    results.series.jobs = jobs.iter().map(|job| job.name.clone()).collect();
    results.distributions = jobs
        .iter()
        .zip(results.distributions.iter().cycle())
        .map(|(job, found)| Distribution { job: job.name.clone(), ..found.clone() })
        .collect();
    for point in &mut results.series.points {
        point.jobs = point.jobs.iter().copied().cycle().take(40).collect();
        if let Some(drive) = &mut point.drive {
            drive.dies = drive.dies.iter().copied().cycle().take(4096).collect();
        }
    }
    results.summary.jobs = jobs;
    let html = run_report(&plausible::scenario(), &results).render();
    assert!(html.len() <= REPORT_BYTES_MAX, "{} bytes", html.len());
    for part in [
        "The figures are sums over 40 jobs",
        "33 more curves are omitted",
        "34 more jobs are omitted",
        "32 neighboring dies",
    ] {
        assert!(html.contains(part), "{part:?} is missing");
    }
    let Some(mut browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    for view in [DESK, TELEPHONE] {
        let mut shown = browser.open(&written(folder.path(), "report.html", &html), view);
        assert!(shown.inspect() > 17);
        assert!(shown.complaints.is_empty(), "{view:?}: {}", shown.complaints.join("\n"));
    }
}
