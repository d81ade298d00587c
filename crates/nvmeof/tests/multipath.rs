//! A host with two paths to one subsystem, whose ports change state, and are lost, during I/O.

use crate::digests::Wires;
use crate::host::{SUBSYSTEM, with_target};
use crate::loss::{TASKS, UNITS, oracle, read_all, target};
use crate::simulated::{attach_to, connect_at};
use byteway_clock::{Clock, Delay, Time};
use byteway_host::QueueConfig;
use byteway_host::{
    BlockIoError, Client, ClientConfig, Driver, HostCosts, IoError, Lost, Method, Multipath, MultipathConfig,
    MultipathError, Oracle, PathFigures, Rules,
};
use byteway_link::Memory;
use byteway_nvmeof::{Ended, Path, PathConfig, Reached, SimulatedTarget, Subsystem, SubsystemConfig, Target};
use byteway_testkit::SmallWorld;
use byteway_wire::fabrics::Nqn;
use byteway_wire::nvme::{AnaState, Status};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

const ROUNDS: u64 = 12;
/// Longer than any command of these drives takes.
const CONFIG: MultipathConfig =
    MultipathConfig { quiesce: Delay::from_ms(2), patience: Delay::from_s(30), wait_max: Delay::from_s(30) };

/// A controller that is lost while it is connected is reconnected after 10 s.
const AWAY: Delay = Delay::from_s(12);

/// Two paths to a small drive.
struct Paths {
    clock: Clock,
    subsystem: Rc<Subsystem>,
    own: Driver,
    multipath: Multipath,
    oracle: Rc<RefCell<Oracle>>,
    nsid: u32,
    _served: Vec<SimulatedTarget>,
}

impl Paths {
    async fn to(target: Rc<Target>, own: Driver, config: MultipathConfig) -> Paths {
        let clock = own.clock().clone();
        let (mut paths, mut served) = (Vec::new(), Vec::new());
        let memory = Memory::simulated();
        for port in [1, 2] {
            let reached = Reached { port, ..Reached::default() };
            let (adapter, one) = connect_at(reached, &target, &clock, 1);
            let driver = attach_to(SUBSYSTEM, &adapter, memory.clone(), HostCosts::default()).await;
            paths.push((format!("port {port}"), driver));
            served.push(one);
        }
        let oracle = oracle(&paths[0].1);
        let nsid = paths[0].1.namespaces()[0].nsid;
        let multipath = Multipath::new(paths, config).await.unwrap();
        let subsystem = target.subsystems()[0].clone();
        Paths { clock, subsystem, own, multipath, oracle, nsid, _served: served }
    }

    async fn client(&self) -> Client {
        let config = QueueConfig { vector: Some(1), ..QueueConfig::new(64) };
        let queue = self.multipath.create_queue_pair(config).await.unwrap();
        let config = ClientConfig {
            rules: Rules::only(Method::Sgl),
            bytes_max: 32 << 10,
            oracle: Some(self.oracle.clone()),
            verify_bytes: true,
        };
        Client::new(queue, self.own.namespaces()[0], config).unwrap()
    }

    fn set(&self, port: u16, state: AnaState) {
        set(&self.subsystem, port, state);
    }

    fn commands(&self) -> Vec<u64> {
        self.figures().iter().map(|path| path.commands).collect()
    }

    fn figures(&self) -> Vec<PathFigures> {
        self.multipath.figures(self.nsid)
    }
}

fn set(subsystem: &Subsystem, port: u16, state: AnaState) {
    subsystem.config().ports.set(port, state);
    subsystem.ports_changed();
}

/// Ends the controllers at a port.
fn cut(subsystem: &Subsystem, port: u16) {
    let controllers = subsystem.controllers();
    let there = controllers.iter().filter(|controller| controller.reached().port == port);
    there.for_each(|controller| controller.end(Ended::Stopped));
}

/// Runs a test with two paths.
fn with_paths<T: 'static>(
    config: MultipathConfig,
    through_block_layer: bool,
    test: impl AsyncFnOnce(&Paths) -> T + 'static,
) -> T {
    SmallWorld::default().run(async move |powered| {
        let (target, own) = target(powered.host.clone(), through_block_layer).await;
        let paths = Paths::to(target, own, config).await;
        let (clock, multipath, nsid) = (paths.clock.clone(), paths.multipath.clone(), paths.nsid);
        paths.clock.spawn("end of patience", async move {
            clock.timer(Delay::from_s(1_000)).await;
            panic!("it stands still: {:?}", multipath.figures(nsid));
        });
        test(&paths).await
    })
}

