//! The two ledgers: traffic of the link by purpose and direction, in payload bytes and in wire bytes.
//!
//! A crossing is entered at once, under the purpose that is known then, and moved if it turns out to have had another.
//! Entered only when its purpose is certain, it would be missing from a total that is taken meanwhile.

use byteway_clock::counters::Count;
use std::cell::RefCell;

/// Purpose of a crossing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Purpose {
    /// A doorbell write.
    Doorbell,
    /// A read or write of any other register.
    Register,
    /// A read of submission queue entries.
    SqeFetch,
    /// Payload placed in the submission queue.
    InlineChunk,
    /// A PRP list.
    PrpList,
    /// An SGL segment.
    SglSegment,
    /// Payload that follows a data pointer.
    Data,
    /// A completion queue entry.
    Cqe,
    /// An interrupt message.
    MsiX,
    /// Payload written to a BAR.
    MmioData,
    /// Loads and stores to device memory.
    CxlMem,
    /// A transfer from device to device.
    PeerToPeer,
    /// The device's use of a host memory buffer.
    HostBuffer,
    /// Messages between parts of the device's firmware on either side of the link.
    Firmware,
}

impl Purpose {
    /// All purposes, in report order.
    pub const ALL: [Purpose; 14] = [
        Purpose::Doorbell,
        Purpose::Register,
        Purpose::SqeFetch,
        Purpose::InlineChunk,
        Purpose::PrpList,
        Purpose::SglSegment,
        Purpose::Data,
        Purpose::Cqe,
        Purpose::MsiX,
        Purpose::MmioData,
        Purpose::CxlMem,
        Purpose::PeerToPeer,
        Purpose::HostBuffer,
        Purpose::Firmware,
    ];

    /// Name of the purpose in reports.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Doorbell => "doorbell",
            Purpose::Register => "register",
            Purpose::SqeFetch => "SQE fetch",
            Purpose::InlineChunk => "inline chunk",
            Purpose::PrpList => "PRP list",
            Purpose::SglSegment => "SGL segment",
            Purpose::Data => "data",
            Purpose::Cqe => "CQE",
            Purpose::MsiX => "MSI-X",
            Purpose::MmioData => "MMIO data",
            Purpose::CxlMem => "CXL.mem",
            Purpose::PeerToPeer => "peer-to-peer",
            Purpose::HostBuffer => "host buffer",
            Purpose::Firmware => "firmware",
        }
    }
}

/// Direction of a crossing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Direction {
    /// From the host to the device.
    Down,
    /// From the device to the host.
    Up,
}

impl Direction {
    /// Both directions, down first.
    pub const ALL: [Direction; 2] = [Direction::Down, Direction::Up];

    /// Name of the direction in reports.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Down => "to device",
            Direction::Up => "to host",
        }
    }
}

byteway_clock::counters! {
    /// Traffic of one purpose in one direction.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Entry {
        /// Transaction layer packets.
        pub tlps: u64,
        /// Payload bytes, as a performance counter monitor sees them.
        pub payload: u64,
        /// Bytes with headers, sequence number, LCRC and framing, for which the link is busy.
        pub wire: u64,
    }
}

impl Entry {
    /// The difference to `other` by field, zero where `other` is larger.
    fn beyond(self, other: Entry) -> Entry {
        Entry {
            tlps: self.tlps.saturating_sub(other.tlps),
            payload: self.payload.saturating_sub(other.payload),
            wire: self.wire.saturating_sub(other.wire),
        }
    }
}

type Entries = [[Entry; 2]; Purpose::ALL.len()];

/// Traffic by purpose and direction; each crossing is entered once.
#[derive(Default)]
pub struct Ledger(RefCell<Entries>);

impl Ledger {
    /// Enters a crossing.
    pub fn enter(&self, purpose: Purpose, direction: Direction, crossing: Entry) {
        debug_assert!(crossing.payload <= crossing.wire, "payload is a part of what crosses the wire");
        self.0.borrow_mut()[purpose as usize][direction as usize] += crossing;
    }

    /// Moves `part` of the traffic entered for `from` to `to`: a read of submission queue entries may turn
    /// out, once its data are here, to have fetched payload as well.
    pub fn reassign(&self, from: Purpose, to: Purpose, direction: Direction, part: Entry) {
        let whole = cfg!(debug_assertions).then(|| self.total(direction));
        let mut entries = self.0.borrow_mut();
        let entry = &mut entries[from as usize][direction as usize];
        debug_assert!(
            part.tlps <= entry.tlps && part.payload <= entry.payload && part.wire <= entry.wire,
            "more is reassigned than was entered"
        );
        *entry = *entry - part;
        entries[to as usize][direction as usize] += part;
        drop(entries);
        debug_assert!(
            whole.is_none_or(|whole| whole == self.total(direction)),
            "a reassignment changes the sum"
        );
    }

    /// Traffic of `purpose` in `direction`.
    pub fn entry(&self, purpose: Purpose, direction: Direction) -> Entry {
        self.0.borrow()[purpose as usize][direction as usize]
    }

    /// Traffic of all purposes in one direction.
    pub fn total(&self, direction: Direction) -> Entry {
        let mut sum = Entry::default();
        self.0.borrow().iter().for_each(|both| sum += both[direction as usize]);
        sum
    }

    /// Traffic of one purpose in both directions.
    pub fn of(&self, purpose: Purpose) -> Entry {
        self.entry(purpose, Direction::Down) + self.entry(purpose, Direction::Up)
    }

    /// All traffic.
    pub fn sum(&self) -> Entry {
        self.total(Direction::Down) + self.total(Direction::Up)
    }

    /// A copy, for a later [`Ledger::since`].
    pub fn snapshot(&self) -> Ledger {
        Ledger(RefCell::new(*self.0.borrow()))
    }

    /// The sum of this ledger and `other`.
    pub fn with(&self, other: &Ledger) -> Ledger {
        let mut entries = *self.0.borrow();
        let others = other.0.borrow();
        entries.increase(&others);
        Ledger(RefCell::new(entries))
    }

    /// Traffic entered after the snapshot `earlier`. A crossing that was entered before the snapshot and
    /// [reassigned](Ledger::reassign) after it does not appear: it would make one purpose negative and
    /// another too large.
    pub fn since(&self, earlier: &Ledger) -> Ledger {
        let mut entries = *self.0.borrow();
        let then = earlier.0.borrow();
        for direction in Direction::ALL.map(|direction| direction as usize) {
            let (fetch, chunk) = (Purpose::SqeFetch as usize, Purpose::InlineChunk as usize);
            let before = then[fetch][direction].beyond(entries[fetch][direction]);
            entries[fetch][direction] += before;
            entries[chunk][direction] = entries[chunk][direction] - before;
        }
        entries.decrease(&then);
        Ledger(RefCell::new(entries))
    }
}
