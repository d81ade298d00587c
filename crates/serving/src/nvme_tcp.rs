//! This host as an NVMe/TCP initiator in real time: connections to targets, and discovery.

use crate::error::AttachedError;
use byteway_auth::{Algorithms, Endpoint, HostSecrets};
use byteway_clock::{Clock, Delay};
use byteway_host::discovery::{Discovered, DiscoveredEntry, discover};
use byteway_host::fabric::{Adapter, Authenticator, Initiator, InitiatorConfig};
use byteway_host::{Completion, Driver, DriverConfig, DriverError, Port};
use byteway_link::Memory;
use byteway_serve::system::System;
use byteway_serve::tcp_host::Sockets;
use byteway_serve::tls::{ConfiguredPsk, Connector};
use byteway_text::error::InputError;
use byteway_text::table::{Cell, Column, Printout, TextTable, Width};
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::discovery::SubsystemType;
use byteway_wire::fabrics::tcp::Digests;
use serde::Serialize;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::rc::Rc;

/// NQN of this host.
const HOST: &str = "nqn.2026-11.org.byteway:bench";
/// In-capsule data size that targets commonly support.
const IN_CAPSULE_BYTES: u32 = 4096;
/// Timeout of a Discovery Service.
const DISCOVERY_LIMIT: Delay = Delay::from_s(10);

/// Options for connections to targets.
#[derive(Clone, Debug, Default)]
pub struct TcpOptions {
    /// Whether to use header and data digests.
    pub digests: bool,
    /// Secrets of this host, and of the controller.
    pub secrets: Option<HostSecrets>,
    /// Whether to use TLS with a key that authentication generates.
    pub concatenates: bool,
    /// TLS key to use.
    pub tls_key: Option<ConfiguredPsk>,
}

/// This host. Its associations share its memory.
#[derive(Clone)]
pub(crate) struct TcpHost {
    clock: Clock,
    memory: Memory,
    options: TcpOptions,
    timeout: Delay,
}

impl TcpHost {
    /// `timeout`: time limit of each command.
    pub fn new(clock: &Clock, options: &TcpOptions, timeout: Delay) -> TcpHost {
        TcpHost { clock: clock.clone(), memory: Memory::simulated(), options: options.clone(), timeout }
    }

    /// Connects to a subsystem.
    pub async fn connect(&self, address: SocketAddr, subsystem: Nqn) -> Result<Port, AttachedError> {
        let TcpOptions { digests, secrets, concatenates, tls_key } = &self.options;
        let host = Nqn::new(HOST).map_err(|error| InputError::new(error.to_string(), "this is a defect"))?;
        let authenticator = secrets.as_ref().map(|secrets| Authenticator {
            secrets: secrets.clone(),
            endpoint: Rc::new(Endpoint::new(Algorithms::default(), Box::new(System::new(&self.clock)))),
            concatenates: *concatenates,
        });
        let config = InitiatorConfig {
            subsystem,
            host,
            host_id: *b"byteway bench   ",
            admin_entries: 32,
            in_capsule_bytes: IN_CAPSULE_BYTES,
            authenticator,
            timeout: Some(self.timeout),
        };
        let digests = Digests::new().with_header(*digests).with_data(*digests);
        let mut sockets = Sockets::new(&self.clock, address, digests);
        let tls_failure = sockets.tls_failure();
        if let Some(key) = tls_key {
            let connector = Connector::new(key.tls_psks(&host, &subsystem));
            sockets = sockets.secured(connector.map_err(|source| AttachedError::Tls { address, source })?);
        }
        let adapter = Adapter::real(&self.clock, Box::new(sockets));
        let connected = Initiator::connect(&adapter, self.memory.clone(), config).await;
        connected.map(Port::Fabric).map_err(|error| match tls_failure.last() {
            Some(source) => AttachedError::Tls { address, source },
            None => AttachedError::Refused(error),
        })
    }

    /// Queries a Discovery Service and its referrals.
    pub async fn discover(&self, address: SocketAddr) -> Result<Discovered, AttachedError> {
        let limit = self.timeout.min(DISCOVERY_LIMIT);
        let connect = async |service| {
            let port = self.connect(service, Nqn::discovery()).await?;
            let config = DriverConfig {
                completion: Completion::Interrupt,
                timeout: Some(limit),
                timeout_period: timeout_period(limit),
                is_administrative: true,
                ..DriverConfig::default()
            };
            Driver::attach(port, config).await.map_err(AttachedError::NotDriven)
        };
        let silent = || AttachedError::NotDriven(DriverError::NoController);
        discover(address, async |service| {
            self.clock.within(limit, connect(service)).await.unwrap_or_else(|| Err(silent()))
        })
        .await
    }

