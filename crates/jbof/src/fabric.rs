//! The CXL fabric of a box: a tree of switches, the host at its root, drives at its leaves (Figure 9).
//!
//! A message is cut through: it is on every hop of its way at once, and takes what the slowest of them takes, the latency of each
//! switch and the framing at its end. Every port sends one message after another in either direction, so messages contend wherever
//! their ways meet.
//!
//! Flits of 256 bytes carry 15 slots of 16 bytes (CXL 3.0, 4.3): a line of 64 bytes is a slot of header and four of data. Messages
//! share flits, so a message takes its slots' part of them.
//!
//! **A port that is down** ([`Fabric::set_up`]): the link between a drive and its switch is lost, as by a cable that is pulled out, and may
//! come back. What was sent before is there or arrives. From then on nothing enters or leaves the drive:
//!
//! - Accesses of firmware to another drive's memory, and messages into its queues, *wait* ([`Way::closed`]): the port holds them, as
//!   the link layer holds flits for its retry. They go when the link is back, or never, if who has sent them gives up.
//! - Who can do without an answer *asks first* ([`Fabric::reaches`]), as a port tells its requester at once that it is down (CXL 3.0, 12.3,
//!   isolation): a daemon that reads a table is told that there is none.
//!
//! Links between drives and host, by which payload, commands and completions go, are others, and are not concerned.
//!
//! What it does not do: no back pressure between switches, and no priority of one kind of message over another.

use byteway_clock::{Clock, Delay, Notify, Passage, Pipe, Rate};
use byteway_firmware::{Distance, Way};
use std::cell::Cell;
use std::rc::Rc;

/// A line of memory.
pub const LINE_BYTES: u64 = 64;
const FLIT_BYTES: u64 = 256;
const SLOTS_OF_FLIT: u64 = 15;
const SLOTS_OF_LINE: u64 = 5;

/// The constants of a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricConfig {
    /// Drives, at least one.
    pub drives: usize,
    /// Drives at each switch of the lowest level, at least one.
    pub drives_of_switch: usize,
    /// What a port carries each way, bytes a second.
    pub port: Rate,
    /// From one port of a switch to another.
    pub switch: Delay,
    /// Putting a message into flits and taking it out.
    pub framing: Delay,
}

impl FabricConfig {
    /// That of the paper's simulator: ports of 16 GB/s, framing of 20 ns, 16 to 25 ns a switch (Table 2; the simulator's published
    /// configuration), for so many drives.
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

/// An end of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// The host, at the root.
    Host,
    /// A drive, by its number from 0.
    Drive(usize),
}

/// Both directions of a port.
struct Port {
    /// To the switch above.
    up: Pipe,
    /// From there.
    down: Pipe,
}

/// A fabric. Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct Fabric(Rc<Inner>);

struct Inner {
    clock: Clock,
    config: FabricConfig,
    host: Port,
    switches: Vec<Port>,
    drives: Vec<Port>,
    /// Of the drives.
    links: Vec<Link>,
}

/// Whether a drive's link to its switch is there.
struct Link {
    is_down: Cell<bool>,
    /// It is back.
    is_back: Notify,
}

/// Bytes that a message of so many bytes of data takes on the wire; one of none is a header.
pub fn wire_bytes(data: u64) -> u64 {
    let slots = data.div_ceil(LINE_BYTES).saturating_mul(SLOTS_OF_LINE).max(1);
    slots.saturating_mul(FLIT_BYTES).div_ceil(SLOTS_OF_FLIT)
}

impl Fabric {
    /// A fabric that is idle.
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

    /// The link between a drive and its switch is there from now on, or is not. At first it is.
    ///
    /// # Panics
    /// There is no such drive.
    pub fn set_up(&self, drive: usize, is_up: bool) {
        let link = &self.0.links[drive];
        link.is_down.set(!is_up);
        if is_up {
            link.is_back.notify_all();
        }
    }

    /// The link that is not there of those that a message between two ends has to pass.
    fn lost_link(&self, from: Node, to: Node) -> Option<&Link> {
        let of = |node| if let Node::Drive(drive) = node { self.0.links.get(drive) } else { None };
        let is_down = |link: &&Link| link.is_down.get();
        if from == to {
            return None; // its own memory
        }
        of(from).filter(is_down).or_else(|| of(to).filter(is_down))
    }

    /// Whether what is sent from one end to another gets there now.
    pub fn reaches(&self, from: Node, to: Node) -> bool {
        self.lost_link(from, to).is_none()
    }

    /// Drives that it has ports for.
    pub fn drives(&self) -> usize {
        self.0.drives.len()
    }

    fn switch_of(&self, drive: usize) -> usize {
        drive / self.0.config.drives_of_switch.max(1)
    }

    /// Sends a message with `data` bytes from one end to another, behind what was sent before. The caller waits for what it needs of
    /// the passage. What stays within a drive takes no time.
    ///
    /// # Panics
    /// There is no such drive.
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

    /// How long a message takes that meets no other, beyond its bytes.
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

    /// What lies between two ends, for firmware that works at one on what is at the other.
    pub fn distance(&self, here: Node, there: Node) -> Distance {
        let way = |from, to| Rc::new(FabricWay { fabric: self.clone(), from, to, bytes: Cell::default() });
        Distance::over(&self.0.clock, way(here, there), way(there, here))
    }

    /// Bytes on the wire that an end's port has carried: from it, to it.
    pub fn bytes(&self, node: Node) -> (u64, u64) {
        match node {
            Node::Host => (self.0.host.down.bytes(), self.0.host.up.bytes()),
            Node::Drive(drive) => (self.0.drives[drive].up.bytes(), self.0.drives[drive].down.bytes()),
        }
    }

    /// How long each direction of an end's port has been busy: from it, to it.
    pub fn busy(&self, node: Node) -> (Delay, Delay) {
        match node {
            Node::Host => (self.0.host.down.busy(), self.0.host.up.busy()),
            Node::Drive(drive) => (self.0.drives[drive].up.busy(), self.0.drives[drive].down.busy()),
        }
    }
}

/// The way from one end of a fabric to another.
struct FabricWay {
    fabric: Fabric,
    from: Node,
    to: Node,
    bytes: Cell<u64>,
}

impl Way for FabricWay {
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

/// What a message has met so far.
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

    // A line costs what its slots are of a flit, whatever else is in the flit; a message that cost a whole flit would make locks and
    // entries of the map look four times as dear.
    #[test]
    fn a_line_is_five_slots_of_fifteen() {
        assert_eq!([0, 1, 64, 65, 4096].map(wire_bytes), [18, 86, 86, 171, 5462]);
    }

    // Neighbours are one switch apart, others three; the host two.
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

    // A message that got through a lost link would make a drive work on what it can't see; one that never went on would hold its command
    // after the link is back.
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

    // Messages that share a port wait for each other, and those that don't do not: without that twelve drives are twelve fabrics.
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
