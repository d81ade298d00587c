//! A small drive that is served in a thread, and clients for it.

use byteway_clock::Timing;
use byteway_content::BlockSize;
use byteway_device::{ControllerConfig, DriveConfig, NamespaceConfig, SiteConfig, TransferConfig};
use byteway_firmware::{Cycles, Defect};
use byteway_flash::Geometry;
use byteway_serve::drive::{Access, ServeError, Setup, Stop, serve};
use byteway_serve::function::Doorbells;
use byteway_serve::report::Report;
use byteway_serve::vfio_user::Client;
use byteway_serve::vfio_user::channel::{ANSWER_LIMIT, Gone, Message};
use byteway_serve::vfio_user::message::{Command, Header};
use byteway_wire::nvme::vendor::Methods;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub const BAR0: u32 = 0;
pub const CONFIG: u32 = 7;
pub const MSIX: u32 = 2;
pub const VECTORS: u32 = 5;
pub const PAGE: u64 = 4096;

pub const EINVAL: i32 = 22;
pub const EEXIST: i32 = 17;
pub const ENOENT: i32 = 2;
pub const ENOTSUP: i32 = 95;
pub const EBUSY: i32 = 16;

/// Offset of the payload buffer in BAR0, if there is one.
pub const BUFFER: u64 = 64 << 10;
/// Length of the payload buffer.
pub const BUFFER_BYTES: u32 = 8192;

fn drive(buffer_bytes: u32) -> DriveConfig {
    let small = byteway_testkit::drive_config();
    DriveConfig {
        controller: ControllerConfig {
            io_queues_max: 4,
            queue_entries_max: 256,
            command_slots: 16,
            fetch_outstanding: 1,
            vectors: VECTORS as u16,
            ..small.controller
        },
        transfer: TransferConfig {
            methods: Methods::new().with_mmio(buffer_bytes > 0),
            bar_bytes: buffer_bytes,
            ..TransferConfig::default()
        },
        site: SiteConfig { cores: 1, cycles: Cycles::FREE, ..small.site },
        geometry: Geometry { channels: 1, blocks: 16, ..small.geometry },
        namespaces: vec![NamespaceConfig::blocks(4096, BlockSize::B4096)],
        ..small
    }
}

/// A drive that is served until the end of the test.
pub struct Served {
    pub directory: tempfile::TempDir,
    stop: Stop,
    thread: Option<JoinHandle<Result<Report, ServeError>>>,
}

impl Served {
    pub fn new() -> Self {
        Self::with(Doorbells::Mapped)
    }

    pub fn with(doorbells: Doorbells) -> Self {
        Self::of(doorbells, 0)
    }

    /// A drive with a payload buffer.
    pub fn buffered() -> Self {
        Self::of(Doorbells::Mapped, BUFFER_BYTES)
    }

    /// A drive whose shutdown never completes.
    pub fn broken(doorbells: Doorbells) -> Self {
        let mut config = drive(0);
        config.ftl.defect = Defect::StallShutdown.into();
        Self::serving(doorbells, config)
    }

    fn of(doorbells: Doorbells, buffer_bytes: u32) -> Self {
        Self::serving(doorbells, drive(buffer_bytes))
    }

    fn serving(doorbells: Doorbells, drive: DriveConfig) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let stop = Stop::new().unwrap();
        let (said, ready) = std::sync::mpsc::channel();
        let (own_stop, socket) = (stop.clone(), directory.path().join("cntrl"));
        let thread = std::thread::spawn(move || {
            let setup = Setup {
                name: "test".into(),
                drive,
                link: byteway_testkit::link_config(),
                timing: Timing::None,
                access: vec![Access::VfioUser { socket, doorbells, rest: byteway_serve::front::REST }],
                data: None,
                watch: None,
            };
            serve(setup, &own_stop, move |_| said.send(()).unwrap())
        });
        let served = Served { directory, stop, thread: Some(thread) };
        if ready.recv().is_err() {
            served.end();
            panic!("the drive is not served");
        }
        served
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("cntrl")
    }

    pub fn client(&self) -> Client {
        Client::connect(self.directory.path()).unwrap()
    }

    /// A client that has sent nothing yet.
    pub fn stranger(&self) -> Client {
        Client::unversioned(&self.socket()).unwrap()
    }

    /// Checks that the drive still works: a client attaches, reads, maps and disconnects.
    pub fn is_well(&self) {
        let client = eventually(|| Client::connect(&self.socket()).ok());
        let mut class = [0; 4];
        client.region_read(CONFIG, 8, &mut class).unwrap();
        assert_eq!(class[1..], [2, 8, 1]);
        let file = memfd(PAGE);
        client.dma_map(0x1000, PAGE, Some((&file, 0)), true).unwrap();
        client.dma_unmap(0x1000, PAGE).unwrap();
    }

    /// Stops the service.
    pub fn stop(&self) {
        self.stop.stop();
    }

    /// Waits until the service has ended by itself.
    pub fn ended(mut self) -> Result<Report, ServeError> {
        self.thread.take().unwrap().join().unwrap()
    }

    /// Stops the service; returns its report.
    pub fn end(mut self) -> Report {
        self.stop.stop();
        self.thread.take().unwrap().join().unwrap().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let result = thread.join();
            if !std::thread::panicking() {
                result.unwrap().unwrap();
            }
        }
    }
}

/// Retries until there is a result, for a limited time.
pub fn eventually<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < end, "it has not happened within 10 s");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn memfd(bytes: u64) -> File {
    let file = File::from(memfd_create("byteway-test", MemfdFlags::CLOEXEC).unwrap());
    file.set_len(bytes).unwrap();
    file
}

pub fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()
}

/// Number of signals of an eventfd since the last call.
pub fn count(event: &OwnedFd) -> u64 {
    let mut bytes = [0; 8];
    match rustix::io::read(event, &mut bytes) {
        Ok(_) => u64::from_ne_bytes(bytes),
        Err(_) => 0,
    }
}

/// Sends a request and returns the reply, even an error. `None`: the connection is closed.
pub fn exchange(
    client: &Client,
    command: Command,
    parts: &[&[u8]],
    files: &[BorrowedFd<'_>],
) -> Option<Message> {
    client.channel().ask(command, parts, files, |_| Ok(())).ok()
}

/// The errno of the reply to a request; 0: success.
pub fn errno(client: &Client, command: Command, parts: &[&[u8]], files: &[BorrowedFd<'_>]) -> i32 {
    let answer = exchange(client, command, parts, files).expect("it is answered");
    assert_eq!(answer.header.has(Header::ERROR), answer.header.error.get() != 0);
    if answer.header.has(Header::ERROR) {
        assert!(answer.payload.is_empty(), "an error is a header alone");
    }
    answer.header.error.get() as i32
}

/// Whether the server closes the connection within its limit.
pub fn is_dropped(client: &Client) -> bool {
    match client.channel().wait_for(ANSWER_LIMIT, |_| Ok(None::<()>)) {
        Ok(_) => false,
        Err(why) => why == Gone::Closed,
    }
}

/// Waits until a descriptor is readable.
pub fn wait_readable(descriptor: &OwnedFd) {
    let limit = Timespec { tv_sec: 5, tv_nsec: 0 };
    assert!(poll(&mut [PollFd::new(descriptor, PollFlags::IN)], Some(&limit)).unwrap() > 0);
}

pub fn exists(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}