/// Writes, flushes now and then, and reads, until all is done; no I/O may fail.
async fn work(paths: &Paths, client: &Client) {
    let running = Rc::new(Cell::new(TASKS));
    for task in 0..TASKS {
        let (client, running) = (client.clone(), running.clone());
        paths.clock.spawn("worker", async move {
            let mut buffer = client.buffer().unwrap();
            let per_unit = u64::from(4096 / client.namespace().block_bytes);
            for round in 0..ROUNDS {
                let lba = (task * UNITS + round % UNITS) * per_unit;
                let units = 1 + round % 2 * (UNITS - round % UNITS - 1).min(2);
                client.write(&mut buffer, lba, (units * per_unit) as u32).await.unwrap();
                if round % 3 == 2 {
                    client.flush().await.unwrap();
                }
                client.read(&mut buffer, lba, (units * per_unit) as u32).await.unwrap();
            }
            running.set(running.get() - 1);
        });
    }
    let begun = paths.clock.now();
    while running.get() > 0 {
        paths.clock.timer(Delay::from_us(50)).await;
        assert!(paths.clock.now().since(begun) < Delay::from_s(40), "{:?}", paths.figures());
    }
}

async fn read_one(client: &Client) -> Result<(), BlockIoError> {
    let mut buffer = client.buffer().unwrap();
    client.read(&mut buffer, 0, 4096 / client.namespace().block_bytes).await.map(drop)
}

// NVMe Base 2.1, 2.4.2: without this commands would use the worst path, or one that refuses them.
#[test]
fn commands_go_by_the_paths_that_are_best() {
    with_paths(CONFIG, false, async |paths| {
        let client = paths.client().await;
        let by = async |paths: &Paths| {
            // The host knows the new state by then.
            paths.clock.timer(Delay::from_ms(1)).await;
            let before = paths.commands();
            for _ in 0..10 {
                read_one(&client).await.unwrap();
            }
            let after = paths.commands();
            (after[0] - before[0], after[1] - before[1])
        };
        assert_eq!(by(paths).await, (5, 5));
        paths.set(1, AnaState::NON_OPTIMIZED);
        assert_eq!(by(paths).await, (0, 10));
        paths.set(2, AnaState::INACCESSIBLE);
        assert_eq!(by(paths).await, (10, 0));
        paths.set(2, AnaState::NON_OPTIMIZED);
        assert_eq!(by(paths).await, (5, 5));
        paths.set(1, AnaState::PERSISTENT_LOSS);
        assert_eq!(by(paths).await, (0, 10));
        paths.set(2, AnaState::OPTIMIZED);
        paths.set(1, AnaState::OPTIMIZED);
        assert_eq!(by(paths).await, (5, 5));
        let figures = paths.figures();
        assert!(figures.iter().all(|path| path.failovers == 0 && path.reconnects == 0), "{figures:?}");
        paths.multipath.shutdown().await.unwrap();
    });
}

// Without this a host would wait for a path that never becomes usable, or fail where a short wait suffices.
#[test]
fn where_there_is_no_path_a_command_waits_as_long_as_one_may_come() {
    let config = MultipathConfig { patience: Delay::from_ms(50), ..CONFIG };
    with_paths(config, false, async |paths| {
        let client = paths.client().await;
        let refused = async |state: AnaState| {
            paths.set(1, state);
            paths.set(2, state);
            paths.clock.timer(Delay::from_ms(1)).await;
            let begun = paths.clock.now();
            let Err(IoError::Status(status)) = read_one(&client).await else { panic!("it was read") };
            (status, paths.clock.now().since(begun))
        };
        let (status, waited) = refused(AnaState::INACCESSIBLE).await;
        assert!(status.is(Status::ANA_INACCESSIBLE) && waited >= Delay::from_ms(50), "{status} {waited}");
        let (status, waited) = refused(AnaState::PERSISTENT_LOSS).await;
        assert!(status.is(Status::ANA_PERSISTENT_LOSS) && waited < Delay::from_ms(1), "{status} {waited}");
        // ANATT is 10 s.
        let (status, waited) = refused(AnaState::CHANGE).await;
        assert!(status.is(Status::ANA_TRANSITION) && waited >= Delay::from_s(10), "{status} {waited}");
        assert!(waited < Delay::from_s(11), "{waited}");
        let (subsystem, clock) = (paths.subsystem.clone(), paths.clock.clone());
        paths.clock.spawn("a better state", async move {
            clock.timer(Delay::from_s(3)).await;
            set(&subsystem, 2, AnaState::OPTIMIZED);
        });
        let begun = paths.clock.now();
        read_one(&client).await.unwrap();
        assert!(paths.clock.now().since(begun) < Delay::from_ms(3_010));
        paths.multipath.shutdown().await.unwrap();
    });
}

