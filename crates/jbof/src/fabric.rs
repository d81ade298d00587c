//! The CXL fabric of a JBOF: a tree of switches, with the host at its root and drives at its leaves (Figure 9).
//!
//! Messages are cut through: a message occupies every hop of its path at once, and takes the time of the slowest hop,
//! the latency of each switch, and the framing at its end. Every port sends one message after another in each
//! direction, so messages contend wherever their paths meet.
//!
//! A flit of 256 bytes carries 15 slots of 16 bytes (CXL 3.0, 4.3): a line of 64 bytes takes one slot of header and
//! four of data. Messages share flits, so a message is charged its slots' part of them.
//!
//! **A port that is down** ([`Fabric::set_up`]): the link between a drive and its switch is lost, as when a cable is
//! removed, and may come back. Messages sent before arrive. From then on nothing enters or leaves the drive:
//!
//! - Firmware accesses to another drive's memory, and messages to its queues, *wait* ([`LinkDirection::closed`]): the
//!   port holds them, as the link layer holds flits for its retry. They proceed when the link is back, or never, if
//!   their sender gives up.
//! - A requester that can do without an answer *checks first* ([`Fabric::reaches`]), because a port reports at once
//!   that it is down (CXL 3.0, 12.3, isolation): a daemon then treats a table as unreadable.
//!
//! The links between drives and host, which carry payload, commands and completions, are separate and unaffected.
//!
//! What it does not do: there is no back pressure between switches, and no priority among kinds of messages.

use byteway_clock::{Clock, Delay, Notify, Passage, Pipe, Rate};
use byteway_firmware::{LinkDirection, SiteLink};
use std::cell::Cell;
use std::rc::Rc;

/// Size of a line of memory, in bytes.
pub const LINE_BYTES: u64 = 64;
const FLIT_BYTES: u64 = 256;
const SLOTS_OF_FLIT: u64 = 15;
const SLOTS_OF_LINE: u64 = 5;

/// The constants of a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricConfig {
    /// Number of drives, at least one.
    pub drives: usize,
    /// Drives per lowest-level switch, at least one.
    pub drives_of_switch: usize,
    /// Bandwidth of a port in each direction, in bytes per second.
    pub port: Rate,
    /// Latency between two ports of a switch.
    pub switch: Delay,
    /// Latency of packing a message into flits and unpacking it.
    pub framing: Delay,
}

impl FabricConfig {
    /// A fabric for `drives` drives, with the constants of the paper's simulator: ports of 16 GB/s, framing
    /// of 20 ns, 16 to 25 ns per switch (Table 2; the simulator's published configuration).
    pub fn of_drives(drives: usize) -> Self {
        FabricConfig {
            drives,
            drives_of_switch: 4,
            port: Rate::per_second(16_000_000_000),
            switch: Delay::from_ns(20),
            framing: Delay::from_ns(20),
        }
    }
}

/// An endpoint of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// The host, at the root.
    Host,
    /// A drive, by its number from 0.
    Drive(usize),
}

/// The two directions of a port.
struct Port {
    /// Direction to the switch.
    up: Pipe,
    /// Direction from the switch.
    down: Pipe,
}

/// A fabric. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct Fabric(Rc<Inner>);

struct Inner {
    clock: Clock,
    config: FabricConfig,
    host: Port,
    switches: Vec<Port>,
    drives: Vec<Port>,
    /// Links, one per drive.
    links: Vec<Link>,
}

/// State of the link between a drive and its switch.
struct Link {
    is_down: Cell<bool>,
    /// The link is back.
    is_back: Notify,
}

/// Wire bytes of a message with `data` bytes; without data it is a header.
pub fn wire_bytes(data: u64) -> u64 {
    let slots = data.div_ceil(LINE_BYTES).saturating_mul(SLOTS_OF_LINE).max(1);
    slots.saturating_mul(FLIT_BYTES).div_ceil(SLOTS_OF_FLIT)
}

impl Fabric {
    /// An idle fabric.
    pub fn new(clock: &Clock, config: FabricConfig) -> Fabric {
        let pipe = || Pipe::new(clock, config.port, Delay::ZERO);
        let ports = |count: usize| (0..count).map(|_| Port { up: pipe(), down: pipe() }).collect();
        let (drives, each) = (config.drives.max(1), config.drives_of_switch.max(1));
        let host = Port { up: pipe(), down: pipe() };
        let (clock, switches) = (clock.clone(), ports(drives.div_ceil(each)));
        let link = |_| Link { is_down: Cell::default(), is_back: Notify::new(&clock) };
        let links = (0..drives).map(link).collect();
        Fabric(Rc::new(Inner { host, switches, drives: ports(drives), links, clock, config }))
    }

    /// Brings the link between a drive and its switch up or down. Links are up initially.
    ///
    /// # Panics
    /// If the drive does not exist.
    pub fn set_up(&self, drive: usize, is_up: bool) {
        let link = &self.0.links[drive];
        link.is_down.set(!is_up);
        if is_up {
            link.is_back.notify_all();
        }
    }

