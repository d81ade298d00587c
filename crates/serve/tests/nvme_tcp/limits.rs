//! Hosts that take more than their share of connections, memory or time.

use crate::client::{Client, HOST, by_transport};
use crate::service::Service;
use byteway_wire::fabrics::tcp::{CapsuleCmd, Digests, H2cData, IcReq, Pdu};
use byteway_wire::nvme::{NvmOpcode, ReadWrite, Sqe};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

fn read(blocks: u16) -> Sqe {
    let sqe = ReadWrite { slba: 0, nlb_z: blocks - 1, ..ReadWrite::default() }.sqe(NvmOpcode::READ, 0, 2);
    by_transport(sqe, u32::from(blocks) * 4096)
}

// A host that reads without receiving would fill the server's memory with pending data.
#[test]
fn commands_of_a_host_that_takes_nothing_are_left_unread() {
    let service = Service::start(1, 1, |_, _, _| ());
    let (address, nqn) = (service.address(), service.nqns[0]);
    let admin = Client::admin(address, &nqn, HOST).unwrap();
    let mut deaf = Client::io(address, &admin, &nqn, 1).unwrap();
    deaf.stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let commands: Vec<u8> = (0..100)
        .flat_map(|cid| deaf.encoded(&Pdu::CapsuleCmd(CapsuleCmd::new(read(16).with_cid(cid))), &[]))
        .collect();
    // Identifiers are free when their commands have ended, which all of the unresponsive host's commands
    // have.
    for _ in 0..30 {
        let _ = deaf.stream.write_all(&commands);
        std::thread::sleep(Duration::from_millis(20));
    }
    // Others are unaffected.
    let mut io = Client::io(address, &admin, &nqn, 2).unwrap();
    assert!(io.ask(read(1), &[]).unwrap().cqe.status().is_success());
    // Number of messages of 64 KiB that the buffers of system and server hold; fewer than all 3000.
    let reads = service.end()[0].reads.0;
    assert!(reads < 1000, "{} MiB would wait for the host", reads / 16);
}

// A flood of connections that send only ICReq must not lock out other hosts, or exhaust the descriptors.
#[test]
fn floods_of_connections_keep_nobody_out() {
    let service = Service::start(1, 1, |_, _, _| ());
    let (address, nqn) = (service.address(), service.nqns[0]);
    let admin = Client::admin(address, &nqn, HOST).unwrap();
    let mut io = Client::io(address, &admin, &nqn, 1).unwrap();
    let mut flood = Vec::new();
    for number in 0..400 {
        flood.push(if number % 2 == 0 { Client::initialized(address) } else { Client::open(address) });
        if number % 100 == 0 {
            assert!(io.ask(read(1), &[]).unwrap().cqe.status().is_success());
            let mut other = Client::admin(address, &nqn, HOST).unwrap();
            assert!(other.ask(byteway_wire::nvme::KeepAlive.sqe(0), &[]).is_some());
        }
    }
    let mut closed = 0;
    for client in &mut flood[..200] {
        client.stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        closed += usize::from(matches!(client.stream.read(&mut [0; 256]), Ok(0) | Err(_)));
    }
    assert!(closed > 190, "{closed}");
    // A second ICReq on a connection ends it.
    let mut twice = Client::initialized(address);
    twice.say(&Pdu::IcReq(IcReq::new(0, Digests::new(), 0)), &[]);
    assert!(matches!(twice.hear(), Some((Pdu::TermReq(_), _))));
    assert!(twice.hear().is_none());
}

// A host that sends a byte now and then holds a connection until the time limit.
#[test]
fn slow_hosts_lose_their_connections() {
    let service = Service::start(1, 1, |_, _, _| ());
    let start = Instant::now();
    let mut slow = Client::open(service.address());
    let bytes = slow.encoded(&Pdu::IcReq(IcReq::new(0, Digests::new(), 0)), &[]);
    slow.stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut sent = bytes.iter();
    let ended = loop {
        if let Some(byte) = sent.next() {
            let _ = slow.stream.write_all(&[*byte]);
        }
        match slow.stream.read(&mut [0; 256]) {
            Ok(_) => break start.elapsed(),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => break start.elapsed(),
        }
    };
    assert!((9..16).contains(&ended.as_secs()), "{ended:?}");
}