/// The result of I/O while the states of both ports change repeatedly.
fn under_changes(through_block_layer: bool) -> (Vec<PathFigures>, Time) {
    with_paths(CONFIG, through_block_layer, async |paths| {
        let client = paths.client().await;
        let (subsystem, clock) = (paths.subsystem.clone(), paths.clock.clone());
        paths.clock.spawn("changes", async move {
            let states = AnaState::ALL.into_iter().filter(|state| *state != AnaState::PERSISTENT_LOSS);
            for (step, state) in states.cycle().take(400).enumerate() {
                clock.timer(Delay::from_us(7 + step as u64 % 5)).await;
                set(&subsystem, 1 + (step / 3 % 2) as u16, state);
            }
            set(&subsystem, 1, AnaState::OPTIMIZED);
            set(&subsystem, 2, AnaState::OPTIMIZED);
        });
        work(paths, &client).await;
        read_all(&paths.own, &paths.oracle).await;
        let ended = paths.clock.now();
        paths.multipath.shutdown().await.unwrap();
        (paths.figures(), ended)
    })
}

// Without this a command that one port refuses would fail although another accepts it, or be lost; and a
// second run would differ.
#[test]
fn states_may_change_while_commands_are_under_way() {
    for through_block_layer in [false, true] {
        let (figures, ended) = under_changes(through_block_layer);
        assert!(figures.iter().all(|path| path.commands > 10), "{figures:?}");
        assert!(figures.iter().any(|path| path.failovers > 0), "{figures:?}");
        assert_eq!((figures, ended), under_changes(through_block_layer));
    }
}

// Without this outstanding commands of a lost path would fail, be lost, or be repeated after later writes of
// the host.
#[test]
fn a_path_may_be_cut_at_any_moment() {
    let mut failovers = 0;
    for moment in 0..90u64 {
        failovers += with_paths(CONFIG, moment % 2 == 0, async move |paths| {
            let client = paths.client().await;
            let (subsystem, clock) = (paths.subsystem.clone(), paths.clock.clone());
            let last = Rc::new(Cell::new(false));
            let cutting = last.clone();
            paths.clock.spawn("cuts", async move {
                // At the end the other path is cut, when the first is just back, or not yet.
                for (port, wait) in
                    [(1, 2_300 * moment), (2, 1_900 * (moment % 17)), (1, 5_000 * (moment % 7))]
                {
                    clock.timer(Delay::from_ns(700 + wait)).await;
                    cut(&subsystem, port);
                }
                cutting.set(true);
            });
            work(paths, &client).await;
            assert!(last.get(), "cut {moment} came too late");
            // Both are back, and used again.
            paths.clock.timer(AWAY).await;
            let before = paths.commands();
            for _ in 0..4 {
                read_one(&client).await.unwrap();
            }
            let after = paths.commands();
            assert!(
                before.iter().zip(&after).all(|(before, after)| after - before == 2),
                "{moment}: {:?}",
                paths.figures()
            );
            read_all(&paths.own, &paths.oracle).await;
            let figures = paths.figures();
            assert!(figures.iter().all(|path| path.reconnects > 0), "{figures:?}");
            paths.multipath.shutdown().await.unwrap();
            figures.iter().map(|path| path.failovers).sum::<u64>()
        });
    }
    assert!(failovers > 100, "{failovers} failovers");
}

// NVMe Base 2.1, 9.6.3: without this the lost controller could execute a write after later writes of the
// host; reads need no wait.
#[test]
fn a_lost_write_waits_for_the_end_of_its_controller_and_a_lost_read_does_not() {
    with_paths(CONFIG, false, async |paths| {
        let client = paths.client().await;
        for is_write in [true, false, true, false] {
            let (before, begun) = (paths.figures(), paths.clock.now());
            let ended: Rc<Cell<Option<Time>>> = Rc::default();
            let (io, end, clock) = (client.clone(), ended.clone(), paths.clock.clone());
            paths.clock.spawn("I/O", async move {
                let mut buffer = io.buffer().unwrap();
                match is_write {
                    true => io.write(&mut buffer, 0, 1).await.unwrap(),
                    false => io.read(&mut buffer, 0, 1).await.unwrap(),
                };
                end.set(Some(clock.now()));
            });
            paths.clock.timer(Delay::from_us(2)).await;
            let taken =
                paths.figures().iter().zip(&before).position(|(now, then)| now.commands > then.commands);
            let taken = taken.expect("it is on its way");
            cut(&paths.subsystem, 1 + taken as u16);
            paths.clock.timer(AWAY).await;
            let took = ended.get().expect("it has ended").since(begun);
            assert_eq!(took >= CONFIG.quiesce, is_write, "{took}");
            assert_eq!(paths.figures()[taken].failovers, before[taken].failovers + 1);
        }
        paths.multipath.shutdown().await.unwrap();
    });
}

