//! The host's client, by a driver: a filter over blocks that never cross the link, payloads by several methods, and what outlives what.

use super::{MEMORY, MEMORY_BYTES, OTHER, PROGRAMS, config};
use crate::fixture::{NS_4K, TestHost};
use byteway_clock::{Delay, Executor};
use byteway_device::TransferConfig;
use byteway_flash::Medium;
use byteway_host::{
    Data, Driver, DriverConfig, Execution, Method, Port, ProgramsClient, ProgramsError, QueueConfig, Rules,
};
use byteway_program::assemble::*;
use byteway_program::instruction::{Instruction, alu, jump, size};
use byteway_program::memory::range_address;
use byteway_testkit::SmallWorld;
use byteway_wire::nvme::programs::{self, MemoryRange};
use byteway_wire::nvme::slm::{self, BlocksRange, BytesRange};
use byteway_wire::nvme::vendor::Methods;
use byteway_wire::nvme::{FormatNvm, NamespaceManagement, NvmOpcode, ReadWrite, Sanitize, Status};

/// Namespace Management and Attachment: a memory namespace of `bytes`.
pub(super) async fn create_memory(host: &TestHost, bytes: u64) -> u32 {
    let mut wanted = vec![0; 4096];
    wanted[..8].copy_from_slice(&bytes.to_le_bytes());
    let create = NamespaceManagement { sel: NamespaceManagement::CREATE, csi: slm::CSI };
    let page = host.holding(&wanted);
    let nsid = host.succeed(create.sqe(0, 0).with_prp(page, 0)).await;
    host.succeed(host.attach_sqe(nsid, true)).await;
    nsid
}

/// Runs `test` with the driver of a drive over `medium`, or of a new one, until the power goes.
fn run<T: 'static>(medium: Option<Medium>, test: impl AsyncFnOnce(Driver) -> T + 'static) -> (T, Medium) {
    let executor = Executor::new();
    let mut drive = config();
    drive.transfer = TransferConfig {
        methods: Methods::new().with_inline(true),
        inline_bytes_max: 8192,
        ..TransferConfig::default()
    };
    let powered = SmallWorld { medium, ..SmallWorld::of(drive) }.power_on(executor.clock());
    let finished = executor.run(async move {
        let port = Port::Link(powered.host.clone());
        let driver = Driver::attach(port, DriverConfig::default()).await.expect("a controller");
        let result = test(driver.clone()).await;
        assert_eq!(driver.protocol_errors(), 0);
        (result, powered.power_off())
    });
    finished.unwrap_or_else(|stalled| panic!("{stalled}"))
}

async fn client(driver: &Driver, method: Method) -> ProgramsClient {
    let queue = driver.create_queue_pair(QueueConfig::new(256)).await.expect("a queue");
    driver.enable_methods(&queue, Methods::new().with_inline(true)).await.expect("it is offered");
    ProgramsClient::new(driver, queue, PROGRAMS, Rules::only(method), 128 << 10)
}

/// Counts the rows of the first range, of 16 bytes, whose first word is below R3, and copies them to the second range; returns how many.
fn filter() -> Vec<Instruction> {
    let [r0, r1] = wide(R6, range_address(0));
    let [r2, r3] = wide(R7, range_address(1));
    vec![
        mov(R9, R3),
        mov(R8, 0),
        mov(R1, 0),
        call(byteway_program::verify::RANGE_BYTES),
        r0,
        r1,
        r2,
        r3,
        alu64(alu::ADD, R0, R6), // the end
        jump(jump::GE, R6, R0, 9),
        load(size::DOUBLE, R1, R6, 0),
        jump(jump::GE, R1, R9, 5),
        load(size::DOUBLE, R2, R6, 8),
        store(size::DOUBLE, R7, 0, R1),
        store(size::DOUBLE, R7, 8, R2),
        alu64(alu::ADD, R7, 16),
        alu64(alu::ADD, R8, 1),
        alu64(alu::ADD, R6, 16),
        goto(-10),
        mov(R0, R8),
        exit(),
    ]
}

