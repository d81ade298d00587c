//! Memory that is reached by messages: without these tests the device could access other memory, wait
//! indefinitely for a dead client, or lose the client's requests.

use crate::fixture::*;
use byteway_clock::{Executor, Timing};
use byteway_link::memory::Remote;
use byteway_serve::vfio_user::channel::{ANSWER_LIMIT, Channel, Gone};
use byteway_serve::vfio_user::message::{Command, DmaAccess, Header, RegionAccess, take};
use byteway_serve::vfio_user::remote::{ClientMemory, Line};
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

fn pair() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap()
}

/// A client with `memory` at address 0. Returns the memory when the connection ends, and the largest
/// requested count.
fn client(far: OwnedFd, mut memory: Vec<u8>) -> JoinHandle<(Vec<u8>, u64)> {
    std::thread::spawn(move || {
        let channel = Channel::new(far);
        let mut longest = 0;
        let end = channel.wait_for(Duration::from_secs(30), |message| {
            let header = message.header;
            let (access, _) = take::<DmaAccess>(&message.payload).unwrap();
            let at = access.address.get() as usize;
            let count = access.count.get();
            longest = longest.max(count);
            let count = count as usize;
            let Some(part) = at.checked_add(count).and_then(|end| memory.get_mut(at..end)) else {
                return channel.send(header.failure(14), &[], &[]).map(|()| None::<()>);
            };
            match header.command() {
                Command::DMA_READ => {
                    channel.send(header.reply(), &[access.as_bytes(), part], &[])?;
                }
                Command::DMA_WRITE => {
                    assert_eq!(message.payload.len(), 16 + count);
                    part.copy_from_slice(&message.payload[16..]);
                    // As QEMU does: no payload after the header.
                    channel.send(header.reply(), &[], &[])?;
                }
                _ => panic!("{}", header.command()),
            }
            Ok(None)
        });
        assert_eq!(end, Err(Gone::Closed));
        (memory, longest)
    })
}

fn remote(near: OwnedFd) -> ClientMemory {
    let executor = Executor::new();
    ClientMemory(Rc::new(Line::new(executor.clock(), Channel::new(near))))
}

#[test]
fn what_is_written_is_read_and_nothing_else_changes() {
    for bytes in [1usize, 2, 3, 4, 5, 7, 8, 16, 64, 4096] {
        let (near, far) = pair();
        let thread = client(far, vec![0; 3 * 4096]);
        let remote = remote(near);
        let written: Vec<u8> = (1..=bytes).map(|at| at as u8 | 1).collect();
        remote.write(4099, &written).unwrap();
        let mut read = vec![0xee; bytes];
        remote.read(4099, &mut read).unwrap();
        assert_eq!(read, written);
        remote.read(0, &mut read).unwrap();
        assert_eq!(read, vec![0; bytes]);
        drop(remote);
        let mut expected = vec![0; 3 * 4096];
        expected[4099..4099 + bytes].copy_from_slice(&written);
        assert!(thread.join().unwrap().0 == expected, "{bytes}");
    }
}

#[test]
fn a_long_access_is_cut_to_what_the_client_takes() {
    let (near, far) = pair();
    let thread = client(far, vec![0; 3 << 20]);
    let remote = remote(near);
    remote.0.set_data_bytes_max(8192);
    let data: Vec<u8> = (0..100_000u32).map(|at| (at % 253) as u8 + 1).collect();
    remote.write(5, &data).unwrap();
    let mut read = vec![0; data.len()];
    remote.read(5, &mut read).unwrap();
    assert!(read == data);
    drop(remote);
    assert_eq!(thread.join().unwrap().1, 8192);
    let (near, far) = pair();
    let thread = client(far, vec![1; 3 << 20]);
    let remote = self::remote(near);
    // Requests never exceed a message, whatever size the client announces.
    remote.0.set_data_bytes_max(u64::MAX);
    remote.read(0, &mut vec![0; 3 << 20]).unwrap();
    drop(remote);
    assert_eq!(thread.join().unwrap().1, 1 << 20);
}

#[test]
fn memory_that_the_client_does_not_have_is_a_fault_and_no_end() {
    let (near, far) = pair();
    let thread = client(far, vec![7; 4096]);
    let remote = remote(near);
    for address in [1, 4096, 1 << 40, u64::MAX - 4095] {
        assert!(remote.read(address, &mut [0; 4096]).is_err());
        assert!(remote.write(address, &[1; 4096]).is_err());
    }
    let mut byte = [0];
    remote.read(4095, &mut byte).unwrap();
    assert_eq!(byte, [7]);
    drop(remote);
    assert!(thread.join().unwrap().0 == [7; 4096]);
}

