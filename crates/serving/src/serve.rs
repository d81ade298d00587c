//! Served drives: from device files to sockets for real hosts, and final statistics.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::slice;

use byteway_auth::Credentials;
use byteway_clock::{Delay, Lateness};
use byteway_device::DriveConfig;
use byteway_nvmeof::{Directory, Hosts, PortStates, SubsystemConfig};
use byteway_serve::drive::{Access, ServeError, Setup, Start, Stop, serve_all};
use byteway_serve::report::Report;
use byteway_serve::tls::{KeyRing, Keys};
use byteway_serve::watch::DriveWatch;
use byteway_serve::{function, nvme_tcp};
use byteway_wire::fabrics::Nqn;
use byteway_wire::nvme::AnaState;
use serde::Serialize;

use byteway_results::summary::{LINK_TITLE, LinkRow, link_rows, link_table};
use byteway_run::build;
use byteway_scenario::{Device, Doorbells, Options, Store, Timing};
use byteway_text::error::{InputError, with_causes};
use byteway_text::number::ns;
use byteway_text::table::grouped;
use byteway_text::table::{Column, Printout, Quantity, TextTable, Width};
use byteway_text::units::{Bytes, excerpt};

/// Name of a drive's socket in its folder, as expected by QEMU and SPDK's host.
const SOCKET: &str = "cntrl";

/// Why drives are not served, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// A socket's folder cannot be created.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A drive could not be served, so none is.
    #[error("no drive is served")]
    NotBegun(#[source] ServeError),
    /// A served drive ended, and the others with it.
    #[error(transparent)]
    Ended(ServeError),
}

impl ServiceError {
    /// The invalid input, if that is the cause.
    pub fn wrong_input(&self) -> Option<&InputError> {
        if let ServiceError::Input(error) = self { Some(error) } else { None }
    }

    /// Whether a drive made no progress while its host waited: a defect.
    pub fn is_stalled(&self) -> bool {
        use ServiceError::{Ended, NotBegun};
        matches!(self, NotBegun(ServeError::Stalled { .. }) | Ended(ServeError::Stalled { .. }))
    }
}

/// Drives, each with its addresses.
pub struct Service {
    drives: Vec<Served>,
}

/// A drive with its addresses.
pub struct Served {
    device: Device,
    setup: Setup,
    /// Where it is watched, if it is.
    http: Option<WatchPlace>,
}

/// Where drives are watched over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchPlace {
    /// Address of the page.
    pub url: String,
    /// Whether hosts other than this machine reach it, all of which may read it.
    pub any_host: bool,
}

/// Addresses of served drives: at most one of each kind. With both, each drive has two ports.
#[derive(Clone, Debug)]
pub enum ServeAddress {
    /// In a folder of sockets.
    VfioUser(PathBuf),
    /// NVMe/TCP at these addresses. Each drive is at all of them; each further drive uses the next port of
    /// each.
    Tcp {
        /// Addresses of the first drive.
        addresses: Vec<SocketAddr>,
        /// NQNs of the hosts that may connect; empty: all, or those with secrets.
        hosts: Vec<String>,
        /// Hosts that must authenticate, and may connect.
        credentials: Option<Credentials>,
        /// Further Discovery Services, reported as referrals.
        referrals: Vec<SocketAddr>,
        /// Address reported to hosts instead of those of this machine.
        advertised: Option<IpAddr>,
        /// Whether hosts may create, attach, detach and delete namespaces.
        may_manage: bool,
        /// TLS keys of the hosts that may connect; `None`: no TLS.
        tls_keys: Option<Keys>,
    },
}

