//! The Discovery log page: its contents for each host, and notification of changes.

use crate::host::{Answer, HOST, Host, SUBSYSTEM, by_transport, with_target};
use byteway_clock::Delay;
use byteway_nvmeof::discovery::{Port, Record};
use byteway_nvmeof::{Directory, Ended, Hosts, Reached, Target};
use byteway_wire::FromBytes;
use byteway_wire::fabrics::discovery::{
    DiscoveryEntry, DiscoveryLog, EntryFlags, SecurityType, SubsystemType, TransportRequirements,
};
use byteway_wire::fabrics::status::CONNECT_INVALID_PARAMETERS;
use byteway_wire::fabrics::tcp::Digests;
use byteway_wire::fabrics::{InvalidParameter, Nqn};
use byteway_wire::nvme::feature::{AsyncEvent, AsyncEventConfig, fid};
use byteway_wire::nvme::log::lid;
use byteway_wire::nvme::{
    AsyncEventRequest, Cns, GetFeatures, GetLogPage, Identify, IdentifyController, KeepAlive, SetFeatures,
    Sqe, Status,
};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const OTHER: &str = "nqn.2026-11.org.byteway:other-host";

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn reached(text: &str) -> Reached {
    Reached { address: address(text), ..Reached::default() }
}

fn record(name: &str, hosts: Hosts, ports: &[&str]) -> Record {
    let ports = ports
        .iter()
        .zip(1..)
        .map(|(text, id)| Port { id, address: address(text), is_secure: false })
        .collect();
    Record { nqn: Nqn::new(name).unwrap(), hosts, credentials: None, ports, admin_entries_max: 128 }
}

fn directory(target: &Rc<Target>) -> Directory {
    target.discovery().unwrap().directory().clone()
}

fn get_log(offset: u64, bytes: u32, rae: bool) -> Sqe {
    let command =
        GetLogPage { lid: lid::DISCOVERY, rae, numd_z: bytes / 4 - 1, lpo: offset, ..GetLogPage::default() };
    by_transport(command.sqe(0, 0), bytes)
}

async fn page(host: &mut Host, rae: bool) -> (u64, Vec<DiscoveryEntry>) {
    let Answer { cqe, data } = host.ask(get_log(0, 16 << 10, rae), &[]).await;
    assert_eq!(cqe.status(), Status::SUCCESS);
    let (header, entries) = DiscoveryLog::parse(&data).unwrap();
    (header.genctr, entries.collect())
}

/// Names and addresses of the drives in the page.
async fn drives(host: &mut Host) -> Vec<(String, String)> {
    let entries = page(host, false).await.1;
    let drives = entries.iter().filter(|entry| entry.subtype == SubsystemType::NVM);
    drives
        .map(|entry| (entry.subsystem().unwrap().to_string(), entry.address().unwrap().to_string()))
        .collect()
}

// A host that is not told that a port requires TLS cannot connect there.
#[test]
fn ports_with_tls_are_told_as_such() {
    with_target(
        |_| (),
        async |target, _| {
            let mut record = record(SUBSYSTEM, Hosts::Any, &["192.0.2.1:4420", "192.0.2.1:4421"]);
            record.ports[1].is_secure = true;
            let _published = directory(&target).publish(record);
            for is_secure in [false, true] {
                let place = Reached { is_secure, ..reached("192.0.2.1:4420") };
                let entries = page(&mut Host::discovery(&target, HOST, place).await, false).await.1;
                let [current, plain, secure] = entries[..] else { panic!("{entries:?}") };
                for (entry, is_secure) in [(current, is_secure), (plain, false), (secure, true)] {
                    let (tsc, sectype) =
                        if is_secure { (1, SecurityType::TLS_1_3) } else { (2, SecurityType::NONE) };
                    assert_eq!((entry.treq.tsc(), entry.sectype), (tsc, sectype));
                }
            }
        },
    );
}