    /// A subsystem and its addresses, from a Discovery Service: that of the name, or the only one.
    pub async fn find(
        &self,
        service: SocketAddr,
        subsystem: Option<&Nqn>,
    ) -> Result<(Nqn, Vec<SocketAddr>), AttachedError> {
        let discovered = self.discover(service).await?;
        let subsystem = match subsystem {
            Some(subsystem) => *subsystem,
            None => only(service, &discovered.subsystems())?,
        };
        let addresses = discovered.addresses(&subsystem);
        if addresses.is_empty() {
            let what =
                format!("the Discovery Service at {service} knows of no subsystem {}", subsystem.as_str());
            let help = format!("choose one of those that `byteway bench --tcp {service} --discover` lists");
            return Err(InputError::new(what, help).into());
        }
        Ok((subsystem, addresses))
    }
}

/// Names in an error, at most.
const NAMES_MAX: usize = 8;

/// The only subsystem that a Discovery Service knows.
fn only(service: SocketAddr, known: &[Nqn]) -> Result<Nqn, InputError> {
    if let [subsystem] = known {
        return Ok(*subsystem);
    }
    if known.is_empty() {
        let what = format!("the Discovery Service at {service} knows of no subsystem that this host may use");
        return Err(InputError::new(what, "name one with `--subsystem`, if there is one at that address"));
    }
    let names: Vec<_> = known.iter().take(NAMES_MAX).map(Nqn::as_str).collect();
    let rest = if known.len() > NAMES_MAX { ", ..." } else { "" };
    let what = format!("the Discovery Service at {service} knows of {} subsystems", known.len());
    Err(InputError::new(what, format!("choose one with `--nqn`: {}{rest}", names.join(", "))))
}

/// Interval of checks for overdue commands.
pub(crate) fn timeout_period(timeout: Delay) -> Delay {
    Delay::from_ps(timeout.0 / 8).min(Delay::from_s(1))
}

/// An entry of a Discovery log page, in printable form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiscoveryRow {
    /// `drive`, `discovery` (the service itself), `referral`, or another type.
    pub kind: String,
    /// NQN of the subsystem; for a malformed entry, the error.
    pub subsystem: String,
    /// `TCP`, or another transport.
    pub transport: String,
    /// Address and port, for TCP.
    pub address: Option<SocketAddr>,
    /// Port identifier of the subsystem.
    pub port_id: u16,
    /// `no security`, or the required version of TLS.
    pub security: String,
    /// The service that has the entry.
    pub service: SocketAddr,
    /// Number of referrals that led there.
    pub depth: u32,
}

/// Results of discovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiscoverySummary {
    /// Entries, service by service.
    pub entries: Vec<DiscoveryRow>,
    /// Services without a reply, and entries omitted by limits.
    pub notes: Vec<String>,
}

impl From<Discovered> for DiscoverySummary {
    fn from(discovered: Discovered) -> Self {
        let row = |DiscoveredEntry { entry, service, depth }: DiscoveredEntry| {
            let kind = match entry.subtype {
                SubsystemType::NVM => "drive",
                SubsystemType::CURRENT_DISCOVERY => "discovery",
                SubsystemType::REFERRAL => "referral",
                _ => "reserved",
            };
            let subsystem = entry.subsystem();
            DiscoveryRow {
                kind: kind.to_owned(),
                subsystem: subsystem.map_or_else(|error| error.to_string(), |name| name.as_str().to_owned()),
                transport: entry.trtype.name().to_owned(),
                address: entry.address(),
                port_id: entry.portid,
                security: entry.sectype.name().to_owned(),
                service,
                depth,
            }
        };
        let silent = discovered.silent.into_iter();
        let silent = silent.map(|(service, why)| format!("{service} does not answer: {why}"));
        let notes = silent.chain(discovered.cut).collect();
        DiscoverySummary { entries: discovered.found.into_iter().map(row).collect(), notes }
    }
}

impl DiscoverySummary {
    /// Table for a terminal.
    pub fn tables(&self, width: Width) -> String {
        let text = |name: &str| Column::text(name);
        let mut table = TextTable::new([
            text("type"),
            text("address"),
            text("subsystem"),
            text("security").rank(1),
            text("found at").rank(1),
        ]);
        for row in &self.entries {
            let address = row.address.map_or_else(|| row.transport.clone(), |address| address.to_string());
            let words = [
                row.kind.clone(),
                address,
                row.subsystem.clone(),
                row.security.clone(),
                row.service.to_string(),
            ];
            table.row(words.map(Cell::from));
        }
        let mut out = Printout::new(width);
        out.section("Discovered", &table);
        for note in &self.notes {
            let _ = writeln!(out, "note: {note}");
        }
        out.finish()
    }

    /// JSON for scripts.
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).expect("text and numbers are JSON");
        json.push('\n');
        json
    }
}