impl Service {
    /// Loads device files and assigns addresses: a single drive uses the folder itself, several use subfolders with the drives' names;
    /// NVMe/TCP ports accept connections from now on. A file given twice is another drive: NAME-2, and so on. Data kept in files is in
    /// `data`, with the same layout.
    pub fn load(
        files: &[PathBuf],
        places: &[ServeAddress],
        data: Option<&Path>,
        options: &Options,
    ) -> Result<Service, InputError> {
        let options = Options { in_files: data.is_some(), ..options.clone() };
        let places: Vec<Opened> = places.iter().map(Opened::new).collect::<Result<_, _>>()?;
        let mut names: BTreeMap<String, &Path> = BTreeMap::new();
        let mut drives = Vec::new();
        for (number, file) in files.iter().enumerate() {
            let device = Device::load(file, &options)?;
            let before = files[..number].iter().filter(|other| is_same(other, file)).count();
            let name = match before {
                0 => device.name.clone(),
                _ => format!("{}-{}", device.name, before + 1),
            };
            if let Some(other) = names.insert(name.clone(), file) {
                let (other, file) = (other.display(), file.display());
                let what = format!("two drives are called `{name}`: those of `{other}` and `{file}`");
                let help =
                    "write `name = \"...\"` in one of the files: sockets and serial numbers follow from it";
                return Err(InputError::new(what, help));
            }
            let own = |folder: &Path| match files.len() {
                1 => folder.to_path_buf(),
                _ => folder.join(&name),
            };
            let data = data.filter(|_| device.drive.store == Store::File).map(own);
            let drive = build::served(&device, &name);
            let access = |place: &Opened| -> Result<Access, InputError> {
                Ok(match place {
                    Opened::VfioUser(folder) => Access::VfioUser {
                        socket: own(folder).join(SOCKET),
                        doorbells: match device.serve.doorbells {
                            Doorbells::Mapped => function::Doorbells::Mapped,
                            Doorbells::Trapped => function::Doorbells::Trapped,
                        },
                        rest: Delay::from_ps(device.serve.rest.0),
                    },
                    Opened::Tcp { addresses, hosts, credentials, directory, may_manage, tls_keys } => {
                        let nqn = name_of(&drive.serial)?;
                        let ring = credentials.as_ref().map(|_| KeyRing::default());
                        let secured = |server| secured(server, tls_keys.as_ref(), ring.as_ref(), &nqn);
                        Access::Tcp {
                            credentials: credentials.clone(),
                            servers: addresses
                                .iter()
                                .map(|address| secured(listen(*address, number)?))
                                .collect::<Result<_, _>>()?,
                            directory: directory.clone(),
                            subsystem: Box::new(SubsystemConfig {
                                hosts: hosts.clone(),
                                may_manage: *may_manage,
                                ..SubsystemConfig::new(nqn)
                            }),
                        }
                    }
                })
            };
            let access = places.iter().map(access).collect::<Result<_, _>>()?;
            drives.push(Served { setup: setup(&device, drive, name, access, data), device, http: None });
        }
        if data.is_some() && drives.iter().all(|drive| drive.setup.data.is_none()) {
            let what = "`--data`: no drive is kept in files";
            return Err(InputError::new(what, "write `store = \"file\"` in [drive], or leave `store` out"));
        }
        Ok(Service { drives })
    }

    /// Starts also drives of which damage of their data directory has lost data: what is lost reads as errors. Otherwise such a start is
    /// refused.
    pub fn accept_losses(&mut self) {
        self.drives.iter_mut().for_each(|drive| drive.setup.drive.ftl.accepts_losses = true);
    }

    /// The drives, in the order of their files.
    pub fn drives(&self) -> &[Served] {
        &self.drives
    }

    /// Has all drives watched at `place`, through a handle for each, which `watch` makes for its name.
    ///
    /// # Errors
    /// The first error of `watch`.
    pub fn watch_at<E>(
        &mut self,
        place: &WatchPlace,
        mut watch: impl FnMut(&str) -> Result<DriveWatch, E>,
    ) -> Result<(), E> {
        for drive in &mut self.drives {
            drive.setup.watch = Some(watch(&drive.setup.name)?);
            drive.http = Some(place.clone());
        }
        Ok(())
    }

