//! A network between two machines: an adapter (NIC) at each end of an Ethernet link, ordered messages, and
//! ledgers.
//!
//! A message becomes packets, each with the same overhead; the wire takes them at its rate, the two
//! directions independently. In addition a message takes the latency of the sending adapter, of wire and
//! switch, and of the receiving adapter. Messages overlap in these: they are latency, not occupancy.
//! Processor time is up to the sender and receiver.
//!
//! A payload travels in its message and is visible at its arrival, never before.

use byteway_clock::counters::Count;
use byteway_clock::{Clock, Delay, Mailbox, Pipe, Rate, Time};
use std::cell::RefCell;
use std::rc::Rc;

/// Constants of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkConfig {
    /// Bandwidth of the wire in bytes a second, overhead included.
    pub rate: Rate,
    /// Latency of wire and switch, one way.
    pub propagation: Delay,
    /// Maximum payload of a packet in bytes; at least 256.
    pub packet_bytes_max: u32,
    /// Overhead of a packet in bytes: headers, checksums, preamble and gap.
    pub packet_overhead_bytes: u32,
    /// Delay from the post of a message to its first byte on the wire: the adapter fetches the request and
    /// its payload.
    pub send: Delay,
    /// Delay from a message's last byte on the wire until it is in memory.
    pub receive: Delay,
    /// Header bytes of a message, by [`MessageKind`].
    pub header_bytes: [u32; MessageKind::ALL.len()],
}

impl NetworkConfig {
    /// Packets of a message of `bytes`, at least one.
    pub fn packets(&self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.packet_bytes_max)).max(1)
    }

    /// Wire bytes of a message of `bytes`.
    pub fn wire_bytes(&self, bytes: u64) -> u64 {
        bytes + self.packets(bytes) * u64::from(self.packet_overhead_bytes)
    }

    /// Latency of a message of `bytes` from its post to the remote memory, on an idle wire.
    pub fn latency(&self, bytes: u64) -> Delay {
        self.send + self.rate.time_for(self.wire_bytes(bytes)) + self.propagation + self.receive
    }
}

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum MessageKind {
    /// A command capsule, with its in-capsule data.
    Command,
    /// A response capsule.
    Response,
    /// A request for data: an RDMA read request, or R2T.
    DataRequest,
    /// Data by RDMA, or in its own PDUs.
    Data,
    /// Setup and teardown of connections.
    Connection,
}

impl MessageKind {
    /// All kinds, in report order.
    pub const ALL: [MessageKind; 5] = [
        MessageKind::Command,
        MessageKind::Response,
        MessageKind::DataRequest,
        MessageKind::Data,
        MessageKind::Connection,
    ];

    /// Name of the kind in reports.
    pub fn name(self) -> &'static str {
        match self {
            MessageKind::Command => "command",
            MessageKind::Response => "response",
            MessageKind::DataRequest => "data request",
            MessageKind::Data => "data",
            MessageKind::Connection => "connection",
        }
    }
}

byteway_clock::counters! {
    /// Messages of one [`MessageKind`] in one direction, with their bytes.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct MessageTraffic {
        /// Messages.
        pub messages: u64,
        /// Packets of these messages.
        pub packets: u64,
        /// Bytes of the messages, before packet overhead.
        pub payload_bytes: u64,
        /// Bytes on the wire.
        pub wire_bytes: u64,
    }
}

/// The ledgers of one direction of a network: payload bytes and wire bytes, by [`MessageKind`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkLedger([MessageTraffic; MessageKind::ALL.len()]);

impl NetworkLedger {
    /// Traffic of one kind.
    pub fn of(&self, kind: MessageKind) -> MessageTraffic {
        self.0[kind as usize]
    }

    /// Traffic of all kinds.
    pub fn total(&self) -> MessageTraffic {
        self.0.iter().fold(MessageTraffic::default(), |sum, one| sum + *one)
    }

    /// Traffic since the snapshot `before`.
    pub fn since(&self, before: &NetworkLedger) -> NetworkLedger {
        let mut since = *self;
        since.0.decrease(&before.0);
        since
    }
}

/// One direction of the wire.
struct Lane<M> {
    wire: Pipe,
    messages: Mailbox<M>,
    ledger: RefCell<NetworkLedger>,
}

/// One machine's end of a network: sends `S`, receives `R`. Cheap to clone; one task receives.
pub struct NetworkEnd<S, R> {
    clock: Clock,
    config: Rc<NetworkConfig>,
    out: Rc<Lane<S>>,
    back: Rc<Lane<R>>,
}