#[test]
fn answers_that_make_no_sense_are_faults() {
    for (bytes, is_error) in
        [(0, false), (15, false), (16, false), (19, false), (21, false), (9000, false), (20, true)]
    {
        let (near, far) = pair();
        let thread = std::thread::spawn(move || {
            let channel = Channel::new(far);
            let asked = channel.wait_for(ANSWER_LIMIT, |message| Ok(Some(message))).unwrap().unwrap();
            let header = if is_error { asked.header.failure(0) } else { asked.header.reply() };
            channel.send(header, &[&vec![1; bytes]], &[]).unwrap();
            channel.wait_for(ANSWER_LIMIT, |_| Ok(None::<()>))
        });
        let remote = remote(near);
        let mut word = [0xee; 4];
        assert!(remote.read(0, &mut word).is_err(), "{bytes}");
        assert_eq!(word, [0xee; 4]);
        drop(remote);
        assert_eq!(thread.join().unwrap(), Err(Gone::Closed));
    }
}

#[test]
fn a_client_that_dies_or_sleeps_holds_nobody_up_for_long() {
    let (near, far) = pair();
    let remote_memory = remote(near);
    drop(far);
    let began = Instant::now();
    assert!(remote_memory.read(0, &mut [0; 64]).is_err());
    assert!(began.elapsed() < Duration::from_secs(1));
    // The client dies during a request.
    let (near, far) = pair();
    let remote_memory = remote(near);
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        drop(far);
    });
    assert!(remote_memory.write(0, &[1; 64]).is_err());
    assert!(began.elapsed() < Duration::from_secs(2));
    thread.join().unwrap();
    // The client never replies: there is one timeout, not one for each access.
    let (near, _far) = pair();
    let remote_memory = remote(near);
    let began = Instant::now();
    for _ in 0..10 {
        assert!(remote_memory.read(0, &mut [0; 64]).is_err());
    }
    let took = began.elapsed();
    assert!(took >= ANSWER_LIMIT && took < ANSWER_LIMIT + Duration::from_secs(2), "{took:?}");
    assert!(matches!(remote_memory.0.channel().try_receive(), Err(Gone::Silent(Command::DMA_READ))));
}

#[test]
fn a_client_that_talks_instead_of_answering_is_dropped() {
    // Endless requests: a limited number is kept.
    let (near, far) = pair();
    let thread = std::thread::spawn(move || {
        let channel = Channel::new(far);
        for id in 0..100_000u32 {
            let header = Header::request(id as u16, Command::DEVICE_GET_INFO, 0);
            if channel.send(header, &[&[0; 16]], &[]).is_err() || channel.drain(ANSWER_LIMIT).is_err() {
                return;
            }
        }
    });
    let talkative = remote(near);
    let began = Instant::now();
    assert!(talkative.read(0, &mut [0; 64]).is_err());
    assert!(began.elapsed() < Duration::from_secs(3));
    assert!(matches!(talkative.0.channel().try_receive(), Err(Gone::Flood)));
    drop(talkative);
    thread.join().unwrap();
    // Endless replies to no request.
    let (near, far) = pair();
    let thread = std::thread::spawn(move || {
        let channel = Channel::new(far);
        let reply = Header::request(9999, Command::DMA_READ, 0).reply();
        while channel.send(reply, &[], &[]).is_ok() && channel.drain(ANSWER_LIMIT).is_ok() {}
    });
    let talkative = remote(near);
    assert!(talkative.read(0, &mut [0; 64]).is_err());
    assert!(began.elapsed() < ANSWER_LIMIT + Duration::from_secs(4));
    drop(talkative);
    thread.join().unwrap();
}

#[test]
fn what_the_client_says_meanwhile_is_kept_in_order_and_wakes_its_reader() {
    let (near, far) = pair();
    let thread = std::thread::spawn(move || {
        let channel = Channel::new(far);
        let asked = channel.wait_for(ANSWER_LIMIT, |message| Ok(Some(message))).unwrap().unwrap();
        channel.send(Header::request(1, Command::DEVICE_GET_INFO, 0), &[&[0; 16]], &[]).unwrap();
        let access = RegionAccess { count: 4.into(), ..RegionAccess::default() };
        channel
            .send(Header::request(2, Command::REGION_WRITE, 0), &[access.as_bytes(), &[1; 4]], &[])
            .unwrap();
        channel.send(Header::request(3, Command::REGION_WRITE, 0), &[access.as_bytes()], &[]).unwrap();
        let (access, _) = take::<DmaAccess>(&asked.payload).unwrap();
        let data = vec![5; access.count.get() as usize];
        channel.send(asked.header.reply(), &[access.as_bytes(), &data], &[]).unwrap();
        channel.send(Header::request(4, Command::DEVICE_GET_INFO, 0), &[&[0; 16]], &[]).unwrap();
        assert_eq!(channel.wait_for(ANSWER_LIMIT, |_| Ok(None::<()>)), Err(Gone::Closed));
    });
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let line = Rc::new(Line::new(&clock, Channel::new(near)));
    let (reader, asker) = (line.clone(), line.clone());
    let main_clock = clock.clone();
    let taken = executor
        .run_real(Timing::None, None, async move {
            main_clock.spawn("asker", async move {
                let mut data = [0; 100];
                ClientMemory(asker).read(0, &mut data).unwrap();
                assert_eq!(data, [5; 100]);
            });
            let mut taken = Vec::new();
            while taken.len() < 4 {
                let message = reader.next().await.unwrap();
                taken.push(message.header.id.get());
            }
            taken
        })
        .unwrap();
    assert_eq!(taken, [1, 2, 3, 4]);
    drop((line, executor));
    thread.join().unwrap();
}

