//! A network between two machines: one adapter (NIC) at each end of an Ethernet link, messages in order, and what crossed.
//!
//! A message becomes packets, each with the same overhead; the wire takes them at its rate, one direction apart from the other.
//! Beyond that a message takes the time of the sending adapter, of wire and switch, and of the receiving adapter, in which others
//! follow it: it is latency, not occupancy. What processors do for a message is for whoever sends and receives it.
//!
//! A payload is visible at its arrival, never before: it travels in the message.

use byteway_clock::{Clock, Delay, Mailbox, Pipe, Rate, Time};
use std::cell::RefCell;
use std::rc::Rc;

/// A network's constants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkConfig {
    /// What the wire carries, overhead included.
    pub rate: Rate,
    /// Wire and switch, one way.
    pub propagation: Delay,
    /// Payload of a packet, at most: at least 256 bytes.
    pub packet_bytes_max: u32,
    /// Bytes of a packet beside its payload: headers, checksums, preamble and gap.
    pub packet_overhead_bytes: u32,
    /// From the post of a message to its first byte on the wire: the adapter fetches the request and its payload.
    pub send: Delay,
    /// From a message's last byte on the wire until it is in memory.
    pub receive: Delay,
    /// What a message has of its own beside what it carries, by [`Parcel`].
    pub header_bytes: [u32; Parcel::ALL.len()],
}

impl NetworkConfig {
    /// Packets that a message of `bytes` takes: one at least.
    pub fn packets(&self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.packet_bytes_max)).max(1)
    }

    /// Bytes on the wire of a message of `bytes`.
    pub fn wire_bytes(&self, bytes: u64) -> u64 {
        bytes + self.packets(bytes) * u64::from(self.packet_overhead_bytes)
    }

    /// How long a message of `bytes` takes from its post to the other memory, on a wire that nobody else uses.
    pub fn latency(&self, bytes: u64) -> Delay {
        self.send + self.rate.time_for(self.wire_bytes(bytes)) + self.propagation + self.receive
    }
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Parcel {
    /// A command, with the data in its capsule.
    Command,
    /// A completion.
    Response,
    /// A request for data: an RDMA read, or R2T.
    DataRequest,
    /// Data by RDMA, or in PDUs of its own.
    Data,
    /// Opening and closing connections.
    Connection,
}

impl Parcel {
    /// All, in the order in which they are reported.
    pub const ALL: [Parcel; 5] =
        [Parcel::Command, Parcel::Response, Parcel::DataRequest, Parcel::Data, Parcel::Connection];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Parcel::Command => "command",
            Parcel::Response => "response",
            Parcel::DataRequest => "data request",
            Parcel::Data => "data",
            Parcel::Connection => "connection",
        }
    }
}

/// What went one way, of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Messages.
    pub messages: u64,
    /// Packets of them.
    pub packets: u64,
    /// Bytes of the messages.
    pub payload_bytes: u64,
    /// Bytes on the wire.
    pub wire_bytes: u64,
}

/// The two ledgers of a network's direction: payload bytes and wire bytes, by [`Parcel`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkLedger([Carried; Parcel::ALL.len()]);

impl NetworkLedger {
    /// What was carried of a kind.
    pub fn of(&self, parcel: Parcel) -> Carried {
        self.0[parcel as usize]
    }

    /// All of it.
    pub fn total(&self) -> Carried {
        self.0.iter().fold(Carried::default(), |sum, one| Carried {
            messages: sum.messages + one.messages,
            packets: sum.packets + one.packets,
            payload_bytes: sum.payload_bytes + one.payload_bytes,
            wire_bytes: sum.wire_bytes + one.wire_bytes,
        })
    }

    /// What was carried since `before`.
    pub fn since(&self, before: &NetworkLedger) -> NetworkLedger {
        let mut since = *self;
        for (now, then) in since.0.iter_mut().zip(&before.0) {
            now.messages -= then.messages;
            now.packets -= then.packets;
            now.payload_bytes -= then.payload_bytes;
            now.wire_bytes -= then.wire_bytes;
        }
        since
    }
}

/// One direction.
struct Lane<M> {
    wire: Pipe,
    letters: Mailbox<M>,
    ledger: RefCell<NetworkLedger>,
}

/// One machine's end: sends `S`, receives `R`. Cheap to clone; one task receives.
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

/// A network: both ends of it.
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
        letters: Mailbox::new(clock),
        ledger: RefCell::default(),
    })
}

impl<S, R> NetworkEnd<S, R> {
    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The network's constants.
    pub fn config(&self) -> &NetworkConfig {
        &self.config
    }

    /// Posts a message that carries `bytes`: it is there behind all that was posted before. `message` is told how long it waits
    /// for the wire. Gives when its last byte is at the other end's adapter.
    pub fn send(&self, parcel: Parcel, bytes: u64, message: impl FnOnce(Delay) -> S) -> Time {
        let bytes = bytes + u64::from(self.config.header_bytes[parcel as usize]);
        let wire_bytes = self.config.wire_bytes(bytes);
        let carried = &mut self.out.ledger.borrow_mut().0[parcel as usize];
        carried.messages += 1;
        carried.packets += self.config.packets(bytes);
        carried.payload_bytes += bytes;
        carried.wire_bytes += wire_bytes;
        let passage = self.out.wire.send(wire_bytes);
        self.out.letters.send_at(passage.arrival, message(passage.queued));
        passage.sent + self.config.send + self.config.propagation
    }

    /// The next message, when it is in memory.
    pub async fn receive(&self) -> R {
        self.back.letters.receive().await
    }

    /// What this end has sent.
    pub fn sent(&self) -> NetworkLedger {
        *self.out.ledger.borrow()
    }

    /// What was sent to it, what is under way included.
    pub fn received(&self) -> NetworkLedger {
        *self.back.ledger.borrow()
    }

    /// How long the wire has been busy, from this end and to it.
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
            header_bytes: [0; Parcel::ALL.len()],
        }
    }

    // Without this the price of a message could be anything: 4178 bytes at 12.5 GB/s take 334.24 ns.
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
                assert_eq!(near.send(Parcel::Data, 4096, free), Time(1_134_240));
                let behind = |queued| {
                    assert_eq!(queued, Delay(334_240));
                    2
                };
                near.send(Parcel::Response, 16, behind);
                assert_eq!(far.receive().await, 1);
                let first = clock.now();
                assert_eq!(far.receive().await, 2);
                let sent = near.sent();
                assert_eq!(sent, far.received());
                assert_eq!(sent.of(Parcel::Response).wire_bytes, 16 + 82);
                assert_eq!(sent.total().payload_bytes, 4096 + 16);
                (first, clock.now())
            })
            .unwrap();
        assert_eq!(times, (Time(1_334_240), Time(1_334_240 + 7_840)));
    }
}
