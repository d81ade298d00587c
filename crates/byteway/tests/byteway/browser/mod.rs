//! Headless Chromium, controlled by the DevTools protocol over a WebSocket: opens a page, records all its complaints and network requests,
//! and inspects what was drawn.
//!
//! It reports what the browser reports, and does not judge the appearance of a picture.

use serde_json::{Value, json};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tungstenite::{Message, WebSocket};

/// Timeout of a reply.
const PATIENCE: Duration = Duration::from_secs(120);
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// A browser with its own profile, ended on drop.
pub struct Browser {
    child: Child,
    _profile: TempDir,
    socket: WebSocket<TcpStream>,
    calls: u64,
}

/// Presentation of a page.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Width of the window in CSS pixels.
    pub width: u32,
    /// Whether the page is laid out for print.
    pub print: bool,
    /// Whether the reader prefers a dark color scheme.
    pub dark: bool,
}

/// An open page.
pub struct Shown<'a> {
    browser: &'a mut Browser,
    session: String,
    url: String,
    /// Its defects: errors, exceptions, requests.
    pub complaints: Vec<String>,
    loaded: bool,
}

impl Browser {
    /// Starts a browser. `None`, with a message on stderr, if there is none, unless `BYTEWAY_BROWSER` is `required`.
    pub fn start() -> Option<Browser> {
        let program = NAMES.iter().find_map(|name| found(name));
        let Some(program) = program else {
            let missing = format!("none of {NAMES:?} is in PATH: no report was opened in a browser");
            byteway_testkit::needs::missing(&missing, byteway_testkit::needs::is_required("BYTEWAY_BROWSER"));
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new(&program)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (port, path) = endpoint(&mut child, profile.path());
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (socket, _) = tungstenite::client(format!("ws://127.0.0.1:{port}{path}"), stream).unwrap();
        Some(Browser { child, _profile: profile, socket, calls: 0 })
    }

    /// Opens a file and waits until it is loaded and has drawn its charts, or has failed to.
    pub fn open(&mut self, file: &Path, view: View) -> Shown<'_> {
        self.open_at(&format!("file://{}", file.canonicalize().unwrap().display()), view)
    }