/// The drive's admin queue in memory that only messages reach.
mod drive {
    use super::*;
    use byteway_serve::function::Doorbells;
    use byteway_serve::vfio_user::client::Served as ServedMemory;
    use std::cell::RefCell;

    #[derive(Clone)]
    struct Pages(Rc<RefCell<Vec<u8>>>);

    impl ServedMemory for Pages {
        fn read(&mut self, address: u64, into: &mut [u8]) -> bool {
            let memory = self.0.borrow();
            let part =
                usize::try_from(address).ok().and_then(|at| memory.get(at..at.checked_add(into.len())?));
            part.map(|part| into.copy_from_slice(part)).is_some()
        }

        fn write(&mut self, address: u64, from: &[u8]) -> bool {
            let mut memory = self.0.borrow_mut();
            let part =
                usize::try_from(address).ok().and_then(|at| memory.get_mut(at..at.checked_add(from.len())?));
            part.map(|part| part.copy_from_slice(from)).is_some()
        }
    }

    #[test]
    fn a_command_is_fetched_and_answered_by_messages() {
        let served = Served::with(Doorbells::Trapped);
        let client = served.client();
        let pages = Pages(Rc::new(RefCell::new(vec![0; 16 * 4096])));
        client.serve(Box::new(pages.clone()));
        client.dma_map(0, 16 * PAGE, None, true).unwrap();
        let write32 = |offset, value: u32| client.region_write(BAR0, offset, &value.to_le_bytes()).unwrap();
        write32(0x24, 0x000f_000f);
        client.region_write(BAR0, 0x28, &0x1000u64.to_le_bytes()).unwrap();
        client.region_write(BAR0, 0x30, &0x2000u64.to_le_bytes()).unwrap();
        write32(0x14, 0x0046_0001);
        eventually(|| {
            let mut status = [0; 4];
            client.region_read(BAR0, 0x1c, &mut status).unwrap();
            (status[0] & 1 == 1).then_some(())
        });
        // Identify Controller into the page at 0x3000.
        let mut command = [0u8; 64];
        command[0] = 6;
        command[2] = 0x55;
        command[24..32].copy_from_slice(&0x3000u64.to_le_bytes());
        command[40] = 1;
        pages.0.borrow_mut()[0x1000..0x1040].copy_from_slice(&command);
        write32(0x1000, 1);
        eventually(|| {
            client.serve_for(Duration::from_millis(5)).unwrap();
            (pages.0.borrow()[0x200e] & 1 == 1).then_some(())
        });
        let memory = pages.0.borrow();
        assert_eq!(memory[0x200c..0x2010], [0x55, 0, 1, 0]);
        assert_eq!(&memory[0x3004..0x300c], b"TEST0001");
        assert!(client.answered() >= 3);
    }

    #[test]
    fn a_client_that_dies_under_the_drives_request_leaves_it_well() {
        let served = Served::with(Doorbells::Trapped);
        for _ in 0..3 {
            let client = eventually(|| byteway_serve::vfio_user::Client::connect(&served.socket()).ok());
            client.dma_map(0, 16 * PAGE, None, true).unwrap();
            let write32 =
                |offset, value: u32| client.region_write(BAR0, offset, &value.to_le_bytes()).unwrap();
            write32(0x24, 0x000f_000f);
            client.region_write(BAR0, 0x28, &0x1000u64.to_le_bytes()).unwrap();
            client.region_write(BAR0, 0x30, &0x2000u64.to_le_bytes()).unwrap();
            write32(0x14, 0x0046_0001);
            std::thread::sleep(Duration::from_millis(20));
            write32(0x1000, 1);
            // The drive's request for the command is pending or arrives; it is never answered.
            wait_readable(client.channel().socket());
        }
        served.is_well();
    }
}
