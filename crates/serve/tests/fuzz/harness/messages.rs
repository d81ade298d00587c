//! A fuzzed client of a served drive: sends messages and descriptors, complete or in pieces, and connects and
//! disconnects. The server runs in its own thread, like a served drive.
//!
//! Verified after each input: no panic; the server sends valid messages; a client that disconnects is
//! detached within seconds; the controller is quiet at the end; file pages that were never mapped writable
//! are unchanged; and the server's thread stops when requested.
//! Not verified: the contents of replies (the protocol tests do that).
#![allow(
    clippy::disallowed_methods,
    reason = "the server has a thread of its own, and the client waits for it"
)]

use super::bench::{self, BAR_BYTES, OFFERED, Shape, VECTORS};
use super::input::Input;
use byteway_content::Keep;
use byteway_firmware::Base;
use byteway_serve::function::Doorbells;
use byteway_serve::vfio_user::Server;
use byteway_serve::vfio_user::message::{
    Capabilities, Command, DeviceInfo, DmaAccess, DmaMap, DmaUnmap, HEADER_BYTES, Header, IrqInfo,
    MESSAGE_BYTES_MAX, RegionAccess, RegionInfo, RegionIoFds, SetIrqs, SmallWrite, Version, take,
};
use byteway_wire::nvme::feature::fid;
use byteway_wire::nvme::register::{self, Aqa, Cc};
use byteway_wire::nvme::vendor::{Sink, bar_descriptor, inline_descriptor};
use byteway_wire::nvme::{
    Cqe, CreateCq, CreateSq, DoorbellBufferConfig, Identify, NvmOpcode, QueuePriority, ReadWrite,
    SetFeatures, Sqe, VendorOpcode,
};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, OFlags, fcntl_setfl, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, sendmsg, socket_with,
};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io::{ErrorKind, IoSlice, Read};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

/// Steps of an input, at most.
const ACTIONS_MAX: u32 = 64;
/// How often and how long to wait for the server: longer than the server waits for a reply. Not in wall-clock
/// time, because the whole process may have been suspended.
const WAITS_MAX: u32 = 10_000;
const WAIT: Duration = Duration::from_millis(1);
const PAGE: u64 = 4096;
/// Pages of a file.
const FILE_PAGES: u64 = 12;
/// Address of the first file as mapped by a well-behaved client: from its second page to the last but one.
const BASE: u64 = 0x10_0000;
/// Address of memory without a file, as mapped by such a client.
const REMOTE: u64 = 0x40_0000;
/// In the first file: the admin queues, an I/O queue pair, data. Memory that the device writes is adjacent to
/// the page that it must not write.
const ACQ: u64 = BASE;
const ASQ: u64 = BASE + PAGE;
const SQ: u64 = BASE + 2 * PAGE;
const CQ: u64 = BASE + 3 * PAGE;
const DATA: u64 = BASE + 4 * PAGE;
/// Descriptors in a message, at most: more than are accepted.
const FILES_MAX: usize = 20;

/// Runs an input.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let flags = input.byte();
    let shape = Shape {
        doorbells: if flags & 1 == 0 { Doorbells::Mapped } else { Doorbells::Trapped },
        sgl: true,
        dstrd: 0,
        dma_granularity: 1,
        command_slots: 8,
        fetch_outstanding: 2,
        keep: Keep::Bytes,
        base: Base::Empty,
        fetch_burst: 4,
        offers: flags & 8 == 0,
    };
    let directory = tempfile::tempdir().expect("the system can create a directory");
    let socket = directory.path().join("cntrl");
    let stop = eventfd(0, EventfdFlags::CLOEXEC).expect("the system has a descriptor");
    let (said, ready) = mpsc::channel();
    let (own_stop, path) = (stop.try_clone().expect("the system has a descriptor"), socket.clone());
    let thread = std::thread::spawn(move || serve(shape, path, own_stop, said));
    let is_ready = ready.recv().is_ok();
    if is_ready {
        let mut client = Client::new(socket);
        if flags & 2 == 0 {
            client.version();
            client.set_up();
        }
        let mut actions = 0;
        while !input.is_empty() && actions < ACTIONS_MAX {
            client.act(&mut input);
            actions += 1;
        }
        client.leave(flags & 4 == 0);
        client.check();
    }
    rustix::io::write(&stop, &1u64.to_ne_bytes()).expect("an eventfd takes a number");
    thread.join().expect("the server's thread does not panic");
}

