//! `byteway bench` over several paths to a served drive, and with Discovery Services: real sockets, some of which fail.
#![allow(
    clippy::disallowed_methods,
    reason = "threads relay what crosses sockets, and wait by the wall clock"
)]

use crate::serve::{DRIVE, Process};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A drive served on several ports.
struct Served {
    process: Process,
    subsystem: String,
    addresses: Vec<String>,
}

fn serve(folder: &Path, name: &str, ports: &[&str], arguments: &[&str]) -> Served {
    let file = format!("{name}.toml");
    std::fs::write(folder.join(&file), format!("name = \"{name}\"\n{DRIVE}")).unwrap();
    let mut all = vec!["serve", &file, "--format", "json", "--set", "serve.timing=none", "--control"];
    for port in ports {
        all.extend(["--tcp", port]);
    }
    all.extend(arguments);
    let mut process = Process::start_with(folder, name, &all, Stdio::piped());
    let ready: Value = process.until("is ready", |process| {
        process.out().lines().next().and_then(|line| serde_json::from_str(line).ok())
    });
    let port = |port: &Value| format!("{}:{}", port["address"].as_str().unwrap(), port["port"]);
    Served {
        process,
        subsystem: ready["subsystem_nqn"].as_str().unwrap().to_owned(),
        addresses: ready["ports"].as_array().unwrap().iter().map(port).collect(),
    }
}

fn bench(folder: &Path, name: &str, arguments: &[&str]) -> Process {
    let mut all = vec!["bench", "--format", "json", "--quiet"];
    all.extend(arguments);
    Process::start(folder, name, &all)
}

/// The result of a benchmark that ended successfully.
fn result(mut process: Process) -> Value {
    let code = process.wait().code();
    assert_eq!(code, Some(0), "{}\n{}", process.out(), process.error());
    serde_json::from_str(&process.out()).unwrap()
}

/// Checks that a job ran to completion without errors.
fn verified(result: &Value) {
    assert_eq!(result["errors"], json!([]), "{result:#}");
    assert_eq!(result["verification"]["mismatches"], 0, "{result:#}");
    assert!(result["verification"]["reads"].as_u64().unwrap() > 1000, "{result:#}");
}

fn count(path: &Value, key: &str) -> u64 {
    path[key].as_u64().unwrap()
}

/// A relay to a target that can be cut.
struct Relay {
    address: SocketAddr,
    is_up: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Relay {
    fn to(target: &str) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = Relay {
            address: listener.local_addr().unwrap(),
            is_up: Arc::new(AtomicBool::new(true)),
            open: Arc::default(),
        };
        let (target, is_up, open) = (target.to_owned(), relay.is_up.clone(), relay.open.clone());
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                if !is_up.load(Ordering::SeqCst) {
                    continue; // closed immediately
                }
                let Ok(far) = TcpStream::connect(&target) else { continue };
                let mut open = open.lock().unwrap();
                for (from, into) in [(&near, &far), (&far, &near)] {
                    let (from, into) = (from.try_clone().unwrap(), into.try_clone().unwrap());
                    open.push(from.try_clone().unwrap());
                    std::thread::spawn(move || pass(from, into));
                }
            }
        });
        relay
    }

    /// Ends all connections, and refuses new ones until it is restored.
    fn cut(&self) {
        self.is_up.store(false, Ordering::SeqCst);
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn mend(&self) {
        self.is_up.store(true, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut into: TcpStream) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if into.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = into.shutdown(Shutdown::Both);
}

// A benchmark must not fail or stall while the drive is still reachable, nor find wrong data.
#[test]
fn a_path_that_is_cut_under_load_is_used_again_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = serve(folder.path(), "a", &["127.0.0.1:0", "127.0.0.1:0"], &[]);
    let relay = Relay::to(&served.addresses[1]);
    let second = relay.address.to_string();
    let place = ["--tcp", &served.addresses[0], "--tcp", &second, "--subsystem", &served.subsystem];
    let job = ["--rw", "randrw", "--iodepth", "16", "--size", "16m", "--runtime", "15s"];
    let process = bench(folder.path(), "bench", &[&place[..], &job].concat());
    std::thread::sleep(Duration::from_secs(2));
    relay.cut();
    std::thread::sleep(Duration::from_secs(1));
    relay.mend();
    std::thread::sleep(Duration::from_secs(10));
    // From here on all commands use the path that was cut.
    writeln!(served.process.stdin(), "ana a 1 inaccessible").unwrap();
    let result = result(process);
    verified(&result);
    let paths = result["paths"].as_array().unwrap();
    let [first, second] = &paths[..] else { panic!("{result:#}") };
    assert_eq!((&first["path"], &first["state"]), (&json!(served.addresses[0]), &json!("inaccessible")));
    assert_eq!((&second["state"], count(second, "reconnects")), (&json!("optimized"), 1), "{paths:?}");
    assert_eq!(count(first, "reconnects"), 0, "{paths:?}");
    assert!(count(second, "failovers") > 0 && count(second, "commands") > 1000, "{paths:?}");
    served.process.signal(rustix::process::Signal::TERM);
    assert_eq!(served.process.wait().code(), Some(0), "{}", served.process.error());
}

