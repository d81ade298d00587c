//! The live page in a browser.

use super::{address, watched};
use crate::browser::{Browser, Shown, View};
use crate::serve::{DRIVE, Process, Service, lines, number};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

/// What Plotly keeps of the sizes of texts that it has drawn, of 10,000 at most, and the browser of its script.
const CACHE_BYTES: u64 = 4 << 20;

const WIDE: View = View { width: 1280, print: false, dark: false };

/// All cells of the page's tables, by table.
const CELLS: &str = "[...document.querySelectorAll('#tables table')].map((table) => \
                     [...table.querySelectorAll('tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent)))";

fn digits(text: &Value) -> u64 {
    let text = text.as_str().unwrap();
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("{text}"))
}

// Figures that differ from the summary's would be of no use, and a page that cannot be drawn neither.
#[test]
fn its_figures_at_the_end_are_those_of_the_summary() {
    let Some(mut browser) = Browser::start() else { return };
    let mut service = watched(&["--set", "serve.timing=model"]);
    let url = format!("http://{}/", address(&service));
    let mut page = browser.open_at(&url, WIDE);
    let folder = service.folder.path().to_owned();
    let arguments =
        ["bench", "--vfio-user", "drive", "--rw", "randrw", "--runtime", "4s", "--size", "4m", "--quiet"];
    let mut bench = Process::start(&folder, "bench", &arguments);
    assert!(bench.wait().success(), "{}", bench.error());
    let begun = Instant::now();
    // Three samples, of 45 values each.
    while page.evaluate("byteway.kept()").as_u64() < Some(3 * 45) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", page.evaluate("document.body.innerText"));
        std::thread::sleep(Duration::from_millis(200));
    }
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 300)))");
    assert_eq!(page.inspect(), 8, "all charts are drawn");
    if let Some(path) = std::env::var_os("BYTEWAY_PICTURES") {
        std::fs::write(std::path::Path::new(&path).join("live.png"), page.picture()).unwrap();
        page.resize(View { dark: true, ..WIDE });
        page.evaluate("new Promise((done) => setTimeout(done, 1500))");
        std::fs::write(std::path::Path::new(&path).join("live-dark.png"), page.picture()).unwrap();
    }
    page.resize(View { width: 400, ..WIDE });
    page.evaluate("new Promise((done) => setTimeout(done, 1500))");
    page.inspect();

    service.process.signal(Signal::TERM);
    assert_eq!(service.process.wait().code(), Some(0), "{}", service.process.error());
    let served = lines(&service.process.out()).pop().unwrap();
    page.evaluate("new Promise((done) => setTimeout(done, 500))");
    let said = page.evaluate("document.getElementById('said').textContent");
    assert!(said.as_str().unwrap().starts_with("The drive has ended; figures of "), "{said}");
    let cells = page.evaluate(CELLS);
    let row = &cells[0][0];
    let counts = [&row[1], &row[2], &row[3], &row[5], &row[7]].map(digits);
    let expected = [
        number(&served["clients"]),
        number(&served["commands"]),
        number(&served["reads"]["commands"]),
        number(&served["writes"]["commands"]),
        number(&served["resets"]),
    ];
    assert_eq!(counts, expected, "{cells:#}");
    let link = served["link"].as_array().unwrap();
    let shown = cells[1].as_array().unwrap();
    for row in link {
        let crossings = number(&row["crossings"]);
        let is_it = |cells: &&Value| cells.as_array().unwrap().iter().any(|cell| *cell == row["purpose"]);
        let own: Vec<&Value> = shown.iter().filter(is_it).collect();
        let found = own.iter().any(|cells| {
            let mut numbers = cells
                .as_array()
                .unwrap()
                .iter()
                .filter(|cell| cell.as_str().unwrap().chars().any(|c| c.is_ascii_digit()));
            numbers.any(|cell| digits(cell) == crossings)
        });
        assert!(found, "{row} is not among {own:?}");
    }
    // The end of the connection is no defect of the page.
    page.complaints.retain(|complaint| !complaint.contains("/api/events") && !complaint.contains("ERR_"));
    assert_eq!(page.complaints, Vec::<String>::new());
}

