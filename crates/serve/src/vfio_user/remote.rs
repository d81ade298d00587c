//! Memory of the client that is not shared: each access is a message to the client and its answer.

use super::channel::{Channel, Gone, Message};
use super::message::{Command, DATA_BYTES_MAX, DATA_BYTES_MIN, DmaAccess, Header, RegionAccess, take};
use byteway_clock::{Clock, TaskId};
use byteway_link::Fault;
use byteway_link::memory::Remote;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use zerocopy::IntoBytes;

/// What is kept of a client's requests while its answer is waited for, at most.
const KEPT_MAX: usize = 256;
const KEPT_BYTES_MAX: usize = 4 << 20;

/// A connection to a client, whose messages one task takes while any task may ask it for memory.
pub struct Line {
    channel: Channel,
    clock: Clock,
    /// Requests that came while an answer was waited for.
    kept: RefCell<VecDeque<Message>>,
    kept_bytes: Cell<usize>,
    /// Who waits for the next message.
    waits: Cell<Option<TaskId>>,
    data_bytes_max: Cell<usize>,
    placement: Cell<Placement>,
}

/// Where a client has the data of DMA_READ and DMA_WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placement {
    Unknown,
    /// Behind a count of 64 bits, as the protocol has it.
    Specified,
    /// Behind a count of 32 bits, with 4 unused bytes at the end: QEMU up to 11.1 at least.
    Early,
}

/// Bytes of the structure before the data.
const ACCESS_BYTES: usize = size_of::<DmaAccess>();
/// By how much data is earlier in [`Placement::Early`].
const EARLIER_BYTES: usize = 4;

impl Line {
    /// On a connection of `clock`'s executor.
    pub fn new(clock: &Clock, channel: Channel) -> Self {
        Line {
            channel,
            clock: clock.clone(),
            kept: RefCell::default(),
            kept_bytes: Cell::new(0),
            waits: Cell::new(None),
            data_bytes_max: Cell::new(DATA_BYTES_MAX),
            placement: Cell::new(Placement::Unknown),
        }
    }

    /// The connection.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// The most data that the client takes with one message.
    pub fn set_data_bytes_max(&self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(DATA_BYTES_MAX);
        self.data_bytes_max.set(bytes.clamp(DATA_BYTES_MIN, DATA_BYTES_MAX));
    }