// Purpose of the whole: the selected rows reach the host, and the blocks stay on the drive.
#[test]
fn a_filter_over_blocks_moves_only_its_rows() {
    run(None, async |driver| {
        let rows: Vec<[u64; 2]> = (0..2048).map(|row| [row * 7919 % 2048, row]).collect();
        let bytes: Vec<u8> = rows.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
        let client = client(&driver, Method::Prp).await;
        let queue = driver.create_queue_pair(QueueConfig::new(64)).await.expect("a queue");
        // 8 blocks of 4 KiB, written as any.
        let memory = driver.port().memory().clone();
        for (block, part) in (0..).zip(bytes.chunks(4096)) {
            let page = memory.allocate(1).expect("memory");
            memory.write(page, part).expect("memory");
            let write = ReadWrite { slba: block, ..ReadWrite::default() };
            let cqe = queue.execute(write.sqe(NvmOpcode::WRITE, 0, NS_4K).with_prp(page, 0)).await;
            assert_eq!(cqe.expect("a completion").status(), Status::SUCCESS);
        }
        let from = BlocksRange { snsid: NS_4K, slba: 0, nlb_z: 7, ..BlocksRange::default() };
        client.copy_blocks(MEMORY, 0, 32 << 10, &[from]).await.expect("a copy");
        client.load(1, 42, &assemble(&filter())).await.expect("a program");
        // An interrupted host finds the program that it has left by its identifier.
        assert_eq!(client.find(42).await.expect("the list"), [(1, false)]);
        assert_eq!(client.find(41).await.expect("the list"), []);
        client.activate(1, true).await.expect("activated");
        let ranges = [MemoryRange::new(MEMORY, 0, 32 << 10), MemoryRange::new(MEMORY, 64 << 10, 32 << 10)];
        let set = client.create_set(&ranges).await.expect("a set");
        let execution = Execution { program: 1, set, numbers: [20, 0], ..Execution::default() };
        assert_eq!(client.execute(&execution).await, Ok(20));
        let mut found = vec![0; 20 * 16];
        client.read(MEMORY, 64 << 10, &mut found).await.expect("the rows");
        let expected: Vec<u8> =
            rows.iter().filter(|row| row[0] < 20).flatten().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(found, expected);
        // All of them.
        let all = Execution { numbers: [u64::MAX, 0], ..execution };
        assert_eq!(client.execute(&all).await, Ok(2048));
    });
}

// The same commands, whatever way their payload goes; a long program in pieces.
#[test]
fn every_call_works_by_pointer_and_inline() {
    for method in [Method::Prp, Method::Inline] {
        run(None, async move |driver| {
            let client = client(&driver, method).await;
            let mut long = vec![mov(R2, 1); 1500];
            long.extend([load(size::BYTE, R0, R1, 3), exit()]);
            let program = assemble(&long);
            client.load(0, 1, &program).await.expect("a program of 12 KB");
            client.activate(0, true).await.expect("activated");
            for bytes in [4, 64, 4096, 8000] {
                let payload: Vec<u8> = (0..bytes).map(|at| (at % 255) as u8).collect();
                client.write(MEMORY, 400, &payload).await.expect("written");
                let copied = BytesRange { snsid: MEMORY, start: 400, bytes, ..BytesRange::default() };
                client.copy_bytes(OTHER, 8, &[copied]).await.expect("copied");
                let mut back = vec![0; bytes as usize];
                client.read(OTHER, 8, &mut back).await.expect("read");
                assert_eq!(back, payload);
            }
            client.fill(OTHER, 8, 64).await.expect("filled");
            let mut back = [1; 64];
            client.read(OTHER, 8, &mut back).await.expect("read");
            assert_eq!(back, [0; 64]);
            let ranges = [MemoryRange::new(MEMORY, 0, 64)];
            let execution =
                Execution { ranges: &ranges, parameters: &[5, 6, 7, 8, 9], ..Execution::default() };
            assert_eq!(client.execute(&execution).await, Ok(8));
            // Too few parameters: the program reads beyond them.
            let short = Execution { parameters: &[5, 6, 7], ..execution };
            let stopped = ProgramsError::Stopped { at: 1500, status: Status::PROGRAM_TRAP.with_dnr() };
            assert_eq!(client.execute(&short).await, Err(stopped));
            assert!(matches!(client.execute(&Execution { program: 9, ..execution }).await,
                Err(ProgramsError::Status { status, .. }) if status.is(Status::INVALID_PROGRAM_INDEX)));
            client.activate(0, false).await.expect("deactivated");
            client.unload(0).await.expect("unloaded");
            let missing = client.unload(0).await.expect_err("it is gone");
            assert!(missing.to_string().contains("No Program"), "{missing}");
        });
    }
}

