//! A command set of its own, plugged in: into the device and into what jobs ask by a module and a line each, into the host by a
//! client that is made of what the host crate shows of itself.

mod client;

use crate::fixture::{NS_4K, NS_512, drive_config};
use byteway_clock::random::Rng;
use byteway_clock::{Delay, Executor};
use byteway_device::controller::command_set::echo::{BYTES_MAX, CSI, GET, PUT};
use byteway_device::{DriveConfig, NamespaceConfig, TransferConfig};
use byteway_flash::Medium;
use byteway_host::{Data, Driver, DriverConfig, IoError, Method, Port, QueueConfig, QueuePair};
use byteway_testkit::SmallWorld;
use byteway_wire::nvme::command::FUSE_SECOND;
use byteway_wire::nvme::vendor::{Methods, inline_descriptor};
use byteway_wire::nvme::{
    ControllerList, FormatNvm, NamespaceAttachment, NamespaceManagement, NvmOpcode, Sanitize, Sqe, Status,
    VendorOpcode,
};
use byteway_wire::{IntoBytes, nvme};
use byteway_workload::echo::{EchoGenerator, EchoOp, EchoPlan};
use byteway_workload::{JobPlan, Source};
use client::{EchoClient, EchoError};

const ECHO: u32 = 3;
const ECHO_UNITS: u64 = 256;
const JOB: EchoPlan = EchoPlan { numbers: 40, bytes_max: BYTES_MAX, put_percent: 50 };

fn config() -> DriveConfig {
    let mut config = drive_config();
    config.namespaces.push(NamespaceConfig::echo(ECHO_UNITS));
    config.transfer = TransferConfig {
        methods: Methods::new().with_inline(true),
        inline_bytes_max: 1024,
        ..TransferConfig::default()
    };
    config
}

/// Runs `test` with the driver of a drive over `medium`, or of a new one, until the power is cut: when the test ends.
fn run<T: 'static>(medium: Option<Medium>, test: impl AsyncFnOnce(Driver) -> T + 'static) -> (T, Medium) {
    let executor = Executor::new();
    let powered = SmallWorld { medium, ..SmallWorld::of(config()) }.power_on(executor.clock());
    let finished = executor.run(async move {
        let port = Port::Link(powered.host.clone());
        let driver = Driver::attach(port, DriverConfig::default()).await.expect("a controller");
        let result = test(driver.clone()).await;
        assert_eq!(driver.protocol_errors(), 0);
        (result, powered.power_off())
    });
    finished.unwrap_or_else(|stalled| panic!("{stalled}"))
}

async fn queue(driver: &Driver) -> QueuePair {
    let queue = driver.create_queue_pair(QueueConfig::new(64)).await.expect("a queue");
    let inline = Methods::new().with_inline(true);
    assert_eq!(driver.enable_methods(&queue, inline).await, Ok(inline));
    queue
}

/// Plays a job of `count` operations.
async fn play(client: &EchoClient, name: &str, count: u64) {
    let job = JobPlan { settings: JOB.settings(name, count), source: Source::Echo(JOB) };
    assert_eq!((job.command_count(), job.has_verbs()), (Some(count), true));
    let mut buffer = client.buffer().expect("memory");
    let mut played = 0;
    for op in EchoGenerator::new(&job, &JOB, 0, &Rng::new(7)) {
        let done = match op {
            EchoOp::Put { number, bytes } => client.put(&mut buffer, number, bytes).await,
            EchoOp::Get { number } => client.get(&mut buffer, number).await,
            EchoOp::Count => client.count().await,
        };
        let span = done.unwrap_or_else(|error| panic!("{op:?}: {error}"));
        assert!(span.last > span.begin && span.stages.iter().any(|stage| stage.0 > 0));
        played += 1;
    }
    assert_eq!(played, count);
}