    /// As [`Browser::open`], at an address. What the page fetches below that address is no defect.
    pub fn open_at(&mut self, url: &str, view: View) -> Shown<'_> {
        let target = self.ask(None, "Target.createTarget", json!({ "url": "about:blank" }), &mut Vec::new());
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = self.ask(None, "Target.attachToTarget", attach, &mut Vec::new());
        let session = attached["sessionId"].as_str().unwrap().to_owned();
        let url = url.to_owned();
        let mut shown =
            Shown { browser: self, session, url: url.clone(), complaints: Vec::new(), loaded: false };
        for domain in ["Runtime", "Log", "Network", "Page"] {
            shown.call(&format!("{domain}.enable"), json!({}));
        }
        shown.resize(view);
        shown.call("Page.navigate", json!({ "url": url }));
        while !shown.loaded {
            shown.hear();
        }
        // A page without charts has nothing to wait for. A page that throws never draws all of them: half a minute is enough.
        let drawn = "new Promise((done) => { let left = 300; const look = () => { \
                     const wanted = document.querySelectorAll('.chart').length; \
                     if (Number(document.documentElement.dataset.drawn || 0) >= wanted || left-- === 0) \
                     requestAnimationFrame(() => setTimeout(done, 200)); else setTimeout(look, 100); }; look(); })";
        shown.evaluate(drawn);
        shown
    }

    /// Sends a command and returns its result; events in the meantime are added to `events`.
    fn ask(&mut self, session: Option<&str>, method: &str, params: Value, events: &mut Vec<Value>) -> Value {
        self.calls += 1;
        let id = self.calls;
        let mut call = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            call["sessionId"] = session.into();
        }
        self.socket.send(Message::text(call.to_string())).unwrap();
        loop {
            let heard = self.hear();
            if heard["id"] == id {
                assert!(heard.get("error").is_none(), "{method}: {}", heard["error"]);
                return heard["result"].clone();
            }
            events.push(heard);
        }
    }

    fn hear(&mut self) -> Value {
        loop {
            match self.socket.read() {
                Ok(Message::Text(text)) => return serde_json::from_str(&text).unwrap(),
                Ok(_) => {}
                Err(error) => panic!("the browser says nothing: {error}"),
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// The port and path at which the browser listens, which it writes into its profile.
#[allow(clippy::disallowed_methods, reason = "a process of its own is waited for")]
fn endpoint(child: &mut Child, profile: &Path) -> (u16, String) {
    for _ in 0..1200 {
        if let Ok(text) = std::fs::read_to_string(profile.join("DevToolsActivePort"))
            && let Some((port, path)) = text.split_once('\n')
            && let Ok(port) = port.trim().parse()
        {
            return (port, path.trim().to_owned());
        }
        if let Some(status) = child.try_wait().unwrap() {
            panic!("the browser ended at once: {status}");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("the browser does not listen");
}

impl Shown<'_> {
    fn call(&mut self, method: &str, params: Value) -> Value {
        let mut events = Vec::new();
        let result = self.browser.ask(Some(&self.session), method, params, &mut events);
        for event in events {
            self.note(&event);
        }
        result
    }

    fn hear(&mut self) {
        let event = self.browser.hear();
        self.note(&event);
    }

    fn note(&mut self, event: &Value) {
        if event["sessionId"] != self.session.as_str() {
            return;
        }
        let params = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Page.loadEventFired" => self.loaded = true,
            "Runtime.exceptionThrown" => {
                let details = &params["exceptionDetails"];
                self.complaints.push(format!("exception: {} {}", details["text"], details["exception"]));
            }
            "Runtime.consoleAPICalled" if ["error", "assert"].iter().any(|kind| params["type"] == *kind) => {
                self.complaints.push(format!("console: {}", params["args"]));
            }
            "Log.entryAdded" if params["entry"]["level"] == "error" => {
                self.complaints.push(format!("log: {}", params["entry"]["text"]));
            }
            "Network.requestWillBeSent" => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                // A file has nothing below it.
                let is_own = url == self.url || self.url.starts_with("http:") && url.starts_with(&self.url);
                if !is_own && !url.starts_with("data:") && !url.starts_with("blob:") {
                    self.complaints.push(format!("request: {url}"));
                }
            }
            _ => {}
        }
    }

    /// Changes the presentation.
    pub fn resize(&mut self, view: View) {
        let metrics = json!({ "width": view.width, "height": 800, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let scheme = if view.dark { "dark" } else { "light" };
        let media = json!({
            "media": if view.print { "print" } else { "screen" },
            "features": [{ "name": "prefers-color-scheme", "value": scheme }],
        });
        self.call("Emulation.setEmulatedMedia", media);
    }

    /// The value of an expression, or of the promise that it returns.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let result = self.call("Runtime.evaluate", params);
        assert!(result.get("exceptionDetails").is_none(), "{}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Bytes that the page's script holds, after a collection of its garbage.
    pub fn heap_bytes(&mut self) -> u64 {
        self.call("HeapProfiler.collectGarbage", json!({}));
        self.call("Runtime.getHeapUsage", json!({}))["usedSize"].as_f64().unwrap() as u64
    }

    /// Checks each figure and returns their number: missing or overflowing content is a complaint.
    pub fn inspect(&mut self) -> u64 {
        let seen = self.evaluate(include_str!("inspect.js"));
        for problem in seen["problems"].as_array().unwrap() {
            self.complaints.push(problem.as_str().unwrap().to_owned());
        }
        seen["figures"].as_u64().unwrap()
    }

    /// The page as PDF on A4.
    pub fn print(&mut self) -> Vec<u8> {
        let params = json!({ "preferCSSPageSize": true, "printBackground": true });
        let printed = self.call("Page.printToPDF", params);
        base64(printed["data"].as_str().unwrap())
    }

    /// A screenshot of the whole page as PNG.
    pub fn picture(&mut self) -> Vec<u8> {
        let params = json!({ "format": "png", "captureBeyondViewport": true });
        let taken = self.call("Page.captureScreenshot", params);
        base64(taken["data"].as_str().unwrap())
    }
}

/// RFC 4648, 4.
fn base64(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => u32::from(c - b'A'),
        b'a'..=b'z' => u32::from(c - b'a') + 26,
        b'0'..=b'9' => u32::from(c - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("{other} is no digit of base 64"),
    };
    let digits: Vec<u32> = text.bytes().filter(|&c| c != b'=').map(digit).collect();
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for group in digits.chunks(4) {
        let bits = group.iter().enumerate().fold(0, |bits, (index, digit)| bits | digit << (18 - 6 * index));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    bytes
}
