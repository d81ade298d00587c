//! What a request is answered with.

use crate::drives::{DriveState, Drives};
use crate::events::{EventStream, History, Updates};
use crate::limit::{Counted, PAGES_MAX};
use crate::metrics;
use crate::page;
use crate::state::{state_json, warnings};
use http_body_util::{Either, Full};
use hyper::body::{Body, Bytes, Frame};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Version};
use serde_json::json;
use std::cell::Cell;
use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as Waker, Poll};

/// What answers are made of.
pub(crate) struct Context {
    pub drives: Drives,
    /// The page, which is the same for all.
    pub page: Bytes,
    /// Whether it listens at a loopback address.
    pub is_loopback: bool,
    pub updates: Updates,
    /// Number of open pages.
    pub pages: Rc<Cell<usize>>,
    /// What drives did before a page was opened.
    pub history: History,
}

/// The updates of an open page, which counts until they end.
pub(crate) struct OpenPage {
    updates: EventStream,
    _counted: Counted,
}

impl Body for OpenPage {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        waker: &mut Waker<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.updates).poll_frame(waker)
    }
}

type Answer = Response<Either<Full<Bytes>, OpenPage>>;

/// The content type of OpenMetrics text.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// The answer to a request. The body of the request is not read.
pub(crate) async fn answer<B>(context: &Context, request: &Request<B>) -> Answer {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let mut answer = match request.uri().path() {
        _ if request.version() == Version::HTTP_11 && !request.headers().contains_key(header::HOST) => {
            text(StatusCode::BAD_REQUEST, TEXT, "a request of HTTP/1.1 has a Host field\n")
        }
        _ if !is_from_here(context, request) => {
            let said = "name this server by its address: names other than localhost are refused, so that no page of \
                        another site can read it\n";
            text(StatusCode::MISDIRECTED_REQUEST, TEXT, said)
        }
        "/" | "/metrics" | "/health" | "/api/state" | "/api/events" if !is_read => {
            let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n");
            answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            answer
        }
        "/" => {
            let mut answer = text(StatusCode::OK, HTML, context.page.clone());
            let policy = HeaderValue::from_static(page::POLICY);
            answer.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
            answer
        }
        "/metrics" => {
            context.drives.refresh().await;
            text(StatusCode::OK, OPEN_METRICS, metrics::text(&context.drives))
        }
        "/health" => {
            context.drives.refresh().await;
            let (status, json) = health(&context.drives);
            text(status, JSON, json)
        }
        "/api/state" => {
            context.drives.refresh().await;
            text(StatusCode::OK, JSON, state_json(&context.drives))
        }
        "/api/events" if context.pages.get() >= PAGES_MAX => {
            let said = format!("{PAGES_MAX} pages are open: close one\n");
            text(StatusCode::SERVICE_UNAVAILABLE, TEXT, said)
        }
        "/api/events" if *request.method() == Method::HEAD => text(StatusCode::OK, "text/event-stream", ""),
        "/api/events" => {
            let updates =
                EventStream::new(context.updates.clone(), context.history.event(context.drives.server()));
            let page = OpenPage { updates, _counted: Counted::new(&context.pages) };
            let mut answer = response(StatusCode::OK, "text/event-stream", Either::Right(page));
            // A proxy that collects the stream would show nothing.
            answer.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
            answer
        }
        _ => text(StatusCode::NOT_FOUND, TEXT, "not found: /, /metrics, /health, /api/state, /api/events\n"),
    };
    // A client that is refused has the connection closed, so that what else it sends is not read.
    if answer.status().is_client_error() {
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

fn text(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Answer {
    response(status, kind, Either::Left(Full::new(body.into())))
}

fn response(status: StatusCode, kind: &'static str, body: Either<Full<Bytes>, OpenPage>) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let fixed: [(HeaderName, &'static str); 4] = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in fixed {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// Whether a request names this server by an address, or as localhost. A page of another site whose name leads to this
/// machine (DNS rebinding) names that site. A server that other machines reach may have any name.
fn is_from_here<B>(context: &Context, request: &Request<B>) -> bool {
    if !context.is_loopback {
        return true;
    }
    let named = request.headers().get_all(header::HOST).into_iter();
    let named = named.map(|host| host.to_str().unwrap_or("?"));
    let authority = request.uri().authority().map(|authority| authority.as_str());
    // HTTP/1.0 has no Host; no browser speaks it.
    named.chain(authority).all(is_local_name)
}

fn is_local_name(authority: &str) -> bool {
    let (host, after) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').unwrap_or_default(),
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_port = after.is_empty() || after.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    let host = host.strip_suffix('.').unwrap_or(host);
    is_port && (host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok())
}

/// The health of all drives: 200 if each is served.
fn health(drives: &Drives) -> (StatusCode, String) {
    let states: Vec<DriveState> = drives.list().iter().map(|drive| drive.state()).collect();
    let is_well = states.iter().all(|state| *state == DriveState::Serving);
    let rows = drives.list().iter().zip(&states).map(|(drive, state)| {
        let warnings = drive.figures().map(|figures| warnings(&figures.smart)).unwrap_or_default();
        json!({ "name": drive.name, "state": state.name(), "critical_warnings": warnings })
    });
    let rows: Vec<_> = rows.collect();
    let status = if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let word = if is_well { "ok" } else { "unavailable" };
    (status, format!("{}\n", json!({ "status": word, "drives": rows })))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The page of another site whose name leads to 127.0.0.1 could read the drives of the user who opens it.
    #[test]
    fn only_addresses_and_localhost_are_local_names() {
        for name in [
            "127.0.0.1",
            "127.0.0.1:9100",
            "localhost",
            "localhost.:9",
            "LOCALHOST:1",
            "[::1]:9100",
            "[::1]",
            "10.0.0.1:80",
        ] {
            assert!(is_local_name(name), "{name}");
        }
        for name in [
            "evil.example",
            "evil.example:9100",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
            "[",
            "[::1].evil.example",
            "[::1",
            "localhost:9100.evil.example",
            "?",
        ] {
            assert!(!is_local_name(name), "{name}");
        }
    }
}
