//! The Discovery Service of a process that serves several drives.

use crate::client::{Client, HOST, by_transport};
use crate::service::Service;
use byteway_nvmeof::discovery::{Port, Record};
use byteway_nvmeof::{Hosts, Reached};
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::discovery::{DiscoveryEntry, DiscoveryLog, SubsystemType};
use byteway_wire::nvme::feature::{AsyncEvent, AsyncEventConfig, fid};
use byteway_wire::nvme::log::lid;
use byteway_wire::nvme::{AsyncEventRequest, GetLogPage, SetFeatures};
use std::net::SocketAddr;

const OTHER: &str = "nqn.2026-11.org.byteway:other-host";

fn reached(service: &Service) -> Reached {
    Reached { address: service.address(), ..Reached::default() }
}

fn page(client: &mut Client) -> Vec<DiscoveryEntry> {
    let bytes = 16 << 10;
    let command = GetLogPage { lid: lid::DISCOVERY, numd_z: bytes / 4 - 1, ..GetLogPage::default() };
    let answer = client.ask(by_transport(command.sqe(0, 0), bytes), &[]).unwrap();
    assert!(answer.cqe.status().is_success());
    DiscoveryLog::parse(&answer.data).unwrap().1.filter(|entry| entry.subtype == SubsystemType::NVM).collect()
}

// Drives have their own threads and ports: a host that knows one of them finds all, at their actual
// addresses.
#[test]
fn every_port_tells_of_every_drive() {
    let service = Service::start(3, 2, |number, subsystem, _| {
        if number == 2 {
            subsystem.hosts = Hosts::Listed(vec![Nqn::new(OTHER).unwrap()]);
        }
    });
    for address in service.addresses.concat() {
        for (name, drives) in [(HOST, 2), (OTHER, 3)] {
            let mut client = Client::admin(address, &Nqn::discovery(), name).unwrap();
            let entries = page(&mut client);
            assert_eq!(entries.len(), 2 * drives);
            // All that the host finds can be connected to.
            for entry in entries {
                let nqn = entry.subsystem().unwrap();
                let at = service.nqns.iter().position(|other| *other == nqn).unwrap();
                let place = entry.address().unwrap();
                assert_eq!(service.addresses[at][usize::from(entry.portid) - 1], place);
                Client::admin(place, &nqn, name).unwrap();
            }
        }
    }
    assert!(Client::admin(service.addresses[2][0], &service.nqns[2], HOST).is_err());
    let reports = service.end();
    assert_eq!(reports.iter().map(|report| report.clients).collect::<Vec<_>>(), [24, 24, 12]);
}

// A script connects to all drives as soon as the server reports that it is ready.
#[test]
fn a_server_that_is_ready_tells_of_every_drive() {
    for _ in 0..8 {
        let service = Service::start(8, 1, |_, _, _| ());
        assert_eq!(service.directory.entries(&Nqn::new(HOST).unwrap(), reached(&service)).1.len(), 9);
    }
}

// The drive that changes the list has another thread than the host's controller.
#[test]
fn a_change_reaches_hosts_of_other_threads() {
    let service = Service::start(2, 1, |_, _, _| ());
    let mut client = Client::admin(service.address(), &Nqn::discovery(), HOST).unwrap();
    let cdw11 = AsyncEventConfig::new().with_discovery_log_change(true).into_bits();
    let configure = SetFeatures { fid: fid::ASYNC_EVENT_CONFIGURATION, cdw11, ..SetFeatures::default() };
    assert!(client.ask(configure.sqe(0, 0), &[]).unwrap().cqe.status().is_success());
    assert_eq!(page(&mut client).len(), 2);
    let event = client.begin(AsyncEventRequest.sqe(0), &[]);
    let ports = vec![Port { id: 1, address: SocketAddr::from(([127, 0, 0, 1], 9)), is_secure: false }];
    let nqn = Nqn::new("nqn.2026-11.org.byteway:late").unwrap();
    let directory = service.directory.clone();
    let publish = move || {
        directory.publish(Record { nqn, hosts: Hosts::Any, credentials: None, ports, admin_entries_max: 128 })
    };
    let published = std::thread::spawn(publish).join().unwrap();
    let cqe = client.answer(event, &[]).unwrap().cqe;
    assert_eq!(AsyncEvent::from_dw0(cqe.dw0), AsyncEvent::DISCOVERY_LOG_CHANGE);
    assert_eq!(page(&mut client).len(), 3);
    let event = client.begin(AsyncEventRequest.sqe(0), &[]);
    drop(published);
    assert!(client.answer(event, &[]).is_some());
    assert_eq!(page(&mut client).len(), 2);
}