    /// Controls for the NVMe/TCP paths of drives during service.
    pub fn path_controls(&self) -> Vec<PathControl> {
        let control = |drive: &Served| {
            drive.setup.access.iter().find_map(|access| match access {
                Access::Tcp { servers, subsystem, .. } => Some(PathControl {
                    drive: drive.setup.name.clone(),
                    ports: servers.len(),
                    states: subsystem.ports.clone(),
                }),
                Access::VfioUser { .. } => None,
            })
        };
        self.drives.iter().filter_map(control).collect()
    }

    /// Control for the NVMe/TCP hosts of drives during service.
    pub fn host_control(&self) -> HostControl {
        let mut control = HostControl { credentials: None, directories: Vec::new(), servers: Vec::new() };
        for access in self.drives.iter().flat_map(|drive| &drive.setup.access) {
            if let Access::Tcp { servers, subsystem, directory, credentials } = access {
                // All drives have the same credentials.
                control.credentials = credentials.clone();
                control.directories.push(directory.clone());
                control.servers.extend(servers.iter().map(|server| (server.clone(), subsystem.nqn)));
            }
        }
        control
    }

    /// Creates the folders and serves until `stop`. Calls `ready` when hosts can attach to all drives.
    pub fn run(&self, stop: &Stop, ready: impl FnOnce(&[Start])) -> Result<Vec<Report>, ServiceError> {
        for folder in self.drives.iter().filter_map(Served::folder) {
            std::fs::create_dir_all(folder).map_err(|error| {
                let what = format!("cannot make the folder `{}`: {error}", folder.display());
                InputError::new(what, "choose another folder with --vfio-user, or change its permissions")
            })?;
        }
        let setups = self.drives.iter().map(|drive| drive.setup.clone()).collect();
        let mut is_ready = false;
        let served = serve_all(setups, stop, |starts| {
            is_ready = true;
            ready(starts);
        });
        served.map_err(if is_ready { ServiceError::Ended } else { ServiceError::NotBegun })
    }
}

/// Control for the hosts of served drives, usable from any thread.
pub struct HostControl {
    credentials: Option<Credentials>,
    directories: Vec<Directory>,
    /// Servers, each with the NQN of its subsystem.
    servers: Vec<(nvme_tcp::Server, Nqn)>,
}

impl HostControl {
    /// Replaces secrets and TLS keys for new connections. Keys generated by hosts whose secret changed or no
    /// longer exists become invalid.
    pub fn replace(&self, credentials: Option<&Credentials>, keys: Option<&Keys>) {
        if let (Some(own), Some(credentials)) = (&self.credentials, credentials) {
            let changed = own.changed(credentials);
            own.replace(credentials);
            for ring in self.servers.iter().filter_map(|(server, _)| server.ring()) {
                changed.iter().for_each(|host| ring.forget(host));
            }
            self.directories.iter().for_each(Directory::hosts_changed);
        }
        if let Some(keys) = keys {
            self.servers.iter().for_each(|(server, subsystem)| server.replace_keys(keys, subsystem));
        }
    }
}

/// Control for the paths to a drive, usable from any thread.
pub struct PathControl {
    drive: String,
    ports: usize,
    states: PortStates,
}

impl PathControl {
    /// Name of the drive.
    pub fn drive(&self) -> &str {
        &self.drive
    }

    /// Sets the ANA state of a port by name.
    ///
    /// # Errors
    /// An unknown port or state.
    pub fn set_state(&self, port: u16, state: &str) -> Result<(), String> {
        if port == 0 || usize::from(port) > self.ports {
            return Err(format!("no such port: {port}; the drive has {}", self.ports));
        }
        let Some(state) = AnaState::ALL.into_iter().find(|known| known.name() == state) else {
            let names = AnaState::ALL.map(AnaState::name).join(", ");
            return Err(format!("`{}` is not a state: write one of {names}", excerpt(state)));
        };
        self.states.set(port, state);
        Ok(())
    }
}

