//! The client of Discovery Services (NVMe Base 2.1, 3.1.3.3): reads the addresses of subsystems, following referrals.

use crate::driver::controller::{Data, Driver};
use crate::error::DriverError;
use byteway_clock::Delay;
use byteway_wire::IntoBytes;
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::discovery::{DiscoveryEntry, DiscoveryHeader, DiscoveryLog, SubsystemType};
use byteway_wire::nvme::{GetLogPage, lid};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::net::SocketAddr;

/// Maximum depth of referrals that are followed.
pub const DEPTH_MAX: u32 = 8;
/// Maximum number of Discovery Services that are queried.
pub const SERVICES_MAX: usize = 32;
/// Maximum number of entries that are read per service.
pub const ENTRIES_MAX: u64 = 4096;
/// Attempts to read a page that changes while it is read.
const READS_MAX: u32 = 8;
/// Time limit of a service for its page, and for the shutdown of its controller.
const ANSWER_LIMIT: Delay = Delay::from_s(30);
const FAREWELL_LIMIT: Delay = Delay::from_s(1);
/// Maximum number of bytes in one read.
const PART_BYTES: u64 = 16 << 10;

/// An entry and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredEntry {
    /// The entry.
    pub entry: DiscoveryEntry,
    /// Address of the service that returned it.
    pub service: SocketAddr,
    /// Number of referrals that led to that service.
    pub depth: u32,
}

/// The result of a discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovered {
    /// Entries of all queried services, in order.
    pub found: Vec<DiscoveredEntry>,
    /// Services that were referred to and did not answer, with the reason.
    pub silent: Vec<(SocketAddr, String)>,
    /// Descriptions of what the limits cut off.
    pub cut: Vec<String>,
}

impl Discovered {
    /// Names of the subsystems with an NVMe/TCP address, without duplicates, in order.
    pub fn subsystems(&self) -> Vec<Nqn> {
        let mut names = Vec::new();
        for DiscoveredEntry { entry, .. } in &self.found {
            if let (SubsystemType::NVM, Ok(name), Some(_)) =
                (entry.subtype, entry.subsystem(), entry.address())
                && !names.contains(&name)
            {
                names.push(name);
            }
        }
        names
    }

    /// NVMe/TCP addresses of a subsystem, without duplicates, in order.
    pub fn addresses(&self, subsystem: &Nqn) -> Vec<SocketAddr> {
        let mut addresses = Vec::new();
        for DiscoveredEntry { entry, .. } in &self.found {
            let is_wanted =
                entry.subtype == SubsystemType::NVM && entry.subsystem().as_ref() == Ok(subsystem);
            if let (true, Some(address)) = (is_wanted, entry.address())
                && !addresses.contains(&address)
            {
                addresses.push(address);
            }
        }
        addresses
    }
}

/// Queries the Discovery Service at `first`, and those that it refers to, each once. `connect` returns the driver of a
/// controller of the service at an address.
///
/// # Errors
/// The error of the first service, if it does not answer.
pub async fn discover<E: From<DriverError> + fmt::Display>(
    first: SocketAddr,
    connect: impl AsyncFn(SocketAddr) -> Result<Driver, E>,
) -> Result<Discovered, E> {
    let mut discovered = Discovered::default();
    let mut known = BTreeSet::from([first]);
    let mut waiting = VecDeque::from([(first, 0)]);
    while let Some((service, depth)) = waiting.pop_front() {
        let asked = ask(service, &connect).await;
        let (entries, is_cut) = match asked {
            Ok(answer) => answer,
            Err(error) if depth == 0 => return Err(error),
            Err(error) => {
                discovered.silent.push((service, error.to_string()));
                continue;
            }
        };
        if is_cut {
            discovered.cut.push(format!("{service} has more than {ENTRIES_MAX} entries"));
        }
        for entry in entries {
            if entry.subtype == SubsystemType::REFERRAL
                && let Some(next) = entry.address()
                && !known.contains(&next)
            {
                let left_out = match (depth >= DEPTH_MAX, known.len() >= SERVICES_MAX) {
                    (true, _) => format!("services behind more than {DEPTH_MAX} referrals are not asked"),
                    (_, true) => {
                        format!("no more than {SERVICES_MAX} services are asked, and there are others")
                    }
                    _ => {
                        known.insert(next);
                        waiting.push_back((next, depth + 1));
                        String::new()
                    }
                };
                if !left_out.is_empty() && !discovered.cut.contains(&left_out) {
                    discovered.cut.push(left_out);
                }
            }
            discovered.found.push(DiscoveredEntry { entry, service, depth });
        }
    }
    Ok(discovered)
}

/// The entries of a service, and whether it has more.
async fn ask<E: From<DriverError>>(
    service: SocketAddr,
    connect: &impl AsyncFn(SocketAddr) -> Result<Driver, E>,
) -> Result<(Vec<DiscoveryEntry>, bool), E> {
    let driver = connect(service).await?;
    let clock = driver.clock().clone();
    let entries = clock.within(ANSWER_LIMIT, read(&driver)).await;
    // Any answer will do: the connection ends.
    clock.within(FAREWELL_LIMIT, driver.shutdown()).await;
    Ok(entries.unwrap_or(Err(DriverError::Unreadable("the Discovery log page")))?)
}

/// The Discovery log page, as a consistent snapshot.
///
/// # Errors
/// [`DriverError`] if the controller refuses, or the page keeps changing.
pub async fn read(driver: &Driver) -> Result<(Vec<DiscoveryEntry>, bool), DriverError> {
    let unreadable = || DriverError::Unreadable("the Discovery log page");
    let part_bytes = PART_BYTES.min(driver.transfer_bytes_max().unwrap_or(PART_BYTES)) as usize;
    for _ in 0..READS_MAX {
        let before = header(driver).await?.ok_or_else(unreadable)?;
        let count = before.numrec.min(ENTRIES_MAX);
        let mut bytes = before.as_bytes().to_vec();
        bytes.resize((1 + count as usize) * DiscoveryEntry::SIZE, 0);
        let mut offset = DiscoveryEntry::SIZE;
        for part in bytes[DiscoveryEntry::SIZE..].chunks_mut(part_bytes) {
            page(driver, offset as u64, part).await?;
            offset += part.len();
        }
        let is_same = header(driver).await? == Some(before);
        if let (true, Some((_, entries))) = (is_same, DiscoveryLog::parse(&bytes)) {
            return Ok((entries.collect(), before.numrec > count));
        }
    }
    Err(unreadable())
}

/// The header of the page; `None`: its entries have an unknown format.
async fn header(driver: &Driver) -> Result<Option<DiscoveryHeader>, DriverError> {
    let mut bytes = [0; DiscoveryEntry::SIZE];
    page(driver, 0, &mut bytes).await?;
    Ok(DiscoveryLog::parse(&bytes).map(|(header, _)| header))
}

/// Reads a part of the page.
async fn page(driver: &Driver, offset: u64, into: &mut [u8]) -> Result<(), DriverError> {
    let numd_z = (into.len() as u32 / 4).saturating_sub(1);
    let command = GetLogPage { lid: lid::DISCOVERY, numd_z, lpo: offset, ..GetLogPage::default() };
    driver.checked("Get Log Page (Discovery)", command.sqe(0, 0), Data::In(into)).await.map(drop)
}