// A host must leave a path when the target requests it, and return to it later.
#[test]
fn what_a_target_says_of_its_paths_is_followed_while_commands_are_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let mut served = serve(folder.path(), "a", &["127.0.0.1:0", "127.0.0.1:0"], &[]);
    let place =
        ["--tcp", &served.addresses[0], "--tcp", &served.addresses[1], "--subsystem", &served.subsystem];
    let job = ["--rw", "randrw", "--iodepth", "16", "--size", "16m", "--runtime", "5s"];
    let process = bench(folder.path(), "bench", &[&place[..], &job].concat());
    std::thread::sleep(Duration::from_secs(1));
    let mut control = served.process.stdin();
    for round in 0..20 {
        for (port, state) in [(1, "inaccessible"), (2, "non-optimized"), (1, "change"), (1, "optimized")] {
            writeln!(control, "ana a {port} {state}").unwrap();
            std::thread::sleep(Duration::from_millis(20 + round));
        }
    }
    writeln!(control, "ana a 1 inaccessible").unwrap();
    let result = result(process);
    verified(&result);
    let paths = result["paths"].as_array().unwrap();
    let states: Vec<_> = paths.iter().map(|path| path["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["inaccessible", "non-optimized"], "{paths:?}");
    assert!(paths.iter().all(|path| count(path, "commands") > 100), "{paths:?}");
    assert!(paths.iter().all(|path| count(path, "reconnects") == 0), "{paths:?}");
}

// Writing to two drives as if they were one would corrupt both.
#[test]
fn addresses_of_two_drives_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = ["a", "b"].map(|name| serve(folder.path(), name, &["127.0.0.1:0"], &[]));
    let place = ["--tcp", &one.addresses[0], "--tcp", &other.addresses[0], "--subsystem", &one.subsystem];
    let mut process = bench(folder.path(), "bench", &place);
    assert_eq!(process.wait().code(), Some(1), "{}", process.error());
    assert!(process.error().contains("no subsystem of that name"), "{}", process.error());
    let twice = ["--tcp", &one.addresses[0], "--tcp", &one.addresses[0], "--subsystem", &one.subsystem];
    let mut process = bench(folder.path(), "bench", &twice);
    assert_eq!(process.wait().code(), Some(2), "{}", process.error());
}