// Without this a host could access a drive through the Discovery Service.
#[test]
fn a_host_finds_what_is_served() {
    with_target(
        |_| (),
        async |target, _| {
            let directory = directory(&target);
            let _published =
                directory.publish(record(SUBSYSTEM, Hosts::Any, &["192.0.2.1:4420", "192.0.2.2:4420"]));
            let mut host = Host::discovery(&target, HOST, reached("192.0.2.1:4420")).await;
            let identify = Identify { cns: Cns::CONTROLLER, ..Identify::default() }.sqe(0, 0);
            let data = host.ask(by_transport(identify, 4096), &[]).await.data;
            let identity = IdentifyController::read_from_bytes(&data[..]).unwrap();
            assert_eq!((identity.cntrltype, identity.oaes, identity.lpa & 4), (2, 1 << 31, 4));
            assert_eq!(identity.cntlid, host.queue.controller().unwrap().id());
            assert!(identity.subnqn.starts_with(b"nqn.2014-08.org.nvmexpress.discovery\0"));

            let (_, entries) = page(&mut host, false).await;
            let [current, first, second] = entries[..] else { panic!("{entries:?}") };
            assert_eq!(current.subtype, SubsystemType::CURRENT_DISCOVERY);
            assert_eq!(current.eflags, EntryFlags::new().with_dupretinfo(true).with_epcsd(true));
            assert!(current.subsystem().unwrap().is_discovery());
            assert_eq!(current.address(), Some(address("192.0.2.1:4420")));
            for (entry, place, id) in [(first, "192.0.2.1:4420", 1), (second, "192.0.2.2:4420", 2)] {
                assert_eq!((entry.subtype, entry.portid, entry.cntlid), (SubsystemType::NVM, id, 0xFFFF));
                assert_eq!(entry.asqsz, 128);
                assert_eq!(entry.treq, TransportRequirements::new().with_tsc(2).with_sqfcd(true));
                assert_eq!(entry.subsystem().unwrap().as_str(), SUBSYSTEM);
                assert_eq!(entry.address(), Some(address(place)));
            }
            // None of the commands specific to a drive's controller.
            let refused = host.ask(by_transport(Identify::default().sqe(0, 1), 4096), &[]).await.cqe;
            assert!(refused.status().is(Status::INVALID_FIELD));
            for opcode in [0x0D, 0x80, 0x10, 0x7C] {
                assert!(host.ask(Sqe::new(opcode, 0, 1), &[]).await.cqe.status().is(Status::INVALID_OPCODE));
            }
            let queues = GetFeatures { fid: fid::NUMBER_OF_QUEUES, ..GetFeatures::default() };
            assert!(host.ask(queues.sqe(0, 0), &[]).await.cqe.status().is(Status::INVALID_FIELD));
            let mut io = Host::initialized(&target, Digests::new());
            let id = host.queue.controller().unwrap().id();
            let refused = io.connect(1, id, 32, |data| data.subnqn = Nqn::discovery().field()).await.cqe;
            assert!(refused.status().is(CONNECT_INVALID_PARAMETERS));
            assert_eq!(InvalidParameter::parse(&refused), Some(InvalidParameter::QID));
        },
    );
}

// Linux reads 4 KiB at a time, and others the header first: the parts have to belong to one page.
#[test]
fn the_page_is_read_in_parts() {
    with_target(
        |_| (),
        async |target, _| {
            let directory = directory(&target);
            let names: Vec<String> =
                (0..20).map(|number| format!("nqn.2026-11.org.byteway:{number}")).collect();
            let records =
                names.iter().map(|name| directory.publish(record(name, Hosts::Any, &["192.0.2.1:4420"])));
            let _published: Vec<_> = records.collect();
            let mut host = Host::discovery(&target, HOST, reached("192.0.2.1:4420")).await;
            let whole = host.ask(get_log(0, 32 << 10, true), &[]).await.data;
            let (header, entries) = DiscoveryLog::parse(&whole).unwrap();
            assert_eq!((header.numrec, entries.count()), (21, 21));
            for (offset, bytes) in
                [(0, 1024), (1024, 4096), (20, 8), (1024 + 7 * 1024, 14 << 10), (22 << 10, 4096)]
            {
                let part = host.ask(get_log(offset, bytes, true), &[]).await.data;
                let from = offset as usize;
                assert_eq!(part, whole[from..from + bytes as usize], "{offset} {bytes}");
            }
            let over = host.ask(get_log((22 << 10) + 4, 4, true), &[]).await.cqe.status();
            assert!(over.is(Status::INVALID_FIELD));
            assert!(
                host.ask(get_log(u64::MAX - 3, 4, true), &[]).await.cqe.status().is(Status::INVALID_FIELD)
            );
            assert!(host.ask(get_log(2, 4, true), &[]).await.cqe.status().is(Status::INVALID_FIELD));
            assert!(host.ask(get_log(0, 1 << 20, true), &[]).await.cqe.status().is(Status::INVALID_FIELD));
        },
    );
}

