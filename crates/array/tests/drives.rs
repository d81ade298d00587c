//! Whole drives at links as members, with a controller in front: the view of the array's host.

use byteway_array::{Array, ArrayConfig, Initial, Level, SlotState};
use byteway_clock::random::Rng;
use byteway_clock::{Clock, Delay, Executor, Rate};
use byteway_content::{BlockSize, Keep};
use byteway_device::{Backing, DriveConfig, NamespaceConfig};
use byteway_firmware::{Cycles, Placement, Site, WorkKind};
use byteway_host::{
    BaseState, Client, ClientConfig, Driver, DriverConfig, MemberConfig, MemberDrive, Method, Oracle,
    PointerKind, Port, QueueConfig, Rules,
};
use byteway_link::Memory;
use byteway_testkit::{SmallWorld, drive_config, link_config};
use byteway_wire::nvme::{NvmOpcode, ReadWrite, Sanitize, Status};
use byteway_world::{DriveBay, PoweredDrive};
use std::cell::RefCell;
use std::rc::Rc;

fn member_config(block: BlockSize) -> DriveConfig {
    let namespaces = vec![NamespaceConfig::blocks(8192, block)];
    DriveConfig { namespaces, keep: Keep::Stamps, ..drive_config() }
}

/// A drive, its driver, and the drive as a member.
async fn member(
    clock: &Clock,
    config: DriveConfig,
    medium: Option<byteway_flash::Medium>,
) -> (PoweredDrive, Driver, MemberDrive) {
    let powered = SmallWorld { medium, ..SmallWorld::of(config) }.power_on(clock);
    let driver = Driver::attach(Port::Link(powered.host.clone()), DriverConfig::default()).await.unwrap();
    let queue = driver.create_queue_pair(QueueConfig::new(64)).await.unwrap();
    let config =
        MemberConfig { lanes: 16, pointer: PointerKind::Prp, keep: Keep::Stamps, name: "member".into() };
    let member = MemberDrive::open(&driver, queue, config).unwrap().expect("a block namespace");
    (powered, driver, member)
}

fn placement(clock: &Clock) -> Placement {
    let site = Site::new(clock, 2, 3_000_000_000, Delay::ZERO, Rate::per_second(1 << 34));
    Placement::all_at(&site, Cycles::FREE.with(WorkKind::Stripe, 300).with(WorkKind::Parity, 700))
}

fn array_config(level: Level) -> ArrayConfig {
    ArrayConfig::new(level, 16, *b"sixteen letters.", Keep::Stamps)
}

/// A controller in front of the array, and its host's driver.
async fn front(clock: &Clock, array: &Array, behind: Vec<PoweredDrive>) -> (PoweredDrive, Driver) {
    let bay = DriveBay::new(clock, link_config(), Memory::simulated());
    let namespaces =
        vec![NamespaceConfig::blocks(1024, BlockSize::B512), NamespaceConfig::blocks(4096, BlockSize::B4096)];
    let config = DriveConfig { namespaces, keep: Keep::Stamps, ..drive_config() };
    let placement = placement(clock);
    let site = placement.site(WorkKind::Parse).clone();
    let powered = bay.power_on_over(config, site, placement, array.clone(), behind).expect("a front");
    let driver = Driver::attach(Port::Link(powered.host.clone()), DriverConfig::default()).await.unwrap();
    (powered, driver)
}

fn oracle(blocks: u64, block: BlockSize, tag: u16) -> Rc<RefCell<Oracle>> {
    Rc::new(RefCell::new(Oracle::new(blocks, block, tag, BaseState::Zeroes)))
}

async fn client(driver: &Driver, namespace: usize, oracle: &Rc<RefCell<Oracle>>) -> Client {
    let queue = driver.create_queue_pair(QueueConfig::new(64)).await.unwrap();
    let oracle = Some(oracle.clone());
    let config =
        ClientConfig { rules: Rules::only(Method::Prp), bytes_max: 128 << 10, oracle, verify_bytes: true };
    Client::new(queue, driver.namespaces()[namespace], config).unwrap()
}

/// Random I/O over the first blocks of a namespace, each read verified.
async fn exercise(client: &Client, seed: u64, ios: u32) {
    let mut chance = Rng::new(seed).stream("I/O");
    let (mut buffer, mut other) = (client.buffer().unwrap(), client.buffer().unwrap());
    let block_bytes = client.namespace().block_bytes;
    for _ in 0..ios {
        let lba = chance.below(2000);
        let blocks = 1 + chance.below(u64::from((100 << 10) / block_bytes)) as u32;
        match chance.below(12) {
            0..5 => client.write(&mut buffer, lba, blocks).await.map(drop),
            5 => client.write_fua(&mut buffer, lba, 1).await.map(drop),
            6 => client.write_zeroes(lba, blocks, true).await.map(drop),
            7 => client.compare_and_write(&mut buffer, &mut other, lba, 1).await.map(drop),
            8 => client.flush().await.map(drop),
            _ => client.read(&mut buffer, lba, blocks).await.map(drop),
        }
        .unwrap_or_else(|error| panic!("seed {seed}, block {lba}, {blocks} blocks: {error}"));
    }
}

async fn read_back(client: &Client) {
    let mut buffer = client.buffer().unwrap();
    for lba in (0..2040).step_by(8) {
        client.read(&mut buffer, lba, 8).await.unwrap_or_else(|error| panic!("block {lba}: {error}"));
    }
}

