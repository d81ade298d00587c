//! A PCIe switch: several links behind one shared upstream link.
//!
//! Packets are cut through: a packet occupies its own link and the upstream link at once, and takes the
//! slower of the two plus the switch's latency and the propagation of both links. So a port that is active
//! alone is as fast as without a switch except for those delays, and ports that are active together share the
//! upstream link in the order in which they send.
//!
//! Each port has a buffer in the switch for either direction. While it has free space, data have left their
//! sender once they have left its own link. When it is full, the sender waits until the upstream link has
//! taken earlier data, as it would for flow-control credits (PCIe Base 6.0, 2.6.1).
//!
//! What it does not do: it routes no packets between two ports (peer to peer), and gives no port priority.
//! The ledgers are those of the ports' links; the traffic of the upstream link is their sum.

use crate::ledger::Direction;
use crate::pcie::PcieConfig;
use byteway_clock::{Clock, Delay, Passage, Pipe};
use std::rc::Rc;

/// Constants of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// The link between host and switch.
    pub upstream: PcieConfig,
    /// Latency from port to port, links excluded.
    pub latency: Delay,
    /// Buffer of a port in each direction, in bytes.
    pub buffer_bytes: u64,
}

/// A switch. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct Switch(Rc<Inner>);

struct Inner {
    down: Pipe,
    up: Pipe,
    latency: Delay,
    buffer: Delay,
}

impl Switch {
    /// A switch with the upstream link `config.upstream`, which must be valid ([`PcieConfig::validate`]).
    pub fn new(clock: &Clock, config: &SwitchConfig) -> Switch {
        let rate = config.upstream.rate();
        let pipe = || Pipe::new(clock, rate, config.upstream.propagation);
        let buffer = rate.time_for(config.buffer_bytes);
        Switch(Rc::new(Inner { down: pipe(), up: pipe(), latency: config.latency, buffer }))
    }

    /// Forwards `bytes` that take the passage `own` over a port's own link. Returns the passage over both
    /// links.
    pub(crate) fn pass(&self, direction: Direction, own: Passage, bytes: u64) -> Passage {
        let Inner { down, up, latency, buffer } = &*self.0;
        let shared = match direction {
            Direction::Down => down,
            Direction::Up => up,
        };
        let upstream = shared.send(bytes);
        let through = own.sent.max(upstream.sent);
        let behind = own.arrival.since(own.sent) + upstream.arrival.since(upstream.sent) + *latency;
        let let_go = upstream.sent.0.saturating_sub(buffer.0);
        Passage {
            queued: own.queued.max(upstream.queued),
            sent: own.sent.max(byteway_clock::Time(let_go)),
            arrival: through + behind,
        }
    }

    /// Time for which each direction of the upstream link has been busy: down, up.
    pub fn busy(&self) -> (Delay, Delay) {
        (self.0.down.busy(), self.0.up.busy())
    }

    /// Bytes that crossed the upstream link, overhead included: down, up.
    pub fn bytes(&self) -> (u64, u64) {
        (self.0.down.bytes(), self.0.up.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Purpose;
    use crate::memory::Memory;
    use crate::pcie::Generation;
    use crate::port::Link;
    use byteway_clock::{Executor, Time};
    use byteway_content::{Content, UNIT_BYTES};

    /// 2 GB/s, 256 bytes a packet: a write of 4 KiB takes 16 x (256 + 24) bytes, 2,240 ns.
    fn link() -> PcieConfig {
        PcieConfig {
            generation: Generation::Gen2,
            lanes: 4,
            mps: 256,
            mrrs: 512,
            rcb: 64,
            read_tags: 32,
            propagation: Delay::from_ns(100),
            memory_latency: Delay::from_ns(150),
            slowdown: 1,
        }
    }

    /// Departure and arrival of each page, sent at once by two ports in turn.
    fn two_ports(buffer_bytes: u64, pages: usize) -> Vec<(Time, Time)> {
        let executor = Executor::new();
        let clock = executor.clock().clone();
        let config = SwitchConfig { upstream: link(), latency: Delay::from_ns(150), buffer_bytes };
        let switch = Switch::new(&clock, &config);
        let ports: Vec<_> =
            (0..2).map(|_| Link::connect_behind(&switch, &clock, link(), Memory::simulated())).collect();
        let mut passages = Vec::new();
        for page in 0..pages {
            let (host, device) = &ports[page % 2];
            let address = host.memory().allocate(1).expect("memory");
            let epoch = device.epoch();
            let passage = device
                .write_content(address, Content::Zero, 0, UNIT_BYTES as u32, epoch, Purpose::Data)
                .expect("memory that is there");
            passages.push((passage.sent, passage.arrival));
        }
        let wire = switch.bytes().1;
        assert_eq!(
            wire,
            ports.iter().map(|(host, _)| host.ledger().entry(Purpose::Data, Direction::Up).wire).sum::<u64>()
        );
        passages
    }

    // Behind a switch two endpoints share one link's rate. Without this a drive of several endpoints could be
    // arbitrarily fast.
    #[test]
    fn ports_share_the_upstream_link() {
        let passages = two_ports(1 << 20, 4);
        let first = passages[0].0.0;
        let behind = Delay::from_ns(100 + 100 + 150).0;
        for (number, (sent, arrival)) in (1..).zip(&passages) {
            // Page by page over the upstream link.
            assert_eq!(arrival.0, number * first + behind, "page {number}");
            // Over its own link each port has sent its first when the other has sent its first.
            assert_eq!(sent.0, number.div_ceil(2) * first, "page {number}");
        }
    }

    // A port whose buffer is full must wait: otherwise an endpoint would hand over data that the link cannot
    // take yet.
    #[test]
    fn a_full_buffer_holds_the_sender() {
        let passages = two_ports(UNIT_BYTES as u64, 8);
        let first = passages[0].0.0;
        let buffer = link().rate().time_for(UNIT_BYTES as u64).0;
        let (sent, _) = passages[7];
        assert_eq!(sent.0, 8 * first - buffer);
        assert!(sent.0 > 4 * first, "its own link alone would have been done earlier");
    }
}