impl<S, R> Clone for NetworkEnd<S, R> {
    fn clone(&self) -> Self {
        let NetworkEnd { clock, config, out, back } = self;
        NetworkEnd { clock: clock.clone(), config: config.clone(), out: out.clone(), back: back.clone() }
    }
}

/// The two ends of a new network.
pub fn connect<S, R>(clock: &Clock, config: NetworkConfig) -> (NetworkEnd<S, R>, NetworkEnd<R, S>) {
    let config = Rc::new(config);
    let (out, back) = (lane(clock, &config), lane(clock, &config));
    let near =
        NetworkEnd { clock: clock.clone(), config: config.clone(), out: out.clone(), back: back.clone() };
    (near, NetworkEnd { clock: clock.clone(), config, out: back, back: out })
}

fn lane<M>(clock: &Clock, config: &NetworkConfig) -> Rc<Lane<M>> {
    let latency = config.send + config.propagation + config.receive;
    Rc::new(Lane {
        wire: Pipe::new(clock, config.rate, latency),
        messages: Mailbox::new(clock),
        ledger: RefCell::default(),
    })
}

impl<S, R> NetworkEnd<S, R> {
    /// The clock of this network.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The network's constants.
    pub fn config(&self) -> &NetworkConfig {
        &self.config
    }

    /// Posts a message that carries `bytes`; messages arrive in the order of posting. `message` receives the
    /// time that it waits for the wire. Returns when its last byte reaches the remote adapter.
    pub fn send(&self, kind: MessageKind, bytes: u64, message: impl FnOnce(Delay) -> S) -> Time {
        let bytes = bytes + u64::from(self.config.header_bytes[kind as usize]);
        let wire_bytes = self.config.wire_bytes(bytes);
        let carried = &mut self.out.ledger.borrow_mut().0[kind as usize];
        carried.messages += 1;
        carried.packets += self.config.packets(bytes);
        carried.payload_bytes += bytes;
        carried.wire_bytes += wire_bytes;
        let passage = self.out.wire.send(wire_bytes);
        self.out.messages.send_at(passage.arrival, message(passage.queued));
        passage.sent + self.config.send + self.config.propagation
    }

    /// Waits for the next message to be in memory.
    pub async fn receive(&self) -> R {
        self.back.messages.receive().await
    }

    /// Traffic sent by this end.
    pub fn sent(&self) -> NetworkLedger {
        *self.out.ledger.borrow()
    }

    /// Traffic sent to this end, including messages in flight.
    pub fn received(&self) -> NetworkLedger {
        *self.back.ledger.borrow()
    }

    /// Time for which the wire has been busy: from this end, and to it.
    pub fn busy(&self) -> (Delay, Delay) {
        (self.out.wire.busy(), self.back.wire.busy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byteway_clock::Executor;

    fn config() -> NetworkConfig {
        NetworkConfig {
            rate: Rate::per_second(12_500_000_000),
            propagation: Delay::from_ns(500),
            packet_bytes_max: 4096,
            packet_overhead_bytes: 82,
            send: Delay::from_ns(300),
            receive: Delay::from_ns(200),
            header_bytes: [0; MessageKind::ALL.len()],
        }
    }

    // Without this the cost of a message could be anything: 4178 bytes at 12.5 GB/s take 334.24 ns.
    #[test]
    fn a_message_takes_what_a_table_says() {
        let executor = Executor::new();
        let (near, far) = connect::<u32, u32>(executor.clock(), config());
        assert_eq!(config().packets(0), 1);
        assert_eq!(config().wire_bytes(8192), 8192 + 2 * 82);
        assert_eq!(config().latency(4096), Delay(334_240 + 1_000_000));
        let clock = executor.clock().clone();
        let times = executor
            .run(async move {
                let free = |queued| {
                    assert_eq!(queued, Delay::ZERO);
                    1
                };
                assert_eq!(near.send(MessageKind::Data, 4096, free), Time(1_134_240));
                let behind = |queued| {
                    assert_eq!(queued, Delay(334_240));
                    2
                };
                near.send(MessageKind::Response, 16, behind);
                assert_eq!(far.receive().await, 1);
                let first = clock.now();
                assert_eq!(far.receive().await, 2);
                let sent = near.sent();
                assert_eq!(sent, far.received());
                assert_eq!(sent.of(MessageKind::Response).wire_bytes, 16 + 82);
                assert_eq!(sent.total().payload_bytes, 4096 + 16);
                (first, clock.now())
            })
            .unwrap();
        assert_eq!(times, (Time(1_334_240), Time(1_334_240 + 7_840)));
    }
}