/// Whether two paths refer to the same file.
fn is_same(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

/// Opened addresses.
enum Opened {
    VfioUser(PathBuf),
    Tcp {
        addresses: Vec<SocketAddr>,
        hosts: Hosts,
        credentials: Option<Credentials>,
        directory: Directory,
        may_manage: bool,
        tls_keys: Option<Keys>,
    },
}

impl Opened {
    fn new(place: &ServeAddress) -> Result<Opened, InputError> {
        match place {
            ServeAddress::VfioUser(folder) => {
                std::path::absolute(folder).map(Opened::VfioUser).map_err(|error| {
                    let what = format!("`{}` cannot be the folder of a socket: {error}", folder.display());
                    InputError::new(what, "name a folder with --vfio-user")
                })
            }
            ServeAddress::Tcp {
                addresses,
                hosts,
                credentials,
                referrals,
                advertised,
                may_manage,
                tls_keys,
            } => {
                let nqn = |name: &String| {
                    Nqn::new(name).map_err(|error| {
                        let what = format!("`--host {}`: {error}", excerpt(name));
                        InputError::new(what, "name a host's NQN, which is in its /etc/nvme/hostnqn")
                    })
                };
                let names: Vec<Nqn> = hosts.iter().map(nqn).collect::<Result<_, _>>()?;
                // Hosts with secrets may connect as well.
                let is_open = names.is_empty() && credentials.is_none();
                let hosts = if is_open { Hosts::Any } else { Hosts::Listed(names) };
                let directory = Directory::new(referrals.clone(), *advertised);
                Ok(Opened::Tcp {
                    addresses: addresses.clone(),
                    hosts,
                    credentials: credentials.clone(),
                    directory,
                    may_manage: *may_manage,
                    tls_keys: tls_keys.clone(),
                })
            }
        }
    }
}

/// Listens for the hosts of drive `number`.
fn listen(first: SocketAddr, number: usize) -> Result<nvme_tcp::Server, InputError> {
    let help = "name an address of this machine and a free port with --tcp, such as 127.0.0.1:4420; each \
                further drive takes the next port";
    let mut address = first;
    // Port 0 selects any free port.
    if first.port() > 0 {
        let port = u16::try_from(number).ok().and_then(|number| first.port().checked_add(number));
        let port = port.ok_or_else(|| InputError::new("more drives than ports", help))?;
        address.set_port(port);
    }
    nvme_tcp::Server::bind(address).map_err(|error| InputError::new(with_causes(&error), help))
}

/// With TLS, if there are keys; otherwise with keys that hosts generate by authentication, if they can.
fn secured(
    server: nvme_tcp::Server,
    keys: Option<&Keys>,
    ring: Option<&KeyRing>,
    subsystem: &Nqn,
) -> Result<nvme_tcp::Server, InputError> {
    let secured = match (keys, ring) {
        (Some(keys), _) => server.secured(keys, subsystem),
        (None, Some(ring)) => server.concatenating(ring),
        (None, None) => return Ok(server),
    };
    secured.map_err(|error| InputError::new(error.to_string(), "this is a defect"))
}

/// NQN of a drive's subsystem, as the drive itself reports it.
fn name_of(serial: &str) -> Result<Nqn, InputError> {
    Nqn::new(&format!("nqn.2026-11.org.byteway:{serial}")).map_err(|error| {
        let what = format!("the serial number `{}` does not form a valid NQN: {error}", excerpt(serial));
        InputError::new(what, "give the drive another name")
    })
}

fn setup(
    device: &Device,
    drive: DriveConfig,
    name: String,
    access: Vec<Access>,
    data: Option<PathBuf>,
) -> Setup {
    Setup {
        drive,
        name,
        link: device.drive.profile.link.config(),
        timing: match device.serve.timing {
            Timing::Model => byteway_clock::Timing::Model,
            Timing::None => byteway_clock::Timing::None,
        },
        access,
        data,
        watch: None,
    }
}

/// A ready drive, as a line of JSON. The order of the fields is that of the line.
#[derive(Serialize)]
struct ReadyLine<'a> {
    event: &'static str,
    name: &'a str,
    model: &'a str,
    serial: &'a str,
    capacity_bytes: u64,
    namespaces: u32,
    /// The KV namespaces among them.
    kv_namespaces: Vec<u32>,
    lba_bytes: u32,
    timing: Timing,
    #[serde(flatten)]
    vfio_user: Option<ReadyFunction>,
    #[serde(flatten)]
    tcp: Option<ReadyTarget>,
    /// `None` if no data is kept.
    data: Option<Data>,
    /// The page of watchers.
    #[serde(skip_serializing_if = "Option::is_none")]
    http: Option<&'a str>,
    /// Whether other machines may read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    http_any_host: Option<bool>,
}

