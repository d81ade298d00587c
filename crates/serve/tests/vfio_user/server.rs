//! One socket, one client at a time: a stale file must not prevent a server from starting, a live server must
//! keep its address, and a second host must not interfere with the first.

use crate::fixture::*;
use byteway_serve::drive::ServeError;
use byteway_serve::function::Doorbells;
use byteway_serve::vfio_user::channel::ANSWER_LIMIT;
use byteway_serve::vfio_user::client::ClientError;
use byteway_serve::vfio_user::message::Command;
use byteway_serve::vfio_user::server::BindError;
use byteway_serve::vfio_user::{Client, Server};
use byteway_wire::nvme::register::{ACQ, AQA, ASQ, CC, CSTS, Cc, Csts};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

#[test]
fn a_socket_appears_and_disappears_with_its_server() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cntrl");
    let server = Server::bind(&path).unwrap();
    assert_eq!(server.path(), path);
    UnixStream::connect(&path).unwrap();
    drop(server);
    assert!(!exists(&path));
}

#[test]
fn a_file_left_behind_is_replaced_and_a_live_server_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cntrl");
    // As after SIGKILL: the file exists, but no process listens.
    drop(UnixListener::bind(&path).unwrap());
    assert!(exists(&path));
    let server = Server::bind(&path).unwrap();
    let error = Server::bind(&path).err().unwrap();
    assert!(matches!(error, BindError::InUse { .. }));
    assert!(error.to_string().contains("answers"), "{error}");
    // A server with a full backlog is live, too.
    let waiting: Vec<_> = (0..3).map(|_| UnixStream::connect(&path).unwrap()).collect();
    assert!(matches!(Server::bind(&path), Err(BindError::InUse { .. })));
    drop((waiting, server));
    assert!(!exists(&path));
}

#[test]
fn a_server_removes_no_file_but_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cntrl");
    let server = Server::bind(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    drop(server);
    assert!(exists(&path));
}

