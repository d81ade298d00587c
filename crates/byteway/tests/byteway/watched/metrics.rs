//! Metrics and health of served drives, against the summary at the end.

use super::http::{get, samples, sum};
use super::{address, watched};
use crate::serve::{DRIVE, Process, Service, byteway, lines, number};
use rustix::process::Signal;
use serde_json::Value;
use std::time::Duration;

/// The metrics of a drive whose figures are not from before: it publishes once a second.
fn settled(address: &str) -> String {
    std::thread::sleep(Duration::from_millis(1100));
    let reply = get(address, "/metrics");
    assert_eq!(reply.status, 200);
    assert!(
        reply.head.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{}",
        reply.head
    );
    assert!(reply.body.ends_with("# EOF\n"));
    reply.body
}

fn are_as_summed_up(timing: &str) {
    let service = watched(&["--set", &format!("serve.timing={timing}")]);
    let at = address(&service);
    let health: Value = serde_json::from_str(&get(&at, "/health").body).unwrap();
    assert_eq!((&health["status"], &health["drives"][0]["state"]), (&"ok".into(), &"serving".into()));
    let arguments = ["--rw", "randrw", "--iodepth", "8", "--count", "3000", "--size", "2m"];
    let result = service.benched("drive", &arguments);
    let text = settled(&at);
    let served = &service.end()[0];
    for (verb, key) in [("read", "reads"), ("write", "writes")] {
        let labels = ["drive=\"d\"", "host=\"vfio-user\"", "namespace=\"1\"", &format!("verb=\"{verb}\"")];
        assert_eq!(
            sum(&text, "byteway_ios_total", &labels),
            number(&served[key]["commands"]) as f64,
            "{verb}"
        );
        assert_eq!(
            sum(&text, "byteway_io_bytes_total", &labels),
            number(&served[key]["bytes"]) as f64,
            "{verb}"
        );
        assert_eq!(
            sum(&text, "byteway_io_latency_seconds_count", &labels),
            number(&served[key]["commands"]) as f64,
            "every command has a latency"
        );
    }
    assert_eq!(sum(&text, "byteway_clients_total", &[]), number(&served["clients"]) as f64);
    // After its last I/O the client only leaves.
    for row in served["link"].as_array().unwrap().iter().filter(|row| row["purpose"] == "data") {
        let labels = ["purpose=\"data\"", &format!("direction=\"{}\"", row["direction"].as_str().unwrap())];
        for (metric, key) in
            [("payload_bytes", "payload_bytes"), ("wire_bytes", "wire_bytes"), ("tlps", "crossings")]
        {
            let counted = sum(&text, &format!("byteway_link_{metric}_total"), &labels);
            assert_eq!(counted, number(&row[key]) as f64, "{labels:?} {metric}");
        }
    }
    // The stages of all commands sum to their latency, but for what is less than the digits of a sample.
    let stages = sum(&text, "byteway_stage_latency_seconds_sum", &[]);
    let latency = sum(&text, "byteway_io_latency_seconds_sum", &[]);
    assert!((stages - latency).abs() <= 1e-9 * latency.max(1e-6), "{stages} and {latency}");
    assert_eq!(sum(&text, "byteway_outstanding_commands", &[]), 0.0);
    assert_eq!(sum(&text, "byteway_up", &["drive=\"d\""]), 1.0);
    match timing {
        "model" => {
            assert!(sum(&text, "byteway_modeled_waits_total", &[]) > 1000.0);
            // A read of flash takes what the profile says, whatever the machine does.
            let flash = ["verb=\"read\"", "stage=\"flash\""];
            let reads = sum(&text, "byteway_stage_latency_seconds_count", &flash);
            let mean = sum(&text, "byteway_stage_latency_seconds_sum", &flash) / reads;
            assert!(reads > 0.0 && mean > 20e-6 && mean < 10e-3, "{reads} reads of {mean} s");
            // No command is faster at the drive than its host has found.
            let count = sum(&text, "byteway_io_latency_seconds_count", &["verb=\"read\""]);
            let drive = sum(&text, "byteway_io_latency_seconds_sum", &["verb=\"read\""]) / count * 1e9;
            let host = result["jobs"][0]["read"]["latency"]["mean_ns"].as_f64().unwrap();
            assert!(drive < host && drive > 20_000.0, "{drive} ns at the drive, {host} ns at its host");
        }
        _ => assert_eq!(samples(&text, "byteway_modeled_waits_total"), []),
    }
    assert!(samples(&text, "byteway_ios_total").iter().all(|sample| sample.0.contains("host=")), "{text}");
}

