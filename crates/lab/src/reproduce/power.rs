//! A power cut while a host puts values: how many that it was told are put are gone afterwards. The drive of a point is built
//! as for a run; a client with or without bulk PUT stores values of one size until the power goes, between two steps of the
//! simulation. Then the drive comes back with what its medium has kept, and every value is asked for.

use std::cell::Cell;
use std::rc::Rc;

use anyhow::{Context, anyhow, bail};
use byteway_clock::{Executor, Ran};
use byteway_device::{Drive, DriveConfig};
use byteway_host::driver::{Driver, DriverConfig, QueueConfig};
use byteway_host::{BulkLimits, KvBulk, KvClient, KvConfig, Method, Port, Rules, StoreIf};
use byteway_link::{HostEnd, Link, Memory};
use byteway_wire::nvme::kv::Key;

use super::point::Spec;
use crate::build;
use crate::scenario::Scenario;

/// What a power cut left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    /// Values that the host was told are put.
    pub told: u64,
    /// Of these, the ones that are gone.
    pub lost: u64,
}

/// Bytes of the largest batch.
const BATCH_BYTES: u32 = 16 << 10;

/// Cuts the power of the spec's drive before the step `polls`, while values of `bytes` are put, `pairs` in a command.
///
/// # Errors
/// The drive cannot be driven, or holds a value that was never put.
pub(super) fn cut(spec: &Spec, pairs: u32, bytes: u32, polls: u64) -> anyhow::Result<Left> {
    let scenario = spec.scenario(1)?;
    let config = build::drive(&scenario);
    let told = Rc::new(Cell::new(0));
    let medium = {
        let executor = Executor::new();
        let (host, device) = connect(&executor, &scenario);
        let drive = power_on(&device, &config, Drive::medium(&config).context("the drive can't be built")?)?;
        let putting = put_all(host, Plan::of(&scenario), pairs, bytes, told.clone());
        match executor.run_cut(putting, polls).map_err(|stalled| anyhow!("{stalled}"))? {
            Ran::Cut => drive.power_off(),
            Ran::Ended(why) => return Err(why),
        }
    };
    let executor = Executor::new();
    let (host, device) = connect(&executor, &scenario);
    let drive = power_on(&device, &config, medium)?;
    let found = executor
        .run(count(host, Plan::of(&scenario), bytes, told.get()))
        .map_err(|stalled| anyhow!("{stalled}"))?;
    drive.power_off(); // drive and link hold each other until then
    Ok(Left { told: told.get(), lost: told.get() - found? })
}

fn connect(executor: &Executor, scenario: &Scenario) -> (HostEnd, byteway_link::DeviceEnd) {
    Link::connect(executor.clock(), build::link(&scenario.drive.profile), Memory::simulated())
}

fn power_on(
    device: &byteway_link::DeviceEnd,
    config: &DriveConfig,
    medium: byteway_flash::Medium,
) -> anyhow::Result<Drive> {
    Drive::power_on(device, config.clone(), medium).context("the drive can't be built")
}

/// The host's part of a scenario.
struct Plan(DriverConfig);

impl Plan {
    fn of(scenario: &Scenario) -> Plan {
        Plan(DriverConfig {
            costs: build::host_costs(&scenario.host),
            completion: build::completion(&scenario.host),
            queues_wanted: 1,
            ..DriverConfig::default()
        })
    }
}

async fn client(host: HostEnd, plan: Plan) -> anyhow::Result<KvClient> {
    let driver = Driver::attach(Port::Link(host), plan.0).await?;
    let nsid = driver.kv_namespaces().first().context("the drive has no key-value namespace")?.nsid;
    let queue = driver.create_queue_pair(QueueConfig::new(32)).await?;
    Ok(KvClient::new(queue, nsid, KvConfig::new(Rules::only(Method::Prp), BATCH_BYTES)))
}

fn key(number: u64) -> Key {
    Key::new(&(number as u32).to_be_bytes()).expect("it has four bytes")
}

fn value(number: u64, bytes: u32) -> Vec<u8> {
    number.to_le_bytes().into_iter().cycle().take(bytes as usize).collect()
}

/// Puts values until the power goes; ends only with an error.
async fn put_all(host: HostEnd, plan: Plan, pairs: u32, bytes: u32, told: Rc<Cell<u64>>) -> anyhow::Error {
    let put = async {
        let client = client(host, plan).await?;
        let mut buffer = client.buffer()?;
        let limits = BulkLimits { pairs, bytes: BATCH_BYTES };
        let mut bulk = KvBulk::new(&client, limits, &Rc::default())?;
        for number in 0.. {
            let value = value(number, bytes);
            if pairs > 1 {
                bulk.put(key(number), &value).await?;
            } else {
                client.put(&mut buffer, &value)?;
                client.store(&mut buffer, key(number), bytes, StoreIf::Any).await?;
            }
            told.set(number + 1);
        }
        anyhow::Ok(())
    };
    match put.await {
        Ok(()) => anyhow!("all keys are used"),
        Err(error) => error,
    }
}

/// How many of the first `told` values the drive has.
async fn count(host: HostEnd, plan: Plan, bytes: u32, told: u64) -> anyhow::Result<u64> {
    let client = client(host, plan).await?;
    let mut buffer = client.buffer()?;
    let mut found = 0;
    for number in 0..told {
        let answer = client.retrieve(&mut buffer, key(number), 0, bytes).await?;
        if !answer.found {
            continue;
        }
        let mut stored = vec![0; bytes as usize];
        client.get(&buffer, &mut stored)?;
        if answer.value_bytes != bytes || stored != value(number, bytes) {
            bail!("after the power cut value {number} is not the one that was put");
        }
        found += 1;
    }
    Ok(found)
}
