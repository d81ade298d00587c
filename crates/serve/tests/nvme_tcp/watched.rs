//! What a watched drive says of its hosts.

use crate::client::{Client, HOST, by_transport, in_capsule};
use crate::service::Service;
use byteway_clock::Stage;
use byteway_link::ios::{HOSTS_MAX, ROWS_MAX};
use byteway_link::{IoRow, Verb};
use byteway_serve::watch::DriveFigures;
use byteway_wire::nvme::{NvmOpcode, ReadWrite, Sqe, Status};
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;
const OTHER: &str = "nqn.2026-11.org.byteway:other";

fn io(opcode: NvmOpcode, lba: u64, blocks: u16) -> Sqe {
    let sqe = ReadWrite { slba: lba, nlb_z: blocks - 1, ..ReadWrite::default() }.sqe(opcode, 0, 2);
    by_transport(sqe, u32::from(blocks) * BLOCK as u32)
}

/// The figures of now.
fn figures(service: &Service) -> Box<DriveFigures> {
    let begun = Instant::now();
    service.watch.take();
    service.watch.ask();
    loop {
        if let Some(published) = service.watch.take() {
            return published.figures;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "the drive publishes nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
}

// All hosts share a queue pair of the drive: booked under the wrong one, the load of a host would be another's.
#[test]
fn the_ios_of_hosts_are_told_apart() {
    let service = Service::start(1, 1, |_, _, _| ());
    let (address, nqn) = (service.address(), service.nqns[0]);
    let admins = [HOST, OTHER].map(|host| Client::admin(address, &nqn, host).unwrap());
    let mut hosts = [
        Client::io(address, &admins[0], &nqn, 1).unwrap(),
        Client::io_of(address, &admins[1], &nqn, OTHER).unwrap(),
    ];
    for (host, count) in hosts.iter_mut().zip([3, 5]) {
        for lba in 0..count {
            let write =
                in_capsule(ReadWrite { slba: lba, ..ReadWrite::default() }.sqe(NvmOpcode::WRITE, 0, 2), 4096);
            assert_eq!(host.ask(write, &[7; BLOCK]).unwrap().cqe.status(), Status::SUCCESS);
        }
    }
    assert_eq!(hosts[1].ask(io(NvmOpcode::READ, 0, 4), &[]).unwrap().cqe.status(), Status::SUCCESS);
    // Beyond the end: it completes, and moves nothing.
    let beyond = hosts[0].ask(io(NvmOpcode::READ, u64::from(u32::MAX), 1), &[]).unwrap();
    assert_ne!(beyond.cqe.status(), Status::SUCCESS);
    let figures = figures(&service);
    let of = |host: &str| -> &IoRow {
        let index = figures.ios.hosts.iter().position(|known| known == host).unwrap();
        let mut rows = figures.ios.rows.iter().filter(|row| row.host == index);
        let row = rows.next().unwrap();
        assert!(rows.next().is_none() && row.nsid == Some(2));
        row
    };
    let block = BLOCK as u64;
    assert_eq!((of(HOST).writes, of(HOST).reads), ((3, 3 * block), (0, 0)));
    assert_eq!((of(OTHER).writes, of(OTHER).reads.1), ((5, 5 * block), 4 * block));
    assert_eq!(of(HOST).latencies[Verb::Other as usize].count(), 1, "an I/O that fails takes time, too");
    assert_eq!(of(OTHER).latencies[Verb::Write as usize].count(), 5);
    assert!(figures.ios.stages[Verb::Write as usize][Stage::Target as usize].count() <= 8);
    assert_eq!((figures.report.clients, figures.report.writes), (2, (8, 8 * block)));
    assert_eq!(figures.outstanding, 0);
    drop((hosts, admins));
    let watch = service.watch.clone();
    let reports = service.end();
    let last = watch.take().unwrap().figures;
    assert!(watch.has_ended());
    assert_eq!((last.report.commands, last.report.reads), (reports[0].commands, reports[0].reads));
}

// A host that names namespaces that there are not must not use up the rows that others need: the target refuses these itself.
#[test]
fn namespaces_that_there_are_not_take_no_row() {
    let service = Service::start(1, 1, |_, _, _| ());
    let (address, nqn) = (service.address(), service.nqns[0]);
    let admin = Client::admin(address, &nqn, HOST).unwrap();
    let mut host = Client::io(address, &admin, &nqn, 1).unwrap();
    for nsid in (1000..1000 + 2 * ROWS_MAX as u32).chain([u32::MAX, 0]) {
        let read = by_transport(ReadWrite::default().sqe(NvmOpcode::READ, 0, nsid), BLOCK as u32);
        assert_ne!(host.ask(read, &[]).unwrap().cqe.status(), Status::SUCCESS);
    }
    assert_eq!(host.ask(io(NvmOpcode::READ, 0, 1), &[]).unwrap().cqe.status(), Status::SUCCESS);
    let figures = figures(&service);
    let rows: Vec<_> = figures.ios.rows.iter().filter(|row| row.host != HOSTS_MAX).collect();
    let found: Vec<_> = rows.iter().map(|row| (row.nsid, row.reads.0)).collect();
    assert_eq!(found, [(Some(2), 1)]);
    service.end();
}

// Most of what a host waits for under load is its turn: a latency without it would be that of an idle drive.
#[test]
fn the_wait_for_data_is_part_of_the_latency() {
    let service = Service::start(1, 1, |_, _, _| ());
    let (address, nqn) = (service.address(), service.nqns[0]);
    let admin = Client::admin(address, &nqn, HOST).unwrap();
    let mut host = Client::io(address, &admin, &nqn, 1).unwrap();
    let pause = Duration::from_millis(200);
    let cid = host.begin(io(NvmOpcode::WRITE, 0, 16), &[]);
    std::thread::sleep(pause);
    assert_eq!(host.answer(cid, &[7; 16 * BLOCK]).unwrap().cqe.status(), Status::SUCCESS);
    let figures = figures(&service);
    let row = figures.ios.rows.iter().find(|row| row.writes.0 > 0).unwrap();
    let latency = row.latencies[Verb::Write as usize].sum_ps;
    assert!(latency >= pause.as_nanos() * 1000, "{latency} ps");
    service.end();
}

// A host that connects under a new name again and again must not make the drive's memory grow, nor hide the others.
#[test]
fn hosts_that_come_and_go_are_limited() {
    let service = Service::start(1, 1, |_, _, _| ());
    let (address, nqn) = (service.address(), service.nqns[0]);
    let visits = HOSTS_MAX as u64 + 10;
    for number in 0..visits {
        let host = format!("nqn.2026-11.org.byteway:host-{number}");
        let admin = Client::admin(address, &nqn, &host).unwrap();
        let mut client = Client::io_of(address, &admin, &nqn, &host).unwrap();
        assert_eq!(client.ask(io(NvmOpcode::READ, 0, 1), &[]).unwrap().cqe.status(), Status::SUCCESS);
    }
    let figures = figures(&service);
    assert_eq!(figures.ios.hosts.len(), HOSTS_MAX);
    assert_eq!(figures.ios.rows.iter().map(|row| row.reads.0).sum::<u64>(), visits);
    let others = figures.ios.rows.iter().filter(|row| row.host == HOSTS_MAX);
    // One of the names is that of the port, for commands that the target sends on its own.
    assert_eq!(others.map(|row| row.reads.0).sum::<u64>(), visits - HOSTS_MAX as u64 + 1);
    service.end();
}

// A drive that is asked all the time has other things to do.
#[test]
fn a_drive_publishes_once_a_second_at_most() {
    let service = Service::start(1, 1, |_, _, _| ());
    let begun = Instant::now();
    let mut taken = 0;
    while begun.elapsed() < Duration::from_millis(2500) {
        service.watch.ask();
        taken += u32::from(service.watch.take().is_some());
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!((1..=3).contains(&taken), "{taken} in two and a half seconds");
    service.end();
}