// Nothing of a host that disconnects at any time may remain: neither memory, nor a controller.
#[test]
fn a_thousand_connections_come_and_are_cut() {
    let service = Service::start(1, 1, |_, _, _| ());
    let (address, nqn) = (service.address(), service.nqns[0]);
    for number in 0..1000 {
        match number % 5 {
            0 => drop(Client::open(address)),
            1 => drop(Client::initialized(address)),
            2 => drop(Client::admin(address, &nqn, HOST).unwrap()),
            3 => {
                let mut client = Client::open(address);
                let bytes = client.encoded(&Pdu::IcReq(IcReq::new(0, Digests::new(), 0)), &[]);
                let _ = client.stream.write_all(&bytes[..number % 128]);
            }
            _ => {
                let admin = Client::admin(address, &nqn, HOST).unwrap();
                let mut io = Client::io(address, &admin, &nqn, 1).unwrap();
                (0..number % 7).for_each(|_| _ = io.begin(read(16), &[]));
            }
        }
    }
    let admin = Client::admin(address, &nqn, HOST).unwrap();
    let mut io = Client::io(address, &admin, &nqn, 1).unwrap();
    assert!(io.ask(read(1), &[]).unwrap().cqe.status().is_success());
    assert_eq!(service.end()[0].clients, 401);
}

fn write(blocks: u16) -> Sqe {
    let sqe = ReadWrite { slba: 0, nlb_z: blocks - 1, ..ReadWrite::default() }.sqe(NvmOpcode::WRITE, 0, 2);
    by_transport(sqe, u32::from(blocks) * 4096)
}

// Writes that wait for credit when their connections break would keep the credit that they have, and the
// host's other path would wait for it indefinitely.
#[test]
fn connections_that_break_give_their_credit_back() {
    let service = Service::start(1, 1, |_, _, _| ());
    let (address, nqn) = (service.address(), service.nqns[0]);
    let path = Client::admin(address, &nqn, HOST).unwrap();
    let mut io = Client::io(address, &path, &nqn, 1).unwrap();
    let admin = Client::admin(address, &nqn, HOST).unwrap();
    let mut broken: Vec<Client> =
        (1..=3).map(|qid| Client::io(address, &admin, &nqn, qid).unwrap()).collect();
    for count in [80, 20] {
        broken.iter_mut().for_each(|client| _ = client.begin_together(&vec![write(32); count]));
        std::thread::sleep(Duration::from_millis(300));
    }
    drop((broken, admin));
    std::thread::sleep(Duration::from_millis(500));
    assert!(io.ask(write(32), &[0; 32 * 4096]).unwrap().cqe.status().is_success());
}

// Reads that hold command credit and wait for bytes, and writes that hold bytes and wait for commands, would
// deadlock.
#[test]
fn reads_and_writes_of_a_host_do_not_wait_for_one_another() {
    let service = Service::start(1, 1, |_, _, _| ());
    let (address, nqn) = (service.address(), service.nqns[0]);
    let admin = Client::admin(address, &nqn, HOST).unwrap();
    let mut ios: Vec<Client> = (1..=6).map(|qid| Client::io(address, &admin, &nqn, qid).unwrap()).collect();
    let (writers, readers) = ios.split_at_mut(3);
    let mut first = 0;
    for client in writers.iter_mut() {
        first = client.begin_together(&vec![write(32); 85])[0];
    }
    std::thread::sleep(Duration::from_millis(300));
    readers.iter_mut().for_each(|client| _ = client.begin_together(&vec![read(32); 90]));
    std::thread::sleep(Duration::from_millis(300));
    for client in writers.iter_mut() {
        for _ in 0..85 {
            let Some((Pdu::R2t(request), _)) = client.hear() else { panic!("no R2T") };
            let header = H2cData::new(request.cccid, request.ttag, 0, request.r2tl, true);
            client.say(&Pdu::H2cData(header), &vec![0; request.r2tl as usize]);
        }
    }
    assert!(writers[2].answer(first, &[]).unwrap().cqe.status().is_success());
}
