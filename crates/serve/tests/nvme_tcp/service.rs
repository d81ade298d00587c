//! Drives served in threads of this process.

use byteway_auth::Credentials;
use byteway_clock::Timing;
use byteway_device::DriveConfig;
use byteway_nvmeof::{Directory, Hosts, SubsystemConfig};
use byteway_serve::drive::{Access, ServeError, Setup, Stop, serve_all};
use byteway_serve::nvme_tcp::Server;
use byteway_serve::report::Report;
use byteway_serve::tls::{KeyRing, Keys};
use byteway_serve::watch::DriveWatch;
use byteway_wire::fabrics::Nqn;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;

/// Served drives, named a, b, and so on.
pub struct Service {
    pub directory: Directory,
    pub nqns: Vec<Nqn>,
    /// By drive, the addresses of its ports.
    pub addresses: Vec<Vec<SocketAddr>>,
    pub stop: Stop,
    /// What watches the first drive.
    pub watch: DriveWatch,
    thread: Option<JoinHandle<Result<Vec<Report>, ServeError>>>,
}

impl Service {
    /// Small drives, each modified by `config`, at this number of ports each.
    pub fn start(
        drives: usize,
        ports: usize,
        config: impl Fn(usize, &mut SubsystemConfig, &mut DriveConfig),
    ) -> Service {
        Service::start_by(drives, ports, None, config, |server, _| server)
    }

    /// As above, with hosts that have to authenticate.
    pub fn start_with(
        drives: usize,
        ports: usize,
        credentials: Option<Credentials>,
        config: impl Fn(usize, &mut SubsystemConfig, &mut DriveConfig),
    ) -> Service {
        Service::start_by(drives, ports, credentials, config, |server, _| server)
    }

    /// One drive at one port, for hosts with these TLS keys.
    pub fn secured(keys: &Keys) -> Service {
        Service::start_by(1, 1, None, |_, _, _| (), |server, nqn| server.secured(keys, nqn).unwrap())
    }

    /// One drive at this number of ports, with hosts that authenticate and generate TLS keys for this ring.
    pub fn concatenating(ports: usize, credentials: &Credentials, ring: &KeyRing) -> Service {
        let finish = |server: Server, _: &Nqn| server.concatenating(ring).unwrap();
        let config = |_, subsystem: &mut SubsystemConfig, _: &mut DriveConfig| {
            subsystem.hosts = Hosts::Listed(Vec::new());
        };
        Service::start_by(1, ports, Some(credentials.clone()), config, finish)
    }

    fn start_by(
        drives: usize,
        ports: usize,
        credentials: Option<Credentials>,
        config: impl Fn(usize, &mut SubsystemConfig, &mut DriveConfig),
        finish: impl Fn(Server, &Nqn) -> Server,
    ) -> Service {
        let directory = Directory::default();
        let stop = Stop::new().unwrap();
        let watch = DriveWatch::new(|| ()).unwrap();
        let (mut nqns, mut addresses, mut setups) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..drives {
            let name = char::from(b'a' + number as u8).to_string();
            let nqn = Nqn::new(&format!("nqn.2026-11.org.byteway:{name}")).unwrap();
            let bound = || Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
            let servers: Vec<Server> = (0..ports).map(|_| finish(bound(), &nqn)).collect();
            addresses.push(servers.iter().map(Server::address).collect());
            let (mut subsystem, mut drive) = (SubsystemConfig::new(nqn), byteway_testkit::drive_config());
            config(number, &mut subsystem, &mut drive);
            nqns.push(nqn);
            let access = Access::Tcp {
                servers,
                subsystem: Box::new(subsystem),
                directory: directory.clone(),
                credentials: credentials.clone(),
            };
            setups.push(Setup {
                name,
                drive,
                link: byteway_testkit::link_config(),
                timing: Timing::None,
                access: vec![access],
                data: None,
                watch: (number == 0).then(|| watch.clone()),
            });
        }
        let (ready, are_ready) = mpsc::channel();
        let own_stop = stop.clone();
        let thread = std::thread::spawn(move || serve_all(setups, &own_stop, |_| ready.send(()).unwrap()));
        are_ready.recv().unwrap();
        Service { directory, nqns, addresses, stop, watch, thread: Some(thread) }
    }

    /// The first drive's first port.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0][0]
    }

    /// Stops the service in order.
    pub fn end(mut self) -> Vec<Report> {
        self.stop.stop();
        self.thread.take().unwrap().join().unwrap().unwrap()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