// A host must not learn of another tenant's drives.
#[test]
fn a_host_sees_what_it_may_connect_to_and_nothing_else() {
    with_target(
        |_| (),
        async |target, _| {
            let directory = directory(&target);
            let only = |name: &str| Hosts::Listed(vec![Nqn::new(name).unwrap()]);
            let names = ["a", "b", "c"].map(|name| format!("nqn.2026-11.org.byteway:{name}"));
            let _all = directory.publish(record(&names[0], Hosts::Any, &["192.0.2.1:4420"]));
            let _its = directory.publish(record(&names[1], only(HOST), &["192.0.2.1:4421"]));
            let _other = directory.publish(record(&names[2], only(OTHER), &["192.0.2.1:4422"]));
            for (name, seen) in [(HOST, ["a", "b"]), (OTHER, ["a", "c"])] {
                let mut host = Host::discovery(&target, name, reached("192.0.2.1:4420")).await;
                let found = drives(&mut host).await;
                let expected = seen.map(|name| format!("nqn.2026-11.org.byteway:{name}"));
                assert!(found.iter().map(|(name, _)| name).eq(&expected), "{found:?}");
            }
        },
    );
}

// An address that reaches nothing, or another machine, is worse than none.
#[test]
fn addresses_are_those_that_the_asking_host_can_reach() {
    let cases: [(&str, &str, Option<&str>); 8] = [
        ("0.0.0.0:4420", "192.0.2.7:4420", Some("192.0.2.7:4420")),
        ("0.0.0.0:4421", "192.0.2.8:4420", Some("192.0.2.8:4421")),
        ("[::]:4420", "[2001:db8::1]:4420", Some("[2001:db8::1]:4420")),
        ("[::]:4420", "[::ffff:192.0.2.7]:4420", Some("192.0.2.7:4420")),
        ("0.0.0.0:4420", "[2001:db8::1]:4420", None),
        ("127.0.0.1:4420", "127.0.0.1:4421", Some("127.0.0.1:4420")),
        ("127.0.0.1:4420", "192.0.2.7:4420", None),
        ("192.0.2.9:4420", "192.0.2.7:4420", Some("192.0.2.9:4420")),
    ];
    for (listens, by, expected) in cases {
        let directory = Directory::default();
        let _published = directory.publish(record(SUBSYSTEM, Hosts::Any, &[listens]));
        let (_, entries) = directory.entries(&Nqn::new(HOST).unwrap(), reached(by));
        let found = entries.iter().find(|entry| entry.subtype == SubsystemType::NVM);
        assert_eq!(found.and_then(DiscoveryEntry::address), expected.map(address), "{listens} by {by}");
    }
    // With network address translation none of this machine's addresses is usable.
    let directory = Directory::new(vec![address("198.51.100.1:8009")], Some("203.0.113.5".parse().unwrap()));
    let _published = directory.publish(record(SUBSYSTEM, Hosts::Any, &["127.0.0.1:4420"]));
    let (_, entries) = directory.entries(&Nqn::new(HOST).unwrap(), reached("127.0.0.1:4420"));
    let found: Vec<_> =
        entries.iter().map(|entry| (entry.subtype, entry.address().unwrap().to_string())).collect();
    let expected = [
        (SubsystemType::CURRENT_DISCOVERY, "203.0.113.5:4420".to_owned()),
        (SubsystemType::NVM, "203.0.113.5:4420".to_owned()),
        (SubsystemType::REFERRAL, "198.51.100.1:8009".to_owned()),
    ];
    assert_eq!(found, expected);
}

