//! Clients that mean harm get a status or are closed, and the drive goes on.

use super::http::{ask, connect, get, read};
use super::{address, watched};
use byteway_watch::server::{CONNECTIONS_MAX, HEAD_BYTES_MAX, HEAD_LIMIT, HEADERS_MAX, PAGES_MAX};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn refused(at: &str, request: &str, status: u16) {
    let reply = ask(at, request);
    assert_eq!(reply.status, status, "{:?}: {reply:?}", &request[..request.len().min(100)]);
}

// No request may change anything, name a file, or be answered for the page of another site.
#[test]
fn wrong_requests_get_a_status() {
    let service = watched(&["--set", "serve.timing=none"]);
    let at = address(&service);
    let of = |first: &str, more: &str| {
        format!("{first} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n{more}\r\n")
    };
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "BREW"] {
        refused(&at, &of(&format!("{method} /metrics"), ""), 405);
    }
    refused(&at, &of("POST /api/state", "Content-Length: 99999999999\r\n"), 405);
    for path in [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//metrics",
        "/metrics/",
        "/METRICS",
        "/.",
        "/\\..\\",
    ] {
        let reply = ask(&at, &of(&format!("GET {path}"), ""));
        assert!([400, 404].contains(&reply.status), "{path}: {reply:?}");
    }
    refused(&at, &of("CONNECT example.org:443", ""), 421);
    for host in ["evil.example", "evil.example:9100", "localhost.evil.example"] {
        refused(&at, &format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"), 421);
    }
    refused(&at, "GET http://evil.example/ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", 421);
    refused(&at, "nonsense\r\n\r\n", 400);
    refused(&at, "\u{0}\u{1}\u{2}\r\n\r\n", 400);
    refused(&at, &of("GET /", &"x: y\r\n".repeat(HEADERS_MAX + 1)), 431);
    let long = ask(&at, &of("GET /", &format!("x: {}\r\n", "y".repeat(2 * HEAD_BYTES_MAX))));
    assert_eq!(long.status, 431);
    let long = ask(&at, &of(&format!("GET /{}", "y".repeat(2 * HEAD_BYTES_MAX)), ""));
    assert!([414, 431].contains(&long.status), "{}", long.status);
    let head = ask(&at, &of("HEAD /metrics", ""));
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    let page = get(&at, "/");
    for header in [
        "content-security-policy: default-src 'none'",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
    ] {
        assert!(page.head.contains(header), "{header}: {}", page.head);
    }
    assert!(!page.head.contains("access-control-allow-origin"), "no other site may read it");
    assert_eq!(service.end().len(), 1);
}

/// Resident memory of a process in KiB.
fn resident_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

// Whoever opens connections and says nothing, or does not read, holds memory and descriptors of the drive's process.
#[test]
fn slow_clients_are_limited_in_number_memory_and_time() {
    let service = watched(&["--set", "serve.timing=none"]);
    let at = address(&service);
    get(&at, "/");
    let before = resident_kib(service.process.child.id());
    let begun = Instant::now();
    let loris = |number: usize| {
        let mut stream = connect(&at);
        // It may have been closed already.
        let _ = stream.write_all(if number.is_multiple_of(2) { b"GET / HTTP/1.1\r\nx: " } else { b"G" });
        stream
    };
    let mut slow: Vec<TcpStream> = (0..3 * CONNECTIONS_MAX).map(loris).collect();
    // Those beyond the limit are told so and closed at once.
    let told =
        slow.iter_mut().skip(CONNECTIONS_MAX).filter_map(read).filter(|reply| reply.status == 503).count();
    assert!(told >= CONNECTIONS_MAX, "{told} of {} are told that there are too many", 2 * CONNECTIONS_MAX);
    assert!(begun.elapsed() < HEAD_LIMIT, "{:?}", begun.elapsed());
    // The drive is not held up by any of them.
    service.benched("drive", &["--rw", "randrw", "--iodepth", "32", "--count", "5000", "--size", "4m"]);
    // A client that sends a byte now and then has no more time.
    for stream in slow.iter_mut().take(CONNECTIONS_MAX) {
        let _ = stream.write_all(b"y");
    }
    for stream in slow.iter_mut().take(CONNECTIONS_MAX) {
        let _ = stream.read(&mut [0; 1024]);
    }
    let took = begun.elapsed();
    assert!(took < 3 * HEAD_LIMIT, "they are closed after {took:?}");
    drop(slow);
    assert_eq!(get(&at, "/health").status, 200, "there is room again");

    // Pages that are open and read nothing, and requests whose answers nobody takes.
    let open = |_| {
        let mut stream = connect(&at);
        stream.write_all(format!("GET /api/events HTTP/1.1\r\nHost: {at}\r\n\r\n").as_bytes()).unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        stream
    };
    let pages: Vec<TcpStream> = (0..PAGES_MAX).map(open).collect();
    assert_eq!(get(&at, "/api/events").status, 503, "there are {PAGES_MAX}");
    let flood = |_| {
        let mut stream = connect(&at);
        stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        let requests = format!("GET / HTTP/1.1\r\nHost: {at}\r\n\r\n").repeat(2000);
        // It is not read: the server stops to take more.
        let _ = stream.write_all(requests.as_bytes());
        stream
    };
    let floods: Vec<TcpStream> = (0..20).map(flood).collect();
    service.benched("drive", &["--rw", "randrw", "--iodepth", "32", "--count", "5000", "--size", "4m"]);
    let grown = resident_kib(service.process.child.id()).saturating_sub(before);
    // 4 MiB are those of the drive, which has been written to.
    assert!(grown < 48 << 10, "{grown} KiB for {} clients", pages.len() + floods.len());
    assert_eq!(get(&at, "/health").status, 200);
    // Nobody waits for them at the end.
    let ending = Instant::now();
    service.end();
    assert!(ending.elapsed() < Duration::from_secs(3), "{:?}", ending.elapsed());
    drop((pages, floods));
}