/// Parameters for attaching to a drive by vfio-user.
#[derive(Serialize)]
struct ReadyFunction {
    doorbells: Doorbells,
    shadow_doorbells: bool,
    socket: String,
    qemu_device: String,
    bench: String,
}

/// Parameters for connecting to a drive over NVMe/TCP.
#[derive(Serialize)]
struct ReadyTarget {
    /// Address of the first port; all are in `ports`.
    address: String,
    port: u16,
    ports: Vec<ReadyPort>,
    subsystem_nqn: String,
    /// Whether any host may connect.
    any_host: bool,
    /// Number of hosts that must authenticate.
    authenticated_hosts: usize,
    /// Whether TLS is required.
    tls: bool,
    linux: String,
    discover: String,
}

/// A port of a drive.
#[derive(Serialize)]
struct ReadyPort {
    id: u16,
    address: String,
    port: u16,
}

/// State in which a drive with kept data started.
#[derive(Serialize)]
struct Data {
    directory: String,
    /// "created", "clean" or "recovered".
    state: &'static str,
    /// Number of starts, including this one.
    starts: u32,
    stripes_found: u64,
    stripes_torn: u64,
    /// Units of 4 KiB that are lost, as found now.
    lost_units: u64,
    /// Time to open the directory.
    opening_ms: f64,
    /// Time of the firmware's recovery.
    recovery_ms: f64,
}

impl Data {
    fn of(directory: &Path, start: &Start) -> Data {
        let opened = &start.opened;
        let ms = |time: std::time::Duration| time.as_micros() as f64 / 1000.0;
        Data {
            directory: directory.to_string_lossy().into_owned(),
            state: match (opened.created, opened.clean) {
                (true, _) => "created",
                (false, true) => "clean",
                (false, false) => "recovered",
            },
            starts: opened.starts,
            stripes_found: opened.stripes_found,
            stripes_torn: opened.stripes_torn,
            lost_units: start.lost_units,
            opening_ms: ms(start.opening),
            recovery_ms: ms(start.recovery),
        }
    }

    fn text(&self) -> String {
        let ms = self.opening_ms + self.recovery_ms;
        let how = match self.state {
            "created" => "a new drive".to_owned(),
            "clean" => format!("clean, started in {ms:.0} ms"),
            _ => format!(
                "after an unclean end: recovered in {ms:.0} ms, {} stripes since the last checkpoint",
                grouped(self.stripes_found)
            ),
        };
        let lost = match self.lost_units {
            0 => String::new(),
            units => format!("; {} units of 4 KiB are lost and read as errors", grouped(units)),
        };
        format!("  data    {}: {how}{lost}\n", self.directory)
    }
}

