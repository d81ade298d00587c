//! Stopping a server: outstanding commands are acknowledged, and no host can delay the end.

use crate::client::{Client, HOST, by_transport, in_capsule};
use crate::service::Service;
use byteway_wire::fabrics::tcp::{CapsuleCmd, H2cData, Pdu};
use byteway_wire::nvme::{AsyncEventRequest, NvmOpcode, ReadWrite, Sqe};
use std::io::Read;
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;

fn write(lba: u64) -> Sqe {
    ReadWrite { slba: lba, ..ReadWrite::default() }.sqe(NvmOpcode::WRITE, 0, 2)
}

/// Stops the service; returns how long that took.
fn end(service: Service) -> Duration {
    let start = Instant::now();
    service.end();
    start.elapsed()
}

// A host with an outstanding data request must learn how its command ended, and then that the connection
// closes.
#[test]
fn commands_in_flight_are_acknowledged_before_the_connection_closes() {
    let service = Service::start(1, 1, |_, _, _| ());
    let mut admin = Client::admin(service.address(), &service.nqns[0], HOST).unwrap();
    admin.begin(AsyncEventRequest.sqe(0), &[]); // held, and no reason to wait
    let mut io = Client::io(service.address(), &admin, &service.nqns[0], 1).unwrap();
    let begun: Vec<u16> = (0..20).map(|lba| io.begin(by_transport(write(lba), BLOCK as u32), &[])).collect();
    let asked: Vec<_> = begun
        .iter()
        .map(|_| match io.hear() {
            Some((Pdu::R2t(request), _)) => request,
            other => panic!("{other:?}"),
        })
        .collect();
    service.stop.stop();
    std::thread::sleep(Duration::from_millis(100));
    // Commands that arrive from now on are neither executed nor acknowledged.
    let late = io.begin(in_capsule(write(30), BLOCK as u32), &[1; BLOCK]);
    for request in &asked {
        io.say(&Pdu::H2cData(H2cData::new(request.cccid, request.ttag, 0, BLOCK as u32, true)), &[7; BLOCK]);
    }
    let mut acknowledged = Vec::new();
    while let Some((pdu, _)) = io.hear() {
        let Pdu::CapsuleResp(response) = pdu else { panic!("{pdu:?}") };
        assert!(response.cqe.status().is_success());
        acknowledged.push(response.cqe.cid);
    }
    acknowledged.sort_unstable();
    assert_eq!(acknowledged, begun);
    assert!(!acknowledged.contains(&late));
    // An orderly close, not a reset, which could discard data in transit.
    assert_eq!(io.stream.read(&mut [0; 16]).ok(), Some(0));
    let reports = service.end();
    assert_eq!(reports[0].writes.0, 20);
}

// A host that never sends requested data, one that never receives, one that does not close, and a silent one.
#[test]
fn nobody_holds_up_the_end() {
    let service = Service::start(1, 1, |_, _, _| ());
    let (address, nqn) = (service.address(), service.nqns[0]);
    let admin = Client::admin(address, &nqn, HOST).unwrap();
    let _silent = Client::open(address);
    let mut owing = Client::io(address, &admin, &nqn, 1).unwrap();
    owing.begin(by_transport(write(0), BLOCK as u32), &[]);
    assert!(owing.hear().is_some());
    let mut partial = Client::io(address, &admin, &nqn, 2).unwrap();
    let bytes =
        partial.encoded(&Pdu::CapsuleCmd(CapsuleCmd::new(in_capsule(write(1), BLOCK as u32))), &[1; BLOCK]);
    std::io::Write::write_all(&mut partial.stream, &bytes[..1000]).unwrap();
    let mut deaf = Client::io(address, &admin, &nqn, 3).unwrap();
    let read = ReadWrite { slba: 0, nlb_z: 15, ..ReadWrite::default() }.sqe(NvmOpcode::READ, 0, 2);
    for _ in 0..120 {
        deaf.begin(by_transport(read, 16 * BLOCK as u32), &[]);
    }
    std::thread::sleep(Duration::from_millis(300));
    let took = end(service);
    assert!(took < Duration::from_millis(1400), "{took:?}");
}

// Under load there is always another command: without a limit the server would never stop.
#[test]
fn load_ends_with_the_server_and_what_was_acknowledged_is_there() {
    let service = Service::start(1, 1, |_, _, _| ());
    let (address, nqn) = (service.address(), service.nqns[0]);
    let admin = Client::admin(address, &nqn, HOST).unwrap();
    let hosts: Vec<_> = (1..=4u16)
        .map(|qid| {
            let mut io = Client::io(address, &admin, &nqn, qid).unwrap();
            std::thread::spawn(move || {
                let mut acknowledged = 0u64;
                loop {
                    let begun: Vec<u16> = (0..16)
                        .map(|lba| {
                            io.begin(in_capsule(write(u64::from(qid) * 16 + lba), BLOCK as u32), &[3; BLOCK])
                        })
                        .collect();
                    for _ in &begun {
                        match io.hear() {
                            Some((Pdu::CapsuleResp(response), _)) => {
                                assert!(response.cqe.status().is_success());
                                acknowledged += 1;
                            }
                            None => return acknowledged,
                            other => panic!("{other:?}"),
                        }
                    }
                }
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    let start = Instant::now();
    let reports = service.end();
    assert!(start.elapsed() < Duration::from_millis(1400), "{:?}", start.elapsed());
    let acknowledged: u64 = hosts.into_iter().map(|host| host.join().unwrap()).sum();
    // Every executed command was acknowledged, and every acknowledged one executed.
    assert_eq!(reports[0].writes.0, acknowledged);
}