// A metric that counts something else than the summary would make one of them wrong.
#[test]
fn metrics_are_those_of_the_summary_in_modeled_time() {
    are_as_summed_up("model");
}

// Commands that are executed as they are fetched take another way.
#[test]
fn metrics_are_those_of_the_summary_as_fast_as_can_be() {
    are_as_summed_up("none");
}

// Over NVMe/TCP all hosts share a queue pair of the drive: only the target can tell them apart.
#[test]
fn hosts_over_tcp_have_their_names() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("d.toml"), DRIVE).unwrap();
    let arguments = ["serve", "d.toml", "--tcp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--format", "json"];
    let mut process = Process::start(folder.path(), "serve", &arguments);
    let ready = process.until("is ready", |process| lines(&process.out()).first().cloned());
    let at = ready["http"].as_str().unwrap().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let target = format!("127.0.0.1:{}", ready["port"]);
    let nqn = ready["subsystem_nqn"].as_str().unwrap();
    for count in ["100", "250"] {
        let bench = byteway(folder.path())
            .args([
                "bench",
                "--tcp",
                &target,
                "--subsystem",
                nqn,
                "--rw",
                "write",
                "--bs",
                "64k",
                "--size",
                "1m",
            ])
            .args(["--count", count, "--quiet"])
            .output()
            .unwrap();
        assert!(bench.status.success(), "{}", String::from_utf8_lossy(&bench.stderr));
    }
    let text = settled(&at);
    process.signal(Signal::TERM);
    assert_eq!(process.wait().code(), Some(0), "{}", process.error());
    let served = lines(&process.out()).pop().unwrap();
    let all = sum(&text, "byteway_ios_total", &["verb=\"write\""]);
    assert_eq!(all, number(&served["writes"]["commands"]) as f64);
    assert_eq!(
        sum(&text, "byteway_io_bytes_total", &["verb=\"write\""]),
        number(&served["writes"]["bytes"]) as f64
    );
    let labels = ["verb=\"write\"", "host=\"nqn.2026-11.org.byteway:bench\"", "namespace=\"1\""];
    assert_eq!(sum(&text, "byteway_io_bytes_total", &labels), 350.0 * 65_536.0, "{text}");
    assert_eq!(sum(&text, "byteway_io_latency_seconds_count", &labels), 350.0);
    assert_eq!(sum(&text, "byteway_clients_total", &[]), 2.0);
    assert_eq!(samples(&text, "byteway_ios_total").len(), 2, "one host, reads and writes");
    let stages = sum(&text, "byteway_stage_latency_seconds_sum", &[]);
    let latency = sum(&text, "byteway_io_latency_seconds_sum", &[]);
    assert!(latency > 0.0 && (stages - latency).abs() <= 1e-9 * latency, "{stages} and {latency}");
}

// Figures that were published for somebody who did not wait are old when the next one asks.
#[test]
fn figures_are_those_of_the_moment() {
    let service = watched(&["--set", "serve.timing=none"]);
    let at = address(&service);
    for pause in [950, 955, 970] {
        get(&at, "/metrics");
        std::thread::sleep(Duration::from_millis(pause));
        let mut gone = super::http::connect(&at);
        std::io::Write::write_all(
            &mut gone,
            format!("GET /metrics HTTP/1.1\r\nHost: {at}\r\n\r\n").as_bytes(),
        )
        .unwrap();
        std::thread::sleep(Duration::from_millis(10));
        drop(gone);
        let before = sum(&settled(&at), "byteway_ios_total", &[]);
        service.benched("drive", &["--rw", "write", "--count", "300", "--size", "1m"]);
        let after = sum(&settled(&at), "byteway_ios_total", &[]);
        // The client reads partition tables and the like, too.
        assert!(after >= before + 300.0, "{before} and {after}");
    }
    service.end();
}