impl Served {
    fn ready(&self, starts: &[Start]) -> ReadyLine<'_> {
        let Served { device, setup, http } = self;
        ReadyLine {
            event: "ready",
            name: &setup.name,
            model: &setup.drive.model,
            serial: &setup.drive.serial,
            capacity_bytes: setup.drive.user_bytes(),
            namespaces: setup.drive.namespaces.len() as u32,
            kv_namespaces: device.drive.pairs_nsids().collect(),
            lba_bytes: device.drive.lba_bytes,
            timing: device.serve.timing,
            vfio_user: self.setup.access.iter().find_map(|access| self.function(access)),
            tcp: self.setup.access.iter().find_map(target),
            data: setup.data.as_deref().and_then(|directory| {
                let start = starts.iter().find(|start| start.name == setup.name)?;
                Some(Data::of(directory, start))
            }),
            http: http.as_ref().map(|place| &*place.url),
            http_any_host: http.as_ref().map(|place| place.any_host),
        }
    }

    fn function(&self, access: &Access) -> Option<ReadyFunction> {
        let Access::VfioUser { socket, .. } = access else { return None };
        let folder = socket.parent().unwrap_or(socket).to_string_lossy();
        let socket = socket.to_string_lossy().into_owned();
        let path = serde_json::to_string(&socket).expect("a text is JSON");
        let device_of_qemu =
            format!("{{\"driver\":\"vfio-user-pci\",\"socket\":{{\"type\":\"unix\",\"path\":{path}}}}}");
        Some(ReadyFunction {
            doorbells: self.device.serve.doorbells,
            shadow_doorbells: self.device.serve.shadow_doorbells,
            qemu_device: format!("-device {}", quoted(&device_of_qemu)),
            bench: format!("byteway bench --vfio-user {}", quoted(&folder)),
            socket,
        })
    }

    /// The folder of its socket, if it has one.
    fn folder(&self) -> Option<&Path> {
        self.setup.access.iter().find_map(|access| match access {
            Access::VfioUser { socket, .. } => socket.parent(),
            Access::Tcp { .. } => None,
        })
    }

    /// JSON for a script, in one line.
    pub fn ready_json(&self, starts: &[Start]) -> String {
        json_line(&self.ready(starts))
    }

    /// Human-readable text.
    pub fn ready_text(&self, starts: &[Start]) -> String {
        let ready = self.ready(starts);
        let timing = match ready.timing {
            Timing::Model => "with modeled latencies",
            Timing::None => "as fast as this machine can",
        };
        let (mut how, mut place) = (String::new(), String::new());
        let ways =
            [ready.vfio_user.as_ref().map(ReadyFunction::text), ready.tcp.as_ref().map(ReadyTarget::text)];
        for (said, lines) in ways.into_iter().flatten() {
            how = format!("{how}, {said}");
            place += &lines;
        }
        let mut namespaces = match ready.namespaces {
            1 => String::new(),
            count => format!(" in {count} namespaces"),
        };
        if let (Some(first), Some(last)) = (ready.kv_namespaces.first(), ready.kv_namespaces.last()) {
            let _ = match first == last {
                true => write!(namespaces, ", KV namespace {first}"),
                false => write!(namespaces, ", KV namespaces {first} to {last}"),
            };
        }
        format!(
            "{}: {}, {}{namespaces}, blocks of {}, serial {}; {timing}{how}\n{place}{}{}",
            ready.name,
            ready.model,
            Bytes(ready.capacity_bytes),
            Bytes(ready.lba_bytes.into()),
            ready.serial,
            ready.data.as_ref().map(Data::text).unwrap_or_default(),
            self.http.as_ref().map(WatchPlace::text).unwrap_or_default(),
        )
    }
}

impl WatchPlace {
    fn text(&self) -> String {
        let who = if self.any_host { ", readable for any host that reaches it" } else { "" };
        format!("  watch   {}{who}\n", self.url)
    }
}

impl ReadyFunction {
    /// Address of the drive, and commands to attach.
    fn text(&self) -> (&'static str, String) {
        let ReadyFunction { doorbells, socket, qemu_device, bench, .. } = self;
        let how = match doorbells {
            Doorbells::Mapped => "doorbells mapped",
            Doorbells::Trapped => "doorbells trapped",
        };
        (how, format!("  socket  {socket}\n  QEMU    {qemu_device}\n  here    {bench}\n"))
    }
}

