//! `byteway serve` as another process.

#![allow(clippy::disallowed_methods, reason = "another process is waited for by the wall clock")]

use crate::process::{Process, tail};
use serde_json::Value;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time limit of a server's start.
const LISTENS_WITHIN: Duration = Duration::from_secs(30);

/// Time limit of a shutdown.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// A server with two drives.
pub struct Server {
    process: Process,
    errors: PathBuf,
    sockets: Vec<PathBuf>,
    ready: Vec<Value>,
}

impl Server {
    /// Starts a server and waits until it listens. The drives have these kinds of doorbells, and their names; data is in memory, or below
    /// `data`.
    pub fn start(folder: &Path, doorbells: [&str; 2], data: Option<&Path>) -> Server {
        Server::start_with(folder, doorbells, data, &[])
    }

    /// The same, with further arguments.
    pub fn start_with(folder: &Path, doorbells: [&str; 2], data: Option<&Path>, further: &[&str]) -> Server {
        let mut arguments = ["serve", "--format", "json"].map(String::from).to_vec();
        if let Some(data) = data {
            arguments.extend(["--data".to_string(), data.to_str().unwrap().to_string()]);
        }
        arguments.extend(further.iter().map(|argument| argument.to_string()));
        let store = if data.is_some() { "file" } else { "ram" };
        for kind in doorbells {
            let path = folder.join(format!("{kind}.toml"));
            std::fs::write(&path, device_file(kind, store)).unwrap();
            arguments.push(path.to_str().unwrap().to_string());
        }
        let sockets = folder.join("vfio-user");
        arguments.extend(["--vfio-user".to_string(), sockets.to_str().unwrap().to_string()]);
        let errors = folder.join("server.log");
        let program = Path::new(env!("CARGO_BIN_EXE_byteway"));
        let process = Process::start(program, &arguments, &[], &errors);
        let sockets = doorbells.map(|name| sockets.join(name).join("cntrl")).to_vec();
        let mut server = Server { process, errors, sockets, ready: Vec::new() };
        server.wait_until_listening();
        server.hear_ready();
        server
    }

    /// Starts a server with one drive over NVMe/TCP on this port of the loopback interface, or on a free one (0), with its data below
    /// `data`.
    pub fn start_tcp(folder: &Path, port: u16, data: &Path) -> Server {
        Server::start_tcp_with(folder, port, data, &[])
    }

    /// The same, with further arguments.
    pub fn start_tcp_with(folder: &Path, port: u16, data: &Path, further: &[&str]) -> Server {
        let path = folder.join("remote.toml");
        std::fs::write(&path, device_file("mapped", "file")).unwrap();
        let address = format!("127.0.0.1:{port}");
        let texts = ["serve", path.to_str().unwrap(), "--format", "json", "--tcp", &address];
        let mut arguments = texts.map(String::from).to_vec();
        arguments.extend(["--data".to_string(), data.to_str().unwrap().to_string()]);
        arguments.extend(further.iter().map(|argument| argument.to_string()));
        let errors = folder.join("server.log");
        let process = Process::start(Path::new(env!("CARGO_BIN_EXE_byteway")), &arguments, &[], &errors);
        let mut server = Server { process, errors, sockets: vec![PathBuf::new()], ready: Vec::new() };
        server.hear_ready();
        server
    }

    /// Starts a server of these drives over NVMe/TCP, each with further lines of its device file, on free ports of the loopback interface,
    /// which a guest reaches at another address.
    pub fn start_remote(folder: &Path, drives: &[(&str, &str)], ports: usize, arguments: &[&str]) -> Server {
        let mut all = ["serve", "--format", "json", "--advertise", "10.0.2.2"].map(String::from).to_vec();
        for (name, lines) in drives {
            let path = folder.join(format!("{name}.toml"));
            std::fs::write(&path, device_file("mapped", "ram").replace("\n\n", &format!("\n{lines}\n\n")))
                .unwrap();
            all.push(path.to_str().unwrap().to_string());
        }
        (0..ports).for_each(|_| all.push("--tcp=127.0.0.1:0".to_string()));
        all.extend(arguments.iter().map(|argument| argument.to_string()));
        let errors = folder.join("server.log");
        let process = Process::start(Path::new(env!("CARGO_BIN_EXE_byteway")), &all, &[], &errors);
        let sockets = vec![PathBuf::new(); drives.len()];
        let mut server = Server { process, errors, sockets, ready: Vec::new() };
        server.hear_ready();
        server
    }

    /// Reads the messages of all drives when they are ready.
    fn hear_ready(&mut self) {
        let deadline = Instant::now() + LISTENS_WITHIN;
        for _ in &self.sockets {
            match self.process.read_to_line(r#"{"event":"ready""#, deadline) {
                Ok((_, line)) => self.ready.push(serde_json::from_str(&line).unwrap()),
                Err(said) => panic!("the server isn't ready: {said}\n{}", self.said()),
            }
        }
    }

    /// The message of each drive when it was ready.
    pub fn ready(&self) -> &[Value] {
        &self.ready
    }

    fn wait_until_listening(&mut self) {
        let deadline = Instant::now() + LISTENS_WITHIN;
        while !self.sockets.iter().all(|socket| listens(socket)) {
            if let Some(status) = self.process.ended() {
                panic!("the server has ended ({status}):\n{}", self.said());
            }
            assert!(Instant::now() < deadline, "the server doesn't listen:\n{}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sockets of its drives.
    pub fn sockets(&self) -> &[PathBuf] {
        &self.sockets
    }

    /// The end of its standard error.
    pub fn said(&self) -> String {
        tail(&self.errors, 30)
    }

    /// Its threads as reported by the system.
    pub fn threads(&self) -> String {
        self.process.threads()
    }

    /// Writes to its standard input.
    pub fn tell(&mut self, line: &str) {
        self.process.write(line);
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Shuts it down, and returns the figures of each drive.
    pub fn end_with_figures(&mut self) -> Vec<Value> {
        self.process.terminate();
        let deadline = Instant::now() + ENDS_WITHIN;
        let figures = |_| match self.process.read_to_line(r#"{"event":"served""#, deadline) {
            Ok((_, line)) => serde_json::from_str(&line).unwrap(),
            Err(said) => panic!("the server says nothing at its end: {said}"),
        };
        let served = (0..self.sockets.len()).map(figures).collect();
        self.ended();
        served
    }

    /// Shuts it down.
    pub fn end(&mut self) {
        self.process.terminate();
        self.ended();
    }

    /// Waits for its end. A second signal on the way would change its status.
    fn ended(&mut self) {
        let status = self.process.wait(Instant::now() + ENDS_WITHIN);
        assert!(status.is_some_and(|status| status.success()), "{status:?}\n{}", self.said());
    }
}

/// A small drive of a known model, which is as fast as possible.
fn device_file(doorbells: &str, store: &str) -> String {
    format!(
        "[drive]\nprofile = \"samsung-970-pro\"\ncapacity = \"{} GiB\"\nstore = \"{store}\"\n\
         precondition = \"empty\"\n\n[serve]\ntiming = \"none\"\ndoorbells = \"{doorbells}\"\n",
        crate::CAPACITY_GIB,
    )
}

/// Whether a process listens at a socket; determined without a connection, which would count as a client.
fn listens(socket: &Path) -> bool {
    const ACCEPTS: &str = "00010000";
    let table = read_to_string("/proc/net/unix").unwrap();
    table.lines().any(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        fields.get(3) == Some(&ACCEPTS) && fields.get(7).map(Path::new) == Some(socket)
    })
}