// What cannot be listened at has to be said before a drive is opened.
#[test]
fn an_address_that_cannot_be_used_is_wrong_input() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("d.toml"), DRIVE).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let _held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let held = _held.local_addr().unwrap().to_string();
    drop(taken);
    for (address, said) in [
        (held.as_str(), "name a free port with --http"),
        ("192.0.2.1:9100", "name an address of this machine with --http"),
        ("70000", "is not a port from 0 to 65535"),
        ("127.0.0.1", "write a port, such as 9100"),
    ] {
        let output = byteway(folder.path())
            .args(["serve", "d.toml", "--vfio-user", "drive", "--data", "data", "--http", address])
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{address}: {error}");
        assert!(error.contains(said) && error.contains(address), "{address}: {error}");
        assert!(!folder.path().join("data").exists(), "{address}: nothing is begun");
    }
}

// A page without authentication that is open to the network must say so.
#[test]
fn an_address_beyond_this_machine_is_said() {
    let service = Service::start(&[("d.toml", DRIVE)], &["d.toml", "--http", "0.0.0.0:0"], 1);
    assert_eq!(service.ready[0]["http_any_host"], true);
    let port = address(&service).rsplit_once(':').unwrap().1.to_owned();
    let at = format!("127.0.0.1:{port}");
    let request = "GET /health HTTP/1.1\r\nHost: drives.example\r\nConnection: close\r\n\r\n";
    assert_eq!(super::http::ask(&at, request).status, 200, "it may be reached by any name");
    service.end();
    let watched = watched(&[]);
    assert_eq!(watched.ready[0]["http_any_host"], false);
    assert!(address(&watched).starts_with("127.0.0.1:"));
}

// A drive that has ended, or has not begun, must not be taken for one that is served.
#[test]
fn health_is_that_of_the_drive() {
    let mut service = watched(&["--set", "serve.timing=none"]);
    let at = address(&service);
    assert_eq!(get(&at, "/health").status, 200);
    let state: Value = serde_json::from_str(&get(&at, "/api/state").body).unwrap();
    assert_eq!((&state["drives"][0]["name"], &state["drives"][0]["state"]), (&"d".into(), &"serving".into()));
    service.process.signal(Signal::STOP);
    // The thread that answers stands still, too; what matters is that nothing is lost when it goes on.
    std::thread::sleep(Duration::from_millis(300));
    service.process.signal(Signal::CONT);
    assert_eq!(get(&at, "/health").status, 200);
    service.process.signal(Signal::TERM);
    assert_eq!(service.process.wait().code(), Some(0), "{}", service.process.error());
    assert!(std::net::TcpStream::connect(&at).is_err());
}

// The dashboard is JSON that no compiler checks: a metric that was renamed would leave a panel empty.
#[test]
fn every_metric_of_the_dashboard_exists() {
    let service = watched(&["--set", "serve.timing=model"]);
    let at = address(&service);
    service.benched("drive", &["--rw", "randrw", "--count", "500", "--size", "1m"]);
    let text = settled(&at);
    let names = super::prometheus::metrics_of_dashboard();
    assert!(names.len() > 25, "{names:?}");
    for name in &names {
        assert!(!samples(&text, name).is_empty(), "{name} is not among the metrics:\n{text}");
    }
    // And the other way round: nothing is measured that no panel shows.
    for (name, ..) in byteway_watch::metrics::NAMES {
        assert!(names.iter().any(|shown| shown.starts_with(name)), "{name} is on no panel of the dashboard");
    }
}