impl ReadyTarget {
    /// Hosts for which the drive is served, and commands to connect.
    fn text(&self) -> (&'static str, String) {
        let ReadyTarget { ports, any_host, authenticated_hosts, tls, linux, discover, subsystem_nqn, .. } =
            self;
        let who = match (any_host, tls, authenticated_hosts) {
            (_, true, 0) => "for hosts with TLS keys",
            (_, true, _) => "for hosts with TLS keys; those with a secret must authenticate",
            (true, false, _) => "for any host that reaches it",
            (false, false, 0) => "for the listed hosts",
            (false, false, _) => "for the listed hosts; those with a secret must authenticate",
        };
        let listens: String = ports
            .iter()
            .map(|ReadyPort { address, port, .. }| format!("  listens {address}, port {port}\n"))
            .collect();
        (who, format!("{listens}  NQN     {subsystem_nqn}\n  Linux   {linux}\n  all     {discover}\n"))
    }
}

/// Parameters for connecting to the drive, if it is served over NVMe/TCP.
fn target(access: &Access) -> Option<ReadyTarget> {
    let Access::Tcp { servers, subsystem, credentials, .. } = access else { return None };
    let ports = nvme_tcp::ports(servers);
    let (ip, port) = ports
        .first()
        .map_or((IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), |port| (port.address.ip(), port.address.port()));
    let nqn = subsystem.nqn.as_str().to_owned();
    let tls = servers.iter().any(nvme_tcp::Server::is_secure);
    let flag = if tls { " --tls" } else { "" };
    Some(ReadyTarget {
        address: ip.to_string(),
        port,
        any_host: subsystem.hosts == Hosts::Any && !tls,
        authenticated_hosts: credentials.as_ref().map_or(0, Credentials::count),
        tls,
        linux: format!("nvme connect -t tcp -a {ip} -s {port} -n {nqn}{flag}"),
        discover: format!("nvme connect-all -t tcp -a {ip} -s {port}{flag}"),
        subsystem_nqn: nqn,
        ports: ports
            .iter()
            .map(|port| ReadyPort {
                id: port.id,
                address: port.address.ip().to_string(),
                port: port.address.port(),
            })
            .collect(),
    })
}

/// Quotes a text as one word for a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:=@%".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// Statistics of a served drive, as a line of JSON.
#[derive(Serialize)]
struct ServedLine<'a> {
    event: &'static str,
    name: &'a str,
    clients: u64,
    commands: u64,
    reads: Transfers,
    writes: Transfers,
    resets: u64,
    link: Vec<LinkRow>,
    faults: u64,
    interrupts_lost: u64,
    lateness: Option<LatenessReport>,
}

#[derive(Serialize)]
struct Transfers {
    commands: u64,
    bytes: u64,
}

/// Lateness of the real machine relative to the model.
#[derive(Serialize)]
struct LatenessReport {
    /// Number of modeled times waited for.
    waits: u64,
    /// Waits that ended later than [`Lateness::LATE`].
    late: u64,
    mean_ns: f64,
    worst_ns: f64,
    /// Slip of the modeled clock against the wall clock.
    slipped_ns: f64,
}

impl LatenessReport {
    fn of(pace: &Lateness) -> Self {
        LatenessReport {
            waits: pace.waits,
            late: pace.late,
            mean_ns: byteway_text::number::ratio(pace.lateness.0.into(), u128::from(pace.waits) * 1000),
            worst_ns: ns(pace.worst.0),
            slipped_ns: ns(pace.slipped.0),
        }
    }
}