// Without this an application would wait indefinitely for a target that does not come back.
#[test]
fn when_all_paths_are_given_up_commands_are_lost() {
    with_target(
        |_| {},
        async |target, clock| {
            let memory = Memory::simulated();
            let (mut wires, mut paths) = (Vec::new(), Vec::new());
            for name in ["first", "second"] {
                let wire = Wires::new(&target, &clock);
                let adapter = wire.adapter();
                let driver = attach_to(SUBSYSTEM, &adapter, memory.clone(), HostCosts::default()).await;
                paths.push((name.to_owned(), driver));
                wires.push(wire);
            }
            let namespace = paths[0].1.namespaces()[0];
            let multipath = Multipath::new(paths, MultipathConfig::default()).await.unwrap();
            let config = QueueConfig { vector: Some(1), ..QueueConfig::new(64) };
            let queue = multipath.create_queue_pair(config).await.unwrap();
            let config = ClientConfig {
                rules: Rules::only(Method::Sgl),
                bytes_max: 32 << 10,
                oracle: None,
                verify_bytes: false,
            };
            let client = Client::new(queue, namespace, config).unwrap();
            read_one(&client).await.unwrap();
            wires[0].cut();
            read_one(&client).await.unwrap();
            wires[1].cut();
            let begun = clock.now();
            assert_eq!(read_one(&client).await, Err(IoError::Lost(Lost::Failed)));
            // Sixty attempts, one every 10 s.
            let waited = clock.now().since(begun);
            assert!(waited > Delay::from_s(580) && waited < Delay::from_s(600), "{waited}");
            let states = multipath.figures(namespace.nsid).into_iter().map(|path| path.state);
            assert!(states.eq(["given up"; 2]));
            assert_eq!(read_one(&client).await, Err(IoError::Lost(Lost::Failed)));
        },
    );
}

// Queues that are created or deleted while a path is lost must exist in the same number when it is back.
#[test]
fn queues_come_and_go_while_a_path_is_away() {
    with_paths(CONFIG, false, async |paths| {
        for round in 0..40 {
            cut(&paths.subsystem, 1 + round % 2);
            let client = paths.client().await;
            read_one(&client).await.unwrap();
            cut(&paths.subsystem, 1 + round / 2 % 2);
            paths.multipath.delete_queue_pair(client.queue()).await.unwrap();
        }
        paths.clock.timer(AWAY).await;
        let client = paths.client().await;
        let before = paths.commands();
        for _ in 0..4 {
            read_one(&client).await.unwrap();
        }
        let after = paths.commands();
        assert!(before.iter().zip(&after).all(|(before, after)| after - before == 2), "{after:?}");
        paths.multipath.shutdown().await.unwrap();
    });
}

// Without this two drives would be written to as if they were one.
#[test]
fn paths_to_two_subsystems_are_refused() {
    let error = SmallWorld::default().run(async |powered| {
        let (first, own) = target(powered.host.clone(), false).await;
        let clock = own.clock().clone();
        let name = Nqn::new("nqn.2026-11.org.byteway:b").unwrap();
        let config = SubsystemConfig::new(name);
        let path = PathConfig { bytes_max: 32 << 10, commands_max: 64, ..PathConfig::default() };
        let path = Path::open(own, path).await.unwrap();
        let other = Target::new(vec![Subsystem::new(&clock, config, path)]);
        let memory = Memory::simulated();
        let mut paths = Vec::new();
        let mut served = Vec::new();
        for (target, subsystem) in [(&first, SUBSYSTEM), (&other, name.as_str())] {
            let (adapter, one) = connect_at(Reached::default(), target, &clock, 1);
            let driver = attach_to(subsystem, &adapter, memory.clone(), HostCosts::default()).await;
            paths.push((subsystem.to_owned(), driver));
            served.push(one);
        }
        Multipath::new(paths, CONFIG).await.err()
    });
    assert!(matches!(error, Some(MultipathError::Subsystem { .. })), "{error:?}");
}
