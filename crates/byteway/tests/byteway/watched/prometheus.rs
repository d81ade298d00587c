//! A real Prometheus scrapes a drive that is written to, and answers what the Grafana dashboard asks.

use super::http::get;
use super::{address, watched};
use crate::serve::Process;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn dashboard() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/grafana/byteway.json");
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// All queries of the dashboard, with its variables replaced as Grafana does for "All" and a short interval.
fn queries() -> Vec<String> {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let replaced = |target: &Value| {
        let query = target["expr"].as_str().unwrap().replace("$__rate_interval", "4s");
        ["$drive", "$namespace", "$host"].iter().fold(query, |query, name| query.replace(name, ".*"))
    };
    let queries: Vec<String> = targets.map(replaced).collect();
    assert!(queries.len() > 30 && queries.iter().all(|query| !query.contains('$')), "{queries:?}");
    queries
}

/// Names of all samples that the dashboard's queries and variables use.
pub fn metrics_of_dashboard() -> BTreeSet<String> {
    let text = dashboard().to_string();
    let parts = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    parts.filter(|part| part.starts_with("byteway_")).map(str::to_owned).collect()
}

/// Prometheus, ended on drop.
struct Prometheus {
    child: Child,
    address: String,
}

impl Prometheus {
    /// Starts one that scrapes `target` each second. `None`, with a message on stderr, if there is none, unless
    /// `BYTEWAY_PROMETHEUS` is `required`.
    fn start(folder: &Path, target: &str) -> Option<Prometheus> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found =
            std::env::split_paths(&path).map(|folder| folder.join("prometheus")).find(|file| file.is_file());
        let Some(program): Option<PathBuf> = found else {
            let what = "prometheus is not in PATH: the metrics and the dashboard were not tried with it";
            byteway_testkit::needs::missing(what, byteway_testkit::needs::is_required("BYTEWAY_PROMETHEUS"));
            return None;
        };
        let config = format!(
            "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: byteway\n    static_configs:\n      - targets: ['{target}']\n"
        );
        std::fs::write(folder.join("prometheus.yml"), config).unwrap();
        // Any free port: another process may take it in between, and then this fails.
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let child = Command::new(program)
            .arg(format!("--config.file={}", folder.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("tsdb").display()))
            .arg(format!("--web.listen-address={free}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.join("prometheus.log")).unwrap())
            .spawn()
            .unwrap();
        Some(Prometheus { child, address: free.to_string() })
    }

    /// The result of an instant query; `None` while it does not answer.
    fn query(&self, query: &str) -> Option<Vec<Value>> {
        std::net::TcpStream::connect(&self.address).ok()?;
        let escaped: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let reply = get(&self.address, &format!("/api/v1/query?query={escaped}"));
        let answer: Value = serde_json::from_str(&reply.body).ok()?;
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        Some(answer["data"]["result"].as_array().unwrap().clone())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// A scrape that Prometheus refuses, or a query that it does not understand, is found by no other test.
#[test]
fn prometheus_answers_the_dashboard() {
    let service = watched(&["--set", "serve.timing=model"]);
    let folder = service.folder.path().to_owned();
    let Some(prometheus) = Prometheus::start(&folder, &address(&service)) else { return };
    let arguments =
        ["bench", "--vfio-user", "drive", "--rw", "randrw", "--iodepth", "8", "--runtime", "100s"];
    let _bench = Process::start(&folder, "long", &[&arguments[..], &["--size", "8m", "--quiet"]].concat());
    let begun = Instant::now();
    let queries = queries();
    let mut empty: Vec<&String> = queries.iter().collect();
    while !empty.is_empty() {
        std::thread::sleep(Duration::from_secs(1));
        empty.retain(|query| prometheus.query(query).is_none_or(|found| found.is_empty()));
        let log = std::fs::read_to_string(folder.join("prometheus.log")).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(60), "without an answer: {empty:#?}\n{log}");
    }
    let up = prometheus.query("up{job=\"byteway\"}").unwrap();
    assert_eq!(up[0]["value"][1], "1");
    // What it has stored are the types that the metrics have.
    let metadata: Value = serde_json::from_str(&get(&prometheus.address, "/api/v1/metadata").body).unwrap();
    for (name, kind, _) in byteway_watch::metrics::NAMES {
        let kind = format!("{kind:?}").to_lowercase();
        assert_eq!(metadata["data"][name][0]["type"], kind.as_str(), "{name}: {metadata:#}");
    }
    let reads =
        prometheus.query("sum(rate(byteway_ios_total{verb=\"read\",host=\"vfio-user\"}[4s]))").unwrap();
    let rate: f64 = reads[0]["value"][1].as_str().unwrap().parse().unwrap();
    assert!(rate > 1.0, "{reads:?}");
}