/// Whether memory and programs are as new.
async fn is_new(client: &ProgramsClient) -> bool {
    let mut bytes = [1; 16];
    client.read(MEMORY, 0, &mut bytes).await.expect("read");
    let has_program = client.execute(&Execution::default()).await.is_ok();
    assert_eq!(bytes == [0; 16], !has_program, "both are kept, or neither");
    !has_program
}

async fn fill_in(client: &ProgramsClient) {
    client.write(MEMORY, 0, &[7; 16]).await.expect("written");
    client.load(0, 1, &assemble(&[exit()])).await.expect("loaded");
    client.activate(0, true).await.expect("activated");
}

// Volatile state must be discarded by a power cut and by commands that erase; a reset, which a host issues
// for any reason, must keep it.
#[test]
fn resets_keep_it_and_erasures_and_power_cuts_do_not() {
    let (_, medium) = run(None, async |driver| {
        let client = client(&driver, Method::Prp).await;
        assert!(is_new(&client).await);
        fill_in(&client).await;
        driver.reset().await.expect("a controller that comes back");
        assert!(!is_new(&client).await);
        let admin = async |sqe| {
            let cqe = driver.admin(sqe, Data::None).await.expect("a completion");
            assert_eq!(cqe.status(), Status::SUCCESS);
        };
        for nsid in [MEMORY, PROGRAMS] {
            admin(FormatNvm::default().sqe(0, nsid)).await;
        }
        assert!(is_new(&client).await, "formatted");
        fill_in(&client).await;
        admin(Sanitize { sanact: Sanitize::BLOCK_ERASE, ..Sanitize::default() }.sqe(0)).await;
        driver.clock().sleep(Delay::from_s(1)).await;
        assert!(is_new(&client).await, "sanitized");
        fill_in(&client).await;
    });
    run(Some(medium), async |driver| {
        let client = client(&driver, Method::Prp).await;
        assert!(is_new(&client).await, "another life");
        assert_eq!(driver.namespaces_of(slm::CSI).await, Ok(vec![MEMORY, OTHER]));
        assert_eq!(driver.namespaces_of(programs::CSI).await, Ok(vec![PROGRAMS]));
    });
}

// Memory namespaces come and go as any other, within what the drive has of memory.
#[test]
fn memory_namespaces_are_created_within_the_drives_memory() {
    super::bench().with_queue(async |host, pair| {
        let wanted = |bytes: u64| {
            let mut page = vec![0; 4096];
            page[..8].copy_from_slice(&bytes.to_le_bytes());
            let create = NamespaceManagement { sel: NamespaceManagement::CREATE, csi: slm::CSI };
            create.sqe(0, 0).with_prp(host.holding(&page), 0)
        };
        host.succeed(crate::fixture::management::delete(NS_4K)).await; // for its units
        host.refused(wanted(0), Status::INVALID_FIELD).await;
        // 2 MiB in all, of which two have 1088 KiB.
        host.refused(wanted((960 << 10) + 1), Status::INVALID_FIELD).await;
        let nsid = create_memory(&host, 960 << 10).await;
        host.refused(wanted(1), Status::INVALID_FIELD).await;
        assert_eq!(super::write(&host, &pair, nsid, (960 << 10) - 4, &[1; 4]).await, Status::SUCCESS);
        host.succeed(crate::fixture::management::delete(MEMORY)).await;
        let nsid = create_memory(&host, MEMORY_BYTES).await;
        assert_eq!(super::read(&host, &pair, nsid, 0, 4096).await, vec![0; 4096]);
    });
}