    /// The link that is down among those that a message between two nodes would pass.
    fn lost_link(&self, from: Node, to: Node) -> Option<&Link> {
        let of = |node| if let Node::Drive(drive) = node { self.0.links.get(drive) } else { None };
        let is_down = |link: &&Link| link.is_down.get();
        if from == to {
            return None; // access to own memory
        }
        of(from).filter(is_down).or_else(|| of(to).filter(is_down))
    }

    /// Whether a message between two nodes would arrive now.
    pub fn reaches(&self, from: Node, to: Node) -> bool {
        self.lost_link(from, to).is_none()
    }

    /// Number of drives.
    pub fn drives(&self) -> usize {
        self.0.drives.len()
    }

    fn switch_of(&self, drive: usize) -> usize {
        drive / self.0.config.drives_of_switch.max(1)
    }

    /// Sends a message with `data` bytes between two nodes, after earlier ones. The caller waits for the part of the
    /// passage that it needs. A message within a drive takes no time.
    ///
    /// # Panics
    /// If a drive does not exist.
    pub fn send(&self, from: Node, to: Node, data: u64) -> Passage {
        let Inner { clock, config, host, switches, drives, .. } = &*self.0;
        let bytes = wire_bytes(data);
        let mut way = Met { queued: Delay::ZERO, through: None };
        let mut hops = 1;
        match (from, to) {
            (Node::Drive(from), Node::Drive(to)) if from != to => {
                way.over(&drives[from].up, bytes);
                let (above, below) = (self.switch_of(from), self.switch_of(to));
                if above != below {
                    hops = 3;
                    way.over(&switches[above].up, bytes);
                    way.over(&switches[below].down, bytes);
                }
                way.over(&drives[to].down, bytes);
            }
            (Node::Drive(from), Node::Host) => {
                hops = 2;
                way.over(&drives[from].up, bytes);
                way.over(&switches[self.switch_of(from)].up, bytes);
                way.over(&host.up, bytes);
            }
            (Node::Host, Node::Drive(to)) => {
                hops = 2;
                way.over(&host.down, bytes);
                way.over(&switches[self.switch_of(to)].down, bytes);
                way.over(&drives[to].down, bytes);
            }
            (Node::Drive(_), Node::Drive(_)) | (Node::Host, Node::Host) => {}
        }
        let behind = config.framing + config.switch * hops;
        match way.through {
            Some(Passage { sent, arrival, .. }) => {
                Passage { queued: way.queued, sent, arrival: arrival + behind }
            }
            None => {
                let now = clock.now();
                Passage { queued: Delay::ZERO, sent: now, arrival: now }
            }
        }
    }

    /// Latency of a message on an idle fabric, without the time of its bytes.
    pub fn latency(&self, from: Node, to: Node) -> Delay {
        let config = &self.0.config;
        let hops = match (from, to) {
            (Node::Drive(from), Node::Drive(to)) if from == to => return Delay::ZERO,
            (Node::Host, Node::Host) => return Delay::ZERO,
            (Node::Drive(from), Node::Drive(to)) if self.switch_of(from) == self.switch_of(to) => 1,
            (Node::Drive(_), Node::Drive(_)) => 3,
            (Node::Host, Node::Drive(_)) | (Node::Drive(_), Node::Host) => 2,
        };
        config.framing + config.switch * hops
    }

    /// The distance between two nodes, for firmware that runs at one and uses memory at the other.
    pub fn distance(&self, here: Node, there: Node) -> SiteLink {
        let way = |from, to| Rc::new(FabricWay { fabric: self.clone(), from, to, bytes: Cell::default() });
        SiteLink::over(&self.0.clock, way(here, there), way(there, here))
    }

    /// Wire bytes that a node's port has carried: from the node, to the node.
    pub fn bytes(&self, node: Node) -> (u64, u64) {
        match node {
            Node::Host => (self.0.host.down.bytes(), self.0.host.up.bytes()),
            Node::Drive(drive) => (self.0.drives[drive].up.bytes(), self.0.drives[drive].down.bytes()),
        }
    }

    /// Busy time of each direction of a node's port: from the node, to the node.
    pub fn busy(&self, node: Node) -> (Delay, Delay) {
        match node {
            Node::Host => (self.0.host.down.busy(), self.0.host.up.busy()),
            Node::Drive(drive) => (self.0.drives[drive].up.busy(), self.0.drives[drive].down.busy()),
        }
    }
}

/// The path between two nodes of a fabric.
struct FabricWay {
    fabric: Fabric,
    from: Node,
    to: Node,
    bytes: Cell<u64>,
}

impl LinkDirection for FabricWay {
    fn send(&self, bytes: u64) -> Passage {
        self.bytes.set(self.bytes.get() + bytes);
        self.fabric.send(self.from, self.to, bytes)
    }

    fn ask(&self) -> Passage {
        self.fabric.send(self.from, self.to, 0)
    }

    fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    fn closed(&self) -> Option<&Notify> {
        self.fabric.lost_link(self.from, self.to).map(|link| &link.is_back)
    }
}

/// The progress of a message.
struct Met {
    queued: Delay,
    through: Option<Passage>,
}

impl Met {
    fn over(&mut self, pipe: &Pipe, bytes: u64) {
        let passage = pipe.send(bytes);
        self.queued = self.queued.max(passage.queued);
        let first = self.through.unwrap_or(passage);
        self.through = Some(Passage { arrival: first.arrival.max(passage.arrival), ..first });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::{Executor, Time};

    fn fabric(executor: &Executor) -> Fabric {
        Fabric::new(executor.clock(), FabricConfig::of_drives(12))
    }

    // A line costs its slots' part of a flit, whatever else the flit carries; at the price of a whole flit, locks and
    // map entries would look four times as expensive.
    #[test]
    fn a_line_is_five_slots_of_fifteen() {
        assert_eq!([0, 1, 64, 65, 4096].map(wire_bytes), [18, 86, 86, 171, 5462]);
    }

    // Neighbors are one switch apart, other drives three; the host is two away.
    #[test]
    fn a_message_takes_its_bytes_and_its_switches() {
        let executor = Executor::new();
        let bytes = Rate::per_second(16_000_000_000).time_for(86);
        for (from, to, switches) in [
            (Node::Drive(0), Node::Drive(3), 1),
            (Node::Drive(4), Node::Drive(8), 3),
            (Node::Host, Node::Drive(11), 2),
            (Node::Drive(9), Node::Host, 2),
        ] {
            let fabric = fabric(&executor);
            let passage = fabric.send(from, to, 64);
            let expected = bytes + Delay::from_ns(20 + 20 * switches);
            assert_eq!(passage.arrival, Time::ZERO + expected, "{from:?} to {to:?}");
            assert_eq!(fabric.latency(from, to) + bytes, expected);
        }
        let fabric = fabric(&executor);
        assert_eq!(fabric.send(Node::Drive(5), Node::Drive(5), 64).arrival, Time::ZERO, "its own memory");
    }

    // A message that crossed a lost link would let a drive work on memory that it can't reach; one that is held for too
    // long would hold its command after the link is back.
    #[test]
    fn what_meets_a_lost_link_waits_until_it_is_back() {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let fabric = fabric(&executor);
        let (lost, back) = (Delay::from_us(1), Delay::from_us(7));
        let [to, from, others] =
            [(0, 1), (1, 0), (2, 3)].map(|(from, to)| fabric.distance(Node::Drive(from), Node::Drive(to)));
        let ended: Rc<std::cell::RefCell<Vec<Time>>> = Rc::default();
        executor
            .run(async move {
                fabric.set_up(1, false);
                assert!(
                    !fabric.reaches(Node::Drive(0), Node::Drive(1))
                        && !fabric.reaches(Node::Drive(1), Node::Host)
                );
                assert!(
                    fabric.reaches(Node::Drive(1), Node::Drive(1))
                        && fabric.reaches(Node::Drive(2), Node::Host)
                );
                for distance in [to, from, others] {
                    let (clock_here, ended) = (clock.clone(), ended.clone());
                    clock.spawn("message", async move {
                        distance.write(64).await;
                        ended.borrow_mut().push(clock_here.now());
                    });
                }
                clock.sleep(lost).await;
                assert_eq!(ended.borrow().len(), 1, "the others' are not concerned");
                clock.sleep_until(Time::ZERO + back).await;
                fabric.set_up(1, true);
                clock.sleep(lost).await;
                assert!(
                    ended.borrow().len() == 3 && ended.borrow()[1..].iter().all(|at| *at > Time::ZERO + back)
                );
            })
            .unwrap();
    }

    // Messages that share a port wait for each other, others do not: without that, twelve drives would have twelve
    // fabrics.
    #[test]
    fn messages_contend_where_their_ways_meet() {
        let executor = Executor::new();
        let fabric = fabric(&executor);
        let page = Rate::per_second(16_000_000_000).time_for(wire_bytes(4096));
        assert_eq!(fabric.send(Node::Drive(0), Node::Drive(1), 4096).queued, Delay::ZERO);
        assert_eq!(fabric.send(Node::Drive(2), Node::Drive(1), 4096).queued, page, "to the same drive");
        assert_eq!(
            fabric.send(Node::Drive(1), Node::Drive(3), 4096).queued,
            Delay::ZERO,
            "the other direction"
        );
        assert_eq!(fabric.send(Node::Drive(4), Node::Drive(8), 4096).queued, Delay::ZERO);
        assert_eq!(fabric.send(Node::Drive(5), Node::Drive(9), 4096).queued, page, "the switches' own ports");
        assert_eq!(fabric.bytes(Node::Drive(1)), (5462, 2 * 5462));
        assert_eq!(fabric.bytes(Node::Host), (0, 0));
    }
}