fn serve(shape: Shape, socket: PathBuf, stop: OwnedFd, said: mpsc::Sender<()>) {
    bench::run(shape, move |served| async move {
        let server = Server::bind(socket).expect("a new directory has no other server");
        said.send(()).expect("the other end waits for it");
        let (clock, stop) = (served.clock.clone(), Rc::new(stop));
        server.run(&served.function, &Default::default(), async move { clock.readable(&stop).await }).await;
        let controller = &served.drive.controller;
        assert!(
            controller.is_quiet() && !controller.is_busy(),
            "no client is attached, so nothing is in flight"
        );
        let gone = served.function.memory().read(BASE, &mut [0]);
        assert!(gone.is_err(), "no client is attached, so nothing is mapped");
    });
}

/// A file passed to the server.
struct Memory {
    file: File,
    /// Its pages that the server may have been allowed to write.
    exposed: Vec<bool>,
    pages: u64,
}

/// Initial contents of its pages.
const CANARY: [u8; PAGE as usize] = [0xC7; PAGE as usize];

impl Memory {
    fn new() -> Self {
        let file = File::from(memfd_create("fuzz", MemfdFlags::CLOEXEC).expect("the system has memory"));
        for page in [0, FILE_PAGES - 1] {
            file.write_all_at(&CANARY, page * PAGE).expect("memory can be written");
        }
        Memory { file, exposed: vec![false; FILE_PAGES as usize], pages: FILE_PAGES }
    }

    fn expose(&mut self, offset: u64, bytes: u64) {
        let (first, end) = (offset / PAGE, offset.saturating_add(bytes).div_ceil(PAGE));
        let pages = self.exposed.iter_mut().zip(0..).filter(|(_, page)| (first..end).contains(page));
        pages.for_each(|(exposed, _)| *exposed = true);
    }

    fn check(&self) {
        for page in [0, FILE_PAGES - 1] {
            if self.exposed[page as usize] || page >= self.pages {
                continue;
            }
            let mut held = [0; PAGE as usize];
            self.file.read_exact_at(&mut held, page * PAGE).expect("memory can be read");
            assert!(held == CANARY, "page {page} was written, and was in no mapping");
        }
    }
}

struct Client {
    path: PathBuf,
    stream: Option<UnixStream>,
    memory: Vec<Memory>,
    /// Contents of memory without a file.
    remote: Vec<u8>,
    next_id: u16,
    /// Received bytes that are not yet decoded.
    received: Vec<u8>,
    /// Number of outstanding replies.
    expected: u32,
    /// The other ends of passed descriptors, or the descriptors themselves.
    ends: Vec<OwnedFd>,
    admin_tail: u32,
    tail: u32,
    next_cid: u16,
    /// How to answer requests of the server.
    manner: u8,
    others: Vec<UnixStream>,
    /// Number of slow operations so far.
    floods: u32,
}

/// Connects, unless that would wait for the server ([`Errno::AGAIN`]). Reads do not block, either.
fn connect(path: &Path) -> Result<UnixStream, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

impl Client {
    fn new(path: PathBuf) -> Self {
        let mut client = Client {
            path,
            stream: None,
            memory: vec![Memory::new()],
            remote: vec![0; 4 * PAGE as usize],
            next_id: 0,
            received: Vec::new(),
            expected: 0,
            ends: Vec::new(),
            admin_tail: 0,
            tail: 0,
            next_cid: 0,
            manner: 0,
            others: Vec::new(),
            floods: 0,
        };
        client.connect();
        client
    }

    fn connect(&mut self) {
        let mut waits = 0;
        let stream = loop {
            match connect(&self.path) {
                Ok(stream) => break stream,
                Err(Errno::AGAIN) => {
                    waits += 1;
                    assert!(waits < WAITS_MAX, "the server accepts no client");
                    std::thread::sleep(WAIT);
                }
                Err(errno) => panic!("the server is not there: {errno}"),
            }
        };
        self.stream = Some(stream);
        self.received.clear();
        (self.expected, self.admin_tail, self.tail, self.manner) = (0, 0, 0, 0);
    }

    // Sending and receiving.