// Users must not need every address of a drive, and services that refer to each other must not cause an endless loop.
#[test]
fn drives_are_found_by_what_services_say_and_refer_to() {
    let folder = tempfile::tempdir().unwrap();
    // Two services that refer to each other must know their addresses before they listen.
    let free = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (first, second) = (free(), free());
    let [first_at, second_at] = [&first, &second].map(|one| one.local_addr().unwrap().to_string());
    drop((first, second));
    let one = serve(folder.path(), "a", &[&first_at], &["--referral", &second_at]);
    let other = serve(
        folder.path(),
        "b",
        &[&second_at, "127.0.0.1:0"],
        &["--referral", &first_at, "--referral", "127.0.0.1:1"],
    );
    let found = result(bench(folder.path(), "list", &["--tcp", &first_at, "--discover"]));
    let entries = found["entries"].as_array().unwrap();
    let drives: Vec<_> = entries.iter().filter(|entry| entry["kind"] == "drive").collect();
    let of = |name: &str| drives.iter().filter(|entry| entry["subsystem"] == name).count();
    assert_eq!((of(&one.subsystem), of(&other.subsystem)), (1, 2), "{found:#}");
    assert!(drives.iter().any(|entry| entry["service"] == second_at.as_str() && entry["depth"] == 1));
    let notes = found["notes"].as_array().unwrap();
    assert!(notes.len() == 1 && notes[0].as_str().unwrap().contains("127.0.0.1:1"), "{found:#}");
    let mut listed = Process::start(folder.path(), "table", &["bench", "--tcp", &first_at, "--discover"]);
    assert_eq!(listed.wait().code(), Some(0), "{}", listed.error());
    assert!(listed.out().contains(&other.addresses[1]), "{}", listed.out());
    // All paths that were found are used.
    let place =
        ["--tcp", &first_at, "--nqn", &other.subsystem, "--size", "4m", "--count", "4000", "--iodepth", "8"];
    let result = result(bench(folder.path(), "bench", &place));
    verified(&result);
    let paths = result["paths"].as_array().unwrap();
    assert!(paths.len() == 2 && paths.iter().all(|path| count(path, "commands") > 1000), "{paths:?}");
    let mut unknown =
        bench(folder.path(), "unknown", &["--tcp", &first_at, "--nqn", "nqn.2026-11.org.byteway:none"]);
    assert_eq!(unknown.wait().code(), Some(2), "{}", unknown.error());
    assert!(unknown.error().contains("knows of no subsystem"), "{}", unknown.error());
    // Without a name there has to be one drive: these are two.
    let mut nameless = bench(folder.path(), "nameless", &["--tcp", &first_at]);
    assert_eq!(nameless.wait().code(), Some(2), "{}", nameless.error());
    for name in [&one.subsystem, &other.subsystem] {
        assert!(nameless.error().contains(name.as_str()), "{}", nameless.error());
    }
}

// Without this a user would have to copy a name where there is only one.
#[test]
fn the_only_drive_needs_no_name() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), "a", &["127.0.0.1:0"], &[]);
    let job = ["--tcp", &served.addresses[0], "--size", "4m", "--count", "4000", "--iodepth", "8"];
    verified(&result(bench(folder.path(), "bench", &job)));
}

// Without this a benchmark would report what it measured before its target died as if that were all.
#[test]
fn a_target_that_dies_fails_the_benchmark() {
    let folder = tempfile::tempdir().unwrap();
    let served = serve(folder.path(), "a", &["127.0.0.1:0"], &[]);
    let relay = Relay::to(&served.addresses[0]);
    let address = relay.address.to_string();
    let place = ["--tcp", &address, "--subsystem", &served.subsystem, "--timeout", "1s"];
    let job = ["--rw", "randrw", "--iodepth", "4", "--size", "4m", "--runtime", "60s"];
    let mut process = bench(folder.path(), "bench", &[&place[..], &job].concat());
    std::thread::sleep(Duration::from_secs(3));
    relay.cut();
    assert_eq!(process.wait().code(), Some(1), "{}", process.error());
    let error = process.error();
    assert!(error.contains("connecting again") && error.contains("error: "), "{error}");
}

// Without this a target that accepts a connection and says nothing would have a user wait for ever.
#[test]
fn a_target_that_says_nothing_fails_the_benchmark_and_leaves_it_to_signals() {
    let folder = tempfile::tempdir().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let place = ["--tcp", &address, "--subsystem", "nqn.2026-11.org.byteway:a"];
    let mut process = bench(folder.path(), "timeout", &[&place[..], &["--timeout", "1s"]].concat());
    assert_eq!(process.wait().code(), Some(1), "{}", process.error());
    for (signal, number) in [(rustix::process::Signal::TERM, 1), (rustix::process::Signal::INT, 2)] {
        let mut process = bench(folder.path(), &format!("signal-{number}"), &place);
        std::thread::sleep(Duration::from_secs(2));
        process.signal(signal);
        assert_eq!(process.wait().code(), Some(130), "{}", process.error());
    }
}