// A page that stays at the figures of a server that has long been started again is worse than none.
#[test]
fn it_comes_back_with_the_server() {
    let Some(mut browser) = Browser::start() else { return };
    let first = watched(&["--set", "serve.timing=none"]);
    let at = address(&first);
    let mut page = browser.open_at(&format!("http://{at}/"), WIDE);
    let says = |page: &mut Shown<'_>, words: &str| {
        let begun = Instant::now();
        loop {
            let said = page.evaluate("document.getElementById('said').textContent");
            let said = said.as_str().unwrap().to_owned();
            if said.contains(words) {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(40), "it says `{said}`, not `{words}`");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    says(&mut page, "d serving");
    first.end();
    says(&mut page, "The drive has ended; figures of ");
    // As a proxy answers while the server behind it is started again: browsers do not ask again by themselves.
    let proxy = std::net::TcpListener::bind(&at).unwrap();
    let (mut asked, _) = proxy.accept().unwrap();
    let _ = asked.read(&mut [0; 4096]);
    asked.write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
    drop((asked, proxy));
    let second =
        Service::start(&[("d.toml", DRIVE)], &["d.toml", "--http", &at, "--set", "serve.timing=none"], 1);
    says(&mut page, "d serving");
    page.evaluate("byteway.stop()");
    says(&mut page, "d serving");
    second.end();
}

// Who opens the page because something has just happened saw nothing of it.
#[test]
fn it_shows_what_was_before_it_was_opened() {
    let Some(mut browser) = Browser::start() else { return };
    let service = watched(&["--set", "serve.timing=none"]);
    let url = format!("http://{}/", address(&service));
    let titles = "[...document.querySelectorAll('h3')].slice(0, 3).map((title) => title.textContent)";
    // Writes of all samples, each of which has a time of its own; and those of the last.
    let writes = "(() => { const { x, y } = document.querySelector('.chart').data[1]; \
                  return [y.reduce((sum, rate, at) => sum + rate * (at > 0 ? x[at] - x[at - 1] : 0), 0), y.at(-1)]; })()";
    std::thread::sleep(Duration::from_millis(2500));
    service.benched("drive", &["--rw", "write", "--count", "3000", "--size", "1m"]);
    std::thread::sleep(Duration::from_millis(2500));
    let mut page = browser.open_at(&url, WIDE);
    let begun = Instant::now();
    while page.evaluate("byteway.kept()").as_u64() == Some(0) {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(100));
    }
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 300)))");
    // What is looked at first stands first.
    assert_eq!(page.evaluate(titles), serde_json::json!(["I/Os", "Latency", "Write amplification"]));
    let found = page.evaluate(writes);
    assert!((found[0].as_f64().unwrap() - 3000.0).abs() < 1.0, "{found}");
    assert_eq!(found[1].as_f64(), Some(0.0), "what happened before is not what happens now");
    service.end();
}

// Names and hosts are chosen by others, and a page that is left open must not grow.
#[test]
fn an_hour_of_updates_does_not_grow_it() {
    let Some(mut browser) = Browser::start() else { return };
    let service = watched(&["--set", "serve.timing=none"]);
    let mut page = browser.open_at(&format!("http://{}/", address(&service)), WIDE);
    // The server's own updates would come in between.
    // All updates are drawn on demand, which takes minutes.
    let every = std::env::var("BYTEWAY_DRAW_EVERY").unwrap_or_else(|_| "40".to_owned());
    let play = |from: u32, to: u32| {
        format!(
            "(async () => {{
              const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
              for (let second = {from}; second < {to}; second++) {{
                const wave = 1000 + 500 * Math.sin(second / 7);
                byteway.show({{ server: 'another', tables: [{{ title: 'Served', header: ['drive', 'reads'], numbers_from: 1,
                  rows: [['<img src=x onerror=alert(1)>', String(second)]] }}],
                  drives: [{{ name: '<b>d</b>', state: 'serving', warnings: [], at_s: second, sample: {{
                    read_ios: wave, write_ios: 2 * wave, read_bytes: 4096 * wave, write_bytes: 8192 * wave,
                    read_median: 80000 + wave, read_p99: 200000 + wave, write_median: 20000, write_p99: 50000 + wave,
                    stage_median: Array(9).fill(1000 + wave), stage_p99: Array(9).fill(9000 + wave),
                    link_bytes: Array(14).fill(wave), depth: 8, outstanding: second % 32, write_amplification: 1.5,
                    write_amplification_total: 1.2 }} }}] }}, false);
                if (second % {every} === 0) await frame();
              }}
              await frame();
              return [byteway.kept(), document.getElementsByTagName('*').length];
            }})()"
        )
    };
    page.evaluate("byteway.stop()");
    // The first measure is of a page whose ten minutes are full, and whose script the browser has translated.
    let mut measures = Vec::new();
    for from in (0..4300).step_by(100) {
        let found = page.evaluate(&play(from, from + 100));
        if from % 900 == 600 {
            measures.push((found[0].as_u64().unwrap(), found[1].as_u64().unwrap(), page.heap_bytes()));
        }
    }
    eprintln!("after 700 updates, and each 900 more: points, elements and bytes of the script: {measures:?}");
    let (before, after) = (measures[0], measures[4]);
    let lines = 2 + 2 + 4 + 9 + 9 + 14 + 2 + 2;
    assert_eq!((before.0, after.0), (600 * (1 + lines), before.0), "points are kept for ten minutes");
    assert!(after.1 <= before.1 + before.1 / 20, "elements: {measures:?}");
    assert!(after.2 <= before.2 + CACHE_BYTES, "bytes of the script: {measures:?}");
    let text = page.evaluate("document.getElementById('tables').textContent");
    assert!(text.as_str().unwrap().contains("<img src=x onerror=alert(1)>"), "names are text: {text}");
    assert_eq!(page.evaluate("document.querySelectorAll('#tables img, #drive b').length"), 0);
    assert_eq!(page.complaints, Vec::<String>::new());
    service.end();
}
