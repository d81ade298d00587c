//! Discovery Services that refer to each other, queried by our host over simulated networks.

use crate::host::{HOST, SUBSYSTEM, with_target};
use crate::simulated::connect_at;
use byteway_clock::Clock;
use byteway_host::discovery::{DEPTH_MAX, Discovered, SERVICES_MAX, discover};
use byteway_host::fabric::{Initiator, InitiatorConfig};
use byteway_host::{Completion, Driver, DriverConfig, DriverError, Port};
use byteway_link::Memory;
use byteway_nvmeof::discovery::{Port as TargetPort, Published, Record};
use byteway_nvmeof::{Directory, Discovery, Hosts, Reached, SimulatedTarget, Target};
use byteway_wire::fabrics::Nqn;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

fn at(number: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 8000 + number as u16))
}

/// Services by address.
#[derive(Default)]
struct Services {
    targets: BTreeMap<SocketAddr, Rc<Target>>,
    served: RefCell<Vec<SimulatedTarget>>,
    published: Vec<Published>,
}

impl Services {
    /// A service with a drive at `address` and these referrals.
    fn add(&mut self, clock: &Clock, number: usize, referrals: impl IntoIterator<Item = usize>) {
        let directory = Directory::new(referrals.into_iter().map(at).collect(), None);
        let address = SocketAddr::from(([192, 0, 2, 9], 4000 + number as u16));
        let ports = vec![TargetPort { id: 1, address, is_secure: false }];
        let nqn = Nqn::new(SUBSYSTEM).unwrap();
        self.published.push(directory.publish(Record {
            nqn,
            hosts: Hosts::Any,
            credentials: None,
            ports,
            admin_entries_max: 32,
        }));
        let target = Target::with_discovery(Vec::new(), Discovery::new(clock, directory));
        self.targets.insert(at(number), target);
    }

    async fn connect(&self, clock: &Clock, address: SocketAddr) -> Result<Driver, DriverError> {
        let target = self.targets.get(&address).ok_or(DriverError::NoController)?;
        let (adapter, served) = connect_at(Reached { address, ..Reached::default() }, target, clock, 1);
        self.served.borrow_mut().push(served);
        let config = InitiatorConfig {
            subsystem: Nqn::discovery(),
            host: Nqn::new(HOST).unwrap(),
            host_id: [7; 16],
            admin_entries: 32,
            in_capsule_bytes: 4096,
            authenticator: None,
            timeout: None,
        };
        let initiator = Initiator::connect(&adapter, Memory::simulated(), config).await.unwrap();
        let config = DriverConfig {
            completion: Completion::Interrupt,
            is_administrative: true,
            ..DriverConfig::default()
        };
        Driver::attach(Port::Fabric(initiator), config).await
    }
}

/// The result of discovery that starts at the first of these services.
fn found(services: impl FnOnce(&mut Services, &Clock) + 'static) -> Result<Discovered, DriverError> {
    with_target(
        |_| {},
        async move |_, clock| {
            let mut all = Services::default();
            services(&mut all, &clock);
            discover(at(0), async |address| all.connect(&clock, address).await).await
        },
    )
}

// Without this a host would only find the drives of one service, or query two mutual referrals indefinitely.
#[test]
fn referrals_are_followed_and_loops_end() {
    let found = found(|services, clock| {
        services.add(clock, 0, [1, 2, 0]);
        services.add(clock, 1, [0, 2]);
        services.add(clock, 2, [1, 7]);
    })
    .unwrap();
    let drives = found.addresses(&Nqn::new(SUBSYSTEM).unwrap());
    assert_eq!(drives.iter().map(SocketAddr::port).collect::<Vec<_>>(), [4000, 4001, 4002]);
    let silent: Vec<_> = found.silent.iter().map(|(service, _)| *service).collect();
    assert_eq!((silent, &found.cut[..]), (vec![at(7)], &[][..]));
    // Its own entry, its drive, and its referrals.
    assert_eq!(found.found.len(), (1 + 1 + 3) + (1 + 1 + 2) + (1 + 1 + 2));
    let depths: Vec<_> = found.found.iter().map(|found| found.depth).collect();
    assert!(depths.is_sorted() && depths.last() == Some(&1), "{depths:?}");
}

// A service with endless or very many referrals must not block a host.
#[test]
fn referrals_without_end_are_given_up() {
    let chain = found(|services, clock| (0..20).for_each(|number| services.add(clock, number, [number + 1])));
    let chain = chain.unwrap();
    let deepest = chain.found.iter().map(|found| found.depth).max();
    assert_eq!((deepest, chain.cut.len()), (Some(DEPTH_MAX), 1), "{:?}", chain.cut);
    let star = found(|services, clock| {
        services.add(clock, 0, 1..100);
        (1..100).for_each(|number| services.add(clock, number, [0]));
    });
    let star = star.unwrap();
    let drives = star.addresses(&Nqn::new(SUBSYSTEM).unwrap());
    assert_eq!(drives.len(), SERVICES_MAX);
    assert_eq!(star.cut.len(), 1, "{:?}", star.cut);
}

// Only the explicitly named service has to exist.
#[test]
fn a_service_that_is_silent_is_an_error() {
    assert_eq!(found(|_, _| ()), Err(DriverError::NoController));
}