pub fn configure_events(configuration: AsyncEventConfig) -> Sqe {
    let command = SetFeatures {
        fid: fid::ASYNC_EVENT_CONFIGURATION,
        cdw11: configuration.into_bits(),
        ..SetFeatures::default()
    };
    command.sqe(0, 0)
}

// Without the event a host would have to poll, or never find a drive that is added later.
#[test]
fn a_host_that_stays_is_told_of_changes() {
    with_target(
        |_| (),
        async |target, clock| {
            let directory = directory(&target);
            let discovery = target.discovery().unwrap().clone();
            let calls = Arc::new(AtomicU32::new(0));
            let counted = calls.clone();
            let watching = directory.watch(move || _ = counted.fetch_add(1, Ordering::Relaxed));
            let mut host = Host::discovery(&target, HOST, reached("192.0.2.1:4420")).await;
            let wanted = AsyncEventConfig::new().with_discovery_log_change(true);
            assert!(host.ask(configure_events(wanted), &[]).await.cqe.status().is_success());
            let (before, _) = page(&mut host, false).await;

            // Two requests, one of which a change completes.
            let works = [host.begin(AsyncEventRequest.sqe(0)), host.begin(AsyncEventRequest.sqe(0))];
            let told = Rc::new(std::cell::RefCell::new(Vec::new()));
            for mut work in works {
                let (queue, told) = (host.queue.clone(), told.clone());
                clock.spawn("event request", async move {
                    let cqe = queue.execute(&work.sqe, work.movement, &mut work.data).await;
                    told.borrow_mut().push(cqe);
                });
            }
            clock.timer(Delay::from_ms(1)).await;
            assert!(told.borrow().is_empty());
            let published = directory.publish(record(SUBSYSTEM, Hosts::Any, &["192.0.2.1:4420"]));
            assert_eq!(calls.load(Ordering::Relaxed), 1);
            discovery.changed();
            clock.timer(Delay::from_ms(1)).await;
            let first = told.borrow().clone();
            let [Some(cqe)] = first[..] else { panic!("{first:?}") };
            assert_eq!(AsyncEvent::from_dw0(cqe.dw0), AsyncEvent::DISCOVERY_LOG_CHANGE);

            // Until the host has read the page without Retain Asynchronous Event, it is not notified again.
            drop(published);
            discovery.changed();
            let (after, entries) = page(&mut host, true).await;
            assert!(after > before && entries.len() == 1);
            clock.timer(Delay::from_ms(1)).await;
            assert_eq!(told.borrow().len(), 1);
            page(&mut host, false).await;
            clock.timer(Delay::from_ms(1)).await;
            assert_eq!(told.borrow().len(), 2);
            assert_eq!(calls.load(Ordering::Relaxed), 2);
            drop(watching);
            drop(directory.publish(record(SUBSYSTEM, Hosts::Any, &[])));
            assert_eq!(calls.load(Ordering::Relaxed), 2);
            host.queue.close();
        },
    );
}

// A host that queries once and does not disconnect must not keep a controller indefinitely.
#[test]
fn a_silent_host_loses_its_discovery_controller() {
    with_target(
        |_| (),
        async |target, clock| {
            let mut alive = Host::discovery(&target, HOST, Reached::default()).await;
            let silent = Host::discovery(&target, HOST, Reached::default()).await;
            // Without a timeout, the limit is two minutes.
            let never = SetFeatures { fid: fid::KEEP_ALIVE_TIMER, ..SetFeatures::default() };
            assert!(alive.ask(never.sqe(0, 0), &[]).await.cqe.status().is_success());
            clock.timer(Delay::from_s(100)).await;
            assert_eq!(silent.queue.controller().unwrap().ended(), Some(Ended::Silent));
            assert!(alive.ask(KeepAlive.sqe(0), &[]).await.cqe.status().is_success());
            assert_eq!(target.discovery().unwrap().controllers().len(), 1);
            clock.timer(Delay::from_s(130)).await;
            assert_eq!(alive.queue.controller().unwrap().ended(), Some(Ended::Silent));
        },
    );
}