// Whatever of a set is woven into what all sets share, a set that comes new has to be woven in again.
#[test]
fn a_job_of_echoes_is_verified_over_a_reset_and_a_power_cut() {
    let (_, medium) = run(None, async |driver| {
        assert_eq!(driver.namespaces_of(CSI).await, Ok(vec![ECHO]));
        let id = driver.identify_namespace(CSI, ECHO).await.expect("Identify");
        assert_eq!(id[..8], (ECHO_UNITS * 64).to_le_bytes());
        let blocks: Vec<u32> = driver.namespaces().iter().map(|namespace| namespace.nsid).collect();
        assert_eq!(blocks, [NS_512, NS_4K]);
        let client = EchoClient::new(queue(&driver).await, ECHO, Method::Prp);
        play(&client, "before", 400).await;
        assert!(client.counts().of(Method::Prp) > 100 && client.counts().of(Method::Inline) == 0);
        let held = client.held();
        assert!(held > 20, "{held}");

        driver.reset().await.expect("a reset");
        client.count().await.expect("a reset keeps what was put");
        let inline = EchoClient::sharing(queue(&driver).await, &client, Method::Inline);
        play(&inline, "after", 400).await;
        assert!(inline.counts().of(Method::Inline) > 100, "a payload goes by any method");
        play(&client, "again", 100).await;

        // The power is cut while puts are on their way.
        let clock = driver.clock().clone();
        clock.spawn("puts", async move {
            let mut buffer = client.buffer().expect("memory");
            while client.put(&mut buffer, 3, 64).await.is_ok() {}
        });
        clock.sleep(Delay::from_us(100)).await;
    });
    run(Some(medium), async |driver| {
        assert_eq!(driver.namespaces_of(CSI).await, Ok(vec![ECHO]), "the namespace survives a power cut");
        let client = EchoClient::new(queue(&driver).await, ECHO, Method::Prp);
        client.count().await.expect("and has nothing in it");
        play(&client, "later", 200).await;
    });
}

// A client's own errors are as good as those of the host crate: what it says, and what that means.
#[test]
fn a_wrong_echo_is_a_mismatch() {
    run(None, async |driver| {
        let client = EchoClient::new(queue(&driver).await, ECHO, Method::Prp);
        let mut buffer = client.buffer().expect("memory");
        client.put(&mut buffer, 5, 20).await.expect("a put");
        client.expect(5, b"something else");
        let error = client.get(&mut buffer, 5).await.expect_err("a mismatch");
        assert_eq!(error, IoError::Client(EchoError::Mismatch { number: 5 }));
        let any = byteway_host::AnyIoError::from(error);
        let IoError::Client(any) = any else { panic!("{any}") };
        assert_eq!(any.kind, byteway_host::ClientErrorKind::WrongData);
    });
}

// Invalid input of a host must not crash the drive.
#[test]
fn what_is_wrong_gets_a_status() {
    run(None, async |driver| {
        let client = EchoClient::new(queue(&driver).await, ECHO, Method::Prp);
        let memory = driver.port().memory().clone();
        let page = memory.allocate(1).expect("memory");
        let hole = memory.allocate(2).expect("memory");
        memory.free(hole, 2);
        let command = |opcode: VendorOpcode, number, bytes| {
            Sqe { cdw10: number, cdw11: bytes, ..Sqe::new(opcode, 0, ECHO) }.with_prp(page, 0)
        };
        let put = |number, bytes| command(PUT, number, bytes);
        let elsewhere = |nsid| Sqe { nsid, ..put(0, 8) };
        let refused = |status: Status| status.with_dnr();
        let numbers = (ECHO_UNITS * 64) as u32;
        for (what, sqe, status) in [
            ("no command of any set", command(VendorOpcode(0xC9), 0, 8), refused(Status::INVALID_OPCODE)),
            ("a Read", Sqe::new(NvmOpcode::READ, 0, ECHO).with_prp(page, 0), refused(Status::INVALID_OPCODE)),
            ("of blocks", elsewhere(NS_512), refused(Status::INVALID_OPCODE)),
            ("of no namespace", elsewhere(77), refused(Status::INVALID_FIELD)),
            ("of no identifier", elsewhere(0), refused(Status::INVALID_NAMESPACE)),
            ("no bytes", put(0, 0), refused(Status::INVALID_FIELD)),
            ("a byte too many", put(0, BYTES_MAX + 1), refused(Status::INVALID_FIELD)),
            ("4 GiB", put(0, u32::MAX), refused(Status::INVALID_FIELD)),
            ("a number too high", put(numbers, 8), refused(Status::LBA_OUT_OF_RANGE)),
            ("the highest of all", put(u32::MAX, 8), refused(Status::LBA_OUT_OF_RANGE)),
            ("what was not put", command(GET, 9, 8), refused(Status::KEY_DOES_NOT_EXIST)),
            ("half of a fused operation", put(0, 8).with_fuse(FUSE_SECOND), Status::ABORTED_MISSING_FUSED),
            ("no memory", put(0, 8).with_prp(hole, 0), Status::DATA_TRANSFER_ERROR),
            (
                "a train without entries",
                put(0, 8).with_sgl(inline_descriptor(0)),
                refused(Status::DATA_SGL_LENGTH_INVALID),
            ),
        ] {
            let completed = client.queue().execute(sqe).await.expect("a completion");
            assert_eq!(completed.status(), status, "{what}");
        }
        client.count().await.expect("nothing was put");
        play(&client, "still", 50).await;
    });
}