    /// Sends bytes, and descriptors with the first of them.
    fn send(&mut self, mut bytes: &[u8], files: &[OwnedFd]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let borrowed: Vec<_> = files.iter().take(FILES_MAX).map(AsFd::as_fd).collect();
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !borrowed.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&borrowed));
        }
        let mut waits = 0;
        while !bytes.is_empty() {
            let Some(stream) = &self.stream else { return };
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match sendmsg(stream, &[IoSlice::new(bytes)], &mut control, flags) {
                Ok(count) => {
                    bytes = &bytes[count..];
                    control = SendAncillaryBuffer::default();
                }
                Err(Errno::AGAIN) => {
                    waits += 1;
                    assert!(waits < WAITS_MAX, "the server reads nothing");
                    self.wait(WAIT);
                    self.pump();
                }
                Err(_) => {
                    self.stream = None;
                    return;
                }
            }
        }
    }

    fn wait(&self, limit: Duration) {
        let Some(stream) = &self.stream else { return };
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        _ = poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&limit));
    }

    /// Receives bytes. Returns whether the connection has ended.
    fn pump(&mut self) -> bool {
        let mut chunk = [0; 4096];
        loop {
            let Some(stream) = &mut self.stream else { return true };
            match stream.read(&mut chunk) {
                Ok(0) => return true,
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(_) => return true,
            }
            while let Some((header, rest)) = take::<Header>(&self.received) {
                let bytes = header.bytes.get() as usize;
                assert!(
                    (HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(&bytes),
                    "a message of {bytes} bytes came"
                );
                let Some(payload) = rest.get(..bytes - HEADER_BYTES) else { break };
                let payload = payload.to_vec();
                self.received.drain(..bytes);
                self.take(header, &payload);
            }
        }
    }

    fn take(&mut self, header: Header, payload: &[u8]) {
        if header.kind() == Header::REPLY {
            self.expected = self.expected.saturating_sub(1);
            return;
        }
        assert_eq!(header.kind(), Header::REQUEST, "a message is a request or a reply");
        let is_read = header.command() == Command::DMA_READ;
        assert!(is_read || header.command() == Command::DMA_WRITE, "{header:?} is no request of a server");
        let (access, data) = take::<DmaAccess>(payload).expect("the request is whole");
        let (address, count) = (access.address.get(), access.count.get());
        let mut reply = header.reply();
        let mut answer = access.as_bytes().to_vec();
        // Mapped at another address, it is the same memory.
        let at = (address % self.remote.len() as u64) as usize;
        if is_read {
            assert!(count <= MESSAGE_BYTES_MAX as u64, "more is asked for than a message holds");
            answer.extend(self.remote.iter().cycle().skip(at).take(count as usize));
        } else {
            assert_eq!(data.len() as u64, count, "the data is what the count says");
            let room = self.remote.len() - at;
            let count = data.len().min(room);
            self.remote[at..at + count].copy_from_slice(&data[..count]);
        }
        match self.manner {
            1 => reply = header.failure(14),
            2 => answer.truncate(answer.len() / 2),
            3 => reply.id = (header.id.get() ^ 1).into(), // followed by the right one
            4 => reply.command = (header.command.get() ^ 1).into(),
            5 => return self.stream = None,
            _ => {}
        }
        reply.bytes = ((HEADER_BYTES + answer.len()) as u32).into();
        self.reply(reply, &answer);
        if matches!(self.manner, 3 | 4) {
            let mut right = header.reply();
            right.bytes = reply.bytes;
            self.reply(right, &answer);
        }
    }

    fn reply(&mut self, header: Header, payload: &[u8]) {
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend_from_slice(payload);
        self.send(&bytes, &[]);
    }

    /// Sends a request that requires a reply.
    fn request(&mut self, command: Command, flags: u32, parts: &[&[u8]], files: &[OwnedFd]) {
        let mut header = Header::request(self.next_id, command, flags);
        self.next_id = self.next_id.wrapping_add(1);
        header.bytes = ((HEADER_BYTES + parts.iter().map(|part| part.len()).sum::<usize>()) as u32).into();
        let mut bytes = header.as_bytes().to_vec();
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        self.send(&bytes, files);
        self.expected += u32::from(flags & Header::NO_REPLY == 0);
    }

    /// Waits for replies, for a limited time.
    fn settle(&mut self) {
        let end = Instant::now() + Duration::from_millis(5);
        while !self.pump() && self.expected > 0 && Instant::now() < end {
            self.wait(Duration::from_millis(1));
        }
        self.expected = 0;
    }

    /// Disconnects: after everything sent has been processed, or at once.
    fn leave(&mut self, is_polite: bool) {
        if let (Some(stream), true) = (&self.stream, is_polite) {
            _ = stream.shutdown(Shutdown::Write);
            let mut waits = 0;
            while !self.pump() {
                waits += 1;
                assert!(waits < WAITS_MAX, "the server does not let go of who has closed");
                self.wait(WAIT);
            }
        }
        self.stream = None;
    }

    fn check(&self) {
        self.memory.iter().for_each(Memory::check);
    }

    // Actions of a well-behaved client.

    fn version(&mut self) {
        let offer = Capabilities::offer();
        self.request(Command::VERSION, 0, &[Version::default().as_bytes(), &offer], &[]);
    }

    fn map(&mut self, address: u64, offset: u64, bytes: u64, flags: u32, file: Option<usize>) {
        let map = DmaMap {
            argsz: (size_of::<DmaMap>() as u32).into(),
            flags: flags.into(),
            offset: offset.into(),
            address: address.into(),
            bytes: bytes.into(),
        };
        let mut files = Vec::new();
        if let Some(memory) = file.and_then(|file| self.memory.get_mut(file)) {
            if flags & 2 != 0 {
                memory.expose(offset, bytes);
            }
            files.push(memory.file.try_clone().expect("the system has a descriptor").into());
        }
        self.request(Command::DMA_MAP, 0, &[map.as_bytes()], &files);
    }

    fn write(&mut self, region: u32, offset: u64, bytes: &[u8]) {
        let access =
            RegionAccess { offset: offset.into(), region: region.into(), count: (bytes.len() as u32).into() };
        self.request(Command::REGION_WRITE, 0, &[access.as_bytes(), bytes], &[]);
    }

    /// Maps memory and enables the controller.
    fn set_up(&mut self) {
        self.map(BASE, PAGE, (FILE_PAGES - 2) * PAGE, 3, Some(0));
        self.map(REMOTE, 0, self.remote.len() as u64, 3, None);
        self.write(0, register::CC, &[0; 4]);
        self.settle();
        self.poke(BASE, &[0; 4 * PAGE as usize]);
        (self.admin_tail, self.tail) = (0, 0);
        let aqa = Aqa::new().with_asqs_z(31).with_acqs_z(31).into_bits();
        self.write(0, register::AQA, &aqa.to_le_bytes());
        self.write(0, register::ASQ, &ASQ.to_le_bytes());
        self.write(0, register::ACQ, &ACQ.to_le_bytes());
        let cc = Cc::new().with_en(true).with_iosqes(6).with_iocqes(4).into_bits();
        self.write(0, register::CC, &cc.to_le_bytes());
        self.settle();
    }

    /// Stores to the first file, or to memory without a file.
    fn poke(&mut self, address: u64, bytes: &[u8]) {
        if let Some(at) = address.checked_sub(REMOTE) {
            if let Some(into) = self.remote.get_mut(at as usize..at as usize + bytes.len()) {
                into.copy_from_slice(bytes);
            }
            return;
        }
        let memory = &self.memory[0];
        let at = address - BASE + PAGE;
        if at + bytes.len() as u64 <= memory.pages * PAGE {
            memory.file.write_all_at(bytes, at).expect("memory can be written");
        }
    }

    /// Submits a command; if it `waits`, waits for its completion for a limited time.
    fn submit(&mut self, is_admin: bool, sqe: Sqe, waits: bool) {
        self.next_cid = self.next_cid.wrapping_add(1);
        let (base, completions, tail, doorbell) = match is_admin {
            true => (ASQ, ACQ, &mut self.admin_tail, 0),
            false => (SQ, CQ, &mut self.tail, 8),
        };
        let (slot, next) = (*tail, (*tail + 1) % 32);
        *tail = next;
        self.poke(base + u64::from(slot) * 64, &sqe.with_cid(self.next_cid).to_bytes());
        self.write(0, register::DOORBELLS + doorbell, &next.to_le_bytes());
        // Free the completion entries: the heads follow the tails.
        self.write(0, register::DOORBELLS + doorbell + 4, &slot.to_le_bytes());
        let end = Instant::now() + Duration::from_millis(2);
        while waits && !self.pump() && Instant::now() < end {
            // Its position, if all earlier commands have completed.
            let mut entry = [0; 16];
            let at = completions + u64::from(slot) * 16 - BASE + PAGE;
            _ = self.memory[0].file.read_at(&mut entry, at);
            if Cqe::from_bytes(&entry).cid == self.next_cid {
                return;
            }
            self.wait(Duration::from_micros(100));
        }
    }

    // Actions chosen by the input.

    /// A descriptor of some kind.
    fn descriptor(&mut self, input: &mut Input<'_>) -> OwnedFd {
        let kind = input.byte() % 10;
        let descriptor: std::io::Result<OwnedFd> = match kind {
            0 | 1 => {
                let index = usize::from(kind).min(self.memory.len() - 1);
                // It is unknown where it will be mapped.
                self.memory[index].expose(0, u64::MAX);
                self.memory[index].file.try_clone().map(OwnedFd::from)
            }
            2 => {
                let path = format!("/proc/self/fd/{}", self.memory[0].file.as_raw_fd());
                File::open(path).map(OwnedFd::from)
            }
            3 => eventfd(0, EventfdFlags::CLOEXEC).map_err(Into::into).inspect(|event| {
                if input.byte() & 1 == 1 {
                    let full = (u64::MAX - 1).to_ne_bytes();
                    rustix::io::write(event, &full).expect("an eventfd takes a number");
                }
                if self.ends.len() < 8 {
                    self.ends.push(event.try_clone().expect("the system has a descriptor"));
                }
            }),
            4 | 5 => pipe_with(PipeFlags::CLOEXEC).map_err(Into::into).map(|(reader, writer)| {
                let (given, kept) = if kind == 4 { (writer, reader) } else { (reader, writer) };
                if self.ends.len() < 8 {
                    self.ends.push(kept);
                }
                given
            }),
            6 => File::open("/dev/null").map(OwnedFd::from),
            7 => File::open("/").map(OwnedFd::from),
            8 => UnixStream::pair().map(|(one, other)| {
                if self.ends.len() < 8 {
                    self.ends.push(other.into());
                }
                one.into()
            }),
            // Its own end of the connection: an interrupt would be a message of eight bytes.
            _ => match &self.stream {
                Some(stream) => stream.try_clone().map(OwnedFd::from),
                None => File::open("/dev/zero").map(OwnedFd::from),
            },
        };
        descriptor.expect("the system has descriptors")
    }

    fn descriptors(&mut self, input: &mut Input<'_>) -> Vec<OwnedFd> {
        let count = input.pick(&[0, 1, 1, 2, 5, 16, 17, 20]);
        (0..count).map(|_| self.descriptor(input)).collect()
    }

    fn address(&mut self, input: &mut Input<'_>) -> u64 {
        match input.byte() % 10 {
            0..=2 => DATA + input.below(5) * PAGE,
            3 | 4 => REMOTE + input.below(4) * PAGE,
            5 => 0x80_0000 + input.below(16) * PAGE,
            6 => input.pick(&[BASE, ASQ, ACQ, SQ, CQ]),
            7 => REMOTE + input.below(4 * PAGE),
            8 => input.pick(&[0, u64::MAX, u64::MAX - PAGE + 1, 1 << 63, BASE - PAGE]),
            _ => input.u64(),
        }
    }

    fn bytes(&mut self, input: &mut Input<'_>) -> u64 {
        match input.byte() % 8 {
            0..=3 => PAGE,
            4 => input.below(16) * PAGE,
            5 => (FILE_PAGES - 2) * PAGE,
            6 => input.pick(&[0, 1, u64::MAX, u64::MAX - PAGE + 1, 1 << 40]),
            _ => input.u64(),
        }
    }

    fn flags(&mut self, input: &mut Input<'_>) -> u32 {
        match input.byte() % 16 {
            0..=13 => 0,
            14 => Header::NO_REPLY,
            _ => input.u32() & !Header::NO_REPLY,
        }
    }

    /// The length field of a structure: usually right.
    fn argsz<T>(&mut self, input: &mut Input<'_>) -> zerocopy::little_endian::U32 {
        let argsz = match input.byte() % 16 {
            0..=11 => size_of::<T>() as u32,
            12 => size_of::<T>() as u32 + 64,
            13 => 0,
            _ => input.u32(),
        };
        argsz.into()
    }

    fn act(&mut self, input: &mut Input<'_>) {
        if self.stream.is_none() {
            self.connect();
        }
        match input.byte() % 26 {
            0 => self.version(),
            1 => self.set_up(),
            2 => {
                let (address, bytes) = (self.address(input), self.bytes(input));
                let flags = input.pick(&[3, 3, 3, 1, 2, 0, 4]);
                let offset = match input.byte() % 8 {
                    0..=5 => PAGE,
                    6 => input.below(FILE_PAGES + 2) * PAGE,
                    _ => input.u64(),
                };
                let file = input.pick(&[Some(0), None, Some(1), Some(0)]);
                self.map(address, offset, bytes, flags, file);
            }
            3 => {
                let unmap = DmaUnmap {
                    argsz: self.argsz::<DmaUnmap>(input),
                    flags: u32::from(input.pick(&[0u8, 0, 0, 0, 1, 2, 3])).into(),
                    address: self.address(input).into(),
                    bytes: self.bytes(input).into(),
                };
                let (flags, files) = (self.flags(input), self.descriptors(input));
                self.request(Command::DMA_UNMAP, flags, &[unmap.as_bytes()], &files);
            }
            4 => {
                let unmap = DmaUnmap {
                    argsz: (size_of::<DmaUnmap>() as u32).into(),
                    flags: 0.into(),
                    address: input.pick(&[BASE, REMOTE]).into(),
                    bytes: input.pick(&[(FILE_PAGES - 2) * PAGE, 4 * PAGE]).into(),
                };
                self.request(Command::DMA_UNMAP, 0, &[unmap.as_bytes()], &[]);
            }
            5 => {
                let info = DeviceInfo { argsz: self.argsz::<DeviceInfo>(input), ..DeviceInfo::default() };
                self.request(Command::DEVICE_GET_INFO, 0, &[info.as_bytes()], &[]);
            }
            6 => {
                let mut info = RegionInfo { argsz: self.argsz::<RegionInfo>(input), ..RegionInfo::default() };
                info.index = u32::from(input.byte() % 12).into();
                self.request(Command::DEVICE_GET_REGION_INFO, 0, &[info.as_bytes()], &[]);
            }
            7 => {
                let mut info = IrqInfo { argsz: self.argsz::<IrqInfo>(input), ..IrqInfo::default() };
                info.index = u32::from(input.byte() % 8).into();
                self.request(Command::DEVICE_GET_IRQ_INFO, 0, &[info.as_bytes()], &[]);
                let mut fds =
                    RegionIoFds { argsz: self.argsz::<RegionIoFds>(input), ..RegionIoFds::default() };
                fds.index = u32::from(input.byte() % 12).into();
                self.request(Command::DEVICE_GET_REGION_IO_FDS, 0, &[fds.as_bytes()], &[]);
            }
            8 | 9 => {
                let count = input.pick(&[1, 1, u32::from(VECTORS), 0, 2, u32::MAX, 3]);
                let set = SetIrqs {
                    argsz: self.argsz::<SetIrqs>(input),
                    flags: input.pick(&[0x24, 0x24, 0x21, 0x22, 0x24, 0x0C, 0x14, 0x27, 0xFFFF_FFFF]).into(),
                    index: input.pick(&[2, 2, 2, 2, 0, 3, 4, 9]).into(),
                    start: u32::from(input.byte() % 8).into(),
                    count: count.into(),
                };
                let few = count.min(20) as usize;
                let files: Vec<_> = match input.byte() % 4 {
                    0 => self.descriptors(input),
                    1 => Vec::new(),
                    _ => (0..few).map(|_| self.descriptor(input)).collect(),
                };
                let chosen = if input.byte() & 1 == 0 { 0 } else { few };
                let chosen = input.take(chosen);
                self.request(Command::DEVICE_SET_IRQS, 0, &[set.as_bytes(), chosen], &files);
            }
            10 => {
                let access = RegionAccess {
                    offset: self.offset(input).into(),
                    region: input.pick(&[0, 7, 0, 7, 1, 8, u32::MAX]).into(),
                    count: match input.byte() % 8 {
                        0..=4 => input.pick(&[4u32, 8, 1, 2, 64]),
                        5 => input.u16().into(),
                        6 => 1 << 20,
                        _ => input.u32(),
                    }
                    .into(),
                };
                let flags = self.flags(input);
                self.request(Command::REGION_READ, flags, &[access.as_bytes()], &[]);
            }
            11 | 12 => {
                let count = input.pick(&[4, 4, 8, 1, 2, 3, 40]);
                let (offset, data) = (self.offset(input), input.take(count).to_vec());
                let access = RegionAccess {
                    offset: offset.into(),
                    region: input.pick(&[0, 7, 0, 7, 1, 8, u32::MAX]).into(),
                    count: if input.one_in(16) { input.u32() } else { data.len() as u32 }.into(),
                };
                let flags = self.flags(input);
                self.request(Command::REGION_WRITE, flags, &[access.as_bytes(), &data], &[]);
            }
            13 => {
                let count = input.below(6);
                let mut payload = count.to_le_bytes().to_vec();
                if input.one_in(8) {
                    payload = input.u64().to_le_bytes().to_vec();
                }
                for _ in 0..count {
                    let write = SmallWrite {
                        offset: self.offset(input).into(),
                        region: input.pick(&[0, 7, 0, 9]).into(),
                        count: input.pick(&[4u32, 8, 1, 9, u32::MAX]).into(),
                        data: input.array(),
                    };
                    payload.extend_from_slice(write.as_bytes());
                }
                self.request(Command::REGION_WRITE_MULTI, 0, &[&payload], &[]);
            }
            14 => {
                let payload = if input.one_in(8) { 3 } else { 0 };
                let payload = input.take(payload);
                self.request(Command::DEVICE_RESET, 0, &[payload], &[]);
            }
            15 => {
                // A message of any type with the right length.
                let (command, flags) = (Command(u16::from(input.byte() % 18)), self.flags(input));
                let count = usize::from(input.byte());
                let (payload, files) = (input.take(count), self.descriptors(input));
                self.request(command, flags, &[payload], &files);
            }
            16 => {
                // An arbitrary header, which determines how the rest of the stream is interpreted.
                let header: [u8; HEADER_BYTES] = input.array();
                let mut header = Header::read_from_bytes(&header).expect("as long as a header");
                if input.byte() & 1 == 0 {
                    header.bytes = (HEADER_BYTES as u32 + u32::from(input.byte())).into();
                }
                let files = self.descriptors(input);
                self.send(header.as_bytes(), &files);
            }
            17 => {
                let count = usize::from(input.byte());
                let (bytes, files) = (input.take(count), self.descriptors(input));
                self.send(bytes, &files);
            }
            18 => {
                let pages = input.below(FILE_PAGES);
                let index = input.below(self.memory.len() as u64) as usize;
                let memory = &mut self.memory[index];
                memory.pages = memory.pages.min(pages);
                memory.file.set_len(memory.pages * PAGE).expect("a file can be made shorter");
            }
            19 => {
                let is_polite = input.byte() & 1 == 0;
                self.leave(is_polite);
                self.connect();
                if input.byte() & 1 == 0 {
                    self.version();
                    self.set_up();
                }
            }
            20 => self.other(input),
            21 => match input.byte() % 5 {
                4 => self.ends.iter().for_each(|end| _ = fcntl_setfl(end, OFlags::empty())), // they block now
                0 => self.settle(),
                1 => _ = self.pump(),
                2 => self.manner = input.byte() % 6,
                _ if self.memory.len() < 3 => self.memory.push(Memory::new()),
                _ => {}
            },
            22 => self.admin(input),
            24 if self.floods < 1 => {
                self.floods += 1;
                // Requests much, and does not read for a while, or at all.
                let count = u32::from(input.byte()) * 2;
                for _ in 0..count {
                    let access = RegionAccess { offset: 0.into(), region: 0.into(), count: 0x2000.into() };
                    self.request(Command::REGION_READ, 0, &[access.as_bytes()], &[]);
                }
                if input.byte() & 1 == 1 {
                    self.stream = None;
                }
            }
            24 => self.settle(),
            25 => match input.byte() {
                // Count every region: their number is limited.
                count @ 0..128 if self.floods < 1 => {
                    self.floods += 1;
                    for page in 0..u64::from(count) * 10 {
                        self.map(0x1000_0000 + page * 2 * PAGE, 0, PAGE, 3, None);
                        if page % 64 == 0 {
                            self.pump();
                        }
                    }
                }
                _ => {
                    let unmap = DmaUnmap {
                        argsz: (size_of::<DmaUnmap>() as u32).into(),
                        flags: 2.into(), // all
                        ..DmaUnmap::default()
                    };
                    self.request(Command::DMA_UNMAP, 0, &[unmap.as_bytes()], &[]);
                }
            },
            _ => {
                let (slba, nlb_z) = (input.below(300), input.below(9) as u16);
                let opcode = input.pick(&[NvmOpcode::READ, NvmOpcode::WRITE, NvmOpcode::COMPARE]);
                let (prp1, prp2) = (self.address(input), self.address(input));
                let more = input.byte();
                let nsid = 1 + u32::from(more & 1);
                let rw = ReadWrite { slba, nlb_z, ..ReadWrite::default() };
                let bytes = u32::from(nlb_z) * 16;
                let sqe = Sink { offset: slba, bytes }.sqe(VendorOpcode::SINK_WRITE, 0, nsid);
                let sqe = match more >> 2 & 7 {
                    5 => sqe.with_sgl(bar_descriptor(slba * 32, bytes)),
                    // The next bytes are interpreted as its payload.
                    6 => sqe.with_sgl(inline_descriptor(bytes)),
                    7 => sqe.with_prp(prp1, prp2),
                    _ => rw.sqe(opcode, 0, nsid).with_prp(prp1, prp2),
                };
                self.submit(false, sqe, more & 2 == 0);
            }
        }
        self.pump();
    }

    fn offset(&mut self, input: &mut Input<'_>) -> u64 {
        match input.byte() {
            // The payload buffer, and its surroundings.
            0xE0.. => 0xFFC0 + input.below(u64::from(BAR_BYTES) + 0x80),
            choice => self.low_offset(choice % 6, input),
        }
    }

    fn low_offset(&mut self, choice: u8, input: &mut Input<'_>) -> u64 {
        match choice {
            0 => input.below(0x20) * 4,
            1 => register::DOORBELLS + input.below(16) * 4,
            2 => input.below(0x8000),
            3 => 0x2000 + input.below(0x100) * 4,
            4 => input.pick(&[0x69, 4, 0x44, 0xA2, 0x10, 4095]),
            _ => input.u64(),
        }
    }

    fn admin(&mut self, input: &mut Input<'_>) {
        let sqe = match input.byte() % 6 {
            0 | 1 => {
                let cq = CreateCq { qid: 1, qsize_z: 31, pc: true, ien: input.byte() & 1 == 0, iv: 1 };
                self.submit(true, cq.sqe(0, CQ), true);
                let sq = CreateSq { qid: 1, qsize_z: 31, pc: true, qprio: QueuePriority::Urgent, cqid: 1 };
                self.tail = 0;
                sq.sqe(0, SQ)
            }
            2 => {
                let (shadow_doorbells, event_indexes) = (self.address(input), self.address(input));
                DoorbellBufferConfig { shadow_doorbells, event_indexes }.sqe(0)
            }
            3 => {
                let base = self.address(input);
                CreateCq { qid: 2, qsize_z: 15, pc: true, ien: true, iv: 2 }.sqe(0, base)
            }
            4 => {
                // For its only queue, whose entries have another meaning from now on.
                let (cdw11, fid) = (OFFERED.into_bits(), fid::PAYLOAD_METHODS);
                SetFeatures { fid, cdw11, cdw12: 1, ..SetFeatures::default() }.sqe(0, 0)
            }
            _ => {
                let (prp1, prp2) = (self.address(input), self.address(input));
                Identify { cns: byteway_wire::nvme::Cns(1), ..Identify::default() }
                    .sqe(0, 0)
                    .with_prp(prp1, prp2)
            }
        };
        let waits = input.byte() & 1 == 0;
        self.submit(true, sqe, waits);
    }

    /// Another client, while the first is attached.
    fn other(&mut self, input: &mut Input<'_>) {
        // The server may be waiting for a reply, so this must not wait for the server.
        let Ok(mut other) = connect(&self.path) else { return };
        let mut header = Header::request(1, Command::VERSION, 0);
        header.bytes = ((HEADER_BYTES + size_of::<Version>()) as u32).into();
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend_from_slice(Version::default().as_bytes());
        let count = if input.byte() & 1 == 0 { bytes.len() } else { input.byte().into() };
        bytes.resize(count, 0);
        use std::io::Write;
        _ = other.write_all(&bytes);
        match input.byte() % 4 {
            0 => {
                _ = poll(
                    &mut [PollFd::new(&other, PollFlags::IN)],
                    Some(&Timespec { tv_sec: 0, tv_nsec: 5_000_000 }),
                );
                _ = other.read(&mut [0; 64]);
            }
            1 if self.others.len() < 6 => self.others.push(other),
            _ => {}
        }
    }
}
