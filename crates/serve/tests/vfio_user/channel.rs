//! Framing of messages in a stream: with trusting or missing framing, a split read loses a message, a
//! descriptor goes to the wrong one, and a four-byte length allocates all memory.

use crate::fixture::event;
use byteway_serve::vfio_user::channel::{Channel, Gone, UNSENT_BYTES_MAX};
use byteway_serve::vfio_user::message::{Command, FILES_MAX, Header, MESSAGE_BYTES_MAX};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg,
    socketpair,
};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::time::Duration;
use zerocopy::IntoBytes;

fn pair() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap()
}

/// A channel, and the raw socket at its other end.
fn ends() -> (Channel, OwnedFd) {
    let (near, far) = pair();
    (Channel::new(near), far)
}

fn bytes(id: u16, payload: &[u8]) -> Vec<u8> {
    let mut header = Header::request(id, Command(40), 0);
    header.bytes = (16 + payload.len() as u32).into();
    [header.as_bytes(), payload].concat()
}

fn send(socket: &OwnedFd, bytes: &[u8], files: &[BorrowedFd<'_>]) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(files.is_empty() || control.push(SendAncillaryMessage::ScmRights(files)));
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)
}

/// Distinguishable files.
fn files(count: usize) -> Vec<std::fs::File> {
    (0..count).map(|_| tempfile::tempfile().unwrap()).collect()
}

fn inode(file: impl AsFd) -> u64 {
    fstat(file).unwrap().st_ino
}

#[test]
fn a_message_in_two_pieces_is_one_wherever_it_is_cut() {
    let payload: Vec<u8> = (0..40).collect();
    let message = bytes(7, &payload);
    for cut in 1..message.len() {
        let (channel, far) = ends();
        send(&far, &message[..cut], &[]).unwrap();
        assert!(channel.try_receive().unwrap().is_none());
        send(&far, &message[cut..], &[]).unwrap();
        let received = channel.try_receive().unwrap().unwrap();
        assert_eq!((received.header.id.get(), &received.payload), (7, &payload), "cut at {cut}");
        assert!(channel.try_receive().unwrap().is_none());
    }
}

#[test]
fn a_message_comes_byte_by_byte() {
    let (channel, far) = ends();
    let message = bytes(1, &[9; 30]);
    for byte in &message[..message.len() - 1] {
        send(&far, &[*byte], &[]).unwrap();
        assert!(channel.try_receive().unwrap().is_none());
    }
    send(&far, &message[message.len() - 1..], &[]).unwrap();
    assert_eq!(channel.try_receive().unwrap().unwrap().payload, [9; 30]);
}

#[test]
fn several_messages_at_once_are_several() {
    let (channel, far) = ends();
    let all: Vec<u8> = (0..20).flat_map(|id| bytes(id, &vec![id as u8; id as usize])).collect();
    send(&far, &all, &[]).unwrap();
    for id in 0..20 {
        let message = channel.try_receive().unwrap().unwrap();
        assert_eq!((message.header.id.get(), message.payload.len()), (id, id as usize));
        channel.recycle(message.payload);
    }
    assert!(channel.try_receive().unwrap().is_none());
}

#[test]
fn descriptors_stay_with_the_message_they_came_with() {
    // Messages with and without a descriptor in every order; all have arrived before the first is read.
    let files = files(4);
    for pattern in 0..16u32 {
        let (channel, far) = ends();
        for (id, file) in files.iter().enumerate() {
            let with = pattern >> id & 1 == 1;
            let file = [file.as_fd()];
            send(&far, &bytes(id as u16, &[1, 2, 3]), if with { &file } else { &[] }).unwrap();
        }
        for (id, file) in files.iter().enumerate() {
            let message = channel.try_receive().unwrap().unwrap();
            assert_eq!(message.header.id.get() as usize, id);
            let expected = if pattern >> id & 1 == 1 { vec![inode(file)] } else { vec![] };
            assert_eq!(
                message.files.iter().map(inode).collect::<Vec<_>>(),
                expected,
                "pattern {pattern:04b}"
            );
        }
    }
}

#[test]
fn descriptors_survive_a_cut_message() {
    let files = files(2);
    let message = bytes(3, &[5; 20]);
    for cut in 1..message.len() {
        for later in [false, true] {
            let (channel, far) = ends();
            send(&far, &bytes(2, &[]), &[]).unwrap();
            send(&far, &message[..cut], &[files[0].as_fd()]).unwrap();
            // Descriptors in the middle of a message belong to it, too.
            let rest = [files[1].as_fd()];
            let rest = if later { &rest[..] } else { &[] };
            assert_eq!(channel.try_receive().unwrap().unwrap().files.len(), 0);
            assert!(channel.try_receive().unwrap().is_none());
            send(&far, &message[cut..], rest).unwrap();
            send(&far, &bytes(4, &[]), &[]).unwrap();
            let received = channel.try_receive().unwrap().unwrap();
            let expected: Vec<_> = files[..1 + usize::from(later)].iter().map(inode).collect();
            assert_eq!(received.files.iter().map(inode).collect::<Vec<_>>(), expected, "cut at {cut}");
            assert_eq!(channel.try_receive().unwrap().unwrap().files.len(), 0);
        }
    }
}

