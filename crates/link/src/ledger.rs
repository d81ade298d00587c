//! The two ledgers: what crossed the link, by purpose and direction, in payload bytes and in wire bytes.

use std::cell::RefCell;

/// Why something crossed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Purpose {
    /// A doorbell write.
    Doorbell,
    /// Another register, read or written.
    Register,
    /// Submission queue entries.
    SqeFetch,
    /// Payload placed in the submission queue.
    InlineChunk,
    /// A PRP list.
    PrpList,
    /// An SGL segment.
    SglSegment,
    /// The payload itself.
    Data,
    /// A completion queue entry.
    Cqe,
    /// An interrupt message.
    MsiX,
    /// Payload written to a BAR.
    MmioData,
    /// Loads and stores to memory in the device.
    CxlMem,
    /// From device to device.
    PeerToPeer,
    /// What the device keeps in memory that the host lends it.
    HostBuffer,
    /// What parts of the device's firmware on either side of the link tell each other.
    Firmware,
}

impl Purpose {
    /// All, in the order in which they are reported.
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

    /// Its name in reports.
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

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Direction {
    /// From the host to the device.
    Down,
    /// From the device to the host.
    Up,
}

impl Direction {
    /// Both.
    pub const ALL: [Direction; 2] = [Direction::Down, Direction::Up];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Down => "to device",
            Direction::Up => "to host",
        }
    }
}

/// What crossed for one purpose in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Transaction layer packets.
    pub tlps: u64,
    /// Payload bytes: what a performance counter monitor sees.
    pub payload: u64,
    /// Bytes with headers, sequence number, LCRC and framing: what the link is busy with.
    pub wire: u64,
}

impl Entry {
    fn add(&mut self, other: Entry) {
        self.tlps += other.tlps;
        self.payload += other.payload;
        self.wire += other.wire;
    }

    /// What it has more than `other`, field by field.
    fn beyond(self, other: Entry) -> Entry {
        Entry {
            tlps: self.tlps.saturating_sub(other.tlps),
            payload: self.payload.saturating_sub(other.payload),
            wire: self.wire.saturating_sub(other.wire),
        }
    }

    fn minus(self, other: Entry) -> Entry {
        Entry {
            tlps: self.tlps - other.tlps,
            payload: self.payload - other.payload,
            wire: self.wire - other.wire,
        }
    }
}

type Entries = [[Entry; 2]; Purpose::ALL.len()];

/// Every crossing, entered once.
#[derive(Default)]
pub struct Ledger(RefCell<Entries>);

impl Ledger {
    /// Enters a crossing.
    pub fn enter(&self, purpose: Purpose, direction: Direction, crossing: Entry) {
        self.0.borrow_mut()[purpose as usize][direction as usize].add(crossing);
    }

    /// What was entered for `from` was, in part, for `to`: a read of entries that fetched payload, too, as could be told
    /// only when it was there.
    pub fn reassign(&self, from: Purpose, to: Purpose, direction: Direction, part: Entry) {
        let mut entries = self.0.borrow_mut();
        let entry = &mut entries[from as usize][direction as usize];
        *entry = entry.minus(part);
        entries[to as usize][direction as usize].add(part);
    }

    /// What crossed for `purpose` in `direction`.
    pub fn entry(&self, purpose: Purpose, direction: Direction) -> Entry {
        self.0.borrow()[purpose as usize][direction as usize]
    }

    /// All purposes of one direction together.
    pub fn total(&self, direction: Direction) -> Entry {
        let mut sum = Entry::default();
        self.0.borrow().iter().for_each(|both| sum.add(both[direction as usize]));
        sum
    }

    /// Both directions of one purpose together.
    pub fn of(&self, purpose: Purpose) -> Entry {
        let mut sum = self.entry(purpose, Direction::Down);
        sum.add(self.entry(purpose, Direction::Up));
        sum
    }

    /// All of it together.
    pub fn sum(&self) -> Entry {
        let mut sum = self.total(Direction::Down);
        sum.add(self.total(Direction::Up));
        sum
    }

    /// A copy to subtract later with [`Ledger::since`].
    pub fn snapshot(&self) -> Ledger {
        Ledger(RefCell::new(*self.0.borrow()))
    }

    /// What was entered here and in `other`.
    pub fn with(&self, other: &Ledger) -> Ledger {
        let mut entries = *self.0.borrow();
        let others = other.0.borrow();
        entries
            .iter_mut()
            .flatten()
            .zip(others.iter().flatten())
            .for_each(|(entry, other)| entry.add(*other));
        Ledger(RefCell::new(entries))
    }

    /// What was entered after `earlier` was copied. Of a crossing from before that was [reassigned](Ledger::reassign) since,
    /// nothing is in it: what would be too little for one purpose is too much for the other.
    pub fn since(&self, earlier: &Ledger) -> Ledger {
        let mut entries = *self.0.borrow();
        let then = earlier.0.borrow();
        for direction in Direction::ALL.map(|direction| direction as usize) {
            let (fetch, chunk) = (Purpose::SqeFetch as usize, Purpose::InlineChunk as usize);
            let before = then[fetch][direction].beyond(entries[fetch][direction]);
            entries[fetch][direction].add(before);
            entries[chunk][direction] = entries[chunk][direction].minus(before);
        }
        for (now, then) in entries.iter_mut().flatten().zip(then.iter().flatten()) {
            *now = now.minus(*then);
        }
        Ledger(RefCell::new(entries))
    }
}