/// Statistics as JSON, one line per drive.
pub fn served_json(reports: &[Report]) -> String {
    let line = |report: &Report| {
        let transfers = |(commands, bytes)| Transfers { commands, bytes };
        json_line(&ServedLine {
            event: "served",
            name: &report.name,
            clients: report.clients,
            commands: report.commands,
            reads: transfers(report.reads),
            writes: transfers(report.writes),
            resets: report.resets,
            link: link_rows(slice::from_ref(&report.ledger)),
            faults: report.faults,
            interrupts_lost: report.interrupts_lost,
            lateness: report.pace.as_ref().map(LatenessReport::of),
        })
    };
    reports.iter().map(line).collect()
}

/// Statistics as tables, each with its title: some may be empty.
pub fn served_sections(reports: &[&Report]) -> Vec<(String, TextTable)> {
    let mut sections = Vec::new();
    let mut table = TextTable::new([
        Column::text("drive"),
        Column::count("clients"),
        Column::count("commands"),
        Column::count("reads"),
        Column::of("read", Quantity::Bytes),
        Column::count("writes"),
        Column::of("written", Quantity::Bytes).same_unit(),
        Column::count("resets").rank(1),
    ]);
    for report in reports {
        table.row([
            report.name.as_str().into(),
            report.clients.into(),
            report.commands.into(),
            report.reads.0.into(),
            (report.reads.1 as f64).into(),
            report.writes.0.into(),
            (report.writes.1 as f64).into(),
            report.resets.into(),
        ]);
    }
    sections.push(("Served".to_owned(), table));
    for report in reports {
        let title = match reports.len() {
            1 => LINK_TITLE.to_owned(),
            _ => format!("{}: {LINK_TITLE}", report.name),
        };
        let ios = report.reads.0.saturating_add(report.writes.0);
        sections.push((title, link_table(&link_rows(slice::from_ref(&report.ledger)), ios)));
    }
    let mut table = TextTable::new([
        Column::text("drive"),
        Column::count("modeled waits"),
        Column::count("late"),
        Column::of("late by, mean", Quantity::Time),
        Column::of("at most", Quantity::Time).same_unit(),
        Column::of("clock slipped by", Quantity::Time).rank(1),
    ]);
    for report in reports {
        if let Some(lateness) = report.pace.as_ref().map(LatenessReport::of) {
            table.row([
                report.name.as_str().into(),
                lateness.waits.into(),
                lateness.late.into(),
                lateness.mean_ns.into(),
                lateness.worst_ns.into(),
                lateness.slipped_ns.into(),
            ]);
        }
    }
    let title =
        format!("Behind the model (late: by more than {})", byteway_text::units::Picos(Lateness::LATE.0));
    sections.push((title, table));
    sections
}

/// Statistics as printed tables.
pub fn served_tables(reports: &[Report], width: Width) -> String {
    let mut out = Printout::new(width);
    for (title, table) in served_sections(&reports.iter().collect::<Vec<_>>()) {
        out.section(&title, &table);
    }
    for report in reports {
        for (count, what) in [
            (report.faults, "writes to memory that the host had unmapped"),
            (report.interrupts_lost, "interrupts could not be delivered"),
        ] {
            if count > 0 {
                let _ = writeln!(out, "note: {}: {} {what}", report.name, grouped(count));
            }
        }
    }
    out.finish()
}

fn json_line(line: &impl Serialize) -> String {
    let mut json = serde_json::to_string(line).expect("a line has only string keys");
    json.push('\n');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    // A device file without a rest interval must have the server's default.
    #[test]
    fn a_device_file_rests_as_long_as_a_server() {
        assert_eq!(byteway_scenario::ServeSection::default().rest.0, byteway_serve::front::REST.0);
    }

    // A command that a shell would split could not be copied.
    #[test]
    fn what_is_copied_to_a_shell_is_one_word() {
        assert_eq!(quoted("/run/drive-0"), "/run/drive-0");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted("$(x)"), "'$(x)'");
        assert_eq!(quoted(""), "''");
    }
}