#[test]
fn addresses_that_cannot_be_are_explained() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let long = directory.path().join("x".repeat(120));
    for (path, words) in [
        (directory.path().join("none/cntrl"), "mkdir -p"),
        (file.join("cntrl"), "mkdir -p"),
        (file.clone(), "not a socket"),
        (directory.path().to_path_buf(), "not a socket"),
        (long, "107"),
    ] {
        let error = Server::bind(&path).err().unwrap().to_string();
        assert!(error.contains(words), "{error}");
        assert!(error.contains(path.file_name().unwrap().to_str().unwrap()), "{error}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    // The longest possible path.
    let room = 107 - directory.path().as_os_str().len() - 1;
    Server::bind(directory.path().join("y".repeat(room))).unwrap();
}

#[test]
fn a_second_client_is_turned_away_and_the_first_stays() {
    let served = Served::new();
    let first = served.client();
    for _ in 0..10 {
        let error = Client::connect(&served.socket()).err().unwrap();
        assert!(matches!(error, ClientError::Busy { .. }), "{error}");
        assert!(error.to_string().contains("in use"), "{error}");
    }
    // One that begins with another message, a silent one, and one that disconnects.
    let stranger = served.stranger();
    assert!(exchange(&stranger, Command::DEVICE_GET_INFO, &[&[0; 16]], &[]).is_none());
    let silent: Vec<_> = (0..6).map(|_| served.stranger()).collect();
    drop(served.stranger());
    first.device().unwrap();
    drop(silent);
    // Only a limited number of silent clients are waited for: the next may be closed without a reply.
    let (raw, answer) = eventually(|| {
        let raw = served.stranger();
        exchange(&raw, Command::VERSION, &[&[0; 4]], &[]).map(|answer| (raw, answer))
    });
    assert_eq!(answer.header.error.get() as i32, EBUSY);
    assert!(is_dropped(&raw));
    first.device().unwrap();
    drop(first);
    served.is_well();
    let report = served.end();
    assert_eq!(report.clients, 2);
}

#[test]
fn a_client_that_comes_right_after_another_has_gone_is_served() {
    let served = Served::new();
    for round in 0..300 {
        let client =
            Client::connect(&served.socket()).unwrap_or_else(|error| panic!("round {round}: {error}"));
        if round % 3 == 0 {
            client.device().unwrap();
        }
        let file = memfd(PAGE);
        client.dma_map(0, PAGE, Some((&file, 0)), true).unwrap();
    }
}

#[test]
fn a_client_finds_nothing_of_the_one_before() {
    let served = Served::new();
    let client = served.client();
    client.region_write(BAR0, 0x24, &0x000f_000fu32.to_le_bytes()).unwrap();
    let file = memfd(PAGE);
    client.dma_map(0, PAGE, Some((&file, 0)), true).unwrap();
    drop(client);
    let client = served.client();
    let mut aqa = [1; 4];
    client.region_read(BAR0, 0x24, &mut aqa).unwrap();
    assert_eq!(aqa, [0; 4]);
    // The address is free.
    let other = memfd(PAGE);
    client.dma_map(0, PAGE, Some((&other, 0)), true).unwrap();
}

// A bare connection would lock out all other hosts.
#[test]
fn who_says_nothing_loses_his_place() {
    let served = Served::new();
    let silent = UnixStream::connect(served.socket()).unwrap();
    let start = Instant::now();
    while Client::connect(&served.socket()).is_err() {
        assert!(start.elapsed() < ANSWER_LIMIT * 3, "the place is still taken");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(start.elapsed() > ANSWER_LIMIT / 2, "it had its time");
    drop(silent);
}

#[test]
fn a_server_that_stops_lets_its_client_go() {
    let served = Served::new();
    let client = served.client();
    let path = served.socket();
    assert_eq!(served.end().clients, 1);
    assert!(matches!(client.device(), Err(ClientError::Lost(_))));
    assert!(!exists(&path));
    let error = Client::connect(&path).err().unwrap();
    assert!(matches!(error, ClientError::NobodyThere { .. }) && error.to_string().contains("byteway serve"));
}

#[test]
fn a_client_waits_for_no_server_longer_than_its_limit() {
    // The other process listens, and never replies.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cntrl");
    let _listener = UnixListener::bind(&path).unwrap();
    let began = Instant::now();
    assert!(matches!(Client::connect(&path), Err(ClientError::Lost(_))));
    assert!(began.elapsed() < Duration::from_secs(7));
}

// A stalled drive with a waiting host would be waited for indefinitely, by every later host, too: it must
// report the stall, although its socket and its polled doorbells could always bring new work.
#[test]
fn a_drive_that_stands_still_while_a_host_waits_ends() {
    for doorbells in [Doorbells::Mapped, Doorbells::Trapped] {
        let served = Served::broken(doorbells);
        let client = served.client();
        let memory = memfd(4 * PAGE);
        client.dma_map(0x10000, 4 * PAGE, Some((&memory, 0)), true).unwrap();
        let write = |register, value: u64, bytes: usize| {
            client.region_write(BAR0, register, &value.to_le_bytes()[..bytes]).unwrap();
        };
        write(AQA, 0x001f_001f, 4);
        write(ASQ, 0x10000, 8);
        write(ACQ, 0x11000, 8);
        let cc = Cc::new().with_en(true).with_iosqes(6).with_iocqes(4);
        write(CC, cc.into_bits().into(), 4);
        let csts = || {
            let mut bytes = [0; 4];
            client.region_read(BAR0, CSTS, &mut bytes).unwrap();
            Csts::from_bits(u32::from_le_bytes(bytes))
        };
        eventually(|| csts().rdy().then_some(()));
        // An idle drive may wait indefinitely.
        std::thread::sleep(Duration::from_millis(50));
        assert!(csts().rdy());
        let cc = cc.with_shn(Cc::SHN_NORMAL);
        client.region_post(BAR0, CC, &cc.into_bits().to_le_bytes()).unwrap();
        let error = served.ended().err().unwrap();
        assert!(matches!(error, ServeError::Stalled { .. }), "{doorbells:?}: {error}");
    }
}

// The same at the server's end.
#[test]
fn a_drive_that_can_not_be_shut_down_at_the_end_says_so() {
    let served = Served::broken(Doorbells::Trapped);
    served.stop();
    let error = served.ended().err().unwrap();
    assert!(matches!(error, ServeError::Stalled { .. }), "{error}");
}