async fn admin(driver: &Driver, sqe: Sqe, data: Data<'_>) -> u32 {
    let completed = driver.admin(sqe, data).await.expect("a completion");
    assert_eq!(completed.status(), Status::SUCCESS);
    completed.dw0
}

// A set's state of a namespace must live as long as the namespace, and no longer.
#[test]
fn namespaces_of_echoes_live_and_end() {
    let (_, medium) = run(None, async |driver| {
        let manage = |sel, csi| NamespaceManagement { sel, csi };
        admin(&driver, manage(NamespaceManagement::DELETE, 0).sqe(0, NS_4K), Data::None).await;
        let mut wanted = vec![0; nvme::NamespaceManagement::BYTES as usize];
        let create = manage(NamespaceManagement::CREATE, CSI).sqe(0, 0);
        let refused = driver.admin(create, Data::Out(&wanted)).await.expect("a completion");
        assert_eq!(refused.status(), Status::INVALID_FIELD.with_dnr(), "no units");
        wanted[..8].copy_from_slice(&512_u64.to_le_bytes());
        let made = admin(&driver, create, Data::Out(&wanted)).await;
        let attach = NamespaceAttachment { sel: NamespaceAttachment::ATTACH }.sqe(0, made);
        admin(&driver, attach, Data::Out(ControllerList::from(0, [1]).as_bytes())).await;
        assert_eq!(driver.namespaces_of(CSI).await, Ok(vec![made, ECHO]));

        let queue = queue(&driver).await;
        let [first, second] = [ECHO, made].map(|nsid| EchoClient::new(queue.clone(), nsid, Method::Prp));
        play(&first, "first", 100).await;
        play(&second, "second", 100).await;
        first.count().await.expect("each has its own");
        admin(&driver, FormatNvm::default().sqe(0, made), Data::None).await;
        second.forget();
        second.count().await.expect("a format takes all");
        first.count().await.expect("of its own namespace");

        let sanitize = Sanitize { sanact: Sanitize::BLOCK_ERASE, ..Sanitize::default() };
        admin(&driver, sanitize.sqe(0), Data::None).await;
        driver.clock().sleep(Delay::from_s(1)).await;
        first.forget();
        first.count().await.expect("a sanitize operation takes all");
        play(&first, "anew", 100).await;
        admin(&driver, manage(NamespaceManagement::DELETE, 0).sqe(0, ECHO), Data::None).await;
        let gone = first.count().await.expect_err("there is no such namespace");
        assert_eq!(gone, IoError::Status(Status::INVALID_FIELD.with_dnr()));
    });
    run(Some(medium), async |driver| {
        let left = driver.namespaces_of(CSI).await.expect("Identify");
        assert_eq!(left, [2], "the record has what is left");
    });
}
