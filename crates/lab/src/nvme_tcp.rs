//! This host as targets over NVMe/TCP know it: its ways to them, in real time, and what they say of where drives are.

use crate::error::AttachedError;
use byteway_auth::{Algorithms, Endpoint, HostSecrets};
use byteway_clock::{Clock, Delay};
use byteway_console::error::InputError;
use byteway_console::table::{Cell, Column, Printout, TextTable, Width};
use byteway_host::discovery::{Discovered, Found, discover};
use byteway_host::fabric::{Adapter, Authenticator, Initiator, InitiatorConfig};
use byteway_host::{Completion, Driver, DriverConfig, DriverError, Port};
use byteway_link::Memory;
use byteway_serve::system::System;
use byteway_serve::tcp_host::Sockets;
use byteway_serve::tls::{ConfiguredPsk, Connector};
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::discovery::SubsystemType;
use byteway_wire::fabrics::tcp::Digests;
use serde::Serialize;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::rc::Rc;

/// The name of this host to a target.
const HOST: &str = "nqn.2026-11.org.byteway:bench";
/// Data that goes with a command: what targets commonly take.
const IN_CAPSULE_BYTES: u32 = 4096;
/// How long a Discovery Service may take to answer.
const DISCOVERY_LIMIT: Delay = Delay::from_s(10);

/// How this host connects to targets.
#[derive(Clone, Debug, Default)]
pub struct TcpOptions {
    /// With digests of headers and data.
    pub digests: bool,
    /// What this host authenticates with, and the controller with it.
    pub secrets: Option<HostSecrets>,
    /// With TLS, by a key that authentication generates.
    pub concatenates: bool,
    /// With TLS, by this key.
    pub tls_key: Option<ConfiguredPsk>,
}

/// This host, whose associations share its memory.
#[derive(Clone)]
pub(crate) struct TcpHost {
    clock: Clock,
    memory: Memory,
    options: TcpOptions,
}

impl TcpHost {
    pub fn new(clock: &Clock, options: &TcpOptions) -> TcpHost {
        TcpHost { clock: clock.clone(), memory: Memory::simulated(), options: options.clone() }
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

    /// Asks a Discovery Service, and those that it refers to.
    pub async fn discover(&self, address: SocketAddr) -> Result<Discovered, AttachedError> {
        let connect = async |service| {
            let port = self.connect(service, Nqn::discovery()).await?;
            let config = DriverConfig {
                completion: Completion::Interrupt,
                timeout: Some(DISCOVERY_LIMIT),
                is_administrative: true,
                ..DriverConfig::default()
            };
            Driver::attach(port, config).await.map_err(AttachedError::NotDriven)
        };
        let silent = || AttachedError::NotDriven(DriverError::NoController);
        discover(address, async |service| {
            self.clock.within(DISCOVERY_LIMIT, connect(service)).await.unwrap_or_else(|| Err(silent()))
        })
        .await
    }

    /// Where a Discovery Service says that a subsystem is.
    pub async fn find(&self, service: SocketAddr, subsystem: &Nqn) -> Result<Vec<SocketAddr>, AttachedError> {
        let discovered = self.discover(service).await?;
        let addresses = discovered.addresses(subsystem);
        if addresses.is_empty() {
            let what =
                format!("the Discovery Service at {service} knows of no subsystem {}", subsystem.as_str());
            let cure = format!("choose one of those that `byteway bench --tcp {service} --discover` lists");
            return Err(InputError::new(what, cure).into());
        }
        Ok(addresses)
    }
}

/// An entry of a Discovery log page, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiscoveryRow {
    /// `drive`, `discovery` (the service itself), `referral`, or another type.
    pub kind: String,
    /// Name of the subsystem; of one that is malformed, what is wrong with it.
    pub subsystem: String,
    /// `TCP`, or another transport.
    pub transport: String,
    /// Address and port of one that is reached by TCP.
    pub address: Option<SocketAddr>,
    /// The subsystem's port.
    pub port_id: u16,
    /// `no security`, or the version of TLS that is wanted.
    pub security: String,
    /// The service that has the entry.
    pub service: SocketAddr,
    /// Referrals that led there.
    pub depth: u32,
}

/// What Discovery Services have said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiscoverySummary {
    /// Entries, service by service.
    pub entries: Vec<DiscoveryRow>,
    /// Services that did not answer, and what limits have left out.
    pub notes: Vec<String>,
}

impl From<Discovered> for DiscoverySummary {
    fn from(discovered: Discovered) -> Self {
        let row = |Found { entry, service, depth }: Found| {
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
    /// As a table, for a terminal.
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

    /// As JSON.
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).expect("text and numbers are JSON");
        json.push('\n');
        json
    }
}