    /// The client's next message. Sends meanwhile what waits to be sent. For one task at a time.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn next(&self) -> Result<Message, Gone> {
        loop {
            if let Some(message) = self.kept.borrow_mut().pop_front() {
                self.kept_bytes.set(self.kept_bytes.get() - message.payload.len());
                return Ok(message);
            }
            if let Some(message) = self.channel.try_receive()? {
                return Ok(message);
            }
            let is_sent = self.channel.flush()?;
            let socket = self.channel.socket();
            let mut readable = self.clock.readable(socket);
            let mut writable = (!is_sent).then(|| self.clock.writable(socket));
            poll_fn(|context| {
                self.waits.set(Some(self.clock.current()));
                let is_readable = Pin::new(&mut readable).poll(context).is_ready();
                let writable = writable.as_mut();
                let is_writable = writable.is_some_and(|it| Pin::new(it).poll(context).is_ready());
                let is_over = is_readable || is_writable || !self.kept.borrow().is_empty();
                if is_over { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            self.waits.set(None);
        }
    }

    /// Sends a request of this side and waits for its answer; the client's own requests are kept for
    /// [`Line::next`].
    fn ask(&self, command: Command, parts: &[&[u8]]) -> Result<Message, Gone> {
        self.channel.ask(command, parts, &[], |message| self.keep(message))
    }

    fn keep(&self, mut message: Message) -> Result<(), Gone> {
        let bytes = self.kept_bytes.get() + message.payload.len();
        if self.kept.borrow().len() == KEPT_MAX || bytes > KEPT_BYTES_MAX {
            return Err(self.channel.end(Gone::Flood));
        }
        self.post(&mut message)?;
        self.kept_bytes.set(bytes);
        self.kept.borrow_mut().push_back(message);
        if let Some(task) = self.waits.get() {
            self.clock.wake(task);
        }
        Ok(())
    }

    /// Answers a register write before it is done. On PCI a write is posted: nobody waits for it. QEMU does, and with a
    /// lock held that it needs to answer this side's request: both would wait for each other.
    fn post(&self, message: &mut Message) -> Result<(), Gone> {
        let header = message.header;
        if header.command() != Command::REGION_WRITE || header.flags.get() != Header::REQUEST {
            return Ok(());
        }
        match take::<RegionAccess>(&message.payload) {
            Some((access, data)) if access.count.get() as usize == data.len() => {
                message.header.flags = Header::NO_REPLY.into();
                self.channel.send(header.reply(), &[access.as_bytes()], &[])
            }
            _ => Ok(()),
        }
    }

    fn read_at(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let fault = Fault { address, bytes: into.len() as u64 };
        let answer = self.answer_to_read(address, into.len()).ok_or(fault)?;
        if self.placement.get() == Placement::Unknown {
            self.placement.set(self.placement_in(address, &answer, into.len()).ok_or(fault)?);
        }
        let at = match self.placement.get() {
            Placement::Early => ACCESS_BYTES - EARLIER_BYTES,
            Placement::Specified | Placement::Unknown => ACCESS_BYTES,
        };
        into.copy_from_slice(&answer[at..at + into.len()]);
        self.channel.recycle(answer);
        Ok(())
    }

    /// The payload of the answer, which has room for the data in either placement.
    fn answer_to_read(&self, address: u64, bytes: usize) -> Option<Vec<u8>> {
        let access = DmaAccess { address: address.into(), count: (bytes as u64).into() };
        let answer = self.ask(Command::DMA_READ, &[access.as_bytes()]).ok()?;
        let is_whole = answer.payload.len() == ACCESS_BYTES + bytes;
        (!answer.header.has(Header::ERROR) && is_whole).then_some(answer.payload)
    }

    /// Which placement an answer of `bytes` read at `address` has. Where the two differ, one has zeroes.
    fn placement_in(&self, address: u64, answer: &[u8], bytes: usize) -> Option<Placement> {
        let is_zero = |part: &[u8]| part.iter().all(|byte| *byte == 0);
        let data = &answer[ACCESS_BYTES..];
        if !is_zero(&answer[ACCESS_BYTES - EARLIER_BYTES..ACCESS_BYTES]) {
            return Some(Placement::Early);
        }
        if !is_zero(&data[bytes.saturating_sub(EARLIER_BYTES)..]) {
            return Some(Placement::Specified);
        }
        // All zeroes: it makes no difference, and nothing is known.
        let Some(first) = data.iter().position(|byte| *byte != 0) else { return Some(Placement::Unknown) };
        // If the data is early, this byte is 4 further on in memory. There is room: the last 4 are zeroes.
        let answer = self.answer_to_read(address + (first + EARLIER_BYTES) as u64, 1)?;
        Some(match answer[ACCESS_BYTES - EARLIER_BYTES] {
            0 => Placement::Specified,
            _ => Placement::Early,
        })
    }

    fn write_at(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        let fault = Fault { address, bytes: from.len() as u64 };
        self.send_write(address, from).ok_or(fault)?;
        if self.placement.get() == Placement::Unknown && from.iter().any(|byte| *byte != 0) {
            // Reading it back tells.
            self.read_at(address, &mut vec![0; from.len()])?;
            if self.placement.get() == Placement::Early {
                self.send_write(address, from).ok_or(fault)?;
            }
        }
        Ok(())
    }

    fn send_write(&self, address: u64, from: &[u8]) -> Option<()> {
        let access = DmaAccess { address: address.into(), count: (from.len() as u64).into() };
        let answer = match self.placement.get() {
            Placement::Early => {
                let head = &access.as_bytes()[..ACCESS_BYTES - EARLIER_BYTES];
                self.ask(Command::DMA_WRITE, &[head, from, &[0; EARLIER_BYTES]])
            }
            Placement::Specified | Placement::Unknown => {
                self.ask(Command::DMA_WRITE, &[access.as_bytes(), from])
            }
        };
        let is_done = answer.is_ok_and(|answer| !answer.header.has(Header::ERROR));
        is_done.then_some(())
    }
}

/// The client's memory through its connection.
pub struct ClientMemory(pub Rc<Line>);

impl Remote for ClientMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let mut at = address;
        for part in into.chunks_mut(self.0.data_bytes_max.get()) {
            self.0.read_at(at, part)?;
            at = at.wrapping_add(part.len() as u64); // after the last part only
        }
        Ok(())
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        let mut at = address;
        for part in from.chunks(self.0.data_bytes_max.get()) {
            self.0.write_at(at, part)?;
            at = at.wrapping_add(part.len() as u64); // after the last part only
        }
        Ok(())
    }
}
