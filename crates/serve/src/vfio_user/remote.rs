//! Client memory that is not shared: each access is a message to the client and its reply.

use super::channel::{Channel, Gone, Message};
use super::message::{Command, DATA_BYTES_MAX, DATA_BYTES_MIN, DmaAccess, Header, take};
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

/// Requests of the client kept while this side waits for a reply, at most.
const KEPT_MAX: usize = 256;
const KEPT_BYTES_MAX: usize = 4 << 20;

/// A connection to a client. One task takes its messages, while any task may access its memory.
pub struct Line {
    channel: Channel,
    clock: Clock,
    /// Requests that arrived during the wait for a reply.
    kept: RefCell<VecDeque<Message>>,
    kept_bytes: Cell<usize>,
    /// The task that waits for the next message.
    waits: Cell<Option<TaskId>>,
    data_bytes_max: Cell<usize>,
}

impl Line {
    /// A connection in `clock`'s executor.
    pub fn new(clock: &Clock, channel: Channel) -> Self {
        Line {
            channel,
            clock: clock.clone(),
            kept: RefCell::default(),
            kept_bytes: Cell::new(0),
            waits: Cell::new(None),
            data_bytes_max: Cell::new(DATA_BYTES_MAX),
        }
    }

    /// The connection.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Sets the most data bytes that the client accepts in one message.
    pub fn set_data_bytes_max(&self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(DATA_BYTES_MAX);
        self.data_bytes_max.set(bytes.clamp(DATA_BYTES_MIN, DATA_BYTES_MAX));
    }

    /// The client's next message. Sends pending bytes meanwhile. For one task at a time.
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

    /// Sends a request and waits for its reply; requests of the client are kept for [`Line::next`].
    fn ask(&self, command: Command, parts: &[&[u8]]) -> Result<Message, Gone> {
        self.channel.ask(command, parts, &[], |message| self.keep(message))
    }

    fn keep(&self, message: Message) -> Result<(), Gone> {
        let bytes = self.kept_bytes.get() + message.payload.len();
        if self.kept.borrow().len() == KEPT_MAX || bytes > KEPT_BYTES_MAX {
            return Err(self.channel.end(Gone::Flood));
        }
        self.kept_bytes.set(bytes);
        self.kept.borrow_mut().push_back(message);
        if let Some(task) = self.waits.get() {
            self.clock.wake(task);
        }
        Ok(())
    }

    fn read_at(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let fault = Fault { address, bytes: into.len() as u64 };
        let access = DmaAccess { address: address.into(), count: fault.bytes.into() };
        let answer = self.ask(Command::DMA_READ, &[access.as_bytes()]).map_err(|_| fault)?;
        let data = take::<DmaAccess>(&answer.payload).map(|(_, data)| data);
        let data = data.filter(|data| !answer.header.has(Header::ERROR) && data.len() == into.len());
        into.copy_from_slice(data.ok_or(fault)?);
        self.channel.recycle(answer.payload);
        Ok(())
    }

    fn write_at(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        let fault = Fault { address, bytes: from.len() as u64 };
        let access = DmaAccess { address: address.into(), count: fault.bytes.into() };
        let answer = self.ask(Command::DMA_WRITE, &[access.as_bytes(), from]).map_err(|_| fault)?;
        // QEMU replies with a header alone.
        if answer.header.has(Header::ERROR) { Err(fault) } else { Ok(()) }
    }
}

/// The client's memory, accessed over its connection.
pub struct ClientMemory(pub Rc<Line>);

impl Remote for ClientMemory {
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let mut at = address;
        for part in into.chunks_mut(self.0.data_bytes_max.get()) {
            self.0.read_at(at, part)?;
            at = at.wrapping_add(part.len() as u64); // wraps at most after the last part
        }
        Ok(())
    }

    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        let mut at = address;
        for part in from.chunks(self.0.data_bytes_max.get()) {
            self.0.write_at(at, part)?;
            at = at.wrapping_add(part.len() as u64); // wraps at most after the last part
        }
        Ok(())
    }
}