#[test]
fn descriptors_in_order_up_to_the_most_that_a_message_has() {
    for count in [1, 2, FILES_MAX] {
        let (channel, far) = ends();
        let files = files(count);
        let sent: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        send(&far, &bytes(1, &[]), &sent).unwrap();
        let message = channel.try_receive().unwrap().unwrap();
        assert!(!message.has_too_many_files);
        let inodes: Vec<_> = message.files.iter().map(inode).collect();
        assert_eq!(inodes, files.iter().map(inode).collect::<Vec<_>>());
    }
}

#[test]
fn too_many_descriptors_are_closed_and_said() {
    for count in [FILES_MAX + 1, FILES_MAX + 2, FILES_MAX + 3, 253] {
        let (channel, far) = ends();
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        send(&far, &bytes(1, &[8; 8]), &vec![writer.as_fd(); count]).unwrap();
        send(&far, &bytes(2, &[]), &[]).unwrap();
        drop(writer);
        let message = channel.try_receive().unwrap().unwrap();
        assert!(message.has_too_many_files && message.files.is_empty(), "{count}");
        // The pipe reports its end: all copies of the descriptor are closed.
        assert_eq!(rustix::io::read(&reader, &mut [0]), Ok(0), "{count}");
        let next = channel.try_receive().unwrap().unwrap();
        assert!(!next.has_too_many_files);
    }
    // Also when they arrive a few at a time.
    let (channel, far) = ends();
    let events: Vec<_> = (0..FILES_MAX).map(|_| event()).collect();
    let sent: Vec<_> = events.iter().map(AsFd::as_fd).collect();
    let message = bytes(1, &[8; 64]);
    for part in message.chunks(8) {
        send(&far, part, &sent).unwrap();
    }
    let message = channel.try_receive().unwrap().unwrap();
    assert!(message.has_too_many_files && message.files.is_empty());
}

#[test]
fn descriptors_of_a_message_that_never_ends_are_closed_with_the_channel() {
    let (channel, far) = ends();
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
    send(&far, &bytes(1, &[8; 64])[..20], &[writer.as_fd()]).unwrap();
    drop(writer);
    assert!(channel.try_receive().unwrap().is_none());
    assert_eq!(rustix::io::read(&reader, &mut [0]), Err(Errno::AGAIN));
    drop(channel);
    assert_eq!(rustix::io::read(&reader, &mut [0]), Ok(0));
}

#[test]
fn lengths_that_no_message_has_end_the_connection() {
    for (length, is_possible) in [
        (0, false),
        (15, false),
        (16, true),
        (17, true),
        (MESSAGE_BYTES_MAX as u32, true),
        (MESSAGE_BYTES_MAX as u32 + 1, false),
        (i32::MAX as u32, false),
        (u32::MAX, false),
    ] {
        let (channel, far) = ends();
        let mut message = bytes(1, &[]);
        message[4..8].copy_from_slice(&length.to_le_bytes());
        send(&far, &message, &[]).unwrap();
        let received = channel.try_receive();
        match is_possible {
            true => assert_eq!(received.unwrap().is_some(), length == 16, "{length}"),
            false => {
                assert_eq!(received.unwrap_err(), Gone::Size(length));
                // The end is final.
                assert_eq!(channel.try_receive().unwrap_err(), Gone::Size(length));
                assert_eq!(channel.send(Header::default(), &[], &[]), Err(Gone::Size(length)));
                assert!(channel.has_left());
            }
        }
    }
}

