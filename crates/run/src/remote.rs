//! Runs over a network: the target, the network, and the host's associations.

use crate::build;
use crate::error::RunError;
use byteway_clock::{Clock, Delay, Rate, Stage, Station};
use byteway_host::fabric::{Adapter, ConnectError, Initiator, InitiatorConfig};
use byteway_host::{Completion, Driver, DriverConfig};
use byteway_host::{HostCosts, Method, Port, QueuePair, Rules};
use byteway_link::{Memory, MessageKind, NetworkConfig, NetworkLedger, network};
use byteway_nvmeof::{
    BlockConfig, BlockCosts, BlockLayer, Path, PathConfig, Scheduler, SimulatedTarget, Subsystem,
    SubsystemConfig, Target, TransportCosts,
};
use byteway_results::summary::{NetworkSummary, Utilisation, ns_per_io};
use byteway_scenario::profile::{HostProfile, NetworkProfile, Transport};
use byteway_scenario::{BlockScheduler, Scenario, TargetPath, TargetPlan};
use byteway_text::units::Picos;
use byteway_transfer::host::PointerKind;
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::status::AUTHENTICATION_REQUIRED;
use byteway_wire::nvme::Status;
use byteway_world::World;
use std::rc::Rc;

/// NQN of the host.
const HOST: &str = "nqn.2026-11.org.byteway:host";
/// Upper limit of a queue's entries at the target.
const ENTRIES_MAX: u16 = 1024;
/// Maximum number of queue pairs of a controller of the target.
const QUEUES_MAX: u16 = 63;

/// The target of a run, with its network.
pub struct Remote {
    plan: TargetPlan,
    adapter: Adapter,
    target: SimulatedTarget,
    names: Vec<Nqn>,
    /// Per drive, the target's driver, and the queue pairs of its processors.
    locals: Vec<(Driver, Vec<QueuePair>)>,
}

/// Counters of target and network.
#[derive(Clone, Debug, Default)]
pub struct RemoteSnapshot {
    to_target: NetworkLedger,
    to_host: NetworkLedger,
    wire: (Delay, Delay),
    processors: Vec<Delay>,
}

impl Remote {
    /// Adds a target with a subsystem for each drive of `world`, and a network.
    ///
    /// # Errors
    /// The target cannot use a drive.
    pub async fn build(
        clock: &Clock,
        plan: &TargetPlan,
        world: &World,
        scenario: &Scenario,
    ) -> Result<Remote, RunError> {
        let cores = plan.profile.cores.max(1);
        let processors: Vec<Rc<Station>> = (0..cores).map(|_| Rc::new(Station::new(clock, 1))).collect();
        let mut subsystems = Vec::new();
        let (mut names, mut locals) = (Vec::new(), Vec::new());
        for (number, powered) in world.drives().iter().enumerate() {
            let config = DriverConfig {
                costs: HostCosts { stage: Stage::Target, ..host_costs(&plan.profile) },
                completion: Completion::Interrupt,
                cpu: Some(processors[0].clone()),
                interrupts_queue: true,
                queues_wanted: cores,
                ..DriverConfig::default()
            };
            let driver = Driver::attach(Port::Link(powered.host.clone()), config).await?;
            let lanes = &processors[..processors.len().min(usize::from(driver.queues_granted()))];
            let at_drive = lanes.len() as u32 * u32::from(driver.cap().mqes_z());
            let block =
                (plan.path == TargetPath::Block).then(|| BlockLayer::new(clock, block(plan, at_drive)));
            let local = scenario.jobs_of(number).filter(|job| job.at_target);
            let outstanding = local.map(|job| job.workers * job.iodepth).sum::<u32>() as u16;
            let local_max = plan.local_outstanding.unwrap_or(outstanding).min(outstanding);
            let commands_max = plan.remote_outstanding;
            let rules = match scenario.drives[number].transfer.rules {
                rules if rules.method == Method::Inline => rules,
                _ => Rules::only(Method::Prp),
            };
            // The host's maximum command length is the drive's, as without a network.
            let least = PathConfig::default().bytes_max;
            let bytes_max = driver.transfer_bytes_max().map_or(least, |bytes| (bytes as u32).max(least));
            let config = PathConfig { bytes_max, commands_max, local_max, rules, ..PathConfig::default() };
            let path = Path::open_on(driver.clone(), config, lanes, block).await?;
            let queues = (0..lanes.len()).map(|lane| path.local_queue(lane));
            locals.push((driver, queues.collect()));
            let name = Nqn::new(&format!("nqn.2026-11.org.byteway:{}", names.len()));
            let name = name.map_err(|_| refused("a drive cannot be named", Status::INTERNAL_ERROR))?;
            names.push(name);
            let config = SubsystemConfig {
                io_queues_max: QUEUES_MAX,
                entries_max: ENTRIES_MAX,
                in_capsule_bytes: plan.network.in_capsule.0 as u32,
                ..SubsystemConfig::new(name)
            };
            subsystems.push(Subsystem::new(clock, config, path));
        }
        let (near, far) = network::connect(clock, wire(&plan.network));
        let target =
            SimulatedTarget::serve(far, &Target::new(subsystems), &processors, transport(&plan.network));
        Ok(Remote { plan: plan.clone(), adapter: Adapter::new(near), target, names, locals })
    }