// The array must be a drive to its host: the whole protocol, blocks smaller than units, a member that is
// removed, and power cuts.
#[test]
fn an_array_of_drives_is_a_drive() {
    for (level, count, block) in [
        (Level::Raid0, 2, BlockSize::B4096),
        (Level::Raid1, 2, BlockSize::B512),
        (Level::Raid5, 4, BlockSize::B4096),
        (Level::Raid10, 4, BlockSize::B4096),
    ] {
        let oracles = [oracle(1024 * 8, BlockSize::B512, 1), oracle(4096, BlockSize::B4096, 2)];
        let mut media: Vec<Option<byteway_flash::Medium>> = (0..count).map(|_| None).collect();
        for life in 0..2 {
            let executor = Executor::new();
            let clock = executor.clock().clone();
            let (oracles, taken) = (oracles.clone(), std::mem::take(&mut media));
            media = executor
                .run(async move {
                    let (mut drives, mut drivers, mut members) = (Vec::new(), Vec::new(), Vec::new());
                    for medium in taken {
                        let (drive, driver, one) = member(&clock, member_config(block), medium).await;
                        drives.push(drive);
                        drivers.push(driver);
                        members.push(one);
                    }
                    let (placed, config) = (placement(&clock), array_config(level));
                    let array = match life {
                        0 => Array::create(&clock, placed, config, members, Initial::Zeroed).await,
                        _ => Array::assemble(&clock, placed, config, members).await,
                    }
                    .expect("an array");
                    let (powered, driver) = front(&clock, &array, drives).await;
                    let small = client(&driver, 0, &oracles[0]).await;
                    let large = client(&driver, 1, &oracles[1]).await;
                    if life == 1 {
                        read_back(&small).await;
                        read_back(&large).await;
                    }
                    exercise(&small, 1 + life, 60).await;
                    exercise(&large, 5 + life, 60).await;
                    if level.is_redundant() && life == 1 {
                        // As if it were pulled: its driver fails all commands.
                        drivers[1].shutdown().await.ok();
                        exercise(&small, 11, 30).await;
                        exercise(&large, 12, 30).await;
                        assert_eq!(array.state().slots[1].0, SlotState::Failed);
                        let (spare, _driver, one) = member(&clock, member_config(block), None).await;
                        assert_eq!(array.add_spare(one).await, Ok(1));
                        while array.state().is_degraded() {
                            exercise(&large, 13, 3).await;
                            clock.sleep(Delay::from_ms(1)).await;
                        }
                        array.remove(0).await;
                        read_back(&small).await;
                        read_back(&large).await;
                        drop(spare);
                    }
                    read_back(&small).await;
                    read_back(&large).await;
                    driver.shutdown().await.expect("it shuts down");
                    assert!(powered.drive.controller.is_quiet());
                    assert_eq!(powered.drive.controller.backing().locked(), 0);
                    powered.power_off_all().into_iter().map(Some).collect::<Vec<_>>()
                })
                .unwrap_or_else(|stalled| panic!("{stalled}"));
            assert_eq!(media.len(), count, "a medium of each member");
        }
    }
}

// Features that an array lacks must not be advertised, and must be refused; configurations that need flash of
// their own are refused with the reason.
#[test]
fn what_needs_flash_of_its_own_is_neither_offered_nor_possible() {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    executor
        .run(async move {
            let (mut drives, mut members) = (Vec::new(), Vec::new());
            for _ in 0..3 {
                let (drive, _driver, one) = member(&clock, member_config(BlockSize::B4096), None).await;
                drives.push(drive);
                members.push(one);
            }
            let config = array_config(Level::Raid5);
            let array =
                Array::create(&clock, placement(&clock), config, members, Initial::Zeroed).await.unwrap();
            let refused = |config: DriveConfig| {
                let bay = DriveBay::new(&clock, link_config(), Memory::simulated());
                let placement = placement(&clock);
                let site = placement.site(WorkKind::Parse).clone();
                let powered = bay.power_on_over(config, site, placement, array.clone(), Vec::new());
                powered.err().expect("there can be no such drive").to_string()
            };
            let huge = vec![NamespaceConfig::blocks(array.user_units() + 1, BlockSize::B4096)];
            let told = refused(DriveConfig { namespaces: huge, ..drive_config() });
            assert!(told.contains("must not exceed the array"), "{told}");
            let (powered, driver) = front(&clock, &array, drives).await;
            assert!(matches!(powered.drive.controller.backing(), Backing::Array(_)));
            let identity = driver.identity();
            assert_eq!((identity.sanicap, identity.acwu), (0, 0));
            assert_eq!(identity.oncs & 2, 0, "Write Uncorrectable");
            let queue = driver.create_queue_pair(QueueConfig::new(16)).await.unwrap();
            let bad = ReadWrite::default().sqe(NvmOpcode::WRITE_UNCORRECTABLE, 0, 2);
            assert!(queue.execute(bad).await.unwrap().status().is(Status::INVALID_OPCODE));
            let sanitize = Sanitize { sanact: Sanitize::BLOCK_ERASE, ..Sanitize::default() };
            let sanitized = driver.admin_queue().execute(sanitize.sqe(0)).await.unwrap();
            assert!(sanitized.status().is(Status::INVALID_OPCODE));
        })
        .unwrap();
}