#[test]
fn a_payload_takes_no_more_memory_than_has_come() {
    let (channel, far) = ends();
    let mut message = bytes(1, &[7; 100]);
    message[4..8].copy_from_slice(&(MESSAGE_BYTES_MAX as u32).to_le_bytes());
    send(&far, &message, &[]).unwrap();
    let before = resident_bytes();
    let mut waiting = Vec::new();
    for _ in 0..200 {
        let (channel, far) = ends();
        send(&far, &message, &[]).unwrap();
        assert!(channel.try_receive().unwrap().is_none());
        waiting.push((channel, far));
    }
    assert!(channel.try_receive().unwrap().is_none());
    // A channel has a buffer of 64 KiB; 200 messages claim 200 MiB.
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 60 << 20, "{grown} bytes");
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn the_largest_message_arrives() {
    let (near, far) = pair();
    let (near, far) = (Channel::new(near), Channel::new(far));
    let payload: Vec<u8> = (0..MESSAGE_BYTES_MAX - 16).map(|at| (at % 251) as u8).collect();
    let file = tempfile::tempfile().unwrap();
    near.send(Header::request(5, Command(1), 0), &[&payload[..100], &payload[100..]], &[file.as_fd()])
        .unwrap();
    // More than the socket accepts at once.
    assert!(near.has_unsent());
    let received = loop {
        near.flush().unwrap();
        if let Some(message) = far.try_receive().unwrap() {
            break message;
        }
    };
    assert!(received.payload == payload);
    assert_eq!(received.files.iter().map(inode).collect::<Vec<_>>(), [inode(&file)]);
    assert!(!near.has_unsent());
}

#[test]
fn messages_that_had_to_wait_arrive_in_order_with_their_descriptors() {
    let (near, far) = pair();
    let (near, far) = (Channel::new(near), Channel::new(far));
    let file = tempfile::tempfile().unwrap();
    let payload = vec![3; 64 << 10];
    for id in 0..40 {
        let with = [file.as_fd()];
        let with = if id % 3 == 0 { &with[..] } else { &[] };
        near.send(Header::request(id, Command(1), 0), &[&payload], with).unwrap();
    }
    assert!(near.has_unsent());
    for id in 0..40 {
        let message = loop {
            near.flush().unwrap();
            if let Some(message) = far.try_receive().unwrap() {
                break message;
            }
        };
        assert_eq!(message.header.id.get(), id);
        assert_eq!(message.files.len(), usize::from(id % 3 == 0), "{id}");
    }
}

#[test]
fn who_does_not_read_is_dropped() {
    let (channel, far) = ends();
    let payload = vec![0; 1 << 20];
    let end = (0..100).find_map(|_| channel.send(Header::default(), &[&payload], &[]).err()).unwrap();
    assert!(matches!(end, Gone::Deaf(bytes) if bytes > UNSENT_BYTES_MAX && bytes < 2 * UNSENT_BYTES_MAX));
    assert_eq!(channel.flush(), Err(end));
    drop(far);
}

#[test]
fn an_end_is_told_from_a_torn_message() {
    let message = bytes(1, &[1; 10]);
    for cut in 0..=message.len() {
        let (channel, far) = ends();
        send(&far, &message[..cut], &[]).unwrap();
        drop(far);
        assert!(channel.has_left());
        let whole = cut == message.len();
        assert_eq!(channel.try_receive().is_ok(), whole, "cut at {cut}");
        let expected = if cut == 0 || whole { Gone::Closed } else { Gone::Torn };
        assert_eq!(channel.try_receive().unwrap_err(), expected, "cut at {cut}");
    }
}

#[test]
fn a_peer_that_resets_the_connection_has_gone() {
    // With unread bytes at its side, closing sends a reset.
    let (channel, far) = ends();
    channel.send(Header::default(), &[], &[]).unwrap();
    drop(far);
    assert_eq!(channel.try_receive().unwrap_err(), Gone::Closed);
    let (channel, far) = ends();
    drop(far);
    assert_eq!(channel.send(Header::default(), &[], &[]), Err(Gone::Closed));
}

#[test]
fn an_answer_is_found_among_other_messages() {
    let (near, far) = pair();
    let near = Channel::new(near);
    let thread = std::thread::spawn(move || {
        let far_too = far.try_clone().unwrap();
        let far = Channel::new(far);
        let asked = far.wait_for(Duration::from_secs(5), |message| Ok(Some(message))).unwrap().unwrap();
        let mut stray = asked.header.reply();
        stray.id = 999.into();
        far.send(stray, &[], &[]).unwrap();
        let mut other = asked.header.reply();
        other.command = 2.into();
        far.send(other, &[], &[]).unwrap();
        far.send(Header::request(77, Command::REGION_READ, 0), &[&[1]], &[]).unwrap();
        far.send(asked.header.reply(), &[b"answer"], &[]).unwrap();
        far.send(Header::request(78, Command::REGION_READ, 0), &[], &[]).unwrap();
        far_too
    });
    let mut meanwhile = Vec::new();
    let answer = near
        .ask(Command::DMA_READ, &[b"question"], &[], |message| {
            meanwhile.push(message.header.id.get());
            Ok(())
        })
        .unwrap();
    assert_eq!((answer.payload.as_slice(), meanwhile, near.stray_replies()), (&b"answer"[..], vec![77], 2));
    let _far = thread.join().unwrap();
    let next = near.wait_for(Duration::from_secs(5), |message| Ok(Some(message))).unwrap().unwrap();
    assert_eq!(next.header.id.get(), 78);
}