    /// Connects the host to a drive.
    ///
    /// # Errors
    /// The target refuses the connection.
    pub async fn connect(&self, drive: usize) -> Result<Port, RunError> {
        let host = Nqn::new(HOST).map_err(|_| refused("the host cannot be named", Status::INTERNAL_ERROR))?;
        let config = InitiatorConfig {
            subsystem: self.names[drive],
            host,
            host_id: [1; 16],
            admin_entries: 32,
            in_capsule_bytes: self.plan.network.in_capsule.0 as u32,
            authenticator: None,
            timeout: None,
        };
        let connected = Initiator::connect(&self.adapter, Memory::simulated(), config).await;
        connected.map(Port::Fabric).map_err(|error| {
            let status = match error {
                ConnectError::Refused(status) => status,
                _ => AUTHENTICATION_REQUIRED,
            };
            refused("the target refused the host", status)
        })
    }

    /// The target's own driver for a drive, and the queue pairs of its processors.
    pub fn local(&self, drive: usize) -> (&Driver, Vec<QueuePair>) {
        let (driver, queues) = &self.locals[drive];
        (driver, queues.clone())
    }

    /// Costs of the host's network driver.
    pub fn host_costs(&self, host: HostCosts) -> HostCosts {
        let own = &self.plan.network.initiator;
        HostCosts {
            submit: host.submit + delay(own.submit),
            complete: host.complete + delay(own.complete),
            ..host
        }
    }

    /// Upper limit of a queue's entries at the target.
    pub fn entries_max(&self) -> u32 {
        u32::from(ENTRIES_MAX)
    }

    /// Takes the counters.
    pub fn snapshot(&self) -> RemoteSnapshot {
        let Some(network) = self.adapter.network() else { return RemoteSnapshot::default() };
        RemoteSnapshot {
            to_target: network.sent(),
            to_host: network.received(),
            wire: network.busy(),
            processors: self.target.processors().iter().map(|one| one.busy()).collect(),
        }
    }

    /// The differences of two snapshots that are `elapsed_ps` apart, for `ios` I/Os.
    pub fn summary(
        &self,
        begin: &RemoteSnapshot,
        end: &RemoteSnapshot,
        elapsed_ps: u64,
        ios: u64,
    ) -> NetworkSummary {
        let busy = |now: Delay, then: Delay| now.saturating_sub(then).0;
        let each: Vec<u64> =
            end.processors.iter().zip(&begin.processors).map(|(now, then)| busy(*now, *then)).collect();
        let wire = |name: &str, busy: u64| Utilisation::of(name, [(busy, elapsed_ps)]);
        NetworkSummary {
            profile: self.plan.network_name.clone(),
            target_profile: self.plan.profile_name.clone(),
            path: self.plan.path.name().to_owned(),
            crossings: NetworkSummary::rows(
                &end.to_target.since(&begin.to_target),
                &end.to_host.since(&begin.to_host),
            ),
            wire: vec![
                wire("wire to target", busy(end.wire.0, begin.wire.0)),
                wire("wire to host", busy(end.wire.1, begin.wire.1)),
            ],
            target_ns_per_io: ns_per_io(each.iter().sum(), ios),
            processors: Utilisation::of("target's processors", each.iter().map(|busy| (*busy, elapsed_ps))),
        }
    }
}

/// Transfer rules over a network: payload that is inline on the link becomes in-capsule data.
pub fn rules(on_link: Rules) -> Rules {
    let method = if on_link.method == Method::Inline { Method::Inline } else { Method::Sgl };
    Rules { fallback: PointerKind::Sgl, sgl_bytes_min: 0, ..Rules::only(method) }
}

fn refused(what: &str, status: Status) -> RunError {
    RunError::Refused { what: what.to_owned(), status }
}

fn delay(time: Picos) -> Delay {
    Delay::from_ps(time.0)
}

fn host_costs(profile: &HostProfile) -> HostCosts {
    build::costs(profile)
}

/// Block layer configuration. `at_drive`: the number of commands that the drive's queues can hold.
fn block(plan: &TargetPlan, at_drive: u32) -> BlockConfig {
    let block = &plan.network.block;
    BlockConfig {
        costs: BlockCosts {
            build: delay(block.build),
            schedule: delay(block.schedule),
            dispatch: delay(block.dispatch),
            complete: delay(block.complete),
        },
        tags: block.tags,
        scheduler: match plan.scheduler {
            BlockScheduler::None => Scheduler::None,
            BlockScheduler::MqDeadline => Scheduler::Deadline,
        },
        dispatched_max: block.tags.min(at_drive),
    }
}

fn transport(network: &NetworkProfile) -> TransportCosts {
    let target = &network.target;
    TransportCosts {
        interrupt: delay(target.interrupt),
        receive: delay(target.receive),
        fetch: delay(target.fetch),
        respond: delay(target.respond),
        sent: delay(target.sent),
        copy: delay(target.copy),
    }
}

/// Network configuration, with the headers of each message: with RDMA the RETH of reads and writes, over TCP those of PDUs.
fn wire(network: &NetworkProfile) -> NetworkConfig {
    let mut header_bytes = [0; MessageKind::ALL.len()];
    for kind in MessageKind::ALL {
        header_bytes[kind as usize] = match (network.transport, kind) {
            (Transport::Rdma, MessageKind::DataRequest | MessageKind::Data) => 16,
            (Transport::Rdma, _) => 0,
            (Transport::Tcp, MessageKind::Command | MessageKind::Response) => 8,
            (Transport::Tcp, MessageKind::DataRequest | MessageKind::Data) => 24,
            (Transport::Tcp, MessageKind::Connection) => 128,
        };
    }
    NetworkConfig {
        rate: Rate::per_second(network.rate.0),
        propagation: delay(network.propagation),
        packet_bytes_max: network.packet.0 as u32,
        packet_overhead_bytes: network.overhead.0 as u32,
        send: delay(network.send),
        receive: delay(network.receive),
        header_bytes,
    }
}
