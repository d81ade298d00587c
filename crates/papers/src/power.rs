//! Power cuts during PUTs: how many acknowledged values are lost. The drive of a point is built as for a run;
//! a client with or without bulk PUT stores values of one size until power is cut at an instant of virtual
//! time. Then the drive restarts from the contents of its medium, and every value is retrieved.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use byteway_clock::{Delay, Executor};
use byteway_flash::Medium;
use byteway_host::{Driver, DriverConfig, QueueConfig};
use byteway_host::{KvBulk, KvClient, KvConfig, Method, Port, Rules, StoreIf};
use byteway_link::HostEnd;
use byteway_wire::nvme::kv::Key;
use byteway_wire::nvme::vendor::kv::BulkLimits;
use byteway_world::PoweredDrive;

use crate::error::CutError;
use crate::point::Spec;
use byteway_run::build;
use byteway_scenario::Scenario;

/// Acknowledged values lost by a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Values that were acknowledged to the client's caller.
    pub told: u64,
    /// Lost values that the drive had not acknowledged: they were in the host's batch.
    pub by_host: u64,
    /// Lost values that the drive had acknowledged: they were in its write buffer, without power-loss
    /// protection.
    pub by_drive: u64,
}

/// Number of values acknowledged to the caller, and number of these, in order, acknowledged by the drive.
#[derive(Clone, Copy, Debug, Default)]
struct Put {
    told: u64,
    acknowledged: u64,
}

/// Largest batch, in bytes.
const BATCH_BYTES: u32 = 16 << 10;

/// Cuts the power of the spec's drive `after` the first of many values of `bytes` was put, with `pairs`
/// key-value pairs per command.
///
/// # Errors
/// The drive could not be driven, or holds a value that was never put.
pub(crate) fn cut(spec: &Spec, pairs: u32, bytes: u32, after: Delay) -> Result<Taken, CutError> {
    let scenario = spec.scenario(1)?;
    let put = Rc::new(Cell::new(Put::default()));
    let medium = {
        let executor = Executor::new();
        let drive = power_on(&executor, &scenario, None)?;
        let (host, plan, put, clock) =
            (drive.host.clone(), Plan::of(&scenario), put.clone(), executor.clock().clone());
        let putting = async move {
            let client = client(host, plan).await?;
            until(clock.sleep(after), put_all(client, pairs, bytes, &put)).await
        };
        executor.run(putting).map_err(CutError::Stalled)??;
        drive.power_off()
    };
    let executor = Executor::new();
    let drive = power_on(&executor, &scenario, Some(medium))?;
    let Put { told, acknowledged } = put.get();
    let found = executor
        .run(count(drive.host.clone(), Plan::of(&scenario), bytes, put.get()))
        .map_err(CutError::Stalled)??;
    Ok(Taken {
        told,
        by_host: told - acknowledged - found.unacknowledged,
        by_drive: acknowledged - found.acknowledged,
    })
}

fn power_on(
    executor: &Executor,
    scenario: &Scenario,
    medium: Option<Medium>,
) -> Result<PoweredDrive, CutError> {
    let bay = build::bay(executor.clock(), &scenario.drives[0].plan.profile);
    bay.power_on(build::drive(scenario, 0), medium).map_err(CutError::NotBuilt)
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

async fn client(host: HostEnd, plan: Plan) -> Result<KvClient, CutError> {
    let driver = Driver::attach(Port::Link(host), plan.0).await?;
    let nsid = driver.kv_namespaces().first().ok_or(CutError::NoNamespace)?.nsid;
    let queue = driver.create_queue_pair(QueueConfig::new(32)).await?;
    Ok(KvClient::new(queue, nsid, KvConfig::new(Rules::only(Method::Prp), BATCH_BYTES)))
}

fn key(number: u64) -> Key {
    Key::new(&(number as u32).to_be_bytes()).expect("it has four bytes")
}

fn value(number: u64, bytes: u32) -> Vec<u8> {
    number.to_le_bytes().into_iter().cycle().take(bytes as usize).collect()
}

/// Runs `work` until the end of `time`.
///
/// # Errors
/// The work ended earlier with an error.
async fn until<E>(
    time: impl Future<Output = ()>,
    work: impl Future<Output = Result<(), E>>,
) -> Result<(), E> {
    let (mut time, mut work) = (pin!(time), pin!(work));
    poll_fn(|context| match time.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(Ok(())),
        Poll::Pending => work.as_mut().poll(context),
    })
    .await
}

/// Puts values until the power is cut.
async fn put_all(client: KvClient, pairs: u32, bytes: u32, told: &Cell<Put>) -> Result<(), CutError> {
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
        let all = number + 1;
        told.set(Put { told: all, acknowledged: all - bulk.len() as u64 });
    }
    Err(CutError::TooLate)
}

/// Values found after the cut.
#[derive(Clone, Copy, Debug, Default)]
struct SurvivingValues {
    acknowledged: u64,
    unacknowledged: u64,
}

/// Retrieves every acknowledged value.
async fn count(host: HostEnd, plan: Plan, bytes: u32, put: Put) -> Result<SurvivingValues, CutError> {
    let client = client(host, plan).await?;
    let mut buffer = client.buffer()?;
    let mut found = SurvivingValues::default();
    for number in 0..put.told {
        let answer = client.retrieve(&mut buffer, key(number), 0, bytes).await?;
        if !answer.found {
            continue;
        }
        let mut stored = vec![0; bytes as usize];
        client.get(&buffer, &mut stored)?;
        if answer.value_bytes != bytes || stored != value(number, bytes) {
            return Err(CutError::WrongValue { number });
        }
        let count =
            if number < put.acknowledged { &mut found.acknowledged } else { &mut found.unacknowledged };
        *count += 1;
    }
    Ok(found)
}
