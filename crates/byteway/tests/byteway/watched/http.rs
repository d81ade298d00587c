//! A client of HTTP/1.1 that sends what it is told to.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A reply.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    /// The header, in lower case.
    pub head: String,
    pub body: String,
}

/// Gets a path.
pub fn get(address: &str, path: &str) -> Reply {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"))
}

/// Sends a request and reads until the connection closes.
pub fn ask(address: &str, request: &str) -> Reply {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    read(&mut stream).unwrap_or_else(|| panic!("no answer to {request:?}"))
}

pub fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// Reads until the connection closes. `None`: it was closed without an answer.
pub fn read(stream: &mut TcpStream) -> Option<Reply> {
    let mut bytes = Vec::new();
    // A server that closes a connection with unread bytes resets it; what it has said may be there.
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let head = head.to_ascii_lowercase();
    let body = if head.contains("transfer-encoding: chunked") { unchunked(body) } else { body.to_owned() };
    Some(Reply { status, head, body })
}

/// RFC 9112, 7.1.
fn unchunked(mut text: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = text.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        whole += &rest[..length];
        text = rest[length..].trim_start_matches("\r\n");
    }
    whole
}

/// The samples of a metric: labels and value.
pub fn samples(text: &str, name: &str) -> Vec<(String, f64)> {
    let sample = |line: &str| {
        let (labels, value) = line.strip_prefix(name)?.strip_prefix('{')?.rsplit_once("} ")?;
        Some((labels.to_owned(), value.parse().unwrap()))
    };
    text.lines().filter_map(sample).collect()
}

/// The sum of all samples of a metric whose labels contain all of `labels`.
pub fn sum(text: &str, name: &str, labels: &[&str]) -> f64 {
    let all = samples(text, name);
    let own = all.iter().filter(|sample| labels.iter().all(|label| sample.0.contains(label)));
    own.map(|sample| sample.1).sum()
}
